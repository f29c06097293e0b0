"""Exact MDAV: its time, how it grows, and how many times faster it is than the naive algorithm with the same groups."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.measure import Line
from benchmarks.microdata.cpu_time import measure_processor_time
from benchmarks.microdata.naive_mdav import array_mdav, naive_mdav
from discreet.sdc.methods.microaggregate import microaggregate

K = 10


def generate_records(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, 4))


def run() -> list[Line]:
    microaggregate(generate_records(100), K)  # compiled
    few, many = _time_mdav(100_000, 3), _time_mdav(1_000_000, 2)
    return [
        Line("MDAV of 100,000 x 4, k = 10", few, "s", 1, False),
        Line("MDAV of 1,000,000 x 4, k = 10", many, "s", 10, False),
        Line("its growth from 100,000", many / few, "times", 30, False),
        *_compare_with_naive(50_000),
    ]


def _time_mdav(rows: int, rounds: int) -> float:
    table = generate_records(rows)
    return measure_processor_time(lambda: microaggregate(table, K), rounds)


def _compare_with_naive(rows: int) -> list[Line]:
    """Three ways to be naive; where the groups are not the same there is no figure.

    The bar is for the algorithm as it is written, which sorts, and for arrays; the leanest quadratic one, written for
    speed alone, is told beside them.
    """
    table = generate_records(rows)
    ours, groups = measure_processor_time(lambda: microaggregate(table, K), 5), microaggregate(table, K)

    def time_naive(naive: Callable[[np.ndarray], np.ndarray]) -> float:
        naive(generate_records(100))
        assert np.array_equal(naive(table), groups)
        return measure_processor_time(lambda: naive(table), 1) / ours

    lean = (
        f"{time_naive(lambda points: naive_mdav(points, K, False)):.3g} times against one that keeps the nearest so far"
    )
    sorting, arrays = (
        time_naive(lambda points: naive_mdav(points, K, True)),
        time_naive(lambda points: array_mdav(points, K)),
    )
    return [
        Line("50,000 x 4 against naive MDAV, which sorts", sorting, "times", 30, True, lean),
        Line("50,000 x 4 against naive MDAV with arrays", arrays, "times", 30, True),
    ]
