"""Write a question as SQL that reads back as the same question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from discreet.query.predicates import TRUE, AllOf, AnyOf, Codes, InRanges, InTexts, Predicate, find_code_gaps
from discreet.query.query import (
    GroupKey,
    OutputColumn,
    Query,
    format_aggregate_label,
    format_full_number,
    format_key_label,
    list_spellings,
)
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


def to_sql(query: Query, schema: Schema) -> str:
    """A text for history; `parse_sql` reads the same question from it, unless it is too long or a number has no end."""
    return _SqlWriter(query, schema, _find_lookups(query)).write_query()


def _find_lookups(query: Query) -> tuple[str, ...]:
    """The lookups whose columns are used."""
    used_columns = {
        *_iterate_columns(query.where),
        *(key.column for key in query.keys),
        *(aggregate.column for aggregate in query.aggregates),
    }
    used_columns |= {column for aggregate in query.aggregates for column in _iterate_columns(aggregate.where)}
    return tuple(sorted({column.partition(".")[0] for column in used_columns if column and "." in column}))


def _iterate_columns(predicate: Predicate) -> Iterator[str]:
    if isinstance(predicate, AllOf | AnyOf):
        for part in predicate.parts:
            yield from _iterate_columns(part)
    else:
        yield predicate.column


@dataclass(frozen=True, slots=True)
class _SqlWriter:
    query: Query
    schema: Schema
    lookups: tuple[str, ...]

    def write_query(self) -> str:
        query = self.query
        clauses = [f"SELECT {self.write_histogram() or ', '.join(map(self.write_output, query.presentation.outputs))}"]
        clauses.append(f"FROM {quote_identifier(self.schema.name)}")
        if query.unit is not None:
            return " ".join([*clauses, f"FOR UNIT {format_literal(query.unit)}"])
        joined_lookups = ((lookup, quote_identifier(self.schema.lookups[lookup])) for lookup in self.lookups)
        clauses += [f"LEFT JOIN {quote_identifier(lookup)} USING ({key})" for lookup, key in joined_lookups]
        if query.where != TRUE:
            clauses.append(f"WHERE {format_condition(query.where, self.schema, self.write_name)}")
        if query.keys and query.nesting != "ranges":
            keys = ", ".join(map(self.write_key, query.keys))
            clauses.append(f"GROUP BY ROLLUP ({keys})" if query.nesting == "rollup" else f"GROUP BY {keys}")
        return " ".join([*clauses, *self.write_layout()])

    def write_name(self, column: str) -> str:
        """A column, with its table where lookups are joined."""
        full = f"{self.schema.name}.{column}" if self.lookups and "." not in column else column
        return quote_column_name(full)

    def write_key(self, key: GroupKey) -> str:
        width = format_full_number(key.width * self.schema.column(key.column).step)
        return self.write_name(key.column) if key.width == 1 else f"BIN({self.write_name(key.column)}, {width})"

    def write_histogram(self) -> str:
        """HISTOGRAM(x, bins), where that was asked; with so many bins the width is the same again."""
        if self.query.nesting != "ranges":
            return ""
        (key,) = self.query.keys
        return f"HISTOGRAM({self.write_name(key.column)}, {-(-self.schema.column(key.column).size // key.width)})"

    def write_output(self, output: OutputColumn) -> str:
        """An output, and its name where that is not what it is called anyway."""
        text, label = self.write_expression(output)
        return text if label == output.label else f"{text} AS {quote_identifier(output.label)}"

    def write_expression(self, output: OutputColumn) -> tuple[str, str]:
        """An output as it is written, and what it is then called."""
        if output.key is not None:
            key = self.query.keys[output.key]
            return self.write_key(key), format_key_label(key, self.schema)
        if output.aggregate is None:
            return self.write_name(self.query.column or ""), self.query.column or ""
        return self.write_aggregate(output.aggregate, output)

    def write_aggregate(self, position: int, output: OutputColumn) -> tuple[str, str]:
        """Spelt as it was asked, where the label shows how."""
        aggregate = self.query.aggregates[position]
        order = aggregate.orders[output.order] if aggregate.orders else None
        spellings = list_spellings(aggregate, self.schema)
        spellings = [way for way in spellings if way[0] != "MEDIAN" or order == Fraction(1, 2)]
        label_suffix, filter_suffix = (
            format_filter(aggregate.where, self.schema, name) for name in (quote_column_name, self.write_name)
        )
        label_matches = [way for way in spellings if format_aggregate_label(*way, order) + label_suffix == output.label]
        spelling, argument = (label_matches or spellings)[0]
        written_argument = argument if argument == "*" else self.write_name(argument)
        return format_aggregate_label(spelling, written_argument, order) + filter_suffix, format_aggregate_label(
            spelling, argument, order
        ) + label_suffix

    def write_layout(self) -> Iterator[str]:
        """HAVING, ORDER BY and LIMIT."""
        layout = self.query.presentation
        if layout.having:
            labeled_conditions = (
                (self.write_label(layout.outputs[condition.output]), condition) for condition in layout.having
            )
            bounds = (
                f"{name} {condition.comparison} {format_full_number(condition.constant)}"
                for name, condition in labeled_conditions
            )
            yield f"HAVING {' AND '.join(bounds)}"
        if layout.order:
            order_terms = (
                f"{position + 1} DESC" if is_descending else str(position + 1)
                for position, is_descending in layout.order
            )
            yield f"ORDER BY {', '.join(order_terms)}"
        if layout.limit is not None:
            yield f"LIMIT {layout.limit}"

    def write_label(self, output: OutputColumn) -> str:
        text, label = self.write_expression(output)
        return text if label == output.label else quote_identifier(output.label)
