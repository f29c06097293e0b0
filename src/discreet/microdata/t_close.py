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
from discreet.microdata.anatomy import check_anatomy_name, count_group_values, renumber_groups
from discreet.microdata.arranging import BucketPlan, ClosenessRequest, check_release_form, plan_buckets
from discreet.microdata.bucketing import build_bucket_values, choose_bucketing
from discreet.microdata.checks import TableReadOptions, check_informative, check_k, check_roles
from discreet.microdata.closeness import GroupsApart, groups_apart
from discreet.microdata.dealing import assign_rows, plan_deals
from discreet.microdata.permuting import permute_within_groups
from discreet.microdata.protected import ProtectedTable
from discreet.microdata.reading import read_table
from discreet.microdata.table import Integers, Table

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
    **reading: Unpack[TableReadOptions],
) -> ProtectedTable:
    """The quasi-identifiers as they are beside confidential values in buckets, t-close in groups of at least k rows.

    With form="hidden" the buckets of a group change places among its rows, and groups are not released; with "anatomy"
    two tables share a `group`. Without `buckets` there are floor(t) + 1, and there are as many groups for each as k
    allows; fewer where t needs it. Columns that are neither quasi-identifiers nor confidential are left out.
    """
    original = read_table(table, **reading)
    quasi_names, confidential_names = check_roles(original, quasi, confidential, informed=False)
    request, release_form = (
        ClosenessRequest.of(t, check_k(k, original.rows), buckets, groups_per_bucket),
        check_release_form(form),
    )
    for name in confidential_names:
        check_informative(original[name])
    values = original.select(confidential_names)
    assign_buckets = cache(choose_bucketing(values))
    bucket_plan = plan_buckets(request, original.rows, lambda count: tuple(np.bincount(assign_buckets(count)).tolist()))
    bucket = assign_buckets(bucket_plan.requested_buckets)
    order = permute_within_groups(bucket, entropy)[np.argsort(bucket, kind="stable")]
    groups = assign_rows(plan_deals(bucket_plan.sizes, request.t, bucket_plan.per_bucket), bucket, order)
    assignment = GroupAssignment(
        bucket, groups, bucket[permute_within_groups(groups, entropy)] if release_form == "hidden" else None
    )
    return build_t_close_release(original.select(quasi_names), values, request, bucket_plan, assignment, entropy)


@dataclass(frozen=True, slots=True, eq=False)
class GroupAssignment:
    """The bucket and the group of every row, and the bucket it carries after those of a group have changed places."""

    bucket: Integers
    groups: Integers
    released_buckets: Integers | None
    """None where groups are released instead."""


def build_t_close_release(
    quasi_table: Table,
    values: Table,
    request: ClosenessRequest,
    bucket_plan: BucketPlan,
    assignment: GroupAssignment,
    entropy: Entropy | None,
) -> ProtectedTable:
    """The release of quasi-identifiers and confidential values that are parted already."""
    closeness = _measure_closeness(assignment, request)
    representatives = build_bucket_values(values, assignment.bucket)
    facts = _summarize_facts(bucket_plan, representatives, closeness)
    guarantee = replace(Guarantee.t_closeness(request.t, "ratio"), assumptions=ASSUMPTIONS)
    if assignment.released_buckets is not None:
        released = quasi_table.put(*representatives.take(assignment.released_buckets).attributes.values())
        return ProtectedTable(
            released, guarantee, {"records": assignment.groups}, np.arange(quasi_table.rows), facts=facts
        )
    for name in (*quasi_table, *values):
        check_anatomy_name(name)
    numbers = renumber_groups(assignment.groups, entropy)
    released = quasi_table.put(read_table({"group": numbers})["group"])
    second = count_group_values(representatives.take(assignment.bucket), numbers)
    return ProtectedTable(released, guarantee, {"records": numbers}, np.arange(quasi_table.rows), second, facts)


def _measure_closeness(assignment: GroupAssignment, request: ClosenessRequest) -> GroupsApart:
    """How far the groups are from the whole; that they are as asked is checked in whole numbers."""
    closeness = groups_apart(
        assignment.groups, assignment.bucket if assignment.released_buckets is None else assignment.released_buckets
    )
    if closeness.worst.ratio > request.t or closeness.smallest < request.k:
        raise Internal("the groups that were made are not as close, or not as large, as was asked")
    return closeness


def _summarize_facts(bucket_plan: BucketPlan, representatives: Table, closeness: GroupsApart) -> dict[str, object]:
    """What may be told: the buckets, the groups' sizes, and how close they are, as numbers and exactly."""
    attributes = list(representatives.attributes.values())
    ordered = len(attributes) == 1 and attributes[0].kind != "nominal"
    values = [
        {name: _to_json_value(representatives[name].to_array()[place]) for name in representatives}
        for place in range(representatives.rows)
    ]
    exact: dict[str, Fraction] = {
        "t_ratio": closeness.worst.ratio,
        "t_emd": closeness.worst.emd if ordered else closeness.worst.variation,
        "t_between_groups": closeness.between,
    }
    return {
        "buckets": [{"rows": rows, "value": value} for rows, value in zip(bucket_plan.sizes, values, strict=True)],
        "groups_per_bucket": bucket_plan.per_bucket,
        "records": {"groups": closeness.groups, "smallest": closeness.smallest, "largest": closeness.largest},
        **{name: float(value) for name, value in exact.items()},
        "exact": {name: str(value) for name, value in exact.items()},
    }


def _to_json_value(value: object) -> object:
    """A value as JSON holds it."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    number = value.item() if isinstance(value, np.generic) else value
    return None if number != number else number  # noqa: PLR0124 - NaN alone differs from itself
