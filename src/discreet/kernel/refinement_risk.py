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
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.distance import Continuous, Distance, Nominal, Ordinal, Semantic
from discreet.errors import Unsupported
from discreet.exact import between
from discreet.kernel.noise import least
from discreet.prior import Prior

if TYPE_CHECKING:
    from discreet.kernel.refinement import Refinement

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
CELLS = 2**11
"""A finer grid is gathered into so many cells to choose the factors: the risk is within 0.5 % of the least."""
NEGLIGIBLE = 1e-6
"""Where cells are gathered, tails that hold less than this share of the variance are gathered into the end cells."""
MOST_CATEGORIES = 512
"""With more values than this and no order, the factors are e^(+-epsilon/2)."""
WIDEST = 2**21
MOST_HELD = 2**16
"""So many sums about all truths are written down rather than made again for every factor that is tried."""


def best_share(prior: Prior, distance: Distance, ratio: float, stated: Array | None = None) -> float:
    """The s in (0, 1) for which alpha_u = ratio^s, alpha_d = ratio^(s-1) has the least Bayes risk, ties broken.

    The risk is the mean squared distance between the truth and the best estimate of it given the draw; `stated` is the
    law of the truth on the prior's support where it is not the prior.
    """
    if isinstance(distance, Continuous):
        line = Line.of(prior, CELLS if stated is None else CELLS // 2, stated)
        return _least_risk(lambda share: line.risk(ratio**share, ratio ** (share - 1)), len(line.mass))
    if len(prior.mass) <= MOST_CATEGORIES:
        web = Web.of(prior, distance)
        return _least_risk(lambda share: web.regret(ratio**share, ratio ** (share - 1)), len(web.mass) ** 2)
    return 0.5


def _least_risk(risk: Callable[[float], float], size: int) -> float:
    """A coarse search, finer over few values where the risk has several valleys; then golden sections."""
    shares, gap = np.linspace(0.0, 1.0, max(11, min(129, 40_000 // size)) + 1, retstep=True)
    centre = float(min(shares[1:-1], key=risk))
    low, high, ratio = max(centre - gap, gap / 10), min(centre + gap, 1 - gap / 10), (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = risk(left), risk(right)
    for _ in range(7):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = risk(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = risk(right)
    return (low + high) / 2


@dataclass(frozen=True, eq=False)
class Ball:
    """For every truth: the radius of the largest ball of at most a given mass, and how much of the next ring fits."""

    radius: Indices
    share: Array


@dataclass(frozen=True, eq=False, slots=True)
class Cover:
    """For every truth the first cell that is near, the first that no longer is, and whether none is."""

    low: Indices
    high: Indices
    none: NDArray[np.bool_]

    def summed(self, weights: Array, size: int) -> Array:
        """For every cell, the weights of the truths that it is near to."""
        kept = np.where(self.none, 0.0, weights)
        return np.cumsum(np.bincount(self.low, kept, size + 1) - np.bincount(self.high, kept, size + 1))[:size]


@dataclass(frozen=True, eq=False)
class Line:
    """Prior mass on consecutive cells 0..m-1, its prefix sums, and the cells that hold truths.

    `stated` is the law of the truth on those cells, where it is not the prior.
    """

    mass: Array
    truths: Indices
    unit: float
    stated: Array | None = None

    @staticmethod
    def of(prior: Prior, most: int, stated: Array | None = None) -> Line:
        """The prior on consecutive cells, at most `most` of them: finer grids are gathered."""
        share, offset = prior.mass / prior.total, prior.index - prior.index[0]
        if int(offset[-1]) >= most:
            offset = _without_tails(offset, share)
        width = int(offset[-1]) // most + 1
        mass: Array = np.bincount(offset // width, weights=share).astype(np.float64)
        step = float(prior.grid.step) if prior.grid else 1.0
        truths = np.flatnonzero(mass)
        if stated is None:
            return Line(mass, truths, width * step)
        own: Array = np.bincount(offset // width, weights=stated, minlength=len(mass)).astype(np.float64)
        return Line(mass, truths, width * step, own[truths])

    def prefix(self, power: int) -> Array:
        """Sums of mass times place^power over the cells before each."""
        return np.concatenate(([0.0], np.cumsum(self.mass * np.arange(len(self.mass), dtype=float) ** power)))

    def within(self, radius: Indices, sums: Array) -> Array:
        """The sum over the cells at most `radius` from each truth; nothing for radius -1."""
        high = np.minimum(self.truths + radius, len(self.mass) - 1) + 1
        low = np.maximum(self.truths - radius, 0)
        return np.where(radius < 0, 0.0, sums[np.maximum(high, low)] - sums[low])

    @cached_property
    def _before(self) -> Array:
        """The mass before each cell."""
        return self.prefix(0)

    @cached_property
    def _held(self) -> Array | None:
        """By radius from -1 on, the mass that near to each truth; None where that is too much to write down."""
        if len(self.mass) * len(self.truths) > MOST_HELD:
            return None
        return self.within(np.arange(-1, len(self.mass) + 1)[:, None], self._before)

    def ball(self, target: float) -> Ball:
        """All truths at once: counted where it is written down, else by bisection over radii."""
        if self._held is not None:
            low = (self._held[1:-1] <= target).sum(axis=0) - 1
            places = np.arange(len(low))
            return _ball(target, low, self._held[low + 1, places], self._held[low + 2, places])
        low = np.full(len(self.truths), -1, dtype=np.int64)
        high = np.full(len(self.truths), len(self.mass), dtype=np.int64)
        for _ in range(len(self.mass).bit_length() + 1):
            middle = (low + high) // 2
            fits = self.within(middle, self._before) <= target
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return _ball(target, low, self.within(low, self._before), self.within(low + 1, self._before))

    def risk(self, up: float, down: float) -> float:
        """The mean squared error of the posterior mean, in cells.

        Where the prior is right it is the prior variance less that of the posterior mean.
        """
        own, centred, variance = self._centred
        ball = self.ball(near_mass(up, down))
        covers = [self._cover(ball.radius), self._cover(ball.radius + 1)]

        def answers(weights: Array) -> Array:
            """For every draw, the weights of the truths by how likely each makes it."""
            return np.asarray(down * weights.sum() + (up - down) * self._spread(weights, ball.share, covers))

        zeroth, first = answers(own), answers(own * centred)
        if self.stated is not None:
            guess = np.divide(first, zeroth, out=np.zeros(len(first)), where=zeroth > 0)
            held, moved, squared = (answers(self.stated * centred**power) for power in range(3))
            return float((self.mass * (squared - 2 * guess * moved + guess**2 * held)).sum())
        informed = np.divide(first**2, zeroth, out=np.zeros(len(first)), where=zeroth > 0)
        # Not dot products: their threads wait for one another on a busy machine.
        return float(variance - (self.mass * informed).sum())

    @cached_property
    def _centred(self) -> tuple[Array, Array, float]:
        """The mass of each truth, how far it is from their mean, and the variance."""
        own = self.mass[self.truths]
        centred = self.truths.astype(np.float64) - float((own * self.truths).sum())
        return own, centred, float((own * centred**2).sum())

    def _spread(self, weights: Array, share: Array, covers: Sequence[Cover]) -> Array:
        """For every cell, the weights of the truths whose ball holds it, and their share where it is on the ring."""
        size, (inner, outer) = len(self.mass), covers
        return inner.summed(weights * (1 - share), size) + outer.summed(weights * share, size)

    def _cover(self, radius: Indices) -> Cover:
        low, high = np.maximum(self.truths - radius, 0), np.minimum(self.truths + radius, len(self.mass) - 1) + 1
        return Cover(low, high, radius < 0)


def _ball(target: float, radius: Indices, inside: Array, outside: Array) -> Ball:
    room = outside - inside
    share = np.divide(target - inside, room, out=np.zeros(len(room)), where=room > 0)
    return Ball(radius, np.clip(share, 0, 1))


def _without_tails(offset: Indices, share: Array) -> Indices:
    """The places from the first that matters, those in negligible tails moved to the ends of the rest."""
    square = share * (offset - float((share * offset).sum())) ** 2
    sums, allowed = np.cumsum(square), NEGLIGIBLE * float(square.sum()) / 2
    low = int(offset[np.searchsorted(sums, allowed)])
    high = int(offset[min(np.searchsorted(sums, sums[-1] - allowed), len(offset) - 1)])
    return np.clip(offset, low, max(low, high)) - low


def near_mass(up: float, down: float) -> float:
    """How much prior mass around the truth is raised by alpha_u; none where the factors are alike."""
    return (1 - down) / (up - down) if up > down else 0.0


@dataclass(frozen=True, eq=False)
class Web:
    """A few values with all their distances: squares, and for each truth the mass interval of each value's ring."""

    mass: Array
    squares: Array
    start: Array
    end: Array

    @staticmethod
    def of(prior: Prior, distance: Distance) -> Web:
        """Measure every pair once."""
        mass, apart = prior.mass / prior.total, distances(distance, prior.support)
        rings = [_rings(row, mass) for row in apart]
        return Web(mass, apart**2, np.array([start for start, _ in rings]), np.array([end for _, end in rings]))

    def risk(self, up: float, down: float) -> float:
        """The mean squared distance of the best guess among the values, given the draw."""
        return float((self.squares.T @ self._joint(up, down)).min(axis=0).sum())

    def regret(self, up: float, down: float) -> float:
        """The risk; by a hundredth, the chance that the likeliest value is wrong; by a hundredth of that, the doubt.

        Where the best guess by distance is the same whatever the draw, as the middle of a few ranks, the risk alone
        would not tell a draw that says something from one that says nothing. Nor would the likeliest value, where it
        is always the same one, as of a rare yes; the doubt that is left of all values does.
        """
        joint = self._joint(up, down)
        wrong = 1 - float(joint.max(axis=0).sum())
        drawn = joint.sum(axis=0)
        doubt = 1 - float(np.divide(joint**2, drawn, out=np.zeros_like(joint), where=drawn > 0).sum())
        more = 0.01 * float(self.squares.mean()) * (wrong + 0.01 * doubt)
        return float((self.squares.T @ joint).min(axis=0).sum()) + more

    def _joint(self, up: float, down: float) -> Array:
        """How likely each truth goes with each draw."""
        near = near_mass(up, down)
        width = self.end - self.start  # 0 for values of next to no weight
        share = np.divide(np.clip(near - self.start, 0, width), width, out=np.zeros_like(width), where=width > 0)
        return np.asarray(self.mass[:, None] * (down + (up - down) * share) * self.mass[None, :])


def distances(distance: Distance, values: Sequence[Hashable]) -> Array:
    """All distances between the values; those of a taxonomy from how many ancestors two values share."""
    if isinstance(distance, Nominal):
        return 1.0 - np.eye(len(values))
    if isinstance(distance, Ordinal):
        places = np.array([distance.places[value] for value in values], dtype=np.float64)
        return np.abs(places[:, None] - places[None, :])
    if isinstance(distance, Semantic):
        return _semantic([distance.taxonomy.of_concept(str(value)) for value in values])
    return np.array([[distance.between(one, two) for two in values] for one in values])


def _semantic(ancestors: Sequence[frozenset[str]]) -> Array:
    """log2(1 + share of ancestors not in common), for all pairs."""
    concepts = {concept: place for place, concept in enumerate(sorted(frozenset().union(*ancestors)))}
    above = np.zeros((len(ancestors), len(concepts)))
    for at, own in enumerate(ancestors):
        above[at, [concepts[concept] for concept in own]] = 1
    common, sizes = above @ above.T, above.sum(axis=1)
    union = sizes[:, None] + sizes[None, :] - common
    apart: Array = np.log2(1 + (union - common) / union)
    return apart


def _rings(row: Array, mass: Array) -> tuple[Array, Array]:
    """For every value, the mass nearer than it and the mass up to its own distance."""
    order = np.argsort(row, kind="stable")
    ranked, sums = row[order], np.concatenate(([0.0], np.cumsum(mass[order])))
    start = sums[np.searchsorted(ranked, row - 1e-12, side="left")]
    return start, sums[np.searchsorted(ranked, row + 1e-12, side="right")]


class Errors(Protocol):
    """How far draws fall from truths, the prior being right."""

    def mean_distance(self) -> float: ...
    def mean_square(self) -> float: ...
    def miss(self, alpha: float) -> float: ...
    def interval(self, confidence: float) -> tuple[float, float]: ...


def bayes_errors(refinement: Refinement) -> Errors:
    """The errors of a refinement's draws."""
    if isinstance(refinement.distance, Continuous):
        return NumericErrors.of(refinement)
    if len(refinement.prior.mass) > MOST_CATEGORIES:
        raise Unsupported(f"expected errors are computed for numbers, or for at most {MOST_CATEGORIES} other values")
    return CategoricalErrors.of(refinement)


@dataclass(frozen=True, eq=False)
class NumericErrors:
    """Draw less truth as a mixture of balls: the last factor everywhere, and each step's jump on its ball."""

    line: Line
    last: float
    jumps: tuple[float, ...]
    balls: tuple[Ball, ...]
    atom: float

    @staticmethod
    def of(refinement: Refinement) -> NumericErrors:
        """All truths at once."""
        profile, line = refinement.profile, Line.of(refinement.prior, WIDEST)
        factors = [float(factor) for factor in profile.factor]
        balls = tuple(line.ball(float(until)) for until in profile.until[:-1])
        jumps = tuple(one - two for one, two in pairwise(factors))
        return NumericErrors(line, factors[-1], jumps, balls, float(profile.atom))

    def _mean(self, inside: Callable[[Indices], Array]) -> float:
        """The mean of a quantity that `inside` sums over the cells up to a radius from each truth."""
        everywhere = np.full(len(self.line.truths), len(self.line.mass), dtype=np.int64)
        total = self.last * inside(everywhere)
        for jump, ball in zip(self.jumps, self.balls, strict=True):
            total = total + jump * ((1 - ball.share) * inside(ball.radius) + ball.share * inside(ball.radius + 1))
        return float(self.line.mass[self.line.truths] @ total)

    def mean_distance(self) -> float:
        zeroth, first = self.line.prefix(0), self.line.prefix(1)
        own = self.line.truths

        def inside(radius: Indices) -> Array:
            """Sum of mass times distance: right of the truth, and left of it."""
            high = np.minimum(own + radius, len(self.line.mass) - 1) + 1
            low = np.maximum(own - radius, 0)
            right = first[high] - first[own] - own * (zeroth[high] - zeroth[own])
            left = own * (zeroth[own] - zeroth[low]) - (first[own] - first[low])
            return np.where(radius < 0, 0.0, right + left)

        return self.line.unit * self._mean(inside)

    def mean_square(self) -> float:
        own = self.line.truths
        sums = [self.line.prefix(power) for power in range(3)]

        def inside(radius: Indices) -> Array:
            zeroth, first, second = (self.line.within(radius, prefix) for prefix in sums)
            return second - 2 * own * first + own.astype(float) ** 2 * zeroth

        return self.line.unit**2 * self._mean(inside)

    def miss(self, alpha: float) -> float:
        return self._miss(math.floor(alpha / self.line.unit * (1 + 1e-12)))

    def _miss(self, cells: int) -> float:
        sums = self.line.prefix(0)
        held = self._mean(lambda radius: self.line.within(np.minimum(radius, cells), sums))
        return max(0.0, 1 - held - self.atom)

    def interval(self, confidence: float) -> tuple[float, float]:
        allowed = 1 - float(between(confidence, 0, 1, "confidence"))
        width = self.line.unit * least(lambda cells: self._miss(cells) <= allowed + 1e-12)
        return -width, width


@dataclass(frozen=True, eq=False)
class CategoricalErrors:
    """The joint law of truth and draw, and all distances."""

    joint: Array
    apart: Array

    @staticmethod
    def of(refinement: Refinement) -> CategoricalErrors:
        """One refined law for each truth."""
        values, mass = refinement.prior.support, refinement.prior.mass / refinement.prior.total
        joint = np.array([weight * refinement.law(value).floats() for value, weight in zip(values, mass, strict=True)])
        return CategoricalErrors(joint, distances(refinement.distance, values))

    def mean_distance(self) -> float:
        return float((self.joint * self.apart).sum())

    def mean_square(self) -> float:
        return float((self.joint * self.apart**2).sum())

    def miss(self, alpha: float) -> float:
        return float(self.joint[self.apart > alpha * (1 + 1e-12)].sum())

    def interval(self, confidence: float) -> tuple[float, float]:
        raise Unsupported(f"an interval at {confidence} is of numbers; ask `useful` for the chance of a distance")
