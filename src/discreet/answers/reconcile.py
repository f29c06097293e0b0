"""Counts made to fit what must be true of them. Post-processing of what was drawn: it reads no row and costs nothing.

What they are made to fit comes from the schema, the question and the analyst, none of which is taken from the rows by
us; so the guarantee of the raw counts is that of the reconciled ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.answers.answer import Answer, AnswerValue, Interval, ReconciledRows
from discreet.answers.constraint_fit import (
    KEPT_TOTAL_REASON,
    CountFit,
    StatedConstraint,
    build_count_rules,
    copy_constraints,
    require_countable,
)
from discreet.answers.decode import Decoder
from discreet.errors import DiscreetError
from discreet.estimation.linear_refinement import INTEGER_NOISE_VARIANCE, compute_worst_quantile
from discreet.formatting import format_number
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.estimates import Linear
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.planner.plan import NoisyResult, Plan, PublicConstant
from discreet.planner.planner import plan
from discreet.planner.structural_constraints import COUNT_FUNCTIONS
from discreet.priors.posterior import Posterior
from discreet.query.validate import Question, parse_question
from discreet.schema import Schema

Array = NDArray[np.float64]
COUNT_STEP = 1.0
"""Counts are whole, and so are their noises."""
MIN_REFINED_CONFIDENCE = 0.8
"""At lower confidences a refined interval is not known to hold."""
MAX_WEIGHED_POSTERIORS = 512
"""So many different draws are weighed with a prior, no more."""
PRIOR_TOTAL_REASON = "together the counts keep the total of what your prior made of them, as far as that fits"
MAX_CELL_DEVIATIONS = 2.0
"""A sum of reconciled counts that is this many standard deviations of one cell above the raw sum is worse than it.

Lifting a noise below 0 to 0 takes 1.25 b^2 off the variance of a sum of Laplace noises of scale b, and adds b/2 to its
bias. So m empty cells make the square error of the sum larger from m = 5 on, where the bias is 1.8 standard deviations.
"""
MAX_SUM_DEVIATIONS = 0.25
"""A bias below this share of the standard deviation of the whole sum is not worth a word."""
PRIOR_WEIGHED_NOTE = "each count was first weighed with your prior by itself"
PRIOR_SKIPPED_NOTE = "there are too many different counts to weigh each with your prior"


def find_noisy_counts(plan: Plan) -> list[int]:
    """The measurements of a plan that are counts with noise, or public, in every cell; none where that is not all."""
    pairs = zip(plan.query.aggregates, plan.measurements, strict=False)
    indices = [index for index, (item, _) in enumerate(pairs) if item.function in COUNT_FUNCTIONS]
    measurements = [plan.measurements[index] for index in indices]
    is_reconcilable = plan.threshold is None and all(
        isinstance(item, AdditiveNoise | PublicConstant) for item in measurements
    )
    return indices if is_reconcilable and any(isinstance(item, AdditiveNoise) for item in measurements) else []


def check_plan_constraints(plan: Plan, constraints: Sequence[StatedConstraint]) -> None:
    """Refuse what cannot be stated of a plan's count, and what no numbers fit, whatever the draw."""
    constraints = copy_constraints(constraints)
    require_countable(len(find_noisy_counts(plan)), constraints)
    if constraints:
        rules = build_count_rules(plan, constraints)
        shape = rules.structure.possible.shape
        _ = CountFit(rules, np.zeros(shape), np.ones(shape)).values


def check_constraints(
    schema: Schema, question: Question, constraints: Sequence[StatedConstraint], *arguments: Any, **options: Any
) -> None:
    """Refuse, before anything is registered or charged, what cannot be stated of a question's count."""
    if constraints:
        check_plan_constraints(plan(schema, parse_question(question, schema), *arguments, **options), constraints)


def reconcile_or_keep_raw(answer: Answer, reconcile_rows: Callable[[], ReconciledRows | None]) -> ReconciledRows | None:
    """What fits; where no such numbers were found, the rows as they were drawn, and why: they were paid for."""
    try:
        return reconcile_rows()
    except DiscreetError as refusal:
        return ReconciledRows(
            answer.rows, answer.intervals, (f"as drawn, since nothing that fits was found: {refusal}",)
        )


def reconcile_answer(
    answer: Answer,
    decoder: Decoder,
    noisy_result: NoisyResult,
    order: Sequence[int],
    constraints: Sequence[StatedConstraint],
) -> ReconciledRows | None:
    """The rows of an answer with their counts made to fit, over all cells and before HAVING and LIMIT."""
    noisy_counts = NoisyCounts(decoder, noisy_result, tuple(find_noisy_counts(decoder.plan)))
    if not noisy_counts.indices:
        return None
    rules = build_count_rules(decoder.plan, constraints)
    fit = CountFit(rules, noisy_counts.values, noisy_counts.variances)
    outputs = decoder.plan.query.presentation.outputs
    labels = {
        output.label: noisy_counts.indices.index(output.aggregate)
        for output in outputs
        if output.aggregate in noisy_counts.indices
    }
    rows = tuple(
        {**row, **{label: _to_number(fit.values[count, index]) for label, count in labels.items()}}
        for row, index in zip(answer.rows, order, strict=True)
    )

    def compute_intervals(confidence: float) -> tuple[Mapping[str, Interval], ...]:
        raw_intervals = [{}] * len(order) if set(answer.numbers) <= set(labels) else answer.intervals(confidence)
        interval_confidence = decoder.plan.coverage.adjust_confidence(confidence)
        if interval_confidence is None:
            return tuple({**row, **dict.fromkeys(labels)} for row in raw_intervals)
        low, high = _compute_intervals(fit, noisy_counts, interval_confidence)
        return tuple(
            {**row, **{label: (float(low[count, index]), float(high[count, index])) for label, count in labels.items()}}
            for row, index in zip(raw_intervals, order, strict=True)
        )

    total_reason = KEPT_TOTAL_REASON if noisy_counts.posteriors is None else PRIOR_TOTAL_REASON
    total_reasons = [total_reason] if any(map(fit.keeps_total, range(len(noisy_counts.indices)))) else []
    advice = (
        _build_advice(fit, noisy_counts, labels) if noisy_counts.posteriors is None and not rules.constraints else ""
    )
    return ReconciledRows(rows, compute_intervals, (*noisy_counts.prior_notes, *rules.reasons, *total_reasons), advice)


def _build_advice(fit: CountFit, noisy_counts: NoisyCounts, labels: Mapping[str, int]) -> str:
    """Of each count whose reconciled cells add up worse than its raw ones."""
    sentences = []
    for label, count in labels.items():
        possible = fit.rules.structure.possible[count]
        variances, ends = noisy_counts.variances[count][possible], fit.rules.structure.limits[count]
        if not len(variances):
            continue
        raw_total = float(noisy_counts.raw_values[count][possible].sum())
        reconciled_total = float(fit.values[count][possible].sum())
        count_sums = CountSums(
            raw_total, reconciled_total, float(variances.max()), float(variances.sum()), ends.min_total, ends.max_total
        )
        advice = count_sums.advice
        sentences += [f"{label}: {advice}" if advice and len(labels) > 1 else advice]
    return " ".join(filter(None, sentences))


@dataclass(frozen=True, slots=True)
class CountSums:
    """What the cells of a count add up to, raw and reconciled; from released numbers and public laws alone."""

    raw_total: float
    reconciled_total: float
    cell_variance: float
    """The variance of the noise of one cell."""
    total_variance: float
    """The variance of the noise of the raw sum."""
    min_total: int = 0
    max_total: int | None = None

    @property
    def is_worse(self) -> bool:
        """Whether the reconciled sum is worse: moved by more than noise explains, and not into what is possible."""
        nearest_total = (
            max(self.raw_total, self.min_total)
            if self.max_total is None
            else min(max(self.raw_total, self.min_total), self.max_total)
        )
        return abs(self.reconciled_total - nearest_total) > max(
            MAX_CELL_DEVIATIONS * math.sqrt(self.cell_variance), MAX_SUM_DEVIATIONS * math.sqrt(self.total_variance)
        )

    @property
    def advice(self) -> str:
        """Which numbers to use for what; nothing where the reconciled ones serve for sums too."""
        if not self.is_worse:
            return ""
        reconciled_text, raw_text, deviation_text = (
            format_number(number) for number in (self.reconciled_total, self.raw_total, math.sqrt(self.total_variance))
        )
        return (
            f"Use the raw counts for sums and totals, and the reconciled ones for single cells. Most cells seem to be "
            f"nearly empty, and counts that are lifted to 0 make a sum too large: the reconciled counts add up to "
            f"{reconciled_text}, the raw ones to {raw_text}, with a standard deviation of {deviation_text}."
        )


def _to_number(value: float) -> AnswerValue:
    return int(value) if value == int(value) else float(value)


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """The noisy counts of a reply, by count and cell, and how far each is off."""

    decoder: Decoder
    noisy_result: NoisyResult
    indices: tuple[int, ...]

    @cached_property
    def posteriors(self) -> list[Posterior] | None:
        """What each cell's count is to someone with a prior; None without one, or where the draws are too many."""
        plan = self.decoder.plan
        if (
            plan.grid_prior is None
            or len(self.indices) != 1
            or not isinstance(plan.measurements[self.indices[0]], AdditiveNoise)
        ):
            return None
        index = self.indices[0]
        if len({numbers[index] for numbers in self.noisy_result.numbers}) > MAX_WEIGHED_POSTERIORS:
            return None
        return [
            cast(Posterior, self.decoder.compute_posterior(index, numbers[index]))
            for numbers in self.noisy_result.numbers
        ]

    @cached_property
    def raw_values(self) -> Array:
        """As they were drawn."""
        count_rows = [
            [self.decoder.decode_values(index, cell[index])[0] for cell in self.noisy_result.numbers]
            for index in self.indices
        ]
        return np.array(count_rows, dtype=np.float64)

    @property
    def values(self) -> Array:
        """What is made to fit: posterior means where there is a prior, else the raw counts."""
        if self.posteriors is None:
            return self.raw_values
        return np.array([[posterior.mean() for posterior in self.posteriors]])

    @property
    def prior_notes(self) -> list[str]:
        """What became of a prior."""
        if self.decoder.plan.grid_prior is None:
            return []
        return [PRIOR_SKIPPED_NOTE if self.posteriors is None else PRIOR_WEIGHED_NOTE]

    @property
    def variances(self) -> Array:
        """How far each count varies."""
        if self.posteriors is not None:
            return np.array([[posterior.variance() + INTEGER_NOISE_VARIANCE for posterior in self.posteriors]])
        return np.repeat([[self._get_variance(index)] for index in self.indices], len(self.noisy_result.cells), axis=1)

    def _get_variance(self, index: int) -> float:
        measurement = self.decoder.plan.measurements[index]
        if not isinstance(measurement, AdditiveNoise):
            return 1.0
        return self.decoder.plan.build_estimator(measurement).build_line_noise().sd ** 2 + INTEGER_NOISE_VARIANCE

    def compute_intervals(self, confidence: float) -> tuple[Array, Array]:
        """Where each count lies by itself, from the law of its own noise, or from its posterior."""
        if self.posteriors is not None:
            ends = np.array([[posterior.interval(confidence) for posterior in self.posteriors]])
            return ends[..., 0], ends[..., 1]
        half_widths = np.array([[self._compute_half_width(index, confidence)] for index in self.indices])
        return self.raw_values - half_widths, self.raw_values + half_widths

    def _compute_half_width(self, index: int, confidence: float) -> float:
        measurement = self.decoder.plan.measurements[index]
        if isinstance(measurement, AdditiveNoise):
            return self.decoder.plan.build_estimator(measurement).half_width(confidence)
        return 0.0

    def has_plain_noise(self, count: int) -> bool:
        """Whether each cell has Laplace or Gaussian noise of its own, which is what a refined interval assumes."""
        measurement = self.decoder.plan.measurements[self.indices[count]]
        if self.posteriors is not None or not isinstance(measurement, AdditiveNoise):
            return False
        is_linear = isinstance(measurement.linear_query.estimate, Linear)
        return is_linear and isinstance(measurement.single_noise, DiscreteLaplace | DiscreteGaussian)


def _compute_intervals(fit: CountFit, noisy_counts: NoisyCounts, confidence: float) -> tuple[Array, Array]:
    """Where each count lies: of its own interval and the refined one the narrower, which is settled before any draw.

    Cut to what is possible, and widened to hold the number that is told.
    """
    low, high = noisy_counts.compute_intervals(confidence)
    counts, cells = fit.noisy.shape
    for places, free_fit in fit.parts if confidence >= MIN_REFINED_CONFIDENCE else ():
        is_refinable = np.array(
            [fit.is_tied(count) and noisy_counts.has_plain_noise(count) for count in range(counts)]
        )[places // cells]
        if not is_refinable.any():
            continue
        half_widths = compute_worst_quantile(confidence) * np.sqrt(free_fit.variances()) + COUNT_STEP / 2
        narrower_places = places[is_refinable & (2 * half_widths < (high - low).flat[places])]
        indices = np.searchsorted(places, narrower_places)
        low.flat[narrower_places] = free_fit.center[indices] - half_widths[indices]
        high.flat[narrower_places] = free_fit.center[indices] + half_widths[indices]
    max_counts = np.array([[np.inf if ends.max_cell is None else ends.max_cell] for ends in fit.rules.structure.limits])
    low, high = np.clip(low, 0, max_counts), np.clip(high, 0, max_counts)
    low, high = np.minimum(low, fit.values), np.maximum(high, fit.values)
    impossible_cells = ~fit.rules.structure.possible
    return np.where(impossible_cells, 0.0, low), np.where(impossible_cells, 0.0, high)
