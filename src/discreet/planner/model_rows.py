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

from discreet.microdata.private.axes import Axis
from discreet.microdata.private.hilbert import curve_places
from discreet.microdata.private.records import RecordsPlan

LEAST_ROWS, LEAST_IN_BLOCK = 4096, 8
"""So many rows are made, and so many of each block, where the file has as many."""
MOST_TURNS = 4
CROWDS = (2, 12)
"""Rows that crowd are fewer by a factor e for each half, or twelfth, of the domain."""

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]


def records_apart(plan: RecordsPlan, noise: float) -> float:
    """The mean distance in widths of a record from the centroid that stands for it, `noise` the mean of its noise."""
    found, choices = [], _choices(plan)
    for codes, blocks, _ in _files(plan):
        for place, axis in enumerate(plan.axes):
            if axis.named:
                means, chances = _names(*choices[place], codes[:, place], blocks)
                held = np.bincount(blocks)[:, None] / len(blocks)
                found.append(float((held * means * chances).sum()))
            else:
                off = np.abs(codes[:, place] - _codes(axis, _means(axis, codes[:, place], blocks))[blocks])
                found.append(_with_noise(off / _span(axis), noise) if axis.grid.cells > 1 else 0.0)
    return sum(found) / len(found)


def distributions_apart(plan: RecordsPlan, noise: float) -> tuple[float, ...]:
    """Of each column, how far what is released is from what was there: W1 in widths, of names the total variation."""
    choices = _choices(plan)
    found = [
        [
            _names_off(_names(*choices[place], codes[:, place], blocks)[1], codes[:, place], blocks, draws[place])
            if axis.named
            else _numbers_off(axis, codes[:, place], blocks, noise * _laplace(draws[place]))
            for place, axis in enumerate(plan.axes)
        ]
        for codes, blocks, draws in _files(plan)
    ]
    return tuple(sum(column) / len(found) for column in zip(*found, strict=True))


def _files(plan: RecordsPlan) -> Iterator[tuple[Whole, Whole, Floats]]:
    """Rows in the curve's order, the block of each, and for each block and column a number that stands for chance."""
    count = min(plan.rows, max(LEAST_ROWS, LEAST_IN_BLOCK * plan.blocks))
    blocks = np.minimum(np.arange(count) * plan.rows // count // plan.k, plan.blocks - 1)
    files = _model_rows(plan.axes, plan.bits, count)
    chance = _even_points(len(files) * plan.blocks, len(plan.axes)).T
    for place, codes in enumerate(files):
        yield codes, blocks, chance[:, place * plan.blocks : (place + 1) * plan.blocks]


@lru_cache(maxsize=16)
def _model_rows(axes: Sequence[Axis], bits: int, count: int) -> tuple[Whole, ...]:
    """The codes, from 0 on, of rows of each shape and turn, in the order of the curve."""
    points = _even_points(count, len(axes))
    shapes = points, *(np.log1p(points * math.expm1(-crowd)) / -crowd for crowd in CROWDS)
    turns = sorted({turn * len(axes) // MOST_TURNS for turn in range(MOST_TURNS)})
    return tuple(_ordered(axes, bits, shape, turn) for shape in shapes for turn in turns)


def _ordered(axes: Sequence[Axis], bits: int, points: Floats, turn: int) -> Whole:
    codes = np.stack([_at(axis, points[:, place]) for place, axis in enumerate(axes)], axis=1)
    cells = [codes[:, place] // axis.grid.width for place, axis in enumerate(axes)]
    places = np.stack([axis.places(bits)[own] for axis, own in zip(axes, cells, strict=True)], axis=1)
    shared = [own for axis, own in zip(axes, cells, strict=True) if axis.grid.cells > 2**bits]
    ordered: Whole = codes[np.lexsort((*shared, curve_places(np.roll(places, turn, axis=1), bits)))]
    return ordered


def _at(axis: Axis, points: Floats) -> Whole:
    """The codes at places between 0 and 1; names in their order on the line."""
    size = axis.grid.upper - axis.grid.lower + 1
    codes = np.minimum((points * size).astype(np.int64), size - 1)
    return np.argsort(axis.line)[codes] if axis.named else codes


def _even_points(count: int, dimensions: int) -> Floats:
    """Points that fill a cube of side 1 evenly without lying on a lattice along its sides: Roberts' sequence."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    points: Floats = (0.5 + np.outer(np.arange(1, count + 1), steps)) % 1
    return points


def _means(axis: Axis, codes: Whole, blocks: Whole) -> Floats:
    """Of each block, in cells."""
    means: Floats = np.bincount(blocks, codes // axis.grid.width) / np.bincount(blocks)
    return means


def _codes(axis: Axis, means: Floats) -> Floats:
    """As the plan makes them of means in cells."""
    codes: Floats = np.minimum(np.floor((means + 0.5) * axis.grid.width), axis.grid.upper - axis.grid.lower)
    return codes


def _span(axis: Axis) -> int:
    return max(axis.grid.upper - axis.grid.lower, 1)


def _with_noise(off: Floats, noise: float) -> float:
    """The mean size of errors with Laplace noise of this mean size, E|u + L| = |u| + b e^(-|u|/b); at most a half.

    Centroids are clipped to the domain, so that noise of any size is hardly worse than not to know where a value is.
    """
    return min(float((off + noise * np.exp(-off / noise)).mean()), 0.5)


def _laplace(chance: Floats) -> Floats:
    """Laplace noise of mean size 1 at these quantiles."""
    sides: Floats = np.sign(chance - 0.5) * -np.log1p(-np.minimum(2 * np.abs(chance - 0.5), 1 - 2**-40))
    return sides


def _numbers_off(axis: Axis, codes: Whole, blocks: Whole, noise: Floats) -> float:
    means = np.clip(_means(axis, codes, blocks) + noise * (axis.grid.cells - 1), 0, axis.grid.cells - 1)
    released = np.sort(_codes(axis, means)[blocks])
    return float(np.abs(released - np.sort(codes)).mean()) / _span(axis)


def _choices(plan: RecordsPlan) -> dict[int, tuple[Floats, float]]:
    """Of each column of names their distances, and the rate at which a name's chance falls with its mean distance."""
    return {
        place: (np.array(plan.axes[place].apart, dtype=np.float64), selection.loss * plan.k)
        for place, selection in plan.selections.items()
    }


def _names(apart: Floats, rate: float, codes: Whole, blocks: Whole) -> tuple[Floats, Floats]:
    """For each block and name the mean distance in widths, and the chance that the name is chosen."""
    shape = (int(blocks[-1]) + 1, len(apart))
    held = np.bincount(blocks * len(apart) + codes, minlength=math.prod(shape)).reshape(shape)
    means = held @ apart / held.sum(axis=1, keepdims=True)
    weights = np.exp(-rate * (means - means.min(axis=1, keepdims=True)))
    return means / (float(apart.max()) or 1.0), weights / weights.sum(axis=1, keepdims=True)


def _names_off(chances: Floats, codes: Whole, blocks: Whole, chance: Floats) -> float:
    below = (np.cumsum(chances, axis=1) < chance[:, None]).sum(axis=1)
    chosen = np.minimum(below, chances.shape[1] - 1)[blocks]
    counts = [np.bincount(each, minlength=chances.shape[1]) for each in (codes, chosen)]
    return float(np.abs(counts[0] - counts[1]).sum()) / (2 * len(codes))
