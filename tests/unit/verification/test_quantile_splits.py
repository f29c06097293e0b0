"""Several quantiles on two tables: what their splits lose, where all of them come out alike."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.measurements.observed_loss import follow_splits
from discreet.mechanisms import Quantiles
from discreet.verification import assert_private
from support.small_tables import schema

ONE = np.array([0, 2, 0, 3, 0, 2, 0, 0])
SEVERAL = (
    ((0.5,), 1, 4),
    ((0.25, 0.75), 3, 4),
    ((0.25, 0.5, 0.75), 3, 4),
    ((0.1, 0.3, 0.5, 0.7, 0.9), 7, 16),
)
"""Orders, the questions that are asked for them, and the ways that are followed."""
TWO = ONE + np.eye(8, dtype=np.int64)[5]


def test_rows_are_parted_in_several_ways() -> None:
    """All of them to one side or the other, at the best point, and among the rows where the tables differ."""
    ways = list(follow_splits(Quantiles.of((0.25, 0.5, 0.75), 0, 7, 1), ONE, TWO))
    assert [laws[1][0].places.tolist()[-1] for laws in ways] == [0, 7, 3, 5]
    assert [laws[2][0].places.tolist()[0] for laws in ways] == [0, 7, 3, 5]
    # Where no row goes left, a median's score is minus their number: of the two rows at 5, one does.
    assert [-int(laws[1][0].scores[0]) for laws in ways] == [0, 7, 3, 6]


def test_later_choices_come_out_by_rules_of_their_own() -> None:
    """With three depths, each of the four ways to begin goes on in several."""
    ways = follow_splits(Quantiles.of((0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.9), 0, 7, 1), ONE, TWO)
    distributions = [tuple((law.places[0], law.places[-1], law.scores[0]) for law, _ in laws) for laws in ways]
    assert len(set(distributions)) > 8


@pytest.mark.parametrize(("orders", "orders_and_points", "ways"), SEVERAL)
def test_both_tables_are_parted_alike(orders: tuple[float, ...], orders_and_points: int, ways: int) -> None:
    """So that every choice is among the same points, and the tables differ by one row in one choice of each depth."""
    choice = Quantiles.of(orders, 0, 7, 1)
    splits = list(follow_splits(choice, ONE, TWO))
    assert len(splits) == ways
    for laws in splits:
        assert len(laws) == orders_and_points
        assert all(np.array_equal(mine.places, theirs.places) for mine, theirs in laws)
        assert 1 <= sum(not np.array_equal(mine.scores, theirs.scores) for mine, theirs in laws) <= choice.depth


def test_several_quantiles_tell_what_their_splits_lose() -> None:
    """All pairs move as many rows as declared; the one that loses most is told, with how it was found."""
    several = assert_private(schema("add-remove", 1, units=5), "SELECT QUANTILE(age, 0.25, 0.5, 0.75) FROM t", 1)
    assert several.totals["epsilon charged"] == 1
    assert "over a few of the ways in which the rows may be parted" in several.table()
