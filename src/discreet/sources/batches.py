"""What an engine returns of a table that is to be released, as batches of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.query.released import MISSING, Batch, Bucketise, ReleasePlan, Swap
from discreet.schema import Schema

SIZE = 100_000
"""How many rows a batch has, but for the last."""
RECORDS = "records"
"""What groups of whole rows are called."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a reply, in order: those of the schema, those that were changed, the labels of groups."""

    original: tuple[str, ...]
    texts: frozenset[str]
    changed: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @staticmethod
    def records(schema: Schema) -> Shape:
        """Of the rows as they are."""
        texts = frozenset(name for name, column in schema.columns.items() if column.private_keys)
        return Shape(tuple(schema.columns), texts)

    @staticmethod
    def released(plan: ReleasePlan, schema: Schema) -> Shape:
        """Of the rows, and of what a plan makes of them."""
        records = Shape.records(schema)
        if isinstance(plan, Swap):
            names = tuple(name for name, _ in plan.runs)
            return replace(records, changed=names, groups=names)
        return replace(records, changed=(plan.column,) if isinstance(plan, Bucketise) else (), groups=(RECORDS,))

    def batch(self, columns: Sequence[NDArray[Any]]) -> Batch:
        """The columns of a reply by their names."""
        first, second = len(self.original), len(self.original) + len(self.changed)
        return Batch(
            dict(zip(self.original, columns[:first], strict=True)),
            dict(zip(self.changed, columns[first:second], strict=True)),
            dict(zip(self.groups, columns[second:], strict=True)),
        )

    def batches(self, parts: Iterable[Sequence[Sequence[Any]]]) -> Iterator[Batch]:
        """A reply that comes as lists of rows; none of a list without rows."""
        names = (*self.original, *("",) * (len(self.changed) + len(self.groups)))
        for rows in parts:
            if rows:
                found = zip(names, zip(*rows, strict=True), strict=True)
                yield self.batch([_texts(values) if name in self.texts else _codes(values) for name, values in found])


def _texts(values: Sequence[str | None]) -> NDArray[Any]:
    return np.array(values, dtype=object)


def _codes(values: Sequence[int | None]) -> NDArray[np.int64]:
    if None not in values:
        return np.array(values, dtype=np.int64)
    return np.array([MISSING if value is None else value for value in values], dtype=np.int64)
