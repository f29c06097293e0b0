"""Predicates on single columns, and the sets of values they stand for.

There is no "not" and no unknown: SQL's three-valued logic is worked out when a question is read. Negation goes down to
the conditions (De Morgan holds in Kleene's logic too), a condition names the values it is true of, and a row without a
value satisfies only a condition that says so. So a predicate is true or false of every row, and never an error.

Predicates that are true of the same rows are simplified to one form, so that a stored answer is found again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

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


_JoinConditions = Callable[[ColumnCondition, ColumnCondition], ColumnCondition]


def simplify_predicate(predicate: Predicate, schema: Schema) -> Predicate:
    """Simplify a predicate to one form for the same rows: sorted, each part once, nothing that follows from the rest.

    A part is held only against the values that its neighbours leave open: both in age >= 18 AND (age <= 30 OR smoker)
    and in age < 18 OR (age <= 30 AND smoker) the inner part is 18 to 30. Each step leaves fewer parts or smaller sets,
    so it comes to rest. What is said of one column has exactly one form; mixtures of columns may still have several,
    and then an equal question is asked, and paid, as another one.
    """
    return _simplify_fully(predicate, _OpenValues(schema, {}))


def simplify_within(predicate: Predicate, where: Predicate, schema: Schema) -> Predicate:
    """Simplify a condition within the rows of another, which is in canonical form: TRUE where it holds in all of them.

    Equal conditions on one column have one form here too, and parts that the other says itself are left out.
    """
    both = simplify_predicate(AllOf((where, predicate)), schema)
    if both in (where, FALSE):
        return TRUE if both == where else FALSE
    known_parts = where.parts if isinstance(where, AllOf) else (where,)
    open_values = _OpenValues(schema, {})
    for part in _filter_column_conditions(known_parts):
        open_values = open_values.narrow_to(part)
    simplified = _simplify_fully(predicate, open_values)
    parts = simplified.parts if isinstance(simplified, AllOf) else (simplified,)
    return _join_parts(AllOf, (part for part in parts if part not in known_parts))


def _simplify_fully(predicate: Predicate, open_values: _OpenValues) -> Predicate:
    while True:
        narrower = _narrow_predicate(predicate, open_values)
        if narrower == predicate:
            narrower = _absorb_parts(predicate)
        if narrower == predicate:
            return predicate
        predicate = narrower


@dataclass(frozen=True, slots=True)
class _OpenValues:
    """For each column, the values that can still make a difference."""

    schema: Schema
    conditions: Mapping[str, ColumnCondition]

    def get_condition(self, column: str) -> ColumnCondition:
        return self.conditions.get(column) or build_whole_domain(self.schema.column(column))

    def narrow_to(self, condition: ColumnCondition) -> _OpenValues:
        narrowed = intersect_conditions(self.get_condition(condition.column), condition)
        return _OpenValues(self.schema, {**self.conditions, condition.column: narrowed})

    def exclude(self, condition: ColumnCondition) -> _OpenValues:
        return self.narrow_to(complement_condition(condition, self.schema.column(condition.column)))


def _narrow_predicate(predicate: Predicate, open_values: _OpenValues) -> Predicate:
    """One pass: what is known from outside is used inside."""
    if isinstance(predicate, AllOf | AnyOf):
        return _narrow_parts(predicate, open_values)
    open_condition = open_values.get_condition(predicate.column)
    common = intersect_conditions(predicate, open_condition)
    return FALSE if is_empty_condition(common) else TRUE if common == open_condition else common


def _narrow_parts(predicate: AllOf | AnyOf, open_values: _OpenValues) -> Predicate:
    """The conditions on each column joined to one; then the mixtures of columns, within what those leave open."""
    is_all = isinstance(predicate, AllOf)
    join: _JoinConditions = intersect_conditions if is_all else partial(unite_conditions, schema=open_values.schema)
    conditions_by_column: dict[str, list[ColumnCondition]] = {}
    for condition in _filter_column_conditions(predicate.parts):
        conditions_by_column.setdefault(condition.column, []).append(condition)
    conditions = [_narrow_predicate(_fold_pairs(group, join), open_values) for group in conditions_by_column.values()]
    for condition in _filter_column_conditions(conditions):
        open_values = open_values.narrow_to(condition) if is_all else open_values.exclude(condition)
    mixtures = [_narrow_predicate(part, open_values) for part in predicate.parts if isinstance(part, AllOf | AnyOf)]
    return _join_parts(type(predicate), [*conditions, *mixtures])


def _filter_column_conditions(parts: Iterable[Predicate]) -> Iterator[ColumnCondition]:
    return (part for part in parts if isinstance(part, InRanges | InTexts))


def _fold_pairs(conditions: list[ColumnCondition], join: _JoinConditions) -> ColumnCondition:
    """All joined into one, two by two, so that a long list is not walked for each of its members."""
    while len(conditions) > 1:
        pairs = zip_longest(conditions[::2], conditions[1::2])
        conditions = [first if second is None else join(first, second) for first, second in pairs]
    return conditions[0]


def _join_parts(kind: type[AllOf] | type[AnyOf], parts: Iterable[Predicate]) -> Predicate:
    """The parts in order, each once, those of the same kind opened; a single part stands for itself."""
    flat_parts = (inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))
    distinct = set(flat_parts)
    deciding_predicate = FALSE if kind is AllOf else TRUE
    if deciding_predicate in distinct:
        return deciding_predicate
    if len(distinct) == 1:
        return distinct.pop()
    return kind(tuple(sorted(distinct, key=build_predicate_sort_key)))


def _absorb_parts(predicate: Predicate) -> Predicate:
    """Without the parts that another part makes needless: a AND (b OR c) AND (b OR c OR d)."""
    if not isinstance(predicate, AllOf | AnyOf):
        return predicate
    parts = [_absorb_parts(part) for part in predicate.parts]
    members_of_part = {part: frozenset(part.parts) for part in parts if isinstance(part, AllOf | AnyOf)}
    smaller = members_of_part.values()
    needless = {part for part, members in members_of_part.items() if any(other < members for other in smaller)}
    return _join_parts(type(predicate), (part for part in parts if part not in needless))


def build_predicate_sort_key(predicate: Predicate) -> str:
    return json.dumps(build_canonical_form(predicate))


def build_canonical_form(predicate: Predicate) -> list[object]:
    match predicate:
        case InRanges(column, ranges, null):
            return ["within", column, ranges, null]
        case InTexts(column, texts, outside, null):
            return ["one of", column, texts, outside, null]
        case AllOf(parts):
            return ["all", *map(build_canonical_form, parts)]
        case AnyOf(parts):
            return ["some", *map(build_canonical_form, parts)]
