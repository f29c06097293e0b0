"""The nearest answers that satisfy everything, each weighed by its own noise: in closed form where there is one."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from discreet.inference.gathered import NOBODY, Gathered
from discreet.inference.vectors import Array, Places


def nearest(start: Array, variance: Array, must: Gathered, kept: Places) -> Array:
    """The nearest answers to `start`, which satisfies the equalities; the kept ones of these imply the others."""
    if _satisfies(start, must):
        return start
    if not must.chains and len(kept) == 0:
        return np.clip(start, must.low, must.high)
    if not must.chains and len(kept) == 1:
        return on_one_equality(start, variance, must, int(kept[0]))
    if not len(kept) and _separate(must):
        return np.clip(_in_order(start, variance, must), must.low, must.high)
    from discreet.inference.quadratic import by_solver

    return np.asarray(np.clip(by_solver(start, variance, must, kept), must.low, must.high))


def _satisfies(values: Array, must: Gathered) -> bool:
    """Whether the bounds and the order hold."""
    within = (values >= must.low).all() and (values <= must.high).all()
    return bool(within) and all((np.diff(values[chain]) >= 0).all() for chain in must.chains)


def _separate(must: Gathered) -> bool:
    """Whether no cell is in two chains, and each chain has one pair of bounds: then clipping keeps the best order."""
    cells = np.concatenate(must.chains)
    return len(np.unique(cells)) == len(cells) and all(
        np.ptp(bound[chain]) == 0 if np.isfinite(bound[chain]).all() else np.isinf(bound[chain]).all()
        for chain in must.chains
        for bound in (must.low, must.high)
    )


def _in_order(start: Array, variance: Array, must: Gathered) -> Array:
    from scipy.optimize import isotonic_regression

    values = start.copy()
    for chain in must.chains:
        values[chain] = isotonic_regression(start[chain], weights=1 / variance[chain]).x
    return values


def on_one_equality(start: Array, variance: Array, must: Gathered, column: int) -> Array:
    """Bounds and one equality a'x = c: clip(start + V a t, low, high) for the one t that fits, found by sorting.

    a'x does not fall as t grows and is linear between the places where a cell meets one of its bounds.
    """
    weights = must.matrix[:, [column]].toarray().ravel()
    constant, slope = float(must.constants[column]), variance * weights
    _reachable(must, column, weights)

    def at(t: float) -> Array:
        return np.asarray(np.clip(start + slope * t, must.low, must.high))

    moving = weights != 0
    turns = (np.stack([must.low, must.high])[:, moving] - start[moving]) / slope[moving]
    places = np.unique(turns[np.isfinite(turns)]).tolist()
    after = bisect_left(places, constant, key=lambda t: float(weights @ at(t)))
    middle = at(_between(places, after))
    free = moving & (middle > must.low) & (middle < must.high)
    values = middle
    for _ in range(2 if free.any() else 0):  # the second step takes away what the first left by rounding
        gap = constant - float(weights @ values)
        values[free] += slope[free] * gap / float(slope[free] @ weights[free])
    return np.asarray(np.clip(values, must.low, must.high))


def _between(places: list[float], after: int) -> float:
    """Somewhere before the place `after` and behind the one before it."""
    if not places:
        return 0.0
    if after == 0:
        return places[0] - 1.0
    return places[-1] + 1.0 if after == len(places) else (places[after - 1] + places[after]) / 2


def _reachable(must: Gathered, column: int, weights: Array) -> None:
    """Refuse a total that the bounds do not allow."""
    used, constant = np.flatnonzero(weights), float(must.constants[column])
    slack = 1e-9 * max(1.0, abs(constant))
    for sign in (-1, 1):
        upwards = (weights * sign > 0)[used]
        farthest = float(weights[used] @ np.where(upwards, must.high[used], must.low[used]))
        if sign * (constant - farthest) > slack:
            owners = np.where(upwards, must.high_by[used], must.low_by[used])
            raise must.contradiction([column], np.unique(owners[owners != NOBODY]).tolist())
