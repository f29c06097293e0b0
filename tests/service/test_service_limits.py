"""How much anyone may send: bodies, heads, depth, priors, rate; and nobody who sends slowly holds up the others."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from discreet.sample import write_registry
from discreet.service.api import analyst_routes
from discreet.service.api.analyst_routes import answer_dataset_question
from discreet.service.jobs import MAX_OPEN_JOBS
from discreet.service.middleware import auth, limits
from discreet.service.middleware.auth import MAX_HEAD_BYTES
from discreet.service.middleware.limits import RateLimiter
from discreet.service.store.stored_answers import MAX_PRIORS
from discreet.service.worker import _build_chunked_protocol
from support.inprocess_service import COUNT, HOME, InProcessService, build_config, run_service
from support.served_processes import SupervisedService, create_service_token, start_service

ANSWERS = f"{HOME}/answers"
BODY = json.dumps(COUNT).encode()
LONG = 60.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessService]:
    folder = tmp_path_factory.mktemp("limited")
    with run_service(build_config(folder, 100)) as small_service:
        yield small_service


@dataclass
class Sender:
    """A client that sends a body in parts, and counts how many were asked for; it may never send the last."""

    parts: Iterator[bytes]
    endless: bool = False
    taken: int = 0

    async def receive(self) -> dict[str, Any]:
        self.taken += 1
        part = next(self.parts, None)
        if part is None:
            if self.endless:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.request", "body": part, "more_body": True}


async def post(service: InProcessService, sender: Sender, **headers: str) -> tuple[int, dict[str, Any]]:
    """One request straight to the application: its status and its document."""
    all_headers = {"Authorization": f"Bearer {service.tokens['ann']}", "Content-Type": "application/json"} | headers
    lines = [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in all_headers.items()]
    scope = {"type": "http", "method": "POST", "path": ANSWERS, "raw_path": ANSWERS.encode(), "query_string": b""}
    scope |= {"headers": lines, "client": ("127.0.0.1", 1), "scheme": "http", "http_version": "1.1", "root_path": ""}
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    await service.app(scope, sender.receive, send)
    return messages[0]["status"], json.loads(b"".join(one.get("body", b"") for one in messages[1:]))


def sent(service: InProcessService, parts: Iterable[bytes], **headers: str) -> tuple[int, dict[str, Any], int]:
    """The same, and how many parts were taken."""
    sender = Sender(iter(parts))
    status, document = asyncio.run(post(service, sender, **headers))
    return status, document, sender.taken


def test_a_body_that_says_it_is_too_large_is_not_read(service: InProcessService) -> None:
    status, document, taken = sent(service, [BODY], Content_Length=str(service.config.limits.body + 1))
    assert (status, document["type"], taken) == (413, "/problems/too-large", 0)


def test_a_body_that_does_not_say_how_large_it_is_is_read_up_to_the_limit(service: InProcessService) -> None:
    endless = (b" " * 1000 for _ in range(10**9))
    status, document, taken = sent(service, endless)
    assert (status, document["type"]) == (413, "/problems/too-large")
    assert taken == service.config.limits.body // 1000 + 1


@pytest.mark.parametrize("lie", ["0", "1", "-5", "x", "9" * 30, "²", "1e9", ""])
def test_a_body_is_measured_whatever_it_says(service: InProcessService, lie: str) -> None:
    """Too large it is refused, and one that fits is answered."""
    assert sent(service, [b" " * 100_000], Content_Length=lie)[0] == 413
    assert sent(service, [BODY], Content_Length=lie)[0] == 201


def test_a_body_at_the_limit_is_read(service: InProcessService) -> None:
    most = service.config.limits.body
    assert sent(service, [BODY, b" " * (most - len(BODY))])[0] == 201
    assert sent(service, [BODY, b" " * (most - len(BODY) + 1)])[0] == 413


def test_a_body_that_never_comes_holds_up_nobody(service: InProcessService) -> None:
    async def both() -> int:
        silent = [asyncio.create_task(post(service, Sender(iter([b"{"]), endless=True))) for _ in range(200)]
        await asyncio.sleep(0)
        status, _ = await post(service, Sender(iter([BODY])))
        assert not any(task.done() for task in silent)
        for task in silent:
            task.cancel()
        await asyncio.gather(*silent, return_exceptions=True)
        return status

    assert asyncio.run(both()) == 201


def test_a_body_that_does_not_come_in_time_is_refused(
    service: InProcessService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "BODY_TIMEOUT", 0.01)
    status, document = asyncio.run(post(service, Sender(iter([b"{"]), endless=True)))
    assert (status, document["type"]) == (400, "/problems/invalid-input")


def test_a_client_that_goes_away_costs_nothing(service: InProcessService) -> None:
    before = service.get("ann", f"{HOME}/budget").json()

    class Gone(Sender):
        async def receive(self) -> dict[str, Any]:
            return {"type": "http.disconnect"}

    status, _ = asyncio.run(post(service, Gone(iter([]))))
    assert status == 400
    assert service.get("ann", f"{HOME}/budget").json() == before


@pytest.mark.parametrize("depth", [40, 200, 500, 3000])
@pytest.mark.parametrize("place", ["question", "hierarchies", "elsewhere"])
def test_json_that_nests_too_deep_is_refused(service: InProcessService, depth: int, place: str) -> None:
    deep = "[" * depth + "1" + "]" * depth
    body = {
        "question": f'{{"question": {{"a": {deep}}}, "epsilon": "0.1"}}',
        "hierarchies": f'{{"method": "mdav", "k": 3, "hierarchies": {{"age": {deep}}}}}',
        "elsewhere": f'{{"question": "SELECT COUNT(*) FROM registry", "epsilon": {deep}}}',
    }[place]
    path, who = (f"{HOME}/releases", "cus") if place == "hierarchies" else (ANSWERS, "ann")
    headers = {"Authorization": f"Bearer {service.tokens[who]}", "Content-Type": "application/json"}
    refused = service.client.post(path, content=body.encode(), headers=headers)
    assert (refused.status_code, refused.json()["kind"]) == (400, "InvalidInput")
    assert "\n" not in refused.json()["detail"]


def test_a_question_nests_as_deep_as_is_said(service: InProcessService) -> None:
    statuses = []
    for depth in range(1, 41):
        body = {"question": f"SELECT COUNT(*) FROM registry WHERE {'NOT ' * depth}age >= 40", "epsilon": "0.1"}
        statuses.append(service.post("ann", f"{HOME}/previews", body).status_code)
    allowed = statuses.index(400)
    assert statuses == [200] * allowed + [400] * (40 - allowed)
    assert allowed == 32


@pytest.mark.parametrize(
    "path", ["/v1/datasets/%00", f"{ANSWERS}/%00", "/console/jobs/%00", "/console/?why=%00", "/%00"]
)
def test_an_address_holds_no_nul(service: InProcessService, path: str) -> None:
    """Not every database can be asked about one."""
    assert service.get("ann", path).status_code == 400


def test_nothing_is_kept_with_a_nul(service: InProcessService) -> None:
    assert service.post("cus", "/v1/tokens", {"analyst": "a\0b"}).status_code == 400
    for body in ({"text": "a\0b"}, {"text": "a", "note": "\0"}):
        assert service.call("ann", "PUT", "/v1/priors/nul", body).status_code == 400


def test_an_analyst_keeps_so_many_priors_and_no_more(service: InProcessService) -> None:
    for number in range(MAX_PRIORS):
        assert service.call("bob", "PUT", f"/v1/priors/p{number}", {"text": "point(1)"}).status_code == 200
    refused = service.call("bob", "PUT", "/v1/priors/more", {"text": "point(1)"})
    assert (refused.status_code, refused.json()["kind"]) == (400, "InvalidInput")
    assert service.call("bob", "PUT", "/v1/priors/p0", {"text": "point(2)"}).json()["text"] == "point(2)"
    assert len(service.get("bob", "/v1/priors").json()["priors"]) == MAX_PRIORS
    assert service.call("ann", "PUT", "/v1/priors/mine", {"text": "point(1)"}).status_code == 200
    assert service.call("bob", "DELETE", "/v1/priors/p1").status_code == 204
    assert service.call("bob", "PUT", "/v1/priors/more", {"text": "point(1)"}).status_code == 200


def test_a_saved_prior_is_measured_like_a_written_one(tmp_path: Path) -> None:
    config = build_config(tmp_path, 50)
    weights = json.dumps({str(number): 1 for number in range(4)})
    with run_service(replace(config, limits=replace(config.limits, prior=3))) as service:
        assert service.call("ann", "PUT", "/v1/priors/wide", {"text": weights}).status_code == 200
        for prior in (weights, "@wide"):
            for path, cost in (("answers", {}), ("previews", {}), ("priors", None)):
                body = {"question": COUNT["question"], "prior": prior} if cost is None else COUNT | {"prior": prior}
                assert service.post("ann", f"{HOME}/{path}", body).status_code == 400


def test_so_many_jobs_wait_and_no_more(service: InProcessService) -> None:
    body = {"method": "private-columns", "epsilon": "1"}
    replies = [service.post("cus", f"{HOME}/releases", body) for _ in range(MAX_OPEN_JOBS + 1)]
    assert [one.status_code for one in replies] == [202] * MAX_OPEN_JOBS + [429]
    assert replies[-1].headers["retry-after"] == "1"


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "", "1.5", "1e2", "9" * 5000])
def test_a_history_is_so_long_and_no_longer(service: InProcessService, limit: str) -> None:
    assert service.get("ann", f"{HOME}/history?limit={limit}").status_code == 400


# How often.


SENDING = """
import sys
import threading
from pathlib import Path
from discreet.service.middleware.auth import MAX_HEAD_BYTES
from discreet.service.middleware.limits import RateLimiter
rates = RateLimiter(Path(sys.argv[1]), rate=0.000001, burst=20_000)
print("ready", flush=True)
sys.stdin.readline()
print(sum(rates.count_request("token x") == 0.0 for _ in range(20_000)))
"""
"""A process that waits for the start, then sends as fast as it can; how many passed."""


def test_workers_count_together(tmp_path: Path) -> None:
    """Four processes that send as fast as they can get through as often as one may, exactly."""
    command = [sys.executable, "-c", SENDING, str(tmp_path / "rates")]
    with ExitStack() as all_of_them:
        pipe = subprocess.PIPE
        started = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
        senders = [all_of_them.enter_context(one) for one in started]
        assert {one.stdout.readline() for one in senders if one.stdout} == {"ready\n"}
        for one in senders:
            print("go", file=one.stdin, flush=True)
        items = [one.communicate(timeout=LONG)[0] for one in senders]
    assert sum(map(int, items)) == 20_000


class Watch:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    scripted_watch = Watch()
    monkeypatch.setattr(limits, "time", scripted_watch)
    return scripted_watch


def count_passed(rates: RateLimiter, who: str, times: int) -> int:
    return sum(rates.count_request(who) == 0.0 for _ in range(times))


def test_a_burst_then_the_rate(tmp_path: Path, watch: Watch) -> None:
    with closing(RateLimiter(tmp_path / "rates", rate=2, burst=10)) as rates:
        assert count_passed(rates, "ann", 50) == 10
        assert rates.count_request("ann") == pytest.approx(0.5)
        watch.now += 1
        assert count_passed(rates, "ann", 50) == 2
        watch.now += 3600
        assert count_passed(rates, "ann", 50) == 10  # a long silence saves up no more than a burst


@pytest.mark.usefixtures("watch")
def test_one_token_uses_up_nothing_of_anothers(tmp_path: Path) -> None:
    with closing(RateLimiter(tmp_path / "rates", rate=1, burst=5)) as rates:
        assert count_passed(rates, "ann", 50) == 5
        assert count_passed(rates, "bob", 50) == 5


def test_a_machine_that_started_anew_locks_nobody_out(tmp_path: Path, watch: Watch) -> None:
    """The file outlives the clock that it was written by."""
    watch.now = 10**9
    with closing(RateLimiter(tmp_path / "rates", rate=1, burst=5)) as rates:
        assert count_passed(rates, "ann", 50) == 5
    watch.now = 7.0
    with closing(RateLimiter(tmp_path / "rates", rate=1, burst=5)) as rates:
        assert count_passed(rates, "ann", 50) == 5


def test_who_has_no_token_is_counted_by_address(tmp_path: Path) -> None:
    """Guessing tokens is slow, and health is told all the same."""
    config = build_config(tmp_path, 50)
    with run_service(replace(config, limits=replace(config.limits, rate=0.000001, burst=3))) as service:
        statuses = [service.get(None, "/v1/me").status_code for _ in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        assert service.get(None, "/console/").status_code == 429
        assert service.get(None, "/health").status_code == 200
        assert service.get("ann", "/v1/me").status_code == 200


def test_one_token_has_so_many_requests_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks slow questions leaves room for others, and has room again once they are answered."""
    begun, over = threading.Semaphore(0), threading.Event()

    def slowly(*args: Any) -> Any:
        begun.release()
        assert over.wait(LONG)
        return answer_dataset_question(*args)

    monkeypatch.setattr(analyst_routes, "answer_dataset_question", slowly)
    config = build_config(tmp_path, 50)

    async def ask(service: InProcessService) -> None:
        slow = [asyncio.create_task(post(service, Sender(iter([BODY])))) for _ in range(2)]
        for _ in slow:
            assert await asyncio.to_thread(begun.acquire, timeout=LONG)
        assert (await post(service, Sender(iter([BODY]))))[0] == 429
        other = await post(service, Sender(iter([BODY])), Authorization=f"Bearer {service.tokens['bob']}")
        assert other[0] == 404
        over.set()
        assert [(await one)[0] for one in slow] == [201, 201]
        assert (await post(service, Sender(iter([BODY]))))[0] == 201

    with run_service(replace(config, limits=replace(config.limits, together=2))) as service:
        asyncio.run(ask(service))


# A real server, and clients that keep to no protocol.


ON_ONE_WORKER = pytest.mark.xdist_group("limited server")
"""So that it starts once."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SupervisedService, str]]:
    folder = tmp_path_factory.mktemp("real")
    write_registry(folder, 100)
    config = folder / "service.yaml"
    settings = "limits: {rate: 100000, burst: 100000}\npadding: no\n"
    config.write_text(f"port: 0\nworkers: 1\n{settings}datasets:\n  - schema: registry.yaml\n")
    secret = create_service_token(config)
    with start_service(folder, "--config", config) as started_server:
        yield started_server, secret


@contextmanager
def connect(server: SupervisedService) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), LONG) as line:
        yield line


def replies(server: SupervisedService, request: bytes) -> list[bytes]:
    """The first lines of all replies to whatever is sent, until the server hangs up, which it may do at once."""
    received = b""
    with connect(server) as line, suppress(ConnectionError):
        line.sendall(request)
        for part in iter(lambda: line.recv(65_536), b""):
            received += part
    return [one for one in received.split(b"\r\n") if one.startswith(b"HTTP/1.1 ")]


def head(secret: str, *lines: str) -> bytes:
    head_lines = f"POST {ANSWERS} HTTP/1.1", "Host: x", "Connection: close", f"Authorization: Bearer {secret}"
    return "\r\n".join([*head_lines, "Content-Type: application/json", *lines, "", ""]).encode("latin-1")


def is_refused(lines: list[bytes]) -> bool:
    """Whether nothing was granted: a refusal may be lost where the server hangs up on what is still being sent."""
    return all(line.startswith(b"HTTP/1.1 4") for line in lines)


def healthy(server: SupervisedService) -> bool:
    return replies(server, b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") == [b"HTTP/1.1 200 OK"]


@ON_ONE_WORKER
def test_clients_that_send_nothing_more_hold_up_nobody(server: tuple[SupervisedService, str]) -> None:
    """Some stop within the first line, some within the head, some before the body."""
    running_server, secret = server
    whole = head(secret, f"Content-Length: {len(BODY)}")
    with ExitStack() as open_lines:
        for number in range(60):
            line = open_lines.enter_context(connect(running_server))
            line.sendall((whole + BODY)[: (5, 60, len(whole), len(whole) + 9)[number % 4]])
        assert replies(running_server, whole + BODY) == [b"HTTP/1.1 201 Created"]
        assert healthy(running_server)


@ON_ONE_WORKER
def test_a_head_that_is_too_large_is_refused(server: tuple[SupervisedService, str]) -> None:
    running_server, secret = server
    for large in ("X-Long: " + "x" * 200_000, "Cookie: discreet_session=" + "x" * 200_000):
        assert is_refused(replies(running_server, head(secret, large, "Content-Length: 0")))
    assert is_refused(replies(running_server, b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert healthy(running_server)


class Closing(asyncio.Transport):
    """A connection that keeps what is written to it, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00bad\r\n\r\n" + b"x" * 10_000,
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" + b"x" * 10_000,
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (MAX_HEAD_BYTES + 20_000) + b"\r\n\r\n",
    ],
    ids=["no request", "two lengths", "a long head"],
)
def test_nothing_is_read_after_a_request_was_refused(sent: bytes) -> None:
    """What came with it in one piece would fail in the parser, which has closed the connection by then."""

    async def app(scope: object, receive: object, send: object) -> None:  # noqa: ARG001 (as uvicorn calls it)
        pytest.fail("a refused request was handed on")

    async def receive() -> Closing:
        config = Config(app, h11_max_incomplete_event_size=MAX_HEAD_BYTES, ws="none", log_config=None)
        config.load()
        protocol, line = _build_chunked_protocol()(config, ServerState(), {}), Closing()  # type: ignore[call-arg]
        protocol.connection_made(line)
        protocol.data_received(sent)
        return line

    line = asyncio.run(receive())
    assert line.closed
    assert line.written.count(b"HTTP/1.1 ") == line.written.count(b"HTTP/1.1 4") == 1


@ON_ONE_WORKER
@pytest.mark.parametrize("where", ["header", "headers", "first line"])
def test_a_head_is_as_long_as_is_said_and_no_longer(server: tuple[SupervisedService, str], where: str) -> None:
    """First line and headers together, in one piece: 64 KiB are read, and a byte more is refused."""
    running_server, _ = server

    def sent(length: int) -> bytes:
        target, further_headers = "/health", ""
        if where == "headers":
            further_headers = "".join(f"X-{at}: {'x' * 500}\r\n" for at in range(100))
        plain = f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{further_headers}X: \r\n\r\n"
        rest = length - len(plain)
        if where == "first line":
            return plain.replace(target, f"{target}?{'x' * (rest - 1)}").encode()
        return plain.replace("X: \r\n\r\n", f"X: {'x' * rest}\r\n\r\n").encode()

    assert len(sent(MAX_HEAD_BYTES)) == MAX_HEAD_BYTES
    assert replies(running_server, sent(MAX_HEAD_BYTES)) == [b"HTTP/1.1 200 OK"]
    assert [line[:12] for line in replies(running_server, sent(MAX_HEAD_BYTES + 1))] == [b"HTTP/1.1 413"]
    assert is_refused(replies(running_server, sent(2 * MAX_HEAD_BYTES)))


@ON_ONE_WORKER
@pytest.mark.parametrize(
    "lengths",
    [("Content-Length: -1",), ("Content-Length: x",), ("Content-Length: 5", "Content-Length: 6")],
    ids=["negative", "no number", "two"],
)
def test_lengths_that_are_none_are_refused(server: tuple[SupervisedService, str], lengths: tuple[str, ...]) -> None:
    running_server, secret = server
    assert is_refused(replies(running_server, head(secret, *lengths) + BODY))
    assert healthy(running_server)


@ON_ONE_WORKER
def test_what_follows_a_short_length_is_no_request(server: tuple[SupervisedService, str]) -> None:
    """A body that says it is shorter than it is is cut there, and its rest is not taken for a request."""
    running_server, secret = server
    assert is_refused(replies(running_server, head(secret, "Content-Length: 2") + BODY))
    assert healthy(running_server)


@ON_ONE_WORKER
def test_chunks_are_counted(server: tuple[SupervisedService, str]) -> None:
    running_server, secret = server
    chunk = b"3e8\r\n" + b" " * 1000 + b"\r\n"
    start = head(secret, "Transfer-Encoding: chunked")
    whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert replies(running_server, start + chunk * 3 + whole) == [b"HTTP/1.1 201 Created"]
    assert is_refused(replies(running_server, start + chunk * 66))
    assert healthy(running_server)
