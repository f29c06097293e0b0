"""Definition 12 checked: MDAV fails it, fixed blocks, corners and the Hilbert curve keep it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.query.scan import RankRuns
from discreet.sdc.methods.microaggregate import microaggregate
from discreet.sdc.verify.anonymity import collect_clusters, count_differing_records, counterexample, find_bijection
from discreet.synthetic.hilbert import compute_curve_places

TABLE = (0.20, 0.36, 0.36, 0.53, 0.62, 0.72, 0.73, 0.98)
"""Three records are taken from the end that is farther from the mean, which depends on the data."""


def build_labelling(method: str, dimensions: int = 1):
    """A method of the library on a domain from 0 to 1, or to 7 in several dimensions."""
    top = 1 if dimensions == 1 else 7

    def label_records(records: Sequence[object], k: int) -> list[int]:
        rows = np.array(records, dtype=float).reshape(len(records), dimensions)
        return microaggregate(rows, k, method, "domain", domains=[(0, top)] * dimensions).tolist()

    return label_records


def label_along_curve(records: Sequence[object], k: int) -> list[int]:
    """Blocks of k along a Hilbert curve of 8 by 8 cells."""
    order = np.argsort(compute_curve_places(np.array(records, dtype=np.int64), 3), kind="stable")
    labels = np.empty(len(order), dtype=np.int64)
    labels[order] = RankRuns.low_end(len(order), k).compute_labels(np.arange(len(order)))
    return labels.tolist()


def test_mdav_chooses_an_end() -> None:
    """The published counterexample: the second .36 becomes .05, and some cluster differs in three records."""
    changed = (*TABLE[:2], 0.05, *TABLE[3:])
    ones, others = (collect_clusters(records, build_labelling("mdav")(records, 3)) for records in (TABLE, changed))
    apart = [[count_differing_records(one, other) for other in others] for one in ones]
    assert min(max(apart[0][0], apart[1][1]), max(apart[0][1], apart[1][0])) == 3
    assert find_bijection(ones, others) is None


def test_the_search_finds_a_counterexample_of_mdav() -> None:
    """What is found really is one: its clusters are those of the two tables, and no bijection fits them."""
    example = counterexample(build_labelling("mdav"), TABLE, 3, [0.05])
    assert example is not None
    changed = (*TABLE[: example.row], example.record, *TABLE[example.row + 1 :])
    assert example.clusters == collect_clusters(TABLE, build_labelling("mdav")(TABLE, 3))
    assert example.others == collect_clusters(changed, build_labelling("mdav")(changed, 3))
    assert find_bijection(example.clusters, example.others) is None


@pytest.mark.parametrize("method", ["blocks", "insensitive", "ranking"])
def test_fixed_ends_never_fail(method: str) -> None:
    """On the same table, and on random ones, no single replacement moves a cluster by more than a record."""
    draw = random.Random(1)
    values = [round(0.05 * place, 2) for place in range(21)]
    tables = [TABLE, *(tuple(draw.choices(values, k=9)) for _ in range(3))]
    assert all(counterexample(build_labelling(method), table, 3, values) is None for table in tables)


def test_several_dimensions() -> None:
    """Corners in turn and the curve keep it in the plane too; MDAV does not."""
    draw = random.Random(2)
    everywhere = list(product(range(8), repeat=2))
    some = draw.sample(everywhere, 16)
    failed = 0
    for _ in range(3):
        table = draw.choices(everywhere, k=11)
        assert counterexample(label_along_curve, table, 3, everywhere) is None
        assert counterexample(build_labelling("insensitive", 2), table, 3, some) is None
        failed += counterexample(build_labelling("mdav", 2), table, 3, some) is not None
    assert failed


def test_a_bijection_is_a_matching() -> None:
    """A cluster that has two partners leaves the right one to another; labels and places do not matter."""
    changed_counts = (Counter("aab"), Counter("aac"))
    assert find_bijection(changed_counts, (Counter("aac"), Counter("aad"))) is not None
    assert find_bijection(changed_counts, (Counter("aab"), Counter("xyz"))) is None
    assert find_bijection((Counter("aab"), Counter("xyz")), (Counter("xyw"), Counter("aab"))) == {0: 1, 1: 0}
    assert find_bijection(changed_counts, changed_counts[:1]) is None
    assert find_bijection((), ()) == {}
    assert find_bijection((Counter("a"), Counter("b")), (Counter("c"), Counter("a"))) is not None


def test_a_greedy_match_would_fail() -> None:
    """The first cluster fits both others, the second only the one that a greedy search would give away."""
    ones = (Counter("aaa"), Counter("aab"))
    others = (Counter("abb"), Counter("aab"))
    assert count_differing_records(ones[0], others[0]) == 2
    assert find_bijection(ones, others) == {0: 1, 1: 0}


def test_clusters_hold_records() -> None:
    """Equal records count as often as they are there."""
    assert collect_clusters("abca", [1, 0, 1, 1]) == (Counter("b"), Counter("aac"))


def test_a_search_needs_something() -> None:
    """Without records, or replacements, nothing would be found out."""
    with pytest.raises(InvalidInput, match="at least one record"):
        counterexample(build_labelling("mdav"), [], 3, [1])
    with pytest.raises(InvalidInput, match="at least one record"):
        counterexample(build_labelling("mdav"), TABLE, 3, [])
