"""Priors: finite, public, exact; refused from themselves alone."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import InvalidInput, Prior
from discreet.prior import HEAVIEST, MOST_POINTS


def test_decimal_weights_are_exact() -> None:
    """0.99 and 0.01 are 99 and 1 of 100."""
    assert Prior.weights({0: 0.99, 1: 0.01}).probabilities == (Fraction(99, 100), Fraction(1, 100))


def test_uniform_normal_and_mixtures_have_their_moments() -> None:
    prior = Prior.uniform(0, 9)
    assert prior.support == tuple(range(10))
    assert prior.mean() == pytest.approx(4.5)
    assert prior.variance() == pytest.approx(99 / 12)
    prior = Prior.normal(38, 6, -100, 200)
    assert prior.mean() == pytest.approx(38)
    assert prior.variance() == pytest.approx(36)
    mixed = Prior.parse("0.25 point(3) + 0.75 uniform(0, 1) on [0, 3]")
    assert [float(p) for p in mixed.probabilities] == pytest.approx([0.375, 0.375, 0.25])
    assert mixed.support == (0, 1, 3)


def test_the_written_form() -> None:
    """The grammar, with the grid in the text or beside it."""
    text = Prior.parse("0.9 normal(38, 6) + 0.1 cauchy(38, 6) on [17, 90] step 1")
    assert text.support == tuple(range(17, 91))
    assert text == Prior.parse("  0.9*NORMAL( 38 ,6)+ 0.1 cauchy(38,6)", 17, 90)
    assert Prior.parse("laplace(-1.5, 2e0) on [-5, 5] step 0.5").mean() == pytest.approx(-1.18, abs=0.01)
    assert Prior.parse("uniform() on [1, 3]") == Prior.uniform(1, 3)
    assert Prior.parse("normal(2.5, 1e-3) on [0, 5]").mean() == pytest.approx(2.5)


def test_what_is_possible_stays_possible() -> None:
    """A cell the analyst holds possible keeps a weight of at least 1; one of weight 0 does not exist."""
    far = Prior.normal(0, 1, 0, 1000)
    assert int(far.mass.min()) == 1
    assert Prior.weights({"a": 1, "b": 0, "c": 1}).support == ("a", "c")
    lopsided = Prior.weights({0: 10**30, 1: 1})
    assert lopsided.mass.tolist()[1] == 1
    assert lopsided.total <= 2 * HEAVIEST


@given(
    st.dictionaries(st.fractions(-(10**6), 10**6, max_denominator=20), st.integers(0, 10**6), min_size=1, max_size=30)
)
def test_numbers_lie_on_their_coarsest_grid(weights: dict) -> None:
    """Whatever numbers are named, they come back, in rising order, with their weights."""
    if not any(weights.values()):
        return
    prior = Prior.weights(weights)
    kept = {value: weight for value, weight in weights.items() if weight}
    assert list(prior.support) == sorted(kept)
    total = sum(kept.values())
    assert dict(zip(prior.support, prior.probabilities, strict=True)) == {
        v: Fraction(w, total) for v, w in kept.items()
    }


def test_several_components() -> None:
    """Independent marginals, less what cannot occur together."""
    work = Prior.weights({"employed": 3, "unemployed": 1})
    benefit = Prior.weights({"yes": 1, "no": 1})
    joint = Prior.independent([work, benefit], impossible=[("employed", "yes")])
    assert joint.probabilities == (Fraction(3, 5), Fraction(1, 5), Fraction(1, 5))
    assert ("employed", "yes") not in joint.support
    with pytest.raises(InvalidInput, match="categories"):
        joint.mean()


def test_equal_priors_are_equal() -> None:
    """However they were written; needed to find a stored answer."""
    assert Prior.uniform(0, 3) == Prior.weights({3: 5, 2: 5, 1: 5, 0: 5})
    assert len({Prior.uniform(0, 3), Prior.weights({0: 1, 1: 1, 2: 1, 3: 1}), Prior.uniform(0, 4)}) == 2
    assert Prior.uniform(0, 3) != "uniform"


def test_a_prior_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Prior.uniform(0, 3).mass[0] = 7


def test_a_million_points_are_fine() -> None:
    assert Prior.normal(0, 1000, 0, MOST_POINTS - 1).total > 2**59


BAD = {
    "empty": lambda: Prior.weights({}),
    "negative": lambda: Prior.weights({1: -1, 2: 3}),
    "not a number": lambda: Prior.weights({1: math.nan}),
    "infinite weight": lambda: Prior.weights({1: math.inf}),
    "all zero": lambda: Prior.weights({1: 0, 2: 0.0}),
    "off its own grid": lambda: Prior.uniform(0, 1, step=0.3),
    "ten million points": lambda: Prior.uniform(0, 10**7),
    "ten million weights": lambda: Prior.weights(dict.fromkeys(range(MOST_POINTS + 1), 1)),
    "reversed": lambda: Prior.uniform(3, 1),
    "infinite end": lambda: Prior.uniform(0, math.inf),
    "text for a number": lambda: Prior.uniform("0", 1),
    "no step": lambda: Prior.uniform(0, 1, step=0),
    "no spread": lambda: Prior.normal(0, 0, 0, 1),
    "infinite value": lambda: Prior.weights({math.inf: 1}),
    "too far apart": lambda: Prior.weights({0: 1, 1e-250: 1, 1: 1}),
    "too many combinations": lambda: Prior.independent([Prior.uniform(0, 2000), Prior.uniform(0, 2000)]),
    "no component": lambda: Prior.independent([]),
    "unreadable": lambda: Prior.parse("about forty"),
    "unclosed": lambda: Prior.parse("normal(38, 6 on [0, 1]"),
    "unknown shape": lambda: Prior.parse("gamma(1, 2) on [0, 1]"),
    "too few numbers": lambda: Prior.parse("normal(38) on [0, 90]"),
    "no grid": lambda: Prior.parse("normal(38, 6)"),
    "negative share": lambda: Prior.parse("-0.5 normal(3, 1) + normal(2, 1) on [0, 9]"),
    "zero shares": lambda: Prior.parse("0 normal(3, 1) on [0, 9]"),
    "huge number": lambda: Prior.parse("normal(1e999, 1) on [0, 9]"),
    "empty block": lambda: Prior.parse("uniform(20, 30) on [0, 9]"),
    "long text": lambda: Prior.parse("normal(1, 1) + " * 10_000),
    "not text": lambda: Prior.parse(17),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_prior_is_refused_in_one_sentence(case: str) -> None:
    """From the prior alone, before anything else happens."""
    with pytest.raises(InvalidInput) as refusal:
        BAD[case]()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400
