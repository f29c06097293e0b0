"""Row 3: a sampler whose work follows the size of what it draws (Jin et al. 2022)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

import weak_targets
from discreet import DiscreteGaussian, DiscreteLaplace, Staircase
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.noise import Noise

Sample = Callable[[Entropy], int]
NOISES = [DiscreteLaplace(0.01, 1), Staircase.least_variance(1, 20), DiscreteGaussian.concentrated(0.0005)]


class Counting:
    """The system's bytes, and how often and how many of them were taken."""

    def __init__(self) -> None:
        self.work = 0

    def take(self, count: int) -> bytes:
        self.work += 1 + count
        return os.urandom(count)


def correlation(sizes: list[int], works: list[int]) -> float:
    """Spearman's; 0 where all works are the same, which tell nothing."""
    from scipy.stats import spearmanr

    return 0.0 if len(set(works)) == 1 else abs(float(spearmanr(sizes, works).statistic))


def attack(sample: Sample, draws: int) -> float:
    """How well the size of the noise is told by the work of drawing it."""
    sizes, works = [], []
    for _ in range(draws):
        entropy = Counting()
        sizes.append(abs(sample(entropy)))
        works.append(entropy.work)
    return correlation(sizes, works)


def attack_by_clock(sample: Sample, draws: int) -> float:
    """The same by the time it takes."""
    sizes, works, entropy = [], [], Counting()
    for _ in range(draws):
        begin = time.perf_counter_ns()
        sizes.append(abs(sample(entropy)))
        works.append(time.perf_counter_ns() - begin)
    return correlation(sizes, works)


def by_trials(entropy: Entropy) -> int:
    return weak_targets.geometric_by_trials(0.01, lambda: int.from_bytes(entropy.take(4), "big") / 2**32)


def test_it_succeeds_against_the_weak_stand_in() -> None:
    assert attack(by_trials, 300) > 0.9


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_it_fails_against_discreet(noise: Noise) -> None:
    """Within what chance alone gives once in a million; every draw of Laplace takes the same."""
    assert attack(noise.sample_unit, 2500) < 4.9 / 2500**0.5


@pytest.mark.soak
def test_it_succeeds_by_the_clock_too() -> None:
    assert attack_by_clock(by_trials, 5_000) > 0.9


@pytest.mark.soak
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_it_fails_by_the_clock_too(noise: Noise) -> None:
    assert attack_by_clock(noise.sample_unit, 100_000) < 0.05
