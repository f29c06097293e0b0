"""The one check that every query passes before it is planned, whoever made it.

A `Query` is a value that anyone can make or change. What it means for privacy rests on rules that reading a text
enforces: columns exist and suit the aggregate, cells are not too many, ranges of codes are in order, nested cells are
those of one count. So a query is copied, turned back into the question that asks for it, and that question is resolved
against the schema by the same code that resolves a text. The query is accepted if the result equals it. Conditions are
the exception: they are resolved already, so their columns, codes and texts are checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from itertools import pairwise
from typing import Any

from discreet.errors import InvalidInput
from discreet.plain import is_exactly, plain_fraction, require_own
from discreet.query.asked import MOST_PARTS, Bound, Call, Item, Join, Name, Place, Question, Rows, check_text
from discreet.query.labels import aggregate_label, key_label, spellings_of
from discreet.query.predicate import PREDICATES, TRUE, All, OneOf, Predicate, Some, Within
from discreet.query.query import Aggregate, Having, Key, Output, Presentation, Query
from discreet.query.resolve import resolve
from discreet.query.words import filter_text, plain_name
from discreet.schema import Schema

KINDS = (Query, Presentation, Output, Having, Key, Aggregate, *PREDICATES)
PLAIN = (str, int, bool, type(None))
DEEPEST = 200
"""Parts within parts: text nests 32 brackets, each can hold an AND and an OR, and each of these is two deep."""
NOT_READ = "no question in SQL is read as this query; write the question as text, or make the query with read"


def checked_query(query: Query, schema: Schema) -> Query:
    """A copy of the query; refuses one that is not what some question asks of this table, in canonical form."""
    own = _copied(require_own(query, Query, "a query must be a Query"), 0)
    for where in (own.where, *(one.where for one in own.aggregates)):
        _check_conditions(where, schema)
    found = resolve(_question(own, schema), schema)
    if found != own:
        raise InvalidInput(NOT_READ)
    return found


def _copied(value: Any, depth: int) -> Any:
    """The same value, made anew of exactly our classes and of builtin types, so that each part is checked again."""
    kind = type(value)
    if is_exactly(value, *PLAIN):
        return value
    if depth > DEEPEST:
        raise InvalidInput(f"a query nests at most {DEEPEST} deep; ask a simpler question")
    if kind is tuple:
        return tuple([_copied(part, depth + 1) for part in value])
    if kind is Fraction:
        return plain_fraction(value)
    if not is_exactly(value, *KINDS):
        raise InvalidInput(f"a query is made of texts, whole numbers and fractions, got {kind.__name__}; {NOT_READ}")
    return kind(*[_copied(getattr(value, field.name), depth + 1) for field in fields(kind)])


def _check_conditions(where: Predicate, schema: Schema) -> None:
    """Columns can be asked about, and the values of each condition are its column's own, in order and apart."""
    conditions = list(_conditions(where))
    if len(conditions) > 2 * MOST_PARTS:  # a BETWEEN is two
        raise InvalidInput(f"a question has at most {2 * MOST_PARTS} conditions; ask a simpler one")
    for one in conditions:
        column = schema.column(one.column)
        if column.role == "identifier":
            raise InvalidInput(f"{column.name} identifies people, so it cannot be asked about")
        if column.private_keys != isinstance(one, OneOf):
            raise InvalidInput(f"the values of {column.name} are {'texts' if column.private_keys else 'codes'}")
        if isinstance(one, OneOf):
            _check_texts(one)
        elif not _in_order(one.ranges, column.lower, column.upper):
            raise InvalidInput(f"a condition on {column.name} has ranges of its codes, rising, none touching the next")


def _conditions(where: Predicate) -> Iterator[Within | OneOf]:
    if isinstance(where, All | Some):
        for part in where.parts:
            yield from _conditions(part)
    else:
        yield where


def _check_texts(one: OneOf) -> None:
    if not all(type(text) is str for text in one.texts) or list(one.texts) != sorted(set(one.texts)):
        raise InvalidInput(f"a condition on {one.column} has a list of texts, in order, each once")
    for text in one.texts:
        check_text(text)


def _in_order(ranges: tuple[Any, ...], lower: int, upper: int) -> bool:
    """Whether these are pairs of whole numbers that rise within the bounds, with a gap between any two."""
    if not all(type(span) is tuple and len(span) == 2 and type(span[0]) is type(span[1]) is int for span in ranges):
        return False
    within = all(lower <= low <= high <= upper for low, high in ranges)
    return within and all(before[1] + 1 < after[0] for before, after in pairwise(ranges))


def _question(query: Query, schema: Schema) -> Question:
    """The question that asks for a query; places that are not there are refused here."""
    if query.table != schema.name:
        raise InvalidInput(f"there is no table {query.table[:40]!r}; ask FROM {schema.name}")
    layout = query.presentation
    if query.unit is not None:
        check_text(query.unit)
        items = tuple(Item(_name(query.column or "", schema), one.label) for one in layout.outputs)
        return Question(query.table, items, unit=query.unit)
    asking = _Asking(query, schema)
    histogram = query.nesting == "ranges"
    return Question(
        table=query.table,
        items=(Item(asking.histogram()),) if histogram else tuple(map(asking.item, layout.outputs)),
        joins=tuple(Join(lookup, "left") for lookup in schema.lookups),
        where=Rows(query.where),
        group=() if histogram else tuple(map(asking.key, query.keys)),
        rollup=query.nesting == "rollup",
        having=tuple(
            Bound(Name(_at(layout.outputs, one.output).label), one.comparison, one.constant) for one in layout.having
        ),
        order=tuple((place + 1, falling) for place, falling in layout.order),
        limit=None if layout.limit is None else Fraction(layout.limit),
    )


def _name(column: str, schema: Schema) -> Name:
    """A column with its table."""
    lookup, dot, name = column.rpartition(".")
    return Name(name, lookup) if dot else Name(column, schema.name)


def _at(parts: tuple[Any, ...], place: int) -> Any:
    if place >= len(parts):
        raise InvalidInput(f"a query names a place that is not there; {NOT_READ}")
    return parts[place]


class _Asking:
    """How the parts of one query are asked for."""

    def __init__(self, query: Query, schema: Schema) -> None:
        self.query, self.schema = query, schema

    def key(self, key: Key) -> Place:
        """A column, or its bins by their width in the column's own units."""
        column = self.schema.column(key.column)
        name = _name(key.column, self.schema)
        return name if key.width == 1 else Call("BIN", name, (key.width * column.step,))

    def histogram(self) -> Call:
        """HISTOGRAM of the one key, by its number of bins."""
        (key,) = self.query.keys
        bins = -(-self.schema.column(key.column).size // key.width)
        return Call("HISTOGRAM", _name(key.column, self.schema), (Fraction(bins),))

    def item(self, output: Output) -> Item:
        """An output, by a name of its own where that is not what it is called anyway."""
        if output.key is not None:
            key = _at(self.query.keys, output.key)
            what, label = self.key(key), key_label(key, self.schema)
        elif output.aggregate is not None:
            what, label = self.aggregate(_at(self.query.aggregates, output.aggregate), output)
        else:
            raise InvalidInput(f"a column of the reply is a key or an aggregate; {NOT_READ}")
        if isinstance(what, int):
            raise InvalidInput(NOT_READ)
        return Item(what, "" if label == output.label else output.label)

    def aggregate(self, aggregate: Aggregate, output: Output) -> tuple[Call, str]:
        """A function as its label spells it, if one of its spellings is the label; else as it is usually spelt."""
        order = _at(aggregate.orders, output.order) if aggregate.orders else None
        filtered = filter_text(aggregate.where, self.schema, plain_name)
        spelt = [
            (spelling, argument, aggregate_label(spelling, argument, order) + filtered)
            for spelling, argument in spellings_of(aggregate, self.schema)
            if spelling != "MEDIAN" or order == Fraction(1, 2)
        ]
        function, argument, label = next((one for one in spelt if one[2] == output.label), spelt[0])
        column = None if argument == "*" else _name(argument, self.schema)
        numbers = () if order is None or function == "MEDIAN" else (order,)
        where = True if aggregate.where == TRUE else Rows(aggregate.where)
        return Call(function, column, numbers, where), label
