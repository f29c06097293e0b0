"""The normal equations of linear constraints: scaled, sparse, factored once; redundant constraints found.

With S = V^(1/2) B, columns scaled to length 1, least squares needs (S'S) y = r. S'S is positive semidefinite with a
unit diagonal: it is factored without pivoting in a fill-reducing order, and a pivot near 0 is a constraint that those
before it imply. Every such constraint is checked against B itself before it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet.errors import InvalidInput, Unsupported
from discreet.inference.vectors import MAX_NUMBER, Array, Places, Sparse

RIDGE = 1e-14
"""Added to the unit diagonal, so that the pivot of a redundant constraint is tiny but not exactly 0."""
SMALL_PIVOT = 1e-6
REDUNDANCY_TOLERANCE = 1e-7
"""A constraint of which the others leave no larger part than this is redundant."""
EQUALITY_TOLERANCE = 1e-9
"""Two numbers that differ by this part of their size are the same."""
MAX_PRODUCTS = 200_000_000
MAX_CONSTRAINTS_PER_CELL = 3_000
"""So many constraints on one cell take seconds; twice as many a minute and gigabytes."""
CROWDED_COLUMN = 1_000
MAX_DENSE_ENTRIES = 100_000
BLOCK_SIZE = 64
MAX_NAMES_SHOWN = 5


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Independent constraints, ready to be solved. `unit` is S; `kept` and `lost` are columns of B."""

    root: Array
    unit: Sparse
    size: Array
    independent: Places
    redundant: Places

    @cached_property
    def gram(self) -> Sparse:
        """S'S."""
        return (self.unit.T @ self.unit).tocsc()

    @cached_property
    def factor(self) -> Any:
        """Its factor."""
        return _factor_gram(self.gram)

    @property
    def is_small(self) -> bool:
        """Whether S is written out in full where that is more exact."""
        return bool(self.unit.shape[0] * self.unit.shape[1] <= MAX_DENSE_ENTRIES)

    @cached_property
    def basis(self) -> Array:
        """Orthonormal columns that span S, dense: unlike S'S it does not square the condition of S."""
        return np.linalg.qr(self.unit.toarray())[0]

    def solve(self, right: Array) -> Array:
        """y with (S'S) y = right, refined until it no longer improves."""
        if not len(self.independent):
            return np.zeros_like(right)
        solution = self.factor.solve(right)
        error = right - self.gram @ solution
        for _ in range(5):
            better = solution + self.factor.solve(error)
            residual = right - self.gram @ better
            if not np.abs(residual).max(initial=0.0) < np.abs(error).max(initial=0.0):
                break
            solution, error = better, residual
        return np.asarray(solution)

    def compute_multipliers(self, gap: Array) -> Array:
        """lambda with (B'VB) lambda = gap, of the kept constraints."""
        return np.asarray(self.solve(gap / self.size) / self.size)

    def compute_correction(self, gap: Array) -> Array:
        """V B lambda: the least change, weighted by 1/V, that closes the gap."""
        return np.asarray(self.root * (self.unit @ self.solve(gap / self.size)))


def build_normal_equations(B: Sparse, variance: Array) -> NormalEquations:  # noqa: N803 (the documents' letters)
    """Scale and factor the constraints; leave out those the others imply."""
    from scipy import sparse

    root = np.sqrt(variance)
    scaled = sparse.diags_array(root).tocsc() @ B
    size = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=0)).ravel())
    per_cell = np.bincount(B.indices, minlength=B.shape[0]).astype(np.float64)
    if float(per_cell @ per_cell) > MAX_PRODUCTS or per_cell.max(initial=0.0) > MAX_CONSTRAINTS_PER_CELL:
        raise Unsupported(
            "so many constraints on the same cells do not fit into memory; state totals as sums of other totals, nested"
        )
    nonzero = np.flatnonzero(size > 0)
    unit = (scaled[:, nonzero] @ sparse.diags_array(1 / size[nonzero])).tocsc()
    all_equations = NormalEquations(root, unit, size[nonzero], nonzero, np.flatnonzero(~(size > 0)))
    independent = _find_independent(all_equations, 1 / root)
    if len(independent) == len(nonzero):
        return all_equations  # with its factor
    redundant = np.setdiff1d(np.arange(B.shape[1]), nonzero[independent])
    return NormalEquations(
        root, unit[:, independent].tocsc(), size[nonzero[independent]], nonzero[independent], redundant
    )


def require_consistent(
    equations: NormalEquations,
    B: Sparse,  # noqa: N803
    c: Array,
    values: Array,
    name: Callable[[int], str],
) -> None:
    """Refuse constraints that contradict each other: values that satisfy the kept ones must satisfy the lost ones."""
    if not len(equations.redundant):
        return
    redundant = B[:, equations.redundant]
    scale = np.maximum(np.maximum(1.0, np.abs(c[equations.redundant])), np.abs(redundant).T @ np.abs(values))
    wrong = np.flatnonzero(np.abs(redundant.T @ values - c[equations.redundant]) > EQUALITY_TOLERANCE * scale)
    if len(wrong):
        column = int(equations.redundant[wrong[0]])
        raise _build_contradiction(equations, column, _find_combination(equations, B, column), name)


def _build_contradiction(
    equations: NormalEquations, column: int, weights: Array, name: Callable[[int], str]
) -> InvalidInput:
    against = equations.independent[np.abs(weights) > 1e-6 * np.abs(weights).max(initial=0.0)]
    if not len(against):
        return InvalidInput(f"no answers can satisfy this constraint: {name(column)}; change it or leave it out")
    return InvalidInput(
        "these constraints contradict each other: "
        f"{format_constraint_names([name(column), *(name(int(j)) for j in against)])}; "
        "change one of them or leave it out"
    )


def format_constraint_names(names: list[str]) -> str:
    """Names in words, the first few of many."""
    suffix = f"; and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
    return "; ".join(names[:MAX_NAMES_SHOWN]) + suffix


def _find_combination(equations: NormalEquations, B: Sparse, column: int) -> Array:  # noqa: N803
    """The weights with which the kept constraints make this one."""
    scaled = B[:, [column]].toarray().ravel() * equations.root
    return np.asarray(equations.solve(equations.unit.T @ scaled) / equations.size)


def _find_independent(equations: NormalEquations, units: Array) -> Places:
    """The columns that no others imply: those with a small pivot are checked, in the units of B."""
    unit, columns = equations.unit, np.arange(equations.unit.shape[1])
    if not len(columns):
        return columns
    small = np.abs(equations.factor.U.diagonal())[equations.factor.perm_c] < SMALL_PIVOT
    independent, doubtful = columns[~small], columns[small]
    if not len(doubtful) or _are_all_implied(unit, units, independent, doubtful):
        return np.asarray(independent)
    for start in range(0, len(doubtful), BLOCK_SIZE):
        unimplied = _find_unimplied(unit, units, independent, doubtful[start : start + BLOCK_SIZE])
        independent = np.sort(np.concatenate([independent, unimplied]))
    return np.asarray(independent)


def _are_all_implied(unit: Sparse, units: Array, independent: Places, doubtful: Places) -> bool:
    """Whether the kept columns imply all others: two sums of these with weights in which nothing cancels tell."""
    angles = np.arange(1.0, len(doubtful) + 1)
    sums = unit[:, doubtful] @ np.column_stack([np.cos(angles), np.sin(angles)])
    return bool(
        (np.linalg.norm(_compute_residual(unit, units, independent, sums), axis=0) <= REDUNDANCY_TOLERANCE).all()
    )


def _find_unimplied(unit: Sparse, units: Array, independent: Places, doubtful: Places) -> Places:
    """Those of the doubtful columns that neither the kept ones nor each other imply."""
    from scipy.linalg import qr

    residual = _compute_residual(unit, units, independent, unit[:, doubtful].toarray())
    triangle, order = qr(residual, mode="r", pivoting=True)
    return np.asarray(doubtful[order[: int((np.abs(np.diag(triangle)) > REDUNDANCY_TOLERANCE).sum())]])


def _compute_residual(unit: Sparse, units: Array, independent: Places, columns: Array) -> Array:
    """What the kept columns leave of these, as a part of their length in the units of B."""
    trial = NormalEquations(
        np.ones(len(units)), unit[:, independent].tocsc(), np.ones(len(independent)), independent, independent
    )
    residual = (columns - trial.unit @ trial.solve(trial.unit.T @ columns)) * units[:, None]
    return np.asarray(residual / np.maximum(np.linalg.norm(columns * units[:, None], axis=0), 1 / MAX_NUMBER))


def _factor_gram(gram: Sparse) -> Any:
    """A sparse factor with the diagonal as pivots."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    lifted = (gram + RIDGE * sparse.eye_array(gram.shape[0])).tocsc()
    # The first order fills in less, but takes seconds where one constraint meets thousands of others.
    order = "MMD_AT_PLUS_A" if np.diff(lifted.indptr).max() <= CROWDED_COLUMN else "COLAMD"
    return splu(lifted, permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
