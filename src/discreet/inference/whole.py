"""Whole numbers near refined answers that keep totals, nesting, bounds and order: controlled rounding, top-down.

A total is a whole number, so the parts that are rounded up can be chosen to make it: those with the largest
remainders. Each part becomes the whole number below or above it; then it is the total of its own parts. Whole bounds
hold because a number between two whole numbers rounds to one between them; order holds because among parts of one
total the larger never rounds lower, and because cells that are part of none round by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import numpy as np

from discreet.errors import Internal, Unsupported
from discreet.inference.gathered import Gathered
from discreet.inference.vectors import Array, Places

SNAP = 1e-7
"""A number so near to a whole one is that one."""
MOST = 1e12
NOT_NESTED = (
    "whole numbers are kept for totals and nesting in which each cell is a part of one total at most "
    "and all constants are whole; leave out whole=True, or state the totals so"
)
NOT_ORDERED = (
    "whole numbers keep an order among the parts of one total, or among cells that are part of none; "
    "leave out whole=True, or order only such cells"
)


@dataclass(frozen=True, eq=False, slots=True)
class Split:
    """Parts that add up to a whole constant, and to their parent where they have one."""

    parent: int | None
    parts: Places
    constant: int


@dataclass(frozen=True, eq=False, slots=True)
class Rounding:
    """How answers under these constraints are rounded: `must` has whole bounds, `totals` come before their parts'."""

    must: Gathered
    totals: Sequence[Split]
    rank: Places
    """A number for each cell that rises along every chain."""

    @staticmethod
    def of(must: Gathered) -> Rounding:
        """Bounds moved inwards to whole numbers; refused where whole numbers cannot be kept."""
        found = [split for column in range(len(must.constants)) if (split := _split(must, column))]
        inside = _inside(found, len(must.low))
        if any(len(np.unique(inside[chain])) > 1 for chain in must.chains):
            raise Unsupported(NOT_ORDERED)
        low, high = np.ceil(must.low - SNAP), np.floor(must.high + SNAP)
        empty = np.flatnonzero(low > high)
        if len(empty):
            raise must.contradiction((), (int(must.low_by[empty[0]]), int(must.high_by[empty[0]])))
        return Rounding(replace(must, low=low, high=high), _from_the_top(found, inside), _ranks(must))

    def rounded(self, values: Array) -> Array:
        """Each value becomes the whole number below or above it."""
        if np.abs(values).max() > MOST:
            raise Unsupported("whole numbers are kept up to 10^12, beyond which floats blur them; leave out whole=True")
        near = _snapped(values)
        for before, after in sorted(_steps(self.must), key=lambda step: self.rank[step[0]]):
            near[after] = max(near[after], near[before])
        for split in reversed(self.totals):
            if split.parent is not None:
                near[split.parent] = _snapped(near[split.parts].sum() - split.constant)
        whole: Array = np.floor(near + 0.5)
        for split in self.totals:
            aim = split.constant + (0 if split.parent is None else int(whole[split.parent]))
            whole[split.parts] = _parts_of(near[split.parts], aim, self.rank[split.parts])
        return whole + 0.0  # without a sign on 0


def adding_up(near: Array, aim: int, rank: Places | None = None) -> Array:
    """Down, but for as many of the largest remainders as make the total; of equal ones, those of the highest rank."""
    whole = np.floor(near)
    first = np.zeros(len(near)) if rank is None else -rank
    whole[np.lexsort((first, whole - near))[: aim - int(whole.sum())]] += 1
    return whole


def _parts_of(near: Array, aim: int, rank: Places) -> Array:
    ups = aim - int(np.floor(near).sum())
    if not 0 <= ups <= int((near > np.floor(near)).sum()):
        raise Internal("the parts of a total cannot be rounded to it")
    return adding_up(near, aim, rank)


def _from_the_top(found: list[Split], inside: Places) -> list[Split]:
    """Each total before those of its parts."""
    above = {
        place: [int(inside[split.parent])] if split.parent is not None and inside[split.parent] >= 0 else []
        for place, split in enumerate(found)
    }
    try:
        return [found[place] for place in TopologicalSorter(above).static_order()]
    except CycleError:
        raise Unsupported(NOT_NESTED) from None


def _split(must: Gathered, column: int) -> Split | None:
    """One equality as a total of parts; None for a cell that is fixed."""
    span = slice(must.matrix.indptr[column], must.matrix.indptr[column + 1])
    cells, weights, constant = must.matrix.indices[span], must.matrix.data[span], float(must.constants[column])
    if (weights > 0).sum() < (weights < 0).sum():
        weights, constant = -weights, -constant
    down = weights < 0
    if abs(constant - round(constant)) > SNAP or (np.abs(weights) != 1).any() or down.sum() > 1:
        raise Unsupported(NOT_NESTED)
    if len(cells) <= 1:
        return None
    return Split(int(cells[down][0]) if down.any() else None, cells[~down].astype(np.int64), round(constant))


def _inside(totals: list[Split], count: int) -> Places:
    """For every cell the total it is a part of, or -1."""
    inside = np.full(count, -1)
    for place, split in enumerate(totals):
        if (inside[split.parts] >= 0).any():
            raise Unsupported(NOT_NESTED)
        inside[split.parts] = place
    return inside


def _steps(must: Gathered) -> Iterator[tuple[int, int]]:
    """The order, one step at a time."""
    for chain in must.chains:
        yield from pairwise(chain.tolist())


def _ranks(must: Gathered) -> Places:
    rank = np.zeros(len(must.low), dtype=np.int64)
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for before, after in _steps(must):
        sorter.add(after, before)
    try:
        for place, cell in enumerate(sorter.static_order()):
            rank[cell] = place
    except CycleError:
        raise Unsupported(NOT_ORDERED) from None
    return rank


def _snapped(values: Array) -> Array:
    whole = np.round(values)
    slack = np.maximum(SNAP, 1e-15 * np.abs(whole))
    return np.where(np.abs(values - whole) <= slack, whole, values)
