"""Exact counts of public cells, from wherever the rows are: what a private file is made of. They are secret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from discreet.microdata.private.bins import BinnedColumn, build_joint_table, plan_joint_table
from discreet.microdata.private.grid import ColumnGrid, Counts
from discreet.query.totals import BinKey, HistogramScan, ScanMeasure, TotalsScan

if TYPE_CHECKING:
    from discreet.sources.plan import Source


def count_column_cells(source: Source, grid: ColumnGrid) -> Counts:
    """How many rows are in each cell of one column; those without a value last, where there may be some."""
    plan = HistogramScan(BinKey(grid.column, grid.lower, grid.width), grid.cell_count)
    present_counts = np.asarray(source.histogram(plan)[()], dtype=np.int64)
    return np.append(present_counts, source.count() - present_counts.sum()) if grid.has_missing else present_counts


def count_pair_tables(source: Source, pairs: Sequence[tuple[BinnedColumn, BinnedColumn]]) -> list[Counts]:
    """How many rows are in each cell of each table of two columns."""
    return [build_joint_table(first, second, source.totals(plan_joint_table(first, second))) for first, second in pairs]


def count_occupied_cells(source: Source, keys: Sequence[BinKey], middles: Sequence[int]) -> tuple[Counts, Counts]:
    """The cells of several columns together that have rows, one a row, and how many rows each has.

    A missing value counts as the middle of its column.
    """
    cell_totals = source.totals(TotalsScan((ScanMeasure("rows"),), tuple(keys)))
    cell_codes = [
        [middle if code is None else int(code) for code, middle in zip(cell, middles, strict=True)]
        for cell in cell_totals
    ]
    cells = np.array(cell_codes, dtype=np.int64)
    counts = np.array([rows for (rows,) in cell_totals.values()], dtype=np.int64)
    return cells.reshape(len(counts), len(keys)), counts
