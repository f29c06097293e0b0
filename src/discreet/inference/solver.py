"""The solver for least squares with inequalities: clarabel, an interior point method on sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.inference.vectors import Array, Sparse

STEP_FRACTIONS = (0.99, 0.9, 0.7)
"""How much of the way to a bound the solver goes at once: by its own choice, and shorter where it stalls."""
SOLVER_TOLERANCE = 1e-11


def solve_with_clarabel(squares: Array, rows: Sparse, right: Array, equal: int) -> Any:
    """Least sum of squares * x^2 with rows x <= right, the first `equal` of them with equality; clarabel's solution."""
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


def has_converged(solution: Any) -> bool:
    """Whether it came to rest, so that its answer is the best there is."""
    return str(solution.status) == "Solved"


def is_infeasible(solution: Any) -> bool:
    """Whether it shows that no answer satisfies all; its dual then says which contradict each other."""
    return "Infeasible" in str(solution.status)
