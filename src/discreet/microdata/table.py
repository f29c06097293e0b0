"""A table of records as the methods see it: one attribute after the other, in numbers, with what is public about each.

A numeric attribute holds floats, NaN where a value is missing; an ordinal or nominal one holds places in its list of
categories, -1 where a value is missing. What a missing value means to a distance and to a centroid is written once, in
`microdata/distances.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.taxonomy import Taxonomy

Kind = Literal["numeric", "ordinal", "nominal"]
ValueType = Literal["integer", "number", "date", "truth", "text"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ABSENT = -1
"""The place of a missing value."""


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """One column. `lower` and `upper` bound its domain: the declared one, or where none is, that of the values."""

    name: str
    kind: Kind
    values: NDArray[Any]
    categories: tuple[str, ...] = ()
    taxonomy: Taxonomy | None = None
    lower: float = 0.0
    upper: float = 0.0
    value_type: ValueType = "number"

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where there is no value."""
        absent: NDArray[np.bool_] = self.values == ABSENT
        return np.isnan(self.values) if self.kind == "numeric" else absent

    @property
    def is_constant(self) -> bool:
        """Whether no two rows differ."""
        present = self.values[~self.missing]
        return len(present) in {0, len(self.values)} and (len(present) == 0 or bool(np.all(present == present[0])))

    @property
    def output_type(self) -> ValueType:
        """What is written of it: whole numbers only where all are whole."""
        is_whole = self.value_type != "integer" or bool((self.values % 1 == 0)[~self.missing].all())
        return self.value_type if is_whole else "number"

    def take(self, rows: NDArray[np.int64]) -> Attribute:
        """The same attribute of these rows, in this order."""
        return replace(self, values=self.values[rows])

    def to_array(self) -> NDArray[Any]:
        """The values as people write them: None, NaN or NaT where one is missing."""
        absent = self.missing
        if self.kind != "numeric":
            return self._decode_labels(absent)
        if self.value_type == "date":
            days = np.where(absent, 0, self.values).round().astype("datetime64[D]")
            return np.where(absent, np.datetime64("NaT"), days)
        is_whole = (
            self.value_type == "integer" and not absent.any() and bool(np.all(self.values == np.floor(self.values)))
        )
        return self.values.astype(np.int64) if is_whole else self.values

    def _decode_labels(self, absent: NDArray[np.bool_]) -> NDArray[Any]:
        labels: list[object] = [*self.categories, None]  # the place -1 is the last
        if self.value_type == "truth":
            labels = [*(label == "true" for label in self.categories), None]
        decoded_labels: NDArray[Any] = np.array(labels, dtype=object)[self.values]
        return decoded_labels.astype(bool) if self.value_type == "truth" and not absent.any() else decoded_labels


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Attributes of the same rows, by name."""

    attributes: Mapping[str, Attribute]

    def __post_init__(self) -> None:
        """There is at least one attribute, and all have as many rows."""
        if len({len(attribute.values) for attribute in self.attributes.values()}) != 1:
            raise InvalidInput("a table has at least one column, and all its columns have as many rows")

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.attributes.values())).values)

    def __getitem__(self, name: str) -> Attribute:
        if name not in self.attributes:
            raise InvalidInput(f"there is no column {str(name)[:40]!r}; there are {', '.join(self.attributes)}")
        return self.attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def select(self, names: Sequence[str]) -> Table:
        """These columns alone, in this order."""
        return Table({name: self[name] for name in names})

    def drop(self, names: Sequence[str]) -> Table:
        """All columns but these."""
        return Table({name: attribute for name, attribute in self.attributes.items() if name not in names})

    def put(self, *attributes: Attribute) -> Table:
        """The same table with these columns in the place of those of their names."""
        return Table({**self.attributes, **{attribute.name: attribute for attribute in attributes}})

    def take(self, rows: NDArray[np.int64]) -> Table:
        """These rows alone, in this order."""
        return Table({name: attribute.take(rows) for name, attribute in self.attributes.items()})

    def split_batches(self, size: int) -> Iterator[Table]:
        """The rows in their order, `size` at a time; nothing is copied."""
        for first in range(0, self.rows, size):
            batch = slice(first, first + size)
            yield Table(
                {
                    name: replace(attribute, values=attribute.values[batch])
                    for name, attribute in self.attributes.items()
                }
            )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Every column as people write it."""
        return {name: attribute.to_array() for name, attribute in self.attributes.items()}
