"""A table parted in groups of at least k rows: near by what intruders know, or near by what is confidential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from discreet.kernel.entropy import Entropy
from discreet.microdata.centroids import compute_centroids
from discreet.microdata.checks import (
    TableReadOptions,
    check_columns,
    check_informative,
    check_k,
    read_row_strata,
    read_row_weights,
)
from discreet.microdata.distances import RecordSpace, Scale, build_spaces
from discreet.microdata.diversity import Floors, build_floor_tests
from discreet.microdata.merging import join_nearest, join_runs
from discreet.microdata.reading import read_table
from discreet.microdata.table import Attribute, Floats, Table

Groups = NDArray[np.int64]
NO_FLOORS: Floors = {}


@dataclass(frozen=True, slots=True, eq=False)
class GroupingOptions:
    """How groups are made: the method, what differences are divided by, weights, and strata that no group crosses."""

    method: str
    scale: Scale
    weights: Floats | None
    strata: Groups | None
    entropy: Entropy | None


def read_grouping_options(
    table: Table,
    method: str = "mdav",
    scale: Scale = "domain",
    weights: object = None,
    strata: object = None,
    entropy: Entropy | None = None,
) -> GroupingOptions:
    """The way, with weights and strata for each row or by the name of a column."""
    return GroupingOptions(method, scale, read_row_weights(table, weights), read_row_strata(table, strata), entropy)


def group_by_nearness(
    table: Table, k: int, columns: Sequence[str], options: GroupingOptions, floors: Floors = NO_FLOORS
) -> Groups:
    """Groups of rows that are near by these columns; one that falls short of a floor joins the nearest group."""
    from discreet.microdata.microaggregate import microaggregate

    selection = table.select(columns)
    groups = microaggregate(
        selection,
        k,
        options.method,
        options.scale,
        weights=options.weights,
        strata=options.strata,
        entropy=options.entropy,
    )
    if not floors:
        return groups
    return join_nearest(
        groups,
        _build_centroid_space(selection, groups, options),
        _get_strata(table, options),
        build_floor_tests(table, floors),
    )


def group_by_rank(table: Table, k: int, column: str, options: GroupingOptions, floors: Floors = NO_FLOORS) -> Groups:
    """Algorithm 7.1: runs of k of the rows in the order of one column, from both ends; equal values by their row.

    A run that falls short of a floor joins the next one.
    """
    from discreet.microdata.microaggregate import microaggregate

    ranks = convert_to_ranks(table[column])
    groups = microaggregate(Table({column: ranks}), k, "ranking", strata=options.strata)
    if not floors:
        return groups
    strata = _get_strata(table, options)
    return join_runs(groups, np.lexsort((ranks.values, strata)), strata, build_floor_tests(table, floors))


def group_by_confidential(
    table: Table, k: int, confidential: Sequence[str], options: GroupingOptions, floors: Floors = NO_FLOORS
) -> Groups:
    """Groups of rows with near confidential values: one column by Algorithm 7.1, several as one by microaggregation."""
    if len(confidential) == 1:
        return group_by_rank(table, k, confidential[0], options, floors)
    return group_by_nearness(table, k, confidential, options, floors)


def partition_by_confidential(
    table: object,
    k: int,
    confidential: object,
    *,
    scale: Scale = "domain",
    weights: object = None,
    strata: object = None,
    **reading: Unpack[TableReadOptions],
) -> Groups:
    """The groups of Algorithm 7.1 by one confidential column; several are one compound, microaggregated by MDAV."""
    original = read_table(table, **reading)
    min_size, names = check_k(k, original.rows), check_columns(original, confidential, "confidential")
    for name in names:
        check_informative(original[name])
    return group_by_confidential(
        original, min_size, names, read_grouping_options(original, "mdav", scale, weights, strata)
    )


def convert_to_ranks(attribute: Attribute) -> Attribute:
    """The attribute in numbers that rank its values, missing ones last.

    Nominal values go in the taxonomy's depth-first order, an inner concept before those under it and siblings by
    name; without a taxonomy in that of the list of categories.
    """
    if attribute.kind == "numeric":
        return attribute
    ranks = np.append(np.arange(len(attribute.categories), dtype=np.float64), np.nan)  # the place -1 is the last
    taxonomy = attribute.taxonomy
    if attribute.kind == "nominal" and taxonomy is not None:
        depths = {concept: len(ups) for concept, ups in taxonomy.ancestors.items()}
        paths = [
            sorted((depths[ancestor], ancestor) for ancestor in taxonomy.get_ancestors(category))
            for category in attribute.categories
        ]
        ranks[sorted(range(len(paths)), key=paths.__getitem__)] = np.arange(len(paths))
    return replace(attribute, kind="numeric", values=ranks[attribute.values], categories=(), taxonomy=None)


def summarize_group_sizes(groups: Mapping[str, Groups]) -> dict[str, object]:
    """How many groups there are and how large they are, of each partition."""
    sizes = {name: np.bincount(labels) for name, labels in groups.items()}
    return {
        name: {"groups": len(group_sizes), "smallest": int(group_sizes.min()), "largest": int(group_sizes.max())}
        for name, group_sizes in sizes.items()
    }


def _get_strata(table: Table, options: GroupingOptions) -> Groups:
    return np.zeros(table.rows, dtype=np.int64) if options.strata is None else options.strata


def _build_centroid_space(table: Table, groups: Groups, options: GroupingOptions) -> RecordSpace:
    """Where the groups lie: their centroids."""
    first = np.unique(groups, return_index=True)[1]
    centroids_table = Table(
        {
            name: compute_centroids(attribute, groups, options.weights).take(first)
            for name, attribute in table.attributes.items()
        }
    )
    return build_spaces([table, centroids_table], options.scale)[1]
