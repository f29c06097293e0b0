"""Names, values and conditions as they are written in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from fractions import Fraction

from discreet.query.labels import format_full_number
from discreet.query.predicate import TRUE, AllOf, AnyOf, Codes, InRanges, InTexts, Predicate
from discreet.query.sets import find_code_gaps
from discreet.schema import Column, Schema
from discreet.schema.column import Value

PLAIN_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED_WORDS = {
    "select",
    "distinct",
    "from",
    "join",
    "left",
    "inner",
    "outer",
    "on",
    "using",
    "where",
    "group",
    "having",
}
RESERVED_WORDS |= {
    "order",
    "by",
    "limit",
    "and",
    "or",
    "not",
    "in",
    "is",
    "between",
    "null",
    "true",
    "false",
    "as",
    "asc",
}
RESERVED_WORDS |= {"desc", "date", "for"}
AND, OR = " AND ", " OR "
FormatColumn = Callable[[str], str]
"""How a column is written: with its table where there are several."""


def quote_identifier(name: str) -> str:
    """A name, in quotes where it needs them."""
    if PLAIN_IDENTIFIER.fullmatch(name) and name.lower() not in RESERVED_WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def format_literal(value: Value) -> str:
    """A constant."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | Fraction):
        return format_full_number(Fraction(value))
    text = value.isoformat() if isinstance(value, date) else value
    return "'" + text.replace("'", "''") + "'"


def format_condition(predicate: Predicate, schema: Schema, format_column: FormatColumn) -> str:
    """A predicate as a condition that is true of the same rows."""
    word, parts = _format_parts(predicate, schema, format_column)
    return word.join(parts) or ("TRUE" if word == AND else "FALSE")


def format_filter(where: Predicate, schema: Schema, format_column: FormatColumn) -> str:
    """What is written after a count that has a condition of its own."""
    return "" if where == TRUE else f" FILTER (WHERE {format_condition(where, schema, format_column)})"


def quote_column_name(column: str) -> str:
    """A column by its full name."""
    return ".".join(map(quote_identifier, column.split(".")))


def _format_parts(predicate: Predicate, schema: Schema, format_column: FormatColumn) -> tuple[str, list[str]]:
    match predicate:
        case InRanges(column, ranges, null):
            parts = _format_ranges(ranges, schema.column(column), format_column(column))
        case InTexts(column, _, _, null):
            parts = _format_texts(predicate, format_column(column))
        case AllOf(inside):
            return AND, [_format_in_brackets(part, schema, format_column) for part in inside]
        case AnyOf(inside):
            return OR, [_format_in_brackets(part, schema, format_column) for part in inside]
    return OR, [*parts, f"{format_column(column)} IS NULL"] if null else parts


def _format_in_brackets(predicate: Predicate, schema: Schema, format_column: FormatColumn) -> str:
    word, parts = _format_parts(predicate, schema, format_column)
    return f"({word.join(parts)})" if len(parts) > 1 else format_condition(predicate, schema, format_column)


def _format_texts(condition: InTexts, name: str) -> list[str]:
    values = [format_literal(text) for text in condition.texts]
    if not values:
        return [f"{name} IS NOT NULL"] if condition.outside else []
    return [_format_not_in(name, values) if condition.outside else _format_in(name, values)]


def _format_ranges(ranges: Codes, column: Column, name: str) -> list[str]:
    """Values one by one where they have no order, else spans; what is left out, where that is shorter."""
    others = find_code_gaps(ranges, column)
    if ranges and not others:
        return [f"{name} IS NOT NULL"]
    if column.is_ordered:
        are_single = all(low == high for low, high in others)
        is_negation_shorter = are_single and len(others) <= len(ranges) > 1
    else:
        ranges, others = _split_into_codes(ranges), _split_into_codes(others)
        is_negation_shorter = len(others) < len(ranges)
    if is_negation_shorter:
        return [_format_not_in(name, _format_code_values(others, column))]
    values = _format_code_values([span for span in ranges if span[0] == span[1]], column)
    spans = [_format_code_range(low, high, column, name) for low, high in ranges if low < high]
    return [*spans, _format_in(name, values)] if values else spans


def _split_into_codes(ranges: Codes) -> Codes:
    return tuple((code, code) for low, high in ranges for code in range(low, high + 1))


def _format_code_values(singles: Sequence[tuple[int, int]], column: Column) -> list[str]:
    return [format_literal(column.decode(code)) for code, _ in singles]


def _format_code_range(low: int, high: int, column: Column, name: str) -> str:
    first, last = format_literal(column.decode(low)), format_literal(column.decode(high))
    if low == column.lower:
        return f"{name} <= {last}"
    return f"{name} >= {first}" if high == column.upper else f"{name} BETWEEN {first} AND {last}"


def _format_in(name: str, values: Sequence[str]) -> str:
    return f"{name} = {values[0]}" if len(values) == 1 else f"{name} IN ({', '.join(values)})"


def _format_not_in(name: str, values: Sequence[str]) -> str:
    return f"{name} <> {values[0]}" if len(values) == 1 else f"{name} NOT IN ({', '.join(values)})"
