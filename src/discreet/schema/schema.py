"""All that is public about a table, as declared by its custodian. Nothing here was taken from the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

from discreet.errors import InvalidInput
from discreet.guarantee import Neighbours
from discreet.schema.column import Column


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that may be spent."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Published:
    """An exact statistic that was published before, outside our promise."""

    statistic: str
    value: str


@dataclass(frozen=True, slots=True)
class Schema:
    """One table: `unit` is the column that names a privacy unit, `rows` the most rows it keeps of one.

    `units` is their public number under replace-one and None under add-remove.
    """

    name: str
    source: str
    folder: Path
    neighbours: Neighbours
    columns: Mapping[str, Column]
    budget: Budget
    analyst_budget: Budget
    units: int | None = None
    unit: str | None = None
    rows: int = 1
    models: tuple[str, ...] = ("dp",)
    individual_dp_reason: str = ""
    individual_queries: bool = False
    partition: str | None = None
    lookups: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    published: tuple[Published, ...] = ()

    @property
    def unit_name(self) -> str:
        """What a guarantee calls the unit of privacy."""
        return "row" if self.unit is None else f"unit ({self.unit})"

    def column(self, name: str) -> Column:
        """A column by name; the columns there are, where there is no such."""
        if name not in self.columns:
            raise InvalidInput(f"there is no column {name[:40]!r}; there are {', '.join(self.columns)}")
        return self.columns[name]
