"""From an address to an open database that holds a ledger of this format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select, text

from discreet.errors import InvalidInput, Unavailable
from discreet.kernel.entropy import SYSTEM
from discreet.ledger.database import DAMAGED, Database
from discreet.ledger.postgres import Postgres
from discreet.ledger.sqlite import SQLite, identity_of, inode_of
from discreet.ledger.tables import METADATA, VERSION, VERSION_TABLE, VERSIONS, about

POSTGRES = ("postgresql://", "postgres://", "postgresql+psycopg://")
CREATION_LOCK = 0x64697363  # any number that others of the same database do not use


@dataclass(frozen=True, slots=True)
class About:
    """What a ledger says of itself."""

    id: str
    format: int


def database_at(where: str | Path, timeout: float, lasting: bool = True, make: bool = True) -> Database:
    """The database that an address names: a file's path, sqlite:///path or postgresql://...

    Without `lasting` a commit may be lost with the power: for what can be asked for again. Without `make` no file is
    made where there is none.
    """
    path = path_of(where)
    if path is None:
        return Postgres("postgresql://" + str(where).partition("://")[2], timeout, lasting)
    return SQLite(path, timeout, lasting, make)


def ledger_at(where: str | Path, timeout: float, make: bool = True) -> Database:
    """The same for a ledger."""
    with naming(path_of(where)):
        return database_at(where, timeout, make=make)


def existing_database(where: str | Path, timeout: float) -> Database:
    """The same, where there is one: no file is made, nor is an empty one filled."""
    path = path_of(where)
    if path is not None and not (path.is_file() and path.stat().st_size):
        raise _no_ledger(f"{path.name[:40]!r} there")
    return ledger_at(where, timeout, make=False)


def file_identity(where: str | Path) -> str | None:
    """The identity of the file that an address names, without opening it; None of a database in PostgreSQL."""
    path = path_of(where)
    return None if path is None else identity_of(inode_of(path.resolve()))


@contextmanager
def naming(path: Path | None) -> Iterator[None]:
    """A file that is damaged, or that somebody took for a ledger, is called by its name."""
    try:
        yield
    except Unavailable as error:
        if path is None or str(error) != DAMAGED:
            raise
        raise Unavailable(
            f"{path.name[:40]!r} is damaged, or is not a ledger; name the file the spend is kept in, or restore a copy"
        ) from None


def path_of(where: str | Path) -> Path | None:
    """The file that an address names; None of a database in PostgreSQL."""
    address = str(where)
    if isinstance(where, str) and address.startswith(POSTGRES):
        return None
    path = address.removeprefix("sqlite:///")
    if isinstance(where, str) and ("://" in path or path in {"", ":memory:"} or "\0" in path):
        raise InvalidInput("a ledger is kept in a file, such as ledger.db, or at an address postgresql://...")
    return Path(path)


def ledger_in(database: Database) -> str:
    """The id of the ledger that a database holds; it is made where there is none."""
    with database.reading() as connection:
        found = find_about(connection)
    if found is None:
        with database.writing() as connection:
            alone(connection)
            found = find_about(connection) or _create(connection)
    return require_format(found).id


def existing_ledger_in(database: Database) -> str:
    """The id of the ledger that a database holds; none is made."""
    with database.reading() as connection:
        return require_format(about_in(connection)).id


def upgrade(database: Database) -> int:
    """Give a ledger the present format, or leave it as it is; the format it had. Entries and hashes stay."""
    from discreet.ledger import upgrading

    with database.writing() as connection:
        about_in(connection)
        connection.execute(select(about).with_for_update())  # no other upgrade now, and no registration
        found = about_in(connection)
        if found.format < VERSION:
            upgrading.stamp(connection, VERSIONS, VERSION_TABLE, str(found.format))
            upgrading.upgrade(connection, VERSIONS, VERSION_TABLE)
    return found.format


def alone(connection: Connection) -> None:
    """Wait until nobody else makes a ledger here; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": CREATION_LOCK})


def about_in(connection: Connection) -> About:
    """What the ledger that is there says of itself."""
    found = find_about(connection)
    if found is None:
        raise _no_ledger("in that database")
    return found


def find_about(connection: Connection) -> About | None:
    """The same; None where there is no ledger. One of a newer discreet is not touched."""
    if not inspect(connection).has_table(about.name):
        return None
    row = connection.execute(select(about)).one()
    if row.version > VERSION:
        raise InvalidInput(
            f"the ledger was made by a newer discreet (format {row.version}); update discreet to open it"
        )
    return About(str(row.id), row.version)


def require_format(found: About) -> About:
    """A ledger of the present format; to change an older one is the custodian's act."""
    if found.format < VERSION:
        raise InvalidInput(
            f"the ledger has format {found.format}, this discreet needs {VERSION}; copy it (discreet ledger backup) "
            "and run: discreet ledger upgrade"
        )
    return found


def _no_ledger(where: str) -> InvalidInput:
    return InvalidInput(f"there is no ledger {where}; name the one the spend is kept in")


def _create(connection: Connection) -> About:
    from discreet.ledger import upgrading

    METADATA.create_all(connection)
    upgrading.stamp(connection, VERSIONS, VERSION_TABLE)
    made = SYSTEM.take(16).hex()
    connection.execute(insert(about), {"one": 1, "id": made, "version": VERSION})
    return About(made, VERSION)
