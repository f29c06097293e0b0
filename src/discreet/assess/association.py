"""How far the associations of categories, with numbers and with one another, are from those of the original."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np

from discreet.assess.beside import Beside
from discreet.assess.utility import STILL, standard
from discreet.microdata.table import Attribute, Floats, Places, Table

CATEGORIES = 20
"""The categories that count by themselves: the most frequent in both files. All others are one together."""


def association_change(both: Beside) -> float:
    """The mean change over the pairs of columns of which one at least is not numeric; 0 of no pair.

    With numbers it is the change of the correlation ratio, otherwise that of Cramer's V, both from 0 to 1; "missing" is
    one more category.
    """
    codes = [_frequent(before, after) for _, before, after in both.pairs() if before.kind != "numeric"]
    if not codes:
        return 0.0
    numbers = (_numbers(table, both.numeric) for table in (both.before, both.after))
    before, after = (_associations(*file) for file in zip(zip(*codes, strict=True), numbers, strict=True))
    return float(np.mean(np.abs(after - before))) if len(before) else 0.0


def _frequent(before: Attribute, after: Attribute) -> tuple[Places, Places]:
    """The categories of each file, numbered from the most frequent on."""
    codes = np.unique(np.concatenate([before.values, after.values]), return_inverse=True)[1]
    places = np.argsort(np.argsort(-np.bincount(codes), kind="stable"))
    found = np.minimum(places, CATEGORIES)[codes]
    return found[: len(before.values)], found[len(before.values) :]


def _numbers(table: Table, names: tuple[str, ...]) -> list[tuple[Floats, Floats]]:
    """Each number's gap from the mean, 0 where it is missing, and whether it is there."""
    return [(standard(table[name].values), (~table[name].missing).astype(np.float64)) for name in names]


def _associations(codes: tuple[Places, ...], numbers: list[tuple[Floats, Floats]]) -> Floats:
    ratios = [correlation_ratio(of, *number) for of, number in product(codes, numbers)]
    return np.array([*ratios, *(cramers_v(*pair) for pair in combinations(codes, 2))])


def correlation_ratio(codes: Places, gaps: Floats, there: Floats) -> float:
    """The root of the share of the variance that lies between the categories; 0 where the numbers do not vary."""
    whole = float(np.sum(gaps * gaps))
    if whole <= STILL * len(gaps):
        return 0.0
    between = float(np.sum(np.bincount(codes, gaps) ** 2 / np.maximum(np.bincount(codes, there), 1)))
    return math.sqrt(min(1.0, between / whole))


def cramers_v(ones: Places, twos: Places) -> float:
    """The root of chi-squared over the most that it can be; 0 where one of the two does not vary."""
    wide = int(twos.max()) + 1
    table = np.bincount(ones * wide + twos, minlength=(int(ones.max()) + 1) * wide).reshape(-1, wide)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    if min(table.shape) == 1:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / len(ones)
    chi = float(np.sum((table - expected) ** 2 / expected))
    return math.sqrt(min(1.0, chi / (len(ones) * (min(table.shape) - 1))))
