"""Who may do what: dependencies of the routes. What is not granted and what is not there give the same reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import time
from typing import Annotated, cast

from fastapi import Depends, Path, Request

from discreet.schema import Schema
from discreet.service.gate import Principal
from discreet.service.holdings import Held
from discreet.service.problems import Problem, not_found
from discreet.service.state import Service
from discreet.service.store.tokens import granted

DataSetName = Annotated[str, Path(description="The name of a data set.", examples=["registry"])]


def _at_once() -> None:
    """Without padding nothing is waited for."""


@dataclass(frozen=True, slots=True)
class Entered:
    """A data set that the sender may ask, and whether it is a rehearsal."""

    service: Service
    principal: Principal
    held: Held
    rehearsal: bool
    at: float = 0.0
    """When the request came."""
    settle: Callable[[], None] = _at_once
    """Waits until what was drawn may be seen."""

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.held.schema.name

    @property
    def schema(self) -> Schema:
        """What is public of it."""
        return self.held.schema


def service_of(request: Request) -> Service:
    """The worker's service."""
    return cast("Service", request.app.state.service)


def principal_of(request: Request) -> Principal:
    """Who sent the request."""
    found: Principal | None = getattr(request.state, "principal", None)
    if found is None:
        raise Problem("unauthenticated")
    return found


def custodian_of(request: Request) -> Principal:
    """A custodian, whose own replies need not wait."""
    found = principal_of(request)
    if not found.is_custodian:
        raise Problem("forbidden")
    request.state.unpadded = True
    return found


def enter(request: Request, dataset: str, rehearsal: bool = False) -> Entered:
    """A data set by name, if it is there and granted; from then on its deadline holds."""
    service, principal = service_of(request), principal_of(request)
    held = service.holdings.held(dataset)
    if held is None or dataset not in visible(service, principal):
        raise not_found()
    request.state.deadline = held.told.deadline
    request.state.dataset = held.schema.name
    moment = getattr(request.state, "moment", None)
    settle = _at_once if moment is None else moment(held.told.deadline).wait
    return Entered(service, principal, held, rehearsal, time(), settle)


def visible(service: Service, principal: Principal) -> tuple[str, ...]:
    """The data sets that the sender may ask: all, for a custodian."""
    names = service.holdings.names
    if principal.is_custodian:
        return names
    mine = granted(service.store, principal.name)
    return tuple(name for name in names if name in mine)


def entered(request: Request, dataset: DataSetName) -> Entered:
    """The dependency of routes about a data set; under /v1/rehearsal it is the rehearsal."""
    return enter(request, dataset, _is_rehearsal(request))


def managed(request: Request, dataset: DataSetName) -> Entered:
    """The same for the custodian's routes: first the role, so that an analyst learns nothing about names."""
    custodian_of(request)
    found = enter(request, dataset, _is_rehearsal(request))
    request.state.unpadded = True
    return found


def _is_rehearsal(request: Request) -> bool:
    return request.url.path.startswith("/v1/rehearsal/")


InService = Annotated[Service, Depends(service_of)]
Someone = Annotated[Principal, Depends(principal_of)]
Keeper = Annotated[Principal, Depends(custodian_of)]
InDataSet = Annotated[Entered, Depends(entered)]
InManaged = Annotated[Entered, Depends(managed)]
