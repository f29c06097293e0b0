"""Document 000's questions with an answer in [0, 1], of which nothing is known: laws, densities and errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np

from discreet.mechanisms.continuous_noise import Laplace
from discreet.mechanisms.distribution import Distribution
from discreet.mechanisms.refinement import FactorProfile, Refinement
from discreet.priors.prior import Prior

LN2 = math.log(2)
EPSILON = {"0.1": 0.1, "ln2": LN2, "1": 1.0, "2": 2.0}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


@cache
def build_unit_interval(points: int = 100_001) -> Prior:
    """U[0, 1] as so many equal cells, each at its middle; an odd number, so that 1/2 is one of them."""
    cell = Fraction(1, points)
    return Prior.uniform(cell / 2, 1 - cell / 2, cell)


@cache
def build_refinement(name: str) -> Refinement:
    """A question about one person, who may be absent."""
    return Refinement.of(build_unit_interval(), EPSILON[name], about="individual")


def list_steps(profile: FactorProfile, truth: float) -> list[tuple[float, float]]:
    """The refined density around a truth, a point where it changes; without the point mass at the truth itself."""
    spans = [_find_nearest_span(float(until), truth) for until in profile.mass_limits]
    edges = sorted({edge for span in spans for edge in span})
    heights = [_find_height(profile, spans, (left + right) / 2) for left, right in pairwise(edges)]
    return [*zip(edges[:-1], heights, strict=True), (1.0, heights[-1])]


def _find_nearest_span(size: float, truth: float) -> tuple[float, float]:
    """The interval of that size in [0, 1] whose points are nearest to the truth."""
    low = min(max(truth - size / 2, 0.0), 1 - size)
    return low, 1.0 if low == 1 - size else low + size


def _find_height(profile: FactorProfile, spans: Sequence[tuple[float, float]], x: float) -> float:
    steps = zip(spans, profile.step_factors, strict=True)
    return next(float(factor) for (low, high), factor in steps if low <= x <= high)


def compute_density(law: Laplace, center: float, places: Sequence[float]) -> list[tuple[float, float]]:
    """The density of Laplace noise around a truth: its tail over twice its scale."""
    return [(x, law.tail(abs(x - center)) / (2 * law.scale)) for x in places]


def compute_squared_error(law: Distribution, truth: float) -> float:
    """The mean squared error of a draw."""
    return law.variance() + (law.mean() - truth) ** 2


def compute_clamped_error(law: Laplace, truth: float) -> float:
    """The mean squared error of truth plus noise, clamped to [0, 1]: half the integral of 2 x P(|N| > x) each way."""
    return sum(_integrate_below(law, reach) for reach in (truth, 1 - truth)) / 2


def _integrate_below(law: Laplace, reach: float) -> float:
    places = reach * (NODES + 1) / 2
    return float(sum(w * 2 * x * law.tail(x) for w, x in zip(WEIGHTS, places, strict=True))) * reach / 2
