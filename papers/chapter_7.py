"""Chapter 7 of the thesis: t-closeness by buckets of the confidential attribute."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from discreet.mechanisms.entropy import KeyedEntropy
from discreet.sdc.methods.anatomy import anatomy
from discreet.sdc.methods.bucket_feasibility import (
    compute_cut_sizes,
    compute_distribution_distance,
    groups_apart,
)
from discreet.sdc.methods.generalize import generalize
from discreet.sdc.methods.t_closeness import t_close
from papers import chapter_7_figures, t_close_laplace
from papers.chapter_7_figures import compute_theoretical_masses
from papers.medical_data import HIERARCHIES, MEDICAL, QUASI
from papers.rows import Row, compare_corrected, compare_derived, compare_equal
from papers.tables import Data, Table

GROUP_OF = (2, 1, 1, 3, 2, 3, 1, 2, 3, 3, 1, 2)
"""Table 7.5: the group of each of twelve records."""
BUCKET_COUNTS = ((2, 1, 1), (1, 2, 1), (1, 1, 2))
"""How many of each bucket are in P1, P2 and P3."""
BUCKETS = (4, 4, 4)


def _build_entropy(purpose: str) -> KeyedEntropy:
    """The same draws every time."""
    return KeyedEntropy(b"chapter 7", purpose)


def _compare_table_7_2(_: Data) -> Iterator[Row]:
    rows = list(zip(*(MEDICAL[name] for name in QUASI), strict=True))
    yield compare_equal(
        "001.7.2.records", "records, and how many of them are alone in their class", [9, 9], _count_alone(rows)
    )


def _count_alone(rows: list[tuple[str, ...]]) -> list[int]:
    return [len(rows), sum(rows.count(row) == 1 for row in rows)]


def _compare_table_7_3(_: Data) -> Iterator[Row]:
    released = generalize(MEDICAL, 3, QUASI, HIERARCHIES, loss="discernibility", confidential="problem")
    printed = {**MEDICAL, "birth": ["[61,64]"] * 9, "sex": ["-"] * 9}
    for name, column in printed.items():
        yield compare_equal(f"001.7.3.{name}", f"column {name}", list(column), released[name].tolist())


def _compare_table_7_4(_: Data) -> Iterator[Row]:
    released = anatomy(MEDICAL, 3, QUASI, "problem", partition="quasi", entropy=_build_entropy("anatomy"))
    for name in QUASI:
        yield compare_equal(f"001.7.4.{name}", f"left, column {name}", list(MEDICAL[name]), released[name].tolist())
    groups = np.asarray(released["group"])
    sizes = np.unique(groups, return_counts=True)[1].tolist()
    yield compare_equal("001.7.4.sizes", "how many records share a group", [3, 3, 3], sizes)
    assert released.second is not None
    second = released.second.to_arrays()
    pairs = sorted(
        (int(group), str(problem))
        for group, problem, count in zip(second["group"], second["problem"], second["count"], strict=True)
        for _ in range(int(count))
    )
    right = sorted((int(group), problem) for group, problem in zip(groups, MEDICAL["problem"], strict=True))
    is_same = [list(each) for each in pairs] == [list(each) for each in right]
    note = "groups are numbered at random and made by distance; the thesis does not tell how its own were"
    yield compare_equal(
        "001.7.4.problems", "right: every group with the problems of its members", True, is_same, note=note
    )


def _compare_table_7_5(_: Data) -> Iterator[Row]:
    table = {"qi": np.arange(1, 13), "c": np.arange(1, 13)}
    released = t_close(table, 1.5, 4, "qi", "c", buckets=3, form="anatomy", entropy=_build_entropy("t-close"))
    assert released.second is not None
    second = released.second.to_arrays()
    bucket_counts = sorted(second["count"].reshape(3, 3).tolist(), reverse=True)
    note = "which record is in which group is drawn"
    yield compare_equal(
        "001.7.5.held",
        "how many of each bucket a group has",
        [list(each) for each in BUCKET_COUNTS],
        bucket_counts,
        note=note,
    )
    sizes = np.unique(released["group"], return_counts=True)[1].tolist()
    yield compare_equal("001.7.5.sizes", "how many records a group has", [4, 4, 4], sizes)
    printed = groups_apart(np.array(GROUP_OF) - 1, np.repeat(np.arange(3), 4))
    note = "attained, so that close means at most t (erratum 4)"
    yield compare_equal(
        "001.7.5.close", "how close the printed partition is", 1.5, float(printed.worst.ratio), note=note
    )
    yield compare_corrected(
        "001.7.5.empty",
        "sizes of 6 buckets of 10 records",
        [2, 2, 2, 2, 2, 0],
        list(compute_cut_sizes(10, 6)),
        [2, 1, 2, 2, 1, 2],
        "4",
        "as many records in every bucket, rounded up, may leave none for the last",
    )
    yield compare_corrected(
        "001.7.5.cuts",
        "sizes of 3 buckets of 12 records",
        [5, 4, 3],
        list(compute_cut_sizes(12, 3)),
        [4, 4, 4],
        "4",
        "the printed ends of buckets round up what is whole already",
    )


def _compare_section_7_3(_: Data) -> Iterator[Row]:
    records = np.arange(1, 13)
    other = np.where(records == 12, 24, records)
    values = [sorted(set(_list_bucket_values(each))) for each in (records, other)]
    loss = math.inf if values[0] != values[1] else math.log(1.5)
    yield compare_corrected(
        "001.section-7.3.implies",
        "the epsilon of a 1.5-close release, by one record's value",
        math.log(1.5),
        loss,
        math.inf,
        "4",
        "the buckets' values follow from the data, so that no output is possible under both tables",
    )


def _list_bucket_values(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[float]:
    """The confidential values that a release shows, which are the same in every run."""
    table = {"qi": np.arange(1, 13), "c": values}
    return [
        float(each) for each in t_close(table, 1.5, 4, "qi", "c", buckets=3, entropy=_build_entropy("buckets"))["c"]
    ]


def _compare_table_7_6(_: Data) -> Iterator[Row]:
    for t in (1, 2, 3):
        whole, *groups = compute_theoretical_masses(t)
        own_mass, other_mass = Fraction(t, t + 1), Fraction(1, t * (t + 1))
        printed = [[float(own_mass if at == place else other_mass) for place in range(t + 1)] for at in range(t + 1)]
        obtained = [[float(mass) for mass in group] for group in groups]
        yield compare_equal(
            f"001.7.6.t{t}.whole", f"t = {t}: the whole", [1 / (t + 1)] * (t + 1), [float(m) for m in whole]
        )
        yield compare_equal(f"001.7.6.t{t}.groups", f"t = {t}: P1 to P{t + 1}", printed, obtained)
    whole, first = compute_theoretical_masses(2.5)[:2]
    note = "for a t that is not whole there are floor(t) + 1 buckets (erratum 4)"
    factor = [len(whole), float(first[0] / whole[0])]
    yield compare_derived(
        "001.7.6.t2.5", "t = 2.5: buckets, and the factor of the one that stands out", [3, 2.2], factor, note=note
    )


def _compare_figure_7_5(_: Data) -> Iterator[Row]:
    obtained = [compute_distribution_distance(held, BUCKETS) for held in BUCKET_COUNTS]
    yield compare_equal(
        "tclose.fig75", "the distance of each group (7.1)", [1.5] * 3, [float(each.ratio) for each in obtained]
    )
    emd, variation = [1 / 8, 1 / 12, 1 / 8], [1 / 6] * 3
    cell = "earth mover's distance, buckets in a row"
    yield compare_derived("tclose.fig75.emd", cell, emd, [float(each.emd) for each in obtained])
    cell = "earth mover's distance, buckets equally far apart"
    yield compare_derived("tclose.fig75.tv", cell, variation, [float(each.variation) for each in obtained])
    groups = np.repeat(np.arange(3), 4), np.concatenate([np.repeat(np.arange(3), held) for held in BUCKET_COUNTS])
    between, note = float(groups_apart(*groups).between), "it may reach t squared (erratum 4)"
    yield compare_derived("tclose.fig75.pairwise", "the greatest ratio between two groups", 2.0, between, note=note)


TABLES: tuple[Table, ...] = (
    Table("001-7.2", "Table 7.2", "Medical data.", _compare_table_7_2),
    Table("001-7.3", "Table 7.3", "The medical data, generalised to 3-anonymity.", _compare_table_7_3),
    Table("001-7.4", "Table 7.4", "The medical data as two tables that share a group.", _compare_table_7_4),
    Table("001-7.5", "Table 7.5", "Twelve records, 4-anonymous and 1.5-close.", _compare_table_7_5),
    Table("001-section-7.3", "Section 7.3", "Whether t-closeness is differential privacy.", _compare_section_7_3),
    Table("001-7.6", "Table 7.6", "The masses of buckets in groups.", _compare_table_7_6),
    *chapter_7_figures.list_figures(_compare_figure_7_5, BUCKET_COUNTS),
    *t_close_laplace.TABLES,
)
