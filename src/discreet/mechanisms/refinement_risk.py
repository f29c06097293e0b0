"""How good a refinement is for someone whose prior is right, and the factors that make it best.

Public facts only: prior, distance, factors. Floats, because they choose and describe; they decide nothing that carries
privacy. Over numbers everything is prefix sums: the points near each truth are an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unsupported
from discreet.mechanisms.noise import find_least
from discreet.numeric import as_number_between
from discreet.priors.distance import ContinuousDistance, Distance, NominalDistance, OrdinalDistance, SemanticDistance
from discreet.priors.prior import Prior

if TYPE_CHECKING:
    from discreet.mechanisms.refinement import Refinement

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
MAX_RISK_CELLS = 2**11
"""A finer grid is gathered into so many cells to choose the factors: the risk is within 0.5 % of the least."""
NEGLIGIBLE_TAIL = 1e-6
"""Where cells are gathered, tails that hold less than this share of the variance are gathered into the end cells."""
MAX_CATEGORIES = 512
"""With more values than this and no order, the factors are e^(+-epsilon/2)."""
MAX_LINE_CELLS = 2**21
MAX_CACHED_SUMS = 2**16
"""So many sums about all truths are written down rather than made again for every factor that is tried."""


def find_best_share(prior: Prior, distance: Distance, ratio: float, truth_mass: Array | None = None) -> float:
    """The s in (0, 1) for which alpha_u = ratio^s, alpha_d = ratio^(s-1) has the least Bayes risk, ties broken.

    The risk is the mean squared distance between the truth and the best estimate of it given the draw; `truth_mass` is
    the law of the truth on the prior's support where it is not the prior.
    """
    if isinstance(distance, ContinuousDistance):
        line = PriorLine.of(prior, MAX_RISK_CELLS if truth_mass is None else MAX_RISK_CELLS // 2, truth_mass)
        return _minimize_risk(lambda share: line.compute_risk(ratio**share, ratio ** (share - 1)), len(line.mass))
    if len(prior.mass) <= MAX_CATEGORIES:
        table = DistanceTable.of(prior, distance)
        size = len(table.mass) ** 2
        return _minimize_risk(lambda share: table.compute_regret(ratio**share, ratio ** (share - 1)), size)
    return 0.5


def _minimize_risk(risk: Callable[[float], float], size: int) -> float:
    """A coarse search, finer over few values where the risk has several valleys; then golden sections."""
    shares, gap = np.linspace(0.0, 1.0, max(11, min(129, 40_000 // size)) + 1, retstep=True)
    center = float(min(shares[1:-1], key=risk))
    low, high, ratio = max(center - gap, gap / 10), min(center + gap, 1 - gap / 10), (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    left_risk, right_risk = risk(left), risk(right)
    for _ in range(7):
        if left_risk <= right_risk:
            high, right, right_risk = right, left, left_risk
            left = high - ratio * (high - low)
            left_risk = risk(left)
        else:
            low, left, left_risk = left, right, right_risk
            right = low + ratio * (high - low)
            right_risk = risk(right)
    return (low + high) / 2


@dataclass(frozen=True, eq=False)
class MassBall:
    """For every truth: the radius of the largest ball of at most a given mass, and how much of the next ring fits."""

    radius: Indices
    ring_share: Array


@dataclass(frozen=True, eq=False)
class PriorLine:
    """Prior mass on consecutive cells 0..m-1, its prefix sums, and the cells that hold truths.

    `truth_mass` is the law of the truth on those cells, where it is not the prior.
    """

    mass: Array
    truth_cells: Indices
    cell_width: float
    truth_mass: Array | None = None

    @staticmethod
    def of(prior: Prior, max_cells: int, truth_mass: Array | None = None) -> PriorLine:
        """The prior on consecutive cells, at most `max_cells` of them: finer grids are gathered."""
        share, offset = prior.mass / prior.total, prior.index - prior.index[0]
        if int(offset[-1]) >= max_cells:
            offset = _clip_tails(offset, share)
        width = int(offset[-1]) // max_cells + 1
        mass: Array = np.bincount(offset // width, weights=share).astype(np.float64)
        step = float(prior.grid.step) if prior.grid else 1.0
        truth_cells = np.flatnonzero(mass)
        if truth_mass is None:
            return PriorLine(mass, truth_cells, width * step)
        cell_truth_mass = np.bincount(offset // width, weights=truth_mass, minlength=len(mass)).astype(np.float64)
        return PriorLine(mass, truth_cells, width * step, cell_truth_mass[truth_cells])

    def compute_prefix_sums(self, power: int) -> Array:
        """Sums of mass times place^power over the cells before each."""
        return np.concatenate(([0.0], np.cumsum(self.mass * np.arange(len(self.mass), dtype=float) ** power)))

    def find_near_cells(self, radius: Indices) -> tuple[Indices, Indices]:
        """For each truth the first cell at most `radius` from it, and the first that no longer is."""
        high = np.minimum(self.truth_cells + radius, len(self.mass) - 1) + 1
        return np.maximum(self.truth_cells - radius, 0), high

    def sum_within(self, radius: Indices, sums: Array) -> Array:
        """The sum over the cells at most `radius` from each truth; nothing for radius -1."""
        low, high = self.find_near_cells(radius)
        return np.where(radius < 0, 0.0, sums[np.maximum(high, low)] - sums[low])

    def spread_weights(self, radius: Indices, weights: Array) -> Array:
        """For each cell, the weights of the truths that it is at most `radius` from; of none for radius -1."""
        near_weights, size = np.where(radius < 0, 0.0, weights), len(self.mass)
        starts, stops = (np.bincount(ends, near_weights, size + 1) for ends in self.find_near_cells(radius))
        return np.cumsum(starts - stops)[:size]

    @cached_property
    def _mass_before(self) -> Array:
        return self.compute_prefix_sums(0)

    @cached_property
    def _mass_within(self) -> Array | None:
        """By radius from -1 on, the mass that near to each truth; None where that is too much to write down."""
        if len(self.mass) * len(self.truth_cells) > MAX_CACHED_SUMS:
            return None
        return self.sum_within(np.arange(-1, len(self.mass) + 1)[:, None], self._mass_before)

    def find_balls(self, target: float) -> MassBall:
        """All truths at once: counted where it is written down, else by bisection over radii."""
        if self._mass_within is not None:
            low = (self._mass_within[1:-1] <= target).sum(axis=0) - 1
            places = np.arange(len(low))
            return _build_ball(target, low, self._mass_within[low + 1, places], self._mass_within[low + 2, places])
        low = np.full(len(self.truth_cells), -1, dtype=np.int64)
        high = np.full(len(self.truth_cells), len(self.mass), dtype=np.int64)
        for _ in range(len(self.mass).bit_length() + 1):
            middle = (low + high) // 2
            fits = self.sum_within(middle, self._mass_before) <= target
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        inside, outside = (self.sum_within(radius, self._mass_before) for radius in (low, low + 1))
        return _build_ball(target, low, inside, outside)

    def compute_risk(self, up: float, down: float) -> float:
        """The mean squared error of the posterior mean, in cells.

        Where the prior is right it is the prior variance less that of the posterior mean.
        """
        prior_masses, centered, variance = self._centered_truths
        ball = self.find_balls(compute_near_mass(up, down))

        def weigh_answers(weights: Array) -> Array:
            """For every draw, the weights of the truths by how likely each makes it."""
            in_ball = self.spread_weights(ball.radius, weights * (1 - ball.ring_share))
            near = in_ball + self.spread_weights(ball.radius + 1, weights * ball.ring_share)
            return np.asarray(down * weights.sum() + (up - down) * near)

        zeroth, first = weigh_answers(prior_masses), weigh_answers(prior_masses * centered)
        if self.truth_mass is not None:
            guess = np.divide(first, zeroth, out=np.zeros(len(first)), where=zeroth > 0)
            total, mean, square = (weigh_answers(self.truth_mass * centered**power) for power in range(3))
            return float((self.mass * (square - 2 * guess * mean + guess**2 * total)).sum())
        informed = np.divide(first**2, zeroth, out=np.zeros(len(first)), where=zeroth > 0)
        # Not dot products: their threads wait for one another on a busy machine.
        return float(variance - (self.mass * informed).sum())

    @cached_property
    def _centered_truths(self) -> tuple[Array, Array, float]:
        """The mass of each truth, how far it is from their mean, and the variance."""
        prior_masses = self.mass[self.truth_cells]
        centered = self.truth_cells.astype(np.float64) - float((prior_masses * self.truth_cells).sum())
        return prior_masses, centered, float((prior_masses * centered**2).sum())


def _build_ball(target: float, radius: Indices, inside: Array, outside: Array) -> MassBall:
    room = outside - inside
    share = np.divide(target - inside, room, out=np.zeros(len(room)), where=room > 0)
    return MassBall(radius, np.clip(share, 0, 1))


def _clip_tails(offset: Indices, share: Array) -> Indices:
    """The places from the first that matters, those in negligible tails moved to the ends of the rest."""
    square = share * (offset - float((share * offset).sum())) ** 2
    sums, allowed = np.cumsum(square), NEGLIGIBLE_TAIL * float(square.sum()) / 2
    low = int(offset[np.searchsorted(sums, allowed)])
    high = int(offset[min(np.searchsorted(sums, sums[-1] - allowed), len(offset) - 1)])
    return np.clip(offset, low, max(low, high)) - low


def compute_near_mass(up: float, down: float) -> float:
    """How much prior mass around the truth is raised by alpha_u; none where the factors are alike."""
    return (1 - down) / (up - down) if up > down else 0.0


@dataclass(frozen=True, eq=False)
class DistanceTable:
    """A few values with all their distances: squares, and for each truth the mass interval of each value's ring."""

    mass: Array
    squares: Array
    ring_start: Array
    ring_end: Array

    @staticmethod
    def of(prior: Prior, distance: Distance) -> DistanceTable:
        """Measure every pair once."""
        mass, pair_distances = prior.mass / prior.total, tabulate_distances(distance, prior.support)
        starts, ends = zip(*(_find_rings(row, mass) for row in pair_distances), strict=True)
        return DistanceTable(mass, pair_distances**2, np.array(starts), np.array(ends))

    def compute_risk(self, up: float, down: float) -> float:
        """The mean squared distance of the best guess among the values, given the draw."""
        return float((self.squares.T @ self._compute_joint(up, down)).min(axis=0).sum())

    def compute_regret(self, up: float, down: float) -> float:
        """The risk; by a hundredth, the chance that the likeliest value is wrong; by a hundredth of that, the doubt.

        Where the best guess by distance is the same whatever the draw, as the middle of a few ranks, the risk alone
        would not tell a draw that says something from one that says nothing. Nor would the likeliest value, where it
        is always the same one, as of a rare yes; the doubt that is left of all values does.
        """
        joint = self._compute_joint(up, down)
        error_probability = 1 - float(joint.max(axis=0).sum())
        outcome_mass = joint.sum(axis=0)
        doubt = 1 - float(np.divide(joint**2, outcome_mass, out=np.zeros_like(joint), where=outcome_mass > 0).sum())
        tie_breaker = 0.01 * float(self.squares.mean()) * (error_probability + 0.01 * doubt)
        return float((self.squares.T @ joint).min(axis=0).sum()) + tie_breaker

    def _compute_joint(self, up: float, down: float) -> Array:
        """How likely each truth goes with each draw."""
        near = compute_near_mass(up, down)
        width = self.ring_end - self.ring_start  # 0 for values of next to no weight
        share = np.divide(np.clip(near - self.ring_start, 0, width), width, out=np.zeros_like(width), where=width > 0)
        return np.asarray(self.mass[:, None] * (down + (up - down) * share) * self.mass[None, :])


def tabulate_distances(distance: Distance, values: Sequence[Hashable]) -> Array:
    """All distances between the values; those of a taxonomy from how many ancestors two values share."""
    if isinstance(distance, NominalDistance):
        return 1.0 - np.eye(len(values))
    if isinstance(distance, OrdinalDistance):
        places = np.array([distance.places[value] for value in values], dtype=np.float64)
        return np.abs(places[:, None] - places[None, :])
    if isinstance(distance, SemanticDistance):
        return _tabulate_semantic_distances([distance.taxonomy.get_ancestors(str(value)) for value in values])
    return np.array([[distance.between(first, second) for second in values] for first in values])


def _tabulate_semantic_distances(ancestors: Sequence[frozenset[str]]) -> Array:
    """log2(1 + share of ancestors not in common), for all pairs."""
    concepts = {concept: place for place, concept in enumerate(sorted(frozenset().union(*ancestors)))}
    membership = np.zeros((len(ancestors), len(concepts)))
    for row, value_ancestors in enumerate(ancestors):
        membership[row, [concepts[concept] for concept in value_ancestors]] = 1
    common, sizes = membership @ membership.T, membership.sum(axis=1)
    union = sizes[:, None] + sizes[None, :] - common
    return np.asarray(np.log2(1 + (union - common) / union))


def _find_rings(row: Array, mass: Array) -> tuple[Array, Array]:
    """For every value, the mass nearer than it and the mass up to its own distance."""
    order = np.argsort(row, kind="stable")
    ranked, sums = row[order], np.concatenate(([0.0], np.cumsum(mass[order])))
    start = sums[np.searchsorted(ranked, row - 1e-12, side="left")]
    return start, sums[np.searchsorted(ranked, row + 1e-12, side="right")]


def build_bayes_errors(refinement: Refinement) -> NumericErrors | CategoricalErrors:
    """How far a refinement's draws fall from truths, the prior being right."""
    if isinstance(refinement.distance, ContinuousDistance):
        return NumericErrors.of(refinement)
    if len(refinement.prior.mass) > MAX_CATEGORIES:
        raise Unsupported(f"expected errors are computed for numbers, or for at most {MAX_CATEGORIES} other values")
    return CategoricalErrors.of(refinement)


@dataclass(frozen=True, eq=False)
class NumericErrors:
    """Draw less truth as a mixture of balls: the last factor everywhere, and each step's jump on its ball."""

    line: PriorLine
    last_factor: float
    factor_jumps: tuple[float, ...]
    balls: tuple[MassBall, ...]
    atom: float

    @staticmethod
    def of(refinement: Refinement) -> NumericErrors:
        """All truths at once."""
        profile, line = refinement.profile, PriorLine.of(refinement.prior, MAX_LINE_CELLS)
        factors = [float(factor) for factor in profile.step_factors]
        balls = tuple(line.find_balls(float(mass_limit)) for mass_limit in profile.mass_limits[:-1])
        jumps = tuple(upper - lower for upper, lower in pairwise(factors))
        return NumericErrors(line, factors[-1], jumps, balls, float(profile.atom))

    def _compute_mean(self, sum_inside: Callable[[Indices], Array]) -> float:
        """The mean of a quantity that `sum_inside` sums over the cells up to a radius from each truth."""
        everywhere = np.full(len(self.line.truth_cells), len(self.line.mass), dtype=np.int64)
        total = self.last_factor * sum_inside(everywhere)
        for jump, ball in zip(self.factor_jumps, self.balls, strict=True):
            inner, outer = sum_inside(ball.radius), sum_inside(ball.radius + 1)
            total = total + jump * ((1 - ball.ring_share) * inner + ball.ring_share * outer)
        return float(self.line.mass[self.line.truth_cells] @ total)

    def mean_distance(self) -> float:
        """Compute the mean distance of the draw from the truth."""
        zeroth, first = self.line.compute_prefix_sums(0), self.line.compute_prefix_sums(1)
        truths = self.line.truth_cells

        def sum_inside(radius: Indices) -> Array:
            """Sum of mass times distance: right of the truth, and left of it."""
            low, high = self.line.find_near_cells(radius)
            right = first[high] - first[truths] - truths * (zeroth[high] - zeroth[truths])
            left = truths * (zeroth[truths] - zeroth[low]) - (first[truths] - first[low])
            return np.where(radius < 0, 0.0, right + left)

        return self.line.cell_width * self._compute_mean(sum_inside)

    def mean_square(self) -> float:
        """Compute the mean square of the distance of the draw from the truth."""
        truths = self.line.truth_cells
        sums = [self.line.compute_prefix_sums(power) for power in range(3)]

        def sum_inside(radius: Indices) -> Array:
            zeroth, first, second = (self.line.sum_within(radius, prefix) for prefix in sums)
            return second - 2 * truths * first + truths.astype(float) ** 2 * zeroth

        return self.line.cell_width**2 * self._compute_mean(sum_inside)

    def miss_probability(self, alpha: float) -> float:
        """Compute the probability that the draw is farther than alpha from the truth."""
        return self._compute_miss(math.floor(alpha / self.line.cell_width * (1 + 1e-12)))

    def _compute_miss(self, cells: int) -> float:
        sums = self.line.compute_prefix_sums(0)
        mass_inside = self._compute_mean(lambda radius: self.line.sum_within(np.minimum(radius, cells), sums))
        return max(0.0, 1 - mass_inside - self.atom)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Compute the shortest symmetric interval that holds draw less truth with at least that probability."""
        allowed = 1 - float(as_number_between(confidence, 0, 1, "confidence"))
        width = self.line.cell_width * find_least(lambda cells: self._compute_miss(cells) <= allowed + 1e-12)
        return -width, width


@dataclass(frozen=True, eq=False)
class CategoricalErrors:
    """The joint law of truth and draw, and all distances."""

    joint: Array
    pair_distances: Array

    @staticmethod
    def of(refinement: Refinement) -> CategoricalErrors:
        """One refined law for each truth."""
        values, mass = refinement.prior.support, refinement.prior.mass / refinement.prior.total
        rows = [refinement.distribution(value).floats() for value in values]
        return CategoricalErrors(mass[:, None] * np.array(rows), tabulate_distances(refinement.distance, values))

    def mean_distance(self) -> float:
        """Compute the mean distance of the draw from the truth."""
        return float((self.joint * self.pair_distances).sum())

    def mean_square(self) -> float:
        """Compute the mean square of the distance of the draw from the truth."""
        return float((self.joint * self.pair_distances**2).sum())

    def miss_probability(self, alpha: float) -> float:
        """Compute the probability that the draw is farther than alpha from the truth."""
        return float(self.joint[self.pair_distances > alpha * (1 + 1e-12)].sum())

    def interval(self, confidence: float) -> tuple[float, float]:
        """Refuse an interval, which categories do not have."""
        raise Unsupported(f"an interval at {confidence} is of numbers; ask `useful` for the chance of a distance")
