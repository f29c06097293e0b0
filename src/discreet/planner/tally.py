"""Which counts a session has answered, and whether it can answer more: Protocol 1 of document 000. Proof: joint.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.errors import BudgetExceeded, Unsupported
from discreet.formatting import format_cost, format_left, format_upper, round_up
from discreet.planner.asked import LEAST
from discreet.planner.atoms import Count
from discreet.planner.joint import Worst, worst
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Plan
from discreet.query.predicate import TRUE, All
from discreet.query.query import Aggregate, Query
from discreet.query.sets import whole
from discreet.schema import Schema

TRIES = 16
DIGITS = 4


@dataclass(frozen=True, eq=False, slots=True)
class Tally:
    """The counts answered so far; their joint sensitivity, in units of their scales, is `spent`: at most epsilon."""

    schema: Schema
    epsilon: Fraction
    counts: tuple[Count, ...] = ()
    spent: Fraction = Fraction(0)

    @property
    def left(self) -> Fraction:
        """What no answer has used yet; a question can cost less than it would alone, and often nothing."""
        return self.epsilon - self.spent

    def plus(self, more: Sequence[Count]) -> Tally:
        """With the counts of one more question; refused, from predicates and scales alone, where they do not fit."""
        together = self._worst(more).value
        if together <= self.epsilon:
            return replace(self, counts=(*self.counts, *more), spent=together)
        raise BudgetExceeded(
            f"with this question the answers of the session come to epsilon {format_upper(together)} together, and it "
            f"has {format_left(self.epsilon)}; {self._fitting(more)}"
        )

    def least_scale(self, more: Sequence[Count]) -> Fraction | None:
        """The least noise scale at which a question fits, rounded up to four digits; None where none is found.

        In 1 / scale what the answers come to is a largest of straight lines, and `worst` tells the line: Newton's
        method reaches the least scale in as many steps as there are lines, at most.
        """
        for _ in range(TRIES):
            found = self._worst(more)
            if found.value <= self.epsilon:
                return round_up(more[0].scale, DIGITS)
            before, new = found.changes[: len(self.counts)], sum(found.changes[len(self.counts) :])
            room = self.epsilon - sum(change / one.scale for change, one in zip(before, self.counts, strict=True))
            if room <= 0 or not new:
                return None
            more = [replace(one, scale=new / room) for one in more]
        return None

    def _worst(self, more: Sequence[Count]) -> Worst:
        return worst(self.schema, [*self.counts, *more], self.schema.neighbours, self.schema.rows)

    def _fitting(self, more: Sequence[Count]) -> str:
        least = self.least_scale(more)
        if least is None or least * LEAST > 1:
            return "it fits at no noise scale, so ask about other rows or open another session"
        return f"ask it with a noise scale of at least {format_cost(least)}"


def counts_of(plan: Plan, scale: Fraction) -> list[Count]:
    """The counts that a counting question asks for with noise; not those that the schema makes public."""
    pairs = zip(plan.query.aggregates, plan.measurements, strict=True)
    return [count_of(one, plan.query, plan.schema, scale) for one, measured in pairs if isinstance(measured, Noisy)]


def count_of(aggregate: Aggregate, query: Query, schema: Schema, scale: Fraction) -> Count:
    """COUNT(x) is of the rows with a value; units are rows where each has one."""
    if aggregate.function == "count_distinct" and schema.rows > 1:
        raise Unsupported(
            f"a session counts rows, and {schema.name} may have several rows of one unit; ask for units outside it"
        )
    if aggregate.column is None:
        both = All((query.where, aggregate.where))
        return Count(query.where if aggregate.where == TRUE else both, scale, query.keys)
    present = replace(whole(schema.column(aggregate.column)), null=False)
    return Count(All((query.where, present)), scale, query.keys)
