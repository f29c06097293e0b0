"""What OpenAPI tells is true of the service: Schemathesis makes requests of it, good and bad, and looks at replies."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis.engine import events, from_schema
from starlette.testclient import TestClient

from discreet.service import openapi
from discreet.service.app import MiddlewareStack, make_app
from discreet.service.jobs import run_next_job
from discreet.service.middleware.deadline import App, Receive, Scope, Send
from discreet.service.openapi import EXAMPLES
from discreet.service.store.job_queue import list_jobs
from discreet.service.store.tokens import create_token
from support.inprocess_service import build_config

PATIENTS = 13_000
"""So many that the examples, which are of the sample registry, are within its bounds."""
SEED = 8
ALL = ("examples", "coverage", "fuzzing", "stateful")
QUESTIONS = (
    "SELECT COUNT(*) FROM registry WHERE smoker",
    "SELECT AVG(age), SUM(income) FROM registry WHERE age > 40",
    "SELECT sex, COUNT(*) FROM registry GROUP BY sex",
    "SELECT hospital, AVG(stay) FROM registry GROUP BY hospital",
    "SELECT MEDIAN(age) FROM registry",
    "SELECT QUANTILE(income, 0.9) FROM registry WHERE sex = 'F'",
    "SELECT MIN(admitted) FROM registry",
    "SELECT MODE(diagnosis) FROM registry",
    "SELECT VAR(age), STDDEV(bmi) FROM registry",
    "SELECT HISTOGRAM(age, 10) FROM registry",
)
WORDS = {
    "datasets": ["registry"],
    "questions": list(QUESTIONS),
    "amounts": ["0.1", "1/3", "1e-3", "2", "1e-12", "0", "-1", "NaN"],
    "priors": ["normal(12000, 900)", "uniform(0, 13000)", "point(3)", '{"F": 1, "M": 2}', "@survey"],
    "accuracies": ["±50 at 95%", "±1e-300 at 99%", "±1e300"],
    "methods": ["private-columns", "private-linked", "mdav", "swap", "t-closeness", "anatomy"],
}
USED = {
    "path.dataset": ("datasets", 0.9),
    "path.answer": ("answers", 0.5),
    "body.question": ("questions", 0.7),
    "body.epsilon": ("amounts", 0.7),
    "body.noise_scale": ("amounts", 0.7),
    "body.prior": ("priors", 0.7),
    "body.accuracy": ("accuracies", 0.7),
    "body.method": ("methods", 0.7),
}
HOMES = ("/v1/datasets/{dataset}", "/v1/rehearsal/datasets/{dataset}")
ODD = ("delta", "distance", "model", "interval", "rows", "constraints", "ranges", "population", "population_size")


@dataclass
class Run:
    """What was seen: how often each operation gave each status, and everything that was wrong."""

    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    followed: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, event: events.EngineEvent) -> None:
        if isinstance(event, events.ScenarioFinished):
            self._add_scenario(event)
        elif isinstance(event, events.NonFatalError | events.FatalError):
            self.wrong.append(f"{getattr(event, 'label', '')}: {getattr(event, 'value', event)}")

    def _add_scenario(self, event: events.ScenarioFinished) -> None:
        for name, one in event.recorder.interactions.items():
            if one.response is not None:
                case = event.recorder.cases[name]
                self.statuses[case.value.operation.label, one.response.status_code] += 1
                self.followed += case.transition is not None and one.response.status_code < 300
        for check in (one for many in event.recorder.checks.values() for one in many):
            if check.failure_info is not None:
                info = check.failure_info
                self.wrong.append(f"{check.name}: {info.failure.title}: {info.failure.message}\n{info.code_sample}")

    def list_statuses(self, label: str) -> set[int]:
        """Every status of an operation."""
        return {status for known, status in self.statuses if known == label}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiddlewareStack]:
    """A service without padding, with a budget that no fuzzer can use up."""
    folder = tmp_path_factory.mktemp("fuzzed")
    with open_app(folder, PATIENTS) as served_app:
        yield served_app


@contextmanager
def open_app(folder: Path, patients: int) -> Iterator[MiddlewareStack]:
    config = build_config(folder, patients)
    enlarge(folder / "registry.yaml")
    app = make_app(config)
    with closing(app.service):
        yield app


def without_lifespan(app: MiddlewareStack) -> App:
    """Schemathesis would keep a lifespan open until the process ends; here the service is closed by its test."""

    async def requests(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await app(scope, receive, send)

    return requests


def enlarge(schema: Path) -> None:
    lines = [line for line in schema.read_text().splitlines() if "budget:" not in line]
    budgets = [f"{name}: {{epsilon: 1000000, delta: 0.1}}" for name in ("budget", "analyst_budget")]
    schema.write_text("\n".join([*lines, *budgets, ""]))


def settings(
    token: str, answers: list[str], cases: int, phases: Sequence[str], seed: int | None
) -> schemathesis.Config:
    words = WORDS | {"answers": answers}
    checks = {
        # A question that is well formed may still be refused: no such column, no budget, not provable.
        "positive_data_acceptance": {"enabled": False},
        # Whatever does not fit may be too large as well.
        "negative_data_rejection": {
            "expected-statuses": ["400", "401", "403", "404", "405", "409", "413", "415", "422", "429"]
        },
    }
    config_entries: dict[str, Any] = {
        "headers": {"Authorization": f"Bearer {token}"},
        "continue-on-failure": True,
        "suppress-health-check": ["all"],  # a slow machine is not a failed test
        "generation": {"max-examples": cases, "database": "none"},
        "dictionaries": {name: {"values": values} for name, values in words.items()},
        "parameters": {place: {"dictionary": name, "probability": share} for place, (name, share) in USED.items()},
        "checks": checks,
        "phases": {name: {"enabled": name in phases} for name in ALL},
    }
    return schemathesis.Config.from_dict(config_entries if seed is None else config_entries | {"seed": seed})


def fuzz(
    app: MiddlewareStack, role: str, cases: int, phases: Sequence[str] = ALL, seed: int | None = SEED, only: str = ""
) -> Run:
    """Send so many requests to every operation, as an analyst or as a custodian."""
    token, secret = create_token(app.service.store, f"{role} of the fuzzer", role, 30, ("registry",))
    answers = [answer_home(app, home) for home in HOMES]
    config = settings(secret, answers, cases, phases, seed)
    schema = schemathesis.openapi.from_asgi("/openapi.json", without_lifespan(app), config=config)
    schema = schema.include(path_regex=only)
    turns: Counter[str] = Counter()

    @schema.hook
    def map_case(_: object, case: schemathesis.Case) -> schemathesis.Case:
        if case.meta is not None and case.meta.generation.mode is schemathesis.GenerationMode.POSITIVE:
            if isinstance(case.body, dict) and len(repr(case.body)) % 4:  # one odd option of ten refuses nearly all
                case.body = {name: entry for name, entry in case.body.items() if name not in ODD}
            if case.path.endswith("/releases/previews") and isinstance(case.body, dict):
                case.body["columns"] = (case.body.get("columns") or ["age", "sex"])[:2]  # of all it takes half a second
            turns[case.operation.label] += 1
            lead(case, answers, turns[case.operation.label])
            if (case.path_parameters or {}).get("token") == token.id:  # else it locks itself out
                case.path_parameters["token"] = "0" * 32
        return case

    run = Run()
    for event in from_schema(schema).execute():
        run.add(event)
    return run


def lead(case: schemathesis.Case, answers: Sequence[str], turn: int) -> None:
    """Whatever chance makes of the others: the first good case of four asks what can be answered, or for an answer that
    is there, and the second for an answer that is somewhere else."""
    if turn % 4 not in {1, 2}:
        return
    for home, here, elsewhere in zip(HOMES, answers, reversed(answers), strict=True):
        if case.path == f"{home}/answers/{{answer}}":
            case.path_parameters |= {"dataset": "registry", "answer": here if turn % 4 == 1 else elsewhere}
        if case.path == f"{home}/answers" and turn % 4 == 1:
            case.path_parameters |= {"dataset": "registry"}
            case.headers.pop("Idempotency-Key", None)
            case.body = {"question": QUESTIONS[turn % len(QUESTIONS)], "epsilon": "0.1"}


def answer_home(app: MiddlewareStack, home: str) -> str:
    """An answer of the analyst's, so that whoever knows its name can ask for it; that links lead there is chance."""
    _, secret = create_token(app.service.store, "analyst of the fuzzer", "analyst", 30, ("registry",))
    headers = {"Authorization": f"Bearer {secret}"}
    asked = {"question": QUESTIONS[0], "epsilon": "0.1"}
    reply = TestClient(app).post(f"{home.format(dataset='registry')}/answers", headers=headers, json=asked)
    return str(reply.json()["id"])


def check(run: Run, app: MiddlewareStack) -> None:
    """Nothing was wrong, nothing was left out, and links lead on."""
    check_all(run, app)
    assert run.followed


def check_all(run: Run, app: MiddlewareStack, only: str = "") -> None:
    """Nothing was wrong, and no operation was left out of those whose path is like this."""
    assert not run.wrong, "\n\n".join(run.wrong[:5])
    wanted = {f"{method} {path}" for method, path, _ in operations(app) if re.search(only, path)}
    assert {label for label, _ in run.statuses} == wanted
    assert max(status for _, status in run.statuses) < 500


def operations(app: MiddlewareStack) -> list[tuple[str, str, dict[str, Any]]]:
    """Every operation of the document."""
    paths = app.api.openapi()["paths"]
    return [
        (method.upper(), path, operation) for path, methods in paths.items() for method, operation in methods.items()
    ]


@pytest.mark.parametrize("cases", [2, *(pytest.param(cases, marks=pytest.mark.soak) for cases in (4, 8))])
def test_an_analyst_can_send_anything(app: MiddlewareStack, cases: int) -> None:
    """Some requests to every operation, then chains of them along links: no fault, no reply that is not told of."""
    run = fuzz(app, "analyst", cases, ("examples", "fuzzing", "stateful"))
    check(run, app)
    for home in HOMES:
        assert {201, 400, 401} <= run.list_statuses(f"POST {home}/answers")
        assert {200, 404} <= run.list_statuses(f"GET {home}/answers/{{answer}}")
    assert run.list_statuses("POST /v1/tokens") <= {400, 401, 403, 413, 415}


@pytest.mark.parametrize("cases", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_a_custodian_can_send_anything(app: MiddlewareStack, cases: int) -> None:
    """As an analyst: some requests to every operation, then chains of them along links."""
    run = fuzz(app, "custodian", cases, ("examples", "fuzzing", "stateful"))
    check(run, app)
    assert {201, 400, 401} <= run.list_statuses("POST /v1/tokens")
    assert {202, 400, 401} <= run.list_statuses("POST /v1/datasets/{dataset}/releases")


@pytest.mark.parametrize("only", ["^/(?!v1/rehearsal/)", pytest.param("", marks=pytest.mark.soak)], ids=["real", "all"])
def test_both_sides_of_every_boundary_can_be_sent(app: MiddlewareStack, only: str) -> None:
    """Whatever the document draws a boundary at, other methods, other kinds of bodies. Rehearsals take the same bodies
    by the same functions."""
    run = fuzz(app, "custodian", 1, ("coverage",), only=only)
    check_all(run, app, only)
    assert {201, 400, 401, 405} <= run.list_statuses("POST /v1/tokens")
    assert {202, 400, 401, 405, 415} <= run.list_statuses("POST /v1/datasets/{dataset}/releases")


@pytest.mark.soak
@pytest.mark.parametrize("role", ["analyst", "custodian"])
def test_anyone_can_send_anything_for_long(app: MiddlewareStack, role: str) -> None:
    """Five hundred requests to every operation, others each time."""
    check(fuzz(app, role, 500, seed=None), app)


def run_fuzzed_jobs(folder: Path, cases: int) -> None:
    """Fuzz what is carried out as jobs, then carry them out."""
    with open_app(folder, 60) as app:
        run = fuzz(app, "custodian", cases, ("examples", "fuzzing"), only="/(releases|sweeps)$")
        while run_next_job(app.service, "the test"):
            pass
        ended = list_jobs(app.service.store, None, 10_000)
    assert not run.wrong, "\n\n".join(run.wrong[:5])
    assert {"done"} <= {job.state for job in ended} <= {"done", "failed"}
    problems = [json.loads(job.result or "")["problem"] for job in ended if job.state == "failed"]
    assert {one["type"] for one in problems} <= {"/problems/invalid-input", "/problems/unsupported"}


def test_no_job_that_was_let_in_is_an_internal_error(tmp_path: Path) -> None:
    """What a release or a sweep was asked to be is refused at once, or carried out, or told as failed with a reason."""
    run_fuzzed_jobs(tmp_path, 2)


@pytest.mark.soak
def test_no_job_of_many_is_an_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.service.jobs.MAX_OPEN_JOBS", 10_000)
    run_fuzzed_jobs(tmp_path, 200)


# The document itself.


def test_every_operation_is_told_in_full(app: MiddlewareStack) -> None:
    """What it does, what each of its parameters is, an example of what it takes and gives, and how it may refuse."""
    document = app.api.openapi()
    schemas = document["components"]["schemas"]
    names = [operation["operationId"] for _, _, operation in operations(app)]
    assert len(set(names)) == len(names)
    for method, path, operation in operations(app):
        where = f"{method} {path}"
        assert all(operation[part] for part in ("description", "summary", "tags")), where
        assert all(one["description"] for one in operation.get("parameters", ())), where
        assert {"400", "405", "413", "429", "500", "503"} <= set(operation["responses"]), where
        assert path == "/health" or {"401", "403", "404"} <= set(operation["responses"]), where
        assert operation["security"] == ([] if path == "/health" else [{"token": []}]), where
        for name in kinds(operation):
            assert schemas[name]["examples"], f"{where}: {name}"
        for status, one in operation["responses"].items():
            assert "$ref" in one or one["description"] != "Successful Response" or status == "204", where
    for status, one in document["components"]["responses"].items():
        assert list(one["content"]) == ["application/problem+json"]
        examples = one["content"]["application/problem+json"]["examples"].values()
        assert {example["value"]["status"] for example in examples} == {int(status)}


def kinds(field_schema: dict[str, Any]) -> set[str]:
    """The schemas of what an operation takes and gives."""
    bodies = [
        field_schema.get("requestBody", {}),
        *(one for status, one in field_schema["responses"].items() if status < "300"),
    ]
    return {kind_of(one) for one in bodies if "application/json" in one.get("content", {})}


def kind_of(body: dict[str, Any]) -> str:
    return str(body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2])


@dataclass
class Caller:
    """Sends what the document's examples say, as somebody who may."""

    client: TestClient
    tokens: dict[str, str]
    schemas: dict[str, Any]
    identifiers: dict[tuple[bool, str], str] = field(default_factory=dict)

    def send(self, method: str, path: str, operation: dict[str, Any]) -> Any:
        """An operation with its example."""
        theirs = {"custodian", "jobs"} & set(operation["tags"]) or re.search("/releases|/sweeps|/metrics", path)
        who = "custodian" if theirs else "analyst"
        body = operation.get("requestBody")
        options = {}
        if body is not None:
            options = {"json": self.schemas[kind_of(body)]["examples"][0]}
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        return self.client.request(method, self.place(path), headers=headers, **options)

    def place(self, path: str) -> str:
        """A path with what was made before; rehearsals have their own."""
        known = {"dataset": "registry", "name": "survey", "analyst": "zoe"}
        here = {
            kind: identifier
            for (rehearsal, kind), identifier in self.identifiers.items()
            if rehearsal == ("rehearsal" in path)
        }
        return path.format(**known, **here)

    def keep(self, path: str, document: dict[str, Any]) -> None:
        """The first of what a POST makes, by what it is called in paths."""
        kind = {"answers": "answer", "sessions": "session", "tokens": "token"}.get(path.rpartition("/")[2], "job")
        if "id" in document:
            self.identifiers.setdefault(("rehearsal" in path, kind), document["id"])


ORDER = {"PUT": 0, "POST": 1, "GET": 2, "DELETE": 3}


def test_examples_are_accepted_and_are_like_the_replies(app: MiddlewareStack) -> None:
    """What the document shows as a request is answered; what it shows as a reply has the parts of the real one."""
    store = app.service.store
    names = {"analyst": "ann", "custodian": "cara"}
    tokens = {role: create_token(store, name, role, 30, ("registry",))[1] for role, name in names.items()}
    caller = Caller(TestClient(app), tokens, app.api.openapi()["components"]["schemas"])
    for method, path, operation in sorted(operations(app), key=lambda one: (ORDER[one[0]], one[1])):
        if "/files/" in path:
            continue  # of a job that is done
        reply = caller.send(method, path, operation)
        assert str(reply.status_code) in {status for status in operation["responses"] if status < "300"}, (
            path,
            reply.text,
        )
        if reply.status_code == 204 or "json" not in reply.headers["content-type"]:
            continue
        document = reply.json()
        name = kind_of(operation["responses"][str(reply.status_code)])
        getattr(openapi, name).model_validate(EXAMPLES[name])
        getattr(openapi, name).model_validate(document)
        assert set(EXAMPLES[name]) == set(document), path
        if method == "POST":
            caller.keep(path, document)
