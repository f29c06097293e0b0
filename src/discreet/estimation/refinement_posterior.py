"""What one sample of a refinement says about the truth: its law is public, so Bayes' rule gives the truth's.

A truth t gives a sample x with probability prior(x) times the factor of x's ring around t (mechanisms/refinement.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unsupported
from discreet.mechanisms.refinement import FactorProfile, Refinement
from discreet.mechanisms.refinement_risk import (
    MAX_CATEGORIES,
    DistanceTable,
    PriorLine,
    find_best_share,
    tabulate_distances,
)
from discreet.priors.distance import ContinuousDistance, NominalDistance, OrdinalDistance
from discreet.priors.prior import Prior

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
MAX_CELLS = 2**13
"""A finer grid is gathered into so many cells to estimate the error, which moves by less than one part in 10,000."""
MAX_VALUES = 2**12
"""All pairs of so many values without an order are measured, at most."""


@dataclass(frozen=True, eq=False, slots=True)
class TruthRuns:
    """Where a number can be: runs of places on the grid of a prior that has points, which are drawn, on some of them.

    A run goes from its place of `lows` over so many as `spans` says, and belongs to the point that stands for it, the
    one at `owners` in the prior's support. `stated` is how likely a run was said to be, `used` how likely it is held.
    """

    lows: Integers
    spans: Integers
    owners: Integers
    stated: Array
    used: Array

    @staticmethod
    def from_points(prior: Prior, stated: Array) -> TruthRuns:
        """The points themselves: there is nothing between them."""
        ones, every = np.ones_like(prior.index), np.arange(len(prior.index))
        return TruthRuns(prior.index, ones, every, stated, prior.mass / prior.total)

    @property
    def centers(self) -> Array:
        """The mean place of every run."""
        return np.asarray(self.lows + (self.spans - 1) / 2, dtype=np.float64)

    @property
    def variances(self) -> Array:
        """The variance of a place within every run, all being alike there."""
        return np.asarray((self.spans.astype(np.float64) ** 2 - 1) / 12, dtype=np.float64)

    def compute_blur(self, points: Integers) -> float:
        """The variance, in places, of the truth among those that one point stands for, if it is as was stated."""
        offsets = self.centers - points[self.owners]
        masses, moments, squares = (
            np.bincount(self.owners, self.stated * part, len(points))
            for part in (1.0, offsets, offsets**2 + self.variances)
        )
        means = np.divide(moments, masses, out=np.zeros(len(points)), where=masses > 0)
        return max(float((squares - means * moments).sum()), 0.0)


def compute_run_posterior(refinement: Refinement, position: int, truths: TruthRuns) -> Array:
    """Compute the probability of every run of truths, the sample being the point at `position` in the prior's support.

    A truth between two points is as near to each as it is, so a run is measured from a place in its middle.
    """
    prior, places = refinement.prior, truths.lows + (truths.spans - 1) // 2
    if isinstance(refinement.distance, NominalDistance):
        mass = truths.used * _compute_name_factors(refinement, position, truths)
    else:
        inside = np.clip(places, prior.index[0], prior.index[-1])
        start, end = _find_line_rings(prior.index, prior.mass, position, inside)
        mass = truths.used * _compute_mean_factors(refinement.profile, prior.total, start, end)
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def estimate_run_error(refinement: Refinement, truths: TruthRuns) -> float:
    """Estimate the root mean square error of the posterior mean over runs of truths, if the truth is as was stated."""
    prior = refinement.prior
    step = float(prior.grid.step) if prior.grid else 1.0
    if isinstance(refinement.distance, NominalDistance):
        return _estimate_equality_error(refinement, truths)
    point_mass = np.bincount(truths.owners, truths.stated, len(prior.index))
    error = estimate_refinement_error(refinement, point_mass / point_mass.sum()) or 0.0
    return math.hypot(error, step * math.sqrt(truths.compute_blur(prior.index)))


def compute_refinement_posterior(refinement: Refinement, position: int) -> Array:
    """Compute the probability of each value of the prior's support, from the position of the sample in it.

    It is for someone who holds the prior and knows that there is a truth: where there is none the sample says nothing.
    """
    prior = refinement.prior
    likelihood = _compute_mean_factors(refinement.profile, prior.total, *_find_rings(refinement, position))
    mass = prior.mass / prior.total * likelihood
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def estimate_refinement_error(refinement: Refinement, stated: Array | None = None) -> float | None:
    """Estimate the error of the best estimate given the sample: of the mean of numbers, in their units.

    `stated` is the law of the truth on the prior's support, where it is not the prior. Over categories the error is
    that of the best guess, by the distance. None where there is a delta or there are too many categories.
    """
    prior, (up, down) = refinement.prior, map(float, refinement.factors)
    if refinement.delta:
        return None
    if isinstance(refinement.distance, ContinuousDistance):
        line = PriorLine.of(prior, MAX_CELLS, stated)
        return math.sqrt(max(line.compute_risk(up, down), 0.0)) * line.cell_width
    if prior.numeric:
        if not isinstance(refinement.distance, NominalDistance):
            return None
        point_mass = prior.mass / prior.total if stated is None else stated
        return _estimate_equality_error(refinement, TruthRuns.from_points(prior, point_mass))
    if len(prior.mass) > MAX_CATEGORIES:
        return None
    return math.sqrt(max(DistanceTable.of(prior, refinement.distance).compute_risk(up, down), 0.0))


def _estimate_equality_error(refinement: Refinement, truths: TruthRuns) -> float:
    """Of the posterior mean, where all other values are equally far: every truth has one factor here, one elsewhere.

    A truth that is no point has no distance from one, so that it makes all draws as likely as the prior does.
    """
    prior, is_point = refinement.prior, _are_points(refinement.prior, truths)
    mass, owners = prior.mass / prior.total, truths.owners[is_point]
    step = float(prior.grid.step) if prior.grid else 1.0
    same_factor, other_factor = _compute_equality_factors(refinement)
    centered = truths.centers - float((truths.used * truths.centers).sum() / truths.used.sum())

    def weigh_outputs(weights: Array) -> Array:
        """For every draw, the weights of the truths by how likely each makes it."""
        point_weights = np.bincount(owners, weights[is_point], len(mass))
        elsewhere = weights[~is_point].sum() + (other_factor * point_weights).sum()
        return np.asarray(elsewhere + (same_factor - other_factor) * point_weights)

    guess = weigh_outputs(truths.used * centered) / weigh_outputs(truths.used)
    masses, moments = weigh_outputs(truths.stated), weigh_outputs(truths.stated * centered)
    squares = weigh_outputs(truths.stated * (centered**2 + truths.variances))
    return step * math.sqrt(max(float((mass * (squares - 2 * guess * moments + guess**2 * masses)).sum()), 0.0))


def _are_points(prior: Prior, truths: TruthRuns) -> NDArray[np.bool_]:
    """Which runs are a point of the prior, and nothing else."""
    return np.asarray((truths.spans == 1) & (truths.lows == prior.index[truths.owners]))


def _compute_equality_factors(refinement: Refinement) -> tuple[Array, Array]:
    """For every truth that is a point, the factor of that point, and that of all others."""
    prior = refinement.prior
    zeros, totals = np.zeros_like(prior.mass), np.full_like(prior.mass, prior.total)
    same_factor = _compute_mean_factors(refinement.profile, prior.total, zeros, prior.mass)
    return same_factor, _compute_mean_factors(refinement.profile, prior.total, prior.mass, totals)


def _compute_name_factors(refinement: Refinement, position: int, truths: TruthRuns) -> Array:
    """For every run of truths the factor of one sample, where values are equal or not."""
    same_factor, other_factor = _compute_equality_factors(refinement)
    factors = np.where(truths.owners == position, same_factor[truths.owners], other_factor[truths.owners])
    return np.where(_are_points(refinement.prior, truths), factors, 1.0)


def find_best_alpha_up(refinement: Refinement, stated: Array) -> Fraction | None:
    """The factor alpha_u that makes the error least where the truth follows what was stated; None where it is given."""
    if refinement.against_prior or refinement.delta or refinement.ratio <= 1:
        return None
    share = find_best_share(refinement.prior, refinement.distance, float(refinement.ratio), stated)
    return max(Fraction(1), min(refinement.ratio, Fraction(float(refinement.ratio) ** share)))


def _compute_mean_factors(profile: FactorProfile, total: int, start: Integers, end: Integers) -> Array:
    """The mean factor over the prior mass between start and end, ring by ring, and the atom on the nearest ring."""
    width = (end - start).astype(np.float64)
    reached = [np.zeros(len(width))]
    for until in profile.mass_limits[:-1]:
        step = float(until) * total
        # Where the step does not cut the ring its share is exactly 0 or 1, however thin the ring.
        cut = np.divide(step - start, width, out=np.zeros(len(width)), where=width > 0)
        reached.append(np.where(end <= step, 1.0, np.where(start >= step, 0.0, np.clip(cut, 0.0, 1.0))))
    reached.append(np.ones(len(width)))
    factor = sum(float(f) * (reached[k + 1] - reached[k]) for k, f in enumerate(profile.step_factors))
    atom = np.divide(float(profile.atom) * total, width, out=np.zeros(len(width)), where=width > 0)
    return np.asarray(factor + np.where(start == 0, atom, 0.0), dtype=np.float64)


def _find_rings(refinement: Refinement, position: int) -> tuple[Integers, Integers]:
    """For every truth, the prior mass nearer to it than the sample, and the mass up to the sample's distance."""
    prior, distance = refinement.prior, refinement.distance
    if isinstance(distance, ContinuousDistance):
        return _find_line_rings(prior.index, prior.mass, position, prior.index)
    if isinstance(distance, NominalDistance):
        is_sample = np.arange(len(prior.mass)) == position
        return np.where(is_sample, 0, prior.mass), np.where(is_sample, prior.mass, prior.total)
    if isinstance(distance, OrdinalDistance):
        places = np.array([distance.places[value] for value in prior.support], dtype=np.int64)
        order = np.argsort(places)
        inverse = np.argsort(order)
        start, end = _find_line_rings(places[order], prior.mass[order], int(inverse[position]), places[order])
        return start[inverse], end[inverse]
    return _find_web_rings(refinement, prior, position)


def _find_line_rings(index: Integers, mass: Integers, position: int, truths: Integers) -> tuple[Integers, Integers]:
    """Of rising whole numbers: what lies within a distance of a truth is between two places."""
    sums = np.concatenate(([0], np.cumsum(mass)))
    offsets = np.abs(truths - index[position])
    low, high = truths - offsets, truths + offsets
    inside = sums[np.searchsorted(index, high)] - sums[np.searchsorted(index, low, side="right")]
    upto = sums[np.searchsorted(index, high, side="right")] - sums[np.searchsorted(index, low)]
    return np.maximum(inside, 0), upto


def _find_web_rings(refinement: Refinement, prior: Prior, position: int) -> tuple[Integers, Integers]:
    if len(prior.mass) > MAX_VALUES:
        raise Unsupported(f"the posterior is computed for numbers, or for at most {MAX_VALUES:,} other values")
    distance_matrix = tabulate_distances(refinement.distance, prior.support)
    sample_distances = distance_matrix[:, [position]]
    is_nearer, is_within = distance_matrix < sample_distances - 1e-12, distance_matrix <= sample_distances + 1e-12
    return is_nearer @ prior.mass, is_within @ prior.mass
