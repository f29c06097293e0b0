"""The queue of long work. A job is taken by one runner, which says again and again that it lives."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Connection, Row, func, select, update

from discreet.service.store.store import Store, acquire_advisory_lock, insert_if_absent, jobs
from discreet.service.store.stored_answers import delete_oldest, is_cleanup_turn

JobKind = Literal["ask", "publish", "sweep"]
JobState = Literal["waiting", "running", "done", "failed"]
DEAD_AFTER = 30.0
"""Seconds without a sign of life after which a runner counts as dead."""
MAX_ATTEMPTS = 3
"""Runners that a question may stop."""
IS_QUESTION = jobs.c.kind == "ask"


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of long work, as it stands."""

    id: str
    kind: JobKind
    dataset: str
    rehearsal: bool
    analyst: str
    key: str
    asked: str
    deadline: float
    at: float
    state: JobState = "waiting"
    runner: str | None = None
    beat: float | None = None
    finished: float | None = None
    stage: str | None = None
    result: str | None = None
    attempts: int = 0


def add_job(store: Store, job: Job, max_open: int | None = None) -> Job | None:
    """Queue a job; the first one under a key and kind wins, and is returned to all who come later.

    None where the analyst has `most` jobs already that wait or run. They are counted in the transaction that adds one,
    so that no two requests at the same time take the last place.
    """
    with store.database.begin_write() as connection:
        acquire_advisory_lock(connection, f"jobs of {job.analyst}")
        existing = connection.execute(select(jobs.c.id).where(*_match_key(job))).one_or_none()
        if existing is None and max_open is not None and _count_open(connection, job.analyst) >= max_open:
            return None
        insert_if_absent(connection, jobs, _columns(job))
        first = _job_from_row(connection.execute(select(jobs).where(*_match_key(job))).one())
        if is_cleanup_turn(job.id):
            ended_questions = IS_QUESTION, jobs.c.state.in_(("done", "failed"))
            delete_oldest(connection, jobs, job.dataset, job.rehearsal, job.analyst, *ended_questions)
        return first


def find_job_by_key(store: Store, job: Job) -> Job | None:
    """The job that has the key of another."""
    with store.database.begin_read() as connection:
        row = connection.execute(select(jobs).where(*_match_key(job))).one_or_none()
    return None if row is None else _job_from_row(row)


def find_job_by_id(store: Store, job_id: str) -> Job | None:
    """One job."""
    with store.database.begin_read() as connection:
        row = connection.execute(select(jobs).where(jobs.c.id == job_id)).one_or_none()
    return None if row is None else _job_from_row(row)


def list_jobs(store: Store, analyst: str | None, limit: int = 100) -> list[Job]:
    """The latest questions and as many of the latest others, of one analyst where one is named; the newest first."""
    query = select(jobs).order_by(jobs.c.at.desc(), jobs.c.id).limit(limit)
    own_query = query if analyst is None else query.where(jobs.c.analyst == analyst)
    with store.database.begin_read() as connection:
        latest = [
            _job_from_row(row)
            for kind in (IS_QUESTION, ~IS_QUESTION)
            for row in connection.execute(own_query.where(kind))
        ]
    return sorted(latest, key=lambda job: (-job.at, job.id))


def count_job_states(store: Store) -> dict[str, int]:
    """How many jobs there are in each state."""
    with store.database.begin_read() as connection:
        rows = connection.execute(select(jobs.c.state, func.count()).group_by(jobs.c.state)).all()
    return {state: int(count) for state, count in rows}


def _count_open(connection: Connection, analyst: str) -> int:
    """How many jobs of an analyst wait or run."""
    own_open = jobs.c.analyst == analyst, jobs.c.state.in_(("waiting", "running"))
    return int(connection.execute(select(func.count()).select_from(jobs).where(*own_open)).scalar_one())


def take_job(store: Store, runner: str) -> Job | None:
    """The next waiting job, which is now this runner's: the oldest of the analyst who was served longest ago.

    So an analyst with many jobs delays each of the others by one job at a time.
    """
    with store.database.begin_write() as connection:
        for analyst in _list_analysts_in_turn(connection):
            own_waiting = jobs.c.state == "waiting", jobs.c.analyst == analyst
            first = select(jobs).where(*own_waiting).order_by(jobs.c.at, jobs.c.id).limit(1)
            row = connection.execute(first.with_for_update(skip_locked=True)).one_or_none()
            if row is not None:
                changes = {"state": "running", "runner": runner, "beat": time.time(), "attempts": row.attempts + 1}
                connection.execute(update(jobs).where(jobs.c.id == row.id).values(**changes))
                return _job_from_row(row)
    return None


def _list_analysts_in_turn(connection: Connection) -> list[str]:
    """The analysts who have a job that waits: first who was never served, then who was served longest ago."""
    waiting_query = (
        select(jobs.c.analyst, func.min(jobs.c.at).label("since"))
        .where(jobs.c.state == "waiting")
        .group_by(jobs.c.analyst)
    )
    waiting_since = {row.analyst: row.since for row in connection.execute(waiting_query)}
    served_query = (
        select(jobs.c.analyst, func.max(jobs.c.beat)).where(jobs.c.analyst.in_(waiting_since)).group_by(jobs.c.analyst)
    )
    last_served = {analyst: beat or 0.0 for analyst, beat in connection.execute(served_query)}
    return sorted(waiting_since, key=lambda analyst: (last_served[analyst], waiting_since[analyst], analyst))


def record_heartbeat(store: Store, job: str, runner: str, stage: str | None) -> None:
    """A sign of life."""
    with store.non_durable.begin_write() as connection:
        conditions = jobs.c.id == job, jobs.c.runner == runner, jobs.c.state == "running"
        connection.execute(update(jobs).where(*conditions).values(beat=time.time(), stage=stage))


def finish_job(store: Store, job: str, runner: str, state: JobState, result: str) -> None:
    """End a job that is still this runner's."""
    with store.database.begin_write() as connection:
        conditions = jobs.c.id == job, jobs.c.runner == runner, jobs.c.state == "running"
        connection.execute(
            update(jobs).where(*conditions).values(state=state, finished=time.time(), result=result, stage=None)
        )


def list_dead_jobs(store: Store) -> list[Job]:
    """Jobs whose runner gives no sign of life."""
    dead = jobs.c.state == "running", jobs.c.beat < time.time() - DEAD_AFTER
    with store.database.begin_read() as connection:
        return [_job_from_row(row) for row in connection.execute(select(jobs).where(*dead)).all()]


def requeue_job(store: Store, job: Job) -> None:
    """Let another runner take a job whose runner is dead."""
    _update_dead_job(store, job, {"state": "waiting", "runner": None, "beat": None, "stage": None})


def renew_job(store: Store, job: Job, max_open: int | None = None) -> Job | None:
    """Queue an ended job once more, as if it were asked for now; who else does so meanwhile has the same job.

    None where the analyst has `most` jobs already that wait or run.
    """
    reset_fields: dict[str, Any] = dict.fromkeys(("runner", "beat", "finished", "stage", "result"))
    new_job = replace(job, at=time.time(), state="waiting", attempts=0, **reset_fields)
    conditions = jobs.c.id == job.id, jobs.c.state == job.state, jobs.c.finished == job.finished
    with store.database.begin_write() as connection:
        acquire_advisory_lock(connection, f"jobs of {job.analyst}")
        is_unchanged = connection.execute(select(jobs.c.id).where(*conditions)).one_or_none() is not None
        if is_unchanged and max_open is not None and _count_open(connection, job.analyst) >= max_open:
            return None
        connection.execute(update(jobs).where(*conditions).values(_columns(new_job)))
        return _job_from_row(connection.execute(select(jobs).where(jobs.c.id == job.id)).one())


def abandon_job(store: Store, job: Job, result: str) -> None:
    """End a job whose runner is dead."""
    _update_dead_job(store, job, {"state": "failed", "finished": time.time(), "result": result, "stage": None})


def _update_dead_job(store: Store, job: Job, values: dict[str, Any]) -> None:
    conditions = jobs.c.id == job.id, jobs.c.runner == job.runner, jobs.c.beat == job.beat, jobs.c.state == "running"
    with store.database.begin_write() as connection:
        connection.execute(update(jobs).where(*conditions).values(**values))


def _match_key(job: Job) -> list[Any]:
    conditions = (
        jobs.c.dataset == job.dataset,
        jobs.c.analyst == job.analyst,
        jobs.c.key == job.key,
        jobs.c.kind == job.kind,
    )
    return [*conditions, jobs.c.rehearsal.is_(job.rehearsal)]


def _job_from_row(row: Row[Any]) -> Job:
    return Job(
        id=row.id,
        kind=row.kind,
        dataset=row.dataset,
        rehearsal=row.rehearsal,
        analyst=row.analyst,
        key=row.key,
        asked=row.asked,
        deadline=row.deadline,
        at=row.at,
        state=row.state,
        runner=row.runner,
        beat=row.beat,
        finished=row.finished,
        stage=row.stage,
        result=row.result,
        attempts=row.attempts,
    )


def _columns(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "kind": job.kind,
        "dataset": job.dataset,
        "rehearsal": job.rehearsal,
        "analyst": job.analyst,
        "key": job.key,
        "asked": job.asked,
        "deadline": job.deadline,
        "at": job.at,
        "state": job.state,
        "runner": job.runner,
        "beat": job.beat,
        "finished": job.finished,
        "stage": job.stage,
        "result": job.result,
        "attempts": job.attempts,
    }
