"""A prior as people write it: a mixture of named shapes, or weights by name. Reading looks at the text alone.

Shapes are read without a grid, so that they can be laid on any line later: `Shapes.on` gives the prior on a grid,
`Term.below` and `Term.between` the law before it is cut.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import NoReturn

import numpy as np

from discreet.errors import InvalidInput
from discreet.exact import positive, rational_text, shown
from discreet.plain import is_a, plain_exact, plain_list, plain_text, require_own
from discreet.prior import Array, Grid, Prior, grid_between, masses, on_grid
from discreet.schema.column import days

GRAMMAR = (
    "a prior is written like '0.9 normal(38, 6) + 0.1 cauchy(38, 6) on [17, 90] step 1'; the shapes are "
    "uniform(low, high), triangular(low, mode, high), normal(mean, sd), laplace(centre, scale), "
    "cauchy(centre, scale) and point(value); "
    'or it is weights such as \'{"yes": 1, "no": 99}\''
)
NARROWEST = Fraction(1, 2**20)
"""A law narrower than this share of a step is on its nearest points alike; its own scale would overflow."""
SMALLEST = 1e-300
LONGEST_TEXT = 10_000
MOST_SPREAD = 64
"""More shapes than this are no knowledge, and each costs time on every point."""

Shape = Callable[[Array, Fraction, Fraction], Array]
"""The log density at distances d from the point of the range nearest the centre, less that at d = 0.

Its other arguments are how far the centre lies outside the range, and the scale, all in grid steps. So written, no
centre is too far and no scale too small for floats.
"""
Tail = Callable[[Array], Array]
"""The probability beyond z >= 0 scales from the centre, on one side; accurate however far out."""


def _normal(d: Array, outside: Fraction, scale: Fraction) -> Array:
    """-((d + outside)^2 - outside^2) / (2 scale^2)."""
    return -(d**2 * float(1 / scale**2 / 2) + d * float(min(outside / scale**2, Fraction(2**40))))


def _laplace(d: Array, outside: Fraction, scale: Fraction) -> Array:  # noqa: ARG001 (the tail is the same everywhere)
    """-(d + outside - outside) / scale."""
    return -d * float(1 / scale)


def _cauchy(d: Array, outside: Fraction, scale: Fraction) -> Array:
    """-ln of (scale^2 + (d + outside)^2) / (scale^2 + outside^2)."""
    square = scale**2 + outside**2
    return -np.log1p(d**2 * float(1 / square) + d * float(2 * outside / square))


def _normal_tail(z: Array) -> Array:
    return np.fromiter(map(math.erfc, (z / math.sqrt(2)).ravel().tolist()), np.float64, z.size).reshape(z.shape) / 2


def _laplace_tail(z: Array) -> Array:
    return np.asarray(np.exp(-z) / 2)


def _cauchy_tail(z: Array) -> Array:
    return np.asarray(np.arctan2(1.0, z) / math.pi)


SPREAD: Mapping[str, Shape] = {"normal": _normal, "laplace": _laplace, "cauchy": _cauchy}
TAILS: Mapping[str, Tail] = {"normal": _normal_tail, "laplace": _laplace_tail, "cauchy": _cauchy_tail}
ENDED: Mapping[str, set[int]] = {"point": {1}, "uniform": {0, 2}, "triangular": {3}}
SIZES: Mapping[str, set[int]] = {**ENDED, **{name: {2} for name in SPREAD}}


@dataclass(frozen=True, slots=True)
class Term:
    """One shape of a mixture: its weight, name and numbers; a bare uniform has none until it is told its ends."""

    share: Fraction
    name: str
    numbers: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        """A known shape with as many numbers as it takes, a weight of at least 0, a scale above 0, ends in order."""
        object.__setattr__(self, "name", plain_text(self.name, "the name of a shape"))
        object.__setattr__(self, "share", plain_exact(self.share, "the weight of a shape"))
        numbers = plain_list(self.numbers, "the numbers of a shape")
        object.__setattr__(self, "numbers", tuple(plain_exact(one, "a number of a shape") for one in numbers))
        if self.name not in SIZES:
            raise InvalidInput(f"the prior could not be read: {self.name[:40]!r} is not a shape; {GRAMMAR}")
        if len(self.numbers) not in SIZES[self.name]:
            takes = " or ".join(map(str, sorted(SIZES[self.name])))
            many = f"{takes} number{'s' * (takes != '1')}, got {len(self.numbers)}"
            raise InvalidInput(f"{self.name} takes {many}; {GRAMMAR}")
        if self.share < 0:
            raise InvalidInput(f"a prior's weight must be at least 0, got {shown(self.share)}")
        if self.spread:
            positive(self.numbers[1], f"the scale of {self.name}")
        elif list(self.numbers) != sorted(self.numbers):
            told = f"{', '.join(map(shown, self.numbers[:-1]))} and {shown(self.numbers[-1])}"
            if self.name == "uniform":
                raise InvalidInput(f"uniform goes from low to high, got {told}; swap them")
            raise InvalidInput(f"triangular takes low, mode and high in rising order, got {told}; put them in order")

    @property
    def text(self) -> str:
        """As it is written, its weight first unless that is 1."""
        numbers = f"({', '.join(map(str, self.numbers))})" if self.numbers else ""
        return f"{'' if self.share == 1 else f'{self.share} '}{self.name}{numbers}"

    @property
    def spread(self) -> bool:
        """Whether it holds every number possible."""
        return self.name in SPREAD

    @property
    def heavy(self) -> bool:
        """Whether its tails are so heavy that it gives way to an answer far out."""
        return self.name == "cauchy"

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """From where to where a shape goes that does not hold every number possible."""
        if not self.numbers:
            raise InvalidInput(f"a bare uniform needs two ends; {GRAMMAR}")
        return self.numbers[0], self.numbers[-1]

    @property
    def centre(self) -> float:
        """The middle; of a triangular shape the mode."""
        if self.name == "triangular":
            return float(self.numbers[1])
        return float(self.numbers[0]) if self.spread else float(sum(self.ends) / 2)

    @property
    def scale(self) -> float:
        """The standard deviation; for laplace and cauchy the scale."""
        return float(self.numbers[1]) if self.spread else float(self.ends[1] - self.ends[0]) / math.sqrt(12)

    def below(self, x: Array) -> Array:
        """The probability of at most x, before the law is cut to a range."""
        if self.spread:
            z = self._scaled(x)
            tail = TAILS[self.name](np.abs(z))
            return np.where(z < 0, tail, 1 - tail)
        low, high = map(float, self.ends)
        if low == high:
            return np.where(x >= low, 1.0, 0.0)
        inside = np.clip(x, low, high)
        if self.name == "triangular":
            rising, falling = (max(side, SMALLEST) for side in (self.centre - low, high - self.centre))
            up, down = (inside - low) ** 2 / rising, (high - inside) ** 2 / falling
            return np.where(inside < self.centre, up / (high - low), 1 - down / (high - low))
        return (inside - low) / (high - low)

    def between(self, edges: Array) -> Array:
        """The probability of every cell between rising edges, without the loss of subtracting what is nearly 1."""
        if not self.spread:
            return np.diff(self.below(edges))
        z = self._scaled(edges)
        tail = TAILS[self.name](np.abs(z))
        across = (z[:-1] < 0) & (z[1:] >= 0)
        return np.where(across, 1 - tail[:-1] - tail[1:], np.abs(np.diff(tail)))

    def on(self, grid: Grid, count: int) -> tuple[slice, Array]:
        """Its probabilities on the grid, and where they begin and end."""
        if self.spread:
            return slice(0, count), _cut(self, grid, count)
        low, high = self.ends
        first = max(0, math.ceil((low - grid.origin) / grid.step))
        last = min(count - 1, math.floor((high - grid.origin) / grid.step))
        if last < first:
            raise InvalidInput(f"no point of the grid lies in [{shown(low)}, {shown(high)}]; widen it or mend the step")
        part = np.full(last + 1 - first, 1.0)
        if self.name == "triangular" and low < high:
            places = np.arange(first, last + 2, dtype=np.float64) - 0.5
            part = np.maximum(self.between(float(grid.origin) + float(grid.step) * places), SMALLEST)
        return slice(first, last + 1), part / part.sum()

    def _scaled(self, x: Array) -> Array:
        """How many scales from the centre; infinite where that is beyond floats."""
        with np.errstate(over="ignore"):
            z: Array = (np.asarray(x, dtype=np.float64) - self.centre) / max(self.scale, SMALLEST)
        return z


def _cut(term: Term, grid: Grid, count: int) -> Array:
    """Probabilities of a spread shape on the points of the grid."""
    centre, scale = term.numbers
    place = (centre - grid.origin) / grid.step
    near = min(max(place, Fraction(0)), Fraction(count - 1))
    d = np.abs(np.arange(count) - float(near))
    log_density = SPREAD[term.name](d, abs(place - near), max(scale / grid.step, NARROWEST))
    density: Array = np.exp(log_density - log_density.max())
    return density / float(density.sum())


@dataclass(frozen=True, slots=True)
class Shapes:
    """A mixture of shapes, with the ends and the step of its grid where the text has them."""

    terms: tuple[Term, ...]
    ends: tuple[Fraction, Fraction] | None = None
    step: Fraction | None = None

    def __post_init__(self) -> None:
        """Some weight above 0, not too many shapes, ends in order, a step above 0."""
        terms = plain_list(self.terms, "the shapes of a prior")
        object.__setattr__(self, "terms", tuple(require_own(one, Term, "a shape must be a Term") for one in terms))
        if self.ends is not None:
            low, high = (plain_exact(end, "an end of a prior") for end in plain_list(self.ends, "the ends of a prior"))
            object.__setattr__(self, "ends", (low, high))
        if self.step is not None:
            object.__setattr__(self, "step", positive(self.step, "the step"))
        if not self.total:
            raise InvalidInput(f"the prior's weights must add up to more than 0; {GRAMMAR}")
        spread = sum(term.spread for term in self.terms)
        if spread > MOST_SPREAD:
            raise InvalidInput(f"a prior mixes at most {MOST_SPREAD} of normal, laplace and cauchy, got {spread}")
        if self.ends is not None and self.ends[0] > self.ends[1]:
            first, last = map(shown, self.ends)
            raise InvalidInput(f"the lower end {first} is above the upper end {last}; swap them")

    @property
    def total(self) -> Fraction:
        """The sum of the weights."""
        return sum((term.share for term in self.terms), Fraction(0))

    @property
    def possible(self) -> tuple[Term, ...]:
        """The shapes of positive weight."""
        return tuple(term for term in self.terms if term.share)

    @property
    def heavy(self) -> bool:
        """Whether it has heavy tails of its own."""
        return any(term.heavy for term in self.possible)

    @property
    def ended(self) -> bool:
        """Whether it holds no number possible beyond the ends of its shapes."""
        return not any(term.spread for term in self.possible)

    @property
    def hull(self) -> tuple[Fraction, Fraction] | None:
        """The least and the greatest number that it holds possible; None where the text leaves that open."""
        own = [term.numbers for term in self.possible]
        if not self.ended or not all(own):
            return self.ends
        low, high = min(one[0] for one in own), max(one[-1] for one in own)
        return (low, high) if self.ends is None else (max(low, self.ends[0]), min(high, self.ends[1]))

    @property
    def text(self) -> str:
        """As `read_shapes` reads it: the shapes of positive weight, the ends and the step."""
        mixture = " + ".join(term.text for term in self.possible)
        ends = "" if self.ends is None else " on [{}, {}]".format(*self.ends)
        return mixture + ends + ("" if self.step is None else f" step {self.step}")

    def within(self, low: Fraction, high: Fraction) -> Shapes:
        """The same, every bare uniform reaching from low to high."""
        return replace(self, terms=tuple(replace(one, numbers=one.numbers or (low, high)) for one in self.terms))

    def on(self, lower: object = None, upper: object = None, step: object = None) -> Prior:
        """The prior on its own grid, or on the one given where the text is silent.

        Every shape is normalised on the grid and counts by its weight; a weight above 0 keeps what it holds possible.
        """
        low, high = self.ends or (_given(lower, "a lower end"), _given(upper, "an upper end"))
        grid, count = grid_between(low, high, self.step or (1 if step is None else step))
        whole = self.within(*(ends := (grid.origin, grid.origin + grid.step * (count - 1))))
        terms = whole.possible
        mixture, total = np.zeros(count), self.total
        for term in terms:
            where, part = term.on(grid, count)
            mixture[where] += max(float(term.share / total), 2.0**-200) * part
        mass = masses(mixture)
        law = mass if any(term.spread for term in terms) else np.where(mixture > 0, mass, 0)
        return on_grid(grid, law, replace(whole, ends=ends, step=grid.step).text)


def _given(end: object, name: str) -> object:
    if end is None:
        raise InvalidInput(f"the prior needs {name}; {GRAMMAR}")
    return end


NUMBER = r"[-+]?[0-9.][0-9./]*(?:e[-+]?[0-9]+)?"
TERM = re.compile(rf"(?:({NUMBER})\s*(?:\*\s*)?)?([a-z]+)\s*(?:\(([^()]*)\))?", re.I)
PLUS = re.compile(r"(?<=\))\s*\+|(?<=uniform)\s*\+", re.I)
STEP = re.compile(r"\bstep\b", re.I)
ON = re.compile(r"\bon$", re.I)
Place = Callable[[str, str], Fraction]
"""How a location is read from text; the second argument names it in a refusal."""


def read_shapes(text: str, dates: bool = False) -> Shapes:
    """Read shapes from text; with dates, locations are written like 2024-02-29 and count in days since 1970-01-01."""
    place = _day if dates else rational_text
    before, size = _cut_step(_short(text).strip())
    body, ends = _cut_ends(before, place)
    return Shapes(tuple(_term(part.strip(), place) for part in PLUS.split(body)), ends, size)


def _short(text: object) -> str:
    own = plain_text(text, "the prior") if is_a(text, str) else ""
    if not is_a(text, str) or len(own) > LONGEST_TEXT:
        raise InvalidInput(f"the prior could not be read: it is not text of at most {LONGEST_TEXT} letters; {GRAMMAR}")
    return own


def _day(text: str, name: str) -> Fraction:
    return Fraction(days(text.strip(), name))


def _cut_step(text: str) -> tuple[str, Fraction | None]:
    """The text before its last `step`, and the step."""
    found = [*STEP.finditer(text)]
    if not found:
        return text, None
    return text[: found[-1].start()].rstrip(), positive(rational_text(text[found[-1].end() :], "the step"), "the step")


def _cut_ends(text: str, place: Place) -> tuple[str, tuple[Fraction, Fraction] | None]:
    """The text before its closing `on [low, high]`, and the two ends."""
    head, bracket, tail = text.rpartition("[")
    on = ON.search(head.rstrip()[-3:])
    if not bracket or not tail.endswith("]") or on is None:
        return text, None
    ends = tail[:-1].split(",")
    if len(ends) != 2:
        raise InvalidInput(f"the prior could not be read at {'[' + tail[:39]!r}; {GRAMMAR}")
    return head.rstrip()[:-2].rstrip(), (place(ends[0], "the lower end"), place(ends[1], "the upper end"))


def _term(text: str, place: Place) -> Term:
    """Read one shape with its weight."""
    found = TERM.fullmatch(text)
    if found is None:
        where = f"at {text[:40]!r}" if text else "where a shape should stand and nothing does"
        raise InvalidInput(f"the prior could not be read {where}; {GRAMMAR}")
    weight, name, arguments = found.group(1), found.group(2).lower(), found.group(3) or ""
    texts = arguments.split(",") if arguments.strip() else []
    # The scale of a spread shape is a number even where its centre is a date.
    numbers = [
        rational_text(part, f"the scale of {name}") if at and name in SPREAD else place(part, f"a place in {name}")
        for at, part in enumerate(texts)
    ]
    return Term(rational_text(weight, "a weight") if weight else Fraction(1), name, tuple(numbers))


def are_weights(text: object) -> bool:
    """Whether a text gives weights by name, rather than shapes."""
    return isinstance(text, str) and text.lstrip().startswith("{")


def read_weights(text: str) -> dict[str, Fraction]:
    """Names and their weights from JSON such as '{"yes": 1, "no": 99}', each number by its decimal text."""
    number = partial(rational_text, name="a prior's weight")
    try:
        pairs = json.loads(
            _short(text), object_pairs_hook=tuple, parse_int=number, parse_float=number, parse_constant=_no_number
        )
    except (json.JSONDecodeError, RecursionError):
        pairs = None
    if not isinstance(pairs, tuple):
        raise InvalidInput(f"the prior could not be read at {text.strip()[:40]!r}; {GRAMMAR}")
    wrong = next((name for name, weight in pairs if not isinstance(weight, Fraction)), None)
    if wrong is not None:
        raise InvalidInput(f"the weight of {wrong[:40]!r} in the prior must be a number, such as 1 or 0.25")
    if len(dict(pairs)) < len(pairs):
        raise InvalidInput("the prior names the same value twice; add up its weights")
    return dict(pairs)


def read_weighed(text: str) -> Prior:
    """The prior that JSON weights give: of numbers where all names are numbers."""
    weights = read_weights(text)
    try:
        numbers = [rational_text(name) for name in weights]
    except InvalidInput:
        return Prior.weights(dict(weights.items()))
    if len(set(numbers)) < len(numbers):
        raise InvalidInput("the prior names the same number twice; add up its weights")
    return Prior.weights(dict(zip(numbers, weights.values(), strict=True)))


def _no_number(text: str) -> NoReturn:
    raise InvalidInput(f"a prior's weight must be a finite number, got {text}")
