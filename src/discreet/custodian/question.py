"""A question as people write it."""

from __future__ import annotations

import math

from discreet.errors import InvalidInput
from discreet.plain import is_a, plain_text
from discreet.query import parse_sql
from discreet.query.checked import checked_query
from discreet.query.query import Query
from discreet.schema import Schema

Question = str | Query


def read(question: Question, schema: Schema) -> Query:
    """A question from SQL text; a query passes the same checks as its text would."""
    if is_a(question, Query):
        return checked_query(question, schema)  # type: ignore[arg-type]
    if not is_a(question, str):
        raise InvalidInput(f"a question is SQL text, got {type(question).__name__}")
    return parse_sql(plain_text(question, "a question"), schema)


def numbers_told(query: Query, schema: Schema) -> int:
    """How many numbers the reply has at most, over all its rows, from public facts."""
    columns = [(schema.column(key.column), key.width) for key in query.keys]
    sizes = [-(-column.size // width) + column.nullable for column, width in columns]
    totals = range(len(sizes)) if query.nesting == "rollup" else ()
    rows = math.prod(sizes) + sum(math.prod(sizes[:first]) for first in totals)
    drawn = sum(max(1, len(one.orders)) for one in query.aggregates)
    laid_out = sum(one.key is None for one in query.presentation.outputs)
    return rows * max(1, drawn, laid_out)
