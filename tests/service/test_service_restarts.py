"""What a service holds from one life to the next, and what it does not: sessions, and data sets that are changed."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from discreet.custodian import Custodian
from discreet.datasets.dataset_dir import DatasetDir, generate_identifier
from discreet.errors import InvalidInput, Unavailable
from discreet.schema import load_schema
from discreet.service import dataset_registry, requests
from discreet.service.config import Config
from discreet.service.store import Store
from discreet.service.store import stored_answers as kept
from discreet.service.store.stored_answers import StoredLog
from support.inprocess_service import COUNT, HOME, InProcessService, build_config, run_service

SESSIONS = f"{HOME}/sessions"
ONE = {"noise_scale": "20", "epsilon": "0.05"}
"""A session that one question uses up."""
OTHER = {"question": "SELECT COUNT(*) FROM registry WHERE smoker AND age > 40"}
CLOSED = "registry cannot be opened now; ask its custodian"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return build_config(tmp_path, 50)


@pytest.fixture
def service(config: Config) -> Iterator[InProcessService]:
    with run_service(config) as fresh_service:
        yield fresh_service


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be opened is tried again at once."""
    monkeypatch.setattr(dataset_registry, "RETRY_PAUSE", 0.0)


def rows(config: Config) -> int:
    """How many sessions the store has."""
    with closing(sqlite3.connect(config.store)) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM service_counting").fetchone()[0])


def charges(service: InProcessService) -> int:
    entries = service.get("cus", f"{HOME}/history").json()["history"]
    return sum(one["kind"] == "charge" for one in entries)


# --- sessions


def copy_store(config: Config, lost: str) -> str:
    """An older copy of the store, from before something was written into it."""
    copy = f"{config.store}.copy"
    with closing(sqlite3.connect(config.store)) as store, closing(sqlite3.connect(copy)) as backup:
        store.backup(backup)
        backup.execute(lost)
        backup.commit()
    return copy


def put_back(copy: str, config: Config) -> None:
    for suffix in ("-wal", "-shm"):
        Path(f"{config.store}{suffix}").unlink(missing_ok=True)
    Path(copy).replace(config.store)


@pytest.mark.parametrize("lost", ["DELETE FROM service_counted", "UPDATE service_counted SET released = NULL"])
def test_an_older_copy_of_the_store_does_not_revive_a_session(config: Config, lost: str) -> None:
    """What was answered is unknown to the copy, wholly or but for the numbers: neither is answered again."""
    with run_service(config) as service:
        path = f"{SESSIONS}/{service.post('ann', SESSIONS, ONE).json()['id']}"
        first = service.post("ann", f"{path}/answers", {"question": COUNT["question"]})
        assert (first.status_code, first.json()["left"]) == (201, "0")
        copy = copy_store(config, lost)
        before = charges(service)
    put_back(copy, config)
    with run_service(config) as again:
        again.tokens.update(service.tokens)
        asked = [again.post("ann", f"{path}/answers", one) for one in ({"question": COUNT["question"]}, OTHER)]
        for refused in (*asked, again.get("ann", path)):
            assert (refused.status_code, refused.json()["detail"]) == (400, requests.SESSION_ENDED)
        assert charges(again) == before


def test_a_session_is_not_opened_again_by_its_key_in_another_life(service: InProcessService) -> None:
    assert service.post("ann", SESSIONS, ONE, Idempotency_Key="s").status_code == 201
    with run_service(service.config) as other:
        assert other.post("ann", SESSIONS, ONE, Idempotency_Key="s").json()["detail"] == requests.SESSION_ENDED
        assert charges(other) == 1


def test_the_ledger_too_knows_the_life_that_answers_in_a_session(tmp_path: Path) -> None:
    """Whatever the store says."""
    config = build_config(tmp_path, 50)
    with Store.open(config.store) as store, Custodian.open(config.datasets[0].schema) as custodian:
        first, other = (
            custodian._open_shared_session(20, 0.05, "ann", "key", StoredLog(store, name, name))
            for name in ("first", "other")
        )
        assert first.answer(COUNT["question"]).rows
        with pytest.raises(InvalidInput, match="answers there"):
            other.answer(COUNT["question"])


def test_there_are_no_sessions_where_questions_run_as_jobs(config: Config) -> None:
    with run_service(replace(config, datasets=(replace(config.datasets[0], jobs=True),))) as service:
        refused = service.post("ann", SESSIONS, ONE)
        assert (refused.status_code, refused.json()["kind"]) == (422, "Unsupported")
        assert (charges(service), rows(config)) == (0, 0)


@pytest.mark.parametrize(
    ("noise_scale", "epsilon", "kind"),
    [("20", "1.5", "BudgetExceeded"), ("1", "0.001", "InvalidInput"), ("1e-9", "1", "InvalidInput")],
)
def test_a_session_that_is_refused_leaves_no_trace(
    service: InProcessService, config: Config, noise_scale: str, epsilon: str, kind: str
) -> None:
    refused = service.post("ann", SESSIONS, {"noise_scale": noise_scale, "epsilon": epsilon}, Idempotency_Key="s")
    assert refused.json()["kind"] == kind
    assert rows(config) == 0
    assert service.post("ann", SESSIONS, ONE, Idempotency_Key="s").status_code == 201


def test_sessions_are_bounded(service: InProcessService, monkeypatch: pytest.MonkeyPatch) -> None:
    """In how many are open, and in how many questions each answers; to repeat one is no new question."""
    monkeypatch.setattr(kept, "MAX_OPEN_SESSIONS", 2)
    monkeypatch.setattr(kept, "MAX_SESSION_QUESTIONS", 1)
    larger = {"noise_scale": "100", "epsilon": "0.1"}
    first, _ = (service.post("ann", SESSIONS, larger, Idempotency_Key=key).json()["id"] for key in "ab")
    assert "you have 2 sessions open" in service.post("ann", SESSIONS, larger).json()["detail"]
    assert service.post("ann", SESSIONS, larger, Idempotency_Key="a").json()["id"] == first
    path = f"{SESSIONS}/{first}/answers"
    replies = [service.post("ann", path, {"question": COUNT["question"]}) for _ in range(2)]
    assert [one.status_code for one in replies] == [201, 201]
    assert "at most 1 questions" in service.post("ann", path, OTHER).json()["detail"]
    assert service.call("ann", "DELETE", f"{SESSIONS}/{first}").status_code == 204
    assert service.post("ann", SESSIONS, larger).status_code == 201


def test_sessions_of_another_life_are_not_open(service: InProcessService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_OPEN_SESSIONS", 1)
    assert service.post("ann", SESSIONS, ONE).status_code == 201
    with run_service(service.config, life=generate_identifier()) as other:
        assert other.post("ann", SESSIONS, ONE).status_code == 201


# --- data sets that cannot be opened


def test_what_could_not_be_opened_is_not_tried_by_every_request(
    service: InProcessService, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    def gone(*args: Any, **_: Any) -> Custodian:
        tried.append(args)
        raise Unavailable("the snapshot is gone")

    monkeypatch.setattr(Custodian, "open", gone)
    monkeypatch.setattr(dataset_registry, "RETRY_PAUSE", 1e9)
    replies = [service.post("ann", f"{HOME}/answers", COUNT) for _ in range(3)]
    assert {(one.status_code, one.json()["detail"]) for one in replies} == {(503, "the snapshot is gone")}
    assert len(tried) == 1
    monkeypatch.undo()
    monkeypatch.setattr(dataset_registry, "RETRY_PAUSE", 0.0)
    assert service.post("ann", f"{HOME}/answers", COUNT).status_code == 201


def test_who_waits_for_a_data_set_to_be_opened_is_told_so(
    service: InProcessService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_registry, "OPEN_TIMEOUT", 0.01)
    dataset = service.app.service.registry.find_dataset("registry")
    assert dataset is not None
    with dataset.open_lock:
        refused = service.post("ann", f"{HOME}/answers", COUNT)
    assert (refused.status_code, refused.json()["detail"]) == (503, "the data set is being opened; try again")
    assert service.post("ann", f"{HOME}/answers", COUNT).status_code == 201


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("home", [HOME, HOME.replace("/v1/", "/v1/rehearsal/")])
def test_a_broken_schema_is_the_custodians_matter(
    service: InProcessService, config: Config, capfd: pytest.CaptureFixture[str], home: str
) -> None:
    """Analysts are told to ask, the log has the kind of mistake, and it goes on once it is mended."""
    file = config.datasets[0].schema
    assert service.post("ann", f"{home}/answers", COUNT).status_code == 201
    source = file.read_text()
    file.write_text(source.replace("budget:", "budgets:", 1))
    capfd.readouterr()
    refused = service.post("ann", f"{home}/answers", COUNT | {"fresh": True})
    assert (refused.status_code, refused.json()["detail"]) == (503, CLOSED)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    (line,) = (one for one in lines if one["event"] == "closed")
    assert (line["dataset"], line["where"]) == ("registry", "InvalidInput")
    assert {"unavailable"} <= {one["kind"] for one in service.get("cus", "/v1/warnings").json()["warnings"]}
    file.write_text(source)
    assert service.post("ann", f"{home}/answers", COUNT | {"fresh": True}).status_code == 201


def test_lowered_caps_and_what_is_public_hold_at_once(service: InProcessService, config: Config) -> None:
    file = config.datasets[0].schema
    assert service.post("ann", f"{HOME}/answers", COUNT).status_code == 201
    file.write_text(file.read_text().replace("analyst_budget: {epsilon: 1,", "analyst_budget: {epsilon: 0.15,"))
    refused = service.post("ann", f"{HOME}/answers", COUNT | {"fresh": True})
    assert (refused.status_code, refused.json()["kind"]) == (403, "BudgetExceeded")
    public = service.get("ann", HOME).json()["schema"]
    assert public["analyst_budget"]["epsilon"] == "3/20"


@pytest.mark.usefixtures("impatient")
def test_a_renamed_schema_is_refused_and_registers_nothing(service: InProcessService, config: Config) -> None:
    file = config.datasets[0].schema
    assert service.post("ann", f"{HOME}/answers", COUNT).status_code == 201
    file.write_text(file.read_text().replace("name: registry", "name: renamed", 1))
    refused = service.post("ann", f"{HOME}/answers", COUNT | {"fresh": True})
    assert (refused.status_code, refused.json()["detail"]) == (503, CLOSED)
    assert not (file.parent / "renamed.discreet").exists()


# --- sentences and headers


def test_what_is_said_of_a_data_sets_folder_has_no_path(config: Config, tmp_path: Path) -> None:
    place = DatasetDir(load_schema(config.datasets[0].schema))
    shutil.rmtree(place.folder)
    place.folder.write_text("in its place")
    with (
        pytest.raises(Unavailable, match=r"^the folder registry\.discreet cannot be written; ") as refusal,
        place.lock(),
    ):
        pass
    assert str(tmp_path) not in str(refusal.value)


@pytest.mark.parametrize(("message", "secure"), [("https", True), ("http", False)])
def test_behind_a_proxy_that_has_tls_a_cookie_is_for_tls_alone(
    service: InProcessService, message: str, secure: bool
) -> None:
    sent, headers = {"token": service.tokens["ann"]}, {"X-Forwarded-Proto": message}
    reply = service.client.post("/console/sign-in", data=sent, headers=headers, follow_redirects=False)
    assert ("Secure" in reply.headers["set-cookie"].split("; ")) is secure
    assert ("strict-transport-security" in reply.headers) is secure
