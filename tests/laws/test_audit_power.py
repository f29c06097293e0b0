"""What an audit must find, and how seldom it may be wrong: the full numbers in the soak, a smaller version always."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discreet import DiscreteLaplace, audit_mechanism
from discreet.mechanisms import IndividualOrderStatistic
from discreet.mechanisms.entropy import SYSTEM, KeyedEntropy
from discreet.mechanisms.individual_dp import build_local_noise

Mechanism = Callable[[Any, int], Any]
Array = np.ndarray[Any, Any]

MILLION = 1_000_000
FINE = 1000
X = [(0.0, 0.0), (0.3, 0.3), (0.6, 0.6), (1.0, 1.0)]
X2 = [(0.0, 1.0), *X[1:]]
"""The counterexample of erratum 3.3: only the first record differs."""


def laplace(epsilon: Fraction | int, seed: int | None = None) -> Mechanism:
    """Our own exact noise at sensitivity 1 on a fine grid, in thousandths."""
    noise = DiscreteLaplace(epsilon, 1, Fraction(1, FINE))
    entropy = SYSTEM if seed is None else KeyedEntropy(b"audit", str(seed))
    return lambda data, n: noise.sample_units(n, entropy) + FINE * data


def each_of_three(epsilon: Fraction, seed: int | None = None) -> Mechanism:
    """Three numbers that share epsilon, and all of which a record moves."""
    mechanism = laplace(epsilon / 3, seed)
    return lambda data, n: np.stack([mechanism(data, n) for _ in range(3)], axis=1)


def chance(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


# --- five per cent over the claim


@pytest.mark.soak
@pytest.mark.parametrize("claim", [1, 3])
@pytest.mark.parametrize(
    ("build_mechanism", "over"), [(laplace, Fraction(105, 100)), (each_of_three, Fraction(11, 10))]
)
def test_five_per_cent_over_the_claim_is_caught_every_time(
    claim: int, build_mechanism: Callable[[Fraction], Mechanism], over: Fraction
) -> None:
    """Of one number; of three, whose score is learned, ten per cent."""
    mechanism = build_mechanism(over * claim)
    missed = [bound for bound in (_bound(mechanism, claim) for _ in range(20)) if bound <= claim]
    assert missed == []


@pytest.mark.soak
@pytest.mark.parametrize("claim", [1, 3])
@pytest.mark.parametrize(("build_mechanism", "least"), [(laplace, 0.97), (each_of_three, 0.94)])
def test_a_correct_one_is_accused_at_most_once_in_two_hundred(
    claim: int, build_mechanism: Callable[[Fraction], Mechanism], least: float
) -> None:
    """And the bound comes near what is true, so that it is no wonder of weakness."""
    mechanism = build_mechanism(Fraction(claim))
    bounds = [_bound(mechanism, claim) for _ in range(200)]
    assert sum(bound > claim for bound in bounds) <= 1
    assert np.median(bounds) > least * claim


def _bound(mechanism: Mechanism, claim: int) -> float:
    return audit_mechanism(mechanism, 0, 1, claim, draws=MILLION).lower_bound


@pytest.mark.parametrize("claim", [1, 3])
def test_five_per_cent_over_the_claim_is_caught(claim: int) -> None:
    """One run of the twenty; the correct one beside it is not accused."""
    over = audit_mechanism(laplace(Fraction(105 * claim, 100), claim), 0, 1, claim, draws=MILLION)
    assert 1.015 * claim < over.lower_bound < 1.05 * claim
    right = audit_mechanism(laplace(claim, claim), 0, 1, claim, draws=400_000)
    assert 0.95 * claim < right.lower_bound < claim


def test_rows_are_told_apart_by_a_score_that_is_learned() -> None:
    """No single number of three tells more than a third of what they tell together."""
    audit = audit_mechanism(each_of_three(Fraction(3), 1), 0, 1, 2, draws=100_000)
    assert audit.violated
    alone = audit_mechanism(lambda data, n: each_of_three(Fraction(3), 1)(data, n)[:, 0], 0, 1, 2, draws=100_000)
    assert 0.9 < alone.lower_bound < 1
    right = audit_mechanism(each_of_three(Fraction(3), 2), 0, 1, 3, draws=100_000)
    assert 2.7 < right.lower_bound < 3


# --- rare leaks


@pytest.mark.parametrize(
    "leaked",
    [
        lambda data, x: np.full_like(x, 7.0 + 100 * data),
        lambda data, x: x + 1000 * (1 + data),
        lambda data, x: 0.25 + data + np.round(x * 2**8) / 2**30,
    ],
    ids=["a value", "far away", "a narrow peak"],
)
def test_a_leak_of_one_in_a_thousand_is_found(leaked: Callable[[int, Array], Array]) -> None:
    """An atom, a tail and a peak between other values, each of probability 10^-3."""
    generator = chance(11)

    def leaks(data: int, n: int) -> Array:
        noise = np.round(generator.laplace(size=n) * 2**20) / 2**20
        return np.where(generator.random(n) < 1e-3, leaked(data, noise), data + noise)

    audit = audit_mechanism(leaks, 0, 1, 1, draws=500_000)
    assert audit.lower_bound > 2
    assert audit.event.p < 0.01


def test_a_leaked_name_is_found_among_words() -> None:
    generator = chance(12)

    def leaks(data: int, n: int) -> list[str]:
        outputs: list[str] = np.where(generator.random(n) < 1e-3, "Ann" if data else "Bob", "nobody").tolist()
        return outputs

    audit = audit_mechanism(leaks, 0, 1, 1, draws=200_000)
    assert audit.lower_bound > 2
    assert audit.event.words in {"the answer is 'Ann'", "the answer is 'Bob'"}


# --- what is weaker than it is called


def test_individual_dp_is_not_dp() -> None:
    """A median that no record moves has little noise; its neighbour, whose median a record moves far, has much."""
    mechanism = IndividualOrderStatistic("median", 0, 1000, 1).vector

    def median(values: Array, n: int) -> Array:
        noise = build_local_noise(mechanism, mechanism.grid.to_units(values)).sample_units(
            n, KeyedEntropy(b"audit", "median")
        )
        return np.clip(int(np.median(values)) + noise, 0, 1000)

    still = np.array([0] * 3 + [500] * 3 + [1000] * 3)
    moved = np.array([0] * 3 + [500] * 2 + [1000] * 4)
    audit = audit_mechanism(median, still, moved, 1, draws=50_000)
    assert audit.lower_bound > 3
    promised = float(mechanism.compute_pure_epsilon())
    assert audit.lower_bound < promised


def centroids(values: list[float], k: int) -> Array:
    """Rank blocks of k records, each by its mean."""
    return np.sort(np.array(values)).reshape(-1, k).mean(axis=1)


def on_a_grid(numbers: Array) -> Array:
    """So that it is the construction that is caught and not its floats."""
    return np.round(numbers * 2**20) / 2**20


def test_one_record_moves_every_centroid() -> None:
    """Chapter 6 of the thesis, both attributes at epsilon 1: one record shifts all blocks (erratum 3.1)."""
    generator = chance(21)

    def release(records: list[tuple[float, float]], n: int) -> Array:
        means = np.array(sorted(records)).reshape(-1, 3, 2).mean(axis=1)
        return on_a_grid(means + generator.laplace(scale=1 / 3, size=(n, *means.shape)))

    before = [(at / 12, float(at % 6 == 0)) for at in range(12)]
    audit = audit_mechanism(release, before, [*before[1:], (1.0, 0.0)], 2, draws=100_000)
    assert 2 < audit.lower_bound < 8


def test_a_domain_of_one_and_a_half_times_the_greatest_value_tells_it() -> None:
    """Chapter 6's settings: the scale of the noise follows the data (erratum 3.1, 6.4.1)."""
    generator = chance(22)

    def release(values: list[float], n: int) -> Array:
        means = centroids(values, 3)
        return on_a_grid(means + generator.laplace(scale=1.5 * max(values) / 3, size=(n, len(means))))

    audit = audit_mechanism(release, [1.0] * 5 + [100.0], [1.0] * 5 + [1000.0], 1, draws=50_000)
    assert audit.lower_bound > 3


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("flat", [False, True])
def test_linked_rows_are_caught_by_how_many_differ(shuffled: bool, flat: bool) -> None:
    """Erratum 3.3: two distinct rows against four, whatever the noise, the order and the layout."""
    generator = chance(23)

    def release(records: list[tuple[float, float]], n: int) -> Array:
        values = np.array(records)
        table = np.empty((n, 4, 2))
        for at in range(2):
            for block in np.split(np.argsort(values[:, at], kind="stable"), 2):
                table[:, block, at] = (values[block, at].mean() + generator.laplace(scale=100, size=n))[:, None]
        if shuffled:
            order = generator.permuted(np.tile(np.arange(4), (n, 1)), axis=1)
            table = np.take_along_axis(table, order[:, :, None], axis=1)
        return on_a_grid(table.reshape(n, -1) if flat else table)

    audit = audit_mechanism(release, X, X2, 1, draws=20_000)
    assert audit.lower_bound > 5
    if not flat:
        assert audit.event.words.startswith("the number of different rows in the answer")


def test_a_draw_that_is_used_twice_is_caught() -> None:
    """Two counts with the same noise: their difference is exact."""
    generator = chance(24)

    def release(data: int, n: int) -> Array:
        return np.array([5, 9 + data]) + np.round(generator.laplace(scale=50, size=(n, 1))).astype(np.int64)

    assert audit_mechanism(release, 0, 1, 1, draws=20_000).lower_bound > 5


# --- floating point


@pytest.mark.parametrize("data", [0, 1])
def test_floats_added_to_floats_are_caught_on_the_grid(data: int) -> None:
    """Mironov 2012: the last binary digits of numpy's Laplace noise tell what it was added to."""
    generator = chance(31)
    audit = audit_mechanism(lambda center, n: center + generator.laplace(size=n), data, data + 1, 1, draws=MILLION // 2)
    assert audit.violated
    assert "2^-" in audit.event.words
    on_grid = audit_mechanism(
        lambda center, n: on_a_grid(center + generator.laplace(size=n)), data, data + 1, 1, draws=MILLION // 10
    )
    assert not on_grid.violated


def test_the_grid_event_is_told_as_such() -> None:
    generator = chance(32)
    audit = audit_mechanism(lambda center, n: center + generator.laplace(size=n), 0, 1, 1, draws=100_000)
    assert audit.event.words == "the answer is not a multiple of 2^-53"
    assert audit.event.other_count == 0
    assert audit.lower_bound > 7
