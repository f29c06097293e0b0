"""The mechanisms that can answer a total, and the best of them for what the analyst believes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.distance import Distance
from discreet.errors import InvalidInput, Unsupported
from discreet.inference.belief import Belief, believed
from discreet.planner.chosen import resolve_distance
from discreet.planner.estimates import Linear
from discreet.planner.facts import Facts
from discreet.planner.meaning import Meaning
from discreet.planner.noisy import Form, Noisy, forms, laplace, staircase
from discreet.planner.ranks import trimmed
from discreet.planner.refined import RefinedTotal, refined_total
from discreet.prior import Prior
from discreet.query.query import Aggregate
from discreet.schema import Column

Total = Noisy | RefinedTotal
NUMBER = Column("a number", "number")
UNBOUNDED = 2**40
FINEST = 2**40
MEANS = {"avg", "trimmed_mean"}
BETTER = 0.97
"""A mechanism that is the best for one prior alone must be better by this, so that one draw serves all priors."""
WITHIN_REACH = 1.0
"""Refinement can only be better where the prior is narrower than the noise: tests show where the two cross."""


@dataclass(frozen=True, slots=True)
class Option:
    """A mechanism and the root mean square error of the refined value."""

    measurement: Total
    expected_error: float


def belief_of(
    aggregate: Aggregate, column: Column | None, facts: Facts, prior: str | Prior | None, tail: bool | None = None
) -> Belief | None:
    """The analyst's prior over what the aggregate can be, from public facts."""
    if prior is None:
        return None
    schema = facts.schema
    rows = UNBOUNDED if schema.units is None else schema.units * schema.rows
    what = aggregate.function.upper().replace("_", " ") + ("" if column is None else f" of {column.name}")
    low, high, step = _range(aggregate, column, facts, rows)
    known = facts.known_rows(column) if aggregate.function in MEANS else None
    once = None if column is None or known is None else column.step / known
    dense = aggregate.function not in {"count", "count_distinct", "sum"} and once is None
    return believed(prior, low, high, step, what, tail, dense, once)


def _range(aggregate: Aggregate, column: Column | None, facts: Facts, rows: int) -> tuple[Fraction, Fraction, Fraction]:
    if aggregate.function in {"count", "count_distinct"} or column is None:
        return Fraction(0), Fraction(rows), Fraction(1)
    low, high, step = column.lower * column.step, column.upper * column.step, column.step
    known = facts.known_rows(column)
    if aggregate.function == "sum":
        least, most = (known * low, known * high) if known is not None else (Fraction(0), Fraction(0))
        if known is None:
            least, most = rows * min(low, Fraction(0)), rows * max(high, Fraction(0))
        return least, max(most, least + step), step
    width = max(high - low, step)
    if aggregate.function in MEANS:
        return low, low + width, width / FINEST if known is None else _step_of_means(aggregate, column, facts, known)
    largest = width**2 / 2
    root = Fraction(math.isqrt(math.ceil(largest * 2**20)) + 1, 2**10)
    return (
        (Fraction(0), root, root / FINEST)
        if aggregate.function == "stddev"
        else (Fraction(0), largest, largest / FINEST)
    )


def _step_of_means(aggregate: Aggregate, column: Column, facts: Facts, rows: int) -> Fraction:
    """How far apart the means of a public number of rows are, or of their ranks: a sum of codes over how many they are.

    Of ranks in wide bins it is half of that, since a bin stands for its middle (ranks.md).
    """
    if aggregate.function == "avg":
        return column.step / rows
    ranks = trimmed(aggregate, column, facts)
    return column.step / (ranks.count if ranks.candidates.width == 1 else 2 * ranks.count)


def options(
    aggregate: Aggregate,
    column: Column | None,
    facts: Facts,
    epsilon: Fraction,
    belief: Belief | None,
    distance: Distance | str | None,
) -> tuple[Total, ...]:
    """What could answer: noise of every fitting law; refinement where it may win, or where a distance asks for it."""
    ways = forms(aggregate, column, facts)
    if distance is not None:
        return (_by_distance(ways[0], facts, epsilon, belief, distance),)
    found: list[Total] = [laplace(ways[0], epsilon)]
    steps = staircase(ways[-1], epsilon)
    if steps is not None:
        found.append(steps)
    if belief is not None and _may_refine(aggregate, ways[0], facts, belief, found):
        found.append(refined_total(ways[0], belief, epsilon, facts.schema.neighbours, None))
    return tuple(found)


def _may_refine(aggregate: Aggregate, form: Form, facts: Facts, belief: Belief, noisy: list[Total]) -> bool:
    """Never for counts, where noise is optimal whatever the prior (Ghosh and others 2009); for sums, where narrow."""
    if aggregate.function != "sum" or facts.grouped or not isinstance(form.estimate, Linear):
        return False
    first = noisy[0]
    return isinstance(first, Noisy) and belief.sd < WITHIN_REACH * Meaning(first, 1.0).line().sd


def _by_distance(
    form: Form, facts: Facts, epsilon: Fraction, belief: Belief | None, distance: Distance | str
) -> RefinedTotal:
    if belief is None:
        raise InvalidInput("a distance says how your prior is refined; give the prior too")
    if facts.grouped:
        raise Unsupported("a distance is for one number at a time; ask for the groups one by one")
    return refined_total(form, belief, epsilon, facts.schema.neighbours, resolve_distance(NUMBER, distance))


def weighed(found: tuple[Total, ...], belief: Belief | None, rows: int) -> list[Option]:
    """Every mechanism with the error of what it leads to."""
    return [Option(one, _error(one, belief, rows)) for one in found]


def _error(one: Total, belief: Belief | None, rows: int) -> float:
    return one.expected_error() if isinstance(one, RefinedTotal) else Meaning(one, float(rows)).expected_error(belief)


def best(found: list[Option], belief: Belief | None, rows: int) -> Option:
    """The least error; among noises the one that is best without a prior, unless another is clearly better."""
    plain = [one for one in found if isinstance(one.measurement, Noisy)]
    least = min(found, key=lambda one: one.expected_error)
    if belief is None or not plain:
        return least
    usual = min(plain, key=lambda one: _error(one.measurement, None, rows))
    return least if least.expected_error < BETTER * usual.expected_error else usual
