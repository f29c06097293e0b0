"""Which pairs of columns are measured: a spanning tree by the exponential mechanism, edge by edge. Proof: linked.md."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import cast

import numpy as np

from discreet.inference.linked import Array, Pair, joining
from discreet.kernel.entropy import Entropy
from discreet.kernel.exponential import Exponential
from discreet.microdata.private.grid import Counts
from discreet.microdata.private.loss import Loss

SENSITIVITY = 2
"""One replaced row moves two cells of a table by 1 each, hence its distance from any fixed table by at most 2."""


def distance(table: Counts, independent: Array) -> int:
    """Between an exact table and a public one, rounded to whole numbers first: whole, and moves by at most 2."""
    return int(np.abs(table - np.rint(independent).astype(np.int64)).sum())


def choice_of_pair(loss: Loss, choices: int) -> Exponential:
    """One of so many choices that lose this much in all."""
    return Exponential.of(loss.part(Fraction(1, choices)).choice(), SENSITIVITY)


def chosen_tree(
    scores: Sequence[int], pairs: Sequence[Pair], given: Sequence[Pair], count: int, loss: Loss, entropy: Entropy
) -> list[Pair]:
    """The given pairs, and as many more as join all columns, each drawn among those that join two parts."""
    chosen, score = list(given), dict(zip(pairs, scores, strict=True))
    choices = choices_left(given, count)
    for _ in range(choices):
        left = joining(chosen, pairs, count)
        own = np.array([score[pair] for pair in left], dtype=np.int64)
        place = choice_of_pair(loss, choices).answer(own, entropy)
        chosen.append(left[cast("int", place)])
    return chosen


def choices_left(given: Sequence[Pair], count: int) -> int:
    """How many pairs join all columns, besides the given ones."""
    joined = 0
    for place, pair in enumerate(given):
        joined += pair in joining(given[:place], [pair], count)
    return count - 1 - joined
