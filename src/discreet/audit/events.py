"""Candidate events of one feature, and the most promising of them.

The shape draws make the bins and put them in order; the select draws, which are others, say how far to go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.audit.bound import promising
from discreet.audit.draws import Keys
from discreet.audit.features import Feature, Span

Bools = NDArray[np.bool_]
Way = Literal[0, 1]
"""The data set that makes the event likelier: 0 is D, 1 is D2."""

IN_A_BIN, MOST_BINS = 32, 4096
COARSER = (8, 64, 512)
RECURS, MOST_ATOMS = 4, 4096
FIRST_TAIL = 4
LAST = 2**63 - 1
BETTER = 0.03
"""A later candidate has to promise that much more: of many sets of bins, some promise more than they keep by chance."""


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """An event: a feature's keys in some of the bins between the edges, and what it promises."""

    feature: Feature
    edges: Keys
    member: Bools
    way: Way
    promise: float

    def holds(self, keys: Keys) -> Bools:
        """Which keys are in the event."""
        inside: Bools = self.member[np.searchsorted(self.edges, keys, side="right")]
        return inside

    def spans(self) -> list[Span]:
        """The event as spans of keys, neighbouring bins joined."""
        ends = np.flatnonzero(np.diff(np.concatenate([[False], self.member, [False]])))
        limits = [None, *self.edges.tolist(), None]
        return [(limits[first], limits[last]) for first, last in ends.reshape(-1, 2).tolist()]


def best_event(feature: Feature, shape: tuple[Keys, Keys], select: tuple[Keys, Keys], delta: float, z: float) -> Found:
    """The event of this feature that promises most, either way."""
    sorted_shape = np.sort(shape[0]), np.sort(shape[1])
    edges, rest = _edges(sorted_shape, feature.ordered)
    made = [_counts(edges, keys) for keys in sorted_shape]
    seen = [_counts(edges, np.sort(keys)) for keys in select]
    bins, draws = len(edges) + 1, len(select[0])
    best = Found(feature, edges, np.zeros(bins, dtype=bool), 0, -np.inf)
    for groups, in_turn, way, half_lines in _orders(made, rest):
        likely, rare = (_gathered(seen[side], groups)[in_turn].cumsum() for side in (way, 1 - way))
        promises = promising(likely, rare, draws, delta, z)
        length = _last_best(promises) if half_lines else int(np.argmax(promises))
        if beats(float(promises[length]), best.promise):
            chosen = np.zeros(len(in_turn), dtype=bool)
            chosen[in_turn[: length + 1]] = True
            best = Found(feature, edges, chosen[groups], way, float(promises[length]))
    return best


def beats(promise: float, best: float) -> bool:
    """Whether a later candidate promises enough more: twice as much where the best one promises next to nothing."""
    return promise > best + min(BETTER, max(best, 0.0))


class Order(NamedTuple):
    """Groups of bins in turn, likely with `way` first: every beginning is a candidate."""

    groups: Keys
    in_turn: Keys
    way: Way
    half_lines: bool = False


def _orders(made: list[Keys], rest: Bools | None) -> Iterator[Order]:
    """From either end where there is an order, and by how much likelier a group is."""
    each = np.arange(len(made[0]))
    grouped = [each // coarser for coarser in (*reversed(COARSER), 1)] if rest is None else [_together(rest)]
    if rest is None:
        yield from (Order(each, line, way, True) for way in (0, 1) for line in (each, each[::-1]))
    for groups in grouped:
        one, two = (_gathered(counts, groups) for counts in made)
        ratio = np.log((one + 0.5) / (two + 0.5))
        unsure = np.sqrt(1 / (one + 1) + 1 / (two + 1))
        yield Order(groups, np.argsort(unsure - ratio, kind="stable"), 0)
        yield Order(groups, np.argsort(unsure + ratio, kind="stable"), 1)


def _last_best(promises: NDArray[np.float64]) -> int:
    """The longest of the best: where nothing was seen between two values, the limit is the second one."""
    return len(promises) - 1 - int(np.argmax(promises[::-1]))


def _together(rest: Bools) -> Keys:
    """A group for every bin but for the rest, which is one: between values without an order there are no bins."""
    groups: Keys = np.where(rest, 0, np.cumsum(~rest))
    return groups


def _gathered(counts: Keys, groups: Keys) -> Keys:
    return np.bincount(groups, weights=counts).astype(np.int64)


def _counts(edges: Keys, in_order: Keys) -> Keys:
    """How many keys each bin has."""
    below = np.searchsorted(in_order, edges, side="left")
    return np.diff(below, prepend=0, append=len(in_order)).astype(np.int64)


def _edges(shape: tuple[Keys, Keys], ordered: bool) -> tuple[Keys, Bools | None]:
    """Where bins begin: quantiles, ever smaller tails, and both sides of every value that recurs.

    Of keys without an order there are only the values that recur; then the second tells which bins hold the rest.
    """
    atoms = np.unique(np.concatenate([_atoms(keys) for keys in shape]))
    found = [atoms, np.minimum(atoms, LAST - 1) + 1]
    if ordered:
        found += [keys[_places(len(keys))] for keys in shape]
    edges = np.unique(np.concatenate(found))
    return edges, None if ordered else np.concatenate([[True], ~np.isin(edges, atoms)])


def _places(count: int) -> Keys:
    """Ranks of quantiles, and of tails of 4, 8, 16... draws at both ends."""
    bins = min(max(count // IN_A_BIN, 8), MOST_BINS)
    inner = np.arange(1, bins) * count // bins
    tails = FIRST_TAIL << np.arange(max(count // FIRST_TAIL, 1).bit_length())
    tails = tails[tails < count]
    return np.concatenate([inner, tails, count - tails])


def _atoms(in_order: Keys) -> Keys:
    """Values that recur, the most frequent ones where there are many."""
    starts = np.flatnonzero(np.concatenate([[True], in_order[1:] != in_order[:-1]]))
    counts = np.diff(starts, append=len(in_order))
    often = np.flatnonzero(counts >= RECURS)
    if len(often) > MOST_ATOMS:
        often = often[np.argsort(-counts[often], kind="stable")[:MOST_ATOMS]]
    return in_order[starts[often]]
