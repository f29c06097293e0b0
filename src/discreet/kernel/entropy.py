"""The one door to randomness: bits from the operating system's generator, or from a script in tests.

Nothing else in discreet touches a generator. There is no seed and no buffer: a forked worker shares no state
with its parent, so the two draw apart.
"""

from __future__ import annotations

import os
from typing import Protocol

from discreet.errors import InvalidInput


class Entropy(Protocol):
    """Where random bytes come from."""

    def take(self, count: int) -> bytes:
        """`count` fresh bytes, uniform and independent of all others."""
        ...


class SystemEntropy:
    """The operating system's cryptographic generator."""

    def take(self, count: int) -> bytes:
        return os.urandom(count)


SYSTEM = SystemEntropy()


def source(entropy: Entropy | None) -> Entropy:
    """The entropy handed in, or the system's."""
    if entropy is not None and not hasattr(entropy, "take"):
        raise InvalidInput(f"entropy must have take(count), like SystemEntropy; got {type(entropy).__name__}")
    return SYSTEM if entropy is None else entropy


def bits(count: int, entropy: Entropy) -> int:
    """A uniform integer of `count` bits."""
    size = -(-count // 8)
    return int.from_bytes(entropy.take(size), "big") >> (8 * size - count)
