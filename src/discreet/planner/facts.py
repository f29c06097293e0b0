"""What is public about one question, and what one unit can therefore change."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.planner.coverage import PLAIN_COVERAGE, Coverage
from discreet.query.predicate import TRUE, Predicate
from discreet.schema import Column, Schema


@dataclass(frozen=True, slots=True)
class ContributionBounds:
    """The schema, the filter and, where cells are shown side by side, how many there are or may be."""

    schema: Schema
    where: Predicate
    cells: int | None = None
    coverage: Coverage = PLAIN_COVERAGE
    """What a requested probability covers."""

    @property
    def is_grouped(self) -> bool:
        """Whether cells are shown side by side."""
        return self.cells is not None

    @property
    def rows_per_unit(self) -> int:
        """The most rows of one unit."""
        return self.schema.rows

    @property
    def is_replace_one(self) -> bool:
        """Whether a neighbour replaces a unit, rather than adding or removing one."""
        return self.schema.neighbours == "replace-one"

    @property
    def l0_bound(self) -> int:
        """In how many cells of disjoint ones a unit's rows can differ: r, or 2r where a replaced row may move."""
        return self.rows_per_unit * self.replace_factor

    @property
    def replace_factor(self) -> int:
        """2 where rows can leave one shown cell and enter another, else 1."""
        return 2 if self.is_replace_one and self.is_grouped else 1

    def get_public_rows(self, column: Column | None = None) -> int | None:
        """The public number of rows that count: units are replaced, each is one row, none is left out."""
        is_complete = column is None or not column.is_nullable
        has_every_row = self.is_replace_one and self.rows_per_unit == 1 and self.where == TRUE and not self.is_grouped
        return self.schema.units if has_every_row and is_complete else None

    def get_public_units(self) -> int | None:
        """The public number of units, where no filter leaves one out."""
        return self.schema.units if self.is_replace_one and self.where == TRUE and not self.is_grouped else None
