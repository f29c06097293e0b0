"""Guarantees: what composes, what implies what, and words that are true."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import Guarantee, InvalidInput, Unsupported
from discreet.guarantee import DIFFERENTIAL
from discreet.kernel.distribution import Distribution, Few
from discreet.prior import Prior
from discreet.testing import worst_ratio

epsilons = st.fractions(min_value=0, max_value=10, max_denominator=1000)


def test_a_thousand_tenths_are_a_hundred() -> None:
    """Exact numbers: no charge is lost or gained by rounding."""
    assert sum((Guarantee.dp(0.1) for _ in range(999)), Guarantee.dp(0.1)).epsilon == 100


@given(st.lists(epsilons, min_size=1, max_size=8), st.integers(1, 4), st.sampled_from(["add-remove", "replace-one"]))
def test_parallel_counts_the_largest_accounts_a_unit_can_reach(parts: list, rows: int, neighbours: str) -> None:
    """r under add-remove, 2r under replace-one: the worst over all sets of accounts of that size."""
    reach = rows if neighbours == "add-remove" else 2 * rows
    whole = Guarantee.parallel([Guarantee.dp(part, neighbours) for part in parts], rows_per_unit=rows)
    assert whole.epsilon == max(sum(some) for some in combinations(parts, min(reach, len(parts))))


def test_parallel_under_replacement_costs_two_accounts_exactly() -> None:
    """Two cells answered by randomised response: a replaced row moves between them and the loss is the sum."""
    prior, third = Prior.weights({0: 1, 1: 1}), Fraction(1, 3)

    def cell(count: int) -> Distribution:
        import numpy as np

        return Distribution(prior, np.array([0, 1]), Few((third, 2 * third) if count else (2 * third, third)))

    def joint(table: tuple[int, int]) -> dict:
        first, second = cell(table[0]).law(), cell(table[1]).law()
        return {(a, b): first[a] * second[b] for a in first for b in second}

    assert worst_ratio(joint((1, 0)), joint((0, 1))) == 4
    assert worst_ratio(joint((1, 0)), joint((0, 0))) == 2


def test_composition_of_unlike_models() -> None:
    """dp goes into approx-dp, zcdp and individual-dp; nothing else is guessed."""
    mixed = Guarantee.dp(1) + Guarantee.approx_dp(2, 1e-6)
    assert (mixed.model, mixed.epsilon, mixed.delta) == ("approx-dp", 3, Fraction(1, 10**6))
    zero = Guarantee.dp(1) + Guarantee.zcdp(Fraction(1, 8))
    assert (zero.model, zero.rho) == ("zcdp", Fraction(5, 8))
    weak = Guarantee.individual_dp(1, 20) + Guarantee.dp(2, "replace-one")
    assert (weak.model, weak.epsilon, weak.also) == ("individual-dp", 3, 22)
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
    told = Guarantee.zcdp(rho).approximate(delta).epsilon

    def epsilon(order: mpmath.mpf) -> mpmath.mpf:
        top = mpmath.log(1 / (order * mpmath.mpf(delta)))
        return mpmath.mpf(rho.numerator) / rho.denominator * order + top / (order - 1) + mpmath.log(1 - 1 / order)

    best = min(epsilon(1 + mpmath.mpf(2) ** (place / mpmath.mpf(8))) for place in range(-80, 240))
    assert told is not None
    assert told <= max(0, best) + max(0, best) / 1000 + mpmath.mpf(2) ** -30
    assert told >= max(0, best) * (1 - mpmath.mpf(1) / 100)


def test_a_hundred_counts_of_sd_20_fit_into_three() -> None:
    """What zCDP is for: rho 1/800 each, delta 1e-6."""
    total = Guarantee.parallel([Guarantee.zcdp(Fraction(1, 800) * 100)])
    assert total.approximate(1e-6).epsilon < 3


def test_words_never_call_anything_weaker_differential_privacy() -> None:
    """Only dp, approx-dp and zcdp; individual DP names the E of the DP it also gives."""
    promises = [one for pair in IMPLIED + NOT_IMPLIED for one in pair]
    for promise in promises:
        words = promise.words().lower()
        if promise.model in DIFFERENTIAL:
            assert "differential privacy" in words
        elif promise.model == "individual-dp":
            assert words.startswith("individual dp")
            assert "weaker, not for groups, its noise follows the data" in words
            assert words.endswith(f"but only with epsilon {promise.also}.")
        else:
            assert "differential privacy" not in words
        assert promise.to_json()["model"] == promise.model
    assert "weak formal protection" in Guarantee.dp(5.5).words()
    assert "weak formal protection" not in Guarantee.dp(5).words()


@pytest.mark.parametrize(
    "call",
    [
        lambda: Guarantee.dp(-1),
        lambda: Guarantee.dp("1"),
        lambda: Guarantee.dp(float("nan")),
        lambda: Guarantee.dp(float("inf")),
        lambda: Guarantee.dp(1, neighbours="substitute"),
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
