"""The exact loss of finite laws."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import Protocol, TypeVar

from discreet.errors import InvalidInput

Outcome = TypeVar("Outcome", bound=Hashable)


class HasLaw(Protocol):
    """What knows its exact probabilities, such as a `Distribution`."""

    def law(self) -> Mapping[Hashable, Fraction]:
        """Outcome to exact probability."""
        ...


def worst_ratio(one: Mapping[Outcome, Fraction] | HasLaw, two: Mapping[Outcome, Fraction] | HasLaw) -> Fraction | None:
    """The largest ratio of two laws' probabilities, either way; None where one excludes what the other allows."""
    worst = Fraction(1)
    for p, q in _paired(one, two):
        if (p == 0) != (q == 0):
            return None
        if p:
            worst = max(worst, p / q, q / p)
    return worst


def exact_delta(
    one: Mapping[Outcome, Fraction] | HasLaw, two: Mapping[Outcome, Fraction] | HasLaw, ratio: Fraction
) -> Fraction:
    """The least delta with P(S) <= ratio Q(S) + delta for all events S and either law as P."""
    pairs, zero = _paired(one, two), Fraction(0)
    return max(
        sum((max(zero, p - ratio * q) for p, q in pairs), zero), sum((max(zero, q - ratio * p) for p, q in pairs), zero)
    )


def _paired(one: object, two: object) -> list[tuple[Fraction, Fraction]]:
    """Both laws' probabilities of every outcome of either."""
    first, second = _law(one), _law(two)
    return [(first.get(o, Fraction(0)), second.get(o, Fraction(0))) for o in {*first, *second}]


def _law(law: object) -> Mapping[Hashable, Fraction]:
    found = law.law() if hasattr(law, "law") else law
    if not isinstance(found, Mapping):
        raise InvalidInput(f"a law is a mapping from outcomes to probabilities, got {type(law).__name__}")
    return found
