"""What an aggregate or a group key is called where the question gives it no name."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from discreet.query.query import Aggregate, AggregateFunction, GroupKey
from discreet.schema import Schema

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


def format_key_label(key: GroupKey, schema: Schema) -> str:
    """The column, or its bins with their width in the column's units."""
    width = key.width * schema.column(key.column).step
    return key.column if key.width == 1 else f"BIN({key.column}, {format_full_number(width)})"


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
