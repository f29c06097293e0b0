"""Exact MDAV: its time, how it grows, and how many times faster it is than the naive algorithm with the same groups."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import Line
from benchmarks.microdata.naive import naive_mdav
from benchmarks.microdata.processor import processor_time
from discreet.microdata.microaggregate import microaggregate

K = 10


def records(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, 4))


def run() -> list[Line]:
    microaggregate(records(100), K)  # compiled
    few, many = _took(100_000, 3), _took(1_000_000, 2)
    return [
        Line("MDAV of 100,000 x 4, k = 10", few, "s", 1, False),
        Line("MDAV of 1,000,000 x 4, k = 10", many, "s", 10, False),
        Line("its growth from 100,000", many / few, "times", 30, False),
        *_against_naive(50_000),
    ]


def _took(rows: int, rounds: int) -> float:
    table = records(rows)
    return processor_time(lambda: microaggregate(table, K), rounds)


def _against_naive(rows: int) -> list[Line]:
    """Both ways to be naive; where the groups are not the same there is no figure.

    The bar is for the algorithm as it is written, which sorts; the leanest quadratic one is told beside it.
    """
    table, few = records(rows), records(100)
    ours, groups = processor_time(lambda: microaggregate(table, K), 5), microaggregate(table, K)
    times = []
    for by_sorting in (True, False):
        naive_mdav(few, K, by_sorting)
        theirs = processor_time(lambda by=by_sorting: naive_mdav(table, K, by), 1)
        assert np.array_equal(naive_mdav(table, K, by_sorting), groups)
        times.append(theirs / ours)
    beside = f"{times[1]:.3g} times against one that keeps the nearest so far"
    return [Line("50,000 x 4 against naive MDAV, which sorts", times[0], "times", 30, True, beside)]
