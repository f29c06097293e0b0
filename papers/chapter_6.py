"""Chapter 6 of the thesis: k-anonymous microaggregation before noise, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np

from discreet.priors.distance import Distance, boundary, diameter, marginality
from discreet.priors.taxonomy import Taxonomy
from discreet.schema import Column
from discreet.sdc.methods.microaggregate import microaggregate
from discreet.sdc.table import Floats
from discreet.synthetic.column_methods import RankBlocks
from discreet.synthetic.columns import ColumnGrid, PrivacyBudget
from discreet.synthetic.hilbert import bound_chain, bound_joint_chain
from papers import adult_noise, census_noise, insensitive_figures
from papers.rows import Row, compare_corrected, compare_derived
from papers.tables import Data, Table

SPORT = {
    "winter sports": "sport",
    "water sports": "sport",
    "field sports": "sport",
    "skiing": "winter sports",
    "sailing": "water sports",
    "swimming": "water sports",
    "soccer": "field sports",
}
SPORTS = ("skiing", "sailing", "swimming", "soccer")
DISTANCES = {
    ("sailing", "swimming"): 0.5849625007211562,
    ("skiing", "sailing"): 0.8479969065549501,
    ("sailing", "water sports"): 0.41503749927884376,
    ("soccer", "soccer"): 0.0,
}
MARGINAL, CENTRAL = 2.5439907196648504, 2.2809563138310565
TREE = {"1": "0", "2": "0", "3": "2", "4": "0", "5": "1", "6": "1", "7": "2"}
LEAVES = ("3", "4", "5", "6", "7")

LINE = np.array([1, 2, 3, 10, 11, 12, 20, 21, 22, 23], dtype=np.float64)
NEIGHBOURS = {
    "X": [0.20, 0.36, 0.36, 0.53, 0.62, 0.72, 0.73, 0.98],
    "Xp": [0.20, 0.36, 0.05, 0.53, 0.62, 0.72, 0.73, 0.98],
}
"""Two tables that differ in the third record."""


def _compare_formula_6_6(_: Data) -> Iterator[Row]:
    distance = Distance.semantic(Taxonomy.of(SPORT))
    for (one, two), right in DISTANCES.items():
        yield compare_derived(f"sem.{one}.{two}", f"{one} and {two}", right, distance.between(one, two))
    marginal = dict(zip(SPORTS, (MARGINAL, CENTRAL, CENTRAL, MARGINAL), strict=True))
    obtained = {sport: marginality(distance, SPORTS, sport) for sport in SPORTS}
    yield compare_derived("sem.marginality", "marginalities (6.1)", marginal, obtained)
    tree = Distance.semantic(Taxonomy.of(TREE))
    both = [tree.between(*boundary(tree, LEAVES)), diameter(tree, LEAVES)]
    note = "the boundaries need not be farthest apart; the sensitivity is the diameter (erratum 3.1)"
    farthest = [0.8073549220576041, 0.8479969065549501]
    cell = "distance of the boundaries (6.2) and (6.3), and the diameter"
    yield compare_derived("sem.boundary_not_diameter", cell, farthest, both, note=note)


def _compare_proposition_6(_: Data) -> Iterator[Row]:
    clusters = _cluster_values(LINE, 3)
    means = [float(LINE[cluster].mean()) for cluster in clusters]
    sse = sum(float(((LINE[cluster] - mean) ** 2).sum()) for cluster, mean in zip(clusters, means, strict=True))
    right = {"clusters": [[0, 1, 2], [7, 8, 9], [3, 4, 5, 6]], "centroids": [2, 22, 13.25], "sse": 66.75}
    obtained = {"clusters": clusters, "centroids": means, "sse": sse}
    yield compare_derived("mdav.1d", "MDAV on ten numbers, k = 3", right, obtained)
    yield compare_corrected(
        "mdav.not_insensitive",
        "MDAV on two tables that differ in one record, k = 3",
        "clusters differ in one record each",
        {name: _cluster_values(np.array(values), 3) for name, values in NEIGHBOURS.items()},
        {"X": [[5, 6, 7], [0, 1, 2, 3, 4]], "Xp": [[0, 1, 2], [3, 4, 5, 6, 7]]},
        "3.1",
        "clusters differ in three records: which end is peeled off first hangs on the data",
    )


def bound_ordered_chain(steps: int, bits: int) -> int:
    """A bound for one attribute along any fixed order of the records, such as that of distances from a corner."""
    return steps * (2**bits - 1)


def _cluster_values(values: Floats, k: int) -> list[list[int]]:
    """In the order they are formed."""
    labels = microaggregate(values, k)
    return [np.flatnonzero(labels == label).tolist() for label in range(int(labels.max()) + 1)]


def _compare_proposition_8(_: Data) -> Iterator[Row]:
    labels = microaggregate(LINE, 3, "blocks")
    blocks = {"sizes": np.bincount(labels).tolist(), "centroids": [float(LINE[labels == at].mean()) for at in range(3)]}
    right = {"sizes": [3, 3, 4], "centroids": [2, 11, 21.5]}
    yield compare_derived("ir.low", "blocks of ranks from the low end, ten numbers, k = 3", right, blocks)
    note = "over all tables of seven rows"
    cell = "how far one record moves all centroids of rank blocks, k = 3"
    yield compare_derived("ir.sensitivity", cell, 1 / 3, float(compute_block_moves(divided=True)), note=note)
    cell = "how far one record moves all sums of rank blocks"
    yield compare_derived("ir.sum_sensitivity", cell, 1.0, float(compute_block_moves(divided=False)), note=note)
    largest_move = float(Fraction(bound_ordered_chain(1080 // 30, 4), 15 * 30))
    why = "one record moves all 36 centroids, not one of them"
    cell = "how far one record moves all centroids of a column, 1,080 rows, k = 30"
    yield compare_corrected("multi.sensitivity", cell, 1 / 30, largest_move, 1.2, "3.1", why)
    for steps, right_bounds in ((8, [3.125, 6.625]), (36, [6.125, 12.0625])):
        obtained = [bound_chain(2, 4, steps, 0) / 16, bound_joint_chain(2, 4, steps, (0, 1)) / 16]
        cell = f"the same times k along a Hilbert curve of 16 by 16, {steps} clusters: one column, both"
        yield compare_derived(f"hilbert.p4.m{steps}", cell, right_bounds, obtained)


def compute_block_moves(divided: bool) -> Fraction:
    """The most that all rank blocks of 7 rows of 4 values move, over all tables and neighbours: their sums or means."""
    plan = RankBlocks(ColumnGrid.of(Column("x", "integer", 0, 3, missing=0)), 7, 3, PrivacyBudget(Fraction(1)))
    sizes = np.diff(plan.edges).tolist() if divided else [1] * (len(plan.edges) - 1)
    totals = [
        (Counter(table), plan.compute_totals(np.bincount(table, minlength=4)).tolist())
        for table in combinations_with_replacement(range(4), 7)
    ]
    return max(
        sum((Fraction(abs(a - b), size) for a, b, size in zip(one, two, sizes, strict=True)), Fraction(0)) / 3
        for (table, one), (other, two) in product(totals, totals)
        if (table - other).total() == 1
    )


TABLES: tuple[Table, ...] = (
    Table("001-formula-6.6", "Formula 6.6", "How far apart categories of a taxonomy are.", _compare_formula_6_6),
    Table("001-proposition-6", "Proposition 6", "MDAV, said to be insensitive on a line.", _compare_proposition_6),
    Table("001-proposition-8", "Proposition 8", "How far one record moves centroids.", _compare_proposition_8),
    *insensitive_figures.TABLES,
    *census_noise.TABLES,
    *adult_noise.TABLES,
)
