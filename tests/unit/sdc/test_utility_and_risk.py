"""Utility and risk of a release beside its original, against versions too simple to be wrong."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.priors.taxonomy import Taxonomy
from discreet.privacy.guarantee import Guarantee
from discreet.sdc.comparison import compare_release, find_worst_loss, score
from discreet.sdc.disclosure_risk import measure_group_knowledge, measure_intersection, read_group_labels
from discreet.sdc.linkage import find_nearest_ties
from discreet.sdc.methods.record_distance import RecordSpace
from discreet.sdc.table import ProtectedTable, Table, read_table
from support.sized_properties import run_at_two_sizes

NAN = math.nan
ANIMALS = Taxonomy.of({"cat": "pet", "dog": "pet", "cow": "farm", "pet": "animal", "farm": "animal"})


def compute_square_distance(one: RecordSpace, i: int, two: RecordSpace, j: int) -> float:
    """The distance by its formula, summed in the order that is promised."""
    total = 0.0
    for x, y in zip(one.points[i], two.points[j], strict=True):
        total += (x - y) * (x - y)
    for table, x, y in zip(one.squares, one.codes[i], two.codes[j], strict=True):
        total += table[x, y]
    return total


def draw_space(draw: random.Random, rows: int, numbers: int, squares: tuple[np.ndarray, ...]) -> RecordSpace:
    """Records with many ties and duplicates."""
    points = np.array([[draw.randint(0, 5) / 3 for _ in range(numbers)] for _ in range(rows)]).reshape(rows, numbers)
    codes = [[draw.randrange(len(table)) for table in squares] for _ in range(rows)]
    return RecordSpace(points, np.array(codes, dtype=np.int64).reshape(rows, len(squares)), squares)


@run_at_two_sizes(
    20,
    60,
    st.integers(0, 2**32),
    st.integers(1, 80),
    st.integers(1, 80),
    st.sampled_from([(1, 0), (3, 0), (0, 2), (2, 2)]),
)
def test_the_nearest_are_found_with_all_ties(seed: int, rows: int, queries: int, shape: tuple[int, int]) -> None:
    """The tree finds what looking at every pair finds: the least distance, and exactly the records at it."""
    draw = random.Random(seed)
    squares = tuple(np.array([[0.0, 1, 2], [1, 0, 2], [2, 2, 0]]) / 3 for _ in range(shape[1]))
    targets, queries_space = draw_space(draw, rows, shape[0], squares), draw_space(draw, queries, shape[0], squares)
    ties = find_nearest_ties(queries_space, targets)
    for query in range(queries):
        all_of_them = [compute_square_distance(queries_space, query, targets, row) for row in range(rows)]
        tied = ties.targets[ties.starts[query] : ties.starts[query + 1]]
        assert ties.squares[query] == min(all_of_them)
        assert sorted(tied) == [row for row in range(rows) if all_of_them[row] == min(all_of_them)]


def compute_linkage_by_pairs(before: np.ndarray, after: np.ndarray) -> float:
    """RL of thesis 6.4.2, by looking at every pair."""
    shares = []
    for row in range(len(before)):
        squares = [sum((x - y) * (x - y) for x, y in zip(after[row], other, strict=True)) for other in before]
        least = min(squares)
        shares.append(squares.count(least) ** -1 if squares[row] == least else 0)
    return 100 * sum(shares) / len(shares)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=2, max_size=40))
def test_linkage_shares_ties(rows: list[tuple[int, int, int, int]]) -> None:
    """Linkage is the definition's, however many records and released records are alike."""
    both = np.array(rows, dtype=float)
    before, after = both[:, :2], both[:, 2:]
    columns = ({"a": table[:, 0], "b": table[:, 1]} for table in (before, after))
    assert compare_release(*columns, ("a", "b"), scale=None).linkage == pytest.approx(
        compute_linkage_by_pairs(before, after)
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 10)] * 3, *[st.integers(0, 20)] * 3), min_size=2, max_size=30))
def test_ties_are_exact_whatever_the_scale(rows: list[tuple[int, ...]]) -> None:
    """Whole numbers and halves of one width that are as near as each other are so when divided by it too."""
    both = np.array(rows, dtype=float)
    before, after = both[:, :3], both[:, 3:] / 2
    columns = [read_table({name: table[:, i] for i, name in enumerate("abc")}) for table in (before, after)]
    wide = read_table(columns[0].to_arrays(), domains=dict.fromkeys("abc", (0, 10)))
    assert compare_release(wide, columns[1], tuple("abc")).linkage == pytest.approx(
        compute_linkage_by_pairs(before, after)
    )


def test_ties_of_a_column_as_wide_as_three() -> None:
    """1.5 is as near to 1 as to 2, though thirds of them are not."""
    comparison = compare_release({"x": np.arange(4.0)}, {"x": np.array([3.0, 1.5, 0, 3])}, ("x",))
    assert comparison.linkage == 37.5


def test_linkage_by_meaning() -> None:
    """A released concept leads back to the originals nearest to it in the taxonomy, ties shared."""
    before = read_table({"kind": np.array(["cat", "dog", "cow", "cow"], dtype=object)}, taxonomies={"kind": ANIMALS})
    after = {"kind": np.array(["pet", "pet", "cow", "cat"], dtype=object)}
    comparison = compare_release(before, after, ("kind",))
    # pet: cat or dog; cow: either cow; the last leads to the cat, which is wrong.
    assert comparison.linkage == pytest.approx(100 * (1 / 2 + 1 / 2 + 1 / 2 + 0) / 4)
    to_pet, to_cat = math.log2(1 + 1 / 3), math.log2(1 + 4 / 5)
    assert comparison.sse == pytest.approx(2 * to_pet**2 + to_cat**2)


def test_errors_of_values() -> None:
    """SSE is in raw units over all columns; a missing number is as far as the domain is wide beside its middle."""
    before = {"x": np.array([0.0, 10.0, 4.0]), "y": np.array(["a", "b", None], dtype=object)}
    after = {"x": np.array([1.0, 8.0, NAN]), "y": np.array(["a", "a", "a"], dtype=object)}
    comparison = compare_release(before, after)
    assert comparison.sse_of["x"] == pytest.approx(1 + 4 + (4 - 5) ** 2 + 10**2)
    assert comparison.sse_of["y"] == pytest.approx(math.log2(5 / 3) ** 2 + 1)
    assert comparison.sse == pytest.approx(sum(comparison.sse_of.values()))
    deviation = np.std([0, 10, 4], ddof=1)
    assert comparison.il1s == pytest.approx((1 + 2 + deviation) / (math.sqrt(2) * deviation) / 3)


def test_numbers_that_were_taken_out_count_as_moved() -> None:
    """A column wiped but for one row moved by a standard deviation; what is in neither file says nothing."""
    income = np.array([NAN, *np.arange(99.0)])
    wiped = np.where(np.arange(100) == 1, income, NAN)
    comparison = compare_release({"income": income}, {"income": wiped})
    assert comparison.il1s == pytest.approx(98 / 99 / math.sqrt(2))
    assert "values moved by 0.99 standard deviations" in comparison.utility


def test_a_column_that_does_not_vary() -> None:
    """It has no deviation, however its mean is rounded, and so no part in IL1s and in what tells the files apart."""
    before = {"x": np.full(7, 0.1), "y": np.arange(7.0)}
    comparison = compare_release(before, {"x": np.full(7, 0.3), "y": np.arange(7.0) + 1})
    assert comparison.variances["x"] == (0, 0)
    assert comparison.il1s == pytest.approx(1 / (math.sqrt(2) * np.std(np.arange(7), ddof=1)))
    still = {"x": np.full(400, 0.1)}
    assert compare_release(still, still).propensity == 0


def test_moments_and_distributions() -> None:
    """Means, variances and quantiles are of the values there are; distributions count missing as one more value."""
    before = {"x": np.array([1.0, 2, 3, 4, NAN]), "c": np.array(list("aabbb"), dtype=object)}
    after = {"x": np.array([1.0, 2, 3, 8, 9]), "c": np.array(list("abbbb"), dtype=object)}
    comparison = compare_release(before, after)
    assert comparison.means["x"] == pytest.approx((2.5, 4.6))
    assert comparison.variances["x"] == pytest.approx((5 / 3, 13.3))
    assert comparison.quantiles["x"][2] == (0.5, 2.5, 3.0)
    # Until before 8 there are 4 of 5 against 3 of 5.
    assert comparison.marginals == pytest.approx({"x": 0.2, "c": 0.2})


def test_correlations_where_both_have_a_value() -> None:
    """Pearson's over pairs of present values; a column that does not vary has 0 with all others, not NaN."""
    draw = np.random.default_rng(5)
    x, y = draw.normal(1e6, 1, 50), draw.normal(size=50)
    y = y + (x - 1e6)
    holes = np.where(np.arange(50) < 7, NAN, y)
    comparison = compare_release({"x": x, "y": holes, "z": y}, {"x": x, "y": holes, "z": np.ones(50)})
    before, after = comparison.correlations
    assert before[0, 1] == pytest.approx(np.corrcoef(x[7:], y[7:])[0, 1], rel=1e-6)
    assert before[1, 2] == pytest.approx(1)
    assert list(after[2]) == [0, 0, 1]
    change = [0, abs(before[0, 2]), 1]
    assert (comparison.correlation_change, comparison.correlation_change_sd) == pytest.approx(
        (np.mean(change), np.std(change))
    )


def score_propensity(before: Table, after: Table) -> float:
    return compare_release(before, after, aligned=False).propensity


def test_propensity_tells_what_differs() -> None:
    """0 for the same file, near 0 for one drawn anew from it, near 1 where every row is told, and between for some."""
    draw = np.random.default_rng(1)
    x = draw.normal(size=2000)
    before = read_table({"x": x, "y": x + draw.normal(size=2000), "c": draw.choice(["a", "b", "c"], 2000)})
    anew = before.take(draw.integers(0, 2000, 2000))
    apart = before.put(read_table({"y": draw.permutation(before["y"].values)})["y"])
    shifted = before.put(read_table({"x": x + 50})["x"])
    assert score_propensity(before, before) == 0
    assert score_propensity(before, anew) < 0.01
    assert 0.05 < score_propensity(before, apart) < 0.5
    assert score_propensity(before, shifted) > 0.99


def test_propensity_by_chance_is_taken_off() -> None:
    """Files drawn anew from the original score 0 about as often as not: neither more nor less is taken off."""
    draw = np.random.default_rng(2)
    before = read_table({name: draw.normal(size=400) for name in "abcd"})
    above = [score_propensity(before, before.take(draw.integers(0, 400, 400))) > 0 for _ in range(60)]
    assert 15 <= sum(above) <= 45


def draw_related_tables(rows: int) -> tuple[Table, Table, Table]:
    """People whose sex tells their job; and the same with jobs, or pay, dealt out anew."""
    draw = np.random.default_rng(6)
    sex = draw.choice(["f", "m"], rows)
    columns = {"sex": sex, "job": np.where(sex == "f", "judge", "cook"), "pay": draw.normal(np.where(sex == "f", 3, 0))}
    before = read_table(columns)
    order = draw.permutation(rows)
    return before, before.put(before["job"].take(order)), before.put(before["pay"].take(order))


def test_associations_of_categories() -> None:
    """The correlation ratio with numbers and Cramer's V with categories, and their mean change over pairs."""
    before, jobs, pays = draw_related_tables(400)
    pay, women = before["pay"].values, before["sex"].values == 0
    means = np.where(women, pay[women].mean(), pay[~women].mean())
    ratio = np.sqrt(np.var(means) / np.var(pay))
    dealt = [pays["pay"].values[women].mean(), pays["pay"].values[~women].mean()]
    left = np.sqrt(np.var(np.where(women, *dealt)) / np.var(pay))
    assert compare_release(before, pays).association_change == pytest.approx((2 * (ratio - left) + 0) / 3)
    v = abs(np.corrcoef(women, jobs["job"].values)[0, 1])  # of two by two, V is |phi|
    alone = compare_release(before.select(["sex", "job"]), jobs.select(["sex", "job"]))
    assert alone.association_change == pytest.approx(1 - v)
    assert compare_release(before, before).association_change == 0
    assert compare_release(before.select(["pay"]), pays.select(["pay"])).association_change is None


def test_utility_sees_associations_of_categories() -> None:
    """A job that no longer goes with the sex is a grave loss, to the sentence and to the model."""
    before, jobs, _ = draw_related_tables(400)
    comparison = compare_release(before.select(["sex", "job"]), jobs.select(["sex", "job"]))
    assert "associations of categories moved by" in comparison.utility
    assert comparison.utility.endswith(": findings may well differ from those on the original.")
    assert comparison.propensity > 0.1
    many = {f"c{place}": np.random.default_rng(place).choice([*"abcdefghijklmnopqrst"], 400) for place in range(9)}
    wide = [read_table({**table.to_arrays(), **many}) for table in (before, jobs)]
    assert score_propensity(*wide) > 0.1


def compute_disclosure_by_pairs(
    quasi: Sequence[float], released: Sequence[float], secret: np.ndarray, released_secret: np.ndarray
) -> float:
    """How likely the nearest released row, any of several, has a value near a person's own."""
    near = 0.05 * np.std(secret, ddof=1)
    shares = []
    for quasi_value, value in zip(quasi, secret, strict=True):
        gaps = [(quasi_value - other) ** 2 for other in released]
        there = [t for gap, t in zip(gaps, released_secret, strict=True) if gap == min(gaps)]
        shares.append(np.mean([abs(t - value) <= near for t in there]))
    return float(np.mean(shares))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 4), min_size=2, max_size=40))
def test_attribute_disclosure(rows: list[tuple[int, int, int, int]]) -> None:
    """An intruder reads at random among the nearest released rows; by chance, among all of them."""
    q, r, s, t = np.array(rows, dtype=float).T
    comparison = compare_release({"q": q, "s": s}, {"q": r, "s": t}, ("q",), ("s",), scale=None)
    assert comparison.disclosure["s"] == pytest.approx(compute_disclosure_by_pairs(q, r, s, t))
    near = 0.05 * np.std(s, ddof=1)
    assert comparison.disclosure_by_chance["s"] == pytest.approx(np.mean(np.abs(s[:, None] - t[None, :]) <= near))


def build_unchanged(column: np.ndarray) -> dict[str, np.ndarray]:
    return {"id": np.arange(float(len(column))), "hiv": column}


@pytest.mark.parametrize("ill", [1, 2, 10, 500])
@pytest.mark.parametrize("rows", [40, 1000])
def test_a_rare_value_that_nothing_hides_is_a_high_risk(rows: int, ill: int) -> None:
    """Chance tells nearly everybody's value where it is rare; what it leaves open is what counts."""
    column = np.where(np.arange(rows) < min(ill, rows // 2), "yes", "no")
    comparison = compare_release(build_unchanged(column), build_unchanged(column), ("id",), ("hiv",))
    assert comparison.disclosure_excess["hiv"] == pytest.approx(1)
    assert "give away their hiv (" in comparison.risk
    assert "; where it is hidden worst, 100 of every 100 whom chance would miss are found out" in comparison.risk
    assert comparison.summary["hiv given away where hidden worst"] == "100 % of those whom chance would miss"
    assert comparison.risk.endswith("a high risk.")


def test_the_worst_value_is_what_counts() -> None:
    """A few are given away among many that are hidden: over everybody it is little, over those it is all."""
    column = np.array(["yes"] * 20 + ["no", "maybe"] * 490, dtype=object)
    released_column = np.concatenate([column[:20], np.random.default_rng(8).permutation(column[20:])])
    comparison = compare_release(build_unchanged(column), build_unchanged(released_column), ("id",), ("hiv",))
    assert comparison.disclosure["hiv"] - comparison.disclosure_by_chance["hiv"] < 0.1
    assert comparison.disclosure_excess["hiv"] == pytest.approx(1)
    numbers = np.where(column == "yes", 2.0, np.where(column == "no", 1.0, 0.0))
    released = np.where(released_column == "yes", 2.0, np.where(released_column == "no", 1.0, 0.0))
    comparison = compare_release(build_unchanged(numbers), build_unchanged(released), ("id",), ("hiv",))
    assert comparison.disclosure_excess["hiv"] == pytest.approx(1)


@pytest.mark.parametrize("values", [2, 40, 200, 1000])
def test_luck_is_no_risk(values: int) -> None:
    """Values dealt out anew bring some home, and some value all of its own: that is not called a risk."""
    draw = np.random.default_rng(values)
    column = np.array([f"v{place % values}" for place in range(1000)], dtype=object)
    tried = [build_unchanged(draw.permutation(column)) for _ in range(40)]
    above = [
        compare_release(build_unchanged(column), released_column, ("id",), ("hiv",)).disclosure_excess["hiv"]
        for released_column in tried
    ]
    assert sum(excess > 0.05 for excess in above) <= 3


def test_a_constant_column_leaves_nothing_to_learn() -> None:
    """Who knows it by chance learns nothing."""
    column = np.full(20, "no", dtype=object)
    comparison = compare_release(build_unchanged(column), build_unchanged(column), ("id",), ("hiv",))
    assert comparison.disclosure_excess["hiv"] == 0
    assert "a small risk for these values, though whose record is whose can be told" in comparison.risk


def test_rows_not_side_by_side_with_a_recoded_quasi_identifier() -> None:
    """An intruder goes by those that still compare; with none of them nobody can tell, and the sentence says so."""
    age, town = np.arange(60.0), np.arange(60.0) % 7
    bands = np.array([f"{int(each) // 10}0s" for each in age], dtype=object)
    ill = np.where(age < 30, "yes", "no")
    original = {"age": age, "ward": np.arange(60.0) // 2, "town": town, "ill": ill}
    quasi = ("age", "ward", "town")
    some = compare_release(original, original | {"age": bands}, quasi, ("ill",), aligned=False)
    assert some.disclosure["ill"] == 1
    assert some.risk.endswith("a high risk.")
    names = ("age", "ill")
    alone = {name: original[name] for name in names}
    none = compare_release(alone, alone | {"age": bands}, ("age",), ("ill",), aligned=False)
    assert (none.disclosure, none.unmeasured) == ({}, ("ill",))
    assert none.risk.startswith("The risk could not be measured; what is given away of ill could not be measured: ")
    gone = compare_release(alone, {"ill": ill}, ("age",), ("ill",), aligned=False)
    assert gone.disclosure["ill"] == gone.disclosure_by_chance["ill"] == 0.5


def test_matched_records_count_where_values_are_not_measured() -> None:
    """A confidential column that became coarser leaves the verdict to the records."""
    x = np.arange(50.0)
    original, released = {"q": x, "s": x}, {"q": x, "s": np.where(x < 25, "low", "high")}
    comparison = compare_release(original, released, ("q",), ("s",))
    assert "; what is given away of s could not be measured: a high risk." in comparison.risk


def anatomise_values(values: Sequence[float]) -> ProtectedTable:
    """Two groups of two under Anatomy's two tables; the second group's values are as given."""
    first = read_table({"q": np.arange(4.0), "group": np.array([5, 5, 2, 2])})
    second = read_table({"group": np.array([2, 2, 5]), "s": np.array([*values, 7.0]), "count": np.array([1, 1, 2])})
    groups = {"records": np.array([1, 1, 0, 0])}
    return ProtectedTable(first, Guarantee.k_anonymity(2, probabilistic=True), groups, np.arange(4), second)


def test_disclosure_through_anatomy() -> None:
    """Of a column that no row shows, the values are those that the second table gives a person's group."""
    original = {"q": np.arange(4.0), "s": np.array([7.0, 7, 1, 3])}
    comparison = compare_release(original, anatomise_values([1.0, 3.0]), ("q",), ("s",))
    assert comparison.disclosure["s"] == pytest.approx((1 + 1 + 1 / 2 + 1 / 2) / 4)
    assert comparison.knows["s"] == ((0, pytest.approx(0.75)), (1, pytest.approx(1.0)))
    bucketed = compare_release(original, anatomise_values([2.0, 2.0]), ("q",), ("s",))
    assert bucketed.disclosure["s"] == pytest.approx(1 / 2)


def test_disclosure_through_groups_alone() -> None:
    """Without the second table a group's values are those of its rows."""
    original = {"q": np.arange(4.0), "s": np.array([7.0, 7, 1, 3])}
    comparison = compare_release(original, {"q": np.arange(4.0)}, ("q",), ("s",), groups=[0, 0, 1, 1])
    assert comparison.disclosure["s"] == pytest.approx(0.75)


def test_generalised_records() -> None:
    """Where numbers became intervals a released row may be of any of its class, which is what an intruder knows."""
    original = {"age": np.array([21.0, 25, 33, 38, 39]), "ill": np.array(list("yynyn"), dtype=object)}
    bands = np.array(["20-29", "20-29", "30-39", "30-39", "30-39"], dtype=object)
    comparison = compare_release(original, {"age": bands, "ill": original["ill"]}, ("age",), ("ill",))
    assert comparison.linkage == pytest.approx(100 * 2 / 5)
    assert comparison.unique == (1.0, 0.0)
    assert comparison.disclosure["ill"] == pytest.approx((1 + 1 + 2 / 3 + 1 / 3 + 2 / 3) / 5)
    assert "age" not in comparison.marginals
    alone = compare_release({"age": original["age"]}, {"age": bands})
    assert alone.sse is None
    assert alone.propensity == 1
    assert "could not be measured" in alone.utility
    assert alone.linkage == 40


def test_a_column_with_one_value_in_every_row_is_gone() -> None:
    """It is the worst of losses whatever the rest, and not called coarser; what never varied has nothing to lose."""
    age, ward = np.arange(40.0), np.repeat([*"ABCD"], 10)
    original = {"age": age, "ward": ward, "site": np.full(40, "x"), "ill": np.tile(["yes", "no"], 20)}
    stars = np.full(40, "*")
    bands = np.where(age < 20, "young", "old")
    both = compare_release(original, original | {"age": stars, "ward": stars, "site": stars})
    assert (both.gone, both.changed) == (("age", "ward"), ("site",))
    assert "; age, ward are gone (one value in every row); site became coarser, which" in both.utility
    assert both.utility.endswith(": findings may well differ from those on the original.")
    assert find_worst_loss(both) == ("columns that are gone", 4)
    comparison = compare_release(original, original | {"age": bands, "ward": stars})
    assert "; ward is gone (one value in every row); age became coarser" in comparison.utility
    coarser = compare_release(original, original | {"age": bands})
    assert coarser.gone == ()
    assert coarser.utility.endswith(": broad findings will hold and fine ones may not.")
    wiped = compare_release({"age": age}, {"age": np.full(40, NAN)})
    assert wiped.gone == ("age",)
    nothing = compare_release({"age": age}, {"age": stars})
    assert nothing.utility == (
        "No column's values can be compared with those of the original; age is gone (one value in every row): "
        "findings may well differ from those on the original."
    )


def test_what_was_not_compared_has_no_figure() -> None:
    """Without two numbers there is no correlation to change, which is not a change of 0."""
    comparison = compare_release(
        {"x": np.arange(9.0), "c": [*"abcabcabc"]}, {"x": np.full(9, "*"), "c": [*"abcabcabc"]}
    )
    assert (comparison.il1s, comparison.correlation_change, comparison.correlation_change_sd) == (None, None, None)
    assert comparison.association_change is None
    assert not {"information loss IL1s", "correlations change by", "associations change by"} & {*comparison.summary}
    assert json.loads(json.dumps(comparison.to_json()))["correlation_change"] is None


def test_numbers_are_given_away_by_what_is_near_them() -> None:
    """Of categories only the same one counts, and the words say so; also where no row shows the column."""
    x = np.arange(4.0)
    comparison = compare_release({"q": x, "s": x}, {"q": x, "s": x}, ("q",), ("s",))
    assert "give away a value near their s (" in comparison.risk
    listed = compare_release({"q": x, "s": np.array([7.0, 7, 1, 3])}, anatomise_values([1.0, 3.0]), ("q",), ("s",))
    assert "give away a value near their s (" in listed.risk


def test_an_informed_intruder_does_not_know_the_value_itself() -> None:
    """A confidential column among the quasi-identifiers is not used to find its own value."""
    q, s = np.zeros(4), np.arange(4.0)
    assert compare_release({"q": q, "s": s}, {"q": q, "s": s}, ("q", "s"), ("s",)).disclosure["s"] == 0.25


def compute_posterior_by_cases(values: Sequence[int], j: int) -> float:
    """The chance of a person's own value, over all people and all sets of j others that are known."""
    chances = []
    for me, own_value in enumerate(values):
        others = [place for place in range(len(values)) if place != me]
        for subset in itertools.combinations(others, j):
            left = [values[place] for place in range(len(values)) if place not in subset]
            chances.append(left.count(own_value) / len(left))
    return float(np.mean(chances))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=7))
def test_knowing_others_of_a_group(values: list[int]) -> None:
    """The closed form is the mean over all cases; who knows all others knows the value."""
    line = measure_group_knowledge(np.array(values), np.zeros(len(values), dtype=np.int64))
    assert [j for j, _ in line] == sorted(
        {0, 1, len(values) // 2, len(values) - 2, len(values) - 1} & {*range(len(values))}
    )
    for j, chance in line:
        assert chance == pytest.approx(compute_posterior_by_cases(values, j))
    assert line[-1][1] == pytest.approx(1)


def test_made_up_values_hide_nothing_in_groups() -> None:
    """What others of a group know of its values is asked only where these are released, not where all have a mean."""
    original = {"q": np.arange(4.0), "s": np.array([1.0, 2, 3, 4])}
    means = {"q": np.arange(4.0), "s": np.array([1.5, 1.5, 3.5, 3.5])}
    swapped = {"q": np.arange(4.0), "s": np.array([2.0, 1, 3, 4])}
    groups = np.array([0, 0, 1, 1])
    assert compare_release(original, means, ("q",), ("s",), groups).knows == {}
    assert compare_release(original, swapped, ("q",), ("s",), groups).knows["s"][0] == (0, 0.5)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30), st.integers(2, 4))
def test_intersection_with_an_earlier_release(rows: list[tuple[int, int]], k: int) -> None:
    """A row is left among the rows that share its group in both releases."""
    now, then = (np.array(labels) for labels in zip(*rows, strict=True))
    left = [sum(other == row for other in rows) for row in rows]
    intersection = measure_intersection(read_group_labels(now, len(rows)), read_group_labels(then, len(rows)), k)
    assert intersection == (min(left), pytest.approx(np.mean([each < k for each in left])))


def test_groups_of_different_columns_do_not_meet() -> None:
    """Groups of one column are laid over those of the same column, or of all columns."""
    now = {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 1, 0, 1])}
    assert measure_intersection(now, {"a": np.array([0, 0, 1, 1])}, 2) == (2, 0.0)
    assert measure_intersection(now, {"records": np.array([0, 0, 1, 1])}, 2) == (1, 1.0)
    with pytest.raises(InvalidInput, match="groups of a column"):
        measure_intersection({"a": now["a"]}, {"b": now["b"]}, 2)


def build_registry_table() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(3)
    return {"age": draw.integers(18, 90, 200), "stay": draw.exponential(5, 200), "ward": draw.choice([*"ABC"], 200)}


def test_a_protected_table_brings_its_own() -> None:
    """Its groups and the rows that it kept need not be given again."""
    original = read_table(build_registry_table())
    positions = np.arange(150)
    groups = {"records": positions // 3}
    protected = ProtectedTable(original.take(positions), Guarantee.k_anonymity(3), groups, positions)
    comparison = compare_release(original, protected, ("age",), ("ward",))
    assert (comparison.rows, comparison.sse) == (150, 0)
    assert comparison.knows["ward"][-1] == (2, pytest.approx(1))


def test_rows_that_are_not_side_by_side() -> None:
    """What needs row beside row is None, and the rest is as it is with the rows in order."""
    original, order = read_table(build_registry_table()), np.random.default_rng(4).permutation(200)
    comparison = compare_release(original, original.take(order), ("age",), ("stay",), aligned=False)
    compared = compare_release(original, original, ("age",), ("stay",))
    assert (comparison.sse, comparison.il1s, comparison.linkage, dict(comparison.sse_of)) == (None, None, None, {})
    assert comparison.disclosure == pytest.approx(compared.disclosure)
    assert (comparison.marginals, comparison.propensity) == (compared.marginals, compared.propensity)


def test_the_comparison_as_json() -> None:
    """Everything is in it, and nothing that JSON does not have."""
    empty = np.array([NAN] * 5)
    comparison = compare_release({"x": empty, "y": np.arange(5)}, {"x": empty, "y": np.arange(5)}, ("y",), ("x",), k=2)
    document = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    assert document["means"]["x"] == [None, None]
    assert document["correlations"][0] == [[1, 0], [0, 1]]
    assert document["verdict"] == {"risk": comparison.risk, "utility": comparison.utility}


def test_verdicts() -> None:
    """One sentence on each, that grows graver with the figures and names the worst."""
    original = build_registry_table()
    same = compare_release(original, original, ("age",), ("stay", "ward"))
    assert same.risk.startswith("Of 1,000 people whose quasi-identifiers an intruder knows, about ")
    assert same.risk.endswith(": a high risk.")
    assert "give away their ward (" in same.risk
    assert same.utility == (
        "On average values moved by 0 standard deviations, correlations by 0 and associations of categories by 0; "
        "no distribution changed, and a model tells the files apart to 0 %: "
        "most analyses will come out much as on the original."
    )
    blank = original | {"age": np.full(200, 50.0)}
    hidden = compare_release(original, blank, ("age",), ("ward",), earlier={"2024": np.arange(200)}, groups=[0] * 200)
    assert "a small risk; laid over the release '2024' it leaves somebody alone." in hidden.risk
    pairs = compare_release(original, blank, ("age",), earlier={"2024": np.arange(200) // 2}, groups=[0] * 200)
    assert pairs.risk.endswith("it hides somebody among only 2 rows.")
    assert hidden.utility.endswith(": findings may well differ from those on the original.")
    assert "about 5 can be matched to their record (5 by chance)" in hidden.risk
    large = {"x": np.arange(3000.0)}
    assert ", fewer than 1 can be matched" in compare_release(large, {"x": np.zeros(3000)}, ("x",)).risk
    assert ", none can be matched" in compare_release(large, {"x": large["x"][::-1]}, ("x",)).risk
    for verdict in (same.risk, same.utility, hidden.risk, hidden.utility):
        assert verdict.count(". ") == 0


def test_the_score() -> None:
    """Half the squared error is worth sqrt(2), half the linkage 2; a release without any of them has no score."""
    assert score(2, 10, 1, 5) == pytest.approx(2 * math.sqrt(2))
    with pytest.raises(InvalidInput, match="above 0 for the release"):
        score(1, 1, 0, 1)


ONE = {"x": np.arange(3.0)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (lambda: compare_release(ONE, {"x": np.arange(2.0)}), "side by side"),
        (lambda: compare_release(ONE, {"y": np.arange(3.0)}), "no column in common"),
        (lambda: compare_release({"x": np.zeros(0)}, {"x": np.zeros(0)}), "without rows"),
        (lambda: compare_release(ONE, ONE, ("z",)), "unknown column 'z'"),
        (lambda: compare_release(ONE, ONE, 3), "lists of names"),
        (lambda: compare_release(ONE, ONE, tolerance=-1), "tolerance must be"),
        (lambda: compare_release(ONE, ONE, tolerance=NAN), "tolerance must be"),
        (lambda: compare_release(ONE, ONE, groups=[0, 1]), "one label for each of the 3 rows"),
        (lambda: compare_release(ONE, ONE, groups=[0.5, 1, 1]), "groups are whole numbers"),
        (lambda: compare_release(ONE, ONE, earlier={"a": [0, 0, 0]}), "give the groups of this one"),
        (lambda: compare_release(ONE, ONE, groups=[0, 0, 0], earlier=[[0, 0, 0]]), "given by name"),
        (lambda: compare_release(ONE, ONE, k="two"), "k must be"),
        (lambda: compare_release(ONE, ONE, scale="feet"), "scale is"),
        (lambda: compare_release(ONE, ONE, scale=[1, 2]), "scale is"),
    ],
)
def test_bad_input(options: object, message: str) -> None:
    """Each in one sentence that says what to do."""
    with pytest.raises(InvalidInput, match=message):
        options()  # type: ignore[operator]
