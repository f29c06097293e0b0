"""What the measures of the thesis's chapter 6 say of a release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.sdc.linkage import measure_distance_linkage
from discreet.sdc.methods.microaggregate import microaggregate
from discreet.sdc.methods.record_distance import build_spaces, compute_centroids
from discreet.sdc.table import Table
from discreet.sdc.utility import compute_squared_errors, match_tables

NOMINAL = "this noise is not epsilon-differentially private: nominal, to reproduce the table only (erratum 3.1)"
THEIR_RUNS = 10


@dataclass(frozen=True, slots=True)
class ReleaseMeasures:
    """SSE and the percentage of record linkages (6.4.2), and by how much means and variances change (6.4.4)."""

    sse: float
    linkages: float
    means: dict[str, float]
    variances: dict[str, float]

    @staticmethod
    def of(before: Table, after: Table) -> ReleaseMeasures:
        """Of a release whose rows stand as those of the original."""
        one, two = build_spaces([before, after], "domain")
        numeric = [name for name in before if before[name].kind == "numeric"]
        values = {name: (before[name].values, after[name].values) for name in numeric}
        return ReleaseMeasures(
            math.fsum(compute_squared_errors(match_tables(before, after, True)).values()),
            measure_distance_linkage(one, two),
            {
                name: _compute_variation(before_values.mean(), after_values.mean())
                for name, (before_values, after_values) in values.items()
            },
            {
                name: _compute_variation(before_values.var(), after_values.var())
                for name, (before_values, after_values) in values.items()
            },
        )


def _compute_variation(before: float, after: float) -> float:
    return float(abs(after - before) / abs(before))


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """Several releases of the same kind."""

    each: tuple[ReleaseMeasures, ...]

    @property
    def sse(self) -> float:
        """The mean."""
        return float(np.mean([one.sse for one in self.each]))

    @property
    def linkages(self) -> float:
        """The mean."""
        return float(np.mean([one.linkages for one in self.each]))

    @property
    def linkage_error(self) -> float:
        """The standard error of our mean beside theirs of ten runs, as a share of the mean."""
        return self._share([one.linkages for one in self.each])

    def variation(self, statistic: str, column: str) -> tuple[float, float]:
        """The mean change of a column's "means" or "variances", and its standard error as for linkages."""
        changes = [getattr(one, statistic)[column] for one in self.each]
        return float(np.mean(changes)), self._share(changes)

    def _share(self, values: Sequence[float]) -> float:
        both = 1 / len(self.each) + 1 / THEIR_RUNS
        return float(np.std(values) * math.sqrt(both) / np.mean(values))


def measure_microaggregated(table: Table, k: int, method: str = "mdav") -> ReleaseMeasures:
    """MDAV, or insensitive microaggregation, without any noise."""
    groups = microaggregate(table, k, method, "domain")
    return ReleaseMeasures.of(table, table.put(*(compute_centroids(table[name], groups) for name in table)))
