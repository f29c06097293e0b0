"""What one measurement's draw says: its value, interval, and what it means to someone who held a prior.

Post-processing: it sees the plan and what was released, never a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import cast

from discreet.answer import Interval
from discreet.errors import Internal
from discreet.planner.chosen import Chosen
from discreet.planner.individual import AboutOne
from discreet.planner.meaning import Meaning
from discreet.planner.nested import Nested
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Counted, Known, Plan
from discreet.planner.refined import RefinedTotal
from discreet.posterior import Posterior
from discreet.schema.column import Value

SURPRISING = 0.005
"""On either side: an answer in the 1 % tails of what the prior predicts."""
BRACKETED = 0.95
Drawn = tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Reader:
    """Reads the draws of one plan; what is worked out for one cell serves the others."""

    plan: Plan
    _meanings: dict[int, Meaning] = field(default_factory=dict)
    _laws: dict[tuple[int, Drawn], Posterior | None] = field(default_factory=dict)

    def _meaning(self, at: int, one: Noisy) -> Meaning:
        if at not in self._meanings:
            self._meanings[at] = self.plan.meaning(one)
        return self._meanings[at]

    def values(self, at: int, drawn: Drawn) -> Sequence[Value]:
        """The value, or for several quantiles the values, of one measurement."""
        one = self.plan.measurements[at]
        if isinstance(one, Known):
            return (one.value,)
        if isinstance(one, Counted):
            return (drawn[0],)
        if isinstance(one, Noisy):
            return (self._meaning(at, one).raw(drawn, self.plan.belief),)
        if isinstance(one, Nested):
            raise Internal("nested counts are read together, not one by one")
        return (one.value(drawn),) if isinstance(one, RefinedTotal) else one.values(drawn)

    def shown_span(self, at: int, drawn: Drawn, confidence: float) -> Interval:
        """Where the exact number lies with at least this probability, of a row that is shown.

        Where rows are chosen by their noisy numbers, the intervals of all rows hold at once, so that they are wider.
        """
        if isinstance(self.plan.measurements[at], Known):
            return self.span(at, drawn, confidence)
        each = self.plan.coverage.each(confidence)
        return None if each is None else self.span(at, drawn, each)

    def span(self, at: int, drawn: Drawn, confidence: float) -> Interval:
        """The same of a number by itself, of a row not chosen by it; None where it cannot be said in values."""
        one = self.plan.measurements[at]
        if isinstance(one, Known):
            return float(one.value), float(one.value)
        if isinstance(one, Counted):
            reach = one.threshold.noise.interval(confidence)[1]
            least = drawn[0] - reach
            # A small key that is shown owes it to its noise: near the threshold only the upper end says anything.
            return (least if least > one.threshold.least else 1.0), drawn[0] + reach
        if isinstance(one, Noisy):
            return self._meaning(at, one).interval(drawn, confidence)
        if isinstance(one, Chosen) and confidence <= BRACKETED:
            return _numbers(one.bracket(drawn))
        return None

    def posterior(self, at: int, drawn: Drawn) -> Posterior | None:
        """What someone who held the prior knows now; None without a prior, or where the law is not public."""
        if (at, drawn) not in self._laws:
            self._laws[at, drawn] = self._posterior(at, drawn)
        return self._laws[at, drawn]

    def _posterior(self, at: int, drawn: Drawn) -> Posterior | None:
        one, belief = self.plan.measurements[at], self.plan.belief
        if isinstance(one, Noisy):
            return None if belief is None else self._meaning(at, one).posterior(belief, drawn)
        return one.posterior(drawn) if isinstance(one, RefinedTotal | Chosen | AboutOne) else None

    def before(self, at: int) -> Posterior | None:
        """The prior, as it was stated."""
        one, belief = self.plan.measurements[at], self.plan.belief
        if isinstance(one, Noisy):
            return None if belief is None else belief.cells().before()
        return one.before() if isinstance(one, RefinedTotal | Chosen | AboutOne) else None

    def around(self, at: int, drawn: Drawn) -> Posterior | None:
        """The noise law about the raw answer."""
        one = self.plan.measurements[at]
        return self._meaning(at, one).around(drawn) if isinstance(one, Noisy) else None

    def pictured(self, at: int) -> bool:
        """Whether there is a law to show."""
        one = self.plan.measurements[at]
        return isinstance(one, Noisy | RefinedTotal | AboutOne) or (
            isinstance(one, Chosen) and one.before() is not None
        )

    def surprising(self, at: int, drawn: Drawn) -> bool:
        """Whether the raw answer lies in the 1 % tails of what the prior predicts."""
        one, belief = self.plan.measurements[at], self.plan.belief
        if isinstance(one, Chosen):
            return one.surprising(drawn, SURPRISING)
        if belief is None or not isinstance(one, Noisy):
            return False
        return self._meaning(at, one).surprise(belief, drawn) < SURPRISING


def _numbers(ends: tuple[Value, Value] | None) -> Interval:
    """Two ends as they leave: numbers as floats, the rest as it is."""
    if ends is None:
        return None
    low, high = ends
    if isinstance(low, str | date) or isinstance(high, str | date):
        return cast("Interval", ends)
    return float(low), float(high)
