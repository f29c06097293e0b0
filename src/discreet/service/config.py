"""The configuration of a service, in one YAML file: address, data sets, deadlines, limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from discreet.client.transport import is_loopback
from discreet.errors import InvalidInput
from discreet.formatting import format_number
from discreet.schema import yaml
from discreet.schema.yaml import MAX_CHARACTERS, MappingKeys, Node, read_document

CONFIG_KEYS = MappingKeys(
    (
        *("datasets", "address", "port", "workers", "store", "ledger", "folder", "url", "tls", "insecure"),
        *("deadline", "padding", "hung", "limits"),
    ),
    ("datasets",),
)
LIMIT_KEYS = MappingKeys(("body", "prior", "bins", "rate", "burst", "together", "previews", "least"))
DATASET_KEYS = MappingKeys(("schema", "deadline", "jobs"), ("schema",))
TLS_KEYS = MappingKeys(("certificate", "key"), ("certificate", "key"))
MIN_DEADLINE, MAX_DEADLINE = 0.01, 3600.0
MIN_HUNG = 2.0
MAX_WORKERS = 64
INTEGER_PATTERN = re.compile("-?[0-9]{1,9}")
URL_PATTERN = re.compile(r"https?://([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
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
        """Refuse limits that let nothing through."""
        if min(self.body, self.prior, self.bins, self.burst, self.together) < 1 or not (
            self.rate > 0 < self.least and self.previews > 0
        ):
            raise InvalidInput("every limit of a service is above 0; leave one out to have it as it comes")


@dataclass(frozen=True, slots=True)
class DatasetConfig:
    """One data set of a service: its schema file, the seconds after which replies leave, and whether it runs by jobs.

    `jobs` None means as its engine needs: yes on Spark.
    """

    schema: Path
    deadline: float
    jobs: bool | None = None

    def __post_init__(self) -> None:
        """Refuse a deadline that nobody would wait for."""
        _check_deadline(self.deadline)


@dataclass(frozen=True, slots=True)
class TLS:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a service; without a `ledger` each data set has its own."""

    datasets: tuple[DatasetConfig, ...]
    folder: Path
    store: str
    address: str = "127.0.0.1"
    port: int = 8000
    workers: int = 2
    ledger: str | None = None
    url: str | None = None
    """The address at which analysts reach it, for code that the console shows; None where that is its own."""
    tls: TLS | None = None
    insecure: bool = False
    deadline: float = 1.0
    padding: bool = True
    hung: float = 60.0
    """Seconds without a heartbeat after which a process is killed and another takes its place."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and an address that others reach without TLS unless `insecure` says so."""
        if not self.datasets:
            raise InvalidInput("a service needs at least one data set; list its schema file under datasets")
        if not 0 <= self.port <= 65_535:
            raise InvalidInput("a port is a number from 0 to 65535; 0 takes a free one")
        if not 1 <= self.workers <= MAX_WORKERS:
            raise InvalidInput(f"a service has 1 to {MAX_WORKERS} workers")
        _check_deadline(self.deadline)
        if not MIN_HUNG <= self.hung <= MAX_DEADLINE:
            raise InvalidInput(
                f"hung is between {format_number(MIN_HUNG)} and {format_number(MAX_DEADLINE)} seconds, the "
                "time without a sign of life after which a process is replaced; leave it out for 60"
            )
        if self.url is not None and not URL_PATTERN.fullmatch(self.url):
            raise InvalidInput(
                f"url is the address that analysts reach the service at, such as https://discreet.example.org, without "
                f"a path, got {self.url[:40]!r}; correct it, or leave it out"
            )
        if not (is_loopback(self.address) or self.tls or self.insecure):
            raise InvalidInput(
                f"{self.address[:40]!r} is reached from other machines, and tokens would travel in the clear; give tls "
                "a certificate and a key, or say insecure: yes where a proxy has them"
            )


def _check_deadline(deadline: float) -> None:
    if not MIN_DEADLINE <= deadline <= MAX_DEADLINE:
        raise InvalidInput(
            f"a deadline is between {format_number(MIN_DEADLINE)} and {format_number(MAX_DEADLINE)} seconds"
        )


def read_config(path: str | Path) -> Config:
    """Read a configuration; relative paths in it start from its folder."""
    file = Path(path).absolute()
    document = read_document(yaml.read_text_file(file, "the configuration", MAX_CHARACTERS), "configuration")
    pairs = yaml.expect_closed_mapping(document, "the configuration", CONFIG_KEYS)
    folder = file.parent
    deadline = _read_optional(pairs, "deadline", _read_seconds, 1.0)
    return Config(
        datasets=tuple(
            _read_dataset(node, folder, deadline) for node in yaml.expect_list(pairs["datasets"], "datasets")
        ),
        folder=folder / _read_optional(pairs, "folder", yaml.expect_text, "service"),
        store=_resolve_address(_read_optional(pairs, "store", yaml.expect_text, "service.db"), folder),
        address=_read_optional(pairs, "address", yaml.expect_text, "127.0.0.1"),
        port=_read_optional(pairs, "port", _read_integer, 8000),
        workers=_read_optional(pairs, "workers", yaml.expect_positive_integer, 2),
        ledger=None if "ledger" not in pairs else _resolve_address(yaml.expect_text(pairs["ledger"], "ledger"), folder),
        url=None if "url" not in pairs else yaml.expect_text(pairs["url"], "url").rstrip("/"),
        tls=None if "tls" not in pairs else _read_tls(pairs["tls"], folder),
        insecure=_read_optional(pairs, "insecure", yaml.expect_boolean, False),
        deadline=deadline,
        padding=_read_optional(pairs, "padding", yaml.expect_boolean, True),
        hung=_read_optional(pairs, "hung", _read_seconds, 60.0),
        limits=_read_limits(pairs.get("limits", {})),
    )


def _read_optional(pairs: Mapping[str, Node], key: str, read: Callable[[Node, str], Read], default: Read) -> Read:
    return read(pairs[key], key) if key in pairs else default


def _read_dataset(node: Node, folder: Path, deadline: float) -> DatasetConfig:
    pairs = yaml.expect_closed_mapping(node, "an entry of datasets", DATASET_KEYS)
    jobs = None if "jobs" not in pairs else yaml.expect_boolean(pairs["jobs"], "jobs")
    schema = folder / yaml.expect_text(pairs["schema"], "schema")
    return DatasetConfig(schema, _read_optional(pairs, "deadline", _read_seconds, deadline), jobs)


def _read_tls(node: Node, folder: Path) -> TLS:
    pairs = yaml.expect_closed_mapping(node, "tls", TLS_KEYS)
    return TLS(*(folder / yaml.expect_text(pairs[name], name) for name in TLS_KEYS.allowed))


def _read_limits(node: Node) -> Limits:
    pairs = yaml.expect_closed_mapping(node, "limits", LIMIT_KEYS)
    integers = {
        name: yaml.expect_positive_integer(pairs[name], name)
        for name in pairs
        if name not in {"rate", "previews", "least"}
    }
    defaults = Limits()
    seconds = {
        name: _read_optional(pairs, name, _read_seconds, getattr(defaults, name)) for name in ("rate", "previews")
    }
    return Limits(**integers, **seconds, least=_read_optional(pairs, "least", yaml.expect_number, defaults.least))


def _read_seconds(node: Node, what: str) -> float:
    return float(yaml.expect_number(node, what))


def _read_integer(node: Node, what: str) -> int:
    text = yaml.expect_text(node, what)
    if not INTEGER_PATTERN.fullmatch(text):
        raise InvalidInput(f"{what} must be a whole number such as 8443, got {text[:40]!r}")
    return int(text)


def _resolve_address(address: str, folder: Path) -> str:
    """An address as it is, a file beside the configuration."""
    return address if "://" in address else str(folder / address)
