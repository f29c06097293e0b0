"""The memory that parallel questions share: a process takes the large steps of planning and reply one at a time, and
draws few large answers of a data set at once.

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
LARGE_DRAWS = 4
"""Large answers of one data set that are read and drawn at once; reading may wait for a database, so one is too few."""
_large = RLock()


@contextmanager
def one_at_a_time(large: bool) -> Iterator[None]:
    """Wait, before a large step, until no other thread of this process is at one; small steps do not wait."""
    with _large if large else nullcontext():
        yield
