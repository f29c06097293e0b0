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
from discreet.inference.vectors import LARGEST, Array, Places, Sparse

RIDGE = 1e-14
"""Added to the unit diagonal, so that the pivot of a redundant constraint is tiny but not exactly 0."""
SMALL_PIVOT = 1e-6
LEFT_OVER = 1e-7
"""A constraint of which the others leave no larger part than this is redundant."""
SAME = 1e-9
"""Two numbers that differ by this part of their size are the same."""
MOST_PRODUCTS = 200_000_000
MOST_ON_ONE = 3_000
"""So many constraints on one cell take seconds; twice as many a minute and gigabytes."""
CROWDED = 1_000
SMALL = 100_000
BLOCK = 64
NAMED = 5


@dataclass(frozen=True, eq=False)
class Normal:
    """Independent constraints, ready to be solved. `unit` is S; `kept` and `lost` are columns of B."""

    root: Array
    unit: Sparse
    size: Array
    kept: Places
    lost: Places

    @cached_property
    def gram(self) -> Sparse:
        """S'S."""
        return (self.unit.T @ self.unit).tocsc()

    @cached_property
    def factor(self) -> Any:
        """Its factor."""
        return _factored(self.gram)

    @property
    def small(self) -> bool:
        """Whether S is written out in full where that is more exact."""
        return bool(self.unit.shape[0] * self.unit.shape[1] <= SMALL)

    @cached_property
    def basis(self) -> Array:
        """Orthonormal columns that span S, dense: unlike S'S it does not square the condition of S."""
        return np.linalg.qr(self.unit.toarray())[0]

    def solve(self, right: Array) -> Array:
        """y with (S'S) y = right, refined until it no longer improves."""
        if not len(self.kept):
            return np.zeros_like(right)
        found = self.factor.solve(right)
        error = right - self.gram @ found
        for _ in range(5):
            better = found + self.factor.solve(error)
            left = right - self.gram @ better
            if not np.abs(left).max(initial=0.0) < np.abs(error).max(initial=0.0):
                break
            found, error = better, left
        return np.asarray(found)

    def multipliers(self, gap: Array) -> Array:
        """lambda with (B'VB) lambda = gap, of the kept constraints."""
        return np.asarray(self.solve(gap / self.size) / self.size)

    def moved(self, gap: Array) -> Array:
        """V B lambda: the least change, weighted by 1/V, that closes the gap."""
        return np.asarray(self.root * (self.unit @ self.solve(gap / self.size)))


def normal(B: Sparse, variance: Array) -> Normal:  # noqa: N803 (the documents' letters)
    """Scale and factor the constraints; leave out those the others imply."""
    from scipy import sparse

    root = np.sqrt(variance)
    scaled = sparse.diags_array(root).tocsc() @ B
    size = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=0)).ravel())
    per_cell = np.bincount(B.indices, minlength=B.shape[0]).astype(np.float64)
    if float(per_cell @ per_cell) > MOST_PRODUCTS or per_cell.max(initial=0.0) > MOST_ON_ONE:
        raise Unsupported(
            "so many constraints on the same cells do not fit into memory; state totals as sums of other totals, nested"
        )
    full = np.flatnonzero(size > 0)
    unit = (scaled[:, full] @ sparse.diags_array(1 / size[full])).tocsc()
    every = Normal(root, unit, size[full], full, np.flatnonzero(~(size > 0)))
    kept = _independent(every, 1 / root)
    if len(kept) == len(full):
        return every  # with its factor
    lost = np.setdiff1d(np.arange(B.shape[1]), full[kept])
    return Normal(root, unit[:, kept].tocsc(), size[full[kept]], full[kept], lost)


def consistent(found: Normal, B: Sparse, c: Array, values: Array, name: Callable[[int], str]) -> None:  # noqa: N803
    """Refuse constraints that contradict each other: values that satisfy the kept ones must satisfy the lost ones."""
    if not len(found.lost):
        return
    lost = B[:, found.lost]
    scale = np.maximum(np.maximum(1.0, np.abs(c[found.lost])), np.abs(lost).T @ np.abs(values))
    wrong = np.flatnonzero(np.abs(lost.T @ values - c[found.lost]) > SAME * scale)
    if len(wrong):
        column = int(found.lost[wrong[0]])
        raise _contradiction(found, column, _combination(found, B, column), name)


def _contradiction(found: Normal, column: int, weights: Array, name: Callable[[int], str]) -> InvalidInput:
    against = found.kept[np.abs(weights) > 1e-6 * np.abs(weights).max(initial=0.0)]
    if not len(against):
        return InvalidInput(f"no answers can satisfy this constraint: {name(column)}; change it or leave it out")
    return InvalidInput(
        f"these constraints contradict each other: {listed([name(column), *(name(int(j)) for j in against)])}; "
        "change one of them or leave it out"
    )


def listed(names: list[str]) -> str:
    """Names in words, the first few of many."""
    more = f"; and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return "; ".join(names[:NAMED]) + more


def _combination(found: Normal, B: Sparse, column: int) -> Array:  # noqa: N803
    """The weights with which the kept constraints make this one."""
    scaled = B[:, [column]].toarray().ravel() * found.root
    return np.asarray(found.solve(found.unit.T @ scaled) / found.size)


def _independent(found: Normal, units: Array) -> Places:
    """The columns that no others imply: those with a small pivot are checked, in the units of B."""
    unit, every = found.unit, np.arange(found.unit.shape[1])
    if not len(every):
        return every
    small = np.abs(found.factor.U.diagonal())[found.factor.perm_c] < SMALL_PIVOT
    kept, doubtful = every[~small], every[small]
    if not len(doubtful) or _all_implied(unit, units, kept, doubtful):
        return np.asarray(kept)
    for start in range(0, len(doubtful), BLOCK):
        apart = _apart(unit, units, kept, doubtful[start : start + BLOCK])
        kept = np.sort(np.concatenate([kept, apart]))
    return np.asarray(kept)


def _all_implied(unit: Sparse, units: Array, kept: Places, doubtful: Places) -> bool:
    """Whether the kept columns imply all others: two sums of these with weights in which nothing cancels tell."""
    angles = np.arange(1.0, len(doubtful) + 1)
    sums = unit[:, doubtful] @ np.column_stack([np.cos(angles), np.sin(angles)])
    return bool((np.linalg.norm(_left_over(unit, units, kept, sums), axis=0) <= LEFT_OVER).all())


def _apart(unit: Sparse, units: Array, kept: Places, doubtful: Places) -> Places:
    """Those of the doubtful columns that neither the kept ones nor each other imply."""
    from scipy.linalg import qr

    rest = _left_over(unit, units, kept, unit[:, doubtful].toarray())
    triangle, order = qr(rest, mode="r", pivoting=True)
    return np.asarray(doubtful[order[: int((np.abs(np.diag(triangle)) > LEFT_OVER).sum())]])


def _left_over(unit: Sparse, units: Array, kept: Places, columns: Array) -> Array:
    """What the kept columns leave of these, as a part of their length in the units of B."""
    trial = Normal(np.ones(len(units)), unit[:, kept].tocsc(), np.ones(len(kept)), kept, kept)
    rest = (columns - trial.unit @ trial.solve(trial.unit.T @ columns)) * units[:, None]
    return np.asarray(rest / np.maximum(np.linalg.norm(columns * units[:, None], axis=0), 1 / LARGEST))


def _factored(gram: Sparse) -> Any:
    """A sparse factor with the diagonal as pivots."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    lifted = (gram + RIDGE * sparse.eye_array(gram.shape[0])).tocsc()
    # The first order fills in less, but takes seconds where one constraint meets thousands of others.
    order = "MMD_AT_PLUS_A" if np.diff(lifted.indptr).max() <= CROWDED else "COLAMD"
    return splu(lifted, permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
