"""How often a 95 % interval holds the truth, beside how often it must."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.error.contestant import runs
from benchmarks.error.jobs import ADD, EPSILONS, JOBS
from benchmarks.error.ours import Asked, Tables
from benchmarks.error.race import DEVIATIONS
from benchmarks.error.table import Numbers, People
from benchmarks.measure import Line
from discreet.measurements.additive import AdditiveNoise

CONFIDENCE = 0.95
LONG = 4.0
QUESTIONS = ("count", "sum", "mean")


def bars(people: People, tables: Tables) -> Iterator[Line]:
    """Counts and sums cover as often as the law of their noise says, a mean at least as often as it claims."""
    exact = people.exact()
    for job in JOBS:
        if job.name in QUESTIONS and job.neighbors == ADD:
            for epsilon in EPSILONS:
                asked = tables.asked(job.sql, ADD, epsilon)
                held = np.array(runs(_covers(asked, float(exact[job.name][0])), LONG))
                yield from _compared(f"{job.name}, epsilon {epsilon:g}", held, coverage(asked))


def _compared(name: str, held: Numbers, law: float | None) -> Iterator[Line]:
    due = CONFIDENCE if law is None else law
    room = DEVIATIONS * math.sqrt(due * (1 - due) / len(held))
    said = f"at least {due:.2%}" if law is None else f"the law says {due:.2%}"
    yield Line(f"{name}, 95 % interval holds", held.mean(), "", due - room, True, f"{said}, {len(held):,} runs")
    if law is not None:
        yield Line(f"{name}, 95 % interval holds", held.mean(), "", due + room, False, said)


def _covers(asked: Asked, truth: float) -> Callable[[], list[float]]:
    def run() -> list[float]:
        low, high = asked.answer().interval(CONFIDENCE)
        return [low - 1e-9 <= truth <= high + 1e-9]

    return run


def coverage(asked: Asked) -> float | None:
    """The exact probability that an interval holds the truth; None where several totals answer together."""
    measured = asked.plan.measurements[0]
    noise = measured.single_noise if isinstance(measured, AdditiveNoise) else None
    if noise is None:
        return None
    return 1 - noise.tail_units(round(noise.interval(CONFIDENCE)[1] / float(noise.step)))
