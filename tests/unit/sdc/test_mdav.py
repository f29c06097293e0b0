"""MDAV and V-MDAV find the very groups of the plain algorithms, written here with nothing but loops."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from benchmarks.microdata.naive import naive_mdav
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import njit

from discreet.priors.taxonomy import Taxonomy
from discreet.sdc.methods.kd_search import add_to_sum, create_sums, round_sum
from discreet.sdc.methods.mdav import GAIN, mdav, v_mdav
from discreet.sdc.methods.microaggregate import microaggregate
from discreet.sdc.methods.record_distance import RecordSpace, build_spaces
from discreet.sdc.table import read_table

GOLDEN = {entry["id"]: entry for entry in json.loads((Path(__file__).parents[2] / "golden.json").read_text())}
TREE = Taxonomy.of({"cat": "animal", "dog": "animal", "oak": "plant", "fir": "plant", "animal": "any", "plant": "any"})
Place = tuple[Sequence[float], Sequence[int]]
NAIVE = pytest.mark.xdist_group("naive")
"""By one worker: to compile the naive algorithm takes longer than all that it is compared on."""


class PlainPartition:
    """Records that are left, by full scans; sums by math.fsum from scratch."""

    def __init__(self, space: RecordSpace, weights: Sequence[float] | None = None) -> None:
        self.space = space
        self.weights = [1.0] * space.rows if weights is None else list(weights)
        self.left = list(range(space.rows))
        self.groups = [-1] * space.rows
        self.formed = 0

    def find_place(self, row: int) -> Place:
        return self.space.points[row].tolist(), self.space.codes[row].tolist()

    def measure_distance(self, one: Place, two: Place) -> float:
        total = 0.0
        for a, b in zip(one[0], two[0], strict=True):
            total += (a - b) * (a - b)
        for squares, a, b in zip(self.space.squares, one[1], two[1], strict=True):
            total += float(squares[a, b])
        return total

    def compute_average(self, rows: Sequence[int]) -> Place:
        total = math.fsum(self.weights[row] for row in rows)
        columns = range(self.space.points.shape[1])
        means = [
            math.fsum(self.weights[row] * float(self.space.points[row, j]) for row in rows) / total for j in columns
        ]
        return means, [self.find_center(rows, c) for c in range(len(self.space.squares))]

    def find_center(self, rows: Sequence[int], column: int) -> int:
        roots = np.sqrt(self.space.squares[column])
        category_weights = [
            math.fsum(self.weights[r] for r in rows if self.space.codes[r, column] == v) for v in range(len(roots))
        ]
        sums = [0.0] * len(roots)
        for value, weight in enumerate(category_weights):
            for code in range(len(roots)):
                sums[code] += weight * float(roots[value, code])
        return sums.index(min(sums))

    def find_farthest(self, place: Place) -> int:
        return max(self.left, key=lambda row: (self.measure_distance(place, self.find_place(row)), -row))

    def list_nearest(self, row: int, among: Sequence[int]) -> list[tuple[float, int]]:
        return sorted(
            (self.measure_distance(self.find_place(row), self.find_place(other)), other)
            for other in among
            if other != row
        )

    def remove_rows(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.groups[row] = self.formed
        self.left = [row for row in self.left if self.groups[row] < 0]

    def take(self, row: int, k: int) -> None:
        self.remove_rows([row, *(other for _, other in self.list_nearest(row, self.left)[: k - 1])])
        self.formed += 1


def partition_by_mdav(space: RecordSpace, k: int, weights: Sequence[float] | None = None) -> list[int]:
    """Algorithm 2.1."""
    plain = PlainPartition(space, weights)
    while len(plain.left) >= 3 * k:
        farthest = plain.find_farthest(plain.compute_average(plain.left))
        plain.take(farthest, k)
        plain.take(plain.find_farthest(plain.find_place(farthest)), k)
    if len(plain.left) >= 2 * k:
        plain.take(plain.find_farthest(plain.compute_average(plain.left)), k)
    plain.remove_rows(plain.left)
    return plain.groups


def partition_by_v_mdav(space: RecordSpace, k: int, gain: float) -> list[int]:
    plain = PlainPartition(space)
    middle = plain.compute_average(plain.left)
    members: list[list[int]] = []
    while len(plain.left) >= k:
        farthest = plain.find_farthest(middle)
        group = [farthest, *(other for _, other in plain.list_nearest(farthest, plain.left)[: k - 1])]
        while len(group) < min(2 * k - 1, len(plain.left)):
            outside = [row for row in plain.left if row not in group]
            distance, joins = min(plain.list_nearest(member, outside)[0] for member in group)
            others = plain.list_nearest(joins, outside)
            if others and not distance < gain * gain * others[0][0]:
                break
            group.append(joins)
        plain.remove_rows(group)
        plain.formed += 1
        members.append(group)
    middles = [plain.compute_average(group) for group in members]
    for row in plain.left:
        plain.groups[row] = min(
            range(len(middles)), key=lambda g: (plain.measure_distance(plain.find_place(row), middles[g]), g)
        )
    return plain.groups


def build_number_space(points: object) -> RecordSpace:
    array = np.array(points, dtype=np.float64)
    return RecordSpace(array, np.zeros((len(array), 0), dtype=np.int64), ())


def build_mixed_space(rows: int, seed: int) -> RecordSpace:
    """Numbers with gaps, an ordinal column with gaps, nominal ones with a taxonomy and without, all with many ties."""
    chance = random.Random(seed)
    table = read_table(
        {
            "age": np.array([chance.choice([None, 1, 2, 5, 9]) for _ in range(rows)], dtype=object),
            "level": np.array([chance.choice([None, "low", "mid", "high"]) for _ in range(rows)], dtype=object),
            "colour": np.array([chance.choice([None, "red", "green"]) for _ in range(rows)], dtype=object),
            "being": np.array([chance.choice(["cat", "dog", "oak", "plant", None]) for _ in range(rows)], dtype=object),
        },
        kinds={"age": "numeric"},
        categories={"level": ("low", "mid", "high")},
        taxonomies={"being": TREE},
    )
    return build_spaces([table], "domain")[0]


def draw_points(rows: int, columns: int, look: str, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed)
    return {
        "normal": lambda: noise.normal(size=(rows, columns)),
        "grid": lambda: noise.integers(0, 3, (rows, columns)).astype(float),
        "alike": lambda: np.ones((rows, columns)),
        "sparse": lambda: noise.integers(0, 2, (rows, columns)) * noise.normal(size=(rows, columns)),
        "far apart": lambda: noise.normal(size=(rows, columns)) * 10.0 ** noise.integers(-30, 30, (rows, columns)),
        "tiny": lambda: noise.random((rows, columns)) * 1e-161,
        "offset": lambda: 1e15 + noise.integers(0, 9, (rows, columns)),
    }[look]()


LOOKS = ("normal", "grid", "alike", "sparse", "far apart", "tiny", "offset")


@njit
def compute_moving_sum(values: np.ndarray, gone: int) -> float:
    """The sum of all values but the first, which come and go."""
    sums = create_sums(1)
    for value in values:
        add_to_sum(sums, 0, value)
    for value in values[:gone]:
        add_to_sum(sums, 0, -value)
        round_sum(sums, 0)
    return round_sum(sums, 0)


@given(st.lists(st.floats(-1e300, 1e300), max_size=30), st.integers(0, 30))
@example([2.0**53, 1.0], 0)
@example([2.0**53, 1.0, 5e-324], 0)
@example([-(2.0**53), -3.0], 0)
@example([1e300, 5e-324, 1e-310], 1)
@settings(max_examples=500)
def test_running_sums_are_exact(values: list[float], gone: int) -> None:
    """To the last bit, halves to even, whatever large numbers were added and taken away before."""
    assert compute_moving_sum(np.array(values, dtype=np.float64), gone) == math.fsum(values[gone:])


@pytest.mark.parametrize("look", LOOKS)
def test_groups_are_those_of_the_plain_algorithm(look: str) -> None:
    """On data of every look, with ties and duplicates, in one to five dimensions, weighted or not."""
    chance = random.Random(look)
    for seed in range(30):
        rows, columns = chance.randint(2, 150), chance.randint(1, 5)
        k = chance.randint(2, max(2, min(12, rows)))
        points = draw_points(rows, columns, look, seed)
        weights = None if seed % 3 else np.random.default_rng(seed).random(rows) + 0.1
        expected = partition_by_mdav(build_number_space(points), k, None if weights is None else weights.tolist())
        assert mdav(build_number_space(points), k, weights).tolist() == expected


@given(st.data())
@settings(max_examples=60)
def test_groups_of_few_numbers_are_those_of_the_plain_algorithm(data: st.DataObject) -> None:
    """Whatever numbers Hypothesis finds, up to those whose squares a float holds."""
    width = data.draw(st.integers(1, 3))
    number = st.one_of(st.integers(-2, 2).map(float), st.floats(-1e150, 1e150, allow_nan=False))
    points = data.draw(st.lists(st.lists(number, min_size=width, max_size=width), min_size=2, max_size=40))
    k = data.draw(st.integers(2, len(points)))
    assert mdav(build_number_space(points), k).tolist() == partition_by_mdav(build_number_space(points), k)


@pytest.mark.parametrize("seed", range(12))
def test_groups_of_mixed_records_are_those_of_the_plain_algorithm(seed: int) -> None:
    """Missing values, places in an order, categories with and without a taxonomy: one distance, one average."""
    space = build_mixed_space(20 + 10 * seed, seed)
    expected = partition_by_mdav(space, 3)
    assert mdav(space, 3).tolist() == expected


@pytest.mark.parametrize("columns", [9, 12])
def test_many_dimensions_change_nothing(columns: int) -> None:
    """Where the tree no longer pays it still finds the same groups."""
    points = draw_points(120, columns, "normal", columns)
    assert mdav(build_number_space(points), 4).tolist() == partition_by_mdav(build_number_space(points), 4)


@NAIVE
@pytest.mark.parametrize("look", LOOKS)
def test_larger_tables_have_the_groups_of_the_naive_algorithm(look: str) -> None:
    """The tree is planted anew several times and its centre moves; the groups stay those of full scans."""
    points = draw_points(3000, 3, look, 5)
    assert np.array_equal(microaggregate(points, 4), naive_mdav(points, 4, False))


@NAIVE
@pytest.mark.parametrize("look", ["normal", "grid", "offset"])
@pytest.mark.parametrize("rows", [15, 16, 17, 255, 256, 257, 271, 4095, 4096, 4097])
def test_groups_are_the_same_where_leaves_and_nodes_are_just_full(rows: int, look: str) -> None:
    """Sixteen records are a leaf and sixteen nodes below one: a record less or more than full is lost nowhere."""
    for k in (2, 7):
        points = draw_points(rows, 2, look, rows)
        assert np.array_equal(microaggregate(points, k), naive_mdav(points, k, False))


@NAIVE
@pytest.mark.parametrize("apart", [1.0, 1e9, 1e149])
def test_records_far_from_the_middle_change_nothing(apart: float) -> None:
    """A few records that are far off leave, and the others are near each other out of all proportion."""
    points = draw_points(600, 3, "normal", 7)
    points[::50] *= apart
    assert np.array_equal(microaggregate(points, 3), naive_mdav(points, 3, False))


@pytest.mark.soak
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("columns", [1, 2, 4, 7])
def test_ten_thousand_records_have_the_groups_of_the_naive_algorithm(look: str, columns: int) -> None:
    """As above, at the size of a real file."""
    points = draw_points(10_000, columns, look, columns)
    assert np.array_equal(microaggregate(points, 5), naive_mdav(points, 5, False))
    skewed = np.exp(points) if look == "normal" else points
    assert np.array_equal(microaggregate(skewed, 5), naive_mdav(skewed, 5, True))


@NAIVE
def test_naive_ways_agree_with_the_plain_algorithm() -> None:
    """What benchmarks compare with is the algorithm."""
    points = draw_points(90, 2, "grid", 1)
    expected = partition_by_mdav(build_number_space(points), 4)
    assert naive_mdav(points, 4, False).tolist() == naive_mdav(points, 4, True).tolist() == expected


def test_golden_groups() -> None:
    """The worked examples: clusters by index, and two tables of which one record differs but three change cluster."""
    golden = GOLDEN["mdav.1d"]
    values = [1, 2, 3, 10, 11, 12, 20, 21, 22, 23]
    assert _list_clusters(microaggregate(values, golden["inputs"]["k"])) == golden["expected"]["clusters"]
    two = GOLDEN["mdav.not_insensitive"]
    for which in ("X", "Xp"):
        assert _list_clusters(microaggregate(two["inputs"][which], 3)) == two["expected"][which]


def _list_clusters(groups: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(groups == label).tolist() for label in range(groups.max() + 1)]


@pytest.mark.parametrize("seed", range(12))
def test_variable_groups_are_those_of_the_plain_algorithm(seed: int) -> None:
    """V-MDAV, on numbers that cluster and on mixed records, with gains that make groups grow."""
    chance = random.Random(seed)
    centres = draw_points(8, 2, "normal", seed) * 5
    points = np.repeat(centres, 7, axis=0)[: 40 + seed] + draw_points(56, 2, "normal", seed + 1)[: 40 + seed] / 50
    for gain in (GAIN, 1.1, 3.0):
        k = chance.randint(2, 6)
        assert v_mdav(build_number_space(points), k, gain=gain).tolist() == partition_by_v_mdav(
            build_number_space(points), k, gain
        )
        space = build_mixed_space(30 + seed, seed)
        assert v_mdav(space, k, gain=gain).tolist() == partition_by_v_mdav(space, k, gain)


def test_variable_groups_follow_the_data() -> None:
    """Two knots of five records with k = 3 are two groups of five, where MDAV would cut across."""
    values = [0.0, 0.01, 0.02, 0.03, 0.04, 9.0, 9.01, 9.02, 9.03, 9.04]
    assert np.bincount(v_mdav(build_number_space([[v] for v in values]), 3, gain=1.5)).tolist() == [5, 5]
    assert np.bincount(microaggregate(values, 3)).tolist() == [3, 3, 4]
