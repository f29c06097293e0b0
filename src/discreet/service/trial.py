"""Opening all that a service will open, once and before it listens, so that a mistake is told plainly and at once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from discreet.custodian import Custodian
from discreet.custodian.binding import bound_ledger
from discreet.custodian.looking import current_snapshot
from discreet.custodian.registering import Progress
from discreet.errors import InvalidInput
from discreet.service.config import Config
from discreet.service.holdings import Held, engine_of, rehearsal_folder
from discreet.service.listening import check_tls
from discreet.service.names import require_apart
from discreet.service.state import Service


def try_out(config: Config, progress: Progress) -> Mapping[str, str]:
    """Open certificate, folder, store and data sets, and close them; what was never registered is registered.

    The identity of each data set's ledger, which all processes of this run must find again.
    """
    if config.tls is not None:
        check_tls(config.tls)
    with closing(Service.open(config)) as service:
        for name in service.holdings.names:
            require_apart(name, service.holdings.names, "the data set")
            progress(f"opening {name}")
            held = service.holdings.held(name)
            if held is not None:
                _open(service, held, progress)
        return service.holdings.ledgers


def _open(service: Service, held: Held, progress: Progress) -> None:
    schema, config = held.schema, service.config
    if engine_of(held) == "spark":  # opened by the one process that runs jobs: each Spark has a Java of its own
        if current_snapshot(schema) is None:
            raise InvalidInput(f"{schema.name} is not registered; run: discreet check {held.told.schema.name}")
        with bound_ledger(schema, config.ledger) as ledger:
            service.holdings.watch(schema.name, ledger)
    else:
        with Custodian.open(held.told.schema, config.ledger, progress=progress) as custodian:
            service.holdings.watch(schema.name, custodian._ledger)
    progress(f"making up a table to rehearse {schema.name} with")
    Custodian.rehearse(held.told.schema, rehearsal_folder(config, schema.name)).close()
