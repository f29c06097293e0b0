"""Accounts: the terms of a cap, what was spent, and whether one more charge fits. Proofs are in accounts.md.

An account has one component for each rule, a whole number of units. A `dp` charge debits all three models, since a pure
promise keeps the two weaker ones as well; an `approx-dp` or `individual-dp` charge debits its own model alone.

The orders that an approx-dp account is held against, and their shares of delta, are chosen from the first cap on a
public grid. They never follow the cap, so that it may be raised at any time and by any rule. The terms also have what
a promise in advance rests on: in which models the account was held against its cap at every charge.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from operator import add
from typing import NamedTuple

from discreet.errors import InvalidInput, Unavailable
from discreet.formatting import format_cost
from discreet.ledger.charge import DAMAGED_AMOUNT, MODELS, Model, round_up_to_units, units_to_fraction
from discreet.privacy.cost import ACCOUNT_KINDS, AccountKind, PrivacyCost, SubAccount
from discreet.privacy.guarantee import compute_epsilon_at_order
from discreet.schema import Budget

Orders = tuple[tuple[Fraction, Fraction], ...]
"""Orders above 1, each with its share of delta; all shares together are at most one half."""

ORDERS_PER_EPSILON = 6
"""Number of orders for one epsilon: the k-th is best where losses that are not pure take the 2^k-th part of it."""
HALF = Fraction(1, 2)
FALLBACK_DELTA = Fraction(1, 10**6)
"""Orders are chosen for this delta where the first cap has none."""
HIGHEST_DECLARED_CAP = "the highest cap declared before the first answer"
AFTER_THE_FACT = "the weaker statement after the fact holds (see 'When a budget changes' in the documentation)"
PRESUMES_FIXED_CAPS = (
    "this presumes that cap and delta were not chosen because of answers given before the ledger recorded them"
)
NO_EPSILON_PROMISED = "no epsilon that was fixed in advance is promised"
UNRECORDED_CAPS = f"{NO_EPSILON_PROMISED}, because answers were given under caps that this ledger has no record of"
SPENT_ABOVE_CAP = f"{NO_EPSILON_PROMISED}, because more may have been spent than any cap in force allowed"
WEAKER_ANSWERS = (
    "answers or files under promises that this account does not count were given too; it bounds what its own answers "
    "add to them"
)
PRESUMES_NO_SHARING = (
    "this presumes that nothing this analyst asks, may ask or is told follows from answers that only others paid for; "
    "the promise of the data set's account, for all analysts together, does not presume it"
)
ORDER_STEPS = (1000, 1090, 1189, 1297, 1414, 1542, 1682, 1834)
"""Thousandths of 2^(i/8): the public grid of orders less one consists of these, times powers of 2."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The cap in force, and what was fixed when the account was opened.

    `ceiling` is the highest epsilon that the first cap declared possible and `delta` the first delta above 0, which is
    never exceeded later. `highest` is the highest epsilon that was ever in force. With `has_unrecorded_caps` there are
    losses under caps that an older discreet did not record, or that a restored ledger had forgotten; with
    `has_late_delta` there were losses before there was a delta. `models` are those in force, None where an older
    discreet did not record them, and `enforced_models` those in which the account was within its cap at every charge.
    `forgotten` and `forgotten_delta` bound what this account may have lost that a restored ledger has no entry of.
    """

    cap: Budget
    ceiling: Fraction
    delta: Fraction
    highest: Fraction
    orders: Orders
    has_unrecorded_caps: bool = False
    has_late_delta: bool = False
    models: tuple[str, ...] | None = None
    enforced_models: tuple[str, ...] = ()
    forgotten: Fraction = Fraction(0)
    forgotten_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """The orders pay for one another, and the cap is within what was fixed."""
        if any(order <= 1 or share <= 0 for order, share in self.orders) or sum(s for _, s in self.orders) > HALF:
            raise InvalidInput("orders must be above 1, and their shares of delta at most one half together")
        if self.cap.delta > self.delta or self.cap.epsilon > self.highest:
            raise InvalidInput("a cap in force must be within the delta and the highest epsilon of its account")

    @staticmethod
    def from_first_cap(cap: Budget, models: Collection[str] | None = None) -> Terms:
        """The terms of an account whose first cap this is, and which these models are allowed for."""
        first = Terms(cap, cap.ceiling, cap.delta, cap.epsilon, choose_orders(cap))
        if models is None:
            return first
        return replace(first, models=sort_models(models), enforced_models=_select_enforced_models(MODELS, (), models))

    def with_earlier_spend(self, charged: bool, forgotten: Fraction, forgotten_delta: Fraction) -> Terms:
        """Note that the account was charged before, or that a restored ledger may have forgotten losses of it."""
        unrecorded = self.has_unrecorded_caps or charged or bool(forgotten or forgotten_delta)
        return replace(self, has_unrecorded_caps=unrecorded, forgotten=forgotten, forgotten_delta=forgotten_delta)

    def with_cap(self, cap: Budget, owner: str = "", models: Collection[str] | None = None) -> Terms:
        """Put the account under another cap: any epsilon, and a delta that is not above the first one.

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
        allowed = self.models if models is None else sort_models(models)
        if (cap, allowed) == (self.cap, self.models):
            return self
        enforced_models = self.enforced_models
        if allowed is not None:  # where no models are recorded, none is known to have been left out so far
            before = MODELS if self.models is None else self.models
            enforced_models = _select_enforced_models(enforced_models, before, allowed)
        has_late_delta = self.has_late_delta or (not self.delta and cap.delta > 0)
        highest = max(self.highest, cap.epsilon)
        changed = replace(self, cap=cap, delta=self.delta or cap.delta, highest=highest, has_late_delta=has_late_delta)
        return replace(changed, models=allowed, enforced_models=enforced_models)

    def compute_order_costs(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The orders, each with the epsilon it costs before anything is spent."""
        return _compute_order_costs(self.orders, self.cap.delta)

    def to_json(self) -> dict[str, object]:
        """The terms as an entry of the chain has them, all numbers exact; an older one has no models."""
        fields: dict[str, object] = {
            "cap": self.cap.to_json(),
            "ceiling": str(self.ceiling),
            "delta": str(self.delta),
            "highest": str(self.highest),
            "orders": [[str(order), str(share)] for order, share in self.orders],
            "late": self.has_unrecorded_caps,
            "late_delta": self.has_late_delta,
        }
        if self.models is not None:
            fields |= {"models": list(self.models), "held": list(self.enforced_models)}
        if self.forgotten or self.forgotten_delta:
            fields |= {"forgotten": str(self.forgotten), "forgotten_delta": str(self.forgotten_delta)}
        return fields

    @staticmethod
    def from_json(fields: Mapping[str, object]) -> Terms:
        """The terms that an entry has; KeyError, TypeError or ValueError where they are none."""
        ceiling, delta, highest = (_parse_fraction(fields[name]) for name in ("ceiling", "delta", "highest"))
        cap, pairs = _parse_cap(fields["cap"]), fields["orders"]
        if not isinstance(pairs, list):
            raise TypeError
        orders = tuple((_parse_fraction(order), _parse_fraction(share)) for order, share in pairs)
        terms = Terms(cap, ceiling, delta, highest, orders, fields["late"] is True, fields["late_delta"] is True)
        forgotten, forgotten_delta = (
            _parse_fraction(fields.get(name, "0")) for name in ("forgotten", "forgotten_delta")
        )
        terms = replace(terms, forgotten=forgotten, forgotten_delta=forgotten_delta)
        if "models" not in fields:
            return terms
        return replace(terms, models=_parse_models(fields["models"]), enforced_models=_parse_models(fields["held"]))

    @property
    def is_unchanged(self) -> bool:
        """Whether the cap in force is the first one, and all that was fixed follows from it."""
        is_same_cap = (self.ceiling, self.delta, self.highest) == (self.cap.ceiling, self.cap.delta, self.cap.epsilon)
        enforced_models = () if self.models is None else _select_enforced_models(MODELS, (), self.models)
        return is_same_cap and self.enforced_models == enforced_models and not self.has_late_delta

    def describe_promise(
        self, model: str, spent: Fraction | None = Fraction(0), delta: Fraction = Fraction(0), too_much: bool = False
    ) -> str:
        """Describe the promise that all answers of the account together keep.

        `spent` and `delta` bound what any unit has lost, in whichever snapshot; no epsilon does where `spent` is None.
        `too_much` says that some unit may have lost more than the highest cap.
        """
        if model != "approx-dp":
            return _describe_pure_promise(self, model, spent or Fraction(0), too_much)
        return _describe_approximate_promise(self, spent, delta, too_much)


@lru_cache(maxsize=1024)
def read_terms(text: str) -> Terms:
    """Terms from the text that a database kept."""
    try:
        return Terms.from_json(json.loads(text))
    except (InvalidInput, AttributeError, KeyError, TypeError, ValueError):
        raise Unavailable(DAMAGED_AMOUNT) from None


def _parse_cap(document: object) -> Budget:
    """A cap by the names that a budget declares its numbers by."""
    numbers = {name: _parse_fraction(text) for name, text in document.items()} if isinstance(document, dict) else {}
    if not set(numbers) <= {"epsilon", "delta", "max_epsilon"}:
        raise ValueError
    epsilon, delta, highest = numbers["epsilon"], numbers.get("delta", Fraction(0)), numbers.get("max_epsilon")
    return Budget(epsilon=epsilon, delta=delta, max_epsilon=highest)


def _parse_fraction(text: object) -> Fraction:
    if not isinstance(text, str):
        raise TypeError
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError from None


def sort_models(models: Collection[str]) -> tuple[str, ...]:
    """Models, each once and in one order, so that it is no change to write them in another."""
    return tuple(model for model in MODELS if model in models)


def _parse_models(names: object) -> tuple[str, ...]:
    if not isinstance(names, list) or sort_models(names) != tuple(names):
        raise ValueError
    return tuple(names)


def _select_enforced_models(
    enforced_models: Collection[str], before: Collection[str], allowed: Collection[str]
) -> tuple[str, ...]:
    """The models that are held against the cap at the charges from now on too, if others are allowed than before.

    An allowed model is held. So is one that was never allowed, as long as dp is: only dp answers were charged to it, so
    that its sum is that of dp. One that is taken away is not: pure answers are charged to it unseen (accounts.md).
    """
    return tuple(
        model for model in sort_models(enforced_models) if model in allowed or (model not in before and "dp" in allowed)
    )


def qualify_promise(analyst: str | None, promise: str) -> str:
    """The promise of an account, with what it presumes where it is one analyst's and not the data set's."""
    return promise if analyst is None else f"{promise}; {PRESUMES_NO_SHARING}"


def describe_cap_change(owner: str, before: Terms, after: Terms) -> str:
    """Describe how a cap or the models that it holds for were changed, for people."""
    whose = f"the budget of {owner}" if owner else "the data set's budget"
    olds, news = before.cap.list_amounts(), after.cap.list_amounts()
    changes = [
        _describe_change(name, olds.get(name), news.get(name))
        for name in ("epsilon", "delta", "max_epsilon")
        if olds.get(name) != news.get(name)
    ]
    if before.models != after.models:
        prefix = "models recorded as" if before.models is None else f"models changed from {', '.join(before.models)} to"
        changes.append(f"{prefix} {', '.join(after.models or ())}")
    return f"{whose}: " + ", ".join(changes)


def _describe_change(name: str, old: Fraction | None, new: Fraction | None) -> str:
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
    low, high, delta = cap.epsilon, cap.ceiling, cap.delta or FALLBACK_DELTA
    if high**2 <= 2 * low**2:
        targets = [(low / 2**k, Fraction(1, 2 ** (k + 2))) for k in range(ORDERS_PER_EPSILON)]
        targets += [(low * 4**k, Fraction(1, 2 ** (ORDERS_PER_EPSILON + k + 1))) for k in (1, 2)]
    else:
        targets = [(low / 2**k, Fraction(1, 2 ** (k + 3))) for k in range(ORDERS_PER_EPSILON)]
        targets += [(high / 2**k, Fraction(1, 2 ** (k + 3))) for k in range(ORDERS_PER_EPSILON) if high > low * 2**k]
    return tuple((_choose_order(float(epsilon), math.log(delta * share)), share) for epsilon, share in targets)


@lru_cache(maxsize=256)
def _compute_order_costs(orders: Orders, delta: Fraction) -> tuple[tuple[Fraction, Fraction], ...]:
    if not delta:
        return ()
    return tuple((order, compute_epsilon_at_order(order, Fraction(0), delta * share)) for order, share in orders)


def _choose_order(epsilon: float, ln_delta: float) -> Fraction:
    """The order of the grid that is nearest to the one at which most rho fits under epsilon; any order is sound."""

    def rho(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return (epsilon + math.log1p(1 / excess) + (math.log1p(excess) + ln_delta) / excess) / (1 + excess)

    low, high = -30.0, 60.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if rho(left) >= rho(right) else (left, high)
    octave, step = divmod(round(len(ORDER_STEPS) * (low + high) / 2 / math.log(2)), len(ORDER_STEPS))
    return 1 + Fraction(ORDER_STEPS[step], 1000) * Fraction(2) ** octave


def _describe_pure_promise(terms: Terms, model: str, spent: Fraction, too_much: bool) -> str:
    kind = "differential privacy" if model == "dp" else "individual DP, which is weaker than differential privacy,"
    factor = f"e^{format_cost(max(terms.highest, spent))}"
    so_far = (
        "the answers of this account so far, each given all that was answered before it, are together at most "
        f"{factor} times as likely as with one unit's data changed"
    )
    reason = _explain_unbounded(terms, model, too_much) or _explain_undeclared(terms)
    if reason:
        return f"{reason}; {so_far}"
    total_promise = f"all answers of this account together satisfy {kind} with epsilon {format_cost(terms.ceiling)}"
    if terms.ceiling == terms.highest:
        return f"{total_promise}, {describe_condition(model)}"
    return f"{total_promise}, {HIGHEST_DECLARED_CAP}, {describe_condition(model)}; {so_far}"


def _describe_approximate_promise(terms: Terms, spent: Fraction | None, delta: Fraction, too_much: bool) -> str:
    presumption = f"; {PRESUMES_FIXED_CAPS}" if terms.has_unrecorded_caps or terms.has_late_delta else ""
    reason = _explain_unbounded(terms, "approx-dp", too_much or spent is None)
    if reason and spent is None:
        return f"{reason}; nor is any other, since some of those answers need a delta and the cap recorded has none"
    if reason:
        epsilon, chance = format_cost(max(terms.highest, spent or Fraction(0))), format_cost(max(terms.delta, delta))
        so_far = f"for the epsilon of {epsilon} reached so far only {AFTER_THE_FACT}, with delta {chance}"
        return f"{reason}; {so_far}{presumption}"
    first_delta = format_cost(terms.delta)
    so_far = f"for the cap of {format_cost(terms.highest)} reached so far only {AFTER_THE_FACT}"
    if terms.highest > terms.ceiling:
        return f"{_explain_undeclared(terms)}; {so_far}, with delta {first_delta}{presumption}"
    guarantee = f"approximate differential privacy with epsilon {format_cost(terms.ceiling)} and delta {first_delta}"
    total_promise = f"all answers of this account together satisfy {guarantee}, {describe_condition('approx-dp')}"
    suffix = "" if terms.ceiling == terms.highest else f"; this epsilon is {HIGHEST_DECLARED_CAP}, and {so_far}"
    return f"{total_promise}{suffix}{presumption}"


def describe_condition(model: str) -> str:
    """Describe the condition on every transcript under which a promise in advance holds."""
    return f"as long as none is given under a higher cap or while {model} is not among the models"


def _explain_unbounded(terms: Terms, model: str, too_much: bool) -> str:
    """Why the highest cap recorded bounds no loss; empty where it does."""
    if terms.has_unrecorded_caps:
        return UNRECORDED_CAPS
    if model not in terms.enforced_models:
        cause = f"this ledger does not show that {model} was among the models at every answer"
        return f"{NO_EPSILON_PROMISED}, because {cause}"
    return SPENT_ABOVE_CAP if too_much else ""


def _explain_undeclared(terms: Terms) -> str:
    """Why no epsilon is promised where the cap was raised too far; empty where it was not."""
    if terms.highest <= terms.ceiling:
        return ""
    raised = f"the cap was raised to {format_cost(terms.highest)}, above {format_cost(terms.ceiling)}"
    return f"{NO_EPSILON_PROMISED}, because {raised}, {HIGHEST_DECLARED_CAP}"


class Account(NamedTuple):
    """Spent units: epsilon for dp; epsilon, rho, other, delta for approx-dp; epsilon for individual-dp."""

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
    """Compute the amounts that a charge adds to an account, every component rounded up."""
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

    `others` has for each kind and component the largest amounts of the accounts beside the part: as many as one unit
    touches of the kind, `max_accounts`.
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
        """The root and, of each kind, the largest parts of one unit, component by component, after one more cost."""
        root = self.root if self.part else self.root.plus(debit)
        components = zip(AMOUNTS, root, self.part_account.plus(debit), strict=True)
        return Account(
            *(
                amount + sum(self._sum_largest(kind, name, part_amount) for kind in ACCOUNT_KINDS)
                for name, amount, part_amount in components
            )
        )

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
    """Describe the promise of all answers of an account, given its largest totals over all epochs.

    They are taken component by component: in approx-dp they may be above the cap where no epoch was. Where no bound on
    the parts of one unit was ever `raised`, none was (accounts.md). What a restored ledger has no entry of is added as
    one pure loss and a chance that it was none.
    """
    first_terms = replace(terms, cap=replace(terms.cap, delta=terms.delta))
    forgotten = compute_debit("dp", PrivacyCost(terms.forgotten, terms.forgotten**2 / 2))
    spent = largest.plus(forgotten).plus(Account(delta=round_up_to_units(terms.forgotten_delta)))
    epsilon, delta = compute_spent_epsilon(spent, model, first_terms), compute_spent_delta(spent, model, first_terms)
    too_much = exceeds_highest_cap(largest, model, terms) and (raised or model != "approx-dp")
    return terms.describe_promise(model, epsilon, delta, too_much)


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
