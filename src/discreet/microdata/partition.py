"""A table parted in groups of at least k rows: near by what intruders know, or near by what is confidential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from discreet.kernel.entropy import Entropy
from discreet.microdata.centroids import centroids
from discreet.microdata.checks import Reading, check_columns, check_informative, check_k, row_strata, row_weights
from discreet.microdata.distances import Scale, Space, spaces
from discreet.microdata.diversity import Floors, floor_tests
from discreet.microdata.merging import join_nearest, join_runs
from discreet.microdata.reading import read_table
from discreet.microdata.table import Attribute, Floats, Table

Groups = NDArray[np.int64]
NO_FLOORS: Floors = {}


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """How groups are made: the method, what differences are divided by, weights, and strata that no group crosses."""

    method: str
    scale: Scale
    weights: Floats | None
    strata: Groups | None
    entropy: Entropy | None


def way(
    table: Table,
    method: str = "mdav",
    scale: Scale = "domain",
    weights: object = None,
    strata: object = None,
    entropy: Entropy | None = None,
) -> Way:
    """The way, with weights and strata for each row or by the name of a column."""
    return Way(method, scale, row_weights(table, weights), row_strata(table, strata), entropy)


def near_groups(table: Table, k: int, columns: Sequence[str], how: Way, floors: Floors = NO_FLOORS) -> Groups:
    """Groups of rows that are near by these columns; one that falls short of a floor joins the nearest group."""
    from discreet.microdata.microaggregate import microaggregate

    chosen = table.select(columns)
    groups = microaggregate(
        chosen, k, how.method, how.scale, weights=how.weights, strata=how.strata, entropy=how.entropy
    )
    if not floors:
        return groups
    return join_nearest(groups, _centres(chosen, groups, how), _strata(table, how), floor_tests(table, floors))


def ranked_groups(table: Table, k: int, column: str, how: Way, floors: Floors = NO_FLOORS) -> Groups:
    """Algorithm 7.1: runs of k of the rows in the order of one column, from both ends; equal values by their row.

    A run that falls short of a floor joins the next one.
    """
    from discreet.microdata.microaggregate import microaggregate

    line = on_a_line(table[column])
    groups = microaggregate(Table({column: line}), k, "ranking", strata=how.strata)
    if not floors:
        return groups
    strata = _strata(table, how)
    return join_runs(groups, np.lexsort((line.values, strata)), strata, floor_tests(table, floors))


def confidential_groups(
    table: Table, k: int, confidential: Sequence[str], how: Way, floors: Floors = NO_FLOORS
) -> Groups:
    """Groups of rows with near confidential values: one column by Algorithm 7.1, several as one by microaggregation."""
    if len(confidential) == 1:
        return ranked_groups(table, k, confidential[0], how, floors)
    return near_groups(table, k, confidential, how, floors)


def partition_by_confidential(
    table: object,
    k: int,
    confidential: object,
    *,
    scale: Scale = "domain",
    weights: object = None,
    strata: object = None,
    **reading: Unpack[Reading],
) -> Groups:
    """The groups of Algorithm 7.1 by one confidential column; several are one compound, microaggregated by MDAV."""
    original = read_table(table, **reading)
    least, names = check_k(k, original.rows), check_columns(original, confidential, "confidential")
    for name in names:
        check_informative(original[name])
    return confidential_groups(original, least, names, way(original, "mdav", scale, weights, strata))


def on_a_line(attribute: Attribute) -> Attribute:
    """The attribute in numbers that rank its values, missing ones last.

    Nominal values go in the taxonomy's depth-first order, an inner concept before those under it and siblings by
    name; without a taxonomy in that of the list of categories.
    """
    if attribute.kind == "numeric":
        return attribute
    ranks = np.append(np.arange(len(attribute.categories), dtype=np.float64), np.nan)  # the place -1 is the last
    taxonomy = attribute.taxonomy
    if attribute.kind == "nominal" and taxonomy is not None:
        above = {concept: len(ups) for concept, ups in taxonomy.ancestors.items()}
        paths = [sorted((above[up], up) for up in taxonomy.of_concept(each)) for each in attribute.categories]
        ranks[sorted(range(len(paths)), key=paths.__getitem__)] = np.arange(len(paths))
    return replace(attribute, kind="numeric", values=ranks[attribute.values], categories=(), taxonomy=None)


def sizes_told(groups: Mapping[str, Groups]) -> dict[str, object]:
    """How many groups there are and how large they are, of each partition."""
    sizes = {name: np.bincount(labels) for name, labels in groups.items()}
    return {
        name: {"groups": len(each), "smallest": int(each.min()), "largest": int(each.max())}
        for name, each in sizes.items()
    }


def _strata(table: Table, how: Way) -> Groups:
    return np.zeros(table.rows, dtype=np.int64) if how.strata is None else how.strata


def _centres(table: Table, groups: Groups, how: Way) -> Space:
    """Where the groups lie: their centroids."""
    first = np.unique(groups, return_index=True)[1]
    centres = Table({name: centroids(each, groups, how.weights).take(first) for name, each in table.attributes.items()})
    return spaces([table, centres], how.scale)[1]
