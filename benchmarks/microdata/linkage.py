"""Record linkage by distance: 100,000 records of four numbers, and how the time grows from 25,000."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import Line, best_time
from discreet.sdc.linkage import measure_distance_linkage
from discreet.sdc.methods.record_distance import RecordSpace

FEW, MANY = 25_000, 100_000


def run() -> list[Line]:
    """The time of the larger file, and how many times that of the smaller it is: linear is 4, quadratic is 16."""
    _time_linkage(100)  # compiled
    few, many = _time_linkage(FEW), _time_linkage(MANY)
    return [
        Line(f"record linkage of {MANY:,} x 4", many, "s", 10, False),
        Line(f"its growth from {FEW:,}, by the naive way 16", many / few, "times", 8, False),
    ]


def _time_linkage(rows: int) -> float:
    """Records and themselves with noise, so that no two are alike."""
    noise = np.random.default_rng(rows)
    before = noise.normal(size=(rows, 4))
    after = before + noise.normal(size=(rows, 4)) / 4
    return best_time(lambda: measure_distance_linkage(_build_space(before), _build_space(after)), 3)


def _build_space(points: np.ndarray) -> RecordSpace:
    return RecordSpace(points, np.zeros((len(points), 0), dtype=np.int64), ())
