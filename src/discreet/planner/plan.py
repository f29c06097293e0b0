"""What will be measured, with which noise, at what cost: from schema, question, epsilon and prior alone.

No row is looked at here, so a plan may be refused, explained and shown for nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from discreet.accuracy import Accuracy
from discreet.guarantee import Guarantee
from discreet.inference.belief import RELAID, Belief, PriorUse
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import Independent, Noise
from discreet.planner.chosen import Chosen
from discreet.planner.coverage import BY_ITSELF, Coverage, coverage_of
from discreet.planner.expected_rows import ONE_ROW, ExpectedRows
from discreet.planner.individual import AboutOne, OrderStatistic
from discreet.planner.meaning import Meaning
from discreet.planner.nested import Nested
from discreet.planner.noisy import Noisy
from discreet.planner.refined import RefinedTotal
from discreet.planner.threshold import Threshold
from discreet.prior import Grid, Prior
from discreet.query.canonical import canonical
from discreet.query.predicate import All, Predicate, Within
from discreet.query.query import Query
from discreet.query.totals import Bins, Cell, Measure, Texts
from discreet.schema import Column, Schema
from discreet.spend import Part, Spend


@dataclass(frozen=True, slots=True)
class Known:
    """A number that is public already: the declared number of units. It costs nothing and reads nothing."""

    value: int
    name: str = "public by the schema"


@dataclass(frozen=True, slots=True)
class Counted:
    """The noisy number of units that chose a key is itself the answer."""

    threshold: Threshold
    name: str = "discrete Laplace over a threshold"


Measurement = Known | Counted | Noisy | Nested | RefinedTotal | Chosen | OrderStatistic | AboutOne


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mechanism that could answer: what it costs, and the root mean square error of the refined value.

    The error is None where it depends on the rows, and so is not known beforehand; that of a mean of ranks, where one
    rank was asked for, is the one for rows that are spread evenly over the domain.
    """

    aggregate: str
    mechanism: str
    cost: Guarantee
    expected_error: float | None
    chosen: bool


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """One measurement for each aggregate; with private keys, a threshold before them.

    `rho` is set where noise was asked for by its size under approx-dp.
    """

    schema: Schema
    query: Query
    epsilon: Fraction
    measurements: tuple[Measurement, ...]
    threshold: Threshold | None
    guarantee: Guarantee
    cost: Spend
    prior: Prior | str | None
    belief: Belief | None = None
    candidates: tuple[Candidate, ...] = ()
    rho: Fraction | None = None
    expected_rows: ExpectedRows = ONE_ROW
    requested: Accuracy | None = None
    """The accuracy that the epsilon was found for, where one was requested."""

    @property
    def confidence(self) -> float:
        """The probability at which its accuracy is stated."""
        return 0.95 if self.requested is None else float(self.requested.confidence)

    @property
    def coverage(self) -> Coverage:
        """What the probability covers that is stated of a number: all of them, where rows are chosen by noisy ones."""
        layout = self.query.presentation
        if not layout.having and layout.limit is None:
            return BY_ITSELF
        noisy = [at for at, one in enumerate(self.measurements) if not isinstance(one, Known)]
        return coverage_of(self.query, self._rows(), noisy)

    def _rows(self) -> int | None:
        """How many rows a reply has before HAVING and LIMIT; with private keys that is not known."""
        first = self.measurements[0]
        if self.threshold is not None:
            return None
        if isinstance(first, Nested) and self.query.nesting == "rollup":
            return sum(len(level.starts) for level in first.levels)
        return math.prod(len(places(self.schema.column(key.column), key.width)) for key in self.query.keys)

    @property
    def free(self) -> bool:
        """Whether all of it is public already."""
        return all(isinstance(one, Known) for one in self.measurements)

    @property
    def mechanism(self) -> str:
        """The mechanisms by name."""
        return ", ".join(dict.fromkeys(one.name for one in self.measurements))

    @property
    def uses_prior(self) -> bool:
        """Whether a mechanism itself uses the prior, so that the answer is shaped by it."""
        one = self.measurements[0]
        return isinstance(one, RefinedTotal) or (isinstance(one, AboutOne | Chosen) and one.uses_prior)

    @property
    def prior_use(self) -> PriorUse | None:
        """How the analyst's prior is used; None where there is none, or nothing of the answer depends on it."""
        one = self.measurements[0]
        if isinstance(one, RefinedTotal | Chosen | AboutOne):
            return one.use
        return self.belief.use(drawn=False) if self.belief is not None and isinstance(one, Noisy) else None

    @property
    def prior_words(self) -> str:
        """How the analyst's prior is used, or that it is not and why, in one sentence; nothing where there is none."""
        one = self.measurements[0]
        if self.prior_use is not None:
            return self.prior_use.words
        why = one.unused if isinstance(one, Chosen) else "it is public already" if isinstance(one, Known) else ""
        return f"The prior is not used for this answer: {why}." if why and self.prior is not None else ""

    @property
    def account(self) -> str:
        """The model in whose accounts it is paid."""
        return "approx-dp" if self.guarantee.model == "zcdp" else self.guarantee.model

    @property
    def expected_error(self) -> float | None:
        """The root mean square error of the refined value; None for several aggregates, or where it is not known."""
        told = [one.expected_error for one in self.candidates if one.chosen]
        return told[0] if len(told) == 1 else None

    @property
    def prior_error(self) -> float | None:
        """What the analyst's prior leaves open by itself: its standard deviation; None where it is not over numbers."""
        one = self.measurements[0]
        if self.belief is not None:
            return self.belief.sd
        before = one.before() if isinstance(one, Chosen | AboutOne) and self.prior is not None else None
        return None if before is None or not before.numeric else math.sqrt(before.variance())

    def meaning(self, one: Noisy) -> Meaning:
        """What a noisy measurement of this plan means."""
        most = math.inf if self.schema.units is None else float(self.schema.units * self.schema.rows)
        return Meaning(one, float(self.expected_rows.number), most)

    @property
    def keys(self) -> tuple[Bins | Texts, ...]:
        """The group keys as a source counts them."""
        return tuple(_key(self.schema.column(key.column), key.width) for key in self.query.keys)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """All measures of all totals, each once, in one scan."""
        noisy = (one.form.measures for one in self.measurements if isinstance(one, Noisy | Nested | RefinedTotal))
        return tuple(dict.fromkeys(measure for measures in noisy for measure in measures))

    def cells(self) -> list[Cell]:
        """Every cell there can be, from the schema; with private keys that is not known."""
        first = self.measurements[0]
        if isinstance(first, Nested) and first.cells is not None:
            return list(first.cells)
        return cells_of(self.schema, self.query)

    @property
    def degradable(self) -> bool:
        """Whether a stored answer of a larger epsilon can be turned into this one by adding noise: degradation.md.

        All its noises are discrete Laplace, and their rates are in proportion to epsilon.
        """
        return self.threshold is None and all(map(_is_laplace, self.measurements))

    def question(self) -> str:
        """What names a stored answer: all but epsilon. A prior is named by its digest, and only where it was used."""
        told: dict[str, object] = {"query": json.loads(canonical(self.query)), "model": self.guarantee.model}
        told["facts"] = [self.schema.neighbours, self.schema.units, self.schema.unit, self.schema.rows]
        told["mechanism"] = [_parameters(one) for one in self.measurements]
        told["delta"] = None if self.guarantee.delta is None else str(self.guarantee.delta)
        rule = self.prior_use.rule if self.uses_prior and self.prior_use is not None else 1
        told["prior"] = _digest(self.prior, rule) if self.uses_prior else None
        if rule > 1:
            told["prior_rule"] = rule
        return json.dumps(told, sort_keys=True, ensure_ascii=False)

    def region(self) -> Part | None:
        """The one part of the data it is about, if it is about one."""
        replaced = 2 if self.schema.neighbours == "replace-one" else 1
        if self.query.unit is not None:
            return Part("individual", self.query.unit, replaced)
        part = _partition(self.query.where, self.schema.partition)
        if part is None or self.schema.partition is None:
            return None
        name = str(self.schema.column(self.schema.partition).value(part))
        return Part("partition", name, replaced * self.schema.rows)


def _key(column: Column, width: int) -> Bins | Texts:
    return Texts(column.name) if column.private_keys else Bins(column.name, column.lower, width)


def cells_of(schema: Schema, query: Query) -> list[Cell]:
    """Every cell of the public keys of a question, in order."""
    return list(product(*(places(schema.column(key.column), key.width) for key in query.keys)))


def places(column: Column, width: int) -> list[int | None]:
    """The cells of a public key, from the schema."""
    cells: list[int | None] = list(range(math.ceil(column.size / width)))
    return [*cells, None] if column.nullable else cells


def _partition(where: Predicate, column: str | None) -> int | None:
    """The one value of the partition column that a question is restricted to."""
    for part in where.parts if isinstance(where, All) else (where,):
        if isinstance(part, Within) and part.column == column and not part.null and len(part.ranges) == 1:
            low, high = part.ranges[0]
            return low if low == high else None
    return None


def _is_laplace(measurement: Measurement) -> bool:
    if isinstance(measurement, Known):
        return True
    noises = independent_noises(measurement)
    return bool(noises) and all(type(noise) is DiscreteLaplace for noise in noises)


def independent_noises(measurement: Measurement) -> tuple[Noise, ...]:
    """The noises that are drawn one by one, of each component or of each level; none where there are no such."""
    if isinstance(measurement, Nested):
        return tuple(level.noise for level in measurement.levels if level.noise is not None)
    if isinstance(measurement, Noisy) and isinstance(measurement.noise, Independent):
        return measurement.noise.noises
    return ()


def _parameters(measurement: Measurement) -> list[object]:
    """The mechanism and its parameters, but for epsilon and the prior."""
    if isinstance(measurement, Noisy) and measurement.together:
        return [measurement.name, *dict.fromkeys(str(component.scale) for component in measurement.form.components)]
    if isinstance(measurement, Noisy | RefinedTotal):
        form = measurement.form
        parts = [[component.weights, component.scale, str(component.square)] for component in form.components]
        own: list[object] = [measurement.name, parts, form.widths, form.moves, form.corners]
        if form.ranks is not None:
            own.append(form.ranks.candidates.width)
        # The places that were drawn count values of the number; they counted other steps once, under the name without.
        return own if isinstance(measurement, Noisy) else [*own, measurement.distance_name, "values"]
    if isinstance(measurement, Nested):
        levels = [[len(level.starts), str(level.share)] for level in measurement.levels]
        return [measurement.name, levels, measurement.known, measurement.form.components[0].scale]
    if isinstance(measurement, Known | Counted):
        return [measurement.name]
    own = [measurement.name, measurement.candidates.width, measurement.candidates.count]
    return own if isinstance(measurement, OrderStatistic) else [*own, measurement.distance_name]


def _digest(prior: Prior | str | None, rule: int) -> str | None:
    """A name for a prior that does not show it; with its shapes, where these and not its points are what is used."""
    if prior is None:
        return None
    if isinstance(prior, str):
        return hashlib.sha256(" ".join(prior.split()).encode()).hexdigest()
    own = [_grid_text(prior.grid), repr(prior.values), repr(prior.index.tolist()), repr(prior.mass.tolist())]
    if rule in RELAID:
        own.append(repr(prior.shape))
    return hashlib.sha256(f"({', '.join(own)})".encode()).hexdigest()


def _grid_text(grid: Grid | None) -> str:
    """A grid as the digest of a prior has it: these very letters, whatever the class and its fields are called."""
    if grid is None:
        return "None"
    origin, step = (f"Fraction({number.numerator}, {number.denominator})" for number in (grid.origin, grid.step))
    return f"Grid(origin={origin}, step={step})"
