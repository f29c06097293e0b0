"""Secrets and identifiers that nobody can guess: the service's only door to randomness."""

from __future__ import annotations

import base64

from discreet.mechanisms.entropy import SYSTEM

IDENTIFIER_BYTES = 16
"""Bytes of an identifier: two alike are not to be expected."""


def generate_secret(count: int = 32) -> str:
    """`count` fresh bytes as base64url text without padding."""
    return base64.urlsafe_b64encode(SYSTEM.take(count)).rstrip(b"=").decode()


def generate_identifier() -> str:
    """A fresh name of 32 hexadecimal digits."""
    return SYSTEM.take(IDENTIFIER_BYTES).hex()
