"""The mechanisms that can answer a total, and the best of them for what the analyst believes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.distance import Distance
from discreet.errors import InvalidInput, Unsupported
from discreet.inference.belief import GridPrior, parse_grid_prior
from discreet.planner.chosen import resolve_distance
from discreet.planner.estimates import Linear
from discreet.planner.facts import ContributionBounds
from discreet.planner.meaning import Estimator
from discreet.planner.noisy import AdditiveNoise, LinearQuery, build_laplace, build_linear_queries, build_staircase
from discreet.planner.ranks import build_trimmed_ranks
from discreet.planner.refined import RefinedTotal, build_refined_total
from discreet.prior import Prior
from discreet.query.query import Aggregate
from discreet.schema import Column

TotalMeasurement = AdditiveNoise | RefinedTotal
NUMBER_COLUMN = Column("a number", "number")
UNBOUNDED_ROWS = 2**40
GRID_STEPS = 2**40
MEAN_FUNCTIONS = {"avg", "trimmed_mean"}
BETTER_RATIO = 0.97
"""A mechanism that is the best for one prior alone must be better by this, so that one draw serves all priors."""
MAX_SD_RATIO = 1.0
"""Refinement can only be better where the prior is narrower than the noise: tests show where the two cross."""


@dataclass(frozen=True, slots=True)
class RatedMeasurement:
    """A mechanism and the root mean square error of the refined value."""

    measurement: TotalMeasurement
    expected_error: float


def build_aggregate_prior(
    aggregate: Aggregate,
    column: Column | None,
    bounds: ContributionBounds,
    prior: str | Prior | None,
    tail: bool | None = None,
) -> GridPrior | None:
    """The analyst's prior over what the aggregate can be, from public facts."""
    if prior is None:
        return None
    schema = bounds.schema
    rows = UNBOUNDED_ROWS if schema.units is None else schema.units * schema.rows
    label = aggregate.function.upper().replace("_", " ") + ("" if column is None else f" of {column.name}")
    low, high, step = _find_value_range(aggregate, column, bounds, rows)
    public_rows = bounds.get_public_rows(column) if aggregate.function in MEAN_FUNCTIONS else None
    mean_step = None if column is None or public_rows is None else column.step / public_rows
    dense = aggregate.function not in {"count", "count_distinct", "sum"} and mean_step is None
    return parse_grid_prior(prior, low, high, step, label, tail, dense, mean_step)


def _find_value_range(
    aggregate: Aggregate, column: Column | None, bounds: ContributionBounds, rows: int
) -> tuple[Fraction, Fraction, Fraction]:
    if aggregate.function in {"count", "count_distinct"} or column is None:
        return Fraction(0), Fraction(rows), Fraction(1)
    low, high, step = column.lower * column.step, column.upper * column.step, column.step
    public_rows = bounds.get_public_rows(column)
    if aggregate.function == "sum":
        least, most = (public_rows * low, public_rows * high) if public_rows is not None else (Fraction(0), Fraction(0))
        if public_rows is None:
            least, most = rows * min(low, Fraction(0)), rows * max(high, Fraction(0))
        return least, max(most, least + step), step
    width = max(high - low, step)
    if aggregate.function in MEAN_FUNCTIONS:
        return (
            low,
            low + width,
            width / GRID_STEPS if public_rows is None else _find_mean_step(aggregate, column, bounds, public_rows),
        )
    largest = width**2 / 2
    root = Fraction(math.isqrt(math.ceil(largest * 2**20)) + 1, 2**10)
    return (
        (Fraction(0), root, root / GRID_STEPS)
        if aggregate.function == "stddev"
        else (Fraction(0), largest, largest / GRID_STEPS)
    )


def _find_mean_step(aggregate: Aggregate, column: Column, bounds: ContributionBounds, rows: int) -> Fraction:
    """How far apart the means of a public number of rows are, or of their ranks: a sum of codes over how many they are.

    Of ranks in wide bins it is half of that, since a bin stands for its middle (ranks.md).
    """
    if aggregate.function == "avg":
        return column.step / rows
    ranks = build_trimmed_ranks(aggregate, column, bounds)
    return column.step / (ranks.count if ranks.candidates.width == 1 else 2 * ranks.count)


def list_measurements(
    aggregate: Aggregate,
    column: Column | None,
    bounds: ContributionBounds,
    epsilon: Fraction,
    grid_prior: GridPrior | None,
    distance: Distance | str | None,
) -> tuple[TotalMeasurement, ...]:
    """What could answer: noise of every fitting law; refinement where it may win, or where a distance asks for it."""
    linear_queries = build_linear_queries(aggregate, column, bounds)
    if distance is not None:
        return (_build_distance_refinement(linear_queries[0], bounds, epsilon, grid_prior, distance),)
    measurements: list[TotalMeasurement] = [build_laplace(linear_queries[0], epsilon)]
    staircase_noise = build_staircase(linear_queries[-1], epsilon)
    if staircase_noise is not None:
        measurements.append(staircase_noise)
    if grid_prior is not None and _can_refine(aggregate, linear_queries[0], bounds, grid_prior, measurements):
        measurements.append(build_refined_total(linear_queries[0], grid_prior, epsilon, bounds.schema.neighbours, None))
    return tuple(measurements)


def _can_refine(
    aggregate: Aggregate,
    linear_query: LinearQuery,
    bounds: ContributionBounds,
    grid_prior: GridPrior,
    measurements: list[TotalMeasurement],
) -> bool:
    """Never for counts, where noise is optimal whatever the prior (Ghosh and others 2009); for sums, where narrow."""
    if aggregate.function != "sum" or bounds.is_grouped or not isinstance(linear_query.estimate, Linear):
        return False
    additive = measurements[0]
    return (
        isinstance(additive, AdditiveNoise)
        and grid_prior.sd < MAX_SD_RATIO * Estimator(additive, 1.0).build_line_noise().sd
    )


def _build_distance_refinement(
    linear_query: LinearQuery,
    bounds: ContributionBounds,
    epsilon: Fraction,
    grid_prior: GridPrior | None,
    distance: Distance | str,
) -> RefinedTotal:
    if grid_prior is None:
        raise InvalidInput("a distance says how your prior is refined; give the prior too")
    if bounds.is_grouped:
        raise Unsupported("a distance is for one number at a time; ask for the groups one by one")
    return build_refined_total(
        linear_query, grid_prior, epsilon, bounds.schema.neighbours, resolve_distance(NUMBER_COLUMN, distance)
    )


def rate_measurements(
    measurements: tuple[TotalMeasurement, ...], grid_prior: GridPrior | None, rows: int
) -> list[RatedMeasurement]:
    """Every mechanism with the error of what it leads to."""
    return [
        RatedMeasurement(measurement, _estimate_error(measurement, grid_prior, rows)) for measurement in measurements
    ]


def _estimate_error(measurement: TotalMeasurement, grid_prior: GridPrior | None, rows: int) -> float:
    return (
        measurement.expected_error()
        if isinstance(measurement, RefinedTotal)
        else Estimator(measurement, float(rows)).expected_error(grid_prior)
    )


def select_best_measurement(
    ratings: list[RatedMeasurement], grid_prior: GridPrior | None, rows: int
) -> RatedMeasurement:
    """The least error; among noises the one that is best without a prior, unless another is clearly better."""
    additive_ratings = [rating for rating in ratings if isinstance(rating.measurement, AdditiveNoise)]
    best_rating = min(ratings, key=lambda rating: rating.expected_error)
    if grid_prior is None or not additive_ratings:
        return best_rating
    default_rating = min(additive_ratings, key=lambda rating: _estimate_error(rating.measurement, None, rows))
    return best_rating if best_rating.expected_error < BETTER_RATIO * default_rating.expected_error else default_rating
