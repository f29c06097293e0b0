"""How often a 95 % interval holds the truth, beside how often it must."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.error.contestant import runs
from benchmarks.error.jobs import ADD, EPSILONS, JOBS
from benchmarks.error.ours import Asked, Tables
from benchmarks.error.race import DEVIATIONS
from benchmarks.error.table import People
from benchmarks.measure import Line
from discreet.planner.noisy import Noisy

CONFIDENCE = 0.95
LONG = 4.0
QUESTIONS = ("count", "sum", "mean")


def bars(people: People, tables: Tables) -> Iterator[Line]:
    """Counts and sums cover as often as their law says; of a mean the law is told for large tables only."""
    exact = people.exact()
    for job in JOBS:
        if job.name not in QUESTIONS or job.neighbours != ADD:
            continue
        for epsilon in EPSILONS:
            asked = tables.asked(job.sql, ADD, epsilon)
            held = np.array(runs(_covers(asked, float(exact[job.name][0])), LONG))
            due, name = coverage(asked), f"{job.name}, epsilon {epsilon:g}: covered by 95 % intervals"
            room = DEVIATIONS * math.sqrt(due * (1 - due) / len(held))
            beside = f"the law says {due:.2%}, {len(held):,} runs"
            yield Line(name, held.mean(), "", due - room, True, beside)
            if asked_exactly(asked):
                yield Line(name, held.mean(), "", due + room, False, beside)


def _covers(asked: Asked, truth: float) -> Callable[[], list[float]]:
    def run() -> list[float]:
        low, high = asked.answer().interval(CONFIDENCE)
        return [low - 1e-9 <= truth <= high + 1e-9]

    return run


def asked_exactly(asked: Asked) -> bool:
    """Whether one total answers it, so that the law of its noise is the law of its error."""
    return _single(asked) is not None


def coverage(asked: Asked) -> float:
    """The exact probability that an interval holds the truth, or where it hangs on the table the least there may be."""
    noise = _single(asked)
    if noise is None:
        return CONFIDENCE
    reach = round(noise.interval(CONFIDENCE)[1] / float(noise.step))
    return 1 - noise.tail_units(reach)


def _single(asked: Asked) -> object:
    measured = asked.plan.measurements[0]
    return measured.single if isinstance(measured, Noisy) else None
