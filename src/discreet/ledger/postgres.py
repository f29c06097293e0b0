"""A ledger in PostgreSQL, in the schema that the address leads to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

from sqlalchemy import Connection, create_engine, text

from discreet.errors import Unsupported
from discreet.ledger.database import plainly

# A server or a user may have traded durability away; here it is asked back.
SETTINGS = text("SELECT set_config('lock_timeout', :timeout, true), set_config('synchronous_commit', :lasting, true)")

_databases: WeakSet[Postgres] = WeakSet()


class Postgres:
    """Locks are waited for by PostgreSQL itself, in the order of asking."""

    def __init__(self, address: str, timeout: float, lasting: bool = True) -> None:
        if find_spec("psycopg") is None:
            raise Unsupported("a ledger in PostgreSQL needs psycopg; run pip install '.[postgres]'")
        self._address = address
        self._timeout = timeout
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
    def writing(self) -> Iterator[Connection]:
        """A transaction that takes its locks as it goes."""
        with plainly(), self._engine.connect() as connection:
            connection.execute(
                SETTINGS, {"timeout": f"{max(1, int(self._timeout * 1000))}ms", "lasting": self._lasting}
            )
            yield connection
            connection.commit()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """All statements see the same moment."""
        with plainly(), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="REPEATABLE READ")

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._engine.dispose()

    def after_fork(self) -> None:
        """Leave the parent's connections to the parent."""
        self._engine.dispose(close=False)

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(self._address, connect_timeout=max(2, int(self._timeout)))


def _after_fork() -> None:
    for database in list(_databases):
        database.after_fork()


os.register_at_fork(after_in_child=_after_fork)
