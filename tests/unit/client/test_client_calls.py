"""What a client sends and what it makes of replies: answers, jobs, sessions and releases of a scripted service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import discreet
from discreet import (
    Accuracy,
    BudgetExceeded,
    ClaimFailed,
    DiscreetError,
    Distance,
    Internal,
    InvalidInput,
    Prior,
    Unavailable,
    Unsupported,
    total,
)
from discreet.client.transport import Transport, parse_service_address
from discreet.priors.posterior import PosteriorSummary
from support.client_service import service
from support.scripted_service import (
    ScriptedService,
    build_problem,
    build_raw_reply,
    build_reply,
    drop,
)
from support.service_documents import ABOUT, ANSWER, GUARANTEE, QUESTION, TOKEN, build_client

__all__ = ["service"]  # a fixture


# What is said is sent exactly.

OPTIONS_AND_BODIES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"epsilon": 0.1}, {"epsilon": "1/10"}),
    ({"epsilon": Fraction(1, 3), "delta": Decimal("1e-9")}, {"epsilon": "1/3", "delta": "1/1000000000"}),
    (
        {"noise_scale": 20, "model": "approx-dp", "fresh": True},
        {"noise_scale": "20", "model": "approx-dp", "fresh": True},
    ),
    ({"accuracy": "±50 at 95%", "rows": 5e3}, {"accuracy": "±50 at 95%", "rows": 5000}),
    ({"accuracy": Accuracy.parse("±50 at 95%")}, {"accuracy": "±50 at 95%"}),
    ({"epsilon": 1, "prior": "normal(38, 6)"}, {"epsilon": "1", "prior": "normal(38, 6)"}),
    ({"epsilon": 1, "prior": {"F": 1, "M": 3}}, {"epsilon": "1", "prior": '{"F": 1, "M": 3}'}),
    ({"epsilon": 1, "prior": {date(2020, 1, 31): 0.5}}, {"epsilon": "1", "prior": '{"2020-01-31": 1}'}),
    ({"epsilon": 1, "prior": Prior.uniform(1, 3)}, {"epsilon": "1", "prior": "uniform(1, 3) on [1, 3] step 1"}),
    ({"epsilon": 1, "prior": Prior.weights({1: 1, 2: 3})}, {"epsilon": "1", "prior": '{"1": 1, "2": 3}'}),
    (
        {"epsilon": 1, "distance": Distance.nominal(), "interval": True},
        {"epsilon": "1", "distance": "nominal", "interval": True},
    ),
    (
        {"epsilon": 1, "prior": "uniform(1, 3)", "tail": False},
        {"epsilon": "1", "prior": "uniform(1, 3)", "tail": False},
    ),
    (
        {"epsilon": 1, "prior": "uniform(1, 3)", "tail": True},
        {"epsilon": "1", "prior": "uniform(1, 3)", "tail": True},
    ),
    ({"epsilon": 1, "constraints": ("total = 9",)}, {"epsilon": "1", "constraints": ["total = 9"]}),
    ({"epsilon": 1, "constraints": []}, {"epsilon": "1"}),
    ({"epsilon": 1, "reuse": "any"}, {"epsilon": "1", "reuse": "any"}),
]


@pytest.mark.parametrize(("options", "sent"), OPTIONS_AND_BODIES)
def test_numbers_and_priors_are_sent_by_their_exact_text(
    service: ScriptedService, options: dict[str, Any], sent: dict[str, Any]
) -> None:
    service.then(build_reply(ANSWER, 201))
    build_client(service).answer(QUESTION, **options)
    assert service.seen[0].document == {"question": QUESTION} | sent
    assert service.seen[0].headers["content-type"] == "application/json"


REFUSED_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0}, "epsilon must be above 0"),
    ({"epsilon": "0.1"}, "epsilon must be a number"),
    ({"epsilon": float("nan")}, "epsilon must be a finite number"),
    ({"epsilon": 1, "delta": 1}, "delta must be between 0 and 1"),
    ({"epsilon": 1, "prior": 3}, "a prior must be text or a Prior"),
    ({"epsilon": 1, "prior": {}}, "a prior needs at least one value"),
    ({"epsilon": 1, "prior": Prior.independent([Prior.uniform(0, 1)] * 2)}, "several components cannot be sent"),
    ({"epsilon": 1, "distance": Distance.ordinal("abc")}, "a distance is sent by its name"),
    ({"accuracy": Accuracy(Fraction(1, 3), Fraction(95, 100))}, "more digits than can be written"),
    ({"epsilon": 1, "rows": 0}, "the number of rows expected"),
    ({"epsilon": 1, "constraints": "total = 9"}, "constraints are a list, such as"),
    ({"epsilon": 1, "constraints": [total(9)]}, "constraints are sent as a list of texts"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED_OPTIONS)
def test_what_cannot_be_sent_is_refused_here(service: ScriptedService, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        build_client(service).answer(QUESTION, **options)
    assert service.seen == []


@pytest.mark.parametrize("question", [3, None, {"from": {1, 2}}, {"where": float("inf")}, {"where": "\ud800"}])
def test_a_question_is_text_or_json(service: ScriptedService, question: Any) -> None:
    with pytest.raises(InvalidInput, match="a question"):
        build_client(service).answer(question, epsilon=1)
    assert service.seen == []


# What is told is typed.


def test_an_answer_is_the_library_s_own(service: ScriptedService) -> None:
    service.then(build_reply(ANSWER, 201))
    answer = build_client(service).answer(QUESTION, epsilon=0.1, prior="normal(1300, 100)")
    assert isinstance(answer, discreet.Answer)
    assert (answer.value, answer.headline, answer.interval(), answer.entry, answer.prior) == (
        1234,
        1234,
        (1200, 1268),
        7,
        True,
    )
    assert (answer.guarantee.epsilon, answer.guarantee.assumptions) == (Fraction(1, 10), ("the schema is true",))
    assert answer.spent == {"dp": Fraction(1, 10), "approx-dp": None}
    assert answer.meaning == "the count is about 1234"
    assert answer.reconciled is not None
    assert answer.reconciled.intervals(0.95) == ({"count": (1200, 1268)},)
    document = {name: value for name, value in ANSWER.items() if name not in {"id", "picture"}}
    assert json.loads(json.dumps(answer.to_json())) == document


def test_a_posterior_tells_what_was_told_and_refuses_the_rest(service: ScriptedService) -> None:
    service.then(build_reply(ANSWER, 201))
    posterior = build_client(service).answer(QUESTION, epsilon=0.1, prior="normal(1300, 100)").posterior
    assert isinstance(posterior, PosteriorSummary)
    assert (posterior.numeric, posterior.mean(), posterior.median(), posterior.interval()) == (
        True,
        1230.5,
        1230.0,
        (1199.0, 1262.0),
    )
    assert (posterior.quantile(0.025), posterior.quantile(0.5), posterior.quantile(0.975)) == (1199.0, 1230.0, 1262.0)
    assert repr(posterior) == "Posterior(mean 1,231, 95 % between 1,199 and 1,262)"
    untold: list[Callable[[], object]] = [posterior.variance, lambda: posterior.mass]
    untold += [lambda: posterior.quantile(0.1), lambda: posterior.interval(0.9)]
    for ask in untold:
        with pytest.raises(InvalidInput):
            ask()


def test_another_confidence_is_refused(service: ScriptedService) -> None:
    service.then(build_reply(ANSWER, 201))
    answer = build_client(service).answer(QUESTION, epsilon=0.1)
    asks: list[Callable[[], object]] = [lambda: answer.interval(0.9), lambda: answer.reconciled.intervals(0.9)]  # type: ignore[union-attr]
    asks += [lambda: answer.range(1, 2, 0.9), lambda: answer.population(0.9)]
    for ask in asks:
        with pytest.raises(InvalidInput, match="at 95 % and at no other"):
            ask()
    assert len(service.seen) == 1


def test_dates_names_and_many_rows(service: ScriptedService) -> None:
    """Dates are dates where the service says so, a law over names is whole, and a law that is not told is refused."""
    dated = {
        "columns": ["day", "sex"],
        "numbers": ["day", "sex"],
        "rows": [{"day": "2020-01-31", "sex": "F"}, {"day": None, "sex": "2020-01-31"}],
    }
    dated |= {"intervals_95": [{"day": ["2020-01-01", "2020-02-01"], "sex": None}] * 2, "dates": ["day"]}
    laws = [{"day": None, "sex": {"probabilities": {"F": 0.25, "M": 0.75}}}] * 2
    service.then(
        build_reply(ANSWER | dated | {"posteriors": laws}, 201), build_reply(ANSWER | {"posteriors": None}, 201)
    )
    answer = build_client(service).answer(QUESTION, epsilon=0.1)
    assert answer.rows == ({"day": date(2020, 1, 31), "sex": "F"}, {"day": None, "sex": "2020-01-31"})
    assert answer.intervals(0.95)[0] == {"day": (date(2020, 1, 1), date(2020, 2, 1)), "sex": None}
    law = answer.posteriors()[1]["sex"]
    assert law is not None
    assert law.probabilities() == {"F": 0.25, "M": 0.75}
    with pytest.raises(InvalidInput, match="posteriors of at most 512 rows"):
        build_client(service).answer(QUESTION, epsilon=0.1).posteriors()


# More of an answer, for nothing.

RANGE_DOCUMENT = {
    "asked": ["20", "30"],
    "low": 20,
    "high": 31,
    "value": 5.5,
    "interval": [1.0, 9.0],
    "confidence": 0.95,
}
POPULATION_DOCUMENT = {
    "value": 0.5,
    "interval": [0.4, 0.6],
    "confidence": 0.95,
    "noise": 0.01,
    "sampling": 0.1,
    "words": "so",
}


def test_ranges_and_population_ask_the_same_question_again(service: ScriptedService) -> None:
    service.then(build_reply(ANSWER, 201))
    answer = build_client(service).answer(QUESTION, epsilon=0.1, fresh=True, constraints=["total = 9"])
    service.steps[:] = [build_reply(ANSWER | {"ranges": [RANGE_DOCUMENT]}, 201)]
    counted_range = answer.range(20, Fraction(30))
    assert (counted_range.low, counted_range.high, counted_range.value, counted_range.interval) == (
        20,
        31,
        5.5,
        (1.0, 9.0),
    )
    body = {"question": QUESTION, "epsilon": "1/10", "constraints": ["total = 9"], "stored_only": True}
    assert [request.document for request in service.seen[1:]] == [body | {"ranges": ["20..30"]}]
    service.steps[:] = [build_reply(ANSWER | {"population": [{"count": POPULATION_DOCUMENT}]}, 201)]
    people = answer.population(size=9000)
    assert (people[0]["count"].name, people[0]["count"].sampling) == ("count", 0.1)
    assert service.seen[-1].document["population_size"] == 9000
    assert service.seen[-1].document["population"] is True
    assert service.seen[-1].document["stored_only"] is True
    assert len({request.key for request in service.seen}) == 3


def test_a_range_that_would_be_paid_for_is_refused(service: ScriptedService) -> None:
    """After a refresh of the data set the answer is stored no longer."""
    service.then(build_reply(ANSWER, 201))
    answer = build_client(service).answer(QUESTION, epsilon=0.1)
    service.steps[:] = [build_problem(403, "BudgetExceeded", "costs epsilon 0.1, and 0 is left")]
    with pytest.raises(InvalidInput, match="this would be charged; ask anew"):
        answer.range(20, 30)


def test_a_range_of_another_answer_is_not_told(service: ScriptedService) -> None:
    service.then(build_reply(ANSWER, 201))
    answer = build_client(service).answer(QUESTION, epsilon=0.1)
    service.steps[:] = [build_reply(ANSWER | {"rows": [{"count": 1200}], "ranges": [RANGE_DOCUMENT]}, 201)]
    with pytest.raises(InvalidInput, match="by now the service tells another answer"):
        answer.range(20, 30)


@pytest.mark.parametrize(("low", "high"), [("", 1), ("1..2", 3), (1, " "), ("a" * 101, 1)])
def test_a_range_has_two_ends(service: ScriptedService, low: object, high: object) -> None:
    service.then(build_reply(ANSWER, 201))
    answer = build_client(service).answer(QUESTION, epsilon=0.1)
    with pytest.raises(InvalidInput, match="a range has a low and a high end"):
        answer.range(low, high)
    assert len(service.seen) == 1


def test_a_range_of_dates_is_told_in_dates(service: ScriptedService) -> None:
    service.then(build_reply(ANSWER, 201))
    answer = build_client(service).answer(QUESTION, epsilon=0.1)
    document = RANGE_DOCUMENT | {"low": "2020-01-01", "high": "2020-12-31"}
    service.steps[:] = [build_reply(ANSWER | {"ranges": [document]}, 201)]
    assert answer.range(date(2020, 1, 5), "2020-12-30").low == date(2020, 1, 1)
    assert service.seen[-1].document["ranges"] == ["2020-01-05..2020-12-30"]


def test_without_a_picture_there_is_none(service: ScriptedService, tmp_path: Path) -> None:
    service.then(build_reply(ANSWER | {"picture": False}, 201))
    answer = build_client(service).answer(QUESTION, epsilon=0.1)
    with pytest.raises(InvalidInput, match="a picture shows"):
        answer.plot(tmp_path / "a.svg")
    assert answer.picture_spec() is None


def test_a_picture_is_drawn_from_what_the_service_tells(service: ScriptedService, tmp_path: Path) -> None:
    from discreet.charts import HistogramChart, build_picture_spec

    spec = build_picture_spec(HistogramChart("a title", "age", (0.0, 1.0), (3.0,), ((1.0, 5.0),), "a sentence"))
    service.then(build_reply(ANSWER, 201), build_reply({"spec": spec}))
    answer = build_client(service).answer(QUESTION, epsilon=0.1)
    assert "a sentence" in answer.plot(tmp_path / "a.svg").read_text()
    assert answer.picture_spec() == json.loads(json.dumps(spec))
    assert service.seen[-1].path == "/v1/datasets/registry/answers/a1/picture"
    with pytest.raises(InvalidInput, match=r"ends in .svg"):
        answer.plot(tmp_path / "a.txt")
    service.steps[:] = [build_reply({"spec": "no"})]
    with pytest.raises(Unavailable, match="did not answer"):
        answer.plot(tmp_path / "b.svg")
    assert not (tmp_path / "b.svg").exists()


# Long work.

JOB_DOCUMENT = {
    "id": "j1",
    "kind": "ask",
    "state": "running",
    "stage": None,
    "answer": None,
    "problem": None,
    "files": [],
}


def test_a_question_that_runs_as_a_job_is_waited_for(service: ScriptedService) -> None:
    done = JOB_DOCUMENT | {"state": "done", "answer": "a1"}
    service.then(
        build_reply(JOB_DOCUMENT | {"state": "waiting"}, 202),
        build_reply(ABOUT),
        build_reply(JOB_DOCUMENT),
        drop,
        build_reply(JOB_DOCUMENT),
        build_reply(done),
        build_reply(ANSWER),
    )
    assert build_client(service).answer(QUESTION, epsilon=0.1).value == 1234
    paths = [request.path for request in service.seen]
    assert paths == [
        "/v1/datasets/registry/answers",
        "/v1/datasets/registry",
        *["/v1/jobs/j1"] * 4,
        "/v1/datasets/registry/answers/a1",
    ]


@pytest.mark.parametrize(
    ("document", "error", "words"),
    [
        ({"status": 403, "detail": "nothing is left", "kind": "BudgetExceeded"}, BudgetExceeded, "nothing is left"),
        ({"status": 503, "detail": "cut short", "kind": "Unavailable"}, Unavailable, "cut short.*key='"),
        (None, Internal, "the service had an internal error"),
        ("no problem", Internal, "the service had an internal error"),
    ],
)
def test_a_job_that_failed_is_its_error(
    service: ScriptedService, document: object, error: type[DiscreetError], words: str
) -> None:
    service.then(
        build_reply(JOB_DOCUMENT, 202),
        build_reply(ABOUT),
        build_reply(JOB_DOCUMENT | {"state": "failed", "problem": document}),
    )
    with pytest.raises(error, match=words):
        build_client(service).answer(QUESTION, epsilon=0.1)


def test_looks_at_a_job_come_by_its_clock_and_ever_slower() -> None:
    from discreet.client.remote_dataset import wait_for_job

    class Patient(Transport):
        def send(self, *_: object) -> Any:
            return JOB_DOCUMENT if len(slept) < 20 else JOB_DOCUMENT | {"state": "done"}

    slept: list[float] = []
    wire = Patient(parse_service_address("http://127.0.0.1:1"), TOKEN, sleep=slept.append)
    stages: list[str] = []
    assert wait_for_job(wire, JOB_DOCUMENT | {"stage": "reading"}, 0.5, stages.append)["state"] == "done"
    assert slept[:3] == [0.5, 0.75, 1.125]
    assert max(slept) == slept[-1] == 15
    assert stages[:2] == ["reading", "running"]
    slept.clear()
    wait_for_job(wire, JOB_DOCUMENT, 40, stages.append)
    assert set(slept) == {40}


# Rehearsal, sessions, budgets, schemas.


def test_a_rehearsal_goes_to_the_made_up_table(service: ScriptedService, tmp_path: Path) -> None:
    """Files too; its ledger alone has no chain to check."""
    service.then(build_reply(ANSWER, 201), build_problem(422, "Unsupported"))
    rehearsed = build_client(service, rehearsal=True)
    rehearsed.answer(QUESTION, epsilon=0.1)
    assert service.seen[0].path == "/v1/rehearsal/datasets/registry/answers"
    assert repr(rehearsed).endswith("rehearsal=True)")
    calls: dict[str, Callable[[], object]] = {"releases/previews": lambda: rehearsed.estimate_error(epsilon=1)}
    calls |= {"releases": lambda: rehearsed.publish("mdav", tmp_path / "a.csv", k=3), "sweeps": rehearsed.sweep}
    for below, call in calls.items():
        with pytest.raises(Unsupported):
            call()
        assert service.seen[-1].path == f"/v1/rehearsal/datasets/registry/{below}"
    sent = len(service.seen)
    with pytest.raises(InvalidInput, match="its chain is not checked"):
        rehearsed.verify()
    assert len(service.seen) == sent


def test_the_schema_is_asked_for_once(service: ScriptedService) -> None:
    service.then(build_reply(ABOUT))
    ours = build_client(service)
    assert ours.schema["name"] == ours.schema["name"] == "registry"
    assert len(service.seen) == 1


def test_a_session_is_opened_once_and_ended(service: ScriptedService) -> None:
    opened = {"id": "s/1", "epsilon": "1/10", "left": "1/10"}
    service.then(
        drop,
        build_reply(opened, 201),
        build_reply(ANSWER | {"left": "1/20"}),
        drop,
        build_reply(ANSWER | {"left": "1/20"}),
    )
    with build_client(service).session(noise_scale=20, epsilon=0.1) as session:
        first, second = service.seen
        assert (first.key, first.body) == (second.key, second.body)
        assert first.document == {"noise_scale": "20", "epsilon": "1/10"}
        assert (session.noise_scale, session.epsilon, session.left) == (20, Fraction(1, 10), Fraction(1, 10))
        answer = session.answer(QUESTION)
        assert (answer.value, session.left) == (1234, Fraction(1, 20))
        assert session.answer(QUESTION, noise_scale=50).value == 1234
        assert [request.document for request in service.list_requests("/answers")] == [
            {"question": QUESTION},
            *[{"question": QUESTION, "noise_scale": "50"}] * 2,
        ]
        with pytest.raises(InvalidInput, match="outside a session"):
            answer.range(1, 2)
        service.steps[:] = [build_raw_reply(b"", 204)]
    session.close()
    ends = [request for request in service.seen if request.method == "DELETE"]
    assert [request.path for request in ends] == ["/v1/datasets/registry/sessions/s%2F1"]
    with pytest.raises(InvalidInput, match="the session is closed"):
        session.answer(QUESTION)
    with pytest.raises(InvalidInput, match="noise_scale must be above 0"):
        build_client(service).session(0, 1)


@pytest.mark.parametrize("end", [drop, build_problem(404), build_problem(503, "Unavailable")])
def test_a_session_that_cannot_be_ended_is_closed_all_the_same(service: ScriptedService, end: Any) -> None:
    service.then(build_reply({"id": "s", "epsilon": "1", "left": "1"}, 201), end)
    with build_client(service, retries=1).session(20, 1) as session:
        pass
    with pytest.raises(InvalidInput, match="the session is closed"):
        session.answer(QUESTION)


# Releases.

TABLE_BYTES = b"age\n30\n"
RELEASE_DOCUMENT: dict[str, Any] = {
    "name": "registry-1",
    "method": "private-columns",
    "rows": 1,
    "entry": 9,
    "files": ["registry.csv"],
    "manifest_file": "registry.csv.manifest.json",
    "guarantee": GUARANTEE,
    "measured": {},
    "report": None,
    "risk": "a bound",
    "utility": None,
    "warnings": ["mind this"],
}


def script_release(tables: dict[str, bytes], **changes: Any) -> list[Callable[[BaseHTTPRequestHandler], None]]:
    """The steps of a release whose tables are these."""
    entries = [{"name": name, "sha256": hashlib.sha256(body).hexdigest()} for name, body in tables.items()]
    manifest = {"format": "discreet release 1", "files": entries}
    document = RELEASE_DOCUMENT | {"manifest": manifest, "files": list(tables)} | changes
    job = JOB_DOCUMENT | {"kind": "publish", "state": "done", "release": document}
    waiting = build_reply(JOB_DOCUMENT | {"kind": "publish", "stage": "writing"}, 202)
    return [
        waiting,
        build_reply(ABOUT),
        build_reply(job),
        *map(build_raw_reply, tables.values()),
        build_raw_reply(json.dumps(manifest).encode()),
    ]


def test_a_release_is_brought_here(service: ScriptedService, tmp_path: Path) -> None:
    service.then(*script_release({"registry.csv": TABLE_BYTES}, report="report.html"), build_raw_reply(b"<html>"))
    stages: list[str] = []
    out, report = tmp_path / "mine.csv", tmp_path / "page.html"
    release = build_client(service).publish(
        "private-columns", out, epsilon=0.5, report=report, columns=("age",), progress=stages.append
    )
    assert isinstance(release, discreet.Release)
    assert (release.files, release.manifest_file, release.report) == (
        (out,),
        tmp_path / "mine.csv.manifest.json",
        report,
    )
    assert (out.read_bytes(), report.read_bytes()) == (TABLE_BYTES, b"<html>")
    assert json.loads(release.manifest_file.read_text()) == release.manifest
    assert (release.guarantee.epsilon, release.rows, release.entry, release.warnings) == (
        Fraction(1, 10),
        1,
        9,
        ("mind this",),
    )
    sent = {"method": "private-columns", "epsilon": "1/2", "columns": ["age"], "format": "csv", "report": True}
    assert service.seen[0].document == sent
    assert service.seen[0].key
    assert stages == ["writing", "bringing the files"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.csv", "mine.csv.manifest.json", "page.html"]
    names = [request.path.rpartition("/files/")[2] for request in service.seen[3:]]
    assert names == ["registry.csv", "registry.csv.manifest.json", "report.html"]


def test_a_second_table_keeps_the_name_that_its_manifest_has(service: ScriptedService, tmp_path: Path) -> None:
    service.then(*script_release({"registry.csv": TABLE_BYTES, "registry-values.csv": b"group\n1\n"}))
    release = build_client(service).publish("anatomy", tmp_path / "mine.csv", k=3)
    assert release.files == (tmp_path / "mine.csv", tmp_path / "registry-values.csv")
    assert release.files[1].read_bytes() == b"group\n1\n"


def test_columns_apart_come_in_a_folder(service: ScriptedService, tmp_path: Path) -> None:
    columns = {"columns/age.parquet": b"30", "columns/sex.parquet": b"F"}
    service.then(*script_release(columns, manifest_file="columns/manifest.json"))
    release = build_client(service).publish("private-columns", tmp_path / "mine", epsilon=1, apart=True)
    assert release.files == (tmp_path / "mine" / "age.parquet", tmp_path / "mine" / "sex.parquet")
    assert [path.read_bytes() for path in release.files] == [b"30", b"F"]
    assert release.manifest_file == tmp_path / "mine" / "manifest.json"
    assert json.loads(release.manifest_file.read_text()) == release.manifest
    sent = {"method": "private-columns", "epsilon": 1, "apart": True, "report": False}
    assert service.seen[0].document == sent
    assert service.seen[3].path.endswith("/files/columns%2Fage.parquet")
    service.steps[:] = script_release({"columns/age.parquet": b"31"}, manifest_file="columns/manifest.json")
    build_client(service).publish("private-columns", tmp_path / "mine", epsilon=1, apart=True, force=True)
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["age.parquet", "manifest.json"]
    service.steps[:] = script_release({"columns/../..": b""}, manifest_file="columns/manifest.json")
    with pytest.raises(Unavailable, match="did not answer as a discreet service"):
        build_client(service).publish("private-columns", tmp_path / "evil", epsilon=1, apart=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_what_is_lost_of_a_release_is_brought_again(service: ScriptedService, tmp_path: Path) -> None:
    accepted, about, done, table, manifest = script_release({"registry.csv": TABLE_BYTES})
    service.then(
        drop,
        accepted,
        about,
        done,
        build_raw_reply(TABLE_BYTES[:2], announced=len(TABLE_BYTES)),
        drop,
        table,
        manifest,
    )
    build_client(service).publish("mdav", tmp_path / "mine.csv", k=3)
    assert (tmp_path / "mine.csv").read_bytes() == TABLE_BYTES
    assert service.seen[0].key == service.seen[1].key


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([build_problem(404)], InvalidInput),
        ([build_raw_reply(TABLE_BYTES), build_problem(500, "Internal")], Internal),
        ([build_raw_reply(b"age\n31\n"), None], ClaimFailed),
        ([build_raw_reply(TABLE_BYTES), build_raw_reply(b'{"format": "another"}')], ClaimFailed),
        ([build_raw_reply(TABLE_BYTES), build_raw_reply(b"no manifest")], ClaimFailed),
        ([drop], Unavailable),
    ],
)
def test_a_release_comes_whole_or_not_at_all(
    service: ScriptedService, tmp_path: Path, steps: list[Any], error: type[DiscreetError]
) -> None:
    """Nothing is left here, and it is said that the release is made and where it is."""
    all_well = script_release({"registry.csv": TABLE_BYTES})
    service.then(*all_well[:3], *(all_well[-1] if step is None else step for step in steps))
    with pytest.raises(
        error, match="the release is made and entered, and its files are those of job j1 at the service"
    ):
        build_client(service, retries=1).publish("mdav", tmp_path / "mine.csv", k=3)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_is_told_and_nothing_is_left(service: ScriptedService, tmp_path: Path) -> None:
    """It is not taken for a lost connection."""
    from discreet.client.transport import HttpRequest

    full, service.steps[:] = Path("/dev/full"), [build_raw_reply(TABLE_BYTES)]
    wire = Transport(parse_service_address(service.address), TOKEN)
    with pytest.raises(Unavailable, match="'full' cannot be written; check the folder and that the disk has room"):
        wire.send(HttpRequest.get("/v1/jobs/j1/files/a.csv"), full)
    with pytest.raises(Unavailable, match="'b' cannot be written"):
        wire.send(HttpRequest.get("/v1/jobs/j1/files/a.csv"), tmp_path / "none" / "b")
    assert len(service.seen) == 2


@pytest.mark.parametrize("name", ["../evil.csv", "/etc/evil.csv", "", "..", "a/b.csv", None, 3])
def test_a_name_of_the_service_leads_nowhere_else(service: ScriptedService, tmp_path: Path, name: Any) -> None:
    (tmp_path / "in").mkdir()
    service.then(*script_release({"registry.csv": TABLE_BYTES}, files=["registry.csv", name])[:3])
    with pytest.raises(Unavailable, match="did not answer as a discreet service"):
        build_client(service).publish("anatomy", tmp_path / "in" / "mine.csv", k=3)
    assert [path.name for path in tmp_path.rglob("*")] == ["in"]


def test_a_place_that_is_taken_is_refused_before_anything_is_made(service: ScriptedService, tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("mine")
    ours = build_client(service)
    for out, report, words in (
        ("there.csv", None, "is there already"),
        ("a.txt", None, "the released table is named .csv or .parquet"),
        ("none/a.csv", None, "does not exist"),
        ("a.csv", "r.json", "a report from a service is named .html"),
    ):
        with pytest.raises(InvalidInput, match=words):
            ours.publish("mdav", tmp_path / out, k=3, report=None if report is None else tmp_path / report)
    with pytest.raises(InvalidInput, match="a folder of columns is named without a suffix"):
        ours.publish("private-columns", tmp_path / "a.csv", epsilon=1, apart=True)
    (tmp_path / "folder").mkdir()
    for force, words in ((False, "is there already"), (True, "is there and is no release")):
        with pytest.raises(InvalidInput, match=words):
            ours.publish("private-columns", tmp_path / "folder", epsilon=1, apart=True, force=force)
    with pytest.raises(InvalidInput, match="diversity must be text"):
        ours.publish("mdav-swap", tmp_path / "a.csv", k=3, diversity=object())
    assert service.seen == []
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_force_overwrites_what_was_brought_before_and_nothing_else(service: ScriptedService, tmp_path: Path) -> None:
    """By its hash: the service has another name for it."""
    out, page = tmp_path / "mine.csv", tmp_path / "page.html"
    service.then(*script_release({"registry.csv": TABLE_BYTES}))
    build_client(service).publish("mdav", out, k=3)
    service.steps[:] = script_release({"registry.csv": b"age\n31\n", "registry-values.csv": b"group\n1\n"})
    with pytest.raises(InvalidInput, match="is there already"):
        build_client(service).publish("anatomy", out, k=3)
    build_client(service).publish("anatomy", out, k=3, force=True)
    assert out.read_bytes() == b"age\n31\n"
    requests_before = len(service.seen)
    page.write_text("a page of mine")
    with pytest.raises(InvalidInput, match=r"'page\.html' is there and is no release or report of ours"):
        build_client(service).publish("mdav", tmp_path / "other.csv", k=3, report=page, force=True)
    out.write_text("a table of mine")
    with pytest.raises(InvalidInput, match=r"'mine\.csv' is there and is no release"):
        build_client(service).publish("mdav", out, k=3, force=True)
    assert (len(service.seen), out.read_text(), page.read_text()) == (
        requests_before,
        "a table of mine",
        "a page of mine",
    )


def test_a_report_is_for_its_custodian_alone(service: ScriptedService, tmp_path: Path) -> None:
    service.then(*script_release({"registry.csv": TABLE_BYTES}, report="report.html"), build_raw_reply(b"<html>"))
    release = build_client(service).publish("mdav", tmp_path / "mine.csv", k=3, report=tmp_path / "page.html")
    assert release.report is not None
    assert release.report.stat().st_mode & 0o077 == 0


def test_a_lost_release_tells_the_key_to_go_on_with(service: ScriptedService, tmp_path: Path) -> None:
    service.then(drop)
    with pytest.raises(Unavailable, match="key='april' is not charged twice"):
        build_client(service, retries=1).publish("mdav", tmp_path / "a.csv", k=3, key="april")
    assert {request.key for request in service.seen} == {"april"}


def test_what_is_said_of_a_file_is_sent(service: ScriptedService, tmp_path: Path) -> None:
    swap = {"keep": ("sex",), "informed": True, "diversity": discreet.sdc.Distinct(3), "ks": {"income": 20}}
    calls: list[tuple[str, dict[str, object], dict[str, object]]] = [
        ("mdav-swap", swap | {"k": 10.0}, {"k": 10, "keep": ["sex"], "diversity": "distinct 3"}),
        ("generalise", {"k": 5, "suppress": 0.05}, {"suppress": "1/20"}),
        ("t-closeness", {"k": 5, "t": 1.5}, {"t": "3/2"}),
        ("private-linked", {"epsilon": 1, "pairs": [("a", "b")]}, {"pairs": [["a", "b"]]}),
    ]
    for method, options, changed in calls:
        service.then(build_problem(400, "InvalidInput"))
        with pytest.raises(InvalidInput):
            build_client(service).publish(method, tmp_path / "a.parquet", **options)
        sent = {"method": method, "format": "parquet", "report": False} | options | changed
        assert service.seen[-1].document == sent
    service.then(build_problem(400, "InvalidInput"))
    with pytest.raises(InvalidInput):
        build_client(service).publish(discreet.sdc.Mdav(k=5, strata="sex"), tmp_path / "a.csv")
    sent = {"method": "mdav", "k": 5, "strata": "sex", "format": "csv", "report": False}
    assert service.seen[-1].document == sent
