"""Counting sessions: paid for once, then answered in by any worker, since what they admitted is kept here.

They end when the service is stopped, because an older copy of the store may have taken this one's place by then, and
does not know all that was answered. So a session's id begins with the life of the service that opened it, and the
ledger has the life of the one that answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from discreet.custodian.secrets import identifier
from discreet.custodian.session import Admitted
from discreet.errors import InvalidInput
from discreet.service.store.putting import put_new, take_turns
from discreet.service.store.store import Store
from discreet.service.store.tables import counted, counting

MOST_OPEN = 100
"""Sessions of one analyst."""
MOST_COUNTED = 100
"""Questions of one session, since whoever goes on with it plans them all again."""
LIFE = 16
"""Digits of an id that are those of a life."""


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

    def began_in(self, life: str) -> bool:
        """Whether it was opened in this life of the service."""
        return self.id.startswith(life[:LIFE])


def new_id(life: str) -> str:
    """A name for a session that is opened in a life of the service."""
    return life[:LIFE] + identifier()[LIFE:]


def keep_session(store: Store, made: Counting) -> Counting:
    """Keep a session before it is paid for; the first one under a key wins."""
    same = counting.c.dataset == made.dataset, counting.c.analyst == made.analyst, counting.c.key == made.key
    mine = select(counting).where(*same, counting.c.rehearsal.is_(made.rehearsal))
    with store.database.writing() as connection:
        take_turns(connection, f"sessions of {made.analyst}")
        found = connection.execute(mine).one_or_none()
        if found is None:
            _require_few(connection, made)
            put_new(connection, counting, _columns(made))
            found = connection.execute(mine).one()
        return _counting(found)


def _require_few(connection: Connection, made: Counting) -> None:
    open_now = (
        counting.c.analyst == made.analyst,
        counting.c.closed.is_(False),
        counting.c.id.startswith(made.id[:LIFE]),
    )
    if connection.execute(select(func.count()).select_from(counting).where(*open_now)).scalar_one() >= MOST_OPEN:
        raise InvalidInput(f"you have {MOST_OPEN} sessions open, the most there may be; close one, then open another")


def drop_session(store: Store, wanted: str) -> None:
    """Forget a session that was not paid for."""
    with store.database.writing() as connection:
        connection.execute(delete(counting).where(counting.c.id == wanted))


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

    def __init__(self, store: Store, session: str, life: str) -> None:
        self._store, self._session = store, session
        self.mark = f"session {session} {life}"

    def since(self, place: int) -> list[Admitted]:
        """What was admitted from a place on, in order."""
        wanted = select(counted).where(counted.c.session == self._session, counted.c.place >= place)
        with self._store.database.reading() as connection:
            found = connection.execute(wanted.order_by(counted.c.place)).all()
        return [Admitted(row.question, Fraction(row.scale), row.released) for row in found]

    def admit(self, place: int, one: Admitted) -> bool:
        """Admit a question at a place; False where another worker was first."""
        if place >= MOST_COUNTED:
            raise InvalidInput(f"a session answers at most {MOST_COUNTED} questions here; open another")
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
    return Counting(
        id=row.id,
        dataset=row.dataset,
        rehearsal=row.rehearsal,
        analyst=row.analyst,
        key=row.key,
        noise_scale=row.noise_scale,
        epsilon=row.epsilon,
        closed=row.closed,
    )


def _columns(made: Counting) -> dict[str, Any]:
    return {
        "id": made.id,
        "dataset": made.dataset,
        "rehearsal": made.rehearsal,
        "analyst": made.analyst,
        "key": made.key,
        "noise_scale": made.noise_scale,
        "epsilon": made.epsilon,
        "closed": made.closed,
    }
