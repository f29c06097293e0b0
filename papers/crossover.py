"""Document 000, section 7: from which range on noise beats refinement.

A total that one unit moves by 1 is known to lie evenly in a range. Errors are root mean square, of the best estimate
after the answer, for someone who is right about the range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from discreet.estimation.grid_prior import parse_grid_prior
from discreet.estimation.noise_distributions import ScaledNoise, estimate_posterior_error
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.refinement import Refinement
from discreet.mechanisms.refinement_risk import PriorLine
from discreet.mechanisms.staircase import Staircase
from discreet.priors.prior import Prior
from discreet.sdc.report_charts import Chart
from papers.charts import draw_lines
from papers.rows import Row, compare_derived, compare_equal
from papers.tables import Data, Table

POINTS = 1024
FINE = Fraction(1, POINTS)
"""The grid of the noise; that of the prior is so many points in the range."""
ONE, TENTH = Fraction(1), Fraction(1, 10)
CLAIMS = {"1": "refinement", "16": "noise", "64": "noise"}
"""Range over sensitivity, and what the document holds for better there: at 1 a question about one person."""


def compute_prior_error(width: Fraction) -> float:
    """The error of who does not ask."""
    return float(width) / math.sqrt(12)


def compute_refinement_error(width: Fraction, epsilon: Fraction) -> float:
    """The error after a refinement, which knows of no sensitivity."""
    prior = _build_uniform(width)
    up, down = map(float, Refinement.of(prior, epsilon, "statistic").factors)
    line = PriorLine.of(prior, 2 * POINTS)
    return math.sqrt(line.compute_risk(up, down)) * line.cell_width


def compute_noise_error(width: Fraction, epsilon: Fraction) -> float:
    """The error after noise, Laplace's or the staircase's, whichever is the less."""
    step = width / POINTS
    grid_prior = parse_grid_prior(_build_uniform(width), step / 2, width - step / 2, step, "SUM")
    noises = DiscreteLaplace(epsilon, 1, FINE), Staircase.least_variance(epsilon, 1, FINE)
    return min(estimate_posterior_error(grid_prior, ScaledNoise(noise, float(FINE))) for noise in noises)


def find_crossing(epsilon: Fraction) -> float:
    """The range over sensitivity where both are equally good."""
    low, high = Fraction(1, 2), Fraction(16)
    while high - low > Fraction(1, 100):
        middle = (low + high) / 2
        better = compute_refinement_error(middle, epsilon) < compute_noise_error(middle, epsilon)
        low, high = (middle, high) if better else (low, middle)
    return float(low + high) / 2


def _build_uniform(width: Fraction) -> Prior:
    step = width / POINTS
    return Prior.uniform(step / 2, width - step / 2, step)


def _choose_better(width: Fraction) -> str:
    return "refinement" if compute_refinement_error(width, ONE) < compute_noise_error(width, ONE) else "noise"


def _compare_rows(_: Data) -> Iterator[Row]:
    for width, claim in CLAIMS.items():
        cell = f"the better of the two, range {width} times the sensitivity, epsilon 1"
        yield compare_equal(
            f"000.section-7.range{width}", cell, claim, _choose_better(Fraction(width)), note="printed in words"
        )
    for epsilon, right in ((ONE, 1.430), (TENTH, 1.384)):
        yield compare_derived(
            f"000.section-7.crossing.eps{float(epsilon):g}",
            f"range over sensitivity where both are equally good, epsilon {float(epsilon):g}",
            right,
            find_crossing(epsilon),
            within=0.01,
            note="the bisection stops at a hundredth, and both ways are on grids; within 1 %",
        )
    for times in (1, 4):
        share = compute_refinement_error(Fraction(times), ONE) / compute_prior_error(Fraction(times))
        cell = f"error after refinement over the error before, range {times}, epsilon 1"
        yield compare_derived(
            f"000.section-7.share.range{times}", cell, 0.92857, share, within=1e-4, note="within 0.01 %"
        )


def _draw_pictures(_: Sequence[Row]) -> list[Chart]:
    """Errors as shares of the prior's own."""
    widths = [Fraction(round(64 * 2 ** (half / 2)), 64) for half in range(-4, 13)]
    return [
        draw_lines(
            f"Refinement or noise, epsilon {float(epsilon):g}",
            "The error of the best estimate after the answer, as a share of that before, over range by sensitivity.",
            "range over sensitivity",
            "error over the prior's own",
            {
                name: [(float(width), error(width, epsilon) / compute_prior_error(width)) for width in widths]
                for name, error in (("refinement", compute_refinement_error), ("noise", compute_noise_error))
            },
            log="x",
        )
        for epsilon in (ONE, TENTH)
    ]


TABLE = Table(
    "000-section-7",
    "Section 7, refinement or noise",
    "The document says in words that noise is better where the range is large beside what one unit moves.",
    _compare_rows,
    _draw_pictures,
)
