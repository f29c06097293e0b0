"""What one analyst does takes nothing from another and tells nothing of her: previews, stored answers, names, pages."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from discreet.errors import InvalidInput
from discreet.sample import write_registry
from discreet.service import monitoring, worker
from discreet.service.config import Config, Limits, read_config
from discreet.service.middleware import limits
from discreet.service.middleware.limits import MINUTE, ComputeQuota
from discreet.service.problems import HttpProblem
from discreet.service.store import Store
from discreet.service.store.tokens import (
    check_readable_name,
    compute_name_skeleton,
    create_token,
    grant_dataset,
    require_distinct_name,
    revoke_grant,
)
from discreet.service.supervisor import SupervisedProcess
from support.inprocess_service import COUNT, HOME, InProcessService, build_config, run_service
from support.served_processes import LONG, is_running, start_service, wait_for

HISTORY = "/console/data/registry/history"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[InProcessService]:
    with run_service(build_config(tmp_path, 100)) as running:
        grant_dataset(running.app.service.store, "registry", "bob")
        yield running


# Previews, by time.


class Clocks:
    """Two clocks that stand until they are moved: that of the machine and that of the thread."""

    def __init__(self) -> None:
        self.now, self.worked = 1000.0, 5.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.worked


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    scripted_clocks = Clocks()
    monkeypatch.setattr(limits, "time", scripted_clocks)
    return scripted_clocks


def work(computing: ComputeQuota, clocks: Clocks, seconds: float, token: str = "ann") -> None:
    with computing.meter(token):
        clocks.worked += seconds


def test_previews_of_a_token_compute_so_long_in_a_minute(tmp_path: Path, clocks: Clocks) -> None:
    """Few long ones and many short ones alike; what is used comes back as time goes by."""
    with closing(ComputeQuota(tmp_path / "computing", 20)) as computing:
        for _ in range(4):
            work(computing, clocks, 5)
        with pytest.raises(HttpProblem) as refused:
            work(computing, clocks, 5)
        assert refused.value.name == "rate-limited"
        assert refused.value.headers == {"Retry-After": "1"}
        assert "20 seconds of computing" in refused.value.detail
        work(computing, clocks, 5, "bob")
        clocks.now += MINUTE / 4
        work(computing, clocks, 5)
        with pytest.raises(HttpProblem):
            work(computing, clocks, 5)


def test_a_preview_that_takes_longer_than_there_is_left_is_owed(tmp_path: Path, clocks: Clocks) -> None:
    """At most a minute more: nobody is locked out for a mistake."""
    with closing(ComputeQuota(tmp_path / "computing", 20)) as computing:
        work(computing, clocks, 1000)
        with pytest.raises(HttpProblem) as refused:
            work(computing, clocks, 1)
        assert refused.value.headers == {"Retry-After": str(int(MINUTE) + 1)}
        clocks.now += MINUTE + 1
        work(computing, clocks, 1)


def test_a_preview_that_is_refused_is_counted_too(tmp_path: Path, clocks: Clocks) -> None:
    with closing(ComputeQuota(tmp_path / "computing", 20)) as computing:
        with suppress(InvalidInput), computing.meter("ann"):
            clocks.worked += 30
            raise InvalidInput("no such column")
        with pytest.raises(HttpProblem):
            work(computing, clocks, 1)


def test_previews_are_refused_once_their_time_is_used_up(tmp_path: Path) -> None:
    """Of one token, for real and in rehearsal; questions are still answered, and others preview on."""
    config = build_config(tmp_path, 100)
    with run_service(replace(config, limits=replace(config.limits, previews=1e-6))) as service:
        grant_dataset(service.app.service.store, "registry", "bob")
        assert service.post("ann", f"{HOME}/previews", COUNT).status_code == 200
        for path in (f"{HOME}/previews", HOME.replace("/v1/", "/v1/rehearsal/") + "/previews"):
            reply = service.post("ann", path, COUNT)
            assert reply.status_code == 429
            assert int(reply.headers["retry-after"]) >= 1
            assert "seconds of computing" in reply.json()["detail"]
        prior = {"question": COUNT["question"], "prior": "normal(10, 3)"}
        assert service.post("ann", f"{HOME}/priors", prior).status_code == 429
        assert service.post("ann", f"{HOME}/answers", COUNT).status_code == 201
        assert service.post("bob", f"{HOME}/previews", COUNT).status_code == 200


def test_the_time_of_previews_is_configured(tmp_path: Path) -> None:
    (tmp_path / "service.yaml").write_text("limits: {previews: 2.5}\ndatasets:\n  - schema: registry.yaml\n")
    assert read_config(tmp_path / "service.yaml").limits == Limits(previews=2.5)
    with pytest.raises(InvalidInput):
        Limits(previews=0)


# Stored answers.


def test_a_stored_epsilon_is_shown_to_who_paid_for_it_alone(service: InProcessService) -> None:
    """To another analyst who offers as much, a preview is the same whether or not the answer is stored."""
    before = service.post("bob", f"{HOME}/previews", COUNT).json()
    assert service.post("ann", f"{HOME}/answers", COUNT).status_code == 201
    own_preview, other = (service.post(who, f"{HOME}/previews", COUNT).json() for who in ("ann", "bob"))
    assert own_preview["stored_epsilon"] == "1/10"
    assert own_preview["cost"]["epsilon"] == "0"
    assert other["stored_epsilon"] is None
    assert {name: other[name] for name in ("cost", "guarantee", "warnings")} == {
        name: before[name] for name in ("cost", "guarantee", "warnings")
    }
    assert service.post("bob", f"{HOME}/answers", COUNT).status_code == 201
    assert service.post("bob", f"{HOME}/previews", COUNT).json()["stored_epsilon"] == "1/10"


def test_a_dearer_stored_answer_of_another_is_told_by_its_cost_alone(service: InProcessService) -> None:
    """With her consent she would pay it, so she is told the cost; without, nothing of what another paid."""
    assert service.post("ann", f"{HOME}/answers", COUNT | {"epsilon": "0.3"}).status_code == 201
    for consent, cost in (({}, "1/10"), ({"reuse": "any"}, "3/10")):
        document = service.post("bob", f"{HOME}/previews", COUNT | consent).json()
        assert (document["stored_epsilon"], document["cost"]["epsilon"]) == (None, cost)


# History, in pages.


def asked_often(service: InProcessService, times: int) -> None:
    for number in range(times):
        body = COUNT | {"question": f"SELECT COUNT(*) FROM registry WHERE age > {20 + number}", "epsilon": "0.01"}
        assert service.post("ann", f"{HOME}/answers", body).status_code == 201


def pages(service: InProcessService, who: str, limit: int) -> list[list[int]]:
    """The entries of every page, until there is no more."""
    entry_pages, before = [], ""
    while True:
        page = service.get(who, f"{HOME}/history?limit={limit}{before}").json()
        entry_pages.append([entry["entry"] for entry in page["history"]])
        if page["next"] is None:
            return entry_pages
        before = f"&before={page['next']}"


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 1000])
def test_a_history_is_read_page_by_page(service: InProcessService, limit: int) -> None:
    """All entries, each once, the latest first; no page is empty, and none but the last is short."""
    asked_often(service, 5)
    whole = [entry["entry"] for entry in service.get("ann", f"{HOME}/history").json()["history"]]
    entry_pages = pages(service, "ann", limit)
    assert len(whole) == 5
    assert [entry for page in entry_pages for entry in page] == whole == sorted(whole, reverse=True)
    assert [len(page) for page in entry_pages[:-1]] == [limit] * (len(entry_pages) - 1)
    assert entry_pages[-1]


def test_a_page_shows_entries_of_the_analyst_alone(service: InProcessService) -> None:
    asked_often(service, 3)
    assert pages(service, "bob", 2) == [[]]
    assert service.get("bob", f"{HOME}/history?before=1000").json() == {"history": [], "next": None}


@pytest.mark.parametrize("before", ["0", "-1", "x", "", "1.5", "9" * 30])
def test_a_page_begins_at_an_entry(service: InProcessService, before: str) -> None:
    assert service.get("ann", f"{HOME}/history?before={before}").status_code == 400


# Who sends requests, and where to.


def test_assets_are_not_counted_among_attempts_to_sign_in(tmp_path: Path) -> None:
    """A page of the console brings many files; loading it used up the attempts of its address."""
    config = build_config(tmp_path, 50)
    with run_service(replace(config, limits=replace(config.limits, rate=0.000001, burst=4))) as service:
        page = service.get(None, "/console/sign-in")
        assets = sorted(set(re.findall(r'"(/console/assets/[^"]+)"', page.text)))[:3]
        assert assets
        for _ in range(3):
            assert [service.get(None, one).status_code for one in assets[:1]] == [200]
        signed_in = service.client.post("/console/sign-in", data={"token": "dsc_wrong"})
        assert signed_in.status_code == 401
        statuses = [service.get(None, assets[0]).status_code for _ in range(5)]
        assert statuses[-1] == 429  # they have a limit of their own


def test_the_host_header_is_not_in_code_that_sends_a_token(service: InProcessService) -> None:
    """Who has a page asked for under another name would be sent the token by whoever runs the code."""
    code = shown_code(service)
    assert "evil.example" not in code
    assert "http://testserver" in code


def test_code_shows_the_address_that_is_configured(tmp_path: Path) -> None:
    with run_service(replace(build_config(tmp_path, 100), url="https://data.example.org")) as service:
        code = shown_code(service)
    assert "https://data.example.org" in code
    assert not {"evil.example", "testserver"} & set(re.findall(r"[a-z.]+", code))


def shown_code(service: InProcessService) -> str:
    """The page of an answer, as a browser sees it that was led there under another name."""
    answer_id = service.post("ann", f"{HOME}/answers", COUNT).json()["id"]
    headers = {"Host": "evil.example", "Authorization": f"Bearer {service.tokens['ann']}"}
    pages = [one.path for one in iter_pages(service) if one.path.endswith("/answers/{wanted}")]
    path = next(one for one in pages if "rehearsal" not in one).format(dataset="registry", wanted=answer_id)
    reply = service.client.get(path, headers=headers)
    assert reply.status_code == 200
    return str(reply.text)


def iter_pages(service: InProcessService) -> list[Any]:
    from fastapi.routing import iter_route_contexts

    return [one for one in iter_route_contexts(service.app.api.routes) if one.path and one.path.startswith("/console/")]


@pytest.mark.parametrize("url", ["data.example.org", "ftp://x", "https://x/path", "https://a b", "https://x:y", ""])
def test_an_address_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidInput, match="url"):
        replace(build_config(tmp_path, 50), url=url)


# Names.


@pytest.mark.parametrize(
    "name", ["ANN", "ａｎｎ", "Ann", "ánn", "ann ".strip() + "\u0301", "АNN".replace("А", "Ａ")], ids=ascii
)
def test_a_name_that_looks_like_another_is_refused(tmp_path: Path, name: str) -> None:
    with Store.open(str(tmp_path / "service.db")) as store:
        create_token(store, "ann", "analyst")
        for make in (lambda: create_token(store, name, "analyst"), lambda: grant_dataset(store, "registry", name)):
            with pytest.raises(InvalidInput, match="looks like 'ann'"):
                make()
        create_token(store, "ann", "analyst")  # the same name is no other
        grant_dataset(store, "registry", "ann")
        create_token(store, "anna", "analyst")


@pytest.mark.parametrize("name", ["a\u200bnn", "ann\u202e", "\u3164", "a\u034fnn", "ann\ufe0f"], ids=ascii)
def test_a_name_with_what_cannot_be_seen_is_refused(tmp_path: Path, name: str) -> None:
    with Store.open(str(tmp_path / "service.db")) as store, pytest.raises(InvalidInput, match="name"):
        create_token(store, name, "analyst")


@pytest.mark.parametrize("name", ["аnn", "pαul", "bоb"], ids=ascii)
def test_a_name_of_several_scripts_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"mixes letters of .* and "):
        check_readable_name(name, "the analyst's name")


@pytest.mark.parametrize(
    "name", ["Ann Lee", "O'Neil-2", "Владимир", "山田太郎", "やまだ太郎", "김민준", "José", "ann@x.org"]
)
def test_names_of_people_are_taken(tmp_path: Path, name: str) -> None:
    with Store.open(str(tmp_path / "service.db")) as store:
        assert create_token(store, name, "analyst")[0].analyst == name


def test_letters_of_another_script_that_are_drawn_alike_are_seen() -> None:
    """A name in one script that is drawn as another's; and digits as letters."""
    assert (
        compute_name_skeleton("сосо")
        == compute_name_skeleton("coco")
        == compute_name_skeleton("COCO")
        == compute_name_skeleton("c0c0")
    )
    assert compute_name_skeleton("ann1") == compute_name_skeleton("annl")
    assert compute_name_skeleton("ann") != compute_name_skeleton("bob")
    with pytest.raises(InvalidInput, match="the data set 'Registry' looks like 'registry'"):
        require_distinct_name("Registry", ["registry", "Registry"], "the data set")


def test_a_name_from_before_keeps_its_grants(tmp_path: Path) -> None:
    """A store may have names that are refused by now: they are used on, and can be ended."""
    from sqlalchemy import insert

    from discreet.service.store.store import grants

    with Store.open(str(tmp_path / "service.db")) as store:
        with store.database.begin_write() as connection:
            for name in ("ann", "ANN"):
                connection.execute(insert(grants), {"dataset": "registry", "analyst": name})
        create_token(store, "ANN", "analyst")
        grant_dataset(store, "other", "ANN")
        revoke_grant(store, "registry", "ANN")


def test_data_sets_that_look_alike_are_not_served(tmp_path: Path) -> None:
    from discreet.service.supervisor import try_startup

    one = write_registry(tmp_path / "one", 20)
    two = write_registry(tmp_path / "two", 20)
    two.write_text(two.read_text().replace("name: registry", "name: Registry"))
    known = build_config(tmp_path / "three", 50)
    both: Config = replace(known, datasets=tuple(replace(known.datasets[0], schema=path) for path in (one, two)))
    with pytest.raises(InvalidInput, match="looks like"):
        try_startup(both, lambda _: None)


# A worker that hangs.


def beats_then_hangs(line: Connection) -> None:
    """Give a sign of life, then none."""
    line.send_bytes(b".")
    time.sleep(600)


@pytest.fixture
def post() -> Iterator[SupervisedProcess]:
    """A process that gives one sign of life; whatever the test finds, nothing of it runs on."""
    process = SupervisedProcess("worker", beats_then_hangs, (), hang_timeout=30)
    process.keep_running(0)
    started = process.process
    try:
        yield process
    finally:
        for one in {started, process.process} - {None}:
            assert one is not None
            one.kill()
            one.join()


def wait_until_heard(post: SupervisedProcess) -> BaseProcess:
    """The process, once it has given its sign of life."""
    end = time.monotonic() + LONG
    while post.last_beat is None and time.monotonic() < end:
        time.sleep(0.05)
        post.keep_running(0)
    assert post.process is not None
    return post.process


def test_a_process_without_signs_of_life_is_replaced(post: SupervisedProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed once none came for as long as is said; one that never gave any may still be starting."""
    written: list[str] = []
    monkeypatch.setattr(monitoring, "write_event", lambda event, **_: written.append(event))
    first = wait_until_heard(post)
    for now in (10.0, 20.0, 29.0):
        post.keep_running(now)
        assert post.process is first
    for now in (40.0, 50.0, 70.0):
        post.keep_running(now)
    assert written == ["hung", "died"]
    assert first.exitcode == -signal.SIGKILL
    post.keep_running(1000.0)
    assert post.process is not None
    assert post.process is not first


def test_a_supervisor_that_stood_still_kills_nobody(post: SupervisedProcess) -> None:
    """As on a machine that slept: nobody could give a sign of life meanwhile."""
    first = wait_until_heard(post)
    post.keep_running(10_000.0)
    assert first.is_alive()


def test_a_worker_gives_signs_of_life_while_its_event_loop_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """None while it does not turn; and the thread that gives them ends with the line."""
    monkeypatch.setattr(worker, "HEARTBEAT_INTERVAL", 0.01)
    near, far = Pipe()
    turns = threading.Event()
    before = threading.active_count()
    worker._start_heartbeat(far, turns.is_set)
    assert not near.poll(0.2)
    turns.set()
    assert near.poll(20)
    assert near.recv_bytes() == b"."
    near.close()
    far.close()
    wait_for(lambda: threading.active_count() == before)


def test_a_worker_that_is_stopped_is_replaced_and_the_service_answers(tmp_path: Path) -> None:
    """SIGSTOP: the process is there and does nothing, and the only one that answers."""
    write_registry(tmp_path, 50)
    config = tmp_path / "service.yaml"
    config.write_text("port: 0\nworkers: 1\nhung: 4\npadding: no\ndatasets:\n  - schema: registry.yaml\n")
    with start_service(tmp_path, "--config", config) as running:
        [only] = [line["process"] for line in running.events("started", "worker")]
        time.sleep(3)  # until it has given a sign of life
        os.kill(only, signal.SIGSTOP)
        wait_for(lambda: only in [line["process"] for line in running.events("hung", "worker")])
        wait_for(lambda: not is_running(only))
        assert httpx.get(f"{running.address}/health", timeout=LONG).status_code == 200
