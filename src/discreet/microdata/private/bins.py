"""The cells of a column in few bins, by its private counts: what tables of two columns are told in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet.microdata.private.grid import Counts, Grid
from discreet.query.totals import Amounts, Bins, Cell, Cuts, Measure, Totals

ROUNDS = 16
"""So often heavy cells are cut down to an equal part of what is left of all."""


@dataclass(frozen=True, slots=True, eq=False)
class Binned:
    """A column's private counts, and the bin of each of its cells; bins of an ordered column are runs of cells."""

    grid: Grid
    counts: Counts
    place: Counts

    @staticmethod
    def of(grid: Grid, counts: Counts, most: int, runs: Counts | None = None) -> Binned:
        """At most so many bins, cut where the private counts are in equal parts; of names, the rarest share one.

        `runs` are the first cells of runs that were counted together: inside one nothing is known, so none is cut.
        """
        if not grid.ordered:
            return Binned(grid, counts, _commonest(counts, most))
        starts = np.arange(grid.cells) if runs is None else runs
        sums = np.append(np.add.reduceat(counts[: grid.cells], starts), counts[grid.cells :])
        place = _runs(grid, sums, most)
        lengths = np.diff(np.append(starts, grid.cells))
        spread = np.append(np.repeat(place[: len(starts)], lengths), place[len(starts) :])
        return Binned(grid, counts, spread)

    @property
    def name(self) -> str:
        """The column's."""
        return self.grid.column

    @property
    def bins(self) -> int:
        """How many there are."""
        return int(self.place.max()) + 1

    @property
    def sizes(self) -> Counts:
        """The private count of each bin."""
        sizes = np.zeros(self.bins, dtype=np.int64)
        np.add.at(sizes, self.place, self.counts)
        return sizes

    @property
    def codes(self) -> Counts:
        """The code that stands for each cell, MISSING for the one of missing values."""
        return self.grid.all_codes()

    @property
    def key(self) -> Bins | Cuts:
        """What an engine tells the bins by: cuts, or the cells of names."""
        if not self.grid.ordered:
            return Bins(self.name, self.grid.lower, self.grid.width)
        starts = np.flatnonzero(np.diff(self.place[: self.grid.cells])) + 1
        return Cuts(self.name, tuple((self.grid.lower + self.grid.width * starts).tolist()))

    def bin_of(self, key: int | str | None) -> int:
        """The bin of what an engine tells; whatever it tells is in one."""
        if not isinstance(key, int):
            return int(self.place[-1])
        return key if self.grid.ordered else int(self.place[min(max(key, 0), self.grid.cells - 1)])

    def members(self) -> list[Counts]:
        """The codes of the cells of each bin."""
        codes = self.codes
        return [codes[self.place == place] for place in range(self.bins)]


def joint_plan(first: Binned, second: Binned) -> Totals:
    """What an engine is asked for a table of two columns."""
    return Totals((Measure("rows"),), (first.key, second.key))


def joint_table(first: Binned, second: Binned, cells: Mapping[Cell, Amounts]) -> Counts:
    """The exact table, from what the engine tells."""
    table = np.zeros((first.bins, second.bins), dtype=np.int64)
    for (one, other), (rows,) in cells.items():
        table[first.bin_of(one), second.bin_of(other)] += rows
    return table


def _runs(grid: Grid, counts: Counts, most: int) -> Counts:
    """Bins of about equal counts; a cell, or a run, with more than its part leaves the other bins to the others.

    Missing values have a bin of their own, unless the private count says that there are none.
    """
    own = counts[: len(counts) - grid.missing].astype(np.float64)
    apart = grid.missing and bool(counts[-1])
    bins = max(most - apart, 1)
    weights = own
    for _ in range(ROUNDS):
        weights = np.minimum(weights, weights.sum() / bins)
    middle = (np.cumsum(weights) - weights / 2) / (float(weights.sum()) or 1.0)
    place = np.unique(np.minimum(np.floor(middle * bins), bins - 1), return_inverse=True)[1].astype(np.int64)
    return np.append(place, [place[-1] + apart] * grid.missing).astype(np.int64)


def _commonest(counts: Counts, most: int) -> Counts:
    """A bin for each name, the commonest first; the rarest, and all that no row has, share the last."""
    order = np.argsort(-counts, kind="stable")
    place = np.empty(len(counts), dtype=np.int64)
    place[order] = np.minimum(np.arange(len(counts)), max(min(most, int((counts > 0).sum())), 1) - 1)
    return place
