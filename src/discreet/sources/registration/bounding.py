"""Which rows a snapshot keeps, and what is counted of them, as queries for every engine over the staged table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from discreet.schema.schema import Schema
from discreet.sources.registration.sql import (
    CLIPPED_STATUS,
    MISSING_STATUS,
    UNREADABLE_STATUS,
    build_columns,
    select_expressions,
    select_from_query,
)
from discreet.sources.registration.words import EngineSyntax, Expression, build_call, build_case, build_cast

MAX_CALL_ARGUMENTS = 50
"""Of one call; PostgreSQL takes at most 100."""


def select_status_counts(schema: Schema, table: exp.Table) -> exp.Select:
    """Of the staged table: rows, rows without a unit, and of each column the missing, the unreadable, the clipped."""
    row_count = exp.Count(this=exp.Star())
    without_unit = exp.convert(0) if schema.unit is None else row_count - exp.Count(this=exp.column("u"))
    statuses = [
        exp.Count(this=build_case((exp.column(f"s{i}").eq(status), exp.convert(1))))
        for i in range(len(schema.columns))
        for status in (MISSING_STATUS, UNREADABLE_STATUS, CLIPPED_STATUS)
    ]
    return exp.select(row_count, without_unit, *statuses).from_(table)


def select_bounded_rows(
    schema: Schema, key: str, table: exp.Table, syntax: EngineSyntax, unit_condition: Expression | None = None
) -> exp.Select:
    """The rows of the staged table that are kept: of each unit those of the least marks, as many as it may have.

    `among` is a condition on units, to go through them a part at a time.
    """
    codes = [f"c{i}" for i in range(len(schema.columns))]
    if schema.unit is None:
        return select_expressions(build_columns(codes)).from_(table)
    order = exp.Order(expressions=[exp.Ordered(this=syntax.as_text(_build_row_hash(schema, key, syntax)))])
    row_number = exp.Window(this=exp.RowNumber(), partition_by=[exp.column("u")], order=order)
    numbered_rows = select_expressions(build_columns([*codes, "u"]) | {"place": row_number}).from_(table)
    numbered_rows = numbered_rows.where(exp.not_(exp.column("u").is_(exp.null())), unit_condition or exp.true())
    return select_from_query(numbered_rows, build_columns([*codes, "u"])).where(exp.column("place") <= schema.rows)


def select_snapshot_summary(schema: Schema, key: str, table: exp.Table, syntax: EngineSyntax) -> exp.Select:
    """Of the snapshot: rows, units, and the sum of the first 60 bits of the rows' marks."""
    row_count = exp.Count(this=exp.Star())
    names = exp.select("u").distinct().from_(table).subquery("names")  # a nested query goes to disk where it must
    units = row_count.copy() if schema.unit is None else exp.select(row_count.copy()).from_(names).subquery()
    return exp.select(
        row_count, units, exp.Sum(this=syntax.parse_hash_prefix(_build_row_hash(schema, key, syntax)))
    ).from_(table)


def _build_row_hash(schema: Schema, key: str, syntax: EngineSyntax) -> Expression:
    """The hash of the key, the unit and the row: see `memory.mark`."""
    parts = [syntax.to_literal(key)] + ([] if schema.unit is None else [build_call("MD5", exp.column("u"))])
    for i, column in enumerate(schema.columns.values()):
        code = exp.column(f"c{i}")
        text = build_call("MD5", code) if column.private_keys else build_cast(code, "text")
        parts.append(build_call("COALESCE", text, ""))
    return build_call(
        "MD5", _concatenate_texts([operand for part in parts for operand in (exp.convert("|"), part)][1:])
    )


def _concatenate_texts(parts: Sequence[Expression]) -> Expression:
    while len(parts) > MAX_CALL_ARGUMENTS:
        groups = range(0, len(parts), MAX_CALL_ARGUMENTS)
        parts = [build_call("CONCAT", *parts[first : first + MAX_CALL_ARGUMENTS]) for first in groups]
    return build_call("CONCAT", *parts)
