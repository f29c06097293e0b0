"""The smallest epsilon whose answer is as near as asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from discreet.accuracy import Accuracy
from discreet.errors import BudgetExceeded, Unsupported
from discreet.exact import shown
from discreet.planner.asked import LEAST, MOST, Asked
from discreet.planner.facts import Facts
from discreet.planner.meaning import Meaning
from discreet.planner.noisy import Noisy, gaussian
from discreet.planner.sharing import TOTALS, form_of, known_number, shared
from discreet.planner.totals import Total, expected_rows, options
from discreet.query.query import Aggregate, Query
from discreet.schema import Schema

FINEST = 1e-100
"""Of a distance as a float: no noise is told so finely, and what is nearer divides by nothing."""


def epsilon_for(schema: Schema, query: Query, facts: Facts, request: Asked) -> Fraction:
    """The smallest epsilon, to four digits, whose answer is as near as asked with the probability asked."""
    accuracy = request.accuracy or Accuracy(Fraction(1), Fraction(95, 100))
    private_keys = any(schema.column(key.column).private_keys for key in query.keys)
    if query.unit is not None or private_keys or query.aggregates[0].function not in TOTALS or request.distance:
        raise Unsupported(
            "an accuracy can be asked of COUNT, SUM, AVG, VAR and STDDEV over public keys, and of TRIMMED_MEAN; "
            "ask for this with an epsilon"
        )
    if known_number(query.aggregates[0], schema, facts) is not None:
        return Fraction(1)
    most = MOST if request.most is None else min(request.most, MOST)

    @cache
    def off(epsilon: Fraction) -> float:
        return _reach(query.aggregates[0], facts, epsilon, request, float(accuracy.confidence))

    if most <= 0 or off(most) > accuracy.distance:
        reachable = f"; ±{_round_up(off(most))} is what that can reach" if most > 0 else ""
        raise BudgetExceeded(f"{accuracy} cannot be reached with the epsilon of {shown(most)} that is left{reachable}")
    return min(_digits_up(float(_least(off, max(float(accuracy.distance), FINEST), most))), most)


def _least(off: Callable[[Fraction], float], distance: float, most: Fraction) -> Fraction:
    """The least epsilon that will do, to a few parts in a hundred thousand: noise falls about as epsilon rises."""
    low, high = _around(off, distance, most)
    towards = True
    while high > low * Fraction(100_003, 100_000):
        middle = (low + high) / 2
        if towards:  # where noise falls smoothly this is next to the end; where it falls in steps the middle is
            near = high * Fraction(off(high) / distance) * Fraction(100_001, 100_000)
            middle = near if low < near < high else middle
        low, high = (low, middle) if off(middle) <= distance else (middle, high)
        towards = not towards
    return high


def _around(off: Callable[[Fraction], float], distance: float, most: Fraction) -> tuple[Fraction, Fraction]:
    """An epsilon too small, or the least, and one that will do, some hundredths apart."""
    guess = most
    for _ in range(8):
        reached = off(guess)
        if abs(reached / distance - 1) < 0.02:
            break
        guess = min(max(guess * Fraction(reached / distance), LEAST), most)
    low, high = guess, guess
    while high < most and off(high) > distance:
        low, high = high, min(high * Fraction(26, 25), most)
    while low > LEAST and off(low) <= distance:
        low, high = max(low * Fraction(24, 25), LEAST), low
    return low, high


def _reach(aggregate: Aggregate, facts: Facts, epsilon: Fraction, request: Asked, confidence: float) -> float:
    """Half the interval of the mechanism that is nearest."""
    schema, rows = facts.schema, expected_rows(facts.schema, facts, request.rows)
    column = None if aggregate.column is None else schema.column(aggregate.column)
    form = form_of(aggregate, schema, facts)
    rho, wide = shared({aggregate: form}, epsilon, request.delta)
    if wide:
        return Meaning(gaussian(form, rho), float(rows)).reach(confidence)
    found = options(aggregate, column, facts, epsilon, None, None)
    return min(Meaning(one, float(rows)).reach(confidence) for one in found if isinstance(one, Noisy))


def _round_up(number: float) -> str:
    return shown(_digits_up(number))


def _digits_up(number: float) -> Fraction:
    """At least the number, to four digits."""
    unit = Fraction(10) ** (math.floor(math.log10(number)) - 3)
    return math.ceil(Fraction(number) / unit) * unit


def as_near(one: Total, asked_for: Accuracy, rows: int) -> bool:
    """Whether a noise is as near as asked; a refinement says nothing that holds whatever the prior."""
    near = isinstance(one, Noisy) and Meaning(one, float(rows)).reach(float(asked_for.confidence))
    return near is not False and near <= asked_for.distance
