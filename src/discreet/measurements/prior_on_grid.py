"""An analyst's prior laid on the grid of a column.

A cell holds one or more consecutive points of the grid. A shape with ends holds possible exactly the points from end to
end; which these are is decided in exact arithmetic, so that rounding never makes a value possible that lies beyond an
end. How likely a cell is may be approximate.

The answer is drawn from it or chosen by it, so one with ends is used as stated: a position has a probability only where
one of its codes lies between the ends, and stands for such a code. Into shapes without ends a tenth of a Cauchy law of
their own mean and spread is mixed, so that a prior that is wrong does not ruin an answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.estimation.grid_prior import MIN_MASS_INSIDE, bound_runs, require_mass_within
from discreet.numeric import EPOCH, date_from_days, format_exact, parse_days
from discreet.priors.prior import (
    TAIL_WEIGHT,
    Array,
    Grid,
    Prior,
    PriorUse,
    build_grid,
    convert_to_masses,
    format_prior_ends,
    get_coarse_grid_rule,
    get_prior_rule,
    should_mix_tail,
)
from discreet.priors.syntax import (
    GRAMMAR,
    MIN_POSITIVE,
    ShapeMixture,
    ShapeTerm,
    is_weights_text,
    parse_shapes,
    parse_weights,
)
from discreet.schema import Column
from discreet.suggestions import build_unknown_name_error

NEGLIGIBLE_MASS = 1e-12
"""A shape of which less than this lies in the range says nothing about it, and is left out."""
HALF = Fraction(1, 2)
POSITION_GRID = Grid(Fraction(0), Fraction(1))
MAX_INDEX = 2**62
PlaceArray = NDArray[np.int64]
PlaceRange = tuple[int, int]
"""The first and the last of consecutive places on a grid; none where the last is before the first."""


@dataclass(frozen=True, eq=False, slots=True)
class GridCells:
    """Cells of consecutive places on a grid: from each of `cuts` to before the next, and the place in its middle.

    `value_range` are the first and the last place that a value may have, where the outermost cells reach beyond them.
    """

    grid: Grid
    cuts: PlaceArray
    middles: PlaceArray
    value_range: PlaceRange

    def compute_edges(self, selection: slice = slice(None)) -> Array:
        """The numbers half way between the last place of a cell and the first of the next, for some of the cuts."""
        return float(self.grid.origin) + float(self.grid.step) * (self.cuts[selection].astype(np.float64) - 0.5)

    def find_places(self, low: Fraction, high: Fraction) -> PlaceRange:
        """The places of the grid from low to high."""
        first, last = ((end - self.grid.origin) / self.grid.step for end in (low, high))
        return math.ceil(first), math.floor(last)

    def find_cells(self, first: int, last: int) -> slice:
        """The cells that hold the places from first to last."""
        start, stop = (int(np.searchsorted(self.cuts, place, side="right")) for place in (first, last))
        return slice(start - 1, stop)


@dataclass(frozen=True, eq=False, slots=True)
class PlacedShapes:
    """How much of the shapes lies in the cells, the probability of each there, and a possible place for each.

    A representative is the possible place nearest to the middle of a cell; the place count is of all places from the
    first possible one to the last: 0 where the shapes hold none of them possible.
    """

    mass_inside: float
    shares: Array
    representatives: PlaceArray
    first_places: PlaceArray
    place_counts: PlaceArray


def place_shapes(shapes: ShapeMixture, cells: GridCells, exclude: bool) -> PlacedShapes:
    """Every shape cut to the cells, then by their weights.

    With `exclude` a place beyond the ends of all shapes is impossible, and a shape with no place between its ends says
    nothing. Without, every place within is possible, and such a shape is on the place nearest to it.
    """
    mass_inside, distribution, possible_places = 0.0, np.zeros(len(cells.middles)), _PossiblePlaces.empty(cells)
    for term in shapes.possible_terms:
        weight = float(term.share / shapes.total_weight)
        where, part, places = _place_term(term, cells, exclude)
        inside = float(part.sum())
        if inside > NEGLIGIBLE_MASS:
            mass_inside += weight * inside
            distribution[where] += weight * part / inside
            if exclude:
                possible_places.add(where, places)
    if not exclude:
        possible_places.add(slice(0, len(distribution)), cells.value_range)
    counts = np.maximum(possible_places.high - possible_places.low + 1, 0)
    return PlacedShapes(mass_inside, distribution, possible_places.representatives, possible_places.low, counts)


def _place_term(term: ShapeTerm, cells: GridCells, exclude: bool) -> tuple[slice, Array, PlaceRange]:
    """Some consecutive cells, the probability of each before the shape is cut, and the places it holds possible."""
    if term.is_spread:
        return slice(0, len(cells.middles)), term.compute_cell_masses(cells.compute_edges()), cells.value_range
    low, high = term.ends
    first, last = cells.find_places(low, high)
    if last < first and not exclude:
        first = last = math.floor(((low + high) / 2 - cells.grid.origin) / cells.grid.step + HALF)
    # Where nothing is excluded the outermost cells count whole, also beyond `value_range`.
    ends = cells.value_range if exclude else (int(cells.cuts[0]), int(cells.cuts[-1]) - 1)
    start, stop = max(first, ends[0]), min(last, ends[1])
    if stop < start:
        return slice(0, 0), np.zeros(0), (0, -1)
    where = cells.find_cells(start, stop)
    cuts = slice(where.start, where.stop + 1)
    if term.name == "triangular" and low < high:
        return where, np.maximum(term.compute_cell_masses(cells.compute_edges(cuts)), MIN_POSITIVE), (start, stop)
    inside = np.diff(np.clip(cells.cuts[cuts], start, stop + 1)).astype(np.float64)
    return where, inside * float(Fraction(1, last + 1 - first)), (start, stop)


@dataclass(frozen=True, eq=False, slots=True)
class _PossiblePlaces:
    """The possible places of every cell while they are gathered: what stands for it, the first, and the last."""

    cells: GridCells
    representatives: PlaceArray
    low: PlaceArray
    high: PlaceArray

    @staticmethod
    def empty(cells: GridCells) -> _PossiblePlaces:
        size = len(cells.middles)
        return _PossiblePlaces(cells, np.full(size, -1), np.zeros(size, dtype=np.int64), np.full(size, -1))

    def add(self, where: slice, places: PlaceRange) -> None:
        """A range of possible places, in the cells that hold it."""
        columns = (self.cells.middles, self.representatives, self.low, self.high)
        middles, representatives, low, high = (values[where] for values in columns)
        cuts = self.cells.cuts[where.start : where.stop + 1]
        first, last = np.maximum(cuts[:-1], places[0]), np.minimum(cuts[1:] - 1, places[1])
        has_places, is_empty = first <= last, high < low
        nearest = np.clip(middles, first, np.maximum(first, last))
        better = has_places & (is_empty | (np.abs(nearest - middles) < np.abs(representatives - middles)))
        self.representatives[where] = np.where(better, nearest, representatives)
        self.low[where] = np.where(has_places, np.where(is_empty, first, np.minimum(low, first)), low)
        self.high[where] = np.where(has_places, np.where(is_empty, last, np.maximum(high, last)), high)


CodeArray = NDArray[np.int64]
Hull = tuple[Fraction, Fraction] | None
StandingCodes = tuple[CodeArray, CodeArray, CodeArray]
"""For every position the code that stands for it, its lowest possible code, and the codes from there to the highest."""


@dataclass(frozen=True, eq=False, slots=True)
class CodePoints:
    """Rising codes of a column, perhaps the same several times, and the share of each."""

    codes: CodeArray
    shares: Array


@dataclass(frozen=True, eq=False, slots=True)
class PositionPrior:
    """A prior over positions, as stated and as used, on the same positions.

    Each position stands for one of `codes`, which the prior holds possible; its possible codes are from its lowest code
    over so many as `code_counts` says. `points` are the codes that the numbers of a prior on a grid went to.
    """

    stated_prior: Prior
    used_prior: Prior
    codes: CodeArray
    lowest_codes: CodeArray
    code_counts: CodeArray
    prior_use: PriorUse
    points: CodePoints | None = None

    @property
    def bin_variance(self) -> float:
        """The variance, in codes, of the truth within a position, where it is spread evenly over what is possible."""
        shares = self.stated_prior.mass / self.stated_prior.total
        return float((shares * (self.code_counts.astype(np.float64) ** 2 - 1)).sum()) / 12


def build_even_prior(column: Column, width: int, count: int) -> PositionPrior:
    """Every position alike, where the analyst states nothing."""
    prior, offsets = Prior.uniform(0, count - 1), np.arange(count) * width
    middles, counts = _compute_middles(column, width, 0, count), np.minimum(width, column.size - offsets)
    return PositionPrior(prior, prior, middles, column.lower + offsets, counts, PriorUse(tail=False))


def place_prior(
    column: Column, width: int, count: int, prior_input: str | Prior, tail: bool | None = None
) -> PositionPrior:
    """The prior over positions 0 to count - 1, bins of `width` codes from the column's lowest."""
    if column.private_keys:
        raise Unsupported(f"{column.name} has no public domain, so no prior; ask without one")
    if not isinstance(prior_input, str | Prior):
        raise InvalidInput(f"a prior is text or a Prior, got {type(prior_input).__name__}; {GRAMMAR}")
    if column.categories:
        if tail:
            raise InvalidInput(f"a heavy tail is of numbers, and {column.name} is not one; leave out tail")
        return _place_categories(column, width, prior_input)
    if isinstance(prior_input, str) and not is_weights_text(prior_input):
        shapes = parse_shapes(prior_input, dates=column.kind == "date")
        has_tail = should_mix_tail(tail, shapes.is_heavy_tailed, shapes.is_bounded, is_sampled=True)
        return _build_shaped_prior(column, width, count, shapes, has_tail)
    prior = _parse_numeric_prior(column, prior_input)
    grid = prior.grid or POSITION_GRID
    if prior.shape and not _has_all_codes(column, grid):
        return _place_shapes_on_column(column, width, count, parse_shapes(prior.shape), tail)
    has_tail = should_mix_tail(tail, heavy=False, is_bounded=True, is_sampled=True)
    is_joined = not isinstance(prior_input, str) and _has_all_codes(column, grid)
    return _round_to_codes(column, width, prior.index, grid, prior.mass / prior.total, has_tail, False, is_joined)


def place_in_narrower_bins(
    position_prior: PositionPrior,
    column: Column,
    width: int,
    count: int,
    prior_input: str | Prior,
    tail: bool | None = None,
) -> PositionPrior:
    """The same prior on the positions of a column that is cut to the codes it holds possible.

    Numbers on a grid keep the codes that they went to before: one beside the cut column may have gone into it.
    """
    if position_prior.points is None:
        return place_prior(column, width, count, prior_input, tail)
    return _bin_points(column, width, position_prior.points, position_prior.prior_use)


def mix_cauchy_tail(prior: Prior) -> Prior:
    """Nine tenths of the prior, one tenth of a Cauchy law of its mean and sd, at least one step, on its support."""
    if prior.grid is None:
        raise InvalidInput("a tail is of numbers; this prior is over categories")
    shares = prior.mass / prior.total
    # Not a dot product: on a busy machine its threads wait for one another for tens of milliseconds.
    d = prior.index - float((shares * prior.index).sum())
    sd = max(1.0, math.sqrt(float((shares * d**2).sum())))
    tail = 1 / (1 + (d / sd) ** 2)
    mixed_shares = (1 - TAIL_WEIGHT) * shares + TAIL_WEIGHT * tail / tail.sum()
    return Prior(convert_to_masses(mixed_shares), prior.index, prior.grid, None)


def _place_categories(column: Column, width: int, prior_input: str | Prior) -> PositionPrior:
    is_weights = isinstance(prior_input, str) and is_weights_text(prior_input)
    prior = _parse_weights(str(prior_input)) if is_weights else prior_input
    if isinstance(prior, str) or prior.grid is not None:
        example = json.dumps({column.categories[0][:40]: 1, column.categories[-1][:40]: 3}, ensure_ascii=False)
        raise InvalidInput(f"the prior of {column.name} gives weights to its categories, such as {example}")
    category_codes = {name: code for code, name in enumerate(column.categories)}
    names = [str(value).lower() if column.kind == "boolean" else str(value) for value in prior.support]
    unknown_name = next((name for name in names if name not in category_codes), None)
    if unknown_name is not None:
        place = f"in the prior of {column.name}"
        raise build_unknown_name_error("category", unknown_name, column.categories, "unknown-category", place=place)
    _check_unique(column, names)
    codes = np.array([category_codes[name] for name in names])
    order = np.argsort(codes)
    positions, starts = np.unique(codes[order] // width, return_index=True)
    category_prior = Prior(np.add.reduceat(prior.mass[order], starts), positions, POSITION_GRID, None)
    standing_codes = _find_standing_codes(column, width, codes[order], starts)
    prior_use = PriorUse(tail=False, excludes=len(names) < len(category_codes))
    return PositionPrior(category_prior, category_prior, *standing_codes, prior_use)


def _parse_weights(text: str) -> Prior:
    return Prior.weights(dict(parse_weights(text).items()))


def _check_unique(column: Column, names: Sequence[Hashable]) -> None:
    if len(set(names)) < len(names):
        raise InvalidInput(f"the prior of {column.name} names the same value twice; add up its weights")


def _parse_numeric_prior(column: Column, prior_input: str | Prior) -> Prior:
    """A prior over numbers; over dates as one over days since 1970-01-01."""
    prior = prior_input
    if isinstance(prior, str):
        prior = _parse_weights(prior) if column.kind == "date" else Prior.parse(prior)
    if prior.grid is not None:
        return prior
    if column.kind != "date":
        raise InvalidInput(f"{column.name} is a number; its prior must be over numbers; {GRAMMAR}")
    day_numbers = [_parse_day(column, value) for value in prior.support]
    _check_unique(column, day_numbers)
    return Prior.weights(dict(zip(day_numbers, prior.mass.tolist(), strict=True)))


def _parse_day(column: Column, value: object) -> int:
    if isinstance(value, date):
        return value.toordinal() - EPOCH.toordinal()
    return parse_days(str(value), f"{column.name} is a date; a value of its prior")


def _has_all_codes(column: Column, grid: Grid) -> bool:
    """Whether every value of the column is a point of the grid, so that none between two points lacks a weight."""
    return (column.step / grid.step).denominator == 1 and (grid.origin / grid.step).denominator == 1


def _round_to_codes(
    column: Column, width: int, index: CodeArray, grid: Grid, shares: Array, tail: bool, is_heavy: bool, is_joined: bool
) -> PositionPrior:
    """The shares of numbers on a grid, at the codes nearest to them; what is outside the bounds is left out.

    Where they are joined, points that follow one another hold all between them possible, and are rounded to codes
    between the first and the last of them; any other point is a code, or is left out as impossible.
    """
    first, stride = grid.origin / column.step - column.lower, grid.step / column.step
    ends = (math.ceil((edge - first) / stride) for edge in (-HALF, column.size - HALF))
    start, stop = (int(np.searchsorted(index, min(max(end, -MAX_INDEX), MAX_INDEX))) for end in ends)
    if shares[start:stop].sum() < MIN_MASS_INSIDE:
        raise _build_outside_error(column)
    # From the first one inside, so that floats tell codes apart however far away the grid begins.
    first_code = first + stride * int(index[start]) + HALF
    code_offsets = float(first_code) + float(min(stride, Fraction(MAX_INDEX))) * (index[start:stop] - index[start])
    nearest = np.floor(code_offsets + 1e-9)  # half way between two codes is the upper one, whatever floats make of it
    nearest = np.clip(nearest, 0, column.size - 1).astype(np.int64)
    least, most = (ends[start:stop] for ends in bound_runs(index, first, stride, 0, column.size - 1, is_joined))
    possible = np.flatnonzero(least <= most)
    inside, codes = shares[start:stop][possible], np.clip(nearest, least, np.maximum(least, most))[possible]
    if inside.sum() < MIN_MASS_INSIDE:
        raise _build_no_value_error(column)
    is_unchanged = len(possible) == len(nearest) and bool((codes == nearest).all())
    hull = Fraction(grid.value(int(index[0]))), Fraction(grid.value(int(index[-1])))
    rule = get_prior_rule(tail, is_heavy, has_moved_values=not is_unchanged)
    prior_use = PriorUse(tail, _format_prior_ends(column, hull), rule=rule)
    return _bin_points(column, width, CodePoints(column.lower + codes, inside), prior_use)


def _bin_points(column: Column, width: int, points: CodePoints, prior_use: PriorUse) -> PositionPrior:
    """Codes and their shares in bins of so many codes, each at the bin that holds it."""
    codes = points.codes - column.lower
    starts = np.flatnonzero(np.diff(codes // width, prepend=-1))
    standing_codes, shares = _find_standing_codes(column, width, codes, starts), np.add.reduceat(points.shares, starts)
    return _build_position_prior(codes[starts] // width, shares, standing_codes, prior_use, points)


def _find_code_range(column: Column, hull: Hull) -> tuple[int, int]:
    """The first and the last code, counted from the lowest, that lies between two ends; none if they are swapped."""
    low, high = hull or _get_column_ends(column)
    first, last = math.ceil(low / column.step), math.floor(high / column.step)
    return max(0, first - column.lower), min(column.size - 1, last - column.lower)


def _find_standing_codes(column: Column, width: int, codes: CodeArray, starts: CodeArray) -> StandingCodes:
    """For every position, from `starts` among rising codes: the one nearest to its middle, the lowest, their number.

    The codes that come in are counted from the lowest, those that go out are the column's own.
    """
    sizes = np.diff(np.append(starts, len(codes)))
    offsets = np.abs(codes - (codes // width * width + (width - 1) // 2))
    is_nearest = offsets == np.repeat(np.minimum.reduceat(offsets, starts), sizes)
    nearest = np.flatnonzero(is_nearest)[np.searchsorted(np.flatnonzero(is_nearest), starts)]
    return column.lower + codes[nearest], column.lower + codes[starts], codes[starts + sizes - 1] - codes[starts] + 1


def _place_shapes_on_column(
    column: Column, width: int, count: int, shapes: ShapeMixture, tail: bool | None
) -> PositionPrior:
    """The shapes of a `Prior`, which has ends, on the column's values: its own grid does not hold them all."""
    require_mass_within(shapes)
    has_tail = should_mix_tail(tail, shapes.is_heavy_tailed, is_bounded=True, is_sampled=True)
    position_prior = _build_shaped_prior(column, width, count, replace(shapes, step=None), has_tail)
    ends, rule = _format_prior_ends(column, shapes.hull), get_coarse_grid_rule(has_tail)
    return replace(position_prior, prior_use=replace(position_prior.prior_use, ends=ends, rule=rule))


def _build_shaped_prior(column: Column, width: int, count: int, shapes: ShapeMixture, tail: bool) -> PositionPrior:
    """Shapes on all positions from end to end; on those of its own grid where the text has a step that is finer."""
    low, high = shapes.ends or _get_column_ends(column)
    if shapes.step is not None and shapes.step > column.step:
        build_grid(low, high, shapes.step)
        position_prior = _build_shaped_prior(column, width, count, replace(shapes, step=None), tail)
        return replace(position_prior, prior_use=replace(position_prior.prior_use, rule=get_coarse_grid_rule(tail)))
    bounded_shapes, exclude = shapes.fill_uniform_ends(low, high), shapes.is_bounded and not tail
    hull = bounded_shapes.hull if exclude else shapes.ends
    if shapes.step is not None:
        grid, points = build_grid(low, high, shapes.step)
        cells = GridCells(grid, np.arange(points + 1), np.arange(points), (0, points - 1))
        placed_shapes = _place_possible_shapes(column, bounded_shapes, cells, exclude)
        possible = np.flatnonzero(placed_shapes.place_counts)
        shares, is_heavy = placed_shapes.shares[possible] * placed_shapes.mass_inside, shapes.is_heavy_tailed
        return _round_to_codes(column, width, possible, grid, shares, tail, is_heavy, is_joined=True)
    code_range = _find_code_range(column, shapes.ends)
    first, last = code_range[0] // width, min(count - 1, code_range[1] // width)
    if code_range[1] < code_range[0]:
        lowest, highest = _get_column_ends(column)
        raise _build_no_value_error(column) if low <= highest and high >= lowest else _build_outside_error(column)
    cuts = np.minimum(np.arange(first, last + 2) * width, column.size)
    middles = _compute_middles(column, width, first, last + 1) - column.lower
    cells = GridCells(Grid(column.lower * column.step, column.step), cuts, middles, code_range)
    placed_shapes = _place_possible_shapes(column, bounded_shapes, cells, exclude)
    possible = np.flatnonzero(placed_shapes.place_counts)
    rule = get_prior_rule(tail, shapes.is_heavy_tailed, has_moved_values=False)
    prior_use = PriorUse(tail, _format_prior_ends(column, hull), rule=rule)
    codes, lowest_codes = (
        column.lower + places for places in (placed_shapes.representatives, placed_shapes.first_places)
    )
    standing_codes = codes[possible], lowest_codes[possible], placed_shapes.place_counts[possible]
    return _build_position_prior(first + possible, placed_shapes.shares[possible], standing_codes, prior_use)


def _get_column_ends(column: Column) -> tuple[Fraction, Fraction]:
    return column.lower * column.step, column.upper * column.step


def _place_possible_shapes(column: Column, shapes: ShapeMixture, cells: GridCells, exclude: bool) -> PlacedShapes:
    """Shapes on cells, refused where nearly nothing of them lies there."""
    placed_shapes = place_shapes(shapes, cells, exclude)
    if placed_shapes.mass_inside < MIN_MASS_INSIDE:
        is_excluded = exclude and place_shapes(shapes, cells, exclude=False).mass_inside >= MIN_MASS_INSIDE
        raise _build_no_value_error(column) if is_excluded else _build_outside_error(column)
    return placed_shapes


def _compute_middles(column: Column, width: int, first: int, stop: int) -> CodeArray:
    return column.lower + np.minimum(np.arange(first, stop) * width + (width - 1) // 2, column.size - 1)


def _build_position_prior(
    positions: CodeArray,
    shares: Array,
    standing_codes: StandingCodes,
    prior_use: PriorUse,
    points: CodePoints | None = None,
) -> PositionPrior:
    stated_prior = Prior(convert_to_masses(shares / shares.sum()), positions, POSITION_GRID, None)
    used_prior = mix_cauchy_tail(stated_prior) if prior_use.tail else stated_prior
    return PositionPrior(stated_prior, used_prior, *standing_codes, prior_use, points)


def _format_prior_ends(column: Column, hull: Hull) -> tuple[str, str] | None:
    low, high = _get_column_ends(column)
    if hull is None or column.kind != "date":
        return format_prior_ends(hull, low, high)
    first, last = math.ceil(max(hull[0], low)), math.floor(min(hull[1], high))
    return date_from_days(first).isoformat(), date_from_days(last).isoformat()


def _build_no_value_error(column: Column) -> InvalidInput:
    gap = format_exact(column.step)
    return InvalidInput(
        f"the prior of {column.name} holds none of its values possible, which are {gap} apart; widen it"
    )


def _build_outside_error(column: Column) -> InvalidInput:
    ends = (column.decode(code) for code in (column.lower, column.upper))
    bounds = " to ".join(format_exact(Fraction(end)) if isinstance(end, int | Fraction) else str(end) for end in ends)
    advice = "give one of which at least a thousandth lies inside"
    return InvalidInput(f"the prior of {column.name} lies outside its bounds, {bounds}; {advice}")
