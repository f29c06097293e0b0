"""Protocol 1 over HTTP: a session at the service, paid for on opening, that answers counts while they fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from discreet.answer import Answer
from discreet.client.again import RemoteAnswer
from discreet.client.answers import decode_answer
from discreet.client.dataset import RemoteDataset, attach_retry_key, quote_path_part
from discreet.client.reading import JsonObject, decode_reply
from discreet.client.sending import encode_question, make_request_key
from discreet.errors import InvalidInput, Unavailable
from discreet.exact import as_positive

if TYPE_CHECKING:
    from discreet.custodian.question import Question

NOT_IN_SESSION = "ranges and the population are told of answers outside a session; ask the question there"


@dataclass(eq=False, slots=True)
class RemoteSession:
    """Make one with `Client.session`, and use it in a `with`; threads may share it."""

    noise_scale: Fraction
    epsilon: Fraction
    """What all answers together cost; it was paid on opening."""
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
        body = encode_question(question, {"noise_scale": noise_scale})
        reply = self._dataset.submit(f"{self._subpath}/answers", body, make_request_key(None))
        left = decode_reply(lambda document: Fraction(document["left"]), reply)
        with self._lock:
            self.left = min(self.left, left)
        callbacks = replace(
            RemoteAnswer(self._dataset, {}, reply).callbacks,
            count_range=_refuse_in_session,
            estimate_population=_refuse_in_session,
        )
        return decode_reply(lambda document: decode_answer(document, callbacks, has_prior=False), reply)

    def close(self) -> None:
        """No more answers; what is left is lost, since there are no refunds."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
        if was_open:
            try:
                self._dataset.delete(self._subpath)
            except (InvalidInput, Unavailable):  # it is gone already, or ends by itself: nothing more is paid
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_remote_session(dataset: RemoteDataset, noise_scale: object, epsilon: object, key: str) -> RemoteSession:
    """Pay, and open; with the same key never twice."""
    scale, session_epsilon = as_positive(noise_scale, "noise_scale"), as_positive(epsilon, "epsilon")

    def decode_session(document: JsonObject) -> RemoteSession:
        subpath = f"/sessions/{quote_path_part(document['id'])}"
        return RemoteSession(scale, Fraction(document["epsilon"]), Fraction(document["left"]), dataset, subpath)

    with attach_retry_key(key):
        return decode_reply(
            decode_session,
            dataset.submit("/sessions", {"noise_scale": str(scale), "epsilon": str(session_epsilon)}, key),
        )


def _refuse_in_session(*_: object) -> NoReturn:
    raise InvalidInput(NOT_IN_SESSION)
