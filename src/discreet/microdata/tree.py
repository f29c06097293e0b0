"""Compiled: records in a balanced kd-tree whose boxes shrink as records leave.

A record is a line of coordinates, the first `plain` of them numbers and the others codes of categories.

numba's cache of forming.py holds what is called here, in sums.py and in searching.py, and notices no change of these
files: after one, delete the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.microdata.table import Floats

Rows = NDArray[np.int32]

P = ParamSpec("P")
R = TypeVar("R")

LEAF = 32
"""Records in a leaf, at most; at least half as many."""

NOBODY = 2**31 - 1


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that compiled code alone calls; what calls it is cached with it inside."""
    compiled: Any = njit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
    return cast("Callable[P, R]", compiled)


def outer(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function for Python to call, once for all runs where there is a folder to keep it in."""
    try:
        compiled: Any = njit(function, cache=True)
    except RuntimeError:  # numba finds no such folder
        compiled = njit(function)
    return cast("Callable[P, R]", compiled)


class Tree(NamedTuple):
    """Node 1 is the root, nodes 2i and 2i + 1 are below node i, and the last half of the nodes are leaves."""

    points: Floats
    row: Rows
    """Which row of the table the record at a position is."""
    alive: NDArray[np.bool_]
    start: Rows
    """Leaf j has the positions from start[j] = j n // leaves to before start[j + 1]."""
    low: Floats
    high: Floats
    """The sides of each node's box."""
    first: Rows
    """The lowest row in each node; NOBODY in an empty one."""
    centre: Floats
    """Some place in the middle, of numbers alone."""
    radius: Floats
    """The greatest squared distance from there in each node."""
    squares: Floats
    """For each coordinate that is a code: the squared distance of any two codes."""
    most: Floats
    """The greatest of these."""
    plain: int


@inner
def _swap(tree: Tree, one: int, two: int) -> None:
    for j in range(tree.points.shape[1]):
        tree.points[one, j], tree.points[two, j] = tree.points[two, j], tree.points[one, j]
    tree.row[one], tree.row[two] = tree.row[two], tree.row[one]


@inner
def _part(tree: Tree, start: int, stop: int, middle: int, axis: int) -> None:
    """Put the records from start to stop so that none before `middle` is beyond those after it (Hoare's selection)."""
    left, right = start, stop - 1
    while left < right:
        a, b, c = tree.points[left, axis], tree.points[(left + right) // 2, axis], tree.points[right, axis]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = left, right
        while i <= j:
            while tree.points[i, axis] < pivot:
                i += 1
            while tree.points[j, axis] > pivot:
                j -= 1
            if i <= j:
                _swap(tree, i, j)
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@inner
def _radius(tree: Tree, position: int) -> float:
    """The squared distance of a record from the centre, by numbers alone."""
    total = 0.0
    for j in range(tree.plain):
        total += (tree.points[position, j] - tree.centre[j]) ** 2
    return total


@inner
def _box(tree: Tree, node: int, start: int, stop: int) -> None:
    """Make the node's box and radius tight around its records."""
    tree.first[node], tree.radius[node] = NOBODY, -np.inf
    for j in range(tree.points.shape[1]):
        tree.low[node, j] = np.inf
        tree.high[node, j] = -np.inf
    for p in range(start, stop):
        if tree.alive[p]:
            tree.first[node] = min(tree.first[node], tree.row[p])
            tree.radius[node] = max(tree.radius[node], _radius(tree, p))
            for j in range(tree.points.shape[1]):
                tree.low[node, j] = min(tree.low[node, j], tree.points[p, j])
                tree.high[node, j] = max(tree.high[node, j], tree.points[p, j])


@inner
def _widest(tree: Tree, node: int) -> int:
    axis, widest = 0, -1.0
    for j in range(tree.points.shape[1]):
        spread = tree.high[node, j] - tree.low[node, j]
        if j >= tree.plain:
            spread = tree.most[j - tree.plain] if spread > 0 else 0.0
        else:
            spread *= spread
        if spread > widest:
            axis, widest = j, spread
    return axis


@inner
def plant(points: Floats, row: Rows, squares: Floats, most: Floats, centre: Floats) -> Tree:
    """A tree of these records, which it puts in an order of its own: the arrays are its own from now on."""
    rows, width = points.shape
    leaves = 1
    while leaves * LEAF < rows:
        leaves *= 2
    low, high = np.empty((2 * leaves, width)), np.empty((2 * leaves, width))
    first, radius, start = np.empty(2 * leaves, np.int32), np.empty(2 * leaves), np.empty(leaves + 1, np.int32)
    for leaf in range(leaves + 1):
        start[leaf] = leaf * rows // leaves
    tree = Tree(
        points, row, np.ones(rows, np.bool_), start, low, high, first, centre, radius, squares, most, len(centre)
    )
    below = leaves
    for node in range(1, 2 * leaves):
        if node & (node - 1) == 0 and node > 1:
            below //= 2
        leaf = node * below - leaves
        _box(tree, node, start[leaf], start[leaf + below])
        if below > 1:
            _part(tree, start[leaf], start[leaf + below], start[leaf + below // 2], _widest(tree, node))
    return tree


@inner
def replant(tree: Tree, centre: Floats) -> Tree:
    """A tree of the records that are left, in the same arrays."""
    left = 0
    for p in range(len(tree.points)):
        if tree.alive[p]:
            for j in range(tree.points.shape[1]):
                tree.points[left, j] = tree.points[p, j]
            tree.row[left] = tree.row[p]
            left += 1
    return plant(tree.points[:left], tree.row[:left], tree.squares, tree.most, centre)


@inner
def recentre(tree: Tree, place: Floats) -> None:
    """Move the centre that radii are measured from."""
    leaves = len(tree.first) // 2
    for j in range(tree.plain):
        tree.centre[j] = place[j]
    for node in range(2 * leaves - 1, 0, -1):
        if node < leaves:
            tree.radius[node] = max(tree.radius[2 * node], tree.radius[2 * node + 1])
        else:
            tree.radius[node] = -np.inf
            for p in range(tree.start[node - leaves], tree.start[node - leaves + 1]):
                if tree.alive[p]:
                    tree.radius[node] = max(tree.radius[node], _radius(tree, p))


@inner
def leaf_of(tree: Tree, position: int) -> int:
    """The leaf that a position is in."""
    return ((position + 1) * (len(tree.first) // 2) - 1) // len(tree.points)


@inner
def shrink(tree: Tree, leaf: int) -> None:
    """Make the boxes and radii from a leaf upwards tight again, after records left."""
    leaves = len(tree.first) // 2
    _box(tree, leaves + leaf, tree.start[leaf], tree.start[leaf + 1])
    node, changed = (leaves + leaf) // 2, True
    while node > 0 and changed:
        one, two = 2 * node, 2 * node + 1
        first, radius = min(tree.first[one], tree.first[two]), max(tree.radius[one], tree.radius[two])
        changed = first != tree.first[node] or radius != tree.radius[node]
        tree.first[node], tree.radius[node] = first, radius
        for j in range(tree.points.shape[1]):
            low, high = min(tree.low[one, j], tree.low[two, j]), max(tree.high[one, j], tree.high[two, j])
            changed |= low != tree.low[node, j] or high != tree.high[node, j]
            tree.low[node, j], tree.high[node, j] = low, high
        node //= 2
