"""A ledger that is moved, replaced or set back: refused before anything is charged, and never a false alarm."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import delete, insert, select

from discreet import Custodian, Ledger, Unavailable
from discreet.datasets.dataset_dir import HEAD_FILE
from discreet.ledger import budget_check
from discreet.ledger.connect import RecordedHead, open_database
from discreet.ledger.storage import METADATA, entries
from discreet.service.store import Store
from discreet.service.store.store import StoreHeads
from discreet.service.store.store import heads as service_heads
from discreet.service.store.stored_answers import StoredAnswer, keep_answer
from support.asked_registry import COUNT, registry_path, remove_ledger
from support.command_line import run_discreet, run_successfully, write_registry
from support.ledger_stores import (
    DATASET,
    build_caps,
    build_charge,
    create_postgres_schema,
    ledger,
    ledger_address,
    processes,
)
from support.served_processes import wait_for

__all__ = ["ledger", "ledger_address", "registry_path"]  # fixtures

LIMITS = build_caps(1000)


def hash_content(path: Path) -> str:
    """A file's bytes, so that one that was written to is found out."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- the file that is open


@pytest.fixture
def ledger_in_file(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger in a file that was charged once, and an older copy of it."""
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        Ledger.backup(tmp_path / "ledger.db", tmp_path / "copy.db")
        ledger.charge(build_charge(1), LIMITS)
        yield ledger


def test_a_file_that_takes_the_place_of_the_open_one_is_refused(ledger_in_file: Ledger, tmp_path: Path) -> None:
    """Neither file is written to, nothing is read, and it goes on once the right one is back."""
    path = tmp_path / "ledger.db"
    before = hash_content(tmp_path / "copy.db")
    path.rename(tmp_path / "away.db")
    with pytest.raises(Unavailable, match="the ledger's file is gone from its path"):
        ledger_in_file.charge(build_charge(2), LIMITS)
    (tmp_path / "copy.db").rename(path)
    for use in (
        lambda: ledger_in_file.charge(build_charge(2), LIMITS),
        lambda: ledger_in_file.store(DATASET, 2, "{}"),
        lambda: ledger_in_file.release(DATASET, "s1", "a file", "{}"),
        lambda: ledger_in_file.balance(DATASET, LIMITS),
    ):
        with pytest.raises(Unavailable, match=r"not the one that was opened.*discreet ledger restore FILE LEDGER --f"):
            use()
    assert hash_content(path) == before
    (tmp_path / "away.db").replace(path)
    assert ledger_in_file.charge(build_charge(2), LIMITS).entry == 3


def test_a_file_that_is_replaced_during_a_charge_is_noticed_before_anything_is_told(
    ledger_in_file: Ledger, tmp_path: Path
) -> None:
    def pay_late(*arguments: Any) -> Any:
        (tmp_path / "copy.db").replace(tmp_path / "ledger.db")
        return real(*arguments)

    real = budget_check.pay_charge
    with patch.object(budget_check, "pay_charge", pay_late), pytest.raises(Unavailable, match="moved or replaced"):
        ledger_in_file.charge(build_charge(2), LIMITS)


def test_a_process_opens_no_other_file_later(ledger_in_file: Ledger, tmp_path: Path) -> None:
    """As after a fork, before which the connections are closed."""
    ledger_in_file.close()
    (tmp_path / "copy.db").replace(tmp_path / "ledger.db")
    with pytest.raises(Unavailable, match="moved or replaced"):
        ledger_in_file.charge(build_charge(2), LIMITS)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_is_removed_under_an_open_ledger_is_refused_and_loses_nothing(
    ledger_in_file: Ledger, tmp_path: Path, suffix: str
) -> None:
    (tmp_path / f"ledger.db{suffix}").unlink()
    with pytest.raises(Unavailable, match="-wal or -shm file beside the ledger was removed"):
        ledger_in_file.charge(build_charge(2), LIMITS)
    ledger_in_file.close()
    with Ledger.existing(tmp_path / "ledger.db") as reopened:
        assert reopened.verify(DATASET).entries == 2
        assert reopened.charge(build_charge(2), LIMITS).entry == 3


def test_what_sqlite_itself_does_to_the_file_is_no_alarm(ledger_in_file: Ledger, tmp_path: Path) -> None:
    for number, statement in enumerate(("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA optimize")):
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
            other.execute(statement)
        Ledger.backup(tmp_path / "ledger.db", tmp_path / f"{number}.db")
        assert ledger_in_file.charge(build_charge(2 + number), LIMITS).entry == 3 + number


def test_no_file_is_made_where_a_ledger_was(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        open_database(tmp_path / "none.db", 1, make=False)
    assert not (tmp_path / "none.db").exists()


# --- the same file or database with an older content


def read_all_rows(ledger_address: str) -> dict[str, list[dict[str, Any]]]:
    with closing(open_database(ledger_address, 10)) as database, database.begin_read() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in METADATA.sorted_tables
        }


def restore_rows(ledger_address: str, before: dict[str, list[dict[str, Any]]]) -> None:
    """Give a ledger the rows it had, in place: what a database's own means of going back do."""
    with closing(open_database(ledger_address, 10)) as database, database.begin_write() as connection:
        for table in METADATA.sorted_tables:
            connection.execute(delete(table))
            if before[table.name]:
                connection.execute(insert(table), before[table.name])


def test_a_ledger_that_is_set_back_in_place_is_refused(ledger_address: str, ledger: Ledger) -> None:
    """No file and no table changes its name: the last head that the process has seen is missing."""
    ledger.charge(build_charge(1), LIMITS)
    before = read_all_rows(ledger_address)
    ledger.charge(build_charge(2), LIMITS)
    after = read_all_rows(ledger_address)
    restore_rows(ledger_address, before)
    with pytest.raises(Unavailable, match=f"the ledger lacks entry 3 of '{DATASET}'"):
        ledger.charge(build_charge(3), LIMITS)
    with Ledger.existing(ledger_address) as other:  # another one, of as many entries
        other.charge(build_charge(4), LIMITS)
    with pytest.raises(Unavailable, match=f"the ledger lacks entry 3 of '{DATASET}'"):
        ledger.charge(build_charge(3), LIMITS)
    restore_rows(ledger_address, after)
    assert ledger.charge(build_charge(3), LIMITS).entry == 4


@pytest.mark.xdist_group("postgres")
def test_tables_or_a_database_made_anew_are_refused(postgres: str, tmp_path: Path) -> None:
    """Also where they hold every entry: whoever has the old ones open stops first."""
    import psycopg

    name = f"replaced_{os.getpid()}"
    host = dict(word.split("=", 1) for word in postgres.split())["host"]
    ledger_address = f"postgresql://postgres@/{name}?host={host}"
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            with Ledger.open(ledger_address) as postgres_ledger:
                postgres_ledger.register(DATASET, "0f", "s1", disjoint=False)
                Ledger.backup(ledger_address, tmp_path / "copy.db")
                with psycopg.connect(f"{postgres} dbname={name}", autocommit=True) as other:
                    other.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
                Ledger.restore(tmp_path / "copy.db", ledger_address, forgotten=0)
                with pytest.raises(Unavailable, match="database at the ledger's address is not the one"):
                    postgres_ledger.charge(build_charge(1), LIMITS)
            with Ledger.existing(ledger_address) as postgres_ledger:
                postgres_ledger.charge(build_charge(1), LIMITS)
                server.execute(f"DROP DATABASE {name} WITH (FORCE)")
                server.execute(f"CREATE DATABASE {name}")
                Ledger.restore(tmp_path / "copy.db", ledger_address, forgotten=0)
                with pytest.raises(Unavailable, match="database at the ledger's address is not the one"):
                    postgres_ledger.charge(build_charge(2), LIMITS)
            server.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}")  # its tables have the same numbers
            with Ledger.existing(ledger_address) as postgres_ledger:
                postgres_ledger.charge(build_charge(1), LIMITS)
                server.execute(f"DROP DATABASE {name} WITH (FORCE)")
                server.execute(f"ALTER DATABASE {name}_copy RENAME TO {name}")
                with pytest.raises(Unavailable, match="database at the ledger's address is not the one"):
                    postgres_ledger.charge(build_charge(2), LIMITS)
        finally:
            for table in (name, f"{name}_copy"):
                server.execute(f"DROP DATABASE IF EXISTS {table} WITH (FORCE)")


@pytest.mark.xdist_group("postgres")
def test_a_user_who_may_not_read_the_system_identifier_still_has_a_ledger(postgres: str) -> None:
    import psycopg

    address = create_postgres_schema(postgres)
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        server.execute("CREATE ROLE plain_user LOGIN")
        schema_name = address.rpartition("%3D")[2]
        server.execute(f"GRANT ALL ON SCHEMA {schema_name} TO plain_user")
    with Ledger.open(address.replace("postgres@", "plain_user@", 1)) as plain_ledger:
        plain_ledger.register(DATASET, "0f", "s1", disjoint=False)
        assert plain_ledger.charge(build_charge(1), LIMITS).entry == 2
        assert plain_ledger.get_identity().startswith("database (None, ")


# --- across runs: the head in the data set's folder


def assert_head_refused(*words: object) -> None:
    outcome = run_discreet(*words)
    assert (outcome.code, outcome.out) == (5, ""), outcome
    assert "the ledger lacks entry" in outcome.err
    assert "discreet ledger restore FILE LEDGER --forgotten E" in " ".join(outcome.err.split())


def test_an_older_copy_is_refused_by_every_command_until_it_is_restored_with_what_was_spent(
    registry_path: Path, tmp_path: Path
) -> None:
    ledger, copy = registry_path.parent / "registry.discreet" / "ledger.db", tmp_path / "copy.db"
    run_successfully("ledger", "backup", ledger, copy)
    run_successfully("ask", registry_path, COUNT.format(age=60), "--epsilon", "0.5")
    remove_ledger(ledger)
    run_successfully("ledger", "restore", copy, ledger, "--forgotten", "0")  # which is not true, and the folder knows
    before = run_successfully("ledger", "verify", ledger, "--json").document["heads"]
    assert_head_refused("ask", registry_path, COUNT.format(age=70), "--epsilon", "0.125")
    assert_head_refused("budget", registry_path)
    assert_head_refused("history", registry_path)
    assert_head_refused("preview", registry_path, COUNT.format(age=70), "--epsilon", "0.125")
    assert run_successfully("ledger", "verify", ledger, "--json").document["heads"] == before
    remove_ledger(ledger)
    run_successfully("ledger", "restore", copy, ledger, "--forgotten", "0.5")
    assert run_successfully("budget", registry_path, "--json").document[0]["spent"]["epsilon"] == "3/4"
    run_successfully("ledger", "backup", ledger, tmp_path / "restored.db")
    run_successfully("ask", registry_path, COUNT.format(age=70), "--epsilon", "0.125")
    remove_ledger(ledger)
    shutil.copy(tmp_path / "restored.db", ledger)  # its restore was seen before: it is an older copy by now
    assert_head_refused("ask", registry_path, COUNT.format(age=80), "--epsilon", "0.125")


def test_a_restore_that_was_never_needed_is_remembered_too(registry_path: Path, tmp_path: Path) -> None:
    """The back-up had every entry: a later copy with the same entry about forgotten spend is no second way out."""
    ledger, copy = registry_path.parent / "registry.discreet" / "ledger.db", tmp_path / "copy.db"
    run_successfully("ledger", "backup", ledger, copy)
    remove_ledger(ledger)
    run_successfully("ledger", "restore", copy, ledger, "--forgotten", "0.5")
    shutil.copy(ledger, tmp_path / "restored.db")
    run_successfully("ask", registry_path, COUNT.format(age=70), "--epsilon", "0.125")
    remove_ledger(ledger)
    shutil.copy(tmp_path / "restored.db", ledger)
    assert_head_refused("ask", registry_path, COUNT.format(age=80), "--epsilon", "0.125")


def test_a_record_that_is_lost_under_an_open_data_set_remembers_restores(registry_path: Path, tmp_path: Path) -> None:
    """Or a copy from just after an earlier restore would be taken for a new one."""
    ledger, record = (
        registry_path.parent / "registry.discreet/ledger.db",
        registry_path.parent / "registry.discreet/ledger-head.json",
    )
    run_successfully("ask", registry_path, COUNT.format(age=60), "--epsilon", "0.1")
    run_successfully("ledger", "backup", ledger, tmp_path / "backup.db")
    remove_ledger(ledger)
    run_successfully("ledger", "restore", tmp_path / "backup.db", ledger, "--forgotten", "0.1")
    run_successfully("ask", registry_path, COUNT.format(age=60), "--epsilon", "0.1")
    run_successfully("ledger", "backup", ledger, tmp_path / "older.db")
    with Custodian.open(registry_path) as custodian:
        record.unlink()
        custodian.answer(COUNT.format(age=60), epsilon=0.1, fresh=True)
        custodian.answer(COUNT.format(age=60), epsilon=0.1, fresh=True)
    assert len(json.loads(record.read_text())["restores"]) == 1
    remove_ledger(ledger)
    shutil.copy(tmp_path / "older.db", ledger)
    assert_head_refused("ask", registry_path, COUNT.format(age=80), "--epsilon", "0.1", "--fresh")


def test_a_record_of_the_service_that_is_lost_remembers_restores(tmp_path: Path) -> None:
    """Also where its kept answers still name an entry, so that something is known of the ledger."""
    place, older = tmp_path / "ledger.db", tmp_path / "older.db"
    with Ledger.open(place) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
    Ledger.backup(place, tmp_path / "backup.db")
    remove_ledger(place)
    Ledger.restore(tmp_path / "backup.db", place, forgotten=1)
    Ledger.backup(place, older)
    with Store.open(tmp_path / "store.db") as store:
        record = StoreHeads(store)
        with Ledger.existing(place) as restored:
            restored.record_heads(DATASET, record)
            entry = restored.charge(build_charge(1), LIMITS).entry
            keep_answer(store, StoredAnswer("id", DATASET, False, "ann", "k", "{}", entry, 0.0, "{}", None))
            with store.database.begin_write() as connection:
                connection.execute(delete(service_heads))
            assert record.read(DATASET) == RecordedHead(None, entry, None)
            restored.charge(build_charge(2), LIMITS)
            recorded_head = record.read(DATASET)
        assert recorded_head is not None
        assert len(recorded_head.restores) == 1
        remove_ledger(place)
        shutil.copy(older, place)
        with Ledger.existing(place) as set_back, pytest.raises(Unavailable, match="an older copy"):
            set_back.record_heads(DATASET, record)


def test_a_data_set_that_the_back_up_does_not_know_is_charged_what_was_forgotten(tmp_path: Path) -> None:
    """It would begin with a whole budget otherwise."""
    ledger, copy = tmp_path / "shared.db", tmp_path / "copy.db"
    schemas = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        schemas.append(write_registry(tmp_path / name))
        schemas[-1].write_text(schemas[-1].read_text().replace("name: registry", f"name: {name}"))
    question = "SELECT COUNT(*) FROM {name} WHERE age > 50"
    run_successfully("ask", schemas[0], question.format(name="one"), "--epsilon", "0.25", "--ledger", ledger)
    run_successfully("ledger", "backup", ledger, copy)
    run_successfully("ask", schemas[1], question.format(name="two"), "--epsilon", "0.25", "--ledger", ledger)
    for path in tmp_path.glob("shared.db*"):
        path.unlink()
    outcome = run_discreet("ledger", "restore", copy, ledger, "--forgotten", "0.25", "--dataset", schemas[0])
    assert (outcome.code, "is in the back-up and is charged anyway" in " ".join(outcome.err.split())) == (2, True)
    outcome = run_discreet("ledger", "restore", copy, ledger, "--forgotten", "0", "--dataset", schemas[1])
    assert (outcome.code, "--forgotten must be above 0" in " ".join(outcome.err.split())) == (2, True)
    run_successfully("ledger", "restore", copy, tmp_path / "without.db", "--forgotten", "0.25")
    assert_head_refused("budget", schemas[1], "--ledger", tmp_path / "without.db")
    run_successfully("ledger", "restore", copy, ledger, "--forgotten", "0.25", "--dataset", schemas[1])
    spent = [
        run_successfully("budget", schema_path, "--ledger", ledger, "--json").document[0]["spent"]["epsilon"]
        for schema_path in schemas
    ]
    assert spent == ["1/2", "1/4"]
    run_successfully("ask", schemas[1], question.format(name="two"), "--epsilon", "0.25", "--ledger", ledger)
    run_successfully("ledger", "verify", ledger)


def test_a_record_that_cannot_be_read_or_written_is_only_behind(registry_path: Path) -> None:
    folder = registry_path.parent / "registry.discreet"
    record = folder / HEAD_FILE
    record_content = json.loads(record.read_text())
    assert (record_content["dataset"], record_content["entry"]) == ("registry", 3)
    record.write_text("{")
    run_successfully("ask", registry_path, COUNT.format(age=60), "--epsilon", "0.125")
    assert json.loads(record.read_text())["entry"] == 5
    record.unlink()
    record.mkdir()  # nothing can be put in its place
    run_successfully("ask", registry_path, COUNT.format(age=70), "--epsilon", "0.125")
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(f".{HEAD_FILE}")) == []


def test_a_head_is_recorded_after_it_is_in_the_ledger(registry_path: Path) -> None:
    """As long as the record is written before the commit is durable, a crash between them would be an alarm."""
    folder = registry_path.parent / "registry.discreet"
    heads_and_entries: list[tuple[int, int]] = []

    def advance(_: object, __: str, head: RecordedHead) -> None:
        with closing(sqlite3.connect(folder / "ledger.db")) as other:
            [[last]] = other.execute("SELECT max(seq) FROM ledger_entries")
        heads_and_entries.append((head.entry, last))

    with (
        patch("discreet.datasets.dataset_dir.FolderHeads.advance", advance),
        Custodian.open(registry_path) as custodian,
    ):
        custodian.answer(COUNT.format(age=60), epsilon=Fraction(1, 8))
    assert heads_and_entries == [(4, 4), (5, 5)]


# --- processes that are killed


def ask_continually(registry_path: str, first: int) -> None:
    """Ask one question after another, opening the data set for every third."""
    for number in range(first, first + 10_000):
        with Custodian.open(registry_path) as custodian:
            for part in range(3):
                custodian.answer(
                    "SELECT COUNT(*) FROM t", epsilon=Fraction(1, 10**6), key=f"{number} {part}", fresh=True
                )


def kill_clients(tmp_path: Path, times: int) -> None:
    (tmp_path / "t.csv").write_text("age\n" + "30\n" * 50)
    registry_path = tmp_path / "t.yaml"
    registry_path.write_text(
        "name: t\nsource: t.csv\nneighbours: add-remove\nbudget: {epsilon: 100}\n"
        "columns:\n  age: {kind: integer, lower: 18, upper: 90}\n"
    )
    Custodian.open(registry_path).close()
    moment = random.Random(times)
    clients = [_start_client(registry_path, number) for number in range(2)]
    record = tmp_path / "t.discreet" / HEAD_FILE
    for number in range(times):
        before = json.loads(record.read_text())["entry"]
        wait_for(lambda before=before: json.loads(record.read_text())["entry"] > before + 2)
        time.sleep(moment.uniform(0, 0.1))
        which = moment.randrange(2)
        os.kill(clients[which].pid, signal.SIGKILL)
        clients[which].join()
        assert clients[which].exitcode == -signal.SIGKILL  # it was refused nothing, and ended for no other reason
        clients[which] = _start_client(registry_path, (number + 2) * 10_000)
    for client in clients:
        client.kill()
        client.join()
        assert client.exitcode == -signal.SIGKILL
    with Custodian.open(registry_path) as custodian:
        custodian.answer("SELECT COUNT(*) FROM t", epsilon=1)
        assert custodian.verify().entries > 2 * times
    last = json.loads(record.read_text())
    with Ledger.existing(tmp_path / "t.discreet" / "ledger.db") as ledger, ledger._database.begin_read() as connection:
        stored_hash = select(entries.c.hash).where(entries.c.dataset == "t", entries.c.seq == last["entry"])
        assert connection.execute(stored_hash).scalar_one() == last["hash"]


def _start_client(registry_path: Path, first: int) -> Any:
    process = processes.Process(target=ask_continually, args=(str(registry_path), first))
    process.start()
    return process


def test_processes_that_are_killed_raise_no_false_alarm(tmp_path: Path) -> None:
    kill_clients(tmp_path, 8)


@pytest.mark.soak
def test_hundreds_of_kills_raise_no_false_alarm(tmp_path: Path) -> None:
    """Small version: test_processes_that_are_killed_raise_no_false_alarm."""
    kill_clients(tmp_path, 200)
