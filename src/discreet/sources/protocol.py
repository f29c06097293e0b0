"""What every source of rows does, and how an engine's results become cells and batches.

Engines sum plain codes; what a plan wants subtracted is subtracted here. The sum of (c - l) is the sum of c, less l for
every value; that of (c - l)^2 is the sum of c^2, less 2l times the sum of c, plus l^2 for every value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from operator import add
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unsupported
from discreet.query import scan
from discreet.schema import Column, Schema

EngineValue = int | str | Decimal | None
BATCH_SIZE = 100_000
"""How many rows a batch has, but for the last."""
RECORD_GROUPS = "records"
"""The name of groups of whole rows."""


class Source(Protocol):
    """Where a snapshot lives. Nothing it does may fail on a row, and nothing it says of a failure may quote one."""

    def totals(self, plan: scan.TotalsScan) -> Mapping[scan.Cell, scan.Amounts]:
        """The totals of every cell that has rows; without keys, of the one cell (), rows or not."""

    def histogram(self, plan: scan.HistogramScan) -> Mapping[scan.Cell, NDArray[np.int64]]:
        """The counts of every cell that has rows; without keys, of the one cell (), rows or not."""

    def individual(self, column: str, unit: str) -> int | None:
        """The code of one unit's value; None where the unit is absent or has none."""

    def count(self) -> int:
        """How many rows there are."""

    def records(self) -> Iterator[scan.ReleaseBatch]:
        """All rows, by the unit's bytes and then by all codes in the order of the schema, missing ones last."""

    def release_rows(self, plan: scan.ReleasePlan, key: str) -> Iterator[scan.ReleaseBatch]:
        """All rows, what the plan makes of them, and their groups, in an order that tells nothing."""

    def close(self) -> None:
        """Let go of connections."""


def require_one_row_each(schema: Schema) -> None:
    """Refuse to speak of a unit's value where a unit may have several, or none has a name."""
    if schema.unit is None or schema.rows != 1:
        raise Unsupported(f"one unit's value is asked of {schema.name}, but its schema does not give each unit one row")


def require_rankable(schema: Schema, column: str) -> None:
    """Refuse to rank private keys, which have no public order."""
    if schema.column(column).private_keys:
        raise Unsupported(
            f"a release ranks the values of {column[:40]!r}, but they are private keys without an order; "
            "choose a column with a public domain"
        )


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
    bin_indices: NDArray[np.integer[Any]]
    row_counts: NDArray[np.integer[Any]]
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


def decode_histograms(plan: scan.HistogramScan, schema: Schema, columns: Sequence[NDArray[Any]]) -> LazyHistograms:
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


def _shrink_integers(numbers: NDArray[Any]) -> NDArray[np.integer[Any]]:
    """The same numbers, none below 0, in the smallest type that holds them."""
    return np.asarray(numbers, dtype=np.min_scalar_type(int(numbers.max(initial=0))))


def transpose_histogram_rows(plan: scan.HistogramScan, rows: Sequence[Sequence[EngineValue]]) -> list[NDArray[Any]]:
    """Rows of a histogram as columns: arrays of numbers, and of objects for texts."""
    dtypes = [object if isinstance(key, scan.TextKey) else np.int64 for key in (*plan.keys, plan.bins)] + [np.int64]
    value_columns = list(zip(*rows, strict=True)) or [()] * len(dtypes)
    return [_to_array(values, dtype) for dtype, values in zip(dtypes, value_columns, strict=True)]


def _to_array(values: Sequence[EngineValue], dtype: type) -> NDArray[Any]:
    """An array of texts, or of numbers, in which `MISSING_CODE` stands for what is missing."""
    if dtype is object or None not in values:
        return np.array(values, dtype)
    return np.array([scan.MISSING_CODE if value is None else value for value in values], dtype)


def get_single_number(rows: Sequence[Sequence[int | None]]) -> int | None:
    """Return the one number of a reply of one row."""
    [[number]] = rows
    return number


def _find_run_starts(keys: Sequence[NDArray[Any]], length: int) -> list[int]:
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


@dataclass(frozen=True, slots=True)
class BatchShape:
    """The columns of a reply, in order: those of the schema, those that were changed, the labels of groups."""

    original: tuple[str, ...]
    texts: frozenset[str]
    changed: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @staticmethod
    def for_records(schema: Schema) -> BatchShape:
        """The shape of the rows as they are."""
        texts = frozenset(name for name, column in schema.columns.items() if column.private_keys)
        return BatchShape(tuple(schema.columns), texts)

    @staticmethod
    def for_release(plan: scan.ReleasePlan, schema: Schema) -> BatchShape:
        """The shape of the rows and of what a plan makes of them."""
        base_shape = BatchShape.for_records(schema)
        if isinstance(plan, scan.SwapPlan):
            names = tuple(name for name, _ in plan.runs)
            return replace(base_shape, changed=names, groups=names)
        changed = (plan.column,) if isinstance(plan, scan.TClosenessPlan) else ()
        return replace(base_shape, changed=changed, groups=(RECORD_GROUPS,))

    def build_batch(self, columns: Sequence[NDArray[Any]]) -> scan.ReleaseBatch:
        """The columns of a reply by their names."""
        first, second = len(self.original), len(self.original) + len(self.changed)
        return scan.ReleaseBatch(
            dict(zip(self.original, columns[:first], strict=True)),
            dict(zip(self.changed, columns[first:second], strict=True)),
            dict(zip(self.groups, columns[second:], strict=True)),
        )

    def build_batches(self, row_chunks: Iterable[Sequence[Sequence[Any]]]) -> Iterator[scan.ReleaseBatch]:
        """A reply that comes as lists of rows; none of a list without rows."""
        dtypes = [object if name in self.texts else np.int64 for name in self.original]
        dtypes += [np.int64] * (len(self.changed) + len(self.groups))
        for rows in row_chunks:
            if rows:
                columns = zip(dtypes, zip(*rows, strict=True), strict=True)
                yield self.build_batch([_to_array(values, dtype) for dtype, values in columns])
