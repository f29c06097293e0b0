"""The largest and smallest values by rank: exact laws on all neighbours of small tables, and what they are good for."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from discreet import InvalidInput, Unsupported
from discreet.mechanisms import Extreme
from discreet.numeric import exp_above

POINTS = 4


@cache
def compute_extreme_law(mechanism: Extreme, counts: tuple[int, ...]) -> list[Fraction]:
    return mechanism.mechanism.probabilities(mechanism.scores(np.array(counts)))


@cache
def compute_worst_ratio(mechanism: Extreme, one: tuple[int, ...], two: tuple[int, ...]) -> Fraction:
    return max(
        p / q for p, q in zip(compute_extreme_law(mechanism, one), compute_extreme_law(mechanism, two), strict=True)
    )


def list_count_tables(most: int) -> list[tuple[int, ...]]:
    return [table for table in product(range(most + 1), repeat=POINTS) if sum(table) <= most]


@pytest.mark.parametrize("end", ["top", "bottom"])
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_every_row_that_comes_or_goes_costs_its_share(end: str, rank: int) -> None:
    """With r = 2 each row costs half of epsilon, so two rows, in one cell or two, cost epsilon."""
    mechanism = Extreme(POINTS, rank, Fraction(1), 2, "top" if end == "top" else "bottom")
    share = exp_above(Fraction(1, 2))
    for table in list_count_tables(4):
        for place in range(POINTS):
            with_row = tuple(count + (index == place) for index, count in enumerate(table))
            assert compute_worst_ratio(mechanism, table, with_row) <= share
            assert compute_worst_ratio(mechanism, with_row, table) <= share


@pytest.mark.parametrize("end", ["top", "bottom"])
def test_a_replaced_unit_costs_epsilon(end: str) -> None:
    """Up to r rows go and up to r come: epsilon, not twice epsilon."""
    mechanism = Extreme(POINTS, 2, Fraction(1), 2, "top" if end == "top" else "bottom")
    promised = exp_above(Fraction(1))
    for rest, gone, come in product(list_count_tables(2), list_count_tables(2), list_count_tables(2)):
        before, after = (tuple(map(sum, zip(rest, unit, strict=True))) for unit in (gone, come))
        assert compute_worst_ratio(mechanism, before, after) <= promised


def test_the_bound_is_reached() -> None:
    """The claim is not loose: some neighbours nearly reach it, so a halved noise would fail the tests above."""
    mechanism = Extreme(POINTS, 3, Fraction(1), 1, "top")
    pairs = [(table, (*table[:-1], table[-1] + 1)) for table in list_count_tables(6)]
    reached = max(
        max(compute_worst_ratio(mechanism, one, two), compute_worst_ratio(mechanism, two, one)) for one, two in pairs
    )
    assert reached > exp_above(Fraction(7, 10))


def test_the_answer_is_near_the_end_of_many_rows() -> None:
    """With many rows the chosen rank is within the bound that is told."""
    counts = np.full(1000, 50)
    for end in ("top", "bottom"):
        mechanism = Extreme.of(1, 1000, 1, end=end)
        bound = mechanism.rank_bound(0.999)
        for _ in range(50):
            place = mechanism.answer_counts(counts)
            reach = 50 * (1000 - place if end == "top" else place + 1)
            assert reach >= mechanism.rank - bound
            assert reach - 50 < mechanism.rank + bound


def test_mirrored_tables_give_mirrored_scores() -> None:
    counts = np.array([3, 0, 5, 1])
    top, bottom = Extreme.of(2, 4, 1), Extreme.of(2, 4, 1, end="bottom")
    assert (top.scores(counts) == bottom.scores(counts[::-1])[::-1]).all()


def test_bad_input_is_refused_from_public_facts() -> None:
    with pytest.raises(InvalidInput, match="top or bottom"):
        Extreme.of(1, 4, 1, end="left")
    with pytest.raises(InvalidInput, match="4 whole numbers"):
        Extreme.of(1, 4, 1).scores(np.zeros(3, dtype=np.int64))
    with pytest.raises(Unsupported, match="too small"):
        Extreme.of(1, 4, 1e-14)
