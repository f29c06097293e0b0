"""Stored answers, saved priors, and counting sessions.

Sessions end when the service is stopped, because an older copy of the store may have taken this one's place by then,
and does not know all that was answered. So a session's id begins with the run of the service that opened it, and the
ledger has the run that answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from discreet.custodian.session import AdmittedQuestion
from discreet.datasets.dataset_dir import generate_identifier
from discreet.errors import InvalidInput
from discreet.json_fields import JsonWritable
from discreet.service.store.store import (
    Store,
    acquire_advisory_lock,
    answers,
    build_row,
    counted_questions,
    counting_sessions,
    find_record,
    insert_if_absent,
    match_request_key,
    priors,
    upsert_row,
)

MAX_PRIORS = 200
MAX_STORED, MAX_REHEARSED = 1000, 100
"""How many answers, and questions that were jobs, are stored of an analyst on a data set."""
MAX_OPEN_SESSIONS = 100
"""Open sessions of one analyst."""
MAX_SESSION_QUESTIONS = 100
"""Questions of one session, since every worker that resumes it plans them all again."""
RUN_ID_DIGITS = 16
"""Digits at the beginning of a session's id that are those of a run of the service."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer as it was sent; its fields are the columns of `answers`, in order.

    `asked` is the request in canonical form, `key` its idempotency key.
    """

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
class SavedPrior(JsonWritable):
    """A prior that an analyst saved under a name."""

    name: str
    text: str
    note: str

    _json_fields = "name text note"


def keep_answer(store: Store, answer: StoredAnswer) -> StoredAnswer:
    """Store an answer; the first one under a key wins, and is returned to all who come later."""
    with store.non_durable.begin_write() as connection:
        insert_if_absent(connection, answers, build_row(answers, answer))
        first = StoredAnswer(*connection.execute(select(answers).where(*match_request_key(answers, answer))).one())
        if is_cleanup_turn(answer.id):
            delete_oldest(connection, answers, answer.dataset, answer.rehearsal, answer.analyst)
        return first


def is_cleanup_turn(name: str) -> bool:
    """Whether old rows are deleted as this one is added: at one of 32, by the chance in its hexadecimal name."""
    return name[:2] < "08"


def delete_oldest(
    connection: Connection, table: Table, dataset: str, rehearsal: bool, analyst: str, *conditions: ColumnElement[bool]
) -> None:
    """Delete all but the newest rows of an analyst on a data set; draws stay in the ledger, so asking again is free."""
    own_rows = table.c.dataset == dataset, table.c.rehearsal.is_(rehearsal), table.c.analyst == analyst
    newest = select(table.c.id).where(*own_rows, *conditions).order_by(table.c.at.desc(), table.c.id)
    connection.execute(delete(table).where(table.c.id.in_(newest.offset(MAX_REHEARSED if rehearsal else MAX_STORED))))


def find_answer_by_key(store: Store, dataset: str, rehearsal: bool, analyst: str, key: str) -> StoredAnswer | None:
    """Find the answer that a key has already."""
    own_rows = *_match_dataset(dataset, rehearsal), answers.c.analyst == analyst
    return find_record(store, answers, StoredAnswer, *own_rows, answers.c.key == key)


def find_answer_by_id(store: Store, dataset: str, rehearsal: bool, answer_id: str) -> StoredAnswer | None:
    """Find an answer by its id, whosever it is."""
    return find_record(store, answers, StoredAnswer, *_match_dataset(dataset, rehearsal), answers.c.id == answer_id)


def _match_dataset(dataset: str, rehearsal: bool) -> tuple[ColumnElement[bool], ...]:
    return answers.c.dataset == dataset, answers.c.rehearsal.is_(rehearsal)


def keep_picture(store: Store, answer_id: str, picture: str) -> None:
    """Store the picture of an answer."""
    with store.non_durable.begin_write() as connection:
        connection.execute(update(answers).where(answers.c.id == answer_id).values(picture=picture))


def find_ids_by_entry(
    store: Store, dataset: str, rehearsal: bool, analyst: str | None, entries: Iterable[int]
) -> dict[int, list[str]]:
    """Find the ids of the answers to each of these entries, oldest first; of one analyst, or of all."""
    of_entries = *_match_dataset(dataset, rehearsal), answers.c.entry.in_(list(entries))
    query = select(answers.c.entry, answers.c.id).where(*of_entries)
    if analyst is not None:
        query = query.where(answers.c.analyst == analyst)
    ids: dict[int, list[str]] = {}
    with store.database.begin_read() as connection:
        for entry, answer_id in connection.execute(query.order_by(answers.c.at)):
            ids.setdefault(entry, []).append(answer_id)
    return ids


def detach_lost_answers(store: Store, dataset: str, rehearsal: bool, read_last_entry: Callable[[], int]) -> None:
    """Detach answers from entries that the ledger, put back from a copy, has no more: others get their numbers.

    An entry is written before its answer is stored, so that the ledger's last entry is read after ours.
    """
    in_dataset = _match_dataset(dataset, rehearsal)
    with store.database.begin_read() as connection:
        last_stored = connection.execute(select(func.max(answers.c.entry)).where(*in_dataset)).scalar_one()
    last_entry = read_last_entry()
    if last_stored is not None and last_stored > last_entry:
        with store.database.begin_write() as connection:
            connection.execute(update(answers).where(*in_dataset, answers.c.entry > last_entry).values(entry=None))


def canonicalize_request(body: object) -> str:
    """Write a request as text that is the same for all requests that ask the same."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def save_prior(store: Store, analyst: str, prior: SavedPrior) -> None:
    """Save a prior under its name, in place of the one that had it."""
    others = select(func.count()).where(priors.c.analyst == analyst, priors.c.name != prior.name)
    with store.database.begin_write() as connection:
        if connection.execute(others).scalar_one() >= MAX_PRIORS:
            raise InvalidInput(f"an analyst keeps at most {MAX_PRIORS} priors; delete one first")
        upsert_row(connection, priors, {"analyst": analyst} | prior.to_json())


def list_saved_priors(store: Store, analyst: str) -> list[SavedPrior]:
    """List the saved priors of an analyst, by name."""
    with store.database.begin_read() as connection:
        rows = connection.execute(select(priors).where(priors.c.analyst == analyst).order_by(priors.c.name)).all()
    return [SavedPrior(row.name, row.text, row.note) for row in rows]


def delete_prior(store: Store, analyst: str, name: str) -> bool:
    """Delete a saved prior; False where there is none of the name."""
    with store.database.begin_write() as connection:
        result = connection.execute(delete(priors).where(priors.c.analyst == analyst, priors.c.name == name))
    return bool(result.rowcount)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """One counting session, with exact numbers as text; its fields are the columns of `counting_sessions`, in order."""

    id: str
    dataset: str
    rehearsal: bool
    analyst: str
    key: str
    noise_scale: str
    epsilon: str
    closed: bool = False

    def is_of_run(self, run_id: str) -> bool:
        """Whether it was opened in this run of the service."""
        return self.id.startswith(run_id[:RUN_ID_DIGITS])


def create_session_id(run_id: str) -> str:
    """Make an id for a session that is opened in a run of the service."""
    return run_id[:RUN_ID_DIGITS] + generate_identifier()[RUN_ID_DIGITS:]


def keep_session(store: Store, session: StoredSession) -> StoredSession:
    """Store a session before it is paid for; the first one under a key wins."""
    query = select(counting_sessions).where(*match_request_key(counting_sessions, session))
    with store.database.begin_write() as connection:
        acquire_advisory_lock(connection, f"sessions of {session.analyst}")
        row = connection.execute(query).one_or_none()
        if row is None:
            _require_few_open(connection, session)
            insert_if_absent(connection, counting_sessions, build_row(counting_sessions, session))
            row = connection.execute(query).one()
        return StoredSession(*row)


def _require_few_open(connection: Connection, session: StoredSession) -> None:
    own_open = (
        counting_sessions.c.analyst == session.analyst,
        counting_sessions.c.closed.is_(False),
        counting_sessions.c.id.startswith(session.id[:RUN_ID_DIGITS]),
    )
    open_count = connection.execute(select(func.count()).select_from(counting_sessions).where(*own_open)).scalar_one()
    if open_count >= MAX_OPEN_SESSIONS:
        raise InvalidInput(
            f"you have {MAX_OPEN_SESSIONS} sessions open, the most there may be; close one, then open another"
        )


def drop_session(store: Store, session_id: str) -> None:
    """Delete a session that was not paid for."""
    with store.database.begin_write() as connection:
        connection.execute(delete(counting_sessions).where(counting_sessions.c.id == session_id))


def find_session_by_id(store: Store, session_id: str) -> StoredSession | None:
    """Find a session by its id."""
    return find_record(store, counting_sessions, StoredSession, counting_sessions.c.id == session_id)


def close_session(store: Store, session_id: str) -> None:
    """Close a session: it gets no more answers."""
    with store.database.begin_write() as connection:
        connection.execute(update(counting_sessions).where(counting_sessions.c.id == session_id).values(closed=True))


class StoredLog:
    """The questions that a session has admitted, for all workers; durable before a row is read."""

    def __init__(self, store: Store, session: str, run_id: str) -> None:
        self._store, self._session = store, session
        self.mark = f"session {session} {run_id}"

    def read_since(self, place: int) -> list[AdmittedQuestion]:
        """Read the questions that were admitted from a place on, in order."""
        from_place = counted_questions.c.session == self._session, counted_questions.c.place >= place
        query = select(counted_questions).where(*from_place)
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
        """Store the outputs of a place; the first ones win."""
        at_place = counted_questions.c.session == self._session, counted_questions.c.place == place
        with self._store.database.begin_write() as connection:
            first = connection.execute(
                select(counted_questions.c.released).where(*at_place).with_for_update()
            ).scalar_one()
            if first is None:
                connection.execute(update(counted_questions).where(*at_place).values(released=released))
        return released if first is None else str(first)
