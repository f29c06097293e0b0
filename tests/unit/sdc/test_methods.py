"""Methods that make groups: what they change, what they keep, how often a value stays, and what they refuse."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.priors.taxonomy import Taxonomy
from discreet.sdc.methods.anatomy import anatomy
from discreet.sdc.methods.partition import (
    Closeness,
    Distinct,
    Spread,
    convert_to_ranks,
    group_by_confidential,
    read_grouping_options,
)
from discreet.sdc.methods.record_distance import compute_centroids
from discreet.sdc.methods.swap import ir_swap, mdav_id, mdav_swap
from discreet.sdc.table import Attribute, check_informative, check_k, check_roles, permute_within_groups, read_table
from support.fixed_streams import Stream

AREAS = Taxonomy.of({"flu": "lung", "asthma": "lung", "gout": "joint", "lung": "any", "joint": "any"})


class ScriptedEntropy:
    """Entropy that hands out these words, 64 bits each, and then fails."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def take(self, count: int) -> bytes:
        taken, self.words = self.words[: count // 8], self.words[count // 8 :]
        assert len(taken) == count // 8
        return np.array(taken, dtype="<u8").tobytes()


def build_tied_table(rows: int, seed: int) -> dict[str, np.ndarray]:
    """A table with ties, duplicates and missing values; two quasi-identifiers, two confidential columns, an area."""
    draw = np.random.default_rng(seed)
    income = draw.integers(0, 9, rows).astype(float)
    income[draw.random(rows) < 0.1] = np.nan
    table = {
        "age": draw.integers(20, 30, rows),
        "sex": draw.choice(["f", "m"], rows),
        "income": income,
        "illness": draw.choice(["flu", "asthma", "gout"], rows),
        "area": np.arange(rows) % 2,
    }
    for name, values in {"age": (20, 29), "sex": ("f", "m"), "income": (0, 8), "illness": ("flu", "gout")}.items():
        table[name][:2] = values  # so that no column is constant
    return table


def count_by_group(groups: np.ndarray, *columns: np.ndarray) -> Counter[tuple[str, ...]]:
    """How often each value, or each row of values, is in each group."""
    return Counter(tuple(map(str, row)) for row in zip(groups, *columns, strict=True))


# Permutations


def test_every_order_of_draws_gives_another_permutation() -> None:
    """All orders of draws are equally likely, so exactly uniform: 3! x 2! orders, as many permutations, each once."""
    groups = np.array([1, 0, 1, 0, 1])
    frequencies = Counter()
    for threes, twos in itertools.product(itertools.permutations((1, 2, 3)), itertools.permutations((1, 2))):
        words = [threes[0], twos[0], threes[1], twos[1], threes[2]]
        frequencies[tuple(permute_within_groups(groups, ScriptedEntropy(*words)))] += 1
    assert len(frequencies) == 12
    assert set(frequencies.values()) == {1}
    assert all((groups[list(permutation)] == groups).all() for permutation in frequencies)
    for row, group in enumerate(groups):
        stays = Fraction(sum(permutation[row] == row for permutation in frequencies), len(frequencies))
        assert stays == Fraction(1, int((groups == group).sum()))


def test_equal_draws_are_drawn_again() -> None:
    """A tie inside a group would favour the order of the rows; a tie across groups is none."""
    groups = np.array([0, 0, 1, 1])
    assert list(permute_within_groups(groups, ScriptedEntropy(5, 5, 1, 2, 9, 8, 1, 2))) == [1, 0, 2, 3]
    assert list(permute_within_groups(groups, ScriptedEntropy(5, 4, 5, 4))) == [1, 0, 3, 2]


def compute_fit_probability(counts: Counter[tuple[int, ...]], cells: int) -> float:
    """The probability of a worse fit to the uniform law over so many cells."""
    total = sum(counts.values())
    expected = total / cells
    misfit = sum((count - expected) ** 2 for count in counts.values()) / expected + (cells - len(counts)) * expected
    return float(chi2.sf(misfit, cells - 1))


def test_permutations_fit_the_uniform_law_and_a_known_bias_does_not() -> None:
    """24 permutations of four rows; the shuffle that exchanges every row with any row is caught."""
    groups, entropy = np.array([0, 1, 0, 1, 0, 0]), KeyedEntropy(b"uniform", "test")
    rows = np.flatnonzero(groups == 0)
    frequencies = Counter(tuple(permute_within_groups(groups, entropy)[rows]) for _ in range(6000))
    assert compute_fit_probability(frequencies, 24) > 0.001
    biased, generator = Counter(), np.random.default_rng(1)
    for _ in range(6000):
        order = list(rows)
        for place in range(4):
            other = generator.integers(4)
            order[place], order[other] = order[other], order[place]
        biased[tuple(order)] += 1
    assert compute_fit_probability(biased, 24) < 0.001


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers())
def test_a_permutation_keeps_every_group(labels: list[int], seed: int) -> None:
    """Every row's value goes to one row of its own group."""
    groups = np.array(labels, dtype=np.int64)
    permutation = permute_within_groups(groups, Stream(seed))
    assert sorted(permutation) == list(range(len(labels)))
    assert (groups[permutation] == groups).all()


def test_a_million_rows_are_permuted_at_the_cost_of_a_sort() -> None:
    """A few tenths of a second; the bar leaves room for a busy machine."""
    groups = np.arange(1_000_000) % 100_000
    started = time.process_time()
    permute_within_groups(groups, KeyedEntropy(b"fast", "test"))
    assert time.process_time() - started < 2


# What the methods change and keep


@settings(max_examples=25)
@given(st.integers(4, 60), st.integers(2, 9), st.integers(0, 10**6), st.booleans())
def test_mdav_id_is_k_anonymous_and_leaves_other_columns(rows: int, k: int, seed: int, stratified: bool) -> None:
    """Rows with equal quasi-identifiers number at least k; the rest of the table is as it was; strata keep apart."""
    table, k = build_tied_table(rows, seed), min(k, rows // 2)
    strata = "area" if stratified and rows // 2 >= k else None
    safe = mdav_id(table, k, ["age", "sex", "income"], strata=strata)
    classes = Counter(zip(safe["age"], safe["sex"], map(str, safe["income"]), strict=True))
    assert min(classes.values()) >= k
    assert min(np.bincount(safe.groups["records"])) >= k
    assert (safe["illness"] == table["illness"]).all()
    assert (safe.guarantee.model, safe.guarantee.k) == ("k-anonymity", k)
    if strata:
        assert len(set(zip(safe.groups["records"], table["area"], strict=True))) == len(set(safe.groups["records"]))


@settings(max_examples=25)
@given(st.integers(4, 60), st.integers(2, 9), st.integers(0, 10**6), st.sampled_from(["confidential", "quasi"]))
def test_uninformed_swapping_moves_one_block(rows: int, k: int, seed: int, swap: str) -> None:
    """The two blocks are each whole, stay in their groups, and only one moves."""
    table, k = build_tied_table(rows, seed), min(k, rows)
    blocks = {"quasi": ["age", "sex"], "confidential": ["income", "illness"]}
    safe = mdav_swap(table, k, blocks["quasi"], blocks["confidential"], swap=swap, entropy=Stream(seed))
    groups = safe.groups["records"]
    assert min(np.bincount(groups)) >= k
    for role, names in blocks.items():
        before, after = [table[name] for name in names], [safe[name] for name in names]
        assert count_by_group(groups, *before) == count_by_group(groups, *after)
        if role != swap:
            assert all(
                np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
                for one, two in zip(before, after, strict=True)
            )
    assert (safe["area"] == table["area"]).all()
    assert (safe.guarantee.model, safe.guarantee.k) == ("probabilistic-k-anonymity", k)


@settings(max_examples=15)
@given(st.integers(6, 40), st.integers(0, 10**6), st.booleans())
def test_informed_swapping_moves_each_column_inside_its_groups(rows: int, seed: int, ranked: bool) -> None:
    """Every confidential column keeps its values inside groups of at least its own k, and strata keep apart."""
    table, least = build_tied_table(rows, seed), {"income": 2, "illness": 3}
    if ranked:
        safe = ir_swap(table, least, list(least), strata="area", entropy=Stream(seed))
    else:
        safe = mdav_swap(
            table, least, ["age", "income"], list(least), intruder="informed", strata="area", entropy=Stream(seed)
        )
    for name, k in least.items():
        groups = safe.groups[name]
        assert min(np.bincount(groups)) >= k
        assert count_by_group(groups, table[name]) == count_by_group(groups, safe[name])
        assert len(set(zip(groups, table["area"], strict=True))) == len(set(groups))
    assert (safe["age"] == table["age"]).all()
    assert safe.guarantee.k == 2


def test_columns_with_different_k_move_apart_and_with_the_same_k_together() -> None:
    """k per attribute: one permutation for each k."""
    rows = np.arange(24)
    table = {"q": rows, "a": rows, "b": rows, "c": rows}
    safe = mdav_swap(table, {"a": 4, "b": 8, "c": 4}, "q", ["a", "b", "c"], entropy=Stream(3))
    assert (safe["a"] == safe["c"]).all()
    assert (safe["a"] != safe["b"]).any()
    assert min(np.bincount(safe.groups["b"])) == 8
    assert safe.guarantee.k == 4


def test_a_value_stays_with_probability_one_over_its_group() -> None:
    """Over all orders of draws, exactly: groups of 3 and 4 by Algorithm 7.1 on seven values."""
    values = np.array([50, 10, 70, 20, 60, 30, 40])
    stays, runs = np.zeros(7, dtype=int), 0
    for low, high in itertools.product(itertools.permutations(range(3)), itertools.permutations(range(4))):
        words = iter(low), iter(high)
        script = ScriptedEntropy(*(next(words[int(value > 30)]) for value in values))
        stays += ir_swap({"x": values}, 3, "x", entropy=script)["x"] == values
        runs += 1
    assert [Fraction(int(count), runs) for count in stays] == [Fraction(1, 4 if value > 30 else 3) for value in values]


def test_ranked_runs_put_missing_last_and_ties_by_row() -> None:
    """Algorithm 7.1 on values with ties and missing ones."""
    original = read_table({"x": np.array([np.nan, 5.0, 1.0, 5.0, 1.0, 5.0, np.nan, 9.0])})
    groups = group_by_confidential(original, 2, ["x"], read_grouping_options(original))
    together = {frozenset(np.flatnonzero(groups == label)) for label in set(groups)}
    assert together == {frozenset({2, 4}), frozenset({1, 3}), frozenset({5, 7}), frozenset({0, 6})}


def test_runs_come_from_both_ends() -> None:
    """The larger group is in the middle, where values are nearest."""
    assert list(np.bincount(ir_swap({"x": np.arange(11)}, 3, "x").groups["x"])) == [3, 5, 3]


def test_informed_groups_do_not_look_at_the_column_that_moves() -> None:
    """The intruder does not know it; the groups come from all that is known."""
    table = build_tied_table(40, 11)
    other = table | {"income": table["income"][::-1]}
    groups = [
        mdav_swap(each, 3, ["age", "sex"], "income", intruder="informed").groups["income"] for each in (table, other)
    ]
    assert (groups[0] == groups[1]).all()


def test_nominal_values_are_ranked_depth_first() -> None:
    """Concepts under one parent are next to one another, in their runs too."""
    table = read_table({"x": np.array(["gout", "flu", "asthma", "lung", "gout", None])}, taxonomies={"x": AREAS})
    line = convert_to_ranks(table["x"]).values
    assert [str(place) for place in line] == ["0.0", "3.0", "2.0", "1.0", "0.0", "nan"]
    flat = convert_to_ranks(read_table({"x": np.array(["b", "a", "c"])}, categories={"x": ["c", "b", "a"]})["x"])
    assert list(flat.values) == [1, 2, 0]


def test_several_confidential_columns_are_one_compound() -> None:
    """Groups are near by both, each divided by its width."""
    original = read_table({"a": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "b": np.array([0, 9000, 0, 9000] * 2)})
    groups = group_by_confidential(original, 2, ["a", "b"], read_grouping_options(original))
    assert all(groups[row] == groups[row + 4] for row in range(4))
    assert len(set(groups)) == 4


def test_weights_move_centroids_only() -> None:
    """A record that stands for nine weighs nine times as much in its group's centroid, and counts once."""
    table = {"x": np.array([0.0, 10.0, 100.0, 110.0]), "w": np.array([9, 1, 1, 1])}
    safe = mdav_id(table, 2, "x", weights="w")
    assert list(safe["x"]) == [1, 1, 105, 105]


def test_a_weighted_median_is_the_first_place_with_half_the_weight_whatever_the_weights() -> None:
    """The lower of two places of the same weight, in each of many groups and with weights that are no binary fractions.

    Groups of one weight stand beside others a million million times as heavy, and none is rounded by another.
    """
    groups, places = np.repeat(np.arange(2000), 2), np.tile([0, 1], 2000)
    level = Attribute("level", "ordinal", places, ("lo", "hi"))
    for weight in (np.full(4000, 0.1), np.full(4000, 1e-12), np.repeat([1e12, 0.1], 2000)):
        assert not compute_centroids(level, groups, weight).values.any()
    heavier = np.tile([0.1, 0.1001], 2000)
    assert compute_centroids(level, groups, heavier).values.all()


@example([(0, 0, 3), (0, -1, 1), (0, -1, 2)])
@example([(0, 0, 3), (0, 0, 2), (0, 0, 1), (0, 1, 1), (0, 1, 2), (0, 1, 3)])
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 4), st.integers(1, 9)), min_size=1, max_size=60))
def test_weighted_centroids_are_those_of_exact_weights(rows: list[tuple[int, int, int]]) -> None:
    """Medians and modes under tenths are those under whole weights, counted one by one: no tie falls to rounding."""
    labels, places, tenths = (np.array(column) for column in zip(*rows, strict=True))
    groups = np.unique(labels, return_inverse=True)[1]
    for kind, middle in (("ordinal", find_median), ("nominal", find_mode_value)):
        attribute = Attribute("level", kind, places, tuple("abcde"))
        centroids = compute_centroids(attribute, groups, tenths / 10).values
        for group in range(groups.max() + 1):
            inside = np.repeat(places[groups == group], tenths[groups == group])
            present = sorted(inside[inside >= 0].tolist())
            lost = 2 * len(present) < len(inside)
            assert set(centroids[groups == group].tolist()) == {-1 if lost else middle(present)}


def find_median(present: list[int]) -> int:
    return present[(len(present) - 1) // 2]


def find_mode_value(present: list[int]) -> int:
    return max(sorted(set(present)), key=present.count)


def test_light_weights_choose_the_same_concept() -> None:
    """Weights count against each other alone: what is least marginal is so in any unit of weight."""
    ill = Attribute("ill", "nominal", np.array([2, 2, 2, 0]), ("flu", "asthma", "gout"), AREAS)
    for unit in (1, 0.1, 1e-12):
        assert compute_centroids(ill, np.zeros(4, dtype=np.int64), np.full(4, unit)).to_array().tolist() == ["gout"] * 4


def test_tables_come_from_duckdb_and_keep_dates() -> None:
    """A DuckDB relation goes in; dates come out as dates."""
    relation = duckdb.sql("SELECT DATE '2024-01-01' + i::INTEGER AS day, i AS pay, i % 3 AS kind FROM range(12) t(i)")
    safe = mdav_swap(relation, 3, "day", ["pay", "kind"], entropy=Stream(0))
    assert safe["day"].dtype.kind == "M"
    assert sorted(safe["pay"]) == list(range(12))
    assert (safe["pay"] % 3 == safe["kind"]).all()


# Diversity

FLOORS = {
    "distinct": Distinct(3),
    "spread": Spread(Fraction(7, 2)),
    "closeness": Closeness(Fraction(1, 4)),
}


def reaches_floor(floor: object, values: np.ndarray, whole: np.ndarray) -> bool:
    """The floor, by its definition."""
    if isinstance(floor, Distinct):
        return len(set(map(str, values))) >= floor.values
    if isinstance(floor, Spread):
        present = values[~np.isnan(values)]
        return len(present) > 0 and Fraction(present.max()) - Fraction(present.min()) >= floor.width
    levels = [float(level) for level in np.unique(np.nan_to_num(whole, nan=99))]
    mine, all_ = np.nan_to_num(values, nan=99), np.nan_to_num(whole, nan=99)
    moved = sum(
        abs(Fraction(int((mine <= level).sum()), len(mine)) - Fraction(int((all_ <= level).sum()), len(all_)))
        for level in levels
    )
    return moved / max(len(levels) - 1, 1) <= floor.t


@settings(max_examples=40)
@given(st.integers(8, 60), st.sampled_from(sorted(FLOORS)), st.integers(0, 10**6), st.booleans())
def test_groups_reach_the_floor_on_diversity_or_are_refused(rows: int, which: str, seed: int, ranked: bool) -> None:
    """Every group reaches it, by its definition; k never falls; refused only where the whole table falls short."""
    table, floor = build_tied_table(rows, seed), FLOORS[which]
    income = table["income"]
    try:
        if ranked:
            safe = ir_swap(table, 2, "income", diversity=floor, entropy=Stream(seed))
        else:
            safe = mdav_swap(table, 2, ["age", "sex"], "income", diversity=floor, entropy=Stream(seed))
    except InvalidInput:
        assert not reaches_floor(floor, income, income)
        return
    groups = safe.groups["income" if ranked else "records"]
    assert min(np.bincount(groups)) >= 2
    assert set(groups) == set(range(max(groups) + 1))
    assert all(reaches_floor(floor, income[groups == label], income) for label in set(groups))
    assert count_by_group(groups, income) == count_by_group(groups, safe["income"])


def test_a_run_short_of_the_floor_takes_as_many_neighbours_as_it_needs() -> None:
    """Six zeros in runs of two take the first run with another value; the others stay as they are."""
    values = np.array([0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6])
    safe = ir_swap({"x": values}, 2, "x", diversity=Distinct(2), entropy=Stream(1))
    assert list(safe.groups["x"]) == [0] * 8 + [1] * 2 + [2] * 2


def test_a_group_short_of_the_floor_joins_the_nearest() -> None:
    """The group of two equal incomes joins the one next to it, not the far one."""
    table = {"age": np.array([20, 21, 30, 31, 80, 81]), "income": np.array([7, 7, 1, 2, 3, 4])}
    safe = mdav_swap(table, 2, "age", "income", diversity=Distinct(2), entropy=Stream(1))
    groups = safe.groups["records"]
    assert len(set(groups[:4])) == 1
    assert set(groups[4:]) != set(groups[:4])


@pytest.mark.parametrize("ranked", [True, False])
def test_floors_are_kept_inside_strata_and_for_nominal_values(ranked: bool) -> None:
    """Joined groups stay in their stratum; closeness of nominal values is half the sum of the differences."""
    table, floor = build_tied_table(60, 7), Closeness(Fraction(1, 4))
    if ranked:
        groups = ir_swap(table, 2, "illness", diversity=floor, strata="area").groups["illness"]
    else:
        groups = mdav_swap(table, 2, "age", "illness", diversity=floor, strata="area").groups["records"]
    whole = Counter(table["illness"])
    for label in set(groups):
        mine = table["illness"][groups == label]
        here = Counter(mine)
        apart = sum(abs(Fraction(here[each], len(mine)) - Fraction(whole[each], 60)) for each in whole) / 2
        assert apart <= Fraction(1, 4)
        assert len(set(table["area"][groups == label])) == 1


# Anatomy


def build_medical_table() -> dict[str, np.ndarray]:
    """Table 7.2."""
    rows = """asian 1964-09-27 female hypertension; asian 1961-05-08 female obesity; asian 1964-04-18 male chest-pain;
    black 1963-03-13 male hypertension; black 1963-03-18 male breath; black 1964-09-07 female obesity;
    white 1961-05-14 male chest-pain; white 1963-05-08 male obesity; white 1961-09-15 female breath"""
    ethnicity, birth, sex, problem = zip(*(row.split() for row in rows.split(";")), strict=True)
    dates = np.array(birth, dtype="datetime64[D]")
    return {"ethnicity": np.array(ethnicity), "birth": dates, "sex": np.array(sex), "problem": np.array(problem)}


def test_anatomy_makes_the_two_tables_of_table_7_4() -> None:
    """Groups by ethnicity: quasi-identifiers as they were, and each group's problems once each."""
    table = build_medical_table()
    safe = anatomy(
        table, 3, ["ethnicity", "birth", "sex"], "problem", partition="quasi", strata="ethnicity", entropy=Stream(2)
    )
    assert list(safe) == ["ethnicity", "birth", "sex", "group"]
    assert all((safe[name] == table[name]).all() for name in ("ethnicity", "birth", "sex"))
    assert safe.second is not None
    second = safe.second.to_arrays()
    assert list(second) == ["group", "problem", "count"]
    assert list(second["count"]) == [1] * 9
    pairs = {(group, problem) for group, problem in zip(second["group"], second["problem"], strict=True)}
    assert pairs == set(zip(safe["group"], table["problem"], strict=True))
    assert sorted(np.bincount(safe["group"])) == [3, 3, 3]


@settings(max_examples=20)
@given(st.integers(4, 50), st.integers(2, 6), st.integers(0, 10**6), st.booleans())
def test_anatomy_counts_what_is_in_each_group(rows: int, k: int, seed: int, several: bool) -> None:
    """The second table has every group's values with their counts, in an order that is that of the values."""
    table, k = build_tied_table(rows, seed), min(k, rows)
    secret = ["income", "illness"] if several else ["income"]
    safe = anatomy(table, k, ["age", "sex"], secret, entropy=Stream(seed))
    assert safe.second is not None
    second = safe.second.to_arrays()
    listed = zip(second["group"], *(second[name] for name in secret), strict=True)
    counts = dict(zip((tuple(map(str, row)) for row in listed), second["count"], strict=True))
    assert counts == count_by_group(safe["group"], *(table[name] for name in secret))
    assert min(np.bincount(safe["group"])) >= k
    assert list(second["group"]) == sorted(second["group"])


def test_anatomy_numbers_groups_at_random() -> None:
    """Which number the lowest incomes get is uniform, so that a number says nothing about the rank."""
    table, entropy = {"q": np.arange(9), "x": np.arange(9)}, KeyedEntropy(b"numbers", "test")
    numbers = Counter((int(anatomy(table, 3, "q", "x", entropy=entropy)["group"][0]),) for _ in range(600))
    assert compute_fit_probability(numbers, 3) > 0.001


# Refusals

TABLE = {
    "age": np.arange(6),
    "pay": np.array([1, 2, 3, 4, 5, 6]),
    "same": np.ones(6),
    "empty": np.full(6, np.nan),
    "group": np.arange(6),
    "text": np.array(list("abcabc")),
}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mdav_id(TABLE, 7, "age"), "k is 7 but there are only 6 rows"),
        (lambda: mdav_id(TABLE, 1, "age"), "k must be a whole number of at least 2, got 1"),
        (lambda: mdav_id(TABLE, 2.5, "age"), "k must be a whole number of at least 2, got 2.5"),
        (lambda: mdav_id(TABLE, "2", "age"), "k must be a number"),
        (lambda: mdav_id(TABLE, 2, []), "at least one column"),
        (lambda: mdav_id(TABLE, 2, ["age", "age"]), "each once"),
        (lambda: mdav_id(TABLE, 2, [3]), "by its name"),
        (lambda: mdav_id(TABLE, 2, "wage"), "unknown column 'wage'"),
        (lambda: mdav_id(TABLE, 2, "same"), "'same' has the same value in every row"),
        (lambda: mdav_id(TABLE, 2, "empty"), "'empty' has no values"),
        (lambda: mdav_id(TABLE, 2, "text", kinds={"text": "numeric"}), "declared numeric and holds text"),
        (lambda: mdav_id(TABLE, 2, "age", strata=[1, 2]), "strata must be the name of a column"),
        (lambda: mdav_id(TABLE, 2, "age", weights="text"), "weights must be the name of a column"),
        (lambda: mdav_id(TABLE, 2, "age", weights=[0] * 6), "weight"),
        (lambda: mdav_id(TABLE, 2, "age", strata="pay"), "strat"),
        (lambda: mdav_id(TABLE, 2, "age", method="best"), "method"),
        (lambda: mdav_swap(TABLE, 2, ["age", "pay"], "pay"), "'pay' is both quasi-identifier and confidential"),
        (lambda: mdav_swap(TABLE, 2, [], "pay"), "quasi must list"),
        (lambda: mdav_swap(TABLE, 2, [], "pay", intruder="informed"), "another column"),
        (lambda: mdav_swap(TABLE, 2, "age", "pay", intruder="all"), "intruder is"),
        (lambda: mdav_swap(TABLE, 2, "age", "pay", intruder="informed", swap="quasi"), "swap is"),
        (lambda: mdav_swap(TABLE, {"age": 2}, "age", "pay"), "one for each confidential column"),
        (lambda: mdav_swap(TABLE, {"pay": 9}, "age", "pay"), "k is 9"),
        (lambda: mdav_swap(TABLE, 2, "age", "pay", diversity=3), "diversity must be"),
        (lambda: mdav_swap(TABLE, 2, "age", "pay", diversity={"age": Distinct(2)}), "diversity must be"),
        (lambda: ir_swap(TABLE, 2, "pay", diversity=Distinct(7)), "reach the diversity asked for"),
        (lambda: mdav_swap(TABLE, 2, "age", "pay", diversity=Distinct(7)), "reach the diversity asked for"),
        (lambda: ir_swap(TABLE, 2, "text", diversity=Spread(1)), "have no order"),
        (lambda: ir_swap(TABLE, 2, "same"), "the same value in every row"),
        (lambda: ir_swap(TABLE, 2, "empty"), "has no values"),
        (lambda: ir_swap([1, 2], 2, "x"), "a table is a DuckDB relation"),
        (lambda: ir_swap(TABLE, 2, "pay", entropy=7), "entropy must have take"),
        (lambda: anatomy(TABLE, 2, "group", "pay"), "writes a column 'group'"),
        (lambda: anatomy(TABLE, 2, "age", "pay", partition="rows"), "partition is"),
        (lambda: anatomy(TABLE, 2, "age", "age"), "both quasi-identifier and confidential"),
        (lambda: anatomy(TABLE, 2, "same", "pay"), "the same value in every row"),
        (lambda: Distinct(1), "at least 2"),
        (lambda: Spread(0), "width of a spread"),
        (lambda: Closeness(-1), "closeness t"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words: str) -> None:
    """What was asked and what is allowed, in one sentence."""
    with pytest.raises(InvalidInput) as refusal:
        call()
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert ". " not in str(refusal.value)


def test_the_checks_give_what_they_checked() -> None:
    """k as a whole number; roles as names; informed intruders may know what is confidential."""
    table = read_table(TABLE)
    assert check_k(np.int64(3), 6) == 3
    assert check_roles(table, "age", ["pay"], informed=False) == (("age",), ("pay",))
    assert check_roles(table, ["age", "pay"], ["pay"], informed=True) == (("age", "pay"), ("pay",))
    check_informative(table["pay"])
