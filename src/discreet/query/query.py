"""A question as a value: aggregates, group keys, presentation, its canonical text, and how its parts are labeled."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NewType, get_args

from discreet.errors import InvalidInput
from discreet.query.predicates import PREDICATES, TRUE, Predicate, build_canonical_form, build_predicate_sort_key
from discreet.schema import Schema
from discreet.suggestions import list_names
from discreet.untrusted import CheckedValue, copy_exact_number, has_exact_type

AggregateFunction = Literal[
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
AGGREGATE_FUNCTIONS: tuple[str, ...] = get_args(AggregateFunction)
COMPARISONS: tuple[str, ...] = get_args(Comparison)
NESTINGS: tuple[str, ...] = get_args(Nesting)
COUNT_FUNCTIONS = ("count", "count_distinct")


@dataclass(frozen=True, slots=True)
class Aggregate(CheckedValue):
    """One aggregate. COUNT(*) has no column; COUNT(DISTINCT unit) has none either; a quantile has its orders,
    a trimmed mean the share of the rows that is left out at either end.

    `where` is FILTER (WHERE ...), of counts alone, as far as the question's own condition does not imply it; a count
    with a filter has no column.
    """

    function: AggregateFunction
    column: str | None = None
    orders: tuple[Fraction, ...] = ()
    where: Predicate = TRUE

    def __post_init__(self) -> None:
        """Require a known function with what it takes, of exact builtin types."""
        if not _is_one_of(self.function, AGGREGATE_FUNCTIONS) or not (self.column is None or type(self.column) is str):
            raise InvalidInput(f"an aggregate is one of {list_names(AGGREGATE_FUNCTIONS)}, of a column by its name")
        if type(self.orders) is not tuple or not has_exact_type(self.where, *PREDICATES):
            raise InvalidInput("an aggregate has a tuple of orders, and a predicate for its filter")
        object.__setattr__(self, "orders", tuple(copy_exact_number(order, "an order") for order in self.orders))
        is_count = self.function in COUNT_FUNCTIONS
        if not is_count and (self.column is None or self.where != TRUE):
            raise InvalidInput(f"{self.function} is of a column, and has no filter; a filter is for counts")
        if self.column is not None and (self.function == "count_distinct" or self.where != TRUE):
            raise InvalidInput("a count of units, and a count with a filter, have no column")
        order_count = None if self.function == "quantile" else int(self.function == "trimmed_mean")
        if order_count not in (None, len(self.orders)) or not all(0 < order < 1 for order in self.orders):
            raise InvalidInput(
                "a quantile has orders, and a trimmed mean one share, between 0 and 1; all else has none"
            )


@dataclass(frozen=True, slots=True)
class GroupKey(CheckedValue):
    """A group key: each value of a column, or bins of so many codes from the column's lowest."""

    column: str
    width: int = 1

    def __post_init__(self) -> None:
        """Require a name and a width of at least one code."""
        if type(self.column) is not str or not _is_index(self.width) or not self.width:
            raise InvalidInput("a group key is a column's name and a whole width of at least 1")


@dataclass(frozen=True, slots=True)
class OutputColumn(CheckedValue):
    """One column of the reply: a group key (by its place), or an aggregate (by its place) and which of its orders."""

    label: str
    key: int | None = None
    aggregate: int | None = None
    order: int = 0

    def __post_init__(self) -> None:
        """Require a name, and at most one of a key and an aggregate."""
        indexes = [index for index in (self.key, self.aggregate) if index is not None]
        if type(self.label) is not str or len(indexes) > 1 or not all(map(_is_index, (*indexes, self.order))):
            raise InvalidInput("a column of the reply has a name, and the place of one key or of one aggregate")


@dataclass(frozen=True, slots=True)
class HavingCondition(CheckedValue):
    """A comparison of an output, by its place, with a constant; on noisy columns, so it costs nothing."""

    output: int
    comparison: Comparison
    constant: Fraction

    def __post_init__(self) -> None:
        """Require a place, a known comparison and an exact number."""
        object.__setattr__(self, "constant", copy_exact_number(self.constant, "the constant of HAVING"))
        if not _is_index(self.output) or not _is_one_of(self.comparison, COMPARISONS):
            raise InvalidInput(f"HAVING compares an output, by its place, by one of {', '.join(COMPARISONS)}")


@dataclass(frozen=True, slots=True)
class Presentation(CheckedValue):
    """How the reply is laid out: after the noise, hence free. All of `having` must hold."""

    outputs: tuple[OutputColumn, ...]
    having: tuple[HavingCondition, ...] = ()
    order: tuple[tuple[int, bool], ...] = ()
    """Outputs by place, and whether falling."""
    limit: int | None = None

    def __post_init__(self) -> None:
        """Require tuples of outputs and of what is said of them."""
        has_valid_parts = _is_tuple_of(self.outputs, OutputColumn) and _is_tuple_of(self.having, HavingCondition)
        has_valid_order = _is_tuple_of(self.order, tuple) and all(map(_is_direction, self.order))
        has_valid_limit = self.limit is None or (_is_index(self.limit) and self.limit > 0)
        if not (has_valid_parts and has_valid_order and has_valid_limit):
            raise InvalidInput("a presentation has outputs, comparisons, places to sort by and a limit of at least 1")


@dataclass(frozen=True, slots=True)
class Query(CheckedValue):
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
    keys: tuple[GroupKey, ...] = ()
    unit: str | None = None
    column: str | None = None
    nesting: Nesting = ""

    def __post_init__(self) -> None:
        """Require parts of exactly these classes, and of nested cells that they are those of one count."""
        names = (self.table, *(name for name in (self.unit, self.column) if name is not None))
        if not all(type(name) is str for name in names) or (self.unit is None) != (self.column is None):
            raise InvalidInput("a query names its table, and if it is about one unit that unit and a column")
        has_valid_parts = _is_tuple_of(self.aggregates, Aggregate) and _is_tuple_of(self.keys, GroupKey)
        has_valid_layout = type(self.presentation) is Presentation
        if not (has_valid_parts and has_valid_layout and has_exact_type(self.where, *PREDICATES)):
            raise InvalidInput("a query has tuples of aggregates and keys, a presentation and a predicate")
        if not _is_one_of(self.nesting, NESTINGS):
            raise InvalidInput(f"the nesting of a query is one of {', '.join(map(repr, NESTINGS))}")
        if self.nesting and [aggregate.function for aggregate in self.aggregates] != ["count"]:
            raise InvalidInput("a HISTOGRAM or a ROLLUP is of one count of rows, and of nothing else")
        if self.nesting and not (self.keys if self.nesting == "rollup" else len(self.keys) == 1):
            raise InvalidInput("a HISTOGRAM has one key, and a ROLLUP at least one")


CheckedQuery = NewType("CheckedQuery", Query)
"""A query that a text was resolved to, or that passed the same checks: only such a query is planned."""


def _is_one_of(value: object, names: tuple[str, ...]) -> bool:
    return type(value) is str and value in names


def _is_index(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_direction(pair: tuple[object, ...]) -> bool:
    return len(pair) == 2 and _is_index(pair[0]) and type(pair[1]) is bool


def _is_tuple_of(parts: object, kind: type) -> bool:
    return type(parts) is tuple and all(type(part) is kind for part in parts)


def format_canonical_query(query: Query) -> str:
    """Format all of a question but its presentation as JSON text."""
    payload = {
        "table": query.table,
        "aggregates": [_describe_aggregate(aggregate) for aggregate in query.aggregates],
        "keys": [[key.column, key.width] for key in query.keys],
        "where": build_canonical_form(query.where),
        "unit": query.unit,
        "column": query.column,
    }
    if query.nesting:
        payload["nesting"] = query.nesting
    return json.dumps(payload, sort_keys=True, separators=(",", ":"))


def _describe_aggregate(aggregate: Aggregate) -> list[object]:
    description: list[object] = [aggregate.function, aggregate.column, [str(q) for q in aggregate.orders]]
    return description if aggregate.where == TRUE else [*description, build_canonical_form(aggregate.where)]


def sort_aggregates(aggregates: Iterable[Aggregate]) -> tuple[Aggregate, ...]:
    """Sort aggregates by function, column, filter and orders; first those without a filter."""
    return tuple(sorted(aggregates, key=_build_aggregate_sort_key))


def _build_aggregate_sort_key(aggregate: Aggregate) -> tuple[str, str, bool, str, tuple[Fraction, ...]]:
    where = aggregate.where
    return aggregate.function, aggregate.column or "", where != TRUE, build_predicate_sort_key(where), aggregate.orders


FUNCTION_SPELLINGS: Mapping[str, AggregateFunction] = {
    "COUNT": "count",
    "COUNT_DISTINCT": "count_distinct",
    "SUM": "sum",
    "AVG": "avg",
    "VAR": "var",
    "VARIANCE": "var",
    "VAR_SAMP": "var",
    "STDDEV": "stddev",
    "STDDEV_SAMP": "stddev",
    "QUANTILE": "quantile",
    "MEDIAN": "quantile",
    "MIN": "min",
    "MAX": "max",
    "SECOND_MAX": "second_max",
    "MODE": "mode",
    "TRIMMED_MEAN": "trimmed_mean",
}
"""The names a function goes by; the first of several is the usual one."""


def format_key_label(key: GroupKey, schema: Schema, format_column: Callable[[str], str] = str) -> str:
    """Format a group key: the column, or its bins with their width in the column's units."""
    width = key.width * schema.column(key.column).step
    name = format_column(key.column)
    return name if key.width == 1 else f"BIN({name}, {format_full_number(width)})"


def count_bins(key: GroupKey, schema: Schema) -> int:
    """Count the bins of a group key; a missing value is in none of them."""
    return -(-schema.column(key.column).size // key.width)


def count_key_cells(keys: Iterable[GroupKey], schema: Schema) -> list[int]:
    """Count the cells of each group key: its bins, and one where a value can be missing."""
    return [count_bins(key, schema) + schema.column(key.column).is_nullable for key in keys]


def count_answer_numbers(query: Query, schema: Schema) -> int:
    """How many numbers the reply has at most, over all its rows, from public facts."""
    sizes = count_key_cells(query.keys, schema)
    totals = range(len(sizes)) if query.nesting == "rollup" else ()
    rows = math.prod(sizes) + sum(math.prod(sizes[:first]) for first in totals)
    aggregate_numbers = sum(max(1, len(item.orders)) for item in query.aggregates)
    output_numbers = sum(item.key is None for item in query.presentation.outputs)
    return rows * max(1, aggregate_numbers, output_numbers)


def format_aggregate_label(spelling: str, argument: str, order: Fraction | None = None) -> str:
    """A function as it is written in SQL."""
    if spelling == "COUNT_DISTINCT":
        return f"COUNT(DISTINCT {argument})"
    if spelling in {"QUANTILE", "TRIMMED_MEAN"} and order is not None:
        return f"{spelling}({argument}, {format_full_number(order)})"
    return f"{spelling}({argument})"


def list_spellings(aggregate: Aggregate, schema: Schema) -> list[tuple[str, str]]:
    """All ways to write an aggregate, each a function's name and its argument, the usual one first."""
    if aggregate.function == "count" and aggregate.column is None:
        required_columns = [name for name, column in schema.columns.items() if not column.is_nullable]
        units = [("COUNT_DISTINCT", schema.unit)] if schema.unit and schema.rows == 1 else []
        return [("COUNT", "*"), *units, *(("COUNT", name) for name in required_columns)]
    argument = aggregate.column or schema.unit or ""
    return [(name, argument) for name, function in FUNCTION_SPELLINGS.items() if function == aggregate.function]


def check_question_text(text: str) -> None:
    """Refuse the characters that not every engine can hold."""
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise InvalidInput("a question must not hold NUL characters or halves of characters; write plain text")


def format_full_number(value: Fraction) -> str:
    """A number in full as a decimal, or as a fraction where it has no end."""
    digits = 0
    while (10**digits * value).denominator > 1 and digits < value.denominator.bit_length():
        digits += 1
    scaled = 10**digits * value
    if scaled.denominator > 1:
        return str(value)
    text = str(abs(scaled.numerator)).rjust(digits + 1, "0")
    integer_digits, decimal_digits = (text[:-digits], text[-digits:]) if digits else (text, "")
    return f"{'-' if value < 0 else ''}{integer_digits}{'.' if decimal_digits else ''}{decimal_digits}"
