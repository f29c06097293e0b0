"""How aggregates share what may be lost: which totals get Gaussian noise, and which are public already."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from discreet.guarantee import Guarantee
from discreet.inference.laws import deviations
from discreet.kernel.discrete_gaussian import WIDEST
from discreet.planner.facts import Facts
from discreet.planner.noisy import Form, forms, staircase
from discreet.planner.plan import Known
from discreet.query.predicate import TRUE
from discreet.query.query import Aggregate
from discreet.schema import Schema

TOTALS = frozenset({"count", "count_distinct", "sum", "avg", "var", "stddev", "trimmed_mean"})


def form_of(aggregate: Aggregate, schema: Schema, facts: Facts) -> Form:
    """What is measured where the noise is Laplace or Gaussian."""
    return forms(aggregate, None if aggregate.column is None else schema.column(aggregate.column), facts)[0]


def shared(
    forms: Mapping[Aggregate, Form], share: Fraction, delta: Fraction | None
) -> tuple[Fraction, list[Aggregate]]:
    """The rho of each total that gets Gaussian noise, and those totals: their shares of epsilon pay for it, no others.

    What is too wide to be drawn, or less noisy if pure, keeps its own share; the rest begin again without it.
    """
    wide = list(forms) if delta is not None else []
    while wide and delta is not None:
        rho = rho_within(share * len(wide), delta) / len(wide)
        fitting = [aggregate for aggregate in wide if rho and _better(forms[aggregate], rho, share)]
        if fitting == wide:
            return rho, wide
        wide = fitting
    return Fraction(0), []


def known_number(aggregate: Aggregate, schema: Schema, facts: Facts) -> Known | None:
    """A count that the schema itself tells: of all rows or units, so without a filter."""
    rows = None
    if aggregate.where != TRUE:
        return None
    if aggregate.function == "count":
        rows = facts.known_rows(None if aggregate.column is None else schema.column(aggregate.column))
    elif aggregate.function == "count_distinct":
        rows = facts.known_units()
    return None if rows is None else Known(rows)


def _better(own: Form, rho: Fraction, epsilon: Fraction) -> bool:
    """Whether Gaussian noise is drawn that wide, and is less than pure noise of the same share."""
    squares = [component.square / (2 * rho) for component in own.components]
    pure = [2 * (component.scale / epsilon) ** 2 for component in own.components]
    steps = staircase(own, epsilon)
    if steps is not None:
        pure = [min(one, Fraction(sd**2)) for one, sd in zip(pure, deviations(steps.noise), strict=True)]
    drawn = max(squares) <= Fraction(WIDEST) ** 2
    return drawn and sum(one / two for one, two in zip(squares, pure, strict=True)) < len(pure)


@lru_cache(maxsize=256)
def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho, nearly the largest, that implies (epsilon, delta); 0 where epsilon is too small for any."""
    low, high = Fraction(0), Fraction(1, 2**20)
    while implied_epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if implied_epsilon(middle, delta) <= epsilon else (low, middle)
    return low


def implied_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """The epsilon that a rho implies at a delta."""
    return Guarantee.zcdp(rho).approximate(delta).epsilon or Fraction(0)
