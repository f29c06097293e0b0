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

from discreet.custodian.secrets import identifier
from discreet.errors import DiscreetError, InvalidInput, Unavailable
from discreet.service import asking, logs, publishing
from discreet.service.config import Config
from discreet.service.padding import Moment, padded
from discreet.service.problems import Problem, problem_of
from discreet.service.queueing import folder_of
from discreet.service.state import Service
from discreet.service.store.jobs import MOST_ATTEMPTS, Job, State, abandon, beat, dead_jobs, finish, requeue, take_job
from discreet.service.store.tokens import all_tokens, granted

PAUSE = 0.2
HEART = 5.0
CUT_SHORT = Unavailable(
    "the job was cut short; what was charged stays charged, so look at the history before you repeat it"
)
STOPPED = Problem("internal", "this question stopped its runner three times; ask for less, or tell the custodian")


def run_jobs(config: Config, stopping: Callable[[], bool], ledgers: Mapping[str, str] | None = None) -> None:
    """Run jobs until told to stop; the one at work is ended first."""
    runner, service = identifier(), Service.open(config, runs_jobs=True, ledgers=ledgers)
    try:
        while not stopping():
            try:
                busy = run_next(service, runner)
            except Unavailable:
                busy = False  # the store may be back the next time
            if not busy:
                time.sleep(PAUSE)
    finally:
        service.close()


def run_next(service: Service, runner: str) -> bool:
    """Bury the dead, then run the next job; False where there is none."""
    for job in dead_jobs(service.store):
        if job.kind == "ask" and job.attempts < MOST_ATTEMPTS:
            requeue(service.store, job)
        else:
            why = STOPPED if job.kind == "ask" else problem_of(CUT_SHORT)
            abandon(service.store, job, json.dumps({"problem": why.document()}))
    taken = take_job(service.store, runner)
    if taken is None:
        return False
    start = time.monotonic()
    with _beating(service, taken, runner) as progress:
        state, result = _outcome(service, taken, progress, _settling(taken, start))
        # Whatever comes next, the next job too, comes at a doubling: it is seen by others when it is charged.
        _sleep(start + padded(time.monotonic() - start, taken.deadline) if taken.deadline else start)
    _end(service, taken, runner, state, json.dumps(result))
    return True


def _settling(job: Job, start: float) -> Callable[[], None]:
    """Waits until what a job has drawn may be seen."""
    return Moment(time.monotonic, start, job.deadline).wait if job.deadline else lambda: None


def _sleep(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _end(service: Service, job: Job, runner: str, state: State, result: str) -> None:
    """Write down how a job ended, as soon as the store is there: a release that was made is not told as failed."""
    while True:
        try:
            return finish(service.store, job.id, runner, state, result)
        except Unavailable:
            time.sleep(PAUSE)


def _outcome(
    service: Service, job: Job, progress: Callable[[str], None], settle: Callable[[], None]
) -> tuple[State, dict[str, object]]:
    try:
        return "done", _carried_out(service, job, progress, settle)
    except DiscreetError as refusal:
        return "failed", {"problem": problem_of(refusal).document()}
    except Exception as error:  # the outermost boundary of a job: told without its text
        logs.write("internal", where=logs.where(error))
        return "failed", {"problem": problem_of(error).document()}


def _carried_out(
    service: Service, job: Job, progress: Callable[[str], None], settle: Callable[[], None]
) -> dict[str, object]:
    said = json.loads(job.asked)
    _require_token(service, job)
    with service.holdings.custodian(job.dataset, job.rehearsal) as custodian:
        if job.kind == "ask":
            settling = custodian._settling(settle)
            kept = asking.ask(service, settling, job.rehearsal, job.analyst, job.key, said, job.at)
            return {"answer": kept.id}
        folder = _made(folder_of(service.config, job))
        if job.kind == "publish":
            return {"release": publishing.publish(custodian, said, folder, progress, _paying_key(job))}
        return {"sweep": publishing.sweep(custodian, said, folder, progress)}


def _require_token(service: Service, job: Job) -> None:
    """Refused where whoever asked may not any more: a release needs a custodian's token, a question that or a grant."""
    tokens = [one for one in all_tokens(service.store) if one.analyst == job.analyst and one.valid(time.time())]
    if any(one.role == "custodian" for one in tokens):
        return
    if job.kind != "ask":
        raise InvalidInput("whoever asked for this is a custodian no more; nothing was charged, and nothing released")
    if not tokens or job.dataset not in granted(service.store, job.analyst):
        raise InvalidInput("the data set is not granted to you any more; nothing was charged")


def _paying_key(job: Job) -> str:
    """What the ledger knows a release by, should the store be lost: custodians choose keys apart, and pay as one."""
    return hashlib.sha256(json.dumps([job.analyst, job.key]).encode()).hexdigest()


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        raise Unavailable(f"the folder {folder} cannot be made; check its owner and the disk") from None
    return folder


@contextmanager
def _beating(service: Service, job: Job, runner: str) -> Iterator[Callable[[str], None]]:
    """Signs of life while a job runs, with the stage it is at."""
    stage: list[str | None] = [None]
    done = Event()

    def beats() -> None:
        while not done.wait(HEART):
            try:
                beat(service.store, job.id, runner, stage[0])
            except Unavailable:
                continue

    thread = Thread(target=beats, daemon=True)
    thread.start()
    try:
        yield lambda said: stage.__setitem__(0, said)
    finally:
        done.set()
        thread.join()
