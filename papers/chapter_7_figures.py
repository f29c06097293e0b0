"""Figures 7.1 to 7.7 of the thesis: generalisations of a small table, buckets, and what groups hold of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from discreet.errors import InvalidInput
from discreet.numeric import as_rational
from discreet.sdc.methods.bucket_feasibility import (
    compute_cut_sizes,
    compute_distribution_distance,
)
from discreet.sdc.methods.generalize import GeneralizationTask, Levels, label_classes
from discreet.sdc.methods.hierarchies import build_hierarchy
from discreet.sdc.report_charts import Chart
from discreet.sdc.table import read_table
from papers import charts
from papers.rows import Row, build_not_reproducible, compare_derived, compare_equal
from papers.tables import Data, Table

SIDES = {"Q1": "ABCD", "Q2": "PQRS"}
RECORDS = tuple(product(*SIDES.values()))
HALVES = "hierarchies by halves: two and two, then all four"
K = 4


def compute_theoretical_masses(t: object) -> tuple[tuple[Fraction, ...], ...]:
    """Table 7.6: the mass of every bucket in the whole, then in a group where the first, the second, ... stands out.

    There are floor(t) + 1 buckets; where t is not whole, the one that stands out has less than t times its mass.
    """
    close = as_rational(t, "t")
    if close < 1:
        raise InvalidInput("t must be at least 1, where every group is as the whole table")
    buckets = int(close) + 1
    even = Fraction(1, buckets)
    peak = 1 - (buckets - 1) * even / close
    groups = (
        tuple(peak if bucket == peak_bucket else even / close for bucket in range(buckets))
        for peak_bucket in range(buckets)
    )
    return (even,) * buckets, *groups


def build_letter_hierarchy(letters: str) -> list[dict[str, str]]:
    """Two and two, then all four."""
    halves = {letter: letters[:2] if letter in letters[:2] else letters[2:] for letter in letters}
    return [halves, dict.fromkeys(halves.values(), letters)]


def _build_task() -> GeneralizationTask:
    columns = {name: np.array([row[at] for row in RECORDS], dtype=object) for at, name in enumerate(SIDES)}
    table = read_table(columns)
    ladders = tuple(build_hierarchy(table[name], build_letter_hierarchy(letters)) for name, letters in SIDES.items())
    return GeneralizationTask(ladders, len(RECORDS), K, 0)


def find_smallest_class(task: GeneralizationTask, levels: Levels) -> int:
    """The size of the smallest class."""
    return int(np.unique(label_classes(task, levels), return_counts=True)[1].min())


def list_minimal(task: GeneralizationTask) -> list[Levels]:
    """The generalisations with classes of at least k, below which there is none."""
    anonymous = [levels for levels in product(range(3), repeat=2) if find_smallest_class(task, levels) >= K]
    return [
        levels_found for levels_found in anonymous if not any(_is_below(other, levels_found) for other in anonymous)
    ]


def _is_below(one: Levels, two: Levels) -> bool:
    return one != two and all(a <= b for a, b in zip(one, two, strict=True))


def _compare_figure_7_1(_: Data) -> Iterator[Row]:
    obtained = [find_smallest_class(_build_task(), (0, 0)), len(set(RECORDS))]
    yield compare_equal("001.figure-7.1", "the smallest class, and how many classes there are", [1, 16], obtained)


def _compare_figure_7_2(_: Data) -> Iterator[Row]:
    task = _build_task()
    obtained = {
        name: [len(set(task.hierarchies[at].generalize_to(level).to_array())) for level in range(3)]
        for at, name in enumerate(SIDES)
    }
    why = HALVES
    yield build_not_reproducible(
        "001.figure-7.2", "how many values there are at each level", None, obtained, "drawing", why
    )


def _compare_figure_7_3(_: Data) -> Iterator[Row]:
    task = _build_task()
    obtained = list_minimal(task)
    sizes = [find_smallest_class(task, levels) for levels in obtained]
    yield compare_equal("001.figure-7.3.anonymous", "the smallest class of each", [K] * 3, sizes, note=HALVES)
    ends = [[0, 2], [2, 0]]
    obtained_ends = [list(levels) for levels in obtained if list(levels) in ends]
    cell = "levels of Q1 and Q2: on the left Q1 is as it was, on the right Q2"
    yield compare_equal("001.figure-7.3.ends", cell, ends, obtained_ends, note=HALVES)


def _compare_figure_7_4(_: Data) -> Iterator[Row]:
    yield compare_equal(
        "001.figure-7.4", "how many points B1, B2 and B3 contain", [4, 4, 4], list(compute_cut_sizes(12, 3))
    )


def _compare_figure_7_6(_: Data) -> Iterator[Row]:
    whole, group = compute_theoretical_masses(2)[:2]
    obtained = [float(mass / even) for mass, even in zip(group, whole, strict=True)]
    yield compare_equal(
        "001.figure-7.6.density", "density where the group stands out, and elsewhere", [2, 0.5, 0.5], obtained
    )
    note = "2 w + (1 - w) / 2 = 1"
    yield compare_derived("001.figure-7.6.width", "how much of the range stands out", 1 / 3, float(whole[0]), note=note)


def _compare_figure_7_7(_: Data) -> Iterator[Row]:
    three, two = compute_distribution_distance((1, 4, 1), (2, 2, 2)), compute_distribution_distance((3, 3), (3, 3))
    yield compare_equal("001.figure-7.7.three", "how close with three buckets", 2, float(three.ratio))
    yield compare_equal("001.figure-7.7.two", "how close with two buckets", 1, float(two.ratio))


def _draw_grid(title: str, sentence: str, groups: dict[str, list[tuple[float, float]]]) -> Chart:
    letters = [(at + 1.0, 0.5, letter) for at, letter in enumerate(SIDES["Q1"])]
    letters += [(0.5, at + 1.0, letter) for at, letter in enumerate(SIDES["Q2"])]
    return charts.draw_places(title, sentence, "Q1", "Q2", groups, labels=letters, is_named=False)


def _locate(row: tuple[str, ...]) -> tuple[float, float]:
    return SIDES["Q1"].index(row[0]) + 1.0, SIDES["Q2"].index(row[1]) + 1.0


def _draw_figure_7_1(_: Sequence[Row]) -> list[Chart]:
    sentence = "Sixteen records, one for each pair of values of Q1 and Q2."
    return [_draw_grid("Figure 7.1", sentence, {"records": [_locate(row) for row in RECORDS]})]


def _draw_figure_7_2(_: Sequence[Row]) -> list[Chart]:
    draw_pictures = []
    for name, letters in SIDES.items():
        leaves = [(at + 1.0, 0.0, letter) for at, letter in enumerate(letters)]
        nodes = [
            *leaves,
            (1.5, 1.0, f"{{{letters[:2]}}}"),
            (3.5, 1.0, f"{{{letters[2:]}}}"),
            (2.5, 2.0, f"{{{letters}}}"),
        ]
        sentence = f"The hierarchy of {name}: two and two, then all four."
        path = [(1, 0), (1.5, 1), (2, 0), (1.5, 1), (2.5, 2), (3.5, 1), (3, 0), (3.5, 1), (4, 0)]
        labels = [(x, y + 0.2 if y else -0.2, word) for x, y, word in nodes]
        draw_pictures.append(
            charts.draw_places(f"Figure 7.2, {name}", sentence, "", "level", {}, {name: path}, labels, is_named=False)
        )
    return draw_pictures


def _draw_figure_7_3(_: Sequence[Row]) -> list[Chart]:
    task = _build_task()
    draw_pictures = []
    for levels in list_minimal(task):
        labels = label_classes(task, levels)
        groups = {
            f"class {label}": [
                _locate(row) for row, record_label in zip(RECORDS, labels, strict=True) if record_label == label
            ]
            for label in np.unique(labels)
        }
        sentence = f"The classes of four records with Q1 generalised {levels[0]} times and Q2 {levels[1]} times."
        draw_pictures.append(_draw_grid(f"Figure 7.3, levels {levels[0]} and {levels[1]}", sentence, groups))
    return draw_pictures


def _list_bucket_points() -> dict[str, list[tuple[float, float]]]:
    sizes = compute_cut_sizes(12, 3)
    return {
        f"B{bucket + 1}": [(float(c), 1.0) for c in range(1 + sum(sizes[:bucket]), 1 + sum(sizes[: bucket + 1]))]
        for bucket in range(3)
    }


def _draw_figure_7_4(_: Sequence[Row]) -> list[Chart]:
    sentence = "Twelve confidential values in three buckets of four."
    return [charts.draw_places("Figure 7.4", sentence, "confidential value", "", _list_bucket_points())]


def _draw_figure_7_5(bucket_counts: Sequence[Sequence[int]]) -> Callable[[Sequence[Row]], list[Chart]]:
    def draw_pictures(_: Sequence[Row]) -> list[Chart]:
        shares = {
            f"P{at + 1}": {f"B{bucket + 1}": count / sum(group) for bucket, count in enumerate(group)}
            for at, group in enumerate(bucket_counts)
        }
        series = {"all": {f"B{bucket}": 1 / 3 for bucket in (1, 2, 3)}, **shares}
        sentence = "The share of each bucket in the whole data and in the three groups, which are 1.5-close."
        return [charts.draw_bars("Figure 7.5", sentence, "bucket", "share", series)]

    return draw_pictures


def _draw_figure_7_6(_: Sequence[Row]) -> list[Chart]:
    series = {
        "all": [(0.0, 1.0), (1.0, 1.0)],
        "group": [(0.0, 0.5), (1 / 3, 2.0), (2 / 3, 0.5), (1.0, 0.5)],
    }
    sentence = "A uniform density, and one that is 2 in a third of the range and a half elsewhere: they are 2-close."
    return [charts.draw_lines("Figure 7.6", sentence, "confidential attribute", "density", series, steps=True)]


def _draw_figure_7_7(_: Sequence[Row]) -> list[Chart]:
    three = {"all": [1 / 3] * 3, "group": [1 / 6, 2 / 3, 1 / 6]}
    two = {"all": [1 / 2] * 2, "group": [1 / 2] * 2}
    draw_pictures = []
    for many, masses in (("three", three), ("two", two)):
        series = {name: {f"B{at + 1}": mass for at, mass in enumerate(each)} for name, each in masses.items()}
        sentence = f"The densities of Figure 7.6 in {many} buckets."
        draw_pictures.append(charts.draw_bars(f"Figure 7.7, {many} buckets", sentence, "bucket", "mass", series))
    return draw_pictures


def list_figures(
    figure_7_5: Callable[[Data], Iterator[Row]], bucket_counts: Sequence[Sequence[int]]
) -> tuple[Table, ...]:
    """All of them; what 7.5 is measured by stands beside the tables."""
    return (
        Table("001-figure-7.1", "Figure 7.1", "A table of two attributes.", _compare_figure_7_1, _draw_figure_7_1),
        Table("001-figure-7.2", "Figure 7.2", "Generalisation hierarchies.", _compare_figure_7_2, _draw_figure_7_2),
        Table(
            "001-figure-7.3",
            "Figure 7.3",
            "Minimal 4-anonymous generalisations.",
            _compare_figure_7_3,
            _draw_figure_7_3,
        ),
        Table("001-figure-7.4", "Figure 7.4", "Confidential values in buckets.", _compare_figure_7_4, _draw_figure_7_4),
        Table("001-figure-7.5", "Figure 7.5", "A 1.5-close partition.", figure_7_5, _draw_figure_7_5(bucket_counts)),
        Table("001-figure-7.6", "Figure 7.6", "Two densities that are 2-close.", _compare_figure_7_6, _draw_figure_7_6),
        Table(
            "001-figure-7.7",
            "Figure 7.7",
            "The same in three buckets and in two.",
            _compare_figure_7_7,
            _draw_figure_7_7,
        ),
    )
