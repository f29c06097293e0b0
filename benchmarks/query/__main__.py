"""Race on every table asked for, then print what was seen; fail where a bar is missed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from benchmarks.measure import report
from benchmarks.query.environments import ROOT
from benchmarks.query.race import run_race
from benchmarks.query.report import build_result, format_table, list_bars, list_growth_bars


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.query", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    sizes = sorted(parser.parse_args().rows)
    # On the disk of the checkout: on a file system in memory, a ledger's commit would cost nothing.
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="query-") as folder:
        races = [run_race(rows, Path(folder) / str(rows)) for rows in sizes]
    print(*(text for each in races for text in format_table(each)), "", sep="\n")
    lines = [line for each in races for line in list_bars(each)]
    lines += [line for small, large in pairwise(races) for line in list_growth_bars(small, large)]
    return report(lambda: lines, result=build_result(races))


if __name__ == "__main__":
    sys.exit(main())
