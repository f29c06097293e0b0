"""How often a 95 % interval holds the truth, beside how often it must."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.error.by_discreet import PlannedQuestion, Tables
from benchmarks.error.contestant import collect_runs
from benchmarks.error.jobs import ADD, EPSILONS, JOBS
from benchmarks.error.race import DEVIATIONS
from benchmarks.error.table import Numbers, People
from benchmarks.measure import Line
from discreet.measurements.additive import AdditiveNoise

CONFIDENCE = 0.95
LONG = 4.0
QUESTIONS = ("count", "sum", "mean")


def list_bars(people: People, tables: Tables) -> Iterator[Line]:
    """Counts and sums cover as often as the law of their noise says, a mean at least as often as it claims."""
    exact = people.exact()
    for job in JOBS:
        if job.name in QUESTIONS and job.neighbors == ADD:
            for epsilon in EPSILONS:
                question = tables.plan_question(job.sql, ADD, epsilon)
                is_covered = np.array(collect_runs(_build_coverage_run(question, float(exact[job.name][0])), LONG))
                yield from _compare_with_due(f"{job.name}, epsilon {epsilon:g}", is_covered, compute_coverage(question))


def _compare_with_due(name: str, is_covered: Numbers, law: float | None) -> Iterator[Line]:
    due = CONFIDENCE if law is None else law
    room = DEVIATIONS * math.sqrt(due * (1 - due) / len(is_covered))
    due_text = f"at least {due:.2%}" if law is None else f"the law says {due:.2%}"
    yield Line(
        f"{name}, 95 % interval holds", is_covered.mean(), "", due - room, True, f"{due_text}, {len(is_covered):,} runs"
    )
    if law is not None:
        yield Line(f"{name}, 95 % interval holds", is_covered.mean(), "", due + room, False, due_text)


def _build_coverage_run(question: PlannedQuestion, truth: float) -> Callable[[], list[float]]:
    def run() -> list[float]:
        low, high = question.draw_answer().interval(CONFIDENCE)
        return [low - 1e-9 <= truth <= high + 1e-9]

    return run


def compute_coverage(question: PlannedQuestion) -> float | None:
    """The exact probability that an interval holds the truth; None where several totals answer together."""
    measurement = question.plan.measurements[0]
    noise = measurement.single_noise if isinstance(measurement, AdditiveNoise) else None
    if noise is None:
        return None
    return 1 - noise.tail_units(round(noise.interval(CONFIDENCE)[1] / float(noise.step)))
