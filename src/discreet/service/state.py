"""What one worker has open: the configuration, the store, the data sets, the counts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from discreet.custodian.secrets import identifier
from discreet.errors import DiscreetError, Unavailable
from discreet.service.config import Config
from discreet.service.holdings import Holdings
from discreet.service.limits import Computing, Rates
from discreet.service.store import Store
from discreet.service.store.counters import Counts


@dataclass(frozen=True, slots=True)
class Service:
    """All that handlers need; threads share it."""

    config: Config
    store: Store
    holdings: Holdings
    rates: Rates
    computing: Computing
    counts: Counts
    life: str
    """Names the run of the service that the worker is of; sessions of counting questions end with it."""

    @staticmethod
    def open(
        config: Config, runs_jobs: bool = False, life: str | None = None, ledgers: Mapping[str, str] | None = None
    ) -> Service:
        """Open the store; data sets are opened as they are asked for. Without a `life` this is a run of its own.

        `ledgers` are the identities of the ledgers that the run has opened, by data set.
        """
        store = Store.open(config.store)
        try:
            rates = Rates(config.folder / "rates", config.limits.rate, config.limits.burst)
            holdings = Holdings(config, store, runs_jobs, ledgers)
            computing = Computing(config.folder / "computing", config.limits.previews)
            return Service(config, store, holdings, rates, computing, Counts(store), life or identifier())
        except DiscreetError:
            store.close()
            raise

    def close(self) -> None:
        """Write down what was counted, if the store is there, and let go of all."""
        with suppress(Unavailable):
            self.counts.write()
        self.holdings.close()
        self.rates.close()
        self.computing.close()
        self.store.close()
