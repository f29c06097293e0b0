"""Which counts a session has answered, and whether it can answer more: Protocol 1 of document 000. Proof: joint.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.errors import BudgetExceeded, Unsupported
from discreet.formatting import format_budget_left, format_cost, format_upper, round_up
from discreet.planner.asked import MIN_QUERY_EPSILON
from discreet.planner.atoms import CountQuery
from discreet.planner.joint import WorstCase, find_worst_case
from discreet.planner.noisy import AdditiveNoise
from discreet.planner.plan import Plan
from discreet.query.predicate import TRUE, AllOf
from discreet.query.query import Aggregate, Query
from discreet.query.sets import build_whole_domain
from discreet.schema import Schema

MAX_SCALE_TRIES = 16
SCALE_DIGITS = 4


@dataclass(frozen=True, eq=False, slots=True)
class SessionBudget:
    """The counts answered so far; their joint sensitivity, in units of their scales, is `spent`: at most epsilon."""

    schema: Schema
    epsilon: Fraction
    counts: tuple[CountQuery, ...] = ()
    spent: Fraction = Fraction(0)

    @property
    def remaining(self) -> Fraction:
        """What no answer has used yet; a question can cost less than it would alone, and often nothing."""
        return self.epsilon - self.spent

    def add_counts(self, new_counts: Sequence[CountQuery]) -> SessionBudget:
        """With the counts of one more question; refused, from predicates and scales alone, where they do not fit."""
        joint_epsilon = self._find_worst_case(new_counts).value
        if joint_epsilon <= self.epsilon:
            return replace(self, counts=(*self.counts, *new_counts), spent=joint_epsilon)
        raise BudgetExceeded(
            f"with this question the answers of the session come to epsilon {format_upper(joint_epsilon)} "
            "together, and it "
            f"has {format_budget_left(self.epsilon)}; {self._advise_scale(new_counts)}"
        )

    def find_min_scale(self, new_counts: Sequence[CountQuery]) -> Fraction | None:
        """The least noise scale at which a question fits, rounded up to four digits; None where none is found.

        In 1 / scale what the answers come to is a largest of straight lines, and `worst` tells the line: Newton's
        method reaches the least scale in as many steps as there are lines, at most.
        """
        for _ in range(MAX_SCALE_TRIES):
            worst_case = self._find_worst_case(new_counts)
            if worst_case.value <= self.epsilon:
                return round_up(new_counts[0].scale, SCALE_DIGITS)
            earlier_changes, new_changes = (
                worst_case.changes[: len(self.counts)],
                sum(worst_case.changes[len(self.counts) :]),
            )
            room = self.epsilon - sum(
                change / count.scale for change, count in zip(earlier_changes, self.counts, strict=True)
            )
            if room <= 0 or not new_changes:
                return None
            new_counts = [replace(count, scale=new_changes / room) for count in new_counts]
        return None

    def _find_worst_case(self, new_counts: Sequence[CountQuery]) -> WorstCase:
        return find_worst_case(self.schema, [*self.counts, *new_counts], self.schema.neighbours, self.schema.rows)

    def _advise_scale(self, new_counts: Sequence[CountQuery]) -> str:
        min_scale = self.find_min_scale(new_counts)
        if min_scale is None or min_scale * MIN_QUERY_EPSILON > 1:
            return "it fits at no noise scale, so ask about other rows or open another session"
        return f"ask it with a noise scale of at least {format_cost(min_scale)}"


def list_noisy_counts(plan: Plan, scale: Fraction) -> list[CountQuery]:
    """The counts that a counting question asks for with noise; not those that the schema makes public."""
    pairs = zip(plan.query.aggregates, plan.measurements, strict=True)
    return [
        build_count_query(aggregate, plan.query, plan.schema, scale)
        for aggregate, measurement in pairs
        if isinstance(measurement, AdditiveNoise)
    ]


def build_count_query(aggregate: Aggregate, query: Query, schema: Schema, scale: Fraction) -> CountQuery:
    """COUNT(x) is of the rows with a value; units are rows where each has one."""
    if aggregate.function == "count_distinct" and schema.rows > 1:
        raise Unsupported(
            f"a session counts rows, and {schema.name} may have several rows of one unit; ask for units outside it"
        )
    if aggregate.column is None:
        both = AllOf((query.where, aggregate.where))
        return CountQuery(query.where if aggregate.where == TRUE else both, scale, query.keys)
    present = replace(build_whole_domain(schema.column(aggregate.column)), null=False)
    return CountQuery(AllOf((query.where, present)), scale, query.keys)
