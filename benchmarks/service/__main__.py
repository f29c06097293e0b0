"""Run the load, then print what was seen; fail where a bar is missed."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

from benchmarks.measure import Line, report
from benchmarks.service import timing
from benchmarks.service.load_clients import EPSILON
from benchmarks.service.running_service import RunningService, run_service
from benchmarks.service.table import write_people
from discreet import Custodian

ROOT = Path(__file__).parents[2]
CLIENTS, RATE = 16, 50


def run_load(served: RunningService, rate: float, seconds: float, first: int) -> tuple[list[float], list[str]]:
    """What the clients of another process saw."""
    words = [str(served.port), served.token, str(CLIENTS), str(rate), str(seconds), str(first)]
    command = [sys.executable, "-m", "benchmarks.service.load_clients", *words]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)
    return result["seconds"], result["wrong"]


def compute_percentile(seconds: list[float], percent: int) -> float:
    """A percentile in milliseconds."""
    return 1000 * statistics.quantiles(seconds, n=100)[percent - 1]


def measure_lines(schema: Path, seconds: float, workers: int) -> list[Line]:
    """At the rate that is asked for, then flat out; and whether the ledger is exact afterwards."""
    with run_service(schema, workers) as served:
        warm, _ = run_load(served, RATE, 3, 1_500_000)
        steady, wrong = run_load(served, RATE, seconds, 0)
        flat, more_wrong = run_load(served, 0, seconds, 300_000)
    for entry in (wrong + more_wrong)[:5]:
        print(entry)
    with Custodian.open(schema) as custodian:
        charges = [entry for entry in custodian.history(limit=10**6) if entry.kind == "charge"]
        spent = custodian.budget()[0].epsilon or Fraction(0)
        custodian.verify()
    expected_epsilon = len(charges) * Fraction(EPSILON)
    unanswered = len(charges) - len(warm) - len(steady) - len(flat)
    percentiles = f"p50 {compute_percentile(flat, 50):.0f} ms, p95 {compute_percentile(flat, 95):.0f} ms"
    print(f"flat out: {len(flat) / seconds:.1f} answers a second, {percentiles}")
    return [
        Line(f"p50 of {len(steady)} answers at {RATE} a second", compute_percentile(steady, 50), "ms", 50, False),
        Line("p95 of the same", compute_percentile(steady, 95), "ms", 150, False),
        Line("errors", len(wrong) + len(more_wrong), "", 0, False),
        Line("answers a second, flat out", len(flat) / seconds, "1/s", RATE, True),
        Line("epsilon in the ledger that is of no answer", float(abs(spent - expected_epsilon)), "", 0, False),
        Line("charges that no answer was seen for", abs(unanswered), "", 0, False),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timing", type=int, metavar="MANY", help="compare so many replies of each kind instead")
    options = parser.parse_args()
    # On the disk of the checkout: on a file system in memory, a ledger's commit would cost nothing.
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="service-") as folder:
        if options.timing:
            return report(lambda: timing.measure_lines(Path(folder), options.timing))
        schema = write_people(Path(folder), options.rows)
        return report(lambda: measure_lines(schema, options.seconds, options.workers))


if __name__ == "__main__":
    sys.exit(main())
