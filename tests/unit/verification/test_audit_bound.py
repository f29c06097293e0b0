"""The bound of an audit holds at its confidence: by enumeration where all counts can be written down."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.verification.audit.events import compute_clopper_pearson, compute_epsilon_bound, estimate_epsilon_bounds

MISSES = (0.0005, 0.05, 0.2)


def list_binomial(draws: int, p: float) -> list[float]:
    return [math.comb(draws, count) * p**count * (1 - p) ** (draws - count) for count in range(draws + 1)]


@pytest.mark.parametrize("miss", MISSES)
def test_each_limit_is_wrong_as_seldom_as_it_says(miss: float) -> None:
    """And not much more seldom: at its own limit a count is exactly as unlikely as allowed."""
    draws = 23
    for count in range(draws + 1):
        low, high = compute_clopper_pearson(count, draws, miss)
        assert 0 <= low < high <= 1
        if count:
            assert sum(list_binomial(draws, low)[count:]) == pytest.approx(miss, rel=1e-9)
        if count < draws:
            assert sum(list_binomial(draws, high)[: count + 1]) == pytest.approx(miss, rel=1e-9)
    for p in np.linspace(0, 1, 41).tolist():
        chances = list_binomial(draws, p)
        limits = [compute_clopper_pearson(count, draws, miss) for count in range(draws + 1)]
        assert sum(chance for chance, (low, _) in zip(chances, limits, strict=True) if low > p) <= miss + 1e-12
        assert sum(chance for chance, (_, high) in zip(chances, limits, strict=True) if high < p) <= miss + 1e-12


def test_the_limits_of_nothing_and_of_everything() -> None:
    assert compute_clopper_pearson(0, 100, 0.01)[0] == 0
    assert compute_clopper_pearson(100, 100, 0.01)[1] == 1
    assert compute_clopper_pearson(0, 100, 0.01)[1] == pytest.approx(1 - 0.01 ** (1 / 100))


@pytest.mark.parametrize("confidence", [0.6, 0.9])
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_a_claim_that_holds_is_accused_as_seldom_as_it_says(confidence: float, delta: float) -> None:
    """Over every pair of counts, for tight claims p = e^epsilon q + delta."""
    draws = 14
    bounds = {
        (likely, rare): compute_epsilon_bound(likely, rare, draws, delta, confidence)
        for likely in range(draws + 1)
        for rare in range(draws + 1)
    }
    assert max(bounds.values()) > 0.5
    for q in (0.01, 0.1, 0.3, 0.5):
        for epsilon in (0.01, 0.2, 0.6):
            p = math.exp(epsilon) * q + delta
            one, two = list_binomial(draws, p), list_binomial(draws, q)
            accused = sum(one[a] * two[b] for (a, b), bound in bounds.items() if bound > epsilon)
            assert accused <= 1 - confidence


def test_the_bound_grows_with_what_is_seen() -> None:
    """And is at least 0, also where nothing was seen or delta explains all."""
    assert compute_epsilon_bound(500, 100, 1000, 0, 0.999) > compute_epsilon_bound(400, 100, 1000, 0, 0.999)
    assert compute_epsilon_bound(500, 50, 1000, 0, 0.999) > compute_epsilon_bound(500, 100, 1000, 0, 0.999)
    assert compute_epsilon_bound(500, 100, 1000, 0, 0.9) > compute_epsilon_bound(500, 100, 1000, 0, 0.999)
    assert compute_epsilon_bound(500, 100, 1000, 0, 0.999) > compute_epsilon_bound(500, 100, 1000, 0.1, 0.999)
    assert compute_epsilon_bound(0, 0, 1000, 0, 0.999) == compute_epsilon_bound(100, 500, 1000, 0, 0.999) == 0
    assert compute_epsilon_bound(300, 0, 1000, 0.3, 0.999) == 0
    assert compute_epsilon_bound(5000, 1839, 10000, 0, 0.999) == pytest.approx(1, abs=0.15)


def test_choosing_is_by_about_the_same_bound() -> None:
    """Wilson's limits choose; they are no proof, but near."""
    likely, rare = np.array([500, 400, 60, 10_000]), np.array([100, 300, 0, 3000])
    near = estimate_epsilon_bounds(likely, rare, 50_000, 0.0, 3.29)
    exact = [compute_epsilon_bound(int(a), int(b), 50_000, 0.0, 0.999) for a, b in zip(likely, rare, strict=True)]
    assert near == pytest.approx(exact, abs=0.5)
    assert Fraction(float(near[3])) == pytest.approx(float(exact[3]), abs=0.01)
    assert estimate_epsilon_bounds(np.array([10]), np.array([0]), 100, 0.5, 3.29)[0] < -100
