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
from discreet.inference.linked import Pair, compute_independent_table
from discreet.inference.vectors import Array
from discreet.kernel.entropy import Entropy, get_entropy
from discreet.kernel.noise import Noise
from discreet.microdata.private.bins import BinnedColumn
from discreet.microdata.private.columns import add_noise_to_totals
from discreet.microdata.private.grid import ColumnGrid, Counts
from discreet.microdata.private.loss import PrivacyBudget
from discreet.microdata.private.pairs import choose_spanning_tree, compute_pair_score, count_choices_left

CountJointTables = Callable[[Sequence[tuple[BinnedColumn, BinnedColumn]]], Sequence[Counts]]
L1_SENSITIVITY, SQUARED_L2_SENSITIVITY = 2, 2
"""What one replaced row moves a table by: two cells, by 1 each."""
MILLION = 10**6
NO_RUNS: Mapping[str, Counts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MarginalsPlan:
    """What is lost for the columns, the choice of pairs and their tables, which have at most `most` bins a side.

    Without a loss for the choice all pairs are measured; with one, a spanning tree. Given pairs always are.
    """

    rows: int
    grids: tuple[ColumnGrid, ...]
    max_bins: int
    columns_budget: PrivacyBudget
    measuring_budget: PrivacyBudget
    choosing_budget: PrivacyBudget | None = None
    required_pairs: tuple[Pair, ...] = ()
    error: float = math.nan
    """The expected mean L1 distance of two-way tables, in shares of the rows, as the planner states it."""

    def __post_init__(self) -> None:
        """At least two columns and two bins; given pairs name two columns each."""
        if len(self.grids) < 2 or self.max_bins < 2 or self.rows < 1:
            raise InvalidInput("linked records have at least one row, two columns and two bins of each")
        if any(not 0 <= first < second < len(self.grids) for first, second in self.required_pairs):
            raise InvalidInput("given pairs are two columns each, by their places, the first one before the other")

    @property
    def name(self) -> str:
        """What is done, in plain words."""
        count = len(self.grids)
        if self.choosing_budget is None:
            return f"all {count * (count - 1) // 2} pairs of columns in at most {self.max_bins} bins"
        pairs = len(self.required_pairs) + count_choices_left(self.required_pairs, count)
        return f"a tree of {pairs} pairs of columns in at most {self.max_bins} bins"

    def bin_columns(
        self, columns: Mapping[str, Counts], runs: Mapping[str, Counts] = NO_RUNS
    ) -> tuple[BinnedColumn, ...]:
        """The bins of each column, by its private counts, which add up to the rows; no run of `runs` is cut."""
        if any(int(columns[grid.column].sum()) != self.rows for grid in self.grids):
            raise Internal("the private counts of a column do not add up to the rows")
        return tuple(
            BinnedColumn.of(grid, columns[grid.column], self.max_bins, runs.get(grid.column)) for grid in self.grids
        )


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMarginals:
    """Private columns in bins, and noisy tables of pairs of them: from here on nothing more is lost."""

    columns: tuple[BinnedColumn, ...]
    pairs: tuple[Pair, ...]
    tables: tuple[Counts, ...]
    deviations: tuple[float, ...]
    """The standard deviation of the noise of each table."""


def measure_marginals(
    plan: MarginalsPlan,
    columns: Mapping[str, Counts],
    count_joint_tables: CountJointTables,
    entropy: Entropy | None = None,
    runs: Mapping[str, Counts] = NO_RUNS,
) -> NoisyMarginals:
    """Choose the pairs and measure them; `columns` are private counts of cells, `joint` tells exact tables.

    `runs` are the first cells of the runs that a column was counted in, where it was.
    """
    generator, binned = get_entropy(entropy), plan.bin_columns(columns, runs)
    pairs = list(combinations(range(len(binned)), 2))
    exact = dict(
        zip(pairs, count_joint_tables([(binned[first], binned[second]) for first, second in pairs]), strict=True)
    )
    chosen_pairs = pairs
    if plan.choosing_budget is not None:
        scores = [compute_pair_score(exact[pair], _build_independent_table(binned, pair)) for pair in pairs]
        chosen_pairs = choose_spanning_tree(
            scores, pairs, plan.required_pairs, len(binned), plan.choosing_budget, generator
        )
    noises = build_table_noises([exact[pair].size for pair in chosen_pairs], plan.measuring_budget)
    tables = tuple(
        _add_table_noise(exact[pair], noise, generator) for pair, noise in zip(chosen_pairs, noises, strict=True)
    )
    return NoisyMarginals(binned, tuple(chosen_pairs), tables, tuple(math.sqrt(noise.variance()) for noise in noises))


def build_table_noises(sizes: Sequence[int], budget: PrivacyBudget) -> list[Noise]:
    """The noise of each of several tables of so many cells that lose this much together."""
    return [
        budget.take_share(share).build_noise(L1_SENSITIVITY, SQUARED_L2_SENSITIVITY)
        for share in compute_table_shares(sizes, budget)
    ]


def compute_table_shares(sizes: Sequence[int], budget: PrivacyBudget) -> list[Fraction]:
    """Shares of a loss, in millionths that add up to 1, of least expected noise over all tables of these sizes.

    The noise of a table grows with its cells m and with 1/epsilon or 1/sqrt(rho): the sum of m/epsilon is least where
    epsilon goes as sqrt(m), that of m/sqrt(rho) where rho goes as m^(2/3).
    """
    weights = [size ** (0.5 if budget.is_pure else 2 / 3) for size in sizes]
    parts = [max(1, math.floor(MILLION * weight / sum(weights))) for weight in weights]
    parts[int(np.argmax(weights))] += MILLION - sum(parts)
    return [Fraction(part, MILLION) for part in parts]


def _build_independent_table(binned: Sequence[BinnedColumn], pair: Pair) -> Array:
    return compute_independent_table(binned[pair[0]].sizes, binned[pair[1]].sizes)


def _add_table_noise(table: Counts, noise: Noise, entropy: Entropy) -> Counts:
    return add_noise_to_totals(table.ravel(), noise, entropy).reshape(table.shape)
