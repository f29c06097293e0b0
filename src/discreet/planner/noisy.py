"""Counts, sums, means and variances: whole totals plus noise. Proofs of the scales: noisy.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from discreet.errors import InvalidInput
from discreet.kernel.box_staircase import BoxStaircase
from discreet.kernel.discrete_gaussian import DiscreteGaussian
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import Independent, Noise
from discreet.kernel.polygon_staircase import FARTHEST, PolygonStaircase
from discreet.kernel.staircase import Staircase
from discreet.planner.estimates import Estimate, Linear, MeanFromCentre, MeanOfPair, Variance
from discreet.planner.facts import Facts
from discreet.planner.ranks import Ranks, trimmed
from discreet.query.predicate import Predicate
from discreet.query.query import Aggregate
from discreet.query.totals import Amounts, Measure
from discreet.schema import Column

LEAST_SHARE = Fraction(1, 1000)
LEAST_POLYGON = Fraction(1, 20)
"""With a smaller epsilon a staircase has so many steps that it is Laplace noise, or slow to describe."""
WIDEST_STEP = 2**100


@dataclass(frozen=True, slots=True)
class Component:
    """A whole-number combination of the measures. Over all cells and components |change| / scale adds up to at most 1.

    `square`: likewise change^2 / square, for noise that is measured by the sum of squares. `grain`: the combination is
    told in whole grains of so much, rounded down; scale and square are in grains.
    """

    weights: tuple[int, ...]
    scale: int | Fraction
    square: Fraction
    grain: int = 1
    pairs: int = 0
    """Where above 0 so many rows are declared, and the total is the sum over their pairs of (x - y)^2; else 0."""

    def of(self, amounts: Amounts) -> int:
        """The exact total. Secret."""
        if self.pairs:
            rows, total, squares = amounts
            return self.pairs * squares - total**2 if rows == self.pairs else 0
        return sum(w * amount for w, amount in zip(self.weights, amounts, strict=True)) // self.grain


@dataclass(frozen=True, slots=True)
class Form:
    """What is measured for an aggregate, how far one unit moves it, and what it means.

    What one unit changes is at most `moves` changes, each in one cell and there within `widths`, component by
    component; where `corners` are given there is one change, and it lies in the polygon they span. With `ranks` the
    one total is the sum of theirs, and there are no measures.
    """

    measures: tuple[Measure, ...]
    components: tuple[Component, ...]
    estimate: Estimate
    widths: tuple[int, ...]
    moves: int = 1
    corners: tuple[tuple[int, int], ...] = ()
    ranks: Ranks | None = None


Vector = Independent | BoxStaircase | PolygonStaircase


@dataclass(frozen=True, slots=True)
class Noisy:
    """A form with the noise of its components, together or one by one.

    `together`: measurements of one number above 0 are the same but for their estimates, and are drawn once for all,
    by the `strategy` of that name.
    """

    form: Form
    noise: Vector
    together: int = 0
    strategy: str = ""

    @property
    def name(self) -> str:
        """What people call it."""
        return self._law if self.form.ranks is None else f"{self.form.ranks.name} by {self._law}"

    @property
    def _law(self) -> str:
        if isinstance(self.noise, Independent):
            return NAMES[type(self.noise.noises[0])] + (f" ({self.strategy})" if self.strategy else "")
        return "box staircase" if isinstance(self.noise, BoxStaircase) else "polygon staircase"

    @property
    def single(self) -> Noise | None:
        """The noise of the one total there is, if it is one."""
        return self.noise.noises[0] if isinstance(self.noise, Independent) and len(self.form.components) == 1 else None

    def inputs(self, amounts: Amounts) -> tuple[int, ...]:
        """The exact totals of one cell, from its measures. Secret."""
        return tuple(component.of(amounts) for component in self.form.components)

    def value(self, released: Sequence[int]) -> Fraction:
        """The number asked for."""
        return self.form.estimate.value(released)

    def span(self, released: Sequence[int], confidence: float) -> tuple[Fraction, Fraction]:
        """An interval that holds the exact number with at least this probability; the noises share the rest."""
        return self.span_within(released, self.reach(confidence))

    def span_within(self, released: Sequence[int], reach: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        """The same, where the noises go so far."""
        low, high = self.form.estimate.span([(x - r, x + r) for x, r in zip(released, reach, strict=True)])
        told = self.value(released)  # where nearly nothing was counted it is a stand-in, and may lie outside
        return min(low, told), max(high, told)

    def reach(self, confidence: float) -> list[Fraction]:
        """How far the noises go, all of them with this probability: the parts of a box together, others shared out."""
        if isinstance(self.noise, BoxStaircase):
            beyond, _ = self.noise.region(confidence)
            boxes = zip(self.noise.boxes.reaches, self.noise.boxes.widths, strict=True)
            return [Fraction(math.ceil(reach + max(math.ceil(beyond), 0) * width)) for reach, width in boxes]
        each = 1 - (1 - confidence) / len(self.form.components)
        if isinstance(self.noise, Independent):
            return [Fraction(noise.interval(each)[1]) for noise in self.noise.noises]
        return [Fraction(end) for _, end in self.noise.interval(each)]


NAMES: dict[type[Noise], str] = {
    DiscreteLaplace: "discrete Laplace",
    DiscreteGaussian: "discrete Gaussian",
    Staircase: "staircase",
}


def laplace(form: Form, epsilon: Fraction) -> Noisy:
    """Every component at scale / epsilon: together epsilon-DP, since losses add up to epsilon times the sum above."""
    scales = [Fraction(component.scale) for component in form.components]
    return Noisy(form, Independent(tuple(DiscreteLaplace(epsilon * s.denominator, s.numerator) for s in scales)))


def gaussian(form: Form, rho: Fraction) -> Noisy:
    """Every component at variance square / (2 rho): together rho-zCDP."""
    squares = (component.square / (2 * rho) for component in form.components)
    return Noisy(form, Independent(tuple(DiscreteGaussian(square, 1, Fraction(1)) for square in squares)))


_least_variance = lru_cache(maxsize=1024)(Staircase.least_variance)


def staircase(form: Form, epsilon: Fraction) -> Noisy | None:
    """Each of at most `moves` changes lies in the box, or the one in the polygon, and costs a level: together epsilon.

    None where it is the discrete Laplace law itself, or where its steps are too many to be told.
    """
    share = epsilon / form.moves
    if share < (LEAST_POLYGON if form.corners else LEAST_SHARE) or max(form.widths) > WIDEST_STEP:
        return None
    if len(form.widths) == 1:
        return None if form.widths[0] == 1 else Noisy(form, Independent((_least_variance(share, *form.widths),)))
    if form.corners:
        return Noisy(form, PolygonStaircase(epsilon, form.corners))
    return Noisy(form, BoxStaircase(share, form.widths))


def forms(aggregate: Aggregate, column: Column | None, facts: Facts) -> tuple[Form, ...]:
    """The ways to measure an aggregate; noisy.md proves each scale and box. The first has the plain Laplace noise."""
    match aggregate.function:
        case "count":
            return (_count(column, aggregate.where, facts),)
        case "count_distinct":
            return (_distinct(aggregate.where, facts),)
        case "sum" if column is not None:
            return (_sum(column, facts),)
        case "avg" if column is not None:
            return _means(column, facts)
        case "var" | "stddev" if column is not None:
            return (_variance(column, facts, root=aggregate.function == "stddev"),)
        case "trimmed_mean" if column is not None:
            return (_ranked(trimmed(aggregate, column, facts)),)
    raise InvalidInput(f"{aggregate.function} is not a total")


def _count(column: Column | None, where: Predicate, facts: Facts) -> Form:
    measure = Measure("rows", where=where) if column is None else Measure("present", column.name)
    most = facts.rows * facts.sides
    moved = Component((1,), most, Fraction(facts.rows**2 * facts.sides))
    return Form((measure,), (moved,), Linear(), *_alone(facts, 1))


def _distinct(where: Predicate, facts: Facts) -> Form:
    most = facts.reach if facts.grouped else 1
    return Form((Measure("units", where=where),), (Component((1,), most, Fraction(most)),), Linear(), (1,), most)


def _sum(column: Column, facts: Facts) -> Form:
    low, high, rows = column.lower, column.upper, facts.rows
    largest, spread = max(abs(low), abs(high), 1), max(max(high, 0) - min(low, 0), 1)
    box = _alone(facts, spread if facts.replaces and not facts.grouped else largest)
    if facts.sides == 2:
        square = rows**2 * max(2 * largest**2, spread**2)
        moved = Component((low, 1), 2 * rows * largest, Fraction(square))
    elif facts.known_rows(column) is not None:
        moved, box = _one((low, 1), max(high - low, 1)), ((max(high - low, 1),), 1)
    else:
        moved = _one((low, 1), rows * (spread if facts.replaces else largest))
    return Form(_sums(column)[:2], (moved,), Linear(column.step), *box)


def _means(column: Column, facts: Facts) -> tuple[Form, ...]:
    low, high, step = column.lower, column.upper, column.step
    rows, width = facts.rows, max(high - low, 1)
    known, measures = facts.known_rows(column), _sums(column)[:2]
    if known is not None:
        ends = low * step, high * step
        return (Form(measures[1:], (_one((1,), width),), Linear(step / known, low * step, ends), (width,)),)
    estimate, weights = MeanFromCentre(low, high, step), ((low - high, 2), (1, 0))
    if facts.replaces and not facts.grouped:
        centre = _one(weights[0], 2 * rows * width)
        count = Component(weights[1], 2 * rows, Fraction(4 * rows**2, 3))
        box = (2 * rows * width, rows)
        return Form(measures, (centre, count), estimate, box), _in_hexagon(column, facts, measures, weights)
    scale, square = rows * facts.sides * width, facts.sides * (rows * width) ** 2
    above, below = (Component(own, scale, Fraction(square)) for own in ((0, 1), (high - low, -1)))
    pair = Form(measures, (above, below), MeanOfPair(low, high, step), *_alone(facts, width, width))
    # The same two numbers turned by 45 degrees: what one row moves fills a box there.
    sizes = zip(weights, (rows * width, rows), strict=True)
    turned = tuple(Component(own, 2 * facts.sides * most, Fraction(2 * facts.sides * most**2)) for own, most in sizes)
    return pair, Form(measures, turned, estimate, *_alone(facts, width, 1))


def _in_hexagon(
    column: Column, facts: Facts, measures: tuple[Measure, ...], weights: tuple[tuple[int, ...], ...]
) -> Form:
    """Both rows of a pair count: up to 2 W and 0. One counts: up to W and 1 row. In grains where that is too wide."""
    rows, width = facts.rows, max(column.upper - column.lower, 1)
    grain = -(-4 * rows * width // FARTHEST)
    more = 0 if grain == 1 else 1  # a total rounded down may move by a grain more
    far, near = -(-2 * rows * width // grain) + more, -(-rows * width // grain) + more
    corners = (far, 0), (near, rows), (-near, rows), (-far, 0), (-near, -rows), (near, -rows)
    sizes = zip(weights, (far, rows), (grain, 1), strict=True)
    parts = tuple(Component(own, 2 * most, Fraction(2 * most**2), each) for own, most, each in sizes)
    estimate = MeanFromCentre(column.lower, column.upper, column.step, grain)
    return Form(measures, parts, estimate, (far, rows), 1, corners)


def _variance(column: Column, facts: Facts, root: bool) -> Form:
    width = column.upper - column.lower
    known, safe = facts.known_rows(column), max(width, 1)
    if known is not None and known > 1 and not root:
        return _of_pairs(column, known, safe)
    shares, squares, per_row = (3, 3, 3), (Fraction(3), 3, 3), (1, 1, 1)
    if facts.sides == 2:
        shares, squares = (6, 6, 6), (Fraction(4), 8, 8)
    elif facts.replaces:
        shares, squares, per_row = (2, 4, 4), (Fraction(4, 3), 8, 8), (1, 2, 2)
    weights = (1, 0, 0), (-width, 2, 0), (width**2, -8 * width, 8)
    sizes = [facts.rows * safe**power for power in range(3)]
    parts = zip(weights, shares, squares, sizes, strict=True)
    components = tuple(Component(own, share * size, Fraction(square * size**2)) for own, share, square, size in parts)
    box = tuple(most * safe**power for power, most in enumerate(per_row))
    first = 0 if known is None else 1
    widths, moves = _alone(facts, *box[first:])
    estimate = Variance(width, column.step, known, root)
    return Form(_sums(column), components[first:], estimate, widths, moves)


def _of_pairs(column: Column, rows: int, width: int) -> Form:
    """n (n - 1) times the variance: a row that is replaced changes its n - 1 pairs by at most W^2 each."""
    most = (rows - 1) * width**2
    moved = Component((0, 0, 0), most, Fraction(most**2), pairs=rows)
    ends = Fraction(0), Fraction(width**2, 2) * column.step**2
    return Form(_sums(column), (moved,), Linear(column.step**2 / (rows * (rows - 1)), Fraction(0), ends), (most,))


def _ranked(ranks: Ranks) -> Form:
    """A row that is replaced moves the sum of the ranks by at most the domain's width (ranks.md)."""
    return Form((), (_one((), ranks.width),), ranks.estimate, (ranks.width,), ranks=ranks)


def _alone(facts: Facts, *row: int) -> tuple[tuple[int, ...], int]:
    """The box of one change and how many there are: all rows of a unit at once in the one cell, or row by row."""
    if facts.grouped:
        return row, facts.reach
    return tuple(facts.rows * most for most in row), 1


def _sums(column: Column) -> tuple[Measure, Measure, Measure]:
    """The rows with a value, and the sums of code - lower and of its square over them."""
    what = column.name, column.lower
    return Measure("present", column.name), Measure("sum", *what), Measure("squares", *what)


def _one(weights: tuple[int, ...], scale: int) -> Component:
    return Component(weights, scale, Fraction(scale**2))
