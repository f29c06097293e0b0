"""How near an answer should be, with which probability: "±50 at 95%"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidInput
from discreet.exact import rational_text, shown
from discreet.plain import is_a, plain_exact, plain_text, require_own

TEXT = re.compile(r"\s*(?:±|\+/?-|within\s)?\s*([0-9][0-9_,.e+-]*|\.[0-9]+)\s*(?:(?:at|with)\s+(.+?))?\s*", re.I)
GRAMMAR = "an accuracy is written like '±50 at 95%': a distance above 0, and a probability between 50 % and 99.9999 %"
LEAST, MOST = Fraction(1, 2), Fraction(999_999, 1_000_000)
USUAL = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Within this distance of the exact number, with this probability."""

    distance: Fraction
    confidence: Fraction

    def __post_init__(self) -> None:
        """Copy two exact numbers: a distance above 0 and a probability that means something."""
        object.__setattr__(self, "distance", plain_exact(self.distance, "the distance of an accuracy"))
        object.__setattr__(self, "confidence", plain_exact(self.confidence, "the probability of an accuracy"))
        if not self.distance > 0 or not LEAST <= self.confidence <= MOST:
            raise InvalidInput(f"this accuracy cannot be asked for; {GRAMMAR}")

    @staticmethod
    def parse(text: object) -> Accuracy:
        """Read it from text; without a probability 95 % is meant."""
        if is_a(text, Accuracy):
            own = require_own(text, Accuracy, GRAMMAR)
            return Accuracy(own.distance, own.confidence)
        if not is_a(text, str):
            raise InvalidInput(f"the accuracy could not be read: it is {type(text).__name__}, not text; {GRAMMAR}")
        said = plain_text(text, "an accuracy")
        found = TEXT.fullmatch(said) if len(said) <= 100 else None
        if found is None:
            raise InvalidInput(f"the accuracy could not be read: {said[:40]!r}; {GRAMMAR}")
        distance = rational_text(found.group(1).replace(",", "").replace("_", ""), "the distance of an accuracy")
        return Accuracy(distance, _confidence(found.group(2)))

    def __str__(self) -> str:
        percent = shown(self.confidence * 100)
        return f"±{shown(self.distance)} at {percent}%"


def _confidence(text: str | None) -> Fraction:
    if text is None:
        return USUAL
    number, percent, rest = text.strip().partition("%")
    if rest:
        raise InvalidInput(f"the accuracy could not be read at {text[:40]!r}; {GRAMMAR}")
    value = rational_text(number.strip(), "the probability of an accuracy")
    return value / 100 if percent else value
