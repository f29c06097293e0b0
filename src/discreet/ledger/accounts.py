"""Whether one more charge fits under a cap. All sums are whole amounts; the rules are proven in accounts.md.

An account has one component for each rule. A `dp` charge debits all three models, since a pure promise keeps the two
weaker ones as well; an `approx-dp` or `individual-dp` charge debits its own model alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import add
from typing import NamedTuple

from discreet.ledger.amounts import round_up_to_units, units_to_fraction
from discreet.ledger.charge import MODELS, Model
from discreet.ledger.terms import Terms
from discreet.schema import Budget
from discreet.spend import ACCOUNT_KINDS, AccountKind, PrivacyCost, SubAccount


class Account(NamedTuple):
    """What was spent, in units: epsilon for dp; epsilon, rho, other, delta for approx-dp; epsilon for individual-dp."""

    dp: int = 0
    epsilon: int = 0
    rho: int = 0
    other: int = 0
    delta: int = 0
    individual: int = 0

    def plus(self, other: Account) -> Account:
        """The sum of two, component by component."""
        return Account(*map(add, self, other))

    def maximum(self, other: Account) -> Account:
        """The larger of two, component by component."""
        return Account(*map(max, self, other))


AMOUNTS = ("dp", "epsilon", "rho", "other", "delta", "individual")
"""The columns that the components of an account are kept in, in the order of its fields."""
EMPTY_ACCOUNT = Account()
PAST_EPOCHS = -1
"""The epoch under which an owner's most, over all epochs before the present one, is kept."""

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "dp": ("dp",),
    "approx-dp": ("epsilon", "rho", "other", "delta"),
    "individual-dp": ("individual",),
}


def compute_debit(model: Model, spend: PrivacyCost) -> Account:
    """What a charge adds to an account, every component rounded up."""
    epsilon, rho, other, delta = map(round_up_to_units, (spend.epsilon, spend.rho, spend.gaussian_rho, spend.delta))
    if model == "dp":
        return Account(dp=epsilon, epsilon=epsilon, rho=rho, individual=epsilon)
    if model == "approx-dp":
        return Account(epsilon=epsilon, rho=rho, other=other, delta=delta)
    return Account(individual=epsilon)


def list_debited_models(model: Model) -> tuple[Model, ...]:
    """The models whose accounts a charge touches."""
    return ("dp", "approx-dp", "individual-dp") if model == "dp" else (model,)


@dataclass(frozen=True, slots=True)
class AccountPosition:
    """An owner's accounts as far as a charge on `part` needs them: the root, that part, and the largest others.

    `others` has for each kind and component the largest amounts of the accounts beside the part, `reach` of them.
    """

    root: Account
    max_accounts: Mapping[AccountKind, int]
    others: Mapping[tuple[AccountKind, str], list[int]] = field(default_factory=dict)
    part: SubAccount | None = None
    part_account: Account = EMPTY_ACCOUNT

    @property
    def debited_account(self) -> Account:
        """The account that a charge changes."""
        return self.root if self.part is None else self.part_account

    def compute_total(self, debit: Account) -> Account:
        """The root and, of each kind, the `reach` largest parts, component by component, after one more cost."""
        root = self.root if self.part else self.root.plus(debit)
        part_account = self.part_account.plus(debit)
        return Account(*map(self._sum_component, AMOUNTS, root, part_account))

    def _sum_component(self, name: str, root: int, part_amount: int) -> int:
        return root + sum(self._sum_largest(kind, name, part_amount) for kind in ACCOUNT_KINDS)

    def _sum_largest(self, kind: AccountKind, name: str, part_amount: int) -> int:
        amounts = self.others.get((kind, name), [])
        if self.part is not None and self.part.kind == kind:
            amounts = sorted([part_amount, *amounts], reverse=True)
        return sum(amounts[: self.max_accounts[kind]])


def compute_spent_epsilon(account: Account, model: Model, terms: Terms) -> Fraction | None:
    """The epsilon that is compared with the cap, never below the loss; None where the cap's delta gives none."""
    if model != "approx-dp":
        return units_to_fraction(account.dp if model == "dp" else account.individual)
    bounds = _compute_approximate_bounds(account, terms)
    return min(bounds) if bounds else None


def compute_spent_delta(account: Account, model: Model, terms: Terms) -> Fraction:
    """The delta that goes with the epsilon spent: that of the answers, and half of the first where orders are used.

    A delta that was lowered since does not count: it may have been lowered because of answers.
    """
    if model != "approx-dp":
        return Fraction(0)
    pure = not account.other and compute_spent_epsilon(account, model, terms) == units_to_fraction(account.epsilon)
    return units_to_fraction(account.delta) + (0 if pure else terms.delta / 2)


def find_enforced_models(largest: Account) -> tuple[Model, ...]:
    """The models that were allowed at every charge of an account, as its largest totals alone show.

    A charge that is not pure was admitted in its own model; which models a pure one was held against is not shown.
    """
    if largest.dp:
        return ()
    amounts = dict(zip(AMOUNTS, largest, strict=True))
    has_charges: dict[Model, bool] = {model: any(amounts[name] for name in COMPONENTS[model]) for model in MODELS}
    charged_models = [model for model, charged in has_charges.items() if charged]
    return tuple(charged_models) if len(charged_models) == 1 else ()


def describe_account_promise(largest: Account, model: Model, terms: Terms, raised: bool) -> str:
    """What holds for all answers of an account together, given its largest totals over all epochs.

    They are taken component by component: in approx-dp they may be above the cap where no epoch was. Where no reach was
    ever `raised`, none was (accounts.md).
    """
    first_terms = replace(terms, cap=replace(terms.cap, delta=terms.delta))
    total_spent = largest.plus(_compute_forgotten_debit(terms))
    too_much = exceeds_highest_cap(largest, model, terms) and (raised or model != "approx-dp")
    return terms.describe_promise(
        model,
        compute_spent_epsilon(total_spent, model, first_terms),
        compute_spent_delta(total_spent, model, first_terms),
        too_much,
    )


def _compute_forgotten_debit(terms: Terms) -> Account:
    """What a restored ledger has no entry of, as one pure loss and a chance that it was none."""
    epsilon = terms.forgotten
    return compute_debit("dp", PrivacyCost(epsilon, epsilon**2 / 2)).plus(
        Account(delta=round_up_to_units(terms.forgotten_delta))
    )


def is_under_cap(account: Account, model: Model, terms: Terms) -> bool:
    """Whether an account is under its cap."""
    cap = terms.cap
    if model == "approx-dp" and units_to_fraction(account.delta) > cap.delta / 2:
        return False
    epsilon = compute_spent_epsilon(account, model, terms)
    return epsilon is not None and epsilon <= cap.epsilon


def exceeds_highest_cap(account: Account, model: Model, terms: Terms) -> bool:
    """Whether an account is above the highest cap that was ever in force, with the first delta."""
    return not is_under_cap(account, model, replace(terms, cap=Budget(terms.highest, terms.delta)))


def is_under_all_caps(account: Account, models: Iterable[Model], terms: Terms) -> bool:
    """Whether an account is under its cap in every one of these models."""
    return all(is_under_cap(account, model, terms) for model in models)


def _compute_approximate_bounds(account: Account, terms: Terms) -> list[Fraction]:
    pure = units_to_fraction(account.epsilon)
    if not account.other and pure <= terms.cap.epsilon:  # the usual case, and no logarithm
        return [pure]
    rho, other = units_to_fraction(account.rho), units_to_fraction(account.other)
    bounds = [min(pure, order * rho) + order * other + offset for order, offset in terms.compute_order_costs()]
    return bounds if account.other else [pure, *bounds]
