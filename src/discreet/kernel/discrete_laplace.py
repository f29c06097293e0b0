"""The discrete Laplace law, drawn exactly. Proof: discrete_laplace.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.exact import as_positive
from discreet.guarantee import Guarantee, NeighborRelation
from discreet.kernel.entropy import Entropy
from discreet.kernel.noise import Noise, compute_grid_units
from discreet.kernel.sampling import (
    MAX_WORD_DIGITS,
    Chance,
    CoinSet,
    Geometric,
    build_logistic_chance,
    build_rational_chance,
    flip_coins,
)

HALF_CHANCE = build_rational_chance(Fraction(1, 2))


@dataclass(frozen=True, init=False)
class DiscreteLaplace(Noise):
    """Exact Laplace noise on a public grid.

    P(N = k step) proportional to exp(-epsilon |k| / units), units the sensitivity in grid steps.

    epsilon-DP for answers on the grid that differ by at most the sensitivity in the l1 norm.
    """

    epsilon: Fraction
    sensitivity: Fraction
    step: Fraction
    rate: Fraction

    def __init__(self, epsilon: object, sensitivity: object, step: object = 1) -> None:
        width, grid, units = compute_grid_units(sensitivity, step)
        exact_epsilon = as_positive(epsilon, "epsilon")
        for name, value in (
            ("epsilon", exact_epsilon),
            ("sensitivity", width),
            ("step", grid),
            ("rate", exact_epsilon / units),
        ):
            object.__setattr__(self, name, value)

    def probability(self, units: int) -> float:
        """P(N = units * step)."""
        return math.tanh(self.rate / 2) * math.exp(-self.rate * abs(units))

    def tail_units(self, units: int) -> float:
        return 2 * math.exp(-self.rate * (units + 1)) / (1 + math.exp(-self.rate)) if units >= 0 else 1.0

    def variance(self) -> float:
        return self._compute_sd() ** 2 if self._compute_sd() < 1e150 else math.inf

    def _compute_sd(self) -> float:
        """The standard deviation, step / (sqrt 2 sinh(rate/2)); infinite where no float holds it."""
        half_rate_sinh = math.sinh(self.rate / 2) if self.rate < 1400 else math.inf
        return float(self.step) / half_rate_sinh / math.sqrt(2) if half_rate_sinh else math.inf

    def expected_error(self) -> float:
        rate_sinh = math.sinh(self.rate) if self.rate < 700 else math.inf
        return float(self.step) / rate_sinh if rate_sinh else math.inf

    def guarantee(self, units: int, neighbours: NeighborRelation) -> Guarantee:
        return Guarantee.dp(self.rate * units, neighbours=neighbours)

    def cost(self, neighbours: str = "add-remove") -> Guarantee:
        """The cost of one answer of the sensitivity it was made for."""
        return Guarantee.dp(self.epsilon, neighbours=neighbours)

    def sample_unit(self, entropy: Entropy) -> int:
        """One more than a geometric number, a sign, zero or not: all drawn every time, so time tells nothing."""
        _, magnitude, flips = _build_sampler_parts(self.rate)
        heads = flips.flip(entropy)
        size, sign = magnitude.combine_digits(heads, entropy), 2 * heads[-2] - 1
        if isinstance(size, int):
            return int(heads[-1]) * int(sign) * (1 + size)
        return int((1 + size) * sign * heads[-1])

    def sample_units(self, size: int, entropy: Entropy) -> NDArray[np.int64] | NDArray[np.object_]:
        nonzero, magnitude, _ = _build_sampler_parts(self.rate)
        if len(magnitude.digits) > MAX_WORD_DIGITS:
            return np.array([self.sample_unit(entropy) for _ in range(size)], dtype=np.object_)
        size_less_one = magnitude.sample_many(size, entropy)
        sign = flip_coins(HALF_CHANCE, size, entropy).astype(np.int64) * 2 - 1
        return flip_coins(nonzero, size, entropy) * sign * (size_less_one + 1)


@lru_cache(maxsize=256)
def _build_sampler_parts(rate: Fraction) -> tuple[Chance, Geometric, CoinSet]:
    nonzero, magnitude = build_logistic_chance(rate, twice=True), Geometric.of(rate)
    return nonzero, magnitude, CoinSet.of(*magnitude.digits, magnitude.tail, HALF_CHANCE, nonzero)
