"""Plans of releases as SQL, one statement for each: `plain_release.py` says the same in loops.

A chain of nested queries does it; each has what the one inside has, and more:

    rows       the snapshot's columns   o: which of the rows alike in everything a row is
    ranked     r0, r1, ...: the ranks of columns c0, c1, ...
    bucketed   bucket: which   low: the rank at which it starts
    dealt      q: the row's place in its bucket, counted on from where that starts
    grouped    g: the group

Last, the rows are put in the order of a keyed hash, so that the order of the file tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from discreet.query.released import AnatomyPlan, RankRuns, ReleasePlan, SwapPlan, TClosenessPlan
from discreet.sources.intervals import IntervalRow, join_intervals
from discreet.sources.layout import SnapshotLayout
from discreet.sources.ordering import (
    add_ranks,
    build_keyed_hash,
    build_row_number,
    list_order_columns,
    order_nulls_last,
    select_numbered_rows,
)
from discreet.sources.registration.sql import build_columns, select_expressions, select_from_query
from discreet.sources.registration.words import Expression, build_call, build_case
from discreet.sources.statement import build_integer_division


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
            other = (
                select_expressions({f"k{i}": rank, f"v{i}": exp.column(f"c{i}")}).from_("ranked").subquery(f"other{i}")
            )
            joins.append((other, exp.column(f"k{i}").eq(exp.column(f"p{i}"))))
            values.append(exp.column(f"v{i}"))
            labels.append(exp.alias_(self.build_label(rank, runs), f"g{i}"))
        joined_query = exp.select(*_list_code_columns(self.layout), *values, *labels)
        joined_query = joined_query.from_(
            select_expressions(placed_columns).from_("ranked").subquery("placed"), copy=False
        )
        for other, same_place in joins:
            joined_query = joined_query.join(other, on=same_place, copy=False)
        return joined_query.with_("ranked", as_=query, copy=False)

    def build_anatomy(self, plan: AnatomyPlan) -> exp.Select:
        """Every row beside the label of its run."""
        label = exp.alias_(self.build_label(self.get_rank_column(plan.column), plan.runs), "g")
        return exp.select(*_list_code_columns(self.layout), label).from_(
            self.build_ranked_rows(plan.column).subquery("ranked", copy=False)
        )

    def build_buckets(self, plan: TClosenessPlan) -> exp.Select:
        """Every row beside its group, and its bucket, or one of another row of the group."""
        query = self.build_groups(plan)
        bucket, group = exp.column("bucket"), exp.column("g")
        if not plan.hidden:
            return exp.select(*_list_code_columns(self.layout), bucket, group).from_(
                query.subquery("grouped", copy=False)
            )
        place_column = {"p": build_row_number([group], [self.build_hash("swap")])}
        placed_rows = (
            select_expressions(build_columns(query.named_selects) | place_column).from_("grouped").subquery("placed")
        )
        by_rank = build_row_number([group], [self.get_rank_column(plan.column)])
        other = select_expressions({"k": group, "at": by_rank, "v": bucket}).from_("grouped").subquery("other")
        same_place = exp.and_(exp.column("k").eq(group), exp.column("at").eq(exp.column("p")))
        joined_query = exp.select(*_list_code_columns(self.layout), exp.column("v"), group).from_(
            placed_rows, copy=False
        )
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
        return select_from_query(
            query, build_columns(column_names) | {"g": build_call("COALESCE", exp.column("label") + turns, -1)}
        )

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
        """As `Runs.label`."""
        top = runs.rows - runs.high * runs.k
        return build_case(
            (rank >= top, build_integer_division(rank - top, runs.k, self.layout.dialect) + (runs.low + 1)),
            (rank < runs.low * runs.k, build_integer_division(rank, runs.k, self.layout.dialect)),
            otherwise=exp.convert(runs.low),
        )


def _build_intervals(plan: TClosenessPlan) -> tuple[list[IntervalRow], list[IntervalRow]]:
    """Buckets as intervals of ranks, and deals as intervals of places that are counted on from bucket to bucket."""
    starts = (0, *plan.cuts)
    deals = [
        IntervalRow(
            starts[deal.bucket] + deal.first, starts[deal.bucket] + deal.last, (deal.label, deal.groups, deal.turn)
        )
        for deal in plan.deals
    ]
    ends = (*plan.cuts, max(deal.high for deal in deals))
    return [IntervalRow(low, high, (b,)) for b, (low, high) in enumerate(zip(starts, ends, strict=True))], deals


def _build_run_start(rank: exp.Column, runs: RankRuns) -> Expression:
    """The first rank of a run."""
    top = runs.rows - runs.high * runs.k
    return build_case(
        (rank >= top, rank - exp.paren(rank - top) % runs.k),
        (rank < runs.low * runs.k, rank - rank % runs.k),
        otherwise=exp.convert(runs.low * runs.k),
    )


def _list_code_columns(layout: SnapshotLayout) -> list[Expression]:
    return [layout.get_column(name) for name in layout.schema.columns]
