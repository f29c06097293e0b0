"""Exact counts of single columns that were published before, which everybody knows."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.planner.impossible import list_predicate_columns
from discreet.planner.published import read_published_count
from discreet.query.predicate import Predicate
from discreet.schema import Schema


@dataclass(frozen=True, slots=True)
class PublicMarginal:
    """So many rows satisfy a condition on one column."""

    column: str
    where: Predicate
    rows: int


def list_public_marginals(schema: Schema) -> tuple[PublicMarginal, ...]:
    """The published counts of rows that are about one column."""
    published_counts = [read_published_count(statistic, schema) for statistic in schema.published]
    return tuple(
        PublicMarginal(list_predicate_columns(where)[0], where, rows)
        for where, rows in filter(None, published_counts)
        if len(list_predicate_columns(where)) == 1
    )
