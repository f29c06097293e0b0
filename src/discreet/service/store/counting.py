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

from discreet.custodian.secrets import generate_identifier
from discreet.custodian.session import AdmittedQuestion
from discreet.errors import InvalidInput
from discreet.service.store.putting import acquire_advisory_lock, insert_if_absent
from discreet.service.store.store import Store
from discreet.service.store.tables import counted_questions, counting_sessions

MAX_OPEN_SESSIONS = 100
"""Sessions of one analyst."""
MAX_SESSION_QUESTIONS = 100
"""Questions of one session, since whoever goes on with it plans them all again."""
RUN_ID_DIGITS = 16
"""Digits of an id that are those of a life."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """One session; noise scale and epsilon as exact text."""

    id: str
    dataset: str
    rehearsal: bool
    analyst: str
    key: str
    noise_scale: str
    epsilon: str
    closed: bool = False

    def is_of_run(self, run_id: str) -> bool:
        """Whether it was opened in this life of the service."""
        return self.id.startswith(run_id[:RUN_ID_DIGITS])


def create_session_id(run_id: str) -> str:
    """A name for a session that is opened in a life of the service."""
    return run_id[:RUN_ID_DIGITS] + generate_identifier()[RUN_ID_DIGITS:]


def keep_session(store: Store, session: StoredSession) -> StoredSession:
    """Keep a session before it is paid for; the first one under a key wins."""
    same_key = (
        counting_sessions.c.dataset == session.dataset,
        counting_sessions.c.analyst == session.analyst,
        counting_sessions.c.key == session.key,
    )
    query = select(counting_sessions).where(*same_key, counting_sessions.c.rehearsal.is_(session.rehearsal))
    with store.database.begin_write() as connection:
        acquire_advisory_lock(connection, f"sessions of {session.analyst}")
        row = connection.execute(query).one_or_none()
        if row is None:
            _require_few_open(connection, session)
            insert_if_absent(connection, counting_sessions, _build_session_columns(session))
            row = connection.execute(query).one()
        return _session_from_row(row)


def _require_few_open(connection: Connection, session: StoredSession) -> None:
    own_open = (
        counting_sessions.c.analyst == session.analyst,
        counting_sessions.c.closed.is_(False),
        counting_sessions.c.id.startswith(session.id[:RUN_ID_DIGITS]),
    )
    if (
        connection.execute(select(func.count()).select_from(counting_sessions).where(*own_open)).scalar_one()
        >= MAX_OPEN_SESSIONS
    ):
        raise InvalidInput(
            f"you have {MAX_OPEN_SESSIONS} sessions open, the most there may be; close one, then open another"
        )


def drop_session(store: Store, session_id: str) -> None:
    """Forget a session that was not paid for."""
    with store.database.begin_write() as connection:
        connection.execute(delete(counting_sessions).where(counting_sessions.c.id == session_id))


def find_session_by_id(store: Store, session_id: str) -> StoredSession | None:
    """One session."""
    with store.database.begin_read() as connection:
        row = connection.execute(select(counting_sessions).where(counting_sessions.c.id == session_id)).one_or_none()
    return None if row is None else _session_from_row(row)


def close_session(store: Store, session_id: str) -> None:
    """No more answers in a session."""
    with store.database.begin_write() as connection:
        connection.execute(update(counting_sessions).where(counting_sessions.c.id == session_id).values(closed=True))


class StoredLog:
    """What a session has admitted, for all workers; durable before a row is read."""

    def __init__(self, store: Store, session: str, run_id: str) -> None:
        self._store, self._session = store, session
        self.mark = f"session {session} {run_id}"

    def read_since(self, place: int) -> list[AdmittedQuestion]:
        """What was admitted from a place on, in order."""
        query = select(counted_questions).where(
            counted_questions.c.session == self._session, counted_questions.c.place >= place
        )
        with self._store.database.begin_read() as connection:
            rows = connection.execute(query.order_by(counted_questions.c.place)).all()
        return [AdmittedQuestion(row.question, Fraction(row.scale), row.released) for row in rows]

    def admit(self, place: int, question: AdmittedQuestion) -> bool:
        """Admit a question at a place; False where another worker was first."""
        if place >= MAX_SESSION_QUESTIONS:
            raise InvalidInput(f"a session answers at most {MAX_SESSION_QUESTIONS} questions here; open another")
        values = {"session": self._session, "place": place, "question": question.question, "scale": str(question.scale)}
        with self._store.database.begin_write() as connection:
            connection.execute(
                select(counting_sessions).where(counting_sessions.c.id == self._session).with_for_update()
            )
            at_place = counted_questions.c.session == self._session, counted_questions.c.place == place
            is_free = connection.execute(select(counted_questions.c.place).where(*at_place)).one_or_none() is None
            if is_free:
                connection.execute(insert(counted_questions), values | {"released": None})
        return is_free

    def store_outputs(self, place: int, released: str) -> str:
        """Keep the numbers of a place; the first ones win."""
        at_place = counted_questions.c.session == self._session, counted_questions.c.place == place
        with self._store.database.begin_write() as connection:
            first = connection.execute(
                select(counted_questions.c.released).where(*at_place).with_for_update()
            ).scalar_one()
            if first is None:
                connection.execute(update(counted_questions).where(*at_place).values(released=released))
        return released if first is None else str(first)


def _session_from_row(row: Row[Any]) -> StoredSession:
    return StoredSession(
        id=row.id,
        dataset=row.dataset,
        rehearsal=row.rehearsal,
        analyst=row.analyst,
        key=row.key,
        noise_scale=row.noise_scale,
        epsilon=row.epsilon,
        closed=row.closed,
    )


def _build_session_columns(session: StoredSession) -> dict[str, Any]:
    return {
        "id": session.id,
        "dataset": session.dataset,
        "rehearsal": session.rehearsal,
        "analyst": session.analyst,
        "key": session.key,
        "noise_scale": session.noise_scale,
        "epsilon": session.epsilon,
        "closed": session.closed,
    }
