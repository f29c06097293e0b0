"""What a custodian can do wrong on the console, and what is said then: revoking, publishing, sending a form again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_console_pages import ACCESS, ASK, Browser, alert

from discreet.service.console.rendering import describe_charge
from discreet.service.jobs import run_next_job
from discreet.service.problems import EXPLANATIONS, PROBLEM_TYPES
from discreet.service.store.tokens import create_token
from support.inprocess_service import COUNT, HOME, InProcessService, build_config, run_service

KEEPING = "/console/custodian/datasets/registry"
PUBLISH = f"{KEEPING}/publish"
RECIPE = {"method": "private-columns", "epsilon": "1", "columns": ["age", "sex"]}
LAST = "this is the last custodian's token; make another first"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[InProcessService]:
    with run_service(build_config(tmp_path)) as fresh_service:
        yield fresh_service


@pytest.fixture(scope="module")
def unspent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessService]:
    """A service that several tests look at, and none changes."""
    with run_service(build_config(tmp_path_factory.mktemp("unspent"))) as unspent_service:
        yield unspent_service


def tokens(service: InProcessService, who: str) -> list[dict[str, Any]]:
    states: list[dict[str, Any]] = service.get("cus", "/v1/tokens").json()["tokens"]
    return [one for one in states if one["analyst"] == who]


def test_the_last_custodian_cannot_be_locked_out(service: InProcessService) -> None:
    """Neither by a page nor by the API; an expired or revoked token of another is no help, a valid one is."""
    store, [token_id] = service.app.service.store, [one["id"] for one in tokens(service, "cus")]
    create_token(store, "old", "custodian", 1e-9)
    assert service.call("cus", "DELETE", f"/v1/tokens/{token_id}").json()["detail"] == LAST
    refused = Browser(service, "cus").send(f"{ACCESS}/tokens/{token_id}/revoke", {"sure": "yes"}, ACCESS)
    assert (refused.status_code, alert(refused.text)) == (400, f"{LAST}.")
    other = create_token(store, "cara", "custodian")[0].id
    assert service.call("cus", "DELETE", f"/v1/tokens/{other}").status_code == 204
    assert service.call("cus", "DELETE", f"/v1/tokens/{token_id}").status_code == 400
    create_token(store, "cara", "custodian")
    assert service.call("cus", "DELETE", f"/v1/tokens/{token_id}").status_code == 204


def test_ones_own_token_is_revoked_after_a_second_look(service: InProcessService) -> None:
    create_token(service.app.service.store, "cara", "custodian")
    [own_id] = [one["id"] for one in tokens(service, "cus")]
    cus, place = Browser(service, "cus"), f"{ACCESS}/tokens/{own_id}/revoke"
    asked = cus.send(place, {}, ACCESS)
    assert (asked.status_code, "Revoke your own token?" in asked.text) == (200, True)
    assert tokens(service, "cus")[0]["valid"]
    gone = cus.send(place, {"sure": "yes"}, ACCESS)
    assert gone.headers["location"] == "/console/?why=ended"
    assert "your token was revoked or has expired" in alert(cus.get("/console/?why=ended").text)
    assert cus.get(ACCESS).headers["location"] == "/console/?why=ended"
    assert 'role="alert"' not in cus.get("/console/").text


def test_a_form_that_is_sent_twice_makes_one_token(service: InProcessService) -> None:
    cus = Browser(service, "cus")
    key = re.search(r'name="key" value="([^"]*)"', cus.get(ACCESS).text)
    assert key is not None
    form = {"form_token": cus.token, "key": key[1], "analyst": "eve", "role": "analyst", "days": "3"}
    first, second = (cus.client.post(f"{ACCESS}/tokens", data=form) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 400)
    assert "made already" in alert(second.text)
    assert re.search(r"dsc_[A-Za-z0-9_-]{43}", second.text) is None
    assert [one["id"] for one in tokens(service, "eve")] == [key[1]]
    assert f'<code class="whole">{key[1][:16]}<wbr>{key[1][16:]}</code>' in cus.get(ACCESS).text
    unkeyed = cus.client.post(f"{ACCESS}/tokens", data=form | {"key": "mine"})
    assert (unkeyed.status_code, len(tokens(service, "eve"))) == (400, 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"analyst": ""}, "say whom the token is for"),
        ({"days": "0"}, "from 1 to 366"),
        ({"days": "²"}, "from 1 to 366"),
    ],
)
def test_a_refused_token_form_is_told_plainly_and_kept(
    unspent: InProcessService, wrong: dict[str, str], message: str
) -> None:
    form = {"analyst": "eve", "role": "custodian", "days": "7", "datasets": "registry"} | wrong
    refused = Browser(unspent, "cus").send(f"{ACCESS}/tokens", form, ACCESS)
    assert (refused.status_code, message in alert(refused.text)) == (400, True)
    assert f'name="days" value="{form["days"]}"' in refused.text
    assert f'name="analyst" value="{form["analyst"]}"' in refused.text
    assert "<option selected>custodian</option>" in refused.text
    assert 'value="registry" checked' in refused.text


def test_nothing_is_published_without_a_tick(service: InProcessService) -> None:
    cus = Browser(service, "cus")
    refused = cus.send(f"{PUBLISH}/release", RECIPE, PUBLISH)
    assert (refused.status_code, "tick the box" in alert(refused.text)) == (400, True)
    assert service.get("cus", "/v1/jobs").json()["jobs"] == []
    assert cus.send(f"{PUBLISH}/release", RECIPE | {"sure": "yes"}, PUBLISH).status_code == 303


def test_what_the_budget_does_not_hold_is_refused_before_it_is_queued(service: InProcessService) -> None:
    """By a page, its preview, and the API; a release that is sent again under its key is still the same job."""
    cus, cap = Browser(service, "cus"), service.get("cus", f"{HOME}/budget").json()["budget"][0]["cap"]["epsilon"]
    for path in ("preview", "release"):
        refused = cus.send(f"{PUBLISH}/{path}", RECIPE | {"epsilon": "9999", "sure": "yes"}, PUBLISH)
        assert (refused.status_code, f"has {cap} left" in alert(refused.text)) == (403, True), alert(refused.text)
    body = {"method": "private-columns", "epsilon": cap, "columns": ["age", "sex"]}
    reply = service.post("cus", f"{HOME}/releases", body | {"epsilon": "9999"})
    assert (reply.status_code, reply.json()["type"]) == (403, "/problems/budget-exceeded")
    assert service.get("cus", "/v1/jobs").json()["jobs"] == []
    first = service.post("cus", f"{HOME}/releases", body, Idempotency_Key="one")
    assert run_next_job(service.app.service, "runner")
    again = service.post("cus", f"{HOME}/releases", body, Idempotency_Key="one")
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (202, first.json()["id"], "done")
    assert service.post("cus", f"{HOME}/releases", body, Idempotency_Key="two").status_code == 403


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "private-columns", "epsilon": ""}, "needs an epsilon"),
        ({"method": "private-linked", "epsilon": "1", "k": "5"}, "private-linked has no k"),
        ({"method": "private-columns", "epsilon": "1", "t": "2"}, "private-columns has no t"),
        ({"method": "mdav", "k": "5", "epsilon": "1"}, "mdav promises no differential privacy"),
        ({"method": "mdav", "k": "5", "t": "2"}, "mdav has no t"),
    ],
)
def test_a_preview_tells_of_fields_that_do_not_belong_to_the_method(
    unspent: InProcessService, fields: dict[str, str], message: str
) -> None:
    refused = Browser(unspent, "cus").send(f"{PUBLISH}/preview", fields, PUBLISH)
    assert (refused.status_code, message in alert(refused.text)) == (400, True), alert(refused.text)
    assert "--" not in alert(refused.text)


def test_a_preview_tells_where_k_is_not_used(unspent: InProcessService) -> None:
    preview = Browser(unspent, "cus").send(f"{PUBLISH}/preview", RECIPE | {"k": "5"}, PUBLISH)
    assert "Warning: K is not used for" in preview.text


def test_a_weaker_recipe_is_previewed_without_a_job(unspent: InProcessService) -> None:
    preview = Browser(unspent, "cus").send(f"{PUBLISH}/preview", {"method": "mdav", "k": "5"}, PUBLISH)
    assert (preview.status_code, "mdav can be tried" in preview.text) == (200, True)
    assert unspent.get("cus", "/v1/jobs").json()["jobs"] == []


def test_a_release_is_told_in_the_log_with_who_and_where(service: InProcessService) -> None:
    cus = Browser(service, "cus")
    places = []
    for recipe in ({"method": "mdav", "k": "5"}, RECIPE):
        places.append(cus.send(f"{PUBLISH}/release", recipe | {"sure": "yes"}, PUBLISH).headers["location"])
        assert run_next_job(service.app.service, "runner")
    service.post("ann", f"{HOME}/answers", COUNT)
    overview = cus.get(KEEPING).text
    assert all(f'<a href="{place}">' in overview for place in places)
    assert overview.count('<td data-head="Who">custodian</td>') == 2
    assert "The account custodian pays for released files" in overview
    assert "so numbers skip" in overview
    assert "0.1 of 1 spent, 0.9 left" in overview
    flags = service.get("cus", f"{HOME}/budget").json()["budget"][0]["flags"]
    assert flags
    assert len(re.findall(r'<p class="warning">', overview)) == len(flags)


def test_a_failed_job_tells_whether_it_was_charged() -> None:
    def show_failed_job(kind: str, name: str, detail: str = "no") -> str:
        return describe_charge(
            {"kind": kind, "rehearsal": False, "problem": {"type": f"/problems/{name}", "detail": detail}}
        )

    assert (
        show_failed_job("publish", "budget-exceeded") == show_failed_job("sweep", "internal") == "Nothing was charged."
    )
    assert "look at the log" in show_failed_job("publish", "internal")
    assert show_failed_job("publish", "invalid-input", "no; what was charged stays charged") == ""


def test_a_failed_release_says_so_on_its_page(service: InProcessService) -> None:
    """Two that the budget holds one by one, and not together: the second is refused when its turn comes."""
    cus, cap = Browser(service, "cus"), service.get("cus", f"{HOME}/budget").json()["budget"][0]["cap"]["epsilon"]
    recipe = RECIPE | {"epsilon": cap, "sure": "yes"}
    places = [cus.send(f"{PUBLISH}/release", recipe, PUBLISH).headers["location"] for _ in range(2)]
    assert run_next_job(service.app.service, "runner")
    assert run_next_job(service.app.service, "runner")
    done, failed = (cus.get(place).text for place in places)
    assert "Nothing was charged." not in done
    assert "Nothing was charged." in failed
    assert f'href="{KEEPING}#log-title"' in failed


def test_what_is_not_there_is_told_for_people(unspent: InProcessService) -> None:
    bob = Browser(unspent, "bob")
    refusal = bob.get(ASK)
    assert alert(refusal.text) == "there is nothing here that you may see; go to your data sets."
    assert "/v1/" not in alert(refusal.text)


def test_a_browser_at_the_root_is_led_to_the_console(unspent: InProcessService) -> None:
    led = unspent.client.get("/", headers={"Accept": "text/html,*/*"}, follow_redirects=False)
    assert (led.status_code, led.headers["location"]) == (303, "/console/")
    assert unspent.get(None, "/").status_code == 401
    assert unspent.get("ann", "/").status_code == 404


def test_every_type_of_problem_is_explained_to_anyone(unspent: InProcessService) -> None:
    assert set(EXPLANATIONS) == {one.name for one in PROBLEM_TYPES}
    for one in PROBLEM_TYPES:
        reply = unspent.get(None, one.uri)
        assert (reply.status_code, reply.json()["type"], reply.json()["status"]) == (200, one.uri, one.status)
    assert unspent.get(None, "/problems/none").status_code == 404


def test_operations_are_summed_up_by_what_they_do(unspent: InProcessService) -> None:
    paths = json.loads(unspent.get(None, "/openapi.json").text)["paths"]
    assert paths["/v1/tokens"]["post"]["summary"] == "Make a token; its secret is told this once"
    for operations in paths.values():
        for operation in operations.values():
            assert operation["description"].startswith(operation["summary"])
            assert len(operation["summary"]) > 10


def test_refusals_of_what_was_typed_are_plain(unspent: InProcessService) -> None:
    headers = {"Authorization": f"Bearer {unspent.tokens['ann']}", "Content-Type": "application/json"}
    document = unspent.client.post(f"{HOME}/answers", content="{", headers=headers).json()
    assert document["detail"].startswith("the body is not valid JSON")
    document = unspent.call("ann", "PUT", "/v1/priors/my%20prior", {"text": "normal(10, 2)"}).json()
    assert document["detail"] == "a name has letters, digits, _ . and -"
