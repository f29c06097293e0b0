"""For which t, and in how many groups, rows in buckets can be dealt to groups t-close to the whole (closeness.md).

Everything is whole numbers and fractions: what is said to hold, holds.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

BucketSizes = tuple[int, ...]
"""How many rows each bucket has."""

CountBounds = Callable[[int, int], tuple[int, int]]
"""The least and the most that a group may hold of a bucket of which `due / rows` would be its share."""

HALVINGS = 48


def build_closed_bounds(t: Fraction) -> CountBounds:
    """Bounds of groups whose ratio to the whole is at most t."""
    numerator, denominator = t.numerator, t.denominator
    return lambda due, rows: (-(-due * denominator // (rows * numerator)), due * numerator // (rows * denominator))


def build_open_bounds(t: Fraction) -> CountBounds:
    """Bounds of groups whose ratio to the whole is less than t."""
    numerator, denominator = t.numerator, t.denominator
    return lambda due, rows: (
        due * denominator // (rows * numerator) + 1,
        -(-due * numerator // (rows * denominator)) - 1,
    )


def is_feasible(sizes: BucketSizes, per_bucket: int, t: Fraction) -> bool:
    """Whether there are `per_bucket` groups for each bucket that are all t-close to the whole."""
    return _split_buckets(sizes, per_bucket, build_closed_bounds(t)) is not None


def find_max_groups(sizes: BucketSizes, t: Fraction, k: int) -> int | None:
    """The most groups for each bucket, of at least k rows each, that are t-close to the whole."""
    counts = range(_compute_max_groups(sizes, k), 0, -1)
    return next((count for count in counts if is_feasible(sizes, count, t)), None)


def find_smallest_t(sizes: BucketSizes, k: int) -> Fraction | None:
    """The smallest t for which there are groups of at least k rows; none where no t is large enough."""
    best: Fraction | None = None
    for count in range(1, _compute_max_groups(sizes, k) + 1):
        best = find_smallest_t_for(sizes, count, best)
        if best in {None, 1}:  # where one group for each bucket is too many, two are too
            break
    return best


def find_smallest_t_for(sizes: BucketSizes, per_bucket: int, upper_bound: Fraction | None = None) -> Fraction | None:
    """The smallest t for so many groups for each bucket, or `known` if that is no larger."""
    best = Fraction(sum(sizes) + 1) if upper_bound is None else upper_bound
    split = _split_buckets(sizes, per_bucket, build_open_bounds(best))
    if split is None:
        return upper_bound
    low, best = Fraction(1), _compute_ratio(sizes, per_bucket, split)
    for _ in range(HALVINGS):
        middle = (low + best) / 2
        middle_split = _split_buckets(sizes, per_bucket, build_closed_bounds(middle))
        low, best = (middle, best) if middle_split is None else (low, _compute_ratio(sizes, per_bucket, middle_split))
    while (split := _split_buckets(sizes, per_bucket, build_open_bounds(best))) is not None:
        best = _compute_ratio(sizes, per_bucket, split)
    return best


def _compute_max_groups(sizes: BucketSizes, k: int) -> int:
    """The most groups for each bucket whose sizes are at least k and in which every bucket has a place."""
    return sum(sizes) // (len(sizes) * max(k, len(sizes)))


def _split_buckets(sizes: BucketSizes, per_bucket: int, bounds: CountBounds) -> list[int] | None:
    """What the larger groups take together of each bucket, the smaller ones taking the rest; none where none can.

    Groups have `size` or size + 1 rows. What those of one size take together can be dealt to them evenly, so bounds
    on it are all there is; the rest is an interval for each bucket and a sum.
    """
    rows, groups = sum(sizes), len(sizes) * per_bucket
    size, larger = divmod(rows, groups)
    smaller = groups - larger
    lows, highs = [], []
    for bucket in sizes:
        low, high = bounds((size + 1) * bucket, rows)
        lower, upper = bounds(size * bucket, rows)
        lows.append(max(larger * low, bucket - smaller * upper))
        highs.append(min(larger * high, bucket - smaller * lower))
        if lows[-1] > highs[-1]:
            return None
    spare = larger * (size + 1) - sum(lows)
    if not 0 <= spare <= sum(highs) - sum(lows):
        return None
    larger_totals = []
    for low, high in zip(lows, highs, strict=True):
        extra = min(spare, high - low)
        larger_totals.append(low + extra)
        spare -= extra
    return larger_totals


def _compute_ratio(sizes: BucketSizes, per_bucket: int, larger_totals: list[int]) -> Fraction:
    """The ratio of groups to the whole where the larger ones take this together, dealt evenly."""
    rows, groups = sum(sizes), len(sizes) * per_bucket
    size, larger = divmod(rows, groups)
    parts = [(size + 1, larger, larger_totals)] if larger else []
    parts.append((size, groups - larger, [bucket - total for bucket, total in zip(sizes, larger_totals, strict=True)]))
    return max(
        max(
            Fraction(-(-total // count) * rows, group_size * bucket),
            Fraction(group_size * bucket, total // count * rows),
        )
        for group_size, count, totals in parts
        for bucket, total in zip(sizes, totals, strict=True)
    )
