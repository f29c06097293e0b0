"""How far one unit moves many counts together, from their predicates alone. Proof: joint.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.guarantee import Neighbours
from discreet.planner.atoms import Atoms, Count, Grid, laid_out
from discreet.planner.diameter import diameter
from discreet.schema import Schema

WIDEST = 2**50
"""Whole weights add up to at most this, so that all sums of them are exact, in 64 bits and in floating point."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest sum of |change| / scale, and by how much each count changes there: the slopes in 1 / scale.

    Where a bound stands in for the largest sum, the changes are those of the bound.
    """

    value: Fraction
    changes: tuple[int, ...]


def joint_sensitivity(schema: Schema, counts: Sequence[Count], neighbours: Neighbours, rows: int) -> Fraction:
    """The largest sum of |change| / scale over all counts that one unit can make; never below it."""
    return worst(schema, counts, neighbours, rows).value


def worst(schema: Schema, counts: Sequence[Count], neighbours: Neighbours, rows: int) -> Worst:
    """Exact where the predicates cut the table's domain into at most a million cells; else the sum over two halves."""
    if not counts:
        return Worst(Fraction(0), ())
    grid = Grid(schema, counts)
    if grid.cells is not None:
        with laid_out(grid) as atoms:
            return _exact(atoms, [count.scale for count in counts], neighbours, rows)
    if len(counts) == 1:
        change = rows * (2 if neighbours == "replace-one" and counts[0].keys else 1)
        return Worst(change / counts[0].scale, (change,))
    half = len(counts) // 2
    one, two = (worst(schema, part, neighbours, rows) for part in (counts[:half], counts[half:]))
    return Worst(one.value + two.value, one.changes + two.changes)


def _exact(atoms: Atoms, scales: Sequence[Fraction], neighbours: Neighbours, rows: int) -> Worst:
    weights, unit = _whole([1 / scale for scale in scales])
    if neighbours == "add-remove":
        heavy = _heaviest(atoms, weights)
        changes = [int(label > 0) for label in heavy]
    else:
        changes = diameter(atoms.with_nothing() if rows > 1 else atoms, weights)
    total = sum(weight * change for weight, change in zip(weights, changes, strict=True))
    return Worst(rows * total * unit, tuple(rows * change for change in changes))


def _heaviest(atoms: Atoms, weights: Sequence[int]) -> list[int]:
    """The labels of the atom where the counts that hold weigh most."""
    total: NDArray[np.int64] = np.zeros(len(atoms), dtype=np.int64)
    for place, weight in enumerate(weights):
        total += weight * (atoms.labels(place) > 0)
    return atoms.row(int(total.argmax()))


def _whole(weights: Sequence[Fraction]) -> tuple[list[int], Fraction]:
    """Whole numbers and a unit, equal to the weights; or above them, by 2^-49 of them all, where they are too long."""
    common = Fraction(1, math.lcm(*(weight.denominator for weight in weights)))
    unit = max(common, sum(weights, Fraction(0)) / (WIDEST - len(weights)))
    return [math.ceil(weight / unit) for weight in weights], unit
