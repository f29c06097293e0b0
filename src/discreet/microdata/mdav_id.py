"""MDAV-ID: k-anonymity by microaggregation; every record gets the centroid of its group."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import numpy as np

from discreet.guarantee import Guarantee
from discreet.kernel.entropy import Entropy
from discreet.microdata.centroids import compute_centroids
from discreet.microdata.checks import TableReadOptions, check_columns, check_informative, check_k
from discreet.microdata.distances import Scale
from discreet.microdata.partition import group_by_nearness, read_grouping_options, summarize_group_sizes
from discreet.microdata.protected import ProtectedTable
from discreet.microdata.reading import read_table

ASSUMPTIONS = (
    "intruders know no column but those that were microaggregated; what else is in the table is as it was",
    "the confidential values of a group may be alike, and are then disclosed with nobody identified",
)


def mdav_id(
    table: object,
    k: int,
    columns: object,
    *,
    method: str = "mdav",
    scale: Scale = "domain",
    weights: object = None,
    strata: object = None,
    entropy: Entropy | None = None,
    **reading: Unpack[TableReadOptions],
) -> ProtectedTable:
    """The table with `columns` replaced by the centroids of groups of at least k rows; other columns as they are.

    k-anonymity with `columns` as quasi-identifiers (thesis 2.8). `method` and `scale` are those of `microaggregate`;
    `weights` and `strata` have one entry for each row, or name a column.
    """
    original = read_table(table, **reading)
    min_size, names = check_k(k, original.rows), check_columns(original, columns, "columns")
    for name in names:
        check_informative(original[name])
    options = read_grouping_options(original, method, scale, weights, strata, entropy)
    groups = {"records": group_by_nearness(original, min_size, names, options)}
    released = original.put(*(compute_centroids(original[name], groups["records"], options.weights) for name in names))
    guarantee = replace(Guarantee.k_anonymity(min_size), assumptions=ASSUMPTIONS)
    return ProtectedTable(released, guarantee, groups, np.arange(original.rows), facts=summarize_group_sizes(groups))
