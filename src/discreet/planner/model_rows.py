"""Rows made of public facts alone, to see beforehand what a layout of private records does to such rows.

They are spread evenly over the domain, or crowd at its low end, by each column for itself. Which columns the curve
tells apart best depends on the rows, so that each column takes the places of others in turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.private.axes import CurveAxis
from discreet.microdata.private.hilbert import compute_curve_places
from discreet.microdata.private.records import RecordsPlan

MIN_MODEL_ROWS, MIN_BLOCK_ROWS = 4096, 8
"""So many rows are made, and so many of each block, where the file has as many."""
MAX_TURNS = 4
CROWDING_RATES = (2, 12)
"""Rows that crowd are fewer by a factor e for each half, or twelfth, of the domain."""

IntArray = NDArray[np.int64]
Floats = NDArray[np.float64]


def estimate_record_distance(plan: RecordsPlan, noise: float) -> float:
    """The mean distance in widths of a record from the centroid that stands for it, `noise` the mean of its noise."""
    distances, choices = [], _list_selection_rates(plan)
    for codes, blocks, _ in _generate_files(plan):
        for place, axis in enumerate(plan.axes):
            if axis.is_nominal:
                means, chances = _compute_name_chances(*choices[place], codes[:, place], blocks)
                block_shares = np.bincount(blocks)[:, None] / len(blocks)
                distances.append(float((block_shares * means * chances).sum()))
            else:
                offsets = np.abs(
                    codes[:, place] - _round_means(axis, _compute_block_means(axis, codes[:, place], blocks))[blocks]
                )
                distances.append(
                    _add_noise_error(offsets / _get_width(axis), noise) if axis.grid.cell_count > 1 else 0.0
                )
    return sum(distances) / len(distances)


def estimate_distribution_errors(plan: RecordsPlan, noise: float) -> tuple[float, ...]:
    """Of each column, how far what is released is from what was there: W1 in widths, of names the total variation."""
    choices = _list_selection_rates(plan)
    errors = [
        [
            _compute_name_error(
                _compute_name_chances(*choices[place], codes[:, place], blocks)[1],
                codes[:, place],
                blocks,
                draws[place],
            )
            if axis.is_nominal
            else _compute_number_error(axis, codes[:, place], blocks, noise * _compute_laplace_quantiles(draws[place]))
            for place, axis in enumerate(plan.axes)
        ]
        for codes, blocks, draws in _generate_files(plan)
    ]
    return tuple(sum(column) / len(errors) for column in zip(*errors, strict=True))


def _generate_files(plan: RecordsPlan) -> Iterator[tuple[IntArray, IntArray, Floats]]:
    """Rows in the curve's order, the block of each, and for each block and column a number that stands for chance."""
    count = min(plan.rows, max(MIN_MODEL_ROWS, MIN_BLOCK_ROWS * plan.block_count))
    blocks = np.minimum(np.arange(count) * plan.rows // count // plan.k, plan.block_count - 1)
    files = _build_model_rows(plan.axes, plan.bits, count)
    chance = _spread_points(len(files) * plan.block_count, len(plan.axes)).T
    for place, codes in enumerate(files):
        yield codes, blocks, chance[:, place * plan.block_count : (place + 1) * plan.block_count]


@lru_cache(maxsize=16)
def _build_model_rows(axes: Sequence[CurveAxis], bits: int, count: int) -> tuple[IntArray, ...]:
    """The codes, from 0 on, of rows of each shape and turn, in the order of the curve."""
    points = _spread_points(count, len(axes))
    shapes = points, *(np.log1p(points * math.expm1(-crowd)) / -crowd for crowd in CROWDING_RATES)
    turns = sorted({turn * len(axes) // MAX_TURNS for turn in range(MAX_TURNS)})
    return tuple(_order_rows(axes, bits, shape, turn) for shape in shapes for turn in turns)


def _order_rows(axes: Sequence[CurveAxis], bits: int, points: Floats, turn: int) -> IntArray:
    codes = np.stack([_compute_codes(axis, points[:, place]) for place, axis in enumerate(axes)], axis=1)
    cells = [codes[:, place] // axis.grid.width for place, axis in enumerate(axes)]
    places = np.stack(
        [axis.compute_places(bits)[axis_cells] for axis, axis_cells in zip(axes, cells, strict=True)], axis=1
    )
    tie_cells = [axis_cells for axis, axis_cells in zip(axes, cells, strict=True) if axis.grid.cell_count > 2**bits]
    ordered_codes: IntArray = codes[np.lexsort((*tie_cells, compute_curve_places(np.roll(places, turn, axis=1), bits)))]
    return ordered_codes


def _compute_codes(axis: CurveAxis, points: Floats) -> IntArray:
    """The codes at places between 0 and 1; names in their order on the line."""
    size = axis.grid.upper - axis.grid.lower + 1
    codes = np.minimum((points * size).astype(np.int64), size - 1)
    return np.argsort(axis.name_ranks)[codes] if axis.is_nominal else codes


def _spread_points(count: int, dimensions: int) -> Floats:
    """Points that fill a cube of side 1 evenly without lying on a lattice along its sides: Roberts' sequence."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    points: Floats = (0.5 + np.outer(np.arange(1, count + 1), steps)) % 1
    return points


def _compute_block_means(axis: CurveAxis, codes: IntArray, blocks: IntArray) -> Floats:
    """Of each block, in cells."""
    means: Floats = np.bincount(blocks, codes // axis.grid.width) / np.bincount(blocks)
    return means


def _round_means(axis: CurveAxis, means: Floats) -> Floats:
    """As the plan makes them of means in cells."""
    codes: Floats = np.minimum(np.floor((means + 0.5) * axis.grid.width), axis.grid.upper - axis.grid.lower)
    return codes


def _get_width(axis: CurveAxis) -> int:
    return max(axis.grid.upper - axis.grid.lower, 1)


def _add_noise_error(off: Floats, noise: float) -> float:
    """The mean size of errors with Laplace noise of this mean size, E|u + L| = |u| + b e^(-|u|/b); at most a half.

    Centroids are clipped to the domain, so that noise of any size is hardly worse than not to know where a value is.
    """
    return min(float((off + noise * np.exp(-off / noise)).mean()), 0.5)


def _compute_laplace_quantiles(chance: Floats) -> Floats:
    """Laplace noise of mean size 1 at these quantiles."""
    sides: Floats = np.sign(chance - 0.5) * -np.log1p(-np.minimum(2 * np.abs(chance - 0.5), 1 - 2**-40))
    return sides


def _compute_number_error(axis: CurveAxis, codes: IntArray, blocks: IntArray, noise: Floats) -> float:
    means = np.clip(
        _compute_block_means(axis, codes, blocks) + noise * (axis.grid.cell_count - 1), 0, axis.grid.cell_count - 1
    )
    released_codes = np.sort(_round_means(axis, means)[blocks])
    return float(np.abs(released_codes - np.sort(codes)).mean()) / _get_width(axis)


def _list_selection_rates(plan: RecordsPlan) -> dict[int, tuple[Floats, float]]:
    """Of each column of names their distances, and the rate at which a name's chance falls with its mean distance."""
    return {
        place: (np.array(plan.axes[place].distances, dtype=np.float64), selection.rate * plan.k)
        for place, selection in plan.selections.items()
    }


def _compute_name_chances(apart: Floats, rate: float, codes: IntArray, blocks: IntArray) -> tuple[Floats, Floats]:
    """For each block and name the mean distance in widths, and the chance that the name is chosen."""
    shape = (int(blocks[-1]) + 1, len(apart))
    name_counts = np.bincount(blocks * len(apart) + codes, minlength=math.prod(shape)).reshape(shape)
    means = name_counts @ apart / name_counts.sum(axis=1, keepdims=True)
    weights = np.exp(-rate * (means - means.min(axis=1, keepdims=True)))
    return means / (float(apart.max()) or 1.0), weights / weights.sum(axis=1, keepdims=True)


def _compute_name_error(chances: Floats, codes: IntArray, blocks: IntArray, chance: Floats) -> float:
    below = (np.cumsum(chances, axis=1) < chance[:, None]).sum(axis=1)
    chosen_names = np.minimum(below, chances.shape[1] - 1)[blocks]
    counts = [np.bincount(each, minlength=chances.shape[1]) for each in (codes, chosen_names)]
    return float(np.abs(counts[0] - counts[1]).sum()) / (2 * len(codes))
