"""A query as text of one dialect, in which numbers are literals and texts are parameters."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from discreet.sources.layout import Dialect, SnapshotLayout


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """SQL of one dialect, and the texts that are its parameters, in order."""

    sql: str
    texts: tuple[str, ...]


def render_statement(select: exp.Select, layout: SnapshotLayout) -> SqlStatement:
    """The text of a query, in which parameters have taken the place of texts."""
    texts = [literal for literal in select.find_all(exp.Literal) if literal.is_string]
    for number, text in enumerate(texts, start=1):
        text.replace(layout.build_parameter(number))
    return SqlStatement(select.sql(layout.dialect, copy=False), tuple(text.name for text in texts))


def build_integer_division(difference: exp.Expr, width: int, dialect: Dialect) -> exp.Expression:
    """Whole division of what is never negative, so that rounding down and towards 0 are the same."""
    parts = {"this": exp.paren(difference), "expression": exp.Literal.number(width)}
    return exp.Div(**parts, typed=True) if dialect == "postgres" else exp.IntDiv(**parts)
