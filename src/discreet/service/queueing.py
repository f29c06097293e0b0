"""Long work as jobs: queued in the store, and seen as done only at the doublings of a data set's deadline."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from discreet.custodian.secrets import identifier
from discreet.service import asking, publishing
from discreet.service.access import Entered, visible
from discreet.service.config import Config
from discreet.service.gate import Principal
from discreet.service.holdings import rehearsal_folder
from discreet.service.padding import padded
from discreet.service.problems import BY_NAME, Problem, not_found
from discreet.service.state import Service
from discreet.service.store.answers import answer_by_id, canonical
from discreet.service.store.jobs import Job, Kind, add_job, job_by_id, job_by_key, renew

MOST_OPEN = 20
"""Jobs of one analyst that wait or run."""
ENDED = ("done", "failed")


def queue_ask(entered: Entered, key: str, said: dict[str, Any]) -> dict[str, object]:
    """Queue a question, after whatever can be refused at once; one that was queued before is the same job."""
    asked = asking.written_out(entered.service, entered.principal.name, said)
    if job_by_key(entered.service.store, _job(entered, "ask", key, asked)) is None:
        with entered.service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
            asking.preview(entered.service, custodian, entered.principal.name, asked)
    return queue(entered, "ask", key, asked)


def queue_release(entered: Entered, key: str, said: dict[str, Any]) -> dict[str, object]:
    """Queue a release in the same way: its own charge is no reason to refuse it when it is sent again."""
    if job_by_key(entered.service.store, _job(entered, "publish", key, said)) is None:
        with entered.service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
            publishing.check(custodian, said)
    return queue(entered, "publish", key, said)


def queue(entered: Entered, kind: Kind, key: str, said: dict[str, Any]) -> dict[str, object]:
    """Queue a job; the same request under the same key is the same job, run once more where it was cut short."""
    service = entered.service
    job = _queued(service, _job(entered, kind, key, said))
    if job.asked != canonical(said):
        raise Problem("conflict", f"the key {key[:40]!r} was used for another request; use a new key for a new one")
    if _is_to_run_again(service, job):
        job = _accepted(renew(service.store, job, MOST_OPEN))
    return job_to_json(service, entered.principal, job)


def _job(entered: Entered, kind: Kind, key: str, said: dict[str, Any]) -> Job:
    deadline = entered.held.told.deadline if entered.service.config.padding else 0.0
    names = identifier(), kind, entered.name, entered.rehearsal, entered.principal.name, key
    return Job(*names, canonical(said), deadline, entered.at)


def _queued(service: Service, made: Job) -> Job:
    """The job of a key: the one that it has, or a new one."""
    return job_by_key(service.store, made) or _accepted(add_job(service.store, made, MOST_OPEN))


def _accepted(job: Job | None) -> Job:
    """A job that was queued; refused where the analyst has too many."""
    if job is None:
        detail = f"{MOST_OPEN} of your jobs wait or run, the most there may be; wait until one of them has ended"
        raise Problem("rate-limited", detail)
    return job


def _is_to_run_again(service: Service, job: Job) -> bool:
    """Whether a question is seen to have failed for now, or its answer is kept no longer: its key never pays twice."""
    if job.kind != "ask" or job.state not in ENDED or not shows(job, time.time()):
        return False
    result = json.loads(job.result or "{}")
    if job.state == "failed":
        return bool(result["problem"]["type"] == BY_NAME["unavailable"].uri)
    return answer_by_id(service.store, job.dataset, job.rehearsal, result["answer"]) is None


def own_job(service: Service, principal: Principal, wanted: str) -> Job:
    """A job by its id, if the sender may see it."""
    job = job_by_id(service.store, wanted)
    if job is None or not visible_job(service, principal, job):
        raise not_found()
    return job


def visible_job(service: Service, principal: Principal, job: Job) -> bool:
    """Whether a job is the sender's question, on a data set that is still granted; a custodian sees all."""
    mine = principal.is_custodian or (job.kind == "ask" and job.analyst == principal.name)
    return mine and job.dataset in visible(service, principal)


def job_to_json(service: Service, principal: Principal, job: Job) -> dict[str, object]:
    """How a job stands, as far as its clock shows it; what it is at now is for the custodian alone."""
    shown = job.state in ENDED and shows(job, time.time())
    result: dict[str, Any] = json.loads(job.result) if shown and job.result else {}
    state = job.state if shown else "running"
    if principal.is_custodian and not shown and job.state == "waiting":
        state = "waiting"
    told: dict[str, object] = {"id": job.id, "kind": job.kind, "dataset": job.dataset, "rehearsal": job.rehearsal}
    told |= {"analyst": job.analyst, "at": job.at, "state": state}
    told["stage"] = job.stage if principal.is_custodian and not shown else None
    told |= {name: result.get(name) for name in ("answer", "release", "sweep", "problem")}
    made = shown and principal.is_custodian
    return told | {"files": sorted(files(service.config, job)) if made else []}


def shows(job: Job, now: float) -> bool:
    """Whether the end of a job may be seen by now."""
    if job.finished is None:
        return False
    return job.deadline <= 0 or now >= job.at + padded(job.finished - job.at, job.deadline)


def folder_of(config: Config, job: Job) -> Path:
    """Where the files of a job are; those of a rehearsal are beside its table."""
    home = rehearsal_folder(config, job.dataset) if job.rehearsal else config.folder
    return home / "releases" / job.id


def files(config: Config, job: Job) -> dict[str, Path]:
    """The files that a job has made, by name."""
    folder = folder_of(config, job)
    if job.kind == "ask" or job.state != "done" or not folder.is_dir():
        return {}
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def file_of(service: Service, job: Job, name: str) -> Path:
    """One file of a job that is seen as done."""
    found = files(service.config, job).get(name) if shows(job, time.time()) else None
    if found is None:
        raise not_found()
    return found
