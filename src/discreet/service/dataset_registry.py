"""The data sets that a worker has open, and everything else that its handlers need.

A data set is opened when it is first asked for, and again when its snapshot or its schema has changed; one that cannot
be opened is refused, and tried again a little later. All processes of one run of the service open the same ledger, by
device and inode or by the database's own numbers: a worker that is started again refuses another one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from discreet.custodian import Custodian
from discreet.custodian.rehearsal import has_outgrown_ledger
from discreet.custodian.status import open_own_ledger
from discreet.datasets.dataset_dir import DatasetDir, FolderHeads, generate_identifier, get_ledger_address
from discreet.errors import DiscreetError, InvalidInput, Unavailable, Unsupported
from discreet.ledger import Ledger
from discreet.ledger.connect import find_file_identity
from discreet.ledger.sqlite import NO_FILE
from discreet.ledger.storage import DATABASE_REPLACED, FILE_MISSING, FILE_REPLACED
from discreet.schema import Schema, load_schema
from discreet.schema.schema import SourceAddress
from discreet.service import monitoring
from discreet.service.config import Config, DatasetConfig
from discreet.service.middleware.limits import ComputeQuota, RateLimiter
from discreet.service.store import Store
from discreet.service.store.store import CounterBuffer, StoreHeads
from discreet.service.store.stored_answers import detach_lost_answers

DatasetKey = tuple[str, bool]

RETRY_PAUSE = 2.0
"""Seconds until a data set that could not be opened is tried again, since checking a large file takes long."""
OPEN_TIMEOUT = 10.0
"""Seconds for which a request waits while another opens the data set."""


@dataclass(slots=True)
class Lease:
    """An open custodian, and how many requests use it now."""

    custodian: Custodian
    users: int = 0
    is_retired: bool = False


@dataclass(slots=True)
class ServedDataset:
    """A data set of the service: its schema as it was last read, and its custodian once it is open."""

    config: DatasetConfig
    schema: Schema
    open_lock: Lock = field(default_factory=Lock)
    lease: Lease | None = None
    refusal: str = ""
    refused_at: float = -math.inf
    """The message of the last failure to open it, and its time on the monotonic clock."""
    cause: str = ""
    """Why it failed, for the custodian alone; empty once it is open."""

    @property
    def engine(self) -> str:
        """The engine that holds the rows, for the custodian alone."""
        return SourceAddress.of(self.schema.source).engine

    @property
    def runs_as_jobs(self) -> bool:
        """Whether its questions run as jobs: as configured, or else on Spark."""
        return self.config.jobs if self.config.jobs is not None else self.engine == "spark"


class DatasetRegistry:
    """Every data set by name, for real and in rehearsal."""

    def __init__(
        self, config: Config, store: Store, runs_jobs: bool = False, ledgers: Mapping[str, str] | None = None
    ) -> None:
        self._config, self._store, self._runs_jobs = config, store, runs_jobs
        self._lock = Lock()
        self._ledgers = dict(ledgers or {})
        """The identity of each data set's ledger, as this run of the service first opened it."""
        self._datasets: dict[DatasetKey, ServedDataset] = {}
        for dataset_config in config.datasets:
            schema = load_schema(dataset_config.schema)
            if (schema.name, False) in self._datasets:
                raise InvalidInput(f"two data sets of the service are called {schema.name[:40]!r}; rename one")
            for rehearsal in (False, True):
                self._datasets[schema.name, rehearsal] = ServedDataset(dataset_config, schema)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the data sets, in the order of the configuration."""
        return tuple(name for name, rehearsal in self._datasets if not rehearsal)

    def find_dataset(self, name: str) -> ServedDataset | None:
        """Find a data set by its name."""
        return self._datasets.get((name, False))

    @contextmanager
    def lease_custodian(self, name: str, rehearsal: bool = False) -> Iterator[Custodian]:
        """Lease the custodian of a data set, which stays open as long as it is used."""
        lease = self._acquire_lease(self._datasets[name, rehearsal], rehearsal)
        try:
            yield lease.custodian
        finally:
            self._release_lease(lease)

    @property
    def ledgers(self) -> Mapping[str, str]:
        """The identity of each data set's ledger that was opened."""
        return dict(self._ledgers)

    def watch_ledger(self, name: str, ledger: Ledger) -> None:
        """Compare a data set's open ledger with what the service knows of it, now and before each charge.

        It must be the file or the database that this run of the service opened first, and have all that the store has
        recorded.
        """
        identity = ledger.get_identity()
        if self._ledgers.setdefault(name, identity) != identity:
            raise Unavailable(FILE_REPLACED if self._get_file_identity(name) else DATABASE_REPLACED)
        ledger.record_heads(name, StoreHeads(self._store))

    def check_ledger(self, name: str) -> None:
        """Refuse a ledger that is gone, replaced or set back; nothing is left open."""
        self._require_file(name)
        dataset = self._datasets[name, False]
        with self._lock:
            lease = dataset.lease
            if lease is not None:
                lease.users += 1
        if lease is not None:
            try:
                self._compare_heads(dataset, lease.custodian._ledger)
            finally:
                self._release_lease(lease)
            return
        with open_own_ledger(dataset.schema, self._config.ledger) as ledger:
            if ledger is not None:
                if self._ledgers.get(name) not in (None, ledger.get_identity()):
                    raise Unavailable(DATABASE_REPLACED)
                self._compare_heads(dataset, ledger)

    def _compare_heads(self, dataset: ServedDataset, ledger: Ledger) -> None:
        ledger.compare(dataset.schema.name, FolderHeads(DatasetDir(dataset.schema)), StoreHeads(self._store))

    def _get_file_identity(self, name: str) -> str | None:
        return find_file_identity(get_ledger_address(self._datasets[name, False].schema, self._config.ledger))

    def _require_file(self, name: str) -> None:
        """Refuse another file than was opened before, without opening it; a database cannot be checked so."""
        expected, identity = self._ledgers.get(name), self._get_file_identity(name)
        if expected is not None and identity not in (None, expected):
            raise Unavailable(FILE_MISSING if identity == NO_FILE else FILE_REPLACED)

    def close(self) -> None:
        """Close every custodian; nobody uses one any more."""
        for dataset in self._datasets.values():
            with dataset.open_lock:
                self._retire(dataset)

    def _acquire_lease(self, dataset: ServedDataset, rehearsal: bool) -> Lease:
        if not dataset.open_lock.acquire(timeout=OPEN_TIMEOUT):
            raise Unavailable("the data set is being opened; try again")
        try:
            custodian = None if dataset.lease is None else dataset.lease.custodian
            if custodian is not None and (
                custodian.is_stale() or (rehearsal and has_outgrown_ledger(custodian.schema))
            ):
                self._retire(dataset)
            if dataset.lease is None:
                dataset.lease = Lease(self._try_open(dataset, rehearsal))
            with self._lock:
                dataset.lease.users += 1
            return dataset.lease
        finally:
            dataset.open_lock.release()

    def _try_open(self, dataset: ServedDataset, rehearsal: bool) -> Custodian:
        """Open a custodian; for a while after a failure requests are refused without another try."""
        if time.monotonic() - dataset.refused_at < RETRY_PAUSE:
            raise Unavailable(dataset.refusal)
        dataset.cause = ""
        try:
            return self._open_custodian(dataset, rehearsal)
        except Unavailable as refusal:
            dataset.refusal = dataset.cause = str(refusal)
        except (InvalidInput, Unsupported) as mistake:  # the custodian's, in the schema: not shown to analysts
            dataset.refusal = f"{dataset.schema.name} cannot be opened now; ask its custodian"
            dataset.cause = str(mistake)
            monitoring.write_event("closed", dataset=dataset.schema.name, where=type(mistake).__name__)
        dataset.refused_at = time.monotonic()
        raise Unavailable(dataset.refusal)

    def _open_custodian(self, dataset: ServedDataset, rehearsal: bool) -> Custodian:
        """Open a custodian by the schema as it is now, which from then on is what is public of the data set."""
        name, file = dataset.schema.name, dataset.config.schema
        schema = load_schema(file)
        _require_name(schema, name)  # first: under another name a new data set would be registered
        if not rehearsal:
            self._require_file(name)
        if rehearsal:
            custodian = Custodian.rehearse(file, get_rehearsal_folder(self._config, name))
        else:
            # Where questions run as jobs, only the process that runs those opens the rows.
            custodian = Custodian.open(file, self._config.ledger, reading=self._runs_jobs or not dataset.runs_as_jobs)
            schema = custodian.schema
        try:
            _require_name(custodian.schema, name)
            if rehearsal:
                detach_lost_answers(self._store, name, rehearsal, lambda: custodian.history(limit=1)[0].entry)
            else:
                self.watch_ledger(name, custodian._ledger)
        except DiscreetError:
            custodian.close()
            raise
        for in_rehearsal in (False, True):
            self._datasets[name, in_rehearsal].schema = schema
        return custodian

    def _release_lease(self, lease: Lease) -> None:
        with self._lock:
            lease.users -= 1
            is_last = lease.is_retired and not lease.users
        if is_last:
            lease.custodian.close()

    def _retire(self, dataset: ServedDataset) -> None:
        """Give a custodian no new requests; the last of those that use it closes it."""
        lease, dataset.lease = dataset.lease, None
        if lease is None:
            return
        with self._lock:
            lease.is_retired = True
            is_unused = not lease.users
        if is_unused:
            lease.custodian.close()


def _require_name(schema: Schema, name: str) -> None:
    if schema.name != name:
        raise InvalidInput(f"the schema of {name} has another name by now; go back to that, or start the service again")


def get_rehearsal_folder(config: Config, name: str) -> Path:
    """Get the folder of a data set's made-up table."""
    return config.folder / "rehearsal" / name


@dataclass(frozen=True, slots=True)
class Service:
    """Everything that handlers need; shared by threads."""

    config: Config
    store: Store
    registry: DatasetRegistry
    rate_limiter: RateLimiter
    compute_quota: ComputeQuota
    counters: CounterBuffer
    run_id: str
    """The run of the service that the worker belongs to; counting sessions end with it."""

    @staticmethod
    def open(
        config: Config, runs_jobs: bool = False, run_id: str | None = None, ledgers: Mapping[str, str] | None = None
    ) -> Service:
        """Open the store; data sets are opened as they are asked for. Without a `run_id` this begins a new run.

        `ledgers` are the identities of the ledgers that the run has opened, by data set.
        """
        store = Store.open(config.store)
        try:
            rate_limiter = RateLimiter(config.folder / "rates", config.limits.rate, config.limits.burst)
            registry = DatasetRegistry(config, store, runs_jobs, ledgers)
            compute_quota = ComputeQuota(config.folder / "computing", config.limits.previews)
            counters, run_id = CounterBuffer(store), run_id or generate_identifier()
            return Service(config, store, registry, rate_limiter, compute_quota, counters, run_id)
        except DiscreetError:
            store.close()
            raise

    def close(self) -> None:
        """Write the counts to the store, if it is there, and close everything."""
        with suppress(Unavailable):
            self.counters.write()
        self.registry.close()
        self.rate_limiter.close()
        self.compute_quota.close()
        self.store.close()
