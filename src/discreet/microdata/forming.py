"""Compiled: groups taken out of a tree one after the other."""

from __future__ import annotations

import numpy as np

from discreet.microdata.searching import farthest, nearest
from discreet.microdata.sums import average, nothing, weigh
from discreet.microdata.table import Floats, Places
from discreet.microdata.tree import LEAF, NOBODY, Rows, Tree, inner, leaf_of, outer, plant, recentre, replant, shrink

PATIENCE = 0.2
"""When searches from the centre have looked at this many nodes for each record, radii are measured anew."""


@inner
def _take(tree: Tree, position: int, k: int) -> Rows:
    """A record and its k - 1 nearest, taken out of the tree."""
    tree.alive[position] = False
    near, _ = nearest(tree, tree.points[position], k - 1)
    taken, leaves = np.empty(k, np.int32), np.empty(k, np.int64)
    for i in range(k):
        taken[i] = near[i - 1] if i else position
        tree.alive[taken[i]] = False
        leaves[i] = leaf_of(tree, taken[i])
    for i in range(k):
        again = False
        for j in range(i):
            again |= leaves[j] == leaves[i]
        if not again:
            shrink(tree, leaves[i])
    return taken


@inner
def _label(tree: Tree, taken: Rows, label: int, groups: Places, sums: Places, weights: Floats) -> None:
    """Note the group of records that were taken out, and take them from the sums."""
    for p in taken:
        groups[tree.row[p]] = label
        weigh(sums, tree, p, -weights[tree.row[p]] if len(weights) else -1.0)


@outer
def mdav_groups(
    points: Floats, row: Rows, squares: Floats, most: Floats, roots: Floats, centre: Floats, k: int, weights: Floats
) -> Places:
    """Algorithm 2.1: the group of each row, numbered as they are formed. The points are put in another order."""
    left, label, work = len(points), 0, 0.0
    groups = np.zeros(left, np.int64)
    tree = plant(points, row, squares, most, centre)
    sums = nothing(tree.plain + squares.shape[0] * squares.shape[1] + 1)
    for p in range(left):
        weigh(sums, tree, p, weights[tree.row[p]] if len(weights) else 1.0)
    while left >= 2 * k:
        centre = average(sums, tree, roots)
        if 2 * left < len(tree.points) and left > LEAF:
            tree = replant(tree, centre[: tree.plain].copy())
        one, looked = farthest(tree, centre)
        work += looked
        if work > PATIENCE * left:
            recentre(tree, centre)
            work = 0
        _label(tree, _take(tree, one, k), label, groups, sums, weights)
        label, left = label + 1, left - k
        if left >= 2 * k:
            two, _ = farthest(tree, tree.points[one])
            _label(tree, _take(tree, two, k), label, groups, sums, weights)
            label, left = label + 1, left - k
    for p in range(len(tree.points)):
        if tree.alive[p]:
            groups[tree.row[p]] = label
    return groups


@outer
def grown_group(tree: Tree, position: int, k: int, most: int, gain: float) -> Rows:
    """V-MDAV's group around a record, taken out of the tree: its k - 1 nearest, and those that gain from joining."""
    members, near, far = np.empty(most, np.int32), np.full(most, NOBODY, np.int32), np.full(most, np.inf)
    size, known = 0, 0
    for p in _take(tree, position, k):
        members[size], size = p, size + 1
    while size < most:
        for i in range(size):
            if i >= known or not tree.alive[near[i]]:
                where, distances = nearest(tree, tree.points[members[i]], 1)
                near[i], far[i] = where[0], distances[0]
        known, best = size, 0
        for i in range(1, size):
            if far[i] < far[best] or (far[i] == far[best] and tree.row[near[i]] < tree.row[near[best]]):
                best = i
        joins = near[best]
        tree.alive[joins] = False
        if not far[best] < gain * gain * nearest(tree, tree.points[joins], 1)[1][0]:
            tree.alive[joins] = True
            break
        shrink(tree, leaf_of(tree, joins))
        members[size], size = joins, size + 1
    return members[:size]


@outer
def planted(points: Floats, row: Rows, squares: Floats, most: Floats, centre: Floats) -> Tree:
    """`plant`, for Python to call."""
    return plant(points, row, squares, most, centre)
