"""Figures 4.1 to 4.7 of the thesis: densities, what the core's width does, and what noise for two answers covers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from discreet.mechanisms.continuous_noise import Laplace
from discreet.mechanisms.staircase import Staircase
from discreet.sdc.report_charts import Chart
from papers import charts
from papers.continuous import compute_laplace_core
from papers.rows import Row, build_not_reproducible, compare_derived, compare_equal
from papers.stepwise_noise import (
    FINE,
    build_example_5,
    build_least_interval,
    build_least_variance,
    build_stepwise,
    compute_laplace_density,
)
from papers.tables import Data, Table

LAPLACE, STEPWISE, SPLIT = "Laplace", "stepwise", "Laplace, epsilon split"


def _compare_figure_4_1(_: Data) -> Iterator[Row]:
    for epsilon, right in ((0.1, 0.4916680552249556), (1, 0.41802329313067355)):
        cell = f"the part of every interval with the greater density, epsilon {epsilon}"
        yield compare_derived(f"stair.m.eps{epsilon}", cell, right, compute_laplace_core(epsilon, 1))
    masses_kept = _compute_masses(build_stepwise(compute_laplace_core(1, 1)), range(0, 5 * FINE, FINE))
    masses = [(1 - math.exp(-1)) * math.exp(-at) for at in range(4)]
    note = "as much as Laplace's noise has there"
    yield compare_derived(
        "001.figure-4.1.mass", "the mass between i and i + 1, both sides", masses, masses_kept, 2e-3, note
    )


def _compute_masses(noise: Staircase, ends: Sequence[int]) -> list[float]:
    """The probability of an absolute value between one end and the next, in units; a point at an end counts half."""
    beyond_them = [(noise.tail_units(end - 1) + noise.tail_units(end)) / 2 if end else 1.0 for end in ends]
    return [inner - outer for inner, outer in pairwise(beyond_them)]


def _draw_figure_4_1(_: Sequence[Row]) -> list[Chart]:
    laplace, noise = Laplace(1), build_stepwise(compute_laplace_core(1, 1))
    units = range(-4 * FINE, 4 * FINE + 1, 20)
    series = {
        LAPLACE: [(at / FINE, compute_laplace_density(laplace, at / FINE)) for at in units],
        STEPWISE: [(at / FINE, float(noise.probability(at) * FINE)) for at in units],
    }
    sentence = "The density of Laplace's noise, and the steps made of it with as much mass between whole numbers."
    return [charts.draw_lines("Figure 4.1", sentence, "noise", "density", series)]


def _compare_figure_4_2(_: Data) -> Iterator[Row]:
    noise = build_least_variance(1)
    yield compare_equal("stair.minvar.d.eps1", "the core of least variance, epsilon 1", ".416737", float(noise.core))
    yield compare_equal("stair.minvar.V.eps1", "the least variance, epsilon 1", "1.9181", noise.variance())
    yield compare_derived("stair.M0.eps1", "its density at 0", 0.5006437567181753, noise.density_at_zero, 1e-7)
    cell = "the core of least variance, epsilon 0.1"
    yield compare_derived(
        "stair.minvar.d.eps0.1", cell, 0.49166687608780923, float(build_least_variance(0.1).core), 4e-6
    )
    for core in (0.1, 0.9):
        obtained = build_stepwise(core).variance()
        yield build_not_reproducible(
            f"001.figure-4.2.{core}", f"variance, core {core}", None, obtained, "drawing", "a point of the curve"
        )


def _draw_figure_4_2(rows: Sequence[Row]) -> list[Chart]:
    series = {"stepwise noise": _measure_over_cores(lambda noise: noise.variance())}
    best = {"least, as printed": [(_get_printed(rows, 0), _get_printed(rows, 1))]}
    sentence = "The variance of the stepwise noise over where its core ends, epsilon 1, and the least as it is printed."
    return [charts.draw_lines("Figure 4.2", sentence, "core", "variance", series, best)]


def _compare_figure_4_3(_: Data) -> Iterator[Row]:
    yield compare_equal(
        "stair.ci95.d.eps1", "the core of the shortest interval, epsilon 1", ".993", float(build_least_interval(1).core)
    )
    cell = "the core of the shortest interval, epsilon 0.1"
    yield compare_derived("stair.ci95.d.eps0.1", cell, 0.9552450000000001, float(build_least_interval(0.1).core), 2e-4)
    for core in (0.1, 0.5):
        obtained = build_stepwise(core).confidence_length(0.95)
        yield build_not_reproducible(
            f"001.figure-4.3.{core}", f"length, core {core}", None, obtained, "drawing", "a point of the curve"
        )


def _draw_figure_4_3(rows: Sequence[Row]) -> list[Chart]:
    series = {"stepwise noise": _measure_over_cores(lambda noise: noise.confidence_length(0.95))}
    best = {"least, as printed, cut off": [(_get_printed(rows, 0), 5.98)]}
    sentence = "The length of the interval that holds 95 % of the stepwise noise, over where its core ends, epsilon 1."
    return [charts.draw_lines("Figure 4.3", sentence, "core", "length", series, best)]


def _measure_over_cores(measure: Callable[[Staircase], float]) -> list[tuple[float, float]]:
    units = [*range(0, FINE - 40, 20), *range(FINE - 40, FINE, 3)]
    ends = [Fraction(2 * at + 1, 2 * FINE) for at in units]
    return [(float(end), measure(build_stepwise(end))) for end in ends]


def _get_printed(rows: Sequence[Row], at: int) -> float:
    return float(str(rows[at].published))


def _build_covered_rows(name: str, widths: tuple[int, int]) -> Callable[[Data], Iterator[Row]]:
    """Figures 4.4 and 4.5: what Laplace noise on two answers covers beside what one record can do to them."""

    def compare_rows(_: Data) -> Iterator[Row]:
        reach = sum(widths)
        noise = Laplace(1, reach)
        id = f"001.figure-{name}"
        yield compare_equal(f"{id}.corner", "the loss at a corner of the box", 1, _compute_loss(noise, widths))
        yield compare_equal(
            f"{id}.overprotected", "the loss beyond the box, as far out", 1, _compute_loss(noise, (reach, 0))
        )
        ratio = 2 * reach**2 / (4 * widths[0] * widths[1])
        why = "nothing is printed but the two outlines"
        yield build_not_reproducible(
            f"{id}.covered", "size of what is covered over size of the box", None, ratio, "drawing", why
        )

    return compare_rows


def _compute_loss(noise: Laplace, shift: tuple[float, float]) -> float:
    """ln of how much less likely two draws are at the shift than at 0."""
    return -math.log(
        math.prod(compute_laplace_density(noise, each) / compute_laplace_density(noise, 0) for each in shift)
    )


def _build_covered_drawer(name: str, widths: tuple[int, int]) -> Callable[[Sequence[Row]], list[Chart]]:
    def draw_pictures(_: Sequence[Row]) -> list[Chart]:
        reach = sum(widths)
        series = {
            "what one record can do": _outline_box(*widths),
            "what Laplace noise covers": _outline_diamond(reach),
        }
        sentence = (
            f"The box of {widths[0]} by {widths[1]} that one record can move two answers in, inside what is covered."
        )
        return [charts.draw_places(f"Figure {name}", sentence, "first answer", "second answer", {}, series)]

    return draw_pictures


def _outline_box(wide: float, high: float) -> list[tuple[float, float]]:
    return [(-wide, -high), (wide, -high), (wide, high), (-wide, high), (-wide, -high)]


def _outline_diamond(reach: float) -> list[tuple[float, float]]:
    return [(-reach, 0), (0, -reach), (reach, 0), (0, reach), (-reach, 0)]


def _compare_figure_4_6(_: Data) -> Iterator[Row]:
    noise, laplace = build_example_5(), Laplace(1, 11)
    why = "heights of the two surfaces at 0"
    obtained = [compute_laplace_density(laplace, 0) ** 2, noise.density_at_zero]
    yield build_not_reproducible(
        "001.figure-4.6.height", "density at 0, Laplace and stepwise", None, obtained, "drawing", why
    )
    ends = [float(each) for each in noise.core]
    yield compare_equal("001.figure-4.6.core", "where the highest step ends", [0.1, 1], ends, 1e-4, "on a grid")


def _draw_figure_4_6(_: Sequence[Row]) -> list[Chart]:
    core = [float(each) for each in build_example_5().core]
    series = {
        f"{LAPLACE}, 1/e of the height": _outline_diamond(11),
        f"{LAPLACE}, 1/e squared": _outline_diamond(22),
        f"{STEPWISE}, 1/e of the height": _outline_box(core[0] + 1, core[1] + 10),
        f"{STEPWISE}, 1/e squared": _outline_box(core[0] + 2, core[1] + 20),
    }
    sentence = "Where both densities have fallen by e and by e squared: Laplace's alike in both answers, the steps not."
    return [charts.draw_places("Figure 4.6", sentence, "first answer", "second answer", {}, series)]


def _compare_figure_4_7(_: Data) -> Iterator[Row]:
    noise, laplace = build_example_5(), Laplace(1, 11)
    for at, name in enumerate(("first", "second")):
        obtained = [compute_laplace_density(laplace, 0), _compute_component_density(at, 0)]
        why = "heights of the two curves at 0"
        id = f"001.figure-4.7.{name}"
        yield build_not_reproducible(
            id, f"density of the {name} component at 0, Laplace and stepwise", None, obtained, "drawing", why
        )
    inside = [1 - noise.tail_units(at, int(width / step)) for at, (width, step) in enumerate(_list_ends(11))]
    cell = "probability within 11, first and second component"
    yield build_not_reproducible(
        "001.figure-4.7.within", cell, None, inside, "drawing", "Laplace noise has 0.632 there"
    )


def _list_ends(width: float) -> list[tuple[float, float]]:
    return [(width, float(step)) for step in build_example_5().steps]


def _compute_component_density(at: int, place: float) -> float:
    """The density of one component, from its tails half a unit of the curve to either side."""
    noise = build_example_5()
    step = float(noise.steps[at])
    reach = 100 if place else 0
    units = round(abs(place) / step)
    mass = noise.tail_units(at, units - reach - 1) - noise.tail_units(at, units + reach)
    return mass / ((2 * reach + 1) * step * (2 if place else 1))


def _draw_figure_4_7(_: Sequence[Row]) -> list[Chart]:
    pictures = []
    for at, (name, end, split) in enumerate((("first", 12, Laplace(0.5, 1)), ("second", 40, Laplace(0.5, 10)))):
        across = [end * part / 60 for part in range(-60, 61)]
        series = {
            LAPLACE: [(x, compute_laplace_density(Laplace(1, 11), x)) for x in across],
            STEPWISE: [(x, _compute_component_density(at, x)) for x in across],
            SPLIT: [(x, compute_laplace_density(split, x)) for x in across],
        }
        sentence = (
            f"The density of the {name} component's noise; with epsilon split, Laplace noise fits each component."
        )
        pictures.append(charts.draw_lines(f"Figure 4.7, {name} component", sentence, "noise", "density", series))
    return pictures


FIGURES: tuple[Table, ...] = (
    Table("001-figure-4.1", "Figure 4.1", "Steps made of Laplace's density.", _compare_figure_4_1, _draw_figure_4_1),
    Table(
        "001-figure-4.2", "Figure 4.2", "The variance over the core, epsilon 1.", _compare_figure_4_2, _draw_figure_4_2
    ),
    Table(
        "001-figure-4.3",
        "Figure 4.3",
        "The interval of 95 % over the core, epsilon 1.",
        _compare_figure_4_3,
        _draw_figure_4_3,
    ),
    *(
        Table(
            f"001-figure-{name}",
            f"Figure {name}",
            f"What Laplace noise covers where one record moves two answers by {widths[0]} and {widths[1]}.",
            _build_covered_rows(name, widths),
            _build_covered_drawer(name, widths),
        )
        for name, widths in (("4.4", (1, 1)), ("4.5", (1, 10)))
    ),
    Table("001-figure-4.6", "Figure 4.6", "The two densities of Example 5.", _compare_figure_4_6, _draw_figure_4_6),
    Table("001-figure-4.7", "Figure 4.7", "The two components of Example 5.", _compare_figure_4_7, _draw_figure_4_7),
)
