"""Whether two tables are neighbours, and plain values as a snapshot keeps them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from discreet.errors import InvalidInput
from discreet.schema import Column, Schema
from discreet.sources.registration.memory import register_memory
from discreet.testing.generated import UNIT, Row

Rows = Sequence[Mapping[str, Any]]
KEY = "discreet testing"
READ = "make rows of plain values with snapshot(...)"


def snapshot(schema: Schema, rows: Rows, key: str = KEY) -> list[Row]:
    """Plain values by column, as a file holds them, the way registration reads them: clipped, coded, bounded.

    Which rows are kept of a unit that has too many depends on the key and on that unit's rows alone.
    """
    return register_memory(schema, rows, key)[0]


def require_snapshot(schema: Schema, *tables: Rows) -> None:
    """Refuse rows that no snapshot has: plain values that were not read, or more of a unit than are kept."""
    needed = {*schema.columns, *([] if schema.unit is None else [UNIT])}
    for rows in tables:
        for row in rows:
            if not needed <= set(row):
                raise InvalidInput(f"a row needs {', '.join(sorted(needed - set(row)))[:80]}; {READ}")
            if not all(_fits(column, row[name]) for name, column in schema.columns.items()):
                raise InvalidInput(f"a row of a snapshot has codes, each within the bounds of its column; {READ}")
        if any(own.total() > schema.rows for own in _units(schema, rows).values()):
            raise InvalidInput(f"a unit has at most {schema.rows} rows here; {READ}")


def differing(schema: Schema, rows: Rows, other_rows: Rows) -> list[Row]:
    """The rows of the unit, or of the two where one took another's place, in which two tables differ."""
    one, two = (_units(schema, table) for table in _unlike(schema, rows, other_rows))
    differ = [name for name in {**one, **two} if one.get(name) != two.get(name)]
    only = [sum(name in mine and name not in other for name in differ) for mine, other in ((one, two), (two, one))]
    if schema.neighbours == "add-remove":
        near = not differ or (len(differ) == 1 and sum(only) == 1)
    else:
        near = not differ or (only == [0, 0] and len(differ) == 1) or (only == [1, 1] and len(differ) == 2)
    if not near:
        raise InvalidInput(f"the two tables are no neighbours: {schema.neighbours} means that one unit differs")
    return [dict(row) for table in (one, two) for name in differ for row in table.get(name, ())]


def _unlike(schema: Schema, rows: Rows, other_rows: Rows) -> tuple[Rows, Rows]:
    """What is left of two tables without the rows that both begin or end with, but for those of units in between."""
    alike = min(len(rows), len(other_rows))
    start = next((at for at in range(alike) if rows[at] != other_rows[at]), alike)
    end = next((at for at in range(alike - start) if rows[-1 - at] != other_rows[-1 - at]), alike - start)
    between = [table[start : len(table) - end] for table in (rows, other_rows)]
    if schema.unit is None:
        return between[0], between[1]
    names = {row[UNIT] for table in between for row in table}
    return [row for row in rows if row[UNIT] in names], [row for row in other_rows if row[UNIT] in names]


def _units(schema: Schema, rows: Rows) -> dict[object, Counter[tuple[tuple[str, Any], ...]]]:
    """The rows of every unit; without a unit column every row is one, and of rows alike each is another."""
    found: dict[object, Counter[tuple[tuple[str, Any], ...]]] = defaultdict(Counter)
    copies: Counter[object] = Counter()
    for row in rows:
        own = tuple(sorted(row.items()))
        copies[own] += 1
        found[(own, copies[own]) if schema.unit is None else row[UNIT]][own] += 1
    return found


def _fits(column: Column, code: object) -> bool:
    if code is None:
        return column.nullable
    if column.private_keys:
        return isinstance(code, str)
    return isinstance(code, int) and column.lower <= code <= column.upper
