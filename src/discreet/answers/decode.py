"""Decode noisy outputs into values, intervals and posteriors, and lay them out in rows.

Post-processing: it sees the plan and what was released, never a row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import cast

from discreet.answers.answer import AnswerValue, Interval
from discreet.errors import Internal
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.estimator import Estimator
from discreet.measurements.hierarchical import HierarchicalHistogram
from discreet.measurements.refined_total import RefinedTotal
from discreet.measurements.selection import CandidateSelection
from discreet.measurements.unit_query import UnitQuery
from discreet.numeric import format_exact
from discreet.planner.plan import NoisyOutputs, Plan, PublicConstant, ThresholdedCount
from discreet.priors.posterior import Posterior
from discreet.query.query import HavingCondition, Presentation
from discreet.schema import Column
from discreet.schema.column import Value

SURPRISE_TAIL = 0.005
"""On either side: an answer in the 1 % tails of what the prior predicts."""
BRACKET_CONFIDENCE = 0.95
COMPARISONS: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True, eq=False, slots=True)
class Decoder:
    """Decodes the noisy outputs of one plan; what is worked out for one cell serves the others."""

    plan: Plan
    _estimators: dict[int, Estimator] = field(default_factory=dict)
    _posteriors: dict[tuple[int, NoisyOutputs], Posterior | None] = field(default_factory=dict)

    def _get_estimator(self, index: int, measurement: AdditiveNoise) -> Estimator:
        if index not in self._estimators:
            self._estimators[index] = self.plan.build_estimator(measurement)
        return self._estimators[index]

    def decode_values(self, index: int, outputs: NoisyOutputs) -> Sequence[Value]:
        """Decode the value, or for several quantiles the values, of one measurement."""
        measurement = self.plan.measurements[index]
        if isinstance(measurement, PublicConstant):
            return (measurement.value,)
        if isinstance(measurement, ThresholdedCount):
            return (outputs[0],)
        if isinstance(measurement, AdditiveNoise):
            return (self._get_estimator(index, measurement).raw_value(outputs, self.plan.grid_prior),)
        if isinstance(measurement, HierarchicalHistogram):
            raise Internal("nested counts are read together, not one by one")
        return (measurement.value(outputs),) if isinstance(measurement, RefinedTotal) else measurement.values(outputs)

    def compute_shown_interval(self, index: int, outputs: NoisyOutputs, confidence: float) -> Interval:
        """Compute where the exact number lies with at least this probability, of a row that is shown.

        Where rows are chosen by their noisy numbers, the intervals of all rows hold at once, so that they are wider.
        """
        if isinstance(self.plan.measurements[index], PublicConstant):
            return self.compute_interval(index, outputs, confidence)
        interval_confidence = self.plan.coverage.adjust_confidence(confidence)
        return None if interval_confidence is None else self.compute_interval(index, outputs, interval_confidence)

    def compute_interval(self, index: int, outputs: NoisyOutputs, confidence: float) -> Interval:
        """Compute the interval of a number by itself, of a row not chosen by it; None where there is none in values."""
        measurement = self.plan.measurements[index]
        if isinstance(measurement, PublicConstant):
            return float(measurement.value), float(measurement.value)
        if isinstance(measurement, ThresholdedCount):
            half_width = measurement.threshold.noise.interval(confidence)[1]
            lower_end = outputs[0] - half_width
            # A small key that is shown owes it to its noise: near the threshold only the upper end says anything.
            return (lower_end if lower_end > measurement.threshold.min_count else 1.0), outputs[0] + half_width
        if isinstance(measurement, AdditiveNoise):
            return self._get_estimator(index, measurement).interval(outputs, confidence)
        if isinstance(measurement, CandidateSelection) and confidence <= BRACKET_CONFIDENCE:
            return _to_float_interval(measurement.bracket_values(outputs))
        return None

    def compute_posterior(self, index: int, outputs: NoisyOutputs) -> Posterior | None:
        """Compute what is known to someone who held the prior; None without one, or where the law is not public."""
        if (index, outputs) not in self._posteriors:
            self._posteriors[index, outputs] = self._compute_posterior(index, outputs)
        return self._posteriors[index, outputs]

    def _compute_posterior(self, index: int, outputs: NoisyOutputs) -> Posterior | None:
        measurement, grid_prior = self.plan.measurements[index], self.plan.grid_prior
        if isinstance(measurement, AdditiveNoise):
            if grid_prior is None:
                return None
            return self._get_estimator(index, measurement).posterior(grid_prior, outputs)
        if isinstance(measurement, RefinedTotal | CandidateSelection | UnitQuery):
            return measurement.posterior(outputs)
        return None

    def get_prior(self, index: int) -> Posterior | None:
        """Return the prior as it was stated."""
        measurement, grid_prior = self.plan.measurements[index], self.plan.grid_prior
        if isinstance(measurement, AdditiveNoise):
            return None if grid_prior is None else grid_prior.build_cells().get_stated_distribution()
        if isinstance(measurement, RefinedTotal | CandidateSelection | UnitQuery):
            return measurement.get_stated_distribution()
        return None

    def get_noise_distribution(self, index: int, outputs: NoisyOutputs) -> Posterior | None:
        """Return the noise distribution about the raw answer."""
        measurement = self.plan.measurements[index]
        if isinstance(measurement, AdditiveNoise):
            return self._get_estimator(index, measurement).build_noise_posterior(outputs)
        return None

    def is_plottable(self, index: int) -> bool:
        """Whether there is a distribution to show."""
        measurement = self.plan.measurements[index]
        if isinstance(measurement, CandidateSelection):
            return measurement.get_stated_distribution() is not None
        return isinstance(measurement, AdditiveNoise | RefinedTotal | UnitQuery)

    def is_surprising(self, index: int, outputs: NoisyOutputs) -> bool:
        """Whether the raw answer lies in the 1 % tails of what the prior predicts."""
        measurement, grid_prior = self.plan.measurements[index], self.plan.grid_prior
        if isinstance(measurement, CandidateSelection):
            return measurement.is_surprising(outputs, SURPRISE_TAIL)
        if grid_prior is None or not isinstance(measurement, AdditiveNoise):
            return False
        return self._get_estimator(index, measurement).compute_surprise(grid_prior, outputs) < SURPRISE_TAIL


def _to_float_interval(ends: tuple[Value, Value] | None) -> Interval:
    """Two ends as they are shown: numbers as floats, the rest as it is."""
    if ends is None:
        return None
    low, high = ends
    if isinstance(low, str | date) or isinstance(high, str | date):
        return cast("Interval", ends)
    return float(low), float(high)


def label_rows(
    rows: Sequence[Sequence[Value | None]], order: Sequence[int], presentation: Presentation
) -> tuple[Mapping[str, AnswerValue], ...]:
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
