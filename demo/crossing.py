"""From which range on noise beats refinement: a total that one unit moves by 1, known to lie evenly in a range.

Errors are root mean square, of the best estimate after the answer, for someone who is right about the range.
"""

from __future__ import annotations

import math
from fractions import Fraction

from discreet import DiscreteLaplace, Prior, Refinement, Staircase
from discreet.inference.belief import believed
from discreet.inference.line import Spread, expected_error
from discreet.kernel.refinement_risk import Line

POINTS = 1024
FINE = Fraction(1, POINTS)
"""The grid of the noise; that of the prior is so many points in the range."""


def alone(width: Fraction) -> float:
    """The error of who does not ask."""
    return float(width) / math.sqrt(12)


def by_refinement(width: Fraction, epsilon: Fraction) -> float:
    """The error after a refinement, which knows of no sensitivity."""
    prior = _even(width)
    up, down = map(float, Refinement.of(prior, epsilon, "statistic").factors)
    line = Line.of(prior, 2 * POINTS)
    return math.sqrt(line.risk(up, down)) * line.unit


def by_noise(width: Fraction, epsilon: Fraction) -> float:
    """The error after noise, Laplace's or the staircase's, whichever is the less."""
    step = width / POINTS
    belief = believed(_even(width), step / 2, width - step / 2, step, "SUM")
    noises = DiscreteLaplace(epsilon, 1, FINE), Staircase.least_variance(epsilon, 1, FINE)
    return min(expected_error(belief, Spread(noise, float(FINE))) for noise in noises)


def crossing(epsilon: Fraction) -> float:
    """The range over sensitivity where both are equally good."""
    low, high = Fraction(1, 2), Fraction(16)
    while high - low > Fraction(1, 100):
        middle = (low + high) / 2
        better = by_refinement(middle, epsilon) < by_noise(middle, epsilon)
        low, high = (middle, high) if better else (low, middle)
    return float(low + high) / 2


def _even(width: Fraction) -> Prior:
    step = width / POINTS
    return Prior.uniform(step / 2, width - step / 2, step)
