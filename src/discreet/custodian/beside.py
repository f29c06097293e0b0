"""The records a released file was made of, row for row beside it: for the custodian alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.place import DatasetDir, Snapshot, hash_layout
from discreet.custodian.registering import Progress, ensure_snapshot, open_source
from discreet.custodian.releases import Labels, ReleaseRecord, map_labels_to_rows, read_alignment, read_release_records
from discreet.custodian.rows import build_code_table, concatenate_originals, sort_rows_by_codes
from discreet.custodian.writing import hash_file
from discreet.errors import InvalidInput
from discreet.microdata.table import Table
from discreet.schema import Schema, load_schema


@dataclass(frozen=True, slots=True, eq=False)
class AlignedOriginal:
    """Row i of the file was made of row i of `original`; `groups` say who hides among whom."""

    schema: Schema
    original: Table
    groups: Labels
    record: ReleaseRecord
    rows: NDArray[np.int64]
    """Where each stands among all rows of the snapshot sorted by their codes."""


def align_original(schema_file: str | Path, released: Path, progress: Progress) -> AlignedOriginal:
    """The original rows of a release, in its order; refused where the data set knows of no such file."""
    schema = load_schema(schema_file)
    dataset_dir = DatasetDir(schema)
    sha256 = hash_file(released)
    records = [record for record in read_release_records(dataset_dir) if record.sha256 == sha256]
    if not records:
        raise InvalidInput(f"{released.name[:60]!r} is no release of {schema.name} as it was written; check both")
    record = records[-1]
    alignment = read_alignment(dataset_dir, record)
    progress("reading the records")
    snapshot = _find_snapshot(dataset_dir, record)
    if snapshot.layout != hash_layout(schema):
        raise InvalidInput(
            f"{record.name} was made under an earlier schema of {schema.name}; check it with that schema"
        )
    source = open_source(schema, snapshot)
    try:
        codes = concatenate_originals(source.records())
    finally:
        source.close()
    order = sort_rows_by_codes(codes)
    return AlignedOriginal(
        schema, build_code_table(schema, codes).take(order[alignment.rows]), alignment.groups, record, alignment.rows
    )


def read_snapshot_records(schema_file: str | Path) -> Table:
    """All records of the current snapshot, in no order that says anything."""
    schema = load_schema(schema_file)
    source = open_source(schema, ensure_snapshot(schema))
    try:
        return build_code_table(schema, concatenate_originals(source.records()))
    finally:
        source.close()


def _find_snapshot(dataset_dir: DatasetDir, record: ReleaseRecord) -> Snapshot:
    manifest = dataset_dir.read_manifest()
    for snapshot in () if manifest is None else manifest.snapshots:
        if snapshot.name == record.snapshot:
            return snapshot
    raise InvalidInput(f"the snapshot {record.snapshot!r} that {record.name} was made of is not there any more")


def find_earlier_releases(aligned_original: AlignedOriginal) -> list[tuple[str, Labels]]:
    """The groups of all releases of the same snapshot before this one, for its rows."""
    dataset_dir = DatasetDir(aligned_original.schema)
    earlier_records = [
        record for record in read_release_records(dataset_dir) if record.number < aligned_original.record.number
    ]
    same_snapshot = [record for record in earlier_records if record.snapshot == aligned_original.record.snapshot]
    return [
        (record.name, map_labels_to_rows(read_alignment(dataset_dir, record), aligned_original.rows))
        for record in same_snapshot
    ]
