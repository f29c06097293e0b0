"""A data set under load: clients that ask until they are told yes or no, and what must be true of it afterwards."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.custodian import Custodian
from discreet.ledger import Ledger, storage
from discreet.schema import load_schema
from discreet.service.config import read_config
from discreet.service.store import Store
from discreet.service.store.tokens import create_token
from support.served_processes import LONG, SupervisedService, is_running, wait_for

EPSILON = Fraction(1, 100)
SCHEMA = """\
name: {name}
source: {name}.csv
neighbours: {neighbors}
budget: {{epsilon: {cap}}}
columns:
  number: {{kind: integer, lower: 0, upper: 9999}}
"""
ROWS = 300
PUBLIC_SIZE = f"replace-one\nunits: {ROWS}"
"""For `neighbours`, where a private file is made: it tells how many rows there are."""


def write_table(folder: Path, name: str, rows: int = ROWS) -> None:
    """As many rows as are told, all with a number that is above every question's."""
    (folder / f"{name}.csv").write_text("number\n" + "9999\n" * rows)


def write_data_set(folder: Path, name: str, cap: object = 1000, neighbors: str = "add-remove") -> Path:
    """A registered data set; its schema's file."""
    schema = folder / f"{name}.yaml"
    schema.write_text(SCHEMA.format(name=name, cap=cap, neighbors=neighbors))
    write_table(folder, name)
    Custodian.check(schema)
    return schema


def write_config(folder: Path, datasets: Collection[str], **keys: object) -> Path:
    """A configuration on a free port, without padding unless it is told; after a data set's name its keys may come."""
    limits = "{rate: 100000, burst: 100000, together: 100000, previews: 100000}"
    settings = {"port": 0, "padding": "no", "limits": limits} | keys
    lines = [f"{key}: {value}\n" for key, value in settings.items()]
    parted = [one.partition(",") for one in datasets]
    named = [f"  - {{schema: {name}.yaml{comma}{keys_text}}}\n" for name, comma, keys_text in parted]
    config = folder / "service.yaml"
    config.write_text("".join([*lines, "datasets:\n", *named]))
    return config


def analyst(config: Path, *datasets: str) -> str:
    """A token of an analyst who may ask these data sets."""
    with Store.open(read_config(config).store) as store:
        return create_token(store, "ann", "analyst", 1, datasets)[1]


def question(dataset: str, number: int = 0) -> dict[str, Any]:
    """A count that only its key keeps from being paid again."""
    asked = f"SELECT COUNT(*) FROM {dataset} WHERE number >= {number}"
    return {"question": asked, "epsilon": str(float(EPSILON)), "fresh": True}


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed

    @property
    def kind(self) -> str | None:
        """The kind of a refusal."""
        return None if self.status < 400 else str(self.document["type"]).removeprefix("/problems/")


class Line:
    """One connection of one client, opened again where it breaks."""

    def __init__(self, port: int, token: str = "", patience: float = LONG) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def send(self, method: str, path: str, body: object = None, key: str | None = None) -> Reply | None:
        """One request; None where the line broke before the whole reply was here."""
        headers = self._headers if key is None else self._headers | {"Idempotency-Key": key}
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = self._connection.getresponse()
            return Reply(reply.status, reply.read())
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return None

    def must(self, method: str, path: str, body: object = None, key: str | None = None) -> Reply:
        """The same on a line that does not break."""
        reply = self.send(method, path, body, key)
        assert reply is not None
        return reply

    def decided(self, path: str, body: object, key: str, refused: list[str] | None = None) -> Reply:
        """Ask again, under the same key, until the reply is another one than that the service is unavailable."""
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            reply = self.send("POST", path, body, key)
            if reply is not None and reply.status != 503:
                return reply
            if reply is not None and refused is not None:
                refused.append(plain(reply))
            time.sleep(0.05)
        raise AssertionError(f"{key} was never decided")

    def close(self) -> None:
        self._connection.close()


def plain(reply: Reply) -> str:
    """The sentence of a refusal for now, which has no word of an engine in it."""
    assert reply.kind == "unavailable", reply
    detail = str(reply.document["detail"])
    assert "\n" not in detail
    assert not {"sqlite", "psycopg", "error", "errno", "traceback", "exception"} & set(detail.lower().split()), detail
    return detail


@dataclass
class Load:
    """Clients who ask one question after another, each under its own key, until it is answered or refused for good."""

    port: int
    token: str
    dataset: str
    keys: Iterable[int]
    clients: int = 4
    answers: dict[int, Reply] = field(default_factory=dict)
    overdrawn: list[int] = field(default_factory=list)
    unavailable: list[str] = field(default_factory=list)
    wrong: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._keys, self._lock, self._over = iter(self.keys), threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._client, daemon=True) for _ in range(self.clients)]
        for thread in self._threads:
            thread.start()

    @property
    def path(self) -> str:
        return f"/v1/datasets/{self.dataset}/answers"

    def wait_for(self, count: int) -> None:
        """Until so many more are answered, or every question is decided."""
        enough = len(self.answers) + count
        wait_for(lambda: self.wrong or len(self.answers) >= enough or not self._asking)
        assert self.wrong == [], self.wrong

    def wait_for_refusals(self, count: int) -> None:
        """Until so many more are refused for now."""
        enough = len(self.unavailable) + count
        wait_for(lambda: self.wrong or len(self.unavailable) >= enough)
        assert self.wrong == [], self.wrong

    @property
    def _asking(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Begin no further question."""
        self._over.set()
        self.finish()

    def finish(self) -> None:
        """Wait until every question is decided."""
        for thread in self._threads:
            thread.join()
        assert self.wrong == [], self.wrong

    def check_again(self) -> None:
        """Under the same key everyone is told the same again, to the byte, as long as the answer is kept."""
        line = Line(self.port, self.token)
        for number, reply in list(self.answers.items())[-20:]:
            again = line.decided(self.path, question(self.dataset, number), f"key {number}")
            assert again == reply, (again, reply)
        line.close()

    def _client(self) -> None:
        line = Line(self.port, self.token)
        while not self._over.is_set() and (number := self._next()) is not None:
            try:
                self._decide(line, number)
            except AssertionError as failure:
                self.wrong.append(failure)
        line.close()

    def _next(self) -> int | None:
        with self._lock:
            return next(self._keys, None)

    def _decide(self, line: Line, number: int) -> None:
        reply = line.decided(self.path, question(self.dataset, number), f"key {number}", self.unavailable)
        if reply.status == 201:
            self.answers[number] = reply
        elif reply.kind == "budget-exceeded":
            self.overdrawn.append(number)
        else:
            self.wrong.append(reply)


def check(schema: Path, where: str | Path, replies: Collection[Reply]) -> None:
    """What must be true once every question is decided, whatever happened meanwhile.

    Each answer has a charge of its own, is what the ledger has stored for it, and no charge is without an answer: so a
    key was charged at most once. The spend is the sum of the charges, and fits. The chain holds.
    """
    declared = load_schema(schema)
    with Ledger.existing(where) as ledger:
        ledger.verify()
        charges = {one.entry: one for one in ledger.history(declared.name, limit=10**6) if one.kind == "charge"}
        documents = [reply.document for reply in replies]
        assert sorted(document["entry"] for document in documents) == sorted(charges)
        with ledger._database.begin_read() as connection:
            stored = {entry: storage.read_answer_text(connection, declared.name, entry) for entry in charges}
    for document in documents:
        charge = charges[document["entry"]]
        assert (charge.query, charge.analyst) == (document["question"], document["analyst"])
        assert json.loads(stored[charge.entry] or "null")["numbers"] == [[[document["value"]]]]
    with Custodian.open(schema, where) as custodian:
        [whole] = custodian.budget()
    assert whole.epsilon == sum(one.epsilon or 0 for one in charges.values())
    assert whole.epsilon <= whole.cap.epsilon


def wait_until_ended(line: Line, job: str) -> dict[str, Any]:
    """A job once it has ended, for better or worse."""

    def look() -> dict[str, Any]:
        job_document = line.must("GET", f"/v1/jobs/{job}").document
        return job_document if job_document["state"] in {"done", "failed"} else {}

    return wait_for(look)


def answered_by(line: Line, job: str) -> Reply:
    """The answer of a job, once it is done."""
    job_document = wait_until_ended(line, job)
    assert job_document["state"] == "done", job_document
    return line.must("GET", f"/v1/datasets/{job_document['dataset']}/answers/{job_document['answer']}")


def workers(served: SupervisedService) -> list[int]:
    """The workers that run now."""
    return [one["process"] for one in served.events("started", "worker") if is_running(one["process"])]


def runner(served: SupervisedService) -> int:
    """The process that runs jobs now."""
    return wait_for(
        lambda: next((one["process"] for one in served.events("started", "runner") if is_running(one["process"])), 0)
    )


def well(served: SupervisedService, count: int) -> None:
    """Wait until so many workers run, and the service says that it is well."""
    wait_for(lambda: len(workers(served)) == count)
    with closing(Line(served.port)) as line:
        wait_for(lambda: (reply := line.send("GET", "/health")) is not None and reply.status == 200)


@contextmanager
def spread(served: SupervisedService, token: str, each: int) -> Iterator[list[Line]]:
    """So many open lines to each worker: the others are stopped while its own are opened."""
    running = workers(served)
    with ExitStack() as stack:
        lines = []
        for process in running:
            with pause_processes([other for other in running if other != process]):
                for _ in range(each):
                    lines.append(stack.enter_context(closing(Line(served.port, token))))
                    assert lines[-1].must("GET", "/health").status == 200
        yield lines


@contextmanager
def pause_processes(processes: Sequence[int]) -> Iterator[None]:
    """Processes that do nothing meanwhile."""
    for one in processes:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in processes:
            os.kill(one, signal.SIGCONT)
