"""Sums and differences of two numbers of an answer, and which columns and pairs of columns are looked at.

One draw used for two counts hides both and cancels in their difference. An answer of w numbers has w (w - 1) such
sums and differences: where these are many, a part of the shape draws says which of them differ most.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations as pairs_of
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.audit.draws import Columns, Draws, Keys, ordered_keys
from discreet.audit.features import Feature, Number, Numbers, column, value
from discreet.audit.lattices import LARGEST_AT_FIRST, compare_residues, lattice_features

MOST_COLUMNS = 12
"""So many columns are looked at one by one."""
MOST_COMBINED = 8
"""So many sums and differences are looked at with all draws."""
MOST_CORRELATED = 16
SCREENED = 8192
"""Draws of each data set that say which columns, sums and differences are looked at."""
TAIL = 0.001


def telling_columns(one: Draws, two: Draws) -> list[int]:
    """The places of the columns to look at one by one: all, or where these are many those that differ most."""
    if one.columns is None:
        return []
    width = one.columns.shape[1]
    if width <= MOST_COLUMNS:
        return list(range(width))
    apart = [_differ(column(one, at), one, two) for at in range(width)]
    return sorted(sorted(range(width), key=lambda at: -apart[at])[:MOST_COLUMNS])


def derived_features(columns: list[int], one: Draws, two: Draws) -> list[Feature]:
    """Remainders of the columns; sums and differences of two of them, their total, and the remainders of these."""
    if one.columns is None:
        return []
    found = [each for at in columns for each in lattice_features(column(one, at), one, two)]
    for number in combined(one, two, columns):
        found += [value(number), *lattice_features(number, one, two)]
    return found


def combined(one: Draws, two: Draws, columns: list[int]) -> list[Number]:
    """The sums and differences of two columns that differ most between the data sets, and the total of all columns."""
    width = cast("Columns", one.columns).shape[1]
    pairs = dict.fromkeys([*pairs_of(columns, 2), *(_correlated(one, two) if width > MOST_COLUMNS else ())])
    numbers = [number for first, second in pairs for number in _sum_and_difference(one, first, second)]
    if width > 2:
        numbers.append(_total(one))
    if len(numbers) > MOST_COMBINED:
        apart = [_differ(number, one, two) for number in numbers]
        places = sorted(range(len(numbers)), key=lambda at: -apart[at])[:MOST_COMBINED]
        numbers = [numbers[at] for at in sorted(places)]
    return numbers


def _sum_and_difference(draws: Draws, first: int, second: int) -> Iterator[Number]:
    a, b = column(draws, first), column(draws, second)
    of = "of the answer"
    names = [draws.titles[at].removesuffix(of).rstrip() for at in (first, second)]
    for word, combine in (("minus", operator.sub), ("plus", operator.add)):
        yield Number(f"{names[0]} {word} {names[1]} {of}", partial(_combine, combine, a, b), a.floating)


def _combine(how: Callable[[Any, Any], Any], a: Number, b: Number, rows: Draws) -> Columns:
    """That of two infinite numbers may be NaN, which is an answer like others."""
    with np.errstate(invalid="ignore", over="ignore"):
        return cast("Columns", how(a.of(rows), b.of(rows)))


def _total(draws: Draws) -> Number:
    floating = cast("Columns", draws.columns).dtype.kind == "f"
    return Number("the sum of all numbers of the answer", _sum_of_all, floating)


def _sum_of_all(rows: Draws) -> Columns:
    with np.errstate(invalid="ignore", over="ignore"):
        return cast("Columns", cast("Columns", rows.columns).sum(axis=1))


def _differ(number: Number, one: Draws, two: Draws) -> float:
    """By how many standard deviations a bin or a residue differs between the data sets, in a part of the draws."""
    parts = [draws.part(0, max(len(draws) // SCREENED, 1)) for draws in (one, two)]
    first, second = (number.of(part) for part in parts)
    in_bins = _widest_gap(*(np.sort(ordered_keys(each)) for each in (first, second)))
    if number.floating:
        return in_bins
    return max([in_bins, *compare_residues(first, second, LARGEST_AT_FIRST).values()])


def _widest_gap(one: Keys, two: Keys) -> float:
    """The largest difference between counts: of half-lines, and of values that occur in either."""
    both = np.concatenate([one, two])
    below = [np.searchsorted(own, both, side="left") for own in (one, two)]
    upto = [np.searchsorted(own, both, side="right") for own in (one, two)]
    equal = [high - low for low, high in zip(below, upto, strict=True)]
    return max(_gap(*below), _gap(*equal), _gap(*(len(own) - low for own, low in zip((one, two), below, strict=True))))


def _gap(one: Keys, two: Keys) -> float:
    apart: NDArray[np.float64] = np.abs(one - two) / np.sqrt(one + two + 1)
    return float(apart.max())


def _correlated(one: Draws, two: Draws) -> list[tuple[int, int]]:
    """The pairs of columns with the highest correlation: a draw that is used twice has one of 1."""
    parts = [own.part(0, max(len(own) // SCREENED, 1)).columns for own in (one, two)]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rows = [_without_tails(cast("Columns", part)) for part in parts]
        together = np.abs(np.nan_to_num(sum(np.corrcoef(each.T) for each in rows)))
    upper = np.triu(together, k=1)
    order = np.argsort(-upper, axis=None, kind="stable")[:MOST_CORRELATED]
    return [(int(first), int(second)) for first, second in zip(*np.unravel_index(order, upper.shape), strict=True)]


def _without_tails(rows: Columns) -> Numbers:
    low, high = np.quantile(rows, [TAIL, 1 - TAIL], axis=0, method="nearest")
    return np.clip(rows, low, high).astype(np.float64)
