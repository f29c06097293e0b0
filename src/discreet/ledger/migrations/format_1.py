"""Format 1: the chain of entries, the answers, and the accounts that follow from them."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Integer, Text, column

revision = "1"
down_revision = None

AMOUNTS = ("dp", "epsilon", "rho", "other", "delta", "individual")


def upgrade() -> None:
    """Make the tables and their indices."""
    _make_entries()
    _make_accounts()
    _index("ledger_key", "dataset", "analyst", "key", present="key", unique=True)
    _index("ledger_history", "dataset", "analyst", "seq", present="analyst")
    _index("ledger_own", "dataset", "finds", "analyst", "epsilon", present="finds")
    _index("ledger_any", "dataset", "finds", "epsilon", present="finds")
    for name in AMOUNTS:
        op.create_index(f"ledger_most_{name}", "ledger_parts", ["dataset", "epoch", "owner", "kind", name])


def _make_entries() -> None:
    op.create_table(
        "ledger_about",
        Column("one", Integer, primary_key=True, autoincrement=False),
        _text("id"),
        Column("version", Integer, nullable=False),
    )
    op.create_table(
        "ledger_heads",
        *(
            Column("dataset", Text, primary_key=True),
            _text("identity"),
            _text("snapshot"),
            Column("epoch", Integer, nullable=False),
            Column("seq", BigInteger, nullable=False),
            _text("hash"),
            Column("partition_reach", BigInteger, nullable=False),
            Column("individual_reach", BigInteger, nullable=False),
            Column("weaker", Boolean, nullable=False),
        ),
    )
    op.create_table(
        "ledger_entries",
        *_numbered(),
        _text("kind"),
        *(Column(name, Text) for name in ("analyst", "key", "finds", "epsilon")),
        Column("source", BigInteger),
        _text("body"),
        _text("hash"),
    )
    op.create_table("ledger_answers", *_numbered(), _text("answer"))


def _make_accounts() -> None:
    op.create_table("ledger_accounts", *_owned(), *map(_text, AMOUNTS))
    part = (Column(name, Text, primary_key=True) for name in ("kind", "part"))
    op.create_table("ledger_parts", *_owned(), *part, *map(_text, AMOUNTS))


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _numbered() -> tuple[Column[str] | Column[int], ...]:
    return (
        Column("dataset", Text, primary_key=True),
        Column("seq", BigInteger, primary_key=True, autoincrement=False),
    )


def _owned() -> tuple[Column[str] | Column[int], ...]:
    return (
        Column("dataset", Text, primary_key=True),
        Column("epoch", Integer, primary_key=True, autoincrement=False),
        Column("owner", Text, primary_key=True),
    )


def _index(name: str, *columns: str, present: str, unique: bool = False) -> None:
    where = column(present).is_not(None)
    op.create_index(name, "ledger_entries", list(columns), unique=unique, sqlite_where=where, postgresql_where=where)
