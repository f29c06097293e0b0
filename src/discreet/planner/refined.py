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
from discreet.inference.belief import Belief, Pointed
from discreet.inference.drawn import best_up, posterior_of_draw, root_mean_square
from discreet.kernel.refinement import Refinement
from discreet.planner.noisy import Form
from discreet.posterior import Posterior
from discreet.prior import Grid, Prior
from discreet.query.totals import Amounts

POINTS = 2048
REACH = 64
"""The grid of a prior reaches so many of its standard deviations out."""
WEIGHT = 2.0**58


@dataclass(frozen=True, eq=False, slots=True)
class RefinedTotal:
    """The exact number of a form, told by a refinement of a prior over numbers."""

    form: Form
    refinement: Refinement
    stated: NDArray[np.float64]
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
    return RefinedTotal(form, refinement, stated)


def on_grid(belief: Belief) -> tuple[Prior, NDArray[np.float64]]:
    """A belief, with its tail, as whole masses on an even grid round its centre; and as it was stated, there."""
    cells = belief.cells()
    if isinstance(belief, Pointed):
        return Prior(_whole(cells.used), belief.prior.index, belief.prior.grid, None), cells.stated
    low = max(float(cells.values[0]), belief.mean - REACH * belief.sd)
    high = min(float(cells.values[-1]), belief.mean + REACH * belief.sd)
    step = Fraction(max((high - low) / POINTS, float(np.diff(cells.edges).min()))).limit_denominator(10**6)
    step = step or Fraction((high - low) / POINTS)
    origin = Fraction(round(Fraction(low) / step)) * step
    count = max(1, min(POINTS + 2, math.ceil((high - float(origin)) / float(step)) + 1))
    edges = float(origin) + float(step) * (np.arange(count + 1, dtype=np.float64) - 0.5)
    used, stated = (_between(edges, cells.edges, mass) for mass in (cells.used, cells.stated))
    return Prior(_whole(used), np.arange(count, dtype=np.int64), Grid(origin, step), None), stated


def _between(edges: NDArray[np.float64], cuts: NDArray[np.float64], mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """The law of some cells on others."""
    sums = np.interp(edges, cuts, np.concatenate(([0.0], np.cumsum(mass))))
    law: NDArray[np.float64] = np.diff(sums) / (sums[-1] - sums[0])
    return law


def _whole(mass: NDArray[np.float64]) -> NDArray[np.int64]:
    """Probabilities as whole masses, none 0."""
    return np.maximum(np.rint(mass * WEIGHT), 1).astype(np.int64)


def _law(prior: Prior, mass: object) -> Posterior:
    values = prior.floats()
    half = float((prior.grid or Grid(Fraction(0), Fraction(1))).step) / 2
    middle = (values[1:] + values[:-1]) / 2
    edges = np.concatenate(([values[0] - half], middle, [values[-1] + half]))
    law = np.asarray(mass, dtype=float)
    return Posterior(law / law.sum(), edges, None, values)
