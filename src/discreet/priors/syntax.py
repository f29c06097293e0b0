"""A prior as people write it: a mixture of named shapes, or weights by name. Reading looks at the text alone.

Shapes are read without a grid, so that they can be laid on any line later: `ShapeMixture.build_prior` gives the prior
on a grid, `ShapeTerm.compute_cdf` and `ShapeTerm.compute_cell_masses` the law before it is cut.
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
from discreet.numeric import as_positive, format_exact, parse_days, parse_rational
from discreet.priors.prior import Array, Grid, Prior, build_grid, build_grid_prior, convert_to_masses
from discreet.untrusted import (
    CheckedValue,
    copy_exact_number,
    copy_list,
    copy_text,
    has_type,
    require_exact_class,
    set_fields,
)

GRAMMAR = (
    "a prior is written like '0.9 normal(38, 6) + 0.1 cauchy(38, 6) on [17, 90] step 1'; the shapes are "
    "uniform(low, high), triangular(low, mode, high), normal(mean, sd), laplace(centre, scale), "
    "cauchy(centre, scale) and point(value); "
    'or it is weights such as \'{"yes": 1, "no": 99}\''
)
MIN_SCALE = Fraction(1, 2**20)
"""A law narrower than this share of a step is on its nearest points alike; its own scale would overflow."""
MIN_POSITIVE = 1e-300
MAX_TEXT_LENGTH = 10_000
MAX_SPREAD_TERMS = 64
"""More shapes than this are no knowledge, and each costs time on every point."""

LogDensity = Callable[[Array, Fraction, Fraction], Array]
"""The log density at distances d from the point of the range nearest the centre, less that at d = 0.

Its other arguments are how far the centre lies outside the range, and the scale, all in grid steps. So written, no
centre is too far and no scale too small for floats.
"""
TailFunction = Callable[[Array], Array]
"""The probability beyond z >= 0 scales from the centre, on one side; accurate however far out."""


def _compute_normal_log_density(d: Array, outside: Fraction, scale: Fraction) -> Array:
    """-((d + outside)^2 - outside^2) / (2 scale^2)."""
    return -(d**2 * float(1 / scale**2 / 2) + d * float(min(outside / scale**2, Fraction(2**40))))


def _compute_cauchy_log_density(d: Array, outside: Fraction, scale: Fraction) -> Array:
    """-ln of (scale^2 + (d + outside)^2) / (scale^2 + outside^2)."""
    square = scale**2 + outside**2
    return -np.log1p(d**2 * float(1 / square) + d * float(2 * outside / square))


def _compute_normal_tail(z: Array) -> Array:
    return np.fromiter(map(math.erfc, (z / math.sqrt(2)).ravel().tolist()), np.float64, z.size).reshape(z.shape) / 2


SPREAD_SHAPES: Mapping[str, LogDensity] = {
    "normal": _compute_normal_log_density,
    "laplace": lambda d, _, scale: -d * float(1 / scale),
    "cauchy": _compute_cauchy_log_density,
}
SHAPE_TAILS: Mapping[str, TailFunction] = {
    "normal": _compute_normal_tail,
    "laplace": lambda z: np.asarray(np.exp(-z) / 2),
    "cauchy": lambda z: np.asarray(np.arctan2(1.0, z) / math.pi),
}
BOUNDED_SHAPES: Mapping[str, set[int]] = {"point": {1}, "uniform": {0, 2}, "triangular": {3}}
PARAMETER_COUNTS: Mapping[str, set[int]] = {**BOUNDED_SHAPES, **{name: {2} for name in SPREAD_SHAPES}}


@dataclass(frozen=True, slots=True)
class ShapeTerm(CheckedValue):
    """One shape of a mixture: its weight, name and numbers; a bare uniform has none until its ends are known."""

    share: Fraction
    name: str
    numbers: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        """A known shape with as many numbers as it takes, a weight of at least 0, a scale above 0, ends in order."""
        set_fields(self, name=copy_text(self.name, "the name of a shape"))
        set_fields(self, share=copy_exact_number(self.share, "the weight of a shape"))
        numbers = copy_list(self.numbers, "the numbers of a shape")
        set_fields(self, numbers=tuple(copy_exact_number(number, "a number of a shape") for number in numbers))
        if self.name not in PARAMETER_COUNTS:
            raise InvalidInput(f"the prior could not be read: {self.name[:40]!r} is not a shape; {GRAMMAR}")
        if len(self.numbers) not in PARAMETER_COUNTS[self.name]:
            counts_text = " or ".join(map(str, sorted(PARAMETER_COUNTS[self.name])))
            count_text = f"{counts_text} number{'s' * (counts_text != '1')}, got {len(self.numbers)}"
            raise InvalidInput(f"{self.name} takes {count_text}; {GRAMMAR}")
        if self.share < 0:
            raise InvalidInput(f"a prior's weight must be at least 0, got {format_exact(self.share)}")
        if self.is_spread:
            as_positive(self.numbers[1], f"the scale of {self.name}")
        elif list(self.numbers) != sorted(self.numbers):
            numbers_text = f"{', '.join(map(format_exact, self.numbers[:-1]))} and {format_exact(self.numbers[-1])}"
            if self.name == "uniform":
                raise InvalidInput(f"uniform goes from low to high, got {numbers_text}; swap them")
            rule = "triangular takes low, mode and high in rising order"
            raise InvalidInput(f"{rule}, got {numbers_text}; put them in order")

    @property
    def text(self) -> str:
        """As it is written, its weight first unless that is 1."""
        numbers = f"({', '.join(map(str, self.numbers))})" if self.numbers else ""
        return f"{'' if self.share == 1 else f'{self.share} '}{self.name}{numbers}"

    @property
    def is_spread(self) -> bool:
        """Whether it holds every number possible."""
        return self.name in SPREAD_SHAPES

    @property
    def is_heavy_tailed(self) -> bool:
        """Whether its tails are so heavy that it gives way to an answer far out."""
        return self.name == "cauchy"

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """From where to where a shape goes that does not hold every number possible."""
        if not self.numbers:
            raise InvalidInput(f"a bare uniform needs two ends; {GRAMMAR}")
        return self.numbers[0], self.numbers[-1]

    @property
    def center(self) -> float:
        """The middle; of a triangular shape the mode."""
        if self.name == "triangular":
            return float(self.numbers[1])
        return float(self.numbers[0]) if self.is_spread else float(sum(self.ends) / 2)

    @property
    def scale(self) -> float:
        """The standard deviation; for laplace and cauchy the scale."""
        return float(self.numbers[1]) if self.is_spread else float(self.ends[1] - self.ends[0]) / math.sqrt(12)

    def compute_cdf(self, x: Array) -> Array:
        """The probability of at most x, before the law is cut to a range."""
        if self.is_spread:
            z = self._standardize(x)
            tail = SHAPE_TAILS[self.name](np.abs(z))
            return np.where(z < 0, tail, 1 - tail)
        low, high = map(float, self.ends)
        if low == high:
            return np.where(x >= low, 1.0, 0.0)
        inside = np.clip(x, low, high)
        if self.name == "triangular":
            rising, falling = (max(side, MIN_POSITIVE) for side in (self.center - low, high - self.center))
            rising_part, falling_part = (inside - low) ** 2 / rising, (high - inside) ** 2 / falling
            return np.where(inside < self.center, rising_part / (high - low), 1 - falling_part / (high - low))
        return (inside - low) / (high - low)

    def compute_cell_masses(self, edges: Array) -> Array:
        """The probability of every cell between rising edges, without the loss of subtracting what is nearly 1."""
        if not self.is_spread:
            return np.diff(self.compute_cdf(edges))
        z = self._standardize(edges)
        tail = SHAPE_TAILS[self.name](np.abs(z))
        is_across_center = (z[:-1] < 0) & (z[1:] >= 0)
        return np.where(is_across_center, 1 - tail[:-1] - tail[1:], np.abs(np.diff(tail)))

    def place_on_grid(self, grid: Grid, count: int) -> tuple[slice, Array]:
        """Its probabilities on the grid, and where they begin and end."""
        if self.is_spread:
            return slice(0, count), self._compute_spread_masses(grid, count)
        low, high = self.ends
        first = max(0, math.ceil((low - grid.origin) / grid.step))
        last = min(count - 1, math.floor((high - grid.origin) / grid.step))
        if last < first:
            interval = f"[{format_exact(low)}, {format_exact(high)}]"
            raise InvalidInput(f"no point of the grid lies in {interval}; widen it or mend the step")
        part = np.full(last + 1 - first, 1.0)
        if self.name == "triangular" and low < high:
            places = np.arange(first, last + 2, dtype=np.float64) - 0.5
            part = np.maximum(self.compute_cell_masses(float(grid.origin) + float(grid.step) * places), MIN_POSITIVE)
        return slice(first, last + 1), part / part.sum()

    def _compute_spread_masses(self, grid: Grid, count: int) -> Array:
        center, scale = self.numbers
        center_index = (center - grid.origin) / grid.step
        nearest_index = min(max(center_index, Fraction(0)), Fraction(count - 1))
        d = np.abs(np.arange(count) - float(nearest_index))
        log_density = SPREAD_SHAPES[self.name](d, abs(center_index - nearest_index), max(scale / grid.step, MIN_SCALE))
        density: Array = np.exp(log_density - log_density.max())
        return density / float(density.sum())

    def _standardize(self, x: Array) -> Array:
        """How many scales from the centre; infinite where that is beyond floats."""
        with np.errstate(over="ignore"):
            z: Array = (np.asarray(x, dtype=np.float64) - self.center) / max(self.scale, MIN_POSITIVE)
        return z


@dataclass(frozen=True, slots=True)
class ShapeMixture(CheckedValue):
    """A mixture of shapes, with the ends and the step of its grid where the text has them."""

    terms: tuple[ShapeTerm, ...]
    ends: tuple[Fraction, Fraction] | None = None
    step: Fraction | None = None

    def __post_init__(self) -> None:
        """Some weight above 0, not too many shapes, ends in order, a step above 0."""
        terms = copy_list(self.terms, "the shapes of a prior")
        set_fields(
            self, terms=tuple(require_exact_class(term, ShapeTerm, "a shape must be a ShapeTerm") for term in terms)
        )
        if self.ends is not None:
            ends = copy_list(self.ends, "the ends of a prior")
            low, high = (copy_exact_number(end, "an end of a prior") for end in ends)
            set_fields(self, ends=(low, high))
        if self.step is not None:
            set_fields(self, step=as_positive(self.step, "the step"))
        if not self.total_weight:
            raise InvalidInput(f"the prior's weights must add up to more than 0; {GRAMMAR}")
        if (count := sum(term.is_spread for term in self.terms)) > MAX_SPREAD_TERMS:
            raise InvalidInput(f"a prior mixes at most {MAX_SPREAD_TERMS} of normal, laplace and cauchy, got {count}")
        if self.ends is not None and self.ends[0] > self.ends[1]:
            first, last = map(format_exact, self.ends)
            raise InvalidInput(f"the lower end {first} is above the upper end {last}; swap them")

    @property
    def total_weight(self) -> Fraction:
        """The sum of the weights."""
        return sum((term.share for term in self.terms), Fraction(0))

    @property
    def possible_terms(self) -> tuple[ShapeTerm, ...]:
        """The shapes of positive weight."""
        return tuple(term for term in self.terms if term.share)

    @property
    def is_heavy_tailed(self) -> bool:
        """Whether it has heavy tails of its own."""
        return any(term.is_heavy_tailed for term in self.possible_terms)

    @property
    def is_bounded(self) -> bool:
        """Whether it holds no number possible beyond the ends of its shapes."""
        return not any(term.is_spread for term in self.possible_terms)

    @property
    def hull(self) -> tuple[Fraction, Fraction] | None:
        """The least and the greatest number that it holds possible; None where the text leaves that open."""
        term_numbers = [term.numbers for term in self.possible_terms]
        if not self.is_bounded or not all(term_numbers):
            return self.ends
        low, high = min(numbers[0] for numbers in term_numbers), max(numbers[-1] for numbers in term_numbers)
        return (low, high) if self.ends is None else (max(low, self.ends[0]), min(high, self.ends[1]))

    @property
    def text(self) -> str:
        """As `parse_shapes` reads it: the shapes of positive weight, the ends and the step."""
        mixture = " + ".join(term.text for term in self.possible_terms)
        ends = "" if self.ends is None else " on [{}, {}]".format(*self.ends)
        return mixture + ends + ("" if self.step is None else f" step {self.step}")

    def fill_uniform_ends(self, low: Fraction, high: Fraction) -> ShapeMixture:
        """The same, every bare uniform reaching from low to high."""
        return replace(self, terms=tuple(replace(term, numbers=term.numbers or (low, high)) for term in self.terms))

    def build_prior(self, lower: object = None, upper: object = None, step: object = None) -> Prior:
        """The prior on its own grid, or on the one given where the text is silent.

        Every shape is normalised on the grid and counts by its weight; a weight above 0 keeps what it holds possible.
        """
        if self.ends is None and (lower is None or upper is None):
            raise InvalidInput(f"the prior needs {'a lower' if lower is None else 'an upper'} end; {GRAMMAR}")
        low, high = self.ends or (lower, upper)
        grid, count = build_grid(low, high, self.step or (1 if step is None else step))
        filled_mixture = self.fill_uniform_ends(*(ends := (grid.origin, grid.origin + grid.step * (count - 1))))
        terms = filled_mixture.possible_terms
        mixture, total = np.zeros(count), self.total_weight
        for term in terms:
            covered_slice, part = term.place_on_grid(grid, count)
            mixture[covered_slice] += max(float(term.share / total), 2.0**-200) * part
        mass = convert_to_masses(mixture)
        grid_mass = mass if any(term.is_spread for term in terms) else np.where(mixture > 0, mass, 0)
        return build_grid_prior(grid, grid_mass, replace(filled_mixture, ends=ends, step=grid.step).text)


NUMBER_PATTERN = r"[-+]?[0-9.][0-9./]*(?:e[-+]?[0-9]+)?"
TERM_PATTERN = re.compile(rf"(?:({NUMBER_PATTERN})\s*(?:\*\s*)?)?([a-z]+)\s*(?:\(([^()]*)\))?", re.I)
PLUS_PATTERN = re.compile(r"(?<=\))\s*\+|(?<=uniform)\s*\+", re.I)
STEP_PATTERN = re.compile(r"\bstep\b", re.I)
ON_PATTERN = re.compile(r"\bon$", re.I)
ParseLocation = Callable[[str, str], Fraction]
"""How a location is read from text; the second argument names it in a refusal."""


def parse_shapes(text: str, dates: bool = False) -> ShapeMixture:
    """Read shapes from text; with dates, locations are written like 2024-02-29 and count in days since 1970-01-01."""

    def parse_day(location: str, name: str) -> Fraction:
        return Fraction(parse_days(location.strip(), name))

    parse_location = parse_day if dates else parse_rational
    before, size = _split_step(_check_text_length(text).strip())
    body, ends = _split_ends(before, parse_location)
    terms = tuple(_parse_term(part.strip(), parse_location) for part in PLUS_PATTERN.split(body))
    return ShapeMixture(terms, ends, size)


def _check_text_length(text: object) -> str:
    checked_text = copy_text(text, "the prior") if has_type(text, str) else ""
    if not has_type(text, str) or len(checked_text) > MAX_TEXT_LENGTH:
        problem = f"it is not text of at most {MAX_TEXT_LENGTH} letters"
        raise InvalidInput(f"the prior could not be read: {problem}; {GRAMMAR}")
    return checked_text


def _split_step(text: str) -> tuple[str, Fraction | None]:
    """The text before its last `step`, and the step."""
    matches = [*STEP_PATTERN.finditer(text)]
    if not matches:
        return text, None
    step = as_positive(parse_rational(text[matches[-1].end() :], "the step"), "the step")
    return text[: matches[-1].start()].rstrip(), step


def _split_ends(text: str, parse_location: ParseLocation) -> tuple[str, tuple[Fraction, Fraction] | None]:
    """The text before its closing `on [low, high]`, and the two ends."""
    head, bracket, tail = text.rpartition("[")
    on_match = ON_PATTERN.search(head.rstrip()[-3:])
    if not bracket or not tail.endswith("]") or on_match is None:
        return text, None
    ends = tail[:-1].split(",")
    if len(ends) != 2:
        raise InvalidInput(f"the prior could not be read at {'[' + tail[:39]!r}; {GRAMMAR}")
    low, high = parse_location(ends[0], "the lower end"), parse_location(ends[1], "the upper end")
    return head.rstrip()[:-2].rstrip(), (low, high)


def _parse_term(text: str, parse_location: ParseLocation) -> ShapeTerm:
    term_match = TERM_PATTERN.fullmatch(text)
    if term_match is None:
        where = f"at {text[:40]!r}" if text else "where a shape should stand and nothing does"
        raise InvalidInput(f"the prior could not be read {where}; {GRAMMAR}")
    weight, name, arguments = term_match.group(1), term_match.group(2).lower(), term_match.group(3) or ""
    texts = arguments.split(",") if arguments.strip() else []
    # The scale of a spread shape is a number even where its centre is a date.
    numbers = [
        parse_rational(part, f"the scale of {name}")
        if index and name in SPREAD_SHAPES
        else parse_location(part, f"a place in {name}")
        for index, part in enumerate(texts)
    ]
    return ShapeTerm(parse_rational(weight, "a weight") if weight else Fraction(1), name, tuple(numbers))


def is_weights_text(text: object) -> bool:
    """Whether a text gives weights by name, rather than shapes."""
    return isinstance(text, str) and text.lstrip().startswith("{")


def parse_weights(text: str) -> dict[str, Fraction]:
    """Names and their weights from JSON such as '{"yes": 1, "no": 99}', each number by its decimal text."""
    number = partial(parse_rational, name="a prior's weight")
    try:
        decoder = json.JSONDecoder(
            object_pairs_hook=tuple, parse_int=number, parse_float=number, parse_constant=_refuse_constant
        )
        pairs = decoder.decode(_check_text_length(text))
    except (json.JSONDecodeError, RecursionError):
        pairs = None
    if not isinstance(pairs, tuple):
        raise InvalidInput(f"the prior could not be read at {text.strip()[:40]!r}; {GRAMMAR}")
    invalid_name = next((name for name, weight in pairs if not isinstance(weight, Fraction)), None)
    if invalid_name is not None:
        raise InvalidInput(f"the weight of {invalid_name[:40]!r} in the prior must be a number, such as 1 or 0.25")
    if len(dict(pairs)) < len(pairs):
        raise InvalidInput("the prior names the same value twice; add up its weights")
    return dict(pairs)


def parse_weighted_prior(text: str) -> Prior:
    """The prior that JSON weights give: of numbers where all names are numbers."""
    weights = parse_weights(text)
    try:
        numbers = [parse_rational(name) for name in weights]
    except InvalidInput:
        return Prior.weights(dict(weights.items()))
    if len(set(numbers)) < len(numbers):
        raise InvalidInput("the prior names the same number twice; add up its weights")
    return Prior.weights(dict(zip(numbers, weights.values(), strict=True)))


def _refuse_constant(text: str) -> NoReturn:
    raise InvalidInput(f"a prior's weight must be a finite number, got {text}")
