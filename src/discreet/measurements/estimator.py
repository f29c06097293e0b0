"""What noisy totals mean: how far off they will be, intervals, and the posterior of someone who held a prior.

Post-processing and public facts alone. The error of a mean of a private number of rows is stated for about so many rows
beforehand; afterwards the number of rows is summed out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.estimation import noise_distributions
from discreet.estimation.grid_prior import GridPrior
from discreet.estimation.noise_distributions import (
    AnswerNoise,
    RoundedNoise,
    ScaledNoise,
    SummedNoise,
    compute_sum_deviation,
)
from discreet.estimation.noisy_ratio import NoisyRatio, NoisyVariance
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.point_estimates import Linear, MeanFromCenter, MeanOfPair, Variance, WeightedSum
from discreet.mechanisms.noise import IndependentNoises, Noise
from discreet.priors.posterior import Posterior

Array = NDArray[np.float64]
ERROR_SHARES = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)


@dataclass(frozen=True, eq=False)
class Estimator:
    """A noisy measurement, about how many rows it is of, and at most how many there can be."""

    measurement: AdditiveNoise
    rows: float
    max_rows: float = math.inf

    @cached_property
    def ratio(self) -> NoisyRatio | None:
        """For a mean of a private number of rows."""
        estimate = self.measurement.linear_query.estimate
        if not isinstance(estimate, MeanOfPair | MeanFromCenter):
            return None
        low, high = (float(end * estimate.step) for end in (estimate.lower, estimate.upper))
        width = float(max(estimate.upper - estimate.lower, 1))

        def compute_slopes(share: Array) -> tuple[Array, Array]:
            if isinstance(estimate, MeanOfPair):
                return share * width, (1 - share) * width
            return (2 * share - 1) * (width / estimate.grain), np.ones(len(share))

        return NoisyRatio(self.measurement.noise, low, high, compute_slopes)

    @cached_property
    def squares(self) -> NoisyVariance | None:
        """For a variance."""
        estimate = self.measurement.linear_query.estimate
        if not isinstance(estimate, Variance):
            return None
        public_rows = None if estimate.rows is None else float(estimate.rows)
        width, step = float(max(estimate.width, 1)), float(estimate.step)
        return NoisyVariance(self.measurement.noise, width, step, public_rows, estimate.root)

    def expected_error(self, grid_prior: GridPrior | None) -> float:
        """The root mean square error of the refined value, or without a prior of the raw one."""
        if grid_prior is None and isinstance(self.measurement.linear_query.estimate, WeightedSum):
            return compute_sum_deviation(self.measurement.noise, self._weights)
        if self.ratio is not None:
            if grid_prior is not None:
                noise = self.ratio.build_mean_noise(self.ratio.compute_share(grid_prior.mean), self.rows)
                return noise_distributions.estimate_posterior_error(grid_prior, noise)
            errors = [self.ratio.compute_sd(share, self.rows) for share in ERROR_SHARES]
            return min(math.sqrt(sum(error**2 for error in errors) / len(errors)), self.ratio.width)
        line_noise = self.build_line_noise(grid_prior.mean if grid_prior else None)
        # Rounding to bins, whose values are taken to be even, adds its standard deviation.
        estimate = self.measurement.linear_query.estimate
        rounding = float(estimate.rounding_error) / math.sqrt(3) if isinstance(estimate, Linear) else 0.0
        return math.hypot(noise_distributions.estimate_posterior_error(grid_prior, line_noise), rounding)

    def build_line_noise(self, about: float | None = None, rows: float | None = None) -> AnswerNoise:
        """How far the answer falls from the truth; of a mean or variance, near a value and for so many rows."""
        estimate = self.measurement.linear_query.estimate
        if isinstance(estimate, Linear):
            return ScaledNoise(cast(Noise, self.measurement.single_noise), abs(float(estimate.slope)))
        if isinstance(estimate, WeightedSum):
            if self._single_noise is not None:
                return ScaledNoise(*self._single_noise)
            noises = cast(IndependentNoises, self.measurement.noise)
            return noise_distributions.tabulate_laplace_sum(noises, self._weights)
        if self.ratio is not None:
            share = 0.5 if about is None else self.ratio.compute_share(about)
            return self.ratio.build_mean_noise(share, self.rows if rows is None else rows)
        return SummedNoise.of(self.measurement.noise, self._variance_weights(about, rows))

    @property
    def _weights(self) -> tuple[float, ...]:
        return tuple(map(float, cast(WeightedSum, self.measurement.linear_query.estimate).weights))

    @property
    def _single_noise(self) -> tuple[Noise, float] | None:
        """The one noise in a weighted sum, and its weight, where it is one."""
        pairs = zip(cast(IndependentNoises, self.measurement.noise).noises, self._weights, strict=True)
        used = [(noise, abs(weight)) for noise, weight in pairs if weight]
        return used[0] if len(used) == 1 else None

    def _variance_weights(self, about: float | None, rows: float | None) -> tuple[float, ...]:
        """What each total adds to the answer, to first order, where the mean is near the middle."""
        squares = cast(NoisyVariance, self.squares)
        count = squares.rows or max(rows or self.rows, 2.0)
        spread = squares.width**2 / 3 if about is None else float(squares.compute_variance(np.array([about]))[0])
        scale = squares.unit**2 / 4 / count
        if squares.is_standard_deviation:
            scale /= max(2 * math.sqrt(spread) * squares.unit / 2, 1e-12)
        weights = (scale * (squares.width**2 / 2 - spread), 0.0, scale / 2)
        return weights[1:] if squares.rows is not None else weights

    @property
    def depends_on_rows(self) -> bool:
        """Whether how far off it may be depends on how many rows are selected, and that number is not public."""
        return self.ratio is not None or (self.squares is not None and self.squares.rows is None)

    def half_width(self, confidence: float, rows: float | None = None) -> float:
        """How far off the answer may be with this probability; of a mean, where at least so many rows have a value."""
        estimate = self.measurement.linear_query.estimate
        if isinstance(estimate, Linear):
            noise = cast(Noise, self.measurement.single_noise)
            return noise.interval(confidence)[1] * abs(float(estimate.slope)) + float(estimate.rounding_error)
        if isinstance(estimate, WeightedSum):
            if self._single_noise is not None:
                noise, weight = self._single_noise
                return noise.interval(confidence)[1] * weight
            noises = cast(IndependentNoises, self.measurement.noise)
            half_width = noise_distributions.compute_sum_half_width(noises, self._weights, confidence)
            is_integer = all(coefficient.denominator == 1 for coefficient in estimate.weights)
            return float(math.floor(half_width)) if is_integer else half_width
        error_model = self.ratio or cast(NoisyVariance, self.squares)
        return error_model.bound_error(confidence, self.rows if rows is None else rows)

    def interval_bound(self, confidence: float) -> float:
        """Bound the distance from the answer to either end of its interval; of a mean it holds but once in a million.

        Half the interval is no longer than that.
        """
        if self.ratio is not None:
            return self.ratio.bound_interval(confidence, self.rows)
        if self.squares is not None:
            return self.squares.bound_interval(list(map(float, self._get_half_widths(confidence))), self.rows)
        return self.half_width(confidence)

    def interval(self, outputs: Sequence[int], confidence: float) -> tuple[float, float]:
        """Where the exact number lies with at least this probability."""
        if self.ratio is not None:
            return self.ratio.interval(outputs, confidence)
        half_widths = self._get_half_widths(confidence)
        if isinstance(self.measurement.linear_query.estimate, WeightedSum):
            middle = float(self.measurement.value(outputs))
            return middle - float(half_widths[0]), middle + float(half_widths[0])
        low, high = self.measurement.interval_within(outputs, half_widths)
        return float(low), float(high)

    @cached_property
    def _half_widths(self) -> dict[float, list[Fraction]]:
        return {}

    def _get_half_widths(self, confidence: float) -> list[Fraction]:
        """How far the noises go, or of a weighted sum how far it goes: the same in every cell, so worked out once."""
        if confidence not in self._half_widths:
            if isinstance(self.measurement.linear_query.estimate, WeightedSum):
                self._half_widths[confidence] = [Fraction(self.half_width(confidence))]
            else:
                self._half_widths[confidence] = self.measurement.half_widths(confidence)
        return self._half_widths[confidence]

    def raw_value(self, outputs: Sequence[int], grid_prior: GridPrior | None) -> Fraction:
        """The number asked for; where nearly nothing was counted, the prior mean or the middle of the bounds."""
        if self.ratio is not None and grid_prior is not None and self._estimate_rows(outputs) < 1:
            return Fraction(grid_prior.mean)
        return self.measurement.value(outputs)

    def _estimate_rows(self, outputs: Sequence[int]) -> float:
        estimate = self.measurement.linear_query.estimate
        if isinstance(estimate, MeanOfPair):
            return sum(max(total, 0) for total in outputs) / max(estimate.upper - estimate.lower, 1)
        return float(outputs[1] if isinstance(estimate, MeanFromCenter) else outputs[0])

    def posterior(self, grid_prior: GridPrior, outputs: Sequence[int]) -> Posterior:
        """What is known after the answer."""
        if self.ratio is not None:
            return self.ratio.posterior(grid_prior, outputs, self.max_rows)
        if self.squares is not None:
            return self.squares.posterior(grid_prior, outputs, float(self.measurement.value(outputs)), self.max_rows)
        noise, estimate = self.build_line_noise(), self.measurement.linear_query.estimate
        if isinstance(estimate, Linear) and estimate.rounding_error and isinstance(noise, ScaledNoise):
            noise = RoundedNoise(noise, float(estimate.rounding_error))  # the middle of a bin stands for its values
        return noise_distributions.update_grid_prior(grid_prior, noise, self._compute_unclipped(outputs))

    def _compute_unclipped(self, outputs: Sequence[int]) -> float:
        """A total as it was drawn, also beyond what is possible: that tells something too."""
        estimate = self.measurement.linear_query.estimate
        if not isinstance(estimate, Linear):
            return float(self.measurement.value(outputs))
        return float(estimate.slope * outputs[0] + estimate.offset)

    def build_noise_posterior(self, outputs: Sequence[int]) -> Posterior:
        """The noise law about the raw answer."""
        raw, noise = self._get_raw_and_noise(outputs)
        return noise_distributions.build_flat_posterior(noise, raw, noise.unit)

    def compute_surprise(self, grid_prior: GridPrior, outputs: Sequence[int]) -> float:
        """The chance of an answer at least as far out, for someone whose prior is right."""
        raw, noise = self._get_raw_and_noise(outputs)
        return noise_distributions.compute_surprise(grid_prior, noise, raw)

    def _get_raw_and_noise(self, outputs: Sequence[int]) -> tuple[float, AnswerNoise]:
        """The raw answer, and how far it falls from the truth for the noisy number of rows."""
        if isinstance(self.measurement.linear_query.estimate, Linear | WeightedSum):
            return self._compute_unclipped(outputs), self.build_line_noise()
        raw = float(self.measurement.value(outputs))
        return raw, self.build_line_noise(raw, max(self._estimate_rows(outputs), 1.0))
