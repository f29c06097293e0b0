"""Nearest records, exactly and with all ties, by a balanced tree of boxes over numbers and categories alike.

A squared distance is summed in one fixed order: numbers first, each gap squared and then weighed, then categories. A
box's bound is summed in the same order from terms that are none greater, and rounding keeps that order, so no nearest
record is ever passed over. A category's distance from a box is the least to a category between the box's ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from discreet.microdata.distances import Space
from discreet.microdata.table import Floats, Places

LEAF = 12
"""Boxes of at most this many records are not divided."""


@dataclass(frozen=True, slots=True, eq=False)
class Ties:
    """For each query: the least squared distance, and the targets at it, from `starts[i]` to before `starts[i + 1]`."""

    squares: Floats
    starts: Places
    targets: Places


def nearest(queries: Space, targets: Space, weights: Floats | None = None) -> Ties:
    """The targets nearest to each query. Both are rows of one space; rows that are alike are better given once.

    `weights` are those of the coordinates, 1 where not given.
    """
    numbers = queries.points.shape[1]
    known = _columns(targets)
    order, low, high = _tree(known, numbers)
    weighed = np.ones(numbers) if weights is None else weights
    tree = Boxes(known[order], low, high, weighed, numbers, *_flat(queries.squares))
    squares, starts, places = _search(_columns(queries), tree)
    return Ties(squares, starts, order[places])


def squared(one: Space, two: Space, weights: Floats | None = None) -> Floats:
    """The squared distance of row i of one from row i of the other, summed as `nearest` sums it."""
    total = np.zeros(one.rows)
    for column in range(one.points.shape[1]):
        gap = one.points[:, column] - two.points[:, column]
        total += gap * gap if weights is None else weights[column] * (gap * gap)
    for column, table in enumerate(one.squares):
        total += table[one.codes[:, column], two.codes[:, column]]
    return total


def _columns(space: Space) -> Floats:
    """Numbers, then codes, in one array."""
    return np.ascontiguousarray(np.hstack([space.points, space.codes.astype(np.float64)]))


def _flat(squares: tuple[Floats, ...]) -> tuple[Floats, Places, Places]:
    """The tables of squares one after the other, where each starts, and how long its rows are."""
    tables = np.concatenate([np.zeros(0), *(table.ravel() for table in squares)])
    first = np.cumsum([0, *(table.size for table in squares)], dtype=np.int64)
    return tables, first, np.array([table.shape[1] for table in squares], dtype=np.int64)


class Boxes(NamedTuple):
    """Records in the order of the tree, the ends of its boxes, and the squared distances of categories one by one."""

    known: Floats
    low: Floats
    high: Floats
    weights: Floats
    numbers: int
    tables: Floats
    first: Places
    size: Places


@njit(cache=True)
def _tree(known: Floats, numbers: int) -> tuple[Places, Floats, Floats]:
    """The order of the records, and the ends of every box: boxes 2i + 1 and 2i + 2 halve box i."""
    rows, columns = known.shape
    depth = 0
    while (rows >> depth) > LEAF:
        depth += 1
    order = np.arange(rows)
    low, high = np.empty((2 ** (depth + 1) - 1, columns)), np.empty((2 ** (depth + 1) - 1, columns))
    for level in range(depth + 1):
        for place in range(2**level):
            box = 2**level - 1 + place
            mine = order[(rows * place) >> level : (rows * (place + 1)) >> level]
            for column in range(columns):
                values = known[mine, column]
                low[box, column], high[box, column] = values.min(), values.max()
            if level < depth:
                mine[:] = mine[np.argsort(known[mine, _widest(low[box], high[box], numbers)])]
    return order, low, high


@njit(cache=True)
def _widest(low: Floats, high: Floats, numbers: int) -> int:
    """The column to divide by: categories before numbers, since they are farther apart."""
    for column in range(numbers, len(low)):
        if high[column] > low[column]:
            return column
    return int(np.argmax(high[:numbers] - low[:numbers])) if numbers else 0


@njit(cache=True)
def _search(asked: Floats, tree: Boxes) -> tuple[Floats, Places, Places]:
    """For each query the least squared distance, and the places of all that are at it."""
    squares, starts = np.empty(len(asked)), np.zeros(len(asked) + 1, np.int64)
    tied, found = np.empty(len(tree.known), np.int64), np.empty(len(asked), np.int64)
    waiting, bounds = np.empty(64, np.int64), np.empty(64)
    for query in range(len(asked)):
        squares[query], many = _descend(asked[query], tree, tied, waiting, bounds)
        start, stop = starts[query], starts[query] + many
        if stop > len(found):
            found = np.concatenate((found, np.empty(stop + len(found), np.int64)))
        found[start:stop] = tied[:many]
        starts[query + 1] = stop
    return squares, starts, found[: starts[-1]]


# A stack, not a recursion: numba crashes on a recursive function that it has from its cache (numba issue 6061).
@njit(cache=True)
def _descend(asked: Floats, tree: Boxes, tied: Places, waiting: Places, bounds: Floats) -> tuple[float, int]:
    """The least squared distance, and how many are at it: their places are in `tied`."""
    leaves, best, many = len(tree.low) // 2, np.inf, 0
    waiting[0], bounds[0], last = 0, 0.0, 0
    while last >= 0:
        box = waiting[last]
        if bounds[last] > best:
            last -= 1
        elif box >= leaves:
            best, many = _among(asked, tree, box - leaves, leaves + 1, best, many, tied)
            last -= 1
        else:
            left, right = _bound(asked, tree, 2 * box + 1), _bound(asked, tree, 2 * box + 2)
            nearer = 1 if left <= right else 2
            waiting[last], bounds[last] = 2 * box + 3 - nearer, max(left, right)
            waiting[last + 1], bounds[last + 1] = 2 * box + nearer, min(left, right)
            last += 1
    return best, many


@njit(cache=True)
def _among(
    asked: Floats, tree: Boxes, leaf: int, leaves: int, best: float, many: int, tied: Places
) -> tuple[float, int]:
    rows = len(tree.known)
    for place in range(rows * leaf // leaves, rows * (leaf + 1) // leaves):
        square = _square(asked, tree, place)
        if square < best:
            best, many = square, 0
        if square == best:
            tied[many] = place
            many += 1
    return best, many


@njit(cache=True)
def _square(asked: Floats, tree: Boxes, place: int) -> float:
    total = 0.0
    for column in range(tree.numbers):
        gap = asked[column] - tree.known[place, column]
        total += tree.weights[column] * (gap * gap)
    for column in range(tree.numbers, len(asked)):
        row = tree.first[column - tree.numbers] + int(asked[column]) * tree.size[column - tree.numbers]
        total += tree.tables[row + int(tree.known[place, column])]
    return total


@njit(cache=True)
def _bound(asked: Floats, tree: Boxes, box: int) -> float:
    """At most the squared distance of anything in the box."""
    total = 0.0
    for column in range(tree.numbers):
        gap = max(tree.low[box, column] - asked[column], asked[column] - tree.high[box, column], 0.0)
        total += tree.weights[column] * (gap * gap)
    for column in range(tree.numbers, len(asked)):
        total += _least(asked[column], tree, column - tree.numbers, tree.low[box, column], tree.high[box, column])
    return total


@njit(cache=True)
def _least(asked: float, tree: Boxes, column: int, low: float, high: float) -> float:
    """The least squared distance from a category to those between two, both among them."""
    if low <= asked <= high:
        return 0.0
    row = tree.first[column] + int(asked) * tree.size[column]
    least = np.inf
    for code in range(int(low), int(high) + 1):
        least = min(least, tree.tables[row + code])
    return least
