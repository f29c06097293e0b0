"""One data set of a service, for real or in rehearsal: documents in, documents out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

from discreet.client.jobs import Progress, ended, silent
from discreet.client.reading import Told, read
from discreet.client.wire import Request, Unreached, Wire
from discreet.errors import Unavailable
from discreet.spend import text


@dataclass(frozen=True, slots=True)
class DataSet:
    """Where requests about it go."""

    wire: Wire
    path: str

    @staticmethod
    def of(wire: Wire, name: str, rehearsal: bool) -> DataSet:
        """A data set by its name."""
        start = "/v1/rehearsal/datasets" if rehearsal else "/v1/datasets"
        return DataSet(wire, f"{start}/{quoted(text(name, 'dataset'))}")

    def look(self, below: str = "") -> Told:
        """A document about it."""
        return read(dict, self.wire.ask(Request.get(self.path + below)))

    def ask(self, below: str, body: Told, key: str | None = None, progress: Progress = silent) -> Told:
        """The document that a request leads to; of long work, the job once it has ended."""
        told = read(dict, self.wire.ask(Request.post(self.path + below, body, key)))
        return told if "state" not in told else ended(self.wire, told, self._deadline(), progress)

    def answer(self, body: Told, key: str) -> Told:
        """The document of an answer, by way of a job where the data set has its questions run so."""
        told = self.ask("/answers", body, key)
        return self.look(f"/answers/{quoted(told.get('answer'))}") if "state" in told else told

    def end(self, below: str) -> None:
        """Let go of something that the service holds."""
        self.wire.ask(Request("DELETE", self.path + below))

    def _deadline(self) -> float:
        return read(lambda told: float(told["deadline"]), self.look())


def quoted(name: object) -> str:
    """A name as part of a path."""
    return quote(str(name), safe="")


@contextmanager
def paid_once(key: str) -> Iterator[None]:
    """What is lost in here is told with the key that makes a repetition free, unless it never went out."""
    try:
        yield
    except Unreached as failure:
        raise Unavailable(str(failure)) from None
    except Unavailable as failure:
        known = f"whether it was charged is not known, but the same call with key={key!r} is not charged twice"
        raise Unavailable(f"{failure}; {known}") from None
