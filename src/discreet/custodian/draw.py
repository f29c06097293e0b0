"""Where rows meet mechanisms: exact inputs from a source, then draws. Nothing here may fail on a row.

What `exact` returns is secret; what `release` returns may leave. Between them stands the noise and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import add
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal
from discreet.kernel.degradation import LaplaceDegradation
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.entropy import SYSTEM
from discreet.kernel.noise import Noise
from discreet.planner.chosen import Chosen
from discreet.planner.individual import AboutOne, OrderStatistic
from discreet.planner.nested import Nested
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Counted, Known, Measurement, Plan, independent_noises
from discreet.planner.positions import Candidates
from discreet.planner.refined import RefinedTotal
from discreet.planner.threshold import UNITS, Threshold
from discreet.query.predicate import All, OneOf, Predicate
from discreet.query.totals import Amounts, Cell, Histogram, Totals
from discreet.sources.plan import Source

Input = tuple[int, ...] | NDArray[np.int64] | int | None
Numbers = tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Exact:
    """The exact inputs of every measurement in every cell. Secret."""

    cells: Sequence[Cell]
    inputs: Sequence[Sequence[Input]]


@dataclass(frozen=True, slots=True)
class Released:
    """What was drawn: for every cell, and there for every measurement, whole numbers."""

    cells: tuple[Cell, ...]
    numbers: tuple[tuple[Numbers, ...], ...]


def draw(plan: Plan, source: Source) -> Released:
    """Read and draw. Keys that are not public are chosen first; then only of those shown is anything more read."""
    if plan.threshold is None:
        cells = plan.cells()
        return release(plan, exact(plan, source, cells, plan.query.where), [0] * len(cells))
    shown = _shown(plan.threshold, units(plan, source))
    keys = tuple(sorted(shown))
    only = All((plan.query.where, OneOf(plan.query.keys[0].column, keys)))
    return release(plan, exact(plan, source, [(key,) for key in keys], only), [shown[key] for key in keys])


def units(plan: Plan, source: Source) -> dict[str, int]:
    """How many units each key has that is not public; rows without a key count nowhere. Secret."""
    found = source.totals(Totals(UNITS, plan.keys, plan.query.where))
    return {key: amounts[0] for (key,), amounts in found.items() if isinstance(key, str)}


def _shown(threshold: Threshold, counts: Mapping[str, int]) -> dict[str, int]:
    """The keys whose noisy number of units passes the threshold, and that number."""
    noisy = _plus_noise(list(counts.values()), threshold.noise)
    return {key: count for key, count in zip(counts, noisy, strict=True) if count >= threshold.least}


def exact(plan: Plan, source: Source, cells: Sequence[Cell], where: Predicate) -> Exact:
    """Read what the mechanisms need."""
    measures = plan.measures
    totals = source.totals(Totals(measures, plan.keys, where)) if measures else {}
    places = {measure: at for at, measure in enumerate(measures)}
    inputs: list[Sequence[Input]] = []
    for one in plan.measurements:
        if isinstance(one, Noisy | RefinedTotal) and one.form.ranks is not None:
            ranks = one.form.ranks
            inputs.append([(ranks.total(counts),) for counts in _counts(plan, source, ranks.candidates, cells, where)])
        elif isinstance(one, Noisy | RefinedTotal):
            wanted = [places[measure] for measure in one.form.measures]
            inputs.append([one.inputs(_picked(totals.get(cell), wanted)) for cell in cells])
        elif isinstance(one, Nested):
            wanted = [places[measure] for measure in one.form.measures]
            inputs.append(one.inputs([sum(_picked(totals.get(cell), wanted)) for cell in cells]))
        elif isinstance(one, Chosen | OrderStatistic):
            inputs.append(_counts(plan, source, one.candidates, cells, where))
        elif isinstance(one, AboutOne):
            inputs.append([source.individual(one.candidates.column.name, plan.query.unit or "")])
        else:
            inputs.append([None] * len(cells))
    return Exact(cells, inputs)


@dataclass(frozen=True, eq=False, slots=True)
class _OfCells(Sequence[NDArray[np.int64]]):
    """How many rows each candidate has, cell by cell; each cell's counts are made when it is its turn. Secret."""

    found: Mapping[Cell, NDArray[np.int64]]
    cells: Sequence[Cell]
    candidates: int

    @overload
    def __getitem__(self, at: int) -> NDArray[np.int64]: ...

    @overload
    def __getitem__(self, at: slice) -> list[NDArray[np.int64]]: ...

    def __getitem__(self, at: int | slice) -> NDArray[np.int64] | list[NDArray[np.int64]]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        cell = self.cells[at]
        return self.found[cell] if cell in self.found else np.zeros(self.candidates, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.cells)


def _counts(
    plan: Plan, source: Source, candidates: Candidates, cells: Sequence[Cell], where: Predicate
) -> Sequence[NDArray[np.int64]]:
    """How many rows each candidate has, in every cell. Secret."""
    found = source.histogram(Histogram(candidates.bins, candidates.count, plan.keys, where))
    return _OfCells(found, cells, candidates.count)


def _picked(amounts: Amounts | None, wanted: Sequence[int]) -> Amounts:
    return tuple(0 if amounts is None else amounts[place] for place in wanted)


def release(plan: Plan, secret: Exact, counts: Sequence[int]) -> Released:
    """Draw every measurement in every cell; `counts` are the noisy units by which the cells were chosen."""
    columns: list[list[Numbers]] = []
    once: dict[int, list[Numbers]] = {}
    for one, inputs in zip(plan.measurements, secret.inputs, strict=True):
        group = one.together if isinstance(one, Noisy) else 0
        column = once[group] if group in once else _drawn(one, inputs, counts)
        if group:
            once[group] = column
        columns.append(column)
    return Released(tuple(secret.cells), tuple(zip(*columns, strict=True)))


def degrade(released: Released, epsilon: Fraction, plan: Plan) -> Released:
    """Add noise to what was drawn with a larger epsilon, so that it is as if drawn by a plan that is degradable.

    The rates of its noises are in proportion to epsilon, so those of the larger one are known.
    """
    columns: list[list[Numbers]] = []
    once: dict[int, list[Numbers]] = {}
    for one, numbers in zip(plan.measurements, zip(*released.numbers, strict=True), strict=True):
        group = one.together if isinstance(one, Noisy) else 0
        column = once[group] if group in once else _degraded(one, epsilon / plan.epsilon, numbers)
        if group:
            once[group] = column
        columns.append(column)
    return Released(released.cells, tuple(zip(*columns, strict=True)))


def _degraded(measurement: Measurement, times: Fraction, numbers: Sequence[Numbers]) -> list[Numbers]:
    """The numbers of one measurement in every cell, with noise added; they were drawn with so many times the rate."""
    extra = [_extra(noise, times) for noise in independent_noises(measurement)]
    if isinstance(measurement, Nested):
        blocks = zip(extra, measurement.measured_levels, strict=True)
        drawn = [one.draw_units(len(level.starts), SYSTEM) for one, level in blocks]
        added = measurement.by_cell(drawn, len(numbers))
    elif extra:
        columns = [one.draw_units(len(numbers), SYSTEM) for one in extra]
        added = [tuple(map(int, row)) for row in zip(*columns, strict=True)]
    else:  # public
        return list(numbers)
    return [tuple(map(add, *pair)) for pair in zip(numbers, added, strict=True)]


def _extra(noise: Noise, times: Fraction) -> LaplaceDegradation:
    if not isinstance(noise, DiscreteLaplace):
        raise Internal("a stored answer without discrete Laplace noise was to be degraded")
    return LaplaceDegradation(DiscreteLaplace(noise.epsilon * times, noise.sensitivity, noise.step), noise)


def _drawn(one: Measurement, inputs: Sequence[Any], counts: Sequence[int]) -> list[Numbers]:
    """The numbers of one measurement in every cell."""
    if isinstance(one, Noisy):
        noise = one.noise.draw_units(len(inputs), SYSTEM) if inputs else ()
        return [tuple(x + int(n) for x, n in zip(*row, strict=True)) for row in zip(inputs, noise, strict=True)]
    if isinstance(one, Nested):
        drawn = [level.noise.draw_units(len(level.starts), SYSTEM) for level in one.levels if level.noise is not None]
        noises = one.by_cell(drawn, len(inputs))
        return [tuple(map(add, *pair)) for pair in zip(inputs, noises, strict=True)]
    if isinstance(one, Known | Counted):
        return [(count,) for count in counts]
    return [one.release(secret) for secret in inputs]


def _plus_noise(exact_numbers: Sequence[int], noise: Noise) -> list[int]:
    drawn = noise.draw_units(len(exact_numbers), SYSTEM)
    return [number + int(shift) for number, shift in zip(exact_numbers, drawn, strict=True)]
