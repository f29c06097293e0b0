"""Compiled: records in a kd-tree whose boxes shrink as records leave.

A record is a line of coordinates, the first `plain` of them numbers and the others codes of categories. Sixteen records
are a leaf and sixteen nodes are below a node, and lie side by side coordinate by coordinate, so that the processor
measures them all at once.

numba's cache of forming.py holds what is called here, in ordering.py, sums.py and searching.py, and notices no change
of these files: after one, delete the cache.
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

WIDE = 16
"""Records in a leaf and nodes below a node; only the last ones may have fewer."""

NOBODY = 2**31 - 1


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that compiled code alone calls; what calls it is cached with it inside."""
    compiled: Any = njit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
    return cast("Callable[P, R]", compiled)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function as a part of those that call it: to hand arrays over takes longer than what it does."""
    compiled: Any = njit(function, inline="always")
    return cast("Callable[P, R]", compiled)


def outer(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function for Python to call, once for all runs where there is a folder to keep it in."""
    try:
        compiled: Any = njit(function, cache=True)
    except RuntimeError:  # numba finds no such folder
        compiled = njit(function)
    return cast("Callable[P, R]", compiled)


class Boxes(NamedTuple):
    """What is known of nodes; of sixteen below the same node side by side, in its line."""

    low: Floats
    high: Floats
    """The sides of the box around a node's records; NaN where there are none."""
    first: Rows
    """The lowest row; NOBODY where there is none."""
    radius: Floats
    """The greatest squared distance from the centre, by numbers alone."""


class Tree(NamedTuple):
    """Node 0 is the root, nodes 16i + 1 to 16i + 16 are below node i, and nodes from `leaf` on are leaves."""

    points: Floats
    """The memory of the blocks."""
    row: Rows
    """Which row of the table the record at a position is; leaf i has the positions from 16i on."""
    alive: NDArray[np.bool_]
    blocks: Floats
    """Leaf, coordinate, record; NaN where one left, and the distance to it is NaN."""
    tail: Floats
    """The last leaf where it is not full, filled up with NaN."""
    leaf: int
    boxes: Boxes
    centre: Floats
    """Some place in the middle, of numbers alone."""
    squares: Floats
    """For each coordinate that is a code: the squared distance of any two codes."""
    most: Floats
    """The greatest of these."""
    plain: int


@inner
def plant(points: Floats, row: Rows, squares: Floats, most: Floats, centre: Floats) -> Tree:
    """A tree of records that are in the order of leaves; the arrays are its own from now on."""
    rows, width = points.shape
    leaf, full = 1, rows // WIDE
    while (leaf * (WIDE - 1) + 1) * WIDE < rows:
        leaf = leaf * WIDE + 1
    nodes = (leaf - 1) // WIDE + (rows + WIDE * WIDE - 1) // (WIDE * WIDE)
    boxes = Boxes(
        np.full((nodes, width, WIDE), np.nan),
        np.full((nodes, width, WIDE), np.nan),
        np.full((nodes, WIDE), NOBODY, np.int32),
        np.full((nodes, WIDE), -np.inf),
    )
    blocks, tail = points[: full * WIDE].reshape((full, width, WIDE)), np.full((1, width, WIDE), np.nan)
    _turn(points, blocks, tail)
    alive = np.ones(rows, np.bool_)
    tree = Tree(points, row, alive, blocks, tail, leaf, boxes, centre, squares, most, len(centre))
    lane = np.empty(WIDE)
    for at in range((rows + WIDE - 1) // WIDE):
        _shrink_leaf(boxes, leaf, blocks, tail, row, alive, centre, at, lane)
    for node in range(nodes - 1, 0, -1):
        _shrink_node(boxes, node)
    return tree


@inner
def _turn(points: Floats, blocks: Floats, tail: Floats) -> None:
    """Put the coordinates of each leaf's records side by side; the blocks are where the points were."""
    width = points.shape[1]
    block = np.empty((WIDE, width))
    for start in range(0, len(points), WIDE):
        count = min(WIDE, len(points) - start)
        for s in range(count):
            for j in range(width):
                block[s, j] = points[start + s, j]
        for j in range(width):
            for s in range(count):
                if count == WIDE:
                    blocks[start // WIDE, j, s] = block[s, j]
                else:
                    tail[0, j, s] = block[s, j]


@inner
def uproot(tree: Tree) -> int:
    """Put the records that are left, as whole lines, at the start of the points; how many they are."""
    left, width, blocks, tail = 0, tree.points.shape[1], tree.blocks, tree.tail
    block = np.empty((width, WIDE))
    for p in range(len(tree.points)):
        leaf, here = p // WIDE, p % WIDE
        if here == 0:
            for j in range(width):
                for s in range(WIDE):
                    block[j, s] = blocks[leaf, j, s] if leaf < len(blocks) else tail[0, j, s]
        if tree.alive[p]:
            for j in range(width):
                tree.points[left, j] = block[j, here]
            tree.row[left], left = tree.row[p], left + 1
    return left


@inner
def gaps(blocks: Floats, leaf: int, place: Floats, plain: int, found: Floats) -> None:
    """The squared distances of a leaf's records from a place, by numbers alone."""
    for s in range(len(found)):  # a number that the compiler does not know: it would unroll, and not do all at once
        found[s] = 0.0
    for j in range(plain):
        here = place[j]
        for s in range(len(found)):
            step = here - blocks[leaf, j, s]
            found[s] += step * step


@inner
def _shrink(boxes: Boxes, node: int, first: int, radius: float, lows: Floats, highs: Floats, line: int) -> bool:
    """Make what is known of a node tight, the box around sixteen places or boxes; whether it was another."""
    up, here = (node - 1) // WIDE, (node - 1) % WIDE
    changed = bool(first != boxes.first[up, here] or radius != boxes.radius[up, here])
    boxes.first[up, here] = first
    boxes.radius[up, here] = radius
    for j in range(boxes.low.shape[1]):
        low, high = np.inf, -np.inf
        for s in range(WIDE):
            low = lows[line, j, s] if lows[line, j, s] < low else low
            high = highs[line, j, s] if highs[line, j, s] > high else high
        if first == NOBODY:
            low = high = np.nan
        changed |= bool(low != boxes.low[up, j, here] or high != boxes.high[up, j, here])
        boxes.low[up, j, here] = low
        boxes.high[up, j, here] = high
    return changed


@inner
def _most(lane: Floats) -> float:
    """The greatest of those that are not NaN."""
    most = -np.inf
    for s in range(WIDE):
        most = lane[s] if lane[s] > most else most
    return most


@inner
def _shrink_leaf(
    boxes: Boxes,
    start: int,
    blocks: Floats,
    tail: Floats,
    row: Rows,
    alive: NDArray[np.bool_],
    centre: Floats,
    leaf: int,
    lane: Floats,
) -> bool:
    first = NOBODY
    for p in range(leaf * WIDE, min(leaf * WIDE + WIDE, len(row))):
        if alive[p] and row[p] < first:
            first = row[p]
    if leaf < len(blocks):
        gaps(blocks, leaf, centre, len(centre), lane)
        return _shrink(boxes, start + leaf, first, _most(lane), blocks, blocks, leaf)
    gaps(tail, 0, centre, len(centre), lane)
    return _shrink(boxes, start + leaf, first, _most(lane), tail, tail, 0)


@inner
def _shrink_node(boxes: Boxes, node: int) -> bool:
    first, radius = NOBODY, -np.inf
    for s in range(WIDE):
        first = min(first, boxes.first[node, s])
        radius = max(radius, boxes.radius[node, s])
    return _shrink(boxes, node, first, radius, boxes.low, boxes.high, node)


@inner
def shrink(tree: Tree, positions: Rows) -> None:
    """Make boxes and radii tight again after records left these positions."""
    boxes, blocks, tail, row, alive, centre = tree.boxes, tree.blocks, tree.tail, tree.row, tree.alive, tree.centre
    lane = np.empty(WIDE)
    for i in range(len(positions)):
        leaf, again = positions[i] // WIDE, False
        for j in range(i):
            again |= positions[j] // WIDE == leaf
        if not again:
            changed = _shrink_leaf(boxes, tree.leaf, blocks, tail, row, alive, centre, leaf, lane)
            node = (tree.leaf + leaf - 1) // WIDE
            while node > 0 and changed:
                changed = _shrink_node(boxes, node)
                node = (node - 1) // WIDE


@inner
def recentre(tree: Tree, place: Floats) -> None:
    """Move the centre that radii are measured from."""
    blocks, radius, centre, lane = tree.blocks, tree.boxes.radius, tree.centre, np.empty(WIDE)
    for j in range(len(centre)):
        centre[j] = place[j]
    for leaf in range((len(tree.row) + WIDE - 1) // WIDE):
        if leaf < len(blocks):
            gaps(blocks, leaf, centre, len(centre), lane)
        else:
            gaps(tree.tail, 0, centre, len(centre), lane)
        radius[(tree.leaf + leaf - 1) // WIDE, (tree.leaf + leaf - 1) % WIDE] = _most(lane)
    for node in range(len(radius) - 1, 0, -1):
        radius[(node - 1) // WIDE, (node - 1) % WIDE] = _most(radius[node])


@inner
def write_down(blocks: Floats, tail: Floats, position: int, places: Floats, which: int) -> None:
    """Copy the coordinates of a record to a line of `places`."""
    leaf, here = position // WIDE, position % WIDE
    for j in range(places.shape[1]):
        places[which, j] = blocks[leaf, j, here] if leaf < len(blocks) else tail[0, j, here]


@inner
def leave(blocks: Floats, tail: Floats, alive: NDArray[np.bool_], position: int) -> None:
    """Take a record out; boxes stay as they are."""
    leaf, here = position // WIDE, position % WIDE
    alive[position] = False
    for j in range(tail.shape[1]):
        if leaf < len(blocks):
            blocks[leaf, j, here] = np.nan
        else:
            tail[0, j, here] = np.nan
