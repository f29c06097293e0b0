"""The tables of a ledger, the same on SQLite and PostgreSQL. `entries` and `answers` only ever grow."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, Table, Text

from discreet.ledger.accounts import Account

VERSION = 1
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


def _amounts() -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in Account._fields]


# The owner is an analyst, or "" for the data set itself.
accounts = Table(
    "ledger_accounts",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("owner", Text, primary_key=True),
    *_amounts(),
)

parts = Table(
    "ledger_parts",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("owner", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("part", Text, primary_key=True),
    *_amounts(),
)


def _where_present(column: str) -> dict[str, Any]:
    present = entries.c[column].is_not(None)
    return {"sqlite_where": present, "postgresql_where": present}


INDICES = (
    Index("ledger_key", entries.c.dataset, entries.c.analyst, entries.c.key, unique=True, **_where_present("key")),
    Index("ledger_history", entries.c.dataset, entries.c.analyst, entries.c.seq, **_where_present("analyst")),
    Index(
        "ledger_own", *(entries.c[at] for at in ("dataset", "finds", "analyst", "epsilon")), **_where_present("finds")
    ),
    Index("ledger_any", entries.c.dataset, entries.c.finds, entries.c.epsilon, **_where_present("finds")),
    *(
        Index(f"ledger_most_{name}", *(parts.c[at] for at in ("dataset", "epoch", "owner", "kind", name)))
        for name in Account._fields
    ),
)
