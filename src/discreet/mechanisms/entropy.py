"""The one door to randomness: bits from the operating system's generator, or from a script in tests.

Nothing else in discreet touches a generator. The system's has no seed and no buffer: a forked worker shares no state
with its parent, so the two draw apart. A release alone draws one secret key and then all else from that.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

from discreet.errors import InvalidInput
from discreet.untrusted import copy_text


class Entropy(Protocol):
    """Where random bytes come from."""

    def take(self, count: int) -> bytes:
        """`count` fresh bytes, uniform and independent of all others."""
        ...


class SystemEntropy:
    """The operating system's cryptographic generator."""

    def take(self, count: int) -> bytes:
        """`count` fresh bytes of the system's generator."""
        return os.urandom(count)


SYSTEM = SystemEntropy()


def get_entropy(entropy: Entropy | None) -> Entropy:
    """The entropy handed in, or the system's."""
    if entropy is not None and not hasattr(entropy, "take"):
        raise InvalidInput(f"entropy must have take(count), like SystemEntropy; got {type(entropy).__name__}")
    return SYSTEM if entropy is None else entropy


def sample_bits(count: int, entropy: Entropy) -> int:
    """A uniform integer of `count` bits."""
    size = -(-count // 8)
    return int.from_bytes(entropy.take(size), "big") >> (8 * size - count)


class KeyedEntropy:
    """Bytes that follow from a secret key drawn through the door: SHAKE-256 of the key, what it is for, and a count.

    The same key gives the same bytes, in any engine and any process; who does not have it cannot tell them from fresh
    ones. A release draws one key, uses it for all its parts, and forgets it.
    """

    def __init__(self, key: bytes, purpose: str) -> None:
        if not isinstance(key, bytes):
            raise InvalidInput(f"the key must be bytes such as b'abc', got {type(key).__name__}")
        self._prefix = key + copy_text(purpose, "the purpose of a key").encode() + b"\0"
        self._call_count = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes that follow from the key."""
        self._call_count += 1
        return hashlib.shake_256(self._prefix + self._call_count.to_bytes(8, "big")).digest(count)
