"""The orders of rows that a release goes by, as SQL: `plain_release.py` says the same in loops.

A query here has the snapshot's columns, and `o`, which of the rows alike in everything a row is.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from discreet.schema import Schema
from discreet.sources.layout import Dialect, SnapshotLayout
from discreet.sources.plan import require_rankable
from discreet.sources.registration.sql import build_columns, select_expressions, select_from_query
from discreet.sources.registration.words import Expression, build_call, build_cast
from discreet.sources.statement import build_integer_division

MAX_RANK_BINS = 4096
"""Ranks are counted within so many ranges of codes at most, which many machines can do at once."""
MAX_CALL_ARGUMENTS = 50
"""Of one call; PostgreSQL takes at most 100."""
BYTE_LENGTH_FUNCTIONS: dict[Dialect, str] = {"duckdb": "STRLEN", "postgres": "OCTET_LENGTH", "spark": "OCTET_LENGTH"}


def select_numbered_rows(layout: SnapshotLayout, table: exp.Table) -> exp.Select:
    """The snapshot's columns, and `o`; where a unit has one row, no two are alike."""
    all_columns = layout.list_columns()
    duplicate_number = (
        exp.convert(1) if _has_one_row_per_unit(layout.schema) else build_row_number(all_columns, all_columns[:1])
    )
    return exp.select(*all_columns, exp.alias_(duplicate_number, "o")).from_(table)


def list_order_columns(layout: SnapshotLayout) -> list[Expression]:
    """The unit and then all codes: the order of rows, but for those alike in everything."""
    schema = layout.schema
    if _has_one_row_per_unit(schema):
        return [layout.get_unit_column()]
    unit = [] if schema.unit is None else [layout.get_unit_column()]
    return [
        *unit,
        *(
            layout.get_text_column(name) if column.private_keys else layout.get_column(name)
            for name, column in schema.columns.items()
        ),
    ]


def _has_one_row_per_unit(schema: Schema) -> bool:
    return schema.unit is not None and schema.rows == 1


def add_ranks(query: exp.Select, name: str, layout: SnapshotLayout, table: exp.Table) -> exp.Select:
    """What a query gives, and a column's ranks from 0 on: r0 of c0, and so on."""
    require_rankable(layout.schema, name)
    order = [layout.get_column(name), *list_order_columns(layout), exp.column("o")]
    rank = exp.column("before") + build_row_number([exp.column("bin")], order) - 1
    ranked_query = select_from_query(
        query, build_columns(query.named_selects) | {f"r{layout.get_column_index(name)}": rank}
    )
    same_bin = exp.column("bin").eq(_build_bin(name, layout))
    return ranked_query.join(_count_bins(name, layout, table).subquery("bins"), on=same_bin, copy=False)


def _count_bins(name: str, layout: SnapshotLayout, table: exp.Table) -> exp.Select:
    """Each range of a column's codes that has rows, and how many rows there are in those before it."""
    bin_counts = select_expressions({"bin": _build_bin(name, layout), "n": exp.Count(this=exp.Star())}).from_(table)
    bin_counts = bin_counts.group_by(_build_bin(name, layout))
    running_total = exp.Window(this=exp.Sum(this=exp.column("n")), order=_build_order([exp.column("bin")]))
    return select_from_query(
        bin_counts, {"bin": exp.column("bin"), "before": build_cast(running_total, "bigint") - exp.column("n")}
    )


def _build_bin(name: str, layout: SnapshotLayout) -> Expression:
    """Which of the equal ranges a code is in; missing values come after all."""
    schema_column = layout.get_schema_column(name)
    width = -(-schema_column.size // MAX_RANK_BINS)
    bin_index = build_integer_division(
        build_cast(layout.get_column(name), "bigint") - schema_column.lower, width, layout.dialect
    )
    return build_call("COALESCE", bin_index, MAX_RANK_BINS)


def build_row_number(partition: Sequence[Expression], order: Sequence[Expression]) -> Expression:
    """The place of a row, from 1 on, among those alike in some columns."""
    return exp.Window(
        this=exp.RowNumber(), partition_by=[expression.copy() for expression in partition], order=_build_order(order)
    )


def _build_order(by: Sequence[Expression]) -> exp.Order:
    return exp.Order(expressions=order_nulls_last(by))


def order_nulls_last(by: Sequence[Expression]) -> list[exp.Ordered]:
    """Rising, what is missing last."""
    return [exp.Ordered(this=expression.copy(), nulls_first=False) for expression in by]


def build_keyed_hash(key: str, purpose: str, layout: SnapshotLayout) -> Expression:
    """SHA-256 of the key, what for, which of the rows alike it is, and the row; texts stand after their lengths."""
    parts = [build_cast(exp.Literal.string(f"{key}|{purpose}"), "text"), build_cast(exp.column("o"), "text")]
    parts += [] if layout.schema.unit is None else [_prefix_byte_length(layout.get_unit_column(), layout.dialect)]
    for name, schema_column in layout.schema.columns.items():
        column = layout.get_column(name)
        text = _prefix_byte_length(column, layout.dialect) if schema_column.private_keys else build_cast(column, "text")
        parts.append(build_call("COALESCE", text, ""))
    return _build_sha256(_join_texts(parts), layout.dialect)


def _prefix_byte_length(column: Expression, dialect: Dialect) -> Expression:
    """A text after its length, so that different rows have different joined texts; NULL of NULL."""
    length = build_cast(build_call(BYTE_LENGTH_FUNCTIONS[dialect], column), "text")
    return exp.DPipe(this=exp.DPipe(this=length, expression=exp.Literal.string(":")), expression=column.copy())


def _join_texts(parts: Sequence[Expression]) -> Expression:
    while len(parts) > MAX_CALL_ARGUMENTS:
        groups = range(0, len(parts), MAX_CALL_ARGUMENTS)
        parts = [build_call("CONCAT_WS", "|", *parts[first : first + MAX_CALL_ARGUMENTS]) for first in groups]
    return build_call("CONCAT_WS", "|", *parts)


def _build_sha256(text: Expression, dialect: Dialect) -> Expression:
    """As bytes, or as their hexadecimal text: both have the same order."""
    match dialect:
        case "duckdb":
            return build_call("SHA256", text)
        case "postgres":
            return build_call("SHA256", build_call("CONVERT_TO", text, "UTF8"))
        case "spark":
            return build_call("SHA2", text, 256)
