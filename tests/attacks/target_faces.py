"""The face that attacks see: whoever holds a table and answers, weak or not. And discreet behind that face."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from discreet import BudgetExceeded, Custodian, DiscreetError
from discreet.service.config import DatasetConfig
from discreet.service.store.tokens import create_token
from support.inprocess_service import InProcessService, build_config, run_service

Rows = Sequence[dict[str, Any]]
Send = Callable[[str], None]

HEADER = "person,age,ill,town,room"
TARGET = "p37,37,true,Hammerfest,7"
"""The one person that the attacker does not know of."""
SCHEMA = """\
name: t
source: t.csv
neighbours: {neighbors}
unit: {{column: person, rows: 1}}
budget: {{epsilon: {budget}}}
analyst_budget: {{epsilon: {each}}}
individual_queries: yes
columns:
  person: {{role: identifier}}
  age: {{kind: {kind}, lower: {lower}, upper: {upper}, missing: {lower}}}
  ill: {{kind: boolean}}
  town: {{kind: nominal, categories: [Oslo, Rome, Hammerfest, Tromso]}}
  room: {{kind: integer, lower: 0, upper: 1999}}
"""


class Refused(Exception):
    """No answer, and what is said instead."""


class NothingLeft(Refused):
    """No answer, since there is no budget left for it."""


class Curator(Protocol):
    """Who holds a table, and answers questions about it at a price."""

    def ask(self, question: str, epsilon: object, analyst: str = "eve", prior: str | None = None) -> Rows:
        """The rows of an answer, or `Refused`."""
        ...

    def about(self, person: str) -> Rows:
        """Whether one person is ill."""
        ...

    def spent(self) -> Fraction | float:
        """What all analysts together have paid."""
        ...


class Counts(Protocol):
    """Who tells counts."""

    def ask(self, question: str, epsilon: object) -> Rows:
        """The rows of an answer."""
        ...


def crowd(people: int = 60) -> list[str]:
    """People whom the attacker knows: none of them in Hammerfest, none 37 years old."""
    towns = ("Rome", "Oslo")
    return [f"n{at},{38 + at % 50},{'true' if at % 3 else 'false'},{towns[at % 2]},0" for at in range(people)]


WITH_AND_WITHOUT = ([*crowd(), TARGET], crowd())
"""Two tables that differ in the target alone."""


def write(folder: Path, people: Sequence[str], **schema: object) -> Path:
    """Write a table and its schema; the path of the schema."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"budget": 1000, "neighbors": "add-remove", "kind": "integer", "lower": 0, "upper": 99} | schema
    (folder / "t.csv").write_text("\n".join([HEADER, *people, ""]))
    (folder / "t.yaml").write_text(SCHEMA.format(**{"each": settings["budget"]} | settings))
    return folder / "t.yaml"


@dataclass
class Ours:
    """discreet as a library."""

    custodian: Custodian

    def ask(self, question: str, epsilon: object, analyst: str = "eve", prior: str | None = None) -> Rows:
        try:
            answer = self.custodian.answer(question, epsilon, prior=prior, analyst=analyst)
        except BudgetExceeded as refusal:
            raise NothingLeft(str(refusal)) from None
        except DiscreetError as refusal:
            raise Refused(str(refusal)) from None
        return [dict(row) for row in answer.rows]

    def about(self, person: str) -> Rows:
        return self.ask(f"SELECT ill FROM t FOR UNIT '{person}'", 1)

    def spent(self) -> Fraction:
        return self.custodian.budget()[0].epsilon or Fraction(0)


@contextmanager
def ours(folder: Path, people: Sequence[str], **schema: object) -> Iterator[Ours]:
    """discreet with a table of these people."""
    with Custodian.open(write(folder, people, **schema)) as custodian:
        yield Ours(custodian)


@dataclass
class OverHTTP:
    """discreet as a service; every text that it has said is kept."""

    service: InProcessService
    replies: list[str] = field(default_factory=list)

    def token(self, analyst: str) -> str:
        """What opens the data set to an analyst."""
        store, tokens = self.service.app.service.store, self.service.tokens
        if analyst not in tokens:
            tokens[analyst] = create_token(store, analyst, "analyst", 30, ("t",))[1]
        return tokens[analyst]

    def call(self, analyst: str, method: str, path: str, body: object = None) -> Any:
        """One request; the reply is kept."""
        self.token(analyst)
        reply = self.service.call(analyst, method, f"/v1/datasets/t{path}", body)
        self.replies.append(reply.text)
        return reply

    def ask(self, question: str, epsilon: object, analyst: str = "eve", prior: str | None = None) -> Rows:
        asked = {"question": question, "epsilon": str(epsilon)} | ({} if prior is None else {"prior": prior})
        reply = self.call(analyst, "POST", "/answers", asked)
        if reply.status_code != 201:
            raise Refused(reply.text)
        rows: Rows = reply.json()["rows"]
        return rows

    def about(self, person: str) -> Rows:
        return self.ask(f"SELECT ill FROM t FOR UNIT '{person}'", 1)

    def describe(self) -> str:
        """All that is told of the table before anything is answered."""
        asked = {"question": "SELECT AVG(age) AS n FROM t GROUP BY town", "epsilon": "0.5"}
        return f"{self.call('eve', 'GET', '').text}{self.call('eve', 'POST', '/previews', asked).text}"

    def deliver(self, question: str, epsilon: float, send: Send) -> None:
        """Send an answer through a connection that may break."""
        status = []

        async def receive() -> dict[str, Any]:
            body = json.dumps({"question": question, "epsilon": str(epsilon)}).encode()
            return {"type": "http.request", "body": body, "more_body": False}

        async def sent(message: Any) -> None:
            status.append(message.get("status"))
            if message["type"] == "http.response.body" and status[0] == 201:
                send(message["body"].decode())

        headers = [(b"authorization", f"Bearer {self.token('eve')}".encode()), (b"content-type", b"application/json")]
        path = "/v1/datasets/t/answers"
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http"}
        try:
            asyncio.run(self.service.app(scope | {"http_version": "1.1", "root_path": "", "state": {}}, receive, sent))
        except OSError:
            return

    def spent(self) -> Fraction:
        return Fraction(self.call("eve", "GET", "/budget").json()["budget"][0]["spent"]["epsilon"])


@contextmanager
def over_http(folder: Path, people: Sequence[str], **schema: object) -> Iterator[OverHTTP]:
    """A service, in this process, with a table of these people."""
    data = DatasetConfig(write(folder / "data", people, **schema), 0.05)
    with run_service(replace(build_config(folder, 20), datasets=(data,))) as service:
        yield OverHTTP(service)


Opened = Callable[[Path, Sequence[str]], AbstractContextManager[Ours | OverHTTP]]
"""One of the two ways to meet discreet."""


@contextmanager
def both(opened: Opened, folder: Path, tables: Sequence[Sequence[str]] = WITH_AND_WITHOUT) -> Iterator[list[Any]]:
    """discreet with each of two tables."""
    with ExitStack() as stack:
        yield [stack.enter_context(opened(folder / str(at), people)) for at, people in enumerate(tables)]
