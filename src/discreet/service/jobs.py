"""Jobs: long work that is queued in the store and run by one process.

A question that was interrupted is run again under its key, which never pays twice. A release is not: its first run may
have been charged, so the job fails, and the custodian decides.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from discreet.datasets.dataset_dir import generate_identifier
from discreet.errors import DiscreetError, InvalidInput, Unavailable
from discreet.service import monitoring, requests
from discreet.service.api.dependencies import DatasetContext, list_visible_datasets
from discreet.service.api.models import RELEASE_MODELS, Ask, ReleaseRequest, RequestModel, Sweep, parse_fields
from discreet.service.config import Config
from discreet.service.dataset_registry import Service, get_rehearsal_folder
from discreet.service.middleware.deadline import ReleaseBarrier, compute_padded_time
from discreet.service.problems import PROBLEM_TYPES_BY_NAME, HttpProblem, build_not_found, problem_from_error
from discreet.service.store.job_queue import (
    MAX_ATTEMPTS,
    Job,
    JobKind,
    JobState,
    abandon_job,
    add_job,
    find_job_by_id,
    find_job_by_key,
    finish_job,
    list_dead_jobs,
    record_heartbeat,
    renew_job,
    requeue_job,
    take_job,
)
from discreet.service.store.stored_answers import canonicalize_request, find_answer_by_id
from discreet.service.store.tokens import Principal, list_granted_datasets, list_tokens

MAX_OPEN_JOBS = 20
"""Jobs of one analyst that wait or run."""
ENDED_STATES = ("done", "failed")
POLL_INTERVAL = 0.2
HEARTBEAT_INTERVAL = 5.0
INTERRUPTED_JOB = Unavailable(
    "the job was cut short; what was charged stays charged, so look at the history before you repeat it"
)
TOO_MANY_ATTEMPTS = HttpProblem(
    "internal", "this question stopped its runner three times; ask for less, or tell the custodian"
)


def queue_question(context: DatasetContext, key: str, body: Ask) -> dict[str, object]:
    """Queue a question unless it can be refused at once; one that was queued before is the same job."""
    expanded_body = requests.expand_question(context.service, context.principal.name, body)
    if find_job_by_key(context.service.store, _build_job(context, "ask", key, expanded_body)) is None:
        with context.lease_custodian() as custodian:
            requests.preview_request(context.service, custodian, context.principal.name, expanded_body)
    return queue_job(context, "ask", key, expanded_body)


def queue_release(context: DatasetContext, key: str, body: ReleaseRequest) -> dict[str, object]:
    """Queue a release in the same way; when it is sent again, its own charge is no reason to refuse it."""
    if find_job_by_key(context.service.store, _build_job(context, "publish", key, body)) is None:
        with context.lease_custodian() as custodian:
            requests.check_release(custodian, body.build())
    return queue_job(context, "publish", key, body)


def queue_job(context: DatasetContext, kind: JobKind, key: str, body: RequestModel) -> dict[str, object]:
    """Queue a job; the same request under the same key is the same job, run once more where it was interrupted."""
    service = context.service
    new_job = _build_job(context, kind, key, body)
    job = find_job_by_key(service.store, new_job)
    if job is None:
        job = _require_accepted(add_job(service.store, new_job, MAX_OPEN_JOBS))
    if job.asked != new_job.asked:
        raise requests.build_key_conflict(key)
    if _is_retryable(service, job):
        job = _require_accepted(renew_job(service.store, job, MAX_OPEN_JOBS))
    return job_to_json(service, context.principal, job)


def _build_job(context: DatasetContext, kind: JobKind, key: str, body: RequestModel) -> Job:
    deadline = context.dataset.config.deadline if context.service.config.padding else 0.0
    names = generate_identifier(), kind, context.name, context.rehearsal, context.principal.name, key
    return Job(*names, canonicalize_request(body.list_sent()), deadline, context.received_at)


def _require_accepted(job: Job | None) -> Job:
    """Refuse a job that was not queued since the analyst has too many."""
    if job is None:
        detail = f"{MAX_OPEN_JOBS} of your jobs wait or run, the most there may be; wait until one of them has ended"
        raise HttpProblem("rate-limited", detail)
    return job


def _is_retryable(service: Service, job: Job) -> bool:
    """Whether a question may run again: it failed for now, or its answer is stored no longer."""
    if job.kind != "ask" or job.state not in ENDED_STATES or not is_end_visible(job, time.time()):
        return False
    result = json.loads(job.result or "{}")
    if job.state == "failed":
        return bool(result["problem"]["type"] == PROBLEM_TYPES_BY_NAME["unavailable"].uri)
    return find_answer_by_id(service.store, job.dataset, job.rehearsal, result["answer"]) is None


def find_own_job(service: Service, principal: Principal, job_id: str) -> Job:
    """Find a job by its id, if the sender may see it."""
    job = find_job_by_id(service.store, job_id)
    if job is None or not is_visible_job(service, principal, job):
        raise build_not_found()
    return job


def is_visible_job(service: Service, principal: Principal, job: Job) -> bool:
    """Whether a job is the sender's question, on a data set that is still granted; a custodian sees all."""
    is_own = principal.is_custodian or (job.kind == "ask" and job.analyst == principal.name)
    return is_own and job.dataset in list_visible_datasets(service, principal)


def job_to_json(service: Service, principal: Principal, job: Job) -> dict[str, object]:
    """Describe a job as far as its clock shows it; its present stage is for the custodian alone."""
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
    """Find the folder of a job's files; that of a rehearsal is beside its table."""
    home = get_rehearsal_folder(config, job.dataset) if job.rehearsal else config.folder
    return home / "releases" / job.id


def list_job_files(config: Config, job: Job) -> dict[str, Path]:
    """List the files that a job has made, by name."""
    folder = get_job_folder(config, job)
    if job.kind == "ask" or job.state != "done" or not folder.is_dir():
        return {}
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def find_job_file(service: Service, job: Job, name: str) -> Path:
    """Find a file of a job that is seen as done."""
    path = list_job_files(service.config, job).get(name) if is_end_visible(job, time.time()) else None
    if path is None:
        raise build_not_found()
    return path


def run_job_loop(config: Config, is_stopping: Callable[[], bool], ledgers: Mapping[str, str] | None = None) -> None:
    """Run jobs until told to stop; the present one is finished first."""
    runner, service = generate_identifier(), Service.open(config, runs_jobs=True, ledgers=ledgers)
    try:
        while not is_stopping():
            try:
                is_busy = run_next_job(service, runner)
            except Unavailable:
                is_busy = False  # the store may be back the next time
            if not is_busy:
                time.sleep(POLL_INTERVAL)
    finally:
        service.close()


def run_next_job(service: Service, runner: str) -> bool:
    """Requeue or fail the jobs of dead runners, then run the next job; False where there is none."""
    for job in list_dead_jobs(service.store):
        if job.kind == "ask" and job.attempts < MAX_ATTEMPTS:
            requeue_job(service.store, job)
        else:
            problem = TOO_MANY_ATTEMPTS if job.kind == "ask" else problem_from_error(INTERRUPTED_JOB)
            abandon_job(service.store, job, json.dumps({"problem": problem.to_json()}))
    next_job = take_job(service.store, runner)
    if next_job is None:
        return False
    start, deadline = time.monotonic(), next_job.deadline
    release_barrier = ReleaseBarrier(time.monotonic, start, deadline).wait if deadline else lambda: None
    with _send_heartbeats(service, next_job, runner) as progress:
        state, result = _run_job(service, next_job, progress, release_barrier)
        # Whatever comes next, the next job too, comes at a doubling: it is seen by others when it is charged.
        padded_time = compute_padded_time(time.monotonic() - start, deadline) if deadline else 0.0
        _sleep_until(start + padded_time)
    while True:  # until the store is there: a release that was made is not told as failed
        try:
            finish_job(service.store, next_job.id, runner, state, json.dumps(result))
            return True
        except Unavailable:
            time.sleep(POLL_INTERVAL)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _run_job(
    service: Service, job: Job, progress: Callable[[str], None], release_barrier: Callable[[], None]
) -> tuple[JobState, dict[str, object]]:
    try:
        return "done", _execute_job(service, job, progress, release_barrier)
    except DiscreetError as refusal:
        return "failed", {"problem": problem_from_error(refusal).to_json()}
    except Exception as error:  # the outermost boundary of a job: told without its text
        monitoring.write_event("internal", where=monitoring.format_error_location(error))
        return "failed", {"problem": problem_from_error(error).to_json()}


def _execute_job(
    service: Service, job: Job, progress: Callable[[str], None], release_barrier: Callable[[], None]
) -> dict[str, object]:
    sent: dict[str, object] = json.loads(job.asked)
    _require_token(service, job)
    with service.registry.lease_custodian(job.dataset, job.rehearsal) as custodian:
        if job.kind == "ask":
            delayed_custodian = custodian._with_release_barrier(release_barrier)
            stored_answer = requests.answer_request(
                service, delayed_custodian, job.rehearsal, job.analyst, job.key, parse_fields(Ask, sent), job.at
            )
            return {"answer": stored_answer.id}
        folder = get_job_folder(service.config, job)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            raise Unavailable(f"the folder {folder} cannot be made; check its owner and the disk") from None
        if job.kind == "sweep":
            return {"sweep": requests.sweep_in_folder(custodian, parse_fields(Sweep, sent), folder, progress)}
        # Custodians choose keys apart, and pay as one; the ledger knows a release by this if the store is lost.
        payment_key = hashlib.sha256(json.dumps([job.analyst, job.key]).encode()).hexdigest()
        body = parse_fields(RELEASE_MODELS[str(sent["method"])], sent)
        return {"release": requests.publish_in_folder(custodian, body, folder, progress, payment_key)}


def _require_token(service: Service, job: Job) -> None:
    """Refuse where the sender may not ask any more: a release needs a custodian's token, a question that or a grant."""
    now = time.time()
    tokens = [token for token in list_tokens(service.store) if token.analyst == job.analyst and token.is_valid(now)]
    if any(token.role == "custodian" for token in tokens):
        return
    if job.kind != "ask":
        raise InvalidInput("whoever asked for this is a custodian no more; nothing was charged, and nothing released")
    if not tokens or job.dataset not in list_granted_datasets(service.store, job.analyst):
        raise InvalidInput("the data set is not granted to you any more; nothing was charged")


@contextmanager
def _send_heartbeats(service: Service, job: Job, runner: str) -> Iterator[Callable[[str], None]]:
    stage: list[str | None] = [None]
    done_event = Event()

    def send_beats() -> None:
        while not done_event.wait(HEARTBEAT_INTERVAL):
            try:
                record_heartbeat(service.store, job.id, runner, stage[0])
            except Unavailable:
                continue

    thread = Thread(target=send_beats, daemon=True)
    thread.start()
    try:
        yield lambda text: stage.__setitem__(0, text)
    finally:
        done_event.set()
        thread.join()
