"""A ledger that is replaced, moved or set back under a service of real processes: refused, told, and led out of."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_service_faults import fill, on_tiny_disk, own_postgres

from discreet import Ledger
from discreet.datasets.dataset_dir import HEAD_FILE
from discreet.service.config import read_config
from discreet.service.store import Store
from discreet.service.store.store import StoreHeads
from support import external_services
from support.command_line import run_successfully
from support.served_processes import (
    SupervisedService,
    create_service_token,
    is_running,
    start_process,
    start_service,
    wait_for,
)
from support.service_load import (
    Line,
    analyst,
    pause_processes,
    question,
    spread,
    well,
    workers,
    write_config,
    write_data_set,
)

WORKERS = 2
PATH = "/v1/datasets/kept/answers"
RESTORE = "discreet ledger restore FILE LEDGER --forgotten E"


@dataclass(frozen=True)
class Place:
    """A data set, its ledger in a folder of its own, and a service's configuration."""

    folder: Path
    config: Path
    ledger: Path
    analyst: str
    custodian: str

    @property
    def record(self) -> Path:
        return self.folder / "kept.discreet" / HEAD_FILE

    def entries(self, file: Path | None = None) -> int:
        with Ledger.existing(file or self.ledger) as ledger:
            return ledger.verify("kept").entries

    def lose(self, to: Path | None = None) -> None:
        """Delete the ledger, or move it with what is beside it."""
        for path in self.ledger.parent.glob("ledger.db*"):
            path.unlink() if to is None else path.rename(to / path.name)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    write_data_set(tmp_path, "kept")
    (tmp_path / "ledgers").mkdir()
    config = write_config(tmp_path, ["kept"], workers=WORKERS, ledger="ledgers/ledger.db")
    return Place(
        tmp_path,
        config,
        tmp_path / "ledgers" / "ledger.db",
        analyst(config, "kept"),
        create_service_token(config, "cus"),
    )


@contextmanager
def running(place: Place) -> Iterator[tuple[SupervisedService, list[Line]]]:
    """The service with a line to each worker, each of which has answered once."""
    with start_service(place.folder, "--config", place.config) as served:
        well(served, WORKERS)
        with spread(served, place.analyst, 1) as lines:
            for number, line in enumerate(lines):
                assert line.must("POST", PATH, question("kept", number), f"first {number}").status == 201
            yield served, lines


def assert_refused(place: Place, served: SupervisedService, lines: list[Line], says: str) -> None:
    """By every worker: in replies, in the health that anyone may ask, and in what the custodian is told."""
    for number, line in enumerate(lines):
        reply = line.must("POST", PATH, question("kept", number), f"refused {number}")
        assert (reply.status, reply.kind) == (503, "unavailable"), reply
        assert says in str(reply.document["detail"])
        assert "value" not in reply.document
        problem = wait_for(lambda line=line: failing(line))
        assert problem == {"status": "unavailable", "failing": ["ledger"]}
    with closing(Line(served.port, place.custodian)) as line:
        warned = line.must("GET", "/v1/warnings").document["warnings"]
        assert (warned[0]["kind"], warned[0]["dataset"], says in warned[0]["text"]) == ("ledger", "kept", True)


def failing(line: Line) -> dict[str, object]:
    reply = line.must("GET", "/health")
    return reply.document if reply.status == 503 else {}


def assert_answers(lines: list[Line], mark: str) -> None:
    for number, line in enumerate(lines):
        reply = line.decided(PATH, question("kept", number), f"{mark} {number}")
        assert reply.status == 201, reply
        wait_for(lambda line=line: line.must("GET", "/health").status == 200)


def assert_does_not_start(place: Place, says: str) -> None:
    """In one sentence, with the exit code of what is not available."""
    with start_process(place.folder, "--config", place.config, "--json") as (process, _, log):
        end = time.monotonic() + 60
        while is_running(process.pid) and time.monotonic() < end:
            time.sleep(0.1)
        assert not is_running(process.pid), log.read_text()
        assert process.wait() == 5, log.read_text()
        assert says in " ".join(log.read_text().split())


def test_a_ledger_that_is_replaced_under_a_service_is_refused_by_every_worker(place: Place, tmp_path: Path) -> None:
    """By a whole copy, renamed over it: neither file is written to, and it goes on once the right one is back."""
    with running(place) as (served, lines):
        Ledger.backup(place.ledger, tmp_path / "copy.db")
        os.link(place.ledger, tmp_path / "ledgers" / "right.db")
        (tmp_path / "copy.db").replace(place.ledger)
        before = place.ledger.read_bytes()
        assert_refused(place, served, lines, "is not the one that was opened")
        assert place.ledger.read_bytes() == before
        os.replace(tmp_path / "ledgers" / "right.db", place.ledger)
        assert_answers(lines, "again")
    assert place.entries() == 1 + 2 * 2 * WORKERS  # registered; charged and answered


def test_a_ledger_that_is_gone_is_told_and_found_again(place: Place, tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    with running(place) as (served, lines):
        place.ledger.rename(tmp_path / "away" / "ledger.db")
        assert_refused(place, served, lines, "the ledger's file is gone from its path")
        assert not place.ledger.exists()
        with closing(Line(served.port, place.custodian)) as line:
            assert "gone from its path" in line.must("GET", "/v1/warnings").document["warnings"][0]["text"]
        (tmp_path / "away" / "ledger.db").rename(place.ledger)
        assert_answers(lines, "again")


def test_a_worker_that_is_started_again_opens_no_other_ledger(place: Place, tmp_path: Path) -> None:
    """Split brain: the file was moved, a whole copy is in its place, and one worker never had the first one open."""
    (tmp_path / "away").mkdir()
    with running(place) as (served, lines):
        Ledger.backup(place.ledger, tmp_path / "copy.db")
        place.lose(tmp_path / "away")
        (tmp_path / "copy.db").rename(place.ledger)
        before = place.ledger.read_bytes()
        dead = workers(served)[0]
        os.kill(dead, signal.SIGKILL)
        wait_for(lambda: dead not in workers(served) and len(workers(served)) == WORKERS)
        with spread_unwell(served, place.analyst) as fresh:
            assert_refused(place, served, fresh, "is not the one that was opened")
        assert place.ledger.read_bytes() == before
        assert not place.ledger.with_name("ledger.db-wal").exists()  # nobody has opened it
        del lines
    assert place.entries() == 1 + 2 * WORKERS
    with start_service(place.folder, "--config", place.config) as served:  # the copy has every entry
        well(served, WORKERS)
        with closing(Line(served.port, place.analyst)) as line:
            assert_answers([line], "later")


@contextmanager
def spread_unwell(served: SupervisedService, secret: str) -> Iterator[list[Line]]:
    """A line to each worker of a service that is not well; each may remember for a second that it was."""
    running = workers(served)
    with ExitStack() as stack:
        lines = []
        for process in running:
            with pause_processes([other for other in running if other != process]):
                lines.append(stack.enter_context(closing(Line(served.port, secret))))
                wait_for(lambda line=lines[-1]: failing(line))
        yield lines


@pytest.mark.parametrize("known", ["folder", "store", "answers"])
def test_an_older_copy_is_refused_at_the_start_until_it_is_restored(place: Place, tmp_path: Path, known: str) -> None:
    """By the head in the data set's folder, by the one in the store, or by the entries that kept answers name."""
    with running(place) as (served, lines):
        Ledger.backup(place.ledger, tmp_path / "copy.db")
        assert_answers(lines, "forgotten")
        assert served.stop() == 0
    if known != "folder":
        place.record.unlink()
    with Store.open(read_config(place.config).store) as store:
        assert StoreHeads(store).read("kept") is not None
        if known != "store":
            with store.database.begin_write() as connection:
                connection.exec_driver_sql("DELETE FROM service_heads")
        if known == "folder":
            with store.database.begin_write() as connection:
                connection.exec_driver_sql("UPDATE service_answers SET entry = NULL")
    place.lose()
    shutil.copy(tmp_path / "copy.db", place.ledger)
    assert_does_not_start(
        place, "the ledger lacks entry 9 of 'kept'" if known != "answers" else "the ledger lacks entry 8"
    )
    assert_does_not_start(place, RESTORE)
    assert place.entries() == 1 + 2 * WORKERS
    place.lose()
    run_successfully("ledger", "restore", tmp_path / "copy.db", place.ledger, "--forgotten", "0.02")
    with running_again(place) as (_, line):
        reply = line.decided(PATH, question("kept", 50), "after")
        assert (reply.status, reply.document["entry"]) == (201, place_after_restore(WORKERS))
    place.lose()
    shutil.copy(tmp_path / "copy.db", place.ledger)
    assert_does_not_start(place, "the ledger lacks entry")


def place_after_restore(count: int) -> int:
    """Registered, charged and answered; what was forgotten is charged, answered, and charged to the one analyst."""
    return 1 + 2 * count + 3 + 1


@contextmanager
def running_again(place: Place) -> Iterator[tuple[SupervisedService, Line]]:
    with start_service(place.folder, "--config", place.config) as served:
        well(served, WORKERS)
        with closing(Line(served.port, place.analyst)) as line:
            yield served, line


def test_an_older_copy_put_back_under_a_service_is_refused_and_led_out_of(place: Place, tmp_path: Path) -> None:
    with running(place) as (served, lines):
        Ledger.backup(place.ledger, tmp_path / "copy.db")
        assert_answers(lines, "forgotten")
        shutil.copy(tmp_path / "copy.db", tmp_path / "older.db")
        (tmp_path / "older.db").replace(place.ledger)
        assert_refused(place, served, lines, RESTORE)
    place.lose()
    run_successfully("ledger", "restore", tmp_path / "copy.db", place.ledger, "--forgotten", "0.02")
    with running_again(place) as (_, line):
        assert line.decided(PATH, question("kept", 50), "after").status == 201


@pytest.mark.xdist_group("postgres")
def test_a_database_dropped_and_restored_from_an_older_dump_is_refused(tmp_path: Path) -> None:
    """Under the same name, by PostgreSQL's own tools: while the service runs, and when it is started again."""
    external_services.require(
        "postgres", *external_services.list_absent_programs("pg_dump", "dropdb", "createdb", "psql")
    )
    write_data_set(tmp_path, "kept")
    with own_postgres() as dsn:
        host = dict(word.split("=", 1) for word in dsn.split())["host"]
        ledger = f"postgresql://postgres@/spend?host={host}"

        def tool(name: str, *words: str) -> bytes:
            command = [str(external_services.find_program(name)), "-h", host, "-U", "postgres", *words]
            return subprocess.run(command, check=True, capture_output=True).stdout

        tool("createdb", "spend")
        config = write_config(tmp_path, ["kept"], workers=WORKERS, ledger=ledger)
        place = Place(tmp_path, config, Path(), analyst(config, "kept"), create_service_token(config, "cus"))
        with running(place) as (served, lines):
            (tmp_path / "dump.sql").write_bytes(tool("pg_dump", "spend"))
            Ledger.backup(ledger, tmp_path / "copy.db")
            assert_answers(lines, "forgotten")
            tool("dropdb", "--force", "spend")
            tool("createdb", "spend")
            tool("psql", "-q", "-d", "spend", "-f", str(tmp_path / "dump.sql"))
            assert_refused(place, served, lines, "is not the one that was opened")
        assert_does_not_start(place, "the ledger lacks entry 9 of 'kept'")
        place.record.unlink()  # the store knows it too
        assert_does_not_start(place, "the ledger lacks entry 9 of 'kept'")
        tool("dropdb", "--force", "spend")
        tool("createdb", "spend")
        run_successfully("ledger", "restore", tmp_path / "copy.db", ledger, "--forgotten", "0.02")
        with running_again(place) as (_, line):
            assert line.decided(PATH, question("kept", 50), "after").status == 201


def test_a_full_disk_is_told_in_health(tmp_path: Path) -> None:
    """A real file system of 64 MB, which is filled; the service is well again once there is room."""
    folder = tmp_path / "disk"
    folder.mkdir()
    write_data_set(folder, "kept")
    config = write_config(folder, ["kept"], workers=WORKERS, ledger="ledger.db")
    secret = create_service_token(config, "cus")
    with start_service(tmp_path, "--config", "service.yaml", within=on_tiny_disk(folder, "64m")) as served:
        disk = Path(f"/proc/{served.process.pid}/root{tmp_path}/tiny")
        with closing(Line(served.port, secret)) as line:
            assert line.must("GET", "/health").document == {"status": "ok"}
            fill(disk / "ballast")
            problem = wait_for(lambda: failing(line))
            assert "disk" in problem["failing"]  # type: ignore[operator]
            warned = line.must("GET", "/v1/warnings").document["warnings"]
            assert (warned[0]["kind"], "the room on its disk" in warned[0]["text"]) == ("disk", True)
            (disk / "ballast").unlink()
            wait_for(lambda: line.must("GET", "/health").status == 200)
