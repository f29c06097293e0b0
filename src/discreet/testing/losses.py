"""The exact loss of finite laws."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import Protocol, TypeVar

from discreet.errors import InvalidInput

Outcome = TypeVar("Outcome", bound=Hashable)


class FiniteDistribution(Protocol):
    """What knows its exact probabilities, such as a `Distribution`."""

    def law(self) -> Mapping[Hashable, Fraction]:
        """Outcome to exact probability."""
        ...


def worst_ratio(
    distribution: Mapping[Outcome, Fraction] | FiniteDistribution,
    other: Mapping[Outcome, Fraction] | FiniteDistribution,
) -> Fraction | None:
    """The largest ratio of two laws' probabilities, either way; None where one excludes what the other allows."""
    worst = Fraction(1)
    for p, q in _pair_probabilities(distribution, other):
        if (p == 0) != (q == 0):
            return None
        if p:
            worst = max(worst, p / q, q / p)
    return worst


def exact_delta(
    distribution: Mapping[Outcome, Fraction] | FiniteDistribution,
    other: Mapping[Outcome, Fraction] | FiniteDistribution,
    ratio: Fraction,
) -> Fraction:
    """The least delta with P(S) <= ratio Q(S) + delta for all events S and either law as P."""
    pairs, zero = _pair_probabilities(distribution, other), Fraction(0)
    return max(
        sum((max(zero, p - ratio * q) for p, q in pairs), zero), sum((max(zero, q - ratio * p) for p, q in pairs), zero)
    )


def _pair_probabilities(distribution: object, other: object) -> list[tuple[Fraction, Fraction]]:
    """Both laws' probabilities of every outcome of either."""
    first, second = _read_probabilities(distribution), _read_probabilities(other)
    return [(first.get(outcome, Fraction(0)), second.get(outcome, Fraction(0))) for outcome in {*first, *second}]


def _read_probabilities(distribution: object) -> Mapping[Hashable, Fraction]:
    probabilities = distribution.law() if hasattr(distribution, "law") else distribution
    if not isinstance(probabilities, Mapping):
        raise InvalidInput(f"a law is a mapping from outcomes to probabilities, got {type(distribution).__name__}")
    return probabilities
