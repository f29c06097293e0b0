"""Row 1: noise on a grid hides nothing of an answer that is not on it (Haney et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import certified_success
import weak_targets
from discreet import AddNoise, DiscreteLaplace

DRAWS, CLAIM, STEP = 5_000, 1, Fraction(1, 16)
ONE, OTHER = 0.3, 0.9
"""What the answers are on two neighbours."""
Release = Callable[[float, int], Iterable[float]]


def remainder(value: float) -> float:
    """Where a number lies between two grid points."""
    return round(float(value) / float(STEP) % 1, 6) % 1


def attack(release: Release) -> float:
    """The certified epsilon of "the remainder was seen at the first answer", which is learned from other draws."""
    remainders = {remainder(value) for value in release(ONE, DRAWS)}
    hits = [sum(remainder(value) in remainders for value in release(answer, DRAWS)) for answer in (ONE, OTHER)]
    return certified_success.epsilon(hits[0], hits[1], DRAWS)


def naive(exact: float, draws: int) -> Iterable[float]:
    return weak_targets.noise_on_a_grid(exact, float(STEP), draws)


def ours(exact: float, draws: int) -> Iterable[float]:
    return AddNoise(DiscreteLaplace(CLAIM, 1, step=STEP), sensitivity=1).answer_many([exact] * draws)


def test_it_succeeds_against_the_weak_stand_in() -> None:
    assert attack(naive) > 3 * CLAIM


def test_it_fails_against_discreet() -> None:
    """An answer is rounded to the grid before noise is added: every remainder is 0."""
    assert attack(ours) <= CLAIM
