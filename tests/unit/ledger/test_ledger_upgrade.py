"""From the tables of an older discreet to those of this one: a custodian's act, all or nothing; no entry changes."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, inspect
from test_ledger_crash import die_beyond

from discreet import InvalidInput, Ledger
from discreet.ledger import connect
from discreet.ledger.connect import open_database
from discreet.ledger.storage import FORMAT_VERSION, METADATA, MIGRATIONS_DIR, VERSION_TABLE, Database
from support.command_line import run_discreet, run_successfully
from support.ledger_stores import (
    DATASET,
    build_caps,
    build_charge,
    fill_ledger,
    ledger_address,
    list_rows,
    make_format_1,
    processes,
    without_terms,
)

__all__ = ["ledger_address", "without_terms"]  # fixtures
pytestmark = pytest.mark.usefixtures("without_terms")


@pytest.fixture
def empty_database(ledger_address: str) -> Iterator[Database]:
    """A database without tables."""
    with closing(open_database(ledger_address, 10)) as opened:
        yield opened


@pytest.fixture
def old_ledger(ledger_address: str) -> str:
    """The address of a ledger that an older discreet made."""
    with Ledger.open(ledger_address) as ledger:
        fill_ledger(ledger)
    make_format_1(ledger_address)
    return ledger_address


def read_shape(ledger_address: str) -> list[tuple[Any, ...]]:
    """Every table, column and index, as the engine tells them."""
    with closing(open_database(ledger_address, 10)) as database, database.begin_read() as connection:
        return sorted(_list_shape(connection))


def _list_shape(connection: Connection) -> Iterator[tuple[Any, ...]]:
    if connection.dialect.name == "sqlite":
        for kind, name, sql in connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master"):
            yield kind, name, " ".join((sql or "").split())
        return
    columns = (
        "table_name, column_name, ordinal_position, data_type, is_nullable, column_default, character_maximum_length"
    )
    here = "= current_schema()"
    for row in connection.exec_driver_sql(
        f"SELECT {columns} FROM information_schema.columns WHERE table_schema {here}"
    ):
        yield tuple(map(str, row))
    for name, definition in connection.exec_driver_sql(
        f"SELECT indexname, indexdef FROM pg_indexes WHERE schemaname {here}"
    ):
        yield name, re.sub(r"ledger_[0-9a-f]{32}\.", "", definition)
    for row in connection.exec_driver_sql(
        f"SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace {here}::regnamespace"
    ):
        yield tuple(map(str, row))


def read_format(ledger_address: str) -> int:
    """The format that a ledger says it has."""
    with closing(open_database(ledger_address, 10)) as database, database.begin_read() as connection:
        return int(connection.exec_driver_sql("SELECT version FROM ledger_about").scalar_one())


# The versions


def test_all_versions_one_after_another_make_the_tables_of_a_new_ledger(ledger_address: str) -> None:
    with closing(open_database(ledger_address, 10)) as database, database.begin_write() as connection:
        connect.run_migrations(connection, MIGRATIONS_DIR, VERSION_TABLE)
    table_names = read_shape(ledger_address)
    with closing(open_database(ledger_address, 10)) as database, database.begin_write() as connection:
        for name in (*METADATA.tables, VERSION_TABLE):
            connection.exec_driver_sql(f"DROP TABLE {name}")
    Ledger.open(ledger_address).close()
    assert table_names == read_shape(ledger_address)
    assert {"ledger_log", "ledger_key", VERSION_TABLE} <= {str(part) for row in table_names for part in row[:2]}


def test_a_new_ledger_says_that_it_has_the_last_version(ledger_address: str) -> None:
    with Ledger.open(ledger_address) as ledger, ledger._database.begin_read() as connection:
        assert connect.find_revision(connection, VERSION_TABLE) == str(FORMAT_VERSION)
    assert {path.stem for path in MIGRATIONS_DIR.glob("format_*.py")} == {
        f"format_{n}" for n in range(1, FORMAT_VERSION + 1)
    }


def test_the_first_version_is_what_an_old_ledger_has(old_ledger: str) -> None:
    table_names = read_shape(old_ledger)
    with closing(open_database(old_ledger, 10)) as database, database.begin_write() as connection:
        for name in inspect(connection).get_table_names():
            connection.exec_driver_sql(f"DROP TABLE {name}")
        connect.run_migrations(connection, MIGRATIONS_DIR, VERSION_TABLE, "1")
        connection.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")
    assert table_names == read_shape(old_ledger)


# The custodian's act


def test_an_older_ledger_is_not_opened_and_not_touched(old_ledger: str) -> None:
    before = read_shape(old_ledger)
    for opened in (Ledger.open, Ledger.existing):
        with pytest.raises(InvalidInput) as refusal:
            opened(old_ledger)
        assert str(refusal.value) == (
            f"the ledger has format 1, this discreet needs {FORMAT_VERSION}; copy it (discreet ledger backup) and run: "
            "discreet ledger upgrade"
        )
    assert read_shape(old_ledger) == before


def test_an_upgrade_changes_no_row_and_no_hash(ledger_address: str) -> None:
    with Ledger.open(ledger_address) as ledger:
        fill_ledger(ledger)
        head = ledger.verify()
    new = read_shape(ledger_address)
    make_format_1(ledger_address)
    before = list_rows(ledger_address)
    assert Ledger.upgrade(ledger_address) == 1
    assert (list_rows(ledger_address), read_shape(ledger_address)) == (before | {"ledger_caps": []}, new)
    with Ledger.existing(ledger_address) as ledger:
        assert ledger.verify() == head
        assert ledger.charge(build_charge(9, snapshot="s2"), build_caps(10)).charged
    assert Ledger.upgrade(ledger_address) == FORMAT_VERSION


def test_a_newer_ledger_is_left_alone(ledger_address: str) -> None:
    with Ledger.open(ledger_address) as ledger, ledger._database.begin_write() as connection:
        connection.exec_driver_sql(f"UPDATE ledger_about SET version = {FORMAT_VERSION + 1}")
    with pytest.raises(InvalidInput, match="newer discreet"):
        Ledger.upgrade(ledger_address)


def test_where_there_is_no_ledger_none_is_made(ledger_address: str, empty_database: Database) -> None:
    for opened in (Ledger.upgrade, Ledger.existing):
        with pytest.raises(InvalidInput, match="there is no ledger in that database"):
            opened(ledger_address)
    with empty_database.begin_read() as connection:
        assert inspect(connection).get_table_names() == []


def test_no_file_is_made_for_a_ledger_that_is_not_there(tmp_path: Path) -> None:
    for opened in (Ledger.upgrade, Ledger.existing):
        with pytest.raises(InvalidInput, match=r"there is no ledger 'ledger\.db' there"):
            opened(tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    place = tmp_path / "ledger.db"
    with Ledger.open(place) as ledger:
        fill_ledger(ledger)
    heads = run_successfully("ledger", "verify", place, "--json").document["heads"]
    make_format_1(str(place))
    refusal = run_discreet("ledger", "verify", place)
    assert (refusal.code, "run: discreet ledger upgrade" in refusal.err) == (2, True)
    assert (
        run_successfully("ledger", "upgrade", place).out == f"The ledger has format {FORMAT_VERSION} now; it had 1.\n"
    )
    assert (
        run_successfully("ledger", "upgrade", place).out
        == f"The ledger has format {FORMAT_VERSION} already; nothing was changed.\n"
    )
    assert run_successfully("ledger", "upgrade", place, "--json").document == {
        "before": FORMAT_VERSION,
        "format": FORMAT_VERSION,
    }
    assert run_successfully("ledger", "verify", place, "--json").document["heads"] == heads
    assert run_discreet("ledger", "upgrade", tmp_path / "none.db").code == 2


def test_the_log_is_read_by_its_own_index(tmp_path: Path) -> None:
    """A plan that is made once for all parameters could not: the condition has none."""
    statements: list[tuple[str, Any]] = []
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        fill_ledger(ledger)
        with ledger._database.begin_read() as connection:
            engine = connection.engine
        event.listen(engine, "before_cursor_execute", lambda *event_arguments: statements.append(event_arguments[2:4]))
        assert len(ledger.history(DATASET)) == 9
    sql, values = next(statement for statement in statements if "body" in statement[0])
    assert "kind != 'answer'" in sql
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as looked:
        assert "USING INDEX ledger_log" in str(looked.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall())


# Two at once, and one that is killed


def upgrade_at_once(ledger_address: str, start: Any, results: Any) -> None:
    start.wait()
    results.put(Ledger.upgrade(ledger_address, timeout=60))


def test_of_several_at_once_one_upgrades_and_the_others_find_it_done(old_ledger: str) -> None:
    start, results = processes.Barrier(4), processes.Queue()
    running = [processes.Process(target=upgrade_at_once, args=(old_ledger, start, results)) for _ in range(4)]
    for process in running:
        process.start()
    had = sorted(results.get(timeout=120) for _ in running)
    for process in running:
        process.join()
    assert had == [1, FORMAT_VERSION, FORMAT_VERSION, FORMAT_VERSION]
    with Ledger.existing(old_ledger) as ledger:
        ledger.verify()


def test_threads_upgrade_several_ledgers_at_once(tmp_path: Path) -> None:
    places = [str(tmp_path / f"{number}.db") for number in range(6)]
    for place in places:
        with Ledger.open(place) as ledger:
            fill_ledger(ledger)
        make_format_1(place)
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(Ledger.upgrade, places)) == [1] * 6
    assert {str(read_shape(place)) for place in places} == {str(read_shape(places[0]))}
    assert [read_format(place) for place in places] == [FORMAT_VERSION] * 6


def upgrade_limited(ledger_address: str, most_bytes: int) -> None:
    die_beyond(most_bytes)
    Ledger.upgrade(ledger_address)


def test_an_upgrade_may_be_killed_at_any_time(tmp_path: Path) -> None:
    """In the middle of any page that it writes: the ledger has its old form or its new one, and all its entries."""
    place = tmp_path / "ledger.db"
    with Ledger.open(place) as ledger:
        fill_ledger(ledger)
        for number in range(200):
            ledger.charge(build_charge(f"more {number}", "0.0001", snapshot="s2"), build_caps(10))
        head = ledger.verify()
    make_format_1(str(place))
    whole, old_shape = place.read_bytes(), read_shape(str(place))
    ends = set()
    for most in (*range(0, 48_000, 2999), 10**7):
        died = str(tmp_path / f"{most}.db")
        Path(died).write_bytes(whole)
        process = processes.Process(target=upgrade_limited, args=(died, most))
        process.start()
        process.join()
        ends.add((process.exitcode, read_format(died)))
        assert (read_format(died) == 1) == (read_shape(died) == old_shape)
        Ledger.upgrade(died)
        with Ledger.existing(died) as ledger:
            assert ledger.verify() == head
    assert ends == {
        (-signal.SIGXFSZ, 1),
        (-signal.SIGXFSZ, FORMAT_VERSION),
        (0, FORMAT_VERSION),
    }  # before the commit, and after it


# Any set of tables


def write_version(folder: Path, number: int, does: str) -> None:
    """Write one version of a set of tables."""
    before = None if number == 1 else str(number - 1)
    (folder / f"v{number}.py").write_text(
        f"from alembic import op\nimport sqlalchemy as sa\nrevision = '{number}'\ndown_revision = {before!r}\n"
        f"def upgrade():\n    {does}\n"
    )


def list_tables(database: Database) -> set[str]:
    with database.begin_read() as connection:
        return set(inspect(connection).get_table_names())


def test_a_step_that_fails_takes_the_steps_before_it_with_it(empty_database: Database, tmp_path: Path) -> None:
    write_version(tmp_path, 1, "op.create_table('one', sa.Column('a', sa.Integer))")
    write_version(tmp_path, 2, "op.create_table('two', sa.Column('a', sa.Integer)); raise ZeroDivisionError")
    with pytest.raises(ZeroDivisionError), empty_database.begin_write() as connection:
        connect.run_migrations(connection, tmp_path, "own_version")
    assert list_tables(empty_database) == set()
    write_version(tmp_path, 2, "op.create_table('two', sa.Column('a', sa.Integer))")
    with empty_database.begin_write() as connection:
        connect.run_migrations(connection, tmp_path, "own_version", "1")
        assert connect.find_revision(connection, "own_version") == "1"
        connect.run_migrations(connection, tmp_path, "own_version")
        assert connect.find_revision(connection, "own_version") == "2"
    assert list_tables(empty_database) == {"one", "two", "own_version"}


def test_two_sets_of_tables_in_one_database_have_versions_of_their_own(ledger_address: str, tmp_path: Path) -> None:
    write_version(tmp_path, 1, "op.create_table('one', sa.Column('a', sa.Integer))")
    with Ledger.open(ledger_address) as ledger, ledger._database.begin_write() as connection:
        assert connect.find_revision(connection, "own_version") is None
        connect.run_migrations(connection, tmp_path, "own_version")
        assert connect.find_revision(connection, "own_version") == "1"
        assert connect.find_revision(connection, VERSION_TABLE) == str(FORMAT_VERSION)


def test_a_version_that_nobody_knows_is_told_plainly(empty_database: Database, tmp_path: Path) -> None:
    write_version(tmp_path, 1, "op.create_table('one', sa.Column('a', sa.Integer))")
    with empty_database.begin_write() as connection:
        connect.run_migrations(connection, tmp_path, "own_version")
        connection.exec_driver_sql("UPDATE own_version SET version_num = '9'")
    for act in (connect.run_migrations, connect.stamp_revision):
        with (
            pytest.raises(InvalidInput, match="own_version names a version that this discreet does not know"),
            empty_database.begin_write() as connection,
        ):
            act(connection, tmp_path, "own_version")
