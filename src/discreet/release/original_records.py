"""The records a release was made of, row by row beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.datasets.dataset_dir import DatasetDir, Snapshot, hash_layout
from discreet.datasets.registration import Progress, ensure_snapshot, open_source
from discreet.errors import InvalidInput
from discreet.query.scan import MISSING_CODE, ReleaseBatch
from discreet.release.files import hash_file
from discreet.release.manifest import (
    Labels,
    ReleaseRecord,
    map_labels_to_rows,
    read_alignment,
    read_release_records,
)
from discreet.schema import Column, Schema, load_schema
from discreet.sdc.table import ABSENT, Attribute, Kind, Table, ValueType

Codes = Mapping[str, NDArray[Any]]


def build_code_table(schema: Schema, codes: Codes) -> Table:
    """The columns of these codes, each as its attribute."""
    return Table({name: build_attribute(schema.columns[name], values) for name, values in codes.items()})


def build_attribute(column: Column, codes: NDArray[Any]) -> Attribute:
    """One column; the values of one with private keys are those that are there."""
    if column.private_keys:
        return _build_text_attribute(column, codes)
    absent = codes == MISSING_CODE
    if column.categories:
        places = np.where(absent, ABSENT, codes).astype(np.int64)
        kind: Kind = "ordinal" if column.kind == "ordinal" else "nominal"
        look: ValueType = "truth" if column.kind == "boolean" else "text"
        upper = float(len(column.categories) - 1)
        return Attribute(column.name, kind, places, column.categories, column.taxonomy, 0.0, upper, look)
    lower, upper = (float(column.step * end) for end in (column.lower, column.upper))
    values = np.where(absent, np.nan, codes.astype(np.float64))
    numbers = values * column.step.numerator / column.step.denominator
    number_look: ValueType = (
        "date" if column.kind == "date" else "integer" if column.step.denominator == 1 else "number"
    )
    return Attribute(column.name, "numeric", numbers, lower=lower, upper=upper, value_type=number_look)


def _build_text_attribute(column: Column, texts: NDArray[Any]) -> Attribute:
    listed = texts.tolist()
    distinct_texts = tuple(sorted({text for text in listed if text is not None}))
    places = {text: place for place, text in enumerate(distinct_texts)}
    values = np.array([ABSENT if text is None else places[text] for text in listed], dtype=np.int64)
    return Attribute(
        column.name, "nominal", values, distinct_texts, None, 0.0, float(max(len(distinct_texts) - 1, 0)), "text"
    )


def sort_rows_by_codes(codes: Codes) -> NDArray[np.int64]:
    """The rows sorted by all their codes: an order that only rows alike in everything can differ in."""
    keys: list[NDArray[Any]] = []
    for values in codes.values():
        if values.dtype == object:  # texts, or none
            absent = np.array([text is None for text in values], dtype=bool)
            keys += [absent, np.where(absent, "", values).astype(str)]
        else:
            keys.append(values)
    return np.lexsort(keys[::-1])


def rank_rows_by_codes(codes: Codes) -> NDArray[np.int64]:
    """The place of every row in that order."""
    order = sort_rows_by_codes(codes)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def concatenate_originals(batches: Iterable[ReleaseBatch]) -> dict[str, NDArray[Any]]:
    """Every row as it is in the snapshot; none at all where there are no rows."""
    parts = [batch.original for batch in batches]
    return {name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())}


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
