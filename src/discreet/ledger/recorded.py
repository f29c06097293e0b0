"""Heads of a ledger that are recorded outside it, so that an older copy put in its place is noticed.

A chain of hashes shows that an entry was changed; it does not show that the last entries are missing. So whoever uses a
ledger records the last head of its data set elsewhere: beside the data set, and in the store of a service. Before each
charge the ledger must have the entry of every recorded head, with its hash: one lookup by the primary key.

A head is recorded only after it is durable in the ledger, and it is read before the transaction that it is compared in.
A record may therefore be behind the ledger, as after a crash, and is never ahead of it: many processes that charge at
once, and one that is killed at any moment, raise no false alarm.

A back-up that was restored with what was spent since has entries that say so (`forgetting`). They are the way out: a
ledger that lacks a recorded head is accepted when its data set is next opened if it has such an entry that the record
has not seen before. An older copy of the same ledger has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection, select

from discreet.errors import Unavailable
from discreet.ledger import rows
from discreet.ledger.database import RESTORE_COMMAND
from discreet.ledger.tables import entries

SELECT_HASH = select(entries.c.hash, entries.c.kind).where(*rows._match_parameters(entries, "dataset", "seq"))


@dataclass(frozen=True, slots=True)
class RecordedHead:
    """The last head of a data set that a record knows of."""

    ledger: str | None
    """The id of the ledger; None where only the number of an entry is known."""
    entry: int
    hash: str | None
    restores: tuple[str, ...] = ()
    """The hashes of the entries about forgotten spend that were seen so far."""


class HeadRecord(Protocol):
    """Where the last head of a data set is recorded, outside the ledger."""

    def read(self, dataset: str) -> RecordedHead | None:
        """The last head that was recorded; None where there is none."""

    def advance(self, dataset: str, head: RecordedHead) -> None:
        """Record a later head of the same ledger, if that can be done now: a record may be behind."""

    def accept(self, dataset: str, head: RecordedHead, restored_at: int | None) -> None:
        """Record a head as it is, after a restore from that entry on where one is named."""


@dataclass(frozen=True, slots=True)
class HeadComparison:
    """A ledger that has all that a record knows of, or that was restored since."""

    head: RecordedHead | None
    """What the record should say now; None where the ledger does not know the data set yet."""
    restored_at: int | None
    """The first entry of a restore that the record has not seen and that it must accept; else None."""


def compare_heads(connection: Connection, ledger: str, dataset: str, known: RecordedHead | None) -> HeadComparison:
    """Compare a ledger with a record when a data set is opened; a ledger that is behind it is refused."""
    restores = rows.find_restores(connection, dataset)
    head = rows.find_head(connection, dataset)
    known_restores = () if known is None else known.restores
    restored_at = None
    if known is not None and not _has_head(connection, ledger, dataset, known):
        new_restores = [entry for entry, restore_hash in restores if restore_hash not in known_restores]
        if not new_restores or known.ledger not in (None, ledger):
            raise _build_refusal(ledger, dataset, known)
        restored_at = min(new_restores)
    all_restores = tuple(dict.fromkeys([*known_restores, *(restore_hash for _, restore_hash in restores)]))
    current_head = None if head is None else RecordedHead(ledger, head.seq, head.hash, all_restores)
    return HeadComparison(current_head, restored_at)


def require_recorded_head(connection: Connection, ledger: str, dataset: str, known: RecordedHead | None) -> None:
    """Refuse a ledger that lacks a recorded head, before anything is charged."""
    if known is not None and not _has_head(connection, ledger, dataset, known):
        raise _build_refusal(ledger, dataset, known)


def list_restore_hashes(connection: Connection, dataset: str) -> tuple[str, ...]:
    """The hashes of all entries about forgotten spend: a record that was lost begins anew with them."""
    return tuple(restore_hash for _, restore_hash in rows.find_restores(connection, dataset))


def _has_head(connection: Connection, ledger: str, dataset: str, known: RecordedHead) -> bool:
    """Whether the ledger is the recorded one and has the entry of the head, with its hash."""
    row = connection.execute(SELECT_HASH, {"by_dataset": dataset, "by_seq": known.entry}).one_or_none()
    if row is None or known.ledger not in (None, ledger):
        return False
    return bool(row.kind != "void" if known.hash is None else known.hash == row.hash)  # no answer is of a void


def _build_refusal(ledger: str, dataset: str, known: RecordedHead) -> Unavailable:
    if known.ledger not in (None, ledger):
        return Unavailable(
            f"the spend of {dataset[:40]!r} was kept in another ledger than this one; put that ledger back, or give "
            "the data set another name"
        )
    return Unavailable(
        f"the ledger lacks entry {known.entry} of {dataset[:40]!r}, which was recorded before: an older copy, or "
        f"another ledger, is in its place; put the newest one back, or restore a back-up with what was spent since, "
        f"more than 0: {RESTORE_COMMAND}"
    )
