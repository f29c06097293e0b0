"""What an engine returns of a table that is to be released, as batches of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.query.released import MISSING_CODE, ReleaseBatch, ReleasePlan, SwapPlan, TClosenessPlan
from discreet.schema import Schema

BATCH_SIZE = 100_000
"""How many rows a batch has, but for the last."""
RECORD_GROUPS = "records"
"""What groups of whole rows are called."""


@dataclass(frozen=True, slots=True)
class BatchShape:
    """The columns of a reply, in order: those of the schema, those that were changed, the labels of groups."""

    original: tuple[str, ...]
    texts: frozenset[str]
    changed: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @staticmethod
    def for_records(schema: Schema) -> BatchShape:
        """Of the rows as they are."""
        texts = frozenset(name for name, column in schema.columns.items() if column.private_keys)
        return BatchShape(tuple(schema.columns), texts)

    @staticmethod
    def for_release(plan: ReleasePlan, schema: Schema) -> BatchShape:
        """Of the rows, and of what a plan makes of them."""
        base_shape = BatchShape.for_records(schema)
        if isinstance(plan, SwapPlan):
            names = tuple(name for name, _ in plan.runs)
            return replace(base_shape, changed=names, groups=names)
        return replace(
            base_shape, changed=(plan.column,) if isinstance(plan, TClosenessPlan) else (), groups=(RECORD_GROUPS,)
        )

    def build_batch(self, columns: Sequence[NDArray[Any]]) -> ReleaseBatch:
        """The columns of a reply by their names."""
        first, second = len(self.original), len(self.original) + len(self.changed)
        return ReleaseBatch(
            dict(zip(self.original, columns[:first], strict=True)),
            dict(zip(self.changed, columns[first:second], strict=True)),
            dict(zip(self.groups, columns[second:], strict=True)),
        )

    def build_batches(self, row_chunks: Iterable[Sequence[Sequence[Any]]]) -> Iterator[ReleaseBatch]:
        """A reply that comes as lists of rows; none of a list without rows."""
        names = (*self.original, *("",) * (len(self.changed) + len(self.groups)))
        for rows in row_chunks:
            if rows:
                named_values = zip(names, zip(*rows, strict=True), strict=True)
                yield self.build_batch(
                    [
                        _to_text_array(values) if name in self.texts else _to_code_array(values)
                        for name, values in named_values
                    ]
                )


def _to_text_array(values: Sequence[str | None]) -> NDArray[Any]:
    return np.array(values, dtype=object)


def _to_code_array(values: Sequence[int | None]) -> NDArray[np.int64]:
    if None not in values:
        return np.array(values, dtype=np.int64)
    return np.array([MISSING_CODE if value is None else value for value in values], dtype=np.int64)
