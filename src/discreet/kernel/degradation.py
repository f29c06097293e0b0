"""Turn a discrete Laplace answer into one of a smaller epsilon, exactly. Proof: degradation.md."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import exp_bounds
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.entropy import Entropy
from discreet.kernel.sampling import Chance, flip_coins


@dataclass(frozen=True, slots=True)
class LaplaceDegradation:
    """Additional noise for a number that already has the noise `present`, so that its noise becomes `wanted`.

    It is 0 with probability sinh^2(g2/2) / sinh^2(g1/2), the ratio of the two variances, and otherwise a draw of
    `wanted`; g1 and g2 are the rates of `present` and `wanted`. It costs nothing: the exact number is not used.
    """

    present_noise: DiscreteLaplace
    target_noise: DiscreteLaplace

    def __post_init__(self) -> None:
        """Both are on one grid, and the noise does not become less."""
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
    """The chance that nothing is added: sinh^2(wanted/2) / sinh^2(present/2), for rates present > wanted > 0.

    With a = e^-wanted and b = e^-present it is (b/a) ((1 - a)/(1 - b))^2, and b/a = e^-(present - wanted).
    """

    def compute_bounds(precision: int) -> tuple[int, int]:
        scaled_one = 1 << precision
        ratio, small, large = (
            exp_bounds(-x, precision) for x in (present_rate - target_rate, target_rate, present_rate)
        )
        if large[1] >= scaled_one:  # too few digits to say anything
            return 0, scaled_one
        lowest = ratio[0] * max(scaled_one - small[1], 0) ** 2 // (scaled_one - large[0]) ** 2
        highest = -(-ratio[1] * (scaled_one - small[0]) ** 2 // (scaled_one - large[1]) ** 2)
        return lowest, min(highest, scaled_one)

    return Chance(compute_bounds)
