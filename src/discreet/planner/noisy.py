"""Counts, sums, means and variances: whole totals plus noise. Proofs of the scales: noisy.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidInput
from discreet.kernel.discrete_gaussian import DiscreteGaussian
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import Noise
from discreet.planner.estimates import Estimate, Linear, MeanFromCentre, MeanOfPair, Variance
from discreet.planner.facts import Facts
from discreet.query.query import Aggregate
from discreet.query.totals import Amounts, Measure
from discreet.schema import Column


@dataclass(frozen=True, slots=True)
class Component:
    """A whole-number combination of the measures. Over all cells and components |change| / scale adds up to at most 1.

    `square`: likewise change^2 / square, for noise that is measured by the sum of squares.
    """

    weights: tuple[int, ...]
    scale: int
    square: Fraction


@dataclass(frozen=True, slots=True)
class Form:
    """What is measured for an aggregate, how far one unit moves it, and what it means."""

    measures: tuple[Measure, ...]
    components: tuple[Component, ...]
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Noisy:
    """A form with its noise, one law for each component."""

    form: Form
    noises: tuple[Noise, ...]

    @property
    def name(self) -> str:
        """What people call it."""
        return "discrete Gaussian" if isinstance(self.noises[0], DiscreteGaussian) else "discrete Laplace"

    def inputs(self, amounts: Amounts) -> tuple[int, ...]:
        """The exact totals of one cell, from its measures. Secret."""
        return tuple(_dot(component.weights, amounts) for component in self.form.components)

    def value(self, released: Sequence[int]) -> Fraction:
        """The number asked for."""
        return self.form.estimate.value(released)

    def span(self, released: Sequence[int], confidence: float) -> tuple[Fraction, Fraction]:
        """An interval that holds the exact number with at least this probability; the noises share the rest."""
        each = 1 - (1 - confidence) / len(self.noises)
        reach = [Fraction(noise.interval(each)[1]) for noise in self.noises]
        low, high = self.form.estimate.span([(x - r, x + r) for x, r in zip(released, reach, strict=True)])
        told = self.value(released)  # where nearly nothing was counted it is a stand-in, and may lie outside
        return min(low, told), max(high, told)


def laplace(form: Form, epsilon: Fraction) -> Noisy:
    """Every component at scale / epsilon: together epsilon-DP, since losses add up to epsilon times the sum above."""
    return Noisy(form, tuple(DiscreteLaplace(epsilon, component.scale) for component in form.components))


def gaussian(form: Form, rho: Fraction) -> Noisy:
    """Every component at variance square / (2 rho): together rho-zCDP."""
    squares = (component.square / (2 * rho) for component in form.components)
    return Noisy(form, tuple(DiscreteGaussian(square, 1, Fraction(1)) for square in squares))


def form(aggregate: Aggregate, column: Column | None, facts: Facts) -> Form:
    """The form of an aggregate; noisy.md proves each scale."""
    match aggregate.function:
        case "count":
            return _count(column, facts)
        case "count_distinct":
            return _distinct(facts)
        case "sum" if column is not None:
            return _sum(column, facts)
        case "avg" if column is not None:
            return _mean(column, facts)
        case "var" | "stddev" if column is not None:
            return _variance(column, facts, root=aggregate.function == "stddev")
    raise InvalidInput(f"{aggregate.function} is not a total")


def _count(column: Column | None, facts: Facts) -> Form:
    measure = Measure("rows") if column is None else Measure("present", column.name)
    most = facts.rows * facts.sides
    return Form((measure,), (Component((1,), most, Fraction(facts.rows**2 * facts.sides)),), Linear())


def _distinct(facts: Facts) -> Form:
    most = facts.reach if facts.grouped else 1
    return Form((Measure("units"),), (Component((1,), most, Fraction(most)),), Linear())


def _sum(column: Column, facts: Facts) -> Form:
    low, high, rows = column.lower, column.upper, facts.rows
    largest, spread = max(abs(low), abs(high), 1), max(max(high, 0) - min(low, 0), 1)
    if facts.sides == 2:
        square = rows**2 * max(2 * largest**2, spread**2)
        moved = Component((low, 1), 2 * rows * largest, Fraction(square))
    elif facts.known_rows(column) is not None:
        moved = _one((low, 1), max(high - low, 1))
    else:
        moved = _one((low, 1), rows * (spread if facts.replaces else largest))
    return Form(_sums(column)[:2], (moved,), Linear(column.step))


def _mean(column: Column, facts: Facts) -> Form:
    low, high, step = column.lower, column.upper, column.step
    rows, width = facts.rows, max(high - low, 1)
    known = facts.known_rows(column)
    if known is not None:
        ends = low * step, high * step
        return Form(_sums(column)[1:2], (_one((1,), width),), Linear(step / known, low * step, ends))
    if facts.replaces and not facts.grouped:
        centre = _one((low - high, 2), 2 * rows * width)
        count = Component((1, 0), 2 * rows, Fraction(4 * rows**2, 3))
        return Form(_sums(column)[:2], (centre, count), MeanFromCentre(low, high, step))
    scale, square = rows * facts.sides * width, facts.sides * (rows * width) ** 2
    above, below = (Component(weights, scale, Fraction(square)) for weights in ((0, 1), (high - low, -1)))
    return Form(_sums(column)[:2], (above, below), MeanOfPair(low, high, step))


def _variance(column: Column, facts: Facts, root: bool) -> Form:
    width = column.upper - column.lower
    known = facts.known_rows(column)
    shares = (3, 3, 3) if facts.sides == 1 else (6, 6, 6)
    squares = shares
    if facts.replaces and not facts.grouped:
        shares, squares = (4, 4, 2), (3, 8, 2)
    weights = (1, 0, 0), (-width, 2, 0), (width**2, -4 * width, 4)
    sizes = [facts.rows * max(width, 1) ** power for power in range(3)]
    parts = zip(weights, shares, squares, sizes, strict=True)
    components = tuple(Component(own, share * size, Fraction(square * size**2)) for own, share, square, size in parts)
    estimate = Variance(width, column.step, known, root)
    return Form(_sums(column), components if known is None else components[1:], estimate)


def _sums(column: Column) -> tuple[Measure, Measure, Measure]:
    """The rows with a value, and the sums of code - lower and of its square over them."""
    what = column.name, column.lower
    return Measure("present", column.name), Measure("sum", *what), Measure("squares", *what)


def _one(weights: tuple[int, ...], scale: int) -> Component:
    return Component(weights, scale, Fraction(scale**2))


def _dot(weights: tuple[int, ...], amounts: Amounts) -> int:
    return sum(weight * amount for weight, amount in zip(weights, amounts, strict=True))
