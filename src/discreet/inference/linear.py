"""Linear refinement: noisy answers X become A X + D c + h, which satisfy B' mu = c (document 002; ERRATA 5).

The best linear unbiased one moves the answers as little as the constraints allow, each weighed by its own noise:
X + V B lambda with (B'VB) lambda = c - B'X.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.inference.refined import MAX_ANSWERS, Refined, RefinementCovariance
from discreet.inference.solving import (
    NormalEquations,
    build_normal_equations,
    format_constraint_names,
    require_consistent,
)
from discreet.inference.vectors import (
    Array,
    Sparse,
    freeze_array,
    parse_constants,
    parse_matrix,
    parse_variances,
    parse_vector,
)

EXACT_TOLERANCE = 1e-9


def refine_linear(noisy: object, B: Any, c: object, variance: object = None) -> Refined:  # noqa: N803
    """The best linear unbiased answers that satisfy B' mu = c: least squares, weighted by 1/variance (linear.md).

    B has a row for each answer and a column for each constraint, dense or scipy sparse. The variance of the noise is
    one number, or one for each answer; the refined values do not depend on it where it is the same for all, and need
    none then, but intervals do.
    """
    answers = parse_vector(noisy, "the noisy answers")
    columns = parse_matrix(B, (len(answers), None), "B")
    right = parse_constants(c, columns.shape[1])
    refined = refine_by_equalities(
        answers, columns, right, parse_variances(variance, len(answers)), "constraint {}".format
    )
    return replace(refined, in_units=variance is None)


def refine_by_equalities(
    noisy: Array,
    B: Sparse,  # noqa: N803
    c: Array,
    variance: Array,
    name: Callable[[int], str],
    floating: tuple[int, ...] = (),
) -> Refined:
    """The same, for what was read already; `floating` are the columns whose constant is B'X itself."""
    equations = build_normal_equations(B, variance)
    values = noisy.copy()
    for _ in range(2):  # the second step takes away what the first left by rounding
        values += equations.compute_correction(c[equations.independent] - B[:, equations.independent].T @ values)
    require_consistent(equations, B, c, values, name)
    spread = RefinementCovariance(variance, equations, *_compute_floating_terms(equations, B, variance, floating))
    return Refined(values, spread, values, dropped=tuple(name(int(column)) for column in equations.redundant))


def _compute_floating_terms(
    equations: NormalEquations,
    B: Sparse,  # noqa: N803
    variance: Array,
    floating: tuple[int, ...],
) -> tuple[Array, Array]:
    """What noisy constants give back: their columns of V B (B'VB)^-1, and their covariance."""
    if not floating:
        return np.zeros((len(variance), 0)), np.zeros((0, 0))
    positions = np.flatnonzero(np.isin(equations.independent, floating))
    chosen = B[:, equations.independent[positions]].toarray()
    picked = np.zeros((len(equations.independent), len(positions)))
    picked[positions, np.arange(len(positions))] = 1 / equations.size[positions]
    columns = equations.root[:, None] * (equations.unit @ equations.solve(picked))
    return np.asarray(columns), np.asarray(chosen.T @ (variance[:, None] * chosen))


@dataclass(frozen=True, eq=False)
class LinearRefinement:
    """Any linear refinement A X + D c + h of noisy answers X by constants c; `best` is the one least squares gives."""

    A: Any
    D: Any
    h: Any = None

    def __post_init__(self) -> None:
        """Dense, finite, of shapes that fit: A is n x n, D n x m, h n."""
        square = parse_matrix(self.A, (None, None), "A")
        cells = square.shape[0]
        if square.shape[1] != cells or cells > MAX_ANSWERS:
            raise InvalidInput(f"A must be square, with a row for each of at most {MAX_ANSWERS} answers")
        wide = parse_matrix(self.D, (cells, None), "D").toarray()
        shift = np.zeros(cells) if self.h is None else parse_vector(self.h, "h")
        if len(shift) != cells:
            raise InvalidInput(f"h must have a number for each of the {cells} answers, got {len(shift)}")
        for name, array in (("A", square.toarray()), ("D", wide), ("h", shift)):
            object.__setattr__(self, name, freeze_array(array))

    @staticmethod
    def best(B: Any, variance: object = None) -> LinearRefinement:  # noqa: N803
        """The best linear unbiased one for these constraints, none of which the others may imply."""
        columns = parse_matrix(B, (None, None), "B")
        if columns.shape[0] > MAX_ANSWERS:
            raise InvalidInput(f"A is written out for at most {MAX_ANSWERS} answers; use refine_linear for more")
        weights = parse_variances(variance, columns.shape[0])
        equations = build_normal_equations(columns, weights)
        if len(equations.redundant):
            names = format_constraint_names([f"constraint {column}" for column in equations.redundant])
            raise InvalidInput(f"the other constraints imply {names}; leave that out")
        picked = np.diag(1 / equations.size)
        shares = equations.root[:, None] * (equations.unit @ equations.solve(picked))
        removed_part = shares @ columns.T.toarray()
        projection = np.eye(len(weights)) - removed_part
        rounding = EXACT_TOLERANCE**1.5 * (1 + np.abs(shares) @ np.abs(columns.T.toarray()))
        return LinearRefinement(np.where(np.abs(projection) > rounding, projection, 0.0), shares)

    def apply(self, noisy: object, c: object) -> Array:
        """A X + D c + h."""
        answers = parse_vector(noisy, "the noisy answers")
        if len(answers) != len(self.A):
            raise InvalidInput(f"this refinement is of {len(self.A)} answers, got {len(answers)}")
        return np.asarray(self.A @ answers + self.D @ parse_constants(c, self.D.shape[1]) + self.h)

    def is_constrained(self, B: Any) -> bool:  # noqa: N803
        """Whether B' of the refined answers is c, whatever the noisy ones and c are: B'A = 0, B'D = I, B'h = 0."""
        columns = self._parse_constraints(B)
        size = np.maximum(1.0, np.abs(columns).max(axis=0, initial=0.0))[:, None]
        holds = _are_close(columns.T @ self.D, np.eye(columns.shape[1])) and _are_close(columns.T @ self.A / size, 0.0)
        return holds and _are_close(columns.T @ self.h / size[:, 0], 0.0)

    def is_unbiased(self, B: Any) -> bool:  # noqa: N803
        """Whether the refined answers are right on average wherever B' mu = c: A + D B' = I and h = 0."""
        columns = self._parse_constraints(B)
        return _are_close(self.A + self.D @ columns.T, np.eye(len(self.A))) and _are_close(self.h, 0.0)

    def covariance(self, variance: object = None) -> Array:
        """A V A': the covariance of the refined answers, for independent noises of these variances.

        In units of the common variance where none is given.
        """
        return np.asarray((self.A * parse_variances(variance, len(self.A))) @ self.A.T)

    def _parse_constraints(self, B: Any) -> Array:  # noqa: N803
        return np.asarray(parse_matrix(B, self.D.shape, "B").toarray())


def _are_close(first: Any, second: Any) -> bool:
    return bool(np.abs(first - second).max(initial=0.0) <= EXACT_TOLERANCE)
