"""The totals that are measured for counts, sums, means and variances, and how far one unit moves them together.

Proofs of every sensitivity: additive.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.errors import InvalidInput
from discreet.estimation.noisy_totals import Estimate, Linear, MeanFromCenter, MeanOfPair, Variance
from discreet.measurements.base import HistogramRequest, TotalsRequest
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.measurements.trimmed_mean import Ranks, build_trimmed_ranks
from discreet.mechanisms.polygon_staircase import MAX_VERTEX
from discreet.query.predicates import Predicate
from discreet.query.query import Aggregate
from discreet.query.scan import Amounts, ScanMeasure
from discreet.schema import Column


@dataclass(frozen=True, slots=True)
class Component:
    """A whole-number combination of the measures, and how far one unit moves it, with all the others.

    Over all cells and components |change| / l1_sensitivity adds up to at most 1, and change^2 / l2_sensitivity_sq
    likewise. The combination is in whole grains of `grain`, rounded down; so are both sensitivities.
    """

    weights: tuple[int, ...]
    l1_sensitivity: int | Fraction
    l2_sensitivity_sq: Fraction
    grain: int = 1
    paired_rows: int = 0
    """Where above 0 so many rows are declared, and the total is the sum over their pairs of (x - y)^2; else 0."""

    def compute_total(self, amounts: Amounts) -> int:
        """The exact total. Secret."""
        if self.paired_rows:
            rows, total, squares = amounts
            return self.paired_rows * squares - total**2 if rows == self.paired_rows else 0
        return sum(w * amount for w, amount in zip(self.weights, amounts, strict=True)) // self.grain


@dataclass(frozen=True, slots=True)
class LinearQuery:
    """What is measured for an aggregate, how far one unit moves it, and what it means.

    What one unit changes is at most `max_contributions` changes, each in one cell and there within `linf_box`,
    component by component; where `corners` are given there is one change, and it lies in the polygon they span. With
    `ranks` the one total is the sum of theirs, and there are no measures.
    """

    measures: tuple[ScanMeasure, ...]
    components: tuple[Component, ...]
    estimate: Estimate
    linf_box: tuple[int, ...]
    max_contributions: int = 1
    corners: tuple[tuple[int, int], ...] = ()
    ranks: Ranks | None = None

    def scan(self) -> TotalsRequest | HistogramRequest:
        """What is read: the measures; or how many rows each candidate has, where ranks are summed."""
        if self.ranks is None:
            return TotalsRequest(self.measures)
        return HistogramRequest(self.ranks.candidates.bins, self.ranks.candidates.count)

    def compute_totals(self, scanned: Sequence[Any]) -> list[tuple[int, ...]]:
        """The exact totals of every cell, from what was read. Secret."""
        if self.ranks is not None:
            return [(self.ranks.sum_positions(counts),) for counts in scanned]
        return [tuple(component.compute_total(amounts) for component in self.components) for amounts in scanned]

    def list_parameters(self) -> list[object]:
        """What names it in a stored question; never to change."""
        parts = [[part.weights, part.l1_sensitivity, str(part.l2_sensitivity_sq)] for part in self.components]
        bounds = [self.linf_box, self.max_contributions, self.corners]
        return [parts, *bounds, *([] if self.ranks is None else [self.ranks.candidates.width])]


def build_linear_queries(
    aggregate: Aggregate, column: Column | None, bounds: ContributionBounds
) -> tuple[LinearQuery, ...]:
    """The ways to measure an aggregate; additive.md proves each scale and box. The first has plain Laplace noise."""
    match aggregate.function:
        case "count":
            return (_build_count(column, aggregate.where, bounds),)
        case "count_distinct":
            l1_bound = bounds.l0_bound if bounds.is_grouped else 1
            measure, component = (
                ScanMeasure("units", where=aggregate.where),
                Component((1,), l1_bound, Fraction(l1_bound)),
            )
            return (LinearQuery((measure,), (component,), Linear(), (1,), l1_bound),)
        case "sum" if column is not None:
            return (_build_sum(column, bounds),)
        case "avg" if column is not None:
            return _build_means(column, bounds)
        case "var" | "stddev" if column is not None:
            return (_build_variance(column, bounds, root=aggregate.function == "stddev"),)
        case "trimmed_mean" if column is not None:
            # A row that is replaced moves the sum of the ranks by at most the domain's width (trimmed_mean.md).
            ranks = build_trimmed_ranks(aggregate, column, bounds)
            component = _build_component((), ranks.sensitivity)
            return (LinearQuery((), (component,), ranks.estimate, (ranks.sensitivity,), ranks=ranks),)
    raise InvalidInput(f"{aggregate.function} is not a total")


def _build_count(column: Column | None, where: Predicate, bounds: ContributionBounds) -> LinearQuery:
    measure = ScanMeasure("rows", where=where) if column is None else ScanMeasure("present", column.name)
    l1_bound = bounds.rows_per_unit * bounds.replace_factor
    component = Component((1,), l1_bound, Fraction(bounds.rows_per_unit**2 * bounds.replace_factor))
    return LinearQuery((measure,), (component,), Linear(), *_compute_linf_box(bounds, 1))


def _build_sum(column: Column, bounds: ContributionBounds) -> LinearQuery:
    low, high, rows = column.lower, column.upper, bounds.rows_per_unit
    largest, spread = max(abs(low), abs(high), 1), max(max(high, 0) - min(low, 0), 1)
    box = _compute_linf_box(bounds, spread if bounds.is_replace_one and not bounds.is_grouped else largest)
    if bounds.replace_factor == 2:
        square = rows**2 * max(2 * largest**2, spread**2)
        component = Component((low, 1), 2 * rows * largest, Fraction(square))
    elif bounds.get_public_rows(column) is not None:
        component, box = _build_component((low, 1), max(high - low, 1)), ((max(high - low, 1),), 1)
    else:
        component = _build_component((low, 1), rows * (spread if bounds.is_replace_one else largest))
    return LinearQuery(_build_sum_measures(column)[:2], (component,), Linear(column.step), *box)


def _build_means(column: Column, bounds: ContributionBounds) -> tuple[LinearQuery, ...]:
    low, high, step = column.lower, column.upper, column.step
    rows, width = bounds.rows_per_unit, max(high - low, 1)
    public_rows, measures = bounds.get_public_rows(column), _build_sum_measures(column)[:2]
    if public_rows is not None:
        linear = Linear(step / public_rows, low * step, (low * step, high * step))
        return (LinearQuery(measures[1:], (_build_component((1,), width),), linear, (width,)),)
    estimate, weights = MeanFromCenter(low, high, step), ((low - high, 2), (1, 0))
    if bounds.is_replace_one and not bounds.is_grouped:
        center_component = _build_component(weights[0], 2 * rows * width)
        count = Component(weights[1], 2 * rows, Fraction(4 * rows**2, 3))
        box_query = LinearQuery(measures, (center_component, count), estimate, (2 * rows * width, rows))
        return box_query, _build_hexagon_mean(column, bounds, measures, weights)
    factor = bounds.replace_factor
    scale, square = rows * factor * width, Fraction(factor * (rows * width) ** 2)
    above, below = Component((0, 1), scale, square), Component((high - low, -1), scale, square)
    pair = LinearQuery(measures, (above, below), MeanOfPair(low, high, step), *_compute_linf_box(bounds, width, width))
    # The same two numbers turned by 45 degrees: what one row moves fills a box there.
    sizes = zip(weights, (rows * width, rows), strict=True)
    rotated = tuple(Component(row, 2 * factor * size, Fraction(2 * factor * size**2)) for row, size in sizes)
    return pair, LinearQuery(measures, rotated, estimate, *_compute_linf_box(bounds, width, 1))


def _build_hexagon_mean(
    column: Column, bounds: ContributionBounds, measures: tuple[ScanMeasure, ...], weights: tuple[tuple[int, ...], ...]
) -> LinearQuery:
    """Both rows of a pair count: up to 2 W and 0. One counts: up to W and 1 row. In grains where that is too wide."""
    rows, width = bounds.rows_per_unit, max(column.upper - column.lower, 1)
    grain = -(-4 * rows * width // MAX_VERTEX)
    rounding = 0 if grain == 1 else 1  # a total rounded down may move by a grain more
    far, near = -(-2 * rows * width // grain) + rounding, -(-rows * width // grain) + rounding
    corners = (far, 0), (near, rows), (-near, rows), (-far, 0), (-near, -rows), (near, -rows)
    sizes = zip(weights, (far, rows), (grain, 1), strict=True)
    parts = tuple(Component(row, 2 * size, Fraction(2 * size**2), unit) for row, size, unit in sizes)
    estimate = MeanFromCenter(column.lower, column.upper, column.step, grain)
    return LinearQuery(measures, parts, estimate, (far, rows), 1, corners)


def _build_variance(column: Column, bounds: ContributionBounds, root: bool) -> LinearQuery:
    width = column.upper - column.lower
    public_rows, positive_width = bounds.get_public_rows(column), max(width, 1)
    if public_rows is not None and public_rows > 1 and not root:
        return _build_pairwise_variance(column, public_rows, positive_width)
    shares, squares, per_row = (3, 3, 3), (Fraction(3), 3, 3), (1, 1, 1)
    if bounds.replace_factor == 2:
        shares, squares = (6, 6, 6), (Fraction(4), 8, 8)
    elif bounds.is_replace_one:
        shares, squares, per_row = (2, 4, 4), (Fraction(4, 3), 8, 8), (1, 2, 2)
    weights = (1, 0, 0), (-width, 2, 0), (width**2, -8 * width, 8)
    sizes = [bounds.rows_per_unit * positive_width**power for power in range(3)]
    parts = zip(weights, shares, squares, sizes, strict=True)
    components = tuple(Component(row, share * size, Fraction(square * size**2)) for row, share, square, size in parts)
    box = tuple(most * positive_width**power for power, most in enumerate(per_row))
    first = 0 if public_rows is None else 1
    linf_box, max_contributions = _compute_linf_box(bounds, *box[first:])
    estimate = Variance(width, column.step, public_rows, root)
    return LinearQuery(_build_sum_measures(column), components[first:], estimate, linf_box, max_contributions)


def _build_pairwise_variance(column: Column, rows: int, width: int) -> LinearQuery:
    """n (n - 1) times the variance: a row that is replaced changes its n - 1 pairs by at most W^2 each."""
    l1_bound = (rows - 1) * width**2
    component = Component((0, 0, 0), l1_bound, Fraction(l1_bound**2), paired_rows=rows)
    ends = Fraction(0), Fraction(width**2, 2) * column.step**2
    estimate = Linear(column.step**2 / (rows * (rows - 1)), Fraction(0), ends)
    return LinearQuery(_build_sum_measures(column), (component,), estimate, (l1_bound,))


def _compute_linf_box(bounds: ContributionBounds, *row: int) -> tuple[tuple[int, ...], int]:
    """The box of one change and how many there are: all rows of a unit at once in the one cell, or row by row."""
    if bounds.is_grouped:
        return row, bounds.l0_bound
    return tuple(bounds.rows_per_unit * most for most in row), 1


def _build_sum_measures(column: Column) -> tuple[ScanMeasure, ScanMeasure, ScanMeasure]:
    """The rows with a value, and the sums of code - lower and of its square over them."""
    name, lower = column.name, column.lower
    return ScanMeasure("present", name), ScanMeasure("sum", name, lower), ScanMeasure("squares", name, lower)


def _build_component(weights: tuple[int, ...], l1_sensitivity: int) -> Component:
    return Component(weights, l1_sensitivity, Fraction(l1_sensitivity**2))
