"""What an engine returns, as the cells of a plan.

Engines sum plain codes; what a plan wants subtracted is subtracted here. The sum of (c - l) is the sum of c, less l for
every value; that of (c - l)^2 is the sum of c^2, less 2l times the sum of c, plus l^2 for every value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.query.totals import Amounts, Bins, Cell, Histogram, Key, Measure, Texts, Totals
from discreet.schema import Column, Schema

MISSING = -(2**62)
"""Stands for a missing value in arrays; no code and no bin is so far from 0."""
Found = int | str | Decimal | None


def unshifted(measures: Iterable[Measure]) -> tuple[Measure, ...]:
    """The measures with nothing subtracted that give these, each once; at least the number of rows."""
    return tuple(dict.fromkeys(part for measure in measures for part in _parts(measure))) or (Measure("rows"),)


def _parts(measure: Measure) -> tuple[Measure, ...]:
    plain = replace(measure, lower=0)
    total, present = replace(plain, what="sum"), replace(plain, what="present")
    if measure.what == "sum" and measure.lower:
        return total, present
    if measure.what == "squares" and measure.lower:
        return plain, total, present
    return (measure,)


def _amount(measure: Measure, found: Mapping[Measure, int]) -> int:
    match [found[part] for part in _parts(measure)]:
        case [total, present]:
            return total - measure.lower * present
        case [squares, total, present]:
            return squares - 2 * measure.lower * total + measure.lower**2 * present
    return found[measure]


def first_bin(bins: Bins, column: Column) -> int:
    """The code at which an engine's bin 0 starts: the start of a bin that no code of the column is below.

    Single codes are left as they are, so that for them it is 0.
    """
    return 0 if bins.width == 1 else column.lower - (column.lower - bins.lower) % bins.width


def totals(plan: Totals, schema: Schema, rows: Iterable[Sequence[Found]]) -> dict[Cell, Amounts]:
    """Each row's cell, and its totals."""
    measures, width = unshifted(plan.measures), len(plan.keys)
    shifts = _shifts(plan.keys, schema)
    cells: dict[Cell, Amounts] = {}
    for row in rows:
        found = dict(zip(measures, (int(total or 0) for total in row[width:]), strict=True))
        cell, amounts = _cell(row[:width], shifts), tuple(_amount(measure, found) for measure in plan.measures)
        cells[cell] = _merged(plan.measures, cells[cell], amounts) if cell in cells else amounts
    return cells


def _merged(measures: Iterable[Measure], one: Amounts, two: Amounts) -> Amounts:
    """The totals of a cell that came twice, as two texts of an engine that are one in Python; none should.

    Rows add up. Units do not: one that has rows under both texts would count twice. The greater of the two numbers
    moves by at most one where each of them does (planner/threshold.md).
    """
    ways = (max if measure.what == "units" else add for measure in measures)
    return tuple(way(x, y) for way, x, y in zip(ways, one, two, strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class Histograms(Mapping[Cell, NDArray[np.int64]]):
    """The histogram of each cell, made when it is looked up: all of them at once would be as many numbers as there are
    cells times bins. Kept are the bins that have rows, one after the other, and which of them are of which cell.
    """

    count: int
    places: NDArray[np.integer[Any]]
    rows: NDArray[np.integer[Any]]
    runs: Mapping[Cell, list[tuple[int, int]]]

    def __getitem__(self, cell: Cell) -> NDArray[np.int64]:
        made = np.zeros(self.count, np.int64)
        for start, stop in self.runs[cell]:
            np.add.at(made, self.places[start:stop], self.rows[start:stop])
        return made

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)


def histograms(plan: Histogram, schema: Schema, columns: Sequence[NDArray[Any]]) -> Histograms:
    """Each cell's histogram, from columns of keys, of bins and of the rows in them."""
    *keys, bins, counts = columns
    *shifts, shift = _shifts((*plan.keys, plan.bins), schema)
    places = bins + shift
    inside = (places >= 0) & (places < plan.count)
    kept = np.concatenate(([0], np.cumsum(inside)))
    runs: dict[Cell, list[tuple[int, int]]] = {} if plan.keys else {(): []}
    for start, stop in pairwise(_runs(keys, len(counts))):
        cell = _cell([key[start] for key in keys], shifts)
        runs.setdefault(cell, []).append((int(kept[start]), int(kept[stop])))
    return Histograms(plan.count, _small(places[inside]), _small(counts[inside]), runs)


def _small(numbers: NDArray[Any]) -> NDArray[np.integer[Any]]:
    """The same numbers, none below 0, in the smallest type that holds them."""
    return np.asarray(numbers, dtype=np.min_scalar_type(int(numbers.max(initial=0))))


def columns(plan: Histogram, rows: Sequence[Sequence[Found]]) -> list[NDArray[Any]]:
    """Rows of a histogram as columns: arrays of numbers, and of objects for texts."""
    kinds = [object if isinstance(key, Texts) else np.int64 for key in (*plan.keys, plan.bins)] + [np.int64]
    found = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return [
        np.array([MISSING if value is None and kind is np.int64 else value for value in values], kind)
        for kind, values in zip(kinds, found, strict=True)
    ]


def only(rows: Sequence[Sequence[int | None]]) -> int | None:
    """The one number of a reply of one row."""
    [[number]] = rows
    return number


def _runs(keys: Sequence[NDArray[Any]], length: int) -> list[int]:
    """Where runs of rows with the same keys start, and the end of the last."""
    changes = np.zeros(max(length - 1, 0), bool)
    for key in keys:
        changes |= key[1:] != key[:-1]
    return [*([0] if length else []), *(np.flatnonzero(changes) + 1).tolist(), length]


def _shifts(keys: Iterable[Key], schema: Schema) -> list[int]:
    """What is added to each key that an engine returns: to a bin, by how many its counting starts later."""
    return [
        (first_bin(key, schema.column(key.column)) - key.lower) // key.width if isinstance(key, Bins) else 0
        for key in keys
    ]


def _cell(found: Sequence[Found], shifts: Sequence[int]) -> Cell:
    return tuple(_key(value, shift) for value, shift in zip(found, shifts, strict=True))


def _key(value: Found, shift: int) -> int | str | None:
    if value is None or isinstance(value, str):
        return value
    return int(value) + shift if value != MISSING else None
