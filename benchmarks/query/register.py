"""Registration with discreet, once for each table and apart from the answers: tells its time, memory and bytes."""

from __future__ import annotations

import time

from benchmarks.query.contestant import locate_file, measure_peak_megabytes, send_message
from discreet import Custodian

if __name__ == "__main__":
    start = time.perf_counter()
    Custodian.open(locate_file("yaml")).close()
    seconds = time.perf_counter() - start
    bytes_on_disk = sum(each.stat().st_size for each in locate_file("discreet").rglob("*") if each.is_file())
    send_message(
        {
            "seconds": seconds,
            "peak": measure_peak_megabytes(),
            "bytes": bytes_on_disk,
            "read": locate_file("parquet").stat().st_size,
        }
    )
