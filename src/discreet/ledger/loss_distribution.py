"""A tighter total for display, by composing privacy loss distributions (dp-accounting). It decides nothing.

The ledger must hold whatever is asked next, so it adds bounds; looking back at costs that were fixed beforehand,
the distribution of the loss tells more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import reduce
from importlib.util import find_spec
from itertools import starmap
from typing import Any

from discreet.errors import Unsupported
from discreet.numeric import as_number_between, format_exact
from discreet.privacy.cost import PrivacyCost
from discreet.privacy.guarantee import Guarantee

FLOAT_ERROR = 1e-13
"""Taken off delta: the Fourier transforms below add errors twenty times smaller."""
MESH_COUNT = 100_000
"""Losses are rounded up to so many parts of their sum."""


def compute_pld_epsilon(spends: Iterable[PrivacyCost], delta: object) -> float:
    """An epsilon that holds with delta for all these answers together, had their costs been fixed beforehand.

    Pure losses are composed as their worst pairs at half of the delta that is left. What is not pure is added as zCDP
    at the other half: the distribution of continuous Gaussian noise is no bound for noise on a grid. That the two add
    although their questions alternate is the concurrent composition of interactive mechanisms (Lyu 2022).
    """
    all_spends = list(spends)
    total_delta = sum((spend.delta for spend in all_spends), Fraction(0))
    left = as_number_between(delta, 0, 1, "delta") - total_delta
    if left <= 0:
        raise Unsupported(
            f"the deltas of these answers alone add up to {format_exact(total_delta)}; give a larger delta"
        )
    other = sum((spend.gaussian_rho for spend in all_spends), Fraction(0))
    pure = Counter(spend.epsilon for spend in all_spends if spend.epsilon)
    share = left / 2 if other and pure else left
    zcdp_epsilon = Guarantee.zcdp(other).approximate(share).epsilon if other else None
    pure_epsilon = _compute_pure_epsilon(pure, float(share))
    return pure_epsilon if not zcdp_epsilon else math.nextafter(float(zcdp_epsilon + Fraction(pure_epsilon)), math.inf)


def _compute_pure_epsilon(pure: Counter[Fraction], delta: float) -> float:
    """The worst pair of each loss, composed as often as it occurs; never more than the plain sum."""
    epsilon_sum = math.nextafter(float(sum(epsilon * count for epsilon, count in pure.items())), math.inf)
    if not pure or delta <= FLOAT_ERROR:
        return epsilon_sum if pure else 0.0
    if find_spec("dp_accounting") is None:
        raise Unsupported("the tighter total needs dp-accounting; run pip install '.[accounting]'")
    from dp_accounting.pld import common, privacy_loss_distribution

    def compose_pure(epsilon: Fraction, count: int) -> Any:
        worst = common.DifferentialPrivacyParameters(math.nextafter(float(epsilon), math.inf))
        return privacy_loss_distribution.from_privacy_parameters(worst, epsilon_sum / MESH_COUNT).self_compose(count)

    total = reduce(lambda first, second: first.compose(second), starmap(compose_pure, sorted(pure.items())))
    return min(epsilon_sum, float(total.get_epsilon_for_delta(delta - FLOAT_ERROR)))
