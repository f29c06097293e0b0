"""How varied a confidential column is inside classes of rows: l-diversity and t-closeness, exactly.

Counts are whole numbers and what is made of them by division is a Fraction, so that a claim is compared with its figure
exactly; only the entropy is a float. Nothing costs more than a sort of the rows, however many classes and values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.table import Integers, Kind

Ratio = Fraction | float
"""A Fraction, or `math.inf`; no other float."""


def format_ratio(figure: Ratio | None) -> str | None:
    """A figure as exact text."""
    return None if figure is None else "infinite" if figure == math.inf else str(figure)


@dataclass(frozen=True, slots=True)
class ClassDiversity:
    """How varied one confidential column, or several as one, is inside the classes: always of the worst class."""

    distinct: int
    """l: the least number of distinct values."""
    entropy: float
    """Entropy l-diversity: e to the least entropy; as many equally frequent values hide as much."""
    recursive: Ratio
    """Recursive (c, l)-diversity, r_1 < c (r_l + ... + r_m), holds for every c above this, l being as asked for.

    r_i is how often the i-th most frequent value of a class occurs; infinite where a class has fewer than l values.
    """
    t_ratio: Ratio
    """t under Definition 15 between a class and the table, over distinct values; infinite where a class lacks one."""
    t_emd: Fraction
    """t under the earth mover's distance: ordered, steps of 1/(m - 1) between the m distinct values of a numeric or
    ordinal column; the total variation for a nominal one."""
    between: Ratio
    """Definition 15 between two classes."""

    def to_json(self) -> dict[str, object]:
        """Machine-readable; Fractions as exact text."""
        return {
            "l": self.distinct,
            "l_entropy": self.entropy,
            "recursive_c": format_ratio(self.recursive),
            "t_ratio": format_ratio(self.t_ratio),
            "t_emd": format_ratio(self.t_emd),
            "t_ratio_between_classes": format_ratio(self.between),
        }


@dataclass(frozen=True, slots=True, eq=False)
class _ClassCells:
    """The cells of the table classes x values that are not empty, class by class and value by value in each."""

    owner: Integers
    value: Integers
    count: Integers
    starts: Integers
    """Where each class starts."""
    sizes: Integers
    totals: Integers
    """How many rows have each value."""

    @property
    def class_sizes(self) -> Integers:
        """The size of each cell's class."""
        return self.sizes[self.owner]

    @property
    def lengths(self) -> Integers:
        """How many cells each class has."""
        return np.diff(self.starts, append=len(self.count))


def measure_diversity(classes: Integers, places: Integers, m: int, kind: Kind, recursive_l: int = 2) -> ClassDiversity:
    """The variety of values, given as places among m distinct ones, inside classes 0 to c - 1."""
    keys, count = np.unique(classes * m + places, return_counts=True)
    owner, value = keys // m, keys % m
    starts, sizes = np.flatnonzero(np.diff(owner, prepend=-1)), np.bincount(classes)
    cells = _ClassCells(owner, value, count, starts, sizes, np.bincount(places))
    has_all_values = bool(np.all(cells.lengths == m))
    information = np.log(sizes) - np.add.reduceat(count * np.log(count), starts) / sizes
    return ClassDiversity(
        int(cells.lengths.min()),
        math.exp(max(0.0, float(information.min()))),
        _compute_recursive(cells, recursive_l),
        _compute_ratio(cells) if has_all_values else math.inf,
        _compute_variation(cells) if kind == "nominal" else _compute_ordered_distance(cells),
        _compute_ratio_between(cells) if has_all_values else math.inf,
    )


def find_greatest_fraction(tops: NDArray[Any], bottoms: NDArray[Any]) -> Fraction:
    """The greatest of many fractions, exactly: floats find those near it."""
    near = (tops / bottoms).astype(np.float64)
    close = near >= near.max() * (1 - 1e-9)
    return max(Fraction(*pair) for pair in set(zip(tops[close].tolist(), bottoms[close].tolist(), strict=True)))


def _compute_recursive(cells: _ClassCells, l: int) -> Ratio:  # noqa: E741  the measure's name is l
    """The greatest quotient r_1 / (r_l + ... + r_m) of a class."""
    if np.any(cells.lengths < l):
        return math.inf
    falling = cells.count[np.lexsort((-cells.count, cells.owner))]
    rank = np.arange(len(falling)) - np.repeat(cells.starts, cells.lengths)
    return find_greatest_fraction(
        falling[cells.starts], np.add.reduceat(np.where(rank >= l - 1, falling, 0), cells.starts)
    )


def _compute_ratio(cells: _ClassCells) -> Fraction:
    """Definition 15 by Proposition 10: the greatest quotient of a value's shares in a class and in the table."""
    class_terms, table_terms = cells.count * cells.sizes.sum(), cells.class_sizes * cells.totals[cells.value]
    return max(find_greatest_fraction(class_terms, table_terms), find_greatest_fraction(table_terms, class_terms))


def _compute_ratio_between(cells: _ClassCells) -> Fraction:
    """The greatest quotient of a value's shares in two classes, each of which has all values."""
    grid = cells.count.reshape(len(cells.sizes), len(cells.totals))
    shares = grid / cells.sizes[:, None]
    quotient = shares.max(axis=0) / shares.min(axis=0)
    close = np.flatnonzero(quotient >= quotient.max() * (1 - 1e-9))
    return max(
        find_greatest_fraction(grid[:, v], cells.sizes) * find_greatest_fraction(cells.sizes, grid[:, v]) for v in close
    )


def _compute_variation(cells: _ClassCells) -> Fraction:
    """Half the sum of the differences of the shares: the sum of those above the table's."""
    rows = int(cells.sizes.sum())
    excess = np.maximum(cells.count * rows - cells.class_sizes * cells.totals[cells.value], 0)
    return find_greatest_fraction(np.add.reduceat(excess, cells.starts), cells.sizes) / rows


def _compute_ordered_distance(cells: _ClassCells) -> Fraction:
    """The sum over values of the differences of the distribution functions, over m - 1.

    A class's function is level between its values, where the table's crosses it at most once: with sums of the table's
    function beforehand, every cell costs one search, however many values there are.
    """
    rows, m = int(cells.sizes.sum()), len(cells.totals)
    if m == 1:
        return Fraction(0)
    kind = np.int64 if rows * rows * m < 2**62 else object
    below = np.cumsum(cells.totals)
    summed = np.concatenate([[0], np.cumsum(below.astype(kind))])
    running = np.cumsum(cells.count)
    level = running - np.repeat(running[cells.starts] - cells.count[cells.starts], cells.lengths)
    after = np.append(cells.value[1:], m)
    after[np.append(cells.starts[1:], len(after)) - 1] = m
    cross = np.clip(np.searchsorted(below, rows * level // cells.class_sizes, side="right"), cells.value, after)
    height, size = (rows * level).astype(kind), cells.class_sizes.astype(kind)
    below_crossing = height * (cross - cells.value) - size * (summed[cross] - summed[cells.value])
    above_crossing = size * (summed[after] - summed[cross]) - height * (after - cross)
    first = cells.sizes.astype(kind) * summed[cells.value[cells.starts]]
    return find_greatest_fraction(
        np.add.reduceat(below_crossing + above_crossing, cells.starts) + first, cells.sizes
    ) / (rows * (m - 1))
