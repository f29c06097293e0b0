"""Compiled: records in the order of a kd-tree's leaves."""

from __future__ import annotations

import numpy as np

from discreet.microdata.table import Floats, Places
from discreet.microdata.tree import WIDE, Rows, inlined, inner

SAMPLE = 64
"""The spread of so many records tells by which coordinate to part them."""

MANY, PIVOTS = 256, 15
"""Of at least so many records, the pivot is one of so many; of fewer, one of three."""


@inner
def in_order(points: Floats, row: Rows, most: Floats, plain: int) -> None:
    """Part the records in two again and again, always between nodes of the same size."""
    starts, stops, units = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    starts[0], stops[0], units[0], height = 0, len(points), WIDE**7, 1
    offsets, few = np.empty((2, WIDE), np.int64), np.empty(PIVOTS)
    while height > 0:
        height -= 1
        start, stop, unit = starts[height], stops[height], units[height]
        while stop - start > WIDE:
            while unit >= stop - start:
                unit //= WIDE
            middle = start + unit * ((stop - start + unit - 1) // unit // 2)
            _part(points, row, start, stop, middle, _widest(points, start, stop, most, plain), offsets, few)
            starts[height], stops[height], units[height] = middle, stop, unit
            height, stop = height + 1, middle


@inner
def _widest(points: Floats, start: int, stop: int, most: Floats, plain: int) -> int:
    """The coordinate in which a sample of the records is farthest apart."""
    axis, widest, step = 0, -1.0, max(1, (stop - start) // SAMPLE)
    for j in range(points.shape[1]):
        low, high = np.inf, -np.inf
        for p in range(start, stop, step):
            low, high = min(low, points[p, j]), max(high, points[p, j])
        spread = (high - low) ** 2
        if j >= plain:
            spread = most[j - plain] if spread > 0 else 0.0
        if spread > widest:
            axis, widest = j, spread
    return axis


@inner
def _part(
    points: Floats, row: Rows, start: int, stop: int, middle: int, axis: int, offsets: Places, few: Floats
) -> None:
    """Put the records from start to stop so that none before `middle` is beyond those after it (Hoare's selection)."""
    left, right = start, stop - 1
    while left < right:
        pivot = _pivot(points, left, right, middle, axis, few)
        i, j = _blocks(points, row, left, right, pivot, axis, offsets)
        while i <= j:
            while points[i, axis] < pivot:
                i += 1
            while points[j, axis] > pivot:
                j -= 1
            if i <= j:
                _swap(points, row, i, j)
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@inner
def _pivot(points: Floats, left: int, right: int, middle: int, axis: int, few: Floats) -> float:
    """A number that about as many are below as come before `middle`."""
    count = right - left + 1
    if count < MANY:
        a, b, c = points[left, axis], points[(left + right) // 2, axis], points[right, axis]
        return float(max(min(a, b), min(max(a, b), c)))
    for i in range(PIVOTS):
        value, at = points[left + (2 * i + 1) * count // (2 * PIVOTS), axis], i
        while at > 0 and few[at - 1] > value:
            few[at] = few[at - 1]
            at -= 1
        few[at] = value
    return float(few[(middle - left) * PIVOTS // count])


@inner
def _blocks(
    points: Floats, row: Rows, left: int, right: int, pivot: float, axis: int, offsets: Places
) -> tuple[int, int]:
    """Hoare's partition from both ends as far as whole blocks go, without a branch that no processor can foresee."""
    ahead = behind = 0  # how many of a block are on the wrong side
    a = b = 0
    while right - left + 1 >= 2 * WIDE:
        if ahead == 0:
            a = 0
            for s in range(WIDE):
                offsets[0, ahead] = left + s
                ahead += points[left + s, axis] >= pivot
        if behind == 0:
            b = 0
            for s in range(WIDE):
                offsets[1, behind] = right - s
                behind += points[right - s, axis] <= pivot
        both = min(ahead, behind)
        for s in range(both):
            _swap(points, row, offsets[0, a + s], offsets[1, b + s])
        a, b, ahead, behind = a + both, b + both, ahead - both, behind - both
        left, right = left + (WIDE if ahead == 0 else 0), right - (WIDE if behind == 0 else 0)
    return left, right


@inlined
def _swap(points: Floats, row: Rows, one: int, two: int) -> None:
    for j in range(points.shape[1]):
        points[one, j], points[two, j] = points[two, j], points[one, j]
    row[one], row[two] = row[two], row[one]
