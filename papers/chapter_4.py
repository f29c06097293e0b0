"""Chapter 4 of the thesis: noise that is as small as can be, for one number and for two at once."""

from __future__ import annotations

from collections.abc import Iterator

from discreet.mechanisms.continuous_noise import Laplace
from discreet.mechanisms.staircase import Staircase
from papers.chapter_4_figures import FIGURES
from papers.continuous import compute_laplace_region
from papers.rows import Row, compare_corrected, compare_cut, compare_derived, compare_equal
from papers.stepwise_noise import build_example_5, build_least_interval, build_least_variance
from papers.tables import Data, Table

PRINTED_4_1 = {0.1: ("200.00", "199.92"), 0.5: ("8.00", "7.92"), 1: ("2.00", "1.92")}
"""For each epsilon the variance of Laplace's noise and of the best."""
PRINTED_4_2 = {0.1: ("59.91", "59.91"), 0.5: ("11.98", "11.97"), 1: ("5.99", "5.98")}
CUT_4_2 = (0.5, 1)
PRINTED_4_3 = {0.99: ("73.02", "10663"), 0.95: ("52.18", "5445"), 0.9: ("42.79", "3662")}
"""For each level alpha and the region's size."""
PRINTED_4_4 = {0.99: ("6.99", "1790.2"), 0.95: ("4.79", "916.6"), 0.9: ("3.90", "611.2")}
RIGHT_BETA = {0.99: 6.588547839911127, 0.95: 4.687717484753621, 0.9: 3.808395380052418}
SPLIT_SIZE = {0.99: 3525.4174542910137, 0.9: 1210.3938399898807}


def _compare_table_4_1(_: Data) -> Iterator[Row]:
    for epsilon, (laplace, best) in PRINTED_4_1.items():
        id = f"stair.lapvar.eps{epsilon}" if epsilon != 0.5 else "001.4.1.laplace.eps0.5"
        yield compare_equal(id, f"Laplace, epsilon {epsilon}", laplace, Laplace(epsilon).variance())
        id = "stair.minvar.V.eps0.1" if epsilon == 0.1 else f"001.4.1.best.eps{epsilon}"
        yield compare_equal(id, f"least variance, epsilon {epsilon}", best, build_least_variance(epsilon).variance())
    noise = Staircase.least_variance(1, 100, 1)
    obtained = [noise.points, noise.variance() / 100**2]
    yield compare_derived(
        "dp.stair.grid", "core and variance on whole numbers, sensitivity 100", [42, 1.918098220001306], obtained
    )


def _compare_table_4_2(_: Data) -> Iterator[Row]:
    for epsilon, (laplace, best) in PRINTED_4_2.items():
        id = f"stair.ci95.lap.eps{epsilon}" if epsilon != 0.5 else "001.4.2.laplace.eps0.5"
        yield compare_equal(id, f"Laplace, epsilon {epsilon}", laplace, 2 * Laplace(epsilon).interval(0.95)[1])
        id = f"stair.ci95.size.eps{epsilon}" if epsilon != 0.5 else "001.4.2.best.eps0.5"
        cell, obtained = f"shortest interval, epsilon {epsilon}", build_least_interval(epsilon).confidence_length(0.95)
        if epsilon in CUT_4_2:
            yield compare_cut(id, cell, best, obtained, "erratum 2.4")
        else:
            yield compare_equal(id, cell, best, obtained)


def _compare_example_5(_: Data) -> Iterator[Row]:
    noise = build_example_5()
    yield compare_derived("ex5.M", "the density at 0", 0.018040566152309426, noise.density_at_zero)
    for place, printed in enumerate(("4.0338", "403.38")):
        yield compare_equal(f"ex5.var{place + 1}", f"Var Y{place + 1}", printed, noise.variance()[place])
    scales = [Laplace(1, 11).variance()] * 2
    yield compare_equal("ex5.lapvar", "variances of Laplace noise of scale 11 on both", [242, 242], scales)
    split = [Laplace(0.5, 1).variance(), Laplace(0.5, 10).variance()]
    note = "half of epsilon for each is the fair baseline (erratum 2.6)"
    yield compare_derived(
        "ex5.lapvar.split", "variances of Laplace noise of scales 2 and 20", [8.0, 800.0], split, note=note
    )
    yield compare_corrected(
        "001.example-5.gain",
        "the first variance of Laplace noise over that of the stepwise noise",
        242 / 4.0338,
        split[0] / noise.variance()[0],
        1.983239,
        "2.6",
        "against Laplace noise that is fitted to each component the gain is 2, not 60",
    )


def _compare_table_4_3(_: Data) -> Iterator[Row]:
    for level, (alpha, size) in PRINTED_4_3.items():
        obtained, volume = compute_laplace_region([11.0, 11.0], level)
        own_ids = {0.95: ("001.4.3.alpha.0.95", "001.4.3.size.0.95")}
        ids = own_ids.get(level, (f"ex5.lap.alpha.{level}", f"ex5.lap.size.{level}"))
        yield compare_equal(ids[0], f"alpha at {level}", alpha, 11 * obtained)
        yield compare_equal(
            ids[1], f"size at {level}", size, volume, 2e-4, "the printed size follows from the rounded alpha"
        )


def _compare_table_4_4(_: Data) -> Iterator[Row]:
    for level, (beta, size) in PRINTED_4_4.items():
        obtained, volume = build_example_5().region(level)
        own_ids = {0.95: ("001.4.4.beta.0.95", "001.4.4.size.0.95")}
        ids = own_ids.get(level, (f"ex5.box.beta.{level}", f"ex5.box.size.{level}"))
        misprint = ", and 6.99 misprints 6.69" if level == 0.99 else ""
        why = f"what is printed is z1 + beta{misprint}"
        yield compare_corrected(ids[0], f"beta at {level}", beta, obtained, RIGHT_BETA[level], "2.7", why)
        yield compare_equal(
            ids[1], f"size at {level}", size, volume, 5e-4, "the printed size follows from the rounded beta"
        )
    for level, right in SPLIT_SIZE.items():
        cell, obtained = (
            f"size at {level}, Laplace noise of scales 2 and 20",
            compute_laplace_region([2.0, 20.0], level)[1],
        )
        yield compare_derived(f"ex5.split.size.{level}", cell, right, obtained, note="the fair baseline (erratum 2.6)")


TABLES: tuple[Table, ...] = (
    Table("001-4.1", "Table 4.1", "The variance of Laplace's noise and of the best.", _compare_table_4_1),
    Table("001-4.2", "Table 4.2", "The shortest interval that holds 95 % of the noise.", _compare_table_4_2),
    Table(
        "001-example-5",
        "Example 5",
        "Two answers at once, one ten times as sensitive as the other.",
        _compare_example_5,
    ),
    Table(
        "001-4.3",
        "Table 4.3",
        "The least region that holds Laplace noise of scale 11 on two answers.",
        _compare_table_4_3,
    ),
    Table("001-4.4", "Table 4.4", "The least region that holds the stepwise noise on two answers.", _compare_table_4_4),
    *FIGURES,
)
