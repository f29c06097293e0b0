"""The noise of the thesis's chapter 6 as it was, to reproduce its tables: it is NOT differentially private.

Every record has noise of its own, of a scale that fits one centroid moved by one record, with the full epsilon for
every attribute; and the domain was taken from the data. What it claims is therefore labelled `nominal`, and nothing is
published with it. The sound calibrations are in `discreet.synthetic`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from discreet.errors import InvalidInput
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import Entropy, get_entropy
from discreet.numeric import as_int, as_positive
from discreet.privacy.guarantee import Guarantee
from discreet.sdc.methods.microaggregate import microaggregate
from discreet.sdc.methods.record_distance import compute_centroids
from discreet.sdc.table import Attribute, Floats, Integers, Table

FINENESS = 2**30
"""Noise is a whole number of such parts of the domain's width: as fine as a float needs."""
WHY = "chapter 6 of the thesis: noise for one centroid on every record and attribute, which one record moves all of"


def release_nominally(
    table: Table, k: object, epsilon: object, entropy: Entropy | None = None, groups: Integers | None = None
) -> tuple[Table, Guarantee]:
    """Insensitive microaggregation, Laplace noise of scale width / (k epsilon) on every value, clipped to the domain.

    With k = 1 there is no microaggregation. A caller that releases a table many times hands in its groups, which are
    always the same (`group_insensitively`). For reproduction only.
    """
    size, loss = as_int(k, "k"), as_positive(epsilon, "epsilon")
    for name in table:
        _check_attribute(table[name])
    record_groups = group_insensitively(table, size) if groups is None else groups
    source = get_entropy(entropy)
    noisy = [_add_noise(compute_centroids(table[name], record_groups), size, loss, source) for name in table]
    return table.put(*noisy), Guarantee.nominal(loss, WHY)


def group_insensitively(table: Table, k: int) -> Integers:
    """The group of each record, before any noise."""
    return np.arange(table.rows) if k == 1 else microaggregate(table, k, "insensitive", "domain")


def _check_attribute(attribute: Attribute) -> None:
    if attribute.kind != "numeric" or attribute.missing.any():
        raise InvalidInput(
            f"the thesis's noise is for numbers without missing values; leave out the column {attribute.name[:40]!r}"
        )
    if attribute.upper <= attribute.lower:
        raise InvalidInput(f"the domain of the column {attribute.name[:40]!r} must be wider than a point")


def _add_noise(attribute: Attribute, k: int, epsilon: Fraction, entropy: Entropy) -> Attribute:
    width = attribute.upper - attribute.lower
    units = DiscreteLaplace(epsilon * k, FINENESS).sample_units(len(attribute.values), entropy)
    noise: Floats = units.astype(np.float64) * (width / FINENESS)
    return replace(attribute, values=np.clip(attribute.values + noise, attribute.lower, attribute.upper))
