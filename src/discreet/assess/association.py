"""How far the associations of categories, with numbers and with one another, are from those of the original."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np

from discreet.assess.beside import MatchedTables
from discreet.assess.utility import MIN_VARIANCE, standardize
from discreet.microdata.table import Attribute, Floats, Integers, Table

MAX_FREQUENT_CATEGORIES = 20
"""The categories that count by themselves: the most frequent in both files. All others are one together."""


def compute_association_change(tables: MatchedTables) -> float:
    """The mean change over the pairs of columns of which one at least is not numeric; 0 of no pair.

    With numbers it is the change of the correlation ratio, otherwise that of Cramer's V, both from 0 to 1; "missing" is
    one more category.
    """
    codes = [_encode_frequent(before, after) for _, before, after in tables.iterate_pairs() if before.kind != "numeric"]
    if not codes:
        return 0.0
    numbers = (_standardize_columns(table, tables.numeric) for table in (tables.before, tables.after))
    before, after = (_compute_associations(*file) for file in zip(zip(*codes, strict=True), numbers, strict=True))
    return float(np.mean(np.abs(after - before))) if len(before) else 0.0


def _encode_frequent(before: Attribute, after: Attribute) -> tuple[Integers, Integers]:
    """The categories of each file, numbered from the most frequent on."""
    codes = np.unique(np.concatenate([before.values, after.values]), return_inverse=True)[1]
    places = np.argsort(np.argsort(-np.bincount(codes), kind="stable"))
    frequent_codes = np.minimum(places, MAX_FREQUENT_CATEGORIES)[codes]
    return frequent_codes[: len(before.values)], frequent_codes[len(before.values) :]


def _standardize_columns(table: Table, names: tuple[str, ...]) -> list[tuple[Floats, Floats]]:
    """Each number's gap from the mean, 0 where it is missing, and whether it is there."""
    return [(standardize(table[name].values), (~table[name].missing).astype(np.float64)) for name in names]


def _compute_associations(codes: tuple[Integers, ...], numbers: list[tuple[Floats, Floats]]) -> Floats:
    ratios = [compute_correlation_ratio(column_codes, *number) for column_codes, number in product(codes, numbers)]
    return np.array([*ratios, *(compute_cramers_v(*pair) for pair in combinations(codes, 2))])


def compute_correlation_ratio(codes: Integers, gaps: Floats, is_present: Floats) -> float:
    """The root of the share of the variance that lies between the categories; 0 where the numbers do not vary."""
    total = float(np.sum(gaps * gaps))
    if total <= MIN_VARIANCE * len(gaps):
        return 0.0
    between = float(np.sum(np.bincount(codes, gaps) ** 2 / np.maximum(np.bincount(codes, is_present), 1)))
    return math.sqrt(min(1.0, between / total))


def compute_cramers_v(first_codes: Integers, second_codes: Integers) -> float:
    """The root of chi-squared over the most that it can be; 0 where one of the two does not vary."""
    code_count = int(second_codes.max()) + 1
    table = np.bincount(
        first_codes * code_count + second_codes, minlength=(int(first_codes.max()) + 1) * code_count
    ).reshape(-1, code_count)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    if min(table.shape) == 1:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / len(first_codes)
    chi = float(np.sum((table - expected) ** 2 / expected))
    return math.sqrt(min(1.0, chi / (len(first_codes) * (min(table.shape) - 1))))
