"""What one draw of a refinement means: Bayes' rule by the exact laws, and the stated error as a sum over them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import Distance, Prior, Refinement, Taxonomy, Unsupported
from discreet.estimation.refinement_posterior import MAX_VALUES, compute_refinement_posterior, estimate_refinement_error

TAXONOMY = Taxonomy.of({"a": "x", "b": "x", "c": "y", "d": "y", "e": "z", "x": "any", "y": "any", "z": "any"})
LETTERS = Prior.weights({"a": 3, "c": 2, "b": 7, "e": 1, "d": 4})
DISTANCES = {
    "nominal": Distance.nominal(),
    "ordinal": Distance.ordinal(["c", "a", "e", "b", "d"]),
    "semantic": Distance.semantic(TAXONOMY),
}
st_numbers = st.dictionaries(st.integers(0, 40), st.integers(1, 9), min_size=1, max_size=9).map(Prior.weights)
st_epsilons = st.sampled_from([0.01, 0.5, 2, 9])


def compute_bayes_posteriors(refinement: Refinement) -> list[list[float]]:
    """For every draw the posterior from the exact law of every truth, in fractions."""
    prior = refinement.prior
    laws = [refinement.distribution(truth).probabilities for truth in prior.support]
    posteriors = []
    for chances in zip(*laws, strict=True):
        joint = [weight * chance for weight, chance in zip(prior.probabilities, chances, strict=True)]
        total = sum(joint, Fraction(0))
        posteriors.append([float(weight / total) for weight in joint])
    return posteriors


def agrees_with_bayes(refinement: Refinement) -> bool:
    exact = compute_bayes_posteriors(refinement)
    assert len(exact) == len(refinement.prior.mass)
    return all(
        compute_refinement_posterior(refinement, answer) == pytest.approx(expected, rel=1e-9)
        for answer, expected in enumerate(exact)
    )


@given(st_numbers, st_epsilons, st.sampled_from(["statistic", "individual"]), st.sampled_from([0, 0.05]))
@settings(max_examples=60)
def test_numbers_follow_bayes_rule(prior: Prior, epsilon: float, about: str, delta: float) -> None:
    """With gaps between the values, ties, cut rings and atoms."""
    assert agrees_with_bayes(Refinement.of(prior, epsilon, about, delta=delta))
    assert agrees_with_bayes(Refinement.of(prior, epsilon, about, distance="nominal", delta=delta))


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("about", ["statistic", "individual"])
@pytest.mark.parametrize("delta", [0, 0.05])
def test_categories_follow_bayes_rule(name: str, about: str, delta: float) -> None:
    for epsilon in (0.01, 1, 4):
        assert agrees_with_bayes(Refinement.of(LETTERS, epsilon, about, distance=DISTANCES[name], delta=delta))


def test_masses_of_very_different_size_follow_bayes_rule() -> None:
    """Rings as thin as one part in 2^60 keep their own factor."""
    prior = Prior.normal(20, 2, 0, 40)
    assert prior.mass.min() == 1
    assert agrees_with_bayes(Refinement.of(prior, 1))
    assert agrees_with_bayes(Refinement.of(prior, 1, distance="nominal"))


def test_a_draw_moves_belief_towards_it() -> None:
    prior = Prior.normal(50, 10, 0, 100)
    after = compute_refinement_posterior(Refinement.of(prior, 2), 70)
    before = prior.mass / prior.total
    assert float(after @ prior.floats()) > float(before @ prior.floats()) + 3
    assert after.sum() == pytest.approx(1)


@given(
    st_numbers, st_epsilons, st.sampled_from(["statistic", "individual"]), st.sampled_from(["continuous", "nominal"])
)
@settings(max_examples=60)
def test_the_error_of_numbers_is_that_of_the_posterior_mean(prior: Prior, epsilon: float, about: str, by: str) -> None:
    refinement = Refinement.of(prior, epsilon, about, distance=by)
    values, mass = prior.floats(), prior.mass / prior.total
    joint = mass[:, None] * np.array([refinement.distribution(truth).floats() for truth in prior.support])
    means = [compute_refinement_posterior(refinement, index) @ values for index in range(len(values))]
    exact = math.sqrt((joint * (values[:, None] - np.array(means)[None, :]) ** 2).sum())
    assert estimate_refinement_error(refinement) == pytest.approx(exact, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", DISTANCES)
def test_the_error_over_categories_is_that_of_the_best_guess(name: str) -> None:
    refinement = Refinement.of(LETTERS, 1, distance=DISTANCES[name])
    values = LETTERS.support
    square = np.array([[DISTANCES[name].between(value, two) ** 2 for two in values] for value in values])
    mass = np.array([float(p) for p in LETTERS.probabilities])
    joint = mass[:, None] * np.array([refinement.distribution(truth).floats() for truth in values])
    exact = sum(min(joint[:, index] @ square[:, guess] for guess in range(5)) for index in range(5))
    assert estimate_refinement_error(refinement) == pytest.approx(math.sqrt(exact), rel=1e-9)


def test_a_wide_grid_is_gathered_without_changing_the_error() -> None:
    """Also where most of a wide grid is a negligible tail."""
    wide, narrow = Prior.normal(50_000, 60, 0, 99_999), Prior.normal(1000, 60, 0, 1999)
    assert estimate_refinement_error(Refinement.of(wide, 1)) == pytest.approx(
        estimate_refinement_error(Refinement.of(narrow, 1)), 1e-3
    )


def test_what_is_not_told() -> None:
    """No error with a delta or over very many categories; no posterior over more pairs than can be measured."""
    assert estimate_refinement_error(Refinement.of(Prior.uniform(0, 9), 1, delta=0.1)) is None
    many = [f"v{number}" for number in range(MAX_VALUES + 1)]
    prior = Prior.weights(dict.fromkeys(many, 1))
    assert estimate_refinement_error(Refinement.of(prior, 1)) is None
    assert len(compute_refinement_posterior(Refinement.of(prior, 1), 7)) == len(many)
    with pytest.raises(Unsupported, match="at most"):
        compute_refinement_posterior(Refinement.of(prior, 1, distance=Distance.semantic(Taxonomy.flat(many))), 7)
    numbered = Refinement.of(Prior.uniform(0, 2), 1, distance=Distance.ordinal([2, 0, 1]))
    assert estimate_refinement_error(numbered) is None
    assert agrees_with_bayes(numbered)


def test_an_epsilon_too_small_to_matter_leaves_the_prior() -> None:
    refinement = Refinement.of(Prior.uniform(0, 9), 1e-15)
    assert compute_refinement_posterior(refinement, 3) == pytest.approx(np.full(10, 0.1))
    assert estimate_refinement_error(refinement) == pytest.approx(math.sqrt(99 / 12))
    categories = Refinement.of(LETTERS, 1e-15)
    assert estimate_refinement_error(categories) == pytest.approx(math.sqrt(10 / 17))
