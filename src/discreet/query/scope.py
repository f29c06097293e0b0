"""Names in scope, and WHERE conditions worked out in three-valued logic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from typing import TypeVar

from discreet.errors import DiscreetError, Internal, InvalidInput
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
from discreet.suggestions import build_unknown_name_error, list_names

CodeIndex = Callable[[Column], Mapping[str, Codes]]
Part = TypeVar("Part")

MAX_RANGES = 100_000
"""Concepts of a taxonomy can stand for many ranges of codes; this many in one question are read."""
MAX_FILTER_RANGES = 1_000
"""A question may have hundreds of filters, each of which is held against its condition."""


def join_spans(spans: Iterable[ast.Span | None]) -> ast.Span | None:
    """The characters from the first span to the last."""
    known = [span for span in spans if span is not None]
    return (min(start for start, _ in known), max(end for _, end in known)) if known else None


@contextmanager
def locate_errors(span: ast.Span | None) -> Iterator[None]:
    """Say of errors which part of the question's text they are about, unless a smaller part is known."""
    try:
        yield
    except DiscreetError as error:
        error.span = error.span or span
        raise


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
            with locate_errors(question.span):
                raise build_unknown_name_error("table", question.table, [schema.name], "unknown-table")
        tables = {(question.alias or schema.name).casefold(): ""}
        for join in question.joins:
            with locate_errors(join.span):
                _add_lookup(tables, join, schema)
        scope = Scope(schema, tables)
        for join in question.joins:
            with locate_errors(join.span):
                scope._check_key(join)
        return scope

    def find_column(self, name: ast.QualifiedName) -> Column:
        """The one askable column that a name means."""
        matches = self._find_matches(name)
        with locate_errors(name.span):
            if len(matches) > 1:
                candidates = " or ".join(column.name for column in matches)
                message = f"{str(name)[:40]!r} could be {candidates}; write the table's name before it"
                raise InvalidInput(message, code="unknown-column")
            if not matches:
                raise self._build_unknown_column_error(name)
            if matches[0].role == "identifier":
                message = f"{matches[0].name} identifies people, so it cannot be asked about; leave it out"
                raise InvalidInput(message)
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

    def _build_unknown_column_error(self, name: ast.QualifiedName) -> InvalidInput:
        if name.table and name.table.casefold() not in self.tables:
            lookups = [lookup for lookup in self.schema.lookups if f"{lookup}." not in self.tables.values()]
            advice = f"{list_names(lookups)} can be joined" if lookups else ""
            with locate_errors(name.table_span):
                raise build_unknown_name_error("table", name.table, list(self.tables), "unknown-table", advice=advice)
        if self.is_unit_column(name):
            unit = self.schema.unit
            return InvalidInput(
                f"{unit} names the units, so it cannot be asked about; COUNT(DISTINCT {unit}) counts them"
            )
        folded_name = name.name.casefold()
        others = [other for other in self.schema.columns if other.rpartition(".")[2].casefold() == folded_name]
        advice = f"JOIN {others[0].rpartition('.')[0]} to use {others[0]}" if others and not name.table else ""
        own_names = self.list_columns(name.table)
        return build_unknown_name_error("column", name.name, own_names, "unknown-column", advice=advice)

    def list_columns(self, table: str = "") -> list[str]:
        """List the columns of the question's tables, or of one of them, as a question names them there."""
        prefixes = {self.tables[table.casefold()]} if table else set(self.tables.values())
        columns = [column for column in self.schema.columns.values() if column.role != "identifier"]
        split_names = [(column.name[: column.name.rfind(".") + 1], column.name) for column in columns]
        return [name.removeprefix(prefix) if table else name for prefix, name in split_names if prefix in prefixes]

    def _check_key(self, join: ast.Join) -> None:
        """A lookup is joined by its key and nothing else: any other join could repeat rows."""
        lookup = find_lookup(join.lookup, self.schema)
        key = self.schema.lookups[lookup]
        key_names = [name for name in join.on if [column.name for column in self._find_matches(name)] == [key]]
        entries = [name for name in join.on if name not in key_names]
        table_names = ("", (join.alias or join.lookup).casefold())
        are_entry_names = all(name.table.casefold() in table_names and not self.has_column(name) for name in entries)
        if join.on and not (are_entry_names and len(key_names) == 1):
            span = join_spans(name.span for name in join.on)
            with locate_errors(span):
                raise InvalidInput(f"{lookup} is joined by its key; write JOIN {lookup} ON {key} = {lookup}.key")


def _add_lookup(tables: dict[str, str], join: ast.Join, schema: Schema) -> None:
    """Add the lookup that a question joins, under its name in the question."""
    table_name, lookup = (join.alias or join.lookup).casefold(), find_lookup(join.lookup, schema)
    if table_name in tables or f"{lookup}." in tables.values():
        raise InvalidInput(f"{lookup} is joined twice, or under another table's name; join it once, with a name by AS")
    tables[table_name] = f"{lookup}."


def find_lookup(name: str, schema: Schema) -> str:
    """Find a lookup of the schema by its name, in any case."""
    for lookup in schema.lookups:
        if lookup.casefold() == name.casefold():
            return lookup
    advice = "only lookups of the schema can be joined" + ("" if schema.lookups else ", and it has none")
    raise build_unknown_name_error("lookup", name, list(schema.lookups), "unknown-table", advice=advice)


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
            with locate_errors(name.span):
                return _resolve_is_null(column, truth) if value is None else _resolve_is_boolean(column, value, truth)
        case ast.InList():
            return _resolve_in_list(condition, truth, scope)
        case ast.Compare(name, "=" | "<>" as comparison, constant, span):
            equality = ast.InList(name, (constant,), (span,))
            return _resolve_in_list(equality, truth is (comparison == "="), scope)
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
        message = f"IS TRUE and IS FALSE take a boolean column, and {column.name} is {column.kind}; compare it with ="
        raise InvalidInput(message, code="wrong-type")
    code = int(value is truth)
    return InRanges(column.name, ((code, code),), null=not truth)


def _resolve_in_list(in_list: ast.InList, truth: bool, scope: Scope) -> Predicate:
    """IN is true of what it lists; a NULL in the list leaves all else unknown."""
    column = scope.find_column(in_list.column)
    spans = in_list.spans or (None,) * len(in_list.constants)
    known = [(constant, span) for constant, span in zip(in_list.constants, spans, strict=True) if constant is not None]
    membership = _build_membership(known, column, scope)
    if truth:
        return membership
    return FALSE if len(known) < len(in_list.constants) else _negate_condition(membership, column)


def _build_membership(
    constants: Sequence[tuple[ast.Constant, ast.Span | None]], column: Column, scope: Scope
) -> InRanges | InTexts:
    if column.private_keys:
        return InTexts(column.name, tuple(sorted({_require_text(*constant, column) for constant in constants})))
    code_ranges = _limit_ranges((_find_equal_codes(constant, column, scope, span) for constant, span in constants), len)
    return InRanges(column.name, predicates.merge_ranges(span for codes in code_ranges for span in codes))


def _negate_condition(condition: InRanges | InTexts, column: Column) -> InRanges | InTexts:
    """All other values; a missing one is not among them, since nothing is known of it."""
    return replace(predicates.complement_condition(condition, column), null=False)


def _find_equal_codes(constant: ast.Constant, column: Column, scope: Scope, span: ast.Span | None) -> Codes:
    """The codes that equal a constant: none between two codes or beyond the bounds."""
    with locate_errors(span):
        if column.categories and column.kind != "boolean":
            return scope.find_codes(column, _require_text(constant, span, column))
        code = column.find_code(_find_position(constant, column))
    return () if code is None else ((code, code),)


def _resolve_comparison(condition: ast.Compare, truth: bool, scope: Scope) -> Predicate:
    column = scope.find_column(condition.column)
    with locate_errors(condition.column.span):
        if column.private_keys or not column.is_ordered:
            message = f"the values of {column.name} have no order; compare it with =, <> or IN"
            raise InvalidInput(message, code="wrong-type")
    if condition.constant is None:
        return FALSE
    with locate_errors(condition.span):
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
    raise InvalidInput(_describe_expected_constant(column), code="wrong-type")


def _require_text(constant: ast.Constant, span: ast.Span | None, column: Column) -> str:
    if not isinstance(constant, str):
        with locate_errors(span):
            raise InvalidInput(_describe_expected_constant(column), code="wrong-type")
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
