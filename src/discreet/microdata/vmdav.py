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
from discreet.microdata.mdav import Measured, distances_from, measured
from discreet.microdata.table import Floats, Places

GAIN = 0.2


def v_mdav(space: Space, k: int, weights: Floats | None = None, gain: float = GAIN) -> Places:
    """The group of each record, numbered as they are formed; none has fewer than k."""
    from discreet.microdata.forming import grown_group, planted

    made = measured(space)
    weight = np.ones(space.rows) if weights is None else weights
    middle = average_record(made, weight)
    farthest_first = np.lexsort((np.arange(space.rows), -distances_from(middle, made)))
    rows = np.arange(space.rows, dtype=np.int32)
    tree = planted(made.points.copy(), rows, made.squares, made.most, middle[: made.plain].copy())
    position = np.empty(space.rows, dtype=np.int64)
    position[tree.row] = np.arange(space.rows)
    groups = np.full(space.rows, -1, dtype=np.int64)
    left, formed = space.rows, 0
    for row in farthest_first:
        if left < k:
            break
        if groups[row] < 0:
            members = grown_group(tree, position[row], k, min(2 * k - 1, left), gain)
            groups[tree.row[members]] = formed
            left, formed = left - len(members), formed + 1
    return _joined(made, weight, groups)


def average_record(made: Measured, weight: Floats) -> Floats:
    """Means by exact sums, and of each code the one with the least sum of distances to all."""
    total, plain = math.fsum(weight.tolist()), made.plain
    means = [math.fsum((weight * made.points[:, j]).tolist()) / total for j in range(plain)]
    codes = [_least_marginal(made.points[:, plain + c], root, weight) for c, root in enumerate(made.roots)]
    return np.array([*means, *codes], dtype=np.float64)


def _least_marginal(codes: Floats, root: Floats, weight: Floats) -> int:
    held, inverse = np.unique(codes.astype(np.int64), return_inverse=True)
    return int(np.argmin(np.bincount(inverse, weight) @ root[held]))


def _joined(made: Measured, weight: Floats, groups: Places) -> Places:
    """With the last records in the group whose average record is nearest."""
    last = np.flatnonzero(groups < 0)
    if len(last) == 0:
        return groups
    by_group = np.argsort(groups, kind="stable")[len(last) :]
    parts = np.split(by_group, np.flatnonzero(np.diff(groups[by_group])) + 1)
    middles = [average_record(made._replace(points=made.points[rows]), weight[rows]) for rows in parts]
    centres = made._replace(points=np.array(middles))
    joined = groups.copy()
    for row in last:
        joined[row] = np.argmin(distances_from(made.points[row], centres))
    return joined
