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
from support.command_line import run_discreet, run_successfully, write_registry
from support.ledger_stores import (
    DATASET,
    EVERY_MODEL,
    build_caps,
    build_charge,
    build_pure_cost,
    create_postgres_schema,
    fill_ledger,
    ledger_address,
    list_rows,
    list_spent,
    make_format_1,
    processes,
    without_terms,
)

__all__ = ["ledger_address", "without_terms"]  # fixtures

LIMITS = build_caps(10, delta="1e-6", models=EVERY_MODEL)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with every kind of entry, and a back-up of it beside it."""
    path = tmp_path_factory.mktemp("full") / "ledger.db"
    with Ledger.open(path) as ledger:
        fill_ledger(ledger)
    Ledger.backup(path, path.with_name("ledger.backup"))
    return path


@pytest.fixture
def filled(ledger_address: str, full: Path) -> str:
    """The address of a ledger of one's own with every kind of entry."""
    if not ledger_address.startswith("postgresql:"):
        for file in full.parent.glob("ledger.db*"):
            shutil.copy2(file, Path(ledger_address).with_name(file.name))
        return ledger_address
    with Ledger.open(ledger_address) as ledger:
        fill_ledger(ledger)
    return ledger_address


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a back-up goes: a folder with nothing in it."""
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "ledger.backup"


@pytest.fixture
def backed(file: Path, full: Path, tmp_path: Path) -> Path:
    """A back-up of a ledger with every kind of entry, which is `lost.db`."""
    shutil.copy2(full, tmp_path / "lost.db")
    return Path(shutil.copy2(full.with_name("ledger.backup"), file))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address where there is no ledger yet, and no file."""
    if request.param == "postgres":
        return create_postgres_schema(request.getfixturevalue("postgres"))
    (tmp_path / "new").mkdir()
    return str(tmp_path / "new" / "ledger.db")


def verified(ledger_address: str | Path) -> LedgerVerification:
    with Ledger.existing(ledger_address) as ledger:
        return ledger.verify()


def id_of(ledger_address: str | Path) -> str:
    with Ledger.existing(ledger_address) as ledger:
        return ledger.id


def account_of(ledger: Ledger, owner: str) -> Account:
    """What an owner has spent on the whole of the data set."""
    with ledger._database.begin_read() as connection:
        head = storage.require_head(storage.find_head(connection, DATASET), DATASET)
        return storage.read_position(connection, head, owner, None, ()).root


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def run_sql(path: str | Path, *statements: str) -> None:
    """Change a ledger behind its back."""
    with closing(open_database(str(path), 10)) as database, database.begin_write() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


# Back-up


def test_a_backup_is_the_ledger_in_one_file_for_its_owner(filled: str, file: Path) -> None:
    told = Ledger.backup(filled, file)
    assert names(file.parent) == {file.name}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (
        file.read_bytes()[18:20] == b"\1\1"
    )  # no write-ahead log, so that it can be read where nothing can be written
    assert list_rows(str(file)) == list_rows(filled)
    assert told == verified(filled) == verified(file)
    assert id_of(file) == id_of(filled)


@pytest.mark.usefixtures("without_terms")
def test_a_backup_of_an_older_ledger_has_its_format(ledger_address: str, file: Path) -> None:
    """So that one can go back to the discreet that made it."""
    with Ledger.open(ledger_address) as ledger:
        fill_ledger(ledger)
    head = verified(ledger_address)
    make_format_1(ledger_address)
    before = list_rows(ledger_address)
    assert Ledger.backup(ledger_address, file) == head
    with pytest.raises(InvalidInput, match="has format 1"):
        Ledger.existing(file)
    with closing(sqlite3.connect(file)) as engine:
        assert engine.execute("SELECT version FROM ledger_about").fetchone() == (1,)
        assert engine.execute("SELECT name FROM sqlite_master WHERE name = 'ledger_log'").fetchone() is None
    assert list_rows(str(file)) == before
    assert Ledger.upgrade(file) == 1
    assert verified(file) == head


def charge_on(ledger_address: str, start: Any, stop: Any) -> None:
    with Ledger.open(ledger_address, timeout=60) as ledger:
        start.set()
        for number in range(100_000):
            if stop.is_set():
                return
            receipt = ledger.charge(build_charge(f"new {number}", "0.00001", snapshot="s2"), LIMITS)
            ledger.store(DATASET, receipt.entry, "7")


def test_a_backup_is_of_one_moment_while_others_charge(filled: str, tmp_path: Path) -> None:
    """Each holds, and the ledger goes on from each."""
    start, stop = processes.Event(), processes.Event()
    charging = processes.Process(target=charge_on, args=(filled, start, stop))
    charging.start()
    try:
        assert start.wait(60)
        counts = [Ledger.backup(filled, tmp_path / f"{number}.db").entries for number in range(4)]
    finally:
        stop.set()
        charging.join()
    assert charging.exitcode == 0
    assert counts == sorted(counts)
    final = list_rows(filled)["ledger_entries"]
    for number, count in enumerate(counts):
        entries = list_rows(str(tmp_path / f"{number}.db"))["ledger_entries"]
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
        fill_ledger(ledger)
    folder = tmp_path / "backups"
    (folder / "folder").mkdir(parents=True)
    (folder / "there").write_text("notes")
    (folder / "open-wal").write_text("")
    (folder / "dangling").symlink_to(tmp_path / "nowhere")
    before = names(folder)
    refused = run_discreet("ledger", "backup", tmp_path / "ledger.db", folder / name)
    assert refused.code == 2
    assert says in refused.err
    assert names(folder) == before
    assert (folder / "there").read_text() == "notes"


def test_what_is_no_ledger_is_not_copied(ledger_address: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no ledger 'none' there"):
        Ledger.backup(tmp_path / "none", tmp_path / "backup")
    open_database(ledger_address, 10).close()
    with pytest.raises(InvalidInput, match="there is no ledger in that database"):
        Ledger.backup(ledger_address, tmp_path / "backup")
    (tmp_path / "text").write_text("no database, but long enough to be taken for one" * 100)
    with pytest.raises(Unavailable, match="damaged, or is not a ledger"):
        Ledger.backup(tmp_path / "text", tmp_path / "backup")
    with pytest.raises(InvalidInput, match="a back-up goes to a file"):
        Ledger.backup(ledger_address, "postgresql://somewhere")
    assert not (tmp_path / "backup").exists()


def test_a_ledger_that_does_not_hold_is_not_copied(filled: str, file: Path) -> None:
    """A back-up that held before is not replaced by one that does not."""
    Ledger.backup(filled, file)
    before = file.read_bytes()
    run_sql(filled, "UPDATE ledger_accounts SET dp = replace(dp, '1', '0')")
    for target, force in ((file, True), (file.with_name("other"), False)):
        with pytest.raises(ClaimFailed, match="does not follow from the entries"):
            Ledger.backup(filled, target, force=force)
    assert (names(file.parent), file.read_bytes()) == ({file.name}, before)


def test_damaged_text_is_told_plainly(tmp_path: Path, file: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        fill_ledger(ledger)
    run_sql(tmp_path / "ledger.db", "UPDATE ledger_answers SET answer = CAST(x'ff41' AS TEXT)")
    with pytest.raises(ClaimFailed, match="the ledger holds damaged text"):
        Ledger.backup(tmp_path / "ledger.db", file)
    assert names(file.parent) == set()


# Replacing a back-up


def test_force_replaces_an_earlier_backup_of_the_same_ledger(filled: str, file: Path) -> None:
    first = Ledger.backup(filled, file)
    with Ledger.open(filled) as ledger:
        ledger.charge(build_charge("later", snapshot="s2"), LIMITS)
    second = Ledger.backup(filled, file, force=True)
    assert second.entries == first.entries + 1
    assert verified(file) == second
    assert Ledger.backup(filled, file.with_name("new"), force=True) == second


def test_force_replaces_nothing_else(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("ledger.db", "other.db", "notes", "data.db")]
    for place in places[:2]:
        with Ledger.open(place) as ledger:
            fill_ledger(ledger)
    places[2].write_text("notes")
    with closing(sqlite3.connect(places[3])) as engine:
        engine.execute("CREATE TABLE mine (a)")
    (tmp_path / "link").symlink_to(places[0])
    before = [place.read_bytes() for place in places]
    for name in ("other.db", "notes", "data.db"):
        with pytest.raises(InvalidInput, match=f"'{name}' is there and is no back-up of this ledger"):
            Ledger.backup(places[0], tmp_path / name, force=True)
    for name in ("ledger.db", "link"):
        with pytest.raises(InvalidInput, match="would replace the ledger itself"):
            Ledger.backup(places[0], tmp_path / name, force=True)
    assert [place.read_bytes() for place in places] == before
    assert not [name for name in names(tmp_path) if name.endswith(("-wal", "-journal")) or name.startswith(".")]


def test_a_backup_with_entries_that_the_ledger_lacks_is_kept(filled: str, file: Path, tmp_path: Path) -> None:
    """Whoever puts an older copy in the ledger's place is found out by the next back-up."""
    older = tmp_path / "older.db"
    Ledger.backup(filled, older)
    with Ledger.open(filled) as ledger:
        ledger.charge(build_charge("later", snapshot="s2"), LIMITS)
    Ledger.backup(filled, file)
    with Ledger.open(older) as ledger:
        ledger.charge(build_charge("another", snapshot="s2"), LIMITS)
        ledger.charge(build_charge("and more", snapshot="s2"), LIMITS)
    before = file.read_bytes()
    with pytest.raises(ClaimFailed, match="has entries that the ledger lacks"):
        Ledger.backup(older, file, force=True)
    assert file.read_bytes() == before


# Restoring


def test_a_restored_ledger_goes_on(filled: str, file: Path, place: str) -> None:
    """From either engine to either: this is also how a ledger moves."""
    told = Ledger.backup(filled, file)
    assert Ledger.restore(file, place, forgotten=0) == LedgerRestore(told, told)
    assert list_rows(place) == list_rows(filled)
    assert id_of(place) == id_of(filled)
    with Ledger.existing(place) as ledger:
        assert ledger.charge(build_charge(2, snapshot="s2"), LIMITS).charged
        assert ledger.verify().entries == told.entries + 1
    assert Ledger.upgrade(place) == FORMAT_VERSION


def test_a_restored_file_is_for_its_owner(backed: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    Ledger.restore(backed, tmp_path / "new" / "ledger.db", forgotten=0)
    assert names(tmp_path / "new") == {"ledger.db"}
    assert stat.S_IMODE((tmp_path / "new" / "ledger.db").stat().st_mode) == 0o600
    assert names(backed.parent) == {backed.name}


def test_nobody_is_told_to_move_the_newest_part_of_a_ledger_away(backed: Path, tmp_path: Path) -> None:
    """Its charges are in the log beside it while a service has it open; a back-up onto it is no better."""
    place = tmp_path / "lost.db"
    with Ledger.open(place) as ledger:
        ledger.charge(build_charge(fresh=True, snapshot="s2"), LIMITS)
        assert (tmp_path / "lost.db-wal").stat().st_size
        with pytest.raises(InvalidInput, match=r"is there already; .* stop the service that has it open, then") as told:
            Ledger.restore(backed, place, forgotten=0)
        assert "-wal" not in str(told.value)
        with pytest.raises(InvalidInput, match="would replace the ledger itself"):
            Ledger.backup(place, place, force=True)
        other = tmp_path / "other.db"
        Ledger.backup(place, other)
        with Ledger.open(other) as held:
            held.charge(build_charge(fresh=True, snapshot="s2"), LIMITS)
            with pytest.raises(InvalidInput, match="which may have its newest entries; stop what has it open") as told:
                Ledger.backup(place, other, force=True)
        assert "move" not in str(told.value)


def test_where_there_is_a_ledger_none_is_restored(backed: Path, place: str) -> None:
    with Ledger.open(place) as ledger:
        kept = ledger.id
    with pytest.raises(InvalidInput, match="restored only to where there is none"):
        Ledger.restore(backed, place, forgotten=0)
    assert (id_of(place), verified(place).entries) == (kept, 0)


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("left", ["ledger_parts", "ledger_version"])
def test_where_tables_of_a_ledger_are_left_none_is_restored(backed: Path, postgres: str, left: str) -> None:
    place = create_postgres_schema(postgres)
    run_sql(place, f"CREATE TABLE {left} (a TEXT)", "CREATE TABLE ledger_of_mine (a TEXT)")
    with pytest.raises(InvalidInput, match="or tables of one"):
        Ledger.restore(backed, place, forgotten=0)
    run_sql(place, f"DROP TABLE {left}")
    assert Ledger.restore(backed, place, forgotten=0).ledger == verified(place)


def test_a_log_that_a_lost_ledger_left_is_not_taken_for_the_restored_one(backed: Path, tmp_path: Path) -> None:
    """SQLite would replay it into the restored file."""
    place = tmp_path / "ledger.db"
    for suffix in ("-wal", "-journal"):
        (tmp_path / f"ledger.db{suffix}").write_text("")
        with pytest.raises(InvalidInput, match=f"'ledger.db' is not there, but beside it is a {suffix} file"):
            Ledger.restore(backed, place, forgotten=0)
        (tmp_path / f"ledger.db{suffix}").unlink()
    assert Ledger.restore(backed, place, forgotten=0).ledger == verified(place)


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
    backed: Path, tmp_path: Path, damage: str, error: type[Exception], says: str
) -> None:
    run_sql(backed, damage)
    (tmp_path / "new").mkdir()
    with pytest.raises(error, match=says):
        Ledger.restore(backed, tmp_path / "new" / "ledger.db", forgotten=0)
    assert names(tmp_path / "new") == set()


def test_what_is_no_backup_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("notes")
    with pytest.raises(Unavailable, match="is not a ledger"):
        Ledger.restore(tmp_path / "notes", tmp_path / "ledger.db", forgotten=0)
    for wrong in (tmp_path / "none", tmp_path, "postgresql://somewhere"):
        with pytest.raises(InvalidInput, match="there is no back-up of that name"):
            Ledger.restore(wrong, tmp_path / "ledger.db", forgotten=0)
    assert names(tmp_path) == {"notes"}


def test_a_backup_that_is_open_is_not_restored(backed: Path, tmp_path: Path) -> None:
    """What is in its log would be forgotten."""
    with Ledger.existing(backed) as ledger:
        ledger.charge(build_charge("later", snapshot="s2"), LIMITS)
        with pytest.raises(InvalidInput, match="copy both by discreet ledger backup first"):
            Ledger.restore(backed, tmp_path / "ledger.db", forgotten=0)
    assert Ledger.restore(backed, tmp_path / "ledger.db", forgotten=0).ledger == verified(backed)


def test_a_disk_without_links_has_a_backup_too(filled: str, file: Path) -> None:
    with patch.object(os, "link", side_effect=PermissionError):
        told = Ledger.backup(filled, file)
        file.with_name("there").write_text("notes")
        with pytest.raises(InvalidInput, match="is there already"):
            Ledger.backup(filled, file.with_name("there"))
    assert verified(file) == told


def test_a_file_put_there_meanwhile_is_not_replaced(filled: str, file: Path) -> None:
    def put(stage: str) -> None:
        if stage.startswith("verifying"):
            file.write_text("notes")

    for force in (False, True):
        file.unlink(missing_ok=True)
        with pytest.raises(InvalidInput, match="is there already"):
            Ledger.backup(filled, file, force=force, progress=put)
    assert (names(file.parent), file.read_text()) == ({file.name}, "notes")


# Stopped half-way


class Stop:
    """Ends the work at one of its stages."""

    def __init__(self, at: int, end: Callable[[], None]) -> None:
        self.left, self.end = at, end

    def __call__(self, stage: str) -> None:
        assert stage
        self.left -= 1
        if not self.left:
            self.end()


def interrupt() -> None:
    raise KeyboardInterrupt


def stages_of(work: Callable[[Any], object]) -> int:
    """How many stages some work has."""
    told: list[str] = []
    work(told.append)
    return len(told)


def test_a_backup_that_is_stopped_leaves_nothing(filled: str, file: Path) -> None:
    stages = stages_of(lambda progress: Ledger.backup(filled, file.with_name("whole"), progress=progress))
    for at in range(1, stages + 1):
        with pytest.raises(KeyboardInterrupt):
            Ledger.backup(filled, file, progress=Stop(at, interrupt))
    assert names(file.parent) == {"whole"}
    assert stages > 6


def test_a_restore_that_is_stopped_leaves_nothing(backed: Path, place: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole.db"
    stages = stages_of(lambda progress: Ledger.restore(backed, whole, forgotten=1, progress=progress))
    for at in range(1, stages + 1):
        with pytest.raises(KeyboardInterrupt):
            Ledger.restore(backed, place, forgotten=1, progress=Stop(at, interrupt))
    assert names(backed.parent) == {backed.name}
    assert Ledger.restore(backed, place, forgotten=0).ledger == verified(place)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_backup(ledger_address: str, file: Path, at: int) -> None:
    Ledger.backup(ledger_address, file, force=True, progress=Stop(at, kill))


def killed_restore(file: Path, ledger_address: str, at: int) -> None:
    Ledger.restore(file, ledger_address, forgotten=1, progress=Stop(at, kill))


def test_a_backup_that_is_killed_leaves_the_one_before(filled: str, file: Path) -> None:
    before = Ledger.backup(filled, file)
    with Ledger.open(filled) as ledger:
        ledger.charge(build_charge("later", snapshot="s2"), LIMITS)
    for at in (1, 4, 8):
        process = processes.Process(target=killed_backup, args=(filled, file, at))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert verified(file) == before
    assert Ledger.backup(filled, file, force=True).entries == before.entries + 1


def test_a_restore_that_is_killed_leaves_nothing(backed: Path, place: str) -> None:
    for at in (1, 8, 9):
        process = processes.Process(target=killed_restore, args=(backed, place, at))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        with pytest.raises(InvalidInput, match="there is no ledger"):
            Ledger.existing(place)
    assert Ledger.restore(backed, place, forgotten=0).ledger == verified(place)


def backup_with(ledger_address: str, file: Path, most_bytes: int, told: Any) -> None:
    die_beyond(most_bytes)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a disk that is full
    try:
        Ledger.backup(ledger_address, file)
    except Unavailable as failure:
        told.put(str(failure))
    else:
        told.put("done")


def test_a_full_disk_is_told_plainly(filled: str, file: Path) -> None:
    told = processes.Queue()
    for most in (0, 5000, 50_000, 10**8):
        process = processes.Process(target=backup_with, args=(filled, file, most, told))
        process.start()
        said = told.get(timeout=60)
        process.join()
        assert said == "done" if most == 10**8 else "the room on its disk" in said
        assert names(file.parent) == ({file.name} if most == 10**8 else set())


# What was forgotten


def test_what_was_forgotten_is_spent_by_the_data_set_and_by_every_analyst(filled: str, file: Path, place: str) -> None:
    told = Ledger.backup(filled, file)
    restored = Ledger.restore(file, place, forgotten=Fraction(1, 2))
    assert restored.backup == told
    assert restored.ledger == verified(place) != told
    half = compute_debit("dp", build_pure_cost("0.5"))
    with Ledger.existing(filled) as before, Ledger.existing(place) as after:
        for owner in ("", "ann", "bob", "custodian"):
            assert account_of(after, owner) == account_of(before, owner).plus(half)
        assert account_of(after, "eve") == EMPTY_ACCOUNT
        line = after.history(DATASET, "custodian")[0]
        assert (line.query, line.epsilon) == ("spend since the back-up that was restored", Fraction(1, 2))
        assert after.balance("empty", LIMITS)[0].epsilon == Fraction(1, 2)


def test_what_was_forgotten_is_entered_beyond_the_cap_too(backed: Path, place: str) -> None:
    """And then nothing more is answered, to those who had an account and to those who had none."""
    before = Ledger.restore(backed, place, forgotten=11).backup
    with Ledger.existing(place) as ledger:
        assert [balance.left for balance in ledger.balance(DATASET, LIMITS)] == [0, 0, 0]
        for analyst in ("ann", "bob", "eve"):
            for part in (None, SubAccount("partition", "south", 2)):
                with pytest.raises(BudgetExceeded):
                    ledger.charge(build_charge("more", "0.0001", analyst, snapshot="s2", part=part), LIMITS)
        assert ledger.verify().entries == before.entries + 5 + 2


def test_a_forgotten_delta_is_spent_too(backed: Path, place: str) -> None:
    told = Ledger.restore(backed, place, forgotten=1, forgotten_delta=Fraction(1, 10**7))
    failing = {balance.model: balance.delta for balance in _balances(place)}
    before = {balance.model: balance.delta for balance in _balances(backed)}
    assert failing["approx-dp"] == before["approx-dp"] + Fraction(1, 10**7)
    assert verified(place) == told.ledger
    assert told.ledger.entries == told.backup.entries + 2 * (5 + 2)


def _balances(ledger_address: str | Path) -> tuple[Any, ...]:
    with Ledger.existing(ledger_address) as ledger:
        return ledger.balance(DATASET, LIMITS)


def test_what_was_forgotten_again_is_spent_again(backed: Path, tmp_path: Path) -> None:
    for number in range(3):
        place = tmp_path / f"{number}.db"
        before = [_spent(backed, analyst) for analyst in (None, "ann", "bob", "custodian")]
        Ledger.restore(backed, place, forgotten=1)
        assert [_spent(place, analyst) for analyst in (None, "ann", "bob", "custodian")] == [1 + one for one in before]
        backed = place


def _spent(ledger_address: Path, analyst: str | None) -> Fraction:
    with Ledger.existing(ledger_address) as ledger:
        return list_spent(ledger, LIMITS, analyst)["dp"] or Fraction(0)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "1", None, 10**10, Fraction(1, 10**50), True])
def test_what_was_forgotten_is_a_number(backed: Path, tmp_path: Path, wrong: object) -> None:
    for forgotten in ({"forgotten": wrong}, {"forgotten": 1, "forgotten_delta": wrong}):
        with pytest.raises(InvalidInput):
            Ledger.restore(backed, tmp_path / "ledger.db", **forgotten)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="a forgotten delta goes with a forgotten epsilon"):
        Ledger.restore(backed, tmp_path / "ledger.db", forgotten=0, forgotten_delta=Fraction(1, 10))
    assert not (tmp_path / "ledger.db").exists()


# The commands, on a data set


COUNT = "SELECT COUNT(*) FROM registry WHERE age > {age}"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """The sample registry, asked once."""
    made = write_registry(tmp_path)
    run_successfully("ask", made, COUNT.format(age=50), "--epsilon", "0.25")
    return made


def lose(ledger: Path) -> None:
    for path in ledger.parent.glob("ledger.db*"):
        path.unlink()


def test_a_data_set_goes_on_with_its_restored_ledger(schema: Path, tmp_path: Path) -> None:
    ledger, copy = schema.parent / "registry.discreet" / "ledger.db", tmp_path / "copy.db"
    first = run_successfully("ask", schema, COUNT.format(age=50), "--epsilon", "0.25", "--json").document
    told = run_successfully("ledger", "backup", ledger, copy, "--json").document
    assert told | {"at": ""} == run_successfully("ledger", "verify", copy, "--json").document | {"at": ""}
    said = run_successfully("ledger", "backup", ledger, copy, "--force").out
    assert f"head of registry          {told['heads']['registry']}" in said
    assert f"head of the whole ledger  {told['head']}" in said
    run_successfully("ask", schema, COUNT.format(age=60), "--epsilon", "0.5")
    run_successfully("check", schema, "--refresh")
    lose(ledger)
    assert run_discreet("ask", schema, COUNT.format(age=60), "--epsilon", "0.5").code == 2
    said = run_successfully("ledger", "restore", copy, ledger, "--forgotten", "0.5").out
    assert all(head in said for head in (told["head"], told["heads"]["registry"]))
    assert "what was charged after this back-up is not in it" in said
    assert "Epsilon 0.5 was entered as spent since" in said
    spent = [line["spent"]["epsilon"] for line in run_successfully("budget", schema, "--json").document]
    assert spent[0] == "3/4"
    again = run_successfully("ask", schema, COUNT.format(age=50), "--epsilon", "0.25", "--json").document
    assert again["entry"] > first["entry"]  # of another snapshot, which the ledger was told of again
    assert run_successfully("ledger", "verify", ledger, "--json").document["entries"] == 3 + 3 + 1 + 2


def test_all_that_was_forgotten_is_confirmed(schema: Path, tmp_path: Path) -> None:
    """Epsilon and delta, and which head is of what."""
    ledger, copy, new = schema.parent / "registry.discreet" / "ledger.db", tmp_path / "copy.db", tmp_path / "new.db"
    told = run_successfully("ledger", "backup", ledger, copy, "--json").document
    said = run_successfully("ledger", "restore", copy, new, "--forgotten", "0.5", "--forgotten-delta", "1e-6").out
    assert "Epsilon 0.5 and delta 1e-6 were entered as spent since" in said
    now = run_successfully("ledger", "verify", new, "--json").document
    for when, heads in (("in the back-up", told), ("now", now)):
        lines = [" ".join(line.split()) for line in said.splitlines()]
        assert f"head of registry {when} {heads['heads']['registry']}" in lines
        assert f"head of the whole ledger {when} {heads['head']}" in lines


def test_the_commands_refuse_in_plain_words(schema: Path, tmp_path: Path) -> None:
    ledger, copy = schema.parent / "registry.discreet" / "ledger.db", tmp_path / "copy.db"
    run_successfully("ledger", "backup", ledger, copy)
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
        (("restore", schema, new, "--forgotten", "0"), 5, "is not a ledger"),
    ]
    for words, code, says in refusals:
        refused = run_discreet("ledger", *words)
        assert (refused.code, refused.out, says in refused.err) == (code, "", True), refused
    assert not new.exists()
    run_sql(copy, "UPDATE ledger_accounts SET dp = replace(dp, '25', '15')")
    broken = run_discreet("ledger", "restore", copy, new, "--forgotten", "0", "--json")
    assert (broken.code, broken.document["error"]["kind"]) == (6, "ClaimFailed")
    assert not new.exists()


def test_a_ledger_moves_to_postgresql_and_back(schema: Path, tmp_path: Path, postgres: str) -> None:
    ledger, there = schema.parent / "registry.discreet" / "ledger.db", create_postgres_schema(postgres)
    told = run_successfully("ledger", "backup", ledger, tmp_path / "copy.db", "--json").document
    moved = run_successfully("ledger", "restore", tmp_path / "copy.db", there, "--forgotten", "0", "--json").document
    del told["at"]
    assert moved == {"backup": told, "ledger": told}
    lose(ledger)
    run_successfully("ask", schema, COUNT.format(age=70), "--epsilon", "0.25", "--ledger", there)
    run_successfully("ledger", "backup", there, ledger)
    assert run_successfully("budget", schema, "--json").document[0]["spent"]["epsilon"] == "1/2"
