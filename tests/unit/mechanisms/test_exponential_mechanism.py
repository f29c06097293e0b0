"""The exponential mechanism and permute-and-flip: exact laws, exact loss, draws that follow them."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import iv

from discreet import InvalidInput, Prior, Unsupported
from discreet.mechanisms import PermuteAndFlip, exponential
from discreet.mechanisms.distribution import PowerFactors
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.exponential_mechanism import MIN_LEVELS, Exponential, Selection
from discreet.mechanisms.samplers import _compute_power_digits, build_power_chance, flip_power_coins
from discreet.numeric import exp_below
from discreet.verification import ScriptedEntropy, all_neighbors, all_tables, chi_square_excess, worst_ratio

DISEASES = ["diabetes", "hepatitis", "flu", "hiv"]
TABLES = [table for size in range(4) for table in all_tables(range(3), size)]
st_scores = st.lists(st.integers(-20, 20), min_size=1, max_size=6)
st_changes = st.lists(st.integers(-1, 1), min_size=6, max_size=6)
st_epsilons = st.sampled_from([0.01, 0.3, 1, 4])
st_weights = st.lists(st.integers(1, 9), min_size=6, max_size=6)


def count_table_values(table: tuple) -> list[int]:
    return [table.count(value) for value in range(3)]


@pytest.mark.parametrize(("neighbors", "spread"), [("add-remove", 1), ("replace-one", 2)])
@pytest.mark.parametrize("prior", [None, Prior.weights({0: 5, 1: 1, 2: 3})])
def test_the_mode_of_all_small_tables(neighbors: str, spread: int, prior: Prior | None) -> None:
    """Exactly: counts change by one each; a coming row moves scores one way, so the bounded range is 1, not 2."""
    laws = {}
    for table in TABLES:
        laws[table] = exponential(count_table_values(table), 1, 1, prior=prior, bounded_range=spread).law()
    flips = {
        table: PermuteAndFlip(Selection.of(1, 1, spread)).probabilities(count_table_values(table)) for table in TABLES
    }
    for table in TABLES:
        for other in map(tuple, map(sorted, all_neighbors(table, range(3), neighbors))):
            if other not in laws:
                continue
            worst = worst_ratio(laws[table], laws[other])
            assert worst is not None
            assert worst <= exp_below(Fraction(1), 80)
            flipped = worst_ratio(dict(enumerate(flips[table])), dict(enumerate(flips[other])))
            assert flipped is not None
            assert flipped <= exp_below(Fraction(1), 80)


@given(st_scores, st_changes, st_epsilons, st_weights)
def test_scores_that_move_by_the_sensitivity_lose_epsilon(one: list, change: list, epsilon: float, prior: list) -> None:
    """Any scores, any change of at most 1 each: both mechanisms, the first with a prior, exactly."""
    two = [score + move for score, move in zip(one, change, strict=False)]
    base = Prior.weights(dict(enumerate(prior[: len(one)])))
    limit = exp_below(Fraction(str(epsilon)), 80)
    worst = worst_ratio(exponential(one, 1, epsilon, base).law(), exponential(two, 1, epsilon, base).law())
    assert worst is not None
    assert worst <= limit
    mechanism = PermuteAndFlip(Selection.of(epsilon, 1))
    flips = [dict(enumerate(mechanism.probabilities(scored))) for scored in (one, two)]
    assert sum(flips[0].values()) == 1
    worst = worst_ratio(*flips)
    assert worst is not None
    assert worst <= limit


def test_the_loss_is_tight() -> None:
    """With opposite changes on many candidates it comes near epsilon: nothing is given away."""
    many = 200
    one, two = [1] + [0] * many, [0] + [1] * many
    ratio = worst_ratio(exponential(one, 1, 1).law(), exponential(two, 1, 1).law())
    assert ratio is not None
    assert 2.6 < ratio <= exp_below(Fraction(1), 80)


@given(st_scores, st_epsilons)
def test_permute_and_flip_is_never_worse(candidate_scores: list, epsilon: float) -> None:
    """McKenna and Sheldon: its expected score is at least that of the exponential mechanism, exactly compared."""
    flips = PermuteAndFlip(Selection.of(epsilon, 1)).probabilities(candidate_scores)
    draws = exponential(candidate_scores, 1, epsilon).probabilities
    assert sum(p * score for p, score in zip(flips, candidate_scores, strict=True)) >= sum(
        p * score for p, score in zip(draws, candidate_scores, strict=True)
    )


def test_permute_and_flip_is_what_its_name_says() -> None:
    """The law with independent coins is that of a random order and the first head, by enumeration."""
    mechanism = PermuteAndFlip(Selection.of(1, 1))
    scores = [3, 1, 0]
    chances = [mechanism.selection.ratio ** (3 - score) for score in scores]
    law = [Fraction(0)] * 3
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    for order, coins in product(orders, product((True, False), repeat=3)):
        weight = Fraction(1, 6)
        for candidate, heads in enumerate(coins):
            weight *= chances[candidate] if heads else 1 - chances[candidate]
        if weight:
            law[next(candidate for candidate in order if coins[candidate])] += weight
    assert law == mechanism.probabilities(scores)


@pytest.mark.parametrize("draws", [8_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_draws_follow_the_laws(draws: int) -> None:
    scores = {"a": 3, "b": 1, "c": 0, "d": 3}
    chosen = exponential(scores, 1, 1)
    law = {value: float(p) for value, p in chosen.law().items()}
    names = list(scores)
    counts = Counter(names.index(chosen.sample()) for _ in range(draws))
    assert chi_square_excess(counts, lambda place: law[names[place]] if 0 <= place < 4 else 0) <= 0
    mechanism = PermuteAndFlip(Selection.of(1, 1))
    exact = [float(p) for p in mechanism.probabilities(scores)]
    levels = mechanism.compute_levels(scores)
    counts = Counter(mechanism.sample_position(levels, SYSTEM) for _ in range(draws))
    assert mechanism.answer(scores) in scores
    assert chi_square_excess(counts, lambda place: exact[place] if 0 <= place < 4 else 0) <= 0


def test_draws_tell_an_epsilon_a_tenth_off() -> None:
    """Of one score far above many, where most follows from epsilon."""
    scores = [4, 0, 0, 0, 0, 0, 0, 0]
    right, wrong = (PermuteAndFlip(Selection.of(epsilon, 1)) for epsilon in (1, 1.1))
    levels = right.compute_levels(scores)
    counts = Counter(right.sample_position(levels, SYSTEM) for _ in range(20_000))
    for mechanism, fits in ((right, True), (wrong, False)):
        law = [float(p) for p in mechanism.probabilities(scores)]
        excess = chi_square_excess(counts, lambda place, law=law: law[place] if 0 <= place < 8 else 0)
        assert (excess <= 0) == fits


def test_many_levels_are_drawn_with_certainty() -> None:
    """Inversion with bounded sums: the same as exact weights, whatever the random word."""
    ratio, masses = Fraction(9, 10), [1, 0, 5, 2, 7]
    exact = [mass * ratio**level for level, mass in enumerate(masses)]
    total = sum(exact)
    for byte in range(256):
        word = bytes([byte]) + bytes(15)
        block = PowerFactors(ratio, range(5)).sample_block(masses, ScriptedEntropy(word))
        place = Fraction(byte, 256) * total
        expected = next(level for level in range(5) if sum(exact[: level + 1], Fraction(0)) > place)
        assert block == expected


def test_a_word_on_the_edge_asks_for_more_digits() -> None:
    """Two levels of weight 1 and 1/3: the word of digits of 3/4 is decided by what follows."""
    edge = (3 * 2**128 // 4 - 1).to_bytes(16, "big")
    assert PowerFactors(Fraction(1, 3), range(2)).sample_block([1, 1], ScriptedEntropy(edge + bytes(16))) == 0
    assert (
        PowerFactors(Fraction(1, 3), range(2)).sample_block(
            [1, 1], ScriptedEntropy((3 * 2**126).to_bytes(16, "big") + b"\xff" * 16)
        )
        == 1
    )


def test_scores_far_below_are_clipped_from_public_facts() -> None:
    """The clip keeps the sensitivity and leaves all that is likely as it is."""
    selection = Selection.of(1, 1)
    scores = np.array([0, -10, -(10**9)])
    assert selection.compute_levels(scores, 1 / 3).tolist() == [0, 10, MIN_LEVELS]
    slow = Selection.of(Fraction(1, 1000), 1)
    assert slow.compute_max_levels(1e-6) > 60_000
    shifted = selection.compute_levels(scores + np.array([0, 0, 1]), 1 / 3)
    assert shifted.tolist() == [0, 10, MIN_LEVELS]


def test_public_bounds_on_the_score() -> None:
    """With the stated confidence the chosen score is that near the best: measured by the exact law."""
    scores = list(range(-30, 1))
    mechanism = Exponential(Selection.of(1, 1))
    bound = mechanism.score_bound(0.95, len(scores))
    assert bound == PermuteAndFlip(mechanism.selection).score_bound(0.95, len(scores))
    thin = Exponential.of(1, 1, prior=Prior.weights({0: 1, 1: 99}))
    assert thin.score_bound(0.95, 2) > Exponential.of(1, 1).score_bound(0.95, 2)
    law = mechanism.distribution(scores)
    within = sum(p for p, score in zip(law.probabilities, scores, strict=True) if score > -bound)
    assert within >= Fraction(95, 100)
    flips = PermuteAndFlip(mechanism.selection).probabilities(scores)
    assert sum(p for p, score in zip(flips, scores, strict=True) if score > -bound) >= Fraction(95, 100)


def compute_choice_loss(one: list, two: list, *facts: object, **public: object) -> float:
    """The exact loss between two lists of scores, the larger of both mechanisms."""
    laws = [exponential(scores, *facts, **public).law() for scores in (one, two)]
    flips = PermuteAndFlip.of(facts[1], facts[0], **public)
    flipped = [dict(enumerate(flips.probabilities(scores))) for scores in (one, two)]
    ratios = [worst_ratio(*laws), worst_ratio(*flipped)]
    assert None not in ratios
    return max(math.log(ratio) for ratio in ratios)


def test_floored_scores_lose_no_more() -> None:
    """Changes that are no whole number of steps, and ranges that are not symmetric: both widen by the floor."""
    near, far = [Fraction(-30, 100)] + [Fraction(25, 100)] * 50, [Fraction(-45, 100)] + [Fraction(40, 100)] * 50
    assert compute_choice_loss(near, far, Fraction(15, 100), 1, step=Fraction(1, 10)) <= 1
    one, two = [Fraction(-1)] + [Fraction(3, 4)] * 100, [Fraction(-5, 4)] + [Fraction(1)] * 100
    assert compute_choice_loss(one, two, 1, 1, bounded_range=Fraction(1, 2), step=Fraction(1, 2)) <= 1
    low, high = [-0.9] + [0.0] * 50, [0.1] + [2.0] * 50
    assert compute_choice_loss(low, high, 2, 1, bounded_range=1, step=1) <= 1
    half, other = [0.5, 0.0, 0.0], [1.0, -0.5, -0.5]
    assert compute_choice_loss(half, other, 0.5, 1) <= 1
    with pytest.raises(InvalidInput, match="public step"):
        compute_choice_loss(half, other, 1, 1, bounded_range=1)


def test_the_law_follows_numbers_and_not_their_types() -> None:
    """Step, spread and clip come from public facts: a score of 0.0 weighs what a score of 0 weighs."""
    assert exponential([100, 0], 1, 1, step=1).probabilities == exponential([100, 0.0], 1, 1, step=1).probabilities
    assert exponential([5, 0], 0.5, 1).probabilities == exponential([5.0, Fraction(0)], 0.5, 1).probabilities


def test_floats_are_the_numbers_they_are() -> None:
    """Two scores a step apart in binary stay a step apart, though their decimal texts do not."""
    one, two = 49609209235.52246, 49609209235.52344
    assert Fraction(two) - Fraction(one) == Fraction(1, 1024)
    selection = Selection.of(1, 1, step=Fraction(1, 1024))
    assert selection.compute_levels([one, two], 0.5).tolist() == [1, 0]


@given(
    st.lists(st.fractions(-3, 3, max_denominator=16), min_size=2, max_size=5),
    st.lists(st.fractions(0, 1, max_denominator=16), min_size=5, max_size=5),
    st.sampled_from([Fraction(1, 4), Fraction(1, 3), Fraction(1)]),
)
def test_any_scores_floored_to_any_step_lose_no_more(one: list, moves: list, step: Fraction) -> None:
    """All moves in [0, 1]: sensitivity 1, bounded range 1, exactly within epsilon whatever the step."""
    two = [score + move for score, move in zip(one, moves, strict=False)]
    assert compute_choice_loss(one, two, 1, 1, bounded_range=1, step=step) <= 1 + 1e-12
    assert compute_choice_loss(one, two, 1, 1, step=step) <= 1 + 1e-12


def test_arrays_lists_and_mappings_come_to_the_same() -> None:
    """Whatever holds the scores, and whatever type of number they are; what is no number is as low as can be."""
    for step in (None, 2, Fraction(1, 2)):
        listed = exponential([7, 3, 0], 2, 1, step=step).probabilities
        assert exponential(np.array([7, 3, 0]), 2, 1, step=step).probabilities == listed
        assert exponential(np.array([7, 3, 0], dtype=np.uint8), 2, 1, step=step).probabilities == listed
        assert exponential({"a": 7, "b": 3, "c": 0}, 2, 1, step=step).probabilities == listed
    floats = exponential([0.7, 0.3, 0.0], 0.1, 1).probabilities
    assert exponential(np.array([0.7, 0.3, 0.0]), 0.1, 1).probabilities == floats
    assert exponential({0.1: 0.7, 0.2: 0.3, 0.3: 0.0}, 0.1, 1).probabilities == floats
    assert floats[0] > floats[1] > floats[2]
    broken = exponential(np.array([1.0, np.nan, -np.inf]), 1, 20, step=0.1).probabilities
    assert broken[0] > Fraction(99, 100)
    extremes = exponential(np.array([2**62, -(2**62) - 5, 2**62 - 1]), 1, 1)
    assert extremes.probabilities[0] > extremes.probabilities[2] > extremes.probabilities[1]
    assert exponential([10**400, 0], 1, 1).sample() == 0


def test_ties_of_many_coins_are_broken_exactly() -> None:
    """The digits of chances next to a whole number of 2^-16, where floats cannot tell."""
    ratio = Fraction(2**20 - 1, 2**20)
    powers = np.array([0, 1, 15, 16, 17, 1000, 10**6])
    digits = _compute_power_digits(ratio, powers)
    assert digits[:-1].tolist() == [int(2**16 * ratio ** int(power)) for power in powers[:-1]]
    # The largest has 20 million digits: an interval that holds it is enough.
    last = 2**16 * (iv.mpf(ratio.numerator) / ratio.denominator) ** 10**6
    assert digits[-1] == int(last.a) == int(last.b)
    near_one = 1 - Fraction(1, 2**48)
    assert _compute_power_digits(near_one, np.array([0, 1, 2**30, 2**33])).tolist() == [
        build_power_chance(near_one, power).digits(16) for power in (0, 1, 2**30, 2**33)
    ]
    for digit in range(1, 2**16, 97):
        assert _compute_power_digits(Fraction(digit, 2**16), np.array([1])).tolist() == [digit]
    word = int(digits[5]).to_bytes(2, "little")
    rest = build_power_chance(ratio, 1000).digits(80) % 2**64
    assert flip_power_coins(ratio, powers[5:6], ScriptedEntropy(word + (rest - 1).to_bytes(8, "big")))[0]
    assert not flip_power_coins(ratio, powers[5:6], ScriptedEntropy(word + (rest + 1).to_bytes(8, "big")))[0]


def test_exact_laws_of_sparse_scores_are_quick_and_of_too_many_are_refused() -> None:
    law = exponential([0, 2000], 1, 1)
    assert law.probabilities[0] < Fraction(1, 10**300)
    with pytest.raises(Unsupported, match="floats"):
        _ = exponential(list(range(5000)), 1, 1).probabilities
    assert "0." not in repr(law)
    assert "not shown" in repr(law)


def test_fractions_of_a_score_count() -> None:
    """Floored to the step."""
    coarse = exponential([0.5, 1.5, 0.49], 1, 1, step=0.25).probabilities
    assert coarse[2] < coarse[0] < coarse[1]
    assert exponential([0.5, 1.5, 0.49], 1, 1, step=0.5).probabilities[2] < coarse[2]


def test_large_scores_are_floored_to_a_public_step() -> None:
    """A sensitivity in the millions: a thousand steps per spread are enough, and still lose epsilon exactly."""
    scores, moved_scores = [0, 5_000_000, 9_000_001], [999_999, 4_000_000, 10_000_000]
    selection = Selection.of(1, 10**6)
    assert selection.step == 2 * 10**6 // 1024
    assert selection.spread == 2 * -(-(10**6) // selection.step)
    law = exponential(scores, 10**6, 1).law()
    worst = worst_ratio(law, exponential(moved_scores, 10**6, 1).law())
    assert worst is not None
    assert worst <= exp_below(Fraction(1), 80)
    assert exponential(np.array(scores), 10**6, 1).law() == law


def test_enormous_sensitivities_are_no_trouble() -> None:
    assert exponential(np.array([1, 2, 3]), 10**300, 1).sample() in {0, 1, 2}


@pytest.mark.parametrize("epsilon", [1e-3, 1e-9, 1e-18])
def test_very_small_epsilons_are_no_trouble(epsilon: float) -> None:
    """Neither time, nor memory, nor a division by zero."""
    scores = np.array([0, -(10**6), -5])
    law = exponential(scores, 1, epsilon)
    assert law.sample() in {0, 1, 2}
    assert sum(law.floats()) == pytest.approx(1)
    flips = PermuteAndFlip(Selection.of(epsilon, 1))
    assert flips.sample_position(flips.compute_levels(scores), SYSTEM) in {0, 1, 2}
    assert flips.selection.compute_score_bound(0.9, 0.5) > 0


def test_a_tiny_epsilon_returns_the_prior() -> None:
    prior = Prior.weights(dict(zip(DISEASES, (1, 2, 3, 4), strict=True)))
    law = exponential(dict(zip(DISEASES, (24, 8, 28, 5), strict=True)), 1, 1e-30, prior)
    assert law.probabilities == prior.probabilities
    assert PermuteAndFlip(Selection.of(1e-30, 1)).answer([5, 0]) in {0, 1}
    assert Selection.of(1e-30, 1).compute_score_bound(0.9, 0.5) == float("inf")


def test_costs() -> None:
    assert (
        Exponential(Selection.of(0.5, 1))
        .cost("replace-one")
        .words()
        .startswith("Differential privacy with epsilon 0.5")
    )
    assert PermuteAndFlip(Selection.of(0.5, 1)).cost().epsilon == Fraction(1, 2)
    assert Exponential(Selection.of(0.5, 1)).answer({"only": 3}) == "only"


@pytest.mark.parametrize(
    "call",
    [
        lambda: exponential(5, 1, 1),
        lambda: exponential("abc", 1, 1),
        lambda: exponential(np.zeros((2, 2), dtype=int), 1, 1),
        lambda: exponential([1, 2], 1, 1, prior=[0.5, 0.5]),
        lambda: PermuteAndFlip([1, 2, 3]),
        lambda: Exponential("x"),
        lambda: Selection(Fraction(1), Fraction(1), Fraction(1, 2)),
        lambda: Selection(1.0, Fraction(1), 2),
        lambda: exponential([0.5, 1.5], 1, 1),
        lambda: exponential([], 1, 1),
        lambda: exponential({}, 1, 1),
        lambda: exponential(np.array([], dtype=int), 1, 1),
        lambda: exponential([1, 2], 0, 1),
        lambda: exponential([1, 2], 1, 0),
        lambda: exponential([1, 2], 1, 1, bounded_range=0),
        lambda: exponential([1, 2, 3], 1, 1, prior=Prior.uniform(0, 1)),
        lambda: exponential({"a": 1}, 1, 1, prior=Prior.weights({"a": 1, "b": 1})),
        lambda: Selection.of(1, 1).compute_score_bound(1.0, 0.5),
    ],
)
def test_bad_choices_are_refused(call) -> None:
    with pytest.raises(InvalidInput):
        call()


def test_large_laws_are_not_written_out() -> None:
    with pytest.raises(Unsupported):
        PermuteAndFlip(Selection.of(1, 1)).probabilities(range(201))
