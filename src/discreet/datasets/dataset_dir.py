"""The data set's own folder: identity, secret key, snapshots, and which ledger is bound to it, with its last head.

Nothing in it is for analysts, and files are replaced whole or not at all. The folder names the ledger, since an empty
one in its place would be a new budget; and it records the head, since an older copy would be a budget that was spent
already. Setting back the whole folder sets back this record too: a service has another one in its store.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkstemp

from discreet.errors import DiscreetError, InvalidInput, Unavailable
from discreet.json_fields import JsonSerializable
from discreet.ledger import Ledger
from discreet.ledger.connect import RecordedHead
from discreet.mechanisms.entropy import SYSTEM
from discreet.schema import Schema

IDENTIFIER_BYTES = 16
"""Enough that two alike are not to be expected."""
SNAPSHOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
FIRST_SNAPSHOT = "1"
HEAD_FILE = "ledger-head.json"


def generate_secret(count: int = 32) -> str:
    """Draw `count` bytes, as base64url text without padding."""
    return base64.urlsafe_b64encode(SYSTEM.take(count)).rstrip(b"=").decode()


def generate_identifier() -> str:
    """Draw a name of 32 hexadecimal digits."""
    return SYSTEM.take(IDENTIFIER_BYTES).hex()


@dataclass(frozen=True, slots=True)
class Snapshot(JsonSerializable):
    """One registration: where the rows are, their layout, and a report for the custodian alone."""

    name: str
    engine: str
    target: str
    layout: str
    made: str
    disjoint: bool
    report: Mapping[str, object]
    sha256: str | None = None
    """Of its bytes, where it is in files of ours; None of a table, and of snapshots made before this was stored."""
    stamp: str | None = None
    """Of its files' names, sizes and times: as long as they stay, the bytes are not read again."""

    _json_fields = "name engine target layout made disjoint report sha256 stamp"
    _refuses_unknown_names = True


@dataclass(frozen=True, slots=True)
class DatasetManifest(JsonSerializable):
    """A data set, made once, with the secret key that chooses which rows of a unit are kept."""

    identity: str
    key: str
    promise: str
    snapshots: tuple[Snapshot, ...]
    ledger: str | None = None

    _json_fields = "identity key promise ledger snapshots"
    _refuses_unknown_names = True

    @staticmethod
    def new(schema: Schema) -> DatasetManifest:
        """A data set without snapshots."""
        return DatasetManifest(generate_identifier(), SYSTEM.take(32).hex(), describe_promise(schema), ())

    def require_promise(self, schema: Schema) -> None:
        """Refuse another unit or relation than the one for which the spend so far was promised."""
        if self.promise != describe_promise(schema):
            raise InvalidInput(
                f"what {schema.name} has spent was promised for {self.promise}, not for {describe_promise(schema)}; "
                "go back to that, or give the data set another name"
            )

    def with_snapshot(self, snapshot: Snapshot) -> DatasetManifest:
        """Add a snapshot, which becomes the current one."""
        return replace(self, snapshots=(*self.snapshots, snapshot))


class DatasetDir:
    """The folder `<name>.discreet` beside the schema file."""

    def __init__(self, schema: Schema) -> None:
        self.folder = schema.folder / f"{schema.name}.discreet"
        self._file = self.folder / "manifest.json"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one process at a time register or bind."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            raise Unavailable(
                f"the folder {self.folder.name} cannot be written; check its owner and the disk"
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def read_manifest(self) -> DatasetManifest | None:
        """Read the manifest; None where the data set was not registered."""
        try:
            return DatasetManifest.from_json(json.loads(self._file.read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            raise Unavailable(f"the folder {self.folder.name} may not be read; check its owner and rights") from None
        except (OSError, ValueError, TypeError, KeyError):
            raise Unavailable(f"the manifest in {self.folder.name} cannot be read; restore it from a backup") from None

    def write_manifest(self, manifest: DatasetManifest) -> None:
        """Replace the manifest durably and at once."""
        temporary_file = self._file.with_suffix(".new")
        try:
            handle = os.open(temporary_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(manifest.to_json(), file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            temporary_file.replace(self._file)
        except OSError:
            raise Unavailable(
                f"the manifest in {self.folder.name} cannot be written; check its owner and the disk"
            ) from None


def describe_promise(schema: Schema) -> str:
    """Name the unit and the relation that a data set's promises are for."""
    return f"{schema.unit_name} under {schema.neighbors}"


def check_snapshot_name(name: str) -> str:
    """Return a name that is safe in a file name and a table name, or refuse it."""
    if not SNAPSHOT_NAME.fullmatch(name):
        raise InvalidInput(f"a snapshot is named with letters, digits, _ . or -, at most 40, got {name[:40]!r}")
    return name


def hash_layout(schema: Schema) -> str:
    """Digest all that decides what a snapshot holds; a schema with another digest needs another snapshot."""
    columns = []
    for column in schema.columns.values():
        derived = None if column.derived is None else [column.derived.key, column.derived.codes]
        bounds = [column.lower, column.upper, str(column.step), column.categories, column.missing]
        columns.append([column.name, column.kind, bounds, column.missing_values, column.private_keys, derived])
    text = json.dumps([columns, schema.unit, schema.rows, schema.partition], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class FolderHeads:
    """The last head of the ledger, in a small file that is replaced whole after each entry.

    It is not flushed to the disk: a record that is lost with the power is behind the ledger, which is harmless.
    """

    def __init__(self, dataset_dir: DatasetDir) -> None:
        self._file: Path = dataset_dir.folder / HEAD_FILE

    def read(self, dataset: str) -> RecordedHead | None:
        """Read the last head that was recorded; None where there is none that can be read."""
        try:
            payload = json.loads(self._file.read_text(encoding="utf-8"))
            if payload.pop("dataset") != dataset or not set(payload) <= {"ledger", "entry", "hash", "restores"}:
                return None
            return RecordedHead(payload["ledger"], payload["entry"], payload["hash"], tuple(payload["restores"]))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def advance(self, dataset: str, head: RecordedHead) -> None:
        """Replace the record, if possible. Of two at once the last stays, which may be the earlier head."""
        with suppress(OSError):
            handle, name = mkstemp(prefix=f".{HEAD_FILE}-", dir=self._file.parent)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    document = {"dataset": dataset, "ledger": head.ledger, "entry": head.entry, "hash": head.hash}
                    json.dump(document | {"restores": head.restores}, file)
                os.replace(name, self._file)
            except OSError:
                os.unlink(name)
                raise

    def accept(self, dataset: str, head: RecordedHead, restored_at: int | None) -> None:  # noqa: ARG002
        """Replace the record; nothing else in the folder names an entry."""
        self.advance(dataset, head)


def open_bound_ledger(schema: Schema, where: str | Path | None = None, wait: float = 10) -> Ledger:
    """Open the data set's ledger, with all its snapshots entered; the first ledger is bound to the data set now."""
    dataset_dir, address = DatasetDir(schema), get_ledger_address(schema, where)
    manifest = dataset_dir.read_manifest()
    if manifest is not None and manifest.ledger is not None:  # for good: no need to wait for a registration under way
        return _attach_ledger(schema, manifest, Ledger.existing(address, wait))
    with dataset_dir.lock():
        manifest = dataset_dir.read_manifest() or DatasetManifest.new(schema)
        if manifest.ledger is not None:
            return _attach_ledger(schema, manifest, Ledger.existing(address, wait))
        return _attach_ledger(schema, manifest, Ledger.open(address, wait))


def _attach_ledger(schema: Schema, manifest: DatasetManifest, ledger: Ledger) -> Ledger:
    """The same ledger, if it is the data set's, with all its snapshots; to enter one again changes nothing.

    Its heads are recorded last: a refused ledger is closed, and leaves nothing in the folder.
    """
    dataset_dir = DatasetDir(schema)
    try:
        if manifest.ledger not in (None, ledger.id):
            raise InvalidInput(f"the spend of {schema.name} is kept in another ledger than this one; name that one")
        ledger.compare(schema.name, FolderHeads(dataset_dir))  # first: nothing is entered in an older copy
        for snapshot in manifest.snapshots:
            ledger.register(schema.name, manifest.identity, snapshot.name, snapshot.disjoint)
        if manifest.ledger is None:
            dataset_dir.write_manifest(replace(manifest, ledger=ledger.id))
        ledger.record_heads(schema.name, FolderHeads(dataset_dir))
    except DiscreetError:
        ledger.close()
        raise
    return ledger


def get_ledger_address(schema: Schema, where: str | Path | None = None) -> str | Path:
    """Where the ledger of a data set is: at the address given, or in its own folder."""
    return where if where is not None else DatasetDir(schema).folder / "ledger.db"
