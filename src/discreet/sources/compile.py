"""Plans as SQL: built as a syntax tree, in which numbers are literals and texts become parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sqlglot import exp

from discreet.query.predicate import TRUE, AllOf, InRanges, Predicate
from discreet.query.released import ReleasePlan
from discreet.query.totals import CutKey, HistogramScan, ScanKey, ScanMeasure, TextKey, TotalsScan
from discreet.schema import Column, Schema
from discreet.sources import release
from discreet.sources.cells import compute_first_bin, list_unshifted_measures
from discreet.sources.conditions import compile_predicate
from discreet.sources.layout import Dialect, SnapshotLayout
from discreet.sources.plan import require_one_row_each
from discreet.sources.statement import SqlStatement, build_integer_division, render_statement

MAX_SNAPSHOT_ROWS = 2**38
"""A snapshot has fewer rows, so that no sum overflows."""
INT32_LIMIT, INT64_LIMIT = 2**31, 2**63
"""What whole numbers of 32 and of 64 bits stay below."""
WIDE_TYPES = {"duckdb": "INT128", "postgres": "DECIMAL", "spark": "DECIMAL(14, 0)"}
"""For codes whose squares may not fit 64 bits; a code has at most 14 digits."""


class PlanCompiler:
    """Turns plans into SQL over the table that holds the snapshot of a schema; each plan once."""

    def __init__(self, schema: Schema, dialect: Dialect, table: exp.Table) -> None:
        self._layout = SnapshotLayout(schema, dialect)
        self._table = table
        self.compile_totals = lru_cache(maxsize=256)(self._compile_totals)
        self.compile_histogram = lru_cache(maxsize=256)(self._compile_histogram)

    def compile_column_check(self) -> SqlStatement:
        """No row, of every column there must be."""
        return self._render(exp.select(*self._layout.list_columns()).from_(self._table).limit(0))

    def compile_individual(self, column: str, unit: str) -> SqlStatement:
        """One row, of one unit's code; the same work is done where the unit is absent."""
        require_one_row_each(self._layout.schema)
        is_unit = exp.EQ(this=self._layout.get_unit_column(), expression=exp.Literal.string(unit))
        unit_condition = is_unit if self._layout.can_hold_text(unit) else exp.false()
        return self._render(
            exp.select(exp.Max(this=self._layout.get_column(column))).from_(self._table).where(unit_condition)
        )

    def compile_count(self) -> SqlStatement:
        """One row, of how many rows there are."""
        return self._render(exp.select(exp.Count(this=exp.Star())).from_(self._table))

    def compile_records(self) -> SqlStatement:
        """Every row, in the one order of all rows."""
        return self._render(release.select_records(self._layout, self._table))

    def compile_release(self, plan: ReleasePlan, key: str) -> SqlStatement:
        """Every row: its codes, those that were changed, and its groups."""
        return self._render(release.select_released_rows(plan, key, self._layout, self._table))

    def _compile_totals(self, plan: TotalsScan) -> SqlStatement:
        """A row for each cell: its keys, then its measures with nothing subtracted."""
        measures = [_compile_measure(measure, self._layout) for measure in list_unshifted_measures(plan.measures)]
        return self._render(self._select_groups(plan.keys, measures, plan.where))

    def _compile_histogram(self, plan: HistogramScan) -> SqlStatement:
        """A row for each bin of each cell: its keys, the bin, how many rows; with keys, one of the missing too."""
        schema_column = self._layout.get_schema_column(plan.bins.column)
        has_value = InRanges(plan.bins.column, ((schema_column.lower, schema_column.upper),))
        where = plan.where if plan.keys else AllOf((plan.where, has_value))
        select = self._select_groups((*plan.keys, plan.bins), [exp.Count(this=exp.Star())], where)
        return self._render(select.order_by(*self._compile_keys(plan.keys)) if plan.keys else select)

    def _select_groups(
        self, keys: Sequence[ScanKey], measures: Sequence[exp.Expression], where: Predicate
    ) -> exp.Select:
        key_expressions = self._compile_keys(keys)
        select = exp.select(*key_expressions, *measures).from_(self._table).group_by(*key_expressions)
        return select if where == TRUE else select.where(compile_predicate(where, self._layout), copy=False)

    def _compile_keys(self, keys: Sequence[ScanKey]) -> list[exp.Expression]:
        return [_compile_key(key, self._layout) for key in keys]

    def _render(self, select: exp.Select) -> SqlStatement:
        return render_statement(select, self._layout)


def _compile_key(key: ScanKey, layout: SnapshotLayout) -> exp.Expression:
    if isinstance(key, TextKey):
        return layout.get_text_column(key.column)
    if isinstance(key, CutKey):
        is_present = exp.Not(this=exp.Is(this=layout.get_column(key.column), expression=exp.null()))
        return exp.Case(
            ifs=[exp.If(this=is_present, true=_count_cuts_below(layout.get_column(key.column), key.cuts, 0))]
        )
    if key.width == 1:
        return layout.get_column(key.column)
    schema_column = layout.get_schema_column(key.column)
    first = compute_first_bin(key, schema_column)
    code = (
        _cast_term(layout.get_column(key.column), "BIGINT")
        if schema_column.upper - first >= INT32_LIMIT
        else layout.get_column(key.column)
    )
    return build_integer_division(exp.Sub(this=code, expression=exp.Literal.number(first)), key.width, layout.dialect)


def _count_cuts_below(code: exp.Expression, cuts: Sequence[int], offset: int) -> exp.Expression:
    """How many of the cuts are at or below the code, and of `before` others: by halves, which Spark plans quickly."""
    if not cuts:
        return exp.Literal.number(offset)
    half = len(cuts) // 2
    is_below = exp.LT(this=code.copy(), expression=exp.Literal.number(cuts[half]))
    low, high = (
        _count_cuts_below(code, cuts[:half], offset),
        _count_cuts_below(code, cuts[half + 1 :], offset + half + 1),
    )
    return exp.Case(ifs=[exp.If(this=is_below, true=low)], default=high)


def _compile_measure(measure: ScanMeasure, layout: SnapshotLayout) -> exp.Expression:
    """Aggregates pass over what is missing, and a value that the measure's own condition leaves out is made so."""
    match measure.what:
        case "units" if layout.schema.unit and layout.schema.rows > 1:
            return exp.Count(
                this=exp.Distinct(expressions=[_restrict_to_measure(layout.get_unit_column(), measure, layout)])
            )
        case "rows" | "units":
            counted_value = (
                exp.Star() if measure.where == TRUE else _restrict_to_measure(exp.Literal.number(1), measure, layout)
            )
            return exp.Count(this=counted_value)
        case "present":
            return exp.Count(this=_restrict_to_measure(layout.get_column(measure.column), measure, layout))
        case "sum":
            code = _restrict_to_measure(layout.get_column(measure.column), measure, layout)
            return _build_sum(code, _get_max_magnitude(layout.get_schema_column(measure.column)), layout.dialect)
        case "squares":
            square = _get_max_magnitude(layout.get_schema_column(measure.column)) ** 2
            factor = _widen_factor(layout.get_column(measure.column), square, layout.dialect)
            product = exp.Mul(this=factor, expression=factor.copy())
            return _build_sum(_restrict_to_measure(product, measure, layout), square, layout.dialect)


def _restrict_to_measure(value: exp.Expression, measure: ScanMeasure, layout: SnapshotLayout) -> exp.Expression:
    """The value in the rows of the measure; in others none. In CASE, as in WHERE, unknown does what false does."""
    if measure.where == TRUE:
        return value
    return exp.Case(ifs=[exp.If(this=compile_predicate(measure.where, layout), true=value)])


def _get_max_magnitude(column: Column) -> int:
    return max(abs(column.lower), abs(column.upper))


def _widen_factor(code: exp.Expression, square: int, dialect: Dialect) -> exp.Expression:
    """A code in the narrowest type that holds squares of at most this."""
    if square < INT32_LIMIT:
        return code
    return _cast_term(code, "BIGINT" if square < INT64_LIMIT else WIDE_TYPES[dialect])


def _build_sum(term: exp.Expression, max_magnitude: int, dialect: Dialect) -> exp.Expression:
    """A sum of terms at most so far from 0, in a type that holds it for MOST_ROWS rows.

    DuckDB sums in 128 bits; PostgreSQL sums 32 bits in 64, and 64 bits in decimals; Spark sums both in 64.
    """
    if dialect == "duckdb" or max_magnitude * MAX_SNAPSHOT_ROWS < INT64_LIMIT:
        return exp.Sum(this=term)
    if dialect == "spark":
        return exp.Sum(this=_cast_term(term, "DECIMAL(38, 0)"))
    return exp.Sum(this=_cast_term(term, "BIGINT") if max_magnitude < INT64_LIMIT else term)


def _cast_term(term: exp.Expression, kind: str) -> exp.Expression:
    return exp.Cast(this=term, to=exp.DataType.build(kind))
