"""What a service bounds, keeps apart and does not hide: jobs, names, kept answers, counters, threads, warnings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from sqlalchemy import update

from discreet.errors import InvalidInput
from discreet.ledger import Ledger
from discreet.service.config import Limits, read_config
from discreet.service.jobs import run_next_job
from discreet.service.middleware.auth import AuthMiddleware
from discreet.service.middleware.deadline import Message, Receive, Scope, Send, get_request_state
from discreet.service.store import Store
from discreet.service.store.job_queue import (
    DEAD_AFTER,
    Job,
    JobKind,
    add_job,
    list_dead_jobs,
    list_jobs,
    requeue_job,
    take_job,
)
from discreet.service.store.store import answers, jobs, read_counters
from discreet.service.store.stored_answers import StoredAnswer, find_answer_by_id, keep_answer
from discreet.service.store.tokens import create_token, revoke_token
from support.inprocess_service import COUNT, HOME, InProcessService, build_config, run_service
from support.ledger_stores import DATASET, build_caps, build_charge, charge_and_store, ledger, ledger_address

__all__ = ["ledger", "ledger_address"]  # fixtures


@pytest.fixture
def service(tmp_path: Path) -> Iterator[InProcessService]:
    with run_service(build_config(tmp_path)) as running:
        yield running


@pytest.fixture
def store(ledger_address: str) -> Iterator[Store]:
    with Store.open(ledger_address) as opened:
        yield opened


# Who sees what


def _job(name: str, kind: JobKind, at: float = 0.0, **options: Any) -> Job:
    return Job(name, kind, "registry", False, "ann", name, "{}", 0.0, at, **options)


def test_only_questions_are_seen_by_who_asked_them(service: InProcessService) -> None:
    """A release or a sweep is a custodian's, whatever name it was queued under."""
    ids: dict[JobKind, str] = {"ask": "a" * 32, "publish": "b" * 32, "sweep": "c" * 32}
    for kind, name in ids.items():
        add_job(service.app.service.store, _job(name, kind))
    for who, visible_kinds in (("ann", {"ask"}), ("cus", set(ids)), ("bob", set())):
        assert {one["kind"] for one in service.get(who, "/v1/jobs").json()["jobs"]} == visible_kinds
        for page in ("/v1/jobs/{}", "/console/jobs/{}"):
            shown_kinds = {kind for kind, name in ids.items() if service.get(who, page.format(name)).status_code == 200}
            assert shown_kinds == visible_kinds, page


def test_a_list_of_jobs_does_not_hide_releases_behind_questions(store: Store) -> None:
    add_job(store, _job("release", "publish", at=0.5))
    for at in range(1, 4):
        add_job(store, _job(f"question {at}", "ask", at=float(at)))
    assert [one.id for one in list_jobs(store, None, 2)] == ["question 3", "question 2", "release"]
    assert list_jobs(store, "bob", 2) == []


@pytest.mark.parametrize("name", ["custodian", "Custodian", "CUSTODIAN"])
def test_no_analyst_has_the_name_that_releases_are_paid_by(store: Store, name: str) -> None:
    with pytest.raises(InvalidInput, match="released files are paid from the account 'custodian'"):
        create_token(store, name, "analyst")
    assert create_token(store, name, "custodian")[0].role == "custodian"


@pytest.mark.parametrize(("first", "then"), [("analyst", "custodian"), ("custodian", "analyst")])
def test_a_name_has_one_role_for_good(store: Store, first: str, then: str) -> None:
    token, _ = create_token(store, "ann", first)
    create_token(store, "ann", first)
    revoke_token(store, token.id)
    with pytest.raises(InvalidInput, match=f"has, or had, a token as {first}"):
        create_token(store, "ann", then)
    create_token(store, "bob", then)


# What is kept


def _build_stored_answer(name: str, at: float, **options: Any) -> StoredAnswer:
    return replace(StoredAnswer(name, "registry", False, "ann", name, "{}", 1, at, "{}", None), **options)


def _ids(store: Store, table: Any) -> set[str]:
    with store.database.begin_read() as connection:
        return set(connection.execute(table.select().with_only_columns(table.c.id)).scalars())


@pytest.mark.parametrize("rehearsal", [False, True])
def test_the_oldest_answers_go(store: Store, monkeypatch: pytest.MonkeyPatch, rehearsal: bool) -> None:
    """Those of this analyst on this data set, real or rehearsed, and now and then."""
    monkeypatch.setattr(f"discreet.service.store.stored_answers.{'MAX_REHEARSED' if rehearsal else 'MAX_STORED'}", 2)
    others = [
        _build_stored_answer("a0", 0, analyst="bob"),
        _build_stored_answer("a1", 0, dataset="other"),
        _build_stored_answer("a2", 0, rehearsal=not rehearsal),
    ]
    mine = [_build_stored_answer(name, at, rehearsal=rehearsal) for at, name in enumerate(("f3", "f2", "f1", "08"), 1)]
    for one in (*others, *mine):
        assert keep_answer(store, one) == one
    assert len(_ids(store, answers)) == 7
    last = _build_stored_answer("07", 5, rehearsal=rehearsal)
    assert keep_answer(store, last) == last
    assert _ids(store, answers) == {"a0", "a1", "a2", "08", "07"}


def test_the_oldest_questions_that_were_jobs_go_and_nothing_else(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases stay, and so does what waits or runs."""
    monkeypatch.setattr("discreet.service.store.stored_answers.MAX_STORED", 1)
    add_job(store, _job("waits", "ask", at=1))
    add_job(store, _job("runs", "ask", at=1, state="running"))
    add_job(store, _job("release", "publish", at=1, state="done"))
    for at, state in enumerate(("done", "failed", "done"), 2):
        add_job(store, _job(f"ended {at}", "ask", at=at, state=state))
    add_job(store, _job("00", "ask", at=9))
    assert _ids(store, jobs) == {"waits", "runs", "release", "ended 4", "00"}


def test_a_question_whose_answer_is_kept_no_longer_runs_again_for_nothing(tmp_path: Path) -> None:
    config = build_config(tmp_path)
    with run_service(replace(config, datasets=(replace(config.datasets[0], jobs=True),))) as service:
        inside = service.app.service

        def asked() -> tuple[str, list[dict[str, Any]]]:
            queued = service.post("ann", f"{HOME}/answers", COUNT, Idempotency_Key="k").json()
            run_next_job(inside, "runner")
            name = service.get("ann", f"/v1/jobs/{queued['id']}").json()["answer"]
            rows: list[dict[str, Any]] = service.get("ann", f"{HOME}/answers/{name}").json()["rows"]
            return name, rows

        first, rows = asked()
        assert asked() == (first, rows)
        budget = service.get("ann", f"{HOME}/budget").json()
        with inside.store.database.begin_write() as connection:
            connection.execute(answers.delete())
        again, same = asked()
        assert (again != first, same) == (True, rows)
        assert service.get("ann", f"{HOME}/budget").json() == budget
        assert find_answer_by_id(inside.store, "registry", False, again) is not None


# What is counted


def test_nobody_makes_counters_at_will(service: InProcessService) -> None:
    """Methods and paths that are made up share one label."""
    for name in ("BREW", "X" * 50, "get"):
        service.call("ann", name, f"/v1/{name}")
        service.call(None, name, "/health")
    service.get("ann", "/v1/nothing/here")
    service.get("ann", f"{HOME}-of-others/budget")
    service.app.service.counters.write()
    labels = {label for (name, label) in read_counters(service.app.service.store) if name == "requests"}
    ours = {one.path for one in service.app.api.routes if hasattr(one, "path")} | {"other"}
    ours |= set(service.app.api.openapi()["paths"])
    parts = [label.split(" ") for label in labels]
    assert {method for method, _, _ in parts} == {"OTHER", "GET"}
    assert {path for _, path, _ in parts} <= ours


# Threads


def _scope(service: InProcessService, path: str = "/v1/me", who: str = "ann") -> Scope:
    headers = [(b"authorization", f"Bearer {service.tokens[who]}".encode())]
    return {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b""}


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


class Replies(list[Message]):
    """What was sent."""

    async def take(self, message: Message) -> None:
        self.append(message)

    @property
    def status_and_retry(self) -> tuple[int, bytes | None]:
        """The status, and when to come again."""
        return self[0]["status"], dict(self[0]["headers"]).get(b"retry-after")


def test_a_token_has_only_so_many_requests_at_work(service: InProcessService) -> None:
    """One that is sent while another is at work is refused; other tokens, and later ones, are not."""
    inside = replace(service.app.service, config=replace(service.config, limits=Limits(together=1)))
    second, other, later = Replies(), Replies(), Replies()
    depth = 0

    async def app(_: Scope, __: Receive, send: Send) -> None:
        nonlocal depth
        depth += 1
        if depth == 1:
            await gate(_scope(service), _nothing, second.take)
            await gate(_scope(service, who="bob"), _nothing, other.take)
            raise ValueError
        await send({"type": "http.response.start", "status": 200, "headers": []})

    gate = AuthMiddleware(app, inside)

    async def all_of_them() -> None:
        await gate(_scope(service), _nothing, Replies().take)
        await gate(_scope(service), _nothing, later.take)

    anyio.run(all_of_them)
    assert (second.status_and_retry, other.status_and_retry, later.status_and_retry) == (
        (429, b"1"),
        (200, None),
        (200, None),
    )


def test_who_sends_it_and_health_are_told_while_all_threads_are_busy(service: InProcessService) -> None:
    replies, names = Replies(), []

    async def app(scope: Scope, _: Receive, __: Send) -> None:
        principal = get_request_state(scope).principal
        names.append(principal and principal.name)

    async def busy() -> None:
        threads = to_thread.current_default_thread_limiter()
        for at in range(int(threads.total_tokens)):
            await threads.acquire_on_behalf_of(at)
        with anyio.fail_after(60):
            await AuthMiddleware(app, service.app.service)(_scope(service), _nothing, replies.take)
            await service.app(_scope(service, "/health"), _nothing, replies.take)

    anyio.run(busy)
    assert (names, replies.status_and_retry) == (["ann"], (200, None))


def test_limits_as_they_come_and_as_they_are_told(tmp_path: Path) -> None:
    assert (Limits().bins, Limits().together) == (4096, 32)
    (tmp_path / "service.yaml").write_text("limits: {together: 3}\ndatasets: [{schema: a.yaml}]\n")
    assert read_config(tmp_path / "service.yaml").limits == Limits(together=3)
    with pytest.raises(InvalidInput):
        Limits(together=0)


# What fails again and again


def test_a_question_that_stops_its_runner_three_times_is_given_up(tmp_path: Path) -> None:
    config = build_config(tmp_path)
    with run_service(replace(config, datasets=(replace(config.datasets[0], jobs=True),))) as service:
        inside = service.app.service
        job = service.post("ann", f"{HOME}/answers", COUNT, Idempotency_Key="k").json()["id"]
        for attempt in range(1, 4):
            assert take_job(inside.store, "one that dies") is not None
            with inside.store.database.begin_write() as connection:
                connection.execute(update(jobs).values(beat=time.time() - 2 * DEAD_AFTER))
            (dead,) = list_dead_jobs(inside.store)
            assert dead.attempts == attempt
            if attempt < 3:
                requeue_job(inside.store, dead)
        assert not run_next_job(inside, "another")
        document = service.get("ann", f"/v1/jobs/{job}").json()
        assert (document["state"], document["problem"]["type"]) == ("failed", "/problems/internal")
        assert "stopped its runner three times" in document["problem"]["detail"]
        assert service.post("ann", f"{HOME}/answers", COUNT, Idempotency_Key="k").json() == document


# What the custodian must see


def test_what_is_notable_is_found_however_long_ago_it_was(ledger: Ledger) -> None:
    """Releases and answers with an epsilon above 5; five itself is none."""
    for number, epsilon in enumerate(("5", "5.0000001", "12", "0.1")):
        charge_and_store(ledger, build_charge(number, epsilon), build_caps(1000), "{}")
    ledger.release(DATASET, "s1", "a file by mdav", "{}")
    for number in range(4, 12):
        charge_and_store(ledger, build_charge(number, "0.1"), build_caps(1000), "{}")
    notable = [(one.kind, one.epsilon, one.query) for one in ledger.notable_entries(DATASET)]
    assert [one[:2] for one in notable] == [("release", None), ("charge", 12), ("charge", Fraction("5.0000001"))]
    assert notable[0][2] == "a file by mdav"
    assert ledger.notable_entries("another") == []


def test_a_large_epsilon_is_warned_of(tmp_path: Path) -> None:
    config = build_config(tmp_path)
    schema = config.datasets[0].schema
    schema.write_text(schema.read_text().replace("epsilon: 3", "epsilon: 30").replace("epsilon: 1", "epsilon: 10"))
    with run_service(config) as service:
        reply = service.post("cus", f"{HOME}/answers", COUNT | {"epsilon": "6"})
        assert reply.status_code == 201, reply.text
        document = [one for one in service.get("cus", "/v1/warnings").json()["warnings"] if one["kind"] == "epsilon"]
        assert [one["text"] for one in document] == [
            f"entry {reply.json()['entry']} has epsilon 6: weak formal protection"
        ]


def test_nobody_is_charged_more_than_was_offered(service: InProcessService) -> None:
    """A preview names no epsilon that another analyst paid, and the reply costs what the preview said."""
    question = {"question": "SELECT COUNT(*) FROM registry WHERE age > 71"}
    assert service.post("ann", f"{HOME}/answers", question | {"epsilon": "0.3"}).status_code == 201
    offer = question | {"epsilon": "0.1"}
    document = service.post("cus", f"{HOME}/previews", offer).json()
    assert (document["reuse"], document["stored_epsilon"], document["cost"]["epsilon"]) == ("degraded", None, "1/10")
    before = [one["spent"] for one in service.get("cus", f"{HOME}/budget").json()["budget"]]
    assert service.post("cus", f"{HOME}/answers", offer).json()["cost"]["epsilon"] == "1/10"
    assert [one["spent"] for one in service.get("cus", f"{HOME}/budget").json()["budget"]] == before
    consent = service.post("cus", f"{HOME}/previews", question | {"epsilon": "0.2", "reuse": "any"}).json()
    assert (consent["reuse"], consent["stored_epsilon"], consent["cost"]["epsilon"]) == ("shared", None, "3/10")
    assert service.post("cus", f"{HOME}/answers", offer | {"reuse": "all"}).status_code == 400


def test_only_from_what_is_stored(service: InProcessService) -> None:
    """Where nothing is stored nothing is charged; else it is what was stored."""
    before = service.get("ann", f"{HOME}/budget").json()
    refused = service.post("ann", f"{HOME}/answers", COUNT | {"stored_only": True})
    assert refused.status_code in {400, 403}
    assert service.get("ann", f"{HOME}/budget").json() == before
    rows = service.post("ann", f"{HOME}/answers", COUNT).json()["rows"]
    paid = service.get("ann", f"{HOME}/budget").json()
    again = service.post("ann", f"{HOME}/answers", COUNT | {"stored_only": True})
    assert (again.status_code, again.json()["rows"]) == (201, rows)
    assert service.get("ann", f"{HOME}/budget").json() == paid
