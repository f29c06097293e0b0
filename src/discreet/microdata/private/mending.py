"""Rows that cannot be, made possible by swaps with rows that can."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from discreet.inference.linked import Mask
from discreet.kernel.entropy import Entropy
from discreet.kernel.sampling import below
from discreet.microdata.private.grid import Counts

TURNS = 12
"""So often each column of an impossible row is swapped with that of others, before the row takes another's values."""
TRIED = 2**13
"""So many swaps are tried at once, at least one for each row."""


def mend(
    cells: Counts, cannot_be: Callable[[Counts], Mask], spare: Counts, entropy: Entropy, fixed: Sequence[int] = ()
) -> None:
    """Swap values until no row of `cells`, which has a line for each column, is impossible.

    No column's counts change by that. A row that no swap helps takes all values of one that can be, and they do: of one
    that has its values of the `fixed` columns, if there is one, or else those of `spare`, which can be whatever was
    drawn, with its own of the fixed ones, if that can be.
    """
    wrong = cannot_be(cells)
    for turn in range(TURNS * len(cells)):
        if not wrong.any() or wrong.all():
            break
        _swap(cells, wrong, turn % len(cells), cannot_be, entropy)
    good = np.flatnonzero(~wrong)
    kept = np.array(fixed, dtype=np.int64)
    for row in np.flatnonzero(wrong):
        alike = good[(cells[kept][:, good] == cells[kept, row][:, None]).all(axis=0)]
        made = spare.copy()
        made[kept] = cells[kept, row]
        if len(alike):
            made = cells[:, alike[below(len(alike), entropy)]]
        elif cannot_be(made[:, None])[0]:
            made = cells[:, good[below(len(good), entropy)]] if len(good) else spare
        cells[:, row] = made


def _swap(cells: Counts, wrong: Mask, column: int, cannot_be: Callable[[Counts], Mask], entropy: Entropy) -> None:
    """Give each impossible row the column's value of one of several others, such that both rows then can be.

    Where there is none, of one that still can be afterwards: a row may need more than one swap.
    """
    good = np.flatnonzero(~wrong)
    left = np.flatnonzero(wrong)[: len(good)]
    each = max(1, min(len(good), TRIED) // len(left))
    right = good[(below(len(good), entropy) + np.arange(len(left) * each)) % len(good)]
    mine, theirs = cells[:, np.repeat(left, each)], cells[:, right]
    mine[column], theirs[column] = theirs[column].copy(), mine[column].copy()
    still = ~cannot_be(theirs)
    # 2 where both can be, 1 where the other still can
    worth = (still * (1 + ~cannot_be(mine))).reshape(len(left), each)
    best = worth.argmax(axis=1)
    worth, right = worth.max(axis=1), right.reshape(len(left), each)[np.arange(len(left)), best]
    one, other = left[worth > 0], right[worth > 0]
    cells[column, one], cells[column, other] = cells[column, other], cells[column, one]
    wrong[left[worth == 2]] = False
