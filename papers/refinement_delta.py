"""Document 000, Figures 2 and 3: the (epsilon, delta) versions, those of the document beside those that hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.mechanisms.refinement import FactorProfile, Refinement
from discreet.numeric import exp_below
from discreet.sdc.report_charts import Chart
from discreet.verification import exact_delta
from papers.charts import draw_lines
from papers.rows import Row, build_not_reproducible, compare_corrected, compare_derived
from papers.tables import Data, Table
from papers.unit_interval import LN2, build_unit_interval, list_steps

DELTA = 0.2
RATIO = exp_below(Fraction(repr(LN2)))
TRUTHS = {"1/6": Fraction(1, 6), "5/6": Fraction(5, 6)}
VERSION_LABELS = {"pure": "ln 2", "printed": "(ln 2, 0.2) printed", "sound": "(ln 2, 0.2) sound"}
CURVE = "the curve alone is printed"
FACTORS = "the factors alpha_u = 1.5 and alpha_d = 0.75, for which U_u is a third, are our choice"


@dataclass(frozen=True, eq=False)
class PrintedRefinement(Refinement):
    """The (epsilon, delta) versions as document 000 prints them, to show what they really spend."""

    @property
    def profile(self) -> FactorProfile:
        """delta, or half of it, at the truth; as much taken from the farthest points."""
        up, down = self.factors
        if self.about == "individual":
            empty = self.delta / down
            near = (1 - self.delta - down * (1 - empty)) / (up - down)
            return FactorProfile((near, 1 - empty, Fraction(1)), (up, down, Fraction(0)), self.delta)
        atom = self.delta / 2
        return FactorProfile(((1 - down) / (up - down), 1 - atom / down, Fraction(1)), (up, down, Fraction(0)), atom)


def build_versions(about: str, points: int = 63) -> dict[str, Refinement]:
    """At ln 2 without delta; with 0.2 as printed, and as it holds."""
    prior, up = build_unit_interval(points), None if about == "individual" else 1.5
    pure, sound = (Refinement.of(prior, LN2, about, delta=delta, up=up) for delta in (0, DELTA))
    parts = (sound.epsilon, sound.about, sound.neighbors, sound.distance, sound.delta, sound.up)
    return {"pure": pure, "printed": PrintedRefinement(prior, *parts), "sound": sound}


def compute_individual_delta(mechanism: Refinement) -> float:
    """The delta really spent at ln 2 between f(D) = 1/2 and the prior, which answers for who is absent."""
    return float(exact_delta(mechanism.distribution(0.5), mechanism.distribution(None), RATIO))


def compute_statistical_delta(mechanism: Refinement) -> float:
    """The delta really spent at ln 2 between the two truths of Figure 3."""
    one, two = (mechanism.distribution(truth) for truth in TRUTHS.values())
    return float(exact_delta(one, two, RATIO))


def compare_figure_2(_: Data) -> Iterator[Row]:
    """An individual question, f(D) = 1/2."""
    versions = build_versions("individual")
    why = "what is taken from the tails, where the factor is e^-epsilon, empties e^epsilon delta of the prior"
    spent = compute_individual_delta(versions["printed"])
    yield compare_corrected("ed.ind.published_delta", "delta really spent at (ln 2, 0.2)", 0.2, spent, 0.4, "1.5", why)
    cell = "delta really spent by the version that holds"
    yield compare_derived("000.figure-2.sound.delta", cell, 0.2, compute_individual_delta(versions["sound"]))
    near = float(versions["sound"].profile.mass_limits[0])
    yield compare_derived("000.figure-2.sound.near", "size of U_u of the version that holds", 4 / 15, near)
    yield from _compare_versions("000.figure-2", versions, CURVE)


def compare_figure_3(_: Data) -> Iterator[Row]:
    """A statistical question, f(D) = 1/6 and 5/6."""
    versions = build_versions("statistic")
    why = "an event of f(D1) and the points emptied around f(D2) spends (1 + e^epsilon) delta'"
    spent = compute_statistical_delta(versions["printed"])
    yield compare_corrected("ed.stat.published_delta", "delta really spent at (ln 2, 0.2)", 0.2, spent, 0.3, "1.6", why)
    atom = float(versions["sound"].profile.atom)
    why = "delta' is delta / (1 + e^epsilon), not delta / 2"
    yield compare_corrected("ed.stat.delta_prime", "delta', the mass added at f(D)", 0.1, atom, 1 / 15, "1.6", why)
    factors = [float(factor) for factor in versions["sound"].factors]
    yield compare_derived("ed.stat.factors", "alpha_u and alpha_d where U_u is a third", [1.5, 0.75], factors)
    cell = "delta really spent by the version that holds"
    yield compare_derived("000.figure-3.sound.delta", cell, 0.2, compute_statistical_delta(versions["sound"]))
    yield from _compare_versions("000.figure-3", versions, f"{CURVE}; {FACTORS}")


def _compare_versions(id: str, versions: Mapping[str, Refinement], why: str) -> Iterator[Row]:
    """The factors along the prior, nearest first, and where each ends."""
    for name, mechanism in versions.items():
        profile = mechanism.profile
        heights = {
            "heights": [round(float(factor), 6) for factor in profile.step_factors],
            "ends": [round(float(until), 6) for until in profile.mass_limits],
            "point mass": round(float(profile.atom), 6),
        }
        yield build_not_reproducible(
            f"{id}.{name}", f"heights by prior mass from f(D), {VERSION_LABELS[name]}", None, heights, "drawing", why
        )


def draw_figure_2(_: Sequence[Row]) -> list[Chart]:
    """One picture."""
    return [_draw_versions("Figure 2: one person, f(D) = 1/2", build_versions("individual"), 0.5)]


def draw_figure_3(_: Sequence[Row]) -> list[Chart]:
    """One for each truth."""
    versions = build_versions("statistic")
    return [
        _draw_versions(f"Figure 3: a statistic, f(D) = {label}", versions, float(truth))
        for label, truth in TRUTHS.items()
    ]


def _draw_versions(title: str, versions: Mapping[str, Refinement], truth: float) -> Chart:
    """Densities as lines; the mass of the point at the truth as a dot."""
    masses = {name: float(versions[name].profile.atom) for name in ("printed", "sound")}
    return draw_lines(
        title,
        "Densities of the answer at ln 2, and at (ln 2, 0.2) as printed and as it holds. The dots are the probability "
        f"of f(D) itself: {masses['printed']:.3g} as printed, {masses['sound']:.3g} as it holds.",
        "answer",
        "density",
        {
            VERSION_LABELS[name].removeprefix("(ln 2, 0.2) "): list_steps(each.profile, truth)
            for name, each in versions.items()
        },
        {"mass at f(D)": [(truth, mass) for mass in masses.values()]},
        steps=True,
    )


TABLES: tuple[Table, ...] = (
    Table(
        "000-figure-2",
        "Figure 2",
        "One person, (ln 2, 0.2): as printed, and as it holds.",
        compare_figure_2,
        draw_figure_2,
    ),
    Table(
        "000-figure-3",
        "Figure 3",
        "A statistic, (ln 2, 0.2): as printed, and as it holds.",
        compare_figure_3,
        draw_figure_3,
    ),
)
