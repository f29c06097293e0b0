"""Whether one more charge fits under a cap. All sums are whole amounts; the rules are proven in accounts.md.

An account has one component for each rule. A `dp` charge debits all three models, since a pure promise keeps the two
weaker ones as well; an `approx-dp` or `individual-dp` charge debits its own model alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from operator import add
from typing import NamedTuple

from discreet.guarantee import epsilon_at_order
from discreet.ledger.amounts import fraction, units
from discreet.ledger.charge import Model
from discreet.schema import Budget
from discreet.spend import KINDS, Kind, Part, Spend

ROUTES = 6
"""So many orders are watched: the k-th is best where what is not pure takes the 2^k-th part of the cap."""


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
        return Account(*(self._component(name, getattr(root, name), getattr(own, name)) for name in Account._fields))

    def _component(self, name: str, root: int, own: int) -> int:
        return root + sum(self._largest(kind, name, own) for kind in KINDS)

    def _largest(self, kind: Kind, name: str, own: int) -> int:
        amounts = self.others.get((kind, name), [])
        if self.part is not None and self.part.kind == kind:
            amounts = sorted([own, *amounts], reverse=True)
        return sum(amounts[: self.reach[kind]])


def spent(account: Account, model: Model, cap: Budget) -> Fraction | None:
    """The epsilon that is compared with the cap, never below the loss; None where the cap's delta gives none."""
    if model != "approx-dp":
        return fraction(account.dp if model == "dp" else account.individual)
    bounds = _approximate(account, cap)
    return min(bounds) if bounds else None


def delta(account: Account, model: Model, cap: Budget) -> Fraction:
    """The delta that goes with the epsilon spent: that of the answers, and half of the cap's where orders are used."""
    if model != "approx-dp":
        return Fraction(0)
    pure = not account.other and spent(account, model, cap) == fraction(account.epsilon)
    return fraction(account.delta) + (0 if pure else cap.delta / 2)


def fits(account: Account, model: Model, cap: Budget) -> bool:
    """Whether an account is under its cap."""
    if model == "approx-dp" and fraction(account.delta) > cap.delta / 2:
        return False
    epsilon = spent(account, model, cap)
    return epsilon is not None and epsilon <= cap.epsilon


def all_fit(account: Account, models: Iterable[Model], cap: Budget) -> bool:
    """Whether an account is under its cap in every one of these models."""
    return all(fits(account, model, cap) for model in models)


def _approximate(account: Account, cap: Budget) -> list[Fraction]:
    pure = fraction(account.epsilon)
    if not account.other and pure <= cap.epsilon:  # the usual case, and no logarithm
        return [pure]
    rho, other = fraction(account.rho), fraction(account.other)
    bounds = [min(pure, order * rho) + order * other + least for order, least in routes(cap)]
    return bounds if account.other else [pure, *bounds]


@lru_cache(maxsize=256)
def routes(cap: Budget) -> tuple[tuple[Fraction, Fraction], ...]:
    """The orders watched under a cap, each with the epsilon it costs before anything is spent.

    They come from the cap alone, and their deltas, cap.delta/2^(k+2), add up to less than half of the cap's.
    """
    if not cap.epsilon or not cap.delta:
        return ()
    shares = [(cap.epsilon / 2**k, cap.delta / 2 ** (k + 2)) for k in range(ROUTES)]
    orders = [1 + Fraction(_best_excess(float(epsilon), math.log(delta))) for epsilon, delta in shares]
    return tuple(
        (order, epsilon_at_order(order, Fraction(0), delta)) for order, (_, delta) in zip(orders, shares, strict=True)
    )


def _best_excess(epsilon: float, ln_delta: float) -> float:
    """The order less one at which most rho fits under epsilon; any value is sound, this one is near the best."""

    def rho(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return (epsilon + math.log1p(1 / excess) + (math.log1p(excess) + ln_delta) / excess) / (1 + excess)

    low, high = -30.0, 60.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(120):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if rho(left) >= rho(right) else (left, high)
    return math.exp((low + high) / 2)
