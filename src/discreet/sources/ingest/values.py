"""How a raw value becomes a code: the one written rule, as plain Python. Every engine agrees with it, value by value.

Values are of a few kinds: nothing, truths, whole numbers, decimals, floats, dates, texts, and the rest, which no column
reads. Texts lose their outer ASCII spaces, tabs and line ends. Nothing is None, a float that is not a number, a text
without a character left, and what the column lists as missing.

A text is Unicode, so that two texts are the same on an engine where they are the same in Python. One with bytes that
are not UTF-8, or with half of a surrogate pair, is not: no column reads it, and it names no unit. Spark and Python can
hold such texts. PostgreSQL cannot; and a CSV, Parquet or Arrow table that breaks this rule of its own format is refused
as a whole. A text is never repaired: two people whose names differ in the repaired part would become one unit.

A value's name is the text itself; the decimal text of a whole number below 10^40, also where it is kept as a decimal,
or as a float of at most 2^53; true or false. Categories, truths, private keys, units and missing values go by it.

Numbers are IEEE doubles: a text of at most 40 characters such as -1.5e3; a whole number or decimal, rounded once; 0
or 1 for a truth. What is beyond a bound, infinities included, is the bound; what is nearer to 0 than 10^-200 is 0;
else the code is floor(x * b / a + 0.5) for the step a/b. So no value can overflow on any engine.

Dates are from 0001-01-01 to 9999-12-31: a date, the UTC date of a moment, or a text of at most 40 characters that is
such a date or begins with one and T or a space.

What cannot be read counts as missing, and a missing value is the code the column declares for it, if any.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Literal
from uuid import UUID

import numpy as np

from discreet.numeric import EPOCH
from discreet.schema.schema import Column

Value = int | str | None
Status = Literal["read", "missing", "unreadable", "clipped"]

WHITESPACE = " \t\r\n"
MAX_TEXT_LENGTH = 40
"""The most characters of a number, a date or a truth."""
MAX_KEY_LENGTH = 200
"""The characters kept of a private key."""
NUMBER_PATTERN = r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,2})?"
"""Of 40 such characters none overflows a double, and none but 0 underflows."""
DATE_PATTERN = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
BOOLEAN_TEXTS: Mapping[str, int] = MappingProxyType(
    {"true": 1, "t": 1, "yes": 1, "y": 1, "1": 1, "false": 0, "f": 0, "no": 0, "n": 0, "0": 0}
)
MAX_INTEGER = 10**40
MAX_EXACT_FLOAT = 2**53
MIN_MAGNITUDE = 1e-200


class UnsupportedValue:
    """Something of no kind that we read."""


UNSUPPORTED = UnsupportedValue()
NOT_UNICODE = UnsupportedValue()
"""Text that is none: a unit's column may hold it, and it names no unit."""
NormalizedValue = bool | int | float | Decimal | date | str | UnsupportedValue | None


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """A raw value as it is stored, and how it was read."""

    value: Value
    status: Status


def parse_with_status(column: Column, raw: object) -> ParsedValue:
    """Parse a raw value; say whether it was missing, unreadable or moved to a bound."""
    value = normalize_raw_value(raw)
    name = get_value_name(value)
    if value is None or name in column.missing_values:
        return ParsedValue(column.missing, "missing")
    if column.is_numeric:
        return _round_to_grid(column, parse_double(value))
    if column.kind == "date":
        return _clip_days(column, parse_day_number(value))
    code = _find_code(column, name)
    return ParsedValue(column.missing, "unreadable") if code is None else ParsedValue(code, "read")


def parse_unit_name(raw: object) -> str | None:
    """Parse the name of a unit; None where there is none."""
    return get_value_name(normalize_raw_value(raw))


def derive_value(column: Column, key: Column, code: Value) -> ParsedValue:
    """A code of a public lookup, from the final code of its key column."""
    codes = None if column.derived is None else column.derived.codes
    derived_code = codes[code - key.lower] if codes is not None and isinstance(code, int) else None
    return ParsedValue(column.missing, "missing") if derived_code is None else ParsedValue(derived_code, "read")


def normalize_raw_value(raw: object) -> NormalizedValue:
    """A value as one of the few kinds. Its type alone is asked and built-in methods called, so that none can fail."""
    kind, pandas = type(raw), sys.modules.get("pandas")
    if raw is None or (pandas is not None and (raw is pandas.NaT or raw is pandas.NA)):
        return None
    if issubclass(kind, np.generic):
        return _normalize_numpy_value(raw)  # type: ignore[arg-type]
    if issubclass(kind, str):
        return _check_unicode(str.strip(raw, WHITESPACE)) or None  # type: ignore[arg-type]
    if issubclass(kind, bool):
        return bool(raw)
    if issubclass(kind, int):
        return int.__index__(raw)  # type: ignore[arg-type]
    if issubclass(kind, float):
        return None if math.isnan(number := float.__pos__(raw)) else number  # type: ignore[arg-type]
    if issubclass(kind, Decimal):
        return None if Decimal.is_nan(raw) else raw  # type: ignore[arg-type, return-value]
    if issubclass(kind, datetime):
        return _convert_to_utc_date(raw)  # type: ignore[arg-type]
    if issubclass(kind, date):
        return raw  # type: ignore[return-value]
    return str(raw) if kind is UUID else UNSUPPORTED


def _check_unicode(text: str) -> str | UnsupportedValue:
    try:
        text.encode()
    except UnicodeEncodeError:
        return NOT_UNICODE
    return text


def get_value_name(value: NormalizedValue) -> str | None:
    """The text that names a value, or none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    integer = _convert_to_integer(value)
    return None if integer is None or abs(integer) >= MAX_INTEGER else str(integer)


def parse_double(value: NormalizedValue) -> float | None:
    """The double nearest to a number, or none; infinite where it is beyond the doubles."""
    if isinstance(value, str):
        return float(value) if len(value) <= MAX_TEXT_LENGTH and re.fullmatch(NUMBER_PATTERN, value) else None
    if isinstance(value, int | float | Decimal):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return None


def parse_day_number(value: NormalizedValue) -> int | None:
    """The days from 1970-01-01 to a date, or none."""
    if isinstance(value, str):
        value = _parse_date_text(value)
    return (value - EPOCH).days if isinstance(value, date) else None


def compute_double_bounds(column: Column) -> tuple[float, float]:
    """The doubles nearest to the least and the greatest value of a number column."""
    numerator, denominator = column.step.numerator, column.step.denominator
    # Whole numbers divide to the nearest double.
    return column.lower * numerator / denominator, column.upper * numerator / denominator


def get_grid_factors(step: Fraction) -> tuple[float, float]:
    """Return the factor and the divisor that take a number to the grid of codes."""
    return float(step.denominator), float(step.numerator)


def _round_to_grid(column: Column, number: float | None) -> ParsedValue:
    if number is None:
        return ParsedValue(column.missing, "unreadable")
    lower_bound, upper_bound = compute_double_bounds(column)
    if number <= lower_bound:
        return ParsedValue(column.lower, "clipped" if number < lower_bound else "read")
    if number >= upper_bound:
        return ParsedValue(column.upper, "clipped" if number > upper_bound else "read")
    if abs(number) < MIN_MAGNITUDE:
        return ParsedValue(0, "read")
    multiplier, divisor = get_grid_factors(column.step)
    code = math.floor(number * multiplier / divisor + 0.5)
    return ParsedValue(min(max(code, column.lower), column.upper), "read")


def _clip_days(column: Column, days: int | None) -> ParsedValue:
    if days is None:
        return ParsedValue(column.missing, "unreadable")
    code = min(max(days, column.lower), column.upper)
    return ParsedValue(code, "read" if code == days else "clipped")


def _find_code(column: Column, name: str | None) -> Value:
    """The code of a truth or a category, or the text of a private key."""
    if name is None:
        return None
    if column.private_keys:
        return name[:MAX_KEY_LENGTH]
    if column.kind == "boolean":
        return BOOLEAN_TEXTS.get(name.lower())
    return column.categories.index(name) if name in column.categories else None


def _convert_to_integer(value: NormalizedValue) -> int | None:
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if abs(value) <= MAX_EXACT_FLOAT and value == int(value) else None
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < MAX_TEXT_LENGTH:
        return int(value) if value == value.to_integral_value() else None
    return None


def _parse_date_text(text: str) -> date | UnsupportedValue:
    day, suffix = text[:10], text[10:]
    if len(text) > MAX_TEXT_LENGTH or not re.fullmatch(DATE_PATTERN, day) or suffix[:1] not in {"", "T", " "}:
        return UNSUPPORTED
    try:
        return date.fromisoformat(day)
    except ValueError:
        return UNSUPPORTED


def _convert_to_utc_date(moment: datetime) -> NormalizedValue:
    """The date of a moment in UTC, or as written where it has no time zone; strange where UTC leaves the calendar."""
    if hasattr(type(moment), "to_datetime64"):  # pandas has moments beyond Python's
        return _normalize_numpy_value(moment.to_datetime64())  # type: ignore[attr-defined]
    try:
        offset = datetime.utcoffset(moment)
        naive_moment = datetime(moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)
        return (naive_moment - offset if offset else naive_moment).date()
    except (OverflowError, ValueError):
        return UNSUPPORTED


def _normalize_numpy_value(raw: np.generic) -> NormalizedValue:
    if isinstance(raw, np.datetime64):
        day = raw.astype("datetime64[D]").item()
        return day if day is None or isinstance(day, date) else UNSUPPORTED
    if isinstance(raw, np.floating):
        return normalize_raw_value(float(raw))
    if isinstance(raw, np.bool_ | np.integer | np.str_) and not isinstance(raw, np.timedelta64):
        return normalize_raw_value(raw.item())
    return UNSUPPORTED
