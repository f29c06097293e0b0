"""Buckets of confidential values (thesis 7.2.1), and for which t groups of rows in buckets can be t-close to the whole.

Buckets have near equal mass. How close groups are to the whole is measured exactly; feasibility is decided without
making the groups. Proof: t_closeness.md.

Everything is computed in whole numbers and fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.priors.taxonomy import Taxonomy
from discreet.sdc.methods.partition import convert_to_ranks
from discreet.sdc.table import ABSENT, Attribute, Integers, Table
from discreet.untrusted import has_type


@dataclass(frozen=True, slots=True)
class DistributionDistance:
    """The distances of two distributions over the same buckets from each other."""

    ratio: Fraction
    """Definition 15: the greatest ratio of a bucket's probabilities, either way."""
    emd: Fraction
    """The earth mover's distance with the buckets in a row, as a share of the way from the first to the last."""
    variation: Fraction
    """The earth mover's distance with all buckets equally far apart: total variation."""


@dataclass(frozen=True, slots=True)
class GroupsApart:
    """The distances of groups from the whole at worst, the greatest ratio between two of them, and their sizes."""

    worst: DistributionDistance
    between: Fraction
    groups: int
    smallest: int
    largest: int


def compute_distribution_distance(first_counts: Sequence[int], second_counts: Sequence[int]) -> DistributionDistance:
    """The distances of two distributions, given by counts of at least 1 in at least two buckets."""
    totals = sum(first_counts), sum(second_counts)
    counts = zip(first_counts, second_counts, strict=True)
    pairs = [(Fraction(a, totals[0]), Fraction(b, totals[1])) for a, b in counts]
    flows = list(accumulate(a - b for a, b in pairs))
    return DistributionDistance(
        max(max(a / b, b / a) for a, b in pairs),
        sum(map(abs, flows), Fraction(0)) / (len(pairs) - 1),
        sum((abs(a - b) for a, b in pairs), Fraction(0)) / 2,
    )


def groups_apart(groups: Integers, bucket: Integers) -> GroupsApart:
    """Measure how far the distributions of groups over buckets are from the whole table and from one another.

    Args:
        groups: The group of each row, an array of whole numbers from 0.
        bucket: The bucket of each row, an array of whole numbers from 0.

    Returns:
        The distances of the worst group, the largest ratio between two groups, and their sizes.

    Raises:
        InvalidInput: An array is not valid, there is one bucket only, or a group lacks one.

    Example:
        >>> import numpy as np
        >>> from discreet.sdc import groups_apart
        >>> apart = groups_apart(np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 1, 0, 0, 1]))
        >>> apart.worst.ratio, apart.between
        (Fraction(3, 2), Fraction(2, 1))
    """
    for labels in (groups, bucket):
        if not has_type(labels, np.ndarray) or labels.dtype.kind not in "iu" or labels.shape != (len(groups),):
            raise InvalidInput("groups and bucket must be arrays with one whole number from 0 for each row")
    count, buckets = int(groups.max(initial=-1)) + 1, int(bucket.max(initial=-1)) + 1
    counts = np.bincount(groups * buckets + bucket, minlength=count * buckets).reshape(count, buckets)
    if buckets < 2 or not counts.all():
        raise InvalidInput("there must be at least two buckets, and each group must hold some of every one")
    totals, kinds = counts.sum(axis=0).tolist(), np.unique(counts, axis=0).tolist()
    distances = [compute_distribution_distance(kind, totals) for kind in kinds]
    shares = list(zip(*([Fraction(members, sum(kind)) for members in kind] for kind in kinds), strict=True))
    worst = DistributionDistance(
        max(distance.ratio for distance in distances),
        max(distance.emd for distance in distances),
        max(distance.variation for distance in distances),
    )
    sizes = [sum(kind) for kind in kinds]
    between = max(max(members) / min(members) for members in shares)
    return GroupsApart(worst, between, count, min(sizes), max(sizes))


MISSING_LABEL = "missing"
"""The name of a missing value in the label of a bucket that holds others too."""


def compute_cuts(rows: int, buckets: int) -> tuple[int, ...]:
    """The ranks at which the buckets 1, 2, ... start: floor(i rows / buckets + 1/2)."""
    return tuple((2 * i * rows + buckets) // (2 * buckets) for i in range(1, buckets))


def compute_cut_sizes(rows: int, buckets: int) -> tuple[int, ...]:
    """How many rows the buckets between the cuts have."""
    return tuple(np.diff([0, *compute_cuts(rows, buckets), rows]).tolist())


def choose_bucketing(confidential: Table) -> Callable[[int], Integers]:
    """A function from a number of buckets to the bucket of every row.

    Numbers and ordinal values are cut in runs of ranks, equal ones by their row, missing ones last. Nominal values are
    cut between categories in depth-first order, where that is nearest to an even cut: so there may be fewer buckets.
    Several columns are one compound, and buckets are its microaggregation.
    """
    if len(confidential.attributes) > 1:
        from discreet.sdc.methods.microaggregate import microaggregate

        return lambda buckets: microaggregate(confidential, confidential.rows // buckets, "mdav", "domain")
    attribute = next(iter(confidential.attributes.values()))
    ranks = convert_to_ranks(attribute).values
    if attribute.kind == "nominal":
        return lambda buckets: _bucket_whole_categories(ranks, buckets)
    order = np.argsort(ranks, kind="stable")
    return lambda buckets: _label_runs(order, compute_cuts(len(order), buckets))


def build_bucket_values(confidential: Table, bucket: Integers) -> Table:
    """The value that stands for each bucket: the mean of numbers, the lower median of ordinal values, names.

    In a compound bucket of several columns nominal ones too have their centroid, as they may be in any of the buckets.
    """
    from discreet.sdc.methods.record_distance import compute_centroids

    attributes = confidential.attributes
    single_column = next(iter(attributes.values()))
    if len(attributes) == 1 and single_column.kind == "nominal":
        return Table({single_column.name: _label_buckets(single_column, bucket)})
    first = np.unique(bucket, return_index=True)[1]
    return Table({name: compute_centroids(attribute, bucket).take(first) for name, attribute in attributes.items()})


def _label_runs(order: Integers, starts: Iterable[int]) -> Integers:
    """The run of every row, where `order` lists rows by rank and runs 1, 2, ... start at these ranks."""
    bucket = np.empty(len(order), dtype=np.int64)
    bucket[order] = np.searchsorted(np.array(list(starts)), np.arange(len(order)), side="right")
    return bucket


def _bucket_whole_categories(ranks: NDArray[np.float64], buckets: int) -> Integers:
    """Buckets of whole categories: each even cut moves to the nearest place between two categories, if any is left."""
    category, counts = np.unique(ranks, return_inverse=True, return_counts=True)[1:]
    between = np.cumsum(counts)[:-1]
    nearest = set()
    if len(between):
        nearest = {int(np.argmin(np.abs(between - cut))) for cut in compute_cuts(len(ranks), buckets)}
    return np.searchsorted(np.array(sorted(nearest), dtype=np.int64), category, side="left")


def _label_buckets(attribute: Attribute, bucket: Integers) -> Attribute:
    """Each bucket by the name of its categories; missing where it has nothing else."""
    places_by_bucket = [np.unique(attribute.values[bucket == number]) for number in range(int(bucket.max()) + 1)]
    names_by_bucket = [
        [attribute.categories[place] for place in places if place != ABSENT] for places in places_by_bucket
    ]
    all_names = {name for names in names_by_bucket for name in names}
    labels = []
    for places, names in zip(places_by_bucket, names_by_bucket, strict=True):
        label = _name_bucket(attribute.taxonomy, names, all_names - set(names))
        labels.append(f"{label} or {MISSING_LABEL}" if label and ABSENT in places else label)
    distinct_labels = tuple(label for label in labels if label)
    values = np.array([distinct_labels.index(label) if label else ABSENT for label in labels], dtype=np.int64)
    is_known = attribute.taxonomy is not None and set(distinct_labels) <= set(attribute.taxonomy.ancestors)
    return replace(
        attribute,
        values=values,
        categories=distinct_labels,
        taxonomy=attribute.taxonomy if is_known else None,
        value_type=attribute.value_type if set(distinct_labels) <= set(attribute.categories) else "text",
        upper=float(len(distinct_labels) - 1),
    )


def _name_bucket(taxonomy: Taxonomy | None, names: list[str], others: set[str]) -> str:
    """The nearest concept above all these categories and no other, or else all of them."""
    if len(names) == 1 or taxonomy is None:
        return " or ".join(names)
    ancestors = [taxonomy.get_ancestors(name) for name in names]
    common_concepts = frozenset.intersection(*ancestors) if names else frozenset()
    exclusive_concepts = common_concepts.difference(*(taxonomy.get_ancestors(name) for name in others))
    all_labels = " or ".join(names)
    return max(sorted(exclusive_concepts), key=lambda concept: len(taxonomy.get_ancestors(concept)), default=all_labels)


BucketSizes = tuple[int, ...]
"""How many rows each bucket has."""

CountBounds = Callable[[int, int], tuple[int, int]]
"""The least and the most that a group may hold of a bucket whose fair share of it is `due / rows`."""

HALVINGS = 48


def build_closed_bounds(t: Fraction) -> CountBounds:
    """Bounds of groups whose ratio to the whole is at most t."""
    numerator, denominator = t.numerator, t.denominator
    return lambda due, rows: (-(-due * denominator // (rows * numerator)), due * numerator // (rows * denominator))


def build_open_bounds(t: Fraction) -> CountBounds:
    """Bounds of groups whose ratio to the whole is less than t."""
    numerator, denominator = t.numerator, t.denominator
    return lambda due, rows: (
        due * denominator // (rows * numerator) + 1,
        -(-due * numerator // (rows * denominator)) - 1,
    )


def is_feasible(sizes: BucketSizes, per_bucket: int, t: Fraction) -> bool:
    """Whether there are `per_bucket` groups for each bucket that are all t-close to the whole."""
    return _split_buckets(sizes, per_bucket, build_closed_bounds(t)) is not None


def find_max_groups(sizes: BucketSizes, t: Fraction, k: int) -> int | None:
    """The most groups for each bucket, of at least k rows each, that are t-close to the whole."""
    counts = range(_compute_max_groups(sizes, k), 0, -1)
    return next((count for count in counts if is_feasible(sizes, count, t)), None)


def find_smallest_t(sizes: BucketSizes, k: int) -> Fraction | None:
    """The smallest t for which there are groups of at least k rows; none where no t is large enough."""
    best: Fraction | None = None
    for count in range(1, _compute_max_groups(sizes, k) + 1):
        best = find_smallest_t_for(sizes, count, best)
        if best in {None, 1}:  # where one group for each bucket is too many, two are too
            break
    return best


def find_smallest_t_for(sizes: BucketSizes, per_bucket: int, upper_bound: Fraction | None = None) -> Fraction | None:
    """The smallest t for so many groups for each bucket, or `upper_bound` if that is no larger."""
    best = Fraction(sum(sizes) + 1) if upper_bound is None else upper_bound
    split = _split_buckets(sizes, per_bucket, build_open_bounds(best))
    if split is None:
        return upper_bound
    low, best = Fraction(1), _compute_ratio(sizes, per_bucket, split)
    for _ in range(HALVINGS):
        middle = (low + best) / 2
        middle_split = _split_buckets(sizes, per_bucket, build_closed_bounds(middle))
        low, best = (middle, best) if middle_split is None else (low, _compute_ratio(sizes, per_bucket, middle_split))
    while (split := _split_buckets(sizes, per_bucket, build_open_bounds(best))) is not None:
        best = _compute_ratio(sizes, per_bucket, split)
    return best


def _compute_max_groups(sizes: BucketSizes, k: int) -> int:
    """The most groups for each bucket whose sizes are at least k and in which every bucket has a place."""
    return sum(sizes) // (len(sizes) * max(k, len(sizes)))


def _split_buckets(sizes: BucketSizes, per_bucket: int, bounds: CountBounds) -> list[int] | None:
    """The rows that the larger groups take together of each bucket, the smaller ones taking the rest, or None.

    Groups have `size` or size + 1 rows. The rows that those of one size take together can be dealt to them evenly, so
    bounds on their number are all there is; the rest is an interval for each bucket and a sum.
    """
    rows, groups = sum(sizes), len(sizes) * per_bucket
    size, larger = divmod(rows, groups)
    smaller = groups - larger
    lows, highs = [], []
    for bucket in sizes:
        low, high = bounds((size + 1) * bucket, rows)
        lower, upper = bounds(size * bucket, rows)
        lows.append(max(larger * low, bucket - smaller * upper))
        highs.append(min(larger * high, bucket - smaller * lower))
        if lows[-1] > highs[-1]:
            return None
    spare = larger * (size + 1) - sum(lows)
    if not 0 <= spare <= sum(highs) - sum(lows):
        return None
    larger_totals = []
    for low, high in zip(lows, highs, strict=True):
        extra = min(spare, high - low)
        larger_totals.append(low + extra)
        spare -= extra
    return larger_totals


def _compute_ratio(sizes: BucketSizes, per_bucket: int, larger_totals: list[int]) -> Fraction:
    """The ratio of groups to the whole where the larger ones take these totals, dealt evenly."""
    rows, groups = sum(sizes), len(sizes) * per_bucket
    size, larger = divmod(rows, groups)
    parts = [(size + 1, larger, larger_totals)] if larger else []
    parts.append((size, groups - larger, [bucket - total for bucket, total in zip(sizes, larger_totals, strict=True)]))
    ratios = []
    for group_size, count, totals in parts:
        for bucket, total in zip(sizes, totals, strict=True):
            ratios.append(Fraction(-(-total // count) * rows, group_size * bucket))
            ratios.append(Fraction(group_size * bucket, total // count * rows))
    return max(ratios)
