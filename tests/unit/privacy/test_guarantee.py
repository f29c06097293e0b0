"""Guarantees: what composes, what implies what, and words that are true."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import Guarantee, InvalidInput, Unsupported
from discreet.mechanisms.distribution import Distribution, RationalFactors
from discreet.priors.prior import Prior
from discreet.privacy.guarantee import DP_MODELS, compute_epsilon_at_order
from discreet.verification import worst_ratio

st_epsilons = st.fractions(min_value=0, max_value=10, max_denominator=1000)


def test_a_thousand_tenths_are_a_hundred() -> None:
    """Exact numbers: no charge is lost or gained by rounding."""
    assert sum((Guarantee.dp(0.1) for _ in range(999)), Guarantee.dp(0.1)).epsilon == 100


@given(st.lists(st_epsilons, min_size=1, max_size=8), st.integers(1, 4), st.sampled_from(["add-remove", "replace-one"]))
def test_parallel_counts_the_largest_accounts_a_unit_can_reach(parts: list, rows: int, neighbors: str) -> None:
    """r under add-remove, 2r under replace-one: the worst over all sets of accounts of that size."""
    reach = rows if neighbors == "add-remove" else 2 * rows
    whole = Guarantee.parallel([Guarantee.dp(part, neighbors) for part in parts], rows_per_unit=rows)
    assert whole.epsilon == max(sum(some) for some in combinations(parts, min(reach, len(parts))))


def test_parallel_under_replacement_costs_two_accounts_exactly() -> None:
    """Two cells answered by randomised response: a replaced row moves between them and the loss is the sum."""
    prior, third = Prior.weights({0: 1, 1: 1}), Fraction(1, 3)

    def build_cell(count: int) -> Distribution:
        import numpy as np

        return Distribution(
            prior, np.array([0, 1]), RationalFactors((third, 2 * third) if count else (2 * third, third))
        )

    def compute_joint(table: tuple[int, int]) -> dict:
        first, second = build_cell(table[0]).law(), build_cell(table[1]).law()
        return {(a, b): first[a] * second[b] for a in first for b in second}

    assert worst_ratio(compute_joint((1, 0)), compute_joint((0, 1))) == 4
    assert worst_ratio(compute_joint((1, 0)), compute_joint((0, 0))) == 2


def test_composition_of_unlike_models() -> None:
    """dp goes into approx-dp, zcdp and individual-dp; nothing else is guessed."""
    mixed = Guarantee.dp(1) + Guarantee.approx_dp(2, 1e-6)
    assert (mixed.model, mixed.epsilon, mixed.delta) == ("approx-dp", 3, Fraction(1, 10**6))
    zero = Guarantee.dp(1) + Guarantee.zcdp(Fraction(1, 8))
    assert (zero.model, zero.rho) == ("zcdp", Fraction(5, 8))
    weak = Guarantee.individual_dp(1, 20) + Guarantee.dp(2, "replace-one")
    assert (weak.model, weak.epsilon, weak.pure_epsilon) == ("individual-dp", 3, 22)
    for one, two in (
        (Guarantee.dp(1), Guarantee.dp(1, "replace-one")),
        (Guarantee.dp(1), Guarantee.dp(1, unit="household")),
        (Guarantee.approx_dp(1, 0.1), Guarantee.zcdp(1)),
        (Guarantee.k_anonymity(3), Guarantee.k_anonymity(3)),
        (Guarantee.nominal(1, "x"), Guarantee.nominal(1, "x")),
        (Guarantee.dp(1), Guarantee.k_anonymity(3)),
    ):
        with pytest.raises(Unsupported):
            one + two
    with pytest.raises(Unsupported):
        Guarantee.parallel([Guarantee.k_anonymity(3)])
    with pytest.raises(InvalidInput):
        Guarantee.parallel([])


def test_guarantees_add_up_in_any_way_python_has() -> None:
    parts = [Guarantee.dp(1), Guarantee.dp(0.5), Guarantee.zcdp(1)]
    assert sum(parts) == parts[0] + parts[1] + parts[2]
    assert Guarantee.parallel(part for part in parts[:2]) == Guarantee.dp(1)
    assert str(parts[0]) == parts[0].words()
    for wrong in (lambda: parts[0] + 1, lambda: 1 + parts[0], lambda: False + parts[0], lambda: parts[0] + "dp"):
        with pytest.raises(TypeError):
            wrong()


def test_deltas_that_add_up_to_1_promise_nothing() -> None:
    """0.5 and 0.5 are refused; 0.5 and 0.4 are not; in parallel only those count that one unit reaches."""
    half, less = Guarantee.approx_dp(1, 0.5), Guarantee.approx_dp(1, 0.4)
    assert (half + less).delta == Fraction(9, 10)
    with pytest.raises(Unsupported, match="add up to 1 or more, which promises nothing"):
        half + half
    assert Guarantee.parallel([half, half]).delta == Fraction(1, 2)
    with pytest.raises(Unsupported, match="add up to 1 or more, which promises nothing"):
        Guarantee.parallel([half, half], rows_per_unit=2)
    with pytest.raises(InvalidInput, match="below 1"):
        Guarantee("approx-dp", "add-remove", epsilon=Fraction(1), delta=Fraction(1))


def test_a_promise_restated() -> None:
    """Replacing is removing and adding; no other change of relation is proven."""
    household = Guarantee.dp(1, unit="household")
    assert household.restated("replace-one") == Guarantee.dp(2, "replace-one", unit="household")
    assert household.restated("add-remove") is household
    assert Guarantee.zcdp(1).restated("add-remove") == Guarantee.zcdp(1)
    for other, relation in (
        (Guarantee.dp(1, "replace-one"), "add-remove"),
        (Guarantee.approx_dp(1, 0.1), "replace-one"),
        (Guarantee.zcdp(1), "replace-one"),
        (Guarantee.k_anonymity(3), "add-remove"),
    ):
        with pytest.raises(Unsupported):
            other.restated(relation)
    with pytest.raises(InvalidInput):
        household.restated("substitute")
    with pytest.raises(Unsupported, match=r"\.restated\('replace-one'\)"):
        Guarantee.dp(1) + Guarantee.dp(1, "replace-one")


def test_a_group_is_the_unit_of_its_promise() -> None:
    """So that nobody takes three times epsilon for one row's; a group of groups is a larger group."""
    three = Guarantee.dp(0.5).for_group(3)
    assert three == Guarantee.dp(1.5, unit="group of 3 rows")
    assert three.words() == "Differential privacy with epsilon 1.5 when one group of 3 rows is added or removed."
    assert three.for_group(2) == Guarantee.dp(0.5).for_group(6)
    assert Guarantee.zcdp(1, unit="household").for_group(2) == Guarantee.zcdp(4, unit="group of 2 households")
    assert Guarantee.dp(1).for_group(1) == Guarantee.dp(1)
    assert three.implies(Guarantee.dp(3, "replace-one", unit="group of 3 rows"))
    assert not three.implies(Guarantee.dp(3, "replace-one"))
    with pytest.raises(Unsupported, match="is not offered"):
        Guarantee.approx_dp(1, 0.1).for_group(2)


def test_groups() -> None:
    """g epsilon for dp, g^2 rho for zcdp, nothing for the rest."""
    assert Guarantee.dp(0.5).for_group(3).epsilon == Fraction(3, 2)
    assert Guarantee.zcdp(0.5).for_group(3).rho == Fraction(9, 2)
    for weaker in (Guarantee.individual_dp(1, 20), Guarantee.k_anonymity(5), Guarantee.approx_dp(1, 0.1)):
        with pytest.raises(Unsupported):
            weaker.for_group(2)


IMPLIED = [
    (Guarantee.dp(1), Guarantee.dp(2)),
    (Guarantee.dp(1), Guarantee.dp(2, "replace-one")),
    (Guarantee.dp(1), Guarantee.approx_dp(1, 1e-9)),
    (Guarantee.dp(1), Guarantee.zcdp(0.5)),
    (Guarantee.dp(1, "replace-one"), Guarantee.individual_dp(1, 20)),
    (Guarantee.dp(1), Guarantee.individual_dp(2, 20, "replace-one")),
    (Guarantee.individual_dp(1, 20), Guarantee.dp(20, "replace-one")),
    (Guarantee.zcdp(Fraction(1, 100)), Guarantee.approx_dp(1, 1e-6)),
    (Guarantee.approx_dp(1, 1e-6), Guarantee.approx_dp(1, 1e-5)),
    (Guarantee.k_anonymity(5), Guarantee.k_anonymity(3)),
    (Guarantee.t_closeness(1, "ratio"), Guarantee.t_closeness(2, "ratio")),
    (Guarantee.nominal(1, "x"), Guarantee.nominal(1, "x")),
]
NOT_IMPLIED = [
    (Guarantee.dp(2), Guarantee.dp(1)),
    (Guarantee.dp(1), Guarantee.dp(1, "replace-one")),
    (Guarantee.dp(1, "replace-one"), Guarantee.dp(10)),
    (Guarantee.dp(1), Guarantee.dp(2, unit="household")),
    (Guarantee.individual_dp(1, 20), Guarantee.dp(19, "replace-one")),
    (Guarantee.individual_dp(1, 20), Guarantee.dp(20, "add-remove")),
    (Guarantee.approx_dp(1, 1e-6), Guarantee.dp(100)),
    (Guarantee.zcdp(1), Guarantee.approx_dp(1, 1e-6)),
    (Guarantee.k_anonymity(5), Guarantee.k_anonymity(5, probabilistic=True)),
    (Guarantee.t_closeness(1, "ratio"), Guarantee.t_closeness(2, "earth mover's")),
    (Guarantee.nominal(1, "x"), Guarantee.dp(1)),
    (Guarantee.dp(1), Guarantee.nominal(1, "x")),
]


@pytest.mark.parametrize(("one", "two"), IMPLIED)
def test_implied(one: Guarantee, two: Guarantee) -> None:
    assert one.implies(two)
    assert one.implies(one)


@pytest.mark.parametrize(("one", "two"), NOT_IMPLIED)
def test_not_implied(one: Guarantee, two: Guarantee) -> None:
    """False where no theorem says so."""
    assert not one.implies(two)


@given(st.fractions(min_value=Fraction(1, 10**4), max_value=20), st.sampled_from([1e-2, 1e-6, 1e-12]))
def test_concentrated_becomes_approximate_on_the_safe_side(rho: Fraction, delta: float) -> None:
    """The epsilon told is at least the formula's minimum, and within a thousandth of it."""
    converted = Guarantee.zcdp(rho).approximate(delta).epsilon

    def compute_epsilon(order: mpmath.mpf) -> mpmath.mpf:
        top = mpmath.log(1 / (order * mpmath.mpf(delta)))
        return mpmath.mpf(rho.numerator) / rho.denominator * order + top / (order - 1) + mpmath.log(1 - 1 / order)

    def compute_order(place: float) -> mpmath.mpf:
        return 1 + mpmath.mpf(2) ** (mpmath.mpf(place) / 8)

    places = np.arange(-80, 240)
    orders = 1 + 2.0 ** (places / 8)  # floats find about where it is least, more digits the least itself
    about = float(rho) * orders - np.log(orders * delta) / (orders - 1) + np.log1p(-1 / orders)
    nearest = int(places[about.argmin()])
    best = max(0, min(compute_epsilon(compute_order(nearest + part / 32)) for part in range(-32, 33)))
    assert converted is not None
    assert converted <= best + best / 1000 + mpmath.mpf(2) ** -30
    assert converted >= best - best / 1000 - mpmath.mpf(10) ** -6


def test_the_conversion_rounds_up_at_every_order() -> None:
    """Against 60 digits, and with logarithms so coarse that a rounding the wrong way shows at once."""
    with mpmath.workdps(60):
        for order, rho, delta, bits in product(
            (Fraction(9, 8), Fraction(4, 3), Fraction(5, 2), Fraction(40)),
            (Fraction(0), Fraction(1, 7), Fraction(20)),
            (Fraction(1, 10), Fraction(1, 3), Fraction(1, 10**6)),
            (2, 5, 10, 40),
        ):
            a, r, d = (mpmath.mpf(value.numerator) / value.denominator for value in (order, rho, delta))
            exact = a * r + mpmath.log((a - 1) / a) - (mpmath.log(a) + mpmath.log(d)) / (a - 1)
            epsilon = compute_epsilon_at_order(order, rho, delta, bits)
            above = mpmath.mpf(epsilon.numerator) / epsilon.denominator - exact
            assert 0 <= above <= mpmath.mpf(2) ** -bits * (1 + 2 / (a - 1)) * 1.01
        whole = Guarantee.zcdp(20).approximate(1e-6)
        orders = [Fraction(1) + Fraction(place, 1000) for place in range(100, 5000, 10)]
        least = min(compute_epsilon_at_order(order, Fraction(20), Fraction(1, 10**6)) for order in orders)
        assert least * (1 - Fraction(1, 10**4)) < whole.epsilon <= least


def test_a_hundred_counts_of_sd_20_fit_into_three() -> None:
    """What zCDP is for: rho 1/800 each, delta 1e-6."""
    total = Guarantee.parallel([Guarantee.zcdp(Fraction(1, 800) * 100)])
    assert total.approximate(1e-6).epsilon < 3


def test_words_never_call_anything_weaker_differential_privacy() -> None:
    """Only dp, approx-dp and zcdp; individual DP names the E of the DP it also gives."""
    promises = [promise for pair in IMPLIED + NOT_IMPLIED for promise in pair]
    for promise in promises:
        words = promise.words().lower()
        if promise.model in DP_MODELS:
            assert "differential privacy" in words
        elif promise.model == "individual-dp":
            assert words.startswith("individual dp")
            assert "weaker, not for groups, its noise follows the data" in words
            assert words.endswith(f"but only with epsilon {promise.pure_epsilon}.")
        else:
            assert "differential privacy" not in words
        assert promise.to_json()["model"] == promise.model
    assert "weak formal protection" in Guarantee.dp(5.5).words()
    assert "weak formal protection" not in Guarantee.dp(5).words()


def test_words_round_up() -> None:
    """A promise told in 12 digits is never better than the one kept, and never 0 for a little."""
    assert "epsilon 0.333333333334 " in Guarantee.dp(Fraction(1, 3)).words()
    assert "epsilon 0.1 and delta 1e-350 " in Guarantee.approx_dp(0.1, Fraction(1, 10**350)).words()
    assert "rho 0.666666666667 " in Guarantee.zcdp(Fraction(2, 3)).words()
    assert "only with epsilon 1.00000000001." in Guarantee.individual_dp(1, 1 + Fraction(1, 10**30)).words()
    assert "with t 0.142857142858 under" in Guarantee.t_closeness(Fraction(1, 7), "ratio").words()
    assert "epsilon 0 when" in Guarantee.dp(0).words()
    assert "epsilon 1e20 when" in Guarantee.dp(10**20).words()
    assert "epsilon 120 when" in Guarantee.dp(120).words()


@given(st.fractions(min_value=0, max_value=10**15))
def test_words_never_say_less(epsilon: Fraction) -> None:
    epsilon_in_words = Fraction(Guarantee.dp(epsilon).words().split()[4].replace(",", ""))
    assert epsilon <= epsilon_in_words <= epsilon * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize(
    "call",
    [
        lambda: Guarantee.dp(1).implies("dp"),
        lambda: Guarantee.parallel([1, 2]),
        lambda: Guarantee.parallel(Guarantee.dp(1)),
        lambda: Guarantee.parallel(iter(())),
        lambda: Guarantee.dp(-1),
        lambda: Guarantee.dp("1"),
        lambda: Guarantee.dp(float("nan")),
        lambda: Guarantee.dp(float("inf")),
        lambda: Guarantee.dp(1, neighbors="substitute"),
        lambda: Guarantee.approx_dp(1, 0),
        lambda: Guarantee.approx_dp(1, 1),
        lambda: Guarantee.zcdp(-1),
        lambda: Guarantee.k_anonymity(0),
        lambda: Guarantee.t_closeness(0, "ratio"),
        lambda: Guarantee.individual_dp(1, 0),
        lambda: Guarantee.dp(1).for_group(0),
    ],
)
def test_what_is_no_promise_is_refused(call) -> None:
    """If it exists it is valid."""
    with pytest.raises(InvalidInput):
        call()


def test_conversions_that_do_not_hold_are_refused() -> None:
    with pytest.raises(Unsupported):
        Guarantee.approx_dp(1, 0.1).concentrated()
    with pytest.raises(Unsupported):
        Guarantee.dp(1).approximate(0.1)
    assert Guarantee.zcdp(1).concentrated() == Guarantee.zcdp(1)
    assert Guarantee.dp(2).concentrated().rho == 2
