"""Counts that outlive a worker: added to now and then, read by the custodian. No data in them, and no true time."""

from __future__ import annotations

import time
from collections import Counter
from threading import Lock

from sqlalchemy import select

from discreet.service.store.putting import upsert_row
from discreet.service.store.store import Store
from discreet.service.store.tables import counters

CounterKey = tuple[str, str]


class CounterBuffer:
    """What one worker has counted and not written down yet; threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._pending: Counter[CounterKey] = Counter()

    def add(self, name: str, label: str, value: float = 1) -> None:
        """Count something, in memory."""
        with self._lock:
            self._pending[name, label] += value  # type: ignore[assignment]

    def write(self) -> None:
        """Add what is new to what the store has; what cannot be written stays for the next time."""
        with self._lock:
            pending, self._pending = self._pending, Counter()
        if not pending:
            return
        is_written = False
        try:
            _add_to_store(self._store, pending)
            is_written = True
        finally:
            if not is_written:
                with self._lock:
                    self._pending += pending


def _add_to_store(store: Store, pending: Counter[CounterKey]) -> None:
    now = time.time()
    with store.non_durable.begin_write() as connection:
        for (name, label), value in sorted(pending.items()):
            values = {"name": name, "label": label, "value": value, "last": now}
            upsert_row(connection, counters, values, adding=("value",))


def read_counters(store: Store) -> dict[CounterKey, tuple[float, float]]:
    """Every count, and when it last grew."""
    with store.database.begin_read() as connection:
        rows = connection.execute(select(counters)).all()
    return {(row.name, row.label): (row.value, row.last) for row in rows}
