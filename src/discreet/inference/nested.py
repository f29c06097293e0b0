"""What to measure of a histogram so that ranges of it are known best, chosen from public facts. Proof: nested.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, compress, pairwise
from typing import Literal

from discreet.errors import InvalidInput
from discreet.inference.nest import BlockHierarchy
from discreet.inference.shares import NoiseKind, compute_share_loss, find_best_shares
from discreet.inference.wavelet import compute_level_errors, count_halvings, find_best_weights

__all__ = [
    "BlockHierarchy",
    "HistogramStrategy",
    "NoiseKind",
    "StrategyKind",
    "compute_rollup_weights",
    "find_best_strategy",
    "list_histogram_strategies",
]

StrategyKind = Literal["flat", "tree", "wavelet"]
Sizes = tuple[int, ...]
Weights = tuple[float, ...]
MAX_BRANCHING = 64
"""The most children of a node that are tried."""
MAX_FINALISTS = 4
"""So many of them are compared exactly: blocks at the end that are shorter move the order a little."""
MAX_COARSER_LEVELS = 7
"""Of up to so many levels above the finest every choice is tried for a roll-up; of more, all of them and none."""


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
        """It in words."""
        blocks = [size for size in self.sizes if 1 < size < self.count]
        block_sizes = [f"{size:,}" for size in reversed(blocks)]
        if len(block_sizes) > 4:
            block_sizes = [block_sizes[0], block_sizes[1], "...", block_sizes[-1]]
        if self.kind == "wavelet":
            return f"halves of blocks of up to {self.sizes[0]:,} cells compared"
        total = [] if len(self.sizes) == len(blocks) + 1 else ["the total"]
        return ", ".join(["every cell", *([f"blocks of {', '.join(block_sizes)}"] if block_sizes else []), *total])


def find_best_strategy(count: int, noise_kind: NoiseKind, known_total: bool) -> HistogramStrategy:
    """The tree where its error is less than that of measuring every cell, else that; a wavelet is never measured."""
    flat, *others = list_histogram_strategies(count, noise_kind, known_total)
    return min([flat, *(other for other in others if other.kind == "tree")], key=lambda strategy: strategy.error)


@lru_cache(maxsize=256)
def list_histogram_strategies(count: int, noise_kind: NoiseKind, known_total: bool) -> tuple[HistogramStrategy, ...]:
    """The best of each kind for so many cells: flat, tree, wavelet; without those that come to the same as flat.

    The wavelet is there to be compared: but for two cells of a known total the best of the others is as good or better.
    """
    if count < 1 or noise_kind not in ("laplace", "gaussian"):
        raise InvalidInput("a histogram has at least one cell, and its noise is laplace or gaussian")
    candidates = [_build_block_strategy("flat", count, (1,), (1.0,), known_total)]
    trees = [
        _build_block_strategy("tree", count, *tree, known_total)
        for tree in _find_best_trees(count, noise_kind, known_total)
    ]
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
    first, second = (
        size * full_blocks * (full_blocks - 1) // 2,
        size**2 * full_blocks * (full_blocks - 1) * (2 * full_blocks - 1) // 6,
    )
    blocks = full_blocks * _sum_block(count, 0, size) + size**2 * (first * (count - size) - second)
    return (blocks + _sum_block(count, full_blocks * size, remainder)) / size


def _sum_block(count: int, start: int, size: int) -> int:
    """The sum of G over a block: sums of the least and of the greatest of two places in it, and what its start adds."""
    least, greatest = (size - 1) * size * (2 * size - 1) // 6, size * (size - 1) * (4 * size + 1) // 6
    inner = count * (least + size**2) - (size * (size - 1) // 2) ** 2 - greatest
    return inner + size**2 * (start * (count - size) - start**2)


def compute_rollup_weights(blocks: Sequence[int], noise_kind: NoiseKind, known_total: bool) -> tuple[float, ...]:
    """The share of each level of nested groups, for the least mean square error of all groups of all levels.

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
        fewer = iter(
            find_best_shares([traces[0], *(traces[k + 1] for k in levels)], [sizes[k] for k in levels], noise_kind)
        )
        shares = tuple(next(fewer) if k in levels else 0.0 for k in range(len(blocks)))
        candidates.append((compute_share_loss(traces, sizes, shares), shares))
    return min(candidates)[1]


def _list_level_choices(blocks: Sequence[int]) -> list[tuple[int, ...]]:
    """Levels to measure, the finest always among them; of two with equally many groups, which are the same, one."""
    *coarser, finest = (level for level, many in enumerate(blocks) if many not in blocks[level + 1 :])
    if len(coarser) > MAX_COARSER_LEVELS:
        return [(finest,), (*coarser, finest)]
    return [(*subset, finest) for many in range(len(coarser) + 1) for subset in combinations(coarser, many)]
