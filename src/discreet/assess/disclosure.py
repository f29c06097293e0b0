"""What an intruder learns of a confidential value: by the quasi-identifiers, and by what he knows of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discreet.assess.linkage import Distinct, distinct, kinds
from discreet.assess.utility import ranked, spread
from discreet.microdata.distances import Space
from discreet.microdata.table import Attribute, Places

AT_ONCE = 1_000_000
"""How many pairs of a person and a block of rows are looked at together."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The released rows that may be a person's: a kind of person has the blocks of rows from `starts` on."""

    person: Places
    """The kind of person that each original row is of."""
    block: Places
    """The block that each released row is in."""
    starts: Places
    blocks: Places


def by_distance(before: Space, after: Space) -> Candidates:
    """The released rows nearest to a person's own values, all ties among them."""
    from discreet.assess.ties import nearest

    people, rows = kinds(before), kinds(after)
    ties = nearest(before.take(people.first), after.take(rows.first))
    return Candidates(people.kind, rows.kind, ties.starts, ties.targets)


def by_label(people: Places, rows: Places) -> Candidates:
    """The rows with a person's own label; labels are 0, 1, ..."""
    count = int(rows.max()) + 1
    return Candidates(people, rows, np.arange(count + 1), np.arange(count))


def disclosed(truth: Attribute, told: Attribute, who: Candidates, tolerance: float) -> float:
    """How likely one who picks a candidate at random, and reads its value, comes near the person's; mean over people.

    Near is within `tolerance` standard deviations for numbers, equal for all else; missing is one more value.
    """
    near = _Near(truth, told, tolerance)
    keys = np.sort(who.block * near.span + near.rank)
    sizes = np.bincount(who.block)[who.blocks]
    total = 0.0
    for rows in _portions(np.diff(who.starts)[who.person]):
        kind = who.person[rows]
        many = who.starts[kind + 1] - who.starts[kind]
        first = np.cumsum(many) - many
        pair = np.repeat(who.starts[kind] - first, many) + np.arange(many.sum())
        base = who.blocks[pair] * near.span
        low, high = np.repeat(near.low[rows], many), np.repeat(near.high[rows], many)
        hits = np.searchsorted(keys, base + high) - np.searchsorted(keys, base + low)
        total += float(np.sum(np.add.reduceat(hits, first) / np.add.reduceat(sizes[pair], first)))
    return total / len(who.person)


def disclosed_by_chance(truth: Attribute, told: Attribute, tolerance: float) -> float:
    """The same for one who picks any released row at random."""
    near = _Near(truth, told, tolerance)
    keys = np.sort(near.rank)
    hits = np.searchsorted(keys, near.high) - np.searchsorted(keys, near.low)
    return float(np.mean(hits)) / len(keys)


class _Near:
    """Released values by rank, and for each true value the ranks, `low` to before `high`, that are near it."""

    def __init__(self, truth: Attribute, told: Attribute, tolerance: float) -> None:
        points, self.rank = np.unique(ranked(told), return_inverse=True)
        true = ranked(truth)
        margin = tolerance * spread(truth.values) if truth.kind == "numeric" else 0.0
        self.low = np.searchsorted(points, true - margin, "left")
        self.high = np.searchsorted(points, true + margin, "right")
        self.span = len(points) + 1


def _portions(many: Places) -> Iterator[slice]:
    """Runs of rows with about AT_ONCE pairs in each."""
    ends = np.cumsum(many)
    start = 0
    while start < len(many):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + AT_ONCE, "right")))
        yield slice(start, stop)
        start = stop


def unique_share(rows: Distinct) -> float:
    """The share of rows that no other row is like."""
    return float(np.sum(rows.many == 1)) / len(rows.kind)


def knows(values: Places, groups: Places) -> tuple[tuple[int, float], ...]:
    """For some j: the chance that one who knows the values of j others of a person's group has for the person's.

    The group's m values are known, not whose they are (thesis 3.3.2, 7.3.2). The j others being any of the m - 1, of
    the c - 1 that share the person's value (c - 1)(m - 1 - j)/(m - 1) are left on average, and the person's own; they
    are among the m - j values that are left, each as likely to be the person's. So the chance is
    (1 + (c - 1)(m - 1 - j)/(m - 1)) / (m - j): c/m for j = 0, and 1 for j = m - 1. Its mean is taken over all rows, at
    j = 0, 1, half, all but two and all but one of the smallest group. Values and groups are numbered from 0.
    """
    size = np.bincount(groups)[groups].astype(np.float64)
    pairs = distinct([groups, values])
    same = pairs.many[pairs.kind] - 1
    least = int(size.min())
    told = sorted({j for j in (0, 1, least // 2, least - 2, least - 1) if 0 <= j < least})
    others = np.maximum(size - 1, 1)
    return tuple((j, float(np.mean((1 + same * (size - 1 - j) / others) / (size - j)))) for j in told)
