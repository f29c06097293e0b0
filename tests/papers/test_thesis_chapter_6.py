"""Chapter 6 of the thesis on the Census data: what MDAV alone does to values, records and variances."""

from __future__ import annotations

import pytest
from papers.census_noise import find_printed_variations, read_four_columns
from papers.printed_6 import TABLE_6_1
from papers.tables import Data

from discreet.sdc.comparison import Comparison, compare_release, score
from discreet.sdc.methods.microaggregate import microaggregate
from discreet.sdc.methods.record_distance import compute_centroids
from support.published_data import FOLDER, find_shared_data

NAMES = ("FEDTAX", "POTHVAL", "INTVAL", "FICA")

SCORES = ((0.014, 386.92, 5.37), (0.015, 457.27, 6.74), (0.17, 16.1, 2.73), (0.667, 3.14, 2.1), (0.955, 1.27, 1.21))
"""SSE_f, RL_f and Score of some cells of Table 6.1."""


@pytest.fixture(scope="module")
def compare_centroids() -> dict[int, Comparison]:
    """MDAV's centroids beside the data, under the settings of the thesis: domains from 0 to 1.5 times the greatest."""
    find_shared_data("census.csv")
    table = read_four_columns(Data(FOLDER))
    differences = {}
    for k in TABLE_6_1:
        groups = microaggregate(table, k, scale="domain")
        released = table.put(*(compute_centroids(table[name], groups) for name in table))
        differences[k] = compare_release(table, released, NAMES, groups=groups, k=k)
    return differences


@pytest.mark.parametrize("k", TABLE_6_1)
def test_table_6_1(compare_centroids: dict[int, Comparison], k: int) -> None:
    """SSE in raw units and the percentage of record linkages come out as printed, ties shared."""
    sse, linkage, *_ = TABLE_6_1[k]
    assert f"{compare_centroids[k].sse:.2E}" == sse
    assert f"{compare_centroids[k].linkage:#.3g}" == linkage


@pytest.mark.parametrize("k", TABLE_6_1)
def test_table_6_5(compare_centroids: dict[int, Comparison], k: int) -> None:
    """Means stay as they are, and variances change as printed."""
    for name, (before, after) in compare_centroids[k].means.items():
        assert after == pytest.approx(before, rel=1e-12), name
    change = {
        name: f"{abs(after - before) / before:.4f}" for name, (before, after) in compare_centroids[k].variances.items()
    }
    assert change == find_printed_variations("variances", k, 5)


@pytest.mark.parametrize(("sse_f", "rl_f", "printed"), SCORES)
def test_the_score_is_a_product(sse_f: float, rl_f: float, printed: float) -> None:
    """The printed scores are products of the printed factors, to their digits; the formula beside them divides."""
    assert score(sse_f**2, rl_f, 1, 1) == pytest.approx(printed, rel=0.04)
    assert abs(sse_f / rl_f - printed) > 0.1
