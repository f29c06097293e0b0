"""Confidential values in buckets of near equal mass, and what stands for a bucket in a release (thesis 7.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.partition import convert_to_ranks
from discreet.microdata.table import ABSENT, Attribute, Integers, Table
from discreet.taxonomy import Taxonomy

MISSING_LABEL = "missing"
"""What a missing value is called in the label of a bucket that holds others too."""


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
        return lambda buckets: _bucket_compound(confidential, buckets)
    attribute = next(iter(confidential.attributes.values()))
    ranks = convert_to_ranks(attribute).values
    if attribute.kind == "nominal":
        return lambda buckets: _bucket_whole_categories(ranks, buckets)
    order = np.argsort(ranks, kind="stable")
    return lambda buckets: _label_runs(order, compute_cuts(len(order), buckets))


def build_bucket_values(confidential: Table, bucket: Integers) -> Table:
    """What stands for each bucket: the mean of numbers, the lower median of ordinal values, the name of categories.

    In a compound bucket of several columns nominal ones too have their centroid, as they may be in any of the buckets.
    """
    from discreet.microdata.centroids import compute_centroids

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
    nearest = (
        {int(np.argmin(np.abs(between - cut))) for cut in compute_cuts(len(ranks), buckets)} if len(between) else set()
    )
    return np.searchsorted(np.array(sorted(nearest), dtype=np.int64), category, side="left")


def _bucket_compound(confidential: Table, buckets: int) -> Integers:
    from discreet.microdata.microaggregate import microaggregate

    return microaggregate(confidential, confidential.rows // buckets, "mdav", "domain")


def _label_buckets(attribute: Attribute, bucket: Integers) -> Attribute:
    """Each bucket by the name of its categories; missing where it has nothing else."""
    bucket_places = [np.unique(attribute.values[bucket == members]) for members in range(int(bucket.max()) + 1)]
    names = [[attribute.categories[place] for place in places if place != ABSENT] for places in bucket_places]
    everything = {name for members in names for name in members}
    labels = [_name_bucket(attribute.taxonomy, members, everything - set(members)) for members in names]
    labels = [
        f"{label} or {MISSING_LABEL}" if label and ABSENT in places else label
        for label, places in zip(labels, bucket_places, strict=True)
    ]
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
    common_concepts = (
        frozenset.intersection(*(taxonomy.get_ancestors(name) for name in names)) if names else frozenset()
    )
    exclusive_concepts = common_concepts.difference(*(taxonomy.get_ancestors(name) for name in others))
    return max(
        sorted(exclusive_concepts), key=lambda concept: len(taxonomy.get_ancestors(concept)), default=" or ".join(names)
    )
