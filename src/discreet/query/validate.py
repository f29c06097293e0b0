"""The one check that every question passes before it is planned.

A `Query` is a value that anyone can make or change. What it means for privacy rests on rules that reading a text
enforces: columns exist and suit the aggregate, cells are not too many, ranges of codes are in order, nested cells are
those of one count. So a query is copied, turned back into the question that asks for it, and that question is resolved
against the schema by the same code that resolves a text. The query is accepted if the result equals it. Conditions are
the exception: they are resolved already, so their columns, codes and texts are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

from discreet.errors import InvalidInput
from discreet.query import ast
from discreet.query.predicates import PREDICATES, TRUE, InTexts, Predicate, iterate_conditions
from discreet.query.query import (
    Aggregate,
    CheckedQuery,
    GroupKey,
    HavingCondition,
    OutputColumn,
    Presentation,
    Query,
    check_question_text,
    count_bins,
    format_key_label,
)
from discreet.query.resolve import resolve_question
from discreet.query.to_sql import choose_spelling
from discreet.schema import Schema
from discreet.untrusted import copy_fraction, has_exact_type, require_exact_class

QUERY_CLASSES = (Query, Presentation, OutputColumn, HavingCondition, GroupKey, Aggregate, *PREDICATES)
BUILTIN_CLASSES = (str, int, bool, type(None))
MAX_QUERY_DEPTH = 200
"""Parts within parts: text nests 32 brackets, each can hold an AND and an OR, and each of these is two deep."""
NOT_A_SQL_QUERY = "no question in SQL is read as this query; write the question as SQL text"
Part = TypeVar("Part")


def validate_query(query: Query, schema: Schema) -> CheckedQuery:
    """A copy of the query; refuses one that is not what some question asks of this table, in canonical form."""
    copied_query = _copy_part(require_exact_class(query, Query, "a query must be a Query"), 0)
    for where in (copied_query.where, *(aggregate.where for aggregate in copied_query.aggregates)):
        _check_conditions(where, schema)
    resolved_query = resolve_question(_build_question(copied_query, schema), schema)
    if resolved_query != copied_query:
        raise InvalidInput(NOT_A_SQL_QUERY)
    return CheckedQuery(resolved_query)


def _copy_part(value: Any, depth: int) -> Any:
    """The same value, made anew of exactly our classes and of builtin types, so that each part is checked again."""
    kind = type(value)
    if has_exact_type(value, *BUILTIN_CLASSES):
        return value
    if depth > MAX_QUERY_DEPTH:
        raise InvalidInput(f"a query nests at most {MAX_QUERY_DEPTH} deep; ask a simpler question")
    if kind is tuple:
        return tuple([_copy_part(part, depth + 1) for part in value])
    if kind is Fraction:
        return copy_fraction(value)
    if not has_exact_type(value, *QUERY_CLASSES):
        raise InvalidInput(
            f"a query is made of texts, whole numbers and fractions, got {kind.__name__}; {NOT_A_SQL_QUERY}"
        )
    return kind(*[_copy_part(getattr(value, field.name), depth + 1) for field in fields(kind)])


def _check_conditions(where: Predicate, schema: Schema) -> None:
    """Columns can be asked about, and the values of each condition are its column's own, in order and apart."""
    conditions = list(iterate_conditions(where))
    if len(conditions) > 2 * ast.MAX_TOKENS:  # a BETWEEN is two
        raise InvalidInput(f"a question has at most {2 * ast.MAX_TOKENS} conditions; ask a simpler one")
    for condition in conditions:
        column = schema.column(condition.column)
        if column.role == "identifier":
            raise InvalidInput(f"{column.name} identifies people, so it cannot be asked about")
        if column.private_keys != isinstance(condition, InTexts):
            raise InvalidInput(f"the values of {column.name} are {'texts' if column.private_keys else 'codes'}")
        if isinstance(condition, InTexts):
            texts = condition.texts
            if not all(type(text) is str for text in texts) or list(texts) != sorted(set(texts)):
                raise InvalidInput(f"a condition on {column.name} has a list of texts, in order, each once")
            for text in texts:
                check_question_text(text)
        elif not _are_ranges_valid(condition.ranges, column.lower, column.upper):
            raise InvalidInput(f"a condition on {column.name} has ranges of its codes, rising, none touching the next")


def _are_ranges_valid(ranges: Sequence[object], lower: int, upper: int) -> bool:
    """Whether these are pairs of whole numbers that rise within the bounds, with a gap between any two."""
    spans = [span for span in ranges if type(span) is tuple and len(span) == 2]
    pairs = [(low, high) for low, high in spans if type(low) is type(high) is int]
    are_inside = len(pairs) == len(ranges) and all(lower <= low <= high <= upper for low, high in pairs)
    return are_inside and all(before[1] + 1 < after[0] for before, after in pairwise(pairs))


def _build_question(query: Query, schema: Schema) -> ast.ParsedQuestion:
    """The question that asks for a query; places that are not there are refused here."""
    if query.table != schema.name:
        raise InvalidInput(f"there is no table {query.table[:40]!r}; ask FROM {schema.name}")
    layout = query.presentation
    if query.unit is not None:
        check_question_text(query.unit)
        name = _qualify_name(query.column or "", schema)
        items = tuple(ast.SelectItem(name, output.label) for output in layout.outputs)
        return ast.ParsedQuestion(query.table, items, unit=query.unit)
    builder = _QuestionBuilder(query, schema)
    histogram = query.nesting == "ranges"
    return ast.ParsedQuestion(
        table=query.table,
        items=(ast.SelectItem(builder.build_histogram()),)
        if histogram
        else tuple(map(builder.build_item, layout.outputs)),
        joins=tuple(ast.Join(lookup, "left") for lookup in schema.lookups),
        where=ast.ResolvedCondition(query.where),
        group=() if histogram else tuple(map(builder.build_key, query.keys)),
        rollup=query.nesting == "rollup",
        having=tuple(
            ast.HavingBound(
                ast.QualifiedName(_get_part(layout.outputs, entry.output).label), entry.comparison, entry.constant
            )
            for entry in layout.having
        ),
        order=tuple((position + 1, is_descending) for position, is_descending in layout.order),
        limit=None if layout.limit is None else Fraction(layout.limit),
    )


def _qualify_name(column: str, schema: Schema) -> ast.QualifiedName:
    lookup, dot, name = column.rpartition(".")
    return ast.QualifiedName(name, lookup) if dot else ast.QualifiedName(column, schema.name)


def _get_part(parts: Sequence[Part], position: int) -> Part:
    if position >= len(parts):
        raise InvalidInput(f"a query names a place that is not there; {NOT_A_SQL_QUERY}")
    return parts[position]


class _QuestionBuilder:
    """How the parts of one query are asked for."""

    def __init__(self, query: Query, schema: Schema) -> None:
        self.query, self.schema = query, schema

    def build_key(self, key: GroupKey) -> ast.OutputReference:
        """A column, or its bins by their width in the column's own units."""
        name, step = _qualify_name(key.column, self.schema), self.schema.column(key.column).step
        return name if key.width == 1 else ast.FunctionCall("BIN", name, (key.width * step,))

    def build_histogram(self) -> ast.FunctionCall:
        """HISTOGRAM of the one key, by its number of bins."""
        (key,) = self.query.keys
        bins = Fraction(count_bins(key, self.schema))
        return ast.FunctionCall("HISTOGRAM", _qualify_name(key.column, self.schema), (bins,))

    def build_item(self, output: OutputColumn) -> ast.SelectItem:
        """An output, by a name of its own where that is not what it is called anyway."""
        if output.key is not None:
            key = _get_part(self.query.keys, output.key)
            expression, label = self.build_key(key), format_key_label(key, self.schema)
        elif output.aggregate is not None:
            expression, label = self.build_aggregate(_get_part(self.query.aggregates, output.aggregate), output)
        else:
            raise InvalidInput(f"a column of the reply is a key or an aggregate; {NOT_A_SQL_QUERY}")
        if isinstance(expression, int):
            raise InvalidInput(NOT_A_SQL_QUERY)
        return ast.SelectItem(expression, "" if label == output.label else output.label)

    def build_aggregate(self, aggregate: Aggregate, output: OutputColumn) -> tuple[ast.FunctionCall, str]:
        """A function as its label spells it, if one of its spellings is the label; else as it is usually spelt."""
        order = _get_part(aggregate.orders, output.order) if aggregate.orders else None
        function, argument, label = choose_spelling(aggregate, order, output.label, self.schema)
        column = None if argument == "*" else _qualify_name(argument, self.schema)
        numbers = () if order is None or function == "MEDIAN" else (order,)
        where = True if aggregate.where == TRUE else ast.ResolvedCondition(aggregate.where)
        return ast.FunctionCall(function, column, numbers, where), label
