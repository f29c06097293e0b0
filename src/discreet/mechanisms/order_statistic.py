"""Order statistics of a secret column: local and smooth sensitivity, and a pure-DP mechanism with noise at the latter.

Both sensitivities are computed from the data, so they are as secret as the data: neither they nor a noise scale made of
them may ever leave. The proofs are in the docstrings and in order_statistic.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy, get_entropy, sample_bits
from discreet.mechanisms.samplers import (
    WORD_BITS,
    build_rational_chance,
    flip_coin,
    sample_below,
    sample_weighted_index,
)
from discreet.numeric import (
    as_int,
    as_number_between,
    as_positive,
    as_rational,
    exp_above,
    exp_below,
    format_exact,
    read_clamped,
)
from discreet.privacy.guarantee import Guarantee
from discreet.untrusted import CheckedValue, copy_value, set_fields

ColumnValues = ArrayLike | Sequence[object]
ColumnArray = NDArray[np.int64] | NDArray[np.float64] | NDArray[np.object_]
UnitArray = NDArray[np.int64] | NDArray[np.float64]
MAX_UNITS = 2**61
"""Bounds beyond this many grid steps from 0 leave no room for differences in 64 bits."""


def parse_bounds(lower: object, upper: object) -> tuple[Fraction, Fraction]:
    """Public bounds, the lower below the upper."""
    if lower is None or upper is None:
        raise InvalidInput("this needs both bounds, lower and upper; give the least and greatest value that can occur")
    low, high = as_rational(lower, "lower"), as_rational(upper, "upper")
    if low >= high:
        raise InvalidInput(f"lower must be below upper, got lower {format_exact(low)} and upper {format_exact(high)}")
    return low, high


@dataclass(frozen=True, slots=True)
class BoundedGrid:
    """The multiples of a public step between public bounds. Build it with `BoundedGrid.of`."""

    lower: Fraction
    upper: Fraction
    step: Fraction
    low: int
    high: int

    @staticmethod
    def of(lower: object, upper: object, step: object = 1) -> BoundedGrid:
        """At least two grid points, and few enough for 64 bits."""
        (low, high), size = parse_bounds(lower, upper), as_positive(step, "step")
        grid = BoundedGrid(low, high, size, math.ceil(low / size), math.floor(high / size))
        if grid.width < 1 or max(-grid.low, grid.high) > MAX_UNITS:
            rule = "step must leave 2 grid points within the bounds, at most 2^61 on each side of 0"
            raise InvalidInput(f"{rule}, got {format_exact(size)}")
        return grid

    @property
    def width(self) -> int:
        """The bounds' distance in grid units."""
        return self.high - self.low

    def value(self, units: int) -> int | Fraction:
        """Grid units, clamped to the bounds, as a number."""
        exact = min(max(units, self.low), self.high) * self.step
        return int(exact) if self.step.denominator == 1 else exact

    def to_units(self, values: ColumnValues) -> NDArray[np.int64]:
        """Each value floored to the grid and clamped; what is not a number counts as the lower bound. Secret.

        Every row is mapped by itself, whatever the others are, and in order: so neighbours stay neighbours, and
        order statistics commute with it. Nothing about it is reported. An array's dtype is taken as public.
        """
        column = require_nonempty(as_column(values))
        if column.dtype.kind == "f":
            return self._units_from_floats(column)
        # Clamped whole numbers times the step's denominator must stay within 64 bits.
        fits_word = max(-self.low, self.high, 1) * self.step.numerator + self.step.denominator <= MAX_UNITS
        if column.dtype.kind == "i" and fits_word:
            # Clamped first, so that the product stays within 64 bits.
            ends = math.floor(self.low * self.step), math.ceil(self.high * self.step)
            scaled = np.clip(column.astype(np.int64), *ends) * self.step.denominator // self.step.numerator
            return np.asarray(np.clip(scaled, self.low, self.high), dtype=np.int64)
        is_float = np.array([isinstance(value, float | np.floating) for value in column])
        units = np.zeros(len(column), dtype=np.int64)
        units[is_float] = self._units_from_floats(column[is_float])
        exact = (clamp_value(value, self.lower, self.upper) for value in column[~is_float])
        units[~is_float] = [min(max(number // self.step, self.low), self.high) for number in exact]
        return units

    def _units_from_floats(self, column: ColumnArray) -> NDArray[np.int64]:
        """A quotient a few rounding errors below a whole number is that number: 0.3 is three steps of 0.1."""
        with np.errstate(all="ignore"):
            quotient = column.astype(np.float64) / float(self.step)
        finite = np.clip(np.where(np.isnan(quotient), -np.inf, quotient), float(self.low), float(self.high))
        units = np.floor(finite + np.minimum(4 * np.spacing(np.abs(finite)), 0.25)).astype(np.int64)
        clamped: NDArray[np.int64] = np.clip(units, self.low, self.high)
        return clamped


def as_column(values: ColumnValues) -> ColumnArray:
    """One column as an array of integers, floats, or objects; how many there are is public.

    A list is not handed to numpy, which would find one type for all: then one row could change what others become.
    """
    column: NDArray[Any] = np.asarray(values) if hasattr(values, "dtype") else _column_from_list(values)
    if column.ndim != 1:
        raise InvalidInput("values must be one column")
    if column.dtype.kind == "b" or (column.dtype.kind == "u" and column.dtype.itemsize < 8):
        return column.astype(np.int64)
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):  # a warning would tell that a huge value is there
            return column.astype(np.float64)
    return column if column.dtype.kind == "i" else column.astype(np.object_)


def _column_from_list(values: ColumnValues) -> ColumnArray:
    """Objects; where all are small whole numbers the integers, which come to the same row by row."""
    if not isinstance(values, Iterable):
        raise InvalidInput("values must be one column")
    rows = list(values)
    if all(type(row) is int and abs(row) < 2**63 for row in rows):
        return np.array(rows, dtype=np.int64)
    return np.fromiter(rows, dtype=np.object_, count=len(rows))


def require_nonempty(column: ColumnArray) -> ColumnArray:
    """The column, if it has a value; an order statistic of none is nothing, and their number is public."""
    if not len(column):
        raise InvalidInput("values must be one column with at least one value")
    return column


def clamp_value(value: object, low: Fraction, high: Fraction) -> Fraction:
    """One value, exact and clamped; what is not a number counts as the lower bound."""
    number = read_clamped(value, low, high)
    return low if number is None else number


def as_float_column(values: ColumnValues) -> NDArray[np.float64]:
    """Every row as a float by itself; what is not a number is NaN. No rows are fine."""
    column = as_column(values)
    if column.dtype.kind != "O":
        return column.astype(np.float64)
    return np.array([_as_float(value) for value in column], dtype=np.float64)


def _as_float(value: Any) -> float:
    if isinstance(value, str | bytes | complex):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


OrderStatisticName = str | tuple[str, object]
"""median, max, min, second max, or ("quantile", q)."""


def find_rank(statistic: object, size: int) -> int:
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
    """Compute how far an order statistic of these values can change when `group` of them are replaced.

    It follows from the data: never release it. The result is max(x_(p+g) - x_(p), x_(p) - x_(p-g)), exactly, the values
    clamped and sorted, with the bounds standing for ranks outside 1..n.

    Args:
        values: The values, at least one.
        what: "median", "max", "min", "second max" or ("quantile", q).
        lower: The public lower bound of the values.
        upper: The public upper bound of the values.
        group: How many values are replaced at once.

    Returns:
        The exact local sensitivity.

    Raises:
        InvalidInput: There are no values, the statistic is unknown, or the bounds are not valid.

    Example:
        >>> from discreet.mechanisms import local_sensitivity
        >>> local_sensitivity([31, 35, 40, 41, 58], "median", lower=0, upper=100)
        5
    """
    low, high = parse_bounds(lower, upper)
    size, column = as_int(group, "group"), require_nonempty(as_column(values))
    rank, count = find_rank(what, len(column)), len(column)
    ranks = (rank - size, rank, rank + size)
    if column.dtype.kind == "O":
        column = np.array(sorted(clamp_value(value, low, high) for value in column), dtype=np.object_)
    else:
        numbers = np.where(np.isnan(column), -np.inf, column) if column.dtype.kind == "f" else column
        column = np.partition(numbers, [index - 1 for index in ranks if 1 <= index <= count])

    def pick_value(index: int) -> Fraction:
        """Clamping keeps the order, so three values are picked first and then clamped."""
        return low if index < 1 else high if index > count else clamp_value(column[index - 1], low, high)

    below, middle, above = map(pick_value, ranks)
    widest = max(above - middle, middle - below)
    return int(widest) if widest.denominator == 1 else widest


def smooth_sensitivity(
    values: ColumnValues, what: OrderStatisticName, lower: object, upper: object, beta: object
) -> float:
    """Compute the beta-smooth sensitivity of an order statistic under replace-one, in floats.

    It follows from the data: never release it. It is the maximum over i <= p <= j of (x_j - x_i) e^(-beta (j-i-1)), the
    values clamped and sorted, x_0 and x_(n+1) the bounds. It takes milliseconds for a million values, and about two
    seconds where beta is so small that all of them count.

    Args:
        values: The values, at least one.
        what: "median", "max", "min", "second max" or ("quantile", q).
        lower: The public lower bound of the values.
        upper: The public upper bound of the values.
        beta: How fast the bound falls with the distance between tables, above 0.

    Returns:
        The smooth sensitivity, at least the local one.

    Raises:
        InvalidInput: There are no values, the statistic is unknown, or a number is not valid.

    Example:
        >>> from discreet.mechanisms import smooth_sensitivity
        >>> round(smooth_sensitivity([31, 35, 40, 41, 58], "median", lower=0, upper=100, beta=1), 3)
        8.12
    """
    low, high = (float(bound) for bound in parse_bounds(lower, upper))
    column = require_nonempty(as_column(values))
    if column.dtype.kind == "O":
        column = np.array([clamp_value(value, Fraction(low), Fraction(high)) for value in column])
    floats = column.astype(np.float64)
    numbers = np.where(np.isnan(floats), low, np.clip(floats, low, high))
    padded, rank = np.concatenate(([low], np.sort(numbers), [high])), find_rank(what, len(numbers))
    return math.exp(compute_log_smooth_sensitivity(padded, rank, float(as_positive(beta, "beta"))))


def compute_log_smooth_sensitivity(padded: UnitArray, middle: int, beta: float) -> float:
    """The logarithm of the smooth sensitivity of sorted values with the bounds at both ends. Secret.

    Windows with one end at the middle give a first value; a window of k values inside is worth at most
    ln(width) - beta k, so only those with k up to (ln(width) - first) / beta can do better.
    """
    sides = (padded[middle:] - padded[middle], padded[middle] - padded[middle::-1])
    with np.errstate(divide="ignore"):
        bests = [float(np.max(np.log(side) - beta * (np.arange(len(side)) - 1.0))) for side in sides]
    one_sided_best = max(bests)
    max_inner_values = (math.log(padded[-1] - padded[0]) - one_sided_best) / beta
    half_width = len(padded) if max_inner_values >= len(padded) else int(max_inner_values) + 2
    lows = padded[max(0, middle - half_width - 1) : middle + 1]
    highs = padded[middle : middle + half_width + 2]
    return max(one_sided_best, _find_best_window(lows, highs, beta))


def _find_best_window(lows: UnitArray, highs: UnitArray, beta: float) -> float:
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
    lows: UnitArray,
    highs: UnitArray,
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


MIN_SCALE = 2
"""No noise is narrower than this many grid units; there a dilation costs hardly more than on the real line."""
KAPPA = Fraction(1, 10_000)
"""At least 4 pi / sinh(4 pi) = 0.0000876..., what the grid adds to the cost of a dilation at scales of 2 or more."""
FLOAT_ERROR = Fraction(1, 2**32)
"""More than fifty times the proven error of the float that is the logarithm of the smooth sensitivity."""
SCALE_ROUNDING = Fraction(1, 2**60)
"""More than the relative error of a scale rounded up to a multiple of 2^-64."""
SCALE_FINENESS = 64
"""The scales on offer are a factor of at most e^(1/64) apart."""


@dataclass(frozen=True, init=False)
class SmoothOrderStatistic(CheckedValue):
    """The median, max, min, second max or a quantile, plus noise at its smooth sensitivity, on the grid of `step`.

    P(N = k steps) is proportional to 1 / (1 + (k/t)^2), with the scale t taken from the data. One answer is epsilon-DP
    under replace-one; the number of values is public. The smooth sensitivity, t and any error bar made of them are
    secret.

    Args:
        what: "median", "max", "min", "second max" or ("quantile", q).
        lower: The public lower bound of the values.
        upper: The public upper bound of the values.
        epsilon: Privacy budget of one answer, between 0.000001 and 1000.
        step: The distance of two points of the grid.

    Raises:
        InvalidInput: The statistic is unknown, or the bounds, the step or epsilon are not valid.

    Example:
        >>> from discreet.mechanisms import SmoothOrderStatistic
        >>> median = SmoothOrderStatistic("median", lower=0, upper=100, epsilon=1)
        >>> median.cost().neighbors
        'replace-one'
        >>> 0 <= median.answer([31, 35, 40, 41, 58]) <= 100
        True
    """

    what: OrderStatisticName
    epsilon: Fraction
    grid: BoundedGrid

    def __init__(
        self, what: OrderStatisticName, lower: object, upper: object, epsilon: object, step: object = 1
    ) -> None:
        name = copy_value(what, "the order statistic")
        find_rank(name, 1)
        exact_epsilon = as_positive(epsilon, "epsilon")
        if not Fraction(1, 10**6) <= exact_epsilon <= 1000:
            raise InvalidInput(f"epsilon must be between 0.000001 and 1000 here, got {format_exact(exact_epsilon)}")
        set_fields(self, what=name, epsilon=exact_epsilon, grid=BoundedGrid.of(lower, upper, step))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.what, self.grid.lower, self.grid.upper, self.epsilon, self.grid.step)

    def cost(self) -> Guarantee:
        """Pure DP at epsilon, one value replaced."""
        return Guarantee.dp(self.epsilon, neighbors="replace-one")

    def error_bound(self) -> Fraction:
        """The most the answer can be off by, from public facts: the bounds' distance. Anything finer would disclose."""
        return self.grid.upper - self.grid.lower

    def answer(self, values: ColumnValues, entropy: Entropy | None = None) -> int | Fraction:
        """One draw around the exact order statistic, clamped to the bounds."""
        center, scale = compute_center_and_scale(self, values)
        return self.grid.value(center + sample_noise_units(scale, get_entropy(entropy)))


def compute_center_and_scale(mechanism: SmoothOrderStatistic, values: ColumnValues) -> tuple[int, Fraction]:
    """The exact answer and the scale of its noise, in grid units. Secret, both; for the mechanism and its tests."""
    grid, epsilon = mechanism.grid, mechanism.epsilon
    units: NDArray[np.int64] = np.sort(grid.to_units(values))
    rank = find_rank(mechanism.what, len(units))
    padded = np.concatenate(([grid.low], units, [grid.high]))
    smooth = compute_log_smooth_sensitivity(padded, rank, compute_smoothness(epsilon))
    return int(units[rank - 1]), compute_noise_scale(smooth, epsilon)


def compute_dilation(epsilon: Fraction) -> Fraction:
    """b: the scales of neighbours have a ratio of at most e^b."""
    return epsilon * Fraction(7, 10)


@lru_cache(maxsize=256)
def compute_slide(epsilon: Fraction) -> Fraction:
    """alpha: the answers of neighbours are at most alpha times the narrower scale apart. Rounded down.

    The loss is a hyperbolic distance, at most arcosh(cosh v + alpha^2 e^-v / 2) + kappa v for scales e^v apart. It is
    convex inside, so v = 0 and v = b decide: alpha^2 <= 2 (cosh e - 1), 2 e^b (cosh e - cosh b), e = epsilon - kappa b.
    """
    b = compute_dilation(epsilon)
    remaining_epsilon = epsilon - KAPPA * b
    cosh = (exp_below(remaining_epsilon, 160) + exp_below(-remaining_epsilon, 160)) / 2
    cosh_b = (exp_above(b, 160) + exp_above(-b, 160)) / 2
    square = min(2 * (cosh - 1), 2 * exp_below(b, 160) * (cosh - cosh_b))
    return Fraction(math.isqrt(math.floor(square * 2**160)), 2**80)


def compute_smoothness(epsilon: Fraction) -> float:
    """beta, at which the smooth sensitivity is taken: b less two float errors and the rounding of a scale."""
    return math.nextafter(float(compute_dilation(epsilon) - SCALE_ROUNDING - 2 * FLOAT_ERROR), 0)


def compute_noise_scale(log_sensitivity: float, epsilon: Fraction) -> Fraction:
    """t: at least S / alpha and 2, on a ladder of rungs e^(lambda j), given ln S to within the float error. Secret."""
    max_dilation = compute_dilation(epsilon) - SCALE_ROUNDING
    rung = max_dilation / (SCALE_FINENESS * math.ceil(max_dilation))
    log_scale = max(math.log(MIN_SCALE), log_sensitivity - math.log(compute_slide(epsilon)))
    return exp_above(rung * math.ceil((Fraction(log_scale) + FLOAT_ERROR) / rung), 64)


def sample_noise_units(scale: Fraction, entropy: Entropy) -> int:
    """An exact draw with P(k) proportional to 1 / (1 + (k/t)^2), t a rational scale above 0.

    Proposal: weight 1 on |k| < edge, t^2 / (|k| (|k|-1)) beyond, which is nowhere below the law's weight. Centre, tail
    and coin are drawn in every attempt, and attempts are alike, so their number says nothing about the outcome.
    """
    edge = max(2, math.ceil(scale))
    top, bottom = scale.numerator**2, scale.denominator**2
    weights = [(2 * edge - 1) * (edge - 1) * bottom, top, top]
    while True:
        center = sample_below(2 * edge - 1, entropy) - (edge - 1)
        tail = _sample_tail(edge, entropy)
        part = sample_weighted_index(weights, entropy)
        units = (center, tail, -tail)[part]
        accepted_weight = tail * (tail - 1) * bottom if part else top
        if flip_coin(build_rational_chance(Fraction(accepted_weight, top + units * units * bottom)), entropy):
            return units


def _sample_tail(edge: int, entropy: Entropy) -> int:
    """K = 1 + floor((edge-1) / U), so P(K >= k) = (edge-1) / (k-1); U gets more digits until the floor is certain."""
    size = WORD_BITS + 2 * edge.bit_length()
    word = sample_bits(size, entropy)
    while not word or ((edge - 1) << size) // word != ((edge - 1) << size) // (word + 1):
        word, size = word << WORD_BITS | sample_bits(WORD_BITS, entropy), size + WORD_BITS
    return 1 + ((edge - 1) << size) // (word + 1)
