"""The services that some tests need: PostgreSQL, Spark and Chromium, each private to one test run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require(service: str, *missing: str) -> None:
    """Skip the test when anything is missing; fail it where DISCREET_REQUIRE names the service."""
    if not missing:
        return
    reason = f"{service} is not available: {', '.join(missing)} not found"
    if service in os.environ.get("DISCREET_REQUIRE", "").split(","):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def list_absent_modules(*names: str) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]


def list_absent_programs(*names: str) -> list[str]:
    return [name for name in names if find_program(name) is None]


def find_program(name: str) -> str | None:
    """Find a program on the path, or where Debian keeps those of PostgreSQL."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda home: float(home.parent.name))
    folders = [os.environ.get("PATH", os.defpath), *map(str, reversed(homes))]
    return shutil.which(name, path=os.pathsep.join(folders))


@contextmanager
def run_postgres() -> Iterator[str]:
    """Run a new, empty PostgreSQL; yield its DSN. Only a socket in a private folder leads to it."""
    # PostgreSQL refuses to run as root, and its user cannot enter a temporary folder of root's.
    as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="discreet-", dir="/tmp"))

    def run(program: str, *arguments: str) -> None:
        command = [*as_owner, str(find_program(program)), *arguments]
        subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    try:
        if as_owner:
            shutil.chown(folder, "postgres")
        data = str(folder / "data")
        run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "start", "-w", "-D", data, "-l", str(folder / "log"), "-o", options)
        try:
            yield f"host={folder} user=postgres dbname=postgres"
        finally:
            run("pg_ctl", "stop", "-w", "-D", data, "-m", "immediate")
    finally:
        shutil.rmtree(folder)


SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java: what runs for minutes is not worth compiling a second time."""


@contextmanager
def run_spark() -> Iterator[SparkSession]:
    """Run Spark on one core, strict about types, silent, and reachable from this machine only."""
    from pyspark.sql import SparkSession

    from discreet.sources.ingest.spark import silence_spark

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        folder = Path(name)
        quiet = folder / "log4j2.properties"
        quiet.write_text("rootLogger.level = off\n")
        session = (
            SparkSession.builder.master("local[1]")
            .config("spark.sql.ansi.enabled", "true")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", f"{SHORT_LIVED} -Dlog4j2.configurationFile={quiet.as_uri()}")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        silence_spark(session)
        try:
            yield session
        finally:
            session.stop()


@dataclass(frozen=True, slots=True)
class Chromium:
    """A browser without a window; each page is opened with a new, empty profile."""

    path: str

    def dom(self, url: str) -> str:
        """Return the page as HTML, after its scripts have run."""
        return self._run(url, "--dump-dom")

    def screenshot(self, url: str, file: Path, width: int = 1280, height: int = 800) -> None:
        """Save a picture of the page as PNG."""
        self._run(url, f"--screenshot={file}", f"--window-size={width},{height}", "--hide-scrollbars")

    def _run(self, url: str, *arguments: str) -> str:
        with tempfile.TemporaryDirectory(prefix="discreet-", ignore_cleanup_errors=True) as profile:
            command = [self.path, *CHROMIUM_FLAGS, f"--user-data-dir={profile}", *arguments, url]
            return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",  # root, as in most containers, has no sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers have little shared memory
    # The browser itself has no business on the network.
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
