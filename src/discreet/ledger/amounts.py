"""Amounts of privacy as whole multiples of 10^-40, so that adding one more costs the same after a million charges.

A sum of fractions grows a denominator with every new prime; a sum of whole numbers does not. What is charged is
rounded up to the next multiple, which is exact for every decimal of up to 19 digits after the point, also squared and
halved. Stored, an amount is 60 digits with leading zeros: its order as text is its order as a number on every engine.
"""

from __future__ import annotations

from fractions import Fraction

from discreet.errors import Unavailable

DECIMAL_PLACES = 40
STORED_WIDTH = 60
UNITS_PER_ONE: int = 10**DECIMAL_PLACES
DAMAGED_AMOUNT = (
    "the ledger is damaged: it holds something else where an amount should be; verify it, and restore a copy"
)


def round_up_to_units(value: Fraction) -> int:
    """The least whole number of units that is at least the value."""
    return -(-value.numerator * UNITS_PER_ONE // value.denominator)


def units_to_fraction(count: int) -> Fraction:
    """What a number of units is worth."""
    return Fraction(count, UNITS_PER_ONE)


def format_stored_amount(count: int) -> str:
    """Units as the database keeps them."""
    return f"{count:0{STORED_WIDTH}d}"


def parse_stored_amount(text: object) -> int:
    """Units from what the database kept."""
    if not isinstance(text, str) or len(text) != STORED_WIDTH:
        raise Unavailable(DAMAGED_AMOUNT)
    return _parse_digits(text)


def format_amount(count: int) -> str:
    """Units as people write a decimal: 0.25."""
    return f"{count // UNITS_PER_ONE}.{count % UNITS_PER_ONE:0{DECIMAL_PLACES}d}".rstrip("0").rstrip(".")


def parse_amount(text: str) -> int:
    """Units from their plain decimal."""
    integer_digits, _, decimal_digits = text.partition(".")
    if len(integer_digits) > STORED_WIDTH or len(decimal_digits) > DECIMAL_PLACES:
        raise Unavailable(DAMAGED_AMOUNT)
    return _parse_digits(integer_digits) * UNITS_PER_ONE + _parse_digits(decimal_digits.ljust(DECIMAL_PLACES, "0"))


def _parse_digits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise Unavailable(DAMAGED_AMOUNT)
    return int(text)
