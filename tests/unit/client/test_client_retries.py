"""The client and a service that loses, delays, refuses and garbles: never a second price, always a plain sentence."""

from __future__ import annotations

import inspect
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from discreet import (
    BudgetExceeded,
    ClaimFailed,
    Client,
    Custodian,
    DiscreetError,
    Internal,
    InvalidInput,
    Unavailable,
    Unsupported,
)
from discreet.client.remote_dataset import attach_retry_key
from discreet.client.transport import (
    MAX_REPLY_BYTES,
    MAX_WAIT_SECONDS,
    HttpReply,
    HttpRequest,
    LostReply,
    Transport,
    parse_service_address,
)
from support.client_service import service
from support.scripted_service import (
    ScriptedService,
    build_problem,
    build_raw_reply,
    build_reply,
    drop,
    run_scripted_service,
    send_broken_chunk,
    send_huge_reply,
)
from support.service_documents import ANSWER, GUARANTEE, QUESTION, TOKEN, build_client
from support.tls_certificates import Certificate, write_certificate

__all__ = ["service"]  # a fixture


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return write_certificate(tmp_path_factory.mktemp("certificate"))


def list_requests(service: ScriptedService) -> list[tuple[str, str, str | None, bytes]]:
    return [(request.method, request.path, request.key, request.body) for request in service.seen]


# The same request again, and never a second price.

LOSSES = {
    "dropped": drop,
    "cut short": build_raw_reply(b'{"question":', announced=100),
    "cut in a chunk": send_broken_chunk,
    "429": build_problem(429, Retry_After="0"),
    "502": build_raw_reply(b"<html>", 502),
    "503": build_problem(503, "Unavailable"),
    "504": build_raw_reply(b"", 504),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_what_is_lost_is_asked_again_with_the_same_key(service: ScriptedService, loss: Any) -> None:
    service.then(loss, loss, build_reply(ANSWER, 201))
    assert build_client(service).answer(QUESTION, epsilon=0.1).value == 1234
    first, *others = list_requests(service)
    assert others == [first, first]
    assert first[:2] == ("POST", "/v1/datasets/registry/answers")
    assert first[2]


def test_a_reply_that_does_not_come_is_asked_for_again_with_the_same_key(service: ScriptedService) -> None:
    """A service that is silent for longer than the timeout counts as lost."""
    service.then(lambda _: service.over.wait(30), build_reply(ANSWER, 201))
    assert build_client(service, timeout=0.2).answer(QUESTION, epsilon=0.1).value == 1234
    first, second = list_requests(service)
    assert first == second


def test_each_call_has_a_key_of_its_own_or_the_caller_s(service: ScriptedService) -> None:
    service.then(build_reply(ANSWER, 201))
    ours = build_client(service)
    for key in (None, None, "monday's question"):
        ours.answer(QUESTION, epsilon=0.1, key=key)
    keys = [request.key for request in service.seen]
    assert len(set(keys)) == 3
    assert keys[2] == "monday's question"


@pytest.mark.parametrize("key", ["", "a" * 201, "two\nlines", "nul\0", "ключ", " a", "a "])
def test_a_key_that_cannot_be_sent_is_refused(service: ScriptedService, key: str) -> None:
    with pytest.raises(InvalidInput, match="key"):
        build_client(service).answer(QUESTION, epsilon=0.1, key=key)
    assert service.seen == []


def test_it_gives_up_plainly_and_says_how_to_go_on(service: ScriptedService) -> None:
    service.then(drop)
    with pytest.raises(Unavailable, match=r"broke off before its reply was whole.*key='mine' is not charged twice"):
        build_client(service, retries=3).answer(QUESTION, epsilon=0.1, key="mine")
    assert len(service.seen) == 4


def test_without_retries_a_request_is_sent_once(service: ScriptedService) -> None:
    service.then(build_problem(503, "Unavailable", "the ledger does not answer now"))
    with pytest.raises(Unavailable, match=r"the ledger does not answer now.*key='"):
        build_client(service, retries=0).answer(QUESTION, epsilon=0.1)
    assert len(service.seen) == 1


def list_waits(outcomes: list[HttpReply | LostReply]) -> list[float]:
    """How long a wire waits after each outcome, nothing being sent."""
    wire = Transport(parse_service_address("http://127.0.0.1:1"), TOKEN)
    return [wire._compute_wait(outcome, attempt) for attempt, outcome in enumerate(outcomes)]


def test_waits_double_and_follow_the_service() -> None:
    assert list_waits([LostReply("")] * 5) == [0.2, 0.4, 0.8, 1.6, 3.2]
    retry_after = ["7", "0", "never", "-3", "9" * 6, "9" * 60]
    assert list_waits([HttpReply(429, b"", text) for text in retry_after]) == [7, 0.4, 0.8, 1.6, MAX_WAIT_SECONDS, 6.4]


def test_the_wire_sleeps_between_two_requests(service: ScriptedService) -> None:
    service.then(build_problem(429, Retry_After="7"), drop, build_reply({}))
    slept: list[float] = []
    wire = Transport(parse_service_address(service.address), TOKEN, sleep=slept.append)
    assert wire.send(HttpRequest.get("/health")) == {}
    assert slept == [7, 0.4]


# What a refusal becomes.

STATUSES = [
    (400, "InvalidInput", InvalidInput),
    (401, None, InvalidInput),
    (403, "BudgetExceeded", BudgetExceeded),
    (403, None, InvalidInput),
    (404, None, InvalidInput),
    (405, None, InvalidInput),
    (409, None, InvalidInput),
    (409, "ClaimFailed", ClaimFailed),
    (413, None, InvalidInput),
    (415, None, InvalidInput),
    (422, "Unsupported", Unsupported),
    (500, "Internal", Internal),
    (500, None, Internal),
    (501, None, Unavailable),
    (400, "Nonsense", InvalidInput),
]


@pytest.mark.parametrize(("status", "kind", "error"), STATUSES)
def test_a_refusal_is_the_library_s_error_and_is_not_repeated(
    service: ScriptedService, status: int, kind: str | None, error: type[DiscreetError]
) -> None:
    service.then(build_problem(status, kind))
    with pytest.raises(error, match=r"^one sentence") as raised:
        build_client(service).answer(QUESTION, epsilon=0.1)
    assert type(raised.value) is error
    assert len(service.seen) == 1


@pytest.mark.parametrize(
    ("status", "error"), [(404, Unavailable), (418, Unavailable), (500, Internal), (503, Unavailable)]
)
@pytest.mark.parametrize("body", [b"", b"<html>not ours</html>", b"[]", b'{"detail": 3}', b'{"detail": ""}', b"\xff"])
def test_a_refusal_of_somebody_else_is_told_in_our_words(
    service: ScriptedService, status: int, error: type[DiscreetError], body: bytes
) -> None:
    service.then(build_raw_reply(body, status))
    with pytest.raises(error, match=r"127\.0\.0\.1") as raised:
        build_client(service, retries=1).budget()
    assert "html" not in str(raised.value)


def test_a_sentence_is_one_line_and_not_huge(service: ScriptedService) -> None:
    service.then(build_problem(400, "InvalidInput", "a\nb\x1b[31mc" + "d" * 10_000))
    with pytest.raises(InvalidInput) as raised:
        build_client(service).budget()
    assert str(raised.value).startswith("a b [31mcddd")
    assert len(str(raised.value)) <= 2000


def test_redirects_are_not_followed(service: ScriptedService) -> None:
    """The token would go along to wherever they lead."""
    with run_scripted_service() as elsewhere:
        elsewhere.then(build_reply(ANSWER, 201))
        service.then(build_raw_reply(b"", 307, Location=elsewhere.address + "/v1/datasets/registry/answers"))
        with pytest.raises(InvalidInput, match="redirect, which is not followed"):
            build_client(service).answer(QUESTION, epsilon=0.1)
        assert elsewhere.seen == []
    assert len(service.seen) == 1


def test_the_advice_is_for_who_speaks_python(service: ScriptedService) -> None:
    """The service tells how to send a token and where to look over HTTP."""
    for kind, advice in (
        ("unauthenticated", "the token is not valid: ask the custodian for a new one"),
        ("not-found", "there is no data set 'registry' that this token may ask, .*; client.datasets lists"),
    ):
        service.steps = [build_reply({"type": f"/problems/{kind}", "detail": "GET /v1/datasets", "kind": None}, 404)]
        with pytest.raises(InvalidInput, match=advice) as raised:
            build_client(service).budget()
        assert "GET" not in str(raised.value)


@pytest.mark.parametrize("call", ["answer", "preview"])
def test_a_question_without_a_word_of_noise_is_refused_here(service: ScriptedService, call: str) -> None:
    with pytest.raises(InvalidInput, match=r"epsilon=0\.1 or accuracy='±50 at 95%'"):
        getattr(build_client(service), call)(QUESTION)
    assert service.seen == []


def test_the_data_sets_of_a_token_are_listed(service: ScriptedService) -> None:
    service.then(build_reply({"name": "ann", "datasets": ["registry", "survey"]}))
    assert build_client(service).datasets == ("registry", "survey")
    assert [request.path for request in service.seen] == ["/v1/me"]


def test_where_nobody_listens_it_is_unavailable_and_nothing_was_sent() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ours = Client(f"http://127.0.0.1:{port}", TOKEN, "registry", retries=1, pause=0.001)
    for call in (ours.budget, lambda: ours.answer(QUESTION, epsilon=0.1)):
        with pytest.raises(
            Unavailable,
            match=f"127.0.0.1:{port} cannot be reached: no service listens there; check the address, or try later$",
        ) as raised:
            call()
        assert type(raised.value) is Unavailable


def test_what_was_sent_once_may_have_been_charged_whoever_listens_later(service: ScriptedService) -> None:
    """The first request breaks off, and at the second nobody is there."""
    service.then(drop)
    wire = Transport(parse_service_address(service.address), TOKEN, retries=2)
    outcomes = iter(
        [wire._send_once(HttpRequest.post("/", {}, "mine"), None), *[LostReply("is away", was_sent=False)] * 2]
    )

    class Flaky(Transport):
        def _send_once(self, *_: object) -> HttpReply | LostReply:
            return next(outcomes)

    flaky = Flaky(wire.address, TOKEN, retries=2, sleep=lambda _: None)
    with pytest.raises(Unavailable, match=r"is away; whether it was charged is not known"), attach_retry_key("mine"):
        flaky.send(HttpRequest.post("/", {}, "mine"))


def test_a_job_that_cannot_be_looked_at_may_have_been_charged() -> None:
    """Only the request that asks for it tells whether anything was sent."""
    wire = Transport(parse_service_address("http://127.0.0.1:1"), TOKEN, retries=0)
    with pytest.raises(Unavailable, match="whether it was charged is not known"), attach_retry_key("mine"):
        wire.send(HttpRequest.get("/v1/jobs/1"))


def test_a_refusal_that_comes_before_all_was_sent_is_heard() -> None:
    """A service need not read what is too large before it says so."""
    refusal = b'{"detail": "a request has at most 65536 bytes", "kind": null}'
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse_request() -> None:
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(100)
                accepted.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n%s" % (len(refusal), refusal))

        thread = threading.Thread(target=refuse_request)
        thread.start()
        ours = Client(f"http://127.0.0.1:{listening.getsockname()[1]}", TOKEN, "registry", retries=0)
        with pytest.raises(InvalidInput, match="at most 65536 bytes"):
            ours.answer("x" * 20_000_000, epsilon=1)
        thread.join()


# What is no reply of ours.

GARBAGE = {
    "text": b"hello",
    "not a number": b'{"rows": NaN}',
    "deep": b"[" * 200_000,
    "a list": b"[]",
    "nothing": b"null",
    "empty": b"",
    "not unicode": b"\xff\xfe",
    "no fields": b"{}",
    "other fields": json.dumps(ANSWER | {"rows": 3}).encode(),
    "a bad promise": json.dumps(ANSWER | {"guarantee": {**GUARANTEE, "epsilon": "many"}}).encode(),
    "a promise of nothing": json.dumps(ANSWER | {"cost": {**GUARANTEE, "model": "perfect"}}).encode(),
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=list(GARBAGE))
def test_garbage_is_told_as_such(service: ScriptedService, body: bytes) -> None:
    """Whatever comes, it is one sentence, and the key to go on with."""
    service.then(build_raw_reply(body))
    with pytest.raises(Unavailable, match=r"did not answer as a discreet service does.*key='"):
        build_client(service).answer(QUESTION, epsilon=0.1)
    assert len(service.seen) == 1


def test_a_reply_beyond_measure_is_not_read(service: ScriptedService) -> None:
    service.then(send_huge_reply)
    with pytest.raises(Unavailable, match=f"more than {MAX_REPLY_BYTES:,} bytes"):
        build_client(service).history()
    assert len(service.seen) == 1


# The token.


def test_the_token_is_sent_and_told_nowhere(service: ScriptedService, capfd: pytest.CaptureFixture[str]) -> None:
    """Not in a repr, not in an error even if the service echoes it, not on a screen."""
    service.then(build_problem(400, "InvalidInput", f"you sent Bearer {TOKEN}"))
    ours = build_client(service)
    with pytest.raises(InvalidInput) as raised:
        ours.answer(QUESTION, epsilon=0.1)
    assert service.seen[0].headers["authorization"] == f"Bearer {TOKEN}"
    texts = [repr(ours), str(raised.value), repr(raised.value), repr(ours._require_open()), *capfd.readouterr()]
    assert [text for text in texts if TOKEN in text] == []
    assert "you sent Bearer ..." in str(raised.value)
    assert repr(ours) == f"Client('{service.address}', 'registry')"


@pytest.mark.parametrize("token", ["", "two words", "line\r\nX-Evil: 1", "тайна", None, 7])
def test_a_token_that_is_none_is_refused_and_not_shown(token: Any) -> None:
    with pytest.raises(InvalidInput, match="a token is the text that the custodian gave you") as raised:
        Client("http://127.0.0.1:1", token, "registry")
    assert "Evil" not in str(raised.value)


# The way there.


@pytest.mark.parametrize(
    "address", ["http://data.example.org", "http://10.0.0.1:8000", "http://[2001:db8::1]", "http://0.0.0.0"]
)
def test_a_token_does_not_travel_in_the_clear(address: str) -> None:
    with pytest.raises(InvalidInput, match=r"would travel to .* in the clear"):
        Client(address, TOKEN, "registry")
    assert repr(Client(address, TOKEN, "registry", insecure=True)) == f"Client('{address}', 'registry')"


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1", "http://127.8.8.8:1", "http://localhost:8000/", "http://[::1]:9", "https://example.org"],
)
def test_this_machine_and_tls_are_allowed(address: str) -> None:
    assert Client(address, TOKEN, "registry").name == "registry"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.org",
        "ftp://example.org",
        "https://",
        "https://a b",
        "https://example.org:port",
        "https://ann:x@host",
        "https://host/?a=1",
        "https://host/#a",
        "https://exämple.org",
        "https://[::1",
        "http://127.0.0.1:99999",
        None,
    ],
)
def test_an_address_that_is_none_is_refused(address: Any) -> None:
    with pytest.raises(InvalidInput, match="an address is written like"):
        Client(address, TOKEN, "registry")


def test_a_service_may_be_below_a_path(service: ScriptedService) -> None:
    service.then(build_reply({"budget": []}))
    Client(f"{service.address}/privacy/", TOKEN, "a/b ü").budget()
    assert service.seen[0].path == "/privacy/v1/datasets/a%2Fb%20%C3%BC/budget"


def test_under_tls_the_certificate_is_checked(certificate: Certificate) -> None:
    with run_scripted_service(certificate) as service:
        service.then(build_reply({"budget": []}))
        assert build_client(service, ca=certificate.certificate).budget() == ()
        requests_before = len(service.seen)
        with pytest.raises(Unavailable, match="shows a certificate that is not believed here"):
            build_client(service).budget()
        elsewhere = service.address.replace("127.0.0.1", "127.0.0.2")
        with pytest.raises(Unavailable, match=r"certificate|reached"):
            Client(elsewhere, TOKEN, "registry", ca=certificate.certificate, retries=0).budget()
        assert len(service.seen) == requests_before


def test_without_tls_there_is_no_https(service: ScriptedService) -> None:
    with pytest.raises(Unavailable, match="does not speak TLS as it should"):
        Client(service.address.replace("http:", "https:"), TOKEN, "registry").budget()
    assert service.seen == []


def test_an_authority_must_be_readable_and_of_use(tmp_path: Path, certificate: Certificate) -> None:
    (tmp_path / "empty.pem").write_text("")
    for name in ("none.pem", "empty.pem"):
        with pytest.raises(InvalidInput, match="cannot be read as certificates"):
            Client("https://127.0.0.1", TOKEN, "registry", ca=tmp_path / name)
    with pytest.raises(InvalidInput, match="begin with https"):
        Client("http://127.0.0.1", TOKEN, "registry", ca=certificate.certificate)


@pytest.mark.parametrize(
    "settings", [{"timeout": 0}, {"timeout": "1"}, {"retries": -1}, {"retries": 1.5}, {"pause": 0}]
)
def test_times_and_retries_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Client("http://127.0.0.1:1", TOKEN, "registry", **settings)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", None])
def test_a_data_set_has_a_name(name: Any) -> None:
    with pytest.raises(InvalidInput, match="dataset must be"):
        Client("http://127.0.0.1:1", TOKEN, name)


def test_a_closed_client_asks_no_more(service: ScriptedService) -> None:
    with build_client(service) as ours:
        pass
    with pytest.raises(InvalidInput, match="the client is closed"):
        ours.answer(QUESTION, epsilon=0.1)
    assert service.seen == []
    assert repr(ours) == "Client('closed', 'registry')"


# The same calls as a custodian's.

NOT_OVER_HTTP = {"open", "check", "rehearse", "is_stale", "cached_only", "notable_entries", "validate"}
"""Calls made where the rows are: opening, registering, planning; a rehearsing client is made by rehearsal=True."""
NOT_SENT = {"analyst"}
"""Who asks is whom the token was given to."""


def list_calls(kind: type) -> dict[str, inspect.Signature]:
    named = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(call) for name, call in named if not name.startswith("_")}


def test_every_call_of_a_custodian_is_a_client_s() -> None:
    """By the same names, in the same order, with the same defaults."""
    theirs, ours = list_calls(Custodian), list_calls(Client)
    assert theirs.keys() - ours.keys() == NOT_OVER_HTTP
    assert ours.keys() - theirs.keys() == set()
    for name in ours:
        wanted = {
            parameter_name: parameter
            for parameter_name, parameter in theirs[name].parameters.items()
            if parameter_name not in NOT_SENT
        }
        own_parameters = ours[name].parameters
        assert [parameter_name for parameter_name in own_parameters if parameter_name in wanted] == list(wanted)
        assert own_parameters.keys() - wanted.keys() <= {"key"}
        for parameter_name, parameter in wanted.items():
            plain = {"ignore_stage": "ignore_job_stage"}.get(
                getattr(parameter.default, "__name__", ""), parameter.default
            )
            renamed = {"ignore_job_stage": "ignore_job_stage"}.get(
                getattr(own_parameters[parameter_name].default, "__name__", ""), own_parameters[parameter_name].default
            )
            assert (own_parameters[parameter_name].kind, renamed) == (parameter.kind, plain), (name, parameter_name)


def test_every_call_of_a_session_is_a_client_s() -> None:
    from discreet.client.remote_session import RemoteSession as Ours
    from discreet.custodian.session import CountingSession

    assert list_calls(CountingSession).keys() - list_calls(Ours).keys() == {
        "catch_up"
    }  # with the other processes of a service
    assert list(list_calls(Ours)["answer"].parameters) == list(list_calls(CountingSession)["answer"].parameters)


def test_asking_loads_no_engine() -> None:
    """A client is light: what a custodian needs is not loaded to ask a question."""
    import subprocess
    import sys

    command = "import discreet, sys; discreet.Client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True).stdout.split()
    assert {"sqlalchemy", "duckdb", "sqlglot", "scipy", "numba", "yaml", "fastapi"} & set(loaded) == set()
