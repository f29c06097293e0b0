"""Tables and manifests read back from files: released ones, and originals that are compared with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from discreet.custodian.writing import digest, manifest_of
from discreet.errors import ClaimFailed, InvalidInput
from discreet.guarantee import Guarantee
from discreet.microdata.reading import read_table
from discreet.microdata.table import Table
from discreet.taxonomy import Taxonomy

READERS = {".csv": "read_csv(?, header = true, parallel = false)", ".parquet": "read_parquet(?)"}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a released table says of itself."""

    release: str
    guarantee: Guarantee
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]
    kinds: Mapping[str, str]
    categories: Mapping[str, tuple[str, ...]]
    files: tuple[tuple[str, str], ...]
    """Names and hashes."""

    @property
    def second(self) -> str | None:
        """The name of the other table of Anatomy."""
        return self.files[1][0] if len(self.files) > 1 else None


def table_file(path: str | Path) -> Path:
    """A file with a table, refused where there is none."""
    file = Path(path).absolute()
    if file.suffix.lower() not in READERS:
        raise InvalidInput(f"a table's file is named .csv or .parquet, got {file.name[:40]!r}")
    if not file.is_file():
        raise InvalidInput(f"there is no file {file.name[:60]!r} there; check its name")
    return file


def read_file(
    file: Path,
    manifest: Manifest | None = None,
    taxonomies: Mapping[str, Taxonomy] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Table:
    """The table in a file; what is public about its columns comes from its manifest, where it has one."""
    import duckdb

    known = dict(kinds or (manifest.kinds if manifest else {}))
    orders = dict(manifest.categories) if manifest else {}
    try:
        with duckdb.connect() as engine:
            found = engine.execute(f"SELECT * FROM {READERS[file.suffix.lower()]}", [str(file)]).fetchnumpy()
    except duckdb.Error:
        raise InvalidInput(f"{file.name[:60]!r} cannot be read as a table; check the file") from None
    here = {name: kind for name, kind in known.items() if name in found}
    ordered = {name: order for name, order in orders.items() if name in found}
    meant = {name: tree for name, tree in (taxonomies or {}).items() if name in found and name not in ordered}
    return read_table(found, here, ordered, meant)


def read_manifest(table: Path) -> Manifest | None:
    """The manifest beside a released table; None where there is none."""
    file = manifest_of(table)
    if not file.is_file():
        return None
    try:
        told = cast("dict[str, Any]", json.loads(file.read_text(encoding="utf-8")))
        return Manifest(
            str(told["release"]),
            _guarantee(told["guarantee"]),
            tuple(told["recipe"]["quasi_identifiers"]),
            tuple(told["recipe"]["confidential"]),
            {column["name"]: column["kind"] for column in told["columns"]},
            {column["name"]: tuple(column["categories"]) for column in told["columns"] if "categories" in column},
            tuple((one["name"], one["sha256"]) for one in told["files"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInput(f"the manifest {file.name[:60]!r} cannot be read; restore it, or move it away") from None


def _guarantee(told: Mapping[str, Any]) -> Guarantee:
    if told["model"] == "t-closeness":
        return Guarantee.t_closeness(Fraction(told["t"]), str(told["distance"]), str(told["unit"]))
    probabilistic = told["model"] == "probabilistic-k-anonymity"
    if not probabilistic and told["model"] != "k-anonymity":
        raise InvalidInput(f"a release cannot be checked for {str(told['model'])[:40]!r}")
    return Guarantee.k_anonymity(told["k"], probabilistic=probabilistic, unit=str(told["unit"]))


def require_untouched(table: Path, manifest: Manifest) -> None:
    """The files are those that the manifest was written for."""
    for name, sha256 in manifest.files:
        file = table.with_name(name)
        if not file.is_file() or digest(file) != sha256:
            raise ClaimFailed(f"{name[:60]!r} is not the file that its manifest was written for; get the release again")
