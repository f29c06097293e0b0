"""A question under audit: planned from the schema, asked of generated neighbours, drawn as an answer is drawn.

The registered data are not opened and no ledger is: what is drawn from is made up, and what is told costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from discreet.custodian import draw
from discreet.custodian.draw import ExactInputs
from discreet.custodian.question import Question, parse_question
from discreet.errors import InvalidInput, Unsupported
from discreet.exact import as_int
from discreet.planner.choose import plan
from discreet.planner.nested import HierarchicalHistogram
from discreet.planner.noisy import AdditiveNoise
from discreet.planner.plan import NoisyResult, Plan, PublicConstant
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.testing.generated import Pair, Rows, limit_units
from discreet.testing.private import generate_neighbors

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
                draw.count_key_units(self.plan, _build_source(self.plan, rows)) for pair in self.pairs for rows in pair
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
        return sorted(draw.count_key_units(planned, source).items()), _convert_to_lists(
            _read_exact(planned, source, rows)
        )
    return _convert_to_lists(draw.read_exact_inputs(planned, source, planned.list_cells(), planned.query.where))


def _read_exact(planned: Plan, source: MemorySource, rows: Rows) -> ExactInputs:
    keys = sorted({str(row[planned.query.keys[0].column]) for row in rows})
    return draw.read_exact_inputs(planned, source, [(key,) for key in keys], planned.query.where)


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
        secret = draw.read_exact_inputs(self.plan, source, cells, self.plan.query.where)
        nested = any(isinstance(measurement, HierarchicalHistogram) for measurement in self.plan.measurements)
        batch_size = 1 if nested else max(BATCH_SIZE // len(cells), 1)
        for start in range(0, count, batch_size):
            size = min(batch_size, count - start)
            batch = ExactInputs([*cells] * size, [[*inputs] * size for inputs in secret.inputs])
            yield from _flatten_numbers(draw.sample_noisy_outputs(self.plan, batch, [0] * len(batch.cells)))

    def _sample_thresholded(self, source: MemorySource, count: int) -> Iterator[int]:
        """Keys that are not public are chosen anew for every answer; those that are not shown have numbers too."""
        hidden = (HIDDEN_VALUE,) * self._count_numbers()
        for _ in range(count):
            released = draw.measure_plan(self.plan, source)
            pairs = zip(released.cells, released.numbers, strict=True)
            visible = {cell[0]: tuple(chain.from_iterable(numbers)) for cell, numbers in pairs}
            yield from chain.from_iterable(visible.get(key, hidden) for key in self.keys)

    def _count_numbers(self) -> int:
        """How many numbers are told of each key."""
        empty = draw.read_exact_inputs(self.plan, _build_source(self.plan, []), [("",)], self.plan.query.where)
        return len(list(_flatten_numbers(draw.sample_noisy_outputs(self.plan, empty, [0]))))


def _flatten_numbers(released: NoisyResult) -> Iterator[int]:
    return chain.from_iterable(chain.from_iterable(released.numbers))


def _build_rows(numbers: list[int], count: int) -> NDArray[np.int64] | list[list[int]]:
    """A row for each answer: an array where 64 bits hold all numbers."""
    try:
        return np.array(numbers, dtype=np.int64).reshape(count, -1)
    except OverflowError:
        width = len(numbers) // count
        return [numbers[start : start + width] for start in range(0, len(numbers), width)]
