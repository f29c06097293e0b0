"""Routes for custodians: access, releases, ledgers; and for operators: health, metrics, problems."""

from __future__ import annotations

import math
import time
from typing import Annotated, cast

from anyio import to_thread
from fastapi import APIRouter, Path, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from discreet.service import monitoring, openapi, requests
from discreet.service.api import models as d
from discreet.service.api.dependencies import (
    JOB_LINKS,
    KEY_HEADERS,
    CurrentCustodian,
    CurrentService,
    DatasetRouter,
    Id,
    IdempotencyKey,
    ManagedDataset,
    describe_reply,
    describe_text_reply,
    get_principal,
    get_service,
    reply_with_json,
)
from discreet.service.dataset_registry import Service
from discreet.service.jobs import queue_job, queue_release
from discreet.service.middleware.auth import get_lookup_limiter
from discreet.service.problems import build_not_found, explain_problem
from discreet.service.store.tokens import (
    create_token,
    grant_dataset,
    list_grants,
    list_tokens,
    revoke_grant,
    revoke_token,
    token_to_json,
)

HEALTH_CACHE_SECONDS = 1.0
AnalystName = Annotated[str, Path(min_length=1, max_length=100, description="An analyst's name.", examples=["ann"])]
TOKEN_LINKS = {"end": openapi.build_link("DELETE", "/v1/tokens/{token}", token="$response.body#/id")}
access_router = APIRouter(prefix="/v1", tags=["custodian"])
release_router = DatasetRouter("/v1", "custodian")
ledger_router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["custodian"])
operation_router = APIRouter(tags=["operation"])


@access_router.get("/tokens", responses={200: describe_reply(openapi.TokensDocument)})
def send_tokens(service: CurrentService, _: CurrentCustodian) -> Response:
    """Every token there ever was, without its secret."""
    return reply_with_json({"tokens": [token_to_json(token) for token in list_tokens(service.store)]})


@access_router.post(
    "/tokens", status_code=201, responses={201: describe_reply(openapi.NewTokenDocument, links=TOKEN_LINKS)}
)
def send_new_token(service: CurrentService, _: CurrentCustodian, body: d.NewToken) -> Response:
    """Make a token; its secret is told this once. The data sets that are named are granted."""
    if not set(body.datasets) <= set(service.registry.names):
        raise build_not_found()
    token, secret = create_token(service.store, body.analyst, body.role, body.days, tuple(body.datasets))
    return reply_with_json(token_to_json(token) | {"token": secret}, 201)


@access_router.delete("/tokens/{token}", status_code=204)
def end_token(service: CurrentService, _: CurrentCustodian, token: Id) -> Response:
    """Revoke a token, and sign out every browser that used it, at once; not the last one of a custodian."""
    if not revoke_token(service.store, token, spare_last=True):
        raise build_not_found()
    return Response(status_code=204)


@access_router.get("/grants", responses={200: describe_reply(openapi.GrantsDocument)})
def send_grants(service: CurrentService, _: CurrentCustodian) -> Response:
    """Who may ask what."""
    return reply_with_json(
        {"grants": [{"dataset": dataset, "analyst": who} for dataset, who in list_grants(service.store)]}
    )


@access_router.put("/grants/{dataset}/{analyst}", status_code=204)
def put_grant(context: ManagedDataset, analyst: AnalystName) -> Response:
    """Let an analyst ask a data set."""
    grant_dataset(context.service.store, context.name, analyst)
    return Response(status_code=204)


@access_router.delete("/grants/{dataset}/{analyst}", status_code=204)
def end_grant(context: ManagedDataset, analyst: AnalystName) -> Response:
    """Let an analyst ask a data set no more."""
    revoke_grant(context.service.store, context.name, analyst)
    return Response(status_code=204)


@access_router.get("/warnings", responses={200: describe_reply(openapi.WarningsDocument)})
def send_warnings(service: CurrentService, _: CurrentCustodian) -> Response:
    """What to look at: large epsilons, weaker promises, overruns, padding that is off."""
    return reply_with_json({"warnings": monitoring.list_warnings(service)})


@release_router.post(
    "/releases",
    status_code=202,
    responses={202: describe_reply(openapi.JobDocument, links=JOB_LINKS, headers=KEY_HEADERS)},
)
def queue_publication(context: ManagedDataset, body: d.Publish, key: IdempotencyKey = None) -> Response:
    """Protect the table and write it to a file, as a job."""
    request_key = requests.read_idempotency_key(key)
    return reply_with_json(queue_release(context, request_key, body.root), 202, request_key)


@release_router.post("/releases/previews", responses={200: describe_reply(openapi.ExpectedDocument)})
def send_release_plans(context: ManagedDataset, body: d.Expect) -> Response:
    """What a private file would promise and how far off it would be; nothing is charged."""
    with context.lease_custodian() as custodian:
        options = body.model_dump(exclude_unset=True, exclude={"method"})
        return reply_with_json(requests.estimate_releases(custodian, body.method, options))


@release_router.post(
    "/sweeps",
    status_code=202,
    responses={202: describe_reply(openapi.JobDocument, links=JOB_LINKS, headers=KEY_HEADERS)},
)
def queue_sweep(context: ManagedDataset, body: d.Sweep, key: IdempotencyKey = None) -> Response:
    """Compare methods over k, as a job; nothing is released."""
    request_key = requests.read_idempotency_key(key)
    return reply_with_json(queue_job(context, "sweep", request_key, body), 202, request_key)


@ledger_router.get("/snapshots", responses={200: describe_reply(openapi.SnapshotsDocument)})
def send_snapshots(context: ManagedDataset) -> Response:
    """Every registration, and what was seen then."""
    return reply_with_json({"snapshots": monitoring.snapshots_to_json(context.schema)})


@ledger_router.get("/ledger", responses={200: describe_reply(openapi.ChainDocument)})
def send_chain(context: ManagedDataset) -> Response:
    """Recompute the chain of hashes; 409 where it is not what was written."""
    with context.lease_custodian() as custodian:
        return reply_with_json(monitoring.verify_dataset_chain(custodian))


class HealthCache:
    """Which checks fail, cached for a second: anyone may ask, and as often as they like."""

    def __init__(self) -> None:
        self._failing: tuple[str, ...] | None = None
        self._valid_until = 0.0

    async def get_failing_checks(self, service: Service) -> tuple[str, ...]:
        """Return the cached result, or check anew; requests during a check get the result before it."""
        if self._failing is None or time.monotonic() >= self._valid_until:
            self._valid_until = math.inf
            try:
                failing = await to_thread.run_sync(
                    monitoring.list_failing_checks, service, limiter=get_lookup_limiter()
                )
            finally:
                self._valid_until = time.monotonic() + HEALTH_CACHE_SECONDS
            if failing and failing != self._failing:
                monitoring.write_event("unhealthy", where=", ".join(failing))
            self._failing = failing
        return self._failing


@operation_router.get(
    "/health", responses={200: describe_reply(openapi.HealthDocument), 503: describe_reply(openapi.HealthDocument)}
)
async def send_health(request: Request) -> Response:
    """Whether store and ledgers are reached and are those that were opened, and there is room on the disks.

    503 where a check fails; `failing` says which: store, ledger or disk.
    """
    health_cache = cast(HealthCache, request.app.state.health_cache)
    failing = await health_cache.get_failing_checks(get_service(request))
    if failing:
        return reply_with_json({"status": "unavailable", "failing": list(failing)}, 503)
    return reply_with_json({"status": "ok"}, 200)


@operation_router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: describe_text_reply("text/plain", "Prometheus text.")},
)
def send_metrics(service: CurrentService, _: CurrentCustodian) -> Response:
    """Requests by route and status, padded seconds, overruns, jobs: for Prometheus."""
    return PlainTextResponse(monitoring.format_metrics(service), media_type="text/plain; version=0.0.4")


@operation_router.get("/", include_in_schema=False)
def redirect_browser(request: Request) -> Response:
    """A browser is led to the console; for programs there is nothing here."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/console/", 303)
    get_principal(request)
    raise build_not_found()


@operation_router.get("/problems/{name}", include_in_schema=False)
def send_explanation(name: str) -> Response:
    """What a type of problem means, for anyone."""
    return reply_with_json(explain_problem(name))
