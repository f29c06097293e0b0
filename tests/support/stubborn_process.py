"""A process that does not stop when it is told to; light, so that it starts at once."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection


def stay(_: Connection) -> None:
    """Do not look at the line."""
    time.sleep(600)
