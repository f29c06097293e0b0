"""Opening all that a service will open, once and before it listens, so that a mistake is told plainly and at once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from discreet.custodian import Custodian
from discreet.custodian.binding import open_bound_ledger
from discreet.custodian.looking import find_current_snapshot
from discreet.custodian.registering import Progress
from discreet.errors import InvalidInput
from discreet.service.config import Config
from discreet.service.holdings import ServedDataset, get_dataset_engine, get_rehearsal_folder
from discreet.service.listening import check_tls
from discreet.service.names import require_distinct_name
from discreet.service.state import Service


def try_startup(config: Config, progress: Progress) -> Mapping[str, str]:
    """Open certificate, folder, store and data sets, and close them; what was never registered is registered.

    The identity of each data set's ledger, which all processes of this run must find again.
    """
    if config.tls is not None:
        check_tls(config.tls)
    with closing(Service.open(config)) as service:
        for name in service.registry.names:
            require_distinct_name(name, service.registry.names, "the data set")
            progress(f"opening {name}")
            dataset = service.registry.find_dataset(name)
            if dataset is not None:
                _open_dataset(service, dataset, progress)
        return service.registry.ledgers


def _open_dataset(service: Service, dataset: ServedDataset, progress: Progress) -> None:
    schema, config = dataset.schema, service.config
    if (
        get_dataset_engine(dataset) == "spark"
    ):  # opened by the one process that runs jobs: each Spark has a Java of its own
        if find_current_snapshot(schema) is None:
            raise InvalidInput(f"{schema.name} is not registered; run: discreet check {dataset.config.schema.name}")
        with open_bound_ledger(schema, config.ledger) as ledger:
            service.registry.watch_ledger(schema.name, ledger)
    else:
        with Custodian.open(dataset.config.schema, config.ledger, progress=progress) as custodian:
            service.registry.watch_ledger(schema.name, custodian._ledger)
    progress(f"making up a table to rehearse {schema.name} with")
    Custodian.rehearse(dataset.config.schema, get_rehearsal_folder(config, schema.name)).close()
