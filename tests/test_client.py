"""The client and a service that loses, delays, refuses and garbles: never a second price, always a plain sentence."""

from __future__ import annotations

import inspect
import json
import socket
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from fractions import Fraction
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import discreet
from certificates import Certificate, write_certificate
from discreet import (
    Accuracy,
    BudgetExceeded,
    ClaimFailed,
    Client,
    Custodian,
    DiscreetError,
    Distance,
    Internal,
    InvalidInput,
    Prior,
    Unavailable,
    Unsupported,
    total,
)
from discreet.client.address import read_address
from discreet.client.wire import LONGEST_WAIT, MOST, Lost, Received, Request, Wire
from scripted import Scripted, broken_chunk, drop, endless, problem, raw, reply, scripted

TOKEN = "dsc_" + "s3cr3t" * 7
QUESTION = "SELECT COUNT(*) FROM registry WHERE smoker"
GUARANTEE = {
    "model": "dp",
    "epsilon": "1/10",
    "neighbours": "replace-one",
    "unit": "person_id",
    "assumptions": ["the schema is true"],
    "words": "Differential privacy with epsilon 0.1 when one person_id is replaced by any other.",
}
ANSWER: dict[str, Any] = {
    "id": "a1",
    "question": QUESTION,
    "columns": ["count"],
    "numbers": ["count"],
    "dates": [],
    "rows": [{"count": 1234}],
    "value": 1234,
    "headline": 1234,
    "intervals_95": [{"count": [1200, 1268]}],
    "posteriors": [{"count": {"mean": 1230.5, "median": 1230.0, "interval_95": [1199.0, 1262.0]}}],
    "reconciled": {"rows": [{"count": 1234}], "intervals_95": [{"count": [1200, 1268]}], "because": ["it is a count"]},
    "shaped_by_prior": False,
    "warning": None,
    "meaning": "the count is about 1234",
    "mechanism": "discrete Laplace",
    "accuracy": "within 34",
    "stored": False,
    "entry": 7,
    "spent_so_far": {"dp": "1/10", "approx-dp": None},
    "guarantee": GUARANTEE,
    "cost": GUARANTEE,
    "picture": True,
}
PREVIEW = {
    "question": QUESTION,
    "mechanism": "discrete Laplace",
    "expected_error": 14.1,
    "prior_error": None,
    "reason": "",
    "accuracy": "within 34",
    "candidates": [],
    "guarantee": GUARANTEE,
    "cost": GUARANTEE | {"epsilon": "0"},
    "times": 3,
    "warnings": [],
    "stored_epsilon": "1/10",
    "pictured": True,
    "budget": [],
}
ABOUT = {"name": "registry", "schema": {"name": "registry", "columns": {}}, "deadline": 0.01, "jobs": True}


@pytest.fixture
def service() -> Iterator[Scripted]:
    with scripted() as script:
        yield script


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return write_certificate(tmp_path_factory.mktemp("certificate"))


def client(service: Scripted, **more: Any) -> Client:
    return Client(service.address, TOKEN, "registry", **{"pause": 0.001} | more)


def asked(service: Scripted) -> list[tuple[str, str, str | None, bytes]]:
    return [(one.method, one.path, one.key, one.body) for one in service.seen]


# The same request again, and never a second price.

LOSSES = {
    "dropped": drop,
    "cut short": raw(b'{"question":', announced=100),
    "cut in a chunk": broken_chunk,
    "429": problem(429, Retry_After="0"),
    "502": raw(b"<html>", 502),
    "503": problem(503, "Unavailable"),
    "504": raw(b"", 504),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_what_is_lost_is_asked_again_with_the_same_key(service: Scripted, loss: Any) -> None:
    service.then(loss, loss, reply(ANSWER, 201))
    assert client(service).answer(QUESTION, epsilon=0.1).value == 1234
    first, *others = asked(service)
    assert others == [first, first]
    assert first[:2] == ("POST", "/v1/datasets/registry/answers")
    assert first[2]


def test_a_reply_that_does_not_come_is_asked_for_again_with_the_same_key(service: Scripted) -> None:
    """A service that is silent for longer than the timeout counts as lost."""
    service.then(lambda _: service.over.wait(30), reply(ANSWER, 201))
    assert client(service, timeout=0.2).answer(QUESTION, epsilon=0.1).value == 1234
    first, second = asked(service)
    assert first == second


def test_each_call_has_a_key_of_its_own_or_the_caller_s(service: Scripted) -> None:
    service.then(reply(ANSWER, 201))
    ours = client(service)
    for key in (None, None, "monday's question"):
        ours.answer(QUESTION, epsilon=0.1, key=key)
    keys = [one.key for one in service.seen]
    assert len(set(keys)) == 3
    assert keys[2] == "monday's question"


@pytest.mark.parametrize("key", ["", "a" * 201, "two\nlines", "nul\0", "ключ", " a", "a "])
def test_a_key_that_cannot_be_sent_is_refused(service: Scripted, key: str) -> None:
    with pytest.raises(InvalidInput, match="key"):
        client(service).answer(QUESTION, epsilon=0.1, key=key)
    assert service.seen == []


def test_it_gives_up_plainly_and_says_how_to_go_on(service: Scripted) -> None:
    service.then(drop)
    with pytest.raises(Unavailable, match=r"broke off before its reply was whole.*key='mine' is not charged twice"):
        client(service, retries=3).answer(QUESTION, epsilon=0.1, key="mine")
    assert len(service.seen) == 4


def test_without_retries_a_request_is_sent_once(service: Scripted) -> None:
    service.then(problem(503, "Unavailable", "the ledger does not answer now"))
    with pytest.raises(Unavailable, match=r"the ledger does not answer now.*key='"):
        client(service, retries=0).answer(QUESTION, epsilon=0.1)
    assert len(service.seen) == 1


def waits(outcomes: list[Received | Lost]) -> list[float]:
    """How long a wire waits after each outcome, nothing being sent."""
    wire = Wire(read_address("http://127.0.0.1:1"), TOKEN)
    return [wire._wait(outcome, attempt) for attempt, outcome in enumerate(outcomes)]


def test_waits_double_and_follow_the_service() -> None:
    assert waits([Lost("")] * 5) == [0.2, 0.4, 0.8, 1.6, 3.2]
    said = ["7", "0", "never", "-3", "9" * 6, "9" * 60]
    assert waits([Received(429, b"", one) for one in said]) == [7, 0.4, 0.8, 1.6, LONGEST_WAIT, 6.4]


def test_the_wire_sleeps_between_two_requests(service: Scripted) -> None:
    service.then(problem(429, Retry_After="7"), drop, reply({}))
    slept: list[float] = []
    wire = Wire(read_address(service.address), TOKEN, sleep=slept.append)
    assert wire.ask(Request.get("/health")) == {}
    assert slept == [7, 0.4]


# What a refusal becomes.

STATUSES = [
    (400, "InvalidInput", InvalidInput),
    (401, None, InvalidInput),
    (403, "BudgetExceeded", BudgetExceeded),
    (403, None, InvalidInput),
    (404, None, InvalidInput),
    (405, None, InvalidInput),
    (409, "InvalidInput", InvalidInput),
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
    service: Scripted, status: int, kind: str | None, error: type[DiscreetError]
) -> None:
    service.then(problem(status, kind))
    with pytest.raises(error, match=r"^one sentence") as raised:
        client(service).answer(QUESTION, epsilon=0.1)
    assert type(raised.value) is error
    assert len(service.seen) == 1


@pytest.mark.parametrize(
    ("status", "error"), [(404, InvalidInput), (418, InvalidInput), (500, Internal), (503, Unavailable)]
)
@pytest.mark.parametrize("body", [b"", b"<html>not ours</html>", b"[]", b'{"detail": 3}', b'{"detail": ""}', b"\xff"])
def test_a_refusal_of_somebody_else_is_told_in_our_words(
    service: Scripted, status: int, error: type[DiscreetError], body: bytes
) -> None:
    service.then(raw(body, status))
    with pytest.raises(error, match=r"127\.0\.0\.1") as raised:
        client(service, retries=1).budget()
    assert "html" not in str(raised.value)


def test_a_sentence_is_one_line_and_not_endless(service: Scripted) -> None:
    service.then(problem(400, "InvalidInput", "a\nb\x1b[31mc" + "d" * 10_000))
    with pytest.raises(InvalidInput) as raised:
        client(service).budget()
    assert str(raised.value).startswith("a b [31mcddd")
    assert len(str(raised.value)) <= 2000


def test_redirects_are_not_followed(service: Scripted) -> None:
    """The token would go along to wherever they lead."""
    with scripted() as elsewhere:
        elsewhere.then(reply(ANSWER, 201))
        service.then(raw(b"", 307, Location=elsewhere.address + "/v1/datasets/registry/answers"))
        with pytest.raises(InvalidInput, match="redirect, which is not followed"):
            client(service).answer(QUESTION, epsilon=0.1)
        assert elsewhere.seen == []
    assert len(service.seen) == 1


def test_where_nobody_listens_it_is_unavailable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port} cannot be reached: no service listens there"):
        Client(f"http://127.0.0.1:{port}", TOKEN, "registry", retries=1, pause=0.001).budget()


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
def test_garbage_is_told_as_such(service: Scripted, body: bytes) -> None:
    """Whatever comes, it is one sentence, and the key to go on with."""
    service.then(raw(body))
    with pytest.raises(Unavailable, match=r"did not answer as a discreet service does.*key='"):
        client(service).answer(QUESTION, epsilon=0.1)
    assert len(service.seen) == 1


def test_a_reply_beyond_measure_is_not_read(service: Scripted) -> None:
    service.then(endless)
    with pytest.raises(Unavailable, match=f"more than {MOST:,} bytes"):
        client(service).history()
    assert len(service.seen) == 1


# The token.


def test_the_token_is_sent_and_told_nowhere(service: Scripted, capfd: pytest.CaptureFixture[str]) -> None:
    """Not in a repr, not in an error even if the service echoes it, not on a screen."""
    service.then(problem(400, "InvalidInput", f"you sent Bearer {TOKEN}"))
    ours = client(service)
    with pytest.raises(InvalidInput) as raised:
        ours.answer(QUESTION, epsilon=0.1)
    assert service.seen[0].headers["authorization"] == f"Bearer {TOKEN}"
    told = [repr(ours), str(raised.value), repr(raised.value), repr(ours._open()), *capfd.readouterr()]
    assert [text for text in told if TOKEN in text] == []
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


def test_a_service_may_be_below_a_path(service: Scripted) -> None:
    service.then(reply({"budget": []}))
    Client(f"{service.address}/privacy/", TOKEN, "a/b ü").budget()
    assert service.seen[0].path == "/privacy/v1/datasets/a%2Fb%20%C3%BC/budget"


def test_under_tls_the_certificate_is_checked(certificate: Certificate) -> None:
    with scripted(certificate) as service:
        service.then(reply({"budget": []}))
        assert client(service, ca=certificate.certificate).budget() == ()
        seen = len(service.seen)
        with pytest.raises(Unavailable, match="shows a certificate that is not believed here"):
            client(service).budget()
        elsewhere = service.address.replace("127.0.0.1", "127.0.0.2")
        with pytest.raises(Unavailable, match=r"certificate|reached"):
            Client(elsewhere, TOKEN, "registry", ca=certificate.certificate, retries=0).budget()
        assert len(service.seen) == seen


def test_an_authority_must_be_readable_and_of_use(tmp_path: Path, certificate: Certificate) -> None:
    (tmp_path / "empty.pem").write_text("")
    for name in ("none.pem", "empty.pem"):
        with pytest.raises(InvalidInput, match="cannot be read as certificates"):
            Client("https://127.0.0.1", TOKEN, "registry", ca=tmp_path / name)
    with pytest.raises(InvalidInput, match="begin with https"):
        Client("http://127.0.0.1", TOKEN, "registry", ca=certificate.certificate)


@pytest.mark.parametrize("more", [{"timeout": 0}, {"timeout": "1"}, {"retries": -1}, {"retries": 1.5}, {"pause": 0}])
def test_times_and_retries_are_checked(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Client("http://127.0.0.1:1", TOKEN, "registry", **more)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", None])
def test_a_data_set_has_a_name(name: Any) -> None:
    with pytest.raises(InvalidInput, match="dataset must be"):
        Client("http://127.0.0.1:1", TOKEN, name)


def test_a_closed_client_asks_no_more(service: Scripted) -> None:
    with client(service) as ours:
        pass
    with pytest.raises(InvalidInput, match="the client is closed"):
        ours.answer(QUESTION, epsilon=0.1)
    assert service.seen == []
    assert repr(ours) == "Client('closed', 'registry')"


# What is said is sent exactly.

SAID: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"epsilon": 0.1}, {"epsilon": "1/10"}),
    ({"epsilon": Fraction(1, 3), "delta": Decimal("1e-9")}, {"epsilon": "1/3", "delta": "1/1000000000"}),
    (
        {"noise_scale": 20, "model": "approx-dp", "fresh": True},
        {"noise_scale": "20", "model": "approx-dp", "fresh": True},
    ),
    ({"accuracy": "±50 at 95%", "rows": 5e3}, {"accuracy": "±50 at 95%", "rows": 5000}),
    ({"accuracy": Accuracy.parse("±50 at 95%")}, {"accuracy": "±50 at 95%"}),
    ({"epsilon": 1, "prior": "normal(38, 6)"}, {"epsilon": "1", "prior": "normal(38, 6)"}),
    ({"epsilon": 1, "prior": {"F": 1, "M": 3}}, {"epsilon": "1", "prior": '{"F": 1, "M": 3}'}),
    ({"epsilon": 1, "prior": {date(2020, 1, 31): 0.5}}, {"epsilon": "1", "prior": '{"2020-01-31": 1}'}),
    ({"epsilon": 1, "prior": Prior.uniform(1, 3)}, {"epsilon": "1", "prior": '{"1": 1, "2": 1, "3": 1}'}),
    (
        {"epsilon": 1, "distance": Distance.nominal(), "interval": True},
        {"epsilon": "1", "distance": "nominal", "interval": True},
    ),
    ({"epsilon": 1, "constraints": ("total = 9",)}, {"epsilon": "1", "constraints": ["total = 9"]}),
    ({"epsilon": 1, "constraints": []}, {"epsilon": "1"}),
]


@pytest.mark.parametrize(("said", "sent"), SAID)
def test_numbers_and_priors_are_sent_by_their_exact_text(
    service: Scripted, said: dict[str, Any], sent: dict[str, Any]
) -> None:
    service.then(reply(ANSWER, 201))
    client(service).answer(QUESTION, **said)
    assert service.seen[0].document == {"question": QUESTION} | sent
    assert service.seen[0].headers["content-type"] == "application/json"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0}, "epsilon must be above 0"),
    ({"epsilon": "0.1"}, "epsilon must be a number"),
    ({"epsilon": float("nan")}, "epsilon must be a finite number"),
    ({"epsilon": 1, "delta": 1}, "delta must be between 0 and 1"),
    ({"epsilon": 1, "prior": 3}, "a prior is text, weights or a Prior"),
    ({"epsilon": 1, "prior": {}}, "a prior needs at least one value"),
    ({"epsilon": 1, "prior": Prior.independent([Prior.uniform(0, 1)] * 2)}, "several components cannot be sent"),
    ({"epsilon": 1, "distance": Distance.ordinal("abc")}, "a distance is sent by its name"),
    ({"accuracy": Accuracy(Fraction(1, 3), Fraction(95, 100))}, "more digits than can be written"),
    ({"epsilon": 1, "rows": 0}, "the number of rows expected"),
    ({"epsilon": 1, "constraints": "total = 9"}, "constraints are sent as a list of texts"),
    ({"epsilon": 1, "constraints": [total(9)]}, "constraints are sent as a list of texts"),
]


@pytest.mark.parametrize(("said", "words"), REFUSED)
def test_what_cannot_be_sent_is_refused_here(service: Scripted, said: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        client(service).answer(QUESTION, **said)
    assert service.seen == []


@pytest.mark.parametrize("question", [3, None, {"from": {1, 2}}, {"where": float("inf")}, {"where": "\ud800"}])
def test_a_question_is_text_or_json(service: Scripted, question: Any) -> None:
    with pytest.raises(InvalidInput, match="a question"):
        client(service).answer(question, epsilon=1)
    assert service.seen == []


# What is told is typed.


def test_an_answer_is_the_library_s_own(service: Scripted) -> None:
    service.then(reply(ANSWER, 201))
    made = client(service).answer(QUESTION, epsilon=0.1, prior="normal(1300, 100)")
    assert isinstance(made, discreet.Answer)
    assert (made.value, made.headline, made.interval(), made.entry, made.prior) == (1234, 1234, (1200, 1268), 7, True)
    assert (made.guarantee.epsilon, made.guarantee.assumptions) == (Fraction(1, 10), ("the schema is true",))
    assert made.spent == {"dp": Fraction(1, 10), "approx-dp": None}
    assert made.meaning == "the count is about 1234"
    assert made.reconciled is not None
    assert made.reconciled.intervals(0.95) == ({"count": (1200, 1268)},)
    told = {name: value for name, value in ANSWER.items() if name not in {"id", "picture"}}
    assert json.loads(json.dumps(made.to_json())) == told


def test_a_posterior_tells_what_was_told_and_refuses_the_rest(service: Scripted) -> None:
    service.then(reply(ANSWER, 201))
    known = client(service).answer(QUESTION, epsilon=0.1, prior="normal(1300, 100)").posterior
    assert isinstance(known, discreet.Posterior)
    assert (known.numeric, known.mean(), known.median(), known.interval()) == (True, 1230.5, 1230.0, (1199.0, 1262.0))
    assert (known.quantile(0.025), known.quantile(0.5), known.quantile(0.975)) == (1199.0, 1230.0, 1262.0)
    assert repr(known) == "Posterior(mean 1230.5, 95 % between 1199 and 1262)"
    untold: list[Callable[[], object]] = [known.variance, lambda: known.mass, lambda: known.centres]
    untold += [lambda: known.quantile(0.1), lambda: known.interval(0.9), lambda: known.probability("a")]
    for ask in untold:
        with pytest.raises(InvalidInput):
            ask()


def test_another_confidence_is_refused(service: Scripted) -> None:
    service.then(reply(ANSWER, 201))
    made = client(service).answer(QUESTION, epsilon=0.1)
    asks: list[Callable[[], object]] = [lambda: made.interval(0.9), lambda: made.reconciled.intervals(0.9)]  # type: ignore[union-attr]
    asks += [lambda: made.range(1, 2, 0.9), lambda: made.population(0.9)]
    for ask in asks:
        with pytest.raises(InvalidInput, match="at 95 % and at no other"):
            ask()
    assert len(service.seen) == 1


def test_dates_names_and_many_rows(service: Scripted) -> None:
    """Dates are dates where the service says so, a law over names is whole, and a law that is not told is refused."""
    dated = {
        "columns": ["day", "sex"],
        "numbers": ["day", "sex"],
        "rows": [{"day": "2020-01-31", "sex": "F"}, {"day": None, "sex": "2020-01-31"}],
    }
    dated |= {"intervals_95": [{"day": ["2020-01-01", "2020-02-01"], "sex": None}] * 2, "dates": ["day"]}
    laws = [{"day": None, "sex": {"probabilities": {"F": 0.25, "M": 0.75}}}] * 2
    service.then(reply(ANSWER | dated | {"posteriors": laws}, 201), reply(ANSWER | {"posteriors": None}, 201))
    made = client(service).answer(QUESTION, epsilon=0.1)
    assert made.rows == ({"day": date(2020, 1, 31), "sex": "F"}, {"day": None, "sex": "2020-01-31"})
    assert made.intervals(0.95)[0] == {"day": (date(2020, 1, 1), date(2020, 2, 1)), "sex": None}
    law = made.posteriors()[1]["sex"]
    assert law is not None
    assert law.probabilities() == {"F": 0.25, "M": 0.75}
    with pytest.raises(InvalidInput, match="posteriors of at most 512 rows"):
        client(service).answer(QUESTION, epsilon=0.1).posteriors()


# More of an answer, for nothing.

RANGE = {"asked": ["20", "30"], "low": 20, "high": 31, "value": 5.5, "interval": [1.0, 9.0], "confidence": 0.95}
PEOPLE = {"value": 0.5, "interval": [0.4, 0.6], "confidence": 0.95, "noise": 0.01, "sampling": 0.1, "words": "so"}


def test_ranges_and_population_ask_the_same_question_again(service: Scripted) -> None:
    service.then(reply(ANSWER, 201))
    made = client(service).answer(QUESTION, epsilon=0.1, fresh=True, constraints=["total = 9"])
    service.steps[:] = [reply(PREVIEW), reply(ANSWER | {"ranges": [RANGE]}, 201)]
    found = made.range(20, Fraction(30))
    assert (found.low, found.high, found.value, found.interval) == (20, 31, 5.5, (1.0, 9.0))
    body = {"question": QUESTION, "epsilon": "1/10"}
    assert [one.document for one in service.seen[1:]] == [
        body,
        body | {"constraints": ["total = 9"], "ranges": ["20..30"]},
    ]
    service.steps[:] = [reply(PREVIEW), reply(ANSWER | {"population": [{"count": PEOPLE}]}, 201)]
    people = made.population(size=9000)
    assert (people[0]["count"].name, people[0]["count"].sampling) == ("count", 0.1)
    assert service.seen[-1].document["population_size"] == 9000
    assert service.seen[-1].document["population"] is True
    assert len({service.seen[0].key, service.seen[2].key, service.seen[4].key}) == 3


def test_a_range_that_would_be_paid_for_is_not_asked(service: Scripted) -> None:
    """After a refresh of the data set the answer is stored no longer."""
    service.then(reply(ANSWER, 201))
    made = client(service).answer(QUESTION, epsilon=0.1)
    service.steps[:] = [reply(PREVIEW | {"cost": GUARANTEE})]
    with pytest.raises(InvalidInput, match="this would be charged; ask anew"):
        made.range(20, 30)
    assert len(service.asked("/answers")) == 1


def test_a_range_of_another_answer_is_not_told(service: Scripted) -> None:
    service.then(reply(ANSWER, 201))
    made = client(service).answer(QUESTION, epsilon=0.1)
    service.steps[:] = [reply(PREVIEW), reply(ANSWER | {"rows": [{"count": 1200}], "ranges": [RANGE]}, 201)]
    with pytest.raises(InvalidInput, match="by now the service tells another answer"):
        made.range(20, 30)


@pytest.mark.parametrize(("low", "high"), [("", 1), ("1..2", 3), (1, " "), ("a" * 101, 1)])
def test_a_range_has_two_ends(service: Scripted, low: object, high: object) -> None:
    service.then(reply(ANSWER, 201))
    made = client(service).answer(QUESTION, epsilon=0.1)
    with pytest.raises(InvalidInput, match="a range has a low and a high end"):
        made.range(low, high)
    assert len(service.seen) == 1


def test_a_range_of_dates_is_told_in_dates(service: Scripted) -> None:
    service.then(reply(ANSWER, 201))
    made = client(service).answer(QUESTION, epsilon=0.1)
    told = RANGE | {"low": "2020-01-01", "high": "2020-12-31"}
    service.steps[:] = [reply(PREVIEW), reply(ANSWER | {"ranges": [told]}, 201)]
    assert made.range(date(2020, 1, 5), "2020-12-30").low == date(2020, 1, 1)
    assert service.seen[-1].document["ranges"] == ["2020-01-05..2020-12-30"]


def test_without_a_picture_there_is_none(service: Scripted, tmp_path: Path) -> None:
    service.then(reply(ANSWER | {"picture": False}, 201))
    made = client(service).answer(QUESTION, epsilon=0.1)
    with pytest.raises(InvalidInput, match="a picture shows"):
        made.plot(tmp_path / "a.svg")
    assert made.picture_spec() is None


def test_a_picture_is_drawn_from_what_the_service_tells(service: Scripted, tmp_path: Path) -> None:
    from discreet.bars import Bars
    from discreet.pictures import picture_spec

    spec = picture_spec(Bars("a title", "age", (0.0, 1.0), (3.0,), ((1.0, 5.0),), "a sentence"))
    service.then(reply(ANSWER, 201), reply({"spec": spec}))
    made = client(service).answer(QUESTION, epsilon=0.1)
    assert "a sentence" in made.plot(tmp_path / "a.svg").read_text()
    assert made.picture_spec() == json.loads(json.dumps(spec))
    assert service.seen[-1].path == "/v1/datasets/registry/answers/a1/picture"
    with pytest.raises(InvalidInput, match=r"ends in .svg"):
        made.plot(tmp_path / "a.txt")
    service.steps[:] = [reply({"spec": "no"})]
    with pytest.raises(Unavailable, match="did not answer"):
        made.plot(tmp_path / "b.svg")
    assert not (tmp_path / "b.svg").exists()


# Long work.

JOB = {"id": "j1", "kind": "ask", "state": "running", "stage": None, "answer": None, "problem": None, "files": []}


def test_a_question_that_runs_as_a_job_is_waited_for(service: Scripted) -> None:
    done = JOB | {"state": "done", "answer": "a1"}
    service.then(
        reply(JOB | {"state": "waiting"}, 202), reply(ABOUT), reply(JOB), drop, reply(JOB), reply(done), reply(ANSWER)
    )
    assert client(service).answer(QUESTION, epsilon=0.1).value == 1234
    paths = [one.path for one in service.seen]
    assert paths == [
        "/v1/datasets/registry/answers",
        "/v1/datasets/registry",
        *["/v1/jobs/j1"] * 4,
        "/v1/datasets/registry/answers/a1",
    ]


@pytest.mark.parametrize(
    ("told", "error", "words"),
    [
        ({"status": 403, "detail": "nothing is left", "kind": "BudgetExceeded"}, BudgetExceeded, "nothing is left"),
        ({"status": 503, "detail": "cut short", "kind": "Unavailable"}, Unavailable, "cut short.*key='"),
        (None, Internal, "the service had an internal error"),
        ("no problem", Internal, "the service had an internal error"),
    ],
)
def test_a_job_that_failed_is_its_error(
    service: Scripted, told: object, error: type[DiscreetError], words: str
) -> None:
    service.then(reply(JOB, 202), reply(ABOUT), reply(JOB | {"state": "failed", "problem": told}))
    with pytest.raises(error, match=words):
        client(service).answer(QUESTION, epsilon=0.1)


def test_looks_at_a_job_come_by_its_clock_and_ever_slower() -> None:
    from discreet.client.jobs import ended

    class Patient(Wire):
        def ask(self, *_: object) -> Any:
            return JOB if len(slept) < 20 else JOB | {"state": "done"}

    slept: list[float] = []
    wire = Patient(read_address("http://127.0.0.1:1"), TOKEN, sleep=slept.append)
    stages: list[str] = []
    assert ended(wire, JOB | {"stage": "reading"}, 0.5, stages.append)["state"] == "done"
    assert slept[:3] == [0.5, 0.75, 1.125]
    assert max(slept) == slept[-1] == 15
    assert stages[:2] == ["reading", "running"]
    slept.clear()
    ended(wire, JOB, 40, stages.append)
    assert set(slept) == {40}


# Rehearsal, sessions, budgets, schemas.


def test_a_rehearsal_goes_to_the_made_up_table(service: Scripted, tmp_path: Path) -> None:
    service.then(reply(ANSWER, 201))
    rehearsed = client(service, rehearsal=True)
    rehearsed.answer(QUESTION, epsilon=0.1)
    assert service.seen[0].path == "/v1/rehearsal/datasets/registry/answers"
    assert repr(rehearsed).endswith("rehearsal=True)")
    calls: list[Callable[[], object]] = [rehearsed.verify, lambda: rehearsed.expected(epsilon=1)]
    calls += [lambda: rehearsed.publish("mdav", tmp_path / "a.csv", 3), rehearsed.sweep]
    for call in calls:
        with pytest.raises(InvalidInput, match="not rehearsed"):
            call()
    assert len(service.seen) == 1


def test_the_schema_is_asked_for_once(service: Scripted) -> None:
    service.then(reply(ABOUT))
    ours = client(service)
    assert ours.schema["name"] == ours.schema["name"] == "registry"
    assert len(service.seen) == 1


def test_a_session_is_opened_once_and_ended(service: Scripted) -> None:
    opened = {"id": "s/1", "epsilon": "1/10", "left": "1/10"}
    service.then(drop, reply(opened, 201), reply(ANSWER | {"left": "1/20"}), drop, reply(ANSWER | {"left": "1/20"}))
    with client(service).session(noise_scale=20, epsilon=0.1) as session:
        first, second = service.seen
        assert (first.key, first.body) == (second.key, second.body)
        assert first.document == {"noise_scale": "20", "epsilon": "1/10"}
        assert (session.noise_scale, session.epsilon, session.left) == (20, Fraction(1, 10), Fraction(1, 10))
        made = session.answer(QUESTION)
        assert (made.value, session.left) == (1234, Fraction(1, 20))
        assert session.answer(QUESTION, noise_scale=50).value == 1234
        assert [one.document for one in service.asked("/answers")] == [
            {"question": QUESTION},
            *[{"question": QUESTION, "noise_scale": "50"}] * 2,
        ]
        with pytest.raises(InvalidInput, match="outside a session"):
            made.range(1, 2)
        service.steps[:] = [raw(b"", 204)]
    session.close()
    ends = [one for one in service.seen if one.method == "DELETE"]
    assert [one.path for one in ends] == ["/v1/datasets/registry/sessions/s%2F1"]
    with pytest.raises(InvalidInput, match="the session is closed"):
        session.answer(QUESTION)
    with pytest.raises(InvalidInput, match="noise_scale must be above 0"):
        client(service).session(0, 1)


@pytest.mark.parametrize("end", [drop, problem(404), problem(503, "Unavailable")])
def test_a_session_that_cannot_be_ended_is_closed_all_the_same(service: Scripted, end: Any) -> None:
    service.then(reply({"id": "s", "epsilon": "1", "left": "1"}, 201), end)
    with client(service, retries=1).session(20, 1) as session:
        pass
    with pytest.raises(InvalidInput, match="the session is closed"):
        session.answer(QUESTION)


# Releases.

TABLE = b"age\n30\n"
MANIFEST = {
    "format": "discreet release 1",
    "files": [{"name": "registry.csv", "sha256": "4ebd4a2c0f0a4d1b9e2b6a5e8a3a1b1c"}],
}
RELEASE: dict[str, Any] = {
    "name": "registry-1",
    "method": "private-columns",
    "rows": 1,
    "entry": 9,
    "files": ["registry.csv"],
    "manifest_file": "registry.csv.manifest.json",
    "guarantee": GUARANTEE,
    "measured": {},
    "report": None,
    "risk": "a bound",
    "utility": None,
    "warnings": ["mind this"],
}


def released(tables: dict[str, bytes], **more: Any) -> list[Callable[[BaseHTTPRequestHandler], None]]:
    """The steps of a release whose tables are these."""
    import hashlib

    told = [{"name": name, "sha256": hashlib.sha256(body).hexdigest()} for name, body in tables.items()]
    manifest = {"format": "discreet release 1", "files": told}
    document = RELEASE | {"manifest": manifest, "files": list(tables)} | more
    job = JOB | {"kind": "publish", "state": "done", "release": document}
    waiting = reply(JOB | {"kind": "publish", "stage": "writing"}, 202)
    return [waiting, reply(ABOUT), reply(job), *map(raw, tables.values()), raw(json.dumps(manifest).encode())]


def test_a_release_is_brought_here(service: Scripted, tmp_path: Path) -> None:
    page = RELEASE | {"report": "report.html"}
    service.then(*released({"registry.csv": TABLE}, report=page["report"]), raw(b"<html>"))
    stages: list[str] = []
    out, report = tmp_path / "mine.csv", tmp_path / "page.html"
    made = client(service).publish(
        "private-columns", out, epsilon=0.5, report=report, columns=("age",), progress=stages.append
    )
    assert isinstance(made, discreet.Release)
    assert (made.files, made.manifest_file, made.report) == ((out,), tmp_path / "mine.csv.manifest.json", report)
    assert (out.read_bytes(), report.read_bytes()) == (TABLE, b"<html>")
    assert json.loads(made.manifest_file.read_text()) == made.manifest
    assert (made.guarantee.epsilon, made.rows, made.entry, made.warnings) == (Fraction(1, 10), 1, 9, ("mind this",))
    sent = {"method": "private-columns", "epsilon": "1/2", "columns": ["age"], "format": "csv", "report": True}
    assert service.seen[0].document == sent
    assert service.seen[0].key
    assert stages == ["writing", "bringing the files"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.csv", "mine.csv.manifest.json", "page.html"]
    names = [one.path.rpartition("/files/")[2] for one in service.seen[3:]]
    assert names == ["registry.csv", "registry.csv.manifest.json", "report.html"]


def test_a_second_table_keeps_the_name_that_its_manifest_has(service: Scripted, tmp_path: Path) -> None:
    service.then(*released({"registry.csv": TABLE, "registry-values.csv": b"group\n1\n"}))
    made = client(service).publish("anatomy", tmp_path / "mine.csv", 3)
    assert made.files == (tmp_path / "mine.csv", tmp_path / "registry-values.csv")
    assert made.files[1].read_bytes() == b"group\n1\n"


def test_what_is_lost_of_a_release_is_brought_again(service: Scripted, tmp_path: Path) -> None:
    made, about, done, table, manifest = released({"registry.csv": TABLE})
    service.then(drop, made, about, done, raw(TABLE[:2], announced=len(TABLE)), drop, table, manifest)
    client(service).publish("mdav", tmp_path / "mine.csv", 3)
    assert (tmp_path / "mine.csv").read_bytes() == TABLE
    assert service.seen[0].key == service.seen[1].key


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([problem(404)], InvalidInput),
        ([raw(TABLE), problem(500, "Internal")], Internal),
        ([raw(b"age\n31\n"), None], ClaimFailed),
        ([raw(TABLE), raw(b'{"format": "another"}')], ClaimFailed),
        ([raw(TABLE), raw(b"no manifest")], ClaimFailed),
        ([drop], Unavailable),
    ],
)
def test_a_release_comes_whole_or_not_at_all(
    service: Scripted, tmp_path: Path, steps: list[Any], error: type[DiscreetError]
) -> None:
    """Nothing is left here, and it is said that the release is made and where it is."""
    all_well = released({"registry.csv": TABLE})
    service.then(*all_well[:3], *(all_well[-1] if step is None else step for step in steps))
    with pytest.raises(
        error, match="the release is made and entered, and its files are those of job j1 at the service"
    ):
        client(service, retries=1).publish("mdav", tmp_path / "mine.csv", 3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../evil.csv", "/etc/evil.csv", "", "..", "a/b.csv", None, 3])
def test_a_name_of_the_service_leads_nowhere_else(service: Scripted, tmp_path: Path, name: Any) -> None:
    (tmp_path / "in").mkdir()
    service.then(*released({"registry.csv": TABLE}, files=["registry.csv", name])[:3])
    with pytest.raises(Unavailable, match="did not answer as a discreet service"):
        client(service).publish("anatomy", tmp_path / "in" / "mine.csv", 3)
    assert [path.name for path in tmp_path.rglob("*")] == ["in"]


def test_a_place_that_is_taken_is_refused_before_anything_is_made(service: Scripted, tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("mine")
    ours = client(service)
    for out, report, words in (
        ("there.csv", None, "is there already"),
        ("a.txt", None, "the released table is named .csv or .parquet"),
        ("none/a.csv", None, "does not exist"),
        ("a.csv", "r.json", "a report from a service is named .html"),
    ):
        with pytest.raises(InvalidInput, match=words):
            ours.publish("mdav", tmp_path / out, 3, report=None if report is None else tmp_path / report)
    with pytest.raises(Unsupported, match="kept apart"):
        ours.publish("private-columns", tmp_path / "a.csv", epsilon=1, apart=True)
    with pytest.raises(InvalidInput, match="cannot be sent"):
        ours.publish("mdav-swap", tmp_path / "a.csv", 3, diversity=object())
    assert service.seen == []
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_a_lost_release_tells_the_key_to_go_on_with(service: Scripted, tmp_path: Path) -> None:
    service.then(drop)
    with pytest.raises(Unavailable, match="key='april' is not charged twice"):
        client(service, retries=1).publish("mdav", tmp_path / "a.csv", 3, key="april")
    assert {one.key for one in service.seen} == {"april"}


def test_what_is_said_of_a_file_is_sent(service: Scripted, tmp_path: Path) -> None:
    service.then(problem(400, "InvalidInput"))
    more = {"diversity": discreet.Distinct(3), "suppress": 0.05, "ks": {"income": 20}, "pairs": [("a", "b")], "t": 1.5}
    with pytest.raises(InvalidInput):
        client(service).publish("mdav-swap", tmp_path / "a.parquet", 10.0, keep=("sex",), informed=True, **more)
    sent = {"method": "mdav-swap", "k": 10, "t": "3/2", "keep": ["sex"], "informed": True, "format": "parquet"}
    sent |= {
        "diversity": "distinct 3",
        "suppress": "1/20",
        "ks": {"income": 20},
        "pairs": [["a", "b"]],
        "report": False,
    }
    assert service.seen[0].document == sent


# The same calls as a custodian's.

NOT_OVER_HTTP = {"open", "check", "rehearse", "stale"}
"""What is done where the rows are: opening, registering; a rehearsing client is made by rehearsal=True."""
NOT_SAID = {"analyst", "log"}
"""Who asks is whom the token was given to; a log is what the processes of a service share."""


def calls(kind: type) -> dict[str, inspect.Signature]:
    named = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(call) for name, call in named if not name.startswith("_")}


def test_every_call_of_a_custodian_is_a_client_s() -> None:
    """By the same names, in the same order, with the same defaults."""
    theirs, ours = calls(Custodian), calls(Client)
    assert theirs.keys() - ours.keys() == NOT_OVER_HTTP
    assert ours.keys() - theirs.keys() == set()
    for name in ours:
        wanted = {one: told for one, told in theirs[name].parameters.items() if one not in NOT_SAID}
        found = ours[name].parameters
        assert [one for one in found if one in wanted] == list(wanted)
        assert found.keys() - wanted.keys() <= {"key"}
        for one, told in wanted.items():
            plain = {"silent": "silent"}.get(getattr(told.default, "__name__", ""), told.default)
            own = {"silent": "silent"}.get(getattr(found[one].default, "__name__", ""), found[one].default)
            assert (found[one].kind, own) == (told.kind, plain), (name, one)


def test_every_call_of_a_session_is_a_client_s() -> None:
    from discreet.client.session import Session as Ours
    from discreet.custodian.session import Session

    assert calls(Session).keys() - calls(Ours).keys() == {"catch_up"}  # with the other processes of a service
    assert list(calls(Ours)["answer"].parameters) == list(calls(Session)["answer"].parameters)


def test_asking_loads_no_engine() -> None:
    """A client is light: what a custodian needs is not loaded to ask a question."""
    import subprocess
    import sys

    command = "import discreet, sys; discreet.Client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True).stdout.split()
    assert {"sqlalchemy", "duckdb", "sqlglot", "scipy", "numba", "yaml", "fastapi"} & set(loaded) == set()
