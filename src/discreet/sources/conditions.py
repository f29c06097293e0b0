"""Predicates as conditions of SQL.

A condition is unknown where a value is missing and nothing says what that means. No "not" stands around a condition, so
in a WHERE clause unknown does what false does: the row is left out, as `holds` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from sqlglot import exp

from discreet.query.predicate import All, OneOf, Predicate, Some, Within
from discreet.schema import Column
from discreet.sources.layout import Layout

FEW = 4
"""So many ranges are compared with their ends. Of more, and of the gaps between them, those of at most NARROW codes are
listed code by code: engines look up a code in a list of thousands as fast as they compare it with a few ends."""
NARROW = 64


def condition(predicate: Predicate, layout: Layout) -> exp.Expression:
    """A condition that is true of just those rows of which the predicate holds."""
    match predicate:
        case All(parts):
            return _joined(exp.And, [condition(part, layout) for part in parts]) if parts else exp.true()
        case Some(parts):
            return _joined(exp.Or, [condition(part, layout) for part in parts]) if parts else exp.false()
        case Within():
            present = _within(predicate, layout)
        case OneOf():
            present = _none_of(predicate, layout) if predicate.outside else _one_of(predicate, layout)
    missing = exp.Is(this=layout.column(predicate.column), expression=exp.null())
    return _joined(exp.Or, [missing, present]) if predicate.null else present


def _within(predicate: Within, layout: Layout) -> exp.Expression:
    public, code = layout.public(predicate.column), layout.column(predicate.column)
    trimmed = [(max(low, public.lower), min(high, public.upper)) for low, high in predicate.ranges]
    ranges = [(low, high) for low, high in trimmed if low <= high]
    gaps = [(high + 1, low - 1) for (_, high), (low, _) in pairwise(ranges)]
    longest = 1 if len(ranges) <= FEW else NARROW
    listed, wide = _codes(ranges, longest), [(low, high) for low, high in ranges if high - low >= longest]
    if wide and gaps and all(high - low < longest for low, high in gaps):
        ends = _ends(code, ranges[0][0], ranges[-1][1], public)
        return _joined(exp.And, [*ends, layout.not_in(code, _codes(gaps, longest))])
    parts = [layout.one_in(code, listed)] if listed else []
    parts += [_joined(exp.And, _ends(code, low, high, public) or [_present(code)]) for low, high in wide]
    return _joined(exp.Or, parts) if parts else exp.false()


def _codes(ranges: Iterable[tuple[int, int]], longest: int) -> list[exp.Expression]:
    """The codes of all ranges of at most so many."""
    short = [range(low, high + 1) for low, high in ranges if high - low < longest]
    return [exp.Literal.number(code) for codes in short for code in codes]


def _ends(code: exp.Column, low: int, high: int, public: Column) -> list[exp.Expression]:
    """Comparisons with the ends of a range; none with a bound of the column, which nothing is beyond."""
    least = [exp.GTE(this=code.copy(), expression=exp.Literal.number(low))] if low > public.lower else []
    most = [exp.LTE(this=code.copy(), expression=exp.Literal.number(high))] if high < public.upper else []
    return [*least, *most]


def _one_of(predicate: OneOf, layout: Layout) -> exp.Expression:
    texts = _texts(predicate, layout)
    return layout.one_in(layout.text(predicate.column), texts) if texts else exp.false()


def _none_of(predicate: OneOf, layout: Layout) -> exp.Expression:
    texts = _texts(predicate, layout)
    column = layout.text(predicate.column)
    return layout.not_in(column, texts) if texts else _present(column)


def _texts(predicate: OneOf, layout: Layout) -> list[exp.Expression]:
    return [exp.Literal.string(text) for text in predicate.texts if layout.holds_text(text)]


def _present(column: exp.Expression) -> exp.Expression:
    return exp.Not(this=exp.Is(this=column.copy(), expression=exp.null()))


def _joined(connector: type[exp.Connector], parts: Sequence[exp.Expression]) -> exp.Expression:
    """A tree of parts that is as flat as can be: engines give up on chains of thousands."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = _joined(connector, parts[:half]), _joined(connector, parts[half:])
    return exp.paren(connector(this=left, expression=right), copy=False)
