"""The custodian's routes: tokens, grants, releases, snapshots, the chain, warnings."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from discreet.service import asking, publishing, watching
from discreet.service import documents as d
from discreet.service.access import InManaged, InService, Keeper
from discreet.service.describing import link
from discreet.service.problems import not_found
from discreet.service.queueing import queue, queue_release
from discreet.service.routes.shared import KEYED, Id, Key, reply, told
from discreet.service.store.tokens import (
    Token,
    all_grants,
    all_tokens,
    create_token,
    grant,
    revoke_token,
    ungrant,
)

Analyst = Annotated[str, Path(min_length=1, max_length=100, description="An analyst's name.", examples=["ann"])]
END = {"end": link("DELETE", "/v1/tokens/{token}", token="$response.body#/id")}
LOOK = {"look": link("GET", "/v1/jobs/{job}", job="$response.body#/id")}


def access() -> APIRouter:
    """Tokens and grants."""
    made = APIRouter(prefix="/v1", tags=["custodian"])

    @made.get("/tokens", responses={200: reply(d.TokensDocument)})
    def tokens(service: InService, _: Keeper) -> Response:
        """Every token there ever was, without its secret."""
        return told({"tokens": [token_to_json(one) for one in all_tokens(service.store)]})

    @made.post("/tokens", status_code=201, responses={201: reply(d.NewTokenDocument, links=END)})
    def new_token(service: InService, _: Keeper, body: d.NewToken) -> Response:
        """Make a token; its secret is told this once. The data sets that are named are granted."""
        for name in body.datasets:
            _known(service.holdings.names, name)
        made, secret = create_token(service.store, body.analyst, body.role, body.days, tuple(body.datasets))
        return told(token_to_json(made) | {"token": secret}, 201)

    @made.delete("/tokens/{token}", status_code=204)
    def end_token(service: InService, _: Keeper, token: Id) -> Response:
        """Revoke a token, and sign out every browser that used it, at once; not the last one of a custodian."""
        if not revoke_token(service.store, token, spare_last=True):
            raise not_found()
        return Response(status_code=204)

    @made.get("/grants", responses={200: reply(d.GrantsDocument)})
    def grants(service: InService, _: Keeper) -> Response:
        """Who may ask what."""
        return told({"grants": [{"dataset": one, "analyst": who} for one, who in all_grants(service.store)]})

    @made.put("/grants/{dataset}/{analyst}", status_code=204)
    def put_grant(entered: InManaged, analyst: Analyst) -> Response:
        """Let an analyst ask a data set."""
        grant(entered.service.store, entered.name, analyst)
        return Response(status_code=204)

    @made.delete("/grants/{dataset}/{analyst}", status_code=204)
    def end_grant(entered: InManaged, analyst: Analyst) -> Response:
        """Let an analyst ask a data set no more."""
        ungrant(entered.service.store, entered.name, analyst)
        return Response(status_code=204)

    @made.get("/warnings", responses={200: reply(d.WarningsDocument)})
    def warnings(service: InService, _: Keeper) -> Response:
        """What to look at: large epsilons, weaker promises, overruns, padding that is off."""
        return told({"warnings": watching.warnings(service)})

    return made


def releases(prefix: str, tag: str) -> APIRouter:
    """Releases of one data set, under a prefix: for real, or in rehearsal; their files are those of the job."""
    made = APIRouter(prefix=f"{prefix}/{{dataset}}", tags=[tag])

    @made.post("/releases", status_code=202, responses={202: reply(d.JobDocument, links=LOOK, headers=KEYED)})
    def publish(entered: InManaged, body: d.Publish, key: Key = None) -> Response:
        """Protect the table and write it to a file, as a job."""
        own = asking.key_of(key)
        return _queued(own, queue_release(entered, own, body.model_dump(exclude_unset=True)))

    @made.post("/releases/previews", responses={200: reply(d.ExpectedDocument)})
    def expected(entered: InManaged, body: d.Expect) -> Response:
        """What a private file would promise and how far off it would be; nothing is charged."""
        with entered.service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
            return told(publishing.expected(custodian, body.model_dump(exclude_unset=True)))

    @made.post("/sweeps", status_code=202, responses={202: reply(d.JobDocument, links=LOOK, headers=KEYED)})
    def sweep(entered: InManaged, body: d.Sweep, key: Key = None) -> Response:
        """Compare methods over k, as a job; nothing is released."""
        own = asking.key_of(key)
        return _queued(own, queue(entered, "sweep", own, body.model_dump(exclude_unset=True)))

    return made


def kept() -> APIRouter:
    """Snapshots and the chain of one data set, which a rehearsal has none of."""
    made = APIRouter(prefix="/v1/datasets/{dataset}", tags=["custodian"])

    @made.get("/snapshots", responses={200: reply(d.SnapshotsDocument)})
    def snapshots(entered: InManaged) -> Response:
        """Every registration, and what was seen then."""
        return told({"snapshots": watching.snapshots(entered.schema)})

    @made.get("/ledger", responses={200: reply(d.ChainDocument)})
    def chain(entered: InManaged) -> Response:
        """Recompute the chain of hashes; 409 where it is not what was written."""
        with entered.service.holdings.custodian(entered.name) as custodian:
            return told(watching.chain(custodian))

    return made


def _queued(key: str, job: dict[str, object]) -> Response:
    return told(job, 202, **{"Idempotency-Key": key})


def token_to_json(token: Token) -> dict[str, object]:
    """A token, without its secret."""
    from time import time

    told_of = {"id": token.id, "analyst": token.analyst, "role": token.role, "created": token.created}
    return told_of | {"expires": token.expires, "revoked": token.revoked, "valid": token.valid(time())}


def _known(names: tuple[str, ...], name: str) -> None:
    if name not in names:
        raise not_found()
