"""A question as people write it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from discreet.errors import InvalidInput
from discreet.query import parse_json, parse_sql
from discreet.query.query import Query
from discreet.schema import Schema

Question = str | Mapping[str, object] | Query


def read(question: Question, schema: Schema) -> Query:
    """A question from SQL text, JSON text or a mapping; one that was read is as it is."""
    if isinstance(question, Query):
        return question
    if isinstance(question, str) and not question.lstrip().startswith("{"):
        return parse_sql(question, schema)
    if not isinstance(question, str | Mapping):
        raise InvalidInput(f"a question is SQL text or JSON, got {type(question).__name__}")
    return parse_json(question, schema)


def cells(query: Query, schema: Schema) -> int:
    """How many rows the reply has at most, from public facts."""
    columns = [(schema.column(key.column), key.width) for key in query.keys]
    return math.prod(-(-column.size // width) + column.nullable for column, width in columns)
