"""What every test can ask for: the services, and Hypothesis without a clock."""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from support import external_services

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["support.seeded_entropy"]

TESTS = Path(__file__).parent
SERVICES = ("postgres", "spark", "chromium")
SHARED = "DISCREET_SHARED"
"""Names a folder of all workers."""
LONG_MODULES = {"test_service_fuzz", "test_expected_error", "test_golden_copies", "test_mutants", "test_serve"}
"""Of these modules some tests take long: they begin early, so that no worker waits for another at the end."""
NUMBA_CACHE = TESTS.parent / "src/discreet/sdc/methods/__pycache__"
"""Where numba keeps what it has compiled."""

# There is a worker for each processor; numpy, imported later, would start as many threads in each, and they spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Of the workers' own: memory that was used is used again, and not given back to be asked for anew.
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**30))
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**30))

# A slow machine is not a failed test, and neither is an example that nobody tried before: those are for `make soak`,
# which also tries more of them where a test does not say how many.
hypothesis.settings.register_profile("discreet", deadline=None, max_examples=50, derandomize=True)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("discreet")

# Tests may import from each other, whatever folder they are in: names of test modules are used once.
sys.path.extend(sorted({str(path.parent) for path in TESTS.rglob("test_*.py")} - {*sys.path}))


def pytest_configure(config: pytest.Config) -> None:
    """Before there are workers, begin to compile what they will all need; a lock is held for as long as it takes."""
    gc.disable()  # what is imported and collected is nearly all kept
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        os.environ[SHARED] = tempfile.mkdtemp(prefix="discreet-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ[SHARED]))
        with (Path(os.environ[SHARED]) / "compiling").open("x") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            compiler = [sys.executable, str(TESTS / "support/compile_numba.py")]
            compiling = subprocess.Popen(compiler, pass_fds=[lock.fileno()])
        config.add_cleanup(lambda: end_process(compiling))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """A worker has its tests by now; what it would otherwise compile for itself is nearly done."""
    if hasattr(session.config, "workerinput"):
        with (Path(os.environ[SHARED]) / "compiling").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
        os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))


def pytest_sessionstart(session: pytest.Session) -> None:
    """In a new checkout the tests are compiled: by each worker some, which the others then find."""
    if hasattr(session.config, "workerinput") and session.config.args == session.config.getini("testpaths"):
        _leave_a_processor()
        names = sorted(path.stem for path in TESTS.rglob("test_*.py"))
        share = int(session.config.workerinput["workerid"][2:]) / session.config.workerinput["workercount"]
        first = round(share * len(names))
        for name in names[first:] + names[:first]:
            with suppress(Exception), warnings.catch_warnings(action="error"):  # collecting will tell
                importlib.import_module(name)


def _leave_a_processor() -> None:
    """To what compiles, where nothing is compiled yet: or all would wait for it in the end."""
    if not any(NUMBA_CACHE.glob("*.nbi")):
        processors = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(processors)[1:] or processors)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: while one waits, for a browser or a service, the others do not."""
    return 1 + len(os.sched_getaffinity(0))


def pytest_unconfigure() -> None:
    """As it was, or libraries tell at the end of what they take for leaks."""
    gc.unfreeze()
    gc.enable()


def end_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of one service on one worker, so that it starts once."""
    for item in items:
        services = [service for service in SERVICES if service in getattr(item, "fixturenames", ())]
        if services:
            item.add_marker(pytest.mark.xdist_group(services[0]))


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist tells their order
def pytest_collection_finish(session: pytest.Session) -> None:
    """After they were shuffled: groups begin first anyway, then what takes long."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)  # most of what a test makes goes without it
    gc.enable()
    session.items.sort(key=lambda item: item.path.stem not in LONG_MODULES)


def mark_started_once(service: str) -> None:
    """Its tests are on one worker, or it would be started on each."""
    if SHARED in os.environ:
        (Path(os.environ[SHARED]) / service).touch(exist_ok=False)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The DSN of a PostgreSQL of our own."""
    missing = external_services.list_absent_modules("psycopg") + external_services.list_absent_programs(
        "initdb", "pg_ctl"
    )
    external_services.require("postgres", *missing)
    mark_started_once("postgres")
    with external_services.run_postgres() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A quiet local Spark."""
    external_services.require(
        "spark", *external_services.list_absent_modules("pyspark"), *external_services.list_absent_programs("java")
    )
    mark_started_once("spark")
    with external_services.run_spark() as session:
        yield session


@pytest.fixture(scope="session")
def chromium() -> external_services.Chromium:
    """A browser without a window: the one that never has any, where it is installed, since it takes less."""
    program = next(filter(None, map(external_services.find_program, ("chromium-headless-shell", "chromium"))), None)
    external_services.require("chromium", *([] if program else ["chromium-headless-shell, chromium"]))
    return external_services.Chromium(str(program))
