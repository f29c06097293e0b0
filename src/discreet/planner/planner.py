"""The choice of a mechanism for each aggregate of a question, from public facts alone: the one of least expected error.

Aggregates that the schema does not make public share epsilon evenly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Unpack, cast

from discreet.errors import Internal, InvalidInput, Unsupported
from discreet.estimation.grid_prior import GridPrior
from discreet.measurements.additive import NOISE_NAMES, AdditiveNoise, build_gaussian, build_laplace
from discreet.measurements.candidate_grid import MAX_CANDIDATES
from discreet.measurements.contribution_bounds import (
    ONE_ROW,
    ContributionBounds,
    ExpectedRows,
    estimate_rows,
    find_coverage,
)
from discreet.measurements.estimator import Estimator
from discreet.measurements.hierarchical import HierarchicalHistogram
from discreet.measurements.point_estimates import Linear
from discreet.measurements.selection import CandidateSelection, Mode, build_selection
from discreet.measurements.threshold import Threshold
from discreet.measurements.trimmed_mean import RankMean, check_better_than_guess
from discreet.measurements.unit_query import UnitQuery, build_order_statistic, build_unit_query
from discreet.mechanisms.discrete_gaussian import MAX_SIGMA, DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.noise import IndependentNoises
from discreet.mechanisms.quantile import Quantile, Quantiles
from discreet.numeric import approximate_root
from discreet.planner.calibrate import find_epsilon, is_accurate_enough
from discreet.planner.candidates import (
    TOTAL_FUNCTIONS,
    TotalMeasurement,
    build_aggregate_prior,
    build_linear_query,
    compute_implied_epsilon,
    find_public_count,
    list_measurements,
    rate_measurements,
    select_best_measurement,
    split_rho,
)
from discreet.planner.hierarchy_plan import check_hierarchical, list_hierarchies
from discreet.planner.options import PlanRequest, QueryKeywords, build_plan_request, build_query_options
from discreet.planner.plan import Candidate, Measurement, Plan, ThresholdedCount, count_answer_cells
from discreet.planner.public_facts import describe_published
from discreet.planner.workload import JointCounts, get_single_mechanism, plan_joint_counts
from discreet.privacy.cost import PrivacyCost
from discreet.privacy.guarantee import Guarantee
from discreet.query.predicates import FALSE, TRUE
from discreet.query.query import Aggregate, Query
from discreet.query.validate import validate_query
from discreet.schema import Schema


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
    query = validate_query(query, schema)
    _check_request(schema, query, request)
    check_hierarchical(schema, query, request)
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
    stored_mechanisms = tuple(measurement.name for measurement in base_plan.measurements)
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
    usable = [
        option
        for option in hierarchies
        if option.measurement is not None and option.name in (request.stored_mechanisms or (option.name,))
    ]
    if not usable:
        return None
    best = min(usable, key=lambda option: option.expected_error)
    label = _get_label(query, query.aggregates[0])
    candidates = tuple(
        Candidate(label, option.name, option.noises.cost(), option.expected_error, option is best)
        for option in hierarchies
    )
    cost = PrivacyCost(gaussian_rho=best.noises.rho) if best.noises.rho else _compute_pure_cost(epsilon)
    rows = estimate_rows(bounds, request.expected_rows)
    return PlannedMeasurements((cast(HierarchicalHistogram, best.measurement),), cost, candidates, None, rows)


def _check_request(schema: Schema, query: Query, request: PlanRequest) -> None:
    """Refuse options that do not go together; pure differential privacy is allowed under every model of a schema."""
    model, delta = request.requested_model, request.delta
    if model not in {"dp", *schema.models}:
        hint = "; leave out delta" if delta is not None else ""
        allowed = ", ".join(dict.fromkeys(("dp", *schema.models)))
        raise InvalidInput(f"{model[:40]} is not allowed for {schema.name}; its models are {allowed}{hint}")
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
    """Measurements with what they cost, what they were chosen from, and what the analyst believes."""

    measurements: tuple[Measurement, ...]
    cost: PrivacyCost
    candidates: tuple[Candidate, ...] = ()
    grid_prior: GridPrior | None = None
    expected_rows: ExpectedRows = ONE_ROW


def _plan_measurements(
    query: Query,
    aggregates: tuple[Aggregate, ...],
    bounds: ContributionBounds,
    epsilon: Fraction,
    request: PlanRequest,
) -> PlannedMeasurements:
    """Each aggregate that is not public already with an even share; totals share one rho where there is a delta."""
    schema, expected_rows = bounds.schema, estimate_rows(bounds, request.expected_rows)
    rows = expected_rows.number
    public = {aggregate: find_public_count(aggregate, schema, bounds) for aggregate in aggregates}
    private = [aggregate for aggregate in aggregates if public[aggregate] is None]
    share = epsilon / max(1, len(private))
    totals = [aggregate for aggregate in private if aggregate.function in TOTAL_FUNCTIONS]
    linear_queries = {aggregate: build_linear_query(aggregate, schema, bounds) for aggregate in totals}
    gaussian_queries = {total: linear_queries[total] for total in totals if _may_be_gaussian(query, total, request)}
    rho, gaussian_aggregates = split_rho(gaussian_queries, share, request.delta)
    measurements, cost, candidates = [], PrivacyCost(), []
    grid_prior: GridPrior | None = None
    for aggregate in aggregates:
        label, stored_mechanism = _get_label(query, aggregate), _get_stored_mechanism(query, aggregate, request)
        measurement: Measurement | None = public[aggregate]
        if aggregate in linear_queries:
            grid_prior = _build_request_prior(aggregate, bounds, request)
        if measurement is not None:
            candidates.append(Candidate(label, measurement.name, _build_dp_guarantee(schema), 0.0, chosen=True))
        elif aggregate in gaussian_aggregates:
            measurement, cost = build_gaussian(linear_queries[aggregate], rho), cost + PrivacyCost(gaussian_rho=rho)
            error = Estimator(measurement, float(rows)).expected_error(grid_prior)
            guarantee = Guarantee.zcdp(rho, schema.neighbors)
            candidates.append(Candidate(label, measurement.name, guarantee, error, chosen=True))
        elif aggregate in linear_queries:
            single_mechanism = get_single_mechanism(stored_mechanism)
            measurement, total_candidates = _select_total(
                aggregate, label, bounds, share, grid_prior, request, rows, single_mechanism
            )
            cost, candidates = cost + _compute_pure_cost(share), candidates + total_candidates
        else:
            measurement, choice_cost = _plan_selection(aggregate, bounds, share, request, stored_mechanism or "")
            cost = cost + choice_cost
            candidates.append(_build_candidate(label, measurement, schema, share))
            rival = measurement.rival
            if rival is not None:  # the error of a mean of ranks depends on the rows, as that of a choice by rank
                candidate = replace(_build_candidate(label, rival, schema, share), chosen=False)
                is_mean = isinstance(rival.mechanism, RankMean)
                candidates.append(replace(candidate, expected_error=None) if is_mean else candidate)
        if isinstance(measurement, AdditiveNoise) and grid_prior is None and not request.stored_mechanisms:
            ranks = measurement.linear_query.ranks
            if ranks is not None:
                check_better_than_guess(ranks, Estimator(measurement, float(rows)).expected_error(None))
        measurements.append(measurement)
    if request.interval and linear_queries:
        raise InvalidInput(
            "an interval is drawn for quantiles; the other answers have one of their own, so leave it out"
        )
    planned_separately = PlannedMeasurements(tuple(measurements), cost, tuple(candidates), grid_prior, expected_rows)
    return _plan_jointly(query, aggregates, planned_separately, bounds, share, request)


def _get_stored_mechanism(query: Query, aggregate: Aggregate, request: PlanRequest) -> str | None:
    """The mechanism that a stored answer drew an aggregate by; None where no stored answer is read."""
    return request.stored_mechanisms[query.aggregates.index(aggregate)] if request.stored_mechanisms else None


def _may_be_gaussian(query: Query, aggregate: Aggregate, request: PlanRequest) -> bool:
    """Whether a total may get Gaussian noise: where a stored answer is read, if it has it there."""
    stored_mechanism = _get_stored_mechanism(query, aggregate, request)
    return stored_mechanism is None or NOISE_NAMES[DiscreteGaussian] in stored_mechanism


def _plan_jointly(
    query: Query,
    aggregates: tuple[Aggregate, ...],
    planned: PlannedMeasurements,
    bounds: ContributionBounds,
    share: Fraction,
    request: PlanRequest,
) -> PlannedMeasurements:
    """The counts with all their shares at once, where two or more have pure noise and no prior is at work."""
    pairs = [*zip(aggregates, planned.measurements, strict=True)]
    noises = {item: noise for item, noise in pairs if item.function == "count" and isinstance(noise, AdditiveNoise)}
    if len(noises) < 2 or request.delta is not None or request.prior is not None:
        return planned
    labels = tuple(_get_label(query, count) for count in noises)
    stored_mechanisms = [_get_stored_mechanism(query, count, request) for count in noises]
    joint_counts = JointCounts(bounds, tuple(noises), labels, share * len(noises))
    joint = plan_joint_counts(joint_counts, tuple(noises.values()), [name for name in stored_mechanisms if name])
    joint_measurements = dict(zip(noises, joint.measurements, strict=True))
    candidates = [entry for entry in planned.candidates if entry.aggregate not in labels] + [*joint.candidates]
    order = [_get_label(query, aggregate) for aggregate in aggregates]
    return replace(
        planned,
        measurements=tuple(joint_measurements.get(aggregate, measurement) for aggregate, measurement in pairs),
        cost=replace(planned.cost, rho=planned.cost.rho - len(joint_measurements) * share**2 / 2 + joint.rho),
        candidates=tuple(sorted(candidates, key=lambda entry: order.index(entry.aggregate))),
    )


def _get_label(query: Query, aggregate: Aggregate) -> str:
    index, outputs = query.aggregates.index(aggregate), query.presentation.outputs
    return next((output.label for output in outputs if output.aggregate == index), aggregate.function)


def _build_request_prior(aggregate: Aggregate, bounds: ContributionBounds, request: PlanRequest) -> GridPrior | None:
    column = None if aggregate.column is None else bounds.schema.column(aggregate.column)
    return build_aggregate_prior(aggregate, column, bounds, request.prior, request.tail)


def _select_total(
    aggregate: Aggregate,
    label: str,
    bounds: ContributionBounds,
    epsilon: Fraction,
    grid_prior: GridPrior | None,
    request: PlanRequest,
    rows: int,
    stored_mechanism: str | None,
) -> tuple[TotalMeasurement, list[Candidate]]:
    """The best of the mechanisms for a total; with an accuracy, of those that are as near as asked."""
    column = None if aggregate.column is None else bounds.schema.column(aggregate.column)
    measurements = list_measurements(aggregate, column, bounds, epsilon, grid_prior, request.distance)
    if stored_mechanism is not None:
        measurements = tuple(measurement for measurement in measurements if measurement.name == stored_mechanism)
    ratings, accuracy = rate_measurements(measurements, grid_prior, rows), request.target_accuracy
    accurate = [
        rating
        for rating in ratings
        if accuracy is None or is_accurate_enough(rating.measurement, accuracy, bounds, rows)
    ]
    best = select_best_measurement(accurate, grid_prior, rows).measurement
    cost = _build_dp_guarantee(bounds.schema, epsilon)
    candidates = [
        Candidate(label, rating.measurement.name, cost, rating.expected_error, rating.measurement is best)
        for rating in ratings
    ]
    return best, candidates


def _build_candidate(
    label: str, measurement: CandidateSelection | UnitQuery, schema: Schema, epsilon: Fraction
) -> Candidate:
    cost = _build_dp_guarantee(schema, epsilon)
    return Candidate(label, measurement.name, cost, measurement.expected_error(), chosen=True)


def _plan_selection(
    aggregate: Aggregate, bounds: ContributionBounds, epsilon: Fraction, request: PlanRequest, stored_mechanism: str
) -> tuple[CandidateSelection, PrivacyCost]:
    column = bounds.schema.column(aggregate.column or "")
    selection_options = request.prior, request.distance, request.interval, stored_mechanism, request.tail
    selection = build_selection(aggregate, column, bounds, epsilon, *selection_options)
    # The losses of the exponential mechanism span epsilon only, hence a quarter of the rho (selection.md).
    is_exponential = request.prior is not None and isinstance(selection.mechanism, Quantile | Quantiles | Mode)
    if is_exponential and not request.interval:
        return selection, PrivacyCost(epsilon, epsilon**2 / 8)
    return selection, _compute_pure_cost(epsilon)


def _plan_unit_query(schema: Schema, query: Query, epsilon: Fraction, request: PlanRequest) -> Plan:
    column = schema.column(query.column or "")
    measurement = build_unit_query(schema, column, epsilon, request.prior, request.distance, request.tail)
    candidate = _build_candidate(column.name, measurement, schema, epsilon)
    planned = PlannedMeasurements((measurement,), _compute_pure_cost(epsilon), (candidate,))
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
        return _plan_single_noise(
            query, bounds, build_laplace(linear_query, epsilon), _compute_pure_cost(epsilon), request
        )
    rho = request.rho or component.l2_sensitivity_sq * unit**2 / (2 * noise_scale**2)
    if not rho > 0 or component.l2_sensitivity_sq / (2 * rho) > Fraction(MAX_SIGMA) ** 2:
        raise InvalidInput("this noise scale is too large to be drawn; ask with a smaller one")
    return _plan_single_noise(query, bounds, build_gaussian(linear_query, rho), PrivacyCost(gaussian_rho=rho), request)


def _plan_single_noise(
    query: Query, bounds: ContributionBounds, measurement: AdditiveNoise, cost: PrivacyCost, request: PlanRequest
) -> Plan:
    schema, rho, label = bounds.schema, cost.gaussian_rho, _get_label(query, query.aggregates[0])
    public_count = find_public_count(query.aggregates[0], schema, bounds)
    if public_count is not None:
        free_candidate = Candidate(label, public_count.name, _build_dp_guarantee(schema), 0.0, chosen=True)
        planned = PlannedMeasurements((public_count,), PrivacyCost(), (free_candidate,))
        return _build_plan(schema, query, Fraction(1), planned, replace(request, delta=None))
    grid_prior = _build_request_prior(query.aggregates[0], bounds, request)
    rows = estimate_rows(bounds, request.expected_rows)
    error = Estimator(measurement, float(rows.number)).expected_error(grid_prior)
    guarantee = _build_dp_guarantee(schema, cost.epsilon)
    if rho:
        guarantee = Guarantee.zcdp(rho, schema.neighbors, schema.unit_name)
    candidate = Candidate(label, measurement.name, guarantee, error, chosen=True)
    planned = PlannedMeasurements((measurement,), cost, (candidate,), grid_prior, rows)
    epsilon = cost.epsilon or approximate_root(2 * rho)
    return _build_plan(schema, query, epsilon, planned, request, guarantee=guarantee, rho=rho or None)


def plan_session_counts(schema: Schema, query: Query, scale: Fraction, epsilon: Fraction) -> Plan:
    """Plan a counting question with Laplace noise of a scale, as part of a session that costs epsilon as a whole."""
    query = validate_query(query, schema)
    if query.nesting == "rollup":
        raise Unsupported("a session counts cells, not their totals too; write GROUP BY a, b instead of ROLLUP (a, b)")
    bounds = ContributionBounds(schema, query.where, count_answer_cells(schema, query))
    measurements: list[Measurement] = []
    for aggregate in query.aggregates:
        if aggregate.function not in {"count", "count_distinct"}:
            raise InvalidInput("a session answers counting questions; ask for the others by themselves")
        noise = IndependentNoises((DiscreteLaplace(1 / scale, 1),))
        public_count = find_public_count(aggregate, schema, bounds)
        measurements.append(public_count or AdditiveNoise(build_linear_query(aggregate, schema, bounds), noise))
    question_epsilon = min(epsilon, len(measurements) * bounds.l0_bound / scale)
    label = replace(
        _build_dp_guarantee(schema, epsilon),
        assumptions=describe_published(schema, query, measurements, question_epsilon),
    )
    return Plan(schema, query, epsilon, tuple(measurements), None, label, _compute_pure_cost(epsilon), None)


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
    planned = PlannedMeasurements((), PrivacyCost())
    if other_aggregates:
        pure_request = replace(request, delta=None, model="dp")
        planned = _plan_measurements(query, other_aggregates, bounds, epsilon - threshold_epsilon, pure_request)
    others = iter(planned.measurements)
    measurements = tuple(
        ThresholdedCount(threshold) if _is_unit_count(aggregate, schema) else next(others)
        for aggregate in query.aggregates
    )
    cost = planned.cost + replace(_compute_pure_cost(threshold_epsilon), delta=request.delta)
    planned = replace(planned, measurements=measurements, cost=cost)
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
    planned = PlannedMeasurements((measurement,), _compute_pure_cost(epsilon), (candidate,))
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
    guarantee = guarantee or _build_guarantee(schema, epsilon, planned.cost, request.delta)
    published_epsilon = guarantee.epsilon if guarantee.model == "dp" else None
    assumptions = describe_published(schema, query, planned.measurements, published_epsilon)
    return Plan(
        schema=schema,
        query=query,
        epsilon=epsilon,
        measurements=planned.measurements,
        threshold=threshold,
        guarantee=replace(guarantee, assumptions=assumptions),
        cost=planned.cost,
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
        return _build_dp_guarantee(schema, cost.epsilon)
    gaussian_epsilon = compute_implied_epsilon(cost.gaussian_rho, delta) if cost.gaussian_rho else 0
    if cost.epsilon + gaussian_epsilon > epsilon or (cost.gaussian_rho and cost.delta):
        raise Internal("a plan costs more than was asked")
    return Guarantee.approx_dp(epsilon, delta, schema.neighbors, schema.unit_name)


def _build_dp_guarantee(schema: Schema, epsilon: Fraction = Fraction(0)) -> Guarantee:
    return Guarantee.dp(epsilon, schema.neighbors, schema.unit_name)


def _compute_pure_cost(epsilon: Fraction) -> PrivacyCost:
    return PrivacyCost(epsilon, epsilon**2 / 2)
