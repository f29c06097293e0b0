"""Many at once over two workers: exactly as many are answered as there is room for, and a key pays once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import pytest

from discreet.service.store import Store
from discreet.service.store.job_queue import Job, add_job
from discreet.service.store.store import CounterBuffer, read_counters
from discreet.service.store.stored_answers import (
    SavedPrior,
    StoredAnswer,
    StoredLog,
    StoredSession,
    keep_answer,
    keep_session,
    list_saved_priors,
    save_prior,
)
from discreet.service.store.tokens import grant_dataset, list_grants
from support.ledger_stores import create_postgres_schema
from support.served_processes import SupervisedService, start_service
from support.service_load import (
    EPSILON,
    Line,
    Reply,
    analyst,
    answered_by,
    check,
    question,
    spread,
    write_config,
    write_data_set,
)

WORKERS, CLIENTS, ROOM = 2, 200, 10
ENGINES = [
    pytest.param("sqlite", marks=pytest.mark.xdist_group("race")),
    pytest.param("postgres", marks=pytest.mark.xdist_group("postgres")),
]
DATASETS = {"many": "0.1", "once": "0.1", "session": "0.2", "queued": "0.1"}
Told = TypeVar("Told")


def at_once(count: int, work: Callable[[int], Told]) -> list[Told]:
    """What so many threads find out that begin at the same moment."""
    start = threading.Barrier(count)

    def begin(number: int) -> Told:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(begin, range(count)))


@dataclass(frozen=True)
class Raced:
    """A service of two workers, and where its ledger and its store are."""

    served: SupervisedService
    folder: Path
    token: str
    ledger: str
    store: str

    def at_once(self, count: int, work: Callable[[Line, int], Told]) -> list[Told]:
        """What so many clients are told, as many at each worker."""
        with spread(self.served, self.token, count // WORKERS) as lines:
            return at_once(count, lambda number: work(lines[number], number))

    def ask(self, path: str, body: dict[str, Any], key: str | None = None) -> Reply:
        """One request."""
        line = Line(self.served.port, self.token)
        try:
            return line.must("GET" if not body else "POST", path, body or None, key)
        finally:
            line.close()

    def check(self, name: str, replies: list[Reply]) -> None:
        check(self.folder / f"{name}.yaml", self.ledger, replies)


@pytest.fixture(scope="module", params=ENGINES)
def raced_service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raced]:
    folder = tmp_path_factory.mktemp("race")
    for name, cap in DATASETS.items():
        write_data_set(folder, name, cap)
    if request.param == "sqlite":
        ledger, store = str(folder / "ledger.db"), str(folder / "service.db")
    else:
        ledger, store = (create_postgres_schema(request.getfixturevalue("postgres")) for _ in range(2))
    named = [f"{name}, jobs: yes" if name == "queued" else name for name in DATASETS]
    config = write_config(folder, named, workers=WORKERS, ledger=ledger, store=store)
    token = analyst(config, *DATASETS)
    with start_service(folder, "--config", config) as served:
        yield Raced(served, folder, token, ledger, store)


def test_two_hundred_parallel_asks_with_room_for_ten(raced_service: Raced) -> None:
    """New draws of one question, and questions of their own: ten are answered, and the others told that it is spent."""

    def ask(line: Line, number: int) -> Reply:
        asked = question("many", number if number % 2 else 0)
        return line.decided("/v1/datasets/many/answers", asked, f"key {number}")

    replies = raced_service.at_once(CLIENTS, ask)
    answered = [reply for reply in replies if reply.status == 201]
    assert len(answered) == ROOM
    assert [reply.kind for reply in replies if reply.status != 201] == ["budget-exceeded"] * (CLIENTS - ROOM)
    raced_service.check("many", answered)


def test_one_key_sent_by_many_at_once_is_one_charge_and_one_reply(raced_service: Raced) -> None:
    def ask(line: Line, _: int) -> Reply:
        return line.must("POST", "/v1/datasets/once/answers", question("once"), "the same")

    replies = raced_service.at_once(52, ask)
    assert {reply.status for reply in replies} == {201}
    assert len(set(replies)) == 1
    raced_service.check("once", replies[:1])


def test_one_key_sent_by_many_at_once_is_one_job(raced_service: Raced) -> None:
    def ask(line: Line, _: int) -> Reply:
        return line.must("POST", "/v1/datasets/queued/answers", question("queued"), "the same")

    replies = raced_service.at_once(20, ask)
    assert {reply.status for reply in replies} == {202}
    [job] = {reply.document["id"] for reply in replies}
    line = Line(raced_service.served.port, raced_service.token)
    raced_service.check("queued", [answered_by(line, job)])
    line.close()


def open_counts_session(raced_service: Raced, key: str) -> str:
    """A session of counts that has room for ten about the same rows; the path of its answers."""
    asked = {"noise_scale": 100, "epsilon": "0.1"}
    reply = raced_service.ask("/v1/datasets/session/sessions", asked, key)
    assert reply.status == 201
    return f"/v1/datasets/session/sessions/{reply.document['id']}"


def test_a_session_never_answers_more_than_it_has_paid_for(raced_service: Raced) -> None:
    """Forty questions about the same rows come at once at all workers: ten fit, and only those are in its log."""
    session = open_counts_session(raced_service, "forty")

    def ask(line: Line, number: int) -> Reply:
        asked = {"question": f"SELECT COUNT(*) FROM session WHERE number >= {number}"}
        return line.decided(f"{session}/answers", asked, f"forty {number}")

    replies = raced_service.at_once(40, ask)
    answered = [reply for reply in replies if reply.status == 201]
    assert [reply.kind for reply in replies if reply.status != 201] == ["budget-exceeded"] * 30
    with Store.open(raced_service.store) as store:
        admitted = StoredLog(store, session.rpartition("/")[2], "any").read_since(0)
    assert sum(1 / one.scale for one in admitted) == Fraction(1, 10)
    assert {one.question for one in admitted} == {reply.document["question"] for reply in answered}
    assert raced_service.ask(session, {}).document["left"] == "0"


def test_a_question_that_comes_at_once_in_a_session_is_drawn_once(raced_service: Raced) -> None:
    session = open_counts_session(raced_service, "one")

    def ask(line: Line, number: int) -> Reply:
        asked = {"question": "SELECT COUNT(*) FROM session"}
        return line.decided(f"{session}/answers", asked, f"one {number}")

    replies = raced_service.at_once(40, ask)
    assert len({reply.document["value"] for reply in replies}) == 1
    assert raced_service.ask(session, {}).document["left"] == str(Fraction(1, 10) - EPSILON)


def test_who_comes_second_to_the_store_is_told_what_the_first_wrote(raced_service: Raced) -> None:
    """Whatever has one row for a key: nobody is refused, and all see the same row."""

    def put(number: int) -> tuple[object, ...]:
        name = str(number)
        grant_dataset(store, "many", f"analyst {turn}")
        save_prior(store, f"analyst {turn}", SavedPrior("mine", name, ""))
        counts = CounterBuffer(store)
        counts.add("race", f"turn {turn}")
        counts.write()
        stored = keep_answer(
            store, StoredAnswer(f"{turn} {name}", "many", False, "ann", f"{turn}", "{}", None, 0.0, name, None)
        )
        job = add_job(store, Job(f"{turn} {name}", "ask", "none", False, "ann", f"{turn}", name, 0, 0, "done"))
        session = keep_session(store, StoredSession(f"{turn} {name}", "many", False, "ann", f"{turn}", name, "1"))
        return stored, job, session

    with Store.open(raced_service.store) as store:
        for turn in range(10):
            assert len(set(at_once(4, put))) == 1
            assert (("many", f"analyst {turn}") in list_grants(store)) is True
            assert len(list_saved_priors(store, f"analyst {turn}")) == 1
            assert read_counters(store)["race", f"turn {turn}"][0] == 4
