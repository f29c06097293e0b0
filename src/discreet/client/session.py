"""Protocol 1 over HTTP: a session at the service, paid for on opening, that answers counts while they fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from discreet.answer import Answer
from discreet.client.again import Again
from discreet.client.answers import answer_from
from discreet.client.dataset import DataSet, paid_once, quoted
from discreet.client.reading import Told, read
from discreet.client.sending import ask_of, key_of
from discreet.errors import InvalidInput, Unavailable
from discreet.exact import positive

if TYPE_CHECKING:
    from discreet.custodian.question import Question

OUTSIDE = "ranges and the population are told of answers outside a session; ask the question there"


@dataclass(eq=False, slots=True)
class Session:
    """Make one with `Client.session`, and use it in a `with`; threads may share it."""

    noise_scale: Fraction
    epsilon: Fraction
    """What all answers together cost; it was paid on opening."""
    left: Fraction
    """How much of epsilon no answer used yet, as of the last reply."""
    _dataset: DataSet = field(repr=False)
    _below: str = field(repr=False)
    _open: bool = field(default=True, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def answer(self, question: Question, noise_scale: object = None) -> Answer:
        """Answer, or refuse before a row is read; after a refusal the session goes on.

        The same question at the same noise scale gives the same answer for nothing.
        """
        if not self._open:
            raise InvalidInput("the session is closed; open another")
        body = ask_of(question, {"noise_scale": noise_scale})
        told = self._dataset.ask(f"{self._below}/answers", body, key_of(None))
        left = read(lambda document: Fraction(document["left"]), told)
        with self._lock:
            self.left = min(self.left, left)
        more = replace(Again(self._dataset, {}, told).more, in_range=_outside, population=_outside)
        return read(lambda document: answer_from(document, more, prior=False), told)

    def close(self) -> None:
        """No more answers; what is left is lost, since there are no refunds."""
        with self._lock:
            was_open, self._open = self._open, False
        if was_open:
            try:
                self._dataset.end(self._below)
            except (InvalidInput, Unavailable):  # it is gone already, or ends by itself: nothing more is paid
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def open_session(dataset: DataSet, noise_scale: object, epsilon: object, key: str) -> Session:
    """Pay, and open; with the same key never twice."""
    scale, loss = positive(noise_scale, "noise_scale"), positive(epsilon, "epsilon")

    def opened(document: Told) -> Session:
        below = f"/sessions/{quoted(document['id'])}"
        return Session(scale, Fraction(document["epsilon"]), Fraction(document["left"]), dataset, below)

    with paid_once(key):
        return read(opened, dataset.ask("/sessions", {"noise_scale": str(scale), "epsilon": str(loss)}, key))


def _outside(*_: object) -> NoReturn:
    raise InvalidInput(OUTSIDE)
