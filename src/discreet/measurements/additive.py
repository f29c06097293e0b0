"""Counts, sums, means and variances: whole totals plus noise. Proofs of the scales: additive.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from discreet.measurements.total_sensitivity import LinearQuery
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.noise import IndependentNoises, Noise
from discreet.mechanisms.polygon_staircase import PolygonStaircase
from discreet.mechanisms.staircase import Staircase
from discreet.query.scan import Amounts

MIN_STAIRCASE_EPSILON = Fraction(1, 1000)
MIN_POLYGON_EPSILON = Fraction(1, 20)
"""With a smaller epsilon a staircase has so many steps that it is Laplace noise, or slow to describe."""
MAX_STEP = 2**100
VectorNoise = IndependentNoises | BoxStaircase | PolygonStaircase


@dataclass(frozen=True, slots=True)
class AdditiveNoise:
    """A linear query with the noise of its components, together or one by one.

    Measurements of one `joint_group` above 0 are the same but for their estimates, and are drawn once for all, by the
    `strategy` of that name.
    """

    linear_query: LinearQuery
    noise: VectorNoise
    joint_group: int = 0
    strategy: str = ""

    @property
    def name(self) -> str:
        """What people call it."""
        ranks = self.linear_query.ranks
        if isinstance(self.noise, IndependentNoises):
            name = NOISE_NAMES[type(self.noise.noises[0])] + (f" ({self.strategy})" if self.strategy else "")
        else:
            name = "box staircase" if isinstance(self.noise, BoxStaircase) else "polygon staircase"
        return name if ranks is None else f"{ranks.name} by {name}"

    @property
    def single_noise(self) -> Noise | None:
        """The noise of the one total there is, if it is one."""
        if isinstance(self.noise, IndependentNoises) and len(self.linear_query.components) == 1:
            return self.noise.noises[0]
        return None

    def compute_inputs(self, amounts: Amounts) -> tuple[int, ...]:
        """The exact totals of one cell, from its measures. Secret."""
        return tuple(component.compute_total(amounts) for component in self.linear_query.components)

    def value(self, outputs: Sequence[int]) -> Fraction:
        """The number asked for."""
        return self.linear_query.estimate.value(outputs)

    def interval_within(self, outputs: Sequence[int], half_widths: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        """An interval that holds the exact number where the noises go so far."""
        ranges = [(x - r, x + r) for x, r in zip(outputs, half_widths, strict=True)]
        low, high = self.linear_query.estimate.value_range(ranges)
        value = self.value(outputs)  # where nearly nothing was counted it is a stand-in, and may lie outside
        return min(low, value), max(high, value)

    def half_widths(self, confidence: float) -> list[Fraction]:
        """How far the noises go, all of them with this probability: the parts of a box together, others shared out."""
        if isinstance(self.noise, BoxStaircase):
            beyond, _ = self.noise.region(confidence)
            boxes = zip(self.noise.boxes.half_widths, self.noise.boxes.widths, strict=True)
            return [Fraction(math.ceil(offset + max(math.ceil(beyond), 0) * width)) for offset, width in boxes]
        each_confidence = 1 - (1 - confidence) / len(self.linear_query.components)
        if isinstance(self.noise, IndependentNoises):
            return [Fraction(noise.interval(each_confidence)[1]) for noise in self.noise.noises]
        return [Fraction(end) for _, end in self.noise.interval(each_confidence)]


NOISE_NAMES: dict[type[Noise], str] = {
    DiscreteLaplace: "discrete Laplace",
    DiscreteGaussian: "discrete Gaussian",
    Staircase: "staircase",
}


def build_laplace(linear_query: LinearQuery, epsilon: Fraction) -> AdditiveNoise:
    """Every component at scale l1_sensitivity / epsilon: together epsilon-DP, since the losses add up to epsilon."""
    scales = [Fraction(component.l1_sensitivity) for component in linear_query.components]
    noises = tuple(DiscreteLaplace(epsilon * s.denominator, s.numerator) for s in scales)
    return AdditiveNoise(linear_query, IndependentNoises(noises))


def build_gaussian(linear_query: LinearQuery, rho: Fraction) -> AdditiveNoise:
    """Every component at variance l2_sensitivity_sq / (2 rho): together rho-zCDP."""
    squares = (component.l2_sensitivity_sq / (2 * rho) for component in linear_query.components)
    noises = tuple(DiscreteGaussian(square, 1, Fraction(1)) for square in squares)
    return AdditiveNoise(linear_query, IndependentNoises(noises))


_find_min_variance_staircase = lru_cache(maxsize=1024)(Staircase.least_variance)


def build_staircase(linear_query: LinearQuery, epsilon: Fraction) -> AdditiveNoise | None:
    """Each of at most `max_contributions` changes lies in the box, or the one in the polygon, and costs a level.

    Together epsilon. None where it is the discrete Laplace law itself, or where its steps are too many to describe.
    """
    share, box = epsilon / linear_query.max_contributions, linear_query.linf_box
    min_share = MIN_POLYGON_EPSILON if linear_query.corners else MIN_STAIRCASE_EPSILON
    if share < min_share or max(box) > MAX_STEP or box == (1,):
        return None
    if len(box) == 1:
        return AdditiveNoise(linear_query, IndependentNoises((_find_min_variance_staircase(share, *box),)))
    if linear_query.corners:
        return AdditiveNoise(linear_query, PolygonStaircase(epsilon, linear_query.corners))
    return AdditiveNoise(linear_query, BoxStaircase(share, box))
