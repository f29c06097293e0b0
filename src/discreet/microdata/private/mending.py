"""Rows that cannot be, made possible by swaps with rows that can."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from discreet.errors import InvalidInput
from discreet.inference.linked import Mask
from discreet.kernel.entropy import Entropy
from discreet.kernel.sampling import below
from discreet.microdata.permuting import permuted_inside
from discreet.microdata.private.grid import Counts

TURNS = 12
"""So often each column of an impossible row is swapped with that of another, before the row takes another's values."""


def mend(cells: Counts, cannot_be: Callable[[Counts], Mask], entropy: Entropy) -> None:
    """Swap values until no row of `cells`, which has a line for each column, is impossible.

    No column's counts change by that. A row that no swap helps takes all values of one that can be, and they do.
    """
    count = len(cells)
    wrong = cannot_be(cells)
    for turn in range(TURNS * count):
        left, column = np.flatnonzero(wrong), turn % count
        if not len(left):
            return
        right = _some(np.flatnonzero(~wrong), len(left), entropy)
        left = left[: len(right)]
        mine, theirs = cells[:, left].copy(), cells[:, right].copy()
        mine[column], theirs[column] = cells[column, right], cells[column, left]
        both = np.flatnonzero(~cannot_be(mine) & ~cannot_be(theirs))
        cells[column, left[both]], cells[column, right[both]] = mine[column, both], theirs[column, both]
        wrong[left[both]] = False
    good = np.flatnonzero(~wrong)
    if not len(good):
        raise InvalidInput("of the rows that were made none is possible; declare fewer combinations impossible")
    for row in np.flatnonzero(wrong):
        cells[:, row] = cells[:, good[below(len(good), entropy)]]


def _some(places: Counts, count: int, entropy: Entropy) -> Counts:
    """As many of the places, in random order."""
    return places[permuted_inside(np.zeros(len(places), dtype=np.int64), entropy)][:count]
