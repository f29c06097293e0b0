"""What an intruder learns of a confidential value: by the quasi-identifiers, and by what he knows of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discreet.assess.linkage import DistinctRows, find_distinct_records, find_distinct_rows
from discreet.assess.utility import compute_deviation, fill_missing_last
from discreet.microdata.distances import RecordSpace
from discreet.microdata.table import Attribute, Floats, Integers

PAIRS_PER_BATCH = 1_000_000
"""How many pairs of a person and a block of rows are looked at together."""

MIN_HOLDERS = 5
"""Values that fewer people hold are judged together."""

MAX_JUDGED_VALUES = 20
"""Numbers with more different values are not judged value by value."""

FALSE_ALARM_CHANCE = 0.01
"""The chance of calling a value found that luck alone brought back, over all values of a column."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidateRows:
    """The released rows that may be a person's: a kind of person has the blocks of rows from `starts` on."""

    person: Integers
    """The kind of person that each original row is of."""
    block: Integers
    """The block that each released row is in."""
    starts: Integers
    blocks: Integers


def match_by_distance(before: RecordSpace, after: RecordSpace, weights: Floats) -> CandidateRows:
    """The released rows nearest to a person's own values, all ties among them."""
    from discreet.assess.ties import find_nearest_ties

    people, rows = find_distinct_records(before), find_distinct_records(after)
    ties = find_nearest_ties(before.take(people.first), after.take(rows.first), weights)
    return CandidateRows(people.kind, rows.kind, ties.starts, ties.targets)


def match_by_label(people: Integers, rows: Integers) -> CandidateRows:
    """The rows with a person's own label; labels are 0, 1, ..."""
    count = int(rows.max()) + 1
    return CandidateRows(people, rows, np.arange(count + 1), np.arange(count))


def match_everyone(people: int, rows: int) -> CandidateRows:
    """Every row may be anyone's."""
    return match_by_label(np.zeros(people, dtype=np.int64), np.zeros(rows, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class DisclosureRisk:
    """Of each person: how likely one who picks a candidate comes near their value, how likely one who picks any row."""

    truth: Attribute
    hits: Floats
    chances: Floats
    candidate_counts: Integers
    """How many candidates there are."""
    is_permuted: bool
    """Whether values changed their rows, so that luck brings some of them back."""

    @property
    def share(self) -> float:
        """Mean over people."""
        return float(np.mean(self.hits))

    @property
    def by_chance(self) -> float:
        """Mean over people."""
        return float(np.mean(self.chances))

    def compute_excess(self) -> float:
        """How much is learnt of what chance leaves open, from 0 to 1: of everybody, or of those who hold one value.

        It is (hit - chance) / (1 - chance) of means over people, the greatest; what luck may have brought is not
        counted.
        """
        classes = _group_by_value(self.truth)
        ones = np.ones(len(classes))
        people_counts, hits, chances, grain = (
            _sum_classes(classes, values) for values in (ones, self.hits, self.chances, 1 / self.candidate_counts)
        )
        open_chances = people_counts - chances
        excesses = np.divide(
            hits - chances, open_chances, out=np.zeros_like(open_chances), where=open_chances > 1e-9 * people_counts
        )
        if self.is_permuted:
            grain = grain / people_counts
            excesses[
                _compute_binomial_tail(hits / grain, people_counts / grain, chances / people_counts)
                > FALSE_ALARM_CHANCE / len(people_counts)
            ] = 0.0
        return float(max(0.0, excesses.max()))


def _group_by_value(truth: Attribute) -> Integers:
    """The people by the value they hold; those with values of few, or with any number of many, together."""
    holders = find_distinct_rows([truth.values])
    if truth.kind == "numeric" and len(holders.counts) > MAX_JUDGED_VALUES:
        return np.zeros(len(holders.kind), dtype=np.int64)
    places = np.where(holders.counts < MIN_HOLDERS, -1, np.arange(len(holders.counts)))
    return np.unique(places[holders.kind], return_inverse=True)[1]


def _sum_classes(classes: Integers, values: Floats) -> Floats:
    """Over each class, and over all as the last."""
    return np.append(np.bincount(classes, values), values.sum())


def _compute_binomial_tail(hits: Floats, trials: Floats, chance: Floats) -> Floats:
    """How likely luck alone hits so often: the tail of a binomial law with one trial for each row that is picked."""
    from scipy.special import betainc

    return np.asarray(betainc(np.maximum(hits, 1e-9), np.maximum(trials - hits, 0) + 1, np.minimum(chance, 1)))


def measure_disclosure(
    truth: Attribute, released: Attribute, candidates: CandidateRows, tolerance: float, is_permuted: bool
) -> DisclosureRisk:
    """What one who knows the candidates comes near of each person's value.

    Near is within `tolerance` standard deviations for numbers, equal for all else; missing is one more value.
    """
    near = _NearRanks(truth, released, tolerance)
    keys = np.sort(candidates.block * near.span + near.rank)
    sizes = np.bincount(candidates.block)[candidates.blocks]
    hit_shares, candidate_counts = np.zeros(len(candidates.person)), np.zeros(len(candidates.person), dtype=np.int64)
    for rows in _split_portions(np.diff(candidates.starts)[candidates.person]):
        kind = candidates.person[rows]
        block_counts = candidates.starts[kind + 1] - candidates.starts[kind]
        first = np.cumsum(block_counts) - block_counts
        pair = np.repeat(candidates.starts[kind] - first, block_counts) + np.arange(block_counts.sum())
        base = candidates.blocks[pair] * near.span
        low, high = np.repeat(near.low[rows], block_counts), np.repeat(near.high[rows], block_counts)
        hits = np.searchsorted(keys, base + high) - np.searchsorted(keys, base + low)
        candidate_counts[rows] = np.add.reduceat(sizes[pair], first)
        hit_shares[rows] = np.add.reduceat(hits, first) / candidate_counts[rows]
    return DisclosureRisk(truth, hit_shares, near.compute_shares(), candidate_counts, is_permuted)


class _NearRanks:
    """Released values by rank, and for each true value the ranks, `low` to before `high`, that are near it."""

    def __init__(self, truth: Attribute, released: Attribute, tolerance: float) -> None:
        points, self.rank = np.unique(fill_missing_last(released), return_inverse=True)
        true = fill_missing_last(truth)
        margin = tolerance * compute_deviation(truth.values) if truth.kind == "numeric" else 0.0
        self.low = np.searchsorted(points, true - margin, "left")
        self.high = np.searchsorted(points, true + margin, "right")
        self.span = len(points) + 1

    def compute_shares(self) -> Floats:
        """Of all released values, those near each true one."""
        until = np.concatenate([[0], np.cumsum(np.bincount(self.rank))])
        return np.asarray((until[self.high] - until[self.low]) / len(self.rank))


def _split_portions(pair_counts: Integers) -> Iterator[slice]:
    """Runs of rows with about AT_ONCE pairs in each."""
    ends = np.cumsum(pair_counts)
    start = 0
    while start < len(pair_counts):
        pairs_before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, pairs_before + PAIRS_PER_BATCH, "right")))
        yield slice(start, stop)
        start = stop


def compute_unique_share(rows: DistinctRows) -> float:
    """The share of rows that no other row is like."""
    return float(np.sum(rows.counts == 1)) / len(rows.kind)


def measure_group_knowledge(values: Integers, groups: Integers) -> tuple[tuple[int, float], ...]:
    """For some j: the chance that one who knows the values of j others of a person's group has for the person's.

    The group's m values are known, not whose they are (thesis 3.3.2, 7.3.2). The j others being any of the m - 1, of
    the c - 1 that share the person's value (c - 1)(m - 1 - j)/(m - 1) are left on average, and the person's own; they
    are among the m - j values that are left, each as likely to be the person's. So the chance is
    (1 + (c - 1)(m - 1 - j)/(m - 1)) / (m - j): c/m for j = 0, and 1 for j = m - 1. Its mean is taken over all rows, at
    j = 0, 1, half, all but two and all but one of the smallest group. Values and groups are numbered from 0.
    """
    size = np.bincount(groups)[groups].astype(np.float64)
    pairs = find_distinct_rows([groups, values])
    shared_counts = pairs.counts[pairs.kind] - 1
    min_size = int(size.min())
    known_counts = sorted({j for j in (0, 1, min_size // 2, min_size - 2, min_size - 1) if 0 <= j < min_size})
    others = np.maximum(size - 1, 1)
    return tuple((j, float(np.mean((1 + shared_counts * (size - 1 - j) / others) / (size - j)))) for j in known_counts)
