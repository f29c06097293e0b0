"""Several quantiles: the choices that are made on two tables, one after the other, where all of them come out alike.

That is what adaptive composition compares. The mechanism parts the rows itself; only what it draws is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from discreet.kernel.entropy import Entropy
from discreet.kernel.quantile import SLOTS, Quantiles, SplitDistribution

CandidateCounts = NDArray[np.int64]
SplitCache = dict[tuple[bytes, tuple[int, int], Fraction], SplitDistribution]
"""By the rows that are parted, the points among which, and the share that goes left."""
SplitRule = Callable[[SplitDistribution, CandidateCounts], int]
"""Which candidate comes out, from the choice on the first table and the points where the tables differ."""


def _choose_first(_: SplitDistribution, __: CandidateCounts) -> int:
    """As many rows as can be go right."""
    return 0


def _choose_last(distribution: SplitDistribution, _: CandidateCounts) -> int:
    """As many rows as can be go left."""
    return len(distribution.scores) - 1


def _choose_likeliest(distribution: SplitDistribution, _: CandidateCounts) -> int:
    """The likeliest."""
    return int(distribution.scores.argmax())


def _choose_differing_point(distribution: SplitDistribution, differ: CandidateCounts) -> int:
    """In the middle of the rows at a point where the tables differ, or next to it."""
    index = np.searchsorted(distribution.places, differ[len(differ) // 2])
    return int(min(index, len(distribution.places) - 1)) * (SLOTS + 1) + SLOTS // 2


SPLIT_RULES: tuple[SplitRule, ...] = (_choose_first, _choose_last, _choose_likeliest, _choose_differing_point)


def follow_splits(
    choice: Quantiles, first_counts: CandidateCounts, second_counts: CandidateCounts
) -> Iterator[list[tuple[SplitDistribution, SplitDistribution]]]:
    """All choices on both tables, for each of a few ways in which they may come out.

    One rule decides the first choice and another all that follow; the last ones of all decide nothing more.
    """
    differ = np.flatnonzero(first_counts != second_counts)
    cache: SplitCache = {}
    for first, later in product(SPLIT_RULES, SPLIT_RULES if choice.depth > 2 else SPLIT_RULES[:1]):
        walk = _SplitWalk(differ, (first, later), [], [], cache)
        distributions = [_list_split_distributions(choice, counts, walk) for counts in (first_counts, second_counts)]
        yield list(zip(*distributions, strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class _SplitWalk:
    """What came out on the first table comes out on the second too."""

    differ: CandidateCounts
    rules: tuple[SplitRule, SplitRule]
    outcomes: list[tuple[int, int]]
    distributions: list[SplitDistribution]
    cache: SplitCache
    """The choices between the same rows, which several ways come to."""

    def step(self, distribution: SplitDistribution) -> tuple[int, int]:
        """What comes out next."""
        index = len(self.distributions)
        self.distributions.append(distribution)
        if index == len(self.outcomes):
            self.outcomes.append(distribution.get_cell(self.rules[index > 0](distribution, self.differ)))
        return self.outcomes[index]


def _list_split_distributions(choice: Quantiles, counts: CandidateCounts, walk: _SplitWalk) -> list[SplitDistribution]:
    """The choices on one table, in the order in which they are made."""
    mechanism = _FollowedQuantiles(
        **{field.name: getattr(choice, field.name) for field in fields(Quantiles)}, walk=walk
    )
    mechanism.answer_counts(counts)
    distributions = walk.distributions[:]
    walk.distributions.clear()
    return distributions


@dataclass(frozen=True, eq=False)
class _FollowedQuantiles(Quantiles):
    """The mechanism itself, but that its draws are decided."""

    walk: _SplitWalk

    def split_distribution(self, counts: CandidateCounts, span: tuple[int, int], q: Fraction) -> SplitDistribution:
        cache_key = (counts.tobytes(), span, q)
        distribution = self.walk.cache.get(cache_key) or self.walk.cache.setdefault(
            cache_key, super().split_distribution(counts, span, q)
        )
        return _DecidedSplit(
            distribution.places, distribution.scores, distribution.selection, distribution.base, self.walk
        )


@dataclass(frozen=True, eq=False)
class _DecidedSplit(SplitDistribution):
    """One of its choices."""

    walk: _SplitWalk

    def sample(self, _: Entropy) -> tuple[int, int]:
        return self.walk.step(self)
