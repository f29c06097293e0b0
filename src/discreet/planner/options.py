"""The options of a question: how much noise (epsilon, accuracy or noise scale), prior, distance, model."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from discreet.errors import InvalidInput
from discreet.numeric import as_int, as_number_between, as_positive, format_exact, parse_rational
from discreet.priors.distance import Distance, copy_distance
from discreet.priors.prior import Prior, copy_prior
from discreet.privacy.cost import MIN_DELTA, MIN_EPSILON
from discreet.untrusted import CheckedValue, copy_exact_number, copy_list, copy_text, has_type, require_exact_class

ACCURACY_PATTERN = re.compile(
    r"\s*(?:±|\+/?-|within\s)?\s*([0-9][0-9_,.e+-]*|\.[0-9]+)\s*(?:(?:at|with)\s+(.+?))?\s*", re.I
)
ACCURACY_GRAMMAR = (
    "an accuracy is written like '±50 at 95%': a distance above 0, and a probability between 50 % and 99.9999 %"
)
MIN_CONFIDENCE, MAX_CONFIDENCE = Fraction(1, 2), Fraction(999_999, 1_000_000)
DEFAULT_CONFIDENCE = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class Accuracy(CheckedValue):
    """A distance from the exact number, and the probability that an answer is within it."""

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
PriorInput = str | Prior | Mapping[Hashable, object] | None


@dataclass(frozen=True, slots=True)
class QueryOptions(CheckedValue):
    """The options of one question: exactly one of epsilon, noise_scale and accuracy says how much noise there is.

    `rho` stands in for epsilon where a stored answer was drawn by it; `max_epsilon` is the largest epsilon an accuracy
    may cost; `expected_rows` about how many rows the analyst expects to be selected, for planning alone.
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    prior: str | Prior | None = None
    model: str | None = None
    noise_scale: Fraction | None = None
    accuracy: Accuracy | None = None
    distance: Distance | str | None = None
    interval: bool = False
    expected_rows: int | None = None
    tail: bool | None = None
    """Whether a tenth of the prior's weight is given to a heavy tail; None where the analyst leaves it to us."""
    rho: Fraction | None = None
    max_epsilon: Fraction | None = None
    target_accuracy: Accuracy | None = None
    """The accuracy that the epsilon was found for: the mechanism must have it too."""
    mechanism: str | None = None
    """The mechanism asked for, by the name it goes by; None where the best is chosen."""
    stored_mechanisms: tuple[str, ...] = ()
    """The mechanisms, aggregate by aggregate, that a stored answer was drawn by: no others are weighed."""

    def __post_init__(self) -> None:
        """Copy what callers made as plain values; refuse two ways to say how much noise, and numbers beyond reason."""
        for name, copier in FIELD_COPIERS.items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, copier(value))
        noise_settings = (self.epsilon, self.noise_scale, self.accuracy, self.rho)
        if sum(setting is not None for setting in noise_settings) != 1:
            raise InvalidInput("say how much noise there may be in one way: by epsilon, by noise_scale or by accuracy")
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        if self.delta is not None and self.delta < MIN_DELTA:
            raise InvalidInput("delta must be at least 1e-30")
        if not (self.tail is None or type(self.tail) is bool):
            raise InvalidInput(f"tail is True, False or left out, got {type(self.tail).__name__}")
        if self.tail is not None and self.prior is None:
            raise InvalidInput("tail says how your prior is used; give the prior too, or leave out tail")

    @property
    def requested_model(self) -> str:
        """The model asked for: by its name, or by a delta."""
        return self.model or ("dp" if self.delta is None and self.rho is None else "approx-dp")


def _copy_prior(prior_input: object) -> str | Prior:
    if has_type(prior_input, str):
        return copy_text(prior_input, "a prior")
    return copy_prior(prior_input, "a prior must be text or a Prior")


def _copy_distance(distance_input: object) -> str | Distance:
    return copy_text(distance_input, "a distance") if has_type(distance_input, str) else copy_distance(distance_input)


def _copy_names(names: object) -> tuple[str, ...]:
    return tuple(copy_text(name, "a mechanism") for name in copy_list(names, "mechanisms"))


EXACT_FIELDS = ("epsilon", "delta", "noise_scale", "rho", "max_epsilon")
FIELD_COPIERS: Mapping[str, Callable[[object], object]] = {
    **{name: partial(copy_exact_number, subject=name) for name in EXACT_FIELDS},
    **dict.fromkeys(("accuracy", "target_accuracy"), Accuracy.parse),
    "prior": _copy_prior,
    "distance": _copy_distance,
    "model": partial(copy_text, subject="a model"),
    "mechanism": partial(copy_text, subject="a mechanism"),
    "expected_rows": partial(as_int, name="the number of rows expected"),
    "interval": bool,
    "stored_mechanisms": _copy_names,
}
"""How each option is copied, so that it is made of plain values alone."""


def build_query_options(
    epsilon: object = None,
    delta: object = None,
    prior: PriorInput = None,
    model: str | None = None,
    *,
    noise_scale: object = None,
    accuracy: object = None,
    distance: Distance | str | None = None,
    interval: bool = False,
    rows: object = None,
    tail: bool | None = None,
    max_epsilon: Fraction | None = None,
    mechanism: str | None = None,
) -> QueryOptions:
    """Build the options of a question from plain numbers and texts; numbers by their decimal text."""
    return QueryOptions(
        epsilon=None if epsilon is None else as_positive(epsilon, "epsilon"),
        delta=None if delta is None else as_number_between(delta, 0, 1, "delta"),
        prior=Prior.weights(prior) if isinstance(prior, Mapping) else prior,
        model=model,
        noise_scale=None if noise_scale is None else as_positive(noise_scale, "the noise scale"),
        accuracy=None if accuracy is None else Accuracy.parse(accuracy),
        distance=distance,
        interval=bool(interval),
        expected_rows=None if rows is None else min(as_int(rows, "the number of rows expected"), MAX_EXPECTED_ROWS),
        tail=tail,
        max_epsilon=max_epsilon,
        mechanism=mechanism,
    )


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse an epsilon beyond what is useful."""
    if not MIN_QUERY_EPSILON <= epsilon <= MAX_QUERY_EPSILON:
        raise InvalidInput(f"epsilon must be between 1e-9 and 10000, got {format_exact(epsilon)}")
