"""Which ledger keeps a data set's spend: the first it was opened with, and no other from then on.

An empty ledger in its place would be a new budget, and an older copy would be one that was spent already.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from discreet.custodian.heads import FolderHeads
from discreet.custodian.place import DatasetDir, DatasetManifest
from discreet.errors import DiscreetError, InvalidInput
from discreet.ledger import Ledger
from discreet.schema import Schema


def open_bound_ledger(schema: Schema, where: str | Path | None = None, wait: float = 10) -> Ledger:
    """The data set's ledger, told of all its snapshots; bound to it now if it is the first."""
    dataset_dir, address = DatasetDir(schema), get_ledger_address(schema, where)
    manifest = dataset_dir.read_manifest()
    if manifest is not None and manifest.ledger is not None:  # for good: no need to wait for a registration under way
        return _record_heads(schema, _register_snapshots(schema, manifest, open_existing_ledger(address, wait)))
    with dataset_dir.lock():
        manifest = dataset_dir.read_manifest() or DatasetManifest.new(schema)
        if manifest.ledger is not None:
            return _record_heads(schema, _register_snapshots(schema, manifest, open_existing_ledger(address, wait)))
        ledger = _register_snapshots(schema, manifest, Ledger.open(address, wait))
        try:
            dataset_dir.write_manifest(replace(manifest, ledger=ledger.id))
        except DiscreetError:
            ledger.close()
            raise
        return _record_heads(schema, ledger)


def _register_snapshots(schema: Schema, manifest: DatasetManifest, ledger: Ledger) -> Ledger:
    """The same ledger, if it is the data set's, with all its snapshots; to enter one again changes nothing."""
    try:
        if manifest.ledger not in (None, ledger.id):
            raise InvalidInput(f"the spend of {schema.name} is kept in another ledger than this one; name that one")
        ledger.compare(schema.name, FolderHeads(DatasetDir(schema)))  # first: nothing is entered in an older copy
        for snapshot in manifest.snapshots:
            ledger.register(schema.name, manifest.identity, snapshot.name, snapshot.disjoint)
    except DiscreetError:
        ledger.close()
        raise
    return ledger


def _record_heads(schema: Schema, ledger: Ledger) -> Ledger:
    """Record the heads of a ledger once it is the data set's: a refused ledger leaves nothing in the folder."""
    try:
        ledger.record_heads(schema.name, FolderHeads(DatasetDir(schema)))
    except DiscreetError:
        ledger.close()
        raise
    return ledger


def get_ledger_address(schema: Schema, where: str | Path | None = None) -> str | Path:
    """Where the ledger of a data set is: as told, or in its own folder."""
    return where if where is not None else DatasetDir(schema).folder / "ledger.db"


def open_existing_ledger(where: str | Path, wait: float = 10) -> Ledger:
    """A ledger that is there already; none is made."""
    return Ledger.existing(where, wait)
