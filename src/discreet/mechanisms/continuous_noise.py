"""Continuous noise distributions of the documents, for comparison. None of them samples.

The continuous law 1 / (1 + |x|^gamma) of document 004, for its figures. It does not draw. Note: heavy_tail.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from discreet.errors import InvalidInput
from discreet.mechanisms.noise import SymmetricDistribution
from discreet.numeric import as_number_between, as_positive, as_rational


@dataclass(frozen=True, init=False)
class Laplace(SymmetricDistribution):
    """The continuous Laplace law, for comparison; it does not draw.

    Density exp(-|x|/b)/(2b), b = sensitivity/epsilon.
    """

    epsilon: Fraction
    sensitivity: Fraction

    def __init__(self, epsilon: object, sensitivity: object = 1) -> None:
        object.__setattr__(self, "epsilon", as_positive(epsilon, "epsilon"))
        object.__setattr__(self, "sensitivity", as_positive(sensitivity, "sensitivity"))

    @property
    def scale(self) -> float:
        """b."""
        return float(self.sensitivity / self.epsilon)

    def tail(self, distance: float | Fraction) -> float:
        return math.exp(-max(float(distance), 0.0) / self.scale)

    def variance(self) -> float:
        return 2 * self.scale * self.scale

    def expected_error(self) -> float:
        return self.scale

    def interval(self, confidence: float) -> tuple[float, float]:
        width = -self.scale * math.log1p(-float(as_number_between(confidence, 0, 1, "confidence")))
        return -width, width


def compute_laplace_region(scales: Sequence[float], confidence: float) -> tuple[float, float]:
    """The smallest region that holds independent Laplace noises of these scales with that probability.

    It is {x : sum |x_i| / b_i <= a}; returns a and the region's size (2a)^d prod(b_i) / d!.
    """
    miss_probability = 1 - float(as_number_between(confidence, 0, 1, "confidence"))
    count = len(scales)

    def compute_outside(a: float) -> float:
        return math.exp(-a) * math.fsum(a**i / math.factorial(i) for i in range(count))

    low, high = 0.0, 1.0
    while compute_outside(high) > miss_probability:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if compute_outside(middle) > miss_probability else (low, middle)
    return high, (2 * high) ** count * math.prod(scales) / math.factorial(count)


STANDARD_NORMAL = NormalDist()
MAX_EPSILON = 500
"""A larger epsilon is met with the sigma of this one: e^epsilon still fits a float."""


@dataclass(frozen=True)
class Gaussian(SymmetricDistribution):
    """The continuous Gaussian law, for comparison; it does not draw.

    Normal with mean 0 and standard deviation sigma.
    """

    sigma: float

    def __post_init__(self) -> None:
        as_positive(self.sigma, "sigma")

    @staticmethod
    def calibrated(epsilon: object, delta: object, sensitivity: object = 1) -> Gaussian:
        """The least sigma that is (epsilon, delta)-DP at this l2 sensitivity (Balle and Wang 2018)."""
        epsilon_value, width = float(as_positive(epsilon, "epsilon")), float(as_positive(sensitivity, "sensitivity"))
        epsilon_value = min(epsilon_value, MAX_EPSILON)
        delta_value = float(as_number_between(delta, 0, 1, "delta"))
        low = high = 1.0
        while compute_gaussian_delta(high, epsilon_value) > delta_value:
            high *= 2
        while compute_gaussian_delta(low, epsilon_value) <= delta_value:
            low /= 2
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if compute_gaussian_delta(middle, epsilon_value) > delta_value else (low, middle)
        return Gaussian(high * width)

    @staticmethod
    def of_the_book(epsilon: object, delta: object, sensitivity: object = 1) -> Gaussian:
        """Definition 2.7 of document 003: enough below epsilon 1, wrong for large ones (7.91 at delta 0.01)."""
        epsilon_value, width = float(as_positive(epsilon, "epsilon")), float(as_positive(sensitivity, "sensitivity"))
        return Gaussian(width * math.sqrt(2 * math.log(2 / as_number_between(delta, 0, 1, "delta"))) / epsilon_value)

    def tail(self, distance: float | Fraction) -> float:
        return math.erfc(max(float(distance), 0.0) / self.sigma / math.sqrt(2))

    def variance(self) -> float:
        return self.sigma * self.sigma

    def expected_error(self) -> float:
        return self.sigma * math.sqrt(2 / math.pi)

    def interval(self, confidence: float) -> tuple[float, float]:
        width = self.sigma * STANDARD_NORMAL.inv_cdf((1 + float(as_number_between(confidence, 0, 1, "confidence"))) / 2)
        return -width, width


def compute_gaussian_delta(sigma: float, epsilon: float | Fraction, sensitivity: float = 1.0) -> float:
    """The exact delta of continuous Gaussian noise at an epsilon."""
    ratio = sensitivity / sigma
    near, far = ratio / 2 - float(epsilon) / ratio, -ratio / 2 - float(epsilon) / ratio
    log_far = _compute_log_cdf(far)
    return max(0.0, math.exp(_compute_log_cdf(near)) - math.exp(float(epsilon) + log_far))


def _compute_log_cdf(x: float) -> float:
    """ln of the standard normal's distribution function, by its asymptotic series where it underflows."""
    tail = math.erfc(-x / math.sqrt(2)) / 2
    if tail > 0:
        return math.log(tail)
    return -x * x / 2 - math.log(-x * math.sqrt(2 * math.pi)) + math.log1p(-1 / x**2 + 3 / x**4)


QUADRATURE_NODES, QUADRATURE_WEIGHTS = np.polynomial.legendre.leggauss(200)


def compute_heavy_tail_interval(gamma: object, scale: object, confidence: object) -> float:
    """The half width of the interval about 0 that holds scale * Z with that probability."""
    power, share = _parse_gamma(gamma), float(as_number_between(confidence, 0, 1, "confidence"))
    half = (math.pi / power) / math.sin(math.pi / power)

    def is_wide_enough(width: float) -> bool:
        if width <= 1:
            return _integrate_inside(width, power) >= share * half
        return _integrate_outside(width, power) <= (1 - share) * half

    high = 1.0
    while not is_wide_enough(high):
        high *= 2
    return float(as_positive(scale, "scale")) * _bisect_condition(is_wide_enough, 0.0, high)


def compute_heavy_tail_loss(gamma: object, alpha: float, beta: float) -> float:
    """The proven loss of S Z / alpha, S beta-smooth: alpha (g-1)^((g-1)/g) to slide, beta max(g-1, 1) to dilate."""
    power = _parse_gamma(gamma)
    return alpha * _compute_max_slope(power) + beta * max(power - 1, 1)


def compute_admissible_loss(gamma: object) -> float:
    """What the document's (epsilon / 4 gamma, epsilon / gamma) costs, divided by epsilon; above 1 it is not proven."""
    power = _parse_gamma(gamma)
    return compute_heavy_tail_loss(gamma, 1 / (4 * power), 1 / power)


def find_admissible_range() -> tuple[float, float]:
    """The gammas between which the document's choice is proven epsilon-DP."""
    low = _bisect_condition(lambda gamma: compute_admissible_loss(gamma) <= 1, 1 + 1e-9, 2.0)
    high = _bisect_condition(lambda gamma: compute_admissible_loss(gamma) >= 1, 2.0, 64.0)
    return low, high


def compute_largest_alpha(gamma: object, beta: float) -> float:
    """The largest proven alpha / epsilon once beta / epsilon is chosen: 1/2 at gamma 2 and beta 1/2."""
    power = _parse_gamma(gamma)
    return (1 - beta * max(power - 1, 1)) / _compute_max_slope(power)


def _parse_gamma(gamma: object) -> float:
    power = as_rational(gamma, "gamma")
    if power <= 1:
        raise InvalidInput("gamma must be above 1; the law has no total otherwise")
    return float(power)


def _compute_max_slope(power: float) -> float:
    """The largest slope of ln(1 + x^gamma)."""
    return math.pow(power - 1, (power - 1) / power)


def _integrate_inside(width: float, power: float) -> float:
    """The integral of 1 / (1 + x^gamma) from 0 to a width of at most 1."""
    x = width * (QUADRATURE_NODES + 1) / 2
    return float(np.sum(QUADRATURE_WEIGHTS / (1 + x**power))) * width / 2


def _integrate_outside(width: float, power: float) -> float:
    """The same from a width of at least 1 to infinity, with v = (x / width)^(1 - gamma)."""
    v = (QUADRATURE_NODES + 1) / 2
    flat = float(np.sum(QUADRATURE_WEIGHTS / (1 + width**-power * v ** (power / (power - 1))))) / 2
    return flat * math.pow(width, 1 - power) / (power - 1)


def _bisect_condition(condition: Callable[[float], bool], low: float, high: float) -> float:
    """Where a monotone condition becomes true, to the last few digits of a float."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high
