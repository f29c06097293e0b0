"""Scan requests compiled to SQL, the source that runs them on an engine, and its replies decoded to cells.

A condition is unknown where a value is missing and nothing says what that means. No "not" stands around a condition, so
in a WHERE clause unknown does what false does: the row is left out, as `is_satisfied` says.

Engines sum plain codes; what a plan wants subtracted is subtracted from their replies. The sum of (c - l) is the sum of
c, less l for every value; that of (c - l)^2 is the sum of c^2, less 2l times the sum of c, plus l^2 for every value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from operator import add

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from discreet.query import scan
from discreet.query.predicates import TRUE, AllOf, AnyOf, InRanges, InTexts, Predicate
from discreet.schema import Column, Schema
from discreet.sources import sql_release
from discreet.sources.protocol import BatchShape, EngineColumn, EngineValue, build_value_array, require_one_row_each
from discreet.sources.sql_dialects import (
    Dialect,
    SnapshotLayout,
    SqlStatement,
    build_integer_division,
    render_statement,
)

MAX_COMPARED_RANGES = 4
"""So many ranges are compared with their ends. Of more, and of the gaps between them, those of at most MAX_LISTED_CODES
are listed code by code: engines look up a code in a list of thousands as fast as they compare it with a few ends."""
MAX_LISTED_CODES = 64
MAX_SNAPSHOT_ROWS = 2**38
"""A snapshot has fewer rows, so that no sum overflows."""
INT32_LIMIT, INT64_LIMIT = 2**31, 2**63
"""What whole numbers of 32 and of 64 bits stay below."""
WIDE_TYPES = {"duckdb": "INT128", "postgres": "DECIMAL", "spark": "DECIMAL(14, 0)"}
"""For codes whose squares may not fit 64 bits; a code has at most 14 digits."""


def compile_predicate(predicate: Predicate, layout: SnapshotLayout) -> exp.Expression:
    """A condition that is true of just those rows of which the predicate holds."""
    match predicate:
        case AllOf(parts):
            conditions = [compile_predicate(part, layout) for part in parts]
            return _join_conditions(exp.And, conditions) if parts else exp.true()
        case AnyOf(parts):
            conditions = [compile_predicate(part, layout) for part in parts]
            return _join_conditions(exp.Or, conditions) if parts else exp.false()
        case InRanges():
            value_condition = _compile_ranges(predicate, layout)
        case InTexts():
            value_condition = _compile_texts(predicate, layout)
    is_missing = exp.Is(this=layout.get_column(predicate.column), expression=exp.null())
    return _join_conditions(exp.Or, [is_missing, value_condition]) if predicate.null else value_condition


def _compile_ranges(predicate: InRanges, layout: SnapshotLayout) -> exp.Expression:
    schema_column, code = layout.get_schema_column(predicate.column), layout.get_column(predicate.column)
    trimmed_ranges = [(max(low, schema_column.lower), min(high, schema_column.upper)) for low, high in predicate.ranges]
    ranges = [(low, high) for low, high in trimmed_ranges if low <= high]
    gaps = [(high + 1, low - 1) for (_, high), (low, _) in pairwise(ranges)]
    max_length = 1 if len(ranges) <= MAX_COMPARED_RANGES else MAX_LISTED_CODES
    listed_codes = _list_codes(ranges, max_length)
    wide_ranges = [(low, high) for low, high in ranges if high - low >= max_length]
    if wide_ranges and gaps and all(high - low < max_length for low, high in gaps):
        ends = _compare_with_ends(code, ranges[0][0], ranges[-1][1], schema_column)
        return _join_conditions(exp.And, [*ends, layout.build_not_in(code, _list_codes(gaps, max_length))])
    parts = [layout.build_in(code, listed_codes)] if listed_codes else []
    parts += [
        _join_conditions(exp.And, _compare_with_ends(code, low, high, schema_column) or [_is_present(code)])
        for low, high in wide_ranges
    ]
    return _join_conditions(exp.Or, parts) if parts else exp.false()


def _list_codes(ranges: Iterable[tuple[int, int]], max_length: int) -> list[exp.Expression]:
    """The codes of all ranges of at most so many."""
    short_ranges = [range(low, high + 1) for low, high in ranges if high - low < max_length]
    return [exp.Literal.number(code) for codes in short_ranges for code in codes]


def _compare_with_ends(code: exp.Column, low: int, high: int, column: Column) -> list[exp.Expression]:
    """Comparisons with the ends of a range; none with a bound of the column, which nothing is beyond."""
    lower_comparison = [exp.GTE(this=code.copy(), expression=exp.Literal.number(low))] if low > column.lower else []
    upper_comparison = [exp.LTE(this=code.copy(), expression=exp.Literal.number(high))] if high < column.upper else []
    return [*lower_comparison, *upper_comparison]


def _compile_texts(predicate: InTexts, layout: SnapshotLayout) -> exp.Expression:
    column = layout.get_text_column(predicate.column)
    texts: list[exp.Expression] = [exp.Literal.string(text) for text in predicate.texts if layout.can_hold_text(text)]
    if not texts:
        return _is_present(column) if predicate.outside else exp.false()
    return layout.build_not_in(column, texts) if predicate.outside else layout.build_in(column, texts)


def _is_present(column: exp.Expression) -> exp.Expression:
    return exp.Not(this=exp.Is(this=column.copy(), expression=exp.null()))


def _join_conditions(connector: type[exp.Connector], parts: Sequence[exp.Expression]) -> exp.Expression:
    """A tree of parts that is as flat as can be: engines give up on chains of thousands."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = _join_conditions(connector, parts[:half]), _join_conditions(connector, parts[half:])
    return exp.paren(connector(this=left, expression=right), copy=False)


class PlanCompiler:
    """Turns plans into SQL over the table that holds the snapshot of a schema; each plan once."""

    def __init__(self, schema: Schema, dialect: Dialect, table: exp.Table) -> None:
        self._layout = SnapshotLayout(schema, dialect)
        self._table = table
        self.compile_totals = lru_cache(maxsize=256)(self._compile_totals)
        self.compile_histogram = lru_cache(maxsize=256)(self._compile_histogram)

    def compile_column_check(self) -> SqlStatement:
        """No row, of every column that a snapshot must have."""
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
        return self._render(sql_release.select_records(self._layout, self._table))

    def compile_release(self, plan: scan.ReleasePlan, key: str) -> SqlStatement:
        """Every row: its codes, those that were changed, and its groups."""
        return self._render(sql_release.select_released_rows(plan, key, self._layout, self._table))

    def _compile_totals(self, plan: scan.TotalsScan) -> SqlStatement:
        """A row for each cell: its keys, then its measures with nothing subtracted."""
        measures = [_compile_measure(measure, self._layout) for measure in list_unshifted_measures(plan.measures)]
        return self._render(self._select_groups(plan.keys, measures, plan.where))

    def _compile_histogram(self, plan: scan.HistogramScan) -> SqlStatement:
        """A row for each bin of each cell: its keys, the bin, how many rows; with keys, one of the missing too."""
        schema_column = self._layout.get_schema_column(plan.bins.column)
        has_value = InRanges(plan.bins.column, ((schema_column.lower, schema_column.upper),))
        where = plan.where if plan.keys else AllOf((plan.where, has_value))
        select = self._select_groups((*plan.keys, plan.bins), [exp.Count(this=exp.Star())], where)
        keys = [_compile_key(key, self._layout) for key in plan.keys]
        return self._render(select.order_by(*keys) if keys else select)

    def _select_groups(
        self, keys: Sequence[scan.ScanKey], measures: Sequence[exp.Expression], where: Predicate
    ) -> exp.Select:
        key_expressions = [_compile_key(key, self._layout) for key in keys]
        select = exp.select(*key_expressions, *measures).from_(self._table).group_by(*key_expressions)
        return select if where == TRUE else select.where(compile_predicate(where, self._layout), copy=False)

    def _render(self, select: exp.Select) -> SqlStatement:
        return render_statement(select, self._layout)


def _compile_key(key: scan.ScanKey, layout: SnapshotLayout) -> exp.Expression:
    if isinstance(key, scan.TextKey):
        return layout.get_text_column(key.column)
    code: exp.Expression = layout.get_column(key.column)
    if isinstance(key, scan.CutKey):
        return exp.Case(ifs=[exp.If(this=_is_present(code), true=_count_cuts_below(code, key.cuts, 0))])
    if key.width == 1:
        return code
    schema_column = layout.get_schema_column(key.column)
    first = compute_first_bin(key, schema_column)
    code = _cast_term(code, "BIGINT") if schema_column.upper - first >= INT32_LIMIT else code
    return build_integer_division(exp.Sub(this=code, expression=exp.Literal.number(first)), key.width, layout.dialect)


def _count_cuts_below(code: exp.Expression, cuts: Sequence[int], offset: int) -> exp.Expression:
    """How many of the cuts are at or below the code, and `offset` more: by halves, which Spark plans quickly."""
    if not cuts:
        return exp.Literal.number(offset)
    half = len(cuts) // 2
    is_below = exp.LT(this=code.copy(), expression=exp.Literal.number(cuts[half]))
    low = _count_cuts_below(code, cuts[:half], offset)
    high = _count_cuts_below(code, cuts[half + 1 :], offset + half + 1)
    return exp.Case(ifs=[exp.If(this=is_below, true=low)], default=high)


def _compile_measure(measure: scan.ScanMeasure, layout: SnapshotLayout) -> exp.Expression:
    """Aggregates pass over what is missing, and a value that the measure's own condition leaves out is made so."""
    match measure.what:
        case "units" if layout.schema.unit and layout.schema.rows > 1:
            unit = _restrict_to_measure(layout.get_unit_column(), measure, layout)
            return exp.Count(this=exp.Distinct(expressions=[unit]))
        case "rows" | "units":
            value = exp.Star() if measure.where == TRUE else exp.Literal.number(1)
            return exp.Count(this=_restrict_to_measure(value, measure, layout))
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


def _restrict_to_measure(value: exp.Expression, measure: scan.ScanMeasure, layout: SnapshotLayout) -> exp.Expression:
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
    """A sum of terms at most so far from 0, in a type that holds it for MAX_SNAPSHOT_ROWS rows.

    DuckDB sums in 128 bits; PostgreSQL sums 32 bits in 64, and 64 bits in decimals; Spark sums both in 64.
    """
    if dialect == "duckdb" or max_magnitude * MAX_SNAPSHOT_ROWS < INT64_LIMIT:
        return exp.Sum(this=term)
    if dialect == "spark":
        return exp.Sum(this=_cast_term(term, "DECIMAL(38, 0)"))
    return exp.Sum(this=_cast_term(term, "BIGINT") if max_magnitude < INT64_LIMIT else term)


def _cast_term(term: exp.Expression, kind: str) -> exp.Expression:
    return exp.Cast(this=term, to=exp.DataType.build(kind))


def list_unshifted_measures(measures: Iterable[scan.ScanMeasure]) -> tuple[scan.ScanMeasure, ...]:
    """The measures with nothing subtracted that give these, each once; at least the number of rows."""
    parts = tuple(dict.fromkeys(part for measure in measures for part in _split_measure(measure)))
    return parts or (scan.ScanMeasure("rows"),)


def _split_measure(measure: scan.ScanMeasure) -> tuple[scan.ScanMeasure, ...]:
    unshifted_measure = replace(measure, lower=0)
    total, present = replace(unshifted_measure, what="sum"), replace(unshifted_measure, what="present")
    if measure.what == "sum" and measure.lower:
        return total, present
    if measure.what == "squares" and measure.lower:
        return unshifted_measure, total, present
    return (measure,)


def _compute_amount(measure: scan.ScanMeasure, part_totals: Mapping[scan.ScanMeasure, int]) -> int:
    match [part_totals[part] for part in _split_measure(measure)]:
        case [total, present]:
            return total - measure.lower * present
        case [squares, total, present]:
            return squares - 2 * measure.lower * total + measure.lower**2 * present
    return part_totals[measure]


def compute_first_bin(bins: scan.BinKey, column: Column) -> int:
    """The code at which an engine's bin 0 starts: the start of a bin that no code of the column is below.

    Single codes are left as they are, so that for them it is 0.
    """
    return 0 if bins.width == 1 else column.lower - (column.lower - bins.lower) % bins.width


def decode_totals(
    plan: scan.TotalsScan, schema: Schema, rows: Iterable[Sequence[EngineValue]]
) -> dict[scan.Cell, scan.Amounts]:
    """Decode an engine's rows to cells and their totals."""
    measures, width = list_unshifted_measures(plan.measures), len(plan.keys)
    shifts = _compute_bin_shifts(plan.keys, schema)
    cells: dict[scan.Cell, scan.Amounts] = {}
    for row in rows:
        part_totals = dict(zip(measures, (int(total or 0) for total in row[width:]), strict=True))
        cell = _build_cell(row[:width], shifts)
        amounts = tuple(_compute_amount(measure, part_totals) for measure in plan.measures)
        cells[cell] = _merge_amounts(plan.measures, cells[cell], amounts) if cell in cells else amounts
    return cells


def _merge_amounts(measures: Iterable[scan.ScanMeasure], first: scan.Amounts, second: scan.Amounts) -> scan.Amounts:
    """The totals of a cell that came twice, as two texts of an engine that are one in Python; none should.

    Rows add up. Units do not: one that has rows under both texts would count twice. The greater of the two numbers
    moves by at most one where each of them does (measurements/threshold.md).
    """
    operations = (max if measure.what == "units" else add for measure in measures)
    return tuple(operation(x, y) for operation, x, y in zip(operations, first, second, strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class LazyHistograms(Mapping[scan.Cell, NDArray[np.int64]]):
    """The histogram of each cell, made when it is looked up: all of them at once would be as many numbers as there are
    cells times bins. Kept are the bins that have rows, one after the other, and which of them are of which cell.
    """

    bin_count: int
    bin_indices: NDArray[np.integer]
    row_counts: NDArray[np.integer]
    runs: Mapping[scan.Cell, list[tuple[int, int]]]

    def __getitem__(self, cell: scan.Cell) -> NDArray[np.int64]:
        counts = np.zeros(self.bin_count, np.int64)
        for start, stop in self.runs[cell]:
            np.add.at(counts, self.bin_indices[start:stop], self.row_counts[start:stop])
        return counts

    def __iter__(self) -> Iterator[scan.Cell]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)


def decode_histograms(plan: scan.HistogramScan, schema: Schema, columns: Sequence[EngineColumn]) -> LazyHistograms:
    """Decode columns of keys, of bins and of row counts to the histogram of each cell."""
    *keys, bins, counts = columns
    *shifts, shift = _compute_bin_shifts((*plan.keys, plan.bins), schema)
    bin_indices = bins + shift
    is_inside = (bin_indices >= 0) & (bin_indices < plan.count)
    inside_counts = np.concatenate(([0], np.cumsum(is_inside)))
    runs: dict[scan.Cell, list[tuple[int, int]]] = {} if plan.keys else {(): []}
    for start, stop in pairwise(_find_run_starts(keys, len(counts))):
        cell = _build_cell([key[start] for key in keys], shifts)
        runs.setdefault(cell, []).append((int(inside_counts[start]), int(inside_counts[stop])))
    inside_bins, inside_rows = _shrink_integers(bin_indices[is_inside]), _shrink_integers(counts[is_inside])
    return LazyHistograms(plan.count, inside_bins, inside_rows, runs)


def _shrink_integers(numbers: EngineColumn) -> NDArray[np.integer]:
    """The same numbers, none below 0, in the smallest type that holds them."""
    return np.asarray(numbers, dtype=np.min_scalar_type(int(numbers.max(initial=0))))


def transpose_histogram_rows(plan: scan.HistogramScan, rows: Sequence[Sequence[EngineValue]]) -> list[EngineColumn]:
    """Rows of a histogram as columns: arrays of numbers, and of objects for texts."""
    dtypes = [object if isinstance(key, scan.TextKey) else np.int64 for key in (*plan.keys, plan.bins)] + [np.int64]
    value_columns = list(zip(*rows, strict=True)) or [()] * len(dtypes)
    return [build_value_array(values, dtype) for dtype, values in zip(dtypes, value_columns, strict=True)]


def _find_run_starts(keys: Sequence[EngineColumn], length: int) -> list[int]:
    """Where runs of rows with the same keys start, and the end of the last."""
    changes = np.zeros(max(length - 1, 0), bool)
    for key in keys:
        changes |= key[1:] != key[:-1]
    return [*([0] if length else []), *(np.flatnonzero(changes) + 1).tolist(), length]


def _compute_bin_shifts(keys: Iterable[scan.ScanKey], schema: Schema) -> list[int]:
    """What is added to each key that an engine returns: to a bin, by how many its counting starts later."""
    return [
        (compute_first_bin(key, schema.column(key.column)) - key.lower) // key.width
        if isinstance(key, scan.BinKey)
        else 0
        for key in keys
    ]


def _build_cell(values: Sequence[EngineValue], shifts: Sequence[int]) -> scan.Cell:
    return tuple(_decode_key(value, shift) for value, shift in zip(values, shifts, strict=True))


def _decode_key(value: EngineValue, shift: int) -> int | str | None:
    if value is None or isinstance(value, str):
        return value
    return int(value) + shift if value != scan.MISSING_CODE else None


class SQLSource(ABC):
    """A `Source` on a table with a row for every row of the snapshot; how statements are run is the engine's own."""

    def __init__(self, schema: Schema, compiler: PlanCompiler) -> None:
        self._schema, self._compiler = schema, compiler

    def totals(self, plan: scan.TotalsScan) -> Mapping[scan.Cell, scan.Amounts]:
        return decode_totals(plan, self._schema, self._fetch_rows(self._compiler.compile_totals(plan)))

    def histogram(self, plan: scan.HistogramScan) -> Mapping[scan.Cell, NDArray[np.int64]]:
        columns = self._fetch_counts(plan, self._compiler.compile_histogram(plan))
        return decode_histograms(plan, self._schema, columns)

    def individual(self, column: str, unit: str) -> int | None:
        [[code]] = self._fetch_rows(self._compiler.compile_individual(column, unit))
        return None if code is None else int(code)

    def count(self) -> int:
        [[rows]] = self._fetch_rows(self._compiler.compile_count())
        return int(rows or 0)

    def records(self) -> Iterator[scan.ReleaseBatch]:
        return self._fetch_batches(BatchShape.for_records(self._schema), self._compiler.compile_records())

    def release_rows(self, plan: scan.ReleasePlan, key: str) -> Iterator[scan.ReleaseBatch]:
        shape = BatchShape.for_release(plan, self._schema)
        return self._fetch_batches(shape, self._compiler.compile_release(plan, key))

    def _fetch_counts(self, plan: scan.HistogramScan, statement: SqlStatement) -> Sequence[EngineColumn]:
        return transpose_histogram_rows(plan, self._fetch_rows(statement))

    @abstractmethod
    def _fetch_rows(self, statement: SqlStatement) -> Sequence[Sequence[EngineValue]]:
        """All rows of a reply."""

    @abstractmethod
    def _fetch_batches(self, shape: BatchShape, statement: SqlStatement) -> Iterator[scan.ReleaseBatch]:
        """The rows of a reply, some at a time."""
