"""Registration in memory: the slow obvious reference that every engine agrees with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from hashlib import md5
from types import MappingProxyType

from discreet.schema.schema import Schema
from discreet.sources.ingest import registration_report
from discreet.sources.ingest.registration_report import ColumnReport, Progress, RegistrationReport, SourceCounts
from discreet.sources.ingest.values import (
    UNSUPPORTED,
    ParsedValue,
    Value,
    derive_value,
    normalize_raw_value,
    parse_unit_name,
    parse_with_status,
)

UNIT_KEY = "#unit"
RegisteredRow = dict[str, Value]


def register_memory(
    schema: Schema,
    rows: Sequence[Mapping[str, object]],
    key: str,
    progress: Progress = registration_report.ignore_registration_stage,
) -> tuple[list[RegisteredRow], RegistrationReport]:
    """The snapshot of some rows, by column name and with the unit under "#unit", and what was found."""
    registration_report.refuse_schema(schema, key)
    progress("reading")
    present_columns = list(dict.fromkeys(name for row in rows for name in row))
    required_columns = registration_report.list_required_columns(schema)
    registration_report.refuse_columns(schema, present_columns if rows else required_columns)
    if schema.unit is not None:
        names = [normalize_raw_value(row.get(schema.unit)) for row in rows]
        if any(isinstance(name, bool | float | date) or name is UNSUPPORTED for name in names):
            registration_report.refuse_unit(schema.unit)
    progress("normalising")
    readings = [_parse_row(schema, row) for row in rows]
    units = [None if schema.unit is None else parse_unit_name(row.get(schema.unit)) for row in rows]
    source_counts = _count_statuses(schema, readings, units)
    registration_report.refuse_unusable_rows(schema, source_counts)
    progress("bounding")
    values = [{name: reading.value for name, reading in row.items()} for row in readings]
    kept_rows = values if schema.unit is None else _bound_contributions(schema, key, values, units)
    progress("writing")
    hash_sum = sum(int(hash_row(key, row)[:15], 16) for row in kept_rows)
    unit_count = len(kept_rows) if schema.unit is None else len({row[UNIT_KEY] for row in kept_rows})
    summary = (len(kept_rows), unit_count, hash_sum)
    return kept_rows, registration_report.build_registration_report(source_counts, summary)


def hash_row(key: str, row: RegisteredRow) -> str:
    """The hash that orders the rows of a unit: of the key, the unit and the row itself, in the order of the columns.

    Texts are hashed before they are joined, so that different rows have different joined texts.
    """
    unit_hash = [_hash_text(str(row[UNIT_KEY]))] if UNIT_KEY in row else []
    parts = (_hash_part(value) for name, value in row.items() if name != UNIT_KEY)
    return _hash_text("|".join([key, *unit_hash, *parts]))


def _hash_part(value: Value) -> str:
    if value is None:
        return ""
    return _hash_text(value) if isinstance(value, str) else str(value)


def _hash_text(text: str) -> str:
    return md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _parse_row(schema: Schema, row: Mapping[str, object]) -> dict[str, ParsedValue]:
    parsed_values = {
        name: parse_with_status(column, row.get(name))
        for name, column in schema.columns.items()
        if column.derived is None
    }
    for name, column in schema.columns.items():
        if column.derived is not None:
            key = column.derived.key
            parsed_values[name] = derive_value(column, schema.columns[key], parsed_values[key].value)
    return {name: parsed_values[name] for name in schema.columns}


def _count_statuses(schema: Schema, readings: list[dict[str, ParsedValue]], units: list[str | None]) -> SourceCounts:
    columns = {}
    for name in schema.columns:
        statuses = Counter(row[name].status for row in readings)
        columns[name] = ColumnReport(statuses["missing"], statuses["unreadable"], statuses["clipped"])
    without_unit = 0 if schema.unit is None else units.count(None)
    return SourceCounts(len(readings), without_unit, MappingProxyType(columns))


def _bound_contributions(
    schema: Schema, key: str, values: list[RegisteredRow], units: list[str | None]
) -> list[RegisteredRow]:
    """Of each unit the rows of the least hashes. Which they are depends on that unit's rows and the key alone."""
    rows_by_unit: dict[str, list[RegisteredRow]] = defaultdict(list)
    for row, unit in zip(values, units, strict=True):
        if unit is not None:
            rows_by_unit[unit].append(row | {UNIT_KEY: unit})
    return [
        row
        for unit_rows in rows_by_unit.values()
        for row in sorted(unit_rows, key=lambda unit_row: hash_row(key, unit_row))[: schema.rows]
    ]
