"""Whoever changes a ledger behind its back is found out, and told where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Table, and_, delete, insert, select, update

from discreet import ClaimFailed, Unavailable
from discreet.ledger import Ledger, chain, storage
from discreet.ledger.storage import accounts, answers, entries, heads, parts
from discreet.privacy.cost import SubAccount
from support.ledger_stores import DATASET, EVERY, answered, ask, caps, ledger, where

__all__ = ["ledger", "where"]  # fixtures


@pytest.fixture
def full_ledger(ledger: Ledger) -> Ledger:
    """A ledger with every kind of entry, account and answer."""
    limits = caps(10, delta="1e-6", models=EVERY)
    answered(ledger, ask(1, key="k"), limits, '{"value": 7}')
    ledger.charge(ask(1, analyst="bob"), limits)
    answered(ledger, ask(2, part=SubAccount("partition", "north", 2)), limits, '{"value": 8}')
    ledger.register(DATASET, "0f", "s2", disjoint=True)
    ledger.charge(ask(3, model="individual-dp", snapshot="s2", part=SubAccount("individual", "p1", 1)), limits)
    assert ledger.verify().entries == 8
    return ledger


def read_table_rows(ledger: Ledger, table: Table) -> list[dict[str, Any]]:
    with ledger._database.begin_read() as connection:
        return [dict(row) for row in connection.execute(select(table)).mappings()]


@contextmanager
def change_row(ledger: Ledger, table: Table, row: dict[str, Any], **values: object) -> Iterator[None]:
    """One row as someone changed it who can write to the database; put back afterwards."""
    with ledger._database.begin_write() as connection:
        assert connection.execute(update(table).where(_match_row(table, row)).values(**values)).rowcount == 1
    yield
    with ledger._database.begin_write() as connection:
        connection.execute(delete(table).where(_match_row(table, row | values)))
        connection.execute(insert(table), row)


def _match_row(table: Table, row: dict[str, Any]) -> Any:
    return and_(*(table.c[name] == row[name] for name in (column.name for column in table.primary_key)))


def format_entry_message(seq: int) -> str:
    return f"^entry {seq} of data set 'census' is not what was written"


def test_a_changed_entry_is_found_where_it_is(full_ledger: Ledger) -> None:
    """Every column of every entry, and every twentieth byte of its text."""
    for row in read_table_rows(full_ledger, entries):
        body = row["body"]
        flips = [
            body[:index] + chr(ord(body[index]) ^ 1) + body[index + 1 :] for index in range(row["seq"], len(body), 20)
        ]
        changes = [{name: "x"} for name in ("kind", "analyst", "key", "finds", "epsilon", "hash")]
        for change in [*changes, {"source": 1}, *({"body": flip} for flip in flips)]:
            with (
                change_row(full_ledger, entries, row, **change),
                pytest.raises(ClaimFailed, match=format_entry_message(row["seq"])),
            ):
                full_ledger.verify()
    assert full_ledger.verify().entries == 8


def test_an_entry_taken_away_or_moved_is_found_where_it_is(full_ledger: Ledger) -> None:
    for row in read_table_rows(full_ledger, entries):
        with (
            change_row(full_ledger, entries, row, seq=99),
            pytest.raises(ClaimFailed, match=format_entry_message(row["seq"])),
        ):
            full_ledger.verify()


def test_two_entries_that_changed_places_are_found(full_ledger: Ledger) -> None:
    third, fourth = (row for row in read_table_rows(full_ledger, entries) if row["seq"] in {3, 4})
    moved = [third | {"seq": 4}, fourth | {"seq": 3}]
    with full_ledger._database.begin_write() as connection:
        connection.execute(delete(entries).where(entries.c.seq.in_([3, 4])))
        connection.execute(insert(entries), moved)
    with pytest.raises(ClaimFailed, match=format_entry_message(3)):
        full_ledger.verify()


def test_a_last_entry_taken_away_is_missed(full_ledger: Ledger) -> None:
    """And with the head moved back, the accounts that it debited tell."""
    with full_ledger._database.begin_write() as connection:
        connection.execute(delete(entries).where(entries.c.seq == 8))
    with pytest.raises(ClaimFailed, match=format_entry_message(8)):
        full_ledger.verify()
    seventh = next(row for row in read_table_rows(full_ledger, entries) if row["seq"] == 7)
    with full_ledger._database.begin_write() as connection:
        connection.execute(update(heads).values(seq=7, hash=seventh["hash"], weaker=False, individual_reach=0))
    with pytest.raises(ClaimFailed, match=r"the account of .* does not follow from the entries"):
        full_ledger.verify()


def test_a_changed_account_is_found(full_ledger: Ledger) -> None:
    for table in (accounts, parts):
        for row in read_table_rows(full_ledger, table):
            for name in ("dp", "epsilon", "rho", "other", "delta", "individual"):
                less = {name: row[name][:-1] + str((int(row[name][-1]) + 1) % 10)}
                with change_row(full_ledger, table, row, **less), pytest.raises(ClaimFailed, match="the account of"):
                    full_ledger.verify()
            with change_row(full_ledger, table, row, owner="eve"), pytest.raises(ClaimFailed, match="the account of"):
                full_ledger.verify()


def test_a_changed_answer_is_found_at_the_entry_that_tells_of_it(full_ledger: Ledger) -> None:
    for row, teller in zip(read_table_rows(full_ledger, answers), (3, 6), strict=True):
        for change in ({"answer": row["answer"].replace("value", "Value")}, {"seq": 99}):
            with (
                change_row(full_ledger, answers, row, **change),
                pytest.raises(ClaimFailed, match=format_entry_message(teller)),
            ):
                full_ledger.verify()


def test_an_answer_without_its_charge_is_found(full_ledger: Ledger) -> None:
    with full_ledger._database.begin_write() as connection:
        connection.execute(insert(answers), {"dataset": DATASET, "seq": 8, "answer": "9"})
    with pytest.raises(ClaimFailed, match="an answer to entry 8 that no entry tells of"):
        full_ledger.verify()


def test_a_changed_head_is_found(full_ledger: Ledger) -> None:
    row = read_table_rows(full_ledger, heads)[0]
    changes = {"identity": "x", "snapshot": "s1", "epoch": 0, "seq": 7, "hash": "x", "weaker": False}
    for change in ({name: value} for name, value in (changes | {"partition_reach": 1}).items()):
        with (
            change_row(full_ledger, heads, row, **change),
            pytest.raises(ClaimFailed, match="head of data set 'census'"),
        ):
            full_ledger.verify(DATASET)
    with change_row(full_ledger, heads, row, dataset="x"), pytest.raises(ClaimFailed, match="has no head"):
        full_ledger.verify()


@pytest.mark.parametrize(
    ("seq", "change"),
    [
        (2, {"spend": {"epsilon": "0.01", "rho": "0.00005", "other": "0", "delta": "0"}}),
        (4, {"spend": {"epsilon": "0", "rho": "0", "other": "0", "delta": "0"}}),
        (4, {"source": 5, "analyst": "ann"}),
        (2, {"epoch": 1}),
        (2, {"spend": None}),
        (2, {"model": "none"}),
        (7, {"identity": "1e"}),
        (7, {"snapshot": "s1"}),
        (7, {"disjoint": False}),
        (8, {"kind": "gift"}),
    ],
)
def test_a_chain_written_anew_must_still_make_sense(full_ledger: Ledger, seq: int, change: dict[str, object]) -> None:
    """With every hash recomputed, an entry that cannot follow, or accounts that do not, tell."""
    with full_ledger._database.begin_write() as connection:
        _rehash_entry(connection, seq, change)
    with pytest.raises(ClaimFailed):
        full_ledger.verify()


def test_two_degraded_answers_of_one_draw_are_found(ledger: Ledger) -> None:
    """Together they would tell more than they cost."""
    limits = caps(10)
    answered(ledger, ask(epsilon="0.5"), limits, "first")
    answered(ledger, ask(epsilon="0.6", fresh=True), limits, "second")
    for epsilon in ("0.01", "0.02"):
        answered(ledger, ask(epsilon=epsilon, analyst="bob", degradable=True), limits, epsilon)
    assert ledger.verify().entries == 9
    with ledger._database.begin_write() as connection:
        _rehash_entry(connection, 8, {"source": 2})
    with pytest.raises(ClaimFailed, match=format_entry_message(8)):
        ledger.verify()


def test_a_charge_has_one_answer(full_ledger: Ledger) -> None:
    """A second entry that tells of the same one cannot follow."""
    first = chain.parse_body(next(row["body"] for row in read_table_rows(full_ledger, entries) if row["seq"] == 3))
    stored = {name: first[name] for name in ("source", "analyst", "finds", "stored_epsilon", "sha256")}
    with full_ledger._database.begin_write() as connection:
        _rehash_entry(connection, 6, stored)
    with pytest.raises(ClaimFailed, match=format_entry_message(6)):
        full_ledger.verify()


@pytest.mark.parametrize("kind", ["charge", "reuse"])
def test_what_was_forgotten_cannot_lose_its_mark(tmp_path: Path, kind: str) -> None:
    """With every hash recomputed, and the terms as if nothing had been admitted under caps that nobody recorded."""
    limits = caps(1, delta="1e-6", models=EVERY)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        ledger.charge(ask(1), limits)
    Ledger.backup(tmp_path / "ledger.db", tmp_path / "backup.db")
    Ledger.restore(tmp_path / "backup.db", tmp_path / "again.db", forgotten=0.5)
    with Ledger.existing(tmp_path / "again.db") as restored:
        bodies = [chain.parse_body(row["body"]) for row in read_table_rows(restored, entries)]
        marked = next(body for body in bodies if body["kind"] == kind and "unrecorded" in body)
        owner = "" if kind == "charge" else "ann"
        with restored._database.begin_write() as connection:
            _rehash_entry(connection, marked["seq"], {"unrecorded": False})
            terms = storage.find_terms(connection, DATASET, owner)
            assert terms is not None
            assert terms.has_unrecorded_caps
            storage.save_terms(connection, DATASET, owner, replace(terms, has_unrecorded_caps=False))
        with pytest.raises(ClaimFailed, match=format_entry_message(marked["seq"])):
            restored.verify()


def _rehash_entry(connection: Connection, seq: int, change: dict[str, object]) -> None:
    head = chain.GENESIS_HASH
    for row in connection.execute(select(entries).order_by(entries.c.seq)).all():
        body = chain.parse_body(row.body) | (change if row.seq == seq else {})
        text = chain.encode_canonical(body)
        head = chain.hash_entry(head, text)
        copied = chain.extract_columns(body) | {"body": text, "hash": head}
        connection.execute(update(entries).where(entries.c.seq == row.seq).values(**copied))
    connection.execute(update(heads).values(hash=head))


def test_a_chain_written_anew_has_another_head(full_ledger: Ledger) -> None:
    """Whoever can write everything can write a ledger that makes sense; its head is another."""
    before = full_ledger.verify(DATASET)
    with full_ledger._database.begin_write() as connection:
        _rehash_entry(connection, 2, {"query": "SELECT something harmless"})
    after = full_ledger.verify(DATASET)
    assert (after.entries, after.head == before.head) == (before.entries, False)


def test_damage_stops_a_charge(full_ledger: Ledger) -> None:
    """An account that holds no number is no reason to guess."""
    row = next(row for row in read_table_rows(full_ledger, accounts) if row["epoch"] == 0 and not row["owner"])
    with full_ledger._database.begin_write() as connection:
        connection.execute(update(accounts).where(accounts.c.owner == "").values(dp="x"))
        connection.execute(update(heads).values(epoch=row["epoch"]))
    with pytest.raises(Unavailable, match="damaged"):
        full_ledger.charge(ask("new", snapshot="s2"), caps(10))


def test_text_that_is_no_text_is_found_where_it_is(tmp_path: Path) -> None:
    """SQLite keeps any bytes as text."""
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        ledger.charge(ask(), caps(1))
        with ledger._database.begin_write() as connection:
            connection.exec_driver_sql("UPDATE ledger_entries SET body = CAST(x'ff' || body AS TEXT) WHERE seq = 2")
        with pytest.raises(ClaimFailed, match=format_entry_message(2)):
            ledger.verify()
        with ledger._database.begin_write() as connection:
            connection.exec_driver_sql("UPDATE ledger_entries SET body = x'ff' WHERE seq = 2")
        with pytest.raises(ClaimFailed, match=format_entry_message(2)):
            ledger.verify()
