"""What a prior adds when it is right, and what it costs when it is wrong.

Priors are normal; their sd is told in units of the raw error. Where one is right, the truth is drawn from it anew for
each run; where it is off by so many of its sds, the truth stays and the centre is that much too high.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.error.by_discreet import PlannedQuestion, Tables
from benchmarks.error.contestant import collect_runs
from benchmarks.error.jobs import ADD, EPSILONS, JOBS, STEP
from benchmarks.error.race import DEVIATIONS
from benchmarks.error.table import Numbers, People
from benchmarks.measure import Line
from discreet.answers.answer import Answer
from discreet.query.scan import Amounts, Cell, ScanMeasure, TotalsScan

QUESTIONS = ("count", "mean")
WIDTHS, NARROW = (0.5, 1.0, 2.0), (0.1, 0.25)
OFFSETS = (0, 3, 10)
RIGHT = {0.5: 0.5, 1.0: 0.75}
WRONG = {0.5: 3.2, 1.0: 1.2, 2.0: 1.2}
"""The most that an error may be, over the raw one: where the prior is right, and where it is off by ten of its sds."""
FALSE_ALARMS, ALARMS = 0.01, 0.9
NEAR = {(0.5, 0), (1.0, 0), (1.0, 10)}
LONG, SHORT, ENOUGH = 10.0, 0.8, 4_000
"""Seconds for the errors that are near their bars, and for the rest, and how many runs are enough."""
Case = tuple[str, float, float, int]
"""Question, epsilon, the prior's sd over the raw error, and by how many of its sds it is off."""


@dataclass(frozen=True)
class ImaginarySource:
    """A source whose rows that satisfy a filter are so many, and their codes add up to so much."""

    rows: int
    codes: int

    def totals(self, plan: TotalsScan) -> Mapping[Cell, Amounts]:
        return {(): tuple(self._amount(measure) for measure in plan.measures)}

    def _amount(self, measure: ScanMeasure) -> int:
        return self.codes - measure.lower * self.rows if measure.what == "sum" else self.rows


@dataclass(frozen=True)
class Truth:
    """The number asked for, and a table it is true of."""

    question: str
    value: float
    rows: int

    def nearest(self, value: float) -> Truth:
        """The nearest that a table can have."""
        if self.question == "count":
            return Truth(self.question, float(round(value)), round(value))
        return Truth(self.question, round(value * self.rows / STEP) * STEP / self.rows, self.rows)

    def normal_sd(self, sd: float) -> float:
        """The sd of a normal law which on whole numbers has this one: rounding a count adds 1/12 to its variance."""
        return math.sqrt(max(sd**2 - 1 / 12, sd**2 / 4)) if self.question == "count" else sd

    @property
    def source(self) -> ImaginarySource:
        return ImaginarySource(self.rows, 0 if self.question == "count" else round(self.value * self.rows / STEP))


@dataclass(frozen=True, eq=False)
class Outcome:
    """The raw errors and those of the posterior mean, of the same runs; of more runs, whether there was a warning."""

    errors: Numbers
    warnings: Numbers

    @property
    def ratio(self) -> float:
        raw, refined = (self.errors**2).mean(axis=0)
        return math.sqrt(refined / raw)

    @property
    def warning_share(self) -> float:
        return float(self.warnings.mean())

    def margin(self, share: float) -> float:
        """How far the share of warnings may be from the true one by chance."""
        return DEVIATIONS * math.sqrt(share * (1 - share) / len(self.warnings))


def run_trials(people: People, tables: Tables) -> Iterator[tuple[Case, Outcome]]:
    """Every case, one by one."""
    truths = {
        "count": Truth("count", float(people.is_rich.sum()), int(people.is_rich.sum())),
        "mean": Truth("mean", float(people.income[people.is_old].mean()), int(people.is_old.sum())),
    }
    questions = {job.name: job.sql for job in JOBS if job.name in QUESTIONS and job.neighbors == ADD}
    generator = np.random.Generator(np.random.PCG64(2))
    for name, sql in questions.items():
        for epsilon in EPSILONS:
            raw = _measure_raw_error(tables.plan_question(sql, ADD, epsilon), truths[name].value)
            for width, off in product((*NARROW, *WIDTHS), OFFSETS):
                sd = truths[name].normal_sd(width * raw)
                prior = f"normal({truths[name].value + off * width * raw:.6f}, {sd:.6f})"
                trial = Trial(tables.plan_question(sql, ADD, epsilon, prior), truths[name], 0 if off else sd, generator)
                yield (name, epsilon, width, off), trial.run(LONG if (width, off) in NEAR else SHORT)


def _measure_raw_error(question: PlannedQuestion, truth: float) -> float:
    answers = np.array(collect_runs(question.answer_numbers))
    return math.sqrt(((answers - truth) ** 2).mean())


@dataclass(frozen=True, eq=False)
class Trial:
    """One prior on one question; `sd` is by how much the truth differs from run to run."""

    question: PlannedQuestion
    truth: Truth
    sd: float
    generator: np.random.Generator

    def run(self, seconds: float) -> Outcome:
        return Outcome(
            np.array(collect_runs(self.draw_errors, seconds, ENOUGH)), np.array(collect_runs(self.draw_warning, SHORT))
        )

    def draw_errors(self) -> list[float]:
        """Of a new answer: raw, and of its posterior mean."""
        truth, answer = self._answer()
        return [answer.value - truth.value, answer.posterior.mean() - truth.value]

    def draw_warning(self) -> list[float]:
        """Whether a new answer came with a warning."""
        return [self._answer()[1].warning is not None]

    def _answer(self) -> tuple[Truth, Answer]:
        truth = self.truth.nearest(self.generator.normal(self.truth.value, self.sd)) if self.sd else self.truth
        return truth, self.question.over_source(truth.source).draw_answer()


def format_table(outcomes: Mapping[Case, Outcome]) -> Iterator[str]:
    """A row for each prior."""
    yield "\npriors: error of the posterior mean over the raw one (root mean square), and how many runs warned"
    titles = ("right", *(f"off by {off} sd" for off in OFFSETS[1:]))
    yield f"{'':<24}{'sd / raw error':>15}" + "".join(f"{title:>17}{'warned':>9}" for title in titles)
    for name in QUESTIONS:
        for epsilon in EPSILONS:
            for width in (*NARROW, *WIDTHS):
                cases = [outcomes[name, epsilon, width, off] for off in OFFSETS]
                cells = "".join(f"{case.ratio:>17.3f}{case.warning_share:>9.1%}" for case in cases)
                yield f"{f'{name}, epsilon {epsilon:g}':<24}{width:>15}{cells}"


def list_bars(outcomes: Mapping[Case, Outcome]) -> Iterator[Line]:
    """Better where right, hardly worse where wrong, warned of where far off and hardly ever else."""
    for name in QUESTIONS:
        for epsilon in EPSILONS:
            for width in WIDTHS:
                about = f"{name}, epsilon {epsilon:g}, prior sd {width:g}"
                right, off, far = (outcomes[name, epsilon, width, steps] for steps in OFFSETS)
                if width in RIGHT:
                    yield Line(f"{about}, right", right.ratio, "times", RIGHT[width], False)
                yield Line(f"{about}, off by 3", off.ratio, "times", 2, False)
                yield Line(f"{about}, off by 10", far.ratio, "times", WRONG[width], False)
                most = FALSE_ALARMS + right.margin(FALSE_ALARMS)
                yield Line(f"{about}, false warnings", right.warning_share, "", most, False, "1 % and chance")
                least = ALARMS - far.margin(ALARMS)
                yield Line(f"{about}, off by 10, warned", far.warning_share, "", least, True, "90 % but for chance")
