"""Counting sessions: paid for once, then answered in by any worker, since what they admitted is kept here."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlalchemy import Row, insert, select, update

from discreet.custodian.session import Admitted
from discreet.service.store.putting import put_new
from discreet.service.store.store import Store
from discreet.service.store.tables import counted, counting


@dataclass(frozen=True, slots=True)
class Counting:
    """One session; noise scale and epsilon as exact text."""

    id: str
    dataset: str
    rehearsal: bool
    analyst: str
    key: str
    noise_scale: str
    epsilon: str
    closed: bool = False


def keep_session(store: Store, made: Counting) -> Counting:
    """Keep a session before it is paid for; the first one under a key wins."""
    mine = [counting.c[name] == getattr(made, name) for name in ("dataset", "analyst", "key")]
    with store.database.writing() as connection:
        put_new(connection, counting, {name: getattr(made, name) for name in Counting.__slots__})
        found = connection.execute(select(counting).where(*mine, counting.c.rehearsal.is_(made.rehearsal)))
        return _counting(found.one())


def session_by_id(store: Store, wanted: str) -> Counting | None:
    """One session."""
    with store.database.reading() as connection:
        row = connection.execute(select(counting).where(counting.c.id == wanted)).one_or_none()
    return None if row is None else _counting(row)


def close_session(store: Store, wanted: str) -> None:
    """No more answers in a session."""
    with store.database.writing() as connection:
        connection.execute(update(counting).where(counting.c.id == wanted).values(closed=True))


class StoredLog:
    """What a session has admitted, for all workers; durable before a row is read."""

    def __init__(self, store: Store, session: str) -> None:
        self._store, self._session = store, session
        self.mark = f"session {session}"

    def since(self, place: int) -> list[Admitted]:
        """What was admitted from a place on, in order."""
        wanted = select(counted).where(counted.c.session == self._session, counted.c.place >= place)
        with self._store.database.reading() as connection:
            found = connection.execute(wanted.order_by(counted.c.place)).all()
        return [Admitted(row.question, Fraction(row.scale), row.released) for row in found]

    def admit(self, place: int, one: Admitted) -> bool:
        """Admit a question at a place; False where another worker was first."""
        values = {"session": self._session, "place": place, "question": one.question, "scale": str(one.scale)}
        with self._store.database.writing() as connection:
            connection.execute(select(counting).where(counting.c.id == self._session).with_for_update())
            here = counted.c.session == self._session, counted.c.place == place
            free = connection.execute(select(counted.c.place).where(*here)).one_or_none() is None
            if free:
                connection.execute(insert(counted), values | {"released": None})
        return free

    def keep(self, place: int, released: str) -> str:
        """Keep the numbers of a place; the first ones win."""
        here = counted.c.session == self._session, counted.c.place == place
        with self._store.database.writing() as connection:
            first = connection.execute(select(counted.c.released).where(*here).with_for_update()).scalar_one()
            if first is None:
                connection.execute(update(counted).where(*here).values(released=released))
        return released if first is None else str(first)


def _counting(row: Row[Any]) -> Counting:
    return Counting(**row._mapping)
