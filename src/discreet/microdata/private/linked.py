"""Private linked records: noisy tables of pairs of columns on the bins of private columns. Proof: linked.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from types import MappingProxyType

import numpy as np

from discreet.errors import Internal, InvalidInput
from discreet.inference.linked import Array, Pair, product
from discreet.kernel.entropy import Entropy, source
from discreet.kernel.noise import Noise
from discreet.microdata.private.bins import Binned
from discreet.microdata.private.columns import noisy
from discreet.microdata.private.grid import Counts, Grid
from discreet.microdata.private.loss import Loss
from discreet.microdata.private.pairs import choices_left, chosen_tree, distance

Joint = Callable[[Sequence[tuple[Binned, Binned]]], Sequence[Counts]]
L1, SQUARES = 2, 2
"""What one replaced row moves a table by: two cells, by 1 each."""
MILLION = 10**6
NO_RUNS: Mapping[str, Counts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LinkedPlan:
    """What is lost for the columns, the choice of pairs and their tables, which have at most `most` bins a side.

    Without a loss for the choice all pairs are measured; with one, a spanning tree. Given pairs always are.
    """

    rows: int
    grids: tuple[Grid, ...]
    most: int
    for_columns: Loss
    measuring: Loss
    choosing: Loss | None = None
    given: tuple[Pair, ...] = ()
    error: float = math.nan
    """The expected mean L1 distance of two-way tables, in shares of the rows, as the planner states it."""

    def __post_init__(self) -> None:
        """At least two columns and two bins; given pairs name two columns each."""
        if len(self.grids) < 2 or self.most < 2 or self.rows < 1:
            raise InvalidInput("linked records have at least one row, two columns and two bins of each")
        if any(not 0 <= one < other < len(self.grids) for one, other in self.given):
            raise InvalidInput("given pairs are two columns each, by their places, the first one before the other")

    @property
    def name(self) -> str:
        """What is done, in plain words."""
        count = len(self.grids)
        if self.choosing is None:
            return f"all {count * (count - 1) // 2} pairs of columns in at most {self.most} bins"
        pairs = len(self.given) + choices_left(self.given, count)
        return f"a tree of {pairs} pairs of columns in at most {self.most} bins"

    def binned(self, columns: Mapping[str, Counts], runs: Mapping[str, Counts] = NO_RUNS) -> tuple[Binned, ...]:
        """The bins of each column, by its private counts, which add up to the rows; no run of `runs` is cut."""
        if any(int(columns[grid.column].sum()) != self.rows for grid in self.grids):
            raise Internal("the private counts of a column do not add up to the rows")
        return tuple(Binned.of(grid, columns[grid.column], self.most, runs.get(grid.column)) for grid in self.grids)


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """Private columns in bins, and noisy tables of pairs of them: from here on nothing more is lost."""

    columns: tuple[Binned, ...]
    pairs: tuple[Pair, ...]
    tables: tuple[Counts, ...]
    deviations: tuple[float, ...]
    """The standard deviation of the noise of each table."""


def draw_linked(
    plan: LinkedPlan,
    columns: Mapping[str, Counts],
    joint: Joint,
    entropy: Entropy | None = None,
    runs: Mapping[str, Counts] = NO_RUNS,
) -> Linked:
    """Choose the pairs and measure them; `columns` are private counts of cells, `joint` tells exact tables.

    `runs` are the first cells of the runs that a column was counted in, where it was.
    """
    drawn, binned = source(entropy), plan.binned(columns, runs)
    pairs = list(combinations(range(len(binned)), 2))
    exact = dict(zip(pairs, joint([(binned[one], binned[other]) for one, other in pairs]), strict=True))
    chosen = pairs
    if plan.choosing is not None:
        scores = [distance(exact[pair], _independent(binned, pair)) for pair in pairs]
        chosen = chosen_tree(scores, pairs, plan.given, len(binned), plan.choosing, drawn)
    noises = table_noises([exact[pair].size for pair in chosen], plan.measuring)
    tables = tuple(_noised(exact[pair], noise, drawn) for pair, noise in zip(chosen, noises, strict=True))
    return Linked(binned, tuple(chosen), tables, tuple(math.sqrt(noise.variance()) for noise in noises))


def table_noises(sizes: Sequence[int], loss: Loss) -> list[Noise]:
    """The noise of each of several tables of so many cells that lose this much together."""
    return [loss.part(share).noise(L1, SQUARES) for share in table_shares(sizes, loss)]


def table_shares(sizes: Sequence[int], loss: Loss) -> list[Fraction]:
    """Shares of a loss, in millionths that add up to 1, of least expected noise over all tables of these sizes.

    The noise of a table grows with its cells m and with 1/epsilon or 1/sqrt(rho): the sum of m/epsilon is least where
    epsilon goes as sqrt(m), that of m/sqrt(rho) where rho goes as m^(2/3).
    """
    weights = [size ** (0.5 if loss.pure else 2 / 3) for size in sizes]
    parts = [max(1, math.floor(MILLION * weight / sum(weights))) for weight in weights]
    parts[int(np.argmax(weights))] += MILLION - sum(parts)
    return [Fraction(part, MILLION) for part in parts]


def _independent(binned: Sequence[Binned], pair: Pair) -> Array:
    return product(binned[pair[0]].sizes, binned[pair[1]].sizes)


def _noised(table: Counts, noise: Noise, entropy: Entropy) -> Counts:
    return noisy(table.ravel(), noise, entropy).reshape(table.shape)
