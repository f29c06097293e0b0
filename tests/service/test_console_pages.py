"""The console's pages as a browser without scripts meets them: signing in, forms, roles, escaping."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from test_console_assets import Inline

from discreet.service.console.pages import CONSOLE_ROUTERS
from discreet.service.console.rendering import get_assets_path
from discreet.service.jobs import run_next_job
from discreet.service.middleware.auth import COOKIE_NAME
from support.inprocess_service import COUNT, HOME, InProcessService, build_config, run_service

ASK = "/console/datasets/registry"
ACCESS = "/console/custodian/access"
QUESTION = {"question": COUNT["question"], "how": "epsilon", "size": "0.1"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[InProcessService]:
    with run_service(build_config(tmp_path)) as fresh_service:
        yield fresh_service


@pytest.fixture(scope="module")
def unspent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessService]:
    """A service that several tests look at, and none changes."""
    with run_service(build_config(tmp_path_factory.mktemp("unspent"))) as unspent_service:
        yield unspent_service


class Browser:
    """One signed-in browser: cookies, and the form token of the page it saw last."""

    def __init__(self, service: InProcessService, who: str) -> None:
        self.client = TestClient(service.app, follow_redirects=False)
        self.entered = self.client.post("/console/sign-in", data={"token": service.tokens[who]})
        self.token = ""

    def get(self, path: str) -> Any:
        page = self.client.get(path)
        form_token = re.search(r'<meta name="form-token" content="([^"]*)">', page.text)
        self.token = form_token[1] if form_token else ""
        return page

    def send(self, path: str, fields: dict[str, Any], page: str | None = None) -> Any:
        """Fill in a form of a page and send it."""
        shown_page = self.get(page or path)
        key = re.search(r'name="key" value="([^"]*)"', shown_page.text)
        return self.client.post(path, data={"form_token": self.token, "key": key[1] if key else ""} | fields)


def alert(html: str) -> str:
    message = re.search(r'role="alert"[^>]*><p>(.*?)</p>', html, re.S)
    assert message is not None
    return unescape(message[1]).lower()


def spent(service: InProcessService) -> str:
    return str(service.get("ann", f"{HOME}/budget").json()["budget"][0]["spent"]["epsilon"])


def paths(method: str) -> list[str]:
    routes = [route for router in CONSOLE_ROUTERS for route in router.routes if method in getattr(route, "methods", ())]
    assert routes
    filled = {
        "{dataset}": "registry",
        "{wanted}": "x",
        "{job}": "x",
        "{token}": "x",
        "{topic}": "epsilon",
        "{named}": "0",
        "{rest:path}": "nowhere",
    }
    addresses = [str(getattr(route, "path", "")).replace("{name}", "console.css") for route in routes]
    for name, value in filled.items():
        addresses = [path.replace(name, value) for path in addresses]
    return addresses


OPEN = {"/console", "/console/", "/console/explain/epsilon", "/console/sign-in"}
OPEN |= {"/console/assets/console.css", "/console/assets/0/console.css"}


def test_a_token_is_exchanged_for_a_cookie_that_scripts_cannot_read(unspent: InProcessService) -> None:
    for who, home in (("ann", "/console/datasets"), ("cus", "/console/custodian")):
        browser = Browser(unspent, who)
        assert (browser.entered.status_code, browser.entered.headers["location"]) == (303, home)
        cookie = browser.entered.headers["set-cookie"].lower()
        assert cookie.startswith(f"{COOKIE_NAME}=")
        assert {"httponly", "samesite=strict", "path=/"} <= set(cookie.split("; "))
        assert unspent.tokens[who] not in browser.entered.headers["set-cookie"]
        assert browser.get(home).status_code == 200


@pytest.mark.parametrize("token", ["", "dsc_wrong", "x" * 5000, "dsc_\u00e4\x00", "' OR 1=1"])
def test_a_token_that_opens_nothing_is_told_so(unspent: InProcessService, token: str) -> None:
    refused = unspent.client.post("/console/sign-in", data={"token": token})
    assert refused.status_code == 401
    assert "mistyped, expired or revoked" in alert(refused.text)
    assert "set-cookie" not in refused.headers


def test_another_site_cannot_sign_a_browser_in(unspent: InProcessService) -> None:
    sent = {"data": {"token": unspent.tokens["ann"]}, "headers": {"Sec-Fetch-Site": "cross-site"}}
    refused = unspent.client.post("/console/sign-in", **sent)  # type: ignore[arg-type]
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers


def test_signing_out_ends_the_session_at_once(unspent: InProcessService) -> None:
    browser = Browser(unspent, "ann")
    browser.get("/console/datasets")
    cookie = browser.client.cookies[COOKIE_NAME]
    left = browser.client.post("/console/sign-out", data={"form_token": browser.token})
    assert (left.status_code, left.headers["location"]) == (303, "/console/")
    browser.client.cookies.set(COOKIE_NAME, cookie)
    assert browser.get("/console/datasets").headers["location"] == "/console/?why=ended"


def test_every_page_needs_somebody(unspent: InProcessService) -> None:
    """Whoever is not signed in is shown where to, whatever the page; only what is about nothing is open."""
    for method in ("GET", "POST"):
        for path in set(paths(method)) - OPEN:
            reply = unspent.client.request(method, path, follow_redirects=False)
            assert (reply.status_code, reply.headers.get("location")) == (303, "/console/"), path


def test_the_custodians_pages_are_for_custodians(unspent: InProcessService) -> None:
    ann = Browser(unspent, "ann")
    ann.get("/console/datasets")
    for method in ("GET", "POST"):
        for path in [one for one in paths(method) if one.startswith("/console/custodian")]:
            refusal = ann.client.request(method, path, data={"form_token": ann.token} if method == "POST" else None)
            assert refusal.status_code == 403, path
            assert "for the custodian" in alert(refusal.text)


def test_what_is_not_granted_and_what_is_not_there_look_the_same(unspent: InProcessService) -> None:
    bob = Browser(unspent, "bob")
    for place in ("", "/history", "/compare", "/answers/x"):
        for area in ("/console/datasets/", "/console/rehearsal/datasets/"):
            one, two = bob.get(f"{area}registry{place}"), bob.get(f"{area}nowhere{place}")
            assert one.status_code == two.status_code == 404
            assert one.text == two.text


def test_a_form_that_is_not_ours_changes_nothing(unspent: InProcessService) -> None:
    cus = Browser(unspent, "cus")
    cus.get(ACCESS)
    grant = {"dataset": "registry", "analyst": "bob", "give": "yes"}
    for token in ("", "0" * 64, Browser(unspent, "ann").get("/console/datasets") and "wrong"):
        refused = cus.client.post(f"{ACCESS}/grants", data=grant | {"form_token": token})
        assert refused.status_code == 403
    assert unspent.get("cus", "/v1/grants").json()["grants"] == [{"dataset": "registry", "analyst": "ann"}]


def test_a_question_is_asked_by_a_plain_form(service: InProcessService) -> None:
    ann = Browser(service, "ann")
    asked = ann.send(f"{ASK}/ask", QUESTION, ASK)
    assert asked.status_code == 303
    answer = ann.get(asked.headers["location"])
    document = service.get("ann", asked.headers["location"].replace("/console/", "/v1/")).json()
    assert f'<p class="headline" id="headline">{document["value"]:,}</p>' in answer.text
    assert document["guarantee"]["words"] in unescape(answer.text)
    assert document["request"] == {"question": COUNT["question"], "epsilon": "0.1"}


def test_a_form_that_is_sent_twice_is_paid_for_once(service: InProcessService) -> None:
    ann = Browser(service, "ann")
    ann.get(ASK)
    same = QUESTION | {"fresh": "yes", "form_token": ann.token, "key": "k"}
    one, two = (ann.client.post(f"{ASK}/ask", data=same) for _ in range(2))
    assert one.headers["location"] == two.headers["location"]
    assert spent(service) == "1/10"
    other = ann.client.post(f"{ASK}/ask", data=same | {"size": "0.2"})
    assert other.headers["location"] != one.headers["location"]
    assert spent(service) == "3/10"


def test_a_refused_question_comes_back_as_it_was_filled_in(unspent: InProcessService) -> None:
    ann = Browser(unspent, "ann")
    filled = QUESTION | {"size": "7", "prior": "normal(100, <b>20)", "population": "yes"}
    refused = ann.send(f"{ASK}/ask", filled, ASK)
    assert refused.status_code == 400
    assert "the scale of normal" in alert(refused.text)
    assert "normal(100, &lt;b&gt;20)" in refused.text
    assert 'value="7"' in refused.text
    dear = ann.send(f"{ASK}/ask", QUESTION | {"size": "2"}, ASK)
    assert dear.status_code == 403
    assert "epsilon" in alert(dear.text)
    assert spent(unspent) == "0"


@pytest.mark.parametrize("action", ["ask", "preview"])
def test_a_mistake_is_marked_below_the_sql(unspent: InProcessService, action: str) -> None:
    """The line and its carets, as text; the field is described by them, and only where there is a mistake."""
    question = "SELECT COUNT(*) FROM registry\nWHERE agee <> '<b>'"
    page = Browser(unspent, "ann").send(f"{ASK}/{action}", QUESTION | {"question": question}, ASK)
    assert page.status_code == 400
    assert "<pre>WHERE agee &lt;&gt; &#39;&lt;b&gt;&#39;\n      ^^^^</pre><p>Unknown column" in page.text
    assert 'aria-describedby="mistake question-hint" aria-invalid="true"' in page.text
    assert "<b>" not in page.text
    fine = Browser(unspent, "ann").send(f"{ASK}/preview", QUESTION, ASK)
    assert '<div id="mistake" class="mistake" hidden><pre></pre><p></p></div>' in fine.text
    assert "aria-invalid" not in fine.text


@pytest.mark.parametrize("action", ["ask", "preview"])
def test_no_rows_expected_is_refused_and_not_left_out(unspent: InProcessService, action: str) -> None:
    page = Browser(unspent, "ann").send(f"{ASK}/{action}", QUESTION | {"rows": "0"}, ASK)
    assert page.status_code == 400
    assert "rows: input should be greater than or equal to 1" in alert(page.text)


def test_what_cannot_be_done_is_told_by_a_page(unspent: InProcessService) -> None:
    """Of the API it is a problem; both name the methods that can be used."""
    ann = Browser(unspent, "ann")
    for path, allowed in ((f"{ASK}/ask", "POST"), ("/console/explain/epsilon", "GET")):
        refusal = ann.client.request("DELETE", path)
        assert (refusal.status_code, refusal.headers["content-type"][:9], refusal.headers["allow"]) == (
            405,
            "text/html",
            allowed,
        )
        assert "cannot be done here; go back" in refusal.text
    reply = unspent.client.request("DELETE", "/v1/datasets")
    assert reply.headers["content-type"] == "application/problem+json"


def test_a_preview_needs_no_script(unspent: InProcessService) -> None:
    preview = Browser(unspent, "ann").send(f"{ASK}/preview", QUESTION | {"prior": "normal(120, 20)"}, ASK)
    assert preview.status_code == 200
    for words in ("discrete Laplace", "epsilon 0.1", "without asking", "Nothing was charged and no row was read."):
        assert words in preview.text
    assert spent(unspent) == "0"


def test_a_preview_says_what_is_public_stored_or_not_paid_for(service: InProcessService) -> None:
    ann = Browser(service, "ann")
    public = ann.send(f"{ASK}/preview", QUESTION | {"question": "SELECT COUNT(*) FROM registry"}, ASK).text
    assert "This number is public: nothing is spent." in public
    ann.send(f"{ASK}/ask", QUESTION | {"size": "0.9"}, ASK)
    stored = ann.send(f"{ASK}/preview", QUESTION | {"size": "0.9"}, ASK).text
    assert "free: it is stored" in stored
    assert ">free</dd>" in stored
    assert "An answer of epsilon 0.9 is stored, and is told." in stored
    assert "aria-disabled" not in stored
    for changes in ({"fresh": "yes"}, {"question": "SELECT COUNT(*) FROM registry WHERE age < 40"}):
        dear = ann.send(f"{ASK}/preview", QUESTION | {"size": "0.9"} | changes, ASK).text
        assert "What is left does not pay for this" in dear
        assert 'aria-disabled="true"' in dear


def test_a_histogram_says_what_its_error_is_of_and_why_counts_are_not_whole(service: InProcessService) -> None:
    ann, asked = Browser(service, "ann"), QUESTION | {"question": "SELECT HISTOGRAM(age, 37) FROM registry"}
    assert "of a range, on average over all ranges" in ann.send(f"{ASK}/preview", asked, ASK).text
    by_sex = QUESTION | {"question": "SELECT sex, smoker, COUNT(*) FROM registry GROUP BY ROLLUP(sex, smoker)"}
    assert "of a count, on average over all rows" in ann.send(f"{ASK}/preview", by_sex, ASK).text
    answer = ann.send(f"{ASK}/ask", asked, ASK).headers["location"]
    counts = service.get("ann", f"{HOME}/answers/{answer.rpartition('/')[2]}").json()["rows"]
    parts = any(one["COUNT(*)"] % 1 for one in counts)  # of 37 noisy counts the rest to a public total is 0 by chance
    assert ("Counts are not whole here" in ann.get(answer).text) == parts
    plain = ann.get(ann.send(f"{ASK}/ask", QUESTION, ASK).headers["location"]).text
    assert "Counts are not whole here" not in plain
    assert "as long as the data set has the same snapshot" in plain


def test_all_answers_of_a_session_are_listed(service: InProcessService) -> None:
    sessions = f"{HOME}/sessions"
    opened = service.post("ann", sessions, {"epsilon": "0.1", "noise_scale": "60"}).json()["id"]
    asked = [{"question": f"SELECT COUNT(*) FROM registry WHERE age < {age}"} for age in (30, 40, 50)]
    ids = [service.post("ann", f"{sessions}/{opened}/answers", one).json()["id"] for one in asked]
    for who, path in (("ann", f"{ASK}/history"), ("cus", "/console/custodian/datasets/registry")):
        listed = Browser(service, who).get(path).text
        assert all(f'<a href="{ASK}/answers/{one}">' in listed for one in ids)
    ticked = re.findall(r'name="ids" value="([^"]*)"', Browser(service, "ann").get(f"{ASK}/history").text)
    assert sorted(ticked) == sorted(ids)


def test_rows_that_are_not_compared_are_told_of(service: InProcessService) -> None:
    ann = Browser(service, "ann")
    asked = QUESTION | {"question": "SELECT age, COUNT(*) FROM registry GROUP BY age"}
    reply = ann.send(f"{ASK}/ask", asked, ASK).headers["location"].rpartition("/")[2]
    assert "And 25 more rows: " in ann.get(f"{ASK}/compare?ids={reply}").text


def test_a_rehearsal_is_told_on_every_page_and_costs_nothing(service: InProcessService) -> None:
    ann, place = Browser(service, "ann"), ASK.replace("/console/", "/console/rehearsal/")
    asked = ann.send(f"{place}/ask", QUESTION, place)
    assert asked.headers["location"].startswith(place)
    for path in (place, asked.headers["location"], f"{place}/history"):
        assert "the table is made up, and nothing is charged" in ann.get(path).text
    assert spent(service) == "0"
    assert "the table is made up" not in ann.get(ASK).text


def test_answers_are_listed_and_compared(service: InProcessService) -> None:
    ann = Browser(service, "ann")
    ids = []
    for size in ("0.1", "0.2"):
        ids.append(
            ann.send(f"{ASK}/ask", QUESTION | {"size": size, "fresh": "yes"}, ASK)
            .headers["location"]
            .rpartition("/")[2]
        )
    listed = ann.get(f"{ASK}/history").text
    assert all(one in listed for one in ids)
    side = ann.get(f"{ASK}/compare?ids={ids[0]}&ids={ids[1]}")
    assert side.text.count('<circle class="dot"') == 2
    assert side.text.count('class="axis"') == 1
    assert side.text.count('class="grid-line"') >= 2
    assert ann.get(f"{ASK}/compare?ids={','.join(ids)}").text == side.text
    assert ann.get(f"{ASK}/compare?ids=nothing").status_code == 404
    again = ann.get(f"{ASK}?again={ids[1]}")
    assert 'value="0.2"' in again.text


def test_a_token_is_shown_once(service: InProcessService) -> None:
    cus = Browser(service, "cus")
    reply = cus.send(
        f"{ACCESS}/tokens", {"analyst": "eve", "role": "analyst", "days": "3", "datasets": "registry"}, ACCESS
    )
    secret = re.search(r"dsc_[A-Za-z0-9_-]{43}", reply.text)
    assert secret is not None
    assert secret[0] not in cus.get(ACCESS).text
    service.tokens["eve"] = secret[0]
    eve = Browser(service, "eve")
    assert eve.get(ASK).status_code == 200
    token = next(one for one in service.get("cus", "/v1/tokens").json()["tokens"] if one["analyst"] == "eve")
    gone = cus.send(f"{ACCESS}/tokens/{token['id']}/revoke", {}, ACCESS)
    assert gone.status_code == 303
    assert eve.get(ASK).headers["location"] == "/console/?why=ended"
    assert service.get("eve", "/v1/me").status_code == 401


def test_a_grant_is_given_and_taken(service: InProcessService) -> None:
    cus, bob = Browser(service, "cus"), Browser(service, "bob")
    for give, status in (("yes", 200), ("no", 404)):
        changed = cus.send(f"{ACCESS}/grants", {"dataset": "registry", "analyst": "bob", "give": give}, ACCESS)
        assert changed.headers["location"] == f"{ACCESS}#grants"
        assert bob.get(ASK).status_code == status
    assert (
        cus.send(f"{ACCESS}/grants", {"dataset": "nowhere", "analyst": "bob", "give": "yes"}, ACCESS).status_code == 404
    )


def test_a_token_that_cannot_be_made_is_told_why(unspent: InProcessService) -> None:
    cus = Browser(unspent, "cus")
    for fields, word in (
        ({"analyst": "eve", "role": "king", "days": "3"}, "role"),
        ({"analyst": "e/ve", "role": "analyst", "days": "3"}, "name"),
        ({"analyst": "eve", "role": "analyst", "days": "1e9"}, "days"),
        ({"analyst": "eve", "role": "analyst", "days": ""}, "days"),
        ({"analyst": "", "role": "analyst", "days": "3"}, "analyst"),
    ):
        refused = cus.send(f"{ACCESS}/tokens", fields, ACCESS)
        assert (refused.status_code, word in alert(refused.text)) == (400, True), alert(refused.text)


def test_a_file_is_previewed_published_and_fetched(service: InProcessService) -> None:
    cus, place = Browser(service, "cus"), "/console/custodian/datasets/registry/publish"
    recipe = {"method": "private-columns", "epsilon": "1", "columns": ["age", "sex"]}
    assert "<option selected>private-linked</option>" in cus.get(place).text
    previewed = cus.send(f"{place}/preview", recipe, place)
    assert "<option selected>private-columns</option>" in previewed.text
    assert previewed.text.count('<h3 id="plan-') == 3
    queued = cus.send(f"{place}/release", recipe | {"sure": "yes"}, place)
    assert "Waiting for its turn" in cus.get(queued.headers["location"]).text
    assert run_next_job(service.app.service, "runner")
    done = cus.get(queued.headers["location"]).text
    assert "2.72 times as likely" in done
    for name in ("registry-1.csv", "registry-1.csv.manifest.json", "registry-1-report.html"):
        assert cus.client.get(re.search(rf'href="([^"]*/{re.escape(name)})"', done)[1]).status_code == 200  # type: ignore[index]
    assert "private-columns" in cus.get(place).text
    refused = cus.send(f"{place}/release", {"method": "mdav", "k": "no"}, place)
    assert (refused.status_code, "k" in alert(refused.text)) == (400, True)


def test_methods_are_compared_and_nothing_leaves(service: InProcessService) -> None:
    cus, place = Browser(service, "cus"), "/console/custodian/datasets/registry/publish"
    queued = cus.send(f"{place}/sweep", {"ks": "k=5,20", "methods": ["mdav"]}, place)
    assert run_next_job(service.app.service, "runner")
    done = cus.get(queued.headers["location"]).text
    assert "Risk and utility over k" in done
    assert service.get("cus", f"{HOME}/history").json()["history"][0]["kind"] == "register"


def test_the_custodian_sees_spend_log_snapshots_and_chain(service: InProcessService) -> None:
    service.post("ann", f"{HOME}/answers", COUNT)
    cus, place = Browser(service, "cus"), "/console/custodian/datasets/registry"
    overview = cus.get(place).text
    assert "ann: epsilon 0.1 of 1 is spent, 0.9 is left" in overview
    assert "SELECT COUNT(*) FROM registry WHERE smoker = TRUE" in unescape(overview)
    head = service.get("cus", f"{HOME}/ledger").json()["head"]
    assert head not in overview
    verified = cus.get(f"{place}?verify=yes").text
    assert head in verified
    assert "Head of registry: keep it elsewhere" in verified
    assert re.findall(r'aria-current="true">([0-9,]+)<', cus.get(f"{place}?lines=200").text) == ["200"]
    assert "Nothing: no epsilon above 5" not in cus.get("/console/custodian").text  # padding is off here


def test_a_job_leads_to_its_answer(tmp_path: Path) -> None:
    config = build_config(tmp_path)
    with run_service(replace(config, datasets=tuple(replace(one, jobs=True) for one in config.datasets))) as service:
        ann = Browser(service, "ann")
        queued = ann.send(f"{ASK}/ask", QUESTION, ASK)
        assert queued.headers["location"].startswith("/console/jobs/")
        assert "Under way" in ann.get(queued.headers["location"]).text
        assert run_next_job(service.app.service, "runner")
        assert ann.get(queued.headers["location"]).headers["location"].startswith(f"{ASK}/answers/")
        assert Browser(service, "bob").get(queued.headers["location"]).status_code == 404


HOSTILE = "SELECT COUNT(*) FROM registry WHERE hospital = '\"><script>alert(1)</script>'"


def test_hostile_text_stays_text(service: InProcessService) -> None:
    ann, cus = Browser(service, "ann"), Browser(service, "cus")
    replies = [ann.send(f"{ASK}/ask", QUESTION | {"question": HOSTILE, "prior": "</textarea><script>"}, ASK)]
    replies.append(ann.send(f"{ASK}/preview", QUESTION | {"question": HOSTILE}, ASK))
    name = "<img src=x onerror=alert(1)>"
    replies.append(
        cus.send(f"{ACCESS}/tokens", {"analyst": name, "role": "analyst", "days": "3", "datasets": "registry"}, ACCESS)
    )
    replies += [cus.get(ACCESS), cus.get("/console/custodian/datasets/registry")]
    for one in replies:
        assert "<script>alert" not in one.text
        assert "<img src=x" not in one.text
        parsed = Inline()
        parsed.feed(one.text)
        assert parsed.found == []


def test_every_page_keeps_to_a_strict_policy(service: InProcessService) -> None:
    """No page has a script, a style or a handler of its own, and all say so to the browser."""
    ann, cus = Browser(service, "ann"), Browser(service, "cus")
    answer = ann.send(f"{ASK}/ask", QUESTION | {"prior": "normal(100, 20)"}, ASK).headers["location"]
    visits = [(ann, answer), (cus, answer), (ann, "/console/datasets"), (ann, "/console/jobs/nothing")]
    visits += [(ann, one) for one in paths("GET") if "/custodian" not in one and "assets" not in one]
    visits += [(cus, one) for one in paths("GET") if "/custodian" in one]
    for browser, path in visits:
        reply = browser.get(path)
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in reply.headers["content-security-policy"]
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert reply.headers["cache-control"] == "no-store"
        parsed = Inline()
        parsed.feed(reply.text)
        assert parsed.found == [], path
        assert all(source.startswith("/console/assets/") for source in parsed.sources), path


def test_scripts_and_styles_are_kept_as_long_as_they_are_the_same(unspent: InProcessService) -> None:
    for place, keep in (
        (get_assets_path(), "max-age=31536000"),
        ("/console/assets/0123", "no-cache"),
        ("/console/assets", "no-cache"),
    ):
        for name in ("console.css", "ask.js", "vega.js"):
            first = unspent.client.get(f"{place}/{name}")
            assert (first.status_code, keep in first.headers["cache-control"]) == (200, True)
            again = unspent.client.get(f"{place}/{name}", headers={"If-None-Match": first.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        for name in ("nothing.js", "..%2fpages.py", "assets.py", "a/b/console.css"):
            assert unspent.client.get(f"{place}/{name}", follow_redirects=False).status_code in {303, 404}
    assert "vegaEmbed" in unspent.client.get("/console/assets/vega.js").text


def test_explanations_are_open_and_true_to_their_numbers(unspent: InProcessService) -> None:
    explanation = unspent.client.get("/console/explain/epsilon").text
    assert "52.5 %" in explanation
    assert "73.2 %" in explanation
    assert unspent.client.get("/console/explain/nothing").status_code == 404
    for topic in ("time", "guarantee"):
        assert "busy" in unspent.client.get(f"/console/explain/{topic}").text
    assert "but for the budget" in unspent.client.get("/console/explain/rehearsal").text
