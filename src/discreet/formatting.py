"""Numbers, percentages, dates and intervals as people read them.

A printed number is a claim, so it is rounded to the side on which the claim still holds:

- `format_upper` rounds up: bounds, costs, half-widths, "at most".
- `format_lower` rounds down: what is left of a budget, "at least", lower bounds.
- `format_interval` rounds outwards, with as many digits as the width of the interval needs.
- `format_number`, `format_value` and `format_percent` round to the nearest digit, and are for numbers that promise
  nothing: estimates, expected errors, the noisy values themselves.

All arithmetic is exact. A float stands for its shortest decimal text, as in `as_rational` and in JSON: 0.1 is 1/10.
Whatever is printed reads back as a number on the right side of the one that was handed in.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import date, timedelta
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction

from discreet.numeric import EPOCH, exp_above

Number = int | float | Fraction | Decimal
Rounding = Callable[[Fraction], int]
IntervalEnd = Number | date | str

VALUE_DIGITS = 6
"""Significant digits of a value in a reply."""
BOUND_DIGITS = 4
"""Significant digits of bounds, errors and percentages."""
AMOUNT_DIGITS = 12
"""Significant digits of an epsilon, delta or rho; an amount of no more digits is printed exactly."""
EXACT_DIGITS = 15
"""An interval of one point is printed exactly where the point has no more significant digits."""
MAX_WIDENING = Fraction(11, 10)
"""A printed interval is at most this many times as wide as the computed one."""
MIN_PLAIN_NUMBER, MAX_PLAIN_NUMBER = Fraction(1, 10_000), Fraction(10**15)
"""Numbers below the one and from the other on are printed with an exponent, like 1.5e-7."""
MAX_FACTOR_EPSILON = 20
"""The largest epsilon whose factor e^epsilon is printed as a number."""
MAGNITUDE_CONTEXT = Context(prec=3, rounding=ROUND_DOWN)
INFINITY = "infinity"
UNKNOWN = "unknown"


def format_number(value: Number, digits: int = BOUND_DIGITS) -> str:
    """Format a number that promises nothing, rounded to the nearest: at least its whole part, and so many digits."""
    return _format_significant(value, digits, _round_nearest)


def format_upper(value: Number, digits: int = BOUND_DIGITS) -> str:
    """Format an upper bound: never below the value."""
    return _format_significant(value, digits, math.ceil)


def format_lower(value: Number, digits: int = BOUND_DIGITS) -> str:
    """Format a lower bound: never above the value."""
    return _format_significant(value, digits, math.floor)


def format_whole_upper(value: Number) -> str:
    """Format an upper bound of a number of rows: rounded up to a whole number."""
    exact = _to_fraction(value)
    return _format_nonfinite(value) if exact is None else _format_decimal(Fraction(math.ceil(exact)), 0, math.ceil)


def format_exact_amount(value: Fraction) -> str:
    """Format an amount for programs: a decimal of at most 12 digits where that is exact, else the fraction."""
    short = _round_to_digits(value, AMOUNT_DIGITS, _round_nearest)
    return str(value) if short != value else f"{Decimal(short.numerator) / Decimal(short.denominator):f}"


def format_cost(amount: Number) -> str:
    """Format an epsilon, delta or rho that is promised, charged or spent: exactly, or rounded up in the 12th digit."""
    return format_upper(amount, AMOUNT_DIGITS)


def format_budget_left(amount: Number) -> str:
    """Format what is left of a budget, or may still be asked for: exactly, or rounded down in the 12th digit."""
    return format_lower(amount, AMOUNT_DIGITS)


def format_factor(epsilon: Fraction) -> str:
    """Format e^epsilon, the factor of "at most so many times as likely", never below it."""
    if epsilon > MAX_FACTOR_EPSILON:
        return f"e^{format_upper(epsilon)}"
    factor = exp_above(epsilon)
    # Three digits of what is above 1: near 1 the rest of the number says nothing.
    return _format_decimal(factor, max(0, 2 - _compute_magnitude(factor - 1)), math.ceil) if factor > 1 else "1"


def format_decimals(value: Number, places: int) -> str:
    """Format a number that promises nothing, rounded to the nearest of so many decimals."""
    exact = _to_fraction(value)
    return _format_nonfinite(value) if exact is None else _format_decimal(exact, places, _round_nearest)


def format_value(value: object, interval: tuple[IntervalEnd, IntervalEnd] | None = None) -> str:
    """Format a value of a reply; beside an interval, with at least as many decimals as the interval is printed with."""
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, float | Fraction | Decimal):
        return f"{value:,}" if isinstance(value, int) else str(value)
    exact, places = _to_fraction(value), _count_interval_places(interval)
    if exact is None or places is None:
        return format_number(value, VALUE_DIGITS)
    value_places = max(0, VALUE_DIGITS - 1 - _compute_magnitude(exact)) if exact else 0
    return _format_decimal(exact, max(places, value_places), _round_nearest)


def format_interval(low: IntervalEnd, high: IntervalEnd) -> str:
    """Format an interval as "2.1 to 2.7", rounded outwards."""
    return " to ".join(format_ends(low, high))


def format_ends(low: IntervalEnd, high: IntervalEnd) -> tuple[str, str]:
    """Format the two ends of an interval, rounded outwards by at most a tenth of its width together.

    Dates and texts are printed as they are.
    """
    if isinstance(low, date | str) or isinstance(high, date | str):
        return str(low), str(high)
    exact_low, exact_high, places = _to_fraction(low), _to_fraction(high), _count_places(low, high)
    return (
        _format_nonfinite(low) if exact_low is None else _format_decimal(exact_low, places, math.floor),
        _format_nonfinite(high) if exact_high is None else _format_decimal(exact_high, places, math.ceil),
    )


def format_estimate(value: Number, low: Number, high: Number) -> tuple[str, str, str]:
    """Format an estimate and the two ends of its interval, all three with the same number of decimals."""
    return format_decimals(value, _count_places(low, high)), *format_ends(low, high)


def format_day(days: Number) -> str:
    """Format the date that is nearest to so many days after 1970-01-01."""
    return _format_rounded_day(days, _round_nearest)


def format_day_ends(low: Number, high: Number) -> tuple[str, str]:
    """Format an interval of days after 1970-01-01 as two dates: the day of its low end, and the day that ends it."""
    return _format_rounded_day(low, math.floor), _format_rounded_day(high, math.ceil)


def format_percent(share: Number, digits: int = BOUND_DIGITS) -> str:
    """Format a share of 1 that promises nothing; only none is 0 %, and only all is 100 %."""
    exact = _to_fraction(share)
    if exact is None:
        return f"{_format_nonfinite(share)} %"
    hundredth = Fraction(1, 10_000)
    if 0 < exact < hundredth:
        return "< 0.01 %"
    if 1 - hundredth < exact < 1:
        return "> 99.99 %"
    return f"{format_number(100 * exact, max(digits, 4) if 1 - exact < Fraction(1, 100) else digits)} %"


def format_percent_at_least(share: Number, digits: int = VALUE_DIGITS) -> str:
    """Format a probability or share that is promised, never above it."""
    return _format_rounded_percent(share, digits, math.floor)


def format_confidence(confidence: Number) -> str:
    """Format the probability of a statement, to follow it."""
    return f"with a probability of at least {format_percent_at_least(confidence)}"


def format_percent_at_most(share: Number, digits: int = BOUND_DIGITS) -> str:
    """Format a risk or share that is bounded, never below it."""
    return _format_rounded_percent(share, digits, math.ceil)


def round_up(value: Number, digits: int) -> Fraction:
    """Round a finite number up to so many significant digits."""
    return _round_to_digits(_require_finite(value), digits, math.ceil)


def round_down(value: Number, digits: int) -> Fraction:
    """Round a finite number down to so many significant digits."""
    return _round_to_digits(_require_finite(value), digits, math.floor)


def widen_interval(low: float, high: float, places: int) -> tuple[float, float]:
    """Round the two ends of an interval outwards to so many decimals."""
    scale = 10**places
    first, last = math.floor(_require_finite(low) * scale), math.ceil(_require_finite(high) * scale)
    return float(Fraction(first, scale)), float(Fraction(last, scale))


def _format_rounded_percent(share: Number, digits: int, rounding: Rounding) -> str:
    exact = _to_fraction(share)
    return f"{_format_nonfinite(share) if exact is None else _format_significant(100 * exact, digits, rounding)} %"


def _to_fraction(value: Number) -> Fraction | None:
    """The number itself; None where it is not finite."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float):
        return Fraction(repr(float(value))) if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return Fraction(value) if value.is_finite() else None
    return Fraction(operator.index(value))


def _require_finite(value: Number) -> Fraction:
    exact = _to_fraction(value)
    if exact is None:
        raise ValueError(f"{value} is not a finite number")
    return exact


def _format_nonfinite(value: Number) -> str:
    if math.isnan(value):
        return UNKNOWN
    return INFINITY if value > 0 else f"-{INFINITY}"


def _round_nearest(value: Fraction) -> int:
    """To the nearest whole number, halves away from 0."""
    return math.floor(value + Fraction(1, 2)) if value >= 0 else math.ceil(value - Fraction(1, 2))


def _compute_magnitude(value: Fraction) -> int:
    """The power of ten of the first digit of a number that is not 0."""
    return MAGNITUDE_CONTEXT.divide(Decimal(abs(value.numerator)), Decimal(value.denominator)).adjusted()


def _format_significant(value: Number, digits: int, rounding: Rounding) -> str:
    exact = _to_fraction(value)
    if exact is None:
        return _format_nonfinite(value)
    if not exact:
        return "0"
    places = digits - 1 - _compute_magnitude(exact)
    return _format_decimal(exact, places if abs(exact) >= MAX_PLAIN_NUMBER else max(places, 0), rounding)


def _round_to_digits(value: Fraction, digits: int, rounding: Rounding) -> Fraction:
    if not value:
        return value
    unit = Fraction(10) ** (_compute_magnitude(value) - digits + 1)
    return rounding(value / unit) * unit


def _count_interval_places(interval: tuple[IntervalEnd, IntervalEnd] | None) -> int | None:
    """The decimals that an interval is printed with; None where it has none, or is not of numbers."""
    if interval is None or isinstance(interval[0], date | str) or isinstance(interval[1], date | str):
        return None
    return _count_places(interval[0], interval[1])


def _count_places(low: Number, high: Number) -> int:
    """The fewest decimals at which an interval, rounded outwards, is hardly wider; below 0 only for huge numbers."""
    exact_low, exact_high = _to_fraction(low), _to_fraction(high)
    known_ends = [end for end in (exact_low, exact_high) if end is not None]
    if exact_low is None or exact_high is None or exact_low >= exact_high:
        return max((_count_point_places(end) for end in known_ends), default=0)
    is_huge = max(abs(exact_low), abs(exact_high)) >= MAX_PLAIN_NUMBER
    places = -_compute_magnitude(exact_high - exact_low)
    places = places if is_huge else max(places, 0)
    while _compute_outer_width(exact_low, exact_high, places) > MAX_WIDENING * (exact_high - exact_low):
        places += 1
    return places


def _compute_outer_width(low: Fraction, high: Fraction, places: int) -> Fraction:
    unit = Fraction(10) ** -places
    return (math.ceil(high / unit) - math.floor(low / unit)) * unit


def _count_point_places(value: Fraction) -> int:
    """The decimals of a point that is printed exactly, or of one that is not, in six digits."""
    if not value:
        return 0
    max_places = EXACT_DIGITS - 1 - _compute_magnitude(value)
    min_places = min(0, max_places)
    for places in range(min_places, max_places + 1):
        if (value * Fraction(10) ** places).denominator == 1:
            return places
    rounded_places = VALUE_DIGITS - 1 - _compute_magnitude(value)
    return rounded_places if abs(value) >= MAX_PLAIN_NUMBER else max(rounded_places, 0)


def _format_decimal(value: Fraction, places: int, rounding: Rounding) -> str:
    """A number rounded to so many decimals, without zeros at their end."""
    unit = Fraction(10) ** -places
    exact = rounding(value / unit) * unit
    if not exact:
        return "0"
    sign, size = ("-" if exact < 0 else ""), abs(exact)
    power = _compute_magnitude(size) if not MIN_PLAIN_NUMBER <= size < MAX_PLAIN_NUMBER else 0
    text = _format_plain_decimal(size / Fraction(10) ** power)
    return f"{sign}{text}e{power}" if power else f"{sign}{text}"


def _format_plain_decimal(value: Fraction) -> str:
    """A decimal fraction of at least 0 in full, in groups of three digits."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    digits = str(int(value * 10**places)).rjust(places + 1, "0")
    integer_part = f"{int(digits[: len(digits) - places]):,}"
    return f"{integer_part}.{digits[-places:]}" if places else integer_part


def _format_rounded_day(days: Number, rounding: Rounding) -> str:
    exact = _to_fraction(days)
    if exact is None:
        return _format_nonfinite(days)
    first, last = (date.min - EPOCH).days, (date.max - EPOCH).days
    day = rounding(exact)
    if day > last and rounding is not math.floor:
        return INFINITY
    if day < first and rounding is not math.ceil:
        return f"-{INFINITY}"
    return (EPOCH + timedelta(days=min(max(day, first), last))).isoformat()
