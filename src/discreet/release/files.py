"""Write the files of a release: staged beside their targets and then moved, large columns spooled on disk.

Spool files lie in the custodian's folder and have no names, so nothing is left of them however the process ends.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import shutil
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.charts import MISSING_PACKAGES
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.sdc.table import Attribute, Table

if TYPE_CHECKING:
    import duckdb

    from discreet.sdc.comparison import Comparison
    from discreet.sdc.sweep import SweepResult

Name = TypeVar("Name", bound=Hashable)
Item = TypeVar("Item", bound=np.generic)
Array = NDArray[np.generic]
ITEM_BYTES = 8
"""Bytes of a code or a number."""
MANIFEST_NAME = "manifest.json"
"""Its name in a folder of columns."""
RELEASE_FORMAT = "discreet release 1"
"""The first value of a manifest."""
COPY_OPTIONS = {".csv": "(FORMAT csv, HEADER true)", ".parquet": "(FORMAT parquet)"}
BATCH_ROWS = 100_000
"""How many rows are written at a time."""


class Spool:
    """Arrays that are read from disk when they are used. Texts, which have no fixed size, stay in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _, file_limit = resource.getrlimit(resource.RLIMIT_NOFILE)  # every array that is on disk holds a file open
        resource.setrlimit(resource.RLIMIT_NOFILE, (file_limit, file_limit))

    def store_array(self, values: NDArray[Item]) -> NDArray[Item]:
        """Return the same values, on disk."""
        with self._translate_errors(), TemporaryFile(dir=self.folder) as file:
            file.write(np.ascontiguousarray(values).data)
            file.flush()
            return np.memmap(file, values.dtype, mode="r").view(np.ndarray)

    def store_attribute(self, attribute: Attribute) -> Attribute:
        """Return the same attribute, with its values on disk."""
        return replace(attribute, values=self.store_array(attribute.values))

    def gather_columns(self, parts: Iterable[Mapping[Name, Array]], rows: int) -> dict[Name, Array]:
        """Concatenate parts of columns of whole numbers or texts, the numbers in one file; there must be `rows`."""
        texts: dict[Name, list[Array]] = {}
        places: dict[Name, int] = {}
        rows_done = 0
        with self._translate_errors(), TemporaryFile(dir=self.folder) as file:
            for part in parts:
                for name, values in part.items():
                    if values.dtype.kind == "O":
                        texts.setdefault(name, []).append(values)
                        continue
                    file.seek(ITEM_BYTES * (places.setdefault(name, len(places)) * rows + rows_done))
                    file.write(np.ascontiguousarray(values, np.int64).data)
                rows_done += len(next(iter(part.values())))
            if rows_done != rows:
                raise Unavailable("the source changed while it was read; try again")
            file.flush()
            numbers = np.memmap(file, np.int64, mode="r").view(np.ndarray).reshape(len(places), rows) if places else ()
            text_columns = {name: np.concatenate(pieces) for name, pieces in texts.items()}
            return text_columns | {name: numbers[place] for name, place in places.items()}

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as failure:
            if failure.errno in {errno.EMFILE, errno.ENFILE}:
                raise Unavailable(
                    "so many columns need more open files than the system allows; raise the limit"
                ) from None
            raise Unavailable(f"the folder {self.folder} cannot be written; check its owner and the disk") from None


@dataclass(frozen=True, slots=True)
class ReleaseTargets:
    """Where a release goes: the table, the second table of Anatomy, the manifest, and the report.

    With `apart`, `table` is a folder with a file for each column and the manifest.
    """

    table: Path
    second: Path
    manifest: Path
    report: Path | None
    force: bool = False
    """Whether files of ours that are there may be overwritten."""
    apart: bool = False

    @staticmethod
    def for_table(out: object, report: object, force: bool, has_second_table: bool = False) -> ReleaseTargets:
        """Return targets for a table, refused at once if they cannot be written."""
        table = _check_target_path(out, tuple(COPY_OPTIONS), "the released table")
        report_path = None if report is None else check_report_target(report, force)
        second = table.with_name(f"{table.stem}-values{table.suffix}")
        targets = ReleaseTargets(table, second, get_manifest_path(table), report_path, force)
        targets.require_free(has_second_table)
        if report_path in (table, second, targets.manifest):
            raise InvalidInput("the report and the release must go to different files; name the report otherwise")
        return targets

    def require_free(self, has_second_table: bool) -> None:
        """Refuse if a file is there that may not be overwritten."""
        tables = () if self.apart else (self.table, self.manifest, *([self.second] if has_second_table else []))
        for path in (*tables, *([self.report] if self.report else [])):
            _refuse_existing(path, self.force)
        folder = self.table
        if self.apart and folder.exists() and not self.force:
            raise InvalidInput(f"{folder.name[:60]!r} is there already; name another, or overwrite it with --force")
        if self.apart and folder.exists() and RELEASE_FORMAT not in _read_start(folder / MANIFEST_NAME):
            raise InvalidInput(f"{folder.name[:60]!r} is there and is no release of ours; name another folder")

    @staticmethod
    def for_folder(out: object, report: object, force: bool) -> ReleaseTargets:
        """Return targets for a folder of columns, refused at once if it cannot be made."""
        if Path(str(out)).suffix:
            raise InvalidInput(f"columns that are kept apart go to a folder, not to a file; got {str(out)[-40:]!r}")
        folder = _check_target_path(out, ("",), "a folder")
        report_path = None if report is None else check_report_target(report, force)
        targets = ReleaseTargets(folder, folder, folder / MANIFEST_NAME, report_path, force, apart=True)
        targets.require_free(has_second_table=False)
        return targets

    @property
    def paths(self) -> tuple[Path, ...]:
        """All paths that may be written."""
        tables = (self.table,) if self.apart else (self.table, self.second, self.manifest)
        return (*tables, *([] if self.report is None else [self.report]))


def check_report_target(report: object, force: bool) -> Path:
    """Return the path of a report, refused at once if none can be written there."""
    path = _check_target_path(report, (".html", ".json"), "a report")
    if path.suffix.lower() == ".html" and find_spec("vl_convert") is None:
        raise Unsupported(MISSING_PACKAGES)
    _refuse_existing(path, force)
    return path


def _refuse_existing(path: Path, force: bool) -> None:
    if path.is_dir():
        raise InvalidInput(f"{path.name[:60]!r} is a folder; name a file")
    if path.exists() and not force:
        raise InvalidInput(f"{path.name[:60]!r} is there already; name another, or overwrite it with --force")
    if path.exists() and not _is_ours(path):
        raise InvalidInput(f"{path.name[:60]!r} is there and is no release or report of ours; name another file")


def _is_ours(path: Path) -> bool:
    """Whether a file was written here: only such files are ever overwritten."""
    from discreet.sdc.report import CUSTODIAN_NOTICE

    if path.name.endswith(".manifest.json"):
        return RELEASE_FORMAT in _read_start(path)
    if path.suffix.lower() in {".html", ".json"}:
        return CUSTODIAN_NOTICE in _read_start(path)
    manifests = [get_manifest_path(path), get_manifest_path(path.with_name(path.name.replace("-values.", ".")))]
    return any(RELEASE_FORMAT in _read_start(file) and path.name in _read_start(file, None) for file in manifests)


def _read_start(path: Path, length: int | None = 20_000) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(-1 if length is None else length)
    except OSError:
        return ""


def get_manifest_path(table: Path) -> Path:
    """Return where the manifest of a released table is."""
    return table.with_name(f"{table.name}.manifest.json")


def _check_target_path(target: object, suffixes: Sequence[str], what: str) -> Path:
    path = Path(str(target))
    if path.suffix.lower() not in suffixes:
        raise InvalidInput(f"{what} is named {' or '.join(suffixes)}, got {path.name[:40]!r}")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"the folder for {path.name[:40]!r} does not exist; make it first")
    return path.absolute()


@contextmanager
def stage_targets(targets: ReleaseTargets) -> Iterator[Mapping[Path, Path]]:
    """Yield where to write each target first, on the same disk; `move_staged_files` puts them in their places."""
    with ExitStack() as stack:
        folders: dict[Path, Path] = {}
        try:
            for parent in {path.parent for path in targets.paths}:
                folders[parent] = Path(stack.enter_context(TemporaryDirectory(prefix=".discreet-", dir=parent)))
        except OSError:
            raise Unavailable("the folder for the release cannot be written; check its owner and the disk") from None
        yield {path: folders[path.parent] / path.name for path in targets.paths}


def move_staged_files(staged: Mapping[Path, Path], force: bool, obsolete: Collection[Path] = ()) -> None:
    """Move what was written to its place, the manifest first; if one cannot be moved, all is as it was before.

    Only `force` overwrites what is there; it also removes the `obsolete` files of an earlier release.
    """
    undo: list[tuple[Path, Path | None]] = []
    files = {target: written for target, written in staged.items() if written.exists() or target in obsolete}
    try:
        for target, written in sorted(files.items(), key=lambda pair: pair[0].suffix != ".json"):
            aside = written.with_name(f"{written.name}.before")
            if force and target.exists():
                os.replace(target, aside)
                undo.append((target, aside))
            if written.exists():
                _put_file(written, target)
                undo.append((target, None))
    except BaseException as failure:
        for target, before in reversed(undo):
            if before is None and target.is_dir():
                shutil.rmtree(target)
            elif before is None:
                target.unlink(missing_ok=True)
            else:
                os.replace(before, target)
        if isinstance(failure, FileExistsError):
            raise InvalidInput("a file was put there meanwhile; name another, or overwrite it with --force") from None
        if isinstance(failure, OSError):
            raise Unavailable("the release cannot be put in its place; check the disk and try again") from None
        raise


def _put_file(written: Path, target: Path) -> None:
    """Never overwrites: two releases may come at once."""
    if written.is_dir():
        written.rename(target)  # over nothing but an empty folder
        return
    try:
        os.link(written, target)
    except FileExistsError:
        raise
    except OSError:  # a disk without links
        if target.exists():
            raise FileExistsError from None
        os.replace(written, target)


def write_json(path: Path, document: object) -> None:
    """Write a document as JSON."""
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_comparison_report(
    path: Path,
    facts: Mapping[str, object],
    comparison: Comparison,
    original: Table,
    released: Table,
    sweep_result: SweepResult | None = None,
) -> None:
    """Write a report for the custodian alone, as a page or as JSON."""
    from discreet.sdc.report import build_report_json, write_report

    if path.suffix.lower() != ".json":
        write_report(path, facts, comparison, original, released, sweep_result)
        return
    document = build_report_json(facts, comparison, sweep_result)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    write_json(path, document)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        raise Unavailable(f"{path.name[:60]!r} cannot be read; check who may read it") from None


def write_released_table(path: Path, table: Table) -> None:
    """Write a table to a CSV or Parquet file, some rows at a time."""
    import duckdb

    holds = {name: attribute.output_type for name, attribute in table.attributes.items()}
    try:
        with duckdb.connect(str(path.with_suffix(".duckdb"))) as engine:
            for number, part in enumerate(table.split_batches(BATCH_ROWS)):
                _insert_rows(engine, part, holds, "INSERT INTO released" if number else "CREATE TABLE released AS")
            engine.execute(
                f"COPY released TO '{str(path).replace(chr(39), chr(39) * 2)}' {COPY_OPTIONS[path.suffix.lower()]}"
            )
    except (duckdb.Error, OSError):
        raise Unavailable("the released table cannot be written; check that the disk has room") from None
    path.with_suffix(".duckdb").unlink()


def _insert_rows(engine: duckdb.DuckDBPyConnection, part: Table, holds: Mapping[str, str], into: str) -> None:
    columns = list(part.attributes.values())
    category_lists = [list(attribute.categories) for attribute in columns if attribute.kind != "numeric"]
    values = {f"v{index}": attribute for index, attribute in enumerate(columns)}
    selected_columns = [_format_sql_column(name, column, holds[column.name]) for name, column in values.items()]
    engine.register("part", {name: attribute.values for name, attribute in values.items()})
    engine.execute(f"{into} SELECT {', '.join(selected_columns)} FROM part", category_lists)
    engine.unregister("part")


def quote_column(name: str) -> str:
    """Quote a column's name for DuckDB, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _format_sql_column(value: str, attribute: Attribute, holds: str) -> str:
    """One column in SQL, missing values as NULL."""
    name = quote_column(attribute.name)
    if attribute.kind != "numeric":
        label = f"(?::VARCHAR[])[{value} + 1]"
        label = f"{label} = 'true'" if holds == "truth" else label
        return f"CASE WHEN {value} >= 0 THEN {label} END AS {name}"
    number = f"CASE WHEN NOT isnan({value}) THEN {value} END"
    if holds == "date":
        return f"DATE '1970-01-01' + CAST(round({number}) AS INTEGER) AS {name}"
    return f"CAST({number} AS BIGINT) AS {name}" if holds == "integer" else f"{number} + 0.0 AS {name}"  # one zero
