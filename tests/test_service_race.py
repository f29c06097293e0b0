"""Many at once over four workers: exactly as many are answered as there is room for, and a key pays once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import pytest

from discreet.custodian import Custodian
from discreet.service.store import Store
from discreet.service.store.counting import StoredLog
from ledgers import schema_of
from loaded import Line, Reply, analyst, check, configured, data_set, question, spread
from supervised import Supervised, supervised

WORKERS, CLIENTS, ROOM = 4, 200, 10
ENGINES = [
    pytest.param("sqlite", marks=pytest.mark.xdist_group("race")),
    pytest.param("postgres", marks=pytest.mark.xdist_group("postgres")),
]
DATASETS = ("many", "once", "twice", "session", "queued")
Told = TypeVar("Told")


@dataclass(frozen=True)
class Raced:
    """A service of four workers, and where its ledger and its store are."""

    served: Supervised
    folder: Path
    token: str
    ledger: str
    store: str

    def at_once(self, count: int, work: Callable[[Line, int], Told]) -> list[Told]:
        """What so many clients are told who begin at the same moment, as many at each worker."""
        start = threading.Barrier(count)

        def begin(number: int, line: Line) -> Told:
            start.wait()
            return work(line, number)

        with spread(self.served, self.token, count // WORKERS) as lines, ThreadPoolExecutor(count) as clients:
            return list(clients.map(begin, range(count), lines))

    def check(self, name: str, replies: list[Reply]) -> None:
        check(self.folder / f"{name}.yaml", self.ledger, replies)


@pytest.fixture(scope="module", params=ENGINES)
def raced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raced]:
    folder = tmp_path_factory.mktemp("race")
    for name in DATASETS:
        data_set(folder, name, cap="0.1")
    if request.param == "sqlite":
        ledger, store = str(folder / "ledger.db"), str(folder / "service.db")
    else:
        ledger, store = (schema_of(request.getfixturevalue("postgres")) for _ in range(2))
    named = [f"{name}, jobs: yes" if name == "queued" else name for name in DATASETS]
    config = configured(folder, named, workers=WORKERS, ledger=ledger, store=store)
    token = analyst(config, *DATASETS)
    with supervised(folder, "--config", config) as served:
        yield Raced(served, folder, token, ledger, store)


def test_two_hundred_parallel_asks_with_room_for_ten(raced: Raced) -> None:
    """New draws of one question, and questions of their own: ten are answered, and the others told that it is spent."""

    def ask(line: Line, number: int) -> Reply:
        asked = question("many", number if number % 2 else 0)
        return line.decided("/v1/datasets/many/answers", asked, f"key {number}")

    replies = raced.at_once(CLIENTS, ask)
    answered = [reply for reply in replies if reply.status == 201]
    assert len(answered) == ROOM
    assert [reply.kind for reply in replies if reply.status != 201] == ["budget-exceeded"] * (CLIENTS - ROOM)
    raced.check("many", answered)


def test_one_key_sent_by_many_at_once_is_one_charge_and_one_reply(raced: Raced) -> None:
    def ask(line: Line, _: int) -> Reply:
        return line.must("POST", "/v1/datasets/once/answers", question("once"), "the same")

    replies = raced.at_once(52, ask)
    assert {reply.status for reply in replies} == {201}
    assert len(set(replies)) == 1
    raced.check("once", replies[:1])
