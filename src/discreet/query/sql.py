"""Questions from SQL text: one SELECT of aggregates, within a small grammar that we can answer for."""

from __future__ import annotations

from discreet.plain import copy_text
from discreet.query.query import Query
from discreet.query.resolve import resolve_question
from discreet.schema import Schema


def parse_sql(text: str, schema: Schema) -> Query:
    """The question that a text asks of a table, in canonical form; from the text and the schema alone."""
    from discreet.query.tree import parse_select

    return resolve_question(parse_select(copy_text(text, "a question in SQL")), schema)
