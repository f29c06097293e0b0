"""Document 004, individual differential privacy: its tables, figures, local sensitivities and Example 2.

What it calls private here is not differential privacy; the rows say where the two part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from discreet.mechanisms.continuous_noise import Laplace
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.individual_dp import TruncatedRangeCount
from discreet.mechanisms.order_statistic import local_sensitivity
from discreet.sdc.report_charts import Chart
from papers.charts import draw_bars, draw_lines
from papers.continuous import (
    compute_admissible_loss,
    compute_heavy_tail_interval,
    compute_largest_alpha,
    find_admissible_range,
)
from papers.rows import Row, build_not_reproducible, compare_corrected, compare_cut, compare_derived, compare_equal
from papers.tables import Data, Table

EPSILON = {"0.1": 0.1, "ln2": math.log(2), "1": 1.0, "2": 2.0, "5": 5.0}
TABLE_2 = {"dp": ("9.98", "1.33", "0.85", "0.27", "0.013"), "idp": ("0.95", "0.66", "0.53", "0.23", "0.013")}
CUT = {"dp.2", "idp.ln2", "idp.1", "idp.2"}
"""Where the last digit is another when it is rounded."""
VALUES = (1, 2, 4, 7, 9)
LEVEL = 0.95


def compute_document_scale(gamma: int) -> int:
    """The document's noise at epsilon 1 and sensitivity 1: 4 gamma times Z."""
    return 4 * gamma


def compute_least_scale(gamma: int) -> float:
    """The least that is proven at the document's beta = epsilon / gamma."""
    return 1 / compute_largest_alpha(gamma, 1 / gamma)


def compare_table_1(_: Data) -> Iterator[Row]:
    """95 % intervals at epsilon 1 and sensitivities of 1."""
    yield compare_equal("idp.t1.lap", "half width, (epsilon, D)-iDP, Laplace", "3", Laplace(1).interval(LEVEL)[1])
    two, three = (compute_heavy_tail_interval(gamma, compute_document_scale(gamma), LEVEL) for gamma in (2, 3))
    note = "8 times 12.706 is 101.65; 8 times 12.71, rounded first, is 101.7"
    yield compare_equal("idp.t1.gamma2", "half width, gamma = 2", "101.7", two, within=0.0005, note=note)
    yield compare_equal("idp.t1.gamma3", "half width, gamma = 3", "34.2", three)
    why = "with beta = epsilon / gamma an alpha of {:.3g} epsilon is proven, not only epsilon / (4 gamma)"
    for gamma, printed, right in ((2, "101.7", "25.4"), (3, "34.2", "13.6")):
        yield compare_corrected(
            f"004.table-1.least.gamma{gamma}",
            f"half width that is proven to be enough, gamma = {gamma}",
            printed,
            compute_heavy_tail_interval(gamma, compute_least_scale(gamma), LEVEL),
            right,
            "6",
            why.format(compute_largest_alpha(gamma, 1 / gamma)),
            within=0.0,
        )
    yield from _compare_admissible()


def _compare_admissible() -> Iterator[Row]:
    """What (epsilon / 4 gamma, epsilon / gamma) costs."""
    for gamma, right in ((2, 0.625), (3, 0.79895008766402)):
        cell = f"proven loss of (epsilon/4 gamma, epsilon/gamma) over epsilon, gamma = {gamma}"
        yield compare_derived(f"idp.smooth.loss.gamma{gamma}", cell, right, compute_admissible_loss(gamma))
    yield compare_corrected(
        "idp.smooth.gamma_range",
        "gammas for which (epsilon/4 gamma, epsilon/gamma) is proven",
        "above 1",
        list(find_admissible_range()),
        [1.19166617399, 6.21740471560],
        "6",
        "it is printed for every gamma above 1; beyond these the loss may exceed epsilon",
        within=1e-9,
    )
    yield compare_derived(
        "idp.smooth.alpha.gamma2", "largest proven alpha over epsilon, gamma = 2", 0.5, compute_largest_alpha(2, 0.5)
    )


def compare_table_2(_: Data) -> Iterator[Row]:
    """The expected absolute error of a range count."""
    cells = {"dp": "epsilon-DP", "idp": "(epsilon, D)-iDP, the error cut to -1, 0, 1"}
    for kind, printed in TABLE_2.items():
        for (name, epsilon), figure in zip(EPSILON.items(), printed, strict=True):
            noise = DiscreteLaplace(epsilon, 1) if kind == "dp" else TruncatedRangeCount(epsilon)
            id, cell = f"idp.t2.{kind}.{name}", f"{cells[kind]}, epsilon {name}"
            if f"{kind}.{name}" in CUT:
                yield compare_cut(id, cell, figure, noise.expected_error(), "erratum 6")
            else:
                yield compare_equal(id, cell, figure, noise.expected_error())


def compare_local_sensitivities(_: Data) -> Iterator[Row]:
    """Local sensitivities of the values 1, 2, 4, 7, 9 in [0, 10]."""
    sensitivities = {what: local_sensitivity(VALUES, what, 0, 10) for what in ("median", "second max", "max")}
    why = "of 2m + 1 values the median is x_(m+1); the printed formula has x_m for it"
    yield compare_corrected("idp.median.LS", "median", _compute_printed_median(), sensitivities["median"], 3, "6", why)
    yield compare_derived(
        "idp.max2.LS", "second maximum", 3, sensitivities["second max"], note="as the printed formula has it"
    )
    yield compare_derived("idp.max.LS", "maximum", 2, sensitivities["max"], note="as the printed formula has it")


def _compute_printed_median() -> int:
    """max(x_m - x_(m-1), x_(m+1) - x_m), m = 2."""
    return max(VALUES[1] - VALUES[0], VALUES[2] - VALUES[1])


def compare_example_2(_: Data) -> Iterator[Row]:
    """Two neighbours with the same median and noise at their local sensitivities, m = 5."""
    tables = {"X": [0] * 7 + [1] * 4, "X'": [0] * 6 + [1] * 5}
    sensitivities = {name: local_sensitivity(values, "median", 0, 1) for name, values in tables.items()}
    for name, printed in (("X", 0), ("X'", 1)):
        id = f"004.example-2.{name}"
        yield compare_equal(f"{id}.median", f"median of {name}", 0, sorted(tables[name])[5])
        yield compare_equal(f"{id}.local", f"local sensitivity of {name}", printed, sensitivities[name])
    first, second = (_compute_answer_distribution(each) for each in sensitivities.values())
    yield compare_derived("004.example-2.out", "P(answer is 1) on X', epsilon 1; on X it is 0", "0.170", second[1], 0.0)
    variation = sum(abs(second.get(answer, 0.0) - first.get(answer, 0.0)) for answer in range(-60, 61)) / 2
    yield compare_derived("004.example-2.variation", "total variation between the two answers", "0.538", variation, 0.0)
    why = "iDP is said to protect individuals as DP does; here an answer is possible on one neighbour alone"
    loss = max(abs(math.log(p / first[answer])) if first.get(answer) else math.inf for answer, p in second.items())
    yield compare_corrected("004.example-2.loss", "loss between the neighbours, epsilon 1", 1, loss, math.inf, "6", why)


def _compute_answer_distribution(sensitivity: int | Fraction) -> dict[int, float]:
    """The law of the median 0 with noise at that sensitivity, epsilon 1; no noise where that is 0."""
    if not sensitivity:
        return {0: 1.0}
    noise = DiscreteLaplace(1, sensitivity)
    return {answer: noise.probability(answer) for answer in range(-60, 61)}


Width = Callable[[float], float]
"""Half the interval that holds a share of the noise."""


def _list_noises() -> dict[str, Width]:
    """The noises of Figure 1."""
    return {
        "Laplace": lambda share: Laplace(1).interval(share)[1],
        "gamma 2": lambda share: compute_heavy_tail_interval(2, compute_document_scale(2), share),
        "gamma 3": lambda share: compute_heavy_tail_interval(3, compute_document_scale(3), share),
    }


def _compute_least_width(share: float) -> float:
    """The one that is proven to be enough, which the figure has not."""
    return compute_heavy_tail_interval(2, compute_least_scale(2), share)


def compare_figure_1(_: Data) -> Iterator[Row]:
    """The heights at 0: a small share of the noise over the interval that holds it."""
    share, why = 1e-9, "the curve alone is printed"
    for name, width in _list_noises().items():
        id = f"004.figure-1.{name.replace(' ', '')}"
        yield build_not_reproducible(id, f"density at 0, {name}", None, share / (2 * width(share)), "drawing", why)


def draw_figure_1(_: Sequence[Row]) -> list[Chart]:
    """Densities, from how the intervals grow with what they hold."""
    series = {
        name: _compute_density(width)
        for name, width in (_list_noises() | {"gamma 2, least": _compute_least_width}).items()
    }
    sentence = "The noise for a median at epsilon 1 and sensitivities of 1; the least is not in the document."
    return [draw_lines("Figure 1: noise for a median", sentence, "noise", "density", series)]


def _compute_density(width: Width) -> list[tuple[float, float]]:
    """Shares by the lengths that hold them, mirrored at 0."""
    shares = [0.0, 0.002, *(part / 40 for part in range(1, 40)), 0.99, 0.999, 0.9999]
    ends = [0.0, *(width(share) for share in shares[1:])]
    pairs = zip(pairwise(shares), pairwise(ends), strict=True)
    half = [((near + far) / 2, (more - less) / (2 * (far - near))) for (less, more), (near, far) in pairs]
    shown = [(x, y) for x, y in half if x <= 40]
    return [(-x, y) for x, y in reversed(shown)] + shown


def compare_figure_2(_: Data) -> Iterator[Row]:
    """The errors of a range count at epsilon 1."""
    laws = _compute_errors()
    for name, law in laws.items():
        near = [law[str(error)] for error in (0, 1, 2)]
        why = "the curve alone is printed"
        yield build_not_reproducible(
            f"004.figure-2.{name}", f"probability of the errors 0, 1 and 2, {name}", None, near, "drawing", why
        )
    note = "the answer f - 1 has this probability on D and none where the count is f + 1 (erratum 6)"
    yield compare_derived("004.figure-2.shown", "P(error is -1), iDP", "0.269", laws["iDP"]["-1"], 0.0, note)


def _compute_errors() -> dict[str, dict[str, float]]:
    """Where TruncatedRangeCount errs it errs by one, to either side alike."""
    noise, error = DiscreteLaplace(1, 1), TruncatedRangeCount(1).expected_error()
    probabilities = {0: 1 - error, 1: error / 2}
    places = range(-5, 6)
    return {
        "DP": {str(answer): noise.probability(answer) for answer in places},
        "iDP": {str(answer): probabilities.get(abs(answer), 0.0) for answer in places},
    }


def draw_figure_2(_: Sequence[Row]) -> list[Chart]:
    """Both laws side by side."""
    sentence = "The error of a range count at epsilon 1; iDP cuts it to one, which discloses the count to within one."
    return [draw_bars("Figure 2: the error of a range count", sentence, "error", "probability", _compute_errors())]


TABLES: tuple[Table, ...] = (
    Table("004-example-2", "Example 2", "Two neighbours and noise at the local sensitivity.", compare_example_2),
    Table(
        "004-local-sensitivity",
        "Sections 6.1 and 6.2",
        "Local sensitivities of order statistics.",
        compare_local_sensitivities,
    ),
    Table("004-table-1", "Table 1", "95 % intervals of the noise for a median.", compare_table_1),
    Table("004-table-2", "Table 2", "The expected absolute error of a range count.", compare_table_2),
    Table("004-figure-1", "Figure 1", "The noise for a median.", compare_figure_1, draw_figure_1),
    Table("004-figure-2", "Figure 2", "The error of a range count, epsilon 1.", compare_figure_2, draw_figure_2),
)
