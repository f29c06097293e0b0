"""MDAV (thesis, Algorithm 2.1): the farthest record from the average and its k - 1 nearest are a group, and so on.

The groups are those of the plain quadratic algorithm, found with a tree (tree.py). Where the algorithm leaves a choice:
the average is the exact sum of the remaining records, rounded once, over their number, or weight; of nominal values it
is the concept of the taxonomy with the least sum of distances to them (6.4). Of records equally far or near the one
with the lowest index is taken. The second record of a round is the one farthest from the first of those that are left
when the first one's group is gone; it is the farthest of all, unless most records are alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.microdata.distances import Space
from discreet.microdata.table import Floats, Places

Measured = tuple[Floats, Floats, Floats, int]
"""Coordinates with codes after them, squared distances of codes, distances of codes, how many coordinates are plain."""


def mdav(space: Space, k: int, weights: Floats | None = None) -> Places:
    """The group of each record, numbered as they are formed; all have k records, the last k to 2k - 1.

    The space is used up: its points come to be in another order.
    """
    from discreet.microdata.forming import mdav_groups

    points, squares, roots, plain = measured(space)
    groups: Places = mdav_groups(points, squares, roots, plain, k, no_weights() if weights is None else weights)
    return groups


def measured(space: Space) -> Measured:
    """The space as compiled code reads it."""
    most = max((len(each) for each in space.squares), default=0)
    squares = np.zeros((len(space.squares), most, most))
    roots = np.full(squares.shape, np.inf)  # what is beyond a shorter list is never the nearest to all
    for which, each in enumerate(space.squares):
        squares[which, : len(each), : len(each)] = each
        roots[which, : len(each), : len(each)] = np.sqrt(each)
    points = np.hstack([space.points, space.codes]) if space.squares else np.ascontiguousarray(space.points)
    return points, squares, roots, space.points.shape[1]


def no_weights() -> Any:
    """Stands for weights that are all 1."""
    return np.empty(0)
