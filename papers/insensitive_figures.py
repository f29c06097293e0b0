"""Figures 6.1 to 6.3 of the thesis: what one record does to clusters, and what clusters look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from discreet.sdc.methods.microaggregate import microaggregate
from discreet.sdc.report_charts import Chart
from discreet.sdc.table import Integers
from discreet.sdc.verify.anonymity import collect_clusters, count_differing_records, find_bijection
from papers import charts
from papers.rows import Row, build_not_reproducible, compare_equal
from papers.tables import Data, Table

Point = tuple[int, int]
OURS = "on points of ours; those of the drawing are not printed"
K = 5
SHARED: tuple[Point, ...] = (
    *((0, 1), (0, 5), (1, 5), (2, 4), (2, 9), (5, 2), (7, 0)),
    *((7, 3), (7, 5), (7, 8), (8, 0), (8, 2), (8, 4), (9, 6)),
)
TOYS: Mapping[str, tuple[Point, ...]] = {"X": (*SHARED, (9, 9)), "X'": (*SHARED, (0, 0))}
"""Fifteen records; the one at the top right is at the bottom left in the other table."""
SQUARE: tuple[Point, ...] = tuple(product(range(20), range(20)))
"""Records everywhere in the domain, for clusters of 40."""


def group_by_mdav(points: Sequence[Point]) -> Integers:
    """The clusters of MDAV."""
    return microaggregate(np.array(points, dtype=np.float64), K)


def group_by_order(points: Sequence[Point]) -> Integers:
    """The clusters of insensitive MDAV: by distance from the lower left corner, from both ends in turn."""
    return microaggregate(np.hypot(*np.array(points, dtype=np.float64).T), K, "ranking")


def _compare_figure_6_1(_: Data) -> Iterator[Row]:
    one, two = (collect_clusters(points, group_by_mdav(points)) for points in TOYS.values())
    differences = [min(count_differing_records(cluster, other) for other in two) for cluster in one]
    cell = "clusters of MDAV that differ in more than one record from any of the other table"
    yield compare_equal("001.figure-6.1.clusters", cell, 2, sum(each > 1 for each in differences), note=OURS)
    cell = "pairs of clusters that differ in one record at most can be found"
    yield compare_equal("001.figure-6.1.insensitive", cell, False, find_bijection(one, two) is not None, note=OURS)


def _compare_figure_6_2(_: Data) -> Iterator[Row]:
    one, two = (collect_clusters(points, group_by_order(points)) for points in TOYS.values())
    bijection = find_bijection(one, two) or {}
    differences = [count_differing_records(one[here], two[there]) for here, there in bijection.items()]
    yield compare_equal(
        "001.figure-6.2.clusters", "records in which C1, C2 and C3 differ", [1, 1, 1], differences, note=OURS
    )


def _compare_figure_6_3(_: Data) -> Iterator[Row]:
    for name, labels in _list_forms().items():
        spread = [float(np.var(np.array(SQUARE)[labels == label], axis=0).sum()) for label in np.unique(labels)]
        cell, why = f"{name}: mean variance inside clusters of 40 on a square of 20 by 20", "the form of clusters"
        id = f"001.figure-6.3.{name.split()[0]}"
        yield build_not_reproducible(id, cell, None, float(np.mean(spread)), "drawing", why)


def _list_forms() -> dict[str, Integers]:
    points = np.array(SQUARE, dtype=np.float64)
    return {
        "one reference point": microaggregate(np.hypot(*points.T), 40, "blocks"),
        "four reference points": microaggregate(points, 40, "insensitive", "domain"),
    }


def _draw_clusters(title: str, sentence: str, points: Sequence[Point], labels: Integers, is_named: bool) -> Chart:
    spots = {
        f"cluster {label + 1}": [
            point for point, point_label in zip(points, labels.tolist(), strict=True) if point_label == label
        ]
        for label in range(int(labels.max()) + 1)
    }
    centres = {f"cluster {label + 1}": np.mean(spots[f"cluster {label + 1}"], axis=0) for label in range(len(spots))}
    crosses = [(float(x), float(y), "+") for x, y in centres.values()] if is_named else []
    return charts.draw_places(
        title, sentence, "first attribute", "second attribute", spots, labels=crosses, is_named=is_named
    )


def _draw_figure_6_1(_: Sequence[Row]) -> list[Chart]:
    sentence = (
        "Clusters of MDAV with their centroids, k = 5, where one record moves from the top right to the bottom left."
    )
    return [
        _draw_clusters(f"Figure 6.1, {name}", sentence, points, group_by_mdav(points), True)
        for name, points in TOYS.items()
    ]


def _draw_figure_6_2(_: Sequence[Row]) -> list[Chart]:
    sentence = (
        "Clusters by distance from the lower left corner, k = 5, of the same two tables: each changes by one record."
    )
    return [
        _draw_clusters(f"Figure 6.2, {name}", sentence, points, group_by_order(points), True)
        for name, points in TOYS.items()
    ]


def _draw_figure_6_3(_: Sequence[Row]) -> list[Chart]:
    sentence = "Clusters of 40 on a square of 20 by 20."
    return [
        _draw_clusters(f"Figure 6.3, {name}", sentence, SQUARE, labels, False) for name, labels in _list_forms().items()
    ]


TABLES: tuple[Table, ...] = (
    Table(
        "001-figure-6.1",
        "Figure 6.1",
        "What one record does to MDAV's clusters.",
        _compare_figure_6_1,
        _draw_figure_6_1,
    ),
    Table(
        "001-figure-6.2",
        "Figure 6.2",
        "What one record does to insensitive clusters.",
        _compare_figure_6_2,
        _draw_figure_6_2,
    ),
    Table("001-figure-6.3", "Figure 6.3", "The form of insensitive clusters.", _compare_figure_6_3, _draw_figure_6_3),
)
