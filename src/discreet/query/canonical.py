"""One form for all ways to write the same question, so that a stored answer is found again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import zip_longest

from discreet.query import predicates
from discreet.query.predicates import FALSE, TRUE, AllOf, AnyOf, ColumnCondition, InRanges, InTexts, Predicate
from discreet.query.query import Aggregate, Query
from discreet.schema import Schema

_JoinConditions = Callable[[ColumnCondition, ColumnCondition], ColumnCondition]


def format_canonical_query(query: Query) -> str:
    """Format all of a question but its presentation as JSON text."""
    payload = {
        "table": query.table,
        "aggregates": [_describe_aggregate(aggregate) for aggregate in query.aggregates],
        "keys": [[key.column, key.width] for key in query.keys],
        "where": _build_canonical_form(query.where),
        "unit": query.unit,
        "column": query.column,
    }
    if query.nesting:
        payload["nesting"] = query.nesting
    return json.dumps(payload, sort_keys=True, separators=(",", ":"))


def _describe_aggregate(aggregate: Aggregate) -> list[object]:
    description: list[object] = [aggregate.function, aggregate.column, [str(q) for q in aggregate.orders]]
    return description if aggregate.where == TRUE else [*description, _build_canonical_form(aggregate.where)]


def sort_aggregates(aggregates: Iterable[Aggregate]) -> tuple[Aggregate, ...]:
    """Sort aggregates by function, column, filter and orders; first those without a filter."""
    return tuple(sorted(aggregates, key=_build_aggregate_sort_key))


def _build_aggregate_sort_key(aggregate: Aggregate) -> tuple[str, str, bool, str, tuple[Fraction, ...]]:
    where = aggregate.where
    return aggregate.function, aggregate.column or "", where != TRUE, _build_predicate_sort_key(where), aggregate.orders


def simplify_predicate(predicate: Predicate, schema: Schema) -> Predicate:
    """Simplify a predicate to one form for the same rows: sorted, each part once, nothing that follows from the rest.

    A part is held only against the values that its neighbours leave open: both in age >= 18 AND (age <= 30 OR smoker)
    and in age < 18 OR (age <= 30 AND smoker) the inner part is 18 to 30. Each step leaves fewer parts or smaller sets,
    so it comes to rest. What is said of one column has exactly one form; mixtures of columns may still have several,
    and then an equal question is asked, and paid, as another one.
    """
    return _simplify_fully(predicate, _OpenValues(schema, {}))


def simplify_within(predicate: Predicate, where: Predicate, schema: Schema) -> Predicate:
    """Simplify a condition within the rows of another, which is in canonical form: TRUE where it holds in all of them.

    Equal conditions on one column have one form here too, and parts that the other says itself are left out.
    """
    both = simplify_predicate(AllOf((where, predicate)), schema)
    if both in (where, FALSE):
        return TRUE if both == where else FALSE
    known_parts = where.parts if isinstance(where, AllOf) else (where,)
    open_values = _OpenValues(schema, {})
    for part in _filter_column_conditions(known_parts):
        open_values = open_values.narrow_to(part)
    simplified = _simplify_fully(predicate, open_values)
    parts = simplified.parts if isinstance(simplified, AllOf) else (simplified,)
    return _join_parts(AllOf, (part for part in parts if part not in known_parts))


def _simplify_fully(predicate: Predicate, open_values: _OpenValues) -> Predicate:
    while True:
        narrower = _narrow_predicate(predicate, open_values)
        if narrower == predicate:
            narrower = _absorb_parts(predicate)
        if narrower == predicate:
            return predicate
        predicate = narrower


@dataclass(frozen=True, slots=True)
class _OpenValues:
    """For each column, the values that can still make a difference."""

    schema: Schema
    conditions: Mapping[str, ColumnCondition]

    def get_condition(self, column: str) -> ColumnCondition:
        return self.conditions.get(column) or predicates.build_whole_domain(self.schema.column(column))

    def narrow_to(self, condition: ColumnCondition) -> _OpenValues:
        narrowed = predicates.intersect_conditions(self.get_condition(condition.column), condition)
        return _OpenValues(self.schema, {**self.conditions, condition.column: narrowed})

    def exclude(self, condition: ColumnCondition) -> _OpenValues:
        return self.narrow_to(predicates.complement_condition(condition, self.schema.column(condition.column)))


def _narrow_predicate(predicate: Predicate, open_values: _OpenValues) -> Predicate:
    """One pass: what is known from outside is used inside."""
    if isinstance(predicate, AllOf | AnyOf):
        return _narrow_parts(predicate, open_values)
    open_condition = open_values.get_condition(predicate.column)
    common = predicates.intersect_conditions(predicate, open_condition)
    return FALSE if predicates.is_empty_condition(common) else TRUE if common == open_condition else common


def _narrow_parts(predicate: AllOf | AnyOf, open_values: _OpenValues) -> Predicate:
    """The conditions on each column joined to one; then the mixtures of columns, within what those leave open."""
    is_all = isinstance(predicate, AllOf)
    join: _JoinConditions = (
        predicates.intersect_conditions if is_all else partial(predicates.unite_conditions, schema=open_values.schema)
    )
    conditions_by_column: dict[str, list[ColumnCondition]] = {}
    for condition in _filter_column_conditions(predicate.parts):
        conditions_by_column.setdefault(condition.column, []).append(condition)
    conditions = [_narrow_predicate(_fold_pairs(group, join), open_values) for group in conditions_by_column.values()]
    for condition in _filter_column_conditions(conditions):
        open_values = open_values.narrow_to(condition) if is_all else open_values.exclude(condition)
    mixtures = [_narrow_predicate(part, open_values) for part in predicate.parts if isinstance(part, AllOf | AnyOf)]
    return _join_parts(type(predicate), [*conditions, *mixtures])


def _filter_column_conditions(parts: Iterable[Predicate]) -> Iterator[ColumnCondition]:
    return (part for part in parts if isinstance(part, InRanges | InTexts))


def _fold_pairs(conditions: list[ColumnCondition], join: _JoinConditions) -> ColumnCondition:
    """All joined into one, two by two, so that a long list is not walked for each of its members."""
    while len(conditions) > 1:
        pairs = zip_longest(conditions[::2], conditions[1::2])
        conditions = [first if second is None else join(first, second) for first, second in pairs]
    return conditions[0]


def _join_parts(kind: type[AllOf] | type[AnyOf], parts: Iterable[Predicate]) -> Predicate:
    """The parts in order, each once, those of the same kind opened; a single part stands for itself."""
    flat_parts = (inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))
    distinct = set(flat_parts)
    deciding_predicate = FALSE if kind is AllOf else TRUE
    if deciding_predicate in distinct:
        return deciding_predicate
    if len(distinct) == 1:
        return distinct.pop()
    return kind(tuple(sorted(distinct, key=_build_predicate_sort_key)))


def _absorb_parts(predicate: Predicate) -> Predicate:
    """Without the parts that another part makes needless: a AND (b OR c) AND (b OR c OR d)."""
    if not isinstance(predicate, AllOf | AnyOf):
        return predicate
    parts = [_absorb_parts(part) for part in predicate.parts]
    members_of_part = {part: frozenset(part.parts) for part in parts if isinstance(part, AllOf | AnyOf)}
    smaller = members_of_part.values()
    needless = {part for part, members in members_of_part.items() if any(other < members for other in smaller)}
    return _join_parts(type(predicate), (part for part in parts if part not in needless))


def _build_predicate_sort_key(predicate: Predicate) -> str:
    return json.dumps(_build_canonical_form(predicate))


def _build_canonical_form(predicate: Predicate) -> list[object]:
    match predicate:
        case InRanges(column, ranges, null):
            return ["within", column, ranges, null]
        case InTexts(column, texts, outside, null):
            return ["one of", column, texts, outside, null]
        case AllOf(parts):
            return ["all", *map(_build_canonical_form, parts)]
        case AnyOf(parts):
            return ["some", *map(_build_canonical_form, parts)]
