"""Compiled: groups taken out of a tree one after the other."""

from __future__ import annotations

import numpy as np

from discreet.microdata.ordering import sort_into_leaves
from discreet.microdata.searching import find_farthest_in_tree, find_nearest_in_tree
from discreet.microdata.sums import add_record, compute_average_from_sums, create_sums
from discreet.microdata.table import Floats, Integers
from discreet.microdata.tree import (
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
)

RECENTER_WORK = 0.1
"""When searches from the centre have looked at this many nodes for each record, radii are measured anew."""

REBUILD_FACTOR = 8
"""When of so many records one is left, the tree is planted anew."""


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
def form_mdav_groups(
    points: Floats,
    row: Rows,
    squares: Floats,
    max_squares: Floats,
    roots: Floats,
    center: Floats,
    k: int,
    weights: Floats,
) -> Integers:
    """Algorithm 2.1: the group of each row, numbered as they are formed. The points are put in another order."""
    remaining, label, work, numeric_count, codes = len(points), 0, 0, len(center), squares.shape[1]
    groups, sums = np.zeros(remaining, np.int64), create_sums(numeric_count + squares.shape[0] * codes + 1)
    for p in range(remaining):
        add_record(sums, points, p, numeric_count, codes, weights[p] if len(weights) else 1.0)
    sort_into_leaves(points, row, max_squares, numeric_count)
    tree = build_kd_tree(points, row, squares, max_squares, center)
    members, places, middle = np.empty(k, np.int32), np.empty((k, points.shape[1])), np.empty(points.shape[1])
    while remaining >= 2 * k:
        if label % 2 == 0:
            compute_average_from_sums(sums, numeric_count, roots, middle)
            if REBUILD_FACTOR * remaining < len(tree.points):
                remaining = extract_remaining(tree)
                sort_into_leaves(tree.points[:remaining], tree.row[:remaining], max_squares, numeric_count)
                tree = build_kd_tree(
                    tree.points[:remaining], tree.row[:remaining], squares, max_squares, middle[:numeric_count].copy()
                )
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


@compile_entry_point
def build_sorted_tree(points: Floats, row: Rows, squares: Floats, max_squares: Floats, center: Floats) -> KdTree:
    """A tree of these records, which it puts in an order of its own."""
    sort_into_leaves(points, row, max_squares, len(center))
    return build_kd_tree(points, row, squares, max_squares, center)
