"""The configuration of a service, in one YAML file: address, data sets, deadlines, limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated

from discreet.client.transport import is_loopback
from discreet.errors import InvalidInput
from discreet.formatting import format_number
from discreet.schema import yaml
from discreet.schema.yaml import MAX_CHARACTERS, Node, read_document

MIN_DEADLINE, MAX_DEADLINE = 0.01, 3600.0
MIN_HUNG = 2.0
MAX_WORKERS = 64
INTEGER_PATTERN = re.compile("-?[0-9]{1,9}")
URL_PATTERN = re.compile(r"https?://([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")


def _read_seconds(node: Node, subject: str) -> float:
    return float(yaml.expect_number(node, subject))


def _read_integer(node: Node, subject: str) -> int:
    text = yaml.expect_text(node, subject)
    if not INTEGER_PATTERN.fullmatch(text):
        raise InvalidInput(f"{subject} must be a whole number such as 8443, got {text[:40]!r}")
    return int(text)


def _read_path(node: Node, subject: str) -> Path:
    return Path(yaml.expect_text(node, subject))


def _read_url(node: Node, subject: str) -> str:
    return yaml.expect_text(node, subject).rstrip("/")


Text = Annotated[str, yaml.expect_text]
File = Annotated[Path, _read_path]
Count = Annotated[int, yaml.expect_positive_integer]
Seconds = Annotated[float, _read_seconds]
Flag = Annotated[bool, yaml.expect_boolean]


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one request may be, and how many a token may send: `rate` a second, `burst` of them in a row.

    `bins` are the numbers of a reply, over all its rows; `together` the requests that a worker has at work at once for
    one token; `previews` the seconds of processor time that previews of one token may take in a minute on one machine;
    `least` is the least epsilon of a question: what is stored for good is bounded by the budget over it.
    """

    body: Count = 65_536
    prior: Count = 4_096
    bins: Count = 4_096
    rate: Seconds = 20.0
    burst: Count = 40
    together: Count = 32
    previews: Seconds = 20.0
    least: Annotated[Fraction, yaml.expect_number] = Fraction(1, 10_000)

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

    schema: File
    deadline: Seconds = 1.0
    jobs: Annotated[bool | None, yaml.expect_boolean] = None

    def __post_init__(self) -> None:
        """Refuse a deadline that nobody would wait for."""
        _check_deadline(self.deadline)


@dataclass(frozen=True, slots=True)
class TLS:
    """The files of a certificate and its key."""

    certificate: File
    key: File


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a service; without a `ledger` each data set has its own."""

    datasets: Annotated[tuple[DatasetConfig, ...], yaml.expect_list]
    address: Text = "127.0.0.1"
    port: Annotated[int, _read_integer] = 8000
    workers: Count = 2
    store: Text = "service.db"
    ledger: Annotated[str | None, yaml.expect_text] = None
    folder: File = Path("service")
    url: Annotated[str | None, _read_url] = None
    """The address at which analysts reach it, for code that the console shows; None where that is its own."""
    tls: Annotated[TLS | None, partial(yaml.read_fields, TLS)] = None
    insecure: Flag = False
    deadline: Seconds = 1.0
    padding: Flag = True
    hung: Seconds = 60.0
    """Seconds without a heartbeat after which a process is killed and another takes its place."""
    limits: Annotated[Limits, partial(yaml.read_fields, Limits)] = Limits()

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
    values, folder = yaml.read_values(Config, document, "the configuration"), file.parent
    common = {"deadline": values["deadline"]} if "deadline" in values else {}
    entries = [yaml.read_values(DatasetConfig, node, "an entry of datasets") for node in values["datasets"]]
    datasets = tuple(DatasetConfig(**common | entry | {"schema": folder / entry["schema"]}) for entry in entries)
    config = Config(**values | {"datasets": datasets})
    return replace(
        config,
        store=_resolve_address(config.store, folder),
        ledger=None if config.ledger is None else _resolve_address(config.ledger, folder),
        folder=folder / config.folder,
        tls=None if config.tls is None else TLS(folder / config.tls.certificate, folder / config.tls.key),
    )


def _resolve_address(address: str, folder: Path) -> str:
    """An address as it is, a file beside the configuration."""
    return address if "://" in address else str(folder / address)
