"""The targets of an audit: a mechanism by name, a callable, or a question to a schema.

Questions are answered on generated tables: neither the registered data nor a ledger is opened, and nothing is charged.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Unpack, cast

import numpy as np
from numpy.typing import NDArray

from discreet.custodian import measure
from discreet.custodian.measure import ExactInputs
from discreet.errors import DiscreetError, InvalidInput, Unavailable, Unsupported
from discreet.numeric import as_int, format_exact
from discreet.planner.options import QueryKeywords
from discreet.planner.plan import NoisyResult, Plan
from discreet.planner.planner import plan
from discreet.query import Question, parse_question
from discreet.query.scan import Cell
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.verification.audit.audit import Audit, Claim, Mechanism, audit_mechanism, find_worst_pair
from discreet.verification.replays.assertions import find_boundary_values, generate_neighbors
from discreet.verification.replays.neighbors import Pair, Row, Rows, limit_units

CALL_HINT = "it is called as mechanism(D, n)"
MAX_MESSAGE_LENGTH = 200
MAX_TEXT_LENGTH = 100
MAX_COLUMNS_NAMED = 3
"""The most columns shown in which two rows differ, those of the question first."""
BATCH_SIZE = 50_000
BATCH_NUMBERS, SINGLE_ANSWERS = 1_000_000, 10_000
"""Default draws: numbers, and answers that are drawn one by one."""
DEFAULT_PAIRS, MAX_PAIRS = 32, 1024
"""How many pairs are generated, and at most until one of them moves the answer."""
MAX_NUMBERS = 500
"""The most numbers of an answer: they are drawn and read within about a minute."""
HIDDEN_VALUE = -(2**40)
"""Stands for the numbers of a key that is not released."""
PROGRESS_PARTS = 20
MIN_SPLIT_DRAWS = 1000
"""Fewer draws are made in one call."""
DEFAULT_DRAWS = 1_000_000
TextPair = tuple[str, str]


def load_mechanism(place: str) -> Mechanism:
    """Load the callable at module:function, or at file.py:function; its errors become errors of the caller."""
    home, _, name = place.rpartition(":")
    try:
        module = _import_file(Path(home)) if home.endswith(".py") else _import_named_module(home)
    except (DiscreetError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit, in somebody else's code
        raise InvalidInput(f"{home[:80]!r} could not be loaded: {_explain_load_error(error, home)}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise InvalidInput(f"there is no function at {place[:80]!r}; {CALL_HINT}")
    return _guard_mechanism(function, place, module.__file__)


def _explain_load_error(error: BaseException, home: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"it imports {error.name[:80]!r}, which is not installed"
    if isinstance(error, SyntaxError):
        return f"SyntaxError at line {error.lineno}: {_take_first_line(error.msg)}"
    return f"it failed{_explain_error(error, str(Path(home).absolute()))}"


def _build_absent_error(home: str) -> InvalidInput:
    return InvalidInput(f"there is no {home[:80]!r} to load; write module:function or file.py:function")


def _import_named_module(name: str) -> ModuleType:
    """A module, also one in this folder."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise _build_absent_error(name)
    if "" not in sys.path:
        sys.path.append("")  # at the end, so that no file here stands in for a library
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            raise _build_absent_error(name) from None
        raise


def _import_file(path: Path) -> ModuleType:
    """A file, as a module of a name that no library has; a dataclass in it looks itself up by that."""
    spec = importlib.util.spec_from_file_location(f"audited {path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise _build_absent_error(str(path))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _guard_mechanism(mechanism: Callable[..., object], place: str, file: str | None) -> Mechanism:
    """The mechanism, with its failures as errors of the caller."""

    def sample(data: object, n: int) -> object:
        try:
            outputs = mechanism(data, n)
            return list(outputs) if isinstance(outputs, Iterator) else outputs
        except (DiscreetError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit, in somebody else's code
            raise InvalidInput(f"{place[:80]!r} failed{_explain_error(error, file)}; {CALL_HINT}") from None

    return sample


def _explain_error(error: BaseException, file: str | None) -> str:
    """The innermost line of this file that the error passed, and its message."""
    frames = walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == file]
    where, message = f" at line {lines[-1]}" if lines else "", _take_first_line(str(error))
    return f"{where} with {type(error).__name__}" + (f": {message}" if message else "")


def _take_first_line(message: str) -> str:
    first = message.strip().partition("\n")[0]
    return "".join(character if character.isprintable() else " " for character in first)[:MAX_MESSAGE_LENGTH]


def describe_inputs(pair: tuple[object, object]) -> TextPair:
    """Format two inputs as JSON, truncated if they are long."""
    first, second = (_truncate_text(json.dumps(data)) for data in pair)
    return first, second


def describe_tables(planned: Plan, pair: Pair) -> TextPair:
    """Describe either table: how many rows it has, and those that the other one lacks."""
    counts, other_counts = (Counter(tuple(row.items()) for row in table) for table in pair)
    extra_rows = [dict(row) for row in (counts - other_counts).elements()]
    other_extra_rows = [dict(row) for row in (other_counts - counts).elements()]
    names = _select_differing_columns(planned, [extra_rows, other_extra_rows])
    first = _describe_table(planned, pair[0], extra_rows, names)
    return first, _describe_table(planned, pair[1], other_extra_rows, names)


def _select_differing_columns(planned: Plan, extra_rows: Sequence[Rows]) -> list[str]:
    """The columns in which the rows differ, those that the question is about first."""
    query, names = planned.query, list(planned.schema.columns)
    query_columns = {key.column for key in query.keys} | {aggregate.column for aggregate in query.aggregates}
    query_columns |= find_boundary_values(query).keys()
    if all(extra_rows):
        names = [name for name in names if len({row.get(name) for rows in extra_rows for row in rows}) > 1]
    return sorted(names, key=lambda name: name not in query_columns)[:MAX_COLUMNS_NAMED]


def _describe_table(planned: Plan, table: Rows, extra_rows: Rows, names: Sequence[str]) -> str:
    size = f"{len(table)} row{'' if len(table) == 1 else 's'}"
    if not extra_rows:
        return size
    first = ", ".join(f"{name} {_format_cell(planned, extra_rows[0], name)}" for name in names)
    separator = ": " if len(extra_rows) == 1 else ", such as "
    extra = f"{size}, {len(extra_rows)} of them not in the other"
    return _truncate_text(extra + (f"{separator}{first}" if first else ""))


def _format_cell(planned: Plan, row: Row, name: str) -> str:
    code = row.get(name)
    if code is None:
        return "missing"
    value = planned.schema.columns[name].decode(code) if isinstance(code, int) else code
    return format_exact(value) if isinstance(value, Fraction) else str(value)


def _truncate_text(text: str) -> str:
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[: MAX_TEXT_LENGTH - 1]}…"


@dataclass(frozen=True, eq=False, slots=True)
class AuditedQuestion:
    """A planned question, and pairs of generated neighbors whose inputs differ."""

    plan: Plan
    pairs: tuple[Pair, ...]

    @staticmethod
    def of(
        schema: Schema,
        question: Question,
        epsilon: object = None,
        pairs: int = DEFAULT_PAIRS,
        **options: Unpack[QueryKeywords],
    ) -> AuditedQuestion:
        """Plan a question and generate pairs; more of them, until one changes the inputs."""
        small_schema = limit_units(schema)
        planned = plan(small_schema, parse_question(question, small_schema), epsilon, **options)
        numbers = 0 if planned.threshold is not None else len(planned.list_cells()) * len(planned.readings)
        if numbers > MAX_NUMBERS:  # they would take minutes
            raise InvalidInput(f"an audit takes answers of at most {MAX_NUMBERS} numbers; ask for fewer groups")
        count, neighbors = as_int(pairs, "how many pairs"), generate_neighbors(planned)
        if planned.is_free:
            return AuditedQuestion(planned, (next(neighbors),))  # public: no pair changes anything
        for _ in range(max(MAX_PAIRS // count, 1)):
            if differing := {
                repr(inputs): pair for pair in islice(neighbors, count) if (inputs := _collect_inputs(planned, pair))
            }:
                return AuditedQuestion(planned, tuple(differing.values()))
        raise Unsupported("no pair of made-up neighbours moves this answer; nothing was audited")

    @property
    def is_batched(self) -> bool:
        """Whether the noise of many answers is sampled at once."""
        return self.plan.threshold is None and all(measurement.is_batched for measurement in self.plan.measurements)

    @property
    def default_draws(self) -> int:
        """The number of draws that takes some seconds."""
        return max(BATCH_NUMBERS // len(self.plan.list_cells()), SINGLE_ANSWERS) if self.is_batched else SINGLE_ANSWERS

    def build_mechanism(self) -> AnswerMechanism:
        """Build the mechanism that samples its answers."""
        if self.plan.threshold is None:
            return AnswerMechanism(self.plan, ())
        sources = (MemorySource(self.plan.schema, rows) for rows in chain.from_iterable(self.pairs))
        keys = set().union(*(measure.count_key_units(self.plan, source) for source in sources))
        return AnswerMechanism(self.plan, tuple(sorted(keys)))


def _collect_inputs(planned: Plan, pair: Pair) -> list[object]:
    """The exact inputs from both tables, in a form that compares; empty if they are equal."""
    first, second = (_read_inputs(planned, rows) for rows in pair)
    return [] if first == second else [first, second]


def _read_inputs(planned: Plan, rows: Rows) -> object:
    source = MemorySource(planned.schema, rows)
    key_counts: dict[str, int] = {}
    cells: Sequence[Cell] = []
    if planned.threshold is None:
        cells = planned.list_cells()
    else:
        key_counts = measure.count_key_units(planned, source)
        cells = [(key,) for key in sorted({str(row[planned.query.keys[0].column]) for row in rows})]
    exact_inputs = measure.read_exact_inputs(planned, source, cells, planned.query.where).inputs
    return sorted(key_counts.items()), [[np.asarray(values).tolist() for values in inputs] for inputs in exact_inputs]


@dataclass(frozen=True, eq=False, slots=True)
class AnswerMechanism:
    """Samples the numbers that an answer releases, many times, by the code that samples a real answer."""

    plan: Plan
    keys: tuple[str, ...]
    """The private keys that some table has."""

    def __call__(self, rows: Rows, n: int) -> NDArray[np.int64] | list[list[int]]:
        source = MemorySource(self.plan.schema, rows)
        sample = self._sample_cells if self.plan.threshold is None else self._sample_thresholded
        return _build_rows(list(sample(source, n)), n)

    def _sample_cells(self, source: MemorySource, count: int) -> Iterator[int]:
        """The exact inputs are read once; where cells are sampled apart, the cells of many answers are one batch."""
        cells = self.plan.list_cells()
        exact_inputs = measure.read_exact_inputs(self.plan, source, cells, self.plan.query.where).inputs
        batch_size = 1 if self.plan.hierarchy is not None else max(BATCH_SIZE // len(cells), 1)
        for start in range(0, count, batch_size):
            size = min(batch_size, count - start)
            batch = ExactInputs([*cells] * size, [[*inputs] * size for inputs in exact_inputs])
            yield from _flatten_numbers(measure.sample_noisy_outputs(self.plan, batch))

    def _sample_thresholded(self, source: MemorySource, count: int) -> Iterator[int]:
        """Private keys are chosen anew for every answer; those that are not released have numbers too."""
        no_rows = MemorySource(self.plan.schema, [])
        empty = measure.read_exact_inputs(self.plan, no_rows, [("",)], self.plan.query.where, [0])
        numbers_per_key = len(list(_flatten_numbers(measure.sample_noisy_outputs(self.plan, empty))))
        hidden = (HIDDEN_VALUE,) * numbers_per_key
        for _ in range(count):
            released = measure.measure_plan(self.plan, source)
            pairs = zip(released.cells, released.numbers, strict=True)
            visible = {cell[0]: tuple(chain.from_iterable(numbers)) for cell, numbers in pairs}
            yield from chain.from_iterable(visible.get(key, hidden) for key in self.keys)


def _flatten_numbers(released: NoisyResult) -> Iterator[int]:
    return chain.from_iterable(chain.from_iterable(released.numbers))


def _build_rows(numbers: list[int], count: int) -> NDArray[np.int64] | list[list[int]]:
    """A row for each answer: an array if 64 bits hold all numbers."""
    try:
        return np.array(numbers, dtype=np.int64).reshape(count, -1)
    except OverflowError:
        width = len(numbers) // count
        return [numbers[start : start + width] for start in range(0, len(numbers), width)]


@dataclass(frozen=True, slots=True)
class Target:
    """A mechanism, pairs of neighbors, the claim, and the default number of draws."""

    name: str
    mechanism: Mechanism
    pairs: tuple[tuple[object, object], ...]
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    draws: int = DEFAULT_DRAWS
    note: str = ""
    """A remark for the report."""
    pair_descriptions: tuple[TextPair, ...] = field(kw_only=True)

    def audit(self, draws: int | None, confidence: Fraction, show: Callable[[str], None]) -> tuple[Audit, TextPair]:
        """Audit the worst of the pairs, and return its description too."""
        count = self.draws if draws is None else draws
        terms = self.epsilon, self.delta, count, confidence
        claim = Claim.of(*terms)
        try:
            worst = find_worst_pair(self.mechanism, self.pairs, claim, show)
            audit = audit_mechanism(self.mechanism, *self.pairs[worst], *terms, progress=show)
            return audit, self.pair_descriptions[worst]
        except MemoryError:
            raise Unavailable(f"{count:,} draws do not fit in the memory of this machine; ask for fewer") from None

    def add_progress(self, show: Callable[[str], None]) -> Target:
        """Return the target with progress; for mechanisms whose calls are independent."""
        return replace(self, mechanism=split_into_parts(self.mechanism, show))


def list_mechanism_names() -> tuple[str, ...]:
    """Return the names of our own mechanisms."""
    from discreet.verification.audit.known_mechanisms import MECHANISM_BUILDERS

    return tuple(MECHANISM_BUILDERS)


def build_named_target(name: str, epsilon: Fraction, delta: Fraction | None) -> Target:
    """Build the target of one of our own mechanisms, with its own neighbors."""
    from discreet.verification.audit.known_mechanisms import get_known_mechanism

    known = get_known_mechanism(name, epsilon, delta)
    pairs, descriptions = (known.inputs,), (describe_inputs(known.pair),)
    return Target(name, known.mechanism, pairs, epsilon, known.delta, known.draws, pair_descriptions=descriptions)


def build_callable_target(
    place: str, pair: tuple[str, str] | None, epsilon: Fraction, delta: Fraction | None
) -> Target:
    """Build the target of a callable, given as module:function or file.py:function, with its data sets as JSON."""
    if pair is None:
        raise InvalidInput("a callable needs two neighbours, as JSON: --pair 0 1, or --pair '[1, 2]' '[1, 2, 3]'")
    data = _parse_data(pair[0]), _parse_data(pair[1])
    if json.dumps(data[0]) == json.dumps(data[1]):
        raise InvalidInput("D and D2 are the same; give two neighbours")
    mechanism, descriptions = load_mechanism(place), (describe_inputs(data),)
    return Target(place, mechanism, (data,), epsilon, delta or Fraction(0), pair_descriptions=descriptions)


def build_question_target(
    schema: str,
    question: str,
    epsilon: Fraction,
    delta: Fraction | None,
    model: str | None = None,
    pairs: int | None = None,
    mechanism: str | None = None,
) -> Target:
    """Build the target of a question as it would be answered, on generated neighbors."""
    from discreet.schema import load_schema

    pair_count = DEFAULT_PAIRS if pairs is None else pairs
    options: QueryKeywords = {"delta": delta, "model": model, "mechanism": mechanism}
    audited = AuditedQuestion.of(load_schema(schema), question, epsilon, pair_count, **options)
    planned, guarantee = audited.plan, audited.plan.guarantee
    if planned.is_free:
        raise Unsupported("nothing is drawn: this answer is public by the schema; there is nothing to audit")
    claim = guarantee.epsilon or epsilon, guarantee.delta or Fraction(0)
    terms = *claim, audited.default_draws, f"{planned.mechanism}; {guarantee.words()}"
    descriptions = tuple(describe_tables(planned, pair) for pair in audited.pairs)
    return Target(question, audited.build_mechanism(), audited.pairs, *terms, pair_descriptions=descriptions)


def split_into_parts(mechanism: Mechanism, show: Callable[[str], None]) -> Mechanism:
    """Return the mechanism split into calls that show progress."""

    def sample(data: object, n: int) -> object:
        if n < MIN_SPLIT_DRAWS:
            return mechanism(data, n)
        parts = []
        for index in range(PROGRESS_PARTS):
            show(f"drawing: {index} of {PROGRESS_PARTS}")
            parts.append(mechanism(data, (index + 1) * n // PROGRESS_PARTS - index * n // PROGRESS_PARTS))
        arrays = [part for part in parts if isinstance(part, np.ndarray)]
        if len(arrays) == PROGRESS_PARTS:
            return np.concatenate(arrays)
        return [output for part in parts for output in cast("list[object]", part)]

    return sample


def _parse_data(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidInput(f"a data set is given as JSON, such as 0 or '[1, 2]', got {text[:40]!r}") from None
