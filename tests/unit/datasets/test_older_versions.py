"""What was made before the modules were moved and renamed: all of it opens, and every stored answer is found again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx2
import pytest

from discreet import Client, Custodian, InvalidInput
from support.command_line import discreet, done
from support.older_datasets import ask, recorded, told, unpack
from support.served_processes import Supervised, supervised

RECORD = recorded()
DATASETS: dict[str, Any] = RECORD["datasets"]
SERVICE: dict[str, Any] = RECORD["service"]
ASKED_QUESTIONS = [(name, question) for name, dataset in DATASETS.items() for question in dataset["asked"]]
NAMES = [f"{name}-{question['name']}" for name, question in ASKED_QUESTIONS]
HOME = "/v1/datasets/registry"


@pytest.fixture(scope="module")
def older_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of it, in a folder that nothing is changed in."""
    return unpack(tmp_path_factory.mktemp("before"))


@pytest.fixture(scope="module")
def open_custodian(older_folder: Path) -> Iterator[Callable[[str], Custodian]]:
    """Its data sets, each open once; they are only asked what is stored."""
    custodians: dict[str, Custodian] = {}

    def open_once(name: str) -> Custodian:
        if name not in custodians:
            custodians[name] = Custodian.open(older_folder / f"{name}.yaml")
        return custodians[name]

    yield open_once
    for custodian in custodians.values():
        custodian.close()


@pytest.fixture
def own_folder(older_folder: Path, tmp_path: Path) -> Path:
    """All of it, to be changed."""
    return shutil.copytree(older_folder, tmp_path / "own")


def read_budget(schema: Path, analyst: str = "") -> Any:
    """What is spent and left, without the words."""
    balances = done("budget", schema, "--json", *(("--analyst", analyst) if analyst else ())).document
    return drop_words(balances)


def drop_words(balances: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in balance.items() if name != "promise"} for balance in balances]


def read_epsilons(custodian: Custodian, analyst: str | None = None) -> dict[str, Fraction | None]:
    """What is spent in each model."""
    return {balance.model: balance.epsilon for balance in custodian.budget(analyst) if balance.analyst == analyst}


def approximate(document: Any) -> Any:
    """The same, but for the last digits of floats, which may be another machine's."""
    if isinstance(document, dict):
        return {name: approximate(item) for name, item in document.items()}
    if isinstance(document, list):
        return [approximate(item) for item in document]
    return pytest.approx(document, rel=1e-9, abs=1e-12) if isinstance(document, float) else document


def test_the_fixture_has_every_kind_of_answer_and_entry() -> None:
    kinds = {entry["kind"] for dataset in DATASETS.values() for entry in dataset["history"]}
    assert kinds == {"register", "charge", "reuse", "degrade", "release", "cap", "void"}
    assert {question["charge"]["model"] for _, question in ASKED_QUESTIONS} == {
        "dp",
        "approx-dp",
        "individual-dp",
        None,
    }
    mechanisms = {question["told"]["mechanism"] for _, question in ASKED_QUESTIONS}
    assert len(mechanisms) > 25
    methods = {question["method"] for question in DATASETS["registry"]["releases"]}
    assert len(methods) == 9


@pytest.mark.parametrize("name", DATASETS)
def test_ledger_budgets_and_history_are_as_they_were(older_folder: Path, name: str) -> None:
    dataset, schema = DATASETS[name], older_folder / f"{name}.yaml"
    verified = done("ledger", "verify", older_folder / f"{name}.discreet" / "ledger.db", "--json").document
    assert (verified["entries"], verified["heads"][name]) == (
        dataset["verified"]["entries"],
        dataset["verified"]["head"],
    )
    assert done("history", schema, "--limit", 1000, "--json").document == dataset["history"]
    assert len(dataset["budget"]) > 1
    for analyst, balances in dataset["budget"].items():
        assert read_budget(schema, analyst) == drop_words(balances)


@pytest.mark.parametrize(("name", "question"), ASKED_QUESTIONS, ids=NAMES)
def test_a_question_asked_again_is_told_its_stored_answer_for_nothing(
    open_custodian: Callable[[str], Custodian], name: str, question: dict[str, Any]
) -> None:
    custodian = open_custodian(name)
    before = (
        read_epsilons(custodian),
        read_epsilons(custodian, question["analyst"]),
        custodian.history(limit=1)[0].entry,
    )
    answer = ask(custodian, question)
    described = told(answer)
    assert described == approximate(question["told"])
    assert (answer.cost.epsilon, described["stored"]) == (0, question["told"]["entry"] is not None)
    assert (
        read_epsilons(custodian),
        read_epsilons(custodian, question["analyst"]),
        custodian.history(limit=1)[0].entry,
    ) == before


def test_what_follows_from_a_stored_answer_is_as_it_was(open_custodian: Callable[[str], Custodian]) -> None:
    custodian, dataset = open_custodian("registry"), DATASETS["registry"]
    named = {question["name"]: question for question in dataset["asked"]}
    assert ask(custodian, named["histogram"]).range(20, 50).to_json() == approximate(dataset["range"])
    assert ask(custodian, named["groups with constraints"]).to_json()["reconciled"] == approximate(
        dataset["reconciled"]
    )
    rows = ask(custodian, named["count"]).population()
    assert [{name: estimate.to_json() for name, estimate in row.items()} for row in rows] == approximate(
        dataset["population"]
    )


@pytest.mark.parametrize("name", DATASETS)
def test_another_analyst_is_told_the_same_and_charged_what_it_cost(own_folder: Path, name: str) -> None:
    """Every answer that was drawn for somebody: the data set pays nothing more, she pays what the first one did."""
    with Custodian.open(own_folder / f"{name}.yaml") as custodian:
        before, paid = read_epsilons(custodian), set[str]()
        for record in DATASETS[name]["asked"]:
            question = record["charge"]["question"]
            if record["charge"]["kind"] != "charge" or question in paid:
                continue
            paid.add(question)
            answer = ask(custodian, record, analyst="zoe", key=None)
            repeated = {"entry": record["told"]["entry"], "stored": True, "cost": "0"}
            assert told(answer) | repeated == approximate(record["told"])
            assert answer.cost == answer.guarantee
            last = custodian.history("zoe", limit=1)[0]
            assert (last.kind, last.model) == ("reuse", record["charge"]["model"])
            assert last.spend is not None
            amounts = {part: Fraction(text) for part, text in record["charge"]["spend"].items()}
            spend = {"epsilon": last.spend.epsilon, "rho": last.spend.rho, "other": last.spend.gaussian_rho}
            assert spend | {"delta": last.spend.delta} == amounts
        assert len(paid) > 5
        assert read_epsilons(custodian) == before
        custodian.verify()


@pytest.mark.parametrize("name", DATASETS)
def test_a_new_question_is_drawn_and_charged(own_folder: Path, name: str) -> None:
    column = {"registry": "stay", "visits": "age", "staff": "years"}[name]
    with Custodian.open(own_folder / f"{name}.yaml") as custodian:
        before = read_epsilons(custodian, "ann")["dp"], read_epsilons(custodian)["dp"]
        answer = custodian.answer(f"SELECT COUNT(*) FROM {name} WHERE {column} > 7", epsilon=0.25, analyst="ann")
        assert not answer.stored
        assert (read_epsilons(custodian, "ann")["dp"], read_epsilons(custodian)["dp"]) == tuple(
            (epsilon_before or 0) + Fraction(1, 4) for epsilon_before in before
        )
        assert custodian.verify().entries == DATASETS[name]["verified"]["entries"] + 2


def test_a_dearer_answer_of_another_is_degraded(own_folder: Path) -> None:
    with Custodian.open(own_folder / "registry.yaml") as custodian:
        count = next(question for question in DATASETS["registry"]["asked"] if question["name"] == "count")
        before = read_epsilons(custodian)
        answer = ask(custodian, count, analyst="zoe", epsilon=Fraction(1, 2))
        assert (answer.cost.epsilon, custodian.history("zoe", limit=1)[0].kind) == (Fraction(1, 2), "degrade")
        assert read_epsilons(custodian) == before


def test_a_charge_without_an_answer_is_answered_under_its_key(own_folder: Path) -> None:
    waiting = DATASETS["registry"]["waiting"]
    with Custodian.open(own_folder / "registry.yaml") as custodian:
        before = read_epsilons(custodian)
        first = ask(custodian, waiting)
        assert ask(custodian, waiting).value == first.value
        assert read_epsilons(custodian) == before


@pytest.mark.parametrize("name", ["visits", "staff"])
def test_a_void_charge_is_refused_under_its_key(own_folder: Path, name: str) -> None:
    with Custodian.open(own_folder / f"{name}.yaml") as custodian, pytest.raises(InvalidInput, match="key"):
        ask(custodian, DATASETS[name]["void"])


def test_a_session_that_was_paid_and_answered_is_not_opened_again(own_folder: Path) -> None:
    session = DATASETS["registry"]["session"]
    with Custodian.open(own_folder / "registry.yaml") as custodian:
        before = read_epsilons(custodian)
        second_session = custodian.session(noise_scale=10, epsilon=2, analyst="eve", key=session["key"])
        assert read_epsilons(custodian) == before
        with pytest.raises(InvalidInput, match="opened before with the same key"):
            second_session.answer(session["answers"][0]["question"])


def test_a_new_snapshot_and_raised_caps_follow(own_folder: Path) -> None:
    schema = own_folder / "registry.yaml"
    schema.write_text(schema.read_text().replace("epsilon: 450", "epsilon: 460"))
    done("check", schema, "--refresh", "--name", "later")
    with Custodian.open(schema) as custodian:
        count = next(question for question in DATASETS["registry"]["asked"] if question["name"] == "count")
        assert not ask(custodian, count).stored
        kinds = [entry.kind for entry in custodian.history(limit=3)]
        assert set(kinds) == {"register", "cap", "charge"}
        custodian.verify()


@pytest.mark.parametrize("release", DATASETS["registry"]["releases"], ids=lambda release: release["files"][0])
def test_a_released_file_is_what_its_manifest_says(older_folder: Path, release: dict[str, Any]) -> None:
    table, manifest = older_folder / release["files"][0], json.loads((older_folder / release["files"][-1]).read_text())
    assert manifest["release"] == release["name"]
    for file in manifest["files"]:
        digest = hashlib.sha256((table.parent / file["name"]).read_bytes()).hexdigest()
        assert digest == file["sha256"]
    private = release["method"].startswith("private-")
    original = () if private else ("--original", older_folder / "registry.yaml")
    verified = discreet("verify", table, *original, "--json")
    assert verified.code == (4 if private else 0), verified
    entries = {entry["entry"]: entry for entry in DATASETS["registry"]["history"]}
    assert entries[release["entry"]]["kind"] == ("charge" if private else "release")


def test_a_new_file_is_numbered_after_those_before_and_laid_over_them(own_folder: Path) -> None:
    with Custodian.open(own_folder / "registry.yaml") as custodian:
        release = custodian.publish("mdav", own_folder / "new.csv", k=5, report=own_folder / "report.json")
        assert release.name == "registry-13"
        assert "registry-1" in (own_folder / "report.json").read_text()
        assert len(custodian.notable_entries()) > 8


@pytest.fixture(scope="module")
def running_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    """The service as it was, started again in another folder."""
    service_folder = unpack(tmp_path_factory.mktemp("service"))
    config = service_folder / "service.yaml"
    config.write_text(config.read_text().replace("deadline: 0.5", "deadline: 0.05"))  # who asks again need not wait
    with supervised(service_folder, "--config", config) as supervised_service:
        yield supervised_service


RequestSender = Callable[..., Any]


@pytest.fixture
def send_request(running_service: Supervised) -> RequestSender:
    """Send a request by somebody's token of then."""

    def send_as(who: str, path: str, body: object = None, key: str = "") -> Any:
        token = SERVICE["revoked"] if who == "hal" else SERVICE["tokens"][who]
        headers = {"Authorization": f"Bearer {token['token']}"} | ({"Idempotency-Key": key} if key else {})
        method = "GET" if body is None else "POST"
        return httpx2.request(method, running_service.address + path, json=body, headers=headers, timeout=60)

    return send_as


def test_tokens_grants_and_priors_of_a_service_are_kept(send_request: RequestSender) -> None:
    assert send_request("fay", "/v1/me").json()["datasets"] == ["registry", "visits"]
    assert send_request("gus", "/v1/me").json()["datasets"] == []
    assert send_request("hal", "/v1/me").status_code == 401
    assert send_request("cus", "/v1/grants").json() == SERVICE["grants"]
    assert send_request("fay", "/v1/priors/survey").json() == SERVICE["prior"]


@pytest.mark.parametrize("stored_answer", SERVICE["answers"], ids=lambda stored_answer: stored_answer["key"])
def test_an_answer_of_a_service_is_found_by_its_id_and_by_its_key(
    send_request: RequestSender, stored_answer: dict[str, Any]
) -> None:
    document = stored_answer["document"]
    assert send_request("fay", f"{HOME}/answers/{document['id']}").json() == document
    assert send_request("fay", f"{HOME}/answers", stored_answer["body"], stored_answer["key"]).json() == document
    assert send_request("gus", f"{HOME}/answers/{document['id']}").status_code == 404
    assert send_request("fay", f"{HOME}/answers/{document['id']}/picture").status_code == 200
    second = send_request("fay", f"{HOME}/answers", stored_answer["body"], f"{stored_answer['key']} again").json()
    assert (second["rows"], second["stored"], second["cost"]["epsilon"]) == (document["rows"], True, "0")


def test_history_and_sessions_of_a_service_are_kept(send_request: RequestSender) -> None:
    latest = send_request("fay", f"{HOME}/history").json()["history"]
    was = {entry["entry"]: entry for entry in SERVICE["history"]["history"]}
    assert {entry["entry"]: entry | {"answers": []} for entry in latest} == {
        number: entry | {"answers": []} for number, entry in was.items()
    }
    assert all(set(entry["answers"]) >= set(was[entry["entry"]]["answers"]) for entry in latest)
    session = SERVICE["session"]
    answer = session["answer"]
    assert send_request("fay", f"{HOME}/answers/{answer['id']}").json() == answer
    ended = send_request("fay", f"{HOME}/sessions/{session['id']}")
    assert (ended.status_code, "started again" in ended.json()["detail"]) == (400, True), ended.text


def test_jobs_of_a_service_and_their_files_are_kept(send_request: RequestSender) -> None:
    assert {job["kind"] for job in SERVICE["jobs"]} == {"ask", "publish", "sweep"}
    jobs = {job["id"]: job for job in send_request("cus", "/v1/jobs").json()["jobs"]}
    for job in SERVICE["jobs"]:
        assert jobs[job["id"]] == approximate(job)
        for name in job["files"]:
            assert send_request("cus", f"/v1/jobs/{job['id']}/files/{name}").status_code == 200


def test_a_question_by_a_job_is_told_again_under_its_key(running_service: Supervised) -> None:
    with Client(running_service.address, SERVICE["tokens"]["fay"]["token"], "visits") as client:
        job = SERVICE["by_job"]
        answer = client.answer("SELECT COUNT(*) FROM visits WHERE age < 30", epsilon=1, key=job["key"])
        assert answer.value == job["value"]
        before = {(balance.model, balance.analyst): balance.epsilon for balance in client.budget()}
        new = client.answer("SELECT COUNT(*) FROM visits WHERE age < 31", epsilon=0.5)
        assert not new.stored
        after = {(balance.model, balance.analyst): balance.epsilon for balance in client.budget()}
        assert after["dp", "fay"] == (before["dp", "fay"] or 0) + Fraction(1, 2)
