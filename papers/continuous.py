"""The documents' continuous laws, for their tables and figures: nothing is drawn from them.

Of the thesis, chapter 4, the smallest region of several independent Laplace noises and the staircase that replaces one;
of document 004 the law 1 / (1 + |x|^gamma) (continuous.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from discreet.errors import InvalidInput
from discreet.numeric import as_number_between, as_positive, as_rational

QUADRATURE_NODES, QUADRATURE_WEIGHTS = np.polynomial.legendre.leggauss(200)


def compute_laplace_region(scales: Sequence[float], confidence: float) -> tuple[float, float]:
    """The smallest region that holds independent Laplace noises of these scales with that probability.

    It is {x : sum |x_i| / b_i <= a}; returns a and the region's size (2a)^d prod(b_i) / d!.
    """
    miss_probability = 1 - float(as_number_between(confidence, 0, 1, "confidence"))
    count = len(scales)

    def is_large_enough(a: float) -> bool:
        return math.exp(-a) * math.fsum(a**i / math.factorial(i) for i in range(count)) <= miss_probability

    radius = _find_threshold(is_large_enough)
    return radius, (2 * radius) ** count * math.prod(scales) / math.factorial(count)


def compute_laplace_core(epsilon: object, sensitivity: object) -> float:
    """The core of the smaller staircase that replaces Laplace noise of scale sensitivity/epsilon (thesis 4.3).

    sensitivity/(e (1-q)) (1 - q - e q) with q = exp(-e), which is sensitivity (1/e - 1/(exp(e) - 1)).
    """
    epsilon_value, width = float(as_positive(epsilon, "epsilon")), float(as_positive(sensitivity, "sensitivity"))
    if epsilon_value < 0.01:
        return width * (0.5 - epsilon_value / 12 + epsilon_value**3 / 720)
    return width * (1 / epsilon_value - 1 / math.expm1(min(epsilon_value, 700)))


def compute_heavy_tail_interval(gamma: object, scale: object, confidence: object) -> float:
    """The half width of the interval about 0 that holds scale * Z with that probability."""
    power, share = _parse_gamma(gamma), float(as_number_between(confidence, 0, 1, "confidence"))
    half = (math.pi / power) / math.sin(math.pi / power)

    def is_wide_enough(width: float) -> bool:
        if width > 1:
            return _integrate_outside(width, power) <= (1 - share) * half
        x = width * (QUADRATURE_NODES + 1) / 2
        return float(np.sum(QUADRATURE_WEIGHTS / (1 + x**power))) * width / 2 >= share * half

    return float(as_positive(scale, "scale")) * _find_threshold(is_wide_enough)


def compute_heavy_tail_loss(gamma: object, alpha: float, beta: float) -> float:
    """The proven loss of S Z / alpha, S beta-smooth: alpha (g-1)^((g-1)/g) to slide, beta max(g-1, 1) to dilate."""
    power = _parse_gamma(gamma)
    return alpha * _compute_max_slope(power) + beta * max(power - 1, 1)


def compute_admissible_loss(gamma: object) -> float:
    """What the document's (epsilon / 4 gamma, epsilon / gamma) costs, divided by epsilon; above 1 it is not proven."""
    power = _parse_gamma(gamma)
    return compute_heavy_tail_loss(gamma, 1 / (4 * power), 1 / power)


def find_admissible_range() -> tuple[float, float]:
    """The gammas between which the document's choice is proven epsilon-DP."""
    low = _bisect_condition(lambda gamma: compute_admissible_loss(gamma) <= 1, 1 + 1e-9, 2.0)
    high = _bisect_condition(lambda gamma: compute_admissible_loss(gamma) >= 1, 2.0, 64.0)
    return low, high


def compute_largest_alpha(gamma: object, beta: float) -> float:
    """The largest proven alpha / epsilon once beta / epsilon is chosen: 1/2 at gamma 2 and beta 1/2."""
    power = _parse_gamma(gamma)
    return (1 - beta * max(power - 1, 1)) / _compute_max_slope(power)


def _parse_gamma(gamma: object) -> float:
    power = as_rational(gamma, "gamma")
    if power <= 1:
        raise InvalidInput("gamma must be above 1; the law has no total otherwise")
    return float(power)


def _compute_max_slope(power: float) -> float:
    """The largest slope of ln(1 + x^gamma)."""
    return math.pow(power - 1, (power - 1) / power)


def _integrate_outside(width: float, power: float) -> float:
    """The integral of 1 / (1 + x^gamma) from a width of at least 1 to infinity, with v = (x / width)^(1 - gamma)."""
    v = (QUADRATURE_NODES + 1) / 2
    flat = float(np.sum(QUADRATURE_WEIGHTS / (1 + width**-power * v ** (power / (power - 1))))) / 2
    return flat * math.pow(width, 1 - power) / (power - 1)


def _find_threshold(condition: Callable[[float], bool]) -> float:
    """The least positive number from which a condition holds."""
    high = 1.0
    while not condition(high):
        high *= 2
    return _bisect_condition(condition, 0.0, high)


def _bisect_condition(condition: Callable[[float], bool], low: float, high: float) -> float:
    """Where a monotone condition becomes true, to the last few digits of a float."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high
