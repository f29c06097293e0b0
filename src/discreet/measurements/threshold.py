"""Group keys that are not public: shown when their noisy number of units passes a threshold. Proof: threshold.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.numeric import exp_above, exp_below
from discreet.query.scan import ScanMeasure

EXP_BITS = 400
"""The precision to which exponentials are bounded."""
UNIT_MEASURES = (ScanMeasure("units"),)


@dataclass(frozen=True, slots=True)
class Threshold:
    """Discrete Laplace noise on the number of units of each key, and the least noisy number that is shown."""

    noise: DiscreteLaplace
    min_count: int
    delta: Fraction

    @staticmethod
    def of(bounds: ContributionBounds, epsilon: Fraction, delta: Fraction) -> Threshold:
        """A unit is in at most r keys, 2r when it is replaced; a key of its own is shown with a chance of delta / r."""
        noise = DiscreteLaplace(epsilon, bounds.l0_bound)
        return Threshold(noise, 1 + find_rare_count(noise.rate, delta / bounds.rows_per_unit), delta)


def find_rare_count(rate: Fraction, chance: Fraction) -> int:
    """The least m >= 1 for which P(N >= m) = e^(-rate m) / (1 + e^-rate) is certified to be at most the chance."""
    log_chance = math.log(chance.numerator) - math.log(chance.denominator)
    least = max(1, math.ceil((-log_chance - math.log1p(math.exp(-rate))) / float(rate)) - 2)
    while exp_above(-rate * least, EXP_BITS) > chance * (1 + exp_below(-rate, EXP_BITS)):
        least += 1
    return least
