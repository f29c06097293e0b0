"""Spend that a ledger has forgotten, entered again as far as anybody can tell: an upper bound, whatever is left.

Answers that were given after a back-up are with the analysts, and not in the ledger that is restored from it. The bound
is charged to the data set, and to every analyst who has an account, since nobody knows whose answers they were. Of an
account that is opened later nobody knows that either: its terms have the bound (accounts.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlalchemy import Connection, select

from discreet.errors import InvalidInput
from discreet.kernel.entropy import SYSTEM
from discreet.ledger import chain, rows
from discreet.ledger.accounts import compute_debit
from discreet.ledger.chain import FORGOTTEN_QUERY as WHAT
from discreet.ledger.chain import RESTORER as WHO
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import Charge
from discreet.ledger.paying import DATASET_OWNER
from discreet.ledger.tables import heads
from discreet.spend import PrivacyCost, require_amount


@dataclass(frozen=True, slots=True)
class ForgottenSpend:
    """The most that may have been spent on any one data set; all of it together was (epsilon, delta)-private."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Both are amounts; a delta has its epsilon."""
        PrivacyCost(require_amount(self.epsilon, "what was forgotten"), delta=self.delta)
        if self.delta and not self.epsilon:
            raise InvalidInput("a forgotten delta goes with a forgotten epsilon; say the most that was spent of both")


@dataclass(frozen=True, slots=True)
class NewDataSet:
    """A data set that was registered after the back-up: its identity, and its snapshots with whether each is disjoint.

    The back-up knows nothing of it, and it would begin with a whole budget.
    """

    name: str
    identity: str
    snapshots: tuple[tuple[str, bool], ...]


def charge_all_forgotten(connection: Connection, forgotten: ForgottenSpend) -> bool:
    """Charge what was forgotten to every data set, also beyond a cap; whether anything was entered.

    Where nothing was spent since, a charge without an answer may still have been answered since: it is void from now
    on, at no cost.
    """
    has_entries = False
    for dataset in sorted(connection.execute(select(heads.c.dataset)).scalars()):
        if forgotten.epsilon:
            charge_forgotten(connection, dataset, forgotten)
        elif rows.find_unanswered(connection, dataset):
            head = rows.require_head(rows.lock_head(connection, dataset), dataset)
            rows.append_entry(connection, head, chain.build_void(head))
        else:
            continue
        has_entries = True
    return has_entries


def charge_forgotten(connection: Connection, dataset: str, forgotten: ForgottenSpend) -> None:
    """Charge what was forgotten to one data set, as it is registered now."""
    head = rows.require_head(rows.lock_head(connection, dataset), dataset)
    for charge in _build_charges(head, forgotten):
        head = _append_charge(connection, head, charge)


def _build_charges(head: Head, forgotten: ForgottenSpend) -> Iterator[Charge]:
    """A pure loss of epsilon, which every model counts, and a chance of delta that it was none.

    Whatever is (epsilon, delta)-private can be drawn from those two (Kairouz, Oh and Viswanath 2015).
    """
    epsilon, request = forgotten.epsilon, (head.dataset, head.snapshot, WHO, WHAT, WHAT)
    yield Charge(*request, "dp", PrivacyCost(epsilon, epsilon**2 / 2), epsilon)
    if forgotten.delta:
        yield Charge(*request, "approx-dp", PrivacyCost(delta=forgotten.delta), epsilon)


def _append_charge(connection: Connection, head: Head, charge: Charge) -> Head:
    """One charge to the data set, with an answer, so that the analysts can be charged as for that answer again.

    The caps that it was admitted under are not known, and its entries say so. The charge names the restore, so that two
    restores of one back-up differ.
    """
    others = sorted(set(rows.list_owners(connection, head)) - {DATASET_OWNER, WHO})
    head = head.with_charge(charge.model, charge.part)
    body = chain.build_charge_entry(head, charge) | chain.UNRECORDED_MARK | {"restore": SYSTEM.take(16).hex()}
    head = _append_entry(connection, head, body, DATASET_OWNER, WHO)
    rows.add_answer(connection, head.dataset, head.seq, WHAT)
    head = _append_entry(connection, head, chain.build_answer_entry(head, body, WHAT))
    for analyst in others:
        reuse = chain.build_reuse(head, replace(charge, analyst=analyst), body) | chain.UNRECORDED_MARK
        head = _append_entry(connection, head, reuse, analyst)
    return head


def _append_entry(connection: Connection, head: Head, body: Body, *owners: str) -> Head:
    for owner in owners:
        before = rows.read_position(connection, head, owner, None, ()).root
        rows.save_account(
            connection, head, owner, None, before.plus(compute_debit(body["model"], chain.parse_spend(body)))
        )
        terms = rows.find_terms(connection, head.dataset, owner)
        if terms is not None:
            rows.save_terms(connection, head.dataset, owner, replace(terms, has_unrecorded_caps=True))
    return rows.append_entry(connection, head, body)
