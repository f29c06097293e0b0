"""Resolve a parsed question against a schema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import zip_longest
from typing import cast

from discreet.errors import DiscreetError, ErrorCode, InvalidInput, SqlPosition
from discreet.numeric import as_int, as_number_between, format_exact
from discreet.query.ast import (
    FunctionCall,
    HavingBound,
    OutputReference,
    ParsedQuestion,
    QualifiedName,
    SelectItem,
    Span,
)
from discreet.query.predicates import InRanges, InTexts
from discreet.query.query import (
    FUNCTION_SPELLINGS,
    Aggregate,
    AggregateFunction,
    CheckedQuery,
    GroupKey,
    HavingCondition,
    Nesting,
    OutputColumn,
    Presentation,
    Query,
    count_bins,
    count_key_cells,
    format_aggregate_label,
    format_full_number,
    format_key_label,
    sort_aggregates,
)
from discreet.query.scope import Scope, join_spans, locate_errors, resolve_filter, resolve_where
from discreet.query.to_sql import format_filter, quote_column_name
from discreet.schema import Column, Schema
from discreet.suggestions import build_unknown_name_error
from discreet.untrusted import copy_text, has_type

NUMBER_FUNCTIONS = ("sum", "avg", "var", "stddev", "trimmed_mean")
RANK_FUNCTIONS = ("quantile", "min", "max", "second_max")
OTHER_QUANTILES = "PERCENTILE_CONT PERCENTILE_DISC PERCENTILE QUANTILE_CONT QUANTILE_DISC APPROX_QUANTILE"
FUNCTION_REPLACEMENTS = dict.fromkeys(OTHER_QUANTILES.split(), "QUANTILE(x, 0.5)") | {
    **dict.fromkeys(("MEAN", "AVERAGE"), "AVG(x)"),
    **dict.fromkeys(("STD", "STDEV", "STDDEV_POP"), "STDDEV(x)"),
    "VAR_POP": "VAR(x)",
    **dict.fromkeys(("COUNTIF", "COUNT_IF"), "COUNT(*) FILTER (WHERE condition)"),
    **dict.fromkeys(("CORR", "COVAR_SAMP", "COVAR_POP"), "AVG or VAR of one column"),
    "TRIM_MEAN": "TRIMMED_MEAN(x, 0.1)",
    "WIDTH_BUCKET": "BIN(x, width)",
    "ROLLUP": "GROUP BY ROLLUP (a, b), alone there",
    "CUBE": "GROUP BY ROLLUP (a, b)",
}
CALLABLE_FUNCTIONS = tuple(name for name in (*FUNCTION_SPELLINGS, "BIN", "HISTOGRAM") if name != "COUNT_DISTINCT")
MAX_ORDER_DENOMINATOR = 10**6
MAX_CELLS = 100_000


@dataclass(frozen=True, slots=True)
class ResolvedOutput:
    """One column of the reply; a quantile here has one order."""

    label: str
    expression: GroupKey | Aggregate
    span: Span | None = field(default=None, compare=False, repr=False)


def resolve_output(expression: QualifiedName | FunctionCall, scope: Scope) -> list[ResolvedOutput]:
    """Resolve an entry to one column of the reply, or to several for several quantiles and for a histogram."""
    with locate_errors(expression.span):
        return _resolve_entry(expression, scope)


def _resolve_entry(expression: QualifiedName | FunctionCall, scope: Scope) -> list[ResolvedOutput]:
    if isinstance(expression, QualifiedName):
        return [_build_key_output(GroupKey(scope.find_column(expression).name), scope)]
    if expression.where is not True:
        return [_resolve_filtered_count(expression, scope)]
    if expression.function == "BIN":
        return [_resolve_bins(expression, scope)]
    if expression.function == "HISTOGRAM":
        column, number = _check_bin_arguments(expression, scope, "HISTOGRAM(x, bins)")
        with locate_errors(join_spans(expression.number_spans)):
            width = -(-column.size // as_int(number, "the number of bins"))
        return [_build_key_output(GroupKey(column.name, width), scope), ResolvedOutput("COUNT(*)", Aggregate("count"))]
    if expression.function not in FUNCTION_SPELLINGS:
        raise build_unknown_function_error(expression.function)
    function = FUNCTION_SPELLINGS[expression.function]
    if function == "count_distinct":
        return [_resolve_unit_count(expression, scope)]
    if expression.column is None:
        if function != "count":
            raise InvalidInput(
                f"{expression.function} needs a column, such as AVG(age); only COUNT takes *", code="syntax"
            )
        _refuse_numbers(expression, "COUNT(*)")
        return [ResolvedOutput("COUNT(*)", Aggregate("count"))]
    return _resolve_column_function(expression, function, scope.find_column(expression.column))


def _resolve_filtered_count(call: FunctionCall, scope: Scope) -> ResolvedOutput:
    """A count of some of the rows; one of the rows with a value of a column counts rows, of which that is asked too."""
    if call.function not in {"COUNT", "COUNT_DISTINCT"}:
        message = f"FILTER stands after counts, and {call.function[:40]} is none; put its condition into WHERE"
        raise InvalidInput(message, code="unsupported-sql")
    (unfiltered_output,) = resolve_output(replace(call, where=True), scope)
    column = scope.find_column(call.column) if call.function == "COUNT" and call.column is not None else None
    where, function = resolve_filter(call.where, column, scope), cast(Aggregate, unfiltered_output.expression).function
    if function == "count" and isinstance(where, InRanges | InTexts):
        filter_column = scope.schema.column(where.column)
        if filter_column.is_nullable and where == resolve_filter(True, filter_column, scope):
            name = filter_column.name
            return ResolvedOutput(format_aggregate_label("COUNT", name), Aggregate("count", name))
    label = "COUNT(*)" if column is not None and column.is_nullable else unfiltered_output.label
    label += format_filter(where, scope.schema, quote_column_name)
    return ResolvedOutput(label, Aggregate(function, where=where))


def _resolve_column_function(call: FunctionCall, function: AggregateFunction, column: Column) -> list[ResolvedOutput]:
    with locate_errors(None if call.column is None else call.column.span):
        _check_column_kind(call.function, function, column)
    if function == "quantile":
        return _resolve_quantiles(call, column)
    if function == "trimmed_mean":
        return [_resolve_trimmed_mean(call, column)]
    _refuse_numbers(call, f"{call.function}(x)")
    label = format_aggregate_label(call.function, column.name)
    counts_all = function == "count" and not column.is_nullable
    return [ResolvedOutput(label, Aggregate(function, None if counts_all else column.name))]


def _check_column_kind(spelling: str, function: AggregateFunction, column: Column) -> None:
    """Sums are of numbers, ranks of numbers and dates, the mode of what has a public list of values.

    The mean of truth values is the proportion of true ones.
    """
    is_proportion = function == "avg" and column.kind == "boolean"
    needed = None
    if function in NUMBER_FUNCTIONS and not (column.is_numeric or is_proportion):
        needed = "numbers"
    elif function in RANK_FUNCTIONS and not (column.is_numeric or column.kind == "date"):
        needed = "numbers or dates"
    if needed is not None:
        advice = "" if column.private_keys else f"; MODE({column.name}) is its most frequent value"
        if column.kind == "date":
            advice = "; MIN, MEDIAN and MAX take dates"
        message = f"{spelling} takes a column of {needed}, and {column.name} is {column.kind}{advice}"
        raise InvalidInput(message, code="wrong-type")
    if function == "mode" and column.private_keys:
        message = (
            f"MODE chooses from a public list of values, and {column.name} has none; count by GROUP BY {column.name}"
        )
        raise InvalidInput(message, code="unsupported-sql")


def _resolve_quantiles(call: FunctionCall, column: Column) -> list[ResolvedOutput]:
    if call.function == "MEDIAN":
        _refuse_numbers(call, "MEDIAN(x)")
    elif not call.numbers:
        raise InvalidInput(f"QUANTILE needs an order; write QUANTILE({column.name}, 0.25)", code="syntax")
    orders = [_check_order(*pair) for pair in zip_longest(call.numbers, call.number_spans)] or [Fraction(1, 2)]
    labels = [format_aggregate_label(call.function, column.name, order) for order in orders]
    aggregates = [Aggregate("quantile", column.name, (order,)) for order in orders]
    return list(map(ResolvedOutput, labels, aggregates))


def _resolve_trimmed_mean(call: FunctionCall, column: Column) -> ResolvedOutput:
    if len(call.numbers) != 1:
        raise InvalidInput(
            f"TRIMMED_MEAN needs the share left out at either end; write TRIMMED_MEAN({column.name}, 0.1)",
            code="syntax",
        )
    (share,) = call.numbers
    if not 0 < share < Fraction(1, 2) or MAX_ORDER_DENOMINATOR % share.denominator:
        with locate_errors(join_spans(call.number_spans)):
            raise InvalidInput(
                "the share of a trimmed mean is above 0 and below 0.5, with at most six digits after the point; "
                f"got {format_full_number(share)[:40]}"
            )
    label = format_aggregate_label(call.function, column.name, share)
    return ResolvedOutput(label, Aggregate("trimmed_mean", column.name, (share,)))


def _check_order(number: Fraction, span: Span | None) -> Fraction:
    with locate_errors(span):
        order = as_number_between(number, 0, 1, "the order of a quantile")
        if MAX_ORDER_DENOMINATOR % order.denominator:
            raise InvalidInput("the order of a quantile has at most six digits after the point; round it")
    return order


def _resolve_unit_count(call: FunctionCall, scope: Scope) -> ResolvedOutput:
    """COUNT(DISTINCT unit); where each unit has one row, that is COUNT(*)."""
    _refuse_numbers(call, "COUNT(DISTINCT x)")
    unit = scope.schema.unit
    if unit is None:
        message = "COUNT(DISTINCT x) counts units; here every row is a unit, so ask COUNT(*)"
        raise InvalidInput(message, code="unsupported-sql")
    if call.column is None or not scope.is_unit_column(call.column):
        with locate_errors(None if call.column is None else call.column.span):
            raise InvalidInput(
                f"COUNT(DISTINCT x) counts units and nothing else; ask COUNT(DISTINCT {unit})", code="unsupported-sql"
            )
    function: AggregateFunction = "count_distinct" if scope.schema.rows > 1 else "count"
    return ResolvedOutput(format_aggregate_label("COUNT_DISTINCT", unit), Aggregate(function))


def _resolve_bins(call: FunctionCall, scope: Scope) -> ResolvedOutput:
    """A key of equal bins from the column's lowest value; one bin where the width is more than the domain."""
    column, number = _check_bin_arguments(call, scope, "BIN(x, width)")
    codes = number / column.step
    if codes <= 0 or codes.denominator > 1:
        step = "a whole number of days" if column.kind == "date" else f"a multiple of {format_exact(column.step)}"
        with locate_errors(join_spans(call.number_spans)):
            raise InvalidInput(
                f"the width of a bin of {column.name} must be {step} above 0, got {format_exact(number)}"
            )
    return _build_key_output(GroupKey(column.name, min(int(codes), column.size)), scope)


def _check_bin_arguments(call: FunctionCall, scope: Scope, usage: str) -> tuple[Column, Fraction]:
    if call.column is None or len(call.numbers) != 1:
        raise InvalidInput(f"{call.function} takes a column and a number; write {usage}", code="syntax")
    column = scope.find_column(call.column)
    if not (column.is_numeric or column.kind == "date"):
        with locate_errors(call.column.span):
            message = f"{call.function} takes a column of numbers or dates, and {column.name} is {column.kind}"
            raise InvalidInput(f"{message}; group by {column.name} itself", code="wrong-type")
    return column, call.numbers[0]


def _build_key_output(key: GroupKey, scope: Scope) -> ResolvedOutput:
    return ResolvedOutput(format_key_label(key, scope.schema), key)


def _refuse_numbers(call: FunctionCall, usage: str) -> None:
    if call.numbers:
        numbers = ", ".join(format_full_number(number)[:40] for number in call.numbers[:3])
        with locate_errors(join_spans(call.number_spans)):
            raise InvalidInput(f"{call.function} takes no number; write {usage}, without {numbers}", code="syntax")


def build_unknown_function_error(function: str) -> InvalidInput:
    """Name the functions there are, or the one to write in the place of a well-known other one."""
    code: ErrorCode = "unknown-function"
    if function in FUNCTION_REPLACEMENTS:
        return InvalidInput(f"unknown function {function[:40]!r}; write {FUNCTION_REPLACEMENTS[function]}", code=code)
    return build_unknown_name_error("function", function, CALLABLE_FUNCTIONS, code)


def resolve_question(question: ParsedQuestion, schema: Schema) -> Query:
    """Resolve a parsed question to the query that the planner reads."""
    scope = Scope.of(question, schema)
    if question.unit is not None:
        return _resolve_unit_query(question, scope)
    scope = replace(scope, where=resolve_where(question, scope))
    selected = _resolve_outputs(question, scope)
    keys = _resolve_keys(question, selected, scope)
    aggregates = _merge_aggregates(selected)
    with locate_errors(question.limit_span):
        limit = None if question.limit is None else as_int(question.limit, "LIMIT")
    presentation = Presentation(
        outputs=tuple(_build_output(output, keys, aggregates) for output in selected),
        having=tuple(_build_having(bound, selected, scope) for bound in question.having),
        order=tuple(
            (_find_output_index(reference, selected, scope, span), descending)
            for (reference, descending), span in zip_longest(question.order, question.order_spans)
        ),
        limit=limit,
    )
    nesting = _resolve_nesting(question, keys, aggregates)
    return Query(schema.name, aggregates, presentation, scope.where, keys, nesting=nesting)


def _resolve_nesting(question: ParsedQuestion, keys: Sequence[GroupKey], aggregates: Sequence[Aggregate]) -> Nesting:
    if _is_histogram(question.items[0]):
        return "ranges"
    if not question.rollup:
        return ""
    if not keys or len(aggregates) != 1 or aggregates[0].function != "count":
        with locate_errors(join_spans(question.item_spans)):
            raise InvalidInput(
                "ROLLUP (a, b) gives one count of rows, COUNT(*) or COUNT(x), and its totals; "
                "ask for anything else with GROUP BY a, b",
                code="unsupported-sql",
            )
    return "rollup"


def _resolve_unit_query(question: ParsedQuestion, scope: Scope) -> Query:
    schema = scope.schema
    if not schema.individual_queries:
        with locate_errors(question.unit_span):
            raise InvalidInput(
                f"the custodian of {schema.name} has not allowed questions about one unit; ask an aggregate"
            )
    is_plain = replace(question, items=(), unit=None) == ParsedQuestion(question.table, (), question.alias)
    expression = question.items[0].expression if len(question.items) == 1 else None
    if not (is_plain and isinstance(expression, QualifiedName)):
        span = None if is_plain else question.unit_span
        with locate_errors(span or join_spans(question.item_spans)):
            raise InvalidInput(
                f"a question about one unit is SELECT column FROM {schema.name} FOR UNIT '...', no more",
                code="unsupported-sql",
            )
    column = scope.find_column(expression)
    if column.private_keys:
        with locate_errors(expression.span):
            raise InvalidInput(f"the values of {column.name} are not public, so one unit's cannot be asked for")
    outputs = (OutputColumn(_check_label(question.items[0].alias or column.name)),)
    return Query(schema.name, (), Presentation(outputs), unit=question.unit, column=column.name)


def _resolve_outputs(question: ParsedQuestion, scope: Scope) -> list[ResolvedOutput]:
    """The columns of the reply, each with a name of its own."""
    if not question.items:
        raise InvalidInput("the SELECT list is empty; ask for an aggregate such as COUNT(*)", code="syntax")
    if any(_is_histogram(item) for item in question.items) and (len(question.items) > 1 or question.group):
        with locate_errors(join_spans(question.item_spans)):
            raise InvalidInput(
                "HISTOGRAM stands alone in a question; with other outputs or keys use GROUP BY BIN(x, width)",
                code="unsupported-sql",
            )
    selected: list[ResolvedOutput] = []
    for item, span in zip_longest(question.items, question.item_spans):
        with locate_errors(span):
            outputs = [replace(output, span=span) for output in resolve_output(item.expression, scope)]
            if item.alias and len(outputs) > 1:
                raise InvalidInput("AS names one column, and this gives several; ask for each by itself to name it")
            with locate_errors(item.alias_span):
                selected += [replace(outputs[0], label=_check_label(item.alias))] if item.alias else outputs
    used_labels: set[str] = set()
    for output in selected:
        if output.label.casefold() in used_labels:
            with locate_errors(output.span):
                raise InvalidInput(f"two columns of the answer are called {output.label[:40]!r}; name one with AS")
        used_labels.add(output.label.casefold())
    if all(isinstance(output.expression, GroupKey) for output in selected):
        with locate_errors(join_spans(question.item_spans)):
            raise InvalidInput(
                "nothing is counted or measured; ask for an aggregate such as COUNT(*)", code="unsupported-sql"
            )
    return selected


def _is_histogram(item: SelectItem) -> bool:
    return isinstance(item.expression, FunctionCall) and item.expression.function == "HISTOGRAM"


def _check_label(text: str) -> str:
    if not text.isprintable() or len(text) > 200:
        raise InvalidInput("a name after AS has at most 200 printable characters; choose another")
    return text


def _resolve_keys(question: ParsedQuestion, selected: Sequence[ResolvedOutput], scope: Scope) -> tuple[GroupKey, ...]:
    """The group keys in the order of the schema's columns, or of a ROLLUP; every key selected is one of them."""
    references = zip_longest(question.group, question.group_spans)
    group_keys = dict.fromkeys(_resolve_key(reference, selected, scope, span) for reference, span in references)
    if question.rollup and len(group_keys) < len(question.group):
        with locate_errors(join_spans(question.group_spans)):
            raise InvalidInput("ROLLUP names a key twice; name each once")
    if _is_histogram(question.items[0]):
        group_keys = dict.fromkeys(output.expression for output in selected if isinstance(output.expression, GroupKey))
        (key,) = group_keys
        max_bins = MAX_CELLS - scope.schema.column(key.column).is_nullable  # a missing value is a cell of its own
        if count_bins(key, scope.schema) > max_bins:
            with locate_errors(join_spans(question.item_spans)):
                raise InvalidInput(
                    f"this histogram has too many bins; ask for at most {max_bins:,} bins of {key.column}"
                )
    for output in selected:
        if isinstance(output.expression, GroupKey) and output.expression not in group_keys:
            with locate_errors(output.span):
                raise InvalidInput(f"{output.label[:40]!r} is neither an aggregate nor a group key; add it to GROUP BY")
    places = {column: position for position, column in enumerate(scope.schema.columns)}
    keys = tuple(group_keys) if question.rollup else tuple(sorted(group_keys, key=lambda key: places[key.column]))
    with locate_errors(join_spans(question.group_spans)):
        _check_cells(keys, scope.schema)
    return keys


def _resolve_key(
    reference: OutputReference, selected: Sequence[ResolvedOutput], scope: Scope, span: Span | None
) -> GroupKey:
    """A key by expression, by its place in the SELECT list or, where no column is called so, by its name there."""
    with locate_errors(span):
        return _resolve_group_key(reference, selected, scope)


def _resolve_group_key(reference: OutputReference, selected: Sequence[ResolvedOutput], scope: Scope) -> GroupKey:
    if isinstance(reference, int) or (
        isinstance(reference, QualifiedName)
        and not scope.has_column(reference)
        and _find_labeled_outputs(reference, selected)
    ):
        outputs = [selected[_find_output_index(reference, selected, scope)]]
    else:
        outputs = resolve_output(reference, scope)
    if len(outputs) > 1 or not isinstance(outputs[0].expression, GroupKey):
        raise InvalidInput("GROUP BY takes columns and BIN(x, width), not aggregates", code="unsupported-sql")
    return outputs[0].expression


def _check_cells(keys: Sequence[GroupKey], schema: Schema) -> None:
    columns = [schema.column(key.column) for key in keys]
    if len({column.name for column in columns}) < len(columns):
        raise InvalidInput("a column is grouped by in two ways; group by it once")
    private_columns = [column.name for column in columns if column.private_keys]
    if private_columns and len(columns) > 1:
        raise InvalidInput(f"the values of {private_columns[0]} are not public, so it must be the only group key")
    if math.prod(count_key_cells(keys, schema)) > MAX_CELLS:
        advice = "use fewer keys, or wider ones with BIN(x, width)"
        raise InvalidInput(f"GROUP BY would make more than {MAX_CELLS} cells; {advice}")


def _merge_aggregates(selected: Sequence[ResolvedOutput]) -> tuple[Aggregate, ...]:
    """Each aggregate once, in order; the quantiles of one column together."""
    orders: dict[Aggregate, set[Fraction]] = {}
    for output in selected:
        if isinstance(output.expression, Aggregate):
            orders.setdefault(_drop_orders(output.expression), set()).update(output.expression.orders)
    return sort_aggregates(replace(base, orders=tuple(sorted(orders[base]))) for base in orders)


def _drop_orders(aggregate: Aggregate) -> Aggregate:
    """What is measured at once: quantiles of all orders, but every trimmed mean by itself."""
    return replace(aggregate, orders=()) if aggregate.function == "quantile" else aggregate


def _build_output(output: ResolvedOutput, keys: Sequence[GroupKey], aggregates: Sequence[Aggregate]) -> OutputColumn:
    if isinstance(output.expression, GroupKey):
        return OutputColumn(output.label, key=keys.index(output.expression))
    base_aggregate = _drop_orders(output.expression)
    position = next(index for index, merged in enumerate(aggregates) if _drop_orders(merged) == base_aggregate)
    order = aggregates[position].orders.index(output.expression.orders[0]) if output.expression.orders else 0
    return OutputColumn(output.label, aggregate=position, order=order)


def _build_having(bound: HavingBound, selected: Sequence[ResolvedOutput], scope: Scope) -> HavingCondition:
    with locate_errors(bound.output.span):
        return _resolve_having_bound(bound, selected, scope)


def _resolve_having_bound(bound: HavingBound, selected: Sequence[ResolvedOutput], scope: Scope) -> HavingCondition:
    position = _find_output_index(bound.output, selected, scope)
    expression = selected[position].expression
    if isinstance(expression, GroupKey):
        message = "HAVING compares aggregates with numbers; put a condition on a column into WHERE"
        raise InvalidInput(message, code="unsupported-sql")
    column = None if expression.column is None else scope.schema.column(expression.column)
    if expression.function not in {"count", "avg"} and column is not None and not column.is_numeric:
        message = f"HAVING compares with a number, and the values of {column.name} are not numbers; leave it out"
        raise InvalidInput(message, code="wrong-type")
    return HavingCondition(position, bound.comparison, bound.constant)


def _find_output_index(
    reference: OutputReference, selected: Sequence[ResolvedOutput], scope: Scope, span: Span | None = None
) -> int:
    """Which column of the reply is meant, from 0: by its place, its name or its expression."""
    if isinstance(reference, int):
        if not 1 <= reference <= len(selected):
            with locate_errors(span):
                places = "place 1 only" if len(selected) == 1 else f"places 1 to {len(selected)}"
                raise InvalidInput(f"the SELECT list has {places}, got {str(reference)[:40]}")
        return reference - 1
    with locate_errors(reference.span):
        return _find_selected_output(reference, selected, scope)


def _find_selected_output(
    reference: QualifiedName | FunctionCall, selected: Sequence[ResolvedOutput], scope: Scope
) -> int:
    if isinstance(reference, QualifiedName):
        if matches := _find_labeled_outputs(reference, selected):
            return matches[0]
        if not reference.table and not scope.has_column(reference) and not scope.is_unit_column(reference):
            labels = [output.label for output in selected]
            known_names = dict.fromkeys((*labels, *scope.list_columns()))
            raise build_unknown_name_error("column", reference.name, known_names, "unknown-column")
    expressions = [output.expression for output in resolve_output(reference, scope)]
    for index, output in enumerate(selected):
        if expressions == [output.expression]:
            return index
    raise InvalidInput(
        "HAVING and ORDER BY use what is selected, and this is not; add it to the SELECT list, and name it with AS"
    )


def _find_labeled_outputs(name: QualifiedName, selected: Sequence[ResolvedOutput]) -> list[int]:
    return [index for index, output in enumerate(selected) if str(name).casefold() == output.label.casefold()]


Question = str | Query


def parse_question(question: Question, schema: Schema) -> CheckedQuery:
    """Parse a question, from SQL text and the schema alone; a query passes the same checks as its text would."""
    if has_type(question, Query):
        from discreet.query.validate import validate_query  # which turns it into the question that asks for it

        return validate_query(question, schema)
    if not has_type(question, str):
        raise InvalidInput(f"a question is SQL text, got {type(question).__name__}")
    return parse_sql(question, schema)


def parse_sql(text: str, schema: Schema) -> CheckedQuery:
    """Parse the question that a text asks of a table, in canonical form."""
    from discreet.query.sql_parser import parse_select  # sqlglot is loaded by the first question

    sql = copy_text(text, "a question in SQL")
    try:
        return CheckedQuery(resolve_question(parse_select(sql), schema))
    except DiscreetError as error:
        error.set_position(SqlPosition.locate(sql, *(error.span or (0, len(sql)))))
        raise
