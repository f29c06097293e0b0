"""Columns on disk, so that a table may be larger than memory: what is worked on is one column, or a few.

The files are in the custodian's own folder and have no names, so that nothing is left of them however the process ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unavailable
from discreet.microdata.table import Attribute

Name = TypeVar("Name")


class Spool:
    """Arrays that are read from disk where they are used. Texts, which have no fixed size, stay in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, values: NDArray[Any]) -> NDArray[Any]:
        """The same values, on disk."""
        return self.gathered([{"values": values}])["values"]

    def kept(self, attribute: Attribute) -> Attribute:
        """The same attribute, its values on disk."""
        return replace(attribute, values=self.keep(attribute.values))

    def gathered(self, parts: Iterable[Mapping[Name, NDArray[Any]]]) -> dict[Name, NDArray[Any]]:
        """Parts of columns one after another; none at all where there are no parts."""
        written: dict[Name, _Column] = {}
        try:
            with ExitStack() as files:
                for part in parts:
                    for name, values in part.items():
                        if name not in written:
                            written[name] = _Column(files.enter_context(TemporaryFile(dir=self._folder)), values.dtype)
                        written[name].add(values)
                return {name: column.whole() for name, column in written.items()}
        except OSError:
            raise Unavailable(f"the folder {self._folder} cannot be written; check its owner and the disk") from None


class _Column:
    def __init__(self, file: IO[bytes], dtype: np.dtype[Any]) -> None:
        self._file, self._dtype, self._rows = file, dtype, 0
        self._texts: list[NDArray[Any]] = []

    def add(self, values: NDArray[Any]) -> None:
        self._rows += len(values)
        if self._dtype.kind == "O":
            self._texts.append(values)
        else:
            self._file.write(np.ascontiguousarray(values, self._dtype).data)

    def whole(self) -> NDArray[Any]:
        if self._dtype.kind == "O":
            return np.concatenate(self._texts)
        self._file.flush()
        if not self._rows:
            return np.empty(0, self._dtype)
        return np.memmap(self._file, self._dtype, mode="r").view(np.ndarray)
