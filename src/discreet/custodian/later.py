"""A source that is opened when it is first read: for who plans and looks, and for engines that are dear to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from discreet.query.released import ReleaseBatch, ReleasePlan
from discreet.query.totals import Amounts, Cell, HistogramScan, TotalsScan
from discreet.sources.plan import Source


@dataclass(slots=True)
class LazySource:
    """What `opening` opens, once; threads may share it."""

    opener: Callable[[], Source]
    _source: Source | None = None
    _lock: Lock = field(default_factory=Lock)

    def totals(self, plan: TotalsScan) -> Mapping[Cell, Amounts]:
        return self.ensure_open().totals(plan)

    def histogram(self, plan: HistogramScan) -> Mapping[Cell, NDArray[np.int64]]:
        return self.ensure_open().histogram(plan)

    def individual(self, column: str, unit: str) -> int | None:
        return self.ensure_open().individual(column, unit)

    def count(self) -> int:
        return self.ensure_open().count()

    def records(self) -> Iterator[ReleaseBatch]:
        return self.ensure_open().records()

    def release_rows(self, plan: ReleasePlan, key: str) -> Iterator[ReleaseBatch]:
        return self.ensure_open().release_rows(plan, key)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    @property
    def source(self) -> Source | None:
        """What is open, if it is."""
        return self._source

    def ensure_open(self) -> Source:
        """Open it, unless it is open."""
        with self._lock:
            if self._source is None:
                self._source = self.opener()
            return self._source
