"""Rows from noisy tables of pairs: every column keeps its private counts exactly, and pairs come as near as they can.

A tree of the strongest pairs gives the first rows. Then values of one column are swapped between two rows, again and
again, where that brings all tables nearer, so that no column's counts ever change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discreet.inference.linked import (
    Mask,
    Pair,
    compute_independent_table,
    find_strongest_tree,
    fit_margins,
    round_table,
    select_joining_pairs,
    shrink_dependence,
)
from discreet.inference.vectors import Array
from discreet.kernel.entropy import Entropy, get_entropy
from discreet.microdata.permuting import permute_within_groups
from discreet.microdata.private.exchanging import run_local_search
from discreet.microdata.private.grid import Counts
from discreet.microdata.private.linked import NoisyMarginals
from discreet.microdata.private.mending import repair_rows

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
