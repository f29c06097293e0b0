"""Linear refinement and reconciliation of noisy answers (document 002; ERRATA 5).

Noisy answers X become A X + D c + h, which satisfy B' mu = c. The best linear unbiased refinement moves the answers as
little as the constraints allow, each weighed by its own noise: X + V B lambda with (B'VB) lambda = c - B'X.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.estimation.constraint_set import Constraint, ConstraintSet, gather_constraints
from discreet.estimation.least_squares import (
    Array,
    NormalEquations,
    Sparse,
    build_normal_equations,
    compute_quadratic_forms,
    format_constraint_names,
    freeze_array,
    parse_constants,
    parse_matrix,
    parse_variances,
    parse_vector,
    require_consistent,
)
from discreet.estimation.quadratic_program import find_nearest_answers
from discreet.numeric import as_number_between
from discreet.privacy.guarantee import Guarantee
from discreet.untrusted import CheckedValue

INTEGER_NOISE_VARIANCE = 0.25
"""What a whole-number noise is taken to vary more, so that intervals by variance hold (linear_refinement.md)."""
MAX_ANSWERS = 5_000
"""A covariance of more answers than this is not written out."""
MAX_FACT_ANSWERS = 200
"""What a fact costs each number apart is computed for so many answers; for more it is called unbounded."""
EXACT_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class RefinementCovariance:
    """How the error of linearly refined answers is spread: V - V B (B'VB)^-1 B'V.

    Where constants are noisy themselves (the answers' own total), `floating` are the columns of V B (B'VB)^-1 that
    carry them and `floating_covariance` is the constants' covariance: that much comes back.
    """

    variance: Array
    equations: NormalEquations
    floating: Array
    floating_covariance: Array

    @cached_property
    def variances(self) -> Array:
        """The variance of each answer; never above that of its own noise but for noisy constants."""
        gained = compute_quadratic_forms(self.equations)
        floating_variances = ((self.floating @ self.floating_covariance) * self.floating).sum(axis=1)
        return freeze_array(self.variance * np.clip(1 - gained, 0.0, 1.0) + floating_variances)

    def compute_covariance(self) -> Array:
        """Compute the covariance of all answers."""
        root, unit = self.equations.root, self.equations.unit
        basis = self.equations.basis if self.equations.is_small else None
        gained = unit @ self.equations.solve(unit.T.toarray()) if basis is None else basis @ basis.T
        dense = np.diag(self.variance) - np.outer(root, root) * gained
        return np.asarray((dense + dense.T) / 2 + self.floating @ self.floating_covariance @ self.floating.T)


@dataclass(frozen=True, eq=False)
class Refined(CheckedValue):
    """Answers that satisfy the constraints, with their error; `reconcile` and `refine_linear` return it.

    Covariance and variances are those of the refinement by the equalities alone, `center`.

    Args:
        values: The refined answers.
        spread: The covariance of their errors.
        center: The refinement by the equalities alone.
        low: Lower bounds that were stated.
        high: Upper bounds that were stated.
        dropped: The names of constraints that the others imply.
        guarantee: That of the noisy answers where all constraints were structural; with facts, what they cost as well.
        in_units: Whether no variance was given: all variances are then in units of the common one.

    Example:
        >>> from discreet import reconcile, total
        >>> refined = reconcile([4, 9], [total(10)], variance=2)
        >>> low, high = refined.intervals(0.95)[0]
        >>> bool(low < refined.values[0] < high)
        True
    """

    values: Array
    spread: RefinementCovariance = field(repr=False)
    center: Array = field(repr=False)
    low: Array | float = field(default=-math.inf, repr=False)
    high: Array | float = field(default=math.inf, repr=False)
    dropped: tuple[str, ...] = ()
    guarantee: Guarantee | None = None
    in_units: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        freeze_array(self.values)

    def covariance(self) -> Array:
        """Compute the covariance of the refined answers in full; in units of the common variance if none was given."""
        if len(self.values) > MAX_ANSWERS:
            raise InvalidInput(
                f"the covariance of {len(self.values)} answers is too large to write out, at most {MAX_ANSWERS} fit; "
                "use .variances()"
            )
        return self.spread.compute_covariance()

    def variances(self) -> Array:
        """Return the variance of each refined answer; in units of the common variance where none was given."""
        return self.spread.variances

    def intervals(self, confidence: object = 0.95, step: float = 0.0) -> Array:
        """Compute two ends for each answer that hold the exact one with at least this confidence, each answer apart.

        Assumed: the answers' noises are independent, each Laplace or Gaussian with the variance given; and the
        confidence is at least one half. Of whole-number versions of these say by `step` how far apart the values are:
        half of it is added on both sides. Bounds that were declared cut an interval; it is widened to hold the value.
        """
        if self.in_units:
            raise InvalidInput("say the variance of the noise, such as variance=200, to have intervals")
        if not 0 <= step < math.inf:
            raise InvalidInput("the step between whole-number noises must be a finite number of at least 0, such as 1")
        half = compute_worst_quantile(confidence) * np.sqrt(self.variances()) + step / 2
        low = np.clip(self.center - half, self.low, self.high)
        high = np.clip(self.center + half, self.low, self.high)
        return np.column_stack([np.minimum(low, self.values), np.maximum(high, self.values)])


def compute_worst_quantile(confidence: object) -> float:
    """Compute how many standard deviations hold a weighted sum of independent Laplace and Gaussian noises this often.

    From one half on the worst of such sums is one of the two ends: a Laplace noise alone, or Gaussian ones
    (linear_refinement.md).
    """
    level = float(as_number_between(confidence, 0, 1, "the confidence"))
    return max(NormalDist().inv_cdf((1 + level) / 2), -math.log1p(-level) / math.sqrt(2))


def refine_linear(noisy: object, B: object, c: object, variance: object = None) -> Refined:  # noqa: N803
    """Compute the best linear unbiased answers that satisfy B' mu = c: least squares, weighted by 1/variance.

    Where the variance is the same for all answers, the refined values do not depend on it, but intervals need it.
    Proof: linear_refinement.md.

    Args:
        noisy: The noisy answers.
        B: A row for each answer and a column for each constraint, dense or scipy sparse.
        c: The right-hand side: a number for each constraint.
        variance: The variance of the noise: one number, or one for each answer.

    Returns:
        The refined answers with their covariance.

    Raises:
        InvalidInput: An array is not numbers, the shapes do not fit, or the constraints contradict one another.

    Example:
        >>> from discreet.constraints import refine_linear
        >>> refined = refine_linear([4, 9], B=[[1], [1]], c=[10], variance=2)
        >>> refined.values.tolist(), [round(float(value), 6) for value in refined.variances()]
        ([2.5, 7.5], [1.0, 1.0])
    """
    answers = parse_vector(noisy, "the noisy answers")
    columns = parse_matrix(B, (len(answers), None), "B")
    right = parse_constants(c, columns.shape[1])
    variances = parse_variances(variance, len(answers))
    refined = refine_by_equalities(answers, columns, right, variances, "constraint {}".format)
    return replace(refined, in_units=variance is None)


def refine_by_equalities(
    noisy: Array,
    B: Sparse,  # noqa: N803
    c: Array,
    variance: Array,
    name: Callable[[int], str],
    floating: tuple[int, ...] = (),
) -> Refined:
    """Refine answers that were read already; `floating` are the columns whose constant is B'X itself."""
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
class LinearRefinement(CheckedValue):
    """A linear refinement A X + D c + h of noisy answers X by constants c; `LinearRefinement.best` is that of least
    squares.

    Args:
        A: A square matrix, n x n.
        D: A matrix n x m, for m constants.
        h: n numbers; 0 by default.

    Raises:
        InvalidInput: An array is not finite numbers, or the shapes do not fit.

    Example:
        >>> from discreet.constraints import LinearRefinement
        >>> refinement = LinearRefinement.best(B=[[1], [1]])
        >>> refinement.apply([4, 9], [10]).tolist()
        [2.5, 7.5]
    """

    A: Any
    D: Any
    h: Any = None

    def __post_init__(self) -> None:
        """Require dense, finite arrays of shapes that fit: A is n x n, D n x m, h n."""
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
    def best(B: object, variance: object = None) -> LinearRefinement:  # noqa: N803
        """Build the best linear unbiased one for these constraints, none of which the others may imply."""
        columns = parse_matrix(B, (None, None), "B")
        if columns.shape[0] > MAX_ANSWERS:
            raise InvalidInput(f"A is written out for at most {MAX_ANSWERS} answers; use refine_linear for more")
        weights = parse_variances(variance, columns.shape[0])
        equations = build_normal_equations(columns, weights)
        if len(equations.redundant):
            names = format_constraint_names([f"constraint {column}" for column in equations.redundant])
            raise InvalidInput(f"the other constraints imply {names}; leave that out")
        shares = equations.root[:, None] * (equations.unit @ equations.solve(np.diag(1 / equations.size)))
        transposed = columns.T.toarray()
        projection = np.eye(len(weights)) - shares @ transposed
        rounding = EXACT_TOLERANCE**1.5 * (1 + np.abs(shares) @ np.abs(transposed))
        return LinearRefinement(np.where(np.abs(projection) > rounding, projection, 0.0), shares)

    def apply(self, noisy: object, c: object) -> Array:
        """Compute A X + D c + h."""
        answers = parse_vector(noisy, "the noisy answers")
        if len(answers) != len(self.A):
            raise InvalidInput(f"this refinement is of {len(self.A)} answers, got {len(answers)}")
        return np.asarray(self.A @ answers + self.D @ parse_constants(c, self.D.shape[1]) + self.h)

    def is_constrained(self, B: object) -> bool:  # noqa: N803
        """Whether B' of the refined answers is c, whatever the noisy ones and c are: B'A = 0, B'D = I, B'h = 0."""
        columns = self._parse_constraints(B)
        size = np.maximum(1.0, np.abs(columns).max(axis=0, initial=0.0))[:, None]
        holds = _are_close(columns.T @ self.D, np.eye(columns.shape[1])) and _are_close(columns.T @ self.A / size, 0.0)
        return holds and _are_close(columns.T @ self.h / size[:, 0], 0.0)

    def is_unbiased(self, B: object) -> bool:  # noqa: N803
        """Whether the refined answers are right on average wherever B' mu = c: A + D B' = I and h = 0."""
        columns = self._parse_constraints(B)
        return _are_close(self.A + self.D @ columns.T, np.eye(len(self.A))) and _are_close(self.h, 0.0)

    def covariance(self, variance: object = None) -> Array:
        """Compute A V A', the covariance of the refined answers, for independent noises of these variances.

        In units of the common variance where none is given.
        """
        return np.asarray((self.A * parse_variances(variance, len(self.A))) @ self.A.T)

    def _parse_constraints(self, B: object) -> Array:  # noqa: N803
        return np.asarray(parse_matrix(B, self.D.shape, "B").toarray())


def _are_close(first: Array, second: Array | float) -> bool:
    return bool(np.abs(first - second).max(initial=0.0) <= EXACT_TOLERANCE)


def reconcile(
    noisy: object,
    constraints: Iterable[Constraint] = (),
    variance: object = None,
    *,
    whole: bool = False,
    accept_facts: bool = False,
    guarantee: Guarantee | None = None,
    changes: object = None,
) -> Refined:
    """Find the answers nearest to the noisy ones that satisfy all constraints, in least squares weighted by 1/variance.

    It is post-processing and costs nothing, unless a constraint is a fact taken from this data set.

    Args:
        noisy: The noisy answers.
        constraints: Statements about the exact answers.
        variance: The variance of the noise: one number, or one for each answer. Intervals need it.
        whole: Whether to return whole numbers, each less than 1 from the best ones, that keep totals, nesting, bounds
            and order.
        accept_facts: Must be True if a constraint is a fact; the variance and the guarantee are then needed too.
        guarantee: The guarantee of the noisy answers; with facts, the result's guarantee states what they cost.
        changes: With facts, the changes of the exact answers between neighbors, as rows; by default each cell changes
            alone.

    Returns:
        The refined answers, with their error and guarantee.

    Raises:
        InvalidInput: An argument is not valid, or no answers satisfy all constraints.

    Example:
        >>> from discreet import at_least, reconcile, total
        >>> refined = reconcile([52.4, 49.1, -2.5], [total(100), at_least(0)], variance=8)
        >>> [round(float(value), 2) for value in refined.values]
        [51.65, 48.35, 0.0]
        >>> reconcile([52.4, 49.1, -2.5], [total(100), at_least(0)], whole=True).values.tolist()
        [52.0, 48.0, 0.0]
    """
    answers = parse_vector(noisy, "the noisy answers")
    weights = parse_variances(variance, len(answers))
    constraint_set = gather_constraints(answers, constraints)
    stated_variance = None if variance is None else weights
    label = _label_guarantee(constraint_set, stated_variance, accept_facts, guarantee, changes)
    if whole:
        from discreet.estimation.raking import ControlledRounding

        rounding = ControlledRounding.of(constraint_set)
        refined = _reconcile_answers(answers, weights, rounding.constraint_set)
        refined = replace(refined, values=rounding.round_values(refined.values))
    else:
        refined = _reconcile_answers(answers, weights, constraint_set)
    return replace(refined, guarantee=label, in_units=variance is None)


def _reconcile_answers(answers: Array, variance: Array, constraint_set: ConstraintSet) -> Refined:
    """By the equalities first: what is nearest to their answer is nearest to the noisy ones."""
    linear = refine_by_equalities(
        answers,
        constraint_set.matrix,
        constraint_set.constants,
        variance,
        constraint_set.describe_equality,
        constraint_set.floating,
    )
    values = find_nearest_answers(linear.values, variance, constraint_set, linear.spread.equations.independent)
    return replace(linear, values=values, low=constraint_set.low, high=constraint_set.high)


def _label_guarantee(
    constraint_set: ConstraintSet,
    variance: Array | None,
    accept_facts: bool,
    guarantee: Guarantee | None,
    changes: object,
) -> Guarantee | None:
    """The guarantee of the refined answers: unchanged, unless facts were used."""
    if not isinstance(guarantee, Guarantee | None):
        raise InvalidInput("the guarantee must be that of the noisy answers, such as Guarantee.dp(0.1)")
    if not constraint_set.facts:
        return guarantee
    facts = format_constraint_names(list(constraint_set.facts))
    if not accept_facts:
        raise InvalidInput(
            f"this is a fact of one data set, not true of every one: {facts}; leave it out, "
            "or say accept_facts=True and take the weaker guarantee"
        )
    if guarantee is None or variance is None:
        raise InvalidInput(
            f"to say what a fact costs ({facts}), give the guarantee and the variance of the noisy answers"
        )
    if changes is None and guarantee.unit != "row":
        raise InvalidInput(
            f"the promise is for a {guarantee.unit}, which may have several rows; give changes=, a row for each way in "
            "which the exact answers of two neighbouring data sets can differ"
        )
    from discreet.estimation.refinement_cost import build_fact_guarantee

    return build_fact_guarantee(guarantee, constraint_set.facts, _compute_fact_rho(constraint_set, variance, changes))


def _compute_fact_rho(constraint_set: ConstraintSet, variance: Array, changes: object) -> float:
    """The largest rho of one refined number apart; infinite where it is not known to be smaller."""
    if constraint_set.has_inequalities or constraint_set.floating or len(variance) > MAX_FACT_ANSWERS:
        return math.inf
    answers_change = np.eye(len(variance))
    if changes is not None:
        answers_change = parse_matrix(changes, (None, len(variance)), "changes").toarray()
    structural = constraint_set.matrix[:, np.flatnonzero(~constraint_set.is_fact)]
    if np.abs(answers_change @ structural).max(initial=0.0) > EXACT_TOLERANCE:
        raise InvalidInput(
            "a change between neighbours must keep the structural constraints; give changes=, a row for each way in "
            "which the exact answers of two neighbouring data sets can differ"
        )
    from discreet.estimation.refinement_cost import compute_rho_apart

    independent = build_normal_equations(constraint_set.matrix, variance).independent
    columns = constraint_set.matrix[:, independent]
    best = LinearRefinement.best(columns, variance)
    constants_change = answers_change @ columns.toarray() * constraint_set.is_fact[independent]
    return compute_rho_apart(best.A, best.D, np.sqrt(variance / 2), constants_change, answers_change)
