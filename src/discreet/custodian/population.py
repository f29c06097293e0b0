"""Counts, means and proportions as estimates for the population that the units are a random sample of.

Post-processing: it sees the plan and what was released, never a row. What is not public but enters, the number of rows
under a mean and the variance beside it, enters by the safe end of an interval that has a tenth of the miss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, cast

from discreet.answer import NO_POPULATION, Population
from discreet.custodian.draw import Released
from discreet.custodian.question import Question, read
from discreet.custodian.reader import Reader
from discreet.errors import InvalidInput, Unsupported
from discreet.exact import whole
from discreet.inference.line import Spread
from discreet.inference.sampling import Above, Law, Sampled, binomial, hypergeometric, normal, poisson, tabulated
from discreet.planner.choose import plan
from discreet.planner.meaning import Meaning
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Counted, Known, Plan
from discreet.schema import Column, Schema

Numbers = Sequence[tuple[int, ...]]

ASKED = frozenset({"count", "count_distinct", "avg"})
SPREADS = frozenset({"var", "stddev"})
SIDE = 0.1
"""The part of the miss that each number has which only helps."""
FEW = 30
"""Of fewer units a mean is not taken as normal, whatever its variance."""
RANDOM = "the units are taken as a simple random sample"
TOLD = "the most that was told, and what a sample may hide of it"
LARGEST = "the largest that mean and bounds allow"
NOT_SHOWN = (
    "rows that are chosen by their noisy numbers among private keys have no interval for the population; leave out "
    "HAVING, and LIMIT after ORDER BY"
)


def check_population(schema: Schema, question: Question, size: object, *given: Any, **more: Any) -> None:
    """Refuse, before anything is charged, what has no interval for the population."""
    _check(plan(schema, read(question, schema), *given, **more), size)


def generalises(plan: Plan) -> bool:
    """Whether a number of the plan is a count, mean or proportion with noise of its own."""
    return bool(_told(plan))


def _told(plan: Plan) -> dict[str, int]:
    """The numbers that speak for a population, by name, and the measurement each is of."""
    outputs = plan.query.presentation.outputs
    named = {output.label: output.aggregate for output in outputs if output.aggregate is not None}
    return {label: at for label, at in named.items() if _speaks(plan, at)}


def _speaks(plan: Plan, at: int) -> bool:
    own = plan.query.aggregates[at].function in ASKED
    return own and isinstance(plan.measurements[at], Known | Counted | Noisy)


def _check(plan: Plan, size: object) -> int | None:
    """The size of the population, if it was given and can be used."""
    schema, told = plan.schema, _told(plan)
    if not told:
        raise InvalidInput(NO_POPULATION)
    of_rows = [name for name, at in told.items() if plan.query.aggregates[at].function != "count_distinct"]
    if schema.rows > 1 and of_rows:
        raise Unsupported(
            f"units are drawn from a population, and one may have {schema.rows} rows here, so {of_rows[0][:40]} has no "
            f"interval for it; ask for COUNT(DISTINCT {schema.unit}) alone"
        )
    if plan.coverage.chosen and plan.coverage.rows is None:
        raise Unsupported(NOT_SHOWN)
    if size is None:
        return None
    if schema.units is None:
        raise InvalidInput(
            f"the size of a population is of use where the number of units is public; that of {schema.name} is not, "
            "so leave it out"
        )
    population = whole(size, "the size of the population")
    if population < schema.units:
        raise InvalidInput(
            f"the population has at least the {schema.units:,} units of {schema.name}; got {population:,}"
        )
    return population


def generalised(
    reader: Reader, released: Released, order: Sequence[int], confidence: float, size: object
) -> tuple[Mapping[str, Population], ...]:
    """For each row of the reply its numbers as estimates for the population."""
    population, told, coverage = _check(reader.plan, size), _told(reader.plan), reader.plan.coverage
    each = coverage.each(confidence)
    if each is None:
        raise Unsupported(NOT_SHOWN)
    sample, at_once = Sample(reader, each, population), coverage.sentence(confidence)

    def number(name: str, at: int, numbers: Numbers) -> Population:
        own = sample.number(name, at, numbers)
        words = f"{own.words}; {at_once[:1].lower()}{at_once[1:-1]}" if at_once else own.words
        return replace(own, confidence=confidence, words=words)

    return tuple({name: number(name, at, released.numbers[row]) for name, at in told.items()} for row in order)


@dataclass(frozen=True, eq=False, slots=True)
class Sample:
    """The units of one reply as a random sample; `size` is that of the population, where it is given."""

    reader: Reader
    confidence: float
    size: int | None
    _meanings: dict[int, Meaning] = field(default_factory=dict)
    _noises: dict[int, Above] = field(default_factory=dict)
    _found: dict[tuple[int, Numbers], Population] = field(default_factory=dict)

    def number(self, name: str, at: int, numbers: Numbers) -> Population:
        """One number of one row; the same draws tell the same."""
        if (at, numbers) not in self._found:
            self._found[at, numbers] = self._number(name, at, numbers)
        return self._found[at, numbers]

    def _number(self, name: str, at: int, numbers: Numbers) -> Population:
        if isinstance(self.reader.plan.measurements[at], Known):
            return self._all(name)
        value = float(cast(Fraction, self.reader.values(at, numbers[at])[0]))
        if self.reader.plan.query.aggregates[at].function == "avg":
            return self._mean(name, at, value, numbers)
        made = self._count(name, at, value, numbers)
        return made if self._clear(at, numbers[at]) else replace(made, interval=(0.0, made.interval[1]))

    def _all(self, name: str) -> Population:
        """A count of every unit: neither noise nor the draw of the sample moves it."""
        count = float(self.size or self.reader.plan.schema.units or 0)
        words = f"every unit counts, so that it is the size of the {'sample' if self.size is None else 'population'}"
        return Population(name, count, (count, count), self.confidence, 0.0, 0.0, words)

    def _count(self, name: str, at: int, value: float, numbers: Numbers) -> Population:
        units, noise, reach = self.reader.plan.schema.units, self._noise(at), self._reach(at, numbers[at])
        if units is None:
            told = Sampled(value, poisson, noise, (0.0, math.inf), math.sqrt(max(value, 0.0) + 1))
            words = f"the count to be expected in such a sample; {RANDOM}, their number not being public"
            return self._made(name, told, self.confidence, (0.0, 1.0), reach, words)
        told = _share(value / units, _drawn(units, self.size), noise, units, units)
        words = f"the count to be expected in such a sample of {units:,}; {RANDOM}"
        if self.size is not None:
            words = f"the count in the population of {self.size:,}; {RANDOM} of {units:,}"
        most = float(self.size or units)
        return self._made(name, told, self.confidence, (0.0, most), reach * most / units, words)

    def _noise(self, at: int) -> Above:
        """The noise of a number that is one total."""
        if at not in self._noises:
            one = self.reader.plan.measurements[at]
            line = Spread(one.threshold.noise, 1.0) if isinstance(one, Counted) else self._meaning(at).line()
            self._noises[at] = tabulated(line)
        return self._noises[at]

    def _clear(self, at: int, drawn: tuple[int, ...]) -> bool:
        """Whether a key would have been shown without its noise; if not, only the upper end says anything."""
        one = self.reader.plan.measurements[at]
        if not isinstance(one, Counted):
            return True
        return drawn[0] - one.threshold.noise.interval(self.confidence)[1] > one.threshold.least

    def _mean(self, name: str, at: int, value: float, numbers: Numbers) -> Population:
        column = self.reader.plan.schema.column(self.reader.plan.query.aggregates[at].column or "")
        low, width = float(column.lower * column.step), float((column.upper - column.lower) * column.step)
        units, noise, public = self._behind(at, value, numbers[at])
        if units < 1 or not width:
            words = self._words(column, public, beside=False)
            return Population(name, value, (low, low + width), self.confidence, width / 2, width / 2, words)
        share, size = (value - low) / width, self.size if public else None
        variance = self._hidden(self._variance(at, numbers) / width**2, units)
        beside = units >= FEW and variance < share * (1 - share)
        law = _averaged(units, size, variance) if beside else _drawn(units, size)
        miss = (1 - self.confidence) * (1 - SIDE * ((not public) + 2 * math.isfinite(variance)))
        told = _share(share, law, noise, width, units)
        reach, words = self._reach(at, numbers[at]), self._words(column, public, beside)
        return self._made(name, told, 1 - miss, (low, width), reach, words)

    def _behind(self, at: int, value: float, drawn: tuple[int, ...]) -> tuple[int, Above, bool]:
        """Of how many units a mean is, its noise, and whether their number is public.

        The totals tell a mean times the noisy number of rows m, not the exact one n (Fieller 1954): the sample's error
        is told n / m times, so it is as that of m^2 / n units.
        """
        ratio, most = self._meaning(at).ratio, self.reader.plan.schema.units
        if ratio is None:
            return most or 0, self._noise(at), True
        rows = max(ratio.rows(drawn), 0.0)
        beyond = max(ratio.most_rows(drawn, self._side), 1.0)
        units = math.floor(min(rows, rows**2 / min(beyond, most or math.inf)))
        line = ratio.line(ratio.share(value), rows)
        half = sum(map(abs, ratio.scaled(ratio.share(value), rows))) / 2
        # The tails of a weighted sum are those of noises spread over their cells, half a unit farther than they are.
        return units, lambda away: line.above(away - half), False

    def _variance(self, at: int, numbers: Numbers) -> float:
        """The most that the variance under a mean may be, where it was asked for beside it."""
        aggregates = self.reader.plan.query.aggregates
        for place, beside in enumerate(aggregates):
            if beside.function in SPREADS and beside.column == aggregates[at].column:
                span = self.reader.span(place, numbers[place], self._side)
                most = math.inf if span is None else float(cast(float, span[1]))
                return most if beside.function == "var" else most**2
        return math.inf

    def _hidden(self, variance: float, units: int) -> float:
        """With what a sample may hide of the population's variance, between 0 and 1 (Maurer and Pontil 2009)."""
        if units < FEW or math.isinf(variance):
            return math.inf
        beyond = math.sqrt(2 * math.log(1 / (1 - self._side)) / (units - 1))
        return (math.sqrt(variance) + beyond) ** 2

    def _words(self, column: Column, public: bool, beside: bool) -> str:
        what = "proportion" if column.kind == "boolean" else "mean"
        own = f" of {self.size:,}" if self.size is not None and public else ""
        said = [f"the {what} in the population{own}", RANDOM]
        if self.size is not None and not public:
            said.append("the size does not enter, since the number of rows behind it is not public")
        if column.kind != "boolean":
            said.append(f"their variance is taken as {TOLD if beside else LARGEST}")
        return "; ".join(said)

    def _made(
        self, name: str, told: Sampled, confidence: float, place: tuple[float, float], reach: float, words: str
    ) -> Population:
        """In units of the answer, from where it is counted and by how much."""
        low, width = place
        least, most = told.interval(confidence)
        span = low + width * least, low + width * most
        sampling = width * told.by_sampling(self.confidence)
        return Population(name, low + width * told.value, span, self.confidence, reach, sampling, words)

    def _reach(self, at: int, drawn: tuple[int, ...]) -> float:
        """How far the noise alone goes: half the interval of the exact number."""
        low, high = cast("tuple[float, float]", self.reader.span(at, drawn, self.confidence))
        return (high - low) / 2

    @property
    def _side(self) -> float:
        return 1 - (1 - self.confidence) * SIDE

    def _meaning(self, at: int) -> Meaning:
        if at not in self._meanings:
            self._meanings[at] = self.reader.plan.meaning(cast(Noisy, self.reader.plan.measurements[at]))
        return self._meanings[at]


def _share(told: float, law: Law, noise: Above, unit: float, units: int) -> Sampled:
    """A number between 0 and 1, whose noise is told in other units."""
    return Sampled(told, law, lambda away: noise(away * unit), (0.0, 1.0), units**-0.5)


def _drawn(units: int, size: int | None) -> Law:
    """The share of a sample, or a mean of which no variance is known."""
    return binomial(units) if size is None else hypergeometric(units, size)


def _averaged(units: int, size: int | None, variance: float) -> Law:
    """A mean of known variance, no more than it can be about a target."""
    left = 1.0 if size is None else 1 - units / size
    return normal(lambda share: math.sqrt(min(variance, share * (1 - share)) * left / units))
