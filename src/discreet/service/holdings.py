"""The open custodians of a service, and beside each its rehearsal: the same calls on a made-up table.

A data set is opened when it is first asked for, and again when its snapshot or its schema has changed; one that cannot
be opened is refused, and tried again a little later. All processes of one run of the service open the same ledger, by
device and inode or by the database's own numbers: a worker that is started again does not go on in another one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from discreet.custodian import Custodian
from discreet.custodian.binding import ledger_address
from discreet.custodian.heads import FolderHeads
from discreet.custodian.looking import own_ledger
from discreet.custodian.place import Place
from discreet.custodian.rehearsing import outgrown
from discreet.errors import DiscreetError, InvalidInput, Unavailable, Unsupported
from discreet.ledger import Ledger
from discreet.ledger.database import GONE, MOVED, REMADE
from discreet.ledger.opening import file_identity
from discreet.ledger.sqlite import NO_FILE
from discreet.schema import Schema, load_schema
from discreet.schema.address import Address
from discreet.service import logs
from discreet.service.config import Config, DataSet
from discreet.service.store import Store
from discreet.service.store.answers import part_from_lost
from discreet.service.store.heads import StoreHeads

Name = tuple[str, bool]

PAUSE = 2.0
"""Seconds until a data set that could not be opened is tried again: to look at a large file takes long."""
PATIENCE = 10.0
"""Seconds for which a request waits while another opens the data set."""


@dataclass(slots=True)
class Lease:
    """One open custodian, and how many requests use it now."""

    custodian: Custodian
    users: int = 0
    retired: bool = False


@dataclass(slots=True)
class Held:
    """One data set of the service: its schema as it was last read, and its custodian once it is open."""

    told: DataSet
    schema: Schema
    opening: Lock = field(default_factory=Lock)
    lease: Lease | None = None
    refusal: str = ""
    refused: float = -math.inf
    """What is told of it, and when on the monotonic clock it could last not be opened."""
    cause: str = ""
    """Why, for the custodian's eyes; empty once it is open."""

    @property
    def jobs(self) -> bool:
        """Whether its questions run as jobs: as told, or else on Spark."""
        return self.told.jobs if self.told.jobs is not None else _engine(self.schema) == "spark"


class Holdings:
    """Every data set by name, for real and in rehearsal."""

    def __init__(
        self, config: Config, store: Store, runs_jobs: bool = False, ledgers: Mapping[str, str] | None = None
    ) -> None:
        self._config, self._store, self._runs_jobs = config, store, runs_jobs
        self._lock = Lock()
        self._ledgers = dict(ledgers or {})
        """The identity of each data set's ledger, as this run of the service first opened it."""
        self._held: dict[Name, Held] = {}
        for told in config.datasets:
            schema = load_schema(told.schema)
            if (schema.name, False) in self._held:
                raise InvalidInput(f"two data sets of the service are called {schema.name[:40]!r}; rename one")
            for rehearsal in (False, True):
                self._held[schema.name, rehearsal] = Held(told, schema)

    @property
    def names(self) -> tuple[str, ...]:
        """The data sets in the order of the configuration."""
        return tuple(name for name, rehearsal in self._held if not rehearsal)

    def held(self, name: str) -> Held | None:
        """One data set."""
        return self._held.get((name, False))

    @contextmanager
    def custodian(self, name: str, rehearsal: bool = False) -> Iterator[Custodian]:
        """The custodian of a data set, which stays open as long as it is used."""
        lease = self._taken(self._held[name, rehearsal], rehearsal)
        try:
            yield lease.custodian
        finally:
            self._given_back(lease)

    @property
    def ledgers(self) -> Mapping[str, str]:
        """The identity of each data set's ledger that was opened."""
        return dict(self._ledgers)

    def watch(self, name: str, ledger: Ledger) -> None:
        """Compare a data set's open ledger with what the service knows of it, now and before each charge.

        It must be the file or the database that this run of the service opened first, and have all that the store has
        recorded.
        """
        opened = ledger.identity()
        if self._ledgers.setdefault(name, opened) != opened:
            raise Unavailable(MOVED if self._file_identity(name) else REMADE)
        ledger.record_heads(name, StoreHeads(self._store))

    def check_ledger(self, name: str) -> None:
        """Refuse a ledger that is gone, replaced or set back; nothing is opened that stays open."""
        self._require_file(name)
        held = self._held[name, False]
        with self._lock:
            lease = held.lease
            if lease is not None:
                lease.users += 1
        if lease is not None:
            try:
                self._compare(held, lease.custodian._ledger)
            finally:
                self._given_back(lease)
            return
        with own_ledger(held.schema, self._config.ledger) as ledger:
            if ledger is not None:
                if self._ledgers.get(name) not in (None, ledger.identity()):
                    raise Unavailable(REMADE)
                self._compare(held, ledger)

    def _compare(self, held: Held, ledger: Ledger) -> None:
        ledger.compare(held.schema.name, FolderHeads(Place(held.schema)), StoreHeads(self._store))

    def _file_identity(self, name: str) -> str | None:
        return file_identity(ledger_address(self._held[name, False].schema, self._config.ledger))

    def _require_file(self, name: str) -> None:
        """Refuse another file than was opened before, without opening it; of a database nothing is known yet."""
        expected, found = self._ledgers.get(name), self._file_identity(name)
        if expected is not None and found not in (None, expected):
            raise Unavailable(GONE if found == NO_FILE else MOVED)

    def close(self) -> None:
        """Close every custodian; nobody uses one any more."""
        for held in self._held.values():
            with held.opening:
                self._retire(held)

    def _taken(self, held: Held, rehearsal: bool) -> Lease:
        if not held.opening.acquire(timeout=PATIENCE):
            raise Unavailable("the data set is being opened; try again")
        try:
            if held.lease is not None and _is_old(held.lease.custodian, rehearsal):
                self._retire(held)
            if held.lease is None:
                held.lease = Lease(self._tried(held, rehearsal))
            with self._lock:
                held.lease.users += 1
            return held.lease
        finally:
            held.opening.release()

    def _tried(self, held: Held, rehearsal: bool) -> Custodian:
        """Open a custodian; for a while after that failed all are refused with it, and nobody tries in turn."""
        if time.monotonic() - held.refused < PAUSE:
            raise Unavailable(held.refusal)
        held.cause = ""
        try:
            return self._opened(held, rehearsal)
        except Unavailable as refusal:
            held.refusal = held.cause = str(refusal)
        except (InvalidInput, Unsupported) as mistake:  # of the custodian's, in the schema: no matter of an analyst's
            held.refusal = f"{held.schema.name} cannot be opened now; ask its custodian"
            held.cause = str(mistake)
            logs.write("closed", dataset=held.schema.name, where=type(mistake).__name__)
        held.refused = time.monotonic()
        raise Unavailable(held.refusal)

    def _opened(self, held: Held, rehearsal: bool) -> Custodian:
        """Open a custodian by the schema as it is now; from then on that is what is public of the data set."""
        name, file = held.schema.name, held.told.schema
        declared = load_schema(file)
        _require_name(declared, name)  # first: under another name a new data set would be registered
        if not rehearsal:
            self._require_file(name)
        if rehearsal:
            opened = Custodian.rehearse(file, rehearsal_folder(self._config, name))
        else:
            # Where questions run as jobs, only the process that runs those opens the rows.
            opened = Custodian.open(file, self._config.ledger, reading=self._runs_jobs or not held.jobs)
            declared = opened.schema
        try:
            _require_name(opened.schema, name)
            if rehearsal:
                part_from_lost(self._store, name, rehearsal, lambda: opened.history(limit=1)[0].entry)
            else:
                self.watch(name, opened._ledger)
        except DiscreetError:
            opened.close()
            raise
        for both in (False, True):
            self._held[name, both].schema = declared
        return opened

    def _given_back(self, lease: Lease) -> None:
        with self._lock:
            lease.users -= 1
            last = lease.retired and not lease.users
        if last:
            lease.custodian.close()

    def _retire(self, held: Held) -> None:
        """No new requests for a custodian; who uses it goes on, and the last one closes it."""
        lease, held.lease = held.lease, None
        if lease is None:
            return
        with self._lock:
            lease.retired = True
            unused = not lease.users
        if unused:
            lease.custodian.close()


def _is_old(custodian: Custodian, rehearsal: bool) -> bool:
    """Whether to open a data set again."""
    return custodian.stale() or (rehearsal and outgrown(custodian.schema))


def _require_name(schema: Schema, name: str) -> None:
    if schema.name != name:
        raise InvalidInput(f"the schema of {name} has another name by now; go back to that, or start the service again")


def rehearsal_folder(config: Config, name: str) -> Path:
    """Where the made-up table of a data set is."""
    return config.folder / "rehearsal" / name


def _engine(schema: Schema) -> str:
    return Address.of(schema.source).engine


def engine_of(held: Held) -> str:
    """What holds the rows, for the custodian's eyes."""
    return _engine(held.schema)
