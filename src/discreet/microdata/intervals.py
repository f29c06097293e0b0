"""Intervals of numbers and dates, ever wider: of widths that are given, or round ones that fit the domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.exact import LARGEST_EXPONENT, rational
from discreet.microdata.table import Attribute

Labels = tuple[list[str | None], dict[str | None, Fraction]]
"""What each value is called, None where it is missing; and how wide every label is, as a share of the domain."""

NARROWEST = Fraction(1, 32)
"""No round interval of numbers is a smaller share of the domain than this."""
NARROWEST_OF_DATES = Fraction(1, 128)
"""The same for months and years, whose rungs are further apart: years of birth are of use."""
FEW_DAYS = 184
"""Dates of no more days than this go by weeks."""
MONTHS = (1, 3, 12, 60, 120, 600, 1200)
MONTH = Fraction(146097, 4800)
"""The mean length of one, in days."""
YEAR_ZERO = 1970 * 12
"""How many months after the year 0 numpy's calendar starts; counted from there, years go by round numbers."""
EXACT = 2**53
"""Below it every whole number is a float."""


def intervals(attribute: Attribute, distinct: NDArray[Any], widths: list[Fraction], start: Fraction) -> list[Labels]:
    """Intervals of each width, a multiple of the one before; of every width one begins at `start`."""
    least = widths[0]
    places = [None if math.isnan(value) else (rational(value) - start) // least for value in distinct.tolist()]
    return _joined(attribute, places, [int(width / least) for width in widths], lambda place: start + place * least)


def round_intervals(attribute: Attribute, distinct: NDArray[Any]) -> list[Labels]:
    """Intervals that people would choose, at most five times over; each time at least two fit into the domain.

    They begin at multiples of the widest, not at the lowest value, which they would tell.
    """
    if attribute.look == "date":
        return _calendar(attribute, distinct)
    widths = _round_widths(attribute, distinct)
    return intervals(attribute, distinct, widths, _floor(attribute.lower, widths[-1])) if widths else []


def _round_widths(attribute: Attribute, distinct: NDArray[Any]) -> list[Fraction]:
    """One, two or five times a power of ten, and its doubles; for whole numbers no less than 2."""
    if max(abs(attribute.lower), abs(attribute.upper)) >= 10.0**LARGEST_EXPONENT:
        return []
    present = distinct[~np.isnan(distinct)]
    whole = bool(np.all(present == np.floor(present)))
    span = rational(attribute.upper) - rational(attribute.lower) + whole
    width = _round_up(span * NARROWEST) if span > 0 else Fraction(0)
    return _doubled(max(width, Fraction(2)) if whole else width, span)


def _round_up(number: Fraction) -> Fraction:
    """The least of 1, 2 and 5 times a power of ten that is not below the number."""
    power = Fraction(10) ** (Decimal(number.numerator) / number.denominator).adjusted()
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= number)


def _doubled(width: Fraction, span: Fraction) -> list[Fraction]:
    """The width and its doubles, as long as two fit into the span."""
    return [width, *_doubled(2 * width, span)] if 0 < 2 * width <= span else []


def _floor(value: float, unit: Fraction) -> Fraction:
    """The greatest multiple of the unit that is not above the value."""
    return rational(value) // unit * unit


def _calendar(attribute: Attribute, distinct: NDArray[Any]) -> list[Labels]:
    """Weeks from Mondays, and their doubles; or months, quarters, years and round numbers of years."""
    span = rational(attribute.upper) - rational(attribute.lower) + 1
    if span <= FEW_DAYS:
        monday = _floor(attribute.lower + 3, Fraction(7)) - 3  # the first day of 1970 was a Thursday
        widths = _doubled(Fraction(7), span)
        return intervals(attribute, distinct, widths, monday) if widths else []
    least, most = span * NARROWEST_OF_DATES / MONTH, span / 2 / MONTH
    places = [None if math.isnan(day) else _month(math.floor(day)) for day in distinct.tolist()]
    return _joined(attribute, places, [months for months in MONTHS if least <= months <= most], _first_day)


def _month(day: int) -> int:
    return int(np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64)) + YEAR_ZERO


def _first_day(month: int) -> Fraction:
    return Fraction(int(np.datetime64(month - YEAR_ZERO, "M").astype("datetime64[D]").astype(np.int64)))


def _joined(
    attribute: Attribute, places: list[int | None], multiples: list[int], edge: Callable[[int], Fraction]
) -> list[Labels]:
    """For each multiple, intervals of so many places; a place lasts from its edge to that of the next."""
    span, steps = rational(attribute.upper) - rational(attribute.lower), []
    for multiple in multiples:
        wider = [None if place is None else place // multiple for place in places]
        called: dict[int | None, str | None] = {None: None}
        shares: dict[str | None, Fraction] = {}
        for place in {place for place in wider if place is not None}:
            start, end = edge(place * multiple), edge((place + 1) * multiple)
            label = called[place] = f"[{_edge_text(attribute, start)}, {_edge_text(attribute, end)})"
            shares[label] = min(Fraction(1), (end - start) / span) if span else Fraction(1)
        steps.append(([called[place] for place in wider], shares))
    return steps


def _edge_text(attribute: Attribute, edge: Fraction) -> str:
    """Exact enough that two intervals with a float in each are called differently."""
    if attribute.look == "date":
        return str(np.datetime64(int(edge), "D"))
    return str(edge.numerator) if edge.denominator == 1 and abs(edge) < EXACT else repr(float(edge))
