"""Moments and durations as exact whole numbers: numpy and pandas give them the unit that the rest of an array needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

SECOND = 10**18
"""In the smallest unit that numpy has."""
MICROSECOND = 10**12
DAY = 86_400 * SECOND
UNITS: dict[str, int] = {"D": DAY, "h": 3600 * SECOND, "m": 60 * SECOND} | {
    unit: SECOND // 1000**at for at, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))
}
"""From the coarsest to the finest; each is a multiple of the next."""
SIZES = UNITS | {"W": 7 * DAY}
CALENDAR = {"Y": 12, "M": 1}
"""Units of months, which have no one length."""
MOMENT, DURATION, MONTHS = "moment", "duration", "months"
EPOCH = date(1970, 1, 1).toordinal()
MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True, repr=False)
class Ticks:
    """A moment since 1970 in UTC or a duration, in 10^-18 seconds; a duration of months or years, in months."""

    kind: str
    count: int

    def __repr__(self) -> str:
        unit = "M" if self.kind == MONTHS else find_coarsest_unit({self.count})
        count = self.count // (1 if self.kind == MONTHS else UNITS[unit])
        if abs(count) > MAX_INT64:
            return f"{count} {unit}"
        return str(np.array(count, f"{'M' if self.kind == MOMENT else 'm'}8[{unit}]")[()])


def parse_moment(value: np.datetime64 | date) -> Ticks | None:
    """A moment of numpy, Python or pandas; without a time zone it is one in UTC. None for what is no time."""
    if hasattr(value, "to_datetime64"):
        value = value.to_datetime64()
    if isinstance(value, np.datetime64):
        unit, multiple = np.datetime_data(value.dtype)
        if np.isnat(value) or unit == "generic":
            return None
        count = int(value.astype(np.int64)) * multiple
        return Ticks(MOMENT, _count_days(count * CALENDAR[unit]) * DAY if unit in CALENDAR else count * SIZES[unit])
    since = timedelta(value.toordinal() - EPOCH)
    if isinstance(value, datetime):
        since += timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
        since -= value.utcoffset() or timedelta()
    return Ticks(MOMENT, since // timedelta(microseconds=1) * MICROSECOND)


def parse_duration(value: np.timedelta64 | timedelta) -> Ticks | int | None:
    """A duration of numpy, Python or pandas; a number where it has no unit, and None for what is no time."""
    if hasattr(value, "to_timedelta64"):
        value = value.to_timedelta64()
    if isinstance(value, np.timedelta64):
        unit, multiple = np.datetime_data(value.dtype)
        if np.isnat(value):
            return None
        count = int(value.astype(np.int64)) * multiple
        if unit in CALENDAR:
            return Ticks(MONTHS, count * CALENDAR[unit])
        return count if unit == "generic" else Ticks(DURATION, count * SIZES[unit])
    return Ticks(DURATION, value // timedelta(microseconds=1) * MICROSECOND)


def _count_days(months: int) -> int:
    """From 1970 to the first day of a month: the calendar repeats every 400 years."""
    cycles, months_left = divmod(months + 1970 * 12, 400 * 12)
    year, month = divmod(months_left, 12)
    return cycles * 146_097 + date(year + 400, month + 1, 1).toordinal() - 146_097 - EPOCH


def convert_to_microseconds(ticks: Ticks) -> int | Fraction:
    """As a number, in the unit of Python's own moments; months as they are."""
    if ticks.kind == MONTHS:
        return ticks.count
    exact = Fraction(ticks.count, MICROSECOND)
    return exact.numerator if exact.denominator == 1 else exact


def find_coarsest_unit(counts: set[int]) -> str:
    """The coarsest unit in which all of them are whole numbers."""
    return next(unit for unit, size in UNITS.items() if all(count % size == 0 for count in counts))


def convert_to_unit(value: object, kind: str, unit: str, fallback: int) -> int:
    """A moment or duration as a whole number of 64 binary digits; the rest for all that is none."""
    if not isinstance(value, Ticks) or value.kind != kind:
        return fallback
    count, remains = divmod(value.count, 1 if kind == MONTHS else UNITS[unit])
    return fallback if remains or abs(count) > MAX_INT64 else count


def has_plain_unit(raw: NDArray[Any]) -> bool:
    """Whether an array of moments or durations has a unit of one length."""
    unit, multiple = np.datetime_data(raw.dtype)
    return unit in SIZES and multiple == 1


def find_common_unit(pair: list[NDArray[Any]]) -> str:
    """The coarsest unit in which all entries of arrays with plain units are whole numbers."""
    for unit in UNITS:
        if all(bool(_fits_unit(raw, unit).all()) for raw in pair):
            return unit
    raise AssertionError("every unit is a multiple of the finest")


def convert_column(raw: NDArray[Any], unit: str, fallback: int) -> NDArray[np.int64]:
    """As `in_unit`, for an array with a plain unit."""
    size, unit_size = SIZES[np.datetime_data(raw.dtype)[0]], UNITS[unit]
    counts = raw.astype(np.int64)
    if size < unit_size:
        return np.where(_fits_unit(raw, unit) & ~np.isnat(raw), counts // (unit_size // size), fallback)
    times = size // unit_size
    fits = ~np.isnat(raw) & (np.abs(counts) <= MAX_INT64 // times) if times <= MAX_INT64 else counts == 0
    return np.where(fits, np.where(fits, counts, 0) * min(times, MAX_INT64), fallback)


def _fits_unit(raw: NDArray[Any], unit: str) -> NDArray[np.bool_]:
    """Which entries are whole numbers of a unit; NaT is one of any."""
    size, unit_size = SIZES[np.datetime_data(raw.dtype)[0]], UNITS[unit]
    fits: NDArray[np.bool_] = np.isnat(raw) | (raw.astype(np.int64) % max(unit_size // size, 1) == 0)
    return fits
