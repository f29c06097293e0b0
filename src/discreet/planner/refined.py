"""A total by refinement: a draw from the analyst's prior, moved towards the exact number. Proof: kernel/refinement.md.

It is independent of how far one unit moves the total, so it is the choice where that is about as far as the prior
reaches, and where the analyst brings a distance of her own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.distance import Continuous, Distance
from discreet.errors import InvalidInput
from discreet.inference.belief import LEAST_INSIDE, TAIL, Belief, Pointed, PriorUse, Shaped
from discreet.inference.drawn import Truths, best_up, error_about_truths, posterior_of_truths
from discreet.inference.laid import Cells, Laid, lay
from discreet.kernel.refinement import Refinement
from discreet.planner.noisy import Form
from discreet.posterior import Posterior, law_of_runs
from discreet.prior import Grid, Prior
from discreet.query.totals import Amounts

POINTS = 2048
PARTS = 8
"""What a point of many values stands for is told apart in at least so many parts, where a truth is weighed."""
REACH = 64
"""The grid of a prior reaches so many of its standard deviations out."""
WEIGHT = 2.0**58
FARTHEST = 2**58
"""Places on a grid are whole numbers below this, so that four times one fits into 64 bits."""
ROUNDING = 2.0**-40
"""The mean of a prior may be off by this share of it."""
NO_VALUE = "the prior gives no probability to any value that the answer can have; widen it, or give another"


@dataclass(frozen=True, eq=False, slots=True)
class Gridded:
    """A belief about a number: the prior that an answer is drawn from, what was stated there, and where a truth can be.

    Few points are drawn, each of which may stand for many values; `truths` are these. With `ends` the number can also
    have values between two places of the grid, and from the outermost ones to the ends.
    """

    prior: Prior
    stated: NDArray[np.float64]
    truths: Truths
    ends: tuple[float, float] | None = None

    def law(self, mass: NDArray[np.float64]) -> Posterior:
        """Probabilities of the truths as a law over values."""
        grid = self.prior.grid or Grid(Fraction(0), Fraction(1))
        return law_of_runs(self.truths.lows, self.truths.spans, mass, grid, self.ends)


@dataclass(frozen=True, eq=False, slots=True)
class RefinedTotal:
    """The exact number of a form, told by a refinement of a prior over numbers."""

    form: Form
    refinement: Refinement
    gridded: Gridded
    use: PriorUse
    name: str = "refinement of your prior"

    @property
    def distance_name(self) -> str:
        """What names the distance in a stored question: numbers have no other than these two."""
        return self.refinement.distance.stored_name

    def inputs(self, amounts: Amounts) -> tuple[int, ...]:
        """The exact totals of one cell, from its measures. Secret."""
        return tuple(component.of(amounts) for component in self.form.components)

    def release(self, totals: Sequence[int]) -> tuple[int, ...]:
        """The place of one draw on the prior's grid."""
        drawn = cast(Fraction, self.refinement.answer(self.form.estimate.value(totals)))
        grid = self.refinement.prior.grid or Grid(Fraction(0), Fraction(1))
        return (int((drawn - grid.origin) / grid.step),)

    def value(self, released: Sequence[int]) -> Fraction:
        """What a place stands for."""
        grid = self.refinement.prior.grid or Grid(Fraction(0), Fraction(1))
        return Fraction(grid.value(released[0]))

    def before(self) -> Posterior:
        """The prior as it was stated."""
        return self.gridded.law(self.gridded.truths.stated)

    def posterior(self, released: Sequence[int]) -> Posterior:
        """What is known after the draw: its law is public."""
        at = int(np.searchsorted(self.refinement.prior.index, released[0]))
        return self.gridded.law(posterior_of_truths(self.refinement, at, self.gridded.truths))

    def expected_error(self) -> float:
        """The root mean square error of the posterior mean, the prior being right, with what a point stands for."""
        return error_about_truths(self.refinement, self.gridded.truths)

    def words(self, confidence: float, likely: str = "") -> str:  # noqa: ARG002 (nothing more can be said at any confidence)
        """What may be said of it without looking."""
        return "a draw shaped by your prior; the posterior is what it means"


def refined_total(
    form: Form, belief: Belief, epsilon: Fraction, neighbours: str, distance: Distance | None
) -> RefinedTotal:
    """The refinement of a belief on a grid of at most a few thousand points."""
    own, gridded = distance or Continuous(), on_grid(belief)
    plain = Refinement.of(gridded.prior, epsilon, "statistic", neighbours, own)
    up = best_up(plain, gridded.stated)
    refinement = Refinement.of(gridded.prior, epsilon, "statistic", neighbours, own, up=up)
    return RefinedTotal(form, refinement, gridded, belief.use(drawn=True))


def on_grid(belief: Belief) -> Gridded:
    """What the answer is drawn from, as whole masses on a few thousand points; what was stated, and of which values.

    Every point is a value that the number can have. Without a tail none lies beyond the ends of a prior that has some:
    which points those are is decided in exact arithmetic, and the others have no mass at all.
    """
    if isinstance(belief, Pointed):
        prior = belief.prior
        if belief.tailed(drawn=True):
            prior = Prior(_whole(belief.used), prior.index, prior.grid, None)
        return Gridded(prior, belief.mass, Truths.at_points(prior, belief.mass))
    shaped, tailed = cast(Shaped, belief), belief.tailed(drawn=True)
    exclude = shaped.ended and not tailed
    reach = _reach(shaped, exclude)
    cells = _cells(shaped, exclude, *reach)
    laid = lay(shaped.shapes, cells, exclude)
    if laid.held < LEAST_INSIDE:
        raise InvalidInput(NO_VALUE)
    kept = np.flatnonzero(laid.count)
    stated = _share(laid.shares[kept])
    prior = Prior(_whole(_use(shaped, cells, stated)), laid.stands[kept], cells.grid, None)
    truths = _truths(shaped, cells, laid, prior, stated)
    between = shaped.top is not None or cells.grid.step > shaped.grid.step
    return Gridded(prior, stated, truths, _ends(cells, truths, *reach) if between else None)


def _ends(cells: Cells, truths: Truths, low: Fraction, high: Fraction) -> tuple[float, float]:
    """The least and the greatest of values that need be on no grid: beyond its outermost places, where truths are."""
    first, last = int(truths.lows[0]), int(truths.lows[-1] + truths.spans[-1] - 1)
    least = low if first == cells.within[0] else cells.grid.value(first)
    return float(least), float(high if last == cells.within[1] else cells.grid.value(last))


def _use(shaped: Shaped, cells: Cells, stated: NDArray[np.float64]) -> NDArray[np.float64]:
    """With the tail, where there is one; all cells are possible then."""
    if not shaped.tailed(drawn=True):
        return stated
    return (1 - TAIL) * stated + TAIL * shaped.tail_on(cells.edges())


def _truths(shaped: Shaped, cells: Cells, laid: Laid, prior: Prior, stated: NDArray[np.float64]) -> Truths:
    """The values that the points of some cells stand for, in parts of the cells: these have values of every likelihood.

    The first and the last value of a cell and the point itself are apart: half way to the next point a truth makes both
    as likely, and by equality only the point is known.
    """
    widths = np.diff(cells.cuts)
    if (widths == 1).all():
        return Truths.at_points(prior, stated)
    firsts, points = cells.cuts[:-1], laid.stands[laid.count > 0]
    parts = [firsts + widths * part // PARTS for part in range(PARTS)]
    cuts = np.unique(np.concatenate((cells.cuts, firsts + 1, cells.cuts[1:] - 1, points, points + 1, *parts)))
    finer = Cells(cells.grid, cuts, (cuts[:-1] + cuts[1:] - 1) // 2, cells.within)
    exclude = shaped.ended and not shaped.tailed(drawn=True)
    own = lay(shaped.shapes, finer, exclude)
    of_cell = np.searchsorted(cells.cuts, cuts[:-1], side="right") - 1
    kept = np.flatnonzero((own.count > 0) & (laid.count[of_cell] > 0))
    shares = _share(own.shares[kept])
    owners = np.searchsorted(np.flatnonzero(laid.count), of_cell[kept])
    return Truths(own.lows[kept], own.count[kept], owners, shares, _use(shaped, finer, shares))


def _share(mass: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def _reach(belief: Shaped, exclude: bool) -> tuple[Fraction, Fraction]:
    """From where to where values are weighed: all there are, or as far out as a prior matters."""
    mean, away = Fraction(belief.mean), REACH * Fraction(max(belief.sd, belief.step, abs(belief.mean) * ROUNDING))
    top = Fraction(belief.grid.value(belief.count - 1)) if belief.top is None else belief.top
    lows, highs = [belief.grid.origin, mean - away], [top, mean + away]
    if exclude and belief.shapes.hull is not None:
        lows.append(belief.shapes.hull[0])
        highs.append(belief.shapes.hull[1])
    return max(lows), min(highs)


def _cells(belief: Shaped, exclude: bool, low: Fraction, high: Fraction) -> Cells:
    """Cells of equal numbers of values, from low to high."""
    grid = belief.grid if belief.top is None or not exclude else _finer(belief, belief.top)
    first, last = math.ceil((low - grid.origin) / grid.step), math.floor((high - grid.origin) / grid.step)
    if last < first:
        raise InvalidInput(NO_VALUE)
    stride = -(-(last + 1 - first) // FARTHEST)
    count = (last - first) // stride + 1
    size = min(count, POINTS)
    cuts = np.array([count * at // size for at in range(size + 1)], dtype=np.int64)
    own = Grid(Fraction(grid.value(first)), grid.step * stride)
    return Cells(own, cuts, (cuts[:-1] + cuts[1:] - 1) // 2, (0, count - 1))


def _finer(belief: Shaped, top: Fraction) -> Grid:
    """The grid of a number that is not always on it, made so fine that the ends of all its shapes are, if it can be."""
    origin, step = belief.grid.origin, belief.grid.step
    ended = [term for term in belief.shapes.possible if not term.spread]
    ends = [end - origin for term in ended for end in term.ends if origin <= end <= top]
    scale = math.lcm(step.denominator, *(end.denominator for end in ends))
    fine = Fraction(math.gcd(int(step * scale), *(int(end * scale) for end in ends)), scale)
    count = math.floor((top - origin) / fine) + 1
    return Grid(origin, fine) if count <= FARTHEST else belief.grid


def _whole(mass: NDArray[np.float64]) -> NDArray[np.int64]:
    """Probabilities of what is possible as whole masses, none 0."""
    return np.maximum(np.rint(mass * WEIGHT), 1).astype(np.int64)
