"""Names, values and conditions as they are written in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from fractions import Fraction

from discreet.query.labels import number_text
from discreet.query.predicate import TRUE, All, Codes, OneOf, Predicate, Some, Within
from discreet.query.sets import gaps
from discreet.schema import Column, Schema
from discreet.schema.column import Value

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = {"select", "distinct", "from", "join", "left", "inner", "outer", "on", "using", "where", "group", "having"}
RESERVED |= {"order", "by", "limit", "and", "or", "not", "in", "is", "between", "null", "true", "false", "as", "asc"}
RESERVED |= {"desc", "date", "for"}
AND, OR = " AND ", " OR "
Naming = Callable[[str], str]
"""How a column is written: with its table where there are several."""


def identifier(name: str) -> str:
    """A name, in quotes where it needs them."""
    if PLAIN.fullmatch(name) and name.lower() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def literal(value: Value) -> str:
    """A constant."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | Fraction):
        return number_text(Fraction(value))
    text = value.isoformat() if isinstance(value, date) else value
    return "'" + text.replace("'", "''") + "'"


def condition_text(predicate: Predicate, schema: Schema, name: Naming) -> str:
    """A predicate as a condition that is true of the same rows."""
    word, parts = _parts(predicate, schema, name)
    return word.join(parts) or ("TRUE" if word == AND else "FALSE")


def filter_text(where: Predicate, schema: Schema, name: Naming) -> str:
    """What is written after a count that has a condition of its own."""
    return "" if where == TRUE else f" FILTER (WHERE {condition_text(where, schema, name)})"


def plain_name(column: str) -> str:
    """A column by its full name."""
    return ".".join(map(identifier, column.split(".")))


def _parts(predicate: Predicate, schema: Schema, name: Naming) -> tuple[str, list[str]]:
    match predicate:
        case Within(column, ranges, null):
            parts = _ranges(ranges, schema.column(column), name(column))
        case OneOf(column, _, _, null):
            parts = _texts(predicate, name(column))
        case All(inside):
            return AND, [_bracketed(part, schema, name) for part in inside]
        case Some(inside):
            return OR, [_bracketed(part, schema, name) for part in inside]
    return OR, [*parts, f"{name(column)} IS NULL"] if null else parts


def _bracketed(predicate: Predicate, schema: Schema, name: Naming) -> str:
    word, parts = _parts(predicate, schema, name)
    return f"({word.join(parts)})" if len(parts) > 1 else condition_text(predicate, schema, name)


def _texts(one: OneOf, name: str) -> list[str]:
    values = [literal(text) for text in one.texts]
    if not values:
        return [f"{name} IS NOT NULL"] if one.outside else []
    return [_none_of(name, values) if one.outside else _one_of(name, values)]


def _ranges(ranges: Codes, column: Column, name: str) -> list[str]:
    """Values one by one where they have no order, else spans; what is left out, where that is shorter."""
    others = gaps(ranges, column)
    if ranges and not others:
        return [f"{name} IS NOT NULL"]
    if column.ordered:
        singles = all(low == high for low, high in others)
        shorter = singles and len(others) <= len(ranges) > 1
    else:
        ranges, others = _each(ranges), _each(others)
        shorter = len(others) < len(ranges)
    if shorter:
        return [_none_of(name, _values(others, column))]
    values = _values([span for span in ranges if span[0] == span[1]], column)
    spans = [_span(low, high, column, name) for low, high in ranges if low < high]
    return [*spans, _one_of(name, values)] if values else spans


def _each(ranges: Codes) -> Codes:
    return tuple((code, code) for low, high in ranges for code in range(low, high + 1))


def _values(singles: Sequence[tuple[int, int]], column: Column) -> list[str]:
    return [literal(column.value(code)) for code, _ in singles]


def _span(low: int, high: int, column: Column, name: str) -> str:
    first, last = literal(column.value(low)), literal(column.value(high))
    if low == column.lower:
        return f"{name} <= {last}"
    return f"{name} >= {first}" if high == column.upper else f"{name} BETWEEN {first} AND {last}"


def _one_of(name: str, values: Sequence[str]) -> str:
    return f"{name} = {values[0]}" if len(values) == 1 else f"{name} IN ({', '.join(values)})"


def _none_of(name: str, values: Sequence[str]) -> str:
    return f"{name} <> {values[0]}" if len(values) == 1 else f"{name} NOT IN ({', '.join(values)})"
