"""What every source does with a plan of totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unsupported
from discreet.query.released import ReleaseBatch, ReleasePlan
from discreet.query.totals import Amounts, Cell, HistogramScan, TotalsScan
from discreet.schema import Schema


class Source(Protocol):
    """Where a snapshot lives. Nothing it does may fail on a row, and nothing it says of a failure may quote one."""

    def totals(self, plan: TotalsScan) -> Mapping[Cell, Amounts]:
        """The totals of every cell that has rows; without keys, of the one cell (), rows or not."""

    def histogram(self, plan: HistogramScan) -> Mapping[Cell, NDArray[np.int64]]:
        """The counts of every cell that has rows; without keys, of the one cell (), rows or not."""

    def individual(self, column: str, unit: str) -> int | None:
        """The code of one unit's value; None where the unit is absent or has none."""

    def count(self) -> int:
        """How many rows there are."""

    def records(self) -> Iterator[ReleaseBatch]:
        """All rows, by the unit's bytes and then by all codes in the order of the schema, missing ones last."""

    def release_rows(self, plan: ReleasePlan, key: str) -> Iterator[ReleaseBatch]:
        """All rows, what the plan makes of them, and their groups, in an order that tells nothing."""

    def close(self) -> None:
        """Let go of connections."""


def require_one_row_each(schema: Schema) -> None:
    """Refuse to speak of a unit's value where a unit may have several, or none has a name."""
    if schema.unit is None or schema.rows != 1:
        raise Unsupported(f"one unit's value is asked of {schema.name}, but its schema does not give each unit one row")


def require_rankable(schema: Schema, column: str) -> None:
    """Refuse to rank private keys, which have no public order."""
    if schema.column(column).private_keys:
        raise Unsupported(
            f"a release ranks the values of {column[:40]!r}, but they are private keys without an order; "
            "choose a column with a public domain"
        )
