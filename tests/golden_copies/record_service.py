"""The service in the recorder's own process: what it replies to every route, its pages, and what it keeps."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import Any

import fixed_machine

from fold_json import fold
from package_places import find
from run_steps import Case

CONFIG = """\
datasets:
  - schema: registry.yaml
    deadline: 0.05
  - schema: queued/registry.yaml
    deadline: 0.05
    jobs: yes
store: service.db
padding: no
limits: {rate: 100000, burst: 100000, together: 1000, previews: 100000}
"""
COUNT = {"question": "SELECT COUNT(*) FROM registry WHERE smoker", "epsilon": "0.1"}
HOME = "/v1/datasets/registry"
KEEPING = "/console/custodian"
WHO = {"ann": ("--dataset", "registry"), "bob": (), "cus": ("--role", "custodian")}
UNSAID = {"date", "content-length", "last-modified"}
"""Headers that are not copied: when a reply was sent or a file written, and how long it is, as the last digits are."""
OFTEN_OTHERS = ("content-type", "location", "set-cookie", "idempotency-key", "etag", "content-disposition", "allow")
"""Headers that are told of each reply; the others come in a few sets, each of which is written out once."""
BLOCKS: dict[str, int] = {}
SHOWN: set[int] = set()
DIVIDER = "@@@@ "
HEADS = re.compile(r'<meta name="form-token" content="([^"]*)">')
KEY = re.compile(r'name="key" value="([^"]*)"')


class Talk:
    """A conversation with a service, printed as it goes on; a line of its own says which copy comes next."""

    def __init__(self, tokens: dict[str, str]) -> None:
        from starlette.testclient import TestClient

        os.umask(0o077)
        self.app = find("make_app")(find("read_config")("service.yaml"))
        self.tokens, self.used, self.count = tokens, set[tuple[str, str]](), 0
        self.client = TestClient(self.app, raise_server_exceptions=False, follow_redirects=False)

    def say(self, who: str | None, method: str, path: str, body: object = None, **headers: str) -> Any:
        """Send a request in somebody's name, and print it with the reply."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if who is not None:
            sent["Authorization"] = f"Bearer {self.tokens[who]}"
        payload: dict[str, Any] = {"content": body} if isinstance(body, str) else {} if body is None else {"json": body}
        body_text = "" if body is None else f" {body if isinstance(body, str) else json.dumps(body)}"
        print(f"> {method} {path} by {who or 'nobody'}{body_text}")
        for name, value in headers.items():
            print(f"> {name.replace('_', '-')}: {value}")
        self.count += 1
        fixed_machine.begin(f"request {self.count}")  # whatever the service drew in between
        reply = self.client.request(method, path, headers=sent, **payload)
        self.used.add((method, path))
        show_reply(reply)
        return reply

    def get(self, who: str | None, path: str) -> Any:
        """Send a request without a body."""
        return self.say(who, "GET", path)

    def post(self, who: str | None, path: str, body: object, **headers: str) -> Any:
        """Send a request with a body."""
        return self.say(who, "POST", path, body, **headers)

    def work(self) -> None:
        """Run the jobs that wait."""
        fixed_machine.begin("job 0")
        for number in count(1):
            if not find("run_next")(self.app.service, "runner"):
                return
            fixed_machine.begin(f"job {number}")
            print("(a job was run)\n")


def show_reply(reply: Any, before: str = "") -> None:
    """Print a reply: its status, its headers, and its body in lines; of a page, how it differs from one before it."""
    print(f"< {reply.status_code}")
    headers = {name: value for name, value in sorted(reply.headers.items()) if name not in UNSAID}
    if "last-modified" in reply.headers:
        headers.pop("etag", None)  # it is made of when the file was written
    changing_headers = {name: headers.pop(name) for name in OFTEN_OTHERS if name in headers}
    number = BLOCKS.setdefault(json.dumps(headers), len(BLOCKS) + 1)
    if number not in SHOWN:
        print(*(f"< {name}: {value}" for name, value in headers.items()), sep="\n")
        SHOWN.add(number)
    print(
        *(f"< {name}: {value}" for name, value in changing_headers.items()),
        f"< (all other headers: set {number})",
        sep="\n",
    )
    kind = reply.headers.get("content-type", "")
    if "json" in kind:
        print(fold(reply.json()))
    elif "html" in kind:
        print(_shorten_page(reply.text, before))
    elif reply.content:
        print(reply.text)
    print()


def _shorten_page(page: str, before: str) -> str:
    """Return what a page has between its frame, which is hashed; of one like the page before, the lines that differ."""
    title, main = (
        page[page.index("<title>") : page.index("</title>")],
        page[page.index("<main") : page.index("</main>")],
    )
    frame = hashlib.sha256(page.replace(main, "").encode()).hexdigest()
    if "<main" in before:
        # The schema stands in an attribute of every such form, and is on the page before.
        main, before = (re.sub(r'data-schema="[^"]*"', 'data-schema="..."', one) for one in (main, before))
        main = "\n".join(
            unified_diff(before[before.index("<main") :].splitlines(), main.splitlines(), lineterm="", n=1)
        )
    return f"{title}\n{main}\n(the frame of this page has SHA-256 {frame})"


def begin(name: str) -> None:
    """Say which copy comes next."""
    print(f"{DIVIDER}{name}")


def make(registered: Path) -> Iterator[Case]:
    """Yield the replies of the service, its pages, and its tables."""
    yield from _make(registered, "api", _talk)
    yield from _make(registered, "console", _browse)


def _make(registered: Path, area: str, talk: Any) -> Iterator[Case]:
    """Yield a case for each part of what a talk printed, and the tables that it left."""
    case = Case(f"service/{area}-tables", registered)
    case.write("service.yaml", CONFIG)
    (case.folder / "queued").mkdir()
    for path in registered.iterdir():
        if path.is_file():
            (case.folder / "queued" / path.name).write_bytes(path.read_bytes())
    case.change("queued/registry.yaml", ("name: registry", "name: queued"))
    tokens = {}
    for who, words in WHO.items():
        tokens[who] = case.run("token", "create", "--config", "service.yaml", "--analyst", who, *words).strip()
    case.run("token", "grant", "ann", "queued", "--config", "service.yaml")
    case.run("check", "queued/registry.yaml")
    transcript = case.call(f"the talk of {area}", lambda: talk(Talk(tokens)))
    case.parts.pop()  # it is in copies of its own
    for part in transcript.split(f"\n{DIVIDER}")[1:]:
        name, _, text = part.partition("\n")
        page_case = Case(f"service/{area}-{name}")
        page_case.add(f"service: {name}", text.replace(str(case.folder), "{folder}"))
        yield page_case
    case.show_tables("service.db")
    case.show_tables("registry.discreet/ledger.db", ("ledger_entries", "ledger_answers", "ledger_parts"))
    case.show_tables("queued/queued.discreet/ledger.db", ("ledger_entries", "ledger_answers"))
    yield case


def _talk(talk: Talk) -> None:
    """Use every route once or more."""
    print()
    with talk.client:
        for part in TALKS:
            part(talk)
        begin("routes-that-were-not-used")
        _print_unused(talk.client.get("/openapi.json").json(), talk.used)


def _talk_openapi(talk: Talk) -> None:
    """Print the description of all routes."""
    begin("openapi")
    document = talk.client.get("/openapi.json").json()
    print(fold(json.loads(json.dumps(document, sort_keys=True))))


def _talk_open_routes(talk: Talk) -> None:
    """Use what is open to anyone, or would be if it were."""
    begin("open-routes")
    for path in ("/health", "/", "/problems/conflict", "/problems/none", "/nowhere", "/v1/datasets", "/metrics"):
        talk.get(None, path)
    talk.say(None, "GET", "/", Accept="text/html")
    talk.say(None, "GET", "/v1/me", Authorization="Bearer dsc_wrong")


def _talk_data_sets(talk: Talk) -> None:
    """Look at data sets in several names."""
    begin("data-sets")
    for who in ("ann", "bob", "cus"):
        talk.get(who, "/v1/me")
        talk.get(who, "/v1/datasets")
    for path in ("", "/budget", "/history"):
        talk.get("ann", f"{HOME}{path}")
    talk.get("bob", HOME)


def _talk_answers(talk: Talk) -> None:
    """Ask, ask again, and look at answers by their ids."""
    begin("answers")
    talk.post("ann", f"{HOME}/previews", COUNT)
    answer = talk.post("ann", f"{HOME}/answers", COUNT).json()
    talk.post("ann", f"{HOME}/answers", COUNT)
    known = COUNT | {"prior": "normal(100, 10)", "fresh": True}
    second = talk.post("ann", f"{HOME}/answers", known, Idempotency_Key="k1").json()
    talk.post("ann", f"{HOME}/answers", known, Idempotency_Key="k1")
    talk.post("ann", f"{HOME}/answers", COUNT, Idempotency_Key="k1")
    rollup = {
        "question": "SELECT sex, smoker, COUNT(*) FROM registry GROUP BY ROLLUP (sex, smoker)",
        "epsilon": "0.1",
    }
    talk.post("ann", f"{HOME}/answers", rollup)
    histogram = {"question": "SELECT HISTOGRAM(age, 4) FROM registry", "epsilon": "0.1", "ranges": ["20..40"]}
    third = talk.post("ann", f"{HOME}/answers", histogram).json()
    begin("answers-again")
    for one in (answer, second, third):
        for part in ("", "/csv"):
            talk.get("ann", f"{HOME}/answers/{one['id']}{part}")
    talk.get("ann", f"{HOME}/answers/{third['id']}/picture")
    talk.get("ann", f"{HOME}/answers/nothing")
    talk.get("ann", f"{HOME}/budget")
    talk.get("ann", f"{HOME}/history?limit=2")
    talk.get("cus", f"{HOME}/history?limit=1&before=4")


def _talk_refusals(talk: Talk) -> None:
    """Send what is refused."""
    begin("refusals")
    for body in (
        {},
        COUNT | {"epsilon": "50"},
        COUNT | {"epsilon": "-1"},
        COUNT | {"epsilon": []},
        COUNT | {"question": "SELECT nonsense"},
        COUNT | {"ranges": ["1..2"]},
        COUNT | {"prior": "@none"},
        COUNT | {"unknown": 1},
        COUNT | {"stored_only": True, "fresh": True},
        "not JSON",
        [],
    ):
        talk.post("ann", f"{HOME}/answers", body)
    talk.say("ann", "PATCH", f"{HOME}/answers")
    talk.say("ann", "GET", "/v1/tokens")
    talk.say("ann", "GET", f"{HOME}/history?limit=0")
    talk.post("ann", f"{HOME}/answers", COUNT, Idempotency_Key="k" * 400)


def _talk_priors(talk: Talk) -> None:
    """Keep priors, and use one."""
    begin("priors")
    talk.post("ann", f"{HOME}/priors", {"question": COUNT["question"], "prior": "normal(100, 10)"})
    talk.say("ann", "PUT", "/v1/priors/mine", {"text": "normal(100, 10)", "note": "a survey"})
    talk.say("ann", "PUT", "/v1/priors/a b", {"text": "normal(100, 10)"})
    for path in ("/v1/priors", "/v1/priors/mine", "/v1/priors/none"):
        talk.get("ann", path)
    talk.post("ann", f"{HOME}/previews", COUNT | {"prior": "@mine"})
    talk.say("ann", "DELETE", "/v1/priors/mine")
    talk.say("ann", "DELETE", "/v1/priors/mine")


def _talk_sessions(talk: Talk) -> None:
    """Open a session, count in it, end it."""
    begin("sessions")
    opened = talk.post("ann", f"{HOME}/sessions", {"noise_scale": "20", "epsilon": "0.1"}, Idempotency_Key="s").json()
    place = f"{HOME}/sessions/{opened['id']}"
    talk.get("ann", place)
    for _ in range(2):
        talk.post("ann", f"{place}/answers", {"question": COUNT["question"]})
    talk.post("ann", f"{place}/answers", {"question": "SELECT AVG(age) FROM registry"})
    talk.say("ann", "DELETE", place)
    talk.get("ann", place)


def _talk_rehearsal(talk: Talk) -> None:
    """Use all routes of a rehearsal."""
    begin("rehearsal")
    rehearsal = HOME.replace("/v1/", "/v1/rehearsal/")
    talk.get("ann", rehearsal)
    tried = talk.post("ann", f"{rehearsal}/answers", COUNT | {"epsilon": "0.5"}).json()
    talk.get("ann", f"{rehearsal}/answers/{tried['id']}")
    talk.post("ann", f"{rehearsal}/previews", COUNT)
    for path in ("/budget", "/history", f"/answers/{tried['id']}/csv"):
        talk.get("ann", f"{rehearsal}{path}")
    talk.post("ann", f"{rehearsal}/priors", {"question": COUNT["question"], "prior": "uniform(80, 90)"})
    opened = talk.post("ann", f"{rehearsal}/sessions", {"noise_scale": "20", "epsilon": "0.1"}).json()
    talk.get("ann", f"{rehearsal}/sessions/{opened['id']}")
    talk.post("ann", f"{rehearsal}/sessions/{opened['id']}/answers", {"question": COUNT["question"]})
    talk.say("ann", "DELETE", f"{rehearsal}/sessions/{opened['id']}")
    talk.get("ann", f"{rehearsal}/answers/{tried['id']}/picture")
    talk.post("cus", f"{rehearsal}/releases", {"method": "mdav", "k": 20, "report": False})
    talk.post(
        "cus", f"{rehearsal}/releases/previews", {"epsilon": "1", "method": "private-columns", "columns": ["age"]}
    )
    talk.post("cus", f"{rehearsal}/sweeps", {"ks": "k=5..6", "methods": ["mdav"]})


def _talk_keeping(talk: Talk) -> None:
    """Look after tokens and grants, and look at what a custodian may see."""
    begin("keeping")
    talk.get("cus", "/v1/tokens")
    token = talk.post("cus", "/v1/tokens", {"analyst": "dan", "days": 2, "datasets": ["registry"]}).json()
    talk.post("cus", "/v1/tokens", {"analyst": "dan", "datasets": ["nothing"]})
    talk.say("cus", "DELETE", f"/v1/tokens/{token['id']}")
    talk.say("cus", "DELETE", "/v1/tokens/nothing")
    talk.say("cus", "PUT", "/v1/grants/registry/eve")
    talk.get("cus", "/v1/grants")
    talk.say("cus", "DELETE", "/v1/grants/registry/eve")
    for path in ("/v1/warnings", f"{HOME}/snapshots", f"{HOME}/ledger", f"{HOME}/budget"):
        talk.get("cus", path)


def _talk_jobs(talk: Talk) -> None:
    """Queue jobs, run them, and fetch what they made."""
    begin("jobs")
    talk.post(
        "ann", "/v1/datasets/queued/answers", COUNT | {"question": COUNT["question"].replace("registry", "queued")}
    )
    talk.post("cus", f"{HOME}/releases", {"method": "mdav", "k": 20, "report": False}, Idempotency_Key="r")
    talk.post("cus", f"{HOME}/releases", {"method": "magic"})
    talk.post("cus", f"{HOME}/releases/previews", {"epsilon": "1", "columns": ["age", "sex"]})
    talk.post("cus", f"{HOME}/sweeps", {"ks": "k=5..6", "methods": ["mdav"]})
    talk.work()
    jobs = talk.get("cus", "/v1/jobs").json()["jobs"]
    for job in jobs:
        talk.get("cus", f"/v1/jobs/{job['id']}")
        for file in job.get("files") or ():
            name = file if isinstance(file, str) else file["name"]
            reply = talk.client.get(
                f"/v1/jobs/{job['id']}/files/{name}", headers={"Authorization": f"Bearer {talk.tokens['cus']}"}
            )
            print(f"(file {name}: {reply.status_code}, {reply.headers.get('content-type')})")
            talk.used.add(("GET", f"/v1/jobs/{job['id']}/files/{name}"))
            if name.endswith(".json"):
                show_reply(reply)
    talk.get("ann", "/v1/jobs")


def _talk_metrics(talk: Talk) -> None:
    """Print what is measured."""
    begin("metrics")
    # How long requests took is measured, and is the one thing that the clock tells here.
    text = talk.client.get("/metrics", headers={"Authorization": f"Bearer {talk.tokens['cus']}"}).text
    talk.used.add(("GET", "/metrics"))
    print(re.sub(r"(seconds\S*) [-0-9.e+]+$", r"\1 {seconds}", text, flags=re.MULTILINE))


TALKS = (
    _talk_openapi,
    _talk_open_routes,
    _talk_data_sets,
    _talk_answers,
    _talk_refusals,
    _talk_priors,
    _talk_sessions,
    _talk_rehearsal,
    _talk_keeping,
    _talk_jobs,
    _talk_metrics,
)


def _print_unused(document: Any, used: set[tuple[str, str]]) -> None:
    """Print the routes of the description that no request was sent to."""
    for path, methods in sorted(document["paths"].items()):
        pattern = re.compile(
            re.sub(r"\\{[^/]*?:?path\\}|\\{name\\}$", ".+", re.sub(r"\{\w+\}", "[^/]+", path)) + r"(\?.*)?"
        )
        for method in sorted(methods):
            if not any(sent == method.upper() and pattern.fullmatch(to) for sent, to in used):
                print(method.upper(), path)


class Browser:
    """A browser of somebody who is signed in; it keeps cookies and the token of the form that it saw last."""

    def __init__(self, talk: Talk, who: str) -> None:
        from starlette.testclient import TestClient

        self.client, self.form = TestClient(talk.app, follow_redirects=False), ""
        self.who, self.count = who, 0
        fixed_machine.begin(f"{who} signs in")
        print(f"> POST /console/sign-in by {who}")
        show_reply(self.client.post("/console/sign-in", data={"token": talk.tokens[who]}))

    def see(self, path: str, shown: bool = True) -> Any:
        """Look at a page, and print it."""
        self.count += 1
        fixed_machine.begin(f"{self.who} {self.count} sees {path}")
        reply = self.client.get(path)
        form_token = HEADS.search(reply.text)
        self.form = form_token[1] if form_token else ""
        if shown:
            print(f"> GET {path}")
            show_reply(reply)
        return reply

    def send(self, page: str, path: str, fields: dict[str, Any]) -> Any:
        """Fill in a form of a page, send it, and print the reply."""
        before = self.see(page, shown=False).text
        key = KEY.search(before)
        print(f"> POST {path} {json.dumps(fields)}")
        fixed_machine.begin(f"{self.who} {self.count} sends {path}")
        reply = self.client.post(path, data={"form_token": self.form, "key": key[1] if key else ""} | fields)
        show_reply(reply, before)
        return reply


def _browse(talk: Talk) -> None:
    """Look at every page, and send every form."""
    print()
    with talk.client:
        _browse_open(talk)
        _browse_as_analyst(talk)
        _browse_as_custodian(talk)


def _browse_open(talk: Talk) -> None:
    """Look at what is open to anyone."""
    begin("open-pages")
    talk.get(None, "/console/")
    talk.get(None, "/console/datasets")
    talk.get(None, "/console/explain/epsilon")
    talk.get(None, "/console/explain/nothing")
    begin("explanations")
    for topic in (
        "budget",
        "chain",
        "error",
        "guarantee",
        "interval",
        "posterior",
        "prior",
        "reconciled",
        "rehearsal",
        "time",
        "weaker",
    ):
        page = talk.client.get(f"/console/explain/{topic}").text
        print(page[page.index("<main") : page.index("</main>")])
    begin("assets")
    page = talk.client.get("/console/").text
    for address in sorted(set(re.findall(r'"(/console/assets/[^"]+)"', page))):
        reply = talk.client.get(address)
        print(
            address,
            reply.status_code,
            reply.headers["content-type"],
            reply.headers["etag"],
            reply.headers["cache-control"],
        )


def _browse_as_analyst(talk: Talk) -> None:
    """Sign in, ask, look at answers, sign out."""
    home = "/console/datasets/registry"
    asked = {"question": COUNT["question"], "how": "epsilon", "size": "0.1"}
    begin("sign-in")
    print("> POST /console/sign-in by nobody")
    show_reply(talk.client.post("/console/sign-in", data={"token": "dsc_wrong"}))
    ann = Browser(talk, "ann")
    begin("frames")
    for browser, path in ((talk, "/console/"), (ann, "/console/datasets")):
        page = browser.client.get(path).text
        print(page[: page.index("<main")], page[page.index("</main>") :], sep="...")
    begin("datasets")
    ann.see("/console/")
    ann.see("/console/datasets")
    begin("ask")
    ann.see(home)
    begin("preview")
    ann.send(home, f"{home}/preview", asked)
    begin("answer")
    reply = ann.send(home, f"{home}/ask", asked | {"prior": "normal(100, 10)"})
    ann.see(reply.headers["location"])
    begin("table")
    counts_reply = ann.send(
        home, f"{home}/ask", asked | {"question": "SELECT sex, COUNT(*) FROM registry GROUP BY sex"}
    )
    ann.see(counts_reply.headers["location"])
    begin("refused")
    ann.send(home, f"{home}/ask", asked | {"size": "7"})
    begin("history-and-compare")
    ann.see(f"{home}/history")
    ids = [one.headers["location"].rsplit("/", 1)[1] for one in (reply, counts_reply)]
    ann.see(f"{home}/compare?ids={ids[0]}")
    begin("rehearsal")
    ann.see("/console/rehearsal/datasets/registry/history")
    begin("not-for-analysts")
    ann.see(KEEPING)
    ann.see("/console/nowhere")
    begin("sign-out")
    ann.send("/console/datasets", "/console/sign-out", {})
    ann.see("/console/datasets")


def _browse_as_custodian(talk: Talk) -> None:
    """Look after data sets, access and releases."""
    begin("custodian")
    cus = Browser(talk, "cus")
    cus.see(KEEPING)
    begin("custodian-data-set")
    cus.see(f"{KEEPING}/datasets/registry?verify=yes")
    begin("custodian-access")
    cus.see(f"{KEEPING}/access")
    begin("custodian-access-changed")
    cus.send(
        f"{KEEPING}/access",
        f"{KEEPING}/access/tokens",
        {"analyst": "eve", "role": "analyst", "days": "3", "datasets": "registry"},
    )
    cus.send(f"{KEEPING}/access", f"{KEEPING}/access/grants", {"dataset": "registry", "analyst": "bob", "give": "yes"})
    begin("custodian-publish")
    place = f"{KEEPING}/datasets/registry/publish"
    cus.see(place)
    begin("custodian-publish-forms")
    private = {"method": "private-columns", "epsilon": "0.5", "columns": ["age", "sex"]}
    cus.send(place, f"{place}/preview", private)
    cus.send(place, f"{place}/release", private)
    job = cus.send(place, f"{place}/release", private | {"sure": "yes"})
    cus.send(place, f"{place}/sweep", {"ks": "k=5..6", "methods": "mdav"})
    begin("job")
    cus.see(job.headers["location"])
    talk.work()
    cus.see(job.headers["location"])
