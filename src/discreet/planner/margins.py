"""Exact counts of single columns that were published before, which everybody knows."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.planner.impossible import columns_of
from discreet.planner.published import published_count
from discreet.query.predicate import Predicate
from discreet.schema import Schema


@dataclass(frozen=True, slots=True)
class Margin:
    """So many rows satisfy a condition on one column."""

    column: str
    where: Predicate
    rows: int


def margins(schema: Schema) -> tuple[Margin, ...]:
    """The published counts of rows that are about one column."""
    counted = [published_count(one, schema) for one in schema.published]
    return tuple(
        Margin(columns_of(where)[0], where, rows)
        for where, rows in filter(None, counted)
        if len(columns_of(where)) == 1
    )
