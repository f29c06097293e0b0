"""Order statistics of a secret column, and how far they can move: locally, and smoothly around the table.

Both sensitivities are computed from the data, so they are as secret as the data: neither they nor a noise scale made of
them may ever leave. The proofs are in the docstrings and in smooth.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import as_int, as_number_between, as_positive
from discreet.kernel.column import ColumnValues, as_column, clamp_value, parse_bounds, require_nonempty

OrderStatisticName = str | tuple[str, object]
"""median, max, min, second max, or ("quantile", q)."""


def find_rank(statistic: OrderStatisticName, size: int) -> int:
    """Which of `size` sorted values it is, from 1; the median is the one at ceil(size / 2)."""
    match statistic:
        case "min":
            return 1
        case "median":
            return -(-size // 2)
        case "second max":
            return max(1, size - 1)
        case "max":
            return size
        case ("quantile", q):
            return max(1, math.ceil(as_number_between(q, 0, 1, "q") * size))
    raise InvalidInput(f"what must be median, max, min, second max or ('quantile', q), got {str(statistic)[:40]!r}")


def local_sensitivity(
    values: ColumnValues, what: OrderStatisticName, lower: object, upper: object, group: object = 1
) -> int | Fraction:
    """How far an order statistic of these values can move when `group` of them are replaced. Secret: never release it.

    max(x_(p+g) - x_(p), x_(p) - x_(p-g)), the values clamped and sorted, the bounds standing outside 1..n; exact.
    Replacing g values moves x_(p) at most to x_(p+g) or x_(p-g), and there when the g least go to the upper bound.
    """
    low, high = parse_bounds(lower, upper)
    size = as_int(group, "group")
    below, middle, above = _pick_around(require_nonempty(as_column(values)), what, size, low, high)
    widest = max(above - middle, middle - below)
    return int(widest) if widest.denominator == 1 else widest


def _pick_around(
    column: NDArray[Any], statistic: OrderStatisticName, group: int, low: Fraction, high: Fraction
) -> tuple[Fraction, Fraction, Fraction]:
    """The clamped values at p - g, p and p + g: clamping keeps the order, so three values are picked, then clamped."""
    if column.dtype.kind == "O":
        column = np.array(sorted(clamp_value(value, low, high) for value in column), dtype=np.object_)
    elif column.dtype.kind == "f":
        column = np.where(np.isnan(column), -np.inf, column)
    middle, count = find_rank(statistic, len(column)), len(column)
    places = [index - 1 for index in (middle - group, middle, middle + group) if 1 <= index <= count]
    partitioned = column if column.dtype.kind == "O" else np.partition(column, places)

    def pick_value(index: int) -> Fraction:
        return low if index < 1 else high if index > count else clamp_value(partitioned[index - 1], low, high)

    return pick_value(middle - group), pick_value(middle), pick_value(middle + group)


def smooth_sensitivity(
    values: ColumnValues, what: OrderStatisticName, lower: object, upper: object, beta: object
) -> float:
    """The beta-smooth sensitivity of an order statistic under replace-one, in floats. Secret: never release it.

    max over i <= p <= j of (x_j - x_i) e^(-beta (j-i-1)), the values clamped and sorted, x_0 and x_(n+1) the bounds.
    Milliseconds for a million values, about two seconds where beta is so small that all of them count.
    """
    low, high = (float(bound) for bound in parse_bounds(lower, upper))
    column = require_nonempty(as_column(values))
    if column.dtype.kind == "O":
        column = np.array([clamp_value(value, Fraction(low), Fraction(high)) for value in column])
    floats = column.astype(np.float64)
    numbers = np.where(np.isnan(floats), low, np.clip(floats, low, high))
    padded = np.concatenate(([low], np.sort(numbers), [high]))
    return math.exp(
        compute_log_smooth_sensitivity(padded, find_rank(what, len(numbers)), float(as_positive(beta, "beta")))
    )


def compute_log_smooth_sensitivity(padded: NDArray[Any], middle: int, beta: float) -> float:
    """The logarithm of the smooth sensitivity of sorted values with the bounds at both ends. Secret.

    Windows with one end at the middle give a first value; a window of k values inside is worth at most
    ln(width) - beta k, so only those with k up to (ln(width) - first) / beta can do better.
    """
    one_sided_best = _find_one_sided_best(padded, middle, beta)
    max_inner_values = (math.log(padded[-1] - padded[0]) - one_sided_best) / beta
    half_width = len(padded) if max_inner_values >= len(padded) else int(max_inner_values) + 2
    lows = padded[max(0, middle - half_width - 1) : middle + 1]
    highs = padded[middle : middle + half_width + 2]
    return max(one_sided_best, _find_best_window(lows, highs, beta))


def _find_one_sided_best(padded: NDArray[Any], middle: int, beta: float) -> float:
    distances_above = padded[middle:] - padded[middle]
    distances_below = padded[middle] - padded[middle::-1]
    with np.errstate(divide="ignore"):
        return max(
            float(np.max(np.log(side) - beta * (np.arange(len(side)) - 1.0)))
            for side in (distances_above, distances_below)
        )


def _find_best_window(lows: NDArray[Any], highs: NDArray[Any], beta: float) -> float:
    """The largest ln(highs[j] - lows[i]) - beta (values strictly between), over all i and j.

    The leftmost best j does not decrease with i, so the rows are solved at ever finer strides, each between the
    answers of the two rows around it: every stride looks at no more than one pair per column and row.
    """
    rows, last, best = len(lows), len(highs) - 1, -math.inf
    choice = np.zeros(rows + 1, dtype=np.int64)
    for level in reversed(range(rows.bit_length())):
        stride = 1 << level
        stride_rows = np.arange(stride, rows + 1, 2 * stride)
        next_rows = stride_rows + stride
        stop = np.where(next_rows <= rows, choice[np.minimum(next_rows, rows)], last)
        choice[stride_rows], top = _solve_rows(lows, highs, beta, stride_rows - 1, choice[stride_rows - stride], stop)
        best = max(best, top)
    return best


def _solve_rows(
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
