"""How nested counts are measured: which levels, with which shares of epsilon. Proof: measurements/hierarchical.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import compress, pairwise

import numpy as np

from discreet.errors import Internal, InvalidInput, Unsupported
from discreet.estimation.hierarchical_counts import (
    HistogramStrategy,
    NoiseKind,
    compute_rollup_weights,
    list_histogram_strategies,
)
from discreet.measurements.contribution_bounds import ContributionBounds, find_public_count
from discreet.measurements.hierarchical import BlockCounts, HierarchicalHistogram, Level, Starts
from discreet.measurements.total_sensitivity import LinearQuery
from discreet.mechanisms.discrete_gaussian import MAX_SIGMA, DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.noise import Noise
from discreet.planner.candidates import build_linear_query, find_rho
from discreet.planner.options import PlanRequest
from discreet.planner.plan import list_query_cells
from discreet.planner.structural_constraints import find_structural_constraints
from discreet.privacy.cost import PrivacyCost, compute_pure_cost
from discreet.privacy.guarantee import Guarantee
from discreet.query.query import Query
from discreet.query.scan import Cell
from discreet.schema import Schema

SHARE_STEPS = 10**6
"""Shares of epsilon are in millionths, so that they add up exactly."""


@dataclass(frozen=True, slots=True)
class LevelNoises:
    """The noise of a level by its share of epsilon, or of rho, which is not 0 for Gaussian noise."""

    bounds: ContributionBounds
    linear_query: LinearQuery
    epsilon: Fraction
    rho: Fraction = Fraction(0)

    @property
    def noise_kind(self) -> NoiseKind:
        return "gaussian" if self.rho else "laplace"

    def build_noise(self, share: Fraction, blocks: int) -> Noise | None:
        """One block of all cells is a count without groups: a unit that is replaced moves it half as far."""
        part, sides = self.linear_query.components[0], self.bounds.replace_factor if blocks == 1 else 1
        if not share:
            return None
        if self.rho:
            return DiscreteGaussian(part.l2_sensitivity_sq / sides / (2 * self.rho * share), 1, Fraction(1))
        return DiscreteLaplace(self.epsilon * share, part.l1_sensitivity // sides)

    def round_shares(self, weights: Sequence[float]) -> list[Fraction]:
        """Weights, or for Gaussian noise their squares, as fractions that add up to 1."""
        power = 2 if self.rho else 1
        shares = [Fraction(round(weight**power * SHARE_STEPS), SHARE_STEPS) for weight in weights[:-1]]
        return [*shares, 1 - sum(shares, Fraction(0))]

    @property
    def variance(self) -> float:
        """At a share of 1."""
        part = self.linear_query.components[0]
        if self.rho:
            return float(part.l2_sensitivity_sq / (2 * self.rho))
        return DiscreteLaplace(self.epsilon, part.l1_sensitivity).variance()

    @property
    def privacy_cost(self) -> PrivacyCost:
        """What all levels cost."""
        return PrivacyCost(gaussian_rho=self.rho) if self.rho else compute_pure_cost(self.epsilon)

    def cost(self) -> Guarantee:
        schema = self.bounds.schema
        if self.rho:
            return Guarantee.zcdp(self.rho, schema.neighbors, schema.unit_name)
        return Guarantee.dp(self.epsilon, schema.neighbors, schema.unit_name)


@dataclass(frozen=True, eq=False, slots=True)
class HierarchyOption:
    """One way to measure, and the root mean square error of what was asked: of a range, or of a count of a ROLLUP."""

    name: str
    noises: LevelNoises
    expected_error: float
    measurement: HierarchicalHistogram | None = None
    """None for what is shown for comparison, and never the best."""


def list_hierarchies(
    query: Query, bounds: ContributionBounds, epsilon: Fraction, delta: Fraction | None
) -> list[HierarchyOption]:
    """List all that are weighed, from public facts; of one count of rows, which is all that the levels protect."""
    if [query_aggregate.function for query_aggregate in query.aggregates] != ["count"]:
        raise Internal("nested cells are those of one count of rows")
    aggregate, schema = query.aggregates[0], bounds.schema
    linear_query = build_linear_query(aggregate, schema, bounds)
    total = find_public_count(aggregate, replace(bounds, cells=None))
    noise_choices = [LevelNoises(bounds, linear_query, epsilon)]
    rho = Fraction(0) if delta is None else find_rho(epsilon, delta)
    if rho and linear_query.components[0].l2_sensitivity_sq / (2 * rho) * SHARE_STEPS < Fraction(MAX_SIGMA) ** 2:
        noise_choices.append(LevelNoises(bounds, linear_query, epsilon, rho))
    if query.nesting == "rollup":
        cells = list_possible_cells(schema, query)
        return [option for noises in noise_choices for option in _list_rollups(noises, cells, total)]
    column = schema.column(query.keys[0].column)
    bins = -(-column.size // query.keys[0].width)
    return [
        _build_histogram(noises, strategy, bins, bins + column.is_nullable, total)
        for noises in noise_choices
        for strategy in list_histogram_strategies(bins, noises.noise_kind, total is not None)
        if strategy.kind != "wavelet" or bins > 2  # never better than both others: measurements/hierarchical.md
    ]


def list_possible_cells(schema: Schema, query: Query) -> tuple[Cell, ...]:
    """List the cells that can have a row; all of them where that is too much to tell."""
    cells = list_query_cells(schema, query)
    possible = find_structural_constraints(schema, query, len(cells)).possible[0]
    return tuple(compress(cells, possible)) if possible.any() else tuple(cells)


def check_hierarchical(schema: Schema, query: Query, request: PlanRequest) -> None:
    """Refuse a ROLLUP of private keys, or asked by more than epsilon, and a histogram that is a public number."""
    if query.nesting == "ranges":
        public_count = find_public_count(query.aggregates[0], ContributionBounds(schema, query.where))
        if public_count is not None and len(list_query_cells(schema, query)) == 1:
            raise InvalidInput("a HISTOGRAM of one bin is the number of rows, which is public; ask for more bins")
        return
    if query.nesting != "rollup":
        return
    if any(schema.column(key.column).private_keys for key in query.keys):
        raise Unsupported("ROLLUP takes keys whose values are public; group by this one alone, with GROUP BY")
    others = (request.prior, request.accuracy, request.noise_scale, request.rho, request.distance)
    if any(value is not None for value in others) or request.requested_model == "individual-dp":
        raise Unsupported("a ROLLUP is asked with an epsilon, and a delta if you like; leave the rest out")


def _build_histogram(
    noises: LevelNoises, strategy: HistogramStrategy, bins: int, cells: int, public_total: int | None
) -> HierarchyOption:
    error = math.sqrt(strategy.error * noises.variance)
    if strategy.kind == "wavelet":
        return HierarchyOption(strategy.name, noises, error)
    # The cell of missing values is a block of its own at every level.
    starts = [np.unique(np.append(np.arange(0, bins, size), np.arange(bins, cells))) for size in strategy.sizes]
    pairs = zip(starts, noises.round_shares(strategy.weights), strict=True)
    levels = tuple(Level(level, share, noises.build_noise(share, len(level))) for level, share in pairs)
    blocks, cost = BlockCounts(levels, public_total), noises.privacy_cost
    measurement = HierarchicalHistogram(noises.linear_query, blocks, strategy.name, privacy_cost=cost)
    return HierarchyOption(measurement.name, noises, error, measurement)


def _list_rollups(noises: LevelNoises, cells: tuple[Cell, ...], public_total: int | None) -> list[HierarchyOption]:
    # A block begins where one of its first keys differs from that of the cell before.
    pairs = [*pairwise(cells)]
    starts = [
        np.flatnonzero([True, *(cell[:keys] != before[:keys] for before, cell in pairs)])
        for keys in range(len(cells[0]) + 1)
    ]
    inclusion = [0.0 if public_total is not None and not keys else 1.0 for keys in range(len(starts))]
    even_weights = [weight / (math.sqrt(sum(inclusion)) if noises.rho else sum(inclusion)) for weight in inclusion]
    best = compute_rollup_weights(tuple(map(len, starts)), noises.noise_kind, public_total is not None)
    weight_choices = ("levels weighted for the least error", best), ("levels alike", even_weights)
    return [_build_rollup(noises, name, starts, weights, cells, public_total) for name, weights in weight_choices]


def _build_rollup(
    noises: LevelNoises,
    name: str,
    starts: Sequence[Starts],
    weights: Sequence[float],
    cells: tuple[Cell, ...],
    public_total: int | None,
) -> HierarchyOption:
    pairs = enumerate(zip(starts, noises.round_shares(weights), strict=True))
    levels = tuple(
        Level(level_starts, share, noises.build_noise(share, len(level_starts)), keys)
        for keys, (level_starts, share) in pairs
    )
    blocks = BlockCounts(levels, public_total, cells)
    measurement = HierarchicalHistogram(noises.linear_query, blocks, name, privacy_cost=noises.privacy_cost)
    variances = np.concatenate(blocks.build_nest().compute_node_variances()[-len(levels) :])
    return HierarchyOption(measurement.name, noises, math.sqrt(float(variances.mean())), measurement)
