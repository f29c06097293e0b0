"""The analyst's prior on the positions of a column: equal bins of its codes. From the prior and the schema alone.

A prior that is wrong must not ruin an answer: one over numbers or dates is mixed with a tenth of a Cauchy law of its
own mean and spread, on its own support.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from datetime import date
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import shown
from discreet.inference.belief import LEAST_INSIDE, TAIL
from discreet.prior import Array, Grid, Prior, fixed, grid_between, masses
from discreet.schema import Column
from discreet.schema.column import EPOCH, days
from discreet.shapes import GRAMMAR, Shapes, Term, are_weights, read_shapes, read_weights

NOTHING = 1e-12
"""A shape of which less than this lies in the range says nothing about it, and is left out."""
FAR = 2**62
HALF = Fraction(1, 2)
POSITIONS = Grid(Fraction(0), Fraction(1))
Integers = NDArray[np.int64]


def on_positions(column: Column, width: int, count: int, given: str | Prior) -> tuple[Prior, Prior]:
    """The prior over positions 0 to count - 1, bins of `width` codes from the column's lowest: stated, and used."""
    if column.private_keys:
        raise Unsupported(f"{column.name} has no public domain, so no prior; ask without one")
    if not isinstance(given, str | Prior):
        raise InvalidInput(f"a prior is text or a Prior, got {type(given).__name__}; {GRAMMAR}")
    if column.categories:
        named = _named(column, width, given)
        return named, named
    if isinstance(given, str) and not are_weights(given):
        shapes = read_shapes(given, dates=column.kind == "date")
        own = _shaped(column, width, count, shapes)
        return own, own if shapes.heavy else with_tail(own)
    prior = _days(column, given) if column.kind == "date" else _numbers(column, given)
    placed = _placed(column, width, prior.index, prior.grid or POSITIONS, prior.mass / prior.total)
    return placed, with_tail(placed)


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


def _named(column: Column, width: int, given: str | Prior) -> Prior:
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
    places, where = np.unique(np.array([known[name] for name in names]) // width, return_inverse=True)
    mass = np.zeros(len(places), dtype=np.int64)
    np.add.at(mass, where, prior.mass)
    return Prior(fixed(mass), fixed(places), POSITIONS, None)


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


def _placed(column: Column, width: int, index: Integers, grid: Grid, shares: Array) -> Prior:
    """The shares of numbers on a grid, at the positions of the codes nearest to them; what is outside is left out."""
    first, stride = grid.origin / column.step - column.lower, grid.step / column.step
    ends = (math.ceil((edge - first) / stride) for edge in (-HALF, column.size - HALF))
    start, stop = (int(np.searchsorted(index, min(max(end, -FAR), FAR))) for end in ends)
    inside = shares[start:stop]
    if inside.sum() < LEAST_INSIDE:
        raise _outside(column)
    # From the first one inside, so that floats tell codes apart however far away the grid begins.
    near = first + stride * int(index[start]) + HALF
    away = float(near) + float(min(stride, Fraction(FAR))) * (index[start:stop] - index[start])
    codes = np.floor(away + 1e-9)  # half way between two codes is the upper one, whatever floats make of it
    places = np.clip(codes, 0, column.size - 1).astype(np.int64) // width
    new = np.flatnonzero(np.diff(places, prepend=-1))
    return _prior(places[new], np.add.reduceat(inside, new))


def _shaped(column: Column, width: int, count: int, shapes: Shapes) -> Prior:
    """Shapes on all positions from end to end; on those of its own grid where the text has a step."""
    low, high = shapes.ends or (column.lower * column.step, column.upper * column.step)
    own = shapes.within(low, high)
    if shapes.step is not None:
        grid, points = grid_between(low, high, shapes.step)
        held, shares = _law(own, grid, 1, points)
        return _placed(column, width, np.arange(points), grid, shares * held)
    first = max(0, math.ceil(low / column.step) - column.lower) // width
    last = min(count - 1, (math.floor(high / column.step) - column.lower) // width)
    if last < first:
        raise _outside(column)
    grid = Grid((column.lower + first * width) * column.step, column.step)
    held, shares = _law(own, grid, width, min((last + 1) * width, column.size) - first * width)
    if held < LEAST_INSIDE:
        raise _outside(column)
    return _prior(np.arange(first, last + 1), shares)


def _prior(places: Integers, shares: Array) -> Prior:
    return Prior(fixed(masses(shares / shares.sum())), fixed(places), POSITIONS, None)


def _law(shapes: Shapes, grid: Grid, width: int, points: int) -> tuple[float, Array]:
    """How much of the shapes lies in the cells of `width` grid points, and their law there, each shape cut to them."""
    held, law, total = 0.0, np.zeros(-(-points // width)), shapes.total
    for term in shapes.possible:
        weight = float(term.share / total)
        where, part = _cells(term, grid, width, points)
        inside = float(part.sum())
        if inside > NOTHING:
            held += weight * inside
            law[where] += weight * part / inside
    return held, law


def _cells(term: Term, grid: Grid, width: int, points: int) -> tuple[slice, Array]:
    """The probability of every cell, before it is cut; a uniform or a point is on the grid points nearest to it."""
    if term.spread:
        ends = np.minimum(np.arange(-(-points // width) + 1) * width, points) - 0.5
        return slice(None), term.between(float(grid.origin) + float(grid.step) * ends)
    low, high = ((end - grid.origin) / grid.step for end in term.ends)
    first, last = math.ceil(low), math.floor(high)
    if last < first:
        first = last = math.floor((low + high) / 2 + HALF)
    start, stop = (min(max(end, 0), points) for end in (first, last + 1))
    if start == stop:
        return slice(0), np.zeros(0)
    where = slice(start // width, (stop - 1) // width + 1)
    ends = np.clip(np.arange(where.start, where.stop + 1) * width, start, stop)
    return where, np.diff(ends) * float(Fraction(1, last + 1 - first))


def _outside(column: Column) -> InvalidInput:
    low, high = (column.value(code) for code in (column.lower, column.upper))
    bounds = " to ".join(shown(Fraction(end)) if isinstance(end, int | Fraction) else str(end) for end in (low, high))
    return InvalidInput(
        f"the prior of {column.name} lies outside its bounds, {bounds}; "
        "give one of which at least a thousandth lies inside"
    )
