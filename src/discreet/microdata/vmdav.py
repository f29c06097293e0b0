"""V-MDAV (Solanas and Martínez-Ballesté, 2006): groups of k to 2k - 1 records that grow where records are dense.

The farthest remaining record from the average of all records and its k - 1 nearest are a group. While it has fewer than
2k - 1, the remaining record nearest to any of its members joins it if its distance to that member is less than GAIN
times its distance to the nearest other remaining record. The last records, fewer than k, each join the group with the
nearest average record; a group may then have more than 2k - 1. Ties go to the lowest index, or the first group.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.microdata.distances import Space
from discreet.microdata.mdav import measured
from discreet.microdata.table import Floats, Places

GAIN = 0.2


def v_mdav(space: Space, k: int, weights: Floats | None = None, gain: float = GAIN) -> Places:
    """The group of each record, numbered as they are formed; none has fewer than k."""
    from discreet.microdata.forming import grown_group
    from discreet.microdata.tree import plant

    points, squares, roots, plain = measured(space)
    weight = np.ones(len(points)) if weights is None else weights
    middle = average_record(points, roots, plain, weight)
    groups = np.full(len(points), -1, dtype=np.int64)
    placed = points.copy()
    tree = plant(points, np.arange(len(points), dtype=np.int32), squares, middle[:plain].copy())
    position = np.empty(len(points), dtype=np.int64)
    position[tree.row] = np.arange(len(points))
    far = distances_from(middle, placed, squares, plain)
    left, formed = len(points), 0
    for row in np.lexsort((np.arange(len(points)), -far)):
        if left < k:
            break
        if groups[row] < 0:
            members = grown_group(tree, position[row], k, min(2 * k - 1, left), gain)
            groups[tree.row[members]] = formed
            left, formed = left - len(members), formed + 1
    return _joined(placed, squares, roots, plain, weight, groups)


def average_record(points: Floats, roots: Floats, plain: int, weight: Floats) -> Floats:
    """Means by exact sums, and of each code the one with the least sum of distances to all."""
    total = math.fsum(weight.tolist())
    means = [math.fsum((weight * points[:, j]).tolist()) / total for j in range(plain)]
    codes = [
        np.argmin(np.bincount(points[:, plain + c].astype(np.int64), weight, roots.shape[1]) @ _finite(root))
        for c, root in enumerate(roots)
    ]
    return np.array([*means, *codes], dtype=np.float64)


def _finite(root: Floats) -> Floats:
    return np.where(np.isinf(root), 1e6, root)


def distances_from(place: Floats, points: Floats, squares: Floats, plain: int) -> Floats:
    """The squared distance of every record from a place, summed over coordinates in their order."""
    total = np.zeros(len(points))
    for j in range(plain):
        total += (place[j] - points[:, j]) ** 2
    for c, table in enumerate(squares):
        total += table[int(place[plain + c]), points[:, plain + c].astype(np.int64)]
    return total


def _joined(points: Floats, squares: Floats, roots: Floats, plain: int, weight: Floats, groups: Places) -> Places:
    """With the last records in the group whose average record is nearest."""
    last = np.flatnonzero(groups < 0)
    if len(last) == 0:
        return groups
    by_group = np.argsort(groups, kind="stable")[len(last) :]
    parts = np.split(by_group, np.flatnonzero(np.diff(groups[by_group])) + 1)
    middles = np.array([average_record(points[rows], roots, plain, weight[rows]) for rows in parts])
    joined = groups.copy()
    for row in last:
        joined[row] = np.argmin(distances_from(points[row], middles, squares, plain))
    return joined
