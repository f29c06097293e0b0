"""How a charge is paid: stored answers are reused, refusals say what would fit."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import mul
from typing import Literal

from sqlalchemy import Connection, Select, bindparam, select

from discreet.errors import BudgetExceeded, InvalidInput, Unavailable
from discreet.formatting import format_budget_left, format_cost
from discreet.ledger import accounts, chain, storage
from discreet.ledger.accounts import COMPONENTS, EMPTY_ACCOUNT, Account, AccountPosition, Terms
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import (
    MODELS,
    Caps,
    Charge,
    Model,
    Receipt,
    format_stored_amount,
    round_up_to_units,
    units_to_fraction,
)
from discreet.ledger.storage import entries, find_body, find_last_restore, find_last_void, read_answer_text
from discreet.privacy.cost import ACCOUNT_KINDS, EPSILON_DECIMALS, MIN_DELTA, PrivacyCost, SubAccount

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
DATASET_OWNER = ""
"""The owner of the data set's own accounts."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The data set ("") or an analyst, who pays for a charge: where its account stands, and under what terms.

    `recorded_terms` are those that the ledger has of it, if it has any: others are recorded with the charge. Nothing
    fits an account that `is_closed` to the charge, since one unit touches more parts by it than was said before, and
    what was charged on parts would then be too much.
    """

    name: str
    position: AccountPosition
    terms: Terms
    models: tuple[Model, ...]
    recorded_terms: Terms | None = None
    is_closed: bool = False

    def can_afford(self, debit: Account) -> bool:
        """Whether one more cost fits."""
        return not self.is_closed and accounts.is_under_all_caps(
            self.position.compute_total(debit), self.models, self.terms
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A charge that does not fit; `stored_epsilon` is that of the answer it would have reused, if any."""

    charge: Charge
    owners: tuple[Owner, ...]
    stored_epsilon: Fraction | None = None

    def build_error(self) -> BudgetExceeded:
        """Build the error: the cost asked for, what is left, and what would fit."""
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
        left_text, asked = format_budget_left(left), format_cost(self.charge.spend.delta)
        advice = f"ask with a delta of at most {left_text}" if left >= MIN_DELTA else self._no_room_advice
        return (
            f"delta {asked} was asked; half of a budget's delta is for answers that may fail, and {left_text} of that "
            f"half is left; {advice}"
        )

    def _explain_reuse(self, stored_epsilon: Fraction) -> str:
        least = min(find_affordable_epsilon(self.charge, owner) for owner in self.owners)
        advice = f'ask without reuse="any" (--reuse any), with epsilon at most {format_budget_left(least)}'
        return (
            f"the answer of epsilon {format_cost(stored_epsilon)} that is stored for this question costs more than the "
            f"analyst has left; {advice if least else self._no_room_advice}"
        )


def _compute_delta_left(owner: Owner) -> Fraction:
    """The delta that one more answer may have, as far as all parts together allow."""
    if "approx-dp" not in owner.models:
        return Fraction(1)
    spent = units_to_fraction(owner.position.compute_total(EMPTY_ACCOUNT).delta)
    return max(Fraction(0), owner.terms.cap.delta / 2 - spent)


def find_affordable_epsilon(charge: Charge, owner: Owner) -> Fraction:
    """The greatest epsilon, to six digits, at which the same question would fit: 0 where none that may be asked does.

    A pure loss is in proportion to the epsilon asked for, a concentrated one to its square; a delta stays.
    """
    base = accounts.compute_debit(charge.model, charge.spend)

    def too_much(epsilon: Fraction) -> bool:
        scale = epsilon / charge.epsilon
        factors = (scale, scale, scale**2, scale**2, 1, scale)
        return not owner.can_afford(Account(*map(math.ceil, map(mul, base, factors))))

    powers = range(-EPSILON_DECIMALS, 10)
    power = bisect_left(powers, True, key=lambda exponent: too_much(Fraction(10) ** exponent))
    if not power:
        return Fraction(0)
    step = Fraction(10) ** (powers[power - 1] - EPSILON_DIGITS + 1)
    steps = range(10 ** (EPSILON_DIGITS - 1), 10**EPSILON_DIGITS)
    return steps[bisect_left(steps, True, key=lambda count: too_much(count * step)) - 1] * step


def count_affordable_charges(charge: Charge, owners: Iterable[Owner]) -> int:
    """Count the answers of this cost that still fit, all payers agreeing; up to a million."""
    base, payers = accounts.compute_debit(charge.model, charge.spend), tuple(owners)
    if base == EMPTY_ACCOUNT:
        return MAX_AFFORDABLE

    def too_many(count: int) -> bool:
        debit = Account(*(count * amount for amount in base))
        return not all(owner.can_afford(debit) for owner in payers)

    return bisect_left(range(1, MAX_AFFORDABLE + 1), True, key=too_many)


def build_unspent_owners(charge: Charge, caps: Caps) -> tuple[Owner, Owner]:
    """Build the payers of a charge where nothing was spent yet."""
    max_accounts = dict.fromkeys(ACCOUNT_KINDS, 1 if charge.part is None else charge.part.max_accounts)
    position = AccountPosition(EMPTY_ACCOUNT, max_accounts, {}, charge.part)
    models = tuple(model for model in accounts.list_debited_models(charge.model) if model in caps.models)
    dataset_terms, analyst_terms = Terms.from_first_cap(caps.dataset), Terms.from_first_cap(caps.analyst)
    return Owner("", position, dataset_terms, models), Owner(charge.analyst, position, analyst_terms, models)


ENTRY_KEY = ("dataset", "analyst", "key")
SELECT_BY_KEY = select(entries.c.body).where(*(entries.c[name] == bindparam(name) for name in ENTRY_KEY))
SELECT_ACCURATE = select(entries.c.seq, entries.c.source).where(
    entries.c.dataset == bindparam("dataset"),
    entries.c.epsilon >= bindparam("epsilon"),
)
SELECT_ANY_ANALYST = SELECT_ACCURATE.where(entries.c.finds == bindparam("finds")).order_by(entries.c.epsilon).limit(1)
SELECT_SAME_ANALYST = (
    SELECT_ACCURATE.where(
        entries.c.finds.in_((bindparam("finds"), bindparam("degraded"))), entries.c.analyst == bindparam("analyst")
    )
    .order_by(entries.c.epsilon.desc())
    .limit(1)
)
_degraded_entries = entries.alias("degraded")
SELECT_UNUSED = SELECT_ANY_ANALYST.where(
    entries.c.kind == "answer",
    entries.c.epsilon > bindparam("epsilon"),
    entries.c.source > bindparam("restored"),
    entries.c.source.not_in(
        select(_degraded_entries.c.source).where(
            _degraded_entries.c.dataset == bindparam("dataset"),
            _degraded_entries.c.analyst == bindparam("analyst"),
            _degraded_entries.c.kind == "degrade",
        )
    ),
)
"""Draws of which the analyst was told nothing yet: two degraded answers of one draw tell more than they cost.

Of a draw from before a restore nobody knows that: what the analyst was told of it may be forgotten.
"""


def find_retry_receipt(connection: Connection, charge: Charge) -> Receipt | None:
    """Find the receipt that the analyst's key already has, if it has one."""
    if charge.key is None:
        return None
    parameters = {"dataset": charge.dataset, "analyst": charge.analyst, "key": charge.key}
    text = connection.execute(SELECT_BY_KEY, parameters).scalar_one_or_none()
    if text is None:
        return None
    body = chain.parse_body(text)
    if body["snapshot"] != charge.snapshot:
        raise InvalidInput(
            f"the key {charge.key[:40]!r} was used on an earlier snapshot of the data set; what was charged then stays "
            "charged, and a new key asks again"
        )
    if body["request"] != chain.hash_request(charge):
        raise InvalidInput(f"the key {charge.key[:40]!r} was used for another request; use a new key for a new one")
    return build_receipt(connection, body)


def _find_own_entry(connection: Connection, charge: Charge) -> Body | None:
    """The entry by which this analyst paid for the most accurate stored answer that is the analyst's own."""
    parameters = {"analyst": charge.analyst, "degraded": chain.build_degraded_key(chain.build_lookup_key(charge))}
    row = connection.execute(SELECT_SAME_ANALYST, _build_parameters(charge) | parameters).one_or_none()
    if row is None:
        return None
    body = find_body(connection, charge.dataset, row.seq)
    return find_body(connection, charge.dataset, row.source) if body and body["kind"] == "answer" else body


def find_shared_entry(connection: Connection, charge: Charge) -> Body | None:
    """Find the charge whose stored answer serves this one as it is: the cheapest one, at a price that was agreed to."""
    body = _find_source(connection, SELECT_ANY_ANALYST, charge)
    is_agreed = body is not None and (charge.any_price or chain.costs_at_most(body, charge.spend))
    return body if is_agreed else None


def find_degradable_entry(connection: Connection, charge: Charge) -> Body | None:
    """Find the charge whose stored answer serves this one once noise is added to it; it cost no less than this one."""
    if not charge.degradable or _find_source(connection, SELECT_ANY_ANALYST, charge) is None:
        return None
    restored = find_last_restore(connection, charge.dataset)
    body = _find_source(connection, SELECT_UNUSED, charge, {"analyst": charge.analyst, "restored": restored})
    return body if body is not None and chain.costs_at_least(body, charge.spend) else None


def _find_source(
    connection: Connection, statement: Select[int], charge: Charge, parameters: Mapping[str, object] | None = None
) -> Body | None:
    row = connection.execute(statement, _build_parameters(charge) | dict(parameters or {})).one_or_none()
    return None if row is None else find_body(connection, charge.dataset, row.source)


@dataclass(frozen=True, slots=True)
class Offer:
    """A stored answer: the epsilon that the analyst would be told it with, and what it would cost the analyst now.

    `kind` is the analyst's own, another analyst's as it is ("shared"), or another's with noise added ("degraded").
    """

    epsilon: Fraction
    price: PrivacyCost
    kind: Literal["own", "shared", "degraded"] = "own"


def find_stored_offer(connection: Connection, charge: Charge) -> Offer | None:
    """Find the stored answer that a charge would get, nothing being charged."""
    own_entry = _find_own_entry(connection, charge)
    if own_entry is not None:
        return Offer(chain.parse_stored_epsilon(own_entry), PrivacyCost())
    other = find_shared_entry(connection, charge)
    if other is not None:
        return Offer(chain.parse_asked_epsilon(other), chain.parse_spend(other), "shared")
    if find_degradable_entry(connection, charge) is not None:
        return Offer(charge.epsilon, charge.spend, "degraded")
    return None


def build_receipt(connection: Connection, body: Body) -> Receipt:
    """Build the receipt of an entry that was paid for before."""
    seq = body["source"] if body["kind"] == "reuse" else body["seq"]
    answer, degrades = read_answer_text(connection, body["dataset"], seq), None
    if answer is None:
        require_not_void(connection, body)
    if answer is None and body["kind"] == "degrade":
        degrades = read_answer_text(connection, body["dataset"], body["source"])
    return Receipt(body["seq"], answer, chain.parse_spend(body), charged=False, answer_to_degrade=degrades)


def require_not_void(connection: Connection, body: Body) -> None:
    """Refuse to answer a charge from before a restore: it may have been answered, and the answer was forgotten."""
    if body["seq"] < find_last_void(connection, body["dataset"]):
        raise InvalidInput(
            f"entry {body['seq']} was charged before the ledger was restored from a back-up, and an answer that was "
            "given for it since may be lost, so it cannot be answered again; it stays charged, and a new key, or a new "
            "session, pays for a new answer"
        )


def _build_parameters(charge: Charge) -> dict[str, str]:
    return {
        "dataset": charge.dataset,
        "finds": chain.build_lookup_key(charge),
        "epsilon": format_stored_amount(round_up_to_units(charge.epsilon)),
    }


def pay_charge(connection: Connection, charge: Charge, caps: Caps) -> Receipt | Refusal:
    """A retry gets its receipt, a stored answer is shared, a new draw is paid; what does not fit changes nothing.

    Nobody pays more than was offered, unless by consent: a dearer stored answer is degraded to the offer, or left.
    """
    if (reserved := chain.FORGOTTEN_QUERY) in {charge.question, charge.query}:
        raise InvalidInput(f"{reserved!r} is what a restored ledger was charged; name the question otherwise")
    head = storage.require_head(storage.lock_head(connection, charge.dataset), charge.dataset)
    retry_receipt = find_retry_receipt(connection, charge)
    if retry_receipt is not None:
        return retry_receipt
    if charge.snapshot != head.snapshot:
        raise Unavailable(f"{charge.dataset[:40]!r} has another snapshot by now; ask again")
    if charge.fresh:
        return _charge_new_answer(connection, head, charge, caps)
    own_entry = _find_own_entry(connection, charge)
    if own_entry is not None:
        return build_receipt(connection, own_entry)
    source = find_shared_entry(connection, charge)
    if source is not None:
        return _charge_reuse(connection, head, charge, caps, source)
    source = find_degradable_entry(connection, charge)
    if source is not None:
        return _charge_degradation(connection, head, charge, caps, source)
    return _charge_new_answer(connection, head, charge, caps)


def _charge_new_answer(connection: Connection, head: Head, charge: Charge, caps: Caps) -> Receipt | Refusal:
    """A new answer: the data set pays, and so does the analyst."""
    owners = find_payers(connection, head, charge, caps)
    debit = accounts.compute_debit(charge.model, charge.spend)
    if not all(owner.can_afford(debit) for owner in owners):
        return Refusal(charge, owners)
    head = head.with_charge(charge.model, charge.part)
    head, opens = _record_terms(connection, head, owners, debit)
    return _append_payment(connection, head, chain.build_charge_entry(head, charge) | opens, owners, debit)


def find_payers(connection: Connection, head: Head, charge: Charge, caps: Caps) -> tuple[Owner, Owner]:
    """Find the payers of a new answer, the data set and the analyst, given the head before it."""
    head_after = head.with_charge(charge.model, charge.part)
    dataset_owner = _read_owner(connection, head_after, charge, charge.part, DATASET_OWNER, caps)
    analyst_owner = _read_owner(connection, head_after, charge, charge.part, charge.analyst, caps)
    if head.raises_max_accounts(charge.part) and not _raise_fits(
        connection, head_after, (dataset_owner, analyst_owner)
    ):
        return replace(dataset_owner, is_closed=True), replace(analyst_owner, is_closed=True)
    return dataset_owner, analyst_owner


def _raise_fits(connection: Connection, head: Head, payers: tuple[Owner, ...]) -> bool:
    """Whether all accounts keep their promises once parts charged before count as often as the head now says.

    That is a loss in every model and for every owner, whatever the charge itself costs, and whoever pays for it.
    """
    terms = {owner.name: owner.terms for owner in payers if owner.recorded_terms is not None}
    for name in storage.list_owners(connection, head):
        recorded = storage.find_terms(connection, head.dataset, name)
        if recorded is None or recorded.has_unrecorded_caps:
            continue
        promised_terms = terms.get(name) or complete_terms(connection, head, name, recorded)
        total = storage.read_position(connection, head, name, None, COMPONENTS).compute_total(EMPTY_ACCOUNT)
        models = [model for model in MODELS if model in promised_terms.enforced_models]
        if any(accounts.exceeds_highest_cap(total, model, promised_terms) for model in models):
            return False
    return True


def _charge_reuse(connection: Connection, head: Head, charge: Charge, caps: Caps, source: Body) -> Receipt | Refusal:
    """Another analyst's answer: nothing new is disclosed of the data set, but the analyst pays what it cost."""
    owner = _read_owner(connection, head, charge, chain.parse_part(source), charge.analyst, caps)
    debit = accounts.compute_debit(charge.model, chain.parse_spend(source))
    if not owner.can_afford(debit):
        left = find_affordable_epsilon(charge, owner)
        is_degradable = left and find_degradable_entry(connection, replace(charge, epsilon=left)) is not None
        # The analyst alone pays for what is left of a stored answer; for a new draw, the data set does as well.
        payers = (owner,) if is_degradable else find_payers(connection, head, charge, caps)
        return Refusal(charge, payers, chain.parse_asked_epsilon(source) if charge.any_price else None)
    head, opens = _record_terms(connection, head, (owner,), debit)
    receipt = _append_payment(connection, head, chain.build_reuse(head, charge, source) | opens, (owner,), debit)
    return replace(receipt, answer=storage.read_answer_text(connection, charge.dataset, source["seq"]))


def _charge_degradation(
    connection: Connection, head: Head, charge: Charge, caps: Caps, source: Body
) -> Receipt | Refusal:
    """Another analyst's answer with noise added: the data set pays nothing, the analyst what was offered."""
    owner = _read_owner(connection, head, charge, charge.part, charge.analyst, caps)
    debit = accounts.compute_debit(charge.model, charge.spend)
    if not owner.can_afford(debit):
        return Refusal(charge, (owner,))
    head, opens = _record_terms(connection, head, (owner,), debit)
    receipt = _append_payment(connection, head, chain.build_degradation(head, charge, source) | opens, (owner,), debit)
    return replace(receipt, answer_to_degrade=storage.read_answer_text(connection, charge.dataset, source["seq"]))


def _read_owner(
    connection: Connection, head: Head, charge: Charge, part: SubAccount | None, name: str, caps: Caps
) -> Owner:
    cap = caps.dataset if name == DATASET_OWNER else caps.analyst
    models = tuple(model for model in accounts.list_debited_models(charge.model) if model in caps.models)
    recorded = storage.find_terms(connection, head.dataset, name)
    if recorded is None:
        terms = Terms.from_first_cap(cap, caps.models)
    else:
        terms = complete_terms(connection, head, name, recorded).with_cap(cap, name, caps.models)
    return Owner(name, storage.read_position(connection, head, name, part, models), terms, models, recorded)


def complete_terms(connection: Connection, head: Head, owner: str, terms: Terms, opening: bool = False) -> Terms:
    """Terms with what the entries show of charges that were admitted before their models were recorded."""
    if terms.models is not None and not opening:
        return terms
    largest = storage.compute_largest_totals(connection, head, owner)
    forgotten = storage.find_forgotten(connection, head.dataset, owner)
    return complete_terms_from_totals(terms, largest, forgotten, opening)


def complete_terms_from_totals(terms: Terms, largest: Account, forgotten: PrivacyCost, opening: bool) -> Terms:
    """Complete terms from what any unit lost before, and what was forgotten beside it."""
    completed_terms = terms.with_earlier_spend(opening and largest != EMPTY_ACCOUNT, forgotten.epsilon, forgotten.delta)
    if opening:
        return completed_terms
    return replace(completed_terms, enforced_models=accounts.find_enforced_models(largest))


def _record_terms(connection: Connection, head: Head, owners: tuple[Owner, ...], debit: Account) -> tuple[Head, Body]:
    """Chain every cap that is not the one recorded: a change as an entry, a first one as part of the charge's own.

    A charge of nothing is admitted under any cap, and records none.
    """
    opened_terms: dict[str, Terms] = {}
    for owner in owners if debit != EMPTY_ACCOUNT else ():
        if owner.recorded_terms is None and owner.terms.orders:
            opened_terms[owner.name] = complete_terms(connection, head, owner.name, owner.terms, opening=True)
            storage.save_terms(connection, head.dataset, owner.name, opened_terms[owner.name])
        elif owner.recorded_terms is not None and owner.recorded_terms != owner.terms:
            head = storage.append_entry(
                connection, head, chain.build_cap_change(head, owner.name, owner.recorded_terms, owner.terms)
            )
            storage.save_terms(connection, head.dataset, owner.name, owner.terms)
    return head, chain.build_account_openings(opened_terms)


def _append_payment(
    connection: Connection, head: Head, body: Body, owners: tuple[Owner, ...], debit: Account
) -> Receipt:
    after = storage.append_entry(connection, head, body)
    for owner in owners:
        spent = owner.position.debited_account.plus(debit)
        storage.save_account(connection, after, owner.name, owner.position.part, spent)
    return Receipt(after.seq, None, chain.parse_spend(body), charged=True)
