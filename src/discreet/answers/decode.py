"""What is stored of an answer, decoded: into values, intervals and posteriors, laid out in rows.

Post-processing: it sees the plan and what was released, never a row.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.answers.answer import AnswerValue, IntervalRows, PosteriorRows, Rows
from discreet.measurements.base import NoisyOutputs
from discreet.numeric import format_exact
from discreet.planner.plan import NoisyResult, Plan
from discreet.priors.posterior import Posterior
from discreet.query.query import COUNT_FUNCTIONS, HavingCondition, Presentation
from discreet.query.scan import Cell
from discreet.schema import Column
from discreet.schema.schema import Interval, Value

if TYPE_CHECKING:
    from discreet.answers.hierarchical_answer import ReleasedBlocks

SURPRISE_TAIL = 0.005
"""On either side: an answer in the 1 % tails of what the prior predicts."""
COMPARISONS: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def serialize_result(plan: Plan, noisy_result: NoisyResult) -> str:
    """Serialize what is stored: the noisy outputs, and the epsilon they were drawn with."""
    numbers = [[list(part) for part in cell] for cell in noisy_result.numbers]
    payload = {"epsilon": str(plan.epsilon), "cells": [list(cell) for cell in noisy_result.cells], "numbers": numbers}
    if plan.rho is not None:
        payload["rho"] = str(plan.rho)
    return json.dumps(payload, ensure_ascii=False)


def parse_result(text: str) -> tuple[Fraction, Fraction | None, NoisyResult]:
    """Read it back: the epsilon, the rho where noise was asked for by its size, and the noisy outputs."""
    payload = json.loads(text)
    numbers = tuple(tuple(tuple(part) for part in cell) for cell in payload["numbers"])
    rho = Fraction(payload["rho"]) if "rho" in payload else None
    return Fraction(payload["epsilon"]), rho, NoisyResult(tuple(tuple(cell) for cell in payload["cells"]), numbers)


@dataclass(frozen=True, eq=False, slots=True)
class Decoder:
    """Decodes the noisy outputs of one plan, for each aggregate by its place; posteriors are computed once."""

    plan: Plan
    _posteriors: dict[tuple[int, NoisyOutputs], Posterior | None] = field(default_factory=dict)

    def decode_values(self, index: int, outputs: NoisyOutputs) -> Sequence[Value]:
        """Decode the value, or for several quantiles the values, of one aggregate."""
        return self.plan.readings[index].values(outputs)

    def compute_shown_interval(self, index: int, outputs: NoisyOutputs, confidence: float) -> Interval:
        """Compute where the exact number lies with at least this probability, of a row that is shown.

        Where rows are chosen by their noisy numbers, the intervals of all rows hold at once, so that they are wider.
        """
        if self.plan.readings[index].is_public:
            return self.compute_interval(index, outputs, confidence)
        interval_confidence = self.plan.coverage.adjust_confidence(confidence)
        return None if interval_confidence is None else self.compute_interval(index, outputs, interval_confidence)

    def compute_interval(self, index: int, outputs: NoisyOutputs, confidence: float) -> Interval:
        """Compute the interval of a number by itself, of a row not chosen by it; None where there is none in values."""
        return self.plan.readings[index].interval(outputs, confidence)

    def compute_posterior(self, index: int, outputs: NoisyOutputs) -> Posterior | None:
        """Compute what is known to someone who held the prior; None without one, or where the law is not public."""
        if (index, outputs) not in self._posteriors:
            self._posteriors[index, outputs] = self.plan.readings[index].posterior(outputs)
        return self._posteriors[index, outputs]

    def is_surprising(self, index: int, outputs: NoisyOutputs) -> bool:
        """Whether the raw answer lies in the 1 % tails of what the prior predicts."""
        return self.plan.readings[index].is_surprising(outputs, SURPRISE_TAIL)


@dataclass(frozen=True, eq=False, slots=True)
class ShownNumbers:
    """The noisy outputs of the cells that are rows of a reply, in their order; intervals are computed once."""

    decoder: Decoder
    noisy_result: NoisyResult
    order: tuple[int, ...]
    rows: Rows
    _intervals: dict[float, IntervalRows] = field(default_factory=dict)

    @property
    def labels(self) -> list[tuple[str, int]]:
        """The numbers of a reply by name, and the measurement each is of."""
        outputs = self.decoder.plan.query.presentation.outputs
        return [(output.label, output.aggregate or 0) for output in outputs if output.key is None]

    @property
    def has_counts(self) -> bool:
        """Whether a count is among the numbers."""
        return any(aggregate.function in COUNT_FUNCTIONS for aggregate in self.decoder.plan.query.aggregates)

    def list_cells(self) -> Iterator[tuple[NoisyOutputs, ...]]:
        """List the outputs of every row."""
        return (self.noisy_result.numbers[index] for index in self.order)

    def compute_intervals(self, confidence: float) -> IntervalRows:
        """Compute where the exact number of every row lies with at least this probability."""
        if confidence not in self._intervals:
            compute, labels = self.decoder.compute_shown_interval, self.labels
            self._intervals[confidence] = tuple(
                {label: compute(index, cell[index], confidence) for label, index in labels}
                for cell in self.list_cells()
            )
        return self._intervals[confidence]

    def compute_posteriors(self) -> PosteriorRows:
        """Compute what is known of every number to someone who held the prior."""
        compute, labels = self.decoder.compute_posterior, self.labels
        return tuple({label: compute(index, cell[index]) for label, index in labels} for cell in self.list_cells())


def decode_result(plan: Plan, noisy_result: NoisyResult, question: str) -> ShownNumbers | ReleasedBlocks:
    """Decode noisy outputs into the rows of the reply, laid out as it was asked."""
    if plan.hierarchy is not None:
        from discreet.answers.hierarchical_answer import release_blocks  # for a HISTOGRAM or a ROLLUP alone

        return release_blocks(plan, plan.hierarchy, noisy_result, question)
    decoder, presentation = Decoder(plan), plan.query.presentation
    cells = zip(noisy_result.cells, noisy_result.numbers, strict=True)
    rows = [_build_row(decoder, cell, numbers) for cell, numbers in cells]
    order = tuple(select_answer_rows(rows, presentation))
    return ShownNumbers(decoder, noisy_result, order, label_rows(rows, order, presentation))


def _build_row(decoder: Decoder, cell: Cell, numbers: Sequence[tuple[int, ...]]) -> list[Value | None]:
    values = [decoder.decode_values(index, outputs) for index, outputs in enumerate(numbers)]
    row: list[Value | None] = []
    for output in decoder.plan.query.presentation.outputs:
        if output.key is None:
            row.append(values[output.aggregate or 0][output.order])
        else:
            key = decoder.plan.query.keys[output.key]
            column = decoder.plan.schema.column(key.column)
            row.append(format_group_key(column, key.width, cell[output.key]))
    return row


def label_rows(rows: Sequence[Sequence[Value | None]], order: Sequence[int], presentation: Presentation) -> Rows:
    """Return rows in this order, by the names of their columns."""
    labels = [output.label for output in presentation.outputs]
    return tuple(dict(zip(labels, map(to_answer_value, rows[index]), strict=True)) for index in order)


def format_group_key(column: Column, width: int, place: int | str | None) -> Value | None:
    """Format a group key as people read it: the value, or the first and last value of a bin."""
    if place is None or isinstance(place, str):
        return place
    first = column.lower + place * width
    if width == 1:
        return column.decode(first)
    ends = (column.decode(end) for end in (first, min(first + width - 1, column.upper)))
    return " to ".join(format_exact(end) if isinstance(end, Fraction) else str(end) for end in ends)


def select_answer_rows(rows: Sequence[Sequence[Value | None]], presentation: Presentation) -> list[int]:
    """Select the rows that HAVING keeps, in the order asked, up to the limit; on noisy numbers, hence free."""
    having = presentation.having
    indices = [index for index, row in enumerate(rows) if all(_passes_having(row, item) for item in having)]
    for place, descending in reversed(presentation.order):
        indices.sort(key=lambda index, place=place: _make_sort_key(rows[index][place]), reverse=descending)  # type: ignore[misc]
    return indices if presentation.limit is None else indices[: presentation.limit]


def _passes_having(row: Sequence[Value | None], having: HavingCondition) -> bool:
    value = row[having.output]
    return isinstance(value, int | Fraction) and COMPARISONS[having.comparison](Fraction(value), having.constant)


def _make_sort_key(value: Value | None) -> tuple[bool, bool, Value]:
    """Missing keys last; numbers before texts."""
    return value is None, isinstance(value, str), "" if value is None else value


def to_answer_value(value: Value | None) -> AnswerValue:
    """Convert a fraction to the nearest float: made of noisy whole numbers, so nothing hides in its last digits."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value
