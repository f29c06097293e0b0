"""Names in scope, and WHERE conditions worked out in three-valued logic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from typing import TypeVar

from discreet.errors import Internal, InvalidInput
from discreet.numeric import EPOCH
from discreet.query import ast, predicates
from discreet.query.predicates import (
    FALSE,
    TRUE,
    AllOf,
    AnyOf,
    Codes,
    InRanges,
    InTexts,
    Predicate,
    simplify_predicate,
    simplify_within,
)
from discreet.schema import Column, Schema

CodeIndex = Callable[[Column], Mapping[str, Codes]]
Part = TypeVar("Part")

MAX_RANGES = 100_000
"""Concepts of a taxonomy can stand for many ranges of codes; this many in one question are read."""
MAX_FILTER_RANGES = 1_000
"""A question may have hundreds of filters, each of which is held against its condition."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables of a question, each under what it is called there, with what its columns' names begin with."""

    schema: Schema
    tables: Mapping[str, str]
    indexes: dict[tuple[str, CodeIndex], Mapping[str, Codes]] = field(default_factory=dict)
    """Made when first asked for, so that a long list of categories does not search the schema each time."""
    where: Predicate = TRUE
    """The rows the question is about, which a FILTER chooses from."""

    @staticmethod
    def of(question: ast.ParsedQuestion, schema: Schema) -> Scope:
        """The tables there are, or a refusal."""
        if question.table.casefold() != schema.name.casefold():
            raise InvalidInput(f"there is no table {question.table[:40]!r}; ask FROM {schema.name}")
        tables = {(question.alias or schema.name).casefold(): ""}
        for join in question.joins:
            table_name, lookup = (join.alias or join.lookup).casefold(), find_lookup(join.lookup, schema)
            if table_name in tables or f"{lookup}." in tables.values():
                raise InvalidInput(f"a question joins each lookup once, under a name of its own; {lookup} is not")
            tables[table_name] = f"{lookup}."
        scope = Scope(schema, tables)
        for join in question.joins:
            scope._check_key(join)
        return scope

    def find_column(self, name: ast.QualifiedName) -> Column:
        """The one askable column that a name means."""
        matches = self._find_matches(name)
        if len(matches) > 1:
            candidate_names = " or ".join(column.name for column in matches)
            raise InvalidInput(f"{str(name)[:40]!r} could be {candidate_names}; write the table's name before it")
        if not matches:
            raise InvalidInput(self._explain_unknown_name(name))
        if matches[0].role == "identifier":
            raise InvalidInput(f"{matches[0].name} identifies people, so it cannot be asked about")
        return matches[0]

    def has_column(self, name: ast.QualifiedName) -> bool:
        """Whether a name means a column at all."""
        return bool(self._find_matches(name))

    def is_unit_column(self, name: ast.QualifiedName) -> bool:
        """Whether a name means the column that names the units."""
        is_own_table = not name.table or self.tables.get(name.table.casefold()) == ""
        return is_own_table and name.name.casefold() == (self.schema.unit or "").casefold() != ""

    def find_codes(self, column: Column, category: str) -> Codes:
        """The codes of a category, or of all leaves under a concept of the taxonomy."""
        ranges = self._get_index(column, _index_categories).get(category)
        if ranges is None:
            ranges = self._get_index(column, _index_concepts).get(category)
        return predicates.build_ranges(column.find_codes(category)) if ranges is None else ranges

    def _get_index(self, column: Column, index: CodeIndex) -> Mapping[str, Codes]:
        if (column.name, index) not in self.indexes:
            self.indexes[column.name, index] = index(column)
        return self.indexes[column.name, index]

    def _find_matches(self, name: ast.QualifiedName) -> list[Column]:
        """An exact name first, then one in other letters' case."""
        prefixes = [table_prefix for table, table_prefix in self.tables.items() if name.table.casefold() in ("", table)]
        columns = self.schema.columns
        exact = [columns[prefix + name.name] for prefix in prefixes if prefix + name.name in columns]
        folded_names = {(prefix + name.name).casefold() for prefix in prefixes}
        return exact or [column for column in columns.values() if column.name.casefold() in folded_names]

    def _explain_unknown_name(self, name: ast.QualifiedName) -> str:
        if name.table and name.table.casefold() not in self.tables:
            lookups = [lookup for lookup in self.schema.lookups if f"{lookup}." not in self.tables.values()]
            hint = f", and {', '.join(lookups)} can be joined" if lookups else ""
            known_tables = ", ".join(repr(table[:40]) for table in self.tables)
            return f"there is no table {name.table[:40]!r} here; this question has {known_tables}{hint}"
        if self.is_unit_column(name):
            unit = self.schema.unit
            return f"{unit} names the units, so it cannot be asked about; COUNT(DISTINCT {unit}) counts them"
        prefixes = set(self.tables.values())
        column_names = [column for column in self.schema.columns if column[: column.rfind(".") + 1] in prefixes]
        return f"there is no column {str(name)[:40]!r}; there are {', '.join(column_names)}"

    def _check_key(self, join: ast.Join) -> None:
        """A lookup is joined by its key and nothing else: any other join could repeat rows."""
        lookup = find_lookup(join.lookup, self.schema)
        key = self.schema.lookups[lookup]
        key_names = [name for name in join.on if [column.name for column in self._find_matches(name)] == [key]]
        entries = [name for name in join.on if name not in key_names]
        table_names = ("", (join.alias or join.lookup).casefold())
        are_entry_names = all(name.table.casefold() in table_names and not self.has_column(name) for name in entries)
        if join.on and not (are_entry_names and len(key_names) == 1):
            raise InvalidInput(f"{lookup} is joined by its key; write JOIN {lookup} ON {key} = {lookup}.key")


def find_lookup(name: str, schema: Schema) -> str:
    """Find a lookup of the schema by its name, in any case."""
    for lookup in schema.lookups:
        if lookup.casefold() == name.casefold():
            return lookup
    known_lookups = f"there are {', '.join(schema.lookups)}" if schema.lookups else "this table has none"
    raise InvalidInput(f"only lookups of the schema can be joined, not {name[:40]!r}; {known_lookups}")


def _index_categories(column: Column) -> Mapping[str, Codes]:
    return {category: ((code, code),) for code, category in enumerate(column.categories)}


def _index_concepts(column: Column) -> Mapping[str, Codes]:
    codes_by_concept: dict[str, list[int]] = {}
    ancestors = {} if column.taxonomy is None else column.taxonomy.ancestors
    for code, category in enumerate(column.categories):
        for concept in ancestors.get(category, frozenset()) - {category}:
            codes_by_concept.setdefault(concept, []).append(code)
    return {concept: predicates.build_ranges(codes) for concept, codes in codes_by_concept.items()}


def resolve_where(question: ast.ParsedQuestion, scope: Scope) -> Predicate:
    """Resolve WHERE to a canonical predicate; an inner join keeps the rows whose key has an entry."""
    inner_lookups = (join.lookup for join in question.joins if join.kind == "inner")
    entry_conditions = (_resolve_lookup_entries(lookup, scope.schema) for lookup in inner_lookups)
    return simplify_predicate(AllOf((_resolve_known(question.where, True, scope), *entry_conditions)), scope.schema)


def resolve_filter(condition: ast.Condition, column: Column | None, scope: Scope) -> Predicate:
    """Resolve FILTER to the rows it leaves of those of the question, with a value of the column if one is given."""
    presence_conditions = () if column is None or not column.is_nullable else (_resolve_is_null(column, False),)
    filter_condition = AllOf((_resolve_known(condition, True, scope), *presence_conditions))
    if _count_ranges(filter_condition) + _count_ranges(scope.where) > MAX_FILTER_RANGES:
        limit_text = f"at most {MAX_FILTER_RANGES} ranges of values"
        raise InvalidInput(f"with FILTER conditions stand for {limit_text}; ask for fewer")
    return simplify_within(filter_condition, scope.where, scope.schema)


def _resolve_known(condition: ast.Condition, truth: bool, scope: Scope) -> Predicate:
    """The rows of which a condition is known to be true, or known to be false; unknown is neither."""
    match condition:
        case None:
            return FALSE
        case bool():
            return TRUE if condition is truth else FALSE
        case ast.Not(part):
            return _resolve_known(part, not truth, scope)
        case ast.And(parts) | ast.Or(parts):
            kind = AllOf if isinstance(condition, ast.And) is truth else AnyOf
            return kind(tuple(_limit_ranges((_resolve_known(part, truth, scope) for part in parts), _count_ranges)))
        case ast.IsCheck(name, value):
            column = scope.find_column(name)
            return _resolve_is_null(column, truth) if value is None else _resolve_is_boolean(column, value, truth)
        case ast.InList(name, constants):
            return _resolve_in_list(name, constants, truth, scope)
        case ast.Compare(name, "=", constant):
            return _resolve_in_list(name, (constant,), truth, scope)
        case ast.Compare(name, "<>", constant):
            return _resolve_in_list(name, (constant,), not truth, scope)
        case ast.Compare():
            return _resolve_comparison(condition, truth, scope)
        case ast.ResolvedCondition(predicate):
            if not truth:
                raise Internal("a predicate is a whole condition, which nothing negates")
            return next(_limit_ranges([predicate], _count_ranges))


def _resolve_is_null(column: Column, truth: bool) -> Predicate:
    """IS NULL is true of missing values and false of all others."""
    if column.private_keys:
        return InTexts(column.name, (), outside=not truth, null=truth)
    return InRanges(column.name, () if truth else ((column.lower, column.upper),), null=truth)


def _resolve_is_boolean(column: Column, value: bool, truth: bool) -> Predicate:
    """IS TRUE is false, not unknown, of a missing value."""
    if column.kind != "boolean":
        raise InvalidInput(f"IS TRUE and IS FALSE are for boolean columns; {column.name} is {column.kind}")
    code = int(value is truth)
    return InRanges(column.name, ((code, code),), null=not truth)


def _resolve_in_list(
    name: ast.QualifiedName, constants: Sequence[ast.Constant], truth: bool, scope: Scope
) -> Predicate:
    """IN is true of what it lists; a NULL in the list leaves all else unknown."""
    column = scope.find_column(name)
    known_constants = [constant for constant in constants if constant is not None]
    membership = _build_membership(known_constants, column, scope)
    if truth:
        return membership
    return FALSE if len(known_constants) < len(constants) else _negate_condition(membership, column)


def _build_membership(constants: Sequence[ast.Constant], column: Column, scope: Scope) -> InRanges | InTexts:
    if column.private_keys:
        return InTexts(column.name, tuple(sorted({_require_text(constant, column) for constant in constants})))
    code_ranges = _limit_ranges((_find_equal_codes(constant, column, scope) for constant in constants), len)
    return InRanges(column.name, predicates.merge_ranges(span for codes in code_ranges for span in codes))


def _negate_condition(condition: InRanges | InTexts, column: Column) -> InRanges | InTexts:
    """All other values; a missing one is not among them, since nothing is known of it."""
    return replace(predicates.complement_condition(condition, column), null=False)


def _find_equal_codes(constant: ast.Constant, column: Column, scope: Scope) -> Codes:
    """The codes that equal a constant: none between two codes or beyond the bounds."""
    if column.categories and column.kind != "boolean":
        return scope.find_codes(column, _require_text(constant, column))
    code = column.find_code(_find_position(constant, column))
    return () if code is None else ((code, code),)


def _resolve_comparison(condition: ast.Compare, truth: bool, scope: Scope) -> Predicate:
    column = scope.find_column(condition.column)
    if column.private_keys or not column.is_ordered:
        raise InvalidInput(f"the values of {column.name} have no order; compare it with =, <> or IN")
    if condition.constant is None:
        return FALSE
    position = _find_position(condition.constant, column)
    side = InRanges(column.name, _find_side_codes(condition.comparison, position, column))
    return side if truth else _negate_condition(side, column)


def _find_side_codes(comparison: str, position: Fraction, column: Column) -> Codes:
    """The codes on one side of a position, which may lie between two codes."""
    low, high = column.lower, column.upper
    match comparison:
        case "<":
            high = min(high, math.ceil(position) - 1)
        case "<=":
            high = min(high, math.floor(position))
        case ">":
            low = max(low, math.floor(position) + 1)
        case _:
            low = max(low, math.ceil(position))
    return ((low, high),) if low <= high else ()


def _find_position(constant: ast.Constant, column: Column) -> Fraction:
    """Where a constant stands among the codes of a column of its own kind."""
    if column.is_numeric and isinstance(constant, Fraction):
        return constant / column.step
    if column.kind == "boolean" and isinstance(constant, bool):
        return Fraction(constant)
    if column.kind == "date" and isinstance(constant, date):
        return Fraction((constant - EPOCH).days)
    if isinstance(constant, str) and (column.kind == "date" or (column.categories and column.kind != "boolean")):
        return column.find_position(constant)
    raise InvalidInput(_describe_expected_constant(column))


def _require_text(constant: ast.Constant, column: Column) -> str:
    if not isinstance(constant, str):
        raise InvalidInput(_describe_expected_constant(column))
    return constant


def _describe_expected_constant(column: Column) -> str:
    if column.is_numeric:
        return f"{column.name} is compared with a number, written without quotes, like 10 or -0.5"
    if column.kind == "boolean":
        return f"{column.name} is compared with TRUE or FALSE, without quotes"
    if column.kind == "date":
        return f"{column.name} is compared with a date in quotes, like '2024-02-29'"
    return f"{column.name} is compared with a text in quotes, like 'text'"


def _resolve_lookup_entries(lookup: str, schema: Schema) -> Predicate:
    """The rows whose key has an entry: one with a value in some column of the lookup."""
    name = find_lookup(lookup, schema)
    key = schema.column(schema.lookups[name])
    derived_columns = (column.derived for column in schema.columns.values() if column.name.startswith(f"{name}."))
    entries = (enumerate(derived.codes, key.lower) for derived in derived_columns if derived is not None)
    return InRanges(
        key.name, predicates.build_ranges(place for codes in entries for place, code in codes if code is not None)
    )


def _limit_ranges(parts: Iterable[Part], size: Callable[[Part], int]) -> Iterator[Part]:
    """The parts, up to a limit on their sizes together."""
    total = 0
    for part in parts:
        total += size(part)
        if total > MAX_RANGES:
            raise InvalidInput(f"the condition stands for more than {MAX_RANGES} ranges of values; ask for fewer")
        yield part


def _count_ranges(predicate: Predicate) -> int:
    match predicate:
        case InRanges(_, ranges, _):
            return len(ranges)
        case InTexts(_, texts, _, _):
            return len(texts)
        case AllOf(parts) | AnyOf(parts):
            return sum(map(_count_ranges, parts))
