"""How far one unit moves many counts together, from their predicates alone. Proof: joint.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.guarantee import NeighborRelation
from discreet.planner.atoms import Atoms, CountQuery, DomainGrid, lay_out_atoms
from discreet.planner.diameter import find_farthest_changes
from discreet.schema import Schema

MAX_WEIGHT_SUM = 2**50
"""Whole weights add up to at most this, so that all sums of them are exact, in 64 bits and in floating point."""


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The largest sum of |change| / scale, and by how much each count changes there: the slopes in 1 / scale.

    Where a bound stands in for the largest sum, the changes are those of the bound.
    """

    value: Fraction
    changes: tuple[int, ...]


def compute_joint_sensitivity(
    schema: Schema, counts: Sequence[CountQuery], neighbors: NeighborRelation, rows: int
) -> Fraction:
    """The largest sum of |change| / scale over all counts that one unit can make; never below it."""
    return find_worst_case(schema, counts, neighbors, rows).value


def find_worst_case(schema: Schema, counts: Sequence[CountQuery], neighbors: NeighborRelation, rows: int) -> WorstCase:
    """Exact where the predicates cut the table's domain into at most a million cells; else the sum over two halves."""
    if not counts:
        return WorstCase(Fraction(0), ())
    grid = DomainGrid(schema, counts)
    if grid.cells is not None:
        with lay_out_atoms(grid) as atoms:
            return _compute_exact_worst_case(atoms, [count.scale for count in counts], neighbors, rows)
    if len(counts) == 1:
        change = rows * (2 if neighbors == "replace-one" and counts[0].keys else 1)
        return WorstCase(change / counts[0].scale, (change,))
    half = len(counts) // 2
    first, second = (find_worst_case(schema, part, neighbors, rows) for part in (counts[:half], counts[half:]))
    return WorstCase(first.value + second.value, first.changes + second.changes)


def _compute_exact_worst_case(
    atoms: Atoms, scales: Sequence[Fraction], neighbors: NeighborRelation, rows: int
) -> WorstCase:
    weights, unit = _scale_to_integers([1 / scale for scale in scales])
    if neighbors == "add-remove":
        heaviest_labels = _find_heaviest_labels(atoms, weights)
        changes = [int(label > 0) for label in heaviest_labels]
    else:
        changes = find_farthest_changes(atoms.add_uncounted() if rows > 1 else atoms, weights)
    total = sum(weight * change for weight, change in zip(weights, changes, strict=True))
    return WorstCase(rows * total * unit, tuple(rows * change for change in changes))


def _find_heaviest_labels(atoms: Atoms, weights: Sequence[int]) -> list[int]:
    """The labels of the atom where the counts that hold weigh most."""
    total: NDArray[np.int64] = np.zeros(len(atoms), dtype=np.int64)
    for place, weight in enumerate(weights):
        total += weight * (atoms.get_labels(place) > 0)
    return atoms.get_row(int(total.argmax()))


def _scale_to_integers(weights: Sequence[Fraction]) -> tuple[list[int], Fraction]:
    """Whole numbers and a unit, equal to the weights; or above them, by 2^-49 of them all, where they are too long."""
    common = Fraction(1, math.lcm(*(weight.denominator for weight in weights)))
    unit = max(common, sum(weights, Fraction(0)) / (MAX_WEIGHT_SUM - len(weights)))
    return [math.ceil(weight / unit) for weight in weights], unit
