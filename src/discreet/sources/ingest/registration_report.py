"""What a registration reports, and what it refuses. No sentence quotes a value of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from discreet.errors import InvalidInput
from discreet.schema.schema import Column, Schema
from discreet.sources.sql_dialects import ColumnOrigin
from discreet.suggestions import find_similar_names, list_names

Progress = Callable[[str], None]
"""Called with each stage as it begins: reading, normalising, bounding, writing."""
MAX_STEP_TERM = 10**100
"""The most that a step's numerator and denominator may be, so that no product overflows or vanishes on any engine."""


def ignore_registration_stage(stage: str) -> None:
    """Report the stages to nobody."""


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
    """The counts of a source as it was read, before any row is left out."""

    rows: int
    without_unit: int
    columns: Mapping[str, ColumnReport]


def parse_source_counts(schema: Schema, counts: Sequence[int]) -> SourceCounts:
    """Parse the row of counts that an engine gives: rows, rows without a unit, then three of each column."""
    rows, without_unit, *column_counts = map(int, counts)
    triples = zip(*[iter(column_counts)] * 3, strict=True)
    columns = {name: ColumnReport(*triple) for name, triple in zip(schema.columns, triples, strict=True)}
    return SourceCounts(rows, without_unit, MappingProxyType(columns))


def build_registration_report(source_counts: SourceCounts, summary: Sequence[int]) -> RegistrationReport:
    """Build the report from the row of totals that an engine gives: rows, units, and the sum of row hashes."""
    rows_kept, units, hash_sum = map(int, summary)
    return RegistrationReport(
        source_counts.rows, rows_kept, source_counts.without_unit, units, source_counts.columns, f"{hash_sum:x}"
    )


def refuse_schema(schema: Schema, key: str) -> None:
    """Refuse what no engine could hold."""
    if not key:
        raise InvalidInput("the key of a registration must not be empty; it decides which rows of a unit are kept")
    if not schema.columns:
        raise InvalidInput("the schema has no column that can be asked about; declare one")
    _refuse_unstorable_texts("the key", [key])
    for name, column in schema.columns.items():
        if max(column.step.numerator, column.step.denominator) > MAX_STEP_TERM:
            raise InvalidInput(f"the step of {name} must be between 10^-100 and 10^100, in at most 100 digits")
        if len(set(column.categories)) < len(column.categories):
            raise InvalidInput(f"the categories of {name} must be different from each other")  # or rows would multiply
        _refuse_unstorable_texts(f"a category or missing value of {name}", column.categories + column.missing_values)


def _refuse_unstorable_texts(subject: str, texts: Iterable[str]) -> None:
    """NUL characters and halves of surrogate pairs cannot be said to an engine."""
    if any("\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text) for text in texts):
        raise InvalidInput(f"{subject} has a character that no table can hold; write it with letters and signs")


def list_required_columns(schema: Schema) -> tuple[str, ...]:
    """List the columns that a source must have, the unit's first: all but the derived ones."""
    source_columns = [name for name, column in schema.columns.items() if column.derived is None]
    return tuple(dict.fromkeys(([] if schema.unit is None else [schema.unit]) + source_columns))


def refuse_columns(schema: Schema, present_columns: Sequence[str]) -> None:
    """Refuse a source that lacks a column or has one twice."""
    required_columns = list_required_columns(schema)
    if required_columns and not set(required_columns) & set(present_columns):
        # What the source has is not listed: where a file has no header it is the first row.
        names = list_names(required_columns)
        raise InvalidInput(f"the source has none of the columns {names}; check that it names its columns")
    for name in required_columns:
        if name not in present_columns:
            similar_names = find_similar_names(name, present_columns)
            hint = f"it has {list_names(present_columns)}"
            if similar_names:
                hint = f"is it called {' or '.join(map(repr, similar_names))} there?"
            raise InvalidInput(f"the source has no column {name}; {hint}", code="unknown-column")
        if list(present_columns).count(name) > 1:
            raise InvalidInput(f"the source has more than one column {name}; leave one of them out")


def refuse_kinds(schema: Schema, origins: Mapping[str, ColumnOrigin]) -> None:
    """Refuse a unit column of another type than text or whole numbers."""
    if schema.unit is not None and origins[schema.unit].kind not in {"text", "integer", "decimal"}:
        refuse_unit(schema.unit)


def refuse_unit(name: str) -> NoReturn:
    """Refuse units that are not named exactly: the text of a float differs from engine to engine."""
    raise InvalidInput(f"the unit column {name} must hold text or whole numbers; convert it in the source")


def refuse_unusable_rows(schema: Schema, source_counts: SourceCounts) -> None:
    """Refuse no rows, rows none of which names its unit, and a column that is not of its kind at all."""
    if not source_counts.rows:
        raise InvalidInput("the source has no rows; there is nothing to register")
    if source_counts.without_unit == source_counts.rows:
        raise InvalidInput(f"no row names its unit; check that {schema.unit} is the right column")
    for name, column_report in source_counts.columns.items():
        if column_report.unreadable and column_report.missing + column_report.unreadable == source_counts.rows:
            raise InvalidInput(f"column {name} holds no {_describe_expected_kind(schema.columns[name])}")


def _describe_expected_kind(column: Column) -> str:
    if column.private_keys:
        return "text or whole number; check its kind"
    if column.is_numeric or column.kind in {"date", "boolean"}:
        return f"{column.kind}; check its kind"
    return "value that is one of its categories; check their spelling"


def refuse_existing(target: Path) -> None:
    """Refuse to write over anything."""
    if target.exists():
        raise InvalidInput(f"{str(target)[-80:]} exists already; a snapshot is never overwritten, name another")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {str(target.parent)[-80:]} does not exist; make it first")
