"""Faults under load: clear refusals, nothing released uncharged, and the service goes on without hands."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from discreet.custodian import Custodian
from discreet.datasets.dataset_dir import DatasetDir
from discreet.ledger import Entry, Ledger
from discreet.schema import load_schema
from discreet.service.store import Store
from discreet.service.store.job_queue import find_job_by_id
from support import external_services
from support.ledger_stores import create_postgres_schema
from support.served_processes import (
    LONG,
    SupervisedService,
    create_service_token,
    list_children,
    start_service,
    wait_for,
)
from support.service_load import (
    EPSILON,
    PUBLIC_SIZE,
    ROWS,
    Line,
    Load,
    Reply,
    analyst,
    answered_by,
    check,
    question,
    runner,
    wait_until_ended,
    well,
    workers,
    write_config,
    write_data_set,
    write_table,
)

WORKERS, ROOM = 2, 60
BY_JOBS = ("early", "late", "again")
DATASETS = ("killed", "moved", "refreshed", "published", "pictured", *BY_JOBS)
together = pytest.mark.xdist_group("faults")
"""Of the tests that share one service."""


@dataclass(frozen=True)
class Faulty:
    """A service on SQLite, with a data set for each test."""

    served: SupervisedService
    folder: Path
    token: str
    custodian: str

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def store(self) -> Path:
        return self.folder / "service.db"

    def line(self) -> Line:
        return Line(self.served.port, self.token)

    def load(self, dataset: str, keys: Iterator[int] | range, clients: int = 4) -> Load:
        return Load(self.served.port, self.token, dataset, keys, clients)

    def snapshot(self, dataset: str) -> Path:
        return self.folder / f"{dataset}.discreet" / "snapshot-1.duckdb"

    def charges(self, dataset: str) -> list[Entry]:
        with Ledger.existing(self.ledger) as ledger:
            return [one for one in ledger.history(dataset, limit=10**6) if one.kind == "charge"]

    def check(self, dataset: str, replies: list[Reply]) -> None:
        check(self.folder / f"{dataset}.yaml", self.ledger, replies)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    """Padded, as it is where it is used: a reply waits in memory between its charge and its leaving."""
    folder = tmp_path_factory.mktemp("faults")
    for name in DATASETS:
        write_data_set(
            folder,
            name,
            cap=float(ROOM * EPSILON) if name == "killed" else 1000,
            neighbors=PUBLIC_SIZE if name == "published" else "add-remove",
        )
    items = [f"{name}, jobs: yes" if name in BY_JOBS else name for name in DATASETS]
    config = write_config(folder, items, workers=WORKERS, ledger="ledger.db", padding="yes", deadline="0.05")
    secrets = analyst(config, *DATASETS), create_service_token(config, "cus")
    with start_service(folder, "--config", config) as served:
        yield Faulty(served, folder, *secrets)


# --- processes that are killed


def kill(served: SupervisedService, process: int) -> None:
    """Kill a process, and wait until the supervisor knows."""
    os.kill(process, signal.SIGKILL)
    wait_for(lambda: process in [line["process"] for line in served.events("died")])


def kill_workers(served: SupervisedService, load: Load, times: int) -> None:
    """Any worker, at any moment, while clients ask."""
    moment = random.Random(times)
    for _ in range(times):
        load.wait_for(moment.randint(1, 5))
        time.sleep(moment.uniform(0, 0.1))
        kill(served, moment.choice(wait_for(lambda: workers(served))))


@together
def test_workers_may_be_killed_while_clients_ask(faulty: Faulty) -> None:
    """More keys than there is room for: what there is room for is answered, each charged once, whatever is killed."""
    load = faulty.load("killed", range(ROOM + 20))
    kill_workers(faulty.served, load, 3)
    load.finish()
    well(faulty.served, WORKERS)
    assert (len(load.answers), len(load.overdrawn)) == (ROOM, 20)
    faulty.check("killed", list(load.answers.values()))
    load.check_again()


# --- no room on the disk

IN_MEMORY = """
mount -t tmpfs -o size=$2 none "$1" && cp -a "$0/." "$1" && cd "$1" && shift 2 && exec "$@" 2>log
"""
PREVIEW = {"question": "SELECT COUNT(*) FROM full", "epsilon": "1"}


def on_tiny_disk(folder: Path, size: str) -> list[str]:
    """A command before a command: it runs on a copy of a folder, on a disk that goes with it."""
    alone = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    tiny = folder.with_name("tiny")
    tiny.mkdir()
    return [*alone, "sh", "-c", IN_MEMORY, str(folder), str(tiny), size]


def fill(file: Path) -> None:
    """Take all the room that there is."""
    with file.open("ab", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    assert shutil.disk_usage(file.parent).free == 0


def children(served: SupervisedService) -> list[int]:
    """Workers and runner by the system's own account: the supervisor's last child has forked them."""
    *_, forks = list_children(served.process.pid)
    return list_children(forks)


def test_a_full_disk_is_told_and_survived(tmp_path: Path) -> None:
    """Ledger, store, snapshots and log are on it. Also a process that dies meanwhile is back once there is room."""
    fill_the_disk(tmp_path, 1)


def fill_the_disk(tmp_path: Path, times: int) -> None:
    folder, moment = tmp_path / "disk", random.Random(times)
    folder.mkdir()
    write_data_set(folder, "full")
    config = write_config(folder, ["full"], workers=WORKERS, ledger="ledger.db")
    secret, *others = (analyst(config, "full") for _ in range(9))
    with start_service(tmp_path, "--config", "service.yaml", within=on_tiny_disk(folder, "64m")) as started:
        disk = Path(f"/proc/{started.process.pid}/root{tmp_path}/tiny")
        served = replace(started, log=disk / "log")
        load = Load(served.port, secret, "full", count())
        for _ in range(times):
            load.wait_for(5)
            fill(disk / "ballast")
            load.wait_for_refusals(10)
            os.utime(disk / "full.discreet" / "snapshot-1.duckdb")  # it is read and found to be the same
            for other in others:  # who was not seen before
                with closing(Line(served.port, other)) as line:
                    assert line.must("POST", "/v1/datasets/full/previews", PREVIEW).status == 200
            os.kill(moment.choice(children(served)), signal.SIGKILL)
            load.wait_for_refusals(5)
            (disk / "ballast").unlink()
            load.wait_for(10)
            wait_for(lambda: len(children(served)) == WORKERS + 1)
        load.stop()
        load.check_again()
        shutil.copytree(disk, tmp_path / "after")
        assert served.stop() == 0
    check(tmp_path / "after" / "full.yaml", tmp_path / "after" / "ledger.db", list(load.answers.values()))
    assert any("the room on its disk" in message for message in load.unavailable)


# --- the database goes away


@contextmanager
def own_postgres() -> Iterator[str]:
    """A PostgreSQL that may be stopped, and started again."""
    missing = external_services.list_absent_modules("psycopg") + external_services.list_absent_programs(
        "initdb", "pg_ctl"
    )
    external_services.require("postgres", *missing)
    with external_services.run_postgres() as dsn:
        yield dsn


def pg_ctl(dsn: str, *words: str) -> None:
    """Stop or start the server of a DSN."""
    folder = Path(dict(word.split("=", 1) for word in dsn.split())["host"])
    as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    command = [*as_owner, str(external_services.find_program("pg_ctl")), *words, "-w", "-D", str(folder / "data")]
    subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def start_again(dsn: str) -> None:
    folder = dict(word.split("=", 1) for word in dsn.split())["host"]
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    pg_ctl(dsn, "start", "-l", f"{folder}/log", "-o", options)


def test_a_database_that_is_restarted_is_waited_for(tmp_path: Path) -> None:
    """It crashes, then it is stopped: meanwhile all is refused for now, then it goes on."""
    restart_the_database(tmp_path, 1)


def is_away(line: Line) -> bool:
    return line.must("GET", "/health").status == 503


def restart_the_database(tmp_path: Path, times: int) -> None:
    with own_postgres() as dsn:
        ledger, store = create_postgres_schema(dsn), create_postgres_schema(dsn)
        write_data_set(tmp_path, "away")
        config = write_config(tmp_path, ["away"], workers=WORKERS, ledger=ledger, store=store)
        secret = analyst(config, "away")
        with start_service(tmp_path, "--config", config) as served:
            load = Load(served.port, secret, "away", count())
            for mode in ("immediate", "fast") * times:
                load.wait_for(5)
                pg_ctl(dsn, "stop", "-m", mode)
                load.wait_for_refusals(5)
                with closing(Line(served.port)) as line:
                    wait_for(partial(is_away, line))  # for a second it is remembered that all was well
                start_again(dsn)
                load.wait_for(5)
            load.stop()
            well(served, WORKERS)
            assert served.stop() == 0
        check(tmp_path / "away.yaml", ledger, list(load.answers.values()))


# --- the snapshot is not what it was


def put(file: Path, there: Path) -> None:
    """A copy of a file takes the place of another at once."""
    shutil.copy(file, there.with_suffix(".new"))
    there.with_suffix(".new").replace(there)


@together
def test_a_snapshot_that_is_lost_is_refused_and_found_again(faulty: Faulty, tmp_path: Path) -> None:
    """Gone, another in its place, cut short under the engines: nothing is charged, and it goes on once it is back."""
    schema = write_data_set(tmp_path, "moved")
    write_table(tmp_path, "moved", 10 * ROWS)
    other = tmp_path / "moved.discreet" / Custodian.check(schema).target
    file, safe = faulty.snapshot("moved"), tmp_path / "safe"
    shutil.copy(file, safe)
    faults: dict[str, Callable[[], None]] = {
        "is gone": file.unlink,
        "is not the file that was registered": lambda: put(other, file),
        "is not the file": lambda: os.truncate(file, file.stat().st_size // 2),
    }
    load = faulty.load("moved", count(), clients=1)
    for message, fault in faults.items():
        load.wait_for(3)
        fault()
        load.wait_for_refusals(2)
        before = faulty.charges("moved")
        load.wait_for_refusals(5)
        assert f"the snapshot '1' of moved {message}" in load.unavailable[-1]
        assert faulty.charges("moved") == before
        put(safe, file)
        load.wait_for(3)
    load.stop()
    faulty.check("moved", list(load.answers.values()))


@together
def test_a_refresh_is_followed_without_a_restart(faulty: Faulty) -> None:
    """The custodian registers a larger table by the command, under load; from then on that one is asked."""
    load = faulty.load("refreshed", count())
    load.wait_for(5)
    write_table(faulty.folder, "refreshed", 10 * ROWS)
    command = [sys.executable, "-m", "discreet", "check", str(faulty.folder / "refreshed.yaml"), "--refresh"]
    subprocess.run(command, check=True, capture_output=True)
    earlier_charges = len(faulty.charges("refreshed"))
    wait_for(lambda: {one.snapshot for one in faulty.charges("refreshed")[: -earlier_charges - 4]} == {"2"})
    load.stop()
    faulty.check("refreshed", list(load.answers.values()))
    with closing(faulty.line()) as line:
        exact = question("refreshed", 1) | {"epsilon": "10"}
        reply = line.decided(load.path, exact, "how many")
    assert abs(reply.document["value"] - 10 * ROWS) < ROWS


def test_who_opens_a_data_set_does_not_wait_for_a_registration_under_way(tmp_path: Path) -> None:
    """It may take hours; until it is over the snapshot before it is asked."""
    schema = write_data_set(tmp_path, "waiting")
    Custodian.open(schema).close()
    command = [sys.executable, "-m", "discreet", "ask", str(schema), "SELECT COUNT(*) FROM waiting", "--epsilon", "1"]
    with DatasetDir(load_schema(schema)).lock():
        subprocess.run(command, check=True, capture_output=True, timeout=LONG)


# --- the runner of jobs


def hold(database: Path) -> sqlite3.Connection:
    """Nobody else writes there until this is closed."""
    connection = sqlite3.connect(database, isolation_level=None, timeout=60)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def at_work(faulty: Faulty, line: Line, path: str, body: dict[str, object], key: str) -> str:
    """A job that is queued, once the runner is at it."""
    reply = line.must("POST", path, body, key)
    assert reply.status == 202, reply
    job = str(reply.document["id"])

    def look() -> bool:
        with Store.open(faulty.store) as store:
            running_job = find_job_by_id(store, job)
        return running_job is not None and running_job.state == "running"

    wait_for(look)
    return job


def entries(faulty: Faulty, dataset: str) -> int:
    """How long the chain of a data set is."""
    with Ledger.existing(faulty.ledger) as ledger:
        return ledger.verify(dataset).entries


def age(faulty: Faulty, job: str) -> None:
    """Let the last sign of life of a job's runner be long ago."""
    with closing(sqlite3.connect(faulty.store, isolation_level=None, timeout=60)) as connection:
        connection.execute("UPDATE service_jobs SET beat = beat - 3600 WHERE id = ? AND state = 'running'", [job])


@together
def test_a_question_whose_runner_is_killed_before_the_charge_is_run_again(faulty: Faulty) -> None:
    with closing(faulty.line()) as line:
        with closing(hold(faulty.ledger)):
            job = at_work(faulty, line, "/v1/datasets/early/answers", question("early"), "early")
            kill(faulty.served, runner(faulty.served))
        assert faulty.charges("early") == []
        age(faulty, job)
        faulty.check("early", [answered_by(line, job)])


@together
def test_a_question_whose_runner_is_killed_after_the_charge_is_paid_once(faulty: Faulty) -> None:
    """Its answer was drawn and stored, and not kept for the analyst yet."""
    with closing(faulty.line()) as line:
        with closing(hold(faulty.ledger)) as ledger:
            job = at_work(faulty, line, "/v1/datasets/late/answers", question("late"), "late")
            with closing(hold(faulty.store)):
                ledger.close()
                wait_for(lambda: entries(faulty, "late") == 3)  # registered, charged, answered
                kill(faulty.served, runner(faulty.served))
        age(faulty, job)
        faulty.check("late", [answered_by(line, job)])
    assert entries(faulty, "late") == 3


@together
def test_a_release_whose_runner_is_killed_is_told_as_failed_and_not_made_again(faulty: Faulty) -> None:
    """What was charged stays charged, the ledger holds, and the next one is made."""
    path, asked = "/v1/datasets/published/releases", {"method": "private-columns", "epsilon": "1", "report": False}
    with closing(Line(faulty.served.port, faulty.custodian)) as line:
        with closing(hold(faulty.ledger)) as ledger:
            job = at_work(faulty, line, path, asked, "cut short")
            with closing(hold(faulty.store)):
                ledger.close()
                wait_for(lambda: faulty.charges("published"))
                kill(faulty.served, runner(faulty.served))
        age(faulty, job)
        ended_job = wait_until_ended(line, job)
        assert (ended_job["state"], ended_job["problem"]["kind"], ended_job["files"]) == ("failed", "Unavailable", [])
        assert "cut short; what was charged stays charged" in ended_job["problem"]["detail"]
        assert line.must("POST", path, asked, "cut short").document["id"] == job
        again = line.must("POST", path, asked, "another").document["id"]
        assert wait_until_ended(line, again)["state"] == "done"
    assert len(faulty.charges("published")) == 2
    entries(faulty, "published")


@together
def test_a_question_that_failed_for_now_is_run_again_under_its_key(faulty: Faulty, tmp_path: Path) -> None:
    file, aside = faulty.snapshot("again"), tmp_path / "aside"
    path, asked = "/v1/datasets/again/answers", question("again")
    with closing(faulty.line()) as line:
        shutil.move(file, aside)
        job = line.must("POST", path, asked, "the same").document["id"]
        ended_job = wait_until_ended(line, job)
        assert (ended_job["state"], ended_job["problem"]["status"]) == ("failed", 503)
        shutil.move(aside, file)

        def done() -> bool:  # a file that was gone is looked for again a little later
            assert line.must("POST", path, asked, "the same").document["id"] == job
            return bool(wait_until_ended(line, job)["state"] == "done")

        wait_for(done)
        faulty.check("again", [answered_by(line, job)])


# --- looking costs nothing


@together
def test_a_picture_is_never_paid_for(faulty: Faulty) -> None:
    """Of an answer that was told again and then lost to a refresh, it is gone."""
    path, asked = "/v1/datasets/pictured/answers", question("pictured") | {"fresh": False}
    with closing(faulty.line()) as line:
        first, again = (line.must("POST", path, asked, key).document for key in ("first", "again"))
        assert line.must("GET", f"{path}/{first['id']}/picture").status == 200
        Custodian.check(faulty.folder / "pictured.yaml")
        assert line.must("GET", f"{path}/{first['id']}/picture").status == 200
        assert line.must("GET", f"{path}/{again['id']}/picture").kind == "invalid-input"
    assert [one.entry for one in faulty.charges("pictured")] == [first["entry"]]


# --- the same for longer


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))])
def test_workers_may_be_killed_for_minutes(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Small version: test_workers_may_be_killed_while_clients_ask."""
    keys: dict[str, object] = {"workers": 3, "ledger": "ledger.db", "padding": "yes", "deadline": "0.05"}
    if engine == "postgres":
        keys |= {name: create_postgres_schema(request.getfixturevalue("postgres")) for name in ("ledger", "store")}
    write_data_set(tmp_path, "killed")
    config = write_config(tmp_path, ["killed"], **keys)
    secret = analyst(config, "killed")
    with start_service(tmp_path, "--config", config) as served:
        load = Load(served.port, secret, "killed", count())
        kill_workers(served, load, 25)
        load.stop()
        well(served, 3)
        load.check_again()
        assert served.stop() == 0
    where = str(keys["ledger"]) if engine == "postgres" else tmp_path / "ledger.db"
    check(tmp_path / "killed.yaml", where, list(load.answers.values()))


@pytest.mark.soak
def test_the_disk_may_be_full_again_and_again(tmp_path: Path) -> None:
    """Small version: test_a_full_disk_is_told_and_survived."""
    fill_the_disk(tmp_path, 10)


@pytest.mark.soak
def test_the_database_may_be_restarted_again_and_again(tmp_path: Path) -> None:
    """Small version: test_a_database_that_is_restarted_is_waited_for."""
    restart_the_database(tmp_path, 10)
