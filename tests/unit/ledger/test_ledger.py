"""The ledger: who pays what, what is refused, what is shared."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest.mock import Mock

import pytest
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from discreet import BudgetExceeded, ClaimFailed, InvalidInput, Unavailable
from discreet.ledger import Caps, Charge, Ledger, Receipt, chain, storage
from discreet.ledger import charge as units
from discreet.ledger.accounts import Account, Terms, compute_spent_epsilon, is_under_cap
from discreet.ledger.backup import NewDataSet
from discreet.ledger.charge import Model
from discreet.ledger.connect import RecordedHead
from discreet.ledger.ledger import WEAKER_FLAG
from discreet.privacy.cost import MIN_EPSILON as LEAST
from discreet.privacy.cost import PrivacyCost, SubAccount
from discreet.privacy.guarantee import Guarantee, compute_epsilon_at_order
from discreet.schema import Budget
from support.ledger_stores import (
    DATASET,
    EVERY_MODEL,
    build_caps,
    build_charge,
    build_pure_cost,
    charge_and_store,
    ledger,
    ledger_address,
    list_spent,
)

__all__ = ["ledger", "ledger_address"]  # fixtures

# Paying


def test_a_new_answer_is_paid_by_the_data_set_and_the_analyst(ledger: Ledger) -> None:
    receipt = ledger.charge(build_charge(epsilon="0.3"), build_caps(1))
    assert receipt == Receipt(2, None, build_pure_cost("0.3"), charged=True)
    assert list_spent(ledger, build_caps(1)) == list_spent(ledger, build_caps(1), "ann") == {"dp": Fraction(3, 10)}
    assert list_spent(ledger, build_caps(1), "bob") == {"dp": 0}


def test_a_cap_is_reached_exactly_and_never_passed(ledger: Ledger) -> None:
    """Ten tenths are one, not 0.9999 or 1.0001."""
    for number in range(10):
        ledger.charge(build_charge(number), build_caps(1))
    with pytest.raises(BudgetExceeded):
        ledger.charge(build_charge("more", "0.0000000001"), build_caps(1))
    assert list_spent(ledger, build_caps(1)) == {"dp": 1}


def test_costs_that_are_no_decimals_are_rounded_up(ledger: Ledger) -> None:
    """Three thirds do not fit one."""
    third = Fraction(1, 3)
    for number in range(2):
        ledger.charge(build_charge(number, third), build_caps(1))
    with pytest.raises(BudgetExceeded):
        ledger.charge(build_charge("more", third), build_caps(1))
    assert 2 * third < (list_spent(ledger, build_caps(1))["dp"] or 0) < 2 * third + Fraction(1, 10**39)


def test_each_analyst_has_a_cap_and_all_together_have_one(ledger: Ledger) -> None:
    limits = build_caps(1, analyst="0.6")
    ledger.charge(build_charge(1, "0.6"), limits)
    with pytest.raises(BudgetExceeded, match=r"data set's budget has 0.4 left and the analyst's 0;"):
        ledger.charge(build_charge(2, "0.1"), limits)
    with pytest.raises(BudgetExceeded, match=r"data set's budget has 0.4 left and the analyst's 0.6;"):
        ledger.charge(build_charge(2, "0.5", analyst="bob"), limits)


def test_a_refusal_says_what_would_fit_and_it_does(ledger: Ledger) -> None:
    limits = build_caps(1, analyst="0.7")
    ledger.charge(build_charge(1, "0.5"), limits)
    before = ledger.verify()
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(build_charge(2, "0.21"), limits)
    message = "epsilon 0.21 was asked; for this question the data set's budget has 0.5 left and the analyst's 0.2; "
    assert str(refusal.value) == message + "ask with epsilon at most 0.2"
    assert ledger.verify() == before
    ledger.charge(build_charge(2, "0.2"), limits)
    with pytest.raises(BudgetExceeded, match="analyst's 0; nothing new like it can be drawn; a smaller epsilon is"):
        ledger.charge(build_charge(3, "0.1"), limits)
    with pytest.raises(BudgetExceeded, match=r"analyst's 0; nothing more like it can be answered$"):
        ledger.charge(build_charge(3, "0.1", fresh=True), limits)


def test_a_refusal_advises_no_epsilon_below_the_least(ledger: Ledger) -> None:
    """What cannot be asked for is not left."""
    ledger.charge(build_charge(1, 1 - 2 * LEAST), build_caps(1))
    with pytest.raises(BudgetExceeded, match=r"has 2e-9 left and the analyst's 2e-9; ask with epsilon at most 2e-9$"):
        ledger.charge(build_charge(2, "0.1"), build_caps(1))
    ledger.charge(build_charge(3, Fraction(3, 2) * LEAST), build_caps(1))
    with pytest.raises(BudgetExceeded, match="has 0 left and the analyst's 0; nothing new like it can be drawn"):
        ledger.charge(build_charge(2, "0.1"), build_caps(1))


def test_a_refusal_does_not_deny_what_a_stored_answer_serves(ledger: Ledger) -> None:
    """Nor does it tell the epsilon of another analyst's answer."""
    limits = build_caps(1)
    charge_and_store(ledger, build_charge(1, "0.53"), limits, "stored")
    ledger.charge(build_charge(2, "0.47"), limits)
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(build_charge(1, "0.6", analyst="bob", degradable=True), limits)
    assert str(refusal.value) == (
        "epsilon 0.6 was asked; for this question the data set's budget has 0 left and the analyst's 1; nothing new "
        "like it can be drawn; a smaller epsilon is answered only if a stored answer serves it"
    )
    assert ledger.charge(build_charge(1, "0.4", analyst="bob", degradable=True), limits).answer_to_degrade == "stored"


@pytest.mark.parametrize(
    "spend",
    [
        PrivacyCost(gaussian_rho=Fraction(1, 5000)),
        PrivacyCost(Fraction("0.1"), Fraction("0.005"), delta=Fraction(1, 10**7)),
        PrivacyCost(),
    ],
)
def test_only_pure_charges_can_be_degradable(spend: PrivacyCost) -> None:
    """A stored answer is degraded by Laplace noise, which no Gaussian answer can be made of, or make."""
    with pytest.raises(InvalidInput, match="only a charge in epsilon alone can be degradable"):
        build_charge(model="approx-dp", spend=spend, degradable=True)
    assert not build_charge(model="approx-dp", spend=spend).degradable


def test_a_stored_answer_that_cost_less_is_not_degraded(ledger: Ledger) -> None:
    """Its account would be charged more than the draw behind the answer cost, and `verify` would refuse the entry."""
    limits = build_caps(10, delta="0.001", models=("dp", "approx-dp"))
    cheap = build_charge(1, "0.5", model="approx-dp", spend=PrivacyCost(gaussian_rho=Fraction(1, 5000)))
    charge_and_store(ledger, cheap, limits, "stored")
    request = build_charge(1, "0.25", analyst="bob", model="approx-dp", degradable=True)
    offer = ledger.find_offer(request)
    assert offer is None
    receipt = ledger.charge(request, limits)
    assert (receipt.answer, receipt.answer_to_degrade) == (None, None)
    assert ledger.verify().entries == 4


def test_a_file_that_does_not_fit_is_refused_as_one(ledger: Ledger) -> None:
    """It is nobody's question, and no analyst pays for it."""
    file = replace(build_charge(1, "0.6", analyst="custodian"), query="file t-1 by private-columns: x", fresh=True)
    ledger.charge(file, build_caps(1))
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(file, build_caps(1))
    message = "epsilon 0.6 was asked; for this file the budget has 0.4 left; ask with epsilon at most 0.4"
    assert str(refusal.value) == message


@pytest.mark.parametrize(("model", "instead"), [("individual-dp", "ask for dp"), ("approx-dp", "leave the delta out")])
def test_a_model_that_is_not_allowed_is_refused_by_name(ledger: Ledger, model: Model, instead: str) -> None:
    """With what to do about it."""
    with pytest.raises(InvalidInput) as refusal:
        ledger.charge(build_charge(model=model), build_caps(models=("dp",)))
    message = f"{model} is not allowed on this data set; allowed are dp; {instead}, or add {model} to the models of "
    assert str(refusal.value) == message + "the schema"


def test_weaker_charges_leave_the_dp_account_alone_but_flag_it_for_good(ledger: Ledger) -> None:
    limits = build_caps(5, delta="1e-6", models=EVERY_MODEL)
    assert ledger.balance(DATASET, limits)[0].flags == ()
    ledger.charge(build_charge(1, 1), limits)
    assert list_spent(ledger, limits) == {"dp": 1, "approx-dp": 1, "individual-dp": 1}
    ledger.charge(build_charge(2, 2, model="individual-dp"), limits)
    assert list_spent(ledger, limits) == {"dp": 1, "approx-dp": 1, "individual-dp": 3}
    assert [balance.flags for balance in ledger.balance(DATASET, limits)] == [(WEAKER_FLAG,), (WEAKER_FLAG,), ()]
    ledger.charge(build_charge(3, 2, model="approx-dp"), limits)
    assert list_spent(ledger, limits) == {"dp": 1, "approx-dp": 3, "individual-dp": 3}
    ledger.register(DATASET, "0f", "s2", disjoint=True)
    ledger.charge(build_charge(4, 1, snapshot="s2"), limits)
    assert ledger.balance(DATASET, limits)[0].flags == (WEAKER_FLAG,)


def test_a_model_allowed_later_remembers_what_was_spent_before(ledger: Ledger) -> None:
    """Or else opening a second model would open a second budget."""
    ledger.charge(build_charge(1, 1), build_caps(1))
    with pytest.raises(BudgetExceeded):
        ledger.charge(build_charge(2, 1, model="individual-dp"), build_caps(1, models=EVERY_MODEL))


def test_a_lowered_cap_refuses_and_leaves_nothing(ledger: Ledger) -> None:
    ledger.charge(build_charge(1, 1), build_caps(1))
    with pytest.raises(BudgetExceeded, match="has 0 left"):
        ledger.charge(build_charge(2, "0.1"), build_caps("0.5"))
    assert ledger.balance(DATASET, build_caps("0.5"))[0].left == 0


# Stored answers


def test_the_same_question_again_is_free_to_whom_paid(ledger: Ledger) -> None:
    first = charge_and_store(ledger, build_charge(), build_caps(1), '{"value": 7}')
    second = ledger.charge(build_charge(), build_caps(1))
    assert second == Receipt(first.entry, '{"value": 7}', first.paid, charged=False)
    assert list_spent(ledger, build_caps(1), "ann") == {"dp": Fraction(1, 10)}


def test_another_analyst_pays_a_stored_answer_alone(ledger: Ledger) -> None:
    charge_and_store(ledger, build_charge(), build_caps(1), "7")
    read = ledger.charge(build_charge(analyst="bob"), build_caps(1))
    assert (read.answer, read.charged, read.paid) == ("7", True, build_pure_cost("0.1"))
    assert list_spent(ledger, build_caps(1)) == list_spent(ledger, build_caps(1), "bob") == {"dp": Fraction(1, 10)}
    second = ledger.charge(build_charge(analyst="bob"), build_caps(1))
    assert second == Receipt(read.entry, "7", read.paid, charged=False)


def test_the_answer_shared_is_the_best_one_owns_or_the_cheapest_that_suffices(ledger: Ledger) -> None:
    limits = build_caps(10)
    for epsilon in ("0.1", "0.3", "0.5"):
        charge_and_store(ledger, build_charge(epsilon=epsilon, fresh=True), limits, epsilon)
    assert ledger.charge(build_charge(epsilon="0.1"), limits).answer == "0.5"
    assert ledger.charge(build_charge(epsilon="0.2", analyst="bob", any_price=True), limits).answer == "0.3"
    assert ledger.charge(build_charge(epsilon="0.1", analyst="bob"), limits).answer == "0.3"
    assert ledger.charge(build_charge(epsilon="0.6"), limits).answer is None
    assert list_spent(ledger, limits, "bob") == {"dp": Fraction(3, 10)}


def test_a_stored_answer_that_is_too_dear_is_refused_with_the_way_out(ledger: Ledger) -> None:
    limits = build_caps(10, analyst=1)
    charge_and_store(ledger, build_charge(epsilon=1), limits, "7")
    ledger.charge(build_charge("other", "0.5", analyst="bob"), limits)
    with pytest.raises(BudgetExceeded, match=r"answer of epsilon 1 .* without reuse=.* epsilon at most 0\.5"):
        ledger.charge(build_charge(epsilon="0.2", analyst="bob", any_price=True), limits)
    assert ledger.charge(build_charge(epsilon="0.2", analyst="bob"), limits).charged


def test_a_stored_answer_that_does_not_fit_is_refused_with_what_would(ledger: Ledger) -> None:
    """Without consent the price is the offer, and so is the advice."""
    limits = build_caps(10, analyst=6)
    charge_and_store(ledger, build_charge(epsilon=5), limits, "7")
    ledger.charge(build_charge("other", 4, analyst="bob"), limits)
    with pytest.raises(BudgetExceeded, match=r"^epsilon 5 was asked; .* the analyst's budget has 2 left; .* most 2$"):
        ledger.charge(build_charge(epsilon=5, analyst="bob", degradable=True), limits)
    with pytest.raises(BudgetExceeded, match=r"without reuse=.* with epsilon at most 2$"):
        ledger.charge(build_charge(epsilon=4, analyst="bob", any_price=True, degradable=True), limits)
    assert ledger.charge(build_charge(epsilon=2, analyst="bob", degradable=True), limits).answer_to_degrade == "7"


def test_a_stored_answer_that_cannot_be_degraded_is_refused_with_what_the_data_set_has(ledger: Ledger) -> None:
    """A smaller epsilon is a new draw then, and the data set pays for it as well."""
    limits = build_caps(10, analyst=6)
    charge_and_store(ledger, build_charge(epsilon=5), limits, "7")
    ledger.charge(build_charge("other", 4, analyst="bob"), limits)
    with pytest.raises(BudgetExceeded, match=r"data set's budget has 1 left and the analyst's 2; .* at most 1$"):
        ledger.charge(build_charge(epsilon=5, analyst="bob"), limits)
    with pytest.raises(BudgetExceeded, match=r"without reuse=.* with epsilon at most 1$"):
        ledger.charge(build_charge(epsilon=4, analyst="bob", any_price=True), limits)
    ledger.charge(build_charge("third", 1, analyst="cat"), limits)
    with pytest.raises(BudgetExceeded, match=r"costs more than the analyst has left; nothing new like it can be drawn"):
        ledger.charge(build_charge(epsilon=4, analyst="bob", any_price=True), limits)


def test_a_draw_that_was_degraded_before_is_refused_with_what_the_data_set_has(ledger: Ledger) -> None:
    """The analyst gets no second degraded answer of it, so that a larger epsilon is a new draw."""
    limits = build_caps(6, analyst=4)
    charge_and_store(ledger, build_charge(epsilon="3.5"), limits, "7")
    charge_and_store(ledger, build_charge(epsilon=1, analyst="bob", degradable=True), limits, "degraded")
    second_request = build_charge(epsilon=2, analyst="bob", any_price=True, degradable=True)
    with pytest.raises(BudgetExceeded, match=r"without reuse=.* with epsilon at most 2\.5$"):
        ledger.charge(second_request, limits)
    assert ledger.charge(
        replace(second_request, any_price=False, epsilon=Fraction(5, 2), spend=build_pure_cost("2.5")), limits
    ).charged


def test_nobody_pays_more_than_was_offered(ledger: Ledger) -> None:
    """A dearer stored answer whose noise can be added to is degraded, and costs the data set nothing more."""
    limits = build_caps(10)
    charge_and_store(ledger, build_charge(epsilon="0.5"), limits, "dear")
    degraded = ledger.charge(build_charge(epsilon="0.01", analyst="bob", degradable=True), limits)
    assert (degraded.answer, degraded.answer_to_degrade, degraded.paid) == (None, "dear", build_pure_cost("0.01"))
    ledger.store(DATASET, degraded.entry, "degraded")
    other = ledger.charge(build_charge(epsilon="0.02", analyst="cat"), limits)
    assert (other.answer, other.answer_to_degrade, other.paid) == (None, None, build_pure_cost("0.02"))
    assert list_spent(ledger, limits) == {"dp": Fraction(52, 100)}
    assert list_spent(ledger, limits, "bob") == {"dp": Fraction(1, 100)}
    assert ledger.charge(build_charge(epsilon="0.01", analyst="bob", degradable=True), limits).answer == "degraded"
    ledger.verify()


def test_nobody_is_told_two_degraded_answers_of_one_draw(ledger: Ledger) -> None:
    """They share the noise of that draw: together they tell more than both cost."""
    limits = build_caps(10)
    charge_and_store(ledger, build_charge(epsilon="0.5"), limits, "first")
    charge_and_store(ledger, build_charge(epsilon="0.6", fresh=True), limits, "second")
    outcomes = []
    for epsilon in ("0.01", "0.02", "0.03"):
        receipt = charge_and_store(
            ledger, build_charge(epsilon=epsilon, analyst="bob", degradable=True), limits, epsilon
        )
        outcomes.append(receipt.answer_to_degrade)
    assert outcomes == ["first", "second", None]
    assert list_spent(ledger, limits) == {"dp": Fraction(113, 100)}


def test_a_draw_from_before_a_restore_is_not_degraded(ledger: Ledger, ledger_address: str, tmp_path: Path) -> None:
    """What an analyst was told of it may be forgotten, and two degraded answers of it tell more than they cost."""
    limits = build_caps(10)
    charge_and_store(ledger, build_charge(epsilon="2"), limits, "before")
    Ledger.backup(ledger_address, tmp_path / "backup.db")
    assert (
        ledger.charge(build_charge(epsilon="0.5", analyst="bob", degradable=True), limits).answer_to_degrade == "before"
    )
    Ledger.restore(tmp_path / "backup.db", tmp_path / "restored.db", forgotten=Fraction(1, 2))
    with Ledger.existing(tmp_path / "restored.db") as restored:
        second = restored.charge(build_charge(epsilon="0.5", analyst="bob", degradable=True), limits)
        assert (second.answer_to_degrade, second.answer) == (None, None)
        charge_and_store(restored, build_charge(epsilon="3", fresh=True), limits, "after")
        assert (
            restored.charge(build_charge(epsilon="0.6", analyst="cat", degradable=True), limits).answer_to_degrade
            == "after"
        )
        restored.verify()


@pytest.mark.parametrize("degraded", [False, True])
def test_a_charge_from_before_a_restore_is_answered_no_more(
    ledger: Ledger, ledger_address: str, tmp_path: Path, degraded: bool
) -> None:
    """It was answered after the back-up, perhaps: under its key it would be answered twice, for one charge."""
    limits = build_caps(10)
    charge_and_store(ledger, build_charge(epsilon="2", analyst="bob"), limits, "another's")
    request = build_charge(epsilon="0.5", key="k", fresh=not degraded, degradable=degraded)
    receipt = ledger.charge(request, limits)
    assert (receipt.answer_to_degrade is not None) is degraded
    Ledger.backup(ledger_address, tmp_path / "backup.db")
    charge_and_store(ledger, request, limits, "the first")
    Ledger.restore(tmp_path / "backup.db", tmp_path / "restored.db", forgotten=Fraction(1, 1000))
    with Ledger.existing(tmp_path / "restored.db") as restored:
        for charge_again in (
            lambda: restored.charge(request, limits),
            lambda: restored.find_offer(request),
            lambda: restored.store(DATASET, receipt.entry, "the second"),
        ):
            with pytest.raises(InvalidInput, match=r"charged before the ledger was restored.* a new key"):
                charge_again()
        assert restored.charge(replace(request, key="new"), limits).charged
        restored.verify()


def test_a_second_answer_to_a_charge_from_before_a_restore_does_not_verify(
    ledger: Ledger, ledger_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever enters one, by other means than these, is found out."""
    receipt = ledger.charge(build_charge(key="k", fresh=True), build_caps(10))
    Ledger.backup(ledger_address, tmp_path / "backup.db")
    Ledger.restore(tmp_path / "backup.db", tmp_path / "restored.db", forgotten=1)
    with Ledger.existing(tmp_path / "restored.db") as restored:
        restored.verify()
        monkeypatch.setattr("discreet.ledger.budget_check.require_not_void", lambda *_: None)
        restored.store(DATASET, receipt.entry, "the second")
        with pytest.raises(ClaimFailed, match="entry"):
            restored.verify()


def test_where_nothing_was_forgotten_a_charge_without_an_answer_is_void_too(
    ledger: Ledger, ledger_address: str, tmp_path: Path
) -> None:
    """It may have been answered after the back-up, although nothing was asked since. That costs no account anything."""
    limits = build_caps(10)
    ledger.charge(build_charge(1, fresh=True), limits)  # without a key nobody can ask for it again
    Ledger.backup(ledger_address, tmp_path / "without.db")
    moved = Ledger.restore(tmp_path / "without.db", tmp_path / "moved.db", forgotten=0)
    assert moved.backup == moved.ledger
    entry = ledger.charge(build_charge(2, key="k"), limits).entry
    Ledger.backup(ledger_address, tmp_path / "with.db")
    promised = ledger.balance(DATASET, limits)
    ledger.store(DATASET, entry, "the first")
    restored_at = tmp_path / "restored.db"
    Ledger.restore(tmp_path / "with.db", restored_at, forgotten=0)
    with Ledger.existing(restored_at) as restored:
        assert restored.balance(DATASET, limits) == promised
        with pytest.raises(InvalidInput, match="charged before the ledger was restored"):
            restored.charge(build_charge(2, key="k"), limits)
        with pytest.raises(InvalidInput, match="charged before the ledger was restored"):
            restored.store(DATASET, entry, "the second")
        assert restored.history(DATASET)[0].kind == "void"
    second_restore = Ledger.restore(restored_at, tmp_path / "again.db", forgotten=0)
    assert second_restore.backup == second_restore.ledger
    with pytest.raises(InvalidInput, match="is not in the back-up is charged what was forgotten, so"):
        Ledger.restore(restored_at, tmp_path / "new.db", forgotten=0, new=[NewDataSet("new", "0e", (("s", False),))])


def test_what_is_void_is_found_by_an_index(tmp_path: Path) -> None:
    """It is looked up with each answer that is stored: by a walk through all entries that was a fourth of a second."""
    with Ledger.open(tmp_path / "ledger.db"), closing(sqlite3.connect(tmp_path / "ledger.db")) as looked:
        sql = str(storage.SELECT_VOIDS.compile(dialect=sqlite_dialect()))
        plan = looked.execute(f"EXPLAIN QUERY PLAN {sql}", ("t", "f")).fetchall()
    assert "(dataset=? AND finds=?)" in str(plan)  # of either index that has both


def test_a_void_entry_hides_no_entry_of_which_only_the_number_is_known(
    ledger: Ledger, ledger_address: str, tmp_path: Path
) -> None:
    """A kept answer of the service names a charge; what a restore puts in its place is none."""
    ledger.charge(build_charge(1, key="k"), build_caps(10))
    Ledger.backup(ledger_address, tmp_path / "backup.db")
    lost = ledger.charge(build_charge(2, analyst="bob"), build_caps(10)).entry
    Ledger.restore(tmp_path / "backup.db", tmp_path / "restored.db", forgotten=0)
    record = Mock(read=Mock(return_value=RecordedHead(None, lost, None)))
    ledger.compare(DATASET, record)
    with Ledger.existing(tmp_path / "restored.db") as restored:
        assert restored.history(DATASET)[0].entry == lost
        with pytest.raises(Unavailable, match=f"lacks entry {lost}"):
            restored.compare(DATASET, record)


def test_a_void_entry_of_another_shape_does_not_verify(
    ledger: Ledger, ledger_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with a key would stand in the way of its analyst."""
    ledger.charge(build_charge(1, key="k"), build_caps(10))
    Ledger.backup(ledger_address, tmp_path / "backup.db")
    voided = chain.build_void
    monkeypatch.setattr(chain, "build_void", lambda head: voided(head) | {"analyst": "ann", "key": "other"})
    Ledger.restore(tmp_path / "backup.db", tmp_path / "restored.db", forgotten=0)
    monkeypatch.undo()
    with Ledger.existing(tmp_path / "restored.db") as restored, pytest.raises(ClaimFailed, match="entry 3"):
        restored.verify()


def test_two_restores_of_one_back_up_differ(ledger: Ledger, ledger_address: str, tmp_path: Path) -> None:
    """Else the second, within a second and with the same epsilon, is taken for an older copy of the first."""
    charge_and_store(ledger, build_charge(epsilon="2"), build_caps(10), "before")
    Ledger.backup(ledger_address, tmp_path / "backup.db")
    heads = set()
    for name in ("one.db", "two.db"):
        Ledger.restore(tmp_path / "backup.db", tmp_path / name, forgotten=1)
        with Ledger.existing(tmp_path / name) as restored:
            heads.add(restored.verify(DATASET).head)
    assert len(heads) == 2


def test_a_degraded_answer_serves_its_own_analyst_alone(ledger: Ledger) -> None:
    limits = build_caps(10)
    charge_and_store(ledger, build_charge(epsilon="0.5"), limits, "dear")
    charge_and_store(ledger, build_charge(epsilon="0.01", analyst="bob", degradable=True), limits, "degraded")
    other = ledger.charge(build_charge(epsilon="0.01", analyst="cat", degradable=True), limits)
    assert (other.answer, other.answer_to_degrade) == (None, "dear")


def test_a_retry_of_a_degraded_answer_pays_nothing(ledger: Ledger) -> None:
    limits, retry = build_caps(10), build_charge(epsilon="0.01", analyst="bob", key="k", degradable=True)
    charge_and_store(ledger, build_charge(epsilon="0.5"), limits, "dear")
    first, second = (ledger.charge(retry, limits) for _ in range(2))
    assert (second.entry, second.answer, second.answer_to_degrade, second.charged) == (first.entry, None, "dear", False)
    ledger.store(DATASET, first.entry, "degraded")
    assert ledger.charge(retry, limits).answer == "degraded"
    assert list_spent(ledger, limits, "bob") == {"dp": Fraction(1, 100)}


def test_a_degraded_answer_that_does_not_fit_is_refused_with_what_would(ledger: Ledger) -> None:
    """The data set's own budget does not matter: it pays nothing."""
    charge_and_store(ledger, build_charge(epsilon="0.8"), build_caps("0.8"), "dear")
    limits = build_caps("0.8", analyst="0.5")
    with pytest.raises(BudgetExceeded, match=r"the analyst's budget has 0\.5 left; ask with epsilon at most 0\.5"):
        ledger.charge(build_charge(epsilon="0.6", analyst="bob", degradable=True), limits)
    assert (
        ledger.charge(build_charge(epsilon="0.5", analyst="bob", degradable=True), limits).answer_to_degrade == "dear"
    )


def test_an_answer_of_another_question_model_or_snapshot_is_not_shared(ledger: Ledger) -> None:
    limits = build_caps(10, models=EVERY_MODEL)
    charge_and_store(ledger, build_charge(), limits, "7")
    assert ledger.charge(build_charge("r"), limits).answer is None
    assert ledger.charge(build_charge(model="individual-dp"), limits).answer is None
    ledger.register(DATASET, "0f", "s2", disjoint=False)
    assert ledger.charge(build_charge(snapshot="s2"), limits).answer is None


def test_a_charge_without_an_answer_is_not_shared(ledger: Ledger) -> None:
    """Whoever died between charge and answer has paid; there is nothing to share."""
    ledger.charge(build_charge(), build_caps(1))
    assert ledger.charge(build_charge(), build_caps(1)).answer is None
    assert list_spent(ledger, build_caps(1)) == {"dp": Fraction(2, 10)}


def test_a_charge_releases_one_draw(ledger: Ledger) -> None:
    """The first answer stored is the answer."""
    entry = ledger.charge(build_charge(), build_caps(1)).entry
    assert [ledger.store(DATASET, entry, text) for text in ("7", "8")] == ["7", "7"]
    assert ledger.charge(build_charge(), build_caps(1)).answer == "7"


@pytest.mark.parametrize("entry", [1, 3, 4, 99])
def test_an_answer_is_stored_for_a_charge_only(ledger: Ledger, entry: int) -> None:
    """Not for a registration, an answer, a reuse, or nothing."""
    charge_and_store(ledger, build_charge(), build_caps(1), "7")
    ledger.charge(build_charge(analyst="bob"), build_caps(1))
    with pytest.raises(InvalidInput, match="for the entry of a charge"):
        ledger.store(DATASET, entry, "8")


# Keys


def test_a_retry_under_its_key_gets_the_same_receipt_and_pays_nothing(ledger: Ledger) -> None:
    first = ledger.charge(build_charge(key="k", fresh=True), build_caps(1))
    second = ledger.charge(build_charge(key="k", fresh=True), build_caps(1))
    assert (second.entry, second.answer, second.paid, second.charged) == (first.entry, None, first.paid, False)
    ledger.store(DATASET, second.entry, "7")
    assert ledger.charge(build_charge(key="k", fresh=True), build_caps(1)).answer == "7"
    assert list_spent(ledger, build_caps(1)) == {"dp": Fraction(1, 10)}


def test_a_retry_of_a_reuse_pays_nothing(ledger: Ledger) -> None:
    charge_and_store(ledger, build_charge(), build_caps(1), "7")
    first, second = (ledger.charge(build_charge(analyst="bob", key="k"), build_caps(1)) for _ in range(2))
    assert (first.entry, first.answer, first.charged) == (second.entry, second.answer, not second.charged)


@pytest.mark.parametrize(
    "other",
    [
        build_charge("r", key="k"),
        build_charge(epsilon="0.2", key="k"),
        build_charge(key="k", fresh=True),
        build_charge(key="k", model="individual-dp"),
        build_charge(key="k", part=SubAccount("partition", "north", 1)),
        build_charge(key="k", spend=PrivacyCost(Fraction(1, 10), Fraction(1, 800))),
    ],
)
def test_a_key_stands_for_one_request(ledger: Ledger, other: Charge) -> None:
    limits = build_caps(1, models=EVERY_MODEL)
    ledger.charge(build_charge(key="k"), limits)
    with pytest.raises(InvalidInput, match="'k' was used for another request"):
        ledger.charge(other, limits)


def test_a_key_of_an_earlier_snapshot_is_told_as_that(ledger: Ledger) -> None:
    ledger.charge(build_charge(key="k"), build_caps(1))
    ledger.register(DATASET, "0f", "s2", disjoint=False)
    message = "'k' was used on an earlier snapshot of the data set; what was charged then stays charged, and a new key"
    with pytest.raises(InvalidInput, match=message):
        ledger.charge(build_charge(key="k", snapshot="s2"), build_caps(1))
    assert ledger.charge(build_charge(key="new", snapshot="s2"), build_caps(1)).charged


def test_keys_belong_to_their_analyst(ledger: Ledger) -> None:
    first, second = (ledger.charge(build_charge(key="k", analyst=analyst), build_caps(1)) for analyst in ("ann", "bob"))
    assert first.entry != second.entry


# Registration


def test_a_data_set_is_registered_before_it_is_charged(ledger_address: str) -> None:
    with Ledger.open(ledger_address) as empty:
        for attempt in (
            lambda: empty.charge(build_charge(), build_caps(1)),
            lambda: empty.store(DATASET, 1, "7"),
            lambda: empty.balance(DATASET, build_caps(1)),
            lambda: empty.history(DATASET),
            lambda: empty.verify(DATASET),
        ):
            with pytest.raises(InvalidInput, match="knows no data set 'census'; register it first"):
                attempt()


def test_a_name_belongs_to_one_data_set(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="another data set of the name 'census'"):
        ledger.register(DATASET, "1e", "s1", disjoint=False)


def test_to_register_a_snapshot_again_changes_nothing(ledger: Ledger) -> None:
    """Also when a newer one has come, and though it be called disjoint now."""
    ledger.register(DATASET, "0f", "s2", disjoint=False)
    before = ledger.verify()
    for snapshot in ("s1", "s2"):
        ledger.register(DATASET, "0f", snapshot, disjoint=True)
    assert ledger.verify() == before
    with pytest.raises(Unavailable, match="another snapshot by now"):
        ledger.charge(build_charge(snapshot="s1"), build_caps(1))


def test_spend_carries_over_to_a_new_snapshot_unless_no_unit_is_in_both(ledger: Ledger) -> None:
    ledger.charge(build_charge(part=SubAccount("partition", "north", 1)), build_caps(1))
    ledger.charge(build_charge(1), build_caps(1))
    ledger.register(DATASET, "0f", "s2", disjoint=False)
    assert list_spent(ledger, build_caps(1)) == list_spent(ledger, build_caps(1), "ann") == {"dp": Fraction(2, 10)}
    ledger.register(DATASET, "0f", "s3", disjoint=True)
    assert list_spent(ledger, build_caps(1)) == list_spent(ledger, build_caps(1), "ann") == {"dp": 0}
    ledger.charge(build_charge(snapshot="s3"), build_caps(1))
    assert list_spent(ledger, build_caps(1)) == {"dp": Fraction(1, 10)}
    ledger.verify()


def test_data_sets_do_not_pay_for_each_other(ledger: Ledger) -> None:
    ledger.register("other", "1e", "s1", disjoint=False)
    ledger.charge(build_charge(), build_caps(1))
    assert ledger.balance("other", build_caps(1))[0].epsilon == 0
    assert ledger.verify().entries == 3


# Parts


def test_parts_count_as_often_as_one_unit_reaches_them(ledger: Ledger) -> None:
    limits = build_caps(1)
    for name, epsilon in (("north", "0.5"), ("south", "0.3"), ("west", "0.2")):
        ledger.charge(build_charge(name, epsilon, part=SubAccount("partition", name, 2)), limits)
    assert list_spent(ledger, limits) == {"dp": Fraction(8, 10)}
    ledger.charge(build_charge("all", "0.1"), limits)
    ledger.charge(build_charge("p1", "0.1", part=SubAccount("individual", "p1", 1)), limits)
    assert list_spent(ledger, limits) == {"dp": 1}
    ledger.charge(build_charge("p2", "0.1", part=SubAccount("individual", "p2", 1)), limits)
    ledger.charge(build_charge("west more", "0.1", part=SubAccount("partition", "west", 2)), limits)
    assert list_spent(ledger, limits) == {"dp": 1}
    with pytest.raises(BudgetExceeded, match=r"ask with epsilon at most 0.3"):
        ledger.charge(build_charge("east", "0.31", part=SubAccount("partition", "east", 2)), limits)
    ledger.charge(build_charge("east", "0.3", part=SubAccount("partition", "east", 2)), limits)


def test_the_largest_reach_ever_named_counts(ledger: Ledger) -> None:
    for name in ("north", "south"):
        ledger.charge(build_charge(name, "0.5", part=SubAccount("partition", name, 1)), build_caps(1))
    assert list_spent(ledger, build_caps(1)) == {"dp": Fraction(1, 2)}
    ledger.charge(build_charge("west", "0.1", part=SubAccount("partition", "west", 2)), build_caps(1))
    ledger.charge(build_charge("east", "0.1", part=SubAccount("partition", "east", 1)), build_caps(1))
    assert list_spent(ledger, build_caps(1)) == {"dp": 1}


def test_components_are_summed_apart(ledger: Ledger) -> None:
    """The part of the largest epsilon need not be that of the largest delta."""
    limits = build_caps(2, delta="1e-6", models=("approx-dp",))
    for name, spend in (
        ("north", PrivacyCost(Fraction(1), Fraction(1, 2), delta=Fraction(1, 10**9))),
        ("south", PrivacyCost(Fraction(1, 2), Fraction(1, 8), delta=Fraction(1, 10**7))),
    ):
        ledger.charge(
            build_charge(name, 1, model="approx-dp", spend=spend, part=SubAccount("partition", name, 1)), limits
        )
    balance = ledger.balance(DATASET, limits)[0]
    assert (balance.epsilon, balance.delta) == (1, Fraction(1, 10**7))


# Approximate DP


def build_gaussian_cost(rho: object) -> PrivacyCost:
    return PrivacyCost(gaussian_rho=Fraction(str(rho)))


def test_gaussian_answers_add_up_better_than_their_epsilons(ledger: Ledger) -> None:
    """16 answers of rho 0.001 cost about 4 times one, and no charge passes the cap."""
    limits = build_caps(1, delta="1e-6", models=("approx-dp",))
    fitted = 0
    while list_spent(ledger, limits)["approx-dp"] < Fraction(97, 100):
        ledger.charge(build_charge(fitted, "0.2", model="approx-dp", spend=build_gaussian_cost("0.001")), limits)
        fitted += 1
    with pytest.raises(BudgetExceeded, match="at most about"):
        ledger.charge(build_charge("more", "0.2", model="approx-dp", spend=build_gaussian_cost("0.002")), limits)
    best = Guarantee.zcdp(Fraction(fitted, 1000)).approximate(Fraction(1, 2 * 10**6)).epsilon or 0
    assert Fraction(9, 10) < best <= 1
    assert ledger.balance(DATASET, limits)[0].delta == Fraction(1, 2 * 10**6)


def test_pure_answers_need_no_delta_in_an_approximate_account(ledger: Ledger) -> None:
    limits = build_caps(1, models=("approx-dp",))
    ledger.charge(build_charge(1, 1, model="approx-dp"), limits)
    assert ledger.balance(DATASET, limits)[0].epsilon == 1
    with pytest.raises(BudgetExceeded):
        ledger.charge(
            build_charge(2, 1, model="approx-dp", spend=build_gaussian_cost("1e-9")),
            build_caps(5, models=("approx-dp",)),
        )


def test_half_of_the_delta_is_for_answers_that_may_fail(ledger: Ledger) -> None:
    limits = build_caps(10, delta="1e-6", models=("approx-dp",))
    spend = PrivacyCost(Fraction(1, 10), Fraction(1, 200), delta=Fraction(1, 10**7))
    for number in range(5):
        ledger.charge(build_charge(number, model="approx-dp", spend=spend), limits)
    with pytest.raises(BudgetExceeded, match="0 of that half is left; nothing new like it"):
        ledger.charge(build_charge(6, model="approx-dp", spend=spend), limits)


@pytest.mark.parametrize("cap", [Budget(Fraction(1), Fraction(1, 10**6)), Budget(Fraction(8), Fraction(1, 10**9))])
def test_the_epsilon_shown_is_above_the_best_there_is_and_near_it(cap: Budget) -> None:
    """Orders are fixed beforehand (accounts.md), which costs a little and never gives anything away."""
    for share in (Fraction(0), Fraction(1, 2), Fraction(9, 10)):
        epsilon = cap.epsilon * share
        rest = Guarantee.zcdp((cap.epsilon - epsilon) ** 2 / 60).approximate(cap.delta / 2).epsilon or 0
        other = (cap.epsilon - epsilon) ** 2 / 60
        account = Account(
            epsilon=units.round_up_to_units(epsilon),
            rho=units.round_up_to_units(epsilon**2 / 2),
            other=units.round_up_to_units(other),
        )
        best = Guarantee.zcdp(epsilon**2 / 2 + other).approximate(cap.delta / 2).epsilon or 0
        spent_epsilon = compute_spent_epsilon(account, "approx-dp", Terms.from_first_cap(cap))
        assert spent_epsilon is not None
        assert min(epsilon + rest, best) <= spent_epsilon <= Fraction(11, 10) * min(epsilon + rest, best)


def test_many_small_pure_answers_go_by_their_rho() -> None:
    """1,000 answers of epsilon 0.01 sum up to 10 and cost 2."""
    account = Account(epsilon=units.round_up_to_units(Fraction(10)), rho=units.round_up_to_units(Fraction(1000, 20000)))
    assert is_under_cap(account, "approx-dp", Terms.from_first_cap(Budget(Fraction(2), Fraction(1, 10**6))))
    assert not is_under_cap(account, "approx-dp", Terms.from_first_cap(Budget(Fraction(1), Fraction(1, 10**6))))
    assert not is_under_cap(account, "approx-dp", Terms.from_first_cap(Budget(Fraction(2))))


def test_the_deltas_of_all_orders_are_less_than_half_of_the_caps() -> None:
    """Each order's constant is what a budget of that delta costs before anything is spent."""
    for most in (None, Fraction(1), Fraction(2), Fraction(3), Fraction(10**4)):
        terms = Terms.from_first_cap(Budget(Fraction(1), Fraction(1, 10**6), most))
        assert sum(share for _, share in terms.orders) < Fraction(1, 2)
        for (order, least), (fixed, share) in zip(terms.compute_order_costs(), terms.orders, strict=True):
            assert order == fixed
            assert least == compute_epsilon_at_order(order, Fraction(0), terms.cap.delta * share)


# Values


BAD_AMOUNTS = [float("nan"), float("inf"), -1, "1", 10**308, Fraction(1, 10**320), 0.5, None, True]


@pytest.mark.parametrize("wrong", BAD_AMOUNTS, ids=lambda wrong: repr(wrong)[:20])
@pytest.mark.parametrize("name", ["epsilon", "rho", "gaussian_rho", "delta"])
def test_what_is_no_amount_is_refused_before_anything_happens(name: str, wrong: object) -> None:
    with pytest.raises(InvalidInput, match=name):
        PrivacyCost(**{name: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [float("inf"), 10**308, Fraction(1, 10**320), 0.5], ids=lambda wrong: repr(wrong)[:20]
)
def test_a_cap_is_an_amount_too(wrong: Fraction) -> None:
    """A budget is exact from the start; a cap is also neither too large nor too small to be charged."""
    for dataset_cap, analyst_cap in ((wrong, Fraction(1)), (Fraction(1), wrong)):
        with pytest.raises(InvalidInput, match="epsilon of a budget"):
            Caps(Budget(dataset_cap), Budget(analyst_cap), ("dp",))


@pytest.mark.parametrize(
    "make",
    [
        lambda: PrivacyCost(delta=Fraction(1)),
        lambda: build_charge(epsilon=0),
        lambda: build_charge(analyst=""),
        lambda: build_charge(analyst="a\0b"),
        lambda: build_charge(analyst="\ud800"),
        lambda: build_charge(analyst="a" * 201),
        lambda: build_charge(key=""),
        lambda: build_charge(model="zcdp"),  # type: ignore[arg-type]
        lambda: build_charge(spend=PrivacyCost(Fraction(1), Fraction(1, 2), delta=Fraction(1, 10))),
        lambda: build_charge(spend=PrivacyCost(gaussian_rho=Fraction(1))),
        lambda: build_charge(spend=PrivacyCost(epsilon=Fraction(1))),
        lambda: build_charge(spend=PrivacyCost(rho=Fraction(1))),
        lambda: SubAccount("row", "north", 1),  # type: ignore[arg-type]
        lambda: SubAccount("partition", "north", 0),
        lambda: SubAccount("partition", "north", True),
        lambda: SubAccount("partition", "", 1),
        lambda: build_caps(models=()),
        lambda: build_caps(models=("dp", "zcdp")),
    ],
)
def test_what_is_not_valid_does_not_exist(make: object) -> None:
    with pytest.raises(InvalidInput):
        make()  # type: ignore[operator]


def test_amounts_keep_their_order_as_text_and_never_lose() -> None:
    numbers = [Fraction(0), Fraction(1, 10**40), Fraction(1, 3), Fraction(1, 2), Fraction(10), Fraction(10**9)]
    counts = [units.round_up_to_units(number) for number in numbers]
    assert sorted(map(units.format_stored_amount, counts)) == list(map(units.format_stored_amount, counts))
    assert [units.parse_stored_amount(units.format_stored_amount(count)) for count in counts] == counts
    assert [units.parse_amount(units.format_amount(count)) for count in counts] == counts
    assert all(
        0 <= units.units_to_fraction(count) - number < Fraction(1, units.UNITS_PER_ONE)
        for count, number in zip(counts, numbers, strict=True)
    )
    smallest = Fraction(1, 10**19)
    assert units.units_to_fraction(units.round_up_to_units(smallest**2 / 2)) == smallest**2 / 2
    assert units.format_amount(units.round_up_to_units(Fraction(1, 4))) == "0.25"


# History


def test_history_is_newest_first_and_leaves_answers_out(ledger: Ledger) -> None:
    charge_and_store(ledger, build_charge(1, part=SubAccount("individual", "p1", 2)), build_caps(1), "7")
    ledger.charge(build_charge(1, analyst="bob"), build_caps(1))
    entries = ledger.history(DATASET)
    assert [(line.entry, line.kind, line.analyst) for line in entries] == [
        (4, "reuse", "bob"),
        (2, "charge", "ann"),
        (1, "register", None),
    ]
    assert (entries[1].query, entries[1].spend, entries[1].part) == (
        "SELECT 1",
        build_pure_cost("0.1"),
        SubAccount("individual", "p1", 2),
    )
    assert [line.entry for line in ledger.history(DATASET, "ann")] == [2]
    assert [line.entry for line in ledger.history(DATASET, limit=2)] == [4, 2]
    assert entries[0].at.endswith("+00:00")
