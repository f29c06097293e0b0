"""What can be audited: a mechanism by name, a callable, a question to a schema.

The registered data are not opened and no ledger is: what is drawn from is made up, and what is told costs nothing.
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
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.custodian import measure
from discreet.custodian.measure import ExactInputs
from discreet.errors import DiscreetError, InvalidInput, Unavailable, Unsupported
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.hierarchical import HierarchicalHistogram
from discreet.numeric import as_int, format_exact
from discreet.planner.plan import NoisyResult, Plan, PublicConstant
from discreet.planner.planner import plan
from discreet.query.validate import Question, parse_question
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.verification.audit.audit import Audit, Claim, Mechanism, audit_mechanism, find_worst_pair
from discreet.verification.replays.assertions import find_boundary_values, generate_neighbors
from discreet.verification.replays.neighbors import Pair, Row, Rows, limit_units

CALL_HINT = "it is called as mechanism(D, n)"
MAX_MESSAGE_LENGTH = 200


def load_mechanism(place: str) -> Mechanism:
    """The callable at module:function, or at file.py:function; whatever it raises is told in a sentence."""
    home, _, name = place.rpartition(":")
    module = _load_module(home)
    function = getattr(module, name, None)
    if not callable(function):
        raise InvalidInput(f"there is no function at {place[:80]!r}; {CALL_HINT}")
    return _guard_mechanism(function, place, module.__file__)


def _load_module(home: str) -> ModuleType:
    try:
        return _import_file(Path(home)) if home.endswith(".py") else _import_named_module(home)
    except (DiscreetError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit, in somebody else's code
        raise InvalidInput(f"{home[:80]!r} could not be loaded: {_explain_load_error(error, home)}") from None


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
    """The same, but that it failed is an error of the caller's."""

    def sample(data: Any, n: int) -> object:
        try:
            outputs = mechanism(data, n)
            return list(outputs) if isinstance(outputs, Iterator) else outputs
        except (DiscreetError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit, in somebody else's code
            raise InvalidInput(f"{place[:80]!r} failed{_explain_error(error, file)}; {CALL_HINT}") from None

    return sample


def _explain_error(error: BaseException, file: str | None) -> str:
    """Where in a file something failed, and what it said."""
    line = _find_line(error, file)
    where, message = f" at line {line}" if line else "", _take_first_line(str(error))
    return f"{where} with {type(error).__name__}" + (f": {message}" if message else "")


def _find_line(error: BaseException, file: str | None) -> int | None:
    """The innermost line of this file that the error passed."""
    line, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _take_first_line(message: str) -> str:
    first = message.strip().partition("\n")[0]
    return "".join(character if character.isprintable() else " " for character in first)[:MAX_MESSAGE_LENGTH]


MAX_TEXT_LENGTH = 100
MAX_COLUMNS_NAMED = 3
"""So many of the columns in which two rows differ are told, those first that the question is about."""

TextPair = tuple[str, str]


def describe_inputs(pair: tuple[Any, Any]) -> TextPair:
    """Two inputs as JSON, cut where they are long."""
    first, second = (_truncate_text(json.dumps(data)) for data in pair)
    return first, second


def describe_tables(planned: Plan, pair: Pair) -> TextPair:
    """How many rows either table has, and what is in it alone."""
    rows = [Counter(tuple(row.items()) for row in table) for table in pair]
    extra_rows = [[dict(row) for row in (first - second).elements()] for first, second in (rows, rows[::-1])]
    names = _select_differing_columns(planned, extra_rows)
    first, second = (
        _describe_table(planned, table, alone, names) for table, alone in zip(pair, extra_rows, strict=True)
    )
    return first, second


def _select_differing_columns(planned: Plan, extra_rows: Sequence[Rows]) -> list[str]:
    """The columns in which the rows differ, those that the question is about first."""
    query = planned.query
    query_columns = (
        {key.column for key in query.keys}
        | {aggregate.column for aggregate in query.aggregates}
        | set(find_boundary_values(query))
    )
    differ = [
        name for name in planned.schema.columns if len({row.get(name) for rows in extra_rows for row in rows}) > 1
    ]
    all_columns = [] if all(extra_rows) else list(planned.schema.columns)
    return sorted(all_columns or differ, key=lambda name: name not in query_columns)[:MAX_COLUMNS_NAMED]


def _describe_table(planned: Plan, table: Rows, alone: Rows, names: Sequence[str]) -> str:
    size = f"{len(table)} row{'' if len(table) == 1 else 's'}"
    if not alone:
        return size
    first = ", ".join(f"{name} {_format_cell(planned, alone[0], name)}" for name in names)
    separator = ": " if len(alone) == 1 else ", such as "
    return _truncate_text(f"{size}, {len(alone)} of them not in the other" + (f"{separator}{first}" if first else ""))


def _format_cell(planned: Plan, row: Row, name: str) -> str:
    code = row.get(name)
    if code is None:
        return "missing"
    value = planned.schema.columns[name].decode(code) if isinstance(code, int) else code
    return format_exact(value) if isinstance(value, Fraction) else str(value)


def _truncate_text(text: str) -> str:
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[: MAX_TEXT_LENGTH - 1]}…"


BATCH_SIZE = 50_000
BATCH_NUMBERS, SINGLE_ANSWERS = 1_000_000, 10_000
"""How many numbers, and how many answers that are drawn one by one, an audit draws unless it is told."""
DEFAULT_PAIRS, MAX_PAIRS = 32, 1024
"""How many pairs are made up, and how many at most where none of them moves the answer."""
MAX_NUMBERS = 500
"""Of an answer: those of some hundreds are drawn and read within a minute or so."""
HIDDEN_VALUE = -(2**40)
"""In place of the numbers of a key that is not shown."""


@dataclass(frozen=True, eq=False, slots=True)
class AuditedQuestion:
    """A question as it is planned, and pairs of made-up neighbours whose inputs differ."""

    plan: Plan
    pairs: tuple[Pair, ...]

    @staticmethod
    def of(
        schema: Schema,
        question: Question,
        epsilon: object,
        delta: object = None,
        model: str | None = None,
        pairs: int = DEFAULT_PAIRS,
    ) -> AuditedQuestion:
        """Plan a question, and generate so many pairs; more of them where none moves anything, until some do."""
        declared = limit_units(schema)
        planned = plan(declared, parse_question(question, declared), epsilon, delta, model=model)
        _require_few_numbers(planned)
        count, neighbors = as_int(pairs, "how many pairs"), generate_neighbors(planned)
        if all(isinstance(measurement, PublicConstant) for measurement in planned.measurements):
            return AuditedQuestion(planned, (next(neighbors),))  # public: there is nothing that a pair could move
        for _ in range(max(MAX_PAIRS // count, 1)):
            if differing := {
                repr(inputs): pair for pair in islice(neighbors, count) if (inputs := _collect_inputs(planned, pair))
            }:
                return AuditedQuestion(planned, tuple(differing.values()))
        raise Unsupported("no pair of made-up neighbours moves this answer; nothing was audited")

    @property
    def is_batched(self) -> bool:
        """Whether all its noise is drawn at once."""
        return self.plan.threshold is None and all(
            isinstance(measurement, AdditiveNoise | PublicConstant) for measurement in self.plan.measurements
        )

    @property
    def default_draws(self) -> int:
        """As many as take some seconds."""
        return max(BATCH_NUMBERS // len(self.plan.list_cells()), SINGLE_ANSWERS) if self.is_batched else SINGLE_ANSWERS

    def build_mechanism(self) -> AnswerMechanism:
        """What draws its answers."""
        keys: tuple[str, ...] = ()
        if self.plan.threshold is not None:
            counts = (
                measure.count_key_units(self.plan, _build_source(self.plan, rows))
                for pair in self.pairs
                for rows in pair
            )
            keys = tuple(sorted(set().union(*counts)))
        return AnswerMechanism(self.plan, keys)


def _require_few_numbers(planned: Plan) -> None:
    """An answer of more numbers would take minutes."""
    numbers = 0 if planned.threshold is not None else len(planned.list_cells()) * len(planned.measurements)
    if numbers > MAX_NUMBERS:
        raise InvalidInput(f"an audit takes answers of at most {MAX_NUMBERS} numbers; ask for fewer groups")


def _collect_inputs(planned: Plan, pair: Pair) -> list[object]:
    """What both tables give the mechanisms, in a form that compares; nothing where it is the same."""
    first, second = (_read_inputs(planned, rows) for rows in pair)
    return [] if first == second else [first, second]


def _read_inputs(planned: Plan, rows: Rows) -> object:
    source = _build_source(planned, rows)
    if planned.threshold is not None:
        return sorted(measure.count_key_units(planned, source).items()), _convert_to_lists(
            _read_exact(planned, source, rows)
        )
    return _convert_to_lists(measure.read_exact_inputs(planned, source, planned.list_cells(), planned.query.where))


def _read_exact(planned: Plan, source: MemorySource, rows: Rows) -> ExactInputs:
    keys = sorted({str(row[planned.query.keys[0].column]) for row in rows})
    return measure.read_exact_inputs(planned, source, [(key,) for key in keys], planned.query.where)


def _convert_to_lists(secret: ExactInputs) -> list[object]:
    """Made-up inputs as lists."""
    return [[np.asarray(values).tolist() for values in inputs] for inputs in secret.inputs]


def _build_source(planned: Plan, rows: Rows) -> MemorySource:
    return MemorySource(planned.schema, rows)


@dataclass(frozen=True, eq=False, slots=True)
class AnswerMechanism:
    """Draws the numbers that an answer releases, many times, by the code that draws an answer."""

    plan: Plan
    keys: tuple[str, ...]
    """The private keys that some table has."""

    def __call__(self, rows: Rows, n: int) -> NDArray[np.int64] | list[list[int]]:
        source = _build_source(self.plan, rows)
        numbers = (
            self._sample_thresholded(source, n) if self.plan.threshold is not None else self._sample_cells(source, n)
        )
        return _build_rows(list(numbers), n)

    def _sample_cells(self, source: MemorySource, count: int) -> Iterator[int]:
        """The exact inputs are read once; where every cell is drawn apart, those of many answers stand in a row."""
        cells = self.plan.list_cells()
        secret = measure.read_exact_inputs(self.plan, source, cells, self.plan.query.where)
        nested = any(isinstance(measurement, HierarchicalHistogram) for measurement in self.plan.measurements)
        batch_size = 1 if nested else max(BATCH_SIZE // len(cells), 1)
        for start in range(0, count, batch_size):
            size = min(batch_size, count - start)
            batch = ExactInputs([*cells] * size, [[*inputs] * size for inputs in secret.inputs])
            yield from _flatten_numbers(measure.sample_noisy_outputs(self.plan, batch, [0] * len(batch.cells)))

    def _sample_thresholded(self, source: MemorySource, count: int) -> Iterator[int]:
        """Keys that are not public are chosen anew for every answer; those that are not shown have numbers too."""
        hidden = (HIDDEN_VALUE,) * self._count_numbers()
        for _ in range(count):
            released = measure.measure_plan(self.plan, source)
            pairs = zip(released.cells, released.numbers, strict=True)
            visible = {cell[0]: tuple(chain.from_iterable(numbers)) for cell, numbers in pairs}
            yield from chain.from_iterable(visible.get(key, hidden) for key in self.keys)

    def _count_numbers(self) -> int:
        """How many numbers are told of each key."""
        empty = measure.read_exact_inputs(self.plan, _build_source(self.plan, []), [("",)], self.plan.query.where)
        return len(list(_flatten_numbers(measure.sample_noisy_outputs(self.plan, empty, [0]))))


def _flatten_numbers(released: NoisyResult) -> Iterator[int]:
    return chain.from_iterable(chain.from_iterable(released.numbers))


def _build_rows(numbers: list[int], count: int) -> NDArray[np.int64] | list[list[int]]:
    """A row for each answer: an array where 64 bits hold all numbers."""
    try:
        return np.array(numbers, dtype=np.int64).reshape(count, -1)
    except OverflowError:
        width = len(numbers) // count
        return [numbers[start : start + width] for start in range(0, len(numbers), width)]


PROGRESS_PARTS = 20
MIN_SPLIT_DRAWS = 1000
"""Fewer draws are made in one go."""
DEFAULT_DRAWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """A mechanism, pairs of neighbours, the claim, and how many draws are made unless told."""

    name: str
    mechanism: Mechanism
    pairs: tuple[tuple[Any, Any], ...]
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    draws: int = DEFAULT_DRAWS
    note: str = ""
    """What has to be said of it besides."""
    pair_descriptions: tuple[tuple[str, str], ...] = field(kw_only=True)
    """Each of the pairs, in a few words."""

    def audit(
        self, draws: int | None, confidence: Fraction, show: Callable[[str], None]
    ) -> tuple[Audit, tuple[str, str]]:
        """Audit the worst of the pairs; which one that is, in words, comes second."""
        count = self.draws if draws is None else draws
        claim = Claim.of(self.epsilon, self.delta, count, confidence)
        claim_terms = self.epsilon, self.delta, count, confidence
        try:
            worst_pair = find_worst_pair(self.mechanism, self.pairs, claim, show)
            return audit_mechanism(
                self.mechanism, *self.pairs[worst_pair], *claim_terms, progress=show
            ), self.pair_descriptions[worst_pair]
        except MemoryError:
            raise Unavailable(f"{count:,} draws do not fit in the memory of this machine; ask for fewer") from None

    def add_progress(self, show: Callable[[str], None]) -> Target:
        """The same, telling how many draws are done; for what draws afresh in every call."""
        return replace(self, mechanism=split_into_parts(self.mechanism, show))


def list_mechanism_names() -> tuple[str, ...]:
    """The mechanisms of ours."""
    from discreet.verification.audit.known_mechanisms import MECHANISM_BUILDERS

    return tuple(MECHANISM_BUILDERS)


def build_named_target(name: str, epsilon: Fraction, delta: Fraction | None) -> Target:
    """A mechanism of ours with neighbours of its own."""
    from discreet.verification.audit.known_mechanisms import get_known_mechanism

    known_mechanism = get_known_mechanism(name, epsilon, delta)
    words = (describe_inputs(known_mechanism.pair),)
    return Target(
        name,
        known_mechanism.mechanism,
        (known_mechanism.inputs,),
        epsilon,
        known_mechanism.delta,
        known_mechanism.draws,
        pair_descriptions=words,
    )


def build_callable_target(
    place: str, pair: tuple[str, str] | None, epsilon: Fraction, delta: Fraction | None
) -> Target:
    """A callable in a module, or in a file, as module:function; its data sets are given as JSON."""

    if pair is None:
        raise InvalidInput("a callable needs two neighbours, as JSON: --pair 0 1, or --pair '[1, 2]' '[1, 2, 3]'")
    data = _parse_data(pair[0]), _parse_data(pair[1])
    words = describe_inputs(data)
    if json.dumps(data[0]) == json.dumps(data[1]):
        raise InvalidInput("D and D2 are the same; give two neighbours")
    return Target(place, load_mechanism(place), (data,), epsilon, delta or Fraction(0), pair_descriptions=(words,))


def build_question_target(
    schema: str,
    question: str,
    epsilon: Fraction,
    delta: Fraction | None,
    model: str | None = None,
    pairs: int | None = None,
) -> Target:
    """A question as it would be answered, on generated neighbours: the data are not opened and nothing is charged."""
    from discreet.schema import load_schema

    audited_question = AuditedQuestion.of(
        load_schema(schema), question, epsilon, delta, model, DEFAULT_PAIRS if pairs is None else pairs
    )
    if audited_question.plan.is_free:
        raise Unsupported("nothing is drawn: this answer is public by the schema; there is nothing to audit")
    promised = audited_question.plan.guarantee
    note = f"{audited_question.plan.mechanism}; {promised.words()}"
    claimed = promised.epsilon or epsilon, promised.delta or Fraction(0)
    words = tuple(describe_tables(audited_question.plan, pair) for pair in audited_question.pairs)
    return Target(
        question,
        audited_question.build_mechanism(),
        audited_question.pairs,
        *claimed,
        audited_question.default_draws,
        note,
        pair_descriptions=words,
    )


def split_into_parts(mechanism: Mechanism, show: Callable[[str], None]) -> Mechanism:
    """The same draws in twenty calls, so that a bar can fill."""

    def sample(data: Any, n: int) -> object:
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
