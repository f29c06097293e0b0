"""The nearest answers under equalities, bounds and order.

The solver (clarabel) tells which bounds and orders are met with equality; with these fixed, least squares is linear
again and is solved to the last digits. The solver's own distance, or the multipliers, prove that it is the best.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.estimation.constraint_set import NO_OWNER, ConstraintSet
from discreet.estimation.least_squares import Array, Places, Sparse, build_normal_equations

if TYPE_CHECKING:
    from clarabel import DefaultSolution

Flags = NDArray[np.bool_]
STEP_FRACTIONS = (0.99, 0.9, 0.7)
"""How much of the way to a bound the solver goes at once: by its own choice, and shorter where it stalls."""
SOLVER_TOLERANCE = 1e-11
MAX_ROUNDS = 30
MAX_PROOF_ROWS = 20_000
"""The least proof that constraints contradict each other is looked for among so many; else the solver's is used."""
CONSTRAINT_TOLERANCE = 1e-9
"""Every constraint holds to this part of the numbers in it."""


def solve_with_clarabel(squares: Array, rows: Sparse, right: Array, equal: int) -> DefaultSolution:
    """Minimize the sum of squares * x^2 with rows x <= right, the first `equal` of them with equality."""
    import clarabel
    from scipy import sparse

    cones = [clarabel.ZeroConeT(equal), clarabel.NonnegativeConeT(len(right) - equal)]
    weights, matrix = sparse.csc_matrix(sparse.diags_array(squares)), sparse.csc_matrix(rows)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = SOLVER_TOLERANCE
    for step_fraction in STEP_FRACTIONS:
        settings.max_step_fraction = step_fraction
        solution = clarabel.DefaultSolver(weights, np.zeros(len(squares)), matrix, right, cones, settings).solve()
        if has_converged(solution) or is_infeasible(solution):
            break
    return solution


def has_converged(solution: DefaultSolution) -> bool:
    """Whether the solver came to rest, so that its answer is the best there is."""
    return str(solution.status) == "Solved"


def is_infeasible(solution: DefaultSolution) -> bool:
    """Whether the solver shows that no answer satisfies all; its dual then says which contradict each other."""
    return "Infeasible" in str(solution.status)


@dataclass(frozen=True, eq=False, slots=True)
class ActiveSet:
    """Which bounds and which steps of the order are met with equality."""

    low: Flags
    high: Flags
    step: Flags

    @property
    def has_any(self) -> bool:
        """Whether there are any."""
        return bool(self.low.any() or self.high.any() or self.step.any())


@dataclass(frozen=True, eq=False, slots=True)
class QuadraticProgram:
    """Least squares around `start`: matrix' x = constants, low <= x <= high, and x[before] <= x[after]."""

    start: Array
    variance: Array
    matrix: Sparse
    constants: Array
    low: Array
    high: Array
    before: Places
    after: Places
    step_owners: Places

    @property
    def steps(self) -> Sparse:
        """A column e_before - e_after for each step of the order."""
        from scipy import sparse

        count = len(self.before)
        entries = np.concatenate([np.ones(count), -np.ones(count)])
        places = (np.concatenate([self.before, self.after]), np.tile(np.arange(count), 2))
        columns: Sparse = sparse.csc_array((entries, places), shape=(len(self.start), count))
        return columns

    def compute_objective(self, values: Array) -> float:
        """Half the weighted squared distance."""
        return float(((values - self.start) ** 2 / self.variance).sum() / 2)

    def compute_violation(self, values: Array) -> float:
        """Compute by what part of the numbers in it the worst constraint is missed."""
        size = max(1.0, float(np.abs(values).max()))
        gaps = [self.low - values, values - self.high, values[self.before] - values[self.after]]
        sums = np.abs(self.matrix.T @ values - self.constants) / np.maximum(1.0, abs(self.matrix).T @ np.abs(values))
        return max(float(sums.max(initial=0.0)), *(float(gap.max(initial=0.0)) / size for gap in gaps))


def solve_quadratic_program(start: Array, variance: Array, constraint_set: ConstraintSet, independent: Places) -> Array:
    """Find the nearest answers; refused where no answers satisfy all."""
    program = _build_program(start, variance, constraint_set, independent)
    rough, active, converged = _run_solver(program, constraint_set, independent)
    # Where the solver did not come to rest, its answer proves nothing: then only multipliers do.
    objective_bound = program.compute_objective(rough) * (1 + CONSTRAINT_TOLERANCE) if converged else -math.inf
    best, proved = _polish_solution(program, active, objective_bound)
    for candidate in (best, rough) if converged else (best,) if proved else ():
        if candidate is not None and program.compute_violation(candidate) <= CONSTRAINT_TOLERANCE:
            return candidate
    raise Unsupported("the solver found no answers that satisfy these constraints closely enough; use fewer of them")


def _build_program(
    start: Array, variance: Array, constraint_set: ConstraintSet, independent: Places
) -> QuadraticProgram:
    no_places, chains = np.zeros(0, dtype=np.int64), constraint_set.chains
    chain_owners = np.array(constraint_set.chain_owners, dtype=np.int64)
    return QuadraticProgram(
        start=start,
        variance=variance,
        matrix=constraint_set.matrix[:, independent].tocsc(),
        constants=constraint_set.constants[independent],
        low=constraint_set.low,
        high=constraint_set.high,
        before=np.concatenate([no_places, *(chain[:-1] for chain in chains)]),
        after=np.concatenate([no_places, *(chain[1:] for chain in chains)]),
        step_owners=np.repeat(chain_owners, [len(chain) - 1 for chain in chains]),
    )


def _run_solver(
    program: QuadraticProgram, constraint_set: ConstraintSet, independent: Places
) -> tuple[Array, ActiveSet, bool]:
    """The solver's answer, what it finds active, and whether it came to rest."""
    rows, right, cuts = _build_rows(program)
    unit = max(1.0, -float(right.min(initial=0.0)))
    solution = solve_with_clarabel(np.ones(rows.shape[1]), rows, right / unit, int(cuts[0]))
    if is_infeasible(solution):
        proof = _find_minimal_proof(rows, right / unit, int(cuts[0]))
        dual = np.split(np.array(solution.z) if proof is None else proof, cuts)
        raise _build_infeasible_error(program, constraint_set, independent, dual)
    tight = np.split(np.array(solution.z) > np.array(solution.s), cuts)
    active = ActiveSet(np.isfinite(program.low), np.isfinite(program.high), tight[3])
    active.low[active.low], active.high[active.high] = tight[1], tight[2]
    rough = program.start + np.sqrt(program.variance) * np.array(solution.x) * unit
    return rough, active, has_converged(solution)


def _build_rows(program: QuadraticProgram) -> tuple[Sparse, Array, Places]:
    """rows z <= right for z = (x - start)/deviation, each row of length 1; and where each kind of them ends.

    First come the equalities, then the lower bounds, the upper bounds, the steps of the order.
    """
    from scipy import sparse

    root = np.sqrt(program.variance)
    lows, highs = np.flatnonzero(np.isfinite(program.low)), np.flatnonzero(np.isfinite(program.high))
    inverse_root = sparse.diags_array(1 / root).tocsc()
    columns = [program.matrix, -inverse_root[:, lows], inverse_root[:, highs], program.steps]
    gaps = [
        program.constants - program.matrix.T @ program.start,
        (program.start - program.low)[lows] / root[lows],
        (program.high - program.start)[highs] / root[highs],
        program.start[program.after] - program.start[program.before],
    ]
    scaled = sparse.diags_array(root).tocsc() @ sparse.hstack(columns).tocsc()
    size = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=0)).ravel())
    rows = (scaled @ sparse.diags_array(1 / size)).T.tocsc()
    return rows, np.concatenate(gaps) / size, np.cumsum([len(gap) for gap in gaps[:3]])


def _find_minimal_proof(rows: Sparse, right: Array, equal: int) -> Array | None:
    """Weights with which the rows add up to 0 <= -1, from a corner of all such: none of them can be left out."""
    from scipy import sparse
    from scipy.optimize import linprog

    if len(right) > MAX_PROOF_ROWS:
        return None
    free, cost = [(None, None)] * equal, np.repeat([0.0, 1.0], [equal, len(right) - equal])
    sums, aim = sparse.vstack([rows.T, sparse.csr_array(right[None, :])]), np.zeros(rows.shape[1] + 1)
    aim[-1] = -1
    solution = linprog(cost, A_eq=sums, b_eq=aim, bounds=free + [(0, None)] * (len(right) - equal), method="highs-ds")
    return np.asarray(solution.x) if solution.status == 0 else None


def _build_infeasible_error(
    program: QuadraticProgram, constraint_set: ConstraintSet, independent: Places, dual: list[Array]
) -> InvalidInput:
    """Weights with which the constraints add up to a contradiction name those that cannot hold together."""
    least = 1e-6 * max(float(np.abs(part).max(initial=0.0)) for part in dual)
    owners = [
        constraint_set.low_owners[np.isfinite(program.low)],
        constraint_set.high_owners[np.isfinite(program.high)],
        program.step_owners,
    ]
    named_owners = np.concatenate([owner[part > least] for owner, part in zip(owners, dual[1:], strict=True)])
    columns = independent[np.abs(dual[0]) > least].tolist()
    return constraint_set.build_contradiction(columns, np.unique(named_owners[named_owners != NO_OWNER]).tolist())


def _polish_solution(program: QuadraticProgram, active: ActiveSet, objective_bound: float) -> tuple[Array | None, bool]:
    """Exact least squares with the active constraints as equalities; which are active is corrected until it is best.

    It is where it satisfies all and is as near as the solver's answer, or where every multiplier has its sign: these
    are not unique where constraints that are met imply each other. Also whether that is shown.
    """
    slack = 1e-12 * max(1.0, float(np.abs(program.start).max()))
    steps = program.steps
    best: Array | None = None
    for _ in range(MAX_ROUNDS):
        values, forces = _solve_with_equalities(program, active, steps)
        violated = ActiveSet(
            values < program.low - slack,
            values > program.high + slack,
            values[program.before] > values[program.after] + slack,
        )
        wrong = _find_wrong_signs(program, active, forces)
        if not violated.has_any:
            objective = program.compute_objective(values)
            if not wrong.has_any or objective <= objective_bound:
                return values, True
            if best is None or objective < program.compute_objective(best):
                best = values
        active = ActiveSet(
            (active.low & ~wrong.low) | violated.low,
            (active.high & ~wrong.high) | violated.high,
            (active.step & ~wrong.step) | violated.step,
        )
    return best, False


def _solve_with_equalities(
    program: QuadraticProgram, active: ActiveSet, steps: Sparse
) -> tuple[Array, tuple[Array, Array]]:
    """Least squares with these bounds and steps met; and the force at each cell and along each step."""
    from scipy import sparse

    values = np.where(active.low, program.low, np.where(active.high, program.high, program.start))
    free = ~(active.low | active.high)
    tight = np.flatnonzero(active.step)
    columns = sparse.hstack([program.matrix, steps[:, tight]]).tocsr()
    right = np.concatenate([program.constants, np.zeros(len(tight))])
    equations = build_normal_equations(columns[free].tocsc(), program.variance[free])
    inner = columns[:, equations.independent]
    force = np.zeros(len(equations.independent))
    for _ in range(2):  # the second step takes away what the first left by rounding
        gap = right[equations.independent] - inner.T @ values
        values[free] += equations.compute_correction(gap)
        force += equations.compute_multipliers(gap)
    along = np.zeros(columns.shape[1])
    along[equations.independent] = force
    residual = (values - program.start) / program.variance - columns @ along
    on_steps = np.zeros(len(program.before))
    on_steps[tight] = along[len(program.constants) :]
    return values, (residual, on_steps)


def _find_wrong_signs(program: QuadraticProgram, active: ActiveSet, forces: tuple[Array, Array]) -> ActiveSet:
    """The active constraints that pull where they should push."""
    at_cells, on_steps = forces
    slack = 1e-10 * (1 + float(np.abs(program.start / program.variance).max()))
    return ActiveSet(
        active.low & (at_cells < -slack), active.high & (at_cells > slack), active.step & (on_steps > slack)
    )


def find_nearest_answers(start: Array, variance: Array, constraint_set: ConstraintSet, independent: Places) -> Array:
    """Find the nearest answers to `start`, which satisfies the equalities; the independent ones imply the others."""
    low, high, chains = constraint_set.low, constraint_set.high, constraint_set.chains
    is_within = bool((start >= low).all() and (start <= high).all())
    if is_within and all((np.diff(start[chain]) >= 0).all() for chain in chains):
        return start
    if not chains and len(independent) == 1:
        return project_on_equality(start, variance, constraint_set, int(independent[0]))
    values = start
    if len(independent) or (chains and not _has_separate_chains(constraint_set)):
        values = solve_quadratic_program(start, variance, constraint_set, independent)
    elif chains:
        values = _fit_order(start, variance, constraint_set)
    return np.asarray(np.clip(values, low, high))


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
    """Project on bounds and one equality a'x = c: clip(start + V a t, low, high) for the t that fits, found by sorting.

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
    """A value before the place `after` and behind the one before it."""
    if not places:
        return 0.0
    if after == 0:
        return places[0] - 1.0
    return places[-1] + 1.0 if after == len(places) else (places[after - 1] + places[after]) / 2


def _require_reachable(constraint_set: ConstraintSet, column: int, weights: Array) -> None:
    used_cells, constant = np.flatnonzero(weights), float(constraint_set.constants[column])
    slack = 1e-9 * max(1.0, abs(constant))
    for sign in (-1, 1):
        upwards = (weights * sign > 0)[used_cells]
        ends = np.where(upwards, constraint_set.high[used_cells], constraint_set.low[used_cells])
        farthest = float(weights[used_cells] @ ends)
        if sign * (constant - farthest) > slack:
            owners = np.where(upwards, constraint_set.high_owners[used_cells], constraint_set.low_owners[used_cells])
            raise constraint_set.build_contradiction([column], np.unique(owners[owners != NO_OWNER]).tolist())
