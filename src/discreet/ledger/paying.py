"""How a charge is paid, inside the one transaction that holds its data set's head."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from discreet.errors import InvalidInput, Unavailable
from discreet.ledger import chain, rows, stored
from discreet.ledger.accounts import (
    COMPONENTS,
    EMPTY_ACCOUNT,
    Account,
    compute_debit,
    exceeds_highest_cap,
    find_enforced_models,
    list_debited_models,
)
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import MODELS, Caps, Charge, Receipt
from discreet.ledger.refusal import Owner, Refusal, find_affordable_epsilon
from discreet.ledger.terms import Terms
from discreet.schema import Budget
from discreet.spend import PrivacyCost, SubAccount

DATASET_OWNER = ""
"""The owner of the data set's own accounts."""


def pay_charge(connection: Connection, charge: Charge, caps: Caps) -> Receipt | Refusal:
    """A retry gets its receipt, a stored answer is shared, a new draw is paid; what does not fit changes nothing.

    Nobody pays more than was offered, unless by consent: a dearer stored answer is degraded to the offer, or left.
    """
    if chain.FORGOTTEN_QUERY in {charge.question, charge.query}:
        raise InvalidInput(
            f"{chain.FORGOTTEN_QUERY!r} is what a restored ledger was charged; name the question otherwise"
        )
    head = rows.require_head(rows.lock_head(connection, charge.dataset), charge.dataset)
    retry_receipt = stored.find_retry_receipt(connection, charge)
    if retry_receipt is not None:
        return retry_receipt
    if charge.snapshot != head.snapshot:
        raise Unavailable(f"{charge.dataset[:40]!r} has another snapshot by now; ask again")
    if charge.fresh:
        return _charge_new_answer(connection, head, charge, caps)
    own_receipt = stored.find_own_receipt(connection, charge)
    if own_receipt is not None:
        return own_receipt
    source = stored.find_shared_entry(connection, charge)
    if source is not None:
        return _charge_reuse(connection, head, charge, caps, source)
    source = stored.find_degradable_entry(connection, charge)
    if source is not None:
        return _charge_degradation(connection, head, charge, caps, source)
    return _charge_new_answer(connection, head, charge, caps)


def _charge_new_answer(connection: Connection, head: Head, charge: Charge, caps: Caps) -> Receipt | Refusal:
    """A new answer: the data set pays, and so does the analyst."""
    owners = find_payers(connection, head, charge, caps)
    debit = compute_debit(charge.model, charge.spend)
    if not all(owner.can_afford(debit) for owner in owners):
        return Refusal(charge, owners)
    head = head.with_charge(charge.model, charge.part)
    head, opens = _record_terms(connection, head, owners, debit)
    return _append_payment(connection, head, chain.build_charge_entry(head, charge) | opens, owners, debit)


def find_payers(connection: Connection, head: Head, charge: Charge, caps: Caps) -> tuple[Owner, Owner]:
    """Who pays for a new answer: the data set and the analyst. Given the head as it is before."""
    head_after = head.with_charge(charge.model, charge.part)
    dataset_owner = _read_owner(connection, head_after, charge, charge.part, DATASET_OWNER, caps.dataset, caps)
    analyst_owner = _read_owner(connection, head_after, charge, charge.part, charge.analyst, caps.analyst, caps)
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
    for name in rows.list_owners(connection, head):
        recorded = rows.find_terms(connection, head.dataset, name)
        if recorded is None or recorded.has_unrecorded_caps:
            continue
        promised_terms = terms.get(name) or complete_terms(connection, head, name, recorded)
        total = rows.read_position(connection, head, name, None, COMPONENTS).compute_total(EMPTY_ACCOUNT)
        if any(
            model in promised_terms.enforced_models and exceeds_highest_cap(total, model, promised_terms)
            for model in MODELS
        ):
            return False
    return True


def _charge_reuse(connection: Connection, head: Head, charge: Charge, caps: Caps, source: Body) -> Receipt | Refusal:
    """Another analyst's answer: nothing new is disclosed of the data set, but the analyst pays what it cost."""
    part = chain.parse_part(source)
    owner = _read_owner(connection, head, charge, part, charge.analyst, caps.analyst, caps)
    debit = compute_debit(charge.model, chain.parse_spend(source))
    if not owner.can_afford(debit):
        payers = _find_payers_for_less(connection, head, charge, caps, owner)
        return Refusal(charge, payers, chain.parse_asked_epsilon(source) if charge.any_price else None)
    head, opens = _record_terms(connection, head, (owner,), debit)
    receipt = _append_payment(connection, head, chain.build_reuse(head, charge, source) | opens, (owner,), debit)
    return replace(receipt, answer=rows.read_answer_text(connection, charge.dataset, source["seq"]))


def _find_payers_for_less(
    connection: Connection, head: Head, charge: Charge, caps: Caps, owner: Owner
) -> tuple[Owner] | tuple[Owner, Owner]:
    """Who pays for the largest epsilon that the analyst has left: for a new draw, the data set as well."""
    left = find_affordable_epsilon(charge, owner)
    if left and stored.find_degradable_entry(connection, replace(charge, epsilon=left)) is not None:
        return (owner,)
    return find_payers(connection, head, charge, caps)


def _charge_degradation(
    connection: Connection, head: Head, charge: Charge, caps: Caps, source: Body
) -> Receipt | Refusal:
    """Another analyst's answer with noise added: the data set pays nothing, the analyst what was offered."""
    owner = _read_owner(connection, head, charge, charge.part, charge.analyst, caps.analyst, caps)
    debit = compute_debit(charge.model, charge.spend)
    if not owner.can_afford(debit):
        return Refusal(charge, (owner,))
    head, opens = _record_terms(connection, head, (owner,), debit)
    receipt = _append_payment(connection, head, chain.build_degradation(head, charge, source) | opens, (owner,), debit)
    return replace(receipt, answer_to_degrade=rows.read_answer_text(connection, charge.dataset, source["seq"]))


def _read_owner(
    connection: Connection, head: Head, charge: Charge, part: SubAccount | None, name: str, cap: Budget, caps: Caps
) -> Owner:
    models = tuple(model for model in list_debited_models(charge.model) if model in caps.models)
    recorded = rows.find_terms(connection, head.dataset, name)
    if recorded is None:
        terms = Terms.from_first_cap(cap, caps.models)
    else:
        terms = complete_terms(connection, head, name, recorded).with_cap(cap, name, caps.models)
    return Owner(name, rows.read_position(connection, head, name, part, models), terms, models, recorded)


def complete_terms(connection: Connection, head: Head, owner: str, terms: Terms, opening: bool = False) -> Terms:
    """Terms with what the entries show of charges that were admitted before their models were recorded."""
    if terms.models is not None and not opening:
        return terms
    largest = rows.compute_largest_totals(connection, head, owner)
    forgotten = rows.find_forgotten(connection, head.dataset, owner)
    return complete_terms_from_totals(terms, largest, forgotten, opening)


def complete_terms_from_totals(terms: Terms, largest: Account, forgotten: PrivacyCost, opening: bool) -> Terms:
    """The same, given what any unit lost before, and what was forgotten beside it."""
    completed_terms = terms.with_earlier_spend(opening and largest != EMPTY_ACCOUNT, forgotten.epsilon, forgotten.delta)
    return completed_terms if opening else replace(completed_terms, enforced_models=find_enforced_models(largest))


def _record_terms(connection: Connection, head: Head, owners: tuple[Owner, ...], debit: Account) -> tuple[Head, Body]:
    """Chain every cap that is not the one recorded: a change as an entry, a first one as part of the charge's own.

    A charge of nothing is admitted under any cap, and records none.
    """
    opened_terms: dict[str, Terms] = {}
    for owner in owners if debit != EMPTY_ACCOUNT else ():
        if owner.recorded_terms is None and owner.terms.orders:
            opened_terms[owner.name] = complete_terms(connection, head, owner.name, owner.terms, opening=True)
            rows.save_terms(connection, head.dataset, owner.name, opened_terms[owner.name])
        elif owner.recorded_terms is not None and owner.recorded_terms != owner.terms:
            head = rows.append_entry(
                connection, head, chain.build_cap_change(head, owner.name, owner.recorded_terms, owner.terms)
            )
            rows.save_terms(connection, head.dataset, owner.name, owner.terms)
    return head, chain.build_account_openings(opened_terms)


def _append_payment(
    connection: Connection, head: Head, body: Body, owners: tuple[Owner, ...], debit: Account
) -> Receipt:
    after = rows.append_entry(connection, head, body)
    for owner in owners:
        rows.save_account(
            connection, after, owner.name, owner.position.part, owner.position.debited_account.plus(debit)
        )
    return Receipt(after.seq, None, chain.parse_spend(body), charged=True)
