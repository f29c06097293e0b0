"""What is asked of one person, and individual DP: both need the custodian's word, and both are labelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.distance import Distance
from discreet.errors import InvalidInput, Unsupported
from discreet.formatting import format_number
from discreet.inference.belief import PriorUse
from discreet.kernel.individual import IndividualOrderStatistic
from discreet.kernel.order_statistic import Statistic
from discreet.planner.chosen import default_distance, refinement_name, resolve_distance, whose
from discreet.planner.facts import Facts
from discreet.planner.given import even, in_narrower_bins, on_positions
from discreet.planner.positions import MOST_CANDIDATES, Candidates, Refined
from discreet.posterior import Posterior
from discreet.prior import Prior
from discreet.query.query import Aggregate
from discreet.schema import Column, Schema
from discreet.schema.column import Value

MOST_ROWS = 10**8
WHATS: dict[str, Statistic] = {"min": "min", "max": "max", "second_max": "second max"}


@dataclass(frozen=True, eq=False, slots=True)
class AboutOne:
    """One person's value: a draw from a prior, moved towards the truth; an absent person's is the prior."""

    candidates: Candidates
    refined: Refined
    even: bool
    name: str
    use: PriorUse | None = None
    """How the analyst's prior was used; None where she states none."""

    @property
    def uses_prior(self) -> bool:
        """Whether it is the analyst's prior that shapes the answer, and not an even one."""
        return not self.even

    @property
    def distance_name(self) -> str:
        """The distance that shaped the answer, for its name in the store."""
        return self.refined.distance_name

    def truth(self, code: int | None) -> int | None:
        """The position that the draw is moved towards; none where the person is absent. Secret."""
        return None if code is None else (code - self.candidates.column.lower) // self.candidates.width

    def release(self, code: int | None) -> tuple[int, ...]:
        """A position."""
        return (self.refined.draw(self.truth(code)),)

    def values(self, released: Sequence[int]) -> tuple[Value, ...]:
        """What the position stands for."""
        return tuple(self.candidates.value(position) for position in released)

    def expected_error(self) -> float | None:
        """The root mean square error of the refined value, for someone whose prior is right, of a person present."""
        return self.refined.expected_error()

    def before(self) -> Posterior:
        """The prior in units of the answer."""
        return self.refined.before()

    def posterior(self, released: Sequence[int]) -> Posterior | None:
        """What is known after the draw, of a person present."""
        return self.refined.posterior(released[0])

    def words(self, confidence: float, likely: str = "") -> str:  # noqa: ARG002 (nothing more can be said at any confidence)
        """What may be said of it without looking."""
        return f"a draw from {whose(self.even)} prior, moved towards the truth; an absent person's is the prior itself"


def about_one(
    schema: Schema,
    column: Column,
    epsilon: Fraction,
    prior: str | Prior | None,
    distance: Distance | str | None = None,
    tail: bool | None = None,
) -> AboutOne:
    """Refinement of the prior given, or of an even one over the column's public domain."""
    if column.private_keys:
        raise Unsupported(f"{column.name} has no public domain, so no prior; it cannot be asked of one person")
    candidates = Candidates.of(column, MOST_CANDIDATES)
    own = default_distance(column) if distance is None else resolve_distance(column, distance)
    bins, name = (column, candidates.width, candidates.count), refinement_name(prior is None, distance)
    placed = even(*bins) if prior is None else on_positions(*bins, prior, tail)
    use = None if prior is None else placed.use
    if prior is not None and not column.categories:
        near = _between(column, int(placed.lows[0]), int(placed.lows[-1] + placed.spans[-1]) - 1)
        if near.width < candidates.width:
            candidates = near
            placed = in_narrower_bins(placed, near.column, near.width, near.count, prior, tail)
    refined = Refined.of(candidates, placed, epsilon, "individual", schema.neighbours, own)
    return AboutOne(refined.candidates, refined, prior is None, name, use)


def _between(column: Column, low: int, high: int) -> Candidates:
    """Candidates from the lowest code that a prior holds possible to the highest: narrower than those of all codes.

    A truth beyond them has a position before the first or after the last, as far away as it is.
    """
    return Candidates.of(replace(column, lower=low, upper=high, missing=None), MOST_CANDIDATES)


@dataclass(frozen=True, eq=False, slots=True)
class OrderStatistic:
    """An order statistic with noise at its local sensitivity: individual DP, weaker than DP."""

    candidates: Candidates
    mechanism: IndividualOrderStatistic
    rows: int
    name: str = "discrete Laplace at the local sensitivity"

    def entering(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """As many positions as rows are declared, the first standing in for what is not there. Secret."""
        present = np.repeat(np.arange(self.candidates.count), counts)[: self.rows]
        return np.concatenate((np.zeros(self.rows - len(present), dtype=np.int64), present))

    def release(self, counts: NDArray[np.int64]) -> tuple[int, ...]:
        """A position."""
        return (int(self.mechanism.answer(self.entering(counts))),)

    def values(self, released: tuple[int, ...]) -> tuple[Value, ...]:
        """What the position stands for."""
        return tuple(self.candidates.value(position) for position in released)

    def words(self, confidence: float, likely: str = "") -> str:  # noqa: ARG002 (its noise follows the data and is never told)
        """What may be said of it without looking: the floor under its noise, which is public."""
        vector, unit = self.mechanism.vector, self.candidates.width * float(self.candidates.column.step)
        floor = format_number(float(vector.grid.width / vector.floor) * unit)
        return f"its noise follows the data and is not told; its scale is at least {floor}, whatever the data"


def order_statistic(aggregate: Aggregate, column: Column, facts: Facts, epsilon: Fraction, most: int) -> OrderStatistic:
    """For medians, other quantiles and extremes of a whole column, none missing, under replace-one."""
    what: Statistic | None = WHATS.get(aggregate.function)
    if aggregate.function == "quantile" and len(aggregate.orders) == 1:
        what = "median" if aggregate.orders[0] == Fraction(1, 2) else ("quantile", aggregate.orders[0])
    if what is None:
        raise InvalidInput("individual-dp answers MEDIAN, QUANTILE with one order, MIN, MAX and SECOND_MAX")
    rows = facts.known_rows(column)
    if rows is None:
        needs = "replace-one, one row per unit, no filter, no groups, none missing"
        raise Unsupported(f"individual-dp needs a public number of values: {needs}")
    if rows > MOST_ROWS:
        raise Unsupported(f"individual-dp is offered for at most {MOST_ROWS:,} rows")
    if column.size > most:
        raise Unsupported(f"individual-dp is offered for columns of at most {most:,} values; declare a coarser step")
    candidates = Candidates.of(column, most)
    return OrderStatistic(candidates, IndividualOrderStatistic(what, 0, candidates.count - 1, epsilon), rows)
