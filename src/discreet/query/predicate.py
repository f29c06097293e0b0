"""Which rows a question is about: conditions on single columns, joined by and and or.

There is no "not" and no unknown: SQL's three-valued logic is worked out when a question is read. Negation goes down to
the conditions (De Morgan holds in Kleene's logic too), a condition names the values it is true of, and a row without a
value satisfies only a condition that says so. So a predicate is true or false of every row, and never an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Codes = tuple[tuple[int, int], ...]
"""Disjoint ranges of codes, both ends included, in rising order, none touching the next."""


@dataclass(frozen=True, slots=True)
class Within:
    """The code lies in one of the ranges; or is missing, where `null` says so."""

    column: str
    ranges: Codes
    null: bool = False


@dataclass(frozen=True, slots=True)
class OneOf:
    """The text of a column with private keys is one of these, or where `outside` none of these; or missing."""

    column: str
    texts: tuple[str, ...]
    outside: bool = False
    null: bool = False


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds; true where there is none."""

    parts: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Some:
    """Some part holds; false where there is none."""

    parts: tuple[Predicate, ...] = ()


Predicate = Within | OneOf | All | Some
TRUE = All()
FALSE = Some()


def holds(predicate: Predicate, row: Mapping[str, int | str | None]) -> bool:
    """Whether a row satisfies a predicate: the plain meaning that every engine agrees with."""
    match predicate:
        case Within(column, ranges, null):
            code = row[column]
            return null if code is None else any(low <= code <= high for low, high in ranges)  # type: ignore[operator]
        case OneOf(column, texts, outside, null):
            text = row[column]
            return null if text is None else (text in texts) != outside
        case All(parts):
            return all(holds(part, row) for part in parts)
        case Some(parts):
            return any(holds(part, row) for part in parts)
