"""Individual DP: its own promise exactly, and the differential privacy that its label adds, over all small tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from discreet.errors import InvalidInput
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.individual_dp import (
    IndividualOrderStatistic,
    IndividualVector,
    TruncatedRangeCount,
    build_local_noise,
)
from discreet.mechanisms.order_statistic import find_rank
from discreet.privacy.guarantee import Guarantee
from discreet.verification import all_tables, assert_fits
from support.fixed_streams import Stream
from support.mpmath_digits import use_fifty_digits

__all__ = ["use_fifty_digits"]  # a fixture

DOMAIN = (0, 1, 2, 4, 5)
STATISTICS = ["min", "median", "second max", "max", ("quantile", Fraction(1, 3))]
Table = tuple[int, ...]
Probabilities = list[mpf]


def build_vector(whats: Sequence[object], epsilon: object, also: object = 20, group: int = 1) -> IndividualVector:
    return IndividualVector(whats, 0, 5, epsilon, group=group, pure_epsilon=also)


def compute_state(mechanism: IndividualVector, table: Table) -> tuple[tuple[int, ...], Fraction]:
    """The exact answers and the rate of the noise: all that the law of the answer depends on."""
    centres = tuple(sorted(table)[find_rank(what, len(table)) - 1] for what in mechanism.whats)
    return centres, build_local_noise(mechanism, np.array(table)).rate


def is_within_group(table: Table, other: Table, group: int) -> bool:
    rest = list(other)
    for value in table:
        if value in rest:
            rest.remove(value)
    return len(rest) <= group


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
@pytest.mark.parametrize(
    "whats", [["median"], ["max"], ["second max"], ["min", "median", ("quantile", Fraction(1, 3))]]
)
def test_the_individual_promise_is_exact(whats, epsilon, group):
    """The noise fixed by D, answers of D and of any D' within the group differ by a factor of at most e^epsilon.

    The ratio of discrete Laplace laws of one rate is at most e^(rate * l1 shift), so rationals decide.
    """
    mechanism = build_vector(whats, Fraction(epsilon), group=group)
    for size in (1, 3, 4):
        tables = list(all_tables(DOMAIN, size))
        states = {table: compute_state(mechanism, table) for table in tables}
        for table, other in product(tables, tables):
            if is_within_group(table, other, group):
                centres, rate = states[table]
                shift = sum(abs(a - b) for a, b in zip(centres, states[other][0], strict=True))
                assert rate * shift <= mechanism.epsilon


def test_half_the_noise_would_break_the_individual_promise():
    """The check above has power: some neighbour uses all of epsilon."""
    mechanism = build_vector(["median"], 1)
    pairs = product(all_tables(DOMAIN, 3), repeat=2)
    shifts = [
        compute_state(mechanism, one)[1]
        * abs(compute_state(mechanism, one)[0][0] - compute_state(mechanism, two)[0][0])
        for one, two in pairs
        if is_within_group(one, two, 1)
    ]
    assert max(shifts) == 1


def compute_clamped_geometric(center: int, rate: mpf, width: int) -> Probabilities:
    """The exact law of a clamped answer: tanh(g/2) e^(-g |y - f|) inside, e^(-g distance) / (1 + e^-g) at the ends."""
    law = [mp.tanh(rate / 2) * mp.exp(-rate * abs(y - center)) for y in range(width + 1)]
    law[0] = mp.exp(-rate * center) / (1 + mp.exp(-rate))
    law[-1] = mp.exp(-rate * (width - center)) / (1 + mp.exp(-rate))
    assert mp.almosteq(sum(law), 1)
    return law


def compute_worst_vector_loss(mechanism: IndividualVector, sizes: Sequence[int]) -> mpf:
    """The largest log ratio over ALL pairs of tables of one size: answers are independent, so worst cases add."""
    worst = mpf(0)
    for size in sizes:
        states = {compute_state(mechanism, table) for table in all_tables(DOMAIN, size)}
        laws = {
            (centres, rate): [compute_clamped_geometric(c, mpf(rate.numerator) / rate.denominator, 5) for c in centres]
            for centres, rate in states
        }
        for one, two in product(states, states):
            parts = zip(laws[one], laws[two], strict=True)
            worst = max(worst, sum(mp.log(max(p / q for p, q in zip(a, b, strict=True))) for a, b in parts))
    return worst


@pytest.mark.parametrize("also", ["0.5", "1", "20"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "5"])
@pytest.mark.parametrize("whats", [["median"], ["second max"], ["min", "median"]])
def test_the_label_differential_privacy_holds_over_all_pairs_of_tables(whats, epsilon, also):
    """Not only neighbours: every table against every other, the clamped ends included; 50 digits."""
    mechanism = build_vector(whats, Fraction(epsilon), also=Fraction(also))
    claimed = mechanism.cost().pure_epsilon
    assert claimed is not None
    assert compute_worst_vector_loss(mechanism, (3, 4)) <= mpf(claimed.numerator) / claimed.denominator + mpf("1e-45")


def test_e_alone_would_be_a_false_promise():
    """E = 1, epsilon = 0.01: scales differ a hundredfold, and the narrow law's peak costs 4, not 1."""
    mechanism = build_vector(["median"], 0.01, also=1)
    worst = compute_worst_vector_loss(mechanism, (3,))
    assert 4 < worst < 4.62
    assert float(mechanism.compute_pure_epsilon()) == pytest.approx(math.log(100) + 0.01, abs=1e-9)


def test_at_moderate_epsilon_the_label_is_e_itself():
    """ln(E/epsilon) + epsilon <= E there; and where epsilon is above E the scale is always the floor."""
    assert build_vector(["median"], 1).compute_pure_epsilon() == 20
    assert build_vector(["median"], 30).compute_pure_epsilon() == 20
    assert build_vector(["median"], 30).cost().epsilon == 30
    assert (
        compute_state(build_vector(["median"], 30), (0, 0, 5))[1]
        == compute_state(build_vector(["median"], 30), (2, 2, 2))[1]
        == 4
    )


def test_the_label_rounds_up():
    """ln(100) + 1/100 is irrational: the label is above it, by little."""
    claimed = build_vector(["median"], Fraction(1, 100), also=1).compute_pure_epsilon()
    exact = mp.log(100) + mpf(1) / 100
    assert 0 < mpf(claimed.numerator) / claimed.denominator - exact < 1e-11


def test_a_local_sensitivity_of_zero_never_gives_an_exact_answer():
    """Document 004 would answer exactly here; the floor under the scale adds noise to every table."""
    mechanism = IndividualOrderStatistic("median", 0, 5, 1)
    entropy = Stream(1)
    answers = {mechanism.answer([2, 2, 2, 2, 2], entropy) for _ in range(2000)}
    assert {1, 2, 3} <= answers
    assert build_local_noise(mechanism.vector, np.array([2] * 5)).rate == 4


def draw_medians(table, epsilon, count, seed, together):
    """Medians with noise of one table, and its rate: so many at once, with so many times epsilon and E, have the same.

    One at a time is what `IndividualOrderStatistic` does.
    """
    mechanism = IndividualVector(["median"] * together, 0, 100, epsilon * together, pure_epsilon=20 * together)
    if together == 1:
        assert IndividualOrderStatistic("median", 0, 100, epsilon).vector == mechanism
    entropy = Stream(seed)
    draws = [int(value) for _ in range(count // together) for value in mechanism.answer(table, entropy)]
    assert len(draws) == count
    return draws, build_local_noise(mechanism, np.array(table)).rate


@pytest.mark.parametrize(("table", "rate"), [((0, 3, 100), Fraction(1, 97)), ((50, 50, 50), Fraction(20, 100))])
@pytest.mark.parametrize("together", [20, pytest.param(1, marks=pytest.mark.soak)])
def test_answers_follow_the_law_of_their_table(table, rate, together):
    """Two jaws on the clamped answer: the claimed rate fits, one 10% off does not, either way."""
    draws, distribution = draw_medians(table, 1, 20_000, 2, together)
    assert distribution == rate
    laws = [compute_clamped_geometric(table[1], mpf(float(rate)) * mpf(factor), 100) for factor in ("1", "1.1", "0.9")]
    assert_fits(draws, *(lambda y, law=[float(p) for p in law]: law[y] if 0 <= y <= 100 else 0.0 for law in laws))


@pytest.mark.parametrize("together", [20, pytest.param(1, marks=pytest.mark.soak)])
def test_noise_at_half_the_scale_is_caught(together):
    """The trap itself works."""
    draws, _ = draw_medians((0, 3, 100), 2, 20_000, 3, together)
    laws = [[float(p) for p in compute_clamped_geometric(3, mpf(factor) / 97, 100)] for factor in ("1", "1.1", "0.9")]
    with pytest.raises(AssertionError, match="fit"):
        assert_fits(draws, *(lambda y, law=law: law[y] if 0 <= y <= 100 else 0.0 for law in laws))


def test_the_vector_adds_independent_noise_of_one_scale():
    """As many answers as statistics, in their order, each on the grid and within the bounds."""
    mechanism, entropy = IndividualVector(["min", "median", "max"], 0, 1, 5, step=Fraction(1, 1000)), Stream(4)
    answers = np.array([mechanism.answer(np.linspace(0.2, 0.8, 101), entropy) for _ in range(400)], dtype=float)
    assert answers.shape == (400, 3)
    assert 0 <= answers.min() <= answers.max() <= 1
    assert np.median(answers, axis=0) == pytest.approx([0.2, 0.5, 0.8], abs=0.05)
    noise = answers - np.median(answers, axis=0)
    assert abs(np.corrcoef(noise[:, 0], noise[:, 2])[0, 1]) < 0.3


def test_a_group_is_named_in_the_label_and_gets_more_noise():
    """group = 3 protects any three values at once, and says so."""
    alone, three = (IndividualOrderStatistic("median", 0, 100, 1, group=g) for g in (1, 3))
    values = np.array([10, 20, 40, 50, 60, 80, 90])
    assert three.cost().unit == "group of 3 rows"
    assert "when one group of 3 rows is replaced" in three.cost().words()
    assert build_local_noise(alone.vector, values).rate == Fraction(1, 10)
    assert build_local_noise(three.vector, values).rate == Fraction(1, 40)


def test_the_label_is_weaker_and_says_so():
    """Never called differential privacy without its large epsilon; it does not imply DP at epsilon."""
    cost = IndividualOrderStatistic("median", 0, 100, 0.5).cost()
    assert cost.words() == (
        "Individual DP with epsilon 0.5 when one row is replaced by any other: weaker, not for groups, its noise "
        "follows the data; also differential privacy, but only with epsilon 20."
    )
    assert not cost.implies(Guarantee.dp(0.5, "replace-one"))
    assert cost.implies(Guarantee.dp(20, "replace-one"))


@given(st.lists(st.floats() | st.integers() | st.none() | st.text(max_size=2), min_size=1, max_size=6))
def test_nothing_in_the_data_raises(values):
    """Odd values are clamped or count as the lower bound; the answer is a public grid point."""
    answer = IndividualOrderStatistic("median", -3, 4, 1, step=Fraction(1, 2)).answer(values, Stream(len(values)))
    assert -3 <= answer <= 4
    assert Fraction(answer) % Fraction(1, 2) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 0, 1, 1), "at least one order statistic"),
        ((["mode"], 0, 1, 1), "what must be median"),
        ((["max"], 1, 0, 1), "lower must be below upper"),
        ((["max"], 0, 1, 0), "epsilon must be above 0"),
        ((["max"], 0, 1, 1, 1, 0), "group must be a whole number"),
        ((["max"], 0, 1, 1, 1, 1, 0), "E must be above 0"),
    ],
)
def test_bad_input_is_named_in_one_sentence(arguments, message):
    """The caller learns what to mend."""
    with pytest.raises(InvalidInput, match=message):
        IndividualVector(*arguments)


@pytest.mark.parametrize(
    ("epsilon", "expected"), [(0.1, 0.95004162504212), (math.log(2), 2 / 3), (1, 0.5378828427399902)]
)
def test_document_004_table_2(epsilon, expected):
    """E|clamp(N, -1, 1)| = 2a / (1+a), beside E|N| = 2a / (1-a^2) of the untruncated law."""
    count = TruncatedRangeCount(epsilon)
    assert count.expected_error() == pytest.approx(expected, abs=1e-9)
    a = math.exp(-epsilon)
    assert DiscreteLaplace(epsilon, 1).expected_error() == pytest.approx(2 * a / (1 - a * a), abs=1e-9)


def test_the_truncated_count_discloses_and_makes_no_promise():
    """Answers lie within 1 of the count, always, so tables three apart share none; the label is nominal."""
    count, entropy = TruncatedRangeCount(1), Stream(5)
    answers = [count.answer(40, entropy) for _ in range(4000)]
    assert set(answers) == {39, 40, 41}
    assert np.mean(np.array(answers) != 40) == pytest.approx(count.expected_error(), abs=0.05)
    assert count.cost().model == "nominal"
    assert "No proven promise" in count.cost().words()
    assert TruncatedRangeCount(1000).expected_error() == 0
