"""How aggregates share what may be lost: which totals get Gaussian noise, and which are public already."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from discreet.guarantee import Guarantee
from discreet.inference.laws import compute_deviations
from discreet.kernel.discrete_gaussian import MAX_SIGMA
from discreet.planner.facts import ContributionBounds
from discreet.planner.noisy import LinearQuery, build_linear_queries, build_staircase
from discreet.planner.plan import PublicConstant
from discreet.query.predicate import TRUE
from discreet.query.query import Aggregate
from discreet.schema import Schema

TOTAL_FUNCTIONS = frozenset({"count", "count_distinct", "sum", "avg", "var", "stddev", "trimmed_mean"})


def build_linear_query(aggregate: Aggregate, schema: Schema, bounds: ContributionBounds) -> LinearQuery:
    """What is measured where the noise is Laplace or Gaussian."""
    return build_linear_queries(
        aggregate, None if aggregate.column is None else schema.column(aggregate.column), bounds
    )[0]


def split_rho(
    linear_queries: Mapping[Aggregate, LinearQuery], share: Fraction, delta: Fraction | None
) -> tuple[Fraction, list[Aggregate]]:
    """The rho of each total that gets Gaussian noise, and those totals: their shares of epsilon pay for it, no others.

    What is too wide to be drawn, or less noisy if pure, keeps its own share; the rest begin again without it.
    """
    gaussian_aggregates = list(linear_queries) if delta is not None else []
    while gaussian_aggregates and delta is not None:
        rho = find_rho(share * len(gaussian_aggregates), delta) / len(gaussian_aggregates)
        fitting = [
            aggregate
            for aggregate in gaussian_aggregates
            if rho and _is_gaussian_better(linear_queries[aggregate], rho, share)
        ]
        if fitting == gaussian_aggregates:
            return rho, gaussian_aggregates
        gaussian_aggregates = fitting
    return Fraction(0), []


def find_public_count(aggregate: Aggregate, schema: Schema, bounds: ContributionBounds) -> PublicConstant | None:
    """A count that the schema itself tells: of all rows or units, so without a filter."""
    rows = None
    if aggregate.where != TRUE:
        return None
    if aggregate.function == "count":
        rows = bounds.get_public_rows(None if aggregate.column is None else schema.column(aggregate.column))
    elif aggregate.function == "count_distinct":
        rows = bounds.get_public_units()
    return None if rows is None else PublicConstant(rows)


def _is_gaussian_better(linear_query: LinearQuery, rho: Fraction, epsilon: Fraction) -> bool:
    """Whether Gaussian noise is drawn that wide, and is less than pure noise of the same share."""
    gaussian_variances = [component.l2_sensitivity_sq / (2 * rho) for component in linear_query.components]
    pure_variances = [2 * (component.l1_sensitivity / epsilon) ** 2 for component in linear_query.components]
    staircase_noise = build_staircase(linear_query, epsilon)
    if staircase_noise is not None:
        pure_variances = [
            min(variance, Fraction(sd**2))
            for variance, sd in zip(pure_variances, compute_deviations(staircase_noise.noise), strict=True)
        ]
    is_samplable = max(gaussian_variances) <= Fraction(MAX_SIGMA) ** 2
    return is_samplable and sum(
        variance / pure_variance for variance, pure_variance in zip(gaussian_variances, pure_variances, strict=True)
    ) < len(pure_variances)


@lru_cache(maxsize=256)
def find_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho, nearly the largest, that implies (epsilon, delta); 0 where epsilon is too small for any."""
    low, high = Fraction(0), Fraction(1, 2**20)
    while compute_implied_epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if compute_implied_epsilon(middle, delta) <= epsilon else (low, middle)
    return low


def compute_implied_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """The epsilon that a rho implies at a delta."""
    return Guarantee.zcdp(rho).approximate(delta).epsilon or Fraction(0)
