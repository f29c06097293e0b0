"""What an account promises where parts count more often than before, and where snapshots meet again."""

from __future__ import annotations

from fractions import Fraction

import pytest

from discreet import BudgetExceeded, InvalidInput, Ledger
from discreet.ledger import Charge, budget_check, chain
from discreet.ledger.accounts import SPENT_ABOVE_CAP, WEAKER_ANSWERS
from discreet.ledger.ledger import WEAKER_FLAG
from discreet.privacy.cost import PrivacyCost, SubAccount
from support.ledger_stores import (
    DATASET,
    EVERY_MODEL,
    build_caps,
    build_charge,
    build_pure_cost,
    ledger,
    ledger_address,
    list_spent,
)

__all__ = ["ledger", "ledger_address"]  # fixtures

LIMITS = build_caps(1, delta="1e-6", models=EVERY_MODEL)
LARGEST_COST = PrivacyCost(gaussian_rho=Fraction(21, 1000))
"""21 Gaussian answers: 0.985 of a cap of 1; two times as much is 1.481."""


def build_gaussian_charge(
    name: str, part: str | None = None, analyst: str = "ann", spend: PrivacyCost = LARGEST_COST
) -> Charge:
    on = None if part is None else SubAccount("partition", part, 1)
    return build_charge(name, "0.1", model="approx-dp", spend=spend, part=on, analyst=analyst)


def build_touching_charge(model: str = "individual-dp", analyst: str = "ann", reach: int = 2) -> Charge:
    """A charge on a part of its own that says how many parts one unit touches."""
    spend = PrivacyCost(gaussian_rho=Fraction(1, 10**6)) if model == "approx-dp" else build_pure_cost("0.1")
    part = SubAccount("partition", "c", reach)
    return build_charge(model, "0.1", model=model, spend=spend, part=part, analyst=analyst)  # type: ignore[arg-type]


def list_promised_models(ledger: Ledger, analyst: str | None = None) -> dict[str, bool]:
    """The models in which an epsilon is promised in advance."""
    balances = ledger.balance(DATASET, LIMITS, analyst)
    return {
        balance.model: balance.promise.startswith("all answers of this account together satisfy ")
        for balance in balances
    }


def test_a_reach_is_raised_only_if_every_model_stays_under_its_cap(ledger: Ledger) -> None:
    """Gaussian answers on two parts are 1.481 for whoever is in both, also where the raise is of another model."""
    for part in "ab":
        ledger.charge(build_gaussian_charge(part, part), LIMITS)
    before = ledger.verify()
    assert ledger.count_affordable(build_touching_charge(), LIMITS) == 0
    with pytest.raises(BudgetExceeded, match="one unit touches 2 parts, more than was said before"):
        ledger.charge(build_touching_charge(), LIMITS)
    assert ledger.verify() == before
    assert all(list_promised_models(ledger).values())
    ledger.charge(build_touching_charge(reach=1), LIMITS)
    ledger.register(DATASET, "0f", "s2", disjoint=True)
    assert all(list_promised_models(ledger).values())


def test_a_raise_under_a_higher_cap_or_within_it_is_admitted(ledger: Ledger) -> None:
    for part in "ab":
        ledger.charge(build_gaussian_charge(part, part, spend=PrivacyCost(gaussian_rho=Fraction(7, 1000))), LIMITS)
    ledger.charge(build_touching_charge(), LIMITS)
    with pytest.raises(BudgetExceeded):  # the largest counts, whoever names less
        ledger.charge(build_gaussian_charge("d", "d"), LIMITS)
    ledger.charge(build_gaussian_charge("d", "d", spend=PrivacyCost(gaussian_rho=Fraction(14, 1000))), LIMITS)
    with pytest.raises(BudgetExceeded):
        ledger.charge(build_touching_charge(reach=3), LIMITS)
    ledger.charge(build_touching_charge(reach=3), build_caps(2, delta="1e-6", models=EVERY_MODEL))
    ledger.verify()


def test_a_reach_is_raised_only_if_the_deltas_stay_within_half(ledger: Ledger) -> None:
    for part in "ab":
        ledger.charge(
            build_gaussian_charge(
                part, part, spend=PrivacyCost(gaussian_rho=Fraction(1, 10**4), delta=Fraction(4, 10**7))
            ),
            LIMITS,
        )
    with pytest.raises(BudgetExceeded):
        ledger.charge(build_touching_charge(), LIMITS)


def test_a_reach_is_raised_only_if_the_accounts_of_others_stay_under_their_caps(ledger: Ledger) -> None:
    """Bob has all that an analyst may have on two parts; Ann has nothing, and the data set has room."""
    limits = build_caps(4, analyst=1, delta="1e-6", models=EVERY_MODEL)
    for part in "ab":
        ledger.charge(build_gaussian_charge(part, part, "bob"), limits)
    for model in EVERY_MODEL:
        with pytest.raises(BudgetExceeded):
            ledger.charge(build_touching_charge(model, "ann"), limits)
    ledger.charge(build_charge("whole", analyst="ann"), limits)


def test_what_an_older_version_admitted_at_a_raised_reach_is_not_forgotten(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked at the models of the charge alone; then other units came, who have lost nothing."""
    for part in "ab":
        ledger.charge(build_gaussian_charge(part, part), LIMITS)
    with monkeypatch.context() as before:
        before.setattr(budget_check, "_raise_fits", lambda *_: True)
        ledger.charge(build_touching_charge(), LIMITS)
    for snapshot in ("s1", "s2", "s3"):
        ledger.register(DATASET, "0f", snapshot, disjoint=snapshot == "s2")
        for analyst in (None, "ann"):
            assert list_promised_models(ledger, analyst) == {"dp": True, "approx-dp": False, "individual-dp": True}
        promise = ledger.balance(DATASET, LIMITS)[1].promise
        assert promise.startswith(f"{SPENT_ABOVE_CAP}; for the epsilon of 1.4811")
    ledger.verify()


def test_snapshots_that_meet_again_keep_their_promise(ledger: Ledger) -> None:
    """Some have lost Gaussian answers, others a pure one: 1.985 is counted together, and nobody has lost above 1."""
    ledger.charge(build_gaussian_charge("first"), LIMITS)
    ledger.register(DATASET, "0f", "s2", disjoint=True)
    ledger.charge(build_charge("second", 1, snapshot="s2", part=SubAccount("partition", "north", 2)), LIMITS)
    for snapshot in ("s3", "s4"):
        ledger.register(DATASET, "0f", snapshot, disjoint=False)
        spent = list_spent(ledger, LIMITS)["approx-dp"]
        assert spent is not None
        assert Fraction(198, 100) < spent < 2
        assert all(list_promised_models(ledger).values())
        assert all(list_promised_models(ledger, "ann").values())
        with pytest.raises(BudgetExceeded):
            ledger.charge(build_charge("more", "0.001", snapshot=snapshot), LIMITS)
    ledger.verify()


@pytest.mark.parametrize(("model", "other_model"), [("approx-dp", "individual-dp"), ("individual-dp", "approx-dp")])
@pytest.mark.parametrize("part", [None, SubAccount("individual", "p1", 1)])
def test_every_account_says_where_answers_were_given_that_it_does_not_count(
    ledger: Ledger, model: str, other_model: str, part: SubAccount | None
) -> None:
    def find_flagged_models() -> dict[str, bool]:
        balances = ledger.balance(DATASET, LIMITS)
        assert all((WEAKER_FLAG in balance.flags) == (WEAKER_ANSWERS in balance.promise) for balance in balances)
        return {balance.model: WEAKER_FLAG in balance.flags for balance in balances}

    ledger.charge(build_charge("pure", "0.5", part=SubAccount("individual", "p2", 1)), LIMITS)
    assert not any(find_flagged_models().values())
    spend = PrivacyCost(gaussian_rho=Fraction(1, 1000)) if model == "approx-dp" else build_pure_cost("0.1")
    ledger.charge(build_charge("q", "0.1", model=model, spend=spend, part=part), LIMITS)  # type: ignore[arg-type]
    for snapshot in ("s1", "s2", "s3"):  # for good
        ledger.register(DATASET, "0f", snapshot, disjoint=snapshot == "s2")
        assert find_flagged_models() == {"dp": True, model: False, other_model: True}
    ledger.release(DATASET, "s3", "a file", "{}")
    assert all(find_flagged_models().values())


def test_nobody_asks_in_the_words_of_what_was_forgotten(ledger: Ledger) -> None:
    """Else an answer would look like spend that a restored ledger has no record of."""
    with pytest.raises(InvalidInput, match="name the question otherwise"):
        ledger.charge(build_charge(chain.FORGOTTEN_QUERY, analyst=chain.RESTORER), LIMITS)
