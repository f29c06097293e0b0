"""What every source of rows does, what it refuses, and the batches in which it returns rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unsupported
from discreet.query import scan
from discreet.schema import Schema

EngineValue = int | str | Decimal | None
EngineColumn = NDArray[np.int64] | NDArray[np.object_]
"""A column of a reply: numbers, or texts as objects."""
BATCH_SIZE = 100_000
"""How many rows a batch has, but for the last."""
RECORD_GROUPS = "records"
"""The name of groups of whole rows."""


class Source(Protocol):
    """Where a snapshot lives. Nothing it does may fail on a row, and nothing it says of a failure may quote one."""

    def totals(self, plan: scan.TotalsScan) -> Mapping[scan.Cell, scan.Amounts]:
        """The totals of every cell that has rows; without keys, of the one cell (), rows or not."""

    def histogram(self, plan: scan.HistogramScan) -> Mapping[scan.Cell, NDArray[np.int64]]:
        """The counts of every cell that has rows; without keys, of the one cell (), rows or not."""

    def individual(self, column: str, unit: str) -> int | None:
        """The code of one unit's value; None where the unit is absent or has none."""

    def count(self) -> int:
        """How many rows there are."""

    def records(self) -> Iterator[scan.ReleaseBatch]:
        """All rows, by the unit's bytes and then by all codes in the order of the schema, missing ones last."""

    def release_rows(self, plan: scan.ReleasePlan, key: str) -> Iterator[scan.ReleaseBatch]:
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


def build_value_array(values: Sequence[EngineValue], dtype: type) -> EngineColumn:
    """An array of texts, or of numbers, in which `MISSING_CODE` stands for what is missing."""
    if dtype is object or None not in values:
        return np.array(values, dtype)
    return np.array([scan.MISSING_CODE if value is None else value for value in values], dtype)


@dataclass(frozen=True, slots=True)
class BatchShape:
    """The columns of a reply, in order: those of the schema, those that were changed, the labels of groups."""

    original: tuple[str, ...]
    texts: frozenset[str]
    changed: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @staticmethod
    def for_records(schema: Schema) -> BatchShape:
        """The shape of the rows as they are."""
        texts = frozenset(name for name, column in schema.columns.items() if column.private_keys)
        return BatchShape(tuple(schema.columns), texts)

    @staticmethod
    def for_release(plan: scan.ReleasePlan, schema: Schema) -> BatchShape:
        """The shape of the rows and of what a plan makes of them."""
        base_shape = BatchShape.for_records(schema)
        if isinstance(plan, scan.SwapPlan):
            names = tuple(name for name, _ in plan.runs)
            return replace(base_shape, changed=names, groups=names)
        changed = (plan.column,) if isinstance(plan, scan.TClosenessPlan) else ()
        return replace(base_shape, changed=changed, groups=(RECORD_GROUPS,))

    def build_batch(self, columns: Sequence[EngineColumn]) -> scan.ReleaseBatch:
        """The columns of a reply by their names."""
        first, second = len(self.original), len(self.original) + len(self.changed)
        return scan.ReleaseBatch(
            dict(zip(self.original, columns[:first], strict=True)),
            dict(zip(self.changed, columns[first:second], strict=True)),
            {name: np.asarray(labels, np.int64) for name, labels in zip(self.groups, columns[second:], strict=True)},
        )

    def build_batches(self, row_chunks: Iterable[Sequence[Sequence[EngineValue]]]) -> Iterator[scan.ReleaseBatch]:
        """A reply that comes as lists of rows; none of a list without rows."""
        dtypes = [object if name in self.texts else np.int64 for name in self.original]
        dtypes += [np.int64] * (len(self.changed) + len(self.groups))
        for rows in row_chunks:
            if rows:
                columns = zip(dtypes, zip(*rows, strict=True), strict=True)
                yield self.build_batch([build_value_array(values, dtype) for dtype, values in columns])
