"""What a promise costs, and the part of the data it is about."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from discreet.errors import InvalidInput
from discreet.exact import shown
from discreet.plain import is_a, plain_exact, plain_text

Kind = Literal["partition", "individual"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ZERO = Fraction(0)
SMALLEST = Fraction(1, 10**40)
LARGEST = 10**9
"""The most one amount may be; totals have eleven digits more."""
LONGEST_NAME = 200
LEAST_PLACES = 9
LEAST_EPSILON, LEAST_DELTA = Fraction(1, 10**LEAST_PLACES), Fraction(1, 10**30)
"""The least that may be asked for: a refusal advises nothing below it."""


@dataclass(frozen=True, slots=True)
class Spend:
    """What one answer costs.

    `epsilon` is its pure loss and `rho` the zCDP of that same loss (epsilon^2/2, or epsilon^2/8 for the exponential
    mechanism); `other` the zCDP of what is not pure, as of Gaussian noise; `delta` the chance that all this fails.
    """

    epsilon: Fraction = ZERO
    rho: Fraction = ZERO
    other: Fraction = ZERO
    delta: Fraction = ZERO

    def __post_init__(self) -> None:
        """Every part is an amount, and delta below 1."""
        for name in ("epsilon", "rho", "other", "delta"):
            object.__setattr__(self, name, amount(getattr(self, name), name))
        if self.delta >= 1:
            raise InvalidInput("delta must be below 1; a delta of 1 promises nothing")

    def __add__(self, more: Spend) -> Spend:
        """Sequential composition."""
        epsilon, rho = self.epsilon + more.epsilon, self.rho + more.rho
        return Spend(epsilon, rho, self.other + more.other, self.delta + more.delta)


@dataclass(frozen=True, slots=True)
class Part:
    """An account of its own for one partition or one individual; one unit touches at most `reach` of a kind.

    `name` is in one spelling: two names are two accounts.
    """

    kind: Kind
    name: str
    reach: int

    def __post_init__(self) -> None:
        """The kind is known, the name is text, and a unit reaches at least one account."""
        if type(self.kind) is not str or self.kind not in KINDS:
            raise InvalidInput(f"a part is a partition or an individual, got {self.kind!r:.40}")
        object.__setattr__(self, "name", text(self.name, "a part's name"))
        if type(self.reach) is not int or self.reach < 1:
            raise InvalidInput("a part's reach must be a whole number of at least 1")


def amount(value: object, name: str) -> Fraction:
    """An exact number that can be charged: 0, or between 10^-40 and 10^9."""
    own = plain_exact(value, name)
    if own < 0 or own > LARGEST or 0 < own < SMALLEST:
        raise InvalidInput(f"{name} must be 0 or between 10^-40 and 10^9, got {shown(own)}")
    return own


def text(value: object, name: str, longest: int | None = LONGEST_NAME) -> str:
    """Text that every engine keeps as it is: not empty, valid Unicode, without the character 0."""
    own = plain_text(value, name) if is_a(value, str) else ""
    if not own or (longest is not None and len(own) > longest):
        limit = f" of at most {longest} characters" if longest is not None else ""
        raise InvalidInput(f"{name} must be text{limit}, and not empty")
    if "\0" in own or not _encodes(own):
        raise InvalidInput(f"{name} must be plain text: no character 0, no half of a character")
    return own


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
