"""The records a released file was made of, row for row beside it: for the custodian alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.place import Place, Snapshot, layout
from discreet.custodian.registering import Progress, first_use, open_source
from discreet.custodian.releases import Kept, Labels, alignment_of, kept_releases, labels_for
from discreet.custodian.rows import one_order, originals, table_of
from discreet.custodian.writing import digest
from discreet.errors import InvalidInput
from discreet.microdata.table import Table
from discreet.schema import Schema, load_schema


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """Row i of the file was made of row i of `original`; `groups` say who hides among whom."""

    schema: Schema
    original: Table
    groups: Labels
    kept: Kept
    rows: NDArray[np.int64]
    """Where each stands among all rows of the snapshot sorted by their codes."""


def beside(schema_file: str | Path, released: Path, progress: Progress) -> Beside:
    """The original rows of a release, in its order; refused where the data set knows of no such file."""
    schema = load_schema(schema_file)
    place = Place(schema)
    sha256 = digest(released)
    found = [kept for kept in kept_releases(place) if kept.sha256 == sha256]
    if not found:
        raise InvalidInput(f"{released.name[:60]!r} is no release of {schema.name} as it was written; check both")
    kept = found[-1]
    alignment = alignment_of(place, kept)
    progress("reading the records")
    snapshot = _snapshot(place, kept)
    if snapshot.layout != layout(schema):
        raise InvalidInput(f"{kept.name} was made under an earlier schema of {schema.name}; check it with that schema")
    source = open_source(schema, snapshot)
    try:
        codes = originals(source.records())
    finally:
        source.close()
    order = one_order(codes)
    return Beside(schema, table_of(schema, codes).take(order[alignment.rows]), alignment.groups, kept, alignment.rows)


def snapshot_records(schema_file: str | Path) -> Table:
    """All records of the current snapshot, in no order that says anything."""
    schema = load_schema(schema_file)
    source = open_source(schema, first_use(schema))
    try:
        return table_of(schema, originals(source.records()))
    finally:
        source.close()


def _snapshot(place: Place, kept: Kept) -> Snapshot:
    manifest = place.read()
    for snapshot in () if manifest is None else manifest.snapshots:
        if snapshot.name == kept.snapshot:
            return snapshot
    raise InvalidInput(f"the snapshot {kept.snapshot!r} that {kept.name} was made of is not there any more")


def earlier_releases(known: Beside) -> list[tuple[str, Labels]]:
    """The groups of all releases of the same snapshot before this one, for its rows."""
    place = Place(known.schema)
    before = [one for one in kept_releases(place) if one.number < known.kept.number]
    same = [one for one in before if one.snapshot == known.kept.snapshot]
    return [(one.name, labels_for(alignment_of(place, one), known.rows)) for one in same]
