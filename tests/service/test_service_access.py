"""Who may do what: every route for every role, by token and by cookie; nothing tells what is there but not yours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts

from discreet.service.app import MiddlewareStack
from discreet.service.config import TLS, DatasetConfig
from discreet.service.jobs import get_job_folder
from discreet.service.middleware.auth import COOKIE_NAME
from discreet.service.store.job_queue import Job, add_job
from discreet.service.store.tokens import (
    Token,
    create_token,
    derive_form_token,
    grant_dataset,
    hash_secret,
    revoke_token,
    sign_in,
)
from support.inprocess_service import COUNT, HOME, InProcessService, build_config, run_service

NOWHERE = "0" * 32
SESSION = {"noise_scale": "20", "epsilon": "0.1"}
REAL, REHEARSAL = "/v1/datasets/{dataset}", "/v1/rehearsal/datasets/{dataset}"
PAGES, REHEARSAL_PAGES = "/console/datasets/{dataset}", "/console/rehearsal/datasets/{dataset}"
KEEPING = "/console/custodian/datasets/{dataset}"
NOBODIES = ("nobody", "garbage", "expired", "revoked")
SOMEBODIES = ("bob", "eve", "ann", "cus")
"""bob has no grant; eve has, and nothing is hers; ann owns answer, session, prior and jobs; cus keeps the data sets."""


@dataclass(frozen=True)
class Line:
    """What a route says to bob, eve, ann and cus, given a body or a form; and to nobody."""

    bob: int
    eve: int
    ann: int
    cus: int
    body: dict[str, Any] | None = None
    nobody: int = 401
    query: str = ""


def everyone(status: int, nobody: int = 401, body: dict[str, Any] | None = None) -> Line:
    return Line(status, status, status, status, body, nobody)


def granted(status: int = 200, body: dict[str, Any] | None = None) -> Line:
    return Line(404, status, status, status, body)


def owned(status: int, cus: int = 404, body: dict[str, Any] | None = None) -> Line:
    return Line(404, 404, status, cus, body)


def kept(status: int = 200, body: dict[str, Any] | None = None) -> Line:
    return Line(403, 403, 403, status, body)


def about_a_data_set(home: str) -> dict[tuple[str, str], Line]:
    prior = {"question": COUNT["question"], "prior": "normal(100, 9)"}
    return {
        ("GET", home): granted(),
        ("POST", f"{home}/previews"): granted(200, COUNT),
        ("POST", f"{home}/answers"): granted(201, COUNT),
        ("GET", f"{home}/answers/{{answer}}"): owned(200, 200),
        ("GET", f"{home}/answers/{{answer}}/picture"): owned(200, 200),
        ("GET", f"{home}/answers/{{answer}}/csv"): owned(200, 200),
        ("POST", f"{home}/priors"): granted(200, prior),
        ("GET", f"{home}/budget"): granted(),
        ("GET", f"{home}/history"): granted(),
        ("POST", f"{home}/sessions"): granted(201, SESSION),
        ("GET", f"{home}/sessions/{{session}}"): owned(200),
        ("POST", f"{home}/sessions/{{session}}/answers"): owned(201, 404, {"question": COUNT["question"]}),
        ("DELETE", f"{home}/sessions/{{session}}"): owned(204),
    }


def releases(home: str) -> dict[tuple[str, str], Line]:
    return {
        ("POST", f"{home}/releases"): kept(202, {"method": "private-columns", "epsilon": "1"}),
        ("POST", f"{home}/releases/previews"): kept(
            200, {"method": "private-columns", "epsilon": "1", "columns": ["sex"]}
        ),
        ("POST", f"{home}/sweeps"): kept(202, {"ks": "k=3..5"}),
    }


def pages_about_a_data_set(home: str) -> dict[tuple[str, str], Line]:
    form = {"question": COUNT["question"], "how": "epsilon", "size": "0.1"}
    return {
        ("GET", home): granted(),
        ("POST", f"{home}/preview"): granted(200, form),
        ("POST", f"{home}/ask"): granted(303, form),
        ("GET", f"{home}/answers/{{wanted}}"): owned(200, 200),
        ("GET", f"{home}/history"): granted(),
        ("GET", f"{home}/compare"): replace(owned(200, 200), query="?ids={wanted}"),
    }


API: dict[tuple[str, str], Line] = {
    ("GET", "/openapi.json"): everyone(200, 200),
    ("HEAD", "/openapi.json"): everyone(200, 200),
    ("GET", "/"): everyone(404),  # for programs; a browser is led to the console
    ("GET", "/health"): everyone(200, 200),
    ("GET", "/problems/{name}"): everyone(200, 200),
    ("GET", "/metrics"): kept(),
    ("GET", "/v1/me"): everyone(200),
    ("GET", "/v1/datasets"): everyone(200),
    **about_a_data_set(REAL),
    **about_a_data_set(REHEARSAL),
    ("GET", "/v1/priors"): everyone(200),
    ("GET", "/v1/priors/{name}"): owned(200),
    ("PUT", "/v1/priors/{name}"): everyone(200, body={"text": "normal(1, 1)"}),  # each keeps one's own
    ("DELETE", "/v1/priors/{name}"): owned(204),
    ("GET", "/v1/jobs"): everyone(200),
    ("GET", "/v1/jobs/{job}"): owned(200, 200),
    ("GET", "/v1/jobs/{job}/files/{name:path}"): kept(),
    ("GET", "/v1/tokens"): kept(),
    ("POST", "/v1/tokens"): kept(201, {"analyst": "zoe"}),
    ("DELETE", "/v1/tokens/{token}"): kept(204),
    ("GET", "/v1/grants"): kept(),
    ("PUT", "/v1/grants/{dataset}/{analyst}"): kept(204),
    ("DELETE", "/v1/grants/{dataset}/{analyst}"): kept(204),
    ("GET", "/v1/warnings"): kept(),
    **releases(REAL),
    **releases(REHEARSAL),
    ("GET", f"{REAL}/snapshots"): kept(),
    ("GET", f"{REAL}/ledger"): kept(),
}
CONSOLE: dict[tuple[str, str], Line] = {
    ("GET", "/console"): everyone(303, 200),
    ("GET", "/console/"): everyone(303, 200),
    ("GET", "/console/assets/{name}"): everyone(200, 200),
    ("GET", "/console/assets/{named}/{name}"): everyone(200, 200),
    ("GET", "/console/{rest:path}"): everyone(404),
    ("GET", "/console/explain/{topic}"): everyone(200, 200),
    ("POST", "/console/sign-in"): everyone(401, 401, {"token": "dsc_wrong"}),
    ("POST", "/console/sign-out"): everyone(303, 303, {}),
    ("GET", "/console/datasets"): everyone(200, 303),
    ("GET", "/console/jobs/{job}"): owned(200, 200),
    **pages_about_a_data_set(PAGES),
    **pages_about_a_data_set(REHEARSAL_PAGES),
    ("GET", "/console/custodian"): kept(),
    ("GET", "/console/custodian/access"): kept(),
    ("POST", "/console/custodian/access/tokens"): kept(
        201, {"analyst": "zoe", "role": "analyst", "days": "3", "key": "1" * 32}
    ),
    ("POST", "/console/custodian/access/tokens/{token}/revoke"): kept(303, {}),
    ("POST", "/console/custodian/access/grants"): kept(303, {"dataset": "registry", "analyst": "zoe", "give": "yes"}),
    ("GET", KEEPING): kept(),
    ("GET", f"{KEEPING}/publish"): kept(),
    ("POST", f"{KEEPING}/publish/preview"): kept(200, {"method": "private-columns", "epsilon": "1", "columns": "sex"}),
    ("POST", f"{KEEPING}/publish/release"): kept(303, {"method": "private-columns", "epsilon": "1", "sure": "yes"}),
    ("POST", f"{KEEPING}/publish/sweep"): kept(303, {"ks": "k=3..5"}),
}
FIXED = {"assets": "console.css", "problems": "conflict"}
OBJECTS = {"answer", "wanted", "session", "name", "job", "token"}


@dataclass(frozen=True)
class Guarded:
    """A service with two data sets, of which nobody is granted the second, and what ann owns in the first."""

    service: InProcessService
    people: dict[str, Token]

    @property
    def app(self) -> MiddlewareStack:
        return self.service.app

    def send(self, method: str, path: str, headers: dict[str, str], **more: Any) -> Any:
        """One request that carries nothing from the one before."""
        self.service.client.cookies.clear()
        return self.service.client.request(method, path, headers=headers, follow_redirects=False, **more)

    def by_token(self, who: str, method: str, path: str, body: object = None) -> Any:
        held = self.service.tokens.get(who)
        headers = {} if held is None else {"Authorization": f"Bearer {held}"}
        return self.send(method, path, headers, **({} if body is None else {"json": body}))

    def by_cookie(
        self, who: str, method: str, path: str, form: dict[str, Any] | None = None, cookie: str | None = None
    ) -> Any:
        held = cookie or self.cookie(who)
        headers = {} if held is None else {"Cookie": f"{COOKIE_NAME}={held}"}
        sent = None if form is None else {"form_token": derive_form_token(held or ""), **form}
        return self.send(method, path, headers, **({} if sent is None else {"data": sent}))

    def cookie(self, who: str) -> str | None:
        """That of a browser in which somebody has just signed in; a page may sign it out."""
        if who in self.people:
            found = sign_in(self.app.service.store, self.people[who])
            if who == "revoked":
                revoke_token(self.app.service.store, self.people[who].id)
            return found
        return "x" * 43 if who == "garbage" else None

    def own(self, path: str) -> Callable[[str], str]:
        """What to put for each parameter of a path: new things of ann's, since a request may end them."""
        home = REHEARSAL if "rehearsal" in path else REAL
        made: dict[str, Callable[[], str]] = {
            "dataset": lambda: "registry",
            "analyst": lambda: "zoe",
            "topic": lambda: "epsilon",
            "named": lambda: "any",
            "rest:path": lambda: "no/such/page",
            "answer": lambda: self.made(f"{home}/answers", COUNT),
            "wanted": lambda: self.made(f"{home}/answers", COUNT),
            "session": lambda: self.made(f"{home}/sessions", SESSION),
            "job": lambda: self.job("publish" if "files" in path else "ask"),
            "token": lambda: create_token(self.app.service.store, "zed", "analyst")[0].id,
            "name": lambda: next((FIXED[part] for part in path.split("/") if part in FIXED), "") or self.prior(),
            "name:path": lambda: "release.csv",
        }
        return lambda parameter: made[parameter]()

    def target(self, method: str, path: str) -> Callable[[], str]:
        """A path to what is ann's: new each time where a request ends it, else made once."""
        if method == "DELETE" or path.endswith("/revoke"):
            return lambda: filled(path, self.own(path))
        found = filled(path, self.own(path))
        return lambda: found

    def made(self, path: str, body: dict[str, str]) -> str:
        found = self.by_token("ann", "POST", path.format(dataset="registry"), body)
        assert found.status_code == 201
        return str(found.json()["id"])

    def prior(self) -> str:
        name = f"mine-{time.time_ns()}"
        assert self.by_token("ann", "PUT", f"/v1/priors/{name}", {"text": "normal(1, 1)"}).status_code == 200
        return name

    def job(self, kind: Any) -> str:
        """A job of ann's: a question that waits, or a release that is done, with a file."""
        name, now = f"{time.time_ns():032x}", time.time()
        waiting = Job(name, kind, "registry", False, "ann", name, "{}", 0.0, now)
        made = waiting if kind == "ask" else replace(waiting, state="done", finished=now)
        folder = get_job_folder(self.app.service.config, add_job(self.app.service.store, made))
        folder.mkdir(parents=True)
        (folder / "release.csv").write_text("a\n1\n")
        return name


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    config = build_config(folder, 100)
    text = (folder / "registry.yaml").read_text().replace("epsilon: 3,", "epsilon: 1000,")
    text = text.replace("epsilon: 1,", "epsilon: 1000,")
    (folder / "registry.yaml").write_text(text)
    (folder / "clinic.yaml").write_text(text.replace("name: registry", "name: clinic"))
    with run_service(
        replace(config, datasets=(*config.datasets, DatasetConfig(folder / "clinic.yaml", 0.05)))
    ) as service:
        yield Guarded(service, admitted(service))


def admitted(service: InProcessService) -> dict[str, Token]:
    """More people, each with a token."""
    store = service.app.service.store
    found = {name: create_token(store, name, "analyst", 30, ("registry",)) for name in ("eve", "revoked", "ann")}
    found["expired"] = create_token(store, "expired", "analyst", 1e-9, ("registry",))
    found |= {"bob": create_token(store, "bob", "analyst"), "cus": create_token(store, "cus", "custodian")}
    revoke_token(store, found["revoked"][0].id)
    service.tokens.update({name: secret for name, (_, secret) in found.items()} | {"garbage": "dsc_" + "x" * 43})
    return {name: token for name, (token, _) in found.items()}


def filled(path: str, put: Callable[[str], str]) -> str:
    """A path with something for each of its parameters."""
    parts = [part.partition("}") for part in path.split("{")]
    return parts[0][0] + "".join(put(name) + rest for name, _, rest in parts[1:])


def routes(app: MiddlewareStack) -> set[tuple[str, str]]:
    found = iter_route_contexts(app.api.routes)
    return {(method, str(one.path)) for one in found for method in one.methods or ()}


def test_every_route_has_its_line(guarded: Guarded) -> None:
    """A new route is not served before it is said here who may use it."""
    assert routes(guarded.app) == set(API) | set(CONSOLE)


@pytest.mark.parametrize(("method", "path"), sorted(API))
def test_a_token_opens_what_its_holder_may_see(guarded: Guarded, method: str, path: str) -> None:
    line, target = API[method, path], guarded.target(method, path)
    for who in NOBODIES:
        told = guarded.by_token(who, method, target(), line.body)
        assert told.status_code == line.nobody, who
    for who in SOMEBODIES:
        told = guarded.by_token(who, method, target(), line.body)
        assert told.status_code == getattr(line, who), (who, told.text)


@pytest.mark.parametrize(("method", "path"), sorted(CONSOLE))
def test_a_cookie_opens_the_pages_its_holder_may_see(guarded: Guarded, method: str, path: str) -> None:
    line = CONSOLE[method, path]
    target = guarded.target(method, path + line.query)
    to_sign_in = 303 if line.nobody == 401 and "sign-in" not in path else line.nobody
    for who in NOBODIES:
        told = guarded.by_cookie(who, method, target(), line.body)
        assert told.status_code == to_sign_in, who
        assert told.headers.get("location", "/console/").partition("?")[0] == "/console/"
    for who in SOMEBODIES:
        told = guarded.by_cookie(who, method, target(), line.body)
        assert told.status_code == getattr(line, who), (who, told.text)


READ = sorted(path for method, path in API if method == "GET")
CHANGED = sorted((method, path) for method, path in API if method not in {"GET", "HEAD"})


@pytest.mark.parametrize("path", READ)
def test_a_cookie_reads_what_a_token_reads(guarded: Guarded, path: str) -> None:
    target = guarded.target("GET", path)
    for who in SOMEBODIES:
        assert guarded.by_cookie(who, "GET", target()).status_code == getattr(API["GET", path], who)


@pytest.mark.parametrize(("method", "path"), CHANGED)
def test_a_cookie_changes_nothing_without_the_form_token(guarded: Guarded, method: str, path: str) -> None:
    """Another site can make a browser send the cookie, but not the header."""
    line, cookie, other = API[method, path], guarded.cookie("cus") or "", guarded.cookie("cus") or ""
    headers, target = {"Cookie": f"{COOKIE_NAME}={cookie}"}, guarded.target(method, path)
    for wrong in (None, "", "x", derive_form_token(other), derive_form_token(cookie).upper(), "é"):
        more = {} if wrong is None else {"X-Discreet-Form": wrong.encode()}
        told = guarded.send(method, target(), headers | more, json=line.body)
        assert (told.status_code, told.json()["type"]) == (403, "/problems/forbidden"), wrong
    right = {"X-Discreet-Form": derive_form_token(cookie)}
    told = guarded.send(method, target(), headers | right, json=line.body)
    assert told.status_code == line.cus


FORMS = sorted((method, path) for method, path in CONSOLE if method == "POST" and path != "/console/sign-in")


@pytest.mark.parametrize(("method", "path"), FORMS)
def test_a_form_of_another_site_changes_nothing(guarded: Guarded, method: str, path: str) -> None:
    form, target = CONSOLE[method, path].body or {}, guarded.target(method, path)
    for wrong in ("", "x", derive_form_token(guarded.cookie("cus") or ""), "é"):
        told = guarded.by_cookie("cus", method, target(), form | {"form_token": wrong})
        assert told.status_code == 403, wrong


BOUND = sorted((method, path) for method, path in {**API, **CONSOLE} if "{dataset}" in path)


def seen(reply: Any) -> tuple[int, list[tuple[str, str]], bytes]:
    """All of a reply."""
    return reply.status_code, sorted(reply.headers.multi_items()), reply.content


@pytest.mark.parametrize(("method", "path"), BOUND)
def test_what_is_not_granted_is_told_as_what_is_not_there(guarded: Guarded, method: str, path: str) -> None:
    """Status, headers and body are the same, byte by byte, for a data set of others and one that never was."""
    line = {**API, **CONSOLE}[method, path]
    cookie = guarded.cookie("ann")
    replies = []
    for name in ("clinic", "nowhere"):

        def put(parameter: str, name: str = name) -> str:
            return name if parameter == "dataset" else NOWHERE if parameter in OBJECTS else "zoe"

        if (method, path) in API:
            replies.append(guarded.by_token("ann", method, filled(path, put), line.body))
        else:
            replies.append(guarded.by_cookie("ann", method, filled(path, put), line.body, cookie))
    assert seen(replies[0]) == seen(replies[1])
    assert replies[0].status_code == (403 if line.ann == 403 else 404)


OWNED = sorted((method, path) for method, path in API if API[method, path].eve == 404)


@pytest.mark.parametrize(("method", "path"), OWNED)
def test_what_is_anothers_is_told_as_what_is_not_there(guarded: Guarded, method: str, path: str) -> None:
    own, body = guarded.own(path), API[method, path].body

    def nothing(parameter: str) -> str:
        return NOWHERE if parameter in OBJECTS else own(parameter)

    of_ann = guarded.by_token("eve", method, filled(path, own), body)
    of_nobody = guarded.by_token("eve", method, filled(path, nothing), body)
    assert seen(of_ann) == seen(of_nobody)


def test_every_way_of_not_being_there_is_one_reply(guarded: Guarded) -> None:
    answer = guarded.made(f"{REAL}/answers", COUNT)
    paths = {
        "no such path": "/v1/nothing",
        "no such data set": "/v1/datasets/nowhere/budget",
        "not granted": "/v1/datasets/clinic/budget",
        "no such answer": f"{HOME}/answers/{NOWHERE}",
        "an answer of the other kind": f"/v1/rehearsal/datasets/registry/answers/{answer}",
        "an answer of another data set": f"/v1/datasets/clinic/answers/{answer}",
        "no such job": f"/v1/jobs/{NOWHERE}",
        "no such prior": "/v1/priors/none",
        "a slash too many": "/v1/datasets/",
    }
    replies = {why: seen(guarded.by_token("ann", "GET", path)) for why, path in paths.items()}
    assert len({repr(one) for one in replies.values()}) == 1, replies
    assert replies["no such path"][0] == 404


def test_an_answer_is_of_one_data_set(guarded: Guarded) -> None:
    """Not even a custodian, who sees all data sets, finds it under another."""
    answer = guarded.made(f"{REAL}/answers", COUNT)
    assert guarded.by_token("cus", "GET", f"{HOME}/answers/{answer}").status_code == 200
    assert guarded.by_token("cus", "GET", f"/v1/datasets/clinic/answers/{answer}").status_code == 404


def test_a_grant_that_is_taken_back_closes_what_was_open(guarded: Guarded) -> None:
    """Answers, jobs and sessions of one's own are closed with the data set, for browsers too."""
    store = guarded.app.service.store
    token, secret = create_token(store, "fay", "analyst", 30, ("registry",))
    guarded.service.tokens["fay"], guarded.people["fay"] = secret, token
    answer = guarded.by_token("fay", "POST", f"{HOME}/answers", COUNT).json()["id"]
    session = guarded.by_token("fay", "POST", f"{HOME}/sessions", SESSION).json()["id"]
    job = Job(f"{time.time_ns():032x}", "ask", "registry", False, "fay", "k", "{}", 0.0, time.time())
    add_job(store, job)
    paths = (f"{HOME}/answers/{answer}", f"{HOME}/sessions/{session}", f"/v1/jobs/{job.id}", f"{HOME}/history")
    assert {guarded.by_token("fay", "GET", path).status_code for path in paths} == {200}
    assert guarded.by_token("cus", "DELETE", "/v1/grants/registry/fay").status_code == 204
    assert {guarded.by_token("fay", "GET", path).status_code for path in paths} == {404}
    assert guarded.by_token("fay", "GET", "/v1/jobs").json() == {"jobs": []}
    assert guarded.by_cookie("fay", "GET", f"/console/datasets/registry/answers/{answer}").status_code == 404
    grant_dataset(store, "registry", "fay")
    assert {guarded.by_token("fay", "GET", path).status_code for path in paths} == {200}


def test_lists_hold_only_what_is_ones_own(guarded: Guarded) -> None:
    job, prior, answer = guarded.job("ask"), guarded.prior(), guarded.made(f"{REAL}/answers", COUNT)
    for path, hers in (("/v1/jobs", job), ("/v1/priors", prior), (f"{HOME}/history", answer)):
        assert hers in guarded.by_token("ann", "GET", path).text
        assert hers not in guarded.by_token("eve", "GET", path).text
    assert [one["name"] for one in guarded.by_token("ann", "GET", "/v1/datasets").json()["datasets"]] == ["registry"]
    assert guarded.by_token("ann", "GET", "/v1/datasets").json()["datasets"][0]["engine"] is None
    assert "clinic" in guarded.by_token("cus", "GET", "/v1/datasets").text


def test_the_same_key_of_two_analysts_is_two_requests(guarded: Guarded) -> None:
    fresh = COUNT | {"fresh": True}
    ids = []
    for who in ("ann", "eve"):
        headers = {"Authorization": f"Bearer {guarded.service.tokens[who]}", "Idempotency-Key": "one"}
        ids.append(guarded.send("POST", f"{HOME}/answers", headers, json=fresh).json()["id"])
    assert ids[0] != ids[1]


@pytest.mark.parametrize("how", ["?token={}", "?access_token={}", "?Authorization=Bearer%20{}", "?discreet_session={}"])
def test_a_token_in_the_address_opens_nothing(guarded: Guarded, how: str) -> None:
    """Addresses are written down by browsers and proxies."""
    for secret in (guarded.service.tokens["cus"], guarded.cookie("cus")):
        assert guarded.send("GET", "/v1/me" + how.format(secret), {}).status_code == 401


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", "bearer  ", "Basic {}", "{}", "Token {}", "Bearer {}x", "Bearer x{}", "Bearer {}, {}"],
)
def test_only_a_whole_token_opens_anything(guarded: Guarded, given: str) -> None:
    secret = guarded.service.tokens["cus"]
    replies = [guarded.send("GET", "/v1/me", {"Authorization": given.format(secret, secret)})]
    replies.append(guarded.send("GET", "/v1/me", {}))
    assert seen(replies[0]) == seen(replies[1])
    assert replies[0].status_code == 401
    assert replies[0].headers["www-authenticate"] == "Bearer"


def test_a_hash_from_the_store_opens_nothing(guarded: Guarded) -> None:
    """Who reads the store learns no token and no cookie."""
    secrets = [guarded.service.tokens["cus"], guarded.cookie("cus") or ""]
    for secret in secrets:
        for told in (hash_secret(secret), f"dsc_{hash_secret(secret)}"):
            assert guarded.send("GET", "/v1/me", {"Authorization": f"Bearer {told}"}).status_code == 401
            assert guarded.send("GET", "/v1/me", {"Cookie": f"{COOKIE_NAME}={told}"}).status_code == 401
    database = Path(guarded.service.config.store)
    kept = b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))
    assert [hash_secret(told).encode() in kept for told in secrets] == [True, True]
    assert not [told for told in (*secrets, *guarded.service.tokens.values()) if told.encode() in kept]


def test_a_cookie_is_no_token_and_a_token_no_cookie(guarded: Guarded) -> None:
    token, cookie = guarded.service.tokens["cus"], guarded.cookie("cus")
    assert guarded.send("GET", "/v1/me", {"Authorization": f"Bearer {cookie}"}).status_code == 401
    assert guarded.send("GET", "/v1/me", {"Cookie": f"{COOKIE_NAME}={token}"}).status_code == 401


def test_of_a_token_and_a_cookie_the_token_counts(guarded: Guarded) -> None:
    """And a token that is not valid is not made good by a cookie."""
    cookie = {"Cookie": f"{COOKIE_NAME}={guarded.cookie('cus')}"}
    both = cookie | {"Authorization": f"Bearer {guarded.service.tokens['ann']}"}
    assert guarded.send("GET", "/v1/me", both).json()["name"] == "ann"
    assert guarded.send("GET", "/v1/tokens", both).status_code == 403
    assert guarded.send("PUT", "/v1/priors/b", both, json={"text": "point(1)"}).status_code == 200  # no form token
    for wrong in ("Bearer dsc_wrong", "Basic x", ""):
        assert guarded.send("GET", "/v1/me", cookie | {"Authorization": wrong}).status_code == 401


def signed_in(service: InProcessService, who: str) -> Any:
    service.client.cookies.clear()
    return service.client.post("/console/sign-in", data={"token": service.tokens[who]}, follow_redirects=False)


def test_a_cookie_is_for_the_service_alone(guarded: Guarded, tmp_path: Path) -> None:
    """No script reads it, no other site sends it, and under TLS it never travels in the clear."""
    flags = set(signed_in(guarded.service, "ann").headers["set-cookie"].split("; ")[1:])
    assert flags == {"HttpOnly", "SameSite=strict", "Path=/"}
    config = replace(build_config(tmp_path, 20), tls=TLS(tmp_path / "certificate", tmp_path / "key"))
    with run_service(config) as safe:
        told = signed_in(safe, "ann")
    assert set(told.headers["set-cookie"].split("; ")[1:]) == {*flags, "Secure"}
    assert told.headers["strict-transport-security"].startswith("max-age=")


def test_signing_in_twice_makes_two_cookies_and_signing_out_ends_one(guarded: Guarded) -> None:
    cookies = []
    for _ in range(2):
        signed_in(guarded.service, "ann")
        cookies.append(guarded.service.client.cookies[COOKIE_NAME])
    assert cookies[0] != cookies[1]
    headers = {"Cookie": f"{COOKIE_NAME}={cookies[0]}"}
    assert (
        guarded.send(
            "POST", "/console/sign-out", headers, data={"form_token": derive_form_token(cookies[0])}
        ).status_code
        == 303
    )
    assert guarded.send("GET", "/v1/me", headers).status_code == 401
    assert guarded.send("GET", "/v1/me", {"Cookie": f"{COOKIE_NAME}={cookies[1]}"}).json()["name"] == "ann"


def test_a_token_that_is_revoked_signs_its_browsers_out(guarded: Guarded) -> None:
    store = guarded.app.service.store
    token, secret = create_token(store, "gus", "custodian")
    cookie = sign_in(store, token)
    headers = {"Cookie": f"{COOKIE_NAME}={cookie}"}
    assert guarded.send("GET", "/console/custodian", headers).status_code == 200
    assert guarded.by_token("cus", "DELETE", f"/v1/tokens/{token.id}").status_code == 204
    assert guarded.send("GET", "/console/custodian", headers).status_code == 303
    assert guarded.send("GET", "/v1/me", headers).status_code == 401
    assert guarded.send("GET", "/v1/me", {"Authorization": f"Bearer {secret}"}).status_code == 401


def test_a_token_is_told_once(guarded: Guarded) -> None:
    made = guarded.by_token("cus", "POST", "/v1/tokens", {"analyst": "hal"}).json()
    listed = guarded.by_token("cus", "GET", "/v1/tokens")
    assert made["id"] in listed.text
    assert made["token"] not in listed.text
    assert made["token"] not in guarded.by_cookie("cus", "GET", "/console/custodian/access").text


def test_headers_are_on_every_reply(guarded: Guarded) -> None:
    """Whatever the route, whoever asks: nothing is kept, framed, sniffed or taken from elsewhere."""
    always = {
        "x-content-type-options",
        "x-frame-options",
        "referrer-policy",
        "content-security-policy",
        "cache-control",
    }
    for method, path in sorted({**API, **CONSOLE}):
        for who in ("nobody", "ann"):
            told = guarded.by_token(who, method, filled(path, lambda _: NOWHERE))
            assert always <= set(told.headers), path
            assert told.headers["cache-control"] == "no-store" or path.startswith("/console/assets/")
            assert "server" not in told.headers


def test_a_method_that_is_not_there_says_which_are(guarded: Guarded) -> None:
    told = guarded.by_token("ann", "PATCH", "/v1/priors/mine")
    assert (told.status_code, told.headers["allow"]) == (405, "DELETE, GET, PUT")
    assert guarded.by_token("nobody", "PATCH", "/v1/priors/mine").status_code == 401
