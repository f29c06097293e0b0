"""Compiled searches in the k-d tree: the nearest and the farthest record; and exact sums over the records left.

A squared distance is summed over coordinates in their order. Bounds from boxes are summed in the same order of terms
that are each no more (or no less) than the distance's, and rounding is monotone, so that they hold for the rounded
distance too; bounds from radii have a margin beyond all rounding. Searches therefore find what a full scan would find,
bit by bit. Ties go to the lowest row; every node knows its lowest. NaN is neither near nor far.

A sum is a row of whole numbers, its digits to the base 2^32; digits may stand above the base or below 0 until the sum
is read. There are enough for every float, so that nothing is ever rounded but the value that is read, however many
records come and go. After the digits stand the first and the last that was ever touched.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.sdc.methods.kd_tree import FANOUT, NO_ROW, KdTree, Rows, compile_internal, compute_leaf_distances
from discreet.sdc.table import Floats, Integers

MAX_EXACT_CODES = 8
"""A node with more codes than this is bounded by the distances of all codes."""

ROUNDING_MARGIN = 1e-12
"""A share of squared radii, for each coordinate: more than rounding adds up to."""

TINY_SQUARE = 1e-300
"""Squares below this lose digits."""

STACK_SIZE = 8 * FANOUT
"""More nodes than ever wait to be visited."""


@compile_internal
def _compute_box_distances(
    low: Floats, high: Floats, node: int, place: Floats, numeric_count: int, distances: Floats
) -> None:
    """The squared distances of a place from sixteen boxes, by numbers alone."""
    for s in range(len(distances)):
        distances[s] = 0.0
    for j in range(numeric_count):
        coordinate = place[j]
        for s in range(len(distances)):
            step, other = low[node, j, s] - coordinate, coordinate - high[node, j, s]
            step = other if other > step else step
            step = 0.0 if step < 0.0 else step
            distances[s] += step * step


@compile_internal
def _compute_corner_distances(
    low: Floats, high: Floats, node: int, place: Floats, numeric_count: int, distances: Floats
) -> None:
    """The squared distances of a place from the farthest corners of sixteen boxes, by numbers alone."""
    for s in range(len(distances)):
        distances[s] = 0.0
    for j in range(numeric_count):
        coordinate = place[j]
        for s in range(len(distances)):
            step, other = coordinate - low[node, j, s], high[node, j, s] - coordinate
            step = other if other > step else step
            distances[s] += step * step


@compile_internal
def _compute_opposite_distances(
    low: Floats, high: Floats, node: int, center: Floats, opposite: Floats, numeric_count: int, distances: Floats
) -> None:
    """The squared distances of a place from sixteen boxes, all seen from the centre."""
    for s in range(len(distances)):
        distances[s] = 0.0
    for j in range(numeric_count):
        origin, coordinate = center[j], opposite[j]
        for s in range(len(distances)):
            step, other = (low[node, j, s] - origin) - coordinate, coordinate - (high[node, j, s] - origin)
            step = other if other > step else step
            step = 0.0 if step < 0.0 else step
            distances[s] += step * step


@compile_internal
def _lower_radius_bounds(
    radius: Floats, node: int, near: Floats, offset: float, ratio: float, max_radius: float, bounds: Floats
) -> None:
    """Lower sixteen bounds by the boxes' distances to the opposite place (see `find_farthest_in_tree`)."""
    for s in range(len(bounds)):
        bound = offset + radius[node, s] + ratio * (max_radius + radius[node, s] - near[s])
        bounds[s] = bound if bound < bounds[s] else bounds[s]


@compile_internal
def _add_code_distances(tree: KdTree, leaf: int, place: Floats, distances: Floats) -> None:
    """Add the squared distances by codes; NaN where a record left."""
    blocks, block_index = (tree.blocks, leaf) if leaf < len(tree.blocks) else (tree.tail, 0)
    for s in range(FANOUT):
        if leaf * FANOUT + s >= len(tree.alive) or not tree.alive[leaf * FANOUT + s]:
            distances[s] = np.nan
            continue
        for j in range(tree.numeric_count, blocks.shape[1]):
            distances[s] += tree.squares[j - tree.numeric_count, int(place[j]), int(blocks[block_index, j, s])]


@compile_internal
def _add_min_code_distances(tree: KdTree, node: int, place: Floats, distances: Floats) -> None:
    """Add the least squared distances by codes; NaN where a node has no record."""
    for s in range(FANOUT):
        if tree.boxes.first[node, s] == NO_ROW:
            distances[s] = np.nan
            continue
        for j in range(tree.numeric_count, tree.boxes.low.shape[1]):
            low, high = int(tree.boxes.low[node, j, s]), int(tree.boxes.high[node, j, s])
            if high - low < MAX_EXACT_CODES:
                minimum = tree.squares[j - tree.numeric_count, int(place[j]), low]
                for code in range(low + 1, high + 1):
                    minimum = min(minimum, tree.squares[j - tree.numeric_count, int(place[j]), code])
                distances[s] += minimum


@compile_internal
def _add_max_code_distances(tree: KdTree, node: int, place: Floats, distances: Floats) -> None:
    """Add the greatest squared distances by codes; NaN where a node has no record."""
    for s in range(FANOUT):
        if tree.boxes.first[node, s] == NO_ROW:
            distances[s] = np.nan
            continue
        for j in range(tree.numeric_count, tree.boxes.low.shape[1]):
            low, high = int(tree.boxes.low[node, j, s]), int(tree.boxes.high[node, j, s])
            maximum = tree.max_squares[j - tree.numeric_count]
            if high - low < MAX_EXACT_CODES:
                maximum = 0.0
                for code in range(low, high + 1):
                    maximum = max(maximum, tree.squares[j - tree.numeric_count, int(place[j]), code])
            distances[s] += maximum


@compile_internal
def _replace_worst(distances: Floats, rows: Rows, positions: Rows, distance: float, row: int, position: int) -> None:
    """Put a record in the place of the worst of a heap; the worst is on top."""
    hole, child = 0, 1
    while child < len(distances):
        if child + 1 < len(distances) and (
            distances[child + 1] > distances[child]
            or (distances[child + 1] == distances[child] and rows[child + 1] > rows[child])
        ):
            child += 1
        if distances[child] < distance or (distances[child] == distance and rows[child] < row):
            break
        distances[hole], rows[hole], positions[hole] = distances[child], rows[child], positions[child]
        hole, child = child, 2 * child + 1
    distances[hole], rows[hole], positions[hole] = distance, row, position


@compile_internal
def _push_node(nodes: Integers, bounds: Floats, height: int, node: int, bound: float, base: int) -> None:
    """Put a node on top of those that wait, from `base` on, or below the one on top if that has a greater bound."""
    nodes[height], bounds[height] = node, bound
    if height > base and bounds[height - 1] > bound:
        nodes[height], bounds[height] = nodes[height - 1], bounds[height - 1]
        nodes[height - 1], bounds[height - 1] = node, bound


@compile_internal
def _compute_distances_in_leaf(tree: KdTree, index: int, place: Floats, lane: Floats) -> None:
    """The squared distances of the records of a leaf from a place; the last leaf may be short."""
    if index < len(tree.blocks):
        compute_leaf_distances(tree.blocks, index, place, tree.numeric_count, lane)
    else:
        compute_leaf_distances(tree.tail, 0, place, tree.numeric_count, lane)
    if tree.numeric_count < len(place):
        _add_code_distances(tree, index, place, lane)


@compile_internal
def find_nearest_in_tree(tree: KdTree, position: int, place: Floats, count: int) -> tuple[Rows, Floats]:
    """The positions of the records nearest to a place, in no order, and their squared distances.

    NO_ROW stands for records that are missing. The place is that of the record at `position`, where the search starts.
    """
    row, leaf, numeric_count = tree.row, tree.first_leaf, tree.numeric_count
    low, high, first, _ = tree.boxes
    distances = np.full(count, np.inf)
    rows, positions = np.full(count, NO_ROW, np.int32), np.full(count, NO_ROW, np.int32)
    nodes, bounds, lane = np.empty(STACK_SIZE, np.int64), np.empty(STACK_SIZE), np.empty(FANOUT)
    previous, node = -1, leaf + position // FANOUT
    while node >= 0:
        nodes[0], bounds[0], height = node, np.inf, 1
        while height > 0:
            height -= 1
            current = nodes[height]
            if -bounds[height] > distances[0] or (
                -bounds[height] == distances[0] and first[(current - 1) // FANOUT, (current - 1) % FANOUT] > rows[0]
            ):
                continue
            if current >= leaf:
                _compute_distances_in_leaf(tree, current - leaf, place, lane)
                for s in range(FANOUT):
                    p = (current - leaf) * FANOUT + s
                    if lane[s] <= distances[0] and (lane[s] < distances[0] or row[p] < rows[0]):
                        _replace_worst(distances, rows, positions, lane[s], row[p], p)
                continue
            _compute_box_distances(low, high, current, place, numeric_count, lane)
            if numeric_count < len(place):
                _add_min_code_distances(tree, current, place, lane)
            base = height
            for s in range(FANOUT):
                if lane[s] <= distances[0] and current * FANOUT + 1 + s != previous:
                    _push_node(nodes, bounds, height, current * FANOUT + 1 + s, -lane[s], base)
                    height += 1
        previous, node = node, (node - 1) // FANOUT if node > 0 else -1
    return positions, distances


@compile_internal
def _compute_opposite_place(
    center: Floats, radius: Floats, place: Floats, opposite: Floats
) -> tuple[float, float, float]:
    """a², with a margin, R² and a / R of `find_farthest_in_tree`, and z as seen from the centre.

    Where a / R is out of all proportion the margin is more than the part left out.
    """
    offset, max_radius, ratio = 0.0, 0.0, 0.0
    for j in range(len(opposite)):
        opposite[j] = center[j] - place[j]
        offset += opposite[j] * opposite[j]
    for s in range(FANOUT):
        max_radius = max(max_radius, radius[0, s])
    if offset > 0 and max_radius > 0 and 1e-100 < math.sqrt(offset) / math.sqrt(max_radius) < 1e100:
        ratio = math.sqrt(offset) / math.sqrt(max_radius)
    for j in range(len(opposite)):
        opposite[j] = opposite[j] / ratio if ratio > 0 else 0.0
    return offset + ROUNDING_MARGIN * len(opposite) * (offset + max_radius) + TINY_SQUARE, max_radius, ratio


@compile_internal
def find_farthest_in_tree(tree: KdTree, place: Floats) -> tuple[int, int]:
    """The position of the record farthest from a place, and how many nodes were visited.

    With c the centre, a and r the distances of q and p from it and R the greatest r, let z be the place opposite to q
    with |z - c| = R. Then |q - p|² = a² + r² + (a / R) (R² + r² - |z - p|²), and a box tells how near p is to z.
    """
    rows, leaf, numeric_count, center = tree.row, tree.first_leaf, tree.numeric_count, tree.center
    low, high, first, radius = tree.boxes
    nodes, bounds, lane, near = np.empty(STACK_SIZE, np.int64), np.empty(STACK_SIZE), np.empty(FANOUT), np.empty(FANOUT)
    distance, row, position = -1.0, NO_ROW, -1
    opposite = np.empty(numeric_count)
    offset, max_radius, ratio = _compute_opposite_place(center, radius, place, opposite)
    nodes[0], bounds[0], height, visited_nodes = 0, np.inf, 1, 0
    while height > 0:
        height -= 1
        current = nodes[height]
        if bounds[height] < distance or (
            bounds[height] == distance and first[(current - 1) // FANOUT, (current - 1) % FANOUT] > row
        ):
            continue
        visited_nodes += 1
        if current >= leaf:
            _compute_distances_in_leaf(tree, current - leaf, place, lane)
            for s in range(FANOUT):
                p = (current - leaf) * FANOUT + s
                if lane[s] >= distance and (lane[s] > distance or rows[p] < row):
                    distance, row, position = lane[s], rows[p], p
            continue
        _compute_corner_distances(low, high, current, place, numeric_count, lane)
        _compute_opposite_distances(low, high, current, center, opposite, numeric_count, near)
        _lower_radius_bounds(radius, current, near, offset, ratio, max_radius, lane)
        if numeric_count < len(place):
            _add_max_code_distances(tree, current, place, lane)
        base = height
        for s in range(FANOUT):
            if lane[s] >= distance:
                _push_node(nodes, bounds, height, current * FANOUT + 1 + s, lane[s], base)
                height += 1
    return position, visited_nodes


LOWEST_EXPONENT = -1138
"""The last digit counts 2^LOWEST_EXPONENT: two digits below the least float."""

DIGIT_COUNT = 72
BOTTOM_SLOT, TOP_SLOT = DIGIT_COUNT, DIGIT_COUNT + 1
DIGIT_MASK = 2**32 - 1


@compile_internal
def create_sums(count: int) -> Integers:
    """This many sums of no numbers."""
    sums = np.zeros((count, DIGIT_COUNT + 2), np.int64)
    sums[:, BOTTOM_SLOT], sums[:, TOP_SLOT] = DIGIT_COUNT, 2
    return sums


@compile_internal
def add_to_sum(sums: Integers, which: int, value: float) -> None:
    """Add a number to a sum."""
    bits = int(np.float64(value).view(np.int64))
    biased_exponent = (bits >> 52) & 2047
    exponent, mantissa = max(biased_exponent, 1), (bits & (2**52 - 1)) | (2**52 if biased_exponent else 0)
    if bits < 0:
        mantissa = -mantissa
    place = exponent - 1075 - LOWEST_EXPONENT
    digit, shift = place >> 5, place & 31
    low, high = (mantissa & DIGIT_MASK) << shift, (mantissa >> 32) << shift
    sums[which, digit] += low & DIGIT_MASK
    sums[which, digit + 1] += (low >> 32) + (high & DIGIT_MASK)
    sums[which, digit + 2] += high >> 32
    sums[which, BOTTOM_SLOT] = min(sums[which, BOTTOM_SLOT], digit)
    sums[which, TOP_SLOT] = max(sums[which, TOP_SLOT], digit + 3)


@compile_internal
def _carry(digits: Integers) -> None:
    """Bring all digits but the first between 0 and the base."""
    for i in range(digits[BOTTOM_SLOT], digits[TOP_SLOT]):
        digits[i + 1] += digits[i] >> 32
        digits[i] &= DIGIT_MASK


@compile_internal
def _negate(digits: Integers) -> None:
    for i in range(digits[BOTTOM_SLOT], digits[TOP_SLOT] + 1):
        digits[i] = -digits[i]


@compile_internal
def round_sum(sums: Integers, which: int) -> float:
    """The nearest float to a sum, halves to even, as `math.fsum` rounds."""
    digits, sign = sums[which], 1.0
    _carry(digits)
    if digits[digits[TOP_SLOT]] < 0:
        _negate(digits)
        _carry(digits)
        sign = -1.0
    top = digits[TOP_SLOT]
    while top > 2 and digits[top] == 0:
        top -= 1
    bits = math.frexp(float(digits[top]))[1]
    trailing = (digits[top - 1] & 3) << 32 | digits[top - 2]
    leading = ((digits[top] << 30 | digits[top - 1] >> 2) << (32 - bits)) | trailing >> (2 + bits)
    sticky = trailing & ((1 << (2 + bits)) - 1)
    for i in range(digits[BOTTOM_SLOT], top - 2):
        sticky |= digits[i]
    # 62 bits, the last for all below
    value = math.ldexp(float(leading | (sticky != 0)), 32 * top + bits - 62 + LOWEST_EXPONENT)
    if sign < 0:
        _negate(digits)
    return sign * value


@compile_internal
def add_record(sums: Integers, points: Floats, which: int, numeric_count: int, codes: int, weight: float) -> None:
    """Add a record to the sums, or with a negative weight take it away."""
    for j in range(numeric_count):
        add_to_sum(sums, j, weight * points[which, j])
    for j in range(numeric_count, points.shape[1]):
        add_to_sum(sums, numeric_count + (j - numeric_count) * codes + int(points[which, j]), weight)
    add_to_sum(sums, len(sums) - 1, weight)


@compile_internal
def compute_average_from_sums(sums: Integers, numeric_count: int, roots: Floats, place: Floats) -> None:
    """The average record: means, and of codes the one with the least sum of distances to all, the first of several."""
    total, codes = round_sum(sums, len(sums) - 1), roots.shape[1]
    for j in range(numeric_count):
        place[j] = round_sum(sums, j) / total
    for c in range(len(roots)):
        distances = np.zeros(codes)
        for present_code in range(codes):
            weight = round_sum(sums, numeric_count + c * codes + present_code)
            if weight > 0:
                for code in range(codes):
                    distances[code] += weight * roots[c, present_code, code]
        place[numeric_count + c] = np.argmin(distances)
