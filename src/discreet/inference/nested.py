"""What to measure of a histogram so that ranges of it are known best, chosen from public facts. Proof: nested.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, compress, pairwise
from typing import Literal

from discreet.errors import InvalidInput
from discreet.inference.nest import Nest
from discreet.inference.shares import Law, best_shares, loss
from discreet.inference.wavelet import best_weights, halvings, level_errors

__all__ = ["Kind", "Law", "Nest", "Strategy", "best_strategy", "rollup_weights", "strategies"]

Kind = Literal["flat", "tree", "wavelet"]
Sizes = tuple[int, ...]
Weights = tuple[float, ...]
WIDEST = 64
"""The most children of a node that are tried."""
FINALISTS = 4
"""So many of them are compared exactly: blocks at the end that are shorter move the order a little."""
MOST_COARSER = 7
"""Of up to so many levels above the finest every choice is tried for a roll-up; of more, all of them and none."""


@dataclass(frozen=True)
class Strategy:
    """The levels of a histogram to measure, and how well each.

    `sizes` has the cells in one block of each measured level, coarse to fine: the last is 1, and each divides the one
    before; blocks at the end may be shorter. `weights` has the share of each level, whose noise is 1/weight times as
    wide as it would be alone: they add up to 1 where noise is Laplace, their squares where it is Gaussian. `error` is
    the mean over all ranges of the square of the error, in units of the variance of noise at weight 1.

    Of a wavelet `sizes` has that of the total, unless it is known, then those of the blocks whose halves are compared;
    where it is known and noise is Gaussian, the square of the first weight counts twice.
    """

    kind: Kind
    sizes: tuple[int, ...]
    weights: tuple[float, ...]
    error: float
    count: int

    @property
    def name(self) -> str:
        """It in words."""
        blocks = [size for size in self.sizes if 1 < size < self.count]
        told = [f"{size:,}" for size in reversed(blocks)]
        if len(told) > 4:
            told = [told[0], told[1], "...", told[-1]]
        if self.kind == "wavelet":
            return f"halves of blocks of up to {self.sizes[0]:,} cells compared"
        total = [] if len(self.sizes) == len(blocks) + 1 else ["the total"]
        return ", ".join(["every cell", *([f"blocks of {', '.join(told)}"] if told else []), *total])


def best_strategy(count: int, law: Law, known_total: bool) -> Strategy:
    """The tree where its error is less than that of measuring every cell, else that; a wavelet is never measured."""
    flat, *others = strategies(count, law, known_total)
    return min([flat, *(other for other in others if other.kind == "tree")], key=lambda one: one.error)


@lru_cache(maxsize=256)
def strategies(count: int, law: Law, known_total: bool) -> tuple[Strategy, ...]:
    """The best of each kind for so many cells: flat, tree, wavelet; without those that come to the same as flat.

    The wavelet is there to be compared: but for two cells of a known total the best of the others is as good or better.
    """
    if count < 1 or law not in ("laplace", "gaussian"):
        raise InvalidInput("a histogram has at least one cell, and its noise is laplace or gaussian")
    found = [_nested("flat", count, (1,), (1.0,), known_total)]
    trees = [_nested("tree", count, *tree, known_total) for tree in _trees(count, law, known_total)]
    found += sorted(trees, key=lambda tree: tree.error)[:1]
    if count > 1:
        found.append(_wavelet(count, law, known_total))
    return tuple(found)


def _nested(kind: Kind, count: int, sizes: Sizes, weights: Weights, known_total: bool) -> Strategy:
    above, known = ((count,), (0.0,)) if known_total else ((), ())
    nest = Nest.regular(count, above + sizes, known + tuple(1 / weight**2 for weight in weights))
    return Strategy(kind, sizes, weights, nest.mean_range_variance(), count)


def _wavelet(count: int, law: Law, known_total: bool) -> Strategy:
    """The total, unless it is known, and all halvings, each with the best weight."""
    most, known = halvings(count), int(known_total)
    sizes = 2**most, *(2**level for level in range(most, 0, -1))
    errors = level_errors(count)[known:]
    weights = best_weights(errors, law, known_total)
    error = sum(one / weight**2 for one, weight in zip(errors, weights, strict=True))
    return Strategy("wavelet", sizes[known:], weights, error, count)


def _trees(count: int, law: Law, known_total: bool) -> list[tuple[Sizes, Weights]]:
    """The best few of all regular branchings, each with the best weights; none where no level but the leaves helps."""
    found = []
    for branching in range(2, min(count, WIDEST) + 1):
        sizes = _powers(branching, count)
        seen = [_seen(count, size) for size in sizes]
        known = seen[0] if known_total else 0.0
        shares = best_shares([known, *seen], sizes, law)
        found.append((loss([known, *seen], sizes, shares), sizes, shares))
    nested = [(tuple(compress(sizes, shares)), tuple(filter(None, shares))) for _, sizes, shares in sorted(found)]
    return [one for one in nested if len(one[0]) > 1][:FINALISTS]


def _powers(branching: int, count: int) -> tuple[int, ...]:
    """The least multiple that holds all cells of the greatest power below, then the powers down to 1."""
    sizes = [1]
    while sizes[0] * branching < count:
        sizes.insert(0, sizes[0] * branching)
    return (-(-count // sizes[0]) * sizes[0], *sizes)


def _seen(count: int, size: int) -> float:
    """How much of the squares of all ranges is seen by blocks of a size: tr(QG), G_ij = (min + 1)(count - max)."""
    whole, rest = divmod(count, size)
    first, second = size * whole * (whole - 1) // 2, size**2 * whole * (whole - 1) * (2 * whole - 1) // 6
    blocks = whole * _block(count, 0, size) + size**2 * (first * (count - size) - second)
    return (blocks + _block(count, whole * size, rest)) / size


def _block(count: int, start: int, size: int) -> int:
    """The sum of G over a block: sums of the least and of the greatest of two places in it, and what its start adds."""
    least, greatest = (size - 1) * size * (2 * size - 1) // 6, size * (size - 1) * (4 * size + 1) // 6
    here = count * (least + size**2) - (size * (size - 1) // 2) ** 2 - greatest
    return here + size**2 * (start * (count - size) - start**2)


def rollup_weights(blocks: Sequence[int], law: Law, known_total: bool) -> tuple[float, ...]:
    """The share of each level of nested groups, for the least mean square error of all groups of all levels.

    `blocks` has the number of groups of each level, coarse to fine; groups of a level are taken to be equally large.
    A level may have weight 0, the finest never. Neither equal weights nor the finest level alone are better.
    """
    if not blocks or blocks[0] < 1 or any(finer < coarser for coarser, finer in pairwise(blocks)):
        raise InvalidInput("nested groups have at least one level, and no level fewer groups than the one before")
    sizes = [1 / many for many in blocks]
    # Of all groups, the total and each level see as many as they have themselves, or all of a coarser level.
    seen = [sum(min(many, other) / other for other in blocks) for many in (1, *blocks)]
    seen[0] *= known_total
    found = []
    for kept in _choices(blocks):
        fewer = iter(best_shares([seen[0], *(seen[k + 1] for k in kept)], [sizes[k] for k in kept], law))
        shares = tuple(next(fewer) if k in kept else 0.0 for k in range(len(blocks)))
        found.append((loss(seen, sizes, shares), shares))
    return min(found)[1]


def _choices(blocks: Sequence[int]) -> list[tuple[int, ...]]:
    """Levels to measure, the finest always among them; of two with equally many groups, which are the same, one."""
    *coarser, finest = (level for level, many in enumerate(blocks) if many not in blocks[level + 1 :])
    if len(coarser) > MOST_COARSER:
        return [(finest,), (*coarser, finest)]
    return [(*some, finest) for many in range(len(coarser) + 1) for some in combinations(coarser, many)]
