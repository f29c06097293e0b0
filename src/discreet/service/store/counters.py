"""Counts that outlive a worker: added to now and then, read by the custodian. No data in them, and no true time."""

from __future__ import annotations

import time
from collections import Counter
from threading import Lock

from sqlalchemy import select

from discreet.service.store.putting import put
from discreet.service.store.store import Store
from discreet.service.store.tables import counters

Name = tuple[str, str]


class Counts:
    """What one worker has counted and not written down yet; threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._new: Counter[Name] = Counter()

    def add(self, name: str, label: str, value: float = 1) -> None:
        """Count something, in memory."""
        with self._lock:
            self._new[name, label] += value  # type: ignore[assignment]

    def write(self) -> None:
        """Add what is new to what the store has; what cannot be written stays for the next time."""
        with self._lock:
            new, self._new = self._new, Counter()
        if not new:
            return
        written = False
        try:
            _add(self._store, new)
            written = True
        finally:
            if not written:
                with self._lock:
                    self._new += new


def _add(store: Store, new: Counter[Name]) -> None:
    at = time.time()
    with store.passing.writing() as connection:
        for (name, label), value in sorted(new.items()):
            values = {"name": name, "label": label, "value": value, "last": at}
            put(connection, counters, values, adding=("value",))


def all_counts(store: Store) -> dict[Name, tuple[float, float]]:
    """Every count, and when it last grew."""
    with store.database.reading() as connection:
        found = connection.execute(select(counters)).all()
    return {(row.name, row.label): (row.value, row.last) for row in found}
