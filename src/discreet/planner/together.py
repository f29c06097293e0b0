"""The several counts of one question, measured together where a strategy promises a smaller mean variance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.guarantee import Guarantee
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.planner.estimates import WeightedSum
from discreet.planner.facts import ContributionBounds
from discreet.planner.meaning import Estimator
from discreet.planner.noisy import NOISE_NAMES, AdditiveNoise, Component, LinearQuery, build_laplace
from discreet.planner.plan import Candidate
from discreet.planner.strategy import (
    ASKED_AND_ATOMS,
    ATOMS,
    ATOMS_AND_TOTAL,
    JOINTLY,
    Workload,
    WorkloadStrategy,
    list_workload_strategies,
)
from discreet.query.canonical import simplify_within
from discreet.query.predicate import AllOf, AnyOf, Predicate
from discreet.query.query import Aggregate
from discreet.query.sets import build_whole_domain, complement_condition
from discreet.query.totals import ScanMeasure
from discreet.schema import Schema

MAX_NUMBERS = 2**17
"""Of all cells, totals and counts of a strategy."""
MIN_GAIN_RATIO = 0.999
"""A strategy that is hardly better than a simpler one is not chosen."""
AS_ASKED = "as asked"
STRATEGIES = (AS_ASKED, JOINTLY, ATOMS, ATOMS_AND_TOTAL, ASKED_AND_ATOMS)
STRATEGY_PREFIX = f"{NOISE_NAMES[DiscreteLaplace]} ("


@dataclass(frozen=True, eq=False, slots=True)
class JointCounts:
    """Two or more counts that are not public, what they are called, and the epsilon for all of them."""

    bounds: ContributionBounds
    aggregates: tuple[Aggregate, ...]
    labels: tuple[str, ...]
    epsilon: Fraction

    @property
    def filters(self) -> list[Predicate]:
        """The rows of each count, of those the question is about."""
        return [_build_filter(aggregate, self.bounds.schema) for aggregate in self.aggregates]


@dataclass(frozen=True, eq=False, slots=True)
class JointMeasurements:
    """The measurements of the counts, in order, the zCDP of them all, and what was weighed."""

    measurements: tuple[AdditiveNoise, ...]
    rho: Fraction
    candidates: tuple[Candidate, ...]


def get_single_mechanism(mechanism: str | None) -> str | None:
    """The name of a mechanism that measures one aggregate by itself; None for that of a strategy."""
    return None if mechanism is not None and mechanism.startswith(STRATEGY_PREFIX) else mechanism


def plan_joint_counts(
    counts: JointCounts, separate: Sequence[AdditiveNoise], stored_mechanisms: Sequence[str]
) -> JointMeasurements:
    """The best strategy, where none is better the counts as asked; or the one by which a stored answer was drawn."""
    bounds, share = counts.bounds, counts.epsilon / len(separate)
    errors = {AS_ASKED: [Estimator(option, 1.0).expected_error(None) for option in separate]}
    workload = Workload.of(bounds, counts.filters)
    by_name = {} if workload is None else {option.name: option for option in _select_strategies(counts, workload)}
    errors |= {name: _compute_errors(option, bounds, counts.epsilon) for name, option in by_name.items()}
    chosen_name = (
        stored_mechanisms[0].removeprefix(STRATEGY_PREFIX).removesuffix(")")
        if stored_mechanisms
        else _select_least_error(errors)
    )
    strategy = by_name.get(chosen_name)
    if strategy is None or workload is None:
        return JointMeasurements(
            tuple(separate), len(separate) * share**2 / 2, _list_candidates(counts, errors, AS_ASKED)
        )
    return JointMeasurements(
        _build_measurements(strategy, counts, workload),
        strategy.compute_rho(counts.epsilon),
        _list_candidates(counts, errors, chosen_name),
    )


def _list_candidates(
    counts: JointCounts, errors: Mapping[str, Sequence[float]], chosen_name: str
) -> tuple[Candidate, ...]:
    """What was weighed for each count: as asked at its own share, by a strategy at that of all."""
    schema, separate_epsilon = counts.bounds.schema, counts.epsilon / len(counts.labels)
    separate_cost, joint_cost = (
        Guarantee.dp(cost, schema.neighbours, schema.unit_name) for cost in (separate_epsilon, counts.epsilon)
    )
    return tuple(
        Candidate(label, name, separate_cost if name == AS_ASKED else joint_cost, error[index], name == chosen_name)
        for index, label in enumerate(counts.labels)
        for name, error in errors.items()
    )


def compute_mean_errors(candidates: Sequence[Candidate]) -> dict[str, float]:
    """The root mean square error over the counts, by strategy; nothing where no strategy was weighed."""
    by_strategy: dict[str, list[float]] = {}
    for candidate in candidates:
        if candidate.mechanism in STRATEGIES:
            by_strategy.setdefault(candidate.mechanism, []).append(candidate.expected_error or 0.0)
    return {name: math.sqrt(sum(error**2 for error in errors) / len(errors)) for name, errors in by_strategy.items()}


def _select_strategies(counts: JointCounts, workload: Workload) -> list[WorkloadStrategy]:
    """The strategies there are for these counts; none where there would be too many numbers."""
    cells = counts.bounds.cells or 1
    possible = list_workload_strategies(workload, counts.bounds)
    return [strategy for strategy in possible if cells * len(strategy.totals) * len(counts.aggregates) <= MAX_NUMBERS]


def _select_least_error(errors: Mapping[str, Sequence[float]]) -> str:
    """The least mean variance; of two nearly alike the first."""
    means = {name: sum(error**2 for error in strategy_errors) for name, strategy_errors in errors.items()}
    best = AS_ASKED
    for name, mean in means.items():
        best = name if mean < MIN_GAIN_RATIO * means[best] else best
    return best


def _compute_errors(strategy: WorkloadStrategy, bounds: ContributionBounds, epsilon: Fraction) -> list[float]:
    """The standard deviation of each count."""
    scales = strategy.compute_scales(bounds)
    scale_variances = {scale: DiscreteLaplace(epsilon / scale, 1).variance() for scale in set(scales)}
    variances = [scale_variances[scale] for scale in scales]
    pairs = (zip(row, variances, strict=True) for row in strategy.estimates)
    return [math.sqrt(sum(float(weight) ** 2 * variance for weight, variance in terms if weight)) for terms in pairs]


def _build_measurements(
    strategy: WorkloadStrategy, counts: JointCounts, workload: Workload
) -> tuple[AdditiveNoise, ...]:
    """One for each count, all of one draw."""
    bounds = counts.bounds
    scales = zip(strategy.totals, strategy.compute_scales(bounds), strict=True)
    components = tuple(Component(total, scale, scale**2) for total, scale in scales)
    linear_query = LinearQuery(
        _build_measures(strategy, counts, workload),
        components,
        WeightedSum(()),
        (1,) * len(components),
        bounds.l0_bound,
    )
    joint_measurement = replace(build_laplace(linear_query, counts.epsilon), joint_group=1, strategy=strategy.name)
    return tuple(
        replace(joint_measurement, linear_query=replace(linear_query, estimate=WeightedSum(row)))
        for row in strategy.estimates
    )


def _build_measures(strategy: WorkloadStrategy, counts: JointCounts, workload: Workload) -> tuple[ScanMeasure, ...]:
    """The rows of each count, or of each atom: those of its counts that are of no other."""
    bounds, filters = counts.bounds, counts.filters
    if strategy.measures_atoms:
        sides = [(_negate_predicate(condition, bounds.schema), condition) for condition in filters]
        atoms = workload.matrix.T.tolist()
        filters = [AllOf(tuple(side[member] for side, member in zip(sides, atom, strict=True))) for atom in atoms]
    return tuple(
        ScanMeasure("rows", where=simplify_within(condition, bounds.where, bounds.schema)) for condition in filters
    )


def _build_filter(aggregate: Aggregate, schema: Schema) -> Predicate:
    """The rows of a count: COUNT(x) is of those with a value."""
    if aggregate.column is None:
        return aggregate.where
    return replace(build_whole_domain(schema.column(aggregate.column)), null=False)


def _negate_predicate(predicate: Predicate, schema: Schema) -> Predicate:
    """Of just the other rows."""
    if isinstance(predicate, AllOf | AnyOf):
        kind = AnyOf if isinstance(predicate, AllOf) else AllOf
        return kind(tuple(_negate_predicate(part, schema) for part in predicate.parts))
    return complement_condition(predicate, schema.column(predicate.column))
