"""The continuous Laplace law, for comparison and for the documents' numbers. It does not draw: see discrete_laplace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.exact import as_number_between, as_positive
from discreet.kernel.noise import SymmetricDistribution


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
