"""A table made up from a schema alone: even over what is public of each column, and the same on every machine.

There is no generator: the bytes of every column are a hash of its name. Units are named 1, 2, 3, ... No row satisfies
what is declared impossible, as far as some tries find one that does not.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unavailable
from discreet.planner.impossible import impossible
from discreet.query.released import MISSING
from discreet.schema import Column, Schema

MOST_UNITS, UNCOUNTED = 10_000, 1000
"""How many units there are at most, and where their number is not public."""
MOST_ROWS = 3
"""Of one unit, where it may have several."""
ONE_IN = 50
"""One value of so many is missing."""
KEYS = 5
"""How many values a column has whose keys are private."""
TRIES = 20

Codes = NDArray[np.int64]
Columns = Mapping[str, list[str | None]]


def units_of(schema: Schema) -> int:
    """How many units are made up."""
    return min(schema.units or UNCOUNTED, MOST_UNITS)


def made_up(schema: Schema) -> Columns:
    """The columns of a source of this schema, as texts."""
    owners = _owners(schema)
    codes = _codes(schema, len(owners))
    told: dict[str, list[str | None]] = {} if schema.unit is None else {schema.unit: [str(one) for one in owners]}
    for name, column in schema.columns.items():
        if column.derived is None:
            own = codes[name].tolist()
            texts = {code: None if code == MISSING else _text(column, code) for code in set(own)}
            told[name] = [texts[code] for code in own]
    return told


def _owners(schema: Schema) -> list[int]:
    """The unit of every row."""
    units = units_of(schema)
    most = min(schema.rows, MOST_ROWS)
    own = 1 + _numbers("how many rows a unit has", units, most)
    return [int(unit) for unit in np.repeat(np.arange(1, units + 1), own)]


def _codes(schema: Schema, rows: int) -> dict[str, Codes]:
    """Every column; rows that cannot be are made up again."""
    never = impossible(schema)
    codes = _attempt(schema, rows, 0)
    for tried in range(1, TRIES):
        wrong = never.rows(codes | _derived(schema, codes))
        if not wrong.any():
            break
        again = _attempt(schema, rows, tried)
        codes = {name: np.where(wrong, again[name], own) for name, own in codes.items()}
    return codes


def _attempt(schema: Schema, rows: int, tried: int) -> dict[str, Codes]:
    return {name: _column(column, rows, tried) for name, column in schema.columns.items() if column.derived is None}


def _column(column: Column, rows: int, tried: int) -> Codes:
    size = KEYS if column.private_keys else column.size
    codes = column.lower + _numbers(f"{tried} value {column.name}", rows, size)
    absent = _numbers(f"{tried} missing {column.name}", rows, ONE_IN) == 0
    return np.where(absent, MISSING if column.missing is None else column.missing, codes)


def _derived(schema: Schema, codes: Mapping[str, Codes]) -> dict[str, Codes]:
    """The columns of public lookup tables, which follow from others."""
    found = {}
    for name, column in schema.columns.items():
        if column.derived is not None:
            key = schema.columns[column.derived.key]
            none = MISSING if column.missing is None else column.missing
            known = np.array([none if code is None else code for code in column.derived.codes] + [none])
            own = codes[key.name]
            found[name] = known[np.where(own == MISSING, len(known) - 1, own - key.lower)]
    return found


def _numbers(purpose: str, count: int, below: int) -> Codes:
    """As many whole numbers from 0, even but for what 2^63 is no multiple of."""
    taken = hashlib.shake_256(f"discreet rehearsal: {purpose}".encode()).digest(8 * count)
    return (np.frombuffer(taken, dtype="<u8") >> np.uint64(1)).astype(np.int64) % below


def _text(column: Column, code: int) -> str:
    """A value as a source may hold it."""
    if column.private_keys:
        return f"{column.name} {code + 1}"
    if column.categories:
        return column.categories[code]
    return str(column.value(code)) if column.kind in {"integer", "date"} else repr(float(code * column.step))


def write_made_up(schema: Schema, path: Path) -> None:
    """Write the table to a Parquet file, whole or not at all."""
    import duckdb
    from sqlglot import exp

    columns = made_up(schema)
    named = (f"unnest(?::VARCHAR[]) AS {exp.to_identifier(name, quoted=True).sql('duckdb')}" for name in columns)
    try:
        with tempfile.TemporaryDirectory(prefix=".discreet-", dir=path.parent) as folder, duckdb.connect() as engine:
            made = Path(folder) / path.name
            engine.execute(f"CREATE TABLE made AS SELECT {', '.join(named)}", list(columns.values()))
            engine.execute(f"COPY made TO {exp.convert(str(made)).sql('duckdb')} (FORMAT parquet)")
            os.replace(made, path)
    except (duckdb.Error, OSError):
        raise Unavailable("the made-up table was not written; check that the disk has room, and try again") from None
