"""Chapter 6 of the thesis on the Census data: what MDAV alone does to values, records and variances."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.assess.compare import compare_release
from discreet.assess.comparison import Comparison
from discreet.assess.verdict import score
from discreet.microdata.centroids import centroids
from discreet.microdata.microaggregate import microaggregate
from discreet.microdata.reading import read_table
from published_data import shared_data

NAMES = ("FEDTAX", "POTHVAL", "INTVAL", "FICA")

TABLE_6_1 = {2: ("3.07e+09", "45.3"), 5: ("1.20e+10", "18.4"), 15: ("2.41e+10", "6.48"), 30: ("4.00e+10", "3.33")}
"""SSE_0 and RL_0 for each k."""

TABLE_6_5 = {
    2: (0.0053, 0.0247, 0.0349, 0.0067),
    5: (0.0156, 0.0991, 0.1327, 0.0224),
    15: (0.0398, 0.1967, 0.2614, 0.0670),
    30: (0.0639, 0.3214, 0.4729, 0.1060),
}
"""The MDAV column: by how much the variance of each attribute changes."""

SCORES = ((0.014, 386.92, 5.37), (0.015, 457.27, 6.74), (0.17, 16.1, 2.73), (0.667, 3.14, 2.1), (0.955, 1.27, 1.21))
"""SSE_f, RL_f and Score of some cells of Table 6.1."""


@pytest.fixture(scope="module")
def compared() -> dict[int, Comparison]:
    """MDAV's centroids beside the data, under the settings of the thesis: domains from 0 to 1.5 times the greatest."""
    path = shared_data("census.csv")
    names = path.read_text().splitlines()[0].split(",")
    columns = dict(zip(names, np.loadtxt(path, delimiter=",", skiprows=1).T, strict=True))
    chosen = {name: columns[name] for name in NAMES}
    table = read_table(chosen, domains={name: (0, 1.5 * column.max()) for name, column in chosen.items()})
    found = {}
    for k in TABLE_6_1:
        groups = microaggregate(table, k, scale="domain")
        released = table.put(*(centroids(table[name], groups) for name in NAMES))
        found[k] = compare_release(table, released, NAMES, groups=groups, k=k)
    return found


@pytest.mark.parametrize("k", TABLE_6_1)
def test_table_6_1(compared: dict[int, Comparison], k: int) -> None:
    """SSE in raw units and the percentage of record linkages come out as printed, ties shared."""
    sse, linkage = TABLE_6_1[k]
    assert f"{compared[k].sse:.2e}" == sse
    assert f"{compared[k].linkage:#.3g}" == linkage


@pytest.mark.parametrize("k", TABLE_6_5)
def test_table_6_5(compared: dict[int, Comparison], k: int) -> None:
    """Means stay as they are, and variances change as printed."""
    for name, (before, after) in compared[k].means.items():
        assert after == pytest.approx(before, rel=1e-12), name
    change = [f"{abs(after - before) / before:.4f}" for before, after in compared[k].variances.values()]
    assert change == [f"{printed:.4f}" for printed in TABLE_6_5[k]]


@pytest.mark.parametrize(("sse_f", "rl_f", "printed"), SCORES)
def test_the_score_is_a_product(sse_f: float, rl_f: float, printed: float) -> None:
    """The printed scores are products of the printed factors, to their digits; the formula beside them divides."""
    assert score(sse_f**2, rl_f, 1, 1) == pytest.approx(printed, rel=0.04)
    assert abs(sse_f / rl_f - printed) > 0.1
