"""Document 000, Figures 1 and 4 to 7: what answers are drawn from, by noise and by refinement."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from discreet.mechanisms.continuous_noise import Laplace
from discreet.mechanisms.distribution import Distribution
from discreet.mechanisms.refinement import Refinement
from discreet.priors.prior import Prior
from discreet.sdc.report_charts import Chart
from papers.charts import draw_bars, draw_lines
from papers.rows import Row, build_not_reproducible, compare_cut, compare_equal
from papers.tables import Data, Table
from papers.unit_interval import EPSILON, LN2, build_refinement, build_unit_interval, compute_density, list_steps

CURVE = "the curve alone is printed"
ANSWERS = (0.25, 0.7)
"""The f(D) and f(D') of Figure 1, so that 0.6 is far from the first and near the second; ours."""


def _build_statistic() -> Refinement:
    """Example 1 with the factors of Figure 3: 1.5 on a third, 0.75 on the rest."""
    return Refinement.of(build_unit_interval(999), LN2, up=1.5)


def compare_figure_1(_: Data) -> Iterator[Row]:
    """The factors that the text names at 0.6, and their ratio."""
    mechanism = _build_statistic()
    far, near = (_compute_density(mechanism, truth, 0.6) for truth in ANSWERS)
    why = f"{CURVE}; f(D) = {ANSWERS[0]:g} and f(D') = {ANSWERS[1]:g} at epsilon ln 2 are our choice"
    yield build_not_reproducible("000.figure-1.left", "density at 0.6, f(D)", "alpha_d", far, "drawing", why)
    yield build_not_reproducible("000.figure-1.right", "density at 0.6, f(D')", "alpha_u", near, "drawing", why)
    loss = math.log(near / far) / LN2
    cell = "ln of the ratio at 0.6, over epsilon"
    yield compare_equal(
        "000.figure-1.ratio", cell, 1, loss, within=1e-9, note="printed as alpha_u / alpha_d <= e^epsilon"
    )


def _compute_density(mechanism: Refinement, truth: float, place: float) -> float:
    """The density of the law's cell that holds a place."""
    law = mechanism.distribution(truth).floats()
    return float(law[int(place * len(law))] * len(law))


def draw_figure_1(_: Sequence[Row]) -> list[Chart]:
    """Both answers over one axis."""
    profile = _build_statistic().profile
    names = ("answer to f(D)", "answer to f(D')")
    series = {name: list_steps(profile, truth) for name, truth in zip(names, ANSWERS, strict=True)}
    sentence = "The uniform prior, raised by 1.5 near the answer and lowered by 0.75 elsewhere, on two data sets."
    return [draw_lines("Figure 1: a statistic on D and D'", sentence, "answer", "density", series, steps=True)]


def compare_figure_4(_: Data) -> Iterator[Row]:
    """The law of Example 3 beside its prior."""
    law = _build_even().distribution(0).floats()
    yield compare_equal(
        "000.figure-4.prior", "prior of 0 and of 1", ["0.5", "0.5"], _build_even().distribution(None).floats().tolist()
    )
    yield compare_equal("000.figure-4.answer", "P(K = 0) and P(K = 1) where B is 0", ["0.8161", "0.1839"], law.tolist())


def _build_even() -> Refinement:
    return Refinement.of(Prior.weights({0: 1, 1: 1}), 1, about="individual")


def draw_figure_4(_: Sequence[Row]) -> list[Chart]:
    """Prior and answer."""
    laws = {"prior": _build_even().distribution(None), "answer, B = 0": _build_even().distribution(0)}
    return [_draw_boolean("Figure 4: a Boolean, epsilon 1", laws)]


def _draw_boolean(title: str, laws: Mapping[str, Distribution]) -> Chart:
    """A bar for each value in each law."""
    heights = {name: dict(zip("01", law.floats().tolist(), strict=True)) for name, law in laws.items()}
    return draw_bars(title, "The probabilities of 0 and 1.", "answer", "probability", heights)


def compare_figure_5(_: Data) -> Iterator[Row]:
    """Laplace noise of scale 1/2 around 0 and 1."""
    noise = Laplace(1, 0.5)
    yield compare_equal("000.figure-5.scale", "scale of the noise", "0.5", noise.scale)
    yield compare_equal("000.figure-5.beyond", "probability beyond 1/2 on the wrong side", "0.184", noise.tail(0.5) / 2)
    yield build_not_reproducible(
        "000.figure-5.top", "height of both peaks", None, compute_density(noise, 0, [0])[0][1], "drawing", CURVE
    )


def draw_figure_5(_: Sequence[Row]) -> list[Chart]:
    """A bell around each value."""
    places = np.linspace(-2, 3, 251).tolist()
    series = {f"B = {truth}": compute_density(Laplace(1, 0.5), truth, places) for truth in (0, 1)}
    sentence = "The answers with Laplace noise of scale 1/2 around 0 and around 1."
    return [draw_lines("Figure 5: a Boolean with noise, epsilon 1", sentence, "answer", "density", series)]


def compare_figure_6(_: Data) -> Iterator[Row]:
    """The rare Boolean, refined; the figures are those of the text beside it."""
    mechanism = _build_rare()
    for truth, probability in ((0, "0.003678"), (1, "0.027182")):
        yes = float(mechanism.distribution(truth).floats()[1])
        yield compare_cut(f"000.figure-6.f{truth}", f"P(K = 1) where B is {truth}", probability, yes)
    yield compare_equal(
        "000.figure-6.prior", "P(K = 1) of the prior", "0.01", float(mechanism.distribution(None).floats()[1])
    )


def _build_rare() -> Refinement:
    return Refinement.of(Prior.weights({0: 0.99, 1: 0.01}), 1, about="individual")


def draw_figure_6(_: Sequence[Row]) -> list[Chart]:
    """Prior and both answers; and the rare value alone, which is too small to see beside the other."""
    laws = {
        "prior": _build_rare().distribution(None),
        "B = 0": _build_rare().distribution(0),
        "B = 1": _build_rare().distribution(1),
    }
    yes = {name: {"1": float(law.floats()[1])} for name, law in laws.items()}
    sentence = "The probability of the answer 1 in the prior and in both refined laws."
    return [
        _draw_boolean("Figure 6: a rare yes, refined", laws),
        draw_bars("Figure 6: the answer 1 alone", sentence, "answer", "probability", yes),
    ]


def compare_figure_7(_: Data) -> Iterator[Row]:
    """The heights of both laws at f(D) = 1/2."""
    for name, epsilon in EPSILON.items():
        inner, outer = (float(factor) for factor in build_refinement(name).profile.step_factors)
        cell = f"refined density near and far from f(D), epsilon {name}"
        yield build_not_reproducible(f"000.figure-7.refined.{name}", cell, None, [inner, outer], "drawing", CURVE)
        top = compute_density(Laplace(epsilon), 0.5, [0.5])[0][1]
        yield build_not_reproducible(
            f"000.figure-7.laplace.{name}", f"Laplace density, epsilon {name}", None, top, "drawing", CURVE
        )


def draw_figure_7(_: Sequence[Row]) -> list[Chart]:
    """One for each epsilon."""
    places = np.linspace(-1.5, 2.5, 201).tolist()
    sentence = "The answer to f(D) = 1/2 by Laplace noise, and by refinement of the uniform prior on [0, 1]."
    return [
        draw_lines(
            f"Figure 7: epsilon {name}",
            sentence,
            "answer",
            "density",
            {"Laplace noise": compute_density(Laplace(epsilon), 0.5, places), "refinement": _extend_steps(name)},
            steps=True,
        )
        for name, epsilon in EPSILON.items()
    ]


def _extend_steps(name: str) -> list[tuple[float, float]]:
    """The refined density with nothing on both sides of [0, 1]."""
    return [(-1.5, 0.0), *list_steps(build_refinement(name).profile, 0.5)[:-1], (1.0, 0.0), (2.5, 0.0)]


TABLES: tuple[Table, ...] = (
    Table("000-figure-1", "Figure 1", "A statistic on two data sets.", compare_figure_1, draw_figure_1),
    Table("000-figure-4", "Figure 4", "The law of Example 3 beside its prior.", compare_figure_4, draw_figure_4),
    Table("000-figure-5", "Figure 5", "A Boolean with Laplace noise, epsilon 1.", compare_figure_5, draw_figure_5),
    Table("000-figure-6", "Figure 6", "A rare Boolean, refined at epsilon 1.", compare_figure_6, draw_figure_6),
    Table("000-figure-7", "Figure 7", "Noise and refinement for an answer of 1/2.", compare_figure_7, draw_figure_7),
)
