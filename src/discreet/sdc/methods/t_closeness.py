"""t-closeness by bucketization, for any t of at least 1 and any number of rows (thesis 7.2). Proof: t_closeness.md.

The rows of buckets are dealt to groups like cards, so that every group is t-close to the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import Unpack

import numpy as np

from discreet.errors import Internal, InvalidInput
from discreet.formatting import format_budget_left, format_cost
from discreet.mechanisms.entropy import Entropy
from discreet.numeric import as_int, as_rational, format_exact
from discreet.privacy.guarantee import Guarantee
from discreet.query.scan import DealRule, TClosenessPlan
from discreet.sdc.methods.anatomy import check_anatomy_name, count_group_values, renumber_groups
from discreet.sdc.methods.bucket_feasibility import (
    BucketSizes,
    GroupsApart,
    build_bucket_values,
    build_closed_bounds,
    choose_bucketing,
    compute_cut_sizes,
    compute_cuts,
    find_max_groups,
    find_smallest_t,
    find_smallest_t_for,
    groups_apart,
    is_feasible,
)
from discreet.sdc.table import (
    Integers,
    ProtectedTable,
    Table,
    TableReadOptions,
    check_informative,
    check_k,
    check_roles,
    permute_within_groups,
    read_table,
)


@dataclass(frozen=True, slots=True)
class GroupKind:
    """Groups that are alike: `groups` of `size` rows each, labelled from `label` on, in which `bucket` stands out."""

    bucket: int
    size: int
    groups: int
    label: int


@lru_cache(maxsize=64)
def plan_deals(sizes: BucketSizes, t: Fraction, per_bucket: int) -> tuple[DealRule, ...]:
    """Deals of buckets of these sizes to `per_bucket` groups for each bucket, all t-close to the whole.

    Each lets its own bucket stand out as much as t allows. There must be such groups (`is_feasible`).
    """
    kinds = _list_group_kinds(sum(sizes), len(sizes), per_bucket)
    totals = _solve_totals(sizes, kinds, t)
    first, before = np.cumsum(totals, axis=0) - totals, np.cumsum(totals, axis=1) - totals
    deals = []
    for bucket in range(len(sizes)):
        for place, kind in enumerate(kinds):
            start, turn = int(first[place, bucket]), int(before[place, bucket]) % kind.groups
            stop = int(first[place, bucket] + totals[place, bucket])
            deals.append(DealRule(bucket, start, stop, kind.label, kind.groups, turn))
    return tuple(deals)


def assign_rows(deals: Sequence[DealRule], bucket: Integers, order: Integers) -> Integers:
    """The group of every row, in one pass over the rows.

    `order` lists the rows bucket by bucket, those of a bucket in the order in which they are dealt.
    """
    starts = np.searchsorted(bucket[order], np.arange(max(assignment.bucket for assignment in deals) + 1))
    group = np.empty(len(bucket), dtype=np.int64)
    for deal in deals:
        dealt_rows = order[starts[deal.bucket] + deal.first : starts[deal.bucket] + deal.last]
        group[dealt_rows] = deal.label + (deal.turn + np.arange(len(dealt_rows))) % deal.groups
    return group


def compute_group_sizes(rows: int, groups: int) -> list[int]:
    """k_i = ceil(i rows / groups) - ceil((i - 1) rows / groups), for i = 1, 2, ..."""
    ends = [-(-i * rows // groups) for i in range(groups + 1)]
    return [end - start for start, end in pairwise(ends)]


def _list_group_kinds(rows: int, buckets: int, per_bucket: int) -> list[GroupKind]:
    """The groups by the bucket that stands out and by size; of those of one bucket the larger come first."""
    size = rows // (buckets * per_bucket)
    kinds, label = [], 0
    for bucket, share in enumerate(compute_group_sizes(rows, buckets)):  # the sizes k_i of its groups add up to this
        larger = share - per_bucket * size
        for group_size, groups in ((size + 1, larger), (size, per_bucket - larger)):
            if groups:
                kinds.append(GroupKind(bucket, group_size, groups, label))
                label += groups
    return kinds


def _solve_totals(sizes: BucketSizes, kinds: Sequence[GroupKind], t: Fraction) -> Integers:
    """The rows that all groups of a kind take of each bucket: the most of those that stand out, by linear programming.

    The constraints are those of a transport problem, so that every vertex is integral; that it is one, and that all
    constraints hold, is checked in whole numbers.
    """
    from scipy.optimize import linprog
    from scipy.sparse import identity, kron, vstack

    rows, bounds = sum(sizes), build_closed_bounds(t)
    cells = [[bounds(kind.size * size, rows) for size in sizes] for kind in kinds]
    pairs = list(zip(kinds, cells, strict=True))
    low = np.array([[kind.groups * low for low, _ in row] for kind, row in pairs])
    high = np.array([[kind.groups * min(high, kind.size) for _, high in row] for kind, row in pairs])
    across, down = np.ones((1, len(sizes))), np.ones((1, len(kinds)))
    sums = vstack([kron(identity(len(kinds)), across), kron(down, identity(len(sizes)))]).tocsr().astype(np.int64)
    spare = np.array([*(kind.groups * kind.size for kind in kinds), *sizes]) - sums @ low.ravel()
    gain = np.zeros(low.shape)
    gain[np.arange(len(kinds)), [kind.bucket for kind in kinds]] = 1
    room = np.column_stack([np.zeros(low.size), (high - low).ravel()])
    solution = linprog(-gain.ravel(), A_eq=sums, b_eq=spare, bounds=room, method="highs-ds")
    extra = np.rint(solution.x if solution.success else room[:, 1] + 1).astype(np.int64)
    if (extra < 0).any() or (extra > room[:, 1]).any() or (sums @ extra != spare).any():
        raise Internal("no way was found to deal buckets to groups where there is one")
    return np.asarray(low + extra.reshape(low.shape))


RELEASE_FORMS = ("hidden", "anatomy")
MAX_BUCKETS = 50
"""More buckets are not made: deals are as many as twice its square."""


@dataclass(frozen=True, slots=True)
class ClosenessRequest:
    """The groups asked for: of at least k rows and t-close, in so many buckets and groups if that is given."""

    t: Fraction
    k: int
    buckets: int | None = None
    per_bucket: int | None = None

    @staticmethod
    def of(t: object, k: int, buckets: object = None, groups_per_bucket: object = None) -> ClosenessRequest:
        """Check the request; t is at least 1, where groups are as the whole, and there are at least 2 buckets."""
        exact_t = as_rational(t, "t")
        if exact_t < 1:
            raise InvalidInput(
                f"t must be at least 1, where every group is as the whole table, got {format_exact(exact_t)}"
            )
        bucket_count = None if buckets is None else as_int(buckets, "buckets", 2)
        per_bucket = None if groups_per_bucket is None else as_int(groups_per_bucket, "groups_per_bucket")
        return ClosenessRequest(exact_t, k, bucket_count, per_bucket)


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """Buckets of these sizes, made for so many requested ones, and the number of groups for each of them."""

    requested_buckets: int
    sizes: BucketSizes
    per_bucket: int


def plan_buckets(request: ClosenessRequest, rows: int, compute_sizes: Callable[[int], BucketSizes]) -> BucketPlan:
    """floor(t) + 1 buckets, at most 50, and as many groups as k allows; where t needs it fewer groups, then buckets.

    `compute_sizes` gives the sizes of so many buckets. A number of buckets or groups that is given is not changed.
    """
    max_buckets = _compute_max_buckets(rows)
    counts = range(min(math.floor(request.t) + 1, max_buckets), 1, -1)
    if request.buckets is not None:
        counts = range(request.buckets, request.buckets - 1, -1) if request.buckets <= max_buckets else range(0)
    for bucket_count in counts:
        sizes = compute_sizes(bucket_count)
        if len(sizes) < 2:
            continue
        per_bucket = request.per_bucket
        if per_bucket is None:
            per_bucket = find_max_groups(sizes, request.t, request.k)
        elif not _has_room(request, sizes) or not is_feasible(sizes, per_bucket, request.t):
            per_bucket = None
        if per_bucket is not None:
            return BucketPlan(bucket_count, sizes, per_bucket)
    raise _build_refusal(request, rows, compute_sizes)


def plan_bucketization(
    column: str,
    rows: int,
    t: object,
    k: int,
    *,
    buckets: object = None,
    groups_per_bucket: object = None,
    form: str = "hidden",
) -> TClosenessPlan:
    """The plan by which an engine makes `t_close` of one numeric or ordinal column, from the row count alone."""
    request = ClosenessRequest.of(t, check_k(k, rows), buckets, groups_per_bucket)
    bucket_plan = plan_buckets(request, rows, lambda count: compute_cut_sizes(rows, count))
    deals = plan_deals(bucket_plan.sizes, request.t, bucket_plan.per_bucket)
    cuts, is_hidden = compute_cuts(rows, bucket_plan.requested_buckets), check_release_form(form) == "hidden"
    return TClosenessPlan(column, cuts, deals, is_hidden)


def check_release_form(form: object) -> str:
    """One of the two forms of a release."""
    if form not in RELEASE_FORMS:
        raise InvalidInput(f"form is 'hidden' or 'anatomy', got {str(form)[:40]!r}")
    return str(form)


def _compute_max_buckets(rows: int) -> int:
    """A group has a row of every bucket, and there are no fewer groups than buckets."""
    return min(math.isqrt(rows), MAX_BUCKETS)


def _has_room(request: ClosenessRequest, sizes: BucketSizes) -> bool:
    return sum(sizes) // (len(sizes) * (request.per_bucket or 1)) >= max(request.k, len(sizes))


def _build_refusal(request: ClosenessRequest, rows: int, compute_sizes: Callable[[int], BucketSizes]) -> InvalidInput:
    """Why the request cannot be met, with the smallest t for which it can."""
    description = f"groups of at least {request.k} rows"
    if request.buckets:
        description += f" from {request.buckets} buckets"
    best = _find_smallest_t(request, rows, compute_sizes)
    if best is None:
        return InvalidInput(
            f"{description} cannot be made for any t: there must be as many groups as buckets, with a row of every "
            f"bucket in each, and at most {MAX_BUCKETS} buckets; ask for a smaller k, fewer buckets or fewer groups "
            "for each"
        )
    return InvalidInput(
        f"{description} cannot be {format_budget_left(request.t)}-close; the smallest t that is feasible, rounded up, "
        f"is {format_cost(best)}; ask for that"
    )


def _find_smallest_t(
    request: ClosenessRequest, rows: int, compute_sizes: Callable[[int], BucketSizes]
) -> Fraction | None:
    """The smallest t for which there is a plan; more buckets are tried only from a greater t on."""
    best: Fraction | None = None
    max_buckets = _compute_max_buckets(rows)
    counts = range(2, max_buckets + 1)
    if request.buckets is not None:
        counts = range(request.buckets, min(request.buckets, max_buckets) + 1)
    for bucket_count in counts:
        min_t = Fraction(bucket_count - 1 if request.buckets is None else 1)
        if best is not None and min_t >= best:
            break
        sizes = compute_sizes(bucket_count)
        if len(sizes) < 2 or not _has_room(request, sizes):
            continue
        if request.per_bucket is None:
            candidate = find_smallest_t(sizes, request.k)
        else:
            candidate = find_smallest_t_for(sizes, request.per_bucket)
        if candidate is not None and (best is None or candidate < best):
            best = max(candidate, min_t)
    return best


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
    """Put confidential values into buckets, t-close in groups of at least k rows; quasi-identifiers stay unchanged.

    Columns that are neither quasi-identifiers nor confidential are left out.

    Args:
        table: The original table.
        t: How far the distribution of a group may be from that of the table: a ratio of at least 1.
        k: The minimum size of a group.
        quasi: The quasi-identifiers.
        confidential: The confidential columns.
        buckets: The number of buckets; floor(t) + 1 by default.
        groups_per_bucket: The number of groups for each bucket; by default as many as k allows, fewer where t needs it.
        form: "hidden" permutes the buckets of a group among its rows and does not release groups; "anatomy" releases
            two tables that share a `group`.
        entropy: The source of random bytes; the system's generator by default.
        **reading: How columns are read: `kinds`, `categories`, `taxonomies` and `domains`, each a mapping by column.

    Returns:
        The protected table with its guarantee and groups. Row i was made of row i of the original: change the order
        before you release it, as `Custodian.publish` does.

    Raises:
        InvalidInput: A column, k or another option is not valid.

    Example:
        >>> from discreet import t_close
        >>> table = {"age": [23, 25, 31, 34, 58, 61], "income": [20, 22, 30, 31, 45, 50]}
        >>> protected = t_close(table, t=2, k=2, quasi=["age"], confidential=["income"])
        >>> protected.guarantee.model, protected.guarantee.t
        ('t-closeness', Fraction(2, 1))
    """
    original = read_table(table, **reading)
    quasi_names, confidential_names = check_roles(original, quasi, confidential, informed=False)
    request = ClosenessRequest.of(t, check_k(k, original.rows), buckets, groups_per_bucket)
    release_form = check_release_form(form)
    for name in confidential_names:
        check_informative(original[name])
    values = original.select(confidential_names)
    assign_buckets = cache(choose_bucketing(values))
    bucket_plan = plan_buckets(request, original.rows, lambda count: tuple(np.bincount(assign_buckets(count)).tolist()))
    bucket = assign_buckets(bucket_plan.requested_buckets)
    order = permute_within_groups(bucket, entropy)[np.argsort(bucket, kind="stable")]
    groups = assign_rows(plan_deals(bucket_plan.sizes, request.t, bucket_plan.per_bucket), bucket, order)
    released_buckets = bucket[permute_within_groups(groups, entropy)] if release_form == "hidden" else None
    assignment = GroupAssignment(bucket, groups, released_buckets)
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
    """The release of quasi-identifiers and confidential values that are separate already."""
    released_buckets = assignment.bucket if assignment.released_buckets is None else assignment.released_buckets
    closeness = groups_apart(assignment.groups, released_buckets)
    if closeness.worst.ratio > request.t or closeness.smallest < request.k:
        raise Internal("the groups that were made are not as close, or not as large, as was asked")
    representatives, source_rows = build_bucket_values(values, assignment.bucket), np.arange(quasi_table.rows)
    facts = _summarize_facts(bucket_plan, representatives, closeness)
    guarantee = replace(Guarantee.t_closeness(request.t, "ratio"), assumptions=ASSUMPTIONS)
    if assignment.released_buckets is not None:
        released = quasi_table.put(*representatives.take(assignment.released_buckets).attributes.values())
        return ProtectedTable(released, guarantee, {"records": assignment.groups}, source_rows, facts=facts)
    for name in (*quasi_table, *values):
        check_anatomy_name(name)
    numbers = renumber_groups(assignment.groups, entropy)
    released = quasi_table.put(read_table({"group": numbers})["group"])
    second = count_group_values(representatives.take(assignment.bucket), numbers)
    return ProtectedTable(released, guarantee, {"records": numbers}, source_rows, second, facts)


def _summarize_facts(bucket_plan: BucketPlan, representatives: Table, closeness: GroupsApart) -> dict[str, object]:
    """The facts that may be released: the buckets, the groups' sizes, and how close they are, as floats and exactly."""
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
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    number = value.item() if isinstance(value, np.generic) else value
    return None if number != number else number  # noqa: PLR0124 - NaN alone differs from itself
