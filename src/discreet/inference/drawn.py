"""What one draw of a refinement means: its law is public, so Bayes' rule gives the truth's.

A truth t gives a draw x with probability prior(x) times the factor of x's ring around t (kernel/refinement.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.distance import Continuous, Nominal, Ordinal
from discreet.errors import Unsupported
from discreet.kernel.refinement import Profile, Refinement
from discreet.kernel.refinement_risk import MOST_CATEGORIES, Line, Web, best_share, distances
from discreet.prior import Prior

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
CELLS = 2**13
"""A finer grid is gathered into so many cells to tell the error: it moves by less than one part in ten thousand."""
MOST_VALUES = 2**12
"""All pairs of so many values without an order are measured, no more."""


@dataclass(frozen=True, eq=False, slots=True)
class Truths:
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
    def at_points(prior: Prior, stated: Array) -> Truths:
        """The points themselves: there is nothing between them."""
        ones, every = np.ones_like(prior.index), np.arange(len(prior.index))
        return Truths(prior.index, ones, every, stated, prior.mass / prior.total)

    @property
    def centres(self) -> Array:
        """The mean place of every run."""
        return np.asarray(self.lows + (self.spans - 1) / 2, dtype=np.float64)

    @property
    def spreads(self) -> Array:
        """The variance of a place within every run, all being alike there."""
        return np.asarray((self.spans.astype(np.float64) ** 2 - 1) / 12, dtype=np.float64)

    def blur(self, points: Integers) -> float:
        """The variance, in places, of the truth among those that one point stands for, if it is as was stated."""
        away = self.centres - points[self.owners]
        held, moved, squared = (
            np.bincount(self.owners, self.stated * part, len(points)) for part in (1.0, away, away**2 + self.spreads)
        )
        means = np.divide(moved, held, out=np.zeros(len(points)), where=held > 0)
        return max(float((squared - means * moved).sum()), 0.0)


def posterior_of_truths(refinement: Refinement, at: int, truths: Truths) -> Array:
    """The probability of every run of truths, the draw being the point at place `at` of the prior's support.

    A truth between two points is as near to each as it is, so a run is measured from a place in its middle.
    """
    prior, places = refinement.prior, truths.lows + (truths.spans - 1) // 2
    if isinstance(refinement.distance, Nominal):
        mass = truths.used * _by_name(refinement, at, truths)
    else:
        inside = np.clip(places, prior.index[0], prior.index[-1])
        start, end = _on_line(prior.index, prior.mass, at, inside)
        mass = truths.used * _factors(refinement.profile, prior.total, start, end)
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def error_about_truths(refinement: Refinement, truths: Truths) -> float:
    """The root mean square error of the posterior mean over runs of truths, if the truth is as was stated."""
    prior = refinement.prior
    step = float(prior.grid.step) if prior.grid else 1.0
    if isinstance(refinement.distance, Nominal):
        return _by_equality(refinement, truths)
    held = np.bincount(truths.owners, truths.stated, len(prior.index))
    error = root_mean_square(refinement, held / held.sum()) or 0.0
    return math.hypot(error, step * math.sqrt(truths.blur(prior.index)))


def posterior_of_draw(refinement: Refinement, at: int) -> Array:
    """The probability that each value of the prior's support is the truth, the draw being the one at place `at`.

    It is for someone who holds the prior and knows that there is a truth: where there is none the draw says nothing.
    """
    prior = refinement.prior
    likelihood = _factors(refinement.profile, prior.total, *_rings(refinement, at))
    mass = prior.mass / prior.total * likelihood
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def root_mean_square(refinement: Refinement, stated: Array | None = None) -> float | None:
    """The error of the best estimate given the draw: of the mean of numbers, in their units.

    `stated` is the law of the truth on the prior's support, where it is not the prior. Over categories the error is
    that of the best guess, by the distance. None where there is a delta or there are too many categories.
    """
    prior, (up, down) = refinement.prior, map(float, refinement.factors)
    if refinement.delta:
        return None
    if isinstance(refinement.distance, Continuous):
        line = Line.of(prior, CELLS, stated)
        return math.sqrt(max(line.risk(up, down), 0.0)) * line.unit
    if prior.numeric:
        if not isinstance(refinement.distance, Nominal):
            return None
        return _by_equality(refinement, Truths.at_points(prior, prior.mass / prior.total if stated is None else stated))
    if len(prior.mass) > MOST_CATEGORIES:
        return None
    return math.sqrt(max(Web.of(prior, refinement.distance).risk(up, down), 0.0))


def _by_equality(refinement: Refinement, truths: Truths) -> float:
    """Of the posterior mean, where all other values are equally far: every truth has one factor here, one elsewhere.

    A truth that is no point has no distance from one, so that it makes all draws as likely as the prior does.
    """
    prior, named = refinement.prior, _are_points(refinement.prior, truths)
    mass, owners = prior.mass / prior.total, truths.owners[named]
    step = float(prior.grid.step) if prior.grid else 1.0
    here, elsewhere = _equal_or_not(refinement)
    centred = truths.centres - float((truths.used * truths.centres).sum() / truths.used.sum())

    def answers(weights: Array) -> Array:
        """For every draw, the weights of the truths by how likely each makes it."""
        own = np.bincount(owners, weights[named], len(mass))
        return np.asarray(weights[~named].sum() + (elsewhere * own).sum() + (here - elsewhere) * own)

    guess = answers(truths.used * centred) / answers(truths.used)
    held, moved = answers(truths.stated), answers(truths.stated * centred)
    squared = answers(truths.stated * (centred**2 + truths.spreads))
    return step * math.sqrt(max(float((mass * (squared - 2 * guess * moved + guess**2 * held)).sum()), 0.0))


def _are_points(prior: Prior, truths: Truths) -> NDArray[np.bool_]:
    """Which runs are a point of the prior, and nothing else."""
    return np.asarray((truths.spans == 1) & (truths.lows == prior.index[truths.owners]))


def _equal_or_not(refinement: Refinement) -> tuple[Array, Array]:
    """For every truth that is a point, the factor of that point, and that of all others."""
    prior = refinement.prior
    nothing, rest = np.zeros_like(prior.mass), np.full_like(prior.mass, prior.total)
    here = _factors(refinement.profile, prior.total, nothing, prior.mass)
    return here, _factors(refinement.profile, prior.total, prior.mass, rest)


def _by_name(refinement: Refinement, at: int, truths: Truths) -> Array:
    """For every run of truths the factor of one draw, where values are equal or not."""
    here, elsewhere = _equal_or_not(refinement)
    factors = np.where(truths.owners == at, here[truths.owners], elsewhere[truths.owners])
    return np.where(_are_points(refinement.prior, truths), factors, 1.0)


def best_up(refinement: Refinement, stated: Array) -> Fraction | None:
    """The factor alpha_u that makes the error least where the truth follows what was stated; None where it is given."""
    if refinement.against_prior or refinement.delta or refinement.ratio <= 1:
        return None
    share = best_share(refinement.prior, refinement.distance, float(refinement.ratio), stated)
    return max(Fraction(1), min(refinement.ratio, Fraction(float(refinement.ratio) ** share)))


def _factors(profile: Profile, total: int, start: Integers, end: Integers) -> Array:
    """The mean factor over the prior mass between start and end, ring by ring, and the atom on the nearest ring."""
    width = (end - start).astype(np.float64)
    reached = [np.zeros(len(width))]
    for until in profile.until[:-1]:
        step = float(until) * total
        # Where the step does not cut the ring its share is exactly 0 or 1, however thin the ring.
        cut = np.divide(step - start, width, out=np.zeros(len(width)), where=width > 0)
        reached.append(np.where(end <= step, 1.0, np.where(start >= step, 0.0, np.clip(cut, 0.0, 1.0))))
    reached.append(np.ones(len(width)))
    factor = sum(float(f) * (reached[k + 1] - reached[k]) for k, f in enumerate(profile.factor))
    atom = np.divide(float(profile.atom) * total, width, out=np.zeros(len(width)), where=width > 0)
    return np.asarray(factor + np.where(start == 0, atom, 0.0), dtype=np.float64)


def _rings(refinement: Refinement, at: int) -> tuple[Integers, Integers]:
    """For every truth, the prior mass nearer to it than the draw, and the mass up to the draw's distance."""
    prior, distance = refinement.prior, refinement.distance
    if isinstance(distance, Continuous):
        return _on_line(prior.index, prior.mass, at, prior.index)
    if isinstance(distance, Nominal):
        drawn = np.arange(len(prior.mass)) == at
        return np.where(drawn, 0, prior.mass), np.where(drawn, prior.mass, prior.total)
    if isinstance(distance, Ordinal):
        places = np.array([distance.places[value] for value in prior.support], dtype=np.int64)
        order = np.argsort(places)
        back = np.argsort(order)
        start, end = _on_line(places[order], prior.mass[order], int(back[at]), places[order])
        return start[back], end[back]
    return _in_web(refinement, prior, at)


def _on_line(index: Integers, mass: Integers, at: int, truths: Integers) -> tuple[Integers, Integers]:
    """Of rising whole numbers: what lies within a distance of a truth is between two places."""
    sums = np.concatenate(([0], np.cumsum(mass)))
    away = np.abs(truths - index[at])
    inside = sums[np.searchsorted(index, truths + away)] - sums[np.searchsorted(index, truths - away, side="right")]
    upto = sums[np.searchsorted(index, truths + away, side="right")] - sums[np.searchsorted(index, truths - away)]
    return np.maximum(inside, 0), upto


def _in_web(refinement: Refinement, prior: Prior, at: int) -> tuple[Integers, Integers]:
    if len(prior.mass) > MOST_VALUES:
        raise Unsupported(f"the posterior is computed for numbers, or for at most {MOST_VALUES:,} other values")
    apart = distances(refinement.distance, prior.support)
    drawn = apart[:, [at]]
    return (apart < drawn - 1e-12) @ prior.mass, (apart <= drawn + 1e-12) @ prior.mass
