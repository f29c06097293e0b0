"""A column of secret values, read row by row: no row changes how another is read, and none is reported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidInput
from discreet.exact import as_positive, as_rational, format_exact, read_clamped

ColumnValues = ArrayLike | Sequence[object]
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
            raise InvalidInput(
                "step must leave 2 grid points within the bounds, at most 2^61 on each side of "
                f"0, got {format_exact(size)}"
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

    def to_units(self, values: ColumnValues) -> NDArray[np.int64]:
        """Each value floored to the grid and clamped; what is not a number counts as the lower bound. Secret.

        Every row is mapped by itself, whatever the others are, and in order: so neighbours stay neighbours, and
        order statistics commute with it. Nothing about it is reported. An array's dtype is taken as public.
        """
        column = require_nonempty(as_column(values))
        if column.dtype.kind == "f":
            return self._units_from_floats(column)
        if column.dtype.kind == "i" and self._fits_in_words:
            return self._units_from_integers(column)
        is_float = np.array([isinstance(value, float | np.floating) for value in column])
        units = np.zeros(len(column), dtype=np.int64)
        units[is_float] = self._units_from_floats(column[is_float])
        exact = (clamp_value(value, self.lower, self.upper) for value in column[~is_float])
        units[~is_float] = [min(max(number // self.step, self.low), self.high) for number in exact]
        return units

    @property
    def _fits_in_words(self) -> bool:
        """Whether clamped whole numbers times the step's denominator stay within 64 bits."""
        return max(-self.low, self.high, 1) * self.step.numerator + self.step.denominator <= MAX_UNITS

    def _units_from_integers(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """Clamped first, so that the product stays within 64 bits."""
        ends = math.floor(self.low * self.step), math.ceil(self.high * self.step)
        units = np.clip(column.astype(np.int64), *ends) * self.step.denominator // self.step.numerator
        clamped: NDArray[np.int64] = np.clip(units, self.low, self.high)
        return clamped

    def _units_from_floats(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """A quotient a few rounding errors below a whole number is that number: 0.3 is three steps of 0.1."""
        with np.errstate(all="ignore"):
            quotient = column.astype(np.float64) / float(self.step)
        finite = np.clip(np.where(np.isnan(quotient), -np.inf, quotient), float(self.low), float(self.high))
        units = np.floor(finite + np.minimum(4 * np.spacing(np.abs(finite)), 0.25)).astype(np.int64)
        clamped: NDArray[np.int64] = np.clip(units, self.low, self.high)
        return clamped


def as_column(values: ColumnValues) -> NDArray[Any]:
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


def _column_from_list(values: Any) -> NDArray[Any]:
    """Objects; where all are small whole numbers the integers, which come to the same row by row."""
    if not isinstance(values, Iterable):
        raise InvalidInput("values must be one column")
    rows = list(values)
    if all(type(row) is int and abs(row) < 2**63 for row in rows):
        return np.array(rows, dtype=np.int64)
    return np.fromiter(rows, dtype=np.object_, count=len(rows))


def require_nonempty(column: NDArray[Any]) -> NDArray[Any]:
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
