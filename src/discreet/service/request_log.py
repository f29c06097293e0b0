"""What is written of a request: who, which route, what came of it, and its padded time. Never a question or a value."""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

LOG_FIELDS = ("at", "event", "process", "id", "method", "route", "status", "analyst", "dataset", "seconds", "where")


def write_event(event: str, stream: TextIO | None = None, **fields: object) -> None:
    """One line of JSON on stderr; of the facts, only those that a log may hold."""
    line: dict[str, object] = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
    line["process"] = os.getpid()
    line |= {name: fields[name] for name in LOG_FIELDS if fields.get(name) is not None}
    output = sys.stderr if stream is None else stream
    with suppress(OSError):  # a log that cannot be written, as on a full disk, costs no reply
        output.write(json.dumps(line) + "\n")  # at once: other processes write there too
        output.flush()


def format_error_location(error: BaseException) -> str:
    """The kind of an error and the lines it passed, without its words, which may hold anything."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    lines = [f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames]
    return f"{type(error).__name__} at {' > '.join(lines)}"
