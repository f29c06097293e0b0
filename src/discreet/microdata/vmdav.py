"""V-MDAV (Solanas and Martínez-Ballesté, 2006): groups of k to 2k - 1 records that grow where records are dense.

The farthest remaining record from the average of all records and its k - 1 nearest are a group. While it has fewer than
2k - 1, the remaining record nearest to any of its members joins it if its distance to that member is less than GAIN
times its distance to the nearest other remaining record. The last records, fewer than k, each join the group with the
nearest average record; a group may then have more than 2k - 1. Ties go to the lowest index, or the first group.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.microdata.distances import RecordSpace
from discreet.microdata.mdav import PackedSpace, compute_distances_from, pack_space
from discreet.microdata.table import Floats, Integers

GAIN = 0.2


def v_mdav(space: RecordSpace, k: int, weights: Floats | None = None, gain: float = GAIN) -> Integers:
    """The group of each record, numbered as they are formed; none has fewer than k."""
    from discreet.microdata.forming import build_sorted_tree, grow_group

    packed_space = pack_space(space)
    weight = np.ones(space.rows) if weights is None else weights
    middle = compute_average_record(packed_space, weight)
    farthest_first = np.lexsort((np.arange(space.rows), -compute_distances_from(middle, packed_space)))
    rows = np.arange(space.rows, dtype=np.int32)
    tree = build_sorted_tree(
        packed_space.points.copy(),
        rows,
        packed_space.squares,
        packed_space.max_squares,
        middle[: packed_space.numeric_count].copy(),
    )
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
    codes = [
        _find_least_marginal(packed_space.points[:, numeric_count + c], root, weight)
        for c, root in enumerate(packed_space.roots)
    ]
    return np.array([*means, *codes], dtype=np.float64)


def _find_least_marginal(codes: Floats, root: Floats, weight: Floats) -> int:
    distinct_codes, inverse = np.unique(codes.astype(np.int64), return_inverse=True)
    return int(np.argmin(np.bincount(inverse, weight) @ root[distinct_codes]))


def _join_leftovers(packed_space: PackedSpace, weight: Floats, groups: Integers) -> Integers:
    """With the last records in the group whose average record is nearest."""
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
