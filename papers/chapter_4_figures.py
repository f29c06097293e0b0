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
from papers.noises import FINE, example_5, finest, laplace_density, shortest, stepwise
from papers.rows import Row, beyond, derived, equal
from papers.tables import Data, Table

LAPLACE, STEPWISE, SPLIT = "Laplace", "stepwise", "Laplace, epsilon split"


def _figure_4_1(_: Data) -> Iterator[Row]:
    for epsilon, right in ((0.1, 0.4916680552249556), (1, 0.41802329313067355)):
        cell = f"the part of every interval with the greater density, epsilon {epsilon}"
        yield derived(f"stair.m.eps{epsilon}", cell, right, compute_laplace_core(epsilon, 1))
    kept = _masses(stepwise(compute_laplace_core(1, 1)), range(0, 5 * FINE, FINE))
    masses = [(1 - math.exp(-1)) * math.exp(-at) for at in range(4)]
    note = "as much as Laplace's noise has there"
    yield derived("001.figure-4.1.mass", "the mass between i and i + 1, both sides", masses, kept, 2e-3, note)


def _masses(noise: Staircase, ends: Sequence[int]) -> list[float]:
    """The probability of an absolute value between one end and the next, in units; a point at an end counts half."""
    beyond_them = [(noise.tail_units(end - 1) + noise.tail_units(end)) / 2 if end else 1.0 for end in ends]
    return [inner - outer for inner, outer in pairwise(beyond_them)]


def _picture_4_1(_: Sequence[Row]) -> list[Chart]:
    laplace, noise = Laplace(1), stepwise(compute_laplace_core(1, 1))
    units = range(-4 * FINE, 4 * FINE + 1, 20)
    drawn = {
        LAPLACE: [(at / FINE, laplace_density(laplace, at / FINE)) for at in units],
        STEPWISE: [(at / FINE, float(noise.probability(at) * FINE)) for at in units],
    }
    told = "The density of Laplace's noise, and the steps made of it with as much mass between whole numbers."
    return [charts.lines("Figure 4.1", told, "noise", "density", drawn)]


def _figure_4_2(_: Data) -> Iterator[Row]:
    noise = finest(1)
    yield equal("stair.minvar.d.eps1", "the core of least variance, epsilon 1", ".416737", float(noise.core))
    yield equal("stair.minvar.V.eps1", "the least variance, epsilon 1", "1.9181", noise.variance())
    yield derived("stair.M0.eps1", "its density at 0", 0.5006437567181753, noise.density_at_zero, 1e-7)
    cell = "the core of least variance, epsilon 0.1"
    yield derived("stair.minvar.d.eps0.1", cell, 0.49166687608780923, float(finest(0.1).core), 4e-6)
    for core in (0.1, 0.9):
        found = stepwise(core).variance()
        yield beyond(f"001.figure-4.2.{core}", f"variance, core {core}", None, found, "drawing", "a point of the curve")


def _picture_4_2(rows: Sequence[Row]) -> list[Chart]:
    drawn = {"stepwise noise": _over_cores(lambda noise: noise.variance())}
    best = {"least, as printed": [(_printed(rows, 0), _printed(rows, 1))]}
    told = "The variance of the stepwise noise over where its core ends, epsilon 1, and the least as it is printed."
    return [charts.lines("Figure 4.2", told, "core", "variance", drawn, best)]


def _figure_4_3(_: Data) -> Iterator[Row]:
    yield equal("stair.ci95.d.eps1", "the core of the shortest interval, epsilon 1", ".993", float(shortest(1).core))
    cell = "the core of the shortest interval, epsilon 0.1"
    yield derived("stair.ci95.d.eps0.1", cell, 0.9552450000000001, float(shortest(0.1).core), 2e-4)
    for core in (0.1, 0.5):
        found = stepwise(core).confidence_length(0.95)
        yield beyond(f"001.figure-4.3.{core}", f"length, core {core}", None, found, "drawing", "a point of the curve")


def _picture_4_3(rows: Sequence[Row]) -> list[Chart]:
    drawn = {"stepwise noise": _over_cores(lambda noise: noise.confidence_length(0.95))}
    best = {"least, as printed, cut off": [(_printed(rows, 0), 5.98)]}
    told = "The length of the interval that holds 95 % of the stepwise noise, over where its core ends, epsilon 1."
    return [charts.lines("Figure 4.3", told, "core", "length", drawn, best)]


def _over_cores(measured: Callable[[Staircase], float]) -> list[tuple[float, float]]:
    units = [*range(0, FINE - 40, 20), *range(FINE - 40, FINE, 3)]
    ends = [Fraction(2 * at + 1, 2 * FINE) for at in units]
    return [(float(end), measured(stepwise(end))) for end in ends]


def _printed(rows: Sequence[Row], at: int) -> float:
    return float(str(rows[at].published))


def _covered(name: str, widths: tuple[int, int]) -> Callable[[Data], Iterator[Row]]:
    """Figures 4.4 and 4.5: what Laplace noise on two answers covers beside what one record can do to them."""

    def rows(_: Data) -> Iterator[Row]:
        reach = sum(widths)
        noise = Laplace(1, reach)
        id = f"001.figure-{name}"
        yield equal(f"{id}.corner", "the loss at a corner of the box", 1, _loss(noise, widths))
        yield equal(f"{id}.overprotected", "the loss beyond the box, as far out", 1, _loss(noise, (reach, 0)))
        covered = 2 * reach**2 / (4 * widths[0] * widths[1])
        why = "nothing is printed but the two outlines"
        yield beyond(f"{id}.covered", "size of what is covered over size of the box", None, covered, "drawing", why)

    return rows


def _loss(noise: Laplace, shift: tuple[float, float]) -> float:
    """ln of how much less likely two draws are at the shift than at 0."""
    return -math.log(math.prod(laplace_density(noise, each) / laplace_density(noise, 0) for each in shift))


def _picture_of_covered(name: str, widths: tuple[int, int]) -> Callable[[Sequence[Row]], list[Chart]]:
    def pictures(_: Sequence[Row]) -> list[Chart]:
        reach = sum(widths)
        drawn = {
            "what one record can do": _box(*widths),
            "what Laplace noise covers": _diamond(reach),
        }
        told = f"The box of {widths[0]} by {widths[1]} that one record can move two answers in, inside what is covered."
        return [charts.places(f"Figure {name}", told, "first answer", "second answer", {}, drawn)]

    return pictures


def _box(wide: float, high: float) -> list[tuple[float, float]]:
    return [(-wide, -high), (wide, -high), (wide, high), (-wide, high), (-wide, -high)]


def _diamond(reach: float) -> list[tuple[float, float]]:
    return [(-reach, 0), (0, -reach), (reach, 0), (0, reach), (-reach, 0)]


def _figure_4_6(_: Data) -> Iterator[Row]:
    noise, laplace = example_5(), Laplace(1, 11)
    why = "heights of the two surfaces at 0"
    found = [laplace_density(laplace, 0) ** 2, noise.density_at_zero]
    yield beyond("001.figure-4.6.height", "density at 0, Laplace and stepwise", None, found, "drawing", why)
    ends = [float(each) for each in noise.core]
    yield equal("001.figure-4.6.core", "where the highest step ends", [0.1, 1], ends, 1e-4, "on a grid")


def _picture_4_6(_: Sequence[Row]) -> list[Chart]:
    core = [float(each) for each in example_5().core]
    drawn = {
        f"{LAPLACE}, 1/e of the height": _diamond(11),
        f"{LAPLACE}, 1/e squared": _diamond(22),
        f"{STEPWISE}, 1/e of the height": _box(core[0] + 1, core[1] + 10),
        f"{STEPWISE}, 1/e squared": _box(core[0] + 2, core[1] + 20),
    }
    told = "Where both densities have fallen by e and by e squared: Laplace's alike in both answers, the steps not."
    return [charts.places("Figure 4.6", told, "first answer", "second answer", {}, drawn)]


def _figure_4_7(_: Data) -> Iterator[Row]:
    noise, laplace = example_5(), Laplace(1, 11)
    for at, name in enumerate(("first", "second")):
        found = [laplace_density(laplace, 0), _component(at, 0)]
        why = "heights of the two curves at 0"
        id = f"001.figure-4.7.{name}"
        yield beyond(id, f"density of the {name} component at 0, Laplace and stepwise", None, found, "drawing", why)
    inside = [1 - noise.tail_units(at, int(width / step)) for at, (width, step) in enumerate(_ends(11))]
    cell = "probability within 11, first and second component"
    yield beyond("001.figure-4.7.within", cell, None, inside, "drawing", "Laplace noise has 0.632 there")


def _ends(width: float) -> list[tuple[float, float]]:
    return [(width, float(step)) for step in example_5().steps]


def _component(at: int, place: float) -> float:
    """The density of one component, from its tails half a unit of the curve to either side."""
    noise = example_5()
    step = float(noise.steps[at])
    reach = 100 if place else 0
    units = round(abs(place) / step)
    mass = noise.tail_units(at, units - reach - 1) - noise.tail_units(at, units + reach)
    return mass / ((2 * reach + 1) * step * (2 if place else 1))


def _picture_4_7(_: Sequence[Row]) -> list[Chart]:
    pictures = []
    for at, (name, end, split) in enumerate((("first", 12, Laplace(0.5, 1)), ("second", 40, Laplace(0.5, 10)))):
        across = [end * part / 60 for part in range(-60, 61)]
        drawn = {
            LAPLACE: [(x, laplace_density(Laplace(1, 11), x)) for x in across],
            STEPWISE: [(x, _component(at, x)) for x in across],
            SPLIT: [(x, laplace_density(split, x)) for x in across],
        }
        told = f"The density of the {name} component's noise; with epsilon split, Laplace noise fits each component."
        pictures.append(charts.lines(f"Figure 4.7, {name} component", told, "noise", "density", drawn))
    return pictures


FIGURES: tuple[Table, ...] = (
    Table("001-figure-4.1", "Figure 4.1", "Steps made of Laplace's density.", _figure_4_1, _picture_4_1),
    Table("001-figure-4.2", "Figure 4.2", "The variance over the core, epsilon 1.", _figure_4_2, _picture_4_2),
    Table("001-figure-4.3", "Figure 4.3", "The interval of 95 % over the core, epsilon 1.", _figure_4_3, _picture_4_3),
    *(
        Table(
            f"001-figure-{name}",
            f"Figure {name}",
            f"What Laplace noise covers where one record moves two answers by {widths[0]} and {widths[1]}.",
            _covered(name, widths),
            _picture_of_covered(name, widths),
        )
        for name, widths in (("4.4", (1, 1)), ("4.5", (1, 10)))
    ),
    Table("001-figure-4.6", "Figure 4.6", "The two densities of Example 5.", _figure_4_6, _picture_4_6),
    Table("001-figure-4.7", "Figure 4.7", "The two components of Example 5.", _figure_4_7, _picture_4_7),
)
