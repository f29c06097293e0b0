"""A million records of six attributes published by each method: processor time, everything included."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import Line
from benchmarks.private_microdata.release_methods import DELTA, LINKED, METHODS
from benchmarks.private_microdata.tables import Field, Table
from discreet import Custodian

ROWS = 1_000_000
BAR = 60


def generate_table(rows: int) -> Table:
    """Five numbers of different widths, skewed and linked by a common cause, and a name."""
    generator = np.random.Generator(np.random.PCG64(2))
    cause = generator.gamma(2.0, 0.1, rows)
    widths = (99, 999, 9_999, 99_999, 999_999)
    numbers = [np.minimum(cause * generator.gamma(4.0, 0.25, rows), 1) * width for width in widths]
    labels = tuple(f"group {letter}" for letter in "ABCDEFGHIJ")
    names = np.minimum(10 * cause * generator.random(rows), 9)
    fields = (*(Field(f"n{place}", 0, width) for place, width in enumerate(widths)), Field("group", 0, 9, labels))
    return Table("million", fields, np.stack([*numbers, names]).astype(np.int64), "group", 0)


def list_bars() -> list[Line]:
    """One line for each method."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        folder = Path(name)
        with Custodian.open(generate_table(ROWS).write(folder / "table")) as custodian:
            for method in METHODS:
                delta_options = {"delta": DELTA} if method == LINKED else {}
                start = time.process_time()
                custodian.publish(method, folder / f"{method}.parquet", epsilon=1, **delta_options)
                seconds = time.process_time() - start
                lines.append(Line(f"{ROWS:,} x 6 by {method}, processor", seconds, "s", BAR, False))
    return lines
