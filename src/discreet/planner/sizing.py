"""The smallest epsilon whose answer is as near as asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import chain, repeat

from discreet.accuracy import Accuracy
from discreet.errors import BudgetExceeded, InvalidInput, Unsupported
from discreet.exact import shown
from discreet.formatting import format_left, format_upper
from discreet.planner.asked import LEAST, MOST, Asked
from discreet.planner.expected_rows import expect_rows
from discreet.planner.facts import Facts
from discreet.planner.meaning import Meaning
from discreet.planner.noisy import Noisy, gaussian, laplace
from discreet.planner.sharing import TOTALS, form_of, known_number, shared
from discreet.planner.totals import Total, options
from discreet.query.query import Aggregate, Query
from discreet.schema import Schema

FINEST = 1e-100
"""Of a distance as a float: no noise is told so finely, and what is nearer divides by nothing."""

STEPS = (Fraction(26, 25), Fraction(26, 25), Fraction(11, 10), Fraction(5, 4), Fraction(2), Fraction(4))
"""From one epsilon to the next, while a bracket is searched."""

WIDER, TRIES = 1.0002, 100
"""An advised accuracy that would be refused is widened by this factor, so many times at most."""


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
    form = form_of(query.aggregates[0], schema, facts)
    if request.rows is None and Meaning(laplace(form, Fraction(1)), 1.0).depends_on_rows:
        name, column = query.aggregates[0].function.upper(), query.aggregates[0].column
        raise InvalidInput(
            f"the accuracy of {name} depends on how many of the selected rows have a value, and that number is not "
            "public here; give rows, the fewest such rows you expect (the lower end of a noisy "
            f"COUNT({column}) with the same condition is a safe choice), or ask with an epsilon"
        )
    most = MOST if request.most is None else min(request.most, MOST)
    confidence = _confidence(accuracy, facts)

    @cache
    def off(epsilon: Fraction) -> float:
        return _reach(query.aggregates[0], facts, epsilon, request, confidence)

    needed = _needed(off, _as_float(accuracy))
    if needed is not None and needed <= most:
        return needed
    raise BudgetExceeded(_refusal(accuracy, request, needed, _reachable(off, accuracy, most)))


def _needed(off: Callable[[Fraction], float], distance: float) -> Fraction | None:
    """The smallest epsilon, to four digits, with which nothing is farther off; None where no epsilon will do."""
    if off(MOST) > distance:
        return None
    needed = min(_digits_up(_least(off, distance)), MOST)
    while off(needed) > distance and needed < MOST:  # an accuracy may fall a little where epsilon rises a little
        needed = min(_digits_up(needed + _unit(needed)), MOST)
    return needed


def _reachable(off: Callable[[Fraction], float], accuracy: Accuracy, most: Fraction) -> str | None:
    """The accuracy, as it is printed, that is not refused where this epsilon is left; None where none was found."""
    if most < LEAST:
        return None
    # The epsilon needed is found to a few parts in 100,000 and rounded up, and may be a little above what is left.
    near = max(off(_digits_down(most)), _as_float(accuracy))
    for _ in range(TRIES):
        printed = format_upper(near)
        distance = float(Accuracy.parse(printed).distance)
        needed = _needed(off, distance)
        if needed is not None and needed <= most:
            return f"±{printed} at {shown(accuracy.confidence * 100)}%"
        near = max(near, distance) * WIDER
    return None


def _refusal(accuracy: Accuracy, request: Asked, needed: Fraction | None, reachable: str | None) -> str:
    """What cannot be reached, with what epsilon, and what can."""
    if request.most is not None and request.most < LEAST:
        return f"{accuracy} cannot be reached: nothing is left of the budget, and only stored answers can be returned"
    counted = request.most is not None and request.most <= MOST
    left = f"the epsilon of {format_left(request.most or MOST)} that is left" if counted else "epsilon 10,000"
    if needed is not None:
        advice = "" if reachable is None else f"; {reachable} is what that can reach"
        return f"{accuracy} cannot be reached with {left}{advice}"
    rows = "" if request.rows is None else f" from {request.rows:,} row{'s' * (request.rows != 1)}"
    advice = "" if reachable is None else f"; {reachable} is what {left} can reach"
    return f"no epsilon reaches {accuracy}{rows}{advice}"


def _least(off: Callable[[Fraction], float], distance: float) -> Fraction:
    """The least epsilon that will do, to a few parts in a hundred thousand: noise falls about as epsilon rises.

    Nothing in it follows what is left of a budget: the same question has the same epsilon, before and after it is paid.
    """
    low, high = _around(off, distance)
    towards = True
    while high > low * Fraction(100_003, 100_000):
        middle = (low + high) / 2
        if towards:  # where noise falls smoothly this is next to the end; where it falls in steps the middle is
            near = high * Fraction(off(high) / distance) * Fraction(100_001, 100_000)
            middle = near if low < near < high else middle
        low, high = (low, middle) if off(middle) <= distance else (middle, high)
        towards = not towards
    return high


def _around(off: Callable[[Fraction], float], distance: float) -> tuple[Fraction, Fraction]:
    """An epsilon too small, or the least, and one that will do, some hundredths apart where noise falls smoothly."""
    guess = Fraction(1)
    for _ in range(8):
        reached = off(guess)
        if abs(reached / distance - 1) < 0.02:
            break
        guess = min(max(guess * Fraction(reached / distance), LEAST), MOST)
    low, high = guess, guess
    steps = chain(STEPS, repeat(STEPS[-1]))  # longer ones where the domain bounds the error, whatever the epsilon
    while high < MOST and off(high) > distance:
        low, high = high, min(high * next(steps), MOST)
    while low > LEAST and off(low) <= distance:
        low, high = max(low / next(steps), LEAST), low
    return low, high


def _reach(aggregate: Aggregate, facts: Facts, epsilon: Fraction, request: Asked, confidence: float) -> float:
    """How far off the nearest mechanism may be."""
    schema, rows = facts.schema, expect_rows(facts, request.rows).number
    column = None if aggregate.column is None else schema.column(aggregate.column)
    form = form_of(aggregate, schema, facts)
    rho, wide = shared({aggregate: form}, epsilon, request.delta)
    if wide:
        return _farthest(gaussian(form, rho), rows, confidence)
    found = options(aggregate, column, facts, epsilon, None, None)
    return min(_farthest(one, rows, confidence) for one in found if isinstance(one, Noisy))


def _farthest(one: Noisy, rows: int, confidence: float) -> float:
    """The larger of the error and the distance to the ends of the interval, for at least so many rows with a value."""
    meaning = Meaning(one, float(rows))
    return max(meaning.reach(confidence), meaning.interval_bound(confidence))


def _digits_up(number: Fraction) -> Fraction:
    """At least the number, to four digits."""
    return math.ceil(number / _unit(number)) * _unit(number)


def _digits_down(number: Fraction) -> Fraction:
    """At most the number, to four digits."""
    return math.floor(number / _unit(number)) * _unit(number)


def _unit(number: Fraction) -> Fraction:
    return Fraction(10) ** (math.floor(math.log10(number)) - 3)


def as_near(one: Total, asked_for: Accuracy, facts: Facts, rows: int) -> bool:
    """Whether a noise is as near as asked; a refinement says nothing that holds whatever the prior."""
    return isinstance(one, Noisy) and _farthest(one, rows, _confidence(asked_for, facts)) <= _as_float(asked_for)


def _confidence(accuracy: Accuracy, facts: Facts) -> float:
    """The confidence of each number; where rows are chosen by noisy numbers, all are to be as near at once."""
    each = facts.coverage.each(float(accuracy.confidence))
    if each is None:
        raise Unsupported(
            "rows are chosen by their noisy numbers among too many groups for this probability; "
            "request a lower one, or ask with an epsilon"
        )
    return each


def _as_float(accuracy: Accuracy) -> float:
    """The distance as a float, the same wherever an error is compared with it."""
    return max(float(accuracy.distance), FINEST)
