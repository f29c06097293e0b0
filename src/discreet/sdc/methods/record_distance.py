"""Distances between records (formula 6.7 of the thesis), for numeric, ordinal, nominal and mixed ones; group centroids.

Numbers and places of ordinal values are coordinates; a nominal value is one of a list, with formula 6.6 between any
two (of a list without a taxonomy, any two are as far apart as in `Taxonomy.flat`). Squared distances add up over
attributes, each divided by the square of its scale.

What a missing value means, here and to every method: a missing number or ordinal value stands in the middle of the
domain and, in a coordinate of its own, as far from every present value as the domain is wide, so that distances stay
Euclidean; a missing nominal value is one more category, at 6.6's greatest distance 1 from all others. In rankings it
comes last, after the greatest. Two missing values are alike. The centroid of a group is its mean, its lower median, or
its least marginal concept (formula 6.4); it is missing where more than half of the group's values (by weight) are, and
otherwise that of the present ones. Where quasi-identifiers are compared and in distributions "missing" is one more
value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.formatting import format_number
from discreet.priors.taxonomy import Taxonomy
from discreet.sdc.table import ABSENT, Attribute, Floats, Integers, Table

Scale = Literal["domain", "deviation"] | Sequence[float] | None
"""Raw values; divided by the domain's width, as 6.7 asks; by the deviation; or by one number for each attribute."""

FLAT_DISTANCE = math.log2(5 / 3)
"""Formula 6.6 between two categories that have only a root in common."""

MAX_COORDINATE = 1e150
"""Coordinates beyond this have squares that no float holds."""

MAX_CATEGORIES = 4096
"""A nominal attribute with more is refused: distances between all pairs are held."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordSpace:
    """Records as places between which d²(x, y) = |points_x - points_y|² + Σ_c squares[c][codes_x[c], codes_y[c]]."""

    points: Floats
    codes: Integers
    squares: tuple[Floats, ...]

    @property
    def rows(self) -> int:
        """The number of records."""
        return len(self.points)

    def take(self, rows: Integers | slice) -> RecordSpace:
        """These records alone, in this order."""
        return RecordSpace(self.points[rows], self.codes[rows], self.squares)


def build_spaces(tables: Sequence[Table], scale: Scale) -> list[RecordSpace]:
    """One space for all tables, so that distances between their records make sense; the first one sets the scale.

    The tables have the same columns of the same kinds; nominal values may be any concepts of the taxonomy.
    """
    first = tables[0]
    if any(_list_kinds(table) != _list_kinds(first) for table in tables):
        raise InvalidInput("tables can be compared only where they have the same columns of the same kinds")
    columns = [[table[name] for table in tables] for name in first]
    scaled = list(zip(columns, _compute_scales(first, scale), strict=True))
    ordered = [(versions, divisor) for versions, divisor in scaled if versions[0].kind != "nominal"]
    nominal = [(versions, divisor) for versions, divisor in scaled if versions[0].kind == "nominal"]
    lists = [_list_concepts(versions) for versions, _ in nominal]
    squares = tuple(
        (_append_missing(compute_semantic_distances(versions[0].taxonomy, concepts, concepts)) / divisor) ** 2
        for (versions, divisor), concepts in zip(nominal, lists, strict=True)
    )
    spaces = []
    for index, table in enumerate(tables):
        points = _build_points([(versions, versions[index], divisor) for versions, divisor in ordered], table.rows)
        labels = [(versions[index], concepts) for (versions, _), concepts in zip(nominal, lists, strict=True)]
        spaces.append(RecordSpace(points, _build_codes(labels, table.rows), squares))
    return spaces


def _list_kinds(table: Table) -> list[tuple[str, str]]:
    return [(name, table[name].kind) for name in table]


def build_weighted_spaces(tables: Sequence[Table], scale: Scale) -> tuple[list[RecordSpace], Floats]:
    """One space for all tables in which ties are exact, and the weight of each coordinate's squared difference.

    `build_spaces` divides before anything is subtracted, which rounds, and so parts whole numbers that are as near.
    Here coordinates are divided by powers of two alone; the rest of each scale is in the weights, the first of which is
    1, so that columns as wide as the first add up without rounding. All distances have one factor that means nothing.
    """
    scales = _compute_scales(tables[0], scale)
    is_ordered = [attribute.kind != "nominal" for attribute in tables[0].attributes.values()]
    unit = next((math.frexp(divisor)[0] for divisor, ordered in zip(scales, is_ordered, strict=True) if ordered), 1.0)
    powers, weights = [], []
    for name, scale_divisor, ordered in zip(tables[0], scales, is_ordered, strict=True):
        divisor = scale_divisor / unit
        powers.append(math.ldexp(0.5, math.frexp(divisor)[1]) if ordered else divisor)
        if ordered:
            has_missing = any(bool(table[name].missing.any()) for table in tables)
            weights += [(powers[-1] / divisor) ** 2] * (1 + has_missing)
    return build_spaces(tables, powers), np.array(weights)


def compute_semantic_distances(
    taxonomy: Taxonomy | None, first_labels: Sequence[str], second_labels: Sequence[str]
) -> Floats:
    """Formula 6.6 between each of the first and each of the second labels."""
    if taxonomy is None:
        is_equal = [[first == second for second in second_labels] for first in first_labels]
        shape = len(first_labels), len(second_labels)
        return np.where(np.array(is_equal, dtype=bool).reshape(shape), 0.0, FLAT_DISTANCE)
    positions = {concept: place for place, concept in enumerate(taxonomy.ancestors)}
    first, second = (_encode_ancestors(taxonomy, positions, labels) for labels in (first_labels, second_labels))
    common = first @ second.T
    union = first.sum(axis=1)[:, None] + second.sum(axis=1)[None, :] - common
    return np.asarray(np.log2(1 + (union - common) / union))


def _encode_ancestors(taxonomy: Taxonomy, positions: dict[str, int], concepts: Sequence[str]) -> Floats:
    indicators = np.zeros((len(concepts), len(positions)))
    for row, concept in enumerate(concepts):
        indicators[row, [positions[ancestor] for ancestor in taxonomy.get_ancestors(concept)]] = 1
    return indicators


def order_depth_first(taxonomy: Taxonomy | None, categories: Sequence[str]) -> list[int]:
    """The places of the categories, near concepts side by side and siblings by name; without a taxonomy as listed."""
    if taxonomy is None:
        return list(range(len(categories)))
    depths = {concept: len(ancestors) for concept, ancestors in taxonomy.ancestors.items()}
    paths = [sorted((depths[name], name) for name in taxonomy.get_ancestors(category)) for category in categories]
    return sorted(range(len(paths)), key=paths.__getitem__)


def find_boundary_categories(attribute: Attribute) -> tuple[int, int]:
    """Formulas 6.2 and 6.3: the most marginal category and the one farthest from it, by place; ties to the first."""
    distances = compute_semantic_distances(attribute.taxonomy, attribute.categories, attribute.categories)
    first = int(np.argmax([math.fsum(row) for row in distances.tolist()]))
    return first, int(np.argmax(distances[first]))


def compute_domain_width(attribute: Attribute) -> float:
    """How far apart the boundaries of the domain are; 1 where it has one value only."""
    if attribute.kind != "nominal":
        return attribute.upper - attribute.lower or 1.0
    if len(attribute.categories) < 2:
        return 1.0
    ends = [[attribute.categories[place]] for place in find_boundary_categories(attribute)]
    return float(compute_semantic_distances(attribute.taxonomy, *ends)[0, 0])


def _compute_deviation(attribute: Attribute) -> float:
    """The standard deviation: the root of half the mean squared distance of two rows; 1 where it is 0."""
    present = attribute.values[~attribute.missing]
    if attribute.kind != "nominal":
        return (float(np.std(present)) if len(present) else 0.0) or 1.0
    shares = np.bincount(present, minlength=len(attribute.categories)) / max(len(present), 1)
    distances = compute_semantic_distances(attribute.taxonomy, attribute.categories, attribute.categories)
    return math.sqrt(float(shares @ (distances**2) @ shares) / 2) or 1.0


def _compute_scales(table: Table, scale: Scale) -> list[float]:
    """The divisor of each attribute's distances."""
    attributes = list(table.attributes.values())
    for attribute in attributes:
        if attribute.kind == "nominal" and len(attribute.categories) > MAX_CATEGORIES:
            raise InvalidInput(
                f"the column {attribute.name[:40]!r} has {len(attribute.categories)} categories; distances are held "
                f"between at most {MAX_CATEGORIES}: leave it out, or group its values first"
            )
    if scale is None:
        return [1.0] * len(attributes)
    if scale == "domain":
        return [compute_domain_width(attribute) for attribute in attributes]
    if scale == "deviation":
        return [_compute_deviation(attribute) for attribute in attributes]
    return _parse_scale(scale, len(attributes))


def _parse_scale(scale: object, count: int) -> list[float]:
    wrong = InvalidInput(f"scale is None, 'domain', 'deviation' or {count} positive numbers, one for each column")
    if isinstance(scale, str):
        raise wrong
    try:
        numbers = [float(number) for number in scale]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise wrong from None
    if len(numbers) != count or not all(0 < number < math.inf for number in numbers):
        raise wrong
    return numbers


def _build_points(ordered: Sequence[tuple[Sequence[Attribute], Attribute, float]], rows: int) -> Floats:
    """The coordinates; a second one for an attribute of which any table misses a value."""
    has_missing = [any(bool(version.missing.any()) for version in versions) for versions, _, _ in ordered]
    points = np.empty((rows, len(ordered) + sum(has_missing)))
    column = 0
    for (versions, attribute, divisor), missing in zip(ordered, has_missing, strict=True):
        np.divide(attribute.values, divisor, out=points[:, column])
        points[attribute.missing, column] = (attribute.lower + attribute.upper) / 2 / divisor
        if np.abs(points[:, column]).max(initial=0) > MAX_COORDINATE:
            raise InvalidInput(
                f"the column {attribute.name[:40]!r} holds numbers beyond "
                f"{format_number(MAX_COORDINATE)}; scale them down"
            )
        column += 1
        if missing:
            points[:, column] = np.where(attribute.missing, compute_domain_width(versions[0]) / divisor, 0.0)
            column += 1
    return points


def _list_concepts(attributes: Sequence[Attribute]) -> tuple[str, ...]:
    """Everything that a nominal attribute can be: its categories, then the taxonomy's other concepts."""
    taxonomy = attributes[0].taxonomy
    labels = [name for attribute in attributes[1:] for name in attribute.categories]
    return tuple(dict.fromkeys((*attributes[0].categories, *(labels if taxonomy is None else taxonomy.ancestors))))


def _append_missing(distances: Floats) -> Floats:
    """One more category, at distance 1 from the others."""
    wider = np.ones((len(distances) + 1, len(distances) + 1))
    wider[:-1, :-1] = distances
    wider[-1, -1] = 0.0
    return wider


def _build_codes(nominal: Sequence[tuple[Attribute, Sequence[str]]], rows: int) -> Integers:
    codes = np.empty((rows, len(nominal)), dtype=np.int64)
    for column, (attribute, labels) in enumerate(nominal):
        places = {name: place for place, name in enumerate(labels)}
        if not set(attribute.categories) <= set(places):
            raise InvalidInput(f"the column {attribute.name[:40]!r} has categories that its taxonomy does not")
        # The place -1 of a missing value picks the last entry.
        lookup = np.array([*(places[name] for name in attribute.categories), len(labels)], dtype=np.int64)
        codes[:, column] = lookup[np.where(attribute.values == ABSENT, -1, attribute.values)]
    return codes


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
    if attribute.kind == "nominal" and attribute.taxonomy is not None:
        return _compute_nominal_centroids(attribute, attribute.taxonomy, groups, weight, missing_groups)
    find_places = _find_medians if attribute.kind == "ordinal" else _find_modes
    places = find_places(groups[is_present], attribute.values[is_present], weight[is_present], count)
    return replace(attribute, values=np.where(missing_groups, ABSENT, places)[groups])


def _compute_means(groups: Integers, values: Floats, weight: Floats, count: int) -> Floats:
    """Means as differences from one value of the group, so that those of equal values are that value exactly."""
    anchors = np.zeros(count)
    anchors[groups] = values
    sums = np.bincount(groups, weight * (values - anchors[groups]), count)
    group_weights = np.bincount(groups, weight, count)
    return anchors + sums / np.where(group_weights > 0, group_weights, 1.0)


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
    greatest_weights = np.zeros(count)
    np.maximum.at(greatest_weights, pair_groups, pair_weights)
    best = pair_weights >= greatest_weights[pair_groups] * (1 - WEIGHT_TOLERANCE)
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
    attribute: Attribute, taxonomy: Taxonomy, groups: Integers, weight: Floats, missing_groups: NDArray[np.bool_]
) -> Attribute:
    """Formula 6.4: the values become concepts, which join the categories where they are not among them."""
    is_present = ~attribute.missing
    pair_groups, pair_places, pair_weights = _sum_pair_weights(
        groups[is_present], attribute.values[is_present], weight[is_present]
    )
    concepts = tuple(dict.fromkeys((*attribute.categories, *taxonomy.ancestors)))
    distances = compute_semantic_distances(taxonomy, attribute.categories, concepts)
    # With its values, the concepts above them are what a group's least taxonomy is made of.
    ancestors = [taxonomy.ancestors[name] for name in attribute.categories]
    is_ancestor = np.array([[concept in above for concept in concepts] for above in ancestors], np.float64)
    best = np.full(len(missing_groups), ABSENT, dtype=np.int64)
    for start in range(0, len(missing_groups), GROUPS_PER_BATCH):
        in_batch = (pair_groups >= start) & (pair_groups < start + GROUPS_PER_BATCH)
        counts = np.zeros((min(GROUPS_PER_BATCH, len(missing_groups) - start), len(attribute.categories)))
        counts[pair_groups[in_batch] - start, pair_places[in_batch]] = pair_weights[in_batch]
        marginality = np.where((counts > 0).astype(np.float64) @ is_ancestor > 0, counts @ distances, np.inf)
        bound = marginality.min(axis=1, keepdims=True) + WEIGHT_TOLERANCE * counts.sum(axis=1, keepdims=True)
        best[start : start + GROUPS_PER_BATCH] = np.argmax(marginality <= bound, axis=1)
    best[missing_groups] = ABSENT
    labels = concepts[: max(len(attribute.categories), int(best.max(initial=0)) + 1)]
    return replace(attribute, values=best[groups], categories=labels)
