"""How near an answer should be, with which probability: "±50 at 95%"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidInput
from discreet.exact import format_exact, parse_rational
from discreet.plain import copy_exact_number, copy_text, has_type, require_exact_class

ACCURACY_PATTERN = re.compile(
    r"\s*(?:±|\+/?-|within\s)?\s*([0-9][0-9_,.e+-]*|\.[0-9]+)\s*(?:(?:at|with)\s+(.+?))?\s*", re.I
)
ACCURACY_GRAMMAR = (
    "an accuracy is written like '±50 at 95%': a distance above 0, and a probability between 50 % and 99.9999 %"
)
MIN_CONFIDENCE, MAX_CONFIDENCE = Fraction(1, 2), Fraction(999_999, 1_000_000)
DEFAULT_CONFIDENCE = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Within this distance of the exact number, with this probability."""

    distance: Fraction
    confidence: Fraction

    def __post_init__(self) -> None:
        """Copy two exact numbers: a distance above 0 and a probability that means something."""
        object.__setattr__(self, "distance", copy_exact_number(self.distance, "the distance of an accuracy"))
        object.__setattr__(self, "confidence", copy_exact_number(self.confidence, "the probability of an accuracy"))
        if not self.distance > 0 or not MIN_CONFIDENCE <= self.confidence <= MAX_CONFIDENCE:
            raise InvalidInput(f"this accuracy cannot be asked for; {ACCURACY_GRAMMAR}")

    @staticmethod
    def parse(text: object) -> Accuracy:
        """Read it from text; without a probability 95 % is meant."""
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
        distance = parse_rational(match.group(1).replace(",", "").replace("_", ""), "the distance of an accuracy")
        return Accuracy(distance, _parse_confidence(match.group(2)))

    def __str__(self) -> str:
        percent = format_exact(self.confidence * 100)
        return f"±{format_exact(self.distance)} at {percent}%"


def _parse_confidence(text: str | None) -> Fraction:
    if text is None:
        return DEFAULT_CONFIDENCE
    number, percent, trailing = text.strip().partition("%")
    if trailing:
        raise InvalidInput(f"the accuracy could not be read at {text[:40]!r}; {ACCURACY_GRAMMAR}")
    value = parse_rational(number.strip(), "the probability of an accuracy")
    return value / 100 if percent else value
