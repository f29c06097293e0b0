"""Intervals of numbers and dates, ever wider: of widths that are given, or round ones that fit the domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.exact import MAX_EXPONENT, as_rational
from discreet.microdata.table import Attribute

IntervalLabels = tuple[list[str | None], dict[str | None, Fraction]]
"""What each value is called, None where it is missing; and how wide every label is, as a share of the domain."""

MIN_INTERVAL_SHARE = Fraction(1, 32)
"""No round interval of numbers is a smaller share of the domain than this."""
MIN_DATE_INTERVAL_SHARE = Fraction(1, 128)
"""The same for months and years, whose rungs are further apart: years of birth are of use."""
MAX_DAYS_BY_WEEK = 184
"""Dates of no more days than this go by weeks."""
MONTH_MULTIPLES = (1, 3, 12, 60, 120, 600, 1200)
DAYS_PER_MONTH = Fraction(146097, 4800)
"""The mean length of one, in days."""
MONTHS_BEFORE_1970 = 1970 * 12
"""How many months after the year 0 numpy's calendar starts; counted from there, years go by round numbers."""
MAX_EXACT_INTEGER = 2**53
"""Below it every whole number is a float."""


def build_intervals(
    attribute: Attribute, distinct: NDArray[Any], widths: list[Fraction], start: Fraction
) -> list[IntervalLabels]:
    """Intervals of each width, a multiple of the one before; of every width one begins at `start`."""
    narrowest = widths[0]
    places = [None if math.isnan(value) else (as_rational(value) - start) // narrowest for value in distinct.tolist()]
    return _join_intervals(
        attribute, places, [int(width / narrowest) for width in widths], lambda place: start + place * narrowest
    )


def build_round_intervals(attribute: Attribute, distinct: NDArray[Any]) -> list[IntervalLabels]:
    """Intervals that people would choose, at most five times over; each time at least two fit into the domain.

    They begin at multiples of the widest, not at the lowest value, which they would tell.
    """
    if attribute.value_type == "date":
        return _build_calendar_intervals(attribute, distinct)
    widths = _choose_round_widths(attribute, distinct)
    return (
        build_intervals(attribute, distinct, widths, _floor_to_multiple(attribute.lower, widths[-1])) if widths else []
    )


def _choose_round_widths(attribute: Attribute, distinct: NDArray[Any]) -> list[Fraction]:
    """One, two or five times a power of ten, and its doubles; for whole numbers no less than 2."""
    if max(abs(attribute.lower), abs(attribute.upper)) >= 10.0**MAX_EXPONENT:
        return []
    present = distinct[~np.isnan(distinct)]
    is_whole = bool(np.all(present == np.floor(present)))
    span = as_rational(attribute.upper) - as_rational(attribute.lower) + is_whole
    width = _round_up(span * MIN_INTERVAL_SHARE) if span > 0 else Fraction(0)
    return _list_doubled_widths(max(width, Fraction(2)) if is_whole else width, span)


def _round_up(number: Fraction) -> Fraction:
    """The least of 1, 2 and 5 times a power of ten that is not below the number."""
    power = Fraction(10) ** (Decimal(number.numerator) / number.denominator).adjusted()
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= number)


def _list_doubled_widths(width: Fraction, span: Fraction) -> list[Fraction]:
    """The width and its doubles, as long as two fit into the span."""
    return [width, *_list_doubled_widths(2 * width, span)] if 0 < 2 * width <= span else []


def _floor_to_multiple(value: float, unit: Fraction) -> Fraction:
    """The greatest multiple of the unit that is not above the value."""
    return as_rational(value) // unit * unit


def _build_calendar_intervals(attribute: Attribute, distinct: NDArray[Any]) -> list[IntervalLabels]:
    """Weeks from Mondays, and their doubles; or months, quarters, years and round numbers of years."""
    span = as_rational(attribute.upper) - as_rational(attribute.lower) + 1
    if span <= MAX_DAYS_BY_WEEK:
        monday = _floor_to_multiple(attribute.lower + 3, Fraction(7)) - 3  # the first day of 1970 was a Thursday
        widths = _list_doubled_widths(Fraction(7), span)
        return build_intervals(attribute, distinct, widths, monday) if widths else []
    min_months, max_months = span * MIN_DATE_INTERVAL_SHARE / DAYS_PER_MONTH, span / 2 / DAYS_PER_MONTH
    places = [None if math.isnan(day) else _compute_month(math.floor(day)) for day in distinct.tolist()]
    return _join_intervals(
        attribute,
        places,
        [months for months in MONTH_MULTIPLES if min_months <= months <= max_months],
        _compute_first_day,
    )


def _compute_month(day: int) -> int:
    return int(np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64)) + MONTHS_BEFORE_1970


def _compute_first_day(month: int) -> Fraction:
    return Fraction(int(np.datetime64(month - MONTHS_BEFORE_1970, "M").astype("datetime64[D]").astype(np.int64)))


def _join_intervals(
    attribute: Attribute, places: list[int | None], multiples: list[int], edge: Callable[[int], Fraction]
) -> list[IntervalLabels]:
    """For each multiple, intervals of so many places; a place lasts from its edge to that of the next."""
    span, steps = as_rational(attribute.upper) - as_rational(attribute.lower), []
    for multiple in multiples:
        wider_places = [None if place is None else place // multiple for place in places]
        label_of_place: dict[int | None, str | None] = {None: None}
        shares: dict[str | None, Fraction] = {}
        for place in {place for place in wider_places if place is not None}:
            start, end = edge(place * multiple), edge((place + 1) * multiple)
            label = label_of_place[place] = f"[{_format_edge(attribute, start)}, {_format_edge(attribute, end)})"
            shares[label] = min(Fraction(1), (end - start) / span) if span else Fraction(1)
        steps.append(([label_of_place[place] for place in wider_places], shares))
    return steps


def _format_edge(attribute: Attribute, edge: Fraction) -> str:
    """Exact enough that two intervals with a float in each are called differently."""
    if attribute.value_type == "date":
        return str(np.datetime64(int(edge), "D"))
    return str(edge.numerator) if edge.denominator == 1 and abs(edge) < MAX_EXACT_INTEGER else repr(float(edge))
