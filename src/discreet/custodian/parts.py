"""The nearest whole counts that are made of the same parts: each count the sum of its own, none below 0.

The parts are solved for, not the counts. So what follows from them holds exactly, whatever the solver's last digits:
that counts include one another, exclude one another, or make up a third.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unsupported
from discreet.inference.solver import solve_with_clarabel
from discreet.inference.whole import round_to_total
from discreet.planner.memory import LARGE_GRID_CELLS, serialize_large_steps
from discreet.planner.structure import CountLimits, CountParts

PartArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]
SNAP_TOLERANCE = 1e-6
"""A number so near to a whole one is that one."""
MAX_COUNT = 1e12
MAX_JOINTLY_ROUNDED = 2**13
"""The parts of so many counts are rounded to what is best for these; those of more each for itself."""
TIE_BREAK_WEIGHT = 1e-4
"""What the choice between parts of the same counts weighs, against a step of one in one count."""


def fit_integer_counts(
    parts: CountParts, noisy: PartArray, variance: PartArray, *, min_cells_keeping_total: int
) -> PartArray:
    """Whole counts, by count and cell, near the noisy ones, squares weighed by 1/variance.

    From `keeping` cells on each count keeps its total, once the totals fit: else what is lifted to 0 would lift it.
    """
    if np.abs(noisy).max() > MAX_COUNT:
        raise Unsupported("whole numbers are kept up to 10^12, beyond which floats blur them")
    with serialize_large_steps(parts.labels.size > LARGE_GRID_CELLS):
        return _fit_and_round(parts, noisy, variance, min_cells_keeping_total)


def _fit_and_round(parts: CountParts, noisy: PartArray, variance: PartArray, min_cells_keeping_total: int) -> PartArray:
    partition = CountPartition(parts.labels, noisy.shape[1], parts.limits)
    totals = _fit_totals(partition, noisy, variance) if partition.cells >= min_cells_keeping_total else None
    nearest_parts = _fit_parts(partition, noisy, variance, totals)
    if partition.possible.sum() <= MAX_JOINTLY_ROUNDED:
        nearest_parts = _round_counts(partition, nearest_parts, totals)
    return partition.compute_counts(_round_parts(partition, nearest_parts))


@dataclass(frozen=True, eq=False)
class CountPartition:
    """How counts, in so many cells, are made of parts: their labels, and the ends of their sum."""

    labels: NDArray[np.int64]
    cells: int
    ends: CountLimits

    @cached_property
    def kinds(self) -> tuple[BoolArray, IndexArray]:
        """The different sets of counts that parts are in, a column for each; and which of them each part is in."""
        sets, set_index = np.unique(self.labels > 0, axis=1, return_inverse=True)
        return sets, set_index.ravel()

    @cached_property
    def possible(self) -> BoolArray:
        """By count and cell, whether it has a part."""
        return np.stack([np.isin(np.arange(1, self.cells + 1), count_labels) for count_labels in self.labels])

    @cached_property
    def matrix(self) -> Any:
        """A row for each possible count and cell, a column for each part; 1 where it is in it."""
        count, part = np.nonzero(self.labels)
        row_index = np.cumsum(self.possible).reshape(self.possible.shape) - 1
        return _build_incidence_matrix(
            row_index[count, self.labels[count, part] - 1], part, (int(self.possible.sum()), self.labels.shape[1])
        )

    @cached_property
    def total_matrix(self) -> Any:
        """A row for each count, a column for each part; 1 where it is in it in some cell."""
        count, part = np.nonzero(self.labels)
        return _build_incidence_matrix(count, part, (len(self.labels), self.labels.shape[1]))

    def compute_counts(self, values: PartArray) -> PartArray:
        """The counts, by count and cell."""
        counts = np.zeros(self.possible.shape)
        counts[self.possible] = self.matrix @ values
        return counts

    def clip_to_ends(self, values: PartArray) -> PartArray:
        """The same parts, with what a solver left below 0 or beyond an end taken away."""
        values = np.maximum(values, 0.0)
        part_sum, ends = float(values.sum()), self.ends
        target_sum = max(ends.min_total, part_sum if ends.max_total is None else min(part_sum, ends.max_total))
        return values * (target_sum / part_sum) if part_sum else np.full(len(values), target_sum / len(values))


def _build_incidence_matrix(rows: IndexArray, columns: IndexArray, shape: tuple[int, int]) -> Any:
    from scipy import sparse

    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def _fit_totals(partition: CountPartition, noisy: PartArray, variance: PartArray) -> PartArray:
    """The totals of the counts over all cells, nearest to those that were drawn, as one cell has them."""
    total_partition = CountPartition(partition.kinds[0].astype(np.int64), 1, partition.ends)
    noisy_totals = np.where(partition.possible, noisy, 0.0).sum(axis=1, keepdims=True)
    total_variances = np.where(partition.possible, variance, 0.0).sum(axis=1, keepdims=True)
    return np.asarray(
        total_partition.compute_counts(_fit_parts(total_partition, noisy_totals, total_variances, None))[:, 0]
    )


def _fit_parts(partition: CountPartition, noisy: PartArray, variance: PartArray, totals: PartArray | None) -> PartArray:
    """Parts whose counts are nearest, and have these totals. Nothing else pulls a part: it is not weighed itself."""
    from scipy import sparse

    targets, variances = noisy[partition.possible], variance[partition.possible]
    equal, right = sparse.hstack([sparse.diags_array(-np.sqrt(variances / variances.max())), partition.matrix]), targets
    if totals is not None:
        total_rows = sparse.hstack([sparse.csr_array((len(totals), len(targets))), partition.total_matrix])
        equal, right = sparse.vstack([equal, total_rows]), np.concatenate([targets, totals])
    adding = sparse.csr_array(np.repeat([0.0, 1.0], partition.matrix.shape)[None, :])
    ends, beyond, level = partition.ends, [], np.zeros(partition.matrix.shape[1])
    if ends.max_total is not None and ends.min_total == ends.max_total:
        equal, right = sparse.vstack([equal, adding]), np.append(right, ends.max_total)
    elif ends.max_total is not None:
        beyond, level = [adding, -adding], np.concatenate([level, [ends.max_total, -ends.min_total]])
    nonnegative_rows = sparse.hstack(
        [sparse.csr_array(partition.matrix.shape[::-1]), -sparse.eye_array(partition.matrix.shape[1])]
    )
    return partition.clip_to_ends(
        _solve_least_squares(equal, right, sparse.vstack([nonnegative_rows, *beyond]), level, len(targets))
    )


def _solve_least_squares(equal: Any, right: PartArray, below: Any, level: PartArray, weighted_count: int) -> PartArray:
    """Of all x with equal x = right and below x <= level one whose first, which are weighed, are shortest: the rest."""
    from scipy import sparse

    unit = max(1.0, float(np.abs(right).max()))
    squares = np.zeros(equal.shape[1])
    squares[:weighted_count] = 1
    beyond = np.concatenate([right, level]) / unit
    values = (
        np.array(solve_with_clarabel(squares, sparse.vstack([equal, below]), beyond, len(right)).x)[weighted_count:]
        * unit
    )
    if not np.isfinite(values).all():
        raise Unsupported("the solver found no parts that make these counts; ask for fewer counts at once")
    return values


def _round_counts(partition: CountPartition, values: PartArray, totals: PartArray | None) -> PartArray:
    """Parts that make whole counts, the nearest in squares to those of these, with the totals rounded.

    At whole numbers squares are on a convex line of pieces, so a linear program finds them: up to 1 above the whole
    number below, or more, or less. Where counts are nested or apart its corners are whole, elsewhere nearly so.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    targets = _snap_to_integers(partition.matrix @ values)
    floors, identity = np.floor(targets), sparse.eye_array(len(targets))
    remainders = targets - floors
    sum_rows, sum_limits = _build_sum_bounds(partition, totals)
    # Parts that are in many counts are preferred, which leaves few of them, one inside the other.
    preferences = -TIE_BREAK_WEIGHT * (partition.labels > 0).mean(axis=0) ** 2
    upper_limits = np.repeat([np.inf, 1.0, np.inf], [len(values), len(targets), 2 * len(targets)])
    solution = linprog(
        np.concatenate([preferences, 1 - 2 * remainders, 3 - 2 * remainders, 1 + 2 * remainders]),
        A_eq=sparse.hstack([partition.matrix, -identity, -identity, identity]),
        b_eq=floors,
        A_ub=sparse.hstack([sum_rows, sparse.csr_array((len(sum_limits), 3 * len(targets)))]),
        b_ub=sum_limits,
        bounds=np.column_stack([np.zeros(len(upper_limits)), upper_limits]),
        method="highs-ds",
    )
    return partition.clip_to_ends(solution.x[: len(values)]) if solution.status == 0 else values


def _build_sum_bounds(partition: CountPartition, totals: PartArray | None) -> tuple[Any, PartArray]:
    """Rows that are at most so much: the sum of all parts within its ends, each total beside a whole number."""
    from scipy import sparse

    rows, ends = sparse.csr_array(np.ones((1, partition.labels.shape[1]))), partition.ends
    low, high = (
        np.array([float(ends.min_total)]),
        np.array([MAX_COUNT if ends.max_total is None else float(ends.max_total)]),
    )
    if totals is not None:
        snapped_totals = _snap_to_integers(totals)
        rows, low, high = (
            sparse.vstack([rows, partition.total_matrix]),
            np.append(low, np.floor(snapped_totals)),
            np.append(high, np.ceil(snapped_totals)),
        )
    return sparse.vstack([rows, -rows]), np.concatenate([high, -low])


def _round_parts(partition: CountPartition, values: PartArray) -> PartArray:
    """Whole parts beside these: first their sum, within its ends, then that of each kind, then each part."""
    snapped_parts, (_, kind), ends = _snap_to_integers(values), partition.kinds, partition.ends
    sums: PartArray = np.bincount(kind, snapped_parts).astype(np.float64)
    target_sum = max(ends.min_total, round(float(sums.sum())))
    kind_sums = round_to_total(sums, target_sum if ends.max_total is None else min(target_sum, ends.max_total))
    integer_parts = np.zeros(len(snapped_parts))
    alike = np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind))[:-1])
    for places, kind_sum in zip(alike, kind_sums, strict=True):
        integer_parts[places] = round_to_total(snapped_parts[places], int(kind_sum))
    return integer_parts


def _snap_to_integers(values: PartArray) -> PartArray:
    return np.where(np.abs(values - np.round(values)) <= SNAP_TOLERANCE, np.round(values), values)
