"""The tighter total for display: below what the ledger adds up, above what is true."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from discreet import InvalidInput, Unsupported
from discreet.privacy.cost import PrivacyCost, compute_pld_epsilon
from discreet.privacy.guarantee import Guarantee
from support import external_services
from support.ledger_stores import build_pure_cost

DELTA = Fraction(1, 10**6)


@pytest.fixture(autouse=True)
def _require_accounting() -> None:
    external_services.require("accounting", *external_services.list_absent_modules("dp_accounting"))


def compute_worst_delta(epsilon: Fraction, count: int, total: float) -> float:
    """The delta of `count` randomised responses at a total epsilon, summed over how many went wrong."""
    right = math.exp(epsilon) / (1 + math.exp(epsilon))
    delta = 0.0
    for wrong in range(count + 1):
        loss = float(epsilon) * (count - 2 * wrong)
        chance = math.comb(count, wrong) * right ** (count - wrong) * (1 - right) ** wrong
        delta += max(0.0, chance * (1 - math.exp(total - loss)))
    return delta


@pytest.mark.parametrize(("epsilon", "count"), [("0.1", 100), ("0.5", 20), ("1", 3), ("0.01", 500)])
def test_pure_answers_compose_nearly_as_randomised_response_does(epsilon: str, count: int) -> None:
    """No pure mechanism is worse, so this is what is true: the total holds, and a little less would not."""
    total = compute_pld_epsilon([build_pure_cost(epsilon)] * count, DELTA)
    assert compute_worst_delta(Fraction(epsilon), count, total) <= DELTA
    assert compute_worst_delta(Fraction(epsilon), count, total * 0.99) > DELTA


def test_it_is_tighter_than_the_sum_and_than_zcdp() -> None:
    total = compute_pld_epsilon([build_pure_cost("0.1")] * 100, DELTA)
    assert total < (Guarantee.zcdp(Fraction(1, 2)).approximate(DELTA).epsilon or 0) < 10


def test_what_is_not_pure_is_added_as_zcdp_at_half_of_the_delta() -> None:
    """The distribution of continuous Gaussian noise is no bound for noise on a grid."""
    gaussian = PrivacyCost(gaussian_rho=Fraction(1, 100))
    alone = Guarantee.zcdp(Fraction(3, 100)).approximate(DELTA).epsilon
    halved = Guarantee.zcdp(Fraction(3, 100)).approximate(DELTA / 2).epsilon
    assert alone is not None
    assert halved is not None
    assert compute_pld_epsilon([gaussian] * 3, DELTA) == pytest.approx(float(alone))
    both = compute_pld_epsilon([gaussian] * 3 + [build_pure_cost("0.1")] * 10, DELTA)
    assert both == pytest.approx(float(halved) + compute_pld_epsilon([build_pure_cost("0.1")] * 10, DELTA / 2))


def test_deltas_of_answers_come_off_first() -> None:
    failing = PrivacyCost(Fraction(1, 10), Fraction(1, 200), delta=DELTA / 2)
    assert compute_pld_epsilon([failing], DELTA) == pytest.approx(0.1, rel=1e-3)
    with pytest.raises(Unsupported, match="larger delta"):
        compute_pld_epsilon([failing] * 2, DELTA)


def test_nothing_costs_nothing() -> None:
    assert compute_pld_epsilon([], DELTA) == 0
    assert compute_pld_epsilon([PrivacyCost()], DELTA) == 0


@pytest.mark.parametrize("delta", [0, 1, float("nan"), "1e-6"])
def test_a_delta_is_between_0_and_1(delta: object) -> None:
    with pytest.raises(InvalidInput):
        compute_pld_epsilon([build_pure_cost(1)], delta)
