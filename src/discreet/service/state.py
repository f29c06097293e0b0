"""What one worker has open: the configuration, the store, the data sets, the counts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from discreet.custodian.secrets import generate_identifier
from discreet.errors import DiscreetError, Unavailable
from discreet.service.config import Config
from discreet.service.holdings import DatasetRegistry
from discreet.service.limits import ComputeQuota, RateLimiter
from discreet.service.store import Store
from discreet.service.store.counters import CounterBuffer


@dataclass(frozen=True, slots=True)
class Service:
    """All that handlers need; threads share it."""

    config: Config
    store: Store
    registry: DatasetRegistry
    rate_limiter: RateLimiter
    compute_quota: ComputeQuota
    counters: CounterBuffer
    run_id: str
    """Names the run of the service that the worker is of; sessions of counting questions end with it."""

    @staticmethod
    def open(
        config: Config, runs_jobs: bool = False, run_id: str | None = None, ledgers: Mapping[str, str] | None = None
    ) -> Service:
        """Open the store; data sets are opened as they are asked for. Without a `life` this is a run of its own.

        `ledgers` are the identities of the ledgers that the run has opened, by data set.
        """
        store = Store.open(config.store)
        try:
            rate_limiter = RateLimiter(config.folder / "rates", config.limits.rate, config.limits.burst)
            registry = DatasetRegistry(config, store, runs_jobs, ledgers)
            compute_quota = ComputeQuota(config.folder / "computing", config.limits.previews)
            return Service(
                config,
                store,
                registry,
                rate_limiter,
                compute_quota,
                CounterBuffer(store),
                run_id or generate_identifier(),
            )
        except DiscreetError:
            store.close()
            raise

    def close(self) -> None:
        """Write down what was counted, if the store is there, and let go of all."""
        with suppress(Unavailable):
            self.counters.write()
        self.registry.close()
        self.rate_limiter.close()
        self.compute_quota.close()
        self.store.close()
