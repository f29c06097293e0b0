"""The table as numpy arrays, for the peers that take arrays or lists. Only numpy and pyarrow: peers import it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.query.contestant import locate_file
from benchmarks.query.questions import REGIONS


@dataclass(frozen=True)
class Arrays:
    """Regions as small whole numbers: what text costs is not the peers' to pay."""

    age: NDArray[np.int32]
    income: NDArray[np.float64]
    region: NDArray[np.int8]

    @staticmethod
    def read() -> Arrays:
        table = pq.read_table(locate_file("parquet"), columns=["age", "income", "region"])
        regions = table["region"].combine_chunks().dictionary_encode().indices
        return Arrays(table["age"].to_numpy(), table["income"].to_numpy(), regions.to_numpy().astype(np.int8))

    def by_region(self, values: NDArray[np.generic], is_selected: NDArray[np.bool_]) -> Iterator[NDArray[np.generic]]:
        """The chosen values, region by region; regions are disjoint, so each answer has the whole epsilon."""
        regions, values = self.region[is_selected], values[is_selected]
        return (values[regions == region] for region in range(len(REGIONS)))
