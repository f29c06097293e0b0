"""What a method gives: a table that can be released, beside the original row for row, and what it promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.guarantee import Guarantee
from discreet.microdata.table import Table

NO_FACTS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class ProtectedTable(Mapping[str, NDArray[Any]]):
    """A protected table; as a mapping, its columns as numpy arrays.

    Row i was made of row `kept[i]` of the original, so that the two can be compared: whoever releases it must put the
    rows in an order that tells nothing, as `Custodian.publish` does. `groups` says which rows hide one another, for
    all columns ("records") or for one confidential column; it is released only where the method says so.
    """

    table: Table
    guarantee: Guarantee
    groups: Mapping[str, NDArray[np.int64]]
    source_rows: NDArray[np.int64]
    second: Table | None = None
    """The other table of Anatomy: one row for each group and value, with how many of the group have it."""
    facts: Mapping[str, object] = field(default_factory=lambda: NO_FACTS)
    """What was measured on the way and may be told with the release, as JSON holds it."""

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.table[name].to_array()

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table.attributes)
