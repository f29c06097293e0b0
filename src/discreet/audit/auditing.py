"""An audit: half of the draws choose an event, the other half say by how much its probabilities differ at least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from discreet.audit.bound import compute_epsilon_bound
from discreet.audit.choosing import choose_event, format_event
from discreet.audit.draws import Keys, OutputSample
from discreet.audit.events import CandidateEvent
from discreet.audit.reading import read_output_pair
from discreet.errors import InvalidInput
from discreet.exact import as_number_between, as_rational, format_exact
from discreet.formatting import (
    EXACT_DIGITS,
    format_budget_left,
    format_cost,
    format_lower,
    format_percent_at_least,
    format_upper,
    round_down,
)

MIN_DRAWS, MAX_DRAWS = 1000, 100_000_000
DATA_SETS = ("D", "D2")
MAX_CONFIDENCE = 1 - Fraction(1, 10**12)
MIN_DIGITS, MAX_DIGITS = 4, 17


class Mechanism(Protocol):
    """Any callable that returns n independent draws: an array, with a row for each, or a list."""

    def __call__(self, data: Any, n: int, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Event:
    """What was looked for among the test draws, and how often it was seen."""

    words: str
    likelier: str
    """The data set that makes it likelier: D or D2."""
    count: int
    other_count: int
    draws: int
    """How many test draws there were with each data set."""

    @property
    def p(self) -> float:
        """How often it was seen with the data set that makes it likelier."""
        return self.count / self.draws

    @property
    def q(self) -> float:
        """How often it was seen with the other one."""
        return self.other_count / self.draws

    def __str__(self) -> str:
        other = DATA_SETS[self.likelier == DATA_SETS[0]]
        counts = f"{self.count:,} of {self.draws:,} times with {self.likelier} and {self.other_count:,} with {other}"
        return f"Seen {counts}: {self.words}"


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found: with this confidence, no epsilon below `lower_bound` holds."""

    lower_bound: float
    event: Event
    epsilon: Fraction
    delta: Fraction
    draws: int
    """From each data set; half of them chose the event."""
    confidence: Fraction
    evidence: AuditEvidence = field(repr=False)
    """The test draws by what the event is about, for the picture."""

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.lower_bound > self.epsilon

    def sentence(self) -> str:
        """What was found, in a sentence: never that a mechanism is private."""
        level = format_percent_at_least(self.confidence, EXACT_DIGITS)
        if not self.lower_bound:
            little = "the two data sets were not told apart, so this audit says little"
            return f"No violation found with {self.draws:,} draws at {level}; {little}."
        if not self.violated:
            return f"No violation above {format_upper(self.lower_bound)} found with {self.draws:,} draws at {level}."
        delta = f" with delta {format_cost(self.delta)}" if self.delta else ""
        claim = f"{format_budget_left(self.epsilon)} was claimed"
        return f"Violated: epsilon{delta} is at least {self.format_bound()} at {level}, and {claim}. {self.event}."

    def format_bound(self) -> str:
        """The bound rounded down, with as many digits as show that it is above the claim where it is."""
        for digits in range(MIN_DIGITS, MAX_DIGITS):
            if not self.violated or round_down(self.lower_bound, digits) > self.epsilon:
                return format_lower(self.lower_bound, digits)
        return format_lower(self.lower_bound, MAX_DIGITS)

    def to_json(self) -> dict[str, Any]:
        """All of it for machines; epsilon, delta and the confidence as exact text."""
        event = {"words": self.event.words, "likelier": self.event.likelier, "p": self.event.p, "q": self.event.q}
        event |= {"count": self.event.count, "other_count": self.event.other_count, "draws": self.event.draws}
        return {
            "sentence": self.sentence(),
            "violated": self.violated,
            "lower_bound": self.lower_bound,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "draws": self.draws,
            "confidence": str(self.confidence),
            "event": event,
        }

    def picture(self, path: str | Path) -> Path:
        """Draw both output distributions and the event to an .svg, .png or .html file."""
        from discreet.audit.picture import save_audit_picture

        return save_audit_picture(self, path)


@dataclass(frozen=True, eq=False, slots=True)
class AuditEvidence:
    """The keys of the test draws with D and with D2, and the event that was found."""

    keys: tuple[Keys, Keys]
    candidate: CandidateEvent


@dataclass(frozen=True, slots=True)
class Claim:
    """What is audited and how: checked once."""

    epsilon: Fraction
    delta: Fraction
    draws: int
    confidence: Fraction

    @staticmethod
    def of(epsilon: object, delta: object, draws: object, confidence: object) -> Claim:
        """The claim, or what is wrong with it."""
        claimed, gap = as_rational(epsilon, "epsilon"), as_rational(delta, "delta")
        if claimed < 0 or not 0 <= gap < 1:
            raise InvalidInput("a claim has an epsilon of at least 0 and a delta of at least 0 and below 1")
        sure = as_number_between(confidence, 0, 1, "confidence")
        if sure > MAX_CONFIDENCE:
            raise InvalidInput("confidence must be at most 1 - 10^-12: the limits are computed to about twelve digits")
        return Claim(claimed, gap, _parse_draws(draws), sure)


def _parse_draws(draws: object) -> int:
    count = as_rational(draws, "draws")
    if count.denominator != 1 or not MIN_DRAWS <= count <= MAX_DRAWS:
        allowed = f"a whole number from {MIN_DRAWS:,} to {MAX_DRAWS:,}"
        raise InvalidInput(f"draws must be {allowed}; got {format_exact(count)}")
    return int(count)


def audit_mechanism(
    mechanism: Mechanism,
    D: Any,  # noqa: N803 (as in the literature)
    D2: Any,  # noqa: N803
    epsilon: object,
    delta: object = 0,
    draws: object = 1_000_000,
    confidence: object = 0.999,
    progress: Callable[[str], None] | None = None,
) -> Audit:
    """A lower bound on the epsilon of a mechanism, from `draws` independent draws with each of two neighbours.

    `mechanism(D, n)` returns n draws: an array of numbers, truth values or strings, an array with a row for each, or a
    list of numbers, texts, moments, rows of these, or anything that can be hashed. In an array numbers are compared as
    64-bit floats; a list keeps all digits and types. A mechanism that keeps its claim on D and D2 is accused with
    probability at most 1 - confidence. An audit finds, it never proves: nothing found is nothing found.
    """
    claim = Claim.of(epsilon, delta, draws, confidence)
    show = progress or _ignore_progress
    sample, sample2 = sample_output_pair(mechanism, (D, D2), claim.draws, show)
    show("choosing an event: 2 of 4")
    candidate = choose_event(
        sample.take_every(0, 2), sample2.take_every(0, 2), float(claim.delta), float(claim.confidence)
    )
    show("testing it: 3 of 4")
    return measure_event(candidate, sample.take_every(1, 2), sample2.take_every(1, 2), claim)


def sample_output_pair(
    mechanism: Mechanism, data: tuple[Any, Any], count: int, show: Callable[[str], None]
) -> tuple[OutputSample, OutputSample]:
    """Draws with both data sets, each in one call, so that a generator seeded in the mechanism repeats nothing."""
    if not callable(mechanism):
        raise InvalidInput(f"a mechanism is called as mechanism(D, n); got {type(mechanism).__name__}")
    show("drawing with D: 0 of 4")
    outputs = mechanism(data[0], count)
    show("drawing with D2: 1 of 4")
    return read_output_pair(outputs, mechanism(data[1], count), count)


def measure_event(candidate: CandidateEvent, sample: OutputSample, sample2: OutputSample, claim: Claim) -> Audit:
    """The bound from draws that had no part in choosing the event.

    One event is tested, however many were tried: the confidence needs no other correction (see bound.md).
    """
    keys = candidate.feature.keys(sample), candidate.feature.keys(sample2)
    counts = [int(candidate.contains(sample_keys).sum()) for sample_keys in keys]
    count, other, draws = counts[candidate.direction], counts[1 - candidate.direction], min(len(sample), len(sample2))
    bound = compute_epsilon_bound(count, other, draws, float(claim.delta), float(claim.confidence))
    event = Event(format_event(candidate), DATA_SETS[candidate.direction], count, other, draws)
    return Audit(
        bound, event, claim.epsilon, claim.delta, claim.draws, claim.confidence, AuditEvidence(keys, candidate)
    )


def _ignore_progress(_: str) -> None:
    return None
