"""The entries of a sparse inverse that variances need, and no others (Takahashi, Fagan and Chin, 1973).

With M = L D L' and Z its inverse, column j of Z on the rows I of column j of L is -Z[I, I] L[I, j], and Z[j, j] is
1/D[j] - L[I, j]' Z[I, j]. The rows I lie among the first of them, p, and the rows of column p: so from the last column
to the first, each column reads its block Z[I, I] in the block of p.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.inference.solving import NormalEquations
from discreet.inference.vectors import Array, Places, Sparse

MAX_DENSE_CONSTRAINTS = 6_000
"""So many constraints are inverted in full, where more than a tenth of their factor is filled."""


def compute_quadratic_forms(equations: NormalEquations) -> Array:
    """s' (S'S)^-1 s for every row s of S."""
    unit, count = equations.unit, equations.unit.shape[1]
    if equations.is_small:
        return np.asarray((equations.basis**2).sum(axis=1))
    if count <= MAX_DENSE_CONSTRAINTS and 10 * equations.factor.L.nnz > count * count:
        return _compute_dense_forms(unit, equations.gram)
    inverse = compute_selected_inverse(equations.gram, equations.factor)
    return np.asarray((unit @ inverse).multiply(unit).sum(axis=1)).ravel()


def _compute_dense_forms(unit: Sparse, gram: Sparse, block: int = 1024) -> Array:
    inverse = np.linalg.inv(gram.toarray())
    rows = unit.tocsr()
    parts = [rows[start : start + block] for start in range(0, rows.shape[0], block)]
    return np.concatenate([np.asarray(part.multiply(part @ inverse).sum(axis=1)).ravel() for part in parts])


def compute_selected_inverse(gram: Sparse, factor: Any) -> Sparse:
    """The inverse on the pattern of the factor, the constraints in their own order."""
    from scipy import sparse

    count, order = gram.shape[0], np.argsort(factor.perm_c)
    lower, pivots = factor.L.tocsc(), factor.U.diagonal()
    below = _find_fill_pattern(gram[order][:, order].tocsc(), lower)
    diagonal, columns = _run_recursion(lower, pivots, below)
    rows = np.concatenate([order[rows] for rows in below])
    where = order[np.repeat(np.arange(count), [len(rows) for rows in below])]
    half = sparse.csc_array((np.concatenate(columns), (rows, where)), shape=(count, count))
    diagonal_part = sparse.csc_array((diagonal, (order, order)), shape=(count, count))
    return (half + half.T + diagonal_part).tocsc()


def _run_recursion(lower: Sparse, pivots: Array, below: list[Places]) -> tuple[Array, list[Array]]:
    """The diagonal and the columns below it, from the last to the first."""
    count = len(below)
    first = [int(rows[0]) if len(rows) else -1 for rows in below]
    waiting = np.bincount([p for p in first if p >= 0], minlength=count).tolist()
    blocks: dict[int, Array] = {}
    diagonal, columns = np.zeros(count), [np.zeros(0)] * count
    for j in range(count - 1, -1, -1):
        rows, p = below[j], first[j]
        inner = _read_block(blocks[p], rows, below[p]) if p >= 0 else np.zeros((0, 0))
        entries = _read_entries(lower, j, rows)
        columns[j] = -inner @ entries
        diagonal[j] = 1 / pivots[j] - entries @ columns[j]
        if waiting[j]:
            blocks[j] = _build_bordered_block(diagonal[j], columns[j], inner)
        if p >= 0:
            waiting[p] -= 1
            if not waiting[p]:
                del blocks[p]
    return diagonal, columns


def _read_block(outer: Array, rows: Places, inside: Places) -> Array:
    """Z on these rows, read in the block of the first of them, which has the rows `inside` after it."""
    if len(rows) == 1:
        return outer[:1, :1]
    indices = np.concatenate([[0], 1 + np.searchsorted(inside, rows[1:])])
    return np.asarray(outer[indices[:, None], indices])


def _build_bordered_block(corner: float, edge: Array, inner: Array) -> Array:
    block = np.empty((len(edge) + 1, len(edge) + 1))
    block[0, 0], block[0, 1:], block[1:, 0], block[1:, 1:] = corner, edge, edge, inner
    return block


def _read_entries(lower: Sparse, j: int, rows: Places) -> Array:
    """Column j of L on these rows; 0 where the factor has no entry."""
    span = slice(lower.indptr[j], lower.indptr[j + 1])
    row_indices, values = lower.indices[span], lower.data[span]
    keep = row_indices > j
    entries = np.zeros(len(rows))
    entries[np.searchsorted(rows, row_indices[keep])] = values[keep]
    return entries


def _find_fill_pattern(gram: Sparse, lower: Sparse) -> list[Places]:
    """The rows below the diagonal of every column that elimination can fill, also those where it gives 0."""
    below: list[set[int]] = []
    for j in range(gram.shape[0]):
        rows = {*gram.indices[gram.indptr[j] : gram.indptr[j + 1]].tolist()}
        rows |= {*lower.indices[lower.indptr[j] : lower.indptr[j + 1]].tolist()}
        below.append({row for row in rows if row > j})
    for rows in below:
        if rows:
            p = min(rows)
            below[p] |= rows - {p}
    return [np.array(sorted(rows), dtype=np.int64) for rows in below]
