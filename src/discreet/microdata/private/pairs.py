"""Which pairs of columns are measured: a spanning tree by the exponential mechanism, edge by edge. Proof: linked.md."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import cast

import numpy as np

from discreet.inference.linked import Pair, select_joining_pairs
from discreet.inference.vectors import Array
from discreet.kernel.entropy import Entropy
from discreet.kernel.exponential import Exponential
from discreet.microdata.private.grid import Counts
from discreet.microdata.private.loss import PrivacyBudget

PAIR_SENSITIVITY = 2
"""One replaced row moves two cells of a table by 1 each, hence its distance from any fixed table by at most 2."""


def compute_pair_score(table: Counts, independent: Array) -> int:
    """Between an exact table and a public one, rounded to whole numbers first: whole, and moves by at most 2."""
    return int(np.abs(table - np.rint(independent).astype(np.int64)).sum())


def build_pair_selection(budget: PrivacyBudget, choices: int) -> Exponential:
    """One of so many choices that lose this much in all."""
    return Exponential.of(budget.take_share(Fraction(1, choices)).compute_choice_epsilon(), PAIR_SENSITIVITY)


def choose_spanning_tree(
    scores: Sequence[int],
    pairs: Sequence[Pair],
    required_pairs: Sequence[Pair],
    count: int,
    budget: PrivacyBudget,
    entropy: Entropy,
) -> list[Pair]:
    """The given pairs, and as many more as join all columns, each drawn among those that join two parts."""
    chosen_pairs, score = list(required_pairs), dict(zip(pairs, scores, strict=True))
    choices = count_choices_left(required_pairs, count)
    for _ in range(choices):
        joining_pairs = select_joining_pairs(chosen_pairs, pairs, count)
        pair_scores = np.array([score[pair] for pair in joining_pairs], dtype=np.int64)
        place = build_pair_selection(budget, choices).answer(pair_scores, entropy)
        chosen_pairs.append(joining_pairs[cast("int", place)])
    return chosen_pairs


def count_choices_left(required_pairs: Sequence[Pair], count: int) -> int:
    """How many pairs join all columns, besides the given ones."""
    joined_count = 0
    for place, pair in enumerate(required_pairs):
        joined_count += pair in select_joining_pairs(required_pairs[:place], [pair], count)
    return count - 1 - joined_count
