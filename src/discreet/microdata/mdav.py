"""MDAV (thesis, Algorithm 2.1): the farthest record from the average and its k - 1 nearest are a group, and so on.

The groups are those of the plain quadratic algorithm, found with a tree (tree.py). Where the algorithm leaves a choice:
the average is the exact sum of the remaining records, rounded once, over their number, or weight; of nominal values it
is the concept of the taxonomy with the least sum of distances to them (6.4). Of records equally far or near the one
with the lowest index is taken. The second record of a round is the one farthest from the first of those that are left
when the first one's group is gone; it is the farthest of all, unless most records are alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.microdata.distances import RecordSpace
from discreet.microdata.table import Floats, Integers


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
    from discreet.microdata.forming import form_mdav_groups

    points, squares, max_squares, roots, numeric_count = pack_space(space)
    rows = np.arange(len(points), dtype=np.int32)
    weight = np.empty(0) if weights is None else np.ascontiguousarray(weights)
    groups: Integers = form_mdav_groups(
        points, rows, squares, max_squares, roots, points[:, :numeric_count].mean(axis=0), k, weight
    )
    return groups


def pack_space(space: RecordSpace) -> PackedSpace:
    """The space's points are shared with it where there are no codes."""
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
