"""The measures of k, l and t: against loops too simple to be wrong, and against the figures of the thesis."""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import ClaimFailed, InvalidInput
from discreet.sdc.table import read_table
from discreet.sdc.verify.anonymity import (
    Anonymity,
    ClassDiversity,
    find_greatest_fraction,
    measure_anatomy,
    measure_anonymity,
    measure_groups,
)

GOLDEN = {each["id"]: each["expected"] for each in json.loads((Path(__file__).parents[2] / "golden.json").read_text())}

MEDICAL = {
    "ethnicity": np.repeat(["asian", "black", "white"], 3),
    "born": np.array(["64-09", "61-05", "64-04", "63-03", "63-03", "64-09", "61-05", "63-05", "61-09"]),
    "problem": np.array(["tension", "obesity", "chest", "tension", "breath", "obesity", "chest", "obesity", "breath"]),
}
"""Table 7.2."""

FIGURE_7_5 = np.array([0, 0, 1, 2, 0, 1, 1, 2, 0, 1, 2, 2], dtype=np.float64)
"""The buckets in P1, P2 and P3, four each."""
THIRDS = np.repeat([0, 1, 2], 4)


def compute_ratio(one: Counter[int], two: Counter[int]) -> Fraction | float:
    """Definition 15, value by value."""
    worst: Fraction | float = Fraction(0)
    for value in {*one, *two}:
        if not one[value] or not two[value]:
            return math.inf
        share = Fraction(one[value] * two.total(), one.total() * two[value])
        worst = max(worst, share, 1 / share)
    return worst


def compute_emd(one: Counter[int], two: Counter[int], m: int) -> Fraction:
    """The ordered earth mover's distance: what has to pass each of the m - 1 steps."""
    passed, total = Fraction(0), Fraction(0)
    for value in range(m):
        passed += Fraction(one[value], one.total()) - Fraction(two[value], two.total())
        total += abs(passed)
    return total / (m - 1) if m > 1 else Fraction(0)


def compute_variation(one: Counter[int], two: Counter[int], m: int) -> Fraction:
    """Half the sum of the differences."""
    parts = (abs(Fraction(one[v], one.total()) - Fraction(two[v], two.total())) for v in range(m))
    return sum(parts, Fraction(0)) / 2


def compute_recursive_ratio(counts: Counter[int], l: int) -> Fraction | float:  # noqa: E741  the measure's name is l
    """r_1 over what the l-th most frequent value and those after it have."""
    often = sorted(counts.values(), reverse=True)
    return Fraction(often[0], sum(often[l - 1 :])) if len(often) >= l else math.inf


def measure_plainly(classes: Sequence[Any], values: Sequence[int], nominal: bool, l: int = 2) -> ClassDiversity:  # noqa: E741
    """The measures by loops over classes; values are places 0 to m - 1, all of which occur."""
    m, whole = len(set(values)), Counter(values)
    class_counts = [Counter(v for c, v in zip(classes, values, strict=True) if c == label) for label in set(classes)]
    entropies = [-sum(c / each.total() * math.log(c / each.total()) for c in each.values()) for each in class_counts]
    distance = compute_variation if nominal else compute_emd
    return ClassDiversity(
        min(len(each) for each in class_counts),
        math.exp(min(entropies)),
        max(compute_recursive_ratio(each, l) for each in class_counts),
        max(compute_ratio(each, whole) for each in class_counts),
        max(distance(each, whole, m) for each in class_counts),
        max(compute_ratio(one, two) for one in class_counts for two in class_counts),
    )


def assert_same_measures(measured: ClassDiversity, expected: ClassDiversity) -> None:
    """All measures equal, exactly but for the entropy."""
    assert measured.entropy == pytest.approx(expected.entropy, rel=1e-12)
    exact = ("distinct", "recursive", "t_ratio", "t_emd", "between")
    assert [getattr(measured, name) for name in exact] == [getattr(expected, name) for name in exact]


def number_densely(values: Sequence[int | None]) -> list[int]:
    """Places among the distinct values, a missing one last."""
    order = sorted({v for v in values if v is not None})
    return [len(order) if v is None else order.index(v) for v in values]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 4))), min_size=1, max_size=24),
    st.booleans(),
    st.integers(2, 4),
)
def test_measures_equal_those_of_plain_loops(
    rows: list[tuple[int, int | None]],
    nominal: bool,
    l: int,  # noqa: E741
) -> None:
    """k, l (distinct, entropy, recursive at any l), t (ratio, earth mover's, between classes), with missing values."""
    quasi, secret = [q for q, _ in rows], [s for _, s in rows]
    column = np.array([None if s is None else str(s) for s in secret], dtype=object)
    numbers = np.array([np.nan if s is None else s for s in secret], dtype=np.float64)
    anonymity = measure_anonymity(
        {"q": np.array(quasi), "s": column if nominal else numbers}, ["q"], ["s"], recursive_l=l
    )
    assert_same_measures(anonymity.columns["s"], measure_plainly(quasi, number_densely(secret), nominal, l))
    assert anonymity.to_json()["recursive_l"] == l
    sizes = Counter(quasi).values()
    assert (anonymity.k, anonymity.greatest, anonymity.classes) == (min(sizes), max(sizes), len(sizes))
    assert anonymity.alone == sum(size == 1 for size in sizes)
    assert anonymity.linkage == Fraction(len(sizes), len(rows))


def test_measures_equal_those_of_plain_loops_where_every_class_has_every_value() -> None:
    """Finite ratios, among classes of different sizes, with near ties that floats cannot tell apart."""
    draw = random.Random(5)
    for _ in range(40):
        classes = [c for c in range(4) for _ in range(draw.randint(12, 30))]
        values = [draw.choice([0, 0, 1, 2]) for _ in classes]
        for label in range(4):
            start = classes.index(label)
            values[start : start + 3] = [0, 1, 2]
        anonymity = measure_groups(classes, {"s": np.array(values)}, ["s"])
        assert_same_measures(anonymity.columns["s"], measure_plainly(classes, values, nominal=False))
        assert anonymity.t_ratio != math.inf


def test_the_ratio_is_exact_where_floats_tie() -> None:
    """Two classes whose shares differ by about 1e-19 in proportion: the greater is found, and as a fraction."""
    big = 10**6
    tops, bottoms = np.array([big * 999, big * 999 + 1]), np.array([big * 1000, big * 1000 + 1])
    assert find_greatest_fraction(tops, bottoms) == Fraction(big * 999 + 1, big * 1000 + 1)
    large = 2**60 + 611720  # as floats, the second of these looks the greater
    assert find_greatest_fraction(np.array([3 * large, large - 1]), np.array([3, 1])) == large


def test_figure_7_5_is_1_5_close_with_4_rows_to_a_group() -> None:
    """Golden tclose.fig75: every group at 1.5 under the ratio, 1/8 and 1/12 under the earth mover's, 2 between two."""
    anonymity = measure_groups(THIRDS, {"bucket": FIGURE_7_5}, ["bucket"])
    names = measure_groups(THIRDS, {"bucket": FIGURE_7_5.astype(str)}, ["bucket"])
    assert (anonymity.k, anonymity.t_ratio, anonymity.t_emd) == (4, Fraction(3, 2), Fraction(1, 8))
    assert anonymity.columns["bucket"].between == GOLDEN["tclose.fig75.pairwise"]
    assert float(anonymity.t_ratio) == max(GOLDEN["tclose.fig75"])
    assert float(anonymity.t_emd) == max(GOLDEN["tclose.fig75.emd"])
    assert names.t_emd is not None
    assert float(names.t_emd) == pytest.approx(max(GOLDEN["tclose.fig75.tv"]), abs=1e-15)


def test_an_ordinal_column_is_ordered_by_its_categories_and_a_nominal_one_is_not() -> None:
    """All in the middle of three values is nearer to the whole than all at an end, only where there is an order."""
    words = np.array(["low", "low", "middle", "middle", "high", "high"])
    ordinal = read_table({"s": words}, categories={"s": ["low", "middle", "high"]})
    middle, end = [0, 1, 2, 2, 0, 1], [2, 2, 0, 1, 0, 1]
    assert measure_groups(middle, ordinal, ["s"]).t_emd == Fraction(1, 3)
    assert measure_groups(end, ordinal, ["s"]).t_emd == Fraction(1, 2)
    assert measure_groups(middle, {"s": words}, ["s"]).t_emd == measure_groups(end, {"s": words}, ["s"]).t_emd


def test_table_7_3_is_3_anonymous_and_3_diverse() -> None:
    """Generalised birth dates leave three classes of three with three problems each; a class lacks one of the four."""
    generalised = {**MEDICAL, "born": np.repeat(["[61,64]"], 9)}
    anonymity = measure_anonymity(generalised, ["ethnicity", "born"], ["problem"])
    assert (anonymity.k, anonymity.classes, anonymity.l, anonymity.t_ratio) == (3, 3, 3, math.inf)
    assert anonymity.recursive == Fraction(1, 2)
    assert anonymity.l_entropy == pytest.approx(3)
    assert measure_anonymity(MEDICAL, ["ethnicity", "born"]).k == 1


def test_table_7_4_hides_rows_in_groups_of_3() -> None:
    """Anatomy's two tables show groups of three, whatever the quasi-identifiers; counts are counted out."""
    first = {"born": MEDICAL["born"], "group": np.repeat([7, 4, 9], 3)}
    second = {"group": np.repeat([7, 4, 9], 3), "problem": MEDICAL["problem"], "count": np.ones(9, dtype=np.int64)}
    anonymity = measure_anatomy(first, second)
    assert (anonymity.k, anonymity.classes, anonymity.l) == (3, 3, 3)
    folded = {"group": np.array([1, 2, 2]), "problem": np.array(["a", "a", "b"]), "count": np.array([3, 1, 2])}
    tables = {"group": np.array([1, 1, 1, 2, 2, 2])}, folded
    assert measure_anatomy(*tables, ["problem"]).columns["problem"].t_ratio == math.inf
    assert measure_anatomy(*tables, ["problem"]).columns["problem"].t_emd == Fraction(1, 3)


def test_anatomy_tables_that_disagree_are_not_measured() -> None:
    """A second table with one row too many, or with another group, is no release at all."""
    first = {"group": np.array([1, 1, 2, 2])}
    for groups, counts in (([1, 2], [2, 3]), ([1, 3], [2, 2])):
        second = {"group": np.array(groups), "s": np.array(["a", "b"]), "count": np.array(counts)}
        with pytest.raises(ClaimFailed, match="same number of rows for each group"):
            measure_anatomy(first, second)
    wrong = {"group": np.array([1, 2]), "s": np.array(["a", "b"]), "count": np.array([2.5, 1.5])}
    with pytest.raises(InvalidInput, match="must hold counts"):
        measure_anatomy(first, wrong)


def test_missing_values_are_one_more_value() -> None:
    """Two rows that both lack an age are alike; one that lacks it and one that has it are not."""
    nan = np.nan
    assert measure_anonymity({"age": np.array([nan, nan, 1.0, 1.0])}, ["age"]).k == 2
    assert measure_anonymity({"age": np.array([nan, 1.0, 1.0, 1.0])}, ["age"]).k == 1
    words = np.array([None, None, "a", "a", "b", "b"], dtype=object)
    assert measure_anonymity({"word": words}, ["word"]).classes == 3


def test_a_missing_value_comes_after_the_greatest() -> None:
    """Three ordered values, the last of them missing: to hold it alone is as far as to hold the first alone."""
    words = np.array(["low", "low", "high", "high", None, None], dtype=object)
    ordinal = read_table({"s": words}, categories={"s": ["low", "high"]})
    assert measure_groups([0, 1, 0, 1, 2, 2], ordinal, ["s"]).t_emd == Fraction(1, 2)
    assert measure_groups([0, 1, 2, 2, 0, 1], ordinal, ["s"]).t_emd == Fraction(1, 3)


def test_several_columns_are_measured_each_and_together() -> None:
    """Two columns that are even in every class on their own, while their pairs tell the classes apart."""
    table = {"a": np.array([0, 0, 1, 1] * 2), "b": np.array([0, 1, 0, 1, 1, 1, 0, 0])}
    anonymity = measure_groups([0, 0, 0, 0, 1, 1, 1, 1], table, ["a", "b"])
    assert anonymity.t_ratio == 1
    assert anonymity.together is not None
    assert anonymity.together.t_ratio == math.inf
    assert anonymity.to_json()["together"] == anonymity.together.to_json()


def test_the_measures_are_json_with_exact_text() -> None:
    """A figure is told as the fraction it is, and an infinite one as a word that JSON can hold."""
    anonymity = measure_groups(THIRDS, {"bucket": FIGURE_7_5}, ["bucket"])
    document = json.loads(json.dumps(anonymity.to_json(), allow_nan=False))
    assert (document["t_ratio"], document["t_emd"], document["k"]) == ("3/2", "1/8", 4)
    lone = measure_anonymity(MEDICAL, ["ethnicity"], ["problem"]).to_json()
    assert json.loads(json.dumps(lone, allow_nan=False))["t_ratio"] == "infinite"
    none = measure_anonymity(MEDICAL, ["ethnicity"])
    assert (none.l, none.t_ratio, none.t_emd, none.l_entropy, none.recursive) == (None,) * 5
    assert "t_ratio" not in none.to_json()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: measure_anonymity(MEDICAL, []), "quasi-identifiers are a list of column names"),
        (lambda: measure_anonymity(MEDICAL, ["born", "born"]), "each once"),
        (lambda: measure_anonymity(MEDICAL, ["age"]), "unknown column 'age'"),
        (lambda: measure_anonymity({"a": np.array([])}, ["a"]), "has no rows"),
        (
            lambda: measure_anonymity(MEDICAL, ["born"], recursive_l=1),
            "recursive_l must be a whole number of at least 2",
        ),
        (lambda: measure_groups([0, 1], MEDICAL, ["problem"]), "one label for each of the 9 rows"),
        (lambda: measure_groups([0.5] * 9, MEDICAL, ["problem"]), "whole numbers"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call: Any, words: str) -> None:
    """What cannot be measured is told, and how to mend it."""
    with pytest.raises(InvalidInput, match=words):
        call()


def build_halves(rows: int) -> Anonymity:
    """All values distinct, the lower half one class and the upper half the other."""
    return measure_groups(np.arange(rows) * 2 // rows, {"s": np.arange(rows)}, ["s"])


@pytest.mark.parametrize("rows", [2, 10, 1000])
def test_the_ordered_distance_of_halves_has_its_closed_form(rows: int) -> None:
    """The lower half is n^2/4 of n(n - 1) away: each step is passed by as much as lies below or above it."""
    assert build_halves(rows).t_emd == Fraction(rows * rows // 4, rows * (rows - 1))


@pytest.mark.soak
def test_beyond_two_million_rows_the_measures_are_still_exact() -> None:
    """Sums that no longer fit 64 bits are made in whole numbers without a limit."""
    rows = 2_000_000
    assert rows**3 > 2**62
    assert build_halves(rows).t_emd == Fraction(rows * rows // 4, rows * (rows - 1))


@pytest.mark.soak
def test_a_million_rows_are_measured_in_seconds() -> None:
    """Also with a hundred thousand classes and a million values."""
    draw = np.random.default_rng(1)
    table = {"a": draw.integers(0, 300, 10**6), "b": draw.integers(0, 400, 10**6), "s": draw.normal(size=10**6)}
    started = time.perf_counter()
    assert measure_anonymity(table, ["a", "b"], ["s"]).classes > 100_000
    assert time.perf_counter() - started < 20
