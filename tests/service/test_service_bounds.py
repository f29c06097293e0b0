"""What one token can make a service do and keep; releases in rehearsal and after a revocation; a ledger put back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import update

from discreet.errors import InvalidInput
from discreet.ledger import Ledger
from discreet.query import parse_question
from discreet.query.query import count_answer_numbers
from discreet.schema import load_schema
from discreet.service import monitoring
from discreet.service.api.admin_routes import HealthCache
from discreet.service.config import Config, Limits, read_config
from discreet.service.jobs import run_next_job
from discreet.service.middleware.auth import MAX_REHEARSALS, AuthMiddleware
from discreet.service.middleware.deadline import Message, Receive, Scope, Send
from discreet.service.store import Store
from discreet.service.store.store import answers
from discreet.service.store.tokens import create_token, revoke_token
from support.inprocess_service import COUNT, HOME, InProcessService, build_config, run_service

REHEARSAL = HOME.replace("/v1/", "/v1/rehearsal/")
MANY = ", ".join(f"COUNT(*) FILTER (WHERE age > {age})" for age in range(20, 80))
ORDERS = ", ".join(f"0.{order}" for order in range(101, 200))
MDAV = {"method": "mdav", "k": 5}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[InProcessService]:
    with run_service(build_config(tmp_path)) as running:
        yield running


@pytest.fixture(scope="module")
def asked_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessService]:
    """A service of which several tests ask what is refused, or in rehearsal; it takes a delta too."""
    folder = tmp_path_factory.mktemp("asked")
    with run_service(with_delta(folder)) as running:
        yield running


def with_delta(folder: Path) -> Config:
    config, schema = build_config(folder, 100), folder / "registry.yaml"
    schema.write_text(schema.read_text().replace("models: [dp]", "models: [dp, approx-dp]"))
    return config


def whole_budget(service: InProcessService) -> Any:
    return service.get("cus", f"{HOME}/budget").json()["budget"]


def entries(service: InProcessService, home: str = HOME) -> list[Any]:
    return list(service.get("cus", f"{home}/history").json()["history"])


# How much a reply has


@pytest.mark.parametrize(
    "question",
    [
        "SELECT COUNT(*) FROM registry",
        "SELECT sex, COUNT(*), AVG(age) FROM registry GROUP BY sex",
        "SELECT sex, QUANTILE(age, 0.1, 0.2, 0.3) FROM registry GROUP BY sex",
        "SELECT COUNT(*) AS a, COUNT(*) AS b, COUNT(*) AS c FROM registry",
        "SELECT sex, diagnosis, COUNT(*) FROM registry GROUP BY ROLLUP (sex, diagnosis)",
        "SELECT HISTOGRAM(age, 10) FROM registry",
    ],
)
def test_numbers_are_counted_over_rows_and_aggregates(asked_service: InProcessService, question: str) -> None:
    """As many as the reply has."""
    schema = load_schema(asked_service.config.datasets[0].schema)
    document = asked_service.post("ann", f"{REHEARSAL}/answers", {"question": question, "epsilon": "100"}).json()
    assert count_answer_numbers(parse_question(question, schema), schema) == len(document["rows"]) * len(
        document["numbers"]
    )


@pytest.mark.parametrize("home", [HOME, REHEARSAL])
@pytest.mark.parametrize("numbers", [f"age, {MANY}", f"age, QUANTILE(income, {ORDERS})"])
def test_more_numbers_than_bins_are_refused(asked_service: InProcessService, home: str, numbers: str) -> None:
    settings = {"question": f"SELECT {numbers} FROM registry GROUP BY age", "epsilon": "0.1"}
    before = entries(asked_service, home)
    for path in ("previews", "answers"):
        reply = asked_service.post("ann", f"{home}/{path}", settings)
        assert reply.status_code == 400
        assert reply.json()["detail"].startswith(
            "an answer has at most 4096 numbers here, its groups or bins times the"
        )
    assert entries(asked_service, home) == before


def test_a_token_has_few_rehearsals_at_work(service: InProcessService) -> None:
    """One more is refused, a request for real is not, and once they are done there may be others."""
    statuses: list[int] = []

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        depth = scope["depth"]
        if 0 < depth <= MAX_REHEARSALS:
            await gate(_scope(service, f"{REHEARSAL}/answers", depth + 1), _nothing, collect)
            await gate(_scope(service, f"{HOME}/answers", 0), _nothing, collect)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def collect(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    gate = AuthMiddleware(app, service.app.service)
    for _ in range(2):
        anyio.run(gate, _scope(service, "/console/rehearsal/datasets/registry", 1), _nothing, collect)
        assert sorted(statuses) == [200] * 2 * MAX_REHEARSALS + [429]
        statuses.clear()
    assert not gate._active_requests


def _scope(service: InProcessService, path: str, depth: int) -> Scope:
    headers = [(b"authorization", f"Bearer {service.tokens['ann']}".encode())]
    settings = {"type": "http", "method": "GET", "path": path, "query_string": b"", "client": ("127.0.0.1", 1)}
    return {**settings, "headers": headers, "depth": depth}


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


# How little a question may cost


@pytest.mark.parametrize("home", [HOME, REHEARSAL])
@pytest.mark.parametrize(
    "noise",
    [
        {"epsilon": "1e-8", "fresh": True},
        {"epsilon": "0.00009"},
        {"epsilon": "0.009", "delta": "1e-9"},
        {"noise_scale": "20000"},
        {"noise_scale": "2000", "delta": "1e-9"},
        {"accuracy": "±900000 at 95%"},
    ],
)
def test_an_epsilon_below_the_least_is_refused(
    asked_service: InProcessService, home: str, noise: dict[str, Any]
) -> None:
    """What is stored stays for good, so that it must not be had for next to nothing."""
    wanted, before = {"question": COUNT["question"]} | noise, entries(asked_service, home)
    shown = {name: value for name, value in wanted.items() if name != "fresh"}
    for path, message in (("answers", wanted), ("previews", shown)):
        reply = asked_service.post("ann", f"{home}/{path}", message)
        assert reply.status_code == 400, reply.text
        least = (
            "with a delta has an epsilon of at least 0.01" if "delta" in noise else "has an epsilon of at least 0.0001"
        )
        assert reply.json()["detail"] == f"a question {least} here; ask for more, or ask the custodian"
    assert entries(asked_service, home) == before


@pytest.mark.parametrize("home", [HOME, REHEARSAL])
def test_an_epsilon_that_is_the_least_is_enough(tmp_path: Path, home: str) -> None:
    """Also after less was refused."""
    with run_service(with_delta(tmp_path)) as service:
        less = {"question": COUNT["question"], "epsilon": "0.00009"}
        assert service.post("ann", f"{home}/answers", less).status_code == 400
        assert len(entries(service, home)) == 1
        for enough in ({"epsilon": "0.0001"}, {"epsilon": "0.01", "delta": "1e-9"}, {"noise_scale": "100"}):
            reply = service.post("ann", f"{home}/answers", {"question": COUNT["question"]} | enough)
            assert reply.status_code == 201, reply.text


def test_a_session_costs_the_least_too(service: InProcessService) -> None:
    reply = service.post("ann", f"{HOME}/sessions", {"noise_scale": "100000000", "epsilon": "0.00005"})
    assert (reply.status_code, "at least 0.0001" in reply.json()["detail"]) == (400, True)
    assert len(entries(service)) == 1


def test_the_least_as_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "service.yaml").write_text("limits: {least: 0.02}\ndatasets: [{schema: a.yaml}]\n")
    assert read_config(tmp_path / "service.yaml").limits == Limits(least=Fraction(1, 50))
    with pytest.raises(InvalidInput, match="above 0"):
        Limits(least=Fraction(0))


def test_a_rehearsal_begins_a_new_ledger_where_the_old_one_is_large(
    service: InProcessService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that were kept have no entry in it, so that its own entries have no answers but their own."""
    first = service.post("ann", f"{REHEARSAL}/answers", COUNT).json()
    (home,) = (service.config.folder / "rehearsal" / "registry").iterdir()
    for number in (2, 3):
        with monkeypatch.context() as grown:
            grown.setattr("discreet.custodian.rehearsal.MAX_LEDGER_BYTES", 1)
            assert service.get("ann", f"{REHEARSAL}/budget").json()["budget"][0]["spent"]["epsilon"] == "0"
        document = service.post("ann", f"{REHEARSAL}/answers", COUNT).json()
        assert (document["stored"], document["entry"]) == (False, first["entry"])
        charged = [one for one in entries(service, REHEARSAL) if one["kind"] == "charge"]
        assert [one["answers"] for one in charged] == [[document["id"]]]
        assert {path.name for path in home.iterdir()} == {str(number - 1), str(number)}
    assert service.get("ann", f"{REHEARSAL}/answers/{first['id']}").json() == first


# Releases


@pytest.mark.parametrize(("path", "request_body"), [("releases", MDAV), ("sweeps", {"ks": "k=3..5"})])
@pytest.mark.parametrize("home", [HOME, REHEARSAL])
def test_what_a_custodian_queued_does_not_run_once_the_token_is_revoked(
    service: InProcessService, home: str, path: str, request_body: dict[str, Any]
) -> None:
    store = service.app.service.store
    token, service.tokens["left"] = create_token(store, "left", "custodian")
    job = service.post("left", f"{home}/{path}", request_body).json()
    revoke_token(store, token.id)
    before = whole_budget(service), entries(service)
    assert run_next_job(service.app.service, "runner")
    document = service.get("cus", f"/v1/jobs/{job['id']}").json()
    assert (document["state"], document["files"]) == ("failed", [])
    assert document["problem"]["detail"] == (
        "whoever asked for this is a custodian no more; nothing was charged, and nothing released"
    )
    assert (whole_budget(service), entries(service)) == before


def test_a_release_is_rehearsed(service: InProcessService) -> None:
    """Its files, its report and its entry are the rehearsal's; the data set is neither charged nor flagged."""
    before = whole_budget(service), entries(service)
    for message in (MDAV, {"method": "private-columns", "epsilon": "1", "columns": ["age", "sex"]}):
        queued = service.post("cus", f"{REHEARSAL}/releases", message)
        assert (queued.status_code, queued.json()["rehearsal"]) == (202, True)
        assert run_next_job(service.app.service, "runner")
        done = service.get("cus", f"/v1/jobs/{queued.json()['id']}").json()
        assert (done["state"], done["release"]["method"]) == ("done", message["method"])
        assert any("a rehearsal" in one for one in done["release"]["warnings"])
        for name in done["files"]:
            assert service.get("cus", f"/v1/jobs/{done['id']}/files/{name}").status_code == 200
        assert len(done["files"]) == 3
        assert done["id"] not in service.get("cus", "/console/custodian/datasets/registry/publish").text
    assert (whole_budget(service), entries(service)) == before
    assert len(entries(service, REHEARSAL)) == 3
    assert not (service.config.folder / "releases").exists()
    assert not (service.config.folder.parent / "registry.discreet" / "releases").exists()


def test_a_sweep_and_a_plan_are_rehearsed(service: InProcessService) -> None:
    queued = service.post("cus", f"{REHEARSAL}/sweeps", {"ks": "k=3..5", "methods": ["mdav"]}).json()
    assert run_next_job(service.app.service, "runner")
    done = service.get("cus", f"/v1/jobs/{queued['id']}").json()
    assert (done["state"], done["files"]) == ("done", ["sweep.html"])
    plans = [
        service.post("cus", f"{home}/releases/previews", {"epsilon": "1", "columns": ["age", "sex"]}).json()["plans"]
        for home in (HOME, REHEARSAL)
    ]
    assert plans[0] == plans[1]


# A ledger that was put back


def test_answers_do_not_go_to_the_entries_of_a_ledger_that_was_restored(tmp_path: Path) -> None:
    """Not even to one with the same question and the same number; nor do their pictures."""
    config, copy = build_config(tmp_path), tmp_path / "copy.db"
    file = tmp_path / "registry.discreet" / "ledger.db"
    prior = COUNT | {"prior": "normal(100, 30)"}
    with run_service(config) as service:
        reply = service.post("ann", f"{HOME}/answers", COUNT | {"question": f"{COUNT['question']} AND age > 40"})
        Ledger.backup(file, copy)
        lost = service.post("ann", f"{HOME}/answers", prior).json()
    for path in file.parent.glob("ledger.db*"):
        path.unlink()
    Ledger.restore(copy, file, forgotten=Fraction(1, 10))
    with Ledger.existing(file) as ledger, Store.open(config.store) as store, store.database.begin_write() as connection:
        new = ledger.verify("registry").entries + 1  # as if more had been asked since the back-up
        connection.execute(update(answers).where(answers.c.id == lost["id"]).values(entry=new))
    with run_service(config) as service:
        document = service.post("ann", f"{HOME}/answers", prior).json()
        assert document["entry"] == new
        history = service.get("ann", f"{HOME}/history").json()["history"]
        assert [one["answers"] for one in history] == [[document["id"]], [], [reply.json()["id"]]]
        assert service.get("ann", f"{HOME}/answers/{lost['id']}").json() == lost
        assert service.get("ann", f"{HOME}/answers/{lost['id']}/picture").status_code == 400
        assert service.get("ann", f"{HOME}/answers/{document['id']}/picture").status_code == 200


# What a custodian, and a watcher, are told


def test_replies_about_no_one_data_set_are_told_of_too(service: InProcessService) -> None:
    counts = service.app.service.counters
    counts.add("overruns", "")
    counts.add("late", "registry", 1)
    counts.add("late", "", 2)
    counts.write()
    items = [one for one in monitoring.list_warnings(service.app.service) if one["kind"] != "padding"]
    assert [(one["kind"], one["dataset"], one["text"].partition(":")[0]) for one in items] == [
        ("late", "registry", "1 reply left late"),
        ("overrun", None, "1 reply about no one data set was not ready at the deadline"),
        ("late", None, "2 replies about no one data set left late"),
    ]


def test_health_is_looked_at_once_a_second(service: InProcessService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone may ask, and a look writes to every disk."""
    looks: list[tuple[str, ...]] = [("ledger",), (), ("store", "disk")]
    now = 100.0

    def look(_: object) -> tuple[str, ...]:
        return looks.pop(0)

    monkeypatch.setattr(monitoring, "list_failing_checks", look)
    monkeypatch.setattr("discreet.service.api.admin_routes.time.monotonic", lambda: now)
    health = HealthCache()

    async def read_health(many: int) -> list[tuple[str, ...]]:
        return [await health.get_failing_checks(service.app.service) for _ in range(many)]

    assert anyio.run(read_health, 5) == 5 * [("ledger",)]
    now += 1
    assert anyio.run(read_health, 5) == 5 * [()]
    now += 1
    assert anyio.run(read_health, 2) == 2 * [("store", "disk")]


def test_health_that_is_not_well_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "service.yaml").write_text("address: '::'\ninsecure: yes\nport: 1\ndatasets: [{schema: a.yaml}]\n")
    for file, message in (
        ("service.yaml", "http://[::1]:1/health does not say that all is well"),
        ("no.yaml", "no.yaml"),
    ):
        command = [sys.executable, "-m", "discreet.service.health", str(tmp_path / file)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (1, "", 1)
        assert message in ended.stderr
