"""The service's store: tables, connections, counters, ledger heads."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import SchemaItem

from discreet.errors import DiscreetError, Unavailable
from discreet.ledger import connect
from discreet.ledger.connect import RecordedHead, open_database
from discreet.ledger.storage import (
    DATABASE_REPLACED,
    FILE_MISSING,
    FILE_REPLACED,
    LEDGER_DAMAGED,
    LEDGER_LOCKED,
    LEDGER_UNREACHABLE,
    WAL_REPLACED,
    Database,
)

Record = TypeVar("Record")
SqlType = type[Text | Boolean | Integer | Double[float]]
CounterKey = tuple[str, str]
METADATA = MetaData()


def _key(*names: str) -> list[SchemaItem]:
    return [Column(name, Text, primary_key=True) for name in names]


def _required(kind: SqlType, *names: str) -> list[SchemaItem]:
    return [Column(name, kind, nullable=False) for name in names]


def _optional(kind: SqlType, *names: str) -> list[SchemaItem]:
    return [Column(name, kind) for name in names]


# `hash` is the SHA-256 of a secret of 256 bits, which is nowhere kept. Times are seconds since 1970.
tokens = Table(
    "service_tokens",
    METADATA,
    *_key("id"),
    Column("hash", Text, nullable=False, unique=True),
    *_required(Text, "analyst", "role"),
    *_required(Double, "created", "expires"),
    *_optional(Double, "revoked"),
)

grants = Table("service_grants", METADATA, *_key("dataset", "analyst"))

# Who is signed in to the console: the hash of a secret that only the browser has.
console_sessions = Table(
    "service_sessions", METADATA, *_key("hash"), *_required(Text, "token"), *_required(Double, "expires")
)

priors = Table("service_priors", METADATA, *_key("analyst", "name"), *_required(Text, "text", "note"))

# The columns of answers, jobs and counting sessions are the fields of `StoredAnswer`, `Job` and `StoredSession`.
answers = Table(
    "service_answers",
    METADATA,
    *(
        *_key("id"),
        *_required(Text, "dataset"),
        *_required(Boolean, "rehearsal"),
        *_required(Text, "analyst", "key", "asked"),
        *_optional(BigInteger, "entry"),
        *_required(Double, "at"),
        *_required(Text, "document"),
        *_optional(Text, "picture"),
    ),
)

jobs = Table(
    "service_jobs",
    METADATA,
    *(
        *_key("id"),
        *_required(Text, "kind", "dataset"),
        *_required(Boolean, "rehearsal"),
        *_required(Text, "analyst", "key", "asked"),
        *_required(Double, "deadline", "at"),
        *_required(Text, "state"),
        *_optional(Text, "runner"),
        *_optional(Double, "beat", "finished"),
        *_optional(Text, "stage", "result"),
        *_required(Integer, "attempts"),
    ),
)

# Sessions of protocol 1: paid for on opening, and what was admitted in each, by place.
counting_sessions = Table(
    "service_counting",
    METADATA,
    *_key("id"),
    *_required(Text, "dataset"),
    *_required(Boolean, "rehearsal"),
    *_required(Text, "analyst", "key", "noise_scale", "epsilon"),
    *_required(Boolean, "closed"),
)

counted_questions = Table(
    "service_counted",
    METADATA,
    *_key("session"),
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    *_required(Text, "question", "scale"),
    *_optional(Text, "released"),
)

# The last head of each data set's ledger that was seen; `restores` is a JSON list of hashes.
heads = Table(
    "service_heads",
    METADATA,
    *_key("dataset"),
    *_required(Text, "ledger"),
    *_required(BigInteger, "entry"),
    *_required(Text, "hash", "restores"),
    *_required(Double, "at"),
)

counters = Table(
    "service_counters", METADATA, *_key("name", "label"), *_required(Double, "value"), *_optional(Double, "last")
)

REQUEST_KEY = ("dataset", "rehearsal", "analyst", "key")
INDICES = (
    Index("service_answer_key", *(answers.c[name] for name in REQUEST_KEY), unique=True),
    Index("service_answer_entry", answers.c.dataset, answers.c.rehearsal, answers.c.entry),
    Index("service_job_key", *(jobs.c[name] for name in (*REQUEST_KEY, "kind")), unique=True),
    Index("service_counting_key", *(counting_sessions.c[name] for name in REQUEST_KEY), unique=True),
    Index("service_job_state", jobs.c.state, jobs.c.at),
)

NEWEST_REVISION = "2"
MIGRATIONS_DIR = Path(__file__).parent / "migrations"
VERSION_TABLE = "service_version"
CREATION_LOCK = 0x64697364  # any number that others of the same database do not use
RECORD_TIMEOUT = 0.5
"""Seconds that a charge waits at most for its record; the next charge records a later head."""
STORE_MESSAGES = {
    LEDGER_LOCKED: "the service's store stays locked: someone is holding it; try again later",
    LEDGER_DAMAGED: (
        "the service's store is damaged, or is not one; restore a copy, or start without it and make new tokens"
    ),
    LEDGER_UNREACHABLE: (
        "the service's store cannot be opened or written: look at its address, its rights and the room on its disk"
    ),
    FILE_MISSING: "the file of the service's store is gone from its path; put it back, or restart the service",
    FILE_REPLACED: "the service's store was moved or replaced while it was open; put it back, or restart the service",
    WAL_REPLACED: "the -wal or -shm file of the service's store was removed while it was open; restart the service",
    DATABASE_REPLACED: (
        "the database of the service's store was replaced while it was open; put it back, or restart the service"
    ),
}
"""The messages about a ledger's database, reworded for the store's."""


@dataclass(frozen=True, slots=True)
class StoreDatabase:
    """The database of a store, whose errors are reworded."""

    database: Database

    @contextmanager
    def begin_write(self, wait: float | None = None) -> Iterator[Connection]:
        """Begin a transaction that sees and does all or nothing."""
        with _reword_errors(), self.database.begin_write(wait) as connection:
            yield connection

    @contextmanager
    def begin_read(self) -> Iterator[Connection]:
        """Begin a transaction that sees the database at one moment."""
        with _reword_errors(), self.database.begin_read() as connection:
            yield connection

    def close(self) -> None:
        """Close the connections."""
        self.database.close()


@dataclass(eq=False)
class Store(AbstractContextManager["Store"]):
    """What a service remembers; opened by `Store.open`, shared by threads and processes."""

    database: StoreDatabase
    non_durable: StoreDatabase
    """The same database, where a commit may be lost with the power: for what can be asked for again."""

    @staticmethod
    def open(address: str | Path, timeout: float = 10) -> Store:
        """Open a store, or create it."""
        with _reword_errors():
            databases = [StoreDatabase(open_database(address, timeout, durable)) for durable in (True, False)]
        store = Store(*databases)
        try:
            _prepare_tables(store.database)
            return store
        except DiscreetError:
            store.close()
            raise

    def close(self) -> None:
        """Close the connections."""
        self.non_durable.close()
        self.database.close()

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _reword_errors() -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        raise Unavailable(STORE_MESSAGES.get(str(error), str(error))) from None


def _prepare_tables(database: StoreDatabase) -> None:
    with database.begin_read() as connection:
        revision = connect.find_revision(connection, VERSION_TABLE)
    if revision != NEWEST_REVISION:
        with database.begin_write() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": CREATION_LOCK})
            connect.run_migrations(connection, MIGRATIONS_DIR, VERSION_TABLE)


def find_record(
    store: Store, table: Table, kind: Callable[..., Record], *conditions: ColumnElement[bool]
) -> Record | None:
    """Find the one row of a table that meets conditions, as a value whose fields are the table's columns in order."""
    with store.database.begin_read() as connection:
        row = connection.execute(select(table).where(*conditions)).one_or_none()
    return None if row is None else kind(*row)


def build_row(table: Table, record: object) -> dict[str, object]:
    """Build a row from the attributes that have the names of the table's columns."""
    return {column.name: getattr(record, column.name) for column in table.columns}


def match_request_key(table: Table, record: object) -> list[ColumnElement[bool]]:
    """Build the conditions for the row with the same data set, analyst and idempotency key as a record."""
    values = build_row(table, record)
    rehearsal = table.c.rehearsal.is_(values["rehearsal"])
    return [*(table.c[name] == values[name] for name in REQUEST_KEY if name != "rehearsal"), rehearsal]


def insert_if_absent(connection: Connection, table: Table, values: Mapping[str, object]) -> None:
    """Insert a row, unless one with a key of it is there."""
    connection.execute(_build_insert(connection, table).values(values).on_conflict_do_nothing())


def upsert_row(
    connection: Connection, table: Table, values: Mapping[str, object], adding: Collection[str] = ()
) -> None:
    """Insert a row, or update the one with its primary key; values in `adding` are added to those that it has."""
    statement = _build_insert(connection, table).values(values)
    key_columns = [column.name for column in table.primary_key]
    new_values = {name: statement.excluded[name] for name in values if name not in key_columns}
    updates = {name: table.c[name] + value if name in adding else value for name, value in new_values.items()}
    connection.execute(statement.on_conflict_do_update(index_elements=key_columns, set_=updates))


def acquire_advisory_lock(connection: Connection, name: str) -> None:
    """Wait until no other transaction has the lock of this name; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        number = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8], "big", signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def _build_insert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


class CounterBuffer:
    """Counts of one worker that are not in the store yet; threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._pending: Counter[CounterKey] = Counter()

    def add(self, name: str, label: str, value: float = 1) -> None:
        """Add to a count, in memory."""
        with self._lock:
            self._pending[name, label] += value  # type: ignore[assignment]

    def write(self) -> None:
        """Add the new counts to those of the store; what cannot be written stays for the next time."""
        with self._lock:
            pending, self._pending = self._pending, Counter()
        if not pending:
            return
        now = time.time()
        try:
            with self._store.non_durable.begin_write() as connection:
                for (name, label), value in sorted(pending.items()):
                    values = {"name": name, "label": label, "value": value, "last": now}
                    upsert_row(connection, counters, values, adding=("value",))
        except BaseException:
            with self._lock:
                self._pending += pending
            raise


def read_counters(store: Store) -> dict[CounterKey, tuple[float, float]]:
    """Read every count, and when it last grew."""
    with store.database.begin_read() as connection:
        rows = connection.execute(select(counters)).all()
    return {(row.name, row.label): (row.value, row.last) for row in rows}


@dataclass(frozen=True, slots=True)
class StoreHeads:
    """Heads of ledgers in the store of a service.

    A head that is lost with the power, or that cannot be written while the store is locked or its disk is full, is only
    behind the ledger: the charge stands by then, and its answer is not lost for a record.
    """

    store: Store

    def read(self, dataset: str) -> RecordedHead | None:
        """Read the last head that was recorded; without one, the last entry that a stored answer names."""
        with self.store.database.begin_read() as connection:
            row = connection.execute(select(heads).where(heads.c.dataset == dataset)).one_or_none()
            if row is not None:
                return RecordedHead(row.ledger, row.entry, row.hash, tuple(json.loads(row.restores)))
            last = connection.execute(
                select(func.max(answers.c.entry)).where(*_match_real_answers(dataset))
            ).scalar_one()
        return None if last is None else RecordedHead(None, last, None)

    def advance(self, dataset: str, head: RecordedHead) -> None:
        """Record a head, unless a later one is recorded."""
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
        """Record a head as it is; after a restore, detach stored answers from entries that are others' by now."""
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
