"""Which answers already exist: under a retry's key, bought by the same analyst, or bought by another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from sqlalchemy import Connection, Select, bindparam, select

from discreet.errors import InvalidInput
from discreet.ledger import chain
from discreet.ledger.amounts import format_stored_amount, round_up_to_units
from discreet.ledger.chain import Body
from discreet.ledger.charge import Charge, Receipt
from discreet.ledger.rows import find_body, find_last_restore, find_last_void, read_answer_text
from discreet.ledger.tables import entries
from discreet.spend import PrivacyCost

SELECT_BY_KEY = select(entries.c.body).where(
    *(entries.c[name] == bindparam(name) for name in ("dataset", "analyst", "key")),
)
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
    """The receipt that the analyst's key already has, if it has one."""
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


def find_own_receipt(connection: Connection, charge: Charge) -> Receipt | None:
    """The most accurate stored answer that this analyst has paid for."""
    body = _find_own_entry(connection, charge)
    return None if body is None else build_receipt(connection, body)


def _find_own_entry(connection: Connection, charge: Charge) -> Body | None:
    """The entry by which this analyst paid for it."""
    parameters = {"analyst": charge.analyst, "degraded": chain.build_degraded_key(chain.build_lookup_key(charge))}
    row = connection.execute(SELECT_SAME_ANALYST, _build_parameters(charge) | parameters).one_or_none()
    if row is None:
        return None
    body = find_body(connection, charge.dataset, row.seq)
    return find_body(connection, charge.dataset, row.source) if body and body["kind"] == "answer" else body


def find_shared_entry(connection: Connection, charge: Charge) -> Body | None:
    """The charge whose stored answer serves this one as it is: the cheapest one, at a price that was agreed to."""
    body = _find_source(connection, SELECT_ANY_ANALYST, charge)
    is_agreed = body is not None and (charge.any_price or chain.costs_at_most(body, charge.spend))
    return body if is_agreed else None


def find_degradable_entry(connection: Connection, charge: Charge) -> Body | None:
    """The charge whose stored answer serves this one once noise is added to it."""
    if not charge.degradable or _find_source(connection, SELECT_ANY_ANALYST, charge) is None:
        return None
    restored = find_last_restore(connection, charge.dataset)
    return _find_source(connection, SELECT_UNUSED, charge, {"analyst": charge.analyst, "restored": restored})


def _find_source(
    connection: Connection, statement: Select[Any], charge: Charge, parameters: Mapping[str, object] | None = None
) -> Body | None:
    row = connection.execute(statement, _build_parameters(charge) | dict(parameters or {})).one_or_none()
    return None if row is None else find_body(connection, charge.dataset, row.source)


@dataclass(frozen=True, slots=True)
class Offer:
    """A stored answer: the epsilon that the analyst would be told it with, and what it would cost the analyst now.

    `kind`: one's own, another analyst's as it is, or another's with noise added.
    """

    epsilon: Fraction
    price: PrivacyCost
    kind: Literal["own", "shared", "degraded"] = "own"


def find_stored_offer(connection: Connection, charge: Charge) -> Offer | None:
    """The stored answer that a charge would get, nothing being charged."""
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
    """The receipt of an entry that someone paid for before."""
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
