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

from benchmarks.error.contestant import runs
from benchmarks.error.jobs import ADD, EPSILONS, JOBS, STEP
from benchmarks.error.ours import Asked, Tables
from benchmarks.error.race import DEVIATIONS
from benchmarks.error.table import Numbers, People
from benchmarks.measure import Line
from discreet.answers.answer import Answer
from discreet.query.scan import Amounts, Cell, ScanMeasure, TotalsScan

QUESTIONS = ("count", "mean")
WIDTHS, NARROW = (0.5, 1.0, 2.0), (0.1, 0.25)
OFF = (0, 3, 10)
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
class Imagined:
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

    def at(self, value: float) -> Truth:
        """The nearest that a table can have."""
        if self.question == "count":
            return Truth(self.question, float(round(value)), round(value))
        return Truth(self.question, round(value * self.rows / STEP) * STEP / self.rows, self.rows)

    def spread(self, sd: float) -> float:
        """The sd of a normal law which on whole numbers has this one: rounding a count adds 1/12 to its variance."""
        return math.sqrt(max(sd**2 - 1 / 12, sd**2 / 4)) if self.question == "count" else sd

    @property
    def source(self) -> Imagined:
        return Imagined(self.rows, 0 if self.question == "count" else round(self.value * self.rows / STEP))


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
    def warned(self) -> float:
        return float(self.warnings.mean())

    def chance(self, share: float) -> float:
        """How far the share of warnings may be from the true one by chance."""
        return DEVIATIONS * math.sqrt(share * (1 - share) / len(self.warnings))


def outcomes(people: People, tables: Tables) -> Iterator[tuple[Case, Outcome]]:
    """Every case, one by one."""
    known = {
        "count": Truth("count", float(people.rich.sum()), int(people.rich.sum())),
        "mean": Truth("mean", float(people.income[people.old].mean()), int(people.old.sum())),
    }
    questions = {job.name: job.sql for job in JOBS if job.name in QUESTIONS and job.neighbors == ADD}
    chance = np.random.Generator(np.random.PCG64(2))
    for name, sql in questions.items():
        for epsilon in EPSILONS:
            raw = _raw_error(tables.asked(sql, ADD, epsilon), known[name].value)
            for width, off in product((*NARROW, *WIDTHS), OFF):
                sd = known[name].spread(width * raw)
                prior = f"normal({known[name].value + off * width * raw:.6f}, {sd:.6f})"
                trial = Trial(tables.asked(sql, ADD, epsilon, prior), known[name], 0 if off else sd, chance)
                yield (name, epsilon, width, off), trial.outcome(LONG if (width, off) in NEAR else SHORT)


def _raw_error(asked: Asked, truth: float) -> float:
    found = np.array(runs(asked.numbers))
    return math.sqrt(((found - truth) ** 2).mean())


@dataclass(frozen=True, eq=False)
class Trial:
    """One prior on one question; `sd` is by how much the truth differs from run to run."""

    asked: Asked
    about: Truth
    sd: float
    chance: np.random.Generator

    def outcome(self, seconds: float) -> Outcome:
        return Outcome(np.array(runs(self.errors, seconds, ENOUGH)), np.array(runs(self.warned, SHORT)))

    def errors(self) -> list[float]:
        """Of a new answer: raw, and of its posterior mean."""
        truth, answer = self._answered()
        return [answer.value - truth.value, answer.posterior.mean() - truth.value]

    def warned(self) -> list[float]:
        """Whether a new answer came with a warning."""
        return [self._answered()[1].warning is not None]

    def _answered(self) -> tuple[Truth, Answer]:
        truth = self.about.at(self.chance.normal(self.about.value, self.sd)) if self.sd else self.about
        return truth, self.asked.of(truth.source).answer()


def table(found: Mapping[Case, Outcome]) -> Iterator[str]:
    """A row for each prior."""
    yield "\npriors: error of the posterior mean over the raw one (root mean square), and how many runs warned"
    titles = ("right", *(f"off by {off} sd" for off in OFF[1:]))
    yield f"{'':<24}{'sd / raw error':>15}" + "".join(f"{title:>17}{'warned':>9}" for title in titles)
    for name in QUESTIONS:
        for epsilon in EPSILONS:
            for width in (*NARROW, *WIDTHS):
                cases = [found[name, epsilon, width, off] for off in OFF]
                told = "".join(f"{case.ratio:>17.3f}{case.warned:>9.1%}" for case in cases)
                yield f"{f'{name}, epsilon {epsilon:g}':<24}{width:>15}{told}"


def bars(found: Mapping[Case, Outcome]) -> Iterator[Line]:
    """Better where right, hardly worse where wrong, warned of where far off and hardly ever else."""
    for name in QUESTIONS:
        for epsilon in EPSILONS:
            for width in WIDTHS:
                about = f"{name}, epsilon {epsilon:g}, prior sd {width:g}"
                right, off, far = (found[name, epsilon, width, steps] for steps in OFF)
                if width in RIGHT:
                    yield Line(f"{about}, right", right.ratio, "times", RIGHT[width], False)
                yield Line(f"{about}, off by 3", off.ratio, "times", 2, False)
                yield Line(f"{about}, off by 10", far.ratio, "times", WRONG[width], False)
                most = FALSE_ALARMS + right.chance(FALSE_ALARMS)
                yield Line(f"{about}, false warnings", right.warned, "", most, False, "1 % and chance")
                least = ALARMS - far.chance(ALARMS)
                yield Line(f"{about}, off by 10, warned", far.warned, "", least, True, "90 % but for chance")
