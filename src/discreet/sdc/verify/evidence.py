"""Evidence for a claim about a release: coded values, permutations, nearest rows, uniformity tests.

All of it is independent of the methods and of the measures in a report. A missing value is one more value, after the
greatest.

Linkage: rows with equal quasi-identifiers are one class, a person is led to the nearest class, and picks one of its
rows. Where several classes are as near, the person's own is taken, so that the share is never below that with ties
shared.

Permutations: three tests, each of which a uniform permutation fails less than once in a billion: all hits, too many or
too few; the number of groups that have one hit or more, two and so on, too many or too few; and groups that kept
everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import ClaimFailed, InvalidInput
from discreet.formatting import format_cost, format_number
from discreet.json_fields import JsonWritable
from discreet.privacy.guarantee import Guarantee
from discreet.sdc.table import ABSENT, Attribute, Floats, Integers, Table

GROUP, COUNT = "group", "count"
"""The columns that Anatomy's tables share, and that its second table counts rows in."""


def check_column_names(names: object, role: str) -> tuple[str, ...]:
    """A list of at least one column name, each once; one name alone is a list of one."""
    listed = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else ()
    if not listed or len(set(listed)) < len(listed) or not all(isinstance(name, str) for name in listed):
        raise InvalidInput(f"the {role} are a list of column names, at least one and each once, such as ['age']")
    return listed


def encode_labels(groups: object, rows: int) -> Integers:
    """Labels as numbers 0 to g - 1, one for each row."""
    labels = np.asarray(groups)
    if labels.ndim != 1 or len(labels) != rows or labels.dtype.kind not in "iu":
        raise InvalidInput(f"groups are whole numbers, one label for each of the {rows} rows")
    return np.unique(labels, return_inverse=True)[1]


def encode_values(attribute: Attribute) -> tuple[Integers, int]:
    """Every row's value as its place among the column's distinct values, and how many there are; missing is last."""
    values = attribute.values
    if attribute.kind != "numeric":
        values = np.where(values == ABSENT, len(attribute.categories), values)
    distinct, places = np.unique(values, return_inverse=True)
    return places, len(distinct)


def encode_together(left: Attribute, right: Attribute) -> tuple[Integers, Integers, int]:
    """The values of two columns, read apart, as places in one list: equal where the values are."""
    if left.kind == "numeric" and right.kind == "numeric":
        values: NDArray[Any] = np.concatenate([left.values, right.values])
    elif left.kind != "numeric" and right.kind != "numeric":
        labels = dict.fromkeys((*left.categories, *right.categories))
        place_of_label = {label: place for place, label in enumerate(labels)}
        values = np.concatenate([_encode_categories(left, place_of_label), _encode_categories(right, place_of_label)])
    else:  # a number is equal to no text
        (first, m), (second, second_count) = encode_values(left), encode_values(right)
        return first, second + m, m + second_count
    distinct, places = np.unique(values, return_inverse=True)
    return places[: len(left.values)], places[len(left.values) :], len(distinct)


def has_same_values(left: Attribute, right: Attribute) -> bool:
    """Whether two columns of as many rows, read apart, hold the same values row by row."""
    if left.kind == "numeric" and right.kind == "numeric":
        return np.array_equal(left.values, right.values, equal_nan=True)
    left_places, right_places, _ = encode_together(left, right)
    return np.array_equal(left_places, right_places)


def _encode_categories(attribute: Attribute, place_of_label: Mapping[str, int]) -> Integers:
    places = np.array([*(place_of_label[label] for label in attribute.categories), len(place_of_label)], dtype=np.int64)
    return np.asarray(places[attribute.values])  # the place -1 of a missing value is the last


def cross_codes(first: Integers, second: Integers, m: int) -> tuple[Integers, int]:
    """Pairs of places as places, renumbered so that their number never outgrows the rows."""
    distinct, places = np.unique(first * m + second, return_inverse=True)
    return places, len(distinct)


def find_classes(table: Table, names: Sequence[str]) -> Integers:
    """The class of every row: rows with equal values of all these columns have the same."""
    classes = np.zeros(table.rows, dtype=np.int64)
    for name in names:
        classes = cross_codes(classes, *encode_values(table[name]))[0]
    return classes


def expand_counts(second: Table) -> Table:
    """Anatomy's second table with as many rows of each kind as its column `count` says."""
    counts = second[COUNT].values
    if second[COUNT].kind != "numeric" or not np.all(counts >= 1) or np.any(counts != np.floor(counts)):
        raise InvalidInput(f"the column {COUNT!r} must hold counts, whole numbers of at least 1")
    return second.take(np.repeat(np.arange(second.rows), counts.astype(np.int64)))


MIN_DOUBT = 1e-9
"""A permutation is called not uniform where a uniform one has as many hits with less than this chance."""
SUSPICIOUS_DEVIATIONS = 6.0
"""Hits are called suspicious beyond this many standard deviations above the mean."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows that carry a value equal to their own, duplicates counted, beside what uniform permutations give."""

    rows: int
    observed: int
    expected: float
    deviation: float

    @property
    def excess_bound(self) -> float:
        """A bound on the chance of so many hits or more under uniform permutations, independent from group to group.

        Chatterjee (Stein's method for concentration inequalities, 2007, Proposition 1.1): for chances a_ij in [0, 1]
        and X the sum of a_(i, pi(i)), P(X >= EX + s) <= exp(-s^2 / (4 EX + 2 s)). It comes of the bound
        EX z^2 / (1 - z) on the logarithm of E exp(z (X - EX)), which adds over independent groups; and it grows
        with EX, so that an upper bound will do for it.
        """
        excess = self.observed - self.expected
        return math.exp(-(excess**2) / (4 * self.expected + 2 * excess)) if excess > 0 else 1.0

    @property
    def lack_bound(self) -> float:
        """A bound on the chance of so few hits or fewer, where `expected` is the mean and no mere bound on it.

        The lower tail of the same theorem (1.5 there): P(X <= EX - s) <= exp(-s^2 / (4 EX)), which comes of the bound
        EX z^2 on the logarithm for z < 0.
        """
        shortfall = self.expected - self.observed
        return math.exp(-(shortfall**2) / (4 * self.expected)) if shortfall > 0 else 1.0

    @property
    def deviations_above(self) -> float:
        """How many standard deviations above the mean."""
        excess = self.observed - self.expected
        return excess / self.deviation if self.deviation > 0 else 0.0

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        return {
            "rows": self.rows,
            "own_value": self.observed,
            "share": self.observed / self.rows if self.rows else 0.0,
            "expected": self.expected,
            "deviation": self.deviation,
            "deviations_above": self.deviations_above,
            "chance_at_most": self.excess_bound,
        }


@dataclass(frozen=True, slots=True, eq=False)
class ValueCells:
    """The cells of the table groups x values where some row of the group has the value for its own."""

    owner: Integers
    """The group of each."""
    owned: Floats
    """The number of rows of the group that have the value for their own."""
    carried: Floats
    """The number of rows of the group that carry it."""
    places: Integers
    """The cell of each row's own value."""


def build_value_cells(before: Integers, after: Integers, m: int, groups: Integers) -> ValueCells:
    """The values that the rows of each group have for their own and carry, as places among m values."""
    keys, places, owned = np.unique(groups * m + before, return_inverse=True, return_counts=True)
    indices = np.minimum(np.searchsorted(keys, groups * m + after), len(keys) - 1)
    carried = np.bincount(indices[keys[indices] == groups * m + after], minlength=len(keys))
    return ValueCells(keys // m, owned.astype(np.float64), carried.astype(np.float64), places)


def count_hits_in_groups(before: Integers, after: Integers, m: int, groups: Integers) -> Hits:
    """The hits, and their mean and standard deviation under a uniform permutation inside each group.

    In a group of n rows a_v of which have v for their own and b_v carry it, by Hoeffding's formulas with P the sum of
    a_v b_v the mean is P/n, and the variance (P - sum of a_v b_v (a_v + b_v) / n + P^2/n^2) / (n - 1).
    """
    cells = build_value_cells(before, after, m, groups)
    sizes, products = np.bincount(groups).astype(np.float64), cells.owned * cells.carried
    means = np.bincount(cells.owner, products) / sizes
    mixed = np.bincount(cells.owner, products * (cells.owned + cells.carried)) / sizes
    variance = (means * sizes - mixed + means**2) / np.maximum(sizes - 1, 1)
    observed = int(np.count_nonzero(before == after))
    return Hits(len(before), observed, float(means.sum()), math.sqrt(max(0.0, float(variance.sum()))))


def count_unique_hits(before: Integers, after: Integers, k: int) -> Hits:
    """The hits among rows whose value nobody else has, and their greatest mean where every group has k rows or more.

    Only these are the person's own beyond doubt where the groups are not known. Each comes back with probability 1/n in
    a group of n; the deviation is that of as many independent rows, as which they are nearly.
    """
    is_unique = np.bincount(before)[before] == 1
    rows = int(np.count_nonzero(is_unique))
    observed = int(np.count_nonzero((before == after) & is_unique))
    return Hits(rows, observed, rows / k, math.sqrt(rows * (k - 1)) / k)


def count_disturbed_groups(before: Integers, after: Integers, m: int, groups: Integers) -> int:
    """How many groups do not hold after what they held before, value for value."""
    keys_before, keys_after = np.sort(groups * m + before), np.sort(groups * m + after)
    return len(np.unique(keys_before[keys_before != keys_after] // m))


def measure_group_width(attribute: Attribute, groups: Integers) -> float | None:
    """The mean width of the groups over the column's standard deviation: how near a row's group is to its value.

    None for names, and where the column has no spread.
    """
    present = ~attribute.missing
    values, labels = attribute.values[present].astype(float), groups[present]
    spread = float(values.std()) if len(values) else 0.0
    if attribute.kind == "nominal" or spread == 0:
        return None
    order = np.argsort(labels, kind="stable")
    values, labels = values[order], labels[order]
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    widths = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts)
    return float(np.average(widths, weights=np.diff(starts, append=len(labels)))) / spread


PROVISO = "This is so provided that the permutation was drawn uniformly, which no single file can prove."
RECORDS = "records"
"""The name under which groups are those of all columns."""


@dataclass(frozen=True, slots=True)
class CheckedClaim(JsonWritable):
    """A claim that the files do not contradict. `shown` says whether they prove it, or only fail to refute it.

    Where values changed places inside groups it is proved provided that the permutation was uniform, which no
    single file can prove; the words say so. A probabilistic claim checked by groups measures `hits`, the share of rows
    that chance gives a value equal to their own, and `certain`, the share in groups with one value only.
    """

    claim: Guarantee
    shown: bool
    measured: Mapping[str, object]
    words: tuple[str, ...]

    _json_fields = "claim shown measured words"


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The files of a release. Row i of the release was made of row i of the original, where that is given."""

    released: Table
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]
    original: Table | None = None
    groups: Mapping[str, object] = field(default_factory=dict)
    second: Table | None = None
    kept_columns: tuple[str, ...] = ()
    """Columns that are neither, and are known to be in the release."""

    def __post_init__(self) -> None:
        if not self.released.rows:
            raise InvalidInput("the table has no rows, so there is nothing to measure; give one that has")
        if self.original is not None and self.original.rows != self.released.rows:
            raise InvalidInput(
                f"the original has {self.original.rows} rows and the release {self.released.rows}; "
                "give those rows of the original that the release was made of, in its order"
            )

    @property
    def other_columns(self) -> tuple[str, ...]:
        """The released columns that are neither quasi-identifiers nor confidential."""
        role_columns = {*self.quasi, *self.confidential} | (set() if self.second is None else {GROUP})
        return tuple(name for name in self.released if name not in role_columns)

    def get_labels(self, name: str) -> Integers:
        """The groups of a column, or where it has none of its own those of whole records, as numbers from 0."""
        groups = self.groups.get(name, self.groups.get(RECORDS))
        if groups is None:
            raise InvalidInput(f"there are no groups for {name[:40]!r}; give them under its name, or under 'records'")
        return encode_labels(groups, self.released.rows)


def build_failure(claim: Guarantee, finding: str) -> ClaimFailed:
    """The error for a claim that the files contradict."""
    return ClaimFailed(f"the release claims {format_claim(claim)}, and {finding}")


def require_k(claim: Guarantee, smallest_size: int, group_kind: str) -> None:
    """Refuse a class or group with fewer rows than the claim says."""
    if smallest_size < (claim.k or 1):
        raise build_failure(claim, f"its smallest {group_kind} has {smallest_size}")


def require_no_copy(claim: Guarantee, files: Evidence, original: Table, columns: Iterable[str]) -> None:
    """Refuse a released column that is a confidential one of the original, row by row, under another name."""
    for name, secret in product(columns, files.confidential):
        if has_same_values(files.released[name], original[secret]):
            copy = f"its column {name[:40]!r} holds the original's {secret[:40]!r} row by row"
            raise build_failure(claim, copy)


def require_chance(claim: Guarantee, name: str, hits: Hits) -> None:
    """Refuse more rows with their own value than a uniform permutation brings there."""
    if hits.excess_bound < MIN_DOUBT:
        raise build_failure(
            claim,
            f"{hits.observed} of {hits.rows} rows carry their own value of {name[:40]!r} where a uniform permutation "
            f"gives {format_number(hits.expected)} on average, which happens less than once in a billion",
        )


def format_claim(claim: Guarantee) -> str:
    """The claim in short."""
    if claim.model == "t-closeness":
        return f"t-closeness with t {format_cost(claim.t or Fraction(0))} under the {claim.distance} distance"
    return f"{'probabilistic ' if claim.model.startswith('probabilistic') else ''}{claim.k}-anonymity"


MAX_DIMENSIONS = 12
"""With more dimensions a search tree is slower than looking at all classes."""
DISTANCES_PER_BATCH = 2**24


def bound_linkage(original: Table, released: Table, quasi: Sequence[str]) -> Fraction | None:
    """The share of people led to their own row, row i being of person i; None where no column can be compared.

    Numbers and ordinal values are measured over the width of the original's domain, and names as equal or not. A column
    of numbers that became text, as intervals do, is left out: no distance is defined between the two.
    """
    pairs = [(original[name], released[name]) for name in quasi]
    columns = [pair for pair in pairs if (pair[0].kind == "numeric") == (pair[1].kind == "numeric")]
    if not columns:
        return None
    classes = find_classes(released, [after.name for _, after in columns])
    own_distances = np.sqrt(sum(_compute_squared_changes(before, after) for before, after in columns))
    is_right = own_distances <= 1e-12
    changed_rows = np.flatnonzero(~is_right)  # nothing is nearer than what did not move
    if len(changed_rows):
        first_rows = np.unique(classes, return_index=True)[1]
        people, rows = zip(*(_build_points(*pair, changed_rows, first_rows) for pair in columns), strict=True)
        nearest = _find_least_distances(np.hstack(people), np.hstack(rows))
        is_right[changed_rows] = own_distances[changed_rows] <= nearest * (1 + 1e-9) + 1e-12
    sizes, counts = np.unique(np.bincount(classes)[classes[is_right]], return_counts=True)
    return sum((Fraction(int(c), int(s)) for s, c in zip(sizes, counts, strict=True)), Fraction(0)) / len(classes)


def find_nearest_values(original: Attribute, released: Attribute) -> tuple[Integers, Integers, int]:
    """For each row the released value nearest to its own, and the one it carries, as places in one list.

    Nearest among the distinct values of the release, which no permutation changes; of names only the same one is near.
    """
    if not (original.kind == "numeric" or _has_same_order(original, released)) or released.kind != original.kind:
        return encode_together(original, released)
    distinct_values, carried = np.unique(np.where(released.missing, np.inf, released.values), return_inverse=True)
    # Beyond the last middle where something is missing: that is infinite.
    ends = (distinct_values[1:] + distinct_values[:-1]) / 2
    own_values = np.where(original.missing, np.inf, original.values)
    return np.searchsorted(ends, own_values, side="right"), carried, len(distinct_values)


def _has_same_order(original: Attribute, released: Attribute) -> bool:
    return original.kind == released.kind == "ordinal" and original.categories == released.categories


def _compute_squared_changes(before: Attribute, after: Attribute) -> Floats:
    """The square of each row's distance from itself."""
    if before.kind == "numeric" or _has_same_order(before, after):
        points_before, points_after = _scale_columns(before, after)
        return np.asarray(((points_before - points_after) ** 2).sum(axis=1))
    codes_before, codes_after, _ = encode_together(before, after)
    return np.asarray((codes_before != codes_after).astype(np.float64))


def _build_points(before: Attribute, after: Attribute, people: Integers, rows: Integers) -> tuple[Floats, Floats]:
    """Coordinates of these people before and of these rows after, as far apart as in `_compute_squared_changes`."""
    if before.kind == "numeric" or _has_same_order(before, after):
        points_before, points_after = _scale_columns(before, after)
        return points_before[people], points_after[rows]
    codes_before, codes_after, m = encode_together(before, after)
    corners = np.eye(m) / np.sqrt(2)
    return corners[codes_before[people]], corners[codes_after[rows]]


def _scale_columns(*columns: Attribute) -> list[Floats]:
    """Columns in widths of the first one's domain; a missing value is as far from all others as the domain is wide."""
    lower, upper = columns[0].lower, columns[0].upper
    middle, width = (upper + lower) / 2, upper - lower or 1.0
    present = [np.where(column.missing, middle, column.values) / width for column in columns]
    return [np.column_stack([values, column.missing]) for values, column in zip(present, columns, strict=True)]


def _find_least_distances(people: Floats, classes: Floats) -> Floats:
    """Every person's distance from the nearest class."""
    from scipy.spatial import cKDTree
    from scipy.spatial.distance import cdist

    if people.shape[1] <= MAX_DIMENSIONS:
        return np.asarray(cKDTree(classes).query(people)[0])
    step = max(1, DISTANCES_PER_BATCH // len(classes))
    batches = (people[start : start + step] for start in range(0, len(people), step))
    return np.concatenate([cdist(batch, classes).min(axis=1) for batch in batches])


MAX_HITS = 20
"""Groups are counted by their hits up to this many."""
RARE_CHANCES = tuple(10.0**-power for power in range(0, 20, 2))
"""Groups that kept everything are counted where the chance of that is at most this."""
INCLUSION_COEFFICIENTS = np.array(
    [[(-1) ** (i + h) * math.comb(i - 1, h - 1) for h in range(1, MAX_HITS + 1)] for i in range(1, 2 * MAX_HITS + 1)],
    dtype=np.float64,
)
"""How the i-th factorial moment over i! enters the chance of h hits or more, by inclusion and exclusion."""


def require_uniform(claim: Guarantee, name: str, before: Integers, after: Integers, m: int, groups: Integers) -> Hits:
    """The hits of a permutation that nothing refutes."""
    hits = count_hits_in_groups(before, after, m, groups)
    require_chance(claim, name, hits)
    if hits.lack_bound < MIN_DOUBT:
        raise build_failure(
            claim,
            f"only {hits.observed} of {hits.rows} rows carry their own value of {name[:40]!r} where a uniform "
            f"permutation gives {format_number(hits.expected)} on average: so few come of a rule, not of chance",
        )
    if bound_irregularity(before, after, m, groups) < MIN_DOUBT:
        raise build_failure(
            claim,
            f"its groups keep values of {name[:40]!r} on their own rows so often or so evenly as a uniform "
            "permutation does less than once in a billion",
        )
    return hits


def bound_irregularity(before: Integers, after: Integers, m: int, groups: Integers) -> float:
    """A bound on the chance that uniform permutations give groups as odd as these; at most 1."""
    from scipy.special import gammaln

    cells = build_value_cells(before, after, m, groups)
    sizes, has_own_value = np.bincount(groups), before == after
    is_single = (cells.owned == 1) & (cells.carried == 1)
    single_counts = np.bincount(cells.owner, is_single).astype(np.int64)
    hits = np.bincount(groups, has_own_value & is_single[cells.places])
    kept_everything = np.bincount(groups, has_own_value) == sizes
    # The chance that every row of a group gets its own value: the product of the values' a! over n!.
    keep_chances = np.exp(np.bincount(cells.owner, gammaln(cells.owned + 1)) - gammaln(sizes + 1))
    chances = _bound_by_hits(sizes, single_counts, hits) + _bound_by_whole_groups(keep_chances, kept_everything)
    return min(1.0, 2 * len(chances) * min(chances, default=1.0))  # every test is above and below


def _bound_by_hits(sizes: Integers, single_counts: Integers, hits: Integers) -> list[float]:
    """For each h, how likely as few or as many groups have h hits or more among values that only one row has."""
    kinds, place = np.unique(np.column_stack([sizes, single_counts]), axis=0, return_inverse=True)
    tails = compute_hit_tails(kinds[:, 0], kinds[:, 1])
    kind_counts = np.bincount(place.ravel(), minlength=len(kinds))
    bounds = []
    for h in range(1, min(MAX_HITS, int(single_counts.max())) + 1):
        is_able = kinds[:, 1] >= h
        observed, mean = int(np.count_nonzero(hits >= h)), float(kind_counts[is_able] @ tails[is_able, h - 1])
        bounds.append(_bound_deviation(observed, int(kind_counts[is_able].sum()), mean))
    return bounds


def compute_hit_tails(sizes: Integers, single_counts: Integers) -> Floats:
    """The chance of h = 1, 2, ... hits or more among single values in a group; a row for each size and count of them.

    The mean of (hits choose i) is (count choose i) (size - i)! / size!, at most 1/i!, so that 40 of them will do.
    """
    step = np.arange(2 * MAX_HITS)
    factors = np.maximum(single_counts[:, None] - step, 0) / np.maximum(sizes[:, None] - step, 1) / (step + 1)
    tails: Floats = np.cumprod(factors, axis=1) @ INCLUSION_COEFFICIENTS
    return np.clip(tails, 0.0, 1.0)


def _bound_by_whole_groups(chance: Floats, kept_everything: Integers) -> list[float]:
    """How likely as many groups, of those that can hardly do so, keep everything."""
    bounds = []
    for limit in RARE_CHANCES:
        is_able = chance <= limit * (1 - 1e-9)  # never those with one value
        observed, mean = int(np.count_nonzero(kept_everything & is_able)), float(chance[is_able].sum())
        bounds.append(_bound_deviation(observed, int(np.count_nonzero(is_able)), mean) if observed > mean else 1.0)
    return bounds


def _bound_deviation(observed: int, trials: int, mean: float) -> float:
    """Hoeffding (1963, Theorem 1): so few or so many seen of independent `trials`, `mean` of them expected."""
    from scipy.special import rel_entr

    share, expected_share = observed / trials if trials else 0.0, min(1.0, mean / trials) if trials else 0.0
    return math.exp(-trials * float(rel_entr(share, expected_share) + rel_entr(1 - share, 1 - expected_share)))
