"""The queue of jobs in the store. A job is taken by one runner, which sends heartbeats while it works."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, func, select, update

from discreet.service.store.store import (
    Store,
    acquire_advisory_lock,
    build_row,
    find_record,
    insert_if_absent,
    jobs,
    match_request_key,
)
from discreet.service.store.stored_answers import delete_oldest, is_cleanup_turn

JobKind = Literal["ask", "publish", "sweep"]
JobState = Literal["waiting", "running", "done", "failed"]
DEAD_AFTER = 30.0
"""Seconds without a heartbeat after which a runner counts as dead."""
MAX_ATTEMPTS = 3
"""How many runners may die of a question before it is given up."""
IS_QUESTION = jobs.c.kind == "ask"


@dataclass(frozen=True, slots=True)
class Job:
    """One job as it stands; its fields are the columns of `jobs`, in order."""

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

    None where `max_open` jobs of the analyst wait or run. They are counted in the transaction that adds one, so that no
    two requests at the same time take the last place.
    """
    with store.database.begin_write() as connection:
        acquire_advisory_lock(connection, f"jobs of {job.analyst}")
        existing = connection.execute(select(jobs.c.id).where(*_match_key(job))).one_or_none()
        if existing is None and max_open is not None and _count_open(connection, job.analyst) >= max_open:
            return None
        insert_if_absent(connection, jobs, build_row(jobs, job))
        first = Job(*connection.execute(select(jobs).where(*_match_key(job))).one())
        if is_cleanup_turn(job.id):
            ended_questions = IS_QUESTION, jobs.c.state.in_(("done", "failed"))
            delete_oldest(connection, jobs, job.dataset, job.rehearsal, job.analyst, *ended_questions)
        return first


def find_job_by_key(store: Store, job: Job) -> Job | None:
    """Find the job that has the key of another."""
    return find_record(store, jobs, Job, *_match_key(job))


def find_job_by_id(store: Store, job_id: str) -> Job | None:
    """Find a job by its id."""
    return find_record(store, jobs, Job, jobs.c.id == job_id)


def list_jobs(store: Store, analyst: str | None, limit: int = 100) -> list[Job]:
    """List the latest questions and as many of the latest other jobs, of one analyst or of all; the newest first."""
    query = select(jobs).order_by(jobs.c.at.desc(), jobs.c.id).limit(limit)
    own_query = query if analyst is None else query.where(jobs.c.analyst == analyst)
    with store.database.begin_read() as connection:
        kinds = (IS_QUESTION, ~IS_QUESTION)
        latest = [Job(*row) for kind in kinds for row in connection.execute(own_query.where(kind))]
    return sorted(latest, key=lambda job: (-job.at, job.id))


def count_job_states(store: Store) -> dict[str, int]:
    """Count the jobs in each state."""
    with store.database.begin_read() as connection:
        rows = connection.execute(select(jobs.c.state, func.count()).group_by(jobs.c.state)).all()
    return {state: int(count) for state, count in rows}


def _count_open(connection: Connection, analyst: str) -> int:
    own_open = jobs.c.analyst == analyst, jobs.c.state.in_(("waiting", "running"))
    return int(connection.execute(select(func.count()).select_from(jobs).where(*own_open)).scalar_one())


def take_job(store: Store, runner: str) -> Job | None:
    """Take the next waiting job for a runner: the oldest of the analyst who was served longest ago.

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
                return Job(*row)
    return None


def _list_analysts_in_turn(connection: Connection) -> list[str]:
    """The analysts who have a waiting job: first who was never served, then who was served longest ago."""
    first_waiting = select(jobs.c.analyst, func.min(jobs.c.at).label("since")).where(jobs.c.state == "waiting")
    waiting_since = {row.analyst: row.since for row in connection.execute(first_waiting.group_by(jobs.c.analyst))}
    last_beat = select(jobs.c.analyst, func.max(jobs.c.beat)).where(jobs.c.analyst.in_(waiting_since))
    last_served = {analyst: beat or 0.0 for analyst, beat in connection.execute(last_beat.group_by(jobs.c.analyst))}
    return sorted(waiting_since, key=lambda analyst: (last_served[analyst], waiting_since[analyst], analyst))


def record_heartbeat(store: Store, job: str, runner: str, stage: str | None) -> None:
    """Write down that a runner is alive, and the stage of its job."""
    with store.non_durable.begin_write() as connection:
        conditions = jobs.c.id == job, jobs.c.runner == runner, jobs.c.state == "running"
        connection.execute(update(jobs).where(*conditions).values(beat=time.time(), stage=stage))


def finish_job(store: Store, job: str, runner: str, state: JobState, result: str) -> None:
    """End a job that is still this runner's."""
    with store.database.begin_write() as connection:
        conditions = jobs.c.id == job, jobs.c.runner == runner, jobs.c.state == "running"
        changes = {"state": state, "finished": time.time(), "result": result, "stage": None}
        connection.execute(update(jobs).where(*conditions).values(**changes))


def list_dead_jobs(store: Store) -> list[Job]:
    """List the jobs whose runner sends no heartbeats any more."""
    dead = jobs.c.state == "running", jobs.c.beat < time.time() - DEAD_AFTER
    with store.database.begin_read() as connection:
        return [Job(*row) for row in connection.execute(select(jobs).where(*dead)).all()]


def requeue_job(store: Store, job: Job) -> None:
    """Let another runner take a job whose runner is dead."""
    _update_dead_job(store, job, {"state": "waiting", "runner": None, "beat": None, "stage": None})


def renew_job(store: Store, job: Job, max_open: int | None = None) -> Job | None:
    """Queue an ended job again, as if it were asked for now; requests at the same time renew it once.

    None where `max_open` jobs of the analyst wait or run.
    """
    reset_fields: dict[str, Any] = dict.fromkeys(("runner", "beat", "finished", "stage", "result"))
    new_job = replace(job, at=time.time(), state="waiting", attempts=0, **reset_fields)
    conditions = jobs.c.id == job.id, jobs.c.state == job.state, jobs.c.finished == job.finished
    with store.database.begin_write() as connection:
        acquire_advisory_lock(connection, f"jobs of {job.analyst}")
        is_unchanged = connection.execute(select(jobs.c.id).where(*conditions)).one_or_none() is not None
        if is_unchanged and max_open is not None and _count_open(connection, job.analyst) >= max_open:
            return None
        connection.execute(update(jobs).where(*conditions).values(build_row(jobs, new_job)))
        return Job(*connection.execute(select(jobs).where(jobs.c.id == job.id)).one())


def abandon_job(store: Store, job: Job, result: str) -> None:
    """End a job whose runner is dead."""
    _update_dead_job(store, job, {"state": "failed", "finished": time.time(), "result": result, "stage": None})


def _update_dead_job(store: Store, job: Job, values: dict[str, object]) -> None:
    conditions = jobs.c.id == job.id, jobs.c.runner == job.runner, jobs.c.beat == job.beat, jobs.c.state == "running"
    with store.database.begin_write() as connection:
        connection.execute(update(jobs).where(*conditions).values(**values))


def _match_key(job: Job) -> list[ColumnElement[bool]]:
    return [*match_request_key(jobs, job), jobs.c.kind == job.kind]
