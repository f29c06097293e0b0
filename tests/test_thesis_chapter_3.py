"""Chapter 3 of the thesis on the Census data: Table 3.6, and what MDAV-ID, MDAV-SWAP and IR-SWAP do to correlations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from discreet.kernel.entropy import KeyedEntropy
from discreet.microdata.mdav_id import mdav_id
from discreet.microdata.swapping import ir_swap, mdav_swap
from published_data import shared_data

QUASI, CONFIDENTIAL = slice(0, 6), slice(6, 13)

TABLE_3_6 = """
.0038 -.027 -.024 .031 .032 .039 .036
.98 .14 .2 .73 .71 .72 .7
.44 -.12 -.058 .56 .55 .56 .55
.98 .2 .28 .73 .69 .71 .69
.78 .27 .27 .9 .85 .88 .86
.79 .13 .22 .59 .57 .57 .56
1 .17 .23 .72 .7 .71 .69
. 1 .45 -.17 -.19 -.17 -.17
. . 1 .072 .061 .070 .075
. . . 1 .96 .98 .96
. . . . 1 .91 .89
. . . . . 1 .97
. . . . . . 1
"""
"""As printed, but A9-A12, where ".70" is a misprint of .070."""

TABLE_3_10 = {
    5: (0.055, 0.037, 0.0021),
    7: (0.062, 0.048, 0.0022),
    9: (0.069, 0.055, 0.0028),
    11: (0.078, 0.061, 0.0038),
    25: (0.11, 0.091, 0.0061),
    50: (0.14, 0.13, 0.010),
    100: (0.17, 0.19, 0.020),
    200: (0.29, 0.31, 0.044),
    300: (0.38, 0.37, 0.087),
}
"""The means of MDAV-ID, MDAV-SWAP and IR-SWAP for each k."""


def census() -> dict[str, np.ndarray]:
    """The data, column by column in the file's order: A1 to A13."""
    path = shared_data("census.csv")
    names = path.read_text().splitlines()[0].split(",")
    return dict(zip(names, np.loadtxt(path, delimiter=",", skiprows=1).T, strict=True))


def correlations(table: Mapping[str, np.ndarray], names: list[str]) -> np.ndarray:
    """Between all columns."""
    return np.corrcoef([table[name] for name in names])


def change(before: np.ndarray, after: np.ndarray) -> float:
    """The mean of |after - before| over 78 pairs: 63 that touch a confidential column, 15 that count as unchanged."""
    pairs = [(row, column) for column in range(6, 13) for row in range(column)]
    return sum(abs(after[pair] - before[pair]) for pair in pairs) / 78


def test_table_3_6() -> None:
    """The correlations to the confidential columns, to the two digits printed."""
    table = census()
    found = correlations(table, list(table))[:, CONFIDENTIAL]
    for row, printed in zip(found, TABLE_3_6.split("\n")[1:-1], strict=True):
        for value, text in zip(row, printed.split(), strict=True):
            if text != ".":
                digits = len(text.lstrip("-").lstrip("0."))
                assert float(f"{value:.{max(digits, 1)}g}") == pytest.approx(float(text), abs=1e-9), (value, text)


def pooled(
    method: Callable[[KeyedEntropy], Mapping[str, np.ndarray]], runs: int, table: dict[str, np.ndarray]
) -> float:
    """The change of correlations, over so many runs with a fixed key."""
    names, entropy = list(table), KeyedEntropy(b"chapter 3", "test")
    before = correlations(table, names)
    return float(np.mean([change(before, correlations(method(entropy), names)) for _ in range(runs)]))


def mdav_id_at(k: int) -> float:
    """All columns replaced by their centroids, in raw units."""
    table = census()
    return pooled(lambda _: mdav_id(table, k, list(table), scale=None), 1, table)


def mdav_swap_at(k: int, runs: int) -> float:
    """Against informed intruders, in raw units."""
    table = census()
    quasi, confidential = list(table)[QUASI], list(table)[CONFIDENTIAL]

    def once(entropy: KeyedEntropy) -> Mapping[str, np.ndarray]:
        return mdav_swap(table, k, quasi, confidential, intruder="informed", scale=None, entropy=entropy)

    return pooled(once, runs, table)


def ir_swap_at(k: int, runs: int) -> float:
    """Every confidential column on its own."""
    table = census()
    return pooled(lambda entropy: ir_swap(table, k, list(table)[CONFIDENTIAL], entropy=entropy), runs, table)


@pytest.mark.parametrize("k", TABLE_3_10)
def test_table_3_10_mdav_id(k: int) -> None:
    """Within 6 % of the printed mean."""
    assert mdav_id_at(k) == pytest.approx(TABLE_3_10[k][0], rel=0.06)


@pytest.mark.parametrize("k", TABLE_3_10)
def test_table_3_10_mdav_swap(k: int) -> None:
    """Within 6 % of the printed mean."""
    assert mdav_swap_at(k, 6) == pytest.approx(TABLE_3_10[k][1], rel=0.06)


@pytest.mark.parametrize("k", TABLE_3_10)
def test_table_3_10_ir_swap(k: int) -> None:
    """Within 18 % of the printed mean."""
    assert ir_swap_at(k, 20) == pytest.approx(TABLE_3_10[k][2], rel=0.18)


@pytest.mark.soak
@pytest.mark.parametrize("k", TABLE_3_10)
def test_table_3_10_over_a_hundred_runs(k: int) -> None:
    """The same over as many runs as the thesis made."""
    assert mdav_swap_at(k, 100) == pytest.approx(TABLE_3_10[k][1], rel=0.06)
    assert ir_swap_at(k, 100) == pytest.approx(TABLE_3_10[k][2], rel=0.18)
