"""What every engine that speaks SQL does alike: compile a plan, run it, and read the reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.query.released import Batch, ReleasePlan
from discreet.query.totals import Amounts, Cell, Histogram, Totals
from discreet.schema import Schema
from discreet.sources import cells
from discreet.sources.batches import Shape
from discreet.sources.compile import Compiler
from discreet.sources.statement import Statement


class SQLSource(ABC):
    """A table with a row for every row of the snapshot; how statements are run is the engine's own."""

    def __init__(self, schema: Schema, compiler: Compiler) -> None:
        self._schema, self._compiler = schema, compiler

    def totals(self, plan: Totals) -> Mapping[Cell, Amounts]:
        """The totals of every cell that has rows; without keys, of the one cell (), rows or not."""
        return cells.totals(plan, self._schema, self._rows(self._compiler.totals(plan)))

    def histogram(self, plan: Histogram) -> Mapping[Cell, NDArray[np.int64]]:
        """The counts of every cell that has rows; without keys, of the one cell (), rows or not."""
        return cells.histograms(plan, self._schema, self._counts(plan, self._compiler.histogram(plan)))

    def individual(self, column: str, unit: str) -> int | None:
        """The code of one unit's value; None where the unit is absent or has none."""
        return cells.only(self._rows(self._compiler.individual(column, unit)))

    def count(self) -> int:
        """How many rows there are."""
        return int(self._rows(self._compiler.count())[0][0])

    def records(self) -> Iterator[Batch]:
        """All rows, by the unit's bytes and then by all codes in the order of the schema, missing ones last."""
        return self._batches(Shape.records(self._schema), self._compiler.records())

    def released(self, plan: ReleasePlan, key: str) -> Iterator[Batch]:
        """All rows, what the plan makes of them, and their groups, in an order that tells nothing."""
        return self._batches(Shape.released(plan, self._schema), self._compiler.released(plan, key))

    def _counts(self, plan: Histogram, statement: Statement) -> Sequence[NDArray[Any]]:
        return cells.columns(plan, self._rows(statement))

    @abstractmethod
    def _rows(self, statement: Statement) -> list[Any]:
        """All rows of a reply."""

    @abstractmethod
    def _batches(self, shape: Shape, statement: Statement) -> Iterator[Batch]:
        """The rows of a reply, some at a time."""
