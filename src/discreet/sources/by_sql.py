"""What every engine that speaks SQL does alike: compile a plan, run it, and read the reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.query.released import ReleaseBatch, ReleasePlan
from discreet.query.totals import Amounts, Cell, HistogramScan, TotalsScan
from discreet.schema import Schema
from discreet.sources import cells
from discreet.sources.batches import BatchShape
from discreet.sources.compile import PlanCompiler
from discreet.sources.statement import SqlStatement


class SQLSource(ABC):
    """A table with a row for every row of the snapshot; how statements are run is the engine's own."""

    def __init__(self, schema: Schema, compiler: PlanCompiler) -> None:
        self._schema, self._compiler = schema, compiler

    def totals(self, plan: TotalsScan) -> Mapping[Cell, Amounts]:
        """The totals of every cell that has rows; without keys, of the one cell (), rows or not."""
        return cells.decode_totals(plan, self._schema, self._fetch_rows(self._compiler.compile_totals(plan)))

    def histogram(self, plan: HistogramScan) -> Mapping[Cell, NDArray[np.int64]]:
        """The counts of every cell that has rows; without keys, of the one cell (), rows or not."""
        return cells.decode_histograms(
            plan, self._schema, self._fetch_counts(plan, self._compiler.compile_histogram(plan))
        )

    def individual(self, column: str, unit: str) -> int | None:
        """The code of one unit's value; None where the unit is absent or has none."""
        return cells.get_single_number(self._fetch_rows(self._compiler.compile_individual(column, unit)))

    def count(self) -> int:
        """How many rows there are."""
        return int(self._fetch_rows(self._compiler.compile_count())[0][0])

    def records(self) -> Iterator[ReleaseBatch]:
        """All rows, by the unit's bytes and then by all codes in the order of the schema, missing ones last."""
        return self._fetch_batches(BatchShape.for_records(self._schema), self._compiler.compile_records())

    def release_rows(self, plan: ReleasePlan, key: str) -> Iterator[ReleaseBatch]:
        """All rows, what the plan makes of them, and their groups, in an order that tells nothing."""
        return self._fetch_batches(
            BatchShape.for_release(plan, self._schema), self._compiler.compile_release(plan, key)
        )

    def _fetch_counts(self, plan: HistogramScan, statement: SqlStatement) -> Sequence[NDArray[Any]]:
        return cells.transpose_histogram_rows(plan, self._fetch_rows(statement))

    @abstractmethod
    def _fetch_rows(self, statement: SqlStatement) -> list[Any]:
        """All rows of a reply."""

    @abstractmethod
    def _fetch_batches(self, shape: BatchShape, statement: SqlStatement) -> Iterator[ReleaseBatch]:
        """The rows of a reply, some at a time."""
