"""Counts of a column that keep what was published of it, and nothing that is impossible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from discreet.estimation.raking import rake_counts
from discreet.planner.public_facts import list_public_marginals
from discreet.schema import schema_from_text

CODES = np.arange(8)


@given(st.lists(st.integers(0, 50), min_size=8, max_size=8), st.integers(0, 30), st.integers(0, 30))
def test_published_counts_are_kept_exactly(counts: list[int], first: int, second: int) -> None:
    """Disjoint ones, whatever was drawn: the total stays, the impossible cell is empty."""
    private = np.array(counts) + 10
    sets = [CODES <= 2, (CODES >= 4) & (CODES <= 5)]
    raked = rake_counts(private, sets, [first, second], CODES == 1)
    assert (raked >= 0).all()
    assert raked.sum() == private.sum()
    assert (raked[:3].sum(), raked[4:6].sum(), raked[1]) == (first, second, 0)


def test_overlapping_counts_are_nearly_kept() -> None:
    """To about a row."""
    raked = rake_counts(np.full(8, 10), [CODES <= 4, CODES >= 3], [50, 60], np.zeros(8, dtype=bool))
    assert raked.sum() == 80
    assert abs(raked[:5].sum() - 50) <= 1
    assert abs(raked[3:].sum() - 60) <= 1


def test_without_anything_known_counts_stay() -> None:
    """And without rows nothing fails."""
    counts = np.array([3, 0, 4, 0, 0, 1, 0, 0])
    assert rake_counts(counts, [], [], np.zeros(8, dtype=bool)).tolist() == counts.tolist()
    assert rake_counts(np.zeros(8, dtype=np.int64), [], [], CODES == 0).sum() == 0


def test_margins_come_from_published_counts_of_one_column() -> None:
    """Not from those of several, and not from what is no count."""
    text = """\
name: t
source: t.csv
neighbours: replace-one
units: 9
budget: {epsilon: 1}
published:
  - {statistic: women, value: 4, question: "SELECT COUNT(*) FROM t WHERE sex = 'F'"}
  - {statistic: old women, value: 2, question: "SELECT COUNT(*) FROM t WHERE sex = 'F' AND age > 60"}
  - {statistic: mean age, value: 40}
columns: {sex: {kind: nominal, categories: [F, M]}, age: {kind: integer, lower: 0, upper: 99}}
"""
    [margin] = list_public_marginals(schema_from_text(text, Path()))
    assert (margin.column, margin.rows) == ("sex", 4)
