"""All constraints on one list of answers, side by side: equalities, bounds and order, each with its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.inference.constraints import Bounds, Chain, Constraint, Equalities, copy_constraint
from discreet.inference.solving import format_constraint_names
from discreet.inference.vectors import Array, Places, Sparse
from discreet.plain import has_type

NO_OWNER = -1


@dataclass(frozen=True, eq=False, slots=True)
class ConstraintSet:
    """matrix' mu = constants; low <= mu <= high; mu does not fall along a chain.

    `low_by`, `high_by` and `chained_by` say which constraint each came from.
    """

    constraints: Sequence[Constraint]
    equalities: Sequence[Equalities]
    matrix: Sparse
    constants: Array
    is_fact: NDArray[np.bool_]
    floating: tuple[int, ...]
    low: Array
    high: Array
    low_owners: Places
    high_owners: Places
    chains: Sequence[Places]
    chain_owners: Sequence[int]

    def describe_equality(self, column: int) -> str:
        """An equality in words."""
        starts = [0, *accumulate(len(equality.constants) for equality in self.equalities)]
        for equality, (start, end) in zip(self.equalities, pairwise(starts), strict=True):
            if column < end:
                return equality.name(column - start)
        raise IndexError(column)

    @property
    def facts(self) -> tuple[str, ...]:
        """The constraints that were taken from this data set."""
        return tuple(constraint.name for constraint in self.constraints if not constraint.structural)

    @property
    def has_inequalities(self) -> bool:
        """Whether there are any."""
        return bool(self.chains) or bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())

    def build_contradiction(self, columns: Iterable[int], owners: Iterable[int]) -> InvalidInput:
        """These equalities and these constraints cannot all hold."""
        names = [self.describe_equality(column) for column in columns] + [
            self.constraints[owner].name for owner in owners
        ]
        return InvalidInput(
            f"these constraints contradict each other: {format_constraint_names(list(dict.fromkeys(names)))}; "
            "change one of them or leave it out"
        )


def gather_constraints(noisy: Array, constraints: object) -> ConstraintSet:
    """Write every constraint out for these answers."""
    from scipy import sparse

    constraint_list = _list_constraints(constraints)
    terms = [constraint.bind(noisy) for constraint in constraint_list]
    equal_terms = [
        (constraint, term)
        for constraint, term in zip(constraint_list, terms, strict=True)
        if isinstance(term, Equalities)
    ]
    low, low_by = _find_tightest([term.low if isinstance(term, Bounds) else None for term in terms], len(noisy))
    high, high_by = _find_tightest([-term.high if isinstance(term, Bounds) else None for term in terms], len(noisy))
    no_columns = sparse.csc_array((len(noisy), 0))
    flags = [(len(term.constants), not constraint.structural, term.floating) for constraint, term in equal_terms]
    constraint_set = ConstraintSet(
        constraint_list,
        [term for _, term in equal_terms],
        sparse.hstack([no_columns, *(term.matrix for _, term in equal_terms)]).tocsc(),
        np.concatenate([np.zeros(0), *(term.constants for _, term in equal_terms)]),
        np.repeat([fact for _, fact, _ in flags], [count for count, *_ in flags]).astype(bool),
        tuple(np.flatnonzero(np.repeat([floats for *_, floats in flags], [count for count, *_ in flags])).tolist()),
        low,
        -high,
        low_by,
        high_by,
        [term.places for term in terms if isinstance(term, Chain)],
        [place for place, term in enumerate(terms) if isinstance(term, Chain)],
    )
    crossed = np.flatnonzero(constraint_set.low > constraint_set.high)
    if len(crossed):
        raise constraint_set.build_contradiction((), (int(low_by[crossed[0]]), int(high_by[crossed[0]])))
    return constraint_set


def _list_constraints(constraints: object) -> list[Constraint]:
    entries = list(constraints) if isinstance(constraints, Iterable) else [constraints]
    copies = [copy_constraint(entry) for entry in entries if has_type(entry, Constraint)]
    if len(copies) < len(entries):
        raise InvalidInput("constraints are a list of what total, at_least, nested and their sisters return")
    return copies


def _find_tightest(lows: Sequence[Array | None], count: int) -> tuple[Array, Places]:
    """For every cell the greatest lower bound, and which constraint says it."""
    best, owner = np.full(count, -np.inf), np.full(count, NO_OWNER)
    for place, low in enumerate(lows):
        if low is not None:
            tighter = low > best
            best[tighter], owner[tighter] = low[tighter], place
    return best, owner
