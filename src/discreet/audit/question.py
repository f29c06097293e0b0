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
from discreet.custodian.draw import Exact, Released
from discreet.custodian.question import Question, read
from discreet.errors import InvalidInput, Unsupported
from discreet.exact import whole
from discreet.planner.choose import plan
from discreet.planner.nested import Nested
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Known, Plan
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.testing.generated import Pair, Rows, of_fewer_units
from discreet.testing.private import neighbours_for

AT_ONCE = 50_000
MANY, FEW = 1_000_000, 10_000
"""How many numbers, and how many answers that are drawn one by one, an audit draws unless it is told."""
PAIRS, MOST_PAIRS = 32, 1024
"""How many pairs are made up, and how many at most where none of them moves the answer."""
MOST_NUMBERS = 500
"""Of an answer: those of some hundreds are drawn and read within a minute or so."""
HIDDEN = -(2**40)
"""In place of the numbers of a key that is not shown."""


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
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
        pairs: int = PAIRS,
    ) -> Asked:
        """Plan a question, and generate so many pairs; more of them where none moves anything, until some do."""
        declared = of_fewer_units(schema)
        planned = plan(declared, read(question, declared), epsilon, delta, model=model)
        _few_enough(planned)
        count, made = whole(pairs, "how many pairs"), neighbours_for(planned)
        if all(isinstance(one, Known) for one in planned.measurements):
            return Asked(planned, (next(made),))  # public: there is nothing that a pair could move
        for _ in range(max(MOST_PAIRS // count, 1)):
            if apart := {repr(inputs): pair for pair in islice(made, count) if (inputs := _inputs(planned, pair))}:
                return Asked(planned, tuple(apart.values()))
        raise Unsupported("no pair of made-up neighbours moves this answer; nothing was audited")

    @property
    def batched(self) -> bool:
        """Whether all its noise is drawn at once."""
        return self.plan.threshold is None and all(isinstance(one, Noisy | Known) for one in self.plan.measurements)

    @property
    def default_draws(self) -> int:
        """As many as take some seconds."""
        return max(MANY // len(self.plan.cells()), FEW) if self.batched else FEW

    def mechanism(self) -> Answers:
        """What draws its answers."""
        keys: tuple[str, ...] = ()
        if self.plan.threshold is not None:
            counts = (draw.units(self.plan, _source(self.plan, rows)) for pair in self.pairs for rows in pair)
            keys = tuple(sorted(set().union(*counts)))
        return Answers(self.plan, keys)


def _few_enough(planned: Plan) -> None:
    """An answer of more numbers would take minutes."""
    numbers = 0 if planned.threshold is not None else len(planned.cells()) * len(planned.measurements)
    if numbers > MOST_NUMBERS:
        raise InvalidInput(f"an audit takes answers of at most {MOST_NUMBERS} numbers; ask for fewer groups")


def _inputs(planned: Plan, pair: Pair) -> list[object]:
    """What both tables give the mechanisms, in a form that compares; nothing where it is the same."""
    one, two = (_told(planned, rows) for rows in pair)
    return [] if one == two else [one, two]


def _told(planned: Plan, rows: Rows) -> object:
    source = _source(planned, rows)
    if planned.threshold is not None:
        return sorted(draw.units(planned, source).items()), _plain(_exact(planned, source, rows))
    return _plain(draw.exact(planned, source, planned.cells(), planned.query.where))


def _exact(planned: Plan, source: MemorySource, rows: Rows) -> Exact:
    keys = sorted({str(row[planned.query.keys[0].column]) for row in rows})
    return draw.exact(planned, source, [(key,) for key in keys], planned.query.where)


def _plain(secret: Exact) -> list[object]:
    """Made-up inputs as lists."""
    return [[np.asarray(given).tolist() for given in inputs] for inputs in secret.inputs]


def _source(planned: Plan, rows: Rows) -> MemorySource:
    return MemorySource(planned.schema, rows)


@dataclass(frozen=True, eq=False, slots=True)
class Answers:
    """Draws the numbers that an answer releases, many times, by the code that draws an answer."""

    plan: Plan
    keys: tuple[str, ...]
    """The private keys that some table has."""

    def __call__(self, rows: Rows, n: int) -> NDArray[np.int64] | list[list[int]]:
        source = _source(self.plan, rows)
        made = self._over_threshold(source, n) if self.plan.threshold is not None else self._with_cells(source, n)
        return _rows(list(made), n)

    def _with_cells(self, source: MemorySource, count: int) -> Iterator[int]:
        """The exact inputs are read once; where every cell is drawn apart, those of many answers stand in a row."""
        cells = self.plan.cells()
        secret = draw.exact(self.plan, source, cells, self.plan.query.where)
        nested = any(isinstance(one, Nested) for one in self.plan.measurements)
        most = 1 if nested else max(AT_ONCE // len(cells), 1)
        for start in range(0, count, most):
            size = min(most, count - start)
            many = Exact([*cells] * size, [[*inputs] * size for inputs in secret.inputs])
            yield from _flat(draw.release(self.plan, many, [0] * len(many.cells)))

    def _over_threshold(self, source: MemorySource, count: int) -> Iterator[int]:
        """Keys that are not public are chosen anew for every answer; those that are not shown have numbers too."""
        hidden = (HIDDEN,) * self._width()
        for _ in range(count):
            released = draw.draw(self.plan, source)
            pairs = zip(released.cells, released.numbers, strict=True)
            shown = {cell[0]: tuple(chain.from_iterable(numbers)) for cell, numbers in pairs}
            yield from chain.from_iterable(shown.get(key, hidden) for key in self.keys)

    def _width(self) -> int:
        """How many numbers are told of each key."""
        nothing = draw.exact(self.plan, _source(self.plan, []), [("",)], self.plan.query.where)
        return len(list(_flat(draw.release(self.plan, nothing, [0]))))


def _flat(released: Released) -> Iterator[int]:
    return chain.from_iterable(chain.from_iterable(released.numbers))


def _rows(numbers: list[int], count: int) -> NDArray[np.int64] | list[list[int]]:
    """A row for each answer: an array where 64 bits hold all numbers."""
    try:
        return np.array(numbers, dtype=np.int64).reshape(count, -1)
    except OverflowError:
        width = len(numbers) // count
        return [numbers[at : at + width] for at in range(0, len(numbers), width)]
