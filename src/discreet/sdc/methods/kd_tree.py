"""A compiled k-d tree whose boxes shrink as records leave, and the order of its leaves.

A record is a line of coordinates, the first `numeric_count` of them numbers and the others codes of categories. Sixteen
records are a leaf and sixteen nodes are below a node, and lie side by side coordinate by coordinate, so that the
processor measures them all at once.

numba caches the entry points of mdav.py with all that they call here and in kd_search.py, and notices no change of
these two files: after one, delete the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.sdc.table import Floats, Integers

Rows = NDArray[np.int32]

P = ParamSpec("P")
R = TypeVar("R")

FANOUT = 16
"""Records in a leaf and nodes below a node; only the last ones may have fewer."""

NO_ROW = 2**31 - 1


def compile_internal(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that compiled code alone calls; its callers are cached with it inside."""
    compiled: Any = njit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
    return cast("Callable[P, R]", compiled)


def compile_inline(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function as a part of its callers: to hand arrays over takes longer than the function itself."""
    compiled: Any = njit(function, inline="always")
    return cast("Callable[P, R]", compiled)


def compile_entry_point(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function for Python to call, once for all runs where there is a folder to keep it in."""
    try:
        compiled: Any = njit(function, cache=True)
    except RuntimeError:  # numba finds no such folder
        compiled = njit(function)
    return cast("Callable[P, R]", compiled)


class NodeBoxes(NamedTuple):
    """Bounds of nodes; those of sixteen below the same node side by side, in its line."""

    low: Floats
    high: Floats
    """The sides of the box around a node's records; NaN where there are none."""
    first: Rows
    """The lowest row; NO_ROW where there is none."""
    radius: Floats
    """The greatest squared distance from the centre, by numbers alone."""


class KdTree(NamedTuple):
    """Node 0 is the root, nodes 16i + 1 to 16i + 16 are below node i, and nodes from `first_leaf` on are leaves."""

    points: Floats
    """The memory of the blocks."""
    row: Rows
    """Which row of the table the record at a position is; leaf i has the positions from 16i on."""
    alive: NDArray[np.bool_]
    blocks: Floats
    """Leaf, coordinate, record; NaN where one left, and the distance to it is NaN."""
    tail: Floats
    """The last leaf where it is not full, filled up with NaN."""
    first_leaf: int
    boxes: NodeBoxes
    center: Floats
    """Some place in the middle, of numbers alone."""
    squares: Floats
    """For each coordinate that is a code: the squared distance of any two codes."""
    max_squares: Floats
    """The greatest of these."""
    numeric_count: int


@compile_internal
def build_kd_tree(points: Floats, row: Rows, squares: Floats, max_squares: Floats, center: Floats) -> KdTree:
    """A tree of records that are in the order of leaves; the arrays are its own from now on."""
    rows, width = points.shape
    leaf, full = 1, rows // FANOUT
    while (leaf * (FANOUT - 1) + 1) * FANOUT < rows:
        leaf = leaf * FANOUT + 1
    nodes = (leaf - 1) // FANOUT + (rows + FANOUT * FANOUT - 1) // (FANOUT * FANOUT)
    boxes = NodeBoxes(
        np.full((nodes, width, FANOUT), np.nan),
        np.full((nodes, width, FANOUT), np.nan),
        np.full((nodes, FANOUT), NO_ROW, np.int32),
        np.full((nodes, FANOUT), -np.inf),
    )
    blocks, tail = points[: full * FANOUT].reshape((full, width, FANOUT)), np.full((1, width, FANOUT), np.nan)
    _transpose_blocks(points, blocks, tail)
    alive = np.ones(rows, np.bool_)
    tree = KdTree(
        points=points,
        row=row,
        alive=alive,
        blocks=blocks,
        tail=tail,
        first_leaf=leaf,
        boxes=boxes,
        center=center,
        squares=squares,
        max_squares=max_squares,
        numeric_count=len(center),
    )
    lane = np.empty(FANOUT)
    for leaf_index in range((rows + FANOUT - 1) // FANOUT):
        _shrink_leaf(tree, leaf_index, lane)
    for node in range(nodes - 1, 0, -1):
        _shrink_node(boxes, node)
    return tree


@compile_internal
def _transpose_blocks(points: Floats, blocks: Floats, tail: Floats) -> None:
    """Put the coordinates of each leaf's records side by side; the blocks are where the points were."""
    width = points.shape[1]
    block = np.empty((FANOUT, width))
    for start in range(0, len(points), FANOUT):
        count = min(FANOUT, len(points) - start)
        for s in range(count):
            for j in range(width):
                block[s, j] = points[start + s, j]
        for j in range(width):
            for s in range(count):
                if count == FANOUT:
                    blocks[start // FANOUT, j, s] = block[s, j]
                else:
                    tail[0, j, s] = block[s, j]


@compile_internal
def extract_remaining(tree: KdTree) -> int:
    """Put the records that are left, as whole lines, at the start of the points; return their number."""
    remaining, width, blocks, tail = 0, tree.points.shape[1], tree.blocks, tree.tail
    block = np.empty((width, FANOUT))
    for p in range(len(tree.points)):
        leaf, slot = p // FANOUT, p % FANOUT
        if slot == 0:
            for j in range(width):
                for s in range(FANOUT):
                    block[j, s] = blocks[leaf, j, s] if leaf < len(blocks) else tail[0, j, s]
        if tree.alive[p]:
            for j in range(width):
                tree.points[remaining, j] = block[j, slot]
            tree.row[remaining], remaining = tree.row[p], remaining + 1
    return remaining


@compile_internal
def compute_leaf_distances(blocks: Floats, leaf: int, place: Floats, numeric_count: int, distances: Floats) -> None:
    """The squared distances of a leaf's records from a place, by numbers alone."""
    for s in range(len(distances)):  # a number that the compiler does not know: it would unroll, and not do all at once
        distances[s] = 0.0
    for j in range(numeric_count):
        coordinate = place[j]
        for s in range(len(distances)):
            step = coordinate - blocks[leaf, j, s]
            distances[s] += step * step


@compile_internal
def _tighten_box(
    boxes: NodeBoxes, node: int, first: int, radius: float, lows: Floats, highs: Floats, line: int
) -> bool:
    """Make the bounds of a node tight around sixteen places or boxes; whether they changed."""
    parent, slot = (node - 1) // FANOUT, (node - 1) % FANOUT
    changed = bool(first != boxes.first[parent, slot] or radius != boxes.radius[parent, slot])
    boxes.first[parent, slot] = first
    boxes.radius[parent, slot] = radius
    for j in range(boxes.low.shape[1]):
        low, high = np.inf, -np.inf
        for s in range(FANOUT):
            low = lows[line, j, s] if lows[line, j, s] < low else low
            high = highs[line, j, s] if highs[line, j, s] > high else high
        if first == NO_ROW:
            low = high = np.nan
        changed |= bool(low != boxes.low[parent, j, slot] or high != boxes.high[parent, j, slot])
        boxes.low[parent, j, slot] = low
        boxes.high[parent, j, slot] = high
    return changed


@compile_internal
def _find_max(lane: Floats) -> float:
    """The greatest of those that are not NaN."""
    maximum = -np.inf
    for s in range(FANOUT):
        maximum = lane[s] if lane[s] > maximum else maximum
    return maximum


@compile_internal
def _shrink_leaf(tree: KdTree, leaf: int, lane: Floats) -> bool:
    blocks, tail, row, alive, center = tree.blocks, tree.tail, tree.row, tree.alive, tree.center
    first = NO_ROW
    for p in range(leaf * FANOUT, min(leaf * FANOUT + FANOUT, len(row))):
        if alive[p] and row[p] < first:
            first = row[p]
    if leaf < len(blocks):
        compute_leaf_distances(blocks, leaf, center, len(center), lane)
        return _tighten_box(tree.boxes, tree.first_leaf + leaf, first, _find_max(lane), blocks, blocks, leaf)
    compute_leaf_distances(tail, 0, center, len(center), lane)
    return _tighten_box(tree.boxes, tree.first_leaf + leaf, first, _find_max(lane), tail, tail, 0)


@compile_internal
def _shrink_node(boxes: NodeBoxes, node: int) -> bool:
    first, radius = NO_ROW, -np.inf
    for s in range(FANOUT):
        first = min(first, boxes.first[node, s])
        radius = max(radius, boxes.radius[node, s])
    return _tighten_box(boxes, node, first, radius, boxes.low, boxes.high, node)


@compile_internal
def shrink_boxes(tree: KdTree, positions: Rows) -> None:
    """Make boxes and radii tight again after records left these positions."""
    boxes = tree.boxes
    lane = np.empty(FANOUT)
    for i in range(len(positions)):
        leaf, is_repeated = positions[i] // FANOUT, False
        for j in range(i):
            is_repeated |= positions[j] // FANOUT == leaf
        if not is_repeated:
            changed = _shrink_leaf(tree, leaf, lane)
            node = (tree.first_leaf + leaf - 1) // FANOUT
            while node > 0 and changed:
                changed = _shrink_node(boxes, node)
                node = (node - 1) // FANOUT


@compile_internal
def recenter_radii(tree: KdTree, place: Floats) -> None:
    """Move the centre that radii are measured from."""
    blocks, radius, center, lane = tree.blocks, tree.boxes.radius, tree.center, np.empty(FANOUT)
    for j in range(len(center)):
        center[j] = place[j]
    for leaf in range((len(tree.row) + FANOUT - 1) // FANOUT):
        if leaf < len(blocks):
            compute_leaf_distances(blocks, leaf, center, len(center), lane)
        else:
            compute_leaf_distances(tree.tail, 0, center, len(center), lane)
        radius[(tree.first_leaf + leaf - 1) // FANOUT, (tree.first_leaf + leaf - 1) % FANOUT] = _find_max(lane)
    for node in range(len(radius) - 1, 0, -1):
        radius[(node - 1) // FANOUT, (node - 1) % FANOUT] = _find_max(radius[node])


@compile_internal
def copy_record(blocks: Floats, tail: Floats, position: int, places: Floats, line: int) -> None:
    """Copy the coordinates of a record to a line of `places`."""
    leaf, slot = position // FANOUT, position % FANOUT
    for j in range(places.shape[1]):
        places[line, j] = blocks[leaf, j, slot] if leaf < len(blocks) else tail[0, j, slot]


@compile_internal
def remove_record(blocks: Floats, tail: Floats, alive: NDArray[np.bool_], position: int) -> None:
    """Take a record out; boxes stay as they are."""
    leaf, slot = position // FANOUT, position % FANOUT
    alive[position] = False
    for j in range(tail.shape[1]):
        if leaf < len(blocks):
            blocks[leaf, j, slot] = np.nan
        else:
            tail[0, j, slot] = np.nan


SPREAD_SAMPLE = 64
"""The coordinate to part records by is that in which this many of them are spread most."""

MIN_LARGE_PART, PIVOT_SAMPLE = 256, 15
"""Of at least MIN_LARGE_PART records, the pivot is chosen among PIVOT_SAMPLE; of fewer, among three."""


@compile_internal
def sort_into_leaves(points: Floats, row: Rows, max_squares: Floats, numeric_count: int) -> None:
    """Part the records in two again and again, always between nodes of the same size."""
    starts, stops, units = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    starts[0], stops[0], units[0], height = 0, len(points), FANOUT**7, 1
    offsets, pivot_values = np.empty((2, FANOUT), np.int64), np.empty(PIVOT_SAMPLE)
    while height > 0:
        height -= 1
        start, stop, unit = starts[height], stops[height], units[height]
        while stop - start > FANOUT:
            while unit >= stop - start:
                unit //= FANOUT
            middle = start + unit * ((stop - start + unit - 1) // unit // 2)
            axis = _find_widest_axis(points, start, stop, max_squares, numeric_count)
            _partition_records(points, row, start, stop, middle, axis, offsets, pivot_values)
            starts[height], stops[height], units[height] = middle, stop, unit
            height, stop = height + 1, middle


@compile_internal
def _find_widest_axis(points: Floats, start: int, stop: int, max_squares: Floats, numeric_count: int) -> int:
    """The coordinate in which a sample of the records is farthest apart."""
    axis, widest, step = 0, -1.0, max(1, (stop - start) // SPREAD_SAMPLE)
    for j in range(points.shape[1]):
        low, high = np.inf, -np.inf
        for p in range(start, stop, step):
            low, high = min(low, points[p, j]), max(high, points[p, j])
        spread = (high - low) ** 2
        if j >= numeric_count:
            spread = max_squares[j - numeric_count] if spread > 0 else 0.0
        if spread > widest:
            axis, widest = j, spread
    return axis


@compile_internal
def _partition_records(
    points: Floats, row: Rows, start: int, stop: int, middle: int, axis: int, offsets: Integers, pivot_values: Floats
) -> None:
    """Put the records from start to stop so that none before `middle` is beyond those after it (Hoare's selection)."""
    left, right = start, stop - 1
    while left < right:
        pivot = _choose_pivot(points, left, right, middle, axis, pivot_values)
        i, j = _partition_blocks(points, row, left, right, pivot, axis, offsets)
        while i <= j:
            while points[i, axis] < pivot:
                i += 1
            while points[j, axis] > pivot:
                j -= 1
            if i <= j:
                _swap_records(points, row, i, j)
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@compile_internal
def _choose_pivot(points: Floats, left: int, right: int, middle: int, axis: int, pivot_values: Floats) -> float:
    """A number that about as many are below as come before `middle`."""
    count = right - left + 1
    if count < MIN_LARGE_PART:
        a, b, c = points[left, axis], points[(left + right) // 2, axis], points[right, axis]
        return float(max(min(a, b), min(max(a, b), c)))
    for i in range(PIVOT_SAMPLE):
        value, slot = points[left + (2 * i + 1) * count // (2 * PIVOT_SAMPLE), axis], i
        while slot > 0 and pivot_values[slot - 1] > value:
            pivot_values[slot] = pivot_values[slot - 1]
            slot -= 1
        pivot_values[slot] = value
    return float(pivot_values[(middle - left) * PIVOT_SAMPLE // count])


@compile_internal
def _partition_blocks(
    points: Floats, row: Rows, left: int, right: int, pivot: float, axis: int, offsets: Integers
) -> tuple[int, int]:
    """Hoare's partition from both ends as far as whole blocks go, without a branch that no processor can foresee."""
    ahead = behind = 0  # how many of a block are on the wrong side
    a = b = 0
    while right - left + 1 >= 2 * FANOUT:
        if ahead == 0:
            a = 0
            for s in range(FANOUT):
                offsets[0, ahead] = left + s
                ahead += points[left + s, axis] >= pivot
        if behind == 0:
            b = 0
            for s in range(FANOUT):
                offsets[1, behind] = right - s
                behind += points[right - s, axis] <= pivot
        both = min(ahead, behind)
        for s in range(both):
            _swap_records(points, row, offsets[0, a + s], offsets[1, b + s])
        a, b, ahead, behind = a + both, b + both, ahead - both, behind - both
        left, right = left + (FANOUT if ahead == 0 else 0), right - (FANOUT if behind == 0 else 0)
    return left, right


@compile_inline
def _swap_records(points: Floats, row: Rows, first: int, second: int) -> None:
    for j in range(points.shape[1]):
        points[first, j], points[second, j] = points[second, j], points[first, j]
    row[first], row[second] = row[second], row[first]
