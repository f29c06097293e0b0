"""The ledger's tables, every statement that reads or writes them, and transactions in which one client may write."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy import Connection, Row
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from discreet.errors import InvalidInput, Unavailable
from discreet.ledger import chain
from discreet.ledger.accounts import (
    AMOUNTS,
    COMPONENTS,
    EMPTY_ACCOUNT,
    PAST_EPOCHS,
    Account,
    AccountPosition,
    Terms,
    read_terms,
)
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import Model, format_stored_amount, parse_stored_amount
from discreet.privacy.cost import ACCOUNT_KINDS, AccountKind, PrivacyCost, SubAccount

FORMAT_VERSION = 6
"""The format of these tables; a change to them is one more, and one more file in `migrations`."""
MIGRATIONS_DIR = Path(__file__).with_name("migrations")
VERSION_TABLE = "ledger_version"
"""Where Alembic keeps which of the versions a ledger has."""
METADATA = sa.MetaData()

about = sa.Table(
    "ledger_about",
    METADATA,
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
)

# One row for each data set. Whoever writes holds it, so that charges come one after another.
heads = sa.Table(
    "ledger_heads",
    METADATA,
    *(
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("snapshot", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("partition_reach", sa.BigInteger, nullable=False),
        sa.Column("individual_reach", sa.BigInteger, nullable=False),
        sa.Column("weaker", sa.Boolean, nullable=False),
    ),
)

# All columns but the hash are copied from the body, to be found by.
entries = sa.Table(
    "ledger_entries",
    METADATA,
    *(
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("analyst", sa.Text),
        sa.Column("key", sa.Text),
        sa.Column("finds", sa.Text),
        sa.Column("epsilon", sa.Text),
        sa.Column("source", sa.BigInteger),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    ),
)

answers = sa.Table(
    "ledger_answers",
    METADATA,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("answer", sa.Text, nullable=False),
)

# The owner is an analyst, or "" for the data set itself.
accounts = sa.Table(
    "ledger_accounts",
    METADATA,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.Text, primary_key=True),
    *(sa.Column(name, sa.Text, nullable=False) for name in AMOUNTS),
)

# The terms of every account that was charged, as the last entry about them has them.
caps = sa.Table(
    "ledger_caps",
    METADATA,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("terms", sa.Text, nullable=False),
)

parts = sa.Table(
    "ledger_parts",
    METADATA,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
    *(sa.Column(name, sa.Text, primary_key=True) for name in ("owner", "kind", "part")),
    *(sa.Column(name, sa.Text, nullable=False) for name in AMOUNTS),
)

FIRST_FORMATS = {caps.name: 3}
"""The first format that has a table, where that is not the first of all."""

IS_NOT_ANSWER = entries.c.kind != sa.literal_column("'answer'")
"""All but answers. No parameter: a plan that is made once for all values could not use a partial index."""


def _index_entries(name: str, columns: str, condition: sa.ColumnElement[bool], unique: bool = False) -> sa.Index:
    """A partial index of entries, on columns that are separated by spaces."""
    indexed_columns = [entries.c[column] for column in columns.split()]
    return sa.Index(name, *indexed_columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


INDICES = (
    _index_entries("ledger_key", "dataset analyst key", entries.c.key.is_not(None), unique=True),
    _index_entries("ledger_history", "dataset analyst seq", entries.c.analyst.is_not(None)),
    _index_entries("ledger_own", "dataset finds analyst epsilon", entries.c.finds.is_not(None)),
    _index_entries("ledger_any", "dataset finds epsilon", entries.c.finds.is_not(None)),
    _index_entries("ledger_log", "dataset seq", IS_NOT_ANSWER),
    *(
        sa.Index(f"ledger_most_{name}", *(parts.c[column] for column in ("dataset", "epoch", "owner", "kind", name)))
        for name in AMOUNTS
    ),
)


def match_parameters(table: sa.Table, *names: str) -> list[sa.ColumnElement[bool]]:
    """The conditions that columns of a table equal the parameters `by_` and their names."""
    return [table.c[name] == sa.bindparam(f"by_{name}") for name in names]


def _select_dataset_accounts(table: sa.Table, *any_of: sa.ColumnElement[bool]) -> sa.Select[int]:
    return (
        sa.select(table.c.epoch)
        .where(*match_parameters(table, "dataset"), table.c.owner == "", sa.or_(*any_of))
        .limit(1)
    )


# Written once: to build a statement takes longer than to run it.
SELECT_HEAD = sa.select(heads).where(*match_parameters(heads, "dataset"))
SELECT_HEAD_FOR_UPDATE = SELECT_HEAD.with_for_update()
UPDATE_HEAD = sa.update(heads).where(*match_parameters(heads, "dataset"))
SELECT_BODY = sa.select(entries.c.body).where(*match_parameters(entries, "dataset", "seq"))
SELECT_ANSWER = sa.select(answers.c.answer).where(*match_parameters(answers, "dataset", "seq"))
INSERT_ENTRY, INSERT_ANSWER, INSERT_HEAD = sa.insert(entries), sa.insert(answers), sa.insert(heads)
HEAD_COLUMNS: tuple[str, ...] = tuple(heads.c.keys())
"""The columns of a head, which its fields are called like."""
ACCOUNT_KEY = ("dataset", "epoch", "owner")
PART_KEY = (*ACCOUNT_KEY, "kind", "part")
SELECT_ACCOUNT = sa.select(*(accounts.c[name] for name in AMOUNTS)).where(*match_parameters(accounts, *ACCOUNT_KEY))
SELECT_PART = sa.select(*(parts.c[name] for name in AMOUNTS)).where(*match_parameters(parts, *PART_KEY))
UPDATE_ACCOUNT = sa.update(accounts).where(*match_parameters(accounts, *ACCOUNT_KEY))
UPDATE_PART = sa.update(parts).where(*match_parameters(parts, *PART_KEY))
SELECT_TERMS = sa.select(caps.c.terms).where(*match_parameters(caps, "dataset", "owner"))
SELECT_FORGOTTEN = sa.select(entries.c.body).where(
    *match_parameters(entries, "dataset", "analyst"),
    entries.c.kind == "charge",
    entries.c.body.contains(chain.encode_canonical({"query": chain.FORGOTTEN_QUERY})[1:-1]),
)
SELECT_RESTORES = SELECT_FORGOTTEN.with_only_columns(entries.c.seq, entries.c.hash, entries.c.body)
SELECT_RESTORES = SELECT_RESTORES.order_by(entries.c.seq)
SELECT_VOIDS = sa.select(entries.c.seq).where(*match_parameters(entries, "dataset", "finds"))
"""Not the largest of them: for that SQLite looks through all entries from the last on."""
SELECT_UNANSWERED = (
    sa.select(entries.c.seq)
    .outerjoin(answers, sa.and_(answers.c.dataset == entries.c.dataset, answers.c.seq == entries.c.seq))
    .where(*match_parameters(entries, "dataset"), entries.c.kind.in_(("charge", "degrade")))
    .where(entries.c.key.is_not(None), answers.c.seq.is_(None))
    .order_by(entries.c.seq)
)
SELECT_REUSES = sa.select(entries.c.source).where(
    *match_parameters(entries, "dataset", "analyst"), entries.c.kind == "reuse"
)
NOTHING = format_stored_amount(0)
SELECT_NOT_DP: Mapping[Model, list[sa.Select[int]]] = {
    "approx-dp": [
        _select_dataset_accounts(
            table, table.c.epsilon != table.c.dp, table.c.other != NOTHING, table.c.delta != NOTHING
        )
        for table in (accounts, parts)
    ],
    "individual-dp": [_select_dataset_accounts(table, table.c.individual != table.c.dp) for table in (accounts, parts)],
}
SELECT_PART_CHARGES = (
    sa.select(entries.c.body)
    .where(*match_parameters(entries, "dataset"), entries.c.kind == "charge", entries.c.body.contains('"part":{'))
    .order_by(entries.c.seq)
)
UPDATE_TERMS = sa.update(caps).where(*match_parameters(caps, "dataset", "owner"))


def find_head(connection: Connection, dataset: str) -> Head | None:
    """A data set's head as it is now."""
    return _parse_head(connection.execute(SELECT_HEAD, {"by_dataset": dataset}).one_or_none())


def require_head(head: Head | None, dataset: str) -> Head:
    """The head, if there is one."""
    if head is None:
        raise InvalidInput(f"the ledger knows no data set {dataset[:40]!r}; register it first")
    return head


def lock_head(connection: Connection, dataset: str) -> Head | None:
    """A data set's head, held until the transaction ends."""
    return _parse_head(connection.execute(SELECT_HEAD_FOR_UPDATE, {"by_dataset": dataset}).one_or_none())


def _parse_head(row: Row[*tuple[object, ...]] | None) -> Head | None:
    return None if row is None else Head(**{name: getattr(row, name) for name in HEAD_COLUMNS})


def _extract_head_columns(head: Head) -> dict[str, object]:
    return {name: getattr(head, name) for name in HEAD_COLUMNS}


def add_head(connection: Connection, head: Head) -> None:
    """Make the row of a new data set."""
    connection.execute(INSERT_HEAD, _extract_head_columns(head))


def append_entry(connection: Connection, head: Head, body: Body) -> Head:
    """Chain one more entry to a held head; the head that follows, as it was saved."""
    text = chain.encode_canonical(body)
    after = head.with_entry(text)
    connection.execute(INSERT_ENTRY, chain.extract_columns(body) | {"body": text, "hash": after.hash})
    connection.execute(UPDATE_HEAD, {"by_dataset": head.dataset, **_extract_head_columns(after)})
    return after


def find_body(connection: Connection, dataset: str, seq: int) -> Body | None:
    """The body of one entry."""
    text = connection.execute(SELECT_BODY, {"by_dataset": dataset, "by_seq": seq}).scalar_one_or_none()
    return None if text is None else chain.parse_body(text)


def read_answer_text(connection: Connection, dataset: str, seq: int) -> str | None:
    """The answer stored for a charge."""
    return connection.execute(SELECT_ANSWER, {"by_dataset": dataset, "by_seq": seq}).scalar_one_or_none()


def add_answer(connection: Connection, dataset: str, seq: int, answer: str) -> None:
    """Keep the answer of a charge."""
    connection.execute(INSERT_ANSWER, {"dataset": dataset, "seq": seq, "answer": answer})


def read_position(
    connection: Connection, head: Head, owner: str, part: SubAccount | None, models: Iterable[str]
) -> AccountPosition:
    """Where an owner stands, as far as a charge on the part needs to know in these models."""
    root = _read_account(connection, SELECT_ACCOUNT, _build_account_key(head, owner))
    part_account = EMPTY_ACCOUNT
    if part is not None:
        part_account = _read_account(connection, SELECT_PART, _build_part_key(head, owner, part))
    names = [name for model in models for name in COMPONENTS[model]]
    others = _read_other_parts(connection, head, owner, part, names)
    return AccountPosition(root, head.max_accounts, others, part, part_account)


def save_account(connection: Connection, head: Head, owner: str, part: SubAccount | None, account: Account) -> None:
    """Write what an owner has spent, on the root or on a part."""
    table, statement = (accounts, UPDATE_ACCOUNT) if part is None else (parts, UPDATE_PART)
    key = _build_account_key(head, owner) if part is None else _build_part_key(head, owner, part)
    amounts = dict(zip(AMOUNTS, map(format_stored_amount, account), strict=True))
    if not connection.execute(statement, {f"by_{name}": value for name, value in key.items()} | amounts).rowcount:
        connection.execute(sa.insert(table), key | amounts)


def find_terms(connection: Connection, dataset: str, owner: str) -> Terms | None:
    """The terms of an owner's account; None as long as none were recorded."""
    text = connection.execute(SELECT_TERMS, {"by_dataset": dataset, "by_owner": owner}).scalar_one_or_none()
    return None if text is None else read_terms(text)


def save_terms(connection: Connection, dataset: str, owner: str, terms: Terms) -> None:
    """Write the terms of an owner's account."""
    text = chain.encode_canonical(terms.to_json())
    if not connection.execute(UPDATE_TERMS, {"by_dataset": dataset, "by_owner": owner, "terms": text}).rowcount:
        connection.execute(sa.insert(caps), {"dataset": dataset, "owner": owner, "terms": text})


def compute_largest_totals(connection: Connection, head: Head, owner: str) -> Account:
    """The largest of an owner's totals, over this epoch and all before: no unit has lost more."""
    before = _read_account(connection, SELECT_ACCOUNT, _build_account_key(replace(head, epoch=PAST_EPOCHS), owner))
    return before.maximum(read_position(connection, head, owner, None, COMPONENTS).compute_total(EMPTY_ACCOUNT))


def has_raised_max_accounts(connection: Connection, dataset: str) -> bool:
    """Whether a charge ever said that one unit touches more parts of a kind than another said of the same epoch."""
    max_accounts: dict[tuple[int, AccountKind], int] = {}
    for text in connection.execute(SELECT_PART_CHARGES, {"by_dataset": dataset}).scalars():
        body = chain.parse_body(text)
        part = chain.parse_part(body)
        if (
            part is not None
            and max_accounts.setdefault((body["epoch"], part.kind), part.max_accounts) < part.max_accounts
        ):
            return True
    return False


def find_models_beside_dp(connection: Connection, dataset: str) -> set[Model]:
    """The models, but dp, in which answers were drawn that cost anything: in some account they differ from dp."""
    parameters = {"by_dataset": dataset}
    return {
        model
        for model, statements in SELECT_NOT_DP.items()
        if any(connection.execute(statement, parameters).first() is not None for statement in statements)
    }


def find_forgotten(connection: Connection, dataset: str, owner: str) -> PrivacyCost:
    """Sum the losses of an owner that a restored ledger may have forgotten and has not charged."""
    if owner in {"", chain.RESTORER}:  # were charged all of it
        return PrivacyCost()
    parameters = {"by_dataset": dataset, "by_analyst": chain.RESTORER}
    bodies = [chain.parse_body(body) for body in connection.execute(SELECT_FORGOTTEN, parameters).scalars()]
    if not bodies:
        return PrivacyCost()
    paid = set(connection.execute(SELECT_REUSES, parameters | {"by_analyst": owner}).scalars())
    return chain.sum_forgotten(body for body in bodies if body["seq"] not in paid)


def find_restores(connection: Connection, dataset: str) -> list[tuple[int, str]]:
    """The entries that charge a data set what a restored ledger may have forgotten, in order, and their hashes."""
    entry_rows = connection.execute(SELECT_RESTORES, {"by_dataset": dataset, "by_analyst": chain.RESTORER})
    return [(row.seq, row.hash) for row in entry_rows if chain.is_forgotten(chain.parse_body(row.body))]


def find_last_restore(connection: Connection, dataset: str) -> int:
    """The last entry that charges a data set what a restored ledger may have forgotten; 0 where there is none."""
    return max((entry for entry, _ in find_restores(connection, dataset)), default=0)


def find_last_void(connection: Connection, dataset: str) -> int:
    """The last entry that voids the charges before it which have no answer; 0 where there is none."""
    parameters = {"by_dataset": dataset, "by_finds": chain.VOID_KEY}
    voids: list[int] = [*connection.execute(SELECT_VOIDS, parameters).scalars()]
    return max([*voids, find_last_restore(connection, dataset)])


def find_unanswered(connection: Connection, dataset: str) -> list[int]:
    """The charges that could still be answered under their key; no other process can answer one without a key."""
    charges = connection.execute(SELECT_UNANSWERED, {"by_dataset": dataset}).scalars()
    after = find_last_void(connection, dataset)
    return [entry for entry in charges if entry > after]


def carry_over(connection: Connection, head: Head, fresh: Head, disjoint: bool) -> None:
    """Close an epoch: every owner's total joins its past; the next begins with that, or with nothing if disjoint."""
    past = replace(fresh, epoch=PAST_EPOCHS)
    for owner in list_owners(connection, head):
        totals = compute_largest_totals(connection, head, owner)
        save_account(connection, past, owner, None, totals)
        if not disjoint:
            save_account(connection, fresh, owner, None, totals)


def list_owners(connection: Connection, head: Head) -> list[str]:
    """All who have an account in an epoch, or had one before."""
    names: set[str] = set()
    for table in (accounts, parts):
        condition = sa.and_(table.c.dataset == head.dataset, table.c.epoch.in_((PAST_EPOCHS, head.epoch)))
        names |= set(connection.execute(sa.select(table.c.owner).distinct().where(condition)).scalars())
    return sorted(names)


def _read_account(connection: Connection, statement: sa.Select[*tuple[str, ...]], key: Mapping[str, object]) -> Account:
    row = connection.execute(statement, {f"by_{name}": value for name, value in key.items()}).one_or_none()
    return EMPTY_ACCOUNT if row is None else Account(*map(parse_stored_amount, row))


def _build_account_key(head: Head, owner: str) -> dict[str, object]:
    return {"dataset": head.dataset, "epoch": head.epoch, "owner": owner}


def _build_part_key(head: Head, owner: str, part: SubAccount) -> dict[str, object]:
    return _build_account_key(head, owner) | {"kind": part.kind, "part": part.name}


def _read_other_parts(
    connection: Connection, head: Head, owner: str, part: SubAccount | None, names: Iterable[str]
) -> dict[tuple[AccountKind, str], list[int]]:
    """For each kind of part in use, and each component, its largest amounts beside the part: all in one question."""
    components = tuple((kind, name) for kind in ACCOUNT_KINDS if head.max_accounts[kind] for name in names)
    if not components:
        return {}
    parameters = {f"by_{name}": value for name, value in _build_account_key(head, owner).items()}
    for kind in ACCOUNT_KINDS:
        excluded_part = part.name if part is not None and part.kind == kind else ""
        parameters |= {f"beside_{kind}": excluded_part, f"reach_{kind}": head.max_accounts[kind]}
    amounts: dict[tuple[AccountKind, str], list[int]] = {component: [] for component in components}
    for kind, name, text in connection.execute(_select_largest(components), parameters):
        amounts[kind, name].append(parse_stored_amount(text))
    return amounts


@cache
def _select_largest(components: tuple[tuple[AccountKind, str], ...]) -> sa.CompoundSelect[AccountKind, str, str]:
    return sa.union_all(*(_select_largest_parts(kind, name) for kind, name in components))


def _select_largest_parts(kind: AccountKind, name: str) -> sa.Select[AccountKind, str, str]:
    is_other = sa.and_(parts.c.kind == kind, parts.c.part != sa.bindparam(f"beside_{kind}"))
    ordered = (
        sa.select(parts.c[name].label("amount"))
        .where(*match_parameters(parts, *ACCOUNT_KEY), is_other)
        .order_by(parts.c[name].desc())
        .limit(sa.bindparam(f"reach_{kind}"))
        .subquery()
    )
    return sa.select(sa.literal(kind), sa.literal(name), ordered.c.amount)


LEDGER_LOCKED = "the ledger stays locked: someone is holding it; try again later"
LEDGER_DAMAGED = "the ledger is damaged, or is not a ledger; restore a copy"
LEDGER_UNREACHABLE = (
    "the ledger cannot be opened or written: look at its address, its folder, its rights and the room on its disk"
)
RESTORE_COMMAND = "discreet ledger restore FILE LEDGER --forgotten E"
FILE_MISSING = (
    "the ledger's file is gone from its path; put it back with its -wal file, or stop the service and restore a "
    f"back-up: {RESTORE_COMMAND}"
)
FILE_REPLACED = (
    "the file at the ledger's path is not the one that was opened: it was moved or replaced; put that one back, or "
    f"stop the service and restore a back-up: {RESTORE_COMMAND}"
)
WAL_REPLACED = (
    "the -wal or -shm file beside the ledger was removed or replaced while it was open; stop all that has the ledger "
    "open, so that its newest entries are written to it, then start again"
)
DATABASE_REPLACED = (
    "the database at the ledger's address is not the one that was opened: it was replaced or made anew; put that one "
    f"back, or stop the service and restore a back-up: {RESTORE_COMMAND}"
)

MESSAGES_BY_CODE: Mapping[object, str] = {
    sqlite3.SQLITE_BUSY: LEDGER_LOCKED,
    sqlite3.SQLITE_LOCKED: LEDGER_LOCKED,
    sqlite3.SQLITE_CORRUPT: LEDGER_DAMAGED,
    sqlite3.SQLITE_NOTADB: LEDGER_DAMAGED,
    sqlite3.SQLITE_ERROR: LEDGER_DAMAGED,  # no such table or column
    "55P03": LEDGER_LOCKED,
    "42P01": LEDGER_DAMAGED,  # no such table
    "42703": LEDGER_DAMAGED,  # no such column
}
"""What an engine's code means: SQLite's numbers, PostgreSQL's texts."""


class Database(Protocol):
    """One engine. Its transactions are durable once they end, and leave no trace where they raise."""

    def begin_write(self, wait: float | None = None) -> AbstractContextManager[Connection]:
        """A transaction that sees and does all or nothing; on SQLite the only one that writes.

        It waits for others no longer than `wait` seconds, by default as long as the database was opened with.
        """

    def begin_read(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one moment."""

    def get_identity(self) -> str:
        """Name the file or the database that is open; one that is put in its place has another name."""

    def close(self) -> None:
        """Let go of connections."""


@contextmanager
def translate_database_errors() -> Iterator[None]:
    """The boundary to the engines: whatever they raise becomes one sentence without their words."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        sqlite_code = getattr(cause, "sqlite_errorcode", None)
        code = getattr(cause, "sqlstate", None) if sqlite_code is None else sqlite_code & 0xFF
        raise Unavailable(MESSAGES_BY_CODE.get(code, LEDGER_UNREACHABLE)) from None
