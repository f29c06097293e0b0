"""What the analyst believes of a number, on cells of the line: as stated, and as used, with a tail for being wrong.

A prior that is wrong must not ruin an answer. So where it only weighs noise afterwards, what is used is nine tenths of
what was stated and one tenth of a Cauchy law of its own center and scale on the support: where the answer lies far out,
the tail lets it speak. Where the answer is drawn from the prior, one with ends is used as stated: what lies beyond them
is impossible, and never returned.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.formatting import format_ends
from discreet.numeric import format_exact
from discreet.priors.posterior import Posterior
from discreet.priors.prior import (
    TAIL_WEIGHT,
    Grid,
    Prior,
    PriorUse,
    format_prior_ends,
    get_coarse_grid_rule,
    get_prior_rule,
    should_mix_tail,
)
from discreet.priors.syntax import GRAMMAR, ShapeMixture, parse_shapes

Array = NDArray[np.float64]
Knot = tuple[float, float]
"""A place where a law has its detail, and the scale of it."""
MIN_MASS_INSIDE = 1e-3
FINE_RESOLUTION, COARSE_RESOLUTION = 480, 100
MAX_POINTS = 600
MAX_CODE = 2**62
"""Codes are counted up to here."""


@dataclass(frozen=True, eq=False, slots=True)
class PriorCells:
    """Places on the line, the edges between them, and their probabilities, stated and used."""

    values: Array
    edges: Array
    stated: Array
    used: Array
    has_atoms: bool = False
    """Whether the values are all there is, rather than the middles of cells."""

    @property
    def points(self) -> Array | None:
        """The values, where they are not the middles of the cells."""
        return self.values if self.has_atoms else None

    def posterior(self, log_likelihood: Array) -> Posterior:
        """Update the used probabilities by Bayes' rule."""
        possible = self.used > 0
        highest = float(log_likelihood[possible].max())
        weight = np.where(possible, self.used * np.exp(np.minimum(log_likelihood - highest, 0.0)), 0.0)
        return Posterior(weight / weight.sum(), self.edges, None, self.points)

    def get_stated_distribution(self) -> Posterior:
        """Return what was stated."""
        return Posterior(self.stated / self.stated.sum(), self.edges, None, self.points)


class GridPrior(ABC):
    """A prior on the line between two ends."""

    step: float
    """How near two values can be."""
    tail: bool | None
    """Whether a tail is mixed in, where the analyst says so."""
    heavy: bool
    """Whether it has heavy tails of its own."""
    is_bounded: bool
    """Whether it holds nothing possible beyond the ends of what was stated."""
    ends: tuple[str, str] | None
    """The ends that nothing lies beyond, as people read them; of one that is ended, or is stated between two."""
    has_moved_values: bool = False
    """Whether numbers that were stated are left out or moved to others, since the number cannot be them."""

    def has_tail(self, is_sampled: bool) -> bool:
        """Whether a tail is mixed in: where the answer is drawn from it, or where it only weighs noise."""
        return should_mix_tail(self.tail, self.heavy, self.is_bounded, is_sampled)

    def get_use(self, is_sampled: bool) -> PriorUse:
        """Say how it is used there."""
        has_tail = self.has_tail(is_sampled)
        ends = None if has_tail and self.is_bounded else self.ends
        return PriorUse(has_tail, ends, rule=get_prior_rule(has_tail, self.heavy, self.has_moved_values))

    @abstractmethod
    def build_cells(
        self, knots: Sequence[Knot] = (), resolution: int = FINE_RESOLUTION, edges: Array | None = None
    ) -> PriorCells:
        """Cut the line into cells, small where this law or one of the knots has detail, and at some more edges."""

    @cached_property
    def moments(self) -> tuple[float, float]:
        """The mean and the standard deviation of what was stated."""
        cells = self.build_cells()
        mean = float(cells.stated @ cells.values)
        return mean, math.sqrt(float(cells.stated @ (cells.values - mean) ** 2))

    @property
    def mean(self) -> float:
        """The mean of what was stated."""
        return self.moments[0]

    @property
    def sd(self) -> float:
        """The standard deviation of what was stated."""
        return self.moments[1]


@dataclass(frozen=True, eq=False)
class ShapedGridPrior(GridPrior):
    """Shapes on a grid of so many points, each a value that the number can have."""

    shapes: ShapeMixture
    grid: Grid
    count: int
    ends: tuple[str, str] | None = None
    tail: bool | None = None
    top: Fraction | None = None
    """The greatest value of a number that is not always on the grid, a mean or a variance; None where it is."""
    has_new_names: bool = False
    """Whether it was laid once on other places than values of the number, so that its answers have new names."""
    has_new_names_if_bounded: bool = False
    """The same, but only where what lies beyond the ends of its shapes is impossible."""
    from_coarse_grid: bool = False
    """Whether the shapes were given on a coarser grid: its ends hold, as those of every `Prior` do."""

    @cached_property
    def low(self) -> float:
        """The least value."""
        return float(self.grid.origin)

    @cached_property
    def high(self) -> float:
        """The greatest value."""
        return float(self.grid.value(self.count - 1))

    @cached_property
    def step(self) -> float:  # type: ignore[override] # worked out from the grid
        """How near two values can be."""
        return float(self.grid.step)

    @property
    def heavy(self) -> bool:  # type: ignore[override] # worked out from the shapes
        """Whether a shape has heavy tails."""
        return self.shapes.is_heavy_tailed

    @property
    def is_bounded(self) -> bool:  # type: ignore[override] # worked out from the shapes
        """Whether all shapes have ends, or the grid that they were given on has."""
        return self.from_coarse_grid or self.shapes.is_bounded

    def get_use(self, is_sampled: bool) -> PriorUse:
        use = super().get_use(is_sampled)
        if self.from_coarse_grid:
            return replace(use, ends=self.ends, rule=get_coarse_grid_rule(use.tail))
        if self.has_new_names or (self.has_new_names_if_bounded and self.is_bounded and not use.tail):
            return replace(use, rule=7 if use.tail else 6)
        return use

    def build_cells(
        self, knots: Sequence[Knot] = (), resolution: int = FINE_RESOLUTION, edges: Array | None = None
    ) -> PriorCells:
        cuts = self._build_edges((*self._knots, *knots), resolution, edges)
        stated = self._compute_mass(cuts)
        used = stated
        if self.has_tail(is_sampled=False):
            used = (1 - TAIL_WEIGHT) * stated + TAIL_WEIGHT * self.compute_tail_mass(cuts)
        return PriorCells((cuts[1:] + cuts[:-1]) / 2, cuts, stated, used)

    @cached_property
    def _knots(self) -> tuple[Knot, ...]:
        return tuple((min(max(term.center, self.low), self.high), term.scale) for term in self.shapes.possible_terms)

    @cached_property
    def _center_and_scale(self) -> Knot:
        """Center and scale of the whole: the tail's."""
        edges = self._build_edges(self._knots, FINE_RESOLUTION)
        stated, values = self._compute_mass(edges), (edges[1:] + edges[:-1]) / 2
        mean = float(stated @ values)
        return mean, max(math.sqrt(float(stated @ (values - mean) ** 2)), self.step)

    def _build_edges(self, knots: Sequence[Knot], resolution: int, extra_edges: Array | None = None) -> Array:
        """Edges half way between grid points, ever wider away from every knot."""
        low, high = self.low - self.step / 2, self.high + self.step / 2
        if (high - low) / self.step <= resolution:
            return low + self.step * np.arange(round((high - low) / self.step) + 1, dtype=np.float64)
        edge_parts = [np.array([low, high]), *(() if extra_edges is None else (extra_edges,))]
        for center, scale in knots:
            size = max(scale, self.step)
            farthest = math.asinh(max(high - center, center - low, size) / size)
            offsets = size * np.sinh(np.linspace(0, farthest, resolution))
            edge_parts += [center + offsets, center - offsets]
        inside = np.clip(np.concatenate(edge_parts), low, high)
        steps: Array = np.unique(np.floor((inside - low) / self.step + 0.5))
        return low + self.step * steps

    def _compute_mass(self, edges: Array) -> Array:
        """The probability of every cell: each shape cut to the ends, then by their weights."""
        mass = np.zeros(len(edges) - 1)
        for term in self.shapes.possible_terms:
            term_mass = term.compute_cell_masses(edges)
            if (inside := float(term_mass.sum())) > 0:
                mass += float(term.share) * term_mass / inside
        return _normalize_mass(mass)

    def compute_tail_mass(self, edges: Array) -> Array:
        """The heavy tail alone: how likely every cell between some edges is."""
        center, scale = self._center_and_scale
        return _normalize_mass(np.diff(np.arctan((edges - center) / scale)))


@dataclass(frozen=True, eq=False)
class PointGridPrior(GridPrior):
    """Numbers and their probabilities, as given one by one; no other number is held possible.

    Each is a value that the number can have. Where it `has_moved_values` some that were given are none: of a grid that
    is finer than the values they went to the nearest ones, of weights they were left out.
    """

    prior: Prior
    tail: bool | None = None
    has_moved_values: bool = False
    quantity_between: str = ""
    """The number that may lie between these, by name; empty where it may not."""
    heavy: bool = False
    is_bounded: bool = True

    def get_use(self, is_sampled: bool) -> PriorUse:
        return replace(super().get_use(is_sampled), quantity_between=self.quantity_between)

    @cached_property
    def ends(self) -> tuple[str, str] | None:  # type: ignore[override] # worked out from the points
        """The least and the greatest of the numbers."""
        return format_ends(*self.prior.ends)

    @cached_property
    def values(self) -> Array:
        """The numbers."""
        return self.prior.floats()

    @cached_property
    def mass(self) -> Array:
        """Their probabilities."""
        return self.prior.mass / self.prior.total

    @cached_property
    def step(self) -> float:  # type: ignore[override] # worked out from the points
        """How near two of them can be."""
        return float(self.prior.grid.step) if self.prior.grid else 1.0

    def build_cells(
        self,
        knots: Sequence[Knot] = (),  # noqa: ARG002 (its points are its cells)
        resolution: int = FINE_RESOLUTION,
        edges: Array | None = None,
    ) -> PriorCells:
        values = self.values
        stated = self.mass
        used = self.mass_with_tail if self.has_tail(is_sampled=False) else self.mass
        if resolution < FINE_RESOLUTION and len(values) > MAX_POINTS:
            values, stated, used = self._merge_points(used)
        middle = (values[1:] + values[:-1]) / 2
        edges = np.concatenate(([values[0] - self.step / 2], middle, [values[-1] + self.step / 2]))
        return PriorCells(values, edges, stated, used, has_atoms=True)

    @cached_property
    def mass_with_tail(self) -> Array:
        """Their probabilities with a tail on the same numbers."""
        mean = float(self.mass @ self.values)
        scale = max(math.sqrt(float(self.mass @ (self.values - mean) ** 2)), self.step)
        tail: Array = 1 / (1 + ((self.values - mean) / scale) ** 2)
        return (1 - TAIL_WEIGHT) * self.mass + TAIL_WEIGHT * _normalize_mass(tail)

    def _merge_points(self, used: Array) -> tuple[Array, Array, Array]:
        """Fewer points, each the mean of its neighbours: enough to compare mechanisms."""
        place = np.floor(np.linspace(0, MAX_POINTS, len(self.values), endpoint=False)).astype(np.int64)
        masses = self.mass, used, self.values * used
        stated, merged, moment = (np.bincount(place, mass).astype(np.float64) for mass in masses)
        return moment / merged, stated, merged


def _normalize_mass(mass: Array) -> Array:
    return np.asarray(mass / mass.sum())


def parse_grid_prior(
    prior_input: str | Prior,
    low: Fraction,
    high: Fraction,
    step: Fraction,
    what: str,
    tail: bool | None = None,
    dense: bool = False,
    former_step: Fraction | None = None,
) -> GridPrior:
    """Read what an analyst gave as a belief about a number between low and high; refused from it alone.

    With `dense` the number can have values between the steps too. A mean of a public number of rows cannot, but its law
    was once laid as if it could, at steps of `former_step`: names of answers tell the two laws apart. Numbers that are
    given one by one for a mean stay what they are. Shapes on a grid without some of the values are laid on all values.
    """
    if isinstance(prior_input, str) and not prior_input.lstrip().startswith("{"):
        shapes = parse_shapes(prior_input)
        shaped_prior = _build_shaped_prior(shapes, low, high, step, what, dense)
        if former_step is not None:
            shaped_prior = _mark_renamed_answers(shaped_prior, shapes, low, high, step, former_step)
        return replace(shaped_prior, tail=tail)
    prior = Prior.parse(prior_input) if isinstance(prior_input, str) else prior_input
    if not isinstance(prior, Prior):
        raise InvalidInput(f"a prior is text or a Prior, got {type(prior).__name__}; {GRAMMAR}")
    if prior.grid is None:
        raise InvalidInput(f"{what} is a number; its prior must be over numbers; {GRAMMAR}")
    first, stride = (prior.grid.origin - low) / step, prior.grid.step / step
    finer = isinstance(prior_input, Prior) and (1 / stride).denominator == (first / stride).denominator == 1
    is_between_steps = dense or former_step is not None
    if prior.shape and (is_between_steps or not finer):
        shapes = parse_shapes(prior.shape)
        require_mass_within(shapes)
        shaped_prior = _build_shaped_prior(shapes, low, high, step, what, dense)
        return replace(shaped_prior, tail=tail, from_coarse_grid=True)
    return replace(_select_points(prior, prior.grid, low, high, step, what, finer, is_between_steps), tail=tail)


def _select_points(
    prior: Prior, grid: Grid, low: Fraction, high: Fraction, step: Fraction, what: str, finer: bool, dense: bool
) -> PointGridPrior:
    """The points within the ends, as they are where the number can be anywhere, else at values that it can have."""
    values, mass = prior.floats(), prior.mass / prior.total
    inside = (values >= float(low)) & (values <= float(high))
    if float(mass[inside].sum()) < MIN_MASS_INSIDE:
        raise build_outside_error(low, high, what)
    if dense:
        return PointGridPrior(Prior(prior.mass[inside], prior.index[inside], grid, None), quantity_between=what)
    first, stride = (grid.origin - low) / step, grid.step / step
    not_codes = inside & _are_not_codes(prior.index, first, stride)
    usable = inside & ~not_codes
    usable_prior = Prior(prior.mass[usable], prior.index[usable], grid, None) if usable.any() else None
    if finer and not_codes.any():
        usable_prior = _move_to_nearest(prior, grid, inside, low, high, step)
    if usable_prior is None or usable_prior.total < MIN_MASS_INSIDE * prior.total:
        raise build_no_value_error(step, what, "give weights to such values")
    return PointGridPrior(usable_prior, has_moved_values=bool(not_codes.any()))


def _move_to_nearest(
    prior: Prior, finer: Grid, inside: NDArray[np.bool_], low: Fraction, high: Fraction, step: Fraction
) -> Prior | None:
    """A prior on a grid finer than the values, its points at the values nearest to them between the ends of their run.

    Codes are counted from a value near the first point, so that they are small wherever the grid lies.
    """
    near = math.floor((finer.value(int(prior.index[0])) - low) / step)
    grid = Grid(low + near * step, step)
    first, stride = (finer.origin - grid.origin) / step, finer.step / step
    least, most = bound_runs(prior.index, first, stride, -near, math.floor((high - low) / step) - near, joined=True)
    movable = np.flatnonzero(inside & (least <= most))
    if not len(movable):
        return None
    scale = 2 * math.lcm(first.denominator, stride.denominator)
    offset, slope = int(first * scale) + scale // 2, int(stride * scale)
    nearest = (offset + slope * prior.index[movable].astype(object)) // scale  # of two, the upper one
    codes = np.clip(nearest.astype(np.int64), least[movable], most[movable])
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    return Prior(np.add.reduceat(prior.mass[movable], starts), codes[starts], grid, None)


def bound_runs(
    index: NDArray[np.int64], first: Fraction, stride: Fraction, lowest: int, highest: int, joined: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every point, the least and the greatest code between the ends of its run; none where these are swapped.

    A point is first + stride * index, in codes, of which there are those from the lowest to the highest. Where points
    are joined, those that follow one another are one run, and hold all between them possible; else each is a run of
    its own.
    """
    fresh = np.diff(index, prepend=index[0] - 2) != 1 if joined else np.ones(len(index), dtype=bool)
    starts = np.flatnonzero(fresh)
    lasts = np.append(starts[1:], len(index)) - 1
    scale = math.lcm(first.denominator, stride.denominator)
    offset, slope = int(first * scale), int(stride * scale)
    lowest, highest = max(lowest, -MAX_CODE), min(highest, MAX_CODE)
    # Whole numbers of any size: a code beyond an end by rounding would be an impossible answer.
    low, high = (offset + slope * index[ends].astype(object) for ends in (starts, lasts))
    least, most = np.clip(-(-low // scale), lowest, highest + 1), np.clip(high // scale, lowest - 1, highest)
    sizes = lasts - starts + 1
    return np.repeat(least.astype(np.int64), sizes), np.repeat(most.astype(np.int64), sizes)


def _are_not_codes(index: NDArray[np.int64], first: Fraction, stride: Fraction) -> NDArray[np.bool_]:
    """Which points first + stride * index are no codes. In whole numbers: one that is off by little is impossible."""
    scale = math.lcm(first.denominator, stride.denominator)
    offset, slope = int(first * scale) % scale, int(stride * scale) % scale
    if slope == 0:
        return np.full(len(index), offset != 0)
    return np.asarray((offset + slope * index.astype(object)) % scale != 0, dtype=bool)


def _build_shaped_prior(
    shapes: ShapeMixture, low: Fraction, high: Fraction, step: Fraction, what: str, dense: bool
) -> ShapedGridPrior:
    lower, upper = shapes.ends or (low, high)
    first = max(math.ceil((lower - low) / step), 0)
    last = min(math.floor((upper - low) / step), math.floor((high - low) / step))
    ends = low + first * step, low + last * step
    if dense:
        ends = max(lower, low), min(upper, high)
    if ends[1] < ends[0]:
        if upper < low or high < lower:
            raise build_outside_error(low, high, what)
        raise build_no_value_error(step, what, "widen it")
    inner_shapes = shapes.fill_uniform_ends(*ends)
    edges, terms = np.array([float(ends[0] - step / 2), float(ends[1] + step / 2)]), inner_shapes.possible_terms
    mass_inside = sum(float(term.share) * float(term.compute_cell_masses(edges)[0]) for term in terms)
    if mass_inside < MIN_MASS_INSIDE * float(inner_shapes.total_weight):
        raise build_outside_error(low, high, what)
    hull = format_prior_ends(inner_shapes.hull if shapes.is_bounded else shapes.ends, *ends)
    count, top = math.floor((ends[1] - ends[0]) / step) + 1, ends[1] if dense else None
    return ShapedGridPrior(inner_shapes, Grid(ends[0], step), count, hull, None, top)


def require_mass_within(shapes: ShapeMixture) -> None:
    """Refuse shapes of which nearly nothing lies between the ends of their own grid."""
    lower, upper = shapes.ends or (Fraction(0), Fraction(0))
    half = (shapes.step or Fraction(1)) / 2
    edges = np.array([float(lower - half), float(upper + half)])
    mass_inside = sum(
        float(term.share / shapes.total_weight) * float(term.compute_cell_masses(edges)[0])
        for term in shapes.possible_terms
    )
    if mass_inside < MIN_MASS_INSIDE:
        raise InvalidInput(
            f"less than a thousandth of the prior lies between its own ends, {format_exact(lower)} and "
            f"{format_exact(upper)}; widen the ends, or move the shapes between them"
        )


def _mark_renamed_answers(
    shaped_prior: ShapedGridPrior,
    shapes: ShapeMixture,
    low: Fraction,
    high: Fraction,
    step: Fraction,
    former_step: Fraction,
) -> ShapedGridPrior:
    """The same, and whether its law was another when places went by the former step from the lower end of the prior.

    Where nothing beyond the ends of shapes is possible these were places too, however fine that made the others.
    """
    lower, upper = (min(max(end, low), high) for end in shapes.ends or (low, high))
    bare = any(not term.numbers for term in shapes.possible_terms)
    places = {lower, upper} if bare else {lower}
    cuts = {end for term in shaped_prior.shapes.possible_terms for end in term.ends if lower <= end <= upper}
    has_moved, is_cut = (any((end - low) % step for end in ends) for ends in (places, cuts))
    return replace(shaped_prior, has_new_names=has_moved or former_step != step, has_new_names_if_bounded=is_cut)


def build_no_value_error(step: Fraction, what: str, advice: str) -> InvalidInput:
    """Build the refusal of a prior that lies between the values that the number can have."""
    return InvalidInput(
        f"the prior gives no probability to any value that {what} can have; these are "
        f"{format_exact(step)} apart; {advice}"
    )


def build_outside_error(low: Fraction, high: Fraction, what: str) -> InvalidInput:
    """Build the refusal of a prior of which nearly nothing lies where the number can be."""
    return InvalidInput(
        f"the prior lies outside what {what} can be, {format_exact(low)} to {format_exact(high)}; "
        "give one of which at least a thousandth lies inside"
    )
