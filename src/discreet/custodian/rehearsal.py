"""Rehearse on a table that is made up from the schema alone.

No random generator is used: the values of a column are a hash of its name. Units are named 1, 2, 3, ... Rows that are
declared impossible are replaced, in a limited number of tries.

Only the schema of the data set is opened: no source, snapshot or ledger. Planning sees the same public facts, so
refusals, costs and expected errors are those of the data set itself.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.datasets.dataset_dir import DatasetDir, Snapshot, describe_promise, hash_layout, open_bound_ledger
from discreet.datasets.integrity import IntegrityCheckedSource, ensure_snapshot, open_source
from discreet.errors import DiscreetError, Unavailable
from discreet.ledger import Ledger
from discreet.planner.public_facts import read_structural_zeros
from discreet.query.scan import MISSING_CODE, Amounts, Cell, HistogramScan, ReleaseBatch, ReleasePlan, TotalsScan
from discreet.schema import Budget, Column, Schema
from discreet.sources.protocol import Source

MAX_UNITS, DEFAULT_UNITS = 10_000, 1000
"""How many units there are at most, and by default where their number is not public."""
MAX_ROWS_PER_UNIT = 3
MISSING_ONE_IN = 50
PRIVATE_KEY_COUNT = 5
"""How many values a column with private keys has."""
MAX_TRIES = 20
REHEARSAL_NOTE = "a rehearsal: the table is made up, and nothing was charged"
TABLE_FORMAT = 1
"""Part of the name of the made-up table's folder."""
TABLE_FILE = "made-up.parquet"
MAX_LEDGER_BYTES = 64 * 2**20
"""The size of a ledger beyond which a new one is begun."""
UNLIMITED_BUDGET = Budget(Fraction(10**9), Fraction(1, 2))

Codes = NDArray[np.int64]
Columns = Mapping[str, list[str | None]]


def _count_fake_units(schema: Schema) -> int:
    return min(schema.units or DEFAULT_UNITS, MAX_UNITS)


def generate_fake_columns(schema: Schema) -> Columns:
    """Make up the columns of a source of this schema, as texts."""
    units = _count_fake_units(schema)
    row_counts = 1 + _hash_to_numbers("how many rows a unit has", units, min(schema.rows, MAX_ROWS_PER_UNIT))
    row_units = np.repeat(np.arange(1, units + 1), row_counts).tolist()
    codes = _generate_codes(schema, len(row_units))
    columns: dict[str, list[str | None]] = {} if schema.unit is None else {schema.unit: list(map(str, row_units))}
    for name, column in schema.columns.items():
        if column.derived is None:
            column_codes = codes[name].tolist()
            texts = {code: None if code == MISSING_CODE else _format_code(column, code) for code in set(column_codes)}
            columns[name] = [texts[code] for code in column_codes]
    return columns


def _generate_codes(schema: Schema, rows: int) -> dict[str, Codes]:
    """The codes of every column; rows that are declared impossible are made up again."""
    structural_zeros = read_structural_zeros(schema)
    codes = _generate_attempt(schema, rows, 0)
    for attempt in range(1, MAX_TRIES):
        impossible_rows = structural_zeros.find_impossible_rows(codes | _derive_columns(schema, codes))
        if not impossible_rows.any():
            break
        for name, replacements in _generate_attempt(schema, rows, attempt).items():
            codes[name] = np.where(impossible_rows, replacements, codes[name])
    return codes


def _generate_attempt(schema: Schema, rows: int, attempt: int) -> dict[str, Codes]:
    codes = {}
    for name, column in schema.columns.items():
        if column.derived is None:
            size = PRIVATE_KEY_COUNT if column.private_keys else column.size
            present_codes = column.lower + _hash_to_numbers(f"{attempt} value {name}", rows, size)
            absent = _hash_to_numbers(f"{attempt} missing {name}", rows, MISSING_ONE_IN) == 0
            codes[name] = np.where(absent, _get_missing_code(column), present_codes)
    return codes


def _get_missing_code(column: Column) -> int:
    return MISSING_CODE if column.missing is None else column.missing


def _derive_columns(schema: Schema, codes: Mapping[str, Codes]) -> dict[str, Codes]:
    """The columns of public lookup tables, which follow from others."""
    derived_codes = {}
    for name, column in schema.columns.items():
        if column.derived is not None:
            key, missing_code = schema.columns[column.derived.key], _get_missing_code(column)
            lookup = np.array([missing_code if code is None else code for code in (*column.derived.codes, None)])
            positions = np.where(codes[key.name] == MISSING_CODE, len(lookup) - 1, codes[key.name] - key.lower)
            derived_codes[name] = lookup[positions]
    return derived_codes


def _hash_to_numbers(purpose: str, count: int, below: int) -> Codes:
    """Whole numbers from 0, uniform but for the remainder of 2^63."""
    digest = hashlib.shake_256(f"discreet rehearsal: {purpose}".encode()).digest(8 * count)
    return (np.frombuffer(digest, dtype="<u8") >> np.uint64(1)).astype(np.int64) % below


def _format_code(column: Column, code: int) -> str:
    if column.private_keys:
        return f"{column.name} {code + 1}"
    if column.categories:
        return column.categories[code]
    return str(column.decode(code)) if column.kind in {"integer", "date"} else repr(float(code * column.step))


def write_fake_table(schema: Schema, path: Path) -> None:
    """Write the made-up table to a Parquet file, whole or not at all."""
    import duckdb
    from sqlglot import exp

    columns = generate_fake_columns(schema)
    names = (exp.to_identifier(name, quoted=True).sql("duckdb") for name in columns)
    selected_columns = ", ".join(f"unnest(?::VARCHAR[]) AS {name}" for name in names)
    try:
        with tempfile.TemporaryDirectory(prefix=".discreet-", dir=path.parent) as folder, duckdb.connect() as engine:
            temporary_file = Path(folder) / path.name
            engine.execute(f"CREATE TABLE made AS SELECT {selected_columns}", list(columns.values()))
            engine.execute(f"COPY made TO {exp.convert(str(temporary_file)).sql('duckdb')} (FORMAT parquet)")
            os.replace(temporary_file, path)
    except (duckdb.Error, OSError):
        raise Unavailable("the made-up table was not written; check that the disk has room, and try again") from None


@dataclass(frozen=True, slots=True)
class RehearsalDataset:
    """The parts of a custodian that rehearses."""

    schema: Schema
    snapshot: Snapshot
    source: Source
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class ScaledSource:
    """A source of few made-up rows, each counted `factor` times to match the declared number of units."""

    source: Source
    factor: Fraction
    folder: TemporaryDirectory[str] | None

    def totals(self, plan: TotalsScan) -> Mapping[Cell, Amounts]:
        cell_totals = self.source.totals(plan)
        return {cell: tuple(round(amount * self.factor) for amount in amounts) for cell, amounts in cell_totals.items()}

    def histogram(self, plan: HistogramScan) -> Mapping[Cell, NDArray[np.int64]]:
        return _ScaledHistograms(self.source.histogram(plan), self.factor)

    def individual(self, column: str, unit: str) -> int | None:
        return self.source.individual(column, unit)

    def count(self) -> int:
        return self.source.count()

    def records(self) -> Iterator[ReleaseBatch]:
        return self.source.records()

    def release_rows(self, plan: ReleasePlan, key: str) -> Iterator[ReleaseBatch]:
        return self.source.release_rows(plan, key)

    def close(self) -> None:
        self.source.close()
        if self.folder is not None:
            self.folder.cleanup()


@dataclass(frozen=True, eq=False, slots=True)
class _ScaledHistograms(Mapping[Cell, NDArray[np.int64]]):
    """Histograms in which each row counts `factor` times, scaled when they are looked up."""

    histograms: Mapping[Cell, NDArray[np.int64]]
    factor: Fraction

    def __getitem__(self, cell: Cell) -> NDArray[np.int64]:
        over, under = self.factor.numerator, self.factor.denominator
        return (self.histograms[cell] * over + under // 2) // under

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.histograms)

    def __len__(self) -> int:
        return len(self.histograms)


def open_rehearsal(schema: Schema, folder: str | Path | None = None) -> RehearsalDataset:
    """Make up the table, or open it; without a folder it is in one that is removed when the source is closed."""
    temporary = TemporaryDirectory(prefix="discreet-rehearsal-") if folder is None else None
    try:
        return _open_rehearsal_in(schema, Path(temporary.name if temporary is not None else str(folder)), temporary)
    except DiscreetError:
        if temporary is not None:
            temporary.cleanup()
        raise


def _open_rehearsal_in(schema: Schema, folder: Path, temporary: TemporaryDirectory[str] | None) -> RehearsalDataset:
    unlimited_schema = replace(schema, budget=UNLIMITED_BUDGET, analyst_budget=UNLIMITED_BUDGET)
    rehearsal_schema = replace(unlimited_schema, source=TABLE_FILE, folder=_prepare_folder(schema, folder))
    if DatasetDir(rehearsal_schema).read_manifest() is None:
        write_fake_table(rehearsal_schema, rehearsal_schema.folder / TABLE_FILE)
    snapshot = ensure_snapshot(rehearsal_schema)
    source = cast(IntegrityCheckedSource, open_source(rehearsal_schema, snapshot))
    try:
        ledger = open_bound_ledger(rehearsal_schema)
    except DiscreetError:
        source.close()
        raise
    units = _count_fake_units(schema)
    scaled_source = ScaledSource(source.source, Fraction(schema.units or units, units), temporary)
    snapshot = replace(snapshot, report={})  # what was seen of a made-up table says nothing of the schema's truth
    return RehearsalDataset(rehearsal_schema, snapshot, replace(source, source=scaled_source), ledger)


def _prepare_folder(schema: Schema, folder: Path) -> Path:
    """The folder of the table of this very schema, with a ledger that is not full; a changed schema gets another."""
    promise = f"{describe_promise(schema)} {schema.units} {schema.impossible}"
    facts = f"{TABLE_FORMAT} {schema.name} {hash_layout(schema)} {promise}"
    schema_folder = folder.absolute() / hashlib.sha256(facts.encode()).hexdigest()[:16]
    try:
        schema_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = max((int(path.name) for path in schema_folder.iterdir() if path.name.isdecimal()), default=1)
        if has_outgrown_ledger(replace(schema, folder=schema_folder / str(number))):
            number += 1
            # The previous ledger may still be open; nobody uses the one before it.
            rmtree(schema_folder / str(number - 2), ignore_errors=True)
        table_folder = schema_folder / str(number)
        table_folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        message = f"the folder {folder.name} for a rehearsal cannot be made; check its owner and the disk"
        raise Unavailable(message) from None
    return table_folder


def has_outgrown_ledger(schema: Schema) -> bool:
    """Whether the ledger of a rehearsal, given the schema it is open with, is so large that the next one is due."""
    try:
        return (DatasetDir(schema).folder / "ledger.db").stat().st_size > MAX_LEDGER_BYTES
    except OSError:
        return False
