"""Noisy counts of a histogram and of its nested blocks, made one consistent set of best counts. Proof: nested.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BlockHierarchy:
    """Partitions of a row of leaves into consecutive blocks, ever finer, and how well each is known.

    `starts` has the first leaf of every node, level by level, coarse to fine; the last level is every leaf.
    `variances` has the variance of one measurement of each level: infinite where a level is not measured, never the
    finest; zero where it is exactly known, the coarsest only.
    """

    starts: tuple[IntArray, ...]
    variances: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", tuple(np.asarray(level, dtype=np.int64) for level in self.starts))
        object.__setattr__(self, "variances", tuple(float(variance) for variance in self.variances))
        if not self.starts or len(self.starts) != len(self.variances):
            raise InvalidInput("a nest has at least one level, and one variance for each")
        if any(level.ndim != 1 or not level.size or level[0] or (np.diff(level) < 1).any() for level in self.starts):
            raise InvalidInput("the nodes of a level start at leaf 0, and each starts after the one before")
        if self.starts[-1][-1] != self.count - 1 or not all(
            _is_refined_by(*level_pair) for level_pair in pairwise(self.starts)
        ):
            raise InvalidInput("every level of a nest is cut where the one before is, and the last into single leaves")
        if not all(variance >= 0 for variance in self.variances) or 0 in self.variances[1:]:
            raise InvalidInput("a variance is at least 0, and 0 for the coarsest of several levels only")
        if not 0 < self.variances[-1] < math.inf:
            raise InvalidInput("the leaves of a nest are measured, with a variance above 0")

    @classmethod
    def regular(cls, count: int, sizes: Sequence[int], variances: Sequence[float]) -> BlockHierarchy:
        """Blocks of so many leaves at each level, coarse to fine; those at the end may be shorter."""
        return cls(tuple(np.arange(0, count, size) for size in sizes), tuple(variances))

    @property
    def count(self) -> int:
        """How many leaves."""
        return len(self.starts[-1])

    def estimate(self, measurements: Sequence[Array]) -> tuple[Array, ...]:
        """The best linear unbiased value of every node, level by level; each is the sum of its children.

        `measured` has an array for every level; that of a level which is not measured is not read.
        """
        level_values = self._check_measurements(measurements)
        up: list[Array] = [level_values[-1]]
        below: list[Array] = []
        for level in reversed(range(len(level_values) - 1)):
            below.insert(0, np.add.reduceat(up[0], self._first_children[level]))
            up.insert(0, below[0] + self._trust[level] * (level_values[level] - below[0]))
        estimates = [up[0]]
        for level, spread in enumerate(self._correction_shares):
            estimates.append(up[level + 1] + spread * (estimates[level] - below[level])[self._parents[level]])
        return tuple(estimates)

    def compute_node_variances(self) -> tuple[Array, ...]:
        """The variance of every estimate."""
        variances = [self._up[0]]
        for level, spread in enumerate(self._correction_shares):
            upward, parent = self._up[level + 1], self._parents[level]
            variances.append(upward * (1 - spread) + spread**2 * variances[level][parent])
        return tuple(variances)

    def propagate_node_variances(self, noise: Sequence[float]) -> tuple[Array, ...]:
        """The variance of every estimate where the measurements of a level have this variance, whatever was expected.

        The weights of the estimate stay those of `variances`. With t for trust and s for spread, an estimate is
        up + s (found - below) of its parent, and up is below + t (own - below). `share` has the coefficient of below in
        found: 1 - t for the coarsest level, and (1 - t) (1 + s (share of the parent - 1)) further down.
        """
        up, below = self._propagate_upward(noise)
        variances, share = [up[0]], 1 - self._get_trust(0)
        for level, spread in enumerate(self._correction_shares):
            parent = self._parents[level]
            gap_variances = variances[level] + (1 - 2 * share) * below[level]  # the variance of found - below
            upward = up[level + 1] * (1 + 2 * spread * (share[parent] - 1))
            variances.append(upward + spread**2 * gap_variances[parent])
            share = (1 - self._get_trust(level + 1)) * (1 + spread * (share[parent] - 1))
        return tuple(variances)

    def compute_range_weights(self, first: int, last: int) -> list[Array]:
        """What the sum of the estimates of the leaves first to last takes of each measurement, level by level."""
        shares = [np.zeros(self.count)]
        shares[0][first : last + 1] = 1.0
        differences: list[Array] = []
        for level in reversed(range(len(self.starts) - 1)):
            parent = self._parents[level]
            coarse = np.bincount(parent, shares[0] * self._correction_shares[level], len(self.starts[level])).astype(
                np.float64
            )
            differences.insert(0, shares[0] - coarse[parent])
            shares.insert(0, coarse)
        weights, level_weights = shares[0], []
        for level, trust in enumerate(self._trust):
            level_weights.append(weights * trust)
            weights = differences[level] + (weights * (1 - trust))[self._parents[level]]
        return [*level_weights, weights]

    def _propagate_upward(self, noise: Sequence[float]) -> tuple[list[Array], list[Array]]:
        """As `_upward`, for measurements of other variances."""
        up: list[Array] = [np.full(self.count, float(noise[-1]))]
        below: list[Array] = []
        for level in reversed(range(len(self.starts) - 1)):
            trust = self._trust[level]
            below.insert(0, np.add.reduceat(up[0], self._first_children[level]))
            up.insert(0, (1 - trust) ** 2 * below[0] + trust**2 * (noise[level] if trust.any() else 0.0))
        return up, below

    def _get_trust(self, level: int) -> Array:
        """The trust of a level; a leaf is its own measurement."""
        return self._trust[level] if level < len(self._trust) else np.ones(self.count)

    def compute_range_variance(self, first: int, last: int) -> float:
        """The variance of the sum of the estimates of the leaves first to last, both included."""
        if not 0 <= first <= last < self.count:
            raise InvalidInput(f"a range is within the leaves 0 to {self.count - 1}, its first not after its last")
        start, share, variance = first, np.ones(last - first + 1), 0.0
        for level in reversed(range(len(self.starts) - 1)):
            span = slice(start, start + len(share))
            parent, upward = self._parents[level][span], self._up[level + 1][span]
            start = int(parent[0])
            weight = np.bincount(parent - start, share * upward)
            child_sums = self._below[level][start : start + len(weight)]
            variance += float((share**2 * upward).sum() - (weight**2 / child_sums).sum())
            share = weight / child_sums
        return max(variance + float((share**2 * self._up[0][start : start + len(share)]).sum()), 0.0)

    def compute_mean_range_variance(self) -> float:
        """The mean of the variances of all ranges, each counted once."""
        count, share = self.count, np.ones(self.count)
        total = self.variances[-1] * (count * (count + 1) * (count + 2) / 6)
        for level in reversed(range(len(self.starts) - 1)):
            share *= np.repeat(self._correction_shares[level], np.diff(self.starts[level + 1], append=count))
            reductions = self._below[level] - self._up[level]
            total -= float((reductions * sum_squares_over_ranges(share, self.starts[level])).sum())
        return max(total / (count * (count + 1) / 2), 0.0)

    def _check_measurements(self, measurements: Sequence[Array]) -> list[Array]:
        if len(measurements) != len(self.starts):
            raise InvalidInput(f"this nest has {len(self.starts)} levels, but {len(measurements)} were measured")
        levels = []
        for values, starts, variance in zip(measurements, self.starts, self.variances, strict=True):
            level = np.asarray(values, dtype=np.float64) if variance < math.inf else np.zeros(len(starts))
            if level.shape != starts.shape or not np.isfinite(level).all():
                raise InvalidInput(f"a level of {len(starts)} nodes is measured by as many finite numbers")
            levels.append(level)
        return levels

    @cached_property
    def _first_children(self) -> list[IntArray]:
        """The place of the first child of every node, for all levels but the finest."""
        return [np.searchsorted(finer, level) for level, finer in pairwise(self.starts)]

    @cached_property
    def _parents(self) -> list[IntArray]:
        """The place of the parent of every node, for all levels but the coarsest."""
        return [np.searchsorted(level, finer, side="right") - 1 for level, finer in pairwise(self.starts)]

    @cached_property
    def _upward(self) -> tuple[list[Array], list[Array]]:
        """The variance of every node as known by all that is measured in it, and of the sum of its children."""
        up: list[Array] = [np.full(self.count, self.variances[-1])]
        below: list[Array] = []
        for variance, first in zip(self.variances[-2::-1], self._first_children[::-1], strict=True):
            below.insert(0, np.add.reduceat(up[0], first))
            up.insert(0, below[0] if variance == math.inf else below[0] * (variance / (below[0] + variance)))
        return up, below

    @property
    def _up(self) -> list[Array]:
        return self._upward[0]

    @property
    def _below(self) -> list[Array]:
        return self._upward[1]

    @cached_property
    def _trust(self) -> list[Array]:
        """How far a node's own measurement is believed rather than the sum of its children."""
        levels = zip(self._below, self.variances[:-1], strict=True)
        return [below / (below + variance) for below, variance in levels]

    @cached_property
    def _correction_shares(self) -> list[Array]:
        """The share of every node in what its parent is put right by, for all levels but the coarsest."""
        levels = zip(self._up[1:], self._below, self._parents, strict=True)
        return [upward / below[parent] for upward, below, parent in levels]


def _is_refined_by(level: IntArray, finer: IntArray) -> bool:
    """Whether the finer level starts a node wherever this one does."""
    place = np.searchsorted(finer, level)
    return bool(place[-1] < len(finer) and (finer[place] == level).all())


def sum_squares_over_ranges(weights: Array, starts: IntArray) -> Array:
    """For every node, the sum over all ranges of leaves of the square of what its weights add up to in the range.

    A range is the difference of two of the n + 1 prefixes, and the sum over pairs of squared differences of numbers p
    is (n + 1) sum p^2 - (sum p)^2.
    """
    count, ends = len(weights), np.append(starts[1:], len(weights))
    prefix_sums = np.cumsum(weights)
    prefix_sums -= np.repeat(np.append(0.0, prefix_sums[starts[1:] - 1]), ends - starts)
    after, later = prefix_sums[ends - 1], count - ends
    linear_sums = np.add.reduceat(prefix_sums, starts) + later * after
    square_sums = np.add.reduceat(prefix_sums * prefix_sums, starts) + later * after**2
    sums: Array = (count + 1) * square_sums - linear_sums**2
    return sums
