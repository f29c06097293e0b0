"""Chapter 7 of the thesis, where test_reproduce_thesis does not go: more values of t, and groups however they fall."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from papers.chapter_7_figures import compute_theoretical_masses
from papers.medical_data import MEDICAL, QUASI

from discreet.sdc.methods.anatomy import anatomy
from discreet.sdc.methods.t_closeness import t_close
from support.fixed_streams import Stream


def test_table_7_4() -> None:
    """Anatomy keeps the quasi-identifiers; three groups of three, with the values that they have."""
    released = anatomy(MEDICAL, 3, QUASI, "problem", partition="quasi", entropy=Stream(1))
    assert all(released[name].tolist() == MEDICAL[name].tolist() for name in QUASI)
    assert sorted(Counter(released["group"].tolist()).values()) == [3, 3, 3]
    assert released.second is not None
    second = released.second.to_arrays()
    counts = Counter(zip(second["group"].tolist(), second["problem"], strict=True))
    counts.update(
        dict(zip(zip(second["group"].tolist(), second["problem"], strict=True), second["count"] - 1, strict=True))
    )
    assert +counts == Counter(zip(released["group"].tolist(), MEDICAL["problem"], strict=True))


@pytest.mark.parametrize("t", [1, 2, 3, 7])
def test_table_7_6(t: int) -> None:
    """t/(t + 1) where a bucket stands out and 1/(t (t + 1)) elsewhere; each group's masses add up to 1."""
    whole, *groups = compute_theoretical_masses(t)
    assert whole == (Fraction(1, t + 1),) * (t + 1)
    for number, group in enumerate(groups):
        rest = Fraction(1, t * (t + 1))
        assert group == tuple(Fraction(t, t + 1) if place == number else rest for place in range(t + 1))


@pytest.mark.parametrize("t", [1, 1.5, 2, 2.5, 3.99])
def test_theoretical_masses_are_t_close(t: float) -> None:
    """For a t that is not whole too: one bucket more would not be."""
    whole, *groups = compute_theoretical_masses(t)
    close = Fraction(str(t))
    assert all(sum(group) == 1 for group in groups)
    assert max(max(a / b, b / a) for group in groups for a, b in zip(group, whole, strict=True)) <= close
    assert compute_theoretical_masses(2.5)[1][0] * 3 == Fraction("2.2")


def test_the_construction_reaches_table_7_6() -> None:
    """With enough rows the groups have exactly the theoretical masses."""
    rows, t = 1152, 3
    released = t_close({"q": np.arange(rows), "c": np.arange(rows)}, t, 48, "q", "c")
    values = np.unique(released["c"])
    masses = {
        tuple(Fraction(int((released["c"][members] == value).sum()), len(members)) for value in values)
        for label in np.unique(released.groups["records"])
        for members in [np.flatnonzero(released.groups["records"] == label)]
    }
    assert masses == set(compute_theoretical_masses(t)[1:])
    assert released.facts["exact"] == {"t_ratio": "3", "t_emd": str(Fraction(1, 3)), "t_between_groups": "9"}
