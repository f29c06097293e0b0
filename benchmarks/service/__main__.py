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
from benchmarks.service.load import EPSILON
from benchmarks.service.serving import Served, serving
from benchmarks.service.table import write_people
from discreet import Custodian

ROOT = Path(__file__).parents[2]
CLIENTS, RATE = 16, 50


def loaded(served: Served, rate: float, seconds: float, first: int) -> tuple[list[float], list[str]]:
    """What the clients of another process saw."""
    words = [str(served.port), served.token, str(CLIENTS), str(rate), str(seconds), str(first)]
    command = [sys.executable, "-m", "benchmarks.service.load", *words]
    seen = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)
    return seen["seconds"], seen["wrong"]


def share(seconds: list[float], percent: int) -> float:
    """A percentile in milliseconds."""
    return 1000 * statistics.quantiles(seconds, n=100)[percent - 1]


def lines(schema: Path, seconds: float, workers: int) -> list[Line]:
    """At the rate that is asked for, then flat out; and whether the ledger is exact afterwards."""
    with serving(schema, workers) as served:
        warm, _ = loaded(served, RATE, 3, 1_500_000)
        steady, wrong = loaded(served, RATE, seconds, 0)
        flat, more = loaded(served, 0, seconds, 300_000)
    for one in (wrong + more)[:5]:
        print(one)
    with Custodian.open(schema) as custodian:
        paid = [one for one in custodian.history(limit=10**6) if one.kind == "charge"]
        spent = custodian.budget()[0].epsilon or Fraction(0)
        custodian.verify()
    due = len(paid) * Fraction(EPSILON)
    unseen = len(paid) - len(warm) - len(steady) - len(flat)
    held = f"p50 {share(flat, 50):.0f} ms, p95 {share(flat, 95):.0f} ms"
    print(f"flat out: {len(flat) / seconds:.1f} answers a second, {held}")
    return [
        Line(f"p50 of {len(steady)} answers at {RATE} a second", share(steady, 50), "ms", 50, False),
        Line("p95 of the same", share(steady, 95), "ms", 150, False),
        Line("errors", len(wrong) + len(more), "", 0, False),
        Line("answers a second, flat out", len(flat) / seconds, "1/s", RATE, True),
        Line("epsilon in the ledger that is of no answer", float(abs(spent - due)), "", 0, False),
        Line("charges that no answer was seen for", abs(unseen), "", 0, False),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timing", type=int, metavar="MANY", help="compare so many replies of each kind instead")
    given = parser.parse_args()
    # On the disk of the checkout: on a file system in memory, a ledger's commit would cost nothing.
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="service-") as folder:
        if given.timing:
            return report(lambda: timing.lines(Path(folder), given.timing))
        schema = write_people(Path(folder), given.rows)
        return report(lambda: lines(schema, given.seconds, given.workers))


if __name__ == "__main__":
    sys.exit(main())
