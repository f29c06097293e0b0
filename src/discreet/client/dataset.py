"""One data set of a service, for real or in rehearsal: documents in, documents out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

from discreet.client.jobs import Progress, ignore_job_stage, wait_for_job
from discreet.client.reading import JsonObject, decode_reply
from discreet.client.wire import HttpRequest, RequestNotSent, Transport
from discreet.errors import Unavailable
from discreet.spend import require_storable_text


@dataclass(frozen=True, slots=True)
class RemoteDataset:
    """Where requests about it go."""

    transport: Transport
    path: str

    @staticmethod
    def for_name(transport: Transport, name: str, rehearsal: bool) -> RemoteDataset:
        """A data set by its name."""
        parent_path = "/v1/rehearsal/datasets" if rehearsal else "/v1/datasets"
        return RemoteDataset(transport, f"{parent_path}/{quote_path_part(require_storable_text(name, 'dataset'))}")

    def fetch(self, subpath: str = "") -> JsonObject:
        """A document about it."""
        return decode_reply(dict, self.transport.send(HttpRequest.get(self.path + subpath)))

    def submit(
        self, subpath: str, body: JsonObject, key: str | None = None, progress: Progress = ignore_job_stage
    ) -> JsonObject:
        """The document that a request leads to; of long work, the job once it has ended."""
        document = decode_reply(dict, self.transport.send(HttpRequest.post(self.path + subpath, body, key)))
        return (
            document
            if "state" not in document
            else wait_for_job(self.transport, document, self._fetch_deadline(), progress)
        )

    def submit_question(self, body: JsonObject, key: str) -> JsonObject:
        """The document of an answer, by way of a job where the data set has its questions run so."""
        document = self.submit("/answers", body, key)
        return self.fetch(f"/answers/{quote_path_part(document.get('answer'))}") if "state" in document else document

    def delete(self, subpath: str) -> None:
        """Let go of something that the service holds."""
        self.transport.send(HttpRequest("DELETE", self.path + subpath))

    def _fetch_deadline(self) -> float:
        return decode_reply(lambda document: float(document["deadline"]), self.fetch())


def quote_path_part(name: object) -> str:
    """A name as part of a path."""
    return quote(str(name), safe="")


@contextmanager
def attach_retry_key(key: str) -> Iterator[None]:
    """What is lost in here is told with the key that makes a repetition free, unless it never went out."""
    try:
        yield
    except RequestNotSent as failure:
        raise Unavailable(str(failure)) from None
    except Unavailable as failure:
        advice = f"whether it was charged is not known, but the same call with key={key!r} is not charged twice"
        raise Unavailable(f"{failure}; {advice}") from None
