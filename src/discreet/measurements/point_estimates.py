"""From noisy whole totals to the number that was asked for, and to its range when they lie in theirs.

Post-processing: nothing here sees a row. Totals are in codes; what comes out is in the column's own units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

ValueRange = tuple[Fraction, Fraction]


class Estimate(Protocol):
    """What the totals mean."""

    def value(self, totals: Sequence[int]) -> Fraction:
        """The number asked for, from totals as they are."""

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        """The least and greatest it can be, when each true total lies in its range."""


@dataclass(frozen=True, slots=True)
class Linear:
    """slope * total + offset: counts, sums, and means over a public number of rows; kept between the ends.

    `rounding_error` is how far it may be off without any noise, where the values were rounded to bins.
    """

    slope: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)
    ends: ValueRange | None = None
    rounding_error: Fraction = Fraction(0)

    def value(self, totals: Sequence[int]) -> Fraction:
        return self._clamp(self.slope * totals[0] + self.offset)

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        low, high = (self.slope * end + self.offset for end in ranges[0])
        return self._clamp(low - self.rounding_error), self._clamp(high + self.rounding_error)

    def _clamp(self, value: Fraction) -> Fraction:
        return value if self.ends is None else min(max(value, self.ends[0]), self.ends[1])


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A sum of the totals, each times its weight: one of several counts that are measured together."""

    weights: tuple[Fraction, ...]

    def value(self, totals: Sequence[int]) -> Fraction:
        return sum((weight * total for weight, total in zip(self.weights, totals, strict=True)), Fraction(0))

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        ends = [sorted(weight * end for end in part) for weight, part in zip(self.weights, ranges, strict=True)]
        return sum((low for low, _ in ends), Fraction(0)), sum((high for _, high in ends), Fraction(0))


@dataclass(frozen=True, slots=True)
class MeanOfPair:
    """The mean from the sums of x - L and of U - x, whose own sum is (U - L) times the number of rows."""

    lower: int
    upper: int
    step: Fraction

    def value(self, totals: Sequence[int]) -> Fraction:
        above, below = (max(total, 0) for total in totals)
        if above + below < max(self.upper - self.lower, 1):  # fewer than one row: nothing is known
            return self._scale_share(Fraction(1, 2))
        return self._scale_share(Fraction(above, above + below))

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        (least_above, most_above), (least_below, most_below) = (_clamp_below(part, 0) for part in ranges)
        low = least_above / (least_above + most_below) if least_above else Fraction(0)
        high = most_above / (most_above + least_below) if most_above else Fraction(0)
        return self._scale_share(low), self._scale_share(high if most_above or least_below else Fraction(1))

    def _scale_share(self, share: Fraction) -> Fraction:
        return (self.lower + share * (self.upper - self.lower)) * self.step


@dataclass(frozen=True, slots=True)
class MeanFromCenter:
    """The mean from the sum of 2x - (L + U), in whole grains and rounded down, and the number of rows."""

    lower: int
    upper: int
    step: Fraction
    grain: int = 1

    def value(self, totals: Sequence[int]) -> Fraction:
        center = totals[0] * self.grain + Fraction(self.grain - 1, 2)
        return self._scale_mean(center / totals[1] if totals[1] >= 1 else Fraction(0))

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        (low, high), (fewest, most) = ranges[0], _clamp_below(ranges[1], 1)
        low, high = low * self.grain, high * self.grain + self.grain - 1
        return self._scale_mean(min(low / fewest, low / most)), self._scale_mean(max(high / fewest, high / most))

    def _scale_mean(self, twice: Fraction) -> Fraction:
        value = (self.lower + self.upper + twice) / 2
        return min(max(value, Fraction(self.lower)), Fraction(self.upper)) * self.step


@dataclass(frozen=True, slots=True)
class Variance:
    """The sample variance from the number of rows and the sums of d = 2x - (L + U) and of 2 d^2 - W^2; or its root.

    `rows` is the public number of rows where there is one; then the totals are the two sums alone.
    """

    width: int
    step: Fraction
    rows: int | None = None
    root: bool = False

    def value(self, totals: Sequence[int]) -> Fraction:
        rows, first, second = (self.rows, *totals) if self.rows is not None else totals
        if rows < 2:
            return self._clamp_variance(Fraction(0))
        spread = Fraction(second, 2 * rows) + Fraction(self.width**2, 2) - Fraction(first, rows) ** 2
        return self._clamp_variance(spread * Fraction(rows, rows - 1))

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        known_rows = (Fraction(self.rows), Fraction(self.rows)) if self.rows is not None else None
        rows, first, second = (known_rows, *ranges) if known_rows else ranges
        fewest, most = _clamp_below(rows, 2)
        half, (least, greatest) = Fraction(self.width**2, 2), second
        lowest, highest = (0 if first[0] <= 0 <= first[1] else min(map(abs, first))), max(map(abs, first))
        low = min(least / (2 * fewest), least / (2 * most)) + half - (highest / fewest) ** 2
        high = max(greatest / (2 * fewest), greatest / (2 * most)) + half - (lowest / most) ** 2
        return self._clamp_variance(low), self._clamp_variance(high * Fraction(fewest, fewest - 1))

    def _clamp_variance(self, spread: Fraction) -> Fraction:
        """A quarter of the variance of d, within what is possible, in the column's units."""
        value = min(max(spread, Fraction(0)), Fraction(2 * self.width**2)) / 4 * self.step**2
        return Fraction(math.sqrt(value)) if self.root else value


def _clamp_below(part: ValueRange, least: int) -> ValueRange:
    return max(part[0], Fraction(least)), max(part[1], Fraction(least))
