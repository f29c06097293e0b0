"""Compiled: records in the order of a kd-tree's leaves."""

from __future__ import annotations

import numpy as np

from discreet.microdata.table import Floats, Integers
from discreet.microdata.tree import FANOUT, Rows, compile_inline, compile_internal

SPREAD_SAMPLE = 64
"""The spread of so many records tells by which coordinate to part them."""

MIN_LARGE_PART, PIVOT_SAMPLE = 256, 15
"""Of at least so many records, the pivot is one of so many; of fewer, one of three."""


@compile_internal
def sort_into_leaves(points: Floats, row: Rows, max_squares: Floats, numeric_count: int) -> None:
    """Part the records in two again and again, always between nodes of the same size."""
    starts, stops, units = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    starts[0], stops[0], units[0], height = 0, len(points), FANOUT**7, 1
    offsets, pivot_values = np.empty((2, FANOUT), np.int64), np.empty(PIVOT_SAMPLE)
    while height > 0:
        height -= 1
        start, stop, unit = starts[height], stops[height], units[height]
        while stop - start > FANOUT:
            while unit >= stop - start:
                unit //= FANOUT
            middle = start + unit * ((stop - start + unit - 1) // unit // 2)
            _partition_records(
                points,
                row,
                start,
                stop,
                middle,
                _find_widest_axis(points, start, stop, max_squares, numeric_count),
                offsets,
                pivot_values,
            )
            starts[height], stops[height], units[height] = middle, stop, unit
            height, stop = height + 1, middle


@compile_internal
def _find_widest_axis(points: Floats, start: int, stop: int, max_squares: Floats, numeric_count: int) -> int:
    """The coordinate in which a sample of the records is farthest apart."""
    axis, widest, step = 0, -1.0, max(1, (stop - start) // SPREAD_SAMPLE)
    for j in range(points.shape[1]):
        low, high = np.inf, -np.inf
        for p in range(start, stop, step):
            low, high = min(low, points[p, j]), max(high, points[p, j])
        spread = (high - low) ** 2
        if j >= numeric_count:
            spread = max_squares[j - numeric_count] if spread > 0 else 0.0
        if spread > widest:
            axis, widest = j, spread
    return axis


@compile_internal
def _partition_records(
    points: Floats, row: Rows, start: int, stop: int, middle: int, axis: int, offsets: Integers, pivot_values: Floats
) -> None:
    """Put the records from start to stop so that none before `middle` is beyond those after it (Hoare's selection)."""
    left, right = start, stop - 1
    while left < right:
        pivot = _choose_pivot(points, left, right, middle, axis, pivot_values)
        i, j = _partition_blocks(points, row, left, right, pivot, axis, offsets)
        while i <= j:
            while points[i, axis] < pivot:
                i += 1
            while points[j, axis] > pivot:
                j -= 1
            if i <= j:
                _swap_records(points, row, i, j)
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@compile_internal
def _choose_pivot(points: Floats, left: int, right: int, middle: int, axis: int, pivot_values: Floats) -> float:
    """A number that about as many are below as come before `middle`."""
    count = right - left + 1
    if count < MIN_LARGE_PART:
        a, b, c = points[left, axis], points[(left + right) // 2, axis], points[right, axis]
        return float(max(min(a, b), min(max(a, b), c)))
    for i in range(PIVOT_SAMPLE):
        value, slot = points[left + (2 * i + 1) * count // (2 * PIVOT_SAMPLE), axis], i
        while slot > 0 and pivot_values[slot - 1] > value:
            pivot_values[slot] = pivot_values[slot - 1]
            slot -= 1
        pivot_values[slot] = value
    return float(pivot_values[(middle - left) * PIVOT_SAMPLE // count])


@compile_internal
def _partition_blocks(
    points: Floats, row: Rows, left: int, right: int, pivot: float, axis: int, offsets: Integers
) -> tuple[int, int]:
    """Hoare's partition from both ends as far as whole blocks go, without a branch that no processor can foresee."""
    ahead = behind = 0  # how many of a block are on the wrong side
    a = b = 0
    while right - left + 1 >= 2 * FANOUT:
        if ahead == 0:
            a = 0
            for s in range(FANOUT):
                offsets[0, ahead] = left + s
                ahead += points[left + s, axis] >= pivot
        if behind == 0:
            b = 0
            for s in range(FANOUT):
                offsets[1, behind] = right - s
                behind += points[right - s, axis] <= pivot
        both = min(ahead, behind)
        for s in range(both):
            _swap_records(points, row, offsets[0, a + s], offsets[1, b + s])
        a, b, ahead, behind = a + both, b + both, ahead - both, behind - both
        left, right = left + (FANOUT if ahead == 0 else 0), right - (FANOUT if behind == 0 else 0)
    return left, right


@compile_inline
def _swap_records(points: Floats, row: Rows, first: int, second: int) -> None:
    for j in range(points.shape[1]):
        points[first, j], points[second, j] = points[second, j], points[first, j]
    row[first], row[second] = row[second], row[first]
