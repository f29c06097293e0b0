"""Counts made to fit what must be true of them. Post-processing of what was drawn: it reads no row and costs nothing.

What they are made to fit comes from the schema, the question and the analyst, none of which is taken from the rows by
us; so the guarantee of the raw counts is that of the reconciled ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.answer import Answer, Interval, Reconciled, Reply
from discreet.custodian.draw import Released
from discreet.custodian.fitting import KEPT, Fit
from discreet.custodian.question import Question, read
from discreet.custodian.reader import Reader
from discreet.custodian.stating import Stated, plain_stated, require_countable, rules_of
from discreet.errors import DiscreetError
from discreet.formatting import format_number
from discreet.inference.refined import WHOLE, quantile
from discreet.kernel.discrete_gaussian import DiscreteGaussian
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.planner.choose import plan
from discreet.planner.estimates import Linear
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Known, Plan
from discreet.planner.structure import COUNTS
from discreet.posterior import Posterior
from discreet.schema import Schema

Array = NDArray[np.float64]
STEP = 1.0
"""Counts are whole, and so are their noises."""
LEAST_REFINED = 0.8
"""At lower confidences a refined interval is not known to hold."""
MOST_LAWS = 512
"""So many different draws are weighed with a prior, no more."""
KEPT_BY_PRIOR = "together the counts keep the total of what your prior made of them, as far as that fits"
LIFTED = 2.0
"""A sum of reconciled counts that is this many standard deviations of one cell above the raw sum is worse than it.

Lifting a noise below 0 to 0 takes 1.25 b^2 off the variance of a sum of Laplace noises of scale b, and adds b/2 to its
bias. So m empty cells make the square error of the sum larger from m = 5 on, where the bias is 1.8 standard deviations.
"""
NOTICED = 0.25
"""A bias below this share of the standard deviation of the whole sum is not worth a word."""
BY_PRIOR = "each count was first weighed with your prior by itself"
NOT_BY_PRIOR = "there are too many different counts to weigh each with your prior"


def counted(plan: Plan) -> list[int]:
    """The measurements of a plan that are counts with noise, or public, in every cell; none where that is not all."""
    pairs = zip(plan.query.aggregates, plan.measurements, strict=False)
    places = [at for at, (one, _) in enumerate(pairs) if one.function in COUNTS]
    own = [plan.measurements[at] for at in places]
    able = plan.threshold is None and all(isinstance(one, Noisy | Known) for one in own)
    return places if able and any(isinstance(one, Noisy) for one in own) else []


def check_stated(plan: Plan, stated: Sequence[Stated]) -> None:
    """Refuse what cannot be stated of a plan's count, and what no numbers fit, whatever the draw."""
    stated = plain_stated(stated)
    require_countable(len(counted(plan)), stated)
    if stated:
        rules = rules_of(plan, stated)
        shape = rules.structure.possible.shape
        _ = Fit(rules, np.zeros(shape), np.ones(shape)).values


def check_constraints(schema: Schema, question: Question, stated: Sequence[Stated], *given: Any, **more: Any) -> None:
    """Refuse, before anything is registered or charged, what cannot be stated of a question's count."""
    if stated:
        check_stated(plan(schema, read(question, schema), *given, **more), stated)


def or_as_drawn(made: Answer, fitting: Callable[[], Reconciled | None]) -> Reconciled | None:
    """What fits; where no such numbers were found, the rows as they were drawn, and why: they were paid for."""
    try:
        return fitting()
    except DiscreetError as refusal:
        return Reconciled(made.rows, made.intervals, (f"as drawn, since nothing that fits was found: {refusal}",))


def reconciled(
    made: Answer, reader: Reader, released: Released, order: Sequence[int], stated: Sequence[Stated]
) -> Reconciled | None:
    """The rows of an answer with their counts made to fit, over all cells and before HAVING and LIMIT."""
    noisy = Counts(reader, released, tuple(counted(reader.plan)))
    if not noisy.places:
        return None
    rules = rules_of(reader.plan, stated)
    fit = Fit(rules, noisy.values, noisy.variances)
    outputs = reader.plan.query.presentation.outputs
    labels = {one.label: noisy.places.index(one.aggregate) for one in outputs if one.aggregate in noisy.places}
    rows = tuple(
        {**row, **{label: _plain(fit.values[count, at]) for label, count in labels.items()}}
        for row, at in zip(made.rows, order, strict=True)
    )

    def intervals(confidence: float) -> tuple[Mapping[str, Interval], ...]:
        told = [{}] * len(order) if set(made.numbers) <= set(labels) else made.intervals(confidence)
        each = reader.plan.coverage.each(confidence)
        if each is None:
            return tuple({**row, **dict.fromkeys(labels)} for row in told)
        low, high = _spans(fit, noisy, each)
        return tuple(
            {**row, **{label: (float(low[count, at]), float(high[count, at])) for label, count in labels.items()}}
            for row, at in zip(told, order, strict=True)
        )

    words = KEPT if noisy.laws is None else KEPT_BY_PRIOR
    kept = [words] if any(map(fit.keeps, range(len(noisy.places)))) else []
    told = _advice(fit, noisy, labels) if noisy.laws is None and not rules.own else ""
    return Reconciled(rows, intervals, (*noisy.words, *rules.words, *kept), told)


def _advice(fit: Fit, noisy: Counts, labels: Mapping[str, int]) -> str:
    """Of each count whose reconciled cells add up worse than its raw ones."""
    found = []
    for label, count in labels.items():
        possible = fit.rules.structure.possible[count]
        variances, ends = noisy.variances[count][possible], fit.rules.structure.ends[count]
        if not len(variances):
            continue
        raw, made = float(noisy.raw[count][possible].sum()), float(fit.values[count][possible].sum())
        limits = Sums(raw, made, float(variances.max()), float(variances.sum()), ends.least, ends.most)
        said = limits.advice
        found += [f"{label}: {said}" if said and len(labels) > 1 else said]
    return " ".join(filter(None, found))


@dataclass(frozen=True, slots=True)
class Sums:
    """What the cells of a count add up to, raw and reconciled; from released numbers and public laws alone."""

    raw: float
    made: float
    cell: float
    """The variance of the noise of one cell."""
    whole: float
    """The variance of the noise of the raw sum."""
    least: int = 0
    most: int | None = None

    @property
    def worse(self) -> bool:
        """Whether the reconciled sum is worse: moved by more than noise explains, and not into what is possible."""
        nearest = max(self.raw, self.least) if self.most is None else min(max(self.raw, self.least), self.most)
        return abs(self.made - nearest) > max(LIFTED * math.sqrt(self.cell), NOTICED * math.sqrt(self.whole))

    @property
    def advice(self) -> str:
        """Which numbers to use for what; nothing where the reconciled ones serve for sums too."""
        if not self.worse:
            return ""
        made, raw, off = (format_number(number) for number in (self.made, self.raw, math.sqrt(self.whole)))
        return (
            f"Use the raw counts for sums and totals, and the reconciled ones for single cells. Most cells seem to be "
            f"nearly empty, and counts that are lifted to 0 make a sum too large: the reconciled counts add up to "
            f"{made}, the raw ones to {raw}, with a standard deviation of {off}."
        )


def _plain(value: float) -> Reply:
    return int(value) if value == int(value) else float(value)


@dataclass(frozen=True, eq=False)
class Counts:
    """The noisy counts of a reply, by count and cell, and how far each is off."""

    reader: Reader
    released: Released
    places: tuple[int, ...]

    @cached_property
    def laws(self) -> list[Posterior] | None:
        """What each cell's count is to someone with a prior; None without one, or where the draws are too many."""
        plan = self.reader.plan
        if plan.belief is None or len(self.places) != 1 or not isinstance(plan.measurements[self.places[0]], Noisy):
            return None
        at = self.places[0]
        if len({numbers[at] for numbers in self.released.numbers}) > MOST_LAWS:
            return None
        return [cast(Posterior, self.reader.posterior(at, numbers[at])) for numbers in self.released.numbers]

    @cached_property
    def raw(self) -> Array:
        """As they were drawn."""
        own = [[self.reader.values(at, cell[at])[0] for cell in self.released.numbers] for at in self.places]
        return np.array(own, dtype=np.float64)

    @property
    def values(self) -> Array:
        """What is made to fit: posterior means where there is a prior, else the raw counts."""
        return self.raw if self.laws is None else np.array([[law.mean() for law in self.laws]])

    @property
    def words(self) -> list[str]:
        """What became of a prior."""
        if self.reader.plan.belief is None:
            return []
        return [NOT_BY_PRIOR if self.laws is None else BY_PRIOR]

    @property
    def variances(self) -> Array:
        """How far each count varies."""
        if self.laws is not None:
            return np.array([[law.variance() + WHOLE for law in self.laws]])
        return np.repeat([[self._variance(at)] for at in self.places], len(self.released.cells), axis=1)

    def _variance(self, at: int) -> float:
        one = self.reader.plan.measurements[at]
        return 1.0 if not isinstance(one, Noisy) else self.reader.plan.meaning(one).line().sd ** 2 + WHOLE

    def spans(self, confidence: float) -> tuple[Array, Array]:
        """Where each count lies by itself, from the law of its own noise, or from its posterior."""
        if self.laws is not None:
            ends = np.array([[law.interval(confidence) for law in self.laws]])
            return ends[..., 0], ends[..., 1]
        reach = np.array([[self._reach(at, confidence)] for at in self.places])
        return self.raw - reach, self.raw + reach

    def _reach(self, at: int, confidence: float) -> float:
        one = self.reader.plan.measurements[at]
        return self.reader.plan.meaning(one).reach(confidence) if isinstance(one, Noisy) else 0.0

    def plainly_noisy(self, count: int) -> bool:
        """Whether each cell has Laplace or Gaussian noise of its own, which is what a refined interval assumes."""
        one = self.reader.plan.measurements[self.places[count]]
        plain = isinstance(one, Noisy) and isinstance(one.form.estimate, Linear)
        return self.laws is None and plain and isinstance(one.single, DiscreteLaplace | DiscreteGaussian)  # type: ignore[union-attr]


def _spans(fit: Fit, noisy: Counts, confidence: float) -> tuple[Array, Array]:
    """Where each count lies: of its own interval and the refined one the narrower, which is settled before any draw.

    Cut to what is possible, and widened to hold the number that is told.
    """
    low, high = noisy.spans(confidence)
    counts, cells = fit.noisy.shape
    for places, first in fit.parts if confidence >= LEAST_REFINED else ():
        plain = np.array([fit.tied(count) and noisy.plainly_noisy(count) for count in range(counts)])[places // cells]
        if not plain.any():
            continue
        half = quantile(confidence) * np.sqrt(first.variances()) + STEP / 2
        better = places[plain & (2 * half < (high - low).flat[places])]
        at = np.searchsorted(places, better)
        low.flat[better], high.flat[better] = first.centre[at] - half[at], first.centre[at] + half[at]
    most = np.array([[np.inf if ends.each is None else ends.each] for ends in fit.rules.structure.ends])
    low, high = np.clip(low, 0, most), np.clip(high, 0, most)
    low, high = np.minimum(low, fit.values), np.maximum(high, fit.values)
    empty = ~fit.rules.structure.possible
    return np.where(empty, 0.0, low), np.where(empty, 0.0, high)
