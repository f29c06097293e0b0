"""Confidential values in buckets of near equal mass, and what stands for a bucket in a release (thesis 7.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.partition import on_a_line
from discreet.microdata.table import ABSENT, Attribute, Places, Table
from discreet.taxonomy import Taxonomy

MISSING = "missing"
"""What a missing value is called in the label of a bucket that holds others too."""


def cuts(rows: int, buckets: int) -> tuple[int, ...]:
    """The ranks at which the buckets 1, 2, ... start: floor(i rows / buckets + 1/2)."""
    return tuple((2 * i * rows + buckets) // (2 * buckets) for i in range(1, buckets))


def cut_sizes(rows: int, buckets: int) -> tuple[int, ...]:
    """How many rows the buckets between the cuts have."""
    return tuple(np.diff([0, *cuts(rows, buckets), rows]).tolist())


def bucketing(confidential: Table) -> Callable[[int], Places]:
    """A function from a number of buckets to the bucket of every row.

    Numbers and ordinal values are cut in runs of ranks, equal ones by their row, missing ones last. Nominal values are
    cut between categories in depth-first order, where that is nearest to an even cut: so there may be fewer buckets.
    Several columns are one compound, and buckets are its microaggregation.
    """
    if len(confidential.attributes) > 1:
        return lambda buckets: _compound(confidential, buckets)
    attribute = next(iter(confidential.attributes.values()))
    line = on_a_line(attribute).values
    if attribute.kind == "nominal":
        return lambda buckets: _whole_categories(line, buckets)
    order = np.argsort(line, kind="stable")
    return lambda buckets: _runs(order, cuts(len(order), buckets))


def bucket_values(confidential: Table, bucket: Places) -> Table:
    """What stands for each bucket: the mean of numbers, the lower median of ordinal values, the name of categories.

    In a compound bucket of several columns nominal ones too have their centroid, as they may be in any of the buckets.
    """
    from discreet.microdata.centroids import centroids

    attributes = confidential.attributes
    alone = next(iter(attributes.values()))
    if len(attributes) == 1 and alone.kind == "nominal":
        return Table({alone.name: _named(alone, bucket)})
    first = np.unique(bucket, return_index=True)[1]
    return Table({name: centroids(each, bucket).take(first) for name, each in attributes.items()})


def _runs(order: Places, starts: Iterable[int]) -> Places:
    """The run of every row, where `order` lists rows by rank and runs 1, 2, ... start at these ranks."""
    bucket = np.empty(len(order), dtype=np.int64)
    bucket[order] = np.searchsorted(np.array(list(starts)), np.arange(len(order)), side="right")
    return bucket


def _whole_categories(line: NDArray[np.float64], buckets: int) -> Places:
    """Buckets of whole categories: each even cut moves to the nearest place between two categories, if any is left."""
    category, counts = np.unique(line, return_inverse=True, return_counts=True)[1:]
    between = np.cumsum(counts)[:-1]
    nearest = {int(np.argmin(np.abs(between - cut))) for cut in cuts(len(line), buckets)} if len(between) else set()
    return np.searchsorted(np.array(sorted(nearest), dtype=np.int64), category, side="left")


def _compound(confidential: Table, buckets: int) -> Places:
    from discreet.microdata.microaggregate import microaggregate

    return microaggregate(confidential, confidential.rows // buckets, "mdav", "domain")


def _named(attribute: Attribute, bucket: Places) -> Attribute:
    """Each bucket by the name of its categories; missing where it has nothing else."""
    held = [np.unique(attribute.values[bucket == each]) for each in range(int(bucket.max()) + 1)]
    names = [[attribute.categories[place] for place in places if place != ABSENT] for places in held]
    everything = {name for each in names for name in each}
    labels = [_name(attribute.taxonomy, each, everything - set(each)) for each in names]
    labels = [
        f"{label} or {MISSING}" if label and ABSENT in places else label
        for label, places in zip(labels, held, strict=True)
    ]
    listed = tuple(label for label in labels if label)
    values = np.array([listed.index(label) if label else ABSENT for label in labels], dtype=np.int64)
    known = attribute.taxonomy is not None and set(listed) <= set(attribute.taxonomy.ancestors)
    return replace(
        attribute,
        values=values,
        categories=listed,
        taxonomy=attribute.taxonomy if known else None,
        look=attribute.look if set(listed) <= set(attribute.categories) else "text",
        upper=float(len(listed) - 1),
    )


def _name(taxonomy: Taxonomy | None, names: list[str], others: set[str]) -> str:
    """The nearest concept above all these categories and no other, or else all of them."""
    if len(names) == 1 or taxonomy is None:
        return " or ".join(names)
    above = frozenset.intersection(*(taxonomy.of_concept(name) for name in names)) if names else frozenset()
    alone = above.difference(*(taxonomy.of_concept(name) for name in others))
    return max(sorted(alone), key=lambda up: len(taxonomy.of_concept(up)), default=" or ".join(names))
