"""What a registration found. For the custodian's eyes only: all of it follows from the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from discreet.schema.schema import Schema

Progress = Callable[[str], None]
"""Told the stages as they begin: reading, normalising, bounding, writing."""


def ignore_registration_stage(stage: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """How many of the rows read had no value, one that is not of the column's kind, one moved to a bound."""

    missing: int
    unreadable: int
    clipped: int


@dataclass(frozen=True, slots=True)
class RegistrationReport:
    """One registration: the fingerprint is a sum over the rows kept, equal for equal snapshots under one key."""

    rows_read: int
    rows_kept: int
    without_unit: int
    units: int
    columns: Mapping[str, ColumnReport]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What reading the rows found, before any of them is left out."""

    rows: int
    without_unit: int
    columns: Mapping[str, ColumnReport]


def parse_source_counts(schema: Schema, counts: Sequence[int]) -> SourceCounts:
    """From the row of counts an engine gives: rows, rows without a unit, then three of each column."""
    rows, without_unit, *column_counts = map(int, counts)
    triples = zip(*[iter(column_counts)] * 3, strict=True)
    columns = {name: ColumnReport(*triple) for name, triple in zip(schema.columns, triples, strict=True)}
    return SourceCounts(rows, without_unit, MappingProxyType(columns))


def build_registration_report(source_counts: SourceCounts, summary: Sequence[int]) -> RegistrationReport:
    """With the row of totals an engine gives of the snapshot: rows, units, and the sum of the pieces of their marks."""
    rows_kept, units, hash_sum = map(int, summary)
    return RegistrationReport(
        source_counts.rows, rows_kept, source_counts.without_unit, units, source_counts.columns, f"{hash_sum:x}"
    )
