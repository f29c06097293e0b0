"""The service as its users meet it: the command line's JSON, refusals from a fixed catalogue, answers by id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from discreet.errors import InvalidInput
from discreet.service.api import models
from discreet.service.console import forms
from discreet.service.jobs import run_next_job
from discreet.service.problems import PROBLEM_TYPES
from support.inprocess_service import COUNT, HOME, InProcessService, build_config, run_service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[InProcessService]:
    with run_service(build_config(tmp_path)) as fresh_service:
        yield fresh_service


def spent(service: InProcessService, who: str = "ann") -> str:
    return service.get(who, f"{HOME}/budget").json()["budget"][0]["spent"]["epsilon"]


def test_a_question_is_answered_kept_and_told_again(service: InProcessService) -> None:
    reply = service.post("ann", f"{HOME}/answers", COUNT)
    assert reply.status_code == 201
    document = reply.json()
    assert document["guarantee"]["model"] == "dp"
    assert (document["analyst"], document["dataset"], document["rehearsal"], document["stored"]) == (
        "ann",
        "registry",
        False,
        False,
    )
    assert service.get("ann", f"{HOME}/answers/{document['id']}").json() == document
    assert spent(service) == "1/10"


def test_the_same_question_is_answered_from_what_is_stored(service: InProcessService) -> None:
    first = service.post("ann", f"{HOME}/answers", COUNT).json()
    again = service.post("ann", f"{HOME}/answers", COUNT).json()
    assert again["stored"] is True
    assert again["rows"] == first["rows"]
    assert spent(service) == "1/10"


def test_a_retry_with_the_same_key_pays_once(service: InProcessService) -> None:
    body = COUNT | {"fresh": True}
    one, two = (service.post("ann", f"{HOME}/answers", body, Idempotency_Key="k1") for _ in range(2))
    assert one.text == two.text
    assert one.headers["idempotency-key"] == "k1"
    assert spent(service) == "1/10"


def test_a_key_that_was_used_for_another_request_is_refused(service: InProcessService) -> None:
    service.post("ann", f"{HOME}/answers", COUNT, Idempotency_Key="k1")
    other = service.post("ann", f"{HOME}/answers", COUNT | {"epsilon": "0.2"}, Idempotency_Key="k1")
    assert (other.status_code, other.json()["type"]) == (409, "/problems/conflict")
    assert spent(service) == "1/10"


def test_the_key_of_one_analyst_is_not_anothers(service: InProcessService) -> None:
    service.call("cus", "PUT", "/v1/grants/registry/bob")
    ann = service.post("ann", f"{HOME}/answers", COUNT | {"fresh": True}, Idempotency_Key="k").json()
    bob = service.post("bob", f"{HOME}/answers", COUNT | {"fresh": True}, Idempotency_Key="k").json()
    assert ann["id"] != bob["id"]
    assert service.get("bob", f"{HOME}/answers/{ann['id']}").status_code == 404
    assert service.get("cus", f"{HOME}/answers/{ann['id']}").status_code == 200


def test_a_refused_question_costs_nothing(service: InProcessService) -> None:
    for body in (
        COUNT | {"epsilon": "50"},
        COUNT | {"epsilon": "-1"},
        COUNT | {"epsilon": "NaN"},
        COUNT | {"question": "SELECT nonsense"},
        COUNT | {"ranges": ["1..2"]},
        COUNT | {"prior": "@none"},
        {"question": COUNT["question"]},
        COUNT | {"unknown": 1},
    ):
        refused = service.post("ann", f"{HOME}/answers", body)
        assert refused.status_code in {400, 403, 422}, body
        assert refused.headers["content-type"] == "application/problem+json"
    assert spent(service) == "0"


@pytest.mark.parametrize("path", ["answers", "previews"])
def test_a_mistake_in_sql_has_its_code_and_position(service: InProcessService, path: str) -> None:
    """As the package raises it, also where the question is hostile; other problems have a code too."""
    mistakes = (
        ("SELECT AVG(agee) FROM registry", "unknown-column", "agee", "did you mean 'age'"),
        ("SELECT COUNT(*)\nFROM registry WHERE sex = 'f'", "unknown-category", "'f'", "use one of"),
        ("SELECT COUNT(* FROM registry", "syntax", "(", "not closed"),
        (f"SELECT '\x1b[31m<b>\t{'x' * 15_000}' FROM registry", "unsupported-sql", None, "allowed here"),
        (f"SELECT COUNT(*) FROM registry WHERE agee > 3 {' ' * 20_000}", "invalid-input", None, ""),
    )
    for question, code, marked, words in mistakes:
        reply = service.post("ann", f"{HOME}/{path}", COUNT | {"question": question})
        problem = reply.json()
        assert (reply.status_code, problem["code"]) == (400, code), problem
        assert words in problem["detail"]
        assert len(reply.content) < 5000
        position = problem["position"]
        if marked is not None:
            place = position["text"][position["text_column"] - 1 :][: position["length"]]
            assert place == marked
            assert question.split("\n")[position["line"] - 1][position["column"] - 1 :].startswith(marked)
        assert position is None or position["marked"].replace("\n", "").isprintable()
    assert service.post("ann", f"{HOME}/{path}", COUNT | {"epsilon": "-1"}).json()["code"] == "invalid-input"
    unknown = service.post("ann", f"{HOME}/{path}", COUNT | {"intervall": True}).json()
    assert (unknown["code"], unknown["position"]) == ("unknown-name", None)
    assert unknown["detail"].endswith("did you mean 'interval'?")


def test_only_own_priors_are_suggested(service: InProcessService) -> None:
    """Another analyst's are not told of."""
    for who, name in (("ann", "ages_of_men"), ("bob", "ages_of_mice")):
        assert service.call(who, "PUT", f"/v1/priors/{name}", {"text": "normal(40, 9)"}).is_success
    refused = service.post("ann", f"{HOME}/previews", COUNT | {"prior": "@ages_of_mne"}).json()
    assert "did you mean 'ages_of_men'" in refused["detail"]
    hidden, absent = (
        service.post("ann", f"{HOME}/previews", COUNT | {"prior": f"@{name}"}).json()["detail"]
        for name in ("ages_of_mice", "ages_of_moth")
    )
    assert hidden.replace("ages_of_mice", "ages_of_moth") == absent


def test_running_out_is_told_as_on_the_command_line(service: InProcessService) -> None:
    for epsilon in ("0.6", "0.4"):
        assert service.post("ann", f"{HOME}/answers", COUNT | {"epsilon": epsilon, "fresh": True}).status_code == 201
    refused = service.post("ann", f"{HOME}/answers", COUNT | {"fresh": True})
    document = refused.json()
    assert (refused.status_code, document["kind"], document["exit"]) == (403, "BudgetExceeded", 3)
    assert document["type"] in {one.uri for one in PROBLEM_TYPES}


def test_a_preview_costs_nothing_and_says_how_many_more(service: InProcessService) -> None:
    document = service.post("ann", f"{HOME}/previews", COUNT).json()
    assert (document["times"], document["rehearsal"]) == (10, False)
    assert spent(service) == "0"


def test_a_rehearsal_costs_nothing(service: InProcessService) -> None:
    home = HOME.replace("/v1/", "/v1/rehearsal/")
    document = service.post("ann", f"{home}/answers", COUNT | {"epsilon": "0.5", "fresh": True}).json()
    assert document["rehearsal"] is True
    assert service.get("ann", f"{home}/answers/{document['id']}").json() == document
    assert service.get("ann", f"{HOME}/answers/{document['id']}").status_code == 404
    assert spent(service) == "0"
    assert service.get("ann", f"{HOME}/history").json() == {"history": [], "next": None}


def test_a_session_is_paid_once_and_answers_until_it_is_used_up(service: InProcessService) -> None:
    body = {"noise_scale": "20", "epsilon": "0.2"}
    opened, again = (service.post("ann", f"{HOME}/sessions", body, Idempotency_Key="s").json() for _ in range(2))
    assert again == opened
    path = f"{HOME}/sessions/{opened['id']}/answers"
    first = service.post("ann", path, {"question": COUNT["question"]}).json()
    same = service.post("ann", path, {"question": COUNT["question"]}).json()
    assert (same["rows"], same["stored"]) == (first["rows"], True)
    refused = service.post("ann", path, {"question": "SELECT COUNT(*) FROM registry WHERE age > 40", "noise_scale": 5})
    assert refused.json()["kind"] == "BudgetExceeded"
    assert spent(service) == "1/5"
    assert service.call("ann", "DELETE", f"{HOME}/sessions/{opened['id']}").status_code == 204
    assert service.post("ann", path, {"question": COUNT["question"] + " AND age > 30"}).status_code == 400
    assert service.get("cus", f"{HOME}/sessions/{opened['id']}").status_code == 404


def test_a_session_goes_on_in_another_worker(service: InProcessService) -> None:
    """What one worker admitted counts in the next one, which gives the same answers."""
    opened = service.post("ann", f"{HOME}/sessions", {"noise_scale": "20", "epsilon": "0.05"}).json()
    path, body = f"{HOME}/sessions/{opened['id']}/answers", {"question": COUNT["question"]}
    first = service.post("ann", path, body).json()
    with run_service(service.config, life=service.app.service.run_id) as other:
        other.tokens.update(service.tokens)
        assert other.post("ann", path, body).json()["rows"] == first["rows"]
        left = other.get("ann", f"{HOME}/sessions/{opened['id']}").json()["left"]
        refused = other.post("ann", path, {"question": "SELECT COUNT(*) FROM registry WHERE smoker AND age > 40"})
    assert left == first["left"] == "0"
    assert refused.json()["kind"] == "BudgetExceeded"


def test_a_saved_prior_is_used_by_its_name(service: InProcessService) -> None:
    service.call("ann", "PUT", "/v1/priors/mine", {"text": "normal(120, 20)", "note": "last year"})
    named = service.post("ann", f"{HOME}/answers", COUNT | {"prior": "@mine"}).json()
    written = service.post("ann", f"{HOME}/answers", COUNT | {"prior": "normal(120, 20)"}).json()
    assert named["posteriors"] == written["posteriors"]
    assert service.get("bob", "/v1/priors/mine").status_code == 404


def test_a_tail_is_mixed_into_the_prior_or_not(service: InProcessService) -> None:
    """As on the command line, and the reply says which; a console's form says the same."""
    asked = {"question": "SELECT MEDIAN(age) FROM registry", "epsilon": "0.1", "prior": "uniform(40, 60)"}
    document = service.post("ann", f"{HOME}/answers", asked).json()
    assert document["prior_tail"] is False
    assert 40 <= document["value"] <= 60
    assert document["prior_use"].startswith("The prior is used as stated: values outside 40 to 60 are impossible")
    mixed = service.post("ann", f"{HOME}/answers", asked | {"tail": True}).json()
    assert (mixed["prior_tail"], mixed["stored"]) == (True, False)
    assert service.post("ann", f"{HOME}/answers", asked | {"tail": False}).json()["stored"]
    assert service.post("ann", f"{HOME}/previews", asked).json()["prior_use"] == document["prior_use"]
    assert service.post("ann", f"{HOME}/previews", asked | {"tail": "yes"}).status_code == 400
    form = {"question": ["q"], "size": ["1"], "prior": ["uniform(40, 60)"]}
    reply = [
        forms.read_question(forms.ConsoleForm(form | {"tail": [tail]}), models.PreviewAsk).tail
        for tail in ("", "true", "false")
    ]
    assert reply == [None, True, False]
    with pytest.raises(InvalidInput, match="tail is true, false or left out"):
        forms.read_question(forms.ConsoleForm(form | {"tail": ["maybe"]}), models.PreviewAsk)


def test_limits_are_kept(tmp_path: Path) -> None:
    config = build_config(tmp_path)
    with run_service(replace(config, limits=replace(config.limits, bins=5, prior=3, body=2000))) as service:
        groups = COUNT | {"question": "SELECT diagnosis, COUNT(*) FROM registry GROUP BY diagnosis"}
        assert service.post("ann", f"{HOME}/answers", groups).status_code == 400
        prior = COUNT | {"prior": json.dumps({str(one): 1 for one in range(4)})}
        assert service.post("ann", f"{HOME}/answers", prior).status_code == 400
        assert service.post("ann", f"{HOME}/answers", COUNT | {"question": "x" * 3000}).status_code == 413
        assert spent(service) == "0"


def test_more_requests_than_allowed_are_told_to_wait(tmp_path: Path) -> None:
    config = build_config(tmp_path)
    with run_service(replace(config, limits=replace(config.limits, rate=0.001, burst=3))) as service:
        replies = [service.get("ann", "/v1/me") for _ in range(4)]
        assert [one.status_code for one in replies] == [200, 200, 200, 429]
        assert int(replies[-1].headers["retry-after"]) > 100
        assert service.get("cus", "/v1/me").status_code == 200


def test_a_release_is_made_as_a_job(service: InProcessService) -> None:
    queued = service.post("cus", f"{HOME}/releases", {"method": "mdav", "k": 5})
    job = queued.json()
    assert (queued.status_code, job["state"]) == (202, "waiting")
    assert run_next_job(service.app.service, "runner")
    done = service.get("cus", f"/v1/jobs/{job['id']}").json()
    assert (done["state"], done["release"]["method"]) == ("done", "mdav")
    assert "registry-1-report.html" in done["files"]
    file = service.get("cus", f"/v1/jobs/{job['id']}/files/registry-1.csv")
    assert file.status_code == 200
    for who in ("ann", "bob"):
        assert service.get(who, f"/v1/jobs/{job['id']}").status_code == 404
        assert service.get(who, f"/v1/jobs/{job['id']}/files/registry-1.csv").status_code == 403


def test_a_release_that_the_schema_refuses_is_refused_at_once(service: InProcessService) -> None:
    refused = service.post("cus", f"{HOME}/releases", {"method": "mdav", "k": 1})
    assert refused.status_code == 400
    assert not run_next_job(service.app.service, "runner")


def test_questions_run_as_jobs_where_the_custodian_says_so(tmp_path: Path) -> None:
    config = build_config(tmp_path)
    dataset = replace(config.datasets[0], jobs=True)
    with run_service(replace(config, datasets=(dataset,))) as service:
        queued = service.post("ann", f"{HOME}/answers", COUNT, Idempotency_Key="k")
        assert queued.status_code == 202
        assert service.post("ann", f"{HOME}/answers", COUNT, Idempotency_Key="k").json()["id"] == queued.json()["id"]
        dear = service.post("ann", f"{HOME}/answers", COUNT | {"epsilon": "50"}).json()
        assert run_next_job(service.app.service, "runner")
        assert run_next_job(service.app.service, "runner")
        failed = service.get("ann", f"/v1/jobs/{dear['id']}").json()
        assert (failed["state"], failed["problem"]["kind"]) == ("failed", "BudgetExceeded")
        done = service.get("ann", f"/v1/jobs/{queued.json()['id']}").json()
        assert done["state"] == "done"
        assert service.get("ann", f"{HOME}/answers/{done['answer']}").json()["entry"] is not None
        assert service.get("bob", f"/v1/jobs/{queued.json()['id']}").status_code == 404


def test_a_revoked_or_ungranted_analyst_is_out_at_once(service: InProcessService) -> None:
    service.call("cus", "DELETE", "/v1/grants/registry/ann")
    assert service.post("ann", f"{HOME}/answers", COUNT).status_code == 404
    token = next(one for one in service.get("cus", "/v1/tokens").json()["tokens"] if one["analyst"] == "ann")
    assert service.call("cus", "DELETE", f"/v1/tokens/{token['id']}").status_code == 204
    assert service.get("ann", "/v1/me").status_code == 401


def test_csv_has_the_rows_with_their_intervals(service: InProcessService) -> None:
    document = service.post("ann", f"{HOME}/answers", COUNT).json()
    lines = service.get("ann", f"{HOME}/answers/{document['id']}/csv").text.splitlines()
    assert lines[0] == "COUNT(*),COUNT(*) 95% low,COUNT(*) 95% high"
    assert lines[1].startswith(f"{document['rows'][0]['COUNT(*)']},")


@pytest.mark.parametrize("body", [b"[" * 60_000, b'{"question": 1}', b"{", b'"\xff"', b"9" * 6000, b'{"a": NaN}'])
def test_what_is_no_request_is_one_plain_sentence(service: InProcessService, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {service.tokens['ann']}", "Content-Type": "application/json"}
    refused = service.client.post(f"{HOME}/answers", content=body, headers=headers)
    document = refused.json()
    assert (refused.status_code, document["kind"]) == (400, "InvalidInput")
    assert "\n" not in document["detail"]
