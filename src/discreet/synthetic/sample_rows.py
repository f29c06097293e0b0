"""Sample rows from noisy marginals: first rows, local search, repair of impossible rows. Proof: marginals.md.

A tree of the strongest pairs gives the first rows. Then values of one column are swapped between two rows, again and
again, where that brings all tables nearer, so that no column's counts ever change. Randomness only decides which rows
are tried together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

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
        """The row or column of each table that is whose: by the column's own values, and by those beside them."""
        own_offsets = [self.first + self.own_step * bins[column, row_set] for row_set in rows]
        other_offsets = [self.other_step * bins[self.others, row_set] for row_set in rows]
        return own_offsets[0], own_offsets[1], other_offsets[0], other_offsets[1]


def run_local_search(bins: Counts, targets: Mapping[Pair, Array], entropy: Entropy) -> None:
    """Swap values of one column between rows where that brings the tables nearer to what they should be, in squares."""
    count, rows = bins.shape
    tried = min(max(rows // 4, 1), MAX_TRIED)
    if rows < 2 * tried:
        return
    lacking = [np.zeros(0)]
    for (a, b), table in targets.items():
        counts = np.bincount(bins[a] * table.shape[1] + bins[b], minlength=table.size)
        lacking.append(table.ravel() - counts)
    deficits = np.concatenate(lacking)
    rounds = max(min(TOTAL_ROW_VISITS // rows, MAX_ROUNDS, rows), MIN_ROUNDS)
    tables = [_collect_column_tables(column, targets, max(1, CELLS_PER_BATCH // tried)) for column in range(count)]
    for move_share in np.geomspace(FIRST_MOVE_SHARE, LAST_MOVE_SHARE, rounds).tolist():
        max_swaps = max(1, int(move_share * rows / 2))
        for column in range(count):
            first_rows = (sample_below(rows, entropy) + np.arange(tried)) % rows
            second_rows = (first_rows + tried + sample_below(rows - 2 * tried + 1, entropy)) % rows
            _swap_best(bins, deficits, tables[column], column, (first_rows, second_rows), max_swaps)


def _collect_column_tables(column: int, targets: Mapping[Pair, Array], batch_size: int) -> list[_ColumnTables]:
    """The tables of a column, each pair with this column first, in batches."""
    entries, first = [], 0
    for (a, b), table in targets.items():
        if column in (a, b):
            entries.append((b, first, table.shape[1], 1) if column == a else (a, first, 1, table.shape[1]))
        first += table.size
    batches = [entries[start : start + batch_size] for start in range(0, len(entries), batch_size)]
    return [_ColumnTables(*np.array(batch).T[:, :, None]) for batch in batches]


def _swap_best(
    bins: Counts,
    deficits: Array,
    tables: Sequence[_ColumnTables],
    column: int,
    tried: tuple[Counts, Counts],
    max_swaps: int,
) -> None:
    """Make the best of the swaps of a column's values between these rows, at most `max_swaps`."""
    first_rows, second_rows = tried
    first_bins, second_bins = bins[column, first_rows], bins[column, second_rows]
    gain = np.zeros(len(first_rows))
    for column_tables in tables:
        first_own, second_own, x, y = column_tables.locate_cells(bins, column, tried)
        change = deficits[second_own + x] + deficits[first_own + y] - deficits[first_own + x] - deficits[second_own + y]
        for table_change in np.where(x != y, change - 2, 0):  # how much nearer each table comes by each swap
            gain += table_change
    better = np.flatnonzero((gain > 0) & (first_bins != second_bins))
    if len(better) > max_swaps:
        better = better[np.argpartition(-gain[better], max_swaps)[:max_swaps]]
    first_rows, second_rows = first_rows[better], second_rows[better]
    first_bins, second_bins = first_bins[better], second_bins[better]
    for column_tables in tables:
        first_own, second_own, x, y = (
            offsets.ravel() for offsets in column_tables.locate_cells(bins, column, (first_rows, second_rows))
        )
        np.add.at(deficits, first_own + x, 1.0)
        np.add.at(deficits, second_own + y, 1.0)
        np.subtract.at(deficits, second_own + x, 1.0)
        np.subtract.at(deficits, first_own + y, 1.0)
    bins[column, first_rows], bins[column, second_rows] = second_bins, first_bins


SWAP_TURNS = 12
"""How often each column of an impossible row is swapped with that of others, before it takes another row's values."""
SWAPS_PER_BATCH = 2**13
"""How many swaps are tried at once, at least one for each row."""


def repair_rows(
    cells: Counts,
    find_impossible: Callable[[Counts], Mask],
    fallback: Counts,
    entropy: Entropy,
    fixed_columns: Sequence[int] = (),
) -> None:
    """Swap values until no row of `cells`, which has a line for each column, is impossible.

    No column's counts change by that. A row that no swap helps takes all values of one that can be, and they do: of one
    that has its values of the fixed columns, if there is one, or else those of `fallback`, which is always possible,
    with its own of the fixed ones, if that can be.
    """
    is_impossible = find_impossible(cells)
    for turn in range(SWAP_TURNS * len(cells)):
        if not is_impossible.any() or is_impossible.all():
            break
        _swap_column(cells, is_impossible, turn % len(cells), find_impossible, entropy)
    possible_rows = np.flatnonzero(~is_impossible)
    fixed_indices = np.array(fixed_columns, dtype=np.int64)
    for row in np.flatnonzero(is_impossible):
        has_fixed_values = cells[fixed_indices][:, possible_rows] == cells[fixed_indices, row][:, None]
        matching_rows = possible_rows[has_fixed_values.all(axis=0)]
        replacement = fallback.copy()
        replacement[fixed_indices] = cells[fixed_indices, row]
        if len(matching_rows):
            replacement = cells[:, matching_rows[sample_below(len(matching_rows), entropy)]]
        elif find_impossible(replacement[:, None])[0]:
            replacement = fallback
            if len(possible_rows):
                replacement = cells[:, possible_rows[sample_below(len(possible_rows), entropy)]]
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
    tried = sample_below(len(possible_rows), entropy) + np.arange(len(left) * tries_per_row)
    right = possible_rows[tried % len(possible_rows)]
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
"""The deficit of an impossible cell: so low that every swap out of it is better than any into it."""


@dataclass(frozen=True, slots=True, eq=False)
class RowRules:
    """The rules for rows: impossible cells of tables of two columns, by their names, and impossible rows of codes.

    `fallback` has the cells of a row that is always possible. Counts of `fixed_columns` are kept as long as any.
    """

    impossible_cells: Mapping[tuple[str, str], Mask]
    find_possible: RowsPossible
    fallback: Counts
    fixed_columns: tuple[str, ...] = ()


def sample_marginal_rows(
    marginals: NoisyMarginals, entropy: Entropy | None = None, rules: RowRules | None = None
) -> dict[str, Counts]:
    """Sample as many rows as the DP counts add up to, by column name: codes, MISSING_CODE for missing values.

    Where no swap makes a row possible it takes the values of one that is, and counts differ by that.
    """
    generator = get_entropy(entropy)
    masks = _orient_masks(marginals, rules.impossible_cells) if rules else {}
    targets = {}
    for pair, table, deviation in zip(marginals.pairs, marginals.tables, marginals.deviations, strict=True):
        first, second = (marginals.columns[place].sizes for place in pair)
        shrunk_table = shrink_dependence(table, compute_independent_table(first, second), deviation)
        targets[pair] = fit_margins(shrunk_table, first, second, masks.get(pair))
    bins = _sample_first_rows(marginals, targets, masks, generator)
    search_targets = {
        pair: np.where(masks.get(pair, False), FORBIDDEN_DEFICIT, target) for pair, target in targets.items()
    }
    run_local_search(bins, search_targets, generator)
    columns = zip(marginals.columns, bins, strict=True)
    cells = np.stack([_assign_by_group(column.bin_of_cell, column.counts, row, generator) for column, row in columns])
    if rules:
        fixed_indices = [place for place, column in enumerate(marginals.columns) if column.name in rules.fixed_columns]
        find_impossible = partial(_find_impossible, marginals, masks, rules.find_possible)
        repair_rows(cells, find_impossible, rules.fallback, generator, fixed_indices)
    return _convert_to_codes(marginals, cells)


def _convert_to_codes(marginals: NoisyMarginals, cells: Counts) -> dict[str, Counts]:
    columns = zip(marginals.columns, cells, strict=True)
    return {column.name: column.codes[column_cells] for column, column_cells in columns}


def _orient_masks(marginals: NoisyMarginals, impossible: Mapping[tuple[str, str], Mask]) -> dict[Pair, Mask]:
    place = {column.name: index for index, column in enumerate(marginals.columns)}
    masks = {}
    for (first, second), mask in impossible.items():
        pair = (place[first], place[second])
        if mask.any():
            masks[pair if pair[0] < pair[1] else pair[::-1]] = mask if pair[0] < pair[1] else mask.T
    return masks


def _sample_first_rows(
    marginals: NoisyMarginals, targets: Tables, masks: Mapping[Pair, Mask], entropy: Entropy
) -> Counts:
    """Bins of each column, a row each, in random order; exact for the pairs of a tree but for rounding."""
    columns, count = marginals.columns, len(marginals.columns)
    sizes = [column.sizes for column in columns]
    strengths = []
    for (a, b), target in targets.items():
        strengths.append(float(np.abs(target - compute_independent_table(sizes[a], sizes[b])).sum()))
    tree = find_strongest_tree(strengths, list(targets), count)
    all_pairs = list(combinations(range(count), 2))
    while joining_pairs := select_joining_pairs(tree, all_pairs, count):
        tree.append(joining_pairs[0])
    rows = int(sizes[0].sum())
    bins = np.zeros((count, rows), dtype=np.int64)
    bins[0] = _assign_by_group(np.arange(len(sizes[0])), sizes[0], np.zeros(rows, dtype=np.int64), entropy)
    for parent, child in _orient_tree(tree):
        pair = (min(parent, child), max(parent, child))
        target = targets.get(pair, compute_independent_table(sizes[pair[0]], sizes[pair[1]]))
        # Numbers between 0 and 1, neither of them reached.
        uniforms = (np.frombuffer(entropy.take(4 * target.size), dtype="<u4") + 0.5) / 2.0**32
        table = round_table(target, sizes[pair[0]], sizes[pair[1]], uniforms.reshape(target.shape), masks.get(pair))
        table = table if parent < child else table.T
        within = np.repeat(np.arange(len(table)), table.shape[1])
        bins[child] = _assign_by_group(within, table.ravel(), bins[parent], entropy) % table.shape[1]
    return bins


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
    """For each row a member of its group, each as often as `counts` says, at random; `groups` are the members'."""
    members = np.argsort(groups, kind="stable")
    assigned_members = np.empty(len(row_groups), dtype=np.int64)
    assigned_members[np.argsort(row_groups, kind="stable")] = np.repeat(members, counts[members])
    return assigned_members[permute_within_groups(row_groups, entropy)]


def _find_impossible(
    marginals: NoisyMarginals, masks: Mapping[Pair, Mask], find_possible: RowsPossible, cells: Counts
) -> Mask:
    is_impossible = ~find_possible(_convert_to_codes(marginals, cells))
    for (a, b), mask in masks.items():
        is_impossible |= mask[marginals.columns[a].bin_of_cell[cells[a]], marginals.columns[b].bin_of_cell[cells[b]]]
    return is_impossible
