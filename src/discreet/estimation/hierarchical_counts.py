"""Hierarchical histograms: which levels to measure, how to split the budget, the best consistent counts.

The budget is split by what each level adds. What is new at level l, its gain, is known with precision p_l = sum over
k >= l of share_k^2 size_k, and the loss is the sum of gain_l / p_l. The shares add up to 1; where noise is Gaussian
their squares do.

A wavelet, for comparison, measures the total and the differences between the halves of nested blocks. Blocks are as
long as the least power of two that holds all cells, half as long, and so on down to 2; one at the end that has no right
half is not measured. Each half is the whole plus or minus the difference, halved.

All of it is chosen from public facts. Proofs: hierarchical_counts.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, combinations, compress, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
NoiseKind = Literal["laplace", "gaussian"]
StrategyKind = Literal["flat", "tree", "wavelet"]
Sizes = tuple[int, ...]
Weights = tuple[float, ...]
MIN_SHARE = 1e-3
"""A level with a smaller share says next to nothing and is left out."""
SHARE_DENOMINATOR = 2**20
MAX_ROUNDS = 300
MAX_BRANCHING = 64
"""The most children of a node that are tried."""
MAX_FINALISTS = 4
"""So many of them are compared exactly: blocks at the end that are shorter move the order a little."""
MAX_COARSER_LEVELS = 7
"""Of up to so many levels above the finest every choice is tried for a roll-up; of more, all of them and none."""


def find_best_shares(traces: Sequence[float], sizes: Sequence[float], noise_kind: NoiseKind) -> tuple[float, ...]:
    """Find the share of each level, coarse to fine: 0 for one that does not help, never for the finest.

    `traces` has what is known before, then what each level sees. The loss is the least of all for Gaussian noise, for
    Laplace noise a local minimum, reached from equal shares.
    """
    if len(sizes) == 1:
        return (1.0,)
    gains = [finer - coarser for coarser, finer in pairwise(traces)]
    if noise_kind == "gaussian":
        squares = _find_squared_shares(gains, sizes, [1.0] * len(sizes))
        shares = tuple(math.sqrt(square / sum(squares)) for square in squares)
    else:
        shares = _find_laplace_shares(gains, sizes)
    is_useful = [share >= MIN_SHARE for share in shares[:-1]] + [True]
    if all(is_useful):
        return shares if noise_kind == "gaussian" else round_shares(shares)
    useful_traces, useful_sizes = [traces[0], *compress(traces[1:], is_useful)], [*compress(sizes, is_useful)]
    useful_shares = iter(find_best_shares(useful_traces, useful_sizes, noise_kind))
    return tuple(next(useful_shares) if keep else 0.0 for keep in is_useful)


def compute_share_loss(traces: Sequence[float], sizes: Sequence[float], shares: Sequence[float]) -> float:
    """Compute the sum over levels of gain / precision."""
    known = accumulate(share**2 * size for share, size in zip(shares[::-1], sizes[::-1], strict=True))
    gains = [finer - coarser for coarser, finer in pairwise(traces)]
    return sum(gain / precision for gain, precision in zip(gains[::-1], known, strict=True) if gain)


def round_shares(shares: Sequence[float]) -> tuple[float, ...]:
    """Cut the shares to multiples of one part in 2^20, the last taking the rest: as floats they add up to 1 exactly."""
    coarse = [math.floor(share * SHARE_DENOMINATOR) / SHARE_DENOMINATOR for share in shares[:-1]]
    return (*coarse, 1 - sum(coarse))


def _find_laplace_shares(gains: Sequence[float], sizes: Sequence[float]) -> tuple[float, ...]:
    """From equal shares, again and again: the best squares where each costs what its root does near the last ones."""
    shares = [1 / len(sizes)] * len(sizes)
    for _ in range(MAX_ROUNDS):
        roots = [math.sqrt(s) for s in _find_squared_shares(gains, sizes, [1 / max(share, 1e-12) for share in shares])]
        before, shares = shares, [root / sum(roots) for root in roots]
        if max(abs(now - then) for now, then in zip(shares, before, strict=True)) < 1e-6:
            break
    return tuple(shares)


def _find_squared_shares(gains: Sequence[float], sizes: Sequence[float], prices: Sequence[float]) -> list[float]:
    """The squared shares, but for a factor, of least loss for what they cost at these prices.

    Precision p_l costs prices_l / sizes_l less what a coarser level's costs, so p_l = sqrt(gain / cost) were best;
    but no coarser level has less precision than a finer one, so levels out of order are pooled.
    """
    unit_costs = [price / size for price, size in zip(prices, sizes, strict=True)]
    costs = [unit_costs[0], *(finer - coarser for coarser, finer in pairwise(unit_costs))]
    pools: list[tuple[float, float, int]] = []
    for gain, cost in zip(gains, costs, strict=True):
        last = gain, cost, 1
        # Pooled unless the coarser pool has the greater precision; a finer one at no cost would have it without end.
        while pools and not (last[1] > 0 and pools[-1][0] * last[1] > last[0] * pools[-1][1]):
            before = pools.pop()
            last = before[0] + last[0], before[1] + last[1], before[2] + last[2]
        pools.append(last)
    precisions = [math.sqrt(gain / cost) for gain, cost, level_count in pools for _ in range(level_count)]
    steps = pairwise([*precisions, 0.0])
    return [(coarser - finer) / size for (coarser, finer), size in zip(steps, sizes, strict=True)]


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
        are_refined = (np.isin(level, finer).all() for level, finer in pairwise(self.starts))
        if self.starts[-1][-1] != self.count - 1 or not all(are_refined):
            raise InvalidInput("every level of a nest is cut where the one before is, and the last into single leaves")
        if not all(variance >= 0 for variance in self.variances) or 0 in self.variances[1:]:
            raise InvalidInput("a variance is at least 0, and 0 for the coarsest of several levels only")
        if not 0 < self.variances[-1] < math.inf:
            raise InvalidInput("the leaves of a nest are measured, with a variance above 0")

    @classmethod
    def regular(cls, count: int, sizes: Sequence[int], variances: Sequence[float]) -> BlockHierarchy:
        """Build blocks of so many leaves at each level, coarse to fine; those at the end may be shorter."""
        return cls(tuple(np.arange(0, count, size) for size in sizes), tuple(variances))

    @property
    def count(self) -> int:
        """How many leaves."""
        return len(self.starts[-1])

    def estimate(self, measurements: Sequence[Array]) -> tuple[Array, ...]:
        """Estimate the best linear unbiased value of every node, level by level; each is the sum of its children.

        `measurements` has an array for every level; that of a level which is not measured is not read.
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
        """Compute the variance of every estimate."""
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
            gap_variances = variances[level] + (1 - 2 * share) * below[level]  # the variance of estimate - below
            upward = up[level + 1] * (1 + 2 * spread * (share[parent] - 1))
            variances.append(upward + spread**2 * gap_variances[parent])
            share = (1 - self._get_trust(level + 1)) * (1 + spread * (share[parent] - 1))
        return tuple(variances)

    def compute_range_weights(self, first: int, last: int) -> list[Array]:
        """Compute what the sum of the estimates of the leaves first to last takes of each measurement, by level."""
        shares = [np.zeros(self.count)]
        shares[0][first : last + 1] = 1.0
        differences: list[Array] = []
        for level in reversed(range(len(self.starts) - 1)):
            parent = self._parents[level]
            corrections = shares[0] * self._correction_shares[level]
            coarse = np.bincount(parent, corrections, len(self.starts[level])).astype(np.float64)
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
        """Compute the variance of the sum of the estimates of the leaves first to last, both included."""
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
        """Compute the mean of the variances of all ranges, each counted once."""
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


def sum_squares_over_ranges(weights: Array, starts: IntArray) -> Array:
    """Sum, for every node, over all ranges of leaves the square of what its weights add up to in the range.

    A range is the difference of two of the n + 1 prefixes, and the sum over pairs of squared differences of numbers p
    is (n + 1) sum p^2 - (sum p)^2.
    """
    count, ends = len(weights), np.append(starts[1:], len(weights))
    prefix_sums = np.cumsum(weights)
    prefix_sums -= np.repeat(np.append(0.0, prefix_sums[starts[1:] - 1]), ends - starts)
    after, later = prefix_sums[ends - 1], count - ends
    linear_sums = np.add.reduceat(prefix_sums, starts) + later * after
    square_sums = np.add.reduceat(prefix_sums * prefix_sums, starts) + later * after**2
    return np.asarray((count + 1) * square_sums - linear_sums**2)


def count_halvings(count: int) -> int:
    """Count how often so many cells can be halved."""
    return (count - 1).bit_length()


def compute_level_errors(count: int) -> list[float]:
    """Compute what a unit of variance adds to the mean square error of all ranges: of the total, then each halving."""
    share, errors = np.ones(count), []
    for level in range(count_halvings(count)):
        width = 2**level
        paired = count if -(-count // width) % 2 == 0 else count // (2 * width) * 2 * width
        share[:paired] /= 2
        sign = 1.0 - 2 * (np.arange(paired) // width % 2)
        weights = np.append(share[:paired] * sign, np.zeros(count - paired))
        errors.append(float(sum_squares_over_ranges(weights, np.arange(0, paired, 2 * width)).sum()))
    errors.append(float(sum_squares_over_ranges(share, np.zeros(1, dtype=np.int64))[0]))
    return [error / (count * (count + 1) / 2) for error in reversed(errors)]


def find_best_weights(errors: Sequence[float], noise_kind: NoiseKind, known_total: bool) -> tuple[float, ...]:
    """Find the weights of the least sum of error / weight^2, for what may be spent."""
    if noise_kind == "laplace":
        roots = [error ** (1 / 3) for error in errors]
        return round_shares([root / sum(roots) for root in roots])
    prices = [1 + known_total, *(1 for _ in errors[1:])]
    squares = [math.sqrt(error / price) for error, price in zip(errors, prices, strict=True)]
    cost = sum(squares)
    if known_total:  # one who moves between two cells costs twice where they part, once in each finer halving
        finer = accumulate(reversed(squares))
        cost = max(square + below for square, below in zip(reversed(squares), finer, strict=True))
    return tuple(math.sqrt(square / cost) for square in squares)


@dataclass(frozen=True)
class HistogramStrategy:
    """The levels of a histogram to measure, and how well each.

    `sizes` has the cells in one block of each measured level, coarse to fine: the last is 1, and each divides the one
    before; blocks at the end may be shorter. `weights` has the share of each level, whose noise is 1/weight times as
    wide as it would be alone: they add up to 1 where noise is Laplace, their squares where it is Gaussian. `error` is
    the mean over all ranges of the square of the error, in units of the variance of noise at weight 1.

    Of a wavelet `sizes` has that of the total, unless it is known, then those of the blocks whose halves are compared;
    where it is known and noise is Gaussian, the square of the first weight counts twice.
    """

    kind: StrategyKind
    sizes: tuple[int, ...]
    weights: tuple[float, ...]
    error: float
    count: int

    @property
    def name(self) -> str:
        """The strategy in words."""
        blocks = [size for size in self.sizes if 1 < size < self.count]
        block_sizes = [f"{size:,}" for size in reversed(blocks)]
        if len(block_sizes) > 4:
            block_sizes = [block_sizes[0], block_sizes[1], "...", block_sizes[-1]]
        if self.kind == "wavelet":
            return f"halves of blocks of up to {self.sizes[0]:,} cells compared"
        total = [] if len(self.sizes) == len(blocks) + 1 else ["the total"]
        return ", ".join(["every cell", *([f"blocks of {', '.join(block_sizes)}"] if block_sizes else []), *total])


@lru_cache(maxsize=256)
def list_histogram_strategies(count: int, noise_kind: NoiseKind, known_total: bool) -> tuple[HistogramStrategy, ...]:
    """List the best of each kind for so many cells: flat, tree, wavelet; without those that come to the same as flat.

    The wavelet is there to be compared: but for two cells of a known total the best of the others is as good or better.
    """
    if count < 1 or noise_kind not in ("laplace", "gaussian"):
        raise InvalidInput("a histogram has at least one cell, and its noise is laplace or gaussian")
    candidates = [_build_block_strategy("flat", count, (1,), (1.0,), known_total)]
    best_trees = _find_best_trees(count, noise_kind, known_total)
    trees = [_build_block_strategy("tree", count, *tree, known_total) for tree in best_trees]
    candidates += sorted(trees, key=lambda tree: tree.error)[:1]
    if count > 1:
        candidates.append(_build_wavelet_strategy(count, noise_kind, known_total))
    return tuple(candidates)


def _build_block_strategy(
    kind: StrategyKind, count: int, sizes: Sizes, weights: Weights, known_total: bool
) -> HistogramStrategy:
    above, known = ((count,), (0.0,)) if known_total else ((), ())
    hierarchy = BlockHierarchy.regular(count, above + sizes, known + tuple(1 / weight**2 for weight in weights))
    return HistogramStrategy(kind, sizes, weights, hierarchy.compute_mean_range_variance(), count)


def _build_wavelet_strategy(count: int, noise_kind: NoiseKind, known_total: bool) -> HistogramStrategy:
    """The total, unless it is known, and all halvings, each with the best weight."""
    depth, known = count_halvings(count), int(known_total)
    sizes = 2**depth, *(2**level for level in range(depth, 0, -1))
    errors = compute_level_errors(count)[known:]
    weights = find_best_weights(errors, noise_kind, known_total)
    error = sum(level_error / weight**2 for level_error, weight in zip(errors, weights, strict=True))
    return HistogramStrategy("wavelet", sizes[known:], weights, error, count)


def _find_best_trees(count: int, noise_kind: NoiseKind, known_total: bool) -> list[tuple[Sizes, Weights]]:
    """The best few of all regular branchings, each with the best weights; none where no level but the leaves helps."""
    candidates = []
    for branching in range(2, min(count, MAX_BRANCHING) + 1):
        sizes = _list_block_sizes(branching, count)
        traces = [_compute_trace(count, size) for size in sizes]
        known = traces[0] if known_total else 0.0
        shares = find_best_shares([known, *traces], sizes, noise_kind)
        candidates.append((compute_share_loss([known, *traces], sizes, shares), sizes, shares))
    trees = [(tuple(compress(sizes, shares)), tuple(filter(None, shares))) for _, sizes, shares in sorted(candidates)]
    return [tree for tree in trees if len(tree[0]) > 1][:MAX_FINALISTS]


def _list_block_sizes(branching: int, count: int) -> tuple[int, ...]:
    """The least multiple that holds all cells of the greatest power below, then the powers down to 1."""
    sizes = [1]
    while sizes[0] * branching < count:
        sizes.insert(0, sizes[0] * branching)
    return (-(-count // sizes[0]) * sizes[0], *sizes)


def _compute_trace(count: int, size: int) -> float:
    """How much of the squares of all ranges is seen by blocks of a size: tr(QG), G_ij = (min + 1)(count - max)."""
    full_blocks, remainder = divmod(count, size)
    first = size * full_blocks * (full_blocks - 1) // 2
    second = size**2 * full_blocks * (full_blocks - 1) * (2 * full_blocks - 1) // 6
    blocks = full_blocks * _sum_block(count, 0, size) + size**2 * (first * (count - size) - second)
    return (blocks + _sum_block(count, full_blocks * size, remainder)) / size


def _sum_block(count: int, start: int, size: int) -> int:
    """The sum of G over a block: sums of the least and of the greatest of two places in it, and what its start adds."""
    least, greatest = (size - 1) * size * (2 * size - 1) // 6, size * (size - 1) * (4 * size + 1) // 6
    inner = count * (least + size**2) - (size * (size - 1) // 2) ** 2 - greatest
    return inner + size**2 * (start * (count - size) - start**2)


def compute_rollup_weights(blocks: Sequence[int], noise_kind: NoiseKind, known_total: bool) -> tuple[float, ...]:
    """Compute the share of each level of nested groups, for the least mean square error of all groups of all levels.

    `blocks` has the number of groups of each level, coarse to fine; groups of a level are taken to be equally large.
    A level may have weight 0, the finest never. Neither equal weights nor the finest level alone are better.
    """
    if not blocks or blocks[0] < 1 or any(finer < coarser for coarser, finer in pairwise(blocks)):
        raise InvalidInput("nested groups have at least one level, and no level fewer groups than the one before")
    sizes = [1 / group_count for group_count in blocks]
    # Of all groups, the total and each level see as many as they have themselves, or all of a coarser level.
    traces = [sum(min(group_count, other) / other for other in blocks) for group_count in (1, *blocks)]
    traces[0] *= known_total
    candidates = []
    for levels in _list_level_choices(blocks):
        level_traces = [traces[0], *(traces[level + 1] for level in levels)]
        level_shares = iter(find_best_shares(level_traces, [sizes[level] for level in levels], noise_kind))
        shares = tuple(next(level_shares) if level in levels else 0.0 for level in range(len(blocks)))
        candidates.append((compute_share_loss(traces, sizes, shares), shares))
    return min(candidates)[1]


def _list_level_choices(blocks: Sequence[int]) -> list[tuple[int, ...]]:
    """Levels to measure, the finest always among them; of two with equally many groups, which are the same, one."""
    *coarser, finest = (level for level, count in enumerate(blocks) if count not in blocks[level + 1 :])
    if len(coarser) > MAX_COARSER_LEVELS:
        return [(finest,), (*coarser, finest)]
    return [(*subset, finest) for size in range(len(coarser) + 1) for subset in combinations(coarser, size)]
