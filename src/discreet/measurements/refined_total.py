"""A total by refinement: a draw from the analyst's prior, moved towards the exact number.

Proof: mechanisms/refinement.md.

It is independent of how far one unit moves the total, so it is the choice where that is about as far as the prior
reaches, and where the analyst brings a distance of her own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.estimation.grid_prior import MIN_MASS_INSIDE, GridPrior, PointGridPrior, ShapedGridPrior
from discreet.estimation.noisy_totals import Linear
from discreet.estimation.refinement_posterior import (
    TruthRuns,
    compute_run_posterior,
    estimate_run_error,
    find_best_alpha_up,
)
from discreet.measurements.additive import Estimator, build_laplace
from discreet.measurements.base import AggregateRequest, NoisyOutputs, ScanRequest, SelfReading
from discreet.measurements.observed_loss import InputChange, Inputs, compute_refinement_change, pair_inputs
from discreet.measurements.prior_on_grid import GridCells, PlacedShapes, place_shapes
from discreet.measurements.selection import resolve_distance
from discreet.measurements.total_sensitivity import LinearQuery, build_linear_queries
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.refinement import Refinement
from discreet.priors.distance import ContinuousDistance, Distance
from discreet.priors.posterior import Posterior, distribution_from_runs
from discreet.priors.prior import TAIL_WEIGHT, Grid, Prior, PriorUse
from discreet.privacy.cost import compute_pure_cost
from discreet.schema import Column, Schema

NUMBER_COLUMN = Column("a number", "number")
MAX_SD_RATIO = 1.0
"""Refinement can only be better where the prior is narrower than the noise: tests show where the two cross."""
MAX_POINTS = 2048
CELL_PARTS = 8
"""The values that one point stands for are weighed in at least so many parts."""
GRID_DEVIATIONS = 64
"""The grid of a prior reaches so many of its standard deviations out."""
MASS_SCALE = 2.0**58
MAX_GRID_INDEX = 2**58
"""Places on a grid are whole numbers below this, so that four times one fits into 64 bits."""
MEAN_ROUNDING = 2.0**-40
"""The mean of a prior may be off by this share of it."""
NO_POSSIBLE_VALUE = "the prior gives no probability to any value that the answer can have; widen it, or give another"


@dataclass(frozen=True, eq=False, slots=True)
class RefinementPrior:
    """The prior that a number is drawn from, what was stated there, and where a truth can be.

    Few points are drawn, each of which may stand for many values; `truths` are these. With `ends` the number can also
    have values between two places of the grid, and from the outermost ones to the ends.
    """

    prior: Prior
    stated_mass: NDArray[np.float64]
    truths: TruthRuns
    ends: tuple[float, float] | None = None

    def build_distribution(self, mass: NDArray[np.float64]) -> Posterior:
        """Probabilities of the truths as a law over values."""
        return distribution_from_runs(self.truths.lows, self.truths.spans, mass, self.grid, self.ends)

    @property
    def grid(self) -> Grid:
        """Where the points of the prior lie."""
        return self.prior.grid or Grid(Fraction(0), Fraction(1))


@dataclass(frozen=True, eq=False, slots=True)
class RefinedTotal(SelfReading):
    """The number that a linear query asks for, measured by a refinement of a prior over numbers."""

    linear_query: LinearQuery
    refinement: Refinement
    refinement_prior: RefinementPrior
    prior_use: PriorUse | None = None
    name: str = "refinement of your prior"

    @property
    def uses_prior(self) -> bool:
        return True

    @property
    def is_plottable(self) -> bool:
        return True

    @property
    def distance_name(self) -> str:
        """What names the distance in a stored question: numbers have no other than these two."""
        return self.refinement.distance.stored_name

    def scan(self) -> ScanRequest:
        return self.linear_query.scan()

    def compute_inputs(self, scanned: Sequence[Any]) -> list[tuple[int, ...]]:
        """The exact totals of every cell. Secret."""
        return self.linear_query.compute_totals(scanned)

    def measure(self, inputs: Sequence[tuple[int, ...]], entropy: Entropy) -> list[NoisyOutputs]:
        """The place of one draw on the prior's grid, for each cell."""
        return [(self._sample_place(totals, entropy),) for totals in inputs]

    def _sample_place(self, totals: Sequence[int], entropy: Entropy) -> int:
        sample = cast(Fraction, self.refinement.answer(self.linear_query.estimate.value(totals), entropy))
        grid = self.refinement_prior.grid
        return int((sample - grid.origin) / grid.step)

    def cache_key(self) -> list[object]:
        # The places that were drawn count values of the number; they counted other steps once, under the name without.
        return [self.name, *self.linear_query.list_parameters(), self.distance_name, "values"]

    def compare_inputs(self, inputs: Inputs, other_inputs: Inputs, schema: Schema) -> InputChange:  # noqa: ARG002
        pairs = pair_inputs(inputs, other_inputs, (0,) * len(self.linear_query.components))
        values = [[self.linear_query.estimate.value(totals) for totals in pair] for pair in pairs]
        return compute_refinement_change(values, self.refinement.cost().epsilon)

    def values(self, outputs: Sequence[int]) -> tuple[Fraction]:
        """What a place stands for."""
        return (Fraction(self.refinement_prior.grid.value(outputs[0])),)

    def get_stated_distribution(self) -> Posterior:
        """The prior as it was stated."""
        return self.refinement_prior.build_distribution(self.refinement_prior.truths.stated)

    def posterior(self, outputs: Sequence[int]) -> Posterior:
        """What is known after the draw: its law is public."""
        index = int(np.searchsorted(self.refinement.prior.index, outputs[0]))
        mass = compute_run_posterior(self.refinement, index, self.refinement_prior.truths)
        return self.refinement_prior.build_distribution(mass)

    def expected_error(self) -> float:
        """The root mean square error of the posterior mean, the prior being right, with what a point stands for."""
        return estimate_run_error(self.refinement, self.refinement_prior.truths)

    def describe_accuracy(self, confidence: float, likely: str = "") -> str:  # noqa: ARG002 (nothing more can be said at any confidence)
        """What may be said of it without looking."""
        return "a draw shaped by your prior; the posterior is what it means"


def build_refined_total(
    linear_query: LinearQuery, grid_prior: GridPrior, epsilon: Fraction, neighbors: str, distance: Distance | None
) -> RefinedTotal:
    """The refinement of a belief on a grid of at most a few thousand points."""
    number_distance, refinement_prior = distance or ContinuousDistance(), build_refinement_prior(grid_prior)
    base_refinement = Refinement.of(refinement_prior.prior, epsilon, "statistic", neighbors, number_distance)
    up = find_best_alpha_up(base_refinement, refinement_prior.stated_mass)
    refinement = Refinement.of(refinement_prior.prior, epsilon, "statistic", neighbors, number_distance, up=up)
    prior_use, cost = grid_prior.get_use(is_sampled=True), compute_pure_cost(epsilon)
    return RefinedTotal(linear_query, refinement, refinement_prior, prior_use, privacy_cost=cost)


def propose_refinement(request: AggregateRequest) -> tuple[RefinedTotal, ...]:
    """Propose a refinement of the prior where it may win, or a distance asks for it."""
    grid_prior, bounds = request.grid_prior, request.bounds
    linear_query = build_linear_queries(request.aggregate, request.column, bounds)[0]
    distance = None
    if request.distance is not None:
        if grid_prior is None:
            raise InvalidInput("a distance says how your prior is refined; give the prior too")
        if bounds.is_grouped:
            raise Unsupported("a distance is for one number at a time; ask for the groups one by one")
        distance = resolve_distance(NUMBER_COLUMN, request.distance)
    elif grid_prior is None or not _can_win(request, linear_query, grid_prior):
        return ()
    return (build_refined_total(linear_query, grid_prior, request.epsilon, bounds.schema.neighbors, distance),)


def _can_win(request: AggregateRequest, linear_query: LinearQuery, grid_prior: GridPrior) -> bool:
    """Never for counts, where noise is optimal whatever the prior (Ghosh and others 2009); for sums, where narrow."""
    is_single_sum = request.aggregate.function == "sum" and not request.bounds.is_grouped
    if not is_single_sum or not isinstance(linear_query.estimate, Linear):
        return False
    noise_sd = Estimator(build_laplace(linear_query, request.epsilon), 1.0).build_line_noise().sd
    return grid_prior.sd < MAX_SD_RATIO * noise_sd


def build_refinement_prior(grid_prior: GridPrior) -> RefinementPrior:
    """What the answer is drawn from, as whole masses on a few thousand points; what was stated, and of which values.

    Every point is a value that the number can have. Without a tail none lies beyond the ends of a prior that has some:
    which points those are is decided in exact arithmetic, and the others have no mass at all.
    """
    if isinstance(grid_prior, PointGridPrior):
        prior = grid_prior.prior
        if grid_prior.has_tail(is_sampled=True):
            prior = Prior(_scale_to_masses(grid_prior.mass_with_tail), prior.index, prior.grid, None)
        return RefinementPrior(prior, grid_prior.mass, TruthRuns.from_points(prior, grid_prior.mass))
    shaped = cast(ShapedGridPrior, grid_prior)
    exclude = shaped.is_bounded and not shaped.has_tail(is_sampled=True)
    value_range = _find_value_range(shaped, exclude)
    cells = _build_cells(shaped, exclude, *value_range)
    placed_shapes = place_shapes(shaped.shapes, cells, exclude)
    if placed_shapes.mass_inside < MIN_MASS_INSIDE:
        raise InvalidInput(NO_POSSIBLE_VALUE)
    possible = np.flatnonzero(placed_shapes.place_counts)
    stated_mass = _normalize(placed_shapes.shares[possible])
    mass = _scale_to_masses(_mix_tail(shaped, cells, stated_mass))
    prior = Prior(mass, placed_shapes.representatives[possible], cells.grid, None)
    truths = _build_truths(shaped, cells, placed_shapes, prior, stated_mass)
    has_values_between = shaped.top is not None or cells.grid.step > shaped.grid.step
    ends = _find_ends(cells, truths, *value_range) if has_values_between else None
    return RefinementPrior(prior, stated_mass, truths, ends)


def _find_ends(cells: GridCells, truths: TruthRuns, low: Fraction, high: Fraction) -> tuple[float, float]:
    """The least and the greatest of values that need be on no grid: beyond its outermost places, where truths are."""
    first, last = int(truths.lows[0]), int(truths.lows[-1] + truths.spans[-1] - 1)
    least = low if first == cells.value_range[0] else cells.grid.value(first)
    return float(least), float(high if last == cells.value_range[1] else cells.grid.value(last))


def _mix_tail(shaped: ShapedGridPrior, cells: GridCells, stated_mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """With the tail, where there is one; all cells are possible then."""
    if not shaped.has_tail(is_sampled=True):
        return stated_mass
    return (1 - TAIL_WEIGHT) * stated_mass + TAIL_WEIGHT * shaped.compute_tail_mass(cells.compute_edges())


def _build_truths(
    shaped: ShapedGridPrior,
    cells: GridCells,
    placed_shapes: PlacedShapes,
    prior: Prior,
    stated_mass: NDArray[np.float64],
) -> TruthRuns:
    """The values that the points of some cells stand for, in parts of the cells: these have values of every likelihood.

    The first and the last value of a cell and the point itself are apart: half way to the next point a truth makes both
    as likely, and by equality only the point is known.
    """
    widths = np.diff(cells.cuts)
    if (widths == 1).all():
        return TruthRuns.from_points(prior, stated_mass)
    firsts, points = cells.cuts[:-1], placed_shapes.representatives[placed_shapes.place_counts > 0]
    parts = [firsts + widths * part // CELL_PARTS for part in range(CELL_PARTS)]
    cuts = np.unique(np.concatenate((cells.cuts, firsts + 1, cells.cuts[1:] - 1, points, points + 1, *parts)))
    finer = GridCells(cells.grid, cuts, (cuts[:-1] + cuts[1:] - 1) // 2, cells.value_range)
    exclude = shaped.is_bounded and not shaped.has_tail(is_sampled=True)
    finer_shapes = place_shapes(shaped.shapes, finer, exclude)
    of_cell = np.searchsorted(cells.cuts, cuts[:-1], side="right") - 1
    possible = np.flatnonzero((finer_shapes.place_counts > 0) & (placed_shapes.place_counts[of_cell] > 0))
    shares = _normalize(finer_shapes.shares[possible])
    owners = np.searchsorted(np.flatnonzero(placed_shapes.place_counts), of_cell[possible])
    firsts, counts = finer_shapes.first_places[possible], finer_shapes.place_counts[possible]
    return TruthRuns(firsts, counts, owners, shares, _mix_tail(shaped, finer, shares))


def _normalize(mass: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def _find_value_range(grid_prior: ShapedGridPrior, exclude: bool) -> tuple[Fraction, Fraction]:
    """From where to where values are weighed: all there are, or as far out as a prior matters."""
    mean, spread = Fraction(grid_prior.mean), max(grid_prior.sd, grid_prior.step, abs(grid_prior.mean) * MEAN_ROUNDING)
    radius = GRID_DEVIATIONS * Fraction(spread)
    top = Fraction(grid_prior.grid.value(grid_prior.count - 1)) if grid_prior.top is None else grid_prior.top
    lows, highs = [grid_prior.grid.origin, mean - radius], [top, mean + radius]
    if exclude and grid_prior.shapes.hull is not None:
        lows.append(grid_prior.shapes.hull[0])
        highs.append(grid_prior.shapes.hull[1])
    return max(lows), min(highs)


def _build_cells(grid_prior: ShapedGridPrior, exclude: bool, low: Fraction, high: Fraction) -> GridCells:
    """Cells of equal numbers of values, from low to high."""
    grid = grid_prior.grid if grid_prior.top is None or not exclude else _refine_grid(grid_prior, grid_prior.top)
    first, last = math.ceil((low - grid.origin) / grid.step), math.floor((high - grid.origin) / grid.step)
    if last < first:
        raise InvalidInput(NO_POSSIBLE_VALUE)
    stride = -(-(last + 1 - first) // MAX_GRID_INDEX)
    count = (last - first) // stride + 1
    size = min(count, MAX_POINTS)
    cuts = np.array([count * index // size for index in range(size + 1)], dtype=np.int64)
    cell_grid = Grid(Fraction(grid.value(first)), grid.step * stride)
    return GridCells(cell_grid, cuts, (cuts[:-1] + cuts[1:] - 1) // 2, (0, count - 1))


def _refine_grid(grid_prior: ShapedGridPrior, top: Fraction) -> Grid:
    """The grid of a number that is not always on it, made so fine that the ends of all its shapes are, if it can be."""
    origin, step = grid_prior.grid.origin, grid_prior.grid.step
    ended_terms = [term for term in grid_prior.shapes.possible_terms if not term.is_spread]
    ends = [end - origin for term in ended_terms for end in term.ends if origin <= end <= top]
    scale = math.lcm(step.denominator, *(end.denominator for end in ends))
    fine_step = Fraction(math.gcd(int(step * scale), *(int(end * scale) for end in ends)), scale)
    count = math.floor((top - origin) / fine_step) + 1
    return Grid(origin, fine_step) if count <= MAX_GRID_INDEX else grid_prior.grid


def _scale_to_masses(mass: NDArray[np.float64]) -> NDArray[np.int64]:
    """Probabilities of what is possible as whole masses, none 0."""
    return np.maximum(np.rint(mass * MASS_SCALE), 1).astype(np.int64)
