"""Counts made consistent: controlled rounding, raking to known margins, and tables of pairs.

Controlled rounding: a total is a whole number, so the parts that are rounded up can be chosen to make it: those with
the largest remainders. Each part becomes the whole number below or above it; then it is the total of its own parts.
Whole bounds hold because a number between two whole numbers rounds to one between them; order holds because among parts
of one total the larger never rounds lower, and because cells that are part of none round by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal, Unsupported
from discreet.estimation.constraint_set import ConstraintSet
from discreet.estimation.least_squares import Array, Places

CellCounts = NDArray[np.int64]
Mask = NDArray[np.bool_]
Pair = tuple[int, int]
RAKING_ROUNDS = 100
MIN_KIND_COUNT = 1e-6
"""No kind of cells that can have rows is lost for having none."""
MAX_PROJECTION_ROUNDS = 2000
MARGIN_TOLERANCE = 1e-6
"""Margins so near are met."""
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
    """How answers under these constraints are rounded; `totals` come before those of their parts."""

    constraint_set: ConstraintSet
    totals: Sequence[TotalSplit]
    rank: Places
    """A number for each cell that rises along every chain."""

    @staticmethod
    def of(constraint_set: ConstraintSet) -> ControlledRounding:
        """Move bounds inwards to whole numbers; refused where whole numbers cannot be kept."""
        columns = range(len(constraint_set.constants))
        splits = [split for column in columns if (split := _build_split(constraint_set, column))]
        inside = _assign_totals(splits, len(constraint_set.low))
        if any(len(np.unique(inside[chain])) > 1 for chain in constraint_set.chains):
            raise Unsupported(NOT_ORDERED)
        low, high = np.ceil(constraint_set.low - SNAP_TOLERANCE), np.floor(constraint_set.high + SNAP_TOLERANCE)
        empty = np.flatnonzero(low > high)
        if len(empty):
            owners = (owner[empty[0]] for owner in (constraint_set.low_owners, constraint_set.high_owners))
            raise constraint_set.build_contradiction((), map(int, owners))
        totals, rank = _sort_top_down(splits, inside), _rank_cells(constraint_set)
        return ControlledRounding(replace(constraint_set, low=low, high=high), totals, rank)

    def round_values(self, values: Array) -> Array:
        """Round each value to the whole number below or above it."""
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
    """Round down, but for as many of the largest remainders as make the total; of equal ones, the highest rank."""
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
    cells = constraint_set.matrix.indices[span]
    weights = constraint_set.matrix.data[span]
    constant = float(constraint_set.constants[column])
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


def rake_counts(
    counts: CellCounts, cell_sets: Sequence[Mask], known_counts: Sequence[int], structural_zeros: Mask
) -> CellCounts:
    """Rake counts to so many rows inside each set of cells, and none in structural zeros; they add up as before.

    Cells that the sets do not tell apart are scaled alike, again and again until all are met: at once where no sets
    overlap, and to about a row where they do.
    """
    total = int(counts.sum())
    sets = np.array(cell_sets, dtype=np.bool_).reshape(len(cell_sets), len(counts))
    kinds, kind = np.unique(sets, axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    is_possible = np.bincount(kind, ~structural_zeros, minlength=kinds.shape[1]) > 0
    kind_sums = np.bincount(kind, np.where(structural_zeros, 0, counts))
    sums = np.where(is_possible, np.maximum(kind_sums, MIN_KIND_COUNT), 0.0)
    for _ in range(RAKING_ROUNDS):
        for part, rows in zip(kinds, known_counts, strict=True):
            _scale_sums(sums, part, rows)
            _scale_sums(sums, ~part, total - rows)
    kind_counts = _apportion(sums, is_possible, total)
    raked_counts = np.zeros_like(counts)
    for place in np.flatnonzero(is_possible):
        raked_counts += _apportion(counts, (kind == place) & ~structural_zeros, int(kind_counts[place]))
    return raked_counts


def _scale_sums(sums: NDArray[np.float64], part: Mask, rows: int) -> None:
    if rows >= 0 and sums[part].any():
        sums[part] *= rows / sums[part].sum()


def _apportion(counts: CellCounts | Array, where: Mask, total: int) -> CellCounts:
    """Whole counts in these cells alone that add up to the total, in proportion to the given; evenly if all are 0."""
    shares = np.where(where, counts, 0).astype(np.float64)
    shares = shares if shares.any() else where.astype(np.float64)
    return round_to_total(shares * (total / shares.sum()), total).astype(np.int64)


def compute_independent_table(first: CellCounts, second: CellCounts) -> Array:
    """Compute the table of two independent columns; both add up to the same."""
    return np.outer(first, second) / max(float(first.sum()), 1.0)


def shrink_dependence(noisy: CellCounts, independent: Array, deviation: float) -> Array:
    """Keep what of the distance to independence stands out of noise of this deviation, its singular values shrunk.

    The shrinkage has the least expected squares for noise alike in all cells (Gavish and Donoho 2017); nothing is left
    where noise is all there is.
    """
    left, values, right = np.linalg.svd(noisy - independent, full_matrices=False)
    narrow, wide = sorted(noisy.shape)
    shape, unit = narrow / wide, max(deviation * math.sqrt(wide), 1e-9)
    # Noise alone has singular values of up to 1 + sqrt(shape) units.
    is_signal = values > (1 + math.sqrt(shape)) * unit
    scaled = values[is_signal] / unit
    shrunk_values = np.sqrt(np.maximum((scaled**2 - shape - 1) ** 2 - 4 * shape, 0)) / scaled * unit
    return np.asarray(independent + (left[:, is_signal] * shrunk_values) @ right[is_signal])


def fit_margins(table: Array, first: CellCounts, second: CellCounts, structural_zeros: Mask | None = None) -> Array:
    """Fit the nearest table, in squares, that has these margins, nothing below 0, and 0 in structural zeros.

    Dykstra's alternating projections: on the margins in closed form, then on the bounds. What comes out is the nearest
    for the margins that it has, so that only these tell when to stop. Where structural zeros leave no such table the
    bounds hold, and the margins as nearly as they can.
    """
    allowed = np.ones(table.shape) if structural_zeros is None else 1.0 - structural_zeros
    values: Array = table.astype(np.float64)
    correction = np.zeros(table.shape)
    for _ in range(MAX_PROJECTION_ROUNDS):
        row_gaps, column_gaps = first - values.sum(axis=1), second - values.sum(axis=0)
        feasible = values.min() >= 0 and not values[allowed == 0].any()
        if feasible and max(np.abs(row_gaps).max(), np.abs(column_gaps).max()) <= MARGIN_TOLERANCE:
            break
        inner = values + _compute_margin_change(row_gaps, column_gaps) + correction
        values = (np.maximum(inner, 0) * allowed).astype(np.float64, copy=False)
        correction = inner - values
    return values


def _compute_margin_change(row_gaps: Array, column_gaps: Array) -> Array:
    """The least change, in squares, that adds these to the margins; both add up to the same."""
    rows, columns = len(row_gaps), len(column_gaps)
    return np.asarray(row_gaps[:, None] / columns + column_gaps[None, :] / rows - row_gaps.sum() / (rows * columns))


def round_table(
    table: Array, first: CellCounts, second: CellCounts, uniforms: Array, structural_zeros: Mask | None = None
) -> CellCounts:
    """Round a table of about these margins to whole numbers that have them exactly: controlled rounding.

    Each cell goes down; then up by one where both margins lack some, in an order in which a cell is the next with a
    chance in proportion to what it lost, as its `uniforms` are uniform between 0 and 1. What is left goes to cells that
    are possible as far as the margins allow it, and to others.
    """
    allowed = np.ones(table.shape, dtype=np.bool_) if structural_zeros is None else ~structural_zeros
    scaled_table = table * np.minimum(1, first / np.maximum(table.sum(axis=1), 1e-9))[:, None]
    scaled_table = scaled_table * np.minimum(1, second / np.maximum(scaled_table.sum(axis=0), 1e-9))
    counts: CellCounts = np.floor(scaled_table + 1e-9).astype(np.int64)
    row_gaps, column_gaps = first - counts.sum(axis=1), second - counts.sum(axis=0)
    order = np.argsort((np.log(uniforms) / np.maximum(scaled_table - counts, 1e-9)).ravel())[::-1]
    for max_increase, cells in ((1, order), (None, order[allowed.ravel()[order]]), (None, order)):
        for cell in cells.tolist():
            row, column = divmod(cell, table.shape[1])
            increase = min(int(row_gaps[row]), int(column_gaps[column]), max_increase or int(row_gaps[row]))
            if increase > 0 and (max_increase is None or allowed[row, column]):
                counts[row, column] += increase
                row_gaps[row] -= increase
                column_gaps[column] -= increase
    return counts


def find_strongest_tree(strengths: Sequence[float], pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Find pairs, strongest first, that join all of `count` columns without a cycle; as far as these pairs can."""
    order = sorted(range(len(pairs)), key=lambda place: (-strengths[place], place))
    tree: list[Pair] = []
    for place in order:
        if pairs[place] in select_joining_pairs(tree, [pairs[place]], count):
            tree.append(pairs[place])
    return tree


def select_joining_pairs(chosen: Iterable[Pair], pairs: Iterable[Pair], count: int) -> list[Pair]:
    """Select the pairs whose columns the chosen ones do not join yet."""
    components = list(range(count))
    for first, second in chosen:
        components = [components[first] if label == components[second] else label for label in components]
    return [pair for pair in pairs if components[pair[0]] != components[pair[1]]]
