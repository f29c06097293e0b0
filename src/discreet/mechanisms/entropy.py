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
    """Protocol of a source of random bytes, which every draw takes as `entropy`.

    `SYSTEM` is used wherever none is given. Tests pass a `ScriptedEntropy` and assert the exact output.

    Example:
        >>> from discreet.mechanisms import SYSTEM
        >>> len(SYSTEM.take(16))
        16
    """

    def take(self, count: int) -> bytes:
        """`count` fresh bytes, uniform and independent of all others."""
        ...


class SystemEntropy:
    """The cryptographic generator of the operating system; `SYSTEM` is the one instance that is needed.

    Example:
        >>> from discreet.mechanisms import SystemEntropy
        >>> len(SystemEntropy().take(16))
        16
    """

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
    """Bytes that follow from a secret key: SHAKE-256 of the key, its purpose and a counter.

    The same key gives the same bytes, in any engine and any process; without the key they cannot be distinguished from
    random bytes. A release draws one key, uses it for all its parts, and forgets it.

    Args:
        key: Secret random bytes.
        purpose: What the bytes are for; another purpose gives other bytes.

    Raises:
        InvalidInput: The key is not bytes, or the purpose is not text.

    Example:
        >>> from discreet.mechanisms import KeyedEntropy
        >>> first, second = KeyedEntropy(b"secret", "rows"), KeyedEntropy(b"secret", "rows")
        >>> first.take(8) == second.take(8)
        True
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
