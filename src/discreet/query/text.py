"""A question as people read it: SQL that reads back as the same question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from discreet.query.labels import aggregate_label, key_label, number_text, spellings_of
from discreet.query.predicate import TRUE, All, Predicate, Some
from discreet.query.query import Key, Output, Query
from discreet.query.words import condition_text, filter_text, identifier, literal, plain_name
from discreet.schema import Schema


def to_sql(query: Query, schema: Schema) -> str:
    """A text for history; `parse_sql` reads the same question from it, unless it is too long or a number has no end."""
    return _Writer(query, schema, _lookups(query)).text()


def _lookups(query: Query) -> tuple[str, ...]:
    """The lookups whose columns are used."""
    used = {*_columns(query.where), *(key.column for key in query.keys), *(one.column for one in query.aggregates)}
    used |= {column for one in query.aggregates for column in _columns(one.where)}
    return tuple(sorted({column.partition(".")[0] for column in used if column and "." in column}))


def _columns(predicate: Predicate) -> Iterator[str]:
    if isinstance(predicate, All | Some):
        for part in predicate.parts:
            yield from _columns(part)
    else:
        yield predicate.column


@dataclass(frozen=True, slots=True)
class _Writer:
    query: Query
    schema: Schema
    lookups: tuple[str, ...]

    def text(self) -> str:
        query = self.query
        clauses = [f"SELECT {self.histogram() or ', '.join(map(self.selected, query.presentation.outputs))}"]
        clauses.append(f"FROM {identifier(self.schema.name)}")
        if query.unit is not None:
            return " ".join([*clauses, f"FOR UNIT {literal(query.unit)}"])
        joined = ((lookup, identifier(self.schema.lookups[lookup])) for lookup in self.lookups)
        clauses += [f"LEFT JOIN {identifier(lookup)} USING ({key})" for lookup, key in joined]
        if query.where != TRUE:
            clauses.append(f"WHERE {condition_text(query.where, self.schema, self.name)}")
        if query.keys and query.nesting != "ranges":
            keys = ", ".join(map(self.key, query.keys))
            clauses.append(f"GROUP BY ROLLUP ({keys})" if query.nesting == "rollup" else f"GROUP BY {keys}")
        return " ".join([*clauses, *self.layout()])

    def name(self, column: str) -> str:
        """A column, with its table where lookups are joined."""
        full = f"{self.schema.name}.{column}" if self.lookups and "." not in column else column
        return plain_name(full)

    def key(self, key: Key) -> str:
        width = number_text(key.width * self.schema.column(key.column).step)
        return self.name(key.column) if key.width == 1 else f"BIN({self.name(key.column)}, {width})"

    def histogram(self) -> str:
        """HISTOGRAM(x, bins), where that was asked; with so many bins the width is the same again."""
        if self.query.nesting != "ranges":
            return ""
        (key,) = self.query.keys
        return f"HISTOGRAM({self.name(key.column)}, {-(-self.schema.column(key.column).size // key.width)})"

    def selected(self, output: Output) -> str:
        """An output, and its name where that is not what it is called anyway."""
        text, label = self.expression(output)
        return text if label == output.label else f"{text} AS {identifier(output.label)}"

    def expression(self, output: Output) -> tuple[str, str]:
        """An output as it is written, and what it is then called."""
        if output.key is not None:
            key = self.query.keys[output.key]
            return self.key(key), key_label(key, self.schema)
        if output.aggregate is None:
            return self.name(self.query.column or ""), self.query.column or ""
        return self.aggregate(output.aggregate, output)

    def aggregate(self, place: int, output: Output) -> tuple[str, str]:
        """Spelt as it was asked, where the label shows how."""
        aggregate = self.query.aggregates[place]
        order = aggregate.orders[output.order] if aggregate.orders else None
        ways = spellings_of(aggregate, self.schema)
        ways = [way for way in ways if way[0] != "MEDIAN" or order == Fraction(1, 2)]
        told, text = (filter_text(aggregate.where, self.schema, name) for name in (plain_name, self.name))
        asked = [way for way in ways if aggregate_label(*way, order) + told == output.label]
        spelling, argument = (asked or ways)[0]
        written = argument if argument == "*" else self.name(argument)
        return aggregate_label(spelling, written, order) + text, aggregate_label(spelling, argument, order) + told

    def layout(self) -> Iterator[str]:
        """HAVING, ORDER BY and LIMIT."""
        layout = self.query.presentation
        if layout.having:
            named = ((self.called(layout.outputs[one.output]), one) for one in layout.having)
            bounds = (f"{name} {one.comparison} {number_text(one.constant)}" for name, one in named)
            yield f"HAVING {' AND '.join(bounds)}"
        if layout.order:
            places = (f"{place + 1} DESC" if falling else str(place + 1) for place, falling in layout.order)
            yield f"ORDER BY {', '.join(places)}"
        if layout.limit is not None:
            yield f"LIMIT {layout.limit}"

    def called(self, output: Output) -> str:
        text, label = self.expression(output)
        return text if label == output.label else identifier(output.label)
