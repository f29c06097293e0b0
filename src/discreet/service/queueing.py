"""Long work as jobs: queued in the store, and seen as done only at the doublings of a data set's deadline."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from discreet.custodian.secrets import generate_identifier
from discreet.service import asking, publishing
from discreet.service.access import DatasetContext, list_visible_datasets
from discreet.service.config import Config
from discreet.service.gate import Principal
from discreet.service.holdings import get_rehearsal_folder
from discreet.service.padding import compute_padded_time
from discreet.service.problems import PROBLEM_TYPES_BY_NAME, HttpProblem, build_not_found
from discreet.service.state import Service
from discreet.service.store.answers import canonicalize_request, find_answer_by_id
from discreet.service.store.jobs import Job, JobKind, add_job, find_job_by_id, find_job_by_key, renew_job

MAX_OPEN_JOBS = 20
"""Jobs of one analyst that wait or run."""
ENDED_STATES = ("done", "failed")


def queue_question(context: DatasetContext, key: str, body: dict[str, Any]) -> dict[str, object]:
    """Queue a question, after whatever can be refused at once; one that was queued before is the same job."""
    expanded_body = asking.expand_saved_prior(context.service, context.principal.name, body)
    if find_job_by_key(context.service.store, _build_job(context, "ask", key, expanded_body)) is None:
        with context.service.registry.lease_custodian(context.name, context.rehearsal) as custodian:
            asking.preview_request(context.service, custodian, context.principal.name, expanded_body)
    return queue_job(context, "ask", key, expanded_body)


def queue_release(context: DatasetContext, key: str, body: dict[str, Any]) -> dict[str, object]:
    """Queue a release in the same way: its own charge is no reason to refuse it when it is sent again."""
    if find_job_by_key(context.service.store, _build_job(context, "publish", key, body)) is None:
        with context.service.registry.lease_custodian(context.name, context.rehearsal) as custodian:
            publishing.check_release_request(custodian, body)
    return queue_job(context, "publish", key, body)


def queue_job(context: DatasetContext, kind: JobKind, key: str, body: dict[str, Any]) -> dict[str, object]:
    """Queue a job; the same request under the same key is the same job, run once more where it was cut short."""
    service = context.service
    job = _find_or_add_job(service, _build_job(context, kind, key, body))
    if job.asked != canonicalize_request(body):
        raise HttpProblem("conflict", f"the key {key[:40]!r} was used for another request; use a new key for a new one")
    if _is_retryable(service, job):
        job = _require_accepted(renew_job(service.store, job, MAX_OPEN_JOBS))
    return job_to_json(service, context.principal, job)


def _build_job(context: DatasetContext, kind: JobKind, key: str, body: dict[str, Any]) -> Job:
    deadline = context.dataset.config.deadline if context.service.config.padding else 0.0
    names = generate_identifier(), kind, context.name, context.rehearsal, context.principal.name, key
    return Job(*names, canonicalize_request(body), deadline, context.received_at)


def _find_or_add_job(service: Service, job: Job) -> Job:
    """The job of a key: the one that it has, or a new one."""
    return find_job_by_key(service.store, job) or _require_accepted(add_job(service.store, job, MAX_OPEN_JOBS))


def _require_accepted(job: Job | None) -> Job:
    """A job that was queued; refused where the analyst has too many."""
    if job is None:
        detail = f"{MAX_OPEN_JOBS} of your jobs wait or run, the most there may be; wait until one of them has ended"
        raise HttpProblem("rate-limited", detail)
    return job


def _is_retryable(service: Service, job: Job) -> bool:
    """Whether a question is seen to have failed for now, or its answer is kept no longer: its key never pays twice."""
    if job.kind != "ask" or job.state not in ENDED_STATES or not is_end_visible(job, time.time()):
        return False
    result = json.loads(job.result or "{}")
    if job.state == "failed":
        return bool(result["problem"]["type"] == PROBLEM_TYPES_BY_NAME["unavailable"].uri)
    return find_answer_by_id(service.store, job.dataset, job.rehearsal, result["answer"]) is None


def find_own_job(service: Service, principal: Principal, job_id: str) -> Job:
    """A job by its id, if the sender may see it."""
    job = find_job_by_id(service.store, job_id)
    if job is None or not is_visible_job(service, principal, job):
        raise build_not_found()
    return job


def is_visible_job(service: Service, principal: Principal, job: Job) -> bool:
    """Whether a job is the sender's question, on a data set that is still granted; a custodian sees all."""
    is_own = principal.is_custodian or (job.kind == "ask" and job.analyst == principal.name)
    return is_own and job.dataset in list_visible_datasets(service, principal)


def job_to_json(service: Service, principal: Principal, job: Job) -> dict[str, object]:
    """How a job stands, as far as its clock shows it; what it is at now is for the custodian alone."""
    is_shown = job.state in ENDED_STATES and is_end_visible(job, time.time())
    result: dict[str, Any] = json.loads(job.result) if is_shown and job.result else {}
    state = job.state if is_shown else "running"
    if principal.is_custodian and not is_shown and job.state == "waiting":
        state = "waiting"
    document: dict[str, object] = {"id": job.id, "kind": job.kind, "dataset": job.dataset, "rehearsal": job.rehearsal}
    document |= {"analyst": job.analyst, "at": job.at, "state": state}
    document["stage"] = job.stage if principal.is_custodian and not is_shown else None
    document |= {name: result.get(name) for name in ("answer", "release", "sweep", "problem")}
    has_files = is_shown and principal.is_custodian
    return document | {"files": sorted(list_job_files(service.config, job)) if has_files else []}


def is_end_visible(job: Job, now: float) -> bool:
    """Whether the end of a job may be seen by now."""
    if job.finished is None:
        return False
    return job.deadline <= 0 or now >= job.at + compute_padded_time(job.finished - job.at, job.deadline)


def get_job_folder(config: Config, job: Job) -> Path:
    """Where the files of a job are; those of a rehearsal are beside its table."""
    home = get_rehearsal_folder(config, job.dataset) if job.rehearsal else config.folder
    return home / "releases" / job.id


def list_job_files(config: Config, job: Job) -> dict[str, Path]:
    """The files that a job has made, by name."""
    folder = get_job_folder(config, job)
    if job.kind == "ask" or job.state != "done" or not folder.is_dir():
        return {}
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def find_job_file(service: Service, job: Job, name: str) -> Path:
    """One file of a job that is seen as done."""
    path = list_job_files(service.config, job).get(name) if is_end_visible(job, time.time()) else None
    if path is None:
        raise build_not_found()
    return path
