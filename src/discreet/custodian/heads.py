"""The last head of a data set's ledger, recorded in the data set's own folder.

A ledger elsewhere that is set back, and a back-up that is put in its place, are then noticed by commands and the
library too. Whoever sets the whole folder back sets the record back with it: a service has another in its store.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

from discreet.custodian.place import DatasetDir
from discreet.ledger.recorded import RecordedHead

HEAD_FILE = "ledger-head.json"


class FolderHeads:
    """A small file that is replaced whole after each entry.

    It is not flushed to the disk: one that is lost with the power, or cannot be written, is behind the ledger, which
    is harmless.
    """

    def __init__(self, dataset_dir: DatasetDir) -> None:
        self._file: Path = dataset_dir.folder / HEAD_FILE

    def read(self, dataset: str) -> RecordedHead | None:
        """The last head that was recorded; None where there is none that can be read."""
        try:
            payload = json.loads(self._file.read_text(encoding="utf-8"))
            if payload.pop("dataset") != dataset:
                return None
            if not set(payload) <= {"ledger", "entry", "hash", "restores"}:
                return None
            return RecordedHead(
                ledger=payload["ledger"],
                entry=payload["entry"],
                hash=payload["hash"],
                restores=tuple(payload["restores"]),
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def advance(self, dataset: str, head: RecordedHead) -> None:
        """Replace the record, if that can be. Of two at once the last one stays, which may be the earlier head."""
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
        """The same; nothing else in the folder names an entry."""
        self.advance(dataset, head)
