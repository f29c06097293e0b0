"""Sets of the values of one column, as conditions on it: what two have in common, and what one leaves out."""

from __future__ import annotations

from collections.abc import Iterable

from discreet.errors import Internal
from discreet.query.predicate import Codes, OneOf, Within
from discreet.schema import Column, Schema

Condition = Within | OneOf


def whole(column: Column) -> Condition:
    """All values, and the missing one where there may be one: true of every row."""
    if column.private_keys:
        return OneOf(column.name, (), outside=True, null=column.nullable)
    return Within(column.name, ((column.lower, column.upper),), null=column.nullable)


def is_void(one: Condition) -> bool:
    """Whether no value satisfies it."""
    if isinstance(one, OneOf):
        return not (one.texts or one.outside or one.null)
    return not (one.ranges or one.null)


def meet(one: Condition, two: Condition) -> Condition:
    """The values of both; of the same column."""
    null = one.null and two.null
    if isinstance(one, Within) and isinstance(two, Within):
        return Within(one.column, _common(one.ranges, two.ranges), null)
    if not (isinstance(one, OneOf) and isinstance(two, OneOf)):
        raise Internal("a column has either codes or texts")
    first, second = set(one.texts), set(two.texts)
    if one.outside and two.outside:
        return OneOf(one.column, tuple(sorted(first | second)), True, null)
    common = second - first if one.outside else first - second if two.outside else first & second
    return OneOf(one.column, tuple(sorted(common)), False, null)


def complement(one: Condition, column: Column) -> Condition:
    """All other values of the column, the missing one included."""
    null = column.nullable and not one.null
    if isinstance(one, OneOf):
        return OneOf(one.column, tuple(sorted(set(one.texts))), not one.outside, null)
    return Within(one.column, gaps(one.ranges, column), null)


def unite(one: Condition, two: Condition, schema: Schema) -> Condition:
    """The values of either; of the same column."""
    column = schema.column(one.column)
    return complement(meet(complement(one, column), complement(two, column)), column)


def gaps(ranges: Codes, column: Column) -> Codes:
    """The codes of the column that are in none of the ranges."""
    found, start = [], column.lower
    for low, high in ranges:
        if start < low:
            found.append((start, min(low - 1, column.upper)))
        start = max(start, high + 1)
    if start <= column.upper:
        found.append((start, column.upper))
    return tuple((low, high) for low, high in found if low <= high)


def merged(ranges: Iterable[tuple[int, int]]) -> Codes:
    """Any ranges in rising order, those that overlap or touch made one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return tuple(found)


def ranges_of(codes: Iterable[int]) -> Codes:
    """Single codes as ranges."""
    return merged((code, code) for code in codes)


def _common(one: Codes, two: Codes) -> Codes:
    """The intersection, in one walk over both."""
    found, at, other = [], 0, 0
    while at < len(one) and other < len(two):
        low, high = max(one[at][0], two[other][0]), min(one[at][1], two[other][1])
        if low <= high:
            found.append((low, high))
        if one[at][1] < two[other][1]:
            at += 1
        else:
            other += 1
    return tuple(found)
