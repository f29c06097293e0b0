"""All constraints on one list of answers, side by side: equalities, bounds and order, each with its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.inference.constraints import Bounds, Chain, Constraint, Equalities, plain_constraint
from discreet.inference.solving import listed
from discreet.inference.vectors import Array, Places, Sparse
from discreet.plain import is_a

NOBODY = -1


@dataclass(frozen=True, eq=False, slots=True)
class Gathered:
    """matrix' mu = constants; low <= mu <= high; mu does not fall along a chain.

    `low_by`, `high_by` and `chained_by` say which constraint each came from.
    """

    constraints: Sequence[Constraint]
    equalities: Sequence[Equalities]
    matrix: Sparse
    constants: Array
    fact: NDArray[np.bool_]
    floating: tuple[int, ...]
    low: Array
    high: Array
    low_by: Places
    high_by: Places
    chains: Sequence[Places]
    chained_by: Sequence[int]

    def name(self, column: int) -> str:
        """An equality in words."""
        starts = [0, *accumulate(len(one.constants) for one in self.equalities)]
        for one, (start, end) in zip(self.equalities, pairwise(starts), strict=True):
            if column < end:
                return one.name(column - start)
        raise IndexError(column)

    @property
    def facts(self) -> tuple[str, ...]:
        """The constraints that were taken from this data set."""
        return tuple(one.name for one in self.constraints if not one.structural)

    @property
    def inequalities(self) -> bool:
        """Whether there are any."""
        return bool(self.chains) or bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())

    def contradiction(self, columns: Iterable[int], owners: Iterable[int]) -> InvalidInput:
        """These equalities and these constraints cannot all hold."""
        names = [self.name(column) for column in columns] + [self.constraints[owner].name for owner in owners]
        return InvalidInput(
            f"these constraints contradict each other: {listed(list(dict.fromkeys(names)))}; "
            "change one of them or leave it out"
        )


def gather(noisy: Array, constraints: object) -> Gathered:
    """Write every constraint out for these answers."""
    from scipy import sparse

    given = _listed(constraints)
    terms = [one.bind(noisy) for one in given]
    equal = [(one, term) for one, term in zip(given, terms, strict=True) if isinstance(term, Equalities)]
    low, low_by = _tightest([term.low if isinstance(term, Bounds) else None for term in terms], len(noisy))
    high, high_by = _tightest([-term.high if isinstance(term, Bounds) else None for term in terms], len(noisy))
    none = sparse.csc_array((len(noisy), 0))
    flags = [(len(term.constants), not one.structural, term.floating) for one, term in equal]
    found = Gathered(
        given,
        [term for _, term in equal],
        sparse.hstack([none, *(term.matrix for _, term in equal)]).tocsc(),
        np.concatenate([np.zeros(0), *(term.constants for _, term in equal)]),
        np.repeat([fact for _, fact, _ in flags], [count for count, *_ in flags]).astype(bool),
        tuple(np.flatnonzero(np.repeat([floats for *_, floats in flags], [count for count, *_ in flags])).tolist()),
        low,
        -high,
        low_by,
        high_by,
        [term.places for term in terms if isinstance(term, Chain)],
        [place for place, term in enumerate(terms) if isinstance(term, Chain)],
    )
    crossed = np.flatnonzero(found.low > found.high)
    if len(crossed):
        raise found.contradiction((), (int(low_by[crossed[0]]), int(high_by[crossed[0]])))
    return found


def _listed(constraints: object) -> list[Constraint]:
    given = list(constraints) if isinstance(constraints, Iterable) else [constraints]
    named = [plain_constraint(one) for one in given if is_a(one, Constraint)]
    if len(named) < len(given):
        raise InvalidInput("constraints are a list of what total, at_least, nested and their sisters return")
    return named


def _tightest(lows: Sequence[Array | None], count: int) -> tuple[Array, Places]:
    """For every cell the greatest lower bound, and which constraint says it."""
    best, owner = np.full(count, -np.inf), np.full(count, NOBODY)
    for place, low in enumerate(lows):
        if low is not None:
            tighter = low > best
            best[tighter], owner[tighter] = low[tighter], place
    return best, owner
