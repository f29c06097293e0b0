"""Rows that cannot be, made possible by swaps with rows that can."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from discreet.inference.linked import Mask
from discreet.kernel.entropy import Entropy
from discreet.kernel.sampling import sample_below
from discreet.microdata.private.grid import Counts

SWAP_TURNS = 12
"""So often each column of an impossible row is swapped with that of others, before the row takes another's values."""
SWAPS_PER_BATCH = 2**13
"""So many swaps are tried at once, at least one for each row."""


def repair_rows(
    cells: Counts,
    find_impossible: Callable[[Counts], Mask],
    fallback: Counts,
    entropy: Entropy,
    fixed_columns: Sequence[int] = (),
) -> None:
    """Swap values until no row of `cells`, which has a line for each column, is impossible.

    No column's counts change by that. A row that no swap helps takes all values of one that can be, and they do: of one
    that has its values of the `fixed` columns, if there is one, or else those of `spare`, which can be whatever was
    drawn, with its own of the fixed ones, if that can be.
    """
    is_impossible = find_impossible(cells)
    for turn in range(SWAP_TURNS * len(cells)):
        if not is_impossible.any() or is_impossible.all():
            break
        _swap_column(cells, is_impossible, turn % len(cells), find_impossible, entropy)
    possible_rows = np.flatnonzero(~is_impossible)
    fixed_indices = np.array(fixed_columns, dtype=np.int64)
    for row in np.flatnonzero(is_impossible):
        matching_rows = possible_rows[
            (cells[fixed_indices][:, possible_rows] == cells[fixed_indices, row][:, None]).all(axis=0)
        ]
        replacement = fallback.copy()
        replacement[fixed_indices] = cells[fixed_indices, row]
        if len(matching_rows):
            replacement = cells[:, matching_rows[sample_below(len(matching_rows), entropy)]]
        elif find_impossible(replacement[:, None])[0]:
            replacement = (
                cells[:, possible_rows[sample_below(len(possible_rows), entropy)]] if len(possible_rows) else fallback
            )
        cells[:, row] = replacement


def _swap_column(
    cells: Counts, is_impossible: Mask, column: int, find_impossible: Callable[[Counts], Mask], entropy: Entropy
) -> None:
    """Give each impossible row the column's value of one of several others, such that both rows then can be.

    Where there is none, of one that still can be afterwards: a row may need more than one swap.
    """
    possible_rows = np.flatnonzero(~is_impossible)
    left = np.flatnonzero(is_impossible)[: len(possible_rows)]
    tries_per_row = max(1, min(len(possible_rows), SWAPS_PER_BATCH) // len(left))
    right = possible_rows[
        (sample_below(len(possible_rows), entropy) + np.arange(len(left) * tries_per_row)) % len(possible_rows)
    ]
    first_cells, second_cells = cells[:, np.repeat(left, tries_per_row)], cells[:, right]
    first_cells[column], second_cells[column] = second_cells[column].copy(), first_cells[column].copy()
    stays_possible = ~find_impossible(second_cells)
    # 2 where both can be, 1 where the other still can
    worth = (stays_possible * (1 + ~find_impossible(first_cells))).reshape(len(left), tries_per_row)
    best = worth.argmax(axis=1)
    worth, right = worth.max(axis=1), right.reshape(len(left), tries_per_row)[np.arange(len(left)), best]
    first_rows, second_rows = left[worth > 0], right[worth > 0]
    cells[column, first_rows], cells[column, second_rows] = cells[column, second_rows], cells[column, first_rows]
    is_impossible[left[worth == 2]] = False
