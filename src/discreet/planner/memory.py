"""The memory that parallel questions share: a process takes the large steps of planning and reply one at a time, and
draws few large answers of a data set at once.

What is large follows from the question and the schema, never from the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import RLock

LARGE_GRID_CELLS = 2**16
"""Cells of a grid of conditions, or labels of the parts that counts are made of."""
LARGE_REPLY_NUMBERS = 512
"""Numbers of a reply."""
MAX_LARGE_ANSWERS = 4
"""Large answers of one data set that are read and drawn at once; reading may wait for a database, so one is too few."""
_large_step_lock = RLock()


@contextmanager
def serialize_large_steps(is_large: bool) -> Iterator[None]:
    """Wait, before a large step, until no other thread of this process is at one; small steps do not wait."""
    with _large_step_lock if is_large else nullcontext():
        yield
