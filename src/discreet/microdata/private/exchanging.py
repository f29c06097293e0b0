"""Swaps of one column's values between rows, where that brings the tables of all pairs nearer to what they should be.

No column's counts ever change. Randomness only says which rows are tried together.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def exchange(bins: Counts, aims: Mapping[Pair, Array], entropy: Entropy) -> None:
    """Swap values of one column between rows where that brings the tables nearer to what they should be, in squares."""
    count, rows = bins.shape
    tried = min(max(rows // 4, 1), MOST_TRIED)
    if rows < 2 * tried:
        return
    lacks, rounds = _lacks(bins, aims), max(min(WORK // rows, MOST_ROUNDS, rows), FEWEST_ROUNDS)
    for part in np.geomspace(FIRST, LAST, rounds).tolist():
        most = max(1, int(part * rows / 2))
        for column in range(count):
            one = (below(rows, entropy) + np.arange(tried)) % rows
            other = (one + tried + below(rows - 2 * tried + 1, entropy)) % rows
            _swap_best(bins, lacks, column, (one, other), most)


def _lacks(bins: Counts, aims: Mapping[Pair, Array]) -> dict[Pair, Array]:
    """What every table lacks; each pair both ways round, as views of the same numbers."""
    found: dict[Pair, Array] = {}
    for (a, b), aim in aims.items():
        there = np.bincount(bins[a] * aim.shape[1] + bins[b], minlength=aim.size).reshape(aim.shape)
        found[a, b] = aim - there
        found[b, a] = found[a, b].T
    return found


def _swap_best(bins: Counts, lacks: dict[Pair, Array], column: int, tried: tuple[Counts, Counts], most: int) -> None:
    """Make the best of the swaps of a column's values between these rows, at most so many."""
    one, other = tried
    mine, theirs = bins[column, one], bins[column, other]
    beside = [b for a, b in lacks if a == column]
    gain = np.zeros(len(one))
    for b in beside:
        lack, x, y = lacks[column, b], bins[b, one], bins[b, other]
        change = lack[theirs, x] + lack[mine, y] - lack[mine, x] - lack[theirs, y] - 2
        gain += np.where(x != y, change, 0)
    better = np.flatnonzero((gain > 0) & (mine != theirs))
    if len(better) > most:
        better = better[np.argpartition(-gain[better], most)[:most]]
    one, other, mine, theirs = one[better], other[better], mine[better], theirs[better]
    for b in beside:
        lack, x, y = lacks[column, b], bins[b, one], bins[b, other]
        np.add.at(lack, (mine, x), 1)
        np.add.at(lack, (theirs, y), 1)
        np.subtract.at(lack, (theirs, x), 1)
        np.subtract.at(lack, (mine, y), 1)
    bins[column, one], bins[column, other] = theirs, mine
