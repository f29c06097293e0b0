"""The several counts of one question, measured together where a strategy promises a smaller mean variance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.guarantee import Guarantee
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.planner.estimates import Weighted
from discreet.planner.facts import Facts
from discreet.planner.meaning import Meaning
from discreet.planner.noisy import NAMES, Component, Form, Noisy, laplace
from discreet.planner.plan import Candidate
from discreet.planner.strategy import (
    ASKED_AND_ATOMS,
    ATOMS,
    ATOMS_AND_TOTAL,
    JOINTLY,
    Strategy,
    Workload,
    strategies,
)
from discreet.query.canonical import within
from discreet.query.predicate import All, Predicate, Some
from discreet.query.query import Aggregate
from discreet.query.sets import complement, whole
from discreet.query.totals import Measure
from discreet.schema import Schema

MOST_NUMBERS = 2**17
"""Of all cells, totals and counts of a strategy."""
BETTER = 0.999
"""A strategy that is hardly better than a simpler one is not chosen."""
AS_ASKED = "as asked"
STRATEGIES = (AS_ASKED, JOINTLY, ATOMS, ATOMS_AND_TOTAL, ASKED_AND_ATOMS)
BY = f"{NAMES[DiscreteLaplace]} ("


@dataclass(frozen=True, eq=False, slots=True)
class Counts:
    """Two or more counts that are not public, what they are called, and the epsilon for all of them."""

    facts: Facts
    aggregates: tuple[Aggregate, ...]
    labels: tuple[str, ...]
    epsilon: Fraction

    @property
    def filters(self) -> list[Predicate]:
        """The rows of each count, of those the question is about."""
        return [_filter(one, self.facts.schema) for one in self.aggregates]


@dataclass(frozen=True, eq=False, slots=True)
class Together:
    """The measurements of the counts, in order, the zCDP of them all, and what was weighed."""

    measurements: tuple[Noisy, ...]
    rho: Fraction
    candidates: tuple[Candidate, ...]


def alone(like: str | None) -> str | None:
    """The name of a mechanism that measures one aggregate by itself; None for that of a strategy."""
    return None if like is not None and like.startswith(BY) else like


def together(counts: Counts, asked: Sequence[Noisy], like: Sequence[str]) -> Together:
    """The best strategy, where none is better the counts as asked; or the one by which a stored answer was drawn."""
    facts, share = counts.facts, counts.epsilon / len(asked)
    errors = {AS_ASKED: [Meaning(one, 1.0).expected_error(None) for one in asked]}
    work = Workload.of(facts, counts.filters)
    found = {} if work is None else {one.name: one for one in _weighed(counts, work)}
    errors |= {name: _errors(one, facts, counts.epsilon) for name, one in found.items()}
    taken = like[0].removeprefix(BY).removesuffix(")") if like else _least(errors)
    own = found.get(taken)
    if own is None or work is None:
        return Together(tuple(asked), len(asked) * share**2 / 2, _listed(counts, errors, AS_ASKED))
    return Together(_measurements(own, counts, work), own.rho(counts.epsilon), _listed(counts, errors, taken))


def _listed(counts: Counts, errors: Mapping[str, Sequence[float]], taken: str) -> tuple[Candidate, ...]:
    """What was weighed for each count: as asked at its own share, by a strategy at that of all."""
    schema, own = counts.facts.schema, counts.epsilon / len(counts.labels)
    one, every = (Guarantee.dp(cost, schema.neighbours, schema.unit_name) for cost in (own, counts.epsilon))
    return tuple(
        Candidate(label, name, one if name == AS_ASKED else every, error[at], name == taken)
        for at, label in enumerate(counts.labels)
        for name, error in errors.items()
    )


def mean_errors(candidates: Sequence[Candidate]) -> dict[str, float]:
    """The root mean square error over the counts, by strategy; nothing where no strategy was weighed."""
    found: dict[str, list[float]] = {}
    for one in candidates:
        if one.mechanism in STRATEGIES:
            found.setdefault(one.mechanism, []).append(one.expected_error or 0.0)
    return {name: math.sqrt(sum(error**2 for error in own) / len(own)) for name, own in found.items()}


def _weighed(counts: Counts, work: Workload) -> list[Strategy]:
    """The strategies there are for these counts; none where there would be too many numbers."""
    cells = counts.facts.cells or 1
    found = strategies(work, counts.facts)
    return [one for one in found if cells * len(one.totals) * len(counts.aggregates) <= MOST_NUMBERS]


def _least(errors: Mapping[str, Sequence[float]]) -> str:
    """The least mean variance; of two nearly alike the first."""
    means = {name: sum(error**2 for error in own) for name, own in errors.items()}
    best = AS_ASKED
    for name, mean in means.items():
        best = name if mean < BETTER * means[best] else best
    return best


def _errors(strategy: Strategy, facts: Facts, epsilon: Fraction) -> list[float]:
    """The standard deviation of each count."""
    scales = strategy.scales(facts)
    laws = {scale: DiscreteLaplace(epsilon / scale, 1).variance() for scale in set(scales)}
    variances = [laws[scale] for scale in scales]
    pairs = (zip(row, variances, strict=True) for row in strategy.estimates)
    return [math.sqrt(sum(float(weight) ** 2 * variance for weight, variance in own if weight)) for own in pairs]


def _measurements(strategy: Strategy, counts: Counts, work: Workload) -> tuple[Noisy, ...]:
    """One for each count, all of one draw."""
    facts = counts.facts
    scales = zip(strategy.totals, strategy.scales(facts), strict=True)
    parts = tuple(Component(total, scale, scale**2) for total, scale in scales)
    form = Form(_measures(strategy, counts, work), parts, Weighted(()), (1,) * len(parts), facts.reach)
    drawn = replace(laplace(form, counts.epsilon), together=1, strategy=strategy.name)
    return tuple(replace(drawn, form=replace(form, estimate=Weighted(row))) for row in strategy.estimates)


def _measures(strategy: Strategy, counts: Counts, work: Workload) -> tuple[Measure, ...]:
    """The rows of each count, or of each atom: those of its counts that are of no other."""
    facts, filters = counts.facts, counts.filters
    if strategy.of_atoms:
        sides = [(_negated(own, facts.schema), own) for own in filters]
        atoms = work.held.T.tolist()
        filters = [All(tuple(side[held] for side, held in zip(sides, atom, strict=True))) for atom in atoms]
    return tuple(Measure("rows", where=within(own, facts.where, facts.schema)) for own in filters)


def _filter(aggregate: Aggregate, schema: Schema) -> Predicate:
    """The rows of a count: COUNT(x) is of those with a value."""
    if aggregate.column is None:
        return aggregate.where
    return replace(whole(schema.column(aggregate.column)), null=False)


def _negated(predicate: Predicate, schema: Schema) -> Predicate:
    """Of just the other rows."""
    if isinstance(predicate, All | Some):
        kind = Some if isinstance(predicate, All) else All
        return kind(tuple(_negated(part, schema) for part in predicate.parts))
    return complement(predicate, schema.column(predicate.column))
