"""The runner of long work: one process a machine, so that no reply waits for it.

A question that was cut short is run again under its key, which never pays twice. A release is not: its first run may
have been charged, so it is told as failed, and the custodian decides.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from discreet.custodian.secrets import generate_identifier
from discreet.errors import DiscreetError, InvalidInput, Unavailable
from discreet.service import asking, logs, publishing
from discreet.service.config import Config
from discreet.service.padding import ReleaseBarrier, compute_padded_time
from discreet.service.problems import HttpProblem, problem_from_error
from discreet.service.queueing import get_job_folder
from discreet.service.state import Service
from discreet.service.store.jobs import (
    MAX_ATTEMPTS,
    Job,
    JobState,
    abandon_job,
    finish_job,
    list_dead_jobs,
    record_heartbeat,
    requeue_job,
    take_job,
)
from discreet.service.store.tokens import list_granted_datasets, list_tokens

POLL_INTERVAL = 0.2
HEARTBEAT_INTERVAL = 5.0
INTERRUPTED_JOB = Unavailable(
    "the job was cut short; what was charged stays charged, so look at the history before you repeat it"
)
TOO_MANY_ATTEMPTS = HttpProblem(
    "internal", "this question stopped its runner three times; ask for less, or tell the custodian"
)


def run_job_loop(config: Config, is_stopping: Callable[[], bool], ledgers: Mapping[str, str] | None = None) -> None:
    """Run jobs until told to stop; the one at work is ended first."""
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
    """Bury the dead, then run the next job; False where there is none."""
    for job in list_dead_jobs(service.store):
        if job.kind == "ask" and job.attempts < MAX_ATTEMPTS:
            requeue_job(service.store, job)
        else:
            problem = TOO_MANY_ATTEMPTS if job.kind == "ask" else problem_from_error(INTERRUPTED_JOB)
            abandon_job(service.store, job, json.dumps({"problem": problem.to_json()}))
    next_job = take_job(service.store, runner)
    if next_job is None:
        return False
    start = time.monotonic()
    with _send_heartbeats(service, next_job, runner) as progress:
        state, result = _run_job(service, next_job, progress, _build_release_barrier(next_job, start))
        # Whatever comes next, the next job too, comes at a doubling: it is seen by others when it is charged.
        _sleep_until(
            start + compute_padded_time(time.monotonic() - start, next_job.deadline) if next_job.deadline else start
        )
    _record_end(service, next_job, runner, state, json.dumps(result))
    return True


def _build_release_barrier(job: Job, start: float) -> Callable[[], None]:
    """Waits until what a job has drawn may be seen."""
    return ReleaseBarrier(time.monotonic, start, job.deadline).wait if job.deadline else lambda: None


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _record_end(service: Service, job: Job, runner: str, state: JobState, result: str) -> None:
    """Write down how a job ended, as soon as the store is there: a release that was made is not told as failed."""
    while True:
        try:
            return finish_job(service.store, job.id, runner, state, result)
        except Unavailable:
            time.sleep(POLL_INTERVAL)


def _run_job(
    service: Service, job: Job, progress: Callable[[str], None], release_barrier: Callable[[], None]
) -> tuple[JobState, dict[str, object]]:
    try:
        return "done", _execute_job(service, job, progress, release_barrier)
    except DiscreetError as refusal:
        return "failed", {"problem": problem_from_error(refusal).to_json()}
    except Exception as error:  # the outermost boundary of a job: told without its text
        logs.write_event("internal", where=logs.format_error_location(error))
        return "failed", {"problem": problem_from_error(error).to_json()}


def _execute_job(
    service: Service, job: Job, progress: Callable[[str], None], release_barrier: Callable[[], None]
) -> dict[str, object]:
    body = json.loads(job.asked)
    _require_token(service, job)
    with service.registry.lease_custodian(job.dataset, job.rehearsal) as custodian:
        if job.kind == "ask":
            delayed_custodian = custodian._with_release_barrier(release_barrier)
            stored_answer = asking.answer_request(
                service, delayed_custodian, job.rehearsal, job.analyst, job.key, body, job.at
            )
            return {"answer": stored_answer.id}
        folder = _make_folder(get_job_folder(service.config, job))
        if job.kind == "publish":
            return {
                "release": publishing.publish_in_folder(custodian, body, folder, progress, _compute_payment_key(job))
            }
        return {"sweep": publishing.sweep_in_folder(custodian, body, folder, progress)}


def _require_token(service: Service, job: Job) -> None:
    """Refused where whoever asked may not any more: a release needs a custodian's token, a question that or a grant."""
    tokens = [
        token for token in list_tokens(service.store) if token.analyst == job.analyst and token.is_valid(time.time())
    ]
    if any(token.role == "custodian" for token in tokens):
        return
    if job.kind != "ask":
        raise InvalidInput("whoever asked for this is a custodian no more; nothing was charged, and nothing released")
    if not tokens or job.dataset not in list_granted_datasets(service.store, job.analyst):
        raise InvalidInput("the data set is not granted to you any more; nothing was charged")


def _compute_payment_key(job: Job) -> str:
    """What the ledger knows a release by, should the store be lost: custodians choose keys apart, and pay as one."""
    return hashlib.sha256(json.dumps([job.analyst, job.key]).encode()).hexdigest()


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        raise Unavailable(f"the folder {folder} cannot be made; check its owner and the disk") from None
    return folder


@contextmanager
def _send_heartbeats(service: Service, job: Job, runner: str) -> Iterator[Callable[[str], None]]:
    """Signs of life while a job runs, with the stage it is at."""
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
