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
from discreet.ledger.amounts import format_stored_amount
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import LedgerVerification
from discreet.ledger.database import Database
from discreet.ledger.replay import AccountKey, ChainReplay
from discreet.ledger.tables import accounts, answers, caps, entries, heads, parts

VERIFY_BATCH = 500
Progress = Callable[[int, int], None]


def verify_ledger(database: Database, ledger: str, dataset: str | None, progress: Progress) -> LedgerVerification:
    """Verify one data set; or all of them, and that nothing belongs to none."""
    if dataset is not None:
        return _verify_dataset(database, ChainReplay(ledger, dataset), progress)
    with database.begin_read() as connection:
        names = sorted(connection.execute(select(heads.c.dataset)).scalars())  # in one order on every engine
        _check_no_orphans(connection)
    results = {name: _verify_dataset(database, ChainReplay(ledger, name), progress) for name in names}
    dataset_heads = {name: verification.head for name, verification in results.items()}
    return LedgerVerification(
        sum(verification.entries for verification in results.values()),
        chain.hash_texts(*dataset_heads.values()),
        dataset_heads,
    )


def _verify_dataset(database: Database, replay: ChainReplay, progress: Progress) -> LedgerVerification:
    name = replay.head.dataset
    while True:
        with database.begin_read() as connection:
            head = rows.require_head(rows.find_head(connection, name), name)
            batch = _read_next_entries(connection, replay.head)
            if not batch:
                _check_end(connection, head, replay)
                return LedgerVerification(head.seq, head.hash)
            _replay_batch(connection, batch, replay)
        progress(replay.head.seq, max(replay.head.seq, head.seq))


def _read_next_entries(connection: Connection, head: Head) -> list[Row[Any]]:
    after = select(entries).where(entries.c.dataset == head.dataset, entries.c.seq > head.seq)
    return list(connection.execute(after.order_by(entries.c.seq).limit(VERIFY_BATCH)))


def _replay_batch(connection: Connection, batch: list[Row[Any]], replay: ChainReplay) -> None:
    """Each entry is in its place, with the hash that its body gives, its columns, and a meaning."""
    sources = {row.source for row in batch if row.source is not None}
    bodies = _read_texts(connection, entries.c.body, sources, replay.head.dataset)
    texts = _read_texts(connection, answers.c.answer, sources, replay.head.dataset)
    for row in batch:
        head = replay.head
        if row.seq != head.seq + 1:
            raise _build_entry_error(head, "it is missing")
        if not isinstance(row.body, str) or row.hash != chain.hash_entry(head.hash, row.body):
            raise _build_entry_error(head, "its hash does not follow from its text and the hash before it")
        body = _parse_entry_body(row)
        if body is None:
            raise _build_entry_error(head, "what was copied from its text is something else")
        try:
            replay.apply_entry(row.body, body, bodies.get(row.source), texts.get(row.source))
        except (DiscreetError, AttributeError, KeyError, TypeError, ValueError):
            raise _build_entry_error(head, "it does not follow from the entries before it and its answer") from None


def _read_texts(connection: Connection, column: Any, seqs: set[int], dataset: str) -> dict[int, str]:
    table = column.table
    statement = select(table.c.seq, column).where(table.c.dataset == dataset, table.c.seq.in_(seqs))
    return dict(connection.execute(statement).all())


def _parse_entry_body(row: Row[Any]) -> Body | None:
    """The body of an entry, if it is in canonical form and the columns are its own."""
    try:
        body = chain.parse_body(row.body)
        copies = chain.extract_columns(body)
    except (DiscreetError, AttributeError):
        return None
    is_canonical = chain.encode_canonical(body) == row.body and all(
        getattr(row, name) == copy for name, copy in copies.items()
    )
    return body if is_canonical else None


def _check_end(connection: Connection, head: Head, replay: ChainReplay) -> None:
    """The head, the accounts and the answers are those that the entries lead to."""
    if head.seq > replay.head.seq:
        raise _build_entry_error(replay.head, "it is missing")
    if head != replay.head:
        raise ClaimFailed(
            f"the head of {_format_dataset(head)} does not follow from its entries, after entry {replay.head.seq}"
        )
    condition = answers.c.dataset == head.dataset
    for seq in connection.execute(select(answers.c.seq).where(condition).order_by(answers.c.seq)).scalars():
        if seq not in replay.answered_entries:
            raise ClaimFailed(f"{_format_dataset(head)} has an answer to entry {seq} that no entry tells of")
    spent = dict(replay.spent)
    for key, amounts in _read_amounts(connection, head.dataset):
        if amounts != tuple(map(format_stored_amount, spent.pop(key, ()))):
            raise _build_account_error(head, key)
    if spent:
        raise _build_account_error(head, min(spent))
    expected = {owner: chain.encode_canonical(terms.to_json()) for owner, terms in replay.terms.items()}
    recorded = _read_recorded_terms(connection, head.dataset)
    wrong = min((owner for owner, _ in expected.items() ^ recorded.items()), default=None)
    if wrong is not None:
        raise ClaimFailed(
            f"{_format_dataset(head)}: the cap recorded for {_describe_owner(wrong)} does not follow from the entries"
        )


def _read_recorded_terms(connection: Connection, dataset: str) -> dict[str, str]:
    if not inspect(connection).has_table(caps.name):  # a back-up of an older format
        return {}
    return dict(map(tuple, connection.execute(select(caps.c.owner, caps.c.terms).where(caps.c.dataset == dataset))))


def _read_amounts(connection: Connection, dataset: str) -> Iterator[tuple[AccountKey, tuple[str, ...]]]:
    for row in connection.execute(select(accounts).where(accounts.c.dataset == dataset)):
        yield (row.epoch, row.owner, "", ""), _extract_amounts(row)
    for row in connection.execute(select(parts).where(parts.c.dataset == dataset)):
        yield (row.epoch, row.owner, row.kind, row.part), _extract_amounts(row)


def _extract_amounts(row: Row[Any]) -> tuple[str, ...]:
    return tuple(getattr(row, name) for name in AMOUNTS)


def _check_no_orphans(connection: Connection) -> None:
    present = inspect(connection).get_table_names()
    for table in (entries, answers, accounts, parts, *([caps] if caps.name in present else [])):
        orphan = select(table.c.dataset).where(table.c.dataset.not_in(select(heads.c.dataset))).limit(1)
        name = connection.execute(orphan).scalar_one_or_none()
        if name is not None:
            raise ClaimFailed(f"the ledger was changed: it has rows of {str(name)[:40]!r}, which has no head")


def _build_entry_error(before: Head, why: str) -> ClaimFailed:
    return ClaimFailed(f"entry {before.seq + 1} of {_format_dataset(before)} is not what was written: {why}")


def _build_account_error(head: Head, key: AccountKey) -> ClaimFailed:
    epoch, owner, kind, part = key
    whose = _describe_owner(owner)
    which = f" on {kind} {part[:40]!r}" if kind else ""
    return ClaimFailed(
        f"{_format_dataset(head)}: the account of {whose}{which}, epoch {epoch}, does not follow from the entries"
    )


def _describe_owner(owner: str) -> str:
    return f"analyst {owner[:40]!r}" if owner else "the data set"


def _format_dataset(head: Head) -> str:
    return f"data set {head.dataset[:40]!r}"
