"""What will be measured, with which noise, at what cost: from schema, question, epsilon and prior alone.

No row is looked at here, so a plan may be refused, explained and shown for nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TypeVar

from discreet.estimation.grid_prior import GridPrior
from discreet.json_fields import JsonSerializable
from discreet.measurements.base import Measurement, NoisyOutputs, Reading, ReadingContext, TotalsRequest
from discreet.measurements.contribution_bounds import ONE_ROW, PLAIN_COVERAGE, Coverage, ExpectedRows, find_coverage
from discreet.measurements.hierarchical import BlockCounts
from discreet.measurements.threshold import Threshold
from discreet.planner.domain_partition import count_axis_cells
from discreet.planner.options import Accuracy
from discreet.priors.prior import COARSE_GRID_RULES, Grid, Prior, PriorUse
from discreet.privacy.cost import PrivacyCost, SubAccount
from discreet.privacy.guarantee import Guarantee
from discreet.query.predicates import AllOf, InRanges, Predicate
from discreet.query.query import Query, format_canonical_query
from discreet.query.scan import BinKey, Cell, ScanMeasure, TextKey
from discreet.schema import Column, Schema
from discreet.untrusted import CheckedValue

Value = TypeVar("Value")
PRIVATE_KEY_CELLS = 4096
"""So many values of a private key are allowed for."""


@dataclass(frozen=True, slots=True)
class NoisyResult:
    """The noisy outputs: for every cell, and there for every aggregate, whole numbers."""

    cells: tuple[Cell, ...]
    numbers: tuple[tuple[NoisyOutputs, ...], ...]


@dataclass(frozen=True, slots=True)
class Candidate(JsonSerializable):
    """A mechanism that could answer: what it costs, and the root mean square error of the refined value.

    The error is None where it depends on the rows, and so is not known beforehand; that of a mean of ranks, where one
    rank was asked for, is the one for rows that are spread evenly over the domain.
    """

    aggregate: str
    mechanism: str
    cost: Guarantee
    expected_error: float | None
    chosen: bool

    _json_fields = "aggregate mechanism expected_error cost chosen"


@dataclass(frozen=True, eq=False)
class Plan(CheckedValue):
    """The measurements that answer all aggregates; with private keys, a threshold before them.

    `rho` is set where noise was asked for by its size under approx-dp.
    """

    schema: Schema
    query: Query
    epsilon: Fraction
    measurements: tuple[Measurement, ...]
    threshold: Threshold | None
    guarantee: Guarantee
    cost: PrivacyCost
    prior: Prior | str | None
    grid_prior: GridPrior | None = None
    candidates: tuple[Candidate, ...] = ()
    rho: Fraction | None = None
    expected_rows: ExpectedRows = ONE_ROW
    target_accuracy: Accuracy | None = None
    """The accuracy that the epsilon was found for, where one was requested."""

    @property
    def confidence(self) -> float:
        """The probability at which the accuracy is stated."""
        return 0.95 if self.target_accuracy is None else float(self.target_accuracy.confidence)

    @property
    def coverage(self) -> Coverage:
        """What the probability covers that is stated of a number: all of them, where rows are chosen by noisy ones."""
        layout = self.query.presentation
        if not layout.having and layout.limit is None:
            return PLAIN_COVERAGE
        noisy = [index for item in self.measurements if not item.is_public for index in item.aggregates]
        return find_coverage(self.query, self._count_reply_rows(), noisy)

    def _count_reply_rows(self) -> int | None:
        """How many rows a reply has before HAVING and LIMIT; with private keys that is not known."""
        if self.threshold is not None:
            return None
        if self.hierarchy is not None and self.query.nesting == "rollup":
            return sum(len(level.starts) for level in self.hierarchy.levels)
        return math.prod(count_axis_cells(self.schema.column(key.column), key.width) for key in self.query.keys)

    @property
    def is_free(self) -> bool:
        """Whether all of it is public already."""
        return all(measurement.is_public for measurement in self.measurements)

    @property
    def hierarchy(self) -> BlockCounts | None:
        """The nested blocks that are counted, whose values are read together; None where there are none."""
        return self.measurements[0].hierarchy

    @property
    def max_rows(self) -> float:
        """The most rows that the table can have."""
        return self._context.max_rows

    @property
    def _context(self) -> ReadingContext:
        return ReadingContext(
            schema=self.schema,
            has_groups=bool(self.query.keys),
            grid_prior=self.grid_prior,
            expected_rows=self.expected_rows,
            coverage=self.coverage,
        )

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """What the outputs say, for each number by its place among the aggregates."""
        context = self._context
        pairs = ((item.aggregates, item.read(context)) for item in self.measurements)
        numbered = [pair for indices, readings in pairs for pair in zip(indices, readings, strict=True)]
        return tuple(reading for _, reading in sorted(numbered, key=lambda pair: pair[0]))

    def spread_by_aggregate(self, by_measurement: Sequence[Value]) -> list[Value]:
        """Put what each measurement has at the places of the aggregates that it answers."""
        pairs = zip(self.measurements, by_measurement, strict=True)
        numbered = [(index, value) for measurement, value in pairs for index in measurement.aggregates]
        return [value for _, value in sorted(numbered, key=lambda pair: pair[0])]

    @property
    def mechanism(self) -> str:
        """The mechanisms by name."""
        return ", ".join(dict.fromkeys(measurement.name for measurement in self.measurements))

    @property
    def uses_prior(self) -> bool:
        """Whether a mechanism itself uses the prior, so that the answer is shaped by it."""
        return self.measurements[0].uses_prior

    @property
    def prior_use(self) -> PriorUse | None:
        """How the analyst's prior is used; None where there is none, or nothing of the answer depends on it."""
        return self.readings[0].prior_use

    @property
    def prior_description(self) -> str:
        """How the analyst's prior is used, or that it is not and why, in one sentence; nothing where there is none."""
        if self.prior_use is not None:
            return self.prior_use.words
        reason = self.readings[0].prior_unused_reason
        return f"The prior is not used for this answer: {reason}." if reason and self.prior is not None else ""

    @property
    def account_model(self) -> str:
        """The model in whose accounts it is paid."""
        return "approx-dp" if self.guarantee.model == "zcdp" else self.guarantee.model

    @property
    def expected_error(self) -> float | None:
        """The root mean square error of the refined value; None for several aggregates, or where it is not known."""
        errors = [candidate.expected_error for candidate in self.candidates if candidate.chosen]
        return errors[0] if len(errors) == 1 else None

    @property
    def prior_error(self) -> float | None:
        """What the analyst's prior leaves open by itself: its standard deviation; None where it is not over numbers."""
        if self.grid_prior is not None:
            return self.grid_prior.sd
        stated = None if self.prior is None else self.readings[0].get_stated_distribution()
        return None if stated is None or not stated.numeric else math.sqrt(stated.variance())

    @property
    def keys(self) -> tuple[BinKey | TextKey, ...]:
        """The group keys as a source counts them."""
        pairs = ((self.schema.column(key.column), key.width) for key in self.query.keys)
        return tuple(
            TextKey(column.name) if column.private_keys else BinKey(column.name, column.lower, width)
            for column, width in pairs
        )

    @property
    def measures(self) -> tuple[ScanMeasure, ...]:
        """All measures of all totals, each once, in one scan."""
        requests = (measurement.scan() for measurement in self.measurements)
        totals = (request.measures for request in requests if isinstance(request, TotalsRequest))
        return tuple(dict.fromkeys(measure for measures in totals for measure in measures))

    def list_cells(self) -> list[Cell]:
        """List every cell there can be, from the schema; with private keys that is not known."""
        if self.hierarchy is not None and self.hierarchy.cells is not None:
            return list(self.hierarchy.cells)
        return list_query_cells(self.schema, self.query)

    @property
    def is_degradable(self) -> bool:
        """Whether a stored answer of a larger epsilon can be turned into this one by adding noise: degradation.md."""
        has_noise = self.threshold is None and not self.is_free
        return has_noise and all(measurement.is_degradable for measurement in self.measurements)

    def build_question_key(self) -> str:
        """Build the name of a stored answer: all but epsilon; of a prior its digest, and only where it was used."""
        query = json.loads(format_canonical_query(self.query))
        key_parts: dict[str, object] = {"query": query, "model": self.guarantee.model}
        key_parts["facts"] = [self.schema.neighbors, self.schema.units, self.schema.unit, self.schema.rows]
        key_parts["mechanism"] = self.spread_by_aggregate([item.cache_key() for item in self.measurements])
        key_parts["delta"] = None if self.guarantee.delta is None else str(self.guarantee.delta)
        rule = self.prior_use.rule if self.uses_prior and self.prior_use is not None else 1
        key_parts["prior"] = _hash_prior(self.prior, rule) if self.uses_prior else None
        if rule > 1:
            key_parts["prior_rule"] = rule
        return json.dumps(key_parts, sort_keys=True, ensure_ascii=False)

    def get_sub_account(self) -> SubAccount | None:
        """Return the one part of the data that the question is about, if it is about one."""
        replace_factor = 2 if self.schema.neighbors == "replace-one" else 1
        if self.query.unit is not None:
            return SubAccount("individual", self.query.unit, replace_factor)
        partition_code = _find_partition_code(self.query.where, self.schema.partition)
        if partition_code is None or self.schema.partition is None:
            return None
        name = str(self.schema.column(self.schema.partition).decode(partition_code))
        return SubAccount("partition", name, replace_factor * self.schema.rows)


def list_query_cells(schema: Schema, query: Query) -> list[Cell]:
    """List every cell of the public keys of a question, in order."""
    return list(product(*(list_key_cells(schema.column(key.column), key.width) for key in query.keys)))


def list_key_cells(column: Column, width: int) -> list[int | None]:
    """List the cells of a public key, from the schema."""
    cells: list[int | None] = list(range(math.ceil(column.size / width)))
    return [*cells, None] if column.is_nullable else cells


def _find_partition_code(where: Predicate, column: str | None) -> int | None:
    """The one value of the partition column that a question is restricted to."""
    for part in where.parts if isinstance(where, AllOf) else (where,):
        if isinstance(part, InRanges) and part.column == column and not part.null and len(part.ranges) == 1:
            low, high = part.ranges[0]
            return low if low == high else None
    return None


def _hash_prior(prior: Prior | str | None, rule: int) -> str | None:
    """A name for a prior that does not show it; with its shapes, where these and not its points are what is used."""
    if prior is None:
        return None
    if isinstance(prior, str):
        return hashlib.sha256(" ".join(prior.split()).encode()).hexdigest()
    content = [_grid_text(prior.grid), repr(prior.values), repr(prior.index.tolist()), repr(prior.mass.tolist())]
    if rule in COARSE_GRID_RULES:
        content.append(repr(prior.shape))
    return hashlib.sha256(f"({', '.join(content)})".encode()).hexdigest()


def _grid_text(grid: Grid | None) -> str:
    """A grid as the digest of a prior has it: these very letters, whatever the class and its fields are called."""
    if grid is None:
        return "None"
    origin, step = (f"Fraction({number.numerator}, {number.denominator})" for number in (grid.origin, grid.step))
    return f"Grid(origin={origin}, step={step})"


def count_answer_cells(schema: Schema, query: Query) -> int | None:
    """Count the cells of a question; with private keys that is not public, and many are allowed for."""
    if not query.keys:
        return None
    columns = [(schema.column(key.column), key.width) for key in query.keys]
    return math.prod(
        PRIVATE_KEY_CELLS if column.private_keys else count_axis_cells(column, width) for column, width in columns
    )
