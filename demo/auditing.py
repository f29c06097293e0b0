"""The demo's audits: one mechanism of ours, and two that are broken on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discreet import Audit, DiscreteLaplace, audit_mechanism

DRAWS = 200_000
CONFIDENCE = 0.99999
"""A right mechanism is accused once in a hundred thousand audits at most."""
EPSILON = 1


@dataclass(frozen=True)
class Audited:
    """One mechanism and what its audit found."""

    title: str
    words: str
    audit: Audit


def ours(count: int, draws: int) -> object:
    """A count with the noise that epsilon 1 asks for."""
    return count + DiscreteLaplace(EPSILON, 1).sample_many(draws)


def halved(count: int, draws: int) -> object:
    """Half the noise, as when somebody mistakes what one person can change."""
    return count + DiscreteLaplace(2 * EPSILON, 1).sample_many(draws)


def floats(count: int, draws: int) -> object:
    """Noise of the right size in floating point, as in many a script: its last digits tell."""
    return count + np.random.default_rng().laplace(scale=1 / EPSILON, size=draws)


def audits() -> Iterator[Audited]:
    """Each with two counts that differ by one person, claiming epsilon 1."""
    told = {
        "Ours": ("Discrete Laplace noise.", ours, (5, 6)),
        "Half the noise": ("The same law, with half the scale that the claim needs.", halved, (5, 6)),
        "Floating point": ("The right scale, but drawn and added in floating point.", floats, (0, 1)),
    }
    for title, (words, mechanism, pair) in told.items():
        yield Audited(title, words, audit_mechanism(mechanism, *pair, EPSILON, draws=DRAWS, confidence=CONFIDENCE))
