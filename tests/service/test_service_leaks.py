"""No cell of the table is in any reply, header, page, metric or line of the log; no reply shows who is in the table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from test_service_access import API, CONSOLE, fill_path

from discreet.errors import Internal
from discreet.service.config import DatasetConfig, read_config
from discreet.service.jobs import run_next_job
from discreet.service.middleware.auth import COOKIE_NAME
from discreet.service.store import Store
from discreet.service.store.tokens import create_token, derive_form_token, sign_in
from support.inprocess_service import InProcessService, build_config, run_service
from support.planted_tokens import PlantedCells, plant_tables
from support.served_processes import start_service, wait_for

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"question": "SELECT COUNT(*) FROM {}"},
    {"question": "SELECT COUNT(*) FROM {} WHERE ward = 'north' AND stay > 10", "prior": "normal(20, 5)"},
    {"question": "SELECT COUNT(DISTINCT person) FROM {} WHERE cured"},
    {"question": "SELECT COUNT(town), COUNT(code) FROM {}"},
    {"question": "SELECT COUNT(*) FROM {} WHERE town = 'x'"},
    {"question": "SELECT SUM(code), AVG(paid) FROM {} WHERE code > 5"},
    {"question": "SELECT VAR(paid), STDDEV(code) FROM {}"},
    {"question": "SELECT MEDIAN(code) FROM {}", "interval": True},
    {"question": "SELECT QUANTILE(paid, 0.1, 0.9) FROM {}"},
    {"question": "SELECT MIN(code) FROM {}"},
    {"question": "SELECT MAX(paid) FROM {}", "prior": "uniform(0, 99999999)"},
    {"question": "SELECT SECOND_MAX(stay) FROM {}"},
    {"question": "SELECT TRIMMED_MEAN(stay, 0.1) FROM {}"},
    {"question": "SELECT MEDIAN(day) FROM {}"},
    {"question": "SELECT MODE(grade) FROM {}"},
    {"question": "SELECT HISTOGRAM(code, 8) FROM {}", "ranges": ["0..4500000000000"]},
    {"question": "SELECT ward, grade, COUNT(*) FROM {} GROUP BY ward, grade", "constraints": ["total = 60"]},
    {"question": "SELECT ward, COUNT(*) FROM {} GROUP BY ROLLUP (ward)"},
    {"question": "SELECT ward, AVG(stay) FROM {} GROUP BY ward ORDER BY 2"},
    {"question": "SELECT BIN(stay, 50), COUNT(*) FROM {} GROUP BY BIN(stay, 50)", "population": True},
    {"question": "SELECT code FROM {} FOR UNIT 'nobody'", "prior": "uniform(0, 9000000000000)"},
    {"question": "SELECT grade FROM {} FOR UNIT 'nobody'"},
    {"question": "SELECT COUNT(*) FROM {} WHERE paid > 3"},
)
OF_ONE = {
    "planted": (
        # Each of thirty towns may be told with half that probability.
        {"question": "SELECT town, COUNT(*) FROM {} GROUP BY town", "delta": "0.000001"},
        {"question": "SELECT AVG(code) FROM {}", "delta": "0.001"},
    ),
    "weaker": (
        {"question": "SELECT ward, AVG(stay) FROM {} GROUP BY ward HAVING AVG(stay) > 3 ORDER BY 2 LIMIT 1"},
        {"question": "SELECT MEDIAN(stay) FROM {}", "model": "individual-dp"},
        {"question": "SELECT SECOND_MAX(stay) FROM {}", "model": "individual-dp"},
    ),
}
WRONG: tuple[dict[str, Any], ...] = (
    {"question": "SELECT town FROM {}", "epsilon": "1"},
    {"question": "SELECT COUNT(*) FROM {} WHERE code = 'x'", "epsilon": "1"},
    {"question": "SELECT MIN(remark) FROM {}", "epsilon": "1"},
    {"question": "SELECT MODE(town) FROM {}", "epsilon": "1"},
    {"question": "SELECT COUNT(*) FROM nothing", "epsilon": "1"},
    {"question": "SELECT COUNT(*) FROM {}; DROP TABLE x", "epsilon": "1"},
    {"question": "SELECT person FROM {}", "epsilon": "1"},
    {"question": "SELECT COUNT(*) FROM {} WHERE stay > 3", "epsilon": "100000"},
    {"question": "SELECT COUNT(*) FROM {} WHERE stay > 3", "epsilon": "NaN"},
    {"question": "SELECT COUNT(*) FROM {} WHERE stay > 3", "epsilon": None, "accuracy": "±1 at 1%"},
    {"question": "SELECT COUNT(*) FROM {} WHERE stay > 3", "epsilon": "1", "prior": "point(1e9)"},
    {"question": "SELECT COUNT(*) FROM {} WHERE stay > 3", "epsilon": "1", "unknown": 1},
    {"question": 5, "epsilon": []},
)
RELEASES = (
    {"method": "private-columns", "epsilon": "1", "columns": ["code", "paid", "day", "ward", "grade"]},
    {"method": "private-linked", "epsilon": "1", "columns": ["stay", "grade"]},
    {"method": "mdav", "k": 5},
    {"method": "mdav-swap", "k": 5},
)
WITH_RAW_VALUES = ("mdav", "mdav-swap")
"""Methods that promise less than DP: their files hold values of rows as they are, by design."""
FOR_THE_CUSTODIAN = ("report.html", "sweep.html")
"""Pages that compare a file with the records it was made of; the custodian has both."""
TOPICS = ("epsilon", "posterior", "guarantee")


@dataclass(frozen=True)
class Reply:
    """All that came back for one request."""

    who: str
    method: str
    route: str
    status: int
    headers: tuple[tuple[str, str], ...]
    text: str

    @property
    def all(self) -> str:
        return f"{self.status} {self.headers} {self.text}"

    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Driver:
    """Sends requests for ann and cus by token, and by cookie to the console, and keeps every reply."""

    send: Callable[..., Any]
    secrets: dict[str, str]
    cookies: dict[str, str]
    replies: list[Reply] = field(default_factory=list)
    not_searched: list[Reply] = field(default_factory=list)

    def call(self, who: str, method: str, route: str, body: object = None, query: str = "", **put: str) -> Reply:
        """One request to a route; the console is sent forms."""
        page, secret = route.startswith("/console"), self.secrets.get(who)
        cookie = self.cookies.get(who, "")
        headers = (
            {"Cookie": f"{COOKIE_NAME}={cookie}"} if page else {"Authorization": f"Bearer {secret}"} if secret else {}
        )
        payload: dict[str, Any] = {} if body is None else {"json": body}
        if page and isinstance(body, dict):
            payload = {"data": {"form_token": derive_form_token(cookie)} | body}
        response = self.send(
            method, fill_path(route, lambda name: put[name.partition(":")[0]]) + query, headers=headers, **payload
        )
        headers_of = tuple(sorted(response.headers.multi_items()))
        reply = Reply(who, method, route, response.status_code, headers_of, response.content.decode("utf-8", "replace"))
        self.replies.append(reply)
        return reply

    def get(self, who: str, route: str, query: str = "", **put: str) -> Reply:
        return self.call(who, "GET", route, None, query, **put)

    def forget(self, reply: Reply) -> None:
        """What a reply holds is not searched for cells."""
        self.replies.remove(reply)
        self.not_searched.append(reply)


def about(dataset: str, document: dict[str, Any]) -> dict[str, Any]:
    """A question about a data set."""
    return json.loads(json.dumps({"epsilon": "0.5"} | document).replace("{}", dataset))


def ask_all(driver: Driver, dataset: str, home: str, pages: str, every: int = 1) -> None:
    """Every kind of question, for real or in rehearsal; every part of so many of the answers; all that is refused."""
    questions = [about(dataset, one) for one in (*QUESTIONS, *OF_ONE.get(dataset, ()))]
    for number, asked in enumerate(questions):
        plain = {name: fields for name, fields in asked.items() if name not in {"ranges", "constraints", "population"}}
        driver.call("ann", "POST", f"{home}/previews", plain, dataset=dataset)
        if "prior" in asked:
            prior = {"question": asked["question"], "prior": asked["prior"]}
            driver.call("ann", "POST", f"{home}/priors", prior, dataset=dataset)
        reply = driver.call("ann", "POST", f"{home}/answers", asked, dataset=dataset)
        if reply.status != 201:
            continue
        answer = reply.json()["id"]
        driver.call("ann", "POST", f"{home}/answers", asked, dataset=dataset)
        if number % every:
            continue
        for part in ("", "/picture", "/csv"):
            driver.get("ann", f"{home}/answers/{{answer}}{part}", dataset=dataset, answer=answer)
        driver.get("ann", f"{pages}/answers/{{wanted}}", dataset=dataset, wanted=answer)
        driver.get("ann", f"{pages}/compare", f"?ids={answer}", dataset=dataset)
    for wrong in WRONG:
        for part in ("previews", "answers"):
            driver.call("ann", "POST", f"{home}/{part}", about(dataset, wrong), dataset=dataset)
    session = driver.call("ann", "POST", f"{home}/sessions", {"noise_scale": "9", "epsilon": "1"}, dataset=dataset)
    in_it = {"dataset": dataset, "session": session.json()["id"]}
    counted = {"question": f"SELECT COUNT(*) FROM {dataset} WHERE stay > 7"}
    driver.call("ann", "POST", f"{home}/sessions/{{session}}/answers", counted, **in_it)
    driver.get("ann", f"{home}/sessions/{{session}}", **in_it)
    driver.call("ann", "DELETE", f"{home}/sessions/{{session}}", **in_it)
    for part in ("", "/budget", "/history"):
        for who in ("ann", "cus", "bob"):
            driver.get(who, f"{home}{part}", dataset=dataset)
    form = {"question": f"SELECT AVG(code) FROM {dataset}", "how": "epsilon", "size": "0.4"}
    driver.get("ann", pages, dataset=dataset)
    driver.get("ann", f"{pages}/history", dataset=dataset)
    for part in ("preview", "ask"):
        for fields in (form, form | {"question": f"SELECT town FROM {dataset}"}, form | {"size": "x"}):
            driver.call("ann", "POST", f"{pages}/{part}", fields, dataset=dataset)


def look_around(driver: Driver) -> None:
    """What is about no data set, and what is an analyst's own."""
    for who in ("nobody", "bob", "ann", "cus"):
        for route in ("/", "/openapi.json", "/health", "/metrics", "/v1/me", "/v1/datasets", "/v1/priors", "/v1/jobs"):
            driver.get(who, route)
        for route in ("/console", "/console/", "/console/datasets", "/console/custodian"):
            driver.get(who, route)
    driver.call("ann", "HEAD", "/openapi.json")
    driver.call("ann", "PUT", "/v1/priors/{name}", {"text": "normal(1, 1)"}, name="mine")
    driver.get("ann", "/v1/priors/{name}", name="mine")
    driver.call("ann", "DELETE", "/v1/priors/{name}", name="mine")
    driver.get("ann", "/problems/{name}", name="internal")
    driver.get("ann", "/console/assets/{name}", name="console.css")
    driver.get("ann", "/console/assets/{named}/{name}", named="any", name="console.css")
    driver.get("ann", "/console/{rest:path}", rest="no/such/page")
    for topic in TOPICS:
        driver.get("ann", "/console/explain/{topic}", topic=topic)
    driver.call("nobody", "POST", "/console/sign-in", {"token": "dsc_wrong"})


def keep_house(driver: Driver, dataset: str) -> None:
    """What a custodian does, short of releases."""
    document = driver.call("cus", "POST", "/v1/tokens", {"analyst": "zed", "datasets": [dataset]}).json()
    driver.get("cus", "/v1/tokens")
    driver.call("cus", "DELETE", "/v1/tokens/{token}", token=document["id"])
    for method in ("PUT", "DELETE"):
        driver.call("cus", method, "/v1/grants/{dataset}/{analyst}", dataset=dataset, analyst="zed")
    driver.get("cus", "/v1/grants")
    driver.get("cus", "/v1/warnings")
    for part in ("snapshots", "ledger"):
        driver.get("cus", f"/v1/datasets/{{dataset}}/{part}", dataset=dataset)
    pages = "/console/custodian/access"
    driver.get("cus", pages)
    driver.call("cus", "POST", f"{pages}/tokens", {"analyst": "zoe", "role": "analyst", "days": "1", "key": "1" * 32})
    driver.call("cus", "POST", f"{pages}/tokens/{{token}}/revoke", {}, token=document["id"])
    driver.call("cus", "POST", f"{pages}/grants", {"dataset": dataset, "analyst": "zoe", "give": "yes"})
    keeping = "/console/custodian/datasets/{dataset}"
    driver.get("cus", keeping, "?verify=yes&lines=1000", dataset=dataset)
    driver.get("cus", f"{keeping}/publish", dataset=dataset)
    form = {"method": "private-columns", "epsilon": "1", "columns": "code"}
    driver.call("cus", "POST", f"{keeping}/publish/preview", form, dataset=dataset)


def release_all(driver: Driver, dataset: str, home: str, wait: Callable[[str], None]) -> None:
    """Every method, as a job; its files but those that are left out by name. In rehearsal none is."""
    driver.call(
        "cus", "POST", f"{home}/releases/previews", {"epsilon": "1", "columns": ["code", "stay"]}, dataset=dataset
    )
    driver.call("cus", "POST", f"{home}/releases", {"method": "nothing"}, dataset=dataset)
    jobs = [(one, driver.call("cus", "POST", f"{home}/releases", one, dataset=dataset)) for one in RELEASES]
    jobs.append(({"method": "sweep"}, driver.call("cus", "POST", f"{home}/sweeps", {"ks": "k=3..5"}, dataset=dataset)))
    for message, queued in jobs:
        assert queued.status == 202, queued
        job = queued.json()["id"]
        wait(job)
        driver.get("cus", "/console/jobs/{job}", job=job)
        driver.get("ann", "/v1/jobs/{job}", job=job)
        document = driver.get("cus", "/v1/jobs/{job}", job=job).json()
        assert document["state"] == "done", document
        for name in document["files"]:
            file = driver.get("cus", "/v1/jobs/{job}/files/{name:path}", job=job, name=name)
            raw = message["method"] in WITH_RAW_VALUES and name.endswith(".csv")
            if "rehearsal" not in home and (raw or name.endswith(FOR_THE_CUSTODIAN)):
                driver.forget(file)


def drive(driver: Driver, wait: Callable[[str], None], every: int) -> None:
    """Every route, in every way that matters; beside the first data set every part of so many of the answers."""
    look_around(driver)
    for dataset, part in (("planted", 1), ("weaker", every)):
        ask_all(driver, dataset, "/v1/datasets/{dataset}", "/console/datasets/{dataset}", part)
    ask_all(driver, "planted", "/v1/rehearsal/datasets/{dataset}", "/console/rehearsal/datasets/{dataset}", every)
    publish = "/console/custodian/datasets/{dataset}/publish"
    driver.call("cus", "POST", f"{publish}/release", {"method": "mdav", "k": "4", "sure": "yes"}, dataset="planted")
    driver.call("cus", "POST", f"{publish}/sweep", {"ks": "k=3..4", "methods": "mdav"}, dataset="planted")
    for home in ("/v1/datasets/{dataset}", "/v1/rehearsal/datasets/{dataset}"):
        release_all(driver, "planted", home, wait)
    keep_house(driver, "planted")
    look_around(driver)
    driver.call("ann", "POST", "/console/sign-out", {})


def admit_people(store: Store) -> tuple[dict[str, str], dict[str, str]]:
    """Tokens and cookies of ann, who has the data sets, bob, who has none, and cus."""
    tokens_by_name = {"ann": create_token(store, "ann", "analyst", 30, ("planted", "weaker"))}
    tokens_by_name |= {"bob": create_token(store, "bob", "analyst"), "cus": create_token(store, "cus", "custodian")}
    return {who: entry for who, (_, entry) in tokens_by_name.items()}, {
        who: sign_in(store, one) for who, (one, _) in tokens_by_name.items()
    }


@dataclass(frozen=True)
class Driven:
    """A service after all that was asked of it: the cells, every reply, its log, and its files."""

    planted: PlantedCells
    driver: Driver
    log: str
    folder: Path

    def shown(self) -> list[tuple[str, str, str, str]]:
        """Every cell that a reply shows, and to whom by which route."""
        return [
            (one.who, one.method, one.route, cell)
            for one in self.driver.replies
            for cell in self.planted.find_cells(one.all)
        ]


ON_ONE_WORKER = pytest.mark.xdist_group("driven")
"""So that the service is driven once."""


@pytest.fixture(scope="module", params=[5, pytest.param(1, marks=pytest.mark.soak)])
def driven_service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """The real thing: `discreet serve`, two workers and a runner of jobs, everything asked of it, and stopped."""
    folder = tmp_path_factory.mktemp("driven")
    planted, config = plant_tables(folder), folder / "service.yaml"
    settings = "port: 0\nworkers: 2\npadding: no\nlimits: {rate: 100000, burst: 100000}\n"
    config.write_text(f"{settings}datasets:\n  - schema: planted.yaml\n  - schema: weaker.yaml\n")
    with Store.open(read_config(config).store) as store:
        secrets, cookies = admit_people(store)
    with (
        start_service(folder, "--config", config) as service,
        httpx.Client(base_url=service.address, timeout=120) as client,
    ):
        driver = Driver(client.request, secrets, cookies)
        drive(driver, lambda job: wait_for(lambda: is_ended(driver, job)), request.param)
        service.stop()
    return Driven(planted, driver, service.log.read_text(), folder)


def is_ended(driver: Driver, job: str) -> bool:
    return driver.get("cus", "/v1/jobs/{job}", job=job).json()["state"] in {"done", "failed"}


@ON_ONE_WORKER
def test_everything_was_asked(driven_service: Driven) -> None:
    """Every route, and every kind of question was answered; else the search would show little."""
    called = {(one.method, one.route) for one in driven_service.driver.replies + driven_service.driver.not_searched}
    assert called == set(API) | set(CONSOLE)
    assert max(one.status for one in driven_service.driver.replies) < 500
    statuses = [one.status for one in driven_service.driver.replies if (one.method, one.route) == ("POST", ANSWERS)]
    asked = 2 * len(QUESTIONS) + sum(map(len, OF_ONE.values()))
    assert (statuses.count(201), len(statuses)) == (2 * asked, 2 * asked + 2 * len(WRONG))


@ON_ONE_WORKER
def test_no_reply_shows_a_cell(driven_service: Driven) -> None:
    assert driven_service.shown() == []


@ON_ONE_WORKER
def test_no_line_of_the_log_shows_a_cell(driven_service: Driven) -> None:
    assert len(driven_service.log.splitlines()) > len(driven_service.driver.replies)
    assert driven_service.planted.find_cells(driven_service.log) == []


@ON_ONE_WORKER
def test_nothing_that_is_kept_of_questions_shows_a_cell(driven_service: Driven) -> None:
    """Store and ledger; the snapshot beside them holds the rows, which shows that the search finds them in a file."""
    items = [path for path in driven_service.folder.rglob("*") if path.is_file()]
    databases = [path for path in items if path.name.startswith(("service.db", "ledger.db"))]
    assert len(databases) >= 3
    assert [path for path in databases if driven_service.planted.find_cells(path.read_bytes().decode("latin-1"))] == []
    snapshots = [path for path in items if path.suffix == ".duckdb"]
    assert any(driven_service.planted.find_cells(path.read_bytes().decode("latin-1")) for path in snapshots)


@ON_ONE_WORKER
def test_files_that_are_left_out_of_the_search_would_have_been_found(driven_service: Driven) -> None:
    """By a method that tells values as they are, a date of somebody's is in the file."""
    assert any(driven_service.planted.find_cells(one.all) for one in driven_service.driver.not_searched)


def test_a_cell_is_found_in_whatever_form(tmp_path: Path) -> None:
    planted = plant_tables(tmp_path)
    text, whole, part, day = planted.texts[0], planted.numbers[0], planted.numbers[-1], planted.dates[0]
    number = next(one for one in planted.numbers if "." not in one)
    for message, cell in (
        (f"got '{text[:14]}'", text),
        (f"got {text[7:].upper()}!", text),
        (f"x-{text}-y", text),
        (f"about {int(number):,} of", number),
        (f"[{whole}, {part}]", whole),
        (f"on {day}T00:00:00", day),
    ):
        assert cell in planted.find_cells(message), message
    assert (
        planted.find_cells("SELECT code FROM planted; 1794839910.95 2026-11-16 12,186 Bath " + "0123456789abcdef" * 4)
        == []
    )
    assert len({*planted.texts, *planted.numbers, *planted.dates}) > 400


# What goes wrong inside.


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PlantedCells, Driver, InProcessService]]:
    """A service in this process, of which parts can be made to fail."""
    folder = tmp_path_factory.mktemp("leaking")
    planted = plant_tables(folder)
    config = replace(build_config(folder, 20), datasets=(DatasetConfig(folder / "planted.yaml", 0.05),))
    with run_service(config) as service:
        driver = Driver(service.client.request, *admit_people(service.app.service.store))
        assert driver.call("ann", "POST", ANSWERS, COUNT, dataset="planted").status == 201
        yield planted, driver, service


ANSWERS = "/v1/datasets/{dataset}/answers"
HOME = "/v1/datasets/{dataset}"
COUNT = {"question": "SELECT COUNT(*) FROM planted WHERE stay > 3", "epsilon": "0.1", "fresh": True}
FAILING = {
    "discreet.custodian.custodian.scan_rows": ("POST", ANSWERS, COUNT),
    "discreet.custodian.custodian.explain_result": ("POST", ANSWERS, COUNT),
    "discreet.custodian.validation.plan_question": ("POST", f"{HOME}/previews", COUNT | {"fresh": None}),
    "discreet.service.requests.keep_answer": ("POST", ANSWERS, COUNT),
    "discreet.service.api.analyst_routes.build_stated_prior": (
        "POST",
        f"{HOME}/priors",
        {"question": "SELECT COUNT(*) FROM planted", "prior": "point(1)"},
    ),
    "discreet.ledger.charge.Entry.to_json": ("GET", f"{HOME}/history", None),
    "discreet.ledger.charge.Balance.to_json": ("GET", f"{HOME}/budget", None),
    "discreet.service.api.analyst_routes.schema_to_public_json": ("GET", HOME, None),
    "discreet.service.console.analyst_pages.get_history_document": ("GET", "/console/datasets/{dataset}/history", None),
    "discreet.service.console.rendering.build_environment": ("GET", "/console/datasets/{dataset}", None),
    "discreet.service.store.tokens.hash_secret": ("GET", "/v1/me", None),
}
KINDS: tuple[Callable[[str], Exception], ...] = (
    ValueError,
    KeyError,
    Internal,
    lambda cell: UnicodeEncodeError("utf-8", cell, 0, 1, cell),
    lambda cell: ExceptionGroup(cell, [ValueError(cell)]),
    lambda cell: type("Odd", (Exception,), {"__str__": lambda _: cell, "__notes__": [cell]})(),
)


def failing_with(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error from ValueError(str(error))

    return fail


@pytest.mark.parametrize("place", sorted(FAILING))
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_what_goes_wrong_is_told_without_its_words(
    leaking: tuple[PlantedCells, Driver, InProcessService],
    place: str,
    kind: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """An engine's message may quote a row: neither the reply nor the log repeats it, and all such replies are alike."""
    planted, driver, _ = leaking
    method, route, body = FAILING[place]
    monkeypatch.setattr(place, failing_with(KINDS[kind](planted.texts[kind])))
    text = None if body is None else {name: entry for name, entry in body.items() if entry is not None}
    reply = driver.call("ann", method, route, text, dataset="planted")
    out = capfd.readouterr()
    assert (reply.status, reply.json()["type"]) == (500, "/problems/internal")
    assert reply.json()["detail"] == "an internal error; nothing about the data is shown"
    assert planted.find_cells(reply.all + out.out + out.err) == []
    assert '"event": "internal"' in out.err


def test_a_job_that_goes_wrong_is_told_without_its_words(
    leaking: tuple[PlantedCells, Driver, InProcessService],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    planted, driver, service = leaking
    monkeypatch.setattr("discreet.service.requests.publish_in_folder", failing_with(ValueError(planted.texts[0])))
    job = driver.call("cus", "POST", f"{HOME}/releases", {"method": "mdav", "k": 5}, dataset="planted").json()["id"]
    assert run_next_job(service.app.service, "the test")
    reply = driver.get("cus", "/v1/jobs/{job}", job=job)
    assert (reply.json()["state"], reply.json()["problem"]["type"]) == ("failed", "/problems/internal")
    out = capfd.readouterr()
    assert planted.find_cells(reply.all + out.out + out.err) == []


def test_a_leak_is_found(
    leaking: tuple[PlantedCells, Driver, InProcessService],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The trap itself: a cell that is put into a reply, a header, or the log on purpose is seen there."""
    planted, driver, _ = leaking
    cell = planted.texts[3]
    monkeypatch.setattr("discreet.service.api.analyst_routes.schema_to_public_json", lambda _: {"name": cell})
    assert planted.find_cells(driver.get("ann", HOME, dataset="planted").all) == [cell]
    monkeypatch.setattr("discreet.service.api.analyst_routes.requests.read_idempotency_key", lambda _: cell)
    assert planted.find_cells(str(driver.call("ann", "POST", ANSWERS, COUNT, dataset="planted").headers)) == [cell]
    monkeypatch.setattr("discreet.service.monitoring.format_error_location", str)
    monkeypatch.setattr("discreet.ledger.charge.Balance.to_json", failing_with(ValueError(cell)))
    driver.get("ann", f"{HOME}/budget", dataset="planted")
    assert planted.find_cells(capfd.readouterr().err) == [cell]


# Neighbours: what an analyst can see but the drawn numbers is the same with any other row.

DRAWN = {"rows", "value", "headline", "intervals_95", "posteriors", "reconciled", "meaning", "warning", "spec"}
DRAWN |= {"ranges", "population"}
"""Numbers that were drawn, and what is told of them."""
NEW = {"id", "at", "answers", "session", "expires"}
"""Names and times that are new each time."""
OF_LENGTH = {"content-length", "idempotency-key"}
OF_ONE_ANSWER = ("/csv", "/answers/{wanted}", "/compare")
"""Routes that show the numbers of an answer as text; its document is compared."""
MASKED = re.compile(r"[0-9a-f]{32,}|-?[0-9][0-9,.:e+-]*")


OF_ROWS = ("AVG(", "VAR(", "STDDEV(")


def without_distances(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer whose stated accuracy has no distance where that is computed from the noisy answer: of means.

    That it follows from the noisy answer alone is shown in test_custodian, to the byte.
    """
    text, numbers = answer["accuracy"], answer["numbers"]
    for label in numbers:
        if label.startswith(OF_ROWS):
            before = f"{label}: within " if len(numbers) > 1 else "within "
            text = re.sub(f"(?<={re.escape(before)})[0-9][0-9,.]*(?:e[0-9]+)?", "#", text)
    return answer | {"accuracy": text}


def without_draws(document: Any) -> Any:
    """A document without what is drawn or new."""
    if isinstance(document, dict):
        document = without_distances(document) if {"numbers", "accuracy"} <= document.keys() else document
        return {name: without_draws(one) for name, one in document.items() if name not in DRAWN | NEW}
    return [without_draws(one) for one in document] if isinstance(document, list) else document


def public(reply: Reply) -> tuple[Any, ...]:
    """All of a reply that must not depend on a row."""
    headers = [(name, MASKED.sub("#", header)) for name, header in reply.headers if name not in OF_LENGTH]
    kind = dict(reply.headers).get("content-type", "")
    body = without_draws(reply.json()) if "json" in kind else MASKED.sub("#", reply.text)
    body = None if reply.route.endswith(OF_ONE_ANSWER) else body
    return reply.who, reply.method, reply.route, reply.status, headers, body


def replace_last_person(folder: Path) -> None:
    """Another person in the place of the last, other in every cell."""
    lines = (folder / "planted.csv").read_text().splitlines()
    other = "somebody,1,1.5,1970-01-01,365,south,high,true,Nowhere,a remark"
    (folder / "planted.csv").write_text("\n".join([*lines[:-1], other, ""]))


def spoilt(folder: Path) -> None:
    """A person whose every cell is unreadable, in the place of the last."""
    lines = (folder / "planted.csv").read_text().splitlines()
    (folder / "planted.csv").write_text("\n".join([*lines[:-1], "nobody,NaN,inf,?,1e400,,, ,,", ""]))


def add_person(folder: Path) -> None:
    """One person more."""
    with (folder / "planted.csv").open("a") as table:
        table.write("somebody,1,1.5,1970-01-01,365,south,high,true,Nowhere,a remark\n")


def by_adding(folder: Path) -> None:
    """The same data set where neighbours differ by a person more."""
    schema = folder / "planted.yaml"
    items = [line for line in schema.read_text().splitlines() if not line.startswith("units:")]
    schema.write_text("\n".join(items).replace("replace-one", "add-remove"))


def transcript(folder: Path, every: int, *changes: Callable[[Path], None]) -> list[tuple[Any, ...]]:
    """All that an analyst is told of a table; of so many of the answers every part."""
    folder.mkdir()
    plant_tables(folder)
    for change in changes:
        change(folder)
    config = replace(build_config(folder / "service", 20), datasets=(DatasetConfig(folder / "planted.yaml", 0.05),))
    with run_service(config) as service:
        service.client.follow_redirects = False
        driver = Driver(service.client.request, *admit_people(service.app.service.store))
        ask_all(driver, "planted", HOME, "/console/datasets/{dataset}", every)
    return [public(one) for one in driver.replies]


@pytest.mark.parametrize(
    ("before", "changes"), [((), (replace_last_person, spoilt)), ((by_adding,), (add_person,))], ids=["another", "more"]
)
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_neighbours_are_told_alike(
    tmp_path: Path, before: tuple[Callable[[Path], None], ...], changes: tuple[Callable[[Path], None], ...], every: int
) -> None:
    """Status, headers and all metadata of every reply are the same whether a person is in the table or not."""
    one = transcript(tmp_path / "one", every, *before)
    for change in changes:
        assert_alike(one, transcript(tmp_path / change.__name__, every, *before, change))


def assert_alike(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> None:
    assert sum(reply[3] == 201 for reply in one) > 30
    for first, second in zip(one, other, strict=True):
        assert first == second
