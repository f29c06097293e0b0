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

from discreet.custodian.binding import bound_ledger
from discreet.custodian.identity import Watched
from discreet.custodian.made_up import units_of, write_made_up
from discreet.custodian.place import Place, Snapshot, layout, promise
from discreet.custodian.registering import first_use, open_source
from discreet.errors import DiscreetError, Unavailable
from discreet.ledger import Ledger
from discreet.query.released import Batch, ReleasePlan
from discreet.query.totals import Amounts, Cell, Histogram, Totals
from discreet.schema import Budget, Schema
from discreet.sources.plan import Source

REHEARSAL = "a rehearsal: the table is made up, and nothing was charged"
FORMAT = 1
"""Of the made-up table: another one goes to another folder."""
TABLE = "made-up.parquet"
MOST_STORED = 64 * 2**20
"""Bytes of a ledger to throw away, beyond which another is begun: nobody pays for what is stored in it."""
ENDLESS = Budget(Fraction(10**9), Fraction(1, 2))


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a custodian needs for a rehearsal."""

    schema: Schema
    snapshot: Snapshot
    source: Source
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A source of few made-up rows, which counts each of them as many times as makes the number that is declared."""

    source: Source
    times: Fraction
    folder: TemporaryDirectory[str] | None

    def totals(self, plan: Totals) -> Mapping[Cell, Amounts]:
        found = self.source.totals(plan)
        return {cell: tuple(round(amount * self.times) for amount in own) for cell, own in found.items()}

    def histogram(self, plan: Histogram) -> Mapping[Cell, NDArray[np.int64]]:
        return _Times(self.source.histogram(plan), self.times)

    def individual(self, column: str, unit: str) -> int | None:
        return self.source.individual(column, unit)

    def count(self) -> int:
        return self.source.count()

    def records(self) -> Iterator[Batch]:
        return self.source.records()

    def released(self, plan: ReleasePlan, key: str) -> Iterator[Batch]:
        return self.source.released(plan, key)

    def close(self) -> None:
        self.source.close()
        if self.folder is not None:
            self.folder.cleanup()


@dataclass(frozen=True, eq=False, slots=True)
class _Times(Mapping[Cell, NDArray[np.int64]]):
    """Histograms in which each row counts so many times; each is made when it is looked up."""

    found: Mapping[Cell, NDArray[np.int64]]
    times: Fraction

    def __getitem__(self, cell: Cell) -> NDArray[np.int64]:
        over, under = self.times.numerator, self.times.denominator
        return (self.found[cell] * over + under // 2) // under

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


def rehearsed(schema: Schema, folder: str | Path | None = None) -> Rehearsed:
    """Make up the table, or find it made; without a folder it is in one that goes when the source is closed."""
    temporary = TemporaryDirectory(prefix="discreet-rehearsal-") if folder is None else None
    try:
        return _opened(schema, Path(temporary.name if temporary is not None else str(folder)), temporary)
    except DiscreetError:
        if temporary is not None:
            temporary.cleanup()
        raise


def _opened(schema: Schema, folder: Path, temporary: TemporaryDirectory[str] | None) -> Rehearsed:
    declared = replace(schema, source=TABLE, folder=_home(schema, folder), budget=ENDLESS, analyst_budget=ENDLESS)
    if Place(declared).read() is None:
        write_made_up(declared, declared.folder / TABLE)
    snapshot = first_use(declared)
    source = cast(Watched, open_source(declared, snapshot))
    try:
        ledger = bound_ledger(declared)
    except DiscreetError:
        source.close()
        raise
    made_up = MadeUp(source.source, Fraction(schema.units or units_of(schema), units_of(schema)), temporary)
    # What was seen of a made-up table says nothing of the schema's truth.
    return Rehearsed(declared, replace(snapshot, report={}), replace(source, source=made_up), ledger)


def _home(schema: Schema, folder: Path) -> Path:
    """Where the table of this very schema is, with a ledger that is not full: one that was changed gets another."""
    facts = f"{FORMAT} {schema.name} {layout(schema)} {promise(schema)} {schema.units} {schema.impossible}"
    own = folder.absolute() / hashlib.sha256(facts.encode()).hexdigest()[:16]
    try:
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = max((int(path.name) for path in own.iterdir() if path.name.isdecimal()), default=1)
        if outgrown(replace(schema, folder=own / str(number))):
            number += 1
            # Who looks at the one before goes on with it; nobody is so late as to need the one before that.
            rmtree(own / str(number - 2), ignore_errors=True)
        home = own / str(number)
        home.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        said = f"the folder {folder.name} for a rehearsal cannot be made; check its owner and the disk"
        raise Unavailable(said) from None
    return home


def outgrown(schema: Schema) -> bool:
    """Whether the ledger of a rehearsal, by the schema it is open with, is so large that the next one is due."""
    try:
        return (Place(schema).folder / "ledger.db").stat().st_size > MOST_STORED
    except OSError:
        return False
