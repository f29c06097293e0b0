"""Reconciliation: the nearest answers that satisfy everything known of them, each weighed by its own noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from discreet.errors import InvalidInput
from discreet.guarantee import Guarantee
from discreet.inference.constraints import Constraint
from discreet.inference.gathered import Gathered, gather
from discreet.inference.linear import EXACT, LinearRefinement, by_equalities
from discreet.inference.projecting import nearest
from discreet.inference.refined import Refined
from discreet.inference.solving import listed, normal
from discreet.inference.vectors import Array, matrix, variances, vector

MOST_WEIGHED = 200
"""What a fact costs each number apart is computed for so many answers; for more it is called unbounded."""


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
    """The answers nearest to the noisy ones, squares weighed by 1/variance, that satisfy all constraints.

    With `whole` they are whole numbers, each less than 1 from those, that keep totals, nesting, bounds and order.
    Facts need accept_facts=True, the guarantee of the noisy answers and their variance; the label then says what it
    cost, for the changes of the exact answers between neighbours (rows; one cell by one where none are given).
    """
    answers = vector(noisy, "the noisy answers")
    weights = variances(variance, len(answers))
    must = gather(answers, constraints)
    label = _label(must, weights if variance is not None else None, accept_facts, guarantee, changes)
    if not whole:
        return replace(_reconciled(answers, weights, must), guarantee=label, in_units=variance is None)
    from discreet.inference.whole import Rounding

    rounding = Rounding.of(must)
    found = _reconciled(answers, weights, rounding.must)
    return replace(found, values=rounding.rounded(found.values), guarantee=label, in_units=variance is None)


def _reconciled(answers: Array, variance: Array, must: Gathered) -> Refined:
    """By the equalities first: what is nearest to their answer is nearest to the noisy ones."""
    linear = by_equalities(answers, must.matrix, must.constants, variance, must.name, must.floating)
    values = nearest(linear.values, variance, must, linear.spread.normal.kept)
    return replace(linear, values=values, low=must.low, high=must.high)


def _label(
    must: Gathered, variance: Array | None, accept_facts: bool, guarantee: Guarantee | None, changes: object
) -> Guarantee | None:
    """The guarantee of the refined answers: unchanged, unless facts were used."""
    if not isinstance(guarantee, Guarantee | None):
        raise InvalidInput("the guarantee must be that of the noisy answers, such as Guarantee.dp(0.1)")
    if not must.facts:
        return guarantee
    said = listed(list(must.facts))
    if not accept_facts:
        raise InvalidInput(
            f"this is a fact of one data set, not true of every one: {said}; leave it out, "
            "or say accept_facts=True and take the weaker guarantee"
        )
    if guarantee is None or variance is None:
        raise InvalidInput(
            f"to say what a fact costs ({said}), give the guarantee and the variance of the noisy answers"
        )
    if changes is None and guarantee.unit != "row":
        raise InvalidInput(
            f"the promise is for a {guarantee.unit}, which may have several rows; give changes=, a row for each way in "
            "which the exact answers of two neighbouring data sets can differ"
        )
    from discreet.inference.rho import fact_guarantee

    return fact_guarantee(guarantee, must.facts, _each(must, variance, changes))


def _each(must: Gathered, variance: Array, changes: object) -> float:
    """The largest rho of one refined number apart; infinite where it is not known to be smaller."""
    if must.inequalities or must.floating or len(variance) > MOST_WEIGHED:
        return math.inf
    moves = np.eye(len(variance)) if changes is None else matrix(changes, (None, len(variance)), "changes").toarray()
    if np.abs(moves @ must.matrix[:, np.flatnonzero(~must.fact)]).max(initial=0.0) > EXACT:
        raise InvalidInput(
            "a change between neighbours must keep the structural constraints; give changes=, a row for each way in "
            "which the exact answers of two neighbouring data sets can differ"
        )
    from discreet.inference.rho import rho_apart

    kept = normal(must.matrix, variance).kept
    used = must.matrix[:, kept]
    best = LinearRefinement.best(used, variance)
    constants_change = moves @ used.toarray() * must.fact[kept]
    return rho_apart(best.A, best.D, np.sqrt(variance / 2), constants_change, moves)
