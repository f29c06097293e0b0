"""Linear algebra for least squares: checked vectors, normal equations, and the inverse entries that variances need.

With S = V^(1/2) B, columns scaled to length 1, least squares needs (S'S) y = r. S'S is positive semidefinite with a
unit diagonal: it is factored without pivoting in a fill-reducing order, and a pivot near 0 is a constraint that those
before it imply. Every such constraint is checked against B itself before it is left out.

Variances need some entries of a sparse inverse, and no others (Takahashi, Fagan and Chin, 1973). With M = L D L' and Z
its inverse, column j of Z on the rows I of column j of L is -Z[I, I] L[I, j], and Z[j, j] is 1/D[j] - L[I, j]' Z[I, j].
The rows I lie among the first of them, p, and the rows of column p: so from the last column to the first, each column
reads its block Z[I, I] in the block of p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.untrusted import CheckedValue

if TYPE_CHECKING:
    from scipy.sparse.linalg import SuperLU

Array = NDArray[np.float64]
Places = NDArray[np.int64]
MAX_NUMBER = 1e100
"""No number is larger, and no variance smaller than 1 by it, so that no product overflows."""
MATRIX_SHAPES = {
    "A": "a row and a column for each cell, such as [[1, 0], [0, 1]]",
    "B": "a row for each cell and a column for each constraint, such as [[1], [-1]]",
    "D": "a row for each cell and a column for each constraint, such as [[1], [-1]]",
    "changes": "a row for each way to differ and a column for each cell, such as [[1, 0], [0, 1]]",
}
"""What the matrices that people give are made of."""
MAX_VARIANCE_RATIO = 1e12
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
MAX_DENSE_CONSTRAINTS = 6_000
"""So many constraints are inverted in full, where more than a tenth of their factor is filled."""
BLOCK_SIZE = 64
MAX_NAMES_SHOWN = 5
FINITE_RULE = "finite numbers of at most 10^100; take out or mend those that are NaN, infinite or larger"


class Sparse(Protocol):
    """A sparse matrix of numbers, by columns or by rows: what is used of scipy's, which has no types."""

    data: Array
    indices: Places
    indptr: Places

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""

    @property
    def T(self) -> Sparse:  # noqa: N802 (scipy's name)
        """The transpose."""

    @overload
    def __matmul__(self, other: Array, /) -> Array: ...
    @overload
    def __matmul__(self, other: Sparse, /) -> Sparse: ...
    def __rmatmul__(self, other: Array, /) -> Array: ...
    def __neg__(self) -> Sparse: ...
    def __abs__(self) -> Sparse: ...
    def __add__(self, other: Sparse, /) -> Sparse: ...
    def __getitem__(self, index: object, /) -> Sparse: ...
    def multiply(self, other: Sparse | Array, /) -> Sparse:
        """The products, entry by entry."""

    def sum_duplicates(self) -> None:
        """Add up the entries of the same row and column, in place."""

    def eliminate_zeros(self) -> None:
        """Leave out entries that are 0, in place."""

    def sum(self, axis: int) -> Array:
        """The sums of the columns, or of the rows."""

    def toarray(self) -> Array:
        """The same, dense."""

    def tocsc(self) -> Sparse:
        """The same, by columns."""

    def tocsr(self) -> Sparse:
        """The same, by rows."""


def parse_vector(numbers: object, what: str) -> Array:
    """Read a list of finite numbers."""
    array = parse_floats(numbers, what)
    if array.ndim != 1 or not len(array):
        raise InvalidInput(f"{what} must be a list of numbers, at least one, got shape {array.shape}")
    if not (np.abs(array) <= MAX_NUMBER).all():
        raise InvalidInput(f"{what} must be {FINITE_RULE}")
    return array


def parse_constants(numbers: object, count: int) -> Array:
    """Read the right hand side: one finite number for every constraint, or one alone where there is one."""
    array = np.atleast_1d(parse_floats(numbers, "the constants c"))
    if array.shape != (count,):
        raise InvalidInput(
            f"B has {count} columns, a constraint each, so c must have {count} numbers, got {array.size}"
        )
    return parse_vector(array, "the constants c") if count else array


def parse_variances(variance: object, answers: int) -> Array:
    """Read the variance of every answer's noise: one number for all, or one for each; 1 where none is given."""
    if variance is None:
        return np.ones(answers)
    array = parse_floats(variance, "the variance")
    if array.shape not in {(), (answers,)}:
        raise InvalidInput(
            f"the variance is one number or one for each of the {answers} answers, got shape {array.shape}"
        )
    if not ((array >= 1 / MAX_NUMBER) & (array <= MAX_NUMBER)).all():
        raise InvalidInput(
            "every variance must be a finite number above 0, else the weights are singular; "
            "state an answer that is known exactly as a constraint, fixed(value, of)"
        )
    if array.max() > MAX_VARIANCE_RATIO * array.min():
        raise InvalidInput(
            "variances more than 10^12 times each other are beyond what can be weighed; "
            "state an answer that is known exactly as a constraint, fixed(value, of)"
        )
    return np.array(np.broadcast_to(array, (answers,)))


def parse_matrix(entries: object, shape: tuple[int | None, int | None], what: str) -> Sparse:
    """Read a finite matrix named in MATRIX_SHAPES, dense or sparse, as sparse; None in the shape is any number."""
    from scipy import sparse

    is_sparse = sparse.issparse(entries) and len(getattr(entries, "shape", ())) == 2
    matrix = sparse.csc_array(entries, copy=True) if is_sparse else parse_floats(entries, what)
    if matrix.ndim != 2:
        raise InvalidInput(f"{what} has {MATRIX_SHAPES[what]}")
    for need, has, side in zip(shape, matrix.shape, ("row", "column"), strict=True):
        if need not in {None, has}:
            raise InvalidInput(
                f"{what} has {MATRIX_SHAPES[what]}; here it must have {need} {side}{'s' * (need != 1)}, got {has}"
            )
    columns: Sparse = sparse.csc_array(matrix)
    columns.data = parse_floats(columns.data, what)
    if not (np.abs(columns.data) <= MAX_NUMBER).all():
        raise InvalidInput(f"{what} must hold {FINITE_RULE}")
    columns.sum_duplicates()
    columns.eliminate_zeros()
    return columns


def freeze_array(values: Array) -> Array:
    """Make an array read-only."""
    values.setflags(write=False)
    return values


def parse_floats(numbers: object, what: str) -> Array:
    """Read numbers of any shape as a fresh copy, so that no caller's array is shared."""
    try:
        raw = np.asarray(numbers)
        if raw.dtype.kind not in "biufO":
            raise TypeError
        return np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} must be numbers, all lists in it equally long, got something else") from None


@dataclass(frozen=True, eq=False)
class NormalEquations(CheckedValue):
    """Independent constraints, ready to be solved. `unit` is S; `independent` and `redundant` are columns of B."""

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
    def factor(self) -> SuperLU:
        """The factor of S'S."""
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
        """Find y with (S'S) y = right, refined until it no longer improves."""
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
        """Compute lambda with (B'VB) lambda = gap, of the independent constraints."""
        return np.asarray(self.solve(gap / self.size) / self.size)

    def compute_correction(self, gap: Array) -> Array:
        """Compute V B lambda: the least change, weighted by 1/V, that closes the gap."""
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
    columns = nonzero[independent]
    redundant = np.setdiff1d(np.arange(B.shape[1]), columns)
    return NormalEquations(root, unit[:, independent].tocsc(), size[columns], columns, redundant)


def require_consistent(
    equations: NormalEquations,
    B: Sparse,  # noqa: N803
    c: Array,
    values: Array,
    name: Callable[[int], str],
) -> None:
    """Refuse contradictions: values that satisfy the independent constraints must satisfy the redundant ones."""
    if not len(equations.redundant):
        return
    redundant, constants = B[:, equations.redundant], c[equations.redundant]
    scale = np.maximum(np.maximum(1.0, np.abs(constants)), abs(redundant).T @ np.abs(values))
    wrong = np.flatnonzero(np.abs(redundant.T @ values - constants) > EQUALITY_TOLERANCE * scale)
    if not len(wrong):
        return
    column = int(equations.redundant[wrong[0]])
    scaled = B[:, [column]].toarray().ravel() * equations.root
    # The weights with which the independent constraints make this one.
    weights = equations.solve(equations.unit.T @ scaled) / equations.size
    against = equations.independent[np.abs(weights) > 1e-6 * np.abs(weights).max(initial=0.0)]
    if not len(against):
        raise InvalidInput(f"no answers can satisfy this constraint: {name(column)}; change it or leave it out")
    names = format_constraint_names([name(column), *(name(int(other)) for other in against)])
    raise InvalidInput(f"these constraints contradict each other: {names}; change one of them or leave it out")


def format_constraint_names(names: list[str]) -> str:
    """Join names, the first few of many."""
    suffix = f"; and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
    return "; ".join(names[:MAX_NAMES_SHOWN]) + suffix


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
    """Whether the independent columns imply the others: two sums of these, with weights that cancel nothing, tell."""
    angles = np.arange(1.0, len(doubtful) + 1)
    sums = unit[:, doubtful] @ np.column_stack([np.cos(angles), np.sin(angles)])
    residual = _compute_residual(unit, units, independent, sums)
    return bool((np.linalg.norm(residual, axis=0) <= REDUNDANCY_TOLERANCE).all())


def _find_unimplied(unit: Sparse, units: Array, independent: Places, doubtful: Places) -> Places:
    """Those of the doubtful columns that neither the independent ones nor each other imply."""
    from scipy.linalg import qr

    residual = _compute_residual(unit, units, independent, unit[:, doubtful].toarray())
    triangle, order = qr(residual, mode="r", pivoting=True)
    return np.asarray(doubtful[order[: int((np.abs(np.diag(triangle)) > REDUNDANCY_TOLERANCE).sum())]])


def _compute_residual(unit: Sparse, units: Array, independent: Places, columns: Array) -> Array:
    """What the independent columns leave of these, as a part of their length in the units of B."""
    size = np.ones(len(independent))
    trial = NormalEquations(np.ones(len(units)), unit[:, independent].tocsc(), size, independent, independent)
    residual = (columns - trial.unit @ trial.solve(trial.unit.T @ columns)) * units[:, None]
    return np.asarray(residual / np.maximum(np.linalg.norm(columns * units[:, None], axis=0), 1 / MAX_NUMBER))


def _factor_gram(gram: Sparse) -> SuperLU:
    """A sparse factor with the diagonal as pivots."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    lifted = (gram + RIDGE * sparse.eye_array(gram.shape[0])).tocsc()
    # The first order fills in less, but takes seconds where one constraint meets thousands of others.
    order = "MMD_AT_PLUS_A" if np.diff(lifted.indptr).max() <= CROWDED_COLUMN else "COLAMD"
    return splu(lifted, permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})


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
    inverse = np.asarray(np.linalg.inv(gram.toarray()), dtype=np.float64)
    rows = unit.tocsr()
    parts = [rows[start : start + block] for start in range(0, rows.shape[0], block)]
    return np.concatenate([np.asarray(part.multiply(part @ inverse).sum(axis=1)).ravel() for part in parts])


def compute_selected_inverse(gram: Sparse, factor: SuperLU) -> Sparse:
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
    inverse: Sparse = (half + half.T + diagonal_part).tocsc()
    return inverse


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
