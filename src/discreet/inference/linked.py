"""Noisy tables of pairs of columns, made to fit what is known of each column: public, without rows or randomness."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Pair = tuple[int, int]

MOST_ROUNDS = 2000
SETTLED = 1e-6
"""Margins so near are met."""


def product(first: Counts, second: Counts) -> Array:
    """The table of two columns that have nothing to do with each other; both add up to the same."""
    return np.outer(first, second) / max(float(first.sum()), 1.0)


def shrunk(noisy: Counts, independent: Array, deviation: float) -> Array:
    """What of the distance to independence stands out of noise of this deviation: its large singular values, shrunk.

    The shrinkage has the least expected squares for noise alike in all cells (Gavish and Donoho 2017); nothing is left
    where noise is all there is.
    """
    left, values, right = np.linalg.svd(noisy - independent, full_matrices=False)
    narrow, wide = sorted(noisy.shape)
    shape, unit = narrow / wide, max(deviation * math.sqrt(wide), 1e-9)
    # Noise alone has singular values of up to 1 + sqrt(shape) units.
    out = values > (1 + math.sqrt(shape)) * unit
    scaled = values[out] / unit
    kept = np.sqrt(np.maximum((scaled**2 - shape - 1) ** 2 - 4 * shape, 0)) / scaled * unit
    table: Array = independent + (left[:, out] * kept) @ right[out]
    return table


def fitted(table: Array, first: Counts, second: Counts, impossible: Mask | None = None) -> Array:
    """The nearest table, in squares, that has these margins, nothing below 0, and 0 where a cell is impossible.

    Dykstra's alternating projections: on the margins in closed form, then on the bounds. What comes out is the nearest
    for the margins that it has, so that only these tell when to stop. Where impossible cells leave no such table the
    bounds hold, and the margins as nearly as they can.
    """
    allowed = np.ones(table.shape) if impossible is None else 1.0 - impossible
    values: Array = table.astype(np.float64)
    taken = np.zeros(table.shape)
    for _ in range(MOST_ROUNDS):
        lacks, wants = first - values.sum(axis=1), second - values.sum(axis=0)
        feasible = values.min() >= 0 and not values[allowed == 0].any()
        if feasible and max(np.abs(lacks).max(), np.abs(wants).max()) <= SETTLED:
            break
        inner = values + _to_margins(lacks, wants) + taken
        values = (np.maximum(inner, 0) * allowed).astype(np.float64, copy=False)
        taken = inner - values
    return values


def _to_margins(lacks: Array, wants: Array) -> Array:
    """The least change, in squares, that adds these to the margins; both add up to the same."""
    rows, columns = len(lacks), len(wants)
    change: Array = lacks[:, None] / columns + wants[None, :] / rows - lacks.sum() / (rows * columns)
    return change


def whole_table(table: Array, first: Counts, second: Counts, luck: Array, impossible: Mask | None = None) -> Counts:
    """Whole numbers near a table of about these margins that have them exactly: controlled rounding.

    Each cell goes down; then up by one where both margins lack some, in an order in which a cell is the next with a
    chance in proportion to what it lost, if its `luck` is uniform between 0 and 1. What is left goes to cells that are
    possible as far as the margins allow it, and to others.
    """
    allowed = np.ones(table.shape, dtype=np.bool_) if impossible is None else ~impossible
    near = table * np.minimum(1, first / np.maximum(table.sum(axis=1), 1e-9))[:, None]
    near = near * np.minimum(1, second / np.maximum(near.sum(axis=0), 1e-9))
    whole: Counts = np.floor(near + 1e-9).astype(np.int64)
    lacks, wants = first - whole.sum(axis=1), second - whole.sum(axis=0)
    order = np.argsort((np.log(luck) / np.maximum(near - whole, 1e-9)).ravel())[::-1]
    for most, cells in ((1, order), (None, order[allowed.ravel()[order]]), (None, order)):
        for cell in cells.tolist():
            row, column = divmod(cell, table.shape[1])
            up = min(int(lacks[row]), int(wants[column]), most or int(lacks[row]))
            if up > 0 and (most is None or allowed[row, column]):
                whole[row, column] += up
                lacks[row] -= up
                wants[column] -= up
    return whole


def strongest_tree(strengths: Sequence[float], pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Pairs, strongest first, that join all of `count` columns without a cycle; as far as these pairs can."""
    order = sorted(range(len(pairs)), key=lambda place: (-strengths[place], place))
    tree: list[Pair] = []
    for place in order:
        if pairs[place] in joining(tree, [pairs[place]], count):
            tree.append(pairs[place])
    return tree


def joining(chosen: Iterable[Pair], pairs: Iterable[Pair], count: int) -> list[Pair]:
    """The pairs whose columns the chosen ones do not join yet."""
    part = list(range(count))
    for one, other in chosen:
        part = [part[one] if own == part[other] else own for own in part]
    return [pair for pair in pairs if part[pair[0]] != part[pair[1]]]
