"""Noisy tables of pairs of columns, made to fit what is known of each column: public, without rows or randomness."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.inference.vectors import Array

Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]
Pair = tuple[int, int]

MAX_PROJECTION_ROUNDS = 2000
MARGIN_TOLERANCE = 1e-6
"""Margins so near are met."""


def compute_independent_table(first: Counts, second: Counts) -> Array:
    """The table of two columns that have nothing to do with each other; both add up to the same."""
    return np.outer(first, second) / max(float(first.sum()), 1.0)


def shrink_dependence(noisy: Counts, independent: Array, deviation: float) -> Array:
    """What of the distance to independence stands out of noise of this deviation: its large singular values, shrunk.

    The shrinkage has the least expected squares for noise alike in all cells (Gavish and Donoho 2017); nothing is left
    where noise is all there is.
    """
    left, values, right = np.linalg.svd(noisy - independent, full_matrices=False)
    narrow, wide = sorted(noisy.shape)
    shape, unit = narrow / wide, max(deviation * math.sqrt(wide), 1e-9)
    # Noise alone has singular values of up to 1 + sqrt(shape) units.
    is_signal = values > (1 + math.sqrt(shape)) * unit
    scaled = values[is_signal] / unit
    shrunk_values = np.sqrt(np.maximum((scaled**2 - shape - 1) ** 2 - 4 * shape, 0)) / scaled * unit
    table: Array = independent + (left[:, is_signal] * shrunk_values) @ right[is_signal]
    return table


def fit_margins(table: Array, first: Counts, second: Counts, structural_zeros: Mask | None = None) -> Array:
    """The nearest table, in squares, that has these margins, nothing below 0, and 0 where a cell is impossible.

    Dykstra's alternating projections: on the margins in closed form, then on the bounds. What comes out is the nearest
    for the margins that it has, so that only these tell when to stop. Where impossible cells leave no such table the
    bounds hold, and the margins as nearly as they can.
    """
    allowed = np.ones(table.shape) if structural_zeros is None else 1.0 - structural_zeros
    values: Array = table.astype(np.float64)
    correction = np.zeros(table.shape)
    for _ in range(MAX_PROJECTION_ROUNDS):
        row_gaps, column_gaps = first - values.sum(axis=1), second - values.sum(axis=0)
        feasible = values.min() >= 0 and not values[allowed == 0].any()
        if feasible and max(np.abs(row_gaps).max(), np.abs(column_gaps).max()) <= MARGIN_TOLERANCE:
            break
        inner = values + _compute_margin_change(row_gaps, column_gaps) + correction
        values = (np.maximum(inner, 0) * allowed).astype(np.float64, copy=False)
        correction = inner - values
    return values


def _compute_margin_change(row_gaps: Array, column_gaps: Array) -> Array:
    """The least change, in squares, that adds these to the margins; both add up to the same."""
    rows, columns = len(row_gaps), len(column_gaps)
    change: Array = row_gaps[:, None] / columns + column_gaps[None, :] / rows - row_gaps.sum() / (rows * columns)
    return change


def round_table(
    table: Array, first: Counts, second: Counts, uniforms: Array, structural_zeros: Mask | None = None
) -> Counts:
    """Whole numbers near a table of about these margins that have them exactly: controlled rounding.

    Each cell goes down; then up by one where both margins lack some, in an order in which a cell is the next with a
    chance in proportion to what it lost, if its `luck` is uniform between 0 and 1. What is left goes to cells that are
    possible as far as the margins allow it, and to others.
    """
    allowed = np.ones(table.shape, dtype=np.bool_) if structural_zeros is None else ~structural_zeros
    scaled_table = table * np.minimum(1, first / np.maximum(table.sum(axis=1), 1e-9))[:, None]
    scaled_table = scaled_table * np.minimum(1, second / np.maximum(scaled_table.sum(axis=0), 1e-9))
    counts: Counts = np.floor(scaled_table + 1e-9).astype(np.int64)
    row_gaps, column_gaps = first - counts.sum(axis=1), second - counts.sum(axis=0)
    order = np.argsort((np.log(uniforms) / np.maximum(scaled_table - counts, 1e-9)).ravel())[::-1]
    for max_increase, cells in ((1, order), (None, order[allowed.ravel()[order]]), (None, order)):
        for cell in cells.tolist():
            row, column = divmod(cell, table.shape[1])
            increase = min(int(row_gaps[row]), int(column_gaps[column]), max_increase or int(row_gaps[row]))
            if increase > 0 and (max_increase is None or allowed[row, column]):
                counts[row, column] += increase
                row_gaps[row] -= increase
                column_gaps[column] -= increase
    return counts


def find_strongest_tree(strengths: Sequence[float], pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Pairs, strongest first, that join all of `count` columns without a cycle; as far as these pairs can."""
    order = sorted(range(len(pairs)), key=lambda place: (-strengths[place], place))
    tree: list[Pair] = []
    for place in order:
        if pairs[place] in select_joining_pairs(tree, [pairs[place]], count):
            tree.append(pairs[place])
    return tree


def select_joining_pairs(chosen: Iterable[Pair], pairs: Iterable[Pair], count: int) -> list[Pair]:
    """The pairs whose columns the chosen ones do not join yet."""
    components = list(range(count))
    for first, second in chosen:
        components = [components[first] if label == components[second] else label for label in components]
    return [pair for pair in pairs if components[pair[0]] != components[pair[1]]]
