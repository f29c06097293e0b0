"""What may be lost, purely or in zCDP, and the noise that loses no more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidInput
from discreet.kernel.discrete_gaussian import DiscreteGaussian
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import Noise

ZERO = Fraction(0)
RHO_ROOT_UNITS = 2**40
"""The root of a rho is rounded down to a multiple of one over this."""


@dataclass(frozen=True, slots=True)
class PrivacyBudget:
    """A pure loss `epsilon`, or `rho` of zCDP; never both."""

    epsilon: Fraction = ZERO
    rho: Fraction = ZERO

    def __post_init__(self) -> None:
        """One of the two is above 0."""
        if (self.epsilon > 0) == (self.rho > 0) or min(self.epsilon, self.rho) < 0:
            raise InvalidInput("a loss is an epsilon or a rho above 0, and not both")

    @property
    def is_pure(self) -> bool:
        """Whether it is an epsilon."""
        return self.epsilon > 0

    def take_share(self, share: Fraction) -> PrivacyBudget:
        """A share of it: losses add up, pure ones and those of zCDP alike."""
        return PrivacyBudget(self.epsilon * share, self.rho * share)

    def build_noise(self, l1: int, squared_l2: int) -> Noise:
        """For whole numbers that one person moves by at most so much: `l1` in all, `squared_l2` in squares."""
        if self.is_pure:
            return DiscreteLaplace(self.epsilon, l1)
        return DiscreteGaussian(Fraction(squared_l2) / (2 * self.rho), 1, Fraction(1))

    def compute_choice_epsilon(self) -> Fraction:
        """The epsilon of one choice by the exponential mechanism: epsilon^2 / 8 of zCDP (exponential.md)."""
        if self.is_pure:
            return self.epsilon
        return Fraction(math.isqrt(math.floor(8 * self.rho * RHO_ROOT_UNITS**2)), RHO_ROOT_UNITS)
