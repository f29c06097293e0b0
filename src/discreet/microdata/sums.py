"""Compiled: sums over the records that are left, exact however many come and go, and their average record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.microdata.table import Floats, Places
from discreet.microdata.tree import Tree, inner

SLOTS = 48
"""No more floats than this have exponents so far apart that they do not overlap."""


class Sums(NamedTuple):
    """Sums of the weighted coordinates, then of the weights of each code, then of all weights.

    Each is kept as floats that do not overlap and whose sum it is exactly (Shewchuk), as `math.fsum` does.
    """

    parts: Floats
    used: Places


@inner
def nothing(tree: Tree) -> Sums:
    """The sums over no records."""
    count = tree.plain + tree.squares.shape[0] * tree.squares.shape[1] + 1
    return Sums(np.empty((count, SLOTS)), np.zeros(count, np.int64))


@inner
def add(sums: Sums, which: int, value: float) -> None:
    """Add a number to a sum."""
    kept = 0
    for i in range(sums.used[which]):
        other = sums.parts[which, i]
        if abs(value) < abs(other):
            value, other = other, value
        high = value + other
        low = other - (high - value)
        if low != 0.0:
            sums.parts[which, kept] = low
            kept += 1
        value = high
    sums.parts[which, kept] = value
    sums.used[which] = kept + 1


@inner
def rounded(sums: Sums, which: int) -> float:
    """The nearest float to a sum, halves to even: what `math.fsum` gives."""
    n = sums.used[which] - 1
    if n < 0:
        return 0.0
    high, low = float(sums.parts[which, n]), 0.0
    while n > 0 and low == 0.0:
        n -= 1
        before = high
        high = before + sums.parts[which, n]
        low = sums.parts[which, n] - (high - before)
    if n > 0 and (low > 0.0) == (sums.parts[which, n - 1] > 0.0) and low != 0.0:
        twice = low * 2.0
        if twice == (high + twice) - high:
            high += twice
    return high


@inner
def weigh(sums: Sums, tree: Tree, position: int, weight: float) -> None:
    """Add a record to the sums, or with a negative weight take it away."""
    codes = tree.squares.shape[1]
    for j in range(tree.plain):
        add(sums, j, weight * tree.points[position, j])
    for j in range(tree.plain, tree.points.shape[1]):
        add(sums, tree.plain + (j - tree.plain) * codes + int(tree.points[position, j]), weight)
    add(sums, len(sums.used) - 1, weight)


@inner
def average(sums: Sums, tree: Tree, roots: Floats) -> Floats:
    """The average record: means, and of codes the one with the least sum of distances to all, the first of several."""
    place = np.empty(tree.points.shape[1])
    total, codes = rounded(sums, len(sums.used) - 1), tree.squares.shape[1]
    for j in range(tree.plain):
        place[j] = rounded(sums, j) / total
    for c in range(len(tree.squares)):
        away = np.zeros(codes)
        for held in range(codes):
            weight = rounded(sums, tree.plain + c * codes + held)
            if weight > 0:
                for code in range(codes):
                    away[code] += weight * roots[c, held, code]
        place[tree.plain + c] = np.argmin(away)
    return place
