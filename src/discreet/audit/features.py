"""What an event may be about: the answer itself, its last binary digit, equal entries, and so on.

A feature turns every draw into one whole number; events are sets of these numbers. It is fixed before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.audit.draws import Columns, Draws, Keys, Told, ordered_keys, value_of, values_of
from discreet.formatting import format_value

Numbers = NDArray[np.float64]
Span = tuple[int | None, int | None]
"""Keys from the first up to, but without, the second; None where there is no end."""

MOST_PATTERNS = 8
EXPONENT, FRACTION = 0x7FF, 2**52 - 1
NO_DIGIT = 3000
"""In place of the last binary digit of 0, which is a multiple of everything, and of what is not finite."""
SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Number:
    """A number that each draw has: one of its columns, or computed from several of them."""

    name: str
    of: Callable[[Draws], Columns]
    floating: bool


@dataclass(frozen=True, slots=True)
class Feature:
    """A whole number for each draw; `tell` says in words that it lies in a span; `axis` says where to draw it."""

    name: str
    keys: Callable[[Draws], Keys]
    tell: Callable[[Span], str]
    axis: Callable[[Keys], Numbers] | None = None

    @property
    def ordered(self) -> bool:
        """Whether the keys have an order, and so half-lines and tails."""
        return self.axis is not None


def features(draws: Draws, columns: Sequence[int]) -> list[Feature]:
    """The features that need not be learned, the simplest first; of the columns, those at these places."""
    found = [besides(at, told) for at, told in enumerate(draws.told) if told.first]
    if draws.columns is not None:
        width, floating = draws.columns.shape[1], draws.columns.dtype.kind == "f"
        few = [(at, draws.titles[at]) for at in columns]
        found += [value(column(draws, at)) for at in columns]
        if floating:
            found += [make(at, name) for at, name in few for make in (last_digit, size_and_last_digit)]
        if width > 1:
            found += _of_rows(draws.shape, width)
    return [*found, *(besides(at, told) for at, told in enumerate(draws.told) if not told.first)]


def column(draws: Draws, at: int) -> Number:
    """One of the columns."""
    floating = cast("Columns", draws.columns).dtype.kind == "f"
    return Number(draws.titles[at], lambda rows: _column(rows, at), floating)


def _of_rows(shape: tuple[int, ...], width: int) -> list[Feature]:
    found = [whole_row(), distinct(shape)]
    return [*found, equal_entries()] if width <= MOST_PATTERNS else found


def value(number: Number) -> Feature:
    """The number itself."""

    def tell(span: Span) -> str:
        return f"{number.name} {between(span, number.floating)}"

    axis = values_of if number.floating else as_floats
    return Feature(number.name, lambda draws: ordered_keys(number.of(draws)), tell, axis)


def last_digit(at: int, name: str) -> Feature:
    """The place of the lowest binary digit that is 1: what a float was added to shows in its last digits (Mironov)."""

    def tell(span: Span) -> str:
        low, high = span
        if low is None:
            return f"{name} is anything" if high is None else f"{name} is not a multiple of 2^{high}"
        if high is None or high > NO_DIGIT:
            return f"{name} is a multiple of 2^{low}"
        return f"the last binary digit of {name} is 2^{low}" + (f" to 2^{high - 1}" if high - 1 != low else "")

    title = f"the last binary digit of {name}, as a power of 2"
    return Feature(title, lambda draws: _digits(_column(draws, at))[1], tell, as_floats)


def size_and_last_digit(at: int, name: str) -> Feature:
    """Both the first and the last binary digit."""

    def keys(draws: Draws) -> Keys:
        first, last = _digits(_column(draws, at))
        return cast("Keys", (first << 14) + last + 2 * NO_DIGIT)

    def tell(span: Span) -> str:
        if span[0] is None or span[1] != span[0] + 1:
            return f"the first and last binary digits of {name} are others"
        first, last = span[0] >> 14, (span[0] & (2**14 - 1)) - 2 * NO_DIGIT
        if last == NO_DIGIT:
            return f"{name} is 0 or not finite"
        return f"{name} is from 2^{first} to 2^{first + 1} in size with 2^{last} as its last binary digit"

    return Feature(f"the first and last binary digits of {name}", keys, tell)


def besides(at: int, told: Told) -> Feature:
    """What is told of a draw besides its numbers: which value it is, or how long."""

    def keys(draws: Draws) -> Keys:
        return draws.told[at].keys

    def tell(span: Span) -> str:
        if told.values is None:
            return f"{told.name} {between(span, False)}"
        if span[0] is None or span[0] < 0 or span[1] != span[0] + 1 or span[0] >= len(told.values):
            return f"{told.name} is one of those seldom seen"
        return f"{told.name} is {told.values[span[0]]}"

    return Feature(told.name, keys, tell, as_floats if told.values is None else None)


def whole_row() -> Feature:
    """Which row it is, by a hash."""

    def keys(draws: Draws) -> Keys:
        return _hashed(cast("Columns", draws.columns))

    return Feature("the row", keys, lambda _: "the answer is one of certain rows")


def distinct(shape: tuple[int, ...]) -> Feature:
    """How many of the numbers of a row differ, or of the rows of a table."""
    what = "numbers" if len(shape) < 2 else "rows"

    def keys(draws: Draws) -> Keys:
        columns = cast("Columns", draws.columns)
        entries = columns.reshape(len(columns), shape[0], -1)
        hashes = np.sort(_hashed(entries.reshape(len(columns) * shape[0], -1)).reshape(len(columns), -1), axis=1)
        differ: Keys = np.count_nonzero(np.diff(hashes, axis=1), axis=1)
        return differ + 1

    name = f"the number of different {what} in the answer"
    return Feature(name, keys, lambda span: f"{name} {between(span, False)}", as_floats)


def equal_entries() -> Feature:
    """Which numbers of a row are equal."""

    def keys(draws: Draws) -> Keys:
        columns = ordered_keys(cast("Columns", draws.columns))
        found = np.zeros(len(columns), dtype=np.int64)
        for at in range(1, columns.shape[1]):
            found = found * (at + 1) + np.argmax(columns[:, : at + 1] == columns[:, at : at + 1], axis=1)
        return found

    return Feature("which numbers are equal", keys, lambda _: "certain numbers of the answer are equal, and no others")


def between(span: Span, floating: bool) -> str:
    """A span of numbers in words."""
    if span == (None, None):
        return "is anything"
    low, high = (None if key is None else value_of(key, floating) for key in span)
    if span[0] is not None and span[1] == span[0] + 1:
        return f"is {low!r}"
    least, most = "" if low is None else _short(low), "" if high is None else _short(high)
    if low is None:
        return f"is below {most}"
    return f"is at least {least}" if high is None else f"is from {least} to below {most}"


def _short(number: float) -> str:
    return format_value(number)


def _column(draws: Draws, at: int) -> Columns:
    return cast("Columns", draws.columns)[:, at]


def _digits(column: Columns) -> tuple[Keys, Keys]:
    """The places of the first and the last binary digit that is 1."""
    bits = np.ascontiguousarray(column, dtype=np.float64).view(np.int64)
    exponent, fraction = (bits >> 52) & EXPONENT, bits & FRACTION
    whole = np.where(exponent > 0, fraction | (FRACTION + 1), fraction)
    first = np.maximum(exponent, 1) - 1075
    lowest = ((whole & -whole).astype(np.float64).view(np.int64) >> 52) - 1023
    strange = (whole == 0) | (exponent == EXPONENT)
    return np.where(strange, 0, first + 52), np.where(strange, NO_DIGIT, first + lowest)


def _hashed(columns: Columns) -> Keys:
    """One number for each row; two different rows share one with probability about 2^-64."""
    found = np.zeros(len(columns), dtype=np.uint64)
    for at in range(columns.shape[1]):
        mixed = (found ^ ordered_keys(columns[:, at]).view(np.uint64)) * SPREAD
        found = mixed ^ (mixed >> np.uint64(29))
    return cast("Keys", found.view(np.int64))


def score(of: Callable[[Columns], Numbers], name: str) -> Feature:
    """A number that was learned from other draws."""

    def keys(draws: Draws) -> Keys:
        return ordered_keys(of(cast("Columns", draws.columns)))

    return Feature(name, keys, lambda span: f"{name} {between(span, True)}", values_of)


def as_floats(keys: Keys) -> Numbers:
    """Keys that are the numbers themselves."""
    return keys.astype(np.float64)
