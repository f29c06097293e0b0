"""Compiled: the nearest and the farthest record of a tree, exactly.

A squared distance is summed over coordinates in their order. Bounds from boxes are summed in the same order of terms
that are each no more (or no less) than the distance's, and rounding is monotone, so that they hold for the rounded
distance too; bounds from radii have a margin beyond all rounding. What is found is therefore what a full scan would
find, bit by bit. Ties go to the lowest row; every node knows its lowest.
"""

from __future__ import annotations

import numpy as np

from discreet.microdata.table import Floats
from discreet.microdata.tree import NOBODY, Rows, Tree, inner

NARROW = 8
"""Of a node with more codes than this, bounds are those of all codes."""

MARGIN = 1e-12
"""Of squared radii, for each coordinate: more than rounding adds up to."""

TINY = 1e-300
"""Squares below this lose digits."""

DEEPEST = 64
"""More levels than any tree has."""


@inner
def apart(tree: Tree, place: Floats, position: int) -> float:
    """The squared distance of a place to the record at a position."""
    total = 0.0
    for j in range(tree.plain):
        step = place[j] - tree.points[position, j]
        total += step * step
    for j in range(tree.plain, tree.points.shape[1]):
        total += tree.squares[j - tree.plain, int(place[j]), int(tree.points[position, j])]
    return total


@inner
def _at_least(tree: Tree, node: int, place: Floats) -> float:
    """No record of the node is nearer than this."""
    total = 0.0
    for j in range(tree.plain):
        step = max(tree.low[node, j] - place[j], place[j] - tree.high[node, j], 0.0)
        total += step * step
    for j in range(tree.plain, tree.points.shape[1]):
        low, high = int(tree.low[node, j]), int(tree.high[node, j])
        if high - low < NARROW:
            least = tree.squares[j - tree.plain, int(place[j]), low]
            for code in range(low + 1, high + 1):
                least = min(least, tree.squares[j - tree.plain, int(place[j]), code])
            total += least
    return total


@inner
def _at_most(tree: Tree, node: int, place: Floats, off: float) -> float:
    """No record of the node is farther than this; `off` is the squared distance of the place from the centre.

    With c the centre, |q - p|² = |q - c|² + |p - c|² + 2 (c - q)(p - c), of which the last is greatest at a corner.
    """
    total = 0.0
    ball: float = (off + tree.radius[node]) * (1 + MARGIN * tree.plain) + TINY
    for j in range(tree.plain):
        low, high, centre = tree.low[node, j], tree.high[node, j], tree.centre[j]
        step = max(place[j] - low, high - place[j])
        total += step * step
        ball += 2 * max((centre - place[j]) * (low - centre), (centre - place[j]) * (high - centre))
    total = min(total, ball)
    for j in range(tree.plain, tree.points.shape[1]):
        low, high = int(tree.low[node, j]), int(tree.high[node, j])
        most = tree.most[j - tree.plain]
        if high - low < NARROW:
            most = 0.0
            for code in range(low, high + 1):
                most = max(most, tree.squares[j - tree.plain, int(place[j]), code])
        total += most
    return total


@inner
def _sift(far: Floats, who: Rows, where: Rows, distance: float, row: int, position: int) -> None:
    """Put a record in the place of the worst of a heap; the worst is on top."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= len(far):
            break
        if child + 1 < len(far) and (
            far[child + 1] > far[child] or (far[child + 1] == far[child] and who[child + 1] > who[child])
        ):
            child += 1
        if far[child] < distance or (far[child] == distance and who[child] < row):
            break
        far[hole], who[hole], where[hole] = far[child], who[child], where[child]
        hole = child
    far[hole], who[hole], where[hole] = distance, row, position


@inner
def nearest(tree: Tree, place: Floats, count: int) -> tuple[Rows, Floats]:
    """The positions of the nearest records, in no order; NOBODY fills what is missing. And their squared distances."""
    leaves = len(tree.first) // 2
    far, who = np.full(count, np.inf), np.full(count, NOBODY, np.int32)
    where = np.full(count, NOBODY, np.int32)
    nodes, bounds = np.empty(DEEPEST, np.int64), np.empty(DEEPEST)
    nodes[0], bounds[0], height = 1, 0.0, 1
    while height > 0:
        height -= 1
        node, bound = nodes[height], bounds[height]
        while bound < far[0] or (bound == far[0] and tree.first[node] < who[0]):
            if node >= leaves:
                for p in range(tree.start[node - leaves], tree.start[node - leaves + 1]):
                    if tree.alive[p]:
                        distance = apart(tree, place, p)
                        if distance < far[0] or (distance == far[0] and tree.row[p] < who[0]):
                            _sift(far, who, where, distance, tree.row[p], p)
                break
            one, two = 2 * node, 2 * node + 1
            near = _at_least(tree, one, place) if tree.first[one] != NOBODY else np.inf
            off = _at_least(tree, two, place) if tree.first[two] != NOBODY else np.inf
            if off < near or (off == near and tree.first[two] < tree.first[one]):
                one, two, near, off = two, one, off, near
            if tree.first[two] != NOBODY:
                nodes[height], bounds[height] = two, off
                height += 1
            if tree.first[one] == NOBODY:
                break
            node, bound = one, near
    return where, far


@inner
def farthest(tree: Tree, place: Floats) -> tuple[int, int]:
    """The position of the farthest record, and how many nodes were looked at."""
    leaves = len(tree.first) // 2
    distance, row, position = -1.0, NOBODY, -1
    away = 0.0
    for j in range(tree.plain):
        away += (place[j] - tree.centre[j]) ** 2
    nodes, bounds = np.empty(DEEPEST, np.int64), np.empty(DEEPEST)
    nodes[0], bounds[0], height, looked = 1, np.inf, 1, 0
    while height > 0:
        height -= 1
        node, bound = nodes[height], bounds[height]
        while bound > distance or (bound == distance and tree.first[node] < row):
            looked += 1
            if node >= leaves:
                for p in range(tree.start[node - leaves], tree.start[node - leaves + 1]):
                    if tree.alive[p]:
                        this = apart(tree, place, p)
                        if this > distance or (this == distance and tree.row[p] < row):
                            distance, row, position = this, tree.row[p], p
                break
            one, two = 2 * node, 2 * node + 1
            off = _at_most(tree, one, place, away) if tree.first[one] != NOBODY else -1.0
            near = _at_most(tree, two, place, away) if tree.first[two] != NOBODY else -1.0
            if near > off or (near == off and tree.first[two] < tree.first[one]):
                one, two, off, near = two, one, near, off
            if tree.first[two] != NOBODY:
                nodes[height], bounds[height] = two, near
                height += 1
            if tree.first[one] == NOBODY:
                break
            node, bound = one, off
    return position, looked
