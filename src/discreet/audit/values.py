"""One draw of any kind: what kind it is, how long, its single entries, and the number that an entry is."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import cast

import numpy as np

from discreet.audit.moments import Ticks, convert_to_microseconds, parse_duration, parse_moment

RealNumber = int | float | Fraction

MAX_FLOAT = int(np.finfo(np.float64).max)
MIN_DECIMAL_EXPONENT = -400
NAN = float("nan")
MAX_EXACT_INTEGER = 2**53
"""Larger whole numbers need not be floats, and numpy makes floats of them beside others."""
MAX_LISTED_KINDS = 4
"""More entries of one kind than this are told by their number."""


def freeze_value(value: object) -> object:
    """A list or an array as a tuple, and numpy's scalars as Python's; NaN as one value, though it is not itself."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and math.isnan(value):
        return NAN
    return tuple(map(freeze_value, value)) if isinstance(value, list | tuple) else value


def normalize_value(value: object) -> object:
    """A value of an array, without the type that it has for the sake of others: 1, 1.0, True, '1', b'1\\0' are one.

    None, NaN and NaT are one too, and so are a date and its midnight.
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
    """The number that numpy writes so, or the text."""
    number = _parse_numpy_text(text)
    if number is None:
        return text
    return _normalize_complex(number) if isinstance(number, complex) else _normalize_number(number)


def _normalize_complex(number: complex) -> object:
    """Without an imaginary part it is a real one; NaN where one of the two is."""
    if math.isnan(number.real) or math.isnan(number.imag):
        return NAN
    return number if number.imag or math.copysign(1, number.imag) < 0 else _normalize_number(number.real)


def _normalize_number(number: RealNumber) -> object:
    """The nearest float, as a whole number where it is one and no larger ones are between floats; -0 is none."""
    nearest_float = convert_to_float(number)
    is_integer = (
        abs(nearest_float) <= MAX_EXACT_INTEGER
        and nearest_float.is_integer()
        and (nearest_float or math.copysign(1, nearest_float) > 0)
    )
    return int(nearest_float) if is_integer else freeze_value(nearest_float)


@lru_cache(maxsize=4096)
def _parse_numpy_text(text: str) -> int | float | complex | None:
    """The number that numpy writes so."""
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
    """The type of a value; of a row, those of its entries."""
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
    """The single values of a row, of a row of rows, and of a complex number."""
    if isinstance(value, tuple):
        return [entry for part in value for entry in flatten_entries(part)]
    return [value.real, value.imag] if isinstance(value, complex) else [value]


def count_characters(value: object) -> int:
    """How many characters a text has; all else has none."""
    return len(value) if isinstance(value, str | bytes) else 0


def convert_to_number(entry: object) -> RealNumber | None:
    """The number that an entry is, or that a text or a moment stands for; None where there is none."""
    match entry:
        case bool() | int():
            return int(entry)
        case Ticks():
            return convert_to_microseconds(entry)
        case float():
            return entry
        case str() | np.floating():
            return _convert_text(entry)
        case Rational():
            return Fraction(int(entry.numerator), int(entry.denominator))
        case Decimal():
            return _convert_decimal(entry)
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
    """Whether an entry is a number, not a text that reads as one."""
    return not isinstance(entry, str) and convert_to_number(entry) is not None


def convert_to_float(number: RealNumber, origin: float = 0.0) -> float:
    """How far from the origin, as a float; what is too large for one as the largest there is."""
    if isinstance(number, float) and not (origin and math.isfinite(number)):
        return number
    distance = Fraction(number) - Fraction(origin) if origin else number
    return float(min(max(distance, -MAX_FLOAT), MAX_FLOAT))


def _convert_decimal(number: Decimal) -> RealNumber:
    if not number.is_finite():
        return NAN if number.is_nan() else float(number)
    if number and not MIN_DECIMAL_EXPONENT < number.adjusted() <= math.log10(MAX_FLOAT):
        return math.copysign(MAX_FLOAT if number.adjusted() > 0 else 0.0, number)
    return Fraction(number)


@lru_cache(maxsize=4096)
def _convert_text(text: object) -> float | None:
    try:
        return float(cast("str", text))
    except ValueError:
        return None


def _count_microseconds(day: date, clock: time) -> int:
    seconds = ((day.toordinal() * 24 + clock.hour) * 60 + clock.minute) * 60 + clock.second
    return seconds * 10**6 + clock.microsecond
