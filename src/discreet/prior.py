"""What the analyst knows: a finite support with whole-number weights.

The weights add up to less than 2^62, so that sums of them are exact in 64 bits; what does not fit is rounded, and what
the analyst holds possible keeps a weight of at least 1. A prior is public: it is made before any data are looked at.
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
from discreet.exact import positive, rational, reading, shown
from discreet.plain import is_a, plain_exact, plain_items, plain_list, plain_text, plain_value, require_own

MOST_POINTS = 2**20
HEAVIEST = 2**61
TOO_HEAVY = 2**62
ONE_EACH = "a prior has one 64-bit mass and one 64-bit index for each of its points"
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Grid:
    """Numbers origin + index * step."""

    origin: Fraction
    step: Fraction

    def __post_init__(self) -> None:
        """Copy two exact numbers; the step is above 0."""
        object.__setattr__(self, "origin", plain_exact(self.origin, "the origin of a grid"))
        object.__setattr__(self, "step", plain_exact(self.step, "the step of a grid"))
        if self.step <= 0:
            raise InvalidInput("the step of a grid must be above 0")

    def value(self, index: int) -> int | Fraction:
        """The number at an index: an int where origin and step are whole."""
        value = self.origin + self.step * index
        return int(value) if self.origin.denominator == self.step.denominator == 1 else value

    def quarters(self, value: object, low: int, high: int) -> int | None:
        """A whole number m with |4 index - m| in the order of |grid value - value|, ties included; clamped.

        Which of two grid points is nearer depends only on how twice the value compares with whole numbers. None where
        the value is not a number. Neither that nor what lies outside is ever reported.
        """
        number = reading(value, self.origin + self.step * low, self.origin + self.step * high)
        if number is None:
            return None
        twice = 2 * (number - self.origin) / self.step
        return 2 * math.floor(twice) + (twice.denominator != 1)


@dataclass(frozen=True, eq=False, repr=False)
class Prior:
    """What the analyst knows before she asks.

    Points and their integer masses: numbers on a grid, in rising order, or values of any other kind.

    A prior made of shapes keeps their text in `shape`, so that it can be laid on a finer grid, such as that of a mean.
    A prior of weights has no shape: its values alone are possible.

    Make one with `Prior.uniform`, `.normal`, `.weights`, `.independent` or `.parse`.
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
        object.__setattr__(self, "mass", _row(self.mass))
        object.__setattr__(self, "index", _row(self.index))
        object.__setattr__(self, "shape", plain_text(self.shape, "the shape of a prior"))
        if not 0 < len(self.mass) == len(self.index):
            raise InvalidInput(ONE_EACH)
        if (self.grid is None) == (self.values is None):
            raise InvalidInput("a prior is either of numbers on a grid or of other values")
        if self.grid is not None:
            grid = require_own(self.grid, Grid, "the grid of a prior must be a Grid")
            object.__setattr__(self, "grid", Grid(grid.origin, grid.step))
        else:
            listed = plain_list(self.values, "the values of a prior")
            object.__setattr__(self, "values", tuple(plain_value(value, "a value of a prior") for value in listed))
        if self.mass.min() < 1 or self.mass.sum(dtype=np.float64) > 1.5 * TOO_HEAVY or self.total >= TOO_HEAVY:
            raise InvalidInput("a prior's masses are at least 1 and add up to less than 2^62")
        if self.values is not None and len(self.values) != len(self.mass):
            raise InvalidInput(f"a prior has one mass for each value, got {len(self.mass)} for {len(self.values)}")
        if self.grid is not None and not (self.index[1:] > self.index[:-1]).all():
            raise InvalidInput("the numbers of a prior are in rising order, each once")

    @staticmethod
    def uniform(lower: object, upper: object, step: object = 1) -> Prior:
        """Every point of the grid from lower to upper alike."""
        grid, count = grid_between(lower, upper, step)
        low, high = grid.origin, grid.origin + grid.step * (count - 1)
        shape = f"uniform({low}, {high}) on [{low}, {high}] step {grid.step}"
        return on_grid(grid, np.ones(count, dtype=np.int64), shape)

    @staticmethod
    def normal(mean: object, sd: object, lower: object, upper: object, step: object = 1) -> Prior:
        """A normal law cut to the grid from lower to upper."""
        from discreet.shapes import Shapes, Term

        numbers = rational(mean, "the mean"), positive(sd, "the sd")
        return Shapes((Term(Fraction(1), "normal", numbers),)).on(lower, upper, step)

    @staticmethod
    def weights(weights: Mapping[Hashable, object]) -> Prior:
        """Values and their relative weights; numbers, categories, or tuples for several components.

        A weight of 0 makes a value, or a combination, impossible: no answer is ever drawn there.
        """
        if not isinstance(weights, Mapping):
            raise InvalidInput(
                f"a prior's weights are a mapping from values to weights such as {{'a': 1, 'b': 2}}, "
                f"got {type(weights).__name__}"
            )
        pairs = plain_items(weights, "a prior's weights")
        _few(len(pairs))
        exact = [(value, _weight(weight)) for value, weight in pairs]
        possible = [(value, weight) for value, weight in exact if weight]
        if not possible:
            raise InvalidInput("a prior needs at least one value of positive weight")
        values, mass = [value for value, _ in possible], _whole([weight for _, weight in possible])
        return _on_common_grid(values, mass) if all(map(_is_number, values)) else _on_values(values, mass)

    @staticmethod
    def independent(parts: Sequence[Prior], impossible: Iterable[tuple[Hashable, ...]] = ()) -> Prior:
        """Several components with independent marginals, less the combinations that cannot occur.

        Every impossible combination must be one of the components' values; another is refused as a slip of the pen.
        """
        listed = plain_list(parts, "the components of a joint prior")
        priors = [plain_prior(part, "a component of a joint prior must be a Prior") for part in listed]
        count = math.prod(len(part) for part in priors)
        if not priors or count > MOST_POINTS:
            raise InvalidInput(f"a joint prior has 1 to {MOST_POINTS} combinations, got {count if priors else 0}")
        pairs = cartesian(*(zip(part.support, part.probabilities, strict=True) for part in priors))
        joint: dict[Hashable, Fraction] = {
            tuple(value for value, _ in pair): math.prod((p for _, p in pair), start=Fraction(1)) for pair in pairs
        }
        never = {_combination(one, joint) for one in plain_list(impossible, "the impossible combinations")}
        return Prior.weights({value: weight for value, weight in joint.items() if value not in never})

    @staticmethod
    def parse(text: str, lower: object = None, upper: object = None, step: object = None) -> Prior:
        """Read a prior from text; the grid from the text, or from the arguments where the text is silent.

        Weights such as '{"yes": 1, "no": 99}' are of numbers where all names are numbers.
        """
        from discreet.shapes import are_weights, read_shapes, read_weighed

        return read_weighed(text) if are_weights(text) else read_shapes(text).on(lower, upper, step)

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
        low, high = (self.grid.origin + self.grid.step * int(self.index[at]) for at in (0, -1))
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
        return f"Prior({_told(self)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prior) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.grid, self.values, self.index.tobytes(), (self.mass // np.gcd.reduce(self.mass)).tobytes()


def grid_between(lower: object, upper: object, step: object) -> tuple[Grid, int]:
    """The grid from lower to upper, both on it, and how many points it has."""
    low, high = rational(lower, "the lower end"), rational(upper, "the upper end")
    size = positive(step, "the step")
    if high < low:
        raise InvalidInput(f"the lower end {shown(low)} is above the upper end {shown(high)}; swap them")
    steps = (high - low) / size
    if steps.denominator != 1:
        raise InvalidInput(
            f"the prior is off its own grid: {shown(high)} is not {shown(low)} plus whole steps of {shown(size)}"
        )
    return Grid(low, size), _few(int(steps) + 1)


def _few(count: int) -> int:
    if count > MOST_POINTS:
        raise InvalidInput(f"a prior has at most {MOST_POINTS} points, got {count}; use a coarser step")
    return count


def _row(array: object) -> NDArray[np.int64]:
    """A read-only copy of one row of 64-bit numbers."""
    plain: NDArray[Any] = np.array(array, subok=False) if is_a(array, np.ndarray) else np.zeros(0)
    if plain.dtype != np.int64 or plain.ndim != 1:
        raise InvalidInput(ONE_EACH)
    return fixed(plain)


def plain_prior(prior: object, refusal: str = "the prior must be a Prior") -> Prior:
    """A new prior made of plain values; refuses what is not exactly a Prior, since it is compared with the truth."""
    own = require_own(prior, Prior, f"{refusal}, such as Prior.uniform(0, 9)")
    return Prior(own.mass, own.index, own.grid, own.values, own.shape)


def _combination(one: object, joint: Mapping[Hashable, Fraction]) -> Hashable:
    """The combination as the joint prior spells it, whose numbers are exact."""
    try:
        own = plain_value(one, "an impossible combination")
        exact = tuple(rational(v, "a value") if _is_number(v) else v for v in own)
        return next(key for key in (own, exact) if key in joint)
    except (TypeError, StopIteration):
        raise InvalidInput(
            f"an impossible combination must be a tuple of one value of each component, one of {len(joint)}"
        ) from None


def _told(prior: Prior, most: int = 5) -> str:
    """How many values, and which: the ends of numbers, the first few of others."""
    count = f"{len(prior)} value{'s' if len(prior) > 1 else ''}"
    if prior.grid is None:
        first = ", ".join(repr(value)[:40] for value in prior.support[:most])
        return f"{count}: {first}{', ...' if len(prior) > most else ''}"
    low, high = (shown(Fraction(prior.grid.value(int(at)))) for at in prior.index[[0, -1]])
    return f"{count} from {low} to {high}" if len(prior) > 1 else f"{count}: {low}"


def on_grid(grid: Grid, mass: NDArray[np.int64], shape: str = "") -> Prior:
    """The points of the grid that have a mass."""
    index = np.flatnonzero(mass)
    return Prior(fixed(mass[index]), fixed(index.astype(np.int64)), grid, None, shape)


def _on_values(values: Sequence[Hashable], mass: NDArray[np.int64]) -> Prior:
    return Prior(fixed(mass), fixed(np.arange(len(values), dtype=np.int64)), None, tuple(values))


def _on_common_grid(values: Sequence[Hashable], mass: NDArray[np.int64]) -> Prior:
    """The coarsest grid that holds all the numbers."""
    numbers = [rational(value, "a value") for value in values]
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
    return Prior(fixed(mass[order]), fixed(index[order]), Grid(origin, Fraction(common, scale)), None)


def fixed(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """The array, made read-only."""
    array.flags.writeable = False
    return array


def _is_number(value: object) -> bool:
    numbers = (int, float, Fraction, Decimal, np.integer, np.floating)
    return isinstance(value, numbers) and not isinstance(value, bool)


def _weight(weight: object) -> Fraction:
    value = rational(weight, "a prior's weight")
    if value < 0:
        raise InvalidInput(f"a prior's weight must be at least 0, got {shown(value)}")
    return value


def _whole(weights: Sequence[Fraction]) -> NDArray[np.int64]:
    """The weights over their common denominator where they fit; else rounded, none to 0."""
    scale = math.lcm(*(weight.denominator for weight in weights))
    exact = [int(weight * scale) for weight in weights]
    common = math.gcd(*exact)
    if sum(exact) // common <= HEAVIEST:
        return np.array([weight // common for weight in exact], dtype=np.int64)
    total = sum(exact)
    return np.array([max(1, weight * HEAVIEST // total) for weight in exact], dtype=np.int64)


def masses(probabilities: Array) -> NDArray[np.int64]:
    """Probabilities in units of about 2^-60, none 0."""
    return np.maximum(np.rint(probabilities * 2.0**60), 1).astype(np.int64)
