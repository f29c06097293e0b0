"""How far an answer can move when one unit changes: over all tables, at one table, smoothly around one table.

Global sensitivities are public. The local and the smooth sensitivity are computed from the data, so they are as
secret as the data: neither they nor a noise scale made of them may ever leave. The proofs are in the docstrings and,
for the smooth sensitivity, in smooth.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import between, positive, rational, shown, whole
from discreet.guarantee import relation

Statistic = str | tuple[str, object]
"""median, max, min, second max, or ("quantile", q)."""

Column = ArrayLike | Sequence[object]
MOST_UNITS = 2**61
"""Bounds beyond this many grid steps from 0 leave no room for differences in 64 bits."""


def bounds(lower: object, upper: object) -> tuple[Fraction, Fraction]:
    """Public bounds, the lower below the upper."""
    if lower is None or upper is None:
        raise InvalidInput("this needs both bounds, lower and upper; give the least and greatest value that can occur")
    low, high = rational(lower, "lower"), rational(upper, "upper")
    if low >= high:
        raise InvalidInput(f"lower must be below upper, got lower {shown(low)} and upper {shown(high)}")
    return low, high


def count_sensitivity(neighbours: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """r under both relations: a unit moves the count by its rows that pass the filter, 0 to r before and after."""
    relation(neighbours)
    return Fraction(whole(rows_per_unit, "rows per unit"))


def distinct_sensitivity(neighbours: str = "add-remove") -> Fraction:
    """1 under both relations, for the number of units with a row that passes the filter."""
    relation(neighbours)
    return Fraction(1)


def sum_sensitivity(
    lower: object,
    upper: object,
    neighbours: str = "add-remove",
    rows_per_unit: object = 1,
    every_row: bool = False,
) -> Fraction:
    """Rows clamped to [L, U], up to r of them per unit, any of which a filter or a gap may drop.

    A unit adds a number in r [min(L, 0), max(U, 0)]: add-remove r max(|L|, |U|), replace-one the width of that range.
    `every_row`: under replace-one a unit is always exactly one row that counts, so the width is U - L.
    """
    low, high = bounds(lower, upper)
    rows = whole(rows_per_unit, "rows per unit")
    if relation(neighbours) == "add-remove":
        return rows * max(abs(low), abs(high))
    if every_row and rows == 1:
        return high - low
    return rows * (max(high, Fraction(0)) - min(low, Fraction(0)))


def histogram_sensitivity(neighbours: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """In the l1 norm over disjoint cells: r, and 2r where r rows leave some cells and r enter others."""
    rows = count_sensitivity(neighbours, rows_per_unit)
    return rows if neighbours == "add-remove" else 2 * rows


def histogram_sensitivity_squared(neighbours: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """The square of the l2 sensitivity: r^2, and 2 r^2 under replace-one; worst when all r rows share a cell."""
    rows = count_sensitivity(neighbours, rows_per_unit)
    return rows**2 if neighbours == "add-remove" else 2 * rows**2


def mean_sensitivity(
    lower: object, upper: object, rows: object, neighbours: str = "replace-one", rows_per_unit: object = 1
) -> Fraction:
    """r (U - L) / n, n the public number of rows, every one counted; a unit of up to r rows keeps their number."""
    low, high = bounds(lower, upper)
    total = _public_rows(rows, neighbours, "mean")
    return min(whole(rows_per_unit, "rows per unit"), total) * (high - low) / total


def variance_sensitivity(
    lower: object, upper: object, rows: object, neighbours: str = "replace-one", rows_per_unit: object = 1
) -> Fraction:
    """(U - L)^2 (n - 1) / n^2, for the population variance of n rows, n public, one row per unit.

    The variance is the sum of (x_i - x_j)^2 over pairs, divided by n^2. One row is in n - 1 pairs, each between 0 and
    (U - L)^2. Reached when all rows are at L and one goes to U.
    """
    low, high = bounds(lower, upper)
    total = _public_rows(rows, neighbours, "variance")
    if whole(rows_per_unit, "rows per unit") != 1:
        raise Unsupported("the variance is proven for one row per unit; ask for the sums of x and of x^2 instead")
    return (high - low) ** 2 * Fraction(total - 1, total**2)


def order_sensitivity(what: Statistic, lower: object, upper: object) -> Fraction:
    """U - L for every order statistic, relation and number of rows per unit: no better than knowing nothing."""
    place(what, 1)
    low, high = bounds(lower, upper)
    return high - low


def rank_score(below: int, at: int, above: int, q: object) -> int:
    """How well a candidate serves as the q-quantile, q = a/b: 0 for a quantile, below 0 otherwise, a whole number.

    -max(0, (b-a) below - a (at + above), a above - (b-a) (below + at)), from the rows below, at and above it.
    """
    share = between(q, 0, 1, "q")
    a, rest = share.numerator, share.denominator - share.numerator
    return -max(0, rest * below - a * (at + above), a * above - rest * (below + at))


def rank_score_sensitivity(q: object, neighbours: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """r max(a, b-a), and r b under replace-one, for the `rank_score` of every candidate.

    A row adds b-a or -a to one argument of the max, -(b-a) or a to the other; replacing it changes each by at most b.
    """
    share = between(q, 0, 1, "q")
    rows = count_sensitivity(neighbours, rows_per_unit)
    a, b = share.numerator, share.denominator
    return rows * (max(a, b - a) if neighbours == "add-remove" else b)


def global_sensitivity(
    what: Statistic,
    lower: object = None,
    upper: object = None,
    neighbours: str = "add-remove",
    rows_per_unit: object = 1,
    rows: object = None,
    every_row: bool = False,
) -> Fraction:
    """The most that one unit can move the answer, over all tables; in the l1 norm for a histogram. Public.

    what: count, distinct, sum, histogram, mean, variance, median, max, min, second max or ("quantile", q).
    """
    match what:
        case "count":
            return count_sensitivity(neighbours, rows_per_unit)
        case "distinct":
            return distinct_sensitivity(neighbours)
        case "histogram":
            return histogram_sensitivity(neighbours, rows_per_unit)
        case "sum":
            return sum_sensitivity(lower, upper, neighbours, rows_per_unit, every_row)
        case "mean":
            return mean_sensitivity(lower, upper, rows, neighbours, rows_per_unit)
        case "variance":
            return variance_sensitivity(lower, upper, rows, neighbours, rows_per_unit)
    relation(neighbours)
    return order_sensitivity(what, lower, upper)


def _public_rows(rows: object, neighbours: str, what: str) -> int:
    if relation(neighbours) != "replace-one" or rows is None:
        raise InvalidInput(f"the {what} needs a public number of rows and replace-one; else ask for sum and count")
    return whole(rows, "rows")


def place(what: Statistic, size: int) -> int:
    """Which of `size` sorted values it is, from 1; the median is the one at ceil(size / 2)."""
    match what:
        case "min":
            return 1
        case "median":
            return -(-size // 2)
        case "second max":
            return max(1, size - 1)
        case "max":
            return size
        case ("quantile", q):
            return max(1, math.ceil(between(q, 0, 1, "q") * size))
    raise InvalidInput(f"what must be median, max, min, second max or ('quantile', q), got {str(what)[:40]!r}")


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of a public step between public bounds. Build it with `Grid.of`."""

    lower: Fraction
    upper: Fraction
    step: Fraction
    low: int
    high: int

    @staticmethod
    def of(lower: object, upper: object, step: object = 1) -> Grid:
        """At least two grid points, and few enough for 64 bits."""
        (low, high), size = bounds(lower, upper), positive(step, "step")
        grid = Grid(low, high, size, math.ceil(low / size), math.floor(high / size))
        if grid.width < 1 or max(-grid.low, grid.high) > MOST_UNITS:
            raise InvalidInput(
                f"step must leave 2 grid points within the bounds, at most 2^61 on each side of 0, got {shown(size)}"
            )
        return grid

    @property
    def width(self) -> int:
        """The bounds' distance in grid units."""
        return self.high - self.low

    def value(self, units: int) -> int | Fraction:
        """Grid units, clamped to the bounds, as a number."""
        exact = min(max(units, self.low), self.high) * self.step
        return int(exact) if self.step.denominator == 1 else exact

    def units(self, values: Column) -> NDArray[np.int64]:
        """Each value floored to the grid and clamped; what is not a number counts as the lower bound. Secret.

        Every row is mapped by itself, whatever the others are, and in order: so neighbours stay neighbours, and
        order statistics commute with it. Nothing about it is reported. An array's dtype is taken as public.
        """
        column = _column(values)
        if column.dtype.kind == "f":
            return self._from_floats(column)
        if column.dtype.kind == "i" and max(-self.low, self.high, 1) * self.step.numerator <= MOST_UNITS // 2:
            return self._from_integers(column)
        floating = np.array([isinstance(value, float | np.floating) for value in column])
        units = np.zeros(len(column), dtype=np.int64)
        units[floating] = self._from_floats(column[floating])
        exact = (_within(value, self.lower, self.upper) for value in column[~floating])
        units[~floating] = [min(max(number // self.step, self.low), self.high) for number in exact]
        return units

    def _from_integers(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """Clamped first, so that the product stays within 64 bits."""
        ends = math.floor(self.low * self.step), math.ceil(self.high * self.step)
        units = np.clip(column.astype(np.int64), *ends) * self.step.denominator // self.step.numerator
        clamped: NDArray[np.int64] = np.clip(units, self.low, self.high)
        return clamped

    def _from_floats(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """A quotient a few rounding errors below a whole number is that number: 0.3 is three steps of 0.1."""
        with np.errstate(all="ignore"):
            quotient = column.astype(np.float64) / float(self.step)
        finite = np.clip(np.where(np.isnan(quotient), -np.inf, quotient), float(self.low), float(self.high))
        units = np.floor(finite + np.minimum(4 * np.spacing(np.abs(finite)), 0.25)).astype(np.int64)
        clamped: NDArray[np.int64] = np.clip(units, self.low, self.high)
        return clamped


def local_sensitivity(
    values: Column, what: Statistic, lower: object, upper: object, group: object = 1
) -> int | Fraction:
    """How far an order statistic of these values can move when `group` of them are replaced. Secret: never release it.

    max(x_(p+g) - x_(p), x_(p) - x_(p-g)), the values clamped and sorted, the bounds standing outside 1..n; exact.
    Replacing g values moves x_(p) at most to x_(p+g) or x_(p-g), and there when the g least go to the upper bound.
    """
    low, high = bounds(lower, upper)
    size = whole(group, "group")
    below, middle, above = _around(_column(values), what, size, low, high)
    widest = max(above - middle, middle - below)
    return int(widest) if widest.denominator == 1 else widest


def _around(
    column: NDArray[Any], what: Statistic, group: int, low: Fraction, high: Fraction
) -> tuple[Fraction, Fraction, Fraction]:
    """The clamped values at p - g, p and p + g: clamping keeps the order, so three values are picked, then clamped."""
    if column.dtype.kind == "O":
        column = np.array(sorted(_within(value, low, high) for value in column), dtype=np.object_)
    elif column.dtype.kind == "f":
        column = np.where(np.isnan(column), -np.inf, column)
    middle, count = place(what, len(column)), len(column)
    places = [index - 1 for index in (middle - group, middle, middle + group) if 1 <= index <= count]
    picked = column if column.dtype.kind == "O" else np.partition(column, places)

    def at(index: int) -> Fraction:
        return low if index < 1 else high if index > count else _within(picked[index - 1], low, high)

    return at(middle - group), at(middle), at(middle + group)


def smooth_sensitivity(values: Column, what: Statistic, lower: object, upper: object, beta: object) -> float:
    """The beta-smooth sensitivity of an order statistic under replace-one, in floats. Secret: never release it.

    max over i <= p <= j of (x_j - x_i) e^(-beta (j-i-1)), the values clamped and sorted, x_0 and x_(n+1) the bounds.
    Milliseconds for a million values, about two seconds where beta is so small that all of them count.
    """
    low, high = (float(bound) for bound in bounds(lower, upper))
    column = _column(values)
    if column.dtype.kind == "O":
        column = np.array([_within(value, Fraction(low), Fraction(high)) for value in column])
    floats = column.astype(np.float64)
    numbers = np.where(np.isnan(floats), low, np.clip(floats, low, high))
    padded = np.concatenate(([low], np.sort(numbers), [high]))
    return math.exp(log_smooth(padded, place(what, len(numbers)), float(positive(beta, "beta"))))


def log_smooth(padded: NDArray[Any], middle: int, beta: float) -> float:
    """The logarithm of the smooth sensitivity of sorted values with the bounds at both ends. Secret.

    Windows with one end at the middle give a first value; a window of k values inside is worth at most
    ln(width) - beta k, so only those with k up to (ln(width) - first) / beta can do better.
    """
    first = _one_sided(padded, middle, beta)
    room = (math.log(padded[-1] - padded[0]) - first) / beta
    reach = len(padded) if room >= len(padded) else int(room) + 2
    lows = padded[max(0, middle - reach - 1) : middle + 1]
    highs = padded[middle : middle + reach + 2]
    return max(first, _best_window(lows, highs, beta))


def _one_sided(padded: NDArray[Any], middle: int, beta: float) -> float:
    up = padded[middle:] - padded[middle]
    down = padded[middle] - padded[middle::-1]
    with np.errstate(divide="ignore"):
        return max(float(np.max(np.log(side) - beta * (np.arange(len(side)) - 1.0))) for side in (up, down))


def _best_window(lows: NDArray[Any], highs: NDArray[Any], beta: float) -> float:
    """The largest ln(highs[j] - lows[i]) - beta (values strictly between), over all i and j.

    The leftmost best j does not decrease with i, so the rows are solved at ever finer strides, each between the
    answers of the two rows around it: every stride looks at no more than one pair per column and row.
    """
    rows, last, best = len(lows), len(highs) - 1, -math.inf
    choice = np.zeros(rows + 1, dtype=np.int64)
    for level in reversed(range(rows.bit_length())):
        stride = 1 << level
        ours = np.arange(stride, rows + 1, 2 * stride)
        after = ours + stride
        stop = np.where(after <= rows, choice[np.minimum(after, rows)], last)
        choice[ours], top = _solve(lows, highs, beta, ours - 1, choice[ours - stride], stop)
        best = max(best, top)
    return best


def _solve(
    lows: NDArray[Any],
    highs: NDArray[Any],
    beta: float,
    rows: NDArray[np.int64],
    start: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> tuple[NDArray[np.int64], float]:
    """For each row its leftmost best column between start and stop, both included; and the best value of all."""
    length = stop - start + 1
    offset = np.cumsum(length) - length
    column = np.arange(int(length.sum())) + np.repeat(start - offset, length)
    inside = column + np.repeat(len(lows) - 2 - rows, length)
    with np.errstate(divide="ignore"):
        value = np.log(highs[column] - np.repeat(lows[rows], length)) - beta * inside
    top = np.maximum.reduceat(value, offset)
    first = np.where(value == np.repeat(top, length), column, len(highs))
    return np.minimum.reduceat(first, offset), float(top.max())


def _column(values: Column) -> NDArray[Any]:
    """One column as an array of integers, floats, or objects; how many there are is public.

    A list is not handed to numpy, which would find one type for all: then one row could change what others become.
    """
    column: NDArray[Any] = np.asarray(values) if hasattr(values, "dtype") else _from_list(values)
    if column.ndim != 1 or not len(column):
        raise InvalidInput("values must be one column with at least one value")
    if column.dtype.kind == "b" or (column.dtype.kind == "u" and column.dtype.itemsize < 8):
        return column.astype(np.int64)
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):  # a warning would tell that a huge value is there
            return column.astype(np.float64)
    return column if column.dtype.kind == "i" else column.astype(np.object_)


def _from_list(values: Any) -> NDArray[Any]:
    """Objects; where all are small whole numbers the integers, which come to the same row by row."""
    if not isinstance(values, Iterable):
        raise InvalidInput("values must be one column with at least one value")
    rows = list(values)
    if all(type(row) is int and abs(row) < 2**63 for row in rows):
        return np.array(rows, dtype=np.int64)
    return np.fromiter(rows, dtype=np.object_, count=len(rows))


def _within(value: Any, low: Fraction, high: Fraction) -> Fraction:
    """One value, exact and clamped; what is not a number counts as the lower bound."""
    try:
        if value >= high or value <= low:
            return high if value >= high else low
        # A decimal such as 1e-999999999 is small, but not as a fraction.
        number = rational(float(value) if isinstance(value, Decimal) else value)
        return min(max(number, low), high)
    except (TypeError, ValueError, ArithmeticError):
        return low
