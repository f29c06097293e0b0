"""From noisy outputs to what the analyst reads: post-processing, so it costs nothing and sees no row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

from discreet.answers.answer import (
    Answer,
    AnswerDetails,
    IntervalRows,
    PopulationEstimate,
    PosteriorRows,
    RangeCount,
    ReconciledRows,
    Rows,
)
from discreet.answers.decode import Decoder, ShownNumbers, format_group_key, label_rows, select_answer_rows
from discreet.answers.explain import (
    build_distribution_chart,
    describe_meaning,
    describe_missed_accuracy,
    state_accuracy,
    state_answer_accuracy,
)
from discreet.answers.hierarchical_answer import (
    HierarchicalCounts,
    ReleasedBlocks,
    build_histogram_counts,
    release_blocks,
)
from discreet.answers.population_estimates import estimate_population
from discreet.answers.reconciled_counts import reconcile_or_keep_raw, reconcile_rows
from discreet.charts import build_picture_spec
from discreet.estimation.constraint_set import StatedConstraint
from discreet.planner.plan import NoisyResult, Plan
from discreet.privacy.guarantee import Guarantee
from discreet.query.scan import Cell
from discreet.schema.column import Value

FREE = Fraction(0)
MAX_CHECKED_ROWS = 512
"""So many rows of a reply are compared with the prior, at most."""


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


def build_answer(
    plan: Plan,
    noisy_result: NoisyResult,
    question: str,
    paid_epsilon: Fraction,
    entry: int | None,
    spent_epsilon: Mapping[str, Fraction | None],
    constraints: Sequence[StatedConstraint] = (),
) -> Answer:
    """Build the reply, laid out as it was asked; `constraints` are what the analyst states of its count."""
    outputs = plan.query.presentation.outputs
    released: ReleasedBlocks | ReleasedCells
    if plan.hierarchy is None:
        released = _release_cells(plan, noisy_result, question, tuple(constraints))
    else:
        released = release_blocks(plan, plan.hierarchy, noisy_result, question)
    accuracy, missed_accuracy = state_accuracy(plan, plan.confidence), ""
    depends_on_rows = plan.target_accuracy is not None or any(reading.depends_on_rows for reading in plan.readings)
    if plan.hierarchy is None and depends_on_rows:
        intervals, single = released.compute_intervals(plan.confidence), len(noisy_result.cells) == 1
        accuracy = state_answer_accuracy(plan, released.rows, intervals, single)
        missed_accuracy = describe_missed_accuracy(plan, released.rows, intervals, single)
    return Answer(
        question=question,
        columns=tuple(output.label for output in outputs),
        numbers=tuple(output.label for output in outputs if output.key is None),
        rows=released.rows,
        mechanism=plan.mechanism,
        accuracy=accuracy,
        missed_accuracy=missed_accuracy,
        guarantee=plan.guarantee,
        cost=plan.guarantee if paid_epsilon else Guarantee.dp(0, plan.schema.neighbors, plan.schema.unit_name),
        spent=spent_epsilon,
        stored=paid_epsilon == FREE and not plan.is_free,
        entry=entry,
        warning=_build_prior_warning(released.shown) if isinstance(released, ReleasedCells) else None,
        shaped=plan.uses_prior,
        prior=plan.prior is not None,
        prior_tail=None if plan.prior_use is None else plan.prior_use.tail,
        prior_use=plan.prior_description,
        joint_coverage=plan.coverage.format_sentence(0.95),
        details=released,
    )


@dataclass(frozen=True, eq=False)
class ReleasedCells(AnswerDetails):
    """What was released of cells that were measured one by one, and which of them are rows of the reply."""

    shown: ShownNumbers
    rows: Rows
    question: str
    constraints: tuple[StatedConstraint, ...]

    def compute_intervals(self, confidence: float) -> IntervalRows:
        """Compute where the exact number of every row lies with at least this probability."""
        return self.shown.compute_intervals(confidence)

    def compute_posteriors(self) -> PosteriorRows:
        """Compute what is known of every number to someone who held the prior."""
        return self.shown.compute_posteriors()

    def reconcile(self) -> ReconciledRows | None:
        """Make the counts fit what must be true of them; None where there are none."""
        return self._reconciled

    @cached_property
    def _reconciled(self) -> ReconciledRows | None:
        return reconcile_or_keep_raw(
            self.rows, self.shown, partial(reconcile_rows, self.rows, self.shown, self.constraints)
        )

    @property
    def _single_number(self) -> tuple[str, int] | None:
        """The name of the one number and the measurement it is of; None where there are several, or none was found."""
        labels = self.shown.labels
        is_single = len(labels) == len(self.rows) == 1 and self.rows[0][labels[0][0]] is not None
        return labels[0] if is_single else None

    def describe_meaning(self) -> str:
        """Say what one number means to someone who held the prior, or where it lies."""
        return self._meaning

    @cached_property
    def _meaning(self) -> str:
        if self._single_number is None:
            return ""
        label, index = self._single_number
        (cell,) = self.shown.list_cells()
        return describe_meaning(self.shown.decoder, index, cell[index], self.rows[0][label])

    @cached_property
    def _histogram(self) -> HierarchicalCounts | None:
        return build_histogram_counts(self.shown.decoder.plan, self.shown.noisy_result)

    @property
    def has_picture(self) -> bool:
        """Whether it is a histogram, or one number with a distribution to show."""
        number = self._single_number
        is_plottable = number is not None and self.shown.decoder.plan.readings[number[1]].is_plottable
        return is_plottable or self._histogram is not None

    def build_picture_spec(self) -> dict[str, object]:
        """Build the picture of a histogram, or of prior, noise and posterior of one number."""
        if self._histogram is not None:
            return build_picture_spec(self._histogram.build_histogram_chart(self.question))
        if self._single_number is None:
            return super().build_picture_spec()
        label, index = self._single_number
        (cell,) = self.shown.list_cells()
        raw, titles = self.rows[0][label], (self.question, label)
        return build_picture_spec(
            build_distribution_chart(self.shown.decoder, index, cell[index], raw, *titles, self._meaning)
        )

    def count_range(self, low: object, high: object, confidence: float) -> RangeCount:
        """Count the rows of a histogram from one value to another."""
        if self._histogram is None:
            return super().count_range(low, high, confidence)
        return self._histogram.count_range(low, high, confidence)

    def estimate_population(self, confidence: float, size: object) -> tuple[Mapping[str, PopulationEstimate], ...]:
        """Estimate the numbers of every row for the population."""
        shown = self.shown
        return estimate_population(shown.decoder, shown.noisy_result, shown.order, confidence, size)


def _release_cells(
    plan: Plan, noisy_result: NoisyResult, question: str, constraints: tuple[StatedConstraint, ...]
) -> ReleasedCells:
    """Lay cells out in rows, as it was asked."""
    decoder, presentation = Decoder(plan), plan.query.presentation
    cells = zip(noisy_result.cells, noisy_result.numbers, strict=True)
    rows = [_build_row(decoder, cell, numbers) for cell, numbers in cells]
    order = tuple(select_answer_rows(rows, presentation))
    shown = ShownNumbers(decoder, noisy_result, order)
    return ReleasedCells(shown, label_rows(rows, order, presentation), question, constraints)


def _build_prior_warning(shown: ShownNumbers) -> str | None:
    """Where a raw answer lies in the 1 % tails of what the prior predicts."""
    decoder, cells = shown.decoder, list(shown.list_cells())
    if decoder.plan.prior is None or len(cells) > MAX_CHECKED_ROWS:
        return None
    count = sum(any(decoder.is_surprising(place, outputs) for place, outputs in enumerate(cell)) for cell in cells)
    if not count:
        return None
    subject = "the raw answer lies" if len(cells) == 1 else f"{count} of {len(cells)} raw answers lie"
    return (
        f"{subject} in the 1 % tails of what your prior predicts; the prior may be wrong, so look at the raw answer too"
    )


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


def build_public_answer(plan: Plan, question: str, spent_epsilon: Mapping[str, Fraction | None]) -> Answer:
    """Build the reply where the schema makes every number public."""
    empty_result = NoisyResult(((),), (tuple(() for _ in plan.readings),))
    return replace(build_answer(plan, empty_result, question, FREE, None, spent_epsilon), stored=False)
