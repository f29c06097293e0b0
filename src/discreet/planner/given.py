"""The analyst's prior on the positions of a column: equal bins of its codes. From the prior and the schema alone.

The answer is drawn from it or chosen by it, so one with ends is used as stated: a position has a probability only where
one of its codes lies between the ends, and stands for such a code. Into shapes without ends a tenth of a Cauchy law of
their own mean and spread is mixed, so that a prior that is wrong does not ruin an answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import shown
from discreet.inference.belief import (
    LEAST_INSIDE,
    TAIL,
    PriorUse,
    bound_runs,
    ends_told,
    mixes_tail,
    relaid_rule,
    require_within,
    rule_of,
)
from discreet.inference.laid import Cells, Laid, lay
from discreet.prior import Array, Grid, Prior, fixed, grid_between, masses
from discreet.schema import Column
from discreet.schema.column import EPOCH, day, days
from discreet.shapes import GRAMMAR, Shapes, are_weights, read_shapes, read_weights

FAR = 2**62
HALF = Fraction(1, 2)
POSITIONS = Grid(Fraction(0), Fraction(1))
Integers = NDArray[np.int64]
Hull = tuple[Fraction, Fraction] | None
Standing = tuple[Integers, Integers, Integers]
"""For every position the code that stands for it, its lowest possible code, and the codes from there to the highest."""


@dataclass(frozen=True, eq=False, slots=True)
class Points:
    """Rising codes of a column, perhaps the same several times, and the share of each."""

    codes: Integers
    shares: Array


@dataclass(frozen=True, eq=False, slots=True)
class Placed:
    """A prior over positions, as stated and as used, on the same positions.

    Each position stands for one of `codes`, which the prior holds possible; its possible codes are from that of `lows`
    over so many as `spans` says. `points` are the codes that the numbers of a prior on a grid went to.
    """

    stated: Prior
    used: Prior
    codes: Integers
    lows: Integers
    spans: Integers
    use: PriorUse
    points: Points | None = None

    @property
    def blur(self) -> float:
        """The variance, in codes, of the truth within a position, where it is spread evenly over what is possible."""
        return float((self.stated.mass / self.stated.total * (self.spans.astype(np.float64) ** 2 - 1)).sum()) / 12


def even(column: Column, width: int, count: int) -> Placed:
    """Every position alike, where the analyst states nothing."""
    prior, spans = Prior.uniform(0, count - 1), np.minimum(width, column.size - np.arange(count) * width)
    lows = column.lower + np.arange(count) * width
    return Placed(prior, prior, _middles(column, width, 0, count), lows, spans, PriorUse(tail=False))


def on_positions(column: Column, width: int, count: int, given: str | Prior, tail: bool | None = None) -> Placed:
    """The prior over positions 0 to count - 1, bins of `width` codes from the column's lowest."""
    if column.private_keys:
        raise Unsupported(f"{column.name} has no public domain, so no prior; ask without one")
    if not isinstance(given, str | Prior):
        raise InvalidInput(f"a prior is text or a Prior, got {type(given).__name__}; {GRAMMAR}")
    if column.categories:
        if tail:
            raise InvalidInput(f"a heavy tail is of numbers, and {column.name} is not one; leave out tail")
        return _named(column, width, given)
    if isinstance(given, str) and not are_weights(given):
        shapes = read_shapes(given, dates=column.kind == "date")
        mixed = mixes_tail(tail, shapes.heavy, shapes.ended, drawn=True)
        return _shaped(column, width, count, shapes, mixed)
    prior = _days(column, given) if column.kind == "date" else _numbers(column, given)
    if prior.shape and not _holds_codes(column, prior.grid or POSITIONS):
        return _relaid(column, width, count, read_shapes(prior.shape), tail)
    mixed = mixes_tail(tail, heavy=False, ended=True, drawn=True)
    grid, joined = prior.grid or POSITIONS, not isinstance(given, str) and _holds_codes(column, prior.grid or POSITIONS)
    return _rounded(column, width, prior.index, grid, prior.mass / prior.total, mixed, False, joined)


def in_narrower_bins(
    placed: Placed, column: Column, width: int, count: int, given: str | Prior, tail: bool | None = None
) -> Placed:
    """The same prior on the positions of a column that is cut to the codes it holds possible.

    Numbers on a grid keep the codes that they went to before: one beside the cut column may have gone into it.
    """
    if placed.points is None:
        return on_positions(column, width, count, given, tail)
    return _binned(column, width, placed.points, placed.use)


def with_tail(prior: Prior) -> Prior:
    """Nine tenths of the prior, one tenth of a Cauchy law of its mean and sd, at least one step, on its support."""
    if prior.grid is None:
        raise InvalidInput("a tail is of numbers; this prior is over categories")
    shares = prior.mass / prior.total
    # Not a dot product: on a busy machine its threads wait for one another for tens of milliseconds.
    d = prior.index - float((shares * prior.index).sum())
    sd = max(1.0, math.sqrt(float((shares * d**2).sum())))
    tail = 1 / (1 + (d / sd) ** 2)
    return Prior(fixed(masses((1 - TAIL) * shares + TAIL * tail / tail.sum())), prior.index, prior.grid, None)


def _named(column: Column, width: int, given: str | Prior) -> Placed:
    """Weights of categories, by name."""
    prior = _weighed(given) if isinstance(given, str) and are_weights(given) else given
    if isinstance(prior, str) or prior.grid is not None:
        like = json.dumps({column.categories[0][:40]: 1, column.categories[-1][:40]: 3}, ensure_ascii=False)
        raise InvalidInput(f"the prior of {column.name} gives weights to its categories, such as {like}")
    known = {name: code for code, name in enumerate(column.categories)}
    names = [str(value).lower() if column.kind == "boolean" else str(value) for value in prior.support]
    strange = next((name for name in names if name not in known), None)
    if strange is not None:
        some = ", ".join(column.categories[:12]) + (", ..." if len(column.categories) > 12 else "")
        raise InvalidInput(
            f"the prior of {column.name} names a value that it does not have, {strange[:40]!r}; it has {some[:300]}"
        )
    _each_once(column, names)
    codes = np.array([known[name] for name in names])
    order = np.argsort(codes)
    places, new = np.unique(codes[order] // width, return_index=True)
    own = Prior(fixed(np.add.reduceat(prior.mass[order], new)), fixed(places), POSITIONS, None)
    return Placed(
        own, own, *_standing(column, width, codes[order], new), PriorUse(tail=False, excludes=len(names) < len(known))
    )


def _weighed(text: str) -> Prior:
    return Prior.weights(dict(read_weights(text).items()))


def _each_once(column: Column, names: Sequence[Hashable]) -> None:
    if len(set(names)) < len(names):
        raise InvalidInput(f"the prior of {column.name} names the same value twice; add up its weights")


def _numbers(column: Column, given: str | Prior) -> Prior:
    """A prior over numbers."""
    prior = Prior.parse(given) if isinstance(given, str) else given
    if prior.grid is None:
        raise InvalidInput(f"{column.name} is a number; its prior must be over numbers; {GRAMMAR}")
    return prior


def _days(column: Column, given: str | Prior) -> Prior:
    """A prior over dates as one over days since 1970-01-01."""
    prior = _weighed(given) if isinstance(given, str) else given
    if prior.grid is not None:
        return prior
    own = [_day(column, value) for value in prior.support]
    _each_once(column, own)
    return Prior.weights(dict(zip(own, prior.mass.tolist(), strict=True)))


def _day(column: Column, value: object) -> int:
    if isinstance(value, date):
        return value.toordinal() - EPOCH.toordinal()
    return days(str(value), f"{column.name} is a date; a value of its prior")


def _holds_codes(column: Column, grid: Grid) -> bool:
    """Whether every value of the column is a point of the grid, so that none between two points lacks a weight."""
    return (column.step / grid.step).denominator == 1 and (grid.origin / grid.step).denominator == 1


def _rounded(
    column: Column, width: int, index: Integers, grid: Grid, shares: Array, tail: bool, heavy: bool, joined: bool
) -> Placed:
    """The shares of numbers on a grid, at the codes nearest to them; what is outside the bounds is left out.

    Where they are joined, points that follow one another hold all between them possible, and are rounded to codes
    between the first and the last of them; any other point is a code, or is left out as impossible.
    """
    first, stride = grid.origin / column.step - column.lower, grid.step / column.step
    ends = (math.ceil((edge - first) / stride) for edge in (-HALF, column.size - HALF))
    start, stop = (int(np.searchsorted(index, min(max(end, -FAR), FAR))) for end in ends)
    if shares[start:stop].sum() < LEAST_INSIDE:
        raise _outside(column)
    # From the first one inside, so that floats tell codes apart however far away the grid begins.
    near = first + stride * int(index[start]) + HALF
    away = float(near) + float(min(stride, Fraction(FAR))) * (index[start:stop] - index[start])
    nearest = np.floor(away + 1e-9)  # half way between two codes is the upper one, whatever floats make of it
    nearest = np.clip(nearest, 0, column.size - 1).astype(np.int64)
    least, most = (ends[start:stop] for ends in bound_runs(index, first, stride, 0, column.size - 1, joined))
    kept = np.flatnonzero(least <= most)
    inside, codes = shares[start:stop][kept], np.clip(nearest, least, np.maximum(least, most))[kept]
    if inside.sum() < LEAST_INSIDE:
        raise _none(column)
    same = len(kept) == len(nearest) and bool((codes == nearest).all())
    hull = Fraction(grid.value(int(index[0]))), Fraction(grid.value(int(index[-1])))
    use = PriorUse(tail, _told(column, hull), rule=rule_of(tail, heavy, moved=not same))
    return _binned(column, width, Points(column.lower + codes, inside), use)


def _binned(column: Column, width: int, points: Points, use: PriorUse) -> Placed:
    """Codes and their shares in bins of so many codes, each at the bin that holds it."""
    codes = points.codes - column.lower
    new = np.flatnonzero(np.diff(codes // width, prepend=-1))
    standing = _standing(column, width, codes, new)
    return _made(codes[new] // width, np.add.reduceat(points.shares, new), standing, use, points)


def _within(column: Column, hull: Hull) -> tuple[int, int]:
    """The first and the last code, counted from the lowest, that lies between two ends; none if they are swapped."""
    low, high = (column.lower * column.step, column.upper * column.step) if hull is None else hull
    first, last = math.ceil(low / column.step), math.floor(high / column.step)
    return max(0, first - column.lower), min(column.size - 1, last - column.lower)


def _standing(column: Column, width: int, codes: Integers, new: Integers) -> Standing:
    """For every position, which begin at `new` among rising codes: the one nearest to its middle, the lowest, the span.

    The codes that come in are counted from the lowest, those that go out are the column's own.
    """
    sizes = np.diff(np.append(new, len(codes)))
    off = np.abs(codes - (codes // width * width + (width - 1) // 2))
    best = off == np.repeat(np.minimum.reduceat(off, new), sizes)
    nearest = np.flatnonzero(best)[np.searchsorted(np.flatnonzero(best), new)]
    return column.lower + codes[nearest], column.lower + codes[new], codes[new + sizes - 1] - codes[new] + 1


def _relaid(column: Column, width: int, count: int, shapes: Shapes, tail: bool | None) -> Placed:
    """The shapes of a `Prior`, which has ends, on the column's values: its own grid does not hold them all."""
    require_within(shapes)
    mixed = mixes_tail(tail, shapes.heavy, ended=True, drawn=True)
    placed = _shaped(column, width, count, replace(shapes, step=None), mixed)
    use = replace(placed.use, ends=_told(column, shapes.hull), rule=relaid_rule(mixed))
    return replace(placed, use=use)


def _shaped(column: Column, width: int, count: int, shapes: Shapes, tail: bool) -> Placed:
    """Shapes on all positions from end to end; on those of its own grid where the text has a step that is finer."""
    if shapes.step is not None and shapes.step > column.step:
        grid_between(*(shapes.ends or (column.lower * column.step, column.upper * column.step)), shapes.step)
        placed = _shaped(column, width, count, replace(shapes, step=None), tail)
        return replace(placed, use=replace(placed.use, rule=relaid_rule(tail)))
    low, high = shapes.ends or (column.lower * column.step, column.upper * column.step)
    own, exclude = shapes.within(low, high), shapes.ended and not tail
    hull = own.hull if exclude else shapes.ends
    if shapes.step is not None:
        grid, points = grid_between(low, high, shapes.step)
        every = np.arange(points)
        laid = _laid(column, own, Cells(grid, np.arange(points + 1), every, (0, points - 1)), exclude)
        kept = np.flatnonzero(laid.count)
        return _rounded(column, width, kept, grid, laid.shares[kept] * laid.held, tail, shapes.heavy, joined=True)
    within = _within(column, shapes.ends)
    first, last = within[0] // width, min(count - 1, within[1] // width)
    if within[1] < within[0]:
        raise _none(column) if _reaches(column, low, high) else _outside(column)
    cuts = np.minimum(np.arange(first, last + 2) * width, column.size)
    middles = _middles(column, width, first, last + 1) - column.lower
    laid = _laid(column, own, Cells(Grid(column.lower * column.step, column.step), cuts, middles, within), exclude)
    kept = np.flatnonzero(laid.count)
    use = PriorUse(tail, _told(column, hull), rule=rule_of(tail, shapes.heavy, moved=False))
    standing = column.lower + laid.stands[kept], column.lower + laid.lows[kept], laid.count[kept]
    return _made(first + kept, laid.shares[kept], standing, use)


def _reaches(column: Column, low: Fraction, high: Fraction) -> bool:
    """Whether some of it lies between the bounds of the column, though perhaps no value of the column does."""
    return low <= column.upper * column.step and high >= column.lower * column.step


def _laid(column: Column, shapes: Shapes, cells: Cells, exclude: bool) -> Laid:
    """Shapes on cells, refused where nearly nothing of them lies there."""
    laid = lay(shapes, cells, exclude)
    if laid.held < LEAST_INSIDE:
        none = exclude and lay(shapes, cells, exclude=False).held >= LEAST_INSIDE
        raise _none(column) if none else _outside(column)
    return laid


def _middles(column: Column, width: int, first: int, stop: int) -> Integers:
    """The codes in the middle of some positions."""
    return column.lower + np.minimum(np.arange(first, stop) * width + (width - 1) // 2, column.size - 1)


def _made(places: Integers, shares: Array, standing: Standing, use: PriorUse, points: Points | None = None) -> Placed:
    """The prior over places of these shares, and as it is used."""
    stated = Prior(fixed(masses(shares / shares.sum())), fixed(places), POSITIONS, None)
    return Placed(stated, with_tail(stated) if use.tail else stated, *standing, use, points)


def _told(column: Column, hull: Hull) -> tuple[str, str] | None:
    """The ends of a prior as people read them."""
    low, high = (column.lower * column.step, column.upper * column.step)
    if hull is None or column.kind != "date":
        return ends_told(hull, low, high)
    return day(math.ceil(max(hull[0], low))).isoformat(), day(math.floor(min(hull[1], high))).isoformat()


def _none(column: Column) -> InvalidInput:
    return InvalidInput(
        f"the prior of {column.name} holds none of its values possible, which are {shown(column.step)} apart; widen it"
    )


def _outside(column: Column) -> InvalidInput:
    low, high = (column.value(code) for code in (column.lower, column.upper))
    bounds = " to ".join(shown(Fraction(end)) if isinstance(end, int | Fraction) else str(end) for end in (low, high))
    return InvalidInput(
        f"the prior of {column.name} lies outside its bounds, {bounds}; "
        "give one of which at least a thousandth lies inside"
    )
