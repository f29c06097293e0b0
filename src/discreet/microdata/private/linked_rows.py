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

from discreet.inference.linked import Array, Mask, Pair, fitted, joining, product, shrunk, strongest_tree, whole_table
from discreet.kernel.entropy import Entropy, source
from discreet.microdata.permuting import permuted_inside
from discreet.microdata.private.exchanging import exchange
from discreet.microdata.private.grid import Counts
from discreet.microdata.private.linked import Linked
from discreet.microdata.private.mending import mend

Possible = Callable[[Mapping[str, Counts]], NDArray[np.bool_]]
Tables = Mapping[Pair, Array]
FORBIDDEN = -(2.0**45)
"""What a table lacks in an impossible cell: so little that every swap out of it is better than any into it."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """What rows cannot be: cells of tables of two columns, by their names, and whole rows of codes.

    `spare` has the cells of a row that can be whatever was drawn. Counts of `fixed` columns are kept as long as any.
    """

    impossible: Mapping[tuple[str, str], Mask]
    possible: Possible
    spare: Counts
    fixed: tuple[str, ...] = ()


def rows_of(linked: Linked, entropy: Entropy | None = None, rules: Rules | None = None) -> dict[str, Counts]:
    """As many rows as the private counts add up to, by column name: codes, MISSING where there is none.

    Where no swap makes a row possible it takes the values of one that is, and counts differ by that.
    """
    drawn = source(entropy)
    masks = _masks(linked, rules.impossible) if rules else {}
    aims = {
        pair: fitted(table, linked.columns[pair[0]].sizes, linked.columns[pair[1]].sizes, masks.get(pair))
        for pair, table in _shrunk(linked).items()
    }
    bins = _first_rows(linked, aims, masks, drawn)
    exchange(bins, {pair: np.where(masks.get(pair, False), FORBIDDEN, aim) for pair, aim in aims.items()}, drawn)
    cells = np.stack(
        [_dealt(column.place, column.counts, own, drawn) for column, own in zip(linked.columns, bins, strict=True)]
    )
    if rules:
        kept = [place for place, column in enumerate(linked.columns) if column.name in rules.fixed]
        cannot_be = partial(_cannot_be, linked, masks, rules.possible)
        mend(cells, cannot_be, rules.spare, drawn, kept)
    return _coded(linked, cells)


def _coded(linked: Linked, cells: Counts) -> dict[str, Counts]:
    return {column.name: column.codes[own] for column, own in zip(linked.columns, cells, strict=True)}


def _masks(linked: Linked, impossible: Mapping[tuple[str, str], Mask]) -> dict[Pair, Mask]:
    place = {column.name: at for at, column in enumerate(linked.columns)}
    found = {}
    for (first, second), mask in impossible.items():
        pair, cells = (place[first], place[second]), mask
        if pair[0] > pair[1]:
            pair, cells = (pair[1], pair[0]), mask.T
        if cells.any():
            found[pair] = cells
    return found


def _shrunk(linked: Linked) -> dict[Pair, Array]:
    found = {}
    for pair, table, deviation in zip(linked.pairs, linked.tables, linked.deviations, strict=True):
        independent = product(linked.columns[pair[0]].sizes, linked.columns[pair[1]].sizes)
        found[pair] = shrunk(table, independent, deviation)
    return found


def _first_rows(linked: Linked, aims: Tables, masks: Mapping[Pair, Mask], entropy: Entropy) -> Counts:
    """Bins of each column, a row each, in random order; exact for the pairs of a tree but for rounding."""
    columns, count = linked.columns, len(linked.columns)
    sizes = [column.sizes for column in columns]
    strengths = [float(np.abs(aim - product(sizes[a], sizes[b])).sum()) for (a, b), aim in aims.items()]
    tree = strongest_tree(strengths, list(aims), count)
    every = [(one, other) for one in range(count) for other in range(one + 1, count)]
    while left := joining(tree, every, count):
        tree.append(left[0])
    rows = int(sizes[0].sum())
    bins = np.zeros((count, rows), dtype=np.int64)
    bins[0] = _dealt(np.arange(len(sizes[0])), sizes[0], np.zeros(rows, dtype=np.int64), entropy)
    for parent, child in _outwards(tree):
        pair = (min(parent, child), max(parent, child))
        aim = aims.get(pair, product(sizes[pair[0]], sizes[pair[1]]))
        luck = _luck(aim.size, entropy).reshape(aim.shape)
        whole = whole_table(aim, sizes[pair[0]], sizes[pair[1]], luck, masks.get(pair))
        table = whole if parent < child else whole.T
        within = np.repeat(np.arange(len(table)), table.shape[1])
        bins[child] = _dealt(within, table.ravel(), bins[parent], entropy) % table.shape[1]
    return bins


def _luck(count: int, entropy: Entropy) -> Array:
    """Numbers between 0 and 1, neither of them reached."""
    luck: Array = (np.frombuffer(entropy.take(4 * count), dtype="<u4") + 0.5) / 2.0**32
    return luck


def _outwards(tree: Sequence[Pair]) -> list[Pair]:
    """The pairs of a tree from column 0 outwards, each from the column that is there to the one that is not."""
    there: set[int] = {0}
    order: list[Pair] = []
    while len(order) < len(tree):
        one, other = next(pair for pair in tree if (pair[0] in there) != (pair[1] in there))
        order.append((one, other) if one in there else (other, one))
        there |= {one, other}
    return order


def _dealt(groups: Counts, counts: Counts, own: Counts, entropy: Entropy) -> Counts:
    """For each row one of the things of its group, as often as counted, in random order; `groups` has each thing's."""
    things = np.argsort(groups, kind="stable")
    dealt = np.empty(len(own), dtype=np.int64)
    dealt[np.argsort(own, kind="stable")] = np.repeat(things, counts[things])
    return dealt[permuted_inside(own, entropy)]


def _cannot_be(linked: Linked, masks: Mapping[Pair, Mask], possible: Possible, cells: Counts) -> Mask:
    """Which of these rows are impossible."""
    found = ~possible(_coded(linked, cells))
    for (a, b), mask in masks.items():
        found |= mask[linked.columns[a].place[cells[a]], linked.columns[b].place[cells[b]]]
    return found
