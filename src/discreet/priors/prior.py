"""What the analyst knows: a finite support with whole-number weights.

The weights add up to less than 2^62, so that sums of them are exact in 64 bits; what does not fit is rounded, and what
the analyst holds possible keeps a weight of at least 1. A prior is public: it is made before any data are looked at.

A prior that is wrong must not ruin an answer. Where a prior only weighs noise afterwards, nine tenths of it are used as
stated and one tenth is spread over a Cauchy distribution with the prior's center and scale, so that an answer far out
still counts. Where the answer is drawn from the prior, a prior with ends is used as stated: values beyond its ends are
impossible and never returned.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import product as cartesian
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.formatting import format_ends
from discreet.numeric import as_positive, as_rational, format_exact, read_clamped
from discreet.untrusted import (
    CheckedValue,
    copy_exact_number,
    copy_items,
    copy_list,
    copy_text,
    copy_value,
    has_type,
    require_exact_class,
    set_fields,
)

MAX_POINTS = 2**20
MAX_TOTAL_MASS = 2**61
MASS_LIMIT = 2**62
MASS_SHAPE_ERROR = "a prior has one 64-bit mass and one 64-bit index for each of its points"
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Grid(CheckedValue):
    """Numbers origin + index * step."""

    origin: Fraction
    step: Fraction

    def __post_init__(self) -> None:
        set_fields(self, origin=copy_exact_number(self.origin, "the origin of a grid"))
        set_fields(self, step=copy_exact_number(self.step, "the step of a grid"))
        if self.step <= 0:
            raise InvalidInput("the step of a grid must be above 0")

    def value(self, index: int) -> int | Fraction:
        """The number at an index: an int where origin and step are whole."""
        value = self.origin + self.step * index
        return int(value) if self.origin.denominator == self.step.denominator == 1 else value

    def find_quarter_index(self, value: object, low: int, high: int) -> int | None:
        """A whole number m with |4 index - m| in the order of |grid value - value|, ties included; clamped.

        Which of two grid points is nearer depends only on how twice the value compares with whole numbers. None where
        the value is not a number. Neither that nor what lies outside is ever reported.
        """
        number = read_clamped(value, self.origin + self.step * low, self.origin + self.step * high)
        if number is None:
            return None
        doubled_index = 2 * (number - self.origin) / self.step
        return 2 * math.floor(doubled_index) + (doubled_index.denominator != 1)


@dataclass(frozen=True, eq=False, repr=False)
class Prior(CheckedValue):
    """What an analyst knows before the answer: possible values and their integer weights.

    The values are numbers on a grid, in rising order, or values of any other kind. A prior must not be taken from the
    private table. Make one with `Prior.uniform`, `.normal`, `.weights`, `.independent` or `.parse`.

    Args:
        mass: The weight of each value: whole numbers of at least 1 that add up to less than 2^62.
        index: The position of each value on the grid, or among the values.
        grid: The grid, for numbers.
        values: The values, for any other kind.
        shape: The text that it was parsed from, so that it can be laid on a finer grid, such as that of a mean. A prior
            of weights has none: its values alone are possible.

    Raises:
        InvalidInput: The weights or the values are not valid, or their numbers differ.

    Example:
        >>> from discreet import Prior
        >>> Prior.uniform(1, 6).mean()
        3.5
        >>> Prior.weights({"yes": 1, "no": 99}).probabilities
        (Fraction(1, 100), Fraction(99, 100))
        >>> Prior.parse("normal(38, 6)", lower=17, upper=90).ends
        (Fraction(17, 1), Fraction(90, 1))
    """

    mass: NDArray[np.int64]
    index: NDArray[np.int64]
    grid: Grid | None
    values: tuple[Hashable, ...] | None
    shape: str = ""

    def __post_init__(self) -> None:
        """Copy whole masses of at least 1 that add up to less than 2^62; one index each, rising for numbers.

        The copies are read-only arrays and plain values: a mechanism compares the values with the truth.
        """
        set_fields(self, mass=_copy_row(self.mass), index=_copy_row(self.index))
        set_fields(self, shape=copy_text(self.shape, "the shape of a prior"))
        if not 0 < len(self.mass) == len(self.index):
            raise InvalidInput(MASS_SHAPE_ERROR)
        if (self.grid is None) == (self.values is None):
            raise InvalidInput("a prior is either of numbers on a grid or of other values")
        if self.grid is not None:
            grid = require_exact_class(self.grid, Grid, "the grid of a prior must be a Grid")
            set_fields(self, grid=Grid(grid.origin, grid.step))
        else:
            values = copy_list(self.values, "the values of a prior")
            set_fields(self, values=tuple(copy_value(value, "a value of a prior") for value in values))
        if self.mass.min() < 1 or self.mass.sum(dtype=np.float64) > 1.5 * MASS_LIMIT or self.total >= MASS_LIMIT:
            raise InvalidInput("a prior's masses are at least 1 and add up to less than 2^62")
        if self.values is not None and len(self.values) != len(self.mass):
            raise InvalidInput(f"a prior has one mass for each value, got {len(self.mass)} for {len(self.values)}")
        if self.grid is not None and not (self.index[1:] > self.index[:-1]).all():
            raise InvalidInput("the numbers of a prior are in rising order, each once")

    @staticmethod
    def uniform(lower: object, upper: object, step: object = 1) -> Prior:
        """Every point of the grid from lower to upper alike."""
        grid, count = build_grid(lower, upper, step)
        low, high = grid.origin, grid.origin + grid.step * (count - 1)
        shape = f"uniform({low}, {high}) on [{low}, {high}] step {grid.step}"
        return build_grid_prior(grid, np.ones(count, dtype=np.int64), shape)

    @staticmethod
    def normal(mean: object, sd: object, lower: object, upper: object, step: object = 1) -> Prior:
        """A normal law cut to the grid from lower to upper."""
        from discreet.priors.syntax import ShapeMixture, ShapeTerm

        numbers = as_rational(mean, "the mean"), as_positive(sd, "the sd")
        return ShapeMixture((ShapeTerm(Fraction(1), "normal", numbers),)).build_prior(lower, upper, step)

    @staticmethod
    def weights(weights: Mapping[Hashable, object]) -> Prior:
        """Values and their relative weights; numbers, categories, or tuples for several components.

        A weight of 0 makes a value, or a combination, impossible: no answer is ever drawn there.
        """
        if not isinstance(weights, Mapping):
            example = "a mapping from values to weights such as {'a': 1, 'b': 2}"
            raise InvalidInput(f"a prior's weights are {example}, got {type(weights).__name__}")
        pairs = copy_items(weights, "a prior's weights")
        _check_point_count(len(pairs))
        weighted_values = [(value, _parse_weight(weight)) for value, weight in pairs]
        possible = [(value, weight) for value, weight in weighted_values if weight]
        if not possible:
            raise InvalidInput("a prior needs at least one value of positive weight")
        values, mass = [value for value, _ in possible], _scale_to_integers([weight for _, weight in possible])
        if all(map(_is_number, values)):
            return _build_common_grid_prior(values, mass)
        return Prior(mass, np.arange(len(values), dtype=np.int64), None, tuple(values))

    @staticmethod
    def independent(parts: Sequence[Prior], impossible: Iterable[tuple[Hashable, ...]] = ()) -> Prior:
        """Several components with independent marginals, less the combinations that cannot occur.

        Every impossible combination must be one of the components' values; another is refused as a slip of the pen.
        """
        components = copy_list(parts, "the components of a joint prior")
        priors = [copy_prior(part, "a component of a joint prior must be a Prior") for part in components]
        count = math.prod(len(part) for part in priors)
        if not priors or count > MAX_POINTS:
            raise InvalidInput(f"a joint prior has 1 to {MAX_POINTS} combinations, got {count if priors else 0}")
        pairs = cartesian(*(zip(part.support, part.probabilities, strict=True) for part in priors))
        joint: dict[Hashable, Fraction] = {
            tuple(value for value, _ in pair): math.prod((p for _, p in pair), start=Fraction(1)) for pair in pairs
        }
        entries = copy_list(impossible, "the impossible combinations")
        excluded = {_find_combination(entry, joint) for entry in entries}
        return Prior.weights({value: weight for value, weight in joint.items() if value not in excluded})

    @staticmethod
    def parse(text: str, lower: object = None, upper: object = None, step: object = None) -> Prior:
        """Read a prior from text; the grid from the text, or from the arguments where the text is silent.

        Weights such as '{"yes": 1, "no": 99}' are of numbers where all names are numbers.
        """
        from discreet.priors.syntax import is_weights_text, parse_shapes, parse_weighted_prior

        if is_weights_text(text):
            return parse_weighted_prior(text)
        return parse_shapes(text).build_prior(lower, upper, step)

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers on a grid."""
        return self.grid is not None

    @cached_property
    def total(self) -> int:
        """The sum of all masses."""
        return int(self.mass.sum())

    @cached_property
    def support(self) -> tuple[Hashable, ...]:
        """The values of positive weight."""
        if self.grid is None:
            return self.values or ()
        return tuple(self.grid.value(int(index)) for index in self.index)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest of its numbers."""
        if self.grid is None:
            raise InvalidInput("ends are of numbers; this prior is over categories")
        low, high = (self.grid.origin + self.grid.step * int(self.index[position]) for position in (0, -1))
        return low, high

    @cached_property
    def probabilities(self) -> tuple[Fraction, ...]:
        """The exact probability of each value of the support."""
        return tuple(Fraction(int(mass), self.total) for mass in self.mass)

    def floats(self) -> Array:
        """The values as floats, for what may be approximate."""
        if self.grid is None:
            raise InvalidInput("the mean and variance are of numbers; this prior is over categories")
        return float(self.grid.origin) + float(self.grid.step) * self.index.astype(np.float64)

    def mean(self) -> float:
        """The prior mean."""
        return float((self.floats() * (self.mass / self.total)).sum())

    def variance(self) -> float:
        """The prior variance."""
        return float(((self.floats() - self.mean()) ** 2 * (self.mass / self.total)).sum())

    def __len__(self) -> int:
        return len(self.mass)

    def __repr__(self) -> str:
        return f"Prior({_format_values(self)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prior) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.grid, self.values, self.index.tobytes(), (self.mass // np.gcd.reduce(self.mass)).tobytes()


def build_grid(lower: object, upper: object, step: object) -> tuple[Grid, int]:
    """The grid from lower to upper, both on it, and how many points it has."""
    low, high = as_rational(lower, "the lower end"), as_rational(upper, "the upper end")
    size = as_positive(step, "the step")
    if high < low:
        raise InvalidInput(f"the lower end {format_exact(low)} is above the upper end {format_exact(high)}; swap them")
    steps = (high - low) / size
    if steps.denominator != 1:
        mismatch = f"{format_exact(high)} is not {format_exact(low)} plus whole steps of {format_exact(size)}"
        raise InvalidInput(f"the prior is off its own grid: {mismatch}")
    return Grid(low, size), _check_point_count(int(steps) + 1)


def _check_point_count(count: int) -> int:
    if count > MAX_POINTS:
        raise InvalidInput(f"a prior has at most {MAX_POINTS} points, got {count}; use a coarser step")
    return count


def _copy_row(array: object) -> NDArray[np.int64]:
    """A read-only copy of one row of 64-bit numbers."""
    plain: NDArray[Any] = np.array(array, subok=False) if has_type(array, np.ndarray) else np.zeros(0)
    if plain.dtype != np.int64 or plain.ndim != 1:
        raise InvalidInput(MASS_SHAPE_ERROR)
    plain.flags.writeable = False
    return plain


def copy_prior(prior: object, refusal: str = "the prior must be a Prior") -> Prior:
    """A new prior made of plain values; refuses what is not exactly a Prior, since it is compared with the truth."""
    original = require_exact_class(prior, Prior, f"{refusal}, such as Prior.uniform(0, 9)")
    return Prior(original.mass, original.index, original.grid, original.values, original.shape)


def _find_combination(combination: object, joint: Mapping[Hashable, Fraction]) -> Hashable:
    """The combination as the joint prior spells it, whose numbers are exact."""
    try:
        plain_combination = copy_value(combination, "an impossible combination")
        if not isinstance(plain_combination, Iterable):
            raise TypeError
        exact = tuple(as_rational(v, "a value") if _is_number(v) else v for v in plain_combination)
        return next(key for key in (plain_combination, exact) if key in joint)
    except (TypeError, StopIteration):
        raise InvalidInput(
            f"an impossible combination must be a tuple of one value of each component, one of {len(joint)}"
        ) from None


def _format_values(prior: Prior, max_values: int = 5) -> str:
    """How many values, and which: the ends of numbers, the first few of others."""
    count = f"{len(prior)} value{'s' if len(prior) > 1 else ''}"
    if prior.grid is None:
        first = ", ".join(repr(value)[:40] for value in prior.support[:max_values])
        return f"{count}: {first}{', ...' if len(prior) > max_values else ''}"
    low, high = (format_exact(Fraction(prior.grid.value(int(index)))) for index in prior.index[[0, -1]])
    return f"{count} from {low} to {high}" if len(prior) > 1 else f"{count}: {low}"


def build_grid_prior(grid: Grid, mass: NDArray[np.int64], shape: str = "") -> Prior:
    """The points of the grid that have a mass."""
    index = np.flatnonzero(mass)
    return Prior(mass[index], index.astype(np.int64), grid, None, shape)


def _build_common_grid_prior(values: Sequence[Hashable], mass: NDArray[np.int64]) -> Prior:
    """The coarsest grid that holds all the numbers."""
    numbers = [as_rational(value, "a value") for value in values]
    origin = min(numbers)
    scale = math.lcm(*(number.denominator for number in numbers))
    offsets = [int((number - origin) * scale) for number in numbers]
    common = math.gcd(*offsets) or scale
    if max(offsets) // common >= 2**60:
        raise InvalidInput("the prior's values are too far apart for a common grid; round them to a coarser one")
    index = np.array([offset // common for offset in offsets], dtype=np.int64)
    order = np.argsort(index)
    if len(np.unique(index)) < len(index):
        raise InvalidInput("the prior names the same number twice; add up its weights")
    return Prior(mass[order], index[order], Grid(origin, Fraction(common, scale)), None)


def _is_number(value: object) -> bool:
    numbers = (int, float, Fraction, Decimal, np.integer, np.floating)
    return isinstance(value, numbers) and not isinstance(value, bool)


def _parse_weight(weight: object) -> Fraction:
    value = as_rational(weight, "a prior's weight")
    if value < 0:
        raise InvalidInput(f"a prior's weight must be at least 0, got {format_exact(value)}")
    return value


def _scale_to_integers(weights: Sequence[Fraction]) -> NDArray[np.int64]:
    """The weights over their common denominator where they fit; else rounded, none to 0."""
    scale = math.lcm(*(weight.denominator for weight in weights))
    exact = [int(weight * scale) for weight in weights]
    common, total = math.gcd(*exact), sum(exact)
    if total // common <= MAX_TOTAL_MASS:
        return np.array([weight // common for weight in exact], dtype=np.int64)
    return np.array([max(1, weight * MAX_TOTAL_MASS // total) for weight in exact], dtype=np.int64)


def convert_to_masses(probabilities: Array) -> NDArray[np.int64]:
    """Probabilities in units of about 2^-60, none 0."""
    return np.maximum(np.rint(probabilities * 2.0**60), 1).astype(np.int64)


TAIL_WEIGHT = 0.1
COARSE_GRID_RULES = (8, 9)
"""The rules of `PriorUse` for shapes that were given on a coarser grid, without and with a tail."""
ONLY_POINTS = (
    "Only the values that it gives a weight to are possible, but {} can lie between them; "
    "to allow that, state a shape such as normal(mean, sd) or uniform(low, high) instead of weights."
)


def should_mix_tail(tail: bool | None, heavy: bool, is_bounded: bool, is_sampled: bool) -> bool:
    """Whether a tail is mixed into a prior: never into one that is heavy already, else as the analyst says.

    Where she does not say it is mixed in, but for one with ends that the answer is drawn from or chosen by.
    """
    if heavy:
        return False
    return not (is_sampled and is_bounded) if tail is None else tail


def get_prior_rule(tail: bool, heavy: bool, has_moved_values: bool) -> int:
    """The rule of `PriorUse` that a law was made by: another one for every law that a prior may lead to.

    `tail` is whether one was mixed in, `has_moved_values` whether numbers went elsewhere than to the nearest values.
    """
    if heavy:  # no tail is ever mixed in
        return 5 if has_moved_values else 1
    if has_moved_values:
        return 4 if tail else 3
    return 1 if tail else 2


def get_coarse_grid_rule(tail: bool) -> int:
    """The rule of `PriorUse` for shapes that were given on a coarser grid than the values have."""
    return COARSE_GRID_RULES[tail]


@dataclass(frozen=True, slots=True)
class PriorUse:
    """How a prior was used: with a tenth of its weight in a heavy tail, or as stated; and the ends it stays within."""

    tail: bool
    ends: tuple[str, str] | None = None
    excludes: bool = False
    """Whether names have no weight, so that they are impossible; of a prior over names."""
    rule: int = 1
    """How the law that answers are drawn from follows from what was stated, for the names of stored answers.

    By rule 1 numbers go to the nearest values there are, and a tail is mixed in unless there is one. By rule 2 there is
    none beside what was stated. By rules 3 and 4, without and with a tail, some numbers are no values there are, and go
    to other values between the ends or are left out; rule 5 is the same of a prior that is heavy itself. These were
    called 2 once, so no answer of them is found by 2. By rules 6 and 7, without and with a tail mixed in, a mean of a
    public number of rows has its own values; answers were drawn once from places counted from the prior's own ends. By
    rules 8 and 9, without and with a tail, shapes that were given on a coarser grid are laid on the values themselves;
    answers were drawn once from the points of that grid.
    """
    quantity_between: str = ""
    """The number that may lie between the values of the prior, which alone are possible, such as "AVG of age"."""

    @property
    def words(self) -> str:
        """One sentence; a second where the number may lie between the values that the prior names."""
        return f"{self._usage} {ONLY_POINTS.format(self.quantity_between)}" if self.quantity_between else self._usage

    @property
    def _usage(self) -> str:
        if self.tail:
            within = "" if self.ends is None else f", between {self.ends[0]} and {self.ends[1]}"
            return f"A tenth of the prior's weight is given to a heavy tail{within}."
        if self.ends is None and not self.excludes:
            return "The prior is used as stated."
        what = "values without a weight" if self.ends is None else f"values outside {self.ends[0]} to {self.ends[1]}"
        return f"The prior is used as stated: {what} are impossible, also if the truth is one of them."


def format_prior_ends(hull: tuple[Fraction, Fraction] | None, low: Fraction, high: Fraction) -> tuple[str, str] | None:
    """The ends of a prior as people read them, rounded outwards, as far as they lie between low and high."""
    return None if hull is None else format_ends(max(hull[0], low), min(hull[1], high))
