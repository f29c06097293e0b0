"""What takes minutes: the same checks as in the other files, with more draws, more tables, more random cases.

`make soak` runs them; each says which small version runs with every change.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_noise import compute_exact_gaussian_delta
from test_quantile import compute_joint_law

from discreet import DiscreteGaussian, DiscreteLaplace, Prior, Refinement, Staircase
from discreet.mechanisms import PermuteAndFlip, Quantiles, exponential
from discreet.mechanisms.discrete_gaussian import _bound_delta_exactly, _bound_delta_smoothly
from discreet.mechanisms.exponential_mechanism import Selection
from discreet.numeric import exp_below
from discreet.verification import all_neighbors, all_tables, assert_fits, exact_delta, worst_ratio

pytestmark = pytest.mark.soak
MILLION = 10**6
CLOSE = [Fraction(1), Fraction(99, 100), Fraction(101, 100)]

SAMPLERS = {
    "laplace 1": lambda times: DiscreteLaplace(1 / times, 1),
    "laplace 300": lambda times: DiscreteLaplace(1 / times, 300),
    "gaussian 0.7": lambda times: DiscreteGaussian(Fraction(49, 100) * times**2, 1, Fraction(1)),
    "gaussian 30": lambda times: DiscreteGaussian(900 * times**2, 1, Fraction(1)),
    "staircase": lambda times: Staircase.least_variance(Fraction(7, 10), 300 * times, 1),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_ten_million_draws_with_jaws_of_one_per_cent(name: str) -> None:
    """Small version: test_noise.py, 200,000 draws and jaws of ten per cent."""
    noises = [SAMPLERS[name](times) for times in CLOSE]
    points, counts = np.unique(np.concatenate([noises[0].draw_many(MILLION) for _ in range(10)]), return_counts=True)
    edge = int(np.abs(points).max())
    laws = [{k: float(noise.probability(k)) for k in range(-edge, edge + 1)} for noise in noises]
    draws = (int(k) for k, count in zip(points, counts, strict=True) for _ in range(int(count)))
    assert_fits(draws, *(lambda k, law=law: law[k] for law in laws))


@given(
    st.dictionaries(st.integers(0, 20), st.integers(1, 10**6), min_size=2, max_size=12).map(Prior.weights),
    st.sampled_from([0.05, 0.3, 1, 3]),
    st.sampled_from([0, Fraction(1, 10**6), Fraction(1, 50)]),
    st.sampled_from(["statistic", "individual"]),
)
@settings(max_examples=3000)
def test_refinement_of_thousands_of_priors(prior: Prior, epsilon: float, delta: Fraction, about: str) -> None:
    """Small version: test_refinement.py, a hundred priors."""
    mechanism = Refinement.of(prior, epsilon, about=about, delta=delta)
    ratio = exp_below(Fraction(str(epsilon)))
    laws = [mechanism.distribution(truth).law() for truth in prior.support]
    pairs = (
        [(law, mechanism.distribution(None).law()) for law in laws] if about == "individual" else combinations(laws, 2)
    )
    for one, two in pairs:
        assert exact_delta(one, two, ratio) <= delta


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_choices_on_all_tables_of_five_rows(neighbors: str) -> None:
    """Small version: test_exponential_mechanism.py, tables of three rows over three values."""
    spread = 1 if neighbors == "add-remove" else 2
    tables = [table for size in range(6) for table in all_tables(range(4), size)]
    counted = {table: [table.count(value) for value in range(4)] for table in tables}
    chosen = {table: exponential(counts, 1, 0.7, bounded_range=spread).law() for table, counts in counted.items()}
    flips = PermuteAndFlip(Selection.of(0.7, 1, spread))
    flipped = {table: dict(enumerate(flips.probabilities(counts))) for table, counts in counted.items()}
    limit = exp_below(Fraction(7, 10), 80)
    for table in tables:
        for other in {tuple(sorted(near)) for near in all_neighbors(table, range(4), neighbors)} & counted.keys():
            for laws in (chosen, flipped):
                worst = worst_ratio(laws[table], laws[other])
                assert worst is not None
                assert worst <= limit


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_quartiles_of_all_tables_over_three_values(neighbors: str) -> None:
    """Small version: test_quantile.py, two values."""
    quartiles = Quantiles.of((0.25, 0.5, 0.75), 0, 2, 1, neighbors=neighbors)
    laws = {rows: compute_joint_law(quartiles, np.array(rows)) for rows in product(range(3), repeat=3)}
    for rows, law in laws.items():
        for at, to in product(range(3), repeat=2):
            moved = list(rows)
            moved[to] += 1
            moved[at] -= neighbors == "replace-one"
            if tuple(moved) in laws:
                worst = worst_ratio(law, laws[tuple(moved)])
                assert worst is not None
                assert worst <= exp_below(Fraction(1), 80)


@given(
    st.fractions(Fraction(1, 20), 10, max_denominator=100),
    st.floats(1, 12).map(lambda x: 10**-x),
    st.integers(1, 8),
)
@settings(max_examples=150)
def test_delta_of_random_gaussians(epsilon: Fraction, delta: float, units: int) -> None:
    """Small version: test_noise.py, twelve cases."""
    noise = DiscreteGaussian.calibrated(epsilon, delta, units)
    real = compute_exact_gaussian_delta(noise.square, units, epsilon)
    assert real <= mpmath.mpf(repr(delta))


@given(st.integers(1000, 4000), st.floats(0.2, 3), st.fractions(Fraction(1, 20), 3, max_denominator=100))
@settings(max_examples=60)
def test_long_sums_of_random_gaussians(sigma: int, share: float, epsilon: Fraction) -> None:
    """Small version: test_noise.py, three cases."""
    square, shift = Fraction(sigma**2), max(1, round(sigma * share))
    last = math.ceil(Fraction(shift, 2) - epsilon * square / shift) - 1
    exact, smooth = (
        _bound_delta_exactly(square, shift, epsilon, last),
        _bound_delta_smoothly(float(square), shift, float(epsilon), last),
    )
    assert exact <= smooth
    assert smooth <= exact * (1 + Fraction(1, 1000)) + Fraction(1, 10**40)
