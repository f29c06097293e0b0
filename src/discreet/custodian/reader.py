"""What one measurement's draw says: its value, interval, and what it means to someone who held a prior.

Post-processing: it sees the plan and what was released, never a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import cast

from discreet.answer import Interval
from discreet.errors import Internal
from discreet.planner.chosen import CandidateSelection
from discreet.planner.individual import UnitQuery
from discreet.planner.meaning import Estimator
from discreet.planner.nested import HierarchicalHistogram
from discreet.planner.noisy import AdditiveNoise
from discreet.planner.plan import Plan, PublicConstant, ThresholdedCount
from discreet.planner.refined import RefinedTotal
from discreet.posterior import Posterior
from discreet.schema.column import Value

SURPRISE_TAIL = 0.005
"""On either side: an answer in the 1 % tails of what the prior predicts."""
BRACKET_CONFIDENCE = 0.95
NoisyOutputs = tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Decoder:
    """Reads the draws of one plan; what is worked out for one cell serves the others."""

    plan: Plan
    _estimators: dict[int, Estimator] = field(default_factory=dict)
    _posteriors: dict[tuple[int, NoisyOutputs], Posterior | None] = field(default_factory=dict)

    def _get_estimator(self, index: int, measurement: AdditiveNoise) -> Estimator:
        if index not in self._estimators:
            self._estimators[index] = self.plan.build_estimator(measurement)
        return self._estimators[index]

    def decode_values(self, index: int, outputs: NoisyOutputs) -> Sequence[Value]:
        """The value, or for several quantiles the values, of one measurement."""
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
        """Where the exact number lies with at least this probability, of a row that is shown.

        Where rows are chosen by their noisy numbers, the intervals of all rows hold at once, so that they are wider.
        """
        if isinstance(self.plan.measurements[index], PublicConstant):
            return self.compute_interval(index, outputs, confidence)
        interval_confidence = self.plan.coverage.adjust_confidence(confidence)
        return None if interval_confidence is None else self.compute_interval(index, outputs, interval_confidence)

    def compute_interval(self, index: int, outputs: NoisyOutputs, confidence: float) -> Interval:
        """The same of a number by itself, of a row not chosen by it; None where it cannot be said in values."""
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
        """What someone who held the prior knows now; None without a prior, or where the law is not public."""
        if (index, outputs) not in self._posteriors:
            self._posteriors[index, outputs] = self._compute_posterior(index, outputs)
        return self._posteriors[index, outputs]

    def _compute_posterior(self, index: int, outputs: NoisyOutputs) -> Posterior | None:
        measurement, grid_prior = self.plan.measurements[index], self.plan.grid_prior
        if isinstance(measurement, AdditiveNoise):
            return (
                None if grid_prior is None else self._get_estimator(index, measurement).posterior(grid_prior, outputs)
            )
        return (
            measurement.posterior(outputs)
            if isinstance(measurement, RefinedTotal | CandidateSelection | UnitQuery)
            else None
        )

    def get_prior(self, index: int) -> Posterior | None:
        """The prior, as it was stated."""
        measurement, grid_prior = self.plan.measurements[index], self.plan.grid_prior
        if isinstance(measurement, AdditiveNoise):
            return None if grid_prior is None else grid_prior.build_cells().get_stated_distribution()
        return (
            measurement.get_stated_distribution()
            if isinstance(measurement, RefinedTotal | CandidateSelection | UnitQuery)
            else None
        )

    def get_noise_distribution(self, index: int, outputs: NoisyOutputs) -> Posterior | None:
        """The noise law about the raw answer."""
        measurement = self.plan.measurements[index]
        return (
            self._get_estimator(index, measurement).build_noise_posterior(outputs)
            if isinstance(measurement, AdditiveNoise)
            else None
        )

    def is_plottable(self, index: int) -> bool:
        """Whether there is a law to show."""
        measurement = self.plan.measurements[index]
        return isinstance(measurement, AdditiveNoise | RefinedTotal | UnitQuery) or (
            isinstance(measurement, CandidateSelection) and measurement.get_stated_distribution() is not None
        )

    def is_surprising(self, index: int, outputs: NoisyOutputs) -> bool:
        """Whether the raw answer lies in the 1 % tails of what the prior predicts."""
        measurement, grid_prior = self.plan.measurements[index], self.plan.grid_prior
        if isinstance(measurement, CandidateSelection):
            return measurement.is_surprising(outputs, SURPRISE_TAIL)
        if grid_prior is None or not isinstance(measurement, AdditiveNoise):
            return False
        return self._get_estimator(index, measurement).compute_surprise(grid_prior, outputs) < SURPRISE_TAIL


def _to_float_interval(ends: tuple[Value, Value] | None) -> Interval:
    """Two ends as they leave: numbers as floats, the rest as it is."""
    if ends is None:
        return None
    low, high = ends
    if isinstance(low, str | date) or isinstance(high, str | date):
        return cast("Interval", ends)
    return float(low), float(high)
