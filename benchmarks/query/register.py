"""Registration with discreet, once for each table and apart from the answers: tells its time, memory and bytes."""

from __future__ import annotations

import time

from benchmarks.query.contestant import file, peak_megabytes, tell
from discreet import Custodian

if __name__ == "__main__":
    start = time.perf_counter()
    Custodian.open(file("yaml")).close()
    took = time.perf_counter() - start
    held = sum(each.stat().st_size for each in file("discreet").rglob("*") if each.is_file())
    tell({"seconds": took, "peak": peak_megabytes(), "bytes": held, "read": file("parquet").stat().st_size})
