"""How well ranges are known from the total and the differences between the halves of nested blocks. Proof: nested.md.

Blocks are as long as the least power of two that holds all cells, half as long, and so on down to 2; one at the end
that has no right half is not measured. Each half is the whole plus or minus the difference, halved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from discreet.inference.nest import sum_squares_over_ranges
from discreet.inference.shares import NoiseKind, round_shares


def count_halvings(count: int) -> int:
    """How often so many cells can be halved."""
    return (count - 1).bit_length()


def compute_level_errors(count: int) -> list[float]:
    """What a unit of variance adds to the mean square error of all ranges: of the total, then of each halving."""
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
    """The weights of the least sum of error / weight^2, for what may be spent."""
    if noise_kind == "laplace":
        roots = [error ** (1 / 3) for error in errors]
        return round_shares([root / sum(roots) for root in roots])
    prices = [1 + known_total, *(1 for _ in errors[1:])]
    squares = [math.sqrt(error / price) for error, price in zip(errors, prices, strict=True)]
    cost = _compute_max_cost(squares) if known_total else sum(squares)
    return tuple(math.sqrt(square / cost) for square in squares)


def _compute_max_cost(squares: Sequence[float]) -> float:
    """What one who moves between two cells costs at most: twice where they part, once in each finer halving."""
    finer = accumulate(reversed(squares))
    return max(square + below for square, below in zip(reversed(squares), finer, strict=True))
