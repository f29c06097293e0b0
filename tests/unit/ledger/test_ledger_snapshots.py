"""What was spent before a new snapshot: nobody's loss is forgotten, whatever part they are in by then."""

from __future__ import annotations

from fractions import Fraction

import pytest

from discreet import BudgetExceeded, Ledger
from discreet.privacy.cost import SubAccount
from support.ledger_stores import DATASET, build_caps, build_charge, ledger, ledger_address, list_spent

__all__ = ["ledger", "ledger_address"]  # fixtures


def ask_part(name: str, epsilon: object, snapshot: str, kind: str = "partition", reach: int = 1):  # type: ignore[no-untyped-def]
    part = SubAccount("partition" if kind == "partition" else "individual", name, reach)
    return build_charge(f"{name} {snapshot}", epsilon, part=part, snapshot=snapshot)


def test_people_who_moved_to_another_part_have_lost_what_they_lost(ledger: Ledger) -> None:
    """North spends all; then everybody is South, or the part has another name: nothing is left."""
    ledger.charge(ask_part("north", 3, "s1"), build_caps(3))
    ledger.charge(ask_part("south", 3, "s1"), build_caps(3))
    ledger.register(DATASET, "0f", "s2", disjoint=False)
    assert list_spent(ledger, build_caps(3)) == {"dp": 3}
    for name in ("north", "south", "nord"):
        with pytest.raises(BudgetExceeded):
            ledger.charge(ask_part(name, "0.001", "s2"), build_caps(3))
    ledger.verify()


def test_the_largest_parts_are_carried_over_once(ledger: Ledger) -> None:
    """Root, the two largest of three partitions, and the largest individual; per analyst as well."""
    ledger.charge(build_charge("root", 1), build_caps(100))
    for name, epsilon in (("a", 5), ("b", 3), ("c", 4)):
        ledger.charge(ask_part(name, epsilon, "s1", reach=2), build_caps(100))
    for name, epsilon in (("p1", 7), ("p2", 2)):
        ledger.charge(ask_part(name, epsilon, "s1", "individual"), build_caps(100))
    before = list_spent(ledger, build_caps(100)), list_spent(ledger, build_caps(100), "ann")
    assert before == ({"dp": 17}, {"dp": 17})
    ledger.register(DATASET, "0f", "s2", disjoint=False)
    assert (list_spent(ledger, build_caps(100)), list_spent(ledger, build_caps(100), "ann")) == before
    ledger.charge(ask_part("b", 2, "s2"), build_caps(100))
    assert list_spent(ledger, build_caps(100)) == {"dp": 19}
    ledger.verify()


def test_an_epoch_before_a_disjoint_one_is_not_forgotten(ledger: Ledger) -> None:
    """January spends 3, February, disjoint, 1; January and February together have 3 behind them, and not 1 or 4."""
    ledger.charge(build_charge("january", 3), build_caps(3))
    ledger.register(DATASET, "0f", "s2", disjoint=True)
    assert list_spent(ledger, build_caps(3)) == {"dp": 0}
    ledger.charge(build_charge("february", 1, snapshot="s2"), build_caps(3))
    ledger.register(DATASET, "0f", "s3", disjoint=False)
    assert list_spent(ledger, build_caps(3)) == {"dp": 3}
    with pytest.raises(BudgetExceeded):
        ledger.charge(build_charge("both", Fraction(1, 1000), snapshot="s3"), build_caps(3))
    ledger.register(DATASET, "0f", "s4", disjoint=False)
    assert list_spent(ledger, build_caps(3)) == {"dp": 3}
    ledger.verify()


def test_a_pure_answer_is_allowed_under_every_model(ledger: Ledger) -> None:
    """dp implies the rest: it is debited wherever there is an account."""
    limits = build_caps(3, delta="1e-6", models=("approx-dp",))
    ledger.charge(build_charge("q", 1), limits)
    assert list_spent(ledger, limits) == {"approx-dp": 1}
