"""What is public about one question, and what one unit can therefore change."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.planner.coverage import BY_ITSELF, Coverage
from discreet.query.predicate import TRUE, Predicate
from discreet.schema import Column, Schema


@dataclass(frozen=True, slots=True)
class Facts:
    """The schema, the filter and, where cells are shown side by side, how many there are or may be."""

    schema: Schema
    where: Predicate
    cells: int | None = None
    coverage: Coverage = BY_ITSELF
    """What a requested probability covers."""

    @property
    def grouped(self) -> bool:
        """Whether cells are shown side by side."""
        return self.cells is not None

    @property
    def rows(self) -> int:
        """The most rows of one unit."""
        return self.schema.rows

    @property
    def replaces(self) -> bool:
        """Whether a neighbour replaces a unit, rather than adding or removing one."""
        return self.schema.neighbours == "replace-one"

    @property
    def reach(self) -> int:
        """In how many cells of disjoint ones a unit's rows can differ: r, or 2r where a replaced row may move."""
        return self.rows * self.sides

    @property
    def sides(self) -> int:
        """2 where rows can leave one shown cell and enter another, else 1."""
        return 2 if self.replaces and self.grouped else 1

    def known_rows(self, column: Column | None = None) -> int | None:
        """The public number of rows that count: units are replaced, each is one row, none is left out."""
        complete = column is None or not column.nullable
        every_row = self.replaces and self.rows == 1 and self.where == TRUE and not self.grouped
        return self.schema.units if every_row and complete else None

    def known_units(self) -> int | None:
        """The public number of units, where no filter leaves one out."""
        return self.schema.units if self.replaces and self.where == TRUE and not self.grouped else None
