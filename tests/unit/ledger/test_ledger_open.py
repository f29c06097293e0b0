"""Where a ledger is kept: addresses, files, locks, forks, and the fair queue."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import select

from discreet import InvalidInput, Unavailable
from discreet.ledger import Ledger
from discreet.ledger.sqlite import wait_by_flock, wait_by_ticket
from discreet.ledger.storage import FORMAT_VERSION, about
from support.ledger_stores import (
    DATASET,
    build_caps,
    build_charge,
    create_postgres_schema,
    ledger,
    ledger_address,
    list_spent,
    processes,
)

__all__ = ["ledger", "ledger_address"]  # fixtures

# Opening


def test_a_ledger_keeps_its_id_and_its_accounts(ledger_address: str) -> None:
    with Ledger.open(ledger_address) as first:
        first.register(DATASET, "0f", "s1", disjoint=False)
        first.charge(build_charge(), build_caps(1))
    with Ledger.open(ledger_address) as second:
        assert second.id == first.id
        assert list_spent(second, build_caps(1)) == {"dp": Fraction(1, 10)}


def test_the_forms_of_an_address(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as one, Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as two:
        assert one.id == two.id
    for wrong in ("mysql://host/db", "sqlite://", "sqlite:///", ":memory:", ""):
        with pytest.raises(InvalidInput, match=r"ledger\.db"):
            Ledger.open(wrong)


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("ledger.db", "ledger.db-shm", "ledger.db-wal", "ledger.db.queue"), 0o600)


def test_every_commit_is_on_the_disk_before_it_returns(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger, ledger._database.begin_read() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_a_ledger_from_the_future_is_not_touched(ledger_address: str) -> None:
    with Ledger.open(ledger_address) as ledger:
        with ledger._database.begin_write() as connection:
            connection.exec_driver_sql(f"UPDATE ledger_about SET version = {FORMAT_VERSION + 1}")
        with pytest.raises(InvalidInput, match="newer discreet"):
            Ledger.open(ledger_address)


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be taken for one" * 100, b"SQLite format 3\0"]
)
def test_what_is_no_ledger_is_told_plainly(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    with pytest.raises(Unavailable, match="damaged, or is not a ledger"):
        Ledger.open(path)


LOCK = """\
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 2**30 + 2)
    except OSError:
        print("held")
"""
"""Tries, in another process, for the bytes that every reader of an SQLite file has locked."""


def test_to_look_at_a_file_drops_no_lock_on_it(tmp_path: Path) -> None:
    """POSIX locks go when any descriptor of their file is closed: who opens a ledger twice must keep them."""
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger, ledger._database.begin_read() as connection:
        connection.execute(select(about)).one()
        Ledger.existing(path).close()
        tried = subprocess.run([sys.executable, "-c", LOCK, path], check=True, capture_output=True, text=True)
    assert tried.stdout == "held\n"


def test_a_damaged_file_is_told_plainly(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(Unavailable, match="damaged, or is not a ledger"):
        Ledger.open(path).charge(build_charge(), build_caps(1))


@pytest.mark.parametrize("place", ["missing/ledger.db", "file/ledger.db", "folder"])
def test_a_place_that_cannot_be_opened_is_told_plainly(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(Unavailable, match="cannot be opened or written"):
        Ledger.open(tmp_path / place)


def test_a_postgresql_that_is_not_there_is_told_plainly(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be opened or written") as refusal:
        Ledger.open(f"postgresql://postgres:secret@/postgres?host={tmp_path}")
    assert "secret" not in str(refusal.value)


def test_a_ledger_that_stays_locked_is_unavailable_after_a_while(tmp_path: Path) -> None:
    """By someone at the database itself, and by someone at the head of the queue."""
    with Ledger.open(tmp_path / "ledger.db", timeout=0.2) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unavailable, match="stays locked"):
                ledger.charge(build_charge(), build_caps(1))
            other.execute("ROLLBACK")
        with (
            wait_by_ticket(tmp_path / "ledger.db.queue", time.monotonic() + 1),
            pytest.raises(Unavailable, match="locked"),
        ):
            ledger.charge(build_charge(), build_caps(1))
        assert ledger.charge(build_charge(), build_caps(1)).charged


def test_who_writes_has_the_database_alone_from_the_start(tmp_path: Path) -> None:
    """The queue is for fairness; this is what excludes whoever does not stand in it."""
    path = tmp_path / "ledger.db"
    with (
        Ledger.open(path) as ledger,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other,
        ledger._database.begin_write(),
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("BEGIN IMMEDIATE")


@pytest.mark.xdist_group("postgres")
def test_a_postgresql_that_stays_locked_is_unavailable_after_a_while(postgres: str) -> None:
    with Ledger.open(create_postgres_schema(postgres), timeout=0.2) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        with ledger._database.begin_write() as other:
            other.exec_driver_sql("SELECT * FROM ledger_heads FOR UPDATE")
            with pytest.raises(Unavailable, match="stays locked"):
                ledger.charge(build_charge(), build_caps(1))
        assert ledger.charge(build_charge(), build_caps(1)).charged


def test_a_fork_goes_on_with_a_connection_of_its_own(ledger: Ledger) -> None:
    """Parent and child charge in turn on the ledger that was open before the fork; the chain holds."""
    ledger.charge(build_charge("before"), build_caps(1))
    child = os.fork()
    if not child:
        code = 1
        try:
            ledger.charge(build_charge("child"), build_caps(1))
            ledger.store(DATASET, 3, "7")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    ledger.charge(build_charge("after"), build_caps(1))
    assert ledger.verify().entries == 5
    assert list_spent(ledger, build_caps(1)) == {"dp": Fraction(3, 10)}


# The queue


@pytest.mark.parametrize("turn", [wait_by_ticket, wait_by_flock])
def test_one_at_a_time_has_the_turn(tmp_path: Path, turn: object) -> None:
    inside, most = 0, 0

    def take_turn() -> None:
        nonlocal inside, most
        for _ in range(20):
            with turn(tmp_path / "queue", time.monotonic() + 60):  # type: ignore[operator]
                inside += 1
                most = max(most, inside)
                time.sleep(0.0005)
                inside -= 1

    threads = [threading.Thread(target=take_turn) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside, most) == (0, 1)


def test_turns_come_in_the_order_of_asking(tmp_path: Path) -> None:
    path, order = tmp_path / "queue", []

    def take_turn(number: int) -> None:
        with wait_by_ticket(path, time.monotonic() + 60):
            order.append(number)

    threads = [threading.Thread(target=take_turn, args=(number,)) for number in range(20)]
    with wait_by_ticket(path, time.monotonic() + 60):
        for number, thread in enumerate(threads):
            thread.start()
            _wait_for(lambda want=number + 2: int.from_bytes(path.read_bytes()) == want)
    for thread in threads:
        thread.join()
    assert order == list(range(20))


def test_whoever_dies_in_the_queue_holds_nobody_up_and_lets_nobody_in_early(tmp_path: Path) -> None:
    """A dead waiter's place closes up; whoever is before it still keeps its turn."""
    path = tmp_path / "queue"
    with wait_by_ticket(path, time.monotonic() + 60):
        waiter = processes.Process(target=_take_turn, args=(path,))
        waiter.start()
        _wait_for(lambda: int.from_bytes(path.read_bytes()) == 2)
        waiter.kill()
        waiter.join()
        with pytest.raises(Unavailable), wait_by_ticket(path, time.monotonic() + 0.05):
            pass
    with wait_by_ticket(path, time.monotonic() + 0.5):
        pass


def test_a_counter_that_someone_has_overwritten_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    with wait_by_ticket(path, time.monotonic() + 1):
        path.write_bytes(b"")
    path.write_bytes(b"\xff" * 100)
    for _ in range(2):
        with wait_by_ticket(path, time.monotonic() + 1):
            pass


def _take_turn(path: Path) -> None:
    with wait_by_ticket(path, time.monotonic() + 60):
        pass


def _wait_for(condition: object) -> None:
    deadline = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.001)
