"""Tables and manifests read back from files: released ones, and originals that are compared with them."""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discreet.custodian.spool import Spool
from discreet.custodian.writing import MANIFEST, RELEASE, digest, manifest_of
from discreet.errors import ClaimFailed, InvalidInput, Unavailable
from discreet.guarantee import DIFFERENTIAL, Guarantee
from discreet.microdata.reading import KINDS, read_coded, read_table
from discreet.microdata.table import ABSENT, Attribute, Kind, Places, Table
from discreet.taxonomy import Taxonomy

if TYPE_CHECKING:
    import duckdb

READERS = {".csv": "read_csv(?, header = true, parallel = false)", ".parquet": "read_parquet(?)"}
OWN_CSV = """read_csv(?, header = true, parallel = false, all_varchar = true, delim = ',', quote = '"', escape = '"',
    allow_quoted_nulls = false)"""
"""A CSV file of ours: what a text looks like does not say what it is."""
CASTS = {"integer": "DOUBLE", "number": "DOUBLE", "date": "DATE", "truth": "BOOLEAN", "text": "VARCHAR"}


@dataclass(frozen=True, slots=True)
class Known:
    """What a manifest says of a column."""

    name: str
    kind: Kind
    holds: str
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a released table says of itself."""

    release: str
    guarantee: Guarantee
    k: int
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]
    kept: tuple[str, ...]
    columns: tuple[Known, ...]
    second_columns: tuple[Known, ...]
    files: tuple[tuple[str, str], ...]
    """Names and hashes: the table, and Anatomy's other one."""

    def columns_of(self, file: Path) -> tuple[Known, ...]:
        """The columns of one of the files: of those that are kept apart, its own."""
        apart = len(self.files) > 1 and not self.second_columns
        return tuple(one for one in self.columns if one.name == file.stem) if apart else self.columns

    @property
    def second(self) -> str | None:
        """The name of the other table of Anatomy."""
        return self.files[1][0] if self.second_columns else None


def table_file(path: str | Path) -> Path:
    """A file with a table, refused where there is none."""
    file = Path(path).absolute()
    if file.suffix.lower() not in READERS:
        raise InvalidInput(f"a table's file is named .csv or .parquet, got {file.name[:40]!r}")
    if not file.is_file():
        raise InvalidInput(f"there is no file {file.name[:60]!r} there; check its name")
    return file


def read_released(
    file: Path,
    columns: Sequence[Known],
    taxonomies: Mapping[str, Taxonomy] | None = None,
    spool: Spool | None = None,
) -> Table:
    """A table of ours, its columns as its manifest tells of them; one after another where there is a spool."""
    import duckdb

    meant = taxonomies or {}
    try:
        beside = None if spool is None else spool.folder
        with duckdb.connect() as engine, TemporaryDirectory(prefix=".discreet-", dir=beside) as folder:
            source, types = _as_parquet(engine, file, columns, Path(folder) / "released.parquet")
            each = zip(columns, types, strict=True)
            found = (_read_column(engine, source, column, as_type, meant.get(column.name)) for column, as_type in each)
            return Table({each.name: spool.kept(each) if spool else each for each in found})
    except duckdb.Error:
        raise InvalidInput(f"{file.name[:60]!r} cannot be read as a table; check the file") from None
    except OSError:
        raise Unavailable("there is no room for temporary files; check the disk") from None


def _as_parquet(
    engine: duckdb.DuckDBPyConnection, file: Path, columns: Sequence[Known], where: Path
) -> tuple[str, list[str]]:
    """The columns of a file in a file that they can be read from one by one, and the type of each."""
    own = file.suffix.lower() == ".csv"
    source, path = OWN_CSV if own else READERS[".parquet"], glob.escape(str(file))
    named = engine.execute(f"DESCRIBE SELECT * FROM {source}", [path]).fetchall()
    if [str(row[0]) for row in named] != [column.name for column in columns]:
        raise ClaimFailed(f"{file.name[:60]!r} has other columns than its manifest tells of")
    types = [str(row[1]) for row in named]
    if not own:
        return path, types
    quoted = str(where).replace("'", "''")
    engine.execute(f"COPY (SELECT * FROM {source}) TO '{quoted}' (FORMAT parquet)", [path])
    return glob.escape(str(where)), types


def _read_column(
    engine: duckdb.DuckDBPyConnection, path: str, column: Known, as_type: str, taxonomy: Taxonomy | None
) -> Attribute:
    name, meaning, read_as = column.name, taxonomy if column.kind == "nominal" else None, CASTS[column.holds]
    values = f"SELECT TRY_CAST({_quoted(name)} AS {read_as}) AS v FROM {READERS['.parquet']}"
    if as_type != read_as and not _told_truly(engine, name, read_as, path):  # nothing changes what it is already
        raise ClaimFailed(f"the column {name[:40]!r} holds other values than its manifest tells of")
    if column.holds == "text":
        return read_coded(name, column.kind, *_coded(engine, values, path), column.categories or None, meaning)
    found = engine.execute(values, [path]).fetchnumpy()["v"]
    orders, meant = {name: column.categories} if column.categories else {}, {name: meaning} if meaning else {}
    return read_table({name: found}, {name: column.kind}, orders, meant)[name]


def _told_truly(engine: duckdb.DuckDBPyConnection, name: str, read_as: str, path: str) -> bool:
    """Whether no value is lost and no two become one where they are read as what the manifest says they are."""
    both = f"SELECT {_quoted(name)} AS r, TRY_CAST({_quoted(name)} AS {read_as}) AS v FROM {READERS['.parquet']}"
    counts = "count(r), count(DISTINCT r), count(v), count(DISTINCT v)"
    [found] = engine.execute(f"SELECT {counts} FROM ({both})", [path]).fetchall()
    return bool(found[:2] == found[2:])


def _coded(engine: duckdb.DuckDBPyConnection, values: str, path: str) -> tuple[list[str], Places]:
    """The texts that there are, and their places: as many Python strings as rows would fill the memory."""
    found = engine.execute(f"SELECT DISTINCT v FROM ({values}) WHERE v IS NOT NULL", [path]).fetchall()
    seen = sorted(str(text) for (text,) in found)
    if not seen:
        [[rows]] = engine.execute(f"SELECT count(*) FROM ({values})", [path]).fetchall()
        return seen, np.full(rows, ABSENT)
    engine.execute("CREATE OR REPLACE TEMP TABLE seen AS SELECT unnest(?::VARCHAR[]) AS v", [seen])
    engine.execute("DROP TYPE IF EXISTS seen_text")
    engine.execute("CREATE TYPE seen_text AS ENUM (SELECT v FROM seen)")
    places = engine.execute(f"SELECT enum_code(v::seen_text)::BIGINT AS v FROM ({values})", [path]).fetchnumpy()["v"]
    return seen, np.ma.filled(places, ABSENT)


def read_second(file: Path, manifest: Manifest | None) -> Table | None:
    """The other table of an Anatomy, beside the first."""
    if manifest is None or manifest.second is None:
        return None
    return read_released(file.with_name(manifest.second), manifest.second_columns)


def read_file(file: Path, kinds: Mapping[str, str] | None = None) -> Table:
    """The table in any file; what its columns are is taken from how they look."""
    import duckdb

    try:
        with duckdb.connect() as engine:
            relation = engine.sql(f"SELECT * FROM {READERS[file.suffix.lower()]}", params=[glob.escape(str(file))])
            here = {name: kind for name, kind in (kinds or {}).items() if name in relation.columns}
            return read_table(relation, here)
    except duckdb.Error:
        raise InvalidInput(f"{file.name[:60]!r} cannot be read as a table; check the file") from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read_manifest(table: Path) -> Manifest | None:
    """The manifest beside a released table, or in a folder of columns; None where there is none."""
    file = manifest_of(table)
    if not file.is_file():
        file = table.with_name(MANIFEST)
        if not file.is_file() or RELEASE not in file.read_text(encoding="utf-8", errors="replace"):
            return None
    try:
        return manifest_from(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        raise InvalidInput(f"the manifest {file.name[:60]!r} cannot be read; restore it, or move it away") from None


def manifest_from(document: object) -> Manifest:
    """What a manifest says; ValueError where it is none."""
    try:
        told = cast("dict[str, Any]", document)
        recipe, files = told["recipe"], tuple((str(one["name"]), str(one["sha256"])) for one in told["files"])
        if not files or any(Path(name).name != name for name, _ in files):
            raise ValueError
        guarantee = _guarantee(told["guarantee"])
        return Manifest(
            str(told["release"]),
            guarantee,
            int(recipe["k"]) if guarantee.model not in DIFFERENTIAL else 0,
            tuple(map(str, recipe.get("quasi_identifiers", ()))),
            tuple(map(str, recipe.get("confidential", ()))),
            tuple(map(str, recipe.get("kept_as_they_are", ()))),
            tuple(map(_known, told["columns"])),
            tuple(map(_known, told["second_columns"])),
            files,
        )
    except (KeyError, TypeError, AttributeError, InvalidInput):
        raise ValueError from None


def _known(column: Mapping[str, Any]) -> Known:
    if column["holds"] not in CASTS or column["kind"] not in KINDS:
        raise ValueError
    return Known(str(column["name"]), column["kind"], str(column["holds"]), tuple(column.get("categories", ())))


def _guarantee(told: Mapping[str, Any]) -> Guarantee:
    if told["model"] == "t-closeness":
        return Guarantee.t_closeness(Fraction(told["t"]), str(told["distance"]), str(told["unit"]))
    if told["model"] == "dp":
        return Guarantee.dp(Fraction(told["epsilon"]), str(told["neighbours"]), str(told["unit"]))
    if told["model"] == "approx-dp":
        exact = Fraction(told["epsilon"]), Fraction(told["delta"])
        return Guarantee.approx_dp(*exact, str(told["neighbours"]), str(told["unit"]))
    if told["model"] not in {"k-anonymity", "probabilistic-k-anonymity"}:
        raise ValueError
    probabilistic = told["model"] == "probabilistic-k-anonymity"
    return Guarantee.k_anonymity(told["k"], probabilistic=probabilistic, unit=str(told["unit"]))


def require_untouched(table: Path, manifest: Manifest) -> None:
    """The table is the one that the manifest was written for, under whatever name, and the other one is beside it."""
    files = manifest.files
    if len(files) > 1 and manifest.second is None:  # one of the columns that are kept apart
        files = tuple(each for each in files if each[0] == table.name) or files[:1]
    paths = [table, *(table.with_name(name) for name, _ in files[1:])]
    for path, (_, sha256) in zip(paths, files, strict=True):
        if not path.is_file() or digest(path) != sha256:
            raise ClaimFailed(
                f"{path.name[:60]!r} is not the file that the manifest was written for; get the release again"
            )
