"""Prior knowledge refinement: the corrected Algorithm 1, its exact loss, and what it is worth."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product
from statistics import median_low

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import Distance, InvalidInput, Prior, Refinement, Taxonomy, Unsupported, refine
from discreet.mechanisms.refinement_risk import PriorLine
from discreet.numeric import exp_below
from discreet.verification import all_neighbors, all_tables, chi_square_excess, exact_delta, worst_ratio
from support.sized_properties import tried

st_epsilons = st.sampled_from([0.01, 0.1, 0.5, 1, 2, 5])
st_priors = st.dictionaries(st.integers(0, 12), st.integers(1, 50), min_size=1, max_size=9).map(Prior.weights)
TABLES = [table for size in range(4) for table in all_tables(range(4), size)]


def refine_by_the_book(prior: Prior, truth: int, up: Fraction, down: Fraction) -> list[Fraction]:
    """Algorithm 1 with errata 1.1 and 1.2, point by point: too slow and too simple to be wrong."""
    mass = dict(zip(prior.support, prior.probabilities, strict=True))
    near, far = (1 - down) / (up - down), (up - 1) / (up - down)
    rings = sorted({abs(value - truth) for value in mass})

    def list_ball(radius: int) -> set:
        return {value for value in mass if abs(value - truth) <= radius}

    inner = max((list_ball(r) for r in rings if sum(mass[v] for v in list_ball(r)) <= near), key=len, default=set())
    outer = max(
        (set(mass) - list_ball(r) for r in [-1, *rings] if sum(mass[v] for v in set(mass) - list_ball(r)) <= far),
        key=len,
    )
    middle = set(mass) - inner - outer
    inside, outside = sum(mass[v] for v in inner), sum(mass[v] for v in outer)
    between = (1 - up * inside - down * outside) / (1 - inside - outside) if middle else Fraction(1)
    assert down <= between <= up
    return [mass[v] * (up if v in inner else down if v in outer else between) for v in mass]


@tried(40, 100, st_priors, st.integers(-2, 14), st_epsilons)
def test_the_blocks_agree_with_the_algorithm_point_by_point(prior: Prior, truth: int, epsilon: float) -> None:
    """Prefix sums and three factors against a plain loop."""
    mechanism = Refinement.of(prior, epsilon)
    clamped = min(max(truth, prior.support[0]), prior.support[-1])
    law = mechanism.distribution(truth)
    assert list(law.probabilities) == refine_by_the_book(prior, clamped, *mechanism.factors)
    assert sum(law.probabilities) == 1


@tried(40, 100, st_priors, st_epsilons)
def test_statistics_lose_epsilon_between_any_two_data_sets(prior: Prior, epsilon: float) -> None:
    """Exactly, in rationals: whatever the truths, the ratio is at most the certified e^epsilon."""
    mechanism = Refinement.of(prior, epsilon)
    laws = [mechanism.distribution(truth).law() for truth in prior.support]
    limit = exp_below(Fraction(str(epsilon)))
    for one, two in combinations(laws, 2):
        worst = worst_ratio(one, two)
        assert worst is not None
        assert worst <= limit


@tried(40, 100, st_priors, st_epsilons)
def test_individuals_lose_epsilon_when_they_come_and_go(prior: Prior, epsilon: float) -> None:
    """Against an absent person, who is answered from the prior; and twice that when replaced, which is why not then."""
    ratio = exp_below(Fraction(str(epsilon)))
    coming = Refinement.of(prior, epsilon, about="individual")
    replaced = Refinement.of(prior, epsilon, about="individual", neighbors="replace-one")
    absent = coming.distribution(None).law()
    assert list(absent.values()) == list(prior.probabilities)
    laws = {truth: replaced.distribution(truth).law() for truth in [*prior.support, None]}
    for truth in prior.support:
        against_prior = worst_ratio(coming.distribution(truth).law(), absent)
        assert against_prior is not None
        assert against_prior <= ratio
        for other in laws.values():
            between = worst_ratio(laws[truth], other)
            assert between is not None
            assert between <= ratio


STATISTICS = {"maximum": max, "median": median_low, "count": len}


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_all_neighbours_of_all_small_tables(statistic: str, neighbors: str) -> None:
    """Every table of up to three rows over four values."""
    compute = STATISTICS[statistic]
    mechanism = Refinement.of(Prior.weights({0: 1, 1: 3, 2: 2, 3: 1}), 1, neighbors=neighbors)
    laws = {value: mechanism.distribution(value).law() for value in range(5)}
    for table in filter(None, TABLES):
        for other in filter(None, all_neighbors(table, range(4), neighbors)):
            worst = worst_ratio(laws[compute(table)], laws[compute(other)])
            assert worst is not None
            assert worst <= exp_below(Fraction(1))


@pytest.mark.parametrize("epsilon", [0.5, 1])
def test_two_people_asked_about_together(epsilon: float) -> None:
    """Example 3 in general: joint laws of two individuals, one of whom comes or goes, lose epsilon."""
    mechanism = Refinement.of(Prior.weights({0: 1, 1: 2, 2: 1}), epsilon, about="individual")
    laws = {value: mechanism.distribution(value).law() for value in (0, 1, 2, None)}

    def compute_pair_law(one: int | None, two: int | None) -> dict:
        return {(a, b): laws[one][a] * laws[two][b] for a, b in product(laws[one], laws[two])}

    for present, other in product((0, 1, 2), (0, 1, 2, None)):
        worst = worst_ratio(compute_pair_law(present, other), compute_pair_law(None, other))
        assert worst is not None
        assert worst <= exp_below(Fraction(str(epsilon)))


st_deltas = st.sampled_from([Fraction(1, 1000), Fraction(1, 20), Fraction(1, 5)])


@given(st_priors, st_epsilons, st_deltas)
def test_delta_of_individuals_is_what_was_asked(prior: Prior, epsilon: float, delta: Fraction) -> None:
    """Errata 1.5, exactly, both ways, on any prior."""
    mechanism = Refinement.of(prior, epsilon, about="individual", delta=delta)
    absent = mechanism.distribution(None).law()
    for truth in range(-1, 14):
        law = mechanism.distribution(truth)
        assert sum(law.probabilities) == 1
        assert exact_delta(law.law(), absent, exp_below(Fraction(str(epsilon)))) <= delta


@tried(40, 100, st_priors, st_epsilons, st_deltas, st.sampled_from(["add-remove", "replace-one"]))
def test_delta_of_statistics_is_what_was_asked(prior: Prior, epsilon: float, delta: Fraction, neighbors: str) -> None:
    """Errata 1.6: delta' = delta / (1 + e^epsilon), exactly, between any two truths."""
    mechanism = Refinement.of(prior, epsilon, about="statistic", delta=delta, neighbors=neighbors)
    ratio = exp_below(Fraction(str(epsilon)))
    laws = [mechanism.distribution(truth).law() for truth in prior.support]
    assert all(sum(law.values()) == 1 for law in laws)
    for one, two in combinations(laws, 2):
        assert exact_delta(one, two, ratio) <= delta


def test_delta_is_spent_and_not_saved() -> None:
    """The sound versions are tight: on a fine prior the whole delta is used."""
    prior = Prior.uniform(0, 299)
    ratio = exp_below(Fraction(1))
    alone = Refinement.of(prior, 1, about="individual", delta=0.1)
    assert float(exact_delta(alone.distribution(150).law(), alone.distribution(None).law(), ratio)) == pytest.approx(
        0.1, rel=1e-9
    )
    many = Refinement.of(prior, 1, delta=0.1, up=1.6)
    assert float(exact_delta(many.distribution(0).law(), many.distribution(299).law(), ratio)) == pytest.approx(
        0.1, rel=1e-2
    )


@given(st_priors, st_epsilons, st.integers(0, 12), st.sampled_from(["statistic", "individual"]))
def test_a_draw_is_nearer_the_truth_than_a_draw_from_the_prior(
    prior: Prior, epsilon: float, truth: int, about: str
) -> None:
    """Document 000: "more accurate than the prior" is true draw against draw, at every distance, for every truth."""
    law = refine(prior, truth, epsilon, about=about)
    clamped = min(max(truth, prior.support[0]), prior.support[-1])
    for radius in range(13):
        near = [abs(value - clamped) <= radius for value in prior.support]
        after = sum((p for p, inside in zip(law.probabilities, near, strict=True) if inside), Fraction(0))
        before = sum((p for p, inside in zip(prior.probabilities, near, strict=True) if inside), Fraction(0))
        assert after >= before


def test_a_draw_is_not_nearer_the_truth_than_the_prior_mean() -> None:
    """The same claim is false against the prior mean: at epsilon 0.5 the mean squared error is larger, not smaller."""
    prior = Prior.normal(50, 10, 0, 100)
    assert Refinement.of(prior, 0.5).variance() > prior.variance()
    assert Refinement.of(prior, 0.5, about="individual").variance() > prior.variance()


@pytest.mark.parametrize("delta", [0, 0.05])
@pytest.mark.parametrize("about", ["statistic", "individual"])
def test_stated_errors_are_the_exact_ones(about: str, delta: float) -> None:
    """Mean distance, mean square, interval and usefulness from prefix sums, against a sum over all laws."""
    prior = Prior.parse("0.5 point(3) + normal(10, 4) + 0.2 uniform(25, 30) on [0, 30]")
    mechanism = Refinement.of(prior, 1, about=about, delta=delta)
    values, mass = prior.floats(), prior.mass / prior.total
    laws = np.array([mechanism.distribution(truth).floats() for truth in prior.support])
    away = np.abs(values[:, None] - values[None, :])
    joint = mass[:, None] * laws
    assert mechanism.expected_error() == pytest.approx((joint * away).sum())
    assert mechanism.variance() == pytest.approx((joint * away**2).sum())
    for alpha in (1, 3.5, 20):
        assert mechanism.useful(alpha) == pytest.approx(joint[away > alpha].sum())
    low, high = mechanism.interval(0.9)
    assert low == -high
    assert joint[away <= high].sum() >= 0.9 > joint[away <= high - 1].sum()
    assert mechanism.useful(5, answers=3) == pytest.approx(1 - (1 - mechanism.useful(5)) ** 3)


def test_errors_over_categories() -> None:
    taxonomy = Taxonomy.of({"a": "x", "b": "x", "c": "y", "x": "any", "y": "any"})
    distance = Distance.semantic(taxonomy)
    prior = Prior.weights({"a": 3, "b": 2, "c": 1})
    mechanism = Refinement.of(prior, 1, distance=distance)
    laws = [mechanism.distribution(truth).law() for truth in prior.support]
    expected = sum(
        float(weight * law[other]) * distance.between(truth, other)
        for truth, weight, law in zip(prior.support, prior.probabilities, laws, strict=True)
        for other in prior.support
    )
    assert mechanism.expected_error() == pytest.approx(expected)
    assert mechanism.variance() < mechanism.expected_error()
    assert 0 < mechanism.useful(0.1) < 1
    with pytest.raises(Unsupported):
        mechanism.interval(0.95)


@given(st_priors.filter(lambda prior: len(prior.mass) > 2), st_epsilons)
@settings(max_examples=15)
def test_the_chosen_factors_are_the_best_ones(prior: Prior, epsilon: float) -> None:
    """Bayes risk of the posterior mean within one per cent of the best of a hundred factors, by brute force."""
    values, mass = prior.floats(), prior.mass / prior.total

    def compute_risk(up: object) -> float:
        laws = np.array([refine(prior, truth, epsilon, up=up).floats() for truth in prior.support])
        joint = mass[:, None] * laws
        posterior = (values[:, None] * joint).sum(axis=0) / joint.sum(axis=0)
        return float((joint * (values[:, None] - posterior[None, :]) ** 2).sum())

    top = float(exp_below(Fraction(str(epsilon))))
    best = min(compute_risk(top**share) for share in np.linspace(0.01, 0.99, 50))
    assert compute_risk(Refinement.of(prior, epsilon).factors[0]) <= best * 1.01 + 1e-12


def test_risk_from_prefix_sums_is_the_exact_one() -> None:
    prior = Prior.parse("0.5 point(3) + normal(10, 4) on [0, 30]")
    mechanism = Refinement.of(prior, 1, up=1.7)
    values, mass = prior.floats(), prior.mass / prior.total
    joint = mass[:, None] * np.array([mechanism.distribution(truth).floats() for truth in prior.support])
    posterior = (values[:, None] * joint).sum(axis=0) / joint.sum(axis=0)
    exact = (joint * (values[:, None] - posterior[None, :]) ** 2).sum()
    assert PriorLine.of(prior, 10**4).compute_risk(*map(float, mechanism.factors)) == pytest.approx(exact)
    # A finer grid is gathered into cells: the choice hardly moves.
    fine, coarse = Prior.normal(50_000, 9_000, 0, 99_999), Prior.normal(500, 90, 0, 999)
    assert float(Refinement.of(fine, 1).factors[0]) == pytest.approx(
        float(Refinement.of(coarse, 1).factors[0]), rel=0.02
    )


def test_all_kinds_of_distance() -> None:
    """Ordinal, nominal, semantic and several components; the factor never rises with the distance."""
    taxonomy = Taxonomy.of({"a": "x", "b": "x", "c": "y", "x": "any", "y": "any"})
    semantic, ordinal = Distance.semantic(taxonomy), Distance.ordinal(["lo", "mid", "hi"])
    cases = [
        (Prior.weights({"lo": 1, "mid": 2, "hi": 3}), ordinal, "lo"),
        (Prior.weights({"a": 1, "b": 2, "c": 3}), Distance.nominal(), "b"),
        (Prior.weights({"a": 1, "b": 2, "c": 3}), semantic, "a"),
        (
            Prior.independent([Prior.weights({"a": 1, "b": 2, "c": 3}), Prior.uniform(0, 3)], impossible=[("c", 0)]),
            Distance.product([semantic, Distance.continuous()], [1, Fraction(1, 9)]),
            ("a", 2),
        ),
    ]
    for prior, distance, truth in cases:
        law = refine(prior, truth, 1, distance=distance)
        factors = [p / q for p, q in zip(law.probabilities, prior.probabilities, strict=True)]
        ranked = sorted(zip((distance.between(truth, value) for value in prior.support), factors, strict=True))
        assert all(one[1] >= two[1] for one, two in pairwise(ranked))
        assert sum(law.probabilities) == 1
        assert max(factors) > 1 > min(factors)


def test_what_is_impossible_stays_impossible() -> None:
    """Document 000 section 7: whatever the truth, no answer is drawn where the prior is zero."""
    prior = Prior.independent([Prior.weights({"yes": 1, "no": 1})] * 2, impossible=[("yes", "yes")])
    law = refine(prior, ("yes", "yes"), 1, distance=Distance.product([Distance.nominal()] * 2))
    assert ("yes", "yes") not in law.law()


def test_truths_out_of_range_are_clamped_and_never_reported() -> None:
    """No error, no sign: below, above, infinite, not a number, an unknown category."""
    prior = Prior.uniform(10, 20)
    assert refine(prior, -5, 1).law() == refine(prior, 10, 1).law()
    assert refine(prior, float("inf"), 1).law() == refine(prior, 20, 1).law()
    assert refine(prior, 14.4, 1).law() == refine(prior, Fraction(1425, 100), 1).law() != refine(prior, 14, 1).law()
    assert refine(prior, float("nan"), 1).probabilities == prior.probabilities
    colours = Prior.weights({"red": 1, "blue": 2})
    assert refine(colours, "green", 1).probabilities == colours.probabilities
    assert (
        refine(colours, "green", 1, distance=Distance.ordinal(["red", "blue"])).probabilities == colours.probabilities
    )


ST_ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**300, 10**310),
    st.floats(),
    st.fractions(),
    st.decimals(),
    st.text(),
    st.binary(),
    st.complex_numbers(),
    st.lists(st.integers()),
    st.tuples(st.one_of(st.integers(), st.floats(), st.text()), st.one_of(st.text(), st.lists(st.text()))),
    st.sampled_from(
        [np.float32("inf"), np.array([1, 2]), np.bool_(True), np.int8(3), Decimal("sNaN"), Decimal("1e-500")]
    ),
)


@cache
def list_refinements(about: str) -> list[Refinement]:
    """Made once: what they do beforehand depends on no truth."""
    taxonomy = Taxonomy.of({"a": "x", "b": "x", "x": "any"})
    letters = Prior.weights({"a": 1, "b": 2})
    kinds = (
        (Prior.uniform(0, 3), None),
        (Prior.uniform(0, 3), "nominal"),
        (Prior.uniform(0, 2), Distance.ordinal([0, 1, 2])),
        (letters, None),
        (letters, Distance.semantic(taxonomy)),
        (
            Prior.independent([Prior.uniform(0, 1), letters]),
            Distance.product([Distance.continuous(), Distance.nominal()]),
        ),
    )
    return [Refinement.of(prior, 1, about=about, distance=distance) for prior, distance in kinds]


@given(ST_ANYTHING, st.sampled_from(["statistic", "individual"]))
def test_no_truth_whatever_raises_an_error(truth: object, about: str) -> None:
    """An error would tell the truth: any object as truth, for every kind of distance, gives a law."""
    for mechanism in list_refinements(about):
        assert sum(mechanism.distribution(truth).probabilities) == 1


def test_an_epsilon_too_small_to_matter_returns_the_prior() -> None:
    prior = Prior.weights({0: 3, 1: 1})
    for about in ("statistic", "individual"):
        for delta in (0, 0.01):
            assert refine(prior, 1, 1e-15, about=about, delta=delta).probabilities == prior.probabilities
    assert refine(prior, 1, 10**6).probabilities[1] > Fraction(999, 1000)


def test_draws_follow_the_law() -> None:
    """Frequencies of 40,000 draws; and a law a tenth off is told apart."""
    prior = Prior.weights({0: 5, 1: 2, 2: 1, 3: 7})
    law = refine(prior, 2, 1, up=1.5)
    counts = Counter(law.sample() for _ in range(40_000))
    exact = {value: float(p) for value, p in law.law().items()}
    assert chi_square_excess(counts, lambda value: exact.get(value, 0.0)) <= 0
    wrong = {value: float(p) for value, p in refine(prior, 2, 1, up=1.65).law().items()}
    assert chi_square_excess(counts, lambda value: wrong.get(value, 0.0)) > 0


def test_costs_are_stated_with_their_neighbours() -> None:
    prior = Prior.uniform(0, 5)
    assert (
        Refinement.of(prior, 0.5).cost().words()
        == "Differential privacy with epsilon 0.5 when one row is added or removed."
    )
    cost = Refinement.of(prior, 0.5, neighbors="replace-one", delta=1e-3).cost()
    assert (cost.model, cost.neighbors, cost.delta) == ("approx-dp", "replace-one", Fraction(1, 1000))


def test_factors_come_from_public_facts() -> None:
    """The same for every truth: errata 1.4 shows what happens otherwise."""
    mechanism = Refinement.of(Prior.normal(5, 2, 0, 10), 1)
    up, down = mechanism.factors
    assert up / down == mechanism.ratio <= Fraction(2718281828459046, 10**15)
    assert 1 <= up <= mechanism.ratio


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: refine(p, 1, 0), "epsilon must be above 0"),
        (lambda p: refine(p, 1, -1), "epsilon must be above 0"),
        (lambda p: refine(p, 1, float("nan")), "epsilon must be a finite number"),
        (lambda p: refine(p, 1, float("inf")), "epsilon must be a finite number"),
        (lambda p: refine(p, 1, "1"), "epsilon must be a number"),
        (lambda p: refine(p, 1, 1, about="group"), "about must be"),
        (lambda p: refine(p, 1, 1, neighbors="any"), "neighbors must be"),
        (lambda p: refine(p, 1, 1, distance="euclidean"), "unknown distance"),
        (lambda p: refine(p, 1, 1, delta=1), "delta must be"),
        (lambda p: refine(p, 1, 1, delta=-0.1), "delta must be"),
        (lambda p: refine(p, 1, 1, up=3), "up, the factor alpha_u, must be between 1 and"),
        (lambda p: refine(p, 1, 1, up=0.5), "up, the factor alpha_u, must be between 1 and"),
        (lambda p: refine(p, 1, 1, up=1.01, delta=0.9), "up must be at least"),
        (lambda _: refine(Prior.weights({"a": 1}), "a", 1, distance="continuous"), "is for numbers"),
        (
            lambda _: refine(Prior.weights({"a": 1}), "a", 1, distance=Distance.ordinal(["b"])),
            "does not know every value",
        ),
    ],
)
def test_bad_input_gets_one_sentence(call, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        call(Prior.uniform(0, 3))


@pytest.mark.parametrize("weights", [{"true": 30, "false": 70}, {"true": 1, "false": 99}, {"a": 50, "b": 30, "c": 20}])
def test_a_draw_says_something_also_where_the_best_guess_stays(weights: dict[str, int]) -> None:
    """All of epsilon is used: some value is e^epsilon times as likely under one truth as under another."""
    refinement = Refinement.of(Prior.weights(weights), 0.3, about="statistic")
    laws = [refinement.distribution(truth).law() for truth in weights]
    worst = max(worst_ratio(one, two) or 0 for one in laws for two in laws)
    assert math.exp(0.28) < worst < math.exp(0.3)
