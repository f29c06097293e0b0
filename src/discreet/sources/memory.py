"""A snapshot in memory: the plain loop that every engine must agree with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.query.predicate import TRUE, Predicate, holds
from discreet.query.released import Batch, ReleasePlan
from discreet.query.totals import Amounts, Cell, Cuts, Histogram, Key, Measure, Texts, Totals
from discreet.schema import Schema
from discreet.sources import plain_release
from discreet.sources.batches import Shape
from discreet.sources.plan import require_one_row_each

Row = plain_release.Row
UNIT = plain_release.UNIT


class MemorySource:
    """Rows by column name; the unit's name, where the schema has units, under `#unit`."""

    def __init__(self, schema: Schema, rows: Sequence[Row]) -> None:
        self._schema = schema
        self._rows = rows

    def totals(self, plan: Totals) -> Mapping[Cell, Amounts]:
        """The totals of every cell that has rows; without keys, of the one cell (), rows or not."""
        cells = self._cells(plan.keys, plan.where)
        return {cell: tuple(self._amount(measure, rows) for measure in plan.measures) for cell, rows in cells.items()}

    def histogram(self, plan: Histogram) -> Mapping[Cell, NDArray[np.int64]]:
        """The counts of every cell that has rows; without keys, of the one cell (), rows or not."""
        histograms = {}
        for cell, rows in self._cells(plan.keys, plan.where).items():
            histograms[cell] = counts = np.zeros(plan.count, np.int64)
            for row in rows:
                place = _key(plan.bins, row)
                if isinstance(place, int) and 0 <= place < plan.count:
                    counts[place] += 1
        return histograms

    def individual(self, column: str, unit: str) -> int | None:
        """The code of one unit's value; None where the unit is absent or has none."""
        require_one_row_each(self._schema)
        codes = [row[column] for row in self._rows if row[UNIT] == unit]
        return next((code for code in codes if isinstance(code, int)), None)

    def count(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def records(self) -> Iterator[Batch]:
        """All rows, by the unit's bytes and then by all codes in the order of the schema, missing ones last."""
        rows = plain_release.in_order(self._schema, self._rows)
        found = [[row[name] for name in self._schema.columns] for row in rows]
        return Shape.records(self._schema).batches(iter([found]))

    def released(self, plan: ReleasePlan, key: str) -> Iterator[Batch]:
        """All rows, what the plan makes of them, and their groups, in an order that tells nothing."""
        found = plain_release.released(plan, key, self._schema, self._rows)
        return Shape.released(plan, self._schema).batches(iter([found]))

    def close(self) -> None:
        """There is nothing to let go of."""

    def _cells(self, keys: Sequence[Key], where: Predicate) -> dict[Cell, list[Row]]:
        cells: dict[Cell, list[Row]] = {} if keys else {(): []}
        for row in _where(self._rows, where):
            cells.setdefault(tuple(_key(key, row) for key in keys), []).append(row)
        return cells

    def _amount(self, measure: Measure, chosen: Sequence[Row]) -> int:
        rows = _where(chosen, measure.where)
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


def _where(rows: Sequence[Row], where: Predicate) -> Sequence[Row]:
    return rows if where == TRUE else [row for row in rows if holds(where, row)]


def _key(key: Key, row: Row) -> int | str | None:
    value = row[key.column]
    if isinstance(key, Texts) or not isinstance(value, int):
        return value
    return sum(cut <= value for cut in key.cuts) if isinstance(key, Cuts) else (value - key.lower) // key.width
