"""Counts of an answer made to fit what must be true of them. Post-processing: it reads no row and costs nothing.

What they are made to fit comes from the schema, the question and the analyst, never from the rows; so the guarantee of
the raw counts is that of the reconciled ones.
Numbers from elsewhere are made to fit by `reconcile`, in `estimation/linear_refinement.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.answers.answer import AnswerValue, IntervalRows, IntervalSource, ReconciledRows, Rows
from discreet.answers.constraint_fit import (
    KEPT_TOTAL_REASON,
    CountFit,
    build_count_rules,
    require_countable,
)
from discreet.answers.decode import Decoder, ShownNumbers
from discreet.errors import DiscreetError
from discreet.estimation.constraint_set import StatedConstraint
from discreet.estimation.linear_refinement import INTEGER_NOISE_VARIANCE, compute_worst_quantile
from discreet.formatting import format_number
from discreet.planner.plan import NoisyResult, Plan
from discreet.planner.structural_constraints import COUNT_FUNCTIONS
from discreet.priors.posterior import Posterior

Array = NDArray[np.float64]
COUNT_STEP = 1.0
"""Counts are whole, and so are their noises."""
MIN_REFINED_CONFIDENCE = 0.8
"""At lower confidences a refined interval is not known to hold."""
MAX_WEIGHED_POSTERIORS = 512
"""So many different noisy counts are weighed with a prior, at most."""
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
    """Find the aggregates of a plan that are counts, if all have noise or are public in every cell; else none."""
    pairs = enumerate(plan.query.aggregates)
    indices = [index for index, aggregate in pairs if aggregate.function in COUNT_FUNCTIONS]
    counts = [plan.readings[index] for index in indices]
    are_plain = all(count.is_public or count.answer_noise is not None for count in counts)
    has_noise = any(not count.is_public for count in counts)
    return indices if plan.threshold is None and are_plain and has_noise else []


def check_plan_constraints(plan: Plan, constraints: Sequence[StatedConstraint]) -> None:
    """Refuse what cannot be stated of a plan's count, and what no numbers fit, whatever the draw."""
    require_countable(len(find_noisy_counts(plan)), constraints)
    if constraints:
        rules = build_count_rules(plan, constraints)
        shape = rules.structure.possible.shape
        _ = CountFit(rules, np.zeros(shape), np.ones(shape)).values


def reconcile_or_keep_raw(
    rows: Rows, source: IntervalSource, reconcile_rows: Callable[[], ReconciledRows | None]
) -> ReconciledRows | None:
    """Return the rows that fit; where none were found, the rows as they were drawn, and why: they were paid for."""
    try:
        return reconcile_rows()
    except DiscreetError as refusal:
        return ReconciledRows(rows, (f"as drawn, since nothing that fits was found: {refusal}",), source)


def reconcile_rows(rows: Rows, shown: ShownNumbers, constraints: Sequence[StatedConstraint]) -> ReconciledRows | None:
    """Make the counts of an answer fit, over all cells and before HAVING and LIMIT."""
    plan = shown.decoder.plan
    noisy_counts = NoisyCounts(shown.decoder, shown.noisy_result, tuple(find_noisy_counts(plan)))
    if not noisy_counts.indices:
        return None
    rules = build_count_rules(plan, constraints)
    fit = CountFit(rules, noisy_counts.values, noisy_counts.variances)
    counts = {index: count for count, index in enumerate(noisy_counts.indices)}
    labels = {label: counts[index] for label, index in shown.labels if index in counts}
    reconciled_rows = tuple(
        {**row, **{label: _to_number(fit.values[count, index]) for label, count in labels.items()}}
        for row, index in zip(rows, shown.order, strict=True)
    )
    has_posteriors = noisy_counts.posteriors is not None
    reasons = [*noisy_counts.prior_notes, *rules.reasons]
    if any(map(fit.keeps_total, counts.values())):
        reasons.append(PRIOR_TOTAL_REASON if has_posteriors else KEPT_TOTAL_REASON)
    advice = "" if has_posteriors or rules.constraints else _build_advice(fit, noisy_counts, labels)
    return ReconciledRows(reconciled_rows, tuple(reasons), FittedNumbers(shown, noisy_counts, fit, labels), advice)


@dataclass(frozen=True, eq=False, slots=True)
class FittedNumbers:
    """The numbers of a reply whose counts, by their names, were made to fit."""

    shown: ShownNumbers
    noisy_counts: NoisyCounts
    fit: CountFit
    labels: Mapping[str, int]

    def compute_intervals(self, confidence: float) -> IntervalRows:
        """Compute the intervals of the counts that fit, and of all other numbers as they were drawn."""
        shown, labels = self.shown, self.labels
        has_others = any(label not in labels for label, _ in shown.labels)
        raw_intervals = shown.compute_intervals(confidence) if has_others else ({},) * len(shown.order)
        interval_confidence = shown.decoder.plan.coverage.adjust_confidence(confidence)
        if interval_confidence is None:
            return tuple({**row, **dict.fromkeys(labels)} for row in raw_intervals)
        low, high = _compute_intervals(self.fit, self.noisy_counts, interval_confidence)
        return tuple(
            {**row, **{label: (float(low[count, index]), float(high[count, index])) for label, count in labels.items()}}
            for row, index in zip(raw_intervals, shown.order, strict=True)
        )


def _build_advice(fit: CountFit, noisy_counts: NoisyCounts, labels: Mapping[str, int]) -> str:
    sentences = []
    for label, count in labels.items():
        possible = fit.rules.structure.possible[count]
        variances, ends = noisy_counts.variances[count][possible], fit.rules.structure.limits[count]
        if not len(variances):
            continue
        raw, fitted = (float(values[count][possible].sum()) for values in (noisy_counts.raw_values, fit.values))
        spread = float(variances.max()), float(variances.sum())
        advice = CountSums(raw, fitted, *spread, ends.min_total, ends.max_total).advice
        sentences.append(f"{label}: {advice}" if advice and len(labels) > 1 else advice)
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
        nearest_total = max(self.raw_total, self.min_total)
        if self.max_total is not None:
            nearest_total = min(nearest_total, self.max_total)
        cell_allowance = MAX_CELL_DEVIATIONS * math.sqrt(self.cell_variance)
        sum_allowance = MAX_SUM_DEVIATIONS * math.sqrt(self.total_variance)
        return abs(self.reconciled_total - nearest_total) > max(cell_allowance, sum_allowance)

    @property
    def advice(self) -> str:
        """Which numbers to use for what; nothing where the reconciled ones serve for sums too."""
        if not self.is_worse:
            return ""
        return (
            "Use the raw counts for sums and totals, and the reconciled ones for single cells. Most cells seem to be "
            "nearly empty, and counts that are lifted to 0 make a sum too large: the reconciled counts add up to "
            f"{format_number(self.reconciled_total)}, the raw ones to {format_number(self.raw_total)}, "
            f"with a standard deviation of {format_number(math.sqrt(self.total_variance))}."
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
        """What each cell's count is to someone with a prior; None without one, or where there are too many counts."""
        plan, numbers = self.decoder.plan, self.noisy_result.numbers
        if plan.grid_prior is None or len(self.indices) != 1:
            return None
        index = self.indices[0]
        if len({cell[index] for cell in numbers}) > MAX_WEIGHED_POSTERIORS:
            return None
        return [cast(Posterior, self.decoder.compute_posterior(index, cell[index])) for cell in numbers]

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
        """The counts to make fit: posterior means where there is a prior, else the raw counts."""
        if self.posteriors is None:
            return self.raw_values
        return np.array([[posterior.mean() for posterior in self.posteriors]])

    @property
    def prior_notes(self) -> list[str]:
        """What a prior was used for."""
        if self.decoder.plan.grid_prior is None:
            return []
        return [PRIOR_SKIPPED_NOTE if self.posteriors is None else PRIOR_WEIGHED_NOTE]

    @property
    def variances(self) -> Array:
        """The variance of each count."""
        if self.posteriors is not None:
            return np.array([[posterior.variance() + INTEGER_NOISE_VARIANCE for posterior in self.posteriors]])
        noises = [self.decoder.plan.readings[index].answer_noise for index in self.indices]
        variances = [1.0 if noise is None else noise.sd**2 + INTEGER_NOISE_VARIANCE for noise in noises]
        return np.repeat(np.array(variances)[:, None], len(self.noisy_result.cells), axis=1)

    def compute_intervals(self, confidence: float) -> tuple[Array, Array]:
        """Compute where each count lies by itself, from the distribution of its noise, or from its posterior."""
        if self.posteriors is not None:
            ends = np.array([[posterior.interval(confidence) for posterior in self.posteriors]])
            return ends[..., 0], ends[..., 1]
        readings = [self.decoder.plan.readings[index] for index in self.indices]
        half_widths = np.array([[reading.half_width(confidence)] for reading in readings])
        return self.raw_values - half_widths, self.raw_values + half_widths

    def has_plain_noise(self, count: int) -> bool:
        """Whether each cell has Laplace or Gaussian noise of its own, which is what a refined interval assumes."""
        return self.posteriors is None and self.decoder.plan.readings[self.indices[count]].has_plain_noise


def _compute_intervals(fit: CountFit, noisy_counts: NoisyCounts, confidence: float) -> tuple[Array, Array]:
    """Where each count lies: of its own interval and the refined one the narrower, which is settled before any draw.

    Cut to what is possible, and widened to hold the number that is shown.
    """
    low, high = noisy_counts.compute_intervals(confidence)
    counts, cells = fit.noisy.shape
    for places, free_fit in fit.parts if confidence >= MIN_REFINED_CONFIDENCE else ():
        refinable = [fit.is_tied(count) and noisy_counts.has_plain_noise(count) for count in range(counts)]
        is_refinable = np.array(refinable)[places // cells]
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
