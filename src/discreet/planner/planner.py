"""The choice of a mechanism for each aggregate of a question, from public facts alone: the one of least expected error.

Aggregates that the schema does not make public share epsilon evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Unpack, cast

from discreet.errors import BudgetExceeded, Internal, InvalidInput, Unsupported
from discreet.estimation.grid_prior import GridPrior
from discreet.estimation.noisy_totals import Linear
from discreet.measurements.additive import TOTAL_FUNCTIONS, AdditiveNoise, build_gaussian, build_laplace
from discreet.measurements.base import AggregateRequest, Measurement, ReadingContext
from discreet.measurements.candidate_grid import MAX_CANDIDATES
from discreet.measurements.constant import PublicConstant
from discreet.measurements.contribution_bounds import (
    ONE_ROW,
    ContributionBounds,
    ExpectedRows,
    estimate_rows,
    find_coverage,
    find_public_count,
)
from discreet.measurements.hierarchical import HierarchicalHistogram
from discreet.measurements.threshold import Threshold, ThresholdedCount
from discreet.measurements.unit_query import build_order_statistic, build_unit_query
from discreet.mechanisms.discrete_gaussian import MAX_SIGMA
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.noise import IndependentNoises
from discreet.numeric import approximate_root
from discreet.planner.calibrate import find_epsilon, is_accurate_enough
from discreet.planner.candidates import (
    RatedMeasurement,
    build_aggregate_prior,
    build_linear_query,
    compute_implied_epsilon,
    get_single_mechanism,
    may_be_gaussian,
    propose_measurements,
    rate_measurements,
    select_best_measurement,
    select_named,
    split_rho,
)
from discreet.planner.hierarchy_plan import check_hierarchical, list_hierarchies
from discreet.planner.options import PlanRequest, QueryKeywords, build_plan_request, build_query_options
from discreet.planner.plan import Candidate, Plan, count_answer_cells
from discreet.planner.public_facts import describe_published
from discreet.planner.workload import (
    JointCounts,
    format_candidate_mechanism,
    plan_joint_counts,
)
from discreet.privacy.cost import PrivacyCost, compute_pure_cost
from discreet.privacy.guarantee import Guarantee
from discreet.query.predicates import FALSE, TRUE
from discreet.query.query import Aggregate, CheckedQuery, Query
from discreet.query.validate import validate_query
from discreet.schema import Schema
from discreet.suggestions import find_similar_names, list_names


def plan(
    schema: Schema,
    query: Query,
    epsilon: object = None,
    *,
    max_epsilon: Fraction | None = None,
    **options: Unpack[QueryKeywords],
) -> Plan:
    """Plan a question from public facts, with the options of `QueryOptions`; refuse what cannot be promised.

    An accuracy may cost at most `max_epsilon`.
    """
    return plan_query(schema, query, build_plan_request(build_query_options(epsilon, **options), max_epsilon))


def plan_query(schema: Schema, query: Query, request: PlanRequest) -> Plan:
    """Plan a question whose options were read already; the query is checked here, whoever built it."""
    return _plan_once(schema, validate_query(query, schema), request)


def plan_question(
    schema: Schema, query: CheckedQuery, request: PlanRequest, has_stored_answer: Callable[[Plan], bool]
) -> Plan:
    """Plan a question that was parsed; for an accuracy that the budget left cannot reach, only if it has an answer."""
    try:
        return _plan_once(schema, query, request)
    except BudgetExceeded as refusal:
        try:
            uncapped_plan = _plan_once(schema, query, replace(request, max_epsilon=None))
        except BudgetExceeded:  # no epsilon reaches it; only the first refusal says what is left
            raise refusal from None
        if not has_stored_answer(uncapped_plan):
            raise
        return uncapped_plan


def _plan_once(schema: Schema, query: CheckedQuery, request: PlanRequest) -> Plan:
    _check_request(schema, query, request)
    if query.nesting:
        check_hierarchical(schema, query, request)
    planned = _plan_checked_query(schema, query, request)
    if request.mechanism is not None:
        _check_mechanism(planned, request)
    return planned


def _check_mechanism(planned: Plan, request: PlanRequest) -> None:
    """Refuse a mechanism that this question has not, and list those that it has."""
    if _is_planned_with(planned, request.mechanism):
        return
    best = _plan_checked_query(planned.schema, planned.query, replace(request, mechanism=None))
    weighed = [format_candidate_mechanism(entry.mechanism) for item in (best, planned) for entry in item.candidates]
    names = dict.fromkeys([*(measurement.name for measurement in best.measurements), *weighed])
    offered = [name for name in names if name != request.mechanism and _is_offered(best, name, request)]
    is_partial = len(planned.query.aggregates) > 1
    similar_names = find_similar_names(request.mechanism or "", offered)
    hints = [f"did you mean {' or '.join(map(repr, similar_names))}"] if similar_names else []
    hints += [f"choose {list_names(offered)}"] if offered and not similar_names else []
    hints += ["ask for its aggregates one by one"] if is_partial else []
    hint = " or ".join(hints or ["leave mechanism out"]) + ("?" if similar_names else "")
    place = f"for {'all aggregates of ' if is_partial else ''}this question"
    name = (request.mechanism or "")[:60]
    raise InvalidInput(f"mechanism {name!r} is not on offer {place}; {hint}", code="unknown-name")


def _is_offered(best: Plan, name: str, request: PlanRequest) -> bool:
    """Whether all aggregates of a question can be measured by one mechanism."""
    try:
        return _is_planned_with(_plan_checked_query(best.schema, best.query, replace(request, mechanism=name)), name)
    except (InvalidInput, Unsupported):
        return False


def _is_planned_with(planned: Plan, mechanism: str | None) -> bool:
    names = [measurement.name for measurement in planned.measurements if not measurement.is_public or planned.is_free]
    return all(name == mechanism for name in names)


def _plan_checked_query(schema: Schema, query: Query, request: PlanRequest) -> Plan:
    if FALSE in (query.where, *(aggregate.where for aggregate in query.aggregates)):
        raise InvalidInput("no row can satisfy this condition, whatever the table; for missing values write IS NULL")
    cells = count_answer_cells(schema, query)
    coverage = find_coverage(query, cells or 1, range(len(query.aggregates)))
    bounds = ContributionBounds(schema, query.where, cells, coverage)
    if request.noise_scale is not None or request.rho is not None:
        return _plan_by_noise_scale(query, bounds, request)
    if request.accuracy is not None:
        epsilon = find_epsilon(schema, query, bounds, request)
        request = replace(request, epsilon=epsilon, accuracy=None, target_accuracy=request.accuracy)
    return _plan_with_epsilon(query, bounds, request)


def replan_query(base_plan: Plan, request: PlanRequest) -> Plan:
    """Plan the same mechanisms with another epsilon, or rho."""
    stored_mechanisms = tuple(base_plan.spread_by_aggregate([item.name for item in base_plan.measurements]))
    return plan_query(base_plan.schema, base_plan.query, replace(request, stored_mechanisms=stored_mechanisms))


def _plan_with_epsilon(query: Query, bounds: ContributionBounds, request: PlanRequest) -> Plan:
    schema, epsilon = bounds.schema, request.epsilon or Fraction(1)
    if query.unit is not None:
        return _plan_unit_query(schema, query, epsilon, request)
    if request.requested_model == "individual-dp":
        return _plan_individual_dp(schema, query, epsilon, request)
    if any(schema.column(key.column).private_keys for key in query.keys):
        return _plan_thresholded(query, bounds, epsilon, request)
    planned = None
    if query.nesting and request.prior is None and request.target_accuracy is None:
        planned = _plan_hierarchical(query, bounds, epsilon, request)
    planned = planned or _plan_measurements(query, query.aggregates, bounds, epsilon, request)
    return _build_plan(schema, query, epsilon, planned, request)


def _plan_hierarchical(
    query: Query, bounds: ContributionBounds, epsilon: Fraction, request: PlanRequest
) -> PlannedMeasurements | None:
    """The best of the ways to measure blocks with their cells; None where a stored answer was drawn cell by cell."""
    hierarchies = list_hierarchies(query, bounds, epsilon, request.delta)
    names = request.stored_mechanisms or ((request.mechanism,) if request.mechanism else ())
    measured = [option for option in hierarchies if option.measurement is not None]
    usable = [option for option in measured if not names or option.name in names]
    if not usable and (query.nesting == "ranges" or request.stored_mechanisms):
        return None
    usable = usable or measured  # a ROLLUP has no other
    best = min(usable, key=lambda option: option.expected_error)
    label = _get_label(query, query.aggregates[0])
    candidates = tuple(
        Candidate(label, option.name, option.noises.cost(), option.expected_error, option is best)
        for option in hierarchies
    )
    rows = estimate_rows(bounds, request.expected_rows)
    return PlannedMeasurements((cast(HierarchicalHistogram, best.measurement),), candidates, None, rows)


def _check_request(schema: Schema, query: Query, request: PlanRequest) -> None:
    """Refuse options that do not go together; pure differential privacy is allowed under every model of a schema."""
    model, delta = request.requested_model, request.delta
    if model not in {"dp", *schema.models}:
        allowed, similar_names = (
            dict.fromkeys(("dp", *schema.models)),
            find_similar_names(model, ("dp", *schema.models)),
        )
        hint = "; leave out delta" if delta is not None else ""
        hint += f"; did you mean {' or '.join(map(repr, similar_names))}?" if similar_names and not hint else ""
        message = f"{model[:40]} is not allowed for {schema.name}; its models are {list_names(allowed)}{hint}"
        raise InvalidInput(message, code="unknown-name")
    if model != "approx-dp" and delta is not None:
        raise InvalidInput(f"delta belongs to approx-dp, and {model} was asked; leave one of them out")
    if model == "approx-dp" and delta is None and request.noise_scale is None and request.rho is None:
        raise InvalidInput("approx-dp needs a delta, such as 1e-9")
    several = len(query.aggregates) > 1
    single_options = {"a prior": request.prior, "a distance": request.distance, "an accuracy": request.accuracy}
    for name, value in single_options.items():
        if several and value is not None:
            raise InvalidInput(f"{name} belongs to one aggregate; ask for the others in questions of their own")
    has_noise_size = request.noise_scale is not None or request.rho is not None
    if model == "individual-dp" and (request.prior is not None or has_noise_size or request.accuracy is not None):
        raise InvalidInput(
            "individual-dp is asked with an epsilon alone; leave out the prior, accuracy and noise scale"
        )
    if request.interval and (several or has_noise_size or query.unit is not None or model == "individual-dp"):
        raise InvalidInput("an interval is drawn for one quantile; leave it out, or ask for the quantile alone")


@dataclass(frozen=True, slots=True)
class PlannedMeasurements:
    """Measurements, what they were chosen from, and what the analyst believes."""

    measurements: tuple[Measurement, ...]
    candidates: tuple[Candidate, ...] = ()
    grid_prior: GridPrior | None = None
    expected_rows: ExpectedRows = ONE_ROW

    @property
    def cost(self) -> PrivacyCost:
        """What all of them cost."""
        return sum((measurement.privacy_cost for measurement in self.measurements), PrivacyCost())


def _plan_measurements(
    query: Query,
    aggregates: tuple[Aggregate, ...],
    bounds: ContributionBounds,
    epsilon: Fraction,
    request: PlanRequest,
) -> PlannedMeasurements:
    """Each aggregate that is not public already with an even share; totals share one rho where there is a delta."""
    schema, expected_rows = bounds.schema, estimate_rows(bounds, request.expected_rows)
    public_counts = {aggregate: find_public_count(aggregate, bounds) for aggregate in aggregates}
    private = [aggregate for aggregate in aggregates if public_counts[aggregate] is None]
    share = epsilon / max(1, len(private))
    gaussians = _find_gaussians(query, private, bounds, share, request)
    measurements, candidates = [], list[Candidate]()
    context = ReadingContext(schema=schema, has_groups=bool(query.keys), expected_rows=expected_rows)
    for aggregate in aggregates:
        place, public_count = query.aggregates.index(aggregate), public_counts[aggregate]
        if public_count is None and aggregate.function in TOTAL_FUNCTIONS:
            context = replace(context, grid_prior=_build_request_prior(aggregate, bounds, request))
        if public_count is not None:
            proposals: list[Measurement] = [PublicConstant(public_count)]
        elif aggregate in gaussians:
            proposals = [gaussians[aggregate]]
        else:
            proposals = _propose_measurements(aggregate, place, bounds, share, context, request)
        ratings = rate_measurements(proposals, context)
        best = _select_measurement(ratings, bounds, context, request)
        measurements.append(replace(best, aggregates=(place,)))
        candidates += _list_candidates(_get_label(query, aggregate), ratings, best, schema)
    if request.interval and any(aggregate.function in TOTAL_FUNCTIONS for aggregate in private):
        raise InvalidInput(
            "an interval is drawn for quantiles; the other answers have one of their own, so leave it out"
        )
    planned = PlannedMeasurements(tuple(measurements), tuple(candidates), context.grid_prior, expected_rows)
    return _plan_jointly(query, aggregates, planned, bounds, share, request)


def _find_gaussians(
    query: Query, private: Sequence[Aggregate], bounds: ContributionBounds, share: Fraction, request: PlanRequest
) -> dict[Aggregate, AdditiveNoise]:
    """The totals that get Gaussian noise, which together have one rho; none without a delta."""
    if request.delta is None:
        return {}
    linear_queries = {
        total: build_linear_query(total, bounds.schema, bounds)
        for total in private
        if total.function in TOTAL_FUNCTIONS and may_be_gaussian(_get_mechanism(query.aggregates.index(total), request))
    }
    rho, totals = split_rho(linear_queries, share, request.delta)
    return {total: build_gaussian(linear_queries[total], rho) for total in totals}


def _propose_measurements(
    aggregate: Aggregate,
    place: int,
    bounds: ContributionBounds,
    epsilon: Fraction,
    context: ReadingContext,
    request: PlanRequest,
) -> list[Measurement]:
    """What could answer an aggregate; of one name alone, where it has that."""
    mechanism = get_single_mechanism(_get_mechanism(place, request))
    proposals = propose_measurements(
        AggregateRequest(
            aggregate=aggregate,
            bounds=bounds,
            epsilon=epsilon,
            prior=request.prior,
            grid_prior=context.grid_prior,
            distance=request.distance,
            interval=request.interval,
            tail=request.tail,
            mechanism=mechanism,
        )
    )
    return select_named(proposals, mechanism)


def _select_measurement(
    ratings: Sequence[RatedMeasurement], bounds: ContributionBounds, context: ReadingContext, request: PlanRequest
) -> Measurement:
    """The best of those proposed; with an accuracy, of those that are as near as asked."""
    accuracy = request.target_accuracy
    accurate = [
        rating
        for rating in ratings
        if accuracy is None or is_accurate_enough(rating.measurement, accuracy, bounds, context)
    ]
    best = select_best_measurement(accurate, context)
    if context.grid_prior is None and not request.stored_mechanisms:
        best.check_usefulness(next(rating.expected_error for rating in ratings if rating.measurement is best))
    return best


def _list_candidates(
    label: str, ratings: Sequence[RatedMeasurement], best: Measurement, schema: Schema
) -> list[Candidate]:
    """What was weighed: by expected error, and by the factory of the best one itself."""
    entries = [
        Candidate(
            label,
            rating.measurement.name,
            _build_candidate_cost(schema, rating.measurement.privacy_cost),
            rating.expected_error,
            rating.measurement is best,
        )
        for rating in ratings
    ]
    cost = _build_candidate_cost(schema, best.privacy_cost)
    return entries + [Candidate(label, name, cost, error, chosen=False) for name, error in best.rivals]


def _build_candidate_cost(schema: Schema, cost: PrivacyCost) -> Guarantee:
    if cost.gaussian_rho:
        return Guarantee.zcdp(cost.gaussian_rho, schema.neighbors)
    return _build_dp_guarantee(schema, cost.epsilon)


def _get_mechanism(place: int, request: PlanRequest) -> str:
    """The mechanism that a stored answer drew an aggregate by, or that was asked for; empty where there is none."""
    return request.stored_mechanisms[place] if request.stored_mechanisms else request.mechanism or ""


def _plan_jointly(
    query: Query,
    aggregates: tuple[Aggregate, ...],
    planned: PlannedMeasurements,
    bounds: ContributionBounds,
    share: Fraction,
    request: PlanRequest,
) -> PlannedMeasurements:
    """The counts with all their shares at once, where two or more have pure noise and no prior is at work."""
    counts = {
        measurement.aggregates[0]: measurement
        for measurement in planned.measurements
        if measurement.independent_noises and query.aggregates[measurement.aggregates[0]].function == "count"
    }
    if len(counts) < 2 or request.delta is not None or request.prior is not None:
        return planned
    counted = tuple(query.aggregates[place] for place in counts)
    labels = tuple(_get_label(query, aggregate) for aggregate in counted)
    context = ReadingContext(schema=bounds.schema)
    errors = [rating.sort_key for rating in rate_measurements([*counts.values()], context)]
    joint_counts = JointCounts(bounds, counted, tuple(counts), labels, share * len(counts))
    joint, weighed = plan_joint_counts(joint_counts, errors, _get_mechanism(min(counts), request))
    candidates = [entry for entry in planned.candidates if entry.aggregate not in labels] + [*weighed]
    order = [_get_label(query, aggregate) for aggregate in aggregates]
    measurements = list(planned.measurements)
    if joint is not None:
        measurements = [item for item in measurements if item.aggregates[0] not in counts] + [joint]
    return replace(
        planned,
        measurements=tuple(sorted(measurements, key=lambda item: item.aggregates)),
        candidates=tuple(sorted(candidates, key=lambda entry: order.index(entry.aggregate))),
    )


def _get_label(query: Query, aggregate: Aggregate) -> str:
    index, outputs = query.aggregates.index(aggregate), query.presentation.outputs
    return next((output.label for output in outputs if output.aggregate == index), aggregate.function)


def _build_request_prior(aggregate: Aggregate, bounds: ContributionBounds, request: PlanRequest) -> GridPrior | None:
    column = None if aggregate.column is None else bounds.schema.column(aggregate.column)
    return build_aggregate_prior(aggregate, column, bounds, request.prior, request.tail)


def _plan_unit_query(schema: Schema, query: Query, epsilon: Fraction, request: PlanRequest) -> Plan:
    column = schema.column(query.column or "")
    measurement = build_unit_query(schema, column, epsilon, request.prior, request.distance, request.tail)
    rating = RatedMeasurement(measurement, measurement.expected_error())
    planned = PlannedMeasurements((measurement,), tuple(_list_candidates(column.name, [rating], measurement, schema)))
    return _build_plan(schema, query, epsilon, planned, request)


def _plan_by_noise_scale(query: Query, bounds: ContributionBounds, request: PlanRequest) -> Plan:
    """Noise of a size that is named: Laplace noise by its scale; under approx-dp Gaussian noise by its deviation."""
    if len(query.aggregates) != 1 or query.unit is not None or query.aggregates[0].function not in TOTAL_FUNCTIONS:
        raise InvalidInput("a noise scale is of one count or sum; ask with an epsilon")
    linear_query = build_linear_query(query.aggregates[0], bounds.schema, bounds)
    estimate, component = linear_query.estimate, linear_query.components[0]
    private_keys = any(bounds.schema.column(key.column).private_keys for key in query.keys)
    if not isinstance(estimate, Linear) or private_keys or request.distance is not None:
        raise InvalidInput("a noise scale is of a count or a sum over public keys; ask with an epsilon")
    unit, noise_scale = abs(estimate.slope), request.noise_scale or Fraction(1)
    if request.requested_model != "approx-dp":
        epsilon = component.l1_sensitivity * unit / noise_scale
        request = replace(request, noise_scale=None, epsilon=epsilon)
        return _plan_single_noise(query, bounds, build_laplace(linear_query, epsilon), request)
    rho = request.rho or component.l2_sensitivity_sq * unit**2 / (2 * noise_scale**2)
    if not rho > 0 or component.l2_sensitivity_sq / (2 * rho) > Fraction(MAX_SIGMA) ** 2:
        raise InvalidInput("this noise scale is too large to be drawn; ask with a smaller one")
    return _plan_single_noise(query, bounds, build_gaussian(linear_query, rho), request)


def _plan_single_noise(
    query: Query, bounds: ContributionBounds, measurement: AdditiveNoise, request: PlanRequest
) -> Plan:
    schema, cost, label = bounds.schema, measurement.privacy_cost, _get_label(query, query.aggregates[0])
    public_count = find_public_count(query.aggregates[0], bounds)
    if public_count is not None:
        constant = PublicConstant(public_count)
        free_candidate = Candidate(label, constant.name, _build_dp_guarantee(schema), 0.0, chosen=True)
        planned = PlannedMeasurements((constant,), (free_candidate,))
        return _build_plan(schema, query, Fraction(1), planned, replace(request, delta=None))
    grid_prior = _build_request_prior(query.aggregates[0], bounds, request)
    rows = estimate_rows(bounds, request.expected_rows)
    context = ReadingContext(schema=schema, grid_prior=grid_prior, expected_rows=rows)
    (rating,) = rate_measurements([measurement], context)
    guarantee = _build_dp_guarantee(schema, cost.epsilon)
    if cost.gaussian_rho:
        guarantee = Guarantee.zcdp(cost.gaussian_rho, schema.neighbors, schema.unit_name)
    candidate = Candidate(label, measurement.name, guarantee, rating.expected_error, chosen=True)
    planned = PlannedMeasurements((measurement,), (candidate,), grid_prior, rows)
    epsilon = cost.epsilon or approximate_root(2 * cost.gaussian_rho)
    return _build_plan(schema, query, epsilon, planned, request, guarantee=guarantee, rho=cost.gaussian_rho or None)


def plan_session_counts(schema: Schema, query: Query, scale: Fraction, epsilon: Fraction) -> Plan:
    """Plan a counting question with Laplace noise of a scale, as part of a session that costs epsilon as a whole."""
    query = validate_query(query, schema)
    if query.nesting == "rollup":
        raise Unsupported("a session counts cells, not their totals too; write GROUP BY a, b instead of ROLLUP (a, b)")
    bounds = ContributionBounds(schema, query.where, count_answer_cells(schema, query))
    measurements: list[Measurement] = []
    for place, aggregate in enumerate(query.aggregates):
        if aggregate.function not in {"count", "count_distinct"}:
            raise InvalidInput("a session answers counting questions; ask for the others by themselves")
        linear_query, noise = (
            build_linear_query(aggregate, schema, bounds),
            IndependentNoises((DiscreteLaplace(1 / scale, 1),)),
        )
        cost = compute_pure_cost(linear_query.components[0].l1_sensitivity / scale)
        public_count = find_public_count(aggregate, bounds)
        measurement: Measurement = AdditiveNoise(linear_query, noise, privacy_cost=cost)
        if public_count is not None:
            measurement = PublicConstant(public_count)
        measurements.append(replace(measurement, aggregates=(place,)))
    question_epsilon = min(epsilon, len(measurements) * bounds.l0_bound / scale)
    label = replace(
        _build_dp_guarantee(schema, epsilon),
        assumptions=describe_published(schema, query, measurements, question_epsilon),
    )
    return Plan(schema, query, epsilon, tuple(measurements), None, label, compute_pure_cost(epsilon), None)


def _plan_thresholded(query: Query, bounds: ContributionBounds, epsilon: Fraction, request: PlanRequest) -> Plan:
    """First the keys, then their aggregates; at once where all that is asked is the number of units."""
    schema = bounds.schema
    if request.delta is None:
        name = query.keys[0].column
        raise InvalidInput(f"the values of {name} are not public; to group by it give a delta too, such as 1e-9")
    other_aggregates = tuple(aggregate for aggregate in query.aggregates if not _is_unit_count(aggregate, schema))
    if request.prior is not None and not other_aggregates:
        raise Unsupported("a count of units that chose a key uses no prior; ask for it without one")
    threshold_epsilon = epsilon / 2 if other_aggregates else epsilon
    threshold = Threshold.of(bounds, threshold_epsilon, request.delta)
    planned = PlannedMeasurements(())
    if other_aggregates:
        pure_request = replace(request, delta=None, model="dp")
        planned = _plan_measurements(query, other_aggregates, bounds, epsilon - threshold_epsilon, pure_request)
    unit_counts = [place for place, aggregate in enumerate(query.aggregates) if _is_unit_count(aggregate, schema)]
    measurements = [*planned.measurements, *(ThresholdedCount(threshold, aggregates=(place,)) for place in unit_counts)]
    planned = replace(planned, measurements=tuple(sorted(measurements, key=lambda item: item.aggregates)))
    return _build_plan(schema, query, epsilon, planned, request, threshold)


def _is_unit_count(aggregate: Aggregate, schema: Schema) -> bool:
    is_row_count = aggregate.function == "count" and aggregate.column is None and schema.rows == 1
    return aggregate.where == TRUE and (is_row_count or aggregate.function == "count_distinct")


def _plan_individual_dp(schema: Schema, query: Query, epsilon: Fraction, request: PlanRequest) -> Plan:
    if len(query.aggregates) != 1:
        raise Unsupported("individual-dp answers one order statistic at a time")
    aggregate, bounds = query.aggregates[0], ContributionBounds(schema, query.where, count_answer_cells(schema, query))
    column = schema.column(aggregate.column or "")
    measurement = build_order_statistic(aggregate, column, bounds, epsilon, 16 * MAX_CANDIDATES)
    guarantee = replace(
        measurement.mechanism.cost(),
        unit=schema.unit_name,
        assumptions=describe_published(schema, query, (measurement,), None),
    )
    candidate = Candidate(_get_label(query, aggregate), measurement.name, guarantee, None, chosen=True)
    planned = PlannedMeasurements((measurement,), (candidate,))
    return _build_plan(schema, query, epsilon, planned, request, guarantee=guarantee)


def _build_plan(
    schema: Schema,
    query: Query,
    epsilon: Fraction,
    planned: PlannedMeasurements,
    request: PlanRequest,
    threshold: Threshold | None = None,
    guarantee: Guarantee | None = None,
    rho: Fraction | None = None,
) -> Plan:
    """With the guarantee that its costs imply, unless it has one of its own.

    What was published exactly before stands outside every promise made here, and the guarantee says so.
    """
    cost = planned.cost + (PrivacyCost() if threshold is None else threshold.privacy_cost)
    guarantee = guarantee or _build_guarantee(schema, epsilon, cost, request.delta)
    published_epsilon = guarantee.epsilon if guarantee.model == "dp" else None
    assumptions = describe_published(schema, query, planned.measurements, published_epsilon)
    return Plan(
        schema=schema,
        query=query,
        epsilon=epsilon,
        measurements=planned.measurements,
        threshold=threshold,
        guarantee=replace(guarantee, assumptions=assumptions),
        cost=cost,
        prior=request.prior,
        grid_prior=planned.grid_prior,
        candidates=planned.candidates,
        rho=rho,
        expected_rows=planned.expected_rows,
        target_accuracy=request.target_accuracy,
    )


def _build_guarantee(schema: Schema, epsilon: Fraction, cost: PrivacyCost, delta: Fraction | None) -> Guarantee:
    """Pure where every mechanism is; else (epsilon, delta) as asked, which the costs must not exceed."""
    if delta is None or not (cost.gaussian_rho or cost.delta):
        if cost.epsilon > epsilon:
            raise Internal("a plan costs more than was asked")
        return _build_dp_guarantee(schema, cost.epsilon)
    gaussian_epsilon = compute_implied_epsilon(cost.gaussian_rho, delta) if cost.gaussian_rho else 0
    if cost.epsilon + gaussian_epsilon > epsilon or (cost.gaussian_rho and cost.delta):
        raise Internal("a plan costs more than was asked")
    return Guarantee.approx_dp(epsilon, delta, schema.neighbors, schema.unit_name)


def _build_dp_guarantee(schema: Schema, epsilon: Fraction = Fraction(0)) -> Guarantee:
    return Guarantee.dp(epsilon, schema.neighbors, schema.unit_name)
