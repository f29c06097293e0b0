"""The tables of a ledger, the same on SQLite and PostgreSQL. `entries` and `answers` only ever grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, ColumnElement, Index, Integer, MetaData, Table, Text, literal_column

from discreet.ledger.accounts import AMOUNTS

FORMAT_VERSION = 6
"""The format of these tables; a change to them is one more, and one more file in `versions`."""
MIGRATIONS_DIR = Path(__file__).with_name("versions")
VERSION_TABLE = "ledger_version"
"""Where Alembic keeps which of the versions a ledger has."""
METADATA = MetaData()

about = Table(
    "ledger_about",
    METADATA,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("version", Integer, nullable=False),
)

# One row for each data set. Whoever writes holds it, so that charges come one after another.
heads = Table(
    "ledger_heads",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("identity", Text, nullable=False),
    Column("snapshot", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("partition_reach", BigInteger, nullable=False),
    Column("individual_reach", BigInteger, nullable=False),
    Column("weaker", Boolean, nullable=False),
)

# All columns but the hash are copied from the body, to be found by.
entries = Table(
    "ledger_entries",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("analyst", Text),
    Column("key", Text),
    Column("finds", Text),
    Column("epsilon", Text),
    Column("source", BigInteger),
    Column("body", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

answers = Table(
    "ledger_answers",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("answer", Text, nullable=False),
)


def _build_amount_columns() -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in AMOUNTS]


# The owner is an analyst, or "" for the data set itself.
accounts = Table(
    "ledger_accounts",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("owner", Text, primary_key=True),
    *_build_amount_columns(),
)

# The terms of every account that was charged, as the last entry about them has them.
caps = Table(
    "ledger_caps",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("terms", Text, nullable=False),
)

parts = Table(
    "ledger_parts",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("owner", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("part", Text, primary_key=True),
    *_build_amount_columns(),
)


FIRST_FORMATS = {caps.name: 3}
"""The first format that has a table, where that is not the first of all."""

IS_NOT_ANSWER = entries.c.kind != literal_column("'answer'")
"""All but answers. No parameter: a plan that is made once for all values could not use a partial index."""


def _where(condition: ColumnElement[bool]) -> dict[str, Any]:
    return {"sqlite_where": condition, "postgresql_where": condition}


def _where_present(column: str) -> dict[str, Any]:
    return _where(entries.c[column].is_not(None))


INDICES = (
    Index("ledger_key", entries.c.dataset, entries.c.analyst, entries.c.key, unique=True, **_where_present("key")),
    Index("ledger_history", entries.c.dataset, entries.c.analyst, entries.c.seq, **_where_present("analyst")),
    Index(
        "ledger_own", *(entries.c[at] for at in ("dataset", "finds", "analyst", "epsilon")), **_where_present("finds")
    ),
    Index("ledger_any", entries.c.dataset, entries.c.finds, entries.c.epsilon, **_where_present("finds")),
    Index("ledger_log", entries.c.dataset, entries.c.seq, **_where(IS_NOT_ANSWER)),
    *(
        Index(f"ledger_most_{name}", *(parts.c[at] for at in ("dataset", "epoch", "owner", "kind", name)))
        for name in AMOUNTS
    ),
)
