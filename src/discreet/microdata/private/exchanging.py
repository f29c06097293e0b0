"""Swaps of one column's values between rows, where that brings the tables of all pairs nearer to what they should be.

No column's counts ever change. Randomness only says which rows are tried together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.inference.linked import Pair
from discreet.inference.vectors import Array
from discreet.kernel.entropy import Entropy
from discreet.kernel.sampling import sample_below
from discreet.microdata.private.grid import Counts

MIN_ROUNDS, MAX_ROUNDS = 60, 400
TOTAL_ROW_VISITS = 2 * 10**6
"""There are as many rounds as make this many rows in all, but no more than rows."""
FIRST_MOVE_SHARE, LAST_MOVE_SHARE = 0.03, 0.0004
"""At first three rows in a hundred are moved at once at most, then ever fewer, so that swaps do not undo each other."""
MAX_TRIED = 2**16
CELLS_PER_BATCH = 2**13
"""How many cells are looked at in one go: short tables go together, long ones stay within the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _ColumnTables:
    """Some tables of one column with others: where each begins among all numbers, how far apart its cells are."""

    others: Counts
    first: Counts
    own_step: Counts
    other_step: Counts

    def locate_cells(
        self, bins: Counts, column: int, rows: tuple[Counts, Counts]
    ) -> tuple[Counts, Counts, Counts, Counts]:
        """Of each table, which row or column of it is whose: by the column's own values, and by those beside them."""
        own_offsets = [self.first + self.own_step * bins[column, row_set] for row_set in rows]
        other_offsets = [self.other_step * bins[self.others, row_set] for row_set in rows]
        return own_offsets[0], own_offsets[1], other_offsets[0], other_offsets[1]


def run_local_search(bins: Counts, targets: Mapping[Pair, Array], entropy: Entropy) -> None:
    """Swap values of one column between rows where that brings the tables nearer to what they should be, in squares."""
    count, rows = bins.shape
    tried = min(max(rows // 4, 1), MAX_TRIED)
    if rows < 2 * tried:
        return
    deficits, rounds = (
        _compute_deficits(bins, targets),
        max(min(TOTAL_ROW_VISITS // rows, MAX_ROUNDS, rows), MIN_ROUNDS),
    )
    tables = [_collect_column_tables(column, targets, max(1, CELLS_PER_BATCH // tried)) for column in range(count)]
    for move_share in np.geomspace(FIRST_MOVE_SHARE, LAST_MOVE_SHARE, rounds).tolist():
        max_swaps = max(1, int(move_share * rows / 2))
        for column in range(count):
            first_rows = (sample_below(rows, entropy) + np.arange(tried)) % rows
            second_rows = (first_rows + tried + sample_below(rows - 2 * tried + 1, entropy)) % rows
            _swap_best(bins, deficits, tables[column], column, (first_rows, second_rows), max_swaps)


def _compute_deficits(bins: Counts, targets: Mapping[Pair, Array]) -> Array:
    """What every table lacks, one table after another in one array."""
    present_counts = [
        np.bincount(bins[a] * table.shape[1] + bins[b], minlength=table.size) for (a, b), table in targets.items()
    ]
    return np.concatenate(
        [np.zeros(0), *(table.ravel() - n for table, n in zip(targets.values(), present_counts, strict=True))]
    )


def _collect_column_tables(column: int, targets: Mapping[Pair, Array], batch_size: int) -> list[_ColumnTables]:
    """The tables of a column, each pair taken its way round, so many together."""
    entries, first = [], 0
    for (a, b), table in targets.items():
        if column in (a, b):
            entries.append((b, first, table.shape[1], 1) if column == a else (a, first, 1, table.shape[1]))
        first += table.size
    parts = [
        np.array(entries[start : start + batch_size]).T[:, :, None] for start in range(0, len(entries), batch_size)
    ]
    return [_ColumnTables(*part) for part in parts]


def _swap_best(
    bins: Counts,
    deficits: Array,
    tables: Sequence[_ColumnTables],
    column: int,
    tried: tuple[Counts, Counts],
    max_swaps: int,
) -> None:
    """Make the best of the swaps of a column's values between these rows, at most so many."""
    first_rows, second_rows = tried
    first_bins, second_bins = bins[column, first_rows], bins[column, second_rows]
    gain = np.zeros(len(first_rows))
    for column_tables in tables:
        for change in _compute_gains(deficits, *column_tables.locate_cells(bins, column, tried)):
            gain += change
    better = np.flatnonzero((gain > 0) & (first_bins != second_bins))
    if len(better) > max_swaps:
        better = better[np.argpartition(-gain[better], max_swaps)[:max_swaps]]
    first_rows, second_rows, first_bins, second_bins = (
        first_rows[better],
        second_rows[better],
        first_bins[better],
        second_bins[better],
    )
    for column_tables in tables:
        first_own, second_own, x, y = (
            offsets.ravel() for offsets in column_tables.locate_cells(bins, column, (first_rows, second_rows))
        )
        np.add.at(deficits, first_own + x, 1.0)
        np.add.at(deficits, second_own + y, 1.0)
        np.subtract.at(deficits, second_own + x, 1.0)
        np.subtract.at(deficits, first_own + y, 1.0)
    bins[column, first_rows], bins[column, second_rows] = second_bins, first_bins


def _compute_gains(deficits: Array, first_own: Counts, second_own: Counts, x: Counts, y: Counts) -> Array:
    """How much nearer each table comes by each swap."""
    change = deficits[second_own + x] + deficits[first_own + y] - deficits[first_own + x] - deficits[second_own + y] - 2
    return np.where(x != y, change, 0)
