"""Counting sessions over HTTP, and follow-up requests about an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING, Any

from discreet.answers.answer import Answer, PopulationEstimate, RangeCount, ReplyDetails
from discreet.client.encode_requests import encode_question, make_request_key
from discreet.client.remote_dataset import JsonObject, RemoteDataset, attach_retry_key, decode_reply, quote_path_part
from discreet.errors import BudgetExceeded, InvalidInput, Unavailable
from discreet.numeric import as_int, as_positive, parse_exact
from discreet.planner.options import format_range
from discreet.priors.posterior import require_95_confidence

if TYPE_CHECKING:
    from discreet.query import Question


ANSWER_NOT_STORED = (
    "the service has this answer stored no longer, as after a refresh of the data set: this would be charged; ask anew"
)
ANSWER_CHANGED = (
    "by now the service tells another answer to this question, as a newer or nearer one; take this of that answer"
)
NOT_IN_SESSION = "ranges and the population are told of answers outside a session; ask the question there"


@dataclass(frozen=True, eq=False)
class RemoteDetails(ReplyDetails):
    """What a reply has of an answer; ranges, the population and the picture are asked of the service.

    `body` is the request, None in a session. A copy is of the reply alone: it has neither connection nor token.
    """

    dataset: RemoteDataset
    body: JsonObject | None
    document: JsonObject

    @property
    def has_picture(self) -> bool:
        """Whether the service has one."""
        return bool(self.document.get("picture"))

    def build_picture_spec(self) -> dict[str, object]:
        """Get the picture as a Vega-Lite specification."""
        reply = self.dataset.fetch(f"/answers/{quote_path_part(self.document.get('id'))}/picture")
        return decode_reply(lambda document: dict(document["spec"]), reply)

    def count_range(self, low: object, high: object, confidence: float) -> RangeCount:
        """Count the rows in a range."""
        ranges = self._ask_again("ranges", confidence, [format_range(low, high)])
        return decode_reply(lambda documents: RangeCount.from_json(documents[0]), ranges)

    def estimate_population(self, confidence: float, size: object) -> tuple[Mapping[str, PopulationEstimate], ...]:
        """Estimate the numbers of the answer for the population."""
        size_field = {} if size is None else {"population_size": as_int(size, "the size of the population")}
        return decode_reply(_read_population, self._ask_again("population", confidence, True, size_field))

    def __reduce__(self) -> tuple[type[ReplyDetails], tuple[object, ...]]:
        return ReplyDetails, (self.intervals, self.posteriors, self.reconciled, self.meaning)

    def _ask_again(self, name: str, confidence: float, addition: object, extra_fields: JsonObject | None = None) -> Any:
        if self.body is None:
            raise InvalidInput(NOT_IN_SESSION)
        require_95_confidence(confidence)
        stored_only: JsonObject = {"stored_only": True, name: addition} | dict(extra_fields or {})
        body = {field_name: value for field_name, value in self.body.items() if field_name != "fresh"}
        try:
            reply = self.dataset.submit_question(body | dict(stored_only), make_request_key(None))
        except BudgetExceeded:
            raise InvalidInput(ANSWER_NOT_STORED) from None
        if reply.get("rows") != self.document["rows"]:
            raise InvalidInput(ANSWER_CHANGED)
        return reply.get(name)


def decode_answer(dataset: RemoteDataset, document: JsonObject, body: JsonObject | None, prior: bool) -> Answer:
    """Decode an answer, and let it ask the service for more of it; `prior` says whether one was sent."""
    answer = decode_reply(lambda reply: Answer.from_json(reply, prior), document)
    details = RemoteDetails(**vars(answer.details), dataset=dataset, body=body, document=document)
    return replace(answer, details=details)


def _read_population(rows: Sequence[JsonObject]) -> tuple[Mapping[str, PopulationEstimate], ...]:
    return tuple({name: PopulationEstimate.from_json(name, number) for name, number in row.items()} for row in rows)


@dataclass(eq=False, slots=True)
class RemoteSession(AbstractContextManager["RemoteSession"]):
    """A counting session: made by `Client.session`, used in a `with`; threads may share it."""

    noise_scale: Fraction
    epsilon: Fraction
    """The cost of all answers together, paid on opening."""
    left: Fraction
    """How much of epsilon no answer used yet, as of the last reply."""
    _dataset: RemoteDataset = field(repr=False)
    _subpath: str = field(repr=False)
    _is_open: bool = field(default=True, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def answer(self, question: Question, noise_scale: object = None) -> Answer:
        """Answer, or refuse before a row is read; after a refusal the session goes on.

        The same question at the same noise scale gives the same answer for nothing.
        """
        if not self._is_open:
            raise InvalidInput("the session is closed; open another")
        body = encode_question(question)
        if noise_scale is not None:
            body["noise_scale"] = str(as_positive(noise_scale, "the noise scale"))
        reply = self._dataset.submit(f"{self._subpath}/answers", body, make_request_key(None))
        left = decode_reply(lambda document: parse_exact(document["left"]), reply)
        with self._lock:
            self.left = min(self.left, left)
        return decode_answer(self._dataset, reply, None, prior=False)

    def close(self) -> None:
        """Close the session; what is left is lost, since there are no refunds."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
        if was_open:
            try:
                self._dataset.delete(self._subpath)
            except (InvalidInput, Unavailable):  # it is gone already, or ends by itself: nothing more is paid
                return

    def __exit__(self, *_: object) -> None:
        self.close()


def open_remote_session(dataset: RemoteDataset, noise_scale: object, epsilon: object, key: str) -> RemoteSession:
    """Pay for a session and open it; with the same key never twice."""
    scale, session_epsilon = as_positive(noise_scale, "noise_scale"), as_positive(epsilon, "epsilon")

    def decode_session(document: JsonObject) -> RemoteSession:
        subpath = f"/sessions/{quote_path_part(document['id'])}"
        return RemoteSession(scale, parse_exact(document["epsilon"]), parse_exact(document["left"]), dataset, subpath)

    body = {"noise_scale": str(scale), "epsilon": str(session_epsilon)}
    with attach_retry_key(key):
        return decode_reply(decode_session, dataset.submit("/sessions", body, key))
