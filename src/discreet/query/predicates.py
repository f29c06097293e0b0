"""Predicates on single columns, and the sets of values they stand for.

There is no "not" and no unknown: SQL's three-valued logic is worked out when a question is read. Negation goes down to
the conditions (De Morgan holds in Kleene's logic too), a condition names the values it is true of, and a row without a
value satisfies only a condition that says so. So a predicate is true or false of every row, and never an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from discreet.errors import Internal, InvalidInput
from discreet.schema import Column, Schema
from discreet.untrusted import CheckedValue, has_exact_type

Codes = tuple[tuple[int, int], ...]
"""Disjoint ranges of codes, both ends included, in rising order, none touching the next."""


@dataclass(frozen=True, slots=True)
class InRanges(CheckedValue):
    """The code lies in one of the ranges; or is missing, where `null` says so."""

    column: str
    ranges: Codes
    null: bool = False

    def __post_init__(self) -> None:
        """Require exact builtin types; the ranges themselves are checked where a query comes in."""
        if type(self.column) is not str or type(self.ranges) is not tuple or type(self.null) is not bool:
            raise InvalidInput("InRanges takes a column's name, a tuple of ranges, and whether missing values count")


@dataclass(frozen=True, slots=True)
class InTexts(CheckedValue):
    """The text of a column with private keys is one of these, or where `outside` none of these; or missing."""

    column: str
    texts: tuple[str, ...]
    outside: bool = False
    null: bool = False

    def __post_init__(self) -> None:
        """Require exact builtin types; the texts themselves are checked where a query comes in."""
        flags = type(self.outside) is type(self.null) is bool
        if type(self.column) is not str or type(self.texts) is not tuple or not flags:
            raise InvalidInput("InTexts takes a column's name, a tuple of texts, and two truth values")


@dataclass(frozen=True, slots=True)
class AllOf(CheckedValue):
    """Every part holds; true where there is none."""

    parts: tuple[Predicate, ...] = ()

    def __post_init__(self) -> None:
        """Require predicates of the classes here."""
        _check_parts(self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf(CheckedValue):
    """Some part holds; false where there is none."""

    parts: tuple[Predicate, ...] = ()

    def __post_init__(self) -> None:
        """Require predicates of the classes here."""
        _check_parts(self.parts)


def _check_parts(parts: object) -> None:
    if type(parts) is not tuple or not all(has_exact_type(part, *PREDICATES) for part in parts):
        raise InvalidInput("AllOf and AnyOf take a tuple of predicates: InRanges, InTexts, AllOf or AnyOf")


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


ColumnCondition = InRanges | InTexts


def iterate_conditions(predicate: Predicate) -> Iterator[ColumnCondition]:
    """The conditions on single columns that a predicate is made of, from left to right."""
    if isinstance(predicate, AllOf | AnyOf):
        for part in predicate.parts:
            yield from iterate_conditions(part)
    else:
        yield predicate


def build_whole_domain(column: Column) -> ColumnCondition:
    """All values, and the missing one where there may be one: true of every row."""
    if column.private_keys:
        return InTexts(column.name, (), outside=True, null=column.is_nullable)
    return InRanges(column.name, ((column.lower, column.upper),), null=column.is_nullable)


def is_empty_condition(condition: ColumnCondition) -> bool:
    """Whether no value satisfies it."""
    if isinstance(condition, InTexts):
        return not (condition.texts or condition.outside or condition.null)
    return not (condition.ranges or condition.null)


def intersect_conditions(condition: ColumnCondition, other: ColumnCondition) -> ColumnCondition:
    """The values of both; of the same column."""
    null = condition.null and other.null
    if isinstance(condition, InRanges) and isinstance(other, InRanges):
        return InRanges(condition.column, _intersect_ranges(condition.ranges, other.ranges), null)
    if not (isinstance(condition, InTexts) and isinstance(other, InTexts)):
        raise Internal("a column has either codes or texts")
    first, second = set(condition.texts), set(other.texts)
    if condition.outside and other.outside:
        return InTexts(condition.column, tuple(sorted(first | second)), True, null)
    common = second - first if condition.outside else first - second if other.outside else first & second
    return InTexts(condition.column, tuple(sorted(common)), False, null)


def complement_condition(condition: ColumnCondition, column: Column) -> ColumnCondition:
    """All other values of the column, the missing one included."""
    null = column.is_nullable and not condition.null
    if isinstance(condition, InTexts):
        return InTexts(condition.column, tuple(sorted(set(condition.texts))), not condition.outside, null)
    return InRanges(condition.column, find_code_gaps(condition.ranges, column), null)


def unite_conditions(condition: ColumnCondition, other: ColumnCondition, schema: Schema) -> ColumnCondition:
    """The values of either; of the same column."""
    column = schema.column(condition.column)
    neither = intersect_conditions(complement_condition(condition, column), complement_condition(other, column))
    return complement_condition(neither, column)


def find_code_gaps(ranges: Codes, column: Column) -> Codes:
    """The codes of the column that are in none of the ranges."""
    gaps, start = [], column.lower
    for low, high in (*ranges, (column.upper + 1, column.upper + 1)):
        gaps.append((start, min(low - 1, column.upper)))
        start = max(start, high + 1)
    return tuple((low, high) for low, high in gaps if low <= high)


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> Codes:
    """Any ranges in rising order, those that overlap or touch made one."""
    disjoint_ranges: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if disjoint_ranges and low <= disjoint_ranges[-1][1] + 1:
            disjoint_ranges[-1] = disjoint_ranges[-1][0], max(high, disjoint_ranges[-1][1])
        else:
            disjoint_ranges.append((low, high))
    return tuple(disjoint_ranges)


def build_ranges(codes: Iterable[int]) -> Codes:
    """Single codes as ranges."""
    return merge_ranges((code, code) for code in codes)


def _intersect_ranges(first: Codes, second: Codes) -> Codes:
    """The intersection, in one walk over both."""
    common_ranges, first_index, second_index = [], 0, 0
    while first_index < len(first) and second_index < len(second):
        (low, high), (other_low, other_high) = first[first_index], second[second_index]
        if max(low, other_low) <= min(high, other_high):
            common_ranges.append((max(low, other_low), min(high, other_high)))
        if high < other_high:
            first_index += 1
        else:
            second_index += 1
    return tuple(common_ranges)
