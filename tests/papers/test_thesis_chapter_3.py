"""Chapter 3 of the thesis on the Census data, over as many runs as it made; fewer are in test_reproduce_thesis."""

from __future__ import annotations

import pytest
from papers.chapter_3 import QUASI, WITHIN
from papers.columns import read_census
from papers.correlations import METHODS, measure_change
from papers.printed_3 import TABLE_3_10
from papers.tables import Data

from support.published_data import FOLDER, find_shared_data


@pytest.mark.soak
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", TABLE_3_10)
def test_table_3_10_over_a_hundred_runs(k: int, method: str) -> None:
    """The mean, and with it the deviation, as near as with fewer runs."""
    find_shared_data("census.csv")
    printed = [float(text) for text in TABLE_3_10[k][METHODS.index(method)]]
    change = measure_change(read_census(Data(FOLDER)), method, k, len(QUASI), 100)
    assert list(change.figures) == pytest.approx(printed, rel=WITHIN[method])
