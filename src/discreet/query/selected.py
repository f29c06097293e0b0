"""What each entry of a SELECT list means: a group key, or one number of an aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

from discreet.errors import InvalidInput
from discreet.exact import between, shown, whole
from discreet.query.asked import Call, Name
from discreet.query.conditions import rows_filtered
from discreet.query.labels import SPELLINGS, aggregate_label, key_label, number_text
from discreet.query.predicate import OneOf, Within
from discreet.query.query import Aggregate, Function, Key
from discreet.query.scope import Scope
from discreet.query.words import filter_text, plain_name
from discreet.schema import Column

OF_NUMBERS = ("sum", "avg", "var", "stddev", "trimmed_mean")
OF_RANKS = ("quantile", "min", "max", "second_max")
INSTEAD = {
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
FUNCTIONS = frozenset({*SPELLINGS, "BIN", "HISTOGRAM"})
FINEST_ORDER = 10**6
HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Meant:
    """One column of the reply; a quantile here has one order."""

    label: str
    what: Key | Aggregate


def meant(what: Name | Call, scope: Scope) -> list[Meant]:
    """One column of the reply, or several for several quantiles and for a histogram."""
    if isinstance(what, Name):
        return [_key(Key(scope.column(what).name), scope)]
    if what.where is not True:
        return [_filtered(what, scope)]
    if what.function == "BIN":
        return [_bins(what, scope)]
    if what.function == "HISTOGRAM":
        return [_histogram(what, scope), Meant("COUNT(*)", Aggregate("count"))]
    if what.function not in SPELLINGS:
        raise unknown(what.function)
    function = SPELLINGS[what.function]
    if function == "count_distinct":
        return [_units(what, scope)]
    if what.column is None:
        if function != "count":
            raise InvalidInput(f"{what.function} needs a column; only COUNT takes *")
        _no_numbers(what, "COUNT(*)")
        return [Meant("COUNT(*)", Aggregate("count"))]
    return _of_column(what, function, scope.column(what.column))


def _filtered(call: Call, scope: Scope) -> Meant:
    """A count of some of the rows; one of the rows with a value of a column counts rows, of which that is asked too."""
    if call.function not in {"COUNT", "COUNT_DISTINCT"}:
        raise InvalidInput(f"FILTER is for counts, not for {call.function[:40]!r}; put its condition into WHERE")
    (plain,) = meant(replace(call, where=True), scope)
    column = scope.column(call.column) if call.function == "COUNT" and call.column is not None else None
    where, function = rows_filtered(call.where, column, scope), cast(Aggregate, plain.what).function
    if function == "count" and isinstance(where, Within | OneOf):
        own = scope.schema.column(where.column)
        if own.nullable and where == rows_filtered(True, own, scope):
            return Meant(aggregate_label("COUNT", own.name), Aggregate("count", own.name))
    label = "COUNT(*)" if column is not None and column.nullable else plain.label
    return Meant(label + filter_text(where, scope.schema, plain_name), Aggregate(function, where=where))


def _of_column(call: Call, function: Function, column: Column) -> list[Meant]:
    _check_kind(call.function, function, column)
    if function == "quantile":
        return _quantiles(call, column)
    if function == "trimmed_mean":
        return [_trimmed(call, column)]
    _no_numbers(call, f"{call.function}(x)")
    label = aggregate_label(call.function, column.name)
    if function == "count" and not column.nullable:
        return [Meant(label, Aggregate("count"))]
    return [Meant(label, Aggregate(function, column.name))]


def _check_kind(said: str, function: Function, column: Column) -> None:
    """Sums are of numbers, ranks of numbers and dates, the mode of what has a public list of values.

    The mean of truth values is the proportion of true ones.
    """
    proportion = function == "avg" and column.kind == "boolean"
    if function in OF_NUMBERS and not (column.numeric or proportion):
        raise InvalidInput(f"{said} is of numbers; {column.name} is {column.kind}")
    if function in OF_RANKS and not (column.numeric or column.kind == "date"):
        raise InvalidInput(f"{said} is of numbers and dates; {column.name} is {column.kind}")
    if function == "mode" and column.private_keys:
        raise InvalidInput(f"MODE chooses from a public list of values; {column.name} has none")


def _quantiles(call: Call, column: Column) -> list[Meant]:
    if call.function == "MEDIAN":
        _no_numbers(call, "MEDIAN(x)")
    elif not call.numbers:
        raise InvalidInput("QUANTILE needs an order, such as QUANTILE(x, 0.25)")
    orders = [_order(number) for number in call.numbers] or [Fraction(1, 2)]
    return [
        Meant(aggregate_label(call.function, column.name, order), Aggregate("quantile", column.name, (order,)))
        for order in orders
    ]


def _trimmed(call: Call, column: Column) -> Meant:
    if len(call.numbers) != 1:
        raise InvalidInput("TRIMMED_MEAN is written TRIMMED_MEAN(x, 0.1), with the share left out at either end")
    (share,) = call.numbers
    if not 0 < share < HALF or FINEST_ORDER % share.denominator:
        raise InvalidInput(
            "the share of a trimmed mean is above 0 and below 0.5, with at most six digits after the point; "
            f"got {number_text(share)[:40]}"
        )
    label = aggregate_label(call.function, column.name, share)
    return Meant(label, Aggregate("trimmed_mean", column.name, (share,)))


def _order(number: Fraction) -> Fraction:
    order = between(number, 0, 1, "the order of a quantile")
    if FINEST_ORDER % order.denominator:
        raise InvalidInput("the order of a quantile has at most six digits after the point")
    return order


def _units(call: Call, scope: Scope) -> Meant:
    """COUNT(DISTINCT unit); where each unit has one row, that is COUNT(*)."""
    _no_numbers(call, "COUNT(DISTINCT x)")
    unit = scope.schema.unit
    if unit is None:
        raise InvalidInput("COUNT(DISTINCT x) counts units; here every row is a unit, so ask COUNT(*)")
    if call.column is None or not scope.is_unit(call.column):
        raise InvalidInput(f"COUNT(DISTINCT x) counts units and nothing else; ask COUNT(DISTINCT {unit})")
    function: Function = "count_distinct" if scope.schema.rows > 1 else "count"
    return Meant(aggregate_label("COUNT_DISTINCT", unit), Aggregate(function))


def _bins(call: Call, scope: Scope) -> Meant:
    """A key of equal bins from the column's lowest value; one bin where the width is more than the domain."""
    column, number = _binned(call, scope, "BIN(x, width)")
    codes = number / column.step
    if codes <= 0 or codes.denominator > 1:
        step = "a whole number of days" if column.kind == "date" else f"a multiple of {shown(column.step)}"
        raise InvalidInput(f"the width of a bin of {column.name} must be {step} above 0, got {shown(number)}")
    return _key(Key(column.name, min(int(codes), column.size)), scope)


def _histogram(call: Call, scope: Scope) -> Meant:
    column, number = _binned(call, scope, "HISTOGRAM(x, bins)")
    bins = whole(number, "the number of bins")
    return _key(Key(column.name, -(-column.size // bins)), scope)


def _binned(call: Call, scope: Scope, usage: str) -> tuple[Column, Fraction]:
    if call.column is None or len(call.numbers) != 1:
        raise InvalidInput(f"{call.function} is written {usage}, of a column and a number")
    column = scope.column(call.column)
    if not (column.numeric or column.kind == "date"):
        raise InvalidInput(f"{call.function} is of numbers and dates; {column.name} is {column.kind}")
    return column, call.numbers[0]


def _key(key: Key, scope: Scope) -> Meant:
    return Meant(key_label(key, scope.schema), key)


def _no_numbers(call: Call, usage: str) -> None:
    if call.numbers:
        raise InvalidInput(f"{call.function} is written {usage}, without {_listed(call.numbers)}")


def _listed(numbers: Sequence[Fraction]) -> str:
    return ", ".join(number_text(number)[:40] for number in numbers[:3])


def unknown(function: str) -> InvalidInput:
    """What to say of a function that is not one of ours."""
    if function in INSTEAD:
        return InvalidInput(f"there is no {function} here; write {INSTEAD[function]}")
    return InvalidInput(f"there is no function {function[:40]!r}; there are {', '.join(SPELLINGS)}, BIN and HISTOGRAM")
