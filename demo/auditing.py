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
class NamedAudit:
    """One mechanism and what its audit found."""

    title: str
    words: str
    audit: Audit


def add_discrete_laplace(count: int, draws: int) -> object:
    """A count with the noise that epsilon 1 asks for."""
    return count + DiscreteLaplace(EPSILON, 1).sample_many(draws)


def add_half_the_noise(count: int, draws: int) -> object:
    """Half the noise, as when somebody mistakes what one person can change."""
    return count + DiscreteLaplace(2 * EPSILON, 1).sample_many(draws)


def add_float_laplace(count: int, draws: int) -> object:
    """Noise of the right size in floating point, as in many a script: its last digits tell."""
    return count + np.random.default_rng().laplace(scale=1 / EPSILON, size=draws)


def run_audits() -> Iterator[NamedAudit]:
    """Each with two counts that differ by one person, claiming epsilon 1."""
    mechanisms = {
        "Ours": ("Discrete Laplace noise.", add_discrete_laplace, (5, 6)),
        "Half the noise": ("The same law, with half the scale that the claim needs.", add_half_the_noise, (5, 6)),
        "Floating point": ("The right scale, but drawn and added in floating point.", add_float_laplace, (0, 1)),
    }
    for title, (words, mechanism, pair) in mechanisms.items():
        yield NamedAudit(title, words, audit_mechanism(mechanism, *pair, EPSILON, draws=DRAWS, confidence=CONFIDENCE))
