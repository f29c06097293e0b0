"""What routes share: who sends the request, the data set that it is about, and replies as JSON."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import time
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Header, Path, Request
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse, Response

from discreet.custodian import Custodian
from discreet.schema import Schema
from discreet.service.dataset_registry import ServedDataset, Service
from discreet.service.middleware.auth import REHEARSAL_PREFIXES
from discreet.service.middleware.deadline import get_request_state
from discreet.service.openapi import OpenApiObject, build_link
from discreet.service.problems import HttpProblem, build_not_found
from discreet.service.store.tokens import Principal, list_granted_datasets

DatasetName = Annotated[str, Path(description="The name of a data set.", examples=["registry"])]


class DatasetRouter(APIRouter):
    """Routes about one data set; `rehearsal` has the same routes about its rehearsal."""

    def __init__(self, start: str, tag: str, route_class: type[APIRoute] = APIRoute) -> None:
        super().__init__(prefix=f"{start}/datasets/{{dataset}}", tags=[tag], route_class=route_class)
        rehearsal_prefix = f"{start}/rehearsal/datasets/{{dataset}}"
        self.rehearsal = APIRouter(prefix=rehearsal_prefix, tags=["rehearsal"], route_class=route_class)

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add a route, and the same one for rehearsals."""
        super().add_api_route(path, endpoint, **options)
        self.rehearsal.add_api_route(path, endpoint, **options)


def _skip_wait() -> None:
    """Without padding nothing is waited for."""


@dataclass(frozen=True, slots=True)
class DatasetContext:
    """A data set that the sender may ask, and whether it is a rehearsal."""

    service: Service
    principal: Principal
    dataset: ServedDataset
    rehearsal: bool
    received_at: float = 0.0
    release_barrier: Callable[[], None] = _skip_wait
    """Waits until what was drawn may be seen."""

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.dataset.schema.name

    @property
    def schema(self) -> Schema:
        """What is public of the data set."""
        return self.dataset.schema

    @property
    def history_owner(self) -> str | None:
        """Whose account and history the sender sees: their own, or for a custodian, None, those of the data set."""
        return None if self.principal.is_custodian else self.principal.name

    def lease_custodian(self) -> AbstractContextManager[Custodian]:
        """Lease the custodian of the data set, or of its rehearsal."""
        return self.service.registry.lease_custodian(self.name, self.rehearsal)


def get_service(request: Request) -> Service:
    """Get the worker's service."""
    return cast("Service", request.app.state.service)


def get_principal(request: Request) -> Principal:
    """Get who sent the request; refuse where nobody is known."""
    principal = get_request_state(request.scope).principal
    if principal is None:
        raise HttpProblem("unauthenticated")
    return principal


def require_custodian(request: Request) -> Principal:
    """Get the custodian who sent the request, whose own replies need not wait; refuse anyone else."""
    principal = get_principal(request)
    if not principal.is_custodian:
        raise HttpProblem("forbidden")
    get_request_state(request.scope).unpadded = True
    return principal


def enter_dataset(request: Request, dataset: str, rehearsal: bool = False) -> DatasetContext:
    """Find a data set that is there and granted; from then on its deadline holds."""
    service, principal = get_service(request), get_principal(request)
    served_dataset = service.registry.find_dataset(dataset)
    if served_dataset is None or dataset not in list_visible_datasets(service, principal):
        raise build_not_found()
    state, deadline = get_request_state(request.scope), served_dataset.config.deadline
    state.deadline, state.dataset = deadline, served_dataset.schema.name
    release_barrier = _skip_wait if state.build_barrier is None else state.build_barrier(deadline).wait
    return DatasetContext(service, principal, served_dataset, rehearsal, time(), release_barrier)


def list_visible_datasets(service: Service, principal: Principal) -> tuple[str, ...]:
    """List the data sets that the sender may ask: all, for a custodian."""
    names = service.registry.names
    if principal.is_custodian:
        return names
    granted_names = list_granted_datasets(service.store, principal.name)
    return tuple(name for name in names if name in granted_names)


def get_dataset_context(request: Request, dataset: DatasetName) -> DatasetContext:
    """Enter the data set of a route or a page; under a prefix of rehearsals its rehearsal."""
    return enter_dataset(request, dataset, _is_rehearsal(request))


def get_managed_context(request: Request, dataset: DatasetName) -> DatasetContext:
    """Enter the data set of a custodian's route: first the role, so that an analyst learns nothing about names."""
    require_custodian(request)
    context = enter_dataset(request, dataset, _is_rehearsal(request))
    get_request_state(request.scope).unpadded = True
    return context


def _is_rehearsal(request: Request) -> bool:
    return request.url.path.startswith(REHEARSAL_PREFIXES)


CurrentService = Annotated[Service, Depends(get_service)]
CurrentPrincipal = Annotated[Principal, Depends(get_principal)]
CurrentCustodian = Annotated[Principal, Depends(require_custodian)]
CurrentDataset = Annotated[DatasetContext, Depends(get_dataset_context)]
ManagedDataset = Annotated[DatasetContext, Depends(get_managed_context)]
Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="An id, as a reply told it.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A name for this request: a retry with it never pays twice.",
        pattern="^[ -~]{1,200}$",
    ),
]
JOB_LINKS = {"look": build_link("GET", "/v1/jobs/{job}", job="$response.body#/id")}
KEY_HEADERS = {
    "Idempotency-Key": {
        "description": "The name of this request: as it was sent, or a new one; a retry with it never pays twice.",
        "schema": {"type": "string"},
    }
}


def describe_reply(model: type, **extras: object) -> OpenApiObject:
    """Describe a JSON reply by its model, for OpenAPI alone; `extras` are its links and headers."""
    return {"model": model, "description": " ".join((model.__doc__ or "").split())} | extras


def describe_text_reply(kind: str, description: str) -> OpenApiObject:
    """Describe a reply that is not JSON, for OpenAPI."""
    return {"description": description, "content": {kind: {"schema": {"type": "string"}}}}


def reply_with_text(text: str, status: int = 200, key: str | None = None) -> Response:
    """Reply with JSON that is text already; `key` is the idempotency key of the request."""
    return Response(text, status, _build_key_header(key), "application/json")


def reply_with_json(document: object, status: int = 200, key: str | None = None) -> JSONResponse:
    """Reply with JSON; `key` is the idempotency key of the request."""
    return JSONResponse(document, status, _build_key_header(key))


def _build_key_header(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Idempotency-Key": key}
