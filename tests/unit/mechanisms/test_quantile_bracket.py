"""A value interval for a quantile: exact laws on all neighbours of small tables, coverage on every kind of table."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidInput, Unsupported
from discreet.mechanisms.quantile import Bracket
from discreet.mechanisms.sensitivity import rank_score_sensitivity
from discreet.numeric import exp_above
from discreet.verification import all_neighbors, all_tables, neighbor_tables, worst_ratio

POINTS = 4
ORDERS = [Fraction(1, 10), Fraction(1, 2), Fraction(2, 3)]


def count_points(table, points: int = POINTS) -> np.ndarray:
    return np.bincount(np.array(list(table), dtype=int), minlength=points)


@cache
def compute_end_laws(bracket: Bracket, counts: tuple[int, ...]) -> list[list[Fraction]]:
    """The exact laws of the low and of the high end."""
    return [bracket.mechanism.probabilities(bracket.scores(np.array(counts), end)) for end in ("low", "high")]


def compute_float_law(bracket: Bracket, counts: np.ndarray, end: str) -> np.ndarray:
    """The law of one end: each candidate's coin times the mean of 1 / (1 + other heads), an integral over [0, 1]."""
    choice = bracket.mechanism
    coins = np.exp(-choice.selection.rate * choice.compute_levels(bracket.scores(counts, end)))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    heads = 1 - coins[None, :] * (1 - (nodes[:, None] + 1) / 2)
    others = np.exp(np.log(heads).sum(axis=1, keepdims=True) - np.log(heads))
    return coins * (weights / 2 @ others)


def list_quantiles(counts: np.ndarray, q: Fraction) -> list[int]:
    """Every q-quantile on the grid, from the definition."""
    upto = np.cumsum(counts)
    rank = q * int(counts.sum())
    return [index for index in range(len(counts)) if upto[index] - counts[index] <= rank <= upto[index]]


def compute_coverage(bracket: Bracket, counts: np.ndarray) -> float:
    """The chance that every quantile is between the two ends as they were drawn."""
    low, high = (compute_float_law(bracket, counts, end) for end in ("low", "high"))
    assert low.sum() == pytest.approx(1)
    least, most = min(list_quantiles(counts, bracket.q)), max(list_quantiles(counts, bracket.q))
    return float(low[: least + 1].sum() * high[most:].sum())


def build_small_bracket(q: Fraction, neighbors: str, rows: int = 1, off: int = 2) -> Bracket:
    """Aimed only a little outside, so that small tables differ where it matters."""
    return Bracket(q, POINTS, off, Fraction(1), choose_relation(neighbors), rows, Fraction(95, 100))


def choose_relation(neighbors: str):
    return "add-remove" if neighbors == "add-remove" else "replace-one"


@pytest.mark.parametrize("q", ORDERS)
@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_both_ends_of_all_small_tables_cost_epsilon(neighbors: str, q: Fraction) -> None:
    """The joint law of both ends on all neighbours, exactly; for targets inside, at the ends and beyond them."""
    for off in (0, 3, 12):
        bracket = build_small_bracket(q, neighbors, off=off)
        for table in [t for size in range(4) for t in all_tables(range(POINTS), size)]:
            for other in all_neighbors(table, range(POINTS), neighbors):
                assert compute_joint_end_ratio(bracket, count_points(table), count_points(other)) <= exp_above(
                    Fraction(1)
                )


def compute_joint_end_ratio(bracket: Bracket, one: np.ndarray, two: np.ndarray) -> Fraction:
    ratio = Fraction(1)
    sides = (compute_end_laws(bracket, tuple(map(int, counts))) for counts in (one, two))
    for mine, theirs in zip(*sides, strict=True):
        worst = worst_ratio(dict(enumerate(mine)), dict(enumerate(theirs)))
        assert worst is not None
        ratio *= worst
    return ratio


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_units_of_several_rows_cost_epsilon(neighbors: str) -> None:
    """Up to r rows come, or up to r go and up to r come."""
    bracket = build_small_bracket(Fraction(1, 2), neighbors, rows=2)
    units = [count_points(unit) for size in range(3) for unit in all_tables(range(POINTS), size)]
    rests = [count_points(rest) for size in range(3) for rest in all_tables(range(POINTS), size)]
    gone = units if neighbors == "replace-one" else [count_points(())]
    for rest, old, new in product(rests, gone, units):
        assert compute_joint_end_ratio(bracket, rest + old, rest + new) <= exp_above(Fraction(1))


def test_the_claim_is_not_loose() -> None:
    """Some neighbours use over half of epsilon, so half the noise would fail the tests above."""
    bracket = Bracket(Fraction(1, 2), 12, 6, Fraction(1), "add-remove", 1, Fraction(95, 100))
    worst = Fraction(1)
    for position in (0, 11):
        counts = np.zeros(12, dtype=np.int64)
        counts[5] = 20
        two = counts.copy()
        two[position] += 1
        worst = max(worst, compute_joint_end_ratio(bracket, counts, two))
    assert worst > exp_above(Fraction(1, 2))


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
@given(data=st.data())
def test_scores_move_by_at_most_their_sensitivity(neighbors: str, data: st.DataObject) -> None:
    """A shifted target and one-sided ends move no score further."""
    q, off = data.draw(st.sampled_from(ORDERS)), data.draw(st.integers(0, 60))
    bracket = build_small_bracket(q, neighbors, off=off)
    one, two = data.draw(neighbor_tables(st.integers(0, POINTS - 1), neighbors))
    for end in ("low", "high"):
        moved = np.abs(bracket.scores(count_points(one), end) - bracket.scores(count_points(two), end))
        assert moved.max() <= rank_score_sensitivity(q, neighbors)


@given(st.lists(st.integers(0, 6), max_size=30), st.sampled_from(ORDERS), st.integers(0, 100))
def test_some_point_is_always_right(table: list[int], q: Fraction, off: int) -> None:
    """What coverage rests on: whatever the rows, the best score is 0; and it is counted in ranks."""
    bracket = Bracket(q, 7, off, Fraction(1), "add-remove", 1, Fraction(95, 100))
    counts = count_points(table, 7)
    for end, sign in (("low", -1), ("high", 1)):
        aim = q * len(table) + Fraction(sign * off, q.denominator)
        upto = [sum(x <= index for x in table) for index in range(7)]
        below = [sum(x < index for x in table) for index in range(7)]
        by_hand = [
            max(
                Fraction(0),
                below[index] - aim if index else Fraction(0),
                aim - upto[index] if index < 6 else Fraction(0),
            )
            for index in range(7)
        ]
        assert [Fraction(-int(score), q.denominator) for score in bracket.scores(counts, end)] == by_hand
        assert min(by_hand) == 0


TABLES = {
    "empty": np.zeros(60),
    "one row": np.eye(60)[7],
    "one row at the end": np.eye(60)[59],
    "two far rows": np.eye(60)[0] + np.eye(60)[59],
    "all tied": 500 * np.eye(60)[31],
    "even": np.full(60, 40),
    "skewed": (2000 * 0.8 ** np.arange(60)).astype(int),
    "two heaps": 300 * np.eye(60)[10] + 300 * np.eye(60)[50],
    "two heaps, uneven": 301 * np.eye(60)[10] + 300 * np.eye(60)[50],
    "sparse": 5 * (np.arange(60) % 7 == 0),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_coverage_is_at_least_what_is_claimed(name: str, confidence: float) -> None:
    """By the law itself, for every quantile of the table, under both relations and for units of several rows."""
    counts = TABLES[name].astype(np.int64)
    for q in (Fraction(1, 100), Fraction(1, 2), Fraction(9, 10)):
        for epsilon, neighbors, rows in ((1, "add-remove", 1), (0.2, "replace-one", 3)):
            bracket = Bracket.of(q, 60, epsilon, neighbors, rows, confidence)
            assert compute_coverage(bracket, counts) >= confidence


def test_aiming_at_the_quantile_itself_would_not_cover() -> None:
    """The trap: without the shift the test above fails."""
    bracket = Bracket(Fraction(1, 2), 60, 0, Fraction(1), "add-remove", 1, Fraction(95, 100))
    assert compute_coverage(bracket, TABLES["even"].astype(np.int64)) < 0.5


def test_draws_are_in_order_cover_and_narrow_with_rows() -> None:
    """Measured: 300 draws cover at the stated rate, each end within the ranks told; more rows, a narrower interval."""
    generator = np.random.Generator(np.random.PCG64(3))
    widths = []
    for size in (500, 50_000):
        counts = count_points(np.clip(generator.lognormal(5, 0.7, size), 0, 999).astype(int), 1000)
        bracket, upto = Bracket.of(0.25, 1000, 2), np.cumsum(counts)
        truth, brackets = list_quantiles(counts, Fraction(1, 4)), [bracket.answer_counts(counts) for _ in range(300)]
        assert all(low <= high for low, high in brackets)
        assert sum(low <= truth[0] and truth[-1] <= high for low, high in brackets) >= 285
        assert sum(upto[low] > size / 4 - bracket.rank_bound() for low, _ in brackets) >= 285
        widths.append(np.median([high - low for low, high in brackets]))
    assert widths[1] < widths[0] / 4


def test_the_cost_and_bad_input() -> None:
    assert Bracket.of(0.5, 10, 0.5, "replace-one").cost().epsilon == Fraction(1, 2)
    with pytest.raises(InvalidInput, match="10 whole numbers"):
        Bracket.of(0.5, 10, 1).scores(np.zeros(9, dtype=np.int64), "low")
    with pytest.raises(InvalidInput, match="the confidence of an interval"):
        Bracket.of(0.5, 10, 1, confidence=1 - 1e-9)
    with pytest.raises(InvalidInput, match="order"):
        Bracket.of(1, 10, 1)
    with pytest.raises(Unsupported, match="too small"):
        Bracket.of(0.5, 10, 1e-14)
    fine = Bracket.of(0.123457, 10, 0.01, "replace-one", 1000)
    assert fine.mechanism.selection.step > 1
    brackets = [fine.answer_counts(np.zeros(10, dtype=np.int64)) for _ in range(30)]
    assert brackets.count((0, 9)) >= 20  # each is, but for one in 40
