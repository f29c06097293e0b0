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
from discreet.planner.impossible import read_structural_zeros
from discreet.query.released import MISSING_CODE
from discreet.schema import Column, Schema

MAX_UNITS, DEFAULT_UNITS = 10_000, 1000
"""How many units there are at most, and where their number is not public."""
MAX_ROWS_PER_UNIT = 3
"""Of one unit, where it may have several."""
MISSING_ONE_IN = 50
"""One value of so many is missing."""
PRIVATE_KEY_COUNT = 5
"""How many values a column has whose keys are private."""
MAX_TRIES = 20

Codes = NDArray[np.int64]
Columns = Mapping[str, list[str | None]]


def count_fake_units(schema: Schema) -> int:
    """How many units are made up."""
    return min(schema.units or DEFAULT_UNITS, MAX_UNITS)


def generate_fake_columns(schema: Schema) -> Columns:
    """The columns of a source of this schema, as texts."""
    row_units = _assign_units(schema)
    codes = _generate_codes(schema, len(row_units))
    columns: dict[str, list[str | None]] = (
        {} if schema.unit is None else {schema.unit: [str(unit) for unit in row_units]}
    )
    for name, column in schema.columns.items():
        if column.derived is None:
            column_codes = codes[name].tolist()
            texts = {code: None if code == MISSING_CODE else _format_code(column, code) for code in set(column_codes)}
            columns[name] = [texts[code] for code in column_codes]
    return columns


def _assign_units(schema: Schema) -> list[int]:
    """The unit of every row."""
    units = count_fake_units(schema)
    max_rows = min(schema.rows, MAX_ROWS_PER_UNIT)
    row_counts = 1 + _hash_to_numbers("how many rows a unit has", units, max_rows)
    return [int(unit) for unit in np.repeat(np.arange(1, units + 1), row_counts)]


def _generate_codes(schema: Schema, rows: int) -> dict[str, Codes]:
    """Every column; rows that cannot be are made up again."""
    structural_zeros = read_structural_zeros(schema)
    codes = _generate_attempt(schema, rows, 0)
    for attempt in range(1, MAX_TRIES):
        impossible_rows = structural_zeros.find_impossible_rows(codes | _derive_columns(schema, codes))
        if not impossible_rows.any():
            break
        replacements = _generate_attempt(schema, rows, attempt)
        codes = {
            name: np.where(impossible_rows, replacements[name], column_codes) for name, column_codes in codes.items()
        }
    return codes


def _generate_attempt(schema: Schema, rows: int, attempt: int) -> dict[str, Codes]:
    return {
        name: _generate_column(column, rows, attempt)
        for name, column in schema.columns.items()
        if column.derived is None
    }


def _generate_column(column: Column, rows: int, attempt: int) -> Codes:
    size = PRIVATE_KEY_COUNT if column.private_keys else column.size
    codes = column.lower + _hash_to_numbers(f"{attempt} value {column.name}", rows, size)
    absent = _hash_to_numbers(f"{attempt} missing {column.name}", rows, MISSING_ONE_IN) == 0
    return np.where(absent, MISSING_CODE if column.missing is None else column.missing, codes)


def _derive_columns(schema: Schema, codes: Mapping[str, Codes]) -> dict[str, Codes]:
    """The columns of public lookup tables, which follow from others."""
    derived_codes = {}
    for name, column in schema.columns.items():
        if column.derived is not None:
            key = schema.columns[column.derived.key]
            missing_code = MISSING_CODE if column.missing is None else column.missing
            lookup_codes = np.array(
                [missing_code if code is None else code for code in column.derived.codes] + [missing_code]
            )
            key_codes = codes[key.name]
            derived_codes[name] = lookup_codes[
                np.where(key_codes == MISSING_CODE, len(lookup_codes) - 1, key_codes - key.lower)
            ]
    return derived_codes


def _hash_to_numbers(purpose: str, count: int, below: int) -> Codes:
    """As many whole numbers from 0, even but for what 2^63 is no multiple of."""
    digest = hashlib.shake_256(f"discreet rehearsal: {purpose}".encode()).digest(8 * count)
    return (np.frombuffer(digest, dtype="<u8") >> np.uint64(1)).astype(np.int64) % below


def _format_code(column: Column, code: int) -> str:
    """A value as a source may hold it."""
    if column.private_keys:
        return f"{column.name} {code + 1}"
    if column.categories:
        return column.categories[code]
    return str(column.decode(code)) if column.kind in {"integer", "date"} else repr(float(code * column.step))


def write_fake_table(schema: Schema, path: Path) -> None:
    """Write the table to a Parquet file, whole or not at all."""
    import duckdb
    from sqlglot import exp

    columns = generate_fake_columns(schema)
    selected_columns = (
        f"unnest(?::VARCHAR[]) AS {exp.to_identifier(name, quoted=True).sql('duckdb')}" for name in columns
    )
    try:
        with tempfile.TemporaryDirectory(prefix=".discreet-", dir=path.parent) as folder, duckdb.connect() as engine:
            temporary_file = Path(folder) / path.name
            engine.execute(f"CREATE TABLE made AS SELECT {', '.join(selected_columns)}", list(columns.values()))
            engine.execute(f"COPY made TO {exp.convert(str(temporary_file)).sql('duckdb')} (FORMAT parquet)")
            os.replace(temporary_file, path)
    except (duckdb.Error, OSError):
        raise Unavailable("the made-up table was not written; check that the disk has room, and try again") from None
