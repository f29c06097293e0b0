"""Predicates as conditions of SQL.

A condition is unknown where a value is missing and nothing says what that means. No "not" stands around a condition, so
in a WHERE clause unknown does what false does: the row is left out, as `holds` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from sqlglot import exp

from discreet.query.predicate import AllOf, AnyOf, InRanges, InTexts, Predicate
from discreet.schema import Column
from discreet.sources.layout import SnapshotLayout

MAX_COMPARED_RANGES = 4
"""So many ranges are compared with their ends. Of more, and of the gaps between them, those of at most NARROW codes are
listed code by code: engines look up a code in a list of thousands as fast as they compare it with a few ends."""
MAX_LISTED_CODES = 64


def compile_predicate(predicate: Predicate, layout: SnapshotLayout) -> exp.Expression:
    """A condition that is true of just those rows of which the predicate holds."""
    match predicate:
        case AllOf(parts):
            return (
                _join_conditions(exp.And, [compile_predicate(part, layout) for part in parts]) if parts else exp.true()
            )
        case AnyOf(parts):
            return (
                _join_conditions(exp.Or, [compile_predicate(part, layout) for part in parts]) if parts else exp.false()
            )
        case InRanges():
            value_condition = _compile_within(predicate, layout)
        case InTexts():
            value_condition = (
                _compile_none_of(predicate, layout) if predicate.outside else _compile_one_of(predicate, layout)
            )
    is_missing = exp.Is(this=layout.get_column(predicate.column), expression=exp.null())
    return _join_conditions(exp.Or, [is_missing, value_condition]) if predicate.null else value_condition


def _compile_within(predicate: InRanges, layout: SnapshotLayout) -> exp.Expression:
    schema_column, code = layout.get_schema_column(predicate.column), layout.get_column(predicate.column)
    trimmed_ranges = [(max(low, schema_column.lower), min(high, schema_column.upper)) for low, high in predicate.ranges]
    ranges = [(low, high) for low, high in trimmed_ranges if low <= high]
    gaps = [(high + 1, low - 1) for (_, high), (low, _) in pairwise(ranges)]
    max_length = 1 if len(ranges) <= MAX_COMPARED_RANGES else MAX_LISTED_CODES
    listed_codes, wide_ranges = (
        _list_codes(ranges, max_length),
        [(low, high) for low, high in ranges if high - low >= max_length],
    )
    if wide_ranges and gaps and all(high - low < max_length for low, high in gaps):
        ends = _compare_with_ends(code, ranges[0][0], ranges[-1][1], schema_column)
        return _join_conditions(exp.And, [*ends, layout.build_not_in(code, _list_codes(gaps, max_length))])
    parts = [layout.build_in(code, listed_codes)] if listed_codes else []
    parts += [
        _join_conditions(exp.And, _compare_with_ends(code, low, high, schema_column) or [_is_present(code)])
        for low, high in wide_ranges
    ]
    return _join_conditions(exp.Or, parts) if parts else exp.false()


def _list_codes(ranges: Iterable[tuple[int, int]], max_length: int) -> list[exp.Expression]:
    """The codes of all ranges of at most so many."""
    short_ranges = [range(low, high + 1) for low, high in ranges if high - low < max_length]
    return [exp.Literal.number(code) for codes in short_ranges for code in codes]


def _compare_with_ends(code: exp.Column, low: int, high: int, column: Column) -> list[exp.Expression]:
    """Comparisons with the ends of a range; none with a bound of the column, which nothing is beyond."""
    lower_comparison = [exp.GTE(this=code.copy(), expression=exp.Literal.number(low))] if low > column.lower else []
    upper_comparison = [exp.LTE(this=code.copy(), expression=exp.Literal.number(high))] if high < column.upper else []
    return [*lower_comparison, *upper_comparison]


def _compile_one_of(predicate: InTexts, layout: SnapshotLayout) -> exp.Expression:
    texts = _build_text_literals(predicate, layout)
    return layout.build_in(layout.get_text_column(predicate.column), texts) if texts else exp.false()


def _compile_none_of(predicate: InTexts, layout: SnapshotLayout) -> exp.Expression:
    texts = _build_text_literals(predicate, layout)
    column = layout.get_text_column(predicate.column)
    return layout.build_not_in(column, texts) if texts else _is_present(column)


def _build_text_literals(predicate: InTexts, layout: SnapshotLayout) -> list[exp.Expression]:
    return [exp.Literal.string(text) for text in predicate.texts if layout.can_hold_text(text)]


def _is_present(column: exp.Expression) -> exp.Expression:
    return exp.Not(this=exp.Is(this=column.copy(), expression=exp.null()))


def _join_conditions(connector: type[exp.Connector], parts: Sequence[exp.Expression]) -> exp.Expression:
    """A tree of parts that is as flat as can be: engines give up on chains of thousands."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = _join_conditions(connector, parts[:half]), _join_conditions(connector, parts[half:])
    return exp.paren(connector(this=left, expression=right), copy=False)
