"""Where rows meet mechanisms: exact inputs from a source, then draws. Nothing here may fail on a row.

What `read_exact_inputs` returns is secret; what `sample_noisy_outputs` returns may leave.
Between them stands the noise and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import add
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.candidate_grid import CandidateGrid
from discreet.measurements.hierarchical import HierarchicalHistogram
from discreet.measurements.refined_total import RefinedTotal
from discreet.measurements.selection import CandidateSelection
from discreet.measurements.threshold import UNIT_MEASURES, Threshold
from discreet.measurements.unit_query import OrderStatistic, UnitQuery
from discreet.mechanisms.discrete_laplace import DiscreteLaplace, LaplaceDegradation
from discreet.mechanisms.entropy import SYSTEM
from discreet.planner.plan import (
    Measurement,
    NoisyOutputs,
    NoisyResult,
    Plan,
    PublicConstant,
    ThresholdedCount,
    list_independent_noises,
)
from discreet.query.predicates import AllOf, InTexts, Predicate
from discreet.query.scan import Amounts, Cell, HistogramScan, TotalsScan
from discreet.sources.protocol import Source

ExactInput = tuple[int, ...] | NDArray[np.int64] | int | None


@dataclass(frozen=True, eq=False, slots=True)
class ExactInputs:
    """The exact inputs of every measurement in every cell. Secret."""

    cells: Sequence[Cell]
    inputs: Sequence[Sequence[ExactInput]]


def measure_plan(plan: Plan, source: Source) -> NoisyResult:
    """Read the rows and sample. Private keys are chosen first; more is then read of the chosen ones alone."""
    if plan.threshold is None:
        cells = plan.list_cells()
        return sample_noisy_outputs(plan, read_exact_inputs(plan, source, cells, plan.query.where), [0] * len(cells))
    noisy_units = _select_keys(plan.threshold, count_key_units(plan, source))
    keys = tuple(sorted(noisy_units))
    key_condition = AllOf((plan.query.where, InTexts(plan.query.keys[0].column, keys)))
    exact_inputs = read_exact_inputs(plan, source, [(key,) for key in keys], key_condition)
    return sample_noisy_outputs(plan, exact_inputs, [noisy_units[key] for key in keys])


def count_key_units(plan: Plan, source: Source) -> dict[str, int]:
    """How many units each key has that is not public; rows without a key count nowhere. Secret."""
    unit_totals = source.totals(TotalsScan(UNIT_MEASURES, plan.keys, plan.query.where))
    return {key: amounts[0] for (key,), amounts in unit_totals.items() if isinstance(key, str)}


def _select_keys(threshold: Threshold, counts: Mapping[str, int]) -> dict[str, int]:
    """The keys whose noisy number of units passes the threshold, and that number."""
    shifts = threshold.noise.sample_units(len(counts), SYSTEM)
    noisy_counts = [number + int(shift) for number, shift in zip(counts.values(), shifts, strict=True)]
    return {key: count for key, count in zip(counts, noisy_counts, strict=True) if count >= threshold.min_count}


def read_exact_inputs(plan: Plan, source: Source, cells: Sequence[Cell], where: Predicate) -> ExactInputs:
    """Read the exact inputs of every measurement in every cell. Secret."""
    measures = plan.measures
    totals = source.totals(TotalsScan(measures, plan.keys, where)) if measures else {}
    places = {measure: index for index, measure in enumerate(measures)}
    inputs: list[Sequence[ExactInput]] = []
    for measurement in plan.measurements:
        if isinstance(measurement, AdditiveNoise | RefinedTotal) and measurement.linear_query.ranks is not None:
            ranks = measurement.linear_query.ranks
            rank_counts = _count_candidates(plan, source, ranks.candidates, cells, where)
            inputs.append([(ranks.sum_positions(counts),) for counts in rank_counts])
        elif isinstance(measurement, AdditiveNoise | RefinedTotal):
            wanted = [places[measure] for measure in measurement.linear_query.measures]
            inputs.append([measurement.compute_inputs(_pick_amounts(totals.get(cell), wanted)) for cell in cells])
        elif isinstance(measurement, HierarchicalHistogram):
            wanted = [places[measure] for measure in measurement.linear_query.measures]
            inputs.append(measurement.compute_inputs([sum(_pick_amounts(totals.get(cell), wanted)) for cell in cells]))
        elif isinstance(measurement, CandidateSelection | OrderStatistic):
            inputs.append(_count_candidates(plan, source, measurement.candidates, cells, where))
        elif isinstance(measurement, UnitQuery):
            inputs.append([source.individual(measurement.candidates.column.name, plan.query.unit or "")])
        else:
            inputs.append([None] * len(cells))
    return ExactInputs(cells, inputs)


@dataclass(frozen=True, eq=False, slots=True)
class _CellHistograms(Sequence[NDArray[np.int64]]):
    """How many rows each candidate has, cell by cell; each cell's counts are made when it is its turn. Secret."""

    histograms: Mapping[Cell, NDArray[np.int64]]
    cells: Sequence[Cell]
    candidates: int

    @overload
    def __getitem__(self, index: int) -> NDArray[np.int64]: ...

    @overload
    def __getitem__(self, index: slice) -> list[NDArray[np.int64]]: ...

    def __getitem__(self, index: int | slice) -> NDArray[np.int64] | list[NDArray[np.int64]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        cell = self.cells[index]
        return self.histograms[cell] if cell in self.histograms else np.zeros(self.candidates, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.cells)


def _count_candidates(
    plan: Plan, source: Source, candidates: CandidateGrid, cells: Sequence[Cell], where: Predicate
) -> Sequence[NDArray[np.int64]]:
    """How many rows each candidate has, in every cell. Secret."""
    histograms = source.histogram(HistogramScan(candidates.bins, candidates.count, plan.keys, where))
    return _CellHistograms(histograms, cells, candidates.count)


def _pick_amounts(amounts: Amounts | None, wanted: Sequence[int]) -> Amounts:
    return tuple(0 if amounts is None else amounts[place] for place in wanted)


def sample_noisy_outputs(plan: Plan, exact_inputs: ExactInputs, counts: Sequence[int]) -> NoisyResult:
    """Sample every measurement in every cell; `counts` are the noisy units by which the cells were chosen."""

    def sample(index: int, measurement: Measurement) -> list[NoisyOutputs]:
        return _sample_measurement(measurement, exact_inputs.inputs[index], counts)

    return _sample_jointly(plan, exact_inputs.cells, sample)


def degrade_result(noisy_result: NoisyResult, epsilon: Fraction, plan: Plan) -> NoisyResult:
    """Add noise to outputs of a larger epsilon, so that they have the distribution of this degradable plan.

    The rates of its noises are in proportion to epsilon, so those of the larger one are known.
    """
    columns = list(zip(*noisy_result.numbers, strict=True))

    def degrade(index: int, measurement: Measurement) -> list[NoisyOutputs]:
        return _degrade_measurement(measurement, epsilon / plan.epsilon, columns[index])

    return _sample_jointly(plan, noisy_result.cells, degrade)


def _sample_jointly(
    plan: Plan, cells: Sequence[Cell], sample: Callable[[int, Measurement], list[NoisyOutputs]]
) -> NoisyResult:
    """Sample every measurement once; those of a joint group share the numbers of its first."""
    columns: list[list[NoisyOutputs]] = []
    shared_columns: dict[int, list[NoisyOutputs]] = {}
    for index, measurement in enumerate(plan.measurements):
        group = measurement.joint_group if isinstance(measurement, AdditiveNoise) else 0
        column = shared_columns[group] if group in shared_columns else sample(index, measurement)
        if group:
            shared_columns[group] = column
        columns.append(column)
    return NoisyResult(tuple(cells), tuple(zip(*columns, strict=True)))


def _degrade_measurement(
    measurement: Measurement, rate_factor: Fraction, numbers: Sequence[NoisyOutputs]
) -> list[NoisyOutputs]:
    """The numbers of one measurement in every cell, with noise added; they were drawn with so many times the rate."""
    degradations = []
    for noise in list_independent_noises(measurement):
        if not isinstance(noise, DiscreteLaplace):
            raise Internal("a stored answer without discrete Laplace noise was to be degraded")
        stored_noise = DiscreteLaplace(noise.epsilon * rate_factor, noise.sensitivity, noise.step)
        degradations.append(LaplaceDegradation(stored_noise, noise))
    if isinstance(measurement, HierarchicalHistogram):
        blocks = zip(degradations, measurement.measured_levels, strict=True)
        level_noises = [degradation.sample_units(len(level.starts), SYSTEM) for degradation, level in blocks]
        added_noise = measurement.group_by_cell(level_noises, len(numbers))
    elif degradations:
        columns = [degradation.sample_units(len(numbers), SYSTEM) for degradation in degradations]
        added_noise = [tuple(map(int, row)) for row in zip(*columns, strict=True)]
    else:  # public
        return list(numbers)
    return [tuple(map(add, *pair)) for pair in zip(numbers, added_noise, strict=True)]


def _sample_measurement(measurement: Measurement, inputs: Sequence[Any], counts: Sequence[int]) -> list[NoisyOutputs]:
    """The numbers of one measurement in every cell."""
    if isinstance(measurement, AdditiveNoise):
        noise = measurement.noise.sample_units(len(inputs), SYSTEM) if inputs else ()
        return [tuple(x + int(n) for x, n in zip(*row, strict=True)) for row in zip(inputs, noise, strict=True)]
    if isinstance(measurement, HierarchicalHistogram):
        noisy_levels = ((level.noise, len(level.starts)) for level in measurement.levels if level.noise is not None)
        level_noises = [noise.sample_units(count, SYSTEM) for noise, count in noisy_levels]
        noises = measurement.group_by_cell(level_noises, len(inputs))
        return [tuple(map(add, *pair)) for pair in zip(inputs, noises, strict=True)]
    if isinstance(measurement, PublicConstant | ThresholdedCount):
        return [(count,) for count in counts]
    return [measurement.measure(secret) for secret in inputs]
