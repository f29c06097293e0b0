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
from discreet.kernel.sampling import Chance, coins


@dataclass(frozen=True, slots=True)
class LaplaceDegradation:
    """Additional noise for a number that already has the noise `present`, so that its noise becomes `wanted`.

    It is 0 with probability sinh^2(g2/2) / sinh^2(g1/2), the ratio of the two variances, and otherwise a draw of
    `wanted`; g1 and g2 are the rates of `present` and `wanted`. It costs nothing: the exact number is not used.
    """

    present: DiscreteLaplace
    wanted: DiscreteLaplace

    def __post_init__(self) -> None:
        """Both are on one grid, and the noise does not become less."""
        if self.present.step != self.wanted.step:
            raise InvalidInput("a noisy number is degraded on its own grid; use noises of the same step")
        if self.present.rate < self.wanted.rate:
            raise InvalidInput("noise can be added and not removed; use a wanted noise that is no smaller")

    def draw_units(self, size: int, entropy: Entropy) -> NDArray[np.int64] | NDArray[np.object_]:
        """`size` independent draws in grid units. Coin and noise are drawn every time, so time tells nothing."""
        if self.present.rate == self.wanted.rate:
            return np.zeros(size, dtype=np.int64)
        kept = coins(keep_chance(self.present.rate, self.wanted.rate), size, entropy)
        noise = self.wanted.draw_units(size, entropy)
        return noise * ~kept


@lru_cache(maxsize=256)
def keep_chance(present: Fraction, wanted: Fraction) -> Chance:
    """The chance that nothing is added: sinh^2(wanted/2) / sinh^2(present/2), for rates present > wanted > 0.

    With a = e^-wanted and b = e^-present it is (b/a) ((1 - a)/(1 - b))^2, and b/a = e^-(present - wanted).
    """

    def bounds(precision: int) -> tuple[int, int]:
        one = 1 << precision
        ratio, small, large = (exp_bounds(-x, precision) for x in (present - wanted, wanted, present))
        if large[1] >= one:  # too few digits to say anything
            return 0, one
        lowest = ratio[0] * max(one - small[1], 0) ** 2 // (one - large[0]) ** 2
        highest = -(-ratio[1] * (one - small[0]) ** 2 // (one - large[1]) ** 2)
        return lowest, min(highest, one)

    return Chance(bounds)
