"""Row 2: sums that move by more than is declared when one row changes (Casacuberta et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import target_faces
import weak_targets

Total = Callable[[Sequence[str]], float]
ODD = 2**44 - 1
"""The largest odd number that a column can hold; after 512 rows of one more, a float64 holds no odd sum."""
EVEN = [ODD + 1] * 512


@dataclass(frozen=True)
class Pair:
    """Two tables that differ in one row at most, of a column with these bounds."""

    one: Sequence[object]
    other: Sequence[object]
    lower: int
    upper: int
    weak: Total = weak_targets.float_total


PAIRS = {
    "wrapped": Pair([2**30, 0], [2**30, 2**30], 0, 2**30, weak_targets.total_in_32_bits),
    "beyond 2^53": Pair([*EVEN, *[ODD] * 3], [ODD, *EVEN[1:], *[ODD] * 3], ODD, ODD + 1),
    "another order": Pair([*EVEN, *[ODD] * 50], [*[ODD] * 50, *EVEN], ODD, ODD + 1),
    "not a number": Pair([1, 2, 3], [1, "nan", 3], 0, 99),
    "infinite": Pair([1, 2, 3], [1, "inf", 3], 0, 99),
    "too long for a float": Pair([1, 2, 3], [1, "1e400", 3], 0, 99),
    "not clipped": Pair([1, 2, 3], [1, "1000000", 3], 0, 99),
}


def attack(total: Total, pair: Pair) -> float:
    """How many times the declared sensitivity the sums of the two tables are apart."""
    one, other = (total([str(cell) for cell in cells]) for cells in (pair.one, pair.other))
    apart = abs(one - other) / (pair.upper - pair.lower)
    return math.inf if math.isnan(apart) else apart


@pytest.mark.parametrize("name", PAIRS)
def test_it_succeeds_against_the_weak_stand_in(name: str) -> None:
    assert attack(PAIRS[name].weak, PAIRS[name]) >= 2


def through_discreet(folder: Path, pair: Pair) -> Total:
    """From the file to the answer, with an epsilon that leaves no noise to speak of."""
    folders = (folder / name for name in ("one", "other"))

    def total(cells: Sequence[str]) -> float:
        people = [f"n{at},{cell},true,Oslo,0" for at, cell in enumerate(cells)]
        schema = {"neighbors": f"replace-one\nunits: {len(cells)}", "lower": pair.lower, "upper": pair.upper}
        with target_faces.ours(next(folders), people, budget=10**6, **schema) as curator:
            return int(curator.ask("SELECT SUM(age) AS n FROM t", 10_000)[0]["n"])

    return total


@pytest.mark.parametrize("name", PAIRS)
def test_it_fails_against_discreet(tmp_path: Path, name: str) -> None:
    """Sums are of whole numbers that were clipped when the table was registered."""
    assert attack(through_discreet(tmp_path, PAIRS[name]), PAIRS[name]) <= 1.01


@pytest.mark.soak
def test_64_bits_wrap_and_discreet_does_not(tmp_path: Path) -> None:
    """As many rows of as much as it takes."""
    pair = Pair([*[2**44] * (2**19 - 1), 0], [2**44] * 2**19, 0, 2**44)
    assert attack(weak_targets.total_in_64_bits, pair) >= 2
    assert attack(through_discreet(tmp_path, pair), pair) <= 1.01
