"""The terms of one account: the cap in force, and what was fixed for good when the account was opened.

The orders that an approx-dp account is held against, and their shares of delta, are chosen from the first cap on a
public grid. They never follow the cap, so that it may be raised at any time and by any rule (accounts.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet.errors import InvalidInput, Unavailable
from discreet.formatting import format_cost
from discreet.guarantee import epsilon_at_order
from discreet.ledger.amounts import DAMAGED
from discreet.schema import Budget

Orders = tuple[tuple[Fraction, Fraction], ...]
"""Orders above 1, each with its share of delta; all shares together are at most one half."""

LADDER = 6
"""Number of orders for one epsilon: the k-th is best where losses that are not pure take the 2^k-th part of it."""
HALF = Fraction(1, 2)
NO_DELTA = Fraction(1, 10**6)
"""Orders are chosen for this delta where the first cap has none."""
HIGHEST = "the highest cap declared before the first answer"
AFTER_THE_FACT = "the weaker statement after the fact holds (see 'When a budget changes' in the documentation)"
PRESUMED = "this presumes that cap and delta were not chosen because of answers given before the ledger recorded them"
NO_EPSILON = "no epsilon that was fixed in advance is promised"
UNRECORDED = f"{NO_EPSILON}, because answers were given under caps that this ledger has no record of"
OTHER_ANALYSTS = (
    "this presumes that nothing this analyst asks, may ask or is told follows from answers that only others paid for; "
    "the promise of the data set's account, for all analysts together, does not presume it"
)
STEPS = (1000, 1090, 1189, 1297, 1414, 1542, 1682, 1834)
"""Thousandths of 2^(i/8): the public grid of orders less one consists of these, times powers of 2."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The cap in force, and what was fixed when the account was opened.

    `ceiling` is the highest epsilon that the first cap declared possible and `delta` the first delta above 0, which is
    never exceeded later. `highest` is the highest epsilon that was ever in force. `late` accounts have losses under
    caps that were not recorded, by an older discreet or for what a restored ledger had forgotten; those with a
    `late_delta` had losses before they had a delta.
    """

    cap: Budget
    ceiling: Fraction
    delta: Fraction
    highest: Fraction
    orders: Orders
    late: bool = False
    late_delta: bool = False

    def __post_init__(self) -> None:
        """The orders pay for one another, and the cap is within what was fixed."""
        if any(order <= 1 or share <= 0 for order, share in self.orders) or sum(s for _, s in self.orders) > HALF:
            raise InvalidInput("orders must be above 1, and their shares of delta at most one half together")
        if self.cap.delta > self.delta or self.cap.epsilon > self.highest:
            raise InvalidInput("a cap in force must be within the delta and the highest epsilon of its account")

    @staticmethod
    def opened(cap: Budget, late: bool = False) -> Terms:
        """The terms of an account whose first cap this is."""
        return Terms(cap, cap.ceiling, cap.delta, cap.epsilon, choose_orders(cap), late)

    def under(self, cap: Budget, owner: str = "") -> Terms:
        """The same account under another cap: any epsilon, and a delta that is not above the first one.

        The owner, an analyst or the data set where it is empty, is named where a delta is refused.
        """
        if self.delta and cap.delta > self.delta:
            raise InvalidInput(
                f"the delta of {'analyst_budget' if owner else 'budget'} cannot be raised: the account of "
                f"{owner or 'the data set'} was opened with "
                f"{format_cost(self.delta)}, and the schema now says {format_cost(cap.delta)}; set it to "
                f"{format_cost(self.delta)} or less"
            )
        if cap == self.cap:
            return self
        late = self.late_delta or (not self.delta and cap.delta > 0)
        highest = max(self.highest, cap.epsilon)
        return replace(self, cap=cap, delta=self.delta or cap.delta, highest=highest, late_delta=late)

    def routes(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The orders, each with the epsilon it costs before anything is spent."""
        return _routes(self.orders, self.cap.delta)

    def to_json(self) -> dict[str, Any]:
        """The terms as an entry of the chain has them, all numbers exact."""
        return {
            "cap": {name: str(value) for name, value in self.cap.declared().items()},
            "ceiling": str(self.ceiling),
            "delta": str(self.delta),
            "highest": str(self.highest),
            "orders": [[str(order), str(share)] for order, share in self.orders],
            "late": self.late,
            "late_delta": self.late_delta,
        }

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Terms:
        """The terms that an entry has; ValueError where they are none."""
        ceiling, delta, highest = (_number(told[name]) for name in ("ceiling", "delta", "highest"))
        orders = tuple((_number(order), _number(share)) for order, share in told["orders"])
        cap = Budget(**{name: _number(value) for name, value in told["cap"].items()})
        return Terms(cap, ceiling, delta, highest, orders, told["late"] is True, told["late_delta"] is True)

    @property
    def unchanged(self) -> bool:
        """Whether the cap in force is the first one, and all that was fixed follows from it."""
        fixed = (self.ceiling, self.delta, self.highest) == (self.cap.ceiling, self.cap.delta, self.cap.epsilon)
        return fixed and not self.late_delta

    def promise(self, model: str, spent: Fraction | None = Fraction(0), delta: Fraction = Fraction(0)) -> str:
        """What holds for all answers of the account together.

        `spent` and `delta` bound what any unit has lost, in whichever snapshot; no epsilon does where `spent` is None.
        """
        if model != "approx-dp":
            return _pure_promise(self, model, spent or Fraction(0))
        return _late_promise(self, spent, delta) if self.late else _approximate_promise(self)


@lru_cache(maxsize=1024)
def read_terms(text: str) -> Terms:
    """Terms from the text that a database kept."""
    try:
        return Terms.from_json(json.loads(text))
    except (InvalidInput, AttributeError, KeyError, TypeError, ValueError):
        raise Unavailable(DAMAGED) from None


def _number(text: str) -> Fraction:
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError from None


def promise_to(analyst: str | None, promise: str) -> str:
    """The promise of an account, with what it presumes where it is one analyst's and not the data set's."""
    return promise if analyst is None else f"{promise}; {OTHER_ANALYSTS}"


def change_in_words(owner: str, before: Budget, after: Budget) -> str:
    """How a cap was changed, for people."""
    whose = f"the budget of {owner}" if owner else "the data set's budget"
    olds, news = before.declared(), after.declared()
    return f"{whose}: " + ", ".join(
        _change(name, olds.get(name), news.get(name))
        for name in ("epsilon", "delta", "max_epsilon")
        if olds.get(name) != news.get(name)
    )


def _change(name: str, old: Fraction | None, new: Fraction | None) -> str:
    if old is None or new is None:
        return f"{name} no longer declared" if new is None else f"{name} declared as {format_cost(new)}"
    return f"{name} {'raised' if new > old else 'lowered'} from {format_cost(old)} to {format_cost(new)}"


@lru_cache(maxsize=256)
def choose_orders(cap: Budget) -> Orders:
    """The orders of an account whose first cap this is.

    One ladder is for the first cap. A second one is for the ceiling, where that is well above the cap; else two orders
    with what is left of delta are for a cap that is raised without having been declared.
    """
    if not cap.epsilon:
        return ()
    low, high, delta = cap.epsilon, cap.ceiling, cap.delta or NO_DELTA
    if high**2 <= 2 * low**2:
        wanted = [(low / 2**k, Fraction(1, 2 ** (k + 2))) for k in range(LADDER)]
        wanted += [(low * 4**k, Fraction(1, 2 ** (LADDER + k + 1))) for k in (1, 2)]
    else:
        wanted = [(low / 2**k, Fraction(1, 2 ** (k + 3))) for k in range(LADDER)]
        wanted += [(high / 2**k, Fraction(1, 2 ** (k + 3))) for k in range(LADDER) if high > low * 2**k]
    return tuple((_order_for(float(epsilon), math.log(delta * share)), share) for epsilon, share in wanted)


@lru_cache(maxsize=256)
def _routes(orders: Orders, delta: Fraction) -> tuple[tuple[Fraction, Fraction], ...]:
    if not delta:
        return ()
    return tuple((order, epsilon_at_order(order, Fraction(0), delta * share)) for order, share in orders)


def _order_for(epsilon: float, ln_delta: float) -> Fraction:
    """The order of the grid that is nearest to the one at which most rho fits under epsilon; any order is sound."""

    def rho(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return (epsilon + math.log1p(1 / excess) + (math.log1p(excess) + ln_delta) / excess) / (1 + excess)

    low, high = -30.0, 60.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if rho(left) >= rho(right) else (left, high)
    octave, step = divmod(round(len(STEPS) * (low + high) / 2 / math.log(2)), len(STEPS))
    return 1 + Fraction(STEPS[step], 1000) * Fraction(2) ** octave


def _pure_promise(terms: Terms, model: str, spent: Fraction) -> str:
    kind = "differential privacy" if model == "dp" else "individual DP, which is weaker than differential privacy,"
    factor = f"e^{format_cost(max(terms.highest, spent))}"
    reached = f"the answers given so far are at most {factor} times as likely as with one unit's data changed"
    if terms.late:
        return f"{UNRECORDED}; {reached}"
    if spent > terms.highest:
        return f"{NO_EPSILON}, because {format_cost(spent)} was spent while no cap held for {model}; {reached}"
    if terms.highest > terms.ceiling:
        return f"{_undeclared(terms)}; {reached}"
    whole = f"all answers of this account together satisfy {kind} with epsilon {format_cost(terms.ceiling)}"
    return whole if terms.ceiling == terms.highest else f"{whole}, {HIGHEST}; {reached}"


def _approximate_promise(terms: Terms) -> str:
    delta = format_cost(terms.delta)
    reached = f"for the cap of {format_cost(terms.highest)} reached so far only {AFTER_THE_FACT}"
    presumed = f"; {PRESUMED}" if terms.late_delta else ""
    if terms.highest > terms.ceiling:
        return f"{_undeclared(terms)}; {reached}, with delta {delta}{presumed}"
    whole = f"approximate differential privacy with epsilon {format_cost(terms.ceiling)} and delta {delta}"
    more = "" if terms.ceiling == terms.highest else f"; this epsilon is {HIGHEST}, and {reached}"
    return f"all answers of this account together satisfy {whole}{more}{presumed}"


def _late_promise(terms: Terms, spent: Fraction | None, delta: Fraction) -> str:
    if spent is None:
        return f"{UNRECORDED}; nor is any other, since some of those answers need a delta and the cap recorded has none"
    epsilon, chance = format_cost(max(terms.highest, spent)), format_cost(max(terms.delta, delta))
    reached = f"for the epsilon of {epsilon} reached so far only {AFTER_THE_FACT}, with delta {chance}"
    return f"{UNRECORDED}; {reached}; {PRESUMED}"


def _undeclared(terms: Terms) -> str:
    first = format_cost(terms.ceiling)
    return f"{NO_EPSILON}, because the cap was raised to {format_cost(terms.highest)}, above {first}, {HIGHEST}"
