"""How a charge is paid, inside the one transaction that holds its data set's head."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from discreet.errors import InvalidInput, Unavailable
from discreet.ledger import chain, rows, stored
from discreet.ledger.accounts import COMPONENTS, NOTHING, Account, cost, debited, exceeds, shown_held
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import MODELS, Caps, Charge, Receipt
from discreet.ledger.refusal import Owner, Refusal, room
from discreet.ledger.terms import Terms
from discreet.schema import Budget
from discreet.spend import Part, Spend

DATASET = ""
"""The owner of the data set's own accounts."""


def pay(connection: Connection, charge: Charge, caps: Caps) -> Receipt | Refusal:
    """A retry gets its receipt, a stored answer is shared, a new draw is paid; what does not fit changes nothing.

    Nobody pays more than was offered, unless by consent: a dearer stored answer is degraded to the offer, or left.
    """
    if chain.FORGOTTEN in {charge.question, charge.query}:
        raise InvalidInput(f"{chain.FORGOTTEN!r} is what a restored ledger was charged; name the question otherwise")
    head = rows.registered(rows.hold_head(connection, charge.dataset), charge.dataset)
    known = stored.replayed(connection, charge)
    if known is not None:
        return known
    if charge.snapshot != head.snapshot:
        raise Unavailable(f"{charge.dataset[:40]!r} has another snapshot by now; ask again")
    if charge.fresh:
        return _draw(connection, head, charge, caps)
    own = stored.owned(connection, charge)
    if own is not None:
        return own
    source = stored.shared(connection, charge)
    if source is not None:
        return _reuse(connection, head, charge, caps, source)
    source = stored.more_accurate(connection, charge)
    if source is not None:
        return _degrade(connection, head, charge, caps, source)
    return _draw(connection, head, charge, caps)


def _draw(connection: Connection, head: Head, charge: Charge, caps: Caps) -> Receipt | Refusal:
    """A new answer: the data set pays, and so does the analyst."""
    owners = payers(connection, head, charge, caps)
    more = cost(charge.model, charge.spend)
    if not all(owner.affords(more) for owner in owners):
        return Refusal(charge, owners)
    head = head.drawn(charge.model, charge.part)
    head, opens = _record_terms(connection, head, owners, more)
    return _paid(connection, head, chain.charged(head, charge) | opens, owners, more)


def payers(connection: Connection, head: Head, charge: Charge, caps: Caps) -> tuple[Owner, Owner]:
    """Who pays for a new answer: the data set and the analyst. Given the head as it is before."""
    drawn = head.drawn(charge.model, charge.part)
    whole = _owner(connection, drawn, charge, charge.part, DATASET, caps.dataset, caps)
    own = _owner(connection, drawn, charge, charge.part, charge.analyst, caps.analyst, caps)
    if head.raised(charge.part) and not _raise_fits(connection, drawn, (whole, own)):
        return replace(whole, closed=True), replace(own, closed=True)
    return whole, own


def _raise_fits(connection: Connection, head: Head, paying: tuple[Owner, ...]) -> bool:
    """Whether all accounts keep their promises once parts charged before count as often as the head now says.

    That is a loss in every model and for every owner, whatever the charge itself costs, and whoever pays for it.
    """
    terms = {owner.name: owner.terms for owner in paying if owner.recorded is not None}
    for name in rows.owners(connection, head):
        recorded = rows.find_terms(connection, head.dataset, name)
        if recorded is None or recorded.late:
            continue
        promised = terms.get(name) or recall(connection, head, name, recorded)
        total = rows.position(connection, head, name, None, COMPONENTS).total(NOTHING)
        if any(model in promised.held and exceeds(total, model, promised) for model in MODELS):
            return False
    return True


def _reuse(connection: Connection, head: Head, charge: Charge, caps: Caps, source: Body) -> Receipt | Refusal:
    """Another analyst's answer: nothing new is disclosed of the data set, but the analyst pays what it cost."""
    part = chain.part_of(source)
    owner = _owner(connection, head, charge, part, charge.analyst, caps.analyst, caps)
    more = cost(charge.model, chain.spend_of(source))
    if not owner.affords(more):
        paying = _paying_less(connection, head, charge, caps, owner)
        return Refusal(charge, paying, chain.asked_epsilon(source) if charge.any_price else None)
    head, opens = _record_terms(connection, head, (owner,), more)
    receipt = _paid(connection, head, chain.reused(head, charge, source) | opens, (owner,), more)
    return replace(receipt, answer=rows.answer_of(connection, charge.dataset, source["seq"]))


def _paying_less(
    connection: Connection, head: Head, charge: Charge, caps: Caps, owner: Owner
) -> tuple[Owner] | tuple[Owner, Owner]:
    """Who pays for the largest epsilon that the analyst has left: for a new draw, the data set as well."""
    left = room(charge, owner)
    if left and stored.more_accurate(connection, replace(charge, epsilon=left)) is not None:
        return (owner,)
    return payers(connection, head, charge, caps)


def _degrade(connection: Connection, head: Head, charge: Charge, caps: Caps, source: Body) -> Receipt | Refusal:
    """Another analyst's answer with noise added: the data set pays nothing, the analyst what was offered."""
    owner = _owner(connection, head, charge, charge.part, charge.analyst, caps.analyst, caps)
    more = cost(charge.model, charge.spend)
    if not owner.affords(more):
        return Refusal(charge, (owner,))
    head, opens = _record_terms(connection, head, (owner,), more)
    receipt = _paid(connection, head, chain.degraded(head, charge, source) | opens, (owner,), more)
    return replace(receipt, degrades=rows.answer_of(connection, charge.dataset, source["seq"]))


def _owner(
    connection: Connection, head: Head, charge: Charge, part: Part | None, name: str, cap: Budget, caps: Caps
) -> Owner:
    models = tuple(model for model in debited(charge.model) if model in caps.models)
    recorded = rows.find_terms(connection, head.dataset, name)
    if recorded is None:
        terms = Terms.opened(cap, caps.models)
    else:
        terms = recall(connection, head, name, recorded).under(cap, name, caps.models)
    return Owner(name, rows.position(connection, head, name, part, models), terms, models, recorded)


def recall(connection: Connection, head: Head, owner: str, terms: Terms, opening: bool = False) -> Terms:
    """Terms with what the entries show of charges that were admitted before their models were recorded."""
    if terms.models is not None and not opening:
        return terms
    largest = rows.largest_totals(connection, head, owner)
    forgotten = rows.find_forgotten(connection, head.dataset, owner)
    return recalled(terms, largest, forgotten, opening)


def recalled(terms: Terms, largest: Account, forgotten: Spend, opening: bool) -> Terms:
    """The same, given what any unit lost before, and what was forgotten beside it."""
    after = terms.after(opening and largest != NOTHING, forgotten.epsilon, forgotten.delta)
    return after if opening else replace(after, held=shown_held(largest))


def _record_terms(connection: Connection, head: Head, owners: tuple[Owner, ...], more: Account) -> tuple[Head, Body]:
    """Chain every cap that is not the one recorded: a change as an entry, a first one as part of the charge's own.

    A charge of nothing is admitted under any cap, and records none.
    """
    opened: dict[str, Terms] = {}
    for owner in owners if more != NOTHING else ():
        if owner.recorded is None and owner.terms.orders:
            opened[owner.name] = recall(connection, head, owner.name, owner.terms, opening=True)
            rows.save_terms(connection, head.dataset, owner.name, opened[owner.name])
        elif owner.recorded is not None and owner.recorded != owner.terms:
            head = rows.append(connection, head, chain.capped(head, owner.name, owner.recorded, owner.terms))
            rows.save_terms(connection, head.dataset, owner.name, owner.terms)
    return head, chain.opening(opened)


def _paid(connection: Connection, head: Head, body: Body, owners: tuple[Owner, ...], more: Account) -> Receipt:
    after = rows.append(connection, head, body)
    for owner in owners:
        rows.save(connection, after, owner.name, owner.position.part, owner.position.touched.plus(more))
    return Receipt(after.seq, None, chain.spend_of(body), charged=True)
