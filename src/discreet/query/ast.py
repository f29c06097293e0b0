"""A question as it was written in SQL: names and constants, not yet held against a schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import Literal

from discreet.query.predicates import Predicate
from discreet.query.query import Comparison

MAX_TEXT_LENGTH = 20_000
"""In characters, of a question's text."""
MAX_TOKENS = 4_000
"""Tokens of SQL."""
MAX_NESTING = 32
"""Brackets within brackets, and chains of NOT or minus."""

Constant = Fraction | str | bool | date | None
Span = tuple[int, int]
"""The characters of a question's text that a part was read from: the first, and the one after the last."""


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """A column or an output, and the table it was said to be of."""

    name: str
    table: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)
    table_span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.table}.{self.name}" if self.table else self.name


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of a column: COUNT(*) has none; COUNT(DISTINCT x) is COUNT_DISTINCT of x; `where` is its FILTER."""

    function: str
    column: QualifiedName | None
    numbers: tuple[Fraction, ...] = ()
    where: Condition = True
    span: Span | None = field(default=None, compare=False, repr=False)
    number_spans: tuple[Span | None, ...] = field(default=(), compare=False, repr=False)


OutputReference = QualifiedName | FunctionCall | int
"""One of the outputs: by name, by expression, or by its place from 1."""


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One entry of the SELECT list."""

    expression: QualifiedName | FunctionCall
    alias: str = ""
    alias_span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a constant."""

    column: QualifiedName
    comparison: Comparison
    constant: Constant
    span: Span | None = field(default=None, compare=False, repr=False)
    """That of the constant."""


@dataclass(frozen=True, slots=True)
class InList:
    """A column is IN a list of constants."""

    column: QualifiedName
    constants: tuple[Constant, ...]
    spans: tuple[Span | None, ...] = field(default=(), compare=False, repr=False)
    """Those of the constants."""


@dataclass(frozen=True, slots=True)
class IsCheck:
    """A column IS NULL, IS TRUE or IS FALSE; never unknown."""

    column: QualifiedName
    value: bool | None


@dataclass(frozen=True, slots=True)
class Not:
    """The other way round; unknown stays unknown."""

    part: Condition


@dataclass(frozen=True, slots=True)
class And:
    """AND."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """OR."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class ResolvedCondition:
    """A whole condition that is a predicate already, as that of a query is."""

    predicate: Predicate


Condition = Compare | InList | IsCheck | Not | And | Or | ResolvedCondition | bool | None
"""None is NULL as a condition: unknown of every row."""


@dataclass(frozen=True, slots=True)
class Join:
    """A lookup: `on` is both sides of ON, the one name of USING, or empty where the schema's key is meant."""

    lookup: str
    kind: Literal["inner", "left"]
    alias: str = ""
    on: tuple[QualifiedName, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class HavingBound:
    """One comparison of HAVING."""

    output: QualifiedName | FunctionCall
    comparison: Comparison
    constant: Fraction


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """All that was written."""

    table: str
    items: tuple[SelectItem, ...]
    alias: str = ""
    joins: tuple[Join, ...] = ()
    where: Condition = True
    group: tuple[OutputReference, ...] = ()
    rollup: bool = False
    """Whether the totals over all but the first keys are asked for too."""
    having: tuple[HavingBound, ...] = ()
    order: tuple[tuple[OutputReference, bool], ...] = ()
    """Outputs, and whether falling."""
    limit: Fraction | None = None
    unit: str | None = None
    unit_span: Span | None = field(default=None, compare=False, repr=False)
    """That of FOR UNIT and the unit."""
    limit_span: Span | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)
    """That of the table's name."""
    item_spans: tuple[Span | None, ...] = field(default=(), compare=False, repr=False)
    group_spans: tuple[Span | None, ...] = field(default=(), compare=False, repr=False)
    order_spans: tuple[Span | None, ...] = field(default=(), compare=False, repr=False)
