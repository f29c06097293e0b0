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
from discreet.inference.drawn import best_up, posterior_of_draw, root_mean_square
from discreet.inference.laid import Cells, lay
from discreet.kernel.refinement import Refinement
from discreet.planner.noisy import Form
from discreet.posterior import Posterior
from discreet.prior import Grid, Prior
from discreet.query.totals import Amounts

POINTS = 2048
REACH = 64
"""The grid of a prior reaches so many of its standard deviations out."""
WEIGHT = 2.0**58
FARTHEST = 2**58
"""Places on a grid are whole numbers below this, so that four times one fits into 64 bits."""
ROUNDING = 2.0**-40
"""The mean of a prior may be off by this share of it."""
NO_VALUE = "the prior holds no value possible that the answer can have; widen it, or give another"


@dataclass(frozen=True, eq=False, slots=True)
class RefinedTotal:
    """The exact number of a form, told by a refinement of a prior over numbers."""

    form: Form
    refinement: Refinement
    stated: NDArray[np.float64]
    use: PriorUse
    name: str = "refinement of your prior"

    @property
    def distance_name(self) -> str:
        """What names the distance in a stored question: numbers have no other than these two."""
        return type(self.refinement.distance).__name__.lower()

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
        return _law(self.refinement.prior, self.stated)

    def posterior(self, released: Sequence[int]) -> Posterior:
        """What is known after the draw: its law is public."""
        prior = self.refinement.prior
        at = int(np.searchsorted(prior.index, released[0]))
        return _law(prior, posterior_of_draw(self.refinement, at))

    def expected_error(self) -> float:
        """The root mean square error of the posterior mean, the prior being right."""
        return root_mean_square(self.refinement, self.stated) or 0.0

    def words(self, confidence: float) -> str:  # noqa: ARG002 (nothing more can be said at any confidence)
        """What may be said of it without looking."""
        return "a draw shaped by your prior; the posterior is what it means"


def refined_total(
    form: Form, belief: Belief, epsilon: Fraction, neighbours: str, distance: Distance | None
) -> RefinedTotal:
    """The refinement of a belief on a grid of at most a few thousand points."""
    own, (prior, stated) = distance or Continuous(), on_grid(belief)
    plain = Refinement.of(prior, epsilon, "statistic", neighbours, own)
    refinement = Refinement.of(prior, epsilon, "statistic", neighbours, own, up=best_up(plain, stated))
    return RefinedTotal(form, refinement, stated, belief.use(drawn=True))


def on_grid(belief: Belief) -> tuple[Prior, NDArray[np.float64]]:
    """What the answer is drawn from, as whole masses on a few thousand points; and what was stated, there.

    Every point is a value that the number can have. Without a tail none lies beyond the ends of a prior that has some:
    which points those are is decided in exact arithmetic, and the others have no mass at all.
    """
    if isinstance(belief, Pointed):
        if not belief.tailed(drawn=True):
            return belief.prior, belief.mass
        return Prior(_whole(belief.used), belief.prior.index, belief.prior.grid, None), belief.mass
    shaped, tailed = cast(Shaped, belief), belief.tailed(drawn=True)
    exclude = shaped.ended and not tailed
    cells = _cells(shaped, exclude)
    laid = lay(shaped.shapes, cells, exclude)
    if laid.held < LEAST_INSIDE:
        raise InvalidInput(NO_VALUE)
    kept = np.flatnonzero(laid.count)
    stated = laid.shares[kept] / laid.shares[kept].sum()
    used = (1 - TAIL) * stated + TAIL * shaped.tail_on(cells.edges()) if tailed else stated
    return Prior(_whole(used), laid.stands[kept], cells.grid, None), stated


def _cells(belief: Shaped, exclude: bool) -> Cells:
    """Cells of equal numbers of values: all there are, or as far out as a prior matters."""
    grid, count = _finer(belief, belief.top) if exclude and belief.top is not None else (belief.grid, belief.count)
    first, last = 0, count - 1
    mean, away = Fraction(belief.mean), REACH * Fraction(max(belief.sd, belief.step, abs(belief.mean) * ROUNDING))
    ends = [(mean - away, mean + away)]
    if exclude and belief.shapes.hull is not None:
        ends.append(belief.shapes.hull)
    for low, high in ends:
        first = max(first, math.ceil((low - grid.origin) / grid.step))
        last = min(last, math.floor((high - grid.origin) / grid.step))
    if last < first:
        raise InvalidInput(NO_VALUE)
    stride = -(-(last + 1 - first) // FARTHEST)
    count = (last - first) // stride + 1
    size = min(count, POINTS)
    cuts = np.array([count * at // size for at in range(size + 1)], dtype=np.int64)
    own = Grid(Fraction(grid.value(first)), grid.step * stride)
    return Cells(own, cuts, (cuts[:-1] + cuts[1:] - 1) // 2, (0, count - 1))


def _finer(belief: Shaped, top: Fraction) -> tuple[Grid, int]:
    """The grid of a number that is not always on it, made so fine that the ends of all its shapes are, if it can be."""
    origin, step = belief.grid.origin, belief.grid.step
    ends = [end - origin for term in belief.shapes.possible for end in term.ends if origin <= end <= top]
    scale = math.lcm(step.denominator, *(end.denominator for end in ends))
    fine = Fraction(math.gcd(int(step * scale), *(int(end * scale) for end in ends)), scale)
    count = math.floor((top - origin) / fine) + 1
    return (Grid(origin, fine), count) if count <= FARTHEST else (belief.grid, belief.count)


def _whole(mass: NDArray[np.float64]) -> NDArray[np.int64]:
    """Probabilities of what is possible as whole masses, none 0."""
    return np.maximum(np.rint(mass * WEIGHT), 1).astype(np.int64)


def _law(prior: Prior, mass: object) -> Posterior:
    values = prior.floats()
    half = float((prior.grid or Grid(Fraction(0), Fraction(1))).step) / 2
    middle = (values[1:] + values[:-1]) / 2
    edges = np.concatenate(([values[0] - half], middle, [values[-1] + half]))
    law = np.asarray(mass, dtype=float)
    return Posterior(law / law.sum(), edges, None, values)
