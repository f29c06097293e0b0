"""Which answers already exist: under a retry's key, bought by the same analyst, or bought by another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from sqlalchemy import Connection, Select, bindparam, select

from discreet.errors import InvalidInput
from discreet.ledger import chain
from discreet.ledger.amounts import stored, units
from discreet.ledger.chain import Body
from discreet.ledger.charge import Charge, Receipt
from discreet.ledger.rows import answer_of, body_of, last_restore, last_void
from discreet.ledger.tables import entries
from discreet.spend import Spend

KEYED = select(entries.c.body).where(
    *(entries.c[name] == bindparam(name) for name in ("dataset", "analyst", "key")),
)
ENOUGH = select(entries.c.seq, entries.c.source).where(
    entries.c.dataset == bindparam("dataset"),
    entries.c.epsilon >= bindparam("epsilon"),
)
ANY = ENOUGH.where(entries.c.finds == bindparam("finds")).order_by(entries.c.epsilon).limit(1)
OWN = (
    ENOUGH.where(
        entries.c.finds.in_((bindparam("finds"), bindparam("degraded"))), entries.c.analyst == bindparam("analyst")
    )
    .order_by(entries.c.epsilon.desc())
    .limit(1)
)
_degraded = entries.alias("degraded")
UNUSED = ANY.where(
    entries.c.kind == "answer",
    entries.c.epsilon > bindparam("epsilon"),
    entries.c.source > bindparam("restored"),
    entries.c.source.not_in(
        select(_degraded.c.source).where(
            _degraded.c.dataset == bindparam("dataset"),
            _degraded.c.analyst == bindparam("analyst"),
            _degraded.c.kind == "degrade",
        )
    ),
)
"""Draws of which the analyst was told nothing yet: two degraded answers of one draw tell more than they cost.

Of a draw from before a restore nobody knows that: what the analyst was told of it may be forgotten.
"""


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
    body = _owned(connection, charge)
    return None if body is None else receipt(connection, body)


def _owned(connection: Connection, charge: Charge) -> Body | None:
    """The entry by which this analyst paid for it."""
    named = {"analyst": charge.analyst, "degraded": chain.degraded_name(chain.finds(charge))}
    found = connection.execute(OWN, _enough(charge) | named).one_or_none()
    if found is None:
        return None
    body = body_of(connection, charge.dataset, found.seq)
    return body_of(connection, charge.dataset, found.source) if body and body["kind"] == "answer" else body


def shared(connection: Connection, charge: Charge) -> Body | None:
    """The charge whose stored answer serves this one as it is: the cheapest one, at a price that was agreed to."""
    body = _source(connection, ANY, charge)
    agreed = body is not None and (charge.any_price or chain.costs_at_most(body, charge.spend))
    return body if agreed else None


def more_accurate(connection: Connection, charge: Charge) -> Body | None:
    """The charge whose stored answer serves this one once noise is added to it."""
    if not charge.degradable or _source(connection, ANY, charge) is None:
        return None
    restored = last_restore(connection, charge.dataset)
    return _source(connection, UNUSED, charge, {"analyst": charge.analyst, "restored": restored})


def _source(
    connection: Connection, statement: Select[Any], charge: Charge, more: Mapping[str, object] | None = None
) -> Body | None:
    found = connection.execute(statement, _enough(charge) | dict(more or {})).one_or_none()
    return None if found is None else body_of(connection, charge.dataset, found.source)


@dataclass(frozen=True, slots=True)
class Offer:
    """A stored answer: the epsilon that the analyst would be told it with, and what it would cost the analyst now.

    `kind`: one's own, another analyst's as it is, or another's with noise added.
    """

    epsilon: Fraction
    price: Spend
    kind: Literal["own", "shared", "degraded"] = "own"


def offered(connection: Connection, charge: Charge) -> Offer | None:
    """The stored answer that a charge would get, nothing being charged."""
    own = _owned(connection, charge)
    if own is not None:
        return Offer(chain.stored_epsilon(own), Spend())
    other = shared(connection, charge)
    if other is not None:
        return Offer(chain.asked_epsilon(other), chain.spend_of(other), "shared")
    if more_accurate(connection, charge) is not None:
        return Offer(charge.epsilon, charge.spend, "degraded")
    return None


def receipt(connection: Connection, body: Body) -> Receipt:
    """The receipt of an entry that someone paid for before."""
    place = body["source"] if body["kind"] == "reuse" else body["seq"]
    answer, degrades = answer_of(connection, body["dataset"], place), None
    if answer is None:
        require_not_void(connection, body)
    if answer is None and body["kind"] == "degrade":
        degrades = answer_of(connection, body["dataset"], body["source"])
    return Receipt(body["seq"], answer, chain.spend_of(body), charged=False, degrades=degrades)


def require_not_void(connection: Connection, body: Body) -> None:
    """Refuse to answer a charge from before a restore: it may have been answered, and the answer was forgotten."""
    if body["seq"] < last_void(connection, body["dataset"]):
        raise InvalidInput(
            f"entry {body['seq']} was charged before the ledger was restored from a back-up, and an answer that was "
            "given for it since may be lost, so it cannot be answered again; it stays charged, and a new key, or a new "
            "session, pays for a new answer"
        )


def _enough(charge: Charge) -> dict[str, str]:
    return {"dataset": charge.dataset, "finds": chain.finds(charge), "epsilon": stored(units(charge.epsilon))}
