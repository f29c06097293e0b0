"""t-closeness by bucketization, for any t of at least 1 and any number of rows (thesis 7.2, closeness.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Unpack

import numpy as np

from discreet.errors import Internal
from discreet.guarantee import Guarantee
from discreet.kernel.entropy import Entropy
from discreet.microdata.anatomy import check_name, counted, renumbered
from discreet.microdata.arranging import Arrangement, Wish, arranged, check_form
from discreet.microdata.bucketing import bucket_values, bucketing
from discreet.microdata.checks import Reading, check_informative, check_k, check_roles
from discreet.microdata.closeness import GroupsApart, groups_apart
from discreet.microdata.dealing import deal, plan_deals
from discreet.microdata.permuting import permuted_inside
from discreet.microdata.protected import Protected
from discreet.microdata.reading import read_table
from discreet.microdata.table import Places, Table

ASSUMPTIONS = (
    "it bounds what one learns who knows only how often each bucket occurs in the table and holds the members of a "
    "group alike: to such a one a bucket becomes at most t times more or less likely",
    "between two groups a bucket may be up to t squared times as likely",
    "who knows the values of all others in a group knows the last; who knows how groups are made may learn more",
    "it is not differential privacy for any epsilon, does not compose, and hidden groups do not change that",
)


def t_close(
    table: object,
    t: object,
    k: int,
    quasi: object,
    confidential: object,
    *,
    buckets: int | None = None,
    groups_per_bucket: int | None = None,
    form: str = "hidden",
    entropy: Entropy | None = None,
    **reading: Unpack[Reading],
) -> Protected:
    """The quasi-identifiers as they are beside confidential values in buckets, t-close in groups of at least k rows.

    With form="hidden" the buckets of a group change places among its rows, and groups are not released; with "anatomy"
    two tables share a `group`. Without `buckets` there are floor(t) + 1, and there are as many groups for each as k
    allows; fewer where t needs it. Columns that are neither quasi-identifiers nor confidential are left out.
    """
    original = read_table(table, **reading)
    known, secret = check_roles(original, quasi, confidential, informed=False)
    wish, shape = Wish.of(t, check_k(k, original.rows), buckets, groups_per_bucket), check_form(form)
    for name in secret:
        check_informative(original[name])
    values = original.select(secret)
    bucket_of = cache(bucketing(values))
    found = arranged(wish, original.rows, lambda asked: tuple(np.bincount(bucket_of(asked)).tolist()))
    bucket = bucket_of(found.asked)
    order = permuted_inside(bucket, entropy)[np.argsort(bucket, kind="stable")]
    groups = deal(plan_deals(found.sizes, wish.t, found.per_bucket), bucket, order)
    parted = Parted(bucket, groups, bucket[permuted_inside(groups, entropy)] if shape == "hidden" else None)
    return closed(original.select(known), values, wish, found, parted, entropy)


@dataclass(frozen=True, slots=True, eq=False)
class Parted:
    """The bucket and the group of every row, and the bucket it carries after those of a group have changed places."""

    bucket: Places
    groups: Places
    moved: Places | None
    """None where groups are released instead."""


def closed(
    known: Table, values: Table, wish: Wish, found: Arrangement, parted: Parted, entropy: Entropy | None
) -> Protected:
    """The release of quasi-identifiers and confidential values that are parted already."""
    measured = _measured(parted, wish)
    stand = bucket_values(values, parted.bucket)
    facts = _facts(found, stand, measured)
    promise = replace(Guarantee.t_closeness(wish.t, "ratio"), assumptions=ASSUMPTIONS)
    if parted.moved is not None:
        released = known.put(*stand.take(parted.moved).attributes.values())
        return Protected(released, promise, {"records": parted.groups}, np.arange(known.rows), facts=facts)
    for name in (*known, *values):
        check_name(name)
    numbers = renumbered(parted.groups, entropy)
    released = known.put(read_table({"group": numbers})["group"])
    second = counted(stand.take(parted.bucket), numbers)
    return Protected(released, promise, {"records": numbers}, np.arange(known.rows), second, facts)


def _measured(parted: Parted, wish: Wish) -> GroupsApart:
    """How far the groups are from the whole; that they are as asked is checked in whole numbers."""
    measured = groups_apart(parted.groups, parted.bucket if parted.moved is None else parted.moved)
    if measured.worst.ratio > wish.t or measured.smallest < wish.k:
        raise Internal("the groups that were made are not as close, or not as large, as was asked")
    return measured


def _facts(found: Arrangement, stand: Table, measured: GroupsApart) -> dict[str, object]:
    """What may be told: the buckets, the groups' sizes, and how close they are, as numbers and exactly."""
    attributes = list(stand.attributes.values())
    ordered = len(attributes) == 1 and attributes[0].kind != "nominal"
    values = [{name: _plain(stand[name].array()[place]) for name in stand} for place in range(stand.rows)]
    exact: dict[str, Fraction] = {
        "t_ratio": measured.worst.ratio,
        "t_emd": measured.worst.emd if ordered else measured.worst.variation,
        "t_between_groups": measured.between,
    }
    return {
        "buckets": [{"rows": rows, "value": value} for rows, value in zip(found.sizes, values, strict=True)],
        "groups_per_bucket": found.per_bucket,
        "records": {"groups": measured.groups, "smallest": measured.smallest, "largest": measured.largest},
        **{name: float(value) for name, value in exact.items()},
        "exact": {name: str(value) for name, value in exact.items()},
    }


def _plain(value: object) -> object:
    """A value as JSON holds it."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    number = value.item() if isinstance(value, np.generic) else value
    return None if number != number else number  # noqa: PLR0124 - NaN alone differs from itself
