"""No cell of the table is in any reply, header, page, metric or line of the log; and no reply shows whose row it was."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from discreet.errors import Internal
from discreet.service.app import make_app
from discreet.service.config import DataSet, read_config
from discreet.service.gate import COOKIE
from discreet.service.jobs import run_next
from discreet.service.store import Store
from discreet.service.store.tokens import create_token, form_token, sign_in
from planted import Planted, plant
from serving import Served, config_in, served
from supervised import eventually, supervised
from test_service_access import API, CONSOLE, filled

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"question": "SELECT COUNT(*) FROM {}"},
    {"question": "SELECT COUNT(*) FROM {} WHERE ward = 'north' AND stay > 10", "prior": "normal(20, 5)"},
    {"question": "SELECT COUNT(DISTINCT person) FROM {} WHERE cured"},
    {"question": "SELECT COUNT(town), COUNT(code) FROM {}"},
    {"question": "SELECT SUM(code), AVG(paid) FROM {} WHERE code > 5"},
    {"question": "SELECT VAR(paid), STDDEV(code) FROM {}"},
    {"question": "SELECT MEDIAN(code) FROM {}", "interval": True},
    {"question": "SELECT QUANTILE(paid, 0.1, 0.9) FROM {}"},
    {"question": "SELECT MIN(code) FROM {}"},
    {"question": "SELECT MAX(paid) FROM {}", "prior": "uniform(0, 99999999)"},
    {"question": "SELECT SECOND_MAX(stay) FROM {}"},
    {"question": "SELECT TRIMMED_MEAN(stay, 0.1) FROM {}"},
    {"question": "SELECT MEDIAN(day) FROM {}"},
    {"question": "SELECT MODE(grade) FROM {}"},
    {"question": "SELECT HISTOGRAM(code, 8) FROM {}", "ranges": ["0..4500000000000"]},
    {"question": "SELECT ward, grade, COUNT(*) FROM {} GROUP BY ward, grade", "constraints": ["total = 60"]},
    {"question": "SELECT ward, COUNT(*) FROM {} GROUP BY ROLLUP (ward)"},
    {"question": "SELECT ward, AVG(stay) FROM {} GROUP BY ward HAVING AVG(stay) > 3 ORDER BY 2 LIMIT 1"},
    {"question": "SELECT BIN(stay, 50), COUNT(*) FROM {} GROUP BY BIN(stay, 50)", "population": True},
    {"question": "SELECT code FROM {} FOR UNIT 'nobody'", "prior": "uniform(0, 9000000000000)"},
    {"question": "SELECT grade FROM {} FOR UNIT 'nobody'"},
    {"question": {"from": "{}", "select": [{"count": "*"}], "where": {"paid": {">": 3}}}},
)
OF_ONE = {
    "planted": (
        {"question": "SELECT town, COUNT(*) FROM {} GROUP BY town", "delta": "0.001"},
        {"question": "SELECT AVG(code) FROM {}", "delta": "0.001"},
    ),
    "weaker": (
        {"question": "SELECT MEDIAN(stay) FROM {}", "model": "individual-dp"},
        {"question": "SELECT SECOND_MAX(stay) FROM {}", "model": "individual-dp"},
    ),
}
WRONG: tuple[dict[str, Any], ...] = (
    {"question": "SELECT town FROM {}", "epsilon": "1"},
    {"question": "SELECT COUNT(*) FROM {} WHERE town = 'x'", "epsilon": "1"},
    {"question": "SELECT COUNT(*) FROM {} WHERE code = 'x'", "epsilon": "1"},
    {"question": "SELECT MIN(remark) FROM {}", "epsilon": "1"},
    {"question": "SELECT MODE(town) FROM {}", "epsilon": "1"},
    {"question": "SELECT COUNT(*) FROM nothing", "epsilon": "1"},
    {"question": "SELECT COUNT(*) FROM {}; DROP TABLE x", "epsilon": "1"},
    {"question": "SELECT person FROM {}", "epsilon": "1"},
    {"question": "SELECT COUNT(*) FROM {}", "epsilon": "100000"},
    {"question": "SELECT COUNT(*) FROM {}", "epsilon": "NaN"},
    {"question": "SELECT COUNT(*) FROM {}", "accuracy": "±1e-300 at 95%"},
    {"question": "SELECT COUNT(*) FROM {}", "epsilon": "1", "prior": "point(1e9)"},
    {"question": "SELECT COUNT(*) FROM {}", "epsilon": "1", "unknown": 1},
    {"question": 5, "epsilon": []},
)
RELEASES = (
    {"method": "private-columns", "epsilon": "1", "columns": ["code", "paid", "day", "ward", "grade"]},
    {"method": "private-records", "epsilon": "1", "columns": ["code", "paid", "grade"]},
    {"method": "private-linked", "epsilon": "1", "columns": ["stay", "grade"]},
    {"method": "mdav", "k": 5},
    {"method": "generalise", "k": 5},
    {"method": "mdav-swap", "k": 5},
    {"method": "t-closeness", "k": 5, "t": "3"},
)
WITH_RAW_VALUES = ("mdav", "generalise", "mdav-swap", "t-closeness")
"""Methods that promise less than DP: their files hold values of rows as they are, by design."""
FOR_THE_CUSTODIAN = ("report.html", "sweep.html")
"""Pages that compare a file with the records it was made of; the custodian has both."""
TOPICS = ("epsilon", "posterior", "guarantee")


@dataclass(frozen=True)
class Reply:
    """All that came back for one request."""

    who: str
    method: str
    route: str
    status: int
    headers: tuple[tuple[str, str], ...]
    text: str

    @property
    def all(self) -> str:
        return f"{self.status} {self.headers} {self.text}"

    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Driver:
    """Sends requests for ann and cus by token, and by cookie to the console, and keeps every reply."""

    send: Callable[..., Any]
    secrets: dict[str, str]
    cookies: dict[str, str]
    kept: list[Reply] = field(default_factory=list)
    not_searched: list[Reply] = field(default_factory=list)

    def call(self, who: str, method: str, route: str, body: object = None, query: str = "", **put: str) -> Reply:
        """One request to a route; the console is sent forms."""
        page, held = route.startswith("/console"), self.secrets.get(who)
        cookie = self.cookies.get(who, "")
        headers = {"Cookie": f"{COOKIE}={cookie}"} if page else {"Authorization": f"Bearer {held}"} if held else {}
        more: dict[str, Any] = {} if body is None else {"json": body}
        if page and isinstance(body, dict):
            more = {"data": {"form_token": form_token(cookie)} | body}
        told = self.send(method, filled(route, lambda name: put[name.partition(":")[0]]) + query, headers=headers, **more)
        headers_of = tuple(sorted(told.headers.multi_items()))
        reply = Reply(who, method, route, told.status_code, headers_of, told.content.decode("utf-8", "replace"))
        self.kept.append(reply)
        return reply

    def get(self, who: str, route: str, query: str = "", **put: str) -> Reply:
        return self.call(who, "GET", route, None, query, **put)

    def forget(self, reply: Reply) -> None:
        """What a reply holds is not searched for cells."""
        self.kept.remove(reply)
        self.not_searched.append(reply)


def about(dataset: str, told: dict[str, Any]) -> dict[str, Any]:
    """A question about a data set."""
    return json.loads(json.dumps({"epsilon": "0.5"} | told).replace("{}", dataset))


def ask_all(driver: Driver, dataset: str, home: str, pages: str) -> None:
    """Every kind of question, for real or in rehearsal; every part of each answer; everything that is refused."""
    questions = [about(dataset, one) for one in (*QUESTIONS, *OF_ONE.get(dataset, ()))]
    for asked in questions:
        plain = {name: told for name, told in asked.items() if name not in {"ranges", "constraints", "population"}}
        driver.call("ann", "POST", f"{home}/previews", plain, dataset=dataset)
        if "prior" in asked:
            prior = {"question": asked["question"], "prior": asked["prior"]}
            driver.call("ann", "POST", f"{home}/priors", prior, dataset=dataset)
        made = driver.call("ann", "POST", f"{home}/answers", asked, dataset=dataset)
        assert made.status == 201, made
        driver.call("ann", "POST", f"{home}/answers", asked, dataset=dataset)
        for part in ("", "/picture", "/csv"):
            driver.get("ann", f"{home}/answers/{{answer}}{part}", dataset=dataset, answer=made.json()["id"])
        driver.get("ann", f"{pages}/answers/{{wanted}}", dataset=dataset, wanted=made.json()["id"])
    driver.get("ann", f"{pages}/compare", f"?ids={made.json()['id']}", dataset=dataset)
    for wrong in WRONG:
        for part in ("previews", "answers"):
            driver.call("ann", "POST", f"{home}/{part}", about(dataset, wrong), dataset=dataset)
    session = driver.call("ann", "POST", f"{home}/sessions", {"noise_scale": "9", "epsilon": "1"}, dataset=dataset)
    in_it = {"dataset": dataset, "session": session.json()["id"]}
    counted = {"question": f"SELECT COUNT(*) FROM {dataset} WHERE stay > 7"}
    assert driver.call("ann", "POST", f"{home}/sessions/{{session}}/answers", counted, **in_it).status == 201
    driver.get("ann", f"{home}/sessions/{{session}}", **in_it)
    driver.call("ann", "DELETE", f"{home}/sessions/{{session}}", **in_it)
    for part in ("", "/budget", "/history"):
        for who in ("ann", "cus", "bob"):
            driver.get(who, f"{home}{part}", dataset=dataset)
    form = {"question": f"SELECT AVG(code) FROM {dataset}", "how": "epsilon", "size": "0.4"}
    driver.get("ann", pages, dataset=dataset)
    driver.get("ann", f"{pages}/history", dataset=dataset)
    for part in ("preview", "ask"):
        for told in (form, form | {"question": f"SELECT town FROM {dataset}"}, form | {"size": "x"}):
            driver.call("ann", "POST", f"{pages}/{part}", told, dataset=dataset)


def look_around(driver: Driver) -> None:
    """What is about no data set, and what is an analyst's own."""
    for who in ("nobody", "bob", "ann", "cus"):
        for route in ("/openapi.json", "/health", "/metrics", "/v1/me", "/v1/datasets", "/v1/priors", "/v1/jobs"):
            driver.get(who, route)
        for route in ("/console", "/console/", "/console/datasets", "/console/custodian"):
            driver.get(who, route)
    driver.call("ann", "HEAD", "/openapi.json")
    driver.call("ann", "PUT", "/v1/priors/{name}", {"text": "normal(1, 1)"}, name="mine")
    driver.get("ann", "/v1/priors/{name}", name="mine")
    driver.call("ann", "DELETE", "/v1/priors/{name}", name="mine")
    driver.get("ann", "/console/assets/{name}", name="console.css")
    for topic in TOPICS:
        driver.get("ann", "/console/explain/{topic}", topic=topic)
    driver.call("nobody", "POST", "/console/sign-in", {"token": "dsc_wrong"})


def keep_house(driver: Driver, dataset: str) -> None:
    """What a custodian does, short of releases."""
    made = driver.call("cus", "POST", "/v1/tokens", {"analyst": "zed", "datasets": [dataset]}).json()
    driver.get("cus", "/v1/tokens")
    driver.call("cus", "DELETE", "/v1/tokens/{token}", token=made["id"])
    for method in ("PUT", "DELETE"):
        driver.call("cus", method, "/v1/grants/{dataset}/{analyst}", dataset=dataset, analyst="zed")
    driver.get("cus", "/v1/grants")
    driver.get("cus", "/v1/warnings")
    for part in ("snapshots", "ledger"):
        driver.get("cus", f"/v1/datasets/{{dataset}}/{part}", dataset=dataset)
    pages = "/console/custodian/access"
    driver.get("cus", pages)
    driver.call("cus", "POST", f"{pages}/tokens", {"analyst": "zoe", "role": "analyst", "days": "1"})
    driver.call("cus", "POST", f"{pages}/tokens/{{token}}/revoke", {}, token=made["id"])
    driver.call("cus", "POST", f"{pages}/grants", {"dataset": dataset, "analyst": "zoe", "give": "yes"})
    keeping = "/console/custodian/datasets/{dataset}"
    driver.get("cus", keeping, "?verify=yes&lines=1000", dataset=dataset)
    driver.get("cus", f"{keeping}/publish", dataset=dataset)
    form = {"method": "private-columns", "epsilon": "1", "columns": "code"}
    driver.call("cus", "POST", f"{keeping}/publish/preview", form, dataset=dataset)


def release_all(driver: Driver, dataset: str, wait: Callable[[str], None]) -> None:
    """Every method, as a job; its files but those that are left out by name."""
    home, keeping = "/v1/datasets/{dataset}", "/console/custodian/datasets/{dataset}/publish"
    driver.call("cus", "POST", f"{home}/releases/previews", {"epsilon": "1", "columns": ["code", "stay"]}, dataset=dataset)
    driver.call("cus", "POST", f"{home}/releases", {"method": "nothing"}, dataset=dataset)
    jobs = [(one, driver.call("cus", "POST", f"{home}/releases", one, dataset=dataset)) for one in RELEASES]
    jobs.append(({"method": "sweep"}, driver.call("cus", "POST", f"{home}/sweeps", {"ks": "k=3..5"}, dataset=dataset)))
    driver.call("cus", "POST", f"{keeping}/release", {"method": "mdav", "k": "4"}, dataset=dataset)
    driver.call("cus", "POST", f"{keeping}/sweep", {"ks": "k=3..4", "methods": "mdav"}, dataset=dataset)
    for said, queued in jobs:
        assert queued.status == 202, queued
        job = queued.json()["id"]
        wait(job)
        driver.get("cus", "/console/jobs/{job}", job=job)
        driver.get("ann", "/v1/jobs/{job}", job=job)
        told = driver.get("cus", "/v1/jobs/{job}", job=job).json()
        assert told["state"] == "done", told
        for name in told["files"]:
            file = driver.get("cus", "/v1/jobs/{job}/files/{name:path}", job=job, name=name)
            raw = said["method"] in WITH_RAW_VALUES and name.endswith(".csv")
            if raw or name in FOR_THE_CUSTODIAN:
                driver.forget(file)


def drive(driver: Driver, wait: Callable[[str], None]) -> None:
    """Every route, in every way that matters."""
    look_around(driver)
    for dataset in ("planted", "weaker"):
        ask_all(driver, dataset, "/v1/datasets/{dataset}", "/console/datasets/{dataset}")
    ask_all(driver, "planted", "/v1/rehearsal/datasets/{dataset}", "/console/rehearsal/datasets/{dataset}")
    release_all(driver, "planted", wait)
    keep_house(driver, "planted")
    look_around(driver)
    driver.call("ann", "POST", "/console/sign-out", {})


def admitted(store: Store, datasets: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """Tokens and cookies of ann, who has the data sets, bob, who has none, and cus."""
    made = {"ann": create_token(store, "ann", "analyst", 30, datasets), "bob": create_token(store, "bob", "analyst")}
    made["cus"] = create_token(store, "cus", "custodian")
    return {who: told for who, (_, told) in made.items()}, {who: sign_in(store, one) for who, (one, _) in made.items()}


def shown(planted: Planted, driver: Driver) -> dict[str, list[str]]:
    """The requests whose replies show a cell."""
    found = {f"{one.who} {one.method} {one.route} {one.status}": planted.hits(one.all) for one in driver.kept}
    return {request: hits for request, hits in found.items() if hits}
