"""Whether two tables are neighbours, and plain values as a snapshot keeps them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from discreet.errors import InvalidInput
from discreet.schema import Column, Schema
from discreet.sources.registration.memory import register_memory
from discreet.testing.generated import UNIT_FIELD, Row

TableRows = Sequence[Mapping[str, Any]]
SNAPSHOT_KEY = "discreet testing"
SNAPSHOT_ADVICE = "make rows of plain values with snapshot(...)"


def snapshot(schema: Schema, rows: TableRows, key: str = SNAPSHOT_KEY) -> list[Row]:
    """Plain values by column, as a file holds them, the way registration reads them: clipped, coded, bounded.

    Which rows are kept of a unit that has too many depends on the key and on that unit's rows alone.
    """
    return register_memory(schema, rows, key)[0]


def require_snapshot(schema: Schema, *tables: TableRows) -> None:
    """Refuse rows that no snapshot has: plain values that were not read, or more of a unit than are kept."""
    needed = {*schema.columns, *([] if schema.unit is None else [UNIT_FIELD])}
    for rows in tables:
        for row in rows:
            if not needed <= set(row):
                raise InvalidInput(f"a row needs {', '.join(sorted(needed - set(row)))[:80]}; {SNAPSHOT_ADVICE}")
            if not all(_is_valid_code(column, row[name]) for name, column in schema.columns.items()):
                raise InvalidInput(
                    f"a row of a snapshot has codes, each within the bounds of its column; {SNAPSHOT_ADVICE}"
                )
        if any(unit_rows.total() > schema.rows for unit_rows in _group_by_unit(schema, rows).values()):
            raise InvalidInput(f"a unit has at most {schema.rows} rows here; {SNAPSHOT_ADVICE}")


def find_differing_rows(schema: Schema, rows: TableRows, other_rows: TableRows) -> list[Row]:
    """The rows of the unit, or of the two where one took another's place, in which two tables differ."""
    units, other_units = (_group_by_unit(schema, table) for table in _trim_common_rows(schema, rows, other_rows))
    differing_names = [name for name in {**units, **other_units} if units.get(name) != other_units.get(name)]
    unshared_counts = [
        sum(name in mine and name not in other for name in differing_names)
        for mine, other in ((units, other_units), (other_units, units))
    ]
    if schema.neighbours == "add-remove":
        is_neighbor = not differing_names or (len(differing_names) == 1 and sum(unshared_counts) == 1)
    else:
        is_neighbor = (
            not differing_names
            or (unshared_counts == [0, 0] and len(differing_names) == 1)
            or (unshared_counts == [1, 1] and len(differing_names) == 2)
        )
    if not is_neighbor:
        raise InvalidInput(f"the two tables are no neighbours: {schema.neighbours} means that one unit differs")
    return [dict(row) for table in (units, other_units) for name in differing_names for row in table.get(name, ())]


def _trim_common_rows(schema: Schema, rows: TableRows, other_rows: TableRows) -> tuple[TableRows, TableRows]:
    """What is left of two tables without the rows that both begin or end with, but for those of units in between."""
    shorter_length = min(len(rows), len(other_rows))
    start = next((index for index in range(shorter_length) if rows[index] != other_rows[index]), shorter_length)
    end = next(
        (index for index in range(shorter_length - start) if rows[-1 - index] != other_rows[-1 - index]),
        shorter_length - start,
    )
    between = [table[start : len(table) - end] for table in (rows, other_rows)]
    if schema.unit is None:
        return between[0], between[1]
    names = {row[UNIT_FIELD] for table in between for row in table}
    return [row for row in rows if row[UNIT_FIELD] in names], [row for row in other_rows if row[UNIT_FIELD] in names]


def _group_by_unit(schema: Schema, rows: TableRows) -> dict[object, Counter[tuple[tuple[str, Any], ...]]]:
    """The rows of every unit; without a unit column every row is one, and of rows alike each is another."""
    units: dict[object, Counter[tuple[tuple[str, Any], ...]]] = defaultdict(Counter)
    copies: Counter[object] = Counter()
    for row in rows:
        row_items = tuple(sorted(row.items()))
        copies[row_items] += 1
        units[(row_items, copies[row_items]) if schema.unit is None else row[UNIT_FIELD]][row_items] += 1
    return units


def _is_valid_code(column: Column, code: object) -> bool:
    if code is None:
        return column.is_nullable
    if column.private_keys:
        return isinstance(code, str)
    return isinstance(code, int) and column.lower <= code <= column.upper
