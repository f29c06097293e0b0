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

from discreet.query.released import Anatomise, Bucketise, ReleasePlan, Runs, Swap
from discreet.sources.intervals import Interval, looked_up
from discreet.sources.layout import Layout
from discreet.sources.ordering import everything, keyed_hash, numbered, ordered, ranked, rows
from discreet.sources.registration.sql import columns, over, select
from discreet.sources.registration.words import Expression, call, when
from discreet.sources.statement import divided


def records(layout: Layout, table: exp.Table) -> exp.Select:
    """The codes of every row, in the one order of all rows."""
    return exp.select(*_codes(layout)).from_(table).order_by(*ordered(everything(layout)))


def released(plan: ReleasePlan, key: str, layout: Layout, table: exp.Table) -> exp.Select:
    """The codes of every row, those that were changed, and the labels of groups, in the order of a hash."""
    release = _Release(layout, table, key)
    match plan:
        case Swap():
            query = release.swapped(plan)
        case Anatomise():
            query = release.anatomised(plan)
        case Bucketise():
            query = release.bucketised(plan)
    return query.order_by(*ordered([release.hash("order")]))


@dataclass(frozen=True, slots=True)
class _Release:
    layout: Layout
    table: exp.Table
    key: str

    def swapped(self, plan: Swap) -> exp.Select:
        """The row at each place by hash in its run takes the value of the row at that place by rank."""
        query = self.ranked(*(name for name, _ in plan.runs))
        placed, values, labels, joins = columns(query.named_selects), [], [], []
        for name, runs in plan.runs:
            i, rank = self.layout.place(name), self.rank(name)
            start = _start(rank, runs)
            placed[f"p{i}"] = start + numbered([start], [self.hash(f"swap {i}")]) - 1
            other = select({f"k{i}": rank, f"v{i}": exp.column(f"c{i}")}).from_("ranked").subquery(f"other{i}")
            joins.append((other, exp.column(f"k{i}").eq(exp.column(f"p{i}"))))
            values.append(exp.column(f"v{i}"))
            labels.append(exp.alias_(self.label(rank, runs), f"g{i}"))
        whole = exp.select(*_codes(self.layout), *values, *labels)
        whole = whole.from_(select(placed).from_("ranked").subquery("placed"), copy=False)
        for other, same in joins:
            whole = whole.join(other, on=same, copy=False)
        return whole.with_("ranked", as_=query, copy=False)

    def anatomised(self, plan: Anatomise) -> exp.Select:
        """Every row beside the label of its run."""
        label = exp.alias_(self.label(self.rank(plan.column), plan.runs), "g")
        return exp.select(*_codes(self.layout), label).from_(self.ranked(plan.column).subquery("ranked", copy=False))

    def bucketised(self, plan: Bucketise) -> exp.Select:
        """Every row beside its group, and its bucket, or one of another row of the group."""
        query = self.grouped(plan)
        bucket, group = exp.column("bucket"), exp.column("g")
        if not plan.hidden:
            return exp.select(*_codes(self.layout), bucket, group).from_(query.subquery("grouped", copy=False))
        place = {"p": numbered([group], [self.hash("swap")])}
        placed = select(columns(query.named_selects) | place).from_("grouped").subquery("placed")
        by_rank = numbered([group], [self.rank(plan.column)])
        other = select({"k": group, "at": by_rank, "v": bucket}).from_("grouped").subquery("other")
        same = exp.and_(exp.column("k").eq(group), exp.column("at").eq(exp.column("p")))
        whole = exp.select(*_codes(self.layout), exp.column("v"), group).from_(placed, copy=False)
        return whole.join(other, on=same, copy=False).with_("grouped", as_=query, copy=False)

    def grouped(self, plan: Bucketise) -> exp.Select:
        """The rows with their buckets, dealt by hash; of a place that no deal is about, the group is -1."""
        buckets, deals = _intervals(plan)
        query, dialect = self.ranked(plan.column), self.layout.dialect
        query = looked_up(query, self.rank(plan.column), buckets, ["bucket"], dialect)
        kept = [name for name in query.named_selects if name != "low"]
        place = exp.column("low") + numbered([exp.column("bucket")], [self.hash("deal")]) - 1
        query = over(query, columns(kept) | {"q": place})
        query = looked_up(query, exp.column("q"), deals, ["label", "groups", "turn"], dialect)
        turns = exp.paren(exp.column("turn") + exp.column("q") - exp.column("low")) % exp.column("groups")
        return over(query, columns(kept) | {"g": call("COALESCE", exp.column("label") + turns, -1)})

    def ranked(self, *names: str) -> exp.Select:
        query = rows(self.layout, self.table)
        for name in names:
            query = ranked(query, name, self.layout, self.table)
        return query

    def rank(self, name: str) -> exp.Column:
        return exp.column(f"r{self.layout.place(name)}")

    def hash(self, purpose: str) -> Expression:
        return keyed_hash(self.key, purpose, self.layout)

    def label(self, rank: exp.Column, runs: Runs) -> Expression:
        """As `Runs.label`."""
        top = runs.rows - runs.high * runs.k
        return when(
            (rank >= top, divided(rank - top, runs.k, self.layout.dialect) + (runs.low + 1)),
            (rank < runs.low * runs.k, divided(rank, runs.k, self.layout.dialect)),
            otherwise=exp.convert(runs.low),
        )


def _intervals(plan: Bucketise) -> tuple[list[Interval], list[Interval]]:
    """Buckets as intervals of ranks, and deals as intervals of places that are counted on from bucket to bucket."""
    starts = (0, *plan.cuts)
    deals = [
        Interval(
            starts[deal.bucket] + deal.first, starts[deal.bucket] + deal.last, (deal.label, deal.groups, deal.turn)
        )
        for deal in plan.deals
    ]
    ends = (*plan.cuts, max(deal.high for deal in deals))
    return [Interval(low, high, (b,)) for b, (low, high) in enumerate(zip(starts, ends, strict=True))], deals


def _start(rank: exp.Column, runs: Runs) -> Expression:
    """The first rank of a run."""
    top = runs.rows - runs.high * runs.k
    return when(
        (rank >= top, rank - exp.paren(rank - top) % runs.k),
        (rank < runs.low * runs.k, rank - rank % runs.k),
        otherwise=exp.convert(runs.low * runs.k),
    )


def _codes(layout: Layout) -> list[Expression]:
    return [layout.column(name) for name in layout.schema.columns]
