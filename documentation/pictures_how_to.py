"""The pictures of the tutorial and the guides: computed by the library each time the site is built."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from papers.charts import Line, draw_lines

from discreet import Custodian, DiscreteLaplace, Prior
from discreet.charts import DistributionChart, build_picture_spec
from discreet.estimation.grid_prior import parse_grid_prior
from discreet.estimation.noise_distributions import ScaledNoise, build_flat_posterior, update_grid_prior
from discreet.sample import write_registry
from discreet.sdc.report_charts import Chart

FOLDER = "images/how-to"
PATIENTS, KS = 1000, (3, 10, 20, 50)
WIDE, HIGH = 560, 220
EXACT, EPSILON, SHOWN = 852, 0.1, 50
"""The smokers of the tutorial's table, what its first question pays, and how far out the picture goes."""
EPSILONS = [round(10 ** (place / 10), 4) for place in range(-20, 8)]
"""From 0.01 to 5, even on a logarithmic scale."""
CONSOLE_PRIOR = (
    "2 uniform(19375, 22500) + 33 uniform(22500, 25625) + 56 uniform(25625, 28750) + 158 uniform(28750, 35000)"
    " + 63 uniform(35000, 38125) + 47 uniform(38125, 41250) + 24 uniform(41250, 44375) + 8 uniform(44375, 47500)"
    " + 0.39 uniform"
)
"""As the console wrote it."""


def draw_pictures() -> dict[str, bytes]:
    """Every picture by its path in the site, as SVG."""
    charts = {
        "answer": draw_answer(),
        "epsilon-belief": draw_belief(),
        "epsilon-accuracy": draw_accuracy(),
        "prior-shapes": draw_shapes(),
        "prior-drawn": draw_console_prior(),
        "choose-k": draw_choice_of_k(),
    }
    series = {name: _widen(chart) for name, chart in charts.items()} | {"posterior": draw_mean_posterior()}
    return {f"{FOLDER}/{name}.svg": svg.encode() for name, svg in series.items()}


def _widen(chart: Chart) -> str:
    """A chart as wide as a page of text."""
    return replace(chart, spec={**chart.spec, "width": WIDE, "height": HIGH}).to_svg()


def draw_answer() -> Chart:
    """Two laws of one count: with a patient, and with another in her place."""
    noise = DiscreteLaplace(EPSILON, 1)
    near = range(-SHOWN, SHOWN + 1)
    laws = {
        f"{EXACT} smoke": [(EXACT + away, float(noise.probability(away))) for away in near],
        "one smoker replaced": [(EXACT - 1 + away, float(noise.probability(away))) for away in near],
    }
    sentence = (
        f"How often each answer is drawn at epsilon {EPSILON} where {EXACT} patients smoke, and where one of them "
        "is replaced by one who does not. The two curves lie nearly on each other: an answer hardly tells which it was."
    )
    return draw_lines("Which answers are drawn", sentence, "answer", "probability", laws)


def draw_mean_posterior() -> str:
    """A mean with a prior: what was believed, the noise, what is known now."""
    grid_prior = parse_grid_prior("normal(900, 150)", Fraction(0), Fraction(10000), Fraction(1), "AVG(cost)")
    noise, raw = ScaledNoise(DiscreteLaplace(0.1, 1), 14.0), 1259.0
    half = 14.0 * float(noise.noise.interval(0.95)[1])
    words = "A prior around 900, a private answer of 1,259 with a wide noise, and the posterior between them."
    drawing = DistributionChart(
        "What smokers cost on average; prior normal(900, 150)",
        "AVG(cost)",
        grid_prior.build_cells().get_stated_distribution(),
        build_flat_posterior(noise, raw, 1.0),
        update_grid_prior(grid_prior, noise, raw),
        raw,
        (raw - half, raw + half),
        words,
    )
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(build_picture_spec(drawing), allowed_base_urls=[])
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(words)}" ', 1)


def draw_belief() -> Chart:
    """The most that is believed after all answers, by epsilon, of what was believed before."""
    series: dict[str, Line] = {}
    for words, before in (("believed 1 in 100", 0.01), ("believed 1 in 10", 0.1), ("believed 1 in 2", 0.5)):
        series[words] = [(epsilon, _compute_belief_after(before, epsilon)) for epsilon in EPSILONS]
    sentence = (
        "The most that somebody can believe of one person after answers of epsilon in all, who believed 1 in 100, 1 in "
        "10 or 1 in 2 before. Up to a tenth hardly anything moves; at 5 even 1 in 100 becomes more than one half."
    )
    return draw_lines("The most that is believed after", sentence, "epsilon in all", "believed after", series, log="x")


def _compute_belief_after(before: float, epsilon: float) -> float:
    odds = math.exp(epsilon) * before / (1 - before)
    return odds / (1 + odds)


def draw_accuracy() -> Chart:
    """How far off a count may be, by epsilon."""
    series = {
        "one count": [(epsilon, _compute_half_width(epsilon, 1)) for epsilon in EPSILONS if epsilon <= 1],
        "counts by group, replace-one": [
            (epsilon, _compute_half_width(epsilon, 2)) for epsilon in EPSILONS if epsilon <= 1
        ],
    }
    sentence = (
        "The half width of the 95 % interval of a count: 300 at epsilon 0.01, 30 at 0.1, 3 at 1. By groups it is twice "
        "as wide under replace-one, since one person may leave a group and enter another."
    )
    return draw_lines("How far off a count may be", sentence, "epsilon", "within, 95 %", series, log="xy")


def _compute_half_width(epsilon: float, sensitivity: int) -> float:
    return float(DiscreteLaplace(epsilon, sensitivity).interval(0.95)[1])


def draw_shapes() -> Chart:
    """The named shapes around one centre."""
    laws = {
        "uniform(20, 40)": "uniform(20, 40)",
        "normal(30, 4)": "normal(30, 4)",
        "laplace(30, 3)": "laplace(30, 3)",
        "cauchy(30, 4)": "cauchy(30, 4)",
    }
    series = {name: _list_prior_points(f"{text} on [10, 50] step 0.25") for name, text in laws.items()}
    sentence = "Four priors around 30: even between two ends, a bell, a sharp peak, and a bell with heavy tails."
    return draw_lines("Shapes of a prior", sentence, "value", "weight", series)


def _list_prior_points(text: str) -> Line:
    prior = Prior.parse(text)
    return [
        (float(Fraction(str(value))), float(share))
        for value, share in zip(prior.support, prior.probabilities, strict=True)
    ]


def draw_console_prior() -> Chart:
    """What sixteen bars became in the console, as a law."""
    sentence = "Sixteen bars from 10,000 to 60,000, highest around 32,000, as the planner reads them: a law in steps."
    law = {"what was drawn": _list_prior_points(f"{CONSOLE_PRIOR} on [10062.5, 59937.5] step 125")}
    return draw_lines("What was drawn", sentence, "AVG(income)", "weight", law, steps=True)


def draw_choice_of_k() -> Chart:
    """Risk and loss of microaggregation over k, on the sample."""
    with TemporaryDirectory() as folder, Custodian.open(write_registry(Path(folder), PATIENTS)) as custodian:
        points = custodian.sweep(KS, methods=["mdav"]).points
    series = {
        "risk": [(float(point.k), point.risk) for point in points],
        "loss": [(float(point.k), point.loss) for point in points],
    }
    sentence = (
        f"Microaggregation of {PATIENTS:,} made-up patients. As k grows from {KS[0]} to {KS[-1]} the risk falls from "
        f"{points[0].risk:.0%} to {points[-1].risk:.0%}, and the loss rises from {points[0].loss:.2f} to "
        f"{points[-1].loss:.2f}, of which 1 is grave."
    )
    return draw_lines("Risk falls, loss rises", sentence, "k", "risk, loss", series, log="x")
