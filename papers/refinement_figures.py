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
from papers.charts import bars, lines
from papers.rows import Row, beyond, cut, equal
from papers.tables import Data, Table
from papers.unit_interval import EPSILON, LN2, bell, refined, steps, unit_interval

CURVE = "the curve alone is printed"
ANSWERS = (0.25, 0.7)
"""The f(D) and f(D') of Figure 1, so that 0.6 is far from the first and near the second; ours."""


def _statistic() -> Refinement:
    """Example 1 with the factors of Figure 3: 1.5 on a third, 0.75 on the rest."""
    return Refinement.of(unit_interval(999), LN2, up=1.5)


def figure_1(_: Data) -> Iterator[Row]:
    """The factors that the text names at 0.6, and their ratio."""
    mechanism = _statistic()
    far, near = (_density(mechanism, truth, 0.6) for truth in ANSWERS)
    why = f"{CURVE}; f(D) = {ANSWERS[0]:g} and f(D') = {ANSWERS[1]:g} at epsilon ln 2 are our choice"
    yield beyond("000.figure-1.left", "density at 0.6, f(D)", "alpha_d", far, "drawing", why)
    yield beyond("000.figure-1.right", "density at 0.6, f(D')", "alpha_u", near, "drawing", why)
    loss = math.log(near / far) / LN2
    cell = "ln of the ratio at 0.6, over epsilon"
    yield equal("000.figure-1.ratio", cell, 1, loss, within=1e-9, note="printed as alpha_u / alpha_d <= e^epsilon")


def _density(mechanism: Refinement, truth: float, place: float) -> float:
    """The density of the law's cell that holds a place."""
    law = mechanism.distribution(truth).floats()
    return float(law[int(place * len(law))] * len(law))


def figure_1_pictures(_: Sequence[Row]) -> list[Chart]:
    """Both answers over one axis."""
    profile = _statistic().profile
    names = ("answer to f(D)", "answer to f(D')")
    drawn = {name: steps(profile, truth) for name, truth in zip(names, ANSWERS, strict=True)}
    sentence = "The uniform prior, raised by 1.5 near the answer and lowered by 0.75 elsewhere, on two data sets."
    return [lines("Figure 1: a statistic on D and D'", sentence, "answer", "density", drawn, steps=True)]


def figure_4(_: Data) -> Iterator[Row]:
    """The law of Example 3 beside its prior."""
    law = _even().distribution(0).floats()
    yield equal(
        "000.figure-4.prior", "prior of 0 and of 1", ["0.5", "0.5"], _even().distribution(None).floats().tolist()
    )
    yield equal("000.figure-4.answer", "P(K = 0) and P(K = 1) where B is 0", ["0.8161", "0.1839"], law.tolist())


def _even() -> Refinement:
    return Refinement.of(Prior.weights({0: 1, 1: 1}), 1, about="individual")


def figure_4_pictures(_: Sequence[Row]) -> list[Chart]:
    """Prior and answer."""
    laws = {"prior": _even().distribution(None), "answer, B = 0": _even().distribution(0)}
    return [_boolean("Figure 4: a Boolean, epsilon 1", laws)]


def _boolean(title: str, laws: Mapping[str, Distribution]) -> Chart:
    """A bar for each value in each law."""
    heights = {name: dict(zip("01", law.floats().tolist(), strict=True)) for name, law in laws.items()}
    return bars(title, "The probabilities of 0 and 1.", "answer", "probability", heights)


def figure_5(_: Data) -> Iterator[Row]:
    """Laplace noise of scale 1/2 around 0 and 1."""
    noise = Laplace(1, 0.5)
    yield equal("000.figure-5.scale", "scale of the noise", "0.5", noise.scale)
    yield equal("000.figure-5.beyond", "probability beyond 1/2 on the wrong side", "0.184", noise.tail(0.5) / 2)
    yield beyond("000.figure-5.top", "height of both peaks", None, bell(noise, 0, [0])[0][1], "drawing", CURVE)


def figure_5_pictures(_: Sequence[Row]) -> list[Chart]:
    """A bell around each value."""
    places = np.linspace(-2, 3, 251).tolist()
    drawn = {f"B = {truth}": bell(Laplace(1, 0.5), truth, places) for truth in (0, 1)}
    sentence = "The answers with Laplace noise of scale 1/2 around 0 and around 1."
    return [lines("Figure 5: a Boolean with noise, epsilon 1", sentence, "answer", "density", drawn)]


def figure_6(_: Data) -> Iterator[Row]:
    """The rare Boolean, refined; the figures are those of the text beside it."""
    mechanism = _rare()
    for truth, probability in ((0, "0.003678"), (1, "0.027182")):
        yes = float(mechanism.distribution(truth).floats()[1])
        yield cut(f"000.figure-6.f{truth}", f"P(K = 1) where B is {truth}", probability, yes)
    yield equal("000.figure-6.prior", "P(K = 1) of the prior", "0.01", float(mechanism.distribution(None).floats()[1]))


def _rare() -> Refinement:
    return Refinement.of(Prior.weights({0: 0.99, 1: 0.01}), 1, about="individual")


def figure_6_pictures(_: Sequence[Row]) -> list[Chart]:
    """Prior and both answers; and the rare value alone, which is too small to see beside the other."""
    laws = {"prior": _rare().distribution(None), "B = 0": _rare().distribution(0), "B = 1": _rare().distribution(1)}
    yes = {name: {"1": float(law.floats()[1])} for name, law in laws.items()}
    sentence = "The probability of the answer 1 in the prior and in both refined laws."
    return [
        _boolean("Figure 6: a rare yes, refined", laws),
        bars("Figure 6: the answer 1 alone", sentence, "answer", "probability", yes),
    ]


def figure_7(_: Data) -> Iterator[Row]:
    """The heights of both laws at f(D) = 1/2."""
    for name, epsilon in EPSILON.items():
        inner, outer = (float(factor) for factor in refined(name).profile.step_factors)
        cell = f"refined density near and far from f(D), epsilon {name}"
        yield beyond(f"000.figure-7.refined.{name}", cell, None, [inner, outer], "drawing", CURVE)
        top = bell(Laplace(epsilon), 0.5, [0.5])[0][1]
        yield beyond(f"000.figure-7.laplace.{name}", f"Laplace density, epsilon {name}", None, top, "drawing", CURVE)


def figure_7_pictures(_: Sequence[Row]) -> list[Chart]:
    """One for each epsilon."""
    places = np.linspace(-1.5, 2.5, 201).tolist()
    sentence = "The answer to f(D) = 1/2 by Laplace noise, and by refinement of the uniform prior on [0, 1]."
    return [
        lines(
            f"Figure 7: epsilon {name}",
            sentence,
            "answer",
            "density",
            {"Laplace noise": bell(Laplace(epsilon), 0.5, places), "refinement": _on_the_line(name)},
            steps=True,
        )
        for name, epsilon in EPSILON.items()
    ]


def _on_the_line(name: str) -> list[tuple[float, float]]:
    """The refined density with nothing on both sides of [0, 1]."""
    return [(-1.5, 0.0), *steps(refined(name).profile, 0.5)[:-1], (1.0, 0.0), (2.5, 0.0)]


TABLES: tuple[Table, ...] = (
    Table("000-figure-1", "Figure 1", "A statistic on two data sets.", figure_1, figure_1_pictures),
    Table("000-figure-4", "Figure 4", "The law of Example 3 beside its prior.", figure_4, figure_4_pictures),
    Table("000-figure-5", "Figure 5", "A Boolean with Laplace noise, epsilon 1.", figure_5, figure_5_pictures),
    Table("000-figure-6", "Figure 6", "A rare Boolean, refined at epsilon 1.", figure_6, figure_6_pictures),
    Table("000-figure-7", "Figure 7", "Noise and refinement for an answer of 1/2.", figure_7, figure_7_pictures),
)
