"""Exact samplers: integers drawn with integer arithmetic from uniform bits.

A `Chance` is a probability known to as many binary digits as a draw asks for. A coin compares fresh random digits
with them and asks for more only on a tie (once in 2^64 draws), so its law is exact even where the probability is
irrational, and its time does not follow its outcome. A geometric number is drawn by its binary digits, which are
independent: digit i of a geometric with ratio e^-g is 1 with probability 1/(1 + e^(g 2^i)).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy, sample_bits
from discreet.numeric import exp_bounds

WORD_BITS = 64
PLACE_VALUES = 2 ** np.arange(62, dtype=np.int64)
SHORT_BITS = 16
MAX_WORD_DIGITS = 56
"""Beyond this many binary digits a draw may not fit 64 bits, and Python's integers take over."""
TAIL_EXPONENT = 48
"""A geometric number's digits from the one where g 2^i >= TAIL are drawn together: set once in e^48 draws."""


@dataclass(frozen=True, slots=True, eq=False)
class Chance:
    """A probability, as a function that bounds 2^precision times it from both sides."""

    bounds: Callable[[int], tuple[int, int]]
    digit_cache: dict[int, int] = field(default_factory=dict)

    def digits(self, count: int) -> int:
        """The first `count` binary digits: floor(2^count p)."""
        extra = 32
        while count not in self.digit_cache:
            low, high = self.bounds(count + extra)
            if low >> extra == high >> extra:
                self.digit_cache[count] = low >> extra
            extra *= 2
        return self.digit_cache[count]


def build_rational_chance(p: Fraction) -> Chance:
    """A rational probability."""
    if not 0 <= p <= 1:
        raise InvalidInput("a probability lies between 0 and 1")

    return Chance(lambda precision: ((p.numerator << precision) // p.denominator,) * 2)


def build_exponential_chance(x: Fraction) -> Chance:
    """e^-x, for x >= 0."""
    return Chance(lambda precision: exp_bounds(-x, precision)) if x else build_rational_chance(Fraction(1))


def build_logistic_chance(x: Fraction, twice: bool = False) -> Chance:
    """1/(1 + e^x), or 2/(1 + e^x), for x > 0."""
    return build_odds_chance(build_exponential_chance(x), twice)


def build_odds_chance(odds: Chance, twice: bool = False) -> Chance:
    """v/(1+v) from the bounds on v, or 2v/(1+v)."""

    def compute_bounds(precision: int) -> tuple[int, int]:
        low, high = odds.bounds(precision + 2)
        unit = 1 << (precision + 2)
        return (low << precision << twice) // (unit + low), -((-high << precision << twice) // (unit + high))

    return Chance(compute_bounds)


def sample_below(bound: int, entropy: Entropy) -> int:
    """A uniform integer in [0, bound). How often it tries again is independent of what it returns."""
    if bound < 1:
        raise InvalidInput("a uniform draw needs at least one possibility")
    size = (bound - 1).bit_length()
    while True:
        candidate = sample_bits(size, entropy) if size else 0
        if candidate < bound:
            return candidate


def flip_coin(chance: Chance, entropy: Entropy) -> bool:
    """True with exactly that chance."""
    return break_tie(chance, sample_bits(WORD_BITS, entropy), WORD_BITS, entropy)


def break_tie(chance: Chance, word: int, count: int, entropy: Entropy) -> bool:
    """Whether the number with the random digits `word` is below the chance; more digits as long as they tie."""
    while word == chance.digits(count):
        word, count = word << WORD_BITS | sample_bits(WORD_BITS, entropy), count + WORD_BITS
    return word < chance.digits(count)


def sample_weighted_index(weights: Sequence[int], entropy: Entropy) -> int:
    """An index with probability proportional to its integer weight."""
    sums = list(accumulate(weights))
    return bisect_right(sums, sample_below(sums[-1], entropy))


@dataclass(frozen=True, slots=True, eq=False)
class CoinSet:
    """Several coins thrown together, compared all at once: the time tells nothing of how they fall."""

    chances: tuple[Chance, ...]
    thresholds: NDArray[np.uint64]

    @staticmethod
    def of(*chances: Chance) -> CoinSet:
        """Coins of these chances, none of them sure."""
        return CoinSet(chances, np.array([chance.digits(WORD_BITS) for chance in chances], dtype=np.uint64))

    def flip(self, entropy: Entropy) -> NDArray[np.int8]:
        """1 for every coin that shows heads, 0 for the others."""
        words = np.frombuffer(entropy.take(8 * len(self.chances)), dtype="<u8")
        heads: NDArray[np.bool_] = words < self.thresholds
        for position in np.flatnonzero(words == self.thresholds):
            heads[position] = break_tie(self.chances[position], int(words[position]), WORD_BITS, entropy)
        return heads.view(np.int8)


@dataclass(frozen=True, slots=True, eq=False)
class Geometric:
    """P(G = k) = (1 - e^-g) e^(-g k), k = 0, 1, ...: the digits' chances, made once."""

    rate: Fraction
    digits: tuple[Chance, ...]
    tail: Chance

    @staticmethod
    def of(rate: Fraction) -> Geometric:
        """The geometric law with ratio e^-rate, rate > 0."""
        count = count_geometric_digits(rate)
        digits = tuple(build_logistic_chance(rate * 2**index) for index in range(count))
        return Geometric(rate, digits, build_exponential_chance(rate * 2**count))

    def sample(self, entropy: Entropy) -> int:
        """All digits are drawn whatever they come to, so the time of a draw does not follow its size."""
        return int(self.combine_digits(CoinSet.of(*self.digits, self.tail).flip(entropy), entropy))

    def combine_digits(self, heads: NDArray[np.int8], entropy: Entropy) -> int | np.int64:
        """The number with these digits, the last one telling whether there is more beyond them.

        Where it fits it is numpy's: the time of Python's own integers follows their size, if by nanoseconds.
        """
        width = len(self.digits)
        beyond = 1 + self.sample_beyond(entropy) if heads[width] else 0
        if width > len(PLACE_VALUES) or beyond:
            return sum(int(head) << place for place, head in enumerate(heads[:width])) + (beyond << width)
        return np.int64(heads[:width] @ PLACE_VALUES[:width])

    def sample_beyond(self, entropy: Entropy) -> int:
        """What the digits do not reach: geometric again, and 0 but once in e^48 draws."""
        count = 0
        while flip_coin(self.tail, entropy):
            count += 1
        return count

    def sample_many(self, size: int, entropy: Entropy) -> NDArray[np.int64]:
        """`size` independent draws."""
        value = np.zeros(size, dtype=np.int64)
        for index, chance in enumerate(self.digits):
            np.add(value, flip_coins(chance, size, entropy).astype(np.int64) << index, out=value)
        for position in np.flatnonzero(flip_coins(self.tail, size, entropy)):
            value[position] += (1 + self.sample_beyond(entropy)) << len(self.digits)
        return value


def count_geometric_digits(rate: Fraction) -> int:
    """How many digits of a geometric number with ratio e^-rate are drawn one by one."""
    count = 0
    while rate * 2**count < TAIL_EXPONENT:
        count += 1
    return count


def flip_coins(chance: Chance, size: int, entropy: Entropy) -> NDArray[np.bool_]:
    """`size` independent coins: 16 digits each, more where they tie."""
    words = np.frombuffer(entropy.take(2 * size), dtype="<u2")
    threshold = chance.digits(SHORT_BITS)
    heads: NDArray[np.bool_] = words < threshold
    ties = words == threshold
    for position in ties.nonzero()[0] if ties.any() else ():
        heads[position] = break_tie(chance, threshold, SHORT_BITS, entropy)
    return heads


def sample_uniform_array(bounds: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
    """Uniform integers in [0, bound), one per bound, bounds below 2^63.

    A 64-bit word modulo its bound; the last 2^64 mod bound words, which would favour small numbers, are drawn
    again. At bounds below 2^40 that is once in 2^24 draws, so time hardly follows the bound.
    """
    limits = bounds.astype(np.uint64)
    # 2^64 - bound is congruent to 2^64, and fits the word
    surplus = (~limits + np.uint64(1)) % limits
    words = np.frombuffer(entropy.take(8 * len(limits)), dtype="<u8").copy()
    rejected = np.flatnonzero(words > ~surplus)
    while len(rejected):
        words[rejected] = np.frombuffer(entropy.take(8 * len(rejected)), dtype="<u8")
        rejected = rejected[words[rejected] > ~surplus[rejected]]
    return (words % limits).astype(np.int64)


def sample_uniform_int(bound: int, entropy: Entropy) -> int:
    """A uniform integer in [0, bound), of so many bits that one try is enough but once in 2^64 draws."""
    size = max(128, bound.bit_length() + 64)
    fair_limit = (1 << size) - (1 << size) % bound
    while True:
        word = sample_bits(size, entropy)
        if word < fair_limit:
            return word % bound


def bound_power(ratio: Fraction, power: int, precision: int) -> tuple[int, int]:
    """Bounds on 2^precision ratio^power, for 0 < ratio <= 1: squarings and products, rounded outwards."""
    guard = precision + 2 * power.bit_length() + 8
    low, high = (ratio.numerator << guard) // ratio.denominator, -(-(ratio.numerator << guard) // ratio.denominator)
    total_low = total_high = 1 << guard
    for digit in bin(power)[2:]:
        total_low, total_high = total_low * total_low >> guard, -(-total_high * total_high >> guard)
        if digit == "1":
            total_low, total_high = total_low * low >> guard, -(-total_high * high >> guard)
    return total_low >> (guard - precision), -(-total_high >> (guard - precision))


def build_power_chance(ratio: Fraction, power: int) -> Chance:
    """ratio^power, for 0 < ratio <= 1."""
    return Chance(lambda precision: bound_power(ratio, power, precision))


def flip_power_coins(ratio: Fraction, powers: NDArray[np.int64], entropy: Entropy) -> NDArray[np.bool_]:
    """One coin per element, of chance ratio^power: 16 digits each, more where they tie."""
    words = np.frombuffer(entropy.take(2 * len(powers)), dtype="<u2")
    if (max_power := int(powers.max())) < len(powers):
        thresholds = _compute_power_digits(ratio, np.arange(max_power + 1))[powers]
    else:
        thresholds = _compute_power_digits(ratio, powers)
    heads: NDArray[np.bool_] = words < thresholds
    for position in np.flatnonzero(words == thresholds):
        chance = build_power_chance(ratio, int(powers[position]))
        heads[position] = break_tie(chance, int(thresholds[position]), SHORT_BITS, entropy)
    return heads


def _compute_power_digits(ratio: Fraction, powers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first 16 digits of ratio^power: floats decide all but those within 2^-20 of a whole number.

    Where any digit is not 0 the exponent is below 12 and the floats' error below 2^-30. Powers fall, so among those in
    doubt about one whole number the exact digits are needed only to find where they pass it.
    """
    scaled = 2.0**SHORT_BITS * np.exp(np.log1p(-float(1 - ratio)) * powers)
    digits: NDArray[np.int64] = np.floor(scaled).astype(np.int64)
    nearest = np.rint(scaled)
    doubtful = np.flatnonzero((np.abs(scaled - nearest) < 2.0**-20) & (nearest > 0))
    for boundary in np.unique(nearest[doubtful]).astype(np.int64):
        run = doubtful[nearest[doubtful] == boundary]
        levels = np.unique(powers[run]).tolist()
        passed = bisect_left(levels, 1, key=lambda n: build_power_chance(ratio, n).digits(SHORT_BITS) < boundary)
        digits[run] = np.where(np.isin(powers[run], levels[:passed]), boundary, boundary - 1)
    return digits
