"""The memory that parallel questions share: a process takes the large steps of planning and reply one at a time, and
draws few large answers at once.

What is large follows from the question and the schema, never from the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import BoundedSemaphore, RLock

LARGE_GRID = 2**16
"""Cells of a grid of conditions, or labels of the parts that counts are made of."""
LARGE_REPLY = 512
"""Numbers of a reply."""
DRAWS = 4
"""Large answers that are read and drawn at once; reading may wait for a database, so that one is too few."""
_large = RLock()
_draws = BoundedSemaphore(DRAWS)


@contextmanager
def one_at_a_time(large: bool) -> Iterator[None]:
    """Wait, before a large step, until no other thread of this process is at one; small steps do not wait."""
    with _large if large else nullcontext():
        yield


@contextmanager
def few_at_a_time(large: bool) -> Iterator[None]:
    """Wait, before a large answer is drawn, until fewer than `DRAWS` others are; small ones do not wait."""
    with _draws if large else nullcontext():
        yield
