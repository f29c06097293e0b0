"""How linked records are made, from public facts alone: pairs, bins, and what each part may lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from discreet.errors import InvalidInput
from discreet.inference.linked import Pair
from discreet.microdata.private.grid import Grid
from discreet.microdata.private.linked import LinkedPlan, table_noises
from discreet.microdata.private.loss import Loss
from discreet.schema import Column

BINS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
FOR_COLUMNS = Fraction(3, 10)
CHOOSING = Fraction(1, 10)
FITTED = 0.4
"""Of little noise in a table, in L1 over the rows, fitting leaves about so much."""
MOST_OF_PAIRS, MOST_OF_COLUMNS = 1.0, 1.6
"""And of much: columns that are taken for independent, or that have nothing to do with the exact ones."""
LEFT_OUT = 0.08
"""How far a table is that the tree does not hold, about: the same is assumed of every file."""
COARSE = 0.5
"""How far a table is whose columns are in few bins, about, over the number of bins."""


def linked_plan(columns: Sequence[Column], rows: int, loss: Loss, given: Sequence[tuple[str, str]] = ()) -> LinkedPlan:
    """The plan with the least expected error over all two-way tables: all pairs or a tree, in few bins or many.

    Given pairs are measured whatever is chosen besides.
    """
    if len(columns) < 2:
        raise InvalidInput("linked records have at least two columns; publish one with private-columns")
    grids = tuple(Grid.of(column) for column in columns)
    pairs = _places([column.name for column in columns], given)
    measured = loss.part(1 - FOR_COLUMNS)
    every = [LinkedPlan(rows, grids, most, loss.part(FOR_COLUMNS), measured, None, pairs) for most in BINS]
    trees = [
        replace(plan, measuring=loss.part(1 - FOR_COLUMNS - CHOOSING), choosing=loss.part(CHOOSING)) for plan in every
    ]
    known = [replace(plan, error=expected_error(plan)) for plan in [*every, *(trees if len(columns) > 2 else ())]]
    best: LinkedPlan = min(known, key=lambda plan: plan.error)
    return best


def expected_error(plan: LinkedPlan) -> float:
    """The mean L1 distance of two-way tables, in shares of the rows, that is to be expected of a plan."""
    sides = [min(grid.all_cells, plan.most) for grid in plan.grids]
    sizes = [one * other for one, other in combinations(sides, 2)]
    if plan.choosing is not None:
        sizes = [round(sum(sizes) / len(sizes))] * max(len(sides) - 1, len(plan.given))
    noise = sum(_noise(sizes, plan.measuring)) / len(sizes) / plan.rows
    # A table has the noise of its two columns besides.
    apart = sum(_noise(sides, plan.for_columns)) * 2 / len(sides) / plan.rows
    coarse = sum(COARSE / plan.most for grid in plan.grids if grid.all_cells > plan.most) * 2 / len(sides)
    left_out = LEFT_OUT if plan.choosing is not None else 0.0
    return min(_left(noise, MOST_OF_PAIRS) + _left(apart, MOST_OF_COLUMNS) + coarse + left_out, 2.0)  # no L1 is more


def _noise(sizes: Sequence[int], loss: Loss) -> list[float]:
    """The expected L1 norm of the noise of each of several tables of these sizes that share a loss."""
    return [size * noise.expected_error() for size, noise in zip(sizes, table_noises(sizes, loss), strict=True)]


def _left(noise: float, most: float) -> float:
    return FITTED * noise / (1 + FITTED * noise / most)


def _places(names: Sequence[str], given: Sequence[tuple[str, str]]) -> tuple[Pair, ...]:
    if any(name not in names for pair in given for name in pair) or any(one == other for one, other in given):
        raise InvalidInput("given pairs are of two different columns of the file; name those")
    ordered = [sorted((names.index(one), names.index(other))) for one, other in given]
    return tuple(dict.fromkeys((one, other) for one, other in ordered))
