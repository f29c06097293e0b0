"""Every published or derived number of the kernel's documents, computed by the library to its tolerance."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from papers.book_gaussian import find_failing_epsilon
from papers.chapter_6 import bound_ordered_chain
from papers.continuous import (
    compute_admissible_loss,
    compute_heavy_tail_interval,
    compute_laplace_core,
    compute_laplace_region,
    compute_largest_alpha,
    find_admissible_range,
)
from papers.linear_refinement import compute_printed_theorem_2
from papers.refinement_delta import PrintedRefinement
from test_distance import SPORT as SPORT_PARENTS

from discreet import DiscreteLaplace, Distance, Prior, Refinement, Staircase, Taxonomy, microaggregate, refine, rho
from discreet.estimation.linear_refinement import refine_linear
from discreet.mechanisms import BoxStaircase, Gaussian, Laplace, exponential, local_sensitivity
from discreet.mechanisms.individual_dp import TruncatedRangeCount
from discreet.numeric import exp_below
from discreet.priors.distance import boundary, diameter, marginality
from discreet.schema import Column
from discreet.sdc.methods.bucket_feasibility import compute_distribution_distance, groups_apart
from discreet.synthetic.column_methods import RankBlocks
from discreet.synthetic.columns import ColumnGrid, PrivacyBudget
from discreet.synthetic.hilbert import bound_chain, bound_joint_chain
from discreet.verification import exact_delta, worst_ratio

GOLDEN = {entry["id"]: entry for entry in json.loads((Path(__file__).parents[1] / "golden.json").read_text())}
LN2 = 0.6931471805599453
EPSILON = {"0.1": 0.1, "ln2": LN2, "1": 1, "2": 2}
DISEASES = [24, 8, 28, 5]
AGES = [1, 2, 4, 7, 9]


@cache
def unit_interval(points: int = 100_001) -> Prior:
    """U[0, 1] as so many equal cells, each at its middle; an odd number, so that 1/2 is one of them."""
    cell = Fraction(1, points)
    return Prior.uniform(cell / 2, 1 - cell / 2, cell)


@cache
def compute_table_5(name: str) -> tuple[Refinement, float, float]:
    """Table 5: an individual question with f(D) = 1/2; mechanism, variance, P(K in U_u)."""
    mechanism = Refinement.of(unit_interval(), EPSILON[name], about="individual")
    law = mechanism.distribution(0.5)
    near = float(mechanism.profile.mass_limits[0])
    return mechanism, law.variance(), near * float(mechanism.factors[0])


def t5(kind: str, name: str) -> float:
    laplace, (mechanism, variance, inside) = Laplace(EPSILON[name]), compute_table_5(name)
    return {
        "laplace_var": laplace.variance(),
        "laplace_in01": 1 - laplace.tail(0.5),
        "kr_var": variance,
        "kr_size": float(mechanism.profile.mass_limits[0]),
        "kr_P": inside,
    }[kind]


def alg1(kind: str) -> float:
    up, down = Refinement.of(Prior.uniform(0, 1), 1, about="individual").factors
    return float({"p_u": (1 - down) / (up - down), "p_d": (up - 1) / (up - down), "mass_printed": up + down - 1}[kind])


def rare(kind: str) -> float:
    """Section 6.1: a Boolean with prior 0.01."""
    prior = Prior.weights({0: 0.99, 1: 0.01})
    laws = [refine(prior, truth, 1, about="individual").law() for truth in (0, 1)]
    wrong = Laplace(1, 0.5).tail(0.5) / 2
    return float(
        {
            "lap.f0": wrong,
            "lap.f1": 1 - wrong,
            "lap.marg": 0.99 * wrong + 0.01 * (1 - wrong),
            "kr.10": laws[0][1],
            "kr.00": laws[0][0],
            "kr.11": laws[1][1],
            "kr.01": laws[1][0],
            "kr.alpha_ud.f0": laws[0][0] / Fraction(99, 100),
            "kr.alpha_ud.f1": laws[1][0] / Fraction(99, 100),
            "kr.marg": laws[0][1] * Fraction(99, 100) + laws[1][1] * Fraction(1, 100),
        }[kind]
    )


def ex3(kind: str) -> object:
    """Example 3: two people, both 0; rows are the second's answer, columns the first's."""
    mechanism = Refinement.of(Prior.weights({0: 1, 1: 1}), 1, about="individual")
    laws = {truth: [float(p) for p in mechanism.distribution(truth).probabilities] for truth in (0, 1, None)}

    def table(first: int | None, second: int | None) -> list[list[float]]:
        return [[laws[first][column] * laws[second][row] for column in (0, 1)] for row in (0, 1)]

    both, missing = table(0, 0), table(None, 0)
    ratios = sorted({round(both[row][column] / missing[row][column], 13) for row in (0, 1) for column in (0, 1)})
    return {
        "p1_0": laws[0][1],
        "p1_1": laws[1][1],
        "table3": both,
        "table4.top": missing,
        "table4.bottom": table(0, None),
        "ratios": ratios,
    }[kind]


def kr(kind: str) -> float:
    """The worst loss of the individual factors, in units of epsilon, over truths at both ends of many points."""
    mechanism = Refinement.of(Prior.uniform(0, 40), 1, about="individual")
    laws = [mechanism.distribution(truth).law() for truth in (0, 20, 40)]
    absent = mechanism.distribution(None).law()
    pairs = [(law, absent) for law in laws] if kind == "individual.addremove" else combinations(laws, 2)
    return math.log(max(worst_ratio(one, two) or 0 for one, two in pairs))


def ed(kind: str) -> object:
    """Figures 2 and 3 at (ln 2, 0.2)."""
    prior, ratio = unit_interval(60), exp_below(Fraction(repr(LN2)))
    sound = Refinement.of(prior, LN2, delta=0.2, up=1.5)
    asked = {"about": "individual"} if kind == "ind.published_delta" else {"up": 1.5}
    refinement = Refinement.of(prior, LN2, delta=0.2, **asked)
    printed = PrintedRefinement(
        prior,
        refinement.epsilon,
        refinement.about,
        refinement.neighbors,
        refinement.distance,
        refinement.delta,
        refinement.up,
    )
    if kind == "ind.published_delta":
        return float(exact_delta(printed.distribution(0.5).law(), printed.distribution(None).law(), ratio))
    if kind == "stat.published_delta":
        one, two = printed.distribution(0), printed.distribution(1)
        return float(exact_delta(one.law(), two.law(), ratio))
    return float(sound.profile.atom) if kind == "stat.delta_prime" else [float(factor) for factor in sound.factors]


@cache
def finest(epsilon: float) -> Staircase:
    return Staircase.least_variance(epsilon, 1, Fraction(1, 10**7))


@cache
def shortest(epsilon: float) -> Staircase:
    return Staircase.least_interval(epsilon, 1, 0.95, Fraction(1, 10**6))


def stair(kind: str, epsilon: float) -> float:
    return {
        "minvar.d": lambda: float(finest(epsilon).core),
        "minvar.V": lambda: finest(epsilon).variance(),
        "M0": lambda: float(finest(epsilon).density_at_zero),
        "lapvar": lambda: Laplace(epsilon).variance(),
        "m": lambda: compute_laplace_core(epsilon, 1),
        "ci95.size": lambda: shortest(epsilon).confidence_length(0.95),
        "ci95.d": lambda: float(shortest(epsilon).core),
        "ci95.lap": lambda: 2 * Laplace(epsilon).interval(0.95)[1],
    }[kind]()


@cache
def example5() -> BoxStaircase:
    """S_f = [-1, 1] x [-10, 10], S_0 a tenth of it, on a grid where a tenth and a half step are whole."""
    return BoxStaircase(1, (1, 10), core=(0.1, 1), step=(Fraction(1, 100_005), Fraction(10, 100_005)))


def ex5(kind: str, level: float | None) -> object:
    return {
        "M": lambda: float(example5().density_at_zero),
        "var1": lambda: example5().variance()[0],
        "var2": lambda: example5().variance()[1],
        "lapvar": lambda: [Laplace(1, 11).variance()] * 2,
        "lapvar.split": lambda: [Laplace(0.5, 1).variance(), Laplace(0.5, 10).variance()],
        "lap.alpha": lambda: 11 * compute_laplace_region([11.0, 11.0], level)[0],
        "lap.size": lambda: compute_laplace_region([11.0, 11.0], level)[1],
        "split.size": lambda: compute_laplace_region([2.0, 20.0], level)[1],
        "box.beta": lambda: example5().region(level)[0],
        "box.size": lambda: example5().region(level)[1],
    }[kind]()


def idp(kind: str) -> object:
    names = {"median": "median", "max2": "second max", "max": "max"}
    family, _, rest = kind.partition(".")
    if rest == "LS":
        return local_sensitivity(AGES, names[family], 0, 10)
    if family == "t2":
        column, _, epsilon = rest.partition(".")
        value = EPSILON[epsilon]
        return (DiscreteLaplace(value, 1) if column == "dp" else TruncatedRangeCount(value)).expected_error()
    return {
        "t1.lap": lambda: Laplace(1).interval(0.95)[1],
        "t1.gamma2": lambda: compute_heavy_tail_interval(2, 8, 0.95),
        "t1.gamma3": lambda: compute_heavy_tail_interval(3, 12, 0.95),
        "smooth.loss.gamma2": lambda: compute_admissible_loss(2),
        "smooth.loss.gamma3": lambda: compute_admissible_loss(3),
        "smooth.gamma_range": find_admissible_range,
        "smooth.alpha.gamma2": lambda: compute_largest_alpha(2, 0.5),
    }[kind]()


def gauss(kind: str, inputs: dict) -> float:
    if kind.startswith("book.fails_above"):
        return find_failing_epsilon(inputs["delta"])
    calibrate = Gaussian.calibrated if kind.startswith("analytic") else Gaussian.of_the_book
    return calibrate(inputs["eps"], inputs["delta"]).sigma


SPORT = Distance.semantic(Taxonomy.of(SPORT_PARENTS))
SPORTS = ["skiing", "sailing", "swimming", "soccer"]


def sem(kind: str, inputs: dict) -> object:
    if kind == "marginality":
        return {sport: marginality(SPORT, SPORTS, sport) for sport in SPORTS}
    if kind == "boundary_not_diameter":
        tree = {"1": "0", "2": "0", "3": "2", "4": "0", "5": "1", "6": "1", "7": "2"}
        distance, leaves = Distance.semantic(Taxonomy.of(tree)), ["3", "4", "5", "6", "7"]
        return [distance.between(*boundary(distance, leaves)), diameter(distance, leaves)]
    return SPORT.between(inputs["a"], inputs["b"])


def book(inputs: dict) -> list[float]:
    """Epsilon 0 is a promise of nothing; the least epsilon we take returns the prior."""
    return [float(p) for p in exponential(DISEASES, 1, inputs["eps"] or 1e-30).probabilities]


def grid_staircase() -> list[float]:
    noise = Staircase.least_variance(1, 100, 1)
    return [noise.points, noise.variance() / 100**2]


SUM_OF_TWO = np.array([[0.5, -0.5], [-0.5, 0.5]]), np.array([[0.5], [0.5]])
"""Document 002, Example 1: the best refinement of two counts by their sum."""


def lin(kind: str, inputs: dict) -> object:
    """Refinement by linear constraints, and what it tells of one person, in units of epsilon."""
    if kind.startswith("app."):
        k = inputs["k"]
        return rho([[1 / (k + 1), 1 / (k + 1)], [0, 1]], [[1 / (k + 1)], [0]], 2, [k + 1], [1, -1], [0])
    if kind == "school":
        passed, everyone = [1, 1, 1, 1, 0, -1, 0], [0, 0, 0, 0, 1, 1, -1]
        sums = np.array([passed, everyone, [1, 1, 0, 0, 0, 0, 0]]).T
        return refine_linear(inputs["X"], sums, [0, 0, 80]).values.tolist()
    if kind == "ls":
        return refine_linear(inputs["X"], inputs["B"], inputs["c"]).values.tolist()
    return {
        "ex1.limit": lambda: rho(*SUM_OF_TWO, 1, [1], [1, 0], [0]),
        "ex1.x10": lambda: math.log(refined_density(inputs["x1"] - inputs["mu1"]) / refined_density(inputs["x1"])),
        "theorem2.ex1.printed": lambda: sorted(compute_printed_theorem_2(sign) for sign in (1, -1)),
    }[kind]()


def refined_density(y: float) -> float:
    """Of half the difference of two Laplace numbers of scale 1: what Example 1 adds to a refined count."""
    return (1 + 2 * abs(y)) * math.exp(-2 * abs(y)) / 2


def close(kind: str) -> object:
    """Figure 7.5: three groups, each with two values of its own bucket and one of each other."""
    members = [[2, 1, 1], [1, 2, 1], [1, 1, 2]]
    distances = [compute_distribution_distance(group, [4, 4, 4]) for group in members]
    groups = np.repeat(np.arange(3), 4), np.concatenate([np.repeat(np.arange(3), group) for group in members])
    return {
        "fig75": [each.ratio for each in distances],
        "fig75.emd": [each.emd for each in distances],
        "fig75.tv": [each.variation for each in distances],
        "fig75.pairwise": groups_apart(*groups).between,
    }[kind]


LINE = np.array([1, 2, 3, 10, 11, 12, 20, 21, 22, 23], dtype=float)


def mdav(inputs: dict) -> object:
    """The clusters on a line; of one data set with their centroids, of two neighbours to tell them apart."""
    if "X" in inputs:
        return {name: clusters(np.array(inputs[name]), 3) for name in ("X", "Xp")}
    members = clusters(LINE, inputs["k"])
    means = [float(LINE[cluster].mean()) for cluster in members]
    sse = sum(float(((LINE[cluster] - mean) ** 2).sum()) for cluster, mean in zip(members, means, strict=True))
    return {"clusters": members, "centroids": means, "sse": sse}


def clusters(values: np.ndarray, k: int) -> list[list[int]]:
    """In the order they are formed."""
    labels = microaggregate(values, k)
    return [np.flatnonzero(labels == label).tolist() for label in range(labels.max() + 1)]


def measure_rank_blocks(k: int) -> object:
    """Blocks of ranks from the low end."""
    labels = microaggregate(LINE, k, "blocks")
    return {"sizes": np.bincount(labels), "centroids": [LINE[labels == label].mean() for label in range(3)]}


def moved_blocks(rest: str, inputs: dict) -> Fraction:
    """The most that all rank blocks of 7 rows move, over all tables and neighbours: their sums, or their means."""
    plan = RankBlocks(
        ColumnGrid.of(Column("x", "integer", 0, 3, missing=0)), 7, inputs.get("k", 3), PrivacyBudget(Fraction(1))
    )
    sizes = np.diff(plan.edges) if rest == "sensitivity" else np.ones(len(plan.edges) - 1)
    sums = [
        (table, plan.compute_totals(np.bincount(table, minlength=4)))
        for table in combinations_with_replacement(range(4), 7)
    ]
    moved = (
        sum(Fraction(abs(int(m)), int(s)) for m, s in zip(two - one, sizes, strict=True)) / 3
        for (table, one), (other, two) in product(sums, sums)
        if (Counter(table) - Counter(other)).total() == 1
    )
    return inputs["Delta"] * max(moved)


FAMILIES: dict[str, Callable[[str, dict], object]] = {
    "t5": lambda rest, _: t5(*rest.split(".", 1)),
    "alg1": lambda rest, _: alg1(rest),
    "bool": lambda rest, _: rare(rest),
    "ex3": lambda rest, _: ex3(rest),
    "kr": lambda rest, _: kr(rest),
    "ed": lambda rest, _: ed(rest),
    "stair": lambda rest, inputs: stair(rest.split(".eps")[0], inputs["eps"]),
    "ex5": lambda rest, inputs: ex5(rest.split(".0")[0], inputs.get("level")),
    "idp": lambda rest, _: idp(rest),
    "book": lambda _, inputs: book(inputs),
    "gauss": gauss,
    "sem": sem,
    "dp": lambda *_: grid_staircase(),
    "lin": lin,
    "tclose": lambda rest, _: close(rest),
    "mdav": lambda _, inputs: mdav(inputs),
    "ir": lambda rest, inputs: measure_rank_blocks(inputs["k"]) if rest == "low" else moved_blocks(rest, inputs),
    "multi": lambda _, inputs: Fraction(bound_ordered_chain(inputs["n"] // inputs["k"], 4), 15 * inputs["k"]),
    "hilbert": lambda _, inputs: [
        bound_chain(2, 4, inputs["m"], 0) / 16,
        bound_joint_chain(2, 4, inputs["m"], (0, 1)) / 16,
    ],
}


def test_every_entry_is_computed() -> None:
    """No number is forgotten."""
    assert {name.split(".")[0] for name in GOLDEN} == set(FAMILIES)
    assert len(GOLDEN) == 123


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    """To the tolerance the entry states."""
    entry = GOLDEN[name]
    family, _, rest = name.partition(".")
    got = FAMILIES[family](rest, entry["inputs"])
    assert near(got, entry["expected"], entry["tolerance"]), (got, entry["expected"])


def near(got: object, expected: object, tolerance: float) -> bool:
    if isinstance(expected, dict):
        return got.keys() == expected.keys() and all(near(got[key], expected[key], tolerance) for key in expected)
    if isinstance(expected, list):
        return len(got) == len(expected) and all(near(a, b, tolerance) for a, b in zip(got, expected, strict=True))
    return abs(float(got) - expected) <= tolerance
