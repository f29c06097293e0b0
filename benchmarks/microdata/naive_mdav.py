"""MDAV as it is written (thesis, Algorithm 2.1), compiled: every step looks at all the records that are left.

`naive_mdav` takes the k - 1 nearest from sorting all distances, as the words ask, or from one pass that keeps the
nearest so far, which is the best that a quadratic algorithm can do. Sums of the records that are left are exact, so
that the groups are those of `microaggregate`. `array_mdav` is written as one would with arrays: the mean anew each
time, and the k nearest by a selection.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.sdc.methods.kd_search import add_to_sum, create_sums, round_sum


@njit(cache=True)
def _compute_distances(points, left, place):
    distances = np.empty(len(left))
    for i in range(len(left)):
        total = 0.0
        for j in range(points.shape[1]):
            step = place[j] - points[left[i], j]
            total += step * step
        distances[i] = total
    return distances


@njit(cache=True)
def _find_nearest(distances, k, by_sorting):
    """Where the k nearest are; ties to the first."""
    if by_sorting:
        return np.argsort(distances, kind="mergesort")[:k]
    near, far = np.zeros(k, np.int64), np.full(k, np.inf)
    for i in range(len(distances)):
        if distances[i] < far[k - 1]:
            place = k - 1
            while place > 0 and far[place - 1] > distances[i]:
                near[place], far[place] = near[place - 1], far[place - 1]
                place -= 1
            near[place], far[place] = i, distances[i]
    return near


@njit(cache=True)
def naive_mdav(points, k, by_sorting):
    """The group of each record, numbered as they are formed."""
    rows, width = points.shape
    groups, left, label = np.zeros(rows, np.int64), np.arange(rows), 0
    sums = create_sums(width)
    for i in range(rows):
        for j in range(width):
            add_to_sum(sums, j, points[i, j])
    second, place = False, np.empty(width)
    while len(left) >= 2 * k:
        if not second:
            for j in range(width):
                place[j] = round_sum(sums, j) / len(left)
        start = np.argmax(_compute_distances(points, left, place))
        place = points[left[start]].copy()
        distances = _compute_distances(points, left, place)
        distances[start] = -1.0  # it is in its own group, however many are no distance away
        stays = np.ones(len(left), np.bool_)
        for i in _find_nearest(distances, k, by_sorting):
            stays[i] = False
            groups[left[i]] = label
            for j in range(width):
                add_to_sum(sums, j, -points[left[i], j])
        left, label = left[stays], label + 1
        second = not second
    groups[left] = label
    return groups


@njit(cache=True)
def array_mdav(points, k):
    """The group of each record, but for rounding of means and ties."""
    groups, left, label = np.zeros(len(points), np.int64), np.arange(len(points)), 0
    second, place = False, np.empty(points.shape[1])
    while len(left) >= 2 * k:
        records = points[left]
        if not second:
            for j in range(points.shape[1]):
                place[j] = records[:, j].mean()
        start = np.argmax(((records - place) ** 2).sum(axis=1))
        place = records[start].copy()
        distances = ((records - place) ** 2).sum(axis=1)
        distances[start] = -1.0
        near = np.argpartition(distances, k)[:k]
        groups[left[near]] = label
        stays = np.ones(len(left), np.bool_)
        stays[near] = False
        left, label = left[stays], label + 1
        second = not second
    groups[left] = label
    return groups
