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

from discreet.audit.moments import Ticks, duration_of, microseconds_of, moment_of

Number = int | float | Fraction

LARGEST = int(np.finfo(np.float64).max)
FINEST_DIGIT = -400
NAN = float("nan")
MOST_EXACT = 2**53
"""Larger whole numbers need not be floats, and numpy makes floats of them beside others."""
ALIKE = 4
"""More entries of one kind than this are told by their number."""


def frozen(value: object) -> object:
    """A list or an array as a tuple, and numpy's scalars as Python's; NaN as one value, though it is not itself."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and math.isnan(value):
        return NAN
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def plain_value(value: object) -> object:
    """A value of an array, without the type that it has for the sake of others: 1, 1.0, True, '1', b'1\\0' are one.

    None, NaN and NaT are one too, and so are a date and its midnight.
    """
    match value:
        case bytes() | str():
            return _plain_text((value if isinstance(value, str) else value.decode("latin-1")).rstrip("\0"))
        case tuple() | list():
            return tuple(map(plain_value, value))
        case np.ndarray():
            if value.dtype.kind not in "mMV":
                return plain_value(value.tolist())
            return plain_value(list(value) if value.ndim else value[()])
        case np.datetime64() | date():
            return _or_nan(moment_of(value))
        case np.timedelta64() | timedelta():
            return _or_nan(duration_of(value))
        case np.void() if value.dtype.names:
            return tuple(plain_value(value[name]) for name in value.dtype.names)
        case complex() | np.complexfloating():
            return _plain_complex(complex(value))
        case np.floating():
            return _plain_number(float(value))
        case np.generic():
            return plain_value(value.item())
        case float() | Decimal() | Rational():
            return _plain_number(cast("Number", number_of(value)))
    return NAN if value is None or type(value).__name__ == "NAType" else value


def _or_nan(value: Ticks | int | None) -> object:
    return NAN if value is None else value if isinstance(value, Ticks) else _plain_number(value)


def _plain_text(text: str) -> object:
    """The number that numpy writes so, or the text."""
    number = _written(text)
    if number is None:
        return text
    return _plain_complex(number) if isinstance(number, complex) else _plain_number(number)


def _plain_complex(number: complex) -> object:
    """Without an imaginary part it is a real one; NaN where one of the two is."""
    if math.isnan(number.real) or math.isnan(number.imag):
        return NAN
    return number if number.imag or math.copysign(1, number.imag) < 0 else _plain_number(number.real)


def _plain_number(number: Number) -> object:
    """The nearest float, as a whole number where it is one and no larger ones are between floats; -0 is none."""
    near = nearest(number)
    whole = abs(near) <= MOST_EXACT and near.is_integer() and (near or math.copysign(1, near) > 0)
    return int(near) if whole else frozen(near)


@lru_cache(maxsize=4096)
def _written(text: str) -> int | float | complex | None:
    """The number that numpy writes so."""
    if text in {"True", "False"}:
        return int(text == "True")
    for read in (int, float, complex):
        try:
            number = read(text)
            if str(number) == text:
                return number
        except ValueError:
            continue
    return None


def kind_of(value: object) -> str:
    """The type of a value; of a row, those of its entries."""
    if value is None:
        return "None"
    if isinstance(value, Ticks):
        return value.kind
    if not isinstance(value, tuple):
        return type(value).__name__
    kinds = list(map(kind_of, value))
    if len(kinds) > ALIKE and len(set(kinds)) == 1:
        return f"({len(kinds)} times {kinds[0]})"
    return f"({', '.join(kinds)})"


def entries_of(value: object) -> list[object]:
    """The single values of a row, of a row of rows, and of a complex number."""
    if isinstance(value, tuple):
        return [entry for one in value for entry in entries_of(one)]
    return [value.real, value.imag] if isinstance(value, complex) else [value]


def characters(value: object) -> int:
    """How many characters a text has; all else has none."""
    return len(value) if isinstance(value, str | bytes) else 0


def number_of(entry: object) -> Number | None:
    """The number that an entry is, or that a text or a moment stands for; None where there is none."""
    match entry:
        case bool() | int():
            return int(entry)
        case Ticks():
            return microseconds_of(entry)
        case float():
            return entry
        case str() | np.floating():
            return _of_text(entry)
        case Rational():
            return Fraction(int(entry.numerator), int(entry.denominator))
        case Decimal():
            return _of_decimal(entry)
        case datetime():
            return _microseconds(entry.date(), entry.time())
        case date():
            return _microseconds(entry, time())
        case time():
            return _microseconds(date.min, entry)
        case timedelta():
            return entry // timedelta(microseconds=1)
    return None


def is_number(entry: object) -> bool:
    """Whether an entry is a number, not a text that reads as one."""
    return not isinstance(entry, str) and number_of(entry) is not None


def nearest(number: Number, origin: float = 0.0) -> float:
    """How far from the origin, as a float; what is too large for one as the largest there is."""
    if isinstance(number, float) and not (origin and math.isfinite(number)):
        return number
    away = Fraction(number) - Fraction(origin) if origin else number
    return float(min(max(away, -LARGEST), LARGEST))


def _of_decimal(number: Decimal) -> Number:
    if not number.is_finite():
        return NAN if number.is_nan() else float(number)
    if number and not FINEST_DIGIT < number.adjusted() <= math.log10(LARGEST):
        return math.copysign(LARGEST if number.adjusted() > 0 else 0.0, number)
    return Fraction(number)


@lru_cache(maxsize=4096)
def _of_text(text: object) -> float | None:
    try:
        return float(cast("str", text))
    except ValueError:
        return None


def _microseconds(day: date, clock: time) -> int:
    seconds = ((day.toordinal() * 24 + clock.hour) * 60 + clock.minute) * 60 + clock.second
    return seconds * 10**6 + clock.microsecond
