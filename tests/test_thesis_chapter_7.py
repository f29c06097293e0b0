"""Chapter 7 of the thesis: its tables, as the library makes them."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet.microdata.anatomy import anatomy
from discreet.microdata.closeness import apart, groups_apart, theoretical_masses
from discreet.microdata.generalise import generalise
from discreet.microdata.t_close import t_close
from streams import Stream

GOLDEN = {entry["id"]: entry for entry in json.loads((Path(__file__).parent / "golden.json").read_text())}

TABLE_7_2 = """asian 09/27/64 female hypertension
asian 05/08/61 female obesity
asian 04/18/64 male chest-pain
black 03/13/63 male hypertension
black 03/18/63 male shortness-of-breath
black 09/07/64 female obesity
white 05/14/61 male chest-pain
white 05/08/63 male obesity
white 09/15/61 female shortness-of-breath"""
MEDICAL = dict(
    zip(
        ("ethnicity", "birth", "sex", "problem"),
        np.array([line.split() for line in TABLE_7_2.splitlines()], dtype=object).T,
        strict=True,
    )
)
QUASI = ["ethnicity", "birth", "sex"]

TABLE_7_5 = [2, 1, 1, 3, 2, 3, 1, 2, 3, 3, 1, 2]
FIGURE_7_5 = [[2, 1, 1], [1, 2, 1], [1, 1, 2]]


def test_table_7_3() -> None:
    """Dates of birth and sex go to the top and ethnicity stays: three classes of three."""
    years = {date: date[-2:] for date in MEDICAL["birth"]}
    steps = {
        "birth": [years, dict.fromkeys(years.values(), "[61,64]")],
        "sex": [{"male": "-", "female": "-"}],
    }
    released = generalise(MEDICAL, 3, QUASI, steps, loss="discernibility", confidential="problem")
    assert released["ethnicity"].tolist() == MEDICAL["ethnicity"].tolist()
    assert set(released["birth"]) == {"[61,64]"}
    assert set(released["sex"]) == {"-"}
    assert released["problem"].tolist() == MEDICAL["problem"].tolist()
    assert released.facts["suppressed"] == 0


def test_table_7_4() -> None:
    """Anatomy keeps the quasi-identifiers; three groups of three, with the values that they have."""
    released = anatomy(MEDICAL, 3, QUASI, "problem", partition="quasi", entropy=Stream(1))
    assert all(released[name].tolist() == MEDICAL[name].tolist() for name in QUASI)
    assert sorted(Counter(released["group"].tolist()).values()) == [3, 3, 3]
    assert released.second is not None
    second = released.second.arrays()
    told = Counter(zip(second["group"].tolist(), second["problem"], strict=True))
    told.update(
        dict(zip(zip(second["group"].tolist(), second["problem"], strict=True), second["count"] - 1, strict=True))
    )
    assert +told == Counter(zip(released["group"].tolist(), MEDICAL["problem"], strict=True))


def test_table_7_5() -> None:
    """Twelve records in three buckets and three groups of four, with two of their own bucket and one of the others."""
    table = {"qi": np.arange(1, 13), "c": np.arange(1, 13)}
    released = t_close(table, 1.5, 4, "qi", "c", buckets=3, form="anatomy", entropy=Stream(1))
    assert released.second is not None
    second = released.second.arrays()
    held = second["count"].reshape(3, 3).tolist()
    assert sorted(held, reverse=True) == FIGURE_7_5
    assert second["c"].tolist() == [2.5, 6.5, 10.5] * 3
    assert sorted(Counter(released["group"].tolist()).values()) == [4, 4, 4]


def test_figure_7_5_as_printed() -> None:
    """The printed partition is 1.5-close, with equality, and 2 between groups; and the golden distances."""
    measured = groups_apart(np.array(TABLE_7_5) - 1, np.repeat(np.arange(3), 4))
    assert measured.worst.ratio == Fraction(3, 2)
    found = [apart(held, [4, 4, 4]) for held in FIGURE_7_5]
    for name, values in {
        "tclose.fig75": [each.ratio for each in found],
        "tclose.fig75.emd": [each.emd for each in found],
        "tclose.fig75.tv": [each.variation for each in found],
        "tclose.fig75.pairwise": measured.between,
    }.items():
        golden = GOLDEN[name]
        told = [float(value) for value in values] if isinstance(values, list) else float(values)
        assert told == pytest.approx(golden["expected"], abs=golden["tolerance"])


@pytest.mark.parametrize("t", [1, 2, 3, 7])
def test_table_7_6(t: int) -> None:
    """t/(t + 1) where a bucket stands out and 1/(t (t + 1)) elsewhere; each group's masses add up to 1."""
    whole, *groups = theoretical_masses(t)
    assert whole == (Fraction(1, t + 1),) * (t + 1)
    for own, group in enumerate(groups):
        rest = Fraction(1, t * (t + 1))
        assert group == tuple(Fraction(t, t + 1) if place == own else rest for place in range(t + 1))


@pytest.mark.parametrize("t", [1, 1.5, 2, 2.5, 3.99])
def test_theoretical_masses_are_t_close(t: float) -> None:
    """For a t that is not whole too: one bucket more would not be."""
    whole, *groups = theoretical_masses(t)
    close = Fraction(str(t))
    assert all(sum(group) == 1 for group in groups)
    assert max(max(a / b, b / a) for group in groups for a, b in zip(group, whole, strict=True)) <= close
    assert theoretical_masses(2.5)[1][0] * 3 == Fraction("2.2")


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
    assert masses == set(theoretical_masses(t)[1:])
    assert released.facts["exact"] == {"t_ratio": "3", "t_emd": str(Fraction(1, 3)), "t_between_groups": "9"}
