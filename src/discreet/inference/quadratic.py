"""The nearest answers under equalities, bounds and order together: a sparse interior-point solver, then an exact end.

The solver (clarabel) tells which bounds and orders are met with equality; with these fixed, least squares is linear
again and is solved to the last digits. The solver's own distance, or the multipliers, prove that it is the best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.inference.gathered import NOBODY, Gathered
from discreet.inference.solver import infeasible, settled, solve
from discreet.inference.solving import normal
from discreet.inference.vectors import Array, Places, Sparse

Flags = NDArray[np.bool_]
ROUNDS = 30
MOST_PROVED = 20_000
"""The least proof that constraints contradict each other is looked for among so many; else the solver's is told."""
KEPT_TO = 1e-9
"""Every constraint holds to this part of the numbers in it."""


@dataclass(frozen=True, eq=False, slots=True)
class Active:
    """Which bounds and which steps of the order are met with equality."""

    low: Flags
    high: Flags
    step: Flags

    @property
    def any(self) -> bool:
        """Whether there are some."""
        return bool(self.low.any() or self.high.any() or self.step.any())


@dataclass(frozen=True, eq=False, slots=True)
class Problem:
    """Least squares around `start`: matrix' x = constants, low <= x <= high, and x[before] <= x[after]."""

    start: Array
    variance: Array
    matrix: Sparse
    constants: Array
    low: Array
    high: Array
    before: Places
    after: Places
    step_by: Places

    @property
    def steps(self) -> Sparse:
        """A column e_before - e_after for each step of the order."""
        from scipy import sparse

        count = len(self.before)
        entries = np.concatenate([np.ones(count), -np.ones(count)])
        places = (np.concatenate([self.before, self.after]), np.tile(np.arange(count), 2))
        return sparse.csc_array((entries, places), shape=(len(self.start), count))

    def objective(self, values: Array) -> float:
        """Half the weighted squared distance."""
        return float(((values - self.start) ** 2 / self.variance).sum() / 2)

    def missed(self, values: Array) -> float:
        """By what part of the numbers in it the worst constraint is missed."""
        size = max(1.0, float(np.abs(values).max()))
        gaps = [self.low - values, values - self.high, values[self.before] - values[self.after]]
        sums = np.abs(self.matrix.T @ values - self.constants) / np.maximum(1.0, np.abs(self.matrix).T @ np.abs(values))
        return max(float(sums.max(initial=0.0)), *(float(gap.max(initial=0.0)) / size for gap in gaps))


def by_solver(start: Array, variance: Array, must: Gathered, kept: Places) -> Array:
    """The nearest answers; refused where no answers satisfy all."""
    problem = _problem(start, variance, must, kept)
    rough, active, settled = _solved(problem, must, kept)
    # Where the solver did not come to rest, its answer proves nothing: then only multipliers do.
    reach = problem.objective(rough) * (1 + KEPT_TO) if settled else -math.inf
    best, proved = _polished(problem, active, reach)
    for found in (best, rough) if settled else (best,) if proved else ():
        if found is not None and problem.missed(found) <= KEPT_TO:
            return found
    raise Unsupported("the solver found no answers that satisfy these constraints closely enough; use fewer of them")


def _problem(start: Array, variance: Array, must: Gathered, kept: Places) -> Problem:
    none = np.zeros(0, dtype=np.int64)
    before = np.concatenate([none, *(chain[:-1] for chain in must.chains)])
    after = np.concatenate([none, *(chain[1:] for chain in must.chains)])
    owner = np.repeat(np.array(must.chained_by, dtype=np.int64), [len(chain) - 1 for chain in must.chains])
    matrix = must.matrix[:, kept].tocsc()
    return Problem(start, variance, matrix, must.constants[kept], must.low, must.high, before, after, owner)


def _solved(problem: Problem, must: Gathered, kept: Places) -> tuple[Array, Active, bool]:
    """The solver's answer, what it finds active, and whether it came to rest."""
    rows, right, cuts = _rows(problem)
    unit = max(1.0, -float(right.min(initial=0.0)))
    found = solve(np.ones(rows.shape[1]), rows, right / unit, int(cuts[0]))
    if infeasible(found):
        proof = _least_proof(rows, right / unit, int(cuts[0]))
        raise _infeasible(problem, must, kept, np.split(np.array(found.z) if proof is None else proof, cuts))
    tight = np.split(np.array(found.z) > np.array(found.s), cuts)
    active = Active(np.isfinite(problem.low), np.isfinite(problem.high), tight[3])
    active.low[active.low], active.high[active.high] = tight[1], tight[2]
    rough = problem.start + np.sqrt(problem.variance) * np.array(found.x) * unit
    return rough, active, settled(found)


def _rows(problem: Problem) -> tuple[Sparse, Array, Places]:
    """rows z <= right for z = (x - start)/deviation, each row of length 1; and where each kind of them ends.

    First come the equalities, then the lower bounds, the upper bounds, the steps of the order.
    """
    from scipy import sparse

    root = np.sqrt(problem.variance)
    lows, highs = np.flatnonzero(np.isfinite(problem.low)), np.flatnonzero(np.isfinite(problem.high))
    own = sparse.diags_array(1 / root).tocsc()
    columns = [problem.matrix, -own[:, lows], own[:, highs], problem.steps]
    gaps = [
        problem.constants - problem.matrix.T @ problem.start,
        (problem.start - problem.low)[lows] / root[lows],
        (problem.high - problem.start)[highs] / root[highs],
        problem.start[problem.after] - problem.start[problem.before],
    ]
    scaled = sparse.diags_array(root).tocsc() @ sparse.hstack(columns).tocsc()
    size = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=0)).ravel())
    rows = (scaled @ sparse.diags_array(1 / size)).T.tocsc()
    return rows, np.concatenate(gaps) / size, np.cumsum([len(gap) for gap in gaps[:3]])


def _least_proof(rows: Sparse, right: Array, equal: int) -> Array | None:
    """Weights with which the rows add up to 0 <= -1, from a corner of all such: none of them can be left out."""
    from scipy import sparse
    from scipy.optimize import linprog

    if len(right) > MOST_PROVED:
        return None
    free, cost = [(None, None)] * equal, np.repeat([0.0, 1.0], [equal, len(right) - equal])
    sums, aim = sparse.vstack([rows.T, sparse.csr_array(right[None, :])]), np.zeros(rows.shape[1] + 1)
    aim[-1] = -1
    found = linprog(cost, A_eq=sums, b_eq=aim, bounds=free + [(0, None)] * (len(right) - equal), method="highs-ds")
    return np.asarray(found.x) if found.status == 0 else None


def _infeasible(problem: Problem, must: Gathered, kept: Places, dual: list[Array]) -> InvalidInput:
    """Weights with which the constraints add up to a contradiction name those that cannot hold together."""
    least = 1e-6 * max(float(np.abs(part).max(initial=0.0)) for part in dual)
    owners = [must.low_by[np.isfinite(problem.low)], must.high_by[np.isfinite(problem.high)], problem.step_by]
    named = np.concatenate([owner[part > least] for owner, part in zip(owners, dual[1:], strict=True)])
    return must.contradiction(kept[np.abs(dual[0]) > least].tolist(), np.unique(named[named != NOBODY]).tolist())


def _polished(problem: Problem, active: Active, reach: float) -> tuple[Array | None, bool]:
    """Exact least squares with the active constraints as equalities; which are active is mended until it is the best.

    It is where it satisfies all and is as near as the solver's answer, or where every multiplier has its sign: these
    are not unique where constraints that are met imply each other. Also whether that is shown.
    """
    slack = 1e-12 * max(1.0, float(np.abs(problem.start).max()))
    steps = problem.steps
    best: Array | None = None
    for _ in range(ROUNDS):
        values, pushes = _with_equalities(problem, active, steps)
        missed = Active(
            values < problem.low - slack,
            values > problem.high + slack,
            values[problem.before] > values[problem.after] + slack,
        )
        wrong = _wrong(problem, active, pushes)
        if not missed.any and (best is None or problem.objective(values) < problem.objective(best)):
            best = values
        if not missed.any and (not wrong.any or problem.objective(values) <= reach):
            return values, True
        active = Active(
            (active.low & ~wrong.low) | missed.low,
            (active.high & ~wrong.high) | missed.high,
            (active.step & ~wrong.step) | missed.step,
        )
    return best, False


def _with_equalities(problem: Problem, active: Active, steps: Sparse) -> tuple[Array, tuple[Array, Array]]:
    """Least squares with these bounds and steps met; and the force at each cell and along each step."""
    from scipy import sparse

    values = np.where(active.low, problem.low, np.where(active.high, problem.high, problem.start))
    free = ~(active.low | active.high)
    tight = np.flatnonzero(active.step)
    columns = sparse.hstack([problem.matrix, steps[:, tight]]).tocsr()
    right = np.concatenate([problem.constants, np.zeros(len(tight))])
    ready = normal(columns[free].tocsc(), problem.variance[free])
    inner = columns[:, ready.kept]
    force = np.zeros(len(ready.kept))
    for _ in range(2):  # the second step takes away what the first left by rounding
        gap = right[ready.kept] - inner.T @ values
        values[free] += ready.moved(gap)
        force += ready.multipliers(gap)
    along = np.zeros(columns.shape[1])
    along[ready.kept] = force
    rest = (values - problem.start) / problem.variance - columns @ along
    on_steps = np.zeros(len(problem.before))
    on_steps[tight] = along[len(problem.constants) :]
    return values, (rest, on_steps)


def _wrong(problem: Problem, active: Active, pushes: tuple[Array, Array]) -> Active:
    """The active constraints that pull where they should push."""
    at_cells, on_steps = pushes
    slack = 1e-10 * (1 + float(np.abs(problem.start / problem.variance).max()))
    return Active(active.low & (at_cells < -slack), active.high & (at_cells > slack), active.step & (on_steps > slack))
