"""A data set of a service, with the calls of its custodian. Who asks is whom the token was given to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from discreet.client import reading
from discreet.client.address import read_address
from discreet.client.again import Again
from discreet.client.answers import answer_from
from discreet.client.dataset import DataSet, paid_once
from discreet.client.jobs import Progress, silent
from discreet.client.reading import Expected, read
from discreet.client.sending import ask_of, key_of, noisy, recipe_of
from discreet.client.wire import Request, Wire
from discreet.errors import InvalidInput
from discreet.exact import positive, whole
from discreet.spend import text

if TYPE_CHECKING:
    from discreet.answer import Answer
    from discreet.assess.sweep import Sweep
    from discreet.client.session import Session
    from discreet.custodian.previewing import Preview
    from discreet.custodian.question import Question
    from discreet.distance import Distance
    from discreet.ledger.charge import Balance, Entry, Verified
    from discreet.planner.asked import Given
    from discreet.release import Release

NO_TOKEN = "a token is the text that the custodian gave you, beginning with dsc_; this is none"
NOT_REHEARSED = (
    "the ledger of a rehearsal is thrown away, so its chain is not checked; use a client without rehearsal=True"
)
CLOSED = "the client is closed; open another"


class Client:
    """Asks one data set of a service; threads may share it. With `rehearsal` the table is made up and nothing is paid.

    `timeout` is how many seconds of silence mean that a reply is lost. A request that was lost is sent again, up to
    `retries` times and with the same key, so that it is paid for once; `pause` is the first wait between two. Under TLS
    the service's certificate must be vouched for by `ca`, a PEM file, or by whom this machine trusts; without TLS the
    token is sent to this machine only, unless `insecure`.
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
        wire = Wire(
            read_address(address, ca, insecure),
            _token(token),
            float(positive(timeout, "the timeout")),
            whole(retries, "retries", 0),
            float(positive(pause, "the pause")),
            dataset=text(dataset, "dataset"),
        )
        self.name = wire.dataset
        self._dataset: DataSet | None = DataSet.of(wire, self.name, rehearsal)
        self._rehearsal = rehearsal
        self._schema: Mapping[str, object] | None = None

    @property
    def schema(self) -> Mapping[str, object]:
        """All that is public about the table, as JSON has it."""
        if self._schema is None:
            self._schema = read(lambda told: dict(told["schema"]), self._open().look())
        return self._schema

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of the data sets that the token may ask, as of now."""
        told = self._open().wire.ask(Request.get("/v1/me"))
        return read(lambda document: tuple(map(str, document["datasets"])), told)

    def answer(
        self,
        question: Question,
        epsilon: object = None,
        prior: Given = None,
        key: str | None = None,
        delta: object = None,
        model: str | None = None,
        fresh: bool = False,
        *,
        distance: Distance | str | None = None,
        accuracy: object = None,
        noise_scale: object = None,
        interval: bool = False,
        rows: object = None,
        tail: bool | None = None,
        constraints: Sequence[str] = (),
        reuse: str | None = None,
    ) -> Answer:
        """Answer, or refuse before anything is charged or read; as `Custodian.answer`.

        The call makes a key of its own, or takes `key`: with the same key the same call is never paid for twice.
        """
        given = {"epsilon": epsilon, "delta": delta, "prior": prior, "model": model, "distance": distance}
        given |= {"accuracy": accuracy, "noise_scale": noise_scale, "interval": interval, "rows": rows}
        given |= {"tail": tail, "reuse": reuse}
        body = ask_of(question, noisy(given) | {"fresh": fresh, "constraints": constraints or None})
        dataset, own = self._open(), key_of(key)
        with paid_once(own):
            again = Again(dataset, body, dataset.answer(body, own))
            return read(lambda told: answer_from(told, again.more, prior is not None), again.told)

    def preview(
        self,
        question: Question,
        epsilon: object = None,
        prior: Given = None,
        delta: object = None,
        model: str | None = None,
        *,
        distance: Distance | str | None = None,
        accuracy: object = None,
        noise_scale: object = None,
        interval: bool = False,
        rows: object = None,
        tail: bool | None = None,
        reuse: str | None = None,
    ) -> Preview:
        """What the question would cost and be good for, what is left, and how many more such questions that holds."""
        given = {"epsilon": epsilon, "delta": delta, "prior": prior, "model": model, "distance": distance}
        given |= {"accuracy": accuracy, "noise_scale": noise_scale, "interval": interval, "rows": rows}
        given |= {"tail": tail, "reuse": reuse}
        return read(reading.preview_from, self._open().ask("/previews", ask_of(question, noisy(given))))

    def session(self, noise_scale: object, epsilon: object, key: str | None = None) -> Session:
        """Protocol 1: pay epsilon at once, then count with noise of this scale as long as joint sensitivity allows."""
        from discreet.client.session import open_session

        return open_session(self._open(), noise_scale, epsilon, key_of(key))

    def publish(
        self,
        method: str,
        out: str | Path,
        k: object = None,
        t: object = None,
        epsilon: object = None,
        report: str | Path | None = None,
        *,
        force: bool = False,
        progress: Progress = silent,
        key: str | None = None,
        **more: Any,
    ) -> Release:
        """Have the table protected, and the release brought here, whole or not at all; for a custodian's token.

        The service makes it and enters it in its ledger as `Custodian.publish` does. `key` makes a retry safe.
        """
        from discreet.client.releases import place, published

        said = recipe_of({"method": method, "k": k, "t": t, "epsilon": epsilon} | more)
        targets = place(out, report, force, bool(said.get("apart")))
        return published(self._open(), said, targets, key_of(key), progress)

    def expected(
        self, method: str | None = None, k: object = None, epsilon: object = None, **more: Any
    ) -> tuple[Expected, ...]:
        """What a private file would promise and how far off every column would be: for nothing; a custodian's token.

        Without a method, of every one that can be made of these columns.
        """
        said = recipe_of({"method": method, "k": k, "epsilon": epsilon} | more)
        told = self._open().ask("/releases/previews", said)
        return read(lambda document: reading.expected_from(document["plans"]), told)

    def sweep(
        self,
        ks: str | Sequence[int] = "k=3..300",
        methods: str | Sequence[str] = (),
        report: str | Path | None = None,
        *,
        t: object = None,
        force: bool = False,
        progress: Progress = silent,
        key: str | None = None,
    ) -> Sweep:
        """Risk and utility of methods over k, and which to choose; nothing is released. For a custodian's token."""
        from discreet.client.releases import swept

        listed = ks if isinstance(ks, str) else f"k={','.join(str(whole(k, 'k', 2)) for k in ks)}"
        said = recipe_of({"ks": listed, "methods": [methods] if isinstance(methods, str) else list(methods), "t": t})
        return swept(self._open(), said, report, force, key_of(key), progress)

    def budget(self) -> tuple[Balance, ...]:
        """What is spent and left, of the data set and of whom the token was given to, in every model."""
        told = self._open().look("/budget")
        return read(lambda document: reading.balances_from(document["budget"]), told)

    def history(self, limit: int = 100, before: int | None = None) -> list[Entry]:
        """What was asked with tokens of the same name, the latest first; a custodian sees what all asked.

        A service gives at most 1000 entries at once. With `before`, the number of an entry, those before it follow.
        """
        older = "" if before is None else f"&before={whole(before, 'before')}"
        told = self._open().look(f"/history?limit={whole(limit, 'the limit')}{older}")
        return read(lambda document: reading.entries_from(document["history"]), told)

    def verify(self) -> Verified:
        """Have the ledger's chain of this data set recomputed; ClaimFailed where it is not as it was written.

        For a custodian's token.
        """
        if self._rehearsal:
            raise InvalidInput(NOT_REHEARSED)
        return read(reading.verified_from, self._open().look("/ledger"))

    def close(self) -> None:
        """No more calls; every call has let go of its connection already."""
        self._dataset = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "closed" if self._dataset is None else str(self._dataset.wire.address)
        return f"Client({where!r}, {self.name!r}{', rehearsal=True' if self._rehearsal else ''})"

    def _open(self) -> DataSet:
        if self._dataset is None:
            raise InvalidInput(CLOSED)
        return self._dataset


def _token(token: object) -> str:
    """A token that can be sent; one that cannot is not shown."""
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token or " " in token:
        raise InvalidInput(NO_TOKEN)
    return token
