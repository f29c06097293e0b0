"""`Client`: a data set of a service with the calls of a `Custodian`; the token says which analyst asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from discreet.client.encode_requests import encode_method, encode_question, encode_recipe, make_request_key
from discreet.client.remote_dataset import (
    Progress,
    RemoteDataset,
    attach_retry_key,
    decode_reply,
    ignore_job_stage,
    request_release,
    request_sweep,
    resolve_targets,
)
from discreet.client.remote_session import RemoteSession, decode_answer, open_remote_session
from discreet.client.transport import HttpRequest, Transport, parse_service_address
from discreet.errors import InvalidInput
from discreet.numeric import as_int, as_positive
from discreet.planner.options import NOISE_OPTIONS, QueryKeywords, QueryOptions, read_query_options
from discreet.privacy.cost import require_storable_text
from discreet.release.methods import ReleaseMethod, SyntheticMethod, build_method, build_synthetic_method

if TYPE_CHECKING:
    from discreet.answers.answer import Answer
    from discreet.custodian.preview import Preview
    from discreet.ledger.charge import Balance, Entry, LedgerVerification
    from discreet.query import Question
    from discreet.release.manifest import Release
    from discreet.sdc.sweep import SweepResult
    from discreet.synthetic.file_plan import SyntheticEstimate

NO_TOKEN = "a token is the text that the custodian gave you, beginning with dsc_; this is none"
VERIFY_NOT_REHEARSED = (
    "the ledger of a rehearsal is thrown away, so its chain is not checked; use a client without rehearsal=True"
)
CLIENT_CLOSED = "the client is closed; open another"


class Client(AbstractContextManager["Client"]):
    """A connection to one data set of a discreet service; threads may share it.

    A lost request is sent again with the same key, so that it is charged once. Nothing is sent before the first call.

    Args:
        address: The address of the service.
        token: The analyst's or custodian's token.
        dataset: The name of the data set.
        rehearsal: Whether to ask a made-up table of the same schema, at no cost.
        timeout: The seconds of silence after which a reply counts as lost.
        retries: How many times a lost request is sent again.
        ca: A PEM file with the authority that vouches for the service's certificate; by default those of this machine.
        insecure: Whether the token may be sent without TLS to another machine.
        pause: The seconds before the first retry.

    Raises:
        InvalidInput: The address, the token or another argument is not valid.

    Example:
        >>> from discreet import Client
        >>> client = Client("https://statistics.example", token="A" * 43, dataset="registry")
        >>> client.name  # ask by client.answer("SELECT COUNT(*) FROM registry", epsilon=0.1)
        'registry'
        >>> client.close()
    """

    def __init__(
        self,
        address: str,
        token: str,
        dataset: str,
        *,
        rehearsal: bool = False,
        timeout: float = 60,
        retries: int = 5,
        ca: str | Path | None = None,
        insecure: bool = False,
        pause: float = 0.2,
    ) -> None:
        transport = Transport(
            parse_service_address(address, ca, insecure),
            _check_token(token),
            float(as_positive(timeout, "the timeout")),
            as_int(retries, "retries", 0),
            float(as_positive(pause, "the pause")),
            dataset=require_storable_text(dataset, "dataset"),
        )
        self.name = transport.dataset
        self._dataset: RemoteDataset | None = RemoteDataset.for_name(transport, self.name, rehearsal)
        self._rehearsal = rehearsal
        self._schema: Mapping[str, object] | None = None

    @property
    def schema(self) -> Mapping[str, object]:
        """All that is public about the table, as in JSON."""
        if self._schema is None:
            self._schema = decode_reply(lambda document: dict(document["schema"]), self._require_open().fetch())
        return self._schema

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of the data sets that the token may ask, as of now."""
        reply = self._require_open().transport.send(HttpRequest.get("/v1/me"))
        return decode_reply(lambda document: tuple(map(str, document["datasets"])), reply)

    def answer(self, question: Question, epsilon: object = None, **options: Unpack[QueryKeywords]) -> Answer:
        """Answer, or refuse before anything is charged or read; as `Custodian.answer`.

        The call makes a key of its own, or takes `key`: with the same key the same call is never paid for twice.
        """
        query_options = _read_options(epsilon, **options)
        body = encode_question(question, query_options)
        dataset, request_key = self._require_open(), make_request_key(query_options.key)
        with attach_retry_key(request_key):
            document = dataset.submit_question(body, request_key)
            return decode_answer(dataset, document, body, prior=query_options.prior is not None)

    def preview(self, question: Question, epsilon: object = None, **options: Unpack[QueryKeywords]) -> Preview:
        """Tell what the question would cost, how good its answer would be, and how many such questions are left."""
        from discreet.custodian.preview import Preview

        body = encode_question(question, _read_options(epsilon, **options))
        return decode_reply(Preview.from_json, self._require_open().submit("/previews", body))

    def session(self, noise_scale: object, epsilon: object, key: str | None = None) -> RemoteSession:
        """Pay epsilon at once, then count with noise of this scale as long as the joint sensitivity allows it."""
        return open_remote_session(self._require_open(), noise_scale, epsilon, make_request_key(key))

    def publish(
        self,
        method: ReleaseMethod | str,
        out: str | Path,
        *,
        report: str | Path | None = None,
        force: bool = False,
        progress: Progress = ignore_job_stage,
        key: str | None = None,
        **options: object,
    ) -> Release:
        """Have the table protected, and the release brought here, whole or not at all; for a custodian's token.

        `method` is as `Custodian.publish` takes it. The service makes the release and enters it in its ledger. `key`
        makes a retry safe.
        """
        built = build_method(method, options)
        recipe, targets = encode_method(built), resolve_targets(out, report, force, built.is_apart)
        return request_release(self._require_open(), recipe, targets, make_request_key(key), progress)

    def estimate_error(
        self, method: SyntheticMethod | str | None = None, **options: object
    ) -> tuple[SyntheticEstimate, ...]:
        """Tell what a private file would promise and the expected error of every column, without charge.

        Without a method, of every private file that can be made of these columns. For a custodian's token.
        """
        from discreet.synthetic.file_plan import SyntheticEstimate

        recipe = encode_recipe(options) if method is None else encode_method(build_synthetic_method(method, options))
        reply = self._require_open().submit("/releases/previews", recipe)
        return decode_reply(lambda document: tuple(map(SyntheticEstimate.from_json, document["plans"])), reply)

    def sweep(
        self,
        ks: str | Sequence[int] = "k=3..300",
        methods: str | Sequence[str] = (),
        report: str | Path | None = None,
        *,
        t: object = None,
        force: bool = False,
        progress: Progress = ignore_job_stage,
        key: str | None = None,
    ) -> SweepResult:
        """Compare risk and utility of methods over k; nothing is released. For a custodian's token."""
        ks_text = ks if isinstance(ks, str) else f"k={','.join(str(as_int(k, 'k', 2)) for k in ks)}"
        method_names = [methods] if isinstance(methods, str) else list(methods)
        recipe = encode_recipe({"ks": ks_text, "methods": method_names, "t": t})
        return request_sweep(self._require_open(), recipe, report, force, make_request_key(key), progress)

    def budget(self) -> tuple[Balance, ...]:
        """Tell what is spent and left in every model, of the data set and of the analyst whose token this is."""
        from discreet.ledger.charge import Balance

        reply = self._require_open().fetch("/budget")
        return decode_reply(lambda document: tuple(map(Balance.from_json, document["budget"])), reply)

    def history(self, limit: int = 100, before: int | None = None) -> list[Entry]:
        """List what was asked with tokens of the same name, the latest first; a custodian sees what all asked.

        A service sends at most 1000 entries at once; `before`, the number of an entry, asks for those before it.
        """
        from discreet.ledger.charge import Entry

        before_parameter = "" if before is None else f"&before={as_int(before, 'before')}"
        reply = self._require_open().fetch(f"/history?limit={as_int(limit, 'the limit')}{before_parameter}")
        return decode_reply(lambda document: list(map(Entry.from_json, document["history"])), reply)

    def verify(self) -> LedgerVerification:
        """Have the ledger's chain recomputed; `ClaimFailed` where it was changed. For a custodian's token."""
        from discreet.ledger.charge import LedgerVerification

        if self._rehearsal:
            raise InvalidInput(VERIFY_NOT_REHEARSED)
        return decode_reply(LedgerVerification.from_json, self._require_open().fetch("/ledger"))

    def close(self) -> None:
        """Refuse further calls; every call has closed its connection already."""
        self._dataset = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        location = "closed" if self._dataset is None else str(self._dataset.transport.address)
        return f"Client({location!r}, {self.name!r}{', rehearsal=True' if self._rehearsal else ''})"

    def _require_open(self) -> RemoteDataset:
        if self._dataset is None:
            raise InvalidInput(CLIENT_CLOSED)
        return self._dataset


def _read_options(epsilon: object, **options: Unpack[QueryKeywords]) -> QueryOptions:
    values = {"epsilon": epsilon, **options}
    if all(values.get(name) is None for name in NOISE_OPTIONS):
        raise InvalidInput("say how much noise there may be: epsilon=0.1 or accuracy='±50 at 95%'")
    return read_query_options(values)


def _check_token(token: object) -> str:
    """Refuse a token that cannot be sent, without showing it."""
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token or " " in token:
        raise InvalidInput(NO_TOKEN)
    return token
