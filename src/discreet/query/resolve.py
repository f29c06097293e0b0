"""A written question held against a schema: it comes out in canonical form, or not at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from discreet.errors import InvalidInput
from discreet.exact import as_int
from discreet.query.asked import FunctionCall, HavingBound, OutputReference, ParsedQuestion, QualifiedName, SelectItem
from discreet.query.canonical import sort_aggregates
from discreet.query.conditions import resolve_where
from discreet.query.query import Aggregate, GroupKey, HavingCondition, Nesting, OutputColumn, Presentation, Query
from discreet.query.scope import Scope
from discreet.query.selected import ResolvedOutput, resolve_output
from discreet.schema import Schema

MAX_CELLS = 100_000


def resolve_question(question: ParsedQuestion, schema: Schema) -> Query:
    """The question as the planner reads it."""
    scope = Scope.of(question, schema)
    if question.unit is not None:
        return _resolve_unit_query(question, scope)
    scope = replace(scope, where=resolve_where(question, scope))
    selected = _resolve_outputs(question, scope)
    keys = _resolve_keys(question, selected, scope)
    aggregates = _merge_aggregates(selected)
    presentation = Presentation(
        outputs=tuple(_build_output(output, keys, aggregates) for output in selected),
        having=tuple(_build_having(bound, selected, scope) for bound in question.having),
        order=tuple(
            (_find_output_index(reference, selected, scope), is_descending)
            for reference, is_descending in question.order
        ),
        limit=None if question.limit is None else as_int(question.limit, "LIMIT"),
    )
    return Query(
        schema.name, aggregates, presentation, scope.where, keys, nesting=_resolve_nesting(question, keys, aggregates)
    )


def _resolve_nesting(question: ParsedQuestion, keys: Sequence[GroupKey], aggregates: Sequence[Aggregate]) -> Nesting:
    if _is_histogram(question.items[0]):
        return "ranges"
    if not question.rollup:
        return ""
    if not keys or len(aggregates) != 1 or aggregates[0].function != "count":
        raise InvalidInput(
            "ROLLUP (a, b) gives one count of rows, COUNT(*) or COUNT(x), and its totals; "
            "ask for anything else with GROUP BY a, b"
        )
    return "rollup"


def _resolve_unit_query(question: ParsedQuestion, scope: Scope) -> Query:
    """One column of one unit."""
    schema = scope.schema
    if not schema.individual_queries:
        raise InvalidInput(f"the custodian of {schema.name} has not allowed questions about one unit; ask an aggregate")
    is_plain = replace(question, items=(), unit=None) == ParsedQuestion(question.table, (), question.alias)
    expression = question.items[0].expression if len(question.items) == 1 else None
    if not (is_plain and isinstance(expression, QualifiedName)):
        raise InvalidInput(f"a question about one unit is SELECT column FROM {schema.name} FOR UNIT '...', no more")
    column = scope.find_column(expression)
    if column.private_keys:
        raise InvalidInput(f"the values of {column.name} are not public, so one unit's cannot be asked for")
    outputs = (OutputColumn(_check_label(question.items[0].alias or column.name)),)
    return Query(schema.name, (), Presentation(outputs), unit=question.unit, column=column.name)


def _resolve_outputs(question: ParsedQuestion, scope: Scope) -> list[ResolvedOutput]:
    """The columns of the reply, each with a name of its own."""
    if not question.items:
        raise InvalidInput("the SELECT list is empty; ask for an aggregate such as COUNT(*)")
    if any(_is_histogram(item) for item in question.items) and (len(question.items) > 1 or question.group):
        raise InvalidInput("HISTOGRAM stands alone in a question; beside others use GROUP BY BIN(x, width)")
    selected = [
        output for item in question.items for output in _apply_alias(item, resolve_output(item.expression, scope))
    ]
    used_labels: set[str] = set()
    for output in selected:
        if output.label.casefold() in used_labels:
            raise InvalidInput(f"two columns of the reply are called {output.label[:40]!r}; name one with AS")
        used_labels.add(output.label.casefold())
    if all(isinstance(output.expression, GroupKey) for output in selected):
        raise InvalidInput("nothing is counted or measured; ask for an aggregate such as COUNT(*)")
    return selected


def _is_histogram(item: SelectItem) -> bool:
    return isinstance(item.expression, FunctionCall) and item.expression.function == "HISTOGRAM"


def _apply_alias(item: SelectItem, outputs: list[ResolvedOutput]) -> list[ResolvedOutput]:
    if item.alias and len(outputs) > 1:
        raise InvalidInput("AS names one column, and this gives several; ask for each by itself to name it")
    return [replace(output, label=_check_label(item.alias)) if item.alias else output for output in outputs]


def _check_label(text: str) -> str:
    if not text.isprintable() or len(text) > 200:
        raise InvalidInput("a column of the reply is named with at most 200 printable characters")
    return text


def _resolve_keys(question: ParsedQuestion, selected: Sequence[ResolvedOutput], scope: Scope) -> tuple[GroupKey, ...]:
    """The group keys in the order of the schema's columns, or of a ROLLUP; every key selected is one of them."""
    group_keys = dict.fromkeys(_resolve_key(position, selected, scope) for position in question.group)
    if question.rollup and len(group_keys) < len(question.group):
        raise InvalidInput("ROLLUP names a key twice; name each once")
    if _is_histogram(question.items[0]):
        group_keys = dict.fromkeys(output.expression for output in selected if isinstance(output.expression, GroupKey))
        _check_bins(next(iter(group_keys)), scope.schema)
    for output in selected:
        if isinstance(output.expression, GroupKey) and output.expression not in group_keys:
            raise InvalidInput(f"{output.label[:40]!r} is neither an aggregate nor a group key; add it to GROUP BY")
    places = {column: position for position, column in enumerate(scope.schema.columns)}
    keys = tuple(group_keys) if question.rollup else tuple(sorted(group_keys, key=lambda key: places[key.column]))
    _check_cells(keys, scope.schema)
    return keys


def _resolve_key(reference: OutputReference, selected: Sequence[ResolvedOutput], scope: Scope) -> GroupKey:
    """A key by expression, by its place in the SELECT list or, where no column is called so, by its name there."""
    if isinstance(reference, int) or (
        isinstance(reference, QualifiedName)
        and not scope.has_column(reference)
        and _find_labeled_outputs(reference, selected)
    ):
        outputs = [selected[_find_output_index(reference, selected, scope)]]
    else:
        outputs = resolve_output(reference, scope)
    if len(outputs) > 1 or not isinstance(outputs[0].expression, GroupKey):
        raise InvalidInput("GROUP BY takes columns and BIN(x, width), not aggregates")
    return outputs[0].expression


def _check_bins(key: GroupKey, schema: Schema) -> None:
    """A missing value is a cell of its own beside the bins."""
    column = schema.column(key.column)
    max_bins = MAX_CELLS - column.is_nullable
    if -(-column.size // key.width) > max_bins:
        raise InvalidInput(f"this histogram has too many bins; ask for at most {max_bins:,} bins of {column.name}")


def _check_cells(keys: Sequence[GroupKey], schema: Schema) -> None:
    columns = [schema.column(key.column) for key in keys]
    if len({column.name for column in columns}) < len(columns):
        raise InvalidInput("a column is grouped by in two ways; group by it once")
    private_columns = [column.name for column in columns if column.private_keys]
    if private_columns and len(columns) > 1:
        raise InvalidInput(f"the values of {private_columns[0]} are not public, so it must be the only group key")
    sizes = [-(-column.size // key.width) + column.is_nullable for column, key in zip(columns, keys, strict=True)]
    if math.prod(sizes) > MAX_CELLS:
        limit_text = f"more than {MAX_CELLS} cells"
        raise InvalidInput(f"GROUP BY would make {limit_text}; use fewer keys, or wider ones with BIN(x, width)")


def _merge_aggregates(selected: Sequence[ResolvedOutput]) -> tuple[Aggregate, ...]:
    """Each aggregate once, in order; the quantiles of one column together."""
    aggregates_by_base: dict[Aggregate, set[Aggregate]] = {}
    for entry in selected:
        if isinstance(entry.expression, Aggregate):
            aggregates_by_base.setdefault(_drop_orders(entry.expression), set()).add(entry.expression)
    merged = (
        replace(base_aggregate, orders=tuple(sorted(order for entry in merged_group for order in entry.orders)))
        for base_aggregate, merged_group in aggregates_by_base.items()
    )
    return sort_aggregates(merged)


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
    position = _find_output_index(bound.output, selected, scope)
    expression = selected[position].expression
    if isinstance(expression, GroupKey):
        raise InvalidInput("HAVING compares aggregates with numbers; put a condition on a column into WHERE")
    column = None if expression.column is None else scope.schema.column(expression.column)
    if expression.function not in {"count", "avg"} and column is not None and not column.is_numeric:
        raise InvalidInput(f"HAVING compares with a number; the values of {column.name} are not numbers")
    return HavingCondition(position, bound.comparison, bound.constant)


def _find_output_index(reference: OutputReference, selected: Sequence[ResolvedOutput], scope: Scope) -> int:
    """Which column of the reply is meant, from 0: by its place, its name or its expression."""
    if isinstance(reference, int):
        if not 1 <= reference <= len(selected):
            raise InvalidInput(f"the SELECT list has places 1 to {len(selected)}, got {str(reference)[:40]}")
        return reference - 1
    if isinstance(reference, QualifiedName) and (matches := _find_labeled_outputs(reference, selected)):
        return matches[0]
    expressions = [output.expression for output in resolve_output(reference, scope)]
    for index, output in enumerate(selected):
        if expressions == [output.expression]:
            return index
    raise InvalidInput("HAVING and ORDER BY use what is selected; add that to the SELECT list, and name it with AS")


def _find_labeled_outputs(name: QualifiedName, selected: Sequence[ResolvedOutput]) -> list[int]:
    return [index for index, output in enumerate(selected) if str(name).casefold() == output.label.casefold()]
