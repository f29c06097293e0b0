"""Killed at any moment: what was released is charged and stored, nothing is overdrawn, and the chain holds."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from fractions import Fraction
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TextIO

import pytest

from discreet.ledger import Ledger, storage
from support.ledger_stores import DATASET, build_caps, build_charge, ledger_address, list_spent, processes

__all__ = ["ledger_address"]  # a fixture

CAP = build_caps(3)
EPSILON = Fraction(1, 1000)


def run_release_loop(ledger_address: str, first: int, connection: Connection, most_bytes: int | None = None) -> None:
    """Charge, store and only then release, one request after another, each under its own key."""
    if most_bytes is not None:
        die_beyond(most_bytes)
    with Ledger.open(ledger_address) as ledger:
        for number in range(first, first + 1000):
            receipt = ledger.charge(build_charge(number, EPSILON, key=str(number)), CAP)
            answer = receipt.answer or ledger.store(DATASET, receipt.entry, f'"drawn by {os.getpid()}"')
            os.write(connection.fileno(), f"{number} {receipt.entry} {answer}\n".encode())


def die_beyond(size: int) -> None:
    """Let the kernel end this process in the middle of the write that would make a file larger."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


class CrashTrial:
    """Clients that are killed, what they had released by then, and what must be true of it."""

    def __init__(self, ledger_address: str) -> None:
        self.where = ledger_address
        self.released: dict[int, tuple[int, str]] = {}
        self.kills = 0
        with Ledger.open(ledger_address) as ledger:
            ledger.register(DATASET, "0f", "s1", disjoint=False)

    def kill_two(self, releases: int, seconds: float) -> None:
        """Two clients at once, on the same keys, both killed a moment after so many releases."""
        clients = [self._start(), self._start()]
        for number, (client, reader) in enumerate(clients):
            with reader:
                self._read(reader, 0 if number else releases)
                time.sleep(seconds)
                client.kill()
                self._read(reader)
            self._join(client)

    def kill_beyond(self, size: int) -> None:
        """One client, killed in the middle of a write."""
        client, reader = self._start(size)
        with reader:
            self._read(reader)
        assert self._join(client) == -signal.SIGXFSZ

    def check(self) -> None:
        """A key is charged once; what was released is what is stored; the accounts follow from the chain."""
        with Ledger.open(self.where) as ledger:
            ledger.verify()
            charges = [line for line in ledger.history(DATASET, limit=10**6) if line.kind == "charge"]
            assert len(charges) == len({line.query for line in charges}) >= len(self.released)
            assert list_spent(ledger, CAP) == {"dp": EPSILON * len(charges)}
            assert EPSILON * len(charges) <= CAP.dataset.epsilon
            with ledger._database.begin_read() as connection:
                for entry, answer in self.released.values():
                    assert storage.read_answer_text(connection, DATASET, entry) == answer

    def _start(self, most_bytes: int | None = None) -> tuple[BaseProcess, TextIO]:
        reader, telling = processes.Pipe(duplex=False)
        first = max(self.released, default=-1) + 1
        client = processes.Process(target=run_release_loop, args=(self.where, first, telling, most_bytes))
        client.start()
        telling.close()
        return client, os.fdopen(os.dup(reader.fileno()))

    def _read(self, reader: TextIO, most: int | None = None) -> None:
        for line in islice(reader, most):
            number, entry, answer = line.rstrip("\n").split(" ", 2)
            assert self.released.setdefault(int(number), (int(entry), answer)) == (int(entry), answer)

    def _join(self, client: BaseProcess) -> int | None:
        client.join()
        self.kills += 1
        return client.exitcode


def test_a_client_may_be_killed_at_any_time(ledger_address: str) -> None:
    crashes, moment = CrashTrial(ledger_address), random.Random(1)
    for _ in range(6):
        crashes.kill_two(moment.randint(1, 20), moment.uniform(0, 0.05))
    crashes.check()
    assert crashes.kills == 12


def test_a_client_may_be_killed_inside_a_commit(tmp_path: Path) -> None:
    """In the middle of a page of the write-ahead log, wherever that is."""
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        crashes = CrashTrial(str(folder / "ledger.db"))
        crashes.kill_beyond(70_000 + 4999 * number)
        crashes.check()


def test_a_client_may_be_killed_inside_a_checkpoint(tmp_path: Path) -> None:
    """While pages of the log are copied into the database."""
    path = tmp_path / "ledger.db"
    crashes = CrashTrial(str(path))
    for _ in range(4):
        crashes.kill_two(40, 0)
        checkpoint = processes.Process(target=close_limited, args=(str(path), path.stat().st_size + 5000))
        checkpoint.start()
        checkpoint.join()
        assert checkpoint.exitcode == -signal.SIGXFSZ
        crashes.check()


def close_limited(ledger_address: str, most_bytes: int) -> None:
    """Whoever closes last copies the log into the database."""
    die_beyond(most_bytes)
    Ledger.open(ledger_address).close()


@pytest.mark.soak
def test_hundreds_of_kills(ledger_address: str) -> None:
    crashes, moment = CrashTrial(ledger_address), random.Random(2)
    for round_number in range(150):
        crashes.kill_two(moment.randint(0, 10), moment.uniform(0, 0.05))
        if round_number % 10 == 0:
            crashes.check()
    crashes.check()


@pytest.mark.soak
def test_hundreds_of_kills_inside_a_commit(tmp_path: Path) -> None:
    """A sweep of bytes over the first commits, headers of pages and of the log included."""
    for size in range(70_000, 140_000, 211):
        folder = tmp_path / str(size)
        folder.mkdir()
        crashes = CrashTrial(str(folder / "ledger.db"))
        crashes.kill_beyond(size)
        crashes.check()
