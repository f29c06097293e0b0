"""A real `discreet serve` in processes of its own, and what must be true of them.

It is forked from a process that has imported the package. How it starts as it is installed, `test_serve` shows.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

from discreet.service.config import read_config
from discreet.service.store import Store
from discreet.service.store.tokens import create_token
from support import fork_server

LONG = 120
"""Seconds after which something that must happen has not."""
Found = TypeVar("Found")


@dataclass(frozen=True)
class SupervisedService:
    """A service that runs: what it printed when it was ready, its supervisor, and its log."""

    announcement: dict[str, Any]
    process: fork_server.Program | subprocess.Popen[bytes]
    log: Path

    @property
    def address(self) -> str:
        return str(self.announcement["address"])

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def events(self, event: str, where: str | None = None) -> list[dict[str, Any]]:
        """The lines of the log about an event; every line is one JSON object."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if line["event"] == event and where in (None, line.get("where"))]

    def children(self) -> list[int]:
        """Every process that was ever started below the supervisor."""
        return [line["process"] for line in self.events("started")]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell the supervisor to stop; its exit code."""
        os.kill(self.process.pid, number)
        return self.process.wait(LONG)


@contextmanager
def start_service(folder: Path, *words: object, within: Sequence[str] = ()) -> Iterator[SupervisedService]:
    """Run `discreet serve` until it is ready, `within` another command; whatever happens, nothing of it runs on."""
    with start_process(folder, "--json", *words, within=within) as (process, stdout, log):
        first = "".join(_read_until(stdout.readline, "}\n"))
        assert '"address"' in first, log.read_text()
        yield SupervisedService(json.loads(first), process, log)


@contextmanager
def start_process(
    folder: Path, *words: object, within: Sequence[str] = ()
) -> Iterator[tuple[fork_server.Program | subprocess.Popen[bytes], TextIO, Path]]:
    """The same from its first moment: the process, what it prints, and its log."""
    log = folder / "log"
    with log.open("w") as lines:
        process, out = _start(["-m", "discreet", "serve", *map(str, words)], within, lines.fileno())
    with out as stdout:
        try:
            yield process, stdout, log
        finally:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            process.wait(LONG)


def _start(
    words: Sequence[str], within: Sequence[str], log: int
) -> tuple[fork_server.Program | subprocess.Popen[bytes], TextIO]:
    """A supervisor and what it prints; one that runs within another command cannot be forked."""
    read, write = os.pipe()
    try:
        if within:
            command = [*within, sys.executable, *words]
            return subprocess.Popen(command, stdout=write, stderr=log, start_new_session=True), os.fdopen(read)
        with Path(os.devnull).open() as nothing:
            return fork_server.Program(
                fork_server.start_shared_server(), words, os.environ, nothing.fileno(), write, log
            ), os.fdopen(read)
    finally:
        os.close(write)


def _read_until(read: Callable[[], str], last: str) -> Iterator[str]:
    """Lines up to and with the last, or to the end."""
    for line in iter(read, ""):
        yield line
        if line == last:
            return


def wait_for(look: Callable[[], Found]) -> Found:
    """What is looked for, as soon as it is there."""
    for _ in range(LONG * 10):
        if result := look():
            return result
        time.sleep(0.1)
    raise AssertionError("it has not happened")


def is_running(process: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def list_children(process: int) -> list[int]:
    """The processes below one, the first that was started first."""
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def create_service_token(config: Path, analyst: str = "ann", role: str = "custodian") -> str:
    """A token of a service."""
    with Store.open(read_config(config).store) as store:
        return create_token(store, analyst, role)[1]
