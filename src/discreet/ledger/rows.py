"""What a transaction reads and writes: heads, entries, answers, accounts. Nothing here decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    insert,
    literal,
    or_,
    select,
    union_all,
    update,
)

from discreet.errors import InvalidInput
from discreet.ledger import chain
from discreet.ledger.accounts import AMOUNTS, COMPONENTS, NOTHING, PAST, Account, Position
from discreet.ledger.amounts import read, stored
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import Model
from discreet.ledger.tables import accounts, answers, caps, entries, heads, parts
from discreet.ledger.terms import Terms, read_terms
from discreet.spend import KINDS, Kind, Part, Spend


def _by(table: Table, *names: str) -> list[Any]:
    return [table.c[name] == bindparam(f"by_{name}") for name in names]


def _of_the_dataset(table: Table, *any_of: ColumnElement[bool]) -> Select[Any]:
    return select(table.c.epoch).where(*_by(table, "dataset"), table.c.owner == "", or_(*any_of)).limit(1)


# Written once: to build a statement takes longer than to run it.
HEAD = select(heads).where(*_by(heads, "dataset"))
LOCKED_HEAD = HEAD.with_for_update()
SAVE_HEAD = update(heads).where(*_by(heads, "dataset"))
BODY = select(entries.c.body).where(*_by(entries, "dataset", "seq"))
ANSWER = select(answers.c.answer).where(*_by(answers, "dataset", "seq"))
ADD_ENTRY, ADD_ANSWER, ADD_HEAD = insert(entries), insert(answers), insert(heads)
ACCOUNT_KEY = ("dataset", "epoch", "owner")
PART_KEY = (*ACCOUNT_KEY, "kind", "part")
ACCOUNT = select(*(accounts.c[name] for name in AMOUNTS)).where(*_by(accounts, *ACCOUNT_KEY))
PART = select(*(parts.c[name] for name in AMOUNTS)).where(*_by(parts, *PART_KEY))
SAVE_ACCOUNT = update(accounts).where(*_by(accounts, *ACCOUNT_KEY))
SAVE_PART = update(parts).where(*_by(parts, *PART_KEY))
TERMS = select(caps.c.terms).where(*_by(caps, "dataset", "owner"))
FORGOTTEN = select(entries.c.body).where(
    *_by(entries, "dataset", "analyst"),
    entries.c.kind == "charge",
    entries.c.body.contains(chain.written({"query": chain.FORGOTTEN})[1:-1]),
)
RESTORES = FORGOTTEN.with_only_columns(entries.c.seq, entries.c.hash, entries.c.body).order_by(entries.c.seq)
VOIDS = select(entries.c.seq).where(*_by(entries, "dataset", "finds"))
"""Not the largest of them: for that SQLite looks through all entries from the last on."""
UNANSWERED = (
    select(entries.c.seq)
    .outerjoin(answers, and_(answers.c.dataset == entries.c.dataset, answers.c.seq == entries.c.seq))
    .where(*_by(entries, "dataset"), entries.c.kind.in_(("charge", "degrade")), entries.c.key.is_not(None))
    .where(answers.c.seq.is_(None))
    .order_by(entries.c.seq)
)
REUSED = select(entries.c.source).where(*_by(entries, "dataset", "analyst"), entries.c.kind == "reuse")
BESIDE_DP: Mapping[Model, list[Select[Any]]] = {
    "approx-dp": [
        _of_the_dataset(table, table.c.epsilon != table.c.dp, table.c.other != stored(0), table.c.delta != stored(0))
        for table in (accounts, parts)
    ],
    "individual-dp": [_of_the_dataset(table, table.c.individual != table.c.dp) for table in (accounts, parts)],
}
ON_PARTS = (
    select(entries.c.body)
    .where(*_by(entries, "dataset"), entries.c.kind == "charge", entries.c.body.contains('"part":{'))
    .order_by(entries.c.seq)
)
SAVE_TERMS = update(caps).where(*_by(caps, "dataset", "owner"))


def find_head(connection: Connection, dataset: str) -> Head | None:
    """A data set's head as it is now."""
    return _head(connection.execute(HEAD, {"by_dataset": dataset}).one_or_none())


def registered(head: Head | None, dataset: str) -> Head:
    """The head, if there is one."""
    if head is None:
        raise InvalidInput(f"the ledger knows no data set {dataset[:40]!r}; register it first")
    return head


def hold_head(connection: Connection, dataset: str) -> Head | None:
    """A data set's head, held until the transaction ends."""
    return _head(connection.execute(LOCKED_HEAD, {"by_dataset": dataset}).one_or_none())


def _head(row: Row[Any] | None) -> Head | None:
    if row is None:
        return None
    return Head(
        dataset=row.dataset,
        identity=row.identity,
        snapshot=row.snapshot,
        epoch=row.epoch,
        seq=row.seq,
        hash=row.hash,
        partition_reach=row.partition_reach,
        individual_reach=row.individual_reach,
        weaker=row.weaker,
    )


def _columns(head: Head) -> dict[str, Any]:
    return {
        "dataset": head.dataset,
        "identity": head.identity,
        "snapshot": head.snapshot,
        "epoch": head.epoch,
        "seq": head.seq,
        "hash": head.hash,
        "partition_reach": head.partition_reach,
        "individual_reach": head.individual_reach,
        "weaker": head.weaker,
    }


def add_head(connection: Connection, head: Head) -> None:
    """Make the row of a new data set."""
    connection.execute(ADD_HEAD, _columns(head))


def append(connection: Connection, head: Head, body: Body) -> Head:
    """Chain one more entry to a held head; the head that follows, as it was saved."""
    text = chain.written(body)
    after = head.followed(text)
    connection.execute(ADD_ENTRY, chain.columns(body) | {"body": text, "hash": after.hash})
    connection.execute(SAVE_HEAD, {"by_dataset": head.dataset, **_columns(after)})
    return after


def body_of(connection: Connection, dataset: str, seq: int) -> Body | None:
    """The body of one entry."""
    text = connection.execute(BODY, {"by_dataset": dataset, "by_seq": seq}).scalar_one_or_none()
    return None if text is None else chain.read(text)


def answer_of(connection: Connection, dataset: str, seq: int) -> str | None:
    """The answer stored for a charge."""
    return connection.execute(ANSWER, {"by_dataset": dataset, "by_seq": seq}).scalar_one_or_none()


def add_answer(connection: Connection, dataset: str, seq: int, answer: str) -> None:
    """Keep the answer of a charge."""
    connection.execute(ADD_ANSWER, {"dataset": dataset, "seq": seq, "answer": answer})


def position(connection: Connection, head: Head, owner: str, part: Part | None, models: Iterable[str]) -> Position:
    """Where an owner stands, as far as a charge on the part needs to know in these models."""
    root = _account(connection, ACCOUNT, _account_key(head, owner))
    own = NOTHING if part is None else _account(connection, PART, _part_key(head, owner, part))
    names = [name for model in models for name in COMPONENTS[model]]
    return Position(root, head.reach, _others(connection, head, owner, part, names), part, own)


def save(connection: Connection, head: Head, owner: str, part: Part | None, account: Account) -> None:
    """Write what an owner has spent, on the root or on a part."""
    table, statement = (accounts, SAVE_ACCOUNT) if part is None else (parts, SAVE_PART)
    key = _account_key(head, owner) if part is None else _part_key(head, owner, part)
    amounts = dict(zip(AMOUNTS, map(stored, account), strict=True))
    if not connection.execute(statement, {f"by_{name}": value for name, value in key.items()} | amounts).rowcount:
        connection.execute(insert(table), key | amounts)


def find_terms(connection: Connection, dataset: str, owner: str) -> Terms | None:
    """The terms of an owner's account; None as long as none were recorded."""
    text = connection.execute(TERMS, {"by_dataset": dataset, "by_owner": owner}).scalar_one_or_none()
    return None if text is None else read_terms(text)


def save_terms(connection: Connection, dataset: str, owner: str, terms: Terms) -> None:
    """Write the terms of an owner's account."""
    text = chain.written(terms.to_json())
    if not connection.execute(SAVE_TERMS, {"by_dataset": dataset, "by_owner": owner, "terms": text}).rowcount:
        connection.execute(insert(caps), {"dataset": dataset, "owner": owner, "terms": text})


def largest_totals(connection: Connection, head: Head, owner: str) -> Account:
    """The largest of an owner's totals, over this epoch and all before: no unit has lost more."""
    before = _account(connection, ACCOUNT, _account_key(replace(head, epoch=PAST), owner))
    return before.most(position(connection, head, owner, None, COMPONENTS).total(NOTHING))


def reach_was_raised(connection: Connection, dataset: str) -> bool:
    """Whether a charge ever said that one unit touches more parts of a kind than another said of the same epoch."""
    found: dict[tuple[int, Kind], int] = {}
    for text in connection.execute(ON_PARTS, {"by_dataset": dataset}).scalars():
        body = chain.read(text)
        part = chain.part_of(body)
        if part is not None and found.setdefault((body["epoch"], part.kind), part.reach) < part.reach:
            return True
    return False


def drawn_beside_dp(connection: Connection, dataset: str) -> set[Model]:
    """The models, but dp, in which answers were drawn that cost anything: in some account they differ from dp."""
    drawn: set[Model] = set()
    for model, differing in BESIDE_DP.items():
        if any(connection.execute(one, {"by_dataset": dataset}).first() is not None for one in differing):
            drawn.add(model)
    return drawn


def find_forgotten(connection: Connection, dataset: str, owner: str) -> Spend:
    """What a restored ledger may have forgotten of an owner, and has not charged to it."""
    if owner in {"", chain.RESTORER}:  # were charged all of it
        return Spend()
    by = {"by_dataset": dataset, "by_analyst": chain.RESTORER}
    found = [chain.read(body) for body in connection.execute(FORGOTTEN, by).scalars()]
    if not found:
        return Spend()
    paid = set(connection.execute(REUSED, by | {"by_analyst": owner}).scalars())
    return chain.sum_forgotten(body for body in found if body["seq"] not in paid)


def find_restores(connection: Connection, dataset: str) -> list[tuple[int, str]]:
    """The entries that charge a data set what a restored ledger may have forgotten, in order, and their hashes."""
    found = connection.execute(RESTORES, {"by_dataset": dataset, "by_analyst": chain.RESTORER})
    return [(row.seq, row.hash) for row in found if chain.is_forgotten(chain.read(row.body))]


def last_restore(connection: Connection, dataset: str) -> int:
    """The last entry that charges a data set what a restored ledger may have forgotten; 0 where there is none."""
    return max((entry for entry, _ in find_restores(connection, dataset)), default=0)


def last_void(connection: Connection, dataset: str) -> int:
    """The last entry that voids the charges before it which have no answer; 0 where there is none."""
    voided: list[int] = [*connection.execute(VOIDS, {"by_dataset": dataset, "by_finds": chain.VOIDING}).scalars()]
    return max([*voided, last_restore(connection, dataset)])


def find_unanswered(connection: Connection, dataset: str) -> list[int]:
    """The charges that could still be answered under their key; no other process can answer one without a key."""
    found = connection.execute(UNANSWERED, {"by_dataset": dataset}).scalars()
    after = last_void(connection, dataset)
    return [entry for entry in found if entry > after]


def carry_over(connection: Connection, head: Head, fresh: Head, disjoint: bool) -> None:
    """Close an epoch: every owner's total joins its past; the next begins with that, or with nothing if disjoint."""
    past = replace(fresh, epoch=PAST)
    for owner in owners(connection, head):
        most = largest_totals(connection, head, owner)
        save(connection, past, owner, None, most)
        if not disjoint:
            save(connection, fresh, owner, None, most)


def owners(connection: Connection, head: Head) -> list[str]:
    """All who have an account in an epoch, or had one before."""
    found: set[str] = set()
    for table in (accounts, parts):
        here = (
            select(table.c.owner)
            .distinct()
            .where(table.c.dataset == head.dataset, table.c.epoch.in_((PAST, head.epoch)))
        )
        found |= set(connection.execute(here).scalars())
    return sorted(found)


def _account(connection: Connection, statement: Select[Any], key: Mapping[str, Any]) -> Account:
    row = connection.execute(statement, {f"by_{name}": value for name, value in key.items()}).one_or_none()
    return NOTHING if row is None else Account(*map(read, row))


def _account_key(head: Head, owner: str) -> dict[str, Any]:
    return {"dataset": head.dataset, "epoch": head.epoch, "owner": owner}


def _part_key(head: Head, owner: str, part: Part) -> dict[str, Any]:
    return _account_key(head, owner) | {"kind": part.kind, "part": part.name}


def _others(
    connection: Connection, head: Head, owner: str, part: Part | None, names: Iterable[str]
) -> dict[tuple[Kind, str], list[int]]:
    """For each kind of part in use, and each component, its largest amounts beside the part: all in one question."""
    wanted = tuple((kind, name) for kind in KINDS if head.reach[kind] for name in names)
    if not wanted:
        return {}
    by = {f"by_{name}": value for name, value in _account_key(head, owner).items()}
    for kind in KINDS:
        beside = part.name if part is not None and part.kind == kind else ""
        by |= {f"beside_{kind}": beside, f"reach_{kind}": head.reach[kind]}
    found: dict[tuple[Kind, str], list[int]] = {which: [] for which in wanted}
    for kind, name, text in connection.execute(_largest(wanted), by):
        found[kind, name].append(read(text))
    return found


@cache
def _largest(wanted: tuple[tuple[Kind, str], ...]) -> CompoundSelect[Any]:
    return union_all(*(_largest_of(kind, name) for kind, name in wanted))


def _largest_of(kind: Kind, name: str) -> Select[Any]:
    ordered = (
        select(parts.c[name].label("amount"))
        .where(*_by(parts, *ACCOUNT_KEY), parts.c.kind == kind, parts.c.part != bindparam(f"beside_{kind}"))
        .order_by(parts.c[name].desc())
        .limit(bindparam(f"reach_{kind}"))
        .subquery()
    )
    return select(literal(kind), literal(name), ordered.c.amount)
