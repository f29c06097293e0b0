"""Which rows a question is about: conditions on single columns, joined by and and or.

There is no "not" and no unknown: SQL's three-valued logic is worked out when a question is read. Negation goes down to
the conditions (De Morgan holds in Kleene's logic too), a condition names the values it is true of, and a row without a
value satisfies only a condition that says so. So a predicate is true or false of every row, and never an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.plain import has_exact_type

Codes = tuple[tuple[int, int], ...]
"""Disjoint ranges of codes, both ends included, in rising order, none touching the next."""


@dataclass(frozen=True, slots=True)
class InRanges:
    """The code lies in one of the ranges; or is missing, where `null` says so."""

    column: str
    ranges: Codes
    null: bool = False

    def __post_init__(self) -> None:
        """Require exact builtin types; the ranges themselves are checked where a query comes in."""
        if type(self.column) is not str or type(self.ranges) is not tuple or type(self.null) is not bool:
            raise InvalidInput("Within takes a column's name, a tuple of ranges, and whether missing values count")


@dataclass(frozen=True, slots=True)
class InTexts:
    """The text of a column with private keys is one of these, or where `outside` none of these; or missing."""

    column: str
    texts: tuple[str, ...]
    outside: bool = False
    null: bool = False

    def __post_init__(self) -> None:
        """Require exact builtin types; the texts themselves are checked where a query comes in."""
        flags = type(self.outside) is type(self.null) is bool
        if type(self.column) is not str or type(self.texts) is not tuple or not flags:
            raise InvalidInput("OneOf takes a column's name, a tuple of texts, and two truth values")


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; true where there is none."""

    parts: tuple[Predicate, ...] = ()

    def __post_init__(self) -> None:
        """Require predicates of the classes here."""
        _check_parts(self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Some part holds; false where there is none."""

    parts: tuple[Predicate, ...] = ()

    def __post_init__(self) -> None:
        """Require predicates of the classes here."""
        _check_parts(self.parts)


def _check_parts(parts: object) -> None:
    if type(parts) is not tuple or not all(has_exact_type(part, *PREDICATES) for part in parts):
        raise InvalidInput("All and Some take a tuple of predicates: Within, OneOf, All or Some")


Predicate = InRanges | InTexts | AllOf | AnyOf
PREDICATES = (InRanges, InTexts, AllOf, AnyOf)
TRUE = AllOf()
FALSE = AnyOf()


def is_satisfied(predicate: Predicate, row: Mapping[str, int | str | None]) -> bool:
    """Whether a row satisfies a predicate: the plain meaning that every engine agrees with."""
    match predicate:
        case InRanges(column, ranges, null):
            code = row[column]
            return null if code is None else any(low <= code <= high for low, high in ranges)  # type: ignore[operator]
        case InTexts(column, texts, outside, null):
            text = row[column]
            return null if text is None else (text in texts) != outside
        case AllOf(parts):
            return all(is_satisfied(part, row) for part in parts)
        case AnyOf(parts):
            return any(is_satisfied(part, row) for part in parts)
