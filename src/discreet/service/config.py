"""What a service is told, by one YAML file: where it listens, what it serves, how long replies take, what it allows."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from discreet.errors import InvalidInput
from discreet.formatting import format_number
from discreet.schema import expect
from discreet.schema.document import LONGEST, Node, read_document
from discreet.schema.keys import Keys

KEYS = Keys(
    (
        "datasets",
        "address",
        "port",
        "workers",
        "store",
        "ledger",
        "folder",
        "url",
        "tls",
        "insecure",
        "deadline",
        "padding",
        "hung",
        "limits",
    ),
    ("datasets",),
)
LIMITS = Keys(("body", "prior", "bins", "rate", "burst", "together", "previews", "least"))
DATASET = Keys(("schema", "deadline", "jobs"), ("schema",))
OF_TLS = Keys(("certificate", "key"), ("certificate", "key"))
SHORTEST, LONGEST_DEADLINE = 0.01, 3600.0
SHORTEST_HUNG = 2.0
MOST_WORKERS = 64
WHOLE = re.compile("-?[0-9]{1,9}")
URL = re.compile(r"https?://([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one request may be, and how many a token may send: `rate` a second, `burst` of them in a row.

    `bins` are the numbers of a reply, over all its rows; `together` the requests that a worker has at work at once for
    one token; `previews` the seconds of processor time that previews of one token may take in a minute on one machine;
    `least` is the least epsilon of a question: what is stored for good is bounded by the budget over it.
    """

    body: int = 65_536
    prior: int = 4_096
    bins: int = 4_096
    rate: float = 20.0
    burst: int = 40
    together: int = 32
    previews: float = 20.0
    least: Fraction = Fraction(1, 10_000)

    def __post_init__(self) -> None:
        """Every limit lets something through."""
        if min(self.body, self.prior, self.bins, self.burst, self.together) < 1 or not (
            self.rate > 0 < self.least and self.previews > 0
        ):
            raise InvalidInput("every limit of a service is above 0; leave one out to have it as it comes")


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set of a service: its schema file, the seconds after which replies leave, and whether it runs by jobs.

    `jobs` None means as its engine needs: yes on Spark.
    """

    schema: Path
    deadline: float
    jobs: bool | None = None

    def __post_init__(self) -> None:
        """A deadline is a time that people wait for."""
        if not SHORTEST <= self.deadline <= LONGEST_DEADLINE:
            raise InvalidInput(
                f"a deadline is between {format_number(SHORTEST)} and {format_number(LONGEST_DEADLINE)} seconds"
            )


@dataclass(frozen=True, slots=True)
class TLS:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Config:
    """One service. `store` keeps tokens, grants, jobs and answers by id; `ledger` None is each data set's own."""

    datasets: tuple[DataSet, ...]
    folder: Path
    store: str
    address: str = "127.0.0.1"
    port: int = 8000
    workers: int = 2
    ledger: str | None = None
    url: str | None = None
    """The address that analysts reach it at, for code that the console shows; None where that is its own."""
    tls: TLS | None = None
    insecure: bool = False
    deadline: float = 1.0
    padding: bool = True
    hung: float = 60.0
    """Seconds without a sign of life after which a process is killed and another takes its place."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """It listens on loopback, or under TLS, or was told to do without."""
        if not self.datasets:
            raise InvalidInput("a service needs at least one data set; list its schema file under datasets")
        if not 0 <= self.port <= 65_535:
            raise InvalidInput("a port is a number from 0 to 65535; 0 takes a free one")
        if not 1 <= self.workers <= MOST_WORKERS:
            raise InvalidInput(f"a service has 1 to {MOST_WORKERS} workers")
        if not SHORTEST <= self.deadline <= LONGEST_DEADLINE:
            raise InvalidInput(
                f"a deadline is between {format_number(SHORTEST)} and {format_number(LONGEST_DEADLINE)} seconds"
            )
        if not SHORTEST_HUNG <= self.hung <= LONGEST_DEADLINE:
            raise InvalidInput(
                f"hung is between {format_number(SHORTEST_HUNG)} and {format_number(LONGEST_DEADLINE)} seconds, the "
                "time without a sign of life after which a process is replaced; leave it out for 60"
            )
        if self.url is not None and not URL.fullmatch(self.url):
            raise InvalidInput(
                f"url is the address that analysts reach the service at, such as https://discreet.example.org, without "
                f"a path, got {self.url[:40]!r}; correct it, or leave it out"
            )
        if not (is_loopback(self.address) or self.tls or self.insecure):
            raise InvalidInput(
                f"{self.address[:40]!r} is reached from other machines, and tokens would travel in the clear; give tls "
                "a certificate and a key, or say insecure: yes where a proxy has them"
            )


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach it."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def read_config(path: str | Path) -> Config:
    """The configuration in a file; what it names is beside it."""
    file = Path(path).absolute()
    document = read_document(expect.contents(file, "the configuration", LONGEST), "configuration")
    pairs = expect.closed(document, "the configuration", KEYS)
    folder = file.parent
    deadline = _given(pairs, "deadline", _seconds, 1.0)
    return Config(
        datasets=tuple(_dataset(node, folder, deadline) for node in expect.entries(pairs["datasets"], "datasets")),
        folder=folder / _given(pairs, "folder", expect.text, "service"),
        store=_place(_given(pairs, "store", expect.text, "service.db"), folder),
        address=_given(pairs, "address", expect.text, "127.0.0.1"),
        port=_given(pairs, "port", _natural, 8000),
        workers=_given(pairs, "workers", expect.whole, 2),
        ledger=None if "ledger" not in pairs else _place(expect.text(pairs["ledger"], "ledger"), folder),
        url=None if "url" not in pairs else expect.text(pairs["url"], "url").rstrip("/"),
        tls=None if "tls" not in pairs else _tls(pairs["tls"], folder),
        insecure=_given(pairs, "insecure", expect.truth, False),
        deadline=deadline,
        padding=_given(pairs, "padding", expect.truth, True),
        hung=_given(pairs, "hung", _seconds, 60.0),
        limits=_limits(pairs.get("limits", {})),
    )


def sample_config(folder: Path, schema: Path, port: int = 8000, workers: int = 2) -> Config:
    """A service on loopback for one data set, with all it needs in a folder."""
    return Config((DataSet(schema, 1.0),), folder / "service", str(folder / "service.db"), port=port, workers=workers)


def _given(pairs: Mapping[str, Node], key: str, read: Callable[[Node, str], Read], otherwise: Read) -> Read:
    return read(pairs[key], key) if key in pairs else otherwise


def _dataset(node: Node, folder: Path, deadline: float) -> DataSet:
    pairs = expect.closed(node, "an entry of datasets", DATASET)
    jobs = None if "jobs" not in pairs else expect.truth(pairs["jobs"], "jobs")
    schema = folder / expect.text(pairs["schema"], "schema")
    return DataSet(schema, _given(pairs, "deadline", _seconds, deadline), jobs)


def _tls(node: Node, folder: Path) -> TLS:
    pairs = expect.closed(node, "tls", OF_TLS)
    return TLS(*(folder / expect.text(pairs[name], name) for name in OF_TLS.allowed))


def _limits(node: Node) -> Limits:
    pairs = expect.closed(node, "limits", LIMITS)
    whole = {name: expect.whole(pairs[name], name) for name in pairs if name not in {"rate", "previews", "least"}}
    usual = Limits()
    seconds = {name: _given(pairs, name, _seconds, getattr(usual, name)) for name in ("rate", "previews")}
    return Limits(**whole, **seconds, least=_given(pairs, "least", expect.number, usual.least))


def _seconds(node: Node, what: str) -> float:
    return float(expect.number(node, what))


def _natural(node: Node, what: str) -> int:
    given = expect.text(node, what)
    if not WHOLE.fullmatch(given):
        raise InvalidInput(f"{what} must be a whole number such as 8443, got {given[:40]!r}")
    return int(given)


def _place(where: str, folder: Path) -> str:
    """An address as it is, a file beside the configuration."""
    return where if "://" in where else str(folder / where)
