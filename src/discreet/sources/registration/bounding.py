"""Which rows a snapshot keeps, and what is counted of them, as queries for every engine over the staged table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from discreet.schema.schema import Schema
from discreet.sources.registration.sql import CLIPPED, MISSING, UNREADABLE, columns, over, select
from discreet.sources.registration.words import Expression, Words, call, cast, when

MOST_ARGUMENTS = 50
"""Of one call; PostgreSQL takes at most 100."""


def counts(schema: Schema, table: exp.Table) -> exp.Select:
    """Of the staged table: rows, rows without a unit, and of each column the missing, the unreadable, the clipped."""
    every = exp.Count(this=exp.Star())
    without_unit = exp.convert(0) if schema.unit is None else every - exp.Count(this=exp.column("u"))
    statuses = [
        exp.Count(this=when((exp.column(f"s{i}").eq(status), exp.convert(1))))
        for i in range(len(schema.columns))
        for status in (MISSING, UNREADABLE, CLIPPED)
    ]
    return exp.select(every, without_unit, *statuses).from_(table)


def snapshot(schema: Schema, key: str, table: exp.Table, words: Words, among: Expression | None = None) -> exp.Select:
    """The rows of the staged table that are kept: of each unit those of the least marks, as many as it may have.

    `among` is a condition on units, to go through them a part at a time.
    """
    codes = [f"c{i}" for i in range(len(schema.columns))]
    if schema.unit is None:
        return select(columns(codes)).from_(table)
    order = exp.Order(expressions=[exp.Ordered(this=words.as_text(_mark(schema, key, words)))])
    place = exp.Window(this=exp.RowNumber(), partition_by=[exp.column("u")], order=order)
    ranked = select(columns([*codes, "u"]) | {"place": place}).from_(table)
    ranked = ranked.where(exp.not_(exp.column("u").is_(exp.null())), among or exp.true())
    return over(ranked, columns([*codes, "u"])).where(exp.column("place") <= schema.rows)


def summary(schema: Schema, key: str, table: exp.Table, words: Words) -> exp.Select:
    """Of the snapshot: rows, units, and the sum of the first 60 bits of the rows' marks."""
    every = exp.Count(this=exp.Star())
    names = exp.select("u").distinct().from_(table).subquery("names")  # a nested query goes to disk where it must
    units = every.copy() if schema.unit is None else exp.select(every.copy()).from_(names).subquery()
    return exp.select(every, units, exp.Sum(this=words.piece(_mark(schema, key, words)))).from_(table)


def _mark(schema: Schema, key: str, words: Words) -> Expression:
    """The hash of the key, the unit and the row: see `memory.mark`."""
    parts = [words.text(key)] + ([] if schema.unit is None else [call("MD5", exp.column("u"))])
    for i, column in enumerate(schema.columns.values()):
        code = exp.column(f"c{i}")
        text = call("MD5", code) if column.private_keys else cast(code, "text")
        parts.append(call("COALESCE", text, ""))
    return call("MD5", _concatenated([each for part in parts for each in (exp.convert("|"), part)][1:]))


def _concatenated(parts: Sequence[Expression]) -> Expression:
    while len(parts) > MOST_ARGUMENTS:
        groups = range(0, len(parts), MOST_ARGUMENTS)
        parts = [call("CONCAT", *parts[first : first + MOST_ARGUMENTS]) for first in groups]
    return call("CONCAT", *parts)
