"""Releases and their manifests: read back from files, and recorded in the data set's folder.

The record is for the custodian alone: it says which person each released row belongs to.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import ClaimFailed, InvalidInput, Unavailable
from discreet.json_fields import JsonSerializable, JsonWritable
from discreet.priors.taxonomy import Taxonomy
from discreet.privacy.guarantee import DP_MODELS, Guarantee
from discreet.release.files import MANIFEST_NAME, RELEASE_FORMAT, Spool, get_manifest_path, hash_file, quote_column
from discreet.sdc.table import ABSENT, KINDS, Attribute, Integers, Kind, Table, build_coded_attribute, read_table
from discreet.suggestions import build_missing_file_error

if TYPE_CHECKING:
    import duckdb

    from discreet.datasets.dataset_dir import DatasetDir

Labels = Mapping[str, NDArray[np.int64]]
CLAIMED_MODELS = {"dp", "approx-dp", "k-anonymity", "probabilistic-k-anonymity", "t-closeness"}
"""What a manifest may claim."""
READERS = {".csv": "read_csv(?, header = true, parallel = false)", ".parquet": "read_parquet(?)"}
RELEASED_CSV_READER = """read_csv(?, header = true, parallel = false, all_varchar = true, delim = ',', quote = '"',
    escape = '"', allow_quoted_nulls = false)"""
"""Reads a CSV file of ours, all columns as text: the manifest says what they hold."""
CASTS = {"integer": "DOUBLE", "number": "DOUBLE", "date": "DATE", "truth": "BOOLEAN", "text": "VARCHAR"}


@dataclass(frozen=True, slots=True)
class Release(JsonWritable):
    """A released file: its guarantee, its manifest, and the custodian's measurements of it.

    `Custodian.publish` and `Client.publish` return it. `manifest` is published with the files; `measured`, `risk` and
    `utility` are for the custodian alone.

    Args:
        name: The name of the release.
        method: The name of the method.
        guarantee: The guarantee of the files.
        rows: The number of rows.
        files: The released files.
        manifest: What is published about them.
        manifest_file: The file with the manifest.
        entry: The number of its entry in the ledger.
        measured: The result of an independent check of the claim.
        report: The custodian's report, if it was requested.
        risk: The risk in a sentence.
        utility: The utility in a sentence.
        warnings: Sentences to read before publishing.

    Example:
        >>> from pathlib import Path
        >>> from discreet import Custodian
        >>> from discreet.sample import write_registry
        >>> from discreet.sdc import Mdav
        >>> with Custodian.open(write_registry(Path("."), patients=200)) as custodian:
        ...     release = custodian.publish(Mdav(k=5), "protected.csv")
        >>> release.guarantee.model, release.guarantee.k, release.rows
        ('k-anonymity', 5, 200)
    """

    name: str
    method: str
    guarantee: Guarantee
    rows: int
    files: tuple[Path, ...]
    manifest: Mapping[str, object]
    manifest_file: Path
    entry: int
    """The number of its entry in the ledger."""
    measured: Mapping[str, object]
    """The result of an independent check of the claim."""
    report: Path | None = None
    risk: str | None = None
    utility: str | None = None
    warnings: tuple[str, ...] = ()

    _json_fields = """name method rows entry files manifest_file guarantee measured report risk utility warnings
        manifest"""


@dataclass(frozen=True, slots=True)
class ReleaseRecord(JsonSerializable):
    """One release: its number, the snapshot it was made of, and the hashes of its table and of its manifest."""

    number: int
    name: str
    snapshot: str
    method: str
    k: int
    sha256: str
    manifest: str

    _json_fields = "number name snapshot method k sha256 manifest"
    _refuses_unknown_names = True


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Row i of the released table is row `rows[i]` of the snapshot sorted by all its codes; `groups` are by i."""

    rows: NDArray[np.int64]
    groups: Labels


def read_release_records(dataset_dir: DatasetDir) -> list[ReleaseRecord]:
    """Read the records of all releases so far, the first one first."""
    files = sorted((dataset_dir.folder / "releases").glob("*.json"))
    try:
        records = [ReleaseRecord.from_json(json.loads(file.read_text(encoding="utf-8"))) for file in files]
        return sorted(records, key=lambda record: record.number)
    except (OSError, LookupError, ValueError, TypeError):
        raise Unavailable(
            f"the record of a release in {dataset_dir.folder} cannot be read; restore it from a backup"
        ) from None


def find_next_release_number(dataset_dir: DatasetDir) -> int:
    """Return a number that no release has, nor the trace of one."""
    stems = (file.stem for file in (dataset_dir.folder / "releases").glob("*.*"))
    return 1 + max((int(stem) for stem in stems if stem.isdecimal()), default=0)


def reserve_release_number(dataset_dir: DatasetDir, number: int) -> None:
    """Leave the trace of a private file, no row of which is anybody's, so that its number is not used again."""
    folder = dataset_dir.folder / "releases"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(folder / f"{number}.private", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        raise Unavailable(f"the folder {dataset_dir.folder} cannot be written; check its owner and the disk") from None


def store_release(dataset_dir: DatasetDir, record: ReleaseRecord, alignment: Alignment) -> None:
    """Store a release durably; the record last, so that what it describes is there."""
    folder = dataset_dir.folder / "releases"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        labels = {f"group {name}": values for name, values in alignment.groups.items()}
        with _create_durably(folder / f"{record.number}.npz") as file:
            np.savez_compressed(file, allow_pickle=False, rows=alignment.rows, **labels)
        with _create_durably(folder / f"{record.number}.json") as file:
            file.write(json.dumps(record.to_json()).encode())
    except OSError:
        raise Unavailable(f"the folder {dataset_dir.folder} cannot be written; check its owner and the disk") from None


@contextmanager
def _create_durably(path: Path) -> Iterator[BinaryIO]:
    """A new file for its owner alone, on disk when the block ends."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def read_alignment(dataset_dir: DatasetDir, record: ReleaseRecord) -> Alignment:
    """Read which row of a release was made of which row of the snapshot."""
    try:
        with np.load(dataset_dir.folder / "releases" / f"{record.number}.npz") as archive:
            groups = {name.removeprefix("group "): archive[name] for name in archive.files if name != "rows"}
            return Alignment(archive["rows"], groups)
    except (OSError, ValueError, KeyError):
        raise Unavailable(f"the record of release {record.number} cannot be read; restore it from a backup") from None


def map_labels_to_rows(alignment: Alignment, rows: NDArray[np.int64]) -> Labels:
    """Return the groups of an earlier release for other rows of its snapshot; rows that it left out stand alone."""
    row_count = int(max(alignment.rows.max(initial=0), rows.max(initial=0))) + 1
    row_labels = {}
    for name, labels in alignment.groups.items():
        all_labels = labels.max(initial=0) + 1 + np.arange(row_count)
        all_labels[alignment.rows] = labels
        row_labels[name] = all_labels[rows]
    return row_labels


def read_earlier_labels(
    dataset_dir: DatasetDir, records: Sequence[ReleaseRecord], rows: NDArray[np.int64]
) -> list[tuple[str, Labels]]:
    """Return the name and the groups of each earlier release of a snapshot, for these rows of it."""
    return [(record.name, map_labels_to_rows(read_alignment(dataset_dir, record), rows)) for record in records]


@dataclass(frozen=True, slots=True)
class ManifestColumn:
    """The description of a column in a manifest."""

    name: str
    kind: Kind
    holds: str
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleaseManifest:
    """The manifest of a released table."""

    release: str
    guarantee: Guarantee
    k: int
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]
    unchanged: tuple[str, ...]
    columns: tuple[ManifestColumn, ...]
    second_columns: tuple[ManifestColumn, ...]
    files: tuple[tuple[str, str], ...]
    """Names and hashes: the table, and Anatomy's other one."""

    def get_file_columns(self, file: Path) -> tuple[ManifestColumn, ...]:
        """Return the columns of one of the files: where each column has its own file, that column."""
        apart = len(self.files) > 1 and not self.second_columns
        return tuple(column for column in self.columns if column.name == file.stem) if apart else self.columns

    @property
    def second_file(self) -> str | None:
        """The name of the other table of Anatomy."""
        return self.files[1][0] if self.second_columns else None


def check_table_file(path: str | Path) -> Path:
    """Return the path of a table's file, refused if there is none."""
    file = Path(path).absolute()
    if file.suffix.lower() not in READERS:
        raise InvalidInput(f"a table's file is named .csv or .parquet, got {file.name[:40]!r}")
    if not file.is_file():
        raise build_missing_file_error(f"there is no file {file.name[:60]!r} there", file, "check its name")
    return file


def read_released_table(
    file: Path,
    columns: Sequence[ManifestColumn],
    taxonomies: Mapping[str, Taxonomy] | None = None,
    spool: Spool | None = None,
) -> Table:
    """Read a table of ours with the columns of its manifest, one after another if there is a spool."""
    import duckdb

    column_taxonomies = taxonomies or {}
    try:
        parent_folder = None if spool is None else spool.folder
        with duckdb.connect() as engine, TemporaryDirectory(prefix=".discreet-", dir=parent_folder) as folder:
            source, types = _convert_to_parquet(engine, file, columns, Path(folder) / "released.parquet")
            attributes: dict[str, Attribute] = {}
            for column, as_type in zip(columns, types, strict=True):
                attribute = _read_column(engine, source, column, as_type, column_taxonomies.get(column.name))
                attributes[column.name] = spool.store_attribute(attribute) if spool else attribute
            return Table(attributes)
    except duckdb.Error:
        raise InvalidInput(f"{file.name[:60]!r} cannot be read as a table; check the file") from None
    except OSError:
        raise Unavailable("there is no room for temporary files; check the disk") from None


def _convert_to_parquet(
    engine: duckdb.DuckDBPyConnection, file: Path, columns: Sequence[ManifestColumn], target: Path
) -> tuple[str, list[str]]:
    """A Parquet file with the columns, which can be read one by one, and the type of each."""
    is_csv = file.suffix.lower() == ".csv"
    source, path = RELEASED_CSV_READER if is_csv else READERS[".parquet"], glob.escape(str(file))
    described_columns = engine.execute(f"DESCRIBE SELECT * FROM {source}", [path]).fetchall()
    if [str(row[0]) for row in described_columns] != [column.name for column in columns]:
        raise ClaimFailed(f"{file.name[:60]!r} has other columns than its manifest tells of")
    types = [str(row[1]) for row in described_columns]
    if not is_csv:
        return path, types
    quoted_target = str(target).replace("'", "''")
    engine.execute(f"COPY (SELECT * FROM {source}) TO '{quoted_target}' (FORMAT parquet)", [path])
    return glob.escape(str(target)), types


def _read_column(
    engine: duckdb.DuckDBPyConnection, path: str, column: ManifestColumn, as_type: str, taxonomy: Taxonomy | None
) -> Attribute:
    name, column_taxonomy, read_as = column.name, taxonomy if column.kind == "nominal" else None, CASTS[column.holds]
    values = f"SELECT TRY_CAST({quote_column(name)} AS {read_as}) AS v FROM {READERS['.parquet']}"
    if as_type != read_as and not _is_lossless_cast(engine, name, read_as, path):  # nothing changes what it is already
        raise ClaimFailed(f"the column {name[:40]!r} holds other values than its manifest tells of")
    if column.holds == "text":
        texts, codes = _read_text_codes(engine, values, path)
        return build_coded_attribute(name, column.kind, texts, codes, column.categories or None, column_taxonomy)
    array = engine.execute(values, [path]).fetchnumpy()["v"]
    orders = {name: column.categories} if column.categories else {}
    taxonomies = {name: column_taxonomy} if column_taxonomy else {}
    return read_table({name: array}, {name: column.kind}, orders, taxonomies)[name]


def _is_lossless_cast(engine: duckdb.DuckDBPyConnection, name: str, read_as: str, path: str) -> bool:
    """Whether no value is lost and no two become one if they are read as the manifest says."""
    column = quote_column(name)
    both_columns = f"SELECT {column} AS r, TRY_CAST({column} AS {read_as}) AS v FROM {READERS['.parquet']}"
    counts = "count(r), count(DISTINCT r), count(v), count(DISTINCT v)"
    [totals] = engine.execute(f"SELECT {counts} FROM ({both_columns})", [path]).fetchall()
    return bool(totals[:2] == totals[2:])


def _read_text_codes(engine: duckdb.DuckDBPyConnection, values: str, path: str) -> tuple[list[str], Integers]:
    """The distinct texts, and their codes: as many Python strings as rows would fill the memory."""
    distinct_rows = engine.execute(f"SELECT DISTINCT v FROM ({values}) WHERE v IS NOT NULL", [path]).fetchall()
    texts = sorted(str(text) for (text,) in distinct_rows)
    if not texts:
        [[rows]] = engine.execute(f"SELECT count(*) FROM ({values})", [path]).fetchall()
        return texts, np.full(rows, ABSENT)
    engine.execute("CREATE OR REPLACE TEMP TABLE seen AS SELECT unnest(?::VARCHAR[]) AS v", [texts])
    engine.execute("DROP TYPE IF EXISTS seen_text")
    engine.execute("CREATE TYPE seen_text AS ENUM (SELECT v FROM seen)")
    places = engine.execute(f"SELECT enum_code(v::seen_text)::BIGINT AS v FROM ({values})", [path]).fetchnumpy()["v"]
    return texts, np.ma.filled(places, ABSENT)


def read_second_table(file: Path, manifest: ReleaseManifest | None) -> Table | None:
    """Read the second table of an Anatomy, which lies beside the first."""
    if manifest is None or manifest.second_file is None:
        return None
    return read_released_table(file.with_name(manifest.second_file), manifest.second_columns)


def read_table_file(file: Path, kinds: Mapping[str, str] | None = None) -> Table:
    """Read the table in any file; the kinds of its columns follow from their values, unless they are given."""
    import duckdb

    try:
        with duckdb.connect() as engine:
            relation = engine.sql(f"SELECT * FROM {READERS[file.suffix.lower()]}", params=[glob.escape(str(file))])
            present_kinds = {name: kind for name, kind in (kinds or {}).items() if name in relation.columns}
            return read_table(relation, present_kinds)
    except duckdb.Error:
        raise InvalidInput(f"{file.name[:60]!r} cannot be read as a table; check the file") from None


def read_manifest(table: Path) -> ReleaseManifest | None:
    """Read the manifest beside a released table, or in a folder of columns; None if there is none."""
    file = get_manifest_path(table)
    if not file.is_file():
        file = table.with_name(MANIFEST_NAME)
        if not file.is_file() or RELEASE_FORMAT not in file.read_text(encoding="utf-8", errors="replace"):
            return None
    try:
        return parse_manifest(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        raise InvalidInput(f"the manifest {file.name[:60]!r} cannot be read; restore it, or move it away") from None


def parse_manifest(document: object) -> ReleaseManifest:
    """Parse a manifest; ValueError if it is none."""
    try:
        payload = cast("dict[str, Any]", document)
        recipe = payload["recipe"]
        files = tuple((str(entry["name"]), str(entry["sha256"])) for entry in payload["files"])
        if not files or any(Path(name).name != name for name, _ in files):
            raise ValueError
        guarantee = _parse_guarantee(payload["guarantee"])
        return ReleaseManifest(
            release=str(payload["release"]),
            guarantee=guarantee,
            k=int(recipe["k"]) if guarantee.model not in DP_MODELS else 0,
            quasi=tuple(map(str, recipe.get("quasi_identifiers", ()))),
            confidential=tuple(map(str, recipe.get("confidential", ()))),
            unchanged=tuple(map(str, recipe.get("kept_as_they_are", ()))),
            columns=tuple(map(_parse_column, payload["columns"])),
            second_columns=tuple(map(_parse_column, payload["second_columns"])),
            files=files,
        )
    except (KeyError, TypeError, AttributeError, InvalidInput):
        raise ValueError from None


def _parse_column(column: Mapping[str, Any]) -> ManifestColumn:
    if column["holds"] not in CASTS or column["kind"] not in KINDS:
        raise ValueError
    categories = tuple(column.get("categories", ()))
    return ManifestColumn(str(column["name"]), column["kind"], str(column["holds"]), categories)


def _parse_guarantee(payload: Mapping[str, Any]) -> Guarantee:
    guarantee = replace(Guarantee.from_json(payload), assumptions=())
    if guarantee.model not in CLAIMED_MODELS or 0 in (guarantee.k, guarantee.t):
        raise ValueError
    return guarantee


def require_matching_files(table: Path, manifest: ReleaseManifest) -> None:
    """Refuse unless the table is the one of the manifest, under whatever name, and the second one is beside it."""
    files = manifest.files
    if len(files) > 1 and manifest.second_file is None:  # one of the columns that are kept apart
        files = tuple(entry for entry in files if entry[0] == table.name) or files[:1]
    paths = [table, *(table.with_name(name) for name, _ in files[1:])]
    for path, (_, sha256) in zip(paths, files, strict=True):
        if not path.is_file() or hash_file(path) != sha256:
            raise ClaimFailed(
                f"{path.name[:60]!r} is not the file that the manifest was written for; get the release again"
            )
