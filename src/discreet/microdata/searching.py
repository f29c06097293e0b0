"""Compiled: the nearest and the farthest record of a tree, exactly.

A squared distance is summed over coordinates in their order. Bounds from boxes are summed in the same order of terms
that are each no more (or no less) than the distance's, and rounding is monotone, so that they hold for the rounded
distance too; bounds from radii have a margin beyond all rounding. What is found is therefore what a full scan would
find, bit by bit. Ties go to the lowest row; every node knows its lowest. What is NaN is neither near nor far.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.microdata.table import Floats, Places
from discreet.microdata.tree import NOBODY, WIDE, Rows, Tree, gaps, inner

NARROW = 8
"""Of a node with more codes than this, bounds are those of all codes."""

MARGIN = 1e-12
"""Of squared radii, for each coordinate: more than rounding adds up to."""

TINY = 1e-300
"""Squares below this lose digits."""

DEEPEST = 8 * WIDE
"""More nodes than ever wait to be looked at."""


@inner
def _boxes(low: Floats, high: Floats, node: int, place: Floats, plain: int, found: Floats) -> None:
    """The squared distances of a place from sixteen boxes, by numbers alone."""
    for s in range(len(found)):
        found[s] = 0.0
    for j in range(plain):
        here = place[j]
        for s in range(len(found)):
            step, other = low[node, j, s] - here, here - high[node, j, s]
            step = other if other > step else step
            step = 0.0 if step < 0.0 else step
            found[s] += step * step


@inner
def _corners(low: Floats, high: Floats, node: int, place: Floats, plain: int, found: Floats) -> None:
    """The squared distances of a place from the farthest corners of sixteen boxes, by numbers alone."""
    for s in range(len(found)):
        found[s] = 0.0
    for j in range(plain):
        here = place[j]
        for s in range(len(found)):
            step, other = here - low[node, j, s], high[node, j, s] - here
            step = other if other > step else step
            found[s] += step * step


@inner
def _opposite_boxes(
    low: Floats, high: Floats, node: int, centre: Floats, opposite: Floats, plain: int, found: Floats
) -> None:
    """The squared distances of a place from sixteen boxes, all seen from the centre."""
    for s in range(len(found)):
        found[s] = 0.0
    for j in range(plain):
        origin, here = centre[j], opposite[j]
        for s in range(len(found)):
            step, other = (low[node, j, s] - origin) - here, here - (high[node, j, s] - origin)
            step = other if other > step else step
            step = 0.0 if step < 0.0 else step
            found[s] += step * step


@inner
def _lesser(radius: Floats, node: int, near: Floats, off: float, lean: float, reach: float, found: Floats) -> None:
    """Make sixteen bounds no more than what `farthest` knows from how near their boxes are to the opposite place."""
    for s in range(len(found)):
        bound = off + radius[node, s] + lean * (reach + radius[node, s] - near[s])
        found[s] = bound if bound < found[s] else found[s]


@inner
def _add_codes(tree: Tree, leaf: int, place: Floats, found: Floats) -> None:
    """Squared distances by codes."""
    blocks, at = (tree.blocks, leaf) if leaf < len(tree.blocks) else (tree.tail, 0)
    for s in range(WIDE):
        if leaf * WIDE + s >= len(tree.alive) or not tree.alive[leaf * WIDE + s]:
            found[s] = np.nan
            continue
        for j in range(tree.plain, blocks.shape[1]):
            found[s] += tree.squares[j - tree.plain, int(place[j]), int(blocks[at, j, s])]


@inner
def _add_least(tree: Tree, node: int, place: Floats, found: Floats) -> None:
    """What is the least by codes."""
    for s in range(WIDE):
        if tree.boxes.first[node, s] == NOBODY:
            found[s] = np.nan
            continue
        for j in range(tree.plain, tree.boxes.low.shape[1]):
            low, high = int(tree.boxes.low[node, j, s]), int(tree.boxes.high[node, j, s])
            if high - low < NARROW:
                least = tree.squares[j - tree.plain, int(place[j]), low]
                for code in range(low + 1, high + 1):
                    least = min(least, tree.squares[j - tree.plain, int(place[j]), code])
                found[s] += least


@inner
def _add_most(tree: Tree, node: int, place: Floats, found: Floats) -> None:
    """What is the most by codes."""
    for s in range(WIDE):
        if tree.boxes.first[node, s] == NOBODY:
            found[s] = np.nan
            continue
        for j in range(tree.plain, tree.boxes.low.shape[1]):
            low, high = int(tree.boxes.low[node, j, s]), int(tree.boxes.high[node, j, s])
            most = tree.most[j - tree.plain]
            if high - low < NARROW:
                most = 0.0
                for code in range(low, high + 1):
                    most = max(most, tree.squares[j - tree.plain, int(place[j]), code])
            found[s] += most


@inner
def _keep(far: Floats, who: Rows, where: Rows, distance: float, row: int, position: int) -> None:
    """Put a record in the place of the worst of a heap; the worst is on top."""
    hole, child = 0, 1
    while child < len(far):
        if child + 1 < len(far) and (
            far[child + 1] > far[child] or (far[child + 1] == far[child] and who[child + 1] > who[child])
        ):
            child += 1
        if far[child] < distance or (far[child] == distance and who[child] < row):
            break
        far[hole], who[hole], where[hole] = far[child], who[child], where[child]
        hole, child = child, 2 * child + 1
    far[hole], who[hole], where[hole] = distance, row, position


@inner
def _wait(nodes: Places, bounds: Floats, height: int, node: int, bound: float, base: int) -> None:
    """Put a node on top of those that wait, from `base` on, or below the one on top if that has a greater bound."""
    nodes[height], bounds[height] = node, bound
    if height > base and bounds[height - 1] > bound:
        nodes[height], bounds[height] = nodes[height - 1], bounds[height - 1]
        nodes[height - 1], bounds[height - 1] = node, bound


@inner
def nearest(tree: Tree, position: int, place: Floats, count: int) -> tuple[Rows, Floats]:
    """The positions of the records nearest to a place, in no order, and their squared distances.

    NOBODY fills what is missing. The place is that of the record at `position`, where the search starts.
    """
    blocks, tail, row, leaf, plain = tree.blocks, tree.tail, tree.row, tree.leaf, tree.plain
    low, high, first, _ = tree.boxes
    far, who, where = np.full(count, np.inf), np.full(count, NOBODY, np.int32), np.full(count, NOBODY, np.int32)
    nodes, bounds, lane = np.empty(DEEPEST, np.int64), np.empty(DEEPEST), np.empty(WIDE)
    came, node = -1, leaf + position // WIDE
    while node >= 0:
        nodes[0], bounds[0], height = node, np.inf, 1
        while height > 0:
            height -= 1
            this = nodes[height]
            if -bounds[height] > far[0] or (
                -bounds[height] == far[0] and first[(this - 1) // WIDE, (this - 1) % WIDE] > who[0]
            ):
                continue
            if this >= leaf:
                if this - leaf < len(blocks):
                    gaps(blocks, this - leaf, place, plain, lane)
                else:
                    gaps(tail, 0, place, plain, lane)
                if plain < len(place):
                    _add_codes(tree, this - leaf, place, lane)
                for s in range(WIDE):
                    p = (this - leaf) * WIDE + s
                    if lane[s] <= far[0] and (lane[s] < far[0] or row[p] < who[0]):
                        _keep(far, who, where, lane[s], row[p], p)
                continue
            _boxes(low, high, this, place, plain, lane)
            if plain < len(place):
                _add_least(tree, this, place, lane)
            base = height
            for s in range(WIDE):
                if lane[s] <= far[0] and this * WIDE + 1 + s != came:
                    _wait(nodes, bounds, height, this * WIDE + 1 + s, -lane[s], base)
                    height += 1
        came, node = node, (node - 1) // WIDE if node > 0 else -1
    return where, far


@inner
def _opposite(centre: Floats, radius: Floats, place: Floats, opposite: Floats) -> tuple[float, float, float]:
    """a², with a margin, R² and a / R of `farthest`, and z as seen from the centre.

    Where a / R is out of all proportion the margin is more than what is left out.
    """
    off, reach, lean = 0.0, 0.0, 0.0
    for j in range(len(opposite)):
        opposite[j] = centre[j] - place[j]
        off += opposite[j] * opposite[j]
    for s in range(WIDE):
        reach = max(reach, radius[0, s])
    if off > 0 and reach > 0 and 1e-100 < math.sqrt(off) / math.sqrt(reach) < 1e100:
        lean = math.sqrt(off) / math.sqrt(reach)
    for j in range(len(opposite)):
        opposite[j] = opposite[j] / lean if lean > 0 else 0.0
    return off + MARGIN * len(opposite) * (off + reach) + TINY, reach, lean


@inner
def farthest(tree: Tree, place: Floats) -> tuple[int, int]:
    """The position of the record farthest from a place, and how many nodes were looked at.

    With c the centre, a and r the distances of q and p from it and R the greatest r, let z be the place opposite to q
    with |z - c| = R. Then |q - p|² = a² + r² + (a / R) (R² + r² - |z - p|²), and a box tells how near p is to z.
    """
    blocks, tail, rows, leaf, plain, centre = tree.blocks, tree.tail, tree.row, tree.leaf, tree.plain, tree.centre
    low, high, first, radius = tree.boxes
    nodes, bounds, lane, near = np.empty(DEEPEST, np.int64), np.empty(DEEPEST), np.empty(WIDE), np.empty(WIDE)
    distance, row, position = -1.0, NOBODY, -1
    opposite = np.empty(plain)
    off, reach, lean = _opposite(centre, radius, place, opposite)
    nodes[0], bounds[0], height, looked = 0, np.inf, 1, 0
    while height > 0:
        height -= 1
        this = nodes[height]
        if bounds[height] < distance or (
            bounds[height] == distance and first[(this - 1) // WIDE, (this - 1) % WIDE] > row
        ):
            continue
        looked += 1
        if this >= leaf:
            if this - leaf < len(blocks):
                gaps(blocks, this - leaf, place, plain, lane)
            else:
                gaps(tail, 0, place, plain, lane)
            if plain < len(place):
                _add_codes(tree, this - leaf, place, lane)
            for s in range(WIDE):
                p = (this - leaf) * WIDE + s
                if lane[s] >= distance and (lane[s] > distance or rows[p] < row):
                    distance, row, position = lane[s], rows[p], p
            continue
        _corners(low, high, this, place, plain, lane)
        _opposite_boxes(low, high, this, centre, opposite, plain, near)
        _lesser(radius, this, near, off, lean, reach, lane)
        if plain < len(place):
            _add_most(tree, this, place, lane)
        base = height
        for s in range(WIDE):
            if lane[s] >= distance:
                _wait(nodes, bounds, height, this * WIDE + 1 + s, lane[s], base)
                height += 1
    return position, looked
