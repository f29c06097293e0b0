"""Registration with discreet, once for each table and apart from the answers: tells its time and its memory."""

from __future__ import annotations

import time

from benchmarks.query.contestant import file, peak_megabytes, tell
from discreet import Custodian

if __name__ == "__main__":
    start = time.perf_counter()
    Custodian.open(file("yaml")).close()
    tell({"seconds": time.perf_counter() - start, "peak": peak_megabytes()})
