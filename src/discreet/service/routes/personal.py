"""What belongs to whoever sends the request: who it is, saved priors, jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import FileResponse, Response

from discreet.service import documents as d
from discreet.service.access import CurrentCustodian, CurrentPrincipal, CurrentService, list_visible_datasets
from discreet.service.describing import build_link
from discreet.service.problems import build_not_found
from discreet.service.queueing import find_job_file, find_own_job, is_visible_job, job_to_json
from discreet.service.routes.shared import Id, describe_reply, reply_with_json
from discreet.service.store.answers import SavedPrior, delete_prior, list_saved_priors, save_prior
from discreet.service.store.jobs import list_jobs

PRIOR_NAME_PATTERN = r"^[A-Za-z0-9_.-]+$"
PriorName = Annotated[
    str,
    Path(min_length=1, max_length=64, pattern=PRIOR_NAME_PATTERN, description="A prior's name.", examples=["survey"]),
]
FileName = Annotated[str, Path(min_length=1, max_length=200, description="The name of a file, as the job tells it.")]
PRIOR_LINKS = {
    "look": build_link("GET", "/v1/priors/{name}", name="$request.path.name"),
    "end": build_link("DELETE", "/v1/priors/{name}", name="$request.path.name"),
}


def build_personal_routes() -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/v1")

    @router.get("/me", tags=["you"], responses={200: describe_reply(d.MeDocument)})
    def me(service: CurrentService, principal: CurrentPrincipal) -> Response:
        """Who you are here, and what you may ask."""
        token = principal.token
        account = {"name": principal.name, "role": token.role, "expires": token.expires}
        return reply_with_json(account | {"datasets": list(list_visible_datasets(service, principal))})

    @router.get("/priors", tags=["priors"], responses={200: describe_reply(d.SavedPriorsDocument)})
    def priors(service: CurrentService, principal: CurrentPrincipal) -> Response:
        """The priors that you keep."""
        return reply_with_json(
            {"priors": [_prior_to_json(prior) for prior in list_saved_priors(service.store, principal.name)]}
        )

    @router.get("/priors/{name}", tags=["priors"], responses={200: describe_reply(d.SavedPriorDocument)})
    def one_prior(service: CurrentService, principal: CurrentPrincipal, name: PriorName) -> Response:
        """A prior that you keep."""
        prior = next(
            (candidate for candidate in list_saved_priors(service.store, principal.name) if candidate.name == name),
            None,
        )
        if prior is None:
            raise build_not_found()
        return reply_with_json(_prior_to_json(prior))

    @router.put(
        "/priors/{name}", tags=["priors"], responses={200: describe_reply(d.SavedPriorDocument, links=PRIOR_LINKS)}
    )
    def put_prior(service: CurrentService, principal: CurrentPrincipal, name: PriorName, body: d.SavePrior) -> Response:
        """Keep a prior under a name; a question uses it as @name."""
        prior = SavedPrior(name, body.text, body.note)
        save_prior(service.store, principal.name, prior)
        return reply_with_json(_prior_to_json(prior))

    @router.delete("/priors/{name}", tags=["priors"], status_code=204)
    def forget_prior(service: CurrentService, principal: CurrentPrincipal, name: PriorName) -> Response:
        """Keep a prior no more."""
        if not delete_prior(service.store, principal.name, name):
            raise build_not_found()
        return Response(status_code=204)

    @router.get("/jobs", tags=["jobs"], responses={200: describe_reply(d.JobsDocument)})
    def jobs(service: CurrentService, principal: CurrentPrincipal) -> Response:
        """Your latest jobs; a custodian sees all."""
        candidates = list_jobs(service.store, None if principal.is_custodian else principal.name)
        visible_jobs = [job for job in candidates if is_visible_job(service, principal, job)]
        return reply_with_json({"jobs": [job_to_json(service, principal, job) for job in visible_jobs]})

    @router.get("/jobs/{job}", tags=["jobs"], responses={200: describe_reply(d.JobDocument)})
    def one_job(service: CurrentService, principal: CurrentPrincipal, job: Id) -> Response:
        """How a job stands, on its data set's clock."""
        return reply_with_json(job_to_json(service, principal, find_own_job(service, principal, job)))

    @router.get(
        "/jobs/{job}/files/{name:path}",
        tags=["jobs"],
        response_class=FileResponse,
        responses={200: {"description": "A file of a release.", "content": {"application/octet-stream": {}}}},
    )
    def files(service: CurrentService, keeper: CurrentCustodian, job: Id, name: FileName) -> Response:
        """A file that a job made: the release, its manifest, or the custodian's report."""
        path = find_job_file(service, find_own_job(service, keeper, job), name)
        return FileResponse(path, filename=path.name, media_type="application/octet-stream")

    return router


def _prior_to_json(prior: SavedPrior) -> dict[str, str]:
    return {"name": prior.name, "text": prior.text, "note": prior.note}
