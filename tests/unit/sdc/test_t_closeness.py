"""t-closeness: it holds exactly, for any t, rows and kind of column, or is refused with the smallest t that is met."""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from discreet.errors import InvalidInput
from discreet.priors.taxonomy import Taxonomy
from discreet.query.scan import assign_groups
from discreet.sdc.methods.bucket_feasibility import (
    build_bucket_values,
    choose_bucketing,
    compute_cut_sizes,
    compute_cuts,
    compute_distribution_distance,
    find_max_groups,
    find_smallest_t,
    find_smallest_t_for,
    groups_apart,
    is_feasible,
)
from discreet.sdc.methods.t_closeness import (
    MAX_BUCKETS,
    assign_rows,
    compute_group_sizes,
    plan_bucketization,
    plan_deals,
    t_close,
)
from discreet.sdc.table import ProtectedTable, read_table
from support.fixed_streams import Stream
from support.seeded_entropy import cache

AREAS = Taxonomy.of(
    {
        "flu": "lung",
        "asthma": "lung",
        "gout": "joint",
        "sprain": "joint",
        "migraine": "any",
        "lung": "any",
        "joint": "any",
    }
)
SIZES = st.lists(st.integers(1, 9), min_size=2, max_size=3).map(tuple)
TS = st.fractions(1, 4, max_denominator=12)


def list_compositions(total: int, most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """List the ways to hold so many rows, at least one and at most so many of each bucket."""
    if len(most) == 1:
        yield from [(total,)] if 1 <= total <= most[0] else []
        return
    for here in range(1, min(total, most[0]) + 1):
        yield from ((here, *rest) for rest in list_compositions(total - here, most[1:]))


def find_least_ratio(sizes: tuple[int, ...], per_bucket: int) -> Fraction | None:
    """Find the least ratio of all tables, by looking at all."""
    rows = sum(sizes)
    groups = compute_group_sizes(rows, len(sizes) * per_bucket)

    def search_ratios(left: tuple[int, ...], which: int) -> Iterator[Fraction]:
        if which == len(groups):
            yield Fraction(1)
            return
        for bucket_counts in list_compositions(groups[which], left):
            mine = compute_distribution_distance(bucket_counts, sizes).ratio
            rest = tuple(a - b for a, b in zip(left, bucket_counts, strict=True))
            yield from (max(mine, other) for other in search_ratios(rest, which + 1))

    return min(search_ratios(sizes, 0), default=None)


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES.filter(lambda sizes: sum(sizes) <= 18), per_bucket=st.integers(1, 2))
def test_the_smallest_t_is_that_of_all_tables(sizes: tuple[int, ...], per_bucket: int) -> None:
    """No table for so many groups is closer to the whole than the smallest t says, and one is as close."""
    if per_bucket * len(sizes) > 4 and sum(sizes) > 14:
        sizes = tuple(min(size, 4) for size in sizes)
    assert find_smallest_t_for(sizes, per_bucket) == find_least_ratio(sizes, per_bucket)


def test_less_can_do_than_the_sufficient_condition() -> None:
    """With groups of two sizes a table may be closer than any that rounds every share to a neighbour."""
    assert find_smallest_t_for((4, 3), 1) == find_least_ratio((4, 3), 1) == Fraction(9, 7)
    assert find_smallest_t_for((3, 3), 1) == Fraction(3, 2)


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(1, 60), min_size=2, max_size=5).map(tuple), k=st.integers(2, 9), t=TS)
def test_feasibility_is_monotone_and_ends_at_the_smallest_t(sizes: tuple[int, ...], k: int, t: Fraction) -> None:
    """Groups exist exactly from the smallest t on."""
    least, most = find_smallest_t(sizes, k), find_max_groups(sizes, t, k)
    assert (most is not None) == (least is not None and t >= least)
    if least is not None:
        assert find_max_groups(sizes, least, k) is not None
        assert find_max_groups(sizes, least - Fraction(1, 10**9), k) is None
    if most is not None:
        assert is_feasible(sizes, most, t)


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(1, 80), min_size=2, max_size=5).map(tuple), k=st.integers(2, 9), t=TS)
def test_deals_make_groups_of_the_right_sizes(sizes: tuple[int, ...], k: int, t: Fraction) -> None:
    """Dealt like cards, every group is t-close and the groups have the sizes k_i; every row is dealt once."""
    per_bucket = find_max_groups(sizes, t, k)
    if per_bucket is None:
        return
    deals = plan_deals(sizes, t, per_bucket)
    bucket = np.repeat(np.arange(len(sizes)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    groups = assign_rows(deals, bucket, np.arange(len(bucket)))
    assert np.array_equal(groups, assign_groups(deals, bucket, place))
    assert sorted(np.bincount(groups).tolist()) == sorted(compute_group_sizes(sum(sizes), len(sizes) * per_bucket))
    measured = groups_apart(groups, bucket)
    assert measured.worst.ratio <= t
    assert measured.between <= t * t
    assert measured.smallest >= k


def test_a_bucket_stands_out_as_much_as_t_allows() -> None:
    """With room for it, each group has t times the share of its own bucket, and 1/t of those of the others."""
    deals = plan_deals((600, 600, 600), Fraction(2), 20)
    bucket = np.repeat(np.arange(3), 600)
    groups = assign_rows(deals, bucket, np.arange(1800))
    bucket_counts = np.array([np.bincount(bucket[groups == label]) for label in range(60)])
    assert sorted(map(tuple, np.unique(bucket_counts, axis=0).tolist())) == [(5, 5, 20), (5, 20, 5), (20, 5, 5)]


@given(rows=st.integers(2, 200), buckets=st.integers(2, 12))
def test_cuts_leave_no_bucket_empty(rows: int, buckets: int) -> None:
    """Buckets differ by at most one row."""
    if buckets <= rows:
        assert max(compute_cut_sizes(rows, buckets)) - min(compute_cut_sizes(rows, buckets)) <= 1
        assert min(compute_cut_sizes(rows, buckets)) >= 1


def test_cuts_of_the_notes() -> None:
    """The two cases in which the printed formulas go wrong."""
    assert compute_cut_sizes(10, 6) == (2, 1, 2, 2, 1, 2)
    assert compute_cuts(12, 3) == (4, 8)


def read_refused_t(refusal: InvalidInput) -> Fraction | None:
    """The smallest t that is feasible as it was told: rounded up, in the twelfth digit at most."""
    match = re.search(r"feasible, rounded up, is ([0-9.,]+);", str(refusal))
    return None if match is None else Fraction(match[1].replace(",", ""))


def assert_t_close(released: ProtectedTable, column: str, t: Fraction, k: int) -> None:
    """Every group has at least k rows and is t-close in what was released, by plain counting."""
    groups, values = released.groups["records"].tolist(), [str(value) for value in released[column]]
    whole = Counter(values)
    for label in set(groups):
        mine = Counter(value for value, group in zip(values, groups, strict=True) if group == label)
        size = sum(mine.values())
        assert size >= k
        for value, count in whole.items():
            share = Fraction(count, len(values))
            assert share / t <= Fraction(mine[value], size) <= share * t


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=4, max_size=60),
    k=st.integers(2, 8),
    t=TS,
    buckets=st.one_of(st.none(), st.integers(2, 5)),
    kind=st.sampled_from(["numeric", "ordinal", "nominal"]),
)
def test_it_holds_exactly_or_is_refused_with_the_smallest_t(
    values: list[int | None], k: int, t: Fraction, buckets: int | None, kind: str
) -> None:
    """For any rows, k and t, with ties and missing values; the t in a refusal is met, and nothing below it."""
    facts = {"kinds": {"c": kind}}
    released_values = values if kind == "numeric" else [None if value is None else str(value) for value in values]
    table = {"q": np.arange(len(values)), "c": np.array(released_values, dtype=object)}

    def attempt_release(close: Fraction) -> ProtectedTable:
        return t_close(table, close, k, "q", "c", buckets=buckets, entropy=Stream(1), **facts)

    try:
        assert_t_close(attempt_release(t), "c", t, k)
    except InvalidInput as refusal:
        least = read_refused_t(refusal)
        if least is not None:
            assert least > t
            assert_t_close(attempt_release(least), "c", least, k)
            with pytest.raises(InvalidInput):
                attempt_release((least + t) / 2)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(12, 90), k=st.integers(2, 6), t=TS)
def test_groups_hold_the_buckets_of_their_own_rows(seed: int, rows: int, k: int, t: Fraction) -> None:
    """Values change places inside groups only, every one its bucket's mean, and the column keeps its mean."""
    values = np.random.default_rng(seed).integers(0, 12, rows)
    table = {"q": np.arange(rows), "c": values}
    try:
        released = t_close(table, t, k, ["q"], ["c"], entropy=Stream(seed))
    except InvalidInput:
        return
    sizes = [bucket["rows"] for bucket in released.facts["buckets"]]  # type: ignore[attr-defined]
    ranked = sorted(range(rows), key=lambda row: (values[row], row))
    ends = np.cumsum([0, *sizes])
    mean = {row: np.mean(values[ranked[a:b]]) for a, b in pairwise(ends) for row in ranked[a:b]}
    for label in np.unique(released.groups["records"]):
        members = np.flatnonzero(released.groups["records"] == label)
        assert sorted(released["c"][members]) == pytest.approx(sorted(mean[row] for row in members.tolist()))
    assert released["c"].mean() == pytest.approx(values.mean())
    assert np.array_equal(released["q"], table["q"])


def test_anatomy_has_two_tables_that_agree() -> None:
    """The first has the quasi-identifiers with a group, the second how often each value occurs in it."""
    rows = 60
    table = {"q": np.arange(rows), "spare": np.arange(rows), "c": np.arange(rows) % 7}
    released = t_close(table, 2, 6, "q", "c", form="anatomy", entropy=Stream(3))
    assert list(released) == ["q", "group"]
    assert released.second is not None
    second = released.second.to_arrays()
    assert Counter(released["group"].tolist()) == Counter(np.repeat(second["group"], second["count"]).tolist())
    assert np.repeat(second["c"], second["count"]).mean() == pytest.approx(table["c"].mean())
    numbered = {tuple(t_close(table, 2, 6, "q", "c", form="anatomy")["group"][:3]) for _ in range(8)}
    assert len(numbered) > 1


def test_other_columns_are_left_out() -> None:
    """A column that is neither quasi-identifier nor confidential would stay on its row and could tell all."""
    table = {"q": np.arange(12), "copy": np.arange(12), "c": np.arange(12)}
    assert list(t_close(table, 2, 4, "q", "c")) == ["q", "c"]


@cache
def draw_many_releases() -> tuple[ProtectedTable, ...]:
    """Figure 7.5, drawn often."""
    table, stream = {"q": np.arange(12), "c": np.arange(12)}, Stream(5)
    return tuple(t_close(table, 1.5, 4, "q", "c", buckets=3, entropy=stream) for _ in range(1500))


def test_rows_of_a_bucket_have_the_same_chance_of_every_group() -> None:
    """Which rows of a bucket a group gets is drawn uniformly."""
    groups_by_draw = np.array([released.groups["records"] for released in draw_many_releases()]).T
    counts = np.array([np.bincount(each, minlength=3) for each in groups_by_draw])
    expected = np.array([[2, 1, 1]] * 4 + [[1, 2, 1]] * 4 + [[1, 1, 2]] * 4) * groups_by_draw.shape[1] / 4
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.999, 24)


def test_values_change_places_uniformly_in_a_group() -> None:
    """A row carries each bucket as often as its group has it, whatever its own."""
    carried = Counter(float(released["c"][0]) for released in draw_many_releases())
    # Row 0 is in the group of its own bucket half of the time, where that has 1/2; else it has 1/4.
    expected = {1.5: 3 / 8, 5.5: 5 / 16, 9.5: 5 / 16}
    runs = carried.total()
    assert sum((carried[v] - runs * p) ** 2 / (runs * p) for v, p in expected.items()) < chi2.ppf(0.999, 2)


@pytest.mark.parametrize(
    ("counts", "names"),
    [
        # In depth-first order: gout, sprain; asthma, flu; migraine.
        ((6, 5, 6, 6, 4), ["joint", "asthma", "flu or migraine"]),
        ((4, 5, 5, 4, 9), ["joint", "lung", "migraine"]),
        ((1, 1, 1, 1, 9), ["asthma or flu or gout or sprain", "migraine"]),
    ],
)
def test_nominal_buckets_are_whole_categories_with_true_names(counts: tuple[int, ...], names: list[str]) -> None:
    """A bucket is named by its category, by the concept that covers its categories and no others, or by all of them."""
    categories = ("gout", "sprain", "asthma", "flu", "migraine")
    values = np.repeat(np.array(categories, dtype=object), counts)
    table = read_table({"c": values}, taxonomies={"c": AREAS})
    bucket = choose_bucketing(table)(3)
    assert build_bucket_values(table, bucket)["c"].to_array().tolist() == names
    assert all(len(set(bucket[values == category].tolist())) == 1 for category in categories)


def test_a_missing_category_is_a_category_of_its_own() -> None:
    """It comes last, is named where it shares a bucket, and stays missing where it does not."""
    for values, names in {
        ("a", "a", "b", None): ["a", "b or missing"],
        ("a", "b", None, None): ["a or b", None],
    }.items():
        table = read_table({"c": np.array(values, dtype=object)})
        assert build_bucket_values(table, choose_bucketing(table)(2))["c"].to_array().tolist() == names


def test_several_columns_are_one_compound() -> None:
    """Buckets of records near in both columns; each column has the bucket's centroid, and both move together."""
    rng = np.random.default_rng(4)
    table = {"q": np.arange(90), "a": rng.normal(size=90), "b": rng.integers(0, 5, 90).astype(str)}
    released = t_close(table, Fraction(5, 2), 6, "q", ["a", "b"], entropy=Stream(2))
    assert released.facts["t_ratio"] <= 2.5  # type: ignore[operator]
    buckets = {(each["value"]["a"], each["value"]["b"]) for each in released.facts["buckets"]}  # type: ignore[attr-defined]
    assert set(zip(released["a"].tolist(), released["b"].tolist(), strict=True)) == buckets
    assert_t_close(released, "a", Fraction(5, 2), 6)


def test_facts_are_json_and_the_promise_says_what_it_assumes() -> None:
    """What may be told can be written down, and no epsilon is promised."""
    days = np.array(["2020-01-01", "NaT"] * 20, dtype="datetime64[D]") + np.arange(40)
    released = t_close({"q": np.arange(40), "c": days}, 3, 4, "q", "c")
    assert json.loads(json.dumps(dict(released.facts))) == dict(released.facts)
    promise = released.guarantee
    assert (promise.model, promise.t, promise.distance, promise.epsilon) == ("t-closeness", 3, "ratio", None)
    assert any("not differential privacy" in each for each in promise.assumptions)
    assert any("t squared" in each for each in promise.assumptions)


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(9, 400), k=st.integers(2, 9), t=TS)
def test_an_engine_can_follow_the_plan(rows: int, k: int, t: Fraction) -> None:
    """From the number of rows alone: buckets between the cuts, dealt, are groups that are t-close."""
    try:
        plan = plan_bucketization("c", rows, t, k)
    except InvalidInput:
        with pytest.raises(InvalidInput):
            t_close({"q": np.arange(rows), "c": np.arange(rows)}, t, k, "q", "c")
        return
    bucket = np.searchsorted(np.array(plan.cuts), np.arange(rows), side="right")
    place = np.arange(rows) - np.array([0, *plan.cuts])[bucket]
    groups = assign_groups(plan.deals, bucket, place)
    measured = groups_apart(groups, bucket)
    assert measured.worst.ratio <= t
    assert measured.smallest >= k
    assert plan.hidden


def test_a_huge_t_asks_for_no_more_buckets_than_are_made() -> None:
    """Any t has an answer, and no more deals than an engine can take."""
    plan = plan_bucketization("c", 10**7, 10**30, 5)
    assert len(plan.cuts) == MAX_BUCKETS - 1
    assert len(plan.deals) <= 2 * MAX_BUCKETS**2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"t": 0.99}, "t must be at least 1"),
        ({"t": math.nan}, "t must be a finite number"),
        ({"k": 1}, "k must be a whole number of at least 2"),
        ({"k": 13}, "only 12 rows"),
        ({"k": 7}, "cannot be made for any t"),
        ({"buckets": 1}, "buckets must be a whole number of at least 2"),
        ({"buckets": 4}, "cannot be made for any t"),
        ({"groups_per_bucket": 4}, "cannot be made for any t"),
        ({"form": "plain"}, "form is 'hidden' or 'anatomy'"),
        ({"quasi": "c"}, "both quasi-identifier and confidential"),
        ({"confidential": "same"}, "has the same value in every row"),
        ({"confidential": "none"}, "all are missing"),
        ({"confidential": "what"}, "unknown column 'what'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change: dict[str, object], words: str) -> None:
    """Each says what is allowed."""
    table = {"q": np.arange(12), "c": np.arange(12), "same": np.ones(12), "none": np.full(12, np.nan)}
    options = {"t": 2, "k": 3, "quasi": "q", "confidential": "c"} | change
    with pytest.raises(InvalidInput, match=re.escape(words)) as refusal:
        t_close(table, **options)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


def test_anatomy_refuses_columns_named_as_its_own() -> None:
    """The tables have columns `group` and `count`."""
    table = {"group": np.arange(12), "c": np.arange(12)}
    assert "group" in t_close(table, 2, 3, "group", "c")
    with pytest.raises(InvalidInput, match="rename"):
        t_close(table, 2, 3, "group", "c", form="anatomy")


def test_two_confidential_rows_cannot_be_in_every_group() -> None:
    """A category too rare for two groups is refused at any t."""
    table = {"q": np.arange(20), "c": np.array(["often"] * 19 + ["once"], dtype=object)}
    with pytest.raises(InvalidInput, match="cannot be made for any t"):
        t_close(table, 100, 2, "q", "c")


@pytest.mark.soak
def test_a_million_rows_take_seconds() -> None:
    """The cost is that of a few sorts."""
    rng = np.random.default_rng(1)
    table = {"q": np.arange(10**6), "c": rng.normal(size=10**6)}
    start = time.process_time()
    released = t_close(table, 2.5, 5, "q", "c")
    assert time.process_time() - start < 10
    assert released.facts["t_ratio"] <= 2.5  # type: ignore[operator]
