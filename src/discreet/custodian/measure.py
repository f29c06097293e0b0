"""Where rows meet mechanisms: exact inputs from a source, then draws. Nothing here may fail on a row.

What `read_exact_inputs` returns is secret; what `sample_noisy_outputs` returns may leave.
Between them stands the noise and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from discreet.measurements.base import (
    ExactInput,
    HistogramRequest,
    KeyUnitsRequest,
    NoisyOutputs,
    ScanRequest,
    TotalsRequest,
    UnitRequest,
)
from discreet.measurements.threshold import UNIT_MEASURES
from discreet.mechanisms.entropy import SYSTEM
from discreet.planner.plan import NoisyResult, Plan
from discreet.query.predicates import AllOf, InTexts, Predicate
from discreet.query.scan import Amounts, Cell, HistogramScan, TotalsScan
from discreet.sources.protocol import Source


@dataclass(frozen=True, eq=False, slots=True)
class ExactInputs:
    """The exact inputs of every measurement in every cell. Secret."""

    cells: Sequence[Cell]
    inputs: Sequence[Sequence[ExactInput]]


def do_nothing() -> None:
    """The release barrier of whoever has nothing to wait for."""


def measure_plan(plan: Plan, source: Source) -> NoisyResult:
    """Read the rows and sample."""
    return sample_noisy_outputs(plan, scan_rows(plan, source))


def scan_rows(plan: Plan, source: Source) -> ExactInputs:
    """Read the rows. Private keys are chosen first, by noisy counts; more is then read of the chosen ones alone."""
    if plan.threshold is None:
        cells = plan.list_cells()
        return read_exact_inputs(plan, source, cells, plan.query.where)
    noisy_units = plan.threshold.select(count_key_units(plan, source), SYSTEM)
    keys = tuple(sorted(noisy_units))
    key_condition = AllOf((plan.query.where, InTexts(plan.query.keys[0].column, keys)))
    counts = [noisy_units[key] for key in keys]
    return read_exact_inputs(plan, source, [(key,) for key in keys], key_condition, counts)


def count_key_units(plan: Plan, source: Source) -> dict[str, int]:
    """How many units each key has that is not public; rows without a key count nowhere. Secret."""
    unit_totals = source.totals(TotalsScan(UNIT_MEASURES, plan.keys, plan.query.where))
    return {key: amounts[0] for (key,), amounts in unit_totals.items() if isinstance(key, str)}


def read_exact_inputs(
    plan: Plan, source: Source, cells: Sequence[Cell], where: Predicate, key_counts: Sequence[int] | None = None
) -> ExactInputs:
    """Read the exact inputs of every measurement in every cell. Secret, but for the counts that keys were chosen by."""
    measures = plan.measures
    totals = source.totals(TotalsScan(measures, plan.keys, where)) if measures else {}
    places = {measure: index for index, measure in enumerate(measures)}

    def scan(request: ScanRequest) -> Sequence[Any]:
        match request:
            case TotalsRequest(measures=wanted_measures):
                wanted = [places[measure] for measure in wanted_measures]
                return [_pick_amounts(totals.get(cell), wanted) for cell in cells]
            case HistogramRequest():
                histograms = source.histogram(HistogramScan(request.bins, request.count, plan.keys, where))
                return _CellHistograms(histograms, cells, request.count)
            case UnitRequest():
                return [source.individual(request.column, plan.query.unit or "")]
            case KeyUnitsRequest() if key_counts is not None:
                return key_counts
        return [None] * len(cells)

    return ExactInputs(cells, [item.compute_inputs(scan(item.scan())) for item in plan.measurements])


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


def _pick_amounts(amounts: Amounts | None, wanted: Sequence[int]) -> Amounts:
    return tuple(0 if amounts is None else amounts[place] for place in wanted)


def sample_noisy_outputs(plan: Plan, exact_inputs: ExactInputs) -> NoisyResult:
    """Sample every measurement in every cell."""
    pairs = zip(plan.measurements, exact_inputs.inputs, strict=True)
    columns = [measurement.measure(inputs, SYSTEM) for measurement, inputs in pairs]
    return _build_result(plan, exact_inputs.cells, columns)


def degrade_result(noisy_result: NoisyResult, epsilon: Fraction, plan: Plan) -> NoisyResult:
    """Add noise to outputs of a larger epsilon, so that they have the distribution of this degradable plan.

    The rates of its noises are in proportion to epsilon, so those of the larger one are known.
    """
    by_aggregate = list(zip(*noisy_result.numbers, strict=True))
    stored_columns = [by_aggregate[measurement.aggregates[0]] for measurement in plan.measurements]
    pairs = zip(plan.measurements, stored_columns, strict=True)
    columns = [measurement.degrade(stored, epsilon / plan.epsilon, SYSTEM) for measurement, stored in pairs]
    return _build_result(plan, noisy_result.cells, columns)


def _build_result(plan: Plan, cells: Sequence[Cell], columns: Sequence[Sequence[NoisyOutputs]]) -> NoisyResult:
    """The outputs of each measurement, for every aggregate that it answers."""
    return NoisyResult(tuple(cells), tuple(zip(*plan.spread_by_aggregate(columns), strict=True)))
