"""Distances and taxonomies: metrics, exact in order."""

from __future__ import annotations

import json
import math
import os
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import Distance, InvalidInput, Taxonomy
from discreet.distance import boundary, diameter, named_distance

DATA = Path(os.environ.get("DISCREET_DATA", Path(__file__).parents[2] / "shared" / "data"))
SPORT = {
    "winter sports": "sport",
    "water sports": "sport",
    "field sports": "sport",
    "skiing": "winter sports",
    "sailing": "water sports",
    "swimming": "water sports",
    "soccer": "field sports",
}


@st.composite
def taxonomies(draw: st.DrawFn) -> Taxonomy:
    """Trees, and lattices where a concept has two parents."""
    size = draw(st.integers(1, 12))
    parents: dict[str, list[str]] = {}
    for concept in range(1, size + 1):
        ups = draw(st.lists(st.integers(0, concept - 1), min_size=1, max_size=2, unique=True))
        parents[str(concept)] = [str(up) for up in ups]
    return Taxonomy.of(parents)


@given(taxonomies())
def test_the_semantic_distance_is_a_metric(taxonomy: Taxonomy) -> None:
    """Formula 6.6, with the triangle inequality, on any taxonomy."""
    distance, concepts = Distance.semantic(taxonomy), list(taxonomy.ancestors)
    for a, b, c in product(concepts, repeat=3):
        assert distance.between(a, b) == distance.between(b, a)
        assert (distance.between(a, b) == 0) == (a == b)
        assert distance.between(a, c) <= distance.between(a, b) + distance.between(b, c) + 1e-12


@given(taxonomies())
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
    assert named_distance("nominal") == Distance.nominal()
    assert named_distance("continuous") == Distance.continuous()


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
    assert taxonomy.of_concept("sailing") == {"sailing", "water sports", "sport"}
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
        lambda: Taxonomy.of(SPORT).of_concept("chess"),
        lambda: Distance.ordinal([]),
        lambda: Distance.ordinal(["a", "a"]),
        lambda: Distance.product([]),
        lambda: Distance.product([Distance.nominal()], [1, 2]),
        lambda: Distance.product([Distance.nominal()], [0]),
        lambda: Distance.product([Distance.nominal()]).between("a", "b"),
        lambda: named_distance("euclidean"),
    ],
)
def test_bad_taxonomies_and_distances_are_refused(call) -> None:
    with pytest.raises(InvalidInput):
        call()


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
