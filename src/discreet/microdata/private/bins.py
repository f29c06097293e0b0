"""The cells of a column in few bins, by its private counts: what tables of two columns are told in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet.microdata.private.grid import ColumnGrid, Counts
from discreet.query.totals import Amounts, BinKey, Cell, CutKey, ScanMeasure, TotalsScan

CUT_ROUNDS = 16
"""So often heavy cells are cut down to an equal part of what is left of all."""


@dataclass(frozen=True, slots=True, eq=False)
class BinnedColumn:
    """A column's private counts, and the bin of each of its cells; bins of an ordered column are runs of cells."""

    grid: ColumnGrid
    counts: Counts
    bin_of_cell: Counts

    @staticmethod
    def of(grid: ColumnGrid, counts: Counts, max_bins: int, runs: Counts | None = None) -> BinnedColumn:
        """At most so many bins, cut where the private counts are in equal parts; of names, the rarest share one.

        `runs` are the first cells of runs that were counted together: inside one nothing is known, so none is cut.
        """
        if not grid.is_ordered:
            return BinnedColumn(grid, counts, _bin_commonest(counts, max_bins))
        starts = np.arange(grid.cell_count) if runs is None else runs
        sums = np.append(np.add.reduceat(counts[: grid.cell_count], starts), counts[grid.cell_count :])
        place = _bin_runs(grid, sums, max_bins)
        lengths = np.diff(np.append(starts, grid.cell_count))
        spread = np.append(np.repeat(place[: len(starts)], lengths), place[len(starts) :])
        return BinnedColumn(grid, counts, spread)

    @property
    def name(self) -> str:
        """The column's."""
        return self.grid.column

    @property
    def bin_count(self) -> int:
        """How many there are."""
        return int(self.bin_of_cell.max()) + 1

    @property
    def sizes(self) -> Counts:
        """The private count of each bin."""
        sizes = np.zeros(self.bin_count, dtype=np.int64)
        np.add.at(sizes, self.bin_of_cell, self.counts)
        return sizes

    @property
    def codes(self) -> Counts:
        """The code that stands for each cell, MISSING for the one of missing values."""
        return self.grid.compute_all_codes()

    @property
    def key(self) -> BinKey | CutKey:
        """What an engine tells the bins by: cuts, or the cells of names."""
        if not self.grid.is_ordered:
            return BinKey(self.name, self.grid.lower, self.grid.width)
        starts = np.flatnonzero(np.diff(self.bin_of_cell[: self.grid.cell_count])) + 1
        return CutKey(self.name, tuple((self.grid.lower + self.grid.width * starts).tolist()))

    def find_bin(self, key: int | str | None) -> int:
        """The bin of what an engine tells; whatever it tells is in one."""
        if not isinstance(key, int):
            return int(self.bin_of_cell[-1])
        return key if self.grid.is_ordered else int(self.bin_of_cell[min(max(key, 0), self.grid.cell_count - 1)])

    def list_bin_codes(self) -> list[Counts]:
        """The codes of the cells of each bin."""
        codes = self.codes
        return [codes[self.bin_of_cell == bin_index] for bin_index in range(self.bin_count)]


def plan_joint_table(first: BinnedColumn, second: BinnedColumn) -> TotalsScan:
    """What an engine is asked for a table of two columns."""
    return TotalsScan((ScanMeasure("rows"),), (first.key, second.key))


def build_joint_table(first: BinnedColumn, second: BinnedColumn, cells: Mapping[Cell, Amounts]) -> Counts:
    """The exact table, from what the engine tells."""
    table = np.zeros((first.bin_count, second.bin_count), dtype=np.int64)
    for (first_key, second_key), (rows,) in cells.items():
        table[first.find_bin(first_key), second.find_bin(second_key)] += rows
    return table


def _bin_runs(grid: ColumnGrid, counts: Counts, max_bins: int) -> Counts:
    """Bins of about equal counts; a cell, or a run, with more than its part leaves the other bins to the others.

    Missing values have a bin of their own, unless the private count says that there are none.
    """
    value_counts = counts[: len(counts) - grid.has_missing].astype(np.float64)
    has_missing_bin = grid.has_missing and bool(counts[-1])
    bins = max(max_bins - has_missing_bin, 1)
    weights = value_counts
    for _ in range(CUT_ROUNDS):
        weights = np.minimum(weights, weights.sum() / bins)
    middle = (np.cumsum(weights) - weights / 2) / (float(weights.sum()) or 1.0)
    place = np.unique(np.minimum(np.floor(middle * bins), bins - 1), return_inverse=True)[1].astype(np.int64)
    return np.append(place, [place[-1] + has_missing_bin] * grid.has_missing).astype(np.int64)


def _bin_commonest(counts: Counts, max_bins: int) -> Counts:
    """A bin for each name, the commonest first; the rarest, and all that no row has, share the last."""
    order = np.argsort(-counts, kind="stable")
    place = np.empty(len(counts), dtype=np.int64)
    place[order] = np.minimum(np.arange(len(counts)), max(min(max_bins, int((counts > 0).sum())), 1) - 1)
    return place
