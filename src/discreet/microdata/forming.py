"""Compiled: groups taken out of a tree one after the other."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from discreet.microdata.sums import Sums, average, nothing, weigh
from discreet.microdata.table import Floats, Places
from discreet.microdata.tree import LEAF, NOBODY, Rows, Tree, apart, farthest, nearest, plant, replant, shrink

SAMPLE = 4096
SHARE = 32


class Rim(NamedTuple):
    """The records farther than `beyond` (squared) from where the centre was, by falling distance from there."""

    positions: Rows
    distances: Floats
    beyond: float
    centre: Floats


@njit(cache=True)
def _rim(tree: Tree, centre: Floats) -> Rim:
    """About one record in SHARE, or all where they are few."""
    rows, beyond = len(tree.points), -1.0
    if rows > SAMPLE:
        sample = np.array([apart(tree, centre, p) for p in range(0, rows, rows // SAMPLE) if tree.alive[p]])
        if len(sample):
            beyond = np.sort(sample)[len(sample) - 1 - len(sample) // SHARE]
    count = 0
    for p in range(rows):
        count += tree.alive[p] and apart(tree, centre, p) > beyond
    positions, distances = np.empty(count, np.int32), np.empty(count)
    for p in range(rows - 1, -1, -1):
        if tree.alive[p]:
            distance = apart(tree, centre, p)
            if distance > beyond:
                count -= 1
                positions[count], distances[count] = p, math.sqrt(distance)
    order = np.argsort(-distances)
    return Rim(positions[order], distances[order], beyond, centre)


@njit(cache=True)
def _reach(distance: float, shift: float) -> float:
    """More than the squared distance, as computed, of a record to a centre that moved by `shift`."""
    most = (distance + shift) * (1 + 1e-12) + 1e-150
    return most * most


@njit(cache=True)
def _moved(tree: Tree, one: Floats, two: Floats) -> float:
    """The distance of two places."""
    total = 0.0
    for j in range(tree.plain):
        total += (one[j] - two[j]) ** 2
    for j in range(tree.plain, tree.points.shape[1]):
        total += tree.squares[j - tree.plain, int(one[j]), int(two[j])]
    return math.sqrt(total)


@njit(cache=True)
def _scan(tree: Tree, rim: Rim, head: int, shift: float, centre: Floats) -> tuple[int, float, int, int]:
    """The farthest record of the rim, its squared distance, where the scan ended, and where the rim now starts.

    No record after the end is farther. Those before it that have left the tree are dropped.
    """
    best, who, where, end = -1.0, NOBODY, -1, len(rim.positions)
    for i in range(head, len(rim.positions)):
        if _reach(rim.distances[i], shift) < best:
            end = i
            break
        p = rim.positions[i]
        if tree.alive[p]:
            distance = apart(tree, centre, p)
            if distance > best or (distance == best and tree.row[p] < who):
                best, who, where = distance, tree.row[p], p
    front = end
    for i in range(end - 1, head - 1, -1):
        if tree.alive[rim.positions[i]]:
            front -= 1
            rim.positions[front], rim.distances[front] = rim.positions[i], rim.distances[i]
    return where, best, end, front


@njit(cache=True)
def _take(tree: Tree, position: int, k: int) -> Rows:
    """A record and its k - 1 nearest, taken out of the tree."""
    taken = np.empty(k, np.int32)
    taken[0] = position
    tree.alive[position] = False
    taken[1:] = nearest(tree, tree.points[position], k - 1)[0]
    for p in taken:
        tree.alive[p] = False
    for p in taken:
        shrink(tree, int(p))
    return taken


@njit(cache=True)
def _label(tree: Tree, taken: Rows, label: int, groups: Places, sums: Sums, weights: Floats) -> None:
    """Note the group of records that were taken out, and take them from the sums."""
    for p in taken:
        groups[tree.row[p]] = label
        weigh(sums, tree, p, -weights[tree.row[p]] if len(weights) else -1.0)


@njit(cache=True)
def mdav_groups(points: Floats, squares: Floats, roots: Floats, plain: int, k: int, weights: Floats) -> Places:
    """Algorithm 2.1: the group of each row, numbered as they are formed. The points are put in another order.

    The farthest record from the centre is sought in a rim of records that were far from an earlier centre, and in the
    tree where the rim does not decide. When that has cost as much as a new rim does, there is a new rim.
    """
    left, label = len(points), 0
    groups = np.zeros(left, np.int64)
    tree = plant(points, np.arange(left).astype(np.int32), squares, plain)
    sums = nothing(tree)
    for p in range(left):
        weigh(sums, tree, p, weights[tree.row[p]] if len(weights) else 1.0)
    rim, head, work = _rim(tree, average(sums, tree, roots)), 0, 0
    while left >= 2 * k:
        centre = average(sums, tree, roots)
        fewer = 2 * left < len(tree.points) and left > LEAF
        if fewer:
            tree = replant(tree)
        if fewer or work >= 2 * left:
            rim, head, work = _rim(tree, centre), 0, 0
        shift = _moved(tree, rim.centre, centre)
        one, distance, end, front = _scan(tree, rim, head, shift, centre)
        head, work = front, work + end - head
        if end == len(rim.positions) and rim.beyond >= 0 and _reach(math.sqrt(rim.beyond), shift) >= distance:
            one, looked = farthest(tree, centre, distance, one)
            work += looked
        _label(tree, _take(tree, one, k), label, groups, sums, weights)
        label, left = label + 1, left - k
        if left >= 2 * k:
            two, _ = farthest(tree, tree.points[one], -1.0, -1)
            _label(tree, _take(tree, two, k), label, groups, sums, weights)
            label, left = label + 1, left - k
    for p in range(len(tree.points)):
        if tree.alive[p]:
            groups[tree.row[p]] = label
    return groups


@njit(cache=True)
def grown_group(tree: Tree, position: int, k: int, most: int, gain: float) -> Rows:
    """V-MDAV's group around a record, taken out of the tree: its k - 1 nearest, and those that gain from joining."""
    members, near, far = np.empty(most, np.int32), np.full(most, NOBODY, np.int32), np.full(most, np.inf)
    members[:k] = _take(tree, position, k)
    size, known = k, 0
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
        shrink(tree, joins)
        members[size], size = joins, size + 1
    return members[:size]
