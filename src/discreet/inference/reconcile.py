"""Reconciliation: the nearest answers that satisfy everything known of them, each weighed by its own noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from discreet.errors import InvalidInput
from discreet.guarantee import Guarantee
from discreet.inference.constraints import Constraint
from discreet.inference.gathered import ConstraintSet, gather_constraints
from discreet.inference.linear import EXACT_TOLERANCE, LinearRefinement, refine_by_equalities
from discreet.inference.projecting import find_nearest_answers
from discreet.inference.refined import Refined
from discreet.inference.solving import build_normal_equations, format_constraint_names
from discreet.inference.vectors import Array, parse_matrix, parse_variances, parse_vector

MAX_FACT_ANSWERS = 200
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
    answers = parse_vector(noisy, "the noisy answers")
    weights = parse_variances(variance, len(answers))
    constraint_set = gather_constraints(answers, constraints)
    label = _label_guarantee(
        constraint_set, weights if variance is not None else None, accept_facts, guarantee, changes
    )
    if not whole:
        return replace(_reconcile_answers(answers, weights, constraint_set), guarantee=label, in_units=variance is None)
    from discreet.inference.whole import ControlledRounding

    rounding = ControlledRounding.of(constraint_set)
    refined = _reconcile_answers(answers, weights, rounding.constraint_set)
    return replace(refined, values=rounding.round_values(refined.values), guarantee=label, in_units=variance is None)


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
    from discreet.inference.rho import build_fact_guarantee

    return build_fact_guarantee(guarantee, constraint_set.facts, _compute_fact_rho(constraint_set, variance, changes))


def _compute_fact_rho(constraint_set: ConstraintSet, variance: Array, changes: object) -> float:
    """The largest rho of one refined number apart; infinite where it is not known to be smaller."""
    if constraint_set.has_inequalities or constraint_set.floating or len(variance) > MAX_FACT_ANSWERS:
        return math.inf
    moves = (
        np.eye(len(variance)) if changes is None else parse_matrix(changes, (None, len(variance)), "changes").toarray()
    )
    if (
        np.abs(moves @ constraint_set.matrix[:, np.flatnonzero(~constraint_set.is_fact)]).max(initial=0.0)
        > EXACT_TOLERANCE
    ):
        raise InvalidInput(
            "a change between neighbours must keep the structural constraints; give changes=, a row for each way in "
            "which the exact answers of two neighbouring data sets can differ"
        )
    from discreet.inference.rho import compute_rho_apart

    independent = build_normal_equations(constraint_set.matrix, variance).independent
    columns = constraint_set.matrix[:, independent]
    best = LinearRefinement.best(columns, variance)
    constants_change = moves @ columns.toarray() * constraint_set.is_fact[independent]
    return compute_rho_apart(best.A, best.D, np.sqrt(variance / 2), constants_change, moves)
