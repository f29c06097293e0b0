"""Answers by id: the document as it left, for whoever asked; and saved priors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, func, select, update

from discreet.errors import InvalidInput
from discreet.service.store.putting import put, put_new
from discreet.service.store.store import Store
from discreet.service.store.tables import answers, priors

MOST_PRIORS = 200
MOST_KEPT, MOST_REHEARSED = 1000, 100
"""Answers, and questions that were jobs, that are kept of an analyst on a data set."""


@dataclass(frozen=True, slots=True)
class Kept:
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


def keep_answer(store: Store, kept: Kept) -> Kept:
    """Keep an answer; the first one under a key wins, and is returned to all who come later."""
    with store.passing.writing() as connection:
        put_new(connection, answers, _columns(kept))
        first = _kept(connection.execute(select(answers).where(*_keyed(kept))).one())
        if is_turn(kept.id):
            forget_oldest(connection, answers, kept.dataset, kept.rehearsal, kept.analyst)
        return first


def is_turn(name: str) -> bool:
    """Whether what is old goes as this comes: so it does at one of 32, by the chance in its hexadecimal name."""
    return name[:2] < "08"


def forget_oldest(
    connection: Connection, table: Table, dataset: str, rehearsal: bool, analyst: str, *which: ColumnElement[bool]
) -> None:
    """Keep the newest of an analyst on a data set; draws stay in the ledger, and to ask again is free."""
    mine = table.c.dataset == dataset, table.c.rehearsal.is_(rehearsal), table.c.analyst == analyst
    newest = select(table.c.id).where(*mine, *which).order_by(table.c.at.desc(), table.c.id)
    connection.execute(delete(table).where(table.c.id.in_(newest.offset(MOST_REHEARSED if rehearsal else MOST_KEPT))))


def answer_by_key(store: Store, dataset: str, rehearsal: bool, analyst: str, key: str) -> Kept | None:
    """The answer that a key already has."""
    mine = answers.c.dataset == dataset, answers.c.rehearsal.is_(rehearsal), answers.c.analyst == analyst
    with store.database.reading() as connection:
        row = connection.execute(select(answers).where(*mine, answers.c.key == key)).one_or_none()
    return None if row is None else _kept(row)


def answer_by_id(store: Store, dataset: str, rehearsal: bool, wanted: str) -> Kept | None:
    """The answer of an id, whosever it is."""
    here = answers.c.dataset == dataset, answers.c.rehearsal.is_(rehearsal)
    with store.database.reading() as connection:
        row = connection.execute(select(answers).where(*here, answers.c.id == wanted)).one_or_none()
    return None if row is None else _kept(row)


def keep_picture(store: Store, wanted: str, picture: str) -> None:
    """Keep the picture of an answer."""
    with store.passing.writing() as connection:
        connection.execute(update(answers).where(answers.c.id == wanted).values(picture=picture))


def ids_by_entry(
    store: Store, dataset: str, rehearsal: bool, analyst: str | None, entries: Iterable[int]
) -> dict[int, list[str]]:
    """The ids of the answers to each of these entries, the first one first; of one analyst where one is named."""
    wanted = select(answers.c.entry, answers.c.id).where(
        answers.c.dataset == dataset, answers.c.rehearsal.is_(rehearsal), answers.c.entry.in_(list(entries))
    )
    if analyst is not None:
        wanted = wanted.where(answers.c.analyst == analyst)
    found: dict[int, list[str]] = {}
    with store.database.reading() as connection:
        for entry, name in connection.execute(wanted.order_by(answers.c.at)):
            found.setdefault(entry, []).append(name)
    return found


def part_from_lost(store: Store, dataset: str, rehearsal: bool, last: Callable[[], int]) -> None:
    """Part answers from entries that the ledger, put back from a copy, has no more: others get their numbers.

    An entry is written before its answer is kept, so that `last`, the ledger's last one, is read after ours.
    """
    here = answers.c.dataset == dataset, answers.c.rehearsal.is_(rehearsal)
    with store.database.reading() as connection:
        ours = connection.execute(select(func.max(answers.c.entry)).where(*here)).scalar_one()
    known = last()
    if ours is not None and ours > known:
        with store.database.writing() as connection:
            connection.execute(update(answers).where(*here, answers.c.entry > known).values(entry=None))


def canonical(asked: object) -> str:
    """A request as text: two that ask the same are the same text."""
    return json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def save_prior(store: Store, analyst: str, prior: SavedPrior) -> None:
    """Keep a prior under its name, in place of the one that had it."""
    others = select(func.count()).where(priors.c.analyst == analyst, priors.c.name != prior.name)
    with store.database.writing() as connection:
        if connection.execute(others).scalar_one() >= MOST_PRIORS:
            raise InvalidInput(f"an analyst keeps at most {MOST_PRIORS} priors; delete one first")
        put(connection, priors, {"analyst": analyst, "name": prior.name, "text": prior.text, "note": prior.note})


def saved_priors(store: Store, analyst: str) -> list[SavedPrior]:
    """All priors that an analyst keeps, by name."""
    with store.database.reading() as connection:
        found = connection.execute(select(priors).where(priors.c.analyst == analyst).order_by(priors.c.name)).all()
    return [SavedPrior(row.name, row.text, row.note) for row in found]


def delete_prior(store: Store, analyst: str, name: str) -> bool:
    """Forget a prior; False where there is none of the name."""
    with store.database.writing() as connection:
        done = connection.execute(delete(priors).where(priors.c.analyst == analyst, priors.c.name == name))
    return bool(done.rowcount)


def now() -> float:
    """The time that is written down."""
    return time.time()


def _keyed(kept: Kept) -> list[Any]:
    mine = answers.c.dataset == kept.dataset, answers.c.analyst == kept.analyst, answers.c.key == kept.key
    return [*mine, answers.c.rehearsal.is_(kept.rehearsal)]


def _kept(row: Row[Any]) -> Kept:
    return Kept(
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


def _columns(kept: Kept) -> dict[str, Any]:
    return {
        "id": kept.id,
        "dataset": kept.dataset,
        "rehearsal": kept.rehearsal,
        "analyst": kept.analyst,
        "key": kept.key,
        "asked": kept.asked,
        "entry": kept.entry,
        "at": kept.at,
        "document": kept.document,
        "picture": kept.picture,
    }
