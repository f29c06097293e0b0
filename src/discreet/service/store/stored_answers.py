"""Stored answers by id, saved priors, and counting sessions.

They end when the service is stopped, because an older copy of the store may have taken this one's place by then, and
does not know all that was answered. So a session's id begins with the life of the service that opened it, and the
ledger has the life of the one that answers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, func, insert, select, update

from discreet.custodian.session import AdmittedQuestion
from discreet.datasets.dataset_dir import generate_identifier
from discreet.errors import InvalidInput
from discreet.service.store.store import (
    Store,
    acquire_advisory_lock,
    answers,
    counted_questions,
    counting_sessions,
    insert_if_absent,
    priors,
    upsert_row,
)

MAX_PRIORS = 200
MAX_STORED, MAX_REHEARSED = 1000, 100
"""Answers, and questions that were jobs, that are kept of an analyst on a data set."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer as it left. `asked` is the request in canonical form, `key` its idempotency key."""

    id: str
    dataset: str
    rehearsal: bool
    analyst: str
    key: str
    asked: str
    entry: int | None
    at: float
    document: str
    picture: str | None


@dataclass(frozen=True, slots=True)
class SavedPrior:
    """A prior under a name of its analyst's."""

    name: str
    text: str
    note: str


def keep_answer(store: Store, answer: StoredAnswer) -> StoredAnswer:
    """Keep an answer; the first one under a key wins, and is returned to all who come later."""
    with store.non_durable.begin_write() as connection:
        insert_if_absent(connection, answers, _build_answer_columns(answer))
        first = _answer_from_row(connection.execute(select(answers).where(*_match_key(answer))).one())
        if is_cleanup_turn(answer.id):
            delete_oldest(connection, answers, answer.dataset, answer.rehearsal, answer.analyst)
        return first


def is_cleanup_turn(name: str) -> bool:
    """Whether what is old goes as this comes: so it does at one of 32, by the chance in its hexadecimal name."""
    return name[:2] < "08"


def delete_oldest(
    connection: Connection, table: Table, dataset: str, rehearsal: bool, analyst: str, *conditions: ColumnElement[bool]
) -> None:
    """Keep the newest of an analyst on a data set; draws stay in the ledger, and to ask again is free."""
    own_rows = table.c.dataset == dataset, table.c.rehearsal.is_(rehearsal), table.c.analyst == analyst
    newest = select(table.c.id).where(*own_rows, *conditions).order_by(table.c.at.desc(), table.c.id)
    connection.execute(delete(table).where(table.c.id.in_(newest.offset(MAX_REHEARSED if rehearsal else MAX_STORED))))


def find_answer_by_key(store: Store, dataset: str, rehearsal: bool, analyst: str, key: str) -> StoredAnswer | None:
    """The answer that a key already has."""
    own_rows = answers.c.dataset == dataset, answers.c.rehearsal.is_(rehearsal), answers.c.analyst == analyst
    with store.database.begin_read() as connection:
        row = connection.execute(select(answers).where(*own_rows, answers.c.key == key)).one_or_none()
    return None if row is None else _answer_from_row(row)


def find_answer_by_id(store: Store, dataset: str, rehearsal: bool, answer_id: str) -> StoredAnswer | None:
    """The answer of an id, whosever it is."""
    in_dataset = answers.c.dataset == dataset, answers.c.rehearsal.is_(rehearsal)
    with store.database.begin_read() as connection:
        row = connection.execute(select(answers).where(*in_dataset, answers.c.id == answer_id)).one_or_none()
    return None if row is None else _answer_from_row(row)


def keep_picture(store: Store, answer_id: str, picture: str) -> None:
    """Keep the picture of an answer."""
    with store.non_durable.begin_write() as connection:
        connection.execute(update(answers).where(answers.c.id == answer_id).values(picture=picture))


def find_ids_by_entry(
    store: Store, dataset: str, rehearsal: bool, analyst: str | None, entries: Iterable[int]
) -> dict[int, list[str]]:
    """The ids of the answers to each of these entries, the first one first; of one analyst where one is named."""
    query = select(answers.c.entry, answers.c.id).where(
        answers.c.dataset == dataset, answers.c.rehearsal.is_(rehearsal), answers.c.entry.in_(list(entries))
    )
    if analyst is not None:
        query = query.where(answers.c.analyst == analyst)
    ids: dict[int, list[str]] = {}
    with store.database.begin_read() as connection:
        for entry, name in connection.execute(query.order_by(answers.c.at)):
            ids.setdefault(entry, []).append(name)
    return ids


def detach_lost_answers(store: Store, dataset: str, rehearsal: bool, read_last_entry: Callable[[], int]) -> None:
    """Part answers from entries that the ledger, put back from a copy, has no more: others get their numbers.

    An entry is written before its answer is kept, so that `last`, the ledger's last one, is read after ours.
    """
    in_dataset = answers.c.dataset == dataset, answers.c.rehearsal.is_(rehearsal)
    with store.database.begin_read() as connection:
        last_stored = connection.execute(select(func.max(answers.c.entry)).where(*in_dataset)).scalar_one()
    last_entry = read_last_entry()
    if last_stored is not None and last_stored > last_entry:
        with store.database.begin_write() as connection:
            connection.execute(update(answers).where(*in_dataset, answers.c.entry > last_entry).values(entry=None))


def canonicalize_request(body: object) -> str:
    """A request as text: two that ask the same are the same text."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def save_prior(store: Store, analyst: str, prior: SavedPrior) -> None:
    """Keep a prior under its name, in place of the one that had it."""
    others = select(func.count()).where(priors.c.analyst == analyst, priors.c.name != prior.name)
    with store.database.begin_write() as connection:
        if connection.execute(others).scalar_one() >= MAX_PRIORS:
            raise InvalidInput(f"an analyst keeps at most {MAX_PRIORS} priors; delete one first")
        upsert_row(connection, priors, {"analyst": analyst, "name": prior.name, "text": prior.text, "note": prior.note})


def list_saved_priors(store: Store, analyst: str) -> list[SavedPrior]:
    """All priors that an analyst keeps, by name."""
    with store.database.begin_read() as connection:
        rows = connection.execute(select(priors).where(priors.c.analyst == analyst).order_by(priors.c.name)).all()
    return [SavedPrior(row.name, row.text, row.note) for row in rows]


def delete_prior(store: Store, analyst: str, name: str) -> bool:
    """Forget a prior; False where there is none of the name."""
    with store.database.begin_write() as connection:
        result = connection.execute(delete(priors).where(priors.c.analyst == analyst, priors.c.name == name))
    return bool(result.rowcount)


def get_current_time() -> float:
    """The time that is written down."""
    return time.time()


def _match_key(answer: StoredAnswer) -> list[Any]:
    conditions = answers.c.dataset == answer.dataset, answers.c.analyst == answer.analyst, answers.c.key == answer.key
    return [*conditions, answers.c.rehearsal.is_(answer.rehearsal)]


def _answer_from_row(row: Row[Any]) -> StoredAnswer:
    return StoredAnswer(
        id=row.id,
        dataset=row.dataset,
        rehearsal=row.rehearsal,
        analyst=row.analyst,
        key=row.key,
        asked=row.asked,
        entry=row.entry,
        at=row.at,
        document=row.document,
        picture=row.picture,
    )


def _build_answer_columns(stored_answer: StoredAnswer) -> dict[str, Any]:
    return {
        "id": stored_answer.id,
        "dataset": stored_answer.dataset,
        "rehearsal": stored_answer.rehearsal,
        "analyst": stored_answer.analyst,
        "key": stored_answer.key,
        "asked": stored_answer.asked,
        "entry": stored_answer.entry,
        "at": stored_answer.at,
        "document": stored_answer.document,
        "picture": stored_answer.picture,
    }


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
