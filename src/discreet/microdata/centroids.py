"""What stands for a group: its mean, its lower median, or its least marginal concept (formula 6.4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.distances import differences
from discreet.microdata.table import ABSENT, Attribute, Floats, Places
from discreet.taxonomy import Taxonomy

AT_ONCE = 4096
"""Groups whose marginalities are computed together."""

ALIKE = 1e-9
"""Sums of weights in a group are equal where they differ by no more than this share: that is rounding."""


def centroids(attribute: Attribute, groups: NDArray[np.int64], weights: Floats | None = None) -> Attribute:
    """Every value replaced by its group's centroid; missing where more than half of the group's weight is.

    The mean of numbers; the lower median of ordinal values; of nominal ones the concept of their taxonomy with the
    least sum of distances to them, or the most frequent value where there is no taxonomy. Ties go to the first place.
    """
    count = int(groups.max(initial=-1)) + 1
    weight = np.ones(len(groups)) if weights is None else np.asarray(weights, dtype=np.float64)
    here = ~attribute.missing
    totals = np.bincount(groups, weight, count)
    held = np.bincount(groups[here], weight[here], count)
    lost = 2 * held < totals * (1 - ALIKE)
    if attribute.kind == "numeric":
        means = _means(groups[here], attribute.values[here], weight[here], count)
        return replace(attribute, values=np.where(lost, np.nan, means)[groups])
    pick = _medians if attribute.kind == "ordinal" else _modes if attribute.taxonomy is None else None
    if pick is not None:
        places = pick(groups[here], attribute.values[here], weight[here], count)
        return replace(attribute, values=np.where(lost, ABSENT, places)[groups])
    return _nominal(attribute, groups, weight, lost)


def _means(groups: Places, values: Floats, weight: Floats, count: int) -> Floats:
    """Means as differences from one value of the group, so that those of equal values are that value exactly."""
    one = np.zeros(count)
    one[groups] = values
    sums = np.bincount(groups, weight * (values - one[groups]), count)
    held = np.bincount(groups, weight, count)
    means: Floats = one + sums / np.where(held > 0, held, 1.0)
    return means


def _medians(groups: Places, values: Places, weight: Floats, count: int) -> Places:
    """The first place with half of the group's weight at it or before."""
    each, place, weighed = _tally(groups, values, weight)
    totals = np.bincount(each, weighed, count)
    half = 2 * _running(each, weighed) >= totals[each] * (1 - ALIKE)
    return _first(each[half], place[half], count)


def _running(groups: Places, weighed: Floats) -> Floats:
    """Running sums that start afresh in each group, so that none is rounded by another; groups are in order."""
    sums, shift = weighed.copy(), 1
    before = np.arange(len(groups)) - np.searchsorted(groups, groups)
    while len(far := np.flatnonzero(before >= shift)):  # each sum holds `shift` weights, or all from its group's first
        sums[far] += sums[far - shift]
        shift *= 2
    return sums


def _modes(groups: Places, values: Places, weight: Floats, count: int) -> Places:
    """The place with the most weight."""
    each, place, weighed = _tally(groups, values, weight)
    most = np.zeros(count)
    np.maximum.at(most, each, weighed)
    best = weighed >= most[each] * (1 - ALIKE)
    return _first(each[best], place[best], count)


def _tally(groups: Places, values: Places, weight: Floats) -> tuple[Places, Places, Floats]:
    """The groups with their values, each pair once and in order, and its weight."""
    span = int(values.max(initial=0)) + 1
    pairs, inverse = np.unique(groups * span + values, return_inverse=True)
    weighed: Floats = np.bincount(inverse, weight, len(pairs)).astype(np.float64)
    return pairs // span, pairs % span, weighed


def _first(groups: Places, values: Places, count: int) -> Places:
    """The first value listed for each group; groups are in order."""
    found = np.full(count, ABSENT, dtype=np.int64)
    each, places = np.unique(groups, return_index=True)
    found[each] = values[places]
    return found


def _nominal(attribute: Attribute, groups: Places, weight: Floats, lost: NDArray[np.bool_]) -> Attribute:
    """Formula 6.4: the values become concepts, which join the categories where they are not among them."""
    taxonomy = attribute.taxonomy
    assert taxonomy is not None
    here = ~attribute.missing
    each, place, weighed = _tally(groups[here], attribute.values[here], weight[here])
    concepts = tuple(dict.fromkeys((*attribute.categories, *taxonomy.ancestors)))
    apart = differences(taxonomy, attribute.categories, concepts)
    above = _above(taxonomy, attribute.categories, concepts)
    best = np.full(len(lost), ABSENT, dtype=np.int64)
    for start in range(0, len(lost), AT_ONCE):
        mine = (each >= start) & (each < start + AT_ONCE)
        counts = np.zeros((min(AT_ONCE, len(lost) - start), len(attribute.categories)))
        counts[each[mine] - start, place[mine]] = weighed[mine]
        marginality = np.where((counts > 0).astype(np.float64) @ above > 0, counts @ apart, np.inf)
        least, alike = marginality.min(axis=1, keepdims=True), ALIKE * counts.sum(axis=1, keepdims=True)
        best[start : start + AT_ONCE] = np.argmax(marginality <= least + alike, axis=1)
    best[lost] = ABSENT
    used = concepts[: max(len(attribute.categories), int(best.max(initial=0)) + 1)]
    return replace(attribute, values=best[groups], categories=used)


def _above(taxonomy: Taxonomy, categories: tuple[str, ...], concepts: tuple[str, ...]) -> Floats:
    """1 where a concept is a category or above it: with its values, what a group's least taxonomy is made of."""
    return np.array([[concept in taxonomy.ancestors[name] for concept in concepts] for name in categories], np.float64)
