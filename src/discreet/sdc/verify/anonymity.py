"""Measure k, l and t on a table, and look for a counterexample to insensitivity (thesis, Definition 12).

Counts are whole numbers and their quotients are Fractions, so that a claim is compared with its figure exactly; only
the entropy is a float. Nothing costs more than a sort of the rows, however many classes and values. A class is a set of
rows that an intruder cannot tell apart: those with equal quasi-identifiers, or those of one group.

Insensitive microaggregation moves every cluster by at most one record where one record changes. Clusters are compared
as collections of records, wherever these stand in the table and whatever labels the method gave.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import ClaimFailed, InvalidInput
from discreet.numeric import as_int
from discreet.sdc.table import Integers, Kind, Table, read_table
from discreet.sdc.verify.evidence import (
    COUNT,
    GROUP,
    check_column_names,
    encode_labels,
    encode_together,
    encode_values,
    expand_counts,
    find_classes,
)
from discreet.untrusted import copy_list, require_callable

Ratio = Fraction | float
"""A Fraction, or `math.inf`; no other float."""


def format_ratio(figure: Ratio | None) -> str | None:
    """A figure as exact text."""
    return None if figure is None else "infinite" if figure == math.inf else str(figure)


@dataclass(frozen=True, slots=True)
class ClassDiversity:
    """The diversity of one confidential column, or several as one, inside the classes: always of the worst class."""

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
    """The diversity of values, given as places among m distinct ones, inside classes 0 to c - 1."""
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


def find_greatest_fraction(tops: Integers | NDArray[np.object_], bottoms: Integers) -> Fraction:
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
    tails = np.add.reduceat(np.where(rank >= l - 1, falling, 0), cells.starts)
    return find_greatest_fraction(falling[cells.starts], tails)


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
    distances = np.add.reduceat(below_crossing + above_crossing, cells.starts) + first
    return find_greatest_fraction(distances, cells.sizes) / (rows * (m - 1))


@dataclass(frozen=True, slots=True)
class Anonymity:
    """The measures of a table; l and t are those of the worst confidential column, None where there is none."""

    rows: int
    classes: int
    k: int
    """The size of the smallest class."""
    median: float
    greatest: int
    alone: int
    """How many rows are a class of their own."""
    columns: Mapping[str, ClassDiversity]
    together: ClassDiversity | None = None
    """All confidential columns as one nominal value, where they are several: the joint t_ratio is never the smaller."""
    recursive_l: int = 2

    @property
    def l(self) -> int | None:  # noqa: E743  the measure's name is l
        """Distinct l-diversity."""
        return min((diversity.distinct for diversity in self.columns.values()), default=None)

    @property
    def l_entropy(self) -> float | None:
        """Entropy l-diversity."""
        return min((diversity.entropy for diversity in self.columns.values()), default=None)

    @property
    def recursive(self) -> Ratio | None:
        """Recursive (c, l)-diversity, with l = `recursive_l`, holds for every c above this."""
        return max((diversity.recursive for diversity in self.columns.values()), default=None)

    @property
    def t_ratio(self) -> Ratio | None:
        """t under the ratio distance of Definition 15."""
        return max((diversity.t_ratio for diversity in self.columns.values()), default=None)

    @property
    def t_emd(self) -> Fraction | None:
        """t under the earth mover's distance."""
        return max((diversity.t_emd for diversity in self.columns.values()), default=None)

    @property
    def linkage(self) -> Fraction:
        """The share of rows that one who always finds a person's class picks right inside it: the mean of 1/size."""
        return Fraction(self.classes, self.rows)

    def to_json(self) -> dict[str, object]:
        """Machine-readable; Fractions as exact text."""
        sizes = {"least": self.k, "median": self.median, "greatest": self.greatest, "alone": self.alone}
        summary: dict[str, object] = {"rows": self.rows, "classes": self.classes, "k": self.k, "class_sizes": sizes}
        if self.columns:
            summary |= {"l": self.l, "l_entropy": self.l_entropy}
            summary |= {"recursive_c": format_ratio(self.recursive), "recursive_l": self.recursive_l}
            summary |= {"t_ratio": format_ratio(self.t_ratio), "t_emd": format_ratio(self.t_emd)}
        summary["columns"] = {name: diversity.to_json() for name, diversity in self.columns.items()}
        return summary | ({"together": self.together.to_json()} if self.together else {})


def measure_anonymity(
    table: object, quasi: Sequence[str], confidential: Sequence[str] = (), *, recursive_l: int = 2
) -> Anonymity:
    """Measure k-anonymity, l-diversity and t-closeness of any table, however it was made.

    Classes are rows with equal quasi-identifiers.

    Args:
        table: The table.
        quasi: The quasi-identifiers.
        confidential: The confidential columns.
        recursive_l: The l of recursive (c, l)-diversity.

    Returns:
        The measures of the worst class.

    Raises:
        InvalidInput: A column does not exist, or an argument is not valid.

    Example:
        >>> from discreet import measure_anonymity
        >>> table = {"age": [30, 30, 41, 41], "income": [1, 2, 3, 3]}
        >>> measured = measure_anonymity(table, quasi=["age"], confidential=["income"])
        >>> measured.k, measured.l  # both rows of age 41 have the same income
        (2, 1)
    """
    original = read_table(table)
    classes = find_classes(original, check_column_names(quasi, "quasi-identifiers"))
    return _measure_classes(classes, original, confidential, recursive_l)


def measure_groups(groups: object, table: object, confidential: Sequence[str] = ()) -> Anonymity:
    """Measure k, l and t with classes given as labels, one for each row: for groups that the table does not show."""
    original = read_table(table)
    return _measure_classes(encode_labels(groups, original.rows), original, confidential, recursive_l=2)


def measure_anatomy(
    first: object, second: object, confidential: Sequence[str] = (), *, recursive_l: int = 2
) -> Anonymity:
    """Measure k, l and t of Anatomy's two tables: a `group` for each row, and each `group`'s values with `count`.

    Without `confidential` all columns of the second table are.
    """
    rows, values = read_table(first)[GROUP], expand_counts(read_table(second))
    first_places, second_places, _ = encode_together(rows, values[GROUP])
    if rows.missing.any() or not np.array_equal(np.sort(first_places), np.sort(second_places)):
        raise ClaimFailed("the two tables do not tell the same number of rows for each group; neither can be relied on")
    confidential_names = confidential or list(values.drop((GROUP, COUNT)))
    return _measure_classes(encode_labels(second_places, values.rows), values, confidential_names, recursive_l)


def _measure_classes(classes: Integers, table: Table, confidential: Sequence[str], recursive_l: int) -> Anonymity:
    l = as_int(recursive_l, "recursive_l", 2)  # noqa: E741  the measure's name is l
    if not table.rows:
        raise InvalidInput("the table has no rows, so there is nothing to measure; give one that has")
    names = check_column_names(confidential, "confidential columns") if confidential else ()
    sizes = np.bincount(classes)
    columns = {name: measure_diversity(classes, *encode_values(table[name]), table[name].kind, l) for name in names}
    joint = find_classes(table, names) if len(names) > 1 else None
    return Anonymity(
        rows=table.rows,
        classes=len(sizes),
        k=int(sizes.min()),
        median=float(np.median(sizes)),
        greatest=int(sizes.max()),
        alone=int(np.count_nonzero(sizes == 1)),
        columns=columns,
        together=None if joint is None else measure_diversity(classes, joint, int(joint.max()) + 1, "nominal", l),
        recursive_l=l,
    )


Record = Hashable
Cluster = Counter[Record]
Method = Callable[[Sequence[Record], int], Iterable[int]]
"""The label of every record's cluster, from the records and k."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A record of a table, by its place, and another in its stead, for which no bijection of clusters will do."""

    row: int
    record: Record
    clusters: tuple[Cluster, ...]
    others: tuple[Cluster, ...]


def collect_clusters(records: Sequence[Record], labels: Iterable[int]) -> tuple[Cluster, ...]:
    """The records of each cluster, by label."""
    members: defaultdict[int, Cluster] = defaultdict(Counter)
    for record, label in zip(records, labels, strict=True):
        members[int(label)][record] += 1
    return tuple(members[label] for label in sorted(members))


def find_bijection(ones: Sequence[Cluster], others: Sequence[Cluster]) -> dict[int, int] | None:
    """Which cluster corresponds to which, by place, so that no pair differs in more than a record; None if none can."""
    if len(ones) != len(others):
        return None
    if not ones:
        return {}
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    close = [
        (index, other_index)
        for index, candidates in enumerate(_find_meeting_clusters(ones, others))
        for other_index in candidates
        if count_differing_records(ones[index], others[other_index]) <= 1
    ]
    rows, columns = (np.array([pair[side] for pair in close], dtype=np.int64) for side in (0, 1))
    graph = csr_array((np.ones(len(close)), (rows, columns)), shape=(len(ones), len(others)))
    matched = maximum_bipartite_matching(graph, perm_type="column").tolist()
    return None if -1 in matched else dict(enumerate(matched))


def count_differing_records(first: Cluster, second: Cluster) -> int:
    """How many records must be replaced, taken away or added to make the one cluster the other."""
    return max((first - second).total(), (second - first).total())


def counterexample(
    method: Method, records: Sequence[Record], k: int, replacements: Iterable[Record]
) -> Counterexample | None:
    """Search for a replaced record after which the clusters of a method do not correspond one to one.

    Args:
        method: `method(records, k)` returns the label of each record's cluster.
        records: The table.
        k: The minimum size of a cluster.
        replacements: The records that may replace one of the table.

    Returns:
        The first record and the first replacement that break the correspondence; None if none does.

    Raises:
        InvalidInput: There is no record or no replacement, or the method cannot be called.

    Example:
        >>> from discreet import microaggregate
        >>> from discreet.sdc import counterexample
        >>> def blocks(records, k):  # blocks of ranks from the low end: one record moves each cluster by at most one
        ...     return microaggregate(records, k, method="blocks")
        >>> print(counterexample(blocks, [(1,), (2,), (3,), (10,), (11,), (12,)], 3, [(0,), (20,)]))
        None
    """
    all_replacements, table = copy_list(replacements, "the replacements"), copy_list(records, "the records")
    require_callable(method, "the method")
    if not table or not all_replacements:
        raise InvalidInput("a search needs at least one record and one that may replace it")
    before = collect_clusters(table, method(table, k))
    for row, original_record in enumerate(table):
        for record in (replacement for replacement in all_replacements if replacement != original_record):
            changed = [*table[:row], record, *table[row + 1 :]]
            after = collect_clusters(changed, method(changed, k))
            if find_bijection(before, after) is None:
                return Counterexample(row, record, before, after)
    return None


def _find_meeting_clusters(ones: Sequence[Cluster], others: Sequence[Cluster]) -> list[set[int]]:
    """For every cluster those it may correspond to: they share a record, or both have at most one."""
    clusters_of_record: defaultdict[Record, set[int]] = defaultdict(set)
    for place, other_cluster in enumerate(others):
        for record in other_cluster:
            clusters_of_record[record].add(place)
    small = {place for place, other_cluster in enumerate(others) if other_cluster.total() <= 1}
    return [
        set().union(*(clusters_of_record[record] for record in cluster), small if cluster.total() <= 1 else set())
        for cluster in ones
    ]
