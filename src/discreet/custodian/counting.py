"""Exact counts of public cells, from wherever the rows are: what a private file is made of. They are secret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from discreet.microdata.private.bins import Binned, joint_plan, joint_table
from discreet.microdata.private.grid import Counts, Grid
from discreet.query.totals import Bins, Histogram, Measure, Totals

if TYPE_CHECKING:
    from discreet.sources.plan import Source


def column_counts(source: Source, grid: Grid) -> Counts:
    """How many rows are in each cell of one column; those without a value last, where there may be some."""
    plan = Histogram(Bins(grid.column, grid.lower, grid.width), grid.cells)
    present = np.asarray(source.histogram(plan)[()], dtype=np.int64)
    return np.append(present, source.count() - present.sum()) if grid.missing else present


def pair_tables(source: Source, pairs: Sequence[tuple[Binned, Binned]]) -> list[Counts]:
    """How many rows are in each cell of each table of two columns."""
    return [joint_table(one, other, source.totals(joint_plan(one, other))) for one, other in pairs]


def occupied_cells(source: Source, keys: Sequence[Bins], middles: Sequence[int]) -> tuple[Counts, Counts]:
    """The cells of several columns together that have rows, one a row, and how many rows each has.

    A missing value counts as the middle of its column.
    """
    found = source.totals(Totals((Measure("rows"),), tuple(keys)))
    told = [[middle if at is None else int(at) for at, middle in zip(cell, middles, strict=True)] for cell in found]
    cells = np.array(told, dtype=np.int64)
    counts = np.array([rows for (rows,) in found.values()], dtype=np.int64)
    return cells.reshape(len(counts), len(keys)), counts
