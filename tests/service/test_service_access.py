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


def build_granted_line(status: int = 200, body: dict[str, Any] | None = None) -> Line:
    return Line(404, status, status, status, body)


def build_owned_line(status: int, cus: int = 404, body: dict[str, Any] | None = None) -> Line:
    return Line(404, 404, status, cus, body)


def build_kept_line(status: int = 200, body: dict[str, Any] | None = None) -> Line:
    return Line(403, 403, 403, status, body)


def about_a_data_set(home: str) -> dict[tuple[str, str], Line]:
    prior = {"question": COUNT["question"], "prior": "normal(100, 9)"}
    return {
        ("GET", home): build_granted_line(),
        ("POST", f"{home}/previews"): build_granted_line(200, COUNT),
        ("POST", f"{home}/answers"): build_granted_line(201, COUNT),
        ("GET", f"{home}/answers/{{answer}}"): build_owned_line(200, 200),
        ("GET", f"{home}/answers/{{answer}}/picture"): build_owned_line(200, 200),
        ("GET", f"{home}/answers/{{answer}}/csv"): build_owned_line(200, 200),
        ("POST", f"{home}/priors"): build_granted_line(200, prior),
        ("GET", f"{home}/budget"): build_granted_line(),
        ("GET", f"{home}/history"): build_granted_line(),
        ("POST", f"{home}/sessions"): build_granted_line(201, SESSION),
        ("GET", f"{home}/sessions/{{session}}"): build_owned_line(200),
        ("POST", f"{home}/sessions/{{session}}/answers"): build_owned_line(201, 404, {"question": COUNT["question"]}),
        ("DELETE", f"{home}/sessions/{{session}}"): build_owned_line(204),
    }


def releases(home: str) -> dict[tuple[str, str], Line]:
    return {
        ("POST", f"{home}/releases"): build_kept_line(202, {"method": "private-columns", "epsilon": "1"}),
        ("POST", f"{home}/releases/previews"): build_kept_line(
            200, {"method": "private-columns", "epsilon": "1", "columns": ["sex"]}
        ),
        ("POST", f"{home}/sweeps"): build_kept_line(202, {"ks": "k=3..5"}),
    }


def pages_about_a_data_set(home: str) -> dict[tuple[str, str], Line]:
    form = {"question": COUNT["question"], "how": "epsilon", "size": "0.1"}
    return {
        ("GET", home): build_granted_line(),
        ("POST", f"{home}/preview"): build_granted_line(200, form),
        ("POST", f"{home}/ask"): build_granted_line(303, form),
        ("GET", f"{home}/answers/{{wanted}}"): build_owned_line(200, 200),
        ("GET", f"{home}/history"): build_granted_line(),
        ("GET", f"{home}/compare"): replace(build_owned_line(200, 200), query="?ids={wanted}"),
    }


API: dict[tuple[str, str], Line] = {
    ("GET", "/openapi.json"): everyone(200, 200),
    ("HEAD", "/openapi.json"): everyone(200, 200),
    ("GET", "/"): everyone(404),  # for programs; a browser is led to the console
    ("GET", "/health"): everyone(200, 200),
    ("GET", "/problems/{name}"): everyone(200, 200),
    ("GET", "/metrics"): build_kept_line(),
    ("GET", "/v1/me"): everyone(200),
    ("GET", "/v1/datasets"): everyone(200),
    **about_a_data_set(REAL),
    **about_a_data_set(REHEARSAL),
    ("GET", "/v1/priors"): everyone(200),
    ("GET", "/v1/priors/{name}"): build_owned_line(200),
    ("PUT", "/v1/priors/{name}"): everyone(200, body={"text": "normal(1, 1)"}),  # each keeps one's own
    ("DELETE", "/v1/priors/{name}"): build_owned_line(204),
    ("GET", "/v1/jobs"): everyone(200),
    ("GET", "/v1/jobs/{job}"): build_owned_line(200, 200),
    ("GET", "/v1/jobs/{job}/files/{name:path}"): build_kept_line(),
    ("GET", "/v1/tokens"): build_kept_line(),
    ("POST", "/v1/tokens"): build_kept_line(201, {"analyst": "zoe"}),
    ("DELETE", "/v1/tokens/{token}"): build_kept_line(204),
    ("GET", "/v1/grants"): build_kept_line(),
    ("PUT", "/v1/grants/{dataset}/{analyst}"): build_kept_line(204),
    ("DELETE", "/v1/grants/{dataset}/{analyst}"): build_kept_line(204),
    ("GET", "/v1/warnings"): build_kept_line(),
    **releases(REAL),
    **releases(REHEARSAL),
    ("GET", f"{REAL}/snapshots"): build_kept_line(),
    ("GET", f"{REAL}/ledger"): build_kept_line(),
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
    ("GET", "/console/jobs/{job}"): build_owned_line(200, 200),
    **pages_about_a_data_set(PAGES),
    **pages_about_a_data_set(REHEARSAL_PAGES),
    ("GET", "/console/custodian"): build_kept_line(),
    ("GET", "/console/custodian/access"): build_kept_line(),
    ("POST", "/console/custodian/access/tokens"): build_kept_line(
        201, {"analyst": "zoe", "role": "analyst", "days": "3", "key": "1" * 32}
    ),
    ("POST", "/console/custodian/access/tokens/{token}/revoke"): build_kept_line(303, {}),
    ("POST", "/console/custodian/access/grants"): build_kept_line(
        303, {"dataset": "registry", "analyst": "zoe", "give": "yes"}
    ),
    ("GET", KEEPING): build_kept_line(),
    ("GET", f"{KEEPING}/publish"): build_kept_line(),
    ("POST", f"{KEEPING}/publish/preview"): build_kept_line(
        200, {"method": "private-columns", "epsilon": "1", "columns": "sex"}
    ),
    ("POST", f"{KEEPING}/publish/release"): build_kept_line(
        303, {"method": "private-columns", "epsilon": "1", "sure": "yes"}
    ),
    ("POST", f"{KEEPING}/publish/sweep"): build_kept_line(303, {"ks": "k=3..5"}),
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

    def send(self, method: str, path: str, headers: dict[str, str], **options: Any) -> Any:
        """One request that carries nothing from the one before."""
        self.service.client.cookies.clear()
        return self.service.client.request(method, path, headers=headers, follow_redirects=False, **options)

    def by_token(self, who: str, method: str, path: str, body: object = None) -> Any:
        secret = self.service.tokens.get(who)
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        return self.send(method, path, headers, **({} if body is None else {"json": body}))

    def by_cookie(
        self, who: str, method: str, path: str, form: dict[str, Any] | None = None, cookie: str | None = None
    ) -> Any:
        session = cookie or self.cookie(who)
        headers = {} if session is None else {"Cookie": f"{COOKIE_NAME}={session}"}
        sent = None if form is None else {"form_token": derive_form_token(session or ""), **form}
        return self.send(method, path, headers, **({} if sent is None else {"data": sent}))

    def cookie(self, who: str) -> str | None:
        """That of a browser in which somebody has just signed in; a page may sign it out."""
        if who in self.people:
            session = sign_in(self.app.service.store, self.people[who])
            if who == "revoked":
                revoke_token(self.app.service.store, self.people[who].id)
            return session
        return "x" * 43 if who == "garbage" else None

    def list_parameter_values(self, path: str) -> Callable[[str], str]:
        """What to put for each parameter of a path: new things of ann's, since a request may end them."""
        home = REHEARSAL if "rehearsal" in path else REAL
        makers: dict[str, Callable[[], str]] = {
            "dataset": lambda: "registry",
            "analyst": lambda: "zoe",
            "topic": lambda: "epsilon",
            "named": lambda: "any",
            "rest:path": lambda: "no/such/page",
            "answer": lambda: self.create(f"{home}/answers", COUNT),
            "wanted": lambda: self.create(f"{home}/answers", COUNT),
            "session": lambda: self.create(f"{home}/sessions", SESSION),
            "job": lambda: self.job("publish" if "files" in path else "ask"),
            "token": lambda: create_token(self.app.service.store, "zed", "analyst")[0].id,
            "name": lambda: next((FIXED[part] for part in path.split("/") if part in FIXED), "") or self.prior(),
            "name:path": lambda: "release.csv",
        }
        return lambda parameter: makers[parameter]()

    def target(self, method: str, path: str) -> Callable[[], str]:
        """A path to what is ann's: new each time where a request ends it, else made once."""
        if method == "DELETE" or path.endswith("/revoke"):
            return lambda: fill_path(path, self.list_parameter_values(path))
        address = fill_path(path, self.list_parameter_values(path))
        return lambda: address

    def create(self, path: str, body: dict[str, str]) -> str:
        reply = self.by_token("ann", "POST", path.format(dataset="registry"), body)
        assert reply.status_code == 201
        return str(reply.json()["id"])

    def prior(self) -> str:
        name = f"mine-{time.time_ns()}"
        assert self.by_token("ann", "PUT", f"/v1/priors/{name}", {"text": "normal(1, 1)"}).status_code == 200
        return name

    def job(self, kind: Any) -> str:
        """A job of ann's: a question that waits, or a release that is done, with a file."""
        name, now = f"{time.time_ns():032x}", time.time()
        waiting = Job(name, kind, "registry", False, "ann", name, "{}", 0.0, now)
        job = waiting if kind == "ask" else replace(waiting, state="done", finished=now)
        folder = get_job_folder(self.app.service.config, add_job(self.app.service.store, job))
        folder.mkdir(parents=True)
        (folder / "release.csv").write_text("a\n1\n")
        return name


@pytest.fixture(scope="module")
def guarded_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    config = build_config(folder, 100)
    schema_text = (folder / "registry.yaml").read_text().replace("epsilon: 3,", "epsilon: 1000,")
    schema_text = schema_text.replace("epsilon: 1,", "epsilon: 1000,")
    (folder / "registry.yaml").write_text(schema_text)
    (folder / "clinic.yaml").write_text(schema_text.replace("name: registry", "name: clinic"))
    with run_service(
        replace(config, datasets=(*config.datasets, DatasetConfig(folder / "clinic.yaml", 0.05)))
    ) as service:
        yield Guarded(service, admit_people(service))


def admit_people(service: InProcessService) -> dict[str, Token]:
    """More people, each with a token."""
    store = service.app.service.store
    tokens_and_secrets = {
        name: create_token(store, name, "analyst", 30, ("registry",)) for name in ("eve", "revoked", "ann")
    }
    tokens_and_secrets["expired"] = create_token(store, "expired", "analyst", 1e-9, ("registry",))
    tokens_and_secrets |= {"bob": create_token(store, "bob", "analyst"), "cus": create_token(store, "cus", "custodian")}
    revoke_token(store, tokens_and_secrets["revoked"][0].id)
    service.tokens.update(
        {name: secret for name, (_, secret) in tokens_and_secrets.items()} | {"garbage": "dsc_" + "x" * 43}
    )
    return {name: token for name, (token, _) in tokens_and_secrets.items()}


def fill_path(path: str, put: Callable[[str], str]) -> str:
    """A path with something for each of its parameters."""
    parts = [part.partition("}") for part in path.split("{")]
    return parts[0][0] + "".join(put(name) + rest for name, _, rest in parts[1:])


def routes(app: MiddlewareStack) -> set[tuple[str, str]]:
    contexts = iter_route_contexts(app.api.routes)
    return {(method, str(one.path)) for one in contexts for method in one.methods or ()}


def test_every_route_has_its_line(guarded_service: Guarded) -> None:
    """A new route is not served before it is said here who may use it."""
    assert routes(guarded_service.app) == set(API) | set(CONSOLE)


@pytest.mark.parametrize(("method", "path"), sorted(API))
def test_a_token_opens_what_its_holder_may_see(guarded_service: Guarded, method: str, path: str) -> None:
    line, target = API[method, path], guarded_service.target(method, path)
    for who in NOBODIES:
        reply = guarded_service.by_token(who, method, target(), line.body)
        assert reply.status_code == line.nobody, who
    for who in SOMEBODIES:
        reply = guarded_service.by_token(who, method, target(), line.body)
        assert reply.status_code == getattr(line, who), (who, reply.text)


@pytest.mark.parametrize(("method", "path"), sorted(CONSOLE))
def test_a_cookie_opens_the_pages_its_holder_may_see(guarded_service: Guarded, method: str, path: str) -> None:
    line = CONSOLE[method, path]
    target = guarded_service.target(method, path + line.query)
    to_sign_in = 303 if line.nobody == 401 and "sign-in" not in path else line.nobody
    for who in NOBODIES:
        reply = guarded_service.by_cookie(who, method, target(), line.body)
        assert reply.status_code == to_sign_in, who
        assert reply.headers.get("location", "/console/").partition("?")[0] == "/console/"
    for who in SOMEBODIES:
        reply = guarded_service.by_cookie(who, method, target(), line.body)
        assert reply.status_code == getattr(line, who), (who, reply.text)


READ = sorted(path for method, path in API if method == "GET")
CHANGED = sorted((method, path) for method, path in API if method not in {"GET", "HEAD"})


@pytest.mark.parametrize("path", READ)
def test_a_cookie_reads_what_a_token_reads(guarded_service: Guarded, path: str) -> None:
    target = guarded_service.target("GET", path)
    for who in SOMEBODIES:
        assert guarded_service.by_cookie(who, "GET", target()).status_code == getattr(API["GET", path], who)


@pytest.mark.parametrize(("method", "path"), CHANGED)
def test_a_cookie_changes_nothing_without_the_form_token(guarded_service: Guarded, method: str, path: str) -> None:
    """Another site can make a browser send the cookie, but not the header."""
    line, cookie, other = API[method, path], guarded_service.cookie("cus") or "", guarded_service.cookie("cus") or ""
    headers, target = {"Cookie": f"{COOKIE_NAME}={cookie}"}, guarded_service.target(method, path)
    for wrong in (None, "", "x", derive_form_token(other), derive_form_token(cookie).upper(), "é"):
        form_header = {} if wrong is None else {"X-Discreet-Form": wrong.encode()}
        reply = guarded_service.send(method, target(), headers | form_header, json=line.body)
        assert (reply.status_code, reply.json()["type"]) == (403, "/problems/forbidden"), wrong
    right = {"X-Discreet-Form": derive_form_token(cookie)}
    reply = guarded_service.send(method, target(), headers | right, json=line.body)
    assert reply.status_code == line.cus


FORMS = sorted((method, path) for method, path in CONSOLE if method == "POST" and path != "/console/sign-in")


@pytest.mark.parametrize(("method", "path"), FORMS)
def test_a_form_of_another_site_changes_nothing(guarded_service: Guarded, method: str, path: str) -> None:
    form, target = CONSOLE[method, path].body or {}, guarded_service.target(method, path)
    for wrong in ("", "x", derive_form_token(guarded_service.cookie("cus") or ""), "é"):
        reply = guarded_service.by_cookie("cus", method, target(), form | {"form_token": wrong})
        assert reply.status_code == 403, wrong


BOUND = sorted((method, path) for method, path in {**API, **CONSOLE} if "{dataset}" in path)


def list_visible(reply: Any) -> tuple[int, list[tuple[str, str]], bytes]:
    """All of a reply."""
    return reply.status_code, sorted(reply.headers.multi_items()), reply.content


@pytest.mark.parametrize(("method", "path"), BOUND)
def test_what_is_not_granted_is_told_as_what_is_not_there(guarded_service: Guarded, method: str, path: str) -> None:
    """Status, headers and body are the same, byte by byte, for a data set of others and one that never was."""
    line = {**API, **CONSOLE}[method, path]
    cookie = guarded_service.cookie("ann")
    replies = []
    for name in ("clinic", "nowhere"):

        def put(parameter: str, name: str = name) -> str:
            return name if parameter == "dataset" else NOWHERE if parameter in OBJECTS else "zoe"

        if (method, path) in API:
            replies.append(guarded_service.by_token("ann", method, fill_path(path, put), line.body))
        else:
            replies.append(guarded_service.by_cookie("ann", method, fill_path(path, put), line.body, cookie))
    assert list_visible(replies[0]) == list_visible(replies[1])
    assert replies[0].status_code == (403 if line.ann == 403 else 404)


OWNED = sorted((method, path) for method, path in API if API[method, path].eve == 404)


@pytest.mark.parametrize(("method", "path"), OWNED)
def test_what_is_anothers_is_told_as_what_is_not_there(guarded_service: Guarded, method: str, path: str) -> None:
    own_id, body = guarded_service.list_parameter_values(path), API[method, path].body

    def nothing(parameter: str) -> str:
        return NOWHERE if parameter in OBJECTS else own_id(parameter)

    of_ann = guarded_service.by_token("eve", method, fill_path(path, own_id), body)
    of_nobody = guarded_service.by_token("eve", method, fill_path(path, nothing), body)
    assert list_visible(of_ann) == list_visible(of_nobody)


def test_every_way_of_not_being_there_is_one_reply(guarded_service: Guarded) -> None:
    answer = guarded_service.create(f"{REAL}/answers", COUNT)
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
    replies = {why: list_visible(guarded_service.by_token("ann", "GET", path)) for why, path in paths.items()}
    assert len({repr(one) for one in replies.values()}) == 1, replies
    assert replies["no such path"][0] == 404


def test_only_data_sets_that_are_granted_are_suggested(guarded_service: Guarded) -> None:
    """A name like one that is not granted is told as any other."""
    replies = {
        name: guarded_service.by_token("ann", "GET", f"/v1/datasets/{name}/budget")
        for name in ("registyr", "clinci", "clinic", "nowhere")
    }
    assert "did you mean 'registry'?" in replies["registyr"].text
    assert {repr(list_visible(replies[name])) for name in ("clinci", "clinic")} == {
        repr(list_visible(replies["nowhere"]))
    }
    assert "did you mean 'clinic'?" in guarded_service.by_token("cus", "GET", "/v1/datasets/clinci/budget").text


def test_an_answer_is_of_one_data_set(guarded_service: Guarded) -> None:
    """Not even a custodian, who sees all data sets, finds it under another."""
    answer = guarded_service.create(f"{REAL}/answers", COUNT)
    assert guarded_service.by_token("cus", "GET", f"{HOME}/answers/{answer}").status_code == 200
    assert guarded_service.by_token("cus", "GET", f"/v1/datasets/clinic/answers/{answer}").status_code == 404


def test_a_grant_that_is_taken_back_closes_what_was_open(guarded_service: Guarded) -> None:
    """Answers, jobs and sessions of one's own are closed with the data set, for browsers too."""
    store = guarded_service.app.service.store
    token, secret = create_token(store, "fay", "analyst", 30, ("registry",))
    guarded_service.service.tokens["fay"], guarded_service.people["fay"] = secret, token
    answer = guarded_service.by_token("fay", "POST", f"{HOME}/answers", COUNT).json()["id"]
    session = guarded_service.by_token("fay", "POST", f"{HOME}/sessions", SESSION).json()["id"]
    job = Job(f"{time.time_ns():032x}", "ask", "registry", False, "fay", "k", "{}", 0.0, time.time())
    add_job(store, job)
    paths = (f"{HOME}/answers/{answer}", f"{HOME}/sessions/{session}", f"/v1/jobs/{job.id}", f"{HOME}/history")
    assert {guarded_service.by_token("fay", "GET", path).status_code for path in paths} == {200}
    assert guarded_service.by_token("cus", "DELETE", "/v1/grants/registry/fay").status_code == 204
    assert {guarded_service.by_token("fay", "GET", path).status_code for path in paths} == {404}
    assert guarded_service.by_token("fay", "GET", "/v1/jobs").json() == {"jobs": []}
    assert guarded_service.by_cookie("fay", "GET", f"/console/datasets/registry/answers/{answer}").status_code == 404
    grant_dataset(store, "registry", "fay")
    assert {guarded_service.by_token("fay", "GET", path).status_code for path in paths} == {200}


def test_lists_hold_only_what_is_ones_own(guarded_service: Guarded) -> None:
    job, prior, answer = (
        guarded_service.job("ask"),
        guarded_service.prior(),
        guarded_service.create(f"{REAL}/answers", COUNT),
    )
    for path, hers in (("/v1/jobs", job), ("/v1/priors", prior), (f"{HOME}/history", answer)):
        assert hers in guarded_service.by_token("ann", "GET", path).text
        assert hers not in guarded_service.by_token("eve", "GET", path).text
    assert [one["name"] for one in guarded_service.by_token("ann", "GET", "/v1/datasets").json()["datasets"]] == [
        "registry"
    ]
    assert guarded_service.by_token("ann", "GET", "/v1/datasets").json()["datasets"][0]["engine"] is None
    assert "clinic" in guarded_service.by_token("cus", "GET", "/v1/datasets").text


def test_the_same_key_of_two_analysts_is_two_requests(guarded_service: Guarded) -> None:
    fresh = COUNT | {"fresh": True}
    ids = []
    for who in ("ann", "eve"):
        headers = {"Authorization": f"Bearer {guarded_service.service.tokens[who]}", "Idempotency-Key": "one"}
        ids.append(guarded_service.send("POST", f"{HOME}/answers", headers, json=fresh).json()["id"])
    assert ids[0] != ids[1]


@pytest.mark.parametrize("how", ["?token={}", "?access_token={}", "?Authorization=Bearer%20{}", "?discreet_session={}"])
def test_a_token_in_the_address_opens_nothing(guarded_service: Guarded, how: str) -> None:
    """Addresses are written down by browsers and proxies."""
    for secret in (guarded_service.service.tokens["cus"], guarded_service.cookie("cus")):
        assert guarded_service.send("GET", "/v1/me" + how.format(secret), {}).status_code == 401


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "bearer  ", "Basic {}", "{}", "Token {}", "Bearer {}x", "Bearer x{}", "Bearer {}, {}"],
)
def test_only_a_whole_token_opens_anything(guarded_service: Guarded, value: str) -> None:
    secret = guarded_service.service.tokens["cus"]
    replies = [guarded_service.send("GET", "/v1/me", {"Authorization": value.format(secret, secret)})]
    replies.append(guarded_service.send("GET", "/v1/me", {}))
    assert list_visible(replies[0]) == list_visible(replies[1])
    assert replies[0].status_code == 401
    assert replies[0].headers["www-authenticate"] == "Bearer"


def test_a_hash_from_the_store_opens_nothing(guarded_service: Guarded) -> None:
    """Who reads the store learns no token and no cookie."""
    secrets = [guarded_service.service.tokens["cus"], guarded_service.cookie("cus") or ""]
    for secret in secrets:
        for entry in (hash_secret(secret), f"dsc_{hash_secret(secret)}"):
            assert guarded_service.send("GET", "/v1/me", {"Authorization": f"Bearer {entry}"}).status_code == 401
            assert guarded_service.send("GET", "/v1/me", {"Cookie": f"{COOKIE_NAME}={entry}"}).status_code == 401
    database = Path(guarded_service.service.config.store)
    stored = b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))
    assert [hash_secret(entry).encode() in stored for entry in secrets] == [True, True]
    assert not [entry for entry in (*secrets, *guarded_service.service.tokens.values()) if entry.encode() in stored]


def test_a_cookie_is_no_token_and_a_token_no_cookie(guarded_service: Guarded) -> None:
    token, cookie = guarded_service.service.tokens["cus"], guarded_service.cookie("cus")
    assert guarded_service.send("GET", "/v1/me", {"Authorization": f"Bearer {cookie}"}).status_code == 401
    assert guarded_service.send("GET", "/v1/me", {"Cookie": f"{COOKIE_NAME}={token}"}).status_code == 401


def test_of_a_token_and_a_cookie_the_token_counts(guarded_service: Guarded) -> None:
    """And a token that is not valid is not made good by a cookie."""
    cookie = {"Cookie": f"{COOKIE_NAME}={guarded_service.cookie('cus')}"}
    both = cookie | {"Authorization": f"Bearer {guarded_service.service.tokens['ann']}"}
    assert guarded_service.send("GET", "/v1/me", both).json()["name"] == "ann"
    assert guarded_service.send("GET", "/v1/tokens", both).status_code == 403
    assert (
        guarded_service.send("PUT", "/v1/priors/b", both, json={"text": "point(1)"}).status_code == 200
    )  # no form token
    for wrong in ("Bearer dsc_wrong", "Basic x", ""):
        assert guarded_service.send("GET", "/v1/me", cookie | {"Authorization": wrong}).status_code == 401


def signed_in(service: InProcessService, who: str) -> Any:
    service.client.cookies.clear()
    return service.client.post("/console/sign-in", data={"token": service.tokens[who]}, follow_redirects=False)


def test_a_cookie_is_for_the_service_alone(guarded_service: Guarded, tmp_path: Path) -> None:
    """No script reads it, no other site sends it, and under TLS it never travels in the clear."""
    flags = set(signed_in(guarded_service.service, "ann").headers["set-cookie"].split("; ")[1:])
    assert flags == {"HttpOnly", "SameSite=strict", "Path=/"}
    config = replace(build_config(tmp_path, 20), tls=TLS(tmp_path / "certificate", tmp_path / "key"))
    with run_service(config) as safe:
        reply = signed_in(safe, "ann")
    assert set(reply.headers["set-cookie"].split("; ")[1:]) == {*flags, "Secure"}
    assert reply.headers["strict-transport-security"].startswith("max-age=")


def test_signing_in_twice_makes_two_cookies_and_signing_out_ends_one(guarded_service: Guarded) -> None:
    cookies = []
    for _ in range(2):
        signed_in(guarded_service.service, "ann")
        cookies.append(guarded_service.service.client.cookies[COOKIE_NAME])
    assert cookies[0] != cookies[1]
    headers = {"Cookie": f"{COOKIE_NAME}={cookies[0]}"}
    assert (
        guarded_service.send(
            "POST", "/console/sign-out", headers, data={"form_token": derive_form_token(cookies[0])}
        ).status_code
        == 303
    )
    assert guarded_service.send("GET", "/v1/me", headers).status_code == 401
    assert guarded_service.send("GET", "/v1/me", {"Cookie": f"{COOKIE_NAME}={cookies[1]}"}).json()["name"] == "ann"


def test_a_token_that_is_revoked_signs_its_browsers_out(guarded_service: Guarded) -> None:
    store = guarded_service.app.service.store
    token, secret = create_token(store, "gus", "custodian")
    cookie = sign_in(store, token)
    headers = {"Cookie": f"{COOKIE_NAME}={cookie}"}
    assert guarded_service.send("GET", "/console/custodian", headers).status_code == 200
    assert guarded_service.by_token("cus", "DELETE", f"/v1/tokens/{token.id}").status_code == 204
    assert guarded_service.send("GET", "/console/custodian", headers).status_code == 303
    assert guarded_service.send("GET", "/v1/me", headers).status_code == 401
    assert guarded_service.send("GET", "/v1/me", {"Authorization": f"Bearer {secret}"}).status_code == 401


def test_a_token_is_told_once(guarded_service: Guarded) -> None:
    document = guarded_service.by_token("cus", "POST", "/v1/tokens", {"analyst": "hal"}).json()
    listed = guarded_service.by_token("cus", "GET", "/v1/tokens")
    assert document["id"] in listed.text
    assert document["token"] not in listed.text
    assert document["token"] not in guarded_service.by_cookie("cus", "GET", "/console/custodian/access").text


def test_headers_are_on_every_reply(guarded_service: Guarded) -> None:
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
            reply = guarded_service.by_token(who, method, fill_path(path, lambda _: NOWHERE))
            assert always <= set(reply.headers), path
            assert reply.headers["cache-control"] == "no-store" or path.startswith("/console/assets/")
            assert "server" not in reply.headers


def test_a_method_that_is_not_there_says_which_are(guarded_service: Guarded) -> None:
    reply = guarded_service.by_token("ann", "PATCH", "/v1/priors/mine")
    assert (reply.status_code, reply.headers["allow"]) == (405, "DELETE, GET, PUT")
    assert guarded_service.by_token("nobody", "PATCH", "/v1/priors/mine").status_code == 401
