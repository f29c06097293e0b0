"""What must be true of several answers: totals, bounds, order, nesting. A constraint is structural or a fact.

Structural: it holds for every data set that could be there, so using it is free. A fact was taken from this data set;
using it is not post-processing (rho.md). Cells are counted from 0, in the order of the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.formatting import AMOUNT_DIGITS, format_number
from discreet.inference.vectors import Array, Places, Sparse, constants, floats, frozen, matrix, vector
from discreet.plain import is_a, plain_list, plain_text, require_own

SHOWN = 4
"""So many cells are named in words, no more."""


@dataclass(frozen=True, eq=False, slots=True)
class Equalities:
    """matrix' mu = constants, a column for each."""

    matrix: Sparse
    constants: Array
    name: Callable[[int], str]
    floating: bool = False
    """Whether the constants are the noisy answers' own, hence as noisy as they are."""


@dataclass(frozen=True, eq=False, slots=True)
class Bounds:
    """low <= mu <= high, infinite where nothing is said."""

    low: Array
    high: Array


@dataclass(frozen=True, eq=False, slots=True)
class Chain:
    """mu does not fall along these places."""

    places: Places


Terms = Equalities | Bounds | Chain


@dataclass(frozen=True, eq=False, slots=True)
class Constraint:
    """Something true of the exact answers. Make one with `total`, `at_least` and the others here.

    It is data and no code, the name of a rule and what that rule takes: counts are made to fit it after they are drawn,
    so a caller's function would run beside secrets.
    """

    name: str
    rule: str
    given: tuple[object, ...] = field(repr=False)
    structural: bool = True

    def __post_init__(self) -> None:
        """Copy what the rule takes as plain arrays and numbers."""
        object.__setattr__(self, "name", plain_text(self.name, "the name of a constraint"))
        object.__setattr__(self, "rule", plain_text(self.rule, "the rule of a constraint"))
        object.__setattr__(self, "structural", bool(self.structural))
        object.__setattr__(self, "given", tuple(map(_plain, plain_list(self.given, "what a rule takes"))))
        if self.rule not in RULES or len(self.given) != RULES[self.rule][0]:
            raise InvalidInput(f"make a constraint with one of {', '.join(RULES)}, such as total(1000)")

    def bind(self, noisy: Array) -> Terms:
        """Written out for a list of noisy answers."""
        return RULES[self.rule][1](noisy, self.name, *self.given)

    def fact(self) -> Constraint:
        """The same, declared to be taken from this data set; reconcile refuses it without accept_facts=True."""
        return replace(self, structural=False)


def total(value: object, of: object = None) -> Constraint:
    """These cells (all where none are named) add up to the value."""
    wanted, places = _number(value, "the total"), _places(of)
    name = f"{_cells(places)} {_verb(places, 'add', 'adds')} up to {format_number(wanted, AMOUNT_DIGITS)}"
    return Constraint(name, "total", (places, wanted))


def same_total(of: object = None) -> Constraint:
    """These cells add up to what the noisy ones do; no answers fit where that is beyond other constraints."""
    places = _places(of)
    name = f"{_cells(places)} {_verb(places, 'keep their', 'keeps its')} total"
    return Constraint(name, "same_total", (places,))


def at_least(low: object, of: object = None) -> Constraint:
    """Each of these cells is at least this: one number, or one for each."""
    least, places = _level(low, of, "the least value")
    name = f"{_cells(places, each=True)} at least {_levels(least)}"
    return Constraint(name, "at_least", (places, least))


def at_most(high: object, of: object = None) -> Constraint:
    """Each of these cells is at most this: one number, or one for each."""
    most, places = _level(high, of, "the greatest value")
    name = f"{_cells(places, each=True)} at most {_levels(most)}"
    return Constraint(name, "at_most", (places, most))


def increasing(of: object = None) -> Constraint:
    """These cells do not fall, in the order they are named."""
    places = _places(of)
    name = f"{_cells(places)} {_verb(places, 'do', 'does')} not fall"
    return Constraint(name, "increasing", (places,))


def decreasing(of: object = None) -> Constraint:
    """These cells do not rise, in the order they are named."""
    places = _places(of)
    name = f"{_cells(places)} {_verb(places, 'do', 'does')} not rise"
    return Constraint(name, "decreasing", (places,))


def fixed(value: object, of: object) -> Constraint:
    """Each of these cells is exactly this: 0 for cells that cannot occur."""
    exact, places = _level(value, of, "the fixed value")
    if places is None or not np.isfinite(exact).all():
        raise InvalidInput("fixed cells are named and have finite values, such as fixed(0, [3, 5])")
    name = f"{_cells(places, each=True)} {_levels(exact)}"
    return Constraint(name, "fixed", (places, np.array(np.broadcast_to(exact, places.shape))))


def nested(parent: int | Mapping[int, Sequence[int]], parts: object = None) -> Constraint:
    """The cell `parent` is the sum of the cells `parts`; or many such at once, as {parent: parts, ...}."""
    family = list(parent.items()) if isinstance(parent, Mapping) else [(parent, parts)]
    if not family or (isinstance(parent, Mapping) and parts is not None):
        raise InvalidInput("nesting is nested(parent, parts), or nested({parent: parts, ...}) with at least one parent")
    heads = _listed([head for head, _ in family], "the parents of a nesting")
    lists = [_listed(children, "the parts of a cell") for _, children in family]
    if any(head in children for head, children in zip(heads.tolist(), map(np.ndarray.tolist, lists), strict=True)):
        raise InvalidInput("a cell cannot be a part of itself; name its parts without it")

    one = f"cell {heads[0]} is the sum of {_cells(lists[0])}"
    name = one if len(heads) == 1 else f"{len(heads)} cells are the sums of their parts"
    return Constraint(name, "nested", (heads, tuple(lists)))


def linear(B: Any, c: object) -> Constraint:  # noqa: N803 (the documents' letters)
    """Any linear facts of the exact answers.

    B' mu = c: B has a row for each cell and a column for each constraint, dense or sparse.
    """
    columns = matrix(B, (None, None), "B")
    right = constants(c, columns.shape[1])
    name = f"{len(right)} linear constraints" if len(right) != 1 else "a linear constraint"
    return Constraint(name, "linear", (columns, right))


def plain_constraint(one: object) -> Constraint:
    """A new constraint made of plain data; refuses what is not exactly a Constraint."""
    own = require_own(one, Constraint, "a constraint is made with total, at_least and their like")
    return Constraint(own.name, own.rule, own.given, own.structural)


def _plain(given: Any) -> Any:
    """A copy of what a rule takes, of builtin types, numpy's arrays and scipy's matrices alone."""
    kind = type(given)
    if given is None or kind is float:
        return given
    if kind is tuple:
        return tuple(map(_plain, given))
    if is_a(given, np.ndarray):
        copied: Array = np.array(given, subok=False)
        if copied.dtype.kind in "if":
            return frozen(copied)
    if kind.__name__ == "csc_array":
        from scipy import sparse

        if kind is sparse.csc_array:
            return sparse.csc_array(tuple(map(_plain, (given.data, given.indices, given.indptr))), shape=given.shape)
    raise InvalidInput(f"a constraint is of numbers and cells, got {kind.__name__}; make it with total and its like")


def _total(noisy: Array, name: str, places: Places | None, value: float) -> Equalities:
    return _sum(_at(places, noisy, name), noisy, value, name)


def _same_total(noisy: Array, name: str, places: Places | None) -> Equalities:
    at = _at(places, noisy, name)
    return replace(_sum(at, noisy, float(noisy[at].sum()), name), floating=True)


def _at_least(noisy: Array, name: str, places: Places | None, least: Array) -> Bounds:
    return _bounds(noisy, _at(places, noisy, name), least, np.inf, name)


def _at_most(noisy: Array, name: str, places: Places | None, most: Array) -> Bounds:
    return _bounds(noisy, _at(places, noisy, name), -np.inf, most, name)


def _increasing(noisy: Array, name: str, places: Places | None) -> Chain:
    return Chain(_at(places, noisy, name))


def _decreasing(noisy: Array, name: str, places: Places | None) -> Chain:
    return Chain(_at(places, noisy, name)[::-1])


def _fixed(noisy: Array, name: str, places: Places, each: Array) -> Equalities:
    at = _at(places, noisy, name)
    picked = _columns(at, np.arange(len(at)), np.ones(len(at)), (len(noisy), len(at)))
    return Equalities(
        picked, np.array(each), lambda column: f"cell {at[column]} is {format_number(each[column], AMOUNT_DIGITS)}"
    )


def _linear(noisy: Array, name: str, columns: Sparse, right: Array) -> Equalities:  # noqa: ARG001 (each has its own)
    if columns.shape[0] != len(noisy):
        raise InvalidInput(f"B has {columns.shape[0]} rows but there are {len(noisy)} answers; give one row for each")
    return Equalities(columns, right, lambda column: f"linear constraint {column}")


def _sum(at: Places, noisy: Array, value: float, name: str) -> Equalities:
    ones = _columns(at, np.zeros(len(at), dtype=np.int64), np.ones(len(at)), (len(noisy), 1))
    return Equalities(ones, np.array([value]), lambda _: name)


def _nested(noisy: Array, name: str, heads: Places, lists: tuple[Places, ...]) -> Equalities:
    def column_name(column: int) -> str:
        return f"cell {heads[column]} is the sum of {_cells(lists[column])}"

    sizes = [len(children) for children in lists]
    own = np.arange(len(heads))
    rows = _at(np.concatenate([*lists, heads]), noisy, name)
    columns = np.concatenate([np.repeat(own, sizes), own])
    signs = np.concatenate([np.ones(sum(sizes)), -np.ones(len(heads))])
    return Equalities(_columns(rows, columns, signs, (len(noisy), len(heads))), np.zeros(len(heads)), column_name)


RULES: Mapping[str, tuple[int, Callable[..., Terms]]] = {
    "total": (2, _total),
    "same_total": (1, _same_total),
    "at_least": (2, _at_least),
    "at_most": (2, _at_most),
    "increasing": (1, _increasing),
    "decreasing": (1, _decreasing),
    "fixed": (2, _fixed),
    "nested": (2, _nested),
    "linear": (2, _linear),
}
"""Every rule by its name, with how many things it takes."""


def _bounds(noisy: Array, at: Places, low: Array | float, high: Array | float, name: str) -> Bounds:
    for level in (low, high):
        if np.ndim(level) and np.shape(level) != at.shape:
            raise InvalidInput(
                f"the bound of {len(at)} cells is one number or one for each, got {np.size(level)}: {name}"
            )
    bounds = Bounds(np.full(len(noisy), -np.inf), np.full(len(noisy), np.inf))
    bounds.low[at], bounds.high[at] = low, high
    return bounds


def _columns(rows: Places, columns: Places, entries: Array, shape: tuple[int, int]) -> Sparse:
    from scipy import sparse

    return sparse.csc_array((entries, (rows, columns)), shape=shape)


def _number(value: object, what: str) -> float:
    if np.iterable(value):
        got = "a text" if isinstance(value, str | bytes) else "a list"
        raise InvalidInput(f"{what} must be one number, such as 10, got {got}")
    return float(vector([value], what)[0])


def _level(value: object, of: object, what: str) -> tuple[Array, Places | None]:
    """One number or one for each cell; infinite where there is no bound, but never NaN."""
    level, places = floats(value, what), _places(of)
    if level.ndim > 1 or np.isnan(level).any() or (level.ndim and places is not None and level.shape != places.shape):
        raise InvalidInput(f"{what} must be a number, or a list with one for each cell, none of them NaN")
    return level, places


def _places(of: object) -> Places | None:
    return None if of is None else _listed(of if np.iterable(of) else [of], "the cells of a constraint")


def _listed(of: object, what: str) -> Places:
    """Distinct places, at least one."""
    try:
        read = np.asarray(list(of) if isinstance(of, Iterable) else of)
    except ValueError:  # lists in it of unequal length
        read = np.zeros(0)
    if read.ndim != 1 or read.dtype.kind not in "iu" or not len(read) or int(read.min()) < 0:
        raise InvalidInput(f"{what} are a list of whole numbers, counted from 0, at least one")
    if len(np.unique(read)) != len(read):
        raise InvalidInput(f"{what} name a cell twice; name each once")
    return read.astype(np.int64)


def _at(places: Places | None, noisy: Array, name: str) -> Places:
    """The places among so many answers."""
    if places is None:
        return np.arange(len(noisy))
    if int(places.max()) >= len(noisy):
        raise InvalidInput(
            f"there is no cell {places.max()} among {len(noisy)} answers, counted from 0; mend the cells of: {name}"
        )
    return places


def _cells(places: Places | None, *, each: bool = False) -> str:
    if places is None:
        return "every cell is" if each else "all cells"
    listed = ", ".join(map(str, places[:SHOWN].tolist()))
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    many = len(places) > 1
    return f"cell{'s' if many else ''} {listed}{more}{(' are' if many else ' is') if each else ''}"


def _verb(places: Places | None, many: str, one: str) -> str:
    return one if places is not None and len(places) == 1 else many


def _levels(level: Array) -> str:
    return "their own values" if level.size > 1 else format_number(float(level.reshape(-1)[0]), AMOUNT_DIGITS)
