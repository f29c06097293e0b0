"""The most memory that MDAV of a million records has while it runs, the records included, over that of the records.

Each is measured in a process of its own: what the system says is resident at the most, less what was before there were
records. On Linux.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Line
from benchmarks.microdata.mdav import K, generate_records
from discreet.sdc.methods.microaggregate import microaggregate

ROWS = 1_000_000


def run() -> list[Line]:
    command = [sys.executable, "-m", "benchmarks.microdata.memory"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [Line(f"memory of MDAV of {ROWS:,} x 4, of the data", float(output), "times", 3, False)]


def _measure_memory_ratio() -> float:
    microaggregate(generate_records(100), K)  # compiled, and all is imported
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _read_resident_bytes("VmRSS")
    table = generate_records(ROWS)
    microaggregate(table, K)
    return (_read_resident_bytes("VmHWM") - before) / table.nbytes


def _read_resident_bytes(which: str) -> int:
    match = re.search(rf"{which}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match
    return 1024 * int(match[1])


if __name__ == "__main__":
    print(_measure_memory_ratio())
