"""The thesis's own noise: it gives the printed figures, says that it promises nothing, and is never published."""

from __future__ import annotations

import math

import numpy as np
import pytest
from papers.nominal_noise import release_nominally

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.privacy.guarantee import DP_MODELS
from discreet.sdc.table import Table, read_table
from support.published_data import find_shared_data

NAMES = ("FICA", "FEDTAX", "INTVAL", "POTHVAL")
PLAIN = {"0.01": 1.62e13, "0.1": 1.54e13, "1": 8.86e12, "10": 3.69e11}
"""Table 6.2: SSE with k = 1, for each epsilon."""
BETTER = {(5, "1"): 2.49, (15, "1"): 6.57, (30, "1"): 9.92, (5, "10"): 3.26, (15, "10"): 3.37, (30, "10"): 2.90}
"""SSE_f of some cells of Table 6.2: the root of how many times smaller SSE is than with k = 1."""


@pytest.fixture(scope="module")
def census() -> Table:
    """Four columns, with domains from 0 to 1.5 times the greatest."""
    path = find_shared_data("census.csv")
    names = path.read_text().splitlines()[0].split(",")
    columns = dict(zip(names, np.loadtxt(path, delimiter=",", skiprows=1).T, strict=True))
    chosen = {name: columns[name] for name in NAMES}
    return read_table(chosen, domains={name: (0, 1.5 * column.max()) for name, column in chosen.items()})


def mean_sse(table: Table, k: int, epsilon: str, runs: int) -> float:
    entropy = KeyedEntropy(b"a key of this test", f"{k} {epsilon}")
    released = [release_nominally(table, k, float(epsilon), entropy)[0] for _ in range(runs)]
    return (
        sum(float(((each[name].values - table[name].values) ** 2).sum()) for each in released for name in NAMES) / runs
    )


@pytest.mark.parametrize("epsilon", PLAIN)
def test_table_6_2_without_microaggregation(census: Table, epsilon: str) -> None:
    """The mean SSE is that printed, within 4 %."""
    assert mean_sse(census, 1, epsilon, 60) == pytest.approx(PLAIN[epsilon], rel=0.04)


@pytest.mark.parametrize(("k", "epsilon"), BETTER)
def test_table_6_2_with_microaggregation(census: Table, k: int, epsilon: str) -> None:
    """SSE_f is as printed, within 4 %."""
    assert math.sqrt(PLAIN[epsilon] / mean_sse(census, k, epsilon, 20)) == pytest.approx(BETTER[k, epsilon], rel=0.04)


def test_it_promises_nothing() -> None:
    """The label is nominal, which no account counts; every value lies in the domain."""
    table = read_table({"x": [1.0, 2.0, 3.0, 9.0]}, domains={"x": (0, 10)})
    released, claim = release_nominally(table, 2, 0.01)
    assert claim.model == "nominal"
    assert claim.model not in DP_MODELS
    assert "thesis" in claim.assumptions[0]
    assert ((released["x"].values >= 0) & (released["x"].values <= 10)).all()


def test_what_it_is_not_for_is_refused() -> None:
    """Names and missing values had another noise in the thesis, and a point has no scale."""
    with pytest.raises(InvalidInput, match="numbers without missing values"):
        release_nominally(read_table({"x": ["a", "b"]}), 1, 1)
    with pytest.raises(InvalidInput, match="numbers without missing values"):
        release_nominally(read_table({"x": [1.0, None]}), 1, 1)
    with pytest.raises(InvalidInput, match="wider than a point"):
        release_nominally(read_table({"x": [1.0, 1.0]}), 1, 1)
