"""Plans as SQL: built as a syntax tree, in which numbers are literals and texts become parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sqlglot import exp

from discreet.query.predicate import TRUE, All, Predicate, Within
from discreet.query.released import ReleasePlan
from discreet.query.totals import Cuts, Histogram, Key, Measure, Texts, Totals
from discreet.schema import Column, Schema
from discreet.sources import release
from discreet.sources.cells import first_bin, unshifted
from discreet.sources.conditions import condition
from discreet.sources.layout import Dialect, Layout
from discreet.sources.plan import require_one_row_each
from discreet.sources.statement import Statement, divided, statement

MOST_ROWS = 2**38
"""A snapshot has fewer rows, so that no sum overflows."""
INTEGER, BIGINT = 2**31, 2**63
"""What whole numbers of 32 and of 64 bits stay below."""
WIDE = {"duckdb": "INT128", "postgres": "DECIMAL", "spark": "DECIMAL(14, 0)"}
"""For codes whose squares may not fit 64 bits; a code has at most 14 digits."""


class Compiler:
    """Turns plans into SQL over the table that holds the snapshot of a schema; each plan once."""

    def __init__(self, schema: Schema, dialect: Dialect, table: exp.Table) -> None:
        self._layout = Layout(schema, dialect)
        self._table = table
        self.totals = lru_cache(maxsize=256)(self._totals)
        self.histogram = lru_cache(maxsize=256)(self._histogram)

    def columns(self) -> Statement:
        """No row, of every column there must be."""
        return self._statement(exp.select(*self._layout.everything()).from_(self._table).limit(0))

    def individual(self, column: str, unit: str) -> Statement:
        """One row, of one unit's code; the same work is done where the unit is absent."""
        require_one_row_each(self._layout.schema)
        named = exp.EQ(this=self._layout.unit(), expression=exp.Literal.string(unit))
        where = named if self._layout.holds_text(unit) else exp.false()
        return self._statement(exp.select(exp.Max(this=self._layout.column(column))).from_(self._table).where(where))

    def count(self) -> Statement:
        """One row, of how many rows there are."""
        return self._statement(exp.select(exp.Count(this=exp.Star())).from_(self._table))

    def records(self) -> Statement:
        """Every row, in the one order of all rows."""
        return self._statement(release.records(self._layout, self._table))

    def released(self, plan: ReleasePlan, key: str) -> Statement:
        """Every row: its codes, those that were changed, and its groups."""
        return self._statement(release.released(plan, key, self._layout, self._table))

    def _totals(self, plan: Totals) -> Statement:
        """A row for each cell: its keys, then its measures with nothing subtracted."""
        measures = [_measured(measure, self._layout) for measure in unshifted(plan.measures)]
        return self._statement(self._grouped(plan.keys, measures, plan.where))

    def _histogram(self, plan: Histogram) -> Statement:
        """A row for each bin of each cell: its keys, the bin, how many rows; with keys, one of the missing too."""
        public = self._layout.public(plan.bins.column)
        has_value = Within(plan.bins.column, ((public.lower, public.upper),))
        where = plan.where if plan.keys else All((plan.where, has_value))
        select = self._grouped((*plan.keys, plan.bins), [exp.Count(this=exp.Star())], where)
        return self._statement(select.order_by(*self._keys(plan.keys)) if plan.keys else select)

    def _grouped(self, keys: Sequence[Key], measures: Sequence[exp.Expression], where: Predicate) -> exp.Select:
        by = self._keys(keys)
        select = exp.select(*by, *measures).from_(self._table).group_by(*by)
        return select if where == TRUE else select.where(condition(where, self._layout), copy=False)

    def _keys(self, keys: Sequence[Key]) -> list[exp.Expression]:
        return [_key(key, self._layout) for key in keys]

    def _statement(self, select: exp.Select) -> Statement:
        return statement(select, self._layout)


def _key(key: Key, layout: Layout) -> exp.Expression:
    if isinstance(key, Texts):
        return layout.text(key.column)
    if isinstance(key, Cuts):
        there = exp.Not(this=exp.Is(this=layout.column(key.column), expression=exp.null()))
        return exp.Case(ifs=[exp.If(this=there, true=_place(layout.column(key.column), key.cuts, 0))])
    if key.width == 1:
        return layout.column(key.column)
    public = layout.public(key.column)
    first = first_bin(key, public)
    code = _cast(layout.column(key.column), "BIGINT") if public.upper - first >= INTEGER else layout.column(key.column)
    return divided(exp.Sub(this=code, expression=exp.Literal.number(first)), key.width, layout.dialect)


def _place(code: exp.Expression, cuts: Sequence[int], before: int) -> exp.Expression:
    """How many of the cuts are at or below the code, and of `before` others: by halves, which Spark plans quickly."""
    if not cuts:
        return exp.Literal.number(before)
    half = len(cuts) // 2
    below = exp.LT(this=code.copy(), expression=exp.Literal.number(cuts[half]))
    low, high = _place(code, cuts[:half], before), _place(code, cuts[half + 1 :], before + half + 1)
    return exp.Case(ifs=[exp.If(this=below, true=low)], default=high)


def _measured(measure: Measure, layout: Layout) -> exp.Expression:
    """Aggregates pass over what is missing, and a value that the measure's own condition leaves out is made so."""
    match measure.what:
        case "units" if layout.schema.unit and layout.schema.rows > 1:
            return exp.Count(this=exp.Distinct(expressions=[_chosen(layout.unit(), measure, layout)]))
        case "rows" | "units":
            every = exp.Star() if measure.where == TRUE else _chosen(exp.Literal.number(1), measure, layout)
            return exp.Count(this=every)
        case "present":
            return exp.Count(this=_chosen(layout.column(measure.column), measure, layout))
        case "sum":
            code = _chosen(layout.column(measure.column), measure, layout)
            return _sum(code, _farthest(layout.public(measure.column)), layout.dialect)
        case "squares":
            square = _farthest(layout.public(measure.column)) ** 2
            factor = _factor(layout.column(measure.column), square, layout.dialect)
            product = exp.Mul(this=factor, expression=factor.copy())
            return _sum(_chosen(product, measure, layout), square, layout.dialect)


def _chosen(value: exp.Expression, measure: Measure, layout: Layout) -> exp.Expression:
    """The value in the rows of the measure; in others none. In CASE, as in WHERE, unknown does what false does."""
    if measure.where == TRUE:
        return value
    return exp.Case(ifs=[exp.If(this=condition(measure.where, layout), true=value)])


def _farthest(public: Column) -> int:
    return max(abs(public.lower), abs(public.upper))


def _factor(code: exp.Expression, square: int, dialect: Dialect) -> exp.Expression:
    """A code in the narrowest type that holds squares of at most this."""
    if square < INTEGER:
        return code
    return _cast(code, "BIGINT" if square < BIGINT else WIDE[dialect])


def _sum(term: exp.Expression, farthest: int, dialect: Dialect) -> exp.Expression:
    """A sum of terms at most so far from 0, in a type that holds it for MOST_ROWS rows.

    DuckDB sums in 128 bits; PostgreSQL sums 32 bits in 64, and 64 bits in decimals; Spark sums both in 64.
    """
    if dialect == "duckdb" or farthest * MOST_ROWS < BIGINT:
        return exp.Sum(this=term)
    if dialect == "spark":
        return exp.Sum(this=_cast(term, "DECIMAL(38, 0)"))
    return exp.Sum(this=_cast(term, "BIGINT") if farthest < BIGINT else term)


def _cast(term: exp.Expression, kind: str) -> exp.Expression:
    return exp.Cast(this=term, to=exp.DataType.build(kind))
