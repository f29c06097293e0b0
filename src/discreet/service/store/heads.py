"""The last head of each data set's ledger that the service has seen, so that an older copy of the ledger is noticed."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, select, update

from discreet.errors import Unavailable
from discreet.ledger.recorded import RecordedHead
from discreet.service.store.putting import upsert_row
from discreet.service.store.store import Store
from discreet.service.store.tables import answers, heads

RECORD_TIMEOUT = 0.5
"""Seconds that a charge waits at most for its record; the next charge records a later head."""


@dataclass(frozen=True, slots=True)
class StoreHeads:
    """Heads in the store of a service.

    A head that is lost with the power, or that cannot be written while the store is locked or its disk is full, is only
    behind the ledger: the charge stands by then, and its answer is not lost for a record.
    """

    store: Store

    def read(self, dataset: str) -> RecordedHead | None:
        """The last head that was recorded; without one, the last entry that a kept answer names."""
        with self.store.database.begin_read() as connection:
            row = connection.execute(select(heads).where(heads.c.dataset == dataset)).one_or_none()
            if row is not None:
                return RecordedHead(row.ledger, row.entry, row.hash, tuple(json.loads(row.restores)))
            last = connection.execute(
                select(func.max(answers.c.entry)).where(*_match_real_answers(dataset))
            ).scalar_one()
        return None if last is None else RecordedHead(None, last, None)

    def advance(self, dataset: str, head: RecordedHead) -> None:
        """Record a later head; an earlier one than is there stays out."""
        advance_head = (
            update(heads)
            .where(heads.c.dataset == dataset, heads.c.ledger == head.ledger, heads.c.entry < head.entry)
            .values(entry=head.entry, hash=head.hash, at=time.time())
        )
        with suppress(Unavailable), self.store.non_durable.begin_write(RECORD_TIMEOUT) as connection:
            if not connection.execute(advance_head).rowcount:
                existing = connection.execute(select(heads.c.dataset).where(heads.c.dataset == dataset)).one_or_none()
                if existing is None:
                    _put_head(connection, dataset, head)

    def accept(self, dataset: str, head: RecordedHead, restored_at: int | None) -> None:
        """Record a head as it is; after a restore, part kept answers from entries that are others' by now."""
        with self.store.database.begin_write() as connection:
            _put_head(connection, dataset, head)
            if restored_at is not None:
                detach_answers = update(answers).where(*_match_real_answers(dataset), answers.c.entry >= restored_at)
                connection.execute(detach_answers.values(entry=None))


def _match_real_answers(dataset: str) -> tuple[ColumnElement[bool], ...]:
    return answers.c.dataset == dataset, answers.c.rehearsal.is_(False)


def _put_head(connection: Connection, dataset: str, head: RecordedHead) -> None:
    values = {"dataset": dataset, "ledger": head.ledger, "entry": head.entry, "hash": head.hash}
    upsert_row(connection, heads, values | {"restores": json.dumps(head.restores), "at": time.time()})
