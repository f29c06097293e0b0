"""The client and a custodian side by side on one data set: the same calls give the same values, through a service."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from discreet import Answer, BudgetExceeded, Client, Custodian, InvalidInput, Release
from discreet.errors import Unavailable
from discreet.release.assess import verify_release
from discreet.service.app import make_app
from discreet.service.config import DatasetConfig
from discreet.service.jobs import run_job_loop
from discreet.service.store.tokens import create_token
from support.inprocess_service import build_config
from support.scripted_service import ScriptedService, Step, build_raw_reply, run_scripted_service

COUNT = "SELECT COUNT(*) FROM registry WHERE smoker"
HISTOGRAM = "SELECT HISTOGRAM(income, 64) FROM registry"


@dataclass(frozen=True)
class Live:
    """A service that listens, and the same data set opened beside it."""

    address: str
    tokens: dict[str, str]
    custodian: Custodian

    def client(self, who: str = "ann", **options: Any) -> Client:
        return Client(self.address, self.tokens[who], "registry", **{"pause": 0.01} | options)

    def spent(self, who: str = "ann") -> Fraction:
        """What an analyst, or with an empty name the data set, has spent purely."""
        balance = self.custodian.budget(who)[-2] if who else self.custodian.budget()[0]
        assert (balance.model, balance.analyst) == ("dp", who or None)
        assert balance.epsilon is not None
        return balance.epsilon


@contextmanager
def listening(folder: Path, jobs: bool = False) -> Iterator[Live]:
    """A service on a free port, with a runner of its jobs, until the test is over."""
    config = build_config(folder)
    schema = folder / "registry.yaml"
    schema_text = schema.read_text().replace("models: [dp]", "models: [dp, approx-dp]")
    schema_text = schema_text.replace("{epsilon: 3, delta: 1e-6}", "{epsilon: 300, delta: 1e-3}")
    schema_text = schema_text.replace("{epsilon: 1, delta: 1e-7}", "{epsilon: 100, delta: 1e-4}")
    schema_text = schema_text.replace("individual_queries: no", "individual_queries: yes")
    schema.write_text(schema_text)
    config = replace(config, datasets=(DatasetConfig(schema, 0.05, jobs),))
    app, over = make_app(config), threading.Event()
    names = {"ann": "analyst", "bob": "analyst", "cus": "custodian"}
    tokens = {name: create_token(app.service.store, name, role, 1, ("registry",))[1] for name, role in names.items()}
    server = uvicorn.Server(uvicorn.Config(app, lifespan="on", ws="none", log_config=None, access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as bound, Custodian.open(schema) as custodian:
        threads = [
            threading.Thread(target=server.run, args=([bound],)),
            threading.Thread(target=run_job_loop, args=(config, over.is_set)),
        ]
        for thread in threads:
            thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield Live(f"http://127.0.0.1:{bound.getsockname()[1]}", tokens, custodian)
        finally:
            over.set()
            server.should_exit = True
            for thread in threads:
                thread.join()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with listening(tmp_path_factory.mktemp("live")) as live_service:
        yield live_service


# The same calls.

ASKED: list[dict[str, Any]] = [
    {"question": COUNT},
    {"question": COUNT, "prior": "normal(120, 20)"},
    {"question": "SELECT AVG(income) FROM registry WHERE sex = 'F'"},
    {"question": "SELECT AVG(income), COUNT(*) FROM registry", "rows": 400},
    {"question": "SELECT MEDIAN(age) FROM registry", "prior": "normal(55, 6)"},
    {"question": "SELECT MEDIAN(bmi) FROM registry", "interval": True},
    {"question": "SELECT MODE(sex) FROM registry", "prior": '{"F": 1, "M": 3}'},
    {"question": "SELECT MODE(education) FROM registry"},
    {"question": "SELECT MAX(admitted), MIN(admitted) FROM registry"},
    {"question": "SELECT MAX(admitted) FROM registry", "prior": "uniform(2020-01-01, 2024-01-01)"},
    {"question": "SELECT hospital, COUNT(*) FROM registry GROUP BY hospital"},
    {"question": "SELECT hospital, COUNT(*) FROM registry GROUP BY hospital", "constraints": ["total = 500"]},
    {"question": "SELECT sex, COUNT(*) AS n FROM registry GROUP BY sex HAVING n > 100000"},
    {"question": "SELECT BIN(age, 10), AVG(bmi) FROM registry GROUP BY BIN(age, 10) ORDER BY 2 LIMIT 3"},
    {"question": "SELECT BIN(admitted, 365), COUNT(*) FROM registry GROUP BY BIN(admitted, 365)"},
    {"question": "SELECT hospital, sex, COUNT(*) FROM registry GROUP BY ROLLUP (hospital, sex)"},
    {"question": "SELECT admitted, COUNT(*) FROM registry GROUP BY ROLLUP (admitted)"},
    {"question": HISTOGRAM},
    {"question": "SELECT HISTOGRAM(admitted, 16) FROM registry"},
    {"question": "SELECT COUNT(*) FROM registry"},
    {"question": "SELECT smoker FROM registry FOR UNIT 'p17'", "prior": '{"true": 1, "false": 3}'},
    {"question": "SELECT SUM(stay) FROM registry", "epsilon": None, "noise_scale": 400},
    {"question": "SELECT COUNT(*) FROM registry WHERE age < 40", "epsilon": None, "accuracy": "±50 at 95%"},
    {"question": "SELECT age, COUNT(*) FROM registry GROUP BY age", "delta": 1e-9, "model": "approx-dp"},
    {"question": "SELECT MEDIAN(age) FROM registry", "distance": "continuous", "prior": "uniform(17, 90)"},
    {"question": "SELECT AVG(smoker) FROM registry"},
]
CHANGES = {"cost", "stored", "spent_so_far"}
"""What differs when an answer is told once more."""


def one_way(document: dict[str, Any]) -> dict[str, Any]:
    return {"epsilon": Fraction(1, 20)} | document


@pytest.mark.parametrize("document", ASKED, ids=lambda document: str(document["question"])[:60])
def test_an_answer_is_what_a_custodian_would_give(live: Live, document: dict[str, Any]) -> None:
    """Every field and every type of it, dates and all; the posterior as far as it is told."""
    options = one_way(document)
    theirs, ours = live.custodian.answer(analyst="ann", **options), live.client().answer(**options)
    assert isinstance(ours, Answer)
    assert replace(ours, cost=theirs.cost, stored=theirs.stored, spent=theirs.spent) == theirs
    assert [list(map(type, row.values())) for row in ours.rows] == [
        list(map(type, row.values())) for row in theirs.rows
    ]
    assert ours.intervals(0.95) == theirs.intervals(0.95)
    assert ours.to_json() == theirs.to_json() | {name: ours.to_json()[name] for name in CHANGES}
    assert ours.picture_spec() == json.loads(json.dumps(theirs.picture_spec()))


@pytest.mark.parametrize("document", ASKED[:10:3], ids=lambda document: str(document["question"])[:60])
def test_a_preview_is_what_a_custodian_would_tell(live: Live, document: dict[str, Any]) -> None:
    options = one_way(document)
    assert live.client().preview(**options) == live.custodian.preview(analyst="ann", **options)


def test_budget_history_and_chain_are_what_a_custodian_has(live: Live) -> None:
    ours = live.client()
    ours.answer(COUNT, epsilon=0.01, fresh=True)
    assert ours.budget() == live.custodian.budget("ann")
    assert ours.history() == live.custodian.history("ann")
    assert ours.history(1) == live.custodian.history("ann", 1)
    custodian = live.client("cus")
    assert custodian.budget() == live.custodian.budget()
    assert custodian.history() == live.custodian.history()
    assert custodian.verify() == live.custodian.verify()
    assert ours.schema["name"] == "registry"
    assert ours.schema["columns"].keys() == live.custodian.schema.columns.keys()  # type: ignore[attr-defined]


def test_ranges_and_population_cost_nothing(live: Live) -> None:
    ours = live.client()
    histogram, share = (
        ours.answer(HISTOGRAM, epsilon=0.05),
        ours.answer("SELECT AVG(smoker) FROM registry", epsilon=0.05),
    )
    before = live.spent()
    theirs = live.custodian.answer(HISTOGRAM, epsilon=0.05, analyst="ann")
    assert histogram.range(20_000, 30_000) == theirs.range(20_000, 30_000)
    theirs = live.custodian.answer("SELECT AVG(smoker) FROM registry", epsilon=0.05, analyst="ann")
    assert share.population() == theirs.population()
    assert share.population(size=10_000) == theirs.population(size=10_000)
    assert live.spent() == before
    with pytest.raises(InvalidInput, match="ranges are asked of the answer to SELECT HISTOGRAM"):
        share.range(1, 2)


def test_a_picture_is_drawn(live: Live, tmp_path: Path) -> None:
    answer = live.client().answer(HISTOGRAM, epsilon=0.05)
    assert "<svg" in answer.plot(tmp_path / "a.svg").read_text()


def test_a_session_counts(live: Live) -> None:
    before = live.spent()
    with live.client().session(noise_scale=20, epsilon=0.5) as session:
        first = session.answer("SELECT COUNT(*) FROM registry WHERE age < 40")
        assert session.left == Fraction(9, 20)
        assert session.answer("SELECT COUNT(*) FROM registry WHERE age < 40").value == first.value
        assert session.answer("SELECT COUNT(*) FROM registry WHERE age < 40", noise_scale=50).value is not None
        assert first.guarantee.epsilon == session.epsilon == Fraction(1, 2)
        with pytest.raises(InvalidInput, match="a session answers counting questions"):
            session.answer("SELECT MEDIAN(age) FROM registry")
    assert live.spent() - before == Fraction(1, 2)


def test_a_rehearsal_costs_nothing(live: Live) -> None:
    before = live.spent(), live.spent("")
    answer = live.client(rehearsal=True).answer(COUNT, epsilon=50)
    assert isinstance(answer.value, int)
    with live.client(rehearsal=True).session(20, 0.5) as session:
        session.answer(COUNT)
    assert (live.spent(), live.spent("")) == before


def test_a_release_is_rehearsed_for_nothing(live: Live, tmp_path: Path) -> None:
    before = live.custodian.history(), live.custodian.budget()
    rehearsed = live.client("cus", rehearsal=True)
    release = rehearsed.publish("mdav", tmp_path / "mine.csv", k=5, report=tmp_path / "report.html")
    assert [path.is_file() for path in (*release.files, release.manifest_file, tmp_path / "report.html")] == [True] * 3
    assert any("a rehearsal" in one for one in release.warnings)
    assert rehearsed.sweep("k=3..4", "mdav").to_json()
    assert [one.method for one in rehearsed.estimate_error("private-columns", epsilon=1)] == ["private-columns"]
    assert (live.custodian.history(), live.custodian.budget()) == before


# Refusals.


def test_refusals_are_the_library_s(live: Live) -> None:
    ours = live.client()
    for call, kind, words in (
        (lambda: ours.answer("SELECT nonsense", epsilon=1), InvalidInput, "SELECT"),
        (lambda: ours.answer(COUNT, epsilon=5000), BudgetExceeded, "left"),
        (lambda: ours.answer(COUNT, epsilon=1, model="individual-dp"), InvalidInput, "individual-dp"),
        (lambda: ours.estimate_error(epsilon=1), InvalidInput, "this is for the custodian"),
        (lambda: Client(live.address, "dsc_none", "registry").budget(), InvalidInput, "the token is not valid: ask"),
        (
            lambda: Client(live.address, live.tokens["ann"], "other").budget(),
            InvalidInput,
            "no data set 'other' that this token may ask",
        ),
    ):
        with pytest.raises(kind, match=words):
            call()


@pytest.mark.parametrize(
    "question",
    [
        "SELECT AVG(agee) FROM registry",
        "SELECT AVG(age)\n\tFROM registy",
        "SELECT COUNT(*) FROM registry WHERE sex = 'ß漢'",
        f"SELECT COUNT(*) FROM registry WHERE {'age > 20 AND ' * 50} agee > 3",
    ],
)
def test_a_mistake_in_sql_is_the_same_error_here_and_there(live: Live, question: str) -> None:
    """Its sentence, its code and its place."""
    errors = []
    for ask in (live.client().answer, live.custodian.answer):
        with pytest.raises(InvalidInput) as raised:
            ask(question, epsilon=1)
        errors.append((str(raised.value), raised.value.code, raised.value.position, raised.value.__notes__))
    assert errors[0] == errors[1]
    assert errors[0][2] is not None


def test_a_key_of_another_request_is_refused(live: Live) -> None:
    ours = live.client()
    ours.answer(COUNT, epsilon=0.01, fresh=True, key="this one")
    with pytest.raises(InvalidInput, match="was used for another request"):
        ours.answer(COUNT, epsilon=0.02, fresh=True, key="this one")


# Replies that are lost on the way.


def passed_on(live: Live, script: ScriptedService, lost: bool) -> Step:
    """The service is asked, and its reply told or lost."""

    def step(handler: BaseHTTPRequestHandler) -> None:
        request = script.seen[-1]
        connection = http.client.HTTPConnection(live.address.removeprefix("http://"))
        try:
            connection.request(
                request.method, request.path, request.body or None, {**request.headers, "host": "127.0.0.1"}
            )
            live_reply = connection.getresponse()
            body = live_reply.read()
        finally:
            connection.close()
        if not lost:
            build_raw_reply(body, live_reply.status)(handler)

    return step


def test_lost_replies_are_paid_for_once(live: Live) -> None:
    """Each time the service has charged and answered, and the client has not heard of it."""
    with run_scripted_service() as between:
        ours = Client(between.address, live.tokens["ann"], "registry", pause=0.001)
        tell, lose = passed_on(live, between, False), passed_on(live, between, True)
        before = live.spent()
        between.then(lose, lose, lose, tell)
        answer = ours.answer(COUNT, epsilon=0.01, fresh=True)
        assert live.spent() - before == Fraction(1, 100)
        assert answer.cost.epsilon == Fraction(1, 100)
        between.steps[:] = [lose, tell]
        with ours.session(noise_scale=20, epsilon=0.25) as session:
            between.steps[:] = [lose, lose, tell]
            assert session.answer(COUNT).guarantee.epsilon == Fraction(1, 4)
        assert live.spent() - before == Fraction(26, 100)


def test_a_call_that_was_given_up_goes_on_with_its_key(live: Live) -> None:
    with run_scripted_service() as between:
        ours = Client(between.address, live.tokens["ann"], "registry", pause=0.001, retries=1)
        between.then(passed_on(live, between, True))
        before = live.spent()
        with pytest.raises(Unavailable, match="key='monday' is not charged twice"):
            ours.answer(COUNT, epsilon=0.01, fresh=True, key="monday")
        assert live.spent() - before == Fraction(1, 100)
    answer = live.client().answer(COUNT, epsilon=0.01, fresh=True, key="monday")
    assert answer.value == live.custodian.answer(COUNT, epsilon=0.01, fresh=True, key="monday", analyst="ann").value
    assert live.spent() - before == Fraction(1, 100)


# The custodian's calls.


def test_a_private_file_is_made_there_and_brought_here(live: Live, tmp_path: Path) -> None:
    before = live.spent("")
    stages: list[str] = []
    out, report = tmp_path / "mine.csv", tmp_path / "report.html"
    with run_scripted_service() as between:
        ours = Client(between.address, live.tokens["cus"], "registry", pause=0.001)
        between.then(passed_on(live, between, True), passed_on(live, between, False))
        release = ours.publish(
            "private-columns", out, epsilon=0.5, report=report, columns=["age"], progress=stages.append
        )
    assert isinstance(release, Release)
    assert (release.files, release.report, release.rows) == ((out,), report, 500)
    assert len(out.read_text().splitlines()) == 501
    assert "<html" in report.read_text()
    assert live.spent("") - before == Fraction(1, 2)
    assert live.custodian.history(limit=1)[0].entry == release.entry
    assert stages[-1] == "bringing the files"
    with pytest.raises(InvalidInput, match="is there already"):
        ours.publish("private-columns", out, epsilon=0.5)


def test_a_release_in_two_tables_can_be_verified_here(live: Live, tmp_path: Path) -> None:
    release = live.client("cus").publish("anatomy", tmp_path / "mine.parquet", k=5)
    assert [path.is_file() for path in release.files] == [True, True]
    assert verify_release(release.files[0]).claims
    assert release.guarantee.k == 5


def test_columns_apart_are_brought_in_a_folder(live: Live, tmp_path: Path) -> None:
    release = live.client("cus").publish(
        "private-columns", tmp_path / "mine", epsilon=0.5, columns=["age", "sex"], apart=True
    )
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == [
        "age.parquet",
        "manifest.json",
        "sex.parquet",
    ]
    assert [path.is_file() for path in release.files] == [True, True]


def test_expected_errors_are_what_a_custodian_would_tell(live: Live) -> None:
    ours = live.client("cus").estimate_error(epsilon=1, columns=["age", "bmi"])
    theirs = live.custodian.estimate_error(epsilon=1, columns=["age", "bmi"])
    assert len(ours) == len(theirs) > 1
    for one, other in zip(ours, theirs, strict=True):
        assert (one.method, one.guarantee, one.errors, one.column_methods) == (
            other.method,
            other.guarantee,
            other.errors,
            other.column_methods,
        )
        assert (one.warnings, one.error) == (other.warnings, other.error)


def test_a_sweep_is_brought_with_its_report(live: Live, tmp_path: Path) -> None:
    sweep = live.client("cus").sweep([5, 20], "ir-swap", tmp_path / "sweep.html")
    assert [(point.method, point.k) for point in sweep.points] == [("ir-swap", 5), ("ir-swap", 20)]
    assert sweep.words.startswith(("Take ir-swap", "No point"))
    assert "<html" in (tmp_path / "sweep.html").read_text()
    with pytest.raises(InvalidInput, match="is there already"):
        live.client("cus").sweep([5], "ir-swap", tmp_path / "sweep.html")


def test_questions_that_run_as_jobs_are_waited_for(tmp_path: Path) -> None:
    with listening(tmp_path, jobs=True) as live:
        ours = live.client()
        answer = ours.answer(HISTOGRAM, epsilon=0.05)
        theirs = live.custodian.answer(HISTOGRAM, epsilon=0.05, analyst="ann")
        assert answer.rows == theirs.rows
        assert answer.range(20_000, 30_000) == theirs.range(20_000, 30_000)
        with pytest.raises(BudgetExceeded):
            ours.answer(COUNT, epsilon=5000)
