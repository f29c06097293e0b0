"""Open a ledger from its address, upgrade its tables, and compare it with the heads recorded outside it.

A set of tables has a folder of versions, and a table that says which of them it has. SQLite and PostgreSQL undo changes
of tables with the rest of a transaction, so that a set has its old form or its new one, whatever happens.

A chain of hashes shows that an entry was changed; it does not show that the last entries are missing. So whoever uses a
ledger records the last head of its data set elsewhere: beside the data set, and in the store of a service. Before each
charge the ledger must have the entry of every recorded head, with its hash: one lookup by the primary key.

A head is recorded only after it is durable in the ledger, and it is read before the transaction that it is compared in.
A record may therefore be behind the ledger, as after a crash, and is never ahead of it: many processes that charge at
once, and one that is killed at any moment, raise no false alarm.

A back-up that was restored with what was spent since has entries that say so (`backup`). They are the way out: a
ledger that lacks a recorded head is accepted when its data set is next opened if it has such an entry that the record
has not seen before. An older copy of the same ledger has none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import Connection, column, insert, inspect, select, text
from sqlalchemy import table as named

from discreet.errors import InvalidInput, Unavailable
from discreet.ledger.postgres import Postgres
from discreet.ledger.sqlite import SQLite, find_inode, format_file_identity
from discreet.ledger.storage import (
    FORMAT_VERSION,
    LEDGER_DAMAGED,
    METADATA,
    MIGRATIONS_DIR,
    RESTORE_COMMAND,
    VERSION_TABLE,
    Database,
    about,
    entries,
    find_head,
    find_restores,
    match_parameters,
)
from discreet.mechanisms.entropy import SYSTEM

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

LATEST_REVISION = "head"
POSTGRES_PREFIXES = ("postgresql://", "postgres://", "postgresql+psycopg://")
CREATION_LOCK = 0x64697363  # any number that others of the same database do not use

_migration_lock = threading.Lock()  # a version finds its connection in a global of Alembic's


def find_revision(connection: Connection, table: str) -> str | None:
    """The version that a set of tables has; None where nobody has said. Alembic, which takes long to load, is not."""
    if not inspect(connection).has_table(table):
        return None
    return connection.scalar(select(named(table, column("version_num")).c.version_num))


def stamp_revision(connection: Connection, versions: Path, table: str, revision: str = LATEST_REVISION) -> None:
    """Say which version a set of tables has; nothing else changes."""
    from alembic.runtime.migration import MigrationContext

    with _refuse_unknown_revision(table):
        MigrationContext.configure(connection, opts={"version_table": table}).stamp(_open_scripts(versions), revision)


def run_migrations(connection: Connection, versions: Path, table: str, to: str = LATEST_REVISION) -> None:
    """Take every step from the version that the tables have, or from no tables, to a later one."""
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    scripts = _open_scripts(versions)
    steps = {"fn": lambda revision, _: scripts._upgrade_revs(to, revision)}
    context = MigrationContext.configure(connection, opts={"version_table": table, **steps})
    with _refuse_unknown_revision(table), _migration_lock, Operations.context(context):
        context.run_migrations()


def _open_scripts(versions: Path) -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory(versions, version_locations=[versions])


@contextmanager
def _refuse_unknown_revision(table: str) -> Iterator[None]:
    from alembic.util import CommandError

    try:
        yield
    except CommandError:
        raise InvalidInput(f"{table} names a version that this discreet does not know; update discreet") from None


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """The identity and the format that a ledger states."""

    id: str
    format: int


def open_database(where: str | Path, timeout: float, lasting: bool = True, make: bool = True) -> Database:
    """Open the database that an address names: a file's path, sqlite:///path or postgresql://...

    Without `lasting` a commit may be lost with the power: for what can be asked for again. Without `make` no file is
    made where there is none.
    """
    path = parse_ledger_path(where)
    if path is None:
        return Postgres("postgresql://" + str(where).partition("://")[2], timeout, lasting)
    return SQLite(path, timeout, lasting, make)


def open_ledger_database(where: str | Path, timeout: float, make: bool = True) -> Database:
    """Open the database of a ledger; errors name its file."""
    with name_damaged_file(parse_ledger_path(where)):
        return open_database(where, timeout, make=make)


def open_existing_database(where: str | Path, timeout: float) -> Database:
    """Open the database of a ledger that exists: no file is made, nor is an empty one filled."""
    path = parse_ledger_path(where)
    if path is not None and not (path.is_file() and path.stat().st_size):
        raise _build_no_ledger_error(f"{path.name[:40]!r} there")
    return open_ledger_database(where, timeout, make=False)


def find_file_identity(where: str | Path) -> str | None:
    """The identity of the file that an address names, without opening it; None of a database in PostgreSQL."""
    path = parse_ledger_path(where)
    return None if path is None else format_file_identity(find_inode(path.resolve()))


@contextmanager
def name_damaged_file(path: Path | None) -> Iterator[None]:
    """A file that is damaged, or that somebody took for a ledger, is called by its name."""
    try:
        yield
    except Unavailable as error:
        if path is None or str(error) != LEDGER_DAMAGED:
            raise
        raise Unavailable(
            f"{path.name[:40]!r} is damaged, or is not a ledger; name the file the spend is kept in, or restore a copy"
        ) from None


def parse_ledger_path(where: str | Path) -> Path | None:
    """Return the file that an address names; None of a database in PostgreSQL."""
    address = str(where)
    if isinstance(where, str) and address.startswith(POSTGRES_PREFIXES):
        return None
    path = address.removeprefix("sqlite:///")
    if isinstance(where, str) and ("://" in path or path in {"", ":memory:"} or "\0" in path):
        raise InvalidInput("a ledger is kept in a file, such as ledger.db, or at an address postgresql://...")
    return Path(path)


def find_or_create_ledger(database: Database) -> str:
    """Return the id of the ledger in a database; make one where there is none."""
    with database.begin_read() as connection:
        info = find_ledger_info(connection)
    if info is None:
        with database.begin_write() as connection:
            lock_ledger_creation(connection)
            info = find_ledger_info(connection)
            if info is None:
                METADATA.create_all(connection)
                stamp_revision(connection, MIGRATIONS_DIR, VERSION_TABLE)
                info = LedgerInfo(SYSTEM.take(16).hex(), FORMAT_VERSION)
                connection.execute(insert(about), {"one": 1, "id": info.id, "version": info.format})
    return require_format(info).id


def find_existing_ledger(database: Database) -> str:
    """Return the id of the ledger in a database; none is made."""
    with database.begin_read() as connection:
        return require_format(read_ledger_info(connection)).id


def upgrade_format(database: Database) -> int:
    """Give a ledger the present format, or leave it as it is; the format it had. Entries and hashes stay."""
    with database.begin_write() as connection:
        read_ledger_info(connection)
        connection.execute(select(about).with_for_update())  # no other upgrade now, and no registration
        info = read_ledger_info(connection)
        if info.format < FORMAT_VERSION:
            stamp_revision(connection, MIGRATIONS_DIR, VERSION_TABLE, str(info.format))
            run_migrations(connection, MIGRATIONS_DIR, VERSION_TABLE)
    return info.format


def lock_ledger_creation(connection: Connection) -> None:
    """Wait until nobody else makes a ledger here; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": CREATION_LOCK})


def read_ledger_info(connection: Connection) -> LedgerInfo:
    """Read the identity and the format of a ledger that exists."""
    info = find_ledger_info(connection)
    if info is None:
        raise _build_no_ledger_error("in that database")
    return info


def find_ledger_info(connection: Connection) -> LedgerInfo | None:
    """Find the identity and the format of a ledger, or None; refuse a ledger of a newer discreet."""
    if not inspect(connection).has_table(about.name):
        return None
    row = connection.execute(select(about)).one()
    if row.version > FORMAT_VERSION:
        raise InvalidInput(
            f"the ledger was made by a newer discreet (format {row.version}); update discreet to open it"
        )
    return LedgerInfo(str(row.id), row.version)


def require_format(info: LedgerInfo) -> LedgerInfo:
    """A ledger of the present format; to change an older one is the custodian's act."""
    if info.format < FORMAT_VERSION:
        raise InvalidInput(
            f"the ledger has format {info.format}, this discreet needs {FORMAT_VERSION}; copy it (discreet ledger "
            "backup) and run: discreet ledger upgrade"
        )
    return info


def _build_no_ledger_error(where: str) -> InvalidInput:
    return InvalidInput(f"there is no ledger {where}; name the one the spend is kept in")


SELECT_HASH = select(entries.c.hash, entries.c.kind).where(*match_parameters(entries, "dataset", "seq"))


@dataclass(frozen=True, slots=True)
class RecordedHead:
    """The last head of a data set that a record knows of."""

    ledger: str | None
    """The id of the ledger; None where only the number of an entry is known."""
    entry: int
    hash: str | None
    restores: tuple[str, ...] = ()
    """The hashes of the entries about forgotten spend that were seen so far."""


class HeadRecord(Protocol):
    """Where the last head of a data set is recorded, outside the ledger."""

    def read(self, dataset: str) -> RecordedHead | None:
        """The last head that was recorded; None where there is none."""

    def advance(self, dataset: str, head: RecordedHead) -> None:
        """Record a later head of the same ledger, if that can be done now: a record may be behind."""

    def accept(self, dataset: str, head: RecordedHead, restored_at: int | None) -> None:
        """Record a head as it is, after a restore from that entry on where one is named."""


@dataclass(frozen=True, slots=True)
class HeadComparison:
    """A ledger that has all that a record knows of, or that was restored since."""

    head: RecordedHead | None
    """The head to record now; None where the ledger does not know the data set yet."""
    restored_at: int | None
    """The first entry of a restore that the record has not seen and that it must accept; else None."""


def compare_heads(connection: Connection, ledger: str, dataset: str, known: RecordedHead | None) -> HeadComparison:
    """Compare a ledger with a record when a data set is opened; a ledger that is behind it is refused."""
    restores = find_restores(connection, dataset)
    head = find_head(connection, dataset)
    known_restores = () if known is None else known.restores
    restored_at = None
    if known is not None and not _has_head(connection, ledger, dataset, known):
        new_restores = [entry for entry, restore_hash in restores if restore_hash not in known_restores]
        if not new_restores or known.ledger not in (None, ledger):
            raise _build_refusal(ledger, dataset, known)
        restored_at = min(new_restores)
    all_restores = tuple(dict.fromkeys([*known_restores, *(restore_hash for _, restore_hash in restores)]))
    current_head = None if head is None else RecordedHead(ledger, head.seq, head.hash, all_restores)
    return HeadComparison(current_head, restored_at)


def require_recorded_head(connection: Connection, ledger: str, dataset: str, known: RecordedHead | None) -> None:
    """Refuse a ledger that lacks a recorded head, before anything is charged."""
    if known is not None and not _has_head(connection, ledger, dataset, known):
        raise _build_refusal(ledger, dataset, known)


def list_restore_hashes(connection: Connection, dataset: str) -> tuple[str, ...]:
    """The hashes of all entries about forgotten spend: a record that was lost begins anew with them."""
    return tuple(restore_hash for _, restore_hash in find_restores(connection, dataset))


def _has_head(connection: Connection, ledger: str, dataset: str, known: RecordedHead) -> bool:
    """Whether the ledger is the recorded one and has the entry of the head, with its hash."""
    row = connection.execute(SELECT_HASH, {"by_dataset": dataset, "by_seq": known.entry}).one_or_none()
    if row is None or known.ledger not in (None, ledger):
        return False
    return bool(row.kind != "void" if known.hash is None else known.hash == row.hash)  # no answer is of a void


def _build_refusal(ledger: str, dataset: str, known: RecordedHead) -> Unavailable:
    if known.ledger not in (None, ledger):
        return Unavailable(
            f"the spend of {dataset[:40]!r} was kept in another ledger than this one; put that ledger back, or give "
            "the data set another name"
        )
    return Unavailable(
        f"the ledger lacks entry {known.entry} of {dataset[:40]!r}, which was recorded before: an older copy, or "
        f"another ledger, is in its place; put the newest one back, or restore a back-up with what was spent since, "
        f"more than 0: {RESTORE_COMMAND}"
    )
