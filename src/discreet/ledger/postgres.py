"""A ledger in PostgreSQL, in the schema that the address leads to.

Which database is open is told by the server's system identifier, the database's number and that of the ledger's first
table: a database that was dropped and restored under the same name has other numbers, and is refused as long as this
one is open. `VACUUM FULL`, `CLUSTER` and an upgrade of the ledger keep all three.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakSet

from sqlalchemy import Connection, create_engine, text

from discreet.errors import Unavailable, Unsupported
from discreet.ledger.storage import DATABASE_REPLACED, about, translate_database_errors

if TYPE_CHECKING:
    from psycopg import Connection as Session
    from psycopg.rows import TupleRow

# A server or a user may have traded durability away; here it is asked back.
SET_SETTINGS = text(
    "SELECT set_config('lock_timeout', :timeout, true), set_config('synchronous_commit', :lasting, true), "
    f"to_regclass('{about.name}')::oid::bigint AS table_number"
)
SELECT_TABLE_NUMBER = text(f"SELECT to_regclass('{about.name}')::oid::bigint")
SELECT_SERVER_IDENTIFIER = "SELECT system_identifier FROM pg_control_system()"
SELECT_DATABASE_NUMBER = "SELECT oid::bigint FROM pg_database WHERE datname = current_database()"

_databases: WeakSet[Postgres] = WeakSet()


class Postgres:
    """Locks are waited for by PostgreSQL itself, in the order of asking."""

    def __init__(self, address: str, timeout: float, lasting: bool = True) -> None:
        if find_spec("psycopg") is None:
            raise Unsupported("a ledger in PostgreSQL needs psycopg; run pip install '.[postgres]'")
        self._address = address
        self._timeout = timeout
        self._database_id: tuple[int | None, int] | None = None
        self._table_number: int | None = None
        self._lasting = "on" if lasting else "off"
        self._engine = create_engine(
            "postgresql+psycopg://",
            creator=self._connect,
            isolation_level="READ COMMITTED",  # what follows a lock sees what was written before it was free
            pool_pre_ping=True,
            # Charges on a data set come one after another, however many connections wait; and what is kept open between
            # them counts for every data set of every worker, of which a server allows a hundred in all.
            pool_size=1,
            max_overflow=4,
            pool_timeout=timeout,
        )
        _databases.add(self)

    @contextmanager
    def begin_write(self, wait: float | None = None) -> Iterator[Connection]:
        """A transaction that takes its locks as it goes."""
        longest = self._timeout if wait is None else wait
        with translate_database_errors(), self._engine.connect() as connection:
            settings = {"timeout": f"{max(1, int(longest * 1000))}ms", "lasting": self._lasting}
            self._require_table(connection.execute(SET_SETTINGS, settings).one().table_number)
            yield connection
            connection.commit()

    @contextmanager
    def begin_read(self) -> Iterator[Connection]:
        """All statements see the same moment."""
        with translate_database_errors(), self._engine.connect() as connection:
            steady = connection.execution_options(isolation_level="REPEATABLE READ")
            self._require_table(steady.execute(SELECT_TABLE_NUMBER).scalar_one())
            yield steady

    def get_identity(self) -> str:
        """The numbers of the server, the database and the ledger's first table."""
        with self.begin_read():
            pass
        return f"database {self._database_id} table {self._table_number}"

    def _require_table(self, number: int | None) -> None:
        """Refuse a ledger that was dropped and made anew."""
        if self._table_number not in (None, number):
            raise Unavailable(DATABASE_REPLACED)
        self._table_number = number

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._engine.dispose()

    def after_fork(self) -> None:
        """Leave the parent's connections to the parent."""
        self._engine.dispose(close=False)

    def _connect(self) -> Session[TupleRow]:
        import psycopg

        connection = psycopg.connect(self._address, connect_timeout=max(2, int(self._timeout)))
        try:
            server_id = _read_system_identifier(connection)
            database_id = server_id, int(connection.execute(SELECT_DATABASE_NUMBER).fetchall()[0][0])
            connection.rollback()
            if self._database_id not in (None, database_id):  # whatever their names
                raise Unavailable(DATABASE_REPLACED)
            self._database_id = database_id
        except (psycopg.Error, Unavailable):
            connection.close()
            raise
        return connection


def _read_system_identifier(connection: Session[TupleRow]) -> int | None:
    """What a server was given when it was made; None where the user may not read it."""
    import psycopg

    try:
        return int(connection.execute(SELECT_SERVER_IDENTIFIER).fetchall()[0][0])
    except psycopg.errors.InsufficientPrivilege:
        return None
    finally:
        connection.rollback()


def _after_fork() -> None:
    for database in list(_databases):
        database.after_fork()


os.register_at_fork(after_in_child=_after_fork)
