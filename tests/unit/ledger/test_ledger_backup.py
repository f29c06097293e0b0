"""Back-up and restoring: one moment, whole or not at all, and what was forgotten since stays spent."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from test_ledger_crash import die_beyond

from discreet import BudgetExceeded, ClaimFailed, InvalidInput, Ledger, Unavailable
from discreet.ledger import storage
from discreet.ledger.accounts import EMPTY_ACCOUNT, Account, compute_debit
from discreet.ledger.charge import LedgerRestore, LedgerVerification
from discreet.ledger.connect import open_database
from discreet.ledger.storage import FORMAT_VERSION
from discreet.privacy.cost import SubAccount
from support.asked_registry import COUNT, registry_path, remove_ledger
from support.command_line import discreet, done
from support.ledger_stores import (
    DATASET,
    EVERY,
    ask,
    caps,
    fill,
    make_old,
    processes,
    pure,
    rows_of,
    schema_of,
    spent_of,
    unrecorded,
    where,
)

__all__ = ["registry_path", "unrecorded", "where"]  # fixtures

LIMITS = caps(10, delta="1e-6", models=EVERY)


@pytest.fixture(scope="module")
def full_ledger_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with every kind of entry, and a back-up of it beside it."""
    path = tmp_path_factory.mktemp("full") / "ledger.db"
    with Ledger.open(path) as ledger:
        fill(ledger)
    Ledger.backup(path, path.with_name("ledger.backup"))
    return path


@pytest.fixture
def copied_ledger(where: str, full_ledger_folder: Path) -> str:
    """The address of a ledger of one's own with every kind of entry."""
    if not where.startswith("postgresql:"):
        for path in full_ledger_folder.parent.glob("ledger.db*"):
            shutil.copy2(path, Path(where).with_name(path.name))
        return where
    with Ledger.open(where) as ledger:
        fill(ledger)
    return where


@pytest.fixture
def backup_path(tmp_path: Path) -> Path:
    """Where a back-up goes: a folder with nothing in it."""
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "ledger.backup"


@pytest.fixture
def lost_backup(backup_path: Path, full_ledger_folder: Path, tmp_path: Path) -> Path:
    """A back-up of a ledger with every kind of entry, which is `lost.db`."""
    shutil.copy2(full_ledger_folder, tmp_path / "lost.db")
    return Path(shutil.copy2(full_ledger_folder.with_name("ledger.backup"), backup_path))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))])
def empty_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address where there is no ledger yet, and no file."""
    if request.param == "postgres":
        return schema_of(request.getfixturevalue("postgres"))
    (tmp_path / "new").mkdir()
    return str(tmp_path / "new" / "ledger.db")


def verify_ledger(where: str | Path) -> LedgerVerification:
    with Ledger.existing(where) as ledger:
        return ledger.verify()


def read_ledger_id(where: str | Path) -> str:
    with Ledger.existing(where) as ledger:
        return ledger.id


def read_account(ledger: Ledger, owner: str) -> Account:
    """What an owner has spent on the whole of the data set."""
    with ledger._database.begin_read() as connection:
        head = storage.require_head(storage.find_head(connection, DATASET), DATASET)
        return storage.read_position(connection, head, owner, None, ()).root


def list_file_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def run_sql(path: str | Path, *statements: str) -> None:
    """Change a ledger behind its back."""
    with closing(open_database(str(path), 10)) as database, database.begin_write() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


# Back-up


def test_a_backup_is_the_ledger_in_one_file_for_its_owner(copied_ledger: str, backup_path: Path) -> None:
    head = Ledger.backup(copied_ledger, backup_path)
    assert list_file_names(backup_path.parent) == {backup_path.name}
    assert stat.S_IMODE(backup_path.stat().st_mode) == 0o600
    assert (
        backup_path.read_bytes()[18:20] == b"\1\1"
    )  # no write-ahead log, so that it can be read where nothing can be written
    assert rows_of(str(backup_path)) == rows_of(copied_ledger)
    assert head == verify_ledger(copied_ledger) == verify_ledger(backup_path)
    assert read_ledger_id(backup_path) == read_ledger_id(copied_ledger)


@pytest.mark.usefixtures("unrecorded")
def test_a_backup_of_an_older_ledger_has_its_format(where: str, backup_path: Path) -> None:
    """So that one can go back to the discreet that made it."""
    with Ledger.open(where) as ledger:
        fill(ledger)
    head = verify_ledger(where)
    make_old(where)
    before = rows_of(where)
    assert Ledger.backup(where, backup_path) == head
    with pytest.raises(InvalidInput, match="has format 1"):
        Ledger.existing(backup_path)
    with closing(sqlite3.connect(backup_path)) as engine:
        assert engine.execute("SELECT version FROM ledger_about").fetchone() == (1,)
        assert engine.execute("SELECT name FROM sqlite_master WHERE name = 'ledger_log'").fetchone() is None
    assert rows_of(str(backup_path)) == before
    assert Ledger.upgrade(backup_path) == 1
    assert verify_ledger(backup_path) == head


def charge_continually(where: str, start: Any, stop: Any) -> None:
    with Ledger.open(where, timeout=60) as ledger:
        start.set()
        for number in range(100_000):
            if stop.is_set():
                return
            receipt = ledger.charge(ask(f"new {number}", "0.00001", snapshot="s2"), LIMITS)
            ledger.store(DATASET, receipt.entry, "7")


def test_a_backup_is_of_one_moment_while_others_charge(copied_ledger: str, tmp_path: Path) -> None:
    """Each holds, and the ledger goes on from each."""
    start, stop = processes.Event(), processes.Event()
    charging = processes.Process(target=charge_continually, args=(copied_ledger, start, stop))
    charging.start()
    try:
        assert start.wait(60)
        counts = [Ledger.backup(copied_ledger, tmp_path / f"{number}.db").entries for number in range(4)]
    finally:
        stop.set()
        charging.join()
    assert charging.exitcode == 0
    assert counts == sorted(counts)
    final = rows_of(copied_ledger)["ledger_entries"]
    for number, count in enumerate(counts):
        entries = rows_of(str(tmp_path / f"{number}.db"))["ledger_entries"]
        assert len(entries) == count <= len(final)
        assert set(entries) <= set(final)
    assert counts[0] < len(final)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("there", "'there' is there already; name another, or replace an earlier back-up by --force"),
        ("folder", "'folder' is there already"),
        ("dangling", "'dangling' is there already"),
        ("missing/file", "the folder for 'file' does not exist; make it first"),
        ("open", "'open' is not there, but beside it is a -wal file of a ledger that was; stop the service"),
    ],
)
def test_a_backup_goes_to_a_new_file_only(tmp_path: Path, name: str, says: str) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        fill(ledger)
    folder = tmp_path / "backups"
    (folder / "folder").mkdir(parents=True)
    (folder / "there").write_text("notes")
    (folder / "open-wal").write_text("")
    (folder / "dangling").symlink_to(tmp_path / "nowhere")
    before = list_file_names(folder)
    refusal = discreet("ledger", "backup", tmp_path / "ledger.db", folder / name)
    assert refusal.code == 2
    assert says in refusal.err
    assert list_file_names(folder) == before
    assert (folder / "there").read_text() == "notes"


def test_what_is_no_ledger_is_not_copied(where: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no ledger 'none' there"):
        Ledger.backup(tmp_path / "none", tmp_path / "backup")
    open_database(where, 10).close()
    with pytest.raises(InvalidInput, match="there is no ledger in that database"):
        Ledger.backup(where, tmp_path / "backup")
    (tmp_path / "text").write_text("no database, but long enough to be taken for one" * 100)
    with pytest.raises(Unavailable, match="damaged, or is not a ledger"):
        Ledger.backup(tmp_path / "text", tmp_path / "backup")
    with pytest.raises(InvalidInput, match="a back-up goes to a file"):
        Ledger.backup(where, "postgresql://somewhere")
    assert not (tmp_path / "backup").exists()


def test_a_ledger_that_does_not_hold_is_not_copied(copied_ledger: str, backup_path: Path) -> None:
    """A back-up that held before is not replaced by one that does not."""
    Ledger.backup(copied_ledger, backup_path)
    before = backup_path.read_bytes()
    run_sql(copied_ledger, "UPDATE ledger_accounts SET dp = replace(dp, '1', '0')")
    for target, force in ((backup_path, True), (backup_path.with_name("other"), False)):
        with pytest.raises(ClaimFailed, match="does not follow from the entries"):
            Ledger.backup(copied_ledger, target, force=force)
    assert (list_file_names(backup_path.parent), backup_path.read_bytes()) == ({backup_path.name}, before)


def test_damaged_text_is_told_plainly(tmp_path: Path, backup_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        fill(ledger)
    run_sql(tmp_path / "ledger.db", "UPDATE ledger_answers SET answer = CAST(x'ff41' AS TEXT)")
    with pytest.raises(ClaimFailed, match="the ledger holds damaged text"):
        Ledger.backup(tmp_path / "ledger.db", backup_path)
    assert list_file_names(backup_path.parent) == set()


# Replacing a back-up


def test_force_replaces_an_earlier_backup_of_the_same_ledger(copied_ledger: str, backup_path: Path) -> None:
    first = Ledger.backup(copied_ledger, backup_path)
    with Ledger.open(copied_ledger) as ledger:
        ledger.charge(ask("later", snapshot="s2"), LIMITS)
    second = Ledger.backup(copied_ledger, backup_path, force=True)
    assert second.entries == first.entries + 1
    assert verify_ledger(backup_path) == second
    assert Ledger.backup(copied_ledger, backup_path.with_name("new"), force=True) == second


def test_force_replaces_nothing_else(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("ledger.db", "other.db", "notes", "data.db")]
    for path in places[:2]:
        with Ledger.open(path) as ledger:
            fill(ledger)
    places[2].write_text("notes")
    with closing(sqlite3.connect(places[3])) as engine:
        engine.execute("CREATE TABLE mine (a)")
    (tmp_path / "link").symlink_to(places[0])
    before = [path.read_bytes() for path in places]
    for name in ("other.db", "notes", "data.db"):
        with pytest.raises(InvalidInput, match=f"'{name}' is there and is no back-up of this ledger"):
            Ledger.backup(places[0], tmp_path / name, force=True)
    for name in ("ledger.db", "link"):
        with pytest.raises(InvalidInput, match="would replace the ledger itself"):
            Ledger.backup(places[0], tmp_path / name, force=True)
    assert [path.read_bytes() for path in places] == before
    assert not [
        name for name in list_file_names(tmp_path) if name.endswith(("-wal", "-journal")) or name.startswith(".")
    ]


def test_a_backup_with_entries_that_the_ledger_lacks_is_kept(
    copied_ledger: str, backup_path: Path, tmp_path: Path
) -> None:
    """Whoever puts an older copy in the ledger's place is found out by the next back-up."""
    older = tmp_path / "older.db"
    Ledger.backup(copied_ledger, older)
    with Ledger.open(copied_ledger) as ledger:
        ledger.charge(ask("later", snapshot="s2"), LIMITS)
    Ledger.backup(copied_ledger, backup_path)
    with Ledger.open(older) as ledger:
        ledger.charge(ask("another", snapshot="s2"), LIMITS)
        ledger.charge(ask("and more", snapshot="s2"), LIMITS)
    before = backup_path.read_bytes()
    with pytest.raises(ClaimFailed, match="has entries that the ledger lacks"):
        Ledger.backup(older, backup_path, force=True)
    assert backup_path.read_bytes() == before


# Restoring


def test_a_restored_ledger_goes_on(copied_ledger: str, backup_path: Path, empty_address: str) -> None:
    """From either engine to either: this is also how a ledger moves."""
    head = Ledger.backup(copied_ledger, backup_path)
    assert Ledger.restore(backup_path, empty_address, forgotten=0) == LedgerRestore(head, head)
    assert rows_of(empty_address) == rows_of(copied_ledger)
    assert read_ledger_id(empty_address) == read_ledger_id(copied_ledger)
    with Ledger.existing(empty_address) as ledger:
        assert ledger.charge(ask(2, snapshot="s2"), LIMITS).charged
        assert ledger.verify().entries == head.entries + 1
    assert Ledger.upgrade(empty_address) == FORMAT_VERSION


def test_a_restored_file_is_for_its_owner(lost_backup: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    Ledger.restore(lost_backup, tmp_path / "new" / "ledger.db", forgotten=0)
    assert list_file_names(tmp_path / "new") == {"ledger.db"}
    assert stat.S_IMODE((tmp_path / "new" / "ledger.db").stat().st_mode) == 0o600
    assert list_file_names(lost_backup.parent) == {lost_backup.name}


def test_nobody_is_told_to_move_the_newest_part_of_a_ledger_away(lost_backup: Path, tmp_path: Path) -> None:
    """Its charges are in the log beside it while a service has it open; a back-up onto it is no better."""
    ledger_path = tmp_path / "lost.db"
    with Ledger.open(ledger_path) as ledger:
        ledger.charge(ask(fresh=True, snapshot="s2"), LIMITS)
        assert (tmp_path / "lost.db-wal").stat().st_size
        with pytest.raises(
            InvalidInput, match=r"is there already; .* stop the service that has it open, then"
        ) as refusal:
            Ledger.restore(lost_backup, ledger_path, forgotten=0)
        assert "-wal" not in str(refusal.value)
        with pytest.raises(InvalidInput, match="would replace the ledger itself"):
            Ledger.backup(ledger_path, ledger_path, force=True)
        other = tmp_path / "other.db"
        Ledger.backup(ledger_path, other)
        with Ledger.open(other) as open_ledger:
            open_ledger.charge(ask(fresh=True, snapshot="s2"), LIMITS)
            with pytest.raises(
                InvalidInput, match="which may have its newest entries; stop what has it open"
            ) as refusal:
                Ledger.backup(ledger_path, other, force=True)
        assert "move" not in str(refusal.value)


def test_where_there_is_a_ledger_none_is_restored(lost_backup: Path, empty_address: str) -> None:
    with Ledger.open(empty_address) as ledger:
        ledger_id = ledger.id
    with pytest.raises(InvalidInput, match="restored only to where there is none"):
        Ledger.restore(lost_backup, empty_address, forgotten=0)
    assert (read_ledger_id(empty_address), verify_ledger(empty_address).entries) == (ledger_id, 0)


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("left", ["ledger_parts", "ledger_version"])
def test_where_tables_of_a_ledger_are_left_none_is_restored(lost_backup: Path, postgres: str, left: str) -> None:
    address = schema_of(postgres)
    run_sql(address, f"CREATE TABLE {left} (a TEXT)", "CREATE TABLE ledger_of_mine (a TEXT)")
    with pytest.raises(InvalidInput, match="or tables of one"):
        Ledger.restore(lost_backup, address, forgotten=0)
    run_sql(address, f"DROP TABLE {left}")
    assert Ledger.restore(lost_backup, address, forgotten=0).ledger == verify_ledger(address)


def test_a_log_that_a_lost_ledger_left_is_not_taken_for_the_restored_one(lost_backup: Path, tmp_path: Path) -> None:
    """SQLite would replay it into the restored file."""
    ledger_path = tmp_path / "ledger.db"
    for suffix in ("-wal", "-journal"):
        (tmp_path / f"ledger.db{suffix}").write_text("")
        with pytest.raises(InvalidInput, match=f"'ledger.db' is not there, but beside it is a {suffix} file"):
            Ledger.restore(lost_backup, ledger_path, forgotten=0)
        (tmp_path / f"ledger.db{suffix}").unlink()
    assert Ledger.restore(lost_backup, ledger_path, forgotten=0).ledger == verify_ledger(ledger_path)


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        ("UPDATE ledger_entries SET body = replace(body, '0.1', '0.2')", ClaimFailed, "is not what was written"),
        ("DELETE FROM ledger_entries WHERE seq = 9", ClaimFailed, "it is missing"),
        ("UPDATE ledger_heads SET weaker = NOT weaker", ClaimFailed, "does not follow from its entries"),
        ("DELETE FROM ledger_heads", ClaimFailed, "which has no head"),
        ("UPDATE ledger_about SET version = 1", InvalidInput, f"has format 1, this discreet needs {FORMAT_VERSION}"),
        (f"UPDATE ledger_about SET version = {FORMAT_VERSION + 1}", InvalidInput, "made by a newer discreet"),
        ("DROP TABLE ledger_about", InvalidInput, "there is no ledger in that database"),
        ("DROP TABLE ledger_parts", Unavailable, "damaged, or is not a ledger"),
    ],
)
def test_a_backup_that_does_not_hold_is_not_restored(
    lost_backup: Path, tmp_path: Path, damage: str, error: type[Exception], says: str
) -> None:
    run_sql(lost_backup, damage)
    (tmp_path / "new").mkdir()
    with pytest.raises(error, match=says):
        Ledger.restore(lost_backup, tmp_path / "new" / "ledger.db", forgotten=0)
    assert list_file_names(tmp_path / "new") == set()


def test_what_is_no_backup_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("notes")
    with pytest.raises(Unavailable, match="is not a ledger"):
        Ledger.restore(tmp_path / "notes", tmp_path / "ledger.db", forgotten=0)
    for wrong in (tmp_path / "none", tmp_path, "postgresql://somewhere"):
        with pytest.raises(InvalidInput, match="there is no back-up of that name"):
            Ledger.restore(wrong, tmp_path / "ledger.db", forgotten=0)
    assert list_file_names(tmp_path) == {"notes"}


def test_a_backup_that_is_open_is_not_restored(lost_backup: Path, tmp_path: Path) -> None:
    """What is in its log would be forgotten."""
    with Ledger.existing(lost_backup) as ledger:
        ledger.charge(ask("later", snapshot="s2"), LIMITS)
        with pytest.raises(InvalidInput, match="copy both by discreet ledger backup first"):
            Ledger.restore(lost_backup, tmp_path / "ledger.db", forgotten=0)
    assert Ledger.restore(lost_backup, tmp_path / "ledger.db", forgotten=0).ledger == verify_ledger(lost_backup)


def test_a_disk_without_links_has_a_backup_too(copied_ledger: str, backup_path: Path) -> None:
    with patch.object(os, "link", side_effect=PermissionError):
        head = Ledger.backup(copied_ledger, backup_path)
        backup_path.with_name("there").write_text("notes")
        with pytest.raises(InvalidInput, match="is there already"):
            Ledger.backup(copied_ledger, backup_path.with_name("there"))
    assert verify_ledger(backup_path) == head


def test_a_file_put_there_meanwhile_is_not_replaced(copied_ledger: str, backup_path: Path) -> None:
    def write_meanwhile(stage: str) -> None:
        if stage.startswith("verifying"):
            backup_path.write_text("notes")

    for force in (False, True):
        backup_path.unlink(missing_ok=True)
        with pytest.raises(InvalidInput, match="is there already"):
            Ledger.backup(copied_ledger, backup_path, force=force, progress=write_meanwhile)
    assert (list_file_names(backup_path.parent), backup_path.read_text()) == ({backup_path.name}, "notes")


# Stopped half-way


class StopAtStage:
    """Ends the work at one of its stages."""

    def __init__(self, last_stage: int, end: Callable[[], None]) -> None:
        self.left, self.end = last_stage, end

    def __call__(self, stage: str) -> None:
        assert stage
        self.left -= 1
        if not self.left:
            self.end()


def interrupt() -> None:
    raise KeyboardInterrupt


def count_stages(work: Callable[[Any], object]) -> int:
    """How many stages some work has."""
    stages: list[str] = []
    work(stages.append)
    return len(stages)


def test_a_backup_that_is_stopped_leaves_nothing(copied_ledger: str, backup_path: Path) -> None:
    stages = count_stages(
        lambda progress: Ledger.backup(copied_ledger, backup_path.with_name("whole"), progress=progress)
    )
    for index in range(1, stages + 1):
        with pytest.raises(KeyboardInterrupt):
            Ledger.backup(copied_ledger, backup_path, progress=StopAtStage(index, interrupt))
    assert list_file_names(backup_path.parent) == {"whole"}
    assert stages > 6


def test_a_restore_that_is_stopped_leaves_nothing(lost_backup: Path, empty_address: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole.db"
    stages = count_stages(lambda progress: Ledger.restore(lost_backup, whole, forgotten=1, progress=progress))
    for index in range(1, stages + 1):
        with pytest.raises(KeyboardInterrupt):
            Ledger.restore(lost_backup, empty_address, forgotten=1, progress=StopAtStage(index, interrupt))
    assert list_file_names(lost_backup.parent) == {lost_backup.name}
    assert Ledger.restore(lost_backup, empty_address, forgotten=0).ledger == verify_ledger(empty_address)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_killed_backup(where: str, backup_path: Path, stage: int) -> None:
    Ledger.backup(where, backup_path, force=True, progress=StopAtStage(stage, kill_itself))


def run_killed_restore(backup_path: Path, where: str, stage: int) -> None:
    Ledger.restore(backup_path, where, forgotten=1, progress=StopAtStage(stage, kill_itself))


def test_a_backup_that_is_killed_leaves_the_one_before(copied_ledger: str, backup_path: Path) -> None:
    before = Ledger.backup(copied_ledger, backup_path)
    with Ledger.open(copied_ledger) as ledger:
        ledger.charge(ask("later", snapshot="s2"), LIMITS)
    for stage in (1, 4, 8):
        process = processes.Process(target=run_killed_backup, args=(copied_ledger, backup_path, stage))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert verify_ledger(backup_path) == before
    assert Ledger.backup(copied_ledger, backup_path, force=True).entries == before.entries + 1


def test_a_restore_that_is_killed_leaves_nothing(lost_backup: Path, empty_address: str) -> None:
    for stage in (1, 8, 9):
        process = processes.Process(target=run_killed_restore, args=(lost_backup, empty_address, stage))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        with pytest.raises(InvalidInput, match="there is no ledger"):
            Ledger.existing(empty_address)
    assert Ledger.restore(lost_backup, empty_address, forgotten=0).ledger == verify_ledger(empty_address)


def run_limited_backup(where: str, backup_path: Path, most_bytes: int, queue: Any) -> None:
    die_beyond(most_bytes)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a disk that is full
    try:
        Ledger.backup(where, backup_path)
    except Unavailable as failure:
        queue.put(str(failure))
    else:
        queue.put("done")


def test_a_full_disk_is_told_plainly(copied_ledger: str, backup_path: Path) -> None:
    queue = processes.Queue()
    for most in (0, 5000, 50_000, 10**8):
        process = processes.Process(target=run_limited_backup, args=(copied_ledger, backup_path, most, queue))
        process.start()
        outcome = queue.get(timeout=60)
        process.join()
        assert outcome == "done" if most == 10**8 else "the room on its disk" in outcome
        assert list_file_names(backup_path.parent) == ({backup_path.name} if most == 10**8 else set())


# What was forgotten


def test_what_was_forgotten_is_spent_by_the_data_set_and_by_every_analyst(
    copied_ledger: str, backup_path: Path, empty_address: str
) -> None:
    head = Ledger.backup(copied_ledger, backup_path)
    restored = Ledger.restore(backup_path, empty_address, forgotten=Fraction(1, 2))
    assert restored.backup == head
    assert restored.ledger == verify_ledger(empty_address) != head
    half = compute_debit("dp", pure("0.5"))
    with Ledger.existing(copied_ledger) as before, Ledger.existing(empty_address) as after:
        for owner in ("", "ann", "bob", "custodian"):
            assert read_account(after, owner) == read_account(before, owner).plus(half)
        assert read_account(after, "eve") == EMPTY_ACCOUNT
        line = after.history(DATASET, "custodian")[0]
        assert (line.query, line.epsilon) == ("spend since the back-up that was restored", Fraction(1, 2))
        assert after.balance("empty", LIMITS)[0].epsilon == Fraction(1, 2)


def test_what_was_forgotten_is_entered_beyond_the_cap_too(lost_backup: Path, empty_address: str) -> None:
    """And then nothing more is answered, to those who had an account and to those who had none."""
    before = Ledger.restore(lost_backup, empty_address, forgotten=11).backup
    with Ledger.existing(empty_address) as ledger:
        assert [balance.left for balance in ledger.balance(DATASET, LIMITS)] == [0, 0, 0]
        for analyst in ("ann", "bob", "eve"):
            for part in (None, SubAccount("partition", "south", 2)):
                with pytest.raises(BudgetExceeded):
                    ledger.charge(ask("more", "0.0001", analyst, snapshot="s2", part=part), LIMITS)
        assert ledger.verify().entries == before.entries + 5 + 2


def test_a_forgotten_delta_is_spent_too(lost_backup: Path, empty_address: str) -> None:
    head = Ledger.restore(lost_backup, empty_address, forgotten=1, forgotten_delta=Fraction(1, 10**7))
    failing = {balance.model: balance.delta for balance in _read_balances(empty_address)}
    before = {balance.model: balance.delta for balance in _read_balances(lost_backup)}
    assert failing["approx-dp"] == before["approx-dp"] + Fraction(1, 10**7)
    assert verify_ledger(empty_address) == head.ledger
    assert head.ledger.entries == head.backup.entries + 2 * (5 + 2)


def _read_balances(where: str | Path) -> tuple[Any, ...]:
    with Ledger.existing(where) as ledger:
        return ledger.balance(DATASET, LIMITS)


def test_what_was_forgotten_again_is_spent_again(lost_backup: Path, tmp_path: Path) -> None:
    for number in range(3):
        ledger_path = tmp_path / f"{number}.db"
        before = [_read_spent(lost_backup, analyst) for analyst in (None, "ann", "bob", "custodian")]
        Ledger.restore(lost_backup, ledger_path, forgotten=1)
        assert [_read_spent(ledger_path, analyst) for analyst in (None, "ann", "bob", "custodian")] == [
            1 + spent_before for spent_before in before
        ]
        lost_backup = ledger_path


def _read_spent(where: Path, analyst: str | None) -> Fraction:
    with Ledger.existing(where) as ledger:
        return spent_of(ledger, LIMITS, analyst)["dp"] or Fraction(0)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "1", None, 10**10, Fraction(1, 10**50), True])
def test_what_was_forgotten_is_a_number(lost_backup: Path, tmp_path: Path, wrong: object) -> None:
    for forgotten in ({"forgotten": wrong}, {"forgotten": 1, "forgotten_delta": wrong}):
        with pytest.raises(InvalidInput):
            Ledger.restore(lost_backup, tmp_path / "ledger.db", **forgotten)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="a forgotten delta goes with a forgotten epsilon"):
        Ledger.restore(lost_backup, tmp_path / "ledger.db", forgotten=0, forgotten_delta=Fraction(1, 10))
    assert not (tmp_path / "ledger.db").exists()


# The commands, on a data set


def test_a_data_set_goes_on_with_its_restored_ledger(registry_path: Path, tmp_path: Path) -> None:
    ledger, copy = registry_path.parent / "registry.discreet" / "ledger.db", tmp_path / "copy.db"
    first = done("ask", registry_path, COUNT.format(age=50), "--epsilon", "0.25", "--json").document
    document = done("ledger", "backup", ledger, copy, "--json").document
    assert document | {"at": ""} == done("ledger", "verify", copy, "--json").document | {"at": ""}
    output = done("ledger", "backup", ledger, copy, "--force").out
    assert f"head of registry          {document['heads']['registry']}" in output
    assert f"head of the whole ledger  {document['head']}" in output
    done("ask", registry_path, COUNT.format(age=60), "--epsilon", "0.5")
    done("check", registry_path, "--refresh")
    remove_ledger(ledger)
    assert discreet("ask", registry_path, COUNT.format(age=60), "--epsilon", "0.5").code == 2
    output = done("ledger", "restore", copy, ledger, "--forgotten", "0.5").out
    assert all(head in output for head in (document["head"], document["heads"]["registry"]))
    assert "what was charged after this back-up is not in it" in output
    assert "Epsilon 0.5 was entered as spent since" in output
    spent = [line["spent"]["epsilon"] for line in done("budget", registry_path, "--json").document]
    assert spent[0] == "3/4"
    repeated = done("ask", registry_path, COUNT.format(age=50), "--epsilon", "0.25", "--json").document
    assert repeated["entry"] > first["entry"]  # of another snapshot, which the ledger was told of again
    assert done("ledger", "verify", ledger, "--json").document["entries"] == 3 + 3 + 1 + 2


def test_all_that_was_forgotten_is_confirmed(registry_path: Path, tmp_path: Path) -> None:
    """Epsilon and delta, and which head is of what."""
    ledger, copy, new = (
        registry_path.parent / "registry.discreet" / "ledger.db",
        tmp_path / "copy.db",
        tmp_path / "new.db",
    )
    document = done("ledger", "backup", ledger, copy, "--json").document
    output = done("ledger", "restore", copy, new, "--forgotten", "0.5", "--forgotten-delta", "1e-6").out
    assert "Epsilon 0.5 and delta 1e-6 were entered as spent since" in output
    now = done("ledger", "verify", new, "--json").document
    for when, heads in (("in the back-up", document), ("now", now)):
        lines = [" ".join(line.split()) for line in output.splitlines()]
        assert f"head of registry {when} {heads['heads']['registry']}" in lines
        assert f"head of the whole ledger {when} {heads['head']}" in lines


def test_the_commands_refuse_in_plain_words(registry_path: Path, tmp_path: Path) -> None:
    ledger, copy = registry_path.parent / "registry.discreet" / "ledger.db", tmp_path / "copy.db"
    done("ledger", "backup", ledger, copy)
    new = tmp_path / "new.db"
    refusals = [
        (("backup", ledger, copy), 2, "is there already"),
        (("backup", tmp_path / "none.db", copy), 2, "there is no ledger 'none.db' there"),
        (("restore", copy, new), 2, "Missing option '--forgotten'"),
        (("restore", copy, new, "--forgotten", "much"), 2, "--forgotten must be a plain number"),
        (("restore", copy, new, "--forgotten", "-1"), 2, "must be 0 or between"),
        (("restore", copy, new, "--forgotten", "1", "--forgotten-delta", "1"), 2, "delta must be below 1"),
        (("restore", copy, ledger, "--forgotten", "0"), 2, "restored only to where there is none"),
        (("restore", tmp_path / "none.db", new, "--forgotten", "0"), 2, "there is no back-up of that name"),
        (("restore", registry_path, new, "--forgotten", "0"), 5, "is not a ledger"),
    ]
    for words, code, says in refusals:
        refusal = discreet("ledger", *words)
        assert (refusal.code, refusal.out, says in refusal.err) == (code, "", True), refusal
    assert not new.exists()
    run_sql(copy, "UPDATE ledger_accounts SET dp = replace(dp, '25', '15')")
    broken = discreet("ledger", "restore", copy, new, "--forgotten", "0", "--json")
    assert (broken.code, broken.document["error"]["kind"]) == (6, "ClaimFailed")
    assert not new.exists()


def test_a_ledger_moves_to_postgresql_and_back(registry_path: Path, tmp_path: Path, postgres: str) -> None:
    ledger, there = registry_path.parent / "registry.discreet" / "ledger.db", schema_of(postgres)
    document = done("ledger", "backup", ledger, tmp_path / "copy.db", "--json").document
    moved = done("ledger", "restore", tmp_path / "copy.db", there, "--forgotten", "0", "--json").document
    del document["at"]
    assert moved == {"backup": document, "ledger": document}
    remove_ledger(ledger)
    done("ask", registry_path, COUNT.format(age=70), "--epsilon", "0.25", "--ledger", there)
    done("ledger", "backup", there, ledger)
    assert done("budget", registry_path, "--json").document[0]["spent"]["epsilon"] == "1/2"
