"""The smallest epsilon whose answer is as near as asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import chain, repeat

from discreet.errors import BudgetExceeded, InvalidInput, Unsupported
from discreet.formatting import format_budget_left, format_upper
from discreet.measurements.additive import TOTAL_FUNCTIONS, Estimator, build_gaussian, build_laplace
from discreet.measurements.base import AggregateRequest, Measurement, ReadingContext
from discreet.measurements.contribution_bounds import ContributionBounds, estimate_rows, find_public_count
from discreet.numeric import format_exact
from discreet.planner.candidates import (
    build_linear_query,
    may_be_gaussian,
    propose_measurements,
    select_named,
    split_rho,
)
from discreet.planner.options import MAX_QUERY_EPSILON, MIN_QUERY_EPSILON, Accuracy, PlanRequest
from discreet.query.query import Aggregate, Query
from discreet.schema import Schema

MIN_DISTANCE = 1e-100
"""Of a distance as a float: no noise is so fine, and nothing divides by 0."""
BRACKET_STEPS = (Fraction(26, 25), Fraction(26, 25), Fraction(11, 10), Fraction(5, 4), Fraction(2), Fraction(4))
"""From one epsilon to the next, while a bracket is searched."""
WIDENING_FACTOR, MAX_TRIES = 1.0002, 100
"""An advised accuracy that would be refused is widened by this factor, so many times at most."""


def find_epsilon(schema: Schema, query: Query, bounds: ContributionBounds, request: PlanRequest) -> Fraction:
    """Find the smallest epsilon, to four digits, whose answer is as near as asked with the probability asked."""
    accuracy = request.accuracy or Accuracy(Fraction(1), Fraction(95, 100))
    has_private_keys = any(schema.column(key.column).private_keys for key in query.keys)
    is_total = query.unit is None and query.aggregates[0].function in TOTAL_FUNCTIONS
    if has_private_keys or not is_total or request.distance:
        raise Unsupported(
            "an accuracy can be asked of COUNT, SUM, AVG, VAR and STDDEV over public keys, and of TRIMMED_MEAN; "
            "ask for this with an epsilon"
        )
    if find_public_count(query.aggregates[0], bounds) is not None:
        return Fraction(1)
    linear_query = build_linear_query(query.aggregates[0], schema, bounds)
    if request.expected_rows is None and Estimator(build_laplace(linear_query, Fraction(1)), 1.0).depends_on_rows:
        name, column = query.aggregates[0].function.upper(), query.aggregates[0].column
        raise InvalidInput(
            f"the accuracy of {name} depends on how many of the selected rows have a value, and that number is not "
            "public here; give rows, the fewest such rows you expect (the lower end of a noisy "
            f"COUNT({column}) with the same condition is a safe choice), or ask with an epsilon"
        )
    max_epsilon = MAX_QUERY_EPSILON if request.max_epsilon is None else min(request.max_epsilon, MAX_QUERY_EPSILON)
    confidence = _adjust_confidence(accuracy, bounds)

    @cache
    def half_width_at(epsilon: Fraction) -> float:
        return _find_half_width(query.aggregates[0], bounds, epsilon, request, confidence)

    needed_epsilon = _find_needed_epsilon(half_width_at, _get_float_distance(accuracy))
    if needed_epsilon is not None and needed_epsilon <= max_epsilon:
        return needed_epsilon
    reachable_accuracy = _find_reachable_accuracy(half_width_at, accuracy, max_epsilon)
    raise BudgetExceeded(_format_refusal(accuracy, request, needed_epsilon, reachable_accuracy))


def _find_needed_epsilon(half_width_at: Callable[[Fraction], float], distance: float) -> Fraction | None:
    """The smallest epsilon, to four digits, with which nothing is farther off; None where no epsilon will do."""
    if half_width_at(MAX_QUERY_EPSILON) > distance:
        return None
    epsilon = min(_round_up_digits(_find_min_epsilon(half_width_at, distance)), MAX_QUERY_EPSILON)
    # An accuracy may fall a little where epsilon rises a little.
    while half_width_at(epsilon) > distance and epsilon < MAX_QUERY_EPSILON:
        epsilon = min(_round_up_digits(epsilon + _find_digit_unit(epsilon)), MAX_QUERY_EPSILON)
    return epsilon


def _find_reachable_accuracy(
    half_width_at: Callable[[Fraction], float], accuracy: Accuracy, max_epsilon: Fraction
) -> str | None:
    """The accuracy, as it is printed, that is not refused where this epsilon is left; None where none was found."""
    if max_epsilon < MIN_QUERY_EPSILON:
        return None
    # The epsilon needed is found to a few parts in 100,000 and rounded up, and may be a little above what is left.
    digit_unit = _find_digit_unit(max_epsilon)
    half_width = half_width_at(math.floor(max_epsilon / digit_unit) * digit_unit)
    half_width = max(half_width, _get_float_distance(accuracy))
    for _ in range(MAX_TRIES):
        printed = format_upper(half_width)
        distance = float(Accuracy.parse(printed).distance)
        needed_epsilon = _find_needed_epsilon(half_width_at, distance)
        if needed_epsilon is not None and needed_epsilon <= max_epsilon:
            return f"±{printed} at {format_exact(accuracy.confidence * 100)}%"
        half_width = max(half_width, distance) * WIDENING_FACTOR
    return None


def _format_refusal(
    accuracy: Accuracy, request: PlanRequest, needed_epsilon: Fraction | None, reachable_accuracy: str | None
) -> str:
    if request.max_epsilon is not None and request.max_epsilon < MIN_QUERY_EPSILON:
        return f"{accuracy} cannot be reached: nothing is left of the budget, and only stored answers can be returned"
    remaining = "epsilon 10,000"
    if request.max_epsilon is not None and request.max_epsilon <= MAX_QUERY_EPSILON:
        remaining = f"the epsilon of {format_budget_left(request.max_epsilon)} that is left"
    if needed_epsilon is not None:
        advice = "" if reachable_accuracy is None else f"; {reachable_accuracy} is what that can reach"
        return f"{accuracy} cannot be reached with {remaining}{advice}"
    count = request.expected_rows
    rows = "" if count is None else f" from {count:,} row{'s' * (count != 1)}"
    advice = "" if reachable_accuracy is None else f"; {reachable_accuracy} is what {remaining} can reach"
    return f"no epsilon reaches {accuracy}{rows}{advice}"


def _find_min_epsilon(half_width_at: Callable[[Fraction], float], distance: float) -> Fraction:
    """The least epsilon that will do, to a few parts in a hundred thousand: noise falls about as epsilon rises.

    Nothing in it follows what is left of a budget: the same question has the same epsilon, before and after it is paid.
    """
    low, high = _bracket_epsilon(half_width_at, distance)
    uses_secant = True
    while high > low * Fraction(100_003, 100_000):
        middle = (low + high) / 2
        if uses_secant:  # where noise falls smoothly this is next to the end; where it falls in steps the middle is
            guess = high * Fraction(half_width_at(high) / distance) * Fraction(100_001, 100_000)
            middle = guess if low < guess < high else middle
        low, high = (low, middle) if half_width_at(middle) <= distance else (middle, high)
        uses_secant = not uses_secant
    return high


def _bracket_epsilon(half_width_at: Callable[[Fraction], float], distance: float) -> tuple[Fraction, Fraction]:
    """An epsilon too small, or the least, and one that will do, some hundredths apart where noise falls smoothly."""
    guess = Fraction(1)
    for _ in range(8):
        half_width = half_width_at(guess)
        if abs(half_width / distance - 1) < 0.02:
            break
        guess = min(max(guess * Fraction(half_width / distance), MIN_QUERY_EPSILON), MAX_QUERY_EPSILON)
    low, high = guess, guess
    # The steps grow, for where the domain bounds the error, whatever the epsilon.
    steps = chain(BRACKET_STEPS, repeat(BRACKET_STEPS[-1]))
    while high < MAX_QUERY_EPSILON and half_width_at(high) > distance:
        low, high = high, min(high * next(steps), MAX_QUERY_EPSILON)
    while low > MIN_QUERY_EPSILON and half_width_at(low) <= distance:
        low, high = max(low / next(steps), MIN_QUERY_EPSILON), low
    return low, high


def _find_half_width(
    aggregate: Aggregate, bounds: ContributionBounds, epsilon: Fraction, request: PlanRequest, confidence: float
) -> float:
    schema, mechanism = bounds.schema, request.mechanism or ""
    linear_query = build_linear_query(aggregate, schema, bounds)
    measurements: list[Measurement] = []
    if may_be_gaussian(mechanism):
        rho, gaussian_aggregates = split_rho({aggregate: linear_query}, epsilon, request.delta)
        measurements = [build_gaussian(linear_query, rho) for _ in gaussian_aggregates]
    if not measurements:
        proposals = propose_measurements(
            AggregateRequest(aggregate=aggregate, bounds=bounds, epsilon=epsilon, mechanism=mechanism)
        )
        measurements = select_named(proposals, mechanism)
    context = ReadingContext(schema=schema, expected_rows=estimate_rows(bounds, request.expected_rows))
    return min(measurement.read(context)[0].bound_error(confidence) for measurement in measurements)


def _round_up_digits(number: Fraction) -> Fraction:
    """At least the number, to four digits."""
    digit_unit = _find_digit_unit(number)
    return math.ceil(number / digit_unit) * digit_unit


def _find_digit_unit(number: Fraction) -> Fraction:
    return Fraction(10) ** (math.floor(math.log10(number)) - 3)


def is_accurate_enough(
    measurement: Measurement, accuracy: Accuracy, bounds: ContributionBounds, context: ReadingContext
) -> bool:
    """Whether the answer is as near as asked; a refinement says nothing that holds whatever the prior."""
    error = measurement.read(context)[0].bound_error(_adjust_confidence(accuracy, bounds))
    return error <= _get_float_distance(accuracy)


def _adjust_confidence(accuracy: Accuracy, bounds: ContributionBounds) -> float:
    """The confidence of each number; where rows are chosen by noisy numbers, all are to be as near at once."""
    confidence = bounds.coverage.adjust_confidence(float(accuracy.confidence))
    if confidence is None:
        raise Unsupported(
            "rows are chosen by their noisy numbers among too many groups for this probability; "
            "request a lower one, or ask with an epsilon"
        )
    return confidence


def _get_float_distance(accuracy: Accuracy) -> float:
    """The distance as a float, the same wherever an error is compared with it."""
    return max(float(accuracy.distance), MIN_DISTANCE)
