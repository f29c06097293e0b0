"""Swaps of one column's values between rows, where that brings the tables of all pairs nearer to what they should be.

No column's counts ever change. Randomness only says which rows are tried together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.inference.linked import Array, Pair
from discreet.kernel.entropy import Entropy
from discreet.kernel.sampling import below
from discreet.microdata.private.grid import Counts

FEWEST_ROUNDS, MOST_ROUNDS = 60, 400
WORK = 2 * 10**6
"""There are as many rounds as make this many rows in all, but no more than rows."""
FIRST, LAST = 0.03, 0.0004
"""At first three rows in a hundred are moved at once at most, then ever fewer, so that swaps do not undo each other."""
MOST_TRIED = 2**16
AT_ONCE = 2**13
"""How many cells are looked at in one go: short tables go together, long ones stay within the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Some tables of one column with others: where each begins among all numbers, how far apart its cells are."""

    others: Counts
    first: Counts
    own_step: Counts
    other_step: Counts

    def cells(self, bins: Counts, column: int, rows: tuple[Counts, Counts]) -> tuple[Counts, Counts, Counts, Counts]:
        """Of each table, which row or column of it is whose: by the column's own values, and by those beside them."""
        own = [self.first + self.own_step * bins[column, each] for each in rows]
        beside = [self.other_step * bins[self.others, each] for each in rows]
        return own[0], own[1], beside[0], beside[1]


def exchange(bins: Counts, aims: Mapping[Pair, Array], entropy: Entropy) -> None:
    """Swap values of one column between rows where that brings the tables nearer to what they should be, in squares."""
    count, rows = bins.shape
    tried = min(max(rows // 4, 1), MOST_TRIED)
    if rows < 2 * tried:
        return
    lacks, rounds = _lacks(bins, aims), max(min(WORK // rows, MOST_ROUNDS, rows), FEWEST_ROUNDS)
    tables = [_tables(column, aims, max(1, AT_ONCE // tried)) for column in range(count)]
    for part in np.geomspace(FIRST, LAST, rounds).tolist():
        most = max(1, int(part * rows / 2))
        for column in range(count):
            one = (below(rows, entropy) + np.arange(tried)) % rows
            other = (one + tried + below(rows - 2 * tried + 1, entropy)) % rows
            _swap_best(bins, lacks, tables[column], column, (one, other), most)


def _lacks(bins: Counts, aims: Mapping[Pair, Array]) -> Array:
    """What every table lacks, one table after another in one array."""
    there = [np.bincount(bins[a] * aim.shape[1] + bins[b], minlength=aim.size) for (a, b), aim in aims.items()]
    return np.concatenate([np.zeros(0), *(aim.ravel() - n for aim, n in zip(aims.values(), there, strict=True))])


def _tables(column: int, aims: Mapping[Pair, Array], together: int) -> list[_Tables]:
    """The tables of a column, each pair taken its way round, so many together."""
    found, first = [], 0
    for (a, b), aim in aims.items():
        if column in (a, b):
            found.append((b, first, aim.shape[1], 1) if column == a else (a, first, 1, aim.shape[1]))
        first += aim.size
    parts = [np.array(found[at : at + together]).T[:, :, None] for at in range(0, len(found), together)]
    return [_Tables(*part) for part in parts]


def _swap_best(
    bins: Counts, lacks: Array, tables: Sequence[_Tables], column: int, tried: tuple[Counts, Counts], most: int
) -> None:
    """Make the best of the swaps of a column's values between these rows, at most so many."""
    one, other = tried
    mine, theirs = bins[column, one], bins[column, other]
    gain = np.zeros(len(one))
    for some in tables:
        for change in _changes(lacks, *some.cells(bins, column, tried)):
            gain += change
    better = np.flatnonzero((gain > 0) & (mine != theirs))
    if len(better) > most:
        better = better[np.argpartition(-gain[better], most)[:most]]
    one, other, mine, theirs = one[better], other[better], mine[better], theirs[better]
    for some in tables:
        own, their, x, y = (each.ravel() for each in some.cells(bins, column, (one, other)))
        np.add.at(lacks, own + x, 1.0)
        np.add.at(lacks, their + y, 1.0)
        np.subtract.at(lacks, their + x, 1.0)
        np.subtract.at(lacks, own + y, 1.0)
    bins[column, one], bins[column, other] = theirs, mine


def _changes(lacks: Array, own: Counts, their: Counts, x: Counts, y: Counts) -> Array:
    """How much nearer each table comes by each swap."""
    change = lacks[their + x] + lacks[own + y] - lacks[own + x] - lacks[their + y] - 2
    return np.where(x != y, change, 0)
