"""A rehearsal: the same calls on a table that is made up from the schema alone, with a ledger to throw away.

Nothing of the data set is opened but its schema: no source, no snapshot, no ledger. Planning sees the same public
facts, so that what is refused, what it would cost and how far off it would be are those of the data set itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.binding import open_bound_ledger
from discreet.custodian.identity import IntegrityCheckedSource
from discreet.custodian.made_up import count_fake_units, write_fake_table
from discreet.custodian.place import DatasetDir, Snapshot, describe_promise, hash_layout
from discreet.custodian.registering import ensure_snapshot, open_source
from discreet.errors import DiscreetError, Unavailable
from discreet.ledger import Ledger
from discreet.query.released import ReleaseBatch, ReleasePlan
from discreet.query.totals import Amounts, Cell, HistogramScan, TotalsScan
from discreet.schema import Budget, Schema
from discreet.sources.plan import Source

REHEARSAL_NOTE = "a rehearsal: the table is made up, and nothing was charged"
TABLE_FORMAT = 1
"""Of the made-up table: another one goes to another folder."""
TABLE_FILE = "made-up.parquet"
MAX_LEDGER_BYTES = 64 * 2**20
"""Bytes of a ledger to throw away, beyond which another is begun: nobody pays for what is stored in it."""
UNLIMITED_BUDGET = Budget(Fraction(10**9), Fraction(1, 2))


@dataclass(frozen=True, slots=True)
class RehearsalDataset:
    """What a custodian needs for a rehearsal."""

    schema: Schema
    snapshot: Snapshot
    source: Source
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class ScaledSource:
    """A source of few made-up rows, which counts each of them as many times as makes the number that is declared."""

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
    """Histograms in which each row counts so many times; each is made when it is looked up."""

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
    """Make up the table, or find it made; without a folder it is in one that goes when the source is closed."""
    temporary = TemporaryDirectory(prefix="discreet-rehearsal-") if folder is None else None
    try:
        return _open_rehearsal_in(schema, Path(temporary.name if temporary is not None else str(folder)), temporary)
    except DiscreetError:
        if temporary is not None:
            temporary.cleanup()
        raise


def _open_rehearsal_in(schema: Schema, folder: Path, temporary: TemporaryDirectory[str] | None) -> RehearsalDataset:
    rehearsal_schema = replace(
        schema,
        source=TABLE_FILE,
        folder=_prepare_folder(schema, folder),
        budget=UNLIMITED_BUDGET,
        analyst_budget=UNLIMITED_BUDGET,
    )
    if DatasetDir(rehearsal_schema).read_manifest() is None:
        write_fake_table(rehearsal_schema, rehearsal_schema.folder / TABLE_FILE)
    snapshot = ensure_snapshot(rehearsal_schema)
    source = cast(IntegrityCheckedSource, open_source(rehearsal_schema, snapshot))
    try:
        ledger = open_bound_ledger(rehearsal_schema)
    except DiscreetError:
        source.close()
        raise
    scaled_source = ScaledSource(
        source.source, Fraction(schema.units or count_fake_units(schema), count_fake_units(schema)), temporary
    )
    # What was seen of a made-up table says nothing of the schema's truth.
    return RehearsalDataset(
        rehearsal_schema, replace(snapshot, report={}), replace(source, source=scaled_source), ledger
    )


def _prepare_folder(schema: Schema, folder: Path) -> Path:
    """Where the table of this very schema is, with a ledger that is not full: one that was changed gets another."""
    facts = (
        f"{TABLE_FORMAT} {schema.name} {hash_layout(schema)} {describe_promise(schema)} "
        f"{schema.units} {schema.impossible}"
    )
    schema_folder = folder.absolute() / hashlib.sha256(facts.encode()).hexdigest()[:16]
    try:
        schema_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = max((int(path.name) for path in schema_folder.iterdir() if path.name.isdecimal()), default=1)
        if has_outgrown_ledger(replace(schema, folder=schema_folder / str(number))):
            number += 1
            # Who looks at the one before goes on with it; nobody is so late as to need the one before that.
            rmtree(schema_folder / str(number - 2), ignore_errors=True)
        table_folder = schema_folder / str(number)
        table_folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        message = f"the folder {folder.name} for a rehearsal cannot be made; check its owner and the disk"
        raise Unavailable(message) from None
    return table_folder


def has_outgrown_ledger(schema: Schema) -> bool:
    """Whether the ledger of a rehearsal, by the schema it is open with, is so large that the next one is due."""
    try:
        return (DatasetDir(schema).folder / "ledger.db").stat().st_size > MAX_LEDGER_BYTES
    except OSError:
        return False
