"""How many buckets, and how many groups for each of them, t-closeness is reached with; or why it cannot be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidInput
from discreet.exact import as_int, as_rational, format_exact
from discreet.formatting import format_budget_left, format_cost
from discreet.microdata.bucketing import compute_cut_sizes, compute_cuts
from discreet.microdata.checks import check_k
from discreet.microdata.dealing import plan_deals
from discreet.microdata.feasible import BucketSizes, find_max_groups, find_smallest_t, find_smallest_t_for, is_feasible
from discreet.query.released import TClosenessPlan

RELEASE_FORMS = ("hidden", "anatomy")
MAX_BUCKETS = 50
"""More are not made: deals are as many as twice its square."""


@dataclass(frozen=True, slots=True)
class ClosenessRequest:
    """What is asked for: groups of at least k rows that are t-close, in so many buckets and groups if it is said."""

    t: Fraction
    k: int
    buckets: int | None = None
    per_bucket: int | None = None

    @staticmethod
    def of(t: object, k: int, buckets: object = None, groups_per_bucket: object = None) -> ClosenessRequest:
        """The wish; t is at least 1, where groups are as the whole, and there are at least 2 buckets."""
        exact_t = as_rational(t, "t")
        if exact_t < 1:
            raise InvalidInput(
                f"t must be at least 1, where every group is as the whole table, got {format_exact(exact_t)}"
            )
        return ClosenessRequest(
            exact_t,
            k,
            None if buckets is None else as_int(buckets, "buckets", 2),
            None if groups_per_bucket is None else as_int(groups_per_bucket, "groups_per_bucket"),
        )


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """Buckets of these sizes, made when asked for so many, and so many groups for each of them."""

    requested_buckets: int
    sizes: BucketSizes
    per_bucket: int


def plan_buckets(request: ClosenessRequest, rows: int, compute_sizes: Callable[[int], BucketSizes]) -> BucketPlan:
    """floor(t) + 1 buckets, at most 50, and as many groups as k allows; where t needs it fewer groups, then buckets.

    `sizes_of` tells how large the buckets are when it is asked for so many. What the wish fixes is not changed.
    """
    for bucket_count in _list_bucket_counts(request, rows):
        sizes = compute_sizes(bucket_count)
        per_bucket = _choose_groups_per_bucket(request, sizes)
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
    """What an engine does to make `t_close` of one numeric or ordinal column; it follows from the row count alone."""
    request = ClosenessRequest.of(t, check_k(k, rows), buckets, groups_per_bucket)
    bucket_plan = plan_buckets(request, rows, lambda count: compute_cut_sizes(rows, count))
    deals = plan_deals(bucket_plan.sizes, request.t, bucket_plan.per_bucket)
    return TClosenessPlan(
        column, compute_cuts(rows, bucket_plan.requested_buckets), deals, check_release_form(form) == "hidden"
    )


def check_release_form(form: object) -> str:
    """One of the two forms of a release."""
    if form not in RELEASE_FORMS:
        raise InvalidInput(f"form is 'hidden' or 'anatomy', got {str(form)[:40]!r}")
    return str(form)


def _list_bucket_counts(request: ClosenessRequest, rows: int) -> range:
    """The numbers of buckets to try, the greatest first."""
    if request.buckets is None:
        return range(min(math.floor(request.t) + 1, _compute_max_buckets(rows)), 1, -1)
    return (
        range(request.buckets, request.buckets - 1, -1) if request.buckets <= _compute_max_buckets(rows) else range(0)
    )


def _compute_max_buckets(rows: int) -> int:
    """A group has a row of every bucket, and there are no fewer groups than buckets."""
    return min(math.isqrt(rows), MAX_BUCKETS)


def _choose_groups_per_bucket(request: ClosenessRequest, sizes: BucketSizes) -> int | None:
    """How many groups there are for each bucket; none where there cannot be any."""
    if len(sizes) < 2:
        return None
    if request.per_bucket is None:
        return find_max_groups(sizes, request.t, request.k)
    return (
        request.per_bucket if _has_room(request, sizes) and is_feasible(sizes, request.per_bucket, request.t) else None
    )


def _has_room(request: ClosenessRequest, sizes: BucketSizes) -> bool:
    return sum(sizes) // (len(sizes) * (request.per_bucket or 1)) >= max(request.k, len(sizes))


def _build_refusal(request: ClosenessRequest, rows: int, compute_sizes: Callable[[int], BucketSizes]) -> InvalidInput:
    """Why not, with the smallest t for which the same wish can be met."""
    description = f"groups of at least {request.k} rows" + (
        f" from {request.buckets} buckets" if request.buckets else ""
    )
    best = _find_smallest_t(request, rows, compute_sizes)
    if best is None:
        return InvalidInput(
            f"{description} cannot be made for any t: there must be as many groups as buckets, with a row of "
            "every bucket in "
            f"each, and at most {MAX_BUCKETS} buckets; ask for a smaller k, fewer buckets or fewer groups for each"
        )
    return InvalidInput(
        f"{description} cannot be {format_budget_left(request.t)}-close; the smallest t that is feasible, "
        "rounded up, is "
        f"{format_cost(best)}; ask for that"
    )


def _find_smallest_t(
    request: ClosenessRequest, rows: int, compute_sizes: Callable[[int], BucketSizes]
) -> Fraction | None:
    """The smallest t for which `arranged` finds something; so many buckets are tried only from some t on."""
    best: Fraction | None = None
    max_buckets = _compute_max_buckets(rows)
    for bucket_count in (
        range(2, max_buckets + 1)
        if request.buckets is None
        else range(request.buckets, min(request.buckets, max_buckets) + 1)
    ):
        min_t = Fraction(bucket_count - 1 if request.buckets is None else 1)
        if best is not None and min_t >= best:
            break
        candidate = _find_smallest_t_of_sizes(request, compute_sizes(bucket_count))
        if candidate is not None and (best is None or candidate < best):
            best = max(candidate, min_t)
    return best


def _find_smallest_t_of_sizes(request: ClosenessRequest, sizes: BucketSizes) -> Fraction | None:
    if len(sizes) < 2 or not _has_room(request, sizes):
        return None
    return (
        find_smallest_t(sizes, request.k)
        if request.per_bucket is None
        else find_smallest_t_for(sizes, request.per_bucket)
    )
