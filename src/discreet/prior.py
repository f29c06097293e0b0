"""What the analyst knows: a finite support with whole-number weights.

The weights add up to less than 2^62, so that sums of them are exact in 64 bits; what does not fit is rounded, and what
the analyst holds possible keeps a weight of at least 1. A prior is public: it is made before any data are looked at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product as cartesian

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import positive, rational, rational_text, shown

MOST_POINTS = 2**20
HEAVIEST = 2**61
Array = NDArray[np.float64]

GRAMMAR = (
    "a prior is written like '0.9 normal(38, 6) + 0.1 cauchy(38, 6) on [17, 90] step 1'; the shapes are "
    "uniform(low, high), normal(mean, sd), laplace(centre, scale), cauchy(centre, scale) and point(value)"
)


@dataclass(frozen=True, slots=True)
class Grid:
    """Numbers origin + index * step."""

    origin: Fraction
    step: Fraction

    def value(self, index: int) -> int | Fraction:
        """The number at an index: an int where origin and step are whole."""
        value = self.origin + self.step * index
        return int(value) if self.origin.denominator == self.step.denominator == 1 else value

    def quarters(self, value: object, low: int, high: int) -> int:
        """A whole number m with |4 index - m| in the order of |grid value - value|, ties included; clamped.

        Which of two grid points is nearer depends only on how twice the value compares with whole numbers. What lies
        outside is never reported.
        """
        if isinstance(value, float) and math.isinf(value):
            return 4 * (high if value > 0 else low)
        twice = 2 * min(max((rational(value, "the value") - self.origin) / self.step, Fraction(low)), Fraction(high))
        return 2 * math.floor(twice) + (twice.denominator != 1)


@dataclass(frozen=True, eq=False)
class Prior:
    """Points and their integer masses: numbers on a grid, in rising order, or values of any other kind."""

    mass: NDArray[np.int64]
    index: NDArray[np.int64]
    grid: Grid | None
    values: tuple[Hashable, ...] | None

    @staticmethod
    def uniform(lower: object, upper: object, step: object = 1) -> Prior:
        """Every point of the grid from lower to upper alike."""
        grid, count = _grid(lower, upper, step)
        return _on_grid(grid, np.ones(count, dtype=np.int64))

    @staticmethod
    def normal(mean: object, sd: object, lower: object, upper: object, step: object = 1) -> Prior:
        """A normal law cut to the grid from lower to upper."""
        grid, count = _grid(lower, upper, step)
        shape = _normal(rational(mean, "the mean"), positive(sd, "the sd"))
        return _on_grid(grid, _masses(_normalised(shape(_points(grid, count)))))

    @staticmethod
    def weights(weights: Mapping[Hashable, object]) -> Prior:
        """Values and their relative weights; numbers, categories, or tuples for several components.

        A weight of 0 makes a value, or a combination, impossible: no answer is ever drawn there.
        """
        if len(weights) > MOST_POINTS:
            raise InvalidInput(f"a prior has at most {MOST_POINTS} points, got {len(weights)}; use a coarser step")
        exact = [(value, _weight(weight)) for value, weight in weights.items()]
        possible = [(value, weight) for value, weight in exact if weight]
        if not possible:
            raise InvalidInput("a prior needs at least one value of positive weight")
        values, masses = [value for value, _ in possible], _whole([weight for _, weight in possible])
        return _on_common_grid(values, masses) if all(map(_is_number, values)) else _on_values(values, masses)

    @staticmethod
    def independent(parts: Sequence[Prior], impossible: Iterable[tuple[Hashable, ...]] = ()) -> Prior:
        """Several components with independent marginals, less the combinations that cannot occur."""
        count = math.prod(len(part.mass) for part in parts)
        if not parts or count > MOST_POINTS:
            raise InvalidInput(f"a joint prior has 1 to {MOST_POINTS} combinations, got {count if parts else 0}")
        never = set(impossible)
        pairs = cartesian(*(zip(part.support, part.probabilities, strict=True) for part in parts))
        joint = {tuple(v for v, _ in pair): math.prod((p for _, p in pair), start=Fraction(1)) for pair in pairs}
        return Prior.weights({value: weight for value, weight in joint.items() if value not in never})

    @staticmethod
    def parse(text: str, lower: object = None, upper: object = None, step: object = None) -> Prior:
        """Read a prior from text; the grid from the text, or from the arguments where the text is silent."""
        return _parse(text, lower, upper, step)

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
        return float(self.floats() @ (self.mass / self.total))

    def variance(self) -> float:
        """The prior variance."""
        return float((self.floats() - self.mean()) ** 2 @ (self.mass / self.total))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prior) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.grid, self.values, self.index.tobytes(), (self.mass // np.gcd.reduce(self.mass)).tobytes()


def _grid(lower: object, upper: object, step: object) -> tuple[Grid, int]:
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


def _points(grid: Grid, count: int) -> Array:
    return float(grid.origin) + float(grid.step) * np.arange(count, dtype=np.float64)


def _on_grid(grid: Grid, mass: NDArray[np.int64]) -> Prior:
    index = np.flatnonzero(mass)
    return Prior(_fixed(mass[index]), _fixed(index.astype(np.int64)), grid, None)


def _on_values(values: Sequence[Hashable], mass: NDArray[np.int64]) -> Prior:
    return Prior(_fixed(mass), _fixed(np.arange(len(values), dtype=np.int64)), None, tuple(values))


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
    return Prior(_fixed(mass[order]), _fixed(index[order]), Grid(origin, Fraction(common, scale)), None)


def _fixed(array: NDArray[np.int64]) -> NDArray[np.int64]:
    array.flags.writeable = False
    return array


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Fraction, np.integer, np.floating)) and not isinstance(value, bool)


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


def _masses(probabilities: Array) -> NDArray[np.int64]:
    """Probabilities in units of about 2^-60, none 0."""
    return np.maximum(np.rint(probabilities * 2.0**60), 1).astype(np.int64)


Shape = Callable[[Array], Array]
"""The logarithm of a density, up to a constant."""


def _normalised(log_density: Array) -> Array:
    density: Array = np.exp(log_density - log_density.max())
    return density / float(density.sum())


def _normal(mean: Fraction, sd: Fraction) -> Shape:
    return lambda x: -0.5 * ((x - float(mean)) / float(sd)) ** 2


def _laplace(centre: Fraction, scale: Fraction) -> Shape:
    return lambda x: -np.abs(x - float(centre)) / float(scale)


def _cauchy(centre: Fraction, scale: Fraction) -> Shape:
    return lambda x: -np.log1p(((x - float(centre)) / float(scale)) ** 2)


SPREAD: Mapping[str, Callable[[Fraction, Fraction], Shape]] = {
    "normal": _normal,
    "laplace": _laplace,
    "cauchy": _cauchy,
}

NUMBER = r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?"
ON = re.compile(rf"^(.*?)(?:\bon\s*\[\s*({NUMBER})\s*,\s*({NUMBER})\s*\])?\s*(?:\bstep\s+({NUMBER}))?\s*$", re.I | re.S)
TERM = re.compile(rf"^\s*({NUMBER})?\s*\*?\s*([a-z]+)\s*\(([^()]*)\)\s*$", re.I)
LONGEST_TEXT = 10_000


def _parse(text: object, lower: object, upper: object, step: object) -> Prior:
    found = ON.match(text) if isinstance(text, str) and len(text) <= LONGEST_TEXT else None
    if found is None:
        raise InvalidInput(f"the prior could not be read; {GRAMMAR}")
    body, low, high, size = found.groups()
    size_given = rational_text(size, "the step") if size else 1 if step is None else step
    grid, count = _grid(_end(low, lower, "a lower end"), _end(high, upper, "an upper end"), size_given)
    mixture = np.zeros(count)
    for term in re.split(r"(?<=\))\s*\+", body):
        mixture += _component(term, grid, count)
    if not math.isfinite(mixture.sum()) or mixture.sum() <= 0:
        raise InvalidInput(f"the prior's weights must add up to more than 0; {GRAMMAR}")
    spread = any(name in body.lower() for name in SPREAD)
    masses = _masses(mixture / mixture.sum())
    return _on_grid(grid, masses if spread else np.where(mixture > 0, masses, 0))


def _end(text: str | None, given: object, name: str) -> object:
    if text is None and given is None:
        raise InvalidInput(f"the prior needs {name}; {GRAMMAR}")
    return rational_text(text, name) if text else given


def _component(term: str, grid: Grid, count: int) -> Array:
    """One shape of a mixture, normalised on the grid, times its weight."""
    found = TERM.match(term)
    if found is None:
        raise InvalidInput(f"the prior could not be read at {term.strip()[:40]!r}; {GRAMMAR}")
    weight, name, arguments = found.groups()
    numbers = [rational_text(part, f"a number in {name}") for part in arguments.split(",") if part.strip()]
    share = float(rational_text(weight, "a weight")) if weight else 1.0
    if share < 0:
        raise InvalidInput(f"a prior's weight must be at least 0, got {weight}")
    return share * _shape(name.lower(), numbers, grid, count)


def _shape(name: str, numbers: Sequence[Fraction], grid: Grid, count: int) -> Array:
    if name in SPREAD and len(numbers) == 2:
        return _normalised(SPREAD[name](numbers[0], positive(numbers[1], f"the scale of {name}"))(_points(grid, count)))
    if name == "point" and len(numbers) == 1:
        return _block(grid, count, numbers[0], numbers[0])
    if name == "uniform" and len(numbers) in {0, 2}:
        low, high = numbers or (grid.origin, grid.origin + grid.step * (count - 1))
        return _block(grid, count, low, high)
    raise InvalidInput(f"{name} with {len(numbers)} numbers is not a shape; {GRAMMAR}")


def _block(grid: Grid, count: int, low: Fraction, high: Fraction) -> Array:
    """Equal mass on the grid points from low to high."""
    first = max(0, math.ceil((low - grid.origin) / grid.step))
    last = min(count - 1, math.floor((high - grid.origin) / grid.step))
    if last < first:
        raise InvalidInput(f"no point of the grid lies in [{shown(low)}, {shown(high)}]; widen it or mend the step")
    block = np.zeros(count)
    block[first : last + 1] = 1 / (last + 1 - first)
    return block
