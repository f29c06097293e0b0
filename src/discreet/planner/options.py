"""The options of a question: each with its type, its default, and how what a caller gives is read and copied."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from fractions import Fraction
from functools import cache, partial
from typing import Annotated, Literal, TypedDict, Unpack, cast, get_type_hints

from discreet.errors import InvalidInput
from discreet.estimation.constraint_set import StatedConstraint, copy_constraints
from discreet.numeric import as_int, as_number_between, as_positive, format_exact, parse_rational
from discreet.priors.distance import Distance, copy_distance
from discreet.priors.prior import Prior, copy_prior
from discreet.privacy.cost import MIN_DELTA, MIN_EPSILON
from discreet.untrusted import (
    CheckedValue,
    copy_exact_number,
    copy_list,
    copy_text,
    copy_value,
    has_type,
    require_exact_class,
)

ACCURACY_PATTERN = re.compile(
    r"\s*(?:±|\+/?-|within\s)?\s*([0-9][0-9_,.e+-]*|\.[0-9]+)\s*(?:(?:at|with)\s+(.+?))?\s*", re.I
)
ACCURACY_GRAMMAR = (
    "an accuracy is written like '±50 at 95%': a distance above 0, and a probability between 50 % and 99.9999 %"
)
MIN_CONFIDENCE, MAX_CONFIDENCE = Fraction(1, 2), Fraction(999_999, 1_000_000)
DEFAULT_CONFIDENCE = Fraction(95, 100)
RANGE_SYNTAX = "a range has a low and a high end, each a number or a date"


@dataclass(frozen=True, slots=True)
class Accuracy(CheckedValue):
    """A requested accuracy: a distance from the exact number, and the probability that an answer is within it.

    Args:
        distance: The distance, above 0.
        confidence: The probability, such as 0.95.

    Raises:
        InvalidInput: The distance is not above 0, or the probability is too near 0 or 1.

    Example:
        >>> from discreet import Accuracy
        >>> accuracy = Accuracy.parse("±50 at 95%")
        >>> accuracy.distance, accuracy.confidence
        (Fraction(50, 1), Fraction(19, 20))
    """

    distance: Fraction
    confidence: Fraction

    def __post_init__(self) -> None:
        """Copy both as exact numbers: a distance above 0 and a probability that means something."""
        object.__setattr__(self, "distance", copy_exact_number(self.distance, "the distance of an accuracy"))
        object.__setattr__(self, "confidence", copy_exact_number(self.confidence, "the probability of an accuracy"))
        if not self.distance > 0 or not MIN_CONFIDENCE <= self.confidence <= MAX_CONFIDENCE:
            raise InvalidInput(f"this accuracy cannot be asked for; {ACCURACY_GRAMMAR}")

    @staticmethod
    def parse(text: object) -> Accuracy:
        """Read an accuracy from text; without a probability 95 % is meant."""
        if has_type(text, Accuracy):
            accuracy = require_exact_class(text, Accuracy, ACCURACY_GRAMMAR)
            return Accuracy(accuracy.distance, accuracy.confidence)
        if not has_type(text, str):
            raise InvalidInput(
                f"the accuracy could not be read: it is {type(text).__name__}, not text; {ACCURACY_GRAMMAR}"
            )
        accuracy_text = copy_text(text, "an accuracy")
        match = ACCURACY_PATTERN.fullmatch(accuracy_text) if len(accuracy_text) <= 100 else None
        if match is None:
            raise InvalidInput(f"the accuracy could not be read: {accuracy_text[:40]!r}; {ACCURACY_GRAMMAR}")
        number, confidence = match.groups()
        distance = parse_rational(number.replace(",", "").replace("_", ""), "the distance of an accuracy")
        return Accuracy(distance, DEFAULT_CONFIDENCE if confidence is None else _parse_confidence(confidence))

    def __str__(self) -> str:
        return f"±{format_exact(self.distance)} at {format_exact(self.confidence * 100)}%"


def _parse_confidence(text: str) -> Fraction:
    number, percent, trailing = text.strip().partition("%")
    if trailing:
        raise InvalidInput(f"the accuracy could not be read at {text[:40]!r}; {ACCURACY_GRAMMAR}")
    value = parse_rational(number.strip(), "the probability of an accuracy")
    return value / 100 if percent else value


MIN_QUERY_EPSILON, MAX_QUERY_EPSILON = MIN_EPSILON, Fraction(10**4)
"""Beyond these nothing useful is asked, and numbers outgrow floats: refused before anything is spent."""
MAX_EXPECTED_ROWS = 10**12
ANY_PRICE = "any"
NOISE_OPTIONS = ("epsilon", "accuracy", "noise_scale")
"""The options that say how much noise there may be; a question has exactly one of them."""
PriorInput = str | Prior | Mapping[Hashable, object] | None
RangeInput = str | tuple[object, object]


class QueryKeywords(TypedDict, total=False):
    """The options of a question as callers give them: `QueryOptions` says what each means.

    Epsilon, which every call takes by its position too, stands apart.
    """

    accuracy: object
    noise_scale: object
    prior: PriorInput
    delta: object
    rows: object
    model: str | None
    mechanism: str | None
    distance: Distance | str | None
    tail: bool | None
    interval: bool
    population: bool
    population_size: object
    fresh: bool
    reuse: str | None
    constraints: Sequence[StatedConstraint]
    ranges: Sequence[RangeInput]
    key: str | None


@dataclass(frozen=True, slots=True)
class OptionReader:
    """How one option is read: as a copy made of plain values, or refused."""

    read: Callable[[object], object]
    number: Literal["", "exact", "whole"] = ""
    """Whether it is a number, which faces that send text parse first."""
    subject: str = ""
    """How refusals name the number."""
    is_afterwards: bool = False
    """Whether it is computed from an answer, and not part of what is drawn."""


def _exact_number(read: Callable[..., Fraction], subject: str) -> OptionReader:
    return OptionReader(partial(read, name=subject), "exact", subject)


def _whole_number(subject: str, is_afterwards: bool = False) -> OptionReader:
    return OptionReader(partial(as_int, name=subject), "whole", subject, is_afterwards)


def _read_prior(prior_input: object) -> str | Prior:
    if has_type(prior_input, str):
        return copy_text(prior_input, "a prior")
    if isinstance(prior_input, Mapping):
        return Prior.weights(prior_input)
    return copy_prior(prior_input, "a prior must be text or a Prior")


def _read_distance(distance_input: object) -> str | Distance:
    return copy_text(distance_input, "a distance") if has_type(distance_input, str) else copy_distance(distance_input)


def _read_tail(tail: object) -> bool:
    if tail is not True and tail is not False:
        raise InvalidInput(f"tail is True, False or left out, got {type(tail).__name__}")
    return tail


def _read_reuse(reuse: object) -> str:
    if copy_text(reuse, "reuse") != ANY_PRICE:
        raise InvalidInput(
            f'reuse is "{ANY_PRICE}", to take another analyst\'s stored answer also if it costs more than you offer; '
            "otherwise leave it out"
        )
    return ANY_PRICE


def _read_ranges(ranges: object) -> tuple[str, ...]:
    return tuple(map(_read_range, copy_list(ranges, "ranges")))


def _read_range(ends: object) -> str:
    if has_type(ends, str):
        return format_range(*parse_range(copy_text(ends, "a range")))
    low_and_high = copy_list(ends, "a range")
    if len(low_and_high) != 2:
        raise InvalidInput(RANGE_SYNTAX)
    return format_range(*(copy_value(end, "an end of a range") for end in low_and_high))


def format_range(low: object, high: object) -> str:
    """Write a range as text, such as 20000..30000."""
    ends = [end.isoformat() if isinstance(end, date) else str(end).strip() for end in (low, high)]
    if any(not end or ".." in end or len(end) > 100 for end in ends):
        raise InvalidInput(RANGE_SYNTAX)
    return "..".join(ends)


def parse_range(text: str) -> tuple[str, str]:
    """Read both ends of a range that is written as text."""
    low, dots, high = (part.strip() for part in text.partition(".."))
    if not (low and dots and high):
        raise InvalidInput(f"a range is written with two ends, such as 20000..30000, got {text[:40]!r}")
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions(CheckedValue):
    """The options of a question besides its SQL; `Custodian.answer` and `Client.answer` take them as keywords.

    Exactly one of `epsilon`, `accuracy` and `noise_scale` says how much noise there is.

    Args:
        epsilon: Privacy budget for the answer. It is never exceeded.
        accuracy: How near the answer should be, such as "±50 at 95%": the smallest epsilon that reaches it is charged.
        noise_scale: The scale of Laplace noise; under approx-dp the standard deviation of Gaussian noise.
        prior: What the analyst already knows, such as "normal(38, 6)". The answer says what it means to someone with
            this prior.
        delta: The delta of approx-dp, such as 1e-9.
        rows: The fewest rows expected to be selected: it helps to choose a mechanism, and the accuracy of a mean is
            stated for it.
        model: "dp", "approx-dp" or "individual-dp".
        mechanism: The name of a mechanism, as previews show it.
        distance: Requests a refinement of the prior by this distance.
        tail: Whether a tenth of a heavy tail is mixed into the prior, so that a wrong prior cannot hide the truth. By
            default it is where the prior only weighs noise, and in shapes without ends, but not where the answer is
            drawn from a prior with ends.
        interval: Spends half of epsilon on two values around a quantile.
        population: Refuses, before anything is charged, a question that has no `Answer.population`.
        population_size: The size of that population: it may be given where the number of units is public.
        fresh: Pays for a new draw. By default the same question again returns the stored answer, and costs nothing.
        reuse: "any" accepts another analyst's stored answer also if it costs more than epsilon. By default such an
            answer is returned with noise added to your epsilon where its noise is discrete Laplace, once for each draw;
            otherwise a new one is drawn.
        constraints: Public facts, such as "total = 1000", that the count's `reconciled` rows are made to fit.
        ranges: Ranges of a HISTOGRAM, such as "20..30": refused, before anything is charged, where `Answer.range` could
            not count them.
        key: A name for this request: a retry with it is not charged again.

    Raises:
        InvalidInput: An option is not valid, or not exactly one of epsilon, accuracy and noise_scale is given.

    Example:
        >>> from discreet import QueryOptions
        >>> QueryOptions(epsilon=0.1, prior="normal(38, 6)").epsilon
        Fraction(1, 10)
    """

    epsilon: Annotated[Fraction | None, _exact_number(as_positive, "epsilon")] = None
    accuracy: Annotated[Accuracy | None, OptionReader(Accuracy.parse)] = None
    noise_scale: Annotated[Fraction | None, _exact_number(as_positive, "the noise scale")] = None
    prior: Annotated[str | Prior | None, OptionReader(_read_prior)] = None
    delta: Annotated[Fraction | None, _exact_number(partial(as_number_between, low=0, high=1), "delta")] = None
    rows: Annotated[int | None, _whole_number("the number of rows expected")] = None
    model: Annotated[str | None, OptionReader(partial(copy_text, subject="a model"))] = None
    mechanism: Annotated[str | None, OptionReader(partial(copy_text, subject="a mechanism"))] = None
    distance: Annotated[Distance | str | None, OptionReader(_read_distance)] = None
    tail: Annotated[bool | None, OptionReader(_read_tail)] = None
    interval: Annotated[bool, OptionReader(bool)] = False
    population: Annotated[bool, OptionReader(bool, is_afterwards=True)] = False
    population_size: Annotated[int | None, _whole_number("the size of the population", is_afterwards=True)] = None
    fresh: Annotated[bool, OptionReader(bool)] = False
    reuse: Annotated[str | None, OptionReader(_read_reuse)] = None
    constraints: Annotated[tuple[StatedConstraint, ...], OptionReader(copy_constraints)] = ()
    ranges: Annotated[tuple[str, ...], OptionReader(_read_ranges, is_afterwards=True)] = ()
    key: Annotated[str | None, OptionReader(partial(copy_text, subject="key"))] = None

    def __post_init__(self) -> None:
        """Copy what callers made as plain values; refuse two ways to say how much noise, and numbers beyond reason."""
        readers = find_option_readers(cast(type, type(self)))
        for option in fields(self):
            value = getattr(self, option.name)
            if value is not None and value is not option.default:
                object.__setattr__(self, option.name, readers[option.name].read(value))
            else:
                object.__setattr__(self, option.name, option.default)
        if sum(setting is not None for setting in self._noise_settings) != 1:
            raise InvalidInput("say how much noise there may be in one way: by epsilon, by noise_scale or by accuracy")
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        if self.delta is not None and self.delta < MIN_DELTA:
            raise InvalidInput("delta must be at least 1e-30")
        if self.tail is not None and self.prior is None:
            raise InvalidInput("tail says how your prior is used; give the prior too, or leave out tail")

    @property
    def _noise_settings(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in NOISE_OPTIONS)

    @property
    def wants_population(self) -> bool:
        """Whether the numbers are to be estimated for a population too."""
        return self.population or self.population_size is not None


@cache
def find_option_readers(kind: type) -> Mapping[str, OptionReader]:
    """Find how each option is read, by its name and in the order of the fields."""
    hints = get_type_hints(kind, include_extras=True)
    return {option.name: hints[option.name].__metadata__[0] for option in fields(kind)}


OPTION_READERS = find_option_readers(cast(type, QueryOptions))
"""The options of a question in their order, and how each is read."""


def build_query_options(epsilon: object = None, **options: Unpack[QueryKeywords]) -> QueryOptions:
    """Build the options of a question from plain values; numbers by their decimal text."""
    return read_query_options({"epsilon": epsilon, **options})


def read_query_options(values: Mapping[str, object]) -> QueryOptions:
    """Read the options of a question from values by name; a name that is no option is a TypeError."""
    build: Callable[..., QueryOptions] = QueryOptions
    return build(**values)


def _copy_names(names: object) -> tuple[str, ...]:
    return tuple(copy_text(name, "a mechanism") for name in copy_list(names, "mechanisms"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest(QueryOptions):
    """The options of a question with what the planner and the ledger add; no analyst can say these.

    `rho` stands in for epsilon where a stored answer was drawn by it; `max_epsilon` is the largest epsilon an accuracy
    may cost.
    """

    rho: Annotated[Fraction | None, OptionReader(partial(copy_exact_number, subject="rho"))] = None
    max_epsilon: Annotated[Fraction | None, OptionReader(partial(copy_exact_number, subject="max_epsilon"))] = None
    target_accuracy: Annotated[Accuracy | None, OptionReader(Accuracy.parse)] = None
    """The accuracy that the epsilon was found for: the mechanism must have it too."""
    stored_mechanisms: Annotated[tuple[str, ...], OptionReader(_copy_names)] = ()
    """The mechanisms, aggregate by aggregate, that a stored answer was drawn by: no others are weighed."""

    @property
    def _noise_settings(self) -> tuple[object, ...]:
        return (self.epsilon, self.noise_scale, self.accuracy, self.rho)

    @property
    def requested_model(self) -> str:
        """The model asked for: by its name, or by a delta."""
        return self.model or ("dp" if self.delta is None and self.rho is None else "approx-dp")

    @property
    def expected_rows(self) -> int | None:
        """About how many rows the analyst expects to be selected, for planning alone."""
        return None if self.rows is None else min(self.rows, MAX_EXPECTED_ROWS)


def build_plan_request(options: QueryOptions, max_epsilon: Fraction | None = None) -> PlanRequest:
    """Build the planner's request from an analyst's options, each of which is copied; refuse any other class."""
    original = require_exact_class(options, QueryOptions, "the options of a question are QueryOptions")
    return PlanRequest(**{name: getattr(original, name) for name in OPTION_READERS}, max_epsilon=max_epsilon)


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse an epsilon beyond what is useful."""
    if not MIN_QUERY_EPSILON <= epsilon <= MAX_QUERY_EPSILON:
        raise InvalidInput(f"epsilon must be between 1e-9 and 10000, got {format_exact(epsilon)}")
