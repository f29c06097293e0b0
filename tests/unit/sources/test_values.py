"""How raw values become codes."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.numeric import EPOCH
from discreet.schema.schema import Column, DerivedCodes
from discreet.sources.ingest.values import derive_value, parse_unit_name, parse_with_status

AGE = Column("age", "integer", 0, 120, missing_values=("-1", "?"))
PRICE = Column("price", "number", -500, 10_000, Fraction(1, 100))
THIRDS = Column("thirds", "number", -9, 9, Fraction(1, 3))
TENS = Column("tens", "integer", -20, 20, Fraction(10))
DAY = Column("day", "date", -3000, 20_000)
EVER = Column("ever", "date", -719_162, 2_932_896)
TRUTH = Column("truth", "boolean", 0, 1, categories=("false", "true"))
LEVEL = Column("level", "ordinal", 0, 3, categories=("1", "low", "höch", "true"), missing_values=("n/a",))
CITY = Column("city", "nominal", private_keys=True, missing_values=("none",))
FILLED = Column("filled", "integer", 0, 9, missing=7)
COLUMNS = (AGE, PRICE, THIRDS, TENS, DAY, EVER, TRUTH, LEVEL, CITY, FILLED)
ONE_DAY_OFF = timezone(timedelta(hours=-5))


@pytest.mark.parametrize(
    ("column", "raw", "value"),
    [
        (AGE, "42", 42),
        (AGE, " \t42\r\n", 42),
        (AGE, "\u00a042", None),
        (AGE, "+4.2e1", 42),
        (AGE, "42.", 42),
        (AGE, ".5", 1),
        (AGE, "41.5", 42),
        (AGE, "4e400", None),
        (AGE, "4e99", 120),
        (AGE, "1" * 40, 120),
        (AGE, "1" * 41, None),
        (AGE, "0x1A", None),
        (AGE, "1_0", None),
        (AGE, "inf", None),
        (AGE, "١٢", None),
        (AGE, "12\u2028", None),
        (AGE, "4 2", None),
        (AGE, "", None),
        (AGE, " ", None),
        (AGE, "?", None),
        (AGE, -1, None),
        (AGE, -1.0, None),
        (AGE, -1.5, 0),
        (AGE, True, 1),
        (AGE, np.True_, 1),
        (AGE, np.int8(7), 7),
        (AGE, np.float32(7.25), 7),
        (AGE, 10**400, 120),
        (AGE, -(10**400), 0),
        (AGE, math.inf, 120),
        (AGE, -math.inf, 0),
        (AGE, math.nan, None),
        (AGE, 5e-324, 0),
        (AGE, Decimal("41.5"), 42),
        (AGE, Decimal("1e999999"), 120),
        (AGE, Decimal("1e-999999"), 0),
        (AGE, Decimal("sNaN"), None),
        (AGE, Decimal("-Infinity"), 0),
        (AGE, date(2020, 1, 1), None),
        (AGE, b"42", None),
        (AGE, np.timedelta64(3, "s"), None),
        (PRICE, "12.345", 1235),
        (PRICE, "-7", -500),
        (PRICE, 0.285, 28),  # in doubles 0.285 * 100 is below 28.5
        (THIRDS, 1, 3),
        (THIRDS, Decimal(1) / 3, 1),
        (TENS, 15, 2),
        (TENS, -15, -1),
        (TENS, -16, -2),
        (DAY, "1970-01-02", 1),
        (DAY, "1970-01-02T23:59:59+14:00", 1),
        (DAY, "1970-01-02 anything", 1),
        (DAY, "1970-01-02x", None),
        (DAY, "1970-1-2", None),
        (DAY, "19700102", None),
        (DAY, "2023-02-29", None),
        (DAY, "1970-01-02 " + "x" * 29, 1),
        (DAY, "1970-01-02 " + "x" * 30, None),
        (DAY, "9999-12-31", 20_000),
        (DAY, "0000-01-01", None),
        (DAY, date(1900, 1, 1), -3000),
        (DAY, datetime(1970, 1, 1, 23), 0),
        (DAY, datetime(1970, 1, 1, 23, tzinfo=ONE_DAY_OFF), 1),
        (DAY, datetime(9999, 12, 31, 23, tzinfo=ONE_DAY_OFF), None),
        (DAY, np.datetime64("1970-01-03T05:00:00"), 2),
        (DAY, np.datetime64("NaT"), None),
        (DAY, np.datetime64(10**9, "Y"), None),
        (DAY, pd.Timestamp("1970-01-03", tz="UTC"), 2),
        (DAY, 3, None),
        (EVER, "0001-01-01", -719_162),
        (EVER, "9999-12-31", 2_932_896),
        (TRUTH, " YES ", 1),
        (TRUTH, "f", 0),
        (TRUTH, 1.0, 1),
        (TRUTH, Decimal("0.0"), 0),
        (TRUTH, False, 0),
        (TRUTH, "2", None),
        (TRUTH, 0.5, None),
        (LEVEL, "low", 1),
        (LEVEL, "Low", None),
        (LEVEL, "höch", 2),
        (LEVEL, "ho\u0308ch", None),
        (LEVEL, 1, 0),
        (LEVEL, 1.0, 0),
        (LEVEL, Decimal("1.00"), 0),
        (LEVEL, "1.0", None),
        (LEVEL, 1.5, None),
        (LEVEL, True, 3),
        (LEVEL, "n/a", None),
        (CITY, " Ulm ", "Ulm"),
        (CITY, "none", None),
        (CITY, "x" * 300, "x" * 200),
        (CITY, 89073, "89073"),
        (CITY, 2.0**53, "9007199254740992"),
        (CITY, 2.0**54, None),
        (CITY, 10**40 - 1, "9" * 40),
        (CITY, 10**40, None),
        (CITY, Decimal("1e39"), "1" + "0" * 39),
        (CITY, Decimal("1e40"), None),
        (CITY, UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (CITY, -0.0, "0"),
        (CITY, "a\0b", "a\0b"),
        (CITY, date(2020, 1, 1), None),
        (FILLED, None, 7),
        (FILLED, "x", 7),
        (FILLED, 3, 3),
    ],
)
def test_a_value_has_one_meaning(column: Column, raw: object, value: object) -> None:
    parsed_value = parse_with_status(column, raw).value
    assert (type(parsed_value), parsed_value) == (type(value), value)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (None, "missing"),
        (pd.NaT, "missing"),
        (pd.NA, "missing"),
        ("?", "missing"),
        (" ", "missing"),
        ("x", "unreadable"),
        (object(), "unreadable"),
        ([], "unreadable"),
        (Fraction(1, 2), "unreadable"),
        (120, "read"),
        (120.4, "clipped"),
        (-1e300, "clipped"),
        (5, "read"),
    ],
)
def test_how_a_value_was_read_is_told(raw: object, status: str) -> None:
    """120.4 would have rounded to 120, but it is beyond the bound."""
    assert parse_with_status(AGE, raw).status == status


class HostileText(str):
    """A text that fails whenever its own methods are asked."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError

    def strip(self, *_: object) -> str:
        raise RuntimeError

    def lower(self) -> str:
        raise RuntimeError


class FailingObject:
    """An object that fails whatever is asked of it."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError

    def __index__(self) -> int:
        raise RuntimeError


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**60), 10**60),
    st.floats(),
    st.floats(width=32).map(np.float32),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.text(),
    st.text("0123456789+-.eE"),
    st.from_regex(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}.*\Z"),
    st.characters(codec=None).map(lambda letter: letter * 50),
    st.text().map(HostileText),
    st.binary(),
    st.dates(),
    st.times(),
    st.datetimes(timezones=st.none() | st.timezones()),
    st.timedeltas(),
    st.uuids(),
    st.lists(st.integers()),
    st.builds(FailingObject),
    st.builds(np.datetime64, st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from(["ns", "s", "D", "Y"])),
    st.builds(np.longdouble, st.floats()),
    st.sampled_from([pd.NaT, pd.NA, ..., object, np.void(b"x"), np.array([1, 2]), np.bytes_(b"1"), 10**4000]),
)


@given(ANYTHING)
def test_nothing_fails_and_every_code_is_in_the_domain(raw: object) -> None:
    """A row can hold anything; it can neither raise nor leave the public domain."""
    parse_unit_name(raw)
    for column in COLUMNS:
        value = parse_with_status(column, raw).value
        if column.private_keys:
            assert value is None or (isinstance(value, str) and 0 < len(value) <= 200)
        else:
            assert value is None or (type(value) is int and column.lower <= value <= column.upper)
        assert value is not None or column.missing is None


@given(st.floats(), st.floats(), st.sampled_from([AGE, PRICE, THIRDS, TENS]))
def test_larger_numbers_have_no_smaller_codes(one: float, other: float, column: Column) -> None:
    small, large = sorted([one, other])
    codes = parse_with_status(column, small).value, parse_with_status(column, large).value
    assert None in codes or codes[0] <= codes[1]  # type: ignore[operator]


@given(st.floats(-1e6, 1e6), st.sampled_from([PRICE, THIRDS, TENS]))
def test_a_code_is_the_nearest_step(number: float, column: Column) -> None:
    """To half a step, and a rounding error of doubles."""
    code = parse_with_status(column, number).value
    inside = min(max(Fraction(number) / column.step, column.lower), column.upper)
    assert isinstance(code, int)
    assert abs(code - inside) <= Fraction(1, 2) + Fraction(1, 2**30)


@given(st.data())
def test_what_a_code_stands_for_reads_back(data: st.DataObject) -> None:
    """As the value itself and as the text people write for it; so a published value and a row mean the same."""
    column = data.draw(st.sampled_from([PRICE, TENS, EVER, TRUTH, LEVEL]))
    code = data.draw(st.integers(column.lower, column.upper))
    value = column.decode(code)
    text = str(float(value)) if isinstance(value, Fraction) else str(value)
    assert parse_with_status(column, text).value == code
    assert parse_with_status(column, Decimal(text) if isinstance(value, Fraction) else value).value == code


@given(st.dates(), st.times())
def test_a_date_is_its_days_however_it_is_kept(day: date, time: object) -> None:
    days = (day - EPOCH).days
    assert (
        parse_with_status(EVER, day).value
        == parse_with_status(EVER, day.isoformat()).value
        == parse_with_status(EVER, f"{day}T{time}").value
        == days
    )
    assert parse_with_status(EVER, np.datetime64(day)).value == days


def test_a_unit_is_its_name() -> None:
    assert [parse_unit_name(raw) for raw in (" p1 ", 17, "", None, Decimal("17.0"))] == ["p1", "17", None, None, "17"]


def test_a_derived_code_follows_its_key() -> None:
    """None where the key is missing or the public table has nothing for it, then what stands for it."""
    key = Column("key", "integer", 5, 7)
    chapter = Column("icd.chapter", "nominal", 0, 1, categories=("a", "b"), derived=DerivedCodes("key", (1, None, 0)))
    filled = Column("icd.filled", "integer", 0, 9, missing=9, derived=DerivedCodes("key", (1, None, 0)))
    assert [derive_value(chapter, key, code).value for code in (5, 6, 7, None)] == [1, None, 0, None]
    assert [derive_value(filled, key, code).value for code in (5, 6, 7, None)] == [1, 9, 0, 9]
    assert derive_value(filled, key, None).status == "missing"
