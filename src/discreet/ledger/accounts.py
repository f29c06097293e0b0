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

from discreet.ledger.amounts import fraction, units
from discreet.ledger.charge import MODELS, Model
from discreet.ledger.terms import Terms
from discreet.schema import Budget
from discreet.spend import KINDS, Kind, Part, Spend


class Account(NamedTuple):
    """What was spent, in units: epsilon for dp; epsilon, rho, other, delta for approx-dp; epsilon for individual-dp."""

    dp: int = 0
    epsilon: int = 0
    rho: int = 0
    other: int = 0
    delta: int = 0
    individual: int = 0

    def plus(self, more: Account) -> Account:
        """The sum of two, component by component."""
        return Account(*map(add, self, more))

    def most(self, other: Account) -> Account:
        """The larger of two, component by component."""
        return Account(*map(max, self, other))


AMOUNTS = ("dp", "epsilon", "rho", "other", "delta", "individual")
"""The columns that the components of an account are kept in, in the order of its fields."""
NOTHING = Account()
PAST = -1
"""The epoch under which an owner's most, over all epochs before the present one, is kept."""

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "dp": ("dp",),
    "approx-dp": ("epsilon", "rho", "other", "delta"),
    "individual-dp": ("individual",),
}


def cost(model: Model, spend: Spend) -> Account:
    """What a charge adds to an account, every component rounded up."""
    epsilon, rho, other, delta = map(units, (spend.epsilon, spend.rho, spend.other, spend.delta))
    if model == "dp":
        return Account(dp=epsilon, epsilon=epsilon, rho=rho, individual=epsilon)
    if model == "approx-dp":
        return Account(epsilon=epsilon, rho=rho, other=other, delta=delta)
    return Account(individual=epsilon)


def debited(model: Model) -> tuple[Model, ...]:
    """The models whose accounts a charge touches."""
    return ("dp", "approx-dp", "individual-dp") if model == "dp" else (model,)


@dataclass(frozen=True, slots=True)
class Position:
    """An owner's accounts as far as a charge on `part` needs them: the root, that part, and the largest others.

    `others` has for each kind and component the largest amounts of the accounts beside the part, `reach` of them.
    """

    root: Account
    reach: Mapping[Kind, int]
    others: Mapping[tuple[Kind, str], list[int]] = field(default_factory=dict)
    part: Part | None = None
    own: Account = NOTHING

    @property
    def touched(self) -> Account:
        """The account that a charge changes."""
        return self.root if self.part is None else self.own

    def total(self, more: Account) -> Account:
        """The root and, of each kind, the `reach` largest parts, component by component, after one more cost."""
        root = self.root if self.part else self.root.plus(more)
        own = self.own.plus(more)
        return Account(*map(self._component, AMOUNTS, root, own))

    def _component(self, name: str, root: int, own: int) -> int:
        return root + sum(self._largest(kind, name, own) for kind in KINDS)

    def _largest(self, kind: Kind, name: str, own: int) -> int:
        amounts = self.others.get((kind, name), [])
        if self.part is not None and self.part.kind == kind:
            amounts = sorted([own, *amounts], reverse=True)
        return sum(amounts[: self.reach[kind]])


def spent(account: Account, model: Model, terms: Terms) -> Fraction | None:
    """The epsilon that is compared with the cap, never below the loss; None where the cap's delta gives none."""
    if model != "approx-dp":
        return fraction(account.dp if model == "dp" else account.individual)
    bounds = _approximate(account, terms)
    return min(bounds) if bounds else None


def delta(account: Account, model: Model, terms: Terms) -> Fraction:
    """The delta that goes with the epsilon spent: that of the answers, and half of the first where orders are used.

    A delta that was lowered since does not count: it may have been lowered because of answers.
    """
    if model != "approx-dp":
        return Fraction(0)
    pure = not account.other and spent(account, model, terms) == fraction(account.epsilon)
    return fraction(account.delta) + (0 if pure else terms.delta / 2)


def shown_held(largest: Account) -> tuple[Model, ...]:
    """The models that were allowed at every charge of an account, as its largest totals alone show.

    A charge that is not pure was admitted in its own model; which models a pure one was held against is not shown.
    """
    if largest.dp:
        return ()
    amounts = dict(zip(AMOUNTS, largest, strict=True))
    own: dict[Model, bool] = {model: any(amounts[name] for name in COMPONENTS[model]) for model in MODELS}
    only = [model for model, charged in own.items() if charged]
    return tuple(only) if len(only) == 1 else ()


def promise(largest: Account, model: Model, terms: Terms, raised: bool) -> str:
    """What holds for all answers of an account together, given its largest totals over all epochs.

    They are taken component by component: in approx-dp they may be above the cap where no epoch was. Where no reach was
    ever `raised`, none was (accounts.md).
    """
    first = replace(terms, cap=replace(terms.cap, delta=terms.delta))
    lost = largest.plus(_cost_of_forgotten(terms))
    too_much = exceeds(largest, model, terms) and (raised or model != "approx-dp")
    return terms.promise(model, spent(lost, model, first), delta(lost, model, first), too_much)


def _cost_of_forgotten(terms: Terms) -> Account:
    """What a restored ledger has no entry of, as one pure loss and a chance that it was none."""
    epsilon = terms.forgotten
    return cost("dp", Spend(epsilon, epsilon**2 / 2)).plus(Account(delta=units(terms.forgotten_delta)))


def fits(account: Account, model: Model, terms: Terms) -> bool:
    """Whether an account is under its cap."""
    cap = terms.cap
    if model == "approx-dp" and fraction(account.delta) > cap.delta / 2:
        return False
    epsilon = spent(account, model, terms)
    return epsilon is not None and epsilon <= cap.epsilon


def exceeds(account: Account, model: Model, terms: Terms) -> bool:
    """Whether an account is above the highest cap that was ever in force, with the first delta."""
    return not fits(account, model, replace(terms, cap=Budget(terms.highest, terms.delta)))


def all_fit(account: Account, models: Iterable[Model], terms: Terms) -> bool:
    """Whether an account is under its cap in every one of these models."""
    return all(fits(account, model, terms) for model in models)


def _approximate(account: Account, terms: Terms) -> list[Fraction]:
    pure = fraction(account.epsilon)
    if not account.other and pure <= terms.cap.epsilon:  # the usual case, and no logarithm
        return [pure]
    rho, other = fraction(account.rho), fraction(account.other)
    bounds = [min(pure, order * rho) + order * other + least for order, least in terms.routes()]
    return bounds if account.other else [pure, *bounds]
