"""One yardstick for every release: how far the originals of a class lie apart, which the class does not tell."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.anonymity.task import QUASI, ROW

Rows = list[dict[str, str]]


@dataclass(frozen=True)
class Loss:
    """Of a release beside its original: rows left out, classes, and what was lost."""

    suppressed: int
    classes: int
    spread: float
    """Of a row's quasi-identifiers on average: the width of its class over that of the column; 1 for a row left out."""
    ages: float
    """Squared distance of ages from the mean of their class, over that from the mean of all."""
    discernibility: float
    """Rows alike, for the average row; a row left out is like all."""


def read_rows(file: Path) -> Rows:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def measure_loss(original: Rows, release: Rows) -> Loss:
    """Rows are found by their numbers; ages count by their range, names by how many there are."""
    by_row = {each[ROW]: each for each in original}
    classes: dict[tuple[str, ...], Rows] = {}
    for each in release:
        classes.setdefault(tuple(each[name] for name in QUASI), []).append(by_row[each[ROW]])
    missing, rows = len(original) - len(release), len(original)
    total_widths = {name: _measure_width(original, name) for name in QUASI}
    spread = sum(
        len(members) * _measure_width(members, name) / total_widths[name]
        for members in classes.values()
        for name in QUASI
    ) / len(QUASI)
    alike = sum(len(each) ** 2 for each in classes.values()) + missing * rows
    kept_rows = [by_row[each[ROW]] for each in release]
    age_share = sum(_sum_age_squares(each) for each in classes.values()) / (_sum_age_squares(kept_rows) or 1)
    return Loss(missing, len(classes), (spread + missing) / rows, age_share, alike / rows)


def _measure_width(rows: Rows, name: str) -> float:
    if name == "age":
        ages = [int(each[name]) for each in rows]
        return max(ages) - min(ages)
    return len(Counter(each[name] for each in rows)) - 1


def _sum_age_squares(rows: Sequence[dict[str, str]]) -> float:
    ages = [int(each["age"]) for each in rows]
    mean = sum(ages) / len(ages)
    return sum((age - mean) ** 2 for age in ages)
