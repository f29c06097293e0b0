"""What stands for a group: its mean, its lower median, or its least marginal concept (formula 6.4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.distances import compute_semantic_distances
from discreet.microdata.table import ABSENT, Attribute, Floats, Integers
from discreet.taxonomy import Taxonomy

GROUPS_PER_BATCH = 4096
"""Groups whose marginalities are computed together."""

WEIGHT_TOLERANCE = 1e-9
"""Sums of weights in a group are equal where they differ by no more than this share: that is rounding."""


def compute_centroids(attribute: Attribute, groups: NDArray[np.int64], weights: Floats | None = None) -> Attribute:
    """Every value replaced by its group's centroid; missing where more than half of the group's weight is.

    The mean of numbers; the lower median of ordinal values; of nominal ones the concept of their taxonomy with the
    least sum of distances to them, or the most frequent value where there is no taxonomy. Ties go to the first place.
    """
    count = int(groups.max(initial=-1)) + 1
    weight = np.ones(len(groups)) if weights is None else np.asarray(weights, dtype=np.float64)
    is_present = ~attribute.missing
    totals = np.bincount(groups, weight, count)
    present_weights = np.bincount(groups[is_present], weight[is_present], count)
    missing_groups = 2 * present_weights < totals * (1 - WEIGHT_TOLERANCE)
    if attribute.kind == "numeric":
        means = _compute_means(groups[is_present], attribute.values[is_present], weight[is_present], count)
        return replace(attribute, values=np.where(missing_groups, np.nan, means)[groups])
    find_places = _find_medians if attribute.kind == "ordinal" else _find_modes if attribute.taxonomy is None else None
    if find_places is not None:
        places = find_places(groups[is_present], attribute.values[is_present], weight[is_present], count)
        return replace(attribute, values=np.where(missing_groups, ABSENT, places)[groups])
    return _compute_nominal_centroids(attribute, groups, weight, missing_groups)


def _compute_means(groups: Integers, values: Floats, weight: Floats, count: int) -> Floats:
    """Means as differences from one value of the group, so that those of equal values are that value exactly."""
    anchors = np.zeros(count)
    anchors[groups] = values
    sums = np.bincount(groups, weight * (values - anchors[groups]), count)
    group_weights = np.bincount(groups, weight, count)
    means: Floats = anchors + sums / np.where(group_weights > 0, group_weights, 1.0)
    return means


def _find_medians(groups: Integers, values: Integers, weight: Floats, count: int) -> Integers:
    """The first place with half of the group's weight at it or before."""
    pair_groups, pair_places, pair_weights = _sum_pair_weights(groups, values, weight)
    totals = np.bincount(pair_groups, pair_weights, count)
    half = 2 * _compute_running_sums(pair_groups, pair_weights) >= totals[pair_groups] * (1 - WEIGHT_TOLERANCE)
    return _pick_first(pair_groups[half], pair_places[half], count)


def _compute_running_sums(groups: Integers, weights: Floats) -> Floats:
    """Running sums that start afresh in each group, so that none is rounded by another; groups are in order."""
    sums, shift = weights.copy(), 1
    before = np.arange(len(groups)) - np.searchsorted(groups, groups)
    while len(far := np.flatnonzero(before >= shift)):  # each sum holds `shift` weights, or all from its group's first
        sums[far] += sums[far - shift]
        shift *= 2
    return sums


def _find_modes(groups: Integers, values: Integers, weight: Floats, count: int) -> Integers:
    """The place with the most weight."""
    pair_groups, pair_places, pair_weights = _sum_pair_weights(groups, values, weight)
    most = np.zeros(count)
    np.maximum.at(most, pair_groups, pair_weights)
    best = pair_weights >= most[pair_groups] * (1 - WEIGHT_TOLERANCE)
    return _pick_first(pair_groups[best], pair_places[best], count)


def _sum_pair_weights(groups: Integers, values: Integers, weight: Floats) -> tuple[Integers, Integers, Floats]:
    """The groups with their values, each pair once and in order, and its weight."""
    span = int(values.max(initial=0)) + 1
    pairs, inverse = np.unique(groups * span + values, return_inverse=True)
    pair_weights: Floats = np.bincount(inverse, weight, len(pairs)).astype(np.float64)
    return pairs // span, pairs % span, pair_weights


def _pick_first(groups: Integers, values: Integers, count: int) -> Integers:
    """The first value listed for each group; groups are in order."""
    first_values = np.full(count, ABSENT, dtype=np.int64)
    distinct_groups, places = np.unique(groups, return_index=True)
    first_values[distinct_groups] = values[places]
    return first_values


def _compute_nominal_centroids(
    attribute: Attribute, groups: Integers, weight: Floats, missing_groups: NDArray[np.bool_]
) -> Attribute:
    """Formula 6.4: the values become concepts, which join the categories where they are not among them."""
    taxonomy = attribute.taxonomy
    assert taxonomy is not None
    is_present = ~attribute.missing
    pair_groups, pair_places, pair_weights = _sum_pair_weights(
        groups[is_present], attribute.values[is_present], weight[is_present]
    )
    concepts = tuple(dict.fromkeys((*attribute.categories, *taxonomy.ancestors)))
    distances = compute_semantic_distances(taxonomy, attribute.categories, concepts)
    is_ancestor = _mark_ancestors(taxonomy, attribute.categories, concepts)
    best = np.full(len(missing_groups), ABSENT, dtype=np.int64)
    for start in range(0, len(missing_groups), GROUPS_PER_BATCH):
        in_batch = (pair_groups >= start) & (pair_groups < start + GROUPS_PER_BATCH)
        counts = np.zeros((min(GROUPS_PER_BATCH, len(missing_groups) - start), len(attribute.categories)))
        counts[pair_groups[in_batch] - start, pair_places[in_batch]] = pair_weights[in_batch]
        marginality = np.where((counts > 0).astype(np.float64) @ is_ancestor > 0, counts @ distances, np.inf)
        least, tolerance = marginality.min(axis=1, keepdims=True), WEIGHT_TOLERANCE * counts.sum(axis=1, keepdims=True)
        best[start : start + GROUPS_PER_BATCH] = np.argmax(marginality <= least + tolerance, axis=1)
    best[missing_groups] = ABSENT
    used = concepts[: max(len(attribute.categories), int(best.max(initial=0)) + 1)]
    return replace(attribute, values=best[groups], categories=used)


def _mark_ancestors(taxonomy: Taxonomy, categories: tuple[str, ...], concepts: tuple[str, ...]) -> Floats:
    """1 where a concept is a category or above it: with its values, what a group's least taxonomy is made of."""
    return np.array([[concept in taxonomy.ancestors[name] for concept in concepts] for name in categories], np.float64)
