"""The plain choice of a mechanism for each aggregate. Epsilon is shared evenly among the aggregates of a question."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from discreet.errors import Internal, InvalidInput, Unsupported
from discreet.exact import between, positive
from discreet.guarantee import Guarantee
from discreet.kernel.discrete_gaussian import WIDEST
from discreet.planner.chosen import MOST_CANDIDATES, chosen
from discreet.planner.facts import Facts
from discreet.planner.individual import about_one, order_statistic
from discreet.planner.noisy import Form, form, gaussian, laplace
from discreet.planner.plan import Cost, Counted, Known, Measurement, Plan, places
from discreet.planner.threshold import Threshold
from discreet.prior import Prior
from discreet.query.predicate import FALSE
from discreet.query.query import Aggregate, Query
from discreet.schema import Schema

TOTALS = frozenset({"count", "count_distinct", "sum", "avg", "var", "stddev"})
MANY = 4096
LEAST, MOST = Fraction(1, 10**9), Fraction(10**4)
LEAST_DELTA = Fraction(1, 10**30)
"""Beyond these nothing useful is asked, and numbers outgrow what can be told: refused before anything is spent."""
Given = str | Prior | None


def plan(
    schema: Schema, query: Query, epsilon: object, delta: object = None, prior: Given = None, model: str | None = None
) -> Plan:
    """From public facts alone; refuses what cannot be promised."""
    loss = positive(epsilon, "epsilon")
    slack = None if delta is None else between(delta, 0, 1, "delta")
    if not LEAST <= loss <= MOST or (slack is not None and slack < LEAST_DELTA):
        raise InvalidInput("epsilon must be between 1e-9 and 10000, and delta at least 1e-30")
    asked = model or ("dp" if slack is None else "approx-dp")
    _check(schema, query, asked, slack, prior)
    if query.where == FALSE:
        raise InvalidInput("no row can satisfy this condition, whatever the table; for missing values write IS NULL")
    if query.unit is not None:
        measurement = about_one(schema, schema.column(query.column or ""), loss, prior)
        return _plan(schema, query, loss, (measurement,), _pure(loss), prior=prior)
    if asked == "individual-dp":
        return _individual(schema, query, loss)
    facts = Facts(schema, query.where, _cells(schema, query))
    if any(schema.column(key.column).private_keys for key in query.keys):
        return _over_threshold(schema, query, facts, loss, slack, prior)
    measurements, cost = _measured(schema, query.aggregates, facts, loss, slack, prior)
    return _plan(schema, query, loss, measurements, cost, delta=slack, prior=prior)


def _cells(schema: Schema, query: Query) -> int | None:
    """How many cells a question has; with private keys that is not public, and many are allowed for."""
    if not query.keys:
        return None
    columns = [(schema.column(key.column), key.width) for key in query.keys]
    return math.prod(MANY if column.private_keys else len(places(column, width)) for column, width in columns)


def _check(schema: Schema, query: Query, model: str, delta: Fraction | None, prior: Given) -> None:
    """Pure differential privacy is always allowed: it implies every other model of a schema."""
    if model not in {"dp", *schema.models}:
        hint = "; leave out delta" if delta is not None else ""
        allowed = ", ".join(dict.fromkeys(("dp", *schema.models)))
        raise InvalidInput(f"{model[:40]} is not allowed for {schema.name}; its models are {allowed}{hint}")
    if model != "approx-dp" and delta is not None:
        raise InvalidInput(f"delta belongs to approx-dp, and {model} was asked; leave one of them out")
    if model == "approx-dp" and delta is None:
        raise InvalidInput("approx-dp needs a delta, such as 1e-9")
    if prior is not None and len(query.aggregates) > 1:
        raise InvalidInput("a prior belongs to one aggregate; ask for the others in questions of their own")


def _measured(
    schema: Schema,
    aggregates: tuple[Aggregate, ...],
    facts: Facts,
    epsilon: Fraction,
    delta: Fraction | None,
    prior: Given,
) -> tuple[tuple[Measurement, ...], Cost]:
    """Each aggregate that is not public already with an even share; totals share one rho where there is a delta."""
    public = {aggregate: _known(aggregate, schema, facts) for aggregate in aggregates}
    private = [aggregate for aggregate in aggregates if public[aggregate] is None]
    share = epsilon / max(1, len(private))
    forms = {aggregate: _form(aggregate, schema, facts) for aggregate in private if aggregate.function in TOTALS}
    rho, wide = _shared(forms, share, delta)
    found: list[Measurement] = []
    cost = Cost()
    for aggregate in aggregates:
        measured, spent = public[aggregate], Cost()
        if measured is None and aggregate in wide:
            measured, spent = gaussian(forms[aggregate], rho), Cost(other=rho)
        elif measured is None and aggregate in forms:
            measured, spent = laplace(forms[aggregate], share), _pure(share)
        elif measured is None:
            measured, spent = _choice(aggregate, schema, facts, share, prior)
        found.append(measured)
        cost += spent
    if prior is not None and (forms or not private):
        raise Unsupported(
            "a prior is used for quantiles, MIN, MAX, SECOND_MAX, MODE and one person's value; ask for this without one"
        )
    return tuple(found), cost


def _form(aggregate: Aggregate, schema: Schema, facts: Facts) -> Form:
    return form(aggregate, None if aggregate.column is None else schema.column(aggregate.column), facts)


def _shared(
    forms: Mapping[Aggregate, Form], share: Fraction, delta: Fraction | None
) -> tuple[Fraction, list[Aggregate]]:
    """The rho of each total that gets Gaussian noise, and those totals: their shares of epsilon pay for it, no others.

    What is too wide to be drawn, or less noisy if pure, keeps its own share; the rest begin again without it.
    """
    wide = list(forms) if delta is not None else []
    while wide and delta is not None:
        rho = rho_within(share * len(wide), delta) / len(wide)
        fitting = [aggregate for aggregate in wide if rho and _better(forms[aggregate], rho, share)]
        if fitting == wide:
            return rho, wide
        wide = fitting
    return Fraction(0), []


def _known(aggregate: Aggregate, schema: Schema, facts: Facts) -> Measurement | None:
    """A count that the schema itself tells."""
    rows = None
    if aggregate.function == "count":
        rows = facts.known_rows(None if aggregate.column is None else schema.column(aggregate.column))
    elif aggregate.function == "count_distinct":
        rows = facts.known_units()
    return None if rows is None else Known(rows)


def _better(own: Form, rho: Fraction, epsilon: Fraction) -> bool:
    """Whether Gaussian noise is drawn that wide, and is less than Laplace noise of the same share."""
    squares = [component.square / (2 * rho) for component in own.components]
    pure = [2 * (component.scale / epsilon) ** 2 for component in own.components]
    drawn = max(squares) <= Fraction(WIDEST) ** 2
    return drawn and sum(one / two for one, two in zip(squares, pure, strict=True)) < len(pure)


def _choice(
    aggregate: Aggregate, schema: Schema, facts: Facts, epsilon: Fraction, prior: Given
) -> tuple[Measurement, Cost]:
    choice = chosen(aggregate, schema.column(aggregate.column or ""), facts, epsilon, prior)
    # The losses of the exponential mechanism span epsilon only, hence a quarter of the rho (chosen.md).
    exponential = choice.uses_prior and aggregate.function in {"quantile", "mode"}
    return choice, Cost(epsilon, epsilon**2 / 8) if exponential else _pure(epsilon)


def _over_threshold(
    schema: Schema, query: Query, facts: Facts, epsilon: Fraction, delta: Fraction | None, prior: Given
) -> Plan:
    """First the keys, then their aggregates; at once where all that is asked is the number of units."""
    if delta is None:
        name = query.keys[0].column
        raise InvalidInput(f"the values of {name} are not public; to group by it give a delta too, such as 1e-9")
    rest = tuple(aggregate for aggregate in query.aggregates if not _counts_units(aggregate, schema))
    first = epsilon / 2 if rest else epsilon
    threshold = Threshold.of(facts, first, delta)
    measured, cost = _measured(schema, rest, facts, epsilon - first, None, prior) if rest else ((), Cost())
    if prior is not None and not rest:
        raise Unsupported("a count of units uses no prior; ask for it without one")
    others = iter(measured)
    measurements = tuple(
        Counted(threshold) if _counts_units(aggregate, schema) else next(others) for aggregate in query.aggregates
    )
    spent = cost + replace(_pure(first), delta=delta)
    return _plan(schema, query, epsilon, measurements, spent, delta, prior, threshold)


def _counts_units(aggregate: Aggregate, schema: Schema) -> bool:
    whole_rows = aggregate.function == "count" and aggregate.column is None and schema.rows == 1
    return whole_rows or aggregate.function == "count_distinct"


def _individual(schema: Schema, query: Query, epsilon: Fraction) -> Plan:
    """Individual DP, with its own label."""
    if len(query.aggregates) != 1:
        raise Unsupported("individual-dp answers one order statistic at a time")
    aggregate, facts = query.aggregates[0], Facts(schema, query.where, _cells(schema, query))
    column = schema.column(aggregate.column or "")
    measurement = order_statistic(aggregate, column, facts, epsilon, 16 * MOST_CANDIDATES)
    label = replace(measurement.mechanism.cost(), unit=schema.unit_name)
    return Plan(schema, query, epsilon, (measurement,), None, _beside(label, schema), _pure(epsilon), None)


def _plan(
    schema: Schema,
    query: Query,
    epsilon: Fraction,
    measurements: tuple[Measurement, ...],
    cost: Cost,
    delta: Fraction | None = None,
    prior: Given = None,
    threshold: Threshold | None = None,
) -> Plan:
    """With its label: pure where every mechanism is; else what the costs imply is at most what was asked."""
    unit, relation = schema.unit_name, schema.neighbours
    label = Guarantee.dp(cost.epsilon, relation, unit)
    if delta is not None and (cost.other or cost.delta):
        if cost.epsilon + (_implied(cost.other, delta) if cost.other else 0) > epsilon or (cost.other and cost.delta):
            raise Internal("a plan costs more than was asked")
        label = Guarantee.approx_dp(epsilon, delta, relation, unit)
    return Plan(schema, query, epsilon, measurements, threshold, _beside(label, schema), cost, prior)


def _beside(label: Guarantee, schema: Schema) -> Guarantee:
    """What was published exactly before stands outside every promise made here, and the label says so."""
    said = tuple(f"published exactly before: {one.statistic} = {one.value}" for one in schema.published)
    return replace(label, assumptions=said)


def _pure(epsilon: Fraction) -> Cost:
    return Cost(epsilon, epsilon**2 / 2)


@lru_cache(maxsize=256)
def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho, nearly the largest, that implies (epsilon, delta); 0 where epsilon is too small for any."""
    low, high = Fraction(0), Fraction(1, 2**20)
    while _implied(high, delta) <= epsilon:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _implied(middle, delta) <= epsilon else (low, middle)
    return low


def _implied(rho: Fraction, delta: Fraction) -> Fraction:
    return Guarantee.zcdp(rho).approximate(delta).epsilon or Fraction(0)
