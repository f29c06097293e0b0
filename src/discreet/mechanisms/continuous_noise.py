"""The continuous Laplace and Gaussian laws, for comparison and calibration: neither draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from discreet.mechanisms.noise import SymmetricDistribution
from discreet.numeric import as_number_between, as_positive
from discreet.untrusted import set_fields


@dataclass(frozen=True, init=False)
class Laplace(SymmetricDistribution):
    """The continuous Laplace distribution, for comparison: density exp(-|x|/b)/(2b), b = sensitivity/epsilon.

    It describes noise and cannot be sampled: released noise is always on a grid.

    Args:
        epsilon: Privacy budget of one answer, above 0.
        sensitivity: The most that one privacy unit changes the answer.

    Raises:
        InvalidInput: An argument is not a number above 0.

    Example:
        >>> from discreet.mechanisms import Laplace
        >>> Laplace(epsilon=0.1).variance()
        200.0
    """

    epsilon: Fraction
    sensitivity: Fraction

    def __init__(self, epsilon: object, sensitivity: object = 1) -> None:
        set_fields(self, epsilon=as_positive(epsilon, "epsilon"), sensitivity=as_positive(sensitivity, "sensitivity"))

    @property
    def scale(self) -> float:
        """b."""
        return float(self.sensitivity / self.epsilon)

    def tail(self, distance: float | Fraction) -> float:
        """Compute P(|N| > distance)."""
        return math.exp(-max(float(distance), 0.0) / self.scale)

    def variance(self) -> float:
        """Compute the variance, in squared units of the answer."""
        return 2 * self.scale * self.scale

    def expected_error(self) -> float:
        """Compute the mean of |N|, in units of the answer."""
        return self.scale

    def interval(self, confidence: float) -> tuple[float, float]:
        """Compute the symmetric interval that holds the noise with exactly that probability."""
        width = -self.scale * math.log1p(-float(as_number_between(confidence, 0, 1, "confidence")))
        return -width, width


STANDARD_NORMAL = NormalDist()
MAX_EPSILON = 500
"""A larger epsilon is met with the sigma of this one: e^epsilon still fits a float."""


@dataclass(frozen=True)
class Gaussian(SymmetricDistribution):
    """The continuous normal distribution of mean 0, for comparison.

    It describes noise and cannot be sampled: released noise is always on a grid.

    Args:
        sigma: The standard deviation, above 0.

    Raises:
        InvalidInput: Sigma is not a number above 0.

    Example:
        >>> from discreet.mechanisms import Gaussian
        >>> low, high = Gaussian(sigma=10).interval(0.95)
        >>> round(high, 2)
        19.6
    """

    sigma: float

    def __post_init__(self) -> None:
        as_positive(self.sigma, "sigma")

    @staticmethod
    def calibrated(epsilon: object, delta: object, sensitivity: object = 1) -> Gaussian:
        """The least sigma that is (epsilon, delta)-DP at this l2 sensitivity (Balle and Wang 2018)."""
        epsilon_value, width = float(as_positive(epsilon, "epsilon")), float(as_positive(sensitivity, "sensitivity"))
        delta_value = float(as_number_between(delta, 0, 1, "delta"))

        def is_wide_enough(sigma: float) -> bool:
            return compute_gaussian_delta(sigma, min(epsilon_value, MAX_EPSILON)) <= delta_value

        low = high = 1.0
        while not is_wide_enough(high):
            high *= 2
        while is_wide_enough(low):
            low /= 2
        return Gaussian(_bisect_condition(is_wide_enough, low, high) * width)

    @staticmethod
    def of_the_book(epsilon: object, delta: object, sensitivity: object = 1) -> Gaussian:
        """Definition 2.7 of document 003: enough below epsilon 1, wrong for large ones (7.91 at delta 0.01)."""
        epsilon_value, width = float(as_positive(epsilon, "epsilon")), float(as_positive(sensitivity, "sensitivity"))
        return Gaussian(width * math.sqrt(2 * math.log(2 / as_number_between(delta, 0, 1, "delta"))) / epsilon_value)

    def tail(self, distance: float | Fraction) -> float:
        """Compute P(|N| > distance)."""
        return math.erfc(max(float(distance), 0.0) / self.sigma / math.sqrt(2))

    def variance(self) -> float:
        """Compute the variance, in squared units of the answer."""
        return self.sigma * self.sigma

    def expected_error(self) -> float:
        """Compute the mean of |N|, in units of the answer."""
        return self.sigma * math.sqrt(2 / math.pi)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Compute the symmetric interval that holds the noise with exactly that probability."""
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


def _bisect_condition(condition: Callable[[float], bool], low: float, high: float) -> float:
    """Where a monotone condition becomes true, to the last few digits of a float."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high
