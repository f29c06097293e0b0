"""Long work: looked at by the clock of its data set until it has ended."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from discreet.client.problem import build_problem_error
from discreet.client.reading import JsonObject, decode_reply
from discreet.client.wire import HttpRequest, Transport

Progress = Callable[[str], None]
BACKOFF_FACTOR = 1.5
MAX_POLL_SECONDS = 15.0
"""Seconds between two looks, unless the deadline is longer."""


def ignore_job_stage(stage: str) -> None:
    """Progress that nobody watches."""


def get_job_path(job: JsonObject) -> str:
    """Where a job is looked at."""
    return f"/v1/jobs/{quote(str(job.get('id')), safe='')}"


def wait_for_job(transport: Transport, job: JsonObject, deadline: float, progress: Progress) -> JsonObject:
    """The job once it is done; the error of one that failed. Looks come ever slower."""
    pause = deadline
    while job.get("state") in {"waiting", "running"}:
        progress(str(job.get("stage") or job["state"]))
        transport.sleep(pause)
        pause = max(deadline, min(pause * BACKOFF_FACTOR, MAX_POLL_SECONDS))
        job = decode_reply(dict, transport.send(HttpRequest.get(get_job_path(job))))
    if job.get("state") != "done":
        raise build_problem_error(job.get("problem"))
    return job
