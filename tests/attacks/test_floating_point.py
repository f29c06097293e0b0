"""Row 1: the last bits of a float tell what was added to it (Mironov 2012)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import certified_success
import weak_targets
from discreet import AddNoise, DiscreteLaplace

DRAWS, CLAIM = 20_000, 1
Release = Callable[[int, int], Iterable[float]]


def finest(values: Iterable[float]) -> NDArray[np.int64]:
    """The exponent of the lowest bit of each float; a large one for 0, which is on every grid."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1].astype(np.int64)
    return np.where(whole == 0, 2000, exponent + lowest - 54)


def attack(release: Release, exact: int) -> float:
    """The certified epsilon of "off the coarser grid", which is learned from one half of the draws."""
    one, other = (finest(release(answer, DRAWS)) for answer in (exact, exact + 1))
    half = DRAWS // 2
    grid = max(one[:half].min(), other[:half].min())
    off = [int((side[half:] < grid).sum()) for side in (one, other)]
    return max(certified_success.epsilon(off[0], off[1], half), certified_success.epsilon(off[1], off[0], half))


def naive(exact: int, draws: int) -> Iterable[float]:
    return weak_targets.float_laplace(exact, 1 / CLAIM, draws)


def ours(exact: int, draws: int) -> Iterable[float]:
    mechanism = AddNoise(DiscreteLaplace(CLAIM, 1, step=Fraction(1, 1024)), sensitivity=1)
    assert mechanism.cost().epsilon == CLAIM
    return mechanism.answer_many([exact] * draws)


def test_it_succeeds_against_the_weak_stand_in() -> None:
    """With 1 added no bit below 2^-53 is left; around 0 there are finer ones."""
    assert attack(naive, 0) > 3 * CLAIM


@pytest.mark.parametrize("exact", [0, 1, 2**20, 2**52])
def test_it_fails_against_discreet(exact: int) -> None:
    """All that leaves is on a grid that parameters alone decide."""
    assert attack(ours, exact) <= CLAIM
