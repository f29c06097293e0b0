"""The pictures of the pages that explain: computed by the library each time the site is built."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from html import escape

from papers.chapter_6 import bound_ordered_chain
from papers.charts import Line, draw_bars, draw_lines

from discreet import DiscreteLaplace, Distance, Prior, Refinement, Taxonomy
from discreet.answers.decode import SURPRISE_TAIL
from discreet.charts import BLUE, CONFIG, GRAY, INK, ORANGE, DistributionChart, build_picture_spec
from discreet.estimation.grid_prior import GridPrior, parse_grid_prior
from discreet.estimation.noise_distributions import (
    ScaledNoise,
    build_flat_posterior,
    compute_surprise,
    update_grid_prior,
)
from discreet.sdc.report_charts import Chart
from discreet.synthetic.hilbert import bound_chain
from papers import crossover

FOLDER = "images/explanation"
PRIOR = "0.9 normal(38, 6) + 0.1 cauchy(38, 6) on [17, 90] step 1"
WIDE, HIGH, APART = 560, 220, 30
OLDEST = 70
"""Ages above have next to no probability."""
SVG = "http://www.w3.org/2000/svg"
K, CLUSTERS = 5, 8
ROWS, BITS = 1080, 4
"""The Census file's rows, and a square of 16 by 16."""

DISEASES = {
    "heart": "disease",
    "lung": "disease",
    "angina": "heart",
    "infarction": "heart",
    "asthma": "lung",
    "pneumonia": "lung",
}
LEAVES = ("angina", "infarction", "asthma", "pneumonia")


def draw_pictures() -> dict[str, bytes]:
    """Every picture by its path in the site, as SVG."""
    svg_by_name = {
        "refinement": _widen(draw_refinement()),
        "refinement-truth": _widen(draw_moving_truth()),
        "refinement-kinds": _widen(draw_kinds()),
        "refinement-distance": _widen(draw_distances()),
        "refinement-or-noise": _widen(draw_or_noise()),
        "posterior": draw_posterior(),
        "posterior-wrong": _widen(draw_wrong_prior()),
        "guarantees-belief": _widen(draw_belief_bound()),
        "chapter-6-centroids": _widen(draw_centroids()),
        "chapter-6-noise": _widen(draw_noise_by_k()),
        "attack-model": draw_attack_model(),
    }
    return {f"{FOLDER}/{name}.svg": svg.encode() for name, svg in svg_by_name.items()}


def _widen(chart: Chart) -> str:
    """A chart as wide as a page of text, with room in its legend for fonts wider than those here."""
    config = CONFIG | {"aria": False, "legend": CONFIG["legend"] | {"layout": {"top": {"margin": APART}}}}
    spread = json.loads(json.dumps(dict(chart.spec)).replace('"columnPadding": 14', f'"columnPadding": {APART}'))
    return replace(chart, spec={**spread, "config": config, "width": WIDE, "height": HIGH}).to_svg()


def _list_law_points(mechanism: Refinement, truth: object) -> Line:
    law = mechanism.distribution(truth)
    return _list_shown_points(law.support, law.probabilities)


def _list_shown_points(support: Sequence[object], probabilities: Sequence[Fraction]) -> Line:
    """The part of a law of ages where something happens."""
    both = zip(support, probabilities, strict=True)
    return [(float(str(x)), float(p)) for x, p in both if float(str(x)) <= OLDEST]


def draw_refinement() -> Chart:
    """The prior, and what the answer is drawn from, for three values of epsilon."""
    prior = Prior.parse(PRIOR)
    series: dict[str, Line] = {"the prior": _list_shown_points(prior.support, prior.probabilities)}
    for epsilon in (0.5, 1, 2):
        series[f"epsilon {epsilon}"] = _list_law_points(Refinement.of(prior, epsilon, "individual"), 52)
    sentence = (
        "A prior about one person's age with its peak at 38, and the law of the answer where the truth is 52: "
        "values near 52 are raised by at most e to the epsilon, all others lowered by at most as much."
    )
    return draw_lines(
        "What the answer is drawn from", sentence, "age", "probability", series, {"the truth": [(52, 0)]}, steps=True
    )


def draw_moving_truth() -> Chart:
    """The law of the answer where the truth is another."""
    mechanism = Refinement.of(Prior.parse(PRIOR), 1, "individual")
    series = {f"the truth is {truth}": _list_law_points(mechanism, truth) for truth in (25, 38, 60)}
    sentence = "Three laws of the answer at epsilon 1, where the truth is 25, 38 and 60: the raised part follows it."
    return draw_lines("The answer's law follows the truth", sentence, "age", "probability", series, steps=True)


def draw_kinds() -> Chart:
    """A statistic beside an individual, at the same epsilon."""
    prior = Prior.parse(PRIOR)
    series = {
        "one person": _list_law_points(Refinement.of(prior, 1, "individual"), 52),
        "a statistic": _list_law_points(Refinement.of(prior, 1, "statistic"), 52),
    }
    sentence = (
        "The same prior, truth and epsilon: the law about one person is raised by e to the epsilon and lowered by as "
        "much, that of a statistic only by e to the epsilon from lowest to highest."
    )
    return draw_lines("One person and a statistic, epsilon 1", sentence, "age", "probability", series, steps=True)


def draw_distances() -> Chart:
    """What a taxonomy does to the answer: near values are likelier than far ones."""
    prior = Prior.weights(dict.fromkeys(LEAVES, 1))
    distances = {"equal or not": Distance.nominal(), "by the taxonomy": Distance.semantic(Taxonomy.of(DISEASES))}
    series: dict[str, Mapping[str, float]] = {"the prior": dict.fromkeys(LEAVES, 0.25)}
    for name, distance in distances.items():
        law = Refinement.of(prior, 0.5, "statistic", distance=distance, up=1.2).distribution("angina").law()
        series[name] = {str(value): float(p) for value, p in law.items()}
    sentence = (
        "Four diseases, the truth being angina. With the distance equal or not all others are lowered alike; with the "
        "taxonomy infarction, the other disease of the heart, is likelier than those of the lung."
    )
    return draw_bars("The truth is angina, epsilon 0.5", sentence, "answer", "probability", series)


def draw_or_noise() -> Chart:
    """The error after an answer over that before, by range over sensitivity."""
    widths = [Fraction(round(64 * 2 ** (half / 2)), 64) for half in range(-4, 11)]
    one = Fraction(1)
    series = {
        "refinement": [
            (float(w), crossover.compute_refinement_error(w, one) / crossover.compute_prior_error(w)) for w in widths
        ],
        "noise": [(float(w), crossover.compute_noise_error(w, one) / crossover.compute_prior_error(w)) for w in widths],
    }
    crossing = crossover.find_crossing(one)
    share = crossover.compute_noise_error(Fraction(crossing), one) / crossover.compute_prior_error(Fraction(crossing))
    sentence = (
        f"What is left of the error at epsilon 1. Refinement always leaves the same share; noise leaves less where the "
        f"range is wider. They cross at a range of {crossing:.2f} times the sensitivity."
    )
    dots = {f"they cross at {crossing:.1f}": [(crossing, share)]}
    return draw_lines(
        "Refinement or noise, epsilon 1", sentence, "range over sensitivity", "error left", series, dots, "x"
    )


def _parse_count_prior(prior: str) -> GridPrior:
    return parse_grid_prior(prior, Fraction(0), Fraction(2000), Fraction(1), "COUNT(*)")


def draw_posterior() -> str:
    """A count with a prior: three laws, the raw answer and the posterior mean."""
    grid_prior, noise, raw = _parse_count_prior("normal(480, 60)"), ScaledNoise(DiscreteLaplace(0.02, 1), 1.0), 560.0
    half = float(noise.noise.interval(0.95)[1])
    drawing = DistributionChart(
        "A count at epsilon 0.02; prior normal(480, 60)",
        "COUNT(*)",
        grid_prior.build_cells().get_stated_distribution(),
        build_flat_posterior(noise, raw, 1.0),
        update_grid_prior(grid_prior, noise, raw),
        raw,
        (raw - half, raw + half),
        "What was believed, the noise about the raw answer 560, and what is known now, which lies between them.",
    )
    import vl_convert

    label = escape(drawing.sentence)
    svg: str = vl_convert.vegalite_to_svg(build_picture_spec(drawing), allowed_base_urls=[])
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def draw_wrong_prior() -> Chart:
    """What is made of raw answers that lie ever farther from the prior: with the heavy tail, and without."""
    grid_prior, noise = _parse_count_prior("normal(480, 20)"), ScaledNoise(DiscreteLaplace(0.02, 1), 1.0)
    raws = [float(raw) for raw in range(480, 1001, 20)]
    with_tail = [(raw, update_grid_prior(grid_prior, noise, raw).mean()) for raw in raws]
    first_warning = next(raw for raw in range(480, 1001) if compute_surprise(grid_prior, noise, raw) < SURPRISE_TAIL)
    sentence = (
        "The posterior mean over the raw answer, prior normal(480, 20), noise of scale 50. As stated the prior never "
        "lets go; with a tenth of it as a heavy tail the mean goes over to the raw answer where they are far apart. "
        f"From {first_warning} on there is a warning."
    )
    dots = {
        f"warned from {first_warning} on": [
            (float(first_warning), update_grid_prior(grid_prior, noise, first_warning).mean())
        ]
    }
    series = {
        "as used, with the tail": with_tail,
        "as stated, without": [(raw, _compute_stated_mean(grid_prior, noise, raw)) for raw in raws],
        "the raw answer": [(raw, raw) for raw in raws],
    }
    return draw_lines("A wrong prior", sentence, "raw answer", "posterior mean", series, dots)


def _compute_stated_mean(grid_prior: GridPrior, noise: ScaledNoise, raw: float) -> float:
    cells = grid_prior.build_cells([(raw, noise.sd)])
    return replace(cells, used=cells.stated).posterior(noise.compute_log_probability(raw - cells.values)).mean()


def draw_belief_bound() -> Chart:
    """How far one answer can move what anybody believes about one person, for a yes or no."""
    before = [share / 100 for share in range(101)]
    series: dict[str, Line] = {"no answer": [(p, p) for p in before]}
    for epsilon in (0.1, 1.0, 3.0):
        odds = math.exp(epsilon)
        series[f"epsilon {epsilon:g}"] = [(p, odds * p / (1 - p + odds * p)) for p in before]
    sentence = (
        "The most that somebody can believe after answers of epsilon in all, under replace-one, over what she "
        "believed before. At 0.1 it hardly moves; at 3 one in two becomes nineteen in twenty."
    )
    return draw_lines("The most that is believed after", sentence, "believed before", "believed after", series)


def draw_centroids() -> Chart:
    """All centroids along one order move when one record is replaced."""
    before = [1.0 if at % K else 2.0 * (at % (2 * K) == 0) for at in range(K * CLUSTERS)]
    after = [*before[1:], 2.0]
    series = {"before": _compute_means(before), "after": _compute_means(after)}
    sentence = (
        f"{CLUSTERS} clusters of {K} records along one order. The first record is replaced by one at the other end: "
        f"every cluster hands a record on to the one before, and every centroid moves by 2/{K}."
    )
    return draw_bars("One record moves every centroid", sentence, "cluster", "centroid", series)


def _compute_means(values: Sequence[float]) -> dict[str, float]:
    return {str(at // K + 1): sum(values[at : at + K]) / K for at in range(0, len(values), K)}


def draw_noise_by_k() -> Chart:
    """The scale of the noise on one centroid by k: as printed, and as it must be."""
    sizes = [k for k in (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40, 54, 72, 90, 108) if ROWS % k == 0]
    widest = 2**BITS - 1
    series: dict[str, Line] = {
        "as printed": [(float(k), 1 / k) for k in sizes],
        "sound, any fixed order": [(float(k), bound_ordered_chain(ROWS // k, BITS) / (k * widest)) for k in sizes],
        "sound, Hilbert curve": [(float(k), bound_chain(2, BITS, ROWS // k, 0) / (k * widest)) for k in sizes],
        "noise on every record": [(float(k), 1.0) for k in sizes],
    }
    sentence = (
        f"The scale of Laplace noise on a centroid, in widths of the domain over epsilon, for {ROWS:,} rows of two "
        "columns. As printed it falls as 1/k; what is needed along a fixed order is as many times more as there are "
        "clusters, along a Hilbert curve much less."
    )
    return draw_lines("Noise on one centroid", sentence, "k", "scale, in widths over epsilon", series, log="xy")


def draw_attack_model() -> str:
    """Who stands where: boxes and arrows."""
    boxes = [
        Box(10, 60, 150, 100, "custodian", ("rows, schema, reports", "trusted"), GRAY),
        Box(215, 60, 150, 100, "discreet", ("ledger, mechanisms", "what leaves is labelled"), BLUE),
        Box(430, 10, 160, 56, "analysts", ("collude, adapt, time", "know all but one"), ORANGE),
        Box(430, 82, 160, 56, "readers of a file", ("know what is named", "or, if private, anything"), ORANGE),
        Box(430, 154, 160, 56, "the network", ("sees sizes and times", "closed by TLS, deadlines"), ORANGE),
    ]
    arrows = [(160, 110, 213, 110), (365, 95, 428, 40), (365, 110, 428, 110), (365, 125, 428, 180)]
    parts = [box.to_svg() for box in boxes]
    parts += [
        f'<path d="M{a} {b} L{c} {d}" stroke="{INK}" stroke-width="1.5" marker-end="url(#head)"/>'
        for a, b, c, d in arrows
    ]
    label = "The custodian is trusted; discreet stands between the rows and analysts, readers of files and the network."
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>'
    )
    return (
        f'<svg role="img" aria-label="{escape(label)}" xmlns="{SVG}" width="600" height="220" viewBox="0 0 600 220">'
        f'<rect width="600" height="220" fill="white"/>{head}{"".join(parts)}</svg>'
    )


@dataclass(frozen=True)
class Box:
    """A box with a name and two lines of words."""

    x: int
    y: int
    width: int
    height: int
    name: str
    words: tuple[str, str]
    colour: str

    def to_svg(self) -> str:
        """Its outline and its text, in the middle."""
        x, y = self.x + self.width // 2, self.y + self.height // 2
        lines_of = [
            (self.name, 14, "bold", y - 9),
            *((w, 11, "normal", y + 7 + 14 * at) for at, w in enumerate(self.words)),
        ]
        texts = "".join(
            f'<text x="{x}" y="{at}" font-family="sans-serif" font-size="{size}" font-weight="{weight}" '
            f'text-anchor="middle" fill="{INK}">{escape(text)}</text>'
            for text, size, weight, at in lines_of
        )
        return (
            f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="6" fill="white" '
            f'stroke="{self.colour}" stroke-width="2"/>{texts}'
        )
