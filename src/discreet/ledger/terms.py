"""The terms of one account: the cap in force, and what was fixed for good when the account was opened.

They also have what a promise in advance rests on: in which models the account was held against its cap at every charge.
The orders that an approx-dp account is held against, and their shares of delta, are chosen from the first cap on a
public grid. They never follow the cap, so that it may be raised at any time and by any rule (accounts.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet.errors import InvalidInput, Unavailable
from discreet.formatting import format_cost
from discreet.guarantee import epsilon_at_order
from discreet.ledger.amounts import DAMAGED
from discreet.ledger.charge import MODELS
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
TOO_MUCH = f"{NO_EPSILON}, because more may have been spent than any cap in force allowed"
EACH = "each given all that was answered before it"
CHANGED = "with one unit's data changed"
WEAKER_ANSWERS = (
    "answers or files under promises that this account does not count were given too; it bounds what its own answers "
    "add to them"
)
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
    `late_delta` had losses before they had a delta. `models` are those in force, None where an older discreet did not
    record them, and `held` those in which the account was within its cap at every charge, whatever was answered.
    `forgotten` and `forgotten_delta` bound what this account may have lost that a restored ledger has no entry of.
    """

    cap: Budget
    ceiling: Fraction
    delta: Fraction
    highest: Fraction
    orders: Orders
    late: bool = False
    late_delta: bool = False
    models: tuple[str, ...] | None = None
    held: tuple[str, ...] = ()
    forgotten: Fraction = Fraction(0)
    forgotten_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """The orders pay for one another, and the cap is within what was fixed."""
        if any(order <= 1 or share <= 0 for order, share in self.orders) or sum(s for _, s in self.orders) > HALF:
            raise InvalidInput("orders must be above 1, and their shares of delta at most one half together")
        if self.cap.delta > self.delta or self.cap.epsilon > self.highest:
            raise InvalidInput("a cap in force must be within the delta and the highest epsilon of its account")

    @staticmethod
    def opened(cap: Budget, models: Collection[str] | None = None) -> Terms:
        """The terms of an account whose first cap this is, and which these models are allowed for."""
        first = Terms(cap, cap.ceiling, cap.delta, cap.epsilon, choose_orders(cap))
        if models is None:
            return first
        return replace(first, models=in_order(models), held=_still_held(MODELS, (), models))

    def after(self, charged: bool, forgotten: Fraction, forgotten_delta: Fraction) -> Terms:
        """The same for an account that was charged before, or that a restored ledger may have forgotten losses of."""
        late = self.late or charged or bool(forgotten or forgotten_delta)
        return replace(self, late=late, forgotten=forgotten, forgotten_delta=forgotten_delta)

    def under(self, cap: Budget, owner: str = "", models: Collection[str] | None = None) -> Terms:
        """The same account under another cap: any epsilon, and a delta that is not above the first one.

        `models` are those that are allowed from now on; without them, the same. The owner, an analyst or the data set
        where it is empty, is named where a delta is refused.
        """
        if self.delta and cap.delta > self.delta:
            raise InvalidInput(
                f"the delta of {'analyst_budget' if owner else 'budget'} cannot be raised: the account of "
                f"{owner or 'the data set'} was opened with "
                f"{format_cost(self.delta)}, and the schema now says {format_cost(cap.delta)}; set it to "
                f"{format_cost(self.delta)} or less"
            )
        allowed = self.models if models is None else in_order(models)
        if (cap, allowed) == (self.cap, self.models):
            return self
        held = self.held
        if allowed is not None:  # where no models are recorded, none is known to have been left out so far
            held = _still_held(held, MODELS if self.models is None else self.models, allowed)
        late = self.late_delta or (not self.delta and cap.delta > 0)
        highest = max(self.highest, cap.epsilon)
        changed = replace(self, cap=cap, delta=self.delta or cap.delta, highest=highest, late_delta=late)
        return replace(changed, models=allowed, held=held)

    def routes(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The orders, each with the epsilon it costs before anything is spent."""
        return _routes(self.orders, self.cap.delta)

    def to_json(self) -> dict[str, Any]:
        """The terms as an entry of the chain has them, all numbers exact; an older one has no models."""
        told: dict[str, Any] = {
            "cap": {name: str(value) for name, value in self.cap.declared().items()},
            "ceiling": str(self.ceiling),
            "delta": str(self.delta),
            "highest": str(self.highest),
            "orders": [[str(order), str(share)] for order, share in self.orders],
            "late": self.late,
            "late_delta": self.late_delta,
        }
        if self.models is not None:
            told |= {"models": list(self.models), "held": list(self.held)}
        if self.forgotten or self.forgotten_delta:
            told |= {"forgotten": str(self.forgotten), "forgotten_delta": str(self.forgotten_delta)}
        return told

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Terms:
        """The terms that an entry has; ValueError where they are none."""
        ceiling, delta, highest = (_number(told[name]) for name in ("ceiling", "delta", "highest"))
        orders = tuple((_number(order), _number(share)) for order, share in told["orders"])
        cap = _cap(told["cap"])
        terms = Terms(cap, ceiling, delta, highest, orders, told["late"] is True, told["late_delta"] is True)
        forgotten, forgotten_delta = (_number(told.get(name, "0")) for name in ("forgotten", "forgotten_delta"))
        terms = replace(terms, forgotten=forgotten, forgotten_delta=forgotten_delta)
        if "models" not in told:
            return terms
        return replace(terms, models=_known_models(told["models"]), held=_known_models(told["held"]))

    @property
    def unchanged(self) -> bool:
        """Whether the cap in force is the first one, and all that was fixed follows from it."""
        fixed = (self.ceiling, self.delta, self.highest) == (self.cap.ceiling, self.cap.delta, self.cap.epsilon)
        held = self.held == (() if self.models is None else _still_held(MODELS, (), self.models))
        return fixed and held and not self.late_delta

    def promise(
        self,
        model: str,
        spent: Fraction | None = Fraction(0),
        delta: Fraction = Fraction(0),
        too_much: bool = False,
    ) -> str:
        """What holds for all answers of the account together.

        `spent` and `delta` bound what any unit has lost, in whichever snapshot; no epsilon does where `spent` is None.
        `too_much` says that some unit may have lost more than the highest cap.
        """
        if model != "approx-dp":
            return _pure_promise(self, model, spent or Fraction(0), too_much)
        return _approximate_promise(self, spent, delta, too_much)


@lru_cache(maxsize=1024)
def read_terms(text: str) -> Terms:
    """Terms from the text that a database kept."""
    try:
        return Terms.from_json(json.loads(text))
    except (InvalidInput, AttributeError, KeyError, TypeError, ValueError):
        raise Unavailable(DAMAGED) from None


def _cap(told: Mapping[str, str]) -> Budget:
    """A cap by the names that a budget declares its numbers by."""
    numbers = {name: _number(value) for name, value in told.items()}
    if not set(numbers) <= {"epsilon", "delta", "max_epsilon"}:
        raise ValueError
    epsilon, delta, highest = numbers["epsilon"], numbers.get("delta", Fraction(0)), numbers.get("max_epsilon")
    return Budget(epsilon=epsilon, delta=delta, max_epsilon=highest)


def _number(text: str) -> Fraction:
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError from None


def in_order(models: Collection[str]) -> tuple[str, ...]:
    """Models, each once and in one order, so that it is no change to write them in another."""
    return tuple(model for model in MODELS if model in models)


def _known_models(told: list[str]) -> tuple[str, ...]:
    if in_order(told) != tuple(told):
        raise ValueError
    return in_order(told)


def _still_held(held: Collection[str], before: Collection[str], allowed: Collection[str]) -> tuple[str, ...]:
    """The models that are held against the cap at the charges from now on too, if others are allowed than before.

    An allowed model is held. So is one that was never allowed, as long as dp is: only dp answers were charged to it, so
    that its sum is that of dp. One that is taken away is not: pure answers are charged to it unseen (accounts.md).
    """
    return tuple(model for model in in_order(held) if model in allowed or (model not in before and "dp" in allowed))


def promise_to(analyst: str | None, promise: str) -> str:
    """The promise of an account, with what it presumes where it is one analyst's and not the data set's."""
    return promise if analyst is None else f"{promise}; {OTHER_ANALYSTS}"


def change_in_words(owner: str, before: Terms, after: Terms) -> str:
    """How a cap or the models that it holds for were changed, for people."""
    whose = f"the budget of {owner}" if owner else "the data set's budget"
    olds, news = before.cap.declared(), after.cap.declared()
    changes = [
        _change(name, olds.get(name), news.get(name))
        for name in ("epsilon", "delta", "max_epsilon")
        if olds.get(name) != news.get(name)
    ]
    if before.models != after.models:
        was = "models recorded as" if before.models is None else f"models changed from {', '.join(before.models)} to"
        changes.append(f"{was} {', '.join(after.models or ())}")
    return f"{whose}: " + ", ".join(changes)


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


def _pure_promise(terms: Terms, model: str, spent: Fraction, too_much: bool) -> str:
    kind = "differential privacy" if model == "dp" else "individual DP, which is weaker than differential privacy,"
    factor = f"e^{format_cost(max(terms.highest, spent))}"
    reached = f"the answers of this account so far, {EACH}, are together at most {factor} times as likely as {CHANGED}"
    refused = _unbounded(terms, model, too_much) or _undeclared(terms)
    if refused:
        return f"{refused}; {reached}"
    whole = f"all answers of this account together satisfy {kind} with epsilon {format_cost(terms.ceiling)}"
    if terms.ceiling == terms.highest:
        return f"{whole}, {as_long_as(model)}"
    return f"{whole}, {HIGHEST}, {as_long_as(model)}; {reached}"


def _approximate_promise(terms: Terms, spent: Fraction | None, delta: Fraction, too_much: bool) -> str:
    presumed = f"; {PRESUMED}" if terms.late or terms.late_delta else ""
    unbounded = _unbounded(terms, "approx-dp", too_much or spent is None)
    if unbounded and spent is None:
        return f"{unbounded}; nor is any other, since some of those answers need a delta and the cap recorded has none"
    if unbounded:
        epsilon, chance = format_cost(max(terms.highest, spent or Fraction(0))), format_cost(max(terms.delta, delta))
        reached = f"for the epsilon of {epsilon} reached so far only {AFTER_THE_FACT}, with delta {chance}"
        return f"{unbounded}; {reached}{presumed}"
    first = format_cost(terms.delta)
    reached = f"for the cap of {format_cost(terms.highest)} reached so far only {AFTER_THE_FACT}"
    if terms.highest > terms.ceiling:
        return f"{_undeclared(terms)}; {reached}, with delta {first}{presumed}"
    whole = f"approximate differential privacy with epsilon {format_cost(terms.ceiling)} and delta {first}"
    more = "" if terms.ceiling == terms.highest else f"; this epsilon is {HIGHEST}, and {reached}"
    return f"all answers of this account together satisfy {whole}, {as_long_as('approx-dp')}{more}{presumed}"


def as_long_as(model: str) -> str:
    """What must be so of every transcript, for a promise in advance to hold."""
    return f"as long as none is given under a higher cap or while {model} is not among the models"


def _unbounded(terms: Terms, model: str, too_much: bool) -> str:
    """Why the highest cap recorded bounds no loss; empty where it does."""
    if terms.late:
        return UNRECORDED
    if model not in terms.held:
        return f"{NO_EPSILON}, because this ledger does not show that {model} was among the models at every answer"
    return TOO_MUCH if too_much else ""


def _undeclared(terms: Terms) -> str:
    """Why no epsilon is promised where the cap was raised too far; empty where it was not."""
    if terms.highest <= terms.ceiling:
        return ""
    first = format_cost(terms.ceiling)
    return f"{NO_EPSILON}, because the cap was raised to {format_cost(terms.highest)}, above {first}, {HIGHEST}"
