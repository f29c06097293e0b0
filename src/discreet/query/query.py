"""What is asked: aggregates, a predicate, group keys. A value; presentation is kept apart, since it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from discreet.errors import InvalidInput
from discreet.plain import is_exactly, plain_exact
from discreet.query.predicate import PREDICATES, TRUE, Predicate

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
FUNCTIONS: tuple[str, ...] = get_args(Function)
COMPARISONS: tuple[str, ...] = get_args(Comparison)
NESTINGS: tuple[str, ...] = get_args(Nesting)
ROWS_OR_UNITS = ("count", "count_distinct")


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

    def __post_init__(self) -> None:
        """Require a known function with what it takes, of exact builtin types."""
        if not _one_of(self.function, FUNCTIONS) or not (self.column is None or type(self.column) is str):
            raise InvalidInput(f"an aggregate is one of {', '.join(FUNCTIONS)}, of a column by its name")
        if type(self.orders) is not tuple or not is_exactly(self.where, *PREDICATES):
            raise InvalidInput("an aggregate has a tuple of orders, and a predicate for its filter")
        object.__setattr__(self, "orders", tuple(plain_exact(order, "an order") for order in self.orders))
        counts = self.function in ROWS_OR_UNITS
        if not counts and (self.column is None or self.where != TRUE):
            raise InvalidInput(f"{self.function} is of a column, and has no filter; a filter is for counts")
        if self.column is not None and (self.function == "count_distinct" or self.where != TRUE):
            raise InvalidInput("a count of units, and a count with a filter, have no column")
        most = None if self.function == "quantile" else int(self.function == "trimmed_mean")
        if most not in (None, len(self.orders)) or not all(0 < order < 1 for order in self.orders):
            raise InvalidInput(
                "a quantile has orders, and a trimmed mean one share, between 0 and 1; all else has none"
            )


@dataclass(frozen=True, slots=True)
class Key:
    """A group key: each value of a column, or bins of so many codes from the column's lowest."""

    column: str
    width: int = 1

    def __post_init__(self) -> None:
        """Require a name and a width of at least one code."""
        if type(self.column) is not str or not _is_place(self.width) or not self.width:
            raise InvalidInput("a group key is a column's name and a whole width of at least 1")


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the reply: a group key (by its place), or an aggregate (by its place) and which of its orders."""

    label: str
    key: int | None = None
    aggregate: int | None = None
    order: int = 0

    def __post_init__(self) -> None:
        """Require a name, and at most one of a key and an aggregate."""
        places = [place for place in (self.key, self.aggregate) if place is not None]
        if type(self.label) is not str or len(places) > 1 or not all(map(_is_place, (*places, self.order))):
            raise InvalidInput("a column of the reply has a name, and the place of one key or of one aggregate")


@dataclass(frozen=True, slots=True)
class Having:
    """A comparison of an output, by its place, with a constant; on noisy columns, so it costs nothing."""

    output: int
    comparison: Comparison
    constant: Fraction

    def __post_init__(self) -> None:
        """Require a place, a known comparison and an exact number."""
        object.__setattr__(self, "constant", plain_exact(self.constant, "the constant of HAVING"))
        if not _is_place(self.output) or not _one_of(self.comparison, COMPARISONS):
            raise InvalidInput(f"HAVING compares an output, by its place, by one of {', '.join(COMPARISONS)}")


@dataclass(frozen=True, slots=True)
class Presentation:
    """How the reply is laid out: after the noise, hence free. All of `having` must hold."""

    outputs: tuple[Output, ...]
    having: tuple[Having, ...] = ()
    order: tuple[tuple[int, bool], ...] = ()
    """Outputs by place, and whether falling."""
    limit: int | None = None

    def __post_init__(self) -> None:
        """Require tuples of outputs and of what is said of them."""
        sorted_by = _tuple_of(self.order, tuple) and all(map(_is_direction, self.order))
        limited = self.limit is None or (_is_place(self.limit) and self.limit > 0)
        if not (_tuple_of(self.outputs, Output) and _tuple_of(self.having, Having) and sorted_by and limited):
            raise InvalidInput("a presentation has outputs, comparisons, places to sort by and a limit of at least 1")


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

    def __post_init__(self) -> None:
        """Require parts of exactly these classes, and of nested cells that they are those of one count."""
        names = (self.table, *(name for name in (self.unit, self.column) if name is not None))
        if not all(type(name) is str for name in names) or (self.unit is None) != (self.column is None):
            raise InvalidInput("a query names its table, and if it is about one unit that unit and a column")
        parts = _tuple_of(self.aggregates, Aggregate) and _tuple_of(self.keys, Key)
        if not parts or type(self.presentation) is not Presentation or not is_exactly(self.where, *PREDICATES):
            raise InvalidInput("a query has tuples of aggregates and keys, a presentation and a predicate")
        if not _one_of(self.nesting, NESTINGS):
            raise InvalidInput(f"the nesting of a query is one of {', '.join(map(repr, NESTINGS))}")
        if self.nesting and [one.function for one in self.aggregates] != ["count"]:
            raise InvalidInput("a HISTOGRAM or a ROLLUP is of one count of rows, and of nothing else")
        if self.nesting and not (self.keys if self.nesting == "rollup" else len(self.keys) == 1):
            raise InvalidInput("a HISTOGRAM has one key, and a ROLLUP at least one")


def _one_of(value: object, names: tuple[str, ...]) -> bool:
    return type(value) is str and value in names


def _is_place(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_direction(pair: tuple[object, ...]) -> bool:
    return len(pair) == 2 and _is_place(pair[0]) and type(pair[1]) is bool


def _tuple_of(parts: object, kind: type) -> bool:
    return type(parts) is tuple and all(type(part) is kind for part in parts)
