"""Compiled: groups taken out of a tree one after the other."""

from __future__ import annotations

import numpy as np

from discreet.microdata.ordering import in_order
from discreet.microdata.searching import farthest, nearest
from discreet.microdata.sums import average, nothing, weigh
from discreet.microdata.table import Floats, Places
from discreet.microdata.tree import (
    NOBODY,
    Rows,
    Tree,
    inner,
    leave,
    outer,
    plant,
    recentre,
    shrink,
    uproot,
    write_down,
)

PATIENCE = 0.1
"""When searches from the centre have looked at this many nodes for each record, radii are measured anew."""

THINNED = 8
"""When of so many records one is left, the tree is planted anew."""


@inner
def _take(tree: Tree, position: int, members: Rows, places: Floats) -> None:
    """A record and its k - 1 nearest, taken out of the tree: their positions and coordinates."""
    blocks, tail, alive = tree.blocks, tree.tail, tree.alive
    write_down(blocks, tail, position, places, 0)
    leave(blocks, tail, alive, position)
    near, _ = nearest(tree, position, places[0], len(members) - 1)
    members[0] = position
    for i in range(1, len(members)):
        members[i] = near[i - 1]
        write_down(blocks, tail, near[i - 1], places, i)
        leave(blocks, tail, alive, near[i - 1])
    shrink(tree, members)


@outer
def mdav_groups(
    points: Floats, row: Rows, squares: Floats, most: Floats, roots: Floats, centre: Floats, k: int, weights: Floats
) -> Places:
    """Algorithm 2.1: the group of each row, numbered as they are formed. The points are put in another order."""
    left, label, work, plain, codes = len(points), 0, 0, len(centre), squares.shape[1]
    groups, sums = np.zeros(left, np.int64), nothing(plain + squares.shape[0] * codes + 1)
    for p in range(left):
        weigh(sums, points, p, plain, codes, weights[p] if len(weights) else 1.0)
    in_order(points, row, most, plain)
    tree = plant(points, row, squares, most, centre)
    members, places, middle = np.empty(k, np.int32), np.empty((k, points.shape[1])), np.empty(points.shape[1])
    while left >= 2 * k:
        if label % 2 == 0:
            average(sums, plain, roots, middle)
            if THINNED * left < len(tree.points):
                left = uproot(tree)
                in_order(tree.points[:left], tree.row[:left], most, plain)
                tree = plant(tree.points[:left], tree.row[:left], squares, most, middle[:plain].copy())
            start, looked = farthest(tree, middle)
            work += looked
            if work > PATIENCE * left:
                recentre(tree, middle)
                work = 0
        else:
            start, looked = farthest(tree, places[0])
        _take(tree, start, members, places)
        for i in range(k):
            r = tree.row[members[i]]
            groups[r] = label
            weigh(sums, places, i, plain, codes, -weights[r] if len(weights) else -1.0)
        label, left = label + 1, left - k
    for p in range(len(tree.points)):
        if tree.alive[p]:
            groups[tree.row[p]] = label
    return groups


@outer
def grown_group(tree: Tree, position: int, k: int, most: int, gain: float) -> Rows:
    """V-MDAV's group around a record, taken out of the tree: its k - 1 nearest, and those that gain from joining."""
    members, near, far = np.empty(most, np.int32), np.full(most, NOBODY, np.int32), np.full(most, np.inf)
    places = np.empty((most, tree.points.shape[1]))
    _take(tree, position, members[:k], places[:k])
    size, known = k, 0
    while size < most:
        for i in range(size):
            if i >= known or not tree.alive[near[i]]:
                where, distances = nearest(tree, members[i], places[i], 1)
                near[i], far[i] = where[0], distances[0]
        known, best = size, 0
        for i in range(1, size):
            if far[i] < far[best] or (far[i] == far[best] and tree.row[near[i]] < tree.row[near[best]]):
                best = i
        members[size] = near[best]
        write_down(tree.blocks, tree.tail, near[best], places, size)
        _, others = nearest(tree, near[best], places[size], 2)  # itself and the nearest other
        if not far[best] < gain * gain * max(others[0], others[1]):
            break
        leave(tree.blocks, tree.tail, tree.alive, near[best])
        shrink(tree, members[size : size + 1])
        size += 1
    return members[:size]


@outer
def planted(points: Floats, row: Rows, squares: Floats, most: Floats, centre: Floats) -> Tree:
    """A tree of these records, which it puts in an order of its own."""
    in_order(points, row, most, len(centre))
    return plant(points, row, squares, most, centre)
