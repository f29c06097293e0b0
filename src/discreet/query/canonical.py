"""One form for all ways to write the same question, so that a stored answer is found again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import zip_longest

from discreet.query.predicate import FALSE, TRUE, All, OneOf, Predicate, Some, Within
from discreet.query.query import Aggregate, Query
from discreet.query.sets import Condition, complement, is_void, meet, unite, whole
from discreet.schema import Schema


def canonical(query: Query) -> str:
    """All of a question but its presentation, as JSON text."""
    told = {
        "table": query.table,
        "aggregates": [_aggregate(one) for one in query.aggregates],
        "keys": [[key.column, key.width] for key in query.keys],
        "where": _form(query.where),
        "unit": query.unit,
        "column": query.column,
    }
    if query.nesting:
        told["nesting"] = query.nesting
    return json.dumps(told, sort_keys=True, separators=(",", ":"))


def _aggregate(one: Aggregate) -> list[object]:
    told: list[object] = [one.function, one.column, [str(q) for q in one.orders]]
    return told if one.where == TRUE else [*told, _form(one.where)]


def in_order(aggregates: Iterable[Aggregate]) -> tuple[Aggregate, ...]:
    """By function, column, filter and orders; first without a filter."""
    return tuple(sorted(aggregates, key=_place))


def _place(one: Aggregate) -> tuple[str, str, bool, str, tuple[Fraction, ...]]:
    return one.function, one.column or "", one.where != TRUE, _order(one.where), one.orders


def simplify(predicate: Predicate, schema: Schema) -> Predicate:
    """The same rows, said in one way: sorted, each part once, nothing that follows from the rest.

    A part is held only against the values that its neighbours leave open: both in age >= 18 AND (age <= 30 OR smoker)
    and in age < 18 OR (age <= 30 AND smoker) the inner part is 18 to 30. Each step leaves fewer parts or smaller sets,
    so it comes to rest. What is said of one column has exactly one form; mixtures of columns may still have several,
    and then an equal question is asked, and paid, as another one.
    """
    return _at_rest(predicate, _Open(schema, {}))


def within(predicate: Predicate, where: Predicate, schema: Schema) -> Predicate:
    """What a condition says of the rows of which another, in canonical form, is true already: TRUE where that is all.

    Equal conditions on one column have one form here too, and parts that the other says itself are left out.
    """
    both = simplify(All((where, predicate)), schema)
    if both in (where, FALSE):
        return TRUE if both == where else FALSE
    said = where.parts if isinstance(where, All) else (where,)
    left = _Open(schema, {})
    for part in _singles(said):
        left = left.inside(part)
    found = _at_rest(predicate, left)
    parts = found.parts if isinstance(found, All) else (found,)
    return _joined(All, (part for part in parts if part not in said))


def _at_rest(predicate: Predicate, left: _Open) -> Predicate:
    while True:
        narrower = _narrowed(predicate, left)
        if narrower == predicate:
            narrower = _absorbed(predicate)
        if narrower == predicate:
            return predicate
        predicate = narrower


@dataclass(frozen=True, slots=True)
class _Open:
    """For each column, the values that can still make a difference."""

    schema: Schema
    known: Mapping[str, Condition]

    def of(self, column: str) -> Condition:
        return self.known.get(column) or whole(self.schema.column(column))

    def inside(self, one: Condition) -> _Open:
        return _Open(self.schema, {**self.known, one.column: meet(self.of(one.column), one)})

    def outside(self, one: Condition) -> _Open:
        return self.inside(complement(one, self.schema.column(one.column)))


def _narrowed(predicate: Predicate, left: _Open) -> Predicate:
    """One pass: what is known from outside is used inside."""
    match predicate:
        case All(parts):
            return _all(parts, left)
        case Some(parts):
            return _some(parts, left)
        case _:
            still = left.of(predicate.column)
            fit = meet(predicate, still)
            return FALSE if is_void(fit) else TRUE if fit == still else fit


def _all(parts: tuple[Predicate, ...], left: _Open) -> Predicate:
    kept = [_narrowed(_folded(same, meet), left) for same in _by_column(parts)]
    for part in _singles(kept):
        left = left.inside(part)
    return _joined(All, [*kept, *(_narrowed(part, left) for part in parts if isinstance(part, All | Some))])


def _some(parts: tuple[Predicate, ...], left: _Open) -> Predicate:
    union = partial(unite, schema=left.schema)
    kept = [_narrowed(_folded(same, union), left) for same in _by_column(parts)]
    for part in _singles(kept):
        left = left.outside(part)
    return _joined(Some, [*kept, *(_narrowed(part, left) for part in parts if isinstance(part, All | Some))])


def _singles(parts: Iterable[Predicate]) -> Iterator[Condition]:
    return (part for part in parts if isinstance(part, Within | OneOf))


def _by_column(parts: Iterable[Predicate]) -> Iterable[list[Condition]]:
    found: dict[str, list[Condition]] = {}
    for part in _singles(parts):
        found.setdefault(part.column, []).append(part)
    return found.values()


def _folded(conditions: list[Condition], join: Callable[[Condition, Condition], Condition]) -> Condition:
    """All joined into one, two by two, so that a long list is not walked for each of its members."""
    while len(conditions) > 1:
        pairs = zip_longest(conditions[::2], conditions[1::2])
        conditions = [one if two is None else join(one, two) for one, two in pairs]
    return conditions[0]


def _joined(kind: type[All] | type[Some], parts: Iterable[Predicate]) -> Predicate:
    """The parts in order, each once, those of the same kind opened; a single part stands for itself."""
    opened = (inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))
    distinct = set(opened)
    decides = FALSE if kind is All else TRUE
    if decides in distinct:
        return decides
    if len(distinct) == 1:
        return distinct.pop()
    return kind(tuple(sorted(distinct, key=_order)))


def _absorbed(predicate: Predicate) -> Predicate:
    """Without the parts that another part makes needless: a AND (b OR c) AND (b OR c OR d)."""
    if not isinstance(predicate, All | Some):
        return predicate
    parts = [_absorbed(part) for part in predicate.parts]
    inside = {part: frozenset(part.parts) for part in parts if isinstance(part, All | Some)}
    needless = {part for part, own in inside.items() if any(other < own for other in inside.values())}
    return _joined(type(predicate), (part for part in parts if part not in needless))


def _order(predicate: Predicate) -> str:
    return json.dumps(_form(predicate))


def _form(predicate: Predicate) -> list[object]:
    match predicate:
        case Within(column, ranges, null):
            return ["within", column, ranges, null]
        case OneOf(column, texts, outside, null):
            return ["one of", column, texts, outside, null]
        case All(parts):
            return ["all", *map(_form, parts)]
        case Some(parts):
            return ["some", *map(_form, parts)]
