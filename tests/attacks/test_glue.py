"""Row 17: a right mechanism that is handed what moves further than it was told."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

import weak_targets
from discreet.schema import Schema
from discreet.verification import neighbor_rows, replay
from support.small_tables import schema
from weak_targets import Table

Moved = Callable[[Table, Table], Fraction]
"""How far what a mechanism is handed moves between two tables, as a share of what is declared."""
RELATIONS = [("add-remove", 1), ("add-remove", 3), ("replace-one", 1), ("replace-one", 2)]


def attack(moved: Moved, declared: Schema) -> Fraction:
    """The most that any of many pairs of neighbours moves it."""
    return max(moved(*pair) for pair in neighbor_rows(declared, 150))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("glue", [weak_targets.one_row_for_all, weak_targets.bound_from_data])
def test_it_succeeds_against_the_weak_stand_in(glue: Moved, relation: str) -> None:
    assert attack(glue, schema(relation, 2, units=4)) > 1


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
@pytest.mark.parametrize("question", ["SELECT SUM(age) FROM t", "SELECT grade, COUNT(*) FROM t GROUP BY grade"])
def test_it_fails_against_discreet(relation: str, rows: int, question: str) -> None:
    """The bound is kept, and it is reached: nothing is hidden by declaring too much."""
    declared = schema(relation, rows, units=4)
    assert attack(lambda one, other: replay(declared, question, one, other, 1).largest_share, declared) == 1
