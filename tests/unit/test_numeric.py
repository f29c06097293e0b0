"""Exact numbers: read by their decimal text, and e^x and ln x bounded with certainty."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.numeric import (
    as_int,
    as_number_between,
    as_positive,
    as_rational,
    exp_above,
    exp_below,
    exp_bounds,
    floor_to_bits,
    format_exact,
    ln_above,
    ln_below,
    ln_bounds,
    parse_exact,
    parse_rational,
    read_clamped,
    read_clamped_binary,
)

st_fractions = st.fractions(min_value=-200, max_value=200, max_denominator=10**9)


def to_mpmath_exactly(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


@given(st_fractions, st.integers(1, 200))
def test_exponentials_are_bounded_from_both_sides(x: Fraction, bits: int) -> None:
    """Every rounding towards privacy rests on these two ends."""
    with mpmath.workdps(250):
        truth = mpmath.exp(to_mpmath_exactly(x)) * mpmath.mpf(2) ** bits
        low, high = exp_bounds(x, bits)
        assert low <= truth <= high


@given(st.fractions(min_value=-200, max_value=0, max_denominator=10**9))
def test_bounds_of_small_exponentials_are_tight(x: Fraction) -> None:
    """A coin asks for digits; loose bounds would make it ask for more and more."""
    low, high = exp_bounds(x, 64)
    assert high - low <= 2


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**6, max_denominator=10**6), st.integers(1, 200))
def test_logarithms_are_bounded_from_both_sides(x: Fraction, bits: int) -> None:
    """The conversion of zCDP rests on them."""
    with mpmath.workdps(250):
        truth = mpmath.log(to_mpmath_exactly(x)) * mpmath.mpf(2) ** bits
        low, high = ln_bounds(x, bits)
        assert low <= truth <= high
        assert high - low <= 2


@given(st.fractions(min_value=-30, max_value=30, max_denominator=1000))
def test_rounded_exponentials_are_the_nearest_on_their_side(x: Fraction) -> None:
    """2^-40 steps: the largest one below, the smallest one above."""
    with mpmath.workdps(80):
        truth = mpmath.exp(to_mpmath_exactly(x))
        low, high = exp_below(x), exp_above(x)
        assert to_mpmath_exactly(low) <= truth < to_mpmath_exactly(low) + mpmath.mpf(2) ** -40
        assert to_mpmath_exactly(high) - mpmath.mpf(2) ** -40 < truth <= to_mpmath_exactly(high)
        if x > 0:
            assert to_mpmath_exactly(ln_below(x)) <= mpmath.log(to_mpmath_exactly(x)) <= to_mpmath_exactly(ln_above(x))


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (Decimal("0E+999999999"), 0),
        (Decimal("1E-999999999"), 0),
        (Decimal("0.1"), Fraction(1, 10)),
        (0.1, Fraction(1, 10)),
        (True, 1),
        (math.inf, 10),
        (-(10**400), -10),
        (math.nan, None),
        (Decimal("sNaN"), None),
        ("1", None),
        ([1], None),
        (1j, None),
        (np.array([50]), None),
    ],
)
def test_any_object_is_read_as_a_number_or_none(value: object, number: object) -> None:
    """At once and without an error: secrets are read by this. What a sensitivity is stated of is read in binary."""
    low, high = Fraction(-10), Fraction(10)
    assert read_clamped(value, low, high) == number
    assert read_clamped_binary(value, low, high) == (
        Fraction(0.1) if isinstance(value, float) and value == 0.1 else number
    )


def test_a_number_far_below_zero_is_as_good_as_none() -> None:
    """e^-1000000 costs no time."""
    assert exp_bounds(Fraction(-(10**6)), 64) == (0, 1)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (0.1, Fraction(1, 10)),
        (3, Fraction(3)),
        (Decimal("1e-6"), Fraction(1, 10**6)),
        (Fraction(1, 3), Fraction(1, 3)),
        (np.float64(0.25), Fraction(1, 4)),
        (np.int64(7), Fraction(7)),
        (-0.0, Fraction(0)),
        (1e-320, Fraction(repr(1e-320))),
    ],
)
def test_numbers_are_read_by_their_decimal_text(number: object, value: Fraction) -> None:
    """Epsilon 0.1 is one tenth, not the nearest binary fraction to it."""
    assert as_rational(number) == value


@pytest.mark.parametrize(
    "number",
    [math.nan, math.inf, -math.inf, "1", None, True, [1], 10**301, Decimal("1e999999"), Decimal("1e-999999999"), 1j],
)
def test_what_is_not_a_finite_number_is_refused(number: object) -> None:
    """One sentence, whatever came."""
    with pytest.raises(InvalidInput):
        as_rational(number)


@pytest.mark.parametrize(
    ("text", "value"), [("0.1", Fraction(1, 10)), (" 1e-6 ", Fraction(1, 10**6)), ("1/3", Fraction(1, 3))]
)
def test_text_becomes_a_number(text: str, value: Fraction) -> None:
    assert parse_rational(text) == value


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e999999999", "1/0", "e5", "0x10", "1" * 1000, "one"])
def test_text_that_is_no_number_is_refused(text: str) -> None:
    """Also text that would fill the memory."""
    with pytest.raises(InvalidInput):
        parse_rational(text)


def test_ranges_are_checked() -> None:
    """The gate of every constructor."""
    for call in (
        lambda: as_positive(0, "x"),
        lambda: as_number_between(1, 0, 1, "x"),
        lambda: as_int(1.5, "x"),
        lambda: as_int(0, "x"),
    ):
        with pytest.raises(InvalidInput, match=r"^x must be"):
            call()
    assert floor_to_bits(Fraction(1, 3), 2) == Fraction(1, 4)
    assert [format_exact(Fraction(1, 10)), format_exact(Fraction(3)), format_exact(Fraction(10) ** 400)] == [
        "0.1",
        "3",
        "a very large number",
    ]
    with pytest.raises(InvalidInput, match="above 0"):
        ln_bounds(Fraction(0), 10)


@pytest.mark.parametrize("text", ["1e1000", "-1e-1000", "1/3e9", "nan", "inf", "1_0", " 1", "١", "", 1, 0.5, None])
def test_amounts_of_documents_have_no_large_exponent(text: object) -> None:
    with pytest.raises(ValueError, match="an amount is written"):
        parse_exact(text)


def test_amounts_of_documents_are_read_exactly() -> None:
    for value in (Fraction(0), Fraction(-7, 3), Fraction(1, 10**60), Fraction(10**60 + 1)):
        assert parse_exact(str(value)) == value
    assert [parse_exact(text) for text in ("0.25", "1e-9", "2.5E+3")] == [Fraction(1, 4), Fraction(1, 10**9), 2500]
