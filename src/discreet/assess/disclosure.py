"""What an intruder learns of a confidential value: by the quasi-identifiers, and by what he knows of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discreet.assess.linkage import Distinct, distinct, kinds
from discreet.assess.utility import ranked, spread
from discreet.microdata.distances import Space
from discreet.microdata.table import Attribute, Floats, Places

AT_ONCE = 1_000_000
"""How many pairs of a person and a block of rows are looked at together."""

FEW = 5
"""Values that fewer people hold are judged together."""

VALUES = 20
"""Numbers with more different values are not judged value by value."""

LUCK = 0.01
"""The chance of calling a value found that luck alone brought back, over all values of a column."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The released rows that may be a person's: a kind of person has the blocks of rows from `starts` on."""

    person: Places
    """The kind of person that each original row is of."""
    block: Places
    """The block that each released row is in."""
    starts: Places
    blocks: Places


def by_distance(before: Space, after: Space, weights: Floats) -> Candidates:
    """The released rows nearest to a person's own values, all ties among them."""
    from discreet.assess.ties import nearest

    people, rows = kinds(before), kinds(after)
    ties = nearest(before.take(people.first), after.take(rows.first), weights)
    return Candidates(people.kind, rows.kind, ties.starts, ties.targets)


def by_label(people: Places, rows: Places) -> Candidates:
    """The rows with a person's own label; labels are 0, 1, ..."""
    count = int(rows.max()) + 1
    return Candidates(people, rows, np.arange(count + 1), np.arange(count))


def anybody(people: int, rows: int) -> Candidates:
    """Every row may be anyone's."""
    return by_label(np.zeros(people, dtype=np.int64), np.zeros(rows, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Disclosed:
    """Of each person: how likely one who picks a candidate comes near their value, how likely one who picks any row."""

    truth: Attribute
    hits: Floats
    chances: Floats
    picked: Places
    """How many candidates there are."""
    moved: bool
    """Whether values changed their rows, so that luck brings some of them back."""

    @property
    def share(self) -> float:
        """Mean over people."""
        return float(np.mean(self.hits))

    @property
    def by_chance(self) -> float:
        """Mean over people."""
        return float(np.mean(self.chances))

    def excess(self) -> float:
        """How much is learnt of what chance leaves open, from 0 to 1: of everybody, or of those who hold one value.

        It is (hit - chance) / (1 - chance) of means over people, the greatest; what luck may have brought is not
        counted.
        """
        classes = _held(self.truth)
        ones = np.ones(len(classes))
        many, hits, chances, grain = (_sums(classes, each) for each in (ones, self.hits, self.chances, 1 / self.picked))
        left = many - chances
        beyond = np.divide(hits - chances, left, out=np.zeros_like(left), where=left > 1e-9 * many)
        if self.moved:
            grain = grain / many
            beyond[_tail(hits / grain, many / grain, chances / many) > LUCK / len(many)] = 0.0
        return float(max(0.0, beyond.max()))


def _held(truth: Attribute) -> Places:
    """The people by the value they hold; those with values of few, or with any number of many, together."""
    held = distinct([truth.values])
    if truth.kind == "numeric" and len(held.many) > VALUES:
        return np.zeros(len(held.kind), dtype=np.int64)
    places = np.where(held.many < FEW, -1, np.arange(len(held.many)))
    return np.unique(places[held.kind], return_inverse=True)[1]


def _sums(classes: Places, values: Floats) -> Floats:
    """Over each class, and over all as the last."""
    return np.append(np.bincount(classes, values), values.sum())


def _tail(hits: Floats, trials: Floats, chance: Floats) -> Floats:
    """How likely luck alone hits so often: the tail of a binomial law with one trial for each row that is picked."""
    from scipy.special import betainc

    return np.asarray(betainc(np.maximum(hits, 1e-9), np.maximum(trials - hits, 0) + 1, np.minimum(chance, 1)))


def disclosed(truth: Attribute, told: Attribute, who: Candidates, tolerance: float, moved: bool) -> Disclosed:
    """What one who knows the candidates comes near of each person's value.

    Near is within `tolerance` standard deviations for numbers, equal for all else; missing is one more value.
    """
    near = _Near(truth, told, tolerance)
    keys = np.sort(who.block * near.span + near.rank)
    sizes = np.bincount(who.block)[who.blocks]
    found, picked = np.zeros(len(who.person)), np.zeros(len(who.person), dtype=np.int64)
    for rows in _portions(np.diff(who.starts)[who.person]):
        kind = who.person[rows]
        many = who.starts[kind + 1] - who.starts[kind]
        first = np.cumsum(many) - many
        pair = np.repeat(who.starts[kind] - first, many) + np.arange(many.sum())
        base = who.blocks[pair] * near.span
        low, high = np.repeat(near.low[rows], many), np.repeat(near.high[rows], many)
        hits = np.searchsorted(keys, base + high) - np.searchsorted(keys, base + low)
        picked[rows] = np.add.reduceat(sizes[pair], first)
        found[rows] = np.add.reduceat(hits, first) / picked[rows]
    return Disclosed(truth, found, near.share(), picked, moved)


class _Near:
    """Released values by rank, and for each true value the ranks, `low` to before `high`, that are near it."""

    def __init__(self, truth: Attribute, told: Attribute, tolerance: float) -> None:
        points, self.rank = np.unique(ranked(told), return_inverse=True)
        true = ranked(truth)
        margin = tolerance * spread(truth.values) if truth.kind == "numeric" else 0.0
        self.low = np.searchsorted(points, true - margin, "left")
        self.high = np.searchsorted(points, true + margin, "right")
        self.span = len(points) + 1

    def share(self) -> Floats:
        """Of all released values, those near each true one."""
        until = np.concatenate([[0], np.cumsum(np.bincount(self.rank))])
        return np.asarray((until[self.high] - until[self.low]) / len(self.rank))


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
