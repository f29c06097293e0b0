"""The memory that parallel questions share: a process takes the large steps of planning and reply one at a time.

What is large follows from the question and the schema, never from the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import RLock

LARGE_GRID = 2**16
"""Cells of a grid of conditions, or labels of the parts that counts are made of."""
LARGE_REPLY = 512
"""Numbers of a reply."""
_large = RLock()


@contextmanager
def one_at_a_time(large: bool) -> Iterator[None]:
    """Wait, before a large step, until no other thread of this process is at one; small steps do not wait."""
    with _large if large else nullcontext():
        yield
