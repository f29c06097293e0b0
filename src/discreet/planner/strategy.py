"""What to measure so as to know several counts: as asked, or the atoms of their filters. Proof: strategy.md.

Chosen from the questions alone. Everything is in whole numbers and fractions, but for the search for good weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.planner.atoms import CountQuery, DomainGrid, lay_out_atoms
from discreet.planner.facts import ContributionBounds
from discreet.planner.rational import Matrix, build_identity, invert_matrix, multiply_matrices, select_independent_rows
from discreet.query.predicate import AllOf, Predicate

MAX_WORKLOAD_CELLS = 2**16
MAX_ATOMS = 64
"""With more atoms, or more cells of the grid they are found on, the counts are measured as asked."""
MAX_SOLVED_COUNTS = 16
"""For so many counts equations are solved exactly."""
MAX_WEIGHT_DENOMINATOR = 16
"""Weights are ratios of whole numbers, the smaller at most this."""
WEIGHT_RATIOS = tuple(2.0 ** (half / 2) for half in range(-8, 9))
JOINTLY, ATOMS, ATOMS_AND_TOTAL, ASKED_AND_ATOMS = "as asked, jointly", "atoms", "atoms and total", "as asked and atoms"
IntMatrix = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Workload:
    """Which counts hold on which atoms, one row for each count, and whether a row of the table may be in no count."""

    matrix: IntMatrix
    has_uncounted: bool

    @staticmethod
    def of(bounds: ContributionBounds, filters: Sequence[Predicate]) -> Workload | None:
        """From the filters of the counts; None where there are too many atoms, or a count can hold no row."""
        grid = DomainGrid(
            bounds.schema, [CountQuery(AllOf((bounds.where, condition)), Fraction(1)) for condition in filters]
        )
        if grid.cells is None or grid.cells > MAX_WORKLOAD_CELLS:
            return None
        with lay_out_atoms(grid) as atoms:
            if len(atoms) > MAX_ATOMS + 1:
                return None
            matrix = np.stack([atoms.get_labels(place).astype(np.int64) for place in range(len(filters))])
        is_counted = matrix.any(axis=0)
        if is_counted.sum() > MAX_ATOMS or not matrix.any(axis=1).all():
            return None
        return Workload(matrix[:, is_counted], bool((~is_counted).any()))

    def compute_row_changes(self, rows: IntMatrix, bounds: ContributionBounds) -> IntMatrix:
        """How far the totals of atoms in `rows` are moved: by a row of the table, or by one that takes its place."""
        if not bounds.is_replace_one or bounds.is_grouped:
            return rows
        nowhere = np.zeros((len(rows), int(self.has_uncounted or bounds.rows_per_unit > 1)), dtype=np.int64)
        columns = np.hstack((rows, nowhere))
        first, second = np.triu_indices(columns.shape[1], 1)
        return np.asarray(np.abs(columns[:, first] - columns[:, second]))


@dataclass(frozen=True, eq=False, slots=True)
class WorkloadStrategy:
    """Totals of atoms, or of the counts themselves, with weights; and each count as a combination of what is told.

    The noise of a total has the scale rows * most / weight. One row of the table, or a pair where one takes another's
    place, moves the totals, each times its weight, by at most `most` in all; the squares of that come to `square`.
    """

    name: str
    totals: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]
    estimates: Matrix
    l1_sensitivity: int
    l2_sensitivity_sq: int
    measures_atoms: bool

    def compute_scales(self, bounds: ContributionBounds) -> tuple[Fraction, ...]:
        """Over all cells and totals |change| / scale adds up to at most 1."""
        return tuple(Fraction(bounds.rows_per_unit * self.l1_sensitivity, weight) for weight in self.weights)

    def compute_rho(self, epsilon: Fraction) -> Fraction:
        """The zCDP of all of it at this epsilon: at most epsilon^2 / 2."""
        return epsilon**2 / 2 * Fraction(self.l2_sensitivity_sq, self.l1_sensitivity**2)


def list_workload_strategies(workload: Workload, bounds: ContributionBounds) -> list[WorkloadStrategy]:
    """All that are weighed besides the counts one by one; of two alike the simpler first."""
    counts, atoms = workload.matrix.shape
    candidates = [_build_as_asked(workload, bounds), _build_atom_strategy(workload, bounds)]
    total = np.ones((1, atoms), dtype=np.int64)
    if workload.compute_row_changes(total, bounds).any():
        ratio = _find_best_ratio(workload, bounds, total, lambda ratio: _compute_total_variance(workload.matrix, ratio))
        candidates.append(_build_atoms_and_total(workload, bounds, *ratio))
    if counts <= MAX_SOLVED_COUNTS:
        common = (workload.matrix @ workload.matrix.T).astype(np.float64)
        ratio = _find_best_ratio(
            workload, bounds, workload.matrix, lambda ratio: _compute_asked_variance(common, ratio)
        )
        candidates.append(_build_asked_and_atoms(workload, bounds, *ratio))
    return candidates


def _build_as_asked(workload: Workload, bounds: ContributionBounds) -> WorkloadStrategy:
    """The counts, each with the same noise; where some follow from others, fitted to that."""
    counts = len(workload.matrix)
    estimates = build_identity(counts)
    basis = select_independent_rows(_convert_rows(workload.matrix.T)) if counts <= MAX_SOLVED_COUNTS else ()
    if basis and len(basis) < counts:
        transposed_basis = tuple(zip(*basis, strict=True))
        estimates = multiply_matrices(
            multiply_matrices(transposed_basis, invert_matrix(multiply_matrices(basis, transposed_basis))), basis
        )
    totals = _convert_rows(np.eye(counts, dtype=np.int64))
    return _build_strategy(JOINTLY, workload, bounds, totals, (1,) * counts, estimates, measures_atoms=False)


def _build_atom_strategy(workload: Workload, bounds: ContributionBounds) -> WorkloadStrategy:
    """Every atom; a count is the sum of its own."""
    atoms = workload.matrix.shape[1]
    estimates = tuple(tuple(map(Fraction, row)) for row in _convert_rows(workload.matrix))
    return _build_strategy(
        ATOMS, workload, bounds, _convert_rows(np.eye(atoms, dtype=np.int64)), (1,) * atoms, estimates
    )


def _build_atoms_and_total(
    workload: Workload, bounds: ContributionBounds, atom_weight: int, total_weight: int
) -> WorkloadStrategy:
    """Every atom with one weight and their sum with another, by least squares."""
    atoms = workload.matrix.shape[1]
    shrinkage = Fraction(total_weight**2, atom_weight**2 + atoms * total_weight**2)
    estimates = tuple(
        (*(Fraction(member) - shrinkage * sum(row) for member in row), shrinkage * sum(row))
        for row in _convert_rows(workload.matrix)
    )
    totals = (*_convert_rows(np.eye(atoms, dtype=np.int64)), (1,) * atoms)
    return _build_strategy(
        ATOMS_AND_TOTAL, workload, bounds, totals, (atom_weight,) * atoms + (total_weight,), estimates
    )


def _build_asked_and_atoms(
    workload: Workload, bounds: ContributionBounds, atom_weight: int, count_weight: int
) -> WorkloadStrategy:
    """Every atom with one weight and every count with another, by least squares."""
    counts, atoms = workload.matrix.shape
    matrix = _convert_rows(workload.matrix)
    common = multiply_matrices(matrix, tuple(zip(*matrix, strict=True)))
    mixed = tuple(
        tuple(
            count_weight**2 * value + atom_weight**2 * (row_index == column_index)
            for column_index, value in enumerate(row)
        )
        for row_index, row in enumerate(common)
    )
    weighted_inverse = tuple(tuple(atom_weight**2 * value for value in row) for row in invert_matrix(mixed))
    count_estimates = tuple(
        tuple((row_index == column_index) - value for column_index, value in enumerate(row))
        for row_index, row in enumerate(weighted_inverse)
    )
    estimates = tuple(
        atom_part + count_part
        for atom_part, count_part in zip(multiply_matrices(weighted_inverse, matrix), count_estimates, strict=True)
    )
    totals = (*_convert_rows(np.eye(atoms, dtype=np.int64)), *matrix)
    return _build_strategy(
        ASKED_AND_ATOMS, workload, bounds, totals, (atom_weight,) * atoms + (count_weight,) * counts, estimates
    )


def _build_strategy(
    name: str,
    workload: Workload,
    bounds: ContributionBounds,
    totals: tuple[tuple[int, ...], ...],
    weights: tuple[int, ...],
    estimates: Matrix,
    measures_atoms: bool = True,
) -> WorkloadStrategy:
    """With what its totals move by: those of atoms as they are told, the counts by the atoms they hold on."""
    changes = workload.compute_row_changes(
        np.array(totals, dtype=np.int64) if measures_atoms else workload.matrix, bounds
    )
    weighted_changes = changes * np.array(weights, dtype=np.int64)[:, None]
    l1_sensitivity = bounds.replace_factor * int(weighted_changes.sum(axis=0).max(initial=0))
    l2_sensitivity_sq = bounds.replace_factor * int((weighted_changes**2).sum(axis=0).max(initial=0))
    return WorkloadStrategy(
        name, totals, weights, estimates, max(l1_sensitivity, 1), max(l2_sensitivity_sq, 1), measures_atoms
    )


def _find_best_ratio(
    workload: Workload, bounds: ContributionBounds, extra_totals: IntMatrix, mean_variance: Callable[[float], float]
) -> tuple[int, int]:
    """Whole weights of the atoms and of the totals beside them, near the ratio of the least mean variance."""
    atom_changes = workload.compute_row_changes(np.eye(workload.matrix.shape[1], dtype=np.int64), bounds).sum(axis=0)
    extra_changes = workload.compute_row_changes(extra_totals, bounds).sum(axis=0)

    def compute_error(ratio: float) -> float:
        return float((atom_changes + ratio * extra_changes).max(initial=1)) ** 2 * mean_variance(ratio)

    best = min(range(len(WEIGHT_RATIOS)), key=lambda index: compute_error(WEIGHT_RATIOS[index]))
    low, high = WEIGHT_RATIOS[max(best - 1, 0)], WEIGHT_RATIOS[min(best + 1, len(WEIGHT_RATIOS) - 1)]
    for _ in range(16):
        lower, upper = low * (high / low) ** (1 / 3), low * (high / low) ** (2 / 3)
        low, high = (low, upper) if compute_error(lower) <= compute_error(upper) else (lower, high)
    best_fraction = Fraction(math.sqrt(low * high)).limit_denominator(MAX_WEIGHT_DENOMINATOR)
    return best_fraction.denominator, best_fraction.numerator


def _compute_total_variance(matrix: IntMatrix, ratio: float) -> float:
    """The mean variance of the counts from atoms of variance 1 and their total of variance 1 / ratio^2."""
    sizes = matrix.sum(axis=1)
    return float((sizes - sizes**2 * ratio**2 / (1 + matrix.shape[1] * ratio**2)).mean())


def _compute_asked_variance(common: NDArray[np.float64], ratio: float) -> float:
    """The same from atoms of variance 1 and the counts themselves of variance 1 / ratio^2, by the atoms they share."""
    counts = len(common)
    return float(np.trace(np.linalg.solve(ratio**2 * common + np.eye(counts), common)) / counts)


def _convert_rows(matrix: IntMatrix) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))
