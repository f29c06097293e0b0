"""How many buckets, and how many groups for each of them, t-closeness is reached with; or why it cannot be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidInput
from discreet.exact import rational, shown, whole
from discreet.formatting import format_cost, format_left
from discreet.microdata.bucketing import cut_sizes, cuts
from discreet.microdata.checks import check_k
from discreet.microdata.dealing import plan_deals
from discreet.microdata.feasible import Sizes, feasible, most_groups, smallest_t, smallest_t_of
from discreet.query.released import Bucketise

FORMS = ("hidden", "anatomy")
MOST_BUCKETS = 50
"""More are not made: deals are as many as twice its square."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for: groups of at least k rows that are t-close, in so many buckets and groups if it is said."""

    t: Fraction
    k: int
    buckets: int | None = None
    per_bucket: int | None = None

    @staticmethod
    def of(t: object, k: int, buckets: object = None, groups_per_bucket: object = None) -> Wish:
        """The wish; t is at least 1, where groups are as the whole, and there are at least 2 buckets."""
        close = rational(t, "t")
        if close < 1:
            raise InvalidInput(f"t must be at least 1, where every group is as the whole table, got {shown(close)}")
        return Wish(
            close,
            k,
            None if buckets is None else whole(buckets, "buckets", 2),
            None if groups_per_bucket is None else whole(groups_per_bucket, "groups_per_bucket"),
        )


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Buckets of these sizes, made when asked for so many, and so many groups for each of them."""

    asked: int
    sizes: Sizes
    per_bucket: int


def arranged(wish: Wish, rows: int, sizes_of: Callable[[int], Sizes]) -> Arrangement:
    """floor(t) + 1 buckets, at most 50, and as many groups as k allows; where t needs it fewer groups, then buckets.

    `sizes_of` tells how large the buckets are when it is asked for so many. What the wish fixes is not changed.
    """
    for asked in _asked(wish, rows):
        sizes = sizes_of(asked)
        per_bucket = _groups(wish, sizes)
        if per_bucket is not None:
            return Arrangement(asked, sizes, per_bucket)
    raise _refusal(wish, rows, sizes_of)


def bucketise_plan(
    column: str,
    rows: int,
    t: object,
    k: int,
    *,
    buckets: object = None,
    groups_per_bucket: object = None,
    form: str = "hidden",
) -> Bucketise:
    """What an engine does to make `t_close` of one numeric or ordinal column; it follows from the row count alone."""
    wish = Wish.of(t, check_k(k, rows), buckets, groups_per_bucket)
    found = arranged(wish, rows, lambda count: cut_sizes(rows, count))
    deals = plan_deals(found.sizes, wish.t, found.per_bucket)
    return Bucketise(column, cuts(rows, found.asked), deals, check_form(form) == "hidden")


def check_form(form: object) -> str:
    """One of the two forms of a release."""
    if form not in FORMS:
        raise InvalidInput(f"form is 'hidden' or 'anatomy', got {str(form)[:40]!r}")
    return str(form)


def _asked(wish: Wish, rows: int) -> range:
    """The numbers of buckets to try, the greatest first."""
    if wish.buckets is None:
        return range(min(math.floor(wish.t) + 1, _most_buckets(rows)), 1, -1)
    return range(wish.buckets, wish.buckets - 1, -1) if wish.buckets <= _most_buckets(rows) else range(0)


def _most_buckets(rows: int) -> int:
    """A group has a row of every bucket, and there are no fewer groups than buckets."""
    return min(math.isqrt(rows), MOST_BUCKETS)


def _groups(wish: Wish, sizes: Sizes) -> int | None:
    """How many groups there are for each bucket; none where there cannot be any."""
    if len(sizes) < 2:
        return None
    if wish.per_bucket is None:
        return most_groups(sizes, wish.t, wish.k)
    return wish.per_bucket if _fits(wish, sizes) and feasible(sizes, wish.per_bucket, wish.t) else None


def _fits(wish: Wish, sizes: Sizes) -> bool:
    return sum(sizes) // (len(sizes) * (wish.per_bucket or 1)) >= max(wish.k, len(sizes))


def _refusal(wish: Wish, rows: int, sizes_of: Callable[[int], Sizes]) -> InvalidInput:
    """Why not, with the smallest t for which the same wish can be met."""
    asked = f"groups of at least {wish.k} rows" + (f" from {wish.buckets} buckets" if wish.buckets else "")
    best = _smallest(wish, rows, sizes_of)
    if best is None:
        return InvalidInput(
            f"{asked} cannot be made for any t: there must be as many groups as buckets, with a row of every bucket in "
            f"each, and at most {MOST_BUCKETS} buckets; ask for a smaller k, fewer buckets or fewer groups for each"
        )
    return InvalidInput(
        f"{asked} cannot be {format_left(wish.t)}-close; the smallest t that is feasible, rounded up, is "
        f"{format_cost(best)}; ask for that"
    )


def _smallest(wish: Wish, rows: int, sizes_of: Callable[[int], Sizes]) -> Fraction | None:
    """The smallest t for which `arranged` finds something; so many buckets are tried only from some t on."""
    best: Fraction | None = None
    most = _most_buckets(rows)
    for asked in range(2, most + 1) if wish.buckets is None else range(wish.buckets, min(wish.buckets, most) + 1):
        tried_from = Fraction(asked - 1 if wish.buckets is None else 1)
        if best is not None and tried_from >= best:
            break
        found = _smallest_of(wish, sizes_of(asked))
        if found is not None and (best is None or found < best):
            best = max(found, tried_from)
    return best


def _smallest_of(wish: Wish, sizes: Sizes) -> Fraction | None:
    if len(sizes) < 2 or not _fits(wish, sizes):
        return None
    return smallest_t(sizes, wish.k) if wish.per_bucket is None else smallest_t_of(sizes, wish.per_bucket)
