"""How much of what may be spent goes to each of several nested levels. Proof: nested.md.

What is new at level l, its gain, is known with precision p_l = sum over k >= l of share_k^2 size_k, and the loss is the
sum of gain_l / p_l. The shares add up to 1; where noise is Gaussian their squares do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, compress, pairwise
from typing import Literal

NoiseKind = Literal["laplace", "gaussian"]
MIN_SHARE = 1e-3
"""A level with a smaller share tells next to nothing and is left out."""
SHARE_DENOMINATOR = 2**20
MAX_ROUNDS = 300


def find_best_shares(traces: Sequence[float], sizes: Sequence[float], noise_kind: NoiseKind) -> tuple[float, ...]:
    """The share of each level, coarse to fine: 0 for one that does not help, never for the finest.

    `traces` has what is known before, then what each level sees. The loss is the least of all for Gaussian noise, for
    Laplace noise a local minimum, reached from equal shares.
    """
    if len(sizes) == 1:
        return (1.0,)
    gains = [finer - coarser for coarser, finer in pairwise(traces)]
    shares = _find_gaussian_shares(gains, sizes) if noise_kind == "gaussian" else _find_laplace_shares(gains, sizes)
    is_useful = [share >= MIN_SHARE for share in shares[:-1]] + [True]
    if all(is_useful):
        return shares if noise_kind == "gaussian" else round_shares(shares)
    fewer = iter(
        find_best_shares([traces[0], *compress(traces[1:], is_useful)], [*compress(sizes, is_useful)], noise_kind)
    )
    return tuple(next(fewer) if keep else 0.0 for keep in is_useful)


def compute_share_loss(traces: Sequence[float], sizes: Sequence[float], shares: Sequence[float]) -> float:
    """The sum over levels of gain / precision."""
    known = accumulate(share**2 * size for share, size in zip(shares[::-1], sizes[::-1], strict=True))
    gains = [finer - coarser for coarser, finer in pairwise(traces)]
    return sum(gain / precision for gain, precision in zip(gains[::-1], known, strict=True) if gain)


def round_shares(shares: Sequence[float]) -> tuple[float, ...]:
    """The shares cut to multiples of one part in 2^20, the last taking the rest: as floats they add up to 1 exactly."""
    coarse = [math.floor(share * SHARE_DENOMINATOR) / SHARE_DENOMINATOR for share in shares[:-1]]
    return (*coarse, 1 - sum(coarse))


def _find_gaussian_shares(gains: Sequence[float], sizes: Sequence[float]) -> tuple[float, ...]:
    squares = _find_squared_shares(gains, sizes, [1.0] * len(sizes))
    return tuple(math.sqrt(square / sum(squares)) for square in squares)


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
    pools: list[tuple[float, float, int]] = []
    for gain, cost in zip(
        gains, [unit_costs[0], *(finer - coarser for coarser, finer in pairwise(unit_costs))], strict=True
    ):
        last = gain, cost, 1
        while pools and not _has_greater_precision(pools[-1], last):
            before = pools.pop()
            last = before[0] + last[0], before[1] + last[1], before[2] + last[2]
        pools.append(last)
    precisions = [math.sqrt(gain / cost) for gain, cost, level_count in pools for _ in range(level_count)]
    steps = pairwise([*precisions, 0.0])
    return [(coarser - finer) / size for (coarser, finer), size in zip(steps, sizes, strict=True)]


def _has_greater_precision(coarser: tuple[float, float, int], finer: tuple[float, float, int]) -> bool:
    """Whether the coarser pool has the greater precision; a finer one at no cost would have it without end."""
    return finer[1] > 0 and coarser[0] * finer[1] > finer[0] * coarser[1]
