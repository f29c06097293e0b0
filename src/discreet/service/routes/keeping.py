"""The custodian's routes: tokens, grants, releases, snapshots, the chain, warnings."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from discreet.service import asking, publishing, watching
from discreet.service import documents as d
from discreet.service.access import CurrentCustodian, CurrentService, ManagedDataset
from discreet.service.describing import build_link
from discreet.service.problems import build_not_found
from discreet.service.queueing import queue_job, queue_release
from discreet.service.routes.shared import KEY_HEADERS, Id, IdempotencyKey, describe_reply, reply_with_json
from discreet.service.store.tokens import (
    Token,
    create_token,
    grant_dataset,
    list_grants,
    list_tokens,
    revoke_grant,
    revoke_token,
)

AnalystName = Annotated[str, Path(min_length=1, max_length=100, description="An analyst's name.", examples=["ann"])]
TOKEN_LINKS = {"end": build_link("DELETE", "/v1/tokens/{token}", token="$response.body#/id")}
JOB_LINKS = {"look": build_link("GET", "/v1/jobs/{job}", job="$response.body#/id")}


def build_access_routes() -> APIRouter:
    """Tokens and grants."""
    router = APIRouter(prefix="/v1", tags=["custodian"])

    @router.get("/tokens", responses={200: describe_reply(d.TokensDocument)})
    def tokens(service: CurrentService, _: CurrentCustodian) -> Response:
        """Every token there ever was, without its secret."""
        return reply_with_json({"tokens": [token_to_json(token) for token in list_tokens(service.store)]})

    @router.post("/tokens", status_code=201, responses={201: describe_reply(d.NewTokenDocument, links=TOKEN_LINKS)})
    def new_token(service: CurrentService, _: CurrentCustodian, body: d.NewToken) -> Response:
        """Make a token; its secret is told this once. The data sets that are named are granted."""
        for name in body.datasets:
            _require_known(service.registry.names, name)
        token, secret = create_token(service.store, body.analyst, body.role, body.days, tuple(body.datasets))
        return reply_with_json(token_to_json(token) | {"token": secret}, 201)

    @router.delete("/tokens/{token}", status_code=204)
    def end_token(service: CurrentService, _: CurrentCustodian, token: Id) -> Response:
        """Revoke a token, and sign out every browser that used it, at once; not the last one of a custodian."""
        if not revoke_token(service.store, token, spare_last=True):
            raise build_not_found()
        return Response(status_code=204)

    @router.get("/grants", responses={200: describe_reply(d.GrantsDocument)})
    def grants(service: CurrentService, _: CurrentCustodian) -> Response:
        """Who may ask what."""
        return reply_with_json(
            {"grants": [{"dataset": dataset, "analyst": who} for dataset, who in list_grants(service.store)]}
        )

    @router.put("/grants/{dataset}/{analyst}", status_code=204)
    def put_grant(entered: ManagedDataset, analyst: AnalystName) -> Response:
        """Let an analyst ask a data set."""
        grant_dataset(entered.service.store, entered.name, analyst)
        return Response(status_code=204)

    @router.delete("/grants/{dataset}/{analyst}", status_code=204)
    def end_grant(entered: ManagedDataset, analyst: AnalystName) -> Response:
        """Let an analyst ask a data set no more."""
        revoke_grant(entered.service.store, entered.name, analyst)
        return Response(status_code=204)

    @router.get("/warnings", responses={200: describe_reply(d.WarningsDocument)})
    def warnings(service: CurrentService, _: CurrentCustodian) -> Response:
        """What to look at: large epsilons, weaker promises, overruns, padding that is off."""
        return reply_with_json({"warnings": watching.list_warnings(service)})

    return router


def build_release_routes(prefix: str, tag: str) -> APIRouter:
    """Releases of one data set, under a prefix: for real, or in rehearsal; their files are those of the job."""
    router = APIRouter(prefix=f"{prefix}/{{dataset}}", tags=[tag])

    @router.post(
        "/releases",
        status_code=202,
        responses={202: describe_reply(d.JobDocument, links=JOB_LINKS, headers=KEY_HEADERS)},
    )
    def publish(entered: ManagedDataset, body: d.Publish, key: IdempotencyKey = None) -> Response:
        """Protect the table and write it to a file, as a job."""
        request_key = asking.read_idempotency_key(key)
        return _reply_accepted(request_key, queue_release(entered, request_key, body.model_dump(exclude_unset=True)))

    @router.post("/releases/previews", responses={200: describe_reply(d.ExpectedDocument)})
    def estimate_error(entered: ManagedDataset, body: d.Expect) -> Response:
        """What a private file would promise and how far off it would be; nothing is charged."""
        with entered.service.registry.lease_custodian(entered.name, entered.rehearsal) as custodian:
            return reply_with_json(
                publishing.estimate_requested_release(custodian, body.model_dump(exclude_unset=True))
            )

    @router.post(
        "/sweeps", status_code=202, responses={202: describe_reply(d.JobDocument, links=JOB_LINKS, headers=KEY_HEADERS)}
    )
    def sweep(entered: ManagedDataset, body: d.Sweep, key: IdempotencyKey = None) -> Response:
        """Compare methods over k, as a job; nothing is released."""
        request_key = asking.read_idempotency_key(key)
        return _reply_accepted(
            request_key, queue_job(entered, "sweep", request_key, body.model_dump(exclude_unset=True))
        )

    return router


def build_ledger_routes() -> APIRouter:
    """Snapshots and the chain of one data set, which a rehearsal has none of."""
    router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["custodian"])

    @router.get("/snapshots", responses={200: describe_reply(d.SnapshotsDocument)})
    def snapshots(entered: ManagedDataset) -> Response:
        """Every registration, and what was seen then."""
        return reply_with_json({"snapshots": watching.snapshots_to_json(entered.schema)})

    @router.get("/ledger", responses={200: describe_reply(d.ChainDocument)})
    def chain(entered: ManagedDataset) -> Response:
        """Recompute the chain of hashes; 409 where it is not what was written."""
        with entered.service.registry.lease_custodian(entered.name) as custodian:
            return reply_with_json(watching.verify_dataset_chain(custodian))

    return router


def _reply_accepted(key: str, job: dict[str, object]) -> Response:
    return reply_with_json(job, 202, **{"Idempotency-Key": key})


def token_to_json(token: Token) -> dict[str, object]:
    """A token, without its secret."""
    from time import time

    document = {"id": token.id, "analyst": token.analyst, "role": token.role, "created": token.created}
    return document | {"expires": token.expires, "revoked": token.revoked, "valid": token.is_valid(time())}


def _require_known(names: tuple[str, ...], name: str) -> None:
    if name not in names:
        raise build_not_found()
