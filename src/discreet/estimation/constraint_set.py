"""Constraints that answers must satisfy, and all of them gathered into one set.

A structural constraint holds for every data set that could be there, so using it is free. A fact was taken from this
data set; using it is not post-processing (refinement_cost.md). Cells are counted from 0, in the order of the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.estimation.least_squares import (
    Array,
    Places,
    Sparse,
    format_constraint_names,
    freeze_array,
    parse_constants,
    parse_floats,
    parse_matrix,
    parse_vector,
)
from discreet.formatting import AMOUNT_DIGITS, format_number
from discreet.untrusted import CheckedValue, copy_list, copy_text, has_exact_type, has_type, require_exact_class

MAX_CELLS_SHOWN = 4
"""So many cells are named in words, at most."""
NO_OWNER = -1


@dataclass(frozen=True, eq=False, slots=True)
class Equalities:
    """The equalities matrix' mu = constants, a column for each."""

    matrix: Sparse
    constants: Array
    name: Callable[[int], str]
    floating: bool = False
    """Whether the constants are the noisy answers' own, hence as noisy as they are."""


@dataclass(frozen=True, eq=False, slots=True)
class Bounds:
    """Bounds low <= mu <= high, infinite where there are none."""

    low: Array
    high: Array


@dataclass(frozen=True, eq=False, slots=True)
class Chain:
    """An order: mu does not fall along these places."""

    places: Places


Terms = Equalities | Bounds | Chain


@dataclass(frozen=True, eq=False, slots=True)
class Constraint(CheckedValue):
    """A statement that is true of the exact answers; make one with `total`, `at_least` and the other functions here.

    Args:
        name: The constraint in words.
        rule: The name of the rule.
        arguments: The arguments of the rule.
        structural: Whether it holds for every data set; False for a fact taken from this one.

    Raises:
        InvalidInput: The rule is unknown or its arguments are not valid.

    Example:
        >>> from discreet.constraints import total
        >>> constraint = total(1000)
        >>> constraint.name, constraint.structural
        ('all cells add up to 1,000', True)
        >>> constraint.fact().structural
        False
    """

    name: str
    rule: str
    arguments: tuple[object, ...] = field(repr=False)
    structural: bool = True

    def __post_init__(self) -> None:
        """Copy the arguments of the rule as plain arrays and numbers."""
        object.__setattr__(self, "name", copy_text(self.name, "the name of a constraint"))
        object.__setattr__(self, "rule", copy_text(self.rule, "the rule of a constraint"))
        object.__setattr__(self, "structural", bool(self.structural))
        arguments = copy_list(self.arguments, "what a rule takes")
        object.__setattr__(self, "arguments", tuple(map(_copy_argument, arguments)))
        if self.rule not in RULES or len(self.arguments) != RULES[self.rule][0]:
            raise InvalidInput(f"make a constraint with one of {', '.join(RULES)}, such as total(1000)")

    def bind(self, noisy: Array) -> Terms:
        """Write the constraint out for a list of noisy answers."""
        return RULES[self.rule][1](noisy, self.name, *self.arguments)

    def fact(self) -> Constraint:
        """Declare it to be taken from this data set; reconcile refuses it without accept_facts=True."""
        return replace(self, structural=False)


StatedConstraint = str | Constraint
CONSTRAINT_SYNTAX = (
    "a constraint is written as: total = 1000, total <= 1000, total >= 10, each <= 50, each >= 1, rising or falling"
)


def total(value: object, of: object = None) -> Constraint:
    """State that these cells add up to the value.

    Args:
        value: The exact total.
        of: The positions of the cells; all by default.

    Returns:
        The constraint, for `reconcile`.

    Raises:
        InvalidInput: The value is not a number, or a position is not a whole number.

    Example:
        >>> from discreet import reconcile, total
        >>> [float(value) for value in reconcile([4, 9], [total(10)]).values]
        [2.5, 7.5]
    """
    wanted, places = _parse_number(value, "the total"), _parse_places(of)
    name = f"{_format_cells(places)} {_choose_verb(places, 'add', 'adds')} up to {format_number(wanted, AMOUNT_DIGITS)}"
    return Constraint(name, "total", (places, wanted))


def same_total(of: object = None) -> Constraint:
    """State that these cells keep the total of the noisy ones.

    Args:
        of: The positions of the cells; all by default.

    Returns:
        The constraint, for `reconcile`, which refuses it where other constraints leave no answers with this total.

    Raises:
        InvalidInput: A position is not a whole number.

    Example:
        >>> from discreet.constraints import at_least, reconcile, same_total
        >>> [round(float(value), 6) for value in reconcile([-2, 5, 7], [at_least(0), same_total()]).values]
        [0.0, 4.0, 6.0]
    """
    places = _parse_places(of)
    name = f"{_format_cells(places)} {_choose_verb(places, 'keep their', 'keeps its')} total"
    return Constraint(name, "same_total", (places,))


def at_least(low: object, of: object = None) -> Constraint:
    """State that each of these cells is at least this number.

    Args:
        low: The lower bound: one number, or one for each cell.
        of: The positions of the cells; all by default.

    Returns:
        The constraint, for `reconcile`.

    Raises:
        InvalidInput: The bound is not numbers, or the lengths do not fit.

    Example:
        >>> from discreet import at_least, reconcile
        >>> [float(value) for value in reconcile([-3, 9], [at_least(0)]).values]
        [0.0, 9.0]
    """
    least, places = _parse_level(low, of, "the least value")
    name = f"{_format_cells(places, each=True)} at least {_format_level(least)}"
    return Constraint(name, "at_least", (places, least))


def at_most(high: object, of: object = None) -> Constraint:
    """State that each of these cells is at most this number.

    Args:
        high: The upper bound: one number, or one for each cell.
        of: The positions of the cells; all by default.

    Returns:
        The constraint, for `reconcile`.

    Raises:
        InvalidInput: The bound is not numbers, or the lengths do not fit.

    Example:
        >>> from discreet import at_most, reconcile
        >>> [float(value) for value in reconcile([12, 9], [at_most(10)]).values]
        [10.0, 9.0]
    """
    most, places = _parse_level(high, of, "the greatest value")
    name = f"{_format_cells(places, each=True)} at most {_format_level(most)}"
    return Constraint(name, "at_most", (places, most))


def increasing(of: object = None) -> Constraint:
    """State that these cells do not fall, in the order in which they are named.

    Args:
        of: The positions of the cells; all by default.

    Returns:
        The constraint, for `reconcile`.

    Raises:
        InvalidInput: A position is not a whole number.

    Example:
        >>> from discreet.constraints import increasing, reconcile
        >>> [round(float(value), 6) for value in reconcile([2, 7, 5], [increasing()]).values]
        [2.0, 6.0, 6.0]
    """
    places = _parse_places(of)
    name = f"{_format_cells(places)} {_choose_verb(places, 'do', 'does')} not fall"
    return Constraint(name, "increasing", (places,))


def decreasing(of: object = None) -> Constraint:
    """State that these cells do not rise, in the order in which they are named.

    Args:
        of: The positions of the cells; all by default.

    Returns:
        The constraint, for `reconcile`.

    Raises:
        InvalidInput: A position is not a whole number.

    Example:
        >>> from discreet.constraints import decreasing, reconcile
        >>> [round(float(value), 6) for value in reconcile([5, 7, 1], [decreasing()]).values]
        [6.0, 6.0, 1.0]
    """
    places = _parse_places(of)
    name = f"{_format_cells(places)} {_choose_verb(places, 'do', 'does')} not rise"
    return Constraint(name, "decreasing", (places,))


def fixed(value: object, of: object) -> Constraint:
    """State that each of these cells is exactly this number, such as 0 for cells that cannot occur.

    Args:
        value: The exact value: one number, or one for each cell.
        of: The positions of the cells.

    Returns:
        The constraint, for `reconcile`.

    Raises:
        InvalidInput: No cells are named, or the value is not finite.

    Example:
        >>> from discreet.constraints import fixed, reconcile
        >>> [float(value) for value in reconcile([3, 8], [fixed(0, of=[0])]).values]
        [0.0, 8.0]
    """
    exact, places = _parse_level(value, of, "the fixed value")
    if places is None or not np.isfinite(exact).all():
        raise InvalidInput("fixed cells are named and have finite values, such as fixed(0, [3, 5])")
    name = f"{_format_cells(places, each=True)} {_format_level(exact)}"
    return Constraint(name, "fixed", (places, np.array(np.broadcast_to(exact, places.shape))))


def nested(parent: int | Mapping[int, Sequence[int]], parts: object = None) -> Constraint:
    """State that the cell `parent` is the sum of the cells `parts`.

    Args:
        parent: The position of the sum; or a mapping {parent: parts, ...} that states many at once.
        parts: The positions of its parts, unless a mapping is given.

    Returns:
        The constraint, for `reconcile`.

    Raises:
        InvalidInput: A position is not a whole number, or a cell is a part of itself.

    Example:
        >>> from discreet.constraints import nested, reconcile
        >>> [round(float(value), 6) for value in reconcile([12, 4, 5], [nested(0, [1, 2])]).values]
        [11.0, 5.0, 6.0]
    """
    family = list(parent.items()) if isinstance(parent, Mapping) else [(parent, parts)]
    if not family or (isinstance(parent, Mapping) and parts is not None):
        raise InvalidInput("nesting is nested(parent, parts), or nested({parent: parts, ...}) with at least one parent")
    heads = _parse_distinct_places([head for head, _ in family], "the parents of a nesting")
    lists = [_parse_distinct_places(children, "the parts of a cell") for _, children in family]
    if any(head in children for head, children in zip(heads.tolist(), map(np.ndarray.tolist, lists), strict=True)):
        raise InvalidInput("a cell cannot be a part of itself; name its parts without it")

    single_name = f"cell {heads[0]} is the sum of {_format_cells(lists[0])}"
    name = single_name if len(heads) == 1 else f"{len(heads)} cells are the sums of their parts"
    return Constraint(name, "nested", (heads, tuple(lists)))


def linear(B: object, c: object) -> Constraint:  # noqa: N803 (the documents' letters)
    """State linear equations B' mu = c of the exact answers mu.

    Args:
        B: A row for each cell and a column for each equation, dense or scipy sparse.
        c: The right-hand side: a number for each equation.

    Returns:
        The constraint, for `reconcile`.

    Raises:
        InvalidInput: The arrays are not numbers, or their shapes do not fit.

    Example:
        >>> from discreet.constraints import linear, reconcile
        >>> refined = reconcile([4, 9], [linear([[1], [-1]], [-3])])  # the second cell is 3 above the first
        >>> [float(value) for value in refined.values]
        [5.0, 8.0]
    """
    columns = parse_matrix(B, (None, None), "B")
    right = parse_constants(c, columns.shape[1])
    name = f"{len(right)} linear constraints" if len(right) != 1 else "a linear constraint"
    return Constraint(name, "linear", (columns, right))


def copy_constraint(constraint: object) -> Constraint:
    """Copy a constraint as plain data; refuse what is not exactly a Constraint."""
    original = require_exact_class(constraint, Constraint, "a constraint is made with total, at_least and their like")
    return Constraint(original.name, original.rule, original.arguments, original.structural)


def copy_constraints(constraints: object) -> tuple[StatedConstraint, ...]:
    """Copy what an analyst states as plain values: texts, and constraints that we made."""
    if isinstance(constraints, str):
        raise InvalidInput('constraints are a list, such as ["total = 1000"]')
    return tuple(map(_copy_constraint, copy_list(constraints, "constraints")))


def _copy_constraint(constraint: object) -> StatedConstraint:
    if has_type(constraint, str):
        return copy_text(constraint, "a constraint")
    if has_type(constraint, Constraint):
        return copy_constraint(constraint)
    raise InvalidInput(f"a constraint is a text or a Constraint, got {type(constraint).__name__}; {CONSTRAINT_SYNTAX}")


def _copy_argument(argument: object) -> object:
    """A copy of an argument, of builtin types, numpy's arrays and scipy's matrices alone."""
    if argument is None or type(argument) is float:
        return argument
    if type(argument) is tuple:
        return tuple(map(_copy_argument, argument))
    if has_type(argument, np.ndarray):
        copied: Array = np.array(argument, subok=False)
        if copied.dtype.kind in "if":
            return freeze_array(copied)
    kind = type(argument)
    if kind.__name__ == "csc_array":
        from scipy import sparse

        if has_exact_type(argument, sparse.csc_array):
            arrays = tuple(map(_copy_argument, (argument.data, argument.indices, argument.indptr)))
            return sparse.csc_array(arrays, shape=argument.shape)
    raise InvalidInput(f"a constraint is of numbers and cells, got {kind.__name__}; make it with total and its like")


def _bind_same_total(noisy: Array, name: str, places: Places | None) -> Equalities:
    cells = _resolve_places(places, noisy, name)
    return replace(_build_sum(cells, noisy, float(noisy[cells].sum()), name), floating=True)


def _bind_fixed(noisy: Array, name: str, places: Places, values: Array) -> Equalities:
    cells = _resolve_places(places, noisy, name)
    picked = _build_columns(cells, np.arange(len(cells)), np.ones(len(cells)), (len(noisy), len(cells)))

    def column_name(column: int) -> str:
        return f"cell {cells[column]} is {format_number(values[column], AMOUNT_DIGITS)}"

    return Equalities(picked, np.array(values), column_name)


def _bind_linear(noisy: Array, name: str, columns: Sparse, right: Array) -> Equalities:  # noqa: ARG001 (each has its own)
    if columns.shape[0] != len(noisy):
        raise InvalidInput(f"B has {columns.shape[0]} rows but there are {len(noisy)} answers; give one row for each")
    return Equalities(columns, right, lambda column: f"linear constraint {column}")


def _build_sum(cells: Places, noisy: Array, value: float, name: str) -> Equalities:
    ones = _build_columns(cells, np.zeros(len(cells), dtype=np.int64), np.ones(len(cells)), (len(noisy), 1))
    return Equalities(ones, np.array([value]), lambda _: name)


def _bind_nested(noisy: Array, name: str, heads: Places, lists: tuple[Places, ...]) -> Equalities:
    def column_name(column: int) -> str:
        return f"cell {heads[column]} is the sum of {_format_cells(lists[column])}"

    sizes = [len(children) for children in lists]
    indices = np.arange(len(heads))
    rows = _resolve_places(np.concatenate([*lists, heads]), noisy, name)
    columns = np.concatenate([np.repeat(indices, sizes), indices])
    signs = np.concatenate([np.ones(sum(sizes)), -np.ones(len(heads))])
    return Equalities(_build_columns(rows, columns, signs, (len(noisy), len(heads))), np.zeros(len(heads)), column_name)


RULES: Mapping[str, tuple[int, Callable[..., Terms]]] = {
    "total": (2, lambda noisy, name, of, value: _build_sum(_resolve_places(of, noisy, name), noisy, value, name)),
    "same_total": (1, _bind_same_total),
    "at_least": (2, lambda noisy, name, of, low: _build_bounds(noisy, of, low, np.inf, name)),
    "at_most": (2, lambda noisy, name, of, high: _build_bounds(noisy, of, -np.inf, high, name)),
    "increasing": (1, lambda noisy, name, of: Chain(_resolve_places(of, noisy, name))),
    "decreasing": (1, lambda noisy, name, of: Chain(_resolve_places(of, noisy, name)[::-1])),
    "fixed": (2, _bind_fixed),
    "nested": (2, _bind_nested),
    "linear": (2, _bind_linear),
}
"""Every rule by its name, with the number of its arguments."""


def _build_bounds(noisy: Array, of: Places | None, low: Array | float, high: Array | float, name: str) -> Bounds:
    cells = _resolve_places(of, noisy, name)
    for level in (low, high):
        if np.ndim(level) and np.shape(level) != cells.shape:
            raise InvalidInput(
                f"the bound of {len(cells)} cells is one number or one for each, got {np.size(level)}: {name}"
            )
    bounds = Bounds(np.full(len(noisy), -np.inf), np.full(len(noisy), np.inf))
    bounds.low[cells], bounds.high[cells] = low, high
    return bounds


def _build_columns(rows: Places, columns: Places, entries: Array, shape: tuple[int, int]) -> Sparse:
    from scipy import sparse

    matrix: Sparse = sparse.csc_array((entries, (rows, columns)), shape=shape)
    return matrix


def _parse_number(value: object, what: str) -> float:
    if np.iterable(value):
        got = "a text" if isinstance(value, str | bytes) else "a list"
        raise InvalidInput(f"{what} must be one number, such as 10, got {got}")
    return float(parse_vector([value], what)[0])


def _parse_level(value: object, of: object, what: str) -> tuple[Array, Places | None]:
    """One number or one for each cell; infinite where there is no bound, but never NaN."""
    level, places = parse_floats(value, what), _parse_places(of)
    if level.ndim > 1 or np.isnan(level).any() or (level.ndim and places is not None and level.shape != places.shape):
        raise InvalidInput(f"{what} must be a number, or a list with one for each cell, none of them NaN")
    return level, places


def _parse_places(of: object) -> Places | None:
    return None if of is None else _parse_distinct_places(of if np.iterable(of) else [of], "the cells of a constraint")


def _parse_distinct_places(of: object, what: str) -> Places:
    try:
        numbers = np.asarray(list(of) if isinstance(of, Iterable) else of)
    except ValueError:  # lists in it of unequal length
        numbers = np.zeros(0)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers) or int(numbers.min()) < 0:
        raise InvalidInput(f"{what} are a list of whole numbers, counted from 0, at least one")
    if len(np.unique(numbers)) != len(numbers):
        raise InvalidInput(f"{what} name a cell twice; name each once")
    return numbers.astype(np.int64)


def _resolve_places(places: Places | None, noisy: Array, name: str) -> Places:
    if places is None:
        return np.arange(len(noisy))
    if int(places.max()) >= len(noisy):
        raise InvalidInput(
            f"there is no cell {places.max()} among {len(noisy)} answers, counted from 0; mend the cells of: {name}"
        )
    return places


def _format_cells(places: Places | None, *, each: bool = False) -> str:
    if places is None:
        return "every cell is" if each else "all cells"
    numbers = ", ".join(map(str, places[:MAX_CELLS_SHOWN].tolist()))
    suffix = f" and {len(places) - MAX_CELLS_SHOWN} more" if len(places) > MAX_CELLS_SHOWN else ""
    is_plural = len(places) > 1
    return f"cell{'s' if is_plural else ''} {numbers}{suffix}{(' are' if is_plural else ' is') if each else ''}"


def _choose_verb(places: Places | None, plural: str, singular: str) -> str:
    return singular if places is not None and len(places) == 1 else plural


def _format_level(level: Array) -> str:
    return "their own values" if level.size > 1 else format_number(float(level.reshape(-1)[0]), AMOUNT_DIGITS)


@dataclass(frozen=True, eq=False, slots=True)
class ConstraintSet:
    """All constraints on some answers: matrix' mu = constants; low <= mu <= high; mu does not fall along a chain.

    `low_owners`, `high_owners` and `chain_owners` say which constraint each came from.
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
        """Say an equality in words."""
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
        """Whether there are bounds or chains."""
        return bool(self.chains) or bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())

    def build_contradiction(self, columns: Iterable[int], owners: Iterable[int]) -> InvalidInput:
        """Build the refusal of equalities and constraints that cannot all hold."""
        equalities = [self.describe_equality(column) for column in columns]
        names = dict.fromkeys(equalities + [self.constraints[owner].name for owner in owners])
        contradiction = format_constraint_names(list(names))
        return InvalidInput(
            f"these constraints contradict each other: {contradiction}; change one of them or leave it out"
        )


def gather_constraints(noisy: Array, constraints: object) -> ConstraintSet:
    """Write every constraint out for these answers."""
    from scipy import sparse

    constraint_list = _list_constraints(constraints)
    terms = [constraint.bind(noisy) for constraint in constraint_list]
    pairs = zip(constraint_list, terms, strict=True)
    equal_terms = [(constraint, term) for constraint, term in pairs if isinstance(term, Equalities)]
    low, low_by = _find_tightest([term.low if isinstance(term, Bounds) else None for term in terms], len(noisy))
    high, high_by = _find_tightest([-term.high if isinstance(term, Bounds) else None for term in terms], len(noisy))
    no_columns = sparse.csc_array((len(noisy), 0))
    flags = [(len(term.constants), not constraint.structural, term.floating) for constraint, term in equal_terms]
    is_floating = np.repeat([floats for *_, floats in flags], [count for count, *_ in flags])
    constraint_set = ConstraintSet(
        constraints=constraint_list,
        equalities=[term for _, term in equal_terms],
        matrix=sparse.hstack([no_columns, *(term.matrix for _, term in equal_terms)]).tocsc(),
        constants=np.concatenate([np.zeros(0), *(term.constants for _, term in equal_terms)]),
        is_fact=np.repeat([fact for _, fact, _ in flags], [count for count, *_ in flags]).astype(bool),
        floating=tuple(np.flatnonzero(is_floating).tolist()),
        low=low,
        high=-high,
        low_owners=low_by,
        high_owners=high_by,
        chains=[term.places for term in terms if isinstance(term, Chain)],
        chain_owners=[place for place, term in enumerate(terms) if isinstance(term, Chain)],
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
