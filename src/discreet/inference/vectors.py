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
FINITE_RULE = "finite numbers of at most 10^100; take out or mend those that are NaN, infinite or larger"


def parse_vector(numbers: object, what: str) -> Array:
    """A list of finite numbers."""
    array = parse_floats(numbers, what)
    if array.ndim != 1 or not len(array):
        raise InvalidInput(f"{what} must be a list of numbers, at least one, got shape {array.shape}")
    if not (np.abs(array) <= MAX_NUMBER).all():
        raise InvalidInput(f"{what} must be {FINITE_RULE}")
    return array


def parse_constants(numbers: object, count: int) -> Array:
    """The right hand side: one finite number for every constraint, and one alone where there is one."""
    array = np.atleast_1d(parse_floats(numbers, "the constants c"))
    if array.shape != (count,):
        raise InvalidInput(
            f"B has {count} columns, a constraint each, so c must have {count} numbers, got {array.size}"
        )
    return parse_vector(array, "the constants c") if count else array


def parse_variances(variance: object, answers: int) -> Array:
    """The variance of every answer's noise: one number for all, or one for each; the unit, 1, where none is given."""
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


def parse_matrix(entries: Any, shape: tuple[int | None, int | None], what: str) -> Sparse:
    """A finite matrix, one of those in HAS, dense or sparse, as sparse; None in the shape is any number."""
    from scipy import sparse

    parsed_entries = (
        sparse.csc_array(entries, copy=True)
        if sparse.issparse(entries) and entries.ndim == 2
        else parse_floats(entries, what)
    )
    if parsed_entries.ndim != 2:
        raise InvalidInput(f"{what} has {MATRIX_SHAPES[what]}")
    for need, has, side in zip(shape, parsed_entries.shape, ("row", "column"), strict=True):
        if need not in {None, has}:
            raise InvalidInput(
                f"{what} has {MATRIX_SHAPES[what]}; here it must have {need} {side}{'s' * (need != 1)}, got {has}"
            )
    columns = sparse.csc_array(parsed_entries)
    columns.data = parse_floats(columns.data, what)
    if not (np.abs(columns.data) <= MAX_NUMBER).all():
        raise InvalidInput(f"{what} must hold {FINITE_RULE}")
    columns.sum_duplicates()
    columns.eliminate_zeros()
    return columns


def freeze_array(values: Array) -> Array:
    """The same array, which nobody can change any more."""
    values.setflags(write=False)
    return values


def parse_floats(numbers: object, what: str) -> Array:
    """Numbers of any shape, a fresh copy, so that no caller's array is shared."""
    try:
        raw = np.asarray(numbers)
        if raw.dtype.kind not in "biufO":
            raise TypeError
        return np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} must be numbers, all lists in it equally long, got something else") from None
