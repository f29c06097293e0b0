"""Long work: looked at by the clock of its data set until it has ended."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from discreet.client.problem import error_told
from discreet.client.reading import Told, read
from discreet.client.wire import Request, Wire

Progress = Callable[[str], None]
SLOWER = 1.5
LONGEST = 15.0
"""Seconds between two looks, unless the deadline is longer."""


def silent(stage: str) -> None:
    """Progress that nobody watches."""


def job_path(job: Told) -> str:
    """Where a job is looked at."""
    return f"/v1/jobs/{quote(str(job.get('id')), safe='')}"


def ended(wire: Wire, job: Told, deadline: float, progress: Progress) -> Told:
    """The job once it is done; the error of one that failed. Looks come ever slower."""
    pause = deadline
    while job.get("state") in {"waiting", "running"}:
        progress(str(job.get("stage") or job["state"]))
        wire.sleep(pause)
        pause = max(deadline, min(pause * SLOWER, LONGEST))
        job = read(dict, wire.ask(Request.get(job_path(job))))
    if job.get("state") != "done":
        raise error_told(job.get("problem"))
    return job
