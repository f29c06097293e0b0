"""A snapshot's columns in one dialect of SQL: what they are called, and how they are compared with constants.

They are c0, c1, ... in the order of the schema, and u, the name of the unit, where the schema has units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from discreet.schema import Column, Schema

Dialect = Literal["duckdb", "postgres", "spark"]

MAX_INLINE_CONSTANTS = 16
"""DuckDB may compare a value with a list's members one by one; in a longer list, made a table, it looks values up."""


@dataclass(frozen=True, slots=True)
class SnapshotLayout:
    """The columns of one schema's snapshot in one dialect."""

    schema: Schema
    dialect: Dialect

    def get_schema_column(self, name: str) -> Column:
        """What is public about a column."""
        return self.schema.column(name)

    def get_column_index(self, name: str) -> int:
        """Which column of the schema it is, from 0."""
        return list(self.schema.columns).index(name)

    def get_column(self, name: str) -> exp.Column:
        """A column by the name it has in the schema."""
        return _quote_column(f"c{self.get_column_index(name)}")

    def get_text_column(self, name: str) -> exp.Expression:
        """A column of texts, compared by their bytes."""
        return self._compare_by_bytes(self.get_column(name))

    def get_unit_column(self) -> exp.Expression:
        """The names of the units, compared by their bytes."""
        return self._compare_by_bytes(_quote_column("u"))

    def list_columns(self) -> list[exp.Expression]:
        """Every column there must be."""
        return [*map(self.get_column, self.schema.columns), *([_quote_column("u")] if self.schema.unit else [])]

    def build_in(self, value: exp.Expression, constants: Sequence[exp.Expression]) -> exp.Expression:
        """Whether a value is one of these; unknown where it is missing."""
        if len(constants) == 1:
            return exp.EQ(this=value.copy(), expression=constants[0])
        if self.dialect != "duckdb" or len(constants) <= MAX_INLINE_CONSTANTS:
            return exp.In(this=value.copy(), expressions=constants)
        list_query = exp.select(exp.Explode(this=exp.Array(expressions=constants)))
        return exp.In(this=value.copy(), query=list_query.subquery(copy=False))

    def build_not_in(self, value: exp.Expression, constants: Sequence[exp.Expression]) -> exp.Expression:
        """Whether a value is none of these; unknown where it is missing."""
        if len(constants) == 1:
            return exp.NEQ(this=value.copy(), expression=constants[0])
        return exp.Not(this=self.build_in(value, constants))

    def build_parameter(self, number: int) -> exp.Expression:
        """Where a text goes, counted from 1."""
        if self.dialect == "spark":
            return exp.Placeholder(this=f"t{number}")
        return exp.Parameter(this=exp.Literal.number(number))

    def can_hold_text(self, text: str) -> bool:
        """Whether a text can be in a column: one that is not Unicode cannot, nor in PostgreSQL one with a NUL."""
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
        return self.dialect != "postgres" or "\0" not in text

    def _compare_by_bytes(self, column: exp.Column) -> exp.Expression:
        if self.dialect != "postgres":
            return column
        return exp.Collate(this=column, expression=exp.to_identifier("C", quoted=True))


def _quote_column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))
