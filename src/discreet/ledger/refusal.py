"""What to say when a charge does not fit: what was asked, what is left, what would fit."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import BudgetExceeded
from discreet.formatting import format_budget_left, format_cost
from discreet.ledger.accounts import (
    EMPTY_ACCOUNT,
    Account,
    AccountPosition,
    compute_debit,
    is_under_all_caps,
    list_debited_models,
)
from discreet.ledger.amounts import units_to_fraction
from discreet.ledger.charge import Caps, Charge, Model
from discreet.ledger.terms import Terms
from discreet.spend import ACCOUNT_KINDS, EPSILON_DECIMALS, MIN_DELTA

EPSILON_DIGITS = 6
MAX_AFFORDABLE = 10**6
NOTHING_MORE = "nothing more like it can be answered"
NOTHING_NEW = "nothing new like it can be drawn; a smaller epsilon is answered only if a stored answer serves it"
"""Not which answer, nor its epsilon: it may be another analyst's."""
TOO_MANY_PARTS = (
    "this question says that one unit touches {} parts, more than was said before; what was answered on parts so far "
    "would count as often, and be more than an account's cap; ask about the whole data set"
)
FILE_QUERY_PREFIX = "file "
"""How the query of a charge for a file begins."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The data set ("") or an analyst, who pays for a charge: where its account stands, and under what terms.

    `recorded` are the terms that the ledger has of it, if it has any: others are recorded with the charge. Nothing fits
    an account that is `closed` to the charge, since it names a reach at which parts charged before would be too much.
    """

    name: str
    position: AccountPosition
    terms: Terms
    models: tuple[Model, ...]
    recorded_terms: Terms | None = None
    is_closed: bool = False

    def can_afford(self, debit: Account) -> bool:
        """Whether one more cost fits."""
        return not self.is_closed and is_under_all_caps(self.position.compute_total(debit), self.models, self.terms)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A charge that does not fit; `stored` is the epsilon of the answer it would have reused, if any."""

    charge: Charge
    owners: tuple[Owner, ...]
    stored_epsilon: Fraction | None = None

    def build_error(self) -> BudgetExceeded:
        """What was asked, what is left, what would fit."""
        if self.stored_epsilon is not None:
            return BudgetExceeded(self._explain_reuse(self.stored_epsilon))
        if self.charge.part is not None and any(owner.is_closed for owner in self.owners):
            return BudgetExceeded(TOO_MANY_PARTS.format(self.charge.part.max_accounts))
        left = min(_compute_delta_left(owner) for owner in self.owners)
        return BudgetExceeded(self._explain_delta(left) if self.charge.spend.delta > left else self._explain_charge())

    def _explain_charge(self) -> str:
        rooms = {owner.name: find_affordable_epsilon(self.charge, owner) for owner in self.owners}
        least, about = min(rooms.values()), " about" if self.charge.spend.gaussian_rho else ""
        advice = f"ask with epsilon at most{about} {format_budget_left(least)}" if least else self._no_room_advice
        if self.charge.query.startswith(FILE_QUERY_PREFIX):
            left = f"for this file the budget has {format_budget_left(least)} left"
        elif "" in rooms:
            dataset_left, analyst_left = format_budget_left(rooms[""]), format_budget_left(rooms[self.charge.analyst])
            left = f"for this question the data set's budget has {dataset_left} left and the analyst's {analyst_left}"
        else:  # of a stored answer, for which the data set pays nothing
            left = f"for this question the analyst's budget has {format_budget_left(least)} left"
        return f"epsilon {format_cost(self.charge.epsilon)} was asked; {left}; {advice}"

    @property
    def _no_room_advice(self) -> str:
        """What to say where no epsilon fits; a fresh charge takes no stored answer."""
        return NOTHING_MORE if self.charge.fresh else NOTHING_NEW

    def _explain_delta(self, left: Fraction) -> str:
        advice = (
            f"ask with a delta of at most {format_budget_left(left)}" if left >= MIN_DELTA else self._no_room_advice
        )
        return (
            f"delta {format_cost(self.charge.spend.delta)} was asked; half of a budget's delta is for answers that may "
            f"fail, and {format_budget_left(left)} of that half is left; {advice}"
        )

    def _explain_reuse(self, stored_epsilon: Fraction) -> str:
        least = min(find_affordable_epsilon(self.charge, owner) for owner in self.owners)
        advice = f'ask without reuse="any" (--reuse any), with epsilon at most {format_budget_left(least)}'
        return (
            f"the answer of epsilon {format_cost(stored_epsilon)} that is stored for this question costs more "
            "than the analyst "
            f"has left; {advice if least else self._no_room_advice}"
        )


def _compute_delta_left(owner: Owner) -> Fraction:
    """The delta that one more answer may have, as far as all parts together allow."""
    if "approx-dp" not in owner.models:
        return Fraction(1)
    return max(
        Fraction(0), owner.terms.cap.delta / 2 - units_to_fraction(owner.position.compute_total(EMPTY_ACCOUNT).delta)
    )


def find_affordable_epsilon(charge: Charge, owner: Owner) -> Fraction:
    """The greatest epsilon, to six digits, at which the same question would fit: 0 where none that may be asked does.

    A pure loss is in proportion to the epsilon asked for, a concentrated one to its square.
    """
    base = compute_debit(charge.model, charge.spend)

    def too_much(epsilon: Fraction) -> bool:
        return not owner.can_afford(_scale_debit(base, epsilon / charge.epsilon))

    powers = range(-EPSILON_DECIMALS, 10)
    power = bisect_left(powers, True, key=lambda exponent: too_much(Fraction(10) ** exponent))
    if not power:
        return Fraction(0)
    step = Fraction(10) ** (powers[power - 1] - EPSILON_DIGITS + 1)
    steps = range(10 ** (EPSILON_DIGITS - 1), 10**EPSILON_DIGITS)
    return steps[bisect_left(steps, True, key=lambda count: too_much(count * step)) - 1] * step


def count_affordable_charges(charge: Charge, owners: Iterable[Owner]) -> int:
    """How many more answers of this cost fit, all payers agreeing; at most a million are told."""
    base, payers = compute_debit(charge.model, charge.spend), tuple(owners)
    if base == EMPTY_ACCOUNT:
        return MAX_AFFORDABLE

    def too_many(count: int) -> bool:
        debit = Account(*(count * amount for amount in base))
        return not all(owner.can_afford(debit) for owner in payers)

    return bisect_left(range(1, MAX_AFFORDABLE + 1), True, key=too_many)


def build_unspent_owners(charge: Charge, caps: Caps) -> tuple[Owner, Owner]:
    """Who would pay where nothing was spent yet."""
    max_accounts = dict.fromkeys(ACCOUNT_KINDS, 1 if charge.part is None else charge.part.max_accounts)
    position = AccountPosition(EMPTY_ACCOUNT, max_accounts, {}, charge.part)
    models = tuple(model for model in list_debited_models(charge.model) if model in caps.models)
    dataset_terms, analyst_terms = Terms.from_first_cap(caps.dataset), Terms.from_first_cap(caps.analyst)
    return Owner("", position, dataset_terms, models), Owner(charge.analyst, position, analyst_terms, models)


def _scale_debit(base: Account, scale: Fraction) -> Account:
    return Account(
        dp=math.ceil(base.dp * scale),
        epsilon=math.ceil(base.epsilon * scale),
        rho=math.ceil(base.rho * scale**2),
        other=math.ceil(base.other * scale**2),
        delta=base.delta,
        individual=math.ceil(base.individual * scale),
    )
