"""The continuous law 1 / (1 + |x|^gamma) of document 004, for its figures. It does not draw. Note: heavy_tail.md."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from discreet.errors import InvalidInput
from discreet.exact import between, positive, rational

NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


def heavy_tail_interval(gamma: object, scale: object, confidence: object) -> float:
    """The half width of the interval about 0 that holds scale * Z with that probability."""
    power, share = _gamma(gamma), float(between(confidence, 0, 1, "confidence"))
    half = (math.pi / power) / math.sin(math.pi / power)

    def enough(width: float) -> bool:
        if width <= 1:
            return _inside(width, power) >= share * half
        return _outside(width, power) <= (1 - share) * half

    high = 1.0
    while not enough(high):
        high *= 2
    return float(positive(scale, "scale")) * _bisect(enough, 0.0, high)


def loss(gamma: object, alpha: float, beta: float) -> float:
    """The proven loss of S Z / alpha, S beta-smooth: alpha (g-1)^((g-1)/g) to slide, beta max(g-1, 1) to dilate."""
    power = _gamma(gamma)
    return alpha * _steepest(power) + beta * max(power - 1, 1)


def admissible_loss(gamma: object) -> float:
    """What the document's (epsilon / 4 gamma, epsilon / gamma) costs, divided by epsilon; above 1 it is not proven."""
    power = _gamma(gamma)
    return loss(gamma, 1 / (4 * power), 1 / power)


def admissible_range() -> tuple[float, float]:
    """The gammas between which the document's choice is proven epsilon-DP."""
    low = _bisect(lambda gamma: admissible_loss(gamma) <= 1, 1 + 1e-9, 2.0)
    high = _bisect(lambda gamma: admissible_loss(gamma) >= 1, 2.0, 64.0)
    return low, high


def largest_alpha(gamma: object, beta: float) -> float:
    """The largest proven alpha / epsilon once beta / epsilon is chosen: 1/2 at gamma 2 and beta 1/2."""
    power = _gamma(gamma)
    return (1 - beta * max(power - 1, 1)) / _steepest(power)


def _gamma(gamma: object) -> float:
    power = rational(gamma, "gamma")
    if power <= 1:
        raise InvalidInput("gamma must be above 1; the law has no total otherwise")
    return float(power)


def _steepest(power: float) -> float:
    """The largest slope of ln(1 + x^gamma)."""
    return math.pow(power - 1, (power - 1) / power)


def _inside(width: float, power: float) -> float:
    """The integral of 1 / (1 + x^gamma) from 0 to a width of at most 1."""
    x = width * (NODES + 1) / 2
    return float(np.sum(WEIGHTS / (1 + x**power))) * width / 2


def _outside(width: float, power: float) -> float:
    """The same from a width of at least 1 to infinity, with v = (x / width)^(1 - gamma)."""
    v = (NODES + 1) / 2
    flat = float(np.sum(WEIGHTS / (1 + width**-power * v ** (power / (power - 1))))) / 2
    return flat * math.pow(width, 1 - power) / (power - 1)


def _bisect(true_from: Callable[[float], bool], low: float, high: float) -> float:
    """Where a monotone condition becomes true, to the last few digits of a float."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if true_from(middle) else (middle, high)
    return high
