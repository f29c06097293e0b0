"""Small matrices of fractions, solved exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from discreet.errors import Internal

Matrix = tuple[tuple[Fraction, ...], ...]
Row = Sequence[int | Fraction]


def unit(size: int) -> Matrix:
    """Ones on the diagonal."""
    return tuple(tuple(Fraction(at == to) for to in range(size)) for at in range(size))


def product(one: Sequence[Row], two: Sequence[Row]) -> Matrix:
    """one times two."""
    columns = list(zip(*two, strict=True))
    return tuple(tuple(_dot(row, column) for column in columns) for row in one)


def inverse(matrix: Sequence[Row]) -> Matrix:
    """The inverse of a matrix that has one."""
    size = len(matrix)
    rows = [[*map(Fraction, own), *one] for own, one in zip(matrix, unit(size), strict=True)]
    for at in range(size):
        pivot = next((row for row in range(at, size) if rows[row][at]), None)
        if pivot is None:
            raise Internal("a matrix without an inverse was to be inverted")
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [value / rows[at][at] for value in rows[at]]
        for other in range(size):
            if other != at and rows[other][at]:
                rows[other] = _less(rows[other], rows[other][at], rows[at])
    return tuple(tuple(row[size:]) for row in rows)


def independent(rows: Sequence[Row]) -> Matrix:
    """The first rows of which none follows from those before; all others follow from them."""
    kept: list[tuple[Fraction, ...]] = []
    reduced: list[tuple[int, list[Fraction]]] = []
    for row in rows:
        left = list(map(Fraction, row))
        for at, own in reduced:
            left = _less(left, left[at], own)
        first = next((place for place, value in enumerate(left) if value), None)
        if first is not None:
            kept.append(tuple(map(Fraction, row)))
            reduced.append((first, [value / left[first] for value in left]))
    return tuple(kept)


def _dot(one: Row, two: Row) -> Fraction:
    return Fraction(sum(a * b for a, b in zip(one, two, strict=True) if a and b))


def _less(row: list[Fraction], times: Fraction, other: list[Fraction]) -> list[Fraction]:
    return [value - times * more if more else value for value, more in zip(row, other, strict=True)]
