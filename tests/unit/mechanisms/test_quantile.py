"""Quantiles by rank: scores, exact loss on all small tables, ties, order, bounds in ranks."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import InvalidInput, Prior
from discreet.mechanisms import PermuteAndFlip, Quantile, Quantiles
from discreet.mechanisms.quantile import (
    MIN_ORDER_GAP,
    SLOTS,
    SplitDistribution,
    coarsen_order,
    compute_rank_scores,
    lighten_mass,
    split_counts,
)
from discreet.mechanisms.sensitivity import rank_score_sensitivity
from discreet.numeric import exp_below
from discreet.verification import all_neighbors, all_tables, chi_square_excess, neighbor_tables, worst_ratio

st_orders = st.sampled_from([Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(2, 3), Fraction(9, 10)])
st_rows = st.integers(0, 6)


def count_rows(table) -> np.ndarray:
    return np.bincount(np.array(list(table), dtype=int), minlength=7)


def compute_rank_distance(table: list[int], point: int, q: Fraction) -> Fraction:
    """How many rows a point is from being a q-quantile, from the definition."""
    below, upto = sum(x < point for x in table), sum(x <= point for x in table)
    return max(Fraction(0), below - q * len(table), q * len(table) - upto)


@given(st.lists(st_rows, max_size=12), st_orders)
def test_scores_count_ranks(table: list[int], q: Fraction) -> None:
    scores = compute_rank_scores(count_rows(table), q)
    assert [max(Fraction(-int(s), q.denominator), Fraction(0)) for s in scores] == [
        compute_rank_distance(table, point, q) for point in range(7)
    ]


def test_many_ties_leave_their_neighbours_far_behind() -> None:
    """Of 101 rows, 41 at the median: 20 ranks are to spare, and a neighbour is 21 ranks off."""
    table = count_rows([1] * 30 + [2] * 41 + [3] * 30)
    assert (compute_rank_scores(table, Fraction(1, 2))[1:4] == [-41, 41, -41]).all()


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
@given(data=st.data())
def test_scores_move_by_at_most_their_sensitivity(neighbors: str, data: st.DataObject) -> None:
    """Property of every pair of neighbours, exactly."""
    q = data.draw(st_orders)
    one, two = data.draw(neighbor_tables(st_rows, neighbors))
    moved = np.abs(compute_rank_scores(count_rows(one), q) - compute_rank_scores(count_rows(two), q))
    assert moved.max() <= rank_score_sensitivity(q, neighbors)


@pytest.mark.parametrize("prior", [None, Prior.weights({0: 1, 1: 4, 2: 1})])
@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_the_median_of_all_small_tables(neighbors: str, prior: Prior | None) -> None:
    """Exact laws of permute-and-flip and of the exponential mechanism under all neighbours."""
    median = Quantile.of(0.5, 0, 2, 1, neighbors=neighbors, prior=prior)
    limit = exp_below(Fraction(1), 80)

    def list_laws(table: tuple) -> list[dict]:
        counts = np.bincount(np.array(table, dtype=int), minlength=3)
        flips = PermuteAndFlip(median.selection).probabilities(compute_rank_scores(counts, median.q))
        return [median.distribution(counts).law(), dict(enumerate(flips))]

    for table in [t for size in range(4) for t in all_tables(range(3), size)]:
        for other in all_neighbors(table, range(3), neighbors):
            for one, two in zip(list_laws(table), list_laws(other), strict=True):
                worst = worst_ratio(one, two)
                assert worst is not None
                assert worst <= limit


def compute_joint_law(mechanism: Quantiles, counts: np.ndarray) -> dict:
    """The exact joint law of all the quantiles, by going through every split."""

    def split(part_counts, span, wanted, ends) -> dict:
        if not wanted:
            return {(): Fraction(1)}
        middle, lower, upper = mechanism.choose_split_order(wanted, ends)
        node = mechanism.split_distribution(part_counts, span, coarsen_order((middle - ends[0]) / (ends[1] - ends[0])))
        if node.base is None:
            chances = PermuteAndFlip(node.selection).probabilities(node.scores)
        else:
            chances = node.build_exponential().probabilities
        law = defaultdict(Fraction)
        for index, chance in enumerate(chances):
            position, slot = node.get_cell(index)
            left, right = split_counts(part_counts, position, slot)
            lefts = split(left, (span[0], position), lower, (ends[0], middle))
            rights = split(right, (position, span[1]), upper, (middle, ends[1]))
            released = (position,) if middle in wanted else ()
            for (low, p), (high, r) in product(lefts.items(), rights.items()):
                law[(*low, *released, *high)] += chance * p * r
        return law

    return split(counts, (0, mechanism.candidates.count - 1), mechanism.orders, (Fraction(0), Fraction(1)))


@pytest.mark.parametrize("prior", [None, Prior.weights({0: 2, 1: 1})])
@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
@pytest.mark.parametrize("orders", [(0.25, 0.5, 0.75), (0.25, 0.75)])
def test_several_quantiles_of_all_small_tables(orders: tuple, neighbors: str, prior: Prior | None) -> None:
    """Their joint law, every split enumerated, loses epsilon at most; and never falls out of order."""
    quartiles = Quantiles.of(orders, 0, 1, 1, neighbors=neighbors, prior=prior)
    laws = {}
    for zeros, ones in product(range(4), repeat=2):
        laws[zeros, ones] = compute_joint_law(quartiles, np.array([zeros, ones]))
        assert sum(laws[zeros, ones].values()) == 1
        assert all(list(values) == sorted(values) for values in laws[zeros, ones])
    for (zeros, ones), law in laws.items():
        others = [(zeros + 1, ones), (zeros, ones + 1)] if neighbors == "add-remove" else [(zeros - 1, ones + 1)]
        for other in filter(laws.__contains__, others):
            worst = worst_ratio(law, laws[other])
            assert worst is not None
            assert worst <= exp_below(Fraction(1), 80)


def count_questions(several: Quantiles, orders: tuple, low: Fraction, high: Fraction) -> int:
    """How many of them a row can be part of, as the rows are parted."""
    if not orders:
        return 0
    middle, lower, upper = several.choose_split_order(orders, (low, high))
    return 1 + max(count_questions(several, lower, low, middle), count_questions(several, upper, middle, high))


@pytest.mark.parametrize("apart", [Fraction(0), MIN_ORDER_GAP, Fraction(1)])
@pytest.mark.parametrize("spread", [1, 40])
def test_no_row_is_part_of_more_questions_than_there_are_depths(
    apart: Fraction, spread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the rows are parted halfway between two orders: always, never, or where these are far apart."""
    monkeypatch.setattr("discreet.mechanisms.quantile.MIN_ORDER_GAP", apart)
    for many in range(1, 40):
        orders = tuple(Fraction(place + 1, many * spread + 1) for place in range(many))
        several = Quantiles.of(orders, 0, 9, 1)
        assert count_questions(several, orders, Fraction(0), Fraction(1)) == several.depth == many.bit_length()


def test_rows_are_parted_halfway_where_two_orders_are_far_apart() -> None:
    """And nowhere else: near each other they would be far out in their halves, and a prior may exclude the point."""
    near, far = ((Fraction(1, 2) - gap, Fraction(1, 2) + gap) for gap in (Fraction(1, 10), Fraction(1, 4)))
    everything = Fraction(0), Fraction(1)
    assert Quantiles.of(far, 0, 9, 1).choose_split_order(far, everything) == (Fraction(1, 2), far[:1], far[1:])
    assert Quantiles.of(near, 0, 9, 1).choose_split_order(near, everything) == (near[1], near[:1], ())
    quantiles_with_prior = Quantiles.of(far, 0, 9, 1, prior=Prior.weights(dict.fromkeys((2, 7), 1)))
    assert quantiles_with_prior.choose_split_order(far, everything) == (far[1], far[:1], ())


def test_a_right_prior_is_not_in_the_way_of_the_rows() -> None:
    """One that excludes the median, which is not asked for, and not the quartiles."""
    prior = Prior.weights(dict.fromkeys((*range(20, 31), *range(70, 81)), 1))
    quartiles = Quantiles.of((0.25, 0.75), 0, 99, 1, prior=prior)
    low, high = quartiles.answer_counts(np.full(100, 1000))
    assert abs(low - 25) <= 2
    assert abs(high - 75) <= 2


def test_two_quartiles_are_medians_of_halves() -> None:
    """Of a skewed column they stray to its empty end far less often than the greater of them asked first would."""
    lower_half, upper_half = np.zeros((2, 40), dtype=np.int64)
    lower_half[:10], upper_half[5:10] = 100, 100
    quartiles = Quantiles.of((0.25, 0.75), 0, 39, Fraction(1, 10))
    first = quartiles.split_distribution(lower_half, (0, 39), Fraction(3, 4))
    second = quartiles.split_distribution(upper_half, (5, 39), Fraction(1, 2))
    astray = [compute_chance_beyond(law, 10) for law in (first, second)]
    assert astray[1] < astray[0] / 10


def compute_chance_beyond(law: SplitDistribution, place: int) -> float:
    far = np.repeat(law.places, SLOTS + 1) >= place
    return float(np.array(law.build_exponential().floats())[far].sum())


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_four_quantiles_with_splits_that_are_not_told(neighbors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested ones: all seven questions, by their exact joint law on the smallest tables."""
    monkeypatch.setattr("discreet.mechanisms.quantile.MIN_ORDER_GAP", Fraction(0))
    monkeypatch.setattr("discreet.mechanisms.quantile.SLOTS", 1)
    several = Quantiles.of((0.1, 0.4, 0.6, 0.9), 0, 1, 1, neighbors=neighbors)
    laws = {table: compute_joint_law(several, np.array(table)) for table in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0))}
    assert all(sum(law.values()) == 1 for law in laws.values())
    pairs = {"add-remove": [((0, 0), (1, 0)), ((1, 0), (1, 1)), ((0, 1), (1, 1)), ((1, 0), (2, 0))]}
    for one, two in pairs.get(neighbors, [((1, 0), (0, 1)), ((2, 0), (1, 1))]):
        worst = worst_ratio(laws[one], laws[two])
        assert worst is not None
        assert worst <= exp_below(Fraction(1), 80)


@pytest.mark.parametrize(("neighbors", "halves"), [("add-remove", 1), ("replace-one", 2)])
@pytest.mark.parametrize("units", [1, 3])
def test_every_question_of_several_gets_its_share(neighbors: str, halves: int, units: int) -> None:
    """epsilon over the depths, halved where a replaced row touches two of them, at the sensitivity of all its rows."""
    several = Quantiles.of((0.2, 0.4, 0.6, 0.8), 0, 30, Fraction(3, 2), neighbors=neighbors, rows_per_unit=units)
    counts = np.full(31, 5)
    for q in (Fraction(1, 2), Fraction(2, 3)):
        node = several.split_distribution(counts, (0, 30), q)
        assert node.selection.epsilon * several.depth * halves == several.epsilon
        assert node.selection.spread * node.selection.step >= 2 * units * max(q.numerator, q.denominator - q.numerator)
    # Where scores are floored, each row's change is rounded up by itself, in whichever question it falls.
    coarse_one = Quantiles.of((0.5,), 0, 30, 1, rows_per_unit=units).split_distribution(
        counts, (0, 30), Fraction(3333, 10000)
    )
    assert coarse_one.selection.step > 1
    assert coarse_one.selection.spread == 2 * units * -(-6667 // coarse_one.selection.step)


@pytest.mark.parametrize("units", [1, 2])
def test_a_question_loses_its_share_and_nearly_all_of_it(units: int) -> None:
    """One split among many points, a unit's rows added: exactly within its share, and above 0.85 of it."""
    several = Quantiles.of((0.5,), 0, 40, 1, rows_per_unit=units)
    counts = np.zeros(41, dtype=np.int64)
    counts[20] = 40
    larger = counts.copy()
    larger[40] += units
    laws = [
        several.split_distribution(counts_, (0, 40), Fraction(1, 2)).build_exponential().law()
        for counts_ in (counts, larger)
    ]
    worst = worst_ratio(*laws)
    assert worst is not None
    assert exp_below(Fraction(85, 100)) < worst <= exp_below(Fraction(1), 80)


def test_priors_keep_their_shape_among_several() -> None:
    """Only masses too large to be repeated are rounded; none that is positive becomes 0, and none of 0 positive."""
    assert lighten_mass(np.array([1, 3, 12, 0])).tolist() == [1, 3, 12, 0]
    heavy = lighten_mass(np.array([2**60, 2**59, 1, 0]))
    assert heavy[0] == 2 * heavy[1]
    assert heavy[2:].tolist() == [1, 0]
    prior = Prior.weights({0: 1, 1: 3, 2: 12, 3: 1})
    node = Quantiles.of((0.25, 0.75), 0, 3, 1, prior=prior).split_distribution(
        np.zeros(4, dtype=np.int64), (0, 3), Fraction(1, 2)
    )
    assert node.base is not None
    assert node.base[:: SLOTS + 1].tolist() == [1, 3, 12, 1]


def test_orders_of_any_denominator_are_no_trouble() -> None:
    """Nested orders are rounded to four digits: time, memory and errors do not follow the rows."""
    wanted = [Fraction(*pair) for pair in ((1, 999983), (333331, 999983), (400003, 999979), (800011, 999931))]
    several = Quantiles.of(wanted, 0, 20, 8)
    for size in (0, 1, 5, 100, 10**9):
        counts = np.zeros(21, dtype=np.int64)
        counts[10] = size
        assert len(several.answer_counts(counts)) == 4
    assert coarsen_order(Fraction(1, 10**9)) == Fraction(1, 10**4)
    fine = Quantile.of(0.123457, 0, 1000, 1)
    many = np.zeros(1001, dtype=np.int64)
    many[::2] = 10**6
    assert abs(int(fine.answer_counts(many)) - 123) <= 3


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.int64, np.uint64])
def test_counts_of_any_whole_type(dtype: type) -> None:
    """Unsigned and short words come to the same."""
    counts = np.array([0, 0, min(np.iinfo(dtype).max, 2**63), 0, 0], dtype=dtype)
    assert Quantile.of(0.5, 0, 4, 20).answer_counts(counts) == 2
    assert Quantiles.of((0.4, 0.6), 0, 4, 40).answer_counts(counts) == [2, 2]


@given(st.lists(st_rows, max_size=20), st_rows, st.integers(0, SLOTS), st_rows)
def test_one_more_row_is_one_more_row_on_one_side(table: list[int], point: int, slot: int, extra: int) -> None:
    """What makes the questions at one depth about disjoint rows, ties included."""
    one, two = split_counts(count_rows(table), point, slot), split_counts(count_rows([*table, extra]), point, slot)
    grown = [int(after.sum() - before.sum()) for before, after in zip(one, two, strict=True)]
    assert sorted(grown) == [0, 1]
    assert all((after >= before).all() for before, after in zip(one, two, strict=True))


def test_answers_are_near_the_truth() -> None:
    """Within the bound in ranks at the stated confidence, ties and all."""
    generator = np.random.Generator(np.random.PCG64(7))
    table = np.clip(generator.normal(40, 12, 4000), 17, 90).astype(int)
    for q in (0.1, 0.5, 0.9):
        mechanism = Quantile.of(q, 17, 90, 0.5)
        counts = mechanism.candidates.count_values(table)
        bound = mechanism.rank_bound(0.99)
        misses = 0
        for _ in range(200):
            answer = mechanism.answer_counts(counts)
            below, upto = (table < answer).sum(), (table <= answer).sum()
            misses += max(0, below - q * 4000, q * 4000 - upto) >= bound
        assert misses <= 12


def test_several_answers_are_near_the_truth_and_rising() -> None:
    generator = np.random.Generator(np.random.PCG64(8))
    table = np.clip(generator.normal(40, 12, 20_000), 17, 90).astype(int)
    wanted = (0.1, 0.25, 0.5, 0.75, 0.9)
    for prior in (None, Prior.normal(40, 15, 17, 90)):
        mechanism = Quantiles.of(wanted, 17, 90, 1, prior=prior)
        assert mechanism.depth == 3
        for _ in range(20):
            answers = mechanism.answer(table)
            assert answers == sorted(answers)
            assert np.abs(np.array(answers) - np.quantile(table, wanted)).max() <= 2


@pytest.mark.parametrize("prior", [None, Prior.weights({0: 1, 2: 6, 3: 1, 6: 2})])
def test_answers_are_drawn_by_the_law_that_was_proven(prior: Prior | None) -> None:
    """Of the scores and the prior, and of nothing else: rows that are there weigh nothing of their own."""
    mechanism, value_counts = Quantile.of(0.5, 0, 6, 1, prior=prior), count_rows([1, 1, 1, 1, 5])
    exact = mechanism.distribution(value_counts).law()
    if prior is None:
        chances = PermuteAndFlip(mechanism.selection).probabilities(compute_rank_scores(value_counts, mechanism.q))
        exact = dict(enumerate(chances))
    value_frequencies = Counter(int(mechanism.answer_counts(value_counts)) for _ in range(5000))
    assert chi_square_excess(value_frequencies, lambda value: float(exact.get(value, 0))) <= 0


def test_heavy_ties_do_no_harm() -> None:
    """Nine tenths of the rows at one value: all quartiles are there."""
    counts = np.array([50, 900, 50])
    for _ in range(20):
        assert Quantiles.of((0.25, 0.5, 0.75), 0, 2, 2).answer_counts(counts) == [1, 1, 1]


def test_the_prior_is_the_base_measure() -> None:
    """With no rows the answer is a draw from the prior; where the prior is zero no answer falls."""
    prior = Prior.weights({1: 1, 4: 3})
    mechanism = Quantile.of(0.5, 0, 6, 1, prior=prior)
    assert mechanism.distribution(np.zeros(7, dtype=np.int64)).law() == {1: Fraction(1, 4), 4: Fraction(3, 4)}
    assert {mechanism.answer([0, 6, 6]) for _ in range(50)} <= {1, 4}
    several = Quantiles.of((0.3, 0.6), 0, 6, 1, prior=prior)
    assert {value for _ in range(30) for value in several.answer([0, 6, 6])} <= {1, 4}


def test_values_become_counts() -> None:
    """Floored to the grid, clamped, NaN left out; never an error."""
    candidates = Quantile.of(0.5, 0, 1, 1, step=0.25).candidates
    assert candidates.count_values([0, 0.24, 0.25, 1, 7, -3, float("nan"), float("inf")]).tolist() == [3, 1, 0, 0, 3]
    assert candidates.count_values([]).tolist() == [0] * 5
    assert candidates.count_values(["1", b"1", 1j, np.complex128(1), 1e308, -1e308]).tolist() == [1, 0, 0, 0, 1]
    one, two = [0.25, "x", 10**400, Fraction(1, 2), None], [0.25, 1, 10**400, Fraction(1, 2), None]
    assert (candidates.count_values(two) - candidates.count_values(one)).tolist() == [0, 0, 0, 0, 1]


@settings(max_examples=20)
@given(st.integers(1, 4))
def test_rows_per_unit_multiply_the_noise(units: int) -> None:
    one, many = Quantile.of(0.5, 0, 9, 1), Quantile.of(0.5, 0, 9, 1, rows_per_unit=units)
    assert many.selection.spread == units * one.selection.spread
    assert many.cost() == one.cost()
    assert Quantiles.of((0.5,), 0, 9, 1, rows_per_unit=units).cost() == one.cost()


@pytest.mark.parametrize(
    "call",
    [
        lambda: Quantile.of(0, 0, 9, 1),
        lambda: Quantile.of(1, 0, 9, 1),
        lambda: Quantile.of(0.1234567, 0, 9, 1),
        lambda: Quantile.of(0.5, 9, 0, 1),
        lambda: Quantile.of(0.5, 0, 10**7, 1),
        lambda: Quantile.of(0.5, 0, 9, 0),
        lambda: Quantile.of(0.5, 0, 9, "1"),
        lambda: Quantile.of(0.5, 0, 9, 1, rows_per_unit=0),
        lambda: Quantile.of(0.5, 0, 9, 1, neighbors="any"),
        lambda: Quantile.of(0.5, 0, 9, 1, prior=Prior.weights({"a": 1})),
        lambda: Quantile.of(0.5, 0, 9, 1, prior=Prior.uniform(20, 30)),
        lambda: Quantile.of(0.5, 0, 9, 1, prior=Prior.uniform(0, 9, step=0.5)),
        lambda: Quantile.of(0.5, 0, 9, 1, prior="normal(38, 6)"),
        lambda: Quantile.of(0.5, 0, 9, 1).answer_counts([17, 17, 17]),
        lambda: Quantile.of(0.5, 0, 9, 1).answer_counts(np.zeros(10)),
        lambda: Quantile.of(0.5, 0, 9, 1).distribution(np.array([1, 2])),
        lambda: Quantile.of(0.5, 0, 9, 1).answer(np.zeros((2, 2))),
        lambda: Quantiles.of(0.5, 0, 9, 1),
        lambda: Quantile.of(0.5, 0, 9, 1).answer(5),
        lambda: Quantiles.of((), 0, 9, 1),
        lambda: Quantiles.of((0.5, 0.5), 0, 9, 1),
        lambda: Quantiles.of((0.7, 0.5), 0, 9, 1),
    ],
)
def test_bad_quantiles_are_refused(call) -> None:
    with pytest.raises(InvalidInput):
        call()
