"""The nearest answers that satisfy everything, each weighed by its own noise: in closed form where there is one."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from discreet.inference.gathered import NO_OWNER, ConstraintSet
from discreet.inference.vectors import Array, Places


def find_nearest_answers(start: Array, variance: Array, constraint_set: ConstraintSet, independent: Places) -> Array:
    """The nearest answers to `start`, which satisfies the equalities; the kept ones of these imply the others."""
    if _satisfies_inequalities(start, constraint_set):
        return start
    if not constraint_set.chains and len(independent) == 0:
        return np.clip(start, constraint_set.low, constraint_set.high)
    if not constraint_set.chains and len(independent) == 1:
        return project_on_equality(start, variance, constraint_set, int(independent[0]))
    if not len(independent) and _has_separate_chains(constraint_set):
        return np.clip(_fit_order(start, variance, constraint_set), constraint_set.low, constraint_set.high)
    from discreet.inference.quadratic import solve_quadratic_program

    return np.asarray(
        np.clip(
            solve_quadratic_program(start, variance, constraint_set, independent),
            constraint_set.low,
            constraint_set.high,
        )
    )


def _satisfies_inequalities(values: Array, constraint_set: ConstraintSet) -> bool:
    """Whether the bounds and the order hold."""
    within = (values >= constraint_set.low).all() and (values <= constraint_set.high).all()
    return bool(within) and all((np.diff(values[chain]) >= 0).all() for chain in constraint_set.chains)


def _has_separate_chains(constraint_set: ConstraintSet) -> bool:
    """Whether no cell is in two chains, and each chain has one pair of bounds: then clipping keeps the best order."""
    cells = np.concatenate(constraint_set.chains)
    return len(np.unique(cells)) == len(cells) and all(
        np.ptp(bound[chain]) == 0 if np.isfinite(bound[chain]).all() else np.isinf(bound[chain]).all()
        for chain in constraint_set.chains
        for bound in (constraint_set.low, constraint_set.high)
    )


def _fit_order(start: Array, variance: Array, constraint_set: ConstraintSet) -> Array:
    from scipy.optimize import isotonic_regression

    values = start.copy()
    for chain in constraint_set.chains:
        values[chain] = isotonic_regression(start[chain], weights=1 / variance[chain]).x
    return values


def project_on_equality(start: Array, variance: Array, constraint_set: ConstraintSet, column: int) -> Array:
    """Bounds and one equality a'x = c: clip(start + V a t, low, high) for the one t that fits, found by sorting.

    a'x does not fall as t grows and is linear between the places where a cell meets one of its bounds.
    """
    weights = constraint_set.matrix[:, [column]].toarray().ravel()
    constant, slope = float(constraint_set.constants[column]), variance * weights
    _require_reachable(constraint_set, column, weights)

    def clip_at(t: float) -> Array:
        return np.asarray(np.clip(start + slope * t, constraint_set.low, constraint_set.high))

    moving = weights != 0
    breakpoints = (np.stack([constraint_set.low, constraint_set.high])[:, moving] - start[moving]) / slope[moving]
    places = np.unique(breakpoints[np.isfinite(breakpoints)]).tolist()
    after = bisect_left(places, constant, key=lambda t: float(weights @ clip_at(t)))
    middle = clip_at(_pick_between(places, after))
    free = moving & (middle > constraint_set.low) & (middle < constraint_set.high)
    values = middle
    for _ in range(2 if free.any() else 0):  # the second step takes away what the first left by rounding
        gap = constant - float(weights @ values)
        values[free] += slope[free] * gap / float(slope[free] @ weights[free])
    return np.asarray(np.clip(values, constraint_set.low, constraint_set.high))


def _pick_between(places: list[float], after: int) -> float:
    """Somewhere before the place `after` and behind the one before it."""
    if not places:
        return 0.0
    if after == 0:
        return places[0] - 1.0
    return places[-1] + 1.0 if after == len(places) else (places[after - 1] + places[after]) / 2


def _require_reachable(constraint_set: ConstraintSet, column: int, weights: Array) -> None:
    """Refuse a total that the bounds do not allow."""
    used_cells, constant = np.flatnonzero(weights), float(constraint_set.constants[column])
    slack = 1e-9 * max(1.0, abs(constant))
    for sign in (-1, 1):
        upwards = (weights * sign > 0)[used_cells]
        farthest = float(
            weights[used_cells] @ np.where(upwards, constraint_set.high[used_cells], constraint_set.low[used_cells])
        )
        if sign * (constant - farthest) > slack:
            owners = np.where(upwards, constraint_set.high_owners[used_cells], constraint_set.low_owners[used_cells])
            raise constraint_set.build_contradiction([column], np.unique(owners[owners != NO_OWNER]).tolist())
