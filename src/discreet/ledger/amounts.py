"""Amounts of privacy as whole multiples of 10^-40, so that adding one more costs the same after a million charges.

A sum of fractions grows a denominator with every new prime; a sum of whole numbers does not. What is charged is
rounded up to the next multiple, which is exact for every decimal of up to 19 digits after the point, also squared and
halved. Stored, an amount is 60 digits with leading zeros: its order as text is its order as a number on every engine.
"""

from __future__ import annotations

from fractions import Fraction

from discreet.errors import Unavailable

PLACES = 40
WIDTH = 60
UNIT: int = 10**PLACES
DAMAGED = "the ledger is damaged: it holds something else where an amount should be; verify it, and restore a copy"


def units(value: Fraction) -> int:
    """The least whole number of units that is at least the value."""
    return -(-value.numerator * UNIT // value.denominator)


def fraction(count: int) -> Fraction:
    """What a number of units is worth."""
    return Fraction(count, UNIT)


def stored(count: int) -> str:
    """Units as the database keeps them."""
    return f"{count:0{WIDTH}d}"


def read(text: object) -> int:
    """Units from what the database kept."""
    if not isinstance(text, str) or len(text) != WIDTH:
        raise Unavailable(DAMAGED)
    return _digits(text)


def plain(count: int) -> str:
    """Units as people write a decimal: 0.25."""
    return f"{count // UNIT}.{count % UNIT:0{PLACES}d}".rstrip("0").rstrip(".")


def unplain(text: str) -> int:
    """Units from their plain decimal."""
    whole, _, places = text.partition(".")
    if len(whole) > WIDTH or len(places) > PLACES:
        raise Unavailable(DAMAGED)
    return _digits(whole) * UNIT + _digits(places.ljust(PLACES, "0"))


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise Unavailable(DAMAGED)
    return int(text)
