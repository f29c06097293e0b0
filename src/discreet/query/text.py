"""A question as people read it: SQL that reads back as the same question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from discreet.query.labels import format_aggregate_label, format_full_number, format_key_label, list_spellings
from discreet.query.predicate import TRUE, AllOf, AnyOf, Predicate
from discreet.query.query import GroupKey, OutputColumn, Query
from discreet.query.words import format_condition, format_filter, format_literal, quote_column_name, quote_identifier
from discreet.schema import Schema


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
