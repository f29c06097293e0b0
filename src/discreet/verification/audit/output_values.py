"""The outputs of a mechanism: single values of all types, moments and durations, and samples of draws."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import cast

import numpy as np
from numpy.typing import NDArray

SECOND = 10**18
"""In attoseconds, the smallest unit of numpy."""
MICROSECOND = 10**12
DAY = 86_400 * SECOND
UNITS: dict[str, int] = {"D": DAY, "h": 3600 * SECOND, "m": 60 * SECOND} | {
    unit: SECOND // 1000**power for power, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))
}
"""From the coarsest to the finest; each is a multiple of the next."""
SIZES = UNITS | {"W": 7 * DAY}
CALENDAR = {"Y": 12, "M": 1}
"""Units of months, which have no fixed length."""
MOMENT, DURATION, MONTHS = "moment", "duration", "months"
EPOCH = date(1970, 1, 1).toordinal()
MAX_INT64 = 2**63 - 1
MAX_FLOAT = int(np.finfo(np.float64).max)
MIN_DECIMAL_EXPONENT = -400
NAN = float("nan")
MAX_EXACT_INTEGER = 2**53
"""Larger whole numbers need not be floats, and numpy makes floats of them beside others."""
MAX_LISTED_KINDS = 4
"""More entries of one kind than this are counted, not listed."""
SIGN_MASK = np.int64(2**63 - 1)
RealNumber = int | float | Fraction
Keys = NDArray[np.int64]
Columns = NDArray[np.int64] | NDArray[np.float64]
Draws = NDArray[np.generic]
"""What a mechanism returned as an array, of whatever type."""


@dataclass(frozen=True, slots=True, repr=False)
class Ticks:
    """A moment since 1970 in UTC or a duration, in 10^-18 seconds; a duration of months or years, in months."""

    kind: str
    count: int

    def __repr__(self) -> str:
        unit, count = "M", self.count
        if self.kind != MONTHS:
            unit = find_coarsest_unit({count})
            count //= UNITS[unit]
        if abs(count) > MAX_INT64:
            return f"{count} {unit}"
        return str(np.array(count, f"{'M' if self.kind == MOMENT else 'm'}8[{unit}]")[()])


def parse_moment(value: np.datetime64 | date) -> Ticks | None:
    """Parse a moment of numpy, Python or pandas, in UTC if it has no time zone; None for NaT."""
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
    """Parse a duration of numpy, Python or pandas; a number if it has no unit, and None for NaT."""
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
    """The days from 1970 to the first day of a month: the calendar repeats every 400 years."""
    cycles, months_left = divmod(months + 1970 * 12, 400 * 12)
    year, month = divmod(months_left, 12)
    return cycles * 146_097 + date(year + 400, month + 1, 1).toordinal() - 146_097 - EPOCH


def convert_to_microseconds(ticks: Ticks) -> int | Fraction:
    """Convert to a number in the unit of Python's own moments; months stay months."""
    if ticks.kind == MONTHS:
        return ticks.count
    exact = Fraction(ticks.count, MICROSECOND)
    return exact.numerator if exact.denominator == 1 else exact


def find_coarsest_unit(counts: set[int]) -> str:
    """Return the coarsest unit in which all counts are whole numbers."""
    return next(unit for unit, size in UNITS.items() if all(count % size == 0 for count in counts))


def convert_to_unit(value: object, kind: str, unit: str, fallback: int) -> int:
    """Convert a moment or duration to a 64-bit whole number; the fallback for all that is none."""
    if not isinstance(value, Ticks) or value.kind != kind:
        return fallback
    count, remainder = divmod(value.count, 1 if kind == MONTHS else UNITS[unit])
    return fallback if remainder or abs(count) > MAX_INT64 else count


def has_plain_unit(raw: Draws) -> bool:
    """Return whether an array of moments or durations has a unit of fixed length."""
    unit, multiple = np.datetime_data(raw.dtype.str)
    return unit in SIZES and multiple == 1


def find_common_unit(pair: list[Draws]) -> str:
    """Return the coarsest unit in which all entries of arrays with plain units are whole numbers."""
    return next(unit for unit in UNITS if all(bool(_fits_unit(raw, unit).all()) for raw in pair))


def convert_column(raw: Draws, unit: str, fallback: int) -> NDArray[np.int64]:
    """Convert an array with a plain unit, as `convert_to_unit` does its entries."""
    size, unit_size = SIZES[np.datetime_data(raw.dtype.str)[0]], UNITS[unit]
    counts = raw.astype(np.int64)
    if size < unit_size:
        return np.where(_fits_unit(raw, unit) & ~np.isnat(raw), counts // (unit_size // size), fallback)
    times = size // unit_size
    fits = ~np.isnat(raw) & (np.abs(counts) <= MAX_INT64 // times) if times <= MAX_INT64 else counts == 0
    return np.where(fits, np.where(fits, counts, 0) * min(times, MAX_INT64), fallback)


def _fits_unit(raw: Draws, unit: str) -> NDArray[np.bool_]:
    """Which entries are whole numbers of a unit, or NaT."""
    size, unit_size = SIZES[np.datetime_data(raw.dtype.str)[0]], UNITS[unit]
    return np.asarray(np.isnat(raw) | (raw.astype(np.int64) % max(unit_size // size, 1) == 0))


def freeze_value(value: object) -> object:
    """Convert lists and arrays to tuples, numpy's scalars to Python's, and every NaN to one value."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and math.isnan(value):
        return NAN
    return tuple(map(freeze_value, value)) if isinstance(value, list | tuple) else value


def normalize_value(value: object) -> object:
    """Convert a value of an array to one without type: 1, 1.0, True, '1' and b'1\\0' become equal.

    None, NaN and NaT become equal too, and so do a date and its midnight.
    """
    match value:
        case bytes() | str():
            return _normalize_text((value if isinstance(value, str) else value.decode("latin-1")).rstrip("\0"))
        case tuple() | list():
            return tuple(map(normalize_value, value))
        case np.ndarray():
            if value.dtype.kind not in "mMV":
                return normalize_value(value.tolist())
            return normalize_value(list(value) if value.ndim else value[()])
        case np.datetime64() | date():
            return _convert_ticks(parse_moment(value))
        case np.timedelta64() | timedelta():
            return _convert_ticks(parse_duration(value))
        case np.void() if value.dtype.names:
            return tuple(normalize_value(value[name]) for name in value.dtype.names)
        case complex() | np.complexfloating():
            return _normalize_complex(complex(value))
        case np.floating():
            return _normalize_number(float(value))
        case np.generic():
            return normalize_value(value.item())
        case float() | Decimal() | Rational():
            return _normalize_number(cast("RealNumber", convert_to_number(value)))
    return NAN if value is None or type(value).__name__ == "NAType" else value


def _convert_ticks(value: Ticks | int | None) -> object:
    return NAN if value is None else value if isinstance(value, Ticks) else _normalize_number(value)


def _normalize_text(text: str) -> object:
    """The number of which numpy makes this text, or the text."""
    number = _parse_numpy_text(text)
    if number is None:
        return text
    return _normalize_complex(number) if isinstance(number, complex) else _normalize_number(number)


def _normalize_complex(number: complex) -> object:
    """A real number if there is no imaginary part; NaN if one of the two is."""
    if math.isnan(number.real) or math.isnan(number.imag):
        return NAN
    return number if number.imag or math.copysign(1, number.imag) < 0 else _normalize_number(number.real)


def _normalize_number(number: RealNumber) -> object:
    """The nearest float, as an int if it is a whole number up to 2^53 and not -0."""
    nearest = convert_to_float(number)
    is_integer = abs(nearest) <= MAX_EXACT_INTEGER and nearest.is_integer()
    is_negative_zero = not nearest and math.copysign(1, nearest) < 0
    return int(nearest) if is_integer and not is_negative_zero else freeze_value(nearest)


@lru_cache(maxsize=4096)
def _parse_numpy_text(text: str) -> int | float | complex | None:
    """The number of which numpy makes this text, if there is one."""
    if text in {"True", "False"}:
        return int(text == "True")
    for parse in (int, float, complex):
        try:
            number = parse(text)
            if str(number) == text:
                return number
        except ValueError:
            continue
    return None


def describe_kind(value: object) -> str:
    """Return the type of a value; of a row, the types of its entries."""
    if value is None:
        return "None"
    if isinstance(value, Ticks):
        return value.kind
    if not isinstance(value, tuple):
        return type(value).__name__
    kinds = list(map(describe_kind, value))
    if len(kinds) > MAX_LISTED_KINDS and len(set(kinds)) == 1:
        return f"({len(kinds)} times {kinds[0]})"
    return f"({', '.join(kinds)})"


def flatten_entries(value: object) -> list[object]:
    """Return the single values of a row, of nested rows, and of a complex number."""
    if isinstance(value, tuple):
        return [entry for part in value for entry in flatten_entries(part)]
    return [value.real, value.imag] if isinstance(value, complex) else [value]


def count_characters(value: object) -> int:
    """Return how many characters a text has; other values have none."""
    return len(value) if isinstance(value, str | bytes) else 0


def convert_to_number(entry: object) -> RealNumber | None:
    """Return the number that an entry is, or that a text or a moment stands for; None if there is none."""
    match entry:
        case bool() | int():
            return int(entry)
        case Ticks():
            return convert_to_microseconds(entry)
        case float():
            return entry
        case str() | np.floating():
            return _parse_float(entry)
        case Rational():
            return Fraction(int(entry.numerator), int(entry.denominator))
        case Decimal():
            if not entry.is_finite():
                return NAN if entry.is_nan() else float(entry)
            if entry and not MIN_DECIMAL_EXPONENT < entry.adjusted() <= math.log10(MAX_FLOAT):
                return math.copysign(MAX_FLOAT if entry.adjusted() > 0 else 0.0, entry)
            return Fraction(entry)
        case datetime():
            return _count_microseconds(entry.date(), entry.time())
        case date():
            return _count_microseconds(entry, time())
        case time():
            return _count_microseconds(date.min, entry)
        case timedelta():
            return entry // timedelta(microseconds=1)
    return None


def is_number(entry: object) -> bool:
    """Return whether an entry is a number, and not a text that reads as one."""
    return not isinstance(entry, str) and convert_to_number(entry) is not None


def convert_to_float(number: RealNumber, origin: float = 0.0) -> float:
    """Return the distance from the origin as a float; what is too large becomes the largest float."""
    if isinstance(number, float) and not (origin and math.isfinite(number)):
        return number
    distance = Fraction(number) - Fraction(origin) if origin else number
    return float(min(max(distance, -MAX_FLOAT), MAX_FLOAT))


@lru_cache(maxsize=4096)
def _parse_float(text: object) -> float | None:
    try:
        return float(cast("str", text))
    except ValueError:
        return None


def _count_microseconds(day: date, clock: time) -> int:
    seconds = ((day.toordinal() * 24 + clock.hour) * 60 + clock.minute) * 60 + clock.second
    return seconds * 10**6 + clock.microsecond


@dataclass(frozen=True, eq=False, slots=True)
class OutputAttribute:
    """A key for each draw besides its columns: which of some values it is, or how long."""

    name: str
    keys: Keys
    values: tuple[str, ...] | None = None
    """What the keys 0, 1, 2... stand for; None if the key is a number in its own right."""
    is_first: bool = False
    """Whether its feature comes before those of the columns."""


@dataclass(frozen=True, eq=False, slots=True)
class OutputSample:
    """Independent draws: `columns` has a row of numbers for each, and `attributes` what is not a number.

    `shape` is that of one draw: () for a number, (3,) for three, (4, 2) for a table of four rows.
    """

    count: int
    columns: Columns | None = None
    titles: tuple[str, ...] = ()
    """The name of each column."""
    attributes: tuple[OutputAttribute, ...] = ()
    shape: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self.count

    def take_every(self, start: int, step: int) -> OutputSample:
        """Return every step-th draw, so that parts are alike if the draws have some order."""
        columns = None if self.columns is None else self.columns[start::step]
        attributes = tuple(replace(attribute, keys=attribute.keys[start::step]) for attribute in self.attributes)
        return replace(self, count=len(range(start, self.count, step)), columns=columns, attributes=attributes)


def compute_ordered_keys(column: Columns) -> Keys:
    """Return integer keys in the order of the values, one for each bit pattern: -0 is below 0, and NaN at an end."""
    if column.dtype.kind != "f":
        return column.astype(np.int64, copy=False)
    bits = np.ascontiguousarray(column).view(np.int64)
    return bits ^ ((bits >> 63) & SIGN_MASK)


def decode_key(key: int, floating: bool) -> float | int:
    """Return the number that has this key."""
    return float(decode_keys(np.array([key]))[0]) if floating else key


def decode_keys(keys: Keys) -> NDArray[np.float64]:
    """Return the floats that have these keys."""
    bits: Keys = keys ^ ((keys >> 63) & SIGN_MASK)
    return bits.view(np.float64)
