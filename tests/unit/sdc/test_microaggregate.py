"""Groups by every method have at least k rows, mean what they say, and refuse what they cannot do."""

from __future__ import annotations

import json
import math
import random
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.priors.distance import Distance, boundary
from discreet.priors.taxonomy import Taxonomy
from discreet.sdc.methods import mdav
from discreet.sdc.methods.microaggregate import GROUPING_METHODS, microaggregate, order_corners
from discreet.sdc.methods.record_distance import (
    FLAT_DISTANCE,
    build_spaces,
    compute_centroids,
    compute_domain_width,
    compute_semantic_distances,
    find_boundary_categories,
)
from discreet.sdc.table import Attribute, Table, read_table

GOLDEN = {entry["id"]: entry for entry in json.loads((Path(__file__).parents[2] / "golden.json").read_text())}
TREE = Taxonomy.of({"cat": "animal", "dog": "animal", "oak": "plant", "fir": "plant", "animal": "any", "plant": "any"})
VALUES = [1, 2, 3, 10, 11, 12, 20, 21, 22, 23]


def build_beings(*values: str | None) -> Attribute:
    return read_table({"being": np.array(values, dtype=object)}, taxonomies={"being": TREE})["being"]


def build_single_table(attribute: Attribute) -> Table:
    return Table({attribute.name: attribute})


@given(st.data())
@settings(max_examples=80)
def test_no_group_has_fewer_than_k_rows(data: st.DataObject) -> None:
    """For any number of rows, any k, duplicates and missing values, by every method; labels run from 0."""
    value = st.one_of(st.none(), st.integers(0, 3).map(float), st.floats(-1e6, 1e6))
    column = data.draw(st.lists(value, min_size=2, max_size=60))
    other = data.draw(st.lists(value, min_size=len(column), max_size=len(column)))
    k = data.draw(st.integers(2, len(column)))
    for method in GROUPING_METHODS:
        array = np.array([np.nan if v is None else v for v in column])
        two = np.array([np.nan if v is None else v for v in other])
        table = array if method in {"ranking", "blocks"} else np.column_stack([array, two])
        groups = microaggregate(table, k, method, "domain")
        sizes = np.bincount(groups)
        assert len(groups) == len(column)
        assert sizes.min() >= k
        assert method == "v-mdav" or sizes.max() < 2 * k


def test_runs_of_ranks() -> None:
    """Both ends in turn, or blocks from the low end: the worked example."""
    expected = GOLDEN["ir.low"]["expected"]
    groups = microaggregate(VALUES, 3, "blocks")
    assert np.bincount(groups).tolist() == expected["sizes"]
    assert [float(np.mean(np.array(VALUES)[groups == g])) for g in range(3)] == expected["centroids"]
    assert microaggregate(VALUES, 3, "ranking").tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("look", ["normal", "ties", "zeros"])
def test_the_compiled_sort_is_the_stable_one(look: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many values as of few: rising, missing last, ties and both zeros by index."""
    noise = np.random.default_rng(3)
    values = {
        "normal": noise.normal(size=5000) * 10.0 ** noise.integers(-300, 300, 5000),
        "ties": noise.integers(-3, 3, 5000).astype(float),
        "zeros": noise.choice([0.0, -0.0, np.nan, -1.5], 5000),
    }[look]
    values[::7] = np.nan
    attribute = Attribute("x", "numeric", values)
    expected = mdav.rank_rows(attribute)
    monkeypatch.setattr(mdav, "MIN_COMPILED_SORT", 1)
    assert np.array_equal(mdav.rank_rows(attribute), expected)


def test_places_are_ranked_in_their_order() -> None:
    """An ordinal column goes by its list, not by the alphabet; what is missing comes last."""
    levels = np.array(["high", None, "low", "mid", "low", "high"], dtype=object)
    table = read_table({"level": levels}, categories={"level": ("low", "mid", "high")})
    assert microaggregate(table, 2, "blocks").tolist() == [1, 2, 0, 1, 0, 2]


def test_random_groups_are_uniform_and_scripted() -> None:
    """The same entropy gives the same groups; over many draws every pair of rows meets as often."""
    draw = [microaggregate(VALUES, 3, "random", entropy=KeyedEntropy(b"key", "a")) for _ in range(2)]
    assert np.array_equal(*draw)
    entropy, meetings, rounds = KeyedEntropy(b"key", "pairs"), np.zeros((6, 6)), 3000
    for _ in range(rounds):
        groups = microaggregate(VALUES[:6], 3, "random", entropy=entropy)
        meetings += groups[:, None] == groups[None, :]
    off = meetings[~np.eye(6, dtype=bool)] / rounds
    assert np.abs(off - 0.4).max() < 5 * math.sqrt(0.4 * 0.6 / rounds)


def test_strata_are_never_crossed() -> None:
    """Each stratum has the groups it would have alone; labels go on."""
    noise = np.random.default_rng(0)
    table = {"x": noise.normal(size=60), "y": noise.normal(size=60), "place": noise.choice(["n", "s"], 60)}
    groups = microaggregate(table, 4, strata="place")
    north = table["place"] == "n"
    assert set(groups[north]).isdisjoint(groups[~north])
    alone = microaggregate(np.column_stack([table["x"], table["y"]])[north], 4)
    assert np.array_equal(groups[north], alone)
    assert np.array_equal(groups, microaggregate({"x": table["x"], "y": table["y"]}, 4, strata=table["place"]))


def test_weights_move_the_average() -> None:
    """A heavy record draws the average to itself, so that the other end is peeled first; k still counts rows."""
    values = [0.0, 1.0, 2.0, 8.0, 9.0, 10.0, 11.0]
    light = microaggregate(values, 3)
    heavy = microaggregate(values, 3, weights=[1, 1, 1, 1, 1, 1, 1000])
    assert light[0] == heavy[0] == 0
    groups = microaggregate(values, 3, weights=[1000, 1, 1, 1, 1, 1, 1])
    assert groups[6] == 0
    assert np.bincount(groups).tolist() == [3, 4]


@pytest.mark.parametrize("scale", ["domain", "deviation", (1.0, 1e6)])
def test_scales_make_units_vanish(scale: object) -> None:
    """A column in another unit gives the same groups where it is divided by its own size, and others where not."""
    noise = np.random.default_rng(4)
    metres = noise.random((80, 2))
    microns = metres * [1.0, 1e6]
    by = None if isinstance(scale, tuple) else scale
    assert np.array_equal(microaggregate(metres, 4, "mdav", by), microaggregate(microns, 4, "mdav", scale))  # type: ignore[arg-type]
    assert not np.array_equal(microaggregate(metres, 4), microaggregate(microns, 4))


def test_formula_6_7_divides_by_the_boundary() -> None:
    """Of numbers by the domain's width, of ordinal values by the number of steps, of nominal ones by 6.2 and 6.3."""
    table = read_table(
        {
            "age": np.array([10.0, 40.0]),
            "level": np.array(["low", "mid"], dtype=object),
            "being": np.array(["cat", "dog"], dtype=object),
            "colour": np.array(["red", "green"], dtype=object),
        },
        categories={"level": ("low", "mid", "high")},
        taxonomies={"being": TREE},
        domains={"age": (0, 100)},
    )
    space = build_spaces([table], "domain")[0]
    apart = float(((space.points[0] - space.points[1]) ** 2).sum())
    apart += sum(float(s[a, b]) for s, a, b in zip(space.squares, *space.codes, strict=True))
    semantic = Distance.semantic(TREE)
    ratio = semantic.between("cat", "dog") / semantic.between("cat", "oak")
    assert apart == pytest.approx(0.3**2 + 0.5**2 + ratio**2 + 1)


def test_semantic_distances_are_formula_6_6() -> None:
    """Between any two concepts, as the exact distance says; a list without a taxonomy is as a flat one."""
    concepts = tuple(TREE.ancestors)
    distances = compute_semantic_distances(TREE, concepts, concepts)
    expected = [[Distance.semantic(TREE).between(a, b) for b in concepts] for a in concepts]
    assert distances == pytest.approx(np.array(expected), abs=1e-15)
    assert Distance.semantic(Taxonomy.flat(["a", "b"])).between("a", "b") == FLAT_DISTANCE
    assert compute_semantic_distances(None, "ab", "ab").tolist() == [[0, FLAT_DISTANCE], [FLAT_DISTANCE, 0]]


def test_boundaries_are_formulas_6_2_and_6_3() -> None:
    """The most marginal category and the one farthest from it, on a tree where they are not the diameter's ends."""
    tree = Taxonomy.of({"1": "0", "2": "0", "3": "2", "4": "0", "5": "1", "6": "1", "7": "2"})
    leaves = tree.leaves
    attribute = Attribute("x", "nominal", np.array([0]), leaves, tree)
    assert tuple(leaves[p] for p in find_boundary_categories(attribute)) == boundary(Distance.semantic(tree), leaves)
    assert compute_domain_width(attribute) == pytest.approx(0.8074, abs=1e-4)


def test_missing_values_are_as_far_as_the_domain_is_wide() -> None:
    """From every present value in a coordinate of their own; alike among themselves; a category of their own."""
    table = {
        "x": np.array([0.0, 8.0, np.nan, np.nan]),
        "c": np.array(["a", "b", None, None], dtype=object),
    }
    space = build_spaces([read_table(table)], None)[0]
    assert space.points.tolist() == [[0, 0], [8, 0], [4, 8], [4, 8]]
    assert space.squares[0][0, 2] == space.squares[0][2, 1] == 1
    assert space.codes[:, 0].tolist() == [0, 1, 2, 2]


def test_released_concepts_are_in_the_space_of_the_original() -> None:
    """A centroid above the leaves has its distance to every value; the tables' codes agree."""
    before = build_beings("cat", "dog", "cat", "dog", "oak", "fir")
    after = compute_centroids(before, np.zeros(6, dtype=np.int64))
    one, two = build_spaces([build_single_table(before), build_single_table(after)], None)
    assert one.squares[0] is two.squares[0]
    value = after.categories[after.values[0]]
    apart = math.sqrt(one.squares[0][one.codes[0, 0], two.codes[0, 0]])
    assert apart == pytest.approx(Distance.semantic(TREE).between("cat", value))


@pytest.mark.parametrize("seed", range(5))
def test_nominal_centroids_are_least_marginal(seed: int) -> None:
    """Formula 6.4 by trying every concept above a value; categories first where several are best."""
    chance = random.Random(seed)
    values = [chance.choice(["cat", "dog", "oak", "fir"]) for _ in range(60)]
    groups = np.array([chance.randrange(12) for _ in values])
    groups = np.unique(groups, return_inverse=True)[1]
    centroids = compute_centroids(build_beings(*values), groups)
    semantic = Distance.semantic(TREE)
    for group in range(groups.max() + 1):
        members = [value for value, g in zip(values, groups, strict=True) if g == group]
        above = set().union(*(TREE.ancestors[value] for value in members))
        sums = {concept: sum(semantic.between(concept, value) for value in members) for concept in above}
        chosen = {centroids.categories[p] for p in centroids.values[groups == group]}
        assert len(chosen) == 1
        assert sums[chosen.pop()] == pytest.approx(min(sums.values()))


def test_centroids_of_each_kind() -> None:
    """Means, weighted means, lower medians, modes; equal values stay what they are to the last bit."""
    groups = np.array([0, 0, 0, 1, 1])
    number = Attribute("x", "numeric", np.array([0.1, 0.1, 0.1, 1.0, 3.0]))
    assert compute_centroids(number, groups).values.tolist() == [0.1, 0.1, 0.1, 2.0, 2.0]
    assert compute_centroids(number, groups, np.array([1, 1, 1, 1, 3.0])).values[3] == 2.5
    level = Attribute("x", "ordinal", np.array([2, 0, 1, 0, 2]), ("a", "b", "c"))
    assert compute_centroids(level, groups).values.tolist() == [1, 1, 1, 0, 0]
    assert compute_centroids(level, groups, np.array([9, 1, 1, 1, 2.0])).values.tolist() == [2, 2, 2, 2, 2]
    flat = Attribute("x", "nominal", np.array([2, 2, 1, 1, 0]), ("a", "b", "c"))
    assert compute_centroids(flat, groups).values.tolist() == [2, 2, 2, 0, 0]


def test_a_centroid_is_missing_where_most_is() -> None:
    """Half is not most; weights count; every kind alike."""
    groups = np.array([0, 0, 1, 1, 1])
    number = Attribute("x", "numeric", np.array([4.0, np.nan, np.nan, np.nan, 7.0]))
    assert compute_centroids(number, groups).values.tolist() == pytest.approx(
        [4, 4, np.nan, np.nan, np.nan], nan_ok=True
    )
    assert compute_centroids(number, groups, np.array([1, 1, 1, 1, 2.0])).values[4] == 7
    for kind in ("ordinal", "nominal"):
        listed = Attribute("x", kind, np.array([0, -1, -1, -1, 1]), ("a", "b"))  # type: ignore[arg-type]
        assert compute_centroids(listed, groups).values.tolist() == [0, 0, -1, -1, -1]
    assert compute_centroids(build_beings("cat", None, None, None, "dog"), groups).values[2] == -1


def test_corners_go_from_one_end_to_the_other() -> None:
    """All lower bounds first, all upper ones next; then always the farthest unused; every corner once."""
    for count in range(1, 6):
        order = order_corners(count)
        assert sorted(map(tuple, order.tolist())) == sorted(product((0, 1), repeat=count))
        assert order[0].sum() == 0
        assert order[1].sum() == count
        assert all((order[i] != order[i + 1]).sum() == count for i in range(0, len(order), 2))


@given(st.data())
@settings(max_examples=60)
def test_insensitive_groups_change_by_one_record(data: st.DataObject) -> None:
    """Proposition 7: replace one record, and every group loses at most one record and gains at most one."""
    place = st.tuples(st.integers(0, 4), st.integers(0, 4))
    rows = data.draw(st.lists(place, min_size=6, max_size=30))
    k, position, other = data.draw(st.integers(2, 4)), data.draw(st.integers(0, len(rows) - 1)), data.draw(place)
    changed = [*rows[:position], other, *rows[position + 1 :]]
    domains = [(0, 4), (0, 4)]
    groups_before = _list_rows_of_groups(
        rows, microaggregate(np.array(rows), k, "insensitive", "domain", domains=domains)
    )
    two = _list_rows_of_groups(changed, microaggregate(np.array(changed), k, "insensitive", "domain", domains=domains))
    for before, after in zip(groups_before, two, strict=True):
        assert sum(max(0, before.count(row) - after.count(row)) for row in set(before)) <= 1


def _list_rows_of_groups(rows: list[tuple[int, int]], groups: np.ndarray) -> list[list[tuple[int, int]]]:
    return [[rows[i] for i in np.flatnonzero(groups == g)] for g in range(groups.max() + 1)]


def test_insensitive_groups_of_nominal_columns() -> None:
    """The first group is nearest to the boundary of 6.2, the second to that of 6.3; ties go by the alphabet."""
    table = read_table({"being": np.array(["oak", "cat", "dog", "fir"] * 3, dtype=object)}, taxonomies={"being": TREE})
    groups = microaggregate(table, 3, "insensitive", "domain")
    labels = table["being"].to_array()
    low, high = (table["being"].categories[p] for p in find_boundary_categories(table["being"]))
    assert set(labels[groups == 0]) == {low}
    assert set(labels[groups == 1]) == {high}


def test_every_form_of_a_table_gives_the_same_groups() -> None:
    """A list, an array, a mapping, a Table, an Arrow table and a DuckDB relation of the same numbers."""
    import pyarrow

    points = np.random.default_rng(1).normal(size=(50, 2))
    mapping = {"a": points[:, 0], "b": points[:, 1]}
    arrow = pyarrow.table(mapping)
    with duckdb.connect() as connection:
        forms = [points.tolist(), points[:, :], mapping, read_table(mapping), arrow, connection.from_arrow(arrow)]
        groups = [microaggregate(form, 5) for form in forms]
    assert all(np.array_equal(groups[0], each) for each in groups)
    assert groups[0].dtype == np.int64


def test_masked_values_are_missing() -> None:
    """A mask over an array, or over a column, hides what is under it."""
    points = np.random.default_rng(6).normal(size=(40, 2))
    hidden = points > 1
    bare = microaggregate(np.where(hidden, np.nan, points), 3)
    assert np.array_equal(microaggregate(np.ma.array(points, mask=hidden), 3), bare)


def test_groups_of_categories_alone() -> None:
    """Without one number: rows alike come together, and the average is a concept."""
    values = np.array(["cat", "dog", "oak", "fir"] * 6, dtype=object)
    groups = microaggregate(read_table({"being": values}, taxonomies={"being": TREE}), 6, "mdav", "domain")
    assert all(len(set(values[groups == group])) == 1 for group in range(4))


def test_the_given_array_stays_as_it_was() -> None:
    """The tree works on a copy."""
    points = np.random.default_rng(2).normal(size=(300, 3))
    before = points.copy()
    microaggregate(points, 3)
    assert np.array_equal(points, before)


MANY_CATEGORIES = {"c": np.array([str(i) for i in range(5000)], dtype=object)}


@pytest.mark.parametrize(
    ("records", "options", "sentence"),
    [
        (VALUES, {"k": 1}, "k must be"),
        (VALUES, {"k": 11}, "only 10 rows"),
        (VALUES, {"method": "magic"}, "the method must be one of"),
        (np.zeros((9, 2)), {"method": "ranking"}, "ranks one column"),
        (np.zeros((9, 2, 2)), {}, "array of numbers"),
        ([], {}, "array of numbers"),
        (["a", "b"], {}, "array of numbers"),
        ([1.0, math.inf, 2.0], {}, "infinite"),
        ([1e200, 2.0, 3.0], {}, "beyond 1e150"),
        (VALUES, {"scale": "width"}, "scale is None"),
        (VALUES, {"scale": [1, 2]}, "scale is None"),
        (VALUES, {"scale": [0]}, "scale is None"),
        (VALUES, {"weights": [0] * 10}, "weights must be positive"),
        (VALUES, {"weights": [1, 2]}, "weights must be"),
        (VALUES, {"strata": ["a"] * 9 + ["b"]}, "1 of the 2 strata have fewer than k = 3 rows"),
        (VALUES, {"domains": [(0, 1), (0, 1)]}, "one \\(lower, upper\\) for each of the 1 columns"),
        (VALUES, {"domains": 7}, "one \\(lower, upper\\)"),
        (VALUES, {"domains": [(1, 0)]}, "the lower one first"),
        ({"x": np.arange(9.0)}, {"domains": [(0, 1)]}, "by the names of its columns"),
        ({"x": np.arange(9.0)}, {"strata": "x"}, "no column to form groups by"),
        (VALUES, {"taxonomies": {"0": TREE}}, "no taxonomies"),
        (build_single_table(build_beings("cat", "dog", "oak")), {"taxonomies": {"being": TREE}}, "taxonomies already"),
        (MANY_CATEGORIES, {}, "has 5000 categories"),
        (np.zeros((30, 9)), {"method": "insensitive"}, "at most 8 columns"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(records: object, options: dict[str, object], sentence: str) -> None:
    """What was asked, what is allowed, what to do."""
    with pytest.raises(InvalidInput, match=sentence) as refusal:
        microaggregate(records, **{"k": 3, **options})  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


def test_tables_of_other_columns_share_no_space() -> None:
    """Distances between different columns would mean nothing."""
    with pytest.raises(InvalidInput, match="same columns"):
        build_spaces([read_table({"a": np.arange(3)}), read_table({"b": np.arange(3)})], None)
