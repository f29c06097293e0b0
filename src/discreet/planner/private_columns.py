"""How each column of a private file is published, and its share of the loss: from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from discreet.errors import InvalidInput, Unsupported
from discreet.kernel.discrete_gaussian import WIDEST
from discreet.microdata.private.blocks import RankBlocks, best_k
from discreet.microdata.private.categories import Categories
from discreet.microdata.private.columns import ColumnPlan
from discreet.microdata.private.cumulative import Cumulative
from discreet.microdata.private.grid import Grid
from discreet.microdata.private.loss import Loss
from discreet.microdata.private.ordered import MOST_NAMES, OrderedBlocks, names
from discreet.schema import Column

FINEST = 10**6
"""Shares are told in millionths, so that they add up exactly."""
MOST_MEASURED = 2**16
"""Finer counts of a column are not weighed: half a run is then less than a hundred-thousandth of the domain."""
MOST_CHOICES = 2**17
"""Blocks of names times names: every name of every block is weighed, in exact numbers."""
LADDER = tuple(sorted({round(2 ** (half / 2)) for half in range(2, 33)}))
"""How many runs of cells are tried."""
STRIDE = 1.25
"""Sizes of blocks, and shares, are tried in steps of this factor."""
ROUNDS = 12
LEAST_EPSILON, LEAST_RHO = Fraction(1, 10**100), Fraction(1, 2**56)
"""With less, floats do not hold the error, and Gaussian noise of a level is too wide to be drawn exactly."""
LEAST_SHARE = 1e-3
"""No column aims at less than this of an even share, so that none is lost altogether."""


def column_plans(column: Column, rows: int, loss: Loss, k: int | None = None) -> list[ColumnPlan]:
    """All ways to publish a column that are weighed.

    A given k is that of rank blocks, where they are possible; a plan whose own k is None does without it.
    """
    if column.private_keys:
        raise InvalidInput(
            f"{column.name[:40]!r} has no public list of values; a private file needs one, so declare it"
        )
    if rows < 1 or (k is not None and not 1 <= k <= rows):
        raise InvalidInput(f"a private file has at least one row, and blocks of 1 to {max(rows, 1)} rows; change k")
    if loss.epsilon < LEAST_EPSILON if loss.pure else loss.rho < LEAST_RHO:
        raise Unsupported("so small a share of the loss needs noise too wide to be drawn; ask for a larger epsilon")
    grid = Grid.of(column)
    if grid.all_cells <= 2:
        return [Categories(grid, rows, loss)]
    return _ordered(grid, rows, loss, k) if grid.ordered else _nominal(column, grid, rows, loss, k)


@lru_cache(maxsize=4096)
def best_column(column: Column, rows: int, loss: Loss, k: int | None = None) -> ColumnPlan:
    """The plan of the least expected error; of equal ones the first."""
    return min(column_plans(column, rows, loss, k), key=lambda plan: plan.error)


def split(
    columns: Sequence[Column], rows: int, loss: Loss, k: int | None = None
) -> tuple[tuple[ColumnPlan, Fraction], ...]:
    """The best plan of each column at its share of the loss; shares add up to 1, for the least sum of errors found."""
    if not columns:
        raise InvalidInput("a private file has at least one column")
    if len(columns) > FINEST:
        raise InvalidInput(f"a loss is shared by at most {FINEST:,} columns")
    even = [1 / len(columns)] * len(columns)
    planned = [
        tuple((best_column(each, rows, loss.part(own), k), own) for each, own in zip(columns, shares, strict=True))
        for shares in (_told(even), _told(_balanced(columns, rows, loss, k, even)))
    ]
    return min(planned, key=lambda way: sum(plan.error for plan, _ in way))


def _ordered(grid: Grid, rows: int, loss: Loss, k: int | None) -> list[ColumnPlan]:
    """Sums of blocks need wider noise than counts: they are left out where it cannot be drawn exactly."""
    drawn = loss.pure or (grid.cells - 1) ** 2 / (2 * loss.rho) <= Fraction(WIDEST) ** 2
    if grid.missing or not drawn:
        return [_cumulative(grid, rows, loss)]
    if k is not None:
        return [RankBlocks(grid, rows, k, loss)]
    return [_cumulative(grid, rows, loss), RankBlocks(grid, rows, best_k(rows, loss), loss)]


def _cumulative(grid: Grid, rows: int, loss: Loss) -> Cumulative:
    """Ever more runs, as long as that helps; and every cell, or as many runs as are weighed."""
    found = [Cumulative(grid, rows, min(grid.cells, MOST_MEASURED), loss)]
    for measured in LADDER:
        if measured >= min(grid.cells, MOST_MEASURED):
            break
        found.append(Cumulative(grid, rows, measured, loss))
        if len(found) > 3 and _worth(found[-1]) > _worth(found[-2]) > _worth(found[-3]):
            break
    return min(found, key=_worth)


def _worth(plan: Cumulative) -> tuple[float, int]:
    """What is expected; where nothing is promised the fewest counts, as none tells anything."""
    return plan.error if plan.bound < 1 else 1.0, plan.measured


def _nominal(column: Column, grid: Grid, rows: int, loss: Loss, k: int | None) -> list[ColumnPlan]:
    plans: list[ColumnPlan] = [Categories(grid, rows, loss)]
    if len(column.categories) > MOST_NAMES or grid.width > 1:
        return plans
    sizes = {min(rows, round(STRIDE**power)) for power in range(math.ceil(math.log(rows, STRIDE)) + 1)}
    few = [size for size in (sorted(sizes) if k is None else [k]) if rows // size * grid.all_cells <= MOST_CHOICES]
    blocks = [OrderedBlocks(grid, rows, size, loss, names(column)) for size in few]
    return [*plans, *sorted(blocks, key=lambda plan: (plan.error, -plan.k))[:1]]


def _balanced(columns: Sequence[Column], rows: int, loss: Loss, k: int | None, even: list[float]) -> list[float]:
    """Shares in proportion to what each column gains if its share grows by a factor: there moving loss helps none."""
    shares = even
    for _ in range(ROUNDS):
        gains = [_gain(each, rows, loss, k, share) for each, share in zip(columns, shares, strict=True)]
        aims = [max(gain / (sum(gains) or 1), LEAST_SHARE / len(columns)) for gain in gains]
        roots = [math.sqrt(aim * share) for aim, share in zip(aims, shares, strict=True)]
        shares = [root / sum(roots) for root in roots]
    return shares


def _gain(column: Column, rows: int, loss: Loss, k: int | None, share: float) -> float:
    """By how much the error falls where the share grows, from a fifth less to a quarter more."""
    parts = [Fraction(max(1, round(share * by * FINEST)), FINEST) for by in (1 / STRIDE, STRIDE)]
    less, more = (best_column(column, rows, loss.part(part), k).error for part in parts)
    return max(less - more, 0.0)


def _told(shares: Sequence[float]) -> list[Fraction]:
    """In millionths, at least one for each; the largest takes the rest, so that they add up to 1."""
    units = [max(1, math.floor(share * FINEST)) for share in shares]
    units[units.index(max(units))] += FINEST - sum(units)
    return [Fraction(unit, FINEST) for unit in units]
