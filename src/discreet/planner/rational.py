"""Small matrices of fractions, solved exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from discreet.errors import Internal

Matrix = tuple[tuple[Fraction, ...], ...]
Row = Sequence[int | Fraction]


def build_identity(size: int) -> Matrix:
    """Ones on the diagonal."""
    return tuple(tuple(Fraction(row == column) for column in range(size)) for row in range(size))


def multiply_matrices(left: Sequence[Row], right: Sequence[Row]) -> Matrix:
    """one times two."""
    columns = list(zip(*right, strict=True))
    return tuple(tuple(_multiply_rows(row, column) for column in columns) for row in left)


def invert_matrix(matrix: Sequence[Row]) -> Matrix:
    """The inverse of a matrix that has one."""
    size = len(matrix)
    rows = [
        [*map(Fraction, matrix_row), *identity_row]
        for matrix_row, identity_row in zip(matrix, build_identity(size), strict=True)
    ]
    for column in range(size):
        pivot = next((row for row in range(column, size) if rows[row][column]), None)
        if pivot is None:
            raise Internal("a matrix without an inverse was to be inverted")
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for other in range(size):
            if other != column and rows[other][column]:
                rows[other] = _subtract_multiple(rows[other], rows[other][column], rows[column])
    return tuple(tuple(row[size:]) for row in rows)


def select_independent_rows(rows: Sequence[Row]) -> Matrix:
    """The first rows of which none follows from those before; all others follow from them."""
    basis: list[tuple[Fraction, ...]] = []
    reduced: list[tuple[int, list[Fraction]]] = []
    for row in rows:
        remainder = list(map(Fraction, row))
        for pivot, reduced_row in reduced:
            remainder = _subtract_multiple(remainder, remainder[pivot], reduced_row)
        first = next((place for place, value in enumerate(remainder) if value), None)
        if first is not None:
            basis.append(tuple(map(Fraction, row)))
            reduced.append((first, [value / remainder[first] for value in remainder]))
    return tuple(basis)


def _multiply_rows(left: Row, right: Row) -> Fraction:
    return Fraction(sum(a * b for a, b in zip(left, right, strict=True) if a and b))


def _subtract_multiple(row: list[Fraction], factor: Fraction, other: list[Fraction]) -> list[Fraction]:
    return [
        value - factor * other_value if other_value else value for value, other_value in zip(row, other, strict=True)
    ]
