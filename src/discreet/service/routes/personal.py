"""What belongs to whoever sends the request: who it is, saved priors, jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import FileResponse, Response

from discreet.service import documents as d
from discreet.service.access import InService, Keeper, Someone, visible
from discreet.service.describing import link
from discreet.service.problems import not_found
from discreet.service.queueing import file_of, job_to_json, own_job, visible_job
from discreet.service.routes.shared import Id, reply, told
from discreet.service.store.answers import SavedPrior, delete_prior, save_prior, saved_priors
from discreet.service.store.jobs import all_jobs

NAMED = r"^[A-Za-z0-9_.-]+$"
PriorName = Annotated[
    str,
    Path(min_length=1, max_length=64, pattern=NAMED, description="A prior's name.", examples=["survey"]),
]
FileName = Annotated[str, Path(min_length=1, max_length=200, description="The name of a file, as the job tells it.")]
SAVED = {
    "look": link("GET", "/v1/priors/{name}", name="$request.path.name"),
    "end": link("DELETE", "/v1/priors/{name}", name="$request.path.name"),
}


def router() -> APIRouter:
    """The routes."""
    made = APIRouter(prefix="/v1")

    @made.get("/me", tags=["you"], responses={200: reply(d.MeDocument)})
    def me(service: InService, principal: Someone) -> Response:
        """Who you are here, and what you may ask."""
        token = principal.token
        mine = {"name": principal.name, "role": token.role, "expires": token.expires}
        return told(mine | {"datasets": list(visible(service, principal))})

    @made.get("/priors", tags=["priors"], responses={200: reply(d.SavedPriorsDocument)})
    def priors(service: InService, principal: Someone) -> Response:
        """The priors that you keep."""
        return told({"priors": [_told(one) for one in saved_priors(service.store, principal.name)]})

    @made.get("/priors/{name}", tags=["priors"], responses={200: reply(d.SavedPriorDocument)})
    def one_prior(service: InService, principal: Someone, name: PriorName) -> Response:
        """A prior that you keep."""
        found = next((one for one in saved_priors(service.store, principal.name) if one.name == name), None)
        if found is None:
            raise not_found()
        return told(_told(found))

    @made.put("/priors/{name}", tags=["priors"], responses={200: reply(d.SavedPriorDocument, links=SAVED)})
    def put_prior(service: InService, principal: Someone, name: PriorName, body: d.SavePrior) -> Response:
        """Keep a prior under a name; a question uses it as @name."""
        saved = SavedPrior(name, body.text, body.note)
        save_prior(service.store, principal.name, saved)
        return told(_told(saved))

    @made.delete("/priors/{name}", tags=["priors"], status_code=204)
    def forget_prior(service: InService, principal: Someone, name: PriorName) -> Response:
        """Keep a prior no more."""
        if not delete_prior(service.store, principal.name, name):
            raise not_found()
        return Response(status_code=204)

    @made.get("/jobs", tags=["jobs"], responses={200: reply(d.JobsDocument)})
    def jobs(service: InService, principal: Someone) -> Response:
        """Your latest jobs; a custodian sees all."""
        found = all_jobs(service.store, None if principal.is_custodian else principal.name)
        mine = [one for one in found if visible_job(service, principal, one)]
        return told({"jobs": [job_to_json(service, principal, one) for one in mine]})

    @made.get("/jobs/{job}", tags=["jobs"], responses={200: reply(d.JobDocument)})
    def one_job(service: InService, principal: Someone, job: Id) -> Response:
        """How a job stands, on its data set's clock."""
        return told(job_to_json(service, principal, own_job(service, principal, job)))

    @made.get(
        "/jobs/{job}/files/{name:path}",
        tags=["jobs"],
        response_class=FileResponse,
        responses={200: {"description": "A file of a release.", "content": {"application/octet-stream": {}}}},
    )
    def files(service: InService, keeper: Keeper, job: Id, name: FileName) -> Response:
        """A file that a job made: the release, its manifest, or the custodian's report."""
        path = file_of(service, own_job(service, keeper, job), name)
        return FileResponse(path, filename=path.name, media_type="application/octet-stream")

    return made


def _told(one: SavedPrior) -> dict[str, str]:
    return {"name": one.name, "text": one.text, "note": one.note}
