"""A finite law known exactly: a public weight for every outcome, times a factor for the block it lies in.

Refinement has at most six blocks; the exponential mechanism has one per score. A draw picks a block exactly, then an
outcome in it, so no outcome's probability is ever written out. Its numbers depend on the data: none of them leaves,
only a draw does.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unsupported
from discreet.mechanisms.entropy import Entropy, get_entropy, sample_bits
from discreet.mechanisms.samplers import WORD_BITS, bound_power, sample_below, sample_weighted_index
from discreet.priors.prior import Prior

Integers = NDArray[np.int64]
MAX_BLOCKS = 2**16
MAX_EXACT_SIZE = 2**22


@dataclass(frozen=True, slots=True)
class RationalFactors:
    """A handful of rational factors, one for each block."""

    values: tuple[Fraction, ...]

    def to_integers(self, blocks: Sequence[int]) -> list[int]:
        """Whole numbers in the ratio of the factors of some blocks."""
        common = lcm(*(value.denominator for value in self.values))
        block_values = (self.values[block] for block in blocks)
        return [value.numerator * (common // value.denominator) for value in block_values]

    def to_floats(self, count: int) -> NDArray[np.float64]:
        """The factors of the first blocks, for what may be approximate."""
        return np.array([float(value) for value in self.values[:count]])

    def sample_block(self, masses: list[int], entropy: Entropy) -> int:
        """A block, with probability proportional to mass times factor."""
        factors = self.to_integers(range(len(masses)))
        return sample_weighted_index([mass * factor for mass, factor in zip(masses, factors, strict=True)], entropy)


@dataclass(frozen=True, slots=True)
class PowerFactors:
    """Block i has the factor ratio^levels[i], 0 < ratio <= 1, levels rising, for thousands of blocks."""

    ratio: Fraction
    levels: Sequence[int]

    @staticmethod
    def assign_blocks(levels: Integers) -> tuple[Integers, Sequence[int]]:
        """Every outcome's block and the blocks' levels: the levels themselves, or those that occur if they are many."""
        max_level = int(levels.max())
        if max_level < MAX_BLOCKS:
            return levels, range(max_level + 1)
        distinct_levels, blocks = np.unique(levels, return_inverse=True)
        return blocks, distinct_levels.tolist()

    def to_integers(self, blocks: Sequence[int]) -> list[int]:
        """Whole numbers in the ratio of the factors of some blocks, in rising order."""
        levels = [self.levels[block] for block in blocks]
        if len(levels) * levels[-1] > MAX_EXACT_SIZE:
            raise Unsupported("the exact probabilities of so many levels are not written out; use floats()")
        top, bottom = self.ratio.numerator, self.ratio.denominator
        return [top**level * bottom ** (levels[-1] - level) for level in levels]

    def to_floats(self, count: int) -> NDArray[np.float64]:
        """The factors of the first blocks, for what may be approximate."""
        return np.asarray(np.exp(np.log1p(-float(1 - self.ratio)) * np.array(self.levels[:count])))

    def sample_block(self, masses: list[int], entropy: Entropy) -> int:
        """Inversion with a uniform number and sums known to `precision` bits, more of both until there is no doubt."""
        precision, word, count = 2 * WORD_BITS, 0, 0
        while True:
            sums = self._bound_prefix_sums(masses, precision)
            while count < precision:
                word, count = word << WORD_BITS | sample_bits(WORD_BITS, entropy), count + WORD_BITS
            low, high = word * sums[-1][0] >> count, -(-(word + 1) * sums[-1][1] >> count)
            first = next(block for block, (_, upper) in enumerate(sums) if low < upper)
            if high <= sums[first][0] and (first == 0 or low >= sums[first - 1][1]):
                return first
            precision *= 2

    def _bound_prefix_sums(self, masses: list[int], precision: int) -> list[tuple[int, int]]:
        """Prefix sums of mass times ratio^i in units of 2^-precision, rounded down and up."""
        low = high = 1 << precision
        single_step = bound_power(self.ratio, 1, precision)
        sums, sum_low, sum_high, previous_level = [], 0, 0, 0
        for level, mass in zip(self.levels, masses, strict=True):
            if rise := level - previous_level:
                step_low, step_high = single_step if rise == 1 else bound_power(self.ratio, rise, precision)
                low, high, previous_level = low * step_low >> precision, -(-high * step_high >> precision), level
            sum_low, sum_high = sum_low + mass * low, sum_high + mass * high
            sums.append((sum_low, sum_high))
        return sums


@dataclass(frozen=True, eq=False, repr=False)
class Distribution:
    """Outcomes with exact probabilities, proportional to prior weight times factor.

    It is secret, because it follows from the true answer, so it does not print itself. Draw from it once with `sample`
    and release the draw. `refine` and `exponential` return it.

    Args:
        prior: The prior, whose values are the outcomes.
        blocks: The block of each outcome: outcomes of one block have the same factor.
        factors: The factor of each block.

    Example:
        >>> from discreet import Prior, refine
        >>> distribution = refine(Prior.uniform(0, 10), truth=7, epsilon=1)
        >>> sum(distribution.probabilities)
        Fraction(1, 1)
        >>> distribution.sample() in distribution.support
        True
    """

    prior: Prior
    blocks: Integers
    factors: RationalFactors | PowerFactors

    @cached_property
    def masses(self) -> list[int]:
        """The total weight of each block, exactly: two halves of 31 bits each stay exact in floating point."""
        low = np.bincount(self.blocks, weights=self.prior.mass & (2**31 - 1))
        high = np.bincount(self.blocks, weights=self.prior.mass >> 31)
        halves = zip(high.astype(np.int64).tolist(), low.astype(np.int64).tolist(), strict=True)
        return [(top << 31) + bottom for top, bottom in halves]

    @property
    def support(self) -> tuple[Hashable, ...]:
        """The outcomes."""
        return self.prior.support

    @cached_property
    def probabilities(self) -> tuple[Fraction, ...]:
        """The exact probability of each outcome."""
        occupied = [block for block, mass in enumerate(self.masses) if mass]
        factors = dict(zip(occupied, self.factors.to_integers(occupied), strict=True))
        total = sum(factors[block] * self.masses[block] for block in occupied)
        cells = list(zip(self.prior.mass.tolist(), self.blocks.tolist(), strict=True))
        exact = {(mass, block): Fraction(mass * factors[block], total) for mass, block in set(cells)}
        return tuple(exact[cell] for cell in cells)

    def law(self) -> dict[Hashable, Fraction]:
        """Outcome to exact probability."""
        return dict(zip(self.support, self.probabilities, strict=True))

    def floats(self) -> NDArray[np.float64]:
        """The probabilities as floats, for what may be approximate."""
        share: NDArray[np.float64] = self.factors.to_floats(len(self.masses))[self.blocks] * self.prior.mass
        return share / float(share.sum())

    def mean(self) -> float:
        """The mean of a numeric law."""
        return float(self.prior.floats() @ self.floats())

    def variance(self) -> float:
        """The variance of a numeric law."""
        return float((self.prior.floats() - self.mean()) ** 2 @ self.floats())

    def __repr__(self) -> str:
        return f"Distribution({len(self.prior.mass)} outcomes, probabilities not shown)"

    def sample(self, entropy: Entropy | None = None) -> Hashable:
        """One outcome."""
        position = self.sample_position(get_entropy(entropy))
        grid, values = self.prior.grid, self.prior.values
        return grid.value(int(self.prior.index[position])) if grid else (values or ())[position]

    def sample_position(self, entropy: Entropy) -> int:
        """The position of one outcome in the support."""
        members = np.flatnonzero(self.blocks == self.factors.sample_block(self.masses, entropy))
        sums = np.cumsum(self.prior.mass[members])
        return int(members[np.searchsorted(sums, sample_below(int(sums[-1]), entropy), side="right")])
