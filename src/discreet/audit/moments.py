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
LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True, repr=False)
class Ticks:
    """A moment since 1970 in UTC or a duration, in 10^-18 seconds; a duration of months or years, in months."""

    kind: str
    count: int

    def __repr__(self) -> str:
        unit = "M" if self.kind == MONTHS else coarsest({self.count})
        told = self.count // (1 if self.kind == MONTHS else UNITS[unit])
        if abs(told) > LARGEST:
            return f"{told} {unit}"
        return str(np.array(told, f"{'M' if self.kind == MOMENT else 'm'}8[{unit}]")[()])


def moment_of(value: np.datetime64 | date) -> Ticks | None:
    """A moment of numpy, Python or pandas; without a time zone it is one in UTC. None for what is no time."""
    if hasattr(value, "to_datetime64"):
        value = value.to_datetime64()
    if isinstance(value, np.datetime64):
        unit, many = np.datetime_data(value.dtype)
        if np.isnat(value) or unit == "generic":
            return None
        count = int(value.astype(np.int64)) * many
        return Ticks(MOMENT, _days(count * CALENDAR[unit]) * DAY if unit in CALENDAR else count * SIZES[unit])
    since = timedelta(value.toordinal() - EPOCH)
    if isinstance(value, datetime):
        since += timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
        since -= value.utcoffset() or timedelta()
    return Ticks(MOMENT, since // timedelta(microseconds=1) * MICROSECOND)


def duration_of(value: np.timedelta64 | timedelta) -> Ticks | int | None:
    """A duration of numpy, Python or pandas; a number where it has no unit, and None for what is no time."""
    if hasattr(value, "to_timedelta64"):
        value = value.to_timedelta64()
    if isinstance(value, np.timedelta64):
        unit, many = np.datetime_data(value.dtype)
        if np.isnat(value):
            return None
        count = int(value.astype(np.int64)) * many
        if unit in CALENDAR:
            return Ticks(MONTHS, count * CALENDAR[unit])
        return count if unit == "generic" else Ticks(DURATION, count * SIZES[unit])
    return Ticks(DURATION, value // timedelta(microseconds=1) * MICROSECOND)


def _days(months: int) -> int:
    """From 1970 to the first day of a month: the calendar repeats every 400 years."""
    cycles, rest = divmod(months + 1970 * 12, 400 * 12)
    year, month = divmod(rest, 12)
    return cycles * 146_097 + date(year + 400, month + 1, 1).toordinal() - 146_097 - EPOCH


def microseconds_of(ticks: Ticks) -> int | Fraction:
    """As a number, in the unit of Python's own moments; months as they are."""
    if ticks.kind == MONTHS:
        return ticks.count
    exact = Fraction(ticks.count, MICROSECOND)
    return exact.numerator if exact.denominator == 1 else exact


def coarsest(counts: set[int]) -> str:
    """The coarsest unit in which all of them are whole numbers."""
    return next(unit for unit, size in UNITS.items() if all(count % size == 0 for count in counts))


def in_unit(value: object, kind: str, unit: str, rest: int) -> int:
    """A moment or duration as a whole number of 64 binary digits; the rest for all that is none."""
    if not isinstance(value, Ticks) or value.kind != kind:
        return rest
    count, remains = divmod(value.count, 1 if kind == MONTHS else UNITS[unit])
    return rest if remains or abs(count) > LARGEST else count


def has_plain_unit(raw: NDArray[Any]) -> bool:
    """Whether an array of moments or durations has a unit of one length."""
    unit, many = np.datetime_data(raw.dtype)
    return unit in SIZES and many == 1


def coarsest_of(pair: list[NDArray[Any]]) -> str:
    """The coarsest unit in which all entries of arrays with plain units are whole numbers."""
    for unit in UNITS:
        if all(bool(_fits(raw, unit).all()) for raw in pair):
            return unit
    raise AssertionError("every unit is a multiple of the finest")


def column_in_unit(raw: NDArray[Any], unit: str, rest: int) -> NDArray[np.int64]:
    """As `in_unit`, for an array with a plain unit."""
    size, least = SIZES[np.datetime_data(raw.dtype)[0]], UNITS[unit]
    counts = raw.astype(np.int64)
    if size < least:
        return np.where(_fits(raw, unit) & ~np.isnat(raw), counts // (least // size), rest)
    times = size // least
    fits = ~np.isnat(raw) & (np.abs(counts) <= LARGEST // times) if times <= LARGEST else counts == 0
    return np.where(fits, np.where(fits, counts, 0) * min(times, LARGEST), rest)


def _fits(raw: NDArray[Any], unit: str) -> NDArray[np.bool_]:
    """Which entries are whole numbers of a unit; NaT is one of any."""
    size, least = SIZES[np.datetime_data(raw.dtype)[0]], UNITS[unit]
    fits: NDArray[np.bool_] = np.isnat(raw) | (raw.astype(np.int64) % max(least // size, 1) == 0)
    return fits
