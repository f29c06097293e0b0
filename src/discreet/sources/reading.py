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

from discreet.schema.column import EPOCH, Column

Value = int | str | None
Status = Literal["read", "missing", "unreadable", "clipped"]

SPACE = " \t\r\n"
LONGEST = 40
"""The most characters of a number, a date or a truth."""
LONGEST_KEY = 200
"""The characters kept of a private key."""
NUMBER = r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,2})?"
"""Of 40 such characters none overflows a double, and none but 0 underflows."""
DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
TRUTHS: Mapping[str, int] = MappingProxyType(
    {"true": 1, "t": 1, "yes": 1, "y": 1, "1": 1, "false": 0, "f": 0, "no": 0, "n": 0, "0": 0}
)
LARGEST_WHOLE = 10**40
LARGEST_FLOAT = 2**53
NEGLIGIBLE = 1e-200


class Strange:
    """Something of no kind that we read."""


STRANGE = Strange()
NOT_UNICODE = Strange()
"""Text that is none: a unit's column may hold it, and it names no unit."""
Plain = bool | int | float | Decimal | date | str | Strange | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a raw value became, and how."""

    value: Value
    status: Status


def read(column: Column, raw: object) -> Value:
    """The code or the private key of a raw value, or none; whatever comes, never an error."""
    return examine(column, raw).value


def examine(column: Column, raw: object) -> Reading:
    """The same, and whether it was missing, unreadable or moved to a bound."""
    value = plain(raw)
    name = name_of(value)
    if value is None or name in column.missing_values:
        return Reading(column.missing, "missing")
    if column.numeric:
        return _on_grid(column, number_of(value))
    if column.kind == "date":
        return _within(column, days_of(value))
    place = _place(column, name)
    return Reading(column.missing, "unreadable") if place is None else Reading(place, "read")


def unit_of(raw: object) -> str | None:
    """The name of a unit; None where there is none."""
    return name_of(plain(raw))


def derive(column: Column, key: Column, code: Value) -> Reading:
    """A code of a public lookup, from the final code of its key column."""
    found = None if column.derived is None or not isinstance(code, int) else column.derived.codes[code - key.lower]
    return Reading(column.missing, "missing") if found is None else Reading(found, "read")


def plain(raw: object) -> Plain:
    """A value as one of the few kinds. Its type alone is asked and built-in methods called, so that none can fail."""
    kind = type(raw)
    if raw is None or _is_nothing_of_pandas(raw):
        return None
    if issubclass(kind, np.generic):
        return _from_numpy(raw)  # type: ignore[arg-type]
    if issubclass(kind, str):
        return _unicode(str.strip(raw, SPACE)) or None  # type: ignore[arg-type]
    if issubclass(kind, bool):
        return bool(raw)
    if issubclass(kind, int):
        return int.__index__(raw)  # type: ignore[arg-type]
    if issubclass(kind, float):
        return None if math.isnan(number := float.__pos__(raw)) else number  # type: ignore[arg-type]
    if issubclass(kind, Decimal):
        return None if Decimal.is_nan(raw) else raw  # type: ignore[arg-type, return-value]
    if issubclass(kind, datetime):
        return _utc_date(raw)  # type: ignore[arg-type]
    if issubclass(kind, date):
        return raw  # type: ignore[return-value]
    return str(raw) if kind is UUID else STRANGE


def _unicode(text: str) -> str | Strange:
    try:
        text.encode()
    except UnicodeEncodeError:
        return NOT_UNICODE
    return text


def name_of(value: Plain) -> str | None:
    """The text that names a value, or none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    whole = _whole(value)
    return None if whole is None or abs(whole) >= LARGEST_WHOLE else str(whole)


def number_of(value: Plain) -> float | None:
    """The double nearest to a number, or none; infinite where it is beyond the doubles."""
    if isinstance(value, str):
        return float(value) if len(value) <= LONGEST and re.fullmatch(NUMBER, value) else None
    if isinstance(value, int | float | Decimal):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return None


def days_of(value: Plain) -> int | None:
    """The days from 1970-01-01 to a date, or none."""
    if isinstance(value, str):
        value = _date_text(value)
    return (value - EPOCH).days if isinstance(value, date) else None


def bounds_of(column: Column) -> tuple[float, float]:
    """The doubles nearest to the least and the greatest value of a number column."""
    above, below = column.step.numerator, column.step.denominator
    return column.lower * above / below, column.upper * above / below  # whole numbers divide to the nearest double


def grid_of(step: Fraction) -> tuple[float, float]:
    """What a number is multiplied with, and then divided by."""
    return float(step.denominator), float(step.numerator)


def _on_grid(column: Column, number: float | None) -> Reading:
    if number is None:
        return Reading(column.missing, "unreadable")
    least, greatest = bounds_of(column)
    if number <= least:
        return Reading(column.lower, "clipped" if number < least else "read")
    if number >= greatest:
        return Reading(column.upper, "clipped" if number > greatest else "read")
    if abs(number) < NEGLIGIBLE:
        return Reading(0, "read")
    times, over = grid_of(column.step)
    code = math.floor(number * times / over + 0.5)
    return Reading(min(max(code, column.lower), column.upper), "read")


def _within(column: Column, days: int | None) -> Reading:
    if days is None:
        return Reading(column.missing, "unreadable")
    code = min(max(days, column.lower), column.upper)
    return Reading(code, "read" if code == days else "clipped")


def _place(column: Column, name: str | None) -> Value:
    """The code of a truth or a category, or the text of a private key."""
    if name is None:
        return None
    if column.private_keys:
        return name[:LONGEST_KEY]
    if column.kind == "boolean":
        return TRUTHS.get(name.lower())
    return column.categories.index(name) if name in column.categories else None


def _whole(value: Plain) -> int | None:
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if abs(value) <= LARGEST_FLOAT and value == int(value) else None
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < LONGEST:
        return int(value) if value == value.to_integral_value() else None
    return None


def _date_text(text: str) -> date | Strange:
    day, rest = text[:10], text[10:]
    if len(text) > LONGEST or not re.fullmatch(DATE, day) or rest[:1] not in {"", "T", " "}:
        return STRANGE
    try:
        return date.fromisoformat(day)
    except ValueError:
        return STRANGE


def _utc_date(moment: datetime) -> Plain:
    """The date of a moment in UTC, or as written where it has no time zone; strange where UTC leaves the calendar."""
    if hasattr(type(moment), "to_datetime64"):  # pandas has moments beyond Python's
        return _from_numpy(moment.to_datetime64())  # type: ignore[attr-defined]
    try:
        shift = datetime.utcoffset(moment)
        written = datetime(moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)
        return (written - shift if shift else written).date()
    except (OverflowError, ValueError):
        return STRANGE


def _is_nothing_of_pandas(raw: object) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and (raw is pandas.NaT or raw is pandas.NA)


def _from_numpy(raw: np.generic) -> Plain:
    if isinstance(raw, np.datetime64):
        day = raw.astype("datetime64[D]").item()
        return day if day is None or isinstance(day, date) else STRANGE
    if isinstance(raw, np.floating):
        return plain(float(raw))
    if isinstance(raw, np.bool_ | np.integer | np.str_) and not isinstance(raw, np.timedelta64):
        return plain(raw.item())
    return STRANGE
