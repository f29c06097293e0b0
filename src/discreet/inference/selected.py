"""The entries of a sparse inverse that variances need, and no others (Takahashi, Fagan and Chin, 1973).

With M = L D L' and Z its inverse, column j of Z on the rows I of column j of L is -Z[I, I] L[I, j], and Z[j, j] is
1/D[j] - L[I, j]' Z[I, j]. The rows I lie among the first of them, p, and the rows of column p: so from the last column
to the first, each column reads its block Z[I, I] in the block of p.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.inference.solving import Normal
from discreet.inference.vectors import Array, Places, Sparse

MOST_DENSE = 6_000
"""So many constraints are inverted in full, where more than a tenth of their factor is filled."""


def quadratic_forms(normal: Normal) -> Array:
    """s' (S'S)^-1 s for every row s of S."""
    unit, count = normal.unit, normal.unit.shape[1]
    if normal.small:
        return np.asarray((normal.basis**2).sum(axis=1))
    if count <= MOST_DENSE and 10 * normal.factor.L.nnz > count * count:
        return _dense(unit, normal.gram)
    inverse = selected_inverse(normal.gram, normal.factor)
    return np.asarray((unit @ inverse).multiply(unit).sum(axis=1)).ravel()


def _dense(unit: Sparse, gram: Sparse, block: int = 1024) -> Array:
    inverse = np.linalg.inv(gram.toarray())
    rows = unit.tocsr()
    parts = [rows[start : start + block] for start in range(0, rows.shape[0], block)]
    return np.concatenate([np.asarray(part.multiply(part @ inverse).sum(axis=1)).ravel() for part in parts])


def selected_inverse(gram: Sparse, factor: Any) -> Sparse:
    """The inverse on the pattern of the factor, the constraints in their own order."""
    from scipy import sparse

    count, order = gram.shape[0], np.argsort(factor.perm_c)
    lower, pivots = factor.L.tocsc(), factor.U.diagonal()
    below = _pattern(gram[order][:, order].tocsc(), lower)
    diagonal, columns = _recursion(lower, pivots, below)
    rows = np.concatenate([order[rows] for rows in below])
    where = order[np.repeat(np.arange(count), [len(rows) for rows in below])]
    half = sparse.csc_array((np.concatenate(columns), (rows, where)), shape=(count, count))
    own = sparse.csc_array((diagonal, (order, order)), shape=(count, count))
    return (half + half.T + own).tocsc()


def _recursion(lower: Sparse, pivots: Array, below: list[Places]) -> tuple[Array, list[Array]]:
    """The diagonal and the columns below it, from the last to the first."""
    count = len(below)
    first = [int(rows[0]) if len(rows) else -1 for rows in below]
    waiting = np.bincount([p for p in first if p >= 0], minlength=count).tolist()
    blocks: dict[int, Array] = {}
    diagonal, columns = np.zeros(count), [np.zeros(0)] * count
    for j in range(count - 1, -1, -1):
        rows, p = below[j], first[j]
        inner = _block(blocks[p], rows, below[p]) if p >= 0 else np.zeros((0, 0))
        entries = _entries(lower, j, rows)
        columns[j] = -inner @ entries
        diagonal[j] = 1 / pivots[j] - entries @ columns[j]
        if waiting[j]:
            blocks[j] = _bordered(diagonal[j], columns[j], inner)
        if p >= 0:
            waiting[p] -= 1
            if not waiting[p]:
                del blocks[p]
    return diagonal, columns


def _block(outer: Array, rows: Places, inside: Places) -> Array:
    """Z on these rows, read in the block of the first of them, which has the rows `inside` after it."""
    if len(rows) == 1:
        return outer[:1, :1]
    at = np.concatenate([[0], 1 + np.searchsorted(inside, rows[1:])])
    return np.asarray(outer[at[:, None], at])


def _bordered(corner: float, edge: Array, inner: Array) -> Array:
    block = np.empty((len(edge) + 1, len(edge) + 1))
    block[0, 0], block[0, 1:], block[1:, 0], block[1:, 1:] = corner, edge, edge, inner
    return block


def _entries(lower: Sparse, j: int, rows: Places) -> Array:
    """Column j of L on these rows; 0 where the factor has no entry."""
    span = slice(lower.indptr[j], lower.indptr[j + 1])
    found, values = lower.indices[span], lower.data[span]
    keep = found > j
    entries = np.zeros(len(rows))
    entries[np.searchsorted(rows, found[keep])] = values[keep]
    return entries


def _pattern(gram: Sparse, lower: Sparse) -> list[Places]:
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
