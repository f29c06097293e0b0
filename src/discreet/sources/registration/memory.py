"""Registration in memory: the slow obvious reference that every engine agrees with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from hashlib import md5
from types import MappingProxyType

from discreet.schema.schema import Schema
from discreet.sources.reading import STRANGE, Reading, Value, derive, examine, plain, unit_of
from discreet.sources.registration.refusals import needed, refuse_columns, refuse_found, refuse_schema, refuse_unit
from discreet.sources.registration.report import ColumnReport, Found, Progress, Report, silent

UNIT = "#unit"
Row = dict[str, Value]


def register_memory(
    schema: Schema, rows: Sequence[Mapping[str, object]], key: str, progress: Progress = silent
) -> tuple[list[Row], Report]:
    """The snapshot of some rows, by column name and with the unit under "#unit", and what was found."""
    refuse_schema(schema, key)
    progress("reading")
    refuse_columns(schema, list(dict.fromkeys(name for row in rows for name in row)) if rows else needed(schema))
    _refuse_units(schema, rows)
    progress("normalising")
    readings = [_readings(schema, row) for row in rows]
    units = [None if schema.unit is None else unit_of(row.get(schema.unit)) for row in rows]
    before = _found(schema, readings, units)
    refuse_found(schema, before)
    progress("bounding")
    values = [{name: reading.value for name, reading in row.items()} for row in readings]
    kept = values if schema.unit is None else _bounded(schema, key, values, units)
    progress("writing")
    pieces = sum(int(mark(key, row)[:15], 16) for row in kept)
    counted = len(kept) if schema.unit is None else len({row[UNIT] for row in kept})
    return kept, Report(before.rows, len(kept), before.without_unit, counted, before.columns, f"{pieces:x}")


def mark(key: str, row: Row) -> str:
    """The hash that orders the rows of a unit: of the key, the unit and the row itself, in the order of the columns.

    Texts are hashed before they are joined, so that different rows have different joined texts.
    """
    first = [_hash(str(row[UNIT]))] if UNIT in row else []
    return _hash("|".join([key, *first, *(_part(value) for name, value in row.items() if name != UNIT)]))


def _part(value: Value) -> str:
    if value is None:
        return ""
    return _hash(value) if isinstance(value, str) else str(value)


def _hash(text: str) -> str:
    return md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _refuse_units(schema: Schema, rows: Sequence[Mapping[str, object]]) -> None:
    if schema.unit is not None:
        values = [plain(row.get(schema.unit)) for row in rows]
        if any(isinstance(value, bool | float | date) or value is STRANGE for value in values):
            refuse_unit(schema.unit)


def _readings(schema: Schema, row: Mapping[str, object]) -> dict[str, Reading]:
    read = {name: examine(column, row.get(name)) for name, column in schema.columns.items() if column.derived is None}
    for name, column in schema.columns.items():
        if column.derived is not None:
            key = column.derived.key
            read[name] = derive(column, schema.columns[key], read[key].value)
    return {name: read[name] for name in schema.columns}


def _found(schema: Schema, readings: list[dict[str, Reading]], units: list[str | None]) -> Found:
    columns = {}
    for name in schema.columns:
        seen = Counter(row[name].status for row in readings)
        columns[name] = ColumnReport(seen["missing"], seen["unreadable"], seen["clipped"])
    without_unit = 0 if schema.unit is None else units.count(None)
    return Found(len(readings), without_unit, MappingProxyType(columns))


def _bounded(schema: Schema, key: str, values: list[Row], units: list[str | None]) -> list[Row]:
    """Of each unit the rows of the least marks. Which they are depends on that unit's rows and the key alone."""
    of_unit: dict[str, list[Row]] = defaultdict(list)
    for row, unit in zip(values, units, strict=True):
        if unit is not None:
            of_unit[unit].append(row | {UNIT: unit})
    return [row for own in of_unit.values() for row in sorted(own, key=lambda each: mark(key, each))[: schema.rows]]
