"""The original records of a release, aligned with its rows."""

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
    read_alignment,
    read_earlier_labels,
    read_release_records,
)
from discreet.schema import Column, Schema, load_schema
from discreet.sdc.table import ABSENT, Attribute, Kind, Table, ValueType

Codes = Mapping[str, NDArray[Any]]


def build_code_table(schema: Schema, codes: Codes) -> Table:
    """Build a table from the codes of its columns."""
    return Table({name: build_attribute(schema.columns[name], values) for name, values in codes.items()})


def build_attribute(column: Column, codes: NDArray[Any]) -> Attribute:
    """Build one column; the categories of one with private keys are the values that it has."""
    if column.private_keys:
        return _build_text_attribute(column, codes)
    absent = codes == MISSING_CODE
    if column.categories:
        places = np.where(absent, ABSENT, codes).astype(np.int64)
        kind: Kind = "ordinal" if column.kind == "ordinal" else "nominal"
        value_type: ValueType = "truth" if column.kind == "boolean" else "text"
        upper = float(len(column.categories) - 1)
        return Attribute(column.name, kind, places, column.categories, column.taxonomy, 0.0, upper, value_type)
    lower, upper = (float(column.step * end) for end in (column.lower, column.upper))
    values = np.where(absent, np.nan, codes.astype(np.float64))
    numbers = values * column.step.numerator / column.step.denominator
    number_type: ValueType = "integer" if column.step.denominator == 1 else "number"
    value_type = "date" if column.kind == "date" else number_type
    return Attribute(column.name, "numeric", numbers, lower=lower, upper=upper, value_type=value_type)


def _build_text_attribute(column: Column, texts: NDArray[Any]) -> Attribute:
    categories = tuple(sorted({text for text in texts.tolist() if text is not None}))
    places: dict[str | None, int] = {text: place for place, text in enumerate(categories)} | {None: ABSENT}
    values = np.array([places[text] for text in texts.tolist()], dtype=np.int64)
    upper = float(max(len(categories) - 1, 0))
    return Attribute(column.name, "nominal", values, categories, None, 0.0, upper, "text")


def sort_rows_by_codes(codes: Codes) -> NDArray[np.int64]:
    """Return the rows sorted by all their codes: an order in which only equal rows can be exchanged."""
    keys: list[NDArray[Any]] = []
    for values in codes.values():
        if values.dtype == object:  # texts, or none
            absent = np.array([text is None for text in values], dtype=bool)
            keys += [absent, np.where(absent, "", values).astype(str)]
        else:
            keys.append(values)
    return np.lexsort(keys[::-1])


def rank_rows_by_codes(codes: Codes) -> NDArray[np.int64]:
    """Return the place of every row in the order of `sort_rows_by_codes`."""
    order = sort_rows_by_codes(codes)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def concatenate_originals(batches: Iterable[ReleaseBatch]) -> dict[str, NDArray[Any]]:
    """Concatenate the original codes of batches; no columns at all where there are no rows."""
    parts = [batch.original for batch in batches]
    return {name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())}


@dataclass(frozen=True, slots=True, eq=False)
class AlignedOriginal:
    """Row i of the released file was made of row i of `original`; `groups` says who hides among whom."""

    schema: Schema
    original: Table
    groups: Labels
    record: ReleaseRecord
    rows: NDArray[np.int64]
    """Where each stands among all rows of the snapshot sorted by their codes."""


def align_original(schema_file: str | Path, released: Path, progress: Progress) -> AlignedOriginal:
    """Read the original rows of a release, in its order; refused if the data set has no record of the file."""
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
    original = build_code_table(schema, codes).take(sort_rows_by_codes(codes)[alignment.rows])
    return AlignedOriginal(schema, original, alignment.groups, record, alignment.rows)


def read_snapshot_records(schema_file: str | Path) -> Table:
    """Read all records of the current snapshot, in no meaningful order."""
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
    """Return the groups of all earlier releases of the same snapshot, for the rows of this one."""
    dataset_dir, release = DatasetDir(aligned_original.schema), aligned_original.record
    earlier_records = [record for record in read_release_records(dataset_dir) if record.number < release.number]
    records = [record for record in earlier_records if record.snapshot == release.snapshot]
    return read_earlier_labels(dataset_dir, records, aligned_original.rows)
