"""A source that is opened when it is first read: for who plans and looks, and for engines that are dear to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from discreet.query.released import Batch, ReleasePlan
from discreet.query.totals import Amounts, Cell, Histogram, Totals
from discreet.sources.plan import Source


@dataclass(slots=True)
class Later:
    """What `opening` opens, once; threads may share it."""

    opening: Callable[[], Source]
    _source: Source | None = None
    _lock: Lock = field(default_factory=Lock)

    def totals(self, plan: Totals) -> Mapping[Cell, Amounts]:
        return self.opened().totals(plan)

    def histogram(self, plan: Histogram) -> Mapping[Cell, NDArray[np.int64]]:
        return self.opened().histogram(plan)

    def individual(self, column: str, unit: str) -> int | None:
        return self.opened().individual(column, unit)

    def count(self) -> int:
        return self.opened().count()

    def records(self) -> Iterator[Batch]:
        return self.opened().records()

    def released(self, plan: ReleasePlan, key: str) -> Iterator[Batch]:
        return self.opened().released(plan, key)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    @property
    def source(self) -> Source | None:
        """What is open, if it is."""
        return self._source

    def opened(self) -> Source:
        """Open it, unless it is open."""
        with self._lock:
            if self._source is None:
                self._source = self.opening()
            return self._source
