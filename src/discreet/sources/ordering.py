"""The orders of rows that a release goes by, as SQL: `plain_release.py` says the same in loops.

A query here has the snapshot's columns, and `o`, which of the rows alike in everything a row is.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from discreet.schema import Schema
from discreet.sources.layout import Dialect, Layout
from discreet.sources.plan import require_ranked
from discreet.sources.registration.sql import columns, over, select
from discreet.sources.registration.words import Expression, call, cast
from discreet.sources.statement import divided

MOST_BINS = 4096
"""Ranks are counted within so many ranges of codes at most, which many machines can do at once."""
MOST_ARGUMENTS = 50
"""Of one call; PostgreSQL takes at most 100."""
OCTETS: dict[Dialect, str] = {"duckdb": "STRLEN", "postgres": "OCTET_LENGTH", "spark": "OCTET_LENGTH"}


def rows(layout: Layout, table: exp.Table) -> exp.Select:
    """The snapshot's columns, and `o`; where a unit has one row, no two are alike."""
    own = layout.everything()
    alike = exp.convert(1) if _one_row_each(layout.schema) else numbered(own, own[:1])
    return exp.select(*own, exp.alias_(alike, "o")).from_(table)


def everything(layout: Layout) -> list[Expression]:
    """The unit and then all codes: the order of rows, but for those alike in everything."""
    schema = layout.schema
    if _one_row_each(schema):
        return [layout.unit()]
    unit = [] if schema.unit is None else [layout.unit()]
    return [*unit, *(layout.text(n) if each.private_keys else layout.column(n) for n, each in schema.columns.items())]


def _one_row_each(schema: Schema) -> bool:
    return schema.unit is not None and schema.rows == 1


def ranked(query: exp.Select, name: str, layout: Layout, table: exp.Table) -> exp.Select:
    """What a query gives, and a column's ranks from 0 on: r0 of c0, and so on."""
    require_ranked(layout.schema, name)
    order = [layout.column(name), *everything(layout), exp.column("o")]
    rank = exp.column("before") + numbered([exp.column("bin")], order) - 1
    wider = over(query, columns(query.named_selects) | {f"r{layout.place(name)}": rank})
    same = exp.column("bin").eq(_bin(name, layout))
    return wider.join(_bins(name, layout, table).subquery("bins"), on=same, copy=False)


def _bins(name: str, layout: Layout, table: exp.Table) -> exp.Select:
    """Each range of a column's codes that has rows, and how many rows there are in those before it."""
    counted = select({"bin": _bin(name, layout), "n": exp.Count(this=exp.Star())}).from_(table)
    counted = counted.group_by(_bin(name, layout))
    running = exp.Window(this=exp.Sum(this=exp.column("n")), order=_order([exp.column("bin")]))
    return over(counted, {"bin": exp.column("bin"), "before": cast(running, "bigint") - exp.column("n")})


def _bin(name: str, layout: Layout) -> Expression:
    """Which of the equal ranges a code is in; missing values come after all."""
    public = layout.public(name)
    width = -(-public.size // MOST_BINS)
    place = divided(cast(layout.column(name), "bigint") - public.lower, width, layout.dialect)
    return call("COALESCE", place, MOST_BINS)


def numbered(within: Sequence[Expression], order: Sequence[Expression]) -> Expression:
    """The place of a row, from 1 on, among those alike in some columns."""
    return exp.Window(this=exp.RowNumber(), partition_by=[each.copy() for each in within], order=_order(order))


def _order(by: Sequence[Expression]) -> exp.Order:
    return exp.Order(expressions=ordered(by))


def ordered(by: Sequence[Expression]) -> list[exp.Ordered]:
    """Rising, what is missing last."""
    return [exp.Ordered(this=each.copy(), nulls_first=False) for each in by]


def keyed_hash(key: str, purpose: str, layout: Layout) -> Expression:
    """SHA-256 of the key, what for, which of the rows alike it is, and the row; texts stand after their lengths."""
    parts = [cast(exp.Literal.string(f"{key}|{purpose}"), "text"), cast(exp.column("o"), "text")]
    parts += [] if layout.schema.unit is None else [_text(layout.unit(), layout.dialect)]
    for name, public in layout.schema.columns.items():
        column = layout.column(name)
        text = _text(column, layout.dialect) if public.private_keys else cast(column, "text")
        parts.append(call("COALESCE", text, ""))
    return _sha256(_joined(parts), layout.dialect)


def _text(column: Expression, dialect: Dialect) -> Expression:
    """A text after its length, so that different rows have different joined texts; NULL of NULL."""
    length = cast(call(OCTETS[dialect], column), "text")
    return exp.DPipe(this=exp.DPipe(this=length, expression=exp.Literal.string(":")), expression=column.copy())


def _joined(parts: Sequence[Expression]) -> Expression:
    while len(parts) > MOST_ARGUMENTS:
        groups = range(0, len(parts), MOST_ARGUMENTS)
        parts = [call("CONCAT_WS", "|", *parts[first : first + MOST_ARGUMENTS]) for first in groups]
    return call("CONCAT_WS", "|", *parts)


def _sha256(text: Expression, dialect: Dialect) -> Expression:
    """As bytes, or as their hexadecimal text: both have the same order."""
    match dialect:
        case "duckdb":
            return call("SHA256", text)
        case "postgres":
            return call("SHA256", call("CONVERT_TO", text, "UTF8"))
        case "spark":
            return call("SHA2", text, 256)
