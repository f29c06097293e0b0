"""Releases made inside the database, as SQL: a chain of nested queries; each has what the one inside has, and more.

    rows       the snapshot's columns   o: which of the rows alike in everything a row is
    ranked     r0, r1, ...: the ranks of columns c0, c1, ...
    bucketed   bucket: which   low: the rank at which it starts
    dealt      q: the row's place in its bucket, counted on from where that starts
    grouped    g: the group

Last, the rows are put in the order of a keyed hash, so that the order of the file tells nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from discreet.query.scan import AnatomyPlan, RankRuns, ReleasePlan, SwapPlan, TClosenessPlan
from discreet.schema import Schema
from discreet.sources.ingest.clamp_and_bound import build_columns, select_expressions, select_from_query
from discreet.sources.protocol import require_rankable
from discreet.sources.sql_dialects import (
    Dialect,
    Expression,
    SnapshotLayout,
    build_call,
    build_case,
    build_cast,
    build_integer_division,
    build_nested_call,
)

MAX_RANK_BINS = 4096
"""Ranks are counted within so many ranges of codes at most, which many machines can do at once."""
BYTE_LENGTH_FUNCTIONS: dict[Dialect, str] = {"duckdb": "STRLEN", "postgres": "OCTET_LENGTH", "spark": "OCTET_LENGTH"}


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """The whole numbers from `low` to before `high`, and what is to be known of them."""

    low: int
    high: int
    values: tuple[int, ...]


def join_intervals(
    query: exp.Select, value: Expression, intervals: Sequence[IntervalRow], value_names: Sequence[str], dialect: Dialect
) -> exp.Select:
    """Join a query with the one interval that a value is in: its `low` and named facts, NULL where there is none.

    The numbers are cut into as many equal cells as there are intervals, and each interval is listed under every cell
    that it touches: for n numbers an engine compares at most 2n pairs.
    """
    width = max(1, -(-max(interval.high for interval in intervals) // len(intervals)))
    table = exp.values(
        [
            (cell, interval.low, interval.high, *interval.values)
            for interval in intervals
            for cell in range(interval.low // width, -(-interval.high // width))
        ],
        alias="intervals",
        columns=["cell", "low", "high", *value_names],
    )
    is_inside = exp.and_(
        exp.column("cell").eq(build_integer_division(value, width, dialect)),
        exp.column("low") <= value,
        value < exp.column("high"),
    )
    expressions = build_columns([*query.named_selects, "low", *value_names])
    return select_from_query(query, expressions).join(table, on=is_inside, join_type="left", copy=False)


def select_numbered_rows(layout: SnapshotLayout, table: exp.Table) -> exp.Select:
    """Select the snapshot's columns, and `o`; where a unit has one row, no two are alike."""
    columns = layout.list_columns()
    number = exp.convert(1) if _has_one_row_per_unit(layout.schema) else build_row_number(columns, columns[:1])
    return exp.select(*columns, exp.alias_(number, "o")).from_(table)


def list_order_columns(layout: SnapshotLayout) -> list[Expression]:
    """The unit and then all codes: the order of rows, but for those alike in everything."""
    schema = layout.schema
    unit = [] if schema.unit is None else [layout.get_unit_column()]
    if _has_one_row_per_unit(schema):
        return [*unit]
    columns = schema.columns.items()
    codes = [layout.get_text_column(name) if col.private_keys else layout.get_column(name) for name, col in columns]
    return [*unit, *codes]


def _has_one_row_per_unit(schema: Schema) -> bool:
    return schema.unit is not None and schema.rows == 1


def add_ranks(query: exp.Select, name: str, layout: SnapshotLayout, table: exp.Table) -> exp.Select:
    """Add a column's ranks from 0 on to a query: r0 of c0, and so on."""
    require_rankable(layout.schema, name)
    order = [layout.get_column(name), *list_order_columns(layout), exp.column("o")]
    rank = exp.column("before") + build_row_number([exp.column("bin")], order) - 1
    ranked_columns = build_columns(query.named_selects) | {f"r{layout.get_column_index(name)}": rank}
    ranked_query = select_from_query(query, ranked_columns)
    same_bin = exp.column("bin").eq(_build_bin(name, layout))
    return ranked_query.join(_count_bins(name, layout, table).subquery("bins"), on=same_bin, copy=False)


def _count_bins(name: str, layout: SnapshotLayout, table: exp.Table) -> exp.Select:
    """Each range of a column's codes that has rows, and how many rows there are in those before it."""
    bin_counts = select_expressions({"bin": _build_bin(name, layout), "n": exp.Count(this=exp.Star())}).from_(table)
    bin_counts = bin_counts.group_by(_build_bin(name, layout))
    running_total = exp.Window(this=exp.Sum(this=exp.column("n")), order=_build_order([exp.column("bin")]))
    before = build_cast(running_total, "bigint") - exp.column("n")
    return select_from_query(bin_counts, {"bin": exp.column("bin"), "before": before})


def _build_bin(name: str, layout: SnapshotLayout) -> Expression:
    """Which of the equal ranges a code is in; missing values come after all."""
    schema_column = layout.get_schema_column(name)
    width = -(-schema_column.size // MAX_RANK_BINS)
    difference = build_cast(layout.get_column(name), "bigint") - schema_column.lower
    return build_call("COALESCE", build_integer_division(difference, width, layout.dialect), MAX_RANK_BINS)


def build_row_number(partition: Sequence[Expression], order: Sequence[Expression]) -> Expression:
    """The place of a row, from 1 on, among those alike in some columns."""
    copies = [expression.copy() for expression in partition]
    return exp.Window(this=exp.RowNumber(), partition_by=copies, order=_build_order(order))


def _build_order(by: Sequence[Expression]) -> exp.Order:
    return exp.Order(expressions=order_nulls_last(by))


def order_nulls_last(by: Sequence[Expression]) -> list[exp.Ordered]:
    """Order by expressions, rising, missing values last."""
    return [exp.Ordered(this=expression.copy(), nulls_first=False) for expression in by]


def build_keyed_hash(key: str, purpose: str, layout: SnapshotLayout) -> Expression:
    """SHA-256 of the key, what for, which of the rows alike it is, and the row; texts stand after their lengths."""
    parts = [build_cast(exp.Literal.string(f"{key}|{purpose}"), "text"), build_cast(exp.column("o"), "text")]
    parts += [] if layout.schema.unit is None else [_prefix_byte_length(layout.get_unit_column(), layout.dialect)]
    for name, schema_column in layout.schema.columns.items():
        column = layout.get_column(name)
        text = _prefix_byte_length(column, layout.dialect) if schema_column.private_keys else build_cast(column, "text")
        parts.append(build_call("COALESCE", text, ""))
    return _build_sha256(build_nested_call("CONCAT_WS", parts, "|"), layout.dialect)


def _prefix_byte_length(column: Expression, dialect: Dialect) -> Expression:
    """A text after its length, so that different rows have different joined texts; NULL of NULL."""
    length = build_cast(build_call(BYTE_LENGTH_FUNCTIONS[dialect], column), "text")
    return exp.DPipe(this=exp.DPipe(this=length, expression=exp.Literal.string(":")), expression=column.copy())


def _build_sha256(text: Expression, dialect: Dialect) -> Expression:
    """As bytes, or as their hexadecimal text: both have the same order."""
    match dialect:
        case "duckdb":
            return build_call("SHA256", text)
        case "postgres":
            return build_call("SHA256", build_call("CONVERT_TO", text, "UTF8"))
        case "spark":
            return build_call("SHA2", text, 256)


def select_records(layout: SnapshotLayout, table: exp.Table) -> exp.Select:
    """The codes of every row, in the one order of all rows."""
    return exp.select(*_list_code_columns(layout)).from_(table).order_by(*order_nulls_last(list_order_columns(layout)))


def select_released_rows(plan: ReleasePlan, key: str, layout: SnapshotLayout, table: exp.Table) -> exp.Select:
    """The codes of every row, those that were changed, and the labels of groups, in the order of a hash."""
    release_query = _ReleaseQuery(layout, table, key)
    match plan:
        case SwapPlan():
            query = release_query.build_swap(plan)
        case AnatomyPlan():
            query = release_query.build_anatomy(plan)
        case TClosenessPlan():
            query = release_query.build_buckets(plan)
    return query.order_by(*order_nulls_last([release_query.build_hash("order")]))


@dataclass(frozen=True, slots=True)
class _ReleaseQuery:
    layout: SnapshotLayout
    table: exp.Table
    key: str

    def build_swap(self, plan: SwapPlan) -> exp.Select:
        """The row at each place by hash in its run takes the value of the row at that place by rank."""
        query = self.build_ranked_rows(*(name for name, _ in plan.runs))
        placed_columns, values, labels, joins = build_columns(query.named_selects), [], [], []
        for name, runs in plan.runs:
            i, rank = self.layout.get_column_index(name), self.get_rank_column(name)
            start = _build_run_start(rank, runs)
            placed_columns[f"p{i}"] = start + build_row_number([start], [self.build_hash(f"swap {i}")]) - 1
            other_columns: dict[str, Expression] = {f"k{i}": rank, f"v{i}": exp.column(f"c{i}")}
            other = select_expressions(other_columns).from_("ranked").subquery(f"other{i}")
            joins.append((other, exp.column(f"k{i}").eq(exp.column(f"p{i}"))))
            values.append(exp.column(f"v{i}"))
            labels.append(exp.alias_(self.build_label(rank, runs), f"g{i}"))
        placed = select_expressions(placed_columns).from_("ranked").subquery("placed")
        joined_query = exp.select(*_list_code_columns(self.layout), *values, *labels).from_(placed, copy=False)
        for other, same_place in joins:
            joined_query = joined_query.join(other, on=same_place, copy=False)
        return joined_query.with_("ranked", as_=query, copy=False)

    def build_anatomy(self, plan: AnatomyPlan) -> exp.Select:
        """Every row beside the label of its run."""
        label = exp.alias_(self.build_label(self.get_rank_column(plan.column), plan.runs), "g")
        ranked = self.build_ranked_rows(plan.column).subquery("ranked", copy=False)
        return exp.select(*_list_code_columns(self.layout), label).from_(ranked)

    def build_buckets(self, plan: TClosenessPlan) -> exp.Select:
        """Every row beside its group, and its bucket, or one of another row of the group."""
        query = self.build_groups(plan)
        bucket, group = exp.column("bucket"), exp.column("g")
        if not plan.hidden:
            grouped = query.subquery("grouped", copy=False)
            return exp.select(*_list_code_columns(self.layout), bucket, group).from_(grouped)
        place = build_row_number([group], [self.build_hash("swap")])
        placed_columns = build_columns(query.named_selects) | {"p": place}
        placed = select_expressions(placed_columns).from_("grouped").subquery("placed")
        by_rank = build_row_number([group], [self.get_rank_column(plan.column)])
        other = select_expressions({"k": group, "at": by_rank, "v": bucket}).from_("grouped").subquery("other")
        same_place = exp.and_(exp.column("k").eq(group), exp.column("at").eq(exp.column("p")))
        joined_query = exp.select(*_list_code_columns(self.layout), exp.column("v"), group).from_(placed, copy=False)
        return joined_query.join(other, on=same_place, copy=False).with_("grouped", as_=query, copy=False)

    def build_groups(self, plan: TClosenessPlan) -> exp.Select:
        """The rows with their buckets, dealt by hash; of a place that no deal is about, the group is -1."""
        buckets, deals = _build_intervals(plan)
        query, dialect = self.build_ranked_rows(plan.column), self.layout.dialect
        query = join_intervals(query, self.get_rank_column(plan.column), buckets, ["bucket"], dialect)
        column_names = [name for name in query.named_selects if name != "low"]
        place = exp.column("low") + build_row_number([exp.column("bucket")], [self.build_hash("deal")]) - 1
        query = select_from_query(query, build_columns(column_names) | {"q": place})
        query = join_intervals(query, exp.column("q"), deals, ["label", "groups", "turn"], dialect)
        turns = exp.paren(exp.column("turn") + exp.column("q") - exp.column("low")) % exp.column("groups")
        group = build_call("COALESCE", exp.column("label") + turns, -1)
        return select_from_query(query, build_columns(column_names) | {"g": group})

    def build_ranked_rows(self, *names: str) -> exp.Select:
        query = select_numbered_rows(self.layout, self.table)
        for name in names:
            query = add_ranks(query, name, self.layout, self.table)
        return query

    def get_rank_column(self, name: str) -> exp.Column:
        return exp.column(f"r{self.layout.get_column_index(name)}")

    def build_hash(self, purpose: str) -> Expression:
        return build_keyed_hash(self.key, purpose, self.layout)

    def build_label(self, rank: exp.Column, runs: RankRuns) -> Expression:
        """The run of a rank, as `RankRuns.compute_labels` counts them."""
        top = runs.rows - runs.high * runs.k
        return build_case(
            (rank >= top, build_integer_division(rank - top, runs.k, self.layout.dialect) + (runs.low + 1)),
            (rank < runs.low * runs.k, build_integer_division(rank, runs.k, self.layout.dialect)),
            otherwise=exp.convert(runs.low),
        )


def _build_intervals(plan: TClosenessPlan) -> tuple[list[IntervalRow], list[IntervalRow]]:
    """Buckets as intervals of ranks, and deals as intervals of places that are counted on from bucket to bucket."""
    starts = (0, *plan.cuts)
    deals = []
    for deal in plan.deals:
        start, values = starts[deal.bucket], (deal.label, deal.groups, deal.turn)
        deals.append(IntervalRow(start + deal.first, start + deal.last, values))
    ends = (*plan.cuts, max(deal.high for deal in deals))
    return [IntervalRow(low, high, (b,)) for b, (low, high) in enumerate(zip(starts, ends, strict=True))], deals


def _build_run_start(rank: exp.Column, runs: RankRuns) -> Expression:
    top = runs.rows - runs.high * runs.k
    return build_case(
        (rank >= top, rank - exp.paren(rank - top) % runs.k),
        (rank < runs.low * runs.k, rank - rank % runs.k),
        otherwise=exp.convert(runs.low * runs.k),
    )


def _list_code_columns(layout: SnapshotLayout) -> list[Expression]:
    return [layout.get_column(name) for name in layout.schema.columns]
