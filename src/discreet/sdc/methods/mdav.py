"""Microaggregation by MDAV, V-MDAV and ranks.

MDAV (thesis, Algorithm 2.1): the farthest record from the average and its k - 1 nearest are a group, and so on. The
groups are those of the plain quadratic algorithm, found with a tree (kd_tree.py). Where the algorithm leaves a choice:
the average is the exact sum of the remaining records, rounded once, over their number, or weight; of nominal values it
is the concept of the taxonomy with the least sum of distances to them (6.4). Of records equally far or near the one
with the lowest index is taken. The second record of a round is the one farthest from the first of those that are left
when the first one's group is gone; it is the farthest of all, unless most records are alike.

V-MDAV (Solanas and Martínez-Ballesté, 2006): groups of k to 2k - 1 records that grow where records are dense. The
farthest remaining record from the average of all records and its k - 1 nearest are a group. While it has fewer than
2k - 1, the remaining record nearest to any of its members joins it if its distance to that member is less than GAIN
times its distance to the nearest other remaining record. The last records, fewer than k, each join the group with the
nearest average record; a group may then have more than 2k - 1. Ties go to the lowest index, or the first group.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.query.scan import RankRuns
from discreet.sdc.methods.kd_search import (
    add_record,
    compute_average_from_sums,
    create_sums,
    find_farthest_in_tree,
    find_nearest_in_tree,
)
from discreet.sdc.methods.kd_tree import (
    NO_ROW,
    KdTree,
    Rows,
    build_kd_tree,
    compile_entry_point,
    compile_internal,
    copy_record,
    extract_remaining,
    recenter_radii,
    remove_record,
    shrink_boxes,
    sort_into_leaves,
)
from discreet.sdc.methods.record_distance import RecordSpace
from discreet.sdc.table import ABSENT, Attribute, Floats, Integers

RADIX_BITS = 11


@compile_entry_point
def radix_sort_rows(keys: NDArray[np.uint64]) -> Rows:
    """The rows by rising key, equal keys by index. The keys are overwritten."""
    rows, digits = len(keys), -(-64 // RADIX_BITS)
    mask = np.uint64(2**RADIX_BITS - 1)
    counts = np.zeros((digits, 2**RADIX_BITS), np.int64)
    for key in keys:
        for digit in range(digits):
            counts[digit, (key >> np.uint64(RADIX_BITS * digit)) & mask] += 1
    order = np.arange(rows).astype(np.int32)
    other_keys, other_order = np.empty_like(keys), np.empty_like(order)
    for digit in range(digits):
        if counts[digit].max() == rows:
            continue
        places = np.cumsum(counts[digit]) - counts[digit]
        for i in range(rows):
            key = keys[i]
            bucket = (key >> np.uint64(RADIX_BITS * digit)) & mask
            place = places[bucket]
            other_keys[place], other_order[place] = key, order[i]
            places[bucket] = place + 1
        keys, other_keys, order, other_order = other_keys, keys, other_order, order
    return order


MIN_COMPILED_SORT = 500_000
"""From this many values on, the compiled sort pays."""


def group_from_both_ends(attribute: Attribute, k: int) -> Integers:
    """Algorithm 7.1: k from both ends in turn; the run between has k to 2k - 1. Groups are numbered by rank."""
    return _label_runs(attribute, RankRuns.both_ends(len(attribute.values), k))


def group_from_low_end(attribute: Attribute, k: int) -> Integers:
    """Fixed blocks of k ranks from the low end; the last has k to 2k - 1."""
    return _label_runs(attribute, RankRuns.low_end(len(attribute.values), k))


def _label_runs(attribute: Attribute, runs: RankRuns) -> Integers:
    labels = np.empty(len(attribute.values), dtype=np.int64)
    labels[rank_rows(attribute)] = runs.compute_labels(np.arange(len(attribute.values)))
    return labels


def rank_rows(attribute: Attribute) -> NDArray[np.integer]:
    """The rows from the least value to the greatest, missing ones last, ties by index; categories go by place."""
    values = attribute.values
    if attribute.kind != "numeric":
        values = np.where(values == ABSENT, np.nan, values)
    if len(values) < MIN_COMPILED_SORT:
        return np.argsort(values, kind="stable")

    # Whole numbers in the same order: the bits of a float, turned round where it is negative.
    bits = (values + 0.0).view(np.int64)  # a negative zero becomes a zero
    keys = np.where(bits < 0, ~bits, bits | np.int64(-(2**63))).view(np.uint64)
    keys[np.isnan(values)] = np.uint64(2**64 - 1)
    return radix_sort_rows(keys)


RECENTER_WORK = 0.1
"""When searches from the centre have visited this many nodes for each record, radii are measured anew."""

REBUILD_FACTOR = 8
"""When one of this many records is left, the tree is built anew."""


@compile_internal
def _take_group(tree: KdTree, position: int, members: Rows, places: Floats) -> None:
    """A record and its k - 1 nearest, taken out of the tree: their positions and coordinates."""
    blocks, tail, alive = tree.blocks, tree.tail, tree.alive
    copy_record(blocks, tail, position, places, 0)
    remove_record(blocks, tail, alive, position)
    near, _ = find_nearest_in_tree(tree, position, places[0], len(members) - 1)
    members[0] = position
    for i in range(1, len(members)):
        members[i] = near[i - 1]
        copy_record(blocks, tail, near[i - 1], places, i)
        remove_record(blocks, tail, alive, near[i - 1])
    shrink_boxes(tree, members)


@compile_entry_point
def build_sorted_tree(points: Floats, row: Rows, squares: Floats, max_squares: Floats, center: Floats) -> KdTree:
    """A tree of these records, which it puts in an order of its own."""
    sort_into_leaves(points, row, max_squares, len(center))
    return build_kd_tree(points, row, squares, max_squares, center)


@compile_entry_point
def form_mdav_groups(space: PackedSpace, row: Rows, center: Floats, k: int, weights: Floats) -> Integers:
    """Algorithm 2.1: the group of each row, numbered as they are formed. The points are put in another order."""
    points, squares, max_squares, roots, numeric_count = space
    remaining, label, work, codes = len(points), 0, 0, squares.shape[1]
    groups, sums = np.zeros(remaining, np.int64), create_sums(numeric_count + squares.shape[0] * codes + 1)
    for p in range(remaining):
        add_record(sums, points, p, numeric_count, codes, weights[p] if len(weights) else 1.0)
    tree = build_sorted_tree(points, row, squares, max_squares, center)
    members, places, middle = np.empty(k, np.int32), np.empty((k, points.shape[1])), np.empty(points.shape[1])
    while remaining >= 2 * k:
        if label % 2 == 0:
            compute_average_from_sums(sums, numeric_count, roots, middle)
            if REBUILD_FACTOR * remaining < len(tree.points):
                remaining = extract_remaining(tree)
                points, row, center = tree.points[:remaining], tree.row[:remaining], middle[:numeric_count].copy()
                tree = build_sorted_tree(points, row, squares, max_squares, center)
            start, visited_nodes = find_farthest_in_tree(tree, middle)
            work += visited_nodes
            if work > RECENTER_WORK * remaining:
                recenter_radii(tree, middle)
                work = 0
        else:
            start, visited_nodes = find_farthest_in_tree(tree, places[0])
        _take_group(tree, start, members, places)
        for i in range(k):
            r = tree.row[members[i]]
            groups[r] = label
            add_record(sums, places, i, numeric_count, codes, -weights[r] if len(weights) else -1.0)
        label, remaining = label + 1, remaining - k
    for p in range(len(tree.points)):
        if tree.alive[p]:
            groups[tree.row[p]] = label
    return groups


@compile_entry_point
def grow_group(tree: KdTree, position: int, k: int, max_size: int, gain: float) -> Rows:
    """V-MDAV's group around a record, taken out of the tree: its k - 1 nearest, and those that gain from joining."""
    members, near, far = np.empty(max_size, np.int32), np.full(max_size, NO_ROW, np.int32), np.full(max_size, np.inf)
    places = np.empty((max_size, tree.points.shape[1]))
    _take_group(tree, position, members[:k], places[:k])
    size, known_count = k, 0
    while size < max_size:
        for i in range(size):
            if i >= known_count or not tree.alive[near[i]]:
                positions, distances = find_nearest_in_tree(tree, members[i], places[i], 1)
                near[i], far[i] = positions[0], distances[0]
        known_count, best = size, 0
        for i in range(1, size):
            if far[i] < far[best] or (far[i] == far[best] and tree.row[near[i]] < tree.row[near[best]]):
                best = i
        members[size] = near[best]
        copy_record(tree.blocks, tree.tail, near[best], places, size)
        _, others = find_nearest_in_tree(tree, near[best], places[size], 2)  # itself and the nearest other
        if not far[best] < gain * gain * max(others[0], others[1]):
            break
        remove_record(tree.blocks, tree.tail, tree.alive, near[best])
        shrink_boxes(tree, members[size : size + 1])
        size += 1
    return members[:size]


class PackedSpace(NamedTuple):
    """A space as compiled code reads it."""

    points: Floats
    """Numbers, and after them codes."""
    squares: Floats
    """The squared distances of any two codes."""
    max_squares: Floats
    """The greatest of each."""
    roots: Floats
    """The distances."""
    numeric_count: int
    """How many coordinates are numbers."""


def mdav(space: RecordSpace, k: int, weights: Floats | None = None) -> Integers:
    """The group of each record, numbered as they are formed; all have k records, the last k to 2k - 1.

    The space is used up: its points come to be in another order.
    """
    packed_space = pack_space(space)
    rows = np.arange(space.rows, dtype=np.int32)
    center = packed_space.points[:, : packed_space.numeric_count].mean(axis=0)
    weight = np.empty(0) if weights is None else np.ascontiguousarray(weights)
    return form_mdav_groups(packed_space, rows, center, k, weight)


def pack_space(space: RecordSpace) -> PackedSpace:
    """The space in arrays for compiled code; its points are shared with it where there are no codes."""
    longest = max((len(table) for table in space.squares), default=0)
    squares = np.zeros((len(space.squares), longest, longest))
    roots = np.full(squares.shape, np.inf)  # a code beyond a shorter list is never the nearest to all
    for index, table in enumerate(space.squares):
        squares[index, : len(table), : len(table)] = table
        roots[index, : len(table), : len(table)] = np.sqrt(table)
    points = np.hstack([space.points, space.codes]) if space.squares else np.ascontiguousarray(space.points)
    return PackedSpace(points, squares, squares.max(axis=(1, 2), initial=0), roots, space.points.shape[1])


def compute_distances_from(place: Floats, packed_space: PackedSpace) -> Floats:
    """The squared distance of every record from a place, summed over coordinates in their order."""
    total = np.zeros(len(packed_space.points))
    for j in range(packed_space.numeric_count):
        total += (place[j] - packed_space.points[:, j]) ** 2
    for j, table in enumerate(packed_space.squares, packed_space.numeric_count):
        total += table[int(place[j]), packed_space.points[:, j].astype(np.int64)]
    return total


GAIN = 0.2


def v_mdav(space: RecordSpace, k: int, weights: Floats | None = None, gain: float = GAIN) -> Integers:
    """The group of each record, numbered as they are formed; none has fewer than k."""
    packed_space = pack_space(space)
    weight = np.ones(space.rows) if weights is None else weights
    middle = compute_average_record(packed_space, weight)
    farthest_first = np.lexsort((np.arange(space.rows), -compute_distances_from(middle, packed_space)))
    rows, points = np.arange(space.rows, dtype=np.int32), packed_space.points.copy()
    center = middle[: packed_space.numeric_count].copy()
    tree = build_sorted_tree(points, rows, packed_space.squares, packed_space.max_squares, center)
    position = np.empty(space.rows, dtype=np.int64)
    position[tree.row] = np.arange(space.rows)
    groups = np.full(space.rows, -1, dtype=np.int64)
    remaining, group_count = space.rows, 0
    for row in farthest_first:
        if remaining < k:
            break
        if groups[row] < 0:
            members = grow_group(tree, position[row], k, min(2 * k - 1, remaining), gain)
            groups[tree.row[members]] = group_count
            remaining, group_count = remaining - len(members), group_count + 1
    return _join_leftovers(packed_space, weight, groups)


def compute_average_record(packed_space: PackedSpace, weight: Floats) -> Floats:
    """Means by exact sums, and of each code the one with the least sum of distances to all."""
    total, numeric_count = math.fsum(weight.tolist()), packed_space.numeric_count
    means = [math.fsum((weight * packed_space.points[:, j]).tolist()) / total for j in range(numeric_count)]
    codes = []
    for c, root in enumerate(packed_space.roots):
        distinct_codes, inverse = np.unique(
            packed_space.points[:, numeric_count + c].astype(np.int64), return_inverse=True
        )
        codes.append(int(np.argmin(np.bincount(inverse, weight) @ root[distinct_codes])))
    return np.array([*means, *codes], dtype=np.float64)


def _join_leftovers(packed_space: PackedSpace, weight: Floats, groups: Integers) -> Integers:
    """The groups with the last records in the one whose average record is nearest."""
    last = np.flatnonzero(groups < 0)
    if len(last) == 0:
        return groups
    by_group = np.argsort(groups, kind="stable")[len(last) :]
    parts = np.split(by_group, np.flatnonzero(np.diff(groups[by_group])) + 1)
    middles = [
        compute_average_record(packed_space._replace(points=packed_space.points[rows]), weight[rows]) for rows in parts
    ]
    centers = packed_space._replace(points=np.array(middles))
    joined_groups = groups.copy()
    for row in last:
        joined_groups[row] = np.argmin(compute_distances_from(packed_space.points[row], centers))
    return joined_groups
