"""What others can see of an answer is not there before its moment, so that it does not tell how long rows were read."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import discreet.custodian.custodian as custodian_module
from discreet import Unavailable
from discreet.ledger import Ledger
from discreet.planner.plan import NoisyResult
from discreet.service import jobs, requests
from discreet.service.jobs import run_next_job
from discreet.service.middleware import deadline
from discreet.service.middleware.deadline import BARRIER_FRACTION, ReleaseBarrier
from discreet.service.store import job_queue as stored_jobs
from support.inprocess_service import COUNT, HOME, build_config, run_service


def note_calls(monkeypatch: pytest.MonkeyPatch, events: list[str], where: Any, name: str, message: str) -> None:
    """Let a function say that it was called."""
    original = getattr(where, name)

    def called(*args: Any, **options: Any) -> Any:
        events.append(message)
        return original(*args, **options)

    monkeypatch.setattr(where, name, called)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    note_calls(monkeypatch, calls, Ledger, "charge", "charged")
    note_calls(monkeypatch, calls, custodian_module, "sample_noisy_outputs", "drawn")
    note_calls(monkeypatch, calls, ReleaseBarrier, "wait", "waited")
    note_calls(monkeypatch, calls, Ledger, "store", "stored")
    note_calls(monkeypatch, calls, requests, "keep_answer", "kept")
    return calls


def test_an_answer_is_charged_drawn_waited_for_and_only_then_written_down(tmp_path: Path, events: list[str]) -> None:
    with run_service(build_config(tmp_path, padding=True)) as service:
        for expected in (["charged", "drawn", "waited", "stored", "kept"], ["charged", "waited", "kept"]):
            events.clear()
            assert service.post("ann", f"{HOME}/answers", COUNT).status_code == 201
            assert events == expected


def test_a_session_writes_its_answers_down_at_their_moment_too(tmp_path: Path, events: list[str]) -> None:
    with run_service(build_config(tmp_path, padding=True)) as service:
        opened = service.post("ann", f"{HOME}/sessions", {"noise_scale": "20", "epsilon": "0.5"}).json()
        events.clear()
        asked = service.post("ann", f"{HOME}/sessions/{opened['id']}/answers", {"question": COUNT["question"]})
    assert asked.status_code == 201
    assert events[-2:] == ["waited", "kept"] or events[-1] == "waited"
    assert "waited" in events


def test_the_time_in_an_answer_is_that_of_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the draw: who reads a document learns nothing of how long it took."""
    draw_times: list[float] = []
    original = custodian_module.sample_noisy_outputs

    def slow(*arguments: Any) -> NoisyResult:
        outputs = original(*arguments)
        draw_times.append(time.time())
        return outputs

    monkeypatch.setattr(custodian_module, "sample_noisy_outputs", slow)
    with run_service(build_config(tmp_path)) as service:
        before = time.time()
        document = service.post("ann", f"{HOME}/answers", COUNT).json()
    assert before <= document["at"] <= draw_times[0]


def test_a_moment_is_three_quarters_of_the_deadline_or_of_a_doubling(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(deadline.time, "sleep", slept.append)
    for elapsed in (0.0, 0.2, 0.75, 0.76, 1.6):
        ReleaseBarrier(lambda now=100 + elapsed: now, 100.0, 1.0).wait()  # type: ignore[misc]
    assert slept == pytest.approx(
        [BARRIER_FRACTION, BARRIER_FRACTION - 0.2, 0.0, 2 * BARRIER_FRACTION - 0.76, 4 * BARRIER_FRACTION - 1.6]
    )


def test_a_job_ends_and_the_next_one_begins_at_a_doubling(
    tmp_path: Path, events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the charge of the next one would tell when this one was done."""
    note_calls(monkeypatch, events, jobs, "_sleep_until", "slept")
    note_calls(monkeypatch, events, jobs, "finish_job", "finished")
    note_calls(monkeypatch, events, stored_jobs, "take_job", "taken")
    config = build_config(tmp_path, padding=True)
    with run_service(replace(config, datasets=(replace(config.datasets[0], jobs=True),))) as service:
        assert service.post("ann", f"{HOME}/answers", COUNT).status_code == 202
        events.clear()
        assert run_next_job(service.app.service, "runner")
    assert events == ["charged", "drawn", "waited", "stored", "kept", "slept", "finished"]


def test_a_job_of_who_may_not_ask_any_more_is_not_run(tmp_path: Path) -> None:
    config = build_config(tmp_path)
    with run_service(replace(config, datasets=(replace(config.datasets[0], jobs=True),))) as service:
        job = service.post("ann", f"{HOME}/answers", COUNT).json()
        service.call("cus", "DELETE", "/v1/grants/registry/ann")
        assert run_next_job(service.app.service, "runner")
        failed_job = service.get("cus", f"/v1/jobs/{job['id']}").json()
        assert failed_job["state"] == "failed"
        assert service.get("cus", f"{HOME}/history").json()["history"][0]["kind"] == "register"


def test_a_prior_is_fixed_when_the_question_comes(tmp_path: Path) -> None:
    with run_service(build_config(tmp_path)) as service:
        service.call("ann", "PUT", "/v1/priors/p", {"text": "normal(120, 10)"})
        document = service.post("ann", f"{HOME}/answers", COUNT | {"prior": "@p"}).json()
        service.call("ann", "PUT", "/v1/priors/p", {"text": "normal(300, 10)"})
        spec = service.get("ann", f"{HOME}/answers/{document['id']}/picture").text
    assert document["request"]["prior"] == "normal(120, 10)"
    assert "You believed it to be about 120" in spec


def test_a_paid_question_by_accuracy_is_answered_under_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where what is left would not pay for it once more."""
    asked = {"question": COUNT["question"], "accuracy": "±4 at 95%"}
    original = custodian_module.scan_rows

    def failing(*_: Any) -> str:
        raise Unavailable("the source did not answer")

    with run_service(build_config(tmp_path)) as service:
        monkeypatch.setattr(custodian_module, "scan_rows", failing)
        assert service.post("ann", f"{HOME}/answers", asked, Idempotency_Key="k").status_code == 503
        monkeypatch.setattr(custodian_module, "scan_rows", original)
        assert service.post("ann", f"{HOME}/answers", asked | {"fresh": True}).status_code == 403
        assert service.post("ann", f"{HOME}/answers", asked, Idempotency_Key="k").status_code == 201


def test_what_must_be_stored_is_never_paid_for(tmp_path: Path, events: list[str]) -> None:
    with run_service(build_config(tmp_path)) as service:
        assert service.post("ann", f"{HOME}/answers", COUNT | {"stored_only": True}).status_code in {400, 403}
        assert "drawn" not in events
        first = service.post("ann", f"{HOME}/answers", COUNT).json()
        again = service.post("ann", f"{HOME}/answers", COUNT | {"stored_only": True}).json()
    assert (again["rows"], again["stored"]) == (first["rows"], True)
