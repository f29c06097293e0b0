"""What each entry of a SELECT list means: a group key, or one number of an aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

from discreet.errors import InvalidInput
from discreet.exact import as_int, as_number_between, format_exact
from discreet.query.asked import FunctionCall, QualifiedName
from discreet.query.conditions import resolve_filter
from discreet.query.labels import FUNCTION_SPELLINGS, format_aggregate_label, format_full_number, format_key_label
from discreet.query.predicate import InRanges, InTexts
from discreet.query.query import Aggregate, AggregateFunction, GroupKey
from discreet.query.scope import Scope
from discreet.query.words import format_filter, quote_column_name
from discreet.schema import Column

NUMBER_FUNCTIONS = ("sum", "avg", "var", "stddev", "trimmed_mean")
RANK_FUNCTIONS = ("quantile", "min", "max", "second_max")
FUNCTION_REPLACEMENTS = {
    "PERCENTILE_CONT": "QUANTILE(x, 0.5)",
    "PERCENTILE_DISC": "QUANTILE(x, 0.5)",
    "PERCENTILE": "QUANTILE(x, 0.5)",
    "QUANTILE_CONT": "QUANTILE(x, 0.5)",
    "QUANTILE_DISC": "QUANTILE(x, 0.5)",
    "APPROX_QUANTILE": "QUANTILE(x, 0.5)",
    "MEAN": "AVG(x)",
    "TRIM_MEAN": "TRIMMED_MEAN(x, 0.1)",
    "WIDTH_BUCKET": "BIN(x, width)",
    "ROLLUP": "GROUP BY ROLLUP (a, b), alone there",
    "CUBE": "GROUP BY ROLLUP (a, b)",
}
CALLABLE_FUNCTIONS = frozenset({*FUNCTION_SPELLINGS, "BIN", "HISTOGRAM"})
MAX_ORDER_DENOMINATOR = 10**6
ONE_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class ResolvedOutput:
    """One column of the reply; a quantile here has one order."""

    label: str
    expression: GroupKey | Aggregate


def resolve_output(expression: QualifiedName | FunctionCall, scope: Scope) -> list[ResolvedOutput]:
    """One column of the reply, or several for several quantiles and for a histogram."""
    if isinstance(expression, QualifiedName):
        return [_build_key_output(GroupKey(scope.find_column(expression).name), scope)]
    if expression.where is not True:
        return [_resolve_filtered_count(expression, scope)]
    if expression.function == "BIN":
        return [_resolve_bins(expression, scope)]
    if expression.function == "HISTOGRAM":
        return [_resolve_histogram(expression, scope), ResolvedOutput("COUNT(*)", Aggregate("count"))]
    if expression.function not in FUNCTION_SPELLINGS:
        raise build_unknown_function_error(expression.function)
    function = FUNCTION_SPELLINGS[expression.function]
    if function == "count_distinct":
        return [_resolve_unit_count(expression, scope)]
    if expression.column is None:
        if function != "count":
            raise InvalidInput(f"{expression.function} needs a column; only COUNT takes *")
        _refuse_numbers(expression, "COUNT(*)")
        return [ResolvedOutput("COUNT(*)", Aggregate("count"))]
    return _resolve_column_function(expression, function, scope.find_column(expression.column))


def _resolve_filtered_count(call: FunctionCall, scope: Scope) -> ResolvedOutput:
    """A count of some of the rows; one of the rows with a value of a column counts rows, of which that is asked too."""
    if call.function not in {"COUNT", "COUNT_DISTINCT"}:
        raise InvalidInput(f"FILTER is for counts, not for {call.function[:40]!r}; put its condition into WHERE")
    (unfiltered_output,) = resolve_output(replace(call, where=True), scope)
    column = scope.find_column(call.column) if call.function == "COUNT" and call.column is not None else None
    where, function = resolve_filter(call.where, column, scope), cast(Aggregate, unfiltered_output.expression).function
    if function == "count" and isinstance(where, InRanges | InTexts):
        filter_column = scope.schema.column(where.column)
        if filter_column.is_nullable and where == resolve_filter(True, filter_column, scope):
            return ResolvedOutput(
                format_aggregate_label("COUNT", filter_column.name), Aggregate("count", filter_column.name)
            )
    label = "COUNT(*)" if column is not None and column.is_nullable else unfiltered_output.label
    return ResolvedOutput(
        label + format_filter(where, scope.schema, quote_column_name), Aggregate(function, where=where)
    )


def _resolve_column_function(call: FunctionCall, function: AggregateFunction, column: Column) -> list[ResolvedOutput]:
    _check_column_kind(call.function, function, column)
    if function == "quantile":
        return _resolve_quantiles(call, column)
    if function == "trimmed_mean":
        return [_resolve_trimmed_mean(call, column)]
    _refuse_numbers(call, f"{call.function}(x)")
    label = format_aggregate_label(call.function, column.name)
    if function == "count" and not column.is_nullable:
        return [ResolvedOutput(label, Aggregate("count"))]
    return [ResolvedOutput(label, Aggregate(function, column.name))]


def _check_column_kind(spelling: str, function: AggregateFunction, column: Column) -> None:
    """Sums are of numbers, ranks of numbers and dates, the mode of what has a public list of values.

    The mean of truth values is the proportion of true ones.
    """
    is_proportion = function == "avg" and column.kind == "boolean"
    if function in NUMBER_FUNCTIONS and not (column.is_numeric or is_proportion):
        raise InvalidInput(f"{spelling} is of numbers; {column.name} is {column.kind}")
    if function in RANK_FUNCTIONS and not (column.is_numeric or column.kind == "date"):
        raise InvalidInput(f"{spelling} is of numbers and dates; {column.name} is {column.kind}")
    if function == "mode" and column.private_keys:
        raise InvalidInput(f"MODE chooses from a public list of values; {column.name} has none")


def _resolve_quantiles(call: FunctionCall, column: Column) -> list[ResolvedOutput]:
    if call.function == "MEDIAN":
        _refuse_numbers(call, "MEDIAN(x)")
    elif not call.numbers:
        raise InvalidInput("QUANTILE needs an order, such as QUANTILE(x, 0.25)")
    orders = [_check_order(number) for number in call.numbers] or [Fraction(1, 2)]
    return [
        ResolvedOutput(
            format_aggregate_label(call.function, column.name, order), Aggregate("quantile", column.name, (order,))
        )
        for order in orders
    ]


def _resolve_trimmed_mean(call: FunctionCall, column: Column) -> ResolvedOutput:
    if len(call.numbers) != 1:
        raise InvalidInput("TRIMMED_MEAN is written TRIMMED_MEAN(x, 0.1), with the share left out at either end")
    (share,) = call.numbers
    if not 0 < share < ONE_HALF or MAX_ORDER_DENOMINATOR % share.denominator:
        raise InvalidInput(
            "the share of a trimmed mean is above 0 and below 0.5, with at most six digits after the point; "
            f"got {format_full_number(share)[:40]}"
        )
    label = format_aggregate_label(call.function, column.name, share)
    return ResolvedOutput(label, Aggregate("trimmed_mean", column.name, (share,)))


def _check_order(number: Fraction) -> Fraction:
    order = as_number_between(number, 0, 1, "the order of a quantile")
    if MAX_ORDER_DENOMINATOR % order.denominator:
        raise InvalidInput("the order of a quantile has at most six digits after the point")
    return order


def _resolve_unit_count(call: FunctionCall, scope: Scope) -> ResolvedOutput:
    """COUNT(DISTINCT unit); where each unit has one row, that is COUNT(*)."""
    _refuse_numbers(call, "COUNT(DISTINCT x)")
    unit = scope.schema.unit
    if unit is None:
        raise InvalidInput("COUNT(DISTINCT x) counts units; here every row is a unit, so ask COUNT(*)")
    if call.column is None or not scope.is_unit_column(call.column):
        raise InvalidInput(f"COUNT(DISTINCT x) counts units and nothing else; ask COUNT(DISTINCT {unit})")
    function: AggregateFunction = "count_distinct" if scope.schema.rows > 1 else "count"
    return ResolvedOutput(format_aggregate_label("COUNT_DISTINCT", unit), Aggregate(function))


def _resolve_bins(call: FunctionCall, scope: Scope) -> ResolvedOutput:
    """A key of equal bins from the column's lowest value; one bin where the width is more than the domain."""
    column, number = _check_bin_arguments(call, scope, "BIN(x, width)")
    codes = number / column.step
    if codes <= 0 or codes.denominator > 1:
        step = "a whole number of days" if column.kind == "date" else f"a multiple of {format_exact(column.step)}"
        raise InvalidInput(f"the width of a bin of {column.name} must be {step} above 0, got {format_exact(number)}")
    return _build_key_output(GroupKey(column.name, min(int(codes), column.size)), scope)


def _resolve_histogram(call: FunctionCall, scope: Scope) -> ResolvedOutput:
    column, number = _check_bin_arguments(call, scope, "HISTOGRAM(x, bins)")
    bins = as_int(number, "the number of bins")
    return _build_key_output(GroupKey(column.name, -(-column.size // bins)), scope)


def _check_bin_arguments(call: FunctionCall, scope: Scope, usage: str) -> tuple[Column, Fraction]:
    if call.column is None or len(call.numbers) != 1:
        raise InvalidInput(f"{call.function} is written {usage}, of a column and a number")
    column = scope.find_column(call.column)
    if not (column.is_numeric or column.kind == "date"):
        raise InvalidInput(f"{call.function} is of numbers and dates; {column.name} is {column.kind}")
    return column, call.numbers[0]


def _build_key_output(key: GroupKey, scope: Scope) -> ResolvedOutput:
    return ResolvedOutput(format_key_label(key, scope.schema), key)


def _refuse_numbers(call: FunctionCall, usage: str) -> None:
    if call.numbers:
        raise InvalidInput(f"{call.function} is written {usage}, without {_format_numbers(call.numbers)}")


def _format_numbers(numbers: Sequence[Fraction]) -> str:
    return ", ".join(format_full_number(number)[:40] for number in numbers[:3])


def build_unknown_function_error(function: str) -> InvalidInput:
    """What to say of a function that is not one of ours."""
    if function in FUNCTION_REPLACEMENTS:
        return InvalidInput(f"there is no {function} here; write {FUNCTION_REPLACEMENTS[function]}")
    return InvalidInput(
        f"there is no function {function[:40]!r}; there are {', '.join(FUNCTION_SPELLINGS)}, BIN and HISTOGRAM"
    )
