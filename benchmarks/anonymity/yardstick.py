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


def read(file: Path) -> Rows:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def loss(original: Rows, release: Rows) -> Loss:
    """Rows are found by their numbers; ages count by their range, names by how many there are."""
    by_row = {each[ROW]: each for each in original}
    classes: dict[tuple[str, ...], Rows] = {}
    for each in release:
        classes.setdefault(tuple(each[name] for name in QUASI), []).append(by_row[each[ROW]])
    gone, rows = len(original) - len(release), len(original)
    whole = {name: _width(original, name) for name in QUASI}
    spread = sum(len(own) * _width(own, name) / whole[name] for own in classes.values() for name in QUASI) / len(QUASI)
    alike = sum(len(each) ** 2 for each in classes.values()) + gone * rows
    kept = [by_row[each[ROW]] for each in release]
    apart = sum(_squares(each) for each in classes.values()) / (_squares(kept) or 1)
    return Loss(gone, len(classes), (spread + gone) / rows, apart, alike / rows)


def _width(rows: Rows, name: str) -> float:
    if name == "age":
        ages = [int(each[name]) for each in rows]
        return max(ages) - min(ages)
    return len(Counter(each[name] for each in rows)) - 1


def _squares(rows: Sequence[dict[str, str]]) -> float:
    ages = [int(each["age"]) for each in rows]
    mean = sum(ages) / len(ages)
    return sum((age - mean) ** 2 for age in ages)
