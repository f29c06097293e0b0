"""Exact numbers: what people type becomes a rational; e^x and ln x become rationals on the safe side.

Nothing here is a float inside. `exp_bounds` and `ln_bounds` are integer series with their remainders added,
so both ends are proven; every rounding towards privacy in discreet goes through them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable
from datetime import date, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TypeGuard

from discreet.errors import InvalidInput
from discreet.untrusted import copy_fraction, copy_int, copy_text, has_type

EPOCH = date(1970, 1, 1)
MAX_EXPONENT = 300
"""A number beyond 10^300 is a mistake, or an attack on our memory; so is text finer than 10^-400."""
MAX_NEGATIVE_EXPONENT = 400
MAX_NUMBER = 10**MAX_EXPONENT
AMOUNT_PATTERN = re.compile(r"-?[0-9]+(?:/[0-9]+|(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)")


def date_from_days(number: float) -> date:
    """Return the date that is so many days, rounded, after 1970-01-01."""
    return EPOCH + timedelta(days=round(number))


def parse_days(text: str, subject: str) -> int:
    """Parse a date such as 2024-02-29 to the days since 1970-01-01."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise InvalidInput(f"{subject} is a date such as 2024-02-29, got {text[:40]!r}")
    return (day - EPOCH).days


def as_rational(number: object, name: str = "the number") -> Fraction:
    """Read a number by its decimal text, so that 0.1 is 1/10; refuse what is not a finite number.

    The result is a new `Fraction` of two ints, whatever class the number is of.
    """
    if has_type(number, Fraction):
        value = copy_fraction(number)
    elif has_type(number, (float, Decimal)) or type(number).__name__.startswith("float"):
        value = _rational_from_decimal(number, name)
    elif hasattr(type(number), "__index__") and not isinstance(number, bool):
        value = Fraction(copy_int(number))
    else:
        raise InvalidInput(f"{name} must be a number, got {type(number).__name__}; write it without quotes, like 0.5")
    if abs(value.numerator) > MAX_NUMBER * value.denominator:
        raise InvalidInput(f"{name} must be a number of at most 10^{MAX_EXPONENT}")
    return value


def _rational_from_decimal(number: object, name: str) -> Fraction:
    is_decimal = has_type(number, Decimal)
    text = Decimal.__str__(number) if is_decimal else repr(float(number))  # type: ignore[arg-type]
    if not math.isfinite(float(text)):
        raise InvalidInput(f"{name} must be a finite number, got {text[:40]}")
    return parse_rational(text, name) if is_decimal else Fraction(text)


def read_clamped(value: object, low: Fraction, high: Fraction) -> Fraction | None:
    """Read a secret value as a number, clamped; None where it is not a number. It never raises, whatever comes.

    Truth values are 0 and 1; text is not a number here. What is beyond a bound is compared, not computed.
    """
    if isinstance(value, str | bytes) or not is_hashable(value):  # what has no hash is no single number
        return None
    try:
        if value >= high:  # type: ignore[operator]
            return high
        if value <= low:  # type: ignore[operator]
            return low
        return min(max(_rational_between_bounds(value), low), high)
    except (TypeError, ValueError, ArithmeticError):
        return None


def is_hashable(value: object) -> TypeGuard[Hashable]:
    """Whether a value has a hash; it never raises."""
    try:
        hash(value)
    except (TypeError, ValueError, ArithmeticError):
        return False
    return True


def read_clamped_binary(value: object, low: Fraction, high: Fraction) -> Fraction | None:
    """Read a secret value that a sensitivity is stated of: a float is exactly its binary number, not its decimal text.

    Read by their text, two floats that differ by one step could come to differ by two.
    """
    if isinstance(value, float) or type(value).__name__.startswith(("float", "longdouble")):
        number = float(value)  # type: ignore[arg-type]
        return min(max(Fraction(number), low), high) if math.isfinite(number) else read_clamped(number, low, high)
    return read_clamped(value, low, high)


def _rational_between_bounds(value: object) -> Fraction:
    """A number between readable bounds; a decimal in full unless it is too small to be told from 0."""
    if isinstance(value, Decimal):
        return Fraction(value) if value and value.adjusted() > -MAX_NEGATIVE_EXPONENT else Fraction(0)
    is_boolean = isinstance(value, bool) or type(value).__name__ in {"bool", "bool_"}
    return as_rational(int(value) if is_boolean else value)  # type: ignore[call-overload]


def parse_rational(text: str, name: str = "the number") -> Fraction:
    """Read a number from text, such as '0.1', '1e-6' or '1/3'."""
    stripped_text = copy_text(text, name).strip()
    mantissa, _, exponent = stripped_text.lower().partition("e")
    try:
        fits = len(stripped_text) <= MAX_NEGATIVE_EXPONENT and abs(int(exponent or 0)) <= MAX_NEGATIVE_EXPONENT
        value = Fraction(stripped_text) if fits and mantissa else None
    except (ValueError, ZeroDivisionError):
        value = None
    if value is None or abs(value) > MAX_NUMBER:
        raise InvalidInput(f"{name} must be a plain number such as 0.5, 3 or 1e-6, got {stripped_text[:40]!r}")
    return value


def parse_exact(text: object) -> Fraction:
    """Read an exact amount of a document of ours, which may come from anyone: no exponent in it is a large one.

    Raises:
        ValueError: It is no such text.
    """
    if not has_type(text, str) or AMOUNT_PATTERN.fullmatch(text) is None:
        raise ValueError("an amount is written such as 1/3 or 0.5")
    return Fraction(text)


def parse_fraction(text: object) -> Fraction | None:
    """Read an exact amount as `parse_exact` does; None where there is none."""
    return None if text is None else parse_exact(text)


def as_plain_number(value: Fraction | None) -> int | Decimal | float | None:
    """Return a rational as an int, as a decimal where it has an end, else as the nearest float."""
    if value is None:
        return None
    if value.denominator == 1:
        return int(value)
    remainder = value.denominator
    for prime in (2, 5):
        while remainder % prime == 0:
            remainder //= prime
    with localcontext(prec=value.denominator.bit_length() + value.numerator.bit_length() + 1):
        return Decimal(value.numerator) / value.denominator if remainder == 1 else float(value)


def as_positive(number: object, name: str) -> Fraction:
    """Read a rational above 0."""
    value = as_rational(number, name)
    if value <= 0:
        raise InvalidInput(f"{name} must be above 0, got {format_exact(value)}")
    return value


def as_number_between(number: object, low: int, high: int, name: str) -> Fraction:
    """Read a rational strictly between two whole numbers."""
    value = as_rational(number, name)
    if not low < value < high:
        raise InvalidInput(f"{name} must be between {low} and {high}, both excluded, got {format_exact(value)}")
    return value


def as_int(number: object, name: str, minimum: int = 1) -> int:
    """Read a whole number of at least `minimum`."""
    value = as_rational(number, name)
    if value.denominator != 1 or value < minimum:
        raise InvalidInput(f"{name} must be a whole number of at least {minimum}, got {format_exact(value)}")
    return int(value)


def format_exact(value: Fraction) -> str:
    """Format a rational as people write it: 0.1 rather than 1/10 where the decimal is short."""
    if value.denominator == 1 and abs(value) < 10**12:
        return str(value.numerator)
    return f"{float(value):.12g}" if abs(value) < 10**300 else "a very large number"


def floor_to_bits(value: Fraction, bits: int) -> Fraction:
    """The greatest multiple of 2^-bits that is at most `value`."""
    return Fraction(math.floor(value * 2**bits), 2**bits)


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers (low, high) with low <= 2^bits e^x <= high, and high - low a few units for x <= 0.

    e^x = (e^(x/2^s))^(2^s) with x/2^s in [0, 1/2]: Taylor, every step floored below and ceiled above,
    the remainder after the last term less than twice the next one; then s squarings. x < 0 by reciprocal.
    """
    if not x:
        return 1 << bits, 1 << bits
    if x < -(bits + 8):
        return 0, 1
    if x < 0:
        low, high = exp_bounds(-x, bits + 8)
        scaled_one = 1 << (2 * bits + 8)
        return scaled_one // high, -(-scaled_one // low)
    squarings = max(0, (2 * x.numerator // x.denominator).bit_length())
    guard = bits + 2 * squarings + 16
    scaled = (x.numerator << guard) // (x.denominator << squarings)
    low, high = _sum_taylor(scaled, guard), _sum_taylor(scaled + 1, guard) + 4 * _count_taylor_terms(guard)
    for _ in range(squarings):
        low, high = (low * low) >> guard, -((-high * high) >> guard)
    shift = guard - bits
    return low >> shift, -((-high) >> shift)


def _count_taylor_terms(guard: int) -> int:
    """Enough terms that the next one, at most 2^-i/i!, is below 2^-guard."""
    return guard // 2 + 2


def _sum_taylor(scaled: int, guard: int) -> int:
    """2^guard e^(scaled / 2^guard) from below: every term floored, each less than 4 too small."""
    total = term = 1 << guard
    for index in range(1, _count_taylor_terms(guard)):
        term = (term * scaled // index) >> guard
        if not term:
            break
        total += term
    return total


@lru_cache(maxsize=4096)
def exp_below(x: Fraction, bits: int = 40) -> Fraction:
    """The greatest multiple of 2^-bits certified to be at most e^x."""
    return _refine_bounds(lambda b: exp_bounds(x, b), bits, upper=False)


@lru_cache(maxsize=4096)
def exp_above(x: Fraction, bits: int = 40) -> Fraction:
    """The least multiple of 2^-bits certified to be at least e^x."""
    return _refine_bounds(lambda b: exp_bounds(x, b), bits, upper=True)


def ln_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers (low, high) with low <= 2^bits ln x <= high: ln x = 2 artanh((x-1)/(x+1)) + k ln 2."""
    if x <= 0:
        raise InvalidInput(f"the logarithm is of numbers above 0, got {format_exact(x)}")
    k = x.numerator.bit_length() - x.denominator.bit_length()
    mantissa = x / Fraction(2) ** k
    guard = bits + 16 + abs(k).bit_length()
    low, high = _bound_artanh_twice((mantissa - 1) / (mantissa + 1), guard)
    if k:
        two_low, two_high = _bound_artanh_twice(Fraction(1, 3), guard)
        low, high = low + k * (two_low if k > 0 else two_high), high + k * (two_high if k > 0 else two_low)
    shift = guard - bits
    return low >> shift, -((-high) >> shift)


def _bound_artanh_twice(y: Fraction, guard: int) -> tuple[int, int]:
    """2^guard * 2 artanh(y) for |y| <= 1/3: terms y^(2i+1)/(2i+1), each off by less than 1, tail below the last."""
    terms = guard // 3 + 3
    total, power = 0, (y.numerator << guard) // y.denominator
    square = (y * y).numerator, (y * y).denominator
    for index in range(terms):
        total += power // (2 * index + 1)
        power = power * square[0] // square[1]
    return 2 * (total - 3 * terms), 2 * (total + 3 * terms)


def ln_above(x: Fraction, bits: int = 40) -> Fraction:
    """A multiple of 2^-bits certified to be at least ln x."""
    return Fraction(ln_bounds(x, bits)[1], 2**bits)


def ln_below(x: Fraction, bits: int = 40) -> Fraction:
    """A multiple of 2^-bits certified to be at most ln x."""
    return Fraction(ln_bounds(x, bits)[0], 2**bits)


def _refine_bounds(bounds: Callable[[int], tuple[int, int]], bits: int, *, upper: bool) -> Fraction:
    """Refine until both ends fall into one cell of 2^-bits, or take the safe end after 512 further bits."""
    extra = 16
    while True:
        low, high = bounds(bits + extra)
        down = (low >> extra, high >> extra)
        up = (-((-low) >> extra), -((-high) >> extra))
        cell = up if upper else down
        if cell[0] == cell[1] or extra > 512:
            return Fraction(cell[1] if upper else cell[0], 2**bits)
        extra *= 2


def approximate_root(square: Fraction) -> Fraction:
    """Approximate the root, above 0: it only says which of two answers is the more accurate."""
    return Fraction(max(1, math.isqrt(int(square * 10**24))), 10**12)
