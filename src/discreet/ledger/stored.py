"""Which answers already exist: under a retry's key, bought by the same analyst, or bought by another."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sqlalchemy import Connection, bindparam, select

from discreet.errors import InvalidInput
from discreet.ledger import chain
from discreet.ledger.amounts import stored, units
from discreet.ledger.chain import Body
from discreet.ledger.charge import Charge, Receipt
from discreet.ledger.rows import answer_of, body_of
from discreet.ledger.tables import entries
from discreet.spend import Spend

KEYED = select(entries.c.body).where(
    *(entries.c[name] == bindparam(name) for name in ("dataset", "analyst", "key")),
)
ENOUGH = select(entries.c.seq, entries.c.source).where(
    entries.c.dataset == bindparam("dataset"),
    entries.c.finds == bindparam("finds"),
    entries.c.epsilon >= bindparam("epsilon"),
)
OWN = ENOUGH.where(entries.c.analyst == bindparam("analyst")).order_by(entries.c.epsilon.desc()).limit(1)
ANY = ENOUGH.order_by(entries.c.epsilon).limit(1)


def replayed(connection: Connection, charge: Charge) -> Receipt | None:
    """The receipt that the analyst's key already has, if it has one."""
    if charge.key is None:
        return None
    by = {"dataset": charge.dataset, "analyst": charge.analyst, "key": charge.key}
    text = connection.execute(KEYED, by).scalar_one_or_none()
    if text is None:
        return None
    body = chain.read(text)
    if body["snapshot"] != charge.snapshot:
        raise InvalidInput(
            f"the key {charge.key[:40]!r} was used on an earlier snapshot of the data set; what was charged then stays "
            "charged, and a new key asks again"
        )
    if body["request"] != chain.request(charge):
        raise InvalidInput(f"the key {charge.key[:40]!r} was used for another request; use a new key for a new one")
    return receipt(connection, body)


def owned(connection: Connection, charge: Charge) -> Receipt | None:
    """The most accurate stored answer that this analyst has paid for."""
    by = _enough(charge) | {"analyst": charge.analyst}
    found = connection.execute(OWN, by).one_or_none()
    if found is None:
        return None
    body = body_of(connection, charge.dataset, found.seq)
    if body is not None and body["kind"] == "answer":
        body = body_of(connection, charge.dataset, found.source)
    return None if body is None else receipt(connection, body)


def bought(connection: Connection, charge: Charge) -> Body | None:
    """The charge whose stored answer suffices at the least epsilon, whoever paid it."""
    found = connection.execute(ANY, _enough(charge)).one_or_none()
    return None if found is None else body_of(connection, charge.dataset, found.source)


@dataclass(frozen=True, slots=True)
class Offer:
    """A stored answer: the epsilon it was drawn with, and what this analyst would pay for it now."""

    epsilon: Fraction
    price: Spend


def offered(connection: Connection, charge: Charge) -> Offer | None:
    """The stored answer that a charge would get, nothing being charged."""
    own = connection.execute(OWN, _enough(charge) | {"analyst": charge.analyst}).one_or_none()
    found = own if own is not None else connection.execute(ANY, _enough(charge)).one_or_none()
    body = None if found is None else body_of(connection, charge.dataset, found.source or found.seq)
    if body is None:
        return None
    return Offer(chain.asked_epsilon(body), Spend() if own is not None else chain.spend_of(body))


def receipt(connection: Connection, body: Body) -> Receipt:
    """The receipt of an entry that someone paid for before."""
    answer = answer_of(connection, body["dataset"], body.get("source") or body["seq"])
    return Receipt(body["seq"], answer, chain.spend_of(body), charged=False)


def _enough(charge: Charge) -> dict[str, str]:
    return {"dataset": charge.dataset, "finds": chain.finds(charge), "epsilon": stored(units(charge.epsilon))}
