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
from discreet.inference.refined import MOST_ANSWERS, Refined, Spread
from discreet.inference.solving import Normal, consistent, listed, normal
from discreet.inference.vectors import Array, Sparse, constants, frozen, matrix, variances, vector

EXACT = 1e-9


def refine_linear(noisy: object, B: Any, c: object, variance: object = None) -> Refined:  # noqa: N803
    """The best linear unbiased answers that satisfy B' mu = c: least squares, weighted by 1/variance (linear.md).

    B has a row for each answer and a column for each constraint, dense or scipy sparse. The variance of the noise is
    one number, or one for each answer; the refined values do not depend on it where it is the same for all, and need
    none then, but intervals do.
    """
    answers = vector(noisy, "the noisy answers")
    columns = matrix(B, (len(answers), None), "B")
    right = constants(c, columns.shape[1])
    refined = by_equalities(answers, columns, right, variances(variance, len(answers)), "constraint {}".format)
    return replace(refined, in_units=variance is None)


def by_equalities(
    noisy: Array,
    B: Sparse,  # noqa: N803
    c: Array,
    variance: Array,
    name: Callable[[int], str],
    floating: tuple[int, ...] = (),
) -> Refined:
    """The same, for what was read already; `floating` are the columns whose constant is B'X itself."""
    ready = normal(B, variance)
    values = noisy.copy()
    for _ in range(2):  # the second step takes away what the first left by rounding
        values += ready.moved(c[ready.kept] - B[:, ready.kept].T @ values)
    consistent(ready, B, c, values, name)
    spread = Spread(variance, ready, *_floating(ready, B, variance, floating))
    return Refined(values, spread, values, dropped=tuple(name(int(column)) for column in ready.lost))


def _floating(ready: Normal, B: Sparse, variance: Array, floating: tuple[int, ...]) -> tuple[Array, Array]:  # noqa: N803
    """What noisy constants give back: their columns of V B (B'VB)^-1, and their covariance."""
    if not floating:
        return np.zeros((len(variance), 0)), np.zeros((0, 0))
    at = np.flatnonzero(np.isin(ready.kept, floating))
    chosen = B[:, ready.kept[at]].toarray()
    picked = np.zeros((len(ready.kept), len(at)))
    picked[at, np.arange(len(at))] = 1 / ready.size[at]
    columns = ready.root[:, None] * (ready.unit @ ready.solve(picked))
    return np.asarray(columns), np.asarray(chosen.T @ (variance[:, None] * chosen))


@dataclass(frozen=True, eq=False)
class LinearRefinement:
    """Any linear refinement A X + D c + h of noisy answers X by constants c; `best` is the one least squares gives."""

    A: Any
    D: Any
    h: Any = None

    def __post_init__(self) -> None:
        """Dense, finite, of shapes that fit: A is n x n, D n x m, h n."""
        square = matrix(self.A, (None, None), "A")
        cells = square.shape[0]
        if square.shape[1] != cells or cells > MOST_ANSWERS:
            raise InvalidInput(f"A must be square, with a row for each of at most {MOST_ANSWERS} answers")
        wide = matrix(self.D, (cells, None), "D").toarray()
        shift = np.zeros(cells) if self.h is None else vector(self.h, "h")
        if len(shift) != cells:
            raise InvalidInput(f"h must have a number for each of the {cells} answers, got {len(shift)}")
        for name, read in (("A", square.toarray()), ("D", wide), ("h", shift)):
            object.__setattr__(self, name, frozen(read))

    @staticmethod
    def best(B: Any, variance: object = None) -> LinearRefinement:  # noqa: N803
        """The best linear unbiased one for these constraints, none of which the others may imply."""
        columns = matrix(B, (None, None), "B")
        if columns.shape[0] > MOST_ANSWERS:
            raise InvalidInput(f"A is written out for at most {MOST_ANSWERS} answers; use refine_linear for more")
        weights = variances(variance, columns.shape[0])
        ready = normal(columns, weights)
        if len(ready.lost):
            said = listed([f"constraint {column}" for column in ready.lost])
            raise InvalidInput(f"the other constraints imply {said}; leave that out")
        picked = np.diag(1 / ready.size)
        shares = ready.root[:, None] * (ready.unit @ ready.solve(picked))
        taken = shares @ columns.T.toarray()
        own = np.eye(len(weights)) - taken
        rounding = EXACT**1.5 * (1 + np.abs(shares) @ np.abs(columns.T.toarray()))
        return LinearRefinement(np.where(np.abs(own) > rounding, own, 0.0), shares)

    def apply(self, noisy: object, c: object) -> Array:
        """A X + D c + h."""
        answers = vector(noisy, "the noisy answers")
        if len(answers) != len(self.A):
            raise InvalidInput(f"this refinement is of {len(self.A)} answers, got {len(answers)}")
        return np.asarray(self.A @ answers + self.D @ constants(c, self.D.shape[1]) + self.h)

    def is_constrained(self, B: Any) -> bool:  # noqa: N803
        """Whether B' of the refined answers is c, whatever the noisy ones and c are: B'A = 0, B'D = I, B'h = 0."""
        columns = self._fitting(B)
        size = np.maximum(1.0, np.abs(columns).max(axis=0, initial=0.0))[:, None]
        held = _same(columns.T @ self.D, np.eye(columns.shape[1])) and _same(columns.T @ self.A / size, 0.0)
        return held and _same(columns.T @ self.h / size[:, 0], 0.0)

    def is_unbiased(self, B: Any) -> bool:  # noqa: N803
        """Whether the refined answers are right on average wherever B' mu = c: A + D B' = I and h = 0."""
        columns = self._fitting(B)
        return _same(self.A + self.D @ columns.T, np.eye(len(self.A))) and _same(self.h, 0.0)

    def covariance(self, variance: object = None) -> Array:
        """A V A': the covariance of the refined answers, for independent noises of these variances.

        In units of the common variance where none is given.
        """
        return np.asarray((self.A * variances(variance, len(self.A))) @ self.A.T)

    def _fitting(self, B: Any) -> Array:  # noqa: N803
        return np.asarray(matrix(B, self.D.shape, "B").toarray())


def _same(one: Any, two: Any) -> bool:
    return bool(np.abs(one - two).max(initial=0.0) <= EXACT)
