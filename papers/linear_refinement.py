"""Document 002, linear refinement: Example 1, Theorem 2, the school, the least squares of Theorem 3, the appendix.

Losses are in units of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from discreet.estimation.linear_refinement import LinearRefinement, refine_linear
from discreet.estimation.refinement_cost import rho
from discreet.sdc.report_charts import Chart
from papers.charts import draw_lines
from papers.rows import Row, compare_corrected, compare_derived, compare_equal
from papers.tables import Data, Table

SUM_OF_TWO = [[1], [1]]
"""Example 1: two counts whose sum is known."""
GRADES = ("A", "B", "C", "D", "F", "passing", "all")
PASSED, EVERYONE, BEST = [1, 1, 1, 1, 0, -1, 0], [0, 0, 0, 0, 1, 1, -1], [1, 1, 0, 0, 0, 0, 0]
"""The three constraints of (11): two hold by definition, the third of this data set alone."""
NOISY = [30, 45, 20, 10, 8, 100, 115]
ANOTHER_A = [1, 0, 0, 0, 0, 1, 1]
"""What a student with an A adds to the counts: three of them move by 1."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)


def compute_log_density(y: float, sigma: float = 1.0) -> float:
    """ln of the density (8) of what Example 1 adds to a refined count, but for the factor before it."""
    return math.log(sigma + 2 * abs(y)) - 2 * abs(y) / sigma


def compute_log_ratio(x: float) -> float:
    """ln of (10): the refined count x where the exact one is 1, over where it is 0, sigma = epsilon = 1."""
    return compute_log_density(x - 1) - compute_log_density(x)


def compare_example_1(_: Data) -> Iterator[Row]:
    """Two counts refined by their sum, which is one more where one person is there."""
    best = LinearRefinement.best(SUM_OF_TWO)
    yield compare_equal(
        "lin.ex1.limit", "limit of the log ratio of the first count", 2, rho(best.A, best.D, 1, [1], [1, 0], [0])
    )
    yield compare_derived("lin.ex1.x10", "log ratio at x1 = 10", 1.8999165414430, compute_log_ratio(10))
    yield compare_derived("002.example-1.x1000", "log ratio at x1 = 1000", "1.999", compute_log_ratio(1000), 0.0)
    both = rho(best.A, best.D, 1, [1], [1, 0])
    note = "the two sums differ, and the refined counts add up to them (erratum 5)"
    yield compare_derived("002.example-1.both", "loss of both refined counts together", math.inf, both, note=note)
    yield compare_corrected(
        "002.example-1.prefactor",
        "factor before (8) and (9), sigma = 2",
        1 / 4,
        1 / _total(2.0),
        1 / 8,
        "5",
        "1/(2 sigma) is printed, with which the density adds up to sigma; it is 1/(2 sigma^2)",
    )


def _total(sigma: float) -> float:
    """The integral of the density without its factor, out to where nothing is left."""
    end = 30 * sigma
    places = (end * (NODES + 1) / 2).tolist()
    return end * sum(w * math.exp(compute_log_density(y, sigma)) for w, y in zip(WEIGHTS.tolist(), places, strict=True))


def draw_example_1(_: Sequence[Row]) -> list[Chart]:
    """The log ratio on its way to the limit."""
    places = [10 ** (tenth / 10) for tenth in range(31)]
    drawn = {"ln of (10)": [(x, compute_log_ratio(x)) for x in places], "its limit": [(1.0, 2.0), (1000.0, 2.0)]}
    sentence = "The log ratio of the refined count's densities, in units of epsilon, and the limit 2."
    return [draw_lines("Example 1: what a refined count tells", sentence, "refined count", "log ratio", drawn, log="x")]


def compare_theorem_2(_: Data) -> Iterator[Row]:
    """What the theorem gives as it is printed, and what holds."""
    printed = sorted(compute_printed_theorem_2(sign) for sign in (1, -1))
    note = "as printed the loss depends on a sign that is anyone's choice (erratum 5)"
    yield compare_derived(
        "lin.theorem2.ex1.printed", "rho of Example 1 as printed, both signs", [1, 2], printed, note=note
    )
    fixed = LinearRefinement.best([[1], [1], [1]])
    obtained = rho(fixed.A, fixed.D, 4, [0], [2, -1, -1])
    why = "where c = c' the refinement is a function of noisy answers alone: rho is at most epsilon, not equal to it"
    cell = "rho of three counts of a fixed total, two records of one person moved"
    yield compare_corrected("002.theorem-2.same", cell, 1, obtained, 3 / 4, "5", why)


def compute_printed_theorem_2(sign: int) -> float:
    """The norm of A* D (c - c') - (mu - mu') in Example 1; the sign of a singular vector of A is anyone's choice."""
    best = LinearRefinement.best(SUM_OF_TWO)
    left, values, right = np.linalg.svd(best.A)
    inverse = right.T @ np.diag([1 / values[0], sign]) @ left.T
    return float(np.abs(inverse @ best.D[:, 0] - [1, 0]).sum())


def compare_theorem_3(_: Data) -> Iterator[Row]:
    """Least squares, (16)."""
    values = refine_linear([3, 5], SUM_OF_TWO, [10]).values.tolist()
    yield compare_derived("lin.ls", "counts 3 and 5 refined by their sum 10", [4, 6], values)


def compare_school(_: Data) -> Iterator[Row]:
    """Seven counts of grades refined by the constraints (11)."""
    facts = np.array([PASSED, EVERYONE, BEST]).T
    values = refine_linear(NOISY, facts, [0, 0, 80]).values.tolist()
    right = [32.5, 47.5, 17.125, 7.125, 9.375, 104.25, 113.625]
    yield compare_derived("lin.school", f"refined {', '.join(GRADES)} of {NOISY}", right, values)
    by_definition = LinearRefinement.best(facts[:, :2])
    loss = rho(by_definition.A, by_definition.D, 3, [0, 0], ANOTHER_A)
    note = "the first two constraints hold of every data set: nothing but the noisy answers is used (erratum 5)"
    yield compare_derived("002.school.definitions", "loss of all counts, first two constraints", 1, loss, note=note)
    best = LinearRefinement.best(facts)
    loss = rho(best.A, best.D, 3, [0, 0, 1], ANOTHER_A)
    note = "the third is an exact number of this data set, which the refined counts publish (erratum 5)"
    yield compare_derived("002.school.facts", "loss of all counts, all three constraints", math.inf, loss, note=note)


def compare_appendix(_: Data) -> Iterator[Row]:
    """One record more in either of two categories, of which k times the first was the second."""
    for k in (1, 2, 5, 10):
        refined = _build_appendix_refinement(k)
        limit = rho(refined.A, refined.D, 2, [k + 1], [1, -1], [0])
        yield compare_equal(
            f"lin.app.k{k}", f"limit of the log ratio, k = {k}", (k + 1) / 2, limit, note="printed as (k+1)/2"
        )
    first, second = _build_appendix_refinement(5).apply([3, 4], [5]).tolist()
    why = "X2 is left as it is, so the refinement does not satisfy its constraint and Theorem 2 does not apply"
    obtained = 5 * first - second
    yield compare_corrected(
        "002.appendix.constraint", "k X1 - X2 of the refined (3, 4), k = 5", 5, obtained, 6, "5", why
    )


def _build_appendix_refinement(k: int) -> LinearRefinement:
    return LinearRefinement([[1 / (k + 1), 1 / (k + 1)], [0, 1]], [[1 / (k + 1)], [0]])


TABLES: tuple[Table, ...] = (
    Table("002-example-1", "Example 1", "Two counts refined by their sum.", compare_example_1, draw_example_1),
    Table(
        "002-theorem-2", "Theorem 2", "What a refinement by facts tells, as printed and as it is.", compare_theorem_2
    ),
    Table("002-school", "The school, (11)", "Seven counts of grades refined by three constraints.", compare_school),
    Table("002-theorem-3", "Theorem 3, (16)", "Least squares.", compare_theorem_3),
    Table(
        "002-appendix",
        "Appendix",
        "A record in one of two categories, told apart by a refined count.",
        compare_appendix,
    ),
)
