"""Refined answers: better numbers, how far off they may be, and what was used to make them better."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist

import numpy as np

from discreet.errors import InvalidInput
from discreet.exact import as_number_between
from discreet.guarantee import Guarantee
from discreet.inference.selected import compute_quadratic_forms
from discreet.inference.solving import NormalEquations
from discreet.inference.vectors import Array, freeze_array

INTEGER_NOISE_VARIANCE = 0.25
"""What a whole-number noise is taken to vary more than it does, so that intervals by variance hold (linear.md)."""
MAX_ANSWERS = 5_000
"""A covariance of more answers than this is not written out."""


@dataclass(frozen=True, eq=False)
class RefinementCovariance:
    """How the error of linearly refined answers is spread: V - V B (B'VB)^-1 B'V.

    Where constants are noisy themselves (the answers' own total), `floating` are the columns of V B (B'VB)^-1 that
    carry them and `of_floating` is the constants' covariance: that much comes back.
    """

    variance: Array
    equations: NormalEquations
    floating: Array
    floating_covariance: Array

    @cached_property
    def variances(self) -> Array:
        """Of each answer; never above that of its own noise but for noisy constants."""
        gained = compute_quadratic_forms(self.equations)
        floating_variances = ((self.floating @ self.floating_covariance) * self.floating).sum(axis=1)
        return freeze_array(self.variance * np.clip(1 - gained, 0.0, 1.0) + floating_variances)

    def compute_covariance(self) -> Array:
        """Of all of them."""
        root, unit = self.equations.root, self.equations.unit
        basis = self.equations.basis if self.equations.is_small else None
        gained = unit @ self.equations.solve(unit.T.toarray()) if basis is None else basis @ basis.T
        dense = np.diag(self.variance) - np.outer(root, root) * gained
        return np.asarray((dense + dense.T) / 2 + self.floating @ self.floating_covariance @ self.floating.T)


@dataclass(frozen=True, eq=False)
class Refined:
    """Answers that satisfy what must be true, with what is known of their error.

    `dropped` names constraints that the others imply. `guarantee` is that of the noisy answers where all constraints
    were structural. Covariance and variances are of the linear refinement by the equalities alone: `centre`.
    `in_units` says that no variance was given: all variances are then in units of the common one.
    """

    values: Array
    spread: RefinementCovariance = field(repr=False)
    centre: Array = field(repr=False)
    low: Array | float = field(default=-math.inf, repr=False)
    high: Array | float = field(default=math.inf, repr=False)
    dropped: tuple[str, ...] = ()
    guarantee: Guarantee | None = None
    in_units: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        freeze_array(self.values)

    def covariance(self) -> Array:
        """The covariance of the refined answers, in full; in units of the common variance where none was given."""
        if len(self.values) > MAX_ANSWERS:
            raise InvalidInput(
                f"the covariance of {len(self.values)} answers is too large to write out, at most {MAX_ANSWERS} fit; "
                "use .variances()"
            )
        return self.spread.compute_covariance()

    def variances(self) -> Array:
        """The variance of each refined answer; in units of the common variance where none was given."""
        return self.spread.variances

    def intervals(self, confidence: object = 0.95, step: float = 0.0) -> Array:
        """For each answer two ends that hold the exact one with at least this confidence, each answer apart.

        Assumed: the answers' noises are independent, each Laplace or Gaussian with the variance given; and the
        confidence is at least one half. Of whole-number versions of these say by `step` how far apart the values are:
        half of it is added on both sides. Bounds that were declared cut an interval; it is widened to hold the value.
        """
        if self.in_units:
            raise InvalidInput("say the variance of the noise, such as variance=200, to have intervals")
        if not 0 <= step < math.inf:
            raise InvalidInput("the step between whole-number noises must be a finite number of at least 0, such as 1")
        half = compute_worst_quantile(confidence) * np.sqrt(self.variances()) + step / 2
        low = np.clip(self.centre - half, self.low, self.high)
        high = np.clip(self.centre + half, self.low, self.high)
        return np.column_stack([np.minimum(low, self.values), np.maximum(high, self.values)])


def compute_worst_quantile(confidence: object) -> float:
    """So many standard deviations hold a weighted sum of independent Laplace and Gaussian noises this often.

    From one half on the worst of such sums is one of the two ends: a Laplace noise alone, or Gaussian ones (linear.md).
    """
    level = float(as_number_between(confidence, 0, 1, "the confidence"))
    return max(NormalDist().inv_cdf((1 + level) / 2), -math.log1p(-level) / math.sqrt(2))
