"""Sample rows from noisy marginals: local search, and repair of impossible rows.

No column's counts ever change. Randomness only says which rows are tried together.

A tree of the strongest pairs gives the first rows. Then values of one column are swapped between two rows, again and
again, where that brings all tables nearer, so that no column's counts ever change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discreet.estimation.least_squares import Array
from discreet.estimation.raking import (
    Mask,
    Pair,
    compute_independent_table,
    find_strongest_tree,
    fit_margins,
    round_table,
    select_joining_pairs,
    shrink_dependence,
)
from discreet.mechanisms.entropy import Entropy, get_entropy
from discreet.mechanisms.samplers import sample_below
from discreet.sdc.table import permute_within_groups
from discreet.synthetic.columns import Counts
from discreet.synthetic.marginals import NoisyMarginals

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


RowsPossible = Callable[[Mapping[str, Counts]], NDArray[np.bool_]]
Tables = Mapping[Pair, Array]
FORBIDDEN_DEFICIT = -(2.0**45)
"""What a table lacks in an impossible cell: so little that every swap out of it is better than any into it."""


@dataclass(frozen=True, slots=True, eq=False)
class RowRules:
    """What rows cannot be: cells of tables of two columns, by their names, and whole rows of codes.

    `spare` has the cells of a row that can be whatever was drawn. Counts of `fixed` columns are kept as long as any.
    """

    impossible_cells: Mapping[tuple[str, str], Mask]
    find_possible: RowsPossible
    fallback: Counts
    fixed_columns: tuple[str, ...] = ()


def sample_marginal_rows(
    marginals: NoisyMarginals, entropy: Entropy | None = None, rules: RowRules | None = None
) -> dict[str, Counts]:
    """As many rows as the private counts add up to, by column name: codes, MISSING where there is none.

    Where no swap makes a row possible it takes the values of one that is, and counts differ by that.
    """
    generator = get_entropy(entropy)
    masks = _orient_masks(marginals, rules.impossible_cells) if rules else {}
    targets = {
        pair: fit_margins(table, marginals.columns[pair[0]].sizes, marginals.columns[pair[1]].sizes, masks.get(pair))
        for pair, table in _shrink_tables(marginals).items()
    }
    bins = _sample_first_rows(marginals, targets, masks, generator)
    run_local_search(
        bins,
        {pair: np.where(masks.get(pair, False), FORBIDDEN_DEFICIT, target) for pair, target in targets.items()},
        generator,
    )
    cells = np.stack(
        [
            _assign_by_group(column.bin_of_cell, column.counts, column_bins, generator)
            for column, column_bins in zip(marginals.columns, bins, strict=True)
        ]
    )
    if rules:
        fixed_indices = [place for place, column in enumerate(marginals.columns) if column.name in rules.fixed_columns]
        find_impossible = partial(_find_impossible, marginals, masks, rules.find_possible)
        repair_rows(cells, find_impossible, rules.fallback, generator, fixed_indices)
    return _convert_to_codes(marginals, cells)


def _convert_to_codes(marginals: NoisyMarginals, cells: Counts) -> dict[str, Counts]:
    return {
        column.name: column.codes[column_cells] for column, column_cells in zip(marginals.columns, cells, strict=True)
    }


def _orient_masks(marginals: NoisyMarginals, impossible: Mapping[tuple[str, str], Mask]) -> dict[Pair, Mask]:
    place = {column.name: index for index, column in enumerate(marginals.columns)}
    masks = {}
    for (first, second), mask in impossible.items():
        pair, cells = (place[first], place[second]), mask
        if pair[0] > pair[1]:
            pair, cells = (pair[1], pair[0]), mask.T
        if cells.any():
            masks[pair] = cells
    return masks


def _shrink_tables(marginals: NoisyMarginals) -> dict[Pair, Array]:
    shrunk_tables = {}
    for pair, table, deviation in zip(marginals.pairs, marginals.tables, marginals.deviations, strict=True):
        independent = compute_independent_table(marginals.columns[pair[0]].sizes, marginals.columns[pair[1]].sizes)
        shrunk_tables[pair] = shrink_dependence(table, independent, deviation)
    return shrunk_tables


def _sample_first_rows(
    marginals: NoisyMarginals, targets: Tables, masks: Mapping[Pair, Mask], entropy: Entropy
) -> Counts:
    """Bins of each column, a row each, in random order; exact for the pairs of a tree but for rounding."""
    columns, count = marginals.columns, len(marginals.columns)
    sizes = [column.sizes for column in columns]
    strengths = [
        float(np.abs(target - compute_independent_table(sizes[a], sizes[b])).sum())
        for (a, b), target in targets.items()
    ]
    tree = find_strongest_tree(strengths, list(targets), count)
    all_pairs = [(first, second) for first in range(count) for second in range(first + 1, count)]
    while joining_pairs := select_joining_pairs(tree, all_pairs, count):
        tree.append(joining_pairs[0])
    rows = int(sizes[0].sum())
    bins = np.zeros((count, rows), dtype=np.int64)
    bins[0] = _assign_by_group(np.arange(len(sizes[0])), sizes[0], np.zeros(rows, dtype=np.int64), entropy)
    for parent, child in _orient_tree(tree):
        pair = (min(parent, child), max(parent, child))
        target = targets.get(pair, compute_independent_table(sizes[pair[0]], sizes[pair[1]]))
        uniforms = _sample_uniforms(target.size, entropy).reshape(target.shape)
        rounded_table = round_table(target, sizes[pair[0]], sizes[pair[1]], uniforms, masks.get(pair))
        table = rounded_table if parent < child else rounded_table.T
        within = np.repeat(np.arange(len(table)), table.shape[1])
        bins[child] = _assign_by_group(within, table.ravel(), bins[parent], entropy) % table.shape[1]
    return bins


def _sample_uniforms(count: int, entropy: Entropy) -> Array:
    """Numbers between 0 and 1, neither of them reached."""
    uniforms: Array = (np.frombuffer(entropy.take(4 * count), dtype="<u4") + 0.5) / 2.0**32
    return uniforms


def _orient_tree(tree: Sequence[Pair]) -> list[Pair]:
    """The pairs of a tree from column 0 outwards, each from the column that is there to the one that is not."""
    reached_columns: set[int] = {0}
    order: list[Pair] = []
    while len(order) < len(tree):
        first, second = next(pair for pair in tree if (pair[0] in reached_columns) != (pair[1] in reached_columns))
        order.append((first, second) if first in reached_columns else (second, first))
        reached_columns |= {first, second}
    return order


def _assign_by_group(groups: Counts, counts: Counts, row_groups: Counts, entropy: Entropy) -> Counts:
    """For each row one of the things of its group, as often as counted, in random order; `groups` has each thing's."""
    members = np.argsort(groups, kind="stable")
    assigned_members = np.empty(len(row_groups), dtype=np.int64)
    assigned_members[np.argsort(row_groups, kind="stable")] = np.repeat(members, counts[members])
    return assigned_members[permute_within_groups(row_groups, entropy)]


def _find_impossible(
    marginals: NoisyMarginals, masks: Mapping[Pair, Mask], find_possible: RowsPossible, cells: Counts
) -> Mask:
    """Which of these rows are impossible."""
    is_impossible = ~find_possible(_convert_to_codes(marginals, cells))
    for (a, b), mask in masks.items():
        is_impossible |= mask[marginals.columns[a].bin_of_cell[cells[a]], marginals.columns[b].bin_of_cell[cells[b]]]
    return is_impossible
