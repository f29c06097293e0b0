"""The smallest epsilon whose answer is as near as asked."""

from __future__ import annotations

import math
from fractions import Fraction

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


def epsilon_for(schema: Schema, query: Query, facts: Facts, request: Asked) -> Fraction:
    """The smallest epsilon, to four digits, whose answer is as near as asked with the probability asked."""
    accuracy = request.accuracy or Accuracy(Fraction(1), Fraction(95, 100))
    private_keys = any(schema.column(key.column).private_keys for key in query.keys)
    if query.unit is not None or private_keys or query.aggregates[0].function not in TOTALS or request.distance:
        raise Unsupported(
            "an accuracy can be asked of COUNT, SUM, AVG, VAR and STDDEV over public keys; ask for this with an epsilon"
        )
    if known_number(query.aggregates[0], schema, facts) is not None:
        return Fraction(1)
    most = min(request.most or MOST, MOST)

    def off(epsilon: Fraction) -> float:
        return _reach(query.aggregates[0], facts, epsilon, request, float(accuracy.confidence))

    if most <= 0 or off(most) > accuracy.distance:
        reachable = f"; ±{_round_up(off(most))} is what that can reach" if most > 0 else ""
        raise BudgetExceeded(f"{accuracy} cannot be reached with the epsilon of {shown(most)} that is left{reachable}")
    low, high = math.log(LEAST), math.log(most)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if off(Fraction(math.exp(middle))) <= accuracy.distance else (middle, high)
    return min(_digits_up(math.exp(high)), most)


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
