"""Disclosure risk: what an intruder finds and learns, also from several releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cache

import numpy as np

from discreet.errors import InvalidInput
from discreet.sdc.linkage import (
    find_distinct_records,
    find_distinct_rows,
    find_distinct_table_rows,
    find_nearest_ties,
    measure_class_linkage,
    measure_distance_linkage,
)
from discreet.sdc.methods.record_distance import RecordSpace, Scale, build_weighted_spaces
from discreet.sdc.table import Attribute, Floats, Integers, Table
from discreet.sdc.utility import MatchedTables, compute_deviation, fill_missing_last, match_attributes

PAIRS_PER_BATCH = 1_000_000
"""How many pairs of a person and a block of rows are compared at once."""

MIN_HOLDERS = 5
"""Values that fewer people hold are judged together."""

MAX_JUDGED_VALUES = 20
"""Numbers with more different values are not judged value by value."""

FALSE_ALARM_CHANCE = 0.01
"""The chance of calling a value found that luck alone brought back, over all values of a column."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidateRows:
    """The released rows that may be a person's: a kind of person has the blocks of rows from `starts` on."""

    person: Integers
    """The kind of person that each original row is of."""
    block: Integers
    """The block that each released row is in."""
    starts: Integers
    blocks: Integers


def match_by_distance(before: RecordSpace, after: RecordSpace, weights: Floats) -> CandidateRows:
    """The released rows nearest to a person's own values, all ties among them."""

    people, rows = find_distinct_records(before), find_distinct_records(after)
    ties = find_nearest_ties(before.take(people.first), after.take(rows.first), weights)
    return CandidateRows(people.kind, rows.kind, ties.starts, ties.targets)


def match_by_label(people: Integers, rows: Integers) -> CandidateRows:
    """The rows with a person's own label; labels are 0, 1, ..."""
    count = int(rows.max()) + 1
    return CandidateRows(people, rows, np.arange(count + 1), np.arange(count))


def match_everyone(people: int, rows: int) -> CandidateRows:
    """Every row may be anyone's."""
    return match_by_label(np.zeros(people, dtype=np.int64), np.zeros(rows, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class DisclosureRisk:
    """For each person: the chances that one who picks a candidate, or any row, comes near the person's value."""

    truth: Attribute
    hits: Floats
    chances: Floats
    candidate_counts: Integers
    is_permuted: bool
    """Whether values changed their rows, so that luck brings some of them back."""

    @property
    def share(self) -> float:
        """Mean over people."""
        return float(np.mean(self.hits))

    @property
    def by_chance(self) -> float:
        """Mean over people."""
        return float(np.mean(self.chances))

    def compute_excess(self) -> float:
        """How much is learnt of what chance leaves open, from 0 to 1: about everybody, or those who hold one value.

        It is (hit - chance) / (1 - chance) of means over people, the greatest; what luck may have brought is not
        counted.
        """
        classes = _group_by_value(self.truth)

        def sum_classes(values: Floats) -> Floats:  # over each class, and over all as the last
            return np.append(np.bincount(classes, values), values.sum())

        people = sum_classes(np.ones(len(classes)))
        hits, chances = sum_classes(self.hits), sum_classes(self.chances)
        is_open = people - chances > 1e-9 * people
        excesses = np.divide(hits - chances, people - chances, out=np.zeros_like(people), where=is_open)
        if self.is_permuted:
            grain = sum_classes(1 / self.candidate_counts) / people
            luck = _compute_binomial_tail(hits / grain, people / grain, chances / people)
            excesses[luck > FALSE_ALARM_CHANCE / len(people)] = 0.0
        return float(max(0.0, excesses.max()))


def _group_by_value(truth: Attribute) -> Integers:
    """The people by the value they hold; those with values of few, or with any number of many, together."""
    holders = find_distinct_rows([truth.values])
    if truth.kind == "numeric" and len(holders.counts) > MAX_JUDGED_VALUES:
        return np.zeros(len(holders.kind), dtype=np.int64)
    places = np.where(holders.counts < MIN_HOLDERS, -1, np.arange(len(holders.counts)))
    return np.unique(places[holders.kind], return_inverse=True)[1]


def _compute_binomial_tail(hits: Floats, trials: Floats, chance: Floats) -> Floats:
    """The chance that luck alone hits so often: a binomial tail with one trial for each row that is picked."""
    from scipy.special import betainc

    return np.asarray(betainc(np.maximum(hits, 1e-9), np.maximum(trials - hits, 0) + 1, np.minimum(chance, 1)))


def measure_disclosure(
    truth: Attribute, released: Attribute, candidates: CandidateRows, tolerance: float, is_permuted: bool
) -> DisclosureRisk:
    """How often one who knows the candidates comes near each person's value.

    Near is within `tolerance` standard deviations for numbers, equal for all else; missing is one more value.
    """
    near = _NearRanks(truth, released, tolerance)
    keys = np.sort(candidates.block * near.span + near.rank)
    sizes = np.bincount(candidates.block)[candidates.blocks]
    hit_shares, candidate_counts = np.zeros(len(candidates.person)), np.zeros(len(candidates.person), dtype=np.int64)
    for rows in _split_portions(np.diff(candidates.starts)[candidates.person]):
        kind = candidates.person[rows]
        block_counts = candidates.starts[kind + 1] - candidates.starts[kind]
        first = np.cumsum(block_counts) - block_counts
        pair = np.repeat(candidates.starts[kind] - first, block_counts) + np.arange(block_counts.sum())
        base = candidates.blocks[pair] * near.span
        low, high = np.repeat(near.low[rows], block_counts), np.repeat(near.high[rows], block_counts)
        hits = np.searchsorted(keys, base + high) - np.searchsorted(keys, base + low)
        candidate_counts[rows] = np.add.reduceat(sizes[pair], first)
        hit_shares[rows] = np.add.reduceat(hits, first) / candidate_counts[rows]
    return DisclosureRisk(truth, hit_shares, near.compute_shares(), candidate_counts, is_permuted)


class _NearRanks:
    """Released values by rank, and for each true value the ranks, `low` to before `high`, that are near it."""

    def __init__(self, truth: Attribute, released: Attribute, tolerance: float) -> None:
        points, self.rank = np.unique(fill_missing_last(released), return_inverse=True)
        true = fill_missing_last(truth)
        margin = tolerance * compute_deviation(truth.values) if truth.kind == "numeric" else 0.0
        self.low = np.searchsorted(points, true - margin, "left")
        self.high = np.searchsorted(points, true + margin, "right")
        self.span = len(points) + 1

    def compute_shares(self) -> Floats:
        """The share of all released values that are near each true one."""
        cumulative_counts = np.concatenate([[0], np.cumsum(np.bincount(self.rank))])
        return np.asarray((cumulative_counts[self.high] - cumulative_counts[self.low]) / len(self.rank))


def _split_portions(pair_counts: Integers) -> Iterator[slice]:
    """Runs of rows with about PAIRS_PER_BATCH pairs in each."""
    ends = np.cumsum(pair_counts)
    start = 0
    while start < len(pair_counts):
        pairs_before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, pairs_before + PAIRS_PER_BATCH, "right")))
        yield slice(start, stop)
        start = stop


def compute_unique_share(table: Table, names: Sequence[str]) -> float:
    """The share of rows that no other row is like in these columns; 0 of no columns."""
    if not names:
        return 0.0
    rows = find_distinct_table_rows(table.select(names))
    return float(np.sum(rows.counts == 1)) / len(rows.kind)


def measure_group_knowledge(values: Integers, groups: Integers) -> tuple[tuple[int, float], ...]:
    """For some j: the chance that one who knows the values of j others of a person's group has for the person's.

    The group's m values are known, not whose they are (thesis 3.3.2, 7.3.2). The j others being any of the m - 1, of
    the c - 1 that share the person's value (c - 1)(m - 1 - j)/(m - 1) are left on average, and the person's own; they
    are among the m - j values that are left, each as likely to be the person's. So the chance is
    (1 + (c - 1)(m - 1 - j)/(m - 1)) / (m - j): c/m for j = 0, and 1 for j = m - 1. Its mean is taken over all rows, at
    j = 0, 1, half, all but two and all but one of the smallest group. Values and groups are numbered from 0.
    """
    size = np.bincount(groups)[groups].astype(np.float64)
    pairs = find_distinct_rows([groups, values])
    shared_counts = pairs.counts[pairs.kind] - 1
    min_size = int(size.min())
    known_counts = sorted({j for j in (0, 1, min_size // 2, min_size - 2, min_size - 1) if 0 <= j < min_size})
    others = np.maximum(size - 1, 1)
    return tuple((j, float(np.mean((1 + shared_counts * (size - 1 - j) / others) / (size - j)))) for j in known_counts)


RECORDS = "records"
"""The name of groups that hold for all columns."""

Groups = Mapping[str, Integers]
"""Labels of the rows, for all columns or for one."""


def read_group_labels(groups: object, rows: int) -> Groups:
    """Groups given as labels for all columns, or as labels by column; whole numbers, one for each row."""
    if groups is None:
        return {}
    groups_by_name = groups if isinstance(groups, Mapping) else {RECORDS: groups}
    labels_by_name = {str(name): np.asarray(labels) for name, labels in groups_by_name.items()}
    if not all(labels.shape == (rows,) and labels.dtype.kind in "iu" for labels in labels_by_name.values()):
        raise InvalidInput(f"groups are whole numbers, one label for each of the {rows} rows that are compared")
    return {name: np.unique(labels, return_inverse=True)[1] for name, labels in labels_by_name.items()}


def measure_intersection(current: Groups, earlier: Groups, k: int) -> tuple[int, float]:
    """The least number of rows that a row still hides among, and the share of rows that hide among fewer than k.

    A person's value is in the group of the one release and in that of the other, so among the rows of both. Groups of
    one column are laid over those of the same column, or of all columns.
    """
    shared_counts = [
        _count_shared_rows(labels, earlier_labels)
        for name, labels in current.items()
        for earlier_name, earlier_labels in earlier.items()
        if name == earlier_name or RECORDS in {name, earlier_name}
    ]
    if not shared_counts:
        raise InvalidInput("an earlier release must have groups of a column that this one has groups of, or of all")
    fewest = np.minimum.reduce(shared_counts)
    return int(fewest.min()), float(np.mean(fewest < k))


def _count_shared_rows(first: Integers, second: Integers) -> Integers:
    """For each row how many rows share both its labels."""
    pairs = first * (int(second.max()) + 1) + second
    _, pair_of_row, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    return np.asarray(counts[pair_of_row])


def measure_intersections(
    current: Groups, earlier: object, rows: int, k: int | None
) -> tuple[tuple[str, int, float], ...]:
    """One line for each earlier release, given by name: its name, the least left, the share under k.

    Without a k it is the size of the smallest group now.
    """
    releases = list(earlier.items()) if isinstance(earlier, Mapping) else earlier
    if not isinstance(releases, Sequence) or not all(
        isinstance(release, tuple) and len(release) == 2 for release in releases
    ):
        raise InvalidInput("earlier releases are given by name with their groups, such as {'2024': groups}")
    if not releases:
        return ()
    if not current:
        raise InvalidInput("to lay earlier releases over this one, give the groups of this one: groups=...")
    floor = k if k is not None else min(int(np.bincount(labels).min()) for labels in current.values())
    return tuple(
        (str(name), *measure_intersection(current, read_group_labels(groups, rows), floor)) for name, groups in releases
    )


Names = tuple[str, ...]
KnowledgeCurve = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Intruder:
    """An intruder, who has the release, the quasi-identifiers, and groups that are released or can be found out.

    Where a quasi-identifier was generalised, so that its values are not those of the original, the intruder knows which
    rows with the same released quasi-identifiers a person is among; where the rows are not side by side nobody can tell
    which these are, and only the other quasi-identifiers count.
    """

    tables: MatchedTables
    quasi: Names
    groups: Groups
    aligned: bool
    scale: Scale
    tolerance: float
    second: Table | None = None
    """Anatomy's other table: the values of each group, with how many of it have them."""

    def measure_linkage(self) -> float | None:
        """The share of records, in percent, that are led back to; None where nobody can tell which is right."""
        names = self._select_released(self.quasi)
        if not self.aligned:
            return None
        if not names:
            return 100 / self.tables.before.rows
        if self._is_generalized(names):
            return measure_class_linkage(find_distinct_table_rows(self.tables.after.select(names)))
        return measure_distance_linkage(*self._build_spaces(names))

    def measure_unique_shares(self) -> tuple[float, float]:
        """The share of rows whose quasi-identifiers nobody else has, before and after."""
        before = compute_unique_share(self.tables.before, self.quasi)
        return before, compute_unique_share(self.tables.after, self._select_released(self.quasi))

    def measure_disclosures(self, columns: Names) -> dict[str, DisclosureRisk]:
        """The disclosure risk of each column for which it can be measured."""
        find_candidates = cache(self._find_candidates)
        disclosures = {}
        for name in columns:
            before, after = self.tables.before[name], self.tables.after.attributes.get(name)
            released_values = None
            if after is None:
                released_values = self._find_listed_values(name)
            elif name in self.tables.comparable:
                candidates = find_candidates(tuple(other for other in self.quasi if other != name))
                released_values = None if candidates is None else (after, candidates)
            if released_values is not None:
                disclosures[name] = measure_disclosure(
                    before, *released_values, self.tolerance, self._is_permuted(name)
                )
        return disclosures

    def measure_knowledge(self, columns: Names) -> dict[str, KnowledgeCurve]:
        """For each column with groups of values: what one learns who knows others of a group."""
        grouped_values = {name: self._find_grouped_values(name) for name in columns}
        return {name: measure_group_knowledge(*pair) for name, pair in grouped_values.items() if pair is not None}

    def _find_candidates(self, quasi: Names) -> CandidateRows | None:
        names = self._select_released(quasi)
        if not names:
            return match_everyone(self.tables.before.rows, self.tables.after.rows)
        if self.aligned and self._is_generalized(names):
            kind = find_distinct_table_rows(self.tables.after.select(names)).kind
            return match_by_label(kind, kind)
        comparable = tuple(name for name in names if name in self.tables.comparable)
        return match_by_distance(*self._build_spaces(comparable)) if comparable else None

    def _find_listed_values(self, column: str) -> tuple[Attribute, CandidateRows] | None:
        """The values of a column that no row shows but each group's list does, and which may be a person's."""
        labels = self._get_labels(column)
        if labels is None or not self.aligned:
            return None
        if self.second is None or column not in self.second.attributes:
            return self.tables.before[column], match_by_label(labels, labels)
        matched = match_attributes(self.tables.before[column], self.second[column])
        person = np.unique(self.tables.after["group"].values, return_inverse=True)[1]
        block = np.unique(self.second["group"].values, return_inverse=True)[1]
        rows = np.repeat(np.arange(self.second.rows), self.second["count"].values.astype(np.int64))
        return None if matched is None else (matched[1].take(rows), match_by_label(person, block[rows]))

    def _find_grouped_values(self, column: str) -> tuple[Integers, Integers] | None:
        """A column's values, numbered, and their groups; None where each group has one made-up value."""
        labels = self._get_labels(column)
        if column not in self.tables.after.attributes:
            listed_values = self._find_listed_values(column)
            if listed_values is None:
                return None
            return find_distinct_rows([listed_values[0].values]).kind, listed_values[1].block
        if labels is None:
            return None
        kind = find_distinct_rows([self.tables.after[column].values]).kind
        has_single_values = len(find_distinct_rows([labels, kind]).first) == len(find_distinct_rows([labels]).first)
        if has_single_values:  # they are made up, unless all the column's values are still there in whatever order
            before, after = np.sort(self.tables.before[column].values), np.sort(self.tables.after[column].values)
            if column not in self.tables.comparable or not np.array_equal(before, after, equal_nan=True):
                return None
        return kind, labels

    def _is_permuted(self, column: str) -> bool:
        """Whether it is known that values of a column are not on their own rows."""
        before, after = self.tables.before[column].values, self.tables.after.attributes.get(column)
        return self.aligned and after is not None and not np.array_equal(before, after.values, equal_nan=True)

    def _get_labels(self, column: str) -> Integers | None:
        return self.groups.get(column, self.groups.get(RECORDS))

    def _select_released(self, names: Names) -> Names:
        return tuple(name for name in names if name in self.tables.after.attributes)

    def _is_generalized(self, names: Names) -> bool:
        return not set(names) <= set(self.tables.comparable)

    def _build_spaces(self, names: Names) -> tuple[RecordSpace, RecordSpace, Floats]:
        tables = [self.tables.before.select(names), self.tables.after.select(names)]
        scale = self.scale
        if isinstance(scale, Sized) and not isinstance(scale, str) and len(scale) == len(self.quasi):
            scale = [divisor for name, divisor in zip(self.quasi, scale, strict=True) if name in names]
        (space_before, space_after), weights = build_weighted_spaces(tables, scale)
        return space_before, space_after, weights
