"""What is asked: aggregates, a predicate, group keys. A value; presentation is kept apart, since it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from discreet.query.predicate import TRUE, Predicate

Function = Literal[
    "count",
    "count_distinct",
    "sum",
    "avg",
    "var",
    "stddev",
    "quantile",
    "min",
    "max",
    "second_max",
    "mode",
    "trimmed_mean",
]
Comparison = Literal["<", "<=", "=", "<>", ">=", ">"]
Nesting = Literal["", "ranges", "rollup"]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate. COUNT(*) has no column; COUNT(DISTINCT unit) has none either; a quantile has its orders,
    a trimmed mean the share of the rows that is left out at either end.

    `where` is FILTER (WHERE ...), of counts alone, as far as the question's own condition does not imply it; a count
    with a filter has no column.
    """

    function: Function
    column: str | None = None
    orders: tuple[Fraction, ...] = ()
    where: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class Key:
    """A group key: each value of a column, or bins of so many codes from the column's lowest."""

    column: str
    width: int = 1


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the reply: a group key (by its place), or an aggregate (by its place) and which of its orders."""

    label: str
    key: int | None = None
    aggregate: int | None = None
    order: int = 0


@dataclass(frozen=True, slots=True)
class Having:
    """A comparison of an output, by its place, with a constant; on noisy columns, so it costs nothing."""

    output: int
    comparison: Comparison
    constant: Fraction


@dataclass(frozen=True, slots=True)
class Presentation:
    """How the reply is laid out: after the noise, hence free. All of `having` must hold."""

    outputs: tuple[Output, ...]
    having: tuple[Having, ...] = ()
    order: tuple[tuple[int, bool], ...] = ()
    """Outputs by place, and whether falling."""
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A question in canonical form: aggregates sorted, each once; keys in the order of the schema's columns.

    `nesting` says that blocks of cells are asked for too: all ranges of one key, or the totals over all but the first
    keys, which then stand in the order of the ROLLUP.
    `unit` names the one person asked about, in `SELECT column FROM table FOR UNIT 'p17'`; then `aggregates` is empty
    and `column` is what is asked of that person.
    """

    table: str
    aggregates: tuple[Aggregate, ...]
    presentation: Presentation
    where: Predicate = TRUE
    keys: tuple[Key, ...] = ()
    unit: str | None = None
    column: str | None = None
    nesting: Nesting = ""
