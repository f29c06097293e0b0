"""Whether a ledger is what was written: the chain, what was copied from it, and all that must follow from it.

Entries are read in short transactions, so that nobody waits for a long one; what follows from them is compared in the
last, which sees no further entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, Row, inspect, select

from discreet.errors import ClaimFailed, DiscreetError
from discreet.ledger import chain, rows
from discreet.ledger.accounts import AMOUNTS
from discreet.ledger.amounts import stored
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import Verified
from discreet.ledger.database import Database
from discreet.ledger.replay import Key, Replay
from discreet.ledger.tables import accounts, answers, caps, entries, heads, parts

BATCH = 500
Progress = Callable[[int, int], None]


def verify(database: Database, ledger: str, dataset: str | None, progress: Progress) -> Verified:
    """Verify one data set; or all of them, and that nothing belongs to none."""
    if dataset is not None:
        return _verify_one(database, Replay(ledger, dataset), progress)
    with database.reading() as connection:
        names = sorted(connection.execute(select(heads.c.dataset)).scalars())  # in one order on every engine
        _check_no_orphans(connection)
    done = {name: _verify_one(database, Replay(ledger, name), progress) for name in names}
    found = {name: one.head for name, one in done.items()}
    return Verified(sum(one.entries for one in done.values()), chain.digest(*found.values()), found)


def _verify_one(database: Database, replay: Replay, progress: Progress) -> Verified:
    name = replay.head.dataset
    while True:
        with database.reading() as connection:
            head = rows.registered(rows.find_head(connection, name), name)
            batch = _next_entries(connection, replay.head)
            if not batch:
                _check_end(connection, head, replay)
                return Verified(head.seq, head.hash)
            _follow(connection, batch, replay)
        progress(replay.head.seq, max(replay.head.seq, head.seq))


def _next_entries(connection: Connection, head: Head) -> list[Row[Any]]:
    after = select(entries).where(entries.c.dataset == head.dataset, entries.c.seq > head.seq)
    return list(connection.execute(after.order_by(entries.c.seq).limit(BATCH)))


def _follow(connection: Connection, batch: list[Row[Any]], replay: Replay) -> None:
    """Each entry is in its place, with the hash that its body gives, its columns, and a meaning."""
    sources = {row.source for row in batch if row.source is not None}
    bodies = _texts(connection, entries.c.body, sources, replay.head.dataset)
    texts = _texts(connection, answers.c.answer, sources, replay.head.dataset)
    for row in batch:
        head = replay.head
        if row.seq != head.seq + 1:
            raise _bad(head, "it is missing")
        if not isinstance(row.body, str) or row.hash != chain.link(head.hash, row.body):
            raise _bad(head, "its hash does not follow from its text and the hash before it")
        body = _body(row)
        if body is None:
            raise _bad(head, "what was copied from its text is something else")
        try:
            replay.follow(row.body, body, bodies.get(row.source), texts.get(row.source))
        except (DiscreetError, AttributeError, KeyError, TypeError, ValueError):
            raise _bad(head, "it does not follow from the entries before it and its answer") from None


def _texts(connection: Connection, column: Any, seqs: set[int], dataset: str) -> dict[int, str]:
    table = column.table
    found = select(table.c.seq, column).where(table.c.dataset == dataset, table.c.seq.in_(seqs))
    return dict(connection.execute(found).all())


def _body(row: Row[Any]) -> Body | None:
    """The body of an entry, if it is in canonical form and the columns are its own."""
    try:
        body = chain.read(row.body)
        copies = chain.columns(body)
    except (DiscreetError, AttributeError):
        return None
    own = chain.written(body) == row.body and all(getattr(row, name) == copy for name, copy in copies.items())
    return body if own else None


def _check_end(connection: Connection, head: Head, replay: Replay) -> None:
    """The head, the accounts and the answers are those that the entries lead to."""
    if head.seq > replay.head.seq:
        raise _bad(replay.head, "it is missing")
    if head != replay.head:
        raise ClaimFailed(f"the head of {_name(head)} does not follow from its entries, after entry {replay.head.seq}")
    here = answers.c.dataset == head.dataset
    for seq in connection.execute(select(answers.c.seq).where(here).order_by(answers.c.seq)).scalars():
        if seq not in replay.answered:
            raise ClaimFailed(f"{_name(head)} has an answer to entry {seq} that no entry tells of")
    spent = dict(replay.spent)
    for key, amounts in _amounts(connection, head.dataset):
        if amounts != tuple(map(stored, spent.pop(key, ()))):
            raise _wrong_account(head, key)
    if spent:
        raise _wrong_account(head, min(spent))
    expected = {owner: chain.written(terms.to_json()) for owner, terms in replay.terms.items()}
    recorded = _recorded_terms(connection, head.dataset)
    wrong = min((owner for owner, _ in expected.items() ^ recorded.items()), default=None)
    if wrong is not None:
        raise ClaimFailed(f"{_name(head)}: the cap recorded for {_whose(wrong)} does not follow from the entries")


def _recorded_terms(connection: Connection, dataset: str) -> dict[str, str]:
    if not inspect(connection).has_table(caps.name):  # a back-up of an older format
        return {}
    return dict(map(tuple, connection.execute(select(caps.c.owner, caps.c.terms).where(caps.c.dataset == dataset))))


def _amounts(connection: Connection, dataset: str) -> Iterator[tuple[Key, tuple[str, ...]]]:
    for row in connection.execute(select(accounts).where(accounts.c.dataset == dataset)):
        yield (row.epoch, row.owner, "", ""), _stored(row)
    for row in connection.execute(select(parts).where(parts.c.dataset == dataset)):
        yield (row.epoch, row.owner, row.kind, row.part), _stored(row)


def _stored(row: Row[Any]) -> tuple[str, ...]:
    return tuple(getattr(row, name) for name in AMOUNTS)


def _check_no_orphans(connection: Connection) -> None:
    present = inspect(connection).get_table_names()
    for table in (entries, answers, accounts, parts, *([caps] if caps.name in present else [])):
        orphan = select(table.c.dataset).where(table.c.dataset.not_in(select(heads.c.dataset))).limit(1)
        name = connection.execute(orphan).scalar_one_or_none()
        if name is not None:
            raise ClaimFailed(f"the ledger was changed: it has rows of {str(name)[:40]!r}, which has no head")


def _bad(before: Head, why: str) -> ClaimFailed:
    return ClaimFailed(f"entry {before.seq + 1} of {_name(before)} is not what was written: {why}")


def _wrong_account(head: Head, key: Key) -> ClaimFailed:
    epoch, owner, kind, part = key
    whose = _whose(owner)
    which = f" on {kind} {part[:40]!r}" if kind else ""
    return ClaimFailed(f"{_name(head)}: the account of {whose}{which}, epoch {epoch}, does not follow from the entries")


def _whose(owner: str) -> str:
    return f"analyst {owner[:40]!r}" if owner else "the data set"


def _name(head: Head) -> str:
    return f"data set {head.dataset[:40]!r}"
