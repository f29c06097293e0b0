"""SQL's three-valued logic, worked out: a written condition becomes the rows of which it is true."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import TypeVar

from discreet.errors import Internal, InvalidInput
from discreet.query.asked import Both, Compare, Condition, Constant, Either, Is, Listed, Name, Not, Question, Rows
from discreet.query.canonical import simplify, within
from discreet.query.predicate import FALSE, TRUE, All, Codes, OneOf, Predicate, Some, Within
from discreet.query.scope import Scope, lookup_named
from discreet.query.sets import complement, merged, ranges_of
from discreet.schema import Column, Schema
from discreet.schema.column import EPOCH

Part = TypeVar("Part")

MOST_RANGES = 100_000
"""Concepts of a taxonomy can stand for many ranges of codes; this many in one question are read."""
MOST_FILTERED = 1_000
"""A question may have hundreds of filters, each of which is held against its condition."""


def rows_asked(question: Question, scope: Scope) -> Predicate:
    """The rows a question is about, in canonical form: an inner join keeps those whose key has an entry."""
    inner = (join.lookup for join in question.joins if join.kind == "inner")
    joined = (_entries(lookup, scope.schema) for lookup in inner)
    return simplify(All((_known(question.where, True, scope), *joined)), scope.schema)


def rows_filtered(condition: Condition, column: Column | None, scope: Scope) -> Predicate:
    """The rows that a FILTER leaves of those a question is about, and of these the ones with a value of a column."""
    present = () if column is None or not column.nullable else (_missing(column, False),)
    wanted = All((_known(condition, True, scope), *present))
    if _ranges(wanted) + _ranges(scope.where) > MOST_FILTERED:
        raise InvalidInput(f"with FILTER conditions stand for at most {MOST_FILTERED} ranges of values; ask for fewer")
    return within(wanted, scope.where, scope.schema)


def _known(condition: Condition, truth: bool, scope: Scope) -> Predicate:
    """The rows of which a condition is known to be true, or known to be false; unknown is neither."""
    match condition:
        case None:
            return FALSE
        case bool():
            return TRUE if condition is truth else FALSE
        case Not(part):
            return _known(part, not truth, scope)
        case Both(parts) | Either(parts):
            kind = All if isinstance(condition, Both) is truth else Some
            return kind(tuple(_counted((_known(part, truth, scope) for part in parts), _ranges)))
        case Is(name, value):
            return _missing(scope.column(name), truth) if value is None else _is(scope.column(name), value, truth)
        case Listed(name, constants):
            return _listed(name, constants, truth, scope)
        case Compare(name, "=", constant):
            return _listed(name, (constant,), truth, scope)
        case Compare(name, "<>", constant):
            return _listed(name, (constant,), not truth, scope)
        case Compare():
            return _compared(condition, truth, scope)
        case Rows(predicate):
            if not truth:
                raise Internal("a predicate is a whole condition, which nothing negates")
            return next(_counted([predicate], _ranges))


def _missing(column: Column, truth: bool) -> Predicate:
    """IS NULL is true of missing values and false of all others."""
    if column.private_keys:
        return OneOf(column.name, (), outside=not truth, null=truth)
    return Within(column.name, () if truth else ((column.lower, column.upper),), null=truth)


def _is(column: Column, value: bool, truth: bool) -> Predicate:
    """IS TRUE is false, not unknown, of a missing value."""
    if column.kind != "boolean":
        raise InvalidInput(f"IS TRUE and IS FALSE are for boolean columns; {column.name} is {column.kind}")
    code = int(value is truth)
    return Within(column.name, ((code, code),), null=not truth)


def _listed(name: Name, constants: Sequence[Constant], truth: bool, scope: Scope) -> Predicate:
    """IN is true of what it lists; a NULL in the list leaves all else unknown."""
    column = scope.column(name)
    known = [constant for constant in constants if constant is not None]
    listed = _one_of(known, column, scope)
    if truth:
        return listed
    return FALSE if len(known) < len(constants) else _others(listed, column)


def _one_of(constants: Sequence[Constant], column: Column, scope: Scope) -> Within | OneOf:
    if column.private_keys:
        return OneOf(column.name, tuple(sorted({_text(constant, column) for constant in constants})))
    equal = _counted((_equal(constant, column, scope) for constant in constants), len)
    return Within(column.name, merged(span for codes in equal for span in codes))


def _others(one: Within | OneOf, column: Column) -> Within | OneOf:
    """All other values; a missing one is not among them, since nothing is known of it."""
    return replace(complement(one, column), null=False)


def _equal(constant: Constant, column: Column, scope: Scope) -> Codes:
    """The codes that equal a constant: none between two codes or beyond the bounds."""
    if column.categories and column.kind != "boolean":
        return scope.codes(column, _text(constant, column))
    place = _place(constant, column)
    inside = place.denominator == 1 and column.lower <= place <= column.upper
    return ((int(place), int(place)),) if inside else ()


def _compared(condition: Compare, truth: bool, scope: Scope) -> Predicate:
    column = scope.column(condition.column)
    if column.private_keys or not column.ordered:
        raise InvalidInput(f"the values of {column.name} have no order; compare it with =, <> or IN")
    if condition.constant is None:
        return FALSE
    side = Within(column.name, _side(condition.comparison, _place(condition.constant, column), column))
    return side if truth else _others(side, column)


def _side(comparison: str, place: Fraction, column: Column) -> Codes:
    """The codes on one side of a place, which may lie between two codes."""
    low, high = column.lower, column.upper
    match comparison:
        case "<":
            high = min(high, math.ceil(place) - 1)
        case "<=":
            high = min(high, math.floor(place))
        case ">":
            low = max(low, math.floor(place) + 1)
        case _:
            low = max(low, math.ceil(place))
    return ((low, high),) if low <= high else ()


def _place(constant: Constant, column: Column) -> Fraction:
    """Where a constant stands among the codes of a column of its own kind."""
    if column.numeric and isinstance(constant, Fraction):
        return constant / column.step
    if column.kind == "boolean" and isinstance(constant, bool):
        return Fraction(constant)
    if column.kind == "date" and isinstance(constant, date):
        return Fraction((constant - EPOCH).days)
    if isinstance(constant, str) and (column.kind == "date" or (column.categories and column.kind != "boolean")):
        return column.place(constant)
    raise InvalidInput(_wanted(column))


def _text(constant: Constant, column: Column) -> str:
    if not isinstance(constant, str):
        raise InvalidInput(_wanted(column))
    return constant


def _wanted(column: Column) -> str:
    if column.numeric:
        return f"{column.name} is compared with a number, written without quotes, like 10 or -0.5"
    if column.kind == "boolean":
        return f"{column.name} is compared with TRUE or FALSE, without quotes"
    if column.kind == "date":
        return f"{column.name} is compared with a date in quotes, like '2024-02-29'"
    return f"{column.name} is compared with a text in quotes, like 'text'"


def _entries(lookup: str, schema: Schema) -> Predicate:
    """The rows whose key has an entry: one with a value in some column of the lookup."""
    name = lookup_named(lookup, schema)
    key = schema.column(schema.lookups[name])
    own = (column.derived for column in schema.columns.values() if column.name.startswith(f"{name}."))
    entries = (enumerate(derived.codes, key.lower) for derived in own if derived is not None)
    return Within(key.name, ranges_of(place for codes in entries for place, code in codes if code is not None))


def _counted(parts: Iterable[Part], size: Callable[[Part], int]) -> Iterator[Part]:
    """The parts, up to a limit on their sizes together."""
    total = 0
    for part in parts:
        total += size(part)
        if total > MOST_RANGES:
            raise InvalidInput(f"the condition stands for more than {MOST_RANGES} ranges of values; ask for fewer")
        yield part


def _ranges(predicate: Predicate) -> int:
    match predicate:
        case Within(_, ranges, _):
            return len(ranges)
        case OneOf(_, texts, _, _):
            return len(texts)
        case All(parts) | Some(parts):
            return sum(map(_ranges, parts))
