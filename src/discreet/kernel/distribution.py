"""A finite law known exactly: a public weight for every outcome, times a factor for the block it lies in.

Refinement has at most six blocks; the exponential mechanism has one per score. A draw picks a block exactly, then an
outcome in it, so no outcome's probability is ever written out. Its numbers depend on the data: none of them leaves,
only a draw does.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import lcm
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.kernel.entropy import Entropy, bits, source
from discreet.kernel.sampling import WORD, below, choose
from discreet.prior import Prior

Integers = NDArray[np.int64]


class Factors(Protocol):
    """What multiplies the weights of each block."""

    def exact(self, block: int) -> Fraction:
        """The factor of a block."""
        ...

    def floats(self, count: int) -> NDArray[np.float64]:
        """The factors of the first blocks, for what may be approximate."""
        ...

    def choose(self, masses: list[int], entropy: Entropy) -> int:
        """A block, with probability proportional to mass times factor."""
        ...


@dataclass(frozen=True, slots=True)
class Few:
    """A handful of rational factors."""

    values: tuple[Fraction, ...]

    def exact(self, block: int) -> Fraction:
        return self.values[block]

    def floats(self, count: int) -> NDArray[np.float64]:
        return np.array([float(value) for value in self.values[:count]])

    def choose(self, masses: list[int], entropy: Entropy) -> int:
        common = lcm(*(value.denominator for value in self.values))
        return choose([mass * int(value * common) for mass, value in zip(masses, self.values, strict=False)], entropy)


@dataclass(frozen=True, slots=True)
class Powers:
    """Block i has the factor ratio^i, 0 < ratio < 1, for thousands of blocks."""

    ratio: Fraction

    def exact(self, block: int) -> Fraction:
        return self.ratio**block

    def floats(self, count: int) -> NDArray[np.float64]:
        powers: NDArray[np.float64] = np.exp(np.log(float(self.ratio)) * np.arange(count))
        return powers

    def choose(self, masses: list[int], entropy: Entropy) -> int:
        """Inversion with a uniform number and sums known to `precision` bits, more of both until there is no doubt."""
        precision, word, count = 2 * WORD, 0, 0
        while True:
            sums = self._sums(masses, precision)
            while count < precision:
                word, count = word << WORD | bits(WORD, entropy), count + WORD
            low, high = word * sums[-1][0] >> count, -(-(word + 1) * sums[-1][1] >> count)
            first = next(block for block, (_, upper) in enumerate(sums) if low < upper)
            if high <= sums[first][0] and (first == 0 or low >= sums[first - 1][1]):
                return first
            precision *= 2

    def _sums(self, masses: list[int], precision: int) -> list[tuple[int, int]]:
        """Prefix sums of mass times ratio^i in units of 2^-precision, rounded down and up."""
        low = high = 1 << precision
        top, bottom = self.ratio.numerator, self.ratio.denominator
        terms = []
        for mass in masses:
            terms.append((mass * low, mass * high))
            low, high = low * top // bottom, -(-high * top // bottom)
        return list(accumulate(terms, lambda sofar, term: (sofar[0] + term[0], sofar[1] + term[1])))


@dataclass(frozen=True, eq=False)
class Distribution:
    """Outcomes with exact probabilities proportional to weight times factor."""

    prior: Prior
    blocks: Integers
    factors: Factors

    @cached_property
    def masses(self) -> list[int]:
        """The total weight of each block, exactly: two halves of 31 bits each stay exact in floating point."""
        low = np.bincount(self.blocks, weights=self.prior.mass & (2**31 - 1))
        high = np.bincount(self.blocks, weights=self.prior.mass >> 31)
        return [(int(top) << 31) + int(bottom) for top, bottom in zip(high, low, strict=True)]

    @property
    def support(self) -> tuple[Hashable, ...]:
        """The outcomes."""
        return self.prior.support

    @cached_property
    def probabilities(self) -> tuple[Fraction, ...]:
        """The exact probability of each outcome."""
        factors = [self.factors.exact(block) for block in range(len(self.masses))]
        total = sum((factor * mass for factor, mass in zip(factors, self.masses, strict=True)), Fraction(0))
        shares = [factor / total for factor in factors]
        return tuple(int(mass) * shares[block] for mass, block in zip(self.prior.mass, self.blocks, strict=True))

    def law(self) -> dict[Hashable, Fraction]:
        """Outcome to exact probability."""
        return dict(zip(self.support, self.probabilities, strict=True))

    def floats(self) -> NDArray[np.float64]:
        """The probabilities as floats, for what may be approximate."""
        share: NDArray[np.float64] = self.factors.floats(len(self.masses))[self.blocks] * self.prior.mass
        return share / float(share.sum())

    def mean(self) -> float:
        """The mean of a numeric law."""
        return float(self.prior.floats() @ self.floats())

    def variance(self) -> float:
        """The variance of a numeric law."""
        return float((self.prior.floats() - self.mean()) ** 2 @ self.floats())

    def draw(self, entropy: Entropy | None = None) -> Hashable:
        """One outcome."""
        position = self.draw_position(source(entropy))
        grid, values = self.prior.grid, self.prior.values
        return grid.value(int(self.prior.index[position])) if grid else (values or ())[position]

    def draw_position(self, entropy: Entropy) -> int:
        """The position of one outcome in the support."""
        members = np.flatnonzero(self.blocks == self.factors.choose(self.masses, entropy))
        sums = np.cumsum(self.prior.mass[members])
        return int(members[np.searchsorted(sums, below(int(sums[-1]), entropy), side="right")])
