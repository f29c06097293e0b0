"""Where rows meet mechanisms: exact inputs from a source, then draws. Nothing here may fail on a row.

What `exact` returns is secret; what `release` returns may leave. Between them stands the noise and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal
from discreet.kernel.entropy import SYSTEM
from discreet.kernel.noise import Noise
from discreet.planner.chosen import Chosen
from discreet.planner.individual import AboutOne, OrderStatistic
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Counted, Known, Measurement, Plan
from discreet.planner.threshold import UNITS
from discreet.query.totals import Amounts, Cell, Histogram, Totals
from discreet.sources.plan import Source

Input = tuple[int, ...] | NDArray[np.int64] | int | None
Numbers = tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Exact:
    """The exact inputs of every measurement in every cell, and the units of every key that is not public. Secret."""

    cells: Sequence[Cell]
    inputs: Sequence[Sequence[Input]]
    units: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """What was drawn: for every cell, and there for every measurement, whole numbers."""

    cells: tuple[Cell, ...]
    numbers: tuple[tuple[Numbers, ...], ...]


def exact(plan: Plan, source: Source) -> Exact:
    """Read what the mechanisms need."""
    where, keys = plan.query.where, plan.keys
    units = None
    if plan.threshold is not None:
        units = plan.threshold.inputs(source.totals(Totals(UNITS, keys, where)))
    cells: list[Cell] = plan.cells() if units is None else [(key,) for key in sorted(units)]
    measures = plan.measures
    totals = source.totals(Totals(measures, keys, where)) if measures else {}
    places = {measure: at for at, measure in enumerate(measures)}
    inputs: list[Sequence[Input]] = []
    for one in plan.measurements:
        if isinstance(one, Noisy):
            wanted = [places[measure] for measure in one.form.measures]
            inputs.append([one.inputs(_picked(totals.get(cell), wanted)) for cell in cells])
        elif isinstance(one, Chosen | OrderStatistic):
            inputs.append(_counts(one, plan, source, cells))
        elif isinstance(one, AboutOne):
            inputs.append([source.individual(one.candidates.column.name, plan.query.unit or "")])
        else:
            inputs.append([None] * len(cells))
    return Exact(cells, inputs, units)


def _picked(amounts: Amounts | None, wanted: Sequence[int]) -> Amounts:
    return tuple(0 if amounts is None else amounts[place] for place in wanted)


def _counts(one: Chosen | OrderStatistic, plan: Plan, source: Source, cells: Sequence[Cell]) -> list[Input]:
    found = source.histogram(Histogram(one.candidates.bins, one.candidates.count, plan.keys, plan.query.where))
    nothing = np.zeros(one.candidates.count, dtype=np.int64)
    return [found.get(cell, nothing) for cell in cells]


def release(plan: Plan, secret: Exact) -> Released:
    """Draw. With private keys first which are shown, then the numbers of those alone."""
    shown = dict.fromkeys(secret.cells, 0) if secret.units is None else _shown(plan, secret.units)
    picked = [at for at, cell in enumerate(secret.cells) if cell in shown]
    cells = [secret.cells[at] for at in picked]
    counts = [shown[cell] for cell in cells]
    pairs = zip(plan.measurements, secret.inputs, strict=True)
    columns = [_drawn(one, [inputs[at] for at in picked], counts) for one, inputs in pairs]
    return Released(tuple(cells), tuple(zip(*columns, strict=True)))


def _shown(plan: Plan, units: Mapping[str, int]) -> dict[Cell, int]:
    """The keys whose noisy number of units passes the threshold, and that number."""
    if plan.threshold is None:
        raise Internal("units were counted without a threshold")
    noisy = _plus_noise(list(units.values()), plan.threshold.noise)
    return {(key,): count for key, count in zip(units, noisy, strict=True) if count >= plan.threshold.least}


def _drawn(one: Measurement, inputs: Sequence[Any], counts: Sequence[int]) -> list[Numbers]:
    """The numbers of one measurement in every cell; `counts` are the noisy units that chose the cells."""
    if isinstance(one, Noisy):
        columns = zip(*inputs, strict=True) if inputs else ((),) * len(one.noises)
        drawn = [_plus_noise(column, noise) for column, noise in zip(columns, one.noises, strict=True)]
        return list(zip(*drawn, strict=True))
    if isinstance(one, Known | Counted):
        return [(count,) for count in counts]
    return [one.release(secret) for secret in inputs]


def _plus_noise(exact_numbers: Sequence[int], noise: Noise) -> list[int]:
    drawn = noise.draw_units(len(exact_numbers), SYSTEM)
    return [number + int(shift) for number, shift in zip(exact_numbers, drawn, strict=True)]
