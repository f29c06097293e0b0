"""The ledger against a model too simple to be wrong: a list of what was paid, summed from the start every time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as some
import pytest
from hypothesis import given, settings

from discreet import BudgetExceeded
from discreet.ledger import Caps, Charge, Ledger, Receipt
from discreet.ledger.accounts import Terms
from discreet.privacy.cost import PrivacyCost, SubAccount
from discreet.schema import Budget
from support.ledger_stores import DATASET, EVERY_MODEL, build_caps, build_charge, create_postgres_schema

LIMITS = [
    build_caps(1, analyst="0.8", models=("dp",)),
    build_caps(2, analyst="1.2", delta="1e-6", models=("dp", "approx-dp")),
    build_caps("1.5", analyst=1, delta="1e-5", models=EVERY_MODEL),
]
SUB_ACCOUNTS = [
    None,
    None,
    *(SubAccount("partition", name, 2) for name in "abc"),
    *(SubAccount("individual", name, 1) for name in "pq"),
]
EPSILONS = [Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(1, 3)]


@dataclass(frozen=True)
class PaidAnswer:
    """An answer: its epsilon, who paid for it and how much, of which draw, and whether noise was added to that."""

    epsilon: Fraction
    who: str
    price: PrivacyCost
    draw: int
    degraded: bool


@dataclass
class SimpleLedger:
    """What was paid: who, in which model, how much, on which part; and what was answered."""

    paid: list[tuple[str, str, PrivacyCost, SubAccount | None]] = field(default_factory=list)
    answers_by_question: dict[str, list[PaidAnswer]] = field(default_factory=dict)
    draws: int = 0
    used: set[tuple[str, int]] = field(default_factory=set)
    """Who was told something of which draw with noise added."""

    def charge(self, charge: Charge, limits: Caps) -> str:
        """What should become of a request: free, reuse, degrade, draw or refused."""
        stored = (
            []
            if charge.fresh
            else [answer for answer in self._list_answers(charge) if answer.epsilon >= charge.epsilon]
        )
        if any(answer.who == charge.analyst for answer in stored):
            return "free"
        undegraded = sorted(
            (answer for answer in stored if not answer.degraded), key=lambda candidate: candidate.epsilon
        )
        if undegraded and (charge.any_price or _is_within(undegraded[0].price, charge.spend)):
            if not self._is_within_budgets(charge, undegraded[0].price, {charge.analyst: limits.analyst}, limits):
                return "refused"
            self._pay(charge, undegraded[0].price, [charge.analyst])
            self._list_answers(charge).append(replace(undegraded[0], who=charge.analyst))
            return "reuse"
        nearer = [
            answer
            for answer in undegraded
            if answer.epsilon > charge.epsilon and (charge.analyst, answer.draw) not in self.used
        ]
        if charge.degradable and nearer and _is_within(charge.spend, nearer[0].price):
            if not self._is_within_budgets(charge, charge.spend, {charge.analyst: limits.analyst}, limits):
                return "refused"
            self._pay(charge, charge.spend, [charge.analyst])
            self.used.add((charge.analyst, nearer[0].draw))
            return "degrade"
        if not self._is_within_budgets(
            charge, charge.spend, {"": limits.dataset, charge.analyst: limits.analyst}, limits
        ):
            return "refused"
        self._pay(charge, charge.spend, ["", charge.analyst])
        return "draw"

    def answer(self, charge: Charge, degraded: bool) -> None:
        self.draws += 1
        self._list_answers(charge).append(
            PaidAnswer(charge.epsilon, charge.analyst, charge.spend, self.draws, degraded)
        )

    def _list_answers(self, charge: Charge) -> list[PaidAnswer]:
        return self.answers_by_question.setdefault(f"{charge.model} {charge.question}", [])

    def _pay(self, charge: Charge, spend: PrivacyCost, owners: list[str]) -> None:
        self.paid += [(owner, charge.model, spend, charge.part) for owner in owners]

    def _is_within_budgets(self, charge: Charge, spend: PrivacyCost, budgets: dict[str, Budget], limits: Caps) -> bool:
        charges_before = list(self.paid)
        self._pay(charge, spend, list(budgets))
        touched = [model for model in limits.models if charge.model in {"dp", model}]
        fine = all(
            self._is_inside_budget(owner, model, budget) for owner, budget in budgets.items() for model in touched
        )
        self.paid = charges_before
        return fine

    def _is_inside_budget(self, owner: str, model: str, budget: Budget) -> bool:
        delta = self.compute_total(owner, model, "delta")
        return self.compute_epsilon(owner, model, budget) <= budget.epsilon and delta <= budget.delta / 2

    def compute_epsilon(self, owner: str, model: str, budget: Budget) -> Fraction:
        """What an owner has spent in a model."""
        pure, rho, other = (self.compute_total(owner, model, name) for name in ("epsilon", "rho", "gaussian_rho"))
        if model != "approx-dp":
            return pure
        ways = [
            min(pure, order * rho) + order * other + least
            for order, least in Terms.from_first_cap(budget).compute_order_costs()
        ]
        return min(ways if other else [pure, *ways])

    def compute_total(self, owner: str, model: str, name: str) -> Fraction:
        """A component: the root's, and for each kind of part the largest few parts'."""
        sums: dict[tuple[str, str], Fraction] = {}
        reach = {"": 1, "partition": 2, "individual": 1}
        for who, charged, spend, part in self.paid:
            if who == owner and charged in {"dp", model}:
                key = ("", "") if part is None else (part.kind, part.name)
                sums[key] = sums.get(key, Fraction(0)) + round_up(getattr(spend, name))
        by_kind = {kind: sorted((sums[key] for key in sums if key[0] == kind), reverse=True) for kind in reach}
        return sum((sum(by_kind[kind][: reach[kind]], Fraction(0)) for kind in reach), Fraction(0))


def _is_within(price: PrivacyCost, offer: PrivacyCost) -> bool:
    return all(getattr(price, name) <= getattr(offer, name) for name in ("epsilon", "rho", "gaussian_rho", "delta"))


def round_up(value: Fraction) -> Fraction:
    return Fraction(-(-value * 10**40 // 1), 10**40)


@some.composite
def st_requests(draw: some.DrawFn, models: tuple[str, ...]) -> Charge:
    """A request of one of two analysts; the part follows from the question, as it does in life."""
    number, epsilon = draw(some.integers(0, 8)), draw(some.sampled_from(EPSILONS))
    model = draw(some.sampled_from(models))
    spend = PrivacyCost(epsilon, epsilon**2 / 2)
    if model == "approx-dp":
        delta = draw(some.sampled_from([Fraction(0), Fraction(1, 10**7)]))
        spend = draw(
            some.sampled_from(
                [PrivacyCost(gaussian_rho=epsilon**2 / 50), PrivacyCost(epsilon, epsilon**2 / 8, delta=delta)]
            )
        )
    return build_charge(
        number,
        epsilon,
        analyst=draw(some.sampled_from(["ann", "bob"])),
        model=model,
        spend=spend,
        part=SUB_ACCOUNTS[number % len(SUB_ACCOUNTS)],
        fresh=draw(some.sampled_from([False, False, True])),
        any_price=draw(some.sampled_from([False, False, True])),
        degradable=number % 3 != 0 and not spend.gaussian_rho and not spend.delta,
    )


@some.composite
def st_lives(draw: some.DrawFn) -> tuple[Caps, list[tuple[Charge, bool]]]:
    """Caps, and requests of which some are answered."""
    limits = draw(some.sampled_from(LIMITS))
    return limits, draw(some.lists(some.tuples(st_requests(limits.models), some.booleans()), max_size=25))


def _describe_outcome(receipt: Receipt) -> str:
    if receipt.answer is not None:
        return "reuse" if receipt.charged else "free"
    return "draw" if receipt.answer_to_degrade is None else "degrade"


def assert_follows_model(limits: Caps, requested: list[tuple[Charge, bool]], where: str | Path) -> None:
    """Every outcome and every balance is the model's."""
    model = SimpleLedger()
    with Ledger.open(where) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        for charge, answer in requested:
            expected = model.charge(charge, limits)
            if expected == "refused":
                with pytest.raises(BudgetExceeded):
                    ledger.charge(charge, limits)
                continue
            receipt = ledger.charge(charge, limits)
            assert expected == _describe_outcome(receipt)
            if answer and receipt.answer is None:
                ledger.store(DATASET, receipt.entry, "{}")
                model.answer(charge, degraded=expected == "degrade")
        for owner in (None, "ann", "bob"):
            for balance in ledger.balance(DATASET, limits, owner):
                assert balance.epsilon == model.compute_epsilon(owner or "", balance.model, balance.cap)
        ledger.verify()


@given(st_lives())
@settings(max_examples=40)
def test_the_ledger_does_what_the_model_does(life: tuple[Caps, list[tuple[Charge, bool]]]) -> None:
    with TemporaryDirectory() as folder:
        assert_follows_model(*life, Path(folder) / "ledger.db")


@pytest.mark.xdist_group("postgres")
@given(life=st_lives())
@settings(max_examples=8)
def test_it_does_so_on_postgresql(postgres: str, life: tuple[Caps, list[tuple[Charge, bool]]]) -> None:
    assert_follows_model(*life, create_postgres_schema(postgres))


@pytest.mark.soak
@given(st_lives())
@settings(max_examples=2000)
def test_the_ledger_does_what_the_model_does_for_long(life: tuple[Caps, list[tuple[Charge, bool]]]) -> None:
    with TemporaryDirectory() as folder:
        assert_follows_model(*life, Path(folder) / "ledger.db")
