"""From the tables that an older discreet made to those of this one, by Alembic, inside the caller's transaction.

A set of tables has a folder of versions, and a table that says which of them it has. SQLite and PostgreSQL undo changes
of tables with the rest of a transaction, so that a set has its old form or its new one, whatever happens.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, column, inspect, select
from sqlalchemy import table as named

from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

LATEST_REVISION = "head"

_migration_lock = threading.Lock()  # a version finds its connection in a global of Alembic's


def find_revision(connection: Connection, table: str) -> str | None:
    """The version that a set of tables has; None where nobody has said. Alembic, which takes long to load, is not."""
    if not inspect(connection).has_table(table):
        return None
    revision: str | None = connection.scalar(select(named(table, column("version_num")).c.version_num))
    return revision


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
