"""Discrete Laplace noise, drawn exactly. Proof: discrete_laplace.md.

Turn a discrete Laplace answer into one of a smaller epsilon, exactly. Proof: degradation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.noise import Noise, compute_grid_units
from discreet.mechanisms.samplers import (
    MAX_WORD_DIGITS,
    Chance,
    CoinSet,
    Geometric,
    build_logistic_chance,
    build_rational_chance,
    flip_coins,
)
from discreet.numeric import as_positive, exp_bounds
from discreet.privacy.guarantee import Guarantee, NeighborRelation
from discreet.untrusted import CheckedValue, require_exact_class, set_fields

HALF_CHANCE = build_rational_chance(Fraction(1, 2))


@dataclass(frozen=True, init=False)
class DiscreteLaplace(Noise):
    """Exact Laplace noise on a public grid: P(N = k step) proportional to exp(-epsilon |k| / units).

    `units` is the sensitivity in grid steps, rounded up. One answer is epsilon-DP, for answers on the grid that differ
    by at most the sensitivity in the l1 norm between neighbors; the sensitivity is stated for the neighbor relation in
    use.

    Args:
        epsilon: Privacy budget of one answer, above 0. The float 0.1 is read as exactly 1/10.
        sensitivity: The most that one privacy unit changes the answer (l1 norm).
        step: The distance of two points of the grid, in units of the answer.

    Attributes:
        rate: epsilon over the sensitivity in grid steps.

    Raises:
        InvalidInput: An argument is not a number above 0.
        Unsupported: The sensitivity is over 2^200 steps.

    Example:
        >>> from discreet import AddNoise, DiscreteLaplace
        >>> noise = DiscreteLaplace(epsilon=0.1, sensitivity=1)
        >>> noise.cost().epsilon
        Fraction(1, 10)
        >>> round(noise.variance())  # the standard deviation is about 14
        200
        >>> type(AddNoise(noise, sensitivity=1).answer(812))
        <class 'int'>
    """

    epsilon: Fraction
    sensitivity: Fraction
    step: Fraction
    rate: Fraction

    def __init__(self, epsilon: object, sensitivity: object, step: object = 1) -> None:
        width, grid, units = compute_grid_units(sensitivity, step)
        exact_epsilon = as_positive(epsilon, "epsilon")
        set_fields(self, epsilon=exact_epsilon, sensitivity=width, step=grid, rate=exact_epsilon / units)

    def probability(self, units: int) -> float:
        """P(N = units * step)."""
        return math.tanh(self.rate / 2) * math.exp(-self.rate * abs(units))

    def tail_units(self, units: int) -> float:
        """Compute P(|N| > units * step)."""
        return 2 * math.exp(-self.rate * (units + 1)) / (1 + math.exp(-self.rate)) if units >= 0 else 1.0

    def variance(self) -> float:
        """The square of step / (sqrt 2 sinh(rate/2)); infinite where no float holds it."""
        half_rate_sinh = math.sinh(self.rate / 2) if self.rate < 1400 else math.inf
        deviation = float(self.step) / half_rate_sinh / math.sqrt(2) if half_rate_sinh else math.inf
        return deviation**2 if deviation < 1e150 else math.inf

    def expected_error(self) -> float:
        """Compute the mean of |N|: step / sinh(rate), infinite where no float holds it."""
        rate_sinh = math.sinh(self.rate) if self.rate < 700 else math.inf
        return float(self.step) / rate_sinh if rate_sinh else math.inf

    def guarantee(self, units: int, neighbors: NeighborRelation) -> Guarantee:
        """State the cost of one answer that a change of one unit moves by at most `units` grid units."""
        return Guarantee.dp(self.rate * units, neighbors=neighbors)

    def cost(self, neighbors: str = "add-remove") -> Guarantee:
        """The cost of one answer of the sensitivity it was made for."""
        return Guarantee.dp(self.epsilon, neighbors=neighbors)

    def sample_unit(self, entropy: Entropy) -> int:
        """One more than a geometric number, a sign, zero or not: all drawn every time, so time tells nothing."""
        _, magnitude, flips = _build_sampler_parts(self.rate)
        heads = flips.flip(entropy)
        size, sign = magnitude.combine_digits(heads, entropy), 2 * heads[-2] - 1
        if isinstance(size, int):
            return int(heads[-1]) * int(sign) * (1 + size)
        return int((1 + size) * sign * heads[-1])

    def sample_units(self, size: int, entropy: Entropy) -> NDArray[np.int64] | NDArray[np.object_]:
        """Draw `size` independent values in grid units, all at once where their digits fit a word."""
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


@dataclass(frozen=True, slots=True)
class LaplaceDegradation(CheckedValue):
    """Additional noise for a number that already has `present_noise`, so that its noise becomes `target_noise`.

    It is 0 with probability sinh^2(g2/2) / sinh^2(g1/2), the ratio of the two variances, and otherwise a draw of the
    target noise; g1 and g2 are the rates of the two. It costs no privacy budget: the exact number is not used.

    Args:
        present_noise: The noise that the number has.
        target_noise: The noise that it should have, of the same step and no smaller.

    Raises:
        InvalidInput: A noise is not a DiscreteLaplace, the steps differ, or the target noise is smaller.

    Example:
        >>> from discreet.mechanisms import SYSTEM, DiscreteLaplace, LaplaceDegradation
        >>> degradation = LaplaceDegradation(DiscreteLaplace(1, 1), DiscreteLaplace(0.5, 1))
        >>> added = degradation.sample_units(3, SYSTEM)
        >>> added.shape
        (3,)
    """

    present_noise: DiscreteLaplace
    target_noise: DiscreteLaplace

    def __post_init__(self) -> None:
        for noise in (self.present_noise, self.target_noise):
            require_exact_class(noise, DiscreteLaplace, "only a DiscreteLaplace is degraded, to another one")
        if self.present_noise.step != self.target_noise.step:
            raise InvalidInput("a noisy number is degraded on its own grid; use noises of the same step")
        if self.present_noise.rate < self.target_noise.rate:
            raise InvalidInput("noise can be added and not removed; use a wanted noise that is no smaller")

    def sample_units(self, size: int, entropy: Entropy) -> NDArray[np.int64] | NDArray[np.object_]:
        """`size` independent draws in grid units. Coin and noise are drawn every time, so time tells nothing."""
        if self.present_noise.rate == self.target_noise.rate:
            return np.zeros(size, dtype=np.int64)
        is_unchanged = flip_coins(build_keep_chance(self.present_noise.rate, self.target_noise.rate), size, entropy)
        noise = self.target_noise.sample_units(size, entropy)
        return noise * ~is_unchanged


@lru_cache(maxsize=256)
def build_keep_chance(present_rate: Fraction, target_rate: Fraction) -> Chance:
    """The chance that nothing is added: sinh^2(target/2) / sinh^2(present/2), for rates present > target > 0.

    With a = e^-target and b = e^-present it is (b/a) ((1 - a)/(1 - b))^2, and b/a = e^-(present - target).
    """

    def compute_bounds(precision: int) -> tuple[int, int]:
        scaled_one = 1 << precision
        rates = (present_rate - target_rate, target_rate, present_rate)
        ratio, small, large = (exp_bounds(-rate, precision) for rate in rates)
        if large[1] >= scaled_one:  # too few digits to say anything
            return 0, scaled_one
        lowest = ratio[0] * max(scaled_one - small[1], 0) ** 2 // (scaled_one - large[0]) ** 2
        highest = -(-ratio[1] * (scaled_one - small[0]) ** 2 // (scaled_one - large[1]) ** 2)
        return lowest, min(highest, scaled_one)

    return Chance(compute_bounds)
