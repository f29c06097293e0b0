"""A snapshot in memory: the plain loop that every engine must agree with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.query.predicate import TRUE, Predicate, is_satisfied
from discreet.query.released import ReleaseBatch, ReleasePlan
from discreet.query.totals import Amounts, Cell, CutKey, HistogramScan, ScanKey, ScanMeasure, TextKey, TotalsScan
from discreet.schema import Schema
from discreet.sources import plain_release
from discreet.sources.batches import BatchShape
from discreet.sources.plan import require_one_row_each

Row = plain_release.SnapshotRow
UNIT = plain_release.UNIT_KEY


class MemorySource:
    """Rows by column name; the unit's name, where the schema has units, under `#unit`."""

    def __init__(self, schema: Schema, rows: Sequence[Row]) -> None:
        self._schema = schema
        self._rows = rows

    def totals(self, plan: TotalsScan) -> Mapping[Cell, Amounts]:
        """The totals of every cell that has rows; without keys, of the one cell (), rows or not."""
        cells = self._group_rows(plan.keys, plan.where)
        return {cell: tuple(self._amount(measure, rows) for measure in plan.measures) for cell, rows in cells.items()}

    def histogram(self, plan: HistogramScan) -> Mapping[Cell, NDArray[np.int64]]:
        """The counts of every cell that has rows; without keys, of the one cell (), rows or not."""
        histograms = {}
        for cell, rows in self._group_rows(plan.keys, plan.where).items():
            histograms[cell] = counts = np.zeros(plan.count, np.int64)
            for row in rows:
                bin_index = _compute_key(plan.bins, row)
                if isinstance(bin_index, int) and 0 <= bin_index < plan.count:
                    counts[bin_index] += 1
        return histograms

    def individual(self, column: str, unit: str) -> int | None:
        """The code of one unit's value; None where the unit is absent or has none."""
        require_one_row_each(self._schema)
        codes = [row[column] for row in self._rows if row[UNIT] == unit]
        return next((code for code in codes if isinstance(code, int)), None)

    def count(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def records(self) -> Iterator[ReleaseBatch]:
        """All rows, by the unit's bytes and then by all codes in the order of the schema, missing ones last."""
        rows = plain_release.sort_snapshot_rows(self._schema, self._rows)
        value_rows = [[row[name] for name in self._schema.columns] for row in rows]
        return BatchShape.for_records(self._schema).build_batches(iter([value_rows]))

    def release_rows(self, plan: ReleasePlan, key: str) -> Iterator[ReleaseBatch]:
        """All rows, what the plan makes of them, and their groups, in an order that tells nothing."""
        value_rows = plain_release.release_in_memory(plan, key, self._schema, self._rows)
        return BatchShape.for_release(plan, self._schema).build_batches(iter([value_rows]))

    def close(self) -> None:
        """There is nothing to let go of."""

    def _group_rows(self, keys: Sequence[ScanKey], where: Predicate) -> dict[Cell, list[Row]]:
        cells: dict[Cell, list[Row]] = {} if keys else {(): []}
        for row in _filter_rows(self._rows, where):
            cells.setdefault(tuple(_compute_key(key, row) for key in keys), []).append(row)
        return cells

    def _amount(self, measure: ScanMeasure, cell_rows: Sequence[Row]) -> int:
        rows = _filter_rows(cell_rows, measure.where)
        values = [row[measure.column] for row in rows] if measure.column else []
        codes = [value - measure.lower for value in values if isinstance(value, int)]
        match measure.what:
            case "rows":
                return len(rows)
            case "units":
                return len({row[UNIT] for row in rows}) if self._schema.rows > 1 and self._schema.unit else len(rows)
            case "present":
                return sum(value is not None for value in values)
            case "sum":
                return sum(codes)
            case "squares":
                return sum(code * code for code in codes)


def _filter_rows(rows: Sequence[Row], where: Predicate) -> Sequence[Row]:
    return rows if where == TRUE else [row for row in rows if is_satisfied(where, row)]


def _compute_key(key: ScanKey, row: Row) -> int | str | None:
    value = row[key.column]
    if isinstance(key, TextKey) or not isinstance(value, int):
        return value
    return sum(cut <= value for cut in key.cuts) if isinstance(key, CutKey) else (value - key.lower) // key.width
