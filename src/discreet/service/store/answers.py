"""Answers by id: the document as it left, for whoever asked; and saved priors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, func, select, update

from discreet.errors import InvalidInput
from discreet.service.store.putting import insert_if_absent, upsert_row
from discreet.service.store.store import Store
from discreet.service.store.tables import answers, priors

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
