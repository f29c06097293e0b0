"""Entropy for statistical tests that must give the same verdict every time."""

from __future__ import annotations

import random


class Stream:
    """Reproducible bytes."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    def take(self, count: int) -> bytes:
        return self._generator.randbytes(count)
