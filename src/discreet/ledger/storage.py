"""The ledger's tables, and every statement that reads or writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    CompoundSelect,
    Connection,
    Index,
    Integer,
    MetaData,
    Row,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    insert,
    literal,
    literal_column,
    or_,
    select,
    union_all,
    update,
)

from discreet.errors import InvalidInput
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
    *(Column(name, Text) for name in ("analyst", "key", "finds", "epsilon")),
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


# The owner is an analyst, or "" for the data set itself.
accounts = Table(
    "ledger_accounts",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("owner", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in AMOUNTS),
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
    *(Column(name, Text, primary_key=True) for name in ("owner", "kind", "part")),
    *(Column(name, Text, nullable=False) for name in AMOUNTS),
)

FIRST_FORMATS = {caps.name: 3}
"""The first format that has a table, where that is not the first of all."""

IS_NOT_ANSWER = entries.c.kind != literal_column("'answer'")
"""All but answers. No parameter: a plan that is made once for all values could not use a partial index."""


def _index_entries(name: str, columns: str, condition: ColumnElement[bool], unique: bool = False) -> Index:
    """A partial index of entries, on columns that are separated by spaces."""
    indexed_columns = [entries.c[column] for column in columns.split()]
    return Index(name, *indexed_columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


INDICES = (
    _index_entries("ledger_key", "dataset analyst key", entries.c.key.is_not(None), unique=True),
    _index_entries("ledger_history", "dataset analyst seq", entries.c.analyst.is_not(None)),
    _index_entries("ledger_own", "dataset finds analyst epsilon", entries.c.finds.is_not(None)),
    _index_entries("ledger_any", "dataset finds epsilon", entries.c.finds.is_not(None)),
    _index_entries("ledger_log", "dataset seq", IS_NOT_ANSWER),
    *(
        Index(f"ledger_most_{name}", *(parts.c[column] for column in ("dataset", "epoch", "owner", "kind", name)))
        for name in AMOUNTS
    ),
)


def match_parameters(table: Table, *names: str) -> list[Any]:
    """The conditions that columns of a table equal the parameters `by_` and their names."""
    return [table.c[name] == bindparam(f"by_{name}") for name in names]


def _select_dataset_accounts(table: Table, *any_of: ColumnElement[bool]) -> Select[Any]:
    return select(table.c.epoch).where(*match_parameters(table, "dataset"), table.c.owner == "", or_(*any_of)).limit(1)


# Written once: to build a statement takes longer than to run it.
SELECT_HEAD = select(heads).where(*match_parameters(heads, "dataset"))
SELECT_HEAD_FOR_UPDATE = SELECT_HEAD.with_for_update()
UPDATE_HEAD = update(heads).where(*match_parameters(heads, "dataset"))
SELECT_BODY = select(entries.c.body).where(*match_parameters(entries, "dataset", "seq"))
SELECT_ANSWER = select(answers.c.answer).where(*match_parameters(answers, "dataset", "seq"))
INSERT_ENTRY, INSERT_ANSWER, INSERT_HEAD = insert(entries), insert(answers), insert(heads)
HEAD_COLUMNS: tuple[str, ...] = tuple(heads.c.keys())
"""The columns of a head, which its fields are called like."""
ACCOUNT_KEY = ("dataset", "epoch", "owner")
PART_KEY = (*ACCOUNT_KEY, "kind", "part")
SELECT_ACCOUNT = select(*(accounts.c[name] for name in AMOUNTS)).where(*match_parameters(accounts, *ACCOUNT_KEY))
SELECT_PART = select(*(parts.c[name] for name in AMOUNTS)).where(*match_parameters(parts, *PART_KEY))
UPDATE_ACCOUNT = update(accounts).where(*match_parameters(accounts, *ACCOUNT_KEY))
UPDATE_PART = update(parts).where(*match_parameters(parts, *PART_KEY))
SELECT_TERMS = select(caps.c.terms).where(*match_parameters(caps, "dataset", "owner"))
SELECT_FORGOTTEN = select(entries.c.body).where(
    *match_parameters(entries, "dataset", "analyst"),
    entries.c.kind == "charge",
    entries.c.body.contains(chain.encode_canonical({"query": chain.FORGOTTEN_QUERY})[1:-1]),
)
SELECT_RESTORES = SELECT_FORGOTTEN.with_only_columns(entries.c.seq, entries.c.hash, entries.c.body)
SELECT_RESTORES = SELECT_RESTORES.order_by(entries.c.seq)
SELECT_VOIDS = select(entries.c.seq).where(*match_parameters(entries, "dataset", "finds"))
"""Not the largest of them: for that SQLite looks through all entries from the last on."""
SELECT_UNANSWERED = (
    select(entries.c.seq)
    .outerjoin(answers, and_(answers.c.dataset == entries.c.dataset, answers.c.seq == entries.c.seq))
    .where(*match_parameters(entries, "dataset"), entries.c.kind.in_(("charge", "degrade")))
    .where(entries.c.key.is_not(None), answers.c.seq.is_(None))
    .order_by(entries.c.seq)
)
SELECT_REUSES = select(entries.c.source).where(
    *match_parameters(entries, "dataset", "analyst"), entries.c.kind == "reuse"
)
NOTHING = format_stored_amount(0)
SELECT_NOT_DP: Mapping[Model, list[Select[Any]]] = {
    "approx-dp": [
        _select_dataset_accounts(
            table, table.c.epsilon != table.c.dp, table.c.other != NOTHING, table.c.delta != NOTHING
        )
        for table in (accounts, parts)
    ],
    "individual-dp": [_select_dataset_accounts(table, table.c.individual != table.c.dp) for table in (accounts, parts)],
}
SELECT_PART_CHARGES = (
    select(entries.c.body)
    .where(*match_parameters(entries, "dataset"), entries.c.kind == "charge", entries.c.body.contains('"part":{'))
    .order_by(entries.c.seq)
)
UPDATE_TERMS = update(caps).where(*match_parameters(caps, "dataset", "owner"))


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


def _parse_head(row: Row[Any] | None) -> Head | None:
    return None if row is None else Head(**{name: getattr(row, name) for name in HEAD_COLUMNS})


def _extract_head_columns(head: Head) -> dict[str, Any]:
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
        connection.execute(insert(table), key | amounts)


def find_terms(connection: Connection, dataset: str, owner: str) -> Terms | None:
    """The terms of an owner's account; None as long as none were recorded."""
    text = connection.execute(SELECT_TERMS, {"by_dataset": dataset, "by_owner": owner}).scalar_one_or_none()
    return None if text is None else read_terms(text)


def save_terms(connection: Connection, dataset: str, owner: str, terms: Terms) -> None:
    """Write the terms of an owner's account."""
    text = chain.encode_canonical(terms.to_json())
    if not connection.execute(UPDATE_TERMS, {"by_dataset": dataset, "by_owner": owner, "terms": text}).rowcount:
        connection.execute(insert(caps), {"dataset": dataset, "owner": owner, "terms": text})


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
    """What a restored ledger may have forgotten of an owner, and has not charged to it."""
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
        condition = and_(table.c.dataset == head.dataset, table.c.epoch.in_((PAST_EPOCHS, head.epoch)))
        names |= set(connection.execute(select(table.c.owner).distinct().where(condition)).scalars())
    return sorted(names)


def _read_account(connection: Connection, statement: Select[Any], key: Mapping[str, Any]) -> Account:
    row = connection.execute(statement, {f"by_{name}": value for name, value in key.items()}).one_or_none()
    return EMPTY_ACCOUNT if row is None else Account(*map(parse_stored_amount, row))


def _build_account_key(head: Head, owner: str) -> dict[str, Any]:
    return {"dataset": head.dataset, "epoch": head.epoch, "owner": owner}


def _build_part_key(head: Head, owner: str, part: SubAccount) -> dict[str, Any]:
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
def _select_largest(components: tuple[tuple[AccountKind, str], ...]) -> CompoundSelect[Any]:
    return union_all(*(_select_largest_parts(kind, name) for kind, name in components))


def _select_largest_parts(kind: AccountKind, name: str) -> Select[Any]:
    is_other = and_(parts.c.kind == kind, parts.c.part != bindparam(f"beside_{kind}"))
    ordered = (
        select(parts.c[name].label("amount"))
        .where(*match_parameters(parts, *ACCOUNT_KEY), is_other)
        .order_by(parts.c[name].desc())
        .limit(bindparam(f"reach_{kind}"))
        .subquery()
    )
    return select(literal(kind), literal(name), ordered.c.amount)
