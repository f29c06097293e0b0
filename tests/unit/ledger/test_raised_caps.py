"""Caps that are raised depending on what was answered: the delta that holds for the cap reached is not passed.

The adversary raises the cap step by step, each time asks for as much Gaussian noise as the ledger admits, and stops
when that pays. The law of the loss and the best rule for stopping are computed here; of the package only the ledger's
decisions are used: which charge it admits under which cap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import hypothesis.strategies as some
import numpy as np
import pytest
from hypothesis import given
from numpy.polynomial.hermite_e import hermegauss
from sqlalchemy import delete, select

from discreet import BudgetExceeded, ClaimFailed, InvalidInput, Ledger
from discreet.formatting import format_cost
from discreet.ledger import Caps, Charge, backup, budget_check, chain, storage
from discreet.ledger.accounts import (
    AFTER_THE_FACT,
    NO_EPSILON_PROMISED,
    PRESUMES_FIXED_CAPS,
    PRESUMES_NO_SHARING,
    UNRECORDED_CAPS,
    WEAKER_ANSWERS,
    Terms,
    describe_condition,
)
from discreet.ledger.storage import caps as recorded
from discreet.ledger.storage import entries
from discreet.privacy.cost import PrivacyCost
from discreet.schema import Budget
from support.ledger_stores import (
    DATASET,
    EVERY_MODEL,
    build_caps,
    build_charge,
    fill_ledger,
    ledger,
    ledger_address,
    list_rows,
    make_format_1,
    make_format_3,
    without_models,
)

__all__ = ["ledger", "ledger_address", "without_models"]  # fixtures

Stage = tuple[float, float]
"""The cap in force, and all the rho that was admitted until then."""
NODES, WEIGHTS = hermegauss(61)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def admit_stages(ledger_address: Path, caps: list[Budget]) -> list[Stage]:
    """Raise the cap of a new ledger step by step, and spend what it admits, to a hundredth of what the cap is worth."""
    stages: list[Stage] = []
    spent = Fraction(0)
    with Ledger.open(ledger_address) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        for number, cap in enumerate(caps):
            stage_caps = Caps(cap, cap, ("approx-dp",))
            worth = float(cap.epsilon) ** 2 / (4 * (float(cap.epsilon) - math.log(cap.delta)))
            step = Fraction(worth / 100)
            count = ledger.count_affordable(
                build_charge(number, "0.1", model="approx-dp", spend=PrivacyCost(gaussian_rho=step)), stage_caps
            )
            if count:
                cost = PrivacyCost(gaussian_rho=step * count)
                ledger.charge(build_charge(number, "0.1", model="approx-dp", spend=cost), stage_caps)
                spent += cost.gaussian_rho
                stages.append((float(cap.epsilon), float(spent)))
        ledger.verify()
    return stages


def compute_best_stopping(stages: list[Stage], points: int = 2001) -> float:
    """The largest E[(1 - e^(cap - loss))+] over all rules for stopping, by dynamic programming from the last stage.

    Gaussian noise of rho in all has the loss rho + sqrt(2 rho) Z, and its increments are independent. Integrals are by
    Gauss and Hermite with 61 nodes, on a grid of losses; the first is by trapezoids, since what is won has a kink.
    """

    normal = np.linspace(-9, 12, points)
    grid, values, later = normal, np.zeros(points), stages[-1][1]
    for cap, rho in reversed(stages):
        losses = rho + math.sqrt(2 * rho) * normal
        reached = losses[:, None] + (later - rho) + math.sqrt(2 * (later - rho)) * NODES[None, :]
        going_on = np.interp(reached, grid, values) @ WEIGHTS
        values = np.maximum(-np.expm1(np.minimum(cap - losses, 0)), going_on)
        grid, later = losses, rho
    return float(np.trapezoid(values * np.exp(-(normal**2) / 2), normal) / math.sqrt(2 * math.pi))


def raise_caps(first: float, last: float, raises: int, delta: Fraction) -> list[Budget]:
    """Caps from the first to the last, each by the same factor above the one before."""
    return [Budget(Fraction(epsilon), delta) for epsilon in np.geomspace(first, last, raises + 1)]


def test_the_best_stopping_after_one_stage_is_the_known_delta_of_gaussian_noise() -> None:
    """Balle and Wang 2018, Theorem 8, with sensitivity over sigma sqrt(2 rho)."""
    for cap, rho in ((1.0, 0.1), (0.5, 0.1)):
        size = math.sqrt(2 * rho)

        def compute_normal_cdf(point: float) -> float:
            return math.erfc(-point / math.sqrt(2)) / 2

        formula = compute_normal_cdf(size / 2 - cap / size) - math.exp(cap) * compute_normal_cdf(-size / 2 - cap / size)
        assert compute_best_stopping([(cap, rho)]) == pytest.approx(formula, rel=1e-3)


def test_raising_the_cap_85_times_and_stopping_when_it_pays_stays_within_delta(tmp_path: Path) -> None:
    """With orders that follow the cap it was 1.36 times delta; with fixed ones it is 0.17 times delta."""
    delta = Fraction(1, 1000)
    stages = admit_stages(tmp_path / "ledger.db", raise_caps(0.1, 100, 85, delta))
    assert compute_best_stopping(stages) <= delta / 2


@pytest.mark.soak
@pytest.mark.parametrize("most", [None, Fraction(10), Fraction(1000)])
@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 1000), Fraction(1, 10**6)])
def test_no_schedule_of_raises_passes_delta(tmp_path: Path, delta: Fraction, most: Fraction | None) -> None:
    """With orders that follow the cap, 200 raises from 0.01 to 1000 give about twice delta."""
    for first, last, raises in ((0.01, 1000, 200), (0.5, 50, 100), (1, 2, 50)):
        caps = raise_caps(first, last, raises, delta)
        if most is not None:
            caps = [replace(cap, max_epsilon=max(most, cap.epsilon)) for cap in caps]
        assert compute_best_stopping(admit_stages(tmp_path / f"{first}.db", caps)) <= delta / 2


@pytest.mark.soak
def test_simulated_transcripts_that_stop_at_a_large_loss_stay_within_delta(tmp_path: Path) -> None:
    """Losses drawn instead of computed: 4 million transcripts stop once the loss is some way above the cap.

    The seed is fixed.
    """
    delta = Fraction(1, 1000)
    stages = admit_stages(tmp_path / "ledger.db", raise_caps(0.1, 100, 85, delta))
    generator = np.random.default_rng(23)
    loss, gain, running, before = np.zeros(4_000_000), np.zeros(4_000_000), np.ones(4_000_000, dtype=bool), 0.0
    for cap, rho in stages:
        step = rho - before
        loss += step + math.sqrt(2 * step) * generator.standard_normal(loss.size)
        stop = running & (loss > cap + 0.7 * math.sqrt(2 * rho))
        gain[stop] = -np.expm1(cap - loss[stop])
        running &= ~stop
        before = rho
    assert 0 < gain.mean() <= delta / 2


# What is fixed, and what may change


def read_terms(ledger: Ledger, owner: str = "") -> Terms:
    with ledger._database.begin_read() as connection:
        terms = storage.find_terms(connection, DATASET, owner)
    assert terms is not None
    return terms


def read_entry_bodies(ledger: Ledger) -> list[dict[str, Any]]:
    with ledger._database.begin_read() as connection:
        bodies = connection.execute(select(entries.c.body).order_by(entries.c.seq)).scalars()
        return [chain.parse_body(body) for body in bodies]


def ask_gaussian(question: object, rho: object = "0.001") -> Charge:
    return build_charge(question, "0.1", model="approx-dp", spend=PrivacyCost(gaussian_rho=Fraction(str(rho))))


def build_every_model_caps(epsilon: object, delta: object = "1e-6", analyst: object = None) -> Caps:
    return build_caps(epsilon, analyst, delta, models=EVERY_MODEL)


AMOUNTS = some.fractions(Fraction(1, 1000), Fraction(1000))


@given(
    AMOUNTS, some.sampled_from([Fraction(0), Fraction(1, 10**6), Fraction(1, 1000)]), some.lists(AMOUNTS, max_size=5)
)
def test_orders_and_their_shares_never_follow_the_cap(first: Fraction, delta: Fraction, later: list[Fraction]) -> None:
    opened = Terms.from_first_cap(Budget(first, delta))
    terms = opened
    for epsilon in later:
        terms = terms.with_cap(Budget(epsilon, delta))
        assert terms.orders == opened.orders
        assert (terms.ceiling, terms.delta, terms.cap.epsilon) == (first, delta, epsilon)
        assert terms.compute_order_costs() == opened.compute_order_costs()
    assert terms.highest == max([first, *later])
    assert Terms.from_json(json.loads(json.dumps(terms.to_json()))) == terms


def test_orders_cost_hardly_more_than_the_best_where_the_cap_stays() -> None:
    """All of the cap spent as Gaussian noise: 0.2 % of epsilon at most, and 5 % where a ceiling was declared."""
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(8)):
        for most, dearer in ((None, 1.002), (4 * epsilon, 1.05)):
            delta = Fraction(1, 10**6)
            best = max(
                _compute_rho(1 + math.exp(index / 100), float(epsilon), float(delta) / 4) for index in range(-400, 1000)
            )
            routes = Terms.from_first_cap(Budget(epsilon, delta, most)).compute_order_costs()
            assert min(float(order) * best + float(least) for order, least in routes) <= dearer * float(epsilon)


def _compute_rho(order: float, epsilon: float, delta: float) -> float:
    """The rho that fits under epsilon at one order: Canonne, Kamath and Steinke 2020, Proposition 12."""
    least = math.log((order - 1) / order) - (math.log(order) + math.log(delta)) / (order - 1)
    return (epsilon - least) / order


def test_the_first_charge_fixes_the_terms_and_a_change_is_an_entry(ledger: Ledger) -> None:
    ledger.charge(ask_gaussian(1), build_every_model_caps(1, analyst="0.5"))
    dataset_terms, analyst_terms = read_terms(ledger), read_terms(ledger, "ann")
    assert [set(body.get("opens", ())) for body in read_entry_bodies(ledger)] == [set(), {"", "ann"}]
    assert (
        dataset_terms.cap.epsilon,
        analyst_terms.cap.epsilon,
        dataset_terms.has_unrecorded_caps,
        analyst_terms.has_unrecorded_caps,
    ) == (
        1,
        Fraction(1, 2),
        False,
        False,
    )
    ledger.charge(ask_gaussian(2), build_every_model_caps(1, analyst="0.5"))
    ledger.charge(ask_gaussian(3), build_every_model_caps(3, analyst="0.5"))
    ledger.charge(ask_gaussian(4), build_every_model_caps(2, "1e-7", analyst="0.5"))
    kinds = ["register", "charge", "charge", "cap", "charge", "cap", "cap", "charge"]
    assert [body["kind"] for body in read_entry_bodies(ledger)] == kinds
    assert read_terms(ledger).orders == dataset_terms.orders
    assert (read_terms(ledger).highest, read_terms(ledger).cap) == (3, Budget(Fraction(2), Fraction(1, 10**7)))
    queries = [entry.query for entry in ledger.history(DATASET) if entry.kind == "cap"]
    assert queries == [
        "the budget of ann: delta lowered from 1e-6 to 1e-7",
        "the data set's budget: epsilon lowered from 3 to 2, delta lowered from 1e-6 to 1e-7",
        "the data set's budget: epsilon raised from 1 to 3",
    ]
    ledger.verify()


def test_a_cap_that_admits_nothing_is_not_recorded(ledger: Ledger) -> None:
    """Neither a refusal nor a charge of nothing fixes anything."""
    with pytest.raises(BudgetExceeded):
        ledger.charge(ask_gaussian(1, 10), build_every_model_caps(1))
    ledger.charge(build_charge(2, model="approx-dp", spend=PrivacyCost()), build_every_model_caps(7))
    assert not any("opens" in body for body in read_entry_bodies(ledger))
    ledger.charge(ask_gaussian(3), build_every_model_caps(1))
    with pytest.raises(BudgetExceeded):
        ledger.charge(ask_gaussian(4, 10), build_every_model_caps(2))
    assert read_terms(ledger).cap.epsilon == 1
    ledger.verify()


def test_a_raised_delta_is_refused_before_anything_is_charged(ledger: Ledger, ledger_address: str) -> None:
    ledger.charge(ask_gaussian(1), build_every_model_caps(1))
    before = list_rows(ledger_address)
    for act in (ledger.charge, ledger.count_affordable):
        with pytest.raises(
            InvalidInput,
            match=r"delta of budget cannot be raised: the account of the data set was opened with 1e-6.* to 1e-6 or",
        ):
            act(ask_gaussian(2), build_every_model_caps(1, "1e-5"))
    assert list_rows(ledger_address) == before
    balances = ledger.balance(DATASET, build_every_model_caps(1, "1e-5"))
    assert all("cannot be raised" in balance.flags[-1] for balance in balances)
    assert [balance.epsilon for balance in balances] == [
        balance.epsilon for balance in ledger.balance(DATASET, build_every_model_caps(1))
    ]
    assert ledger.charge(ask_gaussian(3), build_every_model_caps(1, "1e-7")).charged
    assert ledger.charge(ask_gaussian(4), build_every_model_caps(1)).charged  # no more than at first


def test_a_delta_may_come_later_once_since_nothing_but_pure_losses_came_before(ledger: Ledger) -> None:
    ledger.charge(build_charge(1), build_caps(1))
    orders = read_terms(ledger).orders
    ledger.charge(ask_gaussian(2), build_every_model_caps(1))
    assert (read_terms(ledger).orders, read_terms(ledger).delta) == (orders, Fraction(1, 10**6))
    assert ledger.balance(DATASET, build_every_model_caps(1))[1].promise.endswith(
        f"1e-6, {describe_condition('approx-dp')}; {PRESUMES_FIXED_CAPS}"
    )
    with pytest.raises(InvalidInput, match="delta of budget cannot be raised"):
        ledger.charge(ask_gaussian(3), build_every_model_caps(1, "1e-5"))


def test_what_was_recorded_of_a_cap_cannot_be_changed_unseen(ledger: Ledger) -> None:
    ledger.charge(ask_gaussian(1), build_every_model_caps(1))
    ledger.charge(ask_gaussian(2), build_every_model_caps(2))
    ledger.verify()
    whole = read_terms(ledger)
    with ledger._database.begin_write() as connection:
        storage.save_terms(connection, DATASET, "", replace(whole, ceiling=Fraction(9)))
    with pytest.raises(ClaimFailed, match="the cap recorded for the data set does not follow from the entries"):
        ledger.verify()
    with ledger._database.begin_write() as connection:
        connection.execute(delete(recorded).where(recorded.c.owner == ""))
    with pytest.raises(ClaimFailed, match="the cap recorded for the data set"):
        ledger.verify()
    with ledger._database.begin_write() as connection:
        storage.save_terms(connection, DATASET, "", whole)
    ledger.verify()


@pytest.mark.parametrize(
    "forged",
    [
        lambda terms: replace(terms, delta=Fraction(1, 1000), cap=Budget(Fraction(3), Fraction(1, 1000))),
        lambda terms: replace(terms, ceiling=Fraction(9), cap=Budget(Fraction(3), Fraction(1, 10**6))),
        lambda terms: replace(terms, orders=Terms.from_first_cap(Budget(Fraction(9), Fraction(1, 10**6))).orders),
        lambda terms: terms,
    ],
    ids=["delta", "ceiling", "orders", "nothing"],
)
def test_an_entry_that_no_change_of_a_cap_leads_to_is_found(ledger: Ledger, forged: Callable[[Terms], Terms]) -> None:
    """Also where the hash is right."""
    ledger.charge(ask_gaussian(1), build_every_model_caps(3))
    before = read_terms(ledger)
    with ledger._database.begin_write() as connection:
        head = storage.require_head(storage.lock_head(connection, DATASET), DATASET)
        storage.append_entry(connection, head, chain.build_cap_change(head, "", before, forged(before)))
        storage.save_terms(connection, DATASET, "", forged(before))
    with pytest.raises(ClaimFailed, match="entry 3 of data set 'census' is not what was written"):
        ledger.verify()


def make_first_charge(ledger_address: str, number: int) -> None:
    with Ledger.existing(ledger_address, timeout=60) as ledger:
        ledger.charge(ask_gaussian(number), build_every_model_caps(1))


def test_first_charges_at_once_fix_the_terms_once(ledger: Ledger, ledger_address: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(make_first_charge, 8 * [ledger_address], range(8)))
    assert [body["opens"].keys() for body in read_entry_bodies(ledger) if "opens" in body] == [{"", "ann"}]
    assert not [body for body in read_entry_bodies(ledger) if body["kind"] == "cap"]
    ledger.verify()


def test_a_copy_of_a_ledger_has_its_caps(ledger: Ledger, ledger_address: str, tmp_path: Path) -> None:
    ledger.charge(ask_gaussian(1), build_every_model_caps(1))
    ledger.charge(ask_gaussian(2), build_every_model_caps(2))
    Ledger.backup(ledger_address, tmp_path / "backup.db")
    assert list_rows(str(tmp_path / "backup.db")) == list_rows(ledger_address)
    Ledger.restore(tmp_path / "backup.db", tmp_path / "again.db", forgotten=1)
    with Ledger.existing(tmp_path / "again.db") as restored:
        assert read_terms(restored) == replace(read_terms(ledger), has_unrecorded_caps=True)
        restored.verify()


def test_an_older_ledger_gets_its_terms_with_the_first_charge_after_the_upgrade(
    ledger_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they presume is said: nobody knows which caps were in force before."""
    with monkeypatch.context() as before, Ledger.open(ledger_address) as ledger:
        before.setattr(budget_check, "_record_terms", lambda _, head, *__: (head, {}))
        fill_ledger(ledger)
        head = ledger.verify()
    make_format_1(ledger_address)
    assert Ledger.upgrade(ledger_address) == 1
    with Ledger.existing(ledger_address) as ledger:
        assert ledger.verify() == head
        assert ledger.charge(replace(ask_gaussian(9), snapshot="s2"), build_every_model_caps(10)).charged
        assert ledger.charge(
            replace(ask_gaussian(10), snapshot="s2", analyst="new"), build_every_model_caps(10)
        ).charged
        assert (
            read_terms(ledger).has_unrecorded_caps,
            read_terms(ledger, "ann").has_unrecorded_caps,
            read_terms(ledger, "new").has_unrecorded_caps,
        ) == (
            True,
            True,
            False,
        )
        assert PRESUMES_FIXED_CAPS in ledger.balance(DATASET, build_every_model_caps(10))[1].promise
        assert PRESUMES_FIXED_CAPS not in ledger.balance(DATASET, build_every_model_caps(10))[0].promise
        assert PRESUMES_FIXED_CAPS not in ledger.balance(DATASET, build_every_model_caps(10), "new")[1].promise
        ledger.verify()


# What is promised


def read_promises(ledger: Ledger, limited: Caps) -> dict[str, str]:
    return {balance.model: balance.promise for balance in ledger.balance(DATASET, limited)}


def declare_caps(epsilon: object, most: object) -> Caps:
    budget = Budget(Fraction(str(epsilon)), Fraction(1, 10**6), Fraction(str(most)))
    return Caps(budget, budget, EVERY_MODEL)


def test_without_a_ceiling_the_promise_is_of_the_first_cap(ledger: Ledger) -> None:
    ledger.charge(ask_gaussian(1), build_every_model_caps(1))
    promised = read_promises(ledger, build_every_model_caps(1))
    assert promised["dp"] == (
        "all answers of this account together satisfy differential privacy with epsilon 1, as long as none is given "
        f"under a higher cap or while dp is not among the models; {WEAKER_ANSWERS}"
    )
    assert promised["approx-dp"] == (
        "all answers of this account together satisfy approximate differential privacy with epsilon 1 and delta 1e-6, "
        "as long as none is given under a higher cap or while approx-dp is not among the models"
    )


def test_a_declared_ceiling_is_promised_and_the_cap_reached_only_after_the_fact(ledger: Ledger) -> None:
    ledger.charge(ask_gaussian(1), declare_caps(1, 3))
    for now in (1, 2):
        ledger.charge(ask_gaussian(now), declare_caps(now, 3))
        assert read_promises(ledger, declare_caps(now, 3))["approx-dp"] == (
            "all answers of this account together satisfy approximate differential privacy with epsilon 3 and delta "
            f"1e-6, {describe_condition('approx-dp')}; this epsilon is the highest cap declared before the "
            "first answer, and "
            f"for the cap of {now} reached so far only {AFTER_THE_FACT}"
        )
    ledger.charge(ask_gaussian("last"), declare_caps(3, 3))
    assert read_promises(ledger, declare_caps(1, 3))["approx-dp"].endswith(
        f"with epsilon 3 and delta 1e-6, {describe_condition('approx-dp')}"
    )


def test_a_cap_above_the_ceiling_is_allowed_and_leaves_only_the_statement_after_the_fact(ledger: Ledger) -> None:
    ledger.charge(ask_gaussian(1), declare_caps(1, 3))
    ledger.charge(ask_gaussian(2), declare_caps(5, 5))
    for later in (declare_caps(5, 5), declare_caps(1, 3)):  # for good
        promised = read_promises(ledger, later)
        assert promised["approx-dp"].startswith(
            "no epsilon that was fixed in advance is promised, because the cap was raised to 5, above 3, the highest "
            f"cap declared before the first answer; for the cap of 5 reached so far only {AFTER_THE_FACT}, with delta "
            "1e-6"
        )
        assert promised["dp"] == (
            "no epsilon that was fixed in advance is promised, because the cap was raised to 5, above 3, the highest "
            f"cap declared before the first answer; {AT_MOST.replace('e^9', 'e^5')}; {WEAKER_ANSWERS}"
        )
        ledger.charge(ask_gaussian(str(later)), later)


# What is promised where caps were in force that nobody recorded


def make_old_ledger(ledger_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger of format 1: a cap of 1, raised to 10, of which 9 were spent; then the upgrade and other units."""
    with monkeypatch.context() as before, Ledger.open(ledger_address) as ledger:
        before.setattr(budget_check, "_record_terms", lambda _, head, *__: (head, {}))
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        ledger.charge(build_charge(1, 1), build_every_model_caps(1))
        ledger.charge(build_charge(2, 8), build_every_model_caps(10))
    make_format_1(ledger_address)
    Ledger.upgrade(ledger_address)
    with Ledger.existing(ledger_address) as ledger:
        ledger.register(DATASET, "0f", "s2", disjoint=True)


AT_MOST = (
    "the answers of this account so far, each given all that was answered before it, are together at most e^9 times as "
    "likely as with one unit's data changed"
)


def test_after_an_upgrade_the_promise_covers_what_was_spent_before_it(
    ledger_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units of the snapshot before have lost 9, whatever the cap is now; before the first new charge and after it."""
    make_old_ledger(ledger_address, monkeypatch)
    with Ledger.existing(ledger_address) as ledger:
        for charged in (False, True):
            if charged:
                ledger.charge(replace(ask_gaussian(3), snapshot="s2"), build_every_model_caps(5))
            promised = read_promises(ledger, build_every_model_caps(5))
            remark = f"; {WEAKER_ANSWERS}" if charged else ""
            for model in ("dp", "individual-dp"):
                assert promised[model] == f"{UNRECORDED_CAPS}; {AT_MOST}{remark}"
            assert promised["approx-dp"].startswith(f"{UNRECORDED_CAPS}; for the epsilon of ")
            assert promised["approx-dp"].endswith(
                f" reached so far only {AFTER_THE_FACT}, with delta 1e-6; {PRESUMES_FIXED_CAPS}"
            )
            analyst_promise = ledger.balance(DATASET, build_every_model_caps(5), "ann")[0].promise
            assert analyst_promise == f"{UNRECORDED_CAPS}; {AT_MOST}{remark}; {PRESUMES_NO_SHARING}"
        assert not read_terms(ledger).has_late_delta
        ledger.charge(replace(build_charge(4, 1), snapshot="s2"), build_every_model_caps(20))
        assert "at most e^20 times" in read_promises(ledger, build_every_model_caps(5))["dp"]
        ledger.verify()


def test_after_an_upgrade_the_epsilon_of_approx_dp_is_that_of_the_orders_recorded(
    ledger_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spent under 10 and another delta, then a cap of 1: what the recorded orders give for it, and no less."""
    with monkeypatch.context() as before, Ledger.open(ledger_address) as ledger:
        before.setattr(budget_check, "_record_terms", lambda _, head, *__: (head, {}))
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        cost = PrivacyCost(gaussian_rho=Fraction(1), delta=Fraction(1, 10**4))
        ledger.charge(build_charge(1, 1, model="approx-dp", spend=cost), build_every_model_caps(10, "1e-3"))
        ledger.register(DATASET, "0f", "s2", disjoint=True)
        terms = Terms.from_first_cap(build_every_model_caps(1).dataset)
        least = min(order + epsilon for order, epsilon in terms.compute_order_costs())
        assert least > 5
        promised = read_promises(ledger, build_every_model_caps(1))["approx-dp"]
        delta = format_cost(Fraction(1, 10**4) + Fraction(1, 2 * 10**6))
        assert f"epsilon of {format_cost(least)} reached so far" in promised
        assert f"with delta {delta}; {PRESUMES_FIXED_CAPS}" in promised
        assert "nor is any other" in read_promises(ledger, build_every_model_caps(1, 0))["approx-dp"]


def test_what_a_restored_ledger_had_forgotten_was_under_caps_that_nobody_recorded(
    ledger: Ledger, ledger_address: str, tmp_path: Path
) -> None:
    ledger.charge(build_charge(1, 1), build_every_model_caps(1))
    Ledger.backup(ledger_address, tmp_path / "backup.db")
    Ledger.restore(tmp_path / "backup.db", tmp_path / "again.db", forgotten=2)
    with Ledger.existing(tmp_path / "again.db") as restored:
        assert (
            read_promises(restored, build_every_model_caps(1))["dp"]
            == f"{UNRECORDED_CAPS}; {AT_MOST.replace('e^9', 'e^3')}"
        )
        restored.charge(build_charge(2, 1), build_every_model_caps(5))
        assert read_terms(restored).has_unrecorded_caps
        restored.verify()


def test_a_charge_of_nothing_before_the_first_cap_is_no_loss(ledger: Ledger) -> None:
    ledger.charge(build_charge(1, model="approx-dp", spend=PrivacyCost()), build_every_model_caps(7))
    ledger.charge(build_charge(2, 1), build_every_model_caps(1))
    assert not read_terms(ledger).has_unrecorded_caps
    assert (
        "satisfy differential privacy with epsilon 1, as long as"
        in read_promises(ledger, build_every_model_caps(1))["dp"]
    )
    ledger.verify()


def test_a_lowered_cap_after_other_units_came_leaves_the_promise_of_the_first(ledger: Ledger) -> None:
    ledger.charge(build_charge(1, 9), build_every_model_caps(10))
    ledger.register(DATASET, "0f", "s2", disjoint=True)
    for _ in range(2):
        promised = read_promises(ledger, build_every_model_caps(5))
        assert "satisfy differential privacy with epsilon 10, as long as" in promised["dp"]
        assert promised["approx-dp"].endswith(f"with epsilon 10 and delta 1e-6, {describe_condition('approx-dp')}")
        ledger.charge(replace(ask_gaussian(2), snapshot="s2"), build_every_model_caps(5))


def test_a_delta_that_comes_later_takes_nothing_from_the_pure_promise(ledger: Ledger) -> None:
    ledger.charge(build_charge(1), build_caps(1))
    ledger.charge(ask_gaussian(2), build_every_model_caps(1))
    assert (
        "satisfy differential privacy with epsilon 1, as long as"
        in read_promises(ledger, build_every_model_caps(1))["dp"]
    )
    ledger.verify()


def test_a_model_that_no_cap_held_for_promises_no_less_than_was_spent(ledger: Ledger) -> None:
    """Pure answers at a low rho fit under approx-dp, and add up to more than the cap in dp."""
    cheap = PrivacyCost(Fraction(1, 2), Fraction(1, 10**4))
    for number in range(6):
        ledger.charge(build_charge(number, spend=cheap), replace(build_every_model_caps(1), models=("approx-dp",)))
    promised = read_promises(ledger, build_every_model_caps(1))
    assert promised["dp"] == f"{describe_not_held('dp')}; {AT_MOST.replace('e^9', 'e^3')}"
    assert is_promised_in_advance(promised["approx-dp"])


def describe_not_held(model: str) -> str:
    return f"{NO_EPSILON_PROMISED}, because this ledger does not show that {model} was among the models at every answer"


def is_promised_in_advance(promise: str) -> bool:
    return promise.startswith("all answers of this account together satisfy ")


def test_a_model_that_was_taken_away_and_put_back_promises_what_was_spent_meanwhile(ledger: Ledger) -> None:
    """Gaussian answers up to the cap of 1, then a pure one while approx-dp is not looked at: 1.985 is spent.

    The delta of both at epsilon 1 is 0.06. At the epsilon that is told it is within the delta that is told.
    """
    ledger.charge(ask_gaussian(1, "0.021"), build_every_model_caps(1))
    ledger.charge(build_charge(2, 1), replace(build_every_model_caps(1), models=("dp",)))
    for charged in (False, True):
        if charged:
            ledger.charge(build_charge(3, model="individual-dp", spend=PrivacyCost()), build_every_model_caps(1))
        balance = ledger.balance(DATASET, build_every_model_caps(1))[1]
        assert balance.epsilon is not None
        assert Fraction(198, 100) < balance.epsilon < 2
        assert balance.promise == (
            f"{describe_not_held('approx-dp')}; for the epsilon of {format_cost(balance.epsilon)} reached so far only "
            f"{AFTER_THE_FACT}, with delta 1e-6"
        )
        assert compute_best_stopping([(1 - 1, 0.021)]) > 0.05  # a pure loss of 1 leaves nothing of a cap of 1
        assert compute_best_stopping([(float(balance.epsilon) - 1, 0.021)]) <= 1e-6
    assert is_promised_in_advance(read_promises(ledger, build_every_model_caps(1))["dp"])
    changed = [entry.query for entry in ledger.history(DATASET) if entry.kind == "cap" and entry.analyst is None]
    assert changed == ["the data set's budget: models changed from dp, approx-dp, individual-dp to dp"]
    ledger.verify()


def test_a_model_allowed_later_is_not_promised_because_this_transcript_fits(ledger: Ledger) -> None:
    """Eight pure answers of 0.1 are below the cap; 400 of 0.01 would have been admitted as well, and are above it."""
    alone = replace(build_every_model_caps(1), models=("approx-dp",))
    assert ledger.count_affordable(build_charge("small", "0.01"), alone) >= 400
    for number in range(8):
        ledger.charge(build_charge(number), alone)
    for charged in (False, True):
        if charged:
            ledger.charge(build_charge("later"), build_every_model_caps(1))
        promised = read_promises(ledger, build_every_model_caps(1))
        assert promised["dp"] == f"{describe_not_held('dp')}; {AT_MOST.replace('e^9', 'e^1')}"
        assert promised["individual-dp"].startswith(describe_not_held("individual-dp"))
        assert is_promised_in_advance(promised["approx-dp"])
    ledger.verify()


def test_a_model_that_dp_stood_for_keeps_its_promise(ledger: Ledger) -> None:
    """Where only dp was allowed only dp answers were given, and what they add up to is the same in every model."""
    ledger.charge(build_charge(1), build_caps(1, delta="1e-6"))
    assert read_terms(ledger).enforced_models == EVERY_MODEL
    ledger.charge(ask_gaussian(2), build_caps(1, delta="1e-6", models=("approx-dp", "dp")))
    assert (read_terms(ledger).models, read_terms(ledger).enforced_models) == (("dp", "approx-dp"), EVERY_MODEL)
    assert all(map(is_promised_in_advance, read_promises(ledger, build_every_model_caps(1)).values()))
    ledger.charge(build_charge(3), build_caps(1, delta="1e-6", models=("dp",)))
    assert read_terms(ledger).enforced_models == ("dp", "individual-dp")
    promised = read_promises(ledger, build_every_model_caps(1))
    assert [is_promised_in_advance(promised[model]) for model in EVERY_MODEL] == [True, False, True]
    ledger.verify()


def test_models_that_admit_nothing_or_are_written_in_another_order_are_no_change(ledger: Ledger) -> None:
    ledger.charge(build_charge(1), build_every_model_caps(1))
    with pytest.raises(BudgetExceeded):
        ledger.charge(build_charge(2, 5), build_caps(1, delta="1e-6"))
    ledger.charge(build_charge(3), replace(build_every_model_caps(1), models=EVERY_MODEL[::-1]))
    assert not [body for body in read_entry_bodies(ledger) if body["kind"] == "cap"]
    assert all(map(is_promised_in_advance, read_promises(ledger, build_every_model_caps(1)).values()))


def test_models_that_were_not_held_cannot_be_entered_as_held(ledger: Ledger) -> None:
    ledger.charge(ask_gaussian(1), build_every_model_caps(1))
    before = read_terms(ledger)
    forged = replace(before.with_cap(before.cap, models=("dp",)), enforced_models=EVERY_MODEL)
    with ledger._database.begin_write() as connection:
        head = storage.require_head(storage.lock_head(connection, DATASET), DATASET)
        storage.append_entry(connection, head, chain.build_cap_change(head, "", before, forged))
        storage.save_terms(connection, DATASET, "", forged)
    with pytest.raises(ClaimFailed, match="entry 3 of data set 'census' is not what was written"):
        ledger.verify()


def test_disjoint_snapshots_within_their_caps_keep_the_promise(ledger: Ledger) -> None:
    """Units of the first have lost Gaussian answers, those of the second pure ones: nobody has lost both."""
    ledger.charge(ask_gaussian(1, "0.021"), build_every_model_caps(1))
    ledger.register(DATASET, "0f", "s2", disjoint=True)
    ledger.charge(build_charge(2, 1, snapshot="s2"), build_every_model_caps(1))
    assert all(map(is_promised_in_advance, read_promises(ledger, build_every_model_caps(1)).values()))


# Ledgers of format 3, which recorded caps and no models


def test_a_ledger_of_format_3_promises_in_advance_only_what_its_entries_show(
    ledger_address: str, without_models: pytest.MonkeyPatch
) -> None:
    """Gaussian answers show that approx-dp was allowed; which models a pure answer was held against is not shown."""
    with Ledger.open(ledger_address) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        ledger.charge(replace(ask_gaussian(1), analyst="rho"), build_every_model_caps(1))
        ledger.register("other", "0e", "s1", disjoint=False)
        for question in (build_charge(2), ask_gaussian(3)):
            ledger.charge(replace(question, dataset="other"), build_every_model_caps(1))
        ledger.charge(replace(ask_gaussian(4), analyst="rho"), build_every_model_caps(2))
        head = ledger.verify()
        assert not any("models" in body["terms"] for body in read_entry_bodies(ledger) if body["kind"] == "cap")
    make_format_3(ledger_address)
    without_models.undo()
    before = list_rows(ledger_address)
    assert Ledger.upgrade(ledger_address) == 3
    assert list_rows(ledger_address) == before
    with Ledger.existing(ledger_address) as ledger:
        assert ledger.verify() == head
        for charged in (False, True):
            if charged:
                ledger.charge(replace(ask_gaussian(5), analyst="rho"), build_every_model_caps(2))
                ledger.charge(replace(ask_gaussian(5), dataset="other"), build_every_model_caps(1))
                assert "the budget of rho: models recorded as dp, approx-dp, individual-dp" in [
                    entry.query for entry in ledger.history(DATASET)
                ]
            analyst_promises = {
                balance.model: balance.promise for balance in ledger.balance(DATASET, build_every_model_caps(2), "rho")
            }
            assert "because the cap was raised to 2, above 1" in analyst_promises["approx-dp"]
            assert analyst_promises["dp"].startswith(describe_not_held("dp"))
            promised = {
                balance.model: balance.promise for balance in ledger.balance("other", build_every_model_caps(1))
            }
            assert promised["dp"].startswith(describe_not_held("dp"))
            assert promised["approx-dp"].startswith(describe_not_held("approx-dp"))
            ledger.verify()


# Accounts that a restored ledger may have forgotten something of


def restore_with_forgotten(ledger_address: str, tmp_path: Path) -> Path:
    """A back-up, then a charge of 1 by zoe that it does not have, then the restore that says so."""
    with Ledger.open(ledger_address) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        ledger.charge(build_charge(1), build_every_model_caps(10, analyst=1))
        Ledger.backup(ledger_address, tmp_path / "backup.db")
        ledger.charge(build_charge(2, 1, analyst="zoe"), build_every_model_caps(10, analyst=1))
    Ledger.restore(tmp_path / "backup.db", tmp_path / "again.db", forgotten=1, forgotten_delta=1e-7)
    return tmp_path / "again.db"


def test_an_account_opened_after_a_restore_promises_what_it_may_have_lost_before(
    ledger_address: str, tmp_path: Path
) -> None:
    """Zoe spent 1 that nobody recorded, and may spend 1 again: in all 2, and no epsilon was fixed in advance."""
    with Ledger.existing(restore_with_forgotten(ledger_address, tmp_path)) as ledger:
        for spent in (1, 2):
            promised = {
                balance.model: balance.promise
                for balance in ledger.balance(DATASET, build_every_model_caps(10, analyst=1), "zoe")
            }
            assert promised["dp"].startswith(f"{UNRECORDED_CAPS}; {AT_MOST.replace('e^9', f'e^{spent}')}")
            assert promised["approx-dp"].startswith(f"{UNRECORDED_CAPS}; for the epsilon of ")
            if spent == 1:
                ledger.charge(build_charge(3, 1, analyst="zoe"), build_every_model_caps(10, analyst=1))
        zoe, ann = read_terms(ledger, "zoe"), read_terms(ledger, "ann")
        assert (zoe.has_unrecorded_caps, zoe.forgotten, zoe.forgotten_delta) == (True, 1, Fraction(1, 10**7))
        assert (ann.has_unrecorded_caps, ann.forgotten) == (True, 0)  # it was charged to her account
        ledger.verify()


def test_what_may_have_been_forgotten_of_an_account_cannot_be_left_out_unseen(
    ledger_address: str, tmp_path: Path
) -> None:
    with Ledger.existing(restore_with_forgotten(ledger_address, tmp_path)) as ledger:
        with pytest.MonkeyPatch.context() as unseen:
            unseen.setattr(storage, "find_forgotten", lambda *_: PrivacyCost())
            ledger.charge(build_charge(3, 1, analyst="zoe"), build_every_model_caps(10, analyst=1))
        with pytest.raises(ClaimFailed, match="is not what was written: it does not follow"):
            ledger.verify()


def test_an_account_that_format_3_opened_after_a_restore_is_told_of_it_with_the_next_charge(
    ledger_address: str, tmp_path: Path, without_models: pytest.MonkeyPatch
) -> None:
    place = restore_with_forgotten(ledger_address, tmp_path)
    with Ledger.existing(place) as ledger:
        ledger.charge(build_charge(3, "0.5", analyst="zoe"), build_every_model_caps(10, analyst=1))
        assert not read_terms(ledger, "zoe").has_unrecorded_caps
        ledger.verify()
    without_models.undo()
    with Ledger.existing(place) as ledger:
        ledger.verify()
        for _ in range(2):
            analyst_promise = ledger.balance(DATASET, build_every_model_caps(10, analyst=1), "zoe")[0].promise
            assert analyst_promise.startswith(f"{UNRECORDED_CAPS}; {AT_MOST.replace('e^9', 'e^1.5')}")
            ledger.charge(
                build_charge(4, "0.1", analyst="zoe", spend=PrivacyCost(), model="approx-dp"),
                build_every_model_caps(10, analyst=1),
            )
        ledger.charge(build_charge(5, "0.5", analyst="zoe"), build_every_model_caps(10, analyst=1))
        assert (read_terms(ledger, "zoe").has_unrecorded_caps, read_terms(ledger, "zoe").forgotten) == (True, 1)
        ledger.verify()


def test_forgotten_spend_that_the_first_ledgers_of_format_3_did_not_mark_is_no_reason_to_doubt_them(
    ledger_address: str, tmp_path: Path, without_models: pytest.MonkeyPatch
) -> None:
    """And none to promise an epsilon in advance: it is pure, and shows no model that was held."""
    without_models.setattr(chain, "UNRECORDED_MARK", {})
    unrecorded = "has_unrecorded_caps"
    without_models.setattr(
        backup, "replace", lambda balance, **new: balance if unrecorded in new else replace(balance, **new)
    )
    with Ledger.existing(restore_with_forgotten(ledger_address, tmp_path)) as ledger:
        without_models.undo()
        ledger.verify()
        assert not read_terms(ledger).has_unrecorded_caps
        for _ in range(2):
            assert not any(map(is_promised_in_advance, read_promises(ledger, build_every_model_caps(10)).values()))
            ledger.charge(build_charge("more", "0.5"), build_every_model_caps(10))
            ledger.verify()


def test_a_delta_that_was_lowered_is_not_the_delta_that_is_shown(ledger: Ledger) -> None:
    """It may have been lowered because of answers: half of the first one is what the orders have."""
    ledger.charge(ask_gaussian(1, "0.0001"), build_every_model_caps(10, "1e-3"))
    for lowered in ("1e-3", "1e-9"):
        balance = ledger.balance(DATASET, build_every_model_caps(10, lowered))[1]
        assert balance.delta == Fraction(1, 2000)
    ledger.charge(ask_gaussian(2, "0.0001"), build_every_model_caps(10, "1e-9"))
    assert ledger.balance(DATASET, build_every_model_caps(10, "1e-9"))[1].delta == Fraction(1, 2000)


def test_the_promise_of_one_analyst_says_what_it_presumes_of_others(ledger: Ledger) -> None:
    ledger.charge(build_charge(1), build_every_model_caps(1))
    for balance in ledger.balance(DATASET, build_every_model_caps(1), "ann"):
        assert balance.promise.endswith(f"; {PRESUMES_NO_SHARING}")
    assert not any(
        PRESUMES_NO_SHARING in promise for promise in read_promises(ledger, build_every_model_caps(1)).values()
    )
