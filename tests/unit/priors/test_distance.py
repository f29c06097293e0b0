"""Distances and taxonomies: metrics, exact in order."""

from __future__ import annotations

import json
import math
import os
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from papers.chapter_6 import SPORT

from discreet import Distance, InvalidInput, Taxonomy
from discreet.priors.distance import boundary, diameter, parse_distance

DATA = Path(os.environ.get("DISCREET_DATA", Path(__file__).parents[4] / "shared" / "data"))


@st.composite
def st_taxonomies(draw: st.DrawFn) -> Taxonomy:
    """Trees, and lattices where a concept has two parents."""
    size = draw(st.integers(1, 12))
    parents: dict[str, list[str]] = {}
    for concept in range(1, size + 1):
        ups = draw(st.lists(st.integers(0, concept - 1), min_size=1, max_size=2, unique=True))
        parents[str(concept)] = [str(up) for up in ups]
    return Taxonomy.of(parents)


@given(st_taxonomies())
def test_the_semantic_distance_is_a_metric(taxonomy: Taxonomy) -> None:
    """Formula 6.6, with the triangle inequality, on any taxonomy."""
    distance, concepts = Distance.semantic(taxonomy), list(taxonomy.ancestors)
    for a, b, c in product(concepts, repeat=3):
        assert distance.between(a, b) == distance.between(b, a)
        assert (distance.between(a, b) == 0) == (a == b)
        assert distance.between(a, c) <= distance.between(a, b) + distance.between(b, c) + 1e-12


@given(st_taxonomies())
def test_keys_are_in_the_order_of_distances(taxonomy: Taxonomy) -> None:
    distance, concepts = Distance.semantic(taxonomy), list(taxonomy.ancestors)
    for a, b, c in product(concepts, repeat=3):
        assert (distance.key(a, b) < distance.key(a, c)) == (distance.between(a, b) < distance.between(a, c))


def test_the_simple_distances() -> None:
    assert Distance.continuous().between(0.1, 0.3) == pytest.approx(0.2)
    assert Distance.continuous().key(Fraction(1, 3), 1) == Fraction(2, 3)
    assert [Distance.nominal().between("a", b) for b in "ab"] == [0, 1]
    ordinal = Distance.ordinal(["none", "school", "degree"])
    assert ordinal.between("none", "degree") == 2
    assert ordinal.knows("school")
    assert not ordinal.knows("phd")
    assert not Distance.continuous().knows("x")
    assert Distance.nominal().knows("anything")
    assert parse_distance("nominal") == Distance.nominal()
    assert parse_distance("continuous") == Distance.continuous()


def test_the_product_distance_is_formula_6_7() -> None:
    """Squares over squared widths, added, rooted."""
    taxonomy = Taxonomy.of(SPORT)
    semantic = Distance.semantic(taxonomy)
    both = Distance.product([Distance.continuous(), semantic], weights=[Fraction(1, 73**2), 4])
    expected = math.sqrt((10 / 73) ** 2 + 4 * semantic.between("sailing", "skiing") ** 2)
    assert both.between((30, "sailing"), (40, "skiing")) == pytest.approx(expected, rel=1e-9)
    assert both.knows((30, "sailing"))
    assert not both.knows((30, "chess"))
    assert not both.knows("sailing")
    values = [(age, sport) for age in (17, 40, 90) for sport in taxonomy.leaves]
    assert both.keys((30, "sailing"), values) == [both.key((30, "sailing"), value) for value in values]


def test_taxonomies_know_their_concepts() -> None:
    taxonomy = Taxonomy.of(SPORT)
    assert taxonomy.root == "sport"
    assert set(taxonomy.leaves) == {"skiing", "sailing", "swimming", "soccer"}
    assert taxonomy.get_ancestors("sailing") == {"sailing", "water sports", "sport"}
    flat = Distance.semantic(Taxonomy.flat(["a", "b", "c"]))
    assert flat.between("a", "b") == flat.between("b", "c")


def test_boundary_values_need_not_be_the_diameter() -> None:
    """Why sensitivities use the diameter: the documents' boundary pair can be nearer than another pair."""
    tree = Taxonomy.of({"1": "0", "2": "0", "3": "2", "4": "0", "5": "1", "6": "1", "7": "2"})
    distance, leaves = Distance.semantic(tree), ["3", "4", "5", "6", "7"]
    assert distance.between(*boundary(distance, leaves)) < diameter(distance, leaves)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Taxonomy.of({"a": "b", "c": "d"}),
        lambda: Taxonomy.of({"a": "b", "b": "a"}),
        lambda: Taxonomy.of({"a": "b", "b": "c", "c": "b", "r": []}),
        lambda: Taxonomy.of({}),
        lambda: Taxonomy.of(SPORT).get_ancestors("chess"),
        lambda: Distance.ordinal([]),
        lambda: Distance.ordinal(["a", "a"]),
        lambda: Distance.product([]),
        lambda: Distance.product([Distance.nominal()], [1, 2]),
        lambda: Distance.product([Distance.nominal()], [0]),
        lambda: Distance.product([Distance.nominal()]).between("a", "b"),
        lambda: parse_distance("euclidean"),
        lambda: parse_distance(["x"] * 1000),
        lambda: Distance.product([1, 2]),
        lambda: Distance.product(Distance.nominal()),
        lambda: Distance.product([Distance.nominal()], 5),
        lambda: Distance.ordinal(7),
        lambda: Distance.ordinal([[1], [2]]),
        lambda: Distance.ordinal(["a", "b"]).key("a", "c"),
        lambda: Distance.continuous().key(1, "2"),
        lambda: Distance.continuous().key(1, math.nan),
        lambda: Distance.semantic("sport"),
        lambda: Taxonomy.of({"a": 1}),
        lambda: Taxonomy.of({"a": [1]}),
        lambda: Taxonomy.of({1: "a"}),
        lambda: Taxonomy.of(["a"]),
        lambda: Taxonomy.flat(3),
        lambda: Taxonomy.flat([]),
    ],
)
def test_bad_taxonomies_and_distances_are_refused(call) -> None:
    with pytest.raises(InvalidInput) as refusal:
        call()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 200


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(InvalidInput, match=r"Distance.semantic\(taxonomy\)") as refusal:
        parse_distance(Taxonomy.of(SPORT))
    assert "sailing" not in str(refusal.value)
    with pytest.raises(InvalidInput, match="the root's name 'any' is also a category"):
        Taxonomy.flat(["a", "any"])
    assert Taxonomy.flat(["a", "any"], root="all").root == "all"
    with pytest.raises(InvalidInput, match=r"Taxonomy\.flat"):
        Taxonomy.of(["a"])


ANYTHING = [
    *(0, 1.5, True, Fraction(1, 3), Decimal("0.1"), Decimal("sNaN"), Decimal("1e400000"), np.float64(2), np.int64(3)),
    *(10**400, -(10**400), math.inf, -math.inf, math.nan, 1e308, np.float64("nan"), np.bool_(True), 1j),
    *(
        None,
        "",
        "sailing",
        "none",
        b"x",
        [1],
        {},
        {1},
        object(),
        ([1],),
        (),
        (1,),
        (1, "sailing"),
        (10**400, "sailing"),
    ),
    *(np.array([]), np.array([1]), np.array([1, 2]), np.array(1.5), (np.array([1, 2]), "sailing"), ([1], "sailing")),
    *((math.nan, "sailing"), (True, "sailing"), (math.inf, "skiing"), ("sailing", 1)),
]


@pytest.mark.parametrize("value", ANYTHING, ids=lambda value: repr(value)[:20])
def test_a_distance_knows_or_does_not_know_but_never_raises(value: object) -> None:
    """The value may be secret; and what is known can be measured, from itself at distance 0."""
    semantic = Distance.semantic(Taxonomy.of(SPORT))
    inner = Distance.product([Distance.continuous(), semantic])
    for distance in (
        Distance.continuous(),
        Distance.nominal(),
        Distance.ordinal(["none", np.float64(1), 2]),
        semantic,
        inner,
        Distance.product([Distance.nominal(), Distance.nominal()]),
    ):
        is_known = distance.knows(value)
        assert is_known in {True, False}
        if is_known and "nan" not in repr(value):  # which differs from itself
            assert distance.key(value, value) == 0
            assert distance.between(value, value) == 0


def test_what_each_distance_knows() -> None:
    """Numbers of any kind and size; no text, no NaN."""
    for value in (0, 1.5, True, Fraction(1, 3), Decimal("0.1"), 10**400, -math.inf, np.float32(2), np.bool_(True)):
        assert Distance.continuous().knows(value)
    for value in (math.nan, "1", None, [1], 1j, (1,), np.array([1, 2]), Decimal("sNaN")):
        assert not Distance.continuous().knows(value)
    assert Distance.continuous().key(True, Decimal("0.1")) == Fraction(9, 10)
    assert not Distance.continuous().knows(np.array([math.inf]))
    assert not Distance.product([Distance.nominal()]).knows((np.array([math.inf]),))
    assert not Distance.ordinal(["none", "school"]).knows(["none"])
    assert not Distance.semantic(Taxonomy.of(SPORT)).knows(["sailing"])
    assert not Distance.product([Distance.nominal()]).knows(([1],))


def test_distances_of_huge_numbers_do_not_overflow() -> None:
    """Squares are exact, so even the order of numbers too large for floats is."""
    plane = Distance.product([Distance.continuous(), Distance.ordinal("abc"), Distance.nominal()])
    far = [(10**299 + shift, letter, 0) for shift in (0, 1, 2) for letter in "ac"]
    keys = plane.keys((0, "a", 0), far)
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert plane.key((0, "a", 0), (3, "c", 1)) == 14 * 2**40
    assert plane.between((0, "a", 0), (1e200, "a", 0)) == pytest.approx(1e200)
    assert plane.between((-(10**400), "a", 0), (10**400, "a", 0)) == pytest.approx(2e300)
    heavy = Distance.product([Distance.continuous()], [10**300])
    assert heavy.between((0,), (1e300,)) == math.inf
    assert Distance.nominal().between(10**400, np.float64(1)) == 1
    nested = Distance.product([plane, Distance.nominal()])
    assert nested.key(((0, "a", 0), 0), ((3, "c", 1), 1)) == 15 * 2**40


@pytest.mark.parametrize("name", ["native_country", "occupation"])
def test_taxonomies_from_wordnet(name: str) -> None:
    """Real lattices: one root, every category a concept, a metric with diameter at most 1."""
    path = DATA / "taxonomies" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"no test data at {path.parent}; set DISCREET_DATA")
    content = json.loads(path.read_text())
    taxonomy = Taxonomy.of(content["parents"])
    concepts = sorted({entry["synset"] for entry in content["mapping"].values()})
    distance = Distance.semantic(taxonomy)
    assert 0 < diameter(distance, concepts) <= 1
    assert len(taxonomy.ancestors) == content["n_concepts"]
