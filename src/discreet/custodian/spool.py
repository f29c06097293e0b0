"""Columns on disk, so that a table may be larger than memory: what is worked on is one column, or a few.

The files are in the custodian's own folder and have no names, so that nothing is left of them however the process ends.
"""

from __future__ import annotations

import errno
import resource
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unavailable
from discreet.microdata.table import Attribute

Name = TypeVar("Name", bound=Hashable)
Array = NDArray[Any]
ITEM_BYTES = 8
"""Of a code or a number, in bytes."""


class Spool:
    """Arrays that are read from disk where they are used. Texts, which have no fixed size, stay in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _, file_limit = resource.getrlimit(resource.RLIMIT_NOFILE)  # every array that is on disk holds a file open
        resource.setrlimit(resource.RLIMIT_NOFILE, (file_limit, file_limit))

    def store_array(self, values: Array) -> Array:
        """The same values, on disk."""
        with self._translate_errors(), TemporaryFile(dir=self.folder) as file:
            file.write(np.ascontiguousarray(values).data)
            file.flush()
            return np.memmap(file, values.dtype, mode="r").view(np.ndarray)

    def store_attribute(self, attribute: Attribute) -> Attribute:
        """The same attribute, its values on disk."""
        return replace(attribute, values=self.store_array(attribute.values))

    def gather_columns(self, parts: Iterable[Mapping[Name, Array]], rows: int) -> dict[Name, Array]:
        """Parts of columns of whole numbers or texts one after another, all in one file; there are so many rows."""
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
