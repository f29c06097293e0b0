"""For which t, and in how many groups, rows in buckets can be dealt to groups t-close to the whole (closeness.md).

Everything is whole numbers and fractions: what is said to hold, holds.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

Sizes = tuple[int, ...]
"""How many rows each bucket has."""

Bounds = Callable[[int, int], tuple[int, int]]
"""The least and the most that a group may hold of a bucket of which `due / rows` would be its share."""

HALVINGS = 48


def within(t: Fraction) -> Bounds:
    """Bounds of groups whose ratio to the whole is at most t."""
    over, under = t.numerator, t.denominator
    return lambda due, rows: (-(-due * under // (rows * over)), due * over // (rows * under))


def below(t: Fraction) -> Bounds:
    """Bounds of groups whose ratio to the whole is less than t."""
    over, under = t.numerator, t.denominator
    return lambda due, rows: (due * under // (rows * over) + 1, -(-due * over // (rows * under)) - 1)


def feasible(sizes: Sizes, per_bucket: int, t: Fraction) -> bool:
    """Whether there are `per_bucket` groups for each bucket that are all t-close to the whole."""
    return _split(sizes, per_bucket, within(t)) is not None


def most_groups(sizes: Sizes, t: Fraction, k: int) -> int | None:
    """The most groups for each bucket, of at least k rows each, that are t-close to the whole."""
    counts = range(_most(sizes, k), 0, -1)
    return next((count for count in counts if feasible(sizes, count, t)), None)


def smallest_t(sizes: Sizes, k: int) -> Fraction | None:
    """The smallest t for which there are groups of at least k rows; none where no t is large enough."""
    best: Fraction | None = None
    for count in range(1, _most(sizes, k) + 1):
        best = smallest_t_of(sizes, count, best)
        if best in {None, 1}:  # where one group for each bucket is too many, two are too
            break
    return best


def smallest_t_of(sizes: Sizes, per_bucket: int, known: Fraction | None = None) -> Fraction | None:
    """The smallest t for so many groups for each bucket, or `known` if that is no larger."""
    best = Fraction(sum(sizes) + 1) if known is None else known
    taken = _split(sizes, per_bucket, below(best))
    if taken is None:
        return known
    low, best = Fraction(1), _ratio(sizes, per_bucket, taken)
    for _ in range(HALVINGS):
        middle = (low + best) / 2
        found = _split(sizes, per_bucket, within(middle))
        low, best = (middle, best) if found is None else (low, _ratio(sizes, per_bucket, found))
    while (taken := _split(sizes, per_bucket, below(best))) is not None:
        best = _ratio(sizes, per_bucket, taken)
    return best


def _most(sizes: Sizes, k: int) -> int:
    """The most groups for each bucket whose sizes are at least k and in which every bucket has a place."""
    return sum(sizes) // (len(sizes) * max(k, len(sizes)))


def _split(sizes: Sizes, per_bucket: int, bounds: Bounds) -> list[int] | None:
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
        least, most = bounds(size * bucket, rows)
        lows.append(max(larger * low, bucket - smaller * most))
        highs.append(min(larger * high, bucket - smaller * least))
        if lows[-1] > highs[-1]:
            return None
    spare = larger * (size + 1) - sum(lows)
    if not 0 <= spare <= sum(highs) - sum(lows):
        return None
    taken = []
    for low, high in zip(lows, highs, strict=True):
        more = min(spare, high - low)
        taken.append(low + more)
        spare -= more
    return taken


def _ratio(sizes: Sizes, per_bucket: int, taken: list[int]) -> Fraction:
    """The ratio of groups to the whole where the larger ones take this together, dealt evenly."""
    rows, groups = sum(sizes), len(sizes) * per_bucket
    size, larger = divmod(rows, groups)
    parts = [(size + 1, larger, taken)] if larger else []
    parts.append((size, groups - larger, [bucket - mine for bucket, mine in zip(sizes, taken, strict=True)]))
    return max(
        max(Fraction(-(-mine // count) * rows, each * bucket), Fraction(each * bucket, mine // count * rows))
        for each, count, held in parts
        for bucket, mine in zip(sizes, held, strict=True)
    )
