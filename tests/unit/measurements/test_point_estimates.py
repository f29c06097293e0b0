"""From noisy totals to numbers: the exact number is found from exact totals, and the span always holds it."""

from __future__ import annotations

import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.estimation.noisy_totals import Estimate, Linear, MeanFromCenter, MeanOfPair, Variance

LOWER, UPPER, STEP = -3, 5, Fraction(1, 2)
WIDTH = UPPER - LOWER
ST_ROWS = st.lists(st.integers(LOWER, UPPER), min_size=2, max_size=6)
ST_SLACK = st.tuples(*[st.integers(0, 40)] * 6)


def sum_ends(rows: list[int]) -> list[int]:
    return [sum(k - LOWER for k in rows), sum(UPPER - k for k in rows)]


def sum_from_center(rows: list[int]) -> list[int]:
    return [sum(2 * k - LOWER - UPPER for k in rows), len(rows)]


def sum_squares(rows: list[int]) -> list[int]:
    shifted = [2 * k - LOWER - UPPER for k in rows]
    return [len(rows), sum(shifted), sum(2 * d * d - WIDTH**2 for d in shifted)]


def compute_mean(rows: list[int]) -> Fraction:
    return Fraction(sum(rows), len(rows)) * STEP


def compute_variance(rows: list[int]) -> Fraction:
    return statistics.variance([k * STEP for k in rows])


def widen_totals(totals: list[int], slack: tuple[int, ...]) -> list[tuple[Fraction, Fraction]]:
    ends = zip(totals, slack[:3], slack[3:], strict=False)
    return [(Fraction(total - low), Fraction(total + high)) for total, low, high in ends]


def is_inside_estimate(estimate: Estimate, totals: list[int], slack: tuple[int, ...], exact: Fraction) -> bool:
    low, high = estimate.value_range(widen_totals(totals, slack))
    return low <= exact <= high


@given(ST_ROWS, ST_SLACK)
def test_a_mean_of_a_pair_of_sums(rows: list[int], slack: tuple[int, ...]) -> None:
    estimate = MeanOfPair(LOWER, UPPER, STEP)
    assert estimate.value(sum_ends(rows)) == compute_mean(rows)
    assert is_inside_estimate(estimate, sum_ends(rows), slack, compute_mean(rows))


@given(ST_ROWS, ST_SLACK)
def test_a_mean_from_a_centred_sum(rows: list[int], slack: tuple[int, ...]) -> None:
    estimate = MeanFromCenter(LOWER, UPPER, STEP)
    assert estimate.value(sum_from_center(rows)) == compute_mean(rows)
    assert is_inside_estimate(estimate, sum_from_center(rows), slack, compute_mean(rows))


@given(ST_ROWS, ST_SLACK)
def test_a_mean_over_a_public_number_of_rows(rows: list[int], slack: tuple[int, ...]) -> None:
    ends = LOWER * STEP, UPPER * STEP
    estimate = Linear(STEP / len(rows), LOWER * STEP, ends)
    totals = [sum(k - LOWER for k in rows)]
    assert estimate.value(totals) == compute_mean(rows)
    assert is_inside_estimate(estimate, totals, slack, compute_mean(rows))


@given(ST_ROWS, ST_SLACK, st.booleans())
def test_a_variance(rows: list[int], slack: tuple[int, ...], public: bool) -> None:
    public_rows = len(rows) if public else None
    estimate, totals = Variance(WIDTH, STEP, public_rows), sum_squares(rows)[1 if public else 0 :]
    assert estimate.value(totals) == compute_variance(rows)
    assert is_inside_estimate(estimate, totals, slack, compute_variance(rows))
    root = Variance(WIDTH, STEP, public_rows, root=True)
    assert float(root.value(totals)) == pytest.approx(float(compute_variance(rows)) ** 0.5)


@given(st.lists(st.integers(-1000, 1000), min_size=3, max_size=3))
def test_noise_of_any_size_gives_a_possible_number(totals: list[int]) -> None:
    """A noisy count below 1 gives the midpoint, a noisy sum beyond its bounds a bound; never an error."""
    for estimate, count in ((MeanOfPair(LOWER, UPPER, STEP), 2), (MeanFromCenter(LOWER, UPPER, STEP), 2)):
        assert LOWER * STEP <= estimate.value(totals[:count]) <= UPPER * STEP
    assert MeanFromCenter(LOWER, UPPER, STEP).value([7, 0]) == Fraction(LOWER + UPPER, 2) * STEP
    assert 0 <= Variance(WIDTH, STEP).value(totals) <= Fraction(WIDTH**2, 2) * STEP**2


def test_a_column_of_one_value_has_that_mean() -> None:
    assert MeanOfPair(4, 4, STEP).value([0, 0]) == 2
    assert MeanFromCenter(4, 4, STEP).value([9, 3]) == 2
