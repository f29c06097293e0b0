"""Vectors and matrices as people give them, read once: finite, of the right shape, as float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Sparse = Any
"""A scipy csc_array; scipy has no types."""
LARGEST = 1e100
"""No number is larger, and no variance smaller than 1 by it, so that no product overflows."""
HAS = {
    "A": "a row and a column for each cell, such as [[1, 0], [0, 1]]",
    "B": "a row for each cell and a column for each constraint, such as [[1], [-1]]",
    "D": "a row for each cell and a column for each constraint, such as [[1], [-1]]",
    "changes": "a row for each way to differ and a column for each cell, such as [[1, 0], [0, 1]]",
}
"""What the matrices that people give are made of."""
FARTHEST = 1e12
FINITE = "finite numbers of at most 10^100; take out or mend those that are NaN, infinite or larger"


def vector(given: object, what: str) -> Array:
    """A list of finite numbers."""
    read = floats(given, what)
    if read.ndim != 1 or not len(read):
        raise InvalidInput(f"{what} must be a list of numbers, at least one, got shape {read.shape}")
    if not (np.abs(read) <= LARGEST).all():
        raise InvalidInput(f"{what} must be {FINITE}")
    return read


def constants(given: object, count: int) -> Array:
    """The right hand side: one finite number for every constraint, and one alone where there is one."""
    read = np.atleast_1d(floats(given, "the constants c"))
    if read.shape != (count,):
        raise InvalidInput(f"B has {count} columns, a constraint each, so c must have {count} numbers, got {read.size}")
    return vector(read, "the constants c") if count else read


def variances(given: object, answers: int) -> Array:
    """The variance of every answer's noise: one number for all, or one for each; the unit, 1, where none is given."""
    if given is None:
        return np.ones(answers)
    read = floats(given, "the variance")
    if read.shape not in {(), (answers,)}:
        raise InvalidInput(
            f"the variance is one number or one for each of the {answers} answers, got shape {read.shape}"
        )
    if not ((read >= 1 / LARGEST) & (read <= LARGEST)).all():
        raise InvalidInput(
            "every variance must be a finite number above 0, else the weights are singular; "
            "state an answer that is known exactly as a constraint, fixed(value, of)"
        )
    if read.max() > FARTHEST * read.min():
        raise InvalidInput(
            "variances more than 10^12 times each other are beyond what can be weighed; "
            "state an answer that is known exactly as a constraint, fixed(value, of)"
        )
    return np.array(np.broadcast_to(read, (answers,)))


def matrix(given: Any, shape: tuple[int | None, int | None], what: str) -> Sparse:
    """A finite matrix, one of those in HAS, dense or sparse, as sparse; None in the shape is any number."""
    from scipy import sparse

    read = sparse.csc_array(given, copy=True) if sparse.issparse(given) and given.ndim == 2 else floats(given, what)
    if read.ndim != 2:
        raise InvalidInput(f"{what} has {HAS[what]}")
    for need, has, side in zip(shape, read.shape, ("row", "column"), strict=True):
        if need not in {None, has}:
            raise InvalidInput(f"{what} has {HAS[what]}; here it must have {need} {side}{'s' * (need != 1)}, got {has}")
    columns = sparse.csc_array(read)
    columns.data = floats(columns.data, what)
    if not (np.abs(columns.data) <= LARGEST).all():
        raise InvalidInput(f"{what} must hold {FINITE}")
    columns.sum_duplicates()
    columns.eliminate_zeros()
    return columns


def frozen(values: Array) -> Array:
    """The same array, which nobody can change any more."""
    values.setflags(write=False)
    return values


def floats(given: object, what: str) -> Array:
    """Numbers of any shape, a fresh copy, so that no caller's array is shared."""
    try:
        raw = np.asarray(given)
        if raw.dtype.kind not in "biufO":
            raise TypeError
        return np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} must be numbers, all lists in it equally long, got something else") from None
