"""What a linear refinement by facts of the data reveals: its loss between neighbours, or that it has no bound.

The refinement is A x + D c + h of noisy answers x with Laplace noise, where c are constants that may differ between
neighbours. Its loss is the least sum of |v_i| / scale_i over all v with T v = T (mu - mu') + P D (c - c'), where P is
the components that are released and T = P A; infinite where there is no such v. Proof: refinement_cost.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.estimation.least_squares import Array, Sparse
from discreet.formatting import format_cost
from discreet.numeric import as_positive, format_exact
from discreet.privacy.guarantee import Guarantee

RANGE_TOLERANCE = 1e-9
"""A direction of T shorter than this, beside A's rows and 1, reaches nothing; so too large a rho errs to infinity."""
ROUNDING_ERROR = 8 * float(np.finfo(np.float64).eps)
"""Of a sum of numbers about 1, for each of them."""
MAX_ENTRIES = 25_000_000
"""Of the rows of A that are released, so that they fit into memory."""
ROUND_UP_CONTEXT = Context(prec=6, rounding=ROUND_CEILING)


def rho(
    A: object,  # noqa: N803 (the documents' letters)
    D: object,  # noqa: N803
    noise_scale: object,
    constants_change: object,
    answers_change: object,
    components: object = None,
) -> float:
    """Compute the privacy loss of answers that were refined by exact facts of the data set.

    It is the loss of these components of A x + D c, released together, and may be infinite. No solver's tolerance makes
    it too small: it is the sum for a v that satisfies the equations to the last digits, with the remainder added.

    Args:
        A: The matrix of the refinement, n x n.
        D: The matrix of the constants, n x m.
        noise_scale: The scale of the continuous Laplace noise: one number, or one for each answer. Noise on whole
            numbers may lose more (refinement_cost.md).
        constants_change: c - c' for a pair of neighbors; or several as rows, and the largest loss counts.
        answers_change: mu - mu' for the same pairs.
        components: The positions that are released; all by default.

    Returns:
        The loss, in units of epsilon.

    Raises:
        InvalidInput: An array is not numbers, or the shapes do not fit.

    Example:
        >>> from discreet import rho
        >>> from discreet.constraints import LinearRefinement
        >>> best = LinearRefinement.best(B=[[1], [1]])  # the exact total was used
        >>> rho(best.A, best.D, noise_scale=1, constants_change=[1], answers_change=[1, 0], components=[0])
        2.0
        >>> rho(best.A, best.D, noise_scale=1, constants_change=[1], answers_change=[1, 0])  # both reveal the total
        inf
    """
    released = _build_components(A, D, noise_scale, constants_change, answers_change, components)
    return released.compute_apart() if len(released.rows) == 1 else released.compute_together()


def compute_rho_apart(A: Array, D: Array, scale: Array, constants_change: Array, answers_change: Array) -> float:  # noqa: N803
    """Compute the largest loss of one component of A x + D c released alone."""
    return _build_components(A, D, scale, constants_change, answers_change, None).compute_apart()


def scale_for_rho(
    epsilon: object,
    A: object,  # noqa: N803
    D: object,  # noqa: N803
    constants_change: object,
    answers_change: object,
    components: object = None,
) -> float:
    """Compute the noise scale of all answers that brings `rho` to epsilon.

    Args:
        epsilon: The loss that is allowed, above 0.
        A: The matrix of the refinement, n x n.
        D: The matrix of the constants, n x m.
        constants_change: c - c' for a pair of neighbors; or several as rows.
        answers_change: mu - mu' for the same pairs.
        components: The positions that are released; all by default.

    Returns:
        The scale; 0 where nothing that is released changes.

    Raises:
        InvalidInput: An argument is not valid, or no scale bounds the loss.

    Example:
        >>> from discreet.constraints import LinearRefinement, scale_for_rho
        >>> best = LinearRefinement.best(B=[[1], [1]])
        >>> round(scale_for_rho(0.5, best.A, best.D, [1], [1, 0], components=[0]), 6)
        4.0
    """
    wanted = as_positive(epsilon, "epsilon")
    unit_rho = rho(A, D, 1, constants_change, answers_change, components)
    if math.isinf(unit_rho):
        raise InvalidInput(
            "no noise scale bounds what these refined numbers tell, since they follow constants taken from the data; "
            "tell fewer components, or refine by what is true of every data set"
        )
    return float(Fraction(unit_rho) / wanted) * (1 + ROUNDING_ERROR)


def build_fact_guarantee(before: Guarantee, facts: Sequence[str], each: float) -> Guarantee:
    """Build the guarantee of a refinement by these facts of answers with the guarantee `before`: nominal, and why.

    `each` is the largest rho of one refined number apart; together they have no bound, whatever the facts
    (refinement_cost.md).
    """
    if before.model != "dp" or before.epsilon is None:
        raise InvalidInput(f"a refinement by facts is labelled for Laplace noise, which is dp, got {before.model}")
    if not facts or not each >= 0:
        raise InvalidInput(
            "a refinement by facts names at least one fact and a rho of at least 0 for each number apart"
        )
    loss, epsilon = "no bound", before.epsilon
    if math.isfinite(each):
        short = shorten_rho(each)
        loss = f"rho {format_cost(short)} by continuous Laplace noise, and may be more by noise on whole numbers"
        epsilon = max(epsilon, short)
    assumptions = (
        f"the refinement used facts of this data set: {'; '.join(facts)}",
        "all refined numbers together have no bound",
        f"each refined number apart has {loss}",
        f"the answers before the refinement keep their own promise: {before.words()}",
    )
    label = Guarantee.nominal(epsilon, assumptions[0])
    return replace(label, unit=before.unit, assumptions=(*before.assumptions, *assumptions))


def shorten_rho(value: float) -> Fraction:
    """Return the short number that a finite loss is but for rounding, else 6 digits of it, rounded up."""
    short, exact = Fraction(value).limit_denominator(10_000), Fraction(value)
    if abs(short - exact) * 10**12 <= exact and len(format_exact(short)) <= ROUND_UP_CONTEXT.prec:
        return short
    return Fraction(ROUND_UP_CONTEXT.create_decimal(Decimal(value)))


@dataclass(frozen=True, eq=False, slots=True)
class _ReleasedComponents:
    """The components that are released, with v, the answers and T in units of the noise, the largest scale being 1."""

    rows: Array
    answers: Array
    """mu - mu', a row for each pair of neighbours."""
    shifts: Array
    """P D (c - c'), likewise."""
    sizes: Array
    """The largest sum of terms in the shifts of a pair, which their rounding is measured by."""
    reference: float
    scale: float

    def compute_apart(self) -> float:
        """Of one component at a time: |s| over the largest |T_i|, as all of v goes where it moves most."""
        lengths = np.linalg.norm(self.rows, axis=1)
        has_shifted = np.abs(self.shifts) > RANGE_TOLERANCE * self.sizes
        if (has_shifted & (lengths <= RANGE_TOLERANCE * self.reference)).any():
            return math.inf
        is_visible = lengths > self._compute_rounding()
        steps = np.abs(self.answers @ self.rows[is_visible].T + self.shifts[:, is_visible])
        loss = (steps / np.abs(self.rows[is_visible]).max(axis=1, initial=0.0)).max(initial=0.0)
        return float(loss / self.scale)

    def compute_together(self) -> float:
        """Of all: the shifts must lie in T's range, and then the shortest v counts."""
        left, values, basis = np.linalg.svd(self.rows, full_matrices=False)
        numeric_rank = int((values > RANGE_TOLERANCE * self.reference).sum())
        visible_rank = int((values > self._compute_rounding()).sum())
        outside = self.shifts - self.shifts @ left[:, :numeric_rank] @ left[:, :numeric_rank].T
        if (np.abs(outside) > RANGE_TOLERANCE * self.sizes).any():
            return math.inf
        targets = self.answers @ basis[:visible_rank].T + self.shifts @ left[:, :visible_rank] / values[:visible_rank]
        pairs = zip(targets, self.answers, self.shifts, strict=True)
        return max(self._bound_least_sum(basis[:visible_rank], *pair) for pair in pairs) / self.scale

    def _bound_least_sum(self, basis: Array, target: Array, answers: Array, shift: Array) -> float:
        """The least sum of |v| with basis v = target, from above; the basis is orthonormal, so any v can be mended."""
        solution = _find_shortest(basis, target)
        solution = solution + (target - basis @ solution) @ basis
        missed = float(np.linalg.norm(target - basis @ solution)) * math.sqrt(len(solution))
        least = (math.fsum(np.abs(solution)) + missed) * (1 + self._compute_rounding())
        return least if shift.any() else min(least, math.fsum(np.abs(answers)))

    def _compute_rounding(self) -> float:
        return float(max(self.rows.shape) * ROUNDING_ERROR * self.reference)


def _find_shortest(basis: Array, target: Array) -> Array:
    """About the v of least sum of |v| with basis v = target; where no solver is needed or none helps, a v."""
    from scipy.optimize import linprog

    solution = target @ basis
    if 0 < len(basis) < basis.shape[1]:
        weights = np.ones(2 * basis.shape[1])
        split_solution = linprog(weights, A_eq=np.hstack((basis, -basis)), b_eq=target, method="highs").x
        solution = solution if split_solution is None else np.subtract(*np.split(split_solution, 2))
    return solution


def _build_components(
    A: object,  # noqa: N803
    D: object,  # noqa: N803
    noise_scale: object,
    constants_change: object,
    answers_change: object,
    components: object,
) -> _ReleasedComponents:
    matrix, constants_matrix = _read_matrix(A, "A"), _read_matrix(D, "D")
    count, width = matrix.shape
    chosen = _parse_components(components, count)
    if len(chosen) * width > MAX_ENTRIES:
        raise InvalidInput(f"rho is of at most {MAX_ENTRIES:,} entries of A at once; give fewer components")
    if constants_matrix.shape[0] != count:
        raise InvalidInput(f"D must have a row for each of the {count} rows of A, got {constants_matrix.shape[0]}")
    rows, constants = _select_rows(matrix, chosen, "A"), _select_rows(constants_matrix, chosen, "D")
    scales = _parse_scales(noise_scale, width)
    changes = _parse_changes(constants_change, constants.shape[1], "constants_change")
    answers = _parse_changes(answers_change, width, "answers_change")
    if len(changes) != len(answers) and 1 not in (len(changes), len(answers)):
        raise InvalidInput(
            f"constants_change and answers_change must have a row for each pair of neighbours, "
            f"got {len(changes)} and {len(answers)}"
        )
    pairs, largest = max(len(changes), len(answers)), float(scales.max())
    sizes = (np.abs(changes) @ np.abs(constants).T).max(axis=1, keepdims=True)
    return _ReleasedComponents(
        rows=rows * (scales / largest),
        answers=np.broadcast_to(answers * (largest / scales), (pairs, width)),
        shifts=np.broadcast_to(changes @ constants.T, (pairs, len(chosen))),
        sizes=np.broadcast_to(sizes, (pairs, 1)),
        reference=max(1.0, float(np.linalg.norm(rows, axis=1).max())),
        scale=largest,
    )


def _read_matrix(entries: object, name: str) -> Sparse | NDArray[np.generic]:
    """A matrix by rows, dense or sparse, its entries not looked at yet."""
    matrix: Sparse | NDArray[np.generic]
    if hasattr(entries, "tocsr"):
        matrix = entries.tocsr()
    else:
        matrix = entries if isinstance(entries, np.ndarray) else np.array(entries, dtype=np.object_)
    if len(matrix.shape) != 2 or (name == "A" and 0 in matrix.shape):
        raise InvalidInput(f"{name} must be a matrix, dense or sparse, with a row for each refined number")
    return matrix


def _select_rows(matrix: Sparse | NDArray[np.generic], places: NDArray[np.intp], name: str) -> Array:
    rows = matrix[places]
    return _parse_finite(rows.toarray() if hasattr(rows, "toarray") else rows, name)


def _parse_finite(numbers: object, name: str) -> Array:
    try:
        array = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(math.nan)
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} must hold finite numbers only")
    return array


def _parse_components(components: object, count: int) -> NDArray[np.intp]:
    if components is None:
        return np.arange(count)
    listed = list(components) if isinstance(components, Sequence | np.ndarray) else [components]
    are_places = all(isinstance(place, int | np.integer) and 0 <= place < count for place in listed)
    if not listed or not are_places or len(set(listed)) < len(listed):
        raise InvalidInput(f"components must be places among the {count} refined numbers, from 0, each once")
    return np.array(listed, dtype=np.intp)


def _parse_scales(noise_scale: object, width: int) -> Array:
    scales = _parse_finite(noise_scale, "noise_scale")
    if scales.shape not in {(), (width,)} or not (scales > 0).all():
        raise InvalidInput(f"noise_scale must be a number above 0, or one for each of the {width} answers")
    return np.broadcast_to(scales, (width,))


def _parse_changes(change: object, width: int, name: str) -> Array:
    """One row for each pair of neighbours."""
    rows = _parse_finite(change, name)
    if rows.ndim not in {1, 2} or rows.shape[-1] != width or not len(np.atleast_2d(rows)):
        raise InvalidInput(f"{name} must be {width} numbers, or rows of {width} for several pairs of neighbours")
    return np.atleast_2d(rows)
