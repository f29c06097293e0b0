"""Which measurements can answer an aggregate, which is best, by which prior, and how Gaussian noises share a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from discreet.estimation.grid_prior import GridPrior, parse_grid_prior
from discreet.estimation.noise_distributions import compute_deviations
from discreet.measurements.additive import NOISE_NAMES, TOTAL_FUNCTIONS, build_staircase, propose_noises
from discreet.measurements.base import AggregateRequest, Factory, Measurement, ReadingContext
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.measurements.randomized_response import propose_randomized_response
from discreet.measurements.refined_total import propose_refinement
from discreet.measurements.selection import SELECTION_FUNCTIONS, propose_selection
from discreet.measurements.total_sensitivity import LinearQuery, build_linear_queries
from discreet.measurements.trimmed_mean import build_trimmed_ranks
from discreet.mechanisms.discrete_gaussian import MAX_SIGMA, DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.priors.prior import Prior
from discreet.privacy.guarantee import Guarantee
from discreet.query.query import Aggregate
from discreet.schema import Column, Schema

FACTORIES: Mapping[Factory, frozenset[str]] = {
    propose_noises: TOTAL_FUNCTIONS,
    propose_refinement: TOTAL_FUNCTIONS,
    propose_selection: SELECTION_FUNCTIONS,
    propose_randomized_response: frozenset({"count"}),
}
"""The registry: each factory with the functions that it may have measurements for, in the order they are weighed in."""
WHERE_ASKED_FOR: Mapping[Factory, frozenset[str]] = {
    propose_refinement: TOTAL_FUNCTIONS - {"sum"},
    propose_randomized_response: frozenset({"count"}),
}
"""What a factory has only where a mechanism or a distance asks for it: otherwise it never wins, and is left out."""


def propose_measurements(request: AggregateRequest) -> list[Measurement]:
    """List the measurements of an aggregate, from public facts; with a mechanism asked for, all that could be meant."""
    function: str = request.aggregate.function
    is_asked_for = bool(request.mechanism) or request.distance is not None
    factories = [
        propose
        for propose, functions in FACTORIES.items()
        if function in functions and (is_asked_for or function not in WHERE_ASKED_FOR.get(propose, ()))
    ]
    return [measurement for propose in factories for measurement in propose(request)]


def build_linear_query(aggregate: Aggregate, schema: Schema, bounds: ContributionBounds) -> LinearQuery:
    """Build what is measured where the noise is Laplace or Gaussian."""
    column = None if aggregate.column is None else schema.column(aggregate.column)
    return build_linear_queries(aggregate, column, bounds)[0]


def split_rho(
    linear_queries: Mapping[Aggregate, LinearQuery], share: Fraction, delta: Fraction | None
) -> tuple[Fraction, list[Aggregate]]:
    """The rho of each total that gets Gaussian noise, and those totals: their shares of epsilon pay for it, no others.

    What is too wide to be drawn, or less noisy if pure, keeps its own share; the rest begin again without it.
    """
    gaussian_aggregates = list(linear_queries) if delta is not None else []
    while gaussian_aggregates and delta is not None:
        rho = find_rho(share * len(gaussian_aggregates), delta) / len(gaussian_aggregates)
        better = [item for item in gaussian_aggregates if rho and _is_gaussian_better(linear_queries[item], rho, share)]
        if better == gaussian_aggregates:
            return rho, gaussian_aggregates
        gaussian_aggregates = better
    return Fraction(0), []


def may_be_gaussian(mechanism: str) -> bool:
    """Whether a total may get Gaussian noise: unless another mechanism was asked for by name."""
    return not mechanism or NOISE_NAMES[DiscreteGaussian] in mechanism


def _is_gaussian_better(linear_query: LinearQuery, rho: Fraction, epsilon: Fraction) -> bool:
    """Whether Gaussian noise is drawn that wide, and is less than pure noise of the same share."""
    gaussian_variances = [component.l2_sensitivity_sq / (2 * rho) for component in linear_query.components]
    pure_variances = [2 * (component.l1_sensitivity / epsilon) ** 2 for component in linear_query.components]
    staircase_noise = build_staircase(linear_query, epsilon)
    if staircase_noise is not None:
        deviations = compute_deviations(staircase_noise.noise)
        pure_variances = [min(pure, Fraction(sd**2)) for pure, sd in zip(pure_variances, deviations, strict=True)]
    if max(gaussian_variances) > Fraction(MAX_SIGMA) ** 2:
        return False
    ratios = [gaussian / pure for gaussian, pure in zip(gaussian_variances, pure_variances, strict=True)]
    return sum(ratios) < len(ratios)


@lru_cache(maxsize=256)
def find_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find a rho, nearly the largest, that implies (epsilon, delta); 0 where epsilon is too small for any."""
    low, high = Fraction(0), Fraction(1, 2**20)
    while compute_implied_epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if compute_implied_epsilon(middle, delta) <= epsilon else (low, middle)
    return low


def compute_implied_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Compute the epsilon that a rho implies at a delta."""
    return Guarantee.zcdp(rho).approximate(delta).epsilon or Fraction(0)


UNBOUNDED_ROWS = 2**40
GRID_STEPS = 2**40
MEAN_FUNCTIONS = {"avg", "trimmed_mean"}
STRATEGY_PREFIX = f"{NOISE_NAMES[DiscreteLaplace]} ("
"""How the name of a strategy for several counts at once begins."""
BETTER_RATIO = 0.97
"""A mechanism that is the best for one prior alone must be better by this, so that one draw serves all priors."""


def build_aggregate_prior(
    aggregate: Aggregate,
    column: Column | None,
    bounds: ContributionBounds,
    prior: str | Prior | None,
    tail: bool | None = None,
) -> GridPrior | None:
    """Build the analyst's prior over what the aggregate can be, from public facts."""
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
        least, most = rows * min(low, Fraction(0)), rows * max(high, Fraction(0))
        if public_rows is not None:
            least, most = public_rows * low, public_rows * high
        return least, max(most, least + step), step
    width = max(high - low, step)
    if aggregate.function in MEAN_FUNCTIONS:
        if public_rows is None:
            return low, low + width, width / GRID_STEPS
        return low, low + width, _find_mean_step(aggregate, column, bounds, public_rows)
    largest = width**2 / 2
    if aggregate.function == "stddev":
        largest = Fraction(math.isqrt(math.ceil(largest * 2**20)) + 1, 2**10)
    return Fraction(0), largest, largest / GRID_STEPS


def _find_mean_step(aggregate: Aggregate, column: Column, bounds: ContributionBounds, rows: int) -> Fraction:
    """How far apart the means of a public number of rows are, or of their ranks: a sum of codes over how many they are.

    Of ranks in wide bins it is half of that, since a bin stands for its middle (trimmed_mean.md).
    """
    if aggregate.function == "avg":
        return column.step / rows
    ranks = build_trimmed_ranks(aggregate, column, bounds)
    return column.step / (ranks.count if ranks.candidates.width == 1 else 2 * ranks.count)


def get_single_mechanism(mechanism: str) -> str:
    """Return the name of a mechanism that measures one aggregate by itself; empty for that of a strategy."""
    return "" if mechanism.startswith(STRATEGY_PREFIX) else mechanism


def select_named(measurements: Sequence[Measurement], mechanism: str) -> list[Measurement]:
    """Select those of a name; all where no name was given, or none has it."""
    named = [measurement for measurement in measurements if measurement.name == mechanism]
    return named or list(measurements)


@dataclass(frozen=True, slots=True)
class RatedMeasurement:
    """A measurement and the root mean square error of the refined value; None where it depends on the rows."""

    measurement: Measurement
    expected_error: float | None

    @property
    def sort_key(self) -> float:
        """The error, for the least of several."""
        return math.inf if self.expected_error is None else self.expected_error


def rate_measurements(measurements: Sequence[Measurement], context: ReadingContext) -> list[RatedMeasurement]:
    """Estimate the error of the value that each measurement of one aggregate leads to."""
    return [RatedMeasurement(measurement, _estimate_error(measurement, context)) for measurement in measurements]


def _estimate_error(measurement: Measurement, context: ReadingContext) -> float | None:
    (reading,) = measurement.read(context)
    return reading.expected_error()


def select_best_measurement(ratings: Sequence[RatedMeasurement], context: ReadingContext) -> Measurement:
    """Select the least error; among noises the one that is best without a prior, unless another is clearly better."""
    best = min(ratings, key=lambda rating: rating.sort_key)
    noises = [rating.measurement for rating in ratings if not rating.measurement.uses_prior]
    if context.grid_prior is None or not noises:
        return best.measurement
    default = min(rate_measurements(noises, replace(context, grid_prior=None)), key=lambda rating: rating.sort_key)
    default_error = next(rating.sort_key for rating in ratings if rating.measurement is default.measurement)
    return best.measurement if best.sort_key < BETTER_RATIO * default_error else default.measurement
