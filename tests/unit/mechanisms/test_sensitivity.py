"""Sensitivities against brute force: all tables and neighbours of small worlds, units of several rows included."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidInput, Unsupported
from discreet.mechanisms.order_statistic import (
    BoundedGrid,
    compute_log_smooth_sensitivity,
    find_rank,
    local_sensitivity,
    smooth_sensitivity,
)
from discreet.mechanisms.sensitivity import global_sensitivity, histogram_sensitivity_squared, rank_score_sensitivity
from discreet.verification import all_neighbors, all_tables

VALUES = (-1, 0, 2)
ORDERS = ["min", "median", "second max", "max", ("quantile", Fraction(1, 4)), ("quantile", Fraction(2, 3))]
Unit = tuple[int, ...]


def compute_rank_score(below: int, equal: int, above: int, q: Fraction) -> int:
    """Minus b times how many ranks a candidate is from being the q-quantile, q = a/b: from the definition."""
    a, rest = q.numerator, q.denominator - q.numerator
    return -max(0, rest * below - a * (equal + above), a * above - rest * (below + equal))


def list_multisets(options: Sequence[object], sizes: Iterable[int]) -> list[tuple]:
    return list(chain.from_iterable(combinations_with_replacement(options, size) for size in sizes))


def compute_worst_unit_move(
    answer: Callable[[Sequence[Unit]], Sequence[float]], units: list[Unit], relation: str, norm: int
) -> int:
    """The largest move of the answer, to the power of the norm, when a unit joins or changes in any small table."""

    def measure_move(one: Sequence[float], two: Sequence[float]) -> float:
        return sum(abs(a - b) ** norm for a, b in zip(one, two, strict=True))

    worst = 0
    for others in list_multisets(units, (0, 1, 2)):
        answers = [answer([*others, unit]) for unit in units]
        before = [answer(others)] if relation == "add-remove" else answers
        worst = max(worst, *(measure_move(a, b) for a in before for b in answers))
    return worst


def flatten_units(units: Sequence[Unit]) -> list[int]:
    return list(chain.from_iterable(units))


ANSWERS = {
    "count": lambda units: [len(flatten_units(units))],
    "distinct": lambda units: [sum(bool(unit) for unit in units)],
    "sum": lambda units: [sum(flatten_units(units))],
    "histogram": lambda units: [flatten_units(units).count(value) for value in VALUES],
}


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("what", ANSWERS)
def test_additive_answers_move_as_far_as_claimed_and_no_further(what, rows, relation):
    """Up to r rows per unit, any of them filtered away: the claim is the exact worst case."""
    units = list_multisets(VALUES, range(rows + 1))
    claimed = global_sensitivity(what, -1, 2, neighbors=relation, rows_per_unit=rows)
    assert compute_worst_unit_move(ANSWERS[what], units, relation, 1) == claimed


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_the_squared_l2_move_of_a_histogram_is_tight(rows, relation):
    """The worst unit has all its rows in one cell."""
    units = list_multisets(VALUES, range(rows + 1))
    assert compute_worst_unit_move(ANSWERS["histogram"], units, relation, 2) == histogram_sensitivity_squared(
        relation, rows
    )


@pytest.mark.parametrize(("lower", "upper"), [(-1, 2), (1, 3), (-4, -2)])
def test_a_sum_over_every_row_moves_by_the_width(lower, upper):
    """Without filter or gaps, replacing one row moves the sum by U - L; with them, 0 is possible too."""
    rows = [(value,) for value in (lower, upper)]
    claimed = global_sensitivity("sum", lower, upper, "replace-one", every_row=True)
    assert compute_worst_unit_move(ANSWERS["sum"], rows, "replace-one", 1) == claimed == upper - lower
    with_gaps = global_sensitivity("sum", lower, upper, "replace-one")
    assert compute_worst_unit_move(ANSWERS["sum"], [*rows, ()], "replace-one", 1) == with_gaps


def test_every_row_does_not_help_a_unit_of_several_rows():
    """A unit with two rows may be replaced by one with one row, so 0 stays in the range."""
    assert global_sensitivity("sum", 1, 3, "replace-one", rows_per_unit=2, every_row=True) == 6


def list_changes(table: tuple[int, ...], domain: Sequence[int], rows: int) -> Iterable[tuple[int, ...]]:
    """The table with its last `rows` values replaced; tables run over all orders, so these are all changes."""
    return (table[: len(table) - rows] + new for new in product(domain, repeat=rows))


def compute_worst_change(
    answer: Callable[[tuple[int, ...]], Fraction], domain: Sequence[int], size: int, rows: int
) -> Fraction:
    tables = product(domain, repeat=size)
    return max(abs(answer(t) - answer(u)) for t in tables for u in list_changes(t, domain, rows))


@pytest.mark.parametrize(("size", "rows"), [(1, 1), (3, 1), (4, 2), (1, 2)])
def test_the_mean_of_a_public_number_of_rows_is_tight(size, rows):
    """r rows of n, each moved across the bounds; never more rows than there are."""
    worst = compute_worst_change(lambda table: Fraction(sum(table), size), VALUES, size, min(rows, size))
    assert worst == global_sensitivity("mean", -1, 2, "replace-one", rows, rows=size)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_variance_is_tight(size):
    """(U - L)^2 (n - 1) / n^2, also where one row leaves no variance at all."""

    def compute_table_variance(table: tuple[int, ...]) -> Fraction:
        mean = Fraction(sum(table), size)
        return sum((value - mean) ** 2 for value in table) / size

    assert compute_worst_change(compute_table_variance, VALUES, size, 1) == global_sensitivity(
        "variance", -1, 2, "replace-one", rows=size
    )


def compute_order_statistic(table: Sequence[int], what: object) -> int:
    return sorted(table)[find_rank(what, len(table)) - 1]


@pytest.mark.parametrize("what", ORDERS)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_an_order_statistic_can_cross_its_whole_range(what, relation):
    """Over all tables nothing better than U - L holds."""
    worst = 0
    for size in (2, 3, 4):
        for table in all_tables(VALUES, size):
            ours = compute_order_statistic(table, what)
            others = all_neighbors(table, VALUES, relation)
            worst = max(worst, *(abs(ours - compute_order_statistic(other, what)) for other in others))
    assert worst == 3 == global_sensitivity(what, -1, 2, relation)


@pytest.mark.parametrize("q", ["1/2", "1/3", "3/4"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_rank_score_is_tight(q, rows, relation):
    """Counts below, at and above a candidate; units of up to r rows join, leave or are exchanged."""
    units = [unit for unit in product(range(rows + 1), repeat=3) if sum(unit) <= rows]
    befores = [(0, 0, 0)] if relation == "add-remove" else units
    worst = 0
    for base in product(range(9), repeat=3):
        scores = {u: compute_rank_score(*(b + d for b, d in zip(base, u, strict=True)), Fraction(q)) for u in units}
        worst = max(worst, *(abs(scores[one] - scores[two]) for one in befores for two in units))
    assert worst == rank_score_sensitivity(Fraction(q), relation, rows)


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=9), st.fractions(Fraction(1, 9), Fraction(8, 9), max_denominator=9)
)
def test_the_rank_score_is_zero_exactly_at_quantiles(values, q):
    """The value at the quantile's place scores 0; a candidate scores 0 only with a share q on either side."""
    for candidate in range(7):
        below, above = sum(v < candidate for v in values), sum(v > candidate for v in values)
        score = compute_rank_score(below, len(values) - below - above, above, q)
        is_quantile = below <= q * len(values) <= len(values) - above
        assert (score == 0) == is_quantile
        assert is_quantile or compute_order_statistic(values, ("quantile", q)) != candidate


@pytest.mark.parametrize("what", ORDERS)
@pytest.mark.parametrize("group", [1, 2, 3])
def test_the_local_sensitivity_is_the_largest_move_from_this_table(what, group):
    """All tables of up to 4 values from 5 points, all tables at distance up to the group's size."""
    domain = (0, 1, 3, 4, 7)
    for size in (1, 2, 3, 4):
        tables = list(all_tables(domain, size))
        for table in tables:
            near = [other for other in tables if count_replacements(table, other) <= group]
            moved = max(
                abs(compute_order_statistic(other, what) - compute_order_statistic(table, what)) for other in near
            )
            assert local_sensitivity(table, what, 0, 7, group) == moved


def count_replacements(one: Sequence[int], two: Sequence[int]) -> int:
    """How many values must be replaced to get from one table to the other."""
    return len(one) - sum((Counter(one) & Counter(two)).values())


@pytest.mark.parametrize("what", ORDERS)
@pytest.mark.parametrize("beta", [0.05, 0.5, 2.0])
def test_the_smooth_sensitivity_is_its_definition(what, beta):
    """max over all tables y of LS(y) e^(-beta d), by brute force on a tiny domain."""
    domain = (0, 1, 3, 9)
    for size in (1, 2, 3, 4):
        tables = list(all_tables(domain, size))
        local = {table: local_sensitivity(table, what, 0, 9) for table in tables}
        for table in tables:
            expected = max(local[other] * math.exp(-beta * count_replacements(table, other)) for other in tables)
            assert smooth_sensitivity(table, what, 0, 9, beta) == pytest.approx(expected, rel=1e-12)


def compute_obvious_log_smooth(padded: Sequence[int], middle: int, beta: float) -> float:
    pairs = ((i, j) for i in range(middle + 1) for j in range(middle, len(padded)) if padded[j] > padded[i])
    return max(math.log(padded[j] - padded[i]) - beta * (j - i - 1) for i, j in pairs)


@given(
    st.lists(st.integers(0, 10**6) | st.sampled_from([0, 10**6, 5, 6, 7]), min_size=1, max_size=60),
    st.sampled_from(ORDERS),
    st.floats(1e-6, 20),
)
def test_the_fast_search_agrees_with_the_obvious_one(values, what, beta):
    """Divide and conquer with pruning against all pairs."""
    padded = np.array([0, *sorted(values), 10**6])
    middle = find_rank(what, len(values))
    assert compute_log_smooth_sensitivity(padded, middle, beta) == pytest.approx(
        compute_obvious_log_smooth(padded, middle, beta), abs=1e-12
    )


@pytest.mark.parametrize("beta", [1e-7, 1e-5, 0.01])
def test_a_million_values_agree_with_the_closed_form_of_the_maximum(beta):
    """For the maximum only two ends j matter, so one pass over i is a reference at full size."""
    values = np.sort(np.exp(np.random.default_rng(5).normal(3, 2, 1_000_000)).clip(0, 1e6))
    padded = np.concatenate(([0.0], values, [1e6]))
    with np.errstate(divide="ignore"):
        to_bound = np.log(padded[-1] - padded[:-1]) - beta * np.arange(1_000_000, -1, -1)
        to_top = np.log(padded[-2] - padded[:-1]) - beta * np.arange(999_999, -2, -1)
    expected = max(to_bound.max(), to_top.max())
    assert compute_log_smooth_sensitivity(padded, 1_000_000, beta) == pytest.approx(expected, abs=1e-11)
    assert smooth_sensitivity(values, "max", 0, 10**6, beta) == pytest.approx(math.exp(expected), rel=1e-9)


def test_golden_local_sensitivities():
    """Document 004's statistics at one table, with the indices corrected."""
    table = [1, 2, 4, 7, 9]
    assert [local_sensitivity(table, what, 0, 10) for what in ("median", "max", "second max")] == [3, 2, 3]


def test_local_sensitivities_are_exact_and_whole_numbers_stay_whole():
    """Integers give an int; Fractions, Decimals and floats are read by their decimal text."""
    assert isinstance(local_sensitivity([1, 5, 9], "median", 0, 10), int)
    assert local_sensitivity([Fraction(1, 3), Fraction(1, 2), 1], "median", 0, 1) == Fraction(1, 2)
    assert local_sensitivity([Decimal("0.1"), Decimal("0.3")], "min", 0, 1) == Fraction(1, 5)
    assert local_sensitivity(np.array([0.1, 0.3, 0.4]), "median", 0, 1) == Fraction(1, 5)
    assert local_sensitivity([Decimal("1e-999999999"), 3], "max", 0, 10) == 7
    assert local_sensitivity([2**80, 3], "min", 0, 2**90) == 2**80 - 3


@pytest.mark.parametrize("odd", [float("nan"), None, "secret", Decimal("sNaN"), -math.inf, -(10**400), 1j])
def test_what_is_no_number_counts_as_the_lower_bound(odd):
    """Silently: an error would tell that such a row is there."""
    for values in ([odd, 4, 9], np.array([odd, 4, 9], dtype=object)):
        assert local_sensitivity(values, "median", 0, 10) == 5
        assert smooth_sensitivity(values, "median", 0, 10, 5) == pytest.approx(5)
        assert BoundedGrid.of(0, 10).to_units(values).tolist() == [0, 4, 9]


@pytest.mark.parametrize("odd", ["secret", None, 0.5, True, Fraction(1, 3)])
def test_one_row_never_changes_what_the_others_become(odd):
    """numpy gives a list one type: a word among them made words of all, a float rounded the large integers."""
    grid = BoundedGrid.of(0, 2**61)
    others = [2**60 + 1, 7, 2.5]
    assert grid.to_units([*others, odd])[:3].tolist() == grid.to_units([*others, 1])[:3].tolist() == [2**60 + 1, 7, 2]
    assert local_sensitivity([odd, 2**60 + 1, 2**60 + 4], "max", 0, 2**60 + 5) == 3


def test_values_beyond_the_bounds_are_clamped():
    """Infinities and numbers too long for any format included."""
    for big in (math.inf, 10**400, 11, Decimal("1e999999")):
        assert local_sensitivity([1, 2, big], "max", 0, 10) == 8
        assert BoundedGrid.of(0, 10).to_units([1, 2, big]).tolist() == [1, 2, 10]
    assert BoundedGrid.of(0, 10).to_units(np.array([1, 2, 2**64 - 1], dtype=np.uint64)).tolist() == [1, 2, 10]
    assert BoundedGrid.of(0, 10).to_units(np.array([True, False])).tolist() == [1, 0]
    assert local_sensitivity(np.array([1, 2, np.longdouble("1e400")]), "max", 0, 10) == 8
    assert local_sensitivity(np.array([1, 2.5, 11], dtype=np.float16), "max", 0, 10) == 7.5


def test_floats_are_floored_to_the_grid_as_they_are_written():
    """0.3 is three steps of 0.1, although the floats' quotient is below 3."""
    assert BoundedGrid.of(0, 1, 0.1).to_units([0.3, 0.7, 0.29, 0.6, 1.0]).tolist() == [3, 7, 2, 6, 10]


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 99), min_size=1, max_size=9),
    st.fractions(Fraction(1, 50), 5, max_denominator=50),
)
def test_all_ways_to_the_grid_agree(values, step):
    """Vectorised integers against exact rationals, whatever the step."""
    grid = BoundedGrid.of(Fraction(-7, 2), Fraction(50, 3), step)
    exact = grid.to_units(np.array([Fraction(value) for value in values], dtype=object))
    assert grid.to_units(np.array(values, dtype=np.int64)).tolist() == exact.tolist()
    assert exact.min() >= grid.low
    assert exact.max() <= grid.high
    assert all(Fraction(-7, 2) <= grid.value(int(units)) <= Fraction(50, 3) for units in exact)


def test_grid_at_the_edge_of_64_bits():
    """Differences of grid points fit 64 bits; a finer step is refused."""
    grid = BoundedGrid.of(-(2**61), 2**61)
    assert grid.to_units([-(2**63), 2**63 - 1]).tolist() == [-(2**61), 2**61]
    assert grid.to_units([1e30, -1e30]).tolist() == [2**61, -(2**61)]
    assert math.isfinite(compute_log_smooth_sensitivity(np.array([grid.low, 0, grid.high]), 1, 0.1))
    with pytest.raises(InvalidInput, match="step must leave"):
        BoundedGrid.of(-(2**61), 2**61, Fraction(1, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: global_sensitivity("sum", 3, 1), "lower must be below upper"),
        (lambda: global_sensitivity("sum", 1), "needs both bounds"),
        (lambda: global_sensitivity("sum", 1, float("inf")), "upper must be a finite number"),
        (lambda: global_sensitivity("count", rows_per_unit=0), "rows per unit must be a whole number"),
        (lambda: global_sensitivity("count", neighbors="swap"), "neighbors must be"),
        (lambda: global_sensitivity("max", 0, 1, neighbors="swap"), "neighbors must be"),
        (lambda: global_sensitivity("mean", 0, 1, rows=5), "needs a public number of rows"),
        (lambda: global_sensitivity("variance", 0, 1, "replace-one"), "needs a public number of rows"),
        (lambda: global_sensitivity("mode", 0, 1), "what must be"),
        (lambda: global_sensitivity(("quantile", 1), 0, 1), "q must be between 0 and 1"),
        (lambda: rank_score_sensitivity(0), "q must be between 0 and 1"),
        (lambda: local_sensitivity([], "median", 0, 1), "at least one value"),
        (lambda: local_sensitivity(np.array([[1]]), "median", 0, 1), "one column"),
        (lambda: local_sensitivity(1, "median", 0, 1), "one column"),
        (lambda: local_sensitivity([1], "median", 0, 1, group=0), "group must be a whole number"),
        (lambda: smooth_sensitivity([1], "median", 0, 1, 0), "beta must be above 0"),
        (lambda: BoundedGrid.of(0, 1, 2), "step must leave"),
    ],
)
def test_bad_input_is_named_in_one_sentence(call, message):
    """The caller learns what to mend."""
    with pytest.raises(InvalidInput, match=message):
        call()


def test_the_variance_of_units_with_several_rows_is_not_claimed():
    """No proof, no number."""
    with pytest.raises(Unsupported, match="one row per unit"):
        global_sensitivity("variance", 0, 1, "replace-one", rows_per_unit=2, rows=5)


def test_whole_numbers_beyond_the_bounds_do_not_wrap():
    """Clamped before they are multiplied: 2^62 at a step of a tenth."""
    grid = BoundedGrid.of(0, 10, Fraction(1, 10))
    assert grid.to_units(np.array([2**62, -(2**62), 3])).tolist() == [100, 0, 30]
