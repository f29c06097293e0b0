"""Candidate events, and the lower confidence bound on epsilon that one of them gives. Proof: confidence_bound.md.

The shape draws make bins of a feature and put them in order; other draws, the select draws, choose how many of the bins
are in the event.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.verification.audit.features import Feature, Span
from discreet.verification.audit.output_values import Keys

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Direction = Literal[0, 1]
"""The data set that makes the event likelier: 0 is D, 1 is D2."""
DRAWS_PER_BIN, MAX_BINS = 32, 4096
COARSER_FACTORS = (8, 64, 512)
MIN_ATOM_COUNT, MAX_ATOMS = 4, 4096
SMALLEST_TAIL = 4
MAX_KEY = 2**63 - 1
MIN_IMPROVEMENT = 0.03
"""A later candidate has to promise that much more: of many sets of bins, some promise more than they keep by chance."""


def compute_clopper_pearson(count: int, draws: int, miss: float) -> tuple[float, float]:
    """Return two limits of a probability by its count in independent draws; each fails with probability `miss`."""
    from scipy.special import betainccinv, betaincinv

    low = float(betaincinv(count, draws - count + 1, miss)) if count else 0.0
    high = float(betainccinv(count + 1, draws - count, miss)) if count < draws else 1.0
    return low, high


def compute_epsilon_bound(likely: int, rare: int, draws: int, delta: float, confidence: float) -> float:
    """Return a lower bound on ln((p - delta) / q), and so on epsilon, that holds with this confidence; at least 0."""
    miss = (1 - confidence) / 2
    low, high = compute_clopper_pearson(likely, draws, miss)[0], compute_clopper_pearson(rare, draws, miss)[1]
    return max(math.log((low - delta) / high), 0.0) if low > delta else 0.0


def estimate_epsilon_bounds(
    likely: NDArray[np.int64], rare: NDArray[np.int64], draws: int, delta: float, z: float
) -> Array:
    """Estimate `compute_epsilon_bound` for many events at once, by Wilson's limits, for choosing only."""
    low, high = _compute_wilson_limit(likely, draws, -z), _compute_wilson_limit(rare, draws, z)
    above = np.maximum(low - delta, 0.0)
    return np.log(np.maximum(above, 1e-300) / high)


def _compute_wilson_limit(count: NDArray[np.int64], draws: int, z: float) -> Array:
    """Wilson's limit of a probability: the lower one for a negative z, the upper one for a positive z."""
    share, square = count / draws, z * z / draws
    middle = share + square / 2
    half = math.copysign(1, z) * np.sqrt(square * (share * (1 - share) + square / 4))
    return (middle + half) / (1 + square)


@dataclass(frozen=True, eq=False, slots=True)
class CandidateEvent:
    """An event: a feature's keys in some of the bins between the edges, and the bound to expect of it."""

    feature: Feature
    edges: Keys
    member: Bools
    direction: Direction
    estimated_bound: float

    def contains(self, keys: Keys) -> Bools:
        """Return which keys are in the event."""
        return self.member[np.searchsorted(self.edges, keys, side="right")]

    def list_spans(self) -> list[Span]:
        """Return the event as spans of keys, adjacent bins joined."""
        ends = np.flatnonzero(np.diff(np.concatenate([[False], self.member, [False]])))
        limits = [None, *self.edges.tolist(), None]
        return [(limits[first], limits[last]) for first, last in ends.reshape(-1, 2).tolist()]


def find_best_event(
    feature: Feature, shape: tuple[Keys, Keys], select: tuple[Keys, Keys], delta: float, z: float
) -> CandidateEvent:
    """Return the most promising event of this feature, in either direction."""
    sorted_shape = np.sort(shape[0]), np.sort(shape[1])
    edges, is_rest = _build_edges(sorted_shape, feature.is_ordered)
    shape_counts = [_count_keys(edges, keys) for keys in sorted_shape]
    select_counts = [_count_keys(edges, np.sort(keys)) for keys in select]
    bins, draws = len(edges) + 1, len(select[0])
    best = CandidateEvent(feature, edges, np.zeros(bins, dtype=bool), 0, -np.inf)
    for groups, sequence, direction, are_half_lines in _list_orders(shape_counts, is_rest):
        likely, rare = (
            _sum_groups(select_counts[side], groups)[sequence].cumsum() for side in (direction, 1 - direction)
        )
        bounds = estimate_epsilon_bounds(likely, rare, draws, delta, z)
        length = int(np.argmax(bounds))
        if are_half_lines:  # the longest of the best: between two values nothing was seen, so the limit is the second
            length = len(bounds) - 1 - int(np.argmax(bounds[::-1]))
        if is_better(float(bounds[length]), best.estimated_bound):
            chosen = np.zeros(len(sequence), dtype=bool)
            chosen[sequence[: length + 1]] = True
            best = CandidateEvent(feature, edges, chosen[groups], direction, float(bounds[length]))
    return best


def is_better(bound: float, best: float) -> bool:
    """Return whether a later candidate promises enough more: twice as much if the best one promises little."""
    return bound > best + min(MIN_IMPROVEMENT, max(best, 0.0))


class BinOrder(NamedTuple):
    """Groups of bins, those likely with `direction` first: every prefix of the sequence is a candidate."""

    groups: Keys
    sequence: Keys
    direction: Direction
    are_half_lines: bool = False


def _list_orders(shape_counts: list[Keys], is_rest: Bools | None) -> Iterator[BinOrder]:
    """From either end if keys are ordered, and by how much likelier a group is.

    Between keys without an order there are no bins: the rest is one group.
    """
    bins = np.arange(len(shape_counts[0]))
    if is_rest is None:
        yield from (BinOrder(bins, line, direction, True) for direction in (0, 1) for line in (bins, bins[::-1]))
        grouped = [bins // factor for factor in (*reversed(COARSER_FACTORS), 1)]
    else:
        grouped = [np.where(is_rest, 0, np.cumsum(~is_rest))]
    for groups in grouped:
        group_counts, group_counts2 = (_sum_groups(counts, groups) for counts in shape_counts)
        ratio = np.log((group_counts + 0.5) / (group_counts2 + 0.5))
        uncertainty = np.sqrt(1 / (group_counts + 1) + 1 / (group_counts2 + 1))
        yield BinOrder(groups, np.argsort(uncertainty - ratio, kind="stable"), 0)
        yield BinOrder(groups, np.argsort(uncertainty + ratio, kind="stable"), 1)


def _sum_groups(counts: Keys, groups: Keys) -> Keys:
    return np.bincount(groups, weights=counts).astype(np.int64)


def _count_keys(edges: Keys, in_order: Keys) -> Keys:
    """How many keys each bin has."""
    below = np.searchsorted(in_order, edges, side="left")
    return np.diff(below, prepend=0, append=len(in_order)).astype(np.int64)


def _build_edges(shape: tuple[Keys, Keys], is_ordered: bool) -> tuple[Keys, Bools | None]:
    """The edges of bins: quantiles, ever smaller tails, and both sides of every value that recurs.

    Keys without an order have only the values that recur; then the second result says which bins hold the rest.
    """
    atoms = np.unique(np.concatenate([_find_atoms(keys) for keys in shape]))
    edge_parts = [atoms, np.minimum(atoms, MAX_KEY - 1) + 1]
    if is_ordered:
        edge_parts += [keys[_list_ranks(len(keys))] for keys in shape]
    edges = np.unique(np.concatenate(edge_parts))
    return edges, None if is_ordered else np.concatenate([[True], ~np.isin(edges, atoms)])


def _list_ranks(count: int) -> Keys:
    """Ranks of quantiles, and of tails of 4, 8, 16... draws at both ends."""
    bins = min(max(count // DRAWS_PER_BIN, 8), MAX_BINS)
    inner = np.arange(1, bins) * count // bins
    tails = SMALLEST_TAIL << np.arange(max(count // SMALLEST_TAIL, 1).bit_length())
    tails = tails[tails < count]
    return np.concatenate([inner, tails, count - tails])


def _find_atoms(in_order: Keys) -> Keys:
    """Values that recur, the most frequent ones where there are many."""
    starts = np.flatnonzero(np.concatenate([[True], in_order[1:] != in_order[:-1]]))
    counts = np.diff(starts, append=len(in_order))
    frequent = np.flatnonzero(counts >= MIN_ATOM_COUNT)
    if len(frequent) > MAX_ATOMS:
        frequent = frequent[np.argsort(-counts[frequent], kind="stable")[:MAX_ATOMS]]
    return in_order[starts[frequent]]
