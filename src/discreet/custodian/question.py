"""A question as people write it."""

from __future__ import annotations

import math

from discreet.errors import InvalidInput
from discreet.plain import copy_text, has_type
from discreet.query import parse_sql
from discreet.query.checked import validate_query
from discreet.query.query import Query
from discreet.schema import Schema

Question = str | Query


def parse_question(question: Question, schema: Schema) -> Query:
    """A question from SQL text; a query passes the same checks as its text would."""
    if has_type(question, Query):
        return validate_query(question, schema)  # type: ignore[arg-type]
    if not has_type(question, str):
        raise InvalidInput(f"a question is SQL text, got {type(question).__name__}")
    return parse_sql(copy_text(question, "a question"), schema)


def count_answer_numbers(query: Query, schema: Schema) -> int:
    """How many numbers the reply has at most, over all its rows, from public facts."""
    columns = [(schema.column(key.column), key.width) for key in query.keys]
    sizes = [-(-column.size // width) + column.is_nullable for column, width in columns]
    totals = range(len(sizes)) if query.nesting == "rollup" else ()
    rows = math.prod(sizes) + sum(math.prod(sizes[:first]) for first in totals)
    aggregate_numbers = sum(max(1, len(item.orders)) for item in query.aggregates)
    output_numbers = sum(item.key is None for item in query.presentation.outputs)
    return rows * max(1, aggregate_numbers, output_numbers)
