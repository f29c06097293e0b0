"""Tables as a source may hold them: plain values, some beyond every bound, and units with more rows than are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from discreet.kernel.entropy import Entropy, KeyedEntropy
from discreet.kernel.sampling import sample_below
from discreet.schema import Column, Schema
from discreet.testing.generated import UNIT_FIELD, PairGenerator, Row

OVERSHOOT_STEPS = (1, 10**6, 10**30)
"""How far beyond a bound a number may be, in steps."""
PlainRowsCache = dict[str, list[dict[str, Any]]]
"""Plain values of units, by their rows."""
MAX_EXTRA_ROWS = 2
"""How many more rows a unit may have than are kept."""


def build_source_rows(schema: Schema, rows: Iterable[Row], cache: PlainRowsCache | None = None) -> list[dict[str, Any]]:
    """Rows of a snapshot as plain values; what becomes of a unit's rows depends on these rows alone.

    So neighbours stay neighbours. Values at a bound may lie beyond it, and a unit with all its rows may have more.
    What became of units is put into `known`, so that it is not worked out again for a neighbour.
    """
    plain_rows: PlainRowsCache = {} if cache is None else cache
    units: dict[object, list[Row]] = {}
    for index, row in enumerate(rows):
        units.setdefault(index if schema.unit is None else row[UNIT_FIELD], []).append(row)
    return [row for unit_rows in units.values() for row in _build_unit_rows(schema, unit_rows, plain_rows)]


def _build_unit_rows(schema: Schema, rows: list[Row], cache: PlainRowsCache) -> list[dict[str, Any]]:
    cache_key = repr(rows)
    if cache_key not in cache:
        cache[cache_key] = _sample_plain_rows(schema, rows, KeyedEntropy(cache_key.encode(), "as found"))
    return cache[cache_key]


def _sample_plain_rows(schema: Schema, rows: list[Row], entropy: Entropy) -> list[dict[str, Any]]:
    extra_count = (
        sample_below(MAX_EXTRA_ROWS + 1, entropy) if len(rows) == schema.rows and schema.unit is not None else 0
    )
    generator = PairGenerator(schema, {}, entropy)
    all_rows = [*rows, *(generator.sample_row() | {UNIT_FIELD: rows[0][UNIT_FIELD]} for _ in range(extra_count))]
    return [_build_plain_row(schema, row, entropy) for row in all_rows]


def _build_plain_row(schema: Schema, row: Mapping[str, Any], entropy: Entropy) -> dict[str, Any]:
    unit_value: dict[str, Any] = {} if schema.unit is None else {schema.unit: row[UNIT_FIELD]}
    values = ((name, column) for name, column in schema.columns.items() if column.derived is None)
    return unit_value | {name: _sample_plain_value(column, row[name], entropy) for name, column in values}


def _sample_plain_value(column: Column, code: Any, entropy: Entropy) -> Any:
    """What a code may have come from."""
    if code is None:
        return None
    if column.private_keys:
        return code
    if column.categories:
        return column.categories[code]
    end = -1 if code == column.lower else 1 if code == column.upper else 0
    overshoot = end * OVERSHOOT_STEPS[sample_below(len(OVERSHOOT_STEPS), entropy)] if sample_below(2, entropy) else 0
    if column.kind == "date":
        return column.decode(code) if not overshoot else date.min if end < 0 else date.max
    return _divide_to_float((code + overshoot) * column.step.numerator, column.step.denominator)


def _divide_to_float(numerator: int, denominator: int) -> float:
    """The float nearest to a quotient; infinite where there is none."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf
