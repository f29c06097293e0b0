"""What to say when a charge does not fit: what was asked, what is left, what would fit."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import BudgetExceeded
from discreet.formatting import format_cost, format_left
from discreet.ledger.accounts import NOTHING, Account, Position, all_fit, cost, debited
from discreet.ledger.amounts import fraction
from discreet.ledger.charge import Caps, Charge, Model
from discreet.ledger.terms import Terms
from discreet.spend import KINDS, LEAST_DELTA, LEAST_PLACES

DIGITS = 6
MOST_TIMES = 10**6
NOTHING_MORE = "nothing more like it can be answered"
NOTHING_NEW = "nothing new like it can be drawn; a smaller epsilon is answered only if a stored answer serves it"
"""Not which answer, nor its epsilon: it may be another analyst's."""
TOO_FAR = (
    "this question says that one unit touches {} parts, more than was said before; what was answered on parts so far "
    "would count as often, and be more than an account's cap; ask about the whole data set"
)
FILE = "file "
"""How the query of a charge for a file begins."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The data set ("") or an analyst, who pays for a charge: where its account stands, and under what terms.

    `recorded` are the terms that the ledger has of it, if it has any: others are recorded with the charge. Nothing fits
    an account that is `closed` to the charge, since it names a reach at which parts charged before would be too much.
    """

    name: str
    position: Position
    terms: Terms
    models: tuple[Model, ...]
    recorded: Terms | None = None
    closed: bool = False

    def affords(self, more: Account) -> bool:
        """Whether one more cost fits."""
        return not self.closed and all_fit(self.position.total(more), self.models, self.terms)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A charge that does not fit; `stored` is the epsilon of the answer it would have reused, if any."""

    charge: Charge
    owners: tuple[Owner, ...]
    stored: Fraction | None = None

    def error(self) -> BudgetExceeded:
        """What was asked, what is left, what would fit."""
        if self.stored is not None:
            return BudgetExceeded(self._of_reuse(self.stored))
        if self.charge.part is not None and any(owner.closed for owner in self.owners):
            return BudgetExceeded(TOO_FAR.format(self.charge.part.reach))
        left = min(_delta_left(owner) for owner in self.owners)
        return BudgetExceeded(self._of_delta(left) if self.charge.spend.delta > left else self._of_draw())

    def _of_draw(self) -> str:
        rooms = {owner.name: room(self.charge, owner) for owner in self.owners}
        least, about = min(rooms.values()), " about" if self.charge.spend.other else ""
        advice = f"ask with epsilon at most{about} {format_left(least)}" if least else self._nothing
        if self.charge.query.startswith(FILE):
            left = f"for this file the budget has {format_left(least)} left"
        elif "" in rooms:
            whole, own = format_left(rooms[""]), format_left(rooms[self.charge.analyst])
            left = f"for this question the data set's budget has {whole} left and the analyst's {own}"
        else:  # of a stored answer, for which the data set pays nothing
            left = f"for this question the analyst's budget has {format_left(least)} left"
        return f"epsilon {format_cost(self.charge.epsilon)} was asked; {left}; {advice}"

    @property
    def _nothing(self) -> str:
        """What to say where no epsilon fits; a fresh charge takes no stored answer."""
        return NOTHING_MORE if self.charge.fresh else NOTHING_NEW

    def _of_delta(self, left: Fraction) -> str:
        advice = f"ask with a delta of at most {format_left(left)}" if left >= LEAST_DELTA else self._nothing
        return (
            f"delta {format_cost(self.charge.spend.delta)} was asked; half of a budget's delta is for answers that may "
            f"fail, and {format_left(left)} of that half is left; {advice}"
        )

    def _of_reuse(self, stored: Fraction) -> str:
        least = min(room(self.charge, owner) for owner in self.owners)
        advice = f'ask without reuse="any" (--reuse any), with epsilon at most {format_left(least)}'
        return (
            f"the answer of epsilon {format_cost(stored)} that is stored for this question costs more than the analyst "
            f"has left; {advice if least else self._nothing}"
        )


def _delta_left(owner: Owner) -> Fraction:
    """The delta that one more answer may have, as far as all parts together allow."""
    if "approx-dp" not in owner.models:
        return Fraction(1)
    return max(Fraction(0), owner.terms.cap.delta / 2 - fraction(owner.position.total(NOTHING).delta))


def room(charge: Charge, owner: Owner) -> Fraction:
    """The greatest epsilon, to six digits, at which the same question would fit: 0 where none that may be asked does.

    A pure loss is in proportion to the epsilon asked for, a concentrated one to its square.
    """
    base = cost(charge.model, charge.spend)

    def too_much(epsilon: Fraction) -> bool:
        return not owner.affords(_scaled(base, epsilon / charge.epsilon))

    powers = range(-LEAST_PLACES, 10)
    power = bisect_left(powers, True, key=lambda exponent: too_much(Fraction(10) ** exponent))
    if not power:
        return Fraction(0)
    step = Fraction(10) ** (powers[power - 1] - DIGITS + 1)
    steps = range(10 ** (DIGITS - 1), 10**DIGITS)
    return steps[bisect_left(steps, True, key=lambda count: too_much(count * step)) - 1] * step


def times(charge: Charge, owners: Iterable[Owner]) -> int:
    """How many more answers of this cost fit, all payers agreeing; at most a million are told."""
    base, payers = cost(charge.model, charge.spend), tuple(owners)
    if base == NOTHING:
        return MOST_TIMES

    def too_many(count: int) -> bool:
        more = Account(*(count * amount for amount in base))
        return not all(owner.affords(more) for owner in payers)

    return bisect_left(range(1, MOST_TIMES + 1), True, key=too_many)


def untouched(charge: Charge, caps: Caps) -> tuple[Owner, Owner]:
    """Who would pay where nothing was spent yet."""
    reach = dict.fromkeys(KINDS, 1 if charge.part is None else charge.part.reach)
    position = Position(NOTHING, reach, {}, charge.part)
    models = tuple(model for model in debited(charge.model) if model in caps.models)
    whole, own = Terms.opened(caps.dataset), Terms.opened(caps.analyst)
    return Owner("", position, whole, models), Owner(charge.analyst, position, own, models)


def _scaled(base: Account, scale: Fraction) -> Account:
    return Account(
        dp=math.ceil(base.dp * scale),
        epsilon=math.ceil(base.epsilon * scale),
        rho=math.ceil(base.rho * scale**2),
        other=math.ceil(base.other * scale**2),
        delta=base.delta,
        individual=math.ceil(base.individual * scale),
    )
