"""A lower bound on epsilon from how often one event was seen with either data set; why it holds is in bound.md."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def compute_clopper_pearson(count: int, draws: int, miss: float) -> tuple[float, float]:
    """Two limits of a probability by its count in independent draws; each is wrong with probability at most `miss`."""
    from scipy.special import betainccinv, betaincinv

    low = float(betaincinv(count, draws - count + 1, miss)) if count else 0.0
    high = float(betainccinv(count + 1, draws - count, miss)) if count < draws else 1.0
    return low, high


def compute_epsilon_bound(likely: int, rare: int, draws: int, delta: float, confidence: float) -> float:
    """The epsilon that is exceeded with this confidence: at least ln((p - delta) / q), and at least 0."""
    miss = (1 - confidence) / 2
    low, high = compute_clopper_pearson(likely, draws, miss)[0], compute_clopper_pearson(rare, draws, miss)[1]
    return max(math.log((low - delta) / high), 0.0) if low > delta else 0.0


def estimate_epsilon_bounds(
    likely: NDArray[np.int64], rare: NDArray[np.int64], draws: int, delta: float, z: float
) -> Array:
    """About what `certified` gives, for many events at once: by Wilson's limits, for choosing only."""
    low, high = _compute_wilson_limit(likely, draws, -z), _compute_wilson_limit(rare, draws, z)
    above = np.maximum(low - delta, 0.0)
    return np.log(np.maximum(above, 1e-300) / high)


def _compute_wilson_limit(count: NDArray[np.int64], draws: int, z: float) -> Array:
    """Wilson's limit of a probability: the lower one for a negative z, the upper one for a positive z."""
    share, square = count / draws, z * z / draws
    middle = share + square / 2
    half = math.copysign(1, z) * np.sqrt(square * (share * (1 - share) + square / 4))
    limit: Array = (middle + half) / (1 + square)
    return limit
