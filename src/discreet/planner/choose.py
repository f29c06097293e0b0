"""The choice of a mechanism for each aggregate, from public facts alone: the least expected error of what is refined.

Epsilon is shared evenly among the aggregates of a question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from discreet.errors import Internal, InvalidInput, Unsupported
from discreet.guarantee import Guarantee
from discreet.inference.belief import Belief
from discreet.kernel.discrete_gaussian import WIDEST, DiscreteGaussian
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import Independent
from discreet.kernel.quantile import Quantile, Quantiles
from discreet.planner.asked import Asked, asked
from discreet.planner.chosen import Chosen, Mode, chosen
from discreet.planner.coverage import coverage_of
from discreet.planner.estimates import Linear
from discreet.planner.expected_rows import ONE_ROW, ExpectedRows, expect_rows
from discreet.planner.facts import Facts
from discreet.planner.individual import AboutOne, about_one, order_statistic
from discreet.planner.meaning import Meaning
from discreet.planner.nested import Nested
from discreet.planner.nesting import check_nested, ways
from discreet.planner.noisy import NAMES, Form, Noisy, gaussian, laplace
from discreet.planner.plan import Candidate, Counted, Measurement, Plan, places
from discreet.planner.positions import MOST_CANDIDATES
from discreet.planner.published import beside
from discreet.planner.ranks import RankMean, refuse_guess
from discreet.planner.sharing import TOTALS, form_of, implied_epsilon, known_number, shared
from discreet.planner.sizing import as_near, epsilon_for
from discreet.planner.threshold import Threshold
from discreet.planner.together import Counts, alone, together
from discreet.planner.totals import Total, belief_of, best, options, weighed
from discreet.query.checked import checked_query
from discreet.query.predicate import FALSE, TRUE
from discreet.query.query import Aggregate, Query
from discreet.schema import Schema
from discreet.spend import Spend

MANY = 4096


def plan(schema: Schema, query: Query, *given: Any, **more: Any) -> Plan:
    """From public facts alone, and what goes with the question as `asked` reads it; refuses what cannot be promised."""
    return plan_asked(schema, query, asked(*given, **more))


def plan_asked(schema: Schema, query: Query, request: Asked) -> Plan:
    """The same, from what was read already; the query passes the checks of its text here, whoever made it."""
    query = checked_query(query, schema)
    _check(schema, query, request)
    check_nested(schema, query, request)
    if FALSE in (query.where, *(aggregate.where for aggregate in query.aggregates)):
        raise InvalidInput("no row can satisfy this condition, whatever the table; for missing values write IS NULL")
    cells = _cells(schema, query)
    facts = Facts(schema, query.where, cells, coverage_of(query, cells or 1, range(len(query.aggregates))))
    if request.noise_scale is not None or request.rho is not None:
        return _by_noise(schema, query, facts, request)
    if request.accuracy is not None:
        epsilon = epsilon_for(schema, query, facts, request)
        request = replace(request, epsilon=epsilon, accuracy=None, near=request.accuracy)
    return _plain(schema, query, facts, request)


def plan_like(planned: Plan, request: Asked) -> Plan:
    """The plan of the same mechanisms with another epsilon, or rho."""
    like = tuple(one.name for one in planned.measurements)
    return plan_asked(planned.schema, planned.query, replace(request, like=like))


def _plain(schema: Schema, query: Query, facts: Facts, request: Asked) -> Plan:
    """With an epsilon."""
    epsilon = request.epsilon or Fraction(1)
    if query.unit is not None:
        return _about_one(schema, query, epsilon, request)
    if request.asked_model == "individual-dp":
        return _individual(schema, query, epsilon)
    if any(schema.column(key.column).private_keys for key in query.keys):
        return _over_threshold(schema, query, facts, epsilon, request)
    if query.nesting and request.prior is None and request.near is None:
        nested = _nested(query, facts, epsilon, request)
        if nested is not None:
            return _plan(schema, query, epsilon, nested, request)
    measured = _measured(query, query.aggregates, facts, epsilon, request)
    return _plan(schema, query, epsilon, measured, request)


def _nested(query: Query, facts: Facts, epsilon: Fraction, request: Asked) -> Measured | None:
    """The best of the ways to measure blocks with their cells; None where a stored answer was drawn cell by cell."""
    found = ways(query, facts, epsilon, request.delta)
    able = [one for one in found if one.measurement is not None and one.name in (request.like or (one.name,))]
    if not able:
        return None
    best_way = min(able, key=lambda one: one.expected_error)
    label = _label(query, query.aggregates[0])
    listed = [Candidate(label, one.name, one.noises.cost(), one.expected_error, one is best_way) for one in found]
    rho, rows = best_way.noises.rho, expect_rows(facts, request.rows)
    cost = Spend(other=rho) if rho else _pure(epsilon)
    return Measured((cast(Nested, best_way.measurement),), cost, tuple(listed), None, rows)


def _cells(schema: Schema, query: Query) -> int | None:
    """How many cells a question has; with private keys that is not public, and many are allowed for."""
    if not query.keys:
        return None
    columns = [(schema.column(key.column), key.width) for key in query.keys]
    return math.prod(MANY if column.private_keys else len(places(column, width)) for column, width in columns)


def _check(schema: Schema, query: Query, request: Asked) -> None:
    """Pure differential privacy is always allowed: it implies every other model of a schema."""
    model, delta = request.asked_model, request.delta
    if model not in {"dp", *schema.models}:
        hint = "; leave out delta" if delta is not None else ""
        allowed = ", ".join(dict.fromkeys(("dp", *schema.models)))
        raise InvalidInput(f"{model[:40]} is not allowed for {schema.name}; its models are {allowed}{hint}")
    if model != "approx-dp" and delta is not None:
        raise InvalidInput(f"delta belongs to approx-dp, and {model} was asked; leave one of them out")
    if model == "approx-dp" and delta is None and request.noise_scale is None and request.rho is None:
        raise InvalidInput("approx-dp needs a delta, such as 1e-9")
    several = len(query.aggregates) > 1
    named = (("a prior", request.prior), ("a distance", request.distance), ("an accuracy", request.accuracy))
    for name, given in named:
        if several and given is not None:
            raise InvalidInput(f"{name} belongs to one aggregate; ask for the others in questions of their own")
    sized = request.noise_scale is not None or request.rho is not None
    if model == "individual-dp" and (request.prior is not None or sized or request.accuracy is not None):
        raise InvalidInput(
            "individual-dp is asked with an epsilon alone; leave out the prior, accuracy and noise scale"
        )
    if request.interval and (several or sized or query.unit is not None or model == "individual-dp"):
        raise InvalidInput("an interval is drawn for one quantile; leave it out, or ask for the quantile alone")


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements with what they cost, what they were chosen from, and what the analyst believes."""

    measurements: tuple[Measurement, ...]
    cost: Spend
    candidates: tuple[Candidate, ...] = ()
    belief: Belief | None = None
    expected_rows: ExpectedRows = ONE_ROW


def _measured(
    query: Query, aggregates: tuple[Aggregate, ...], facts: Facts, epsilon: Fraction, request: Asked
) -> Measured:
    """Each aggregate that is not public already with an even share; totals share one rho where there is a delta."""
    schema = facts.schema
    expected = expect_rows(facts, request.rows)
    rows = expected.number
    public = {aggregate: known_number(aggregate, schema, facts) for aggregate in aggregates}
    private = [aggregate for aggregate in aggregates if public[aggregate] is None]
    share = epsilon / max(1, len(private))
    own = {aggregate: form_of(aggregate, schema, facts) for aggregate in private if aggregate.function in TOTALS}
    rho, wide = shared(_may_be_gaussian(own, query, request), share, request.delta)
    found, cost, listed = [], Spend(), []
    belief: Belief | None = None
    for aggregate in aggregates:
        label = _label(query, aggregate)
        measured: Measurement | None = public[aggregate]
        if measured is not None:
            listed.append(Candidate(label, measured.name, _nothing(schema), 0.0, chosen=True))
        elif aggregate in wide:
            belief = _belief(aggregate, facts, request)
            measured, cost = gaussian(own[aggregate], rho), cost + Spend(other=rho)
            error = Meaning(measured, float(rows)).expected_error(belief)
            listed.append(Candidate(label, measured.name, Guarantee.zcdp(rho, schema.neighbours), error, chosen=True))
        elif aggregate in own:
            belief = _belief(aggregate, facts, request)
            like = alone(request.like[query.aggregates.index(aggregate)]) if request.like else None
            measured, more = _total(aggregate, label, facts, share, belief, request, rows, like)
            cost, listed = cost + _pure(share), listed + more
        else:
            like = request.like[query.aggregates.index(aggregate)] if request.like else None
            measured, spent = _choice(aggregate, facts, share, request, like or "")
            cost = cost + spent
            listed.append(_one_candidate(label, measured, schema, share))
            if measured.rival is not None:
                listed.append(_rival_candidate(label, measured.rival, schema, share))
        if belief is None and not request.like and isinstance(measured, Noisy) and measured.form.ranks is not None:
            refuse_guess(measured.form.ranks, Meaning(measured, float(rows)).expected_error(None))
        found.append(measured)
    _used(request, private, own)
    one_by_one = Measured(tuple(found), cost, tuple(listed), belief, expected)
    return _together(query, aggregates, one_by_one, facts, share, request)


def _may_be_gaussian(forms: Mapping[Aggregate, Form], query: Query, request: Asked) -> Mapping[Aggregate, Form]:
    """The totals that may get Gaussian noise: where a stored answer is read, those that have it there."""
    if not request.like:
        return forms
    named = NAMES[DiscreteGaussian]
    return {one: form for one, form in forms.items() if named in request.like[query.aggregates.index(one)]}


def _together(
    query: Query,
    aggregates: tuple[Aggregate, ...],
    measured: Measured,
    facts: Facts,
    share: Fraction,
    request: Asked,
) -> Measured:
    """The counts with all their shares at once, where two or more have pure noise and no prior is at work."""
    pairs = [*zip(aggregates, measured.measurements, strict=True)]
    asked_for = {one: noisy for one, noisy in pairs if one.function == "count" and isinstance(noisy, Noisy)}
    if len(asked_for) < 2 or request.delta is not None or request.prior is not None:
        return measured
    labels = tuple(_label(query, one) for one in asked_for)
    like = [request.like[query.aggregates.index(one)] for one in asked_for] if request.like else []
    counts = Counts(facts, tuple(asked_for), labels, share * len(asked_for))
    found = together(counts, tuple(asked_for.values()), like)
    drawn = dict(zip(asked_for, found.measurements, strict=True))
    listed = [one for one in measured.candidates if one.aggregate not in labels] + [*found.candidates]
    order = [_label(query, one) for one in aggregates]
    return replace(
        measured,
        measurements=tuple(drawn.get(one, other) for one, other in pairs),
        cost=replace(measured.cost, rho=measured.cost.rho - len(drawn) * share**2 / 2 + found.rho),
        candidates=tuple(sorted(listed, key=lambda one: order.index(one.aggregate))),
    )


def _used(request: Asked, private: list[Aggregate], totals: Mapping[Aggregate, Form]) -> None:
    """What was given must have been of use."""
    if request.interval and any(aggregate in totals for aggregate in private):
        raise InvalidInput(
            "an interval is drawn for quantiles; the other answers have one of their own, so leave it out"
        )


def _label(query: Query, aggregate: Aggregate) -> str:
    """What the aggregate is called in the reply."""
    at = query.aggregates.index(aggregate)
    return next((output.label for output in query.presentation.outputs if output.aggregate == at), aggregate.function)


def _belief(aggregate: Aggregate, facts: Facts, request: Asked) -> Belief | None:
    column = None if aggregate.column is None else facts.schema.column(aggregate.column)
    return belief_of(aggregate, column, facts, request.prior, request.tail)


def _total(
    aggregate: Aggregate,
    label: str,
    facts: Facts,
    epsilon: Fraction,
    belief: Belief | None,
    request: Asked,
    rows: int,
    like: str | None,
) -> tuple[Total, list[Candidate]]:
    """The best of the mechanisms for a total; with an accuracy, of those that are as near as asked."""
    column = None if aggregate.column is None else facts.schema.column(aggregate.column)
    found = options(aggregate, column, facts, epsilon, belief, request.distance)
    if like is not None:
        found = tuple(one for one in found if one.name == like)
    judged = weighed(found, belief, rows)
    near = [one for one in judged if request.near is None or as_near(one.measurement, request.near, facts, rows)]
    taken = best(near, belief, rows)
    cost = Guarantee.dp(epsilon, facts.schema.neighbours, facts.schema.unit_name)
    listed = [
        Candidate(label, one.measurement.name, cost, one.expected_error, one.measurement is taken.measurement)
        for one in judged
    ]
    return taken.measurement, listed


def _one_candidate(label: str, measured: Chosen | AboutOne, schema: Schema, epsilon: Fraction) -> Candidate:
    cost = Guarantee.dp(epsilon, schema.neighbours, schema.unit_name)
    return Candidate(label, measured.name, cost, measured.expected_error(), chosen=True)


def _rival_candidate(label: str, rival: Chosen, schema: Schema, epsilon: Fraction) -> Candidate:
    """What was not chosen; the error of a mean of ranks depends on the rows as much as that of a choice by rank."""
    own = replace(_one_candidate(label, rival, schema, epsilon), chosen=False)
    return replace(own, expected_error=None) if isinstance(rival.choice, RankMean) else own


def _nothing(schema: Schema) -> Guarantee:
    return Guarantee.dp(0, schema.neighbours, schema.unit_name)


def _choice(aggregate: Aggregate, facts: Facts, epsilon: Fraction, request: Asked, like: str) -> tuple[Chosen, Spend]:
    column = facts.schema.column(aggregate.column or "")
    given = request.prior, request.distance, request.interval, like, request.tail
    choice = chosen(aggregate, column, facts, epsilon, *given)
    # The losses of the exponential mechanism span epsilon only, hence a quarter of the rho (chosen.md).
    exponential = request.prior is not None and isinstance(choice.choice, Quantile | Quantiles | Mode)
    return choice, Spend(epsilon, epsilon**2 / 8) if exponential and not request.interval else _pure(epsilon)


def _about_one(schema: Schema, query: Query, epsilon: Fraction, request: Asked) -> Plan:
    """One person's value."""
    column = schema.column(query.column or "")
    measurement = about_one(schema, column, epsilon, request.prior, request.distance, request.tail)
    candidate = _one_candidate(column.name, measurement, schema, epsilon)
    return _plan(schema, query, epsilon, Measured((measurement,), _pure(epsilon), (candidate,)), request)


def _by_noise(schema: Schema, query: Query, facts: Facts, request: Asked) -> Plan:
    """Noise of a size that is named: Laplace noise by its scale; under approx-dp Gaussian noise by its deviation."""
    if len(query.aggregates) != 1 or query.unit is not None or query.aggregates[0].function not in TOTALS:
        raise InvalidInput("a noise scale is of one count or sum; ask with an epsilon")
    aggregate = query.aggregates[0]
    form, estimate = form_of(aggregate, schema, facts), form_of(aggregate, schema, facts).estimate
    private_keys = any(schema.column(key.column).private_keys for key in query.keys)
    if not isinstance(estimate, Linear) or private_keys or request.distance is not None:
        raise InvalidInput("a noise scale is of a count or a sum over public keys; ask with an epsilon")
    unit = abs(estimate.slope)
    if request.asked_model != "approx-dp":
        epsilon = form.components[0].scale * unit / (request.noise_scale or Fraction(1))
        own = replace(request, noise_scale=None, epsilon=epsilon)
        return _measured_by(schema, query, facts, laplace(form, epsilon), _pure(epsilon), own)
    rho = request.rho or form.components[0].square * unit**2 / (2 * (request.noise_scale or Fraction(1)) ** 2)
    if not rho > 0 or form.components[0].square / (2 * rho) > Fraction(WIDEST) ** 2:
        raise InvalidInput("this noise scale is too large to be drawn; ask with a smaller one")
    return _measured_by(schema, query, facts, gaussian(form, rho), Spend(other=rho), request)


def _measured_by(schema: Schema, query: Query, facts: Facts, measurement: Noisy, cost: Spend, request: Asked) -> Plan:
    """A plan with the one noise that was asked for."""
    known = known_number(query.aggregates[0], schema, facts)
    if known is not None:
        nothing = Candidate(_label(query, query.aggregates[0]), known.name, _nothing(schema), 0.0, chosen=True)
        return _plan(schema, query, Fraction(1), Measured((known,), Spend(), (nothing,)), replace(request, delta=None))
    belief, rows = _belief(query.aggregates[0], facts, request), expect_rows(facts, request.rows)
    error = Meaning(measurement, float(rows.number)).expected_error(belief)
    rho = cost.other
    label = Guarantee.zcdp(rho, schema.neighbours, schema.unit_name) if rho else _dp(schema, cost.epsilon)
    candidate = Candidate(_label(query, query.aggregates[0]), measurement.name, label, error, chosen=True)
    epsilon = cost.epsilon or _nearest_root(2 * rho)
    return Plan(
        schema,
        query,
        epsilon,
        (measurement,),
        None,
        _beside(label, schema, query, (measurement,)),
        cost,
        request.prior,
        belief,
        (candidate,),
        rho or None,
        rows,
    )


def _nearest_root(square: Fraction) -> Fraction:
    """About the root, above 0: it only says which of two answers is the more accurate."""
    return Fraction(max(1, math.isqrt(int(square * 10**24))), 10**12)


def counted_plan(schema: Schema, query: Query, scale: Fraction, epsilon: Fraction) -> Plan:
    """A counting question with Laplace noise of a scale, as part of a session that costs epsilon as a whole."""
    query = checked_query(query, schema)
    if query.nesting == "rollup":
        raise Unsupported("a session counts cells, not their totals too; write GROUP BY a, b instead of ROLLUP (a, b)")
    facts = Facts(schema, query.where, _cells(schema, query))
    measurements: list[Measurement] = []
    for aggregate in query.aggregates:
        if aggregate.function not in {"count", "count_distinct"}:
            raise InvalidInput("a session answers counting questions; ask for the others by themselves")
        noise = Independent((DiscreteLaplace(1 / scale, 1),))
        known = known_number(aggregate, schema, facts)
        measurements.append(known or Noisy(form_of(aggregate, schema, facts), noise))
    own = min(epsilon, len(measurements) * facts.reach / scale)
    said = _beside(_dp(schema, own), schema, query, measurements).assumptions
    label = replace(_dp(schema, epsilon), assumptions=said)
    return Plan(schema, query, epsilon, tuple(measurements), None, label, _pure(epsilon), None)


def _over_threshold(schema: Schema, query: Query, facts: Facts, epsilon: Fraction, request: Asked) -> Plan:
    """First the keys, then their aggregates; at once where all that is asked is the number of units."""
    if request.delta is None:
        name = query.keys[0].column
        raise InvalidInput(f"the values of {name} are not public; to group by it give a delta too, such as 1e-9")
    rest = tuple(aggregate for aggregate in query.aggregates if not _counts_units(aggregate, schema))
    if request.prior is not None and not rest:
        raise Unsupported("a count of units that chose a key uses no prior; ask for it without one")
    first = epsilon / 2 if rest else epsilon
    threshold = Threshold.of(facts, first, request.delta)
    pure = replace(request, delta=None, model="dp")
    measured = _measured(query, rest, facts, epsilon - first, pure) if rest else Measured((), Spend())
    others = iter(measured.measurements)
    measurements = tuple(
        Counted(threshold) if _counts_units(aggregate, schema) else next(others) for aggregate in query.aggregates
    )
    spent = measured.cost + replace(_pure(first), delta=request.delta)
    own = replace(measured, measurements=measurements, cost=spent)
    return _plan(schema, query, epsilon, own, request, threshold)


def _counts_units(aggregate: Aggregate, schema: Schema) -> bool:
    whole_rows = aggregate.function == "count" and aggregate.column is None and schema.rows == 1
    return aggregate.where == TRUE and (whole_rows or aggregate.function == "count_distinct")


def _individual(schema: Schema, query: Query, epsilon: Fraction) -> Plan:
    """Individual DP, with its own label."""
    if len(query.aggregates) != 1:
        raise Unsupported("individual-dp answers one order statistic at a time")
    aggregate, facts = query.aggregates[0], Facts(schema, query.where, _cells(schema, query))
    column = schema.column(aggregate.column or "")
    measurement = order_statistic(aggregate, column, facts, epsilon, 16 * MOST_CANDIDATES)
    own = replace(measurement.mechanism.cost(), unit=schema.unit_name)
    label = _beside(own, schema, query, (measurement,))
    candidate = Candidate(_label(query, aggregate), measurement.name, label, None, chosen=True)
    return Plan(schema, query, epsilon, (measurement,), None, label, _pure(epsilon), None, None, (candidate,))


def _plan(
    schema: Schema,
    query: Query,
    epsilon: Fraction,
    measured: Measured,
    request: Asked,
    threshold: Threshold | None = None,
) -> Plan:
    """With its label: pure where every mechanism is; else what the costs imply is at most what was asked."""
    cost, delta, label = measured.cost, request.delta, _dp(schema, measured.cost.epsilon)
    if delta is not None and (cost.other or cost.delta):
        if cost.epsilon + (implied_epsilon(cost.other, delta) if cost.other else 0) > epsilon or (
            cost.other and cost.delta
        ):
            raise Internal("a plan costs more than was asked")
        label = Guarantee.approx_dp(epsilon, delta, schema.neighbours, schema.unit_name)
    return Plan(
        schema,
        query,
        epsilon,
        measured.measurements,
        threshold,
        _beside(label, schema, query, measured.measurements),
        cost,
        request.prior,
        measured.belief,
        measured.candidates,
        None,
        measured.expected_rows,
        request.near,
    )


def _dp(schema: Schema, epsilon: Fraction) -> Guarantee:
    return Guarantee.dp(epsilon, schema.neighbours, schema.unit_name)


def _beside(label: Guarantee, schema: Schema, query: Query, measurements: Sequence[Measurement]) -> Guarantee:
    """What was published exactly before stands outside every promise made here, and the label says so."""
    loss = label.epsilon if label.model == "dp" else None
    return replace(label, assumptions=beside(schema, query, measurements, loss))


def _pure(epsilon: Fraction) -> Spend:
    return Spend(epsilon, epsilon**2 / 2)
