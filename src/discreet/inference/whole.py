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
from discreet.inference.gathered import ConstraintSet
from discreet.inference.vectors import Array, Places

SNAP_TOLERANCE = 1e-7
"""A number so near to a whole one is that one."""
MAX_ROUNDED_VALUE = 1e12
NOT_NESTED = (
    "whole numbers are kept for totals and nesting in which each cell is a part of one total at most "
    "and all constants are whole; leave out whole=True, or state the totals so"
)
NOT_ORDERED = (
    "whole numbers keep an order among the parts of one total, or among cells that are part of none; "
    "leave out whole=True, or order only such cells"
)


@dataclass(frozen=True, eq=False, slots=True)
class TotalSplit:
    """Parts that add up to a whole constant, and to their parent where they have one."""

    parent: int | None
    parts: Places
    constant: int


@dataclass(frozen=True, eq=False, slots=True)
class ControlledRounding:
    """How answers under these constraints are rounded: `must` has whole bounds, `totals` come before their parts'."""

    constraint_set: ConstraintSet
    totals: Sequence[TotalSplit]
    rank: Places
    """A number for each cell that rises along every chain."""

    @staticmethod
    def of(constraint_set: ConstraintSet) -> ControlledRounding:
        """Bounds moved inwards to whole numbers; refused where whole numbers cannot be kept."""
        splits = [
            split for column in range(len(constraint_set.constants)) if (split := _build_split(constraint_set, column))
        ]
        inside = _assign_totals(splits, len(constraint_set.low))
        if any(len(np.unique(inside[chain])) > 1 for chain in constraint_set.chains):
            raise Unsupported(NOT_ORDERED)
        low, high = np.ceil(constraint_set.low - SNAP_TOLERANCE), np.floor(constraint_set.high + SNAP_TOLERANCE)
        empty = np.flatnonzero(low > high)
        if len(empty):
            raise constraint_set.build_contradiction(
                (), (int(constraint_set.low_owners[empty[0]]), int(constraint_set.high_owners[empty[0]]))
            )
        return ControlledRounding(
            replace(constraint_set, low=low, high=high), _sort_top_down(splits, inside), _rank_cells(constraint_set)
        )

    def round_values(self, values: Array) -> Array:
        """Each value becomes the whole number below or above it."""
        if np.abs(values).max() > MAX_ROUNDED_VALUE:
            raise Unsupported("whole numbers are kept up to 10^12, beyond which floats blur them; leave out whole=True")
        snapped_values = _snap_to_integers(values)
        for before, after in sorted(_iterate_steps(self.constraint_set), key=lambda step: self.rank[step[0]]):
            snapped_values[after] = max(snapped_values[after], snapped_values[before])
        for split in reversed(self.totals):
            if split.parent is not None:
                snapped_values[split.parent] = _snap_to_integers(snapped_values[split.parts].sum() - split.constant)
        integers: Array = np.floor(snapped_values + 0.5)
        for split in self.totals:
            aim = split.constant + (0 if split.parent is None else int(integers[split.parent]))
            integers[split.parts] = _round_parts(snapped_values[split.parts], aim, self.rank[split.parts])
        return integers + 0.0  # without a sign on 0


def round_to_total(values: Array, total: int, rank: Places | None = None) -> Array:
    """Down, but for as many of the largest remainders as make the total; of equal ones, those of the highest rank."""
    integers = np.floor(values)
    first = np.zeros(len(values)) if rank is None else -rank
    integers[np.lexsort((first, integers - values))[: total - int(integers.sum())]] += 1
    return integers


def _round_parts(values: Array, total: int, rank: Places) -> Array:
    ups = total - int(np.floor(values).sum())
    if not 0 <= ups <= int((values > np.floor(values)).sum()):
        raise Internal("the parts of a total cannot be rounded to it")
    return round_to_total(values, total, rank)


def _sort_top_down(splits: list[TotalSplit], inside: Places) -> list[TotalSplit]:
    """Each total before those of its parts."""
    above = {
        place: [int(inside[split.parent])] if split.parent is not None and inside[split.parent] >= 0 else []
        for place, split in enumerate(splits)
    }
    try:
        return [splits[place] for place in TopologicalSorter(above).static_order()]
    except CycleError:
        raise Unsupported(NOT_NESTED) from None


def _build_split(constraint_set: ConstraintSet, column: int) -> TotalSplit | None:
    """One equality as a total of parts; None for a cell that is fixed."""
    span = slice(constraint_set.matrix.indptr[column], constraint_set.matrix.indptr[column + 1])
    cells, weights, constant = (
        constraint_set.matrix.indices[span],
        constraint_set.matrix.data[span],
        float(constraint_set.constants[column]),
    )
    if (weights > 0).sum() < (weights < 0).sum():
        weights, constant = -weights, -constant
    down = weights < 0
    if abs(constant - round(constant)) > SNAP_TOLERANCE or (np.abs(weights) != 1).any() or down.sum() > 1:
        raise Unsupported(NOT_NESTED)
    if len(cells) <= 1:
        return None
    return TotalSplit(int(cells[down][0]) if down.any() else None, cells[~down].astype(np.int64), round(constant))


def _assign_totals(totals: list[TotalSplit], count: int) -> Places:
    """For every cell the total it is a part of, or -1."""
    inside = np.full(count, -1)
    for place, split in enumerate(totals):
        if (inside[split.parts] >= 0).any():
            raise Unsupported(NOT_NESTED)
        inside[split.parts] = place
    return inside


def _iterate_steps(constraint_set: ConstraintSet) -> Iterator[tuple[int, int]]:
    """The order, one step at a time."""
    for chain in constraint_set.chains:
        yield from pairwise(chain.tolist())


def _rank_cells(constraint_set: ConstraintSet) -> Places:
    rank = np.zeros(len(constraint_set.low), dtype=np.int64)
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for before, after in _iterate_steps(constraint_set):
        sorter.add(after, before)
    try:
        for place, cell in enumerate(sorter.static_order()):
            rank[cell] = place
    except CycleError:
        raise Unsupported(NOT_ORDERED) from None
    return rank


def _snap_to_integers(values: Array) -> Array:
    integers = np.round(values)
    slack = np.maximum(SNAP_TOLERANCE, 1e-15 * np.abs(integers))
    return np.where(np.abs(values - integers) <= slack, integers, values)
