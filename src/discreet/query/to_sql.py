"""Write a question as SQL that reads back as the same question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from discreet.query import predicates
from discreet.query.predicates import TRUE, AllOf, AnyOf, Codes, InRanges, InTexts, Predicate
from discreet.query.query import (
    Aggregate,
    GroupKey,
    HavingCondition,
    OutputColumn,
    Query,
    count_bins,
    format_aggregate_label,
    format_full_number,
    format_key_label,
    list_spellings,
)
from discreet.schema import Column, Schema
from discreet.schema.schema import Value

PLAIN_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CLAUSE_WORDS = "select distinct from join left inner outer on using where group having order by limit as asc desc for"
CONDITION_WORDS = "and or not in is between null true false date"
RESERVED_WORDS = {*CLAUSE_WORDS.split(), *CONDITION_WORDS.split()}
AND, OR = " AND ", " OR "
FormatColumn = Callable[[str], str]
"""How a column is written: with its table where there are several."""


def quote_identifier(name: str) -> str:
    """Put a name in quotes where it needs them."""
    if PLAIN_IDENTIFIER.fullmatch(name) and name.lower() not in RESERVED_WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def format_literal(value: Value) -> str:
    """Format a constant of a column."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | Fraction):
        return format_full_number(Fraction(value))
    text = value.isoformat() if isinstance(value, date) else value
    return "'" + text.replace("'", "''") + "'"


def format_condition(predicate: Predicate, schema: Schema, format_column: FormatColumn) -> str:
    """Format a predicate as a condition that is true of the same rows."""
    word, parts = _format_parts(predicate, schema, format_column)
    return word.join(parts) or ("TRUE" if word == AND else "FALSE")


def format_filter(where: Predicate, schema: Schema, format_column: FormatColumn) -> str:
    """Format what is written after a count that has a condition of its own."""
    return "" if where == TRUE else f" FILTER (WHERE {format_condition(where, schema, format_column)})"


def quote_column_name(column: str) -> str:
    """Quote a column's full name, part by part."""
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
    return [_format_in(name, values, negated=condition.outside)]


def _format_ranges(ranges: Codes, column: Column, name: str) -> list[str]:
    """Values one by one where they have no order, else spans; what is left out, where that is shorter."""
    others = predicates.find_code_gaps(ranges, column)
    if ranges and not others:
        return [f"{name} IS NOT NULL"]
    if column.is_ordered:
        are_single = all(low == high for low, high in others)
        is_negation_shorter = are_single and len(others) <= len(ranges) > 1
    else:
        ranges, others = _split_into_codes(ranges), _split_into_codes(others)
        is_negation_shorter = len(others) < len(ranges)
    if is_negation_shorter:
        return [_format_in(name, [format_literal(column.decode(code)) for code, _ in others], negated=True)]
    values = [format_literal(column.decode(low)) for low, high in ranges if low == high]
    spans = [_format_code_range(low, high, column, name) for low, high in ranges if low < high]
    return [*spans, _format_in(name, values)] if values else spans


def _split_into_codes(ranges: Codes) -> Codes:
    return tuple((code, code) for low, high in ranges for code in range(low, high + 1))


def _format_code_range(low: int, high: int, column: Column, name: str) -> str:
    first, last = format_literal(column.decode(low)), format_literal(column.decode(high))
    if low == column.lower:
        return f"{name} <= {last}"
    return f"{name} >= {first}" if high == column.upper else f"{name} BETWEEN {first} AND {last}"


def _format_in(name: str, values: Sequence[str], *, negated: bool = False) -> str:
    if len(values) == 1:
        return f"{name} {'<>' if negated else '='} {values[0]}"
    return f"{name} {'NOT IN' if negated else 'IN'} ({', '.join(values)})"


def choose_spelling(aggregate: Aggregate, order: Fraction | None, label: str, schema: Schema) -> tuple[str, str, str]:
    """Choose how an aggregate is written: as its label shows, else as usual; a function, its argument and the label."""
    suffix = format_filter(aggregate.where, schema, quote_column_name)
    spellings = [
        (function, argument, format_aggregate_label(function, argument, order) + suffix)
        for function, argument in list_spellings(aggregate, schema)
        if function != "MEDIAN" or order == Fraction(1, 2)
    ]
    return next((spelling for spelling in spellings if spelling[2] == label), spellings[0])


def to_sql(query: Query, schema: Schema) -> str:
    """Write a question as `parse_sql` reads it again, unless it is too long or a number in it has no end."""
    return _SqlWriter(query, schema, _find_lookups(query)).write_query()


def _find_lookups(query: Query) -> tuple[str, ...]:
    conditions = [query.where, *(aggregate.where for aggregate in query.aggregates)]
    used_columns = {condition.column for where in conditions for condition in predicates.iterate_conditions(where)}
    used_columns |= {key.column for key in query.keys} | {aggregate.column or "" for aggregate in query.aggregates}
    return tuple(sorted({column.partition(".")[0] for column in used_columns if "." in column}))


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
        return format_key_label(key, self.schema, self.write_name)

    def write_histogram(self) -> str:
        """HISTOGRAM(x, bins), where that was asked; with so many bins the width is the same again."""
        if self.query.nesting != "ranges":
            return ""
        (key,) = self.query.keys
        return f"HISTOGRAM({self.write_name(key.column)}, {count_bins(key, self.schema)})"

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
        aggregate = self.query.aggregates[output.aggregate]
        order = aggregate.orders[output.order] if aggregate.orders else None
        function, argument, label = choose_spelling(aggregate, order, output.label, self.schema)
        text = format_aggregate_label(function, argument if argument == "*" else self.write_name(argument), order)
        return text + format_filter(aggregate.where, self.schema, self.write_name), label

    def write_layout(self) -> Iterator[str]:
        """HAVING, ORDER BY and LIMIT."""
        layout = self.query.presentation
        if layout.having:
            yield f"HAVING {AND.join(map(self.write_bound, layout.having))}"
        if layout.order:
            terms = (f"{position + 1}{' DESC' if descending else ''}" for position, descending in layout.order)
            yield f"ORDER BY {', '.join(terms)}"
        if layout.limit is not None:
            yield f"LIMIT {layout.limit}"

    def write_bound(self, bound: HavingCondition) -> str:
        output = self.query.presentation.outputs[bound.output]
        text, label = self.write_expression(output)
        name = text if label == output.label else quote_identifier(output.label)
        return f"{name} {bound.comparison} {format_full_number(bound.constant)}"
