"""Tables as a source may hold them: plain values, some beyond every bound, and units with more rows than are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from discreet.kernel.entropy import Entropy, KeyedEntropy
from discreet.kernel.sampling import below
from discreet.schema import Column, Schema
from discreet.testing.generated import UNIT, Maker, Row

FAR = (1, 10**6, 10**30)
"""How far beyond a bound a number may be, in steps."""
Known = dict[str, list[dict[str, Any]]]
"""Plain values of units, by their rows."""
TOO_MANY = 2
"""How many more rows a unit may have than are kept."""


def as_found(schema: Schema, rows: Iterable[Row], known: Known | None = None) -> list[dict[str, Any]]:
    """Rows of a snapshot as plain values; what becomes of a unit's rows depends on these rows alone.

    So neighbours stay neighbours. Values at a bound may lie beyond it, and a unit with all its rows may have more.
    What became of units is put into `known`, so that it is not worked out again for a neighbour.
    """
    made: Known = {} if known is None else known
    units: dict[object, list[Row]] = {}
    for at, row in enumerate(rows):
        units.setdefault(at if schema.unit is None else row[UNIT], []).append(row)
    return [row for own in units.values() for row in _unit(schema, own, made)]


def _unit(schema: Schema, rows: list[Row], known: Known) -> list[dict[str, Any]]:
    told = repr(rows)
    if told not in known:
        known[told] = _made(schema, rows, KeyedEntropy(told.encode(), "as found"))
    return known[told]


def _made(schema: Schema, rows: list[Row], entropy: Entropy) -> list[dict[str, Any]]:
    more = below(TOO_MANY + 1, entropy) if len(rows) == schema.rows and schema.unit is not None else 0
    maker = Maker(schema, {}, entropy)
    own = [*rows, *(maker.row() | {UNIT: rows[0][UNIT]} for _ in range(more))]
    return [_plain(schema, row, entropy) for row in own]


def _plain(schema: Schema, row: Mapping[str, Any], entropy: Entropy) -> dict[str, Any]:
    named: dict[str, Any] = {} if schema.unit is None else {schema.unit: row[UNIT]}
    values = ((name, column) for name, column in schema.columns.items() if column.derived is None)
    return named | {name: _value(column, row[name], entropy) for name, column in values}


def _value(column: Column, code: Any, entropy: Entropy) -> Any:
    """What a code may have come from."""
    if code is None:
        return None
    if column.private_keys:
        return code
    if column.categories:
        return column.categories[code]
    end = -1 if code == column.lower else 1 if code == column.upper else 0
    beyond = end * FAR[below(len(FAR), entropy)] if below(2, entropy) else 0
    if column.kind == "date":
        return column.value(code) if not beyond else date.min if end < 0 else date.max
    return _number((code + beyond) * column.step.numerator, column.step.denominator)


def _number(above: int, below: int) -> float:
    """The float nearest to a quotient; infinite where there is none."""
    try:
        return above / below
    except OverflowError:
        return math.inf if above > 0 else -math.inf
