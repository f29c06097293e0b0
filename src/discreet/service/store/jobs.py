"""The queue of long work. A job is taken by one runner, which says again and again that it lives."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Connection, Row, func, select, update

from discreet.service.store.answers import forget_oldest, is_turn
from discreet.service.store.putting import put_new, take_turns
from discreet.service.store.store import Store
from discreet.service.store.tables import jobs

Kind = Literal["ask", "publish", "sweep"]
State = Literal["waiting", "running", "done", "failed"]
DEAD = 30.0
"""Seconds without a sign of life after which a runner counts as dead."""
MOST_ATTEMPTS = 3
"""Runners that a question may stop."""
ASKS = jobs.c.kind == "ask"


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of long work, as it stands."""

    id: str
    kind: Kind
    dataset: str
    rehearsal: bool
    analyst: str
    key: str
    asked: str
    deadline: float
    at: float
    state: State = "waiting"
    runner: str | None = None
    beat: float | None = None
    finished: float | None = None
    stage: str | None = None
    result: str | None = None
    attempts: int = 0


def add_job(store: Store, job: Job, most: int | None = None) -> Job | None:
    """Queue a job; the first one under a key and kind wins, and is returned to all who come later.

    None where the analyst has `most` jobs already that wait or run. They are counted in the transaction that adds one,
    so that no two requests at the same time take the last place.
    """
    with store.database.writing() as connection:
        take_turns(connection, f"jobs of {job.analyst}")
        here = connection.execute(select(jobs.c.id).where(*_keyed(job))).one_or_none()
        if here is None and most is not None and _count_open(connection, job.analyst) >= most:
            return None
        put_new(connection, jobs, _columns(job))
        first = _job(connection.execute(select(jobs).where(*_keyed(job))).one())
        if is_turn(job.id):
            ended = ASKS, jobs.c.state.in_(("done", "failed"))
            forget_oldest(connection, jobs, job.dataset, job.rehearsal, job.analyst, *ended)
        return first


def job_by_key(store: Store, like: Job) -> Job | None:
    """The job that has the key of another."""
    with store.database.reading() as connection:
        row = connection.execute(select(jobs).where(*_keyed(like))).one_or_none()
    return None if row is None else _job(row)


def job_by_id(store: Store, wanted: str) -> Job | None:
    """One job."""
    with store.database.reading() as connection:
        row = connection.execute(select(jobs).where(jobs.c.id == wanted)).one_or_none()
    return None if row is None else _job(row)


def all_jobs(store: Store, analyst: str | None, limit: int = 100) -> list[Job]:
    """The latest questions and as many of the latest others, of one analyst where one is named; the newest first."""
    wanted = select(jobs).order_by(jobs.c.at.desc(), jobs.c.id).limit(limit)
    mine = wanted if analyst is None else wanted.where(jobs.c.analyst == analyst)
    with store.database.reading() as connection:
        found = [_job(row) for kind in (ASKS, ~ASKS) for row in connection.execute(mine.where(kind))]
    return sorted(found, key=lambda job: (-job.at, job.id))


def count_states(store: Store) -> dict[str, int]:
    """How many jobs there are in each state."""
    with store.database.reading() as connection:
        found = connection.execute(select(jobs.c.state, func.count()).group_by(jobs.c.state)).all()
    return {state: int(count) for state, count in found}


def _count_open(connection: Connection, analyst: str) -> int:
    """How many jobs of an analyst wait or run."""
    mine = jobs.c.analyst == analyst, jobs.c.state.in_(("waiting", "running"))
    return int(connection.execute(select(func.count()).select_from(jobs).where(*mine)).scalar_one())


def take_job(store: Store, runner: str) -> Job | None:
    """The next waiting job, which is now this runner's: the oldest of the analyst who was served longest ago.

    So an analyst with many jobs delays each of the others by one job at a time.
    """
    with store.database.writing() as connection:
        for analyst in _in_turn(connection):
            own = jobs.c.state == "waiting", jobs.c.analyst == analyst
            first = select(jobs).where(*own).order_by(jobs.c.at, jobs.c.id).limit(1)
            row = connection.execute(first.with_for_update(skip_locked=True)).one_or_none()
            if row is not None:
                taken = {"state": "running", "runner": runner, "beat": time.time(), "attempts": row.attempts + 1}
                connection.execute(update(jobs).where(jobs.c.id == row.id).values(**taken))
                return _job(row)
    return None


def _in_turn(connection: Connection) -> list[str]:
    """The analysts who have a job that waits: first who was never served, then who was served longest ago."""
    waiting = (
        select(jobs.c.analyst, func.min(jobs.c.at).label("since"))
        .where(jobs.c.state == "waiting")
        .group_by(jobs.c.analyst)
    )
    since = {row.analyst: row.since for row in connection.execute(waiting)}
    served = select(jobs.c.analyst, func.max(jobs.c.beat)).where(jobs.c.analyst.in_(since)).group_by(jobs.c.analyst)
    last = {analyst: beat or 0.0 for analyst, beat in connection.execute(served)}
    return sorted(since, key=lambda analyst: (last[analyst], since[analyst], analyst))


def beat(store: Store, job: str, runner: str, stage: str | None) -> None:
    """A sign of life."""
    with store.passing.writing() as connection:
        mine = jobs.c.id == job, jobs.c.runner == runner, jobs.c.state == "running"
        connection.execute(update(jobs).where(*mine).values(beat=time.time(), stage=stage))


def finish(store: Store, job: str, runner: str, state: State, result: str) -> None:
    """End a job that is still this runner's."""
    with store.database.writing() as connection:
        mine = jobs.c.id == job, jobs.c.runner == runner, jobs.c.state == "running"
        connection.execute(
            update(jobs).where(*mine).values(state=state, finished=time.time(), result=result, stage=None)
        )


def dead_jobs(store: Store) -> list[Job]:
    """Jobs whose runner gives no sign of life."""
    gone = jobs.c.state == "running", jobs.c.beat < time.time() - DEAD
    with store.database.reading() as connection:
        return [_job(row) for row in connection.execute(select(jobs).where(*gone)).all()]


def requeue(store: Store, job: Job) -> None:
    """Let another runner take a job whose runner is dead."""
    _leave(store, job, {"state": "waiting", "runner": None, "beat": None, "stage": None})


def renew(store: Store, job: Job, most: int | None = None) -> Job | None:
    """Queue an ended job once more, as if it were asked for now; who else does so meanwhile has the same job.

    None where the analyst has `most` jobs already that wait or run.
    """
    unrun: dict[str, Any] = dict.fromkeys(("runner", "beat", "finished", "stage", "result"))
    fresh = replace(job, at=time.time(), state="waiting", attempts=0, **unrun)
    ended = jobs.c.id == job.id, jobs.c.state == job.state, jobs.c.finished == job.finished
    with store.database.writing() as connection:
        take_turns(connection, f"jobs of {job.analyst}")
        again = connection.execute(select(jobs.c.id).where(*ended)).one_or_none() is not None
        if again and most is not None and _count_open(connection, job.analyst) >= most:
            return None
        connection.execute(update(jobs).where(*ended).values(_columns(fresh)))
        return _job(connection.execute(select(jobs).where(jobs.c.id == job.id)).one())


def abandon(store: Store, job: Job, result: str) -> None:
    """End a job whose runner is dead."""
    _leave(store, job, {"state": "failed", "finished": time.time(), "result": result, "stage": None})


def _leave(store: Store, job: Job, values: dict[str, Any]) -> None:
    same = jobs.c.id == job.id, jobs.c.runner == job.runner, jobs.c.beat == job.beat, jobs.c.state == "running"
    with store.database.writing() as connection:
        connection.execute(update(jobs).where(*same).values(**values))


def _keyed(job: Job) -> list[Any]:
    mine = jobs.c.dataset == job.dataset, jobs.c.analyst == job.analyst, jobs.c.key == job.key, jobs.c.kind == job.kind
    return [*mine, jobs.c.rehearsal.is_(job.rehearsal)]


def _job(row: Row[Any]) -> Job:
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
